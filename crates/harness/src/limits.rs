//! What the disk and the processor allow, and how near the log comes: raw loops and the log for the
//! same work, side by side in one run.
//!
//! [`run`] measures every contender of a case one after the other, round by round, so that what
//! changes on the machine meanwhile changes all of them. A ratio is taken within a round; medians
//! and ranges are over the rounds.

mod bulk;
mod clocked;
mod files;
mod loops;
mod ours;
mod paced;
mod scan;
pub mod table;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use store_os::Log;

use self::bulk::Plan;
use self::clocked::Bench;
use crate::clock::wall_ms;
use crate::output::RunDirectory;
use crate::random::Random;
use crate::results::{Dirty, Environment};
use crate::workdir::Workdir;
use crate::{cell, environment, format, workdir};

/// What to measure.
#[derive(Clone, Debug)]
pub struct Order {
    /// The directory whose disk is measured.
    pub directory: PathBuf,
    /// Where result directories go.
    pub results: PathBuf,
    /// How often everything is measured.
    pub rounds: u32,
    /// How long each contender is measured.
    pub measure: Duration,
    /// The cases, by name; all that are not [large](Case::is_large) if empty.
    pub cases: Vec<Case>,
    /// The command that was given, for the record.
    pub command: Vec<String>,
    /// Source revision and whether it had changes, if known.
    pub revision: Option<(String, bool)>,
}

/// The same work, done by several contenders.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Case {
    /// One producer that waits for each record's sync.
    Sync1,
    /// 16 of them.
    Sync16,
    /// 64 of them.
    Sync64,
    /// 256 of them.
    Sync256,
    /// 64 of them with messages of 16 KiB.
    Sync64Large,
    /// One producer with up to 4096 records on their way.
    Window,
    /// One producer that waits for nothing, messages of 1 KiB, in memory that is ready.
    Copy1,
    /// Two of them.
    Copy2,
    /// One with messages of 128 B.
    Copy1Small,
    /// Two of them.
    Copy2Small,
    /// One producer that waits for nothing, 1 KiB, until long after the kernel's dirty limit was
    /// appended, and what it takes until the last of it is durable.
    Sustained,
    /// One producer at 0.7 of the rate that can be sustained, 1 KiB, a flush each half second.
    Paced,
    /// A log of some gigabytes opened without a recovery point, from a cold page cache.
    Scan,
}

impl Case {
    /// Every case, in the order in which they are shown.
    pub const ALL: [Self; 13] = [
        Self::Sync1,
        Self::Sync16,
        Self::Sync64,
        Self::Sync256,
        Self::Sync64Large,
        Self::Window,
        Self::Copy1,
        Self::Copy2,
        Self::Copy1Small,
        Self::Copy2Small,
        Self::Sustained,
        Self::Paced,
        Self::Scan,
    ];

