//! Whether a rate had settled: SNIA's rule for solid-state disks, on five windows.

/// How much the rate moved over five windows of a cell.
///
/// SNIA calls a device steady if the windows lie within 20 % of their mean of each other, and the
/// straight line through them rises or falls by no more than 10 % from the first to the last
/// ("Solid State Storage Performance Test Specification", steady state).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Steadiness {
    /// The highest window less the lowest, in percent of the mean.
    pub range_pct: f64,
    /// What the straight line rises by from the first window to the last, in percent of the mean;
    /// below zero if it falls.
    pub rise_pct: f64,
}

impl Steadiness {
    /// Of five windows, in the order of time; `None` if nothing happened in any.
    pub fn of(windows: [f64; WINDOWS]) -> Option<Self> {
        let mean = windows.iter().sum::<f64>() / 5.0;
        if !mean.is_finite() || mean <= 0.0 {
            return None;
        }
        let most = windows.iter().copied().fold(f64::MIN, f64::max);
        let least = windows.iter().copied().fold(f64::MAX, f64::min);
        // Least squares over the places −2 to 2, the squares of which sum up to ten.
        let [w1, w2, _, w4, w5] = windows;
        let slope = (2.0 * (w5 - w1) + (w4 - w2)) / 10.0;
        Some(Self {
            range_pct: 100.0 * (most - least) / mean,
            rise_pct: 100.0 * slope * 4.0 / mean,
        })
    }

    /// Whether both are within the rule.
    pub fn is_steady(&self) -> bool {
        self.range_pct <= MOST_RANGE_PCT && self.rise_pct.abs() <= MOST_RISE_PCT
    }
}

/// Windows of a cell.
pub const WINDOWS: usize = 5;
const MOST_RANGE_PCT: f64 = 20.0;
const MOST_RISE_PCT: f64 = 10.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(windows: [f64; 5], range_pct: f64, rise_pct: f64, steady: bool) {
        let found = Steadiness::of(windows).unwrap();
        assert!((found.range_pct - range_pct).abs() < 1e-9, "{found:?}");
        assert!((found.rise_pct - rise_pct).abs() < 1e-9, "{found:?}");
        assert_eq!(found.is_steady(), steady, "{found:?}");
    }

    #[test]
    fn range_and_rise_are_within_their_limits() {
        check([100.0; 5], 0.0, 0.0, true);
        // A straight line: its rise is its range.
        check([96.0, 98.0, 100.0, 102.0, 104.0], 8.0, 8.0, true);
        check([104.0, 102.0, 100.0, 98.0, 96.0], 8.0, -8.0, true);
        check([94.0, 97.0, 100.0, 103.0, 106.0], 12.0, 12.0, false);
        // Up and down, without a direction: the range alone decides.
        check([100.0, 110.0, 90.0, 110.0, 90.0], 20.0, -8.0, true);
        check([100.0, 89.0, 111.0, 100.0, 100.0], 22.0, 4.4, false);
        // One burst at the beginning, as from a cache that is then full.
        check([180.0, 80.0, 80.0, 80.0, 80.0], 100.0, -80.0, false);
    }

    #[test]
    fn nothing_is_not_steady() {
        assert_eq!(Steadiness::of([0.0; 5]), None);
        assert_eq!(Steadiness::of([f64::NAN; 5]), None);
    }
}
