//! Chart C8: what a sync took, over the bytes that it made durable, on two logarithmic axes.
//!
//! The line is a sync's time as a fixed part and its bytes by a bandwidth; on logarithmic axes it
//! is level first, then rises.

use std::collections::BTreeSet;

use plotters::style::Color;

use super::axis::Axis;
use super::choice;
use super::drawn::{Drawn, Figure};
use super::fit::{Fit, sizes};
use super::frame::{Frame, rulings};
use super::head::{self, Sign};
use super::labels::{Area, Crowd};
use super::pen::{self, BLACK, Dash, Pen, Pixel, Script};
use super::{HEIGHT, RIGHT, with_description};
use crate::clock::float;
use crate::format;
use crate::recorded::Recorded;
use crate::results::{Kind, Status};
use crate::series::evenly;
use crate::summary::{self, Row};

/// Chart C8 of what was recorded; `None` where no single flushes were.
///
/// # Errors
///
/// If the drawing library fails, or a table of flushes cannot be read.
pub(super) fn draw(recorded: &Recorded) -> anyhow::Result<Option<Drawn>> {
    let Some(shown) = Shown::of(recorded)? else { return Ok(None) };
    let valid: Vec<(f64, f64)> = shown.points(false).collect();
    let fit = Fit::of(&valid);
    let mut out = String::new();
    let pen = Pen::new(&mut out)?;
    let Recorded { manifest, environment, .. } = recorded;
    let title = head::warning(environment, &shown.rows, None) + QUESTION;
    head::draw_title(&pen, &title, manifest, environment, &shown.rows)?;
    let top = head::draw_legend(&pen, &shown.legend(fit.is_some()))? + 42;
    Plot::around(&shown, top).draw(&pen, &shown, fit.as_ref())?;
    pen.finish()?;
    let svg = with_description(&out, &title, &shown.description(fit.as_ref()), NAME);
    let rows = rows(&valid, fit.as_ref());
    let note = shown.note(fit.as_ref());
    let heads = HEADS.to_vec();
    let name = NAME.to_owned();
    Ok(Some(Drawn { name, question: QUESTION, note, svg, heads, rows }))
}

/// Flushes of one strategy, of its valid or of its invalid cells.
struct Series {
    kind: Kind,
    hollow: bool,
    flushes: Vec<(f64, f64)>,
}

/// What is drawn: the flushes on one disk.
struct Shown {
    disk: String,
    rows: Vec<Row>,
    series: Vec<Series>,
    other_disks: usize,
}

impl Shown {
    /// The disk with most flushes, of real hardware where there is any.
    fn of(recorded: &Recorded) -> anyhow::Result<Option<Self>> {
        let all = summary::rows(&recorded.cells);
        let names: BTreeSet<&str> = all.iter().map(|row| row.disk.as_str()).collect();
        let mut disks = Vec::new();
        for disk in names {
            let of_disk = all.iter().filter(|row| row.disk == disk && row.kind.is_strategy());
            let (mut rows, mut series) = (Vec::new(), Vec::new());
            for row in of_disk {
                let found = row_series(recorded, row)?;
                if !found.is_empty() {
                    rows.push(row.clone());
                    series.extend(found);
                }
            }
            if !series.is_empty() {
                disks.push(Self { disk: disk.to_owned(), rows, series, other_disks: 0 });
            }
        }
        let others = disks.len().saturating_sub(1);
        let best = disks.into_iter().rev().max_by_key(|shown| {
            let is_real = shown.rows.iter().all(|row| row.not_hardware.word().is_none());
            (is_real, shown.series.iter().map(|series| series.flushes.len()).sum::<usize>())
        });
        Ok(best.map(|shown| Self { other_disks: others, ..shown }))
    }

    fn points(&self, hollow: bool) -> impl Iterator<Item = (f64, f64)> {
        let series = self.series.iter().filter(move |series| series.hollow == hollow);
        series.flat_map(|series| series.flushes.iter().copied())
    }

    fn legend(&self, has_fit: bool) -> Vec<(Sign, String)> {
        let mut entries = head::strategies(&self.rows);
        if has_fit {
            let name = "fixed time + bytes / bandwidth".to_owned();
            entries.push((Sign::Line(Dash::Solid, BLACK, 2), name));
        }
        if self.series.iter().any(|series| series.hollow) {
            entries.push((Sign::Hollow, "hollow: invalid".to_owned()));
        }
        entries
    }

