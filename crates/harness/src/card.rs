//! A disk's card: within a minute, what its syncs take by each method, at each size and side by
//! side, and for how many messages a second that is enough.

mod fio;
mod syncs;
pub mod text;

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

pub use self::fio::CrossCheck;
use self::syncs::Bench;
use crate::clock::{float, round, wall_ms};
use crate::disk::Probe;
use crate::disks::{Disk, Label};
use crate::output::RunDirectory;
use crate::results::{DiskInfo, Environment, Origin};
use crate::workdir::{self, Workdir};
use crate::{chart, environment, format};

/// What to make a card of.
#[derive(Debug)]
pub struct Order<'a> {
    /// The disk.
    pub disk: &'a Disk,
    /// Where result directories go.
    pub results: PathBuf,
    /// For the record.
    pub origin: Origin,
}

/// A way to make bytes durable.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// `pwrite` through `O_DIRECT` and `O_DSYNC`.
    Direct,
    /// `pwrite` through `O_DSYNC`.
    Dsync,
    /// `pwrite` and `fdatasync`.
    Fdatasync,
    /// `pwrite` and `fsync`.
    Fsync,
    /// The log through a mapping and `msync`: a record more than the bare calls.
    Msync,
}

impl Method {
    /// All, in the order in which they are shown.
    pub const ALL: [Self; 5] =
        [Self::Fdatasync, Self::Fsync, Self::Dsync, Self::Direct, Self::Msync];

    /// What is called.
    pub fn words(self) -> &'static str {
        match self {
            Self::Direct => "pwrite O_DIRECT|O_DSYNC",
            Self::Dsync => "pwrite O_DSYNC",
            Self::Fdatasync => "pwrite + fdatasync",
            Self::Fsync => "pwrite + fsync",
            Self::Msync => "log, mapped + msync",
        }
    }
}

/// Syncs that were timed, each after a write in place.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct Row {
    /// How.
    pub method: Method,
    /// Bytes written before each.
    pub bytes: u64,
    /// Threads, each with a file of its own.
    pub threads: u32,
    /// How many there were.
    pub syncs: u64,
    /// A second, of all threads.
    pub per_s: f64,
    /// From the beginning of the write to the end of the sync: median.
    pub write_to_durable_ns_p50: u64,
    /// 99 of 100 take at most this.
    pub write_to_durable_ns_p99: u64,
    /// The slowest; `null` for the log.
    pub write_to_durable_ns_max: Option<u64>,
    /// The sync call alone, median; `null` where there is none.
    pub sync_ns_p50: Option<u64>,
    /// Flush requests that the device completed for each, whoever asked for them; `null` without
    /// counters.
    pub flushes_per_sync: Option<f64>,
}

/// What a disk is good for.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fitness {
    /// Synchronous flushes do well.
    Fit,
    /// It takes syncs without making anything durable: memory, or a sync that does nothing.
    NotDurable,
    /// It has a volatile cache, and syncs do not flush it.
    NotFlushed,
    /// One of a hundred syncs takes longer than [`SYNC_P99_NS`].
    TooSlow,
}

/// The sentence under a card, as figures.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct Verdict {
    /// What it comes to.
    pub fitness: Fitness,
    /// [`PRODUCERS`] messages of 1 KiB with each sync of that size, a second.
    pub messages_per_s: u64,
    /// The quickest method for a sync of as many KiB as there are producers, …
    pub method: Method,
    /// … and what it takes, median.
    pub group_ns_p50: u64,
    /// `fdatasync` of 4 KiB, with the write: 99 of 100.
    pub sync_ns_p99: u64,
    /// What that may be: [`SYNC_P99_NS`].
    pub threshold_ns: u64,
}

/// What was found: `card.json`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Card {
    /// [`SCHEMA`].
    pub schema: String,
    /// The run's directory name.
    pub run: String,
    /// Who made it.
    #[serde(flatten)]
    pub origin: Origin,
    /// Milliseconds since 1970 UTC.
    pub started_at_ms: u64,
    /// The disk: its device, else its path; `null` in cards that do not tell.
    #[serde(default)]
    pub disk: Option<String>,
    /// What must be said with every figure.
    pub labels: Vec<String>,
    /// Each method at 4 KiB.
    pub methods: Vec<Row>,
    /// Two methods at each size.
    pub sizes: Vec<Row>,
    /// `fdatasync` at 4 KiB by several threads.
    pub parallel: Vec<Row>,
    /// The same by fio; `null` if it is not installed.
    pub cross_check: Option<CrossCheck>,
    /// What it comes to; `null` if it is not whole.
    pub verdict: Option<Verdict>,
}

