//! Chart C7: from append to acknowledgement, and from there to the page cache and to the disk;
//! where an acknowledgement waits for its sync, that wait in its parts.
//!
//! Each stage has a line with its median and its 99th percentile. Stages are not stacked: on a
//! logarithmic axis lengths do not add up, and the percentiles of parts are not parts of one.

use plotters::style::Color;

use super::axis::Axis;
use super::choice::{self, Chosen};
use super::drawn::{Drawn, Figure};
use super::frame::{Frame, rulings};
use super::head::{self, Sign};
use super::pen::{self, BAND, BLACK, Dash, GREY, Ink, Pen, Script};
use super::{HEIGHT, RIGHT, with_description};
use crate::clock::float;
use crate::distribution::quantiles;
use crate::format;
use crate::recorded::Recorded;
use crate::results::{AckPromise, Cell, Kind, Quantiles};
use crate::summary::{Loops, Row, Stat};

/// Chart C7 of what was recorded; `None` where no strategy acknowledged anything.
///
/// # Errors
///
/// If the drawing library fails, or a recorded histogram cannot be read.
pub(super) fn draw(recorded: &Recorded) -> anyhow::Result<Option<Drawn>> {
    let has = |row: &Row| {
        let cells = choice::cells_of(recorded, row);
        Ok(cells.iter().any(|cell| cell.ack_ns().count > 0))
    };
    let Some(chosen) = choice::choose(recorded, MOST, has)? else { return Ok(None) };
    let mut stages = Vec::new();
    for row in &chosen.rows {
        stages.extend(stages_of(recorded, row)?);
    }
    let (drawn, too_many) = fitting(&chosen.rows, &stages);
    let mut out = String::new();
    let pen = Pen::new(&mut out)?;
    let Recorded { manifest, environment, .. } = recorded;
    let title = head::warning(environment, &chosen.rows, None) + QUESTION;
    head::draw_title(&pen, &title, manifest, environment, &chosen.rows)?;
    // The stages of each row follow each other.
    let lines = drawn.iter().map(|row| lines_of(row, &stages)).sum();
    let top = head::draw_legend(&pen, &legend(drawn, &stages[..lines]))? + 22;
    draw_plot(&pen, drawn, &stages[..lines], top)?;
    pen.text(&format::clipped(&chosen.setting, 135), (16, HEIGHT - 8), Script::left(11, GREY))?;
    pen.finish()?;
    let svg = with_description(&out, &title, &description(&chosen, &stages), NAME);
    let note = note(&chosen, &stages, too_many);
    let rows = stages.iter().map(figures).collect();
    let (name, heads) = (NAME.to_owned(), HEADS.to_vec());
    Ok(Some(Drawn { name, question: QUESTION, note, svg, heads, rows }))
}

/// From one moment in a message's life to another.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Part {
    /// From when a message was due to its append.
    Sent,
    /// From append to the start of the sync that covers it.
    Queued,
    /// That sync.
    Flushed,
    /// From its return to the acknowledgement.
    Woken,
    /// From append, or from when it was due, to its acknowledgement.
    Acked,
    /// From there to the page cache.
    Written,
    /// From there to the return of the sync that covers it.
    Durable,
}

impl Part {
    /// The check that warns where too few ends of it were seen to know the longest.
    fn seen(self) -> Option<&'static str> {
        match self {
            Self::Sent | Self::Queued | Self::Flushed | Self::Woken | Self::Acked => None,
            Self::Written => Some("commits_seen"),
            Self::Durable => Some("syncs_seen"),
        }
    }

    /// The parts of a row's way. Where the wait for a sync is known, that takes the place of the
    /// way to the page cache, which is over by the acknowledgement.
    fn of(row: &Row, cells: &[&Cell]) -> Vec<Self> {
        if cells.iter().all(|cell| cell.sync_wait.is_none()) {
            return vec![Self::Acked, Self::Written, Self::Durable];
        }
        let sent = (row.loops == Loops::Open).then_some(Self::Sent);
        let then = [Self::Queued, Self::Flushed, Self::Woken, Self::Acked, Self::Durable];
        sent.into_iter().chain(then).collect()
    }

    fn name(self, loops: Loops) -> &'static str {
        match self {
            Self::Sent => "due → append",
            Self::Queued => "append → its sync",
            Self::Flushed => "its sync",
            Self::Woken => "sync → ack",
            Self::Acked if loops == Loops::Open => "due → ack",
            Self::Acked => "append → ack",
            Self::Written => "ack → page cache",
            Self::Durable => "ack → durable",
        }
    }
}

