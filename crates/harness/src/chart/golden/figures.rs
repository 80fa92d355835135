//! What single charts say of results made by hand.

use std::fs;
use std::path::Path;
use std::slice::from_ref;

use super::fixture::{
    capacities, chart, groups, loads, open_loops, record, recorded, repeats, strategies,
};
use crate::capacity::{Ask, Basis, capacity};
use crate::cell::Measured;
use crate::chart::LossModel;
use crate::chart::drawn::{Drawn, Figure, all};
use crate::clock::{float, round};
use crate::distribution;
use crate::output::Output;
use crate::recorded::{Recorded, file_stem};
use crate::results::{Cell, Kind};
use crate::results_fixture::{cell, environment, manifest};

/// The chart of cells that left all that charts are made of.
#[track_caller]
fn whole(cells: &[Cell], name: &str) -> Drawn {
    let root = tempfile::tempdir().unwrap();
    chart(&record(root.path(), cells, &environment()), name)
}

/// The field of a chart's table in the row whose first fields are these.
#[track_caller]
fn field(chart: &Drawn, first: &[&str], head: &str) -> Figure {
    let shown = |figure: &Figure| match figure {
        Figure::Text(text) | Figure::Number(text, _) => text.clone(),
        Figure::Missing => String::new(),
    };
    let is_row =
        |row: &&Vec<Figure>| first.iter().all(|name| row.iter().any(|f| shown(f) == *name));
    let row = chart.rows.iter().find(is_row).unwrap_or_else(|| panic!("no {first:?}"));
    let at = chart.heads.iter().position(|name| *name == head).unwrap();
    row[at].clone()
}

#[test]
fn the_knee_is_the_highest_rate_before_the_overload() {
    let chart = chart(&recorded(&open_loops()), "c3");
    assert!(chart.svg.contains("sync: falls behind above 10k/s"), "{}", chart.svg);
    assert!(chart.svg.contains("timed: keeps up, at most 50k/s"), "{}", chart.svg);
    let drawn = field(&chart, &["sync (group_commit)", "open-20000"], "state");
    assert_eq!(drawn, Figure::Text("hollow: overload".to_owned()));
    let sent = field(&chart, &["sync (group_commit)", "open-20000"], "sent in time, worst block");
    let Figure::Number(shown, share) = sent else { panic!("{sent:?}") };
    assert_eq!(shown, "39.9 %");
    assert!((share - 0.3988).abs() < 1e-4, "{share}");
}

#[test]
fn group_commit_is_told_its_bound_its_wait_and_what_waiting_brought() {
    let chart = chart(&recorded(&groups()), "c5");
    // 16 producers by 98 µs.
    let bound = field(&chart, &["sync", "16", "data with kernel-default"], "bound, msg/s");
    let Figure::Number(shown, bound) = bound else { panic!("{bound:?}") };
    assert_eq!(shown, "163k");
    assert!((bound - 16.0 / 98e-6).abs() < 1.0, "{bound}");
    assert!(chart.note.contains("flush p50 98 µs"), "{}", chart.note);
    assert!(chart.note.contains("is half of it, 49 µs."), "{}", chart.note);
    assert!(chart.note.contains("Rate by that of sync at ×64: sync-wait 1.20×."), "{}", chart.note);
}

#[test]
fn repeats_are_by_the_median_of_what_counts() {
    let chart = chart(&repeats(), "c10");
    let each = field(&chart, &["sync ×64"], "msg/s of each block");
    let Figure::Text(each) = each else { panic!("{each:?}") };
    assert_eq!(each.matches("(invalid)").count(), 1, "{each}");
    assert!(each.starts_with("0: ") && each.contains(", 5: 2"), "{each}");
    assert!(chart.note.contains("differed by more than 15 %: 6 (17 %)."), "{}", chart.note);
    let Figure::Text(first) = &chart.rows[0][0] else { panic!("{:?}", chart.rows[0]) };
    assert_eq!(first, "canary, begin and end");
    let Figure::Text(second) = &chart.rows[1][0] else { panic!("{:?}", chart.rows[1]) };
    assert_eq!(second, "none ×64", "it has the outlier");
}