/// A card that was made, whole or as far as it came.
#[derive(Debug)]
pub struct Finished {
    /// Its directory.
    pub path: PathBuf,
    /// What it found.
    pub card: Card,
    /// Where.
    pub environment: Environment,
    /// What ended it early, if something failed.
    pub error: Option<anyhow::Error>,
}

/// Makes a card; `progress` is told what comes. What was measured is kept whatever ends it.
///
/// # Errors
///
/// If it cannot begin: the directory, its space, the results. What fails later is in
/// [`Finished::error`].
pub fn run(
    order: &Order<'_>,
    interrupted: &AtomicBool,
    progress: &mut dyn FnMut(&str),
) -> Result<Finished> {
    let directory = order.disk.directory();
    let environment = environment::capture(directory)?;
    let environment = Environment { disk: order.disk.info().clone(), ..environment };
    has_room(&environment.disk).with_context(|| directory.display().to_string())?;
    workdir::sweep_stale(directory);
    let workdir = Workdir::create(directory)?;
    let name = format!("{}-disk-{}", format::utc_compact(wall_ms()), environment.host_hash);
    let output = RunDirectory::create(&order.results, &name, "--results")?;
    output.write_json("env.json", &environment)?;
    let run = output.name();
    let subject = Subject {
        directory: workdir.path(),
        info: &environment.disk,
        labels: order.disk.labels(),
        run: &run,
        origin: &order.origin,
    };
    let (card, ended) = subject.card(interrupted, progress);
    let removed = workdir.close();
    output.write_json(FILE, &card)?;
    output.write_text(CHART, &chart::card::card(&card, &environment)?)?;
    if !card.methods.is_empty() {
        output.point_here("latest-disk");
    }
    Ok(Finished {
        path: output.path().to_owned(),
        card,
        environment,
        error: ended.and(removed).err(),
    })
}

/// A disk that a card is made of, and for which run.
#[derive(Debug)]
pub(crate) struct Subject<'a> {
    /// Where files are made, and left.
    pub(crate) directory: &'a Path,
    pub(crate) info: &'a DiskInfo,
    pub(crate) labels: &'a [Label],
    pub(crate) run: &'a str,
    pub(crate) origin: &'a Origin,
}

impl Subject<'_> {
    /// The card, as far as it came, and what ended it early.
    pub(crate) fn card(
        &self,
        interrupted: &AtomicBool,
        progress: &mut dyn FnMut(&str),
    ) -> (Card, Result<()>) {
        let mut card = Card {
            schema: SCHEMA.to_owned(),
            run: self.run.to_owned(),
            origin: self.origin.clone(),
            started_at_ms: wall_ms(),
            disk: Some(self.info.device.as_ref().unwrap_or(&self.info.path).clone()),
            labels: self.labels.iter().map(|label| label.words().to_owned()).collect(),
            methods: Vec::new(),
            sizes: Vec::new(),
            parallel: Vec::new(),
            cross_check: None,
            verdict: None,
        };
        let ended = Bench::new(self.directory, self.info.device.as_deref(), interrupted)
            .and_then(|bench| fill(&mut card, &bench, progress));
        card.verdict = verdict(&card, self.info, !self.labels.contains(&Label::InMemory));
        (card, ended)
    }
}

/// Whether its files fit on the disk.
///
/// # Errors
///
/// If they do not, by how much.
pub(crate) fn has_room(disk: &DiskInfo) -> Result<()> {
    ensure!(
        NEEDED_BYTES <= disk.free_bytes,
        "{} are free, {} are needed: give another directory or a larger disk",
        format::bytes(float(disk.free_bytes)),
        format::bytes(float(NEEDED_BYTES)),
    );
    Ok(())
}

