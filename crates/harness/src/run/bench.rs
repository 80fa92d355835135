//! A disk of the sweep with everything that its cells need: made once, and taken away at the end.

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use crashlab::block::DiskType;

use super::Order;
use super::plan::What;
use crate::card::{self, Card, Subject};
use crate::cell::simulated;
use crate::clock::{float, nanos, round};
use crate::disk::{self, Probe};
use crate::disks::{Disk, DiskSpec, Unavailable};
use crate::environment;
use crate::load::Disturbance;
use crate::profile::{self, Pace};
use crate::raw;
use crate::results::{Check, DiskInfo, Environment, Level, MeasuredDisk, Origin};
use crate::search;
use crate::strategy;
use crate::sysctl::{DeviceLimits, DeviceNumber};
use crate::workdir::{self, Workdir};

/// A disk that is there.
#[derive(Debug)]
pub(super) struct Bench {
    pub(super) name: String,
    pub(super) probe: Probe,
    pub(super) info: DiskInfo,
    /// What is to be said with every cell.
    pub(super) checks: Vec<Check>,
    pub(super) limits: Limits,
    /// What the disk's device may have of the dirty limit, if the profile says so.
    pub(super) device: Option<(DeviceNumber, DeviceLimits)>,
    /// Its type, if it is simulated.
    pub(super) simulated: Option<DiskType>,
    /// Where cells make their logs, removed before the disk is; `None` if it is simulated.
    there: Option<(Workdir, Disk)>,
}

impl Bench {
    /// Makes the disk, or says what this machine lacks for it.
    ///
    /// # Errors
    ///
    /// If something fails that should not, or what is there must not be measured.
    pub(super) fn make(
        of: &profile::Disk,
        order: &Order,
        environment: &Environment,
    ) -> Result<Result<Self, Unavailable>> {
        if let DiskSpec::Simulated { disk_type } = of.spec {
            return Ok(Ok(Self::simulated(&of.name, disk_type, order.sweep.cell_bytes)));
        }
        if let DiskSpec::Host { path: Some(path), .. } = &of.spec {
            workdir::sweep_stale(path);
        }
        let disk = match Disk::make(&of.spec, &order.directory, &order.server)? {
            Ok(disk) => disk,
            Err(unavailable) => return Ok(Err(unavailable)),
        };
        let workdir = Workdir::create(disk.directory())?;
        let probe = disk::probe(workdir.path())?;
        let info = disk.info().clone();
        // Memory that was asked for by the profile is a label, not a mistake.
        let allowed = order.allow_in_memory || of.spec.is_made();
        let seen = Environment { disk: info.clone(), ..environment.clone() };
        let mut checks = environment::checks(&seen, &probe, allowed);
        if let Some(failed) = checks.iter().find(|check| refuses(check, allowed)) {
            bail!(
                "{}: {}, and nothing there is durable: choose another with --dir, or give \
                 --allow-memory",
                info.path,
                failed.value
            );
        }
        checks.extend(calibrated(&disk));
        let Some(limits) = Limits::new(&order.sweep, &seen, &probe) else {
            let short = Short { free: info.free_bytes, needed: Limits::needed(&order.sweep) };
            ensure!(of.spec.is_made(), "{}: {short}: {}", info.path, Short::ON_A_HOST);
            workdir.close().and(disk.remove())?;
            return Ok(Err(short.into()));
        };
        let device = if of.limits.is_empty() {
            None
        } else {
            let number = DeviceNumber::from_dev(fs::metadata(disk.directory())?.dev());
            Some((number, of.limits))
        };
        let there = Some((workdir, disk));
        let name = of.name.clone();
        Ok(Ok(Self { name, probe, info, checks, limits, device, simulated: None, there }))
    }

    /// A disk that is nowhere: it takes what its type takes, in virtual time.
    fn simulated(name: &str, model: DiskType, cell_bytes: Option<u64>) -> Self {
        let timing = model.timing();
        let soft = cell_bytes.unwrap_or(MOST_CELL_BYTES);
        let sync = nanos(timing.sync(PROBED_BYTES)).get();
        let info = DiskInfo {
            path: format!("SIMULATED {model}"),
            model: Some(model.name().to_owned()),
            simulated: true,
            ..DiskInfo::default()
        };
        Self {
            name: name.to_owned(),
            probe: Probe {
                syncs: 0,
                sync_ns_p50: sync,
                sync_ns_p99: sync,
                no_op: false,
                write_bytes_per_s: timing.bytes_per_s,
            },
            info,
            checks: vec![simulated::label(model)],
            limits: Limits { soft, hard: soft.saturating_mul(2), most: 0, raw: 0 },
            device: None,
            simulated: Some(model),
            there: None,
        }
    }

    /// Where logs are made; nowhere on a simulated disk.
    pub(super) fn directory(&self) -> &Path {
        self.there.as_ref().map_or(Path::new(""), |(workdir, _)| workdir.path())
    }

