//! `cargo xtask powercut` as its users call it.
#![expect(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use harness::powercut::read;
use harness::powercut::results::{PlaceKind, PowerCuts, Verdict};
use harness::results::Outcome;

fn powercut(results: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.arg("powercut").args(arguments).arg("--out").arg(results);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(results: &Path, arguments: &[&str]) -> Output {
    powercut(results, arguments).output().unwrap()
}

fn run_of(results: &Path, arguments: &[&str]) -> PowerCuts {
    assert_eq!(run(results, arguments).status.code(), Some(0));
    read(&results.join("latest-powercut")).unwrap().0
}

fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (text(&output.stdout), text(&output.stderr))
}

/// Why a disk with ext4 cannot be emulated here, said aloud.
fn cannot_emulate() -> bool {
    match crashlab::block::available(crashlab::block::FsKind::Ext4) {
        Ok(()) => false,
        Err(missing) => {
            let mut out = std::io::stderr().lock();
            writeln!(out, "left out: power cuts on an emulated disk: {missing}").unwrap();
            true
        }
    }
}

/// What of this process's mounts and of the loop devices is an emulated disk's.
fn left_behind(work: &Path) -> Vec<String> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let work = work.display().to_string();
    let mut left: Vec<String> =
        mounts.lines().filter(|line| line.contains(&work)).map(str::to_owned).collect();
    for device in std::fs::read_dir("/sys/block").unwrap() {
        let file: PathBuf = device.unwrap().path().join("loop/backing_file");
        left.extend(std::fs::read_to_string(file).into_iter().filter(|file| file.contains(&work)));
    }
    left
}

