//! One segment's file: made with real space, written, synced, read.

use std::io::{self, IoSlice};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;
use store_core::{LogOffset, SegmentName, SegmentSize, length_u64};

use crate::directory::sync_directory_of;
use crate::error::{Error, Op};
use crate::faults::{Call, Injected};
use crate::files::{Files, LogFile, errno};
use crate::filling::{Filling, Haste, InOneGo, Pace, fill};
use crate::map::{FileMap, FileWriter, page_cache};
use crate::options::{Io, LogOptions, Platform, Preallocate};
use crate::page_cache::PageCache;
use crate::sync::AtomicBool;
use crate::walk::{Source, behind};

/// A segment's file and, while it takes mapped appends, its map.
///
/// Invariant: the file is `size` bytes long and, but for [`Preallocate::None`], its blocks are
/// allocated.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) start: LogOffset,
    size: SegmentSize,
    path: PathBuf,
    /// `None` once the segment is full, durable and old: it is opened when it is read.
    file: Option<Arc<dyn LogFile>>,
    map: Option<FileMap>,
    /// The same file for writes past the page cache, while it takes such appends.
    direct: Option<Arc<dyn LogFile>>,
    filling: Arc<Filling>,
    platform: Platform,
    faults: Injected,
}

impl Segment {
    /// Makes the segment that begins at `start`: created, allocated, synced, entered in its
    /// directory durably, and for mapped appends mapped and faulted in.
    ///
    /// A failure leaves no file behind; `pace` may end a long zero-fill early.
    pub(crate) fn create(
        directory: &Path,
        start: LogOffset,
        options: &LogOptions,
        pace: &dyn Pace,
    ) -> Result<(Self, Option<FileWriter>), Error> {
        let path = directory.join(SegmentName::new(start).as_str());
        let files = options.files();
        let file =
            files.create_new(&path).map_err(|error| Error::from_std(Op::Create, &path, &error))?;
        let made = Self::furnish(&path, file, start, options, pace)
            .and_then(|made| sync_directory_of(files, directory).map(|()| made));
        if made.is_err() {
            // The first error is the one to report. A file that stays is all zero: recovery drops
            // it.
            let _ = files.remove(&path);
        }
        made
    }

    fn furnish(
        path: &Path,
        file: Arc<dyn LogFile>,
        start: LogOffset,
        options: &LogOptions,
        pace: &dyn Pace,
    ) -> Result<(Self, Option<FileWriter>), Error> {
        let size = options.segment_size;
        let allocation = |errno| Error::new(Op::Allocate { bytes: size.bytes() }, path, errno);
        options.faults.0.before(Call::Allocate).map_err(allocation)?;
        file.write_in_place();
        // The length first: a file of another length would make RocketMQ refuse the whole store.
        file.set_len(size.bytes()).map_err(|error| allocation(errno(&error)))?;
        let is_filled = allocate(&*file, options, pace).map_err(allocation)?;
        file.sync_all().map_err(|error| Error::from_std(Op::Sync, path, &error))?;
        let made = Self::finish(path, file, start, options)?;
        if is_filled {
            made.0.filling.end();
        }
        Ok(made)
    }

    /// Opens an existing segment to append to it behind `end`: `fallocate` makes sure of its space
    /// again, which leaves what is written as it is.
    pub(crate) fn reopen(
        path: &Path,
        start: LogOffset,
        end: LogOffset,
        options: &LogOptions,
    ) -> Result<(Self, Option<FileWriter>), Error> {
        let file = open_existing(options.files(), path)?;
        let size = options.segment_size;
        let reserved = match options.preallocate {
            Preallocate::None => Ok(()),
            Preallocate::Fallocate | Preallocate::Zero => reserve(&*file, size),
        };
        match reserved {
            Err(Errno::OPNOTSUPP) => {
                zero_fill(&*file, end.since(start), size.bytes(), &InOneGo(&AtomicBool::new(false)))
            }
            // xfs wants free space for it even if all of it is allocated already.
            Err(Errno::NOSPC | Errno::DQUOT)
                if file.allocated().is_ok_and(|allocated| size.bytes() <= allocated) =>
            {
                Ok(())
            }
            result => result,
        }
        .map_err(|errno| Error::new(Op::Allocate { bytes: size.bytes() }, path, errno))?;
        Self::finish(path, file, start, options)
    }

