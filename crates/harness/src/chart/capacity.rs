//! Chart C9: which strategy carries which load, if a power cut may take so much and no more.
//!
//! A grid for each loss that is allowed; down how many messages a second are asked for, across how
//! large they are. A field has the cheapest strategy that is known to keep it, by its sign, its
//! name and the kernel settings, and how much more it was measured to carry. Nothing is
//! interpolated: where measurements do not reach there is a question mark.

use std::collections::BTreeSet;

use super::choice::{self, Place};
use super::drawn::{Drawn, Figure};
use super::frame::{self, fitting};
use super::head::{self, Sign};
use super::pen::{self, BAND, BLACK, Dash, GREY, Ink, PALE, Pen, Pixel, Script};
use super::{HEIGHT, LossModel, RIGHT, with_description};
use crate::capacity::{self, Ask, Basis, Capacity, Choice, Standing};
use crate::clock::{float, nanos};
use crate::format;
use crate::recorded::Recorded;
use crate::summary::Row;

/// Chart C9 of what was recorded; `None` where no strategy has a valid row.
///
/// # Errors
///
/// If the drawing library fails.
pub(super) fn draw(recorded: &Recorded) -> anyhow::Result<Option<Drawn>> {
    let rows = choice::rows_where(recorded, |row| row.kind.is_strategy() && row.figures.is_some());
    let disks = disks(&rows);
    let Some(drawn) = disks.first().copied() else { return Ok(None) };
    let mut sizes = sizes(recorded);
    let all = sizes.len();
    let each = strategies(&rows) * LOSSES_NS.len() * RATES_PER_S.len();
    thin(&mut sizes, (MOST_QUESTIONS / each).max(MOST_SIZES));
    let not_asked = all - sizes.len();
    let fields = fields(recorded, &disks, &sizes)?;
    let of_disk: Vec<Row> = rows.iter().filter(|row| row.disk == drawn).cloned().collect();
    let shown: Vec<&Field<'_>> = fields.iter().filter(|field| field.disk == drawn).collect();
    let sheet = Sheet::of(recorded, drawn, &of_disk, &shown, &sizes);
    let others: Vec<String> = disks[1..].iter().map(|disk| format::clipped(disk, 24)).collect();
    Ok(Some(Drawn {
        name: NAME.to_owned(),
        question: QUESTION,
        note: sheet.note(&others, not_asked),
        svg: sheet.picture(recorded)?,
        heads: HEADS.to_vec(),
        rows: fields.iter().map(|field| table_row(field, &rows)).collect(),
    }))
}

/// The disks by name: those of real hardware first, then those with most rows.
fn disks(rows: &[Row]) -> Vec<&str> {
    let mut disks: Vec<&str> = Vec::new();
    for Place { disk, .. } in choice::places(rows) {
        if !disks.contains(&disk) {
            disks.push(disk);
        }
    }
    disks
}

/// What carries a load on a disk.
struct Field<'a> {
    disk: &'a str,
    ask: Ask,
    answer: Answer,
}

/// What is known of it.
enum Answer {
    /// Every strategy breaks it.
    Broken,
    /// This one carries it, the cheapest that is known to.
    Carried(Box<Choice>),
    /// Measurements do not reach so far.
    Unknown,
}

impl Answer {
    fn of(found: &Capacity, disk: &str) -> Self {
        match found.chosen(disk) {
            // Beyond what was measured a model is a guess.
            Some(choice) if choice.basis == Basis::Extrapolated => Self::Unknown,
            Some(choice) => Self::Carried(Box::new(choice.clone())),
            None => {
                let all = found.of_disk(disk).all(|choice| choice.standing == Standing::Breaks);
                if all { Self::Broken } else { Self::Unknown }
            }
        }
    }

    fn words(&self, ask: &Ask) -> String {
        match self {
            Self::Broken => "— every strategy breaks it".to_owned(),
            Self::Carried(choice) => {
                let name = format::clipped(&choice.strategy, 24);
                let sysctl = format::clipped(&choice.sysctl, 24);
                format!("{name} with {sysctl}, {}", room(choice, ask).unwrap_or_else(unmeasured))
            }
            Self::Unknown => "? not known".to_owned(),
        }
    }
}

/// How much more than asked it was measured to carry; `None` if it was not measured so far.
fn room(choice: &Choice, ask: &Ask) -> Option<String> {
    let ratio = choice.keeps_up_to_per_s.map(|most| most / ask.rate_per_s)?;
    let shown = if ratio < 10.0 {
        format!("+{:.0} %", 100.0 * (ratio - 1.0))
    } else {
        format!("{}×", frame::round(&format::count(ratio)))
    };
    (ratio >= 1.0).then_some(shown)
}

