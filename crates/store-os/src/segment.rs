//! One segment's file: made with real space, written, synced, read.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{Advice, FallocateFlags, Mode, OFlags, fadvise, fallocate, ftruncate};
use rustix::io::{Errno, retry_on_intr};
use store_core::{LogOffset, SegmentName, SegmentSize};

use crate::directory::sync_directory;
use crate::error::{Error, Op};
use crate::faults::{Call, Injected};
use crate::map::{FileMap, FileWriter};
use crate::options::{Io, LogOptions, Preallocate};
use crate::walk::{Source, next_data};

/// A segment's file and, while it takes mapped appends, its map.
///
/// Invariant: the file is `size` bytes long and its blocks are allocated.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) start: LogOffset,
    size: SegmentSize,
    path: PathBuf,
    /// `None` once the segment is full, durable and old: it is opened when it is read.
    file: Option<Arc<File>>,
    map: Option<FileMap>,
    faults: Injected,
}

impl Segment {
    /// Makes the segment that begins at `start`: created, allocated, synced, entered in its
    /// directory durably, and for mapped appends mapped and faulted in.
    ///
    /// A failure leaves no file behind. `stop` ends a long zero-fill early, with `ECANCELED`.
    pub(crate) fn create(
        directory: &Path,
        start: LogOffset,
        options: &LogOptions,
        stop: &AtomicBool,
    ) -> Result<(Self, Option<FileWriter>), Error> {
        let path = directory.join(SegmentName::new(start).as_str());
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = rustix::fs::open(&path, flags, Mode::from_raw_mode(0o644))
            .map_err(|errno| Error::new(Op::Create, &path, errno))?;
        let made = Self::fill(&path, File::from(file), start, options, stop)
            .and_then(|made| sync_directory(directory).map(|()| made));
        if made.is_err() {
            // The first error is the one to report. A file that stays is all zero: recovery drops
            // it.
            let _ = std::fs::remove_file(&path);
        }
        made
    }

    fn fill(
        path: &Path,
        file: File,
        start: LogOffset,
        options: &LogOptions,
        stop: &AtomicBool,
    ) -> Result<(Self, Option<FileWriter>), Error> {
        let size = options.segment_size;
        let allocation = |errno| Error::new(Op::Allocate { bytes: size.bytes() }, path, errno);
        options.faults.0.before(Call::Allocate).map_err(allocation)?;
        // The length first: a file of another length would make RocketMQ refuse the whole store.
        ftruncate(&file, size.bytes()).map_err(allocation)?;
        allocate(&file, size, options.preallocate, stop).map_err(allocation)?;
        file.sync_all().map_err(|error| Error::from_std(Op::Sync, path, &error))?;
        Self::finish(path, file, start, options)
    }

    /// Opens an existing segment to append to it behind `end`: `fallocate` makes sure of its space
    /// again, which leaves what is written as it is.
    pub(crate) fn reopen(
        path: &Path,
        start: LogOffset,
        end: LogOffset,
        options: &LogOptions,
    ) -> Result<(Self, Option<FileWriter>), Error> {
        let file = open_existing(path)?;
        let size = options.segment_size;
        let reserved = retry_on_intr(|| fallocate(&file, FallocateFlags::empty(), 0, size.bytes()));
        match reserved {
            Err(Errno::OPNOTSUPP) => {
                zero_fill(&file, end.since(start), size.bytes(), &AtomicBool::new(false))
            }
            result => result,
        }
        .map_err(|errno| Error::new(Op::Allocate { bytes: size.bytes() }, path, errno))?;
        Self::finish(path, file, start, options)
    }

    fn finish(
        path: &Path,
        file: File,
        start: LogOffset,
        options: &LogOptions,
    ) -> Result<(Self, Option<FileWriter>), Error> {
        let (map, writer) = match options.io() {
            Io::Positioned => (None, None),
            Io::Mapped => {
                let len = usize::try_from(options.segment_size.bytes())
                    .map_err(|_| Error::new(Op::Map, path, Errno::NOMEM))?;
                let (map, writer) = FileMap::new(&file, len)
                    .map_err(|error| Error::from_std(Op::Map, path, &error))?;
                if options.prefault {
                    populate(&map, path)?;
                }
                (Some(map), Some(writer))
            }
        };
        let segment = Self {
            start,
            size: options.segment_size,
            path: path.to_owned(),
            file: Some(Arc::new(file)),
            map,
            faults: options.faults.0.clone(),
        };
        Ok((segment, writer))
    }

    /// A full and durable segment, for reading only.
    pub(crate) fn sealed(
        path: &Path,
        start: LogOffset,
        options: &LogOptions,
    ) -> Result<Self, Error> {
        let file = open_existing(path)?;
        Ok(Self {
            start,
            size: options.segment_size,
            path: path.to_owned(),
            file: Some(Arc::new(file)),
            map: None,
            faults: options.faults.0.clone(),
        })
    }

    /// A full and durable segment that is opened only when it is read.
    pub(crate) fn unopened(path: &Path, start: LogOffset, options: &LogOptions) -> Self {
        Self {
            start,
            size: options.segment_size,
            path: path.to_owned(),
            file: None,
            map: None,
            faults: options.faults.0.clone(),
        }
    }

    /// The same segment with its descriptor open, for several calls on one.
    pub(crate) fn opened(&self) -> Result<Self, Error> {
        Ok(Self {
            start: self.start,
            size: self.size,
            path: self.path.clone(),
            file: Some(self.file()?),
            map: None,
            faults: self.faults.clone(),
        })
    }

