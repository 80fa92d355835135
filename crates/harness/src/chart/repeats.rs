//! Chart C10: whether the same cell, measured again, comes out the same.
//!
//! Each row has a strip. A dot is one block's rate by the row's median, on a logarithmic axis, so
//! that half and double are as far from it. Blocks follow each other downwards and are joined, so
//! a drift is a slant and an outlier a spike. Rows that differed most come first, after the
//! canaries, which are the same small cell at the begin and the end of each block.

use std::collections::BTreeMap;

use plotters::style::Color;

use super::choice::{self, Place};
use super::drawn::{Drawn, Figure};
use super::frame::fitting;
use super::head::{self, Sign};
use super::pen::{self, BAND, BLACK, Dash, GREY, Ink, PALE, Pen, Pixel, Script};
use super::{HEIGHT, RIGHT, with_description};
use crate::clock;
use crate::format;
use crate::recorded::Recorded;
use crate::results::{Cell, Kind, NotHardware, Status};
use crate::run::CANARY;
use crate::summary::{self, Row, Stat};

/// The chart, if anything was measured twice.
pub(super) fn draw(recorded: &Recorded) -> anyhow::Result<Option<Drawn>> {
    let rows = summary::rows(&recorded.cells);
    let mut strips = canaries(&recorded.cells);
    strips.extend(rows.iter().filter_map(|row| strip(recorded, row)));
    strips.retain(|strip| strip.dots.len() > 1);
    if strips.is_empty() {
        return Ok(None);
    }
    strips.sort_by(|a, b| b.is_canary.cmp(&a.is_canary).then(b.spread().total_cmp(&a.spread())));
    let drawn = &strips[..strips.len().min(MOST)];
    Ok(Some(Drawn {
        name: NAME.to_owned(),
        question: QUESTION,
        note: note(recorded, drawn, &strips[drawn.len()..]),
        svg: picture(recorded, &rows, drawn)?,
        heads: HEADS.to_vec(),
        rows: strips.iter().map(table_row).collect(),
    }))
}

/// A row, or the canaries of a place.
struct Strip {
    name: String,
    kind: Kind,
    is_canary: bool,
    not_hardware: NotHardware,
    /// In the order in which they were measured.
    dots: Vec<Dot>,
    /// Of the valid ones; of all, if none is.
    rate: Stat,
}

struct Dot {
    rate: f64,
    /// The block, and for canaries when in it.
    name: String,
    invalid: bool,
}

impl Strip {
    fn of(name: String, is_canary: bool, mut cells: Vec<&Cell>) -> Option<Self> {
        cells.sort_by_key(|cell| (cell.block, cell.started_at_ms, cell.position));
        let first = *cells.first()?;
        let valid = cells.iter().filter(|cell| cell.status != Status::Invalid);
        let rate = Stat::of(valid.map(|cell| cell.acked_per_s))
            .or_else(|| Stat::of(cells.iter().map(|cell| cell.acked_per_s)))?;
        let dot = |cell: &&Cell| Dot {
            rate: cell.acked_per_s,
            name: if is_canary {
                format!("{} {}", cell.block, format::clipped(&cell.workload, 8))
            } else {
                cell.block.to_string()
            },
            invalid: cell.status == Status::Invalid,
        };
        let not_hardware = cells
            .iter()
            .map(|cell| cell.not_hardware())
            .fold(NotHardware::default(), NotHardware::or);
        let dots = cells.iter().map(dot).collect();
        Some(Self { name, kind: first.kind, is_canary, not_hardware, dots, rate })
    }

    /// The largest by the smallest of those that count, as a logarithm.
    fn spread(&self) -> f64 {
        match (self.rate.max / self.rate.min).ln() {
            spread if spread.is_nan() => 0.0,
            spread => spread,
        }
    }

    /// The same in percent of the median: the noise of a repetition.
    fn spread_pct(&self) -> f64 {
        100.0 * (self.rate.max - self.rate.min) / self.rate.median
    }

    /// A rate by the strip's median, as a logarithm.
    fn place(&self, rate: f64) -> f64 {
        match (rate / self.rate.median).ln() {
            place if place.is_nan() => 0.0,
            place => place,
        }
    }
}

