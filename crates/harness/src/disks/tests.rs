//! Disks of every kind; those that need root are left out without it, and that is said.

use std::fs;
use std::io::Write;

use super::*;
use crate::disk;

/// The program that serves emulated disks is not needed here: `xtask` has one, and tests of it.
fn no_server() -> ServerCommand {
    ServerCommand { program: "/nonexistent/server".into(), arguments: Vec::new() }
}

fn make(spec: &DiskSpec, work: &Path) -> Option<Disk> {
    match Disk::make(spec, work, &no_server()).unwrap() {
        Ok(disk) => Some(disk),
        Err(unavailable) => {
            assert!(!unavailable.why.is_empty() && !unavailable.how.is_empty());
            writeln!(std::io::stderr().lock(), "left out: {spec:?}: {unavailable}").unwrap();
            None
        }
    }
}

fn loop_of(backing: &Path, file_system: FsKind, bytes: u64, mount_options: &str) -> DiskSpec {
    let mount_options = mount_options.to_owned();
    DiskSpec::Loop { backing: Some(backing.to_owned()), file_system, mount_options, bytes }
}

/// Loop devices on files below `work`, and this thread's mounts there.
fn left_behind(work: &Path) -> Vec<String> {
    let work = work.display().to_string();
    let mounts = fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
    let mounts = mounts.lines().filter(|line| line.contains(&work)).map(str::to_owned);
    let devices = fs::read_dir("/sys/block").unwrap();
    let files = devices.filter_map(|device| {
        fs::read_to_string(device.ok()?.path().join("loop/backing_file")).ok()
    });
    mounts.chain(files.filter(|file| file.contains(&work))).collect()
}

fn calibration(asked_ns: u64, obtained_ns: u64) -> Calibration {
    let share = float(obtained_ns) / float(asked_ns);
    Calibration { asked_ns, obtained_ns, floor_ns: 50_000, error_pct: (share - 1.0) * 100.0 }
}

#[test]
fn a_latency_lands_within_a_quarter_of_what_was_asked() {
    for (obtained, has_landed) in [(749, false), (751, true), (1_249, true), (1_251, false)] {
        let found = calibration(1_000_000, obtained * 1_000);
        assert_eq!(found.has_landed(), has_landed, "{found}");
        assert_eq!(found.to_string().contains("MISSED"), !has_landed, "{found}");
    }
    let words = calibration(1_960_000, 2_058_000).to_string();
    assert_eq!(words, "a sync takes 2.1 ms, asked 2.0 ms (+5.0 %; without the disk 50 µs)");
}

#[test]
fn a_disk_says_what_its_figures_are_not() {
    #[track_caller]
    fn check(emulated: bool, in_memory: bool, made: Option<Made>, expect: &[Label]) {
        let mut info = DiskInfo { emulated, in_memory, ..DiskInfo::default() };
        info.details.made = made;
        assert_eq!(labels(&info), expect);
    }
    let made = |kind, calibration| {
        Some(Made { kind, disk_type: None, bytes: 1, backing: None, direct_io: None, calibration })
    };
    check(false, false, None, &[]);
    check(true, false, None, &[Label::Emulated]);
    check(true, false, made(MadeKind::Loop, None), &[Label::Emulated, Label::Loop]);
    let memory = [Label::InMemory, Label::NotDurable];
    check(false, true, made(MadeKind::Tmpfs, None), &memory);
    let landed = made(MadeKind::Emulated, Some(calibration(100, 110)));
    check(true, false, landed, &[Label::Emulated, Label::NotDurable]);
    let missed = made(MadeKind::Emulated, Some(calibration(100, 150)));
    check(true, false, missed, &[Label::Emulated, Label::Missed, Label::NotDurable]);
}

#[test]
fn a_directory_is_taken_as_it_is_and_stays() {
    let root = tempfile::tempdir().unwrap();
    let spec = DiskSpec::Host { path: Some(root.path().to_owned()), plp: true };
    let disk = make(&spec, root.path()).unwrap();
    assert_eq!(disk.directory(), root.path());
    let info = disk.info();
    assert_eq!(info.details.plp_declared, Some(true));
    assert_eq!(info.details.made, None);
    let real = fs::canonicalize(root.path()).unwrap();
    assert_eq!(info.details.real_path.as_deref(), real.to_str());
    assert_eq!(info.device.as_ref(), info.details.device_chain.first());
    disk.remove().unwrap();
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
}

#[test]
fn a_directory_that_is_not_there_is_an_error() {
    let spec = DiskSpec::Host { path: Some("/nonexistent/flushmark".into()), plp: false };
    let error = Disk::make(&spec, Path::new("/tmp"), &no_server()).unwrap_err();
    assert!(format!("{error:#}").contains("/nonexistent/flushmark"), "{error:#}");
}

