//! Results made by hand, each to show what a chart is about.

use std::fs;
use std::path::Path;
use std::time::Duration;

use hdrhistogram::Histogram;
use store_core::Nanos;
use tempfile::TempDir;

use crate::cell::Measured;
use crate::chart::drawn::{Drawn, all};
use crate::clock::{float, round};
use crate::distribution::{record_size, sizes};
use crate::output::Output;
use crate::profile::Slo;
use crate::recorded::{Recorded, file_stem};
use crate::results::{
    BlockNoise, Cell, Environment, Kind, Level, Manifest, OpenLoop, Quantiles, Status, SyncWait,
};
use crate::results_fixture::{cell, check, environment, example_of, manifest, open_loop, troubled};
use crate::run::CANARY;
use crate::series::Flush;
use crate::validity::OVERLOAD;

/// What the golden files of these charts show.
pub(super) struct Shown {
    pub(super) names: &'static [&'static str],
    pub(super) recorded: Recorded,
    /// Where its histograms and tables are, for as long as they are read.
    _directory: Option<TempDir>,
}

impl Shown {
    /// The charts that it is for.
    pub(super) fn charts(&self) -> Vec<Drawn> {
        self.names.iter().map(|name| chart(&self.recorded, name)).collect()
    }
}

/// All charts beside C1 have one golden file.
pub(super) fn shown() -> Vec<Shown> {
    let mut latencies = troubled();
    latencies.retain(|cell| cell.producers != 8 || cell.strategy == "staged");
    latencies.extend(open_loops().into_iter().filter(|cell| cell.acked_per_s > 9e3));
    let alone = |names, recorded| Shown { names, recorded, _directory: None };
    let root = tempfile::tempdir().unwrap();
    let recorded_whole = record(root.path(), &strategies(), &environment());
    vec![
        alone(&["c2"], recorded(&latencies)),
        alone(&["c3"], recorded(&open_loops())),
        Shown { names: WHOLE, recorded: recorded_whole, _directory: Some(root) },
        alone(&["c5"], recorded(&groups())),
        alone(&["c9"], capacities()),
        alone(&["c10"], repeats()),
    ]
}

/// The charts of what is left beside the records of cells.
pub(super) const WHOLE: &[&str] = &["c4", "c6", "c7", "c8"];

/// Records of cells, and nothing beside.
pub(super) fn recorded(cells: &[Cell]) -> Recorded {
    Recorded::new(&manifest(), &environment(), cells, None)
}

#[track_caller]
pub(super) fn chart(recorded: &Recorded, name: &str) -> Drawn {
    let found = all(recorded).unwrap();
    found.into_iter().find(|chart| chart.name == name).unwrap_or_else(|| panic!("no {name}"))
}

/// An open loop that offers so much; what is over `most` is not sent.
fn offered(kind: Kind, rate: f64, most: f64, block: u32) -> Cell {
    cell(kind, 16, block, |c| {
        let load = rate / most;
        c.workload = format!("open-{rate}");
        c.cell = format!("{}/open-{rate}/16", c.strategy);
        c.acked_per_s = rate.min(most);
        let slower = if load < 1.0 { 1.0 / (1.0 - 0.9 * load) } else { 4000.0 };
        let slower = slower * (1.0 + 0.1 * f64::from(block));
        let p50 = round(float(c.append_to_ack_ns.p50) * slower);
        let times = |n: u64| p50 * n;
        let due = Quantiles {
            count: 50_000,
            min: times(1) / 2,
            p50: times(1),
            p90: times(2),
            p99: times(4),
            p999: times(20),
            p9999: times(60),
            max: times(100),
            mean: 0.0,
        };
        let unsent = if load > 1.0 { 30_000 } else { 0 };
        c.open_loop = Some(OpenLoop {
            offered_per_s: rate,
            due: 50_000,
            judged: 49_900,
            unsent,
            due_to_ack_ns: due,
            ..open_loop()
        });
        if load > 1.0 {
            c.status = Status::Overload;
            c.validity.push(check(OVERLOAD, Level::Warn, "60 % unsent", "99 % sent"));
        }
    })
}

/// Two strategies at rates up to more than one of them keeps, and bursts beside.
pub(super) fn open_loops() -> Vec<Cell> {
    let mut cells = Vec::new();
    for block in 0..3 {
        for rate in [1e3, 2e3, 5e3, 1e4, 2e4, 5e4] {
            cells.push(offered(Kind::GroupCommit, rate, 1.5e4, block));
            cells.push(offered(Kind::FlushRealtime, rate, 2e5, block));
        }
        let mut bursts = offered(Kind::GroupCommit, 3e3, 1.5e4, block);
        bursts.workload = "bursts".to_owned();
        bursts.open_loop.as_mut().unwrap().judged = 30_000;
        cells.push(bursts);
    }
    cells
}

