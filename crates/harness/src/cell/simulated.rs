//! A cell on a simulated disk: strategies and the log's own code, in time that passes only here.
//!
//! The log is that of `store-os`, stepped through without threads, on files in memory: placement,
//! staging, watermarks, what a sync covers and when a strategy acts are what they are on a real
//! disk. Nothing is written anywhere, so neither root nor FUSE nor free space is needed, and the
//! same seed gives the same figures on every machine.
//!
//! What takes time, and how long, is assumed:
//!
//! - A sync takes what the disk's type takes ([`crashlab::block::Timing`], as for emulated disks)
//!   to write the whole pages that it covers and to flush. The file system takes nothing, and makes
//!   no writes of its own; nothing else is on the disk, and nothing is written back before a sync.
//! - An append takes [`APPEND`] and a nanosecond for each [`BYTES_PER_NS`] bytes, one producer's
//!   after the other's as under the log's lock; bringing staged bytes to the page cache takes as
//!   long for as many. There are enough processors.
//! - Whoever waits, producer or lane, goes on [`WAKE_UP`] after it is woken.
//! - Segments and checkpoints are made in no time. The page cache has no limits.

mod device;
mod files;
mod lanes;
mod producer;
mod watch;
mod world;

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use crashlab::block::DiskType;
use store_core::{AckAt, Event, FlushStrategy, Lane, Nanos, Wait};
use store_os::{LogOptions, OpenError, Platform, SteppedLog};

pub(crate) use self::device::Device;
use self::files::MemoryFiles;
use self::world::{Ran, World};
use super::evidence::{Events, Evidence};
use super::{Measured, Place, Setting, mean_record_bytes, shape};
use crate::clock::{float, wall_ms};
use crate::format;
use crate::load::{Bodies, Load};
use crate::profile::{Strategy, Workload};
use crate::recorder::Recorder;
use crate::results::{AckPromise, Cell, Check, Level};
use crate::{strategy, validity};

/// Runs one cell; `None` if the run was interrupted meanwhile.
///
/// # Errors
///
/// If the log refuses its settings or an append; there is no device that could fail.
pub(super) fn measure(
    setting: &Setting<'_>,
    disk: DiskType,
    place: &Place,
    strategy: &Strategy,
    workload: &Workload,
) -> Result<Option<Measured>> {
    let started_at_ms = wall_ms();
    let settings = &strategy.settings;
    let bodies = Bodies::mixed(setting.seed, &workload.message_bytes)?;
    let load = Load::beginning(shape(setting, place, settings, workload)?, bodies, BEGINNING);
    let recorder = Arc::new(Recorder::default());
    let observer: Arc<Recorder> = Arc::clone(&recorder);
    let files = MemoryFiles::default();
    files.set(BEGINNING);
    let platform = Platform::new(Arc::new(files.clone()));
    let options = LogOptions { observer: Some(observer), platform, ..LogOptions::default() };
    let root = Path::new("/simulated");
    let opened = strategy::open_by(&Stepped, root, settings, setting.segment_bytes, options);
    let (log, answers) = opened.with_context(|| format!("strategy {}", strategy.name))?;
    let has_interval = strategy::interval(settings).is_some();
    let world = World::new(setting, &load, &files, &recorder, (log, answers), disk, has_interval)?;
    let ran = world.run().with_context(|| format!("strategy {}", strategy.name))?;
    let Some(Ran { window, produced }) = ran else { return Ok(None) };
    let mut commits = recorder.commits();
    if answers.stages {
        // The log's step is whole; what it takes has passed when the lane was done with it.
        for commit in &mut commits {
            commit.ended = commit.started.after(copying(commit.upto.since(commit.from)));
        }
    }
    let events = Events { commits, flushes: recorder.flushes() };
    let log_bytes = window.log_bytes;
    let record_bytes = mean_record_bytes(&workload.message_bytes)?;
    let evidence = Evidence { said: None, window, produced, events, record_bytes };
    let mut measured = evidence.cell(setting, place, strategy, workload, started_at_ms);
    if let Some(check) = sustained(&measured.cell, disk, log_bytes) {
        validity::add(&mut measured.cell, check);
    }
    Ok(Some(measured))
}

