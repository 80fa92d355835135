//! Files in memory whose threads take turns as the model says, and of which only what a sync
//! covered is durable.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use rustix::io::Errno;
use store_core::{LogOffset, Nanos, TimestampMs};

use crate::clock::monotonic;
use crate::error::OpenError;
use crate::files::{Entry, Files, Held, Kind, LogFile};
use crate::sync::{pause, random_below};

/// A disk with one directory tree.
#[derive(Debug, Default)]
pub(super) struct Disk {
    files: Mutex<BTreeMap<PathBuf, Arc<Memory>>>,
    segments: Arc<Segments>,
}

/// What segments are asked for, and what of it fails.
#[derive(Debug, Default)]
struct Segments {
    syncs: Asked,
    writes: Asked,
}

/// How often something was asked for, and the time that fails: 0 for none.
#[derive(Debug, Default)]
struct Asked {
    times: AtomicU32,
    failing: u32,
}

impl Asked {
    /// Whether this time fails; that it is asked for again is a fault of the log's.
    fn fails(&self) -> bool {
        let number = self.times.fetch_add(1, Ordering::SeqCst) + 1;
        assert!(self.failing == 0 || number <= self.failing, "asked for again after it failed");
        number == self.failing
    }
}

impl Disk {
    /// A disk whose sync and write of these numbers fail, counted from 1; 0: none does.
    pub(super) fn failing_at(sync: u32, write: u32) -> Self {
        let asked = |failing| Asked { failing, ..Asked::default() };
        let segments = Segments { syncs: asked(sync), writes: asked(write) };
        Self { segments: Arc::new(segments), ..Self::default() }
    }

    fn files(&self) -> MutexGuard<'_, BTreeMap<PathBuf, Arc<Memory>>> {
        self.files.lock().unwrap()
    }

    fn found(&self, path: &Path) -> io::Result<Arc<Memory>> {
        self.files().get(path).cloned().ok_or(Errno::NOENT.into())
    }

    /// What the disk holds of a log at `at` if the power goes now, and what the page cache does.
    pub(super) fn durable_and_cached(&self, at: LogOffset, len: u32) -> [Vec<u8>; 2] {
        let files = self.files();
        let segment = |path: &Path| path.file_name()?.to_str()?.parse::<u64>().ok();
        let found = files.iter().filter_map(|(path, file)| Some((segment(path)?, file)));
        let found = found.filter(|(start, _)| *start <= at.get()).max_by_key(|(start, _)| *start);
        let (start, file) = found.expect("the record lies in a segment");
        let place = usize::try_from(at.get() - start).unwrap();
        let state = file.state();
        let len = usize::try_from(len).unwrap();
        [&state.durable, &state.cached]
            .map(|bytes| bytes.get(place..place + len).map_or_else(Vec::new, <[u8]>::to_vec))
    }
}

#[derive(Debug)]
struct Unlocked;

impl Held for Unlocked {}

impl Files for Disk {
    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn LogFile>> {
        pause();
        let mut files = self.files();
        if files.contains_key(path) {
            return Err(Errno::EXIST.into());
        }
        let file = Arc::new(Memory {
            is_segment: path.parent().is_some_and(|parent| parent.ends_with("commitlog")),
            segments: Arc::clone(&self.segments),
            state: Mutex::default(),
        });
        files.insert(path.to_owned(), Arc::clone(&file));
        Ok(file)
    }