fn strip(recorded: &Recorded, row: &Row) -> Option<Strip> {
    Strip::of(row.label(), false, choice::cells_of(recorded, row))
}

/// The canaries of each place.
fn canaries(cells: &[Cell]) -> Vec<Strip> {
    let mut groups: BTreeMap<Place<'_>, Vec<&Cell>> = BTreeMap::new();
    for cell in cells.iter().filter(|cell| cell.strategy == CANARY) {
        let place = Place { disk: &cell.disk, sysctl: &cell.sysctl };
        groups.entry(place).or_default().push(cell);
    }
    let several = groups.len() > 1;
    let strip = |(place, cells): (Place<'_>, Vec<&Cell>)| {
        let place = if several { format!(" ({})", place.words()) } else { String::new() };
        Strip::of(format!("canary, begin and end{place}"), true, cells)
    };
    groups.into_iter().filter_map(strip).collect()
}

/// How far the axis reaches to either side, as a logarithm.
fn reach(drawn: &[Strip]) -> f64 {
    let dots = drawn.iter().flat_map(|strip| strip.dots.iter().map(|dot| strip.place(dot.rate)));
    let ends = drawn
        .iter()
        .flat_map(|strip| [strip.place(strip.rate.low()), strip.place(strip.rate.high())]);
    let furthest = dots.chain(ends).map(f64::abs).filter(|place| place.is_finite());
    // An axis that is shorter would show noise as if it were a difference; a longer one nothing.
    (furthest.fold(0.0, f64::max) * 1.08).clamp(1.3_f64.ln(), 20.0_f64.ln())
}

fn picture(recorded: &Recorded, rows: &[Row], drawn: &[Strip]) -> anyhow::Result<String> {
    let mut out = String::new();
    let pen = Pen::new(&mut out)?;
    let (manifest, env) = (&recorded.manifest, &recorded.environment);
    let title = head::warning(env, rows, None) + QUESTION;
    head::draw_title(&pen, &title, manifest, env, rows)?;
    let top = head::draw_legend(&pen, &legend(recorded, drawn))? + 20;
    let reach = reach(drawn);
    let columns = if drawn.len() > ONE_COLUMN { 2 } else { 1 };
    let in_column = drawn.len().div_ceil(columns);
    let noise = f64::from(manifest.gates().noise_max_pct);
    for (nth, strips) in (0..).zip(drawn.chunks(in_column)) {
        let wide = (RIGHT - 16) / i32::try_from(columns).unwrap_or(1);
        let left = 16 + nth * wide;
        let longest = strips.iter().map(|strip| pen::text_width(&strip.name, 12)).max();
        let column = Column {
            names: left,
            left: left + longest.unwrap_or(0).clamp(90, wide / 2) + 24,
            right: left + wide - 20,
            top,
            bottom: HEIGHT - 44,
            reach,
            count: i32::try_from(in_column).unwrap_or(i32::MAX),
        };
        column.draw(&pen, strips, noise, is_mixed(drawn))?;
    }
    pen.finish()?;
    Ok(with_description(&out, &title, &description(drawn), NAME))
}

fn is_mixed(drawn: &[Strip]) -> bool {
    let word = |strip: &Strip| strip.not_hardware.word();
    drawn.windows(2).any(|pair| word(&pair[0]) != word(&pair[1]))
}

fn legend(recorded: &Recorded, drawn: &[Strip]) -> Vec<(Sign, String)> {
    let noise = recorded.manifest.gates().noise_max_pct;
    let mut entries = vec![(Sign::Mark(Kind::GroupCommit), "a block, first above".to_owned())];
    if drawn.iter().any(|strip| strip.rate.interval().is_some()) {
        entries.push((Sign::Line(Dash::Solid, BLACK, 3), "95 % interval".to_owned()));
    }
    entries.push((Sign::Zone(BAND), format!("±{noise} %, what the gate calls noise")));
    if drawn.iter().flat_map(|strip| &strip.dots).any(|dot| dot.invalid) {
        entries.push((Sign::Mark(Kind::None), "crossed: invalid".to_owned()));
    }
    entries
}

