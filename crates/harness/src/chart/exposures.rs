//! Chart C6: for how much of the time how old a message was that a crash would have taken, and how
//! many bytes.
//!
//! Cumulative shares of time over the age of the oldest message at risk, and beside it the shares
//! with more than so many bytes at risk; once for `kill -9` and once for a power cut. As in chart
//! C1 nothing at all has a band of its own.

use std::ops::Range;

use hdrhistogram::Histogram;
use plotters::style::Color;

use super::axis::{Axis, Linear};
use super::choice::{self, Chosen};
use super::drawn::{Drawn, Figure};
use super::frame::{Frame, rulings, rulings_linear};
use super::head::{self, Sign};
use super::labels::{Area, Crowd};
use super::pen::{self, BAND, BLACK, Dash, GREY, Ink, Looks, Pen, Pixel, Script, Series};
use super::{HEIGHT, LossModel, RIGHT, with_description};
use crate::clock::float;
use crate::format;
use crate::recorded::Recorded;
use crate::results::Cell;
use crate::summary::{Extent, Row};

/// Chart C6 of what was recorded; `None` where no exposure was recorded whole.
///
/// # Errors
///
/// If the drawing library fails, or a recorded histogram cannot be read.
pub(super) fn draw(recorded: &Recorded) -> anyhow::Result<Option<Drawn>> {
    let has = |row: &Row| Ok(!curves(recorded, std::slice::from_ref(row))?.is_empty());
    let Some(chosen) = choice::choose(recorded, MOST, has)? else { return Ok(None) };
    let curves = curves(recorded, &chosen.rows)?;
    let mut out = String::new();
    let pen = Pen::new(&mut out)?;
    let Recorded { manifest, environment, .. } = recorded;
    let title = head::warning(environment, &chosen.rows, Some(LossModel::Power)) + QUESTION;
    head::draw_title(&pen, &title, manifest, environment, &chosen.rows)?;
    let looks = Looks::of(&chosen.rows);
    let top = head::draw_legend(&pen, &legend(&chosen.rows, &curves, &looks))? + 38;
    draw_panels(&pen, &curves, &looks, top)?;
    pen.text(&format::clipped(&chosen.setting, 135), (16, HEIGHT - 8), Script::left(11, GREY))?;
    pen.finish()?;
    let svg = with_description(&out, &title, &description(&chosen, &curves), NAME);
    Ok(Some(Drawn {
        name: NAME.to_owned(),
        question: QUESTION,
        note: note(&chosen, &curves),
        svg,
        heads: HEADS.to_vec(),
        rows: curves.iter().map(figures).collect(),
    }))
}

/// The distribution of one strategy's exposure under one kind of crash.
struct Curve<'a> {
    row: &'a Row,
    model: LossModel,
    ages: Shares,
    /// Not of earlier runs.
    bytes: Option<Shares>,
    /// Only invalid blocks have any.
    hollow: bool,
    /// What it had to wait at most by its setting.
    interval_ns: Option<u64>,
}

/// Those that were recorded, by crash.
fn curves<'a>(recorded: &Recorded, rows: &'a [Row]) -> anyhow::Result<Vec<Curve<'a>>> {
    let mut curves = Vec::new();
    for (model, name) in
        [(LossModel::Process, "exposure_process"), (LossModel::Power, "exposure_power")]
    {
        for row in rows {
            let (cells, hollow) = choice::counted(recorded, row);
            let of = |what: &str| Shares::of(recorded, &cells, &format!("{name}_{what}"));
            let Some(ages) = of("age")? else { continue };
            let bytes = of("bytes")?;
            let interval_ns = cells.iter().find_map(|cell| cell.interval.configured_ns);
            curves.push(Curve { row, model, ages, bytes, hollow, interval_ns });
        }
    }
    Ok(curves)
}

/// The shares of time that a figure held.
struct Shares {
    /// All blocks together, and each.
    all: Histogram<u64>,
    blocks: Vec<Histogram<u64>>,
}

impl Shares {
    /// As far as they were recorded.
    fn of(recorded: &Recorded, cells: &[&Cell], name: &str) -> anyhow::Result<Option<Self>> {
        let mut blocks = Vec::new();
        for cell in cells {
            let found = recorded.histogram(cell, name)?;
            blocks.extend(found.filter(|values| !values.is_empty()));
        }
        let Some(mut all) = blocks.first().cloned() else { return Ok(None) };
        for block in &blocks[1..] {
            all.add(block).map_err(|error| anyhow::anyhow!("{name}: {error}"))?;
        }
        Ok(Some(Self { all, blocks }))
    }

