//! C11: the card of a disk, one line for each way of making a write durable.
//!
//! Drawn are the middle and the rarer times; how many a second, and how many flushes the device saw
//! for each, are written beside them.

use anyhow::Context;
use plotters::style::Color;

use super::axis::Axis;
use super::drawn::{Drawn, Figure};
use super::frame::rulings;
use super::pen::{self, BLACK, Dash, GREY, Ink, PALE, Pen, Script};
use super::{HEIGHT, RIGHT, with_description};
use crate::card::text::{cross_check, sentence};
use crate::card::{Card, Row};
use crate::clock::float;
use crate::format;
use crate::recorded::Recorded;
use crate::results::{Environment, Kind};
use crate::table::wrapped;

/// The chart, if the run made a card of its first disk.
pub(super) fn draw(recorded: &Recorded) -> anyhow::Result<Option<Drawn>> {
    let damaged = "chart C11: delete the file, and the report is made without it";
    let Some(of) = recorded.card().context(damaged)? else { return Ok(None) };
    let parts = parts(&of);
    if parts.is_empty() {
        return Ok(None);
    }
    let mark = mark(&of);
    let rows = parts.iter().flat_map(|(part, rows)| rows.iter().map(move |row| (part, row)));
    let rows = rows.map(|(part, row)| table_row(format!("{part}: {}{mark}", name(row)), row));
    Ok(Some(Drawn {
        name: "c11".to_owned(),
        question: QUESTION,
        note: note(&of),
        svg: card(&of, &recorded.environment)?,
        heads: HEADS.to_vec(),
        rows: rows.collect(),
    }))
}

/// What must be said with every figure, behind what it is said of.
fn mark(card: &Card) -> String {
    let labels = card.labels.join(", ");
    if labels.is_empty() { labels } else { format!(" ({labels})") }
}

fn note(card: &Card) -> String {
    let verdict = card.verdict.as_ref().map(sentence);
    let verdict = verdict.unwrap_or_else(|| "It is not whole, and gives no verdict".to_owned());
    let fio = format::clipped(&cross_check(card.cross_check.as_ref()), 200);
    let disk = card.disk.as_deref().unwrap_or("the run's first disk");
    let mark = mark(card);
    format!(
        "Made beside the cells, under the kernel settings that were found: bytes are \
         written in place and made durable, over and over, on {disk}{mark}. {verdict}. {fio}."
    )
}

fn table_row(name: String, row: &Row) -> Vec<Figure> {
    let number = |text: String, value: f64| Figure::Number(text, value);
    let time = |ns: u64| number(format::duration(float(ns)), float(ns));
    vec![
        Figure::Text(name),
        time(row.write_to_durable_ns_p50),
        time(row.write_to_durable_ns_p99),
        row.write_to_durable_ns_max.map_or(Figure::Missing, time),
        row.sync_ns_p50.map_or(Figure::Missing, time),
        number(format::count(row.per_s), row.per_s),
        row.flushes_per_sync.map_or(Figure::Missing, |of| number(format::ratio(of), of)),
    ]
}

/// The chart of a card, whole or not, as an SVG of 900×560 pixels.
///
/// The same card gives the same bytes.
///
/// # Errors
///
/// If the drawing library fails, which it has no reason to: it writes to a string.
pub fn card(card: &Card, env: &Environment) -> anyhow::Result<String> {
    let mut out = String::new();
    let pen = Pen::new(&mut out)?;
    let title = title(card);
    pen.text(&format::clipped(&title, 90), (16, 24), Script::left(19, BLACK).bold())?;
    let place = card.disk.as_ref().or(env.disk.device.as_ref()).unwrap_or(&env.disk.path);
    let about = format!("{place} · {} · Linux {}", format::utc(card.started_at_ms), env.kernel);
    pen.text(&format::clipped(&about, 140), (16, 47), Script::left(12, GREY))?;
    let verdict = card.verdict.as_ref().map(sentence);
    let verdict = verdict.unwrap_or_else(|| "no verdict: the card is not whole".to_owned());
    for (line, y) in wrapped(&verdict, "", 130).iter().take(2).zip([66, 82]) {
        pen.text(line, (16, y), Script::left(12, BLACK))?;
    }
    let parts = parts(card);
    let times = parts.iter().flat_map(|(_, rows)| rows.iter()).flat_map(Row::times);
    let threshold = card.verdict.map(|verdict| float(verdict.threshold_ns));
    let times: Vec<f64> = times.chain(threshold).collect();
    let axis = Axis::around(&times, 1e3..1e9, LEFT..FIGURES - 24);
    let lines = parts.iter().map(|(_, rows)| rows.len() + 1).sum::<usize>();
    let lines = i32::try_from(lines).unwrap_or(i32::MAX);
    let high = ((BOTTOM - TOP) / lines.max(1)).clamp(9, 22);
    let bottom = TOP.saturating_add(high.saturating_mul(lines));
    // First, for marks to stand on it.
    draw_axis(&pen, &axis, bottom, threshold)?;
    draw_rows(&pen, &parts, &axis, high)?;
    pen.finish()?;
    Ok(with_description(&out, &title, &description(card), "c11"))
}

