//! Chart C5: what group commit makes of many producers: how many share a flush, and at what rate.
//!
//! A flush can serve no more than all producers that wait for it, so the batch has an ideal line,
//! and the rate a bound: the messages that may wait, by the time of one flush.

use std::collections::BTreeSet;

use plotters::style::Color;

use super::axis::Axis;
use super::choice::{self, Place};
use super::drawn::{Drawn, Figure};
use super::frame::{Frame, rulings, rulings_at};
use super::head::{self, Sign};
use super::pen::{BLACK, Dash, GREY, Ink, Pen, Pixel, SERIES, Script, Series};
use super::{HEIGHT, with_description};
use crate::comparison::{Measure, noise_floors};
use crate::format;
use crate::recorded::Recorded;
use crate::results::Kind;
use crate::summary::{Figures, Loops, Row, Stat, status_name};
use crate::table::wrapped;

/// The chart, if group commit ran with several numbers of producers in a closed loop.
pub(super) fn draw(recorded: &Recorded) -> anyhow::Result<Option<Drawn>> {
    let is_group = |row: &Row| row.kind == Kind::GroupCommit && row.loops == Loops::Closed;
    let rows = choice::rows_where(recorded, is_group);
    let lines = lines(recorded, &rows);
    if lines.is_empty() {
        return Ok(None);
    }
    let drawn = &lines[..lines.len().min(SERIES.len())];
    let said = said(recorded, drawn);
    Ok(Some(Drawn {
        name: NAME.to_owned(),
        question: QUESTION,
        note: note(&said, &lines[drawn.len()..]),
        svg: picture(recorded, drawn, &said)?,
        heads: HEADS.to_vec(),
        rows: lines.iter().flat_map(|line| table_rows(line, &rows)).collect(),
    }))
}

/// One strategy under one workload in one place, from few producers to many.
struct Line<'a> {
    key: Key<'a>,
    points: Vec<Point<'a>>,
}

/// The place first, then the workload, the strategy, and how many messages a producer may have
/// waiting.
type Key<'a> = (Place<'a>, &'a str, &'a str, u32);

struct Point<'a> {
    row: &'a Row,
    hollow: bool,
    rate: Stat,
    /// Messages that one flush made durable, the mean of each block.
    batch: Option<Stat>,
    /// What could wait at a time by the time of a flush, per second.
    bound: Option<f64>,
    flush_ns: Option<f64>,
}

impl Point<'_> {
    fn producers(&self) -> f64 {
        f64::from(self.row.producers)
    }
}

impl<'a> Line<'a> {
    fn is_of_many(&self) -> bool {
        let mut counts: Vec<u32> = self.points.iter().map(|point| point.row.producers).collect();
        counts.dedup();
        counts.len() > 1
    }

    fn name(&self) -> String {
        let row = self.points[0].row;
        let word = row.not_hardware.word().map_or_else(String::new, |what| format!(" {what}"));
        let setting = match row.setting.as_str() {
            "" => String::new(),
            setting => format!(" ({})", format::clipped(setting, 34)),
        };
        format!("{}{setting}{word}", format::clipped(&row.strategy, 24))
    }

    /// How many messages can wait for one flush.
    fn waiting(&self, point: &Point<'_>) -> f64 {
        point.producers() * f64::from(self.key.3)
    }

    /// The valid point with most producers.
    fn busiest(&self) -> Option<&Point<'a>> {
        self.points.iter().rfind(|point| !point.hollow)
    }
}

