//! A sweep: blocks of cells in random order, within a budget of time and bytes.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::cell::{self, Measured, Place, Setting};
use crate::clock::{float, now, round, wall_ms};
use crate::disk::{self, Probe};
use crate::environment;
use crate::format;
use crate::output::Output;
use crate::profile::{Strategy, Sweep, Workload};
use crate::random::Random;
use crate::raw;
use crate::results::{Cell, Check, Environment, Level, MANIFEST_SCHEMA, Manifest, Outcome};
use crate::workdir::{self, Workdir};

/// What to run and where.
#[derive(Clone, Debug)]
pub struct Order {
    /// The directory whose disk is measured.
    pub directory: PathBuf,
    /// Where result directories go.
    pub results: PathBuf,
    /// What to measure.
    pub sweep: Sweep,
    /// The command that was given, for the record.
    pub command: Vec<String>,
    /// Source revision and whether it had changes, if known.
    pub revision: Option<(String, bool)>,
    /// Measure even where the file system lives in memory.
    pub allow_in_memory: bool,
}

/// What a run will do, before it does it.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The run's directory.
    pub path: PathBuf,
    /// Cells over all blocks.
    pub cells: u32,
    /// Blocks.
    pub blocks: u32,
    /// About how long it takes.
    pub estimated: Duration,
    /// The most that it writes over the whole run, in bytes.
    pub total_bytes: u64,
    /// The most that is on the disk at one time, in bytes.
    pub most_bytes: u64,
    /// Where it runs.
    pub environment: Environment,
    /// What a short look at the disk found.
    pub probe: Probe,
}

/// Told how a run goes.
pub trait Watch {
    /// Before the first cell.
    fn planned(&mut self, plan: &Plan);
    /// A cell begins.
    fn started(&mut self, block: u32, cell: &str);
    /// A cell has ended; `done` of `planned` are done.
    fn finished(&mut self, cell: &Cell, done: u32, planned: u32);
}

/// What a run came to.
#[derive(Debug)]
pub struct Finished {
    /// Its directory.
    pub path: PathBuf,
    /// Its manifest.
    pub manifest: Manifest,
    /// Where it ran.
    pub environment: Environment,
    /// Its cells.
    pub cells: Vec<Cell>,
    /// What ended it early, if something failed.
    pub error: Option<anyhow::Error>,
}

/// Runs a sweep.
///
/// Whatever ends it, the cells that were measured are kept and reported, and no log is left behind.
///
/// # Errors
///
/// If it cannot begin: the directory, the results, the environment. What fails later is in
/// [`Finished::error`].
pub fn run(order: &Order, interrupted: &AtomicBool, watch: &mut dyn Watch) -> Result<Finished> {
    ensure!(
        !cfg!(debug_assertions),
        "this is a debug build, whose figures mean nothing: run it with `cargo xtask bench`"
    );
    run_any_build(order, interrupted, watch)
}

/// [`run`] without the refusal of debug builds, for tests of everything but figures.
#[doc(hidden)]
pub fn run_any_build(
    order: &Order,
    interrupted: &AtomicBool,
    watch: &mut dyn Watch,
) -> Result<Finished> {
    workdir::sweep_stale(&order.directory);
    let directory = order.directory.canonicalize().unwrap_or_else(|_| order.directory.clone());
    let workdir = Workdir::create(&order.directory)?;
    let probe = disk::probe(workdir.path())?;
    let mut environment = environment::capture(&order.directory)?;
    environment.disk.path = directory.display().to_string();
    let checks = environment::checks(&environment, &probe, order.allow_in_memory);
    if let Some(failed) = checks.iter().find(|check| refuses(check, order.allow_in_memory)) {
        anyhow::bail!(
            "{}: {}, and nothing there is durable: choose another with --dir, or give \
             --allow-memory",
            directory.display(),
            failed.value
        );
    }
    let limits = Limits::new(&order.sweep, &environment, &probe)?;
    let one_block = block_time(&order.sweep);
    ensure!(
        one_block <= order.sweep.budget,
        "one block takes about {} s and run.budget_s allows {} s: allow more, or measure less",
        one_block.as_secs() + 1,
        order.sweep.budget.as_secs()
    );
    let started_at_ms = wall_ms();
    let name = run_name(started_at_ms, &order.sweep.name, &environment.host_hash);
    let output = Output::create(&order.results, &name)?;
    let name = output.name();
    let plan = plan(order, &output, &limits, environment, probe);
    watch.planned(&plan);
    let mut sweep = Running {
        order,
        output,
        manifest: manifest(order, &name, &plan, started_at_ms),
        environment: plan.environment,
        cells: Vec::new(),
        watch,
        interrupted,
        deadline: now().after(crate::clock::nanos(order.sweep.budget)),
    };
    sweep.output.write_json("env.json", &sweep.environment)?;
    sweep.output.write_json("manifest.json", &sweep.manifest)?;
    sweep.output.write_text("profile.yaml", &order.sweep.text)?;
    let ended = sweep.blocks(workdir.path(), &checks, &limits);
    let removed = workdir.close();
    Ok(sweep.conclude(ended, removed))
}

