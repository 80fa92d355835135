//! A file system in memory that a log stands on: it keeps a journal of all that changes.

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Component, Path};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;
use store_core::{Nanos, TimestampMs, length_u64};
use store_os::{Files, Held, Kind, LogFile, OpenError};

use crate::device::files::{Change, Disk, Found, Object, ROOT};
use crate::random::Random;
use crate::sim::faults::{Call, Faults};
use crate::sim::journal::{Entry, Told, What};
use crate::sim::timing::Timing;

/// Simulated files and clocks.
#[derive(Clone)]
pub(crate) struct SimFiles {
    shared: Arc<Mutex<State>>,
}

pub(crate) struct State {
    pub(crate) disk: Disk,
    pub(crate) now: Nanos,
    pub(crate) entries: Vec<Entry>,
    pub(crate) faults: Faults,
    /// What a sync covers that was issued earlier: the changes up to this number.
    pub(crate) issued: Option<u64>,
    /// Whether calls take their time themselves; else their caller sees to it.
    pub(crate) takes_time: bool,
    pub(crate) timing: Timing,
    /// In how many of a thousand cases a write is done in two.
    pub(crate) short_writes: u64,
    pub(crate) random: Random,
    is_locked: bool,
}

impl SimFiles {
    pub(crate) fn new(disk: Disk, now: Nanos, timing: Timing, faults: Faults, seed: u64) -> Self {
        let state = State {
            disk,
            now,
            entries: Vec::new(),
            faults,
            issued: None,
            takes_time: true,
            timing,
            short_writes: 0,
            random: Random::new(seed),
            is_locked: false,
        };
        Self { shared: Arc::new(Mutex::new(state)) }
    }

    /// The state, which no call of the log may be under way for.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn tell(&self, told: Told) {
        let mut state = self.state();
        let at = state.now;
        state.entries.push(Entry { at, what: What::Told(told) });
    }

    fn file(&self, object: Object) -> Arc<dyn LogFile> {
        Arc::new(SimFile { files: self.clone(), object })
    }

    fn open_file(&self, path: &Path) -> io::Result<Arc<dyn LogFile>> {
        match self.state().find(path)? {
            Found::File(object, _) => Ok(self.file(object)),
            Found::Directory(_) => Err(error(Errno::ISDIR)),
        }
    }
}

/// A disk with a directory that a store can be made in.
pub(crate) fn empty_disk() -> Disk {
    let mut disk = Disk::default();
    disk.apply(&Change::CreateDirectory { directory: ROOT, name: "s".into() });
    disk.apply(&Change::SyncDirectory { directory: ROOT });
    disk
}

/// The store in it.
pub(crate) const STORE: &str = "/s/log";

impl State {
    pub(crate) fn change(&mut self, change: Change) {
        self.disk.apply(&change);
        self.entries.push(Entry { at: self.now, what: What::Changed(change) });
    }

    fn before(&mut self, call: Call) -> io::Result<()> {
        if call != Call::Read {
            self.faults.before(Call::Change).map_err(error)?;
        }
        self.faults.before(call).map_err(error)
    }

    fn find(&self, path: &Path) -> io::Result<Found> {
        let mut found = Found::Directory(ROOT);
        for name in names(path) {
            let Found::Directory(directory) = found else { return Err(error(Errno::NOTDIR)) };
            found = self.disk.find(directory, name).ok_or_else(|| error(Errno::NOENT))?;
        }
        Ok(found)
    }

    fn directory(&self, path: &Path) -> io::Result<Object> {
        match self.find(path)? {
            Found::Directory(directory) => Ok(directory),
            Found::File(..) => Err(error(Errno::NOTDIR)),
        }
    }

