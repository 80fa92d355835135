//! `cargo xtask limits` as its users call it.
#![expect(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

use harness::limits::{Case, Contender, Limits};

/// In 20 ms nothing may come to its end beside another test's gigabytes.
static ALONE: Mutex<()> = Mutex::new(());

fn limits(directory: &Path, results: &Path, arguments: &[&str]) -> Output {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
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
fn what_moves_gigabytes_is_small_where_little_time_is_given() {
    let (work, results) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let short = ["--rounds", "1", "--measure-ms", "10", "--case", "sustained"];
    let short = [&short[..], &["--case", "paced", "--case", "scan"]].concat();
    let output = limits(work.path(), results.path(), &short);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{errors}");
    let table = String::from_utf8(output.stdout).unwrap();
    let path = results.path().join("latest-limits/limits.json");
    let found: Limits = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let of = |case, contender| {
        let mut measured = found.measurements.iter();
        measured.find(|it| it.case == case && it.contender == contender)
    };
    // Not every file system can be mapped, or has O_DIRECT.
    for (case, contender) in [
        (Case::Paced, Contender::Fdatasync),
        (Case::Scan, Contender::Read),
        (Case::Scan, Contender::Checksum),
        (Case::Scan, Contender::Open),
    ] {
        let found = of(case, contender).unwrap_or_else(|| panic!("{case:?} {contender:?}"));
        let bytes = found.bulk.unwrap().bytes;
        assert!((1 << 20..100 << 20).contains(&bytes), "{found:?}");
        assert_eq!(found.tail.is_some(), case == Case::Paced, "{found:?}");
        assert!(table.contains(contender.words()), "{table}");
    }
    let read = of(Case::Scan, Contender::Read).map(|found| found.records);
    let opened = of(Case::Scan, Contender::Open).map(|found| found.records);
    let [read, opened] = [read, opened].map(Option::unwrap_or_default);
    assert!(read.abs_diff(opened) < read / 100, "{read} {opened}");
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
