//! Chart C6: for how much of the time how old a message was that a crash would have taken.
//!
//! Cumulative shares of time over the age of the oldest message at risk, once for `kill -9` and
//! once for a power cut. As in chart C1 no age at all has a band of its own.

use hdrhistogram::Histogram;
use plotters::style::Color;

use super::axis::{Axis, Linear};
use super::choice::{self, Chosen};
use super::drawn::{Drawn, Figure};
use super::frame::{Frame, rulings, rulings_linear};
use super::head::{self, Sign};
use super::labels::{Area, Crowd};
use super::pen::{self, BAND, BLACK, Dash, GREY, Pen, Pixel, Script};
use super::{HEIGHT, LossModel, RIGHT, with_description};
use crate::clock::float;
use crate::format;
use crate::recorded::Recorded;
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
    let top = head::draw_legend(&pen, &legend(&chosen.rows, &curves))? + 38;
    draw_panels(&pen, &curves, top)?;
    pen.text(&format::clipped(&chosen.setting, 135), (16, HEIGHT - 8), Script::left(11, GREY))?;
    pen.finish()?;
    let svg = with_description(&out, &title, &description(&chosen, &curves), NAME);
    Ok(Some(Drawn {
        name: NAME.to_owned(),
        question: QUESTION,
        note: note(&chosen),
        svg,
        heads: HEADS.to_vec(),
        rows: curves.iter().map(figures).collect(),
    }))
}

/// The distribution of one strategy's exposure under one kind of crash.
struct Curve<'a> {
    row: &'a Row,
    model: LossModel,
    /// All blocks together, and each.
    all: Histogram<u64>,
    blocks: Vec<Histogram<u64>>,
    /// Only invalid blocks have any.
    hollow: bool,
    /// What it had to wait at most by its setting.
    interval_ns: Option<u64>,
}

/// Those that were recorded, by crash.
fn curves<'a>(recorded: &Recorded, rows: &'a [Row]) -> anyhow::Result<Vec<Curve<'a>>> {
    let mut curves = Vec::new();
    for (model, name) in
        [(LossModel::Process, "exposure_process_age"), (LossModel::Power, "exposure_power_age")]
    {
        for row in rows {
            let (cells, hollow) = choice::counted(recorded, row);
            let mut blocks = Vec::new();
            for cell in &cells {
                let found = recorded.histogram(cell, name)?;
                blocks.extend(found.filter(|ages| !ages.is_empty()));
            }
            let Some(mut all) = blocks.first().cloned() else { continue };
            for block in &blocks[1..] {
                all.add(block).map_err(|error| anyhow::anyhow!("{name}: {error}"))?;
            }
            let interval_ns = cells.iter().find_map(|cell| cell.interval.configured_ns);
            curves.push(Curve { row, model, all, blocks, hollow, interval_ns });
        }
    }
    Ok(curves)
}

impl Curve<'_> {
    /// The share of time in which nothing was at risk.
    fn at_no_risk(&self) -> f64 {
        at_no_risk(&self.all)
    }

    fn extent(&self) -> Extent {
        let figures = self.row.figures.or(self.row.refused);
        figures.map_or(Extent::Measured, |figures| self.model.loss(&figures).extent)
    }

    fn label(&self) -> String {
        let bound = if self.extent() == Extent::AtLeast { " ≥" } else { "" };
        format::clipped(&self.row.strategy, 24) + bound
    }
}

fn at_no_risk(ages: &Histogram<u64>) -> f64 {
    float(ages.count_at(0)) / float(ages.len())
}

/// The frame of one kind of crash.
struct Panel {
    top: i32,
    bottom: i32,
    band_end: i32,
    across: Axis,
    shares: Linear,
}

fn draw_panels(pen: &Pen<'_>, curves: &[Curve<'_>], top: i32) -> anyhow::Result<()> {
    let of = |model| curves.iter().filter(move |curve| curve.model == model);
    let in_band = |model| of(model).filter(|curve| curve.at_no_risk() > 0.0).count();
    let columns = in_band(LossModel::Process).max(in_band(LossModel::Power));
    let columns = i32::try_from(columns).unwrap_or(i32::MAX);
    let band_end = LEFT + columns.saturating_mul(COLUMN).clamp(COLUMN / 2, (RIGHT - LEFT) * 3 / 5);
    let ages: Vec<f64> = curves.iter().flat_map(ends).collect();
    let high = (HEIGHT - 66 - top - GAP) / 2;
    for (nth, model) in (0..).zip([LossModel::Process, LossModel::Power]) {
        let panel_top = top + nth * (high + GAP);
        let panel = Panel {
            top: panel_top,
            bottom: panel_top + high,
            band_end,
            across: Axis::around(&ages, 1e6..1e9, band_end..RIGHT),
            shares: Linear::up_to(1.0, panel_top + high, panel_top),
        };
        panel.draw(pen, model, &of(model).collect::<Vec<_>>())?;
    }
    let bottom = top + 2 * high + GAP;
    pen.text("0", (i32::midpoint(LEFT, band_end), bottom + 14), Script::centred(12, BLACK).bold())?;
    let middle = i32::midpoint(band_end, RIGHT).min(RIGHT - 220);
    let title = "age of the oldest acknowledged message that the crash would take (log)";
    pen.text(title, (middle, bottom + 34), Script::centred(12, BLACK))
}

