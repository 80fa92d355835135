//! Chart C4: dirty pages and the longest appends over time, under each kernel setting.
//!
//! Small multiples with the same axes: a column for each kernel setting, all of them under the same
//! strategy and load. Above, what is dirty or being written, with the kernel's limits; below, the
//! longest append of each tenth of a second, and what 99 of 100 of them took.

mod column;
mod trace;

use std::collections::BTreeMap;

use self::column::Sheet;
use self::trace::{Column, Trace};
use super::choice;
use super::drawn::{Drawn, Figure};
use super::head::{self, Sign};
use super::pen::{self, BLACK, Dash, GREY, Pen, Script};
use super::{HEIGHT, with_description};
use crate::clock::float;
use crate::format;
use crate::recorded::Recorded;
use crate::results::Kind;
use crate::summary::{self, Row};

/// Chart C4 of what was recorded; `None` where no dirty pages were seen over time.
///
/// # Errors
///
/// If the drawing library fails, or a recorded series cannot be read.
pub(super) fn draw(recorded: &Recorded) -> anyhow::Result<Option<Drawn>> {
    let all = summary::rows(&recorded.cells);
    let Some(shown) = Shown::of(recorded, &all)? else { return Ok(None) };
    let rows: Vec<Row> = shown.columns.iter().map(|column| column.row.clone()).collect();
    let mut out = String::new();
    let pen = Pen::new(&mut out)?;
    let Recorded { manifest, environment, .. } = recorded;
    let title = head::warning(environment, &rows, None) + QUESTION;
    head::draw_title(&pen, &title, manifest, environment, &rows)?;
    let top = head::draw_legend(&pen, &shown.legend())? + 54;
    Sheet::around(&shown.columns, top).draw(&pen, &shown.columns)?;
    pen.text(&format::clipped(&shown.setting, 135), (16, HEIGHT - 8), Script::left(11, GREY))?;
    pen.finish()?;
    Ok(Some(Drawn {
        name: NAME.to_owned(),
        question: QUESTION,
        note: shown.note(),
        svg: with_description(&out, &title, &shown.description(), NAME),
        heads: HEADS.to_vec(),
        rows: shown.figures(),
    }))
}

/// What is the same under all kernel settings: disk, strategy, workload, producers.
type Alike<'a> = (&'a str, &'a str, &'a str, u32);

/// One strategy under one load on one disk, by kernel settings.
struct Shown<'a> {
    columns: Vec<Column<'a>>,
    setting: String,
    left_out: String,
}

impl<'a> Shown<'a> {
    /// The load with most kernel settings, of these the one with most dirty pages, beside which
    /// files are deleted if there is one: of a strategy rather than of appends that nothing
    /// flushes, of real hardware where there is any.
    fn of(recorded: &Recorded, all: &'a [Row]) -> anyhow::Result<Option<Self>> {
        let dirtiest = |row: &Row| {
            let cells = choice::cells_of(recorded, row);
            cells.iter().filter_map(|cell| cell.dirty.max_bytes).max()
        };
        let mut loads: BTreeMap<Alike<'_>, Vec<(&Row, u64)>> = BTreeMap::new();
        for row in all.iter().filter(|row| row.kind != Kind::Raw) {
            if let Some(dirty) = dirtiest(row) {
                let key = (&*row.disk, &*row.strategy, &*row.workload, row.producers);
                loads.entry(key).or_default().push((row, dirty));
            }
        }
        let others = loads.len().saturating_sub(1);
        let best = loads.into_iter().rev().max_by_key(|(_, rows)| {
            let is_real = rows.iter().all(|(row, _)| row.not_hardware.word().is_none());
            let is_strategy = rows.iter().all(|(row, _)| row.kind.is_strategy());
            let dirty = rows.iter().map(|(_, dirty)| *dirty).max();
            let deletes = rows.iter().any(|(row, _)| {
                let cells = choice::cells_of(recorded, row);
                cells.iter().any(|cell| cell.deletes_every_ms.is_some())
            });
            (is_real, is_strategy, rows.len().min(MOST), deletes, dirty)
        });
        let Some(((disk, strategy, workload, producers), mut rows)) = best else { return Ok(None) };
        rows.sort_by_key(|(row, dirty)| (std::cmp::Reverse(*dirty), &row.sysctl));
        let too_many = rows.split_off(rows.len().min(MOST));
        rows.sort_by_key(|(row, _)| &row.sysctl);
        let mut columns = Vec::new();
        for (row, _) in rows {
            columns.extend(Column::of(recorded, row)?);
        }
        let [strategy, workload, disk] =
            [strategy, workload, disk].map(|name| format::clipped(name, 24));
        let producers = choice::producers(producers);
        let setting = format!("{strategy}, workload {workload}, {producers}, disk {disk}");
        let mut left_out = Vec::new();
        if !too_many.is_empty() {
            let names: Vec<String> =
                too_many.iter().map(|(row, _)| format::clipped(&row.sysctl, 24)).collect();
            left_out.push(format!("the kernel settings {}", choice::named(&names)));
        }
        if others > 0 {
            left_out.push(format!("{others} other loads and strategies"));
        }
        let left_out = choice::not_shown(&left_out);
        Ok((!columns.is_empty()).then_some(Self { columns, setting, left_out }))
    }

