//! What a run leaves is as the committed JSON Schemas say: nothing more, nothing less.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use harness::capacity::{self, Ask, Basis, Choice};
use harness::card::{self, CrossCheck, Fitness, Method, Row};
use harness::compare::compare;
use harness::disks::{Calibration, Disk, DiskSpec, Made, MadeKind};
use harness::limits::{self, Bulk, Case, Tail};
use harness::powercut::plan::{Strategy, cases};
use harness::powercut::simulated::Simulated;
use harness::powercut::{self, emulated, results::Case as CutCase};
use harness::profile::{Gates, Slo};
use harness::recorded::Recorded;
use harness::results::{
    AckPromise, AppliedSysctls, Arrival, Backlog, BlockNoise, Cell, Dirty, DiskInfo, Environment,
    Kind, LeftOut, Manifest, MeasuredDisk, OpenLoop, Quantiles, Stall, Status as CellStatus,
    SyncWait,
};
use harness::run::{Finished, run_any_build};
use harness::summary::LossModel;
use harness::sysctl::{Applied, Found, Status};
use harness::{comparison, summary};
use serde::Serialize;
use serde_json::Value;

use super::validator::findings;
use super::{Watcher, order, place, root};

fn schema(name: &str) -> Value {
    let path = root().join("docs/schemas").join(name);
    serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap()
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn value(record: &impl Serialize) -> Value {
    serde_json::to_value(record).unwrap()
}

#[track_caller]
fn assert_fits(schema: &Value, value: &Value) {
    let found = findings(schema, value);
    assert!(found.is_empty(), "{}:\n{}", schema["title"], found.join("\n"));
}

fn tiny_run(results: &Path) -> Finished {
    let disk = place();
    let interrupted = AtomicBool::new(false);
    let mut watcher = Watcher::new(&interrupted, u32::MAX);
    run_any_build(&order(disk.path(), results), &interrupted, &mut watcher).unwrap()
}

#[test]
fn a_run_is_as_its_schemas_say() {
    let results = place();
    let run = tiny_run(results.path());
    let schemas = ["cell.json", "manifest.json", "env.json"].map(schema);
    let [of_cell, of_manifest, of_env] = &schemas;
    let lines = fs::read_to_string(run.path.join("cells.jsonl")).unwrap();
    assert_eq!(lines.lines().count(), 9);
    for line in lines.lines() {
        assert_fits(of_cell, &serde_json::from_str(line).unwrap());
    }
    let recorded = Recorded::read(&run.path).unwrap();
    for cell in &recorded.cells {
        assert_waits_and_tails_agree(cell, &recorded.series(cell).unwrap());
    }
    assert_fits(of_manifest, &json(&run.path.join("manifest.json")));
    assert_fits(of_env, &json(&run.path.join("env.json")));
    // What such a small run does not have.
    assert_fits(of_cell, &value(&with_everything(run.cells[0].clone())));
    assert_fits(of_manifest, &value(&more_of_a_manifest(run.manifest.clone())));
    assert_fits(of_env, &value(&emulated(run.environment.clone())));
    // And what must not pass: each field left out, and each of another type.
    let cell = value(&with_everything(run.cells[0].clone()));
    assert_every_field_counts(of_cell, &cell);
    assert_every_field_counts(of_manifest, &value(&more_of_a_manifest(run.manifest)));
    assert_every_field_counts(of_env, &value(&emulated(run.environment)));
}

/// The run that is committed to look at.
const REFERENCE: &str = "results/20261201T025236Z-full-4049c22c";

#[test]
fn the_reference_run_is_as_its_schemas_say_and_can_be_read_whole() {
    let path = root().join(REFERENCE);
    let recorded = Recorded::read(&path).unwrap();
    assert_fits(&schema("manifest.json"), &value(&recorded.manifest));
    assert_fits(&schema("env.json"), &value(&recorded.environment));
    assert_fits(&schema("summary.json"), &json(&path.join("summary.json")));
    assert_fits(&schema("card.json"), &json(&path.join("card.json")));
    let of_cell = schema("cell.json");
    let lines = fs::read_to_string(path.join("cells.jsonl")).unwrap();
    assert_eq!(lines.lines().count(), recorded.cells.len());
    for line in lines.lines() {
        assert_fits(&of_cell, &serde_json::from_str(line).unwrap());
    }
    let planned = usize::try_from(recorded.manifest.cells_planned).unwrap();
    assert_eq!(recorded.cells.len(), planned);
    assert!(recorded.manifest.sysctls.iter().all(|of| of.applied.status == Status::Applied));
    for cell in &recorded.cells {
        let told = recorded.histogram(cell, "append_to_ack").unwrap().unwrap();
        assert_eq!(told.len(), cell.append_to_ack_ns.count, "{}", cell.cell);
        let close = told.value_at_quantile(0.99).abs_diff(cell.append_to_ack_ns.p99);
        assert!(close <= cell.append_to_ack_ns.p99 / 100, "{}", cell.cell);
        let series = recorded.series(cell).unwrap();
        assert_eq!(series.is_empty(), cell.kind == Kind::Raw, "{}", cell.cell);
        assert!(series.is_empty() || series["acked"].len() > 10, "{}", cell.cell);
        assert_waits_and_tails_agree(cell, &series);
        let bytes = recorded.histogram(cell, "exposure_power_bytes").unwrap();
        let told = cell.exposure.power.bytes.p99;
        let found = bytes.map(|bytes| bytes.value_at_quantile(0.99));
        let near = found.is_none_or(|found| found.abs_diff(told) <= told / 100);
        assert!(near && found.is_some() == (cell.kind != Kind::Raw), "{}: {found:?}", cell.cell);
    }
}

/// What was taken in two ways comes to the same.
#[track_caller]
fn assert_waits_and_tails_agree(cell: &Cell, series: &BTreeMap<String, Vec<Option<f64>>>) {
    if let Some(way) = cell.sync_wait {
        let parts = way.queue_ns.mean + way.flush_ns.mean + way.wake_ns.mean;
        let ratio = parts / cell.append_to_ack_ns.mean;
        assert!((0.95..=1.05).contains(&ratio), "{}: its parts are {ratio} of it", cell.cell);
    }
    let waits = cell.ack_at == AckPromise::Flushed && cell.kind != Kind::Raw;
    assert_eq!(cell.sync_wait.is_some(), waits, "{}", cell.cell);
    if cell.kind == Kind::Raw {
        return;
    }
    assert!(cell.backlog.is_some_and(|backlog| backlog.messages.count > 0), "{}", cell.cell);
    let (worst, p99) = (&series["worst_append_ns"], &series["p99_append_ns"]);
    assert!(worst.iter().zip(p99).all(|(worst, p99)| p99 <= worst), "{}", cell.cell);
    assert!(p99.iter().any(|ns| ns.is_some_and(|ns| ns > 0.0)), "{}", cell.cell);
}

#[test]
fn what_blocks_come_to_is_as_its_schemas_say() {
    let results = place();
    let run = tiny_run(results.path());
    let [of_summary, of_comparison] = ["summary.json", "comparison.json"].map(schema);
    assert_fits(&of_summary, &json(&run.path.join("summary.json")));
    let lines = fs::read_to_string(run.path.join("comparisons.jsonl")).unwrap();
    assert_eq!(lines, "", "one block compares nothing");
    // The same cells again and again, as if six blocks had been measured.
    let block = |number: u32| {
        run.cells.iter().cloned().map(move |mut cell| {
            (cell.block, cell.status) = (number, CellStatus::Valid);
            cell.acked_per_s *= 1.0 + f64::from(number) / 100.0;
            cell
        })
    };
    let cells: Vec<Cell> = (0..6).flat_map(block).collect();
    let summary = value(&summary::record("run", &summary::rows(&cells), asked()));
    assert!(summary["rows"][0]["figures"]["acked_per_s"]["geometric_mean"].is_number());
    assert_fits(&of_summary, &summary);
    assert_every_field_counts(&of_summary, &summary);
    let compared = comparison::comparisons(&cells, Gates::default());
    assert!(compared.len() >= 2 * 6, "of four strategies under two loads: {}", compared.len());
    for one in &compared {
        assert_fits(&of_comparison, &value(one));
    }
    assert_every_field_counts(&of_comparison, &value(&compared[0]));
}

#[test]
fn a_comparison_of_two_runs_is_as_its_schema_says() {
    let results = place();
    let of_compare = schema("compare.json");
    let read = || Recorded::read(&tiny_run(results.path()).path).unwrap();
    let (mut a, mut b) = (read(), read());
    let measured = value(&compare(&a, &b).unwrap());
    assert!(!measured["rows"].as_array().unwrap().is_empty(), "{measured}");
    assert_fits(&of_compare, &measured);
    // Again with what two such runs do not have: enough blocks, and something that is gone, falls
    // into overload, or is not the same.
    for run in [&mut a, &mut b] {
        let blocks = |number: u32| {
            run.cells.clone().into_iter().map(move |mut cell| {
                (cell.block, cell.status) = (number, CellStatus::Valid);
                cell.acked_per_s *= 1.0 + f64::from(number) / 100.0;
                cell
            })
        };
        run.cells = (0..6).flat_map(blocks).collect();
    }
    b.environment.kernel = "another".to_owned();
    a.cells.retain(|cell| cell.strategy != "timed");
    b.cells.retain(|cell| cell.strategy != "none");
    for cell in b.cells.iter_mut().filter(|cell| cell.kind == Kind::GroupCommit) {
        cell.status = CellStatus::Overload;
    }
    let whole = value(&compare(&a, &b).unwrap());
    for list in ["differ", "overloaded", "hidden", "only_a", "only_b"] {
        assert!(!whole[list].as_array().unwrap().is_empty(), "{list}: {whole}");
    }
    assert!(whole["rows"][0]["ratio_low"].is_number(), "{whole}");
    assert_fits(&of_compare, &whole);
    assert_every_field_counts(&of_compare, &whole);
}

#[test]
fn an_answer_about_capacity_is_as_its_schema_says() {
    let of_capacity = schema("capacity.json");
    let recorded = Recorded::read(&root().join(REFERENCE)).unwrap();
    let answer = |rate_per_s, loss_ns| {
        let ack_p99_ns = Some(10e6);
        let model = LossModel::Power;
        let ask = Ask { rate_per_s, message_bytes: 128, loss_ns, ack_p99_ns, model };
        capacity::capacity(&recorded, &ask).unwrap()
    };
    let mut bases = Vec::new();
    for (rate, loss) in [(5e3, 1e9), (20.0, 20e9), (1e8, 0.0)] {
        let found = answer(rate, loss);
        assert_fits(&of_capacity, &value(&found));
        bases.extend(found.choices.iter().map(|choice| choice.basis));
    }
    for basis in [Basis::Bounded, Basis::Measured, Basis::Unknown] {
        assert!(bases.contains(&basis), "{basis:?}");
    }
    // Infinity is no number of JSON.
    let mut found = answer(5e3, 1e9);
    let held = found.models.iter_mut().find_map(|model| model.held_out.first_mut()).unwrap();
    (held.predicted_ns, held.error_pct) = (f64::INFINITY, f64::INFINITY);
    assert_fits(&of_capacity, &value(&found));
    let not_hardware = Some("EMULATED".to_owned());
    let (choice, rest) = found.choices.split_first().unwrap();
    assert!(choice.broker_conf.is_some() && !rest.is_empty());
    let emulated = Choice { not_hardware, ..choice.clone() };
    (found.choices, found.models) = (vec![emulated], found.models[..1].to_vec());
    assert_fits(&of_capacity, &value(&found));
    assert_every_field_counts(&of_capacity, &value(&found));
}

/// Without any one field, and with any one that nobody knows, it must not fit.
#[track_caller]
fn assert_every_field_counts(schema: &Value, value: &Value) {
    for place in places(value, "") {
        let object = value.pointer(&place).unwrap().as_object().unwrap();
        // Names in a map are data.
        let is_named = ["/sysctls", "/ulimits"].iter().any(|end| place.ends_with(end));
        let is_map = is_named && object.values().all(Value::is_string);
        if is_map || place.ends_with("/figures") || place.ends_with("/same") {
            continue;
        }
        for name in object.keys() {
            let mut less = value.clone();
            less.pointer_mut(&place).unwrap().as_object_mut().unwrap().remove(name);
            // Cards of the committed run do not tell their disk.
            let is_later = place.is_empty() && name == "disk" && value.get("methods").is_some();
            let is_missed = !findings(schema, &less).is_empty();
            assert_ne!(is_missed, is_later, "{place}/{name}: whether it is required");
            let mut other = value.clone();
            let field = other.pointer_mut(&place).unwrap().get_mut(name).unwrap();
            *field = serde_json::json!([[]]);
            assert!(!findings(schema, &other).is_empty(), "{place}/{name} has no type");
        }
        let mut more = value.clone();
        let object = more.pointer_mut(&place).unwrap().as_object_mut().unwrap();
        object.insert("new".to_owned(), Value::Null);
        assert!(!findings(schema, &more).is_empty(), "{place} takes any field");
    }
}

/// Where the objects are, as JSON pointers.
fn places(value: &Value, at: &str) -> Vec<String> {
    let members: Vec<(String, &Value)> = match value {
        Value::Array(items) => {
            items.iter().enumerate().map(|(nth, item)| (nth.to_string(), item)).collect()
        }
        Value::Object(fields) => fields.iter().map(|(name, field)| (name.clone(), field)).collect(),
        _ => return Vec::new(),
    };
    let own = value.is_object().then(|| at.to_owned());
    let below = members.into_iter().flat_map(|(name, member)| {
        places(member, &format!("{at}/{}", name.replace('~', "~0").replace('/', "~1")))
    });
    own.into_iter().chain(below).collect()
}

fn with_everything(mut cell: Cell) -> Cell {
    cell.append_ns = Some(Quantiles::default());
    cell.backlog = Some(Backlog::default());
    cell.sync_wait = Some(SyncWait::default());
    cell.open_loop = Some(OpenLoop {
        offered_per_s: 1000.0,
        arrival: Arrival::Poisson,
        due: 1000,

        judged: 9,
        unsent: 1,
        promised_p99_ns: Some(1),
        due_to_ack_ns: Quantiles::default(),
        lag_ns: Quantiles::default(),
        own_lag_ns: Quantiles::default(),
    });
    cell.stalls =
        vec![Stall { at_ns: 1, took_ns: 60_000_000, dirty_bytes: Some(1), throttled: Some(true) }];
    cell
}

fn more_of_a_manifest(mut manifest: Manifest) -> Manifest {
    let why = || "no /dev/fuse".to_owned();
    manifest.left_out.push(LeftOut { what: "disk hdd".to_owned(), why: why(), how: why() });
    manifest.trimmed.push("2 of 3 blocks".to_owned());
    manifest.noise.push(BlockNoise { block: 0, spread_pct: 1.5, flagged: false });
    let value = Found { key: "vm.dirty_ratio".to_owned(), asked: 10, found: None };
    let status = Status::NotApplied;
    let applied =
        Applied { status, reason: Some(why()), values: vec![value], warnings: vec![why()] };
    manifest.slo = Some(asked());
    manifest.sysctls.push(AppliedSysctls { name: "small-bytes".to_owned(), applied });
    manifest
}

fn asked() -> Slo {
    let time = Some(Duration::from_millis(10));
    Slo { ack_p99: time, power_loss_rpo: time }
}

fn emulated(mut environment: Environment) -> Environment {
    let calibration = Calibration { asked_ns: 2, obtained_ns: 1, floor_ns: 1, error_pct: -50.0 };
    let mut info = DiskInfo { path: "/mnt/a".to_owned(), ..DiskInfo::default() };
    info.details.wbt_lat_usec = Some(-1);
    info.details.file_system_features = Some(vec!["extent".to_owned()]);
    info.details.made = Some(Made {
        kind: MadeKind::Emulated,
        disk_type: Some("hdd-7200".to_owned()),
        bytes: 1 << 30,
        backing: None,
        direct_io: Some(false),
        calibration: Some(calibration),
    });
    environment.disks = vec![MeasuredDisk {
        name: "hdd".to_owned(),
        labels: vec!["EMULATED".to_owned()],
        calibration: Some("asked 2 ns, takes 1 ns".to_owned()),
        sync_p50_ns: 1,
        info,
    }];
    environment
}

#[test]
fn a_card_of_a_disk_is_as_its_schema_says() {
    let (disk, results) = (place(), place());
    let spec = DiskSpec::Host { path: Some(disk.path().to_owned()), plp: false };
    let server = emulated::served_by("no such task").unwrap();
    let made = Disk::make(&spec, disk.path(), &server).unwrap().unwrap();
    let origin = harness::results::Origin::here(&["test".to_owned()], None);
    let order = card::Order { disk: &made, results: results.path().to_owned(), origin };
    // Interrupted as soon as it has something.
    let finished = card::run(&order, &AtomicBool::new(true), &mut |_| {}).unwrap();
    made.remove().unwrap();
    let of_card = schema("card.json");
    assert_fits(&of_card, &json(&finished.path.join("card.json")));
    let mut whole = finished.card;
    let row = Row {
        method: Method::Fdatasync,
        bytes: 4096,
        threads: 1,
        syncs: 9,
        per_s: 9.5,
        write_to_durable_ns_p50: 1,
        write_to_durable_ns_p99: 2,
        write_to_durable_ns_max: Some(3),
        sync_ns_p50: Some(1),
        flushes_per_sync: Some(1.0),
    };
    (whole.methods, whole.sizes, whole.parallel) = (vec![row], vec![row], vec![row]);
    let (version, ratio) = ("fio-3.33".to_owned(), 1.05);
    whole.cross_check =
        Some(CrossCheck { version, syncs: 9, sync_ns_p50: 1, ours_ns_p50: 1, ratio });
    whole.verdict = Some(card::Verdict {
        fitness: Fitness::NotFlushed,
        messages_per_s: 1,
        method: Method::Direct,
        group_ns_p50: 1,
        sync_ns_p99: 1,
        threshold_ns: 1,
    });
    assert_fits(&of_card, &value(&whole));
    assert_every_field_counts(&of_card, &value(&whole));
}

/// Nobody looks.
struct Unwatched;

impl powercut::Watch for Unwatched {
    fn planned(&mut self, _: &powercut::Plan) {}
    fn started(&mut self, _: &str, _: u32) {}
    fn cut(&mut self, _: &powercut::results::Cut, _: u32) {}
    fn finished(&mut self, _: &CutCase) {}
}

#[test]
fn power_cuts_are_as_their_schemas_say() {
    let results = place();
    let order = powercut::Order {
        cases: cases(&Strategy::ALL, &[Duration::from_millis(50)]),
        cuts: 3,
        seed: 7,
        results: results.path().to_owned(),
        origin: harness::results::Origin::here(&["test".to_owned()], None),
    };
    let mut lab = Simulated::new(Some("no /dev/fuse".to_owned()));
    let done = powercut::run(&order, &mut lab, &AtomicBool::new(false), &mut Unwatched).unwrap();
    assert!(done.error.is_none(), "{:?}", done.error);
    let [of_run, of_cut] = ["powercut.json", "cut.json"].map(schema);
    let run = json(&done.path.join("powercut.json"));
    assert_fits(&of_run, &run);
    assert_eq!(run["cases"].as_array().unwrap().len(), 3);
    let lines = fs::read_to_string(done.path.join("cuts.jsonl")).unwrap();
    assert_eq!(lines.lines().count(), 9);
    for line in lines.lines() {
        assert_fits(&of_cut, &serde_json::from_str(line).unwrap());
    }
    let mut run = done.run;
    run.cases.truncate(1);
    assert_every_field_counts(&of_run, &value(&run));
    let first = lines.lines().next().unwrap();
    assert_every_field_counts(&of_cut, &serde_json::from_str(first).unwrap());
}

#[test]
fn a_measurement_of_limits_is_as_its_schema_says() {
    let (disk, results) = (place(), place());
    let order = limits::Order {
        directory: disk.path().to_owned(),
        results: results.path().to_owned(),
        rounds: 1,
        measure: Duration::from_millis(10),
        cases: vec![Case::Sync1],
        origin: harness::results::Origin::here(&["test".to_owned()], None),
    };
    let finished = limits::run(&order, &AtomicBool::new(false), &mut |_, _, _| {}).unwrap();
    assert!(finished.error.is_none(), "{:?}", finished.error);
    let of_limits = schema("limits.json");
    assert_fits(&of_limits, &json(&finished.path.join("limits.json")));
    let mut limits = finished.limits;
    limits.measurements.truncate(1);
    let measurement = &mut limits.measurements[0];
    measurement.tail = Some(Tail { offered_per_s: 1, p999_ns: 1, p9999_ns: 1, max_ns: 1 });
    measurement.bulk = Some(Bulk { bytes: 1, read_bytes: None, dirty: Some(Dirty::default()) });
    assert_fits(&of_limits, &value(&limits));
    assert_every_field_counts(&of_limits, &value(&limits));
}