    fn finish(
        path: &Path,
        file: Arc<dyn LogFile>,
        start: LogOffset,
        options: &LogOptions,
    ) -> Result<(Self, Option<FileWriter>), Error> {
        let (map, writer) = match options.io() {
            Io::Positioned | Io::Direct => (None, None),
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
        let direct = match options.io() {
            Io::Direct => Some(open_direct(options.files(), path)?),
            Io::Mapped | Io::Positioned => None,
        };
        let segment = Self {
            start,
            size: options.segment_size,
            path: path.to_owned(),
            file: Some(file),
            map,
            direct,
            filling: Arc::default(),
            platform: options.platform.clone(),
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
        let file = open_existing(options.files(), path)?;
        Ok(Self {
            start,
            size: options.segment_size,
            path: path.to_owned(),
            file: Some(file),
            map: None,
            direct: None,
            filling: Arc::default(),
            platform: options.platform.clone(),
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
            direct: None,
            filling: Arc::default(),
            platform: options.platform.clone(),
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
            direct: None,
            filling: Arc::clone(&self.filling),
            platform: self.platform.clone(),
            faults: self.faults.clone(),
        })
    }

    /// The same segment without its map and, unless it `keeps_file`, without its descriptor; `None`
    /// if it has neither to give back.
    pub(crate) fn retired(&self, keeps_file: bool) -> Option<Self> {
        let file = self.file.clone().filter(|_| keeps_file);
        let has_less = file.is_some() != self.file.is_some();
        if self.map.is_none() && self.direct.is_none() && !has_less {
            return None;
        }
        Some(Self {
            start: self.start,
            size: self.size,
            path: self.path.clone(),
            file,
            map: None,
            direct: None,
            filling: Arc::clone(&self.filling),
            platform: self.platform.clone(),
            faults: self.faults.clone(),
        })
    }

    fn file(&self) -> Result<Arc<dyn LogFile>, Error> {
        match &self.file {
            Some(file) => Ok(Arc::clone(file)),
            None => open_existing(&*self.platform.0, &self.path),
        }
    }

    /// The offset behind the segment's last byte.
    pub(crate) fn end(&self) -> LogOffset {
        LogOffset::new(self.start.get() + self.size.bytes())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes zeroes over what is reserved up to `bytes`, so that later writes change data only,
    /// until the first of those comes; not into a mapped segment.
    ///
    /// Through a descriptor of its own, so that an error that concerns records is not told here
    /// instead of there. (The other way round it is: of a page of zeroes that could not be written
    /// the first sync of a record tells too, and poisons the log.)
    pub(crate) fn fill(&self, bytes: u64, options: &LogOptions, pace: &dyn Pace) {
        if options.preallocate != Preallocate::Zero {
            return;
        }
        let files = options.files();
        let opened = match options.io() {
            Io::Mapped => return,
            Io::Positioned => files.open(&self.path),
            Io::Direct => files.open_direct(&self.path),
        };
        let Ok(file) = opened else { return };
        self.filling.run(bytes.min(self.size.bytes()), pace, |zeroes, at| {
            let written = match options.io() {
                Io::Direct => file.write_blocks_at(&mut [IoSlice::new(zeroes)], at, true),
                Io::Mapped | Io::Positioned => {
                    file.write_all_at(zeroes, at).and_then(|()| file.sync_data())
                }
            };
            written.map_err(|error| errno(&error))
        });
    }

    /// No zero is written any more; `false` while some are being written, of which the allocator
    /// tells when it is over.
    pub(crate) fn end_filling(&self) -> bool {
        self.filling.try_end()
    }

    /// Writes all of `bytes` at log offset `at`: `pwrite`, again after a short write.
    pub(crate) fn write(&self, bytes: &[u8], at: LogOffset) -> Result<(), Error> {
        self.filling.end();
        self.faults
            .before(Call::Write)
            .map_err(|errno| Error::new(Op::Write, &self.path, errno))?;
        self.file()?
            .write_all_at(bytes, at.since(self.start))
            .map_err(|error| Error::from_std(Op::Write, &self.path, &error))
            .map_err(|error| error.wanting(length_u64(bytes.len())))
    }

    /// Writes blocks at log offset `at` past the page cache; `durably`: they are on the device when
    /// it returns, they alone.
    pub(crate) fn write_blocks(
        &self,
        pieces: &mut [IoSlice<'_>],
        at: LogOffset,
        durably: bool,
    ) -> Result<(), Error> {
        self.filling.end();
        let failed = |op| move |errno| Error::new(op, &self.path, errno);
        self.faults.before(Call::Write).map_err(failed(Op::Write))?;
        if durably {
            self.faults.before(Call::Sync).map_err(failed(Op::Sync))?;
        }
        let len = pieces.iter().map(|piece| length_u64(piece.len())).sum();
        let file = self.direct.as_ref().expect("a segment that takes blocks is open for it");
        file.write_blocks_at(pieces, at.since(self.start), durably).map_err(|error| {
            let written = Error::from_std(Op::Write, &self.path, &error).wanting(len);
            // Which half of a call that does both has failed only a full disk tells.
            let is_sync = durably && !written.is_out_of_space();
            if is_sync { Error::from_std(Op::Sync, &self.path, &error) } else { written }
        })?;
        if durably { self.check_named(Ok(())) } else { Ok(()) }
    }

    /// Blocks until the bytes of `from..to` are on the device: `msync` of just that range where the
    /// segment is mapped, else `fdatasync`.
    ///
    /// One call, never repeated: a second one could succeed and lie (`docs/ASSUMPTIONS.md`).
    /// `ENOENT` if the file has no name any more: nobody will find what is on the device.
    pub(crate) fn sync(&self, from: LogOffset, to: LogOffset) -> Result<(), Error> {
        self.faults.before(Call::Sync).map_err(|errno| Error::new(Op::Sync, &self.path, errno))?;
        self.check_named(match &self.map {
            Some(map) => {
                let place = |offset: LogOffset| {
                    usize::try_from(offset.since(self.start)).expect("a mapped place fits usize")
                };
                map.sync(place(from), place(to))
            }
            // Of the descriptor that the writes went through, which is told of their errors.
            None => match &self.direct {
                Some(file) => file.sync_data(),
                None => self.file()?.sync_data(),
            },
        })
    }

    /// What a sync gave, unless the file has lost its name.
    fn check_named(&self, synced: io::Result<()>) -> Result<(), Error> {
        let named =
            synced.and_then(|()| self.file.as_ref().map_or(Ok(true), |file| file.is_named()));
        match named {
            Ok(true) => Ok(()),
            Ok(false) => Err(Error::new(Op::Sync, &self.path, Errno::NOENT)),
            Err(error) => Err(Error::from_std(Op::Sync, &self.path, &error)),
        }
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
            file.read_ahead();
        }
    }

    /// Makes the page cache forget what is clean, so that the next read sees the device:
    /// `posix_fadvise(POSIX_FADV_DONTNEED)`. A hint.
    pub(crate) fn forget_clean_pages(&self) {
        if let Some(file) = &self.file {
            file.forget_clean_pages();
        }
    }
}

impl Segment {
    /// The first place of `from..` that the page cache still holds: what was read there need not be
    /// on the device.
    pub(crate) fn first_cached(&self, from: LogOffset) -> Option<LogOffset> {
        let range = from.since(self.start)..self.size.bytes();
        let found = self.file.as_ref()?.first_cached(range)?;
        Some(behind(self.start, found))
    }

    /// What the page cache holds of the part of `range` that lies here. `None` if the kernel cannot
    /// tell; nothing of a segment that is full, durable and closed.
    pub(crate) fn page_cache(&self, range: &Range<LogOffset>) -> Option<PageCache> {
        let [from, to] = [range.start, range.end.min(self.end())]
            .map(|at| at.get().saturating_sub(self.start.get()));
        match self.file.as_ref() {
            Some(file) if from < to => page_cache(file.as_file()?, from..to).ok(),
            Some(_) | None => Some(PageCache::default()),
        }
    }
}

impl Source for Segment {
    fn read(&self, out: &mut [u8], at: LogOffset) -> Result<(), Error> {
        Self::read(self, out, at)
    }

    fn next_data(&self, from: LogOffset, to: LogOffset) -> Option<Range<LogOffset>> {
        match self.file() {
            Ok(file) => {
                let found = file.next_data(from.since(self.start)..to.since(self.start))?;
                Some(behind(self.start, found.start)..behind(self.start, found.end))
            }
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

fn open_direct(files: &dyn Files, path: &Path) -> Result<Arc<dyn LogFile>, Error> {
    files.open_direct(path).map_err(|error| Error::from_std(Op::Open, path, &error))
}

fn open_existing(files: &dyn Files, path: &Path) -> Result<Arc<dyn LogFile>, Error> {
    files.open(path).map_err(|error| Error::from_std(Op::Open, path, &error))
}

/// Makes sure that every block of the file exists; whether zeroes were written to all.
fn allocate(file: &dyn LogFile, options: &LogOptions, pace: &dyn Pace) -> Result<bool, Errno> {
    let size = options.segment_size;
    if options.preallocate == Preallocate::None {
        return Ok(false);
    }
    // Into a mapping appends store at any time, so zeroes come before them.
    let is_first = options.preallocate == Preallocate::Zero && options.io() == Io::Mapped;
    match reserve(file, size) {
        Ok(()) if !is_first => return Ok(false),
        // A file system without fallocate still gives real blocks to real zeroes.
        Ok(()) | Err(Errno::OPNOTSUPP) => {}
        Err(errno) => return Err(errno),
    }
    zero_fill(file, 0, size.bytes(), pace).map(|()| true)
}

fn reserve(file: &dyn LogFile, size: SegmentSize) -> Result<(), Errno> {
    file.allocate(size.bytes()).map_err(|error| errno(&error))
}

fn zero_fill(file: &dyn LogFile, from: u64, bytes: u64, pace: &dyn Pace) -> Result<(), Errno> {
    fill(from..bytes, pace, |zeroes, at, haste| {
        let written = file.write_all_at(zeroes, at);
        match haste {
            Haste::Hurry => written,
            // Else all of it would reach the device at once, in front of everyone's syncs.
            Haste::Share | Haste::Wait => written.and_then(|()| file.sync_data()),
        }
        .map_err(|error| errno(&error))
    })
}

#[cfg(not(modelled))]
#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use store_core::Nanos;

    use super::*;
    use crate::filling::PIECE;

    /// In a hurry for some chunks, with time for the others, and stopped after so many.
    struct Scripted {
        hurries: Vec<usize>,
        stops: usize,
        asked: Cell<usize>,
        rested: RefCell<Vec<usize>>,
    }

    impl Pace for Scripted {
        fn haste(&self, _filled: u64, _of: u64) -> Result<Haste, Errno> {
            let chunk = self.asked.get();
            self.asked.set(chunk + 1);
            match chunk {
                _ if chunk == self.stops => Err(Errno::CANCELED),
                _ if self.hurries.contains(&chunk) => Ok(Haste::Hurry),
                _ => Ok(Haste::Share),
            }
        }

        fn rest(&self, _took: Nanos) {
            self.rested.borrow_mut().push(self.asked.get() - 1);
        }
    }

    fn scripted(hurries: &[usize], stops: usize) -> Scripted {
        let (asked, rested) = (Cell::new(0), RefCell::new(Vec::new()));
        Scripted { hurries: hurries.to_vec(), stops, asked, rested }
    }

    #[test]
    fn others_are_let_through_between_chunks_while_nobody_waits() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("segment");
        std::fs::write(&path, vec![7; 5 * PIECE / 2]).unwrap();
        let file = Platform::default().files().open(&path).unwrap();
        let bytes = length_u64(5 * PIECE / 2);
        let pace = scripted(&[1], usize::MAX);
        zero_fill(&*file, 10, bytes, &pace).unwrap();
        assert_eq!(*pace.rested.borrow(), [0], "nothing is left to rest for behind the last");
        let mut expect = vec![0; 5 * PIECE / 2];
        expect[..10].fill(7);
        assert!(std::fs::read(&path).unwrap() == expect);
    }

    #[test]
    fn a_fill_that_is_to_end_ends_at_its_next_chunk() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("segment");
        std::fs::write(&path, b"").unwrap();
        let file = Platform::default().files().open(&path).unwrap();
        let bytes = length_u64(4 * PIECE);
        assert_eq!(zero_fill(&*file, 0, bytes, &scripted(&[], 2)), Err(Errno::CANCELED));
        assert_eq!(std::fs::metadata(&path).unwrap().len(), length_u64(2 * PIECE));
        let stop = AtomicBool::new(true);
        assert_eq!(zero_fill(&*file, 0, bytes, &InOneGo(&stop)), Err(Errno::CANCELED));
    }
}
