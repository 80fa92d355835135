//! The log at the same work.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use store_core::{Message, QueueId, Wait};
use store_os::{Log, Queue};

use super::clocked::{Bench, Measured, for_a_time, once};
use super::{COPY_BYTES, Contender, WINDOW, Work};
use crate::clock::now;
use crate::load::Bodies;
use crate::profile::{Io, Prealloc, Settings};
use crate::recorder::Recorder;
use crate::strategy;

/// Producers that wait for each record's sync.
pub(super) fn sync(
    bench: &Bench<'_>,
    work: Work,
    root: &Path,
    contender: Contender,
) -> Result<Measured> {
    let io = match contender {
        Contender::Mapped => Io::Mapped,
        Contender::Positioned => Io::Positioned,
        _ => io(bench),
    };
    let mut settings = group_commit(io);
    if let (Contender::Growing, Settings::GroupCommit { prealloc, .. }) = (contender, &mut settings)
    {
        *prealloc = Prealloc::None;
    }
    let log = open(root, &settings, work.file_bytes)?;
    let bodies = Bodies::new(SEED, work.message_bytes);
    let measured = for_a_time(bench, work.producers, |producer, window, tally| {
        let queue = queue(&log, producer)?;
        let first = usize::try_from(producer)? << 16;
        for index in first.. {
            let begun = now();
            if !window.is_open(begun) {
                break;
            }
            let message = Message { body: bodies.get(index), ..Message::default() };
            let told = if contender == Contender::HandOver {
                log.append_and_wait(&queue, &message, Wait::Yes)
            } else {
                log.append_and_lead(&queue, &message, Wait::Yes)
            };
            told??;
            tally.add(begun, now());
        }
        Ok(())
    });
    log.abandon();
    measured
}

/// One producer with a window of tickets.
pub(super) fn window(bench: &Bench<'_>, work: Work, root: &Path) -> Result<Measured> {
    let log = open(root, &group_commit(io(bench)), work.file_bytes)?;
    let bodies = Bodies::new(SEED, work.message_bytes);
    let measured = for_a_time(bench, 1, |producer, window, tally| {
        let queue = queue(&log, producer)?;
        let mut tickets = VecDeque::with_capacity(WINDOW);
        for index in 0.. {
            let begun = now();
            if !window.is_open(begun) {
                break;
            }
            let message = Message { body: bodies.get(index), ..Message::default() };
            tickets.push_back((begun, log.append(&queue, &message, Wait::Yes)?));
            if tickets.len() >= WINDOW
                && let Some((begun, ticket)) = tickets.pop_front()
            {
                ticket.wait()?;
                tally.add(begun, now());
            }
            // What a sync has covered by now is told without waiting.
            let flushed = log.flushed();
            while let Some((begun, ticket)) =
                tickets.pop_front_if(|(_, ticket)| ticket.appended().end() <= flushed)
            {
                ticket.wait()?;
                tally.add(begun, now());
            }
        }
        Ok(())
    });
    log.abandon();
    measured
}

/// Producers that wait for nothing, in a segment that is ready and that nobody flushes.
pub(super) fn asynchronous(bench: &Bench<'_>, work: Work, root: &Path) -> Result<Measured> {
    let settings = Settings::FlushRealtime {
        interval: Duration::from_hours(1),
        least_pages: 0,
        thorough: Duration::from_hours(1),
        timed: true,
        io: Io::Mapped,
        prealloc: Prealloc::Fallocate,
    };
    let log = open(root, &settings, 2 * COPY_BYTES)?;
    let bodies = Bodies::new(SEED, work.message_bytes);
    let each = COPY_BYTES / u64::from(work.producers) / store_core::length_u64(work.record_bytes);
    let measured = once(bench, work.producers, each * u64::from(work.producers), |producer| {
        let queue = queue(&log, producer)?;
        for index in 0..usize::try_from(each)? {
            let message = Message { body: bodies.get(index), ..Message::default() };
            log.append_and_wait(&queue, &message, Wait::Yes)??;
        }
        Ok(())
    });
    log.abandon();
    measured
}

/// What the default profile comes to on this file system.
fn io(bench: &Bench<'_>) -> Io {
    if Log::can_write_directly(bench.directory) { Io::Direct } else { Io::Positioned }
}

fn group_commit(io: Io) -> Settings {
    Settings::GroupCommit {
        timeout: Duration::from_mins(1),
        gather: Duration::ZERO,
        siblings: 5,
        lead: true,
        io,
        prealloc: Prealloc::Zero,
    }
}

/// Opens a log, makes it take its first segment, and waits until it has made the one ahead: what it
/// costs to have segments ready belongs to the measured time, but not what the first ones cost.
fn open(root: &Path, settings: &Settings, segment_bytes: u64) -> Result<Log> {
    open_observed(root, settings, segment_bytes, &Arc::default())
}

/// The same, and every flush is kept.
pub(super) fn open_observed(
    root: &Path,
    settings: &Settings,
    segment_bytes: u64,
    recorder: &Arc<Recorder>,
) -> Result<Log> {
    let observer = Arc::clone(recorder);
    let log = strategy::open(root, settings, segment_bytes, observer).context("the log")?;
    let is_ready = || log.wait_for_segment(PATIENCE);
    let was_ready = is_ready();
    log.append_and_wait(&queue(&log, 0)?, &Message::default(), Wait::Yes)??;
    ensure!(
        was_ready && is_ready(),
        "the log's next segment of {segment_bytes} bytes was not ready in {} s",
        PATIENCE.as_secs()
    );
    Ok(log)
}

pub(super) fn queue(log: &Log, producer: u32) -> Result<Queue> {
    Ok(log.queue(b"bench-topic", QueueId::new(i32::try_from(producer)?))?)
}

const SEED: u64 = 1;
/// For a segment of some hundred MiB on a slow disk.
const PATIENCE: Duration = Duration::from_mins(1);