/// A part for one strategy.
struct Stage<'a> {
    row: &'a Row,
    part: Part,
    /// Why it is hollow, if it is.
    state: Option<&'static str>,
    /// In some block too few ends of this part were seen: what still waited may take longer.
    at_least: bool,
    /// Median and 99th percentile over blocks; `None` where nothing is known.
    times: Option<[Stat; 2]>,
}

impl Stage<'_> {
    /// What is said beside it.
    fn said(&self) -> String {
        let Some([p50, p99]) = &self.times else {
            return match (self.row.kind, self.part) {
                (Kind::None, Part::Durable) => "never: nothing is synced".to_owned(),
                _ => "not recorded".to_owned(),
            };
        };
        if p99.max <= 0.0 && !self.at_least {
            let is_before = matches!(self.part, Part::Written | Part::Durable);
            return if is_before { "0: before the acknowledgement" } else { "0" }.to_owned();
        }
        let [p50, p99] = [p50, p99].map(|stat| self.shown(stat.centre()));
        format!("{p50} · {p99}")
    }

    /// `≥ 40 ms` of what may be longer.
    fn shown(&self, ns: f64) -> String {
        let bound = if self.at_least { "≥ " } else { "" };
        format!("{bound}{}", format::duration(ns))
    }

    /// ` (overload)` behind a name.
    fn mark(&self) -> String {
        self.state.map_or_else(String::new, |state| format!(" ({state})"))
    }
}

fn stages_of<'a>(recorded: &Recorded, row: &'a Row) -> anyhow::Result<Vec<Stage<'a>>> {
    let (cells, is_invalid) = choice::counted(recorded, row);
    let state = match (is_invalid, choice::is_overload(&cells)) {
        (true, _) => Some("invalid"),
        (false, true) => Some("overload"),
        (false, false) => None,
    };
    let mut stages = Vec::new();
    for part in Part::of(row, &cells) {
        let mut known = Vec::new();
        for cell in &cells {
            known.extend(quantiles_of(recorded, cell, part)?);
        }
        let stat = |of: fn(&Quantiles) -> u64| Stat::of(known.iter().map(|q| float(of(q))));
        let times = stat(|q| q.p50).zip(stat(|q| q.p99)).map(|(p50, p99)| [p50, p99]);
        let is_short = |cell: &&Cell| part.seen().is_some_and(|code| cell.did_not_pass(code));
        let at_least = cells.iter().any(is_short);
        stages.push(Stage { row, part, state, at_least, times });
    }
    Ok(stages)
}

/// What a cell says of a part; `None` if it does not.
fn quantiles_of(recorded: &Recorded, cell: &Cell, part: Part) -> anyhow::Result<Option<Quantiles>> {
    let way = cell.sync_wait.unwrap_or_default();
    let found = match part {
        Part::Sent => cell.open_loop.map(|open| open.lag_ns).unwrap_or_default(),
        Part::Queued => way.queue_ns,
        Part::Flushed => way.flush_ns,
        Part::Woken => way.wake_ns,
        Part::Acked => cell.ack_ns(),
        Part::Durable => cell.ack_to_durable_ns,
        // What is acknowledged as written or durable is in the page cache by then.
        Part::Written if cell.ack_at != AckPromise::Wrote => {
            Quantiles { count: 1, ..Quantiles::default() }
        }
        Part::Written => match recorded.histogram(cell, "ack_to_written")? {
            Some(waits) => quantiles(&waits),
            None => Quantiles::default(),
        },
    };
    Ok((found.count > 0).then_some(found))
}

