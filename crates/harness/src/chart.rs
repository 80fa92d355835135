//! Chart C1: throughput against what a crash would take, on two logarithmic axes.
//!
//! A logarithmic axis has no 0, and 0 is what synchronous flush is about. So zero exposure has a
//! band of its own at the left, in which every strategy has its column; places within the band
//! mean nothing else. Nothing is interpolated: the frontier is a staircase between measured rows.

mod axis;
mod breakdown;
mod capacity;
mod choice;
pub mod cuts;
mod drawn;
mod exposures;
mod fit;
mod flushes;
mod frame;
#[cfg(test)]
mod golden;
mod head;
mod labels;
mod latency;
mod load;
mod over_time;
mod pen;
mod plot;
mod producers;
mod repeats;

pub use self::drawn::{Drawn, Figure, all};
use self::head::{draw_head, draw_left_out, title};
use self::pen::Pen;
use self::plot::Plot;
use crate::format;
use crate::results::{Cell, Environment, Manifest};
use crate::summary::{self, Extent, Figures, Loss, Row, Stat};

/// Which crash a chart is about.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LossModel {
    /// Chart C1: what no successful sync covers is lost.
    Power,
    /// Chart C1b: what the page cache does not hold is lost.
    Process,
}

impl LossModel {
    /// Both, the one that takes more first.
    pub const ALL: [Self; 2] = [Self::Power, Self::Process];

    /// The chart's question, which is its title.
    pub fn question(self) -> &'static str {
        match self {
            Self::Power => "How many messages per second, and what would a power cut take?",
            Self::Process => "How many messages per second, and what would kill -9 take?",
        }
    }

    /// The name of the chart's file, which also begins every id in it: `c1` or `c1b`.
    pub fn file_stem(self) -> &'static str {
        match self {
            Self::Power => "c1",
            Self::Process => "c1b",
        }
    }

    /// The loss under this crash.
    pub fn loss(self, figures: &Figures) -> Loss {
        match self {
            Self::Power => figures.power,
            Self::Process => figures.process,
        }
    }

    fn axis_title(self) -> &'static str {
        match self {
            Self::Power => {
                "power-cut exposure: age of the oldest message at risk, p99 of time (log)"
            }
            Self::Process => {
                "kill -9 exposure: age of the oldest message at risk, p99 of time (log)"
            }
        }
    }
}

/// The chart of these cells under one kind of crash, as an SVG of 900×560 pixels.
///
/// The same cells give the same bytes, in whatever order they are. Rows without an acknowledged
/// message cannot be drawn on a logarithmic axis; the chart names them.
///
/// # Errors
///
/// If the drawing library fails, which it has no reason to: it writes to a string.
pub fn pareto(
    manifest: &Manifest,
    env: &Environment,
    cells: &[Cell],
    model: LossModel,
) -> anyhow::Result<String> {
    let rows = &summary::rows(cells);
    let points = points(rows, model);
    let mut out = String::new();
    let pen = Pen::new(&mut out)?;
    let top = draw_head(&pen, manifest, env, rows, model)?;
    let plot = Plot::around(&points, top);
    plot.draw_axes(&pen, model)?;
    plot.draw_points(&pen, &points)?;
    draw_left_out(&pen, rows)?;
    pen.finish()?;
    Ok(with_description(
        &out,
        &title(env, rows, model),
        &description(rows, model),
        model.file_stem(),
    ))
}

/// The rows that no other strategy beats on both axes, by ascending exposure.
///
/// Only valid figures of strategies take part: the raw loop is no log, and appends that are never
/// flushed are no strategy. Nor do disks that are not hardware as it is, where there are others.
pub fn frontier(rows: &[Row], model: LossModel) -> Vec<&Row> {
    let place = |row: &Row| {
        row.figures
            .map(|figures| (model.loss(&figures).age_ns.centre(), figures.acked_per_s.centre()))
    };
    let mut candidates: Vec<(&Row, f64, f64)> = summary::real(rows)
        .filter(|row| row.kind.is_strategy() && is_measured(row, model))
        .filter_map(|row| place(row).map(|(age_ns, rate)| (row, age_ns, rate)))
        .filter(|(_, _, rate)| drawable(*rate))
        .collect();
    candidates.sort_by(|a, b| a.1.total_cmp(&b.1).then(b.2.total_cmp(&a.2)));
    let mut best = 0.0;
    candidates.retain(|(_, _, rate)| {
        let better = *rate > best;
        if better {
            best = *rate;
        }
        better
    });
    candidates.into_iter().map(|(row, _, _)| row).collect()
}

