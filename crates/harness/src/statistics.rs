//! What repetitions say beyond themselves: intervals, comparisons, steady state.
//!
//! One value is one repetition of a cell, never one message. Rates and times are compared by ratio,
//! so means and t intervals are taken of logarithms and given back as what they are of.

mod difference;
mod line;
mod steady;

pub use self::difference::{Better, Difference, Found, Judged, Limits, holm, judge, noise_floor};
pub use self::line::Line;
pub use self::steady::{Steadiness, WINDOWS};
use crate::clock::float;

/// A range that holds the true value in 95 of 100 runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Its lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

/// A range between two of the values, which holds the true median at least that often.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MedianInterval {
    /// Its ends.
    pub interval: Interval,
    /// How often it holds the median, in percent: at least 95, exact, whatever the distribution.
    pub coverage_pct: f64,
}

/// The geometric mean; `None` without values, or if one is not above zero.
pub fn geometric_mean(values: &[f64]) -> Option<f64> {
    Some(Moments::of(&logarithms(values)?)?.mean.exp())
}

/// The 95 % t interval of the geometric mean; `None` with fewer than two values, or if one is not
/// above zero.
pub fn log_interval(values: &[f64]) -> Option<Interval> {
    let moments = Moments::of(&logarithms(values)?)?;
    let half = moments.half_width()?;
    Some(Interval { low: (moments.mean - half).exp(), high: (moments.mean + half).exp() })
}

/// The narrowest interval between two values, equally far from the ends, that holds the median in
/// 95 of 100 runs; `None` with fewer than six values, which have none.
pub fn median_interval(values: &[f64]) -> Option<MedianInterval> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    // The chance that this many of the values lie below the median: binomial, one half each.
    let count = float(store_core::length_u64(sorted.len()));
    let mut exactly = 0.5_f64.powf(count);
    let mut below = exactly;
    let mut found = None;
    for left_out in 0..sorted.len() / 2 {
        let coverage = 1.0 - 2.0 * below;
        if coverage < LEVEL {
            break;
        }
        let interval =
            Interval { low: sorted[left_out], high: sorted[sorted.len() - 1 - left_out] };
        found = Some(MedianInterval { interval, coverage_pct: 100.0 * coverage });
        let nth = float(store_core::length_u64(left_out));
        exactly *= (count - nth) / (nth + 1.0);
        below += exactly;
    }
    found
}

/// How often a value of Student's t with so many degrees of freedom is at least this far from zero,
/// on either side.
///
/// By the finite series for whole degrees of freedom: Abramowitz and Stegun, 26.7.3 and 26.7.4.
///
/// # Panics
///
/// If there is no degree of freedom.
pub fn t_tails(t: f64, freedom: u64) -> f64 {
    assert!(freedom > 0, "t has at least one degree of freedom");
    let angle = (t.abs() / float(freedom).sqrt()).atan();
    let (sine, cosine) = angle.sin_cos();
    let is_odd = freedom % 2 == 1;
    // Each term is the one before by cosine² and by a fraction: 2/3, 4/5, … or 1/2, 3/4, ….
    let mut term = if is_odd { cosine } else { 1.0 };
    let mut sum = 0.0;
    let mut below = if is_odd { 3 } else { 2 };
    while below <= freedom {
        sum += term;
        term *= cosine * cosine * float(below - 1) / float(below);
        below += 2;
    }
    let within =
        if is_odd { (angle + sine * sum) * std::f64::consts::FRAC_2_PI } else { sine * sum };
    (1.0 - within).max(0.0)
}

/// What t exceeds no more often than this, on either side.
fn t_quantile(chance: f64, freedom: u64) -> f64 {
    let (mut low, mut high) = (0.0, 16.0);
    while t_tails(high, freedom) > chance {
        (low, high) = (high, 2.0 * high);
    }
    // 60 halvings leave nothing to be seen.
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if t_tails(middle, freedom) > chance { low = middle } else { high = middle }
    }
    high
}

/// Mean and standard deviation of a sample.
#[derive(Clone, Copy, Debug)]
struct Moments {
    count: u64,
    mean: f64,
    deviation: f64,
}

impl Moments {
    fn of(values: &[f64]) -> Option<Self> {
        let count = store_core::length_u64(values.len());
        if count == 0 {
            return None;
        }
        let mean = values.iter().sum::<f64>() / float(count);
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let deviation = (squares / float(count - 1).max(1.0)).sqrt();
        Some(Self { count, mean, deviation })
    }