/// Strips one above the other, and their axis below.
struct Column {
    names: i32,
    left: i32,
    right: i32,
    top: i32,
    bottom: i32,
    reach: f64,
    /// The strips that the highest column has.
    count: i32,
}

impl Column {
    fn x(&self, place: f64) -> i32 {
        let share = (place / self.reach).clamp(-1.0, 1.0) / 2.0 + 0.5;
        let along = clock::round(share * f64::from(self.right.abs_diff(self.left)));
        self.left + i32::try_from(along).unwrap_or(0)
    }

    fn high(&self) -> i32 {
        ((self.bottom - self.top) / self.count.max(1)).min(HIGHEST)
    }

    fn draw(
        &self,
        pen: &Pen<'_>,
        strips: &[Strip],
        noise_pct: f64,
        mixed: bool,
    ) -> anyhow::Result<()> {
        let high = self.high();
        let bottom = self.top + high * i32::try_from(strips.len()).unwrap_or(0);
        let beside = (1.0 + noise_pct / 100.0).ln();
        pen.fill((self.x(-beside), self.top), (self.x(beside), bottom), BAND)?;
        let mut free = i32::MIN;
        for (factor, text) in FACTORS {
            let place: f64 = f64::ln(factor);
            if place.abs() > self.reach {
                continue;
            }
            let x = self.x(place);
            pen.line(&[(x, self.top), (x, bottom)], Dash::Solid, PALE)?;
            let half = pen::text_width(text, 11) / 2;
            if x - half > free {
                pen.text(text, (x, bottom + 12), Script::centred(11, BLACK))?;
                free = x + half + 4;
            }
        }
        let middle = self.x(0.0);
        pen.line(&[(middle, self.top), (middle, bottom)], Dash::Solid, GREY)?;
        let caption = "msg/s of a block by the row's median (log)";
        let half = pen::text_width(caption, 12) / 2;
        let at = middle.min(self.right + 16 - half);
        pen.text(caption, (at, bottom + 29), Script::centred(12, BLACK))?;
        for (nth, strip) in (0..).zip(strips) {
            let top = self.top + nth * high;
            pen.line(&[(self.names, top), (self.right, top)], Dash::Solid, PALE)?;
            self.draw_strip(pen, strip, top, mixed)?;
        }
        pen.line(&[(self.names, bottom), (self.right, bottom)], Dash::Solid, PALE)
    }

    fn draw_strip(
        &self,
        pen: &Pen<'_>,
        strip: &Strip,
        top: i32,
        mixed: bool,
    ) -> anyhow::Result<()> {
        let high = self.high();
        let what = strip.not_hardware.word().filter(|_| mixed);
        let mark = what.map_or_else(String::new, |what| format!("{what} "));
        let name = fitting(&(mark + &strip.name), self.left - self.names - 12, 11);
        let script = Script::left(11, BLACK);
        let script = if strip.is_canary { script.bold() } else { script };
        pen.text(&name, (self.names, top + high / 2), script)?;
        let interval = strip.rate.interval();
        if let Some(interval) = interval {
            let y = top + high / 2;
            let ends = [(interval.low, y), (interval.high, y)];
            let line = ends.map(|(rate, y)| (self.x(strip.place(rate)), y));
            pen.line(&line, Dash::Solid, BLACK.mix(0.55).stroke_width(3))?;
        }
        let gaps = i32::try_from(strip.dots.len()).unwrap_or(i32::MAX).saturating_add(1);
        let spots: Vec<Pixel> = (1..)
            .zip(&strip.dots)
            .map(|(nth, dot)| (self.x(strip.place(dot.rate)), top + high * nth / gaps))
            .collect();
        let colour = pen::colour(strip.kind);
        pen.line(&spots, Dash::Solid, colour.mix(0.6))?;
        // A cross says that a block is invalid.
        let shape = if strip.kind == Kind::None { Kind::GroupCommit } else { strip.kind };
        let small = high / gaps < 8;
        for (dot, at) in strip.dots.iter().zip(spots) {
            match (dot.invalid, small) {
                (true, _) => pen.mark(Kind::None, at, Ink::Full)?,
                (false, true) => pen.dot(shape, colour, at, false)?,
                (false, false) => pen.mark_in(shape, colour, at, Ink::Full)?,
            }
        }
        Ok(())
    }
}

