//! What a log stands on: files and clocks. Linux's, or simulated ones.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{
    Advice, AtFlags, FallocateFlags, IFlags, Mode, OFlags, StatxFlags, fadvise, fallocate,
    ioctl_getflags, ioctl_setflags, statx,
};
use rustix::io::{Errno, ReadWriteFlags, pwritev2, retry_on_intr};
use store_core::{LogOffset, Nanos, TimestampMs, length_u64};

use crate::blocks::{BLOCK, BLOCK_LEN, Blocks};
use crate::clock;
use crate::directory::{Lock, copies_on_write, syncs_direct_writes};
use crate::error::OpenError;
use crate::map::first_cached;
use crate::walk::next_data;

/// A name in a directory.
#[doc(hidden)]
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Entry {
    /// Without the directory.
    pub name: std::ffi::OsString,
    pub kind: Kind,
}

/// What stands under a name.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Kind {
    File { len: u64 },
    Directory,
    Other,
}

/// The files and clocks that a log stands on. Only the crash laboratory has another than Linux's.
///
/// Each call is one of POSIX's, with its meaning: a name is durable once its directory was synced,
/// bytes and length once the file was.
#[doc(hidden)]
pub trait Files: fmt::Debug + Send + Sync {
    /// `open(O_RDWR | O_CREAT | O_EXCL)`.
    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn LogFile>>;
    /// `open(O_RDONLY)`.
    fn open_to_read(&self, path: &Path) -> io::Result<Arc<dyn LogFile>>;
    /// `open(O_RDWR)`.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn LogFile>>;
    /// `open(O_RDWR | O_DIRECT)`, for [`LogFile::write_blocks_at`].
    fn open_direct(&self, path: &Path) -> io::Result<Arc<dyn LogFile>> {
        self.open(path)
    }
    /// `open(O_RDWR | O_CREAT)`.
    fn open_or_create(&self, path: &Path) -> io::Result<Arc<dyn LogFile>>;
    /// `stat`.
    fn kind(&self, path: &Path) -> io::Result<Kind>;
    /// All names in a directory, in any order.
    fn list(&self, directory: &Path) -> io::Result<Vec<Entry>>;
    /// `unlink`.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// `mkdir` of the directory and of those above it that are missing.
    fn make_directories(&self, path: &Path) -> io::Result<()>;
    /// `fsync` of a directory.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;
    /// Takes a store's lock, which dropping gives back.
    fn lock(&self, path: &Path) -> Result<Box<dyn Held>, OpenError>;
    /// Whether the file system writes changed blocks to new places.
    fn copies_on_write(&self, path: &Path) -> io::Result<bool>;
    /// Whether a directory's file system is known to sync what it writes directly with `RWF_DSYNC`;
    /// others may take the flag and pass it over.
    fn syncs_direct_writes(&self, _directory: &Path) -> bool {
        true
    }
    /// Whether files in a directory can be written past the page cache in blocks of 4 KiB.
    fn takes_blocks(&self, _directory: &Path) -> bool {
        true
    }
    /// How many threads may read at a time; 1: the caller reads alone.
    fn readers(&self) -> usize;
    /// `CLOCK_MONOTONIC`.
    fn monotonic(&self) -> Nanos;
    /// Milliseconds since 1970 UTC.
    fn wall(&self) -> TimestampMs;
}

/// Something that is held until it is dropped.
#[doc(hidden)]
pub trait Held: fmt::Debug + Send + Sync {}