    fn note(&self, fit: Option<&Fit>) -> String {
        let fitted = fit.map_or_else(
            || "The sizes are too alike, or too few, for a line.".to_owned(),
            |fit| {
                format!(
                    "The line goes through the medians of the sizes of valid cells; half of the \
                     syncs lie within {:.0} % of it. An interval is too short where a sync is \
                     level, because it pays the fixed time for little, and only adds to what is \
                     at risk where it rises.",
                    100.0 * fit.error
                )
            },
        );
        let others = (self.other_disks > 0).then(|| format::plural(self.other_disks, "other disk"));
        let others = choice::not_shown(others.as_slice());
        format!(
            "Disk {}, all its kernel settings and workloads; of a cell at most 2000 flushes were \
             kept, evenly chosen, and of many at one place one is drawn. {fitted}{others}",
            self.disk
        )
    }

    fn description(&self, fit: Option<&Fit>) -> String {
        let mut sentences = vec![format!(
            "Scatter chart on logarithmic axes; across: log bytes that a sync made durable; up: \
             from its start to its return. Disk {}.",
            self.disk
        )];
        sentences.extend(sizes(&self.points(false).collect::<Vec<_>>()).iter().map(|size| {
            let (bytes, ns) = size.middle;
            format!(
                "{} of about {}: half within {}.",
                format::plural(size.count, "sync"),
                format::bytes(bytes),
                format::duration(ns)
            )
        }));
        sentences.extend(fit.map(|fit| format!("The line: {}.", constants(fit))));
        sentences.join(" ")
    }
}

/// The flushes of a row, those of valid cells apart from those of invalid ones.
fn row_series(recorded: &Recorded, row: &Row) -> anyhow::Result<Vec<Series>> {
    let mut found = [Vec::new(), Vec::new()];
    for cell in choice::cells_of(recorded, row) {
        let usable = |(bytes, ns): &(f64, f64)| *bytes >= 1.0 && *ns >= 1.0;
        let flushes = recorded.flushes(cell)?.into_iter().filter(usable);
        found[usize::from(cell.status == Status::Invalid)].extend(flushes);
    }
    let [valid, invalid] = found;
    Ok([(valid, false), (invalid, true)]
        .into_iter()
        .filter(|(flushes, _)| !flushes.is_empty())
        .map(|(flushes, hollow)| Series { kind: row.kind, hollow, flushes })
        .collect())
}

struct Plot {
    top: i32,
    bottom: i32,
    x: Axis,
    y: Axis,
    /// What the axis counts in, and its name.
    unit: (f64, &'static str),
}

impl Plot {
    fn around(shown: &Shown, top: i32) -> Self {
        let bottom = HEIGHT - 58;
        let all: Vec<(f64, f64)> = shown.points(false).chain(shown.points(true)).collect();
        let largest = all.iter().fold(0.0, |most: f64, (bytes, _)| most.max(*bytes));
        let unit = if largest >= MIB { (MIB, "MiB") } else { (KIB, "KiB") };
        let sizes: Vec<f64> = all.iter().map(|(bytes, _)| bytes / unit.0).collect();
        let times: Vec<f64> = all.iter().map(|(_, ns)| *ns).collect();
        Self {
            top,
            bottom,
            x: Axis::around(&sizes, 0.01..10.0, LEFT..RIGHT),
            y: Axis::around(&times, 1e5..1e8, bottom..top),
            unit,
        }
    }

    fn pixel(&self, (bytes, ns): (f64, f64)) -> Pixel {
        (self.x.at(bytes / self.unit.0), self.y.at(ns))
    }

    fn draw(&self, pen: &Pen<'_>, shown: &Shown, fit: Option<&Fit>) -> anyhow::Result<()> {
        let (top, bottom) = (self.top, self.bottom);
        let (has_left, has_below) = (false, false);
        let frame = Frame { left: LEFT, right: RIGHT, top, bottom, has_left, has_below };
        frame.rule_across(pen, &rulings(&self.x, format::count))?;
        frame.rule_up(pen, &rulings(&self.y, format::duration))?;
        frame.outline(pen)?;
        let title = format!("log bytes that a sync made durable ({}, log)", self.unit.1);
        let middle = i32::midpoint(LEFT, RIGHT);
        pen.text(&title, (middle, bottom + 38), Script::centred(12, BLACK))?;
        let title = "from the start of a sync to its return (log)";
        pen.text(title, (LEFT - 56, top - 14), Script::left(12, BLACK))?;
        let mut crowd = Crowd::new(Area::spanning((LEFT, top), (RIGHT, bottom), 0));
        self.draw_flushes(pen, shown, &mut crowd)?;
        if let Some(fit) = fit {
            self.draw_fit(pen, shown, fit, &mut crowd)?;
        }
        Ok(())
    }

