//! Results made by hand, for the tests of what is shown of them.

use std::fs;
use std::path::Path;

use crate::clock::float;
use crate::results::{
    AckPromise, Arrival, CELL_SCHEMA, Cell, Check, Counts, Dirty, DiskInfo, ENV_SCHEMA, EndedBy,
    Environment, Exposure, ExposureByModel, Interval, Io, Kind, Level, Little, MANIFEST_SCHEMA,
    Machine, Manifest, OpenLoop, Origin, Outcome, Quantiles, Spread, Status,
};

/// What one kind does in the example; rates and times for one producer.
struct Behaviour {
    name: &'static str,
    ack_at: AckPromise,
    acked_per_s: f64,
    ack_ns: u64,
    flush_ns: u64,
    process_age_ns: u64,
    power_age_ns: u64,
}

/// A valid cell with plausible figures, changed by `edit`.
pub(crate) fn cell(kind: Kind, producers: u32, block: u32, edit: impl FnOnce(&mut Cell)) -> Cell {
    let mut cell = plain(kind, producers, block);
    edit(&mut cell);
    cell
}

fn plain(kind: Kind, producers: u32, block: u32) -> Cell {
    let behaviour = behaviour(kind);
    let load = f64::from(producers);
    let acked_per_s = behaviour.acked_per_s * load.powf(scaling(kind)) * wobble(producers, block);
    let per_flush = match kind {
        Kind::Raw => 1,
        Kind::GroupCommit => u64::from(producers),
        _ => 9_000,
    };
    let ack_ns = match kind {
        Kind::GroupCommit => behaviour.ack_ns,
        _ => behaviour.ack_ns * u64::from(producers),
    };
    let flushes = if behaviour.flush_ns > 0 { 5_000 } else { 0 };
    Cell {
        schema: CELL_SCHEMA.to_owned(),
        run: "20260309-140500-default-1a2b3c4d".to_owned(),
        cell: format!("{}/{producers}", behaviour.name),
        block,
        position: producers,
        started_at_ms: 1_773_065_100_000 + u64::from(block) * 100_000,
        disk: "data".to_owned(),
        sysctl: "kernel-default".to_owned(),
        strategy: behaviour.name.to_owned(),
        kind,
        ack_at: behaviour.ack_at,
        workload: "closed-1k".to_owned(),
        producers,
        window: 1,
        reader: false,
        deletes_every_ms: None,
        message_bytes: 1024,
        record_bytes: 1152,
        emulated: false,
        simulated: false,
        measured_ns: 5_000_000_000,
        ended_by: EndedBy::Time,
        counts: counts(),
        acked_per_s,
        bytes_per_s: acked_per_s * 1024.0,
        append_to_ack_ns: quantiles(50_000, ack_ns),
        append_ns: None,
        open_loop: None,
        put_message_distribute_time: Vec::new(),
        backlog: None,
        sync_wait: None,
        flush_ns: quantiles(flushes, behaviour.flush_ns),
        messages_per_flush: quantiles(flushes, per_flush),
        bytes_per_flush: Quantiles::default(),
        fsync_per_ack: 0.1,
        exposure: ExposureByModel {
            process: exposure(behaviour.process_age_ns, acked_per_s, block),
            power: exposure(behaviour.power_age_ns, acked_per_s, block),
        },
        ack_to_durable_ns: Quantiles::default(),
        interval: Interval::default(),
        io: Io { write_amplification: Some(1.07), ..Io::default() },
        dirty: Dirty { reached_background: Some(false), ..Dirty::default() },
        throttled_pct: None,
        stalls: Vec::new(),
        machine: Machine::default(),
        little: Little::default(),
        validity: vec![
            check("clock", Level::Pass, "tsc", "a monotonic clock that counts"),
            check("vm", Level::Label, "yes", "runs on bare metal"),
        ],
        status: Status::Valid,
    }
}

/// A thousand messages a second, none of them late.
pub(crate) fn open_loop() -> OpenLoop {
    let none = Quantiles::default();
    OpenLoop {
        offered_per_s: 1000.0,
        arrival: Arrival::Poisson,
        due: 10_000,
        judged: 9_000,
        unsent: 0,
        promised_p99_ns: None,
        due_to_ack_ns: none,
        lag_ns: none,
        own_lag_ns: none,
    }
}

/// Three blocks of every kind under 1, 8 and 64 producers, and of the raw loop.
pub(crate) fn example() -> Vec<Cell> {
    example_of(3)
}

