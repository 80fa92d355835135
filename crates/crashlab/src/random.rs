//! Random numbers that follow from a seed, the same everywhere.

/// xorshift64*: fast, seeded, the same everywhere. No secret.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The generator for `seed`; different seeds give unrelated sequences.
    pub fn new(seed: u64) -> Self {
        // One round of SplitMix64, so that small seeds do not begin alike.
        Self { state: mix(seed).max(1) }
    }

    /// The generator for a part of what `seed` stands for, unrelated to the others of it.
    pub fn of(seed: u64, part: u64) -> Self {
        Self::new(mix(seed) ^ part.wrapping_mul(0xD6E8_FEB8_6659_FD93))
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        self.state.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number in `0..end`; 0 if `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        let product = u128::from(self.next_u64()) * u128::from(end);
        u64::try_from(product >> 64).expect("the upper half of 128 bits")
    }

    /// A number in `first..=last`, or `first` if `last` lies before it.
    pub fn between(&mut self, first: u64, last: u64) -> u64 {
        first + self.below(last.saturating_sub(first).saturating_add(1))
    }

    /// Whether something happens that does `in_thousand` times of a thousand.
    pub fn chance(&mut self, in_thousand: u64) -> bool {
        self.below(1000) < in_thousand
    }

    /// An index of a list of `len` items; 0 if it has none.
    pub fn index(&mut self, len: usize) -> usize {
        let picked = self.below(store_core::length_u64(len));
        usize::try_from(picked).expect("below a usize")
    }

    /// One of `items`.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.index(items.len())]
    }

    /// Fills `out` with bytes that no compressor shortens.
    pub fn fill(&mut self, out: &mut [u8]) {
        for chunk in out.chunks_mut(8) {
            let bytes = self.next_u64().to_be_bytes();
            chunk.copy_from_slice(&bytes[..chunk.len()]);
        }
    }
}

/// One round of `SplitMix64`.
fn mix(seed: u64) -> u64 {
    let mut state = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    state = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    state = (state ^ (state >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    state ^ (state >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_sequence_and_another_one_another() {
        let sequence = |mut random: Random| [random.next_u64(), random.next_u64()];
        assert_eq!(sequence(Random::new(42)), sequence(Random::new(42)));
        assert_ne!(sequence(Random::new(42)), sequence(Random::new(43)));
        assert_ne!(sequence(Random::of(42, 0)), sequence(Random::of(42, 1)));
        assert_ne!(sequence(Random::of(42, 1)), sequence(Random::of(43, 1)));
    }

    #[test]
    fn numbers_stay_within_their_bounds_and_reach_them() {
        let mut random = Random::new(7);
        let mut seen = [0_u32; 6];
        for _ in 0..6000 {
            seen[usize::try_from(random.between(2, 7) - 2).unwrap()] += 1;
        }
        assert!(seen.iter().all(|count| (800..1200).contains(count)), "{seen:?}");
        assert_eq!(random.below(0), 0);
        assert_eq!(random.between(9, 3), 9);
    }
}