    /// The share of time in which nothing was at risk.
    fn at_no_risk(&self) -> f64 {
        at_no_risk(&self.all)
    }
}

/// What is told of what is at risk.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Measure {
    Age,
    Bytes,
}

impl Measure {
    fn of<'a>(self, curve: &'a Curve<'_>) -> Option<&'a Shares> {
        match self {
            Self::Age => Some(&curve.ages),
            Self::Bytes => curve.bytes.as_ref(),
        }
    }

    /// The value in the unit of its axis.
    fn on_axis(self, value: u64) -> f64 {
        match self {
            Self::Age => float(value),
            Self::Bytes => float(value) / MIB,
        }
    }

    /// The height at which a value stands that is not exceeded for this share of the time.
    fn height(self, share: f64) -> f64 {
        match self {
            Self::Age => share,
            Self::Bytes => 1.0 - share,
        }
    }

    /// What an unknown distribution would reach from and to.
    fn otherwise(self) -> Range<f64> {
        match self {
            Self::Age => 1e6..1e9,
            Self::Bytes => 0.01..10.0,
        }
    }

    fn caption(self) -> &'static str {
        match self {
            Self::Age => "age of the oldest message at risk (log)",
            Self::Bytes => "log bytes at risk (MiB, log)",
        }
    }

    fn heading(self) -> &'static str {
        match self {
            Self::Age => "share of time at most that old",
            Self::Bytes => "share of time with more than that at risk",
        }
    }

    fn shown(self) -> fn(f64) -> String {
        match self {
            Self::Age => format::duration,
            Self::Bytes => format::count,
        }
    }
}

impl Curve<'_> {
    fn extent(&self) -> Extent {
        let figures = self.row.figures.or(self.row.refused);
        figures.map_or(Extent::Measured, |figures| self.model.loss(&figures).extent)
    }

    fn label(&self) -> String {
        let bound = if self.extent() == Extent::AtLeast { " ≥" } else { "" };
        format::clipped(&self.row.strategy, 24) + bound
    }
}

fn at_no_risk(values: &Histogram<u64>) -> f64 {
    float(values.count_at(0)) / float(values.len())
}

/// The frame of one kind of crash and one measure.
struct Panel<'a> {
    model: LossModel,
    measure: Measure,
    looks: &'a Looks<'a>,
    left: i32,
    right: i32,
    top: i32,
    bottom: i32,
    band_end: i32,
    across: Axis,
    shares: Linear,
}

fn draw_panels(
    pen: &Pen<'_>,
    curves: &[Curve<'_>],
    looks: &Looks<'_>,
    top: i32,
) -> anyhow::Result<()> {
    let has_bytes = curves.iter().any(|curve| curve.bytes.is_some());
    let measures: &[Measure] =
        if has_bytes { &[Measure::Age, Measure::Bytes] } else { &[Measure::Age] };
    let wide = if has_bytes { (RIGHT - LEFT - APART) / 2 } else { RIGHT - LEFT };
    let high = (HEIGHT - 66 - top - GAP) / 2;
    for (nth, &measure) in (0..).zip(measures) {
        let left = LEFT + nth * (wide + APART);
        let right = left + wide;
        let of = |model| {
            let curves = curves.iter().filter(move |curve| curve.model == model);
            curves.filter_map(|curve| Some((curve, measure.of(curve)?)))
        };
        let in_band = |model| of(model).filter(|(_, shares)| shares.at_no_risk() > 0.0).count();
        let columns = in_band(LossModel::Process).max(in_band(LossModel::Power));
        let columns = i32::try_from(columns).unwrap_or(i32::MAX);
        let column = if has_bytes { COLUMN / 2 } else { COLUMN };
        let band = columns.saturating_mul(column).clamp(COLUMN / 2, wide * 2 / 5);
        let band_end = left + band;
        let both = of(LossModel::Process).chain(of(LossModel::Power));
        let values: Vec<f64> = both.flat_map(|(_, shares)| ends(measure, shares)).collect();
        for (nth, model) in (0..).zip([LossModel::Process, LossModel::Power]) {
            let top = top + nth * (high + GAP);
            let bottom = top + high;
            let across = Axis::around(&values, measure.otherwise(), band_end..right);
            let shares = Linear::up_to(1.0, bottom, top);
            let panel =
                Panel { model, measure, looks, left, right, top, bottom, band_end, across, shares };
            panel.draw(pen, &of(model).collect::<Vec<_>>())?;
        }
        let bottom = top + 2 * high + GAP;
        let zero = (i32::midpoint(left, band_end), bottom + 14);
        pen.text("0", zero, Script::centred(12, BLACK).bold())?;
        let middle = (i32::midpoint(band_end, right), bottom + 34);
        pen.text(measure.caption(), middle, Script::centred(12, BLACK))?;
    }
    Ok(())
}

/// The values that the axis has to hold: nearly all, from the first percent on.
fn ends(measure: Measure, shares: &Shares) -> [f64; 2] {
    [first(&shares.all), shares.all.max()].map(|value| measure.on_axis(value))
}

/// The value at the first percent of the time in which there was any.
fn first(values: &Histogram<u64>) -> u64 {
    let none = at_no_risk(values);
    values.value_at_quantile(none + 0.01 * (1.0 - none))
}

/// A curve with the shares that are drawn of it.
type Seen<'a> = (&'a Curve<'a>, &'a Shares);