    /// Whether it writes or reads gigabytes, and so is measured only if it is named.
    pub fn is_large(self) -> bool {
        matches!(self, Self::Sustained | Self::Paced | Self::Scan)
    }

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sync1 => "sync-1",
            Self::Sync16 => "sync-16",
            Self::Sync64 => "sync-64",
            Self::Sync256 => "sync-256",
            Self::Sync64Large => "sync-64-16k",
            Self::Window => "window",
            Self::Copy1 => "copy-1",
            Self::Copy2 => "copy-2",
            Self::Copy1Small => "copy-1-128",
            Self::Copy2Small => "copy-2-128",
            Self::Sustained => "sustained",
            Self::Paced => "paced",
            Self::Scan => "scan",
        }
    }

    /// What is done, in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Sync1 => "1 producer waits for its sync, 1 KiB",
            Self::Sync16 => "16 producers wait for their sync, 1 KiB",
            Self::Sync64 => "64 producers wait for their sync, 1 KiB",
            Self::Sync256 => "256 producers wait for their sync, 1 KiB",
            Self::Sync64Large => "64 producers wait for their sync, 16 KiB",
            Self::Window => "1 producer, 4096 on their way to their sync, 1 KiB",
            Self::Copy1 => "1 producer, into memory that is ready, 1 KiB",
            Self::Copy2 => "2 producers, into memory that is ready, 1 KiB",
            Self::Copy1Small => "1 producer, into memory that is ready, 128 B",
            Self::Copy2Small => "2 producers, into memory that is ready, 128 B",
            Self::Sustained => {
                "1 producer, past the dirty limit, until the last byte is durable, 1 KiB"
            }
            Self::Paced => "1 producer at 0.7 of what is sustained, a flush each 500 ms, 1 KiB",
            Self::Scan => "opening a log without a recovery point, from a cold cache, 1 KiB",
        }
    }

    /// The share of the best raw loop that the log is to reach; `None` for [`Case::Paced`], whose
    /// rate is given: that has [`PACED_P9999_NS`], [`PACED_MAX_NS`] and [`PACED_WRITTEN`].
    pub fn goal(self) -> Option<f64> {
        Some(match self {
            Self::Sync1 | Self::Sync16 | Self::Sync64 => 0.95,
            Self::Sync256 | Self::Sync64Large | Self::Sustained => 0.9,
            Self::Window => 0.7,
            Self::Copy1 | Self::Copy2 => 0.5,
            Self::Copy1Small | Self::Copy2Small => 0.35,
            Self::Scan => 0.8,
            Self::Paced => return None,
        })
    }

    fn producers(self) -> u32 {
        match self {
            Self::Sync1
            | Self::Window
            | Self::Copy1
            | Self::Copy1Small
            | Self::Sustained
            | Self::Paced
            | Self::Scan => 1,
            Self::Copy2 | Self::Copy2Small => 2,
            Self::Sync16 => 16,
            Self::Sync64 | Self::Sync64Large => 64,
            Self::Sync256 => 256,
        }
    }

    fn message_bytes(self) -> usize {
        match self {
            Self::Sync64Large => 16 << 10,
            Self::Copy1Small | Self::Copy2Small => 128,
            _ => 1 << 10,
        }
    }

    fn contenders(self) -> &'static [Contender] {
        match self {
            Self::Sync1 => &[
                Contender::Fdatasync,
                Contender::Dsync,
                Contender::Direct,
                Contender::Lead,
                Contender::HandOver,
                Contender::Positioned,
                Contender::Mapped,
            ],
            Self::Sync16 | Self::Sync64 | Self::Sync256 | Self::Sync64Large => {
                &[Contender::Fdatasync, Contender::Direct, Contender::Lead, Contender::Positioned]
            }
            Self::Window => &[Contender::Fdatasync, Contender::Direct, Contender::Tickets],
            Self::Copy1 | Self::Copy2 | Self::Copy1Small | Self::Copy2Small => {
                &[Contender::Copy, Contender::Async]
            }
            Self::Sustained => &[
                Contender::Pieces,
                Contender::Fdatasync,
                Contender::Async,
                Contender::Positioned,
                Contender::Staged,
            ],
            Self::Paced => {
                &[Contender::Fdatasync, Contender::Async, Contender::Positioned, Contender::Staged]
            }
            Self::Scan => {
                &[Contender::Read, Contender::Pieces, Contender::Checksum, Contender::Open]
            }
        }
    }
}

