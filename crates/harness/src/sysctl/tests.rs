//! The guard, on files that behave as the kernel's do.

mod killed;

use std::fs;
use std::path::{Path, PathBuf};

use super::*;

/// What every file says, to be compared before and after.
fn all(vm: &Path) -> Vec<(&'static str, String)> {
    let read = |key: Key| (key.name(), fs::read_to_string(vm.join(key.name())).unwrap());
    Key::ALL.map(read).into()
}

fn settings(values: &[(Key, u64)]) -> DirtySettings {
    let mut settings = DirtySettings::default();
    for (key, value) in values {
        settings.set(*key, *value).unwrap();
    }
    settings
}

fn small_bytes() -> DirtySettings {
    settings(&[(Key::BackgroundBytes, 64 << 20), (Key::Bytes, 256 << 20)])
}

/// A kernel of plain files.
struct Fake {
    dir: tempfile::TempDir,
    roots: Roots,
}

impl Fake {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let roots = Roots::imitated(dir.path()).unwrap();
        Self { dir, roots }
    }

    fn vm(&self) -> PathBuf {
        self.dir.path().join("vm")
    }

    fn all(&self) -> Vec<(&'static str, String)> {
        all(&self.vm())
    }

    fn value(&self, key: Key) -> u64 {
        self.roots.value(key).unwrap()
    }

    fn restore_file(&self) -> PathBuf {
        self.dir.path().join("run/flushmark-restore.json")
    }

    /// Has writes of these settings fail with an errno.
    fn refuse(&self, lines: &str) {
        fs::write(self.vm().join("refuse"), lines).unwrap();
    }

    /// A device of our own, with what the kernel gives it.
    fn device(&self, number: &str) -> DeviceNumber {
        let dir = self.dir.path().join("bdi").join(number);
        fs::create_dir_all(&dir).unwrap();
        for (name, value) in [("max_ratio", 100), ("min_ratio", 0), ("strict_limit", 0)] {
            fs::write(dir.join(name), format!("{value}\n")).unwrap();
        }
        number.parse().unwrap()
    }

    fn device_values(&self, device: DeviceNumber) -> [u64; 3] {
        ["max_ratio", "min_ratio", "strict_limit"]
            .map(|name| self.roots.device_value(device, name).unwrap())
    }
}

#[test]
fn settings_are_in_force_and_then_as_found() {
    let fake = Fake::new();
    let before = fake.all();
    let mut guard = Guard::take(&fake.roots).unwrap();
    assert_eq!(guard.leftover(), &Leftover::None);
    assert!(!fake.restore_file().exists(), "nothing is changed yet");
    let applied = guard.apply(&small_bytes(), &[]).unwrap();
    assert_eq!((applied.status, &applied.reason), (Status::Applied, &None));
    let found = |key: &str, value| Found { key: key.into(), asked: value, found: Some(value) };
    let expect = [found("vm.dirty_background_bytes", 64 << 20), found("vm.dirty_bytes", 256 << 20)];
    assert_eq!(applied.values, expect);
    assert_eq!((fake.value(Key::Ratio), fake.value(Key::BackgroundRatio)), (0, 0));
    assert!(fake.restore_file().exists());
    let effective = effective(&fake.roots).unwrap();
    assert_eq!(effective.limit, Limit::Bytes(256 << 20));
    assert_eq!(effective.background, Limit::Bytes(64 << 20));
    let restored = guard.restore().unwrap();
    assert_eq!(restored.changes.len(), 2, "{restored:?}");
    assert_eq!(restored.changes[1].to_string(), "vm.dirty_ratio 0 -> 20");
    assert_eq!(fake.all(), before);
    assert!(!fake.restore_file().exists());
}

