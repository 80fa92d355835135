//! A sweep: blocks of cells in random order, within a budget of time and bytes.

mod bench;
mod kernel;
mod plan;
mod prepared;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};
use rustix::fs::syncfs;

use self::bench::Bench;
pub use self::kernel::NOT_APPLIED;
use self::kernel::{guard, settings, sysctl_check, unchanged};
pub use self::plan::CANARY;
use self::plan::{Item, What};
use self::prepared::Prepared;
use crate::cell::{self, Measured, Place, Setting};
use crate::clock::{nanos, now, wall_ms};
use crate::disk::Probe;
use crate::disks::ServerCommand;
use crate::format;
use crate::output::{Output, read_cells};
use crate::profile::{Pace, Sweep, Sysctls};
use crate::raw;
use crate::results::{
    AppliedSysctls, BlockNoise, Cell, Check, Environment, LeftOut, Level, MANIFEST_SCHEMA,
    Manifest, MeasuredDisk, Outcome,
};
use crate::search;
use crate::sysctl::{DirtySettings, Guard};
use crate::vmstat;

/// What to run and where.
#[derive(Clone, Debug)]
pub struct Order {
    /// The directory whose disk is measured, where the profile names no other.
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
    /// The program that serves emulated disks.
    pub server: ServerCommand,
    /// The directory of a run to go on with: what it has is not measured again.
    pub resume: Option<PathBuf>,
}

/// What a run will do, before it does it.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The run's directory; `None` if it is only planned.
    pub path: Option<PathBuf>,
    /// Cells over all blocks.
    pub cells: u32,
    /// Of these, those that an earlier run has measured.
    pub cells_done: u32,
    /// Blocks.
    pub blocks: u32,
    /// About how long it takes.
    pub estimated: Duration,
    /// The most that it writes over the whole run, in bytes.
    pub total_bytes: u64,
    /// The most that is on the disk at one time, in bytes.
    pub most_bytes: u64,
    /// What is left out to keep within the time allowed.
    pub trimmed: Vec<String>,
    /// What this machine lacks.
    pub left_out: Vec<LeftOut>,
    /// Each disk, with what its calibration found.
    pub disks: Vec<MeasuredDisk>,
    /// Where it runs.
    pub environment: Environment,
    /// What a short look at the first disk found.
    pub probe: Probe,
    /// What the kernel's settings that are to be applied are called.
    pub sysctls: Vec<String>,
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
/// Whatever ends it, the cells that were measured are kept and reported, no log is left behind, and
/// the kernel's settings are as they were found.
///
/// # Errors
///
/// If it cannot begin: the directory, the results, the environment, another sweep on this machine.
/// What fails later is in [`Finished::error`].
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
    let mut order = order.clone();
    let prepared = Prepared::new(&mut order)?;
    let guard = guard(&order.sweep)?;
    let started_at_ms = wall_ms();
    let (output, cells) = if let Some(path) = &order.resume {
        (Output::open(path)?, read_cells(path)?)
    } else {
        let host = &prepared.environment.host_hash;
        let name = run_name(started_at_ms, &order.sweep.name, host);
        (Output::create(&order.results, &name)?, Vec::new())
    };
    let mut plan = prepared.plan(&order);
    plan.path = Some(output.path().to_owned());
    plan.cells_done = count(&cells);
    watch.planned(&plan);
    let manifest = manifest(&order, &output.name(), &plan, started_at_ms);
    let mut sweep = Running {
        deadline: now().after(nanos(order.sweep.budget)),
        order: &order,
        output,
        manifest,
        environment: prepared.environment,
        benches: prepared.benches,
        guard,
        cells,
        canaries: Vec::new(),
        watch,
        interrupted,
    };
    sweep.output.write_json("env.json", &sweep.environment)?;
    sweep.output.write_json("manifest.json", &sweep.manifest)?;
    sweep.output.write_text("profile.yaml", &order.sweep.text)?;
    let ended = sweep.blocks();
    Ok(sweep.conclude(ended))
}

/// What [`run`] would do: disks are made to look at them, and taken away again; no cell is
/// measured.
///
/// # Errors
///
/// As [`run`], before its first cell.
pub fn plan(order: &Order) -> Result<Plan> {
    let mut order = order.clone();
    let prepared = Prepared::new(&mut order)?;
    let plan = prepared.plan(&order);
    for bench in prepared.benches.into_iter().flatten() {
        bench.remove()?;
    }
    Ok(plan)
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
        cells_done: plan.cells_done,
        started_at_ms,
        ended_at_ms: None,
        outcome: Outcome::Running,
        directory: real(&order.directory).display().to_string(),
        budget_s: order.sweep.budget.as_secs(),
        trimmed: plan.trimmed.clone(),
        left_out: plan.left_out.clone(),
        sysctls: Vec::new(),
        noise: Vec::new(),
    }
}