    fn traces(&self) -> impl Iterator<Item = (&Column<'a>, &Trace)> {
        self.columns
            .iter()
            .flat_map(|column| column.traces.iter().map(move |trace| (column, trace)))
    }

    fn legend(&self) -> Vec<(Sign, String)> {
        let row = self.columns[0].row;
        let several = self.columns.iter().any(|column| column.traces.len() > 1);
        let strategy = format::clipped(&row.strategy, 24);
        let name = if several { strategy + ", the block in the middle" } else { strategy };
        let mut entries = vec![(Sign::Line(Dash::Solid, pen::colour(row.kind), 2), name)];
        if several {
            entries.push((Sign::Line(Dash::Solid, pen::PALE, 2), "pale: other blocks".to_owned()));
        }
        if self.columns.iter().any(|column| column.main().has_p99()) {
            let what = "below: p99 of each 100 ms".to_owned();
            entries.push((Sign::Line(Dash::Solid, pen::ASKED, 2), what));
        }
        for (dash, name) in [
            (Dash::Dashed, "write-back begins"),
            (Dash::Dotted, "writers are slowed"),
            (Dash::Solid, "limit"),
        ] {
            entries.push((Sign::Line(dash, BLACK, 1), name.to_owned()));
        }
        if self.columns.iter().any(|column| column.main().is_throttled()) {
            entries.push((Sign::Zone(pen::PALE), "writers were slowed".to_owned()));
        }
        if self.traces().any(|(_, trace)| trace.invalid) {
            entries.push((Sign::Line(Dash::Dotted, GREY, 1), "invalid".to_owned()));
        }
        entries
    }

    fn note(&self) -> String {
        let is_cleaned =
            |(_, trace): (_, &Trace)| trace.moments.iter().any(|moment| moment.deleted > 0.0);
        let (beside, deleted) = if self.traces().any(is_cleaned) {
            (" of those beside which files are deleted", "; crosses there: an old file was deleted")
        } else {
            ("", "")
        };
        let p99 = if self.columns.iter().any(|column| column.main().has_p99()) {
            "The second lines in the lower part are what 99 of 100 appends of that tenth of a \
             second took at most, to 1/16; of fewer than 100 it is the longest."
        } else {
            "The line across the lower part is the p99 of all appends of that block."
        };
        format!(
            "{}: of what flushes, the one with the most dirty pages{beside}. The strong line is \
             the block whose dirty pages are in the middle; blocks are counted from 0. Dirty pages \
             are those of the whole machine; above the middle of the two limits the kernel makes \
             writers wait. {p99} \
             Ticks below the upper part: syncs returned; arrows above the lower part: a segment \
             was begun{deleted}; all where they are few.{}",
            self.setting, self.left_out
        )
    }

    fn description(&self) -> String {
        let mut sentences = vec![format!(
            "Line charts over seconds, one column for each kernel setting; above: dirty pages, \
             below: the longest append of each tenth of a second, logarithmic; {}.",
            self.setting
        )];
        sentences.extend(self.columns.iter().map(|column| {
            let main = column.main();
            format!(
                "{}: at most {} dirty, write-back begins at {}, limit {}, writers slowed {:.0} % \
                 of the time, longest append {}, p99 of 100 ms at most {}.",
                column.row.sysctl,
                shown(main.dirty_max(), format::bytes),
                shown(main.background(), format::bytes),
                shown(main.limit(), format::bytes),
                100.0 * main.throttled_share(),
                format::duration(main.worst_max()),
                shown(main.p99_max(), format::duration),
            )
        }));
        sentences.join(" ")
    }

    fn figures(&self) -> Vec<Vec<Figure>> {
        let number = |value: Option<f64>, shown: fn(f64) -> String| {
            value.map_or(Figure::Missing, |value| Figure::Number(shown(value), value))
        };
        let row = |(column, trace): (&Column<'_>, &Trace)| {
            let invalid = if trace.invalid { ", invalid" } else { "" };
            let block = format!("{}{invalid}", trace.block);
            let throttled = trace.throttled_share();
            vec![
                Figure::Text(column.row.sysctl.clone()),
                Figure::Number(block, f64::from(trace.block)),
                number(trace.dirty_max(), format::bytes),
                number(trace.background(), format::bytes),
                number(trace.limit(), format::bytes),
                Figure::Number(format!("{:.0} %", 100.0 * throttled), throttled),
                number(Some(trace.worst_max()), format::duration),
                number(Some(float(trace.p99_ns)), format::duration),
                number(trace.p99_max(), format::duration),
            ]
        };
        self.traces().map(row).collect()
    }
}

fn shown(value: Option<f64>, how: fn(f64) -> String) -> String {
    value.map_or_else(|| "unknown".to_owned(), how)
}

const NAME: &str = "c4";
const QUESTION: &str = "Do dirty pages reach the kernel's limits, and do appends wait then?";
const HEADS: [&str; 9] = [
    "kernel settings",
    "block",
    "dirty at most",
    "write-back begins at",
    "limit",
    "writers slowed",
    "longest append",
    "append p99",
    "worst p99 of 100 ms",
];
/// Kernel settings side by side.
const MOST: usize = 6;
