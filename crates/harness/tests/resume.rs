//! Sweeps that do not go as they were to go: ended early and gone on with, within too little time,
//! without their disks, under other kernel settings, or beside another one.
//!
//! Nothing here asserts a time or a rate, needs root or changes this machine's settings.
#![expect(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

#[path = "resume/settings.rs"]
mod settings;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use harness::output::{read_cells, read_manifest};
use harness::profile::{Disk, DiskSpec, Sweep, Sysctls};
use harness::results::{Cell, Outcome};
use harness::run::{CANARY, Finished, Order, Plan, Watch, plan, run_any_build};
use harness::sysctl::{Busy, Guard, Roots};
use tempfile::TempDir;

/// Interrupts after some cells, and counts those that begin.
struct Watcher<'a> {
    interrupted: &'a AtomicBool,
    after: u32,
    started: u32,
    left_out: Vec<String>,
}

impl Watch for Watcher<'_> {
    fn planned(&mut self, plan: &Plan) {
        let left_out = plan.left_out.iter();
        self.left_out = left_out.map(|left| format!("{}: {}", left.what, left.why)).collect();
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

/// Where a test's runs are.
struct Place {
    disk: TempDir,
    results: TempDir,
    kernel: TempDir,
}

impl Place {
    /// On the disk that the project is built on, not in a file system of memory.
    fn new() -> Self {
        let place = || tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        Self { disk: place(), results: place(), kernel: place() }
    }

    /// Two producer counts, two strategies and the raw loop, with a canary at each end: 7 cells.
    fn order(&self) -> Order {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut sweep = Sweep::load("tiny", &root).unwrap();
        sweep.strategies.truncate(2);
        sweep.canary = true;
        sweep.warmup = Duration::from_millis(10);
        sweep.measure = Duration::from_millis(50);
        Order {
            directory: self.disk.path().to_owned(),
            results: self.results.path().to_owned(),
            sweep,
            origin: harness::results::Origin::here(&["test".to_owned()], None),
            allow_in_memory: true,
            server: harness::powercut::emulated::served_by("no such task").unwrap(),
            kernel: Roots::imitated(self.kernel.path()).unwrap(),
            resume: None,
            full_env: false,
            live: std::sync::Arc::default(),
        }
    }

    /// A run that was interrupted after three cells.
    fn interrupted(&self) -> Finished {
        let (finished, started) = run(&self.order(), 3).unwrap();
        assert_eq!((finished.manifest.outcome, started), (Outcome::Interrupted, 3));
        finished
    }

    fn is_clean(&self) -> bool {
        fs::read_dir(self.disk.path()).unwrap().count() == 0
    }
}

/// Runs it up to so many cells, and says how many began.
fn run(order: &Order, after: u32) -> anyhow::Result<(Finished, u32)> {
    let interrupted = AtomicBool::new(false);
    let mut watcher =
        Watcher { interrupted: &interrupted, after, started: 0, left_out: Vec::new() };
    let finished = run_any_build(order, &interrupted, &mut watcher)?;
    assert!(finished.error.is_none(), "{:?}", finished.error);
    Ok((finished, watcher.started))
}

/// The places of the cells, each once.
#[track_caller]
fn places(cells: &[Cell]) -> Vec<(u32, u32)> {
    let mut places: Vec<_> = cells.iter().map(|cell| (cell.block, cell.position)).collect();
    places.sort_unstable();
    let count = places.len();
    places.dedup();
    assert_eq!(places.len(), count, "a cell was measured twice");
    places
}

#[test]
fn an_interrupted_run_is_gone_on_with_and_has_every_cell_once() {
    let place = Place::new();
    let before = place.interrupted();
    let (whole, _) = run(&Place::new().order(), u32::MAX).unwrap();
    let order = Order { resume: Some(before.path.clone()), ..place.order() };
    let (after, started) = run(&order, u32::MAX).unwrap();
    assert_eq!((after.manifest.outcome, started), (Outcome::Complete, 4));
    assert_eq!(after.path, before.path.canonicalize().unwrap());
    assert_eq!(after.cells[..3], before.cells, "what there was is kept as it was");
    assert_eq!(read_cells(&after.path).unwrap(), after.cells);
    assert_eq!(places(&after.cells), places(&whole.cells), "those of a run in one go");
    assert_eq!(after.manifest.started_at_ms, before.manifest.started_at_ms);
    assert_eq!((after.manifest.cells_done, after.manifest.cells_planned), (7, 7));
    // On a busy machine one may have no acknowledgement in its time, and no rate to compare.
    let mut canaries = after.cells.iter().filter(|cell| cell.strategy == CANARY);
    let compared = usize::from(canaries.all(|cell| cell.acked_per_s > 0.0));
    assert_eq!(after.manifest.noise.len(), compared, "the canaries of both parts are compared");
    assert_eq!(fs::read_dir(place.results.path()).unwrap().count(), 2, "and the link to it");
    let refused = run(&order, u32::MAX).unwrap_err().to_string();
    assert!(refused.contains("is complete: all its 7 cells are measured"), "{refused}");
    assert_eq!(read_manifest(&after.path).unwrap(), after.manifest);
    assert!(place.is_clean(), "a log was left behind");
}

/// Takes away the directory of the second disk once two cells are measured.
struct Vandal<'a> {
    directory: &'a Path,
}