    fn open_to_read(&self, path: &Path) -> io::Result<Arc<dyn LogFile>> {
        Ok(self.found(path)?)
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn LogFile>> {
        Ok(self.found(path)?)
    }

    fn open_or_create(&self, path: &Path) -> io::Result<Arc<dyn LogFile>> {
        match self.found(path) {
            Ok(file) => Ok(file),
            Err(_) => self.create_new(path),
        }
    }

    fn kind(&self, path: &Path) -> io::Result<Kind> {
        self.found(path).map(|file| Kind::File { len: length(&file.state().cached) })
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<Entry>> {
        let files = self.files();
        let inside = files.iter().filter(|(path, _)| path.parent() == Some(directory));
        let entry = |(path, file): (&PathBuf, &Arc<Memory>)| Entry {
            name: path.file_name().unwrap().to_owned(),
            kind: Kind::File { len: length(&file.state().cached) },
        };
        Ok(inside.map(entry).collect())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.files().remove(path).map(|_| ()).ok_or(Errno::NOENT.into())
    }

    fn make_directories(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    fn sync_directory(&self, _path: &Path) -> io::Result<()> {
        pause();
        Ok(())
    }

    fn lock(&self, _path: &Path) -> Result<Box<dyn Held>, OpenError> {
        Ok(Box::new(Unlocked))
    }

    fn copies_on_write(&self, _path: &Path) -> io::Result<bool> {
        Ok(false)
    }

    fn readers(&self) -> usize {
        1
    }

    fn monotonic(&self) -> Nanos {
        monotonic()
    }

    fn wall(&self) -> TimestampMs {
        TimestampMs::new(1)
    }
}

#[derive(Debug)]
struct Memory {
    is_segment: bool,
    segments: Arc<Segments>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    cached: Vec<u8>,
    durable: Vec<u8>,
    dirty: Vec<Range<usize>>,
}

impl Memory {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn put(&self, bytes: &[u8], at: u64) {
        let mut state = self.state();
        let at = usize::try_from(at).unwrap();
        let end = at + bytes.len();
        if state.cached.len() < end {
            state.cached.resize(end, 0);
        }
        state.cached[at..end].copy_from_slice(bytes);
        state.dirty.push(at..end);
    }

    /// Makes durable what is dirty of `range` when this begins, or loses it.
    fn sync(&self, range: Range<usize>) -> io::Result<()> {
        let mut state = self.state();
        let inside = |dirty: &Range<usize>| dirty.start.max(range.start)..dirty.end.min(range.end);
        let taken: Vec<_> =
            state.dirty.iter().map(inside).filter(|part| !part.is_empty()).collect();
        let images: Vec<_> =
            taken.into_iter().map(|part| (part.start, state.cached[part].to_vec())).collect();
        state.dirty.retain(|dirty| inside(dirty).is_empty());
        drop(state);
        let fails = self.is_segment && self.segments.syncs.fails();
        for _ in 0..random_below(4) {
            pause();
        }
        if fails {
            return Err(Errno::IO.into());
        }
        let mut state = self.state();
        let len = state.cached.len();
        state.durable.resize(len, 0);
        for (at, image) in images {
            state.durable[at..at + image.len()].copy_from_slice(&image);
        }
        Ok(())
    }
}

impl LogFile for Memory {
    fn len(&self) -> io::Result<u64> {
        Ok(length(&self.state().cached))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.state().cached.resize(usize::try_from(len).unwrap(), 0);
        Ok(())
    }

    fn allocate(&self, _len: u64) -> io::Result<()> {
        pause();
        Ok(())
    }

    fn write_all_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        pause();
        if self.is_segment && self.segments.writes.fails() {
            pause();
            return Err(Errno::NOSPC.into());
        }
        self.put(bytes, at);
        Ok(())
    }

    fn read_exact_at(&self, out: &mut [u8], at: u64) -> io::Result<()> {
        let at = usize::try_from(at).unwrap();
        let state = self.state();
        let found = state.cached.get(at..at + out.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(found);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.sync(0..usize::MAX)
    }

    fn sync_all(&self) -> io::Result<()> {
        // Of a segment that is being made: not one that the model counts.
        let mut state = self.state();
        state.durable = state.cached.clone();
        state.dirty.clear();
        Ok(())
    }

    fn next_data(&self, range: Range<u64>) -> Option<Range<u64>> {
        Some(range).filter(|range| !range.is_empty())
    }

    fn store(&self, bytes: &[u8], at: u64) {
        self.put(bytes, at);
    }

    fn sync_range(&self, range: Range<u64>) -> io::Result<()> {
        self.sync(usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap())
    }
}

fn length(bytes: &[u8]) -> u64 {
    store_core::length_u64(bytes.len())
}
