//! Chart C3: latency against the rate that was offered, to the point where the store falls behind.
//!
//! Each strategy has a panel, in which p50, p99 and p99.9 are lines. Only loads that differ in
//! nothing but their rate are joined.

use plotters::style::Color;

use super::axis::Axis;
use super::choice::{self, Place};
use super::drawn::{Drawn, Figure};
use super::frame::{Frame, round, rulings};
use super::head::{self, Sign};
use super::labels::{Area, Crowd};
use super::pen::{self, BAND, BLACK, Dash, GREY, Ink, Pen, Pixel, Script};
use super::{HEIGHT, with_description};
use crate::clock::float;
use crate::format;
use crate::recorded::Recorded;
use crate::results::{Arrival, Cell};
use crate::summary::{Figures, Loops, Percentile, Row, Stat, kind_name, status_name};

/// The chart, if there are open loops.
pub(super) fn draw(recorded: &Recorded) -> anyhow::Result<Option<Drawn>> {
    let rows = choice::rows_where(recorded, |row| row.loops == Loops::Open);
    let points = points(recorded, &rows);
    if points.is_empty() {
        return Ok(None);
    }
    let shown: Vec<Row> = points.iter().map(|point| point.row.clone()).collect();
    let places = choice::places(&shown);
    let mut strategies: Vec<&str> = Vec::new();
    for row in rows.iter().filter(|row| Place::of(row) == places[0]) {
        let has_points = points.iter().any(|point| std::ptr::eq(point.row, row));
        if has_points && !strategies.contains(&row.strategy.as_str()) {
            strategies.push(&row.strategy);
        }
    }
    let rest = strategies.split_off(strategies.len().min(PANELS));
    let is_drawn = |point: &&Point<'_>| {
        Place::of(point.row) == places[0] && strategies.contains(&point.row.strategy.as_str())
    };
    let mut drawn: Vec<&Point<'_>> = points.iter().filter(is_drawn).collect();
    drawn.sort_by_key(|point| strategies.iter().position(|name| *name == point.row.strategy));
    Ok(Some(Drawn {
        name: NAME.to_owned(),
        question: QUESTION,
        note: note(&places, &rest, &drawn),
        svg: picture(recorded, &strategies, &drawn)?,
        heads: HEADS.to_vec(),
        rows: points.iter().map(|point| table_row(point, &rows)).collect(),
    }))
}

/// A row of an open loop: its valid cells, or its invalid ones.
struct Point<'a> {
    row: &'a Row,
    offered: Stat,
    /// How much of it was acknowledged; below 0.99 it is no rate that can be kept.
    achieved: f64,
    latencies: [Option<Percentile>; 3],
    invalid: bool,
    overload: bool,
    searched: bool,
    shape: Shape<'a>,
}

/// What two loads have in common that differ in their rate alone.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Shape<'a> {
    place: Place<'a>,
    strategy: &'a str,
    producers: u32,
    window: u32,
    message_bytes: u64,
    is_poisson: bool,
    has_bursts: bool,
    reader: bool,
    deletes_every_ms: Option<u64>,
}

impl Point<'_> {
    fn rate(&self) -> f64 {
        self.offered.centre()
    }

    /// Whether less was sent than was due; invalid cells do not tell.
    fn is_too_much(&self) -> bool {
        self.overload && !self.invalid
    }

    /// Why it is hollow, if it is.
    fn state(&self) -> Option<&'static str> {
        match (self.invalid, self.overload) {
            (true, _) => Some("hollow: invalid"),
            (false, true) => Some("hollow: overload"),
            (false, false) => None,
        }
    }
}

/// All points, by strategy, shape and rate.
fn points<'a>(recorded: &Recorded, rows: &'a [Row]) -> Vec<Point<'a>> {
    let mut points = Vec::new();
    for row in rows {
        for (figures, invalid) in [(row.figures, false), (row.refused, true)] {
            let cells = choice::cells_where(recorded, row, invalid);
            points.extend(figures.and_then(|figures| point(row, &figures, &cells, invalid)));
        }
    }
    points.sort_by(|a: &Point<'_>, b| {
        let by_rate = a.offered.centre().total_cmp(&b.offered.centre());
        a.shape.cmp(&b.shape).then(by_rate).then(a.invalid.cmp(&b.invalid))
    });
    points
}

