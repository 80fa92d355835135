//! Lines, marks and texts on an SVG, by pixel.
//!
//! plotters knows no font here and would guess a text's size from its bytes, so texts are placed
//! by an anchor and measured by [`text_width`].

use anyhow::anyhow;
use plotters::coord::Shift;
use plotters::element::{
    Circle, DashedPathElement, Drawable, PathElement, PointCollection, Polygon, Rectangle, Text,
};
use plotters::prelude::{DrawingArea, IntoDrawingArea, SVGBackend};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{
    Color, FontDesc, FontFamily, FontStyle, IntoTextStyle, RGBColor, ShapeStyle,
};

use crate::results::Kind;
use crate::summary::Row;

/// A place on the drawing: to the right, downwards.
pub(super) type Pixel = (i32, i32);

/// How a line is drawn.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Dash {
    /// Long dashes.
    Dashed,
    /// Short dashes.
    Dotted,
    /// Without gaps.
    Solid,
}

/// How a text is set.
#[derive(Clone, Copy)]
pub(super) struct Script {
    /// Height of the letters' box in pixels.
    size: u32,
    /// Bold or not.
    bold: bool,
    /// Where the place given lies within the text, from left to right.
    anchor: HPos,
    /// Its colour.
    colour: RGBColor,
}

impl Script {
    /// Text that begins at its place.
    pub(super) fn left(size: u32, colour: RGBColor) -> Self {
        Self { size, bold: false, anchor: HPos::Left, colour }
    }

    /// Text that ends at its place.
    pub(super) fn right(size: u32, colour: RGBColor) -> Self {
        Self { anchor: HPos::Right, ..Self::left(size, colour) }
    }

    /// Text whose middle is at its place.
    pub(super) fn centred(size: u32, colour: RGBColor) -> Self {
        Self { anchor: HPos::Center, ..Self::left(size, colour) }
    }

    /// The same in bold.
    pub(super) fn bold(self) -> Self {
        Self { bold: true, ..self }
    }
}

/// An SVG being drawn.
pub(super) struct Pen<'a> {
    area: DrawingArea<SVGBackend<'a>, Shift>,
}

impl<'a> Pen<'a> {
    /// A white sheet of 900×560 pixels that is written to `out`.
    pub(super) fn new(out: &'a mut String) -> anyhow::Result<Self> {
        let area = SVGBackend::with_string(out, (900, 560)).into_drawing_area();
        let pen = Self { area };
        pen.area.fill(&WHITE).map_err(|e| anyhow!("cannot draw: {e}"))?;
        Ok(pen)
    }

