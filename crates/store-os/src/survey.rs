//! Surveying a store: every byte of its commit log read, what stands there, and what is wrong.
//!
//! Nothing here takes the store's lock, writes, or needs leave to write; an owner may be appending
//! meanwhile, and then the tail may look torn ([`Survey::locked`]).

mod listing;
mod merge;
mod scan;
mod segment_file;

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZero;
use std::ops::ControlFlow;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;

use rustix::io::Errno;
use store_core::{
    Checkpoint, CheckpointError, LogOffset, Protection, QueueId, QueueOffset, SegmentSize,
    TimestampMs,
};

use crate::directory;
use crate::error::Error;
use crate::segment_scan::{ClockStep, ScanProgress};

pub(crate) use listing::{Listed, Listing, Stamp};
pub(crate) use merge::{Bridge, Gap, TailPart};
use scan::SegmentScan;
pub(crate) use segment_file::SegmentFile;

/// What to look at and how.
///
/// Make one with `SurveyOptions { …, ..SurveyOptions::default() }`.
#[derive(Clone, Copy, Default)]
pub struct SurveyOptions<'a> {
    /// Size of each segment (`mappedFileSizeCommitLog`). Default `None`: what the recovery point
    /// says, or else the distance between the segments' names; of a single segment, its length.
    pub segment_size: Option<SegmentSize>,
    /// What is verified of each record. Default [`Protection::Record`].
    pub protection: Protection,
    /// Told as the scan goes on, from any of its threads; `Break` ends the scan with
    /// [`SurveyError::Interrupted`].
    pub progress: Option<&'a (dyn Fn(ScanProgress) -> ControlFlow<()> + Sync)>,
}

impl fmt::Debug for SurveyOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SurveyOptions")
            .field("segment_size", &self.segment_size)
            .field("protection", &self.protection)
            .finish_non_exhaustive()
    }
}

/// All that stands in a store's commit log.
#[derive(Clone, Debug)]
pub struct Survey {
    /// The directory that holds the segments.
    pub segments_dir: PathBuf,
    /// Size of each segment.
    pub segment_size: SegmentSize,
    /// The first segment's first byte.
    pub start: LogOffset,
    /// Where valid records end: behind the last one, or at its segment's end if a blank follows;
    /// behind the missing segments where an owner had proven the log durable in such.
    pub end: LogOffset,
    /// Each segment that is there, in log order.
    pub segments: Vec<SegmentSurvey>,
    /// What is wrong, in log order, files that have no place in the log last; empty if sound.
    pub faults: Vec<Fault>,
    /// What each topic has, by its name's bytes.
    pub topics: BTreeMap<Vec<u8>, TopicSurvey>,
    /// Valid records.
    pub records: u64,
    /// Bytes that they take.
    pub record_bytes: u64,
    /// Bytes that blanks close segments with.
    pub blank_bytes: u64,
    /// Records whose topic length has two bytes.
    pub records_v2: u64,
    /// Records with a CRC32 property.
    pub records_protected: u64,
    /// The first record's store time.
    pub first_store: Option<TimestampMs>,
    /// The last record's store time.
    pub last_store: Option<TimestampMs>,
    /// How often store time goes back from one record to the next. RocketMQ's clock did; no fault.
    pub clock_steps: u64,
    /// The first of these.
    pub first_clock_step: Option<ClockStep>,
    /// What the file `checkpoint` says; `None` if there is no such file.
    pub checkpoint: Option<Result<Checkpoint, CheckpointError>>,
    /// Up to where Flushmark's recovery point proves the log: opening does not read again what lies
    /// before, if that is more than 16 MiB. `None` if there is no point of this log.
    pub proven: Option<LogOffset>,
    /// What the file `abort` holds, which an owner has while it runs and leaves when it dies.
    pub abort: Option<String>,
    /// Whether somebody holds the store's lock, so that the log may have changed meanwhile.
    pub locked: bool,
}

impl Survey {
    /// What opening the log would make of it.
    pub fn health(&self) -> Health {
        self.faults.iter().map(Fault::health).max().unwrap_or(Health::Sound)
    }
}

/// What a survey says in one word; later variants are worse.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Health {
    /// Nothing is wrong.
    Sound,
    /// What a crash leaves at a log's end; opening cuts it.
    TornTail,
    /// Opening refuses; repair says what is lost.
    Damaged,
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sound => "sound",
            Self::TornTail => "torn tail",
            Self::Damaged => "damaged",
        })
    }
}

/// One segment's file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SegmentSurvey {
    /// The file.
    pub path: PathBuf,
    /// Its first byte in the log.
    pub start: LogOffset,
    /// Its length in bytes.
    pub file_len: u64,
    /// Valid records in it.
    pub records: u64,
    /// Bytes that they take.
    pub record_bytes: u64,
    /// Bytes from the blank that closes it to its end; 0 if there is none.
    pub blank_bytes: u64,
    /// Its first record's store time.
    pub first_store: Option<TimestampMs>,
    /// Its last record's store time.
    pub last_store: Option<TimestampMs>,
}

