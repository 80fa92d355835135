//! A segment's file for reading only, whose bad sectors are read around.

use std::fs::File;
use std::io::{Error as IoError, ErrorKind};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{Advice, Mode, OFlags, fadvise, open};
use rustix::io::Errno;
use store_core::{LogOffset, SegmentSize, length_u64};

use crate::error::{Error, Op};
use crate::walk::{Source, behind, next_data};

/// A segment's file, opened `O_RDONLY`. Behind its end it reads as zeroes, and so does a sector
/// that the device does not give, which is noted.
#[derive(Debug)]
pub(crate) struct SegmentFile<F = File> {
    path: PathBuf,
    start: LogOffset,
    size: SegmentSize,
    file: F,
    unreadable: Mutex<Vec<(Range<LogOffset>, Errno)>>,
}

impl SegmentFile {
    pub(crate) fn open(path: &Path, start: LogOffset, size: SegmentSize) -> Result<Self, Error> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = open(path, flags, Mode::empty())
            .map_err(|errno| Error::new(Op::Open, path, errno))
            .map(File::from)?;
        // Larger read-ahead; a hint.
        let _ = fadvise(&file, 0, None, Advice::Sequential);
        Ok(Self::with_file(path, start, size, file))
    }
}

impl<F> SegmentFile<F> {
    pub(crate) fn with_file(path: &Path, start: LogOffset, size: SegmentSize, file: F) -> Self {
        Self { path: path.to_owned(), start, size, file, unreadable: Mutex::default() }
    }

    pub(crate) fn start(&self) -> LogOffset {
        self.start
    }

    pub(crate) fn end(&self) -> LogOffset {
        behind(self.start, self.size.bytes())
    }

    /// What reading gave in `from..to`, where some of it could not be read.
    pub(crate) fn refusal(&self, from: LogOffset, to: LogOffset) -> Option<Errno> {
        let unreadable = self.unreadable.lock().unwrap_or_else(PoisonError::into_inner);
        let touches = |range: &Range<LogOffset>| range.start < to && from < range.end;
        unreadable.iter().find(|(range, _)| touches(range)).map(|(_, errno)| *errno)
    }
}

impl<F: FileExt> SegmentFile<F> {
    /// Reads sector by sector what could not be read at once.
    fn read_around(&self, out: &mut [u8], at: u64) -> Result<(), Errno> {
        let mut place = at;
        let mut rest = out;
        while !rest.is_empty() {
            let to_border = usize::try_from(SECTOR - place % SECTOR).unwrap_or(rest.len());
            let (sector, behind_it) = rest.split_at_mut(to_border.min(rest.len()));
            let len = length_u64(sector.len());
            if let Err(errno) = read_or_zero(&self.file, sector, place) {
                if !BAD_SECTOR.contains(&errno) {
                    return Err(errno);
                }
                sector.fill(0);
                let from = behind(self.start, place);
                let mut unreadable = self.unreadable.lock().unwrap_or_else(PoisonError::into_inner);
                unreadable.push((from..behind(from, len), errno));
            }
            place += len;
            rest = behind_it;
        }
        Ok(())
    }
}

impl<F: FileExt + DataParts> Source for SegmentFile<F> {
    fn read(&self, out: &mut [u8], at: LogOffset) -> Result<(), Error> {
        let place = at.since(self.start);
        match read_or_zero(&self.file, out, place) {
            Err(errno) if BAD_SECTOR.contains(&errno) => self.read_around(out, place),
            result => result,
        }
        .map_err(|errno| Error::new(Op::Read, &self.path, errno))
    }

    fn is_readable(&self, from: LogOffset, to: LogOffset) -> bool {
        self.refusal(from, to).is_none()
    }

    fn next_data(&self, from: LogOffset, to: LogOffset) -> Option<Range<LogOffset>> {
        self.file.next_data(self.start, from, to)
    }
}

/// Where a file has data.
pub(crate) trait DataParts {
    fn next_data(
        &self,
        base: LogOffset,
        from: LogOffset,
        to: LogOffset,
    ) -> Option<Range<LogOffset>>;
}

impl DataParts for File {
    fn next_data(
        &self,
        base: LogOffset,
        from: LogOffset,
        to: LogOffset,
    ) -> Option<Range<LogOffset>> {
        next_data(self, base, from, to)
    }
}

/// Fills `out` from byte `at` of the file on; what lies behind the file's end is zero.
fn read_or_zero(file: &impl FileExt, out: &mut [u8], at: u64) -> Result<(), Errno> {
    let mut done = 0;
    while done < out.len() {
        match file.read_at(&mut out[done..], at + length_u64(done)) {
            Ok(0) => {
                out[done..].fill(0);
                break;
            }
            Ok(len) => done += len,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(errno_of(&error)),
        }
    }
    Ok(())
}

fn errno_of(error: &IoError) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

/// What is read at once around a bad sector, in bytes: the page cache reads no less.
const SECTOR: u64 = 4096;

/// What the block layer and file systems answer for a sector that is bad, or has a bad checksum.
const BAD_SECTOR: [Errno; 6] =
    [Errno::BADMSG, Errno::ILSEQ, Errno::IO, Errno::NODATA, Errno::REMOTEIO, Errno::UCLEAN];
