//! The whole run at tiny size, on a real directory: what it leaves, and how it ends when disturbed.
//!
//! Nothing here asserts a time or a rate.
#![expect(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

#[path = "smoke/schemas.rs"]
mod schemas;
#[path = "smoke/validator.rs"]
mod validator;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use harness::output::read_cells;
use harness::profile::Sweep;
use harness::recorded::Recorded;
use harness::results::{Cell, Environment, Kind, Level, Manifest, Outcome};
use harness::run::{Order, Plan, Watch, run_any_build};
use harness::sysctl::Roots;

/// Counts what it is told, and interrupts after some cells.
struct Watcher<'a> {
    interrupted: &'a AtomicBool,
    after: u32,
    started: u32,
    planned: u32,
}

impl<'a> Watcher<'a> {
    fn new(interrupted: &'a AtomicBool, after: u32) -> Self {
        Self { interrupted, after, started: 0, planned: 0 }
    }
}

impl Watch for Watcher<'_> {
    fn planned(&mut self, plan: &Plan) {
        self.planned = plan.cells;
        assert!(plan.most_bytes <= plan.total_bytes);
    }

    fn started(&mut self, _block: u32, _cell: &str) {
        self.started += 1;
    }

    fn finished(&mut self, _cell: &Cell, done: u32, _planned: u32) {
        if done == self.after {
            self.interrupted.store(true, Ordering::Relaxed);
        }
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A directory on the disk that the project is built on, not in a file system of memory.
fn place() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn order(directory: &Path, results: &Path) -> Order {
    Order {
        directory: directory.to_owned(),
        results: results.to_owned(),
        sweep: Sweep::load("tiny", &root()).unwrap(),
        origin: harness::results::Origin::here(&["test".to_owned()], None),
        allow_in_memory: true,
        server: harness::powercut::emulated::served_by("no such task").unwrap(),
        // The tests run beside each other, and beside a sweep of the user's.
        kernel: Roots::imitated(&results.join(".kernel")).unwrap(),
        resume: None,
        full_env: false,
        live: std::sync::Arc::default(),
    }
}

#[test]
fn a_run_leaves_records_charts_and_a_report_and_no_log() {
    let (disk, results) = (place(), place());
    let interrupted = AtomicBool::new(false);
    let mut watcher = Watcher::new(&interrupted, u32::MAX);
    let order = order(disk.path(), results.path());
    let finished = run_any_build(&order, &interrupted, &mut watcher).unwrap();
    assert!(finished.error.is_none(), "{:?}", finished.error);
    assert_eq!(finished.manifest.outcome, Outcome::Complete);
    assert_eq!((watcher.planned, watcher.started), (9, 9));
    assert_eq!(fs::read_dir(disk.path()).unwrap().count(), 0, "a log was left behind");

    let cells = read_cells(&finished.path).unwrap();
    assert_eq!(cells, finished.cells, "what is written is what was measured");
    for cell in &cells {
        let name = &cell.cell;
        assert!(cell.counts.acked > 0, "{name}");
        assert!(cell.counts.acked <= cell.counts.appended + u64::from(cell.producers), "{name}");
        if matches!(cell.kind, Kind::GroupCommit | Kind::Raw) {
            assert_eq!(cell.exposure.power.messages.max, 0, "{name}: acknowledged before its sync");
        }
        if matches!(cell.kind, Kind::GroupCommit | Kind::FlushRealtime | Kind::None) {
            assert_eq!(cell.exposure.process.messages.max, 0, "{name}");
        }
        if cell.kind == Kind::GroupCommit {
            let smallest = cell.bytes_per_flush.min;
            assert!(smallest >= cell.record_bytes - 2, "{name}: {:?}", cell.bytes_per_flush);
            let groups = cell.messages_per_flush;
            assert!(groups.min >= 1 && groups.max <= u64::from(cell.producers), "{name}");
        }
        if cell.kind == Kind::None {
            assert_eq!(cell.counts.flushes, 0, "{name}");
        }
        let file = format!("hist/{}.0.append_to_ack.hlog", name.replace('/', "+"));
        assert!(finished.path.join(file).exists(), "{name}");
    }
    let text = |name: &str| fs::read_to_string(finished.path.join(name)).unwrap();
    let manifest: Manifest = serde_json::from_str(&text("manifest.json")).unwrap();
    assert_eq!(manifest, finished.manifest);
    let environment: Environment = serde_json::from_str(&text("env.json")).unwrap();
    assert_eq!(environment, finished.environment);
    assert_eq!(text("profile.yaml"), order.sweep.text);
    for name in ["report.html", "plots/c1.svg", "plots/c1b.svg"] {
        assert!(text(name).len() > 1000, "{name}");
    }
    let latest = results.path().join("latest/report.html");
    assert_eq!(fs::read_to_string(latest).unwrap(), text("report.html"));
}

#[test]
fn a_card_that_the_profile_asks_for_is_chart_c11_and_is_not_made_twice() {
    let (disk, results) = (place(), place());
    let interrupted = AtomicBool::new(true);
    let mut watcher = Watcher::new(&interrupted, u32::MAX);
    let mut order = order(disk.path(), results.path());
    let text = fs::read_to_string(root().join("profiles/sweeps/tiny.yaml")).unwrap();
    let text = text.replacen("run: {", "run: {card: true, ", 1);
    order.sweep = Sweep::parse("tiny.yaml", &text).unwrap();
    assert!(order.sweep.card);
    let finished = run_any_build(&order, &interrupted, &mut watcher).unwrap();
    let card = || harness::output::read_card(&finished.path).unwrap().unwrap();
    assert_eq!((card().verdict, card().methods.len()), (None, 0), "interrupted before it began");
    assert!(!finished.path.join("plots/c11.svg").exists());
    interrupted.store(false, Ordering::Relaxed);
    // Once it is whole, a run that goes on keeps it.
    watcher.after = 1;
    order.resume = Some(finished.path.clone());
    let again = run_any_build(&order, &interrupted, &mut watcher).unwrap();
    assert_eq!((again.manifest.cells_done, &again.path), (1, &finished.path));
    let whole = card();
    assert!(whole.verdict.is_some() && whole.run == again.manifest.run, "{whole:?}");
    let is_missing = again.manifest.left_out.iter().any(|left| left.what.starts_with("the card"));
    assert!(!is_missing, "{:?}", again.manifest.left_out);
    interrupted.store(false, Ordering::Relaxed);
    watcher.after = 2;
    run_any_build(&order, &interrupted, &mut watcher).unwrap();
    assert_eq!(card(), whole);
    let page = fs::read_to_string(finished.path.join("report.html")).unwrap();
    assert!(page.contains(">C11: Is this disk fit for synchronous flush?</h2>"));
    assert!(page.contains(">how: 4 KiB in place: pwrite + fdatasync, 4.0 KiB</th>"), "its table");
    assert_eq!(fs::read_dir(disk.path()).unwrap().count(), 0, "nothing is left");
}

#[test]
fn old_segments_are_deleted_while_a_cell_is_measured() {
    let (disk, results) = (place(), place());
    let text = "schema: flushmark.profile/v1\nname: own\n\
        run: {blocks: 1, warmup_ms: 20, measure_ms: 400}\n\
        workloads: {w: {message_bytes: 1KiB, producers: [1], deletes_every_ms: 50, reader: true}}\n\
        strategies: {timed: {kind: flush_realtime}}\n\
        matrix: {workloads: [w], strategies: [timed]}\nlog: {segment_bytes: 1MiB}\n";
    let sweep = Sweep::parse("own", text).unwrap();
    let order = Order { sweep, ..order(disk.path(), results.path()) };
    let interrupted = AtomicBool::new(false);
    let mut watcher = Watcher::new(&interrupted, u32::MAX);
    let finished = run_any_build(&order, &interrupted, &mut watcher).unwrap();
    assert!(finished.error.is_none(), "{:?}", finished.error);
    assert_eq!(fs::read_dir(disk.path()).unwrap().count(), 0, "an old file was left behind");
    let is_strategy = |cell: &&Cell| cell.kind == Kind::FlushRealtime;
    let cell = finished.cells.iter().find(is_strategy).unwrap();
    assert_eq!((cell.deletes_every_ms, cell.reader), (Some(50), true));
    let series = Recorded::read(&finished.path).unwrap().series(cell).unwrap();
    let deleted: Vec<f64> = series["deleted_files"].iter().map(|of| of.unwrap()).collect();
    assert!(deleted.is_sorted() && deleted.iter().any(|of| *of > 0.0), "{deleted:?}");
    assert!(deleted.iter().all(|of| *of <= 8.0), "{deleted:?}");
}

#[test]
fn an_interrupted_run_keeps_and_reports_what_was_measured() {
    let (disk, results) = (place(), place());
    let interrupted = AtomicBool::new(false);
    let mut watcher = Watcher::new(&interrupted, 2);
    let finished =
        run_any_build(&order(disk.path(), results.path()), &interrupted, &mut watcher).unwrap();
    assert_eq!(finished.manifest.outcome, Outcome::Interrupted);
    assert_eq!(read_cells(&finished.path).unwrap().len(), 2);
    assert!(finished.path.join("report.html").exists());
    assert_eq!(fs::read_dir(disk.path()).unwrap().count(), 0, "a log was left behind");
}

#[test]
fn a_run_interrupted_within_its_first_cell_still_reports() {
    let (disk, results) = (place(), place());
    let interrupted = AtomicBool::new(true);
    let mut watcher = Watcher::new(&interrupted, 0);
    let finished =
        run_any_build(&order(disk.path(), results.path()), &interrupted, &mut watcher).unwrap();
    assert_eq!(finished.manifest.outcome, Outcome::Interrupted);
    assert!(finished.cells.is_empty());
    assert!(finished.path.join("report.html").exists());
    assert_eq!(fs::read_dir(disk.path()).unwrap().count(), 0, "a log was left behind");
}

#[test]
fn figures_of_a_debug_build_are_marked_invalid_and_refused() {
    if !cfg!(debug_assertions) {
        return;
    }
    let (disk, results) = (place(), place());
    let interrupted = AtomicBool::new(false);
    let mut watcher = Watcher::new(&interrupted, 1);
    let order = order(disk.path(), results.path());
    let refused = harness::run::run(&order, &interrupted, &mut watcher).unwrap_err();
    assert!(refused.to_string().contains("debug build"), "{refused}");
    let finished = run_any_build(&order, &interrupted, &mut watcher).unwrap();
    let checks = &finished.cells[0].validity;
    let check = checks.iter().find(|check| check.code == "debug_build").unwrap();
    assert_eq!(check.level, Level::Invalid);
}

#[test]
fn a_directory_that_cannot_be_used_is_named() {
    let results = place();
    let interrupted = AtomicBool::new(false);
    let mut watcher = Watcher::new(&interrupted, 1);
    let order = order(Path::new("/nowhere/at/all"), results.path());
    let refused = run_any_build(&order, &interrupted, &mut watcher).unwrap_err();
    assert!(format!("{refused:#}").contains("/nowhere/at/all"), "{refused:#}");
    assert_eq!(fs::read_dir(results.path()).unwrap().count(), 1, "the imitated kernel alone");
}
