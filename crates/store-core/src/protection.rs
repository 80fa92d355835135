//! The CRC32 property: a checksum of the whole record at its end (`enabledAppendPropCRC`).

use crate::crc::masked;

/// What the checksums of a record cover.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Protection {
    /// BODYCRC alone: header, topic and properties are unprotected. What RocketMQ writes by
    /// default.
    Body,
    /// The CRC32 property too, which covers the record up to itself: written, and verified where
    /// it stands. RocketMQ knows it from 5.2 on; older brokers hand it to consumers as one more
    /// property.
    #[default]
    Record,
}

impl Protection {
    /// Bytes that a record's end is reserved for.
    pub(crate) const fn reserved_len(self) -> usize {
        match self {
            Self::Body => 0,
            Self::Record => PROPERTY_LEN,
        }
    }
}

/// Writes the property over `out`, with room for the digits.
#[inline]
pub(crate) fn write_frame(out: &mut [u8; PROPERTY_LEN]) {
    *out = *FORM;
}

/// Writes a full checksum's digits into the property: decimal, lowest first, ten of them.
#[inline]
pub(crate) fn write_digits(full: u32, out: &mut [u8; PROPERTY_LEN]) {
    let mut rest = masked(full);
    for digit in &mut out[DIGITS] {
        let lowest = u8::try_from(rest % 10).expect("a remainder of ten");
        *digit = b'0' + lowest;
        rest /= 10;
    }
}

/// The checksum that the end of a property string claims, if it claims one.
///
/// A property that differs from the form in a byte or two, or of which at least the name is nearly
/// right, is taken for a damaged one and gives a value that no checksum has, or else a damaged
/// record would pass as one without it.
pub(crate) fn claimed(properties: &[u8]) -> Option<u64> {
    let (_, property) = properties.split_last_chunk::<PROPERTY_LEN>()?;
    let differs = |index: &usize| {
        let byte = property[*index];
        if DIGITS.contains(index) { !byte.is_ascii_digit() } else { byte != FORM[*index] }
    };
    let in_name = (0..DIGITS.start).filter(differs).count();
    let in_all = in_name + (DIGITS.start..PROPERTY_LEN).filter(differs).count();
    if in_all == 0 {
        return Some(
            property[DIGITS]
                .iter()
                .rev()
                .fold(0, |value, digit| value * 10 + u64::from(*digit - b'0')),
        );
    }
    (in_name <= FORGIVEN).then_some(NO_CHECKSUM)
}

/// Name, separator, digits, end.
const FORM: &[u8; PROPERTY_LEN] = b"__CRC32#\x010000000000\x02";
/// The property's name (`MessageConst.PROPERTY_CRC32`).
pub(crate) const NAME: &[u8] = b"__CRC32#";
const DIGITS: core::ops::Range<usize> = NAME.len() + 1..PROPERTY_LEN - 1;
/// Bytes of the property (`CommitLog.CRC32_RESERVED_LEN`).
pub(crate) const PROPERTY_LEN: usize = 20;
/// Bytes in which a damaged property's name may differ from its form and still be seen as one.
const FORGIVEN: usize = 2;
/// Above every checksum, which has 31 bits, and every ten digits.
const NO_CHECKSUM: u64 = u64::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    fn property(full: u32) -> [u8; PROPERTY_LEN] {
        let mut out = [0; PROPERTY_LEN];
        write_frame(&mut out);
        write_digits(full, &mut out);
        out
    }

    #[test]
    fn digits_stand_lowest_first() {
        assert_eq!(&property(2_147_483_647), b"__CRC32#\x017463847412\x02");
        assert_eq!(&property(5), b"__CRC32#\x015000000000\x02");
        assert_eq!(&property(0), b"__CRC32#\x010000000000\x02");
        assert_eq!(property(0xFFFF_FFFF), property(0x7FFF_FFFF), "the top bit is dropped");
    }

    #[test]
    fn what_was_written_is_claimed_and_a_flipped_bit_claims_what_cannot_be() {
        for full in [0, 5, 123_456_789, 0x7FFF_FFFF] {
            let written = property(full);
            assert_eq!(claimed(&written), Some(u64::from(full)));
            for bit in 0..PROPERTY_LEN * 8 {
                let mut flipped = written;
                flipped[bit / 8] ^= 1 << (bit % 8);
                let found = claimed(&flipped);
                assert!(found.is_some() && found != Some(u64::from(full)), "bit {bit}: {found:?}");
            }
        }
    }

    #[test]
    fn a_damaged_property_is_seen_while_its_name_is_nearly_whole() {
        let written = property(123_456_789);
        for lost in 1..PROPERTY_LEN {
            for filler in [0xFF, b'A', 0] {
                let mut damaged = written;
                damaged[PROPERTY_LEN - lost..].fill(filler);
                let expect = (lost <= 13).then_some(NO_CHECKSUM);
                assert_eq!(claimed(&damaged), expect, "the last {lost} bytes are {filler}");
            }
        }
        let mut damaged = written;
        damaged[..2].fill(0xFF);
        assert_eq!(claimed(&damaged), Some(NO_CHECKSUM));
        damaged[2] = 0xFF;
        assert_eq!(claimed(&damaged), None);
    }

    #[test]
    fn other_properties_claim_nothing() {
        assert_eq!(claimed(b""), None);
        assert_eq!(claimed(b"BORN_TIMESTAMP\x011700000000000\x02"), None);
        assert_eq!(claimed(b"TAGS\x01a\x02KEYS\x01some keys\x02"), None);
        assert_eq!(claimed(&[0; 40]), None);
        assert_eq!(claimed(&FORM[1..]), None);
    }
}
