//! Files in memory and a clock that is set: what a log on a simulated disk stands on.
//!
//! Short files keep their bytes, because a log reads them again. Of a segment nothing is kept: what
//! a cut of the power leaves of it is for `crashlab` to show, and here only its times count.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use store_core::{Nanos, TimestampMs, length_u64};
use store_os::{Entry, Files, Held, Kind, LogFile, OpenError};

/// The files and the clock; clones are of the same.
#[derive(Clone, Debug, Default)]
pub(super) struct MemoryFiles {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Files by their paths; `None` is a directory.
    names: Mutex<BTreeMap<PathBuf, Option<Arc<MemoryFile>>>>,
    now: AtomicU64,
}

impl MemoryFiles {
    /// Sets the clock, which must not run back.
    pub(super) fn set(&self, now: Nanos) {
        self.shared.now.store(now.get(), Ordering::Relaxed);
    }

    fn names(&self) -> MutexGuard<'_, BTreeMap<PathBuf, Option<Arc<MemoryFile>>>> {
        self.shared.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Files for MemoryFiles {
    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn LogFile>> {
        let mut names = self.names();
        if names.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let file = Arc::<MemoryFile>::default();
        names.insert(path.to_owned(), Some(Arc::clone(&file)));
        Ok(file)
    }

    fn open_to_read(&self, path: &Path) -> io::Result<Arc<dyn LogFile>> {
        self.open(path)
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn LogFile>> {
        match self.names().get(path) {
            Some(Some(file)) => Ok(Arc::<MemoryFile>::clone(file)),
            Some(None) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn open_or_create(&self, path: &Path) -> io::Result<Arc<dyn LogFile>> {
        match self.open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.create_new(path),
            opened => opened,
        }
    }

    fn kind(&self, path: &Path) -> io::Result<Kind> {
        match self.names().get(path) {
            Some(Some(file)) => Ok(Kind::File { len: file.state().len }),
            Some(None) => Ok(Kind::Directory),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<Entry>> {
        let names = self.names();
        let entry = |(path, file): (&PathBuf, &Option<Arc<MemoryFile>>)| {
            let name = path.file_name().filter(|_| path.parent() == Some(directory))?.to_owned();
            let kind = match file {
                Some(file) => Kind::File { len: file.state().len },
                None => Kind::Directory,
            };
            Some(Entry { name, kind })
        };
        Ok(names.iter().filter_map(entry).collect())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.names().remove(path).map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn make_directories(&self, path: &Path) -> io::Result<()> {
        let mut names = self.names();
        for directory in path.ancestors() {
            names.entry(directory.to_owned()).or_insert(None);
        }
        Ok(())
    }

    fn sync_directory(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self, _path: &Path) -> Result<Box<dyn Held>, OpenError> {
        Ok(Box::new(Unshared))
    }

    fn copies_on_write(&self, _path: &Path) -> io::Result<bool> {
        Ok(false)
    }

    fn readers(&self) -> usize {
        1
    }

    fn monotonic(&self) -> Nanos {
        Nanos::new(self.shared.now.load(Ordering::Relaxed))
    }

    fn wall(&self) -> TimestampMs {
        let millis = i64::try_from(self.monotonic().get() / 1_000_000).unwrap_or(i64::MAX);
        TimestampMs::new(BEGINNING_MS.saturating_add(millis))
    }
}

/// Nobody else can have these files.
#[derive(Debug)]
struct Unshared;

impl Held for Unshared {}

#[derive(Debug, Default)]
struct MemoryFile {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    len: u64,
    /// The bytes of a short file.
    bytes: Vec<u8>,
}

impl MemoryFile {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn set_len(&mut self, len: u64) {
        self.len = len;
        let kept = usize::try_from(len).ok().filter(|_| len <= MOST_KEPT).unwrap_or(0);
        self.bytes.resize(kept, 0);
    }

    /// Where that many bytes at `at` are, if they are kept.
    fn kept(&self, at: u64, len: usize) -> Option<Range<usize>> {
        let from = usize::try_from(at).ok()?;
        let to = from.checked_add(len)?;
        (to <= self.bytes.len()).then_some(from..to)
    }
}

impl LogFile for MemoryFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.state().len)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.state().set_len(len);
        Ok(())
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        let mut state = self.state();
        if state.len < len {
            state.set_len(len);
        }
        Ok(())
    }

    fn write_all_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        let mut state = self.state();
        let end = at + length_u64(bytes.len());
        if state.len < end {
            state.set_len(end);
        }
        if let Some(range) = state.kept(at, bytes.len()) {
            state.bytes[range].copy_from_slice(bytes);
        }
        Ok(())
    }

    fn read_exact_at(&self, out: &mut [u8], at: u64) -> io::Result<()> {
        let state = self.state();
        if state.len > MOST_KEPT {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let range = state.kept(at, out.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(&state.bytes[range]);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn sync_all(&self) -> io::Result<()> {
        Ok(())
    }

    fn next_data(&self, range: Range<u64>) -> Option<Range<u64>> {
        Some(range)
    }

    fn store(&self, _bytes: &[u8], _at: u64) {}

    fn sync_range(&self, _range: Range<u64>) -> io::Result<()> {
        Ok(())
    }
}

/// A longer file is a segment, of which nothing is kept.
const MOST_KEPT: u64 = 256 << 10;
/// The clock's zero, in milliseconds since 1970 UTC.
const BEGINNING_MS: i64 = 1_700_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_file_keeps_its_bytes_and_a_segment_refuses_to_be_read() {
        let files = MemoryFiles::default();
        let path = Path::new("/log/checkpoint");
        files.make_directories(Path::new("/log")).unwrap();
        let file = files.create_new(path).unwrap();
        file.write_all_at(b"abc", 2).unwrap();
        let mut found = [9; 5];
        files.open(path).unwrap().read_exact_at(&mut found, 0).unwrap();
        assert_eq!(&found, b"\0\0abc");
        assert_eq!(files.list(Path::new("/log")).unwrap().len(), 1);
        let mut beyond = [0; 6];
        let refused = file.read_exact_at(&mut beyond, 0).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::UnexpectedEof);
        file.set_len(1 << 20).unwrap();
        let refused = file.read_exact_at(&mut found, 0).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::Unsupported, "never zeroes for what was written");
    }

    #[test]
    fn names_come_and_go() {
        let files = MemoryFiles::default();
        let path = Path::new("/a/b");
        assert_eq!(files.open(path).unwrap_err().kind(), io::ErrorKind::NotFound);
        files.open_or_create(path).unwrap();
        let again = files.create_new(path).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
        files.remove(path).unwrap();
        assert_eq!(files.kind(path).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