fn title(card: &Card) -> String {
    let labels = card.labels.join(", ");
    let of = if labels.is_empty() { String::new() } else { format!("{labels}: ") };
    format!("{of}{QUESTION}")
}

/// The card's tables that have rows.
fn parts(card: &Card) -> Vec<(&'static str, &[Row])> {
    let all: [(&str, &[Row]); 3] = [
        ("how: 4 KiB in place", &card.methods),
        ("how much at once", &card.sizes),
        ("how many at once: 4 KiB each", &card.parallel),
    ];
    all.into_iter().filter(|(_, rows)| !rows.is_empty()).collect()
}

impl Row {
    fn times(&self) -> impl Iterator<Item = f64> {
        let [p50, p99] = [self.write_to_durable_ns_p50, self.write_to_durable_ns_p99];
        [Some(p50), Some(p99), self.write_to_durable_ns_max].into_iter().flatten().map(float)
    }
}

/// Every row, from the top down, so far apart.
fn draw_rows(
    pen: &Pen<'_>,
    parts: &[(&str, &[Row])],
    axis: &Axis,
    high: i32,
) -> anyhow::Result<()> {
    for (text, x) in [("a second", PER_SECOND), ("flushes each", RIGHT)] {
        pen.text(text, (x, TOP - 10), Script::right(11, GREY))?;
    }
    let mut y = TOP + high / 2;
    for (name, rows) in parts {
        pen.text(name, (16, y), Script::left(11, BLACK).bold())?;
        y += high;
        for row in *rows {
            draw_row(pen, row, axis, y)?;
            y += high;
        }
    }
    Ok(())
}

fn draw_row(pen: &Pen<'_>, row: &Row, axis: &Axis, y: i32) -> anyhow::Result<()> {
    pen.line(&[(LEFT, y), (FIGURES - 24, y)], Dash::Solid, PALE)?;
    pen.text(&name(row), (LEFT - 10, y), Script::right(11, BLACK))?;
    let [p50, p99] = [row.write_to_durable_ns_p50, row.write_to_durable_ns_p99];
    let at = |ns: u64| axis.at(float(ns));
    let colour = pen::colour(Kind::GroupCommit);
    if let Some(max) = row.write_to_durable_ns_max {
        pen.line(&[(at(p99), y), (at(max), y)], Dash::Dotted, colour.stroke_width(1))?;
        pen.line(&[(at(max), y - 4), (at(max), y + 4)], Dash::Solid, colour.stroke_width(1))?;
    }
    pen.line(&[(at(p50), y), (at(p99), y)], Dash::Solid, colour.stroke_width(2))?;
    pen.mark_in(Kind::GroupCommit, colour, (at(p50), y), Ink::Full)?;
    pen.mark_in(Kind::FlushRealtime, colour, (at(p99), y), Ink::Full)?;
    pen.text(&format::count(row.per_s), (PER_SECOND, y), Script::right(11, BLACK))?;
    let flushes = row.flushes_per_sync.map_or("–".to_owned(), format::ratio);
    pen.text(&flushes, (RIGHT, y), Script::right(11, BLACK))
}

/// `fdatasync, 64 KiB, 4 threads`.
fn name(row: &Row) -> String {
    let threads = if row.threads == 1 { String::new() } else { format!(" ×{}", row.threads) };
    format!("{}, {}{threads}", row.method.words(), format::bytes(float(row.bytes)))
}

