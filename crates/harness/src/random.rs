//! A small seeded generator, for bodies and for the order of cells.

/// xorshift64*: fast, seeded, the same everywhere.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// A generator for `seed`; different seeds give unrelated sequences.
    pub fn new(seed: u64) -> Self {
        // One round of splitmix64, so that small seeds do not begin alike.
        let mut state = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
        state = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        state = (state ^ (state >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        Self { state: (state ^ (state >> 31)).max(1) }
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        self.state.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// Fills `out` with bytes that no compressor shortens.
    pub fn fill(&mut self, out: &mut [u8]) {
        for chunk in out.chunks_mut(8) {
            let bytes = self.next_u64().to_be_bytes();
            chunk.copy_from_slice(&bytes[..chunk.len()]);
        }
    }

    /// Puts `items` into a random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let bound = store_core::length_u64(last) + 1;
            let pick = usize::try_from(self.next_u64() % bound).expect("below a slice's length");
            items.swap(last, pick);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_sequence_and_another_one_another() {
        let sequence = |seed| {
            let mut random = Random::new(seed);
            [random.next_u64(), random.next_u64()]
        };
        assert_eq!(sequence(42), sequence(42));
        assert_ne!(sequence(42), sequence(43));
        assert_ne!(sequence(0), sequence(1));
    }

    #[test]
    fn bytes_are_spread_evenly() {
        let mut bytes = vec![0; 1 << 16];
        Random::new(7).fill(&mut bytes);
        let mut counts = [0_u32; 256];
        for byte in bytes {
            counts[usize::from(byte)] += 1;
        }
        assert!(counts.iter().all(|count| (160..360).contains(count)), "{counts:?}");
    }

    #[test]
    fn a_shuffle_keeps_every_item() {
        let mut items: Vec<u32> = (0..100).collect();
        Random::new(1).shuffle(&mut items);
        assert_ne!(items, (0..100).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..100).collect::<Vec<_>>());
    }
}
