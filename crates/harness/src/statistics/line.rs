//! What takes a fixed time and some for each of many: the straight line through what was measured.

/// A straight line, neither part of which is below zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// Its height at 0.
    pub fixed: f64,
    /// What it rises by from one to the next.
    pub slope: f64,
}

impl Line {
    /// The line with the least squares of relative errors through points of (x, y): heights may
    /// differ by orders of magnitude, and the small ones count as much as the large.
    ///
    /// Points that are not above 0 both ways are none. `None` with fewer than two, or if their x
    /// hardly differ, which says nothing of the slope.
    pub fn fitted(points: &[(f64, f64)]) -> Option<Self> {
        let [mut w, mut wx, mut wy, mut wxx, mut wxy] = [0.0; 5];
        let mut count = 0_u64;
        for (x, y) in points.iter().filter(|(x, y)| *x > 0.0 && *y > 0.0) {
            let weight = 1.0 / (y * y);
            w += weight;
            wx += weight * x;
            wy += weight * y;
            wxx += weight * x * x;
            wxy += weight * x * y;
            count += 1;
        }
        let determinant = w * wxx - wx * wx;
        let tells = determinant.is_finite() && determinant > ALIKE * w * wxx;
        if count < 2 || !tells {
            return None;
        }
        let slope = (w * wxy - wx * wy) / determinant;
        let fixed = (wy - slope * wx) / w;
        Some(if slope < 0.0 {
            Self { fixed: wy / w, slope: 0.0 }
        } else if fixed < 0.0 {
            Self { fixed: 0.0, slope: wxy / wxx }
        } else {
            Self { fixed, slope }
        })
    }

    /// Its height at `x`.
    pub fn at(&self, x: f64) -> f64 {
        self.fixed + self.slope * x
    }
}

/// Below this part of the largest that it can be, what x vary by is rounding.
const ALIKE: f64 = 1e-9;

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(points: &[(f64, f64)], fixed: f64, slope: f64) {
        let found = Line::fitted(points).unwrap();
        let near = |found: f64, expect: f64| (found - expect).abs() <= 1e-9 * expect.max(1.0);
        assert!(near(found.fixed, fixed) && near(found.slope, slope), "{found:?}");
    }

    #[test]
    fn points_on_a_line_give_that_line() {
        check(&[(1.0, 12.0), (10.0, 30.0), (1000.0, 2010.0)], 10.0, 2.0);
        check(&[(1.0, 5.0), (10.0, 5.0)], 5.0, 0.0);
    }

    #[test]
    fn errors_count_by_their_share() {
        let points = [(1.0, 1.0), (1.0, 4.0), (2.0, 2.0), (2.0, 8.0)];
        let found = Line::fitted(&points).unwrap();
        // At each x the height that is best of two: (1 + 1/4) by (1 + 1/16), that is 20/17.
        assert!((found.at(1.0) - 20.0 / 17.0).abs() < 1e-9, "{found:?}");
        assert!((found.at(2.0) - 40.0 / 17.0).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn no_part_of_it_is_below_zero() {
        // Falling: the level with the least relative error, (1/4 + 1) by (1/16 + 1).
        check(&[(1.0, 4.0), (2.0, 1.0)], 20.0 / 17.0, 0.0);
        // Rising so steeply that it would begin below 0: through 0, (1 + 2/9) by (1 + 4/81).
        check(&[(1.0, 1.0), (2.0, 9.0)], 0.0, (1.0 + 2.0 / 9.0) / (1.0 + 4.0 / 81.0));
    }

    #[test]
    fn what_is_one_size_or_no_number_gives_no_line() {
        for points in [
            &[][..],
            &[(1.0, 1.0)],
            &[(4096.0, 1.0), (4096.0, 2.0)],
            &[(0.0, 1.0), (2.0, 2.0), (3.0, 0.0)],
            &[(f64::NAN, 1.0), (2.0, f64::NAN), (3.0, 1.0)],
            &[(f64::INFINITY, 1.0), (2.0, 1.0)],
        ] {
            assert_eq!(Line::fitted(points), None, "{points:?}");
        }
    }
}