/// As many of the rows as have lines that can be told apart, and the others.
fn fitting<'a>(rows: &'a [Row], stages: &[Stage<'_>]) -> (&'a [Row], &'a [Row]) {
    let mut count = 0;
    let fits = rows.iter().take_while(|row| {
        count += lines_of(row, stages);
        count <= MOST_LINES
    });
    rows.split_at(fits.count())
}

fn lines_of(row: &Row, stages: &[Stage<'_>]) -> usize {
    stages.iter().filter(|stage| std::ptr::eq(stage.row, row)).count()
}

fn draw_plot(pen: &Pen<'_>, rows: &[Row], stages: &[Stage<'_>], top: i32) -> anyhow::Result<()> {
    let bottom = HEIGHT - 66;
    let times: Vec<f64> = stages
        .iter()
        .filter_map(|stage| stage.times.as_ref())
        .flatten()
        .flat_map(|stat| [stat.low(), stat.centre(), stat.high()])
        .collect();
    let across = Axis::around(&times, 1e3..1e9, BAND_END..RIGHT);
    pen.fill((LEFT, top), (BAND_END, bottom), BAND)?;
    let (has_left, has_below) = (false, false);
    let beside_band = Frame { left: BAND_END, right: RIGHT, top, bottom, has_left, has_below };
    beside_band.rule_across(pen, &rulings(&across, format::duration))?;
    Frame { left: LEFT, ..beside_band }.outline(pen)?;
    pen.line(&[(BAND_END, top), (BAND_END, bottom)], Dash::Dotted, GREY)?;
    let middle = i32::midpoint(LEFT, BAND_END);
    pen.text("0", (middle, bottom + 14), Script::centred(12, BLACK).bold())?;
    let middle = i32::midpoint(BAND_END, RIGHT);
    pen.text("time (log)", (middle, bottom + 34), Script::centred(12, BLACK))?;
    let count = |count: usize| i32::try_from(count).unwrap_or(i32::MAX).max(1);
    let step = ((bottom - top - 8 * count(rows.len())) / count(stages.len())).clamp(1, 29);
    let mut group = top;
    for row in rows {
        if group > top {
            pen.line(&[(16, group), (RIGHT, group)], Dash::Solid, pen::PALE)?;
        }
        let name = format::clipped(&row.strategy, 14);
        let mut line = group + 4 + step / 2;
        pen.text(&name, (16, line), Script::left(12, BLACK).bold())?;
        for stage in stages.iter().filter(|stage| std::ptr::eq(stage.row, row)) {
            draw_stage(pen, stage, &across, line)?;
            line += step;
        }
        group = line - step / 2 + 4;
    }
    Ok(())
}

fn draw_stage(pen: &Pen<'_>, stage: &Stage<'_>, across: &Axis, y: i32) -> anyhow::Result<()> {
    let name = stage.part.name(stage.row.loops);
    pen.text(name, (LEFT - 8, y), Script::right(11, BLACK))?;
    let said = stage.said();
    let Some([p50, p99]) = &stage.times else {
        return pen.text(&said, (BAND_END + 8, y), Script::left(11, GREY));
    };
    let x = |ns: f64| if ns > 0.0 { across.at(ns) } else { i32::midpoint(LEFT, BAND_END) };
    let (kind, colour) = (stage.row.kind, pen::colour(stage.row.kind));
    let (from, to) = (x(p50.centre()), x(p99.centre()));
    pen.line(&[(from, y), (to, y)], pen::dash(kind), colour.stroke_width(1))?;
    for stat in [p50, p99] {
        let (low, high) = (x(stat.low()), x(stat.high()));
        if low != high {
            // Below the line, where the line does not hide it.
            pen.line(&[(low, y + 7), (high, y + 7)], Dash::Solid, GREY)?;
            for end in [low, high] {
                pen.line(&[(end, y + 5), (end, y + 9)], Dash::Solid, GREY)?;
            }
        }
    }
    pen.line(&[(to, y - 6), (to, y + 6)], Dash::Solid, colour.stroke_width(3))?;
    pen.mark(kind, (from, y), Ink::of(stage.row, stage.state.is_some()))?;
    let right = x(p99.high()).max(to).max(from).max(BAND_END - 2) + 10;
    let wide = pen::text_width(&said, 11);
    let left = x(p50.low()).min(from) - 11;
    if right + wide <= RIGHT {
        pen.text(&said, (right, y), Script::left(11, BLACK))
    } else {
        pen.text(&said, (left.max(LEFT + wide), y), Script::right(11, BLACK))
    }
}

