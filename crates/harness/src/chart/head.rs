//! What stands around the plot of a chart: title, machine and run, legend, what was left out.

use plotters::style::{Color, RGBColor};

use super::choice;
use super::pareto::Codes;
use super::pen::{self, BLACK, Dash, GREY, Ink, Looks, Pen, Pixel, Script, Series};
use super::{HEIGHT, LossModel, RIGHT, drawable};
use crate::format;
use crate::results::{Environment, Kind, Manifest, NotHardware};
use crate::summary::{self, Extent, Loops, Row, kind_name};
use crate::verdict::{self, Ranges};

/// Title, subtitle and legend; answers where the plot can begin.
pub(super) fn draw_head(
    pen: &Pen<'_>,
    manifest: &Manifest,
    env: &Environment,
    rows: &[Row],
    model: LossModel,
    codes: &Codes,
) -> anyhow::Result<i32> {
    draw_title(pen, &title(env, rows, model), manifest, env, rows)?;
    let mut entries = legend(manifest, rows, model);
    let named =
        |(letter, setting): (char, &str)| (Sign::Letter(letter), format::clipped(setting, 34));
    entries.extend(codes.each().map(named));
    Ok(draw_legend(pen, &entries)? + 42)
}

/// The title, then the machine with its disk, and the run.
pub(super) fn draw_title(
    pen: &Pen<'_>,
    title: &str,
    manifest: &Manifest,
    env: &Environment,
    rows: &[Row],
) -> anyhow::Result<()> {
    // A question may be longer than fits at the size of most.
    let size = [19, 18, 17, 16].into_iter().find(|size| pen::text_width(title, *size) < RIGHT - 40);
    pen.text(title, (16, 24), Script::left(size.unwrap_or(15), BLACK).bold())?;
    let (machine, run) = subtitle(manifest, env, rows);
    pen.text(&format::clipped(&machine, 135), (16, 47), Script::left(12, GREY))?;
    pen.text(&format::clipped(&run, 135), (16, 64), Script::left(12, GREY))
}

/// Signs with what they mean, in as many lines as they need; answers where the last one stands.
pub(super) fn draw_legend(pen: &Pen<'_>, entries: &[(Sign, String)]) -> anyhow::Result<i32> {
    let (mut x, mut y) = (26, 88);
    for (sign, name) in entries {
        let wide = pen::text_width(name, 12) + 52;
        if x + wide > RIGHT && x > 26 {
            (x, y) = (26, y + 19);
        }
        sign.draw(pen, (x, y))?;
        pen.text(name, (x + 20, y), Script::left(12, BLACK))?;
        x += wide;
    }
    Ok(y)
}

/// What stands before a name in the legend.
pub(super) enum Sign {
    /// Of a figure that is a lower bound.
    AtLeast,
    /// From the smallest to the largest block, upwards.
    Bars,
    Frontier,
    Hatched,
    Hollow,
    /// What stands for a setting beside a mark.
    Letter(char),
    /// From a mark to a bar at the end of its line.
    Level,
    /// A line of its own, of this width.
    Line(Dash, RGBColor, u32),
    Mark(Kind),
    /// A mark of one series among others of a kind.
    Series(Series),
    /// From the smallest to the largest block, across.
    Span,
    /// A part of the plot that is shaded.
    Zone(RGBColor),
}

impl Sign {
    /// Draws it about this place.
    fn draw(&self, pen: &Pen<'_>, at: Pixel) -> anyhow::Result<()> {
        let (x, y) = at;
        match self {
            Self::AtLeast => pen.text("≥", at, Script::centred(14, BLACK)),
            Self::Bars => {
                pen.line(&[(x, y - 6), (x, y + 6)], Dash::Solid, GREY)?;
                pen.line(&[(x - 3, y - 6), (x + 3, y - 6)], Dash::Solid, GREY)?;
                pen.line(&[(x - 3, y + 6), (x + 3, y + 6)], Dash::Solid, GREY)
            }
            Self::Frontier => {
                let stairs = [(x - 8, y + 5), (x, y + 5), (x, y - 5), (x + 9, y - 5)];
                pen.line(&stairs, Dash::Solid, BLACK.mix(0.75).stroke_width(2))
            }
            Self::Hatched => pen.mark_in(Kind::CommitRealtime, GREY, at, Ink::Hatched),
            Self::Hollow => pen.mark(Kind::GroupCommit, at, Ink::Hollow),
            Self::Letter(letter) => {
                pen.text(&letter.to_string(), (x + 8, y), Script::centred(12, BLACK).bold())
            }
            Self::Level => {
                pen.line(&[(x - 9, y), (x + 9, y)], Dash::Solid, GREY)?;
                pen.fill((x - 12, y - 3), (x - 6, y + 3), GREY)?;
                pen.line(&[(x + 9, y - 6), (x + 9, y + 6)], Dash::Solid, GREY.stroke_width(3))
            }
            Self::Line(dash, colour, width) => {
                pen.line(&[(x - 16, y), (x + 16, y)], *dash, colour.stroke_width(*width))
            }
            Self::Mark(kind) => {
                let line = [(x - 16, y), (x + 16, y)];
                pen.line(&line, pen::dash(*kind), pen::colour(*kind).mix(0.6))?;
                pen.mark(*kind, at, Ink::Full)
            }
            Self::Series(series) => {
                let line = [(x - 16, y), (x + 16, y)];
                pen.line(&line, series.dash, series.colour.mix(0.6))?;
                pen.mark_in(series.shape, series.colour, at, Ink::Full)
            }
            Self::Span => {
                pen.line(&[(x - 9, y), (x + 9, y)], Dash::Solid, GREY)?;
                pen.line(&[(x - 9, y - 2), (x - 9, y + 2)], Dash::Solid, GREY)?;
                pen.line(&[(x + 9, y - 2), (x + 9, y + 2)], Dash::Solid, GREY)
            }
            Self::Zone(colour) => pen.fill((x - 12, y - 6), (x + 12, y + 6), *colour),
        }
    }
}