    /// What this cell is to be disturbed by, made where its log will be.
    ///
    /// # Errors
    ///
    /// If the files for it cannot be written.
    pub(super) fn disturbance(
        &self,
        sweep: &profile::Sweep,
        what: &What<'_>,
        measure: Duration,
        interrupted: &AtomicBool,
    ) -> Result<Option<Disturbance>> {
        let What::Strategy(_, workload, _) = what else { return Ok(None) };
        let (directory, segment_bytes) = (self.directory(), sweep.segment_bytes);
        Disturbance::create(workload, directory, segment_bytes, measure, sweep.seed, interrupted)
    }

    /// The card of the disk for a run, as far as it came, and what ended it early.
    ///
    /// # Errors
    ///
    /// If it cannot begin.
    pub(super) fn card(
        &self,
        run: &str,
        origin: &Origin,
        interrupted: &AtomicBool,
    ) -> Result<(Card, Result<()>)> {
        card::has_room(&self.info)?;
        let workdir = Workdir::create(self.directory())?;
        let labels = self.there.as_ref().map_or(&[][..], |(_, disk)| disk.labels());
        let (directory, info) = (workdir.path(), &self.info);
        let subject = Subject { directory, info, labels, run, origin };
        let (card, ended) = subject.card(interrupted, &mut |_| {});
        Ok((card, ended.and(workdir.close())))
    }

    /// For the record of the environment.
    pub(super) fn described(&self) -> MeasuredDisk {
        let disk = self.there.as_ref().map(|(_, disk)| disk);
        let labels = disk.map_or(&[][..], Disk::labels).iter();
        let labels = labels.map(|label| label.words().to_owned());
        let simulated = self.simulated.map(|_| SIMULATED.to_owned());
        MeasuredDisk {
            name: self.name.clone(),
            labels: labels.chain(simulated).collect(),
            calibration: disk.and_then(Disk::calibration).map(ToString::to_string),
            sync_p50_ns: self.probe.sync_ns_p50,
            info: self.info.clone(),
        }
    }

    /// Removes what is on it, and the disk.
    ///
    /// # Errors
    ///
    /// If something stays; it is named.
    pub(super) fn remove(self) -> Result<()> {
        let Some((workdir, disk)) = self.there else { return Ok(()) };
        let cleared = workdir.close();
        cleared.and(disk.remove())
    }
}

/// In memory is a reason to refuse, not only to mark: nobody asked for such a figure.
fn refuses(check: &Check, allow_in_memory: bool) -> bool {
    check.level == Level::Invalid && check.code == "in_memory" && !allow_in_memory
}

/// Whether an emulated disk takes as long as it was asked to.
fn calibrated(disk: &Disk) -> Option<Check> {
    let found = disk.calibration()?;
    Some(Check {
        code: "calibration".to_owned(),
        level: if found.has_landed() { Level::Pass } else { Level::Warn },
        value: found.to_string(),
        rule: "an emulated disk takes what was asked of it, within 25 %".to_owned(),
    })
}

/// How much a cell may write.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Log bytes of one cell after which it ends early if it has seen enough.
    pub(super) soft: u64,
    /// Log bytes of one cell after which it ends in any case.
    pub(super) hard: u64,
    /// At one time.
    pub(super) most: u64,
    /// By the raw loop, which time alone ends.
    raw: u64,
}

impl Limits {
    /// `None` if [`needed`](Self::needed) bytes are not free.
    fn new(sweep: &profile::Sweep, environment: &Environment, probe: &Probe) -> Option<Self> {
        let seconds = sweep.measure.as_secs_f64();
        // What is unsynced when a cell ends may have to be written out then; on a slow disk that
        // must not take much longer than the cell.
        let by_disk = round(float(probe.write_bytes_per_s) * seconds * 3.0);
        let by_memory = environment.memory_bytes.unwrap_or(u64::MAX) / 4;
        let beside = Self::beside(sweep);
        let by_space = (environment.disk.free_bytes / 2).saturating_sub(beside);
        if by_space < LEAST_CELL_BYTES {
            return None;
        }
        // Who asks for so much wants the page cache full up to the kernel's limits.
        let most = if sweep.cell_bytes.is_some() { by_space } else { by_memory.min(by_space) };
        let usual = by_disk.clamp(64 << 20, MOST_CELL_BYTES);
        let soft = sweep.cell_bytes.unwrap_or(usual).min(most);
        let hard = (2 * soft).min(most);
        let all_seconds = (sweep.warmup + sweep.measure).as_secs_f64();
        let raw = raw::FILE_BYTES + round(float(probe.write_bytes_per_s) * all_seconds);
        Some(Self { soft, hard, most: hard + beside, raw })
    }

    /// Bytes that a cell writes to its files at most, over all its time.
    pub(super) fn written(&self, what: &What<'_>) -> u64 {
        let What::Strategy(strategy, workload, _) = what else { return self.most.max(self.raw) };
        let times_each = if strategy::is_zeroed(&strategy.settings) { 2 } else { 1 };
        let cells = match workload.pace {
            Pace::Closed | Pace::Rate { .. } => 1,
            Pace::FindRate { .. } => search::MOST_CELLS,
        };
        self.most.saturating_mul(times_each).saturating_mul(u64::from(cells))
    }