/// The same with so many blocks.
pub(crate) fn example_of(blocks: u32) -> Vec<Cell> {
    let kinds = [Kind::None, Kind::GroupCommit, Kind::FlushRealtime, Kind::CommitRealtime];
    let mut cells = Vec::new();
    for block in 0..blocks {
        cells.push(cell(Kind::Raw, 1, block, |_| {}));
        for kind in kinds {
            for producers in [1, 8, 64] {
                cells.push(cell(kind, producers, block, |_| {}));
            }
        }
    }
    cells
}

/// The example with one invalid cell, one row of which nothing is valid, and a warning.
pub(crate) fn troubled() -> Vec<Cell> {
    let mut cells = example();
    for cell in &mut cells {
        let all_bad = cell.strategy == "staged" && cell.producers == 8;
        let one_bad = cell.strategy == "sync" && cell.producers == 64 && cell.block == 1;
        if all_bad || one_bad {
            cell.status = Status::Invalid;
            cell.validity.push(check("errors", Level::Invalid, "3", "no append failed"));
        } else if cell.strategy == "timed" && cell.block == 2 {
            cell.status = Status::Warn;
            cell.validity.push(check("steal", Level::Warn, "4.1 %", "steal at most 2 %"));
        }
    }
    cells
}

/// The largest and the smallest values that a record can hold, under a long name.
pub(crate) fn extreme() -> Vec<Cell> {
    let all = Quantiles {
        count: u64::MAX,
        min: u64::MAX,
        p50: u64::MAX,
        p90: u64::MAX,
        p99: u64::MAX,
        p999: u64::MAX,
        p9999: u64::MAX,
        max: u64::MAX,
        mean: 1e300,
    };
    let risk = Spread { mean: 1e300, p50: u64::MAX, p99: u64::MAX, max: u64::MAX };
    let risk = Exposure { age_ns: risk, bytes: risk, messages: risk };
    let large = |block| {
        cell(Kind::CommitRealtime, 1, block, |c| {
            c.producers = u32::MAX;
            c.strategy = "a_strategy_whose_name_somebody_did_not_want_to_shorten".to_owned();
            c.acked_per_s = 1e300;
            (c.append_to_ack_ns, c.flush_ns, c.messages_per_flush) = (all, all, all);
            (c.exposure.process, c.exposure.power) = (risk, risk);
            c.dirty.max_bytes = Some(u64::MAX);
            c.started_at_ms = u64::MAX;
            c.io.write_amplification = Some(1e300);
        })
    };
    let small = cell(Kind::FlushRealtime, 0, 0, |c| {
        c.acked_per_s = 1e-300;
        (c.append_to_ack_ns, c.flush_ns) = (Quantiles::default(), Quantiles::default());
        c.exposure.power.age_ns.p99 = 1;
        c.io = Io::default();
        c.dirty = Dirty::default();
    });
    let raw = |block| cell(Kind::Raw, 1, block, |c| c.acked_per_s = 1e-300);
    vec![raw(0), raw(1), large(0), large(1), small]
}

/// One check.
pub(crate) fn check(code: &str, level: Level, value: &str, rule: &str) -> Check {
    Check { code: code.to_owned(), level, value: value.to_owned(), rule: rule.to_owned() }
}

/// The manifest of the example.
pub(crate) fn manifest() -> Manifest {
    Manifest {
        schema: MANIFEST_SCHEMA.to_owned(),
        run: "20260309-140500-default-1a2b3c4d".to_owned(),
        origin: Origin {
            version: "0.1.0".to_owned(),
            revision: Some("8f14e45fceea167a5a36dedd4bea2543ef0f6a0e".to_owned()),
            dirty: Some(false),
            command: ["cargo", "xtask", "bench", "--disk", "/data/mq dir", "--blocks", "3"]
                .map(str::to_owned)
                .to_vec(),
        },
        sweep: "default".to_owned(),
        profile:
            "schema: flushmark.sweep/v1\nblocks: 3        # repetitions\nproducers: [1, 8, 64]\n"
                .to_owned(),
        seed: 42,
        blocks: 3,
        cells_planned: 39,
        cells_done: 39,
        started_at_ms: 1_773_065_100_000,
        ended_at_ms: Some(1_773_065_400_000),
        outcome: Outcome::Complete,
        directory: "/data/mq".to_owned(),
        budget_s: 110,
        trimmed: Vec::new(),
        left_out: Vec::new(),
        sysctls: Vec::new(),
        noise: Vec::new(),
        gates: None,
        slo: None,
    }
}

