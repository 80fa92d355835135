//! How long appends took, tenth of a second by tenth of a second: counted where they end, taken
//! where the cell is watched.

use std::array;
use std::sync::atomic::{AtomicU32, Ordering};

use store_core::Nanos;

/// How many appends took about how long. One thread counts; any may look.
#[derive(Debug)]
pub(crate) struct Took([AtomicU32; BINS]);

impl Default for Took {
    fn default() -> Self {
        Self(array::from_fn(|_| AtomicU32::new(0)))
    }
}

impl Took {
    /// Counts one more.
    pub(crate) fn add(&self, took: Nanos) {
        let count = &self.0[bin(took.get())];
        // Nobody else writes it, so that it needs no locked instruction.
        count.store(count.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }
}

/// What was taken so far.
#[derive(Debug)]
pub(crate) struct Tail {
    before: Vec<u32>,
}

impl Default for Tail {
    fn default() -> Self {
        Self { before: vec![0; BINS] }
    }
}

impl Tail {
    /// What 99 of 100 appends took at most that were counted since this was last asked, to 1/16 and
    /// never less; 0 if there were none. Of fewer than 100 it is the longest.
    pub(crate) fn take_p99<'a>(&mut self, all: impl IntoIterator<Item = &'a Took>) -> Nanos {
        let mut now = vec![0_u32; BINS];
        for took in all {
            for (sum, count) in now.iter_mut().zip(&took.0) {
                *sum = sum.wrapping_add(count.load(Ordering::Relaxed));
            }
        }
        let new: Vec<u64> = now
            .iter()
            .zip(&self.before)
            .map(|(now, old)| u64::from(now.wrapping_sub(*old)))
            .collect();
        self.before = now;
        let total: u64 = new.iter().sum();
        let mut left = total - total / 100;
        for (bin, count) in new.iter().enumerate() {
            if left <= *count && *count > 0 {
                return Nanos::new(most(bin));
            }
            left -= count;
        }
        Nanos::new(0)
    }
}

/// Where a time is counted: sixteen bins for each power of two.
fn bin(ns: u64) -> usize {
    let power = ns.max(1).ilog2();
    let place = if power < FINE { ns } else { (ns >> (power - FINE)) & ((1 << FINE) - 1) };
    let octave = u64::from(power.saturating_sub(FINE - 1));
    let bin = (octave << FINE) + place;
    usize::try_from(bin).map_or(BINS - 1, |bin| bin.min(BINS - 1))
}

/// The longest time that is counted there.
fn most(bin: usize) -> u64 {
    let bin = store_core::length_u64(bin);
    let (octave, place) = (bin >> FINE, bin & ((1 << FINE) - 1));
    match octave.checked_sub(1) {
        None => place,
        Some(shift) => (((1 << FINE) + place + 1) << shift) - 1,
    }
}

/// Bits that tell the bins of one power of two apart.
const FINE: u32 = 4;
/// Up to 2^38 ns, more than four minutes; what takes longer is counted in the last.
const BINS: usize = 35 << FINE;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_is_in_a_bin_that_is_at_most_a_sixteenth_wide() {
        let mut last = None;
        for ns in (0..5000).chain([1 << 20, (1 << 20) + 70_000, 1_000_000_007, (1 << 38) - 1]) {
            let bin = bin(ns);
            assert!(last.is_none_or(|last| last <= bin), "in order: {ns}");
            last = Some(bin);
            assert!(ns <= most(bin) && most(bin) - ns <= ns / 16, "{ns}: {}", most(bin));
        }
        assert_eq!(bin(u64::MAX), BINS - 1);
        assert_eq!(bin(most(BINS - 1)), BINS - 1);
    }

    #[test]
    fn of_each_time_the_slowest_hundredth_is_told() {
        let (one, other) = (Took::default(), Took::default());
        let mut tail = Tail::default();
        assert_eq!(tail.take_p99([&one, &other]), Nanos::new(0), "there were none");
        for _ in 0..990 {
            one.add(Nanos::new(8));
        }
        for _ in 0..10 {
            other.add(Nanos::from_millis(7));
        }
        assert_eq!(tail.take_p99([&one, &other]), Nanos::new(8), "one of a hundred was slow");
        one.add(Nanos::new(8));
        other.add(Nanos::from_millis(7));
        let slow = tail.take_p99([&one, &other]).get();
        assert!((7_000_000..7_440_000).contains(&slow), "{slow}: of two the longer one");
        assert_eq!(tail.take_p99([&one, &other]), Nanos::new(0), "taken once");
    }
}