fn unmeasured() -> String {
    "not measured".to_owned()
}

/// Every load on every disk.
fn fields<'a>(
    recorded: &Recorded,
    disks: &[&'a str],
    sizes: &[u64],
) -> anyhow::Result<Vec<Field<'a>>> {
    let ack_p99_ns = recorded.manifest.slo().ack_p99.map(|asked| float(nanos(asked).get()));
    let mut asks = Vec::new();
    for loss_ns in LOSSES_NS {
        for rate_per_s in RATES_PER_S {
            for &message_bytes in sizes {
                let model = LossModel::Power;
                asks.push(Ask { rate_per_s, message_bytes, loss_ns, ack_p99_ns, model });
            }
        }
    }
    let answers = capacity::capacities(recorded, &asks)?;
    let mut fields = Vec::new();
    for disk in disks {
        fields.extend(asks.iter().zip(&answers).map(|(ask, found)| Field {
            disk,
            ask: *ask,
            answer: Answer::of(found, disk),
        }));
    }
    Ok(fields)
}

/// How many strategies there are, each in each of its places.
fn strategies(rows: &[Row]) -> usize {
    let of = |row: &'_ Row| [row.disk.clone(), row.sysctl.clone(), row.strategy.clone()];
    rows.iter().map(of).collect::<BTreeSet<_>>().len().max(1)
}

