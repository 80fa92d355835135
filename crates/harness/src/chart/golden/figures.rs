//! What single charts say of results made by hand.

use std::fs;
use std::path::Path;
use std::slice::from_ref;

use super::fixture::{
    capacities, chart, groups, loads, open_loops, record, recorded, repeats, strategies,
};
use crate::capacity::{Ask, Basis, capacity};
use crate::cell::Measured;
use crate::chart::drawn::{Drawn, Figure, all};
use crate::clock::{float, round};
use crate::distribution;
use crate::output::Output;
use crate::recorded::{Recorded, file_stem};
use crate::results::{Cell, Kind, Level, Quantiles, Status, SyncWait};
use crate::results_fixture::{cell, check, environment, manifest};
use crate::run::CANARY;
use crate::summary::LossModel;

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
fn a_load_that_a_disk_of_no_hardware_carried_is_hatched() {
    let c9 = |emulated: bool| {
        let mut cells = loads();
        for cell in &mut cells {
            cell.emulated = emulated;
        }
        chart(&recorded(&cells), "c9").svg
    };
    let white = |svg: &str| svg.matches("stroke=\"#FFFFFF\"").count();
    let (real, emulated) = (c9(false), c9(true));
    assert_eq!((white(&real), real.contains("hatched:")), (0, false));
    assert!(emulated.contains("hatched: emulated"));
    // A mark has three or four of them, and the legend one mark.
    assert!(white(&emulated) > 40, "{}", white(&emulated));
}

#[test]
fn a_wait_for_a_sync_has_its_parts_and_no_more_lines_than_can_be_read() {
    let of = |strategies: u32| {
        let one = |nth: u32| {
            cell(Kind::GroupCommit, 8, 0, |c| {
                c.strategy = format!("sync-{nth}");
                let part = Quantiles { count: 9, p50: 1000, p99: 2000, ..Quantiles::default() };
                let (queue_ns, flush_ns, wake_ns) = (part, part, part);
                c.sync_wait = Some(SyncWait { queue_ns, flush_ns, wake_ns });
            })
        };
        chart(&recorded(&(0..strategies).map(one).collect::<Vec<_>>()), "c7")
    };
    let drawn = |chart: &Drawn| chart.svg.matches("append → its sync").count();
    let few = of(4);
    // Once more in the description of each.
    assert_eq!((drawn(&few), few.note.contains("In the table alone")), (8, false));
    let many = of(6);
    assert_eq!(drawn(&many), 4 + 6, "all are described");
    assert!(many.note.contains("In the table alone: sync-4, sync-5."), "{}", many.note);
    let parts = many.rows.iter().filter(|row| row[0] == Figure::Text("sync-5".to_owned())).count();
    assert_eq!(parts, 5, "queue, sync, wake-up, all, and durable");
}

