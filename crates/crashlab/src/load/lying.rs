//! Ways to break a promise, for tests that must catch them.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use group_commit::GroupCommit;
use store_core::{AckAt, Action, Event, FlushStrategy, Lane, Nanos, Observed, TimestampMs, Wait};
use store_os::{Entry, Files, Held, Kind, LogFile, OpenError};

/// How group commit is made to lie.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Lie {
    /// Acknowledges what the page cache has, before any sync.
    AckBeforeSync,
    /// Calls a failed sync again until it succeeds, as RocketMQ does since 5.3.4.
    RetriedSync,
    /// Never syncs a directory.
    SkippedDirectorySync,
    /// Takes a failed sync for a successful one, as RocketMQ does up to 5.3.3.
    SwallowedError,
    /// Calls `sync_file_range` instead of a sync, through `xfs_io` (package xfsprogs).
    SyncFileRange,
}

impl Lie {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::AckBeforeSync => "acknowledge before sync",
            Self::RetriedSync => "retried sync",
            Self::SkippedDirectorySync => "skipped directory sync",
            Self::SwallowedError => "swallowed sync error",
            Self::SyncFileRange => "sync_file_range instead of a sync",
        }
    }
}

/// Group commit that acknowledges before it syncs.
#[derive(Debug, Default)]
pub(super) struct AckBeforeSync(GroupCommit);

impl FlushStrategy for AckBeforeSync {
    fn ack(&self, _: Wait) -> AckAt {
        AckAt::Committed
    }

    fn wakes(&self, lane: Lane, event: Event) -> bool {
        self.0.wakes(lane, event)
    }

    fn timeout(&self) -> Option<Nanos> {
        self.0.timeout()
    }

    fn uses(&self, lane: Lane) -> bool {
        self.0.uses(lane)
    }

    fn poll(&mut self, lane: Lane, now: Nanos, seen: &Observed) -> Action {
        self.0.poll(lane, now, seen)
    }

    fn on_done(&mut self, lane: Lane, now: Nanos, seen: &Observed) {
        self.0.on_done(lane, now, seen);
    }
}

/// Linux's files, with another sync of the log's data, or of its directories.
#[derive(Debug)]
pub(super) struct LyingFiles {
    pub(super) real: Arc<dyn Files>,
    pub(super) lie: Lie,
}

impl LyingFiles {
    fn wrap(&self, path: &Path, file: Arc<dyn LogFile>) -> Arc<dyn LogFile> {
        Arc::new(LyingFile { real: file, lie: self.lie, path: path.to_owned() })
    }
}

impl Files for LyingFiles {
    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn LogFile>> {
        Ok(self.wrap(path, self.real.create_new(path)?))
    }

    fn open_to_read(&self, path: &Path) -> io::Result<Arc<dyn LogFile>> {
        self.real.open_to_read(path)
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn LogFile>> {
        Ok(self.wrap(path, self.real.open(path)?))
    }

    fn open_or_create(&self, path: &Path) -> io::Result<Arc<dyn LogFile>> {
        self.real.open_or_create(path)
    }

    fn kind(&self, path: &Path) -> io::Result<Kind> {
        self.real.kind(path)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<Entry>> {
        self.real.list(directory)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.real.remove(path)
    }

    fn make_directories(&self, path: &Path) -> io::Result<()> {
        self.real.make_directories(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        if self.lie == Lie::SkippedDirectorySync {
            return Ok(());
        }
        self.real.sync_directory(path)
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn Held>, OpenError> {
        self.real.lock(path)
    }

    fn copies_on_write(&self, path: &Path) -> io::Result<bool> {
        self.real.copies_on_write(path)
    }

    fn readers(&self) -> usize {
        self.real.readers()
    }

    fn monotonic(&self) -> Nanos {
        self.real.monotonic()
    }

    fn wall(&self) -> TimestampMs {
        self.real.wall()
    }
}

#[derive(Debug)]
struct LyingFile {
    real: Arc<dyn LogFile>,
    lie: Lie,
    path: PathBuf,
}

impl LogFile for LyingFile {
    fn len(&self) -> io::Result<u64> {
        self.real.len()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.real.set_len(len)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.real.allocate(len)
    }

    fn write_all_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.real.write_all_at(bytes, at)
    }

    fn read_exact_at(&self, out: &mut [u8], at: u64) -> io::Result<()> {
        self.real.read_exact_at(out, at)
    }

    fn sync_data(&self) -> io::Result<()> {
        match self.lie {
            Lie::AckBeforeSync | Lie::SkippedDirectorySync => self.real.sync_data(),
            Lie::RetriedSync => (0..TRIES).fold(self.real.sync_data(), |outcome, _| {
                outcome.or_else(|_| self.real.sync_data())
            }),
            Lie::SwallowedError => {
                let _ = self.real.sync_data();
                Ok(())
            }
            Lie::SyncFileRange => sync_file_range(&self.path),
        }
    }

    fn sync_all(&self) -> io::Result<()> {
        self.real.sync_all()
    }

    fn next_data(&self, range: Range<u64>) -> Option<Range<u64>> {
        self.real.next_data(range)
    }
}

/// Writes the file's dirty pages to the device and waits for that: `sync_file_range(2)`, all flags.
fn sync_file_range(path: &Path) -> io::Result<()> {
    let status = Command::new("xfs_io")
        // One flag a command: of several it takes the last.
        .args(["-c", "sync_range -b 0 0", "-c", "sync_range -w 0 0", "-c", "sync_range -a 0 0"])
        .arg(path)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(status.to_string())) }
}

/// As many as RocketMQ.
const TRIES: u32 = 10;