/// The lines of more than one point, those of the place with most rows first.
fn lines<'a>(recorded: &Recorded, rows: &'a [Row]) -> Vec<Line<'a>> {
    let places = choice::places(rows);
    let mut lines: Vec<Line<'a>> = Vec::new();
    for row in rows.iter().filter(|row| row.producers > 0) {
        for (figures, hollow) in [(row.figures, false), (row.refused, true)] {
            let Some(figures) = figures.filter(|f| super::drawable(f.acked_per_s.centre())) else {
                continue;
            };
            let (window, point) = point(recorded, row, &figures, hollow);
            let key = (Place::of(row), row.workload.as_str(), row.strategy.as_str(), window);
            match lines.iter_mut().find(|line| line.key == key) {
                Some(line) => line.points.push(point),
                None => lines.push(Line { key, points: vec![point] }),
            }
        }
    }
    lines.retain(Line::is_of_many);
    let rank = |line: &Line<'_>| places.iter().position(|place| *place == line.key.0);
    lines.sort_by_key(|line| (rank(line), line.key));
    for line in &mut lines {
        line.points.sort_by_key(|point| (point.row.producers, point.hollow));
    }
    lines
}

fn point<'a>(
    recorded: &Recorded,
    row: &'a Row,
    figures: &Figures,
    hollow: bool,
) -> (u32, Point<'a>) {
    let cells = choice::cells_where(recorded, row, hollow);
    let window = cells.first().map_or(1, |cell| cell.window);
    let flushed = cells.iter().filter(|cell| cell.messages_per_flush.count > 0);
    let batch = Stat::of(flushed.map(|cell| cell.messages_per_flush.mean));
    let flush_ns =
        figures.flush_p50.map(|flush| flush.ns.centre()).filter(|ns| super::drawable(*ns));
    let waiting = f64::from(row.producers) * f64::from(window);
    let bound = flush_ns.map(|ns| waiting / (ns / 1e9));
    let batch = batch.filter(|batch| super::drawable(batch.centre()));
    (window, Point { row, hollow, rate: figures.acked_per_s, batch, bound, flush_ns })
}

