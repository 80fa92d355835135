//! One life of a log, from opening it to closing it or leaving it.

use std::path::Path;
use std::sync::Arc;

use store_os::{CloseError, LogOptions, OpenError, Platform, SteppedLog};

use crate::check::{FoundRecord, read_all};
use crate::sim::disk::{STORE, SimFiles};
use crate::sim::finding::Wrong;
use crate::sim::journal::Told;
use crate::sim::lies::{Lie, LyingFiles, LyingStrategy};
use crate::sim::plan::{Life, Plan};
use crate::sim::world::World;

/// What a life showed beside its journal.
#[derive(Debug, Default)]
pub(crate) struct Lived {
    pub(crate) wrongs: Vec<Wrong>,
    /// Openings that an injected fault refused.
    pub(crate) refused: u64,
    /// Whether the log was opened at all.
    pub(crate) was_opened: bool,
}

/// Opens the plan's log on `files`.
pub(crate) fn open(
    plan: &Plan,
    files: &SimFiles,
    lie: Option<Lie>,
) -> Result<SteppedLog, OpenError> {
    let platform = match lie {
        Some(lie) => Platform::new(Arc::new(LyingFiles { files: files.clone(), lie })),
        None => Platform::new(Arc::new(files.clone())),
    };
    let longest = plan.segment_bytes.min(store_core::length_u64(MAX_MESSAGE) + (64 << 10));
    let options = LogOptions {
        segment_size: plan.segment_size(),
        io: Some(plan.io),
        preallocate: plan.preallocate,
        staging_bytes: 2 * longest + 8 + plan.spare_staging_bytes,
        max_message_bytes: MAX_MESSAGE,
        platform,
        ..LogOptions::default()
    };
    let strategy = LyingStrategy { machine: plan.strategy.machine(), lie };
    SteppedLog::open(Path::new(STORE), options, strategy)
}

/// Lives the life to its end, which is no crash: that is taken from its journal.
pub(crate) fn live_on(
    plan: &Plan,
    life: &Life,
    files: &SimFiles,
    claimed: Vec<u64>,
    under: Option<Lie>,
) -> Lived {
    let mut lived = Lived::default();
    let Some(log) = open_at_last(plan, files, under, &mut lived) else { return lived };
    let found = {
        files.state().faults.are_off = true;
        let found = read_all(&log);
        files.state().faults.are_off = false;
        match found {
            Ok(found) => found,
            Err(error) => {
                lived.wrongs.push(Wrong::Unreadable(error.to_string()));
                return lived;
            }
        }
    };
    lived.was_opened = true;
    let end = log.marks().flushed();
    files.tell(Told::Opened(found, end));
    files.state().takes_time = false;
    let mut world = World::new(plan, life, files, log, claimed);
    world.run();
    lived.wrongs.append(&mut world.wrongs);
    let World { log, wrongs: _, .. } = world;
    if life.closes {
        close(log, files, &mut lived);
    } else {
        log.abandon();
    }
    lived
}

/// Opens the log, again if an injected fault refuses it.
fn open_at_last(
    plan: &Plan,
    files: &SimFiles,
    lie: Option<Lie>,
    lived: &mut Lived,
) -> Option<SteppedLog> {
    for _ in 0..4 {
        let fired = files.state().faults.fired.len();
        match open(plan, files, lie) {
            Ok(log) => {
                if fired < files.state().faults.fired.len() {
                    files.tell(Told::Unproven);
                }
                return Some(log);
            }
            Err(_) if fired < files.state().faults.fired.len() => {
                lived.refused += 1;
                files.state().faults.remount();
            }
            Err(error) => {
                lived.wrongs.push(Wrong::Refused(error));
                return None;
            }
        }
    }
    None
}

fn close(log: SteppedLog, files: &SimFiles, lived: &mut Lived) {
    files.state().takes_time = true;
    let fired = files.state().faults.fired.len();
    match log.close() {
        Ok(()) => files.tell(Told::Closed),
        Err(CloseError::System(_)) if fired < files.state().faults.fired.len() => {}
        Err(CloseError::Poisoned { .. }) if 0 < fired => {}
        Err(error) => lived.wrongs.push(Wrong::NotClosed(error)),
    }
}

/// The records of a log, for who checks them.
pub(crate) fn found(log: &SteppedLog) -> Result<Vec<FoundRecord>, Wrong> {
    read_all(log).map_err(|error| Wrong::Unreadable(error.to_string()))
}

/// The longest body that a plan may have.
pub(crate) const MAX_MESSAGE: usize = 4096;