/// In memory is a reason to refuse, not only to mark: nobody asked for such a figure.
fn refuses(check: &Check, allow_in_memory: bool) -> bool {
    check.level == Level::Invalid && check.code == "in_memory" && !allow_in_memory
}

/// How much a cell may write.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// Log bytes of one cell after which it ends early if it has seen enough.
    soft: u64,
    /// Log bytes of one cell after which it ends in any case.
    hard: u64,
    /// Over the whole run.
    total: u64,
    /// At one time.
    most: u64,
}

impl Limits {
    fn new(sweep: &Sweep, environment: &Environment, probe: &Probe) -> Result<Self> {
        let seconds = sweep.measure.as_secs_f64();
        // What is unsynced when a cell ends may have to be written out then; on a slow disk that
        // must not take much longer than the cell.
        let by_disk = round(float(probe.write_bytes_per_s) * seconds * 3.0);
        let by_memory = environment.memory_bytes.unwrap_or(u64::MAX) / 4;
        // Segments made ahead, the one at the end, and the file of the raw loop.
        let beside = 3 * sweep.segment_bytes + raw::FILE_BYTES;
        let free = environment.disk.free_bytes;
        let by_space = (free / 2).saturating_sub(beside);
        ensure!(
            by_space >= LEAST_CELL_BYTES,
            "{}: {} MiB are free, the run needs {} MiB: free some space, choose another disk with \
             --dir, or a smaller log.segment_bytes",
            environment.disk.path,
            free >> 20,
            (2 * (beside + LEAST_CELL_BYTES)).div_ceil(1 << 20)
        );
        let soft = by_disk.clamp(64 << 20, 2 << 30).min(by_memory).min(by_space);
        let hard = (2 * soft).min(by_memory).min(by_space);
        let most = hard + beside;
        let cells = store_core::length_u64(block(sweep, 0).len());
        let total = most.saturating_mul(cells).saturating_mul(u64::from(sweep.blocks));
        Ok(Self { soft, hard, total, most })
    }
}

/// The cells of one block, but for the raw loop.
fn cells(sweep: &Sweep) -> impl Iterator<Item = (&Strategy, &Workload, u32)> {
    sweep.strategies.iter().flat_map(move |strategy| {
        sweep.workloads.iter().flat_map(move |workload| {
            workload.producers.iter().map(move |producers| (strategy, workload, *producers))
        })
    })
}

/// What stands at one position of a block.
#[derive(Clone, Copy, Debug)]
enum Item<'a> {
    Raw(&'a Workload),
    Strategy(&'a Strategy, &'a Workload, u32),
}

fn cells_per_block(sweep: &Sweep) -> u32 {
    u32::try_from(block(sweep, 0).len()).unwrap_or(u32::MAX)
}

/// About how long a block takes.
fn block_time(sweep: &Sweep) -> Duration {
    (sweep.warmup + sweep.measure + AROUND_A_CELL).saturating_mul(cells_per_block(sweep))
}

/// A block's cells in the order of its seed: each cell once in every block.
fn block(sweep: &Sweep, block: u32) -> Vec<Item<'_>> {
    let mut items: Vec<Item<'_>> = cells(sweep)
        .map(|(strategy, workload, producers)| Item::Strategy(strategy, workload, producers))
        .chain(sweep.workloads.iter().map(Item::Raw))
        .collect();
    Random::new(sweep.seed.wrapping_add(u64::from(block))).shuffle(&mut items);
    items
}

fn plan(
    order: &Order,
    output: &Output,
    limits: &Limits,
    environment: Environment,
    probe: Probe,
) -> Plan {
    let sweep = &order.sweep;
    let cells = cells_per_block(sweep) * sweep.blocks;
    let estimated = block_time(sweep).saturating_mul(sweep.blocks).min(sweep.budget);
    Plan {
        path: output.path().to_owned(),
        cells,
        blocks: sweep.blocks,
        estimated,
        total_bytes: limits.total,
        most_bytes: limits.most,
        environment,
        probe,
    }
}

fn manifest(order: &Order, name: &str, plan: &Plan, started_at_ms: u64) -> Manifest {
    Manifest {
        schema: MANIFEST_SCHEMA.to_owned(),
        run: name.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        revision: order.revision.as_ref().map(|(revision, _)| revision.clone()),
        dirty: order.revision.as_ref().map(|(_, dirty)| *dirty),
        command: order.command.clone(),
        sweep: order.sweep.name.clone(),
        profile: order.sweep.text.clone(),
        seed: order.sweep.seed,
        blocks: order.sweep.blocks,
        cells_planned: plan.cells,
        cells_done: 0,
        started_at_ms,
        ended_at_ms: None,
        outcome: Outcome::Running,
    }
}

struct Running<'a> {
    order: &'a Order,
    output: Output,
    manifest: Manifest,
    environment: Environment,
    cells: Vec<Cell>,
    watch: &'a mut dyn Watch,
    interrupted: &'a AtomicBool,
    deadline: store_core::Nanos,
}

