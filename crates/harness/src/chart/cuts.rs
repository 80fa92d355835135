//! The chart of power cuts: for each case, what cuts took against what the log said was at risk.
//!
//! Both are shown as cumulative shares, of cuts and of time, on a linear axis from 0. Where the
//! gauge is right the two lines lie on each other.

use plotters::style::Color;

use super::axis::Linear;
use super::pen::{self, BLACK, Dash, GREY, PALE, Pen, Pixel, Script};
use super::{HEIGHT, RIGHT, with_description};
use crate::clock::float;
use crate::format;
use crate::powercut::results::{Case, PowerCuts};
use crate::powercut::words;
use crate::results::Environment;

/// The chart of a run, whole or not, as an SVG of 900×560 pixels.
///
/// The same results give the same bytes. Of more than eight cases the rest is named.
///
/// # Errors
///
/// If the drawing library fails, which it has no reason to: it writes to a string.
pub fn losses(run: &PowerCuts, env: &Environment) -> anyhow::Result<String> {
    let mut out = String::new();
    let pen = Pen::new(&mut out)?;
    draw_head(&pen, run, env)?;
    let drawn = &run.cases[..run.cases.len().min(MOST)];
    for (panel, case) in panels(drawn.len()).into_iter().zip(drawn) {
        panel.draw(&pen, case)?;
    }
    if drawn.is_empty() {
        let text = "no cut was made: there is nothing to draw";
        pen.text(text, (RIGHT / 2, HEIGHT / 2), Script::centred(14, GREY))?;
    }
    draw_left_out(&pen, &run.cases[drawn.len()..])?;
    pen.finish()?;
    Ok(with_description(&out, &title(run), &description(run), "cuts"))
}

/// The chart's question, after what the disk is.
fn title(run: &PowerCuts) -> String {
    format!("{} DISK: {QUESTION}", run.place.kind.label())
}

const QUESTION: &str = "Does a power cut take what the log says is at risk?";

fn draw_head(pen: &Pen<'_>, run: &PowerCuts, env: &Environment) -> anyhow::Result<()> {
    pen.text(&title(run), (16, 24), Script::left(19, BLACK).bold())?;
    let machine = match env.virtual_machine {
        Some(true) => "virtual machine",
        Some(false) => "bare metal",
        None => "virtual machine or not: unknown",
    };
    let cores = usize::try_from(env.cores).unwrap_or(usize::MAX);
    let place = [
        words::place(&run.place),
        format::plural(cores, "core"),
        machine.to_owned(),
        format!("Linux {}", env.kernel),
    ];
    let about = format!("{}, flushmark {}", words::run(run), run.origin.version);
    pen.text(&format::clipped(&place.join(" · "), 140), (16, 47), Script::left(12, GREY))?;
    pen.text(&format::clipped(&about, 140), (16, 64), Script::left(12, GREY))?;
    let mut x = 16;
    let signs = [
        (Dash::Dashed, 2, "at risk by the log's marks, share of time"),
        (Dash::Solid, 2, "lost, share of cuts"),
        (Dash::Dotted, 1, "promised at most"),
    ];
    for (dash, width, name) in signs {
        pen.line(&[(x, 88), (x + 34, 88)], dash, BLACK.stroke_width(width))?;
        pen.text(name, (x + 42, 88), Script::left(12, BLACK))?;
        x += pen::text_width(name, 12) + 74;
    }
    Ok(())
}

/// The place of one case on the sheet.
struct Panel {
    left: i32,
    right: i32,
    top: i32,
    bottom: i32,
    /// Whether the shares are written beside its axis.
    first: bool,
}

/// Places for `count` cases, in one or two rows.
fn panels(count: usize) -> Vec<Panel> {
    let count = i32::try_from(count).unwrap_or(i32::MAX);
    let columns = if count <= 3 { count.max(1) } else { (count + 1) / 2 };
    let rows = (count + columns - 1) / columns;
    let (wide, high) = ((RIGHT - MARGIN) / columns, (HEIGHT - TOP - 20) / rows.max(1));
    let panel = |nth: i32| {
        let (left, top) = (MARGIN + nth % columns * wide, TOP + nth / columns * high);
        Panel {
            left,
            right: left + wide - 28,
            top: top + 38,
            bottom: top + high - 46,
            first: nth % columns == 0,
        }
    };
    (0..count).map(panel).collect()
}

