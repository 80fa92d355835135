//! The charts beside C1, drawn from results made by hand, against files to look at.
//!
//! A change of a picture that is meant is taken over by `FLUSHMARK_GOLDEN=write cargo test -p
//! harness golden`, after looking at it.

use std::env;
use std::fs;
use std::path::Path;
use std::slice::from_ref;

use crate::cell::Measured;
use crate::chart::drawn::{Drawn, Figure, all};
use crate::chart::pen;
use crate::clock::{float, round};
use crate::distribution;
use crate::output::Output;
use crate::recorded::Recorded;
use crate::results::{BlockNoise, Cell, Kind, Level, Manifest, OpenLoop, Quantiles, Status};
use crate::results_fixture::{
    HOSTILE, cell, check, environment, example, example_of, extreme, manifest, open_loop, troubled,
};
use crate::run::CANARY;
use crate::validity::OVERLOAD;

fn recorded(cells: &[Cell]) -> Recorded {
    Recorded::new(&manifest(), &environment(), cells, None)
}

fn chart(recorded: &Recorded, name: &str) -> Drawn {
    let found = all(recorded).unwrap();
    found.into_iter().find(|chart| chart.name == name).unwrap_or_else(|| panic!("no {name}"))
}

/// An open loop that offers so much; what is over `most` is not sent.
fn offered(kind: Kind, rate: f64, most: f64, block: u32) -> Cell {
    cell(kind, 16, block, |c| {
        let load = rate / most;
        c.workload = format!("open-{rate}");
        c.cell = format!("{}/open-{rate}/16", c.strategy);
        c.acked_per_s = rate.min(most);
        let slower = if load < 1.0 { 1.0 / (1.0 - 0.9 * load) } else { 4000.0 };
        let slower = slower * (1.0 + 0.1 * f64::from(block));
        let p50 = round(float(c.append_to_ack_ns.p50) * slower);
        let times = |n: u64| p50 * n;
        let due = Quantiles {
            count: 50_000,
            min: times(1) / 2,
            p50: times(1),
            p90: times(2),
            p99: times(4),
            p999: times(20),
            p9999: times(60),
            max: times(100),
            mean: 0.0,
        };
        let unsent = if load > 1.0 { 30_000 } else { 0 };
        c.open_loop = Some(OpenLoop {
            offered_per_s: rate,
            due: 50_000,
            judged: 49_900,
            unsent,
            due_to_ack_ns: due,
            ..open_loop()
        });
        if load > 1.0 {
            c.status = Status::Overload;
            c.validity.push(check(OVERLOAD, Level::Warn, "60 % unsent", "99 % sent"));
        }
    })
}

/// Two strategies at rates up to more than one of them keeps, and bursts beside.
fn open_loops() -> Vec<Cell> {
    let mut cells = Vec::new();
    for block in 0..3 {
        for rate in [1e3, 2e3, 5e3, 1e4, 2e4, 5e4] {
            cells.push(offered(Kind::GroupCommit, rate, 1.5e4, block));
            cells.push(offered(Kind::FlushRealtime, rate, 2e5, block));
        }
        let mut bursts = offered(Kind::GroupCommit, 3e3, 1.5e4, block);
        bursts.workload = "bursts".to_owned();
        bursts.open_loop.as_mut().unwrap().judged = 30_000;
        cells.push(bursts);
    }
    cells
}

/// Group commit with and without a wait, and on an emulated disk, with a cell that is invalid.
fn groups() -> Vec<Cell> {
    let mut cells = Vec::new();
    for block in 0..6 {
        for producers in [1, 4, 16, 64] {
            cells.push(cell(Kind::GroupCommit, producers, block, |c| {
                c.messages_per_flush.mean = float(c.messages_per_flush.p50).powf(0.9);
            }));
            cells.push(cell(Kind::GroupCommit, producers, block, |c| {
                c.strategy = "sync-wait".to_owned();
                c.messages_per_flush.mean = float(c.messages_per_flush.p50).powf(0.99);
                c.acked_per_s *= if producers > 8 { 1.2 } else { 0.7 };
            }));
            cells.push(cell(Kind::GroupCommit, producers, block, |c| {
                (c.disk, c.emulated) = ("hdd".to_owned(), true);
                (c.flush_ns.p50, c.acked_per_s) = (8_000_000, c.acked_per_s / 80.0);
                c.messages_per_flush.mean = float(c.messages_per_flush.p50).powf(0.7);
                if producers == 16 {
                    c.status = Status::Invalid;
                }
            }));
        }
    }
    cells
}

