//! What can go wrong, by operation; every error of the system names the call's purpose and path.

use std::fmt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use store_core::{BatchError, EncodeError, LogOffset, RecordTooLarge};

/// What was being done when the system refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Op {
    /// Getting space: for a segment by `fallocate` or writing zeroes, or, where the file system
    /// has to find new blocks for it, for a write.
    Allocate {
        /// How much, in bytes: the segment's size, or the write's.
        bytes: u64,
    },
    /// Making a directory or file.
    Create,
    /// Giving a file a second name: `link`.
    Link,
    /// Listing a directory.
    List,
    /// Taking the store's lock.
    Lock,
    /// Mapping a file or memory: `mmap`.
    Map,
    /// Opening a file.
    Open,
    /// Acting for a lane, which panicked: a bug, not the system's refusal.
    Panicked,
    /// Reading: `pread`.
    Read,
    /// Removing a file.
    Remove,
    /// Giving a file another name: `rename`.
    Rename,
    /// Starting a thread.
    Spawn,
    /// Making bytes durable: `fdatasync`, `msync` or `fsync`.
    Sync,
    /// Writing: `pwrite`.
    Write,
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Allocate { bytes } => write!(f, "allocate {bytes} bytes for"),
            Self::Create => f.write_str("create"),
            Self::Link => f.write_str("link"),
            Self::List => f.write_str("list"),
            Self::Lock => f.write_str("lock"),
            Self::Map => f.write_str("map"),
            Self::Open => f.write_str("open"),
            Self::Panicked => f.write_str("go on after a panic in a lane of"),
            Self::Read => f.write_str("read"),
            Self::Remove => f.write_str("remove"),
            Self::Rename => f.write_str("rename"),
            Self::Spawn => f.write_str("start a thread for"),
            Self::Sync => f.write_str("sync"),
            Self::Write => f.write_str("write"),
        }
    }
}

/// A refusal of the system.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Error {
    /// What was being done.
    pub op: Op,
    /// To which file or directory.
    pub path: PathBuf,
    /// Why not.
    pub source: Errno,
}

impl Error {
    pub(crate) fn new(op: Op, path: &Path, source: Errno) -> Self {
        Self { op, path: path.to_owned(), source }
    }

    pub(crate) fn from_std(op: Op, path: &Path, error: &std::io::Error) -> Self {
        Self::new(op, path, Errno::from_io_error(error).unwrap_or(Errno::IO))
    }

    /// Whether the disk is full, or a quota of it is used up: `ENOSPC`, `EDQUOT`.
    pub fn is_out_of_space(&self) -> bool {
        matches!(self.source, Errno::NOSPC | Errno::DQUOT)
    }

    /// The same; if it is for want of space, it says for how much, whatever call found out.
    pub(crate) fn wanting(self, bytes: u64) -> Self {
        if self.is_out_of_space() { Self { op: Op::Allocate { bytes }, ..self } } else { self }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {} {}: {}", self.op, self.path.display(), self.source)
    }
}

impl std::error::Error for Error {}

/// The first failed write or sync of a log; everything after it is refused.
///
/// Linux may have dropped the dirty pages and may report success next time, so a second try would
/// prove nothing. Reopen the log: recovery finds what is really there.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Poison {
    /// What failed first.
    pub first: Error,
}

impl fmt::Display for Poison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the log is poisoned until it is reopened: {}", self.first)
    }
}

impl std::error::Error for Poison {}

