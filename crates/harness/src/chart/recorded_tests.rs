//! Charts C4, C6, C7 and C8 of results made by hand.

use std::fs;
use std::path::Path;

use hdrhistogram::Histogram;
use store_core::Nanos;

use super::drawn::{Drawn, all};
use crate::cell::Measured;
use crate::distribution::{record_size, sizes};
use crate::format;
use crate::output::Output;
use crate::recorded::{Recorded, file_stem};
use crate::results::{Cell, Dirty, Environment, Kind, Quantiles, Status};
use crate::results_fixture::{HOSTILE, cell, environment, extreme, manifest};
use crate::series::Flush;

const MIB: u64 = 1 << 20;
const MS: u64 = 1_000_000;

/// Two blocks of every strategy under eight producers and each of two kernel settings.
fn cells() -> Vec<Cell> {
    let kinds = [Kind::None, Kind::GroupCommit, Kind::FlushRealtime, Kind::CommitRealtime];
    let mut cells = Vec::new();
    for (sysctl, most) in [("kernel-default", 900), ("small-bytes", 256)] {
        for kind in kinds {
            for block in 0..2 {
                cells.push(cell(kind, 8, block, |c| {
                    c.cell = format!("{sysctl}/{}", c.cell);
                    sysctl.clone_into(&mut c.sysctl);
                    let unsynced = kind != Kind::GroupCommit;
                    let dirty = if unsynced { most - u64::from(block) } else { 1 };
                    c.dirty.max_bytes = Some(dirty * MIB);
                    let waits = c.exposure.power.age_ns.p99;
                    if unsynced && kind != Kind::None {
                        c.interval.configured_ns = Some(500 * MS);
                        c.ack_to_durable_ns =
                            Quantiles { count: 9, p50: waits / 2, p99: waits, ..c.flush_ns };
                    } else if kind == Kind::GroupCommit {
                        c.ack_to_durable_ns.count = 9;
                    }
                }));
            }
        }
    }
    cells
}

/// As many nanoseconds at each of so many ages, up to `longest`.
fn ages(longest: u64) -> Histogram<u64> {
    let mut ages = sizes();
    for nth in 1..=20 {
        record_size(&mut ages, longest * nth / 20, 100);
    }
    ages
}

/// A few seconds of a cell as CSV: dirty pages rise to the cell's maximum and fall.
fn series(cell: &Cell) -> String {
    let limit = if cell.sysctl == "small-bytes" { 256 } else { 4600 } * MIB;
    let mut text = "t_ns,flushes,worst_append_ns,dirty_bytes,writeback_bytes,\
         background_limit_bytes,limit_bytes,throttled\n"
        .to_owned();
    for nth in 1..=20_u64 {
        let dirty = cell.dirty.max_bytes.unwrap_or(0) / 10 * (10 - nth.abs_diff(12).min(10));
        let throttled = u8::from(dirty > limit / 8 * 5);
        let worst = if nth == 5 { 0 } else { 100_000 + u64::from(throttled) * 80 * MS };
        let at = nth * 100 * MS;
        let row = format!("{at},{},{worst},{dirty},0,{},{limit},{throttled}", nth / 5, limit / 4);
        text = text + &row + "\n";
    }
    text
}

/// Syncs of 16 KiB and more that take 2 ms and 10 ns a byte, about.
fn flushes(cell: &Cell) -> Vec<Flush> {
    let more = match cell.kind {
        Kind::CommitRealtime => 8_000,
        Kind::FlushRealtime => 4_000,
        _ => 0,
    };
    let flush = |nth: u64| {
        let bytes = (16_384 + more) << (nth % 8);
        let took = (2 * MS + 10 * bytes) / 20 * (19 + (nth + u64::from(cell.block)) % 3);
        Flush { bytes, took: Nanos::new(took) }
    };
    if cell.kind == Kind::None { Vec::new() } else { (0..48).map(flush).collect() }
}