fn picture(recorded: &Recorded, drawn: &[Line<'_>], said: &[String]) -> anyhow::Result<String> {
    let mut out = String::new();
    let pen = Pen::new(&mut out)?;
    let rows: Vec<Row> =
        drawn.iter().flat_map(|line| &line.points).map(|point| point.row.clone()).collect();
    let title = head::warning(&recorded.environment, &rows, None) + QUESTION;
    head::draw_title(&pen, &title, &recorded.manifest, &recorded.environment, &rows)?;
    let top = head::draw_legend(&pen, &legend(drawn, &rows))?;
    let lines: Vec<String> =
        said.iter().flat_map(|sentence| wrapped(sentence, "", LETTERS)).take(MOST_LINES).collect();
    let words = i32::try_from(lines.len()).unwrap_or(0) * 16;
    let (top, bottom) = (top + 42, HEIGHT - 58 - words);
    let left = Frame { left: LEFT, right: 424, top, bottom, has_left: false, has_below: false };
    let right = Frame { left: 524, right: super::RIGHT, ..left };
    draw_batches(&pen, left, drawn)?;
    draw_rates(&pen, right, drawn)?;
    for (nth, line) in (0..).zip(&lines) {
        pen.text(line, (16, HEIGHT - words + 4 + nth * 16), Script::left(12, BLACK))?;
    }
    pen.finish()?;
    Ok(with_description(&out, &title, &description(drawn, said), NAME))
}

fn legend(drawn: &[Line<'_>], rows: &[Row]) -> Vec<(Sign, String)> {
    let mut entries: Vec<(Sign, String)> = drawn
        .iter()
        .zip(SERIES)
        .map(|(line, series)| (Sign::Series(series), line.name()))
        .collect();
    entries.push((Sign::Line(Dash::Dashed, GREY, 1), "ideal: all that may wait share".to_owned()));
    let bound = "thin: bound, messages that may wait / flush p50".to_owned();
    entries.push((Sign::Line(Dash::Dotted, GREY, 1), bound));
    entries.extend(head::hatched(
        drawn.iter().flat_map(|line| &line.points).map(|point| point.row.not_hardware),
    ));
    if drawn.iter().flat_map(|line| &line.points).any(|point| point.hollow) {
        entries.push((Sign::Hollow, "hollow: invalid".to_owned()));
    }
    let ranges = crate::verdict::Ranges::of(rows).word();
    entries.push((Sign::Bars, format!("{ranges} over blocks")));
    entries
}

/// An axis of producers, with its rulings drawn at powers of two.
fn producers_axis(pen: &Pen<'_>, frame: Frame, drawn: &[Line<'_>]) -> anyhow::Result<Axis> {
    let counts = drawn.iter().flat_map(|line| &line.points).map(Point::producers);
    let (low, high) =
        counts.fold((f64::INFINITY, 1.0_f64), |(low, high), n| (low.min(n), high.max(n)));
    let x = Axis::between(low / 1.3, high * 1.3, frame.left..frame.right);
    frame.rule_across(pen, &rulings_at(&x, powers_of_two()))?;
    frame.caption(pen, "producers (log)")?;
    Ok(x)
}

fn powers_of_two() -> impl Iterator<Item = (f64, String)> {
    (0..64).map(|power| {
        let value = 2_f64.powi(power);
        let text = if power < 10 { format!("{value:.0}") } else { format::count(value) };
        (value, text)
    })
}

fn draw_batches(pen: &Pen<'_>, frame: Frame, drawn: &[Line<'_>]) -> anyhow::Result<()> {
    let x = producers_axis(pen, frame, drawn)?;
    let points = || drawn.iter().flat_map(|line| &line.points);
    let batches = points().filter_map(|point| point.batch).flat_map(|b| [b.low(), b.high()]);
    let most = drawn.iter().flat_map(|line| line.points.iter().map(|point| line.waiting(point)));
    let (low, high) = batches
        .chain(most)
        .filter(|value| super::drawable(*value))
        .fold((1.0_f64, 2.0_f64), |(low, high), n| (low.min(n), high.max(n)));
    let y = Axis::between((low / 1.3).max(1e-6), (high * 1.3).min(1e24), frame.bottom..frame.top);
    frame.rule_up(pen, &rulings_at(&y, powers_of_two()))?;
    pen.text("messages per flush, mean (log)", (16, frame.top - 14), Script::left(12, BLACK))?;
    let windows: BTreeSet<u32> = drawn.iter().map(|line| line.key.3).collect();
    for window in windows {
        let alike = drawn.iter().filter(|line| line.key.3 == window);
        let ideal = alike.flat_map(|line| {
            line.points.iter().map(|point| (x.at(point.producers()), y.at(line.waiting(point))))
        });
        let ideal: BTreeSet<Pixel> = ideal.collect();
        let ends: Vec<Pixel> = ideal.first().into_iter().chain(ideal.last()).copied().collect();
        pen.line(&ends, Dash::Dashed, GREY)?;
    }
    for (line, series) in drawn.iter().zip(SERIES) {
        let spots = line.points.iter().filter_map(|p| Some((p, p.batch?)));
        draw_line(pen, &x, &y, &spots.collect::<Vec<_>>(), series)?;
    }
    frame.outline(pen)
}

fn draw_rates(pen: &Pen<'_>, frame: Frame, drawn: &[Line<'_>]) -> anyhow::Result<()> {
    let x = producers_axis(pen, frame, drawn)?;
    let points = || drawn.iter().flat_map(|line| &line.points);
    let rates = points().flat_map(|point| [point.rate.low(), point.rate.high()]);
    let rates: Vec<f64> = rates.chain(points().filter_map(|point| point.bound)).collect();
    let y = Axis::around(&rates, 1e3..1e6, frame.bottom..frame.top);
    frame.rule_up(pen, &rulings(&y, format::count))?;
    let title = "acknowledged messages per second (log)";
    pen.text(title, (frame.left - 56, frame.top - 14), Script::left(12, BLACK))?;
    for (line, series) in drawn.iter().zip(SERIES) {
        let bounds = line.points.iter().filter(|point| !point.hollow);
        let bounds = bounds.filter_map(|p| Some((x.at(p.producers()), y.at(p.bound?))));
        pen.line(&bounds.collect::<Vec<_>>(), Dash::Dotted, series.colour)?;
        let spots: Vec<_> = line.points.iter().map(|point| (point, point.rate)).collect();
        draw_line(pen, &x, &y, &spots, series)?;
    }
    frame.outline(pen)
}