fn draw_axis(
    pen: &Pen<'_>,
    axis: &Axis,
    bottom: i32,
    threshold: Option<f64>,
) -> anyhow::Result<()> {
    for ruling in rulings(axis, format::duration) {
        if let Some(text) = &ruling.text {
            pen.line(&[(ruling.at, TOP), (ruling.at, bottom)], Dash::Dotted, PALE)?;
            pen.text(text, (ruling.at, bottom + 13), Script::centred(11, BLACK))?;
        }
    }
    pen.line(&[(LEFT, bottom), (FIGURES - 24, bottom)], Dash::Solid, GREY)?;
    if let Some(ns) = threshold.filter(|ns| axis.holds(*ns)) {
        let x = axis.at(ns);
        pen.line(&[(x, TOP), (x, bottom)], Dash::Dashed, BLACK)?;
        let text = format!("{} at p99: the most", format::duration(ns));
        pen.text(&text, (x, TOP - 10), Script::centred(11, BLACK))?;
    }
    let (across, y) = ("from the write to the end of its sync (log)", bottom + 32);
    pen.text(across, (LEFT, y), Script::left(12, BLACK))?;
    let mut x = LEFT + pen::text_width(across, 12) + 40;
    let colour = pen::colour(Kind::GroupCommit);
    for (shape, name) in [(Kind::GroupCommit, "p50"), (Kind::FlushRealtime, "p99")] {
        pen.mark_in(shape, colour, (x, y), Ink::Full)?;
        pen.text(name, (x + 12, y), Script::left(12, BLACK))?;
        x += 60;
    }
    pen.line(&[(x, y - 4), (x, y + 4)], Dash::Solid, colour.stroke_width(1))?;
    pen.text("worst", (x + 8, y), Script::left(12, BLACK))
}

/// What the chart shows, in words.
fn description(card: &Card) -> String {
    let time = |ns: u64| format::duration(float(ns));
    let mut sentences: Vec<String> = card.verdict.as_ref().map(sentence).into_iter().collect();
    for (part, rows) in parts(card) {
        for row in rows {
            sentences.push(format!(
                "{part}: {}: p50 {}, p99 {}, {} a second.",
                name(row),
                time(row.write_to_durable_ns_p50),
                time(row.write_to_durable_ns_p99),
                format::count(row.per_s)
            ));
        }
    }
    sentences.join(" ")
}

const QUESTION: &str = "Is this disk fit for synchronous flush?";
const HEADS: [&str; 7] =
    ["how", "p50", "p99", "worst", "sync alone, p50", "a second", "flushes each"];

/// Where the plot begins, where the figures beside it do, and where the first of them ends.
const LEFT: i32 = 250;
const FIGURES: i32 = 740;
const PER_SECOND: i32 = 790;
const TOP: i32 = 120;
const BOTTOM: i32 = HEIGHT - 48;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::card::example;
    use crate::results_fixture::{HOSTILE, environment};

    #[test]
    fn a_card_is_drawn_whole_with_its_verdict_and_what_each_row_took() {
        let of = example();
        let svg = card(&of, &environment()).unwrap();
        assert_eq!(card(&of, &environment()).unwrap(), svg, "the same card, the same bytes");
        let description = format!("{} {}", sentence(&of.verdict.unwrap()), "how: 4 KiB in place");
        for part in [
            "EMULATED: Is this disk fit for synchronous flush?",
            "role=\"img\" aria-labelledby=\"c11-title c11-desc\"",
            "fdatasync, 64 KiB",
            "10 ms at p99: the most",
            &description,
        ] {
            assert!(svg.contains(part), "{part:?} in\n{svg}");
        }
    }

    #[test]
    fn a_card_that_is_not_whole_or_hostile_is_drawn_as_well() {
        let mut of = example();
        (of.verdict, of.sizes) = (None, Vec::new());
        of.labels = vec![HOSTILE.to_owned()];
        let svg = card(&of, &environment()).unwrap();
        assert!(svg.contains("no verdict: the card is not whole"), "{svg}");
        assert!(!svg.contains(HOSTILE), "{svg}");
        let mut most = environment();
        most.disk.path = HOSTILE.to_owned();
        of.methods.truncate(0);
        of.parallel.truncate(0);
        assert!(!card(&of, &most).unwrap().contains(HOSTILE));
    }
}