    /// Writes the end of the drawing.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        self.area.present().map_err(|e| anyhow!("cannot draw: {e}"))
    }

    /// A line through these points.
    pub(super) fn line(
        &self,
        points: &[Pixel],
        dash: Dash,
        style: impl Into<ShapeStyle>,
    ) -> anyhow::Result<()> {
        let style = style.into();
        let path = points.to_vec();
        match dash {
            Dash::Dashed => self.draw(&DashedPathElement::new(path, 7, 4, style)),
            Dash::Dotted => self.draw(&DashedPathElement::new(path, 2, 4, style)),
            Dash::Solid => self.draw(&PathElement::new(path, style)),
        }
    }

    /// A filled shape, so thin that what lies under it is seen.
    pub(super) fn shade(&self, corners: &[Pixel], colour: RGBColor) -> anyhow::Result<()> {
        self.draw(&Polygon::new(corners.to_vec(), colour.mix(0.16)))
    }

    /// A filled rectangle.
    pub(super) fn fill(&self, from: Pixel, to: Pixel, colour: RGBColor) -> anyhow::Result<()> {
        self.draw(&Rectangle::new([from, to], colour.filled()))
    }

    /// One line of text; `at` is its vertical middle.
    pub(super) fn text(&self, text: &str, at: Pixel, script: Script) -> anyhow::Result<()> {
        let style = if script.bold { FontStyle::Bold } else { FontStyle::Normal };
        // The backend divides by 1.24.
        let font = FontDesc::new(FontFamily::SansSerif, f64::from(script.size) * 1.24, style);
        let style = font.into_text_style(&(1, 1));
        let style = style.color(&script.colour).pos(Pos::new(script.anchor, VPos::Center));
        self.draw(&Text::new(text, at, style))
    }

    /// The mark of a strategy; open if the figure must not be used, hatched if its disk is no
    /// hardware, and larger in both cases.
    pub(super) fn mark(&self, kind: Kind, at: Pixel, ink: Ink) -> anyhow::Result<()> {
        self.mark_in(kind, colour(kind), at, ink)
    }

    /// The same in another colour, for one of several series.
    pub(super) fn mark_in(
        &self,
        shape: Kind,
        colour: RGBColor,
        at: Pixel,
        ink: Ink,
    ) -> anyhow::Result<()> {
        let r = if ink == Ink::Full { 5 } else { 7 };
        if ink == Ink::Hatched && shape == Kind::None {
            // A cross has no inside.
            return self.cross(at, r, Dash::Dotted, colour.stroke_width(2));
        }
        self.shape(shape, colour, at, r, ink == Ink::Hollow)?;
        if ink == Ink::Hatched { self.hatch(&outline(shape, at, r)) } else { Ok(()) }
    }

    fn cross(
        &self,
        (x, y): Pixel,
        r: i32,
        dash: Dash,
        style: impl Into<ShapeStyle>,
    ) -> anyhow::Result<()> {
        let style = style.into();
        self.line(&[(x - r, y - r), (x + r, y + r)], dash, style)?;
        self.line(&[(x - r, y + r), (x + r, y - r)], dash, style)
    }

    /// White lines across a filled shape.
    fn hatch(&self, corners: &[Pixel]) -> anyhow::Result<()> {
        let sums = corners.iter().map(|(x, y)| x + y);
        let Some((least, most)) = sums.clone().min().zip(sums.max()) else { return Ok(()) };
        for sum in (least..most).skip(3).step_by(4) {
            let mut cuts: Vec<Pixel> = Vec::new();
            for (nth, &from) in corners.iter().enumerate() {
                let to = corners[(nth + 1) % corners.len()];
                let (before, after) = (sum - from.0 - from.1, sum - to.0 - to.1);
                // The sum of both coordinates is on either side of the line at the two ends.
                if (before < 0) != (after < 0) {
                    let share = |a: i32, b: i32| a + (b - a) * before / (before - after);
                    cuts.push((share(from.0, to.0), share(from.1, to.1)));
                }
            }
            if let [from, .., to] = cuts[..] {
                self.line(&[from, to], Dash::Solid, WHITE.stroke_width(1))?;
            }
        }
        Ok(())
    }

    /// The same, but small: one of very many, or where there is no room.
    pub(super) fn dot(
        &self,
        shape: Kind,
        colour: RGBColor,
        at: Pixel,
        hollow: bool,
    ) -> anyhow::Result<()> {
        self.shape(shape, colour, at, if hollow { 3 } else { 2 }, hollow)
    }

    /// A kind's shape that reaches about `r` pixels to each side.
    fn shape(
        &self,
        shape: Kind,
        colour: RGBColor,
        at: Pixel,
        r: i32,
        hollow: bool,
    ) -> anyhow::Result<()> {
        let wide = if r < 5 { 1 } else { 2 };
        match shape {
            Kind::GroupCommit if hollow => {
                return self.draw(&Circle::new(at, r, colour.stroke_width(wide)));
            }
            Kind::GroupCommit => return self.draw(&Circle::new(at, r + 1, colour.filled())),
            Kind::None => {
                let width = if hollow { 1 } else { wide };
                return self.cross(at, r, Dash::Solid, colour.stroke_width(width));
            }
            Kind::CommitRealtime | Kind::FlushRealtime | Kind::Raw => {}
        }
        let corners = outline(shape, at, r);
        if hollow {
            let closed: Vec<Pixel> = corners.iter().chain(&corners[..1]).copied().collect();
            return self.line(&closed, Dash::Solid, colour.stroke_width(wide));
        }
        self.draw(&Polygon::new(corners, colour.filled()))
    }

    fn draw<'e, E>(&self, element: &'e E) -> anyhow::Result<()>
    where
        &'e E: PointCollection<'e, Pixel>,
        E: Drawable<SVGBackend<'a>>,
    {
        self.area.draw(element).map_err(|e| anyhow!("cannot draw: {e}"))
    }
}

/// The corners of a kind's shape, of a circle some on its edge; a cross has none.
fn outline(shape: Kind, (x, y): Pixel, r: i32) -> Vec<Pixel> {
    match shape {
        Kind::GroupCommit => {
            // On a circle of r + 1, at 0, 30 and 60 degrees.
            let r = r + 1;
            let (long, short) = (r * 87 / 100, r / 2);
            let quarter = [(r, 0), (long, short), (short, long)];
            let turns = [(1, 0), (0, 1), (-1, 0), (0, -1)];
            let turned = |(c, s): (i32, i32)| {
                quarter.map(move |(dx, dy)| (x + c * dx - s * dy, y + s * dx + c * dy))
            };
            turns.into_iter().flat_map(turned).collect()
        }
        Kind::None => Vec::new(),
        Kind::CommitRealtime => {
            vec![(x - r, y - r), (x + r, y - r), (x + r, y + r), (x - r, y + r)]
        }
        Kind::FlushRealtime => vec![(x, y - r - 1), (x + r + 1, y + r), (x - r - 1, y + r)],
        Kind::Raw => vec![(x, y - r - 2), (x + r + 1, y), (x, y + r + 2), (x - r - 1, y)],
    }
}

