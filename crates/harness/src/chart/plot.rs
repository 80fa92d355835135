//! The plot of chart C1: axes, band of zero exposure, marks, spreads, frontier and labels.

use plotters::style::Color;

use super::axis::Axis;
use super::frame::{Frame, fitting, rulings};
use super::labels::{Area, Crowd};
use super::pareto::{Codes, Point};
use super::pen::{self, ASKED, BAND, BLACK, Dash, GREY, Ink, Pen, Pixel, Script};
use super::{LossModel, RIGHT};
use crate::format;
use crate::results::Kind;
use crate::summary::Stat;

/// The frame of the plot, and where values lie in it.
pub(super) struct Plot {
    frame: Frame,
    /// Where the band of zero exposure ends and the axis begins.
    band_end: i32,
    x: Axis,
    y: Axis,
    /// The columns of the band, by strategy.
    columns: Vec<String>,
    /// How old what is lost may be, if something is asked.
    asked_ns: Option<f64>,
}

impl Plot {
    /// What is along the upward axis.
    pub(super) const UP: &str = "acknowledged messages per second (log)";

    /// A plot in this place whose axes hold these points, and what is asked.
    pub(super) fn within<'a>(
        frame: Frame,
        points: impl IntoIterator<Item = &'a Point<'a>>,
        asked_ns: Option<f64>,
    ) -> Self {
        let mut columns: Vec<String> = Vec::new();
        let (mut ages, mut rates) = (Vec::new(), Vec::new());
        for point in points {
            if point.touches_zero() && !columns.contains(&point.row.strategy) {
                columns.push(point.row.strategy.clone());
            }
            ages.extend(ends(&point.age_ns));
            rates.extend(ends(&point.rate));
        }
        ages.extend(asked_ns);
        let Frame { left, right, top, bottom, .. } = frame;
        let count = i32::try_from(columns.len()).unwrap_or(i32::MAX);
        // The axis needs room as well where the plot is one of several.
        let column = COLUMN.min((right - left) / 6);
        let band_end = left + count.saturating_mul(column).clamp(column, (right - left) * 3 / 5);
        Self {
            frame,
            band_end,
            x: Axis::around(&ages, 1e6..1e9, band_end..right),
            y: Axis::around(&rates, 1e3..1e6, bottom..top),
            columns,
            asked_ns,
        }
    }

    /// The pixel of an age; 0 lies in the strategy's column of the band.
    fn x(&self, age_ns: f64, strategy: &str) -> i32 {
        if age_ns > 0.0 {
            return self.x.at(age_ns);
        }
        let count = i32::try_from(self.columns.len()).unwrap_or(i32::MAX).max(1);
        let column = self.columns.iter().position(|name| name == strategy).unwrap_or(0);
        let column = i32::try_from(column).unwrap_or(0);
        let left = self.frame.left;
        left + (self.band_end - left) * (2 * column + 1) / (2 * count)
    }

    fn pixel(&self, point: &Point<'_>) -> Pixel {
        (self.x(point.age_ns.centre(), &point.row.strategy), self.y.at(point.rate.centre()))
    }

    /// The mark with its error bars.
    fn body(&self, point: &Point<'_>) -> Area {
        let across = |age_ns| self.x(age_ns, &point.row.strategy);
        let low = (across(point.age_ns.low()), self.y.at(point.rate.low()));
        let high = (across(point.age_ns.high()), self.y.at(point.rate.high()));
        Area::spanning(low, high, 0)
    }

    /// Draws frame and marks of the axes.
    pub(super) fn draw_axes(&self, pen: &Pen<'_>) -> anyhow::Result<()> {
        let Frame { left, top, bottom, .. } = self.frame;
        let start = self.band_end;
        pen.fill((left, top), (start, bottom), BAND)?;
        let beside_band = Frame { left: start, ..self.frame };
        beside_band.rule_across(pen, &rulings(&self.x, format::duration))?;
        self.frame.rule_up(pen, &rulings(&self.y, format::count))?;
        self.frame.outline(pen)?;
        pen.line(&[(start, top), (start, bottom)], Dash::Dotted, GREY)?;
        if let Some(asked) = self.asked_ns {
            let x = if asked > 0.0 { self.x.at(asked) } else { start };
            pen.line(&[(x, top), (x, bottom)], Dash::Dashed, ASKED.stroke_width(2))?;
        }
        let band_middle = i32::midpoint(left, start);
        pen.text("0", (band_middle, bottom + 14), Script::centred(12, BLACK).bold())?;
        pen.text("nothing at risk", (band_middle, bottom + 29), Script::centred(11, GREY))
    }

    /// Draws what is along the axes of a plot that has the sheet for itself.
    pub(super) fn draw_titles(&self, pen: &Pen<'_>, model: LossModel) -> anyhow::Result<()> {
        let Frame { left, right, top, bottom, .. } = self.frame;
        let middle = i32::midpoint(self.band_end, right).min(right - 220);
        pen.text(model.axis_title(), (middle, bottom + 38), Script::centred(12, BLACK))?;
        pen.text(Self::UP, (left - 56, top - 14), Script::left(12, BLACK))
    }

    /// Draws everything that was measured; later marks lie above earlier ones. Answers how many
    /// marks have no label, because there was no room for one.
    pub(super) fn draw_points(
        &self,
        pen: &Pen<'_>,
        points: &[Point<'_>],
        codes: &Codes,
    ) -> anyhow::Result<usize> {
        if points.is_empty() {
            let place = (self.band_end + 40, i32::midpoint(self.frame.top, self.frame.bottom));
            let text = "no cell was finished: there is nothing to draw";
            pen.text(text, place, Script::left(14, GREY))?;
            return Ok(0);
        }
        let Frame { left, right, top, bottom, .. } = self.frame;
        let mut crowd = Crowd::new(Area::spanning((left, top), (right, bottom), 0));
        for point in points {
            let reach = if point.hollow { 9 } else { 7 };
            crowd.add_solid(Area::about(self.pixel(point), reach));
        }
        self.draw_paths(pen, points, &mut crowd)?;
        self.draw_frontier(pen, points, &mut crowd)?;
        for point in points {
            self.draw_spread(pen, point, &mut crowd)?;
        }
        for point in points {
            pen.mark(point.row.kind, self.pixel(point), Ink::of(point.row, point.hollow))?;
        }
        self.draw_raw_levels(pen, points, &mut crowd)?;
        self.draw_labels(pen, points, codes, &mut crowd)
    }

    /// Labels where there is room, of the frontier first.
    fn draw_labels(
        &self,
        pen: &Pen<'_>,
        points: &[Point<'_>],
        codes: &Codes,
        crowd: &mut Crowd,
    ) -> anyhow::Result<usize> {
        let valid = |row| points.iter().find(|p| !p.hollow && std::ptr::eq(p.row, row));
        let (first, others): (Vec<&Point<'_>>, Vec<&Point<'_>>) = points
            .iter()
            .filter(|point| point.row.kind != Kind::Raw)
            .partition(|point| point.on_frontier);
        let widest = (self.frame.right - self.frame.left) * 3 / 5;
        let mut left_out = 0;
        for point in first.into_iter().chain(others) {
            // An invalid block beside the valid ones of its row needs no second label.
            let twin = valid(point.row).filter(|_| point.hollow);
            if twin.is_some_and(|twin| near(self.pixel(twin), self.pixel(point))) {
                continue;
            }
            let text = fitting(&point.label(points, codes), widest, LABEL);
            let size = (pen::text_width(&text, LABEL), 12);
            match crowd.free_place_near(self.pixel(point), self.body(point), size) {
                Some(place) => pen.text(&text, place, Script::left(LABEL, BLACK))?,
                None => left_out += 1,
            }
        }
        Ok(left_out)
    }

    /// Thin lines that join the rows of a strategy, from few producers to many.
    fn draw_paths(
        &self,
        pen: &Pen<'_>,
        points: &[Point<'_>],
        crowd: &mut Crowd,
    ) -> anyhow::Result<()> {
        let counted: Vec<&Point<'_>> = points.iter().filter(|point| !point.hollow).collect();
        for pair in counted.windows(2) {
            let (from, to) = (pair[0], pair[1]);
            if from.row.strategy == to.row.strategy && from.row.setting == to.row.setting {
                let kind = from.row.kind;
                let (a, b) = (self.pixel(from), self.pixel(to));
                crowd.add_line(a, b);
                pen.line(&[a, b], pen::dash(kind), pen::colour(kind).mix(0.6))?;
            }
        }
        Ok(())
    }

    /// The staircase over the rows that nothing beats, to the right end of the axis.
    fn draw_frontier(
        &self,
        pen: &Pen<'_>,
        points: &[Point<'_>],
        crowd: &mut Crowd,
    ) -> anyhow::Result<()> {
        let mut best: Vec<&Point<'_>> = points.iter().filter(|point| point.on_frontier).collect();
        if best.is_empty() {
            return Ok(());
        }
        best.sort_by(|a, b| a.age_ns.centre().total_cmp(&b.age_ns.centre()));
        let mut stairs: Vec<Pixel> = Vec::new();
        for point in best {
            let (x, y) = self.pixel(point);
            stairs.extend(stairs.last().map(|&(_, below)| (x, below)));
            stairs.push((x, y));
        }
        stairs.extend(stairs.last().map(|&(_, y)| (self.frame.right, y)));
        for step in stairs.windows(2) {
            crowd.add_line(step[0], step[1]);
        }
        pen.line(&stairs, Dash::Solid, BLACK.mix(0.75).stroke_width(2))
    }

    /// From the smallest to the largest block, both ways.
    fn draw_spread(
        &self,
        pen: &Pen<'_>,
        point: &Point<'_>,
        crowd: &mut Crowd,
    ) -> anyhow::Result<()> {
        let (x, y) = self.pixel(point);
        let colour = pen::colour(point.row.kind);
        let body = self.body(point);
        let (low, high, near, far) = (body.bottom, body.top, body.left, body.right);
        let bars = [
            [(x, low), (x, high)],
            [(x - 3, low), (x + 3, low)],
            [(x - 3, high), (x + 3, high)],
            [(near, y), (far, y)],
            [(near, y - 3), (near, y + 3)],
            [(far, y - 3), (far, y + 3)],
        ];
        for (at, bar) in bars.iter().enumerate() {
            let drawn = if at < 3 { low != high } else { near != far };
            if drawn {
                crowd.add_line(bar[0], bar[1]);
                pen.line(bar, Dash::Solid, colour)?;
            }
        }
        Ok(())
    }

    /// The rates of the raw loop as levels across the chart, with one label for all: a run has one
    /// of each size and kernel setting, and their names would cover each other.
    fn draw_raw_levels(
        &self,
        pen: &Pen<'_>,
        points: &[Point<'_>],
        crowd: &mut Crowd,
    ) -> anyhow::Result<()> {
        let is_level = |point: &&Point<'_>| point.row.kind == Kind::Raw && !point.hollow;
        let mut levels: Vec<&Point<'_>> = points.iter().filter(is_level).collect();
        levels.sort_by(|a, b| a.rate.centre().total_cmp(&b.rate.centre()));
        let (Some(lowest), Some(highest)) = (levels.first(), levels.last()) else { return Ok(()) };
        let Frame { left, right, .. } = self.frame;
        let strength = if levels.len() > 1 { 0.25 } else { 0.6 };
        for point in &levels {
            let (x, y) = self.pixel(point);
            let style = pen::colour(Kind::Raw).mix(strength);
            pen.line(&[(x + 9, y), (right, y)], pen::dash(Kind::Raw), style)?;
        }
        // One of several plots has no room for what the legend says as well.
        let is_whole = (left, right) == (LEFT, RIGHT);
        let name = if is_whole { "raw pwrite+fdatasync, 1 thread" } else { "raw" };
        let text = raw_label(&levels, name);
        let size = (pen::text_width(&text, LABEL), 12);
        let (above, below) = (self.pixel(highest).1 - 9, self.pixel(lowest).1 + 10);
        let middle = i32::midpoint(self.band_end, right) - size.0 / 2;
        let places: Vec<Pixel> = [right - size.0 - 4, self.band_end + 8, middle, left + 8]
            .into_iter()
            .flat_map(|x| [(x, above), (x, below)])
            .collect();
        pen.text(&text, crowd.place(&places, size), Script::left(LABEL, BLACK))
    }
}

/// What is said of levels, the lowest first: `raw pwrite+fdatasync, 1 thread: 5.2k–6.3k/s`.
fn raw_label(levels: &[&Point<'_>], name: &str) -> String {
    let mut rates: Vec<String> =
        levels.iter().map(|point| format::count(point.rate.centre())).collect();
    rates.dedup();
    let range = match &rates[..] {
        [lowest, .., highest] => format!("{lowest}–{highest}"),
        all => all.concat(),
    };
    let setting = match levels {
        [only] if !only.row.setting.is_empty() => format!(", {}", only.row.setting),
        _ => String::new(),
    };
    format!("{name}{setting}: {range}/s")
}

fn ends(stat: &Stat) -> [f64; 3] {
    [stat.low(), stat.centre(), stat.high()]
}

/// Whether two marks touch.
fn near(a: Pixel, b: Pixel) -> bool {
    a.0.abs_diff(b.0) < 16 && a.1.abs_diff(b.1) < 16
}

/// Where a plot begins that has the sheet for itself.
pub(super) const LEFT: i32 = super::frame::MARGIN;
/// Width of a strategy's column in the band of zero exposure where there is room: a mark and a
/// label on each side.
const COLUMN: i32 = 84;
/// Height of the labels at points.
const LABEL: u32 = 11;
