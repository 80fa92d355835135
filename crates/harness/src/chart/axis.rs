//! Axes: their ends, their marks, and where a value lies on them.

use std::ops::Range;

use plotters::coord::combinators::{IntoLogRange, LogCoord};
use plotters::coord::ranged1d::Ranged;

use crate::clock::round;

/// A logarithmic axis over a range of pixels, which may run backwards.
pub(super) struct Axis {
    coord: LogCoord<f64>,
    values: Range<f64>,
    pixels: Range<i32>,
}

impl Axis {
    /// An axis that holds all of `values` with room beside them; those not above 0 are left out.
    pub(super) fn around(values: &[f64], otherwise: Range<f64>, pixels: Range<i32>) -> Self {
        let usable = values.iter().copied().filter(|value| value.is_finite() && *value > 0.0);
        let (mut low, mut high) = usable
            .fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
        if high <= 0.0 {
            (low, high) = (otherwise.start, otherwise.end);
        }
        let low = round_numbers().rfind(|round| *round <= low / 1.15).unwrap_or(SMALLEST);
        let high = round_numbers().find(|round| *round >= high * 1.15).unwrap_or(LARGEST);
        // A shorter axis would show noise as if it were a difference.
        let high = high.max(low * 10.0);
        Self { coord: (low..high).log_scale().into(), values: low..high, pixels }
    }

    /// An axis from just this value to that, both above 0.
    pub(super) fn between(low: f64, high: f64, pixels: Range<i32>) -> Self {
        Self { coord: (low..high).log_scale().into(), values: low..high, pixels }
    }

    /// Whether the axis reaches as far as `value`.
    pub(super) fn holds(&self, value: f64) -> bool {
        value >= self.values.start && value <= self.values.end
    }

    /// The pixel of `value`; the nearer end for those outside.
    pub(super) fn at(&self, value: f64) -> i32 {
        let inside = value.clamp(self.values.start, self.values.end);
        self.coord.map(&inside, (self.pixels.start, self.pixels.end))
    }

    /// The values to mark, and whether there is room to write them.
    pub(super) fn marks(&self) -> Vec<(f64, bool)> {
        let inside = |value: f64| value >= self.values.start && value <= self.values.end;
        let decades = powers_of_ten().filter(|power| inside(*power)).count();
        let every = decades.div_ceil(8);
        let mut marks = Vec::new();
        for (index, power) in powers_of_ten().enumerate() {
            for (value, decade) in [(power, true), (2.0 * power, false), (5.0 * power, false)] {
                let written = decades <= 2 || (decade && index % every == 0);
                if inside(value) && (written || decades <= 5) {
                    marks.push((value, written));
                }
            }
        }
        marks
    }
}

/// A linear axis from 0, from one pixel to another, which may lie before it.
pub(super) struct Linear {
    end: f64,
    from: i32,
    to: i32,
}

impl Linear {
    /// An axis that holds `highest`, which ends at a round number; at 1 if that is not above 0.
    pub(super) fn up_to(highest: f64, from: i32, to: i32) -> Self {
        let highest = if highest.is_finite() && highest > 0.0 { highest } else { 1.0 };
        let step = Self::step(highest);
        Self { end: step * (highest / step).ceil(), from, to }
    }

    /// A round number that goes into `end` three to eight times.
    fn step(end: f64) -> f64 {
        round_numbers().find(|step| end / step <= 6.0).unwrap_or(LARGEST)
    }

    /// The pixel of `value`; the nearer end for those outside.
    pub(super) fn at(&self, value: f64) -> i32 {
        let share = (value / self.end).clamp(0.0, 1.0);
        let along = round(share * f64::from(self.from.abs_diff(self.to)));
        let along = i32::try_from(along).expect("a share of an i32");
        if self.to < self.from { self.from - along } else { self.from + along }
    }

    /// The values to mark, 0 and the end among them.
    pub(super) fn marks(&self) -> Vec<f64> {
        let step = Self::step(self.end);
        (0..=8).map(|nth| f64::from(nth) * step).filter(|mark| *mark <= self.end * 1.001).collect()
    }
}

const SMALLEST: f64 = 1e-6;
const LARGEST: f64 = 1e24;

fn powers_of_ten() -> impl DoubleEndedIterator<Item = f64> {
    (-6..=24).map(|exponent| 10_f64.powi(exponent))
}

/// 1, 2 and 5 of every decade.
fn round_numbers() -> impl DoubleEndedIterator<Item = f64> {
    powers_of_ten().flat_map(|power| [power, 2.0 * power, 5.0 * power])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(values: &[f64], ends: (f64, f64)) {
        let axis = Axis::around(values, 1.0..1000.0, 0..100);
        let near = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-9;
        assert!(
            near(axis.values.start, ends.0) && near(axis.values.end, ends.1),
            "{:?} for {values:?}",
            axis.values
        );
        assert_eq!((axis.at(0.0), axis.at(f64::MAX)), (0, 100));
        let written = axis.marks().iter().filter(|(_, written)| *written).count();
        assert!((2..=10).contains(&written), "{written} marks for {values:?}");
    }

    #[test]
    fn an_axis_holds_its_values_with_room() {
        check(&[8_000.0, 9_000.0], (5_000.0, 50_000.0));
        check(&[7_000.0, 450_000.0], (5_000.0, 1e6));
        check(&[0.0, f64::NAN, 100.0], (50.0, 500.0));
        check(&[1e-3, 1e12], (5e-4, 2e12));
        check(&[1e-300, 1e300], (SMALLEST, LARGEST));
    }

    #[test]
    fn without_values_there_is_still_an_axis() {
        check(&[], (0.5, 2_000.0));
        check(&[0.0], (0.5, 2_000.0));
    }

    #[test]
    fn a_linear_axis_begins_at_0_and_ends_at_a_round_number() {
        for (highest, end, marks) in
            [(1013.0, 1200.0, 7), (5.0, 5.0, 6), (37.0, 40.0, 5), (0.0, 1.0, 6), (f64::NAN, 1.0, 6)]
        {
            let axis = Linear::up_to(highest, 300, 100);
            assert!((axis.end - end).abs() < 1e-9 * end, "{} for {highest}", axis.end);
            assert_eq!(axis.marks().len(), marks, "{highest}");
            assert_eq!((axis.at(0.0), axis.at(end / 2.0), axis.at(2.0 * end)), (300, 200, 100));
        }
    }

    #[test]
    fn values_go_where_their_logarithm_is() {
        let axis = Axis::around(&[2.0, 80.0], 1.0..10.0, 0..200);
        assert_eq!((axis.at(1.0), axis.at(10.0), axis.at(100.0)), (0, 100, 200));
    }
}