/// Why a log was not opened. No segment was changed, unless a torn tail was already cut.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum OpenError {
    /// A bad record that is no torn tail. Nothing was changed.
    Damage(Box<Damage>),
    /// The observer ended the scan ([`Observer::on_recovery`](crate::Observer::on_recovery)). What
    /// was proven by then need not be read again.
    Interrupted,
    /// Another process, or another `Log` of this one, owns the directory.
    Locked {
        /// The lock file.
        path: PathBuf,
    },
    /// A segment is missing between two others.
    MissingSegment {
        /// The file that should be there.
        path: PathBuf,
    },
    /// Segments are missing at the log's end: an earlier run had proven it durable beyond.
    MissingEnd {
        /// The first file that should be there.
        path: PathBuf,
        /// Where the log ended at least.
        proven: LogOffset,
    },
    /// The options contradict each other or the strategy.
    Options {
        /// What is wrong and what would be right.
        reason: String,
    },
    /// The system refused.
    System(Error),
    /// A file in the segment directory that is not a segment.
    UnknownFile {
        /// The file.
        path: PathBuf,
    },
    /// A segment's length is not the segment size.
    WrongLength {
        /// The file.
        path: PathBuf,
        /// Its length in bytes.
        found: u64,
        /// The segment size in bytes.
        expected: u64,
    },
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damage(damage) => damage.fmt(f),
            Self::Interrupted => f.write_str("opening was interrupted; open again to go on"),
            Self::Locked { path } => write!(
                f,
                "{} is locked: another process, or another log of this one, uses this store; stop \
                 it or choose another directory",
                path.display()
            ),
            Self::MissingSegment { path } => {
                let path = path.display();
                write!(f, "segment {path} is missing between two others: restore it, or repair")
            }
            Self::MissingEnd { path, proven } => write!(
                f,
                "segment {} is missing: the log was durable up to offset {proven}; restore it, or \
                 move recovery-point.0 and .1 out of the store to go on without",
                path.display()
            ),
            Self::Options { reason } => f.write_str(reason),
            Self::System(error) => error.fmt(f),
            Self::UnknownFile { path } => write!(
                f,
                "{} is no segment of this log and segment size: check the size, or move the file \
                 out of the way",
                path.display()
            ),
            Self::WrongLength { path, found, expected } => write!(
                f,
                "{} is {found} bytes long, the segment size is {expected}: if all segments are, \
                 open the log with that size; if this one alone is, restore it from a copy or \
                 repair the log",
                path.display()
            ),
        }
    }
}

impl std::error::Error for OpenError {}

/// A bad record with valid ones behind it, or a whole one that says that it stands elsewhere.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Damage {
    /// The segment's file.
    pub path: PathBuf,
    /// Where valid records end.
    pub at: LogOffset,
    /// Bytes from there to where they resume, or to the segment's end.
    pub len: u64,
    /// Valid records behind.
    pub records_behind: u64,
    /// Where the first of them begins.
    pub resumes_at: Option<LogOffset>,
    /// What is wrong at `at`.
    pub found: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, at, len, records_behind, resumes_at, found } = self;
        write!(f, "{} is damaged at log offset {at}: {len} bytes ({found})", path.display())?;
        if let Some(resumes_at) = resumes_at {
            let records = if *records_behind == 1 { "record lies" } else { "records lie" };
            write!(f, "; {records_behind} valid {records} behind, from log offset {resumes_at}")?;
        }
        f.write_str("; nothing was changed: restore the segment from a copy, or repair the log")?;
        f.write_str(" (plan_repair, cargo xtask log repair)")
    }
}

impl From<Error> for OpenError {
    fn from(error: Error) -> Self {
        Self::System(error)
    }
}

/// Why a message was not appended. Nothing of it is in the log.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum AppendError {
    /// The batch is not one, or a member of it cannot be a record.
    Batch(BatchError),
    /// The records of a batch together exceed what the log takes at once.
    BatchTooLong {
        /// Their length in bytes.
        len: u32,
        /// The limit: that of a body, and 64 KiB.
        max: u64,
    },
    /// The body, or a batch as the client sends it, exceeds the log's limit.
    BodyTooLong {
        /// Its length in bytes.
        len: usize,
        /// The limit (`maxMessageSize`).
        max: usize,
    },
    /// The log was closed.
    Closed,
    /// The message cannot be a record.
    Encode(EncodeError),
    /// The queue handle is another log's.
    ForeignQueue,
    /// The log's last offset was reached, or the queue's.
    OffsetsExhausted,
    /// An earlier write or sync failed.
    Poisoned(Poison),
    /// The next segment could not be made; append again once the cause is gone.
    Segment(Error),
    /// The next segment was not ready within the limit; append again.
    SegmentNotReady,
    /// The staging buffer stayed full within the limit: the disk does not keep up. Append again.
    StagingFull,
    /// The record fits no segment.
    TooLarge(RecordTooLarge),
}