impl Panel {
    fn draw(&self, pen: &Pen<'_>, case: &Case) -> anyhow::Result<()> {
        let (left, right, top, bottom) = (self.left, self.right, self.top, self.bottom);
        let letters = usize::try_from((right - left) / 7).unwrap_or(8);
        let name = format!("{}, {}", case.case, words::load(case));
        let heading = Script::left(13, BLACK).bold();
        pen.text(&format::clipped(&name, letters), (left, top - 26), heading)?;
        let said = words::apart(case);
        pen.text(&format::clipped(&said, letters + 8), (left, top - 11), Script::left(11, GREY))?;
        let shares = Linear::up_to(1.0, bottom, top);
        for share in [0.0, 0.25, 0.5, 0.75, 1.0] {
            let y = shares.at(share);
            pen.line(&[(left, y), (right, y)], Dash::Solid, PALE)?;
            if self.first {
                let text = format!("{:.0} %", 100.0 * share);
                pen.text(&text, (left - 6, y), Script::right(11, BLACK))?;
            }
        }
        pen.line(&[(left, top), (left, bottom), (right, bottom)], Dash::Solid, GREY)?;
        let middle = i32::midpoint(left, right);
        if case.gauge.messages.max == 0 && case.observed.lost_messages.max == 0 {
            let text = "nothing at risk at any moment,";
            let lost = format!("nothing lost in {} cuts", case.observed.cuts);
            let y = i32::midpoint(top, bottom);
            pen.text(text, (middle, y - 8), Script::centred(12, BLACK))?;
            pen.text(&lost, (middle, y + 8), Script::centred(12, BLACK))?;
            return pen.text("0", (left, bottom + 13), Script::centred(11, BLACK));
        }
        let highest = [
            float(case.gauge.messages.max),
            float(case.observed.lost_messages.max),
            promised(case).unwrap_or(0.0),
        ];
        let across = Linear::up_to(highest.into_iter().fold(0.0, f64::max), left, right);
        let marks = across.marks();
        // Written figures need some 40 pixels each.
        let fit = usize::try_from((right - left) / 40).unwrap_or(1).max(1);
        let every = marks.len().div_ceil(fit);
        for mark in marks.iter().step_by(every) {
            let x = across.at(*mark);
            pen.line(&[(x, bottom), (x, bottom + 4)], Dash::Solid, GREY)?;
            pen.text(&round(*mark), (x, bottom + 13), Script::centred(11, BLACK))?;
        }
        let unit = if right - left > 240 { "acknowledged messages" } else { "messages" };
        pen.text(unit, (middle, bottom + 29), Script::centred(11, GREY))?;
        self.draw_shares(pen, case, &across, &shares)
    }

    fn draw_shares(
        &self,
        pen: &Pen<'_>,
        case: &Case,
        across: &Linear,
        shares: &Linear,
    ) -> anyhow::Result<()> {
        if let Some(most) = promised(case) {
            let x = across.at(most);
            pen.line(&[(x, self.top), (x, self.bottom)], Dash::Dotted, BLACK)?;
        }
        let lost: Vec<f64> = case.observed.lost_quantiles.iter().map(|lost| float(*lost)).collect();
        let colour = pen::colour(case.kind);
        pen.line(&steps(&lost, across, shares), Dash::Solid, colour.stroke_width(2))?;
        let risk = steps(&case.gauge_messages, across, shares);
        pen.line(&risk, Dash::Dashed, BLACK.stroke_width(2))
    }
}

/// The cumulative share of `values`, which are in order, as a line.
fn steps(values: &[f64], across: &Linear, shares: &Linear) -> Vec<Pixel> {
    let count = float(store_core::length_u64(values.len()).max(1));
    let mut line = vec![(across.at(0.0), shares.at(0.0))];
    for (nth, value) in (0..).zip(values) {
        let x = across.at(*value);
        for share in [float(nth) / count, float(nth + 1) / count] {
            let pixel = (x, shares.at(share));
            if line.last() != Some(&pixel) {
                line.push(pixel);
            }
        }
    }
    line
}