fn point<'a>(row: &'a Row, figures: &Figures, cells: &[&Cell], invalid: bool) -> Option<Point<'a>> {
    let loads = || cells.iter().filter_map(|cell| cell.open_loop.map(|open| (cell, open)));
    let offered = Stat::of(loads().map(|(_, open)| open.offered_per_s))?;
    let (first, open) = loads().next()?;
    if !super::drawable(offered.centre()) {
        return None;
    }
    let sent = Stat::of(loads().map(|(_, open)| {
        let judged = float(open.judged.max(1));
        1.0 - float(open.unsent) / judged
    }))?;
    Some(Point {
        row,
        offered,
        achieved: sent.min,
        latencies: [figures.ack_p50, figures.ack_p99, figures.ack_p999],
        invalid,
        overload: choice::is_overload(cells) || sent.min < 0.99,
        searched: open.promised_p99_ns.is_some(),
        shape: Shape {
            place: Place::of(row),
            strategy: &row.strategy,
            producers: row.producers,
            window: first.window,
            message_bytes: first.message_bytes,
            is_poisson: open.arrival == Arrival::Poisson,
            has_bursts: has_bursts(first),
            reader: first.reader,
            deletes_every_ms: first.deletes_every_ms,
        },
    })
}

/// Whether messages came in bursts, by how long before the end messages were no longer judged: an
/// even load leaves 20 ms, bursts the time from one to the next.
fn has_bursts(cell: &Cell) -> bool {
    cell.open_loop.is_some_and(|open| {
        let judged = float(open.judged) / float(open.due.max(1));
        (1.0 - judged) * float(cell.measured_ns) > 100e6
    })
}

