//! The thread that keeps checkpoint and recovery point close behind `flushed`.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

use store_core::{Checkpoint, LogOffset, Nanos};

use crate::append::Appended;
use crate::clock::monotonic;
use crate::directory::read_small;
use crate::error::{Error, Op};
use crate::recovery_point::{Others, PointFiles, RecoveryPoint};
use crate::shared::Shared;

/// What is written beside the log about it. Locked by the keeper, and when the log is closed.
#[derive(Debug)]
pub(crate) struct Records {
    points: PointFiles,
    checkpoint: CheckpointFile,
    /// Where the newest written point stands.
    written: LogOffset,
}

impl Records {
    pub(crate) fn new(points: PointFiles, checkpoint: CheckpointFile) -> Self {
        Self { points, checkpoint, written: LogOffset::ZERO }
    }

    /// Writes both; only for a point below `flushed`.
    pub(crate) fn write(&mut self, point: &RecoveryPoint, durably: bool) -> Result<(), Error> {
        // Each is of use without the other.
        let checkpoint = self.checkpoint.write(point.last.as_ref(), durably);
        self.points.save(point, durably)?;
        self.written = point.upto;
        checkpoint
    }
}

/// RocketMQ's `checkpoint`.
#[derive(Debug)]
pub(crate) struct CheckpointFile {
    path: PathBuf,
    others: Others,
}

impl CheckpointFile {
    /// The file of a store. One that holds none, or that cannot be read, begins anew: zeroes make
    /// RocketMQ walk the whole log.
    pub(crate) fn load(root: &Path) -> Self {
        let path = root.join("checkpoint");
        let found = read_small(&path).and_then(|bytes| Checkpoint::decode(&bytes).ok());
        Self { others: Others::of(&found.unwrap_or_default()), path }
    }

    pub(crate) fn others(&self) -> Others {
        self.others
    }

    /// Writes the five fields, given the last record that a successful sync covers: its store time,
    /// and, as RocketMQ's recovery leaves it, its first byte as what is confirmed.
    fn write(&self, last: Option<&Appended>, durably: bool) -> Result<(), Error> {
        let place = |last: &Appended| i64::try_from(last.offset.get()).unwrap_or(i64::MAX);
        let physic = last.map(|last| last.store_timestamp).unwrap_or_default();
        let checkpoint = self.others.with(physic, last.map(place).unwrap_or_default());
        let write = || {
            let mut options = File::options();
            let file = options.write(true).create(true).truncate(false).open(&self.path)?;
            // RocketMQ maps this much.
            let len = store_core::length_u64(Checkpoint::FILE_LEN);
            if file.metadata()?.len() < len {
                file.set_len(len)?;
            }
            file.write_all_at(&checkpoint.encode(), 0)?;
            if durably { file.sync_all() } else { Ok(()) }
        };
        write().map_err(|error| Error::from_std(Op::Write, &self.path, &error))
    }
}

/// A point that waits until all that it counts is flushed.
struct Pending {
    point: RecoveryPoint,
    durable_from: LogOffset,
}

impl Shared {
    pub(crate) fn records(&self) -> MutexGuard<'_, Records> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The keeper's thread. A failure is no harm, the next open reads more; closing reports it.
    pub(crate) fn keep_records(&self) {
        let mut pending = None;
        let mut next = monotonic().after(INTERVAL);
        loop {
            self.keeper.wait(Some(next));
            if self.stop.load(Ordering::SeqCst) {
                return;
            }
            if monotonic() < next {
                continue;
            }
            let waiting = pending.take().or_else(|| self.new_point());
            pending = waiting.and_then(|waiting| self.write_if_durable(waiting));
            next = monotonic().after(INTERVAL);
        }
    }

    /// A point at the log's end, if that moved. Takes no lock for longer than a look.
    ///
    /// The queues are read between two looks at the end: they count at least what lies before the
    /// first, and nothing that lies behind the second.
    fn new_point(&self) -> Option<Pending> {
        let end = |shared: &Self| {
            let tail = shared.tail();
            (tail.wrote, tail.last)
        };
        let (upto, last) = end(self);
        if upto == self.records().written {
            return None;
        }
        let point = self.point(upto, last);
        let (durable_from, _) = end(self);
        Some(Pending { point, durable_from })
    }

    /// Gives the point back if it must wait longer.
    fn write_if_durable(&self, pending: Pending) -> Option<Pending> {
        if self.progress.flushed() < pending.durable_from {
            return Some(pending);
        }
        let _ = self.records().write(&pending.point, false);
        None
    }

    /// Writes checkpoint and point of a log of which everything is flushed.
    pub(crate) fn write_last_point(&self, durably: bool) -> Result<(), Error> {
        let (upto, last) = {
            let tail = self.tail();
            (tail.wrote, tail.last)
        };
        let point = self.point(upto, last);
        self.records().write(&point, durably)
    }

    fn point(&self, upto: LogOffset, last: Option<Appended>) -> RecoveryPoint {
        let others = self.records().checkpoint.others;
        RecoveryPoint::new(self.options.segment_size, others, upto, last, &self.queues)
    }
}

/// RocketMQ's scheduler writes the checkpoint as often.
const INTERVAL: Nanos = Nanos::new(1_000_000_000);