/// The message sizes that were measured with strategies.
fn sizes(recorded: &Recorded) -> Vec<u64> {
    let cells = recorded.cells.iter().filter(|cell| cell.kind.is_strategy());
    let is_canary = |strategy: &str| strategy == crate::run::CANARY;
    let cells = cells.filter(|cell| !is_canary(&cell.strategy));
    let mut sizes: Vec<u64> = cells.map(|cell| cell.message_bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// Takes out of the middle until no more than `most` are left: the ends tell more.
fn thin<T>(items: &mut Vec<T>, most: usize) {
    while items.len() > most {
        items.remove(items.len() / 2);
    }
}

/// What the picture shows.
struct Sheet<'a> {
    rows: &'a [Row],
    fields: &'a [&'a Field<'a>],
    /// The columns: sizes of messages.
    sizes: Vec<u64>,
    /// More that were measured.
    left_out: Vec<String>,
    /// The kernel settings, called by letters in the fields.
    sysctls: Vec<&'a str>,
    setting: String,
}

impl<'a> Sheet<'a> {
    fn of(
        recorded: &Recorded,
        disk: &str,
        rows: &'a [Row],
        fields: &'a [&'a Field<'a>],
        all: &[u64],
    ) -> Self {
        let mut sizes = all.to_vec();
        thin(&mut sizes, MOST_SIZES);
        let left_out = all.iter().filter(|size| !sizes.contains(size));
        let mut sysctls: Vec<&str> = rows.iter().map(|row| &*row.sysctl).collect();
        sysctls.sort_unstable();
        sysctls.dedup();
        let asked = recorded.manifest.slo().ack_p99.map_or_else(String::new, |asked| {
            let asked = format::duration(float(nanos(asked).get()));
            format!("; 99 of 100 messages acknowledged within {asked}")
        });
        let named: Vec<String> = sysctls
            .iter()
            .zip(LETTERS)
            .map(|(sysctl, letter)| format!("{letter}: {}", format::clipped(sysctl, 24)))
            .collect();
        let settings = match &*sysctls {
            [only] => format::clipped(only, 24),
            _ => named.join(", "),
        };
        let disk = format::clipped(disk, 24);
        Self {
            rows,
            fields,
            left_out: left_out.map(|size| format::bytes(float(*size))).collect(),
            sizes,
            setting: format!(
                "disk {disk}, kernel settings {settings}{asked}; if the device honours flush"
            ),
            sysctls,
        }
    }

    fn picture(&self, recorded: &Recorded) -> anyhow::Result<String> {
        let Recorded { manifest, environment, .. } = recorded;
        let mut out = String::new();
        let pen = Pen::new(&mut out)?;
        let title = head::warning(environment, self.rows, Some(LossModel::Power)) + QUESTION;
        head::draw_title(&pen, &title, manifest, environment, self.rows)?;
        let top = head::draw_legend(&pen, &self.legend())? + 34;
        let key = "the cheapest strategy that carries the load, and how much more or how many \
                   times that it carries; —: all break it; ?: measurements do not reach so far";
        pen.text(key, (16, top - 14), Script::left(11, GREY))?;
        let high = (HEIGHT - 24 - top) / 2;
        for (nth, loss_ns) in (0..).zip(LOSSES_NS) {
            let left = if nth % 2 == 0 { LEFT } else { LEFT_OF_SECOND };
            let top = top + nth / 2 * high;
            let right = left + (RIGHT - LEFT_OF_SECOND);
            self.grid(&pen, loss_ns, (left, top), (right, top + high - 8))?;
        }
        pen.text(&format::clipped(&self.setting, 135), (16, HEIGHT - 8), Script::left(11, GREY))?;
        pen.finish()?;
        Ok(with_description(&out, &title, &self.description(), NAME))
    }

    fn legend(&self) -> Vec<(Sign, String)> {
        let mut entries = head::strategies(self.rows);
        let has = |ink| {
            let mut answers = self.fields.iter().map(|field| &field.answer);
            answers
                .any(|answer| matches!(answer, Answer::Carried(choice) if self.ink(choice) == ink))
        };
        if has(Ink::Hatched) {
            entries.extend(head::hatched(self.rows.iter().map(|row| row.not_hardware)));
        }
        if has(Ink::Hollow) {
            entries.push((Sign::Hollow, "hollow: by its settings or a model".to_owned()));
        }
        entries
    }

    /// How a choice is marked.
    fn ink(&self, choice: &Choice) -> Ink {
        let row = self.rows.iter().find(|row| row.disk == choice.disk);
        let is_measured = choice.basis == Basis::Measured;
        row.map_or(Ink::Hollow, |row| Ink::of(row, !is_measured))
    }

    /// The grid of one loss, with its words above and beside it.
    fn grid(&self, pen: &Pen<'_>, loss_ns: f64, from: Pixel, to: Pixel) -> anyhow::Result<()> {
        let (left, top) = (from.0, from.1 + 32);
        let (right, bottom) = to;
        let heading = allowed(loss_ns);
        pen.text(&heading, (left - BESIDE, from.1 + 6), Script::left(12, BLACK).bold())?;
        let columns = i32::try_from(self.sizes.len()).unwrap_or(i32::MAX).max(1);
        let rows = i32::try_from(RATES_PER_S.len()).unwrap_or(i32::MAX);
        let column = |nth: i32| left + (right - left) * nth / columns;
        let row = |nth: i32| top + (bottom - top) * nth / rows;
        for (x, size) in (0..).zip(&self.sizes) {
            let middle = i32::midpoint(column(x), column(x + 1));
            let size = format::bytes(float(*size));
            pen.text(&size, (middle, top - 9), Script::centred(11, BLACK))?;
        }
        for (y, rate) in (0..).zip(RATES_PER_S) {
            let middle = i32::midpoint(row(y), row(y + 1));
            let rate = format!("{}/s", frame::round(&format::count(rate)));
            pen.text(&rate, (left - 6, middle), Script::right(11, BLACK))?;
        }
        for field in self.fields.iter().filter(|field| is_same(field.ask.loss_ns, loss_ns)) {
            let x = self.sizes.iter().position(|size| *size == field.ask.message_bytes);
            let y = RATES_PER_S.iter().position(|rate| is_same(*rate, field.ask.rate_per_s));
            let Some((x, y)) = x.zip(y) else { continue };
            let (x, y) = (i32::try_from(x)?, i32::try_from(y)?);
            self.field(pen, field, (column(x), row(y)), (column(x + 1), row(y + 1)))?;
        }
        for x in 0..=columns {
            pen.line(&[(column(x), top), (column(x), bottom)], Dash::Solid, PALE)?;
        }
        for y in 0..=rows {
            pen.line(&[(left, row(y)), (right, row(y))], Dash::Solid, PALE)?;
        }
        Ok(())
    }

    fn field(
        &self,
        pen: &Pen<'_>,
        field: &Field<'_>,
        from: Pixel,
        to: Pixel,
    ) -> anyhow::Result<()> {
        let middle = (i32::midpoint(from.0, to.0), i32::midpoint(from.1, to.1));
        let choice = match &field.answer {
            Answer::Broken => {
                pen.fill(from, to, BAND)?;
                return pen.text("—", middle, Script::centred(14, BLACK));
            }
            Answer::Unknown => return pen.text("?", middle, Script::centred(14, GREY)),
            Answer::Carried(choice) => choice,
        };
        pen.mark(choice.kind, (from.0 + 11, middle.1), self.ink(choice))?;
        let wide = to.0 - from.0 - 24;
        let letter = self.letter(&choice.sysctl);
        let room_for_name = wide - pen::text_width(&letter, 11);
        let interval = choice.interval_ns.map(|ns| frame::round(&format::duration(ns)));
        let both = interval.as_ref().map(|interval| format!("{} {interval}", choice.strategy));
        // The interval where there is room for it.
        let both = both.filter(|both| fitting(both, room_for_name, 11) == **both);
        let unmeasured = || match &interval {
            Some(interval) if both.is_none() => format!("at {interval}"),
            _ => unmeasured(),
        };
        let room = room(choice, &field.ask).unwrap_or_else(unmeasured);
        let name = both.unwrap_or_else(|| fitting(&choice.strategy, room_for_name, 11)) + &letter;
        pen.text(&name, (from.0 + 21, middle.1 - 6), Script::left(11, BLACK))?;
        let room = fitting(&room, wide, 11);
        pen.text(&room, (from.0 + 21, middle.1 + 7), Script::left(11, GREY))
    }

    /// ` b`, if there are several kernel settings.
    fn letter(&self, sysctl: &str) -> String {
        let several = self.sysctls.len() > 1;
        let at = self.sysctls.iter().position(|other| *other == sysctl).filter(|_| several);
        let letter = at.and_then(|at| LETTERS.get(at));
        letter.map_or_else(String::new, |letter| format!(" {letter}"))
    }

    fn description(&self) -> String {
        let mut sentences = vec![format!(
            "Grids of messages per second by message size, one for each loss in a power cut that \
             is allowed; {}.",
            self.setting
        )];
        sentences.extend(
            self.drawn()
                .map(|field| format!("{}: {}.", load(&field.ask), field.answer.words(&field.ask))),
        );
        sentences.join(" ")
    }

    fn drawn(&self) -> impl Iterator<Item = &Field<'_>> {
        let fields = self.fields.iter().copied();
        fields.filter(|field| self.sizes.contains(&field.ask.message_bytes))
    }

    fn note(&self, others: &[String], not_asked: usize) -> String {
        let mut left_out = Vec::new();
        if !self.left_out.is_empty() {
            left_out.push(format!("messages of {}", choice::named(&self.left_out)));
        }
        if !others.is_empty() {
            left_out.push(format!("the disks {}", choice::named(others)));
        }
        let in_table = if left_out.is_empty() {
            String::new()
        } else {
            format!(" In the table alone: {}.", left_out.join(" and "))
        };
        let more = match not_asked {
            0 => String::new(),
            more => format!(" Not asked for: {}.", format::plural(more, "size")),
        };
        format!(
            "Of {}. A load is carried if a row took it, or more, and its worst block kept what is \
             asked; of those the one with the fewest syncs is named. Below the pages that fill in \
             an interval a strategy's settings bound what is lost. Other loads: cargo xtask \
             capacity.{in_table}{more}",
            self.setting
        )
    }
}