/// The ages that the axis has to hold: nearly all, from the first percent on.
fn ends(curve: &Curve<'_>) -> [f64; 2] {
    [float(first_age(&curve.all)), float(curve.all.max())]
}

/// The age at the first percent of the time in which there was any.
fn first_age(ages: &Histogram<u64>) -> u64 {
    let none = at_no_risk(ages);
    ages.value_at_quantile(none + 0.01 * (1.0 - none))
}

impl Panel {
    fn draw(&self, pen: &Pen<'_>, model: LossModel, curves: &[&Curve<'_>]) -> anyhow::Result<()> {
        let (top, bottom, start) = (self.top, self.bottom, self.band_end);
        pen.fill((LEFT, top), (start, bottom), BAND)?;
        let has_below = model == LossModel::Process;
        let beside_band =
            Frame { left: start, right: RIGHT, top, bottom, has_left: false, has_below };
        beside_band.rule_across(pen, &rulings(&self.across, format::duration))?;
        let whole = Frame { left: LEFT, ..beside_band };
        whole.rule_up(pen, &rulings_linear(&self.shares, percent))?;
        whole.outline(pen)?;
        pen.line(&[(start, top), (start, bottom)], Dash::Dotted, GREY)?;
        let what = match model {
            LossModel::Power => "what no successful sync covers is lost",
            LossModel::Process => "what the page cache does not hold is lost",
        };
        let heading = format!("{}: {what}; share of time at most that old", model.words());
        pen.text(&heading, (LEFT - 56, top - 13), Script::left(12, BLACK))?;
        let mut crowd = Crowd::new(Area::spanning((LEFT, top), (RIGHT, bottom), 0));
        if model == LossModel::Power {
            self.draw_intervals(pen, curves, &mut crowd)?;
        }
        let marks = self.marks(curves);
        for mark in &marks {
            crowd.add_solid(Area::about(*mark, 7));
        }
        for (curve, mark) in curves.iter().zip(&marks) {
            self.draw_curve(pen, curve, *mark, &mut crowd)?;
        }
        for (curve, mark) in curves.iter().zip(&marks) {
            pen.mark(curve.row.kind, *mark, curve.hollow)?;
            let text = curve.label();
            let size = (pen::text_width(&text, 11), 12);
            let place = crowd.place_near(*mark, Area::about(*mark, 0), size);
            pen.text(&text, place, Script::left(11, BLACK))?;
        }
        Ok(())
    }

    /// Where each curve has its mark: in its column of the band if half of the time nothing is at
    /// risk, else at its median.
    fn marks(&self, curves: &[&Curve<'_>]) -> Vec<Pixel> {
        let count = curves.iter().filter(|curve| curve.at_no_risk() >= 0.5).count();
        let count = i32::try_from(count).unwrap_or(i32::MAX).max(1);
        let mut column = 0;
        let mut mark = |curve: &&Curve<'_>| {
            if curve.at_no_risk() < 0.5 {
                let median = float(curve.all.value_at_quantile(0.5));
                return (self.across.at(median), self.shares.at(0.5));
            }
            let x = LEFT + (self.band_end - LEFT) * (2 * column + 1) / (2 * count);
            column += 1;
            (x, self.shares.at(curve.at_no_risk()))
        };
        curves.iter().map(&mut mark).collect()
    }

    fn draw_curve(
        &self,
        pen: &Pen<'_>,
        curve: &Curve<'_>,
        mark: Pixel,
        crowd: &mut Crowd,
    ) -> anyhow::Result<()> {
        let kind = curve.row.kind;
        let colour = pen::colour(kind);
        if curve.blocks.len() > 1 && curve.at_no_risk() < 1.0 {
            for block in curve.blocks.iter().take(MOST_BLOCKS) {
                pen.line(&self.path(block), Dash::Solid, colour.mix(0.3))?;
            }
        }
        if curve.at_no_risk() >= 1.0 {
            // Its mark says all; lines would lie on each other.
            return Ok(());
        }
        let mut path = self.path(&curve.all);
        if mark.0 < self.band_end {
            path.insert(0, mark);
        }
        for pair in path.windows(2) {
            crowd.add_line(pair[0], pair[1]);
        }
        let width = if curve.hollow { 1 } else { 2 };
        pen.line(&path, pen::dash(kind), colour.stroke_width(width))
    }

    /// From the end of the band to the greatest age, percent by percent.
    fn path(&self, ages: &Histogram<u64>) -> Vec<Pixel> {
        let none = at_no_risk(ages);
        let mut path = Vec::new();
        if none > 0.0 {
            path.push((self.band_end, self.shares.at(none)));
        }
        if none < 1.0 {
            path.push((self.across.at(float(first_age(ages))), self.shares.at(none)));
            for percent in 1..=100 {
                let share = none + f64::from(percent) / 100.0 * (1.0 - none);
                let age = float(ages.value_at_quantile(share));
                path.push((self.across.at(age), self.shares.at(share)));
            }
        }
        path.dedup();
        path
    }

    /// The intervals that were asked for, as vertical lines.
    fn draw_intervals(
        &self,
        pen: &Pen<'_>,
        curves: &[&Curve<'_>],
        crowd: &mut Crowd,
    ) -> anyhow::Result<()> {
        for interval in intervals(curves.iter().copied()) {
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

fn legend(rows: &[Row], curves: &[Curve<'_>]) -> Vec<(Sign, String)> {
    let mut entries = head::strategies(rows);
    if !intervals(curves).is_empty() {
        entries.push((Sign::Line(Dash::Dotted, BLACK, 1), "flush interval asked for".to_owned()));
    }
    if curves.iter().any(|curve| curve.blocks.len() > 1) {
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

fn note(chosen: &Chosen) -> String {
    format!(
        "Of {}. The strong line is all blocks together. A crash comes at a random moment, so the \
         height at which a line passes an age is the chance that a crash takes nothing older. The \
         dotted vertical is the flush interval that was asked for: a message can be at risk for \
         that long and for the sync itself.{}",
        chosen.setting, chosen.left_out
    )
}

fn description(chosen: &Chosen, curves: &[Curve<'_>]) -> String {
    let mut sentences = vec![format!(
        "Cumulative shares of time over the age of the oldest message at risk, on a logarithmic \
         axis with a band for none; {}.",
        chosen.setting
    )];
    for curve in curves {
        let age = |share| format::duration(float(curve.all.value_at_quantile(share)));
        sentences.push(format!(
            "{}, {}{}: nothing at risk {} of the time, half of the time at most {}, 99 % at most \
             {}.",
            curve.row.strategy,
            curve.model.words(),
            if curve.hollow { " (invalid)" } else { "" },
            percent(curve.at_no_risk()),
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
    let blocks = format!("{}{invalid}", curve.blocks.len());
    let none = curve.at_no_risk();
    let mut row = vec![
        Figure::Text(format!("{}, {}", curve.row.strategy, curve.model.words())),
        Figure::Number(format!("{:.1} %", 100.0 * none), none),
    ];
    row.extend([0.5, 0.9, 0.99, 0.999].map(|share| age(curve.all.value_at_quantile(share))));
    row.push(age(curve.all.max()));
    row.push(
        curve
            .interval_ns
            .map_or(Figure::Missing, |ns| Figure::Number(format::duration(float(ns)), float(ns))),
    );
    row.push(Figure::Number(blocks, float(store_core::length_u64(curve.blocks.len()))));
    row
}

const NAME: &str = "c6";
const QUESTION: &str = "For how much of the time is how old a message at risk?";
const HEADS: [&str; 9] = [
    "strategy, crash",
    "nothing at risk",
    "p50",
    "p90",
    "p99",
    "p99.9",
    "max",
    "interval",
    "blocks",
];

const LEFT: i32 = 72;
/// Width of a strategy's column in the band: a mark and a label beside it.
const COLUMN: i32 = 84;
/// Between the two panels.
const GAP: i32 = 34;
/// Strategies in one chart; more lines cannot be told apart.
const MOST: usize = 8;
/// Blocks drawn beside their sum.
const MOST_BLOCKS: usize = 12;
/// Intervals that are drawn.
const MOST_INTERVALS: usize = 4;