fn note(recorded: &Recorded, drawn: &[Strip], rest: &[Strip]) -> String {
    let mut sentences = vec![
        "Blocks, which are counted from 0, follow each other downwards: a slant is drift, a spike \
         an outlier. No block was left out but those that are crossed, which take no part in the \
         median."
            .to_owned(),
    ];
    let flagged: Vec<String> = recorded
        .manifest
        .noise
        .iter()
        .filter(|noise| noise.flagged)
        .map(|noise| format!("{} ({:.0} %)", noise.block, noise.spread_pct))
        .collect();
    if !flagged.is_empty() {
        let pct = recorded.manifest.gates().noise_max_pct;
        let flagged = choice::named(&flagged);
        sentences.push(format!("Blocks whose canaries differed by more than {pct} %: {flagged}."));
    }
    if !drawn.iter().any(|strip| strip.is_canary) {
        sentences.push("The run had no canaries, so drift between blocks is not told.".to_owned());
    }
    if let Some(next) = rest.first() {
        sentences.push(format!(
            "The {} that differed most are drawn; the other {} differed by at most {} and are in \
             the table alone.",
            format::plural(drawn.len(), "row"),
            rest.len(),
            shown_pct(next.spread_pct())
        ));
    }
    sentences.join(" ")
}

fn shown_pct(pct: f64) -> String {
    if pct.is_finite() { format!("{} %", format::count(pct)) } else { "n/a".to_owned() }
}

fn description(drawn: &[Strip]) -> String {
    let mut sentences = vec![
        "A strip of dots for each row: the rate of each block by the row's median.".to_owned(),
    ];
    for strip in drawn {
        let invalid = strip.dots.iter().filter(|dot| dot.invalid).count();
        let refused = if invalid == 0 { String::new() } else { format!(", {invalid} invalid") };
        sentences.push(format!(
            "{}: {}{refused}, from {} to {} msg/s.",
            strip.name,
            format::plural(strip.dots.len(), "block"),
            format::count(strip.rate.min),
            format::count(strip.rate.max)
        ));
    }
    sentences.join(" ")
}

fn table_row(strip: &Strip) -> Vec<Figure> {
    let each = |dot: &Dot| {
        let mark = if dot.invalid { " (invalid)" } else { "" };
        format!("{}: {}{mark}", dot.name, format::count(dot.rate))
    };
    let each: Vec<String> = strip.dots.iter().map(each).collect();
    let what = strip.not_hardware.word().map_or_else(String::new, |what| format!(" {what}"));
    let pct = strip.spread_pct();
    vec![
        Figure::Text(format!("{}{what}", strip.name)),
        Figure::Number(format::count(strip.rate.median), strip.rate.median),
        strip.rate.interval().map_or(Figure::Missing, |interval| {
            let (low, high) = (format::count(interval.low), format::count(interval.high));
            Figure::Text(format!("{low}–{high}"))
        }),
        if pct.is_finite() { Figure::Number(shown_pct(pct), pct) } else { Figure::Missing },
        Figure::Text(each.join(", ")),
    ]
}

const NAME: &str = "c10";
const QUESTION: &str = "Does the same cell, measured again, come out the same?";
const HEADS: [&str; 5] =
    ["row", "median msg/s", "95 % interval", "(max−min) / median", "msg/s of each block"];
/// Marks of the axis: what is as far from 1 to either side.
const FACTORS: [(f64, &str); 15] = [
    (0.05, "0.05"),
    (0.1, "0.1"),
    (0.2, "0.2"),
    (0.5, "0.5"),
    (0.7, "0.7"),
    (0.8, "0.8"),
    (0.9, "0.9"),
    (1.0, "1"),
    (1.1, "1.1"),
    (1.25, "1.25"),
    (1.5, "1.5"),
    (2.0, "2"),
    (5.0, "5"),
    (10.0, "10"),
    (20.0, "20"),
];
/// Strips that a sheet has room for.
const MOST: usize = 44;
/// From more strips on there are two columns.
const ONE_COLUMN: usize = 14;
/// A strip is no higher: few rows are not torn apart.
const HIGHEST: i32 = 72;
