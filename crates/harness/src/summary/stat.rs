//! A figure over the blocks of a row.

use crate::statistics::{self, FIRM_BLOCKS, Interval, MedianInterval};

/// A figure over the blocks of a row.
///
/// With six blocks or more it has 95 % intervals, and is the geometric mean with the t interval of
/// the logarithms. Where it is 0 in some block there are no logarithms, and it is the median with
/// the interval between two of the values. With fewer blocks it is the median, from the smallest to
/// the largest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stat {
    /// The middle one; the mean of the middle two if their count is even.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// How many blocks had this figure.
    pub blocks: usize,
    /// The geometric mean with its interval; `None` with too few blocks, or with a 0.
    pub mean: Option<(f64, Interval)>,
    /// The interval of the median; `None` with too few blocks.
    pub median_interval: Option<MedianInterval>,
}

impl Stat {
    /// Of these values, one per block; `None` without any.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = if values.len() % 2 == 1 {
            values[middle]
        } else {
            f64::midpoint(values[middle - 1], values[middle])
        };
        let firm = Some(&*values).filter(|values| values.len() >= FIRM_BLOCKS);
        let mean = firm.and_then(|values| {
            statistics::geometric_mean(values).zip(statistics::log_interval(values))
        });
        let median_interval = firm.and_then(statistics::median_interval);
        Some(Self { median, min, max, blocks: values.len(), mean, median_interval })
    }

    /// Where the figure lies.
    pub fn centre(&self) -> f64 {
        self.mean.map_or(self.median, |(mean, _)| mean)
    }

    /// The 95 % interval; `None` with too few blocks.
    pub fn interval(&self) -> Option<Interval> {
        self.mean.map(|(_, interval)| interval).or(self.median_interval.map(|found| found.interval))
    }

    /// The lower end of the interval, or else the smallest.
    pub fn low(&self) -> f64 {
        self.interval().map_or(self.min, |interval| interval.low)
    }

    /// The upper end of the interval, or else the largest.
    pub fn high(&self) -> f64 {
        self.interval().map_or(self.max, |interval| interval.high)
    }

    /// `7.6k–9.0k` by this way of writing a figure, or `one block`.
    pub fn range(&self, shown: fn(f64) -> String) -> String {
        if self.blocks == 1 {
            return "one block".to_owned();
        }
        format!("{}–{}", shown(self.low()), shown(self.high()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format;

    #[track_caller]
    fn check(values: &[f64], expect: Option<(f64, f64, f64)>) {
        let stat = Stat::of(values.iter().copied());
        assert_eq!(stat.map(|s| (s.median, s.min, s.max)), expect, "{values:?}");
    }

    #[test]
    fn the_median_of_an_even_count_is_between() {
        check(&[], None);
        check(&[5.0], Some((5.0, 5.0, 5.0)));
        check(&[9.0, 1.0], Some((5.0, 1.0, 9.0)));
        check(&[9.0, 1.0, 2.0], Some((2.0, 1.0, 9.0)));
        check(&[4.0, 1.0, 3.0, 2.0], Some((2.5, 1.0, 4.0)));
    }

    #[test]
    fn six_blocks_have_an_interval_and_five_a_range() {
        let five = Stat::of([100.0, 200.0, 100.0, 200.0, 100.0]).unwrap();
        assert_eq!((five.interval(), five.median_interval), (None, None));
        assert_eq!((five.centre(), five.low(), five.high()), (100.0, 100.0, 200.0));
        let six = Stat::of([100.0, 200.0, 100.0, 200.0, 100.0, 200.0]).unwrap();
        // Mean of logarithms ln 100 + ½ ln 2, deviation 0.379646, t of five degrees 2.5706 by √6.
        assert!((six.centre() - 141.421).abs() < 0.001, "{six:?}");
        assert!((six.low() - 141.421 * (-0.398_419_f64).exp()).abs() < 0.01, "{six:?}");
        assert_eq!(six.range(format::count), "95–211");
        assert_eq!(six.median_interval.unwrap().interval, Interval { low: 100.0, high: 200.0 });
    }

    #[test]
    fn what_is_nothing_in_some_block_keeps_its_median() {
        let rare = Stat::of([0.0, 0.0, 0.0, 0.0, 5.0, 0.0, 9.0]).unwrap();
        assert_eq!(rare.mean, None);
        assert_eq!((rare.centre(), rare.low(), rare.high()), (0.0, 0.0, 9.0));
    }
}
