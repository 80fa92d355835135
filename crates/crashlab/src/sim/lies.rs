//! Stores that lie, to show that the laboratory sees it.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use store_core::{AckAt, Action, Event, FlushStrategy, Lane, Nanos, Observed, TimestampMs, Wait};
use store_os::{Files, Held, Kind, LogFile, OpenError};

use crate::sim::plan::Machine;

/// What a store does wrong.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Lie {
    /// Producers that wait are told "ok" when the page cache has their record, and the answer is
    /// taken for that of a synchronous strategy: an answer that overtakes its sync.
    AcksBeforeSync,
    /// A later sync of a file whose sync failed is taken for its success: a retry.
    /// RocketMQ after 5.3.3, which tries a flush again (apache/rocketmq#9713).
    RetriesFailedSync,
    /// Recovery cuts in memory alone: what it should overwrite with zeroes stays on the disk.
    /// RocketMQ (apache/rocketmq#10666).
    KeepsWhatItCuts,
    /// Directories are never synced. RocketMQ, which syncs none.
    SyncsNoDirectory,
    /// Of a range that is synced the last page is left out when it is not full: lengths rounded
    /// down to pages. For mapped appends; others have no range.
    SyncsWrongRange,
    /// A failed sync counts as a success. RocketMQ up to 5.3.3 (apache/rocketmq#2706).
    SwallowsSyncErrors,
    /// Writing back is begun and waited for, but neither the disk's cache is flushed nor what is
    /// needed to find the bytes: `sync_file_range` in place of `fdatasync` and `msync`.
    WritesBackOnly,
}

impl Lie {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::AcksBeforeSync,
        Self::KeepsWhatItCuts,
        Self::RetriesFailedSync,
        Self::SwallowsSyncErrors,
        Self::SyncsNoDirectory,
        Self::SyncsWrongRange,
        Self::WritesBackOnly,
    ];
}

/// A strategy under a lie.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LyingStrategy {
    pub(crate) machine: Machine,
    pub(crate) lie: Option<Lie>,
}

impl FlushStrategy for LyingStrategy {
    fn ack(&self, wait: Wait) -> AckAt {
        let honest = self.machine.ack(wait);
        if self.lie == Some(Lie::AcksBeforeSync) { honest.min(AckAt::Committed) } else { honest }
    }

    fn wakes(&self, lane: Lane, event: Event) -> bool {
        self.machine.wakes(lane, event)
    }

    fn timeout(&self) -> Option<Nanos> {
        self.machine.timeout()
    }

    fn uses(&self, lane: Lane) -> bool {
        self.machine.uses(lane)
    }

    fn poll(&mut self, lane: Lane, now: Nanos, seen: &Observed) -> Action {
        self.machine.poll(lane, now, seen)
    }

    fn on_done(&mut self, lane: Lane, now: Nanos, seen: &Observed) {
        self.machine.on_done(lane, now, seen);
    }
}

/// Files under a lie.
#[derive(Debug)]
pub(crate) struct LyingFiles<F> {
    pub(crate) files: F,
    pub(crate) lie: Lie,
}

impl<F> LyingFiles<F> {
    fn wrap(&self, file: io::Result<Arc<dyn LogFile>>) -> io::Result<Arc<dyn LogFile>> {
        Ok(Arc::new(LyingFile { file: file?, lie: self.lie }))
    }
}

impl<F: Files> Files for LyingFiles<F> {
    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn LogFile>> {
        self.wrap(self.files.create_new(path))
    }

    fn open_to_read(&self, path: &Path) -> io::Result<Arc<dyn LogFile>> {
        self.wrap(self.files.open_to_read(path))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn LogFile>> {
        self.wrap(self.files.open(path))
    }

    fn open_or_create(&self, path: &Path) -> io::Result<Arc<dyn LogFile>> {
        self.wrap(self.files.open_or_create(path))
    }

    fn kind(&self, path: &Path) -> io::Result<Kind> {
        self.files.kind(path)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<store_os::Entry>> {
        self.files.list(directory)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.files.remove(path)
    }

    fn make_directories(&self, path: &Path) -> io::Result<()> {
        self.files.make_directories(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        if self.lie == Lie::SyncsNoDirectory { Ok(()) } else { self.files.sync_directory(path) }
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn Held>, OpenError> {
        self.files.lock(path)
    }

    fn copies_on_write(&self, path: &Path) -> io::Result<bool> {
        self.files.copies_on_write(path)
    }

    fn readers(&self) -> usize {
        self.files.readers()
    }

    fn monotonic(&self) -> Nanos {
        self.files.monotonic()
    }

    fn wall(&self) -> TimestampMs {
        self.files.wall()
    }
}

#[derive(Debug)]
struct LyingFile {
    file: Arc<dyn LogFile>,
    lie: Lie,
}

impl LyingFile {
    fn sync(&self, sync: impl Fn() -> io::Result<()>) -> io::Result<()> {
        match self.lie {
            Lie::RetriesFailedSync => sync().or_else(|_| sync()),
            Lie::SwallowsSyncErrors => sync().or(Ok(())),
            Lie::WritesBackOnly => Ok(()),
            Lie::AcksBeforeSync
            | Lie::KeepsWhatItCuts
            | Lie::SyncsNoDirectory
            | Lie::SyncsWrongRange => sync(),
        }
    }
}

impl LogFile for LyingFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.file.allocate(len)
    }

    fn write_all_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        // Only what is cut is overwritten with zeroes; elsewhere they change nothing.
        if self.lie == Lie::KeepsWhatItCuts && bytes.iter().all(|byte| *byte == 0) {
            return Ok(());
        }
        self.file.write_all_at(bytes, at)
    }

    fn read_exact_at(&self, out: &mut [u8], at: u64) -> io::Result<()> {
        self.file.read_exact_at(out, at)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.sync(|| self.file.sync_data())
    }

    fn sync_all(&self) -> io::Result<()> {
        match self.lie {
            // It stands for the syncs of what was appended only.
            Lie::WritesBackOnly => self.file.sync_all(),
            _ => self.sync(|| self.file.sync_all()),
        }
    }

    fn next_data(&self, range: Range<u64>) -> Option<Range<u64>> {
        self.file.next_data(range)
    }

    fn forget_clean_pages(&self) {
        self.file.forget_clean_pages();
    }

    fn store(&self, bytes: &[u8], at: u64) {
        self.file.store(bytes, at);
    }

    fn sync_range(&self, range: Range<u64>) -> io::Result<()> {
        let mut range = range;
        if self.lie == Lie::SyncsWrongRange {
            range.end = range.end / PAGE * PAGE;
            if range.end <= range.start {
                return Ok(());
            }
        }
        self.sync(|| self.file.sync_range(range.clone()))
    }
}

const PAGE: u64 = 4096;