/// An open file.
#[doc(hidden)]
pub trait LogFile: fmt::Debug + Send + Sync {
    fn len(&self) -> io::Result<u64>;
    fn is_empty(&self) -> io::Result<bool> {
        self.len().map(|len| len == 0)
    }
    /// `ftruncate`.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// `fallocate` of the first `len` bytes.
    fn allocate(&self, len: u64) -> io::Result<()>;
    /// Bytes that are allocated (`st_blocks`).
    fn allocated(&self) -> io::Result<u64> {
        self.len()
    }
    /// Asks that blocks be changed where they are, also where the file system copies on write:
    /// `FS_NOCOW_FL`, of an empty file; a hint.
    fn write_in_place(&self) {}
    /// Whether the file still has a name (`st_nlink`).
    fn is_named(&self) -> io::Result<bool> {
        Ok(true)
    }
    /// `pwrite`, again after a short write.
    fn write_all_at(&self, bytes: &[u8], at: u64) -> io::Result<()>;
    /// `pwritev2` of pieces that are whole blocks of 4 KiB in aligned memory, again after a short
    /// write; with `RWF_DSYNC`, and so durable on return, if `durably`. Only of a file that was
    /// opened for it ([`Files::open_direct`]).
    fn write_blocks_at(
        &self,
        pieces: &mut [IoSlice<'_>],
        at: u64,
        durably: bool,
    ) -> io::Result<()> {
        let (begun, mut at) = (at, at);
        for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
            self.write_all_at(piece, at)?;
            at += length_u64(piece.len());
        }
        if durably { self.sync_written(begun..at) } else { Ok(()) }
    }
    /// What `RWF_DSYNC` syncs of a write of that range: at least the range.
    fn sync_written(&self, _range: Range<u64>) -> io::Result<()> {
        self.sync_data()
    }
    /// `pread`, again after a short read.
    fn read_exact_at(&self, out: &mut [u8], at: u64) -> io::Result<()>;
    /// `fdatasync`.
    fn sync_data(&self) -> io::Result<()>;
    /// `fsync`.
    fn sync_all(&self) -> io::Result<()>;
    /// The first part of `range` that was ever written, as far as is known (`SEEK_DATA`).
    fn next_data(&self, range: Range<u64>) -> Option<Range<u64>>;
    /// Says that the file is read from front to back; a hint.
    fn read_ahead(&self) {}
    /// Makes the page cache forget what is clean; a hint.
    fn forget_clean_pages(&self) {}
    /// The first page of `range` that the page cache holds, as far as can be told.
    fn first_cached(&self, _range: Range<u64>) -> Option<u64> {
        None
    }
    /// The file to map, where there is one; without it [`store`](Self::store) and
    /// [`sync_range`](Self::sync_range) stand for a mapping's.
    fn as_file(&self) -> Option<&File> {
        None
    }
    /// A store into a shared mapping.
    fn store(&self, _bytes: &[u8], _at: u64) {
        unreachable!("a file of Linux is mapped")
    }
    /// `msync(MS_SYNC)` of a part of a shared mapping.
    fn sync_range(&self, _range: Range<u64>) -> io::Result<()> {
        unreachable!("a file of Linux is mapped")
    }
}

/// Linux's files and clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Linux;

