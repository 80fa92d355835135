//! Whether B differs from A, block by block: what the machine did to both takes no part.

use super::{Interval, LEVEL, Moments, t_tails};
use crate::clock::float;

/// The values of two contenders, paired by block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Paired {
    /// Blocks that have both.
    pub blocks: u64,
    /// The geometric mean of B by A.
    pub ratio: f64,
    /// Its 95 % t interval.
    pub interval: Interval,
    /// How often blocks differ that much if A and B are the same.
    pub p: f64,
}

impl Paired {
    /// Of `(a, b)` of each block; `None` with fewer than two, or if a value is not above zero.
    pub fn of(pairs: &[(f64, f64)]) -> Option<Self> {
        let usable = |(a, b): &(f64, f64)| *a > 0.0 && *b > 0.0 && (b / a).is_finite();
        if !pairs.iter().all(usable) {
            return None;
        }
        let logs: Vec<f64> = pairs.iter().map(|(a, b)| (b / a).ln()).collect();
        let moments = Moments::of(&logs)?;
        let half = moments.half_width()?;
        let p = match moments.error() {
            error if error > 0.0 => t_tails(moments.mean / error, moments.count - 1),
            _ if moments.mean.abs() > 0.0 => 0.0,
            _ => 1.0,
        };
        Some(Self {
            blocks: moments.count,
            ratio: moments.mean.exp(),
            interval: Interval {
                low: (moments.mean - half).exp(),
                high: (moments.mean + half).exp(),
            },
            p,
        })
    }

    /// How far the interval's farther end is from no difference, as a ratio above 1.
    fn farthest(&self) -> f64 {
        self.interval.high.max(1.0 / self.interval.low)
    }

    /// By what the interval is wider than its middle, as a ratio above 1.
    fn half_width(&self) -> f64 {
        (self.interval.high / self.interval.low).sqrt()
    }
}

/// Which of two values is the better one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Better {
    /// The higher: a rate.
    Higher,
    /// The lower: a time.
    Lower,
}

/// What a comparison found of B.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Found {
    /// It is faster than A.
    Faster,
    /// Blocks vary too much to say anything of use: the interval is wider than ±20 %.
    Inconclusive,
    /// No difference as large as this, in percent, or it would have been seen.
    NoDifference {
        /// The difference that can be ruled out, or does not count.
        detectable_pct: f64,
    },
    /// It is slower than A.
    Slower,
}

/// What a difference must exceed to be told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Smaller ones interest nobody, in percent.
    pub min_effect_pct: f64,
    /// What the same thing differs by from itself, in percent, see [`noise_floor`]; `None` if that
    /// was not measured.
    pub noise_floor_pct: Option<f64>,
}

impl Limits {
    /// The larger of both, as a ratio above 1.
    fn gate(&self) -> f64 {
        1.0 + self.min_effect_pct.max(self.noise_floor_pct.unwrap_or(0.0)) / 100.0
    }
}

/// A comparison among others, and what it found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judged {
    /// The comparison.
    pub paired: Paired,
    /// Its chance, as [`holm`] corrects it for the others.
    pub p_holm: f64,
    /// What it found.
    pub found: Found,
}

/// What each comparison of a family found.
///
/// B is said to differ only if its interval excludes no difference, also after Holm's correction
/// for the family, and if it differs by more than the limits.
pub fn judge(family: &[Paired], better: Better, limits: Limits) -> Vec<Judged> {
    let corrected = holm(&family.iter().map(|paired| paired.p).collect::<Vec<_>>());
    let judged = family.iter().zip(corrected);
    judged
        .map(|(paired, p_holm)| Judged {
            paired: *paired,
            p_holm,
            found: found(paired, p_holm, better, limits),
        })
        .collect()
}