/// One entry for each strategy, then what the other signs mean.
fn legend(manifest: &Manifest, rows: &[Row], model: LossModel) -> Vec<(Sign, String)> {
    let mut entries = strategies(rows);
    if rows.iter().any(|row| row.kind.is_strategy() && row.figures.is_some()) {
        let of = if summary::real(rows).count() < rows.len() { ", of real hardware" } else { "" };
        entries.push((Sign::Frontier, format!("frontier of what was seen whole{of}")));
    }
    entries.extend(hatched(rows.iter().map(|row| row.not_hardware)));
    if let Some(asked) = model.asked_ns(manifest) {
        let most = match asked {
            none if none <= 0.0 => "nothing lost".to_owned(),
            most => format!("at most {} lost", format::duration(most)),
        };
        entries.push((Sign::Line(Dash::Dashed, pen::ASKED, 2), format!("asked: {most}")));
    }
    let invalid = rows.iter().any(|row| row.refused.is_some());
    let overload = rows.iter().any(Row::is_overloaded);
    let states = [(invalid, "invalid"), (overload, "overload")];
    let states: Vec<&str> = states.iter().filter(|(is, _)| *is).map(|(_, word)| *word).collect();
    if !states.is_empty() {
        entries.push((Sign::Hollow, format!("hollow: {}", states.join(", or "))));
    }
    let at_least = |row: &Row| {
        row.figures.is_some_and(|figures| model.loss(&figures).extent == Extent::AtLeast)
    };
    let bound = if rows.iter().any(at_least) { "; ≥: at least, it still grew" } else { "" };
    let ranges = Ranges::of(rows).word();
    entries.push((Sign::Bars, format!("{ranges} over blocks; ×N: producers{bound}")));
    entries
}

/// One entry for each strategy, by the sign of its kind.
pub(super) fn strategies<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Vec<(Sign, String)> {
    named(rows, |row| Sign::Mark(row.kind))
}

/// The entry for marks of disks that are no hardware, if any of these is.
pub(super) fn hatched(disks: impl IntoIterator<Item = NotHardware>) -> Option<(Sign, String)> {
    let words = disks.into_iter().filter_map(NotHardware::word);
    let mut words: Vec<String> = words.map(str::to_lowercase).collect();
    words.sort_unstable();
    words.dedup();
    (!words.is_empty()).then(|| (Sign::Hatched, format!("hatched: {}", words.join(", "))))
}

/// One entry for each strategy, by its own look.
pub(super) fn strategies_as<'a>(
    rows: impl IntoIterator<Item = &'a Row>,
    looks: &Looks<'_>,
) -> Vec<(Sign, String)> {
    named(rows, |row| Sign::Series(looks.look(row)))
}

fn named<'a>(
    rows: impl IntoIterator<Item = &'a Row>,
    sign: impl Fn(&Row) -> Sign,
) -> Vec<(Sign, String)> {
    let mut entries = Vec::new();
    let mut named: Vec<&str> = Vec::new();
    for row in rows {
        if named.contains(&row.strategy.as_str()) || named.len() == LEGEND_MOST {
            continue;
        }
        named.push(&row.strategy);
        let name = format::clipped(&row.strategy, 24);
        let kind = kind_name(row.kind);
        let name = match row.kind {
            Kind::None => format!("{name} (never flushed)"),
            _ if name == kind => name,
            _ => format!("{name} ({kind})"),
        };
        entries.push((sign(row), name));
    }
    entries
}