    fn error(&self) -> f64 {
        self.deviation / float(self.count).sqrt()
    }

    /// Half of the 95 % interval of the mean; `None` of one value, which has none.
    fn half_width(&self) -> Option<f64> {
        (self.count > 1).then(|| t_quantile(1.0 - LEVEL, self.count - 1) * self.error())
    }
}

fn logarithms(values: &[f64]) -> Option<Vec<f64>> {
    let all = values.iter().all(|value| *value > 0.0 && value.is_finite());
    all.then(|| values.iter().map(|value| value.ln()).collect())
}

/// With fewer blocks not even smallest and largest hold the median in 95 of 100 runs: there are no
/// intervals, and what is shown is indicative.
pub const FIRM_BLOCKS: usize = 6;
/// How sure an interval is.
const LEVEL: f64 = 0.95;

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn near(found: f64, expect: f64, within: f64) {
        assert!((found - expect).abs() <= within, "{found}, not {expect}");
    }

    #[test]
    fn t_is_as_in_the_tables() {
        for (freedom, expect) in [
            (1, 12.706),
            (2, 4.303),
            (3, 3.182),
            (4, 2.776),
            (5, 2.571),
            (6, 2.447),
            (9, 2.262),
            (14, 2.145),
            (30, 2.042),
            (120, 1.980),
        ] {
            near(t_quantile(0.05, freedom), expect, 0.000_5);
        }
        // 99 % and 99.9 % of the same tables.
        near(t_quantile(0.01, 6), 3.707, 0.000_5);
        near(t_quantile(0.001, 1), 636.62, 0.005);
        near(t_tails(3.707, 6), 0.01, 0.000_01);
        near(t_tails(3.169, 10), 0.01, 0.000_01);
        near(t_tails(-6.869, 5), 0.001, 0.000_001);
        near(t_tails(0.0, 7), 1.0, 1e-12);
        // One degree of freedom is Cauchy's: beyond 1 on either side is one half.
        near(t_tails(1.0, 1), 0.5, 1e-12);
    }

    #[test]
    fn the_interval_of_the_median_is_between_two_values() {
        let of = |count: u32| {
            let values: Vec<f64> = (1..=count).rev().map(f64::from).collect();
            median_interval(&values).map(|found| {
                let Interval { low, high } = found.interval;
                (low, high, (found.coverage_pct * 10.0).round() / 10.0)
            })
        };
        for few in 0..6 {
            assert_eq!(of(few), None, "{few}");
        }
        assert_eq!(of(6), Some((1.0, 6.0, 96.9)));
        assert_eq!(of(7), Some((1.0, 7.0, 98.4)));
        assert_eq!(of(8), Some((1.0, 8.0, 99.2)));
        assert_eq!(of(9), Some((2.0, 8.0, 96.1)));
        assert_eq!(of(12), Some((3.0, 10.0, 96.1)));
        assert_eq!(of(15), Some((4.0, 12.0, 96.5)));
        assert_eq!(of(20), Some((6.0, 15.0, 95.9)));
    }

    #[test]
    fn means_and_intervals_are_of_logarithms() {
        near(geometric_mean(&[1.0, 100.0]).unwrap(), 10.0, 1e-12);
        // Logarithms 0, 1, 2: mean 1, deviation 1, t of two degrees 4.3027 by √3: 2.4842.
        let e = std::f64::consts::E;
        let found = log_interval(&[1.0, e, e * e]).unwrap();
        near(found.low.ln(), 1.0 - 2.484_14, 0.000_01);
        near(found.high.ln(), 1.0 + 2.484_14, 0.000_01);
    }

    #[test]
    fn what_has_no_logarithm_has_no_interval() {
        for values in [&[][..], &[0.0, 1.0], &[-1.0, 1.0], &[f64::INFINITY, 1.0]] {
            assert_eq!((geometric_mean(values), log_interval(values)), (None, None), "{values:?}");
        }
        assert_eq!(log_interval(&[5.0]), None, "one repetition varies by nobody knows what");
        let same = log_interval(&[5.0; 6]).unwrap();
        near(same.low, 5.0, 1e-12);
        near(same.high, 5.0, 1e-12);
    }
}