fn found(paired: &Paired, p_holm: f64, better: Better, limits: Limits) -> Found {
    let Interval { low, high } = paired.interval;
    let excludes_none = low > 1.0 || high < 1.0;
    let counts = paired.ratio.max(1.0 / paired.ratio) > limits.gate();
    if excludes_none && p_holm < 1.0 - LEVEL && counts {
        let is_higher = paired.ratio > 1.0;
        let is_faster = is_higher == (better == Better::Higher);
        return if is_faster { Found::Faster } else { Found::Slower };
    }
    if paired.half_width() > WIDEST {
        return Found::Inconclusive;
    }
    let detectable = paired.farthest().max(limits.gate());
    Found::NoDifference { detectable_pct: 100.0 * (detectable - 1.0) }
}

/// Chances corrected for how many there are, by Holm's method: the chance that at least one of the
/// family looks like a difference without being one stays below the level.
pub fn holm(chances: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..chances.len()).collect();
    order.sort_by(|a, b| chances[*a].total_cmp(&chances[*b]));
    let mut corrected = vec![1.0; chances.len()];
    let mut least = 0.0_f64;
    for (rank, index) in order.into_iter().enumerate() {
        let left = float(store_core::length_u64(chances.len() - rank));
        least = least.max(left * chances[index]).min(1.0);
        corrected[index] = least;
    }
    corrected
}

/// What the same thing, measured twice in a block, differs by in 95 of 100 blocks, in percent.
///
/// With fewer than 20 blocks that is the largest difference. `None` without a usable pair.
pub fn noise_floor(pairs: &[(f64, f64)]) -> Option<f64> {
    let usable = pairs.iter().filter(|(a, b)| *a > 0.0 && *b > 0.0);
    let mut logs: Vec<f64> = usable.map(|(a, b)| (b / a).ln().abs()).collect();
    logs.sort_by(f64::total_cmp);
    // The nearest rank: the smallest that 95 of 100 do not exceed.
    let nth = (19 * logs.len()).div_ceil(20).checked_sub(1)?;
    Some(100.0 * logs.get(nth)?.exp_m1())
}

/// Wider intervals, to one side, say nothing.
const WIDEST: f64 = 1.2;

#[cfg(test)]
mod tests {
    use super::*;

    /// Pairs whose logarithms differ by these.
    fn pairs(differences: &[f64]) -> Vec<(f64, f64)> {
        let mut a = 1000.0;
        let pair = |difference: &f64| {
            // The machine gets slower and slower; the pairs do not mind.
            a *= 0.7;
            (a, a * difference.exp())
        };
        differences.iter().map(pair).collect()
    }

    fn paired(differences: &[f64]) -> Paired {
        Paired::of(&pairs(differences)).unwrap()
    }

    #[track_caller]
    fn near(found: f64, expect: f64, within: f64) {
        assert!((found - expect).abs() <= within, "{found}, not {expect}");
    }

    const LIMITS: Limits = Limits { min_effect_pct: 5.0, noise_floor_pct: None };

    fn found_of(differences: &[f64], limits: Limits) -> Found {
        judge(&[paired(differences)], Better::Higher, limits)[0].found
    }

    #[test]
    fn pairs_give_ratio_interval_and_chance() {
        // Mean 0.2, deviation 0.1, error 0.1/√7 = 0.037796, t = 5.2915, of six degrees 2.4469.
        let differences = [0.1, 0.1, 0.2, 0.3, 0.3, 0.1, 0.3];
        let found = paired(&differences);
        assert_eq!(found.blocks, 7);
        near(found.ratio.ln(), 0.2, 1e-12);
        near(found.interval.low.ln(), 0.2 - 2.446_9 * 0.037_796, 0.000_01);
        near(found.interval.high.ln(), 0.2 + 2.446_9 * 0.037_796, 0.000_01);
        // By integrating the density numerically: 0.001845.
        near(found.p, 0.001_844_8, 0.000_000_1);
    }

    #[test]
    fn what_cannot_be_paired_is_not_compared() {
        assert_eq!(Paired::of(&[]), None);
        assert_eq!(Paired::of(&[(1.0, 2.0)]), None);
        assert_eq!(Paired::of(&[(1.0, 2.0), (0.0, 2.0)]), None);
        let same = Paired::of(&[(3.0, 3.0), (5.0, 5.0)]).unwrap();
        assert_eq!((same.ratio, same.p), (1.0, 1.0));
        let twice = Paired::of(&[(3.0, 6.0), (5.0, 10.0)]).unwrap();
        near(twice.p, 0.0, 1e-12);
    }

