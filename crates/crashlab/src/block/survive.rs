//! Which volatile writes a power cut leaves.

use std::collections::BTreeMap;

/// What a power cut leaves of the volatile writes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Keep {
    /// Every one.
    All,
    /// All but one of the units; which one, the seed says.
    AllButOne,
    /// None.
    None,
    /// One of the units alone.
    OnlyOne,
    /// The first ones, in the order of completion; how many, the seed says.
    Prefix,
    /// Of each unit any version, the durable one too.
    Random,
}

/// The one generator's stand-in.
pub(super) struct Survivors;

impl Survivors {
    /// The indices of the writes that are there afterwards, in order. `units` says to which unit
    /// each write was, in the order of completion.
    pub(super) fn choose(keep: Keep, seed: u64, units: &[u64]) -> Vec<usize> {
        let mut random = Random(seed);
        let len = units.len();
        match keep {
            Keep::All => (0..len).collect(),
            Keep::None => Vec::new(),
            Keep::Prefix => (0..random.below(len + 1)).collect(),
            Keep::AllButOne | Keep::OnlyOne if len == 0 => Vec::new(),
            Keep::AllButOne => {
                let lost = units[random.below(len)];
                (0..len).filter(|&index| units[index] != lost).collect()
            }
            Keep::OnlyOne => {
                let kept = units[random.below(len)];
                (0..len).filter(|&index| units[index] == kept).collect()
            }
            Keep::Random => {
                let mut versions = BTreeMap::<u64, Vec<usize>>::new();
                for (index, unit) in units.iter().enumerate() {
                    versions.entry(*unit).or_default().push(index);
                }
                let mut kept: Vec<_> = versions
                    .into_values()
                    .filter_map(|versions| {
                        let chosen = random.below(versions.len() + 1);
                        versions.get(chosen).copied()
                    })
                    .collect();
                kept.sort_unstable();
                kept
            }
        }
    }
}

/// `SplitMix64`.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^= mixed >> 31;
        let limit = store_core::length_u64(limit.max(1));
        usize::try_from(mixed % limit).expect("below a length in memory")
    }
}
