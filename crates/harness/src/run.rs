//! A sweep: blocks of cells in random order, within a budget of time and bytes.

mod bench;
mod card;
mod earlier;
mod failing;
mod kernel;
mod plan;
mod prepared;
mod settle;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};

use self::bench::Bench;
use self::earlier::Earlier;
pub use self::kernel::NOT_APPLIED;
use self::kernel::{no_kernel, sysctl_check, unchanged};
pub use self::plan::CANARY;
use self::plan::{Item, What};
use self::prepared::{Prepared, real};
use self::settle::settle;
use crate::cell::{self, Measured, Place, Setting};
use crate::clock::{nanos, now, wall_ms};
use crate::disk::Probe;
use crate::disks::ServerCommand;
use crate::format;
use crate::live::{Live, Phase};
use crate::output::Output;
use crate::profile::{Pace, Sweep, Sysctls};
use crate::raw;
use crate::results::{
    AppliedSysctls, BlockNoise, Cell, Check, Environment, LeftOut, MANIFEST_SCHEMA, Manifest,
    MeasuredDisk, Origin, Outcome,
};
use crate::search;
use crate::sysctl::{self, DeviceLimits, DeviceNumber, DirtySettings, Guard, Leftover, Roots};

/// What to run and where.
#[derive(Clone, Debug)]
pub struct Order {
    /// The directory whose disk is measured, where the profile names no other.
    pub directory: PathBuf,
    /// Where result directories go.
    pub results: PathBuf,
    /// What to measure.
    pub sweep: Sweep,
    /// For the record.
    pub origin: Origin,
    /// Measure even where the file system lives in memory.
    pub allow_in_memory: bool,
    /// The program that serves emulated disks.
    pub server: ServerCommand,
    /// Where the kernel's settings are, and the lock that keeps sweeps apart.
    pub kernel: Roots,
    /// The directory of a run to go on with: what it has is not measured again.
    pub resume: Option<PathBuf>,
    /// Keep the host's name and serial numbers in the record, which else has their hashes.
    pub full_env: bool,
    /// Shows what the run is at to whoever has it too.
    pub live: Arc<Live>,
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
    /// Whether the first disk gets a card before the first cell.
    pub card: bool,
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
    /// Why they cannot be applied, where that is known before.
    pub refused: Option<String>,
    /// What became of the kernel's settings that a killed run had left.
    pub leftover: Leftover,
}

impl Plan {
    /// Counts what an earlier run has measured.
    fn go_on_from(&mut self, cells: &[Cell]) {
        self.cells_done = count(cells);
        // Also what was on a disk that is not there any more.
        let is_there = |cell: &Cell| self.disks.iter().any(|disk| disk.name == cell.disk);
        let others = cells.iter().filter(|cell| !is_canary(cell.position) && !is_there(cell));
        self.cells = self.cells.saturating_add(count(others));
        let left = self.cells.saturating_sub(self.cells_done);
        self.estimated = (self.estimated / self.cells.max(1)).saturating_mul(left);
    }
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
    // First of all: another sweep is not to be disturbed by so much as the making of a disk.
    let guard = Guard::take(&order.kernel)?;
    let earlier = order.resume.as_ref().map(|path| Earlier::open(path, &order)).transpose()?;
    let mut prepared = Prepared::new(&mut order, interrupted)?;
    let mut plan = prepared.plan(&order);
    if let Some(earlier) = &earlier {
        prepared.environment = earlier.joined(prepared.environment);
    }
    plan.leftover = guard.leftover().clone();
    let (output, manifest, cells) = begin(&order, &mut plan, earlier)?;
    watch.planned(&plan);
    let mut sweep = Running {
        deadline: now().after(nanos(order.sweep.budget)),
        order: &order,
        output,
        manifest,
        environment: prepared.environment,
        benches: prepared.benches,
        broken: Vec::new(),
        failed: Vec::new(),
        guard,
        cells,
        watch,
        interrupted,
    };
    sweep.output.write_json("env.json", &sweep.environment)?;
    sweep.output.write_json("manifest.json", &sweep.manifest)?;
    sweep.output.write_text("profile.yaml", &order.sweep.text)?;
    let ended = sweep.card().and_then(|()| sweep.blocks());
    Ok(sweep.conclude(ended))
}