/// The question of chart C1, with what is to be said before it.
pub(super) fn title(env: &Environment, rows: &[Row], model: LossModel) -> String {
    warning(env, rows, Some(model)) + model.question()
}

/// What is to be said before a title where a disk is not hardware as it is.
///
/// `model` is the crash that the chart is about, if any: a power cut takes all that is in memory,
/// while to `kill -9` memory is as good as a disk.
pub(super) fn warning(env: &Environment, rows: &[Row], model: Option<LossModel>) -> String {
    let in_memory = rows.iter().any(|row| row.not_hardware.in_memory);
    let emulated = rows.iter().any(|row| row.not_hardware.emulated);
    let simulated = rows.iter().any(|row| row.not_hardware.simulated);
    let differ =
        rows.windows(2).any(|pair| pair[0].not_hardware.word() != pair[1].not_hardware.word());
    if differ {
        let kinds = [
            (emulated, "EMULATED"),
            (rows.iter().any(|row| row.not_hardware.word() == Some("in memory")), "IN MEMORY"),
            (simulated, "SIMULATED"),
        ];
        let there = kinds.iter().filter(|(is_there, _)| *is_there).map(|(_, kind)| *kind);
        return format!("SOME DISKS {}: ", there.collect::<Vec<_>>().join(" OR "));
    }
    let in_memory = in_memory || env.disk.in_memory;
    let warning = if in_memory && model == Some(LossModel::Power) {
        "IN MEMORY, a power cut takes all: "
    } else if simulated || env.disk.simulated {
        "SIMULATED DISK: "
    } else if emulated || env.disk.emulated {
        "EMULATED DISK: "
    } else if in_memory && model.is_none() {
        "IN MEMORY: "
    } else {
        ""
    };
    warning.to_owned()
}

/// The machine with its disk, and the run.
fn subtitle(manifest: &Manifest, env: &Environment, rows: &[Row]) -> (String, String) {
    let disk = &env.disk;
    let known = |text: &Option<String>, what: &str| {
        text.as_deref().map_or_else(|| format!("{what} unknown"), |text| format::clipped(text, 60))
    };
    let machine = match env.virtual_machine {
        Some(true) => "virtual machine",
        Some(false) => "bare metal",
        None => "virtual machine or not: unknown",
    };
    let mut device = match (disk.simulated, disk.in_memory) {
        (true, _) => format::clipped(&disk.path, 60),
        (false, true) => "memory".to_owned(),
        (false, false) => known(&disk.device, "device"),
    };
    if env.disks.len() > 1 {
        device = format!("{device} and {} more", env.disks.len() - 1);
    }
    let machine = [
        known(&env.cpu_model, "CPU"),
        format::plural(usize::try_from(env.cores).unwrap_or(usize::MAX), "core"),
        machine.to_owned(),
        device,
        known(&disk.file_system, "file system"),
        known(&disk.write_cache, "write cache"),
    ];
    let run = [
        format!(
            "{}, {} of {} cells",
            verdict::blocks(manifest, rows),
            manifest.cells_done,
            manifest.cells_planned
        ),
        format!("{}, seed {}", Loops::of(rows).words(), manifest.seed),
        format::utc(manifest.started_at_ms),
        format!("flushmark {}", format::clipped(&manifest.origin.version, 20)),
    ];
    (machine.join(" · "), run.join(" · "))
}

/// Names the disks that the sheet has no room for, and the rows that a logarithmic axis has no
/// place for; and says how many marks have no label.
pub(super) fn draw_left_out(
    pen: &Pen<'_>,
    rows: &[Row],
    disks: &[String],
    unlabelled: usize,
) -> anyhow::Result<()> {
    let nothing = |row: &&Row| {
        let figures = [row.figures, row.refused];
        !figures.iter().flatten().any(|figures| drawable(figures.acked_per_s.centre()))
    };
    let names: Vec<String> = rows.iter().filter(nothing).map(Row::label).collect();
    let mut said = Vec::new();
    if !disks.is_empty() {
        said.push(format!("not drawn, no room: {}", choice::named(disks)));
    }
    if !names.is_empty() {
        said.push(format!("not drawn, nothing acknowledged: {}", names.join(", ")));
    }
    if unlabelled > 0 {
        let marks = format::plural(unlabelled, "mark");
        said.push(format!("no room for the labels of {marks}, see the table"));
    }
    let text = said.join("; ");
    pen.text(&format::clipped(&text, 140), (16, HEIGHT - 6), Script::left(11, GREY))
}

/// Entries for strategies in the legend; more would push the plot off the sheet.
const LEGEND_MOST: usize = 12;