impl Running<'_> {
    fn blocks(&mut self, directory: &Path, checks: &[Check], limits: &Limits) -> Result<Outcome> {
        let sweep = &self.order.sweep;
        let device = self.environment.disk.device.clone();
        let run = self.manifest.run.clone();
        let setting = Setting {
            run: &run,
            directory,
            device: device.as_deref(),
            emulated: self.environment.disk.emulated,
            volatile_cache: self.environment.disk.write_cache.as_deref() != Some("write through"),
            warmup: sweep.warmup,
            measure: sweep.measure,
            soft_bytes: limits.soft,
            hard_bytes: limits.hard,
            segment_bytes: sweep.segment_bytes,
            seed: sweep.seed,
            gates: sweep.gates,
            environment_checks: checks,
            interrupted: self.interrupted,
        };
        let mut longest_block = store_core::Nanos::new(0);
        for number in 0..sweep.blocks {
            let begun = now();
            // A block that would not end in time is not begun: half of one compares nothing.
            if number > 0 && begun.after(longest_block) > self.deadline {
                return Ok(Outcome::Trimmed);
            }
            for (position, item) in (0..).zip(block(sweep, number)) {
                // The first block alone may take longer than everything was to take.
                if now() > self.deadline {
                    return Ok(Outcome::Trimmed);
                }
                if let Some(outcome) = self.cell(&setting, number, position, item)? {
                    return Ok(outcome);
                }
            }
            longest_block = longest_block.max(now().since(begun));
        }
        Ok(Outcome::Complete)
    }

    /// Measures and records one cell; an outcome if the run ends with it.
    fn cell(
        &mut self,
        setting: &Setting<'_>,
        block: u32,
        position: u32,
        item: Item<'_>,
    ) -> Result<Option<Outcome>> {
        let place = |producers| Place { block, position, producers };
        let measured: Option<Measured> = match item {
            Item::Raw(workload) => {
                self.watch.started(block, &format!("raw/{}/1", workload.name));
                let bytes = cell::record_bytes(usize::try_from(workload.message_bytes.mean())?)?;
                raw::measure(setting, &place(1), workload, bytes)?
            }
            Item::Strategy(strategy, workload, producers) => {
                self.watch
                    .started(block, &format!("{}/{}/{producers}", strategy.name, workload.name));
                cell::measure(setting, &place(producers), strategy, workload)?
            }
        };
        let Some(measured) = measured else { return Ok(Some(Outcome::Interrupted)) };
        self.output.write_cell(&measured)?;
        self.manifest.cells_done += 1;
        self.watch.finished(&measured.cell, self.manifest.cells_done, self.manifest.cells_planned);
        self.cells.push(measured.cell);
        let is_last = self.manifest.cells_done == self.manifest.cells_planned;
        if self.interrupted.load(Ordering::Relaxed) && !is_last {
            return Ok(Some(Outcome::Interrupted));
        }
        Ok(None)
    }

    fn conclude(mut self, ended: Result<Outcome>, removed: Result<()>) -> Finished {
        let ended = ended.and_then(|outcome| removed.map(|()| outcome));
        let (outcome, error) = match ended {
            Ok(outcome) => (outcome, None),
            Err(error) => (Outcome::Failed, Some(error)),
        };
        self.manifest.outcome = outcome;
        self.manifest.ended_at_ms = Some(wall_ms());
        let finished = self.output.finish(&self.manifest, &self.environment, &self.cells);
        // The first error is the one to report; a report that fails after it has the same cause.
        let error = match (error, finished) {
            (None, Err(unfinished)) => {
                Some(unfinished.context("the cells are kept, but no report"))
            }
            (error, _) => error,
        };
        Finished {
            path: self.output.path().to_owned(),
            manifest: self.manifest,
            environment: self.environment,
            cells: self.cells,
            error,
        }
    }
}

/// `<utc>-<sweep>-<host8>`, the time as `20261129T160502Z`.
fn run_name(at_ms: u64, sweep: &str, host_hash: &str) -> String {
    format!("{}-{sweep}-{host_hash}", format::utc_compact(at_ms))
}

/// The least that a cell must be able to write.
const LEAST_CELL_BYTES: u64 = 64 << 20;

/// Opening, the first segments, and removing the log again.
const AROUND_A_CELL: Duration = Duration::from_millis(400);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_has_every_cell_once_in_an_order_of_its_own() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let sweep = Sweep::load("quick", &root).unwrap();
        let names = |number| -> Vec<String> {
            block(&sweep, number).iter().map(|item| format!("{item:?}")).collect()
        };
        let mut blocks: Vec<_> = (0..3).map(names).collect();
        assert_ne!(blocks[0], blocks[1]);
        assert_eq!(blocks[0], names(0), "the seed decides");
        for block in &mut blocks {
            block.sort();
        }
        assert_eq!(blocks[0], blocks[1]);
        assert_eq!(blocks[0].len(), 13);
    }
}
