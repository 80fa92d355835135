//! `cargo xtask limits` as its users call it.
#![expect(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use harness::limits::{Case, Contender, Limits};

fn limits(directory: &Path, results: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.arg("limits").arg("--dir").arg(directory).arg("--results").arg(results);
    command.args(arguments).output().unwrap()
}

#[test]
fn every_contender_of_a_case_is_measured_in_every_round_and_nothing_stays() {
    let (work, results) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let short = ["--rounds", "2", "--measure-ms", "100", "--case", "sync-1", "--case", "sync-16"];
    let output = limits(work.path(), results.path(), &short);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{errors}");
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(table.contains("16 producers wait for their sync, 1 KiB"), "{table}");
    assert!(!table.contains("tickets"), "{table}");
    let path = results.path().join("latest-limits/limits.json");
    let found: Limits = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!((found.rounds_done, found.rounds_planned), (2, 2));
    for (case, contender) in [
        (Case::Sync1, Contender::Fdatasync),
        (Case::Sync1, Contender::Lead),
        (Case::Sync1, Contender::HandOver),
        (Case::Sync16, Contender::Fdatasync),
        (Case::Sync16, Contender::Lead),
    ] {
        let measured = found.measurements.iter();
        let rounds: Vec<u32> = measured
            .filter(|it| it.case == case && it.contender == contender && it.records > 0)
            .map(|it| it.round)
            .collect();
        assert_eq!(rounds, [0, 1], "{case:?} {contender:?}");
    }
    assert_eq!(fs::read_dir(work.path()).unwrap().count(), 0, "files were left");
}

#[test]
fn what_cannot_be_measured_is_said_in_a_line() {
    let results = tempfile::tempdir().unwrap();
    let missing = limits(Path::new("/nonexistent/disk"), results.path(), &[]);
    assert_eq!(missing.status.code(), Some(1));
    let errors = String::from_utf8(missing.stderr).unwrap();
    assert!(errors.contains("/nonexistent/disk") && errors.lines().count() == 1, "{errors}");
    assert_eq!(fs::read_dir(results.path()).unwrap().count(), 0);
    let wrong = limits(results.path(), results.path(), &["--case", "sync-2"]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(String::from_utf8(wrong.stderr).unwrap().contains("sync-16"));
}