impl fmt::Display for AppendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Batch(error) => error.fmt(f),
            Self::BatchTooLong { len, max } => {
                write!(f, "a batch whose records have {len} bytes exceeds the log's limit of {max}")
            }
            Self::BodyTooLong { len, max } => {
                write!(f, "a body or batch of {len} bytes exceeds the log's limit of {max}")
            }
            Self::Closed => f.write_str("the log is closed"),
            Self::Encode(error) => error.fmt(f),
            Self::ForeignQueue => f.write_str("the queue belongs to another log"),
            Self::OffsetsExhausted => {
                f.write_str("the log or the queue has reached its last offset")
            }
            Self::Poisoned(poison) => poison.fmt(f),
            Self::Segment(error) => write!(f, "no room for the next segment: {error}"),
            Self::SegmentNotReady => f.write_str("the next segment was not ready in time"),
            Self::StagingFull => {
                f.write_str("the staging buffer stayed full: the disk lags behind")
            }
            Self::TooLarge(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for AppendError {}

impl From<BatchError> for AppendError {
    fn from(error: BatchError) -> Self {
        Self::Batch(error)
    }
}

impl From<EncodeError> for AppendError {
    fn from(error: EncodeError) -> Self {
        Self::Encode(error)
    }
}

impl From<RecordTooLarge> for AppendError {
    fn from(error: RecordTooLarge) -> Self {
        Self::TooLarge(error)
    }
}

impl From<Poison> for AppendError {
    fn from(poison: Poison) -> Self {
        Self::Poisoned(poison)
    }
}

/// Why a producer was not told "ok". The record is in the log in every case.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum AckError {
    /// The log was closed or dropped before the record was durable.
    Closed,
    /// The deadline passed (`FLUSH_DISK_TIMEOUT`). The record may still become durable.
    FlushTimedOut,
    /// A write or sync that would have covered the record failed.
    Poisoned(Poison),
}

impl fmt::Display for AckError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("the log was closed before the record was durable"),
            Self::FlushTimedOut => f.write_str("the record was not flushed before the deadline"),
            Self::Poisoned(poison) => poison.fmt(f),
        }
    }
}

impl std::error::Error for AckError {}

/// Why a record was not read.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum ReadError {
    /// No record begins there, or it is not what was written.
    NotARecord {
        /// The offset asked for.
        at: LogOffset,
        /// What is wrong.
        found: String,
    },
    /// The offset is not below the readable end.
    PastEnd {
        /// The offset asked for.
        at: LogOffset,
        /// The readable end.
        end: LogOffset,
    },
    /// The offset lies before the first segment.
    BeforeStart {
        /// The offset asked for.
        at: LogOffset,
        /// The log's first offset.
        start: LogOffset,
    },
    /// The system refused.
    System(Error),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotARecord { at, found } => write!(f, "no record at log offset {at}: {found}"),
            Self::PastEnd { at, end } => {
                write!(f, "log offset {at} is not below the readable end {end}")
            }
            Self::BeforeStart { at, start } => {
                write!(f, "log offset {at} lies before the log's start {start}")
            }
            Self::System(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ReadError {}

impl From<Error> for ReadError {
    fn from(error: Error) -> Self {
        Self::System(error)
    }
}

/// What closing could not do. The directory is unlocked all the same, unless it took too long.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum CloseError {
    /// The log is poisoned: bytes from `flushed` to `wrote` may be lost.
    Poisoned {
        /// Where durable bytes end.
        flushed: LogOffset,
        /// Where appended bytes end.
        wrote: LogOffset,
        /// Why.
        poison: Poison,
    },
    /// Everything is durable, but the marks of an unclean exit were not removed.
    System(Error),
    /// The disk did not answer in time ([`LogOptions::close_timeout`]). The log goes on closing by
    /// itself; until that is done, the directory stays locked.
    ///
    /// [`LogOptions::close_timeout`]: crate::LogOptions::close_timeout
    TimedOut {
        /// Where durable bytes ended then.
        flushed: LogOffset,
        /// Where appended bytes end.
        wrote: LogOffset,
    },
    /// The strategy called itself done before everything was flushed.
    Unflushed {
        /// Where durable bytes end.
        flushed: LogOffset,
        /// Where appended bytes end.
        wrote: LogOffset,
    },
}

impl fmt::Display for CloseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Poisoned { flushed, wrote, poison } => {
                write!(f, "log offsets {flushed} to {wrote} may be lost: {poison}")
            }
            Self::System(error) => {
                write!(f, "everything is durable, but the log is not marked as closed: {error}")
            }
            Self::TimedOut { flushed, wrote } if flushed == wrote => f.write_str(
                "everything is durable, but the disk did not answer in time; the store stays \
                 locked until it does",
            ),
            Self::TimedOut { flushed, wrote } => write!(
                f,
                "log offsets {flushed} to {wrote} were not durable in time; the store stays locked \
                 until the disk answers"
            ),
            Self::Unflushed { flushed, wrote } => {
                write!(f, "log offsets {flushed} to {wrote} were not flushed by the strategy")
            }
        }
    }
}

impl std::error::Error for CloseError {}
