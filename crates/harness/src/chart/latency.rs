//! Chart C2: how long acknowledgements take, from the quickest to the rarest.
//!
//! Across is how rare a latency is, as 1/(1−q) on a logarithmic axis, so that the tail has as much
//! room as the middle. Each load has a panel, each strategy a line through the middle of its
//! blocks, and a band from the lowest block to the highest.

mod curve;

use plotters::style::Color;

use self::curve::{Curve, curves};
use super::axis::Axis;
use super::choice::{self, Load, Place};
use super::drawn::{Drawn, Figure};
use super::frame::{Frame, Ruling, rulings, rulings_at};
use super::head::{self, Sign};
use super::pen::{self, BLACK, Dash, GREY, Ink, Looks, Pen, Pixel, Script, Series};
use super::{HEIGHT, with_description};
use crate::format;
use crate::recorded::Recorded;
use crate::results::Kind;
use crate::summary::{Loops, Row, kind_name, status_name};

/// The chart, if anything but the raw loop recorded latencies.
pub(super) fn draw(recorded: &Recorded) -> anyhow::Result<Option<Drawn>> {
    let rows = choice::rows_where(recorded, |row| row.kind != Kind::Raw);
    let curves = curves(recorded, &rows)?;
    if curves.is_empty() {
        return Ok(None);
    }
    let shown: Vec<Row> = curves.iter().map(|curve| curve.row.clone()).collect();
    let places = choice::places(&shown);
    let loads = loads(&curves, places[0]);
    let drawn: Vec<&Curve<'_>> =
        curves.iter().filter(|curve| loads.drawn.iter().any(|load| load.has(curve.row))).collect();
    let svg = picture(recorded, &loads.drawn, &drawn)?;
    Ok(Some(Drawn {
        name: NAME.to_owned(),
        question: QUESTION,
        note: note(&places, &loads.left_out, &drawn),
        svg,
        heads: HEADS.to_vec(),
        rows: curves.iter().map(|curve| table_row(curve, &rows)).collect(),
    }))
}

/// The loads that have a panel, and the names of those that have none.
struct Loads<'a> {
    drawn: Vec<Load<'a>>,
    left_out: Vec<String>,
}

