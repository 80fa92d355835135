//! The charts beside C1, drawn from results made by hand, against files to look at.
//!
//! A change of a picture that is meant is taken over by `FLUSHMARK_GOLDEN=write cargo test -p
//! harness golden`, after looking at it.

mod figures;
mod fixture;

use std::env;
use std::fs;

use self::fixture::{Shown, WHOLE, chart, groups, open_loops, record, recorded, shown, strategies};
use crate::chart::card::card;
use crate::chart::drawn::{Drawn, all};
use crate::chart::pareto;
use crate::chart::pen;
use crate::format;
use crate::recorded::Recorded;
use crate::results::{Cell, Dirty, Kind, OpenLoop, Quantiles, Status};
use crate::results_fixture::{
    HOSTILE, cell, environment, example, extreme, manifest, open_loop, troubled,
};
use crate::summary::LossModel;

#[test]
fn the_pictures_are_the_golden_ones() {
    for Drawn { name, svg, .. } in shown().iter().flat_map(Shown::charts) {
        assert_golden(&format!("{name}.svg"), &svg);
    }
}

#[test]
fn the_pictures_of_cells_and_of_a_card_are_the_golden_ones() {
    let (manifest, env) = (manifest(), environment());
    for model in LossModel::ALL {
        let svg = pareto(&manifest, &env, &all_kinds(), model).unwrap();
        assert_golden(&format!("{}.svg", model.file_stem()), &svg);
    }
    assert_golden("c11.svg", &card(&crate::card::example(), &env).unwrap());
}

/// Cells that are invalid, emulated, extreme, and that lose nothing.
fn all_kinds() -> Vec<Cell> {
    let mut cells = troubled();
    cells.retain(|cell| cell.block == 0 || cell.status == Status::Invalid);
    cells.extend(extreme());
    cells.push(cell(Kind::GroupCommit, 16, 0, |c| {
        (c.emulated, c.disk) = (true, "hdd-7200".to_owned());
    }));
    cells
}

#[test]
fn the_report_is_the_golden_one() {
    let place = tempfile::tempdir().unwrap();
    let card = serde_json::to_string(&crate::card::example()).unwrap();
    fs::write(place.path().join("card.json"), card).unwrap();
    let (manifest, env, cells) = (manifest(), environment(), all_kinds());
    let results = Recorded::new(&manifest, &env, &cells, Some(place.path()));
    let charts = all(&results).unwrap();
    assert_golden("report.html", &crate::report::html(&results, &charts).unwrap());
}

#[track_caller]
fn assert_golden(name: &str, found: &str) {
    let file = format!("{}/src/chart/golden/{name}", env!("CARGO_MANIFEST_DIR"));
    if env::var("FLUSHMARK_GOLDEN").is_ok_and(|what| what == "write") {
        fs::write(&file, found).unwrap();
    }
    let golden = fs::read_to_string(&file).unwrap();
    let differs = found.lines().zip(golden.lines()).find(|(new, old)| new != old);
    assert_eq!(differs, None, "{file} (the first line that is new, then the golden one)");
    assert_eq!(found.len(), golden.len(), "{file}");
}

#[test]
fn a_report_has_the_charts_by_their_numbers() {
    let mut cells = strategies();
    cells.extend(open_loops());
    cells.extend(groups());
    let root = tempfile::tempdir().unwrap();
    let found = all(&record(root.path(), &cells, &environment())).unwrap();
    let names: Vec<&str> = found.iter().map(|chart| chart.name.as_str()).collect();
    assert_eq!(names, ["c2", "c3", "c4", "c5", "c6", "c7", "c8", "c9", "c10"]);
}

#[test]
fn the_same_results_give_the_same_bytes_in_whatever_order() {
    for shown in shown() {
        let mut turned = shown.recorded.clone();
        turned.cells.reverse();
        for forward in shown.charts() {
            let back = chart(&turned, &forward.name);
            assert_eq!(forward.svg, back.svg);
            assert_eq!((forward.note, forward.rows), (back.note, back.rows));
        }
    }
}

/// All that must hold of a chart, whatever it shows.
#[track_caller]
fn assert_sound(chart: &Drawn) {
    let Drawn { name, question, note, svg, heads, rows } = chart;
    assert!(!svg.contains("<script") && !svg.contains("<b "), "{svg}");
    assert!(!svg.contains('\u{1b}') && !svg.contains('\0'), "{svg}");
    assert_eq!(svg.matches(" id=").count(), 2, "{name}");
    assert!(svg.contains(&format!("aria-labelledby=\"{name}-title {name}-desc\"")), "{name}");
    assert!(svg.contains(&format::escaped(question)), "{name}");
    assert!(!note.is_empty(), "{name}");
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
    for Drawn { name, svg, .. } in shown().iter().flat_map(Shown::charts) {
        let texts = texts(&svg);
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
    let shown = shown().into_iter().map(|shown| shown.recorded.cells);
    for cells in [hostile, many, extreme(), open, nothing, one].into_iter().chain(shown) {
        all(&recorded(&cells)).unwrap().iter().for_each(assert_sound);
    }
}

#[test]
fn whatever_is_left_beside_the_records_the_charts_are_sound() {
    let mut hostile = strategies();
    for cell in &mut hostile {
        for name in [&mut cell.strategy, &mut cell.sysctl, &mut cell.disk, &mut cell.workload] {
            *name = format!("{name}{HOSTILE}");
        }
    }
    let mut wild = extreme();
    for cell in &mut wild {
        cell.dirty = Dirty { max_bytes: Some(u64::MAX), ..Dirty::default() };
        cell.ack_to_durable_ns = cell.append_to_ack_ns;
        cell.exposure.power.age_ns.p99 = cell.exposure.power.age_ns.p99.min(u64::MAX / 40);
        cell.exposure.process.age_ns.p99 = 0;
    }
    let one = vec![strategies().swap_remove(4)];
    for cells in [hostile, wild, one, strategies()] {
        let root = tempfile::tempdir().unwrap();
        let found = all(&record(root.path(), &cells, &environment())).unwrap();
        assert!(WHOLE.iter().all(|name| found.iter().any(|chart| chart.name == *name)));
        found.iter().for_each(assert_sound);
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
    assert_eq!(names(&[cell(Kind::GroupCommit, 8, 0, |_| {})]), ["c2", "c7", "c9"]);
    assert_eq!(names(&strategies()), ["c2", "c7", "c9", "c10"]);
    let two = [1, 8].map(|producers| cell(Kind::GroupCommit, producers, 0, |_| {}));
    assert_eq!(names(&two), ["c2", "c5", "c7", "c9"]);
    assert_eq!(names(&open_loops()), ["c2", "c3", "c7", "c9", "c10"]);
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
    for name in ["c2", "c3", "c9", "c10"] {
        let svg = chart(&recorded(&cells), name).svg;
        assert!(svg.contains("-title\">SIMULATED DISK: "), "{name}: {svg}");
    }
}

#[test]
fn charts_of_invalid_cells_of_an_emulated_disk_say_so() {
    let mut cells = strategies();
    let mut env = environment();
    env.disk.emulated = true;
    for cell in &mut cells {
        cell.emulated = true;
        cell.status = Status::Invalid;
    }
    let root = tempfile::tempdir().unwrap();
    let recorded = record(root.path(), &cells, &env);
    for name in WHOLE {
        let svg = chart(&recorded, name).svg;
        assert!(svg.contains("-title\">EMULATED DISK: "), "{name}");
        assert!(svg.contains("invalid"), "{name}");
        assert!(!svg.contains("half of the syncs within"), "no line through what does not count");
    }
}