fn legend(rows: &[Row], stages: &[Stage<'_>]) -> Vec<(Sign, String)> {
    let mut entries = head::strategies(rows);
    entries.extend(head::hatched(rows.iter().map(|row| row.not_hardware)));
    entries.push((Sign::Level, "mark: median, bar: p99 of messages".to_owned()));
    let varies =
        |stage: &Stage<'_>| stage.times.iter().flatten().any(|stat| stat.low() < stat.high());
    if stages.iter().any(varies) {
        entries.push((Sign::Span, "below: over blocks".to_owned()));
    }
    if stages.iter().any(|stage| stage.state.is_some()) {
        entries.push((Sign::Hollow, "hollow: invalid, or overload".to_owned()));
    }
    if stages.iter().any(|stage| stage.at_least && stage.times.is_some()) {
        entries.push((Sign::AtLeast, "at least".to_owned()));
    }
    entries
}

fn note(chosen: &Chosen, stages: &[Stage<'_>], too_many: &[Row]) -> String {
    let bound = if stages.iter().any(|stage| stage.at_least && stage.times.is_some()) {
        " With ≥ a part ended too seldom to know how long it takes: what still waited may take \
         longer."
    } else {
        ""
    };
    let parts = if stages.iter().any(|stage| stage.part == Part::Queued) {
        " That time has parts: to the start of the sync that covers the message (the append \
         itself, the rest of the sync before, and gathering where that is set); that sync; and \
         from its return until the producer was told. Messages past their deadline have none."
    } else {
        ""
    };
    let overload = if stages.iter().any(|stage| stage.state == Some("overload")) {
        " Of an overload, times are a backlog that grows as long as one measures."
    } else {
        ""
    };
    let too_many = if too_many.is_empty() {
        String::new()
    } else {
        let names: Vec<String> =
            too_many.iter().map(|row| format::clipped(&row.strategy, 24)).collect();
        format!(" In the table alone: {}.", choice::named(&names))
    };
    let more = [bound, overload, &too_many, &chosen.left_out].concat();
    format!(
        "Of {}. The time until a message is durable is counted from its acknowledgement: with a \
         strategy that acknowledges after its sync it is 0, and the sync is within the time to \
         it.{parts} Percentiles of the parts do not add up to one of the whole.{more}",
        chosen.setting
    )
}

fn description(chosen: &Chosen, stages: &[Stage<'_>]) -> String {
    let mut sentences = vec![format!(
        "Median and 99th percentile of each part of a message's way, on a logarithmic axis with a \
         band for 0; {}.",
        chosen.setting
    )];
    sentences.extend(stages.iter().map(|stage| {
        let part = stage.part.name(stage.row.loops);
        format!("{}{}, {part}: {}.", stage.row.strategy, stage.mark(), stage.said())
    }));
    sentences.join(" ")
}

fn figures(stage: &Stage<'_>) -> Vec<Figure> {
    let name = stage.row.strategy.clone() + &stage.mark();
    let mut row =
        vec![Figure::Text(name), Figure::Text(stage.part.name(stage.row.loops).to_owned())];
    match &stage.times {
        Some(times) => row.extend(times.iter().flat_map(|stat| {
            let range = stat.range(format::duration);
            let centre = stat.centre();
            [Figure::Number(stage.shown(centre), centre), Figure::Text(range)]
        })),
        None => row.extend([const { Figure::Missing }; 4]),
    }
    row
}

const NAME: &str = "c7";
const QUESTION: &str = "Where does the time go, from append to the disk?";
const HEADS: [&str; 6] = ["strategy", "part", "p50", "p50 over blocks", "p99", "p99 over blocks"];

const LEFT: i32 = 206;
/// Where the band of 0 ends.
const BAND_END: i32 = 262;
/// Strategies in one chart,
const MOST: usize = 6;
/// and their lines: of more, texts would lie on each other.
const MOST_LINES: usize = 24;
