//! Verdicts from rows, and a card of this disk.

use super::*;
use crate::results_fixture;

fn row(method: Method, bytes: u64, p50: u64, p99: u64) -> Row {
    Row {
        method,
        bytes,
        threads: 1,
        syncs: 100,
        per_s: 1e9 / float(p50),
        write_to_durable_ns_p50: p50,
        write_to_durable_ns_p99: p99,
        write_to_durable_ns_max: Some(p99 * 2),
        sync_ns_p50: Some(p50 - 1),
        flushes_per_sync: Some(1.0),
    }
}

fn card() -> Card {
    Card {
        schema: SCHEMA.to_owned(),
        run: "run".to_owned(),
        origin: Origin {
            version: "0.0.0".to_owned(),
            revision: None,
            dirty: None,
            command: Vec::new(),
        },
        started_at_ms: 0,
        disk: Some("vdb".to_owned()),
        labels: vec!["EMULATED".to_owned()],
        methods: vec![row(Method::Fdatasync, 4096, 1_000_000, 9_000_000)],
        sizes: vec![
            row(Method::Fdatasync, 4096, 900_000, 2_000_000),
            row(Method::Fdatasync, 65536, 2_000_000, 3_000_000),
            row(Method::Direct, 65536, 1_600_000, 3_000_000),
        ],
        parallel: vec![row(Method::Fdatasync, 4096, 1_000_000, 2_000_000)],
        cross_check: None,
        verdict: None,
    }
}

/// A card with its verdict.
pub(crate) fn example() -> Card {
    let of = card();
    Card { verdict: verdict(&of, &disk(), true), ..of }
}

fn disk() -> DiskInfo {
    DiskInfo { write_cache: Some("write back".to_owned()), ..DiskInfo::default() }
}

#[track_caller]
fn check(is_durable: bool, change: impl FnOnce(&mut Card), expect: Fitness, words: &str) {
    let mut card = card();
    change(&mut card);
    let found = verdict(&card, &disk(), is_durable).unwrap();
    assert_eq!(found.fitness, expect);
    let sentence = text::sentence(&found);
    assert!(sentence.contains(words), "{sentence}");
}

#[test]
fn a_verdict_is_for_the_quicker_method_and_names_its_threshold() {
    let found = verdict(&card(), &disk(), true).unwrap();
    assert_eq!((found.method, found.messages_per_s), (Method::Direct, 40_000));
    let sentence = text::sentence(&found);
    assert!(
        sentence.starts_with("FIT for synchronous flush up to about 40k msg/s at 64 producers")
    );
    assert!(sentence.contains("9.0 ms, threshold 10 ms"), "{sentence}");
}

#[test]
fn each_reason_against_a_disk_is_told() {
    check(true, |_| {}, Fitness::Fit, "FIT");
    check(false, |_| {}, Fitness::NotDurable, "NOT DURABLE");
    let quick = |card: &mut Card| card.methods[0].sync_ns_p50 = Some(220);
    check(true, quick, Fitness::NotDurable, "NOT DURABLE");
    let unflushed = |card: &mut Card| card.methods[0].flushes_per_sync = Some(0.1);
    check(true, unflushed, Fitness::NotFlushed, "NOT FLUSHED");
    let slow = |card: &mut Card| card.methods[0].write_to_durable_ns_p99 = 10_000_001;
    check(true, slow, Fitness::TooSlow, "NOT FIT");
}

#[test]
fn a_disk_without_room_is_told_how_much_it_takes() {
    let with = |free_bytes| has_room(&DiskInfo { free_bytes, ..disk() });
    assert!(with(640 << 20).is_ok());
    let error = with((640 << 20) - 1).unwrap_err().to_string();
    assert!(error.contains("640 MiB are needed: give another directory"), "{error}");
}

#[test]
fn a_device_without_a_cache_needs_no_flushes() {
    let mut card = card();
    card.methods[0].flushes_per_sync = Some(0.0);
    let through = DiskInfo { write_cache: Some("write through".to_owned()), ..disk() };
    assert_eq!(verdict(&card, &through, true).unwrap().fitness, Fitness::Fit);
}

#[test]
fn an_interrupted_card_has_no_verdict() {
    let interrupted = Card { methods: Vec::new(), ..card() };
    assert_eq!(verdict(&interrupted, &disk(), true), None);
}

#[test]
fn a_card_fits_a_terminal_whatever_is_in_it() {
    let mut environment = results_fixture::environment();
    environment.disk.path = results_fixture::HOSTILE.repeat(3);
    environment.disk.details.device_chain = vec!["loop0".to_owned(), "vda".to_owned()];
    let mut card = card();
    card.verdict = verdict(&card, &disk(), true);
    card.labels.push(results_fixture::HOSTILE.to_owned());
    let shown = text::text(&card, &environment);
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    assert!(!shown.contains('\u{1b}'), "{shown}");
    assert!(shown.contains("loop0 on vda") && shown.contains("threshold"), "{shown}");
}

#[test]
fn a_card_of_this_disk_holds_together_and_leaves_nothing() {
    let (work, results) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let interrupted = AtomicBool::new(false);
    let bench = Bench::new(work.path(), None, &interrupted).unwrap();
    let short = Duration::from_millis(250);
    for method in Method::ALL {
        let Some(row) = bench.row(method, 4096, 1, short).unwrap() else {
            assert!(matches!(method, Method::Direct | Method::Msync), "{method:?}");
            continue;
        };
        assert!(row.syncs > 0 && row.write_to_durable_ns_p50 > 0, "{row:?}");
        assert!(row.write_to_durable_ns_p50 <= row.write_to_durable_ns_p99, "{row:?}");
        assert_eq!(row.flushes_per_sync, None, "no device was named");
    }
    assert_eq!(bench.row(Method::Fdatasync, 4096, 4, short).unwrap().unwrap().threads, 4);
    assert_eq!(bench.row(Method::Direct, 1024, 1, short).unwrap(), None, "not a whole block");
    interrupted.store(true, std::sync::atomic::Ordering::Relaxed);
    let order = Order {
        disk: &host(work.path()),
        results: results.path().to_owned(),
        origin: Origin::here(&[], None),
    };
    let finished = run(&order, &interrupted, &mut |_| {}).unwrap();
    assert!(finished.error.is_none() && finished.card.verdict.is_none());
    let kept = std::fs::read_to_string(finished.path.join(FILE)).unwrap();
    assert_eq!(serde_json::from_str::<Card>(&kept).unwrap(), finished.card);
    let left = std::fs::read_dir(work.path()).unwrap().flatten();
    assert_eq!(left.filter(|entry| entry.path().is_dir()).count(), 0);
}

fn host(path: &std::path::Path) -> Disk {
    use crate::disks::{DiskSpec, ServerCommand};

    let spec = DiskSpec::Host { path: Some(path.to_owned()), plp: false };
    let server = ServerCommand { program: PathBuf::new(), arguments: Vec::new() };
    Disk::make(&spec, path, &server).unwrap().unwrap()
}