#[test]
fn histograms_tell_more_than_the_percentiles_that_were_summed_up() {
    let results = tempfile::tempdir().unwrap();
    let mut output = Output::create(results.path(), "run").unwrap();
    let mut histogram = distribution::times();
    histogram.record_n(1_000_000, 990).unwrap();
    histogram.record_n(250_000_000, 9).unwrap();
    histogram.record_n(4_000_000_000, 1).unwrap();
    let one = cell(Kind::GroupCommit, 8, 0, |c| {
        c.append_to_ack_ns = distribution::quantiles(&histogram);
    });
    let measured = Measured {
        cell: one.clone(),
        histograms: vec![("append_to_ack", histogram)],
        series: Vec::new(),
        flushes: Vec::new(),
    };
    let alone = chart(&recorded(from_ref(&one)), "c2");
    output.write_cell(&measured).unwrap();
    let read = |path: &Path| {
        chart(&Recorded::new(&manifest(), &environment(), from_ref(&one), Some(path)), "c2")
    };
    let whole = read(output.path());
    let row = ["sync (group_commit)"];
    assert_eq!(field(&alone, &row, "over 200 ms"), Figure::Missing);
    assert_eq!(field(&whole, &row, "over 200 ms"), Figure::Number("1 %".to_owned(), 1.0));
    assert_eq!(field(&whole, &row, "over 3 s"), Figure::Number("0.10 %".to_owned(), 0.1));
    for head in ["p50 [min–max]", "p99 [min–max]", "p99.9 [min–max]", "p99.99 [min–max]"] {
        assert_eq!(field(&alone, &row, head), field(&whole, &row, head), "{head}");
    }
    assert!(alone.note.contains("no histogram was kept") && !whole.note.contains("no histogram"));
    fs::write(output.path().join("hist/sync+8.0.append_to_ack.hlog"), "no log").unwrap();
    let broken = Recorded::new(&manifest(), &environment(), from_ref(&one), Some(output.path()));
    assert!(all(&broken).is_err());
}

#[test]
fn one_cell_is_enough() {
    let one = strategies().swap_remove(4);
    let rows = |name| whole(from_ref(&one), name).rows.len();
    assert_eq!(
        [rows("c4"), rows("c6"), rows("c7")],
        [1, 2, 3],
        "a block, two crashes, three parts"
    );
    assert!(!whole(from_ref(&one), "c4").svg.contains("other blocks"));
}

#[test]
fn over_time_takes_the_strategy_with_most_dirty_pages_and_each_kernel_setting() {
    let found = whole(&strategies(), "c4");
    assert!(found.note.starts_with("staged, workload closed-1k, 8 producers"), "{}", found.note);
    assert!(found.note.contains("Not shown: 3 other"), "{}", found.note);
    for part in [">kernel-default", ">small-bytes", ">↑ limit 4.5 GiB"] {
        assert!(found.svg.contains(&part.replacen('>', "", 1)), "{part}");
    }
}

#[test]
fn exposure_is_told_for_each_strategy_and_crash() {
    let found = whole(&strategies(), "c6");
    let text = format!("{:?}", found.rows);
    assert!(text.contains("\"sync, power cut\"), Number(\"100.0 %\", 1.0)"), "{text}");
    assert!(text.contains("\"timed, power cut\"), Number(\"0.0 %\", 0.0)"), "{text}");
    assert!(text.contains("Number(\"500 ms\", 500000000.0)"), "the interval: {text}");
    assert!(text.contains("≥"), "what is never flushed has no end: {text}");
}

#[test]
fn exposure_of_a_block_may_be_far_longer_than_that_of_the_first() {
    let mut cells = strategies();
    for cell in cells.iter_mut().filter(|cell| cell.block == 1) {
        cell.exposure.power.age_ns.p99 *= 100_000;
    }
    let found = whole(&cells, "c6");
    assert!(found.rows.iter().all(|row| row.last() == Some(&Figure::Number("2".to_owned(), 2.0))));
}

#[test]
fn the_line_of_a_known_disk_is_found() {
    let found = whole(&strategies(), "c8");
    assert!(found.svg.contains("2.0 ms + bytes / (95 MiB/s)"), "{}", found.note);
    assert!(found.svg.matches("<circle").count() < 400, "marks at one place are one");
}

