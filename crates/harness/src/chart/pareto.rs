//! Chart C1: throughput against what a crash would take, on two logarithmic axes.
//!
//! A logarithmic axis has no 0, and 0 is what synchronous flush is about. So zero exposure has a
//! band of its own at the left, in which every strategy has its column; places within the band
//! mean nothing else. Nothing is interpolated: the frontier is a staircase between measured rows.
//!
//! Each disk has a panel of its own, with the same axes: what one strategy reaches on one disk and
//! another on another disk is no choice that anybody has.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::choice;
use super::frame::Frame;
use super::head::{draw_head, draw_left_out, title};
use super::pen::{BLACK, Pen, Script};
use super::plot::{LEFT, Plot};
use super::{HEIGHT, LossModel, RIGHT, drawable, with_description};
use crate::format;
use crate::results::{Cell, Environment, Manifest};
use crate::summary::{self, Extent, Row, Stat};

/// The chart of these cells under one kind of crash, as an SVG of 900×560 pixels.
///
/// The same cells give the same bytes, in whatever order they are. Rows without an acknowledged
/// message cannot be drawn on a logarithmic axis, and there is room for a few disks; the chart
/// names those that it does not show.
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
    let disks = disks(cells, rows);
    let (shown, rest) = disks.split_at(disks.len().min(PANELS));
    let mut out = String::new();
    let pen = Pen::new(&mut out)?;
    let codes = Codes::of(shown);
    let top = draw_head(&pen, manifest, env, rows, model, &codes)?;
    let about = About { model, asked_ns: model.asked_ns(manifest), codes: &codes };
    let unlabelled = match shown {
        [] => draw_whole(&pen, &[], top, about)?,
        [only] => draw_whole(&pen, &only.points(model), top, about)?,
        several => draw_panels(&pen, several, top, about)?,
    };
    let rest: Vec<String> = rest.iter().map(Disk::heading).collect();
    draw_left_out(&pen, rows, &rest, unlabelled)?;
    pen.finish()?;
    Ok(with_description(
        &out,
        &title(env, rows, model),
        &description(rows, &disks, model),
        model.file_stem(),
    ))
}

/// The plot of one disk, over the whole sheet; answers how many marks have no label.
fn draw_whole(
    pen: &Pen<'_>,
    points: &[Point<'_>],
    top: i32,
    about: About<'_>,
) -> anyhow::Result<usize> {
    let (has_left, has_below) = (false, false);
    let frame = Frame { left: LEFT, right: RIGHT, top, bottom: HEIGHT - 58, has_left, has_below };
    let plot = Plot::within(frame, points, about.asked_ns);
    plot.draw_axes(pen)?;
    plot.draw_titles(pen, about.model)?;
    plot.draw_points(pen, points, about.codes)
}

/// A plot for each disk, all with the same axes; answers the same.
fn draw_panels(pen: &Pen<'_>, disks: &[Disk], top: i32, about: About<'_>) -> anyhow::Result<usize> {
    let About { model, asked_ns, codes } = about;
    let points: Vec<Vec<Point<'_>>> = disks.iter().map(|disk| disk.points(model)).collect();
    let middle = i32::midpoint(LEFT, RIGHT);
    pen.text(Plot::UP, (16, top - 20), Script::left(12, BLACK))?;
    pen.text(model.axis_title(), (middle, HEIGHT - 21), Script::centred(12, BLACK))?;
    let frames = Frame::several(disks.len(), top - 10, HEIGHT - 24);
    let mut unlabelled = 0;
    for ((frame, disk), own) in frames.into_iter().zip(disks).zip(&points) {
        let plot = Plot::within(frame, points.iter().flatten(), asked_ns);
        frame.heading(pen, &disk.heading())?;
        plot.draw_axes(pen)?;
        unlabelled += plot.draw_points(pen, own, codes)?;
    }
    Ok(unlabelled)
}

/// Which crash, and how old what it takes may be, if the profile asks.
#[derive(Clone, Copy)]
struct About<'a> {
    model: LossModel,
    asked_ns: Option<f64>,
    codes: &'a Codes,
}

/// Letters for settings, which have no room beside a mark.
pub(super) struct Codes(Vec<String>);

impl Codes {
    /// Of what is set differently on these disks; none if that is nothing, or too much.
    fn of(disks: &[Disk]) -> Self {
        let mut settings: Vec<String> = Vec::new();
        for row in disks.iter().flat_map(|disk| &disk.rows) {
            // A disk may have but one.
            if !row.setting.is_empty() && !settings.contains(&row.setting) {
                settings.push(row.setting.clone());
            }
        }
        Self(if settings.len() <= MOST_CODES { settings } else { Vec::new() })
    }