/// What [`run`] would do: disks are made to look at them, and taken away again; no cell is
/// measured.
///
/// # Errors
///
/// As [`run`], before its first cell.
pub fn plan(order: &Order, interrupted: &AtomicBool) -> Result<Plan> {
    let mut order = order.clone();
    // The making of a disk would disturb another sweep; a whole guard would change settings.
    let _lock = sysctl::lock(&order.kernel)?;
    let prepared = Prepared::new(&mut order, interrupted)?;
    let plan = prepared.plan(&order);
    for bench in prepared.benches.into_iter().flatten() {
        bench.remove()?;
    }
    Ok(plan)
}

/// The directory of a new run, or that of the earlier one with what it has.
fn begin(
    order: &Order,
    plan: &mut Plan,
    earlier: Option<Earlier>,
) -> Result<(Output, Manifest, Vec<Cell>)> {
    let Some(Earlier { output, manifest: then, cells, .. }) = earlier else {
        let started_at_ms = wall_ms();
        let name = run_name(started_at_ms, &order.sweep.name, &plan.environment.host_hash);
        let output = Output::create(&order.results, &name)?;
        plan.path = Some(output.path().to_owned());
        let manifest = manifest(order, &output.name(), plan, started_at_ms);
        return Ok((output, manifest, Vec::new()));
    };
    plan.path = Some(output.path().to_owned());
    plan.go_on_from(&cells);
    // What failed in the first half is to be known of the whole, also where it is measured now.
    let before = then.left_out.into_iter().filter(|earlier| !plan.left_out.contains(earlier));
    let before = before.map(|earlier| LeftOut {
        why: format!("before the run went on: {}", earlier.why),
        ..earlier
    });
    let left_out = plan.left_out.iter().cloned().chain(before).collect();
    let manifest = Manifest {
        left_out,
        origin: Origin { command: then.origin.command, ..order.origin.clone() },
        noise: then.noise,
        sysctls: then.sysctls,
        ..manifest(order, &output.name(), plan, then.started_at_ms)
    };
    Ok((output, manifest, cells))
}

fn manifest(order: &Order, name: &str, plan: &Plan, started_at_ms: u64) -> Manifest {
    Manifest {
        schema: MANIFEST_SCHEMA.to_owned(),
        run: name.to_owned(),
        origin: order.origin.clone(),
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
        gates: Some(order.sweep.gates),
        slo: Some(order.sweep.slo),
    }
}

/// What a disk's device may have of the dirty limit.
type Limited = Option<(DeviceNumber, DeviceLimits)>;

