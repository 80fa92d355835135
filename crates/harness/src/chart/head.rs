//! What stands around a plot: title, machine and run, legend, what was left out.

use plotters::style::{Color, RGBColor};

use super::pen::{self, BLACK, Dash, GREY, PALE, Pen, Pixel, Script};
use super::{HEIGHT, LossModel, RIGHT, drawable, is_strategy};
use crate::format;
use crate::results::{Environment, Kind, Manifest};
use crate::summary::{self, Extent, Loops, Row, kind_name};
use crate::verdict::{self, Ranges};

/// Title, subtitle and legend; answers where the plot can begin.
pub(super) fn draw_head(
    pen: &Pen<'_>,
    manifest: &Manifest,
    env: &Environment,
    rows: &[Row],
    model: LossModel,
) -> anyhow::Result<i32> {
    draw_titles(pen, &title(env, rows, model), manifest, env, rows)?;
    draw_legend(pen, &legend(rows, model))
}

/// Title and subtitle.
pub(super) fn draw_titles(
    pen: &Pen<'_>,
    title: &str,
    manifest: &Manifest,
    env: &Environment,
    rows: &[Row],
) -> anyhow::Result<()> {
    let heading = Script::left(19, BLACK).bold();
    pen.text(title, (16, 24), heading)?;
    let (machine, run) = subtitle(manifest, env, rows);
    pen.text(&format::clipped(&machine, 135), (16, 47), Script::left(12, GREY))?;
    pen.text(&format::clipped(&run, 135), (16, 64), Script::left(12, GREY))
}

/// The legend below the titles; answers where the plot can begin.
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
    Ok(y + 42)
}

/// What stands before a name in the legend.
pub(super) enum Sign {
    AtLeast,
    Bars,
    Frontier,
    Hollow,
    Level,
    Line(Dash, RGBColor),
    Mark(Kind),
    Shade,
    Span,
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
            Self::Hollow => pen.mark(Kind::GroupCommit, at, true),
            Self::Mark(kind) => {
                let line = [(x - 16, y), (x + 16, y)];
                pen.line(&line, pen::dash(*kind), pen::colour(*kind).mix(0.6))?;
                pen.mark(*kind, at, false)
            }
            Self::Level => {
                pen.line(&[(x - 9, y), (x + 9, y)], Dash::Solid, GREY)?;
                pen.fill((x - 12, y - 3), (x - 6, y + 3), GREY)?;
                pen.line(&[(x + 9, y - 6), (x + 9, y + 6)], Dash::Solid, GREY.stroke_width(3))
            }
            Self::Line(dash, colour) => {
                let line = [(x - 16, y), (x + 16, y)];
                pen.line(&line, *dash, colour.stroke_width(2))
            }
            Self::Shade => pen.fill((x - 12, y - 6), (x + 12, y + 6), PALE),
            Self::Span => {
                pen.line(&[(x - 9, y), (x + 9, y)], Dash::Solid, GREY)?;
                pen.line(&[(x - 9, y - 2), (x - 9, y + 2)], Dash::Solid, GREY)?;
                pen.line(&[(x + 9, y - 2), (x + 9, y + 2)], Dash::Solid, GREY)
            }
        }
    }
}

/// One entry for each strategy.
pub(super) fn strategies(rows: &[Row]) -> Vec<(Sign, String)> {
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
        entries.push((Sign::Mark(row.kind), name));
    }
    entries
}

/// The strategies, then what the other signs mean.
fn legend(rows: &[Row], model: LossModel) -> Vec<(Sign, String)> {
    let mut entries = strategies(rows);
    if rows.iter().any(|row| is_strategy(row.kind) && row.figures.is_some()) {
        let of = if summary::real(rows).count() < rows.len() { ", of real hardware" } else { "" };
        entries.push((Sign::Frontier, format!("frontier of what was seen whole{of}")));
    }
    if rows.iter().any(|row| row.refused.is_some()) {
        entries.push((Sign::Hollow, "hollow: invalid".to_owned()));
    }
    let at_least = |row: &Row| {
        row.figures.is_some_and(|figures| model.loss(&figures).extent == Extent::AtLeast)
    };
    let bound = if rows.iter().any(at_least) { "; ≥: at least, it still grew" } else { "" };
    let ranges = Ranges::of(rows).word();
    entries.push((Sign::Bars, format!("{ranges} over blocks; ×N: producers{bound}")));
    entries
}

/// The question of chart C1, with a warning before it where a disk is none.
pub(super) fn title(env: &Environment, rows: &[Row], model: LossModel) -> String {
    warned(env, rows, model.question(), model == LossModel::Power)
}

/// A chart's question, with a warning before it where a disk is none; `is_power` if it is about
/// what a power cut takes.
pub(super) fn warned(env: &Environment, rows: &[Row], question: &str, is_power: bool) -> String {
    let in_memory = rows.iter().any(|row| row.not_hardware.in_memory);
    let emulated = rows.iter().any(|row| row.not_hardware.emulated);
    let simulated = rows.iter().any(|row| row.not_hardware.simulated);
    let differ =
        rows.windows(2).any(|pair| pair[0].not_hardware.word() != pair[1].not_hardware.word());
    let warning = if differ {
        let kinds = [
            (emulated, "EMULATED"),
            (rows.iter().any(|row| row.not_hardware.word() == Some("in memory")), "IN MEMORY"),
            (simulated, "SIMULATED"),
        ];
        let there = kinds.iter().filter(|(is_there, _)| *is_there).map(|(_, kind)| *kind);
        &format!("SOME DISKS {}: ", there.collect::<Vec<_>>().join(" OR "))
    } else if is_power && (in_memory || env.disk.in_memory) {
        "IN MEMORY, a power cut takes all: "
    } else if simulated || env.disk.simulated {
        "SIMULATED DISK: "
    } else if emulated || env.disk.emulated {
        "EMULATED DISK: "
    } else {
        ""
    };
    format!("{warning}{question}")
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

/// Names the rows that a logarithmic axis has no place for.
pub(super) fn draw_left_out(pen: &Pen<'_>, rows: &[Row]) -> anyhow::Result<()> {
    let nothing = |row: &&Row| {
        let figures = [row.figures, row.refused];
        !figures.iter().flatten().any(|figures| drawable(figures.acked_per_s.centre()))
    };
    let names: Vec<String> = rows.iter().filter(nothing).map(Row::label).collect();
    if names.is_empty() {
        return Ok(());
    }
    let text = format!("not drawn, nothing acknowledged: {}", names.join(", "));
    pen.text(&format::clipped(&text, 140), (16, HEIGHT - 6), Script::left(11, GREY))
}

/// Entries for strategies in the legend; more would push the plot off the sheet.
const LEGEND_MOST: usize = 12;