#[test]
fn a_limit_found_in_bytes_comes_back_in_bytes() {
    let fake = Fake::new();
    fake.roots.put(Key::Bytes, 1 << 30).unwrap();
    fake.roots.put(Key::BackgroundBytes, 1 << 20).unwrap();
    let before = fake.all();
    // A ratio of 0 is no change for the kernel while the limit in bytes is active.
    for ratio in [40, 0] {
        let mut guard = Guard::take(&fake.roots).unwrap();
        let asked = settings(&[(Key::Ratio, ratio), (Key::BackgroundRatio, 0)]);
        let applied = guard.apply(&asked, &[]).unwrap();
        assert_eq!(applied.status, Status::Applied, "{applied:?}");
        assert_eq!((fake.value(Key::Ratio), fake.value(Key::Bytes)), (ratio, 0));
        assert_eq!(effective(&fake.roots).unwrap().background, Limit::Percent(0));
        guard.restore().unwrap();
        assert_eq!(fake.all(), before);
    }
}

#[test]
fn nothing_of_one_profile_remains_in_the_next() {
    let fake = Fake::new();
    let before = fake.all();
    let mut guard = Guard::take(&fake.roots).unwrap();
    guard.apply(&settings(&[(Key::ExpireCentisecs, 100), (Key::Bytes, 1 << 30)]), &[]).unwrap();
    guard.apply(&settings(&[(Key::Ratio, 40)]), &[]).unwrap();
    assert_eq!(fake.value(Key::ExpireCentisecs), 3000);
    assert_eq!((fake.value(Key::Ratio), fake.value(Key::Bytes)), (40, 0));
    guard.apply(&DirtySettings::default(), &[]).unwrap();
    assert_eq!(fake.all(), before);
    guard.apply(&settings(&[(Key::WritebackCentisecs, 7)]), &[]).unwrap();
    assert_eq!(guard.found().unwrap().get(Key::WritebackCentisecs), Some(500));
    drop(guard);
    assert_eq!(fake.all(), before);
}

#[test]
fn a_profile_is_applied_whole_or_not_at_all() {
    let fake = Fake::new();
    let before = fake.all();
    // The kernel takes the others first.
    fake.refuse("dirty_writeback_centisecs 22\n");
    let mut guard = Guard::take(&fake.roots).unwrap();
    let asked = small_bytes().over(&settings(&[(Key::WritebackCentisecs, 100)]));
    let applied = guard.apply(&asked, &[]).unwrap();
    assert_eq!(applied.status, Status::NotApplied);
    let reason = applied.reason.unwrap();
    assert!(reason.contains("refuses the value") && reason.contains("writeback"), "{reason}");
    assert_eq!(applied.values[2].found, Some(500));
    assert_eq!(fake.all(), before);
    assert!(!fake.restore_file().exists(), "all is as it was");
    assert_eq!(guard.apply(&small_bytes(), &[]).unwrap().status, Status::Applied);
}

#[test]
fn without_the_right_nothing_is_written_and_the_reason_told() {
    #[track_caller]
    fn check(errno: u32, expect: &str) {
        let fake = Fake::new();
        let before = fake.all();
        fake.refuse(&Key::ALL.map(|key| format!("{key} {errno}\n")).concat());
        let mut guard = Guard::take(&fake.roots).unwrap();
        let applied = guard.apply(&small_bytes(), &[]).unwrap();
        assert_eq!(applied.status, Status::NotApplied);
        let reason = applied.reason.unwrap();
        assert!(reason.contains(expect), "{reason}");
        assert_eq!(applied.values[0].found, Some(0), "what is in force is told all the same");
        assert!(!fake.restore_file().exists());
        assert_eq!(guard.check().unwrap().unwrap(), []);
        // What is in force anyway takes no right.
        let same = settings(&[(Key::Ratio, 20), (Key::ExpireCentisecs, 3000)]);
        assert_eq!(guard.apply(&same, &[]).unwrap().status, Status::Applied);
        drop(guard);
        assert_eq!(fake.all(), before);
    }
    check(13, "only root may write vm.dirty_");
    check(30, "read-only here");
    check(2, "this kernel has no vm.dirty_background_bytes");
}

