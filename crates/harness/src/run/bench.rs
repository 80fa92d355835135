//! A disk of the sweep with everything that its cells need: made once, and taken away at the end.

use std::path::Path;

use anyhow::{Result, bail, ensure};
use crashlab::block::DiskType;

use super::Order;
use crate::cell::simulated;
use crate::clock::{float, nanos, round};
use crate::disk::{self, Probe};
use crate::disks::{Disk, DiskSpec, Unavailable};
use crate::environment;
use crate::profile;
use crate::raw;
use crate::results::{Check, DiskInfo, Environment, Level, MeasuredDisk};
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
        let spec = match spec(&of.spec, &order.directory) {
            Ok(spec) => spec,
            Err(model) => return Ok(Ok(Self::simulated(&of.name, model))),
        };
        if let DiskSpec::Host { path, .. } = &spec {
            workdir::sweep_stale(path);
        }
        let disk = match Disk::make(&spec, &order.directory, &order.server)? {
            Ok(disk) => disk,
            Err(unavailable) => return Ok(Err(unavailable)),
        };
        let workdir = Workdir::create(disk.directory())?;
        let probe = disk::probe(workdir.path())?;
        let info = disk.info().clone();
        // Memory that was asked for by the profile is a label, not a mistake.
        let allowed = order.allow_in_memory || !matches!(spec, DiskSpec::Host { .. });
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
        let limits = Limits::new(&order.sweep, &seen, &probe)?;
        let there = Some((workdir, disk));
        let name = of.name.clone();
        Ok(Ok(Self { name, probe, info, checks, limits, simulated: None, there }))
    }

    /// A disk that is nowhere: it takes what its type takes, in virtual time.
    fn simulated(name: &str, model: DiskType) -> Self {
        let timing = model.timing();
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
            limits: Limits { soft: MOST_CELL_BYTES, hard: 2 * MOST_CELL_BYTES, most: 0 },
            simulated: Some(model),
            there: None,
        }
    }

    /// Where logs are made; nowhere on a simulated disk.
    pub(super) fn directory(&self) -> &Path {
        self.there.as_ref().map_or(Path::new(""), |(workdir, _)| workdir.path())
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

/// How to make the disk; the type of one that is not made, but simulated.
fn spec(of: &profile::DiskSpec, given: &Path) -> Result<DiskSpec, DiskType> {
    Ok(match of {
        profile::DiskSpec::Host { path, plp } => DiskSpec::Host {
            path: path.clone().unwrap_or_else(|| given.to_owned()),
            plp: plp.then_some(true),
        },
        profile::DiskSpec::Loop { file_system, size_bytes, mount_options, backing } => {
            DiskSpec::Loop {
                backing: backing.clone().unwrap_or_else(|| given.to_owned()),
                file_system: *file_system,
                mount_options: mount_options.clone(),
                bytes: *size_bytes,
            }
        }
        profile::DiskSpec::Tmpfs { size_bytes } => DiskSpec::Tmpfs { bytes: *size_bytes },
        profile::DiskSpec::Emulated { model, file_system, size_bytes } => DiskSpec::Emulated {
            disk_type: *model,
            file_system: *file_system,
            mount_options: String::new(),
            bytes: *size_bytes,
        },
        profile::DiskSpec::Simulated { model } => return Err(*model),
    })
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
}

impl Limits {
    fn new(sweep: &profile::Sweep, environment: &Environment, probe: &Probe) -> Result<Self> {
        let seconds = sweep.measure.as_secs_f64();
        // What is unsynced when a cell ends may have to be written out then; on a slow disk that
        // must not take much longer than the cell.
        let by_disk = round(float(probe.write_bytes_per_s) * seconds * 3.0);
        let by_memory = environment.memory_bytes.unwrap_or(u64::MAX) / 4;
        let reads = sweep.workloads.iter().any(|workload| workload.reader);
        // Segments made ahead, the one at the end, the file of the raw loop, and what is read.
        let beside = 3 * sweep.segment_bytes
            + raw::FILE_BYTES
            + if reads { crate::load::READ_BYTES } else { 0 };
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
        let soft = by_disk.clamp(64 << 20, MOST_CELL_BYTES).min(by_memory).min(by_space);
        let hard = (2 * soft).min(by_memory).min(by_space);
        Ok(Self { soft, hard, most: hard + beside })
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
