//! The two panels of each column of chart C4.

use plotters::style::{Color, RGBAColor, ShapeStyle};

use super::trace::{Column, Moment, Trace};
use crate::chart::axis::{Axis, Linear};
use crate::chart::frame::{Frame, rulings, rulings_linear};
use crate::chart::labels::{Area, Crowd};
use crate::chart::pen::{self, ASKED, BLACK, Dash, GREY, PALE, Pen, Pixel, Script};
use crate::chart::{HEIGHT, RIGHT};
use crate::clock::float;
use crate::format;

/// The places that all columns share.
pub(super) struct Sheet {
    /// Top and bottom of the upper panel.
    upper: (i32, i32),
    /// And of the lower one.
    lower: (i32, i32),
    /// Left and right of each column.
    columns: Vec<(i32, i32)>,
    longest_s: f64,
    /// What the upper axis counts in, and its name.
    unit: (f64, &'static str),
    dirty: Linear,
    worst: Axis,
}

impl Sheet {
    /// Axes that hold all blocks of these columns.
    pub(super) fn around(columns: &[Column<'_>], top: i32) -> Self {
        let bottom = HEIGHT - 66;
        let middle = top + (bottom - top - BETWEEN) * 3 / 5;
        let (upper, lower) = ((top, middle), (middle + BETWEEN, bottom));
        let traces = || columns.iter().flat_map(|column| &column.traces);
        let moments = || traces().flat_map(|trace| &trace.moments);
        let dirty = traces().filter_map(Trace::dirty_max).fold(0.0, f64::max);
        // A limit is drawn where that leaves the lines most of the height.
        let limits = traces().flat_map(Trace::levels).filter(|level| *level <= 1.4 * dirty);
        let highest = limits.fold(dirty, f64::max);
        let unit = *UNITS.iter().find(|(size, _)| highest < 2048.0 * size).unwrap_or(&LARGEST);
        let worst = moments().map(|moment| moment.worst_ns);
        let p99 = moments().filter_map(|moment| moment.p99_ns);
        let all = columns.iter().map(|column| float(column.main().p99_ns));
        let worst: Vec<f64> = worst.chain(p99).chain(all).collect();
        let count = i32::try_from(columns.len()).unwrap_or(i32::MAX).max(1);
        let wide = (RIGHT - LEFT - (count - 1) * APART) / count;
        let place = |nth: i32| {
            let left = LEFT + nth * (wide + APART);
            (left, left + wide)
        };
        Self {
            upper,
            lower,
            columns: (0..count).map(place).collect(),
            longest_s: moments().fold(0.0, |longest: f64, moment| longest.max(moment.at_s)),
            unit,
            dirty: Linear::up_to(highest / unit.0, upper.1, upper.0),
            worst: Axis::around(&worst, 1e5..1e9, lower.1..lower.0),
        }
    }

    pub(super) fn draw(&self, pen: &Pen<'_>, columns: &[Column<'_>]) -> anyhow::Result<()> {
        let title = format!("dirty or being written, whole machine ({})", self.unit.1);
        pen.text(&title, (LEFT - 56, self.upper.0 - 31), Script::left(12, BLACK))?;
        let has_p99 = columns.iter().any(|column| column.main().has_p99());
        let both = if has_p99 { " and p99" } else { "" };
        let title = format!("longest append{both} of each 100 ms (log)");
        pen.text(&title, (LEFT - 56, self.lower.0 - 13), Script::left(12, BLACK))?;
        let middle = i32::midpoint(LEFT, RIGHT);
        let title = "time since measuring began (s)";
        pen.text(title, (middle, self.lower.1 + 32), Script::centred(12, BLACK))?;
        for (nth, (place, column)) in self.columns.iter().zip(columns).enumerate() {
            self.draw_column(pen, *place, column, nth == 0)?;
        }
        Ok(())
    }