/// Who does it.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Contender {
    /// `pwrite` and `fdatasync`; one for all who wait where there are several producers. In
    /// [`Case::Sustained`] (pieces of 1 MiB) and [`Case::Paced`] another thread syncs, each half
    /// second.
    Fdatasync,
    /// `pwrite` through a descriptor with `O_DSYNC`.
    Dsync,
    /// The same with `O_DIRECT`: whole blocks of 4 KiB, the last one again with the next record.
    Direct,
    /// A checksum over the body and a copy, into memory of its own.
    Copy,
    /// The log's group commit; who waits alone runs the sync.
    Lead,
    /// The log's group commit; the flush lane's thread runs every sync.
    HandOver,
    /// The log through the page cache and `fdatasync`.
    Positioned,
    /// The log's group commit through a mapping and `msync`.
    Mapped,
    /// The log's group commit with a window of tickets.
    Tickets,
    /// The log's appends into a staging buffer, written past the page cache.
    Staged,
    /// The log's appends that wait for nothing, through a mapping.
    Async,
    /// Pieces of 1 MiB through a descriptor with `O_DIRECT`, one after the other.
    Pieces,
    /// `pread` of 1 MiB after the other.
    Read,
    /// A checksum over each record once, from memory, on every core.
    Checksum,
    /// The log, opened.
    Open,
}

impl Contender {
    /// Whether it is the log, not a raw loop.
    pub fn is_log(self) -> bool {
        matches!(
            self,
            Self::Lead
                | Self::HandOver
                | Self::Positioned
                | Self::Mapped
                | Self::Tickets
                | Self::Async
                | Self::Staged
                | Self::Open
        )
    }

    /// What it is called in the tables.
    pub fn words(self) -> &'static str {
        match self {
            Self::Fdatasync => "raw pwrite + fdatasync",
            Self::Dsync => "raw pwrite O_DSYNC",
            Self::Direct => "raw O_DIRECT|O_DSYNC",
            Self::Copy => "raw checksum + copy",
            Self::Lead => "log",
            Self::HandOver => "log, handed over",
            Self::Positioned => "log, pwrite + fdatasync",
            Self::Mapped => "log, mapped + msync",
            Self::Tickets => "log, tickets",
            Self::Async => "log, asynchronous",
            Self::Staged => "log, staged + O_DIRECT",
            Self::Pieces => "raw O_DIRECT, 1 MiB each",
            Self::Read => "raw pread, 1 MiB each",
            Self::Checksum => "raw checksum, all cores",
            Self::Open => "log, opened",
        }
    }
}

/// What a run found: `limits.json`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Limits {
    /// [`SCHEMA`].
    pub schema: String,
    /// The run's directory name.
    pub run: String,
    /// This program's version.
    pub version: String,
    /// The source revision, `null` outside a checkout.
    pub revision: Option<String>,
    /// Whether the checkout had changes.
    pub dirty: Option<bool>,
    /// The command that was given.
    pub command: Vec<String>,
    /// Milliseconds since 1970 UTC.
    pub started_at_ms: u64,
    /// Rounds finished.
    pub rounds_done: u32,
    /// Rounds planned.
    pub rounds_planned: u32,
    /// How long each contender was measured.
    pub measure_ns: u64,
    /// Every measurement, in the order in which they were made.
    pub measurements: Vec<Measurement>,
}

/// One contender measured once.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Measurement {
    /// The round, from 0.
    pub round: u32,
    /// The case.
    pub case: Case,
    /// Who did it.
    pub contender: Contender,
    /// Records done.
    pub records: u64,
    /// In how long.
    pub measured_ns: u64,
    /// Records a second.
    pub per_s: f64,
    /// From the beginning of a record to its acknowledgement; `null` where that is too short to be
    /// timed one by one.
    pub p50_ns: Option<u64>,
    /// The same.
    pub p99_ns: Option<u64>,
    /// Processor time of the whole process for one record.
    pub cpu_ns_per_record: f64,
    /// Bytes that the device was given for one record; `null` without counters.
    pub device_bytes_per_record: Option<f64>,
    /// Flush requests that the device completed for one record; `null` without counters.
    pub flushes_per_record: Option<f64>,
    /// Of records at a given rate; `null` for others, and before schema 1.1.
    #[serde(default)]
    pub tail: Option<Tail>,
    /// Of many bytes; `null` for others, and before schema 1.1.
    #[serde(default)]
    pub bulk: Option<Bulk>,
}