#[test]
fn without_a_place_for_lock_or_restore_file_nothing_is_changed() {
    let fake = Fake::new();
    let before = fake.all();
    let nowhere = fake.roots.clone().with_run(&[Path::new("/proc/flushmark")]);
    let applied = Guard::take(&nowhere).unwrap().apply(&small_bytes(), &[]).unwrap();
    assert!(applied.reason.unwrap().contains("no place for a lock"));
    // As in a directory that is read-only once the lock is there; not even root can write this.
    fs::create_dir_all(fake.dir.path().join("run/flushmark-restore.new/x")).unwrap();
    let applied = Guard::take(&fake.roots).unwrap().apply(&small_bytes(), &[]).unwrap();
    assert_eq!(applied.status, Status::NotApplied);
    assert!(applied.reason.unwrap().contains("no restore file can be written"));
    assert_eq!(fake.all(), before);
}

#[test]
fn settings_that_cannot_be_read_are_not_applied() {
    let fake = Fake::new();
    fs::remove_file(fake.vm().join("dirty_expire_centisecs")).unwrap();
    let mut guard = Guard::take(&fake.roots).unwrap();
    let applied = guard.apply(&small_bytes(), &[]).unwrap();
    assert_eq!(applied.status, Status::NotApplied);
    assert!(applied.reason.unwrap().contains("cannot read"));
    assert_eq!(guard.found(), None);
    assert_eq!(fake.value(Key::Bytes), 0);
}

#[test]
fn a_restore_file_that_was_never_whole_counts_for_nothing() {
    let fake = Fake::new();
    let half = fake.dir.path().join("run/flushmark-restore.new");
    fs::write(&half, "{").unwrap();
    assert_eq!(restore_leftover(&fake.roots).unwrap(), Leftover::None);
    assert!(!half.exists());
}

#[test]
fn a_second_sweep_is_told_of_the_first() {
    let fake = Fake::new();
    let guard = Guard::take(&fake.roots).unwrap();
    let error = Guard::take(&fake.roots).unwrap_err();
    let busy = error.downcast_ref::<Busy>().unwrap();
    assert_eq!(busy.pid, Some(std::process::id()));
    assert!(restore_leftover(&fake.roots).unwrap_err().is::<Busy>());
    drop(guard);
    assert!(Guard::take(&fake.roots).is_ok());
}

#[test]
fn one_at_a_time_changes_anything_whoever_comes() {
    let fake = Fake::new();
    let before = fake.all();
    let inside = std::sync::atomic::AtomicU32::new(0);
    let (taken, busy): (Vec<u32>, Vec<u32>) = std::thread::scope(|scope| {
        let work = |thread: u64| {
            let (mut taken, mut busy) = (0, 0);
            for _ in 0..100 {
                match Guard::take(&fake.roots) {
                    Ok(mut guard) => {
                        assert_eq!(inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst), 0);
                        assert_eq!(fake.all(), before, "nobody left anything");
                        guard.apply(&settings(&[(Key::Ratio, 30 + thread)]), &[]).unwrap();
                        assert_eq!(fake.value(Key::Ratio), 30 + thread);
                        inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                        taken += 1;
                    }
                    Err(error) => {
                        assert!(error.is::<Busy>(), "{error:#}");
                        busy += 1;
                    }
                }
            }
            (taken, busy)
        };
        let threads: Vec<_> = (0..4).map(|n| scope.spawn(move || work(n))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).unzip()
    });
    assert_eq!(taken.iter().sum::<u32>() + busy.iter().sum::<u32>(), 400);
    assert!(taken.iter().sum::<u32>() >= 4);
    assert_eq!(fake.all(), before);
}

#[test]
fn a_background_the_kernel_halves_is_warned_of() {
    #[track_caller]
    fn check(background: Limit, bytes: u64, is_halved: bool) {
        let (limit, limit_bytes) = (Limit::Bytes(1 << 30), Some(1 << 30));
        let background_limit_bytes = Some(bytes);
        let found = Effective { background, limit, background_limit_bytes, limit_bytes };
        assert_eq!(found.warning().is_some(), is_halved, "{found:?}");
    }
    check(Limit::Percent(10), 1 << 29, true);
    check(Limit::Percent(10), 1 << 28, false);
    check(Limit::Bytes(1 << 29), 1 << 29, false);
}