/// Leaves what a run records of these cells in a directory below `root`.
fn record(root: &Path, cells: &[Cell], env: &Environment) -> Recorded {
    let mut output = Output::create(root, "run").unwrap();
    for cell in cells {
        let exposure = cell.exposure;
        let histograms = vec![
            ("exposure_power_age", ages(exposure.power.age_ns.p99)),
            ("exposure_process_age", ages(exposure.process.age_ns.p99)),
            ("ack_to_written", ages(exposure.process.age_ns.p99)),
        ];
        let (cell, flushes) = (cell.clone(), flushes(cell));
        let measured = Measured { cell, histograms, series: Vec::new(), flushes };
        output.write_cell(&measured).unwrap();
        let cell = &measured.cell;
        let file = format!("series/{}.csv", file_stem(cell));
        fs::write(output.path().join(file), series(cell)).unwrap();
    }
    Recorded::new(&manifest(), env, cells, Some(output.path()))
}

fn drawn_in(cells: &[Cell], env: &Environment) -> Vec<Drawn> {
    let root = tempfile::tempdir().unwrap();
    let mut drawn = all(&record(root.path(), cells, env)).unwrap();
    drawn.retain(|chart| OURS.contains(&chart.name.as_str()));
    drawn
}

fn drawn(cells: &[Cell]) -> Vec<Drawn> {
    drawn_in(cells, &environment())
}

fn names(drawn: &[Drawn]) -> Vec<&str> {
    drawn.iter().map(|chart| chart.name.as_str()).collect()
}

const OURS: [&str; 4] = ["c4", "c6", "c7", "c8"];

/// Compares with the file; `UPDATE_GOLDEN=1` writes it anew, to be looked at before it is kept.
#[track_caller]
fn check_golden(chart: &Drawn) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/chart/golden");
    let file = folder.join(format!("{}.svg", chart.name));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&file, &chart.svg).unwrap();
    }
    let golden = fs::read_to_string(&file).unwrap();
    let mut lines = golden.lines().zip(chart.svg.lines());
    let differs = lines.find(|(golden, found)| golden != found);
    assert_eq!(differs, None, "{}", chart.name);
    assert_eq!(golden.len(), chart.svg.len(), "{}", chart.name);
}

#[test]
fn the_charts_are_those_that_were_looked_at() {
    let drawn = drawn(&cells());
    assert_eq!(names(&drawn), OURS);
    drawn.iter().for_each(check_golden);
}

#[test]
fn the_order_of_cells_does_not_matter() {
    let mut cells = cells();
    cells.reverse();
    drawn(&cells).iter().for_each(check_golden);
}

#[test]
fn each_is_an_image_with_a_name_and_a_table() {
    for chart in drawn(&cells()) {
        let id = &chart.name;
        let tag = format!("role=\"img\" aria-labelledby=\"{id}-title {id}-desc\">");
        assert!(chart.svg.contains(&tag), "{id}");
        let question = format::escaped(chart.question);
        assert!(chart.svg.contains(&format!("<title id=\"{id}-title\">{question}")), "{id}");
        assert_eq!(chart.svg.matches(" id=").count(), 2);
        assert!(!chart.rows.is_empty() && !chart.note.is_empty());
        for row in &chart.rows {
            assert_eq!(row.len(), chart.heads.len(), "{id}");
        }
    }
}

#[test]
fn what_was_not_recorded_is_not_drawn() {
    let env = environment();
    let found = all(&Recorded::new(&manifest(), &env, &cells(), None)).unwrap();
    let ours: Vec<&str> = names(&found).into_iter().filter(|name| OURS.contains(name)).collect();
    assert_eq!(ours, ["c7"], "the records alone have its figures");
    assert!(drawn(&[]).is_empty());
    let raw = cell(Kind::Raw, 1, 0, |_| {});
    assert!(drawn(&[raw]).is_empty(), "the raw loop is no strategy");
}

#[test]
fn one_cell_is_enough() {
    let one = cells().swap_remove(4);
    let drawn = drawn(std::slice::from_ref(&one));
    assert_eq!(names(&drawn), OURS);
    let only = |nth: usize| drawn[nth].rows.len();
    assert_eq!((only(0), only(1), only(2)), (1, 2, 3), "a block, two crashes, three parts");
    assert!(!drawn[0].svg.contains("other blocks"));
}

#[test]
fn over_time_takes_the_strategy_with_most_dirty_pages_and_each_kernel_setting() {
    let found = &drawn(&cells())[0];
    assert!(found.note.starts_with("staged, workload closed-1k, 8 producers"), "{}", found.note);
    assert!(found.note.contains("Not shown: 3 other"), "{}", found.note);
    for part in [">kernel-default", ">small-bytes", ">↑ limit 4.5 GiB"] {
        assert!(found.svg.contains(&part.replacen('>', "", 1)), "{part}");
    }
}