/// The slowest of records that came at a given rate, from the moment each was due to its
/// acknowledgement: what stalls one record also makes those late that are due meanwhile.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Tail {
    /// Records that were due in a second.
    pub offered_per_s: u64,
    /// Of a thousand one took longer, …
    pub p999_ns: u64,
    /// … of ten thousand one.
    pub p9999_ns: u64,
    /// The slowest.
    pub max_ns: u64,
}

/// Many bytes, and the kernel's part in moving them.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct Bulk {
    /// Bytes appended, written or read.
    pub bytes: u64,
    /// Bytes that the device was made to read for it; `null` where nothing tells.
    pub read_bytes: Option<u64>,
    /// The machine's dirty pages meanwhile; `null` where nothing is written, or nothing tells.
    pub dirty: Option<Dirty>,
}

/// A run that has ended.
#[derive(Debug)]
pub struct Finished {
    /// Its directory.
    pub path: PathBuf,
    /// What it found.
    pub limits: Limits,
    /// Where.
    pub environment: Environment,
    /// What ended it early, if something failed.
    pub error: Option<anyhow::Error>,
}

/// Told before each measurement: the round, and what comes.
pub type Progress<'a> = &'a mut dyn FnMut(u32, Case, Contender);

/// Measures as ordered; what was measured is kept whatever ends it.
///
/// # Errors
///
/// If it cannot begin: the directory, its space, the results. What fails later is in
/// [`Finished::error`].
pub fn run(order: &Order, interrupted: &AtomicBool, progress: Progress<'_>) -> Result<Finished> {
    let environment = environment::capture(&order.directory)?;
    let free = environment.disk.free_bytes;
    ensure!(
        NEEDED_BYTES <= free,
        "{}: {} are free, {} are needed: free some space or give --dir",
        order.directory.display(),
        format::bytes(crate::clock::float(free)),
        format::bytes(crate::clock::float(NEEDED_BYTES)),
    );
    workdir::sweep_stale(&order.directory);
    let workdir = Workdir::create(&order.directory)?;
    let started_at_ms = wall_ms();
    let name = format!("{}-limits-{}", format::utc_compact(started_at_ms), environment.host_hash);
    let directory = RunDirectory::create(&order.results, &name, "--results")?;
    let (revision, dirty) = order.revision.clone().unzip();
    let mut limits = Limits {
        schema: SCHEMA.to_owned(),
        run: directory.name(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        revision,
        dirty,
        command: order.command.clone(),
        started_at_ms,
        rounds_done: 0,
        rounds_planned: order.rounds,
        measure_ns: crate::clock::nanos(order.measure).get(),
        measurements: Vec::new(),
    };
    directory.write_json("env.json", &environment)?;
    let bench = Bench {
        directory: workdir.path(),
        device: environment.disk.device.as_deref(),
        warmup: order.measure / 5,
        measure: order.measure,
        interrupted,
    };
    let ended = rounds(order, &bench, &directory, &mut limits, progress);
    let removed = workdir.close();
    directory.write_json(FILE, &limits)?;
    if !limits.measurements.is_empty() {
        directory.point_here("latest-limits");
    }
    let error = ended.and(removed).err();
    Ok(Finished { path: directory.path().to_owned(), limits, environment, error })
}

fn rounds(
    order: &Order,
    bench: &Bench<'_>,
    directory: &RunDirectory,
    limits: &mut Limits,
    progress: Progress<'_>,
) -> Result<()> {
    let mut random = Random::new(limits.started_at_ms);
    let mut plan = Plan::new(bench)?;
    let is_asked = |case: &Case| match &*order.cases {
        [] => !case.is_large(),
        cases => cases.contains(case),
    };
    for round in 0..order.rounds {
        for case in Case::ALL.into_iter().filter(is_asked) {
            let mut contenders = case.contenders().to_vec();
            random.shuffle(&mut contenders);
            for contender in contenders {
                if bench.interrupted.load(Ordering::Relaxed) {
                    return Ok(());
                }
                progress(round, case, contender);
                let found = measure(bench, &mut plan, case, contender)
                    .with_context(|| format!("{}, {}", case.words(), contender.words()))?;
                limits.measurements.extend(found.map(|found| found.of(round, case, contender)));
            }
        }
        if bench.interrupted.load(Ordering::Relaxed) {
            return Ok(());
        }
        limits.rounds_done = round + 1;
        // A machine that stops loses one round.
        directory.write_json(FILE, limits)?;
    }
    Ok(())
}

/// `None` if it was interrupted, or the file system cannot do it.
fn measure(
    bench: &Bench<'_>,
    plan: &mut Plan,
    case: Case,
    contender: Contender,
) -> Result<Option<clocked::Measured>> {
    let work = Work {
        producers: case.producers(),
        message_bytes: case.message_bytes(),
        record_bytes: usize::try_from(cell::record_bytes(case.message_bytes())?)?,
    };
    let root = bench.directory.join(format!("{}-{contender:?}", case.name()));
    if matches!(contender, Contender::Mapped | Contender::Async) && !Log::can_map(bench.directory)?
    {
        return Ok(None);
    }
    let measured = match (case, contender) {
        (Case::Sustained, _) => bulk::measure(bench, plan, work, &root, contender),
        (Case::Paced, _) => paced::measure(bench, plan, work, &root, contender),
        (Case::Scan, _) => scan::measure(bench, plan, work, contender),
        (_, Contender::Copy) => loops::copy(bench, work).map(Some),
        (_, Contender::Lead | Contender::HandOver | Contender::Positioned | Contender::Mapped) => {
            ours::sync(bench, work, &root, contender).map(Some)
        }
        (_, Contender::Tickets) => ours::window(bench, work, &root).map(Some),
        (_, Contender::Async) => ours::asynchronous(bench, work, &root).map(Some),
        _ => match (files::sink(&root, contender)?, case) {
            (None, _) => Ok(None),
            (Some(sink), Case::Window) => loops::window(bench, work, sink).map(Some),
            (Some(sink), Case::Sync1) => loops::alone(bench, work, sink).map(Some),
            (Some(sink), _) => loops::group(bench, work, sink).map(Some),
        },
    };
    remove(&root)?;
    let measured = measured?;
    let is_whole = !bench.interrupted.load(Ordering::Relaxed);
    Ok(measured.filter(|_| is_whole))
}

/// What is to be done, whoever does it.
#[derive(Clone, Copy, Debug)]
struct Work {
    producers: u32,
    message_bytes: usize,
    /// Of a message's record in the log: what a raw loop writes for it.
    record_bytes: usize,
}

fn remove(path: &Path) -> Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(_) => return Ok(()),
    };
    removed.with_context(|| format!("remove {}", path.display()))
}

/// The schema of [`Limits`].
pub const SCHEMA: &str = "flushmark.limits/1.1";
/// What one of ten thousand appends may take in [`Case::Paced`], in nanoseconds.
pub const PACED_P9999_NS: u64 = 10_000_000;
/// What any of them may take.
pub const PACED_MAX_NS: u64 = 50_000_000;
/// Bytes that the device may be given there for each that is appended.
pub const PACED_WRITTEN: f64 = 1.2;
/// The records that may be on their way in [`Case::Window`].
const WINDOW: usize = 4096;
/// The file that a raw loop goes round in, and a segment of the log.
const FILE_BYTES: u64 = 128 << 20;
/// What an asynchronous contender writes, once.
const COPY_BYTES: u64 = 384 << 20;
/// Segments, one ahead, and what is not removed yet.
const NEEDED_BYTES: u64 = 2 << 30;
const FILE: &str = "limits.json";
