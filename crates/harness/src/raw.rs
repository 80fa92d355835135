//! What the disk allows without a log: pwrite and fdatasync in a loop on one thread.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::Ordering;

use anyhow::{Context, Result};
use crashlab::block::DiskType;
use store_core::Nanos;

use crate::cell::simulated::{Device, copying};
use crate::cell::{Measured, Place, Setting};
use crate::clock::{float, nanos, now, wall_ms};
use crate::disk::DiskCounters;
use crate::distribution::{is_saturated, quantiles, quantiles_of, times};
use crate::live::Phase;
use crate::load::Bodies;
use crate::machine::Look;
use crate::profile::Workload;
use crate::results::{
    AckPromise, CELL_SCHEMA, Cell, Counts, Dirty, EndedBy, ExposureByModel, Interval, Io, Kind,
    Little, Machine, Quantiles, Status,
};
use crate::validity;

/// Measures the loop with writes of a record's size, one after the other through a file that was
/// written before, as the log's own segments are. `None` if interrupted.
///
/// # Errors
///
/// If the file cannot be made, written or synced.
pub fn measure(
    setting: &Setting<'_>,
    place: &Place,
    workload: &Workload,
    record_bytes: u64,
) -> Result<Option<Measured>> {
    let started_at_ms = wall_ms();
    if let Some(disk) = setting.simulated {
        let raw = simulated(setting, disk, record_bytes);
        return Ok(Some(raw.cell(setting, place, workload, record_bytes, started_at_ms)));
    }
    let path = setting.directory.join("raw");
    let found = run(setting, &path, record_bytes)
        .with_context(|| format!("raw loop on {}", path.display()));
    let _ = std::fs::remove_file(&path);
    Ok(found?.map(|raw| raw.cell(setting, place, workload, record_bytes, started_at_ms)))
}

struct Raw {
    start: Nanos,
    end: Nanos,
    operations: hdrhistogram::Histogram<u64>,
    syncs: hdrhistogram::Histogram<u64>,
    device: Option<DiskCounters>,
    machine: Machine,
}

