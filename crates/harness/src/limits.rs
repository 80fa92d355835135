//! What the disk and the processor allow, and how near the log comes: raw loops and the log for the
//! same work, side by side in one run.
//!
//! [`run`] measures every contender of a case one after the other, round by round, so that what
//! changes on the machine meanwhile changes all of them. A ratio is taken within a round; medians
//! and ranges are over the rounds.

mod bulk;
mod cases;
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
pub use self::cases::{Case, Contender};
use self::clocked::Bench;
pub(crate) use self::files::Blocks;
use crate::clock::wall_ms;
use crate::output::RunDirectory;
use crate::random::Random;
use crate::results::{Dirty, Environment, Origin};
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
    /// For the record.
    pub origin: Origin,
}

/// What a run found: `limits.json`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Limits {
    /// [`SCHEMA`].
    pub schema: String,
    /// The run's directory name.
    pub run: String,
    /// Who made it.
    #[serde(flatten)]
    pub origin: Origin,
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
    let mut limits = Limits {
        schema: SCHEMA.to_owned(),
        run: directory.name(),
        origin: order.origin.clone(),
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
        file_bytes: case.file_bytes(contender),
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
        (Case::Window, Contender::Tickets | Contender::Zeroing) => {
            ours::window(bench, work, &root).map(Some)
        }
        (_, Contender::Async) => ours::asynchronous(bench, work, &root).map(Some),
        _ if contender.is_log() => ours::sync(bench, work, &root, contender).map(Some),
        _ => match (files::sink(&root, contender, work.file_bytes)?, case) {
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

/// One producer that waits for each record's sync, in a mapped log in `directory`, with records of
/// `record_bytes`; `None` if it was interrupted, or the file system cannot map.
pub(crate) fn mapped_syncs(
    directory: &Path,
    device: Option<&str>,
    record_bytes: u64,
    measure: Duration,
    interrupted: &AtomicBool,
) -> Result<Option<Measurement>> {
    if !Log::can_map(directory)? {
        return Ok(None);
    }
    let around = cell::record_bytes(0)?;
    let work = Work {
        producers: 1,
        message_bytes: usize::try_from(record_bytes.saturating_sub(around))?,
        record_bytes: usize::try_from(record_bytes)?,
        file_bytes: Case::Sync1.file_bytes(Contender::Mapped),
    };
    let bench = Bench { directory, device, warmup: measure / 5, measure, interrupted };
    let root = directory.join("mapped");
    let measured = ours::sync(&bench, work, &root, Contender::Mapped);
    remove(&root)?;
    let found = measured?.of(0, Case::Sync1, Contender::Mapped);
    Ok((!interrupted.load(Ordering::Relaxed)).then_some(found))
}

/// What is to be done, whoever does it.
#[derive(Clone, Copy, Debug)]
struct Work {
    producers: u32,
    message_bytes: usize,
    /// Of a message's record in the log: what a raw loop writes for it.
    record_bytes: usize,
    /// The file that a raw loop goes round in, and a segment of the log.
    file_bytes: u64,
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
pub const SCHEMA: &str = "flushmark.limits/1.2";
/// What one of ten thousand appends may take in [`Case::Paced`], in nanoseconds.
pub const PACED_P9999_NS: u64 = 10_000_000;
/// What any of them may take.
pub const PACED_MAX_NS: u64 = 50_000_000;
/// Bytes that the device may be given there for each that is appended.
pub const PACED_WRITTEN: f64 = 1.2;
/// The records that may be on their way in [`Case::Window`].
const WINDOW: usize = 4096;
/// What an asynchronous contender writes, once.
const COPY_BYTES: u64 = 384 << 20;
/// Segments, one ahead, and what is not removed yet.
const NEEDED_BYTES: u64 = 3 << 30;
const FILE: &str = "limits.json";
