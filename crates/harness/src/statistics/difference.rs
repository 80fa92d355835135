//! Whether B differs from A: block by block, where what the machine did to both takes no part; or
//! as two runs at different times, where it does.

use super::{Interval, LEVEL, Moments, logarithms, t_quantile, t_tails};
use crate::clock::{float, round};

/// By what the values of B differ from those of A.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Difference {
    /// Blocks that have both; of two runs the fewer that either has.
    pub blocks: u64,
    /// The geometric mean of B by A.
    pub ratio: f64,
    /// Its 95 % t interval.
    pub interval: Interval,
    /// How often blocks differ that much if A and B are the same.
    pub p: f64,
    /// Degrees of freedom of the interval.
    freedom: u64,
}

impl Difference {
    /// Of `(a, b)` of each block; `None` with fewer than two, or if a value is not above zero.
    pub fn paired(pairs: &[(f64, f64)]) -> Option<Self> {
        let usable = |(a, b): &(f64, f64)| *a > 0.0 && *b > 0.0 && (b / a).is_finite();
        if !pairs.iter().all(usable) {
            return None;
        }
        let logs: Vec<f64> = pairs.iter().map(|(a, b)| (b / a).ln()).collect();
        let Moments { count, mean, deviation } = Moments::of(&logs)?;
        let error = deviation / float(count).sqrt();
        (count > 1).then(|| Self::told(count, mean, error, count - 1))
    }

    /// Of the values of two runs, whose blocks are no pairs; `None` with fewer than two of either,
    /// or if a value is not above zero.
    ///
    /// By Welch's t of the logarithms, which lets either vary more than the other; its degrees of
    /// freedom (Satterthwaite) are rounded down, which makes the interval wider.
    pub fn unpaired(a: &[f64], b: &[f64]) -> Option<Self> {
        let [a, b] = [Moments::of(&logarithms(a)?)?, Moments::of(&logarithms(b)?)?];
        let fewer = a.count.min(b.count);
        if fewer < 2 {
            return None;
        }
        let [of_a, of_b] = [a.error().powi(2), b.error().powi(2)];
        let (sum, few) = (of_a + of_b, float(a.count + b.count - 2));
        let shares = of_a.powi(2) / float(a.count - 1) + of_b.powi(2) / float(b.count - 1);
        let freedom = if shares > 0.0 { sum.powi(2) / shares } else { few };
        Some(Self::told(fewer, b.mean - a.mean, sum.sqrt(), whole(freedom)))
    }

    /// Of the mean difference of logarithms and its standard error.
    fn told(blocks: u64, mean: f64, error: f64, freedom: u64) -> Self {
        let half = t_quantile(1.0 - LEVEL, freedom) * error;
        let p = match error {
            error if error > 0.0 => t_tails(mean / error, freedom),
            _ if mean.abs() > 0.0 => 0.0,
            _ => 1.0,
        };
        let interval = Interval { low: (mean - half).exp(), high: (mean + half).exp() };
        Self { blocks, ratio: mean.exp(), interval, p, freedom }
    }

    /// The t interval that misses the true ratio no more often than this.
    fn interval_at(&self, chance: f64) -> Interval {
        let freedom = self.freedom;
        let plain = (self.interval.high / self.interval.low).ln() / 2.0;
        let half = plain * t_quantile(chance, freedom) / t_quantile(1.0 - LEVEL, freedom);
        Interval { low: self.ratio * (-half).exp(), high: self.ratio * half.exp() }
    }
}

/// Degrees of freedom, rounded down; at least one.
fn whole(freedom: f64) -> u64 {
    // Rounding errors of what is whole already do not count.
    round((freedom + 1e-9).floor()).max(1)
}

impl Interval {
    /// Whether a ratio is surely not 1.
    fn excludes_none(&self) -> bool {
        self.low > 1.0 || self.high < 1.0
    }

    /// How far the farther end is from no difference, as a ratio above 1.
    fn farthest(&self) -> f64 {
        self.high.max(1.0 / self.low)
    }

