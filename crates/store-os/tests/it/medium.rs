//! Linux's files, on a page cache that loses what it cannot write, and on a device with bad
//! sectors.
//!
//! As Linux has it (`docs/ASSUMPTIONS.md` 2): pages that could not be written are clean, and read
//! as the new bytes until they are forgotten; each open file is told once.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use rustix::io::Errno;
use store_core::{Nanos, TimestampMs};
use store_os::{Entry, Files, Held, Kind, LogFile, LogOptions, OpenError, Platform};

/// How syncing goes wrong.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Breakdown {
    /// What was written lately could not be written back; nobody has asked yet.
    Background,
    /// The device takes nothing any more.
    Dead,
    /// The data of the next sync is written, but not out of the device's cache.
    Flush,
    /// The data of the next sync cannot be written.
    WriteBack,
}

impl Breakdown {
    pub(crate) const ALL: [Self; 4] = [Self::Background, Self::Dead, Self::Flush, Self::WriteBack];
}

/// What files are on.
#[derive(Clone, Debug)]
pub(crate) struct Medium {
    files: Arc<dyn Files>,
    state: Arc<Mutex<State>>,
    stuck: Arc<Mutex<()>>,
}

#[derive(Debug, Default)]
struct State {
    is_dead: bool,
    next: Option<Breakdown>,
    pages: BTreeMap<PathBuf, Pages>,
    bad: Vec<(PathBuf, Range<u64>)>,
    syncs: usize,
}

#[derive(Debug, Default)]
struct Pages {
    /// How often something was lost, and whether anybody knows of the last time.
    errors: u64,
    is_reported: bool,
    /// What stood where something was written since the last sync.
    unsynced: Vec<(u64, Vec<u8>)>,
    /// What the device has where the cache has something else and calls it clean.
    lost: Vec<(u64, Vec<u8>)>,
}

impl Pages {
    fn lose(&mut self) {
        self.lost.append(&mut self.unsynced);
        self.errors += 1;
        self.is_reported = false;
    }
}

impl Medium {
    pub(crate) fn new() -> Self {
        Self { files: Platform::default().files(), state: Arc::default(), stuck: Arc::default() }
    }

    /// A log's options on this medium.
    pub(crate) fn under(&self, options: LogOptions) -> LogOptions {
        LogOptions { platform: Platform::new(Arc::new(self.clone())), ..options }
    }

    pub(crate) fn break_down(&self, how: Breakdown) {
        let mut state = self.state();
        match how {
            Breakdown::Background => state.pages.values_mut().for_each(Pages::lose),
            Breakdown::Dead => state.is_dead = true,
            Breakdown::Flush | Breakdown::WriteBack => state.next = Some(how),
        }
    }

    /// Directories are not synced until this is dropped.
    pub(crate) fn hold_directories(&self) -> MutexGuard<'_, ()> {
        self.stuck.lock().unwrap()
    }

    /// The device works again. What is lost is lost.
    pub(crate) fn revive(&self) {
        self.state().is_dead = false;
    }

    /// A power cut: the device has what was synced, and nothing else.
    pub(crate) fn cut_power(&self) {
        for (path, pages) in std::mem::take(&mut self.state().pages) {
            let Ok(file) = self.files.open(&path) else { continue };
            restore(&*file, pages.unsynced);
            restore(&*file, pages.lost);
        }
    }

    /// These bytes of a file cannot be read.
    pub(crate) fn spoil(&self, path: &Path, range: Range<u64>) {
        self.state().bad.push((path.to_owned(), range));
    }

    /// Everything can be read again.
    pub(crate) fn restore_sectors(&self) {
        self.state().bad.clear();
    }

    /// Sync calls of segments so far, not counting those that made them.
    pub(crate) fn syncs(&self) -> usize {
        self.state().syncs
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn wrap(&self, path: &Path, file: Arc<dyn LogFile>) -> Arc<dyn LogFile> {
        let mut state = self.state();
        let pages = state.pages.entry(path.to_owned()).or_default();
        let seen = if pages.is_reported { pages.errors } else { pages.errors.saturating_sub(1) };
        drop(state);
        let (medium, path) = (self.clone(), path.to_owned());
        Arc::new(OpenFile { medium, path, file, seen: AtomicU64::new(seen) })
    }
}