    fn draw_column(
        &self,
        pen: &Pen<'_>,
        (left, right): (i32, i32),
        column: &Column<'_>,
        first: bool,
    ) -> anyhow::Result<()> {
        let across = Linear::up_to(self.longest_s, left, right);
        let main = column.main();
        self.draw_throttled(pen, &across, left, main)?;
        let (top, bottom) = self.upper;
        let upper = Frame { left, right, top, bottom, has_left: !first, has_below: true };
        let (top, bottom) = self.lower;
        let lower = Frame { top, bottom, has_below: false, ..upper };
        self.draw_grid(pen, &across, upper, lower)?;
        let invalid = if main.invalid { " (invalid)" } else { "" };
        upper.heading(pen, &format!("{}{invalid}", column.row.sysctl))?;
        let mut crowd = Crowd::new(Area::spanning((left, self.upper.0), (right, self.lower.1), 0));
        let colour = pen::colour(column.row.kind);
        for trace in column.others().take(MOST_BLOCKS) {
            let dash = if trace.invalid { Dash::Dotted } else { Dash::Solid };
            let style = if trace.invalid { GREY.mix(0.6) } else { colour.mix(0.3) };
            self.draw_trace(pen, &across, trace, (dash, style, 1), &mut crowd)?;
        }
        self.draw_ticks(pen, &across, main)?;
        let style = if main.invalid { GREY.to_rgba() } else { colour.to_rgba() };
        let dash = if main.invalid { Dash::Dotted } else { Dash::Solid };
        self.draw_trace(pen, &across, main, (dash, style, 2), &mut crowd)?;
        let p99 = |moment: &Moment| moment.p99_ns;
        self.draw_levels(pen, &across, main, (p99, ASKED.stroke_width(2)), &mut crowd)?;
        self.draw_limits(pen, &across, main, (left, right), &mut crowd)?;
        self.draw_p99(pen, main, (left, right), &mut crowd)
    }

    /// Shades the time in which writers were made to wait.
    fn draw_throttled(
        &self,
        pen: &Pen<'_>,
        across: &Linear,
        left: i32,
        main: &Trace,
    ) -> anyhow::Result<()> {
        let mut from = left;
        for stretch in main.moments.chunk_by(|a, b| a.throttled == b.throttled) {
            let until = across.at(stretch[stretch.len() - 1].at_s);
            if stretch[0].throttled && from < until {
                for (top, bottom) in [self.upper, self.lower] {
                    pen.fill((from, top), (until, bottom), PALE)?;
                }
            }
            from = until;
        }
        Ok(())
    }

    /// Both panels' rulings; names of the upward axes only beside the first column.
    fn draw_grid(
        &self,
        pen: &Pen<'_>,
        across: &Linear,
        upper: Frame,
        lower: Frame,
    ) -> anyhow::Result<()> {
        let seconds = rulings_linear(across, format::count);
        for (frame, upwards) in [
            (upper, rulings_linear(&self.dirty, format::count)),
            (lower, rulings(&self.worst, format::duration)),
        ] {
            frame.rule_across(pen, &seconds)?;
            frame.rule_up(pen, &upwards)?;
            frame.outline(pen)?;
        }
        Ok(())
    }

    /// The dirty pages of a block, and its longest appends.
    fn draw_trace(
        &self,
        pen: &Pen<'_>,
        across: &Linear,
        trace: &Trace,
        (dash, style, width): (Dash, RGBAColor, u32),
        crowd: &mut Crowd,
    ) -> anyhow::Result<()> {
        let dirty = |moment: &Moment| {
            moment.dirty.map(|bytes| (across.at(moment.at_s), self.dirty.at(bytes / self.unit.0)))
        };
        for run in runs(&trace.moments, dirty) {
            let run = thinned(&run);
            for pair in run.windows(2) {
                crowd.add_line(pair[0], pair[1]);
            }
            if let [(x, y)] = run[..] {
                pen.line(&[(x - 1, y), (x + 1, y)], Dash::Solid, style.stroke_width(2))?;
            } else {
                pen.line(&run, dash, style.stroke_width(width))?;
            }
        }
        let worst = |moment: &Moment| Some(moment.worst_ns).filter(|ns| *ns > 0.0);
        self.draw_levels(pen, across, trace, (worst, style.stroke_width(width)), crowd)
    }