fn draw_line(
    pen: &Pen<'_>,
    x: &Axis,
    y: &Axis,
    spots: &[(&Point<'_>, Stat)],
    series: Series,
) -> anyhow::Result<()> {
    let pixel = |point: &Point<'_>, value: f64| (x.at(point.producers()), y.at(value));
    let joined = spots.iter().filter(|(point, _)| !point.hollow);
    let path: Vec<Pixel> = joined.map(|(point, stat)| pixel(point, stat.centre())).collect();
    pen.line(&path, series.dash, series.colour.stroke_width(2))?;
    for (point, stat) in spots {
        let (low, high) = (pixel(point, stat.low()), pixel(point, stat.high()));
        if low != high {
            pen.line(&[low, high], Dash::Solid, series.colour)?;
            for (x, y) in [low, high] {
                pen.line(&[(x - 3, y), (x + 3, y)], Dash::Solid, series.colour)?;
            }
        }
        let at = pixel(point, stat.centre());
        pen.mark_in(series.shape, series.colour, at, Ink::of(point.row, point.hollow))?;
    }
    Ok(())
}

/// The wait that half a flush suggests, and what waiting brought where it was measured.
fn said(recorded: &Recorded, drawn: &[Line<'_>]) -> Vec<String> {
    let mut sentences = Vec::new();
    let Some(first) = drawn.first() else { return sentences };
    let Some(busiest) = first.busiest() else { return sentences };
    if let Some(ns) = busiest.flush_ns {
        sentences.push(format!(
            "{} ×{}: flush p50 {}, so a wait for others (gather_us) worth trying is half of it, \
             {} µs.",
            first.name(),
            busiest.row.producers,
            format::duration(ns),
            crate::clock::round(ns / 2e3)
        ));
    }
    let others = drawn.iter().skip(1).filter(|other| {
        other.key.0 == first.key.0 && other.key.1 == first.key.1 && other.key.3 == first.key.3
    });
    let floors = noise_floors(&recorded.cells, Measure::AckedPerS);
    let floor_pct = floors.get(first.key.0.disk).copied();
    let against = |other: &Line<'_>| {
        let twin = other
            .points
            .iter()
            .find(|point| !point.hollow && point.row.producers == busiest.row.producers)?;
        let gain = gain(recorded, busiest.row, twin.row, floor_pct);
        Some(format!("{} {gain}", format::clipped(&twin.row.strategy, 24)))
    };
    let gains: Vec<String> = others.filter_map(against).collect();
    if gains.is_empty() {
        sentences
            .push("No other setting of it was measured beside, so no gain is known.".to_owned());
    } else {
        let name = format::clipped(&first.points[0].row.strategy, 24);
        let gains = gains.join(", ");
        sentences.push(format!("Rate by that of {name} at ×{}: {gains}.", busiest.row.producers));
    }
    sentences
}

/// The rate of a row by that of another in the same blocks, with its range over them: `1.20×
/// [1.15–1.26, 95 %]`, `1.03× [0.97–1.08 over 3 blocks], within noise`.
fn gain(recorded: &Recorded, of: &Row, twin: &Row, floor_pct: Option<f64>) -> String {
    let [of, twin] = [of, twin].map(|row| choice::cells_where(recorded, row, false));
    let ratios = twin.iter().filter_map(|cell| {
        let beside = of.iter().find(|beside| beside.block == cell.block)?;
        let [rate, other] = [cell, beside].map(|cell| cell.acked_per_s);
        (super::drawable(rate) && super::drawable(other)).then(|| rate / other)
    });
    let Some(ratio) = Stat::of(ratios).filter(|ratio| ratio.blocks > 1) else {
        return "not known: fewer than two blocks have both".to_owned();
    };
    let sure = match ratio.interval() {
        Some(_) => ", 95 %".to_owned(),
        None => format!(" over {} blocks", ratio.blocks),
    };
    let is_by_chance = ratio.low() <= 1.0 && ratio.high() >= 1.0;
    // What the same work differs from itself by is no gain either.
    let is_in_noise =
        floor_pct.is_some_and(|pct| ratio.centre().ln().abs() <= (pct / 100.0).ln_1p());
    let noise = if is_by_chance || is_in_noise { ", within noise" } else { "" };
    let (shown, range) = (format::ratio(ratio.centre()), ratio.range(format::ratio));
    format!("{shown}× [{range}{sure}]{noise}")
}

fn note(said: &[String], rest: &[Line<'_>]) -> String {
    let mut sentences = vec![
        "A flush serves at most all messages that wait for it: on the dashed line the batch grows \
         as fast as the producers, and below it some come too late for a flush and wait for the \
         next. A rate at its bound is limited by the disk alone; at half of it producers have \
         fallen into two groups that take turns; far below it something else is the limit."
            .to_owned(),
    ];
    sentences.extend(said.iter().cloned());
    if !rest.is_empty() {
        let names: Vec<String> = rest.iter().map(Line::name).collect();
        sentences.push(format!("Not drawn, in the table alone: {}.", choice::named(&names)));
    }
    sentences.join(" ")
}

fn description(drawn: &[Line<'_>], said: &[String]) -> String {
    let mut sentences = vec![
        "Two line charts on logarithmic axes over the number of producers: messages per flush, \
         and acknowledged messages per second."
            .to_owned(),
    ];
    for point in drawn.iter().flat_map(|line| &line.points) {
        sentences.push(format!(
            "{}{}: {} messages per flush, {} msg/s.",
            point.row.label(),
            if point.hollow { " (invalid)" } else { "" },
            point.batch.map_or_else(|| "unknown".to_owned(), |b| format::count(b.centre())),
            format::count(point.rate.centre()),
        ));
    }
    sentences.extend(said.iter().cloned());
    sentences.join(" ")
}

fn table_rows(line: &Line<'_>, rows: &[Row]) -> Vec<Vec<Figure>> {
    let ranged = |stat: Stat| {
        let text = format!("{} [{}]", format::count(stat.centre()), stat.range(format::count));
        Figure::Number(text, stat.centre())
    };
    let number = |value: Option<f64>, shown: fn(f64) -> String| {
        value.map_or(Figure::Missing, |value| Figure::Number(shown(value), value))
    };
    let row = |point: &Point<'_>| {
        let row = point.row;
        let state = if point.hollow { "hollow: invalid" } else { status_name(row.status) };
        vec![
            Figure::Text(row.strategy.clone()),
            Figure::Text(Place::of(row).words() + &choice::mark(row, rows)),
            Figure::Text(row.workload.clone()),
            Figure::Number(row.producers.to_string(), point.producers()),
            Figure::Text(state.to_owned()),
            point.batch.map_or(Figure::Missing, ranged),
            ranged(point.rate),
            number(point.flush_ns, format::duration),
            number(point.bound, format::count),
            number(point.bound.map(|bound| point.rate.centre() / bound), format::ratio),
        ]
    };
    line.points.iter().map(row).collect()
}

const NAME: &str = "c5";
const QUESTION: &str = "Do more producers share a flush, and is the disk the limit?";
const HEADS: [&str; 10] = [
    "strategy",
    "disk and kernel settings",
    "workload",
    "producers",
    "state",
    "messages per flush, mean [range]",
    "msg/s [range]",
    "flush p50",
    "bound, msg/s",
    "rate by bound",
];
const LEFT: i32 = super::frame::MARGIN;
/// What a line below the panels holds, and how many there is room for; all is in the note.
const LETTERS: usize = 132;
const MOST_LINES: usize = 6;