struct Running<'a> {
    order: &'a Order,
    output: Output,
    manifest: Manifest,
    environment: Environment,
    benches: Vec<Option<Bench>>,
    guard: Option<Guard>,
    cells: Vec<Cell>,
    /// Rates of the present block's canaries.
    canaries: Vec<f64>,
    watch: &'a mut dyn Watch,
    interrupted: &'a AtomicBool,
    deadline: store_core::Nanos,
}

impl Running<'_> {
    fn blocks(&mut self) -> Result<Outcome> {
        let sweep = &self.order.sweep;
        let mut longest_block = store_core::Nanos::new(0);
        for number in 0..sweep.blocks {
            let begun = now();
            // A block that would not end in time is not begun: half of one compares nothing.
            if number > 0 && begun.after(longest_block) > self.deadline {
                return Ok(Outcome::Trimmed);
            }
            if let Some(outcome) = self.block(number)? {
                return Ok(outcome);
            }
            longest_block = longest_block.max(now().since(begun));
        }
        Ok(if self.manifest.trimmed.is_empty() { Outcome::Complete } else { Outcome::Trimmed })
    }

    fn block(&mut self, number: u32) -> Result<Option<Outcome>> {
        let sweep = &self.order.sweep;
        self.canaries.clear();
        if let Some(outcome) = self.canary(number, FIRST_CANARY)? {
            return Ok(Some(outcome));
        }
        let mut in_force: Option<(usize, Check)> = None;
        for (position, item) in (0..).zip(plan::block(sweep, number)) {
            // The first block alone may take longer than everything was to take.
            if now() > self.deadline {
                return Ok(Some(Outcome::Trimmed));
            }
            if self.benches[item.disk].is_none() || self.has(number, position) {
                continue;
            }
            let applied = match in_force.take() {
                Some((of, check)) if of == item.sysctl => check,
                _ => self.apply(item.sysctl)?,
            };
            if let Some(outcome) = self.cell(number, position, item, &applied)? {
                return Ok(Some(outcome));
            }
            in_force = Some((item.sysctl, applied));
        }
        if let Some(guard) = &mut self.guard {
            guard.apply(&DirtySettings::default(), &[])?;
        }
        if let Some(outcome) = self.canary(number, LAST_CANARY)? {
            return Ok(Some(outcome));
        }
        if let Some((spread_pct, flagged)) = plan::noise(&self.canaries, sweep.gates) {
            self.manifest.noise.push(BlockNoise { block: number, spread_pct, flagged });
        }
        Ok(None)
    }

    /// Whether an earlier run has measured it.
    fn has(&self, block: u32, position: u32) -> bool {
        self.cells.iter().any(|cell| (cell.block, cell.position) == (block, position))
    }

    /// Brings kernel settings into force, and says whether they are.
    fn apply(&mut self, index: usize) -> Result<Check> {
        let of = &self.order.sweep.sysctls[index];
        let applied = match &mut self.guard {
            Some(guard) => Some(guard.apply(&settings(of)?, &[])?),
            None => None,
        };
        let check = sysctl_check(of, applied.as_ref());
        if let Some(applied) = applied {
            self.manifest.sysctls.retain(|earlier| earlier.name != of.name);
            self.manifest.sysctls.push(AppliedSysctls { name: of.name.clone(), applied });
            self.output.write_json("manifest.json", &self.manifest)?;
        }
        Ok(check)
    }

    fn canary(&mut self, block: u32, position: u32) -> Result<Option<Outcome>> {
        if !self.order.sweep.canary || self.has(block, position) {
            return Ok(None);
        }
        let Some(disk) = self.benches.iter().position(Option::is_some) else { return Ok(None) };
        let (strategy, workload) = plan::canary();
        let what = What::Strategy(&strategy, &workload, 1);
        let as_found = sysctl_check(&Sysctls::as_found(), None);
        let item = Item { disk, sysctl: 0, what };
        let outcome = self.cell(block, position, item, &as_found)?;
        if let Some(cell) = self.cells.last().filter(|cell| cell.position == position) {
            self.canaries.push(cell.acked_per_s);
        }
        Ok(outcome)
    }

    /// Measures and records one cell; an outcome if the run ends with it.
    fn cell(
        &mut self,
        block: u32,
        position: u32,
        item: Item<'_>,
        applied: &Check,
    ) -> Result<Option<Outcome>> {
        let sweep = &self.order.sweep;
        let is_canary = position == FIRST_CANARY || position == LAST_CANARY;
        let (run, disk) = (self.manifest.run.clone(), sweep.disks[item.disk].name.clone());
        let sysctl = if is_canary { Sysctls::AS_FOUND } else { &sweep.sysctls[item.sysctl].name };
        let named = Names { disk: &disk, sysctl, is_one: is_one(sweep) };
        self.watch.started(block, &named.cell(&item.what));
        let bench = self.benches[item.disk].as_ref().expect("the caller has looked");
        let mut checks = bench.checks.clone();
        checks.push(applied.clone());
        checks.extend(self.settle(bench));
        let bench = self.benches[item.disk].as_ref().expect("the caller has looked");
        let longest = if is_canary { plan::LONGEST_CANARY } else { Duration::MAX };
        let setting = Setting {
            run: &run,
            directory: bench.directory(),
            device: bench.info.device.as_deref(),
            emulated: bench.info.emulated,
            volatile_cache: bench.info.write_cache.as_deref() != Some("write through"),
            warmup: sweep.warmup.min(longest),
            measure: sweep.measure.min(longest),
            soft_bytes: bench.limits.soft,
            hard_bytes: bench.limits.hard,
            segment_bytes: sweep.segment_bytes,
            seed: sweep.seed,
            gates: sweep.gates,
            environment_checks: &checks,
            interrupted: self.interrupted,
        };
        let Some(mut measured) = measure(&setting, block, position, &item.what)? else {
            return Ok(Some(Outcome::Interrupted));
        };
        let cell = &mut measured.cell;
        named.put_into(cell, &item.what);
        if let Some(guard) = &self.guard {
            unchanged(guard, cell)?;
        }
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

    /// Waits until little is dirty, so that no cell pays for the one before; what if it does not
    /// come to that.
    fn settle(&self, bench: &Bench) -> Option<Check> {
        let most = self.order.sweep.drain_dirty_below_bytes;
        let patience = now().after(nanos(DRAIN_PATIENCE));
        let at_risk = || vmstat::pages().map(|pages| pages.at_risk_bytes());
        let mut found = at_risk()?;
        while found >= most && now() < patience && !self.interrupted.load(Ordering::Relaxed) {
            let synced = std::fs::File::open(bench.directory()).map(syncfs);
            // A sync that fails is for the log to find.
            let _ = synced;
            thread::sleep(Duration::from_millis(20));
            found = at_risk()?;
        }
        thread::sleep(self.order.sweep.settle);
        Some(Check {
            code: "drained".to_owned(),
            level: if found < most { Level::Pass } else { Level::Warn },
            value: format::bytes(crate::clock::float(found)),
            rule: format!(
                "less than {} was dirty when the cell began",
                format::bytes(crate::clock::float(most))
            ),
        })
    }

    fn conclude(mut self, ended: Result<Outcome>) -> Finished {
        let mut ended = ended;
        if let Some(guard) = self.guard.take() {
            let restored = guard.restore().map(drop);
            ended = ended.and_then(|outcome| restored.map(|()| outcome));
        }
        for bench in self.benches.drain(..).flatten() {
            let removed = bench.remove();
            ended = ended.and_then(|outcome| removed.map(|()| outcome));
        }
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

/// Measures what stands at a position; `None` if it was interrupted.
fn measure(
    setting: &Setting<'_>,
    block: u32,
    position: u32,
    what: &What<'_>,
) -> Result<Option<Measured>> {
    let place = |producers| Place { block, position, producers };
    match what {
        What::Raw(workload) => {
            let bytes = cell::mean_record_bytes(&workload.message_bytes)?;
            raw::measure(setting, &place(1), workload, bytes)
        }
        What::Strategy(strategy, workload, producers) => match workload.pace {
            Pace::FindRate { p99, arrival } => {
                search::measure(setting, &place(*producers), strategy, workload, (p99, arrival))
            }
            Pace::Closed | Pace::Rate { .. } => {
                cell::measure(setting, &place(*producers), strategy, workload)
            }
        },
    }
}

/// What a cell is called.
struct Names<'a> {
    disk: &'a str,
    sysctl: &'a str,
    /// The sweep has one disk and one kernel setting: neither needs to be said.
    is_one: bool,
}

impl Names<'_> {
    fn cell(&self, what: &What<'_>) -> String {
        let own = match what {
            What::Raw(workload) => format!("raw/{}/1", workload.name),
            What::Strategy(strategy, workload, producers) => {
                format!("{}/{}/{producers}", strategy.name, workload.name)
            }
        };
        if self.is_one { own } else { format!("{}/{}/{own}", self.disk, self.sysctl) }
    }

    fn put_into(&self, cell: &mut Cell, what: &What<'_>) {
        cell.cell = self.cell(what);
        self.disk.clone_into(&mut cell.disk);
        self.sysctl.clone_into(&mut cell.sysctl);
    }
}

fn is_one(sweep: &Sweep) -> bool {
    sweep.disks.len() == 1 && sweep.sysctls.len() == 1
}

/// Without links, if it can be told.
fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

fn count(cells: &[Cell]) -> u32 {
    u32::try_from(cells.len()).unwrap_or(u32::MAX)
}

/// `<utc>-<sweep>-<host8>`, the time as `20261129T160502Z`.
fn run_name(at_ms: u64, sweep: &str, host_hash: &str) -> String {
    format!("{}-{sweep}-{host_hash}", format::utc_compact(at_ms))
}

/// Positions of a block's canaries, behind all others.
const FIRST_CANARY: u32 = u32::MAX - 1;
const LAST_CANARY: u32 = u32::MAX;
/// How long a cell waits for others' dirty pages.
const DRAIN_PATIENCE: Duration = Duration::from_secs(30);
