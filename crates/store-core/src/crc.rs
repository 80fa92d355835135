//! The format's checksum: CRC-32 of IEEE 802.3 with the top bit dropped (`UtilAll.crc32`).

/// The checksum RocketMQ stores for `bytes`; 0 for an empty slice.
///
/// The top bit is always clear, because the reference implementation masks it to keep a Java `int`
/// non-negative. With the feature `std` the processor's carry-less multiplication is used where it
/// is found; the value is the same.
pub fn crc32(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes) & MASK
}

const MASK: u32 = 0x7FFF_FFFF;

#[cfg(test)]
mod tests {
    use super::*;

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
}
