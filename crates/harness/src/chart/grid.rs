//! The grid of a plot: lines at an axis's marks, and what is written beside them.

use plotters::style::Color;

use super::axis::{Axis, Linear};
use super::pen::{BLACK, Dash, PALE, Pen, Script};

/// Lines from `top` to `bottom` at the marks of an axis that goes across; below them the values, if
/// they are to be written.
pub(super) fn across(
    pen: &Pen<'_>,
    axis: &Axis,
    (top, bottom): (i32, i32),
    shown: Option<fn(f64) -> String>,
) -> anyhow::Result<()> {
    for (value, written) in axis.marks() {
        let x = axis.at(value);
        pen.line(&[(x, top), (x, bottom)], Dash::Solid, PALE.mix(strength(written)))?;
        if let Some(shown) = shown.filter(|_| written) {
            pen.text(&round(&shown(value)), (x, bottom + 14), Script::centred(12, BLACK))?;
        }
    }
    Ok(())
}

/// Lines from `left` to `right` at the marks of an axis that goes up, and the values before them.
pub(super) fn up(
    pen: &Pen<'_>,
    axis: &Axis,
    (left, right): (i32, i32),
    shown: fn(f64) -> String,
) -> anyhow::Result<()> {
    for (value, written) in axis.marks() {
        let y = axis.at(value);
        pen.line(&[(left, y), (right, y)], Dash::Solid, PALE.mix(strength(written)))?;
        if written {
            pen.text(&round(&shown(value)), (left - 8, y), Script::right(12, BLACK))?;
        }
    }
    Ok(())
}

/// The same for a linear axis, of which every mark is written.
pub(super) fn up_linear(
    pen: &Pen<'_>,
    axis: &Linear,
    (left, right): (i32, i32),
    shown: fn(f64) -> String,
) -> anyhow::Result<()> {
    for value in axis.marks() {
        let y = axis.at(value);
        pen.line(&[(left, y), (right, y)], Dash::Solid, PALE)?;
        pen.text(&round(&shown(value)), (left - 8, y), Script::right(12, BLACK))?;
    }
    Ok(())
}

fn strength(written: bool) -> f64 {
    if written { 1.0 } else { 0.5 }
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
