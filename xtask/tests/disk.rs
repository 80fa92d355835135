//! `cargo xtask disk` as its users call it.
#![expect(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crashlab::block::FsKind;
use harness::card::Card;
use harness::clock::now;
use harness::results::Environment;

fn disk(directory: &Path, results: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.arg("disk").arg(directory).arg("--results").arg(results).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (text(&output.stdout), text(&output.stderr))
}

fn records(results: &Path) -> (Card, Environment) {
    let read = |name: &str| fs::read_to_string(results.join("latest-disk").join(name)).unwrap();
    let card = serde_json::from_str(&read("card.json")).unwrap();
    (card, serde_json::from_str(&read("env.json")).unwrap())
}

/// Whether a disk cannot be made here, said aloud.
fn cannot(found: Result<(), crashlab::block::Missing>) -> bool {
    let Err(missing) = found else {
        return false;
    };
    writeln!(std::io::stderr().lock(), "left out: {missing}").unwrap();
    true
}

/// Loop devices on files below `work`.
fn left_behind(work: &Path) -> Vec<String> {
    let work = work.display().to_string();
    let devices = fs::read_dir("/sys/block").unwrap();
    let files = devices.filter_map(|device| {
        fs::read_to_string(device.ok()?.path().join("loop/backing_file")).ok()
    });
    files.filter(|file| file.contains(&work)).collect()
}

#[test]
fn an_image_has_a_card_and_is_gone_afterwards() {
    if cannot(crashlab::block::takes_images(FsKind::Ext4)) {
        return;
    }
    let (work, results) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let options = ["--kind", "loop", "--size-mib", "1024", "--mount-options", "noatime"];
    let (out, err) = texts(&disk(work.path(), results.path(), &options).output().unwrap());
    assert!(out.contains("at 64 producers"), "{out}{err}");
    assert!(out.contains("figures are: EMULATED, loop"), "{out}");
    assert!(out.lines().all(|line| line.chars().count() <= 80), "{out}");
    let (card, env) = records(results.path());
    assert_eq!(card.methods.len(), 5, "ext4 can do all");
    assert!(card.methods.iter().all(|row| row.flushes_per_sync.is_some()), "{card:?}");
    assert!(env.disk.mount_options.unwrap().contains("noatime"));
    assert!(env.disk.details.device_chain[0].starts_with("loop"));
    assert_eq!(left_behind(work.path()), [""; 0]);
    assert_eq!(fs::read_dir(work.path()).unwrap().count(), 0);
}

#[test]
fn an_emulated_type_says_what_was_asked_and_obtained() {
    if cannot(crashlab::block::available(FsKind::Ext4)) {
        return;
    }
    let (work, results) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let options = ["--kind", "hdd-7200", "--size-mib", "1024"];
    let output = disk(work.path(), results.path(), &options).output().unwrap();
    let (out, err) = texts(&output);
    if output.status.code() == Some(3) {
        // On a machine as busy as that.
        assert!(err.contains("less than twice"), "{err}");
        writeln!(std::io::stderr().lock(), "left out: {err}").unwrap();
        return;
    }
    let (card, env) = records(results.path());
    let made = env.disk.details.made.unwrap();
    let found = made.calibration.unwrap();
    assert_eq!(made.disk_type.as_deref(), Some("hdd-7200"));
    assert!((12_200_000..12_300_000).contains(&found.asked_ns), "{found:?}");
    assert!(0 < found.floor_ns && found.floor_ns * 2 < found.asked_ns, "{found:?}");
    assert!(err.contains("asked 12 ms"), "{err}");
    // What else runs on a test machine may make it miss; then both say so.
    let missed = "asked latency missed".to_owned();
    assert_eq!(card.labels.contains(&missed), !found.has_landed(), "{card:?}");
    assert_eq!(out.contains("MISSED"), !found.has_landed(), "{out}");
    assert_eq!(card.methods[0].flushes_per_sync.map(f64::round), Some(1.0));
    assert!(out.contains("NOT FIT"), "{out}");
}

#[test]
fn a_type_that_is_too_fast_is_refused_with_the_reason() {
    if cannot(crashlab::block::available(FsKind::Ext4)) {
        return;
    }
    let (work, results) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let output = disk(work.path(), results.path(), &["--kind", "nvme-plp"]).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    let (_, err) = texts(&output);
    assert!(err.contains("nvme-plp cannot be made here: its syncs take 21 µs"), "{err}");
    assert!(err.contains("emulate a slower type"), "{err}");
    assert_eq!(fs::read_dir(results.path()).unwrap().count(), 0);
}

#[test]
fn kill_9_leaves_no_device_and_the_next_start_removes_the_image() {
    if cannot(crashlab::block::takes_images(FsKind::Ext4)) {
        return;
    }
    let (work, results) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut child = disk(work.path(), results.path(), &["--kind", "loop"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().starts_with("measuring")), "it was mounted");
    assert_ne!(left_behind(work.path()), [""; 0]);
    child.kill().unwrap();
    child.wait().unwrap();
    // The last to let go of the mounts may be a child of the kernel's: it is soon.
    let begun = now();
    while !left_behind(work.path()).is_empty() {
        let waited = now().since(begun).get();
        assert!(waited < 20_000_000_000, "{:?}", left_behind(work.path()));
        std::thread::yield_now();
    }
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(&*work.path().to_string_lossy()));
    assert_eq!(fs::read_dir(work.path()).unwrap().count(), 1, "the image");
    let small = ["--kind", "loop", "--size-mib", "40"];
    let (_, err) = texts(&disk(work.path(), results.path(), &small).output().unwrap());
    assert!(err.contains("640 MiB are needed"), "{err}");
    assert_eq!(fs::read_dir(work.path()).unwrap().count(), 0, "{err}");
}

#[test]
fn what_is_not_a_directory_or_a_kind_is_an_error() {
    let results = tempfile::tempdir().unwrap();
    let run = |path: &str, options: &[&str]| {
        let output = disk(Path::new(path), results.path(), options).output().unwrap();
        (output.status.code(), texts(&output).1)
    };
    let (code, err) = run("/nonexistent/flushmark", &[]);
    assert!(code == Some(1) && err.contains("/nonexistent/flushmark"), "{err}");
    let (code, err) = run("/tmp", &["--kind", "floppy"]);
    assert!(code == Some(1) && err.contains("sata-plp"), "{err}");
    let (code, err) = run("/tmp", &["--mount-options", "noatime"]);
    assert!(code == Some(1) && err.contains("disks that are made"), "{err}");
}
