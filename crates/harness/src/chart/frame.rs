//! The rectangle of a plot: the rulings across it, and the words along its axes.

use plotters::style::Color;

use super::axis::{Axis, Linear};
use super::pen::{self, BLACK, Dash, GREY, PALE, Pen, Script};

/// Where a plot lies on the sheet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Frame {
    pub(super) left: i32,
    pub(super) right: i32,
    pub(super) top: i32,
    pub(super) bottom: i32,
    /// Whether another with the same upward axis stands to the left.
    pub(super) has_left: bool,
    /// Whether another with the same axis across stands below.
    pub(super) has_below: bool,
}

/// A line across a plot at a round value, and what is written beside it, if anything.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Ruling {
    pub(super) at: i32,
    pub(super) text: Option<String>,
}

/// The rulings of a logarithmic axis, its values written so.
pub(super) fn rulings(axis: &Axis, shown: fn(f64) -> String) -> Vec<Ruling> {
    let ruling = |(value, written): (f64, bool)| Ruling {
        at: axis.at(value),
        text: written.then(|| round(&shown(value))),
    };
    axis.marks().into_iter().map(ruling).collect()
}

/// The rulings of a linear axis, of which every value is written.
pub(super) fn rulings_linear(axis: &Linear, shown: fn(f64) -> String) -> Vec<Ruling> {
    let ruling = |value| Ruling { at: axis.at(value), text: Some(round(&shown(value))) };
    axis.marks().into_iter().map(ruling).collect()
}

/// The rulings at these values, as far as the axis holds them.
pub(super) fn rulings_at(
    axis: &Axis,
    values: impl IntoIterator<Item = (f64, String)>,
) -> Vec<Ruling> {
    let there = values.into_iter().filter(|(value, _)| axis.holds(*value));
    there.map(|(value, text)| Ruling { at: axis.at(value), text: Some(text) }).collect()
}

impl Frame {
    /// Places for `count` plots between these heights, in rows of equal ones, with room for a
    /// heading over each, and for the words along its axes.
    pub(super) fn several(count: usize, top: i32, bottom: i32) -> Vec<Self> {
        let count = i32::try_from(count).unwrap_or(i32::MAX);
        let columns = match count {
            ..=3 => count.max(1),
            4 => 2,
            _ => 3,
        };
        let rows = (count + columns - 1) / columns;
        let (wide, high) = ((super::RIGHT - MARGIN) / columns, (bottom - top) / rows.max(1));
        let frame = |nth: i32| {
            let (left, top) = (MARGIN + nth % columns * wide, top + nth / columns * high);
            let gap = if nth % columns == columns - 1 { 0 } else { GAP };
            Self {
                left,
                right: left + wide - gap,
                top: top + 22,
                bottom: top + high - 44,
                has_left: nth % columns > 0,
                has_below: false,
            }
        };
        (0..count).map(frame).collect()
    }

    /// Lines upwards, with their words below where these leave each other room, and where nothing
    /// stands below it.
    pub(super) fn rule_across(&self, pen: &Pen<'_>, rulings: &[Ruling]) -> anyhow::Result<()> {
        let mut free = i32::MIN;
        for Ruling { at, text } in rulings {
            let line = [(*at, self.top), (*at, self.bottom)];
            pen.line(&line, Dash::Solid, PALE.mix(strength(text.is_some())))?;
            let Some(text) = text.as_ref().filter(|_| !self.has_below) else { continue };
            let half = pen::text_width(text, 12) / 2;
            if at - half >= free {
                pen.text(text, (*at, self.bottom + 14), Script::centred(12, BLACK))?;
                free = at + half + 6;
            }
        }
        Ok(())
    }

    /// Lines to the right, with their words beside the frame where these leave each other room, and
    /// where nothing stands to the left of it.
    pub(super) fn rule_up(&self, pen: &Pen<'_>, rulings: &[Ruling]) -> anyhow::Result<()> {
        let mut taken: Vec<i32> = Vec::new();
        for Ruling { at, text } in rulings {
            let line = [(self.left, *at), (self.right, *at)];
            pen.line(&line, Dash::Solid, PALE.mix(strength(text.is_some())))?;
            let Some(text) = text.as_ref().filter(|_| !self.has_left) else { continue };
            if taken.iter().all(|other| other.abs_diff(*at) >= 12) {
                pen.text(text, (self.left - 8, *at), Script::right(12, BLACK))?;
                taken.push(*at);
            }
        }
        Ok(())
    }

    /// The two axes themselves.
    pub(super) fn outline(&self, pen: &Pen<'_>) -> anyhow::Result<()> {
        let corners = [(self.left, self.top), (self.left, self.bottom), (self.right, self.bottom)];
        pen.line(&corners, Dash::Solid, GREY)
    }

    /// What is shown in it, above it, as far as it fits.
    pub(super) fn heading(&self, pen: &Pen<'_>, text: &str) -> anyhow::Result<()> {
        let text = fitting(text, self.right - self.left, 12);
        pen.text(&text, (self.left, self.top - 11), Script::left(12, BLACK).bold())
    }

    /// What is along the lower axis, with its unit.
    pub(super) fn caption(&self, pen: &Pen<'_>, text: &str) -> anyhow::Result<()> {
        let middle = i32::midpoint(self.left, self.right);
        pen.text(text, (middle, self.bottom + 31), Script::centred(12, BLACK))
    }
}

/// As much of `text` as is no wider than this many pixels.
pub(super) fn fitting(text: &str, wide: i32, size: u32) -> String {
    let mut letters = text.chars().count().min(200);
    loop {
        let clipped = crate::format::clipped(text, letters);
        // Bold letters are a little wider.
        if letters <= 1 || pen::text_width(&clipped, size) * 21 / 20 <= wide {
            return clipped;
        }
        letters -= 1;
    }
}

/// `1 s` rather than `1.0 s`: marks are round numbers.
pub(super) fn round(text: &str) -> String {
    match text.split_once(".0") {
        Some((whole, unit)) if !unit.starts_with(|c: char| c.is_ascii_digit()) => {
            format!("{whole}{unit}")
        }
        _ => text.to_owned(),
    }
}

fn strength(written: bool) -> f64 {
    if written { 1.0 } else { 0.5 }
}

/// Between two plots of a row: half of the words at the end of an axis and at the begin of another.
const GAP: i32 = 34;
/// Where the first plot of a row begins.
pub(super) const MARGIN: i32 = 72;
