//! Chart C8: what a sync took, over the bytes that it made durable, on two logarithmic axes.
//!
//! A line is a sync's time as a fixed part and its bytes by a bandwidth; on logarithmic axes it is
//! level first, then rises. Each kind of strategy has its own: syncs of the same size take many
//! times as long where appends go on beside them, and a line through all would be true of none.

use std::collections::BTreeSet;

use plotters::style::Color;

use super::axis::Axis;
use super::choice;
use super::drawn::{Drawn, Figure};
use super::fit::{Fit, sizes};
use super::frame::{Frame, rulings};
use super::head::{self, Sign};
use super::pen::{self, BLACK, Dash, Pen, Pixel, Script};
use super::{HEIGHT, RIGHT, with_description};
use crate::clock::float;
use crate::format;
use crate::recorded::Recorded;
use crate::results::{Kind, Status};
use crate::series::evenly;
use crate::summary::{self, Row, kind_name};

/// Chart C8 of what was recorded; `None` where no single flushes were.
///
/// # Errors
///
/// If the drawing library fails, or a table of flushes cannot be read.
pub(super) fn draw(recorded: &Recorded) -> anyhow::Result<Option<Drawn>> {
    let Some(shown) = Shown::of(recorded)? else { return Ok(None) };
    let kinds = shown.kinds();
    let mut out = String::new();
    let pen = Pen::new(&mut out)?;
    let Recorded { manifest, environment, .. } = recorded;
    let title = head::warning(environment, &shown.rows, None) + QUESTION;
    head::draw_title(&pen, &title, manifest, environment, &shown.rows)?;
    let top = head::draw_legend(&pen, &shown.legend(&kinds))? + 42;
    Plot::around(&shown, top).draw(&pen, &shown, &kinds)?;
    pen.finish()?;
    let svg = with_description(&out, &title, &shown.description(&kinds), NAME);
    let rows = kinds.iter().flat_map(rows).collect();
    let note = shown.note(&kinds);
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

/// The valid flushes of a kind of strategy, and the line through them.
struct OfKind {
    kind: Kind,
    flushes: Vec<(f64, f64)>,
    /// `None` if their sizes are too alike, or too few.
    fit: Option<Fit>,
}

impl OfKind {
    /// `group_commit 2.0 ms + bytes / (95 MiB/s); half of the syncs within 12 %`.
    fn line(&self) -> Option<String> {
        Some(format!("{} {}", kind_name(self.kind), constants(self.fit.as_ref()?)))
    }
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

    /// The valid flushes by kind, in the order of the rows.
    fn kinds(&self) -> Vec<OfKind> {
        let mut kinds: Vec<OfKind> = Vec::new();
        for Series { kind, flushes, .. } in self.series.iter().filter(|series| !series.hollow) {
            match kinds.iter_mut().find(|of| of.kind == *kind) {
                Some(of) => of.flushes.extend(flushes),
                None => kinds.push(OfKind { kind: *kind, flushes: flushes.clone(), fit: None }),
            }
        }
        for of in &mut kinds {
            of.fit = Fit::of(&of.flushes);
        }
        kinds
    }

    fn legend(&self, kinds: &[OfKind]) -> Vec<(Sign, String)> {
        let mut entries = head::strategies(&self.rows);
        if self.series.iter().any(|series| series.hollow) {
            entries.push((Sign::Hollow, "hollow: invalid".to_owned()));
        }
        entries.extend(kinds.iter().filter_map(|of| {
            let sign = Sign::Line(Dash::Solid, pen::colour(of.kind), 2);
            Some((sign, of.line()?))
        }));
        entries
    }

    fn note(&self, kinds: &[OfKind]) -> String {
        let mut sentences = vec![format!(
            "Disk {}, all its kernel settings and workloads; of a cell at most 2000 flushes were \
             kept, evenly chosen, and of many at one place one is drawn.",
            self.disk
        )];
        let lines: Vec<String> = kinds.iter().filter_map(OfKind::line).collect();
        if !lines.is_empty() {
            sentences.push(format!(
                "A line for each kind goes through the medians of the sizes of its valid cells: \
                 {}.",
                lines.join("; ")
            ));
        }
        let without = kinds.iter().filter(|of| of.fit.is_none());
        let without: Vec<&str> = without.map(|of| kind_name(of.kind)).collect();
        if !without.is_empty() {
            sentences.push(format!(
                "The sizes of {} are too alike, or too few, for a line.",
                without.join(", ")
            ));
        }
        if kinds.iter().any(|of| of.fit.is_some() && has_interval(of.kind)) {
            let advice = "The interval of a strategy is too short where its own line is level, \
                          because a sync then pays the fixed time for little, and only adds to \
                          what is at risk where that line rises.";
            sentences.push(advice.to_owned());
        }
        let others = (self.other_disks > 0).then(|| format::plural(self.other_disks, "other disk"));
        sentences.join(" ") + &choice::not_shown(others.as_slice())
    }

    fn description(&self, kinds: &[OfKind]) -> String {
        let mut sentences = vec![format!(
            "Scatter chart on logarithmic axes; across: log bytes that a sync made durable; up: \
             from its start to its return. Disk {}.",
            self.disk
        )];
        for of in kinds {
            sentences.extend(sizes(&of.flushes).iter().map(|size| {
                let (bytes, ns) = size.middle;
                format!(
                    "{}: {} of about {}: half within {}.",
                    kind_name(of.kind),
                    format::plural(size.count, "sync"),
                    format::bytes(bytes),
                    format::duration(ns)
                )
            }));
            sentences.extend(of.line().map(|line| format!("The line of {line}.")));
        }
        sentences.join(" ")
    }
}

/// Whether when it syncs is set by an interval.
fn has_interval(kind: Kind) -> bool {
    matches!(kind, Kind::CommitRealtime | Kind::FlushRealtime)
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

    fn draw(&self, pen: &Pen<'_>, shown: &Shown, kinds: &[OfKind]) -> anyhow::Result<()> {
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
        self.draw_flushes(pen, shown)?;
        kinds.iter().try_for_each(|of| self.draw_fit(pen, of))
    }

    /// One mark where many would lie on each other.
    fn draw_flushes(&self, pen: &Pen<'_>, shown: &Shown) -> anyhow::Result<()> {
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
        for (kind, hollow, at) in evenly(&marks, MOST) {
            pen.dot(*kind, pen::colour(*kind), *at, *hollow)?;
        }
        Ok(())
    }

    /// The line over the sizes of its kind, with a rim that tells it from the marks.
    fn draw_fit(&self, pen: &Pen<'_>, of: &OfKind) -> anyhow::Result<()> {
        let Some(fit) = &of.fit else { return Ok(()) };
        let sizes = of.flushes.iter().map(|(bytes, _)| *bytes);
        let (low, high) = sizes
            .fold((f64::INFINITY, 0.0_f64), |(low, high), bytes| (low.min(bytes), high.max(bytes)));
        let path: Vec<Pixel> = (0..=60)
            .map(|nth| low * (high / low).powf(f64::from(nth) / 60.0))
            .map(|bytes| self.pixel((bytes, fit.at(bytes))))
            .collect();
        pen.line(&path, Dash::Solid, BLACK.stroke_width(4))?;
        pen.line(&path, Dash::Solid, pen::colour(of.kind).stroke_width(2))
    }
}

/// `2.0 ms + bytes / (95 MiB/s); half of the syncs within 12 %`.
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

/// The sizes of a kind, each with what its syncs took and what the line says.
fn rows(of: &OfKind) -> Vec<Vec<Figure>> {
    let time = |ns: f64| Figure::Number(format::duration(ns), ns);
    let row = |size: super::fit::Size| {
        let (bytes, ns) = size.middle;
        let range =
            format!("{} to {}", format::bytes(size.from_bytes), format::bytes(size.to_bytes));
        let count = float(store_core::length_u64(size.count));
        vec![
            Figure::Text(kind_name(of.kind).to_owned()),
            Figure::Number(range, size.from_bytes),
            Figure::Number(format::count(count), count),
            Figure::Number(format::bytes(bytes), bytes),
            time(ns),
            time(size.p99_ns),
            time(size.max_ns),
            of.fit.map_or(Figure::Missing, |fit| time(fit.at(bytes))),
        ]
    };
    sizes(&of.flushes).into_iter().map(row).collect()
}

const NAME: &str = "c8";
const QUESTION: &str = "What does a sync take, by how much it makes durable?";
const HEADS: [&str; 8] = [
    "kind",
    "bytes of a sync",
    "syncs kept",
    "median size",
    "p50",
    "p99",
    "max",
    "by the line of its kind",
];

const LEFT: i32 = 72;
/// Marks in the chart.
const MOST: usize = 2000;
const KIB: f64 = 1024.0;
const MIB: f64 = 1024.0 * 1024.0;