/// The environment of the example: a virtual machine with ext4.
pub(crate) fn environment() -> Environment {
    Environment {
        schema: ENV_SCHEMA.to_owned(),
        host_hash: "1a2b3c4d".to_owned(),
        names: None,
        kernel: "6.18.2".to_owned(),
        distribution: Some("Debian GNU/Linux 12 (bookworm)".to_owned()),
        virtual_machine: Some(true),
        cpu_model: Some("Intel(R) Xeon(R) Platinum 8488C CPU @ 2.40GHz".to_owned()),
        cores: 2,
        memory_bytes: Some(8 << 30),
        clocksource: Some("kvm-clock".to_owned()),
        clock_step_ns: Some(20),
        build: "rustc 1.95.0, release, x86_64-unknown-linux-gnu".to_owned(),
        sysctls: [("vm.dirty_ratio", "20"), ("vm.dirty_background_ratio", "10")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        disk: DiskInfo {
            path: "/data/mq".to_owned(),
            file_system: Some("ext4".to_owned()),
            mount_options: Some("rw,relatime".to_owned()),
            device: Some("vda".to_owned()),
            model: Some("virtio".to_owned()),
            scheduler: Some("none".to_owned()),
            write_cache: Some("write back".to_owned()),
            rotational: Some(false),
            emulated: false,
            in_memory: false,
            simulated: false,
            free_bytes: 90 << 30,
            total_bytes: 120 << 30,
            details: crate::disk::DiskDetails::default(),
        },
        disks: Vec::new(),
        machine: crate::environment::MachineDetails::default(),
    }
}

/// A string that tries to leave wherever it is put.
pub(crate) const HOSTILE: &str = "</pre></title><script>alert(\"1\")</script><b a='\u{1b}[2J\u{0}&";

/// The elements that are opened and must be closed, each as often.
#[track_caller]
pub(crate) fn assert_closed(page: &str) {
    for name in
        ["section", "table", "thead", "tbody", "tr", "div", "details", "pre", "svg", "ul", "dl"]
    {
        let opened =
            page.matches(&format!("<{name}>")).count() + page.matches(&format!("<{name} ")).count();
        assert_eq!(opened, page.matches(&format!("</{name}>")).count(), "{name}");
    }
}

/// Every cell of every table stands under a heading.
#[track_caller]
pub(crate) fn assert_columns_named(page: &str) {
    for table in page.split("<table").skip(1) {
        let (head, body) = table.split_once("</thead>").unwrap();
        let columns = head.matches("<th ").count();
        for row in body.split_once("</table>").unwrap().0.split("<tr>").skip(1) {
            let cells = row.matches("<td").count() + row.matches("<th ").count();
            assert_eq!(cells, columns, "{row}");
        }
    }
}

/// Nothing in `page` makes a browser fetch anything.
#[track_caller]
pub(crate) fn assert_nothing_fetched(page: &str) {
    let page = page.replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
    for word in ["http:", "https:", "src=", "url(", "@import", "<link", "<img"] {
        assert!(!page.contains(word), "{word}");
    }
    assert!(page.contains("default-src 'none'"));
}

/// No line of `text` is wider than `width`, moves the cursor, or ends in spaces.
#[track_caller]
pub(crate) fn assert_fits(text: &str, width: usize) {
    for line in text.lines() {
        assert!(line.chars().count() <= width, "{line}");
        assert!(!line.chars().any(char::is_control), "{line:?}");
        assert!(!line.ends_with(' '), "{line:?}");
    }
}

fn behaviour(kind: Kind) -> Behaviour {
    let base = Behaviour {
        name: "raw",
        ack_at: AckPromise::Flushed,
        acked_per_s: 9_100.0,
        ack_ns: 101_000,
        flush_ns: 98_000,
        process_age_ns: 0,
        power_age_ns: 0,
    };
    match kind {
        Kind::Raw => base,
        Kind::GroupCommit => {
            Behaviour { name: "sync", acked_per_s: 7_400.0, ack_ns: 131_000, ..base }
        }
        Kind::None => Behaviour {
            name: "none",
            ack_at: AckPromise::Committed,
            acked_per_s: 310_000.0,
            ack_ns: 3_100,
            flush_ns: 0,
            power_age_ns: 4_900_000_000,
            ..base
        },
        Kind::FlushRealtime => Behaviour {
            name: "timed",
            ack_at: AckPromise::Committed,
            acked_per_s: 260_000.0,
            ack_ns: 3_800,
            flush_ns: 31_000_000,
            power_age_ns: 540_000_000,
            ..base
        },
        Kind::CommitRealtime => Behaviour {
            name: "staged",
            ack_at: AckPromise::Wrote,
            acked_per_s: 340_000.0,
            ack_ns: 2_900,
            flush_ns: 42_000_000,
            process_age_ns: 210_000_000,
            power_age_ns: 905_000_000,
        },
    }
}

/// How the rate grows with producers: rate × producers^this.
fn scaling(kind: Kind) -> f64 {
    match kind {
        Kind::GroupCommit => 0.72,
        Kind::Raw => 0.0,
        _ => 0.06,
    }
}

/// Some spread between blocks.
fn wobble(producers: u32, block: u32) -> f64 {
    1.0 + (f64::from((producers + 3 * block) % 5) - 2.0) * 0.04
}

fn exposure(age_ns: u64, acked_per_s: f64, block: u32) -> Exposure {
    let age_ns = age_ns + age_ns / 20 * u64::from(block);
    let messages = whole(acked_per_s * float(age_ns) / 1e9);
    Exposure { age_ns: spread(age_ns), bytes: spread(messages * 1152), messages: spread(messages) }
}

fn spread(p99: u64) -> Spread {
    Spread { mean: float(p99 / 2), p50: p99 / 2, p99, max: p99 + p99 / 4 }
}

fn counts() -> Counts {
    Counts { appended: 50_000, acked: 50_000, flushes: 5_000, ..Counts::default() }
}

fn quantiles(count: u64, p50: u64) -> Quantiles {
    if count == 0 {
        return Quantiles::default();
    }
    Quantiles {
        count,
        min: p50 / 2,
        p50,
        p90: p50 * 2,
        p99: p50 * 3,
        p999: p50 * 9,
        p9999: p50 * 40,
        max: p50 * 90,
        mean: float(p50) * 1.2,
    }
}

#[expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "positive figures far below 2^64, made up"
)]
fn whole(value: f64) -> u64 {
    value as u64
}