impl Watch for Vandal<'_> {
    fn planned(&mut self, _plan: &Plan) {}

    fn started(&mut self, _block: u32, _cell: &str) {}

    fn finished(&mut self, _cell: &Cell, done: u32, _planned: u32) {
        if done == 2 {
            fs::remove_dir_all(self.directory).unwrap();
            fs::write(self.directory, "no directory any more").unwrap();
        }
    }
}

#[test]
fn a_disk_that_fails_takes_no_other_with_it() {
    let (place, other) = (Place::new(), Place::new());
    let mut order = place.order();
    order.sweep.canary = false;
    let directory = other.disk.path().join("disk");
    fs::create_dir(&directory).unwrap();
    let spec = DiskSpec::Host { path: Some(directory.clone()), plp: false };
    let second = Disk { name: "second".to_owned(), spec, ..Disk::host() };
    order.sweep.disks.push(second);
    let finished =
        run_any_build(&order, &AtomicBool::new(false), &mut Vandal { directory: &directory })
            .unwrap();
    assert_eq!(finished.manifest.outcome, Outcome::Failed);
    let error = format!("{:#}", finished.error.as_ref().unwrap());
    assert!(error.contains("disk second failed in block 1"), "{error}");
    assert!(error.contains(&directory.display().to_string()), "which cannot be removed: {error}");
    let on = |name| finished.cells.iter().filter(|cell| cell.disk == name).count();
    assert_eq!(on(Disk::HOST), 5, "all of the first");
    assert!(on("second") < 5, "some of the second");
    let planned = finished.manifest.cells_planned;
    assert_eq!(usize::try_from(planned).unwrap(), finished.cells.len());
    let left_out = &finished.manifest.left_out[0];
    assert_eq!(left_out.what, "disk second from block 1 on");
    assert_eq!(read_manifest(&finished.path).unwrap(), finished.manifest);
    assert!(finished.path.join("report.html").is_file());
    assert!(place.is_clean(), "a log was left behind");
}