    /// A figure of each tenth of a second along its time: a line from one to the next would tell of
    /// times between.
    fn draw_levels(
        &self,
        pen: &Pen<'_>,
        across: &Linear,
        trace: &Trace,
        (of, style): (fn(&Moment) -> Option<f64>, ShapeStyle),
        crowd: &mut Crowd,
    ) -> anyhow::Result<()> {
        let mut from = across.at(0.0);
        let mut levels = Vec::new();
        for moment in &trace.moments {
            let until = across.at(moment.at_s).max(from + 1);
            if let Some(ns) = of(moment) {
                let y = self.worst.at(ns);
                levels.push([(from, y), (until, y)]);
            }
            from = until.min(across.at(moment.at_s));
        }
        levels.dedup();
        for level in levels {
            crowd.add_line(level[0], level[1]);
            pen.line(&level, Dash::Solid, style)?;
        }
        Ok(())
    }

    /// Ticks where a sync returned, and where a segment was begun or an old one deleted, unless
    /// that was nearly always.
    fn draw_ticks(&self, pen: &Pen<'_>, across: &Linear, main: &Trace) -> anyhow::Result<()> {
        let few = |happened: fn(&Moment) -> bool| {
            let found: Vec<&Moment> =
                main.moments.iter().filter(|moment| happened(moment)).collect();
            let many = found.len() * 2 > main.moments.len() || found.len() > MOST_TICKS;
            if many { Vec::new() } else { found }
        };
        let bottom = self.upper.1;
        for moment in few(|moment| moment.flushed) {
            let x = across.at(moment.at_s);
            pen.line(&[(x, bottom + 2), (x, bottom + 8)], Dash::Solid, BLACK)?;
        }
        let top = self.lower.0;
        for moment in few(|moment| moment.rolled) {
            let x = across.at(moment.at_s);
            pen.line(&[(x - 3, top - 7), (x, top - 2), (x + 3, top - 7)], Dash::Solid, BLACK)?;
        }
        for moment in few(|moment| moment.deleted > 0.0) {
            let x = across.at(moment.at_s);
            pen.line(&[(x - 3, top - 8), (x + 3, top - 2)], Dash::Solid, BLACK)?;
            pen.line(&[(x - 3, top - 2), (x + 3, top - 8)], Dash::Solid, BLACK)?;
        }
        Ok(())
    }

    /// The kernel's limits over time; those above the axis are named.
    fn draw_limits(
        &self,
        pen: &Pen<'_>,
        across: &Linear,
        main: &Trace,
        (left, right): (i32, i32),
        crowd: &mut Crowd,
    ) -> anyhow::Result<()> {
        let end = self.dirty.marks().last().copied().unwrap_or(0.0) * 1.001 * self.unit.0;
        let mut above = Vec::new();
        for (nth, (dash, name)) in LEVELS.into_iter().enumerate() {
            let level = |moment: &Moment| moment.levels().map(|levels| levels[nth]);
            let inside = |moment: &Moment| {
                let bytes = level(moment).filter(|bytes| *bytes <= end)?;
                Some((across.at(moment.at_s), self.dirty.at(bytes / self.unit.0)))
            };
            let found = runs(&main.moments, inside);
            let lowest = main.moments.iter().filter_map(level).min_by(f64::total_cmp);
            if let Some(lowest) = lowest.filter(|_| found.is_empty()) {
                above.push(format!("↑ {name} {}", format::bytes(lowest)));
            }
            for run in found {
                let run = thinned(&run);
                for pair in run.windows(2) {
                    crowd.add_line(pair[0], pair[1]);
                }
                pen.line(&run, dash, BLACK.stroke_width(1))?;
            }
        }
        let wide = above.iter().map(|text| pen::text_width(text, 11)).max().unwrap_or(0);
        let high = 14 * i32::try_from(above.len()).unwrap_or(i32::MAX);
        if above.is_empty() {
            return Ok(());
        }
        let top = self.upper.0 + 4 + high / 2;
        let places: Vec<Pixel> = (0..5)
            .map(|step| top + 18 * step)
            .flat_map(|middle| [(right - wide - 4, middle), (left + 6, middle)])
            .collect();
        let (x, middle) = crowd.place(&places, (wide, high));
        for (nth, text) in (0..).zip(&above) {
            let y = middle - high / 2 + 7 + 14 * nth;
            pen.text(text, (x, y), Script::left(11, GREY))?;
        }
        Ok(())
    }

