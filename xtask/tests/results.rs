//! `cargo xtask report`, `compare` and `capacity` as their users call them.
//!
//! On results as the first version of the schema recorded them: `results/*.json` are a cell, an
//! environment and a manifest of a real run, with host, directory and revision made up.
#![expect(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

#[path = "results/browser.rs"]
mod browser;
#[path = "results/driver.rs"]
mod driver;

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Exit code, stdout and stderr.
fn xtask(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_xtask")).args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// A result directory of so many blocks, at this part of the recorded rate.
fn results(at: &Path, run: &str, blocks: u32, factor: f64) -> String {
    let parse = |text| serde_json::from_str::<Value>(text).unwrap();
    let mut manifest = parse(include_str!("results/manifest.json"));
    (manifest["run"], manifest["blocks"]) = (run.into(), blocks.into());
    let mut cell = parse(include_str!("results/cell.json"));
    let rate = cell["acked_per_s"].as_f64().unwrap();
    let mut lines = String::new();
    for block in 0..blocks {
        (cell["run"], cell["block"]) = (run.into(), block.into());
        // Blocks differ by a percent or two.
        cell["acked_per_s"] = (rate * factor * (1.0 + 0.01 * f64::from(block % 3))).into();
        lines.push_str(&cell.to_string());
        lines.push('\n');
    }
    let directory = at.join(run);
    fs::create_dir(&directory).unwrap();
    fs::write(directory.join("cells.jsonl"), lines).unwrap();
    fs::write(directory.join("env.json"), include_str!("results/env.json")).unwrap();
    fs::write(directory.join("manifest.json"), manifest.to_string()).unwrap();
    directory.to_str().unwrap().to_owned()
}

/// Results whose every name does harm where it is not escaped, of an invalid, an emulated and an
/// extreme cell, and of one that loses nothing.
fn hostile(at: &Path) -> String {
    let directory = results(at, "hostile", 4, 1.0);
    let harm = "\"'><script>window.ran = 1</script><img src=http://192.0.2.1/x onerror=ran()>";
    let path = Path::new(&directory).join("cells.jsonl");
    let parse = |line: &str| serde_json::from_str::<Value>(line).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    let mut cells: Vec<Value> = text.lines().map(parse).collect();
    for cell in &mut cells {
        for name in ["strategy", "workload", "cell", "disk"] {
            cell[name] = harm.into();
        }
    }
    cells[0]["status"] = "invalid".into();
    cells[1]["emulated"] = true.into();
    cells[2]["acked_per_s"] = 1e300.into();
    cells[2]["append_to_ack_ns"]["p99"] = u64::MAX.into();
    cells[2]["exposure"]["power"]["age_ns"]["p99"] = u64::MAX.into();
    cells[3]["exposure"]["power"]["age_ns"]["p99"] = 0.into();
    let lines: String = cells.iter().map(|cell| cell.to_string() + "\n").collect();
    fs::write(path, lines).unwrap();
    for (file, names) in [
        ("env.json", &["cpu_model", "kernel", "host_hash", "distribution"][..]),
        ("manifest.json", &["sweep", "profile", "directory"]),
    ] {
        let path = Path::new(&directory).join(file);
        let mut value = parse(&fs::read_to_string(&path).unwrap());
        for name in names {
            value[*name] = harm.into();
        }
        fs::write(path, value.to_string()).unwrap();
    }
    directory
}

#[test]
fn a_report_is_made_again_and_several_are_put_side_by_side() {
    let place = tempfile::tempdir().unwrap();
    let a = results(place.path(), "a", 3, 1.0);
    let b = results(place.path(), "b", 3, 0.5);
    let read = |path: &str| fs::read_to_string(place.path().join(path)).unwrap();
    let before = read("a/cells.jsonl");
    let (code, told, _) = xtask(&["report", &a]);
    assert_eq!((code, told.trim_end()), (Some(0), &*format!("{a}/report.html")));
    assert!(read("a/report.html").contains("C1: throughput and power cut"));
    assert_eq!(read("a/cells.jsonl"), before);
    let (code, table, errors) = xtask(&["report", &a, "--table"]);
    assert_eq!(code, Some(0), "{errors}");
    assert!(table.contains("p99.9") && table.lines().all(|line| line.chars().count() <= 80));
    assert!(errors.contains("report.html"), "{errors}");
    let (code, json, _) = xtask(&["report", &a, "--json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((code, &json["schema"]), (Some(0), &"flushmark.summary/1.0".into()));
    for both in [&["report", &a, "--json", "--table"][..], &["report", &a, &b, "--json"]] {
        assert_eq!(xtask(both).0, Some(1), "{both:?}");
    }
    let (code, _, errors) = xtask(&["report", &a, &b]);
    assert_eq!(code, Some(1));
    assert!(errors.contains("say with --out DIR"), "{errors}");
    let out = place.path().join("both");
    let (code, _, errors) = xtask(&["report", &a, &b, "--out", out.to_str().unwrap()]);
    assert_eq!(code, Some(0), "{errors}");
    let page = read("both/report.html");
    assert!(page.contains("m1-c1-title") && page.contains("Rows side by side"));
    let (code, _, errors) = xtask(&["report", place.path().to_str().unwrap()]);
    assert_eq!(code, Some(1));
    assert!(errors.contains("is no result directory of a sweep"), "{errors}");
}

#[test]
fn a_regression_is_told_by_the_exit_code() {
    let place = tempfile::tempdir().unwrap();
    let a = results(place.path(), "a", 7, 1.0);
    let slower = results(place.path(), "slower", 7, 0.8);
    let few = results(place.path(), "few", 3, 0.8);
    let code = |b: &str, more: &[&str]| xtask(&[&["compare", &a, b], more].concat()).0;
    assert_eq!(code(&slower, &[]), Some(0));
    assert_eq!(code(&slower, &["--fail-over", "10"]), Some(4));
    assert_eq!(code(&slower, &["--fail-over", "30"]), Some(0));
    assert_eq!(code(&few, &["--fail-over", "10"]), Some(2), "nothing could be told");
    assert_eq!(code(&a, &[]), Some(1), "the same run");
    let (_, told, errors) = xtask(&["compare", &a, &slower, "--fail-over", "10"]);
    assert!(told.contains("slower") && told.lines().all(|line| line.chars().count() <= 80));
    assert!(errors.contains("regression: sync ×64"), "{errors}");
    let (_, json, _) = xtask(&["compare", &a, &slower, "--json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["schema"], "flushmark.compare/1.0");
    assert_eq!(json["rows"][0]["word"], "slower", "{json}");
}

#[test]
fn what_has_no_figures_to_compare_does_not_pass_as_well() {
    let place = tempfile::tempdir().unwrap();
    // A second row beside the first, of which `edit` makes what it is in this run.
    let with = |run: &str, edit: &dyn Fn(&mut Value)| {
        let directory = results(place.path(), run, 7, 1.0);
        let path = Path::new(&directory).join("cells.jsonl");
        let mut lines = fs::read_to_string(&path).unwrap();
        for line in lines.clone().lines() {
            let mut cell: Value = serde_json::from_str(line).unwrap();
            cell["strategy"] = "other".into();
            edit(&mut cell);
            lines += &cell.to_string();
            lines.push('\n');
        }
        fs::write(path, lines).unwrap();
        directory
    };
    let a = with("a", &|_| ());
    let check = |b: &str, expect: i32, said: &str| {
        let (code, told, errors) = xtask(&["compare", &a, b, "--fail-over", "10"]);
        assert_eq!(code, Some(expect), "{told}{errors}");
        assert!(errors.contains(said), "{errors}");
        assert_eq!(xtask(&["compare", &a, b]).0, Some(0), "nothing was asked");
    };
    check(&with("same", &|_| ()), 0, "");
    let overload = with("overload", &|cell| cell["status"] = "overload".into());
    check(&overload, 4, "regression: other ×64 (");
    let invalid = with("invalid", &|cell| cell["status"] = "invalid".into());
    check(&invalid, 2, "): invalid in 7 of 7 blocks of B, in 0 of 7 of A");
    check(&results(place.path(), "gone", 7, 1.0), 2, "): B does not have it");
    check(&results(place.path(), "worse", 7, 0.8), 4, "cannot be told: other ×64 (");
}

#[test]
fn a_simulated_disk_makes_no_exit_code_where_there_is_a_real_one() {
    let place = tempfile::tempdir().unwrap();
    let a = results(place.path(), "a", 7, 1.0);
    let cells = format!("{a}/cells.jsonl");
    let mut lines = fs::read_to_string(&cells).unwrap();
    for line in lines.clone().lines() {
        let mut cell: Value = serde_json::from_str(line).unwrap();
        let rate = cell["acked_per_s"].as_f64().unwrap();
        (cell["disk"], cell["simulated"]) = ("model".into(), true.into());
        cell["acked_per_s"] = (10.0 * rate).into();
        lines = lines + &cell.to_string() + "\n";
    }
    fs::write(&cells, lines).unwrap();
    let (code, told, errors) =
        xtask(&["capacity", &a, "--rate", "300k", "--size", "1KiB", "--loss", "0"]);
    assert_eq!(code, Some(4), "{told}{errors}");
    assert!(told.contains("disk model (SIMULATED: says nothing about real hardware)"), "{told}");
    let code = xtask(&["capacity", &a, "--rate", "50k", "--size", "1KiB", "--loss", "0"]).0;
    assert_eq!(code, Some(0));
}

#[test]
fn capacity_says_what_carries_a_load() {
    let place = tempfile::tempdir().unwrap();
    let a = results(place.path(), "a", 7, 1.0);
    let ask = |rate: &str, more: &[&str]| {
        let asked = ["capacity", &*a, "--rate", rate, "--size", "1KiB", "--loss", "0"];
        xtask(&[&asked, more].concat())
    };
    let (code, told, errors) = ask("50k", &["--p99", "10ms"]);
    assert_eq!(code, Some(0), "{errors}");
    assert!(told.contains("→ sync (as-found): measured; up to 1"), "{told}");
    assert!(told.contains("(closed loop: service time)") && told.contains("7 blocks"), "{told}");
    assert!(told.lines().all(|line| line.chars().count() <= 80), "{told}");
    let (code, told, _) = ask("300k", &["--p99", "10ms"]);
    assert_eq!(code, Some(4));
    assert!(told.contains("3 disks, each with a log of its own"), "{told}");
    assert_eq!(ask("50k", &["--p99", "1ms"]).0, Some(4), "it takes 1.6 ms");
    let (_, json, _) = ask("50k", &["--json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["choices"][0]["basis"], "measured", "{json}");
}