struct Running<'a> {
    order: &'a Order,
    output: Output,
    manifest: Manifest,
    environment: Environment,
    benches: Vec<Option<Bench>>,
    /// Disks on which nothing more is measured, and why.
    broken: Vec<Bench>,
    failed: Vec<anyhow::Error>,
    guard: Guard,
    cells: Vec<Cell>,
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
        if let Some(outcome) = self.canary(number, FIRST_CANARY)? {
            return Ok(Some(outcome));
        }
        let mut in_force: Option<((usize, Limited), Check)> = None;
        for (position, item) in (0..).zip(plan::block(sweep, number)) {
            // The first block alone may take longer than everything was to take.
            if now() > self.deadline {
                return Ok(Some(Outcome::Trimmed));
            }
            let Some(bench) = &self.benches[item.disk] else { continue };
            if self.has(number, position) {
                continue;
            }
            let asked = (item.sysctl, bench.device);
            if bench.simulated.is_some() {
                if let Some(outcome) = self.cell(number, position, item, &no_kernel())? {
                    return Ok(Some(outcome));
                }
                continue;
            }
            let applied = match in_force.take() {
                Some((of, check)) if of == asked => check,
                _ => self.apply(&item)?,
            };
            if let Some(outcome) = self.cell(number, position, item, &applied)? {
                return Ok(Some(outcome));
            }
            in_force = Some((asked, applied));
        }
        self.guard.apply(&DirtySettings::default(), &[])?;
        if let Some(outcome) = self.canary(number, LAST_CANARY)? {
            return Ok(Some(outcome));
        }
        let of_block = self.cells.iter().filter(|cell| cell.block == number);
        let canaries: Vec<&Cell> = of_block.filter(|cell| is_canary(cell.position)).collect();
        let rates: Vec<f64> = canaries.iter().map(|cell| cell.acked_per_s).collect();
        let on_one_disk = canaries.iter().all(|cell| cell.disk == canaries[0].disk);
        let noise = plan::noise(&rates, sweep.gates).filter(|_| on_one_disk);
        if let Some((spread_pct, flagged)) = noise {
            self.manifest.noise.retain(|noise| noise.block != number);
            self.manifest.noise.push(BlockNoise { block: number, spread_pct, flagged });
        }
        Ok(None)
    }

    fn is_simulated(&self, disk: usize) -> bool {
        self.benches[disk].as_ref().is_some_and(|bench| bench.simulated.is_some())
    }

    /// Whether an earlier run has measured it.
    fn has(&self, block: u32, position: u32) -> bool {
        self.cells.iter().any(|cell| (cell.block, cell.position) == (block, position))
    }

    /// Brings kernel settings into force, those of the disk's device too, and says whether they
    /// are.
    fn apply(&mut self, item: &Item<'_>) -> Result<Check> {
        let of = &self.order.sweep.sysctls[item.sysctl];
        let limited = self.benches[item.disk].as_ref().filter(|bench| bench.device.is_some());
        let devices = limited.and_then(|bench| bench.device);
        let is_nothing = of.changes_nothing() && devices.is_none();
        // Where the settings cannot even be read, nothing can be said of nothing being changed.
        let is_unknown = is_nothing && self.guard.found().is_none();
        let applied = if is_unknown {
            None
        } else {
            Some(self.guard.apply(&of.settings, devices.as_slice())?)
        };
        let check = sysctl_check(of, applied.as_ref());
        if let Some(applied) = applied.filter(|_| !is_nothing) {
            let name = match limited {
                Some(bench) => format!("{} on {}", of.name, bench.name),
                None => of.name.clone(),
            };
            self.manifest.sysctls.retain(|earlier| earlier.name != name);
            self.manifest.sysctls.push(AppliedSysctls { name, applied });
            self.output.write_json("manifest.json", &self.manifest)?;
        }
        Ok(check)
    }

    fn canary(&mut self, block: u32, position: u32) -> Result<Option<Outcome>> {
        if !self.order.sweep.canary || self.has(block, position) {
            return Ok(None);
        }
        let is_real =
            |bench: &Option<Bench>| bench.as_ref().is_some_and(|bench| bench.simulated.is_none());
        let Some(disk) = self.benches.iter().position(is_real) else { return Ok(None) };
        let when = if position == FIRST_CANARY { "begin" } else { "end" };
        let (strategy, workload) = plan::canary(when);
        let what = What::Strategy(&strategy, &workload, 1);
        let as_found = sysctl_check(&Sysctls::as_found(), None);
        let item = Item { disk, sysctl: 0, what };
        self.cell(block, position, item, &as_found)
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
        let is_canary = is_canary(position);
        let (run, disk) = (self.manifest.run.clone(), sweep.disks[item.disk].name.clone());
        let is_as_found = is_canary || self.is_simulated(item.disk);
        let sysctl = if is_as_found { Sysctls::AS_FOUND } else { &sweep.sysctls[item.sysctl].name };
        let named = Names { disk: &disk, sysctl, is_one: is_one(sweep) };
        let name = named.cell(&item.what);
        self.watch.started(block, &name);
        self.order.live.begin(format!("block {}, {name}", block + 1));
        let bench = self.benches[item.disk].as_ref().expect("the caller has looked");
        let mut checks = bench.checks.clone();
        checks.push(applied.clone());
        let longest = if is_canary { plan::LONGEST_CANARY } else { Duration::MAX };
        let length = sweep.measure.min(longest);
        // Before the rest: what writing them does to a disk is nothing that a cell is to show.
        let disturbance = match bench.disturbance(sweep, &item.what, length, self.interrupted) {
            Ok(disturbance) => disturbance,
            Err(error) => return self.give_up(item.disk, block, error).map(|()| None),
        };
        if self.interrupted.load(Ordering::Relaxed) && disturbance.is_some() {
            return Ok(Some(Outcome::Interrupted));
        }
        if bench.simulated.is_none() {
            self.order.live.enter(Phase::Resting, sweep.settle);
            let seen = settle(bench.directory(), sweep, self.interrupted);
            // Of a search a later cell is kept, before which nobody looked.
            checks.extend(seen.into_iter().filter(|_| !item.what.is_search()));
        }
        let bench = self.benches[item.disk].as_ref().expect("the caller has looked");
        let setting = Setting {
            run: &run,
            directory: bench.directory(),
            device: bench.info.device.as_deref(),
            emulated: bench.info.emulated,
            simulated: bench.simulated,
            volatile_cache: bench.info.write_cache.as_deref() != Some("write through"),
            has_fua: bench.info.details.fua == Some(true),
            warmup: sweep.warmup.min(longest),
            measure: length,
            soft_bytes: bench.limits.soft,
            hard_bytes: bench.limits.hard,
            segment_bytes: sweep.segment_bytes,
            seed: sweep.seed,
            gates: sweep.gates,
            environment_checks: &checks,
            disturbance: disturbance.as_ref(),
            interrupted: self.interrupted,
            live: &self.order.live,
        };
        let mut measured = match measure(&setting, block, position, &item.what) {
            Ok(Some(measured)) => measured,
            Ok(None) => return Ok(Some(Outcome::Interrupted)),
            Err(error) => return self.give_up(item.disk, block, error).map(|()| None),
        };
        let cell = &mut measured.cell;
        named.put_into(cell, &item.what);
        let looked = if cell.simulated { Ok(()) } else { unchanged(&self.guard, cell) };
        // What was measured is kept, whatever comes of that.
        self.output.write_cell(&measured)?;
        looked?;
        self.manifest.cells_done += 1;
        self.watch.finished(&measured.cell, self.manifest.cells_done, self.manifest.cells_planned);
        self.cells.push(measured.cell);
        let is_last = self.manifest.cells_done == self.manifest.cells_planned;
        if self.interrupted.load(Ordering::Relaxed) && !is_last {
            return Ok(Some(Outcome::Interrupted));
        }
        Ok(None)
    }

    fn conclude(mut self, ended: Result<Outcome>) -> Finished {
        let ended = self.with_failures(ended);
        let mut ended = and(ended, self.guard.restore().map(drop));
        let broken = std::mem::take(&mut self.broken);
        for bench in self.benches.drain(..).flatten().chain(broken) {
            ended = and(ended, bench.remove());
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

/// The outcome if nothing failed afterwards either; else all that failed.
fn and(ended: Result<Outcome>, afterwards: Result<()>) -> Result<Outcome> {
    match (ended, afterwards) {
        (ended, Ok(())) => ended,
        (Ok(_), Err(error)) => Err(error),
        (Err(first), Err(second)) => Err(anyhow::anyhow!("{first:#}; and {second:#}")),
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

fn count<'a>(cells: impl IntoIterator<Item = &'a Cell>) -> u32 {
    u32::try_from(cells.into_iter().count()).unwrap_or(u32::MAX)
}

fn is_canary(position: u32) -> bool {
    position == FIRST_CANARY || position == LAST_CANARY
}

/// `<utc>-<sweep>-<host8>`, the time as `20261129T160502Z`.
fn run_name(at_ms: u64, sweep: &str, host_hash: &str) -> String {
    format!("{}-{sweep}-{host_hash}", format::utc_compact(at_ms))
}

/// Positions of a block's canaries, behind all others.
const FIRST_CANARY: u32 = u32::MAX - 1;
const LAST_CANARY: u32 = u32::MAX;