fn picture(
    recorded: &Recorded,
    strategies: &[&str],
    drawn: &[&Point<'_>],
) -> anyhow::Result<String> {
    let mut out = String::new();
    let pen = Pen::new(&mut out)?;
    let rows: Vec<Row> = drawn.iter().map(|point| point.row.clone()).collect();
    let title = head::warning(&recorded.environment, &rows, None) + QUESTION;
    head::draw_title(&pen, &title, &recorded.manifest, &recorded.environment, &rows)?;
    let top = head::draw_legend(&pen, &legend(drawn))?;
    pen.text("latency due→ack (log)", (16, top + 22), Script::left(12, BLACK))?;
    let rates: Vec<f64> = drawn.iter().flat_map(|p| [p.offered.low(), p.offered.high()]).collect();
    let times: Vec<f64> = drawn
        .iter()
        .flat_map(|point| point.latencies.iter().flatten())
        .flat_map(|time| [time.ns.low(), time.ns.high()])
        .collect();
    let frames = Frame::several(strategies.len(), top + 32, HEIGHT);
    for (frame, strategy) in frames.into_iter().zip(strategies) {
        let panel = Panel {
            frame,
            x: Axis::around(&rates, 1e2..1e5, frame.left..frame.right),
            y: Axis::around(&times, 1e5..1e8, frame.bottom..frame.top),
        };
        let own: Vec<&Point<'_>> =
            drawn.iter().copied().filter(|point| point.row.strategy == *strategy).collect();
        panel.draw(&pen, &own)?;
    }
    pen.finish()?;
    Ok(with_description(&out, &title, &description(drawn), NAME))
}

fn legend(drawn: &[&Point<'_>]) -> Vec<(Sign, String)> {
    let mut entries = head::strategies(drawn.iter().map(|point| point.row));
    let lines = LINES.iter().map(|(dash, name)| (Sign::Line(*dash, BLACK, 1), (*name).to_owned()));
    entries.extend(lines);
    entries.extend(head::hatched(drawn.iter().map(|point| point.row.not_hardware)));
    if drawn.iter().any(|point| point.state().is_some()) {
        entries.push((Sign::Hollow, "hollow: invalid, or less sent than due".to_owned()));
    }
    if panels(drawn).iter().any(|own| Limit::of(own).beyond.is_some()) {
        entries.push((Sign::Zone(BAND), "shaded: overload".to_owned()));
    }
    let rows: Vec<Row> = drawn.iter().map(|point| point.row.clone()).collect();
    let ranges = crate::verdict::Ranges::of(&rows).word();
    entries.push((Sign::Bars, format!("{ranges} over blocks")));
    entries
}

/// One strategy.
struct Panel {
    frame: Frame,
    x: Axis,
    y: Axis,
}

impl Panel {
    fn draw(&self, pen: &Pen<'_>, own: &[&Point<'_>]) -> anyhow::Result<()> {
        let Frame { top, bottom, right, .. } = self.frame;
        let limit = Limit::of(own);
        if let Some(rate) = limit.beyond {
            pen.fill((self.x.at(rate), top), (right, bottom), BAND)?;
        }
        let name = own.first().map_or("", |point| &point.row.strategy);
        self.frame.heading(pen, &(format::clipped(name, 20) + &limit.heading()))?;
        self.frame.rule_across(pen, &rulings(&self.x, format::count))?;
        self.frame.rule_up(pen, &rulings(&self.y, format::duration))?;
        if let Some(point) = limit.knee.filter(|_| limit.beyond.is_some()) {
            let x = self.x.at(point.offered.centre());
            pen.line(&[(x, top), (x, bottom)], Dash::Dashed, BLACK)?;
        }
        let mut crowd = Crowd::new(Area::spanning((self.frame.left, top), (right, bottom), 0));
        self.draw_lines(pen, own, &mut crowd)?;
        self.draw_marks(pen, own, &mut crowd)?;
        self.draw_labels(pen, own, &mut crowd)?;
        self.frame.outline(pen)?;
        self.frame.caption(pen, "offered messages per second (log)")
    }

    fn pixel(&self, point: &Point<'_>, nth: usize) -> Option<Pixel> {
        let time = point.latencies[nth]?;
        Some((self.x.at(point.offered.centre()), self.y.at(time.ns.centre())))
    }

    fn draw_lines(
        &self,
        pen: &Pen<'_>,
        own: &[&Point<'_>],
        crowd: &mut Crowd,
    ) -> anyhow::Result<()> {
        let counted: Vec<&Point<'_>> = own.iter().copied().filter(|point| !point.invalid).collect();
        for (nth, (dash, _)) in LINES.iter().enumerate() {
            for pair in counted.windows(2).filter(|pair| pair[0].shape == pair[1].shape) {
                let ends = self.pixel(pair[0], nth).zip(self.pixel(pair[1], nth));
                let Some((from, to)) = ends else { continue };
                crowd.add_line(from, to);
                pen.line(&[from, to], *dash, pen::colour(pair[0].row.kind))?;
            }
        }
        Ok(())
    }

    fn draw_marks(
        &self,
        pen: &Pen<'_>,
        own: &[&Point<'_>],
        crowd: &mut Crowd,
    ) -> anyhow::Result<()> {
        for point in own {
            let colour = pen::colour(point.row.kind);
            let spots: Vec<Pixel> =
                (0..LINES.len()).filter_map(|nth| self.pixel(point, nth)).collect();
            // What belongs together although it is joined to nothing.
            if let (Some(first), Some(last)) = (spots.first(), spots.last()) {
                pen.line(&[*first, *last], Dash::Solid, GREY.mix(0.4))?;
                crowd.add_line(*first, *last);
            }
            for (time, (x, y)) in point.latencies.iter().flatten().zip(&spots) {
                let (low, high) = (self.y.at(time.ns.low()), self.y.at(time.ns.high()));
                if low != high {
                    pen.line(&[(*x, low), (*x, high)], Dash::Solid, colour)?;
                    for end in [low, high] {
                        pen.line(&[(x - 3, end), (x + 3, end)], Dash::Solid, colour)?;
                    }
                }
                let ink = Ink::of(point.row, point.state().is_some());
                pen.mark(point.row.kind, (*x, *y), ink)?;
                crowd.add_solid(Area::about((*x, *y), 8));
            }
        }
        Ok(())
    }

    /// The percentiles' names at the last point, and the workloads' where they are not one sweep.
    fn draw_labels(
        &self,
        pen: &Pen<'_>,
        own: &[&Point<'_>],
        crowd: &mut Crowd,
    ) -> anyhow::Result<()> {
        let by_rate =
            |a: &&&Point<'_>, b: &&&Point<'_>| a.offered.centre().total_cmp(&b.offered.centre());
        let Some(last) = own.iter().max_by(by_rate) else { return Ok(()) };
        let mut label = |text: &str, at: Pixel| {
            let size = (pen::text_width(text, LABEL), 12);
            let place = crowd.place_near(at, Area::about(at, 7), size);
            pen.text(text, place, Script::left(LABEL, BLACK))
        };
        for (nth, (_, name)) in LINES.iter().enumerate() {
            if let Some(at) = self.pixel(last, nth) {
                label(name, at)?;
            }
        }
        for point in beside(own).into_iter().take(MOST_NAMED) {
            let at = (0..LINES.len()).rev().find_map(|nth| self.pixel(point, nth));
            if let Some(at) = at {
                label(&format::clipped(&point.row.workload, 20), at)?;
            }
        }
        Ok(())
    }
}

/// The points that are not of the longest line: all, if nothing is joined but there are several.
fn beside<'a, 'b>(own: &[&'b Point<'a>]) -> Vec<&'b Point<'a>> {
    let alike = |shape: Shape<'_>| own.iter().filter(|point| point.shape == shape).count();
    // The first of equals, so that the order of cells does not matter.
    let longest = own.iter().rev().max_by_key(|point| alike(point.shape));
    let longest = longest.filter(|point| alike(point.shape) > 1 || own.len() == 1);
    let is_beside = |point: &&&Point<'_>| longest.is_none_or(|line| line.shape != point.shape);
    own.iter().filter(is_beside).copied().collect()
}

/// How much one strategy keeps up with, of loads that differ in their rate alone.
///
/// Of a strategy that met several such, it is those of which it kept the highest rate: what it
/// could not keep of another says nothing of these. Bursts may be too much at a fifth of the rate
/// that the same strategy keeps when it comes evenly.
struct Limit<'a, 'b> {
    shape: Option<Shape<'a>>,
    /// The highest rate below all that were too much.
    knee: Option<&'b Point<'a>>,
    /// The least rate that was too much.
    beyond: Option<f64>,
}

impl<'a, 'b> Limit<'a, 'b> {
    fn of(own: &[&'b Point<'a>]) -> Self {
        let by_rate = |a: &&'b Point<'a>, b: &&'b Point<'a>| a.rate().total_cmp(&b.rate());
        let knee = own.iter().copied().filter(|point| is_kept(point, own)).max_by(by_rate);
        let too_much = || own.iter().copied().filter(|point| point.is_too_much());
        let shape = knee.or_else(|| too_much().min_by(by_rate)).map(|point| point.shape);
        let of_shape = too_much().filter(|point| Some(point.shape) == shape);
        let beyond = of_shape.map(Point::rate).reduce(f64::min);
        Self { shape, knee, beyond }
    }

    /// What follows the strategy's name.
    fn heading(&self) -> String {
        let rate = |point: &Point<'_>| round(&format::count(point.rate()));
        match (self.knee, self.beyond) {
            (Some(point), Some(_)) => format!(": falls behind above {}/s", rate(point)),
            (Some(point), None) => format!(": keeps up, at most {}/s", rate(point)),
            (None, Some(_)) => ": falls behind at every rate".to_owned(),
            (None, None) => ": no valid cell".to_owned(),
        }
    }
}

/// Whether it was kept, and every lower rate of such a load too.
fn is_kept(point: &Point<'_>, own: &[&Point<'_>]) -> bool {
    let is_below = |other: &&Point<'_>| {
        other.shape != point.shape || !other.is_too_much() || other.rate() > point.rate()
    };
    point.state().is_none() && own.iter().all(is_below)
}

/// The points of each strategy, in the order of panels.
fn panels<'a, 'b>(drawn: &[&'b Point<'a>]) -> Vec<Vec<&'b Point<'a>>> {
    drawn.chunk_by(|a, b| a.row.strategy == b.row.strategy).map(<[_]>::to_vec).collect()
}

/// What was too much of loads that neither heading nor shade speaks of: `sync: bursts ×16 at
/// 2.2k/s`.
fn too_much_beside(drawn: &[&Point<'_>]) -> Vec<String> {
    let mut found = Vec::new();
    for own in panels(drawn) {
        let shape = Limit::of(&own).shape;
        let beside = own.iter().filter(|point| point.is_too_much() && Some(point.shape) != shape);
        found.extend(beside.map(|point| {
            let Row { strategy, workload, producers, .. } = point.row;
            let [strategy, workload] = [strategy, workload].map(|name| format::clipped(name, 24));
            let rate = round(&format::count(point.rate()));
            format!("{strategy}: {workload} ×{producers} at {rate}/s")
        }));
    }
    found
}

fn note(places: &[Place<'_>], rest: &[&str], drawn: &[&Point<'_>]) -> String {
    let mut sentences = vec![
        "Latency is from when a message was due. Where a strategy fell behind, the dashed \
         upright is the highest rate before, of which 99 % was sent in time; in the \
         shade latency is a backlog that grows as long as one measures, and says nothing but that. \
         Lines join loads that differ in their rate alone, and heading and shade are of those of \
         which a strategy kept the highest rate."
            .to_owned(),
    ];
    let beside = too_much_beside(drawn);
    if !beside.is_empty() {
        sentences.push(format!("Too much of other loads was {}.", choice::named(&beside)));
    }
    let is_even = |pair: &[&Point<'_>]| {
        let is_joined = pair[0].shape == pair[1].shape && !(pair[0].invalid || pair[1].invalid);
        is_joined && !pair[0].shape.has_bursts
    };
    if drawn.windows(2).any(is_even) {
        let text = "Bursts less than 100 ms apart cannot be told from an even load, and may be \
                    joined with one.";
        sentences.push(text.to_owned());
    }
    if drawn.iter().any(|point| point.searched) {
        let text = "A rate that was searched for is the highest that kept the latency asked for.";
        sentences.push(text.to_owned());
    }
    sentences.push(choice::told(places));
    if !rest.is_empty() {
        let names: Vec<String> = rest.iter().map(|name| format::clipped(name, 24)).collect();
        sentences.push(format!("Without a panel, in the table alone: {}.", choice::named(&names)));
    }
    sentences.retain(|sentence| !sentence.is_empty());
    sentences.join(" ")
}

fn description(drawn: &[&Point<'_>]) -> String {
    let mut sentences = vec![
        "Latencies on a logarithmic axis over the rate offered on another, a panel for each \
         strategy."
            .to_owned(),
    ];
    for point in drawn {
        let [p50, p99, p999] = point
            .latencies
            .map(|time| time.map_or_else(|| "unknown".to_owned(), |time| time.shown()));
        sentences.push(format!(
            "{} {} ×{}, {} offered{}: p50 {p50}, p99 {p99}, p99.9 {p999}.",
            point.row.strategy,
            point.row.workload,
            point.row.producers,
            format::count(point.offered.centre()) + "/s",
            point.state().map_or_else(String::new, |state| format!(" ({state})")),
        ));
    }
    sentences.join(" ")
}

fn table_row(point: &Point<'_>, rows: &[Row]) -> Vec<Figure> {
    let row = point.row;
    let mut fields = vec![
        Figure::Text(format!("{} ({})", row.strategy, kind_name(row.kind))),
        Figure::Text(Place::of(row).words() + &choice::mark(row, rows)),
        Figure::Text(row.workload.clone()),
        Figure::Number(row.producers.to_string(), f64::from(row.producers)),
        Figure::Number(
            format::count(point.offered.centre())
                + if point.searched { " (searched for)" } else { "" },
            point.offered.centre(),
        ),
        Figure::Number(format!("{:.1} %", 100.0 * point.achieved), point.achieved),
        Figure::Text(point.state().unwrap_or_else(|| status_name(row.status)).to_owned()),
    ];
    for time in point.latencies {
        fields.push(time.map_or(Figure::Missing, |time| {
            let range = time.ns.range(format::duration);
            Figure::Number(format!("{} [{range}]", time.shown()), time.ns.centre())
        }));
    }
    fields
}

const NAME: &str = "c3";
const QUESTION: &str = "How much load does it take before latency runs away?";
const HEADS: [&str; 10] = [
    "strategy",
    "disk and kernel settings",
    "workload",
    "producers",
    "offered msg/s",
    "sent in time, worst block",
    "state",
    "p50 due→ack [range]",
    "p99 due→ack [range]",
    "p99.9 due→ack [range]",
];
/// The lines of a panel, from below.
const LINES: [(Dash, &str); 3] =
    [(Dash::Solid, "p50"), (Dash::Dashed, "p99"), (Dash::Dotted, "p99.9")];
/// Panels that a sheet has room for.
const PANELS: usize = 6;
/// Points of a panel that have room for their workload's name.
const MOST_NAMED: usize = 6;
/// Height of the labels at points.
const LABEL: u32 = 11;
