//! What comes out of virtual time fits what was put in.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::*;
use crate::profile::{
    Arrival, Gates, Io, MessageBytes, Pace, Prealloc, Settings, Strategy, Workload,
};
use crate::results::{Machine, Status};

const MS: f64 = 1e6;

fn setting(disk: DiskType, interrupted: &AtomicBool) -> Setting<'_> {
    Setting {
        run: "run",
        directory: Path::new(""),
        device: None,
        emulated: false,
        simulated: Some(disk),
        volatile_cache: true,
        has_fua: false,
        warmup: Duration::from_millis(300),
        measure: Duration::from_secs(2),
        soft_bytes: 64 << 20,
        hard_bytes: 128 << 20,
        segment_bytes: 16 << 20,
        seed: 42,
        gates: Gates::default(),
        environment_checks: &[],
        disturbance: None,
        interrupted,
        live: Box::leak(Box::default()),
    }
}

fn sync() -> Settings {
    group_commit(Duration::from_secs(5), true, Io::Positioned)
}

fn group_commit(timeout: Duration, lead: bool, io: Io) -> Settings {
    let (gather, prealloc) = (Duration::ZERO, Prealloc::Zero);
    Settings::GroupCommit { timeout, gather, siblings: 5, lead, io, prealloc }
}

fn timed(interval_ms: u64) -> Settings {
    Settings::FlushRealtime {
        interval: Duration::from_millis(interval_ms),
        least_pages: 0,
        thorough: Duration::from_secs(10),
        timed: true,
        io: Io::Mapped,
        prealloc: Prealloc::Fallocate,
    }
}

fn staged() -> Settings {
    Settings::CommitRealtime {
        commit: Duration::from_millis(50),
        commit_least_pages: 4,
        commit_thorough: Duration::from_millis(50),
        interval: Duration::from_millis(100),
        least_pages: 0,
        thorough: Duration::from_secs(10),
        staging_bytes: 16 << 20,
        io: Io::Positioned,
        prealloc: Prealloc::Fallocate,
    }
}

fn load(message_bytes: u64, window: u32, pace: Pace) -> Workload {
    Workload {
        name: "w".to_owned(),
        message_bytes: MessageBytes::one(message_bytes),
        producers: vec![1],
        window,
        pace,
        reader: false,
        deletes_every: None,
    }
}

fn measured(
    setting: &Setting<'_>,
    settings: Settings,
    producers: u32,
    load: &Workload,
) -> Option<Cell> {
    let at = Place { block: 0, position: 0, producers };
    let strategy = Strategy { name: "s".to_owned(), settings };
    let measured = crate::cell::measure(setting, &at, &strategy, load).unwrap();
    measured.map(|measured| Cell { started_at_ms: 0, ..measured.cell })
}

fn cell(disk: DiskType, settings: Settings, producers: u32, pace: Pace) -> Cell {
    let interrupted = AtomicBool::new(false);
    let window = if pace == Pace::Closed { 1 } else { 64 };
    let load = load(1024, window, pace);
    measured(&setting(disk, &interrupted), settings, producers, &load).unwrap()
}

fn rate(per_s: u64, arrival: Arrival) -> Pace {
    Pace::Rate { per_s, arrival, burst: None }
}

#[track_caller]
fn near(found: f64, expect: f64, within: f64) {
    assert!((found - expect).abs() <= within * expect, "{found}, expected {expect}");
}

#[test]
fn a_lone_producer_gets_what_a_write_and_a_flush_take() {
    let cell = cell(DiskType::Hdd7200, sync(), 1, Pace::Closed);
    // One or two pages at 180 MB/s, 4.2 ms and 8 ms; and 1.256 us to append.
    near(cell.acked_per_s, 1e9 / (12.2 * MS + 28_000.0), 0.005);
    near(cell.append_to_ack_ns.mean, 12.2 * MS + 28_000.0, 0.005);
    assert_eq!((cell.messages_per_flush.min, cell.messages_per_flush.max), (1, 1));
    assert_eq!(cell.io.flush_requests, Some(cell.counts.flushes));
}

#[test]
fn a_producer_that_leads_saves_two_wake_ups() {
    let each = |leads| {
        let settings = group_commit(Duration::from_secs(5), leads, Io::Positioned);
        1e9 / cell(DiskType::NvmePlp, settings, 1, Pace::Closed).acked_per_s
    };
    near(each(false) - each(true), 20_000.0, 0.01);
}

#[test]
fn many_producers_share_flushes() {
    let one = cell(DiskType::Hdd7200, sync(), 1, Pace::Closed);
    let many = cell(DiskType::Hdd7200, sync(), 64, Pace::Closed);
    // Half of them come while the other half is flushed.
    near(many.acked_per_s / one.acked_per_s, 32.0, 0.05);
    near(many.messages_per_flush.mean, 32.0, 0.05);
    assert!(many.append_to_ack_ns.p50 < 25_000_000, "two syncs: {:?}", many.append_to_ack_ns);
}

#[test]
fn nothing_is_acknowledged_before_its_sync_and_nothing_of_the_machine_is_known() {
    for io in [Io::Direct, Io::Mapped, Io::Positioned] {
        let settings = group_commit(Duration::from_secs(5), true, io);
        let cell = cell(DiskType::NvmeNoPlp, settings, 8, Pace::Closed);
        assert_eq!(cell.exposure, crate::results::ExposureByModel::default(), "{io:?}");
        assert_eq!(cell.status, Status::Valid, "{:?}", cell.validity);
        let level = |code| cell.validity.iter().find(|check| check.code == code).unwrap().level;
        let codes = ["acked_after_sync", "counts_agree", "flush_requests", "little_closed"];
        assert_eq!(codes.map(level), [Level::Pass; 4]);
        assert!(cell.simulated && !cell.emulated);
        assert_eq!(cell.machine, Machine::default());
        assert_eq!((cell.dirty.max_bytes, cell.throttled_pct), (None, None));
    }
}