fn run(setting: &Setting<'_>, path: &Path, record_bytes: u64) -> Result<Option<Raw>> {
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
    let size = FILE_BYTES.max(record_bytes);
    let zeroes = vec![0; 1 << 20];
    let mut at = 0;
    while at < size {
        file.write_all_at(&zeroes, at)?;
        at += store_core::length_u64(zeroes.len());
    }
    file.sync_all()?;
    let bodies = Bodies::new(setting.seed, usize::try_from(record_bytes)?);
    let (mut operations, mut syncs) = (times(), times());
    let warm = now().after(nanos(setting.warmup));
    setting.live.enter(Phase::WarmingUp, setting.warmup);
    let mut measuring: Option<(Look<'_>, Nanos)> = None;
    let mut place = 0;
    for index in 0.. {
        let begun = now();
        match &measuring {
            Some((look, start)) if start.after(nanos(setting.measure)) <= begun => {
                let (device, machine) = look.end(begun.since(*start).get());
                let start = *start;
                return Ok(Some(Raw { start, end: begun, operations, syncs, device, machine }));
            }
            None if warm <= begun => {
                setting.live.enter(Phase::Measuring, setting.measure);
                measuring = Some((Look::begin(setting.device), now()));
                continue;
            }
            Some(_) | None => {}
        }
        if setting.interrupted.load(Ordering::Relaxed) {
            return Ok(None);
        }
        if place + record_bytes > size {
            place = 0;
        }
        file.write_all_at(bodies.get(index), place)?;
        place += record_bytes;
        let written = now();
        file.sync_data()?;
        let done = now();
        if measuring.is_some() {
            operations.saturating_record(done.since(begun).get());
            syncs.saturating_record(done.since(written).get());
        }
    }
    unreachable!("the loop ends by time")
}

/// The same loop on a simulated disk, in time that passes only here.
fn simulated(setting: &Setting<'_>, disk: DiskType, record_bytes: u64) -> Raw {
    let mut device = Device::new(disk);
    let (mut operations, mut syncs) = (times(), times());
    let size = FILE_BYTES.max(record_bytes);
    let warm = nanos(setting.warmup);
    let mut first = None;
    let (mut now, mut place) = (Nanos::new(0), 0);
    loop {
        let begun = now;
        if warm <= begun {
            let (start, before) = *first.get_or_insert((begun, device.counters));
            if start.after(nanos(setting.measure)) <= begun {
                let device = Some(device.counters.since(&before));
                let machine = Machine::default();
                return Raw { start, end: begun, operations, syncs, device, machine };
            }
        }
        if place + record_bytes > size {
            place = 0;
        }
        let written = begun.after(copying(record_bytes));
        now = device.sync(written, place, place + record_bytes, size);
        place += record_bytes;
        if first.is_some() {
            operations.saturating_record(now.since(begun).get());
            syncs.saturating_record(now.since(written).get());
        }
    }
}

impl Raw {
    fn cell(
        &self,
        setting: &Setting<'_>,
        place: &Place,
        workload: &Workload,
        record_bytes: u64,
        started_at_ms: u64,
    ) -> Measured {
        let count = self.operations.len();
        let measured_ns = self.end.since(self.start).get();
        let per_s = float(count) / (float(measured_ns) / 1e9);
        let one = quantiles_of([1]);
        let mut cell = Cell {
            schema: CELL_SCHEMA.to_owned(),
            run: setting.run.to_owned(),
            cell: format!("raw/{}/1", workload.name),
            block: place.block,
            position: place.position,
            started_at_ms,
            disk: "host".to_owned(),
            sysctl: "as-found".to_owned(),
            strategy: "raw".to_owned(),
            kind: Kind::Raw,
            ack_at: AckPromise::Flushed,
            workload: workload.name.clone(),
            producers: 1,
            window: 1,
            reader: false,
            deletes_every_ms: None,
            message_bytes: workload.message_bytes.mean(),
            record_bytes,
            emulated: setting.emulated,
            simulated: setting.simulated.is_some(),
            measured_ns,
            ended_by: EndedBy::Time,
            counts: Counts { appended: count, acked: count, flushes: count, ..Counts::default() },
            acked_per_s: per_s,
            bytes_per_s: per_s * float(workload.message_bytes.mean()),
            append_to_ack_ns: quantiles(&self.operations),
            append_ns: None,
            open_loop: None,
            put_message_distribute_time: Vec::new(),
            backlog: None,
            sync_wait: None,
            flush_ns: quantiles(&self.syncs),
            messages_per_flush: Quantiles { count, ..one },
            bytes_per_flush: Quantiles { count, ..quantiles_of([record_bytes]) },
            fsync_per_ack: 1.0,
            exposure: ExposureByModel::default(),
            ack_to_durable_ns: Quantiles::default(),
            interval: Interval::default(),
            io: Io::of(self.device.as_ref(), count * record_bytes, measured_ns),
            dirty: Dirty::default(),
            throttled_pct: None,
            stalls: Vec::new(),
            machine: self.machine,
            little: Little::default(),
            validity: Vec::new(),
            status: Status::Valid,
        };
        let seen = validity::Seen {
            saturated: is_saturated(&self.operations),
            acked_early: 0,
            volatile_cache: setting.volatile_cache,
            gates: setting.gates,
            steadiness: None,
            flush_drift: None,
        };
        validity::judge(&mut cell, setting.environment_checks, &seen);
        let histograms =
            vec![("append_to_ack", self.operations.clone()), ("flush", self.syncs.clone())];
        Measured { cell, histograms, series: Vec::new(), flushes: Vec::new() }
    }
}

/// Large enough that the loop does not rewrite what a device still holds in a small cache.
pub(crate) const FILE_BYTES: u64 = 64 << 20;