/// Puts back what stood there, the latest first.
fn restore(file: &dyn LogFile, before: Vec<(u64, Vec<u8>)>) {
    for (at, bytes) in before.into_iter().rev() {
        file.write_all_at(&bytes, at).unwrap();
    }
}

impl Files for Medium {
    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn LogFile>> {
        Ok(self.wrap(path, self.files.create_new(path)?))
    }

    fn open_to_read(&self, path: &Path) -> io::Result<Arc<dyn LogFile>> {
        Ok(self.wrap(path, self.files.open_to_read(path)?))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn LogFile>> {
        Ok(self.wrap(path, self.files.open(path)?))
    }

    fn open_or_create(&self, path: &Path) -> io::Result<Arc<dyn LogFile>> {
        Ok(self.wrap(path, self.files.open_or_create(path)?))
    }

    fn kind(&self, path: &Path) -> io::Result<Kind> {
        self.files.kind(path)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<Entry>> {
        self.files.list(directory)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.state().pages.remove(path);
        self.files.remove(path)
    }

    fn make_directories(&self, path: &Path) -> io::Result<()> {
        self.files.make_directories(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        drop(self.stuck.lock());
        if self.state().is_dead { Err(Errno::IO.into()) } else { self.files.sync_directory(path) }
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
struct OpenFile {
    medium: Medium,
    path: PathBuf,
    file: Arc<dyn LogFile>,
    /// The last loss that this open file was told of.
    seen: AtomicU64,
}

impl OpenFile {
    fn sync(&self, is_of_segment: bool) -> io::Result<()> {
        let mut state = self.medium.state();
        state.syncs += usize::from(is_of_segment);
        let next = if is_of_segment { state.next.take() } else { None };
        let is_dead = state.is_dead;
        let pages = state.pages.entry(self.path.clone()).or_default();
        match next {
            Some(Breakdown::Flush) => return Err(Errno::IO.into()),
            Some(_) => pages.lose(),
            None if is_dead => pages.lose(),
            None => pages.unsynced.clear(),
        }
        if self.seen.swap(pages.errors, Ordering::SeqCst) < pages.errors {
            pages.is_reported = true;
            return Err(Errno::IO.into());
        }
        Ok(())
    }
}

impl LogFile for OpenFile {
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
        let mut before = vec![0; bytes.len()];
        // Behind the end of a small file nothing stands.
        let _ = self.file.read_exact_at(&mut before, at);
        let mut state = self.medium.state();
        state.pages.entry(self.path.clone()).or_default().unsynced.push((at, before));
        self.file.write_all_at(bytes, at)
    }

    fn read_exact_at(&self, out: &mut [u8], at: u64) -> io::Result<()> {
        let end = at + out.len() as u64;
        let is_bad = |(path, range): &(PathBuf, Range<u64>)| {
            *path == self.path && range.start < end && at < range.end
        };
        if self.medium.state().bad.iter().any(is_bad) {
            return Err(Errno::IO.into());
        }
        self.file.read_exact_at(out, at)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.sync(true)
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync(false)
    }

    fn next_data(&self, range: Range<u64>) -> Option<Range<u64>> {
        self.file.next_data(range)
    }

    fn forget_clean_pages(&self) {
        let mut state = self.medium.state();
        let lost = state.pages.get_mut(&self.path).map(|pages| std::mem::take(&mut pages.lost));
        restore(&*self.file, lost.unwrap_or_default());
    }

    fn store(&self, bytes: &[u8], at: u64) {
        self.write_all_at(bytes, at).unwrap();
    }

    fn sync_range(&self, _range: Range<u64>) -> io::Result<()> {
        self.sync(true)
    }
}