impl Files for Linux {
    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn LogFile>> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::from_raw_mode(0o644))?;
        Ok(Arc::new(File::from(file)))
    }

    fn open_to_read(&self, path: &Path) -> io::Result<Arc<dyn LogFile>> {
        Ok(Arc::new(File::open(path)?))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn LogFile>> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        Ok(Arc::new(file))
    }

    fn open_direct(&self, path: &Path) -> io::Result<Arc<dyn LogFile>> {
        Ok(Arc::new(File::from(open_direct(path, OFlags::empty())?)))
    }

    fn open_or_create(&self, path: &Path) -> io::Result<Arc<dyn LogFile>> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).open(path)?;
        Ok(Arc::new(file))
    }

    fn kind(&self, path: &Path) -> io::Result<Kind> {
        let found = std::fs::metadata(path)?;
        Ok(match () {
            () if found.is_file() => Kind::File { len: found.len() },
            () if found.is_dir() => Kind::Directory,
            () => Kind::Other,
        })
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<Entry>> {
        let entry = |entry: io::Result<std::fs::DirEntry>| {
            let entry = entry?;
            // Of the name itself: what it may be a link to is not the log's.
            let kind = match entry.file_type()? {
                kind if kind.is_file() => Kind::File { len: entry.metadata()?.len() },
                kind if kind.is_dir() => Kind::Directory,
                _ => Kind::Other,
            };
            Ok(Entry { name: entry.file_name(), kind })
        };
        std::fs::read_dir(directory)?.map(entry).collect()
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn make_directories(&self, path: &Path) -> io::Result<()> {
        std::fs::create_dir_all(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn Held>, OpenError> {
        Ok(Box::new(Lock::take(path.to_owned())?))
    }

    fn copies_on_write(&self, path: &Path) -> io::Result<bool> {
        copies_on_write(path).map_err(|error| error.source.into())
    }

    fn syncs_direct_writes(&self, directory: &Path) -> bool {
        syncs_direct_writes(directory)
    }

    fn takes_blocks(&self, directory: &Path) -> bool {
        // Tried, because what kernels tell of it is newer than it: with a file without a name,
        // which is gone when it is closed.
        let block = Blocks([0; BLOCK_LEN]);
        let tried = open_direct(directory, OFlags::TMPFILE).map(File::from).and_then(|file| {
            let pieces = &mut [IoSlice::new(&block.0)];
            file.write_blocks_at(pieces, 0, true).map_err(|error| errno(&error))
        });
        tried.is_ok()
    }

    fn readers(&self) -> usize {
        std::thread::available_parallelism().map_or(1, usize::from)
    }

    fn monotonic(&self) -> Nanos {
        clock::monotonic()
    }

    fn wall(&self) -> TimestampMs {
        clock::wall()
    }
}

impl LogFile for File {
    fn len(&self) -> io::Result<u64> {
        self.metadata().map(|found| found.len())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        File::set_len(self, len)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        Ok(retry_on_intr(|| fallocate(self, FallocateFlags::empty(), 0, len))?)
    }

    fn allocated(&self) -> io::Result<u64> {
        self.metadata().map(|found| found.blocks() * 512)
    }

    fn write_in_place(&self) {
        if let Ok(flags) = ioctl_getflags(self) {
            let _ = ioctl_setflags(self, flags | IFlags::NOCOW);
        }
    }

    fn is_named(&self) -> io::Result<bool> {
        // Nothing but the link count: since Linux 6.13 (multigrain timestamps) who asks for times
        // makes the next write change them, and the next `fdatasync` may write the inode for it.
        match statx(self, c"", AtFlags::EMPTY_PATH, StatxFlags::NLINK) {
            Ok(found) => Ok(found.stx_nlink > 0),
            // Not there, or a container's filter answers so.
            Err(Errno::NOSYS | Errno::PERM) => self.metadata().map(|found| found.nlink() > 0),
            Err(errno) => Err(errno.into()),
        }
    }

    fn write_all_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        FileExt::write_all_at(self, bytes, at)
    }

    fn write_blocks_at(
        &self,
        mut pieces: &mut [IoSlice<'_>],
        mut at: u64,
        durably: bool,
    ) -> io::Result<()> {
        let flags = if durably { ReadWriteFlags::DSYNC } else { ReadWriteFlags::empty() };
        IoSlice::advance_slices(&mut pieces, 0);
        while !pieces.is_empty() {
            let written = retry_on_intr(|| pwritev2(self, pieces, at, flags))?;
            // The rest could not be written from where it begins, nor could a full disk go on.
            if written == 0 || !length_u64(written).is_multiple_of(BLOCK) {
                return Err(io::ErrorKind::WriteZero.into());
            }
            IoSlice::advance_slices(&mut pieces, written);
            at += length_u64(written);
        }
        Ok(())
    }

    fn read_exact_at(&self, out: &mut [u8], at: u64) -> io::Result<()> {
        FileExt::read_exact_at(self, out, at)
    }

    fn sync_data(&self) -> io::Result<()> {
        File::sync_data(self)
    }

    fn sync_all(&self) -> io::Result<()> {
        File::sync_all(self)
    }

    fn next_data(&self, range: Range<u64>) -> Option<Range<u64>> {
        let [from, to] = [range.start, range.end].map(LogOffset::new);
        let found = next_data(self, LogOffset::ZERO, from, to)?;
        Some(found.start.get()..found.end.get())
    }

    fn read_ahead(&self) {
        let _ = fadvise(self, 0, None, Advice::Sequential);
    }

    fn forget_clean_pages(&self) {
        let _ = fadvise(self, 0, None, Advice::DontNeed);
    }

    fn first_cached(&self, range: Range<u64>) -> Option<u64> {
        // An error: nothing of this file can be mapped, so it cannot be told.
        first_cached(self, range).ok()?
    }

    fn as_file(&self) -> Option<&File> {
        Some(self)
    }
}

fn open_direct(path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDWR | OFlags::DIRECT | OFlags::CLOEXEC | flags;
    retry_on_intr(|| rustix::fs::open(path, flags, Mode::from_raw_mode(0o600)))
}

/// The system's number for an error.
pub(crate) fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

#[cfg(not(modelled))]
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asking_what_is_cached_brings_nothing_into_the_cache() {
        let file = tempfile::tempfile().unwrap();
        let len = 4 << 20;
        FileExt::write_all_at(&file, &vec![1; len], 0).unwrap();
        let len = store_core::length_u64(len);
        assert_eq!(file.first_cached(0..len), Some(0));
        assert_eq!(file.first_cached(5000..len), Some(5000));
        File::sync_all(&file).unwrap();
        file.forget_clean_pages();
        // A file system in memory forgets nothing.
        if file.first_cached(0..len).is_some() {
            return;
        }
        for _ in 0..200 {
            assert_eq!(file.first_cached(0..len), None);
        }
    }
}