    /// Each with its letter.
    pub(super) fn each(&self) -> impl Iterator<Item = (char, &str)> {
        ('a'..='z').zip(self.0.iter().map(String::as_str))
    }

    fn letter(&self, setting: &str) -> Option<char> {
        self.each().find(|(_, of)| *of == setting).map(|(letter, _)| letter)
    }
}

/// A disk with its rows, whose settings do not name it.
struct Disk {
    name: String,
    rows: Vec<Row>,
    /// Whether it is hardware as it is, or there is none that is.
    counts: bool,
}

impl Disk {
    /// `hdd EMULATED`.
    fn heading(&self) -> String {
        let what = self.what().map_or_else(String::new, |what| format!(" {what}"));
        format::clipped(&self.name, 24) + &what
    }

    /// What it is, if not hardware.
    fn what(&self) -> Option<&'static str> {
        self.rows.iter().find_map(|row| row.not_hardware.word())
    }

    fn points(&self, model: LossModel) -> Vec<Point<'_>> {
        let best = if self.counts { frontier(&self.rows, model) } else { Vec::new() };
        points(&self.rows, &best, model)
    }
}

/// The disks of these rows: real hardware first, then those with most rows, then by name.
fn disks(cells: &[Cell], rows: &[Row]) -> Vec<Disk> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for row in rows {
        *counts.entry(&row.disk).or_default() += 1;
    }
    let disk = |(name, count): (&str, usize)| {
        let cells: Vec<Cell> = cells.iter().filter(|cell| cell.disk == name).cloned().collect();
        let rows = summary::rows(&cells);
        (count, Disk { name: name.to_owned(), rows, counts: true })
    };
    let mut disks: Vec<(usize, Disk)> = counts.into_iter().map(disk).collect();
    disks.sort_by_key(|(count, disk)| (disk.what().is_some(), Reverse(*count), disk.name.clone()));
    let has_real = disks.iter().any(|(_, disk)| disk.what().is_none());
    let mut disks: Vec<Disk> = disks.into_iter().map(|(_, disk)| disk).collect();
    for disk in &mut disks {
        disk.counts = !has_real || disk.what().is_none();
    }
    disks
}

/// The rows that no other strategy on the same disk beats on both axes, by disk and ascending
/// exposure.
///
/// Only valid figures of strategies take part: the raw loop is no log, and appends that are never
/// flushed are no strategy. Nor do rows in overload, whose rate is what they fell behind at, nor
/// disks that are not hardware as it is, where there are others.
pub fn frontier(rows: &[Row], model: LossModel) -> Vec<&Row> {
    let place = |row: &Row| {
        row.figures
            .map(|figures| (model.loss(&figures).age_ns.centre(), figures.acked_per_s.centre()))
    };
    let mut candidates: Vec<(&Row, f64, f64)> = summary::real(rows)
        .filter(|row| row.kind.is_strategy() && !row.is_overloaded() && is_measured(row, model))
        .filter_map(|row| place(row).map(|(age_ns, rate)| (row, age_ns, rate)))
        .filter(|(_, _, rate)| drawable(*rate))
        .collect();
    let by_place = |a: &(&Row, f64, f64), b: &(&Row, f64, f64)| {
        a.0.disk.cmp(&b.0.disk).then(a.1.total_cmp(&b.1)).then(b.2.total_cmp(&a.2))
    };
    candidates.sort_by(by_place);
    let mut best: BTreeMap<&str, f64> = BTreeMap::new();
    candidates.retain(|(row, _, rate)| {
        let best = best.entry(&row.disk).or_default();
        let better = *rate > *best;
        *best = best.max(*rate);
        better
    });
    candidates.into_iter().map(|(row, _, _)| row).collect()
}

/// Whether the row's exposure was seen whole: a lower bound could stand anywhere further right.
fn is_measured(row: &Row, model: LossModel) -> bool {
    row.figures.is_some_and(|figures| model.loss(&figures).extent == Extent::Measured)
}

/// A mark of the chart.
pub(super) struct Point<'a> {
    pub(super) row: &'a Row,
    pub(super) age_ns: Stat,
    pub(super) rate: Stat,
    /// It is invalid, or in overload.
    pub(super) hollow: bool,
    /// Its exposure is a lower bound.
    pub(super) at_least: bool,
    pub(super) on_frontier: bool,
}

