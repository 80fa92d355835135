//! Message bodies that no compressor shortens, of one size or of several.

use anyhow::{Context, Result};

use crate::profile::MessageBytes;
use crate::random::Random;

/// Bodies that no compressor shortens: windows into one random block.
#[derive(Debug)]
pub struct Bodies {
    block: Vec<u8>,
    largest: usize,
    /// One for each number that is drawn; one alone if all are alike.
    sizes: Vec<usize>,
}

impl Bodies {
    /// Bodies of `message_bytes` each; the same for the same seed.
    pub fn new(seed: u64, message_bytes: usize) -> Self {
        Self::of(seed, vec![message_bytes])
    }

    /// Bodies of several sizes in their shares; the same for the same seed.
    ///
    /// # Errors
    ///
    /// If a size does not fit memory's addresses.
    pub fn mixed(seed: u64, sizes: &MessageBytes) -> Result<Self> {
        let draws = if sizes.shares().len() == 1 { 1 } else { 100 };
        let size = |draw| usize::try_from(sizes.drawn(draw)).context("a message's size");
        Ok(Self::of(seed, (0..draws).map(size).collect::<Result<_>>()?))
    }

    fn of(seed: u64, sizes: Vec<usize>) -> Self {
        let largest = sizes.iter().copied().max().unwrap_or(0);
        let mut block = vec![0; BLOCK_BYTES + largest];
        Random::new(seed).fill(&mut block);
        Self { block, largest, sizes }
    }

    /// The body number `index`; bodies overlap only after the whole block was used.
    pub fn get(&self, index: usize) -> &[u8] {
        let start = index.wrapping_mul(self.largest.max(1)) % BLOCK_BYTES;
        let len = match *self.sizes {
            [one] => one,
            _ => self.drawn(index),
        };
        &self.block[start..start + len]
    }

    /// Sizes follow each other at random, not in the order of the profile.
    fn drawn(&self, index: usize) -> usize {
        let mut random = Random::new(store_core::length_u64(index));
        let draw = random.next_u64() % store_core::length_u64(self.sizes.len());
        self.sizes[usize::try_from(draw).expect("below a length")]
    }
}

/// Larger than what a compressor looks back.
const BLOCK_BYTES: usize = 8 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Share;

    #[test]
    fn bodies_differ_and_have_their_length() {
        for len in [0, 1, 1024, 3000] {
            let bodies = Bodies::new(1, len);
            assert_eq!(bodies.get(12345).len(), len);
        }
        let bodies = Bodies::new(1, 1024);
        assert_ne!(bodies.get(0), bodies.get(1));
        assert_eq!(bodies.get(0), Bodies::new(1, 1024).get(0));
    }

    #[test]
    fn sizes_come_in_their_shares_and_not_in_turn() {
        let shares = [(128, 70), (1024, 25), (16_384, 5)];
        let shares = shares.map(|(bytes, percent)| Share { bytes, percent });
        let bodies = Bodies::mixed(1, &MessageBytes::mix(shares.to_vec()).unwrap()).unwrap();
        let lens: Vec<usize> = (0..20_000).map(|index| bodies.get(index).len()).collect();
        for (len, percent) in [(128, 70), (1024, 25), (16_384, 5)] {
            let count = lens.iter().filter(|found| **found == len).count();
            assert!(count.abs_diff(percent * 200) < 300, "{len}: {count} of 20000");
        }
        assert!(lens[..100].iter().any(|len| *len != 128), "the small ones do not all come first");
    }
}