/// The messages that come in the time promised, if the load has a rate.
fn promised(case: &Case) -> Option<f64> {
    case.rate_per_s.map(|rate| float(rate) * float(case.bound.age_ns) / 1e9)
}

fn round(value: f64) -> String {
    format::count(value).replace(".0", "")
}

fn draw_left_out(pen: &Pen<'_>, rest: &[Case]) -> anyhow::Result<()> {
    if rest.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = rest.iter().map(|case| case.case.as_str()).collect();
    let text = format!("not drawn for want of space: {}", names.join(", "));
    pen.text(&format::clipped(&text, 140), (16, HEIGHT - 6), Script::left(11, GREY))
}

/// What the chart shows, in words.
fn description(run: &PowerCuts) -> String {
    let mut sentences = vec![format!(
        "For each case the cumulative share of cuts over acknowledged messages lost, and the \
         cumulative share of time over messages at risk. {}.",
        words::place(&run.place)
    )];
    sentences.extend(run.cases.iter().map(words::sentence));
    if run.cases.is_empty() {
        sentences.push("No cut was made.".to_owned());
    }
    sentences.join(" ")
}

const MARGIN: i32 = 64;
/// Where the panels begin.
const TOP: i32 = 104;
/// Cases that have a place on the sheet.
const MOST: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::powercut::results_fixture::{run, troubled};
    use crate::results_fixture::{HOSTILE, environment};

    fn drawn(run: &PowerCuts) -> String {
        losses(run, &environment()).unwrap()
    }

    #[test]
    fn the_same_results_give_the_same_bytes_and_the_title_says_what_the_disk_is() {
        let svg = drawn(&run());
        assert_eq!(drawn(&run()), svg);
        for part in [
            "EMULATED DISK: Does a power cut take what the log says is at risk?",
            "role=\"img\" aria-labelledby=\"cuts-title cuts-desc\"",
            "<desc id=\"cuts-desc\">",
            "timed 50 ms, 10k/s",
            "sync, ×4",
            "nothing lost in 190 cuts",
            "acknowledged messages",
        ] {
            assert!(svg.contains(part), "{part:?} in\n{svg}");
        }
        let svg = drawn(&troubled("x"));
        assert!(svg.contains("SIMULATED DISK: "), "{svg}");
    }

    #[test]
    fn nothing_leaves_the_sheet_or_covers_another_panel() {
        let mut many = run();
        for count in 0..12 {
            many.cases.truncate(4);
            let cases: Vec<Case> = many.cases.iter().cycle().take(count).cloned().collect();
            let svg = drawn(&PowerCuts { cases, ..many.clone() });
            for name in ["x", "y", "x1", "y1"] {
                for part in svg.split(&format!(" {name}=\"")).skip(1) {
                    let (number, _) = part.split_once('"').unwrap();
                    let number: i32 = number.parse().unwrap();
                    assert!((0..=900).contains(&number), "{name}={number}");
                }
            }
            let panels = panels(count.min(MOST));
            assert!(panels.iter().all(|panel| panel.right - panel.left > 120), "{count}");
            assert!(panels.iter().all(|panel| panel.bottom - panel.top > 80), "{count}");
            assert!(
                panels
                    .windows(2)
                    .all(|pair| { pair[0].right < pair[1].left || pair[0].bottom < pair[1].top })
            );
            assert_eq!(svg.contains("not drawn"), count > MOST);
        }
    }

    #[test]
    fn no_string_leaves_its_place() {
        let mut env = environment();
        env.kernel = HOSTILE.to_owned();
        let svg = losses(&troubled(HOSTILE), &env).unwrap();
        assert!(!svg.contains("<script") && !svg.contains("<b "), "{svg}");
        assert!(!svg.contains('\u{1b}') && !svg.contains('\0'), "{svg}");
    }

    #[test]
    fn a_line_of_shares_steps_at_each_value() {
        let (across, shares) = (Linear::up_to(10.0, 0, 100), Linear::up_to(1.0, 100, 0));
        assert_eq!(
            steps(&[5.0, 10.0], &across, &shares),
            [(0, 100), (50, 100), (50, 50), (100, 50), (100, 0)]
        );
    }
}