/// Group commit with and without a wait, and on an emulated disk, with a cell that is invalid.
pub(super) fn groups() -> Vec<Cell> {
    let mut cells = Vec::new();
    for block in 0..6 {
        for producers in [1, 4, 16, 64] {
            cells.push(cell(Kind::GroupCommit, producers, block, |c| {
                c.messages_per_flush.mean = float(c.messages_per_flush.p50).powf(0.9);
            }));
            cells.push(cell(Kind::GroupCommit, producers, block, |c| {
                c.strategy = "sync-wait".to_owned();
                c.messages_per_flush.mean = float(c.messages_per_flush.p50).powf(0.99);
                c.acked_per_s *= if producers > 8 { 1.2 } else { 0.7 };
            }));
            cells.push(cell(Kind::GroupCommit, producers, block, |c| {
                (c.disk, c.emulated) = ("hdd".to_owned(), true);
                (c.flush_ns.p50, c.acked_per_s) = (8_000_000, c.acked_per_s / 80.0);
                c.messages_per_flush.mean = float(c.messages_per_flush.p50).powf(0.7);
                if producers == 16 {
                    c.status = Status::Invalid;
                }
            }));
        }
    }
    cells
}

/// Seven blocks with their canaries, of which one drifts, one is an outlier, and one invalid.
pub(super) fn repeats() -> Recorded {
    let mut cells = example_of(7);
    for block in 0..7 {
        for (when, slower) in [("begin", 1.0), ("end", 1.04)] {
            cells.push(cell(Kind::GroupCommit, 1, block, |c| {
                (c.strategy, c.workload) = (CANARY.to_owned(), when.to_owned());
                c.started_at_ms += u64::from(when == "end");
                c.acked_per_s /= slower + 0.02 * f64::from(block);
            }));
        }
    }
    for cell in &mut cells {
        match (cell.strategy.as_str(), cell.producers, cell.block) {
            ("timed", 8, block) => cell.acked_per_s *= 1.0 - 0.05 * f64::from(block),
            ("none", 64, 3) => cell.acked_per_s /= 2.5,
            ("sync", 64, 5) => {
                (cell.status, cell.acked_per_s) = (Status::Invalid, cell.acked_per_s * 1.4);
            }
            _ => {}
        }
    }
    let noise = vec![BlockNoise { block: 6, spread_pct: 17.2, flagged: true }];
    Recorded::new(&Manifest { noise, blocks: 7, ..manifest() }, &environment(), &cells, None)
}

/// Messages of three sizes under two kernel settings, the large ones up to more than is carried,
/// and an emulated disk beside.
pub(super) fn loads() -> Vec<Cell> {
    let mut cells = Vec::new();
    let places = [("data", "kernel-default"), ("data", "small-bytes"), ("hdd", "kernel-default")];
    let kinds = [Kind::GroupCommit, Kind::FlushRealtime, Kind::CommitRealtime];
    for (disk, sysctl) in places {
        for (kind, size, producers, block) in kinds.into_iter().flat_map(|kind| {
            let sizes = [128_u64, 1024, 16_384].into_iter();
            let loads = sizes.flat_map(|size| [8, 64].map(|producers| (size, producers)));
            loads.flat_map(move |(size, producers)| {
                (0..3).map(move |block| (kind, size, producers, block))
            })
        }) {
            cells.push(cell(kind, producers, block, |c| {
                (c.disk, c.sysctl) = (disk.to_owned(), sysctl.to_owned());
                (c.emulated, c.workload) = (disk == "hdd", format!("of-{size}"));
                (c.message_bytes, c.record_bytes) = (size, size + 128);
                c.acked_per_s *= if size > 1024 { 0.2 } else { 1.0 };
                c.fsync_per_ack = if kind == Kind::GroupCommit { 0.1 } else { 0.0 };
                if kind != Kind::GroupCommit {
                    c.interval.configured_ns = Some(500 * MS);
                    let seconds = if sysctl == "small-bytes" { 1 } else { 2 };
                    c.exposure.power.age_ns.p99 = seconds * 450 * MS + u64::from(producers) * MS;
                }
                if size > 1024 && producers > 8 {
                    c.status = Status::Overload;
                    c.validity.push(check(OVERLOAD, Level::Warn, "60 % unsent", "99 % sent"));
                }
            }));
        }
    }
    cells
}

/// The same where 99 of 100 messages are asked for within 10 ms.
pub(super) fn capacities() -> Recorded {
    let ack_p99 = Some(Duration::from_millis(10));
    let slo = Some(Slo { ack_p99, power_loss_rpo: None });
    Recorded::new(&Manifest { slo, ..manifest() }, &environment(), &loads(), None)
}