#[test]
fn a_power_cut_takes_what_came_since_the_sync_before_last_began() {
    let cell = cell(DiskType::Hdd7200, timed(100), 4, rate(2000, Arrival::Constant));
    let flush = float(cell.flush_ns.p50);
    // Right before a sync ends the oldest message at risk has waited an interval and that sync.
    near(float(cell.interval.achieved_p50_ns.unwrap()), 100.0 * MS + flush, 0.02);
    near(float(cell.exposure.power.age_ns.max), 100.0 * MS + 2.0 * flush, 0.02);
    assert_eq!(cell.exposure.process.age_ns.max, 0, "the page cache has it");
    let open = cell.open_loop.unwrap();
    assert_eq!((open.judged > 3000, open.unsent), (true, 0));
    near(cell.acked_per_s, 2000.0, 0.01);
    assert!(open.due_to_ack_ns.p99 < 10_000, "{open:?}");
    assert!(cell.little.exposure_error_pct.unwrap().abs() < 2.0, "{:?}", cell.little);
}

#[test]
fn staged_bytes_are_lost_with_the_process_until_they_are_committed() {
    let cell = cell(DiskType::NvmeNoPlp, staged(), 4, rate(2000, Arrival::Constant));
    // Four pages make a commit: 16 KiB of records that come every half millisecond.
    let process = cell.exposure.process;
    let filled = 16384.0 / float(cell.record_bytes) * 0.5 * MS;
    near(float(process.age_ns.p99), filled, 0.1);
    assert!(float(cell.exposure.power.age_ns.max) > 100.0 * MS, "{:?}", cell.exposure.power);
    assert!(cell.counts.commits > 200, "{:?}", cell.counts);
}

#[test]
fn the_seed_decides_everything() {
    let of = |arrival| cell(DiskType::NvmeNoPlp, staged(), 8, rate(5000, arrival));
    let first = of(Arrival::Poisson);
    assert_eq!(first, of(Arrival::Poisson));
    assert_ne!(first.counts, of(Arrival::Constant).counts);
    let closed = || cell(DiskType::SataPlp, sync(), 16, Pace::Closed);
    assert_eq!(closed(), closed());
}

#[test]
fn more_than_the_disk_can_take_is_an_overload_and_more_than_it_can_write_is_labelled() {
    let overloaded = cell(DiskType::Hdd7200, sync(), 1, rate(20_000, Arrival::Constant));
    assert_eq!(overloaded.status, Status::Overload, "{:?}", overloaded.validity);
    let level = |disk| {
        let cell = cell(disk, timed(20), 8, Pace::Closed);
        cell.validity.iter().find(|check| check.code == ABSORBED).unwrap().level
    };
    assert_eq!(level(DiskType::Cloud3000Iops), Level::Label);
    assert_eq!(level(DiskType::NvmeNoPlp), Level::Pass);
}

#[test]
fn a_deadline_that_a_sync_outlasts_is_a_timeout() {
    let settings = group_commit(Duration::from_millis(5), true, Io::Positioned);
    let cell = cell(DiskType::Hdd7200, settings, 4, Pace::Closed);
    assert_eq!(cell.counts.acked, 0);
    // Each gives up after 5 ms, to a tick of the clock, and tries again.
    assert!(cell.counts.timeouts > 4 * 300, "{:?}", cell.counts);
}

#[test]
fn a_full_staging_buffer_holds_appends_up() {
    let interrupted = AtomicBool::new(false);
    let setting = Setting { hard_bytes: 1 << 30, ..setting(DiskType::Hdd7200, &interrupted) };
    let setting = Setting { soft_bytes: 1 << 30, warmup: Duration::ZERO, ..setting };
    let load = load(16 << 10, 4096, Pace::Closed);
    let cell = measured(&setting, sync(), 4, &load).unwrap();
    // More than the 64 MiB of the buffer are on their way, and every append is made all the same.
    assert!(cell.messages_per_flush.max * cell.record_bytes > 64 << 20, "{cell:?}");
    assert_eq!((cell.status, cell.counts.errors), (Status::Valid, 0), "{:?}", cell.validity);
    let slowest = cell.append_ns.unwrap().max;
    assert!(slowest > 10_000, "nobody waited for room: {slowest} ns");
}

#[test]
fn an_interruption_ends_it() {
    let interrupted = AtomicBool::new(true);
    let setting = setting(DiskType::NvmePlp, &interrupted);
    assert!(measured(&setting, sync(), 1, &load(100, 1, Pace::Closed)).is_none());
}

#[test]
fn the_raw_loop_takes_a_write_and_a_flush_too() {
    let interrupted = AtomicBool::new(false);
    let setting = setting(DiskType::SataNoPlp, &interrupted);
    let at = Place { block: 0, position: 0, producers: 1 };
    let load = load(4000, 1, Pace::Closed);
    let raw = crate::raw::measure(&setting, &at, &load, 4096).unwrap().unwrap().cell;
    // A page at 500 MB/s, 60 us and 1.9 ms; and 2 us to write it.
    near(raw.acked_per_s, 1e9 / (1.96 * MS + 8192.0 + 2024.0), 0.01);
    assert_eq!(raw.io.write_amplification, Some(1.0), "whole pages, one after the other");
    assert!(raw.simulated);
}