    /// By what it is wider than its middle, as a ratio above 1.
    fn half_width(&self) -> f64 {
        (self.high / self.low).sqrt()
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
    /// Blocks vary too much to say anything of use: the interval, as wide as the family makes it,
    /// is wider than ±20 %. Or it differs by itself, and among so many that may be chance.
    Inconclusive,
    /// No difference as large as this, in percent, or it would have been seen, in this family.
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
    pub difference: Difference,
    /// Its chance, as [`holm`] corrects it for the others.
    pub p_holm: f64,
    /// What it found.
    pub found: Found,
}

/// What each comparison of a family found.
///
/// B is said to differ only if its interval excludes no difference, also after Holm's correction
/// for the family, and if it differs by more than the limits.
pub fn judge(family: &[(Difference, Limits)], better: Better) -> Vec<Judged> {
    let chances: Vec<f64> = family.iter().map(|(difference, _)| difference.p).collect();
    let corrected = holm(&chances).into_iter().zip(holm_levels(&chances));
    let judged = family.iter().zip(corrected);
    judged
        .map(|((difference, limits), (p_holm, chance))| Judged {
            difference: *difference,
            p_holm,
            found: found(difference, (p_holm, chance), better, *limits),
        })
        .collect()
}

/// `corrected` is its chance as Holm corrects it, and how often its interval may be wrong.
fn found(difference: &Difference, corrected: (f64, f64), better: Better, limits: Limits) -> Found {
    let (p_holm, chance) = corrected;
    let is_sure = p_holm < 1.0 - LEVEL;
    let counts = difference.ratio.max(1.0 / difference.ratio) > limits.gate();
    let differs = difference.interval.excludes_none();
    if differs && is_sure && counts {
        let is_higher = difference.ratio > 1.0;
        let is_faster = is_higher == (better == Better::Higher);
        return if is_faster { Found::Faster } else { Found::Slower };
    }
    let interval = difference.interval_at(chance);
    if differs && !is_sure || interval.half_width() > WIDEST {
        return Found::Inconclusive;
    }
    let detectable = interval.farthest().max(limits.gate());
    Found::NoDifference { detectable_pct: 100.0 * (detectable - 1.0) }
}

/// Chances corrected for how many there are, by Holm's method: the chance that at least one of the
/// family looks like a difference without being one stays below the level.
pub fn holm(chances: &[f64]) -> Vec<f64> {
    let order = ascending(chances);
    let mut corrected = vec![1.0; chances.len()];
    let mut least = 0.0_f64;
    for (rank, index) in order.into_iter().enumerate() {
        let left = float(store_core::length_u64(chances.len() - rank));
        least = least.max(left * chances[index]).min(1.0);
        corrected[index] = least;
    }
    corrected
}

/// How often the interval of each may be wrong, so that at least one of the family is no more often
/// than the level says.
///
/// By Holm's method: the level by how many are left at its step; from the first on of which there
/// is no difference to tell, all have that one's.
fn holm_levels(chances: &[f64]) -> Vec<f64> {
    let mut levels = vec![1.0 - LEVEL; chances.len()];
    let mut refused: Option<f64> = None;
    for (rank, index) in ascending(chances).into_iter().enumerate() {
        let left = float(store_core::length_u64(chances.len() - rank));
        let level = refused.unwrap_or((1.0 - LEVEL) / left);
        levels[index] = level;
        if chances[index] >= level {
            refused = Some(level);
        }
    }
    levels
}

/// Their places, the smallest first.
fn ascending(chances: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..chances.len()).collect();
    order.sort_by(|a, b| chances[*a].total_cmp(&chances[*b]));
    order
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

    fn paired(differences: &[f64]) -> Difference {
        Difference::paired(&pairs(differences)).unwrap()
    }

    #[track_caller]
    fn near(found: f64, expect: f64, within: f64) {
        assert!((found - expect).abs() <= within, "{found}, not {expect}");
    }

    const LIMITS: Limits = Limits { min_effect_pct: 5.0, noise_floor_pct: None };

    fn found_of(differences: &[f64], limits: Limits) -> Found {
        judge(&[(paired(differences), limits)], Better::Higher)[0].found
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
        assert_eq!(Difference::paired(&[]), None);
        assert_eq!(Difference::paired(&[(1.0, 2.0)]), None);
        assert_eq!(Difference::paired(&[(1.0, 2.0), (0.0, 2.0)]), None);
        let same = Difference::paired(&[(3.0, 3.0), (5.0, 5.0)]).unwrap();
        assert_eq!((same.ratio, same.p), (1.0, 1.0));
        let twice = Difference::paired(&[(3.0, 6.0), (5.0, 10.0)]).unwrap();
        near(twice.p, 0.0, 1e-12);
    }