/// Seven blocks with their canaries, of which one drifts, one is an outlier, and one invalid.
fn repeats() -> Recorded {
    let mut cells = example_of(7);
    for block in 0..7 {
        for (when, slower) in [("begin", 1.0), ("end", 1.04)] {
            cells.push(cell(Kind::GroupCommit, 1, block, |c| {
                (c.strategy, c.workload) = (CANARY.to_owned(), when.to_owned());
                c.started_at_ms += u64::from(when == "end");
                c.acked_per_s /= slower + 0.02 * f64::from(block);
            }));
        }
    }
    for cell in &mut cells {
        match (cell.strategy.as_str(), cell.producers, cell.block) {
            ("timed", 8, block) => cell.acked_per_s *= 1.0 - 0.05 * f64::from(block),
            ("none", 64, 3) => cell.acked_per_s /= 2.5,
            ("sync", 64, 5) => {
                (cell.status, cell.acked_per_s) = (Status::Invalid, cell.acked_per_s * 1.4);
            }
            _ => {}
        }
    }
    let noise = vec![BlockNoise { block: 6, spread_pct: 17.2, flagged: true }];
    Recorded::new(&Manifest { noise, blocks: 7, ..manifest() }, &environment(), &cells, None)
}

/// What the golden files show.
fn shown() -> [(&'static str, Recorded); 4] {
    let mut latencies = troubled();
    latencies.retain(|cell| cell.producers != 8 || cell.strategy == "staged");
    latencies.extend(open_loops().into_iter().filter(|cell| cell.acked_per_s > 9e3));
    [
        ("c2", recorded(&latencies)),
        ("c3", recorded(&open_loops())),
        ("c5", recorded(&groups())),
        ("c10", repeats()),
    ]
}

#[test]
fn the_pictures_are_the_golden_ones() {
    for (name, recorded) in shown() {
        let svg = chart(&recorded, name).svg;
        let file = format!("{}/src/chart/golden/{name}.svg", env!("CARGO_MANIFEST_DIR"));
        if env::var("FLUSHMARK_GOLDEN").is_ok_and(|what| what == "write") {
            fs::write(&file, &svg).unwrap();
        }
        let golden = fs::read_to_string(&file).unwrap();
        let differs = svg.lines().zip(golden.lines()).find(|(new, old)| new != old);
        assert_eq!(differs, None, "{file} (the first line that is new, then the golden one)");
        assert_eq!(svg.len(), golden.len(), "{file}");
    }
}

#[test]
fn the_same_results_give_the_same_bytes_in_whatever_order() {
    for (name, recorded) in shown() {
        let mut turned = recorded.clone();
        turned.cells.reverse();
        let (forward, back) = (chart(&recorded, name), chart(&turned, name));
        assert_eq!(forward.svg, back.svg);
        assert_eq!((forward.note, forward.rows), (back.note, back.rows));
    }
}

/// All that must hold of a chart, whatever it shows.
#[track_caller]
fn assert_sound(chart: &Drawn) {
    let Drawn { name, question, svg, heads, rows, .. } = chart;
    assert_eq!(svg.matches(" id=").count(), 2, "{name}");
    assert!(svg.contains(&format!("aria-labelledby=\"{name}-title {name}-desc\"")), "{name}");
    assert!(svg.contains(question), "{name}");
    assert!(!rows.is_empty() && rows.iter().all(|row| row.len() == heads.len()), "{name}");
    for numbers in numbers(svg) {
        for number in numbers.split([',', ' ']).filter(|number| !number.is_empty()) {
            let number: i32 = number.parse().unwrap();
            assert!((0..=900).contains(&number), "{number} in {numbers} of {name}");
        }
    }
    for text in texts(svg) {
        assert!(text.left >= 0 && text.right <= 900, "{text:?} of {name}");
        assert!((6..=554).contains(&text.middle), "{text:?} of {name}");
    }
}

/// What the attributes that are pixels hold.
fn numbers(svg: &str) -> Vec<&str> {
    let of =
        |name: &'static str| svg.split(name).skip(1).map(|part| part.split_once('"').unwrap().0);
    [" x=\"", " y=\"", " cx=\"", " cy=\"", " points=\""].into_iter().flat_map(of).collect()
}

/// A text of a picture, and about where it stands.
#[derive(Debug)]
#[expect(dead_code, reason = "the text is for messages of assertions")]
struct Placed {
    text: String,
    left: i32,
    right: i32,
    middle: i32,
    high: i32,
}

fn texts(svg: &str) -> Vec<Placed> {
    let placed = |part: &str| {
        let (tag, rest) = part.split_once('>').unwrap();
        let attribute = |name: &str| {
            tag.split_once(&format!(" {name}=\"")).unwrap().1.split_once('"').unwrap().0
        };
        let text = rest.split_once("</text>").unwrap().0.trim();
        let entities =
            [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")];
        let plain =
            entities.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to));
        let size: u32 = attribute("font-size").parse().unwrap();
        let wide = pen::text_width(&plain, size);
        let x: i32 = attribute("x").parse().unwrap();
        let left = match attribute("text-anchor") {
            "start" => x,
            "middle" => x - wide / 2,
            _ => x - wide,
        };
        let (middle, high) =
            (attribute("y").parse().unwrap(), i32::try_from(size).unwrap() * 3 / 4);
        Placed { text: text.to_owned(), left, right: left + wide, middle, high }
    };
    svg.split("<text").skip(1).map(placed).collect()
}

