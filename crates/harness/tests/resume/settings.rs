//! Sweeps over changed kernel settings, in files that behave as the kernel's: what is in force
//! during each cell, what is said of it, and that all is put back.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use harness::profile::{Disk, Sweep};
use harness::results::{Cell, Check, Level, Outcome, Status};
use harness::run::{Finished, NOT_APPLIED, Order, Plan, Watch, plan, run_any_build};
use harness::sysctl::{DeviceLimits, DeviceNumber, Share, Status as InForce};

use super::Place;

/// What the six files say, in the order of their names.
type Values = [u64; 6];

const KEYS: [&str; 6] = [
    "dirty_background_bytes",
    "dirty_background_ratio",
    "dirty_bytes",
    "dirty_expire_centisecs",
    "dirty_ratio",
    "dirty_writeback_centisecs",
];

/// As Linux has them by default.
const FOUND: Values = [0, 10, 0, 3000, 20, 500];
const PERCENT: Values = [0, 5, 0, 100, 40, 500];
const SIZES: Values = [32 << 20, 0, 64 << 20, 3000, 0, 50];

/// Two settings with two cells each, between canaries: six cells.
const PROFILE: &str = "
schema: flushmark.profile/v1
name: settings
run: {blocks: 1, seed: 42, warmup_ms: 10, measure_ms: 50, budget_s: 60, canary: true}
sysctls:
  percent: {dirty_background_ratio: 5, dirty_ratio: 40, dirty_expire_centisecs: 100}
  sizes: {dirty_background_bytes: 32MiB, dirty_bytes: 64MiB, dirty_writeback_centisecs: 50}
workloads:
  closed-1k: {message_bytes: 1KiB, producers: [1]}
strategies:
  none: {kind: none}
matrix: {sysctls: [percent, sizes], workloads: [closed-1k], strategies: [none]}
log: {segment_bytes: 16MiB}
";

fn values(kernel: &Path) -> Values {
    let read = |key: &str| fs::read_to_string(kernel.join("vm").join(key)).unwrap();
    KEYS.map(|key| read(key).trim().parse().unwrap())
}

/// Looks at the kernel when a cell begins, and perhaps changes something behind the sweep's back.
struct Witness<'a> {
    kernel: &'a Path,
    seen: BTreeMap<String, Values>,
    /// What is done in the cell of that name.
    meddle: Option<(&'a str, &'a str)>,
}

impl Watch for Witness<'_> {
    fn planned(&mut self, _plan: &Plan) {}

    fn started(&mut self, _block: u32, cell: &str) {
        let now = values(self.kernel);
        let before = self.seen.insert(cell.to_owned(), now);
        assert!(before.is_none_or(|before| before == now), "{cell}: {before:?}, then {now:?}");
        if let Some((_, key)) = self.meddle.filter(|(of, _)| cell == *of) {
            fs::write(self.kernel.join("vm").join(key), "777\n").unwrap();
        }
    }

    fn finished(&mut self, _cell: &Cell, _done: u32, _planned: u32) {}
}

/// Runs the profile: what it came to, and what was in force in each cell.
fn run(place: &Place, meddle: Option<(&str, &str)>) -> (Finished, BTreeMap<String, Values>) {
    let order = Order { sweep: Sweep::parse("settings.yaml", PROFILE).unwrap(), ..place.order() };
    let mut witness = Witness { kernel: place.kernel.path(), seen: BTreeMap::new(), meddle };
    let finished = run_any_build(&order, &AtomicBool::new(false), &mut witness).unwrap();
    assert!(finished.error.is_none(), "{:?}", finished.error);
    assert_eq!((finished.manifest.outcome, finished.cells.len()), (Outcome::Complete, 6));
    (finished, witness.seen)
}

/// What was seen in the cells of a setting, the canaries apart.
fn seen_of(seen: &BTreeMap<String, Values>, sysctl: &str) -> Vec<Values> {
    let prefix = format!("host/{sysctl}/");
    seen.iter().filter(|(cell, _)| cell.starts_with(&prefix)).map(|(_, values)| *values).collect()
}