/// Two blocks of every strategy under eight producers and each of two kernel settings.
pub(super) fn strategies() -> Vec<Cell> {
    let kinds = [Kind::None, Kind::GroupCommit, Kind::FlushRealtime, Kind::CommitRealtime];
    let mut cells = Vec::new();
    for (sysctl, most) in [("kernel-default", 900), ("small-bytes", 256)] {
        for kind in kinds {
            for block in 0..2 {
                cells.push(cell(kind, 8, block, |c| {
                    c.cell = format!("{sysctl}/{}", c.cell);
                    sysctl.clone_into(&mut c.sysctl);
                    let unsynced = kind != Kind::GroupCommit;
                    let dirty = if unsynced { most - u64::from(block) } else { 1 };
                    c.dirty.max_bytes = Some(dirty * MIB);
                    let waits = c.exposure.power.age_ns.p99;
                    if unsynced && kind != Kind::None {
                        c.interval.configured_ns = Some(500 * MS);
                        c.ack_to_durable_ns =
                            Quantiles { count: 9, p50: waits / 2, p99: waits, ..c.flush_ns };
                    } else if kind == Kind::GroupCommit {
                        c.ack_to_durable_ns.count = 9;
                        let of = |p50, p99| Quantiles { count: 9, p50, p99, ..c.flush_ns };
                        let total = c.append_to_ack_ns;
                        c.sync_wait = Some(SyncWait {
                            queue_ns: of(total.p50 / 5 * 2, total.p99 / 2),
                            flush_ns: of(total.p50 / 2, total.p99 / 5 * 4),
                            wake_ns: of(total.p50 / 10, total.p99 / 20),
                        });
                    }
                }));
            }
        }
    }
    cells
}

/// As many nanoseconds at each of so many ages or sizes, up to `longest`.
fn ages(longest: u64) -> Histogram<u64> {
    let mut ages = sizes();
    for nth in 1..=20 {
        record_size(&mut ages, longest / 20 * nth + longest % 20 * nth / 20, 100);
    }
    ages
}

/// A few seconds of a cell as CSV: dirty pages rise to the cell's maximum and fall.
fn series(cell: &Cell) -> String {
    let limit = if cell.sysctl == "small-bytes" { 256 } else { 4600 } * MIB;
    let mut text = "t_ns,wrote_bytes,flushes,worst_append_ns,p99_append_ns,dirty_bytes,\
         writeback_bytes,\
         background_limit_bytes,limit_bytes,throttled,deleted_files\n"
        .to_owned();
    for nth in 1..=20_u64 {
        let dirty = cell.dirty.max_bytes.unwrap_or(0) / 10 * (10 - nth.abs_diff(12).min(10));
        let throttled = u8::from(dirty > limit / 8 * 5);
        let worst = if nth == 5 { 0 } else { 100_000 + u64::from(throttled) * 80 * MS };
        let p99 = worst / 10 * (1 + nth % 3);
        let at = nth * 100 * MS;
        let wrote = nth * 50 * MIB;
        let flushes = nth / 5;
        let background = limit / 4;
        let deleted = cell.deletes_every_ms.map_or(0, |each| nth * 100 / each);
        let kernel = format!("{dirty},0,{background},{limit},{throttled}");
        let row = format!("{at},{wrote},{flushes},{worst},{p99},{kernel},{deleted}");
        text = text + &row + "\n";
    }
    text
}

/// Syncs of 16 KiB and more that take 2 ms and 10 ns a byte, about; those of group commit, beside
/// which nobody appends, take a twentieth of that.
fn flushes(cell: &Cell) -> Vec<Flush> {
    let more = match cell.kind {
        Kind::CommitRealtime => 8_000,
        Kind::FlushRealtime => 4_000,
        _ => 0,
    };
    let flush = |nth: u64| {
        let bytes = (16_384 + more) << (nth % 8);
        let slow = if cell.kind == Kind::GroupCommit { 1 } else { 20 };
        let took = (2 * MS + 10 * bytes) / 400 * slow * (19 + (nth + u64::from(cell.block)) % 3);
        Flush { bytes, took: Nanos::new(took) }
    };
    if cell.kind == Kind::None { Vec::new() } else { (0..48).map(flush).collect() }
}

/// Leaves what a run records of these cells in a directory below `root`.
pub(super) fn record(root: &Path, cells: &[Cell], env: &Environment) -> Recorded {
    let mut output = Output::create(root, "run").unwrap();
    for cell in cells {
        let exposure = cell.exposure;
        let histograms = vec![
            ("exposure_power_age", ages(exposure.power.age_ns.p99)),
            ("exposure_process_age", ages(exposure.process.age_ns.p99)),
            ("exposure_power_bytes", ages(exposure.power.bytes.p99)),
            ("exposure_process_bytes", ages(exposure.process.bytes.p99)),
            ("ack_to_written", ages(exposure.process.age_ns.p99)),
        ];
        let (cell, flushes) = (cell.clone(), flushes(cell));
        let measured = Measured { cell, histograms, series: Vec::new(), flushes };
        output.write_cell(&measured).unwrap();
        let cell = &measured.cell;
        let file = format!("series/{}.csv", file_stem(cell));
        fs::write(output.path().join(file), series(cell)).unwrap();
    }
    // Of segments of 128 MiB.
    let profile = include_str!("../../../../../profiles/sweeps/quick.yaml").to_owned();
    Recorded::new(&Manifest { profile, ..manifest() }, env, cells, Some(output.path()))
}

const MIB: u64 = 1 << 20;
const MS: u64 = 1_000_000;