/// What every cell on such a disk has to say.
pub(crate) fn label(disk: DiskType) -> Check {
    let time = |nanos: Nanos| format::duration(float(nanos.get()));
    Check {
        code: "simulated_disk".to_owned(),
        level: Level::Label,
        value: format!(
            "SIMULATED {disk} in virtual time: an append is taken to last {} and 1 ns for each \
             {BYTES_PER_NS} bytes, a wake-up {}, a file system nothing",
            time(APPEND),
            time(WAKE_UP),
        ),
        rule: "there is a disk, and time is the machine's".to_owned(),
    }
}

/// What moving that many bytes in memory takes, with what there is to do beside it.
pub(crate) fn copying(bytes: u64) -> Nanos {
    APPEND.after(Nanos::new(bytes / BYTES_PER_NS))
}

/// A simulated page cache takes everything: a rate that the disk cannot follow is one that no
/// kernel would let pass for long.
fn sustained(cell: &Cell, disk: DiskType, log_bytes: u64) -> Option<Check> {
    let disk_per_s = disk.timing().bytes_per_s;
    if cell.ack_at == AckPromise::Flushed || disk_per_s == 0 {
        return None;
    }
    let per_s = float(log_bytes) / (float(cell.measured_ns) / 1e9);
    let level = if per_s > float(disk_per_s) { Level::Label } else { Level::Pass };
    let [appended, written] = [per_s, float(disk_per_s)].map(format::bytes);
    Some(Check {
        code: ABSORBED.to_owned(),
        level,
        value: format!("{appended}/s appended, the disk writes {written}/s"),
        rule: "no more is appended than the disk writes: the simulated page cache has no limit"
            .to_owned(),
    })
}

/// Opens logs that are stepped, and asks their strategies what they answer every append.
struct Stepped;

impl strategy::Opener for Stepped {
    type Opened = (SteppedLog, Answers);

    fn open(
        &self,
        root: &Path,
        options: LogOptions,
        strategy: impl FlushStrategy + Send + 'static,
    ) -> Result<Self::Opened, OpenError> {
        let answers = Answers::of(&strategy);
        SteppedLog::open(root, options, strategy).map(|log| (log, answers))
    }
}

/// What a strategy answers, whatever happens.
#[derive(Clone, Copy, Debug)]
struct Answers {
    acks_flushed: bool,
    stages: bool,
    /// Whether an append wakes each of the lanes.
    appended_wakes: [bool; 2],
    committed_wakes_flush: bool,
}

impl Answers {
    fn of(strategy: &impl FlushStrategy) -> Self {
        let appended = Event::Appended(Wait::Yes);
        Self {
            acks_flushed: strategy.ack(Wait::Yes) == AckAt::Flushed,
            stages: strategy.uses(Lane::Commit),
            appended_wakes: Lane::ALL.map(|lane| strategy.wakes(lane, appended)),
            committed_wakes_flush: strategy.wakes(Lane::Flush, Event::Committed),
        }
    }
}

/// What an append takes beside its bytes: about what one takes on a server's processor.
const APPEND: Nanos = Nanos::from_micros(1);
/// Checksum and copy: 4 GB/s.
const BYTES_PER_NS: u64 = 4;
/// From waking a thread to its going on; on a machine that is not busy 5 to 50 µs.
const WAKE_UP: Nanos = Nanos::from_micros(10);
/// When virtual time begins: not at zero, which stands for "not yet".
const BEGINNING: Nanos = Nanos::from_millis(1000);
/// The code of the check that the disk can follow.
pub(crate) const ABSORBED: &str = "simulated_page_cache";

#[cfg(test)]
mod tests;