    /// One mark where many would lie on each other.
    fn draw_flushes(&self, pen: &Pen<'_>, shown: &Shown, crowd: &mut Crowd) -> anyhow::Result<()> {
        let mut taken = BTreeSet::new();
        let mut marks = Vec::new();
        for series in &shown.series {
            for flush in &series.flushes {
                let (x, y) = self.pixel(*flush);
                let place = (pen::kind_rank(series.kind), series.hollow, x / 3, y / 3);
                if taken.insert(place) {
                    marks.push((series.kind, series.hollow, (x, y)));
                }
            }
        }
        // In the order of places, not of cells, so that what is left out is the same always.
        marks.sort_by_key(|(kind, hollow, at)| (*at, pen::kind_rank(*kind), *hollow));
        let marks = evenly(&marks, MOST);
        for (_, _, at) in &marks {
            crowd.add_solid(Area::about(*at, 2));
        }
        for (kind, hollow, at) in marks {
            pen.dot(*kind, pen::colour(*kind), *at, *hollow)?;
        }
        Ok(())
    }

    fn draw_fit(
        &self,
        pen: &Pen<'_>,
        shown: &Shown,
        fit: &Fit,
        crowd: &mut Crowd,
    ) -> anyhow::Result<()> {
        let sizes = shown.points(false).map(|(bytes, _)| bytes);
        let (low, high) = sizes
            .fold((f64::INFINITY, 0.0_f64), |(low, high), bytes| (low.min(bytes), high.max(bytes)));
        let path: Vec<Pixel> = (0..=60)
            .map(|nth| low * (high / low).powf(f64::from(nth) / 60.0))
            .map(|bytes| self.pixel((bytes, fit.at(bytes))))
            .collect();
        for pair in path.windows(2) {
            crowd.add_line(pair[0], pair[1]);
        }
        pen.line(&path, Dash::Solid, pen::WHITE.stroke_width(4))?;
        pen.line(&path, Dash::Solid, BLACK.stroke_width(2))?;
        let text = constants(fit);
        let size = (pen::text_width(&text, 12) + 8, 16);
        let (left, right) = (LEFT + 8, RIGHT - size.0 - 8);
        let middle = i32::midpoint(left, right);
        let (top, bottom) = (self.top + 14, self.bottom - 14);
        let places: Vec<Pixel> = [left, right, middle]
            .into_iter()
            .flat_map(|x| [(x, top), (x, bottom), (x, top + 24), (x, bottom - 24)])
            .collect();
        let (x, y) = crowd.place(&places, size);
        pen.fill((x - 4, y - 9), (x + size.0, y + 9), pen::WHITE)?;
        pen.text(&text, (x, y), Script::left(12, BLACK).bold())
    }
}

/// `2.0 ms + bytes / 95 MiB/s (half within 12 %)`.
fn constants(fit: &Fit) -> String {
    let bandwidth = if fit.ns_per_byte > 0.0 {
        format!(" + bytes / ({}/s)", format::bytes(1e9 / fit.ns_per_byte))
    } else {
        ", whatever the size".to_owned()
    };
    format!(
        "{}{bandwidth}; half of the syncs within {:.0} %",
        format::duration(fit.fixed_ns),
        100.0 * fit.error
    )
}

/// The sizes, each with what its syncs took and what the line says.
fn rows(valid: &[(f64, f64)], fit: Option<&Fit>) -> Vec<Vec<Figure>> {
    let time = |ns: f64| Figure::Number(format::duration(ns), ns);
    let row = |size: super::fit::Size| {
        let (bytes, ns) = size.middle;
        let range =
            format!("{} to {}", format::bytes(size.from_bytes), format::bytes(size.to_bytes));
        let count = float(store_core::length_u64(size.count));
        vec![
            Figure::Number(range, size.from_bytes),
            Figure::Number(format::count(count), count),
            Figure::Number(format::bytes(bytes), bytes),
            time(ns),
            time(size.p99_ns),
            time(size.max_ns),
            fit.map_or(Figure::Missing, |fit| time(fit.at(bytes))),
        ]
    };
    sizes(valid).into_iter().map(row).collect()
}

const NAME: &str = "c8";
const QUESTION: &str = "What does a sync take, by how much it makes durable?";
const HEADS: [&str; 7] =
    ["bytes of a sync", "syncs kept", "median size", "p50", "p99", "max", "by the line"];

const LEFT: i32 = 72;
/// Marks in the chart.
const MOST: usize = 2000;
const KIB: f64 = 1024.0;
const MIB: f64 = 1024.0 * 1024.0;