#[test]
fn a_panic_restores() {
    let fake = Fake::new();
    let before = fake.all();
    let result = std::panic::catch_unwind(|| {
        let mut guard = Guard::take(&fake.roots).unwrap();
        guard.apply(&small_bytes(), &[]).unwrap();
        assert_ne!(fake.all(), before);
        // As a panic does, without its message.
        std::panic::resume_unwind(Box::new("out of luck"));
    });
    assert!(result.is_err());
    assert_eq!(fake.all(), before);
    assert!(!fake.restore_file().exists());
}

#[test]
fn what_cannot_be_put_back_is_named_and_tried_again_at_the_next_start() {
    let fake = Fake::new();
    let before = fake.all();
    let mut guard = Guard::take(&fake.roots).unwrap();
    let asked = small_bytes().over(&settings(&[(Key::WritebackCentisecs, 100)]));
    guard.apply(&asked, &[]).unwrap();
    fake.refuse("dirty_ratio 5\ndirty_background_ratio 5\n");
    let error = guard.restore().unwrap_err().to_string();
    assert!(error.contains("vm.dirty_ratio cannot be written"), "{error}");
    assert!(error.contains("vm.dirty_background_ratio cannot be written"), "{error}");
    assert_eq!(fake.value(Key::WritebackCentisecs), 500, "the others are tried");
    assert!(fake.restore_file().exists());

    // A program that starts meanwhile changes nothing more.
    let mut guard = Guard::take(&fake.roots).unwrap();
    assert!(matches!(guard.leftover(), Leftover::Failed { .. }), "{:?}", guard.leftover());
    let applied = guard.apply(&small_bytes(), &[]).unwrap();
    assert!(applied.reason.unwrap().contains("cargo xtask restore"));
    drop(guard);
    assert!(fake.restore_file().exists());

    fake.refuse("");
    match restore_leftover(&fake.roots).unwrap() {
        Leftover::Restored { restored, .. } => assert_eq!(restored.changes.len(), 2),
        other => panic!("{other:?}"),
    }
    assert_eq!(fake.all(), before);
    assert_eq!(restore_leftover(&fake.roots).unwrap(), Leftover::None);
}

#[test]
fn a_change_by_somebody_else_is_seen() {
    let fake = Fake::new();
    let before = fake.all();
    let device = fake.device("7:9");
    let mut guard = Guard::take(&fake.roots).unwrap();
    assert_eq!(guard.check().unwrap().unwrap(), [], "nothing was applied yet");
    fake.roots.put(Key::Ratio, 33).unwrap();
    let drift = |key: &str, applied, found| Drift { key: key.into(), applied, found };
    let expect = [drift("vm.dirty_ratio", Some(20), Some(33))];
    assert_eq!(guard.check().unwrap().unwrap(), expect, "before anything was applied");
    fake.roots.put(Key::Ratio, 20).unwrap();
    let limits = DeviceLimits { strict: Some(true), ..DeviceLimits::default() };
    guard.apply(&small_bytes(), &[(device, limits)]).unwrap();
    assert_eq!(guard.check().unwrap().unwrap(), []);
    fake.roots.put(Key::Ratio, 15).unwrap();
    fs::write(fake.dir.path().join("bdi/7:9/strict_limit"), "0\n").unwrap();
    let expect = [
        drift("vm.dirty_bytes", Some(256 << 20), None),
        drift("vm.dirty_ratio", None, Some(15)),
        drift("bdi/7:9/strict_limit", Some(1), Some(0)),
    ];
    assert_eq!(guard.check().unwrap().unwrap(), expect);
    guard.restore().unwrap();
    assert_eq!(fake.all(), before);
}

