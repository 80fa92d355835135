//! Random loads, the same for the same seed.

use store_core::{FlushStrategy, Nanos, SegmentSize, Wait};

use crate::{Device, Sim, ms};

/// A small generator of random numbers: `SplitMix64`.
#[derive(Clone, Copy, Debug)]
pub struct Random(u64);

impl Random {
    /// The generator whose numbers follow from `seed`.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number in `0..end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % end
    }

    fn between(&mut self, first: u32, last: u32) -> u32 {
        let span = u64::from(last - first) + 1;
        first + u32::try_from(self.below(span)).expect("below a span of u32")
    }
}

/// Runs `strategy` under many random loads and devices, drains each, and checks that
///
/// - it keeps its contract (see [`Sim`]);
/// - polls without a reason change no commit and no sync;
/// - everything is flushed in the end;
/// - `holds` is true of each run; it is asked once before the drain and once after it.
///
/// # Panics
///
/// If something does not hold. The seed is printed before.
pub fn check_random_loads<S: FlushStrategy + Clone>(
    strategy: &S,
    holds: impl Fn(&Sim<S>, Device) -> bool,
) {
    for seed in 0..SEEDS {
        let run = |nosy: Option<Nanos>| {
            let mut random = Random::new(seed);
            let device = random_device(&mut random);
            let mut sim = Sim::new(strategy.clone(), device);
            if let Some(every) = nosy {
                sim = sim.nosy(every);
            }
            let end = random_load(&mut random, &mut sim);
            sim.run_until(end);
            assert!(holds(&sim, device), "seed {seed}, at {end:?}, {device:?}");
            sim.drain();
            assert!(holds(&sim, device), "seed {seed}, drained, {device:?}");
            assert_eq!(sim.marks().flushed(), sim.marks().wrote(), "seed {seed}");
            (sim.commits(), sim.syncs())
        };
        assert_eq!(run(None), run(Some(ms(3))), "seed {seed}: nosy polls matter");
    }
}

fn random_device(random: &mut Random) -> Device {
    let segment = u64::from(random.between(2, 16)) * SegmentSize::MIN;
    Device {
        commit: Nanos::from_micros(random.below(30_000)),
        segment: SegmentSize::new(segment).expect("between 8 and 64 KiB"),
        sync: Nanos::from_micros(random.below(300_000)),
    }
}

/// Bursts of small and large records with pauses between, and when the last of them comes.
fn random_load<S: FlushStrategy>(random: &mut Random, sim: &mut Sim<S>) -> Nanos {
    let mut at = Nanos::default();
    for _ in 0..random.between(1, 12) {
        at = at.after(ms(random.below(1500)));
        let gap_us = 1 + random.below(20_000);
        let longest = random.between(1, 6_000);
        for _ in 0..random.between(1, 30) {
            at = at.after(Nanos::from_micros(random.below(gap_us)));
            let wait = [Wait::No, Wait::Yes][usize::from(random.below(2) == 1)];
            sim.append(at, random.between(1, longest), wait);
        }
    }
    at
}

const SEEDS: u64 = 200;
