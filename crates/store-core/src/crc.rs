//! The format's checksum: CRC-32 of IEEE 802.3 with the top bit dropped (`UtilAll.crc32`).

/// The checksum RocketMQ stores for `bytes`; 0 for an empty slice.
///
/// The top bit is always clear, because the reference implementation masks it to keep a Java `int`
/// non-negative. With the feature `std` the processor's carry-less multiplication is used where it
/// is found; the value is the same.
pub fn crc32(bytes: &[u8]) -> u32 {
    masked(crc32_full(bytes))
}

/// All 32 bits, which joining needs.
#[inline]
pub(crate) fn crc32_full(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

/// What is stored of a full checksum.
pub(crate) const fn masked(full: u32) -> u32 {
    full & 0x7FFF_FFFF
}

/// Whether a whole of this length is summed in one go rather than joined from its parts: below
/// this, a second pass over a part costs less than joining (docs/adr/0012).
pub(crate) const fn is_summed_whole(len: usize) -> bool {
    len <= 4096
}

/// What appending a number of bytes does to a checksum: multiplication by x^(8·bytes) modulo the
/// CRC's polynomial.
///
/// With it the checksum of a record is joined from those of its parts, so that no byte is summed
/// twice, and only the few that the append lock fixes are summed under it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shift(u32);

impl Shift {
    /// The shift by `len` bytes; bits of `len` above 32 would need a record beyond the format.
    pub(crate) fn by(len: usize) -> Self {
        let digits = crate::length_u64(len).to_be_bytes();
        let mut product = ONE;
        for (row, digit) in POWERS.iter().zip(digits.iter().rev()).filter(|(_, d)| **d != 0) {
            let power = row[usize::from(*digit)];
            product = if product == ONE { power } else { multiply(product, power) };
        }
        Self(product)
    }

    pub(crate) const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    pub(crate) const fn bits(self) -> u32 {
        self.0
    }

    /// The full checksum of two parts, of which the second has the shift's length, from theirs.
    pub(crate) fn join(self, first: u32, second: u32) -> u32 {
        multiply(self.0, first) ^ second
    }
}

/// The product of two polynomials modulo the CRC's, in its reflected form: bit 31 is x^0.
const fn multiply(a: u32, mut b: u32) -> u32 {
    let mut product = 0;
    let mut bit = 32;
    while bit > 0 {
        bit -= 1;
        product ^= b & 0_u32.wrapping_sub((a >> bit) & 1);
        b = (b >> 1) ^ (POLYNOMIAL & 0_u32.wrapping_sub(b & 1));
    }
    product
}

/// `POWERS[k][d]` is x^(8·d·256^k): a length's bytes, lowest first, select its factors.
static POWERS: [[u32; 256]; 4] = powers();

const fn powers() -> [[u32; 256]; 4] {
    let mut table = [[ONE; 256]; 4];
    let mut base = ONE >> 8;
    let mut row = 0;
    while row < 4 {
        let mut digit = 1;
        while digit < 256 {
            table[row][digit] = multiply(table[row][digit - 1], base);
            digit += 1;
        }
        base = multiply(table[row][255], base);
        row += 1;
    }
    table
}

const POLYNOMIAL: u32 = 0xEDB8_8320;
/// x^0.
const ONE: u32 = 1 << 31;

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[track_caller]
    fn check(input: &[u8], expect: u32) {
        assert_eq!(crc32(input), expect);
    }

    #[test]
    fn known_values() {
        check(b"", 0);
        check(b"123456789", 0x4BF4_3926); // the catalogue's check value CBF43926, masked
        check(&[0x7F], 314_082_080); // golden/plain, message 1
        check(b"hello world", 222_957_957); // golden/plain, message 2
    }

    #[test]
    fn parts_join_to_the_checksum_of_the_whole() {
        let bytes: Vec<u8> = (0..70_000_u32).map(|n| n.to_be_bytes()[3] ^ 0x5A).collect();
        let cuts = [(1, 0), (1, 1), (9, 4), (300, 1), (1000, 700), (70_000, 3), (70_000, 66_000)];
        // Under Miri the long ones take a minute.
        for (len, cut) in cuts.into_iter().filter(|(len, _)| *len <= 1000 || !cfg!(miri)) {
            let (first, second) = bytes[..len].split_at(cut);
            let joined = Shift::by(second.len()).join(crc32_full(first), crc32_full(second));
            assert_eq!(joined, crc32_full(&bytes[..len]), "{len} cut at {cut}");
        }
    }

    #[test]
    fn shifts_add_up_over_every_digit_of_a_length() {
        for (a, b) in [(255, 1), (65_535, 1), (1 << 24, 1 << 24), ((1 << 31) - 1, 1)] {
            let both = multiply(Shift::by(a).bits(), Shift::by(b).bits());
            assert_eq!(both, Shift::by(a + b).bits(), "{a} + {b}");
        }
    }
}