impl Panel<'_> {
    fn draw(&self, pen: &Pen<'_>, curves: &[Seen<'_>]) -> anyhow::Result<()> {
        let Self { left, right, top, bottom, band_end: start, .. } = *self;
        pen.fill((left, top), (start, bottom), BAND)?;
        let has_below = self.model == LossModel::Process;
        let beside_band = Frame { left: start, right, top, bottom, has_left: false, has_below };
        beside_band.rule_across(pen, &rulings(&self.across, self.measure.shown()))?;
        let whole = Frame { left, ..beside_band };
        whole.rule_up(pen, &rulings_linear(&self.shares, percent))?;
        whole.outline(pen)?;
        pen.line(&[(start, top), (start, bottom)], Dash::Dotted, GREY)?;
        let heading = format!("{}: {}", self.model.words(), self.measure.heading());
        pen.text(&heading, (left - 56, top - 13), Script::left(12, BLACK))?;
        let mut crowd = Crowd::new(Area::spanning((left, top), (right, bottom), 0));
        if self.model == LossModel::Power && self.measure == Measure::Age {
            self.draw_intervals(pen, curves, &mut crowd)?;
        }
        let marks = self.marks(curves);
        for mark in &marks {
            crowd.add_solid(Area::about(*mark, 7));
        }
        for (seen, mark) in curves.iter().zip(&marks) {
            self.draw_curve(pen, *seen, *mark, &mut crowd)?;
        }
        for ((curve, _), mark) in curves.iter().zip(&marks) {
            let Series { shape, colour, .. } = self.looks.look(curve.row);
            pen.mark_in(shape, colour, *mark, Ink::of(curve.row, curve.hollow))?;
            let text = curve.label();
            let size = (pen::text_width(&text, 11), 12);
            // Where there is no room the look tells it, by the legend.
            if let Some(place) = crowd.free_place_near(*mark, Area::about(*mark, 0), size) {
                pen.text(&text, place, Script::left(11, BLACK))?;
            }
        }
        Ok(())
    }

    /// Where each curve has its mark: in its column of the band if half of the time nothing is at
    /// risk, else at its median.
    fn marks(&self, curves: &[Seen<'_>]) -> Vec<Pixel> {
        let is_in_band = |shares: &Shares| shares.at_no_risk() >= 0.5;
        let count = curves.iter().filter(|(_, shares)| is_in_band(shares)).count();
        let count = i32::try_from(count).unwrap_or(i32::MAX).max(1);
        let mut column = 0;
        let mut mark = |(_, shares): &Seen<'_>| {
            if !is_in_band(shares) {
                let median = self.measure.on_axis(shares.all.value_at_quantile(0.5));
                return (self.across.at(median), self.shares.at(0.5));
            }
            let x = self.left + (self.band_end - self.left) * (2 * column + 1) / (2 * count);
            column += 1;
            (x, self.height(shares.at_no_risk()))
        };
        curves.iter().map(&mut mark).collect()
    }

    fn height(&self, share: f64) -> i32 {
        self.shares.at(self.measure.height(share))
    }

    fn draw_curve(
        &self,
        pen: &Pen<'_>,
        (curve, shares): Seen<'_>,
        mark: Pixel,
        crowd: &mut Crowd,
    ) -> anyhow::Result<()> {
        let Series { colour, dash, .. } = self.looks.look(curve.row);
        if shares.blocks.len() > 1 && shares.at_no_risk() < 1.0 {
            for block in shares.blocks.iter().take(MOST_BLOCKS) {
                pen.line(&self.path(block), Dash::Solid, colour.mix(0.3))?;
            }
        }
        if shares.at_no_risk() >= 1.0 {
            // Its mark says all; lines would lie on each other.
            return Ok(());
        }
        let mut path = self.path(&shares.all);
        if mark.0 < self.band_end {
            path.insert(0, mark);
        }
        for pair in path.windows(2) {
            crowd.add_line(pair[0], pair[1]);
        }
        let width = if curve.hollow { 1 } else { 2 };
        pen.line(&path, dash, colour.stroke_width(width))
    }

    /// From the end of the band to the greatest value, percent by percent.
    fn path(&self, values: &Histogram<u64>) -> Vec<Pixel> {
        let none = at_no_risk(values);
        let mut path = Vec::new();
        if none > 0.0 {
            path.push((self.band_end, self.height(none)));
        }
        if none < 1.0 {
            let at = |value| self.across.at(self.measure.on_axis(value));
            path.push((at(first(values)), self.height(none)));
            for percent in 1..=100 {
                let share = none + f64::from(percent) / 100.0 * (1.0 - none);
                path.push((at(values.value_at_quantile(share)), self.height(share)));
            }
        }
        path.dedup();
        path
    }

    /// The intervals that were asked for, as vertical lines.
    fn draw_intervals(
        &self,
        pen: &Pen<'_>,
        curves: &[Seen<'_>],
        crowd: &mut Crowd,
    ) -> anyhow::Result<()> {
        for interval in intervals(curves.iter().map(|(curve, _)| *curve)) {
            let x = self.across.at(float(interval));
            let line = [(x, self.top), (x, self.bottom)];
            crowd.add_line(line[0], line[1]);
            pen.line(&line, Dash::Dotted, BLACK)?;
            let text = format::duration(float(interval));
            let size = (pen::text_width(&text, 11), 12);
            let places: Vec<Pixel> = [8, 22]
                .into_iter()
                .flat_map(|up| [(x + 5, self.bottom - up), (x - 5 - size.0, self.bottom - up)])
                .collect();
            let place = crowd.place(&places, size);
            pen.text(&text, place, Script::left(11, BLACK))?;
        }
        Ok(())
    }
}

