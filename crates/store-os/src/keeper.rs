//! The thread that keeps checkpoint and recovery point close behind `flushed`.

use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use store_core::{Checkpoint, LogOffset, Nanos};

use crate::append::Appended;
use crate::error::{Error, Op};
use crate::files::{Files, Kind};
use crate::recovery_point::{Others, PointFiles, RecoveryPoint};
use crate::shared::Shared;
use crate::sync::{MutexGuard, Ordering};

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
    pub(crate) fn write(
        &mut self,
        point: &RecoveryPoint,
        files: &dyn Files,
        durably: bool,
    ) -> Result<(), Error> {
        // Each is of use without the other.
        let checkpoint = self.checkpoint.write(point.last.as_ref(), files, durably);
        self.points.save(point, files, durably)?;
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
    pub(crate) fn load(root: &Path, files: &dyn Files) -> Self {
        let path = root.join("checkpoint");
        let found = read_head(files, &path).and_then(|bytes| Checkpoint::decode(&bytes).ok());
        Self { others: Others::of(&found.unwrap_or_default()), path }
    }

    pub(crate) fn others(&self) -> Others {
        self.others
    }

    /// Writes the five fields, given the last record that a successful sync covers: its store time,
    /// and, as RocketMQ's recovery leaves it, its first byte as what is confirmed.
    fn write(
        &self,
        last: Option<&Appended>,
        files: &dyn Files,
        durably: bool,
    ) -> Result<(), Error> {
        let place = |last: &Appended| i64::try_from(last.offset.get()).unwrap_or(i64::MAX);
        let physic = last.map(|last| last.store_timestamp).unwrap_or_default();
        let checkpoint = self.others.with(physic, last.map(place).unwrap_or_default());
        let write = || {
            let file = files.open_or_create(&self.path)?;
            // RocketMQ maps this much.
            let len = store_core::length_u64(Checkpoint::FILE_LEN);
            if file.len()? < len {
                file.set_len(len)?;
            }
            file.write_all_at(&checkpoint.encode(), 0)?;
            if durably { file.sync_all() } else { Ok(()) }
        };
        write().map_err(|error| Error::from_std(Op::Write, &self.path, &error))
    }
}

/// What the keeper remembers from one time to the next.
#[derive(Debug, Default)]
pub(crate) struct Keeping {
    pending: Option<Pending>,
}

impl Keeping {
    /// RocketMQ's scheduler writes the checkpoint as often.
    pub(crate) const INTERVAL: Nanos = Nanos::new(1_000_000_000);
}

/// The beginning of a regular file, as far as a checkpoint goes.
fn read_head(files: &dyn Files, path: &Path) -> Option<Vec<u8>> {
    let Kind::File { len } = files.kind(path).ok()? else { return None };
    let len = usize::try_from(len).unwrap_or(Checkpoint::FILE_LEN).min(Checkpoint::FILE_LEN);
    let mut bytes = vec![0; len];
    files.open_to_read(path).ok()?.read_exact_at(&mut bytes, 0).ok()?;
    Some(bytes)
}

/// A point that waits until all that it counts is flushed.
#[derive(Debug)]
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
        let mut keeping = Keeping::default();
        let mut next = self.now().after(Keeping::INTERVAL);
        loop {
            self.keeper.wait(Some(next));
            if self.stop.load(Ordering::SeqCst) {
                return;
            }
            if self.now() < next {
                continue;
            }
            self.keep(&mut keeping);
            next = self.now().after(Keeping::INTERVAL);
        }
    }

    /// What the keeper does each time.
    pub(crate) fn keep(&self, keeping: &mut Keeping) {
        let waiting = keeping.pending.take().or_else(|| self.new_point());
        keeping.pending = waiting.and_then(|waiting| self.write_if_durable(waiting));
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
        let _ = self.records().write(&pending.point, self.directory.files(), false);
        None
    }

    /// Writes checkpoint and point of a log of which everything is flushed.
    pub(crate) fn write_last_point(&self, durably: bool) -> Result<(), Error> {
        let (upto, last) = {
            let tail = self.tail();
            (tail.wrote, tail.last)
        };
        let point = self.point(upto, last);
        self.records().write(&point, self.directory.files(), durably)
    }

    fn point(&self, upto: LogOffset, last: Option<Appended>) -> RecoveryPoint {
        let others = self.records().checkpoint.others;
        RecoveryPoint::new(self.options.segment_size, others, upto, last, &self.queues)
    }
}