#[test]
fn tables_of_a_stranger_are_read_or_refused() {
    let cells = strategies();
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

#[test]
fn a_load_is_carried_broken_or_not_known() {
    let chart = chart(&capacities(), "c9");
    let told = |load: &str, head: &str| field(&chart, &[load, "data"], head);
    let text = |text: &str| Figure::Text(text.to_owned());
    let carried = "100k/s of 1.0 KiB, nothing lost in a power cut";
    assert_eq!(told(carried, "cheapest strategy"), text("sync"));
    let Figure::Number(shown, ratio) = told(carried, "room above the load") else { panic!() };
    // 136k by 64 producers in the slowest block.
    assert_eq!((&*shown, round(100.0 * ratio)), ("+36 %", 136));
    assert_eq!(told(carried, "how it is known"), text("measured"));
    // Half a second later it may be lost.
    let timed = "100k/s of 1.0 KiB, at most 1 s lost";
    assert_eq!(told(timed, "cheapest strategy"), text("staged"));
    let unknown = "1M/s of 1.0 KiB, nothing lost in a power cut";
    assert_eq!(told(unknown, "cheapest strategy"), text("?"));
    assert_eq!(told(unknown, "room above the load"), Figure::Missing);
    // More than that was due, and waited ever longer.
    let broken = "100k/s of 16 KiB, at most 1 s lost";
    assert_eq!(told(broken, "cheapest strategy"), text("—"));
    assert!(chart.svg.contains(&format!("{broken}: — every strategy breaks it.")), "{}", chart.svg);
}

#[test]
fn a_disk_that_is_no_hardware_stands_apart() {
    let chart = chart(&capacities(), "c9");
    assert!(chart.note.ends_with("In the table alone: the disks hdd."), "{}", chart.note);
    let of = |row: &Vec<Figure>| row[1].clone();
    let disks: Vec<Figure> = chart.rows.iter().map(of).collect();
    let real = disks.iter().take_while(|disk| **disk == Figure::Text("data".to_owned())).count();
    assert_eq!((real, disks.len()), (60, 120));
    let marked = Figure::Text("hdd (EMULATED)".to_owned());
    assert!(disks[real..].iter().all(|disk| *disk == marked));
    assert!(!chart.svg.contains("EMULATED") && !chart.svg.contains("hdd"));
    // Where it is all there is, the title says so.
    let mut alone = capacities();
    alone.cells.retain(|cell| cell.disk == "hdd");
    let svg = super::fixture::chart(&alone, "c9").svg;
    assert!(svg.contains("-title\">EMULATED DISK: What carries"), "{svg}");
}

#[test]
fn what_a_model_only_extrapolates_is_not_known() {
    // Syncs of 2 ms and 1 ns a byte, at half-second intervals: a shorter one was not measured.
    let cells = [(1, 1e3), (8, 2e4), (64, 2e5)].map(|(producers, rate)| {
        cell(Kind::FlushRealtime, producers, 0, |c| {
            let per_ns = rate / 1e9 * float(c.record_bytes);
            let bytes = per_ns * 502e6 / (1.0 - per_ns);
            (c.acked_per_s, c.bytes_per_flush.mean, c.flush_ns.mean) = (rate, bytes, 2e6 + bytes);
            c.interval.configured_ns = Some(500_000_000);
            c.exposure.power.age_ns.p99 = round(500e6 + 2.0 * c.flush_ns.mean);
        })
    });
    let ask = Ask {
        rate_per_s: 1e4,
        message_bytes: 1024,
        loss_ns: 100e6,
        ack_p99_ns: None,
        model: LossModel::Power,
    };
    let found = capacity(&recorded(&cells), &ask).unwrap();
    assert_eq!(found.chosen("data").map(|choice| choice.basis), Some(Basis::Extrapolated));
    let chart = chart(&recorded(&cells), "c9");
    let strategy = |load: &str| field(&chart, &[load], "cheapest strategy");
    let text = |text: &str| Figure::Text(text.to_owned());
    assert_eq!(strategy("10k/s of 1.0 KiB, at most 100 ms lost"), text("?"));
    assert_eq!(strategy("10k/s of 1.0 KiB, at most 1 s lost"), text("timed"));
}

#[test]
fn what_settings_bound_is_hollow_and_sizes_without_room_are_in_the_table() {
    let mut cells = loads();
    cells.retain(|cell| cell.kind == Kind::FlushRealtime && cell.disk == "data");
    let mut more = cells.clone();
    for (cell, size) in more.iter_mut().zip([256, 512].into_iter().cycle()) {
        (cell.message_bytes, cell.workload) = (size, format!("of-{size}"));
    }
    cells.extend(more);
    for cell in &mut cells {
        cell.flush_ns.max = 50_000_000;
    }
    let mut run = recorded(&cells);
    run.manifest.profile = "schema: flushmark.profile/v1\nname: own\nworkloads:\n  \
        w: {message_bytes: 1KiB, producers: [8]}\nstrategies:\n  timed: {kind: flush_realtime, \
        interval_ms: 10, thorough_ms: 100}\nmatrix: {workloads: [w], strategies: [timed]}\n"
        .to_owned();
    let chart = chart(&run, "c9");
    // 23 kB in a second are no four pages in 10 ms; a tenth of a second later all is synced.
    let slow = "100/s of 128 B, at most 1 s lost";
    let known = field(&chart, &[slow], "how it is known");
    assert_eq!(known, Figure::Text("bounded by its settings".to_owned()));
    assert!(chart.svg.contains("hollow: by its settings or a model"), "{}", chart.svg);
    assert!(chart.note.contains("In the table alone: messages of 512 B."), "{}", chart.note);
    assert_eq!(chart.rows.len(), 4 * 5 * 5);
}