#[track_caller]
fn check<'a>(cell: &'a Cell, code: &str) -> &'a Check {
    let found = cell.validity.iter().find(|check| check.code == code);
    found.unwrap_or_else(|| panic!("{}: no check {code}", cell.cell))
}

#[track_caller]
fn assert_put_back(place: &Place) {
    assert_eq!(values(place.kernel.path()), FOUND);
    assert!(!place.kernel.path().join("run/flushmark-restore.json").exists());
    assert!(place.is_clean());
}

#[test]
fn each_setting_is_in_force_during_its_cells_and_put_back_after() {
    let place = Place::new();
    let (finished, seen) = run(&place, None);
    assert_eq!(seen_of(&seen, "percent"), [PERCENT; 2]);
    assert_eq!(seen_of(&seen, "sizes"), [SIZES; 2]);
    assert_eq!(seen_of(&seen, "as-found"), [FOUND; 2], "both canaries");
    for cell in &finished.cells {
        assert_eq!(check(cell, NOT_APPLIED).level, Level::Pass);
        assert_eq!(check(cell, "sysctl_unchanged").level, Level::Pass);
    }
    let applied = finished.manifest.sysctls.iter();
    let mut applied: Vec<_> = applied.map(|of| (&*of.name, of.applied.status)).collect();
    applied.sort_unstable_by_key(|(name, _)| *name);
    assert_eq!(applied, [("percent", InForce::Applied), ("sizes", InForce::Applied)]);
    assert_put_back(&place);
}

#[test]
fn cells_under_settings_that_are_refused_are_invalid_and_say_why() {
    // One is refused before anything is written, the other (EINVAL) after the limits were.
    for (refuse, of, reason) in [
        ("dirty_bytes 30", "sizes", "vm.dirty_bytes is read-only here, as in most containers"),
        (
            "dirty_expire_centisecs 22",
            "percent",
            "the kernel refuses the value for vm.dirty_expire_centisecs (EINVAL)",
        ),
    ] {
        let place = Place::new();
        fs::create_dir(place.kernel.path().join("vm")).unwrap();
        fs::write(place.kernel.path().join("vm/refuse"), refuse).unwrap();
        let (finished, seen) = run(&place, None);
        assert_eq!(seen_of(&seen, of), [FOUND; 2], "all of it or nothing");
        for cell in &finished.cells {
            let applied = check(cell, NOT_APPLIED);
            if cell.sysctl == of {
                assert_eq!((applied.level, cell.status), (Level::Invalid, Status::Invalid));
                assert_eq!(applied.value, format!("{of}: not applied: {reason}"));
            } else {
                assert_eq!(applied.level, Level::Pass, "{}: {}", cell.cell, applied.value);
            }
        }
        let taken = finished.manifest.sysctls.iter();
        let taken = taken.filter(|taken| taken.applied.status == InForce::NotApplied);
        assert_eq!(taken.map(|taken| &*taken.name).collect::<Vec<_>>(), [of]);
        assert_put_back(&place);
    }
}

#[test]
fn a_plan_says_before_that_settings_cannot_be_applied() {
    let place = Place::new();
    let order = Order { sweep: Sweep::parse("settings.yaml", PROFILE).unwrap(), ..place.order() };
    let refused = |order: &Order| plan(order, &AtomicBool::new(false)).unwrap().refused;
    assert_eq!(refused(&order), None);
    fs::write(place.kernel.path().join("vm/refuse"), "dirty_bytes 13").unwrap();
    assert_eq!(refused(&order).as_deref(), Some("only root may write vm.dirty_bytes"));
    assert_eq!(refused(&place.order()), None, "where none are to be");
}