/// The most that its files take, and about the most that it writes in all, on a disk like that.
pub(crate) fn bytes(probe: &Probe) -> (u64, u64) {
    let written = float(probe.write_bytes_per_s) * TIME.as_secs_f64();
    (NEEDED_BYTES, NEEDED_BYTES.saturating_add(round(written)))
}

/// Every row, until it is interrupted.
fn fill(card: &mut Card, bench: &Bench<'_>, progress: &mut dyn FnMut(&str)) -> Result<()> {
    progress("parallel syncs");
    for threads in THREADS {
        card.parallel.extend(bench.row(Method::Fdatasync, SMALL, threads, LONG)?);
    }
    progress("sizes");
    for bytes in SIZES {
        for method in [Method::Fdatasync, Method::Direct] {
            card.sizes.extend(bench.row(method, bytes, 1, SHORT)?);
        }
    }
    progress("methods");
    for method in Method::ALL.into_iter().rev() {
        let row = bench.row(method, SMALL, 1, LONG);
        card.methods.splice(0..0, row.with_context(|| method.words())?);
    }
    // Right behind the row that it is held against.
    if let Some(ours) = card.methods.first().and_then(|row| row.sync_ns_p50)
        && !bench.is_interrupted()
    {
        progress("the same by fio, if it is installed");
        match fio::cross_check(bench.directory(), ours) {
            // What interrupts this run does fio, too.
            Err(_) if bench.is_interrupted() => {}
            found => card.cross_check = found?,
        }
    }
    Ok(())
}

/// What the rows come to, once all are there.
fn verdict(card: &Card, disk: &DiskInfo, is_durable: bool) -> Option<Verdict> {
    let group = PRODUCERS << 10;
    let groups = card.sizes.iter().filter(|row| row.bytes == group);
    // By what it did in all, slow ones included, and not by its median.
    let best = groups.max_by(|a, b| a.per_s.total_cmp(&b.per_s))?;
    let small = card.methods.iter().find(|row| row.method == Method::Fdatasync)?;
    let group_ns_p50 = best.write_to_durable_ns_p50;
    let has_cache = disk.write_cache.as_deref() == Some("write back");
    let is_flushed = small.flushes_per_sync.is_none_or(|flushes| 0.5 <= flushes);
    let does_nothing = small.sync_ns_p50.is_some_and(|time| time < NO_OP_BELOW_NS);
    let fitness = if !is_durable || does_nothing {
        Fitness::NotDurable
    } else if has_cache && !is_flushed {
        Fitness::NotFlushed
    } else if SYNC_P99_NS < small.write_to_durable_ns_p99 {
        Fitness::TooSlow
    } else {
        Fitness::Fit
    };
    Some(Verdict {
        fitness,
        messages_per_s: round(float(PRODUCERS) * best.per_s),
        method: best.method,
        group_ns_p50,
        sync_ns_p99: small.write_to_durable_ns_p99,
        threshold_ns: SYNC_P99_NS,
    })
}

/// The schema of [`Card`].
pub const SCHEMA: &str = "flushmark.card/1.0";
/// Where the chart of a card is, in its directory.
pub const CHART: &str = "plots/c11.svg";
/// Who the verdict is for: so many producers, each of which waits for its message of 1 KiB.
pub const PRODUCERS: u64 = 64;
/// What one of a hundred syncs may take on a disk that is fit: etcd asks the same for its log.
pub const SYNC_P99_NS: u64 = 10_000_000;
/// As in a look at a disk ([`crate::disk::Probe::no_op`]).
const NO_OP_BELOW_NS: u64 = 5_000;
const SMALL: u64 = 4 << 10;
const SIZES: [u64; 6] = [1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20];
const THREADS: [u32; 3] = [1, 4, 16];
/// How long a row is measured.
const LONG: Duration = Duration::from_millis(1500);
const SHORT: Duration = Duration::from_millis(600);
/// A file for each thread, and two segments of a log.
const NEEDED_BYTES: u64 = 640 << 20;
/// About how long it takes, with fio.
pub(crate) const TIME: Duration = Duration::from_secs(25);
/// Where it is, in a result directory.
pub(crate) const FILE: &str = "card.json";

#[cfg(test)]
pub(crate) use self::tests::example;

#[cfg(test)]
mod tests;
