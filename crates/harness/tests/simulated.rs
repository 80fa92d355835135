//! Sweeps with disks in virtual time: alone, and beside one that is there.
//!
//! Nothing here needs root, and what is simulated is asserted to the last digit.
#![expect(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crashlab::block::DiskType;
use harness::disks::DiskSpec;
use harness::profile::{Disk, Sweep, Sysctls};
use harness::results::{Cell, Level, Outcome, Status};
use harness::run::{CANARY, Finished, NOT_APPLIED, Order, Plan, Watch, plan, run_any_build};
use harness::sysctl::{Key, Roots};
use harness::{summary, table, verdict};
use tempfile::TempDir;

/// Looks at nothing.
struct Blind;

impl Watch for Blind {
    fn planned(&mut self, _plan: &Plan) {}

    fn started(&mut self, _block: u32, _cell: &str) {}

    fn finished(&mut self, _cell: &Cell, _done: u32, _planned: u32) {}
}

/// Where a test's runs are.
struct Place {
    disk: TempDir,
    results: TempDir,
    kernel: TempDir,
}

impl Place {
    fn new() -> Self {
        let place = || tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        Self { disk: place(), results: place(), kernel: place() }
    }

    /// Two strategies with two producer counts, and the raw loop: five cells on each disk, and two
    /// canaries.
    fn order(&self, disks: Vec<Disk>) -> Order {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut sweep = Sweep::load("tiny", &root).unwrap();
        sweep.strategies.remove(0);
        sweep.strategies.truncate(2);
        sweep.canary = true;
        sweep.warmup = Duration::from_millis(10);
        sweep.measure = Duration::from_millis(100);
        sweep.disks = disks;
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
}

fn simulated(disk_type: DiskType) -> Disk {
    let spec = DiskSpec::Simulated { disk_type };
    Disk { name: "model".to_owned(), spec, ..Disk::host() }
}

fn run(order: &Order) -> Finished {
    let finished = run_any_build(order, &AtomicBool::new(false), &mut Blind).unwrap();
    assert!(finished.error.is_none(), "{:?}", finished.error);
    assert_eq!(finished.manifest.outcome, Outcome::Complete);
    finished
}

#[test]
fn a_simulated_disk_needs_no_disk_and_everything_says_what_it_is() {
    let place = Place::new();
    let order = place.order(vec![simulated(DiskType::NvmeNoPlp)]);
    let planned = plan(&order, &AtomicBool::new(false)).unwrap();
    assert_eq!((planned.cells, planned.total_bytes, planned.left_out.len()), (5, 0, 0));
    let finished = run(&order);
    assert_eq!(fs::read_dir(place.disk.path()).unwrap().count(), 0);
    // Also in a debug build, whose own speed means nothing here; and without a canary, which would
    // show no noise.
    assert_eq!(finished.cells.len(), 5);
    for cell in &finished.cells {
        assert!(cell.simulated && cell.counts.acked > 0, "{}", cell.cell);
        assert_ne!(cell.status, Status::Invalid, "{}: {:?}", cell.cell, cell.validity);
        let label = cell.validity.iter().find(|check| check.code == "simulated_disk").unwrap();
        assert!(label.level == Level::Label && label.value.contains("SIMULATED nvme-noplp"));
    }
    assert_eq!(finished.environment.disks[0].labels, ["SIMULATED"]);
    let text = table::text(&finished.manifest, &finished.environment, &finished.cells, 80);
    assert!(text.starts_with("disk SIMULATED nvme-noplp, in virtual time"), "{text}");
    assert!(text.contains("the figures are those of a model"), "{text}");
    let file = |name: &str| fs::read_to_string(finished.path.join(name)).unwrap();
    assert!(file("plots/c1.svg").contains("SIMULATED DISK: "));
    assert!(file("report.html").contains("<p class=\"emulated\">SIMULATED disk"));
    assert!(file("summary.json").contains("\"simulated\": true"));
}

#[test]
fn a_run_leaves_what_its_charts_are_drawn_from() {
    let place = Place::new();
    let mut order = place.order(vec![simulated(DiskType::Hdd7200)]);
    order.sweep.measure = Duration::from_millis(600);
    let finished = run(&order);
    let file = |name: &str| fs::read_to_string(finished.path.join(name)).unwrap();
    let report = file("report.html");
    for (name, shows) in
        [("c6", "power cut: "), ("c7", "ack → durable"), ("c8", "sync made durable")]
    {
        let svg = file(&format!("plots/{name}.svg"));
        assert!(svg.contains("SIMULATED DISK: ") && svg.contains(shows), "{name}");
        assert!(report.contains(&format!("{name}-title")), "{name} is in the report");
    }
    assert!(!finished.path.join("plots/c4.svg").exists(), "a model has no dirty pages");
    let flushes = fs::read_dir(finished.path.join("flushes")).unwrap().count();
    assert_eq!(flushes, 4, "of two strategies under two loads");
}

#[test]
fn the_same_sweep_gives_the_same_cells_again() {
    let cells = || {
        let place = Place::new();
        let finished = run(&place.order(vec![simulated(DiskType::Hdd7200)]));
        let plain = |cell: &Cell| Cell { run: String::new(), started_at_ms: 0, ..cell.clone() };
        finished.cells.iter().map(plain).collect::<Vec<_>>()
    };
    assert_eq!(cells(), cells());
}

#[test]
fn beside_a_disk_that_is_there_it_is_measured_once_and_no_verdict_is_on_it() {
    let place = Place::new();
    // Nothing that is measured here reaches what this one does.
    let mut order = place.order(vec![simulated(DiskType::NvmePlp), Disk::host()]);
    let mut small = Sysctls::as_found();
    small.name = "small".to_owned();
    small.settings.set(Key::WritebackCentisecs, 100).unwrap();
    order.sweep.sysctls.push(small);
    let finished = run(&order);
    let (models, others): (Vec<Cell>, Vec<Cell>) =
        finished.cells.iter().cloned().partition(|cell| cell.simulated);
    assert_eq!((models.len(), others.len()), (5, 2 * 5 + 2), "under the first settings alone");
    assert!(others.iter().all(|cell| cell.disk == Disk::HOST), "the canaries too");
    assert_eq!(others.iter().filter(|cell| cell.strategy == CANARY).count(), 2);
    for cell in &models {
        assert_eq!(cell.sysctl, Sysctls::AS_FOUND);
        let applied = cell.validity.iter().find(|check| check.code == NOT_APPLIED).unwrap();
        assert_eq!(applied.level, Level::Pass);
        assert!(applied.value.contains("no kernel's settings"), "{applied:?}");
    }
    assert_eq!(finished.manifest.cells_planned, 17);
    let env = &finished.environment;
    assert!(!env.disk.simulated, "of the disk that is there");
    // A debug build's figures are invalid; as if they were not, and the model's ten times better.
    let mut cells = finished.cells.clone();
    for cell in &mut cells {
        cell.status = Status::Valid;
        cell.acked_per_s *= if cell.simulated { 1e6 } else { 1.0 };
    }
    let rows = summary::rows(&cells);
    assert!(rows.iter().any(|row| row.not_hardware.word() == Some("SIMULATED")));
    let sentences = verdict::sentences(&finished.manifest, &cells, &rows);
    let rated: Vec<&String> =
        sentences.iter().filter(|said| said.contains("acknowledged")).collect();
    assert!(rated.len() >= 2, "{sentences:?}");
    assert!(rated.iter().all(|said| said.contains("host") && !said.contains("model,")));
    let doubts = verdict::doubts(&finished.manifest, env, &cells, &rows);
    let caveats = doubts.last().unwrap();
    let said = "SIMULATED disk (model), whose figures are a model's";
    assert!(caveats.contains(said), "{caveats}");
}

#[test]
fn a_reader_that_disturbs_is_left_out_and_named() {
    let place = Place::new();
    let mut order = place.order(vec![simulated(DiskType::SataPlp)]);
    let mut disturbed = order.sweep.workloads[0].clone();
    disturbed.name = "disturbed".to_owned();
    disturbed.reader = true;
    order.sweep.workloads.push(disturbed);
    let finished = run(&order);
    let strategies = finished.cells.iter().filter(|cell| cell.strategy != "raw");
    assert!(strategies.clone().all(|cell| !cell.reader && cell.workload != "disturbed"));
    assert_eq!(strategies.count(), 4);
    let [left_out] = &finished.manifest.left_out[..] else { panic!("one is left out") };
    assert_eq!(left_out.what, "workload disturbed on disk model");
}