    #[test]
    fn runs_that_are_no_pairs_are_compared_as_welch_does() {
        // Logarithms of A 0, 0.1, 0.2 and of B 0.5, 0.9, 0.7, 0.7: means 0.1 and 0.7, variances
        // 0.01 and 0.08/3, errors squared 0.01/3 and 0.02/3, sum 0.01; freedom by hand
        // 0.0001 / (0.0033333²/2 + 0.0066667²/3) = 4.909, t of four degrees 2.7764.
        let [a, b] = [&[0.0, 0.1, 0.2][..], &[0.5, 0.9, 0.7, 0.7]];
        let [a, b] = [a, b].map(|logs| logs.iter().map(|log: &f64| log.exp()).collect::<Vec<_>>());
        let found = Difference::unpaired(&a, &b).unwrap();
        assert_eq!((found.blocks, found.freedom), (3, 4));
        near(found.ratio.ln(), 0.6, 1e-12);
        near(found.interval.low.ln(), 0.6 - 2.776_45 * 0.1, 0.000_01);
        near(found.interval.high.ln(), 0.6 + 2.776_45 * 0.1, 0.000_01);
        near(found.p, t_tails(6.0, 4), 1e-9);
        // The order within a run does not matter; the other way round it is the reverse.
        let back = Difference::unpaired(&b, &a).unwrap();
        near(back.ratio * found.ratio, 1.0, 1e-12);
        near(back.interval.high * found.interval.low, 1.0, 1e-9);
        for (a, b) in [(&a[..1], &b[..]), (&a[..], &[][..]), (&[0.0, 1.0][..], &b[..])] {
            assert_eq!(Difference::unpaired(a, b), None);
        }
        let same = Difference::unpaired(&[5.0; 6], &[5.0; 6]).unwrap();
        assert_eq!((same.p, same.freedom), (1.0, 10));
    }

    #[test]
    fn a_difference_is_told_only_beyond_chance_and_beyond_the_limits() {
        let clear = [0.1, 0.1, 0.2, 0.3, 0.3, 0.1, 0.3];
        assert_eq!(found_of(&clear, LIMITS), Found::Faster);
        assert_eq!(found_of(&clear.map(|d| -d), LIMITS), Found::Slower);
        let time = judge(&[(paired(&clear), LIMITS)], Better::Lower);
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
        assert_eq!(judge(&[(one, LIMITS)], Better::Higher)[0].found, Found::Faster);
        let family = [(one, LIMITS); 12];
        let found = judge(&family, Better::Higher);
        assert!(found.iter().all(|one| one.found == Found::Inconclusive), "{found:?}");
    }

    #[test]
    fn what_can_be_told_is_less_in_a_large_family() {
        let even = (paired(&[-0.06, 0.06, -0.06, 0.06, -0.06, 0.06]), LIMITS);
        let detectable = |family: &[(Difference, Limits)]| {
            let Found::NoDifference { detectable_pct } = judge(family, Better::Higher)[0].found
            else {
                panic!("blocks vary by 6 % around nothing");
            };
            detectable_pct
        };
        // The error is 0.065727/√6 = 0.026833; t of five degrees is 2.5706, and 5.4715 at 0.05/18.
        near(detectable(&[even]), 100.0 * (2.570_6 * 0.026_833_f64).exp_m1(), 0.01);
        near(detectable(&[even; 18]), 100.0 * (5.471_5 * 0.026_833_f64).exp_m1(), 0.01);
        // Once the seventeen others are told, it is the only one left.
        let clear = (paired(&[0.30, 0.31, 0.29, 0.30, 0.31, 0.29]), LIMITS);
        let mut family = vec![even];
        family.extend([clear; 17]);
        near(detectable(&family), 100.0 * (2.570_6 * 0.026_833_f64).exp_m1(), 0.01);
        let found = judge(&family, Better::Higher);
        assert!(found[1..].iter().all(|one| one.found == Found::Faster), "{found:?}");
        // ±8 % are told alone, but among 18 the interval is wider than ±20 %.
        let wide = (paired(&[-0.09, 0.09, -0.09, 0.09, -0.09, 0.09]), LIMITS);
        assert!(matches!(judge(&[wide], Better::Higher)[0].found, Found::NoDifference { .. }));
        assert_eq!(judge(&[wide; 18], Better::Higher)[0].found, Found::Inconclusive);
    }

    #[test]
    fn holm_leaves_each_the_level_of_its_step() {
        // 0.05/4 and 0.05/3 are above the two least; 0.03 is not below 0.05/2, nor is what follows.
        let levels = holm_levels(&[0.01, 0.04, 0.03, 0.015]);
        for (found, expect) in levels.iter().zip([0.05 / 4.0, 0.05 / 2.0, 0.05 / 2.0, 0.05 / 3.0]) {
            near(*found, expect, 1e-12);
        }
        assert!(holm_levels(&[]).is_empty());
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