#[test]
fn memory_is_mounted_with_its_size_and_says_what_it_is() {
    let root = tempfile::tempdir().unwrap();
    let Some(disk) = make(&DiskSpec::Tmpfs { bytes: 8 << 20 }, root.path()) else {
        return;
    };
    assert_eq!(disk.info().file_system.as_deref(), Some("tmpfs"));
    assert_eq!(disk.info().total_bytes, 8 << 20);
    assert_eq!(disk.labels(), [Label::InMemory, Label::NotDurable]);
    fs::write(disk.directory().join("file"), [1; 4096]).unwrap();
    disk.remove().unwrap();
    assert_eq!(left_behind(root.path()), [""; 0]);
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
}

#[test]
fn an_image_has_its_file_system_and_options_and_is_gone_afterwards() {
    let sizes = [(FsKind::Ext4, 64), (FsKind::Xfs, 320), (FsKind::Btrfs, 128)];
    for (kind, mebibytes) in sizes {
        let root = tempfile::tempdir().unwrap();
        let spec = loop_of(root.path(), kind, mebibytes << 20, "noatime");
        let Some(disk) = make(&spec, root.path()) else {
            continue;
        };
        let info = disk.info();
        assert_eq!(info.file_system.as_deref(), Some(kind.name()));
        assert!(info.mount_options.as_ref().unwrap().contains("noatime"), "{info:?}");
        assert!(info.device.as_ref().unwrap().starts_with("loop") && info.emulated, "{info:?}");
        assert_eq!(disk.labels()[..2], [Label::Emulated, Label::Loop]);
        let below = disk::inspect(root.path()).unwrap().details.device_chain;
        assert_eq!(info.details.device_chain[1..], below, "{kind}");
        // Threads that are started now see it.
        let path = disk.directory().join("file");
        std::thread::spawn(move || fs::write(path, [1; 4096]).unwrap()).join().unwrap();
        assert!(disk.directory().join("file").exists());
        let kept = fs::File::open(disk.directory().join("file")).unwrap();
        drop(kept);
        drop(disk);
        assert_eq!(left_behind(root.path()), [""; 0], "{kind}");
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0, "{kind}");
    }
}

#[test]
fn a_mount_that_is_refused_is_said_and_leaves_nothing() {
    if crashlab::block::takes_images(FsKind::Ext4).is_err() {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let spec = loop_of(root.path(), FsKind::Ext4, 32 << 20, "no-such-option");
    let refused = Disk::make(&spec, root.path(), &no_server()).unwrap().unwrap_err();
    assert!(refused.why.starts_with("mount failed"), "{refused}");
    assert_eq!(left_behind(root.path()), [""; 0]);
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
}

#[test]
fn a_disk_that_is_too_small_or_too_large_is_refused_beforehand() {
    let root = tempfile::tempdir().unwrap();
    let spec = loop_of(root.path(), FsKind::Xfs, 1 << 20, "");
    let error = Disk::make(&spec, root.path(), &no_server()).unwrap_err();
    assert!(error.to_string().contains("320 MiB or more"), "{error}");
    if crashlab::block::takes_images(FsKind::Ext4).is_err() {
        return;
    }
    let spec = loop_of(root.path(), FsKind::Ext4, 1 << 60, "");
    let unavailable = Disk::make(&spec, root.path(), &no_server()).unwrap().unwrap_err();
    assert!(unavailable.why.contains("does not fit"), "{unavailable}");
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
}

#[test]
fn what_a_killed_process_left_goes_with_the_next_disk() {
    if crashlab::block::may_mount().is_err() {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let stale = root.path().join("flushmark-bench-4194305-0");
    fs::create_dir(&stale).unwrap();
    fs::write(stale.join("owner.lock"), "").unwrap();
    fs::write(stale.join("image"), [0; 4096]).unwrap();
    let disk = make(&DiskSpec::Tmpfs { bytes: 1 << 20 }, root.path());
    assert!(!stale.exists() && disk.is_some());
}

#[test]
fn a_record_of_a_made_disk_reads_back() {
    let made = Made {
        kind: MadeKind::Emulated,
        disk_type: Some("sata-plp".to_owned()),
        bytes: 1 << 30,
        backing: None,
        direct_io: Some(true),
        calibration: Some(calibration(143_000, 150_000)),
    };
    let text = serde_json::to_string(&made).unwrap();
    assert!(text.contains("\"asked_ns\":143000") && text.contains("error_pct"), "{text}");
    assert_eq!(serde_json::from_str::<Made>(&text).unwrap(), made);
}