/// How a mark is filled.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Ink {
    /// Of a disk that is no hardware.
    Hatched,
    /// Of a figure that must not be used.
    Hollow,
    /// Of every other.
    Full,
}

impl Ink {
    /// Of a row's figure, which must not be used if `hollow`.
    pub(super) fn of(row: &Row, hollow: bool) -> Self {
        match (hollow, row.not_hardware.word()) {
            (true, _) => Self::Hollow,
            (false, Some(_)) => Self::Hatched,
            (false, None) => Self::Full,
        }
    }
}

/// About what a text of this many pixels height is wide, by the shapes of a common sans serif.
pub(super) fn text_width(text: &str, size: u32) -> i32 {
    let hundredths = |c: char| match c {
        'i' | 'j' | 'l' | '\'' | '.' | ',' | ':' | ';' | '|' | '·' | '!' => 27,
        'f' | 't' | 'r' | ' ' | '(' | ')' | '[' | ']' | '-' | '/' => 34,
        'm' | 'M' | 'w' | 'W' | '@' | '%' => 88,
        'A'..='Z' | '+' | '=' | '×' => 66,
        ' '..='~' | '–' | 'µ' => 56,
        _ => 100,
    };
    let width = text.chars().fold(0_u32, |sum, c| sum.saturating_add(hundredths(c)));
    i32::try_from(width.saturating_mul(size) / 100).unwrap_or(i32::MAX)
}

/// Okabe and Ito's colours that keep a contrast of 3:1 on white; never the only sign.
pub(super) fn colour(kind: Kind) -> RGBColor {
    match kind {
        Kind::CommitRealtime => GREEN,
        Kind::FlushRealtime => VERMILLION,
        Kind::GroupCommit => BLUE,
        Kind::None => MIDDLE_GREY,
        Kind::Raw => BLACK,
    }
}

/// A number for each kind, to order marks by.
pub(super) fn kind_rank(kind: Kind) -> u8 {
    match kind {
        Kind::None => 0,
        Kind::Raw => 1,
        Kind::FlushRealtime => 2,
        Kind::CommitRealtime => 3,
        Kind::GroupCommit => 4,
    }
}

/// How the lines of a strategy are drawn.
pub(super) fn dash(kind: Kind) -> Dash {
    match kind {
        Kind::CommitRealtime => Dash::Dotted,
        Kind::FlushRealtime | Kind::Raw => Dash::Dashed,
        Kind::GroupCommit | Kind::None => Dash::Solid,
    }
}

/// How one of several series of a kind is drawn: shape and dash repeat the colour.
#[derive(Clone, Copy)]
pub(super) struct Series {
    /// The kind whose shape it has.
    pub(super) shape: Kind,
    pub(super) colour: RGBColor,
    pub(super) dash: Dash,
}

/// The look of the nth of many: past the fifth the same shapes and colours have other dashes.
pub(super) fn series(nth: usize) -> Series {
    let dashes = [Dash::Solid, Dash::Dashed, Dash::Dotted];
    let first = SERIES[nth % SERIES.len()];
    let turn = dashes.iter().position(|dash| *dash == first.dash).unwrap_or(0);
    Series { dash: dashes[(turn + nth / SERIES.len()) % dashes.len()], ..first }
}

/// The looks of strategies: of their kinds, unless one kind has several.
pub(super) struct Looks<'a> {
    names: Vec<&'a str>,
    has_twins: bool,
}

impl<'a> Looks<'a> {
    /// Of these rows, in their order.
    pub(super) fn of(rows: impl IntoIterator<Item = &'a Row>) -> Self {
        let (mut names, mut kinds): (Vec<&str>, Vec<Kind>) = Default::default();
        for row in rows {
            if !names.contains(&row.strategy.as_str()) {
                names.push(&row.strategy);
                kinds.push(row.kind);
            }
        }
        let has_twins = (1..kinds.len()).any(|nth| kinds[..nth].contains(&kinds[nth]));
        Self { names, has_twins }
    }