    /// The p99 of all appends as a level, where there is none of each time.
    fn draw_p99(
        &self,
        pen: &Pen<'_>,
        main: &Trace,
        (left, right): (i32, i32),
        crowd: &mut Crowd,
    ) -> anyhow::Result<()> {
        let p99 = float(main.p99_ns);
        if p99 <= 0.0 || main.has_p99() {
            return Ok(());
        }
        let y = self.worst.at(p99);
        pen.line(&[(left, y), (right, y)], Dash::Dashed, GREY)?;
        crowd.add_line((left, y), (right, y));
        let text = format!("p99 {}", format::duration(p99));
        let size = (pen::text_width(&text, 11), 12);
        let places: Vec<Pixel> = [right - size.0 - 4, left + 6]
            .into_iter()
            .flat_map(|x| [(x, y - 8), (x, y + 9), (x, y - 14), (x, y + 15), (x, y - 24)])
            .filter(|(_, y)| (self.lower.0 + 6..self.lower.1 - 6).contains(y))
            .collect();
        if places.is_empty() {
            return Ok(());
        }
        let place = crowd.place(&places, size);
        pen.text(&text, place, Script::left(11, BLACK))
    }
}

/// Stretches of moments that have a place.
fn runs(moments: &[Moment], place: impl Fn(&Moment) -> Option<Pixel>) -> Vec<Vec<Pixel>> {
    let places: Vec<Option<Pixel>> = moments.iter().map(place).collect();
    let runs = places.split(Option::is_none);
    runs.map(|run| run.iter().flatten().copied().collect::<Vec<_>>())
        .filter(|run| !run.is_empty())
        .collect()
}

/// The line with, of many points in one column of pixels, only the first, the highest, the lowest
/// and the last.
fn thinned(line: &[Pixel]) -> Vec<Pixel> {
    let mut kept = Vec::new();
    for same in line.chunk_by(|a, b| a.0 == b.0) {
        let (first, last) = (same[0], same[same.len() - 1]);
        let highest = same.iter().copied().min_by_key(|(_, y)| *y).unwrap_or(first);
        let lowest = same.iter().copied().max_by_key(|(_, y)| *y).unwrap_or(last);
        kept.extend([first, highest, lowest, last]);
    }
    kept.dedup();
    kept
}

impl Moment {
    /// Where write-back begins, where writers are slowed, and where they are stopped.
    fn levels(&self) -> Option<[f64; 3]> {
        self.limits.map(|(background, limit)| [background, f64::midpoint(background, limit), limit])
    }
}

impl Trace {
    /// The lowest of each level.
    fn levels(&self) -> impl Iterator<Item = f64> {
        (0..LEVELS.len()).filter_map(|nth| {
            let levels = self.moments.iter().filter_map(Moment::levels);
            levels.map(|levels| levels[nth]).min_by(f64::total_cmp)
        })
    }
}

/// In the order of [`Moment::levels`].
const LEVELS: [(Dash, &str); 3] =
    [(Dash::Dashed, "write-back"), (Dash::Dotted, "slowed"), (Dash::Solid, "limit")];

const LEFT: i32 = 72;
/// Between columns: room for the last mark of one and the first of the next.
const APART: i32 = 24;
/// Between the panels.
const BETWEEN: i32 = 40;
/// Blocks drawn beside the one in the middle.
const MOST_BLOCKS: usize = 12;
/// Ticks of a column; more are a line.
const MOST_TICKS: usize = 100;
const UNITS: [(f64, &str); 2] = [(1_048_576.0, "MiB"), (1_073_741_824.0, "GiB")];
const LARGEST: (f64, &str) = (1_099_511_627_776.0, "TiB");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_points_in_a_column_the_extremes_are_kept() {
        let line = [(1, 5), (1, 9), (1, 2), (1, 6), (2, 7), (3, 7)];
        assert_eq!(thinned(&line), [(1, 5), (1, 2), (1, 9), (1, 6), (2, 7), (3, 7)]);
        assert!(thinned(&[]).is_empty());
    }
}