#[test]
fn a_line_that_a_crash_cut_is_measured_again_and_joined_to_no_other() {
    let place = Place::new();
    let before = place.interrupted();
    let path = before.path.join("cells.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    // In the middle of the third line.
    let whole: usize = text.split_inclusive('\n').take(2).map(str::len).sum();
    fs::write(&path, &text[..whole + 40]).unwrap();
    let (after, started) =
        run(&Order { resume: Some(before.path.clone()), ..place.order() }, u32::MAX).unwrap();
    assert_eq!((after.manifest.outcome, started), (Outcome::Complete, 5));
    assert_eq!(read_cells(&before.path).unwrap(), after.cells);
    assert_eq!(places(&after.cells).len(), 7);
}

#[test]
fn a_run_killed_before_its_manifest_said_so_is_gone_on_with() {
    let place = Place::new();
    let before = place.interrupted();
    let path = before.path.join("manifest.json");
    let text = fs::read_to_string(&path).unwrap();
    let running = text.replace("\"interrupted\"", "\"running\"");
    assert_ne!(text, running);
    fs::write(&path, running).unwrap();
    let (after, _) =
        run(&Order { resume: Some(before.path.clone()), ..place.order() }, u32::MAX).unwrap();
    assert_eq!((after.manifest.outcome, after.cells.len()), (Outcome::Complete, 7));
}

#[test]
fn what_cannot_be_compared_with_what_is_there_is_refused() {
    let place = Place::new();
    let before = place.interrupted();
    let resumed = || Order { resume: Some(before.path.clone()), ..place.order() };
    let check = |order: &Order, expect: &str| {
        let refused = format!("{:#}", run(order, u32::MAX).unwrap_err());
        assert!(refused.contains(expect), "{refused}");
    };
    let elsewhere = Place::new();
    let directory = elsewhere.disk.path().to_owned();
    check(&Order { directory, ..resumed() }, "one run is of one disk");
    let mut other = resumed();
    other.sweep.text.push_str("# another\n");
    check(&other, "was measured with another profile");
    check(&Order { resume: Some(place.disk.path().to_owned()), ..resumed() }, "manifest.json");
    let replace = |name: &str, from: &str, to: &str| {
        let path = before.path.join(name);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{text}");
        fs::write(&path, text.replace(from, to)).unwrap();
        text
    };
    let text = replace("env.json", "\"host_hash\": \"", "\"host_hash\": \"x");
    check(&resumed(), "was measured on another machine");
    fs::write(before.path.join("env.json"), text).unwrap();
    let text = replace("env.json", "\"kernel\": \"", "\"kernel\": \"2.6.32 or ");
    check(&resumed(), "was measured under Linux 2.6.32 or ");
    fs::write(before.path.join("env.json"), text).unwrap();
    let text = replace("env.json", "\"build\": \"", "\"build\": \"other ");
    check(&resumed(), "was measured by a program built otherwise");
    fs::write(before.path.join("env.json"), text).unwrap();
    let mut other = resumed();
    other.origin.revision = Some("abc".to_owned());
    check(&other, "by a revision that is not known, this is abc: measure anew");
    let text = replace("manifest.json", "\"revision\": null", "\"revision\": \"def\"");
    check(&other, "by revision def, this is abc: check that one out, or measure anew");
    fs::write(before.path.join("manifest.json"), text).unwrap();
    // A later version may have renamed anything else.
    fs::write(before.path.join("manifest.json"), r#"{"schema": "flushmark.manifest/2.0"}"#)
        .unwrap();
    check(&resumed(), "schema flushmark.manifest/2.0 is not one that this version reads");
    assert_eq!(read_cells(&before.path).unwrap(), before.cells, "nothing was touched");
}

#[test]
fn too_little_time_leaves_loads_out_and_says_so() {
    let place = Place::new();
    let mut order = place.order();
    order.sweep.blocks = 2;
    // Two blocks of it take over 6 s by the plan, without the fewer producers under 5.
    order.sweep.budget = Duration::from_secs(5);
    let (finished, _) = run(&order, u32::MAX).unwrap();
    let manifest = &finished.manifest;
    assert_eq!(manifest.outcome, Outcome::Trimmed);
    assert_eq!(manifest.trimmed, ["workload closed-1k: not with 1 producers"]);
    assert_eq!(manifest.cells_planned, 10);
    let loads = finished.cells.iter().filter(|cell| cell.workload == "closed-1k");
    let loads = loads.filter(|cell| cell.strategy != "raw");
    assert!(loads.clone().count() > 0 && loads.clone().all(|cell| cell.producers == 4));
    order.sweep.budget = Duration::from_secs(1);
    let refused = run(&order, u32::MAX).unwrap_err().to_string();
    assert!(refused.contains("s are allowed: allow more"), "{refused}");
}

/// A disk that no machine has the memory for, if it may be made at all.
fn too_large(name: &str) -> Disk {
    let spec = DiskSpec::Tmpfs { bytes: u64::MAX };
    Disk { name: name.to_owned(), spec, ..Disk::host() }
}

#[test]
fn a_disk_that_is_not_there_is_left_out_and_the_others_are_measured() {
    let place = Place::new();
    let mut order = place.order();
    order.sweep.disks = vec![too_large("gone"), Disk::host()];
    let interrupted = AtomicBool::new(false);
    let mut watcher =
        Watcher { interrupted: &interrupted, after: u32::MAX, started: 0, left_out: Vec::new() };
    let finished = run_any_build(&order, &interrupted, &mut watcher).unwrap();
    assert_eq!(finished.manifest.outcome, Outcome::Complete);
    assert_eq!((finished.manifest.cells_planned, finished.cells.len()), (7, 7));
    assert!(finished.cells.iter().all(|cell| cell.disk == Disk::HOST));
    let [said] = &watcher.left_out[..] else { panic!("{:?}", watcher.left_out) };
    assert!(said.starts_with("disk gone: ") && said.len() > "disk gone: ".len(), "{said}");
    assert_eq!(finished.manifest.left_out[0].what, "disk gone");
}

#[test]
fn a_made_disk_without_room_for_the_run_is_left_out_and_says_what_it_lacks() {
    let place = Place::new();
    let mut order = place.order();
    let spec = DiskSpec::Tmpfs { bytes: 64 << 20 };
    let small = Disk { name: "small".to_owned(), spec, ..Disk::host() };
    order.sweep.disks = vec![small, Disk::host()];
    let plan = plan(&order, &AtomicBool::new(false)).unwrap();
    let [left] = &plan.left_out[..] else { panic!("{:?}", plan.left_out) };
    assert_eq!((&*left.what, plan.disks.len()), ("disk small", 1));
    // Who may not mount lacks that before anything else.
    if crashlab::block::may_mount().is_ok() {
        let needed = (2 * (3 * order.sweep.segment_bytes + (128 << 20))) >> 20;
        assert_eq!(left.why, format!("64 MiB are free, the run needs {needed} MiB"));
        let more = needed - 64;
        assert!(left.how.starts_with(&format!("make it at least {more} MiB")), "{}", left.how);
    }
    assert!(place.is_clean());
}

#[test]
fn a_given_directory_without_room_for_the_run_ends_it() {
    let place = Place::new();
    let mut order = place.order();
    order.sweep.segment_bytes = 1 << 50;
    let refused = format!("{:#}", run(&order, u32::MAX).unwrap_err());
    assert!(refused.contains("MiB are free, the run needs 6442451200 MiB: free some"), "{refused}");
    assert!(place.is_clean());
}

#[test]
fn without_any_disk_nothing_begins_and_each_is_named() {
    let place = Place::new();
    let mut order = place.order();
    order.sweep.disks = vec![too_large("one"), too_large("two")];
    let never = AtomicBool::new(false);
    for refused in [run(&order, u32::MAX).err(), plan(&order, &never).err()] {
        let refused = refused.unwrap().to_string();
        assert!(refused.contains("disk one: ") && refused.contains("; disk two: "), "{refused}");
    }
    assert_eq!(fs::read_dir(place.results.path()).unwrap().count(), 0);
}

#[test]
fn one_sweep_at_a_time_and_the_other_is_named() {
    let place = Place::new();
    let order = place.order();
    let guard = Guard::take(&order.kernel).unwrap();
    let refused = run(&order, u32::MAX).unwrap_err();
    let busy = refused.downcast_ref::<Busy>().unwrap();
    assert_eq!(busy.pid, Some(std::process::id()));
    assert_eq!(fs::read_dir(place.results.path()).unwrap().count(), 0);
    let refused = plan(&order, &AtomicBool::new(false)).unwrap_err();
    assert!(refused.is::<Busy>(), "its disks would disturb: {refused}");
    drop(guard);
    run(&order, 1).unwrap();
}

#[test]
fn what_a_killed_sweep_left_is_put_back_by_one_that_changes_nothing() {
    let place = Place::new();
    let order = place.order();
    let ratio = place.kernel.path().join("vm/dirty_ratio");
    let file = place.kernel.path().join("run/flushmark-restore.json");
    let kept = {
        let mut guard = Guard::take(&order.kernel).unwrap();
        let mut asked = harness::sysctl::DirtySettings::default();
        asked.set(harness::sysctl::Key::Ratio, 50).unwrap();
        guard.apply(&asked, &[]).unwrap();
        fs::read(&file).unwrap()
    };
    // As if it had been killed in between.
    fs::File::create(&file).unwrap().write_all(&kept).unwrap();
    fs::write(&ratio, "50\n").unwrap();
    assert!(order.sweep.sysctls.iter().all(Sysctls::changes_nothing));
    plan(&order, &AtomicBool::new(false)).unwrap();
    assert_eq!(fs::read_to_string(&ratio).unwrap(), "50\n", "a plan touches no setting");
    assert_eq!(fs::read(&file).unwrap(), kept);
    run(&order, 1).unwrap();
    assert_eq!(fs::read_to_string(&ratio).unwrap(), "20\n");
    assert!(!file.exists());
}