#[test]
fn exposure_is_told_for_each_strategy_and_crash() {
    let found = &drawn(&cells())[1];
    let text = format!("{:?}", found.rows);
    assert!(text.contains("\"sync, power cut\"), Number(\"100.0 %\", 1.0)"), "{text}");
    assert!(text.contains("\"timed, power cut\"), Number(\"0.0 %\", 0.0)"), "{text}");
    assert!(text.contains("Number(\"500 ms\", 500000000.0)"), "the interval: {text}");
    assert!(text.contains("≥"), "what is never flushed has no end: {text}");
}

#[test]
fn the_line_of_a_known_disk_is_found() {
    let found = &drawn(&cells())[3];
    assert!(found.svg.contains("2.0 ms + bytes / (95 MiB/s)"), "{}", found.note);
    assert!(found.svg.matches("<circle").count() < 400, "marks at one place are one");
}

#[test]
fn emulated_and_invalid_are_marked() {
    let mut cells = cells();
    let mut env = environment();
    env.disk.emulated = true;
    for cell in &mut cells {
        cell.emulated = true;
        cell.status = Status::Invalid;
    }
    let drawn = drawn_in(&cells, &env);
    assert_eq!(names(&drawn), OURS);
    for chart in &drawn {
        assert!(chart.svg.contains(">EMULATED DISK: "), "{}", chart.name);
        assert!(chart.svg.contains("invalid"), "{}", chart.name);
    }
    assert!(!drawn[3].svg.contains("fixed time"), "no line through what does not count");
}

#[test]
fn extremes_stay_on_the_sheet() {
    let mut cells = extreme();
    for cell in &mut cells {
        cell.dirty = Dirty { max_bytes: Some(u64::MAX), ..Dirty::default() };
        cell.ack_to_durable_ns = cell.append_to_ack_ns;
        cell.exposure.power.age_ns.p99 = cell.exposure.power.age_ns.p99.min(u64::MAX / 40);
        cell.exposure.process.age_ns.p99 = 0;
    }
    for chart in drawn(&cells) {
        for name in ["x", "y", "cx", "cy", "x1", "y1"] {
            for part in chart.svg.split(&format!(" {name}=\"")).skip(1) {
                let (number, _) = part.split_once('"').unwrap();
                let number: i32 = number.parse().unwrap();
                assert!((0..=900).contains(&number), "{}: {name}={number}", chart.name);
            }
        }
    }
}

#[test]
fn no_string_leaves_its_place() {
    let mut cells = cells();
    for cell in &mut cells {
        for name in [&mut cell.strategy, &mut cell.sysctl, &mut cell.disk, &mut cell.workload] {
            *name = format!("{name}{HOSTILE}");
        }
    }
    for chart in drawn(&cells) {
        let svg = &chart.svg;
        assert!(!svg.contains("<script") && !svg.contains("<b "), "{svg}");
        assert!(!svg.contains('\u{1b}') && !svg.contains('\0'), "{svg}");
    }
}

#[test]
fn tables_of_a_stranger_are_read_or_refused() {
    let cells = cells();
    let root = tempfile::tempdir().unwrap();
    let recorded = record(root.path(), &cells, &environment());
    let folder = root.path().join("run");
    for cell in &cells {
        let header = "t_ns,dirty_bytes,writeback_bytes,worst_append_ns,throttled\n";
        let rows = "NaN,1,1,1,1\n1e8,inf,1,-5,9\n1e300,1e308,1e308,1e308,1\n2e8,,,,\n";
        let file = folder.join(format!("series/{}.csv", file_stem(cell)));
        fs::write(file, format!("{header}{rows}")).unwrap();
        fs::create_dir_all(folder.join("flushes")).unwrap();
        let file = folder.join(format!("flushes/{}.csv", file_stem(cell)));
        fs::write(file, "bytes,ns\nNaN,inf\n-1,-1\n1e300,1e300\n1,1\n0,0\n").unwrap();
    }
    all(&recorded).unwrap();
    let file = folder.join(format!("flushes/{}.csv", file_stem(&cells[2])));
    fs::write(file, "a,b\n1,2\n").unwrap();
    let refused = format!("{:#}", all(&recorded).unwrap_err());
    assert!(refused.contains("has no bytes"), "{refused}");
}