    /// The directory that a path lies in, and its name there.
    fn place<'p>(&self, path: &'p Path) -> io::Result<(Object, &'p str)> {
        let above = path.parent().ok_or_else(|| error(Errno::EXIST))?;
        let name = path.file_name().and_then(|name| name.to_str());
        Ok((self.directory(above)?, name.ok_or_else(|| error(Errno::INVAL))?))
    }

    fn create(&mut self, path: &Path) -> io::Result<Object> {
        let (directory, name) = self.place(path)?;
        if self.disk.find(directory, name).is_some() {
            return Err(error(Errno::EXIST));
        }
        self.before(Call::Create)?;
        self.change(Change::CreateFile { directory, name: name.into() });
        match self.disk.find(directory, name) {
            Some(Found::File(object, _)) => Ok(object),
            _ => Err(error(Errno::IO)),
        }
    }

    fn write(&mut self, file: Object, bytes: &[u8], at: u64) {
        self.change(Change::Write { file, at, bytes: bytes.into() });
    }

    fn take_time(&mut self) {
        if self.takes_time && self.issued.is_none() {
            let Self { timing, random, .. } = self;
            let time = timing.sync(0, random);
            self.now = self.now.after(time);
        }
    }

    fn sync(&mut self, file: Object, bytes: Range<u64>) -> io::Result<()> {
        self.take_time();
        let issued = self.issued.unwrap_or(self.disk.changes());
        let result = self.before(Call::Sync);
        let owes_error = self.disk.owes_error(file);
        let failed = result.is_err() || owes_error;
        self.change(Change::SyncFile { file, bytes, issued, failed });
        if owes_error && result.is_ok() {
            self.faults.fired.push((Call::Sync, Errno::IO));
            return Err(error(Errno::IO));
        }
        result
    }
}

fn names(path: &Path) -> impl Iterator<Item = &str> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => name.to_str(),
        _ => None,
    })
}

fn error(errno: Errno) -> io::Error {
    errno.into()
}

fn kind(found: Found) -> Kind {
    match found {
        Found::Directory(_) => Kind::Directory,
        Found::File(_, len) => Kind::File { len },
    }
}

impl Files for SimFiles {
    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn LogFile>> {
        let object = self.state().create(path)?;
        Ok(self.file(object))
    }

    fn open_to_read(&self, path: &Path) -> io::Result<Arc<dyn LogFile>> {
        self.open_file(path)
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn LogFile>> {
        self.open_file(path)
    }

    fn open_or_create(&self, path: &Path) -> io::Result<Arc<dyn LogFile>> {
        let found = self.state().find(path);
        match found {
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.create_new(path),
            _ => self.open_file(path),
        }
    }

    fn kind(&self, path: &Path) -> io::Result<Kind> {
        self.state().find(path).map(kind)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<store_os::Entry>> {
        let state = self.state();
        let directory = state.directory(directory)?;
        let entries = state.disk.list(directory);
        let entries =
            entries.map(|(name, found)| store_os::Entry { name: name.into(), kind: kind(found) });
        Ok(entries.collect())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.find(path)?;
        state.faults.before(Call::Change).map_err(error)?;
        let (directory, name) = state.place(path)?;
        state.change(Change::Remove { directory, name: name.into() });
        Ok(())
    }

    fn make_directories(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        let mut above = ROOT;
        for name in names(path) {
            if state.disk.find(above, name).is_none() {
                state.before(Call::Create)?;
                state.change(Change::CreateDirectory { directory: above, name: name.into() });
            }
            match state.disk.find(above, name) {
                Some(Found::Directory(directory)) => above = directory,
                _ => return Err(error(Errno::NOTDIR)),
            }
        }
        Ok(())
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        let directory = state.directory(path)?;
        state.take_time();
        state.before(Call::SyncDirectory)?;
        state.change(Change::SyncDirectory { directory });
        Ok(())
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn Held>, OpenError> {
        let refused = |source: &io::Error| {
            let source = Errno::from_io_error(source).unwrap_or(Errno::IO);
            store_os::Error { op: store_os::Op::Lock, path: path.to_owned(), source }
        };
        let file = self.open_or_create(path).map_err(|error| refused(&error))?;
        if std::mem::replace(&mut self.state().is_locked, true) {
            return Err(OpenError::Locked { path: path.to_owned() });
        }
        let lock = SimLock(self.clone());
        let written = file.write_all_at(b"lock", 0).and_then(|()| file.sync_all());
        written.map_err(|error| refused(&error))?;
        Ok(Box::new(lock))
    }

    fn copies_on_write(&self, _path: &Path) -> io::Result<bool> {
        Ok(false)
    }

    fn readers(&self) -> usize {
        1
    }

    fn monotonic(&self) -> Nanos {
        self.state().now
    }

    fn wall(&self) -> TimestampMs {
        let millis = self.state().now.get() / 1_000_000;
        TimestampMs::new(BEGINNING_MS.saturating_add(i64::try_from(millis).unwrap_or(i64::MAX)))
    }
}

/// The virtual clock's zero, in milliseconds since 1970 UTC.
const BEGINNING_MS: i64 = 1_700_000_000_000;

impl fmt::Debug for SimFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SimFiles")
    }
}

#[derive(Debug)]
struct SimLock(SimFiles);

impl Held for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.0.state().is_locked = false;
    }
}