/// Those that differ, by length, not more than the chart can name.
fn intervals<'a>(curves: impl IntoIterator<Item = &'a Curve<'a>>) -> Vec<u64> {
    let mut found: Vec<u64> = curves
        .into_iter()
        .filter_map(|curve| curve.interval_ns.filter(|interval| *interval > 0))
        .collect();
    found.sort_unstable();
    found.dedup();
    found.truncate(MOST_INTERVALS);
    found
}

fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

fn legend(rows: &[Row], curves: &[Curve<'_>], looks: &Looks<'_>) -> Vec<(Sign, String)> {
    let mut entries = head::strategies_as(rows, looks);
    entries.extend(head::hatched(rows.iter().map(|row| row.not_hardware)));
    if !intervals(curves).is_empty() {
        entries.push((Sign::Line(Dash::Dotted, BLACK, 1), "flush interval asked for".to_owned()));
    }
    if curves.iter().any(|curve| curve.ages.blocks.len() > 1) {
        entries.push((Sign::Line(Dash::Solid, pen::PALE, 2), "pale: each block".to_owned()));
    }
    if curves.iter().any(|curve| curve.extent() == Extent::AtLeast) {
        entries.push((Sign::AtLeast, "at least, it still grew".to_owned()));
    }
    if curves.iter().any(|curve| curve.hollow) {
        entries.push((Sign::Hollow, "hollow: invalid".to_owned()));
    }
    entries
}

fn note(chosen: &Chosen, curves: &[Curve<'_>]) -> String {
    let bytes = if curves.iter().any(|curve| curve.bytes.is_some()) {
        " To the right, the height at which a line passes a size is the chance that it takes more \
         of the log than that."
    } else {
        ""
    };
    format!(
        "Of {}. After kill -9 what the page cache does not hold is lost, after a power cut what no \
         successful sync covers. The strong line is all blocks together. A crash comes at a random \
         moment, so the height at which a line passes an age is the chance that a crash takes \
         nothing older.{bytes} The dotted vertical is the flush interval that was asked for: a \
         message can be at risk for that long and for the sync itself.{}",
        chosen.setting, chosen.left_out
    )
}

fn description(chosen: &Chosen, curves: &[Curve<'_>]) -> String {
    let mut sentences = vec![format!(
        "Cumulative shares of time over the age of the oldest message at risk and, where they were \
         recorded, over the bytes at risk, on logarithmic axes with a band for none; {}.",
        chosen.setting
    )];
    for curve in curves {
        let age = |share| format::duration(float(curve.ages.all.value_at_quantile(share)));
        let bytes = curve.bytes.as_ref().map_or_else(String::new, |bytes| {
            let of = |share| format::bytes(float(bytes.all.value_at_quantile(share)));
            format!(" and {}, {}", of(0.5), of(0.99))
        });
        sentences.push(format!(
            "{}, {}{}: nothing at risk {} of the time, half of the time at most {}, 99 % at most \
             {}{bytes}.",
            curve.row.strategy,
            curve.model.words(),
            if curve.hollow { " (invalid)" } else { "" },
            percent(curve.ages.at_no_risk()),
            age(0.5),
            age(0.99)
        ));
    }
    sentences.join(" ")
}

fn figures(curve: &Curve<'_>) -> Vec<Figure> {
    let bound = if curve.extent() == Extent::AtLeast { "≥" } else { "" };
    let age = |ns: u64| {
        let ns = float(ns);
        Figure::Number(format!("{}{}", if ns > 0.0 { bound } else { "" }, format::duration(ns)), ns)
    };
    let invalid = if curve.hollow { ", invalid" } else { "" };
    let count = curve.ages.blocks.len();
    let none = curve.ages.at_no_risk();
    let mut row = vec![
        Figure::Text(format!("{}, {}", curve.row.strategy, curve.model.words())),
        Figure::Number(format!("{:.1} %", 100.0 * none), none),
    ];
    let ages = &curve.ages.all;
    row.extend([0.5, 0.9, 0.99, 0.999].map(|share| age(ages.value_at_quantile(share))));
    row.push(age(ages.max()));
    let bytes = |of: fn(&Histogram<u64>) -> u64| {
        curve.bytes.as_ref().map_or(Figure::Missing, |bytes| {
            let value = float(of(&bytes.all));
            let bound = if value > 0.0 { bound } else { "" };
            Figure::Number(format!("{bound}{}", format::bytes(value)), value)
        })
    };
    row.push(bytes(|values| values.value_at_quantile(0.5)));
    row.push(bytes(|values| values.value_at_quantile(0.99)));
    row.push(bytes(Histogram::max));
    row.push(
        curve
            .interval_ns
            .map_or(Figure::Missing, |ns| Figure::Number(format::duration(float(ns)), float(ns))),
    );
    let blocks = format!("{count}{invalid}");
    row.push(Figure::Number(blocks, float(store_core::length_u64(count))));
    row
}

const NAME: &str = "c6";
const QUESTION: &str = "For how much of the time is how old a message, and how much, at risk?";
const HEADS: [&str; 12] = [
    "strategy, crash",
    "nothing at risk",
    "p50",
    "p90",
    "p99",
    "p99.9",
    "max",
    "bytes p50",
    "bytes p99",
    "bytes max",
    "interval",
    "blocks",
];

const LEFT: i32 = 72;
/// Width of a strategy's column in the band, as far as there is room: a mark and a label beside it.
const COLUMN: i32 = 84;
/// Between the two rows of panels,
const GAP: i32 = 34;
/// and between the two beside each other.
const APART: i32 = 68;
/// What the axis of bytes counts in.
const MIB: f64 = 1_048_576.0;
/// Strategies in one chart; more lines cannot be told apart.
const MOST: usize = 8;
/// Blocks drawn beside their sum.
const MOST_BLOCKS: usize = 12;
/// Intervals that are drawn.
const MOST_INTERVALS: usize = 4;