/// The loads of a place that have a panel: of each workload first the one with most producers.
fn loads<'a>(curves: &[Curve<'a>], place: Place<'_>) -> Loads<'a> {
    let mut all: Vec<(usize, Load<'a>)> = Vec::new();
    for load in curves.iter().map(|curve| Load::of(curve.row)) {
        if load.place == place && all.iter().all(|(_, other)| *other != load) {
            all.push((0, load));
        }
    }
    let named = all.clone();
    for (rank, load) in &mut all {
        let before =
            |other: &Load<'_>| other.workload == load.workload && other.producers > load.producers;
        *rank = named.iter().filter(|(_, other)| before(other)).count();
    }
    all.sort_by_key(|(rank, load)| (*rank, load.workload, load.producers));
    let rest = all.split_off(all.len().min(PANELS));
    let mut drawn: Vec<Load<'a>> = all.into_iter().map(|(_, load)| load).collect();
    drawn.sort_by_key(|load| (load.workload, load.producers));
    Loads { drawn, left_out: rest.iter().map(|(_, load)| load.words()).collect() }
}

fn picture(
    recorded: &Recorded,
    loads: &[Load<'_>],
    drawn: &[&Curve<'_>],
) -> anyhow::Result<String> {
    let mut out = String::new();
    let pen = Pen::new(&mut out)?;
    let rows: Vec<Row> = drawn.iter().map(|curve| curve.row.clone()).collect();
    let title = head::warning(&recorded.environment, &rows, None) + QUESTION;
    head::draw_title(&pen, &title, &recorded.manifest, &recorded.environment, &rows)?;
    let looks = Looks::of(&rows);
    let top = head::draw_legend(&pen, &legend(drawn, &looks))?;
    pen.text("latency of acknowledgements (log)", (16, top + 22), Script::left(12, BLACK))?;
    let values = drawn.iter().flat_map(|curve| curve.ends());
    // The first threshold is always seen: how far the lines stay below it is what one asks.
    let values: Vec<f64> = values.chain([2.0 * THRESHOLDS_MS[0] * 1e6]).collect();
    let rarest = drawn.iter().map(|curve| curve.rarest()).fold(1e3, f64::max);
    for (frame, load) in Frame::several(loads.len(), top + 32, HEIGHT).into_iter().zip(loads) {
        let panel = Panel {
            frame,
            x: Axis::between(1.0, rarest, frame.left..frame.right),
            y: Axis::around(&values, 1e3..1e9, frame.bottom..frame.top),
        };
        let own: Vec<&Curve<'_>> =
            drawn.iter().copied().filter(|curve| load.has(curve.row)).collect();
        panel.draw(&pen, load, &own, &looks)?;
    }
    pen.finish()?;
    Ok(with_description(&out, &title, &description(drawn), NAME))
}

fn legend(drawn: &[&Curve<'_>], looks: &Looks<'_>) -> Vec<(Sign, String)> {
    let mut entries = head::strategies_as(drawn.iter().map(|curve| curve.row), looks);
    entries.extend(head::hatched(drawn.iter().map(|curve| curve.row.not_hardware)));
    if drawn.iter().any(|curve| curve.has_band()) {
        entries.push((Sign::Zone(pen::PALE), "band: min–max over blocks".to_owned()));
    }
    if drawn.iter().any(|curve| !curve.service.is_empty()) {
        let text = "grey: from the append, not from when it was due".to_owned();
        entries.push((Sign::Line(Dash::Solid, GREY, 1), text));
    }
    if drawn.iter().any(|curve| curve.hollow()) {
        entries.push((Sign::Hollow, "hollow: invalid, or overload".to_owned()));
    }
    entries.push((
        Sign::Line(Dash::Dotted, BLACK, 1),
        "RocketMQ's thresholds: 0.2, 0.5, 1, 3, 5 s".to_owned(),
    ));
    entries
}

/// One load.
struct Panel {
    frame: Frame,
    x: Axis,
    y: Axis,
}

impl Panel {
    fn draw(
        &self,
        pen: &Pen<'_>,
        load: &Load<'_>,
        own: &[&Curve<'_>],
        looks: &Looks<'_>,
    ) -> anyhow::Result<()> {
        let is_open = own.iter().any(|curve| curve.row.loops == Loops::Open);
        let from = if is_open { "due→ack" } else { "append→ack" };
        self.frame.heading(pen, &format!("{}, {from}", load.words()))?;
        self.frame.rule_across(pen, &rulings_at(&self.x, percentiles()))?;
        self.frame.rule_up(pen, &rulings(&self.y, format::duration))?;
        self.draw_thresholds(pen)?;
        for curve in own.iter().filter(|curve| curve.has_band()) {
            let low = curve.points.iter().map(|point| self.pixel(point.rarity, point.low));
            let high = curve.points.iter().rev().map(|point| self.pixel(point.rarity, point.high));
            let corners: Vec<Pixel> = low.chain(high).collect();
            pen.shade(&corners, pen::colour(curve.row.kind))?;
        }
        for curve in own {
            let service: Vec<Pixel> =
                curve.service.iter().map(|point| self.pixel(point.rarity, point.middle)).collect();
            pen.line(&service, Dash::Solid, GREY.mix(0.7))?;
        }
        for curve in own {
            self.draw_curve(pen, curve, looks.look(curve.row))?;
        }
        self.frame.outline(pen)?;
        let is_wide = self.frame.right - self.frame.left > 300;
        let how = if is_wide { ", as 1/(1−q) (log)" } else { " (log)" };
        self.frame.caption(pen, &format!("percentile{how}"))
    }

    fn pixel(&self, rarity: f64, ns: f64) -> Pixel {
        (self.x.at(rarity), self.y.at(ns))
    }

    /// The line, thin where too few values make it firm, with its strategy's mark at each decade.
    fn draw_curve(&self, pen: &Pen<'_>, curve: &Curve<'_>, look: Series) -> anyhow::Result<()> {
        let hollow = curve.hollow();
        let Series { shape, colour, dash } = look;
        let firm = curve.points.partition_point(|point| point.rarity <= curve.firm_to());
        let line = |points: &[curve::Point]| -> Vec<Pixel> {
            points.iter().map(|point| self.pixel(point.rarity, point.middle)).collect()
        };
        let wide = if hollow { 1 } else { 2 };
        pen.line(&line(&curve.points[..firm]), dash, colour.stroke_width(wide))?;
        let rough = line(&curve.points[firm.saturating_sub(1)..]);
        pen.line(&rough, dash, colour.mix(0.6))?;
        for point in curve.points.iter().filter(|point| point.is_mark) {
            let at = self.pixel(point.rarity, point.middle);
            pen.mark_in(shape, colour, at, Ink::of(curve.row, hollow))?;
        }
        Ok(())
    }

    fn draw_thresholds(&self, pen: &Pen<'_>) -> anyhow::Result<()> {
        let Frame { left, right, .. } = self.frame;
        let shown =
            THRESHOLDS_MS.map(|ms| (ms * 1e6, super::frame::round(&format::duration(ms * 1e6))));
        let mut last: Option<i32> = None;
        for Ruling { at, text } in rulings_at(&self.y, shown) {
            pen.line(&[(left, at), (right, at)], Dash::Dotted, BLACK)?;
            let text = text.unwrap_or_default();
            let is_free = last.is_none_or(|last| last.abs_diff(at) >= 12);
            let is_free = is_free && at - 11 >= self.frame.top;
            if is_free {
                pen.text(&text, (left + 4, at - 6), Script::left(10, BLACK))?;
                last = Some(at);
            }
        }
        Ok(())
    }
}

/// The percentiles to mark, by how rare what is above them is.
fn percentiles() -> impl Iterator<Item = (f64, String)> {
    let names = ["0", "90", "99", "99.9", "99.99", "99.999", "99.9999"];
    let rarity = std::iter::successors(Some(1.0), |rarity| Some(rarity * 10.0));
    rarity.zip(names.map(str::to_owned))
}

fn note(places: &[Place<'_>], left_out: &[String], drawn: &[&Curve<'_>]) -> String {
    let mut sentences = vec![
        "A point at 99 % is what 99 of 100 messages were at most. A line is the middle of the \
         blocks, thin where fewer than 100 messages of a block lie beyond it."
            .to_owned(),
    ];
    if drawn.iter().any(|curve| curve.row.loops == Loops::Open) {
        let text = "Messages of an open loop are late from when they were due, so that one that is \
                    held up makes those behind it late too; where the grey line from the append \
                    parts from it, producers waited.";
        sentences.push(text.to_owned());
    }
    if drawn.iter().any(|curve| curve.row.loops != Loops::Open) {
        let text = "In a closed loop producers wait for the message before: its tail is service \
                    time and hides what was not sent meanwhile.";
        sentences.push(text.to_owned());
    }
    if drawn.iter().any(|curve| curve.from_summary) {
        let text = "Where no histogram was kept, the line joins the percentiles that were.";
        sentences.push(text.to_owned());
    }
    sentences.push(choice::told(places));
    if !left_out.is_empty() {
        let names = choice::named(left_out);
        sentences.push(format!("Without a panel, in the table alone: {names}."));
    }
    sentences.retain(|sentence| !sentence.is_empty());
    sentences.join(" ")
}

fn description(drawn: &[&Curve<'_>]) -> String {
    let mut sentences = vec![
        "Lines on logarithmic axes, a panel for each load; across: percentiles; up: latency of \
         acknowledgements."
            .to_owned(),
    ];
    for curve in drawn {
        let at = |rarity: f64| {
            curve
                .at(rarity)
                .map_or_else(|| "unknown".to_owned(), |point| format::duration(point.middle))
        };
        sentences.push(format!(
            "{} {} ×{}{}: p50 {}, p99 {}, p99.9 {}.",
            curve.row.strategy,
            curve.row.workload,
            curve.row.producers,
            curve.state().map_or_else(String::new, |state| format!(" ({state})")),
            at(2.0),
            at(100.0),
            at(1000.0)
        ));
    }
    sentences.join(" ")
}

fn table_row(curve: &Curve<'_>, rows: &[Row]) -> Vec<Figure> {
    let row = curve.row;
    let mut fields = vec![
        Figure::Text(format!("{} ({})", row.strategy, kind_name(row.kind))),
        Figure::Text(Place::of(row).words() + &choice::mark(row, rows)),
        Figure::Text(row.workload.clone()),
        Figure::Number(row.producers.to_string(), f64::from(row.producers)),
        Figure::Text(if row.loops == Loops::Open { "due→ack" } else { "append→ack" }.to_owned()),
        Figure::Text(curve.state().unwrap_or_else(|| status_name(row.status)).to_owned()),
    ];
    for rarity in [2.0, 10.0, 100.0, 1e3, 1e4] {
        fields.push(curve.at(rarity).map_or(Figure::Missing, |point| {
            let mark = if rarity > curve.firm_to() { "~" } else { "" };
            let range = if point.low < point.high {
                format!(" [{}–{}]", format::duration(point.low), format::duration(point.high))
            } else {
                String::new()
            };
            Figure::Number(format!("{mark}{}{range}", format::duration(point.middle)), point.middle)
        }));
    }
    fields.push(Figure::Number(format::duration(curve.max), curve.max));
    for over in curve.over {
        fields.push(over.map_or(Figure::Missing, |pct| {
            Figure::Number(format!("{} %", format::count(pct)), pct)
        }));
    }
    fields
}

const NAME: &str = "c2";
const QUESTION: &str = "How long do acknowledgements take, and how bad does it get?";
const HEADS: [&str; 14] = [
    "strategy",
    "disk and kernel settings",
    "workload",
    "producers",
    "from → to",
    "state",
    "p50 [min–max]",
    "p90 [min–max]",
    "p99 [min–max]",
    "p99.9 [min–max]",
    "p99.99 [min–max]",
    "max",
    "over 200 ms",
    "over 3 s",
];
/// What RocketMQ's clients, queues and users compare a send with, in milliseconds.
const THRESHOLDS_MS: [f64; 5] = [200.0, 500.0, 1000.0, 3000.0, 5000.0];
/// Panels that a sheet has room for.
const PANELS: usize = 6;