#[derive(Debug)]
struct SimFile {
    files: SimFiles,
    object: Object,
}

impl LogFile for SimFile {
    fn len(&self) -> io::Result<u64> {
        Ok(length_u64(self.files.state().disk.bytes(self.object).len()))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.files.state();
        state.faults.before(Call::Change).map_err(error)?;
        state.change(Change::SetLength { file: self.object, len });
        Ok(())
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        let mut state = self.files.state();
        state.before(Call::Allocate)?;
        if length_u64(state.disk.bytes(self.object).len()) < len {
            state.change(Change::SetLength { file: self.object, len });
        }
        Ok(())
    }

    fn write_all_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        let mut state = self.files.state();
        let failed = state.before(Call::Write);
        let State { short_writes, ref mut random, .. } = *state;
        // The page cache is filled page by page.
        let pages = (at + length_u64(bytes.len())).saturating_sub(1) / PAGE - at / PAGE;
        let page = match &failed {
            Ok(()) if !random.chance(short_writes) => 0,
            _ => random.below(pages + 1),
        };
        let split = if page == 0 { 0 } else { (at / PAGE + page) * PAGE - at };
        let split = usize::try_from(split).unwrap_or(0);
        let (first, rest) = bytes.split_at(split);
        if !first.is_empty() {
            state.write(self.object, first, at);
        }
        failed?;
        state.write(self.object, rest, at + length_u64(split));
        Ok(())
    }

    fn read_exact_at(&self, out: &mut [u8], at: u64) -> io::Result<()> {
        let mut state = self.files.state();
        state.before(Call::Read)?;
        let bytes = state.disk.bytes(self.object);
        let from = usize::try_from(at).ok().and_then(|at| bytes.get(at..));
        let found = from.and_then(|from| from.get(..out.len()));
        out.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.files.state().sync(self.object, 0..WHOLE)
    }

    fn sync_all(&self) -> io::Result<()> {
        self.files.state().sync(self.object, 0..WHOLE)
    }

    fn sync_written(&self, range: Range<u64>) -> io::Result<()> {
        // As where a device forces the write through: nothing that was written before is synced.
        self.files.state().sync(self.object, range)
    }

    fn next_data(&self, range: Range<u64>) -> Option<Range<u64>> {
        let state = self.files.state();
        let bytes = state.disk.bytes(self.object);
        let end = usize::try_from(range.end).unwrap_or(bytes.len()).min(bytes.len());
        let from = usize::try_from(range.start).ok().filter(|from| *from < end)?;
        // By pages, as file systems do it.
        let mut pages = bytes[..end].chunks(PAGE_LEN).enumerate().skip(from / PAGE_LEN);
        let is_data = |page: &[u8]| page.iter().any(|byte| *byte != 0);
        let (first, _) = pages.find(|(_, page)| is_data(page))?;
        let behind =
            pages.find(|(_, page)| !is_data(page)).map_or(end, |(page, _)| page * PAGE_LEN);
        Some(length_u64(from.max(first * PAGE_LEN))..length_u64(behind))
    }

    fn forget_clean_pages(&self) {
        let mut state = self.files.state();
        if state.disk.has_lost(self.object) {
            let seed = state.random.next_u64();
            state.change(Change::Forget { file: self.object, seed });
        }
    }

    fn store(&self, bytes: &[u8], at: u64) {
        self.files.state().write(self.object, bytes, at);
    }

    fn sync_range(&self, range: Range<u64>) -> io::Result<()> {
        self.files.state().sync(self.object, range)
    }
}

const PAGE: u64 = 4096;
const PAGE_LEN: usize = 4096;
/// All that a file can have.
const WHOLE: u64 = 1 << 62;