/// Both are of the same list.
fn is_same(a: f64, b: f64) -> bool {
    (a - b).abs() <= 0.0
}

fn allowed(loss_ns: f64) -> String {
    if loss_ns <= 0.0 {
        return "nothing lost in a power cut".to_owned();
    }
    format!("at most {} lost", frame::round(&format::duration(loss_ns)))
}

/// `10k/s of 1.0 KiB, at most 100 ms lost`.
fn load(ask: &Ask) -> String {
    let rate = frame::round(&format::count(ask.rate_per_s));
    let size = format::bytes(float(ask.message_bytes));
    format!("{rate}/s of {size}, {}", allowed(ask.loss_ns))
}

fn table_row(field: &Field<'_>, rows: &[Row]) -> Vec<Figure> {
    let text = |text: &str| Figure::Text(text.to_owned());
    let ask = &field.ask;
    let row = rows.iter().find(|row| row.disk == field.disk);
    let what = row.and_then(|row| row.not_hardware.word());
    let disk = match what {
        Some(what) => format!("{} ({what})", format::clipped(field.disk, 24)),
        None => format::clipped(field.disk, 24),
    };
    let loss = frame::round(&format::duration(ask.loss_ns));
    let size = float(ask.message_bytes);
    let mut figures = vec![
        Figure::Text(load(ask)),
        Figure::Text(disk),
        Figure::Number(loss, ask.loss_ns),
        Figure::Number(frame::round(&format::count(ask.rate_per_s)), ask.rate_per_s),
        Figure::Number(format::bytes(size), size),
    ];
    let missing = [const { Figure::Missing }; 3];
    match &field.answer {
        Answer::Broken => {
            figures.push(text("—"));
            figures.extend(missing);
            figures.push(text("every strategy breaks it"));
        }
        Answer::Unknown => {
            figures.push(text("?"));
            figures.extend(missing);
            figures.push(text("measurements do not reach so far"));
        }
        Answer::Carried(choice) => {
            let number = |value: Option<f64>, shown: fn(f64) -> String| match value {
                Some(value) => Figure::Number(shown(value), value),
                None => Figure::Missing,
            };
            figures.push(Figure::Text(format::clipped(&choice.strategy, 24)));
            figures.push(Figure::Text(format::clipped(&choice.sysctl, 24)));
            figures.push(number(choice.interval_ns, format::duration));
            let most = choice.keeps_up_to_per_s.filter(|most| *most >= ask.rate_per_s);
            figures.push(match room(choice, ask).zip(most) {
                Some((room, most)) => Figure::Number(room, most / ask.rate_per_s),
                None => Figure::Missing,
            });
            figures.push(text(known(choice.basis)));
        }
    }
    figures
}