/// The limits of the device that `place` is on, as files that behave as the kernel's.
fn limits_of_its_device(place: &Place) -> PathBuf {
    let dev = fs::metadata(place.disk.path()).unwrap().dev();
    let number = DeviceNumber::from_dev(dev).to_string();
    let limits = place.kernel.path().join("bdi").join(number);
    fs::create_dir_all(&limits).unwrap();
    for (name, value) in [("max_ratio", "100"), ("min_ratio", "0"), ("strict_limit", "0")] {
        fs::write(limits.join(name), value).unwrap();
    }
    limits
}

#[test]
fn a_disk_with_limits_has_them_in_its_cells_alone() {
    struct Limits(PathBuf, BTreeMap<String, [String; 3]>);
    impl Limits {
        fn now(&self) -> [String; 3] {
            ["max_ratio", "min_ratio", "strict_limit"]
                .map(|name| fs::read_to_string(self.0.join(name)).unwrap().trim().to_owned())
        }
    }
    impl Watch for Limits {
        fn planned(&mut self, plan: &Plan) {
            assert_eq!(plan.sysctls, ["percent", "sizes", "limits of disk limited"]);
        }
        fn started(&mut self, _block: u32, cell: &str) {
            self.1.insert(cell.to_owned(), self.now());
        }
        fn finished(&mut self, _cell: &Cell, _done: u32, _planned: u32) {}
    }
    let place = Place::new();
    let mut order =
        Order { sweep: Sweep::parse("settings.yaml", PROFILE).unwrap(), ..place.order() };
    // As if this directory's disk had been made: no profile can say that.
    let limits = DeviceLimits {
        max: Some(Share::Percent(10)),
        min: Some(Share::Percent(5)),
        strict: Some(true),
    };
    let limited = Disk { name: "limited".to_owned(), limits, ..Disk::host() };
    order.sweep.disks = vec![Disk::host(), limited];
    let mut watch = Limits(limits_of_its_device(&place), BTreeMap::new());
    let finished = run_any_build(&order, &AtomicBool::new(false), &mut watch).unwrap();
    assert!(finished.error.is_none(), "{:?}", finished.error);
    let is_limited = |cell: &str| cell.starts_with("limited/");
    let seen: Vec<_> = watch.1.iter().map(|(cell, now)| (is_limited(cell), now.clone())).collect();
    assert_eq!(seen.iter().filter(|(limited, _)| *limited).count(), 4);
    for (limited, now) in seen {
        assert_eq!(now, if limited { ["10", "5", "1"] } else { ["100", "0", "0"] });
    }
    assert_eq!(watch.now(), ["100", "0", "0"], "and put back");
    for cell in &finished.cells {
        let value = &check(cell, NOT_APPLIED).value;
        let words = "/max_ratio 10, bdi/";
        assert_eq!(value.contains(words), is_limited(&cell.cell), "{}: {value}", cell.cell);
        assert_eq!(check(cell, "sysctl_unchanged").level, Level::Pass);
    }
    let applied: BTreeSet<_> = finished.manifest.sysctls.iter().map(|of| &*of.name).collect();
    let expect = ["percent", "percent on limited", "sizes", "sizes on limited"];
    assert_eq!(applied, BTreeSet::from(expect));
    assert_put_back(&place);
}

#[test]
fn a_value_that_somebody_changes_meanwhile_makes_the_cell_invalid() {
    let place = Place::new();
    let name = "host/sizes/none/closed-1k/1";
    let (finished, _) = run(&place, Some((name, "dirty_writeback_centisecs")));
    let cell = finished.cells.iter().find(|cell| cell.cell == name).unwrap();
    let unchanged = check(cell, "sysctl_unchanged");
    assert_eq!((unchanged.level, cell.status), (Level::Invalid, Status::Invalid));
    assert_eq!(unchanged.value, "vm.dirty_writeback_centisecs: 777, was 50");
    let others = finished.cells.iter().filter(|cell| cell.sysctl != "sizes");
    for other in others {
        assert_eq!(check(other, "sysctl_unchanged").level, Level::Pass, "{}", other.cell);
    }
    assert_put_back(&place);
}