#[test]
fn bytes_at_risk_stand_beside_their_ages() {
    let mut cells = strategies();
    for cell in &mut cells {
        // A tenth of the least age, so that none is mistaken for the other.
        cell.exposure.power.bytes.p99 = 40 << 20;
    }
    let chart = whole(&cells, "c6");
    let shown = |head| field(&chart, &["timed, power cut"], head);
    let of = |head| match shown(head) {
        Figure::Number(text, _) => text,
        other => panic!("{other:?}"),
    };
    assert_eq!([of("bytes p50"), of("bytes max")], ["20 MiB", "40 MiB"]);
    assert!(chart.svg.contains("share of time with more than that at risk"));
    // Of a run that did not record them.
    let earlier = {
        let root = tempfile::tempdir().unwrap();
        let recorded = record(root.path(), &cells, &environment());
        for file in fs::read_dir(root.path().join("run/hist")).unwrap() {
            let path = file.unwrap().path();
            if path.to_str().unwrap().contains("_bytes") {
                fs::remove_file(path).unwrap();
            }
        }
        super::fixture::chart(&recorded, "c6")
    };
    assert_eq!(field(&earlier, &["timed, power cut"], "bytes p50"), Figure::Missing);
    assert!(!earlier.svg.contains("with more than that"));
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
fn too_much_of_bursts_shades_no_even_load() {
    let open = |rate: f64, is_even: bool, status: Status| {
        let mut cells = open_loops();
        let mut one = cells.swap_remove(0);
        (one.workload, one.status) = (format!("{is_even}-{rate}"), status);
        one.cell = format!("{}/{}/16", one.strategy, one.workload);
        let open = one.open_loop.as_mut().unwrap();
        open.offered_per_s = rate;
        if !is_even {
            open.judged = 30_000;
        }
        one
    };
    let even = [1e3, 2e3, 5e3, 1e4].map(|rate| open(rate, true, Status::Valid));
    let bursts = open(2.2e3, false, Status::Overload);
    let found = chart(&recorded(&[&even[..], from_ref(&bursts)].concat()), "c3");
    let heading = |found: &Drawn, part: &str| assert!(found.svg.contains(part), "{}", found.svg);
    heading(&found, "sync: keeps up, at most 10k/s");
    assert!(!found.svg.contains("shaded: overload"), "{}", found.svg);
    let beside = "Too much of other loads was sync: false-2200 ×16 at 2.2k/s.";
    assert!(found.note.contains(beside), "{}", found.note);
    assert!(found.note.contains("Bursts less than 100 ms apart"), "{}", found.note);
    // What is too much evenly is shaded from there.
    let over = open(2e4, true, Status::Overload);
    let found = chart(&recorded(&[&even[..], &[bursts.clone(), over]].concat()), "c3");
    heading(&found, "sync: falls behind above 10k/s");
    heading(&found, "shaded: overload");
    assert!(found.note.contains(beside), "{}", found.note);
    // Of bursts alone, nothing is joined that could be even.
    let found = chart(&recorded(from_ref(&bursts)), "c3");
    heading(&found, "sync: falls behind at every rate");
    assert!(!found.note.contains("Bursts less"), "{}", found.note);
    assert!(!found.note.contains("Too much of other"), "{}", found.note);
    heading(&chart(&recorded(&[open(1e3, true, Status::Invalid)]), "c3"), "sync: no valid cell");
}

#[test]
fn parts_of_an_overload_are_hollow_and_those_seen_too_seldom_are_lower_bounds() {
    let edited = |edit: &dyn Fn(&mut Cell)| {
        let mut cells = strategies();
        let staged = cells.iter_mut().filter(|cell| cell.strategy == "staged");
        staged.for_each(edit);
        whole(&cells, "c7")
    };
    let p99 = |found: &Drawn, name: &str, part: &str| {
        let Figure::Number(shown, _) = field(found, &[name, part], "p99") else { panic!("{part}") };
        shown
    };
    let sound = edited(&|_| ());
    for part in ["hollow", "at least", "≥"] {
        assert!(!sound.svg.contains(part) && !sound.note.contains(part), "{part}");
    }
    let found = edited(&|cell| cell.status = Status::Overload);
    assert!(found.svg.contains("hollow: invalid, or overload"), "{}", found.svg);
    assert!(found.note.contains("Of an overload, times are a backlog"), "{}", found.note);
    p99(&found, "staged (overload)", "append → ack");
    assert!(found.rows.iter().any(|row| row[0] == Figure::Text("timed".to_owned())));
    for (code, bound, exact) in [
        ("syncs_seen", "ack → durable", "ack → page cache"),
        ("commits_seen", "ack → page cache", "ack → durable"),
    ] {
        let warned = check(code, Level::Warn, "1", "two");
        let found = edited(&|cell| cell.validity.push(warned.clone()));
        assert!(p99(&found, "staged", bound).starts_with("≥ "), "{code}");
        for part in [exact, "append → ack"] {
            assert!(!p99(&found, "staged", part).contains('≥'), "{code}, {part}");
        }
        assert!(found.svg.contains("at least") && found.note.contains("With ≥ "), "{code}");
    }
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
    let gain = "Rate by that of sync at ×64: sync-wait 1.20× [1.20–1.20, 95 %].";
    assert!(chart.note.contains(gain), "{}", chart.note);
}

#[test]
fn a_gain_is_told_with_its_range_and_none_within_noise() {
    // By how much more than sync's the rate of a block is, in percent.
    let check = |more: &[f64], canaries: &[(u32, f64)], expect: &str| {
        let mut cells = Vec::new();
        for (block, more) in (0..).zip(more) {
            for (strategy, more) in [("sync", 0.0), ("sync-wait", *more)] {
                cells.extend([1, 8].map(|producers| {
                    cell(Kind::GroupCommit, producers, block, |c| {
                        c.strategy = strategy.to_owned();
                        c.acked_per_s = (1e3 + 1e3 * f64::from(block)) * (1.0 + more / 100.0);
                    })
                }));
            }
        }
        cells.extend(canaries.iter().map(|(position, rate)| {
            cell(Kind::GroupCommit, 1, 0, |c| {
                c.strategy = CANARY.to_owned();
                (c.position, c.acked_per_s) = (*position, *rate);
            })
        }));
        let note = chart(&recorded(&cells), "c5").note;
        assert!(note.contains(&format!("at ×8: sync-wait {expect}.")), "{note}");
    };
    check(&[20.0, 15.0, 26.0], &[], "1.20× [1.15–1.26 over 3 blocks]");
    check(&[-3.0, 3.0, 8.0], &[], "1.03× [0.97–1.08 over 3 blocks], within noise");
    check(&[3.0], &[], "not known: fewer than two blocks have both");
    // By t of the logarithms: 1.0495, less and more by a factor of 1.0113.
    let six = [4.0, 6.0, 5.0, 4.0, 6.0, 4.0];
    check(&six, &[], "1.05× [1.04–1.06, 95 %]");
    let canaries = [(0, 100.0), (9, 110.0)];
    check(&six, &canaries, "1.05× [1.04–1.06, 95 %], within noise");
    check(&six.map(|more| more + 10.0), &canaries, "1.15× [1.14–1.16, 95 %]");
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
fn over_time_takes_a_load_with_deletions_and_crosses_each() {
    let mut cells = strategies();
    let lines = |svg: &str| svg.matches("<polyline").count();
    let crosses = |cells: &[Cell]| lines(&whole(cells, "c4").svg);
    for cell in cells.iter_mut().filter(|cell| cell.kind == Kind::FlushRealtime) {
        cell.deletes_every_ms = Some(3000);
    }
    let none_is_due = crosses(&cells);
    for cell in cells.iter_mut().filter(|cell| cell.kind == Kind::FlushRealtime) {
        cell.deletes_every_ms = Some(500);
    }
    let found = whole(&cells, "c4");
    assert!(
        found.note.starts_with("timed, workload closed-1k"),
        "not the dirtiest: {}",
        found.note
    );
    assert!(found.note.contains("crosses there: an old file was deleted"), "{}", found.note);
    let columns = found.rows.iter().map(|row| format!("{:?}", row[0]));
    let columns = columns.collect::<std::collections::BTreeSet<_>>().len();
    // Two seconds have four, of two strokes each.
    assert_eq!(lines(&found.svg) - none_is_due, 8 * columns);
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
    // Each kind its own: one line through all would be true of none.
    for line in [
        "group_commit 100 µs + bytes / (1.9 GiB/s); half of the syncs within 5 %",
        "flush_realtime 2.0 ms + bytes / (95 MiB/s); half of the syncs within 5 %",
        "commit_realtime 2.0 ms + bytes / (95 MiB/s); half of the syncs within 5 %",
    ] {
        assert!(found.svg.matches(line).count() == 2, "legend and description: {}", found.svg);
        assert!(found.note.contains(line), "{}", found.note);
    }
    assert!(found.note.contains("The interval of a strategy"), "{}", found.note);
    let p50 = |kind| field(&found, &[kind], "p50");
    let [Figure::Number(_, fast), Figure::Number(_, slow)] =
        [p50("group_commit"), p50("flush_realtime")]
    else {
        panic!("{:?}", found.rows)
    };
    assert!(fast < slow / 10.0, "{fast} and {slow}");
    assert!(found.svg.matches("<circle").count() < 400, "marks at one place are one");
}

#[test]
fn no_interval_is_advised_by_the_syncs_of_strategies_without_one() {
    let mut cells = strategies();
    cells.retain(|cell| cell.kind == Kind::GroupCommit);
    let found = whole(&cells, "c8");
    assert!(found.note.contains("group_commit 100 µs + bytes"), "{}", found.note);
    assert!(!found.note.contains("interval"), "{}", found.note);
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
    let cells = [(1, 2e3), (8, 2e4), (64, 2e5)].map(|(producers, rate)| {
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