/// How it is known that it is carried.
fn known(basis: Basis) -> &'static str {
    match basis {
        Basis::Bounded => "bounded by its settings",
        Basis::Measured => "measured",
        Basis::Modelled => "modelled",
        Basis::Extrapolated | Basis::Unknown => "not known",
    }
}

const NAME: &str = "c9";
const QUESTION: &str = "What carries which load, if a power cut may take so much and no more?";
const HEADS: [&str; 10] = [
    "load",
    "disk",
    "loss allowed",
    "msg/s",
    "message",
    "cheapest strategy",
    "kernel settings",
    "interval",
    "room above the load",
    "how it is known",
];

/// A grid for each.
const LOSSES_NS: [f64; 4] = [0.0, 10e6, 100e6, 1e9];
/// A line of a grid for each.
const RATES_PER_S: [f64; 5] = [100.0, 1e3, 1e4, 1e5, 1e6];
/// A run of a great many sizes and strategies would be asked for hours.
const MOST_QUESTIONS: usize = 40_000;
/// Columns of a grid that have room for names.
const MOST_SIZES: usize = 4;
/// What the fields call kernel settings; more are told by the table.
const LETTERS: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

/// Room for the words beside a grid.
const BESIDE: i32 = 52;
/// Where the grids begin: the first,
const LEFT: i32 = 16 + BESIDE;
/// and the second of a row.
const LEFT_OF_SECOND: i32 = 504;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Kind;
    use crate::results_fixture::{cell, environment, manifest};

    #[test]
    fn what_is_drawn_of_many_sizes_is_among_those_asked_for() {
        let thinned = |most| {
            let mut items: Vec<u32> = (0..100).collect();
            thin(&mut items, most);
            items
        };
        assert_eq!(thinned(4), [0, 1, 98, 99], "the ends");
        assert!(thinned(4).iter().all(|item| thinned(7).contains(item)));
        assert_eq!(thinned(200).len(), 100);
    }

    #[test]
    fn a_run_of_more_sizes_than_can_be_asked_for_says_so() {
        let of = |strategies: u32, sizes: u32| {
            let one = |(strategy, size): (u32, u32)| {
                cell(Kind::GroupCommit, 8, 0, |c| {
                    c.strategy = format!("sync-{strategy}");
                    (c.workload, c.message_bytes) = (format!("of-{size}"), 100 + u64::from(size));
                })
            };
            let all = (0..strategies).flat_map(|one| (0..sizes).map(move |size| (one, size)));
            let cells: Vec<_> = all.map(one).collect();
            draw(&Recorded::new(&manifest(), &environment(), &cells, None)).unwrap().unwrap()
        };
        let few = of(2, 6);
        assert!(!few.note.contains("Not asked for"), "{}", few.note);
        assert_eq!(few.rows.len(), 6 * LOSSES_NS.len() * RATES_PER_S.len());
        // 40 000 questions are 20 sizes by 100 strategies, each asked 20 times.
        let many = of(100, 22);
        assert!(many.note.ends_with("Not asked for: 2 sizes."), "{}", many.note);
        assert_eq!(many.rows.len(), 20 * LOSSES_NS.len() * RATES_PER_S.len());
    }
}