impl Point<'_> {
    pub(super) fn touches_zero(&self) -> bool {
        self.age_ns.low() <= 0.0
    }

    /// The producers; at a strategy's busiest point also its name, if the sign does not tell it,
    /// and its setting, by letter where it has one.
    pub(super) fn label(&self, points: &[Point<'_>], codes: &Codes) -> String {
        let name = |row: &Row| (row.strategy.clone(), row.setting.clone());
        let (alike, other): (Vec<&Point<'_>>, Vec<&Point<'_>>) = points
            .iter()
            .filter(|point| point.row.kind == self.row.kind)
            .partition(|point| name(point.row) == name(self.row));
        let bound = if self.at_least { " ≥" } else { "" };
        let busiest = alike.iter().all(|point| point.row.producers <= self.row.producers);
        let Row { strategy, producers, setting, .. } = self.row;
        if let Some(letter) = codes.letter(setting).filter(|_| busiest) {
            let is_twin = |point: &&Point<'_>| point.row.strategy != *strategy;
            let has_twin = other.iter().copied().any(|point| is_twin(&point));
            let name = if has_twin { format::clipped(strategy, 20) + " " } else { String::new() };
            format!("{name}×{producers} {letter}{bound}")
        } else if busiest && !other.is_empty() {
            format::clipped(&self.row.label(), 28) + bound
        } else {
            format!("×{}{bound}", self.row.producers)
        }
    }
}