    #[test]
    fn a_difference_is_told_only_beyond_chance_and_beyond_the_limits() {
        let clear = [0.1, 0.1, 0.2, 0.3, 0.3, 0.1, 0.3];
        assert_eq!(found_of(&clear, LIMITS), Found::Faster);
        assert_eq!(found_of(&clear.map(|d| -d), LIMITS), Found::Slower);
        let time = judge(&[paired(&clear)], Better::Lower, LIMITS);
        assert_eq!(time[0].found, Found::Slower, "a longer time is slower");
        // Sure, but no more than 4 %.
        let small = [0.038, 0.039, 0.04, 0.041, 0.042, 0.039, 0.041];
        assert!(paired(&small).interval.low > 1.0);
        assert!(matches!(found_of(&small, LIMITS), Found::NoDifference { .. }));
        // The same with a machine that differs from itself by a quarter.
        let noisy = Limits { noise_floor_pct: Some(25.0), ..LIMITS };
        let Found::NoDifference { detectable_pct } = found_of(&clear, noisy) else {
            panic!("22 % are within the noise of 25 %");
        };
        near(detectable_pct, 100.0 * (0.2_f64 + 2.446_9 * 0.037_796).exp_m1(), 0.01);
    }

    #[test]
    fn without_a_difference_it_says_what_would_have_been_seen() {
        let even = [-0.06, 0.06, -0.06, 0.06, -0.06, 0.06];
        let Found::NoDifference { detectable_pct } = found_of(&even, LIMITS) else {
            panic!("blocks vary by 6 % around nothing");
        };
        // Deviation 0.06·√(6/5) = 0.065727, by √6, of five degrees 2.5706: 0.068977.
        near(detectable_pct, 100.0 * 0.068_977_f64.exp_m1(), 0.01);
        let wild = [-0.6, 0.6, -0.6, 0.6, -0.6, 0.6];
        assert_eq!(found_of(&wild, LIMITS), Found::Inconclusive);
    }

    #[test]
    fn holm_steps_down_through_the_family() {
        // By hand: 4·0.01, 3·0.015, 2·0.03, and 0.04 raised to what stands before it.
        let corrected = holm(&[0.01, 0.04, 0.03, 0.015]);
        for (found, expect) in corrected.iter().zip([0.04, 0.06, 0.06, 0.045]) {
            near(*found, expect, 1e-12);
        }
        assert_eq!(holm(&[0.9, 0.8]), [1.0, 1.0]);
        assert!(holm(&[]).is_empty());
    }

    #[test]
    fn many_comparisons_make_each_less_sure() {
        // Alone p = 0.0075, of twelve 0.09.
        let one = paired(&[0.05, 0.15, 0.3, 0.02, 0.2, 0.1, 0.18]);
        assert!(one.p < 0.05 && one.p > 0.05 / 12.0, "{}", one.p);
        assert_eq!(judge(&[one], Better::Higher, LIMITS)[0].found, Found::Faster);
        let family = [one; 12];
        assert_ne!(judge(&family, Better::Higher, LIMITS)[0].found, Found::Faster);
    }

    #[test]
    fn noise_is_what_the_same_thing_differs_by() {
        assert_eq!(noise_floor(&[]), None);
        assert_eq!(noise_floor(&[(0.0, 1.0)]), None);
        near(noise_floor(&[(100.0, 104.0), (110.0, 100.0)]).unwrap(), 10.0, 1e-9);
        // Of twenty the nineteenth: one wild block of twenty is left out, of ten it is not.
        let block = |nth: u32| (100.0, if nth == 7 { 900.0 } else { 100.0 + f64::from(nth) / 4.0 });
        let blocks: Vec<_> = (1..=20).map(block).collect();
        near(noise_floor(&blocks).unwrap(), 5.0, 1e-9);
        near(noise_floor(&blocks[..10]).unwrap(), 800.0, 1e-9);
    }
}