/// Writes a result directory with these cells, and the example's manifest and environment as
/// `edit` leaves them.
pub(crate) fn recorded_at(
    directory: &Path,
    cells: &[Cell],
    edit: impl FnOnce(&mut Manifest, &mut Environment),
) {
    let (mut manifest, mut environment) = (manifest(), environment());
    edit(&mut manifest, &mut environment);
    let lines = cells.iter().map(|cell| serde_json::to_string(cell).unwrap() + "\n");
    let [manifest, environment] =
        [serde_json::to_string(&manifest), serde_json::to_string(&environment)].map(Result::unwrap);
    fs::create_dir_all(directory).unwrap();
    fs::write(directory.join("cells.jsonl"), lines.collect::<String>()).unwrap();
    fs::write(directory.join("manifest.json"), manifest).unwrap();
    fs::write(directory.join("env.json"), environment).unwrap();
}

/// Writes the example as the first version recorded it: without what came later.
pub(crate) fn recorded_before(directory: &Path) {
    recorded_at(directory, &example(), |_, _| {});
    for (file, later) in LATER {
        let path = directory.join(file);
        let text = fs::read_to_string(&path).unwrap().replace("/1.1\"", "/1.0\"");
        let older = |line: &str| {
            let mut record: serde_json::Value = serde_json::from_str(line).unwrap();
            for name in *later {
                let (part, name) = name.split_once('.').unwrap_or(("", name));
                let holder = if part.is_empty() { &mut record } else { &mut record[part] };
                holder.as_object_mut().unwrap().remove(name).unwrap();
            }
            record.to_string() + "\n"
        };
        fs::write(&path, text.lines().map(older).collect::<String>()).unwrap();
    }
}

/// What each file got in 1.1.
const LATER: &[(&str, &[&str])] = &[
    (
        "cells.jsonl",
        &[
            "window",
            "reader",
            "deletes_every_ms",
            "simulated",
            "append_ns",
            "open_loop",
            "put_message_distribute_time",
            "backlog",
            "sync_wait",
            "throttled_pct",
            "stalls",
            "machine",
            "io.busy_pct",
            "dirty.reached_free_run",
            "dirty.reached_limit",
        ],
    ),
    ("env.json", &["disks", "machine", "disk.simulated", "disk.details"]),
    (
        "manifest.json",
        &["directory", "budget_s", "trimmed", "left_out", "sysctls", "noise", "gates", "slo"],
    ),
];