    /// Of a row's strategy.
    pub(super) fn look(&self, row: &Row) -> Series {
        let own = Series { shape: row.kind, colour: colour(row.kind), dash: dash(row.kind) };
        let nth = self.names.iter().position(|name| *name == row.strategy);
        nth.filter(|_| self.has_twins).map_or(own, series)
    }
}

/// The looks of series, as many as can be told apart.
pub(super) const SERIES: [Series; 5] = [
    Series { shape: Kind::GroupCommit, colour: BLUE, dash: Dash::Solid },
    Series { shape: Kind::FlushRealtime, colour: VERMILLION, dash: Dash::Dashed },
    Series { shape: Kind::CommitRealtime, colour: GREEN, dash: Dash::Dotted },
    Series { shape: Kind::Raw, colour: PURPLE, dash: Dash::Solid },
    Series { shape: Kind::None, colour: MIDDLE_GREY, dash: Dash::Dashed },
];

const BLUE: RGBColor = RGBColor(0x00, 0x72, 0xB2);
const VERMILLION: RGBColor = RGBColor(0xD5, 0x5E, 0x00);
const GREEN: RGBColor = RGBColor(0x00, 0x9E, 0x73);
const PURPLE: RGBColor = RGBColor(0xCC, 0x79, 0xA7);
const MIDDLE_GREY: RGBColor = RGBColor(0x76, 0x76, 0x76);
/// What is asked of the figures, and a second line of one strategy.
pub(super) const ASKED: RGBColor = PURPLE;
pub(super) const BLACK: RGBColor = RGBColor(0x22, 0x22, 0x22);
pub(super) const GREY: RGBColor = RGBColor(0x59, 0x59, 0x59);
pub(super) const PALE: RGBColor = RGBColor(0xE2, 0xE2, 0xE2);
pub(super) const BAND: RGBColor = RGBColor(0xF1, 0xF1, 0xEE);
pub(super) const WHITE: RGBColor = RGBColor(0xFF, 0xFF, 0xFF);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results_fixture::{cell, example};
    use crate::summary;

    #[test]
    fn strategies_of_one_kind_are_told_apart() {
        let one_each = summary::rows(&example());
        let looks = Looks::of(&one_each);
        let is_own = |row: &Row| looks.look(row).colour == colour(row.kind);
        assert!(one_each.iter().all(is_own), "as on every chart");
        let named =
            |nth: u32| cell(Kind::FlushRealtime, 8, 0, |c| c.strategy = format!("timed-{nth:02}"));
        let rows = summary::rows(&(0..15).map(named).collect::<Vec<_>>());
        let looks = Looks::of(&rows);
        let seen = rows.iter().map(|row| {
            let Series { shape, dash, .. } = looks.look(row);
            format!("{shape:?} {dash:?}")
        });
        assert_eq!(seen.collect::<std::collections::BTreeSet<_>>().len(), 15);
    }

    #[test]
    fn what_is_no_hardware_is_hatched_and_what_is_of_no_use_hollow() {
        let mut rows = summary::rows(&example());
        let row = &mut rows[0];
        assert_eq!([Ink::of(row, false), Ink::of(row, true)], [Ink::Full, Ink::Hollow]);
        row.not_hardware.emulated = true;
        assert_eq!([Ink::of(row, false), Ink::of(row, true)], [Ink::Hatched, Ink::Hollow]);
    }

    #[test]
    fn a_cross_of_no_hardware_is_dotted_and_hides_nothing() {
        let drawn = |ink| {
            let mut out = String::new();
            let pen = Pen::new(&mut out).unwrap();
            pen.mark(Kind::None, (100, 100), ink).unwrap();
            drop(pen);
            assert!(!out.contains("stroke=\"#FFFFFF\""), "{out}");
            out.matches("<poly").count() + out.matches("<line").count()
        };
        assert!(drawn(Ink::Hatched) > drawn(Ink::Full));
    }

    #[test]
    fn a_hatch_stays_within_its_shape() {
        for shape in [Kind::GroupCommit, Kind::FlushRealtime, Kind::CommitRealtime, Kind::Raw] {
            let mut out = String::new();
            let pen = Pen::new(&mut out).unwrap();
            let corners = outline(shape, (100, 100), 7);
            pen.hatch(&corners).unwrap();
            drop(pen);
            let lines: Vec<&str> = out.split("points=\"").skip(1).collect();
            assert!(lines.len() >= 2, "{shape:?}: {out}");
            for line in lines {
                let points = line.split('"').next().unwrap();
                for number in points.split([' ', ',']).filter(|number| !number.is_empty()) {
                    let number: i32 = number.parse().unwrap();
                    assert!((90..=110).contains(&number), "{shape:?}: {points}");
                }
            }
        }
    }
}