/// Whether the row's exposure was seen whole: a lower bound could stand anywhere further right.
fn is_measured(row: &Row, model: LossModel) -> bool {
    row.figures.is_some_and(|figures| model.loss(&figures).extent == Extent::Measured)
}

/// A mark of the chart.
struct Point<'a> {
    row: &'a Row,
    age_ns: Stat,
    rate: Stat,
    hollow: bool,
    /// Its exposure is a lower bound.
    at_least: bool,
    on_frontier: bool,
}

impl Point<'_> {
    fn touches_zero(&self) -> bool {
        self.age_ns.low() <= 0.0
    }

    /// The producers; at a strategy's busiest point also its name, if the sign does not tell it;
    /// and what its disk is, where not all are the same.
    fn label(&self, points: &[Point<'_>]) -> String {
        self.name(points) + &self.mark(points)
    }

    /// ` EMULATED` where the title cannot say it of all.
    fn mark(&self, points: &[Point<'_>]) -> String {
        let what = self.row.not_hardware.word();
        let differs = points.iter().any(|other| other.row.not_hardware.word() != what);
        what.filter(|_| differs).map_or_else(String::new, |what| format!(" {what}"))
    }

    fn name(&self, points: &[Point<'_>]) -> String {
        let name = |row: &Row| (row.strategy.clone(), row.setting.clone());
        let (alike, other): (Vec<&Point<'_>>, Vec<&Point<'_>>) = points
            .iter()
            .filter(|point| point.row.kind == self.row.kind)
            .partition(|point| name(point.row) == name(self.row));
        let busiest = alike.iter().all(|point| point.row.producers <= self.row.producers);
        if busiest && !other.is_empty() {
            format::clipped(&self.row.label(), 28)
        } else {
            format!("×{}{}", self.row.producers, if self.at_least { " ≥" } else { "" })
        }
    }
}

fn points(rows: &[Row], model: LossModel) -> Vec<Point<'_>> {
    let best = frontier(rows, model);
    let on_frontier = |row: &Row| best.iter().any(|other| std::ptr::eq(*other, row));
    let mut points = Vec::new();
    for row in rows {
        for (figures, hollow) in [(row.figures, false), (row.refused, true)] {
            let Some(figures) = figures.filter(|figures| drawable(figures.acked_per_s.centre()))
            else {
                continue;
            };
            points.push(Point {
                row,
                age_ns: model.loss(&figures).age_ns,
                rate: figures.acked_per_s,
                hollow,
                at_least: model.loss(&figures).extent == Extent::AtLeast,
                on_frontier: !hollow && on_frontier(row),
            });
        }
    }
    points
}

/// What the chart shows, in words.
fn description(rows: &[Row], model: LossModel) -> String {
    let mut sentences = vec![format!(
        "Scatter chart on logarithmic axes; across: {}; up: acknowledged messages per second.",
        model.axis_title()
    )];
    for row in rows {
        for (figures, mark) in [(row.figures, ""), (row.refused, " (invalid)")] {
            sentences.extend(figures.map(|figures| {
                format!(
                    "{}{}{mark}: {} msg/s, at risk {}.",
                    row.label(),
                    row.not_hardware.word().map_or_else(String::new, |what| format!(" ({what})")),
                    format::count(figures.acked_per_s.centre()),
                    model.loss(&figures).shown()
                )
            }));
        }
    }
    if rows.is_empty() {
        sentences.push("No cell was finished.".to_owned());
    }
    sentences.join(" ")
}

/// `svg` with a name and a description for those who do not see it; their ids begin with `id`.
fn with_description(svg: &str, title: &str, description: &str, id: &str) -> String {
    let (tag, rest) = svg.split_once('>').expect("the backend opens an svg element");
    format!(
        "{tag} role=\"img\" aria-labelledby=\"{id}-title {id}-desc\">\n\
         <title id=\"{id}-title\">{}</title>\n<desc id=\"{id}-desc\">{}</desc>{rest}",
        format::escaped(title),
        format::escaped(description)
    )
}

fn drawable(rate: f64) -> bool {
    rate.is_finite() && rate > 0.0
}

const HEIGHT: i32 = 560;
const RIGHT: i32 = 876;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Kind, Level, Status};
    use crate::results_fixture::{
        HOSTILE, cell, check, environment, example, extreme, manifest, troubled,
    };

    fn drawn(cells: &[Cell], model: LossModel) -> String {
        pareto(&manifest(), &environment(), cells, model).unwrap()
    }

    /// The texts of an SVG, one to a line.
    fn texts(svg: &str) -> String {
        let bodies = svg.split("<text").skip(1);
        let body = |part: &str| {
            let (_, text) = part.split_once('>').unwrap();
            text.split_once("</text>").unwrap().0.trim().to_owned()
        };
        bodies.map(body).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn the_same_results_give_the_same_bytes() {
        let mut cells = troubled();
        let forward = drawn(&cells, LossModel::Power);
        cells.reverse();
        assert_eq!(drawn(&cells, LossModel::Power), forward);
    }

    #[test]
    fn the_title_is_the_question_and_the_subtitle_the_machine() {
        let texts = texts(&drawn(&example(), LossModel::Power));
        for part in [
            LossModel::Power.question(),
            "2 cores · virtual machine · vda · ext4 · write back",
            "3 blocks (indicative), 39 of 39 cells · closed loop, seed 42 · 2026-03-09 14:05 UTC",
            "sync (group_commit)",
            "raw pwrite+fdatasync, 1 thread: 9.1k/s",
            "\n0\n",
            "×64",
        ] {
            assert!(texts.contains(part), "{part:?} in\n{texts}");
        }
        assert!(!texts.contains("hollow") && !texts.contains("EMULATED"), "{texts}");
    }

    #[test]
    fn a_chart_is_an_image_with_a_name_and_ids_of_its_own() {
        for (model, id) in [(LossModel::Power, "c1"), (LossModel::Process, "c1b")] {
            let svg = drawn(&example(), model);
            let tag = format!("role=\"img\" aria-labelledby=\"{id}-title {id}-desc\">");
            assert!(svg.contains(&tag));
            assert!(svg.contains(&format!("<title id=\"{id}-title\">{}", model.question())));
            assert!(svg.contains("sync ×64: 148k msg/s, at risk 0."));
            assert_eq!(svg.matches(" id=").count(), 2);
        }
    }

    #[test]
    fn an_emulated_disk_stands_in_the_title() {
        let mut env = environment();
        env.disk.emulated = true;
        let svg = pareto(&manifest(), &env, &example(), LossModel::Power).unwrap();
        assert!(texts(&svg).starts_with("EMULATED DISK: How many"));
    }

    /// The same on a disk, an emulated disk, and in memory; faster from one to the next.
    fn three_disks() -> Vec<Cell> {
        let on = |disk: &'static str, faster: f64| {
            let edit = move |c: &mut Cell| {
                disk.clone_into(&mut c.disk);
                (c.emulated, c.acked_per_s) = (disk == "hdd", c.acked_per_s * faster);
                if disk == "tmpfs" {
                    c.validity.push(check("in_memory", Level::Label, "tmpfs", "on a disk"));
                }
            };
            [cell(Kind::Raw, 1, 0, edit), cell(Kind::GroupCommit, 8, 0, edit)]
        };
        [on("host", 1.0), on("hdd", 3.0), on("tmpfs", 9.0)].concat()
    }

    #[test]
    fn only_real_hardware_is_on_the_frontier_where_there_is_any() {
        let on_frontier = |cells: &[Cell]| -> Vec<String> {
            let rows = summary::rows(cells);
            frontier(&rows, LossModel::Process).iter().map(|row| row.disk.clone()).collect()
        };
        assert_eq!(on_frontier(&three_disks()), ["host"]);
        assert_eq!(on_frontier(&three_disks()[2..4]), ["hdd"], "it is all there is");
    }

    #[test]
    fn points_say_what_their_disk_is_where_not_all_are_the_same() {
        let mixed = texts(&drawn(&three_disks(), LossModel::Process));
        for part in [
            "SOME DISKS EMULATED OR IN MEMORY: How many",
            "\nsync ×8 (hdd) EMULATED",
            "\nsync ×8 (tmpfs) in memory",
            "1 thread, hdd EMULATED:",
            "frontier of what was seen whole, of real hardware",
        ] {
            assert!(mixed.contains(part), "{part:?} in\n{mixed}");
        }
        assert!(!mixed.contains("(host) ") && !mixed.contains("host EMULATED"), "{mixed}");
        let emulated = texts(&drawn(&three_disks()[2..4], LossModel::Process));
        assert!(emulated.starts_with("EMULATED DISK: How many"), "{emulated}");
        assert_eq!(emulated.matches("EMULATED").count(), 1, "{emulated}");
        let with_memory = [&three_disks()[..2], &three_disks()[4..]].concat();
        let power = texts(&drawn(&with_memory, LossModel::Power));
        assert!(power.starts_with("SOME DISKS IN MEMORY: How many"), "{power}");
    }

    #[test]
    fn invalid_rows_are_hollow_and_never_on_the_frontier() {
        let rows = summary::rows(&troubled());
        assert!(texts(&drawn(&troubled(), LossModel::Power)).contains("hollow: invalid"));
        let best: Vec<String> =
            frontier(&rows, LossModel::Power).iter().map(|row| row.label()).collect();
        assert_eq!(best, ["sync ×64", "timed ×64", "staged ×64"]);
        let only_invalid = [cell(Kind::GroupCommit, 1, 0, |c| {
            c.status = Status::Invalid;
        })];
        assert!(frontier(&summary::rows(&only_invalid), LossModel::Power).is_empty());
    }

    #[test]
    fn a_row_that_another_beats_on_both_axes_is_not_on_the_frontier() {
        let rows = summary::rows(&example());
        let best: Vec<String> =
            frontier(&rows, LossModel::Process).iter().map(|row| row.label()).collect();
        assert_eq!(best, ["timed ×64", "staged ×64"]);
    }

    #[test]
    fn a_strategy_that_the_sign_does_not_tell_is_named_at_its_points() {
        let other = cell(Kind::FlushRealtime, 8, 0, |c| {
            c.strategy = "timed-50ms".to_owned();
        });
        let cells = [cell(Kind::FlushRealtime, 8, 0, |_| {}), other];
        let texts = texts(&drawn(&cells, LossModel::Power));
        assert!(texts.contains("\ntimed ×8") && texts.contains("\ntimed-50ms ×8"), "{texts}");
    }

    #[test]
    fn what_has_no_place_on_the_axes_is_named() {
        let cells = [cell(Kind::GroupCommit, 8, 0, |c| c.acked_per_s = 0.0)];
        let texts = texts(&drawn(&cells, LossModel::Power));
        assert!(texts.contains("not drawn, nothing acknowledged: sync ×8"), "{texts}");
    }

    #[test]
    fn without_cells_the_chart_says_so() {
        assert!(texts(&drawn(&[], LossModel::Power)).contains("no cell was finished"));
    }

    #[test]
    fn extremes_stay_on_the_sheet() {
        for model in [LossModel::Power, LossModel::Process] {
            let svg = drawn(&extreme(), model);
            for name in ["x", "y", "cx", "cy", "x1", "y1"] {
                for part in svg.split(&format!(" {name}=\"")).skip(1) {
                    let (number, _) = part.split_once('"').unwrap();
                    let number: i32 = number.parse().unwrap();
                    assert!((0..=900).contains(&number), "{name}={number}");
                }
            }
        }
    }

    #[test]
    fn no_string_leaves_its_place() {
        let mut env = environment();
        env.cpu_model = Some(HOSTILE.to_owned());
        let cells = [cell(Kind::GroupCommit, 8, 0, |c| {
            c.strategy = HOSTILE.to_owned();
        })];
        let svg = pareto(&manifest(), &env, &cells, LossModel::Power).unwrap();
        assert!(!svg.contains("<script") && !svg.contains("<b "), "{svg}");
        assert!(!svg.contains('\u{1b}') && !svg.contains('\0'), "{svg}");
    }
}