/// One topic's records.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct TopicSurvey {
    /// Records, also those that take no place in a queue.
    pub records: u64,
    /// Bytes that they take.
    pub record_bytes: u64,
    /// Its queues.
    pub queues: BTreeMap<QueueId, QueueSurvey>,
}

/// One queue's records; prepared and rollback records have no place in one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct QueueSurvey {
    /// Records.
    pub records: u64,
    /// The first one's queue offset.
    pub first: QueueOffset,
    /// The queue offset behind the last one.
    pub next: QueueOffset,
    /// How often a record does not have the queue offset that follows from the one before it.
    pub gaps: u64,
}

/// Something wrong in a store.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Fault {
    /// The file.
    pub path: PathBuf,
    /// Where the fault begins in the log.
    pub from: LogOffset,
    /// Where it ends.
    pub to: LogOffset,
    /// What it is.
    pub kind: FaultKind,
}

impl Fault {
    fn health(&self) -> Health {
        match self.kind {
            FaultKind::Empty | FaultKind::StaleTail { .. } | FaultKind::TornTail { .. } => {
                Health::TornTail
            }
            _ => Health::Damaged,
        }
    }
}

/// What is wrong.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum FaultKind {
    /// A bad record that is no torn tail: valid ones stand behind it, or it is whole and says that
    /// it stands elsewhere, or too much behind it only looks like records to be sure.
    Damage {
        /// What is wrong with the first bad record.
        found: String,
        /// Valid records from the fault's end to the log's end.
        records_behind: u64,
    },
    /// The last file has no byte: what a crash leaves between making a file and giving it its
    /// length. Opening removes it. Not told of a store in use: its owner is making the file.
    Empty,
    /// The segments of the range are missing, between two others or behind the last one where an
    /// owner had proven the log durable; the path is the first one's.
    MissingSegment,
    /// Valid records behind the log's end that are all older than the last one before it: left over
    /// from a cut that was not made durable (apache/rocketmq#10666). Opening cuts them.
    StaleTail {
        /// What is wrong at the log's end.
        found: String,
        /// Valid records in the range.
        records: u64,
    },
    /// Nothing valid stands behind, and not all is zero: what a crash leaves. Opening cuts it. The
    /// fault ends behind the last byte that is not zero.
    TornTail {
        /// What is wrong at the log's end.
        found: String,
    },
    /// A symbolic link under a segment's name. It is not followed, also not by opening: a repair
    /// would replace the link and not the file.
    SymbolicLink,
    /// A file that is no segment of this log.
    UnknownFile,
    /// Sectors of the device that cannot be read.
    Unreadable {
        /// What reading gave.
        errno: Errno,
        /// Valid records from the fault's end to the log's end.
        records_behind: u64,
    },
    /// A segment whose length is not the segment size. What it has was surveyed all the same.
    WrongLength {
        /// The file's length in bytes.
        found: u64,
        /// The segment size in bytes.
        expected: u64,
    },
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damage { found, records_behind } => {
                write!(f, "damage ({found}), valid records behind: {records_behind}")
            }
            Self::Empty => f.write_str("a last segment without a byte"),
            Self::MissingSegment => f.write_str("missing"),
            Self::StaleTail { found, records } => {
                write!(f, "stale tail ({found}), older records behind: {records}")
            }
            Self::TornTail { found } => write!(f, "torn tail ({found})"),
            Self::SymbolicLink => f.write_str("a symbolic link: put the file itself there"),
            Self::UnknownFile => f.write_str("not a segment of this log"),
            Self::Unreadable { errno, records_behind } => {
                write!(f, "unreadable ({errno}), valid records behind: {records_behind}")
            }
            Self::WrongLength { found, expected } => {
                write!(f, "{found} bytes long, segments of this log have {expected}")
            }
        }
    }
}

/// Why a store was not surveyed.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum SurveyError {
    /// The progress callback broke off.
    Interrupted,
    /// The directory has neither a `commitlog` nor segments in it.
    NotAStore {
        /// The directory.
        path: PathBuf,
    },
    /// Hardly any segment has the size that was given, and most have another.
    OtherSegmentSize {
        /// The directory of the segments.
        path: PathBuf,
        /// What was given, in bytes.
        given: u64,
        /// What most of them have, in bytes.
        likely: u64,
    },
    /// No segment has a length that can be the segment size, or lengths and names allow several:
    /// name it.
    SegmentSize {
        /// A segment whose length does not settle it.
        path: PathBuf,
        /// Its length in bytes.
        found: u64,
    },
    /// The system refused.
    System(Error),
}