#[test]
fn a_device_that_went_keeps_nothing_else_from_being_applied() {
    let fake = Fake::new();
    let before = fake.all();
    let device = fake.device("7:9");
    let mut guard = Guard::take(&fake.roots).unwrap();
    let limits = DeviceLimits { strict: Some(true), ..DeviceLimits::default() };
    guard.apply(&DirtySettings::default(), &[(device, limits)]).unwrap();
    fs::remove_dir_all(fake.dir.path().join("bdi/7:9")).unwrap();
    let applied = guard.apply(&small_bytes(), &[]).unwrap();
    assert_eq!((applied.status, applied.reason), (Status::Applied, None));
    assert_eq!(guard.check().unwrap().unwrap(), []);
    guard.restore().unwrap();
    assert_eq!(fake.all(), before);
}

#[test]
fn devices_get_limits_and_lose_them() {
    let fake = Fake::new();
    let (device, other) = (fake.device("7:8"), fake.device("7:9"));
    let mut guard = Guard::take(&fake.roots).unwrap();
    let limits = |device, min, max| {
        let percent = |value: u64| Some(Share::Percent(value));
        (device, DeviceLimits { max: percent(max), min: percent(min), strict: Some(true) })
    };
    let nothing = DirtySettings::default();
    let applied = guard.apply(&nothing, &[limits(device, 5, 10)]).unwrap();
    assert_eq!(applied.status, Status::Applied, "{applied:?}");
    assert_eq!(applied.values[0].key, "bdi/7:8/max_ratio");
    assert_eq!(fake.device_values(device), [10, 5, 1]);
    // Below and above what was in force, on either side.
    for (min, max) in [(1, 3), (50, 60), (0, 100)] {
        let applied = guard.apply(&nothing, &[limits(device, min, max)]).unwrap();
        assert_eq!(applied.status, Status::Applied, "{applied:?}");
        assert_eq!(fake.device_values(device), [max, min, 1]);
    }
    guard.apply(&nothing, &[limits(other, 20, 30)]).unwrap();
    assert_eq!(fake.device_values(device), [100, 0, 0], "the next profile says nothing of it");
    let applied = guard.apply(&small_bytes(), &[limits(other, 30, 20)]).unwrap();
    assert!(applied.reason.unwrap().contains("refuses the value"));
    assert_eq!(fake.device_values(other), [100, 0, 0]);
    assert_eq!(fake.value(Key::Bytes), 0, "whole or not at all");
    let strict = DeviceLimits { strict: Some(true), ..DeviceLimits::default() };
    let applied = guard.apply(&nothing, &[("7:77".parse().unwrap(), strict)]).unwrap();
    assert!(applied.reason.unwrap().contains("this kernel has no bdi/7:77/strict_limit"));

    guard.apply(&small_bytes(), &[limits(device, 5, 10), limits(other, 5, 10)]).unwrap();
    fs::remove_dir_all(fake.dir.path().join("bdi/7:9")).unwrap();
    let restored = guard.restore().unwrap();
    assert_eq!(restored.gone, [other], "a disk that was removed is no failure");
    assert_eq!(fake.device_values(device), [100, 0, 0]);
}

#[test]
fn a_device_found_with_a_least_gets_it_back() {
    let fake = Fake::new();
    let device = fake.device("7:8");
    let dir = fake.dir.path().join("bdi/7:8");
    fs::write(dir.join("max_ratio"), "20\n").unwrap();
    fs::write(dir.join("min_ratio"), "10\n").unwrap();
    let mut guard = Guard::take(&fake.roots).unwrap();
    for (min, max) in [(30, 40), (1, 2)] {
        let (min, max) = (Some(Share::Percent(min)), Some(Share::Percent(max)));
        let limits = DeviceLimits { max, min, strict: None };
        let applied = guard.apply(&DirtySettings::default(), &[(device, limits)]).unwrap();
        assert_eq!(applied.status, Status::Applied, "{applied:?}");
    }
    guard.restore().unwrap();
    assert_eq!(fake.device_values(device), [20, 10, 0]);
}