    /// Segments made ahead, the one at the end, the file of the raw loop, and what is read and
    /// deleted beside them.
    fn beside(sweep: &profile::Sweep) -> u64 {
        let of = |workload| Disturbance::bytes(workload, sweep.segment_bytes, sweep.measure);
        let old = sweep.workloads.iter().map(of).max().unwrap_or(0);
        3 * sweep.segment_bytes + raw::FILE_BYTES + old
    }

    /// Bytes that must be free for a run; half of them stay so.
    fn needed(sweep: &profile::Sweep) -> u64 {
        2 * (Self::beside(sweep) + LEAST_CELL_BYTES)
    }
}

/// Too little is free.
#[derive(Clone, Copy, Debug)]
struct Short {
    free: u64,
    needed: u64,
}

impl Short {
    const ON_A_HOST: &str = "free some space, choose another disk with --dir, or a smaller \
                             log.segment_bytes";
}

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (free, needed) = (self.free >> 20, self.needed.div_ceil(1 << 20));
        write!(f, "{free} MiB are free, the run needs {needed} MiB")
    }
}

impl From<Short> for Unavailable {
    /// Of a disk that is made.
    fn from(short: Short) -> Self {
        let more = (short.needed - short.free.min(short.needed)).div_ceil(1 << 20);
        let how =
            format!("make it at least {more} MiB larger, or take a smaller log.segment_bytes");
        Self { why: short.to_string(), how }
    }
}

/// What must be said beside the figures of a disk that is not there.
const SIMULATED: &str = "SIMULATED";
/// What a short look at a disk writes with each sync.
const PROBED_BYTES: u64 = 4096;
/// Log bytes after which a cell ends early on a disk that is fast enough.
const MOST_CELL_BYTES: u64 = 2 << 30;
/// The least that a cell must be able to write.
const LEAST_CELL_BYTES: u64 = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Io, Prealloc, Settings};
    use crate::results::Arrival;
    use crate::results_fixture;
    use crate::run::plan::canary;

    #[test]
    fn a_cell_writes_what_is_asked_and_at_most_half_of_what_is_free() {
        let limits = |run: &str, free_gib: u64| {
            let text = format!(
                "schema: flushmark.profile/v1\nname: own\nrun: {{measure_ms: 1000{run}}}\n\
                 workloads: {{w: {{message_bytes: 1KiB, producers: [1]}}}}\n\
                 strategies: {{s: {{kind: none}}}}\nmatrix: {{workloads: [w], strategies: [s]}}\n"
            );
            let mut environment = results_fixture::environment();
            environment.memory_bytes = Some(8 << 30);
            environment.disk.free_bytes = free_gib << 30;
            let sweep = profile::Sweep::parse("own", &text).unwrap();
            let write_bytes_per_s = 1 << 30;
            let probe =
                Probe { syncs: 1, sync_ns_p50: 1, sync_ns_p99: 1, no_op: false, write_bytes_per_s };
            let found = Limits::new(&sweep, &environment, &probe).unwrap();
            (found.soft >> 20, found.hard >> 20)
        };
        assert_eq!(limits("", 90), (2048, 2048), "a quarter of memory");
        assert_eq!(limits(", cell_bytes: 16GiB", 90), (16 << 10, 32 << 10));
        let (soft, hard) = limits(", cell_bytes: 16GiB", 20);
        assert!(soft == hard && (9 << 10..10 << 10).contains(&soft), "{soft}");
    }

    #[test]
    fn what_is_asked_of_a_cell_holds_in_virtual_time_too() {
        let limits = |asked| Bench::simulated("model", DiskType::Hdd7200, asked).limits;
        assert_eq!((limits(None).soft, limits(None).hard), (MOST_CELL_BYTES, 4 << 30));
        assert_eq!((limits(Some(5)).soft, limits(Some(5)).hard), (5, 10));
    }

    #[test]
    fn a_cell_writes_its_zeroes_and_each_probe_of_a_search_too() {
        let limits = Limits { soft: 50, hard: 100, most: 130, raw: 10 };
        let (mut strategy, mut workload) = canary("begin");
        assert_eq!(limits.written(&What::Strategy(&strategy, &workload, 1)), 260, "zeroes first");
        assert_eq!(limits.written(&What::Raw(&workload)), 130);
        assert_eq!(Limits { raw: 900, ..limits }.written(&What::Raw(&workload)), 900);
        let Settings::GroupCommit { prealloc, .. } = &mut strategy.settings else { panic!() };
        *prealloc = Prealloc::Fallocate;
        assert_eq!(limits.written(&What::Strategy(&strategy, &workload, 1)), 130);
        let p99 = Duration::from_millis(10);
        workload.pace = Pace::FindRate { p99, arrival: Arrival::Poisson };
        assert_eq!(limits.written(&What::Strategy(&strategy, &workload, 1)), 29 * 130);
        strategy.settings = Settings::None { io: Io::Mapped };
        workload.pace = Pace::Closed;
        assert_eq!(limits.written(&What::Strategy(&strategy, &workload, 1)), 130);
    }
}