#[test]
fn a_few_cuts_of_each_strategy_lose_nothing_that_was_promised() {
    if cannot_emulate() {
        return;
    }
    let (results, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let arguments = ["--cuts", "3", "--interval", "20ms", "--seed", "7"];
    let output = powercut(results.path(), &arguments).env("TMPDIR", work.path()).output().unwrap();
    let (stdout, stderr) = texts(&output);
    assert_eq!(output.status.code(), Some(0), "{stdout}\n{stderr}");
    assert!(stdout.starts_with("EMULATED disk: ext4 on a block device in user space"), "{stdout}");
    assert!(stdout.lines().all(|line| line.chars().count() <= 80), "{stdout}");
    assert!(stderr.contains("report   "), "{stderr}");
    let (run, cuts) = read(&results.path().join("latest-powercut")).unwrap();
    assert_eq!((run.outcome, run.place.kind), (Outcome::Complete, PlaceKind::Emulated));
    let names: Vec<&str> = run.cases.iter().map(|case| case.case.as_str()).collect();
    assert_eq!(names, ["sync", "timed 20 ms", "staged 20 ms"]);
    for case in &run.cases {
        let observed = &case.observed;
        assert_eq!((observed.cuts, observed.checked, observed.states), (3, 3, 6));
        assert_eq!((observed.violated, observed.above_gauge), (0, 0), "{observed:?}");
        assert!(case.acked > 0 && case.record_bytes > 512);
        assert_eq!(case.gauge_messages.len(), 201);
    }
    assert_eq!(run.cases[0].agreement.verdict, Verdict::NothingAtRisk);
    assert!(run.cases[1..].iter().all(|case| case.gauge.messages.max > 0));
    assert_eq!(cuts.len(), 9);
    assert!(cuts.iter().all(|cut| cut.acked >= cut.at_risk));
    assert_eq!(left_behind(work.path()), Vec::<String>::new());
    assert_eq!(std::fs::read_dir(work.path()).unwrap().count(), 0, "a directory is left");
}

#[test]
fn the_type_of_the_disk_can_be_chosen() {
    if cannot_emulate() {
        return;
    }
    let results = tempfile::tempdir().unwrap();
    let arguments = ["--cuts", "1", "--strategy", "sync", "--disk", "sata-noplp"];
    let run = run_of(results.path(), &arguments);
    assert!(run.place.disk.ends_with("sata-noplp (2.0 ms a sync)"), "{}", run.place.disk);
    let (_, stderr) = texts(&self::run(results.path(), &["--disk", "floppy"]));
    assert!(stderr.contains("nvme-noplp") && stderr.contains("hdd-7200"), "{stderr}");
}

#[test]
fn without_what_it_needs_it_says_so_and_goes_on_simulated() {
    let results = tempfile::tempdir().unwrap();
    // Whatever this machine can do: without programs no disk can be made.
    let arguments = ["--cuts", "2", "--strategy", "timed", "--strategy", "sync"];
    let output = powercut(results.path(), &arguments).env("PATH", "/nowhere").output().unwrap();
    let (stdout, stderr) = texts(&output);
    assert_eq!(output.status.code(), Some(0), "{stdout}\n{stderr}");
    let said = stderr.lines().next().unwrap();
    assert!(said.starts_with("no disk can be emulated here: "), "{stderr}");
    assert!(said.ends_with("; going on SIMULATED"), "{stderr}");
    assert!(stdout.starts_with("SIMULATED disk: files in memory"), "{stdout}");
    assert!(stdout.contains("not emulated: "), "{stdout}");
    let (run, _) = read(&results.path().join("latest-powercut")).unwrap();
    assert_eq!(run.place.kind, PlaceKind::Simulated);
    assert_eq!(run.cases.iter().map(|case| case.observed.checked).collect::<Vec<_>>(), [2, 2]);
    let again = tempfile::tempdir().unwrap();
    let asked = [&arguments[..], &["--simulated"]].concat();
    assert_eq!(run_of(again.path(), &asked).cases, run.cases, "nothing but the seed decides");
}

#[test]
fn ctrl_c_keeps_the_cuts_and_leaves_nothing_mounted() {
    if cannot_emulate() {
        return;
    }
    let (results, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let arguments = ["--cuts", "100000", "--strategy", "sync"];
    let mut command = powercut(results.path(), &arguments);
    // A terminal sends the signal to the whole group, the disk's process included.
    command.env("TMPDIR", work.path()).process_group(0);
    let mut child = command.spawn().unwrap();
    let lines = || {
        let found = std::fs::read_dir(results.path()).ok()?.next()?.ok()?.path();
        std::fs::read_to_string(found.join("cuts.jsonl")).ok().map(|text| text.lines().count())
    };
    while lines().unwrap_or(0) == 0 {
        assert_eq!(child.try_wait().unwrap(), None, "it has ended by itself");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let group = format!("-{}", child.id());
    // Who runs the tests under `nohup` or behind a shell's `&` has children that do not hear INT.
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    let is_ignored = u64::from_str_radix(ignored.trim(), 16).unwrap() & 0b10 != 0;
    let signal = if is_ignored { "-TERM" } else { "-INT" };
    assert!(Command::new("kill").args([signal, "--", &group]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let (stdout, stderr) = texts(&output);
    assert_eq!(output.status.code(), Some(130), "{stdout}\n{stderr}");
    assert!(stderr.contains("cuts were made and are kept"), "{stderr}");
    let (run, cuts) = read(&results.path().join("latest-powercut")).unwrap();
    assert_eq!(run.outcome, Outcome::Interrupted);
    assert_eq!(usize::try_from(run.cases[0].observed.cuts).unwrap(), cuts.len());
    assert!(!cuts.is_empty());
    assert_eq!(left_behind(work.path()), Vec::<String>::new());
    assert_eq!(std::fs::read_dir(work.path()).unwrap().count(), 0, "a directory is left");
}

#[test]
fn what_is_not_understood_is_a_usage_error() {
    let results = tempfile::tempdir().unwrap();
    for arguments in [
        &["--cuts", "0"][..],
        &["--strategy", "none"],
        &["--fs", "vfat"],
        &["--interval", "50"],
        &["--interval"],
    ] {
        let output = run(results.path(), arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
    }
    assert_eq!(std::fs::read_dir(results.path()).unwrap().count(), 0);
}