#[test]
fn no_text_covers_another() {
    for (name, recorded) in shown() {
        let texts = texts(&chart(&recorded, name).svg);
        for (nth, one) in texts.iter().enumerate() {
            for other in &texts[nth + 1..] {
                let apart = one.right <= other.left
                    || other.right <= one.left
                    || (one.middle - other.middle).abs() >= i32::midpoint(one.high, other.high);
                assert!(apart, "{name}: {one:?} and {other:?}");
            }
        }
    }
}

#[test]
fn whatever_the_results_hold_the_charts_are_sound() {
    let mut hostile = troubled();
    hostile.extend(open_loops());
    for cell in &mut hostile {
        cell.strategy = format!("{}{HOSTILE}", cell.strategy);
        (cell.disk, cell.workload) = (HOSTILE.to_owned(), format!("{}{HOSTILE}", cell.workload));
    }
    let mut many = Vec::new();
    for nth in 0..40 {
        for mut cell in example().into_iter().chain(open_loops()) {
            cell.strategy = format!("{}-{nth}", cell.strategy);
            cell.workload = format!("a-workload-with-a-long-name-{nth}-{}", cell.workload);
            many.push(cell);
        }
    }
    let mut open = extreme();
    for cell in &mut open {
        let all = cell.append_to_ack_ns;
        let wild = OpenLoop { offered_per_s: 1e300, due_to_ack_ns: all, ..open_loop() };
        cell.open_loop = Some(OpenLoop { unsent: u64::MAX, ..wild });
    }
    let mut nothing = example();
    for cell in &mut nothing {
        cell.acked_per_s = if cell.block == 1 { f64::NAN } else { 0.0 };
    }
    let one = vec![cell(Kind::GroupCommit, 8, 0, |_| {})];
    let shown = shown().map(|(_, recorded)| recorded.cells);
    for cells in [hostile, many, extreme(), open, nothing, one].into_iter().chain(shown) {
        for chart in all(&recorded(&cells)).unwrap() {
            assert_sound(&chart);
            let Drawn { svg, .. } = chart;
            assert!(!svg.contains("<script") && !svg.contains("<b "), "{svg}");
            assert!(!svg.contains('\u{1b}') && !svg.contains('\0'), "{svg}");
        }
    }
}

#[test]
fn what_has_nothing_to_show_has_no_chart() {
    let names = |cells: &[Cell]| -> Vec<String> {
        all(&recorded(cells)).unwrap().into_iter().map(|chart| chart.name).collect()
    };
    assert!(names(&[]).is_empty());
    let raw = |block| cell(Kind::Raw, 1, block, |_| {});
    assert!(names(&[raw(0)]).is_empty());
    assert_eq!(names(&[raw(0), raw(1)]), ["c10"]);
    assert_eq!(names(&[cell(Kind::GroupCommit, 8, 0, |_| {})]), ["c2", "c7"]);
    let two = [1, 8].map(|producers| cell(Kind::GroupCommit, producers, 0, |_| {}));
    assert_eq!(names(&two), ["c2", "c5", "c7"]);
    assert_eq!(names(&open_loops()), ["c2", "c3", "c7", "c10"]);
}

#[test]
fn a_place_is_drawn_only_if_it_has_something_to_show() {
    let mut cells = open_loops();
    for mut cell in open_loops() {
        cell.disk = "other".to_owned();
        if cell.kind == Kind::GroupCommit {
            cells.push(cell);
        }
    }
    for cell in cells.iter_mut().filter(|cell| cell.disk == "data") {
        let open = cell.open_loop.as_mut().unwrap();
        (open.due_to_ack_ns, open.offered_per_s) = (Quantiles::default(), 0.0);
    }
    let found = all(&recorded(&cells)).unwrap();
    assert_eq!(found.iter().filter(|chart| ["c2", "c3"].contains(&&*chart.name)).count(), 2);
    for chart in &found {
        assert!(!chart.note.contains("Drawn is data"), "{}", chart.note);
        assert_sound(chart);
    }
}

#[test]
fn disks_that_are_no_hardware_are_named_as_such() {
    let svg = chart(&recorded(&groups()), "c5").svg;
    assert!(svg.contains("SOME DISKS EMULATED: "), "{svg}");
    assert!(svg.contains("sync (hdd) EMULATED"), "{svg}");
    let mut cells = open_loops();
    for cell in &mut cells {
        cell.simulated = true;
    }
    for name in ["c2", "c3", "c10"] {
        let svg = chart(&recorded(&cells), name).svg;
        assert!(svg.contains("-title\">SIMULATED DISK: "), "{name}: {svg}");
    }
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
    assert!(each.starts_with("1: ") && each.contains(", 6: 2"), "{each}");
    assert!(chart.note.contains("differed by more than 15 %: 7 (17 %)."), "{}", chart.note);
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