fn points<'a>(rows: &'a [Row], best: &[&Row], model: LossModel) -> Vec<Point<'a>> {
    let on_frontier = |row: &Row| best.iter().any(|other| std::ptr::eq(*other, row));
    let mut points = Vec::new();
    for row in rows {
        for (figures, hollow) in [(row.figures, row.is_overloaded()), (row.refused, true)] {
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
fn description(rows: &[Row], disks: &[Disk], model: LossModel) -> String {
    let mut sentences = vec![format!(
        "Scatter chart on logarithmic axes; across: {}; up: acknowledged messages per second.",
        model.axis_title()
    )];
    if disks.len() > 1 {
        let names: Vec<String> = disks.iter().take(PANELS).map(Disk::heading).collect();
        sentences.push(format!("A panel for each disk: {}.", choice::named(&names)));
    }
    for row in rows {
        let state = if row.is_overloaded() { " (overload)" } else { "" };
        for (figures, mark) in [(row.figures, state), (row.refused, " (invalid)")] {
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

/// Settings that a legend has room for.
const MOST_CODES: usize = 20;
/// Disks that a sheet has room for.
const PANELS: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Kind;
    use crate::results::{Level, Status};
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
    fn settings_are_letters_beside_marks_and_told_in_the_legend() {
        let mut cells = example();
        let other = example().into_iter().map(|mut cell| {
            cell.sysctl = "small".to_owned();
            cell
        });
        cells.extend(other);
        let told = texts(&drawn(&cells, LossModel::Power));
        for part in ["\na\n", "\nkernel-default\n", "\nb\n", "\nsmall\n", "×64 a", "×64 b"] {
            assert!(told.contains(part), "{part:?} in\n{told}");
        }
        assert!(!told.contains("sync ×64 (small)"), "{told}");
        let plain = texts(&drawn(&example(), LossModel::Power));
        assert!(!plain.contains("×64 a"), "{plain}");
        // Another disk has but one, and it needs no letter.
        let only = example().into_iter().map(|mut cell| {
            cell.disk = "other".to_owned();
            cell
        });
        cells.extend(only);
        let told = texts(&drawn(&cells, LossModel::Power));
        assert!(told.contains("\nb\n") && !told.contains("\nc\n"), "{told}");
        // More than a legend has room for are written out.
        let many: Vec<Cell> = (0..21)
            .flat_map(|nth| {
                example().into_iter().map(move |mut cell| {
                    cell.sysctl = format!("small-{nth}");
                    cell
                })
            })
            .collect();
        assert!(!texts(&drawn(&many, LossModel::Power)).contains("×64 a"));
    }

    #[test]
    fn what_is_asked_is_a_line_of_the_chart_about_power() {
        let asks = |ms: u64, model| {
            let power_loss_rpo = Some(std::time::Duration::from_millis(ms));
            let slo = Some(crate::profile::Slo { ack_p99: None, power_loss_rpo });
            let asking = Manifest { slo, ..manifest() };
            pareto(&asking, &environment(), &example(), model).unwrap()
        };
        let plain = drawn(&example(), LossModel::Power);
        assert!(!plain.contains("asked: "), "{plain}");
        let second = asks(1000, LossModel::Power);
        assert!(texts(&second).contains("asked: at most 1.0 s lost"), "{second}");
        assert!(texts(&asks(0, LossModel::Power)).contains("asked: nothing lost"));
        // A limit beyond all that was measured is on the axis all the same.
        assert!(texts(&asks(3_600_000, LossModel::Power)).contains("17 min"));
        assert_eq!(asks(1000, LossModel::Process), drawn(&example(), LossModel::Process));
    }

    #[test]
    fn what_fell_behind_is_hollow_and_on_no_frontier() {
        let mut cells = vec![cell(Kind::GroupCommit, 8, 0, |_| {})];
        let labels = |cells: &[Cell]| -> Vec<String> {
            let rows = summary::rows(cells);
            frontier(&rows, LossModel::Power).into_iter().map(Row::label).collect()
        };
        cells.push(cell(Kind::GroupCommit, 64, 0, |c| c.acked_per_s *= 10.0));
        assert_eq!(labels(&cells), ["sync ×64"]);
        cells[1].status = Status::Overload;
        assert_eq!(labels(&cells), ["sync ×8"]);
        let svg = drawn(&cells, LossModel::Power);
        assert!(texts(&svg).contains("hollow: overload"), "{svg}");
        assert!(svg.contains("sync ×64 (overload): "), "{svg}");
        cells[0].status = Status::Invalid;
        let told = texts(&drawn(&cells, LossModel::Power));
        assert!(told.contains("hollow: invalid, or overload"), "{told}");
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
    fn each_disk_has_a_panel_that_says_what_it_is() {
        let mixed = drawn(&three_disks(), LossModel::Process);
        let told = texts(&mixed);
        for part in [
            "SOME DISKS EMULATED OR IN MEMORY: How many",
            "\nhost\n",
            "\nhdd EMULATED\n",
            "\ntmpfs in memory\n",
            "frontier of what was seen whole, of real hardware",
        ] {
            assert!(told.contains(part), "{part:?} in\n{told}");
        }
        assert_eq!(told.matches("\n×8").count(), 3, "no label repeats its disk: {told}");
        assert_eq!(told.matches("\nraw: ").count(), 3, "{told}");
        let panels = "A panel for each disk: host, hdd EMULATED, tmpfs in memory.";
        assert!(mixed.contains(panels), "{mixed}");
        let emulated = texts(&drawn(&three_disks()[2..4], LossModel::Process));
        assert!(emulated.starts_with("EMULATED DISK: How many"), "{emulated}");
        assert_eq!(emulated.matches("EMULATED").count(), 1, "{emulated}");
        let with_memory = [&three_disks()[..2], &three_disks()[4..]].concat();
        let power = texts(&drawn(&with_memory, LossModel::Power));
        assert!(power.starts_with("SOME DISKS IN MEMORY: How many"), "{power}");
    }

    /// Group commit and timed flush on disks of these names, each faster than the one before.
    fn real_disks(names: &[&str]) -> Vec<Cell> {
        let mut cells = Vec::new();
        for (nth, name) in (0..).zip(names) {
            for kind in [Kind::Raw, Kind::GroupCommit, Kind::FlushRealtime] {
                cells.push(cell(kind, 8, 0, |c| {
                    (*name).clone_into(&mut c.disk);
                    c.acked_per_s *= 10_f64.powi(nth);
                }));
            }
        }
        cells
    }

    #[test]
    fn disks_are_no_choice_between_rows() {
        let cells = real_disks(&["b", "a"]);
        let rows = summary::rows(&cells);
        let best: Vec<String> =
            frontier(&rows, LossModel::Power).iter().map(|row| row.label()).collect();
        // What is ten times as fast on a beats nothing on b.
        assert_eq!(best, ["sync ×8 (a)", "timed ×8 (a)", "sync ×8 (b)", "timed ×8 (b)"]);
        let svg = drawn(&cells, LossModel::Power);
        let stairs = |svg: &str| svg.matches("stroke-width=\"2\"").count();
        assert_eq!(stairs(&svg), 1 + 2, "one in the legend, and one in each panel: {svg}");
        let emulated = [&cells[..3], &three_disks()[2..4]].concat();
        assert_eq!(stairs(&drawn(&emulated, LossModel::Power)), 1 + 1, "none of what is no disk");
    }

    #[test]
    fn disks_that_the_sheet_has_no_room_for_are_named() {
        let found = |names: &[&str]| texts(&drawn(&real_disks(names), LossModel::Power));
        let four = found(&["a", "b", "c", "d"]);
        assert!(!four.contains("not drawn") && four.contains("\nd\n"), "{four}");
        let mut cells = real_disks(&["a", "b", "c", "d", "e", "f"]);
        // Those with most rows are drawn.
        cells.push(cell(Kind::GroupCommit, 1, 0, |c| c.disk = "f".to_owned()));
        let six = texts(&drawn(&cells, LossModel::Power));
        assert!(six.contains("\nnot drawn, no room: d, e"), "{six}");
        for name in ["\na\n", "\nb\n", "\nc\n", "\nf\n"] {
            assert!(six.contains(name), "{name:?} in {six}");
        }
    }

    #[test]
    fn labels_without_room_are_counted_and_the_frontier_keeps_its_own() {
        assert!(!texts(&drawn(&example(), LossModel::Power)).contains("no room"));
        let settings = |nth: u32| {
            cell(Kind::FlushRealtime, 8, 0, |c| {
                c.sysctl = format!("setting-{nth}");
                c.acked_per_s *= 1.0 + f64::from(nth) / 1e4;
            })
        };
        let many: Vec<Cell> = (10..50).map(settings).collect();
        let told = texts(&drawn(&many, LossModel::Power));
        let shown = told.matches("timed ×8 (setting-").count();
        assert!((1..20).contains(&shown), "{told}");
        let left_out = format!("no room for the labels of {} marks, see the table", 40 - shown);
        assert!(told.contains(&left_out), "{told}");
        assert!(told.contains("timed ×8 (setting-49)"), "it is the frontier: {told}");
    }

    #[test]
    fn panels_have_the_same_axes() {
        // The disk is ten times as fast: on an axis of its own the marks would be at one height.
        let svg = drawn(&real_disks(&["a", "b"]), LossModel::Power);
        let middles = svg.split("<circle cx=\"").skip(1).map(|part| {
            let (_, rest) = part.split_once(" cy=\"").unwrap();
            rest.split_once('"').unwrap().0.parse::<i32>().unwrap()
        });
        // The first is the sign of the legend.
        let heights: Vec<i32> = middles.skip(1).collect();
        assert_eq!(heights.len(), 2, "{heights:?}");
        assert!(heights[0] - heights[1] > 50, "{heights:?}");
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
    fn the_raw_loops_of_many_settings_have_one_label_with_their_range() {
        let raw = |rate: f64, sysctl: &'static str, emulated: bool| {
            cell(Kind::Raw, 1, 0, |c| {
                (c.acked_per_s, c.emulated) = (rate, emulated);
                (c.sysctl, c.cell) = (sysctl.to_owned(), format!("raw/{sysctl}/{emulated}"));
                c.disk = if emulated { "hdd" } else { "data" }.to_owned();
            })
        };
        let real = [raw(6_300.0, "b", false), raw(5_200.0, "a", false), raw(5_900.0, "c", false)];
        let labels = |cells: &[Cell]| -> Vec<String> {
            let found = texts(&drawn(cells, LossModel::Power));
            found.lines().filter(|line| line.ends_with("/s")).map(str::to_owned).collect()
        };
        assert_eq!(labels(&real), ["raw pwrite+fdatasync, 1 thread: 5.2k–6.3k/s"]);
        assert_eq!(labels(&real[..1]), ["raw pwrite+fdatasync, 1 thread: 6.3k/s"]);
        let emulated = [raw(90.0, "a", true), raw(91.0, "b", true)];
        let both = ["raw: 5.2k–6.3k/s", "raw: 90–91/s"];
        assert_eq!(labels(&[&real[..], &emulated].concat()), both, "in a panel each");
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
        let mut many = Vec::new();
        for nth in 0..12 {
            many.extend(extreme().into_iter().map(|mut cell| {
                cell.disk = format!("{nth}{HOSTILE}");
                cell
            }));
        }
        let one = extreme();
        let shown = LossModel::ALL.into_iter().flat_map(|model| [(model, &one), (model, &many)]);
        for (model, cells) in shown {
            let svg = drawn(cells, model);
            assert!(!svg.contains("<script") && !svg.contains('\u{1b}'), "{svg}");
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