    /// The same segment without its map and, unless it `keeps_file`, without its descriptor; `None`
    /// if it has neither to give back.
    pub(crate) fn retired(&self, keeps_file: bool) -> Option<Self> {
        let file = self.file.clone().filter(|_| keeps_file);
        if self.map.is_none() && file.is_some() == self.file.is_some() {
            return None;
        }
        Some(Self {
            start: self.start,
            size: self.size,
            path: self.path.clone(),
            file,
            map: None,
            faults: self.faults.clone(),
        })
    }

    fn file(&self) -> Result<Arc<File>, Error> {
        match &self.file {
            Some(file) => Ok(Arc::clone(file)),
            None => open_existing(&self.path).map(Arc::new),
        }
    }

    /// The offset behind the segment's last byte.
    pub(crate) fn end(&self) -> LogOffset {
        LogOffset::new(self.start.get() + self.size.bytes())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes all of `bytes` at log offset `at`: `pwrite`, again after a short write.
    pub(crate) fn write(&self, bytes: &[u8], at: LogOffset) -> Result<(), Error> {
        self.faults
            .before(Call::Write)
            .map_err(|errno| Error::new(Op::Write, &self.path, errno))?;
        self.file()?
            .write_all_at(bytes, at.since(self.start))
            .map_err(|error| Error::from_std(Op::Write, &self.path, &error))
    }

    /// Blocks until the bytes of `from..to` are on the device: `msync` of just that range where the
    /// segment is mapped, else `fdatasync`.
    ///
    /// One call, never repeated: a second one could succeed and lie (`docs/ASSUMPTIONS.md`).
    pub(crate) fn sync(&self, from: LogOffset, to: LogOffset) -> Result<(), Error> {
        self.faults.before(Call::Sync).map_err(|errno| Error::new(Op::Sync, &self.path, errno))?;
        let result = match &self.map {
            Some(map) => {
                let place = |offset: LogOffset| {
                    usize::try_from(offset.since(self.start)).expect("a mapped place fits usize")
                };
                map.sync(place(from), place(to))
            }
            None => self.file()?.sync_data(),
        };
        result.map_err(|error| Error::from_std(Op::Sync, &self.path, &error))
    }

    /// Fills `out` from log offset `at` on: `pread`, so that a bad sector is an error value.
    pub(crate) fn read(&self, out: &mut [u8], at: LogOffset) -> Result<(), Error> {
        self.file()?
            .read_exact_at(out, at.since(self.start))
            .map_err(|error| Error::from_std(Op::Read, &self.path, &error))
    }

    /// Tells the kernel that the file is read from front to back:
    /// `posix_fadvise(POSIX_FADV_SEQUENTIAL)`. A hint.
    pub(crate) fn read_ahead(&self) {
        if let Some(file) = &self.file {
            let _ = fadvise(file, 0, None, Advice::Sequential);
        }
    }

    /// Makes the page cache forget what is clean, so that the next read sees the device:
    /// `posix_fadvise(POSIX_FADV_DONTNEED)`. A hint.
    pub(crate) fn forget_clean_pages(&self) {
        if let Some(file) = &self.file {
            let _ = fadvise(file, 0, None, Advice::DontNeed);
        }
    }
}

impl Source for Segment {
    fn read(&self, out: &mut [u8], at: LogOffset) -> Result<(), Error> {
        Self::read(self, out, at)
    }

    fn next_data(&self, from: LogOffset, to: LogOffset) -> Option<Range<LogOffset>> {
        match self.file() {
            Ok(file) => next_data(&file, self.start, from, to),
            Err(_) => (from < to).then_some(from..to),
        }
    }
}

/// Faults a map's pages in. Kernels before 5.14 do not know how (EINVAL): appends then fault them.
/// Anything else is what a store into the map would have died of.
fn populate(map: &FileMap, path: &Path) -> Result<(), Error> {
    match map.populate().map_err(|error| Error::from_std(Op::Map, path, &error)) {
        Err(Error { source: Errno::INVAL, .. }) => Ok(()),
        result => result,
    }
}

fn open_existing(path: &Path) -> Result<File, Error> {
    File::options()
        .read(true)
        .write(true)
        .open(path)
        .map_err(|error| Error::from_std(Op::Open, path, &error))
}

/// Makes sure that every block of the file exists.
fn allocate(
    file: &File,
    size: SegmentSize,
    preallocate: Preallocate,
    stop: &AtomicBool,
) -> Result<(), Errno> {
    let reserved = retry_on_intr(|| fallocate(file, FallocateFlags::empty(), 0, size.bytes()));
    match (reserved, preallocate) {
        (Ok(()), Preallocate::Fallocate) => Ok(()),
        // A file system without fallocate still gives real blocks to real zeroes.
        (Ok(()) | Err(Errno::OPNOTSUPP), _) => zero_fill(file, 0, size.bytes(), stop),
        (Err(errno), _) => Err(errno),
    }
}

fn zero_fill(file: &File, from: u64, bytes: u64, stop: &AtomicBool) -> Result<(), Errno> {
    let zeroes = vec![0; ZERO_CHUNK];
    let mut at = from;
    while at < bytes {
        if stop.load(Ordering::Relaxed) {
            return Err(Errno::CANCELED);
        }
        let len = usize::try_from(bytes - at).unwrap_or(ZERO_CHUNK).min(ZERO_CHUNK);
        file.write_all_at(&zeroes[..len], at)
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        at += store_core::length_u64(len);
    }
    Ok(())
}

/// 1 MiB: large writes fill fastest. (Only positioned writes use zeroed segments; under a mapping
/// the large folios that this makes would be written whole at each sync.)
const ZERO_CHUNK: usize = 1 << 20;