impl fmt::Display for SurveyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interrupted => f.write_str("interrupted"),
            Self::NotAStore { path } => write!(
                f,
                "{} is no store: it has neither a directory commitlog nor segments",
                path.display()
            ),
            Self::OtherSegmentSize { path, given, likely } => write!(
                f,
                "hardly any segment in {} is {given} bytes long, most have {likely}: leave the \
                 segment size out, or give that one",
                path.display()
            ),
            Self::SegmentSize { path, found } => write!(
                f,
                "{} is {found} bytes long, which does not show the segment size: name the size \
                 that the log was written with",
                path.display()
            ),
            Self::System(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SurveyError {}

impl From<Error> for SurveyError {
    fn from(error: Error) -> Self {
        Self::System(error)
    }
}

/// Reads a store's commit log from its first byte to its last and says what stands there.
///
/// `root` is a store's root, which has a directory `commitlog`, or a directory of segments itself;
/// directories in it are passed over, as RocketMQ does. Segments are scanned in parallel, each from
/// its first byte, where a record begins.
///
/// # Errors
///
/// If there is no store, a file or directory cannot be opened, or the callback broke off. What
/// cannot be read is a fault in the answer, not an error, and neither is an owner at work.
pub fn survey(root: &Path, options: &SurveyOptions<'_>) -> Result<Survey, SurveyError> {
    examine(root, options).map(|examined| examined.survey)
}

/// A survey with what a repair must know besides.
#[derive(Debug)]
pub(crate) struct Examined {
    pub(crate) survey: Survey,
    pub(crate) listing: Listing,
    pub(crate) bridges: Vec<Bridge>,
    pub(crate) tail: Vec<TailPart>,
    pub(crate) gaps: Vec<Gap>,
}

pub(crate) fn examine(root: &Path, options: &SurveyOptions<'_>) -> Result<Examined, SurveyError> {
    let listing = Listing::read(root, options.segment_size)?;
    let was_locked = listing.root.as_deref().is_some_and(directory::is_locked);
    let scans = scan_all(&listing, options)?;
    let is_locked = listing.root.as_deref().is_some_and(directory::is_locked);
    merge::merge(listing, scans, options.protection, was_locked || is_locked)
}

/// Scans all segments, on as many threads as the machine has; `None` for one that was removed
/// meanwhile.
fn scan_all(
    listing: &Listing,
    options: &SurveyOptions<'_>,
) -> Result<Vec<Option<SegmentScan>>, SurveyError> {
    let count = listing.segments.len();
    let progress = Progress::new(listing, options);
    let next = AtomicUsize::new(0);
    let work = || -> Result<Vec<(usize, Option<SegmentScan>)>, SurveyError> {
        let mut walker = crate::walk::Walker::new(options.protection);
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(listed) = listing.segments.get(index) else {
                return Ok(done);
            };
            let scanned = scan::scan_listed(listed, listing.size, &mut walker, &progress, None);
            if scanned.is_err() {
                // The others need not go on.
                next.store(count, Ordering::Relaxed);
                progress.stop.store(true, Ordering::Relaxed);
            }
            done.push((index, scanned?));
        }
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(count.max(1));
    let outcomes = thread::scope(|scope| {
        // Where no thread can be had, the caller's does it all.
        let helpers: Vec<_> = (1..threads)
            .filter_map(|_| thread::Builder::new().spawn_scoped(scope, work).ok())
            .collect();
        let mut outcomes = vec![work()];
        for helper in helpers {
            outcomes.push(helper.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        outcomes
    });
    let mut scans: Vec<_> = (0..count).map(|_| None).collect();
    let mut failed = None;
    for outcome in outcomes {
        match outcome {
            Ok(done) => done.into_iter().for_each(|(index, scan)| scans[index] = scan),
            // What stopped the others says more than that they were stopped.
            Err(SurveyError::Interrupted) => {
                failed = failed.or(Some(SurveyError::Interrupted));
            }
            Err(error) => failed = Some(error),
        }
    }
    failed.map_or(Ok(scans), Err)
}

/// Adds up what the threads have scanned, and asks whether to go on.
pub(crate) struct Progress<'a> {
    callback: Option<&'a (dyn Fn(ScanProgress) -> ControlFlow<()> + Sync)>,
    total_bytes: u64,
    scanned_bytes: AtomicU64,
    records: AtomicU64,
    stop: AtomicBool,
}

impl<'a> Progress<'a> {
    fn new(listing: &Listing, options: &SurveyOptions<'a>) -> Self {
        let count = store_core::length_u64(listing.segments.len());
        Self {
            callback: options.progress,
            total_bytes: count * listing.size.bytes(),
            scanned_bytes: AtomicU64::new(0),
            records: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        }
    }

    /// Progress that nobody watches.
    pub(crate) fn unwatched() -> Self {
        Self {
            callback: None,
            total_bytes: 0,
            scanned_bytes: AtomicU64::new(0),
            records: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        }
    }

    fn add(&self, bytes: u64, records: u64) -> ControlFlow<()> {
        let scanned_bytes = self.scanned_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let records = self.records.fetch_add(records, Ordering::Relaxed) + records;
        let told = ScanProgress { scanned_bytes, total_bytes: self.total_bytes, records };
        if self.callback.is_some_and(|callback| callback(told).is_break()) {
            self.stop.store(true, Ordering::Relaxed);
        }
        if self.stop.load(Ordering::Relaxed) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}
