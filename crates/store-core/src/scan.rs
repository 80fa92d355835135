//! Walking a segment record by record, as recovery does: what stands here, and is it to be trusted?

use core::fmt;

use crate::view::{BadChecksum, field};
use crate::{
    BLANK_LEN, DecodeError, Frame, LogOffset, Magic, Protection, RecordView, decode, length_u64,
};

/// What a scan finds at a position.
#[derive(Clone, Copy, Debug)]
pub enum Step<'a> {
    /// The segment ends here; the next record is in the next one.
    Blank,
    /// Nothing valid. Whether that is a torn tail or damage depends on what lies behind.
    Invalid(Invalid),
    /// The window ends inside the frame: come again with at least so many bytes.
    More {
        /// Bytes needed from the position on.
        needed: u64,
    },
    /// A record, whole and verified.
    Record(RecordView<'a>),
}

/// Why a position holds no record.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Invalid {
    /// A blank that does not end where the segment does.
    BlankLength {
        /// What the blank says.
        declared: u32,
        /// Bytes to the segment's end.
        rest: u64,
    },
    /// The body does not have its checksum.
    BodyCrc {
        /// BODYCRC.
        stored: u32,
    },
    /// The bytes are no frame.
    Decode(DecodeError),
    /// No checksum covers the record's end, and it is zero where text should stand: torn.
    EndsInZero,
    /// The record reaches past the segment's last byte but seven.
    PastSegment {
        /// TOTALSIZE.
        len: u64,
        /// Bytes to the segment's end.
        rest: u64,
    },
    /// The record says that it stands elsewhere: left over from an earlier use of the space.
    Place {
        /// PHYSICALOFFSET.
        stored: LogOffset,
    },
    /// No checksum covers the properties, and they are no text.
    PropertiesNotUtf8,
    /// The record does not have the checksum that its CRC32 property holds.
    RecordCrc {
        /// The property's value; above 31 bits if it is itself damaged.
        stored: u64,
        /// The record's checksum.
        computed: u32,
    },
    /// Zeroes: space that was never written.
    Unwritten,
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BlankLength { declared, rest } => {
                write!(f, "a blank of {declared} bytes where {rest} are left")
            }
            Self::BodyCrc { stored } => write!(f, "the body's checksum is not {stored:#010x}"),
            Self::Decode(error) => error.fmt(f),
            Self::PastSegment { len, rest } => {
                write!(f, "a record of {len} bytes where {rest} are left")
            }
            Self::Place { stored } => write!(f, "a record that says it stands at {stored}"),
            Self::EndsInZero => f.write_str("a record that ends in zeroes, unprotected"),
            Self::PropertiesNotUtf8 => f.write_str("properties that are not UTF-8, unprotected"),
            Self::RecordCrc { stored, .. } if *stored > u64::from(u32::MAX) => {
                f.write_str("the record's CRC32 property is damaged")
            }
            Self::RecordCrc { stored, computed } => {
                write!(f, "the record's checksum is {computed}, its CRC32 property says {stored}")
            }
            Self::Unwritten => f.write_str("never written"),
        }
    }
}

/// Looks at the frame at `at`, which is the first byte of `window`; `rest` bytes, of which the
/// window is a part, are left in the segment.
///
/// Verifies structure, checksums, and that the record stands where it says. With
/// [`Protection::Body`] a CRC32 property is taken for a property like others.
pub fn scan_step(window: &[u8], at: LogOffset, rest: u64, protection: Protection) -> Step<'_> {
    if rest < length_u64(BLANK_LEN) {
        // Placement leaves room for a blank, so only zeroes or stray bytes can be here.
        return Step::Invalid(Invalid::PastSegment { len: length_u64(BLANK_LEN), rest });
    }
    match decode(window) {
        Ok(Frame::Blank { len }) if u64::from(len) == rest => Step::Blank,
        Ok(Frame::Blank { len }) => Step::Invalid(Invalid::BlankLength { declared: len, rest }),
        Ok(Frame::Record(view)) => verified(view, at, rest, protection),
        Err(DecodeError::Truncated { needed, .. })
            if length_u64(needed) > length_u64(window.len()) =>
        {
            let needed = length_u64(needed);
            if needed > rest {
                Step::Invalid(Invalid::PastSegment { len: needed, rest })
            } else {
                Step::More { needed }
            }
        }
        Err(DecodeError::BadMagic { found: 0 }) if window.starts_with(&[0; 4]) => {
            Step::Invalid(Invalid::Unwritten)
        }
        Err(error) => Step::Invalid(Invalid::Decode(error)),
    }
}

fn verified(view: RecordView<'_>, at: LogOffset, rest: u64, protection: Protection) -> Step<'_> {
    let len = u64::from(view.total_size());
    if len + length_u64(BLANK_LEN) > rest {
        return Step::Invalid(Invalid::PastSegment { len, rest });
    }
    if view.log_offset() != at {
        return Step::Invalid(Invalid::Place { stored: view.log_offset() });
    }
    match view.verify(protection) {
        Ok(()) if view.ends_in_zero() => Step::Invalid(Invalid::EndsInZero),
        Ok(()) if !view.has_plausible_properties() => Step::Invalid(Invalid::PropertiesNotUtf8),
        Ok(()) => Step::Record(view),
        Err(BadChecksum::Body { stored }) => Step::Invalid(Invalid::BodyCrc { stored }),
        Err(BadChecksum::Record { stored, computed }) => {
            Step::Invalid(Invalid::RecordCrc { stored, computed })
        }
    }
}

/// Whether a record may stand at `at`, judged by its first [`PROBE_LEN`] bytes alone: the cheap
/// question for a search through bytes that are not known to be frames.
///
/// True only if the magic is a record's and PHYSICALOFFSET is `at`, which a torn or stale record
/// has only at its own place. [`scan_step`] verifies the rest.
pub fn record_at(bytes: &[u8; PROBE_LEN], at: LogOffset) -> bool {
    let magic = u32::from_be_bytes(*bytes[field::MAGIC].first_chunk().expect("four bytes"));
    bytes[field::LOG_OFFSET] == at.get().to_be_bytes()
        && matches!(Magic::from_code(magic), Ok(Magic::Record(_)))
}

/// How many bytes [`record_at`] looks at.
pub const PROBE_LEN: usize = field::LOG_OFFSET.end;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Destination, Message, Placed, QueueId, Topic, encode, encode_blank};
    use std::vec::Vec;

    const AT: LogOffset = LogOffset::new(1000);

    fn sample() -> Vec<u8> {
        let mut out = [0; 256];
        let to = Destination { topic: Topic::new(b"T").unwrap(), queue_id: QueueId::new(0) };
        let message = Message { body: b"body", ..Message::default() };
        let placed = Placed { log_offset: AT, ..Placed::default() };
        encode(to, &message, Protection::Body, &mut out).unwrap().place(&placed).to_vec()
    }

    fn step(window: &[u8], rest: u64) -> Step<'_> {
        scan_step(window, AT, rest, Protection::Record)
    }

    #[track_caller]
    fn check(window: &[u8], rest: u64, expect: Invalid) {
        match step(window, rest) {
            Step::Invalid(found) => assert_eq!(found, expect),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_whole_record_is_found_and_a_part_of_it_asks_for_more() {
        let record = sample();
        assert!(matches!(step(&record, 4096), Step::Record(_)));
        for cut in 0..record.len() {
            let found = step(&record[..cut], 4096);
            assert!(matches!(found, Step::More { .. }), "cut at {cut}: {found:?}");
        }
    }

    #[test]
    fn what_is_not_to_be_trusted() {
        let record = sample();
        let len = u64::try_from(record.len()).unwrap();
        let past = Invalid::PastSegment { len, rest: len + 7 };
        check(&record, len + 7, past);
        let mut elsewhere = record.clone();
        elsewhere[35] ^= 1;
        check(&elsewhere, 4096, Invalid::Place { stored: LogOffset::new(1001) });
        let mut torn = record.clone();
        torn[88] ^= 1;
        check(&torn, 4096, Invalid::BodyCrc { stored: crate::crc32(b"body") });
        check(&[0; 64], 4096, Invalid::Unwritten);
        check(&[1; 64], 4096, Invalid::Decode(DecodeError::BadMagic { found: 0x0101_0101 }));
        let huge = [&[0x70, 0, 0, 0][..], &record[4..]].concat();
        check(&huge, 4096, Invalid::PastSegment { len: 0x7000_0000, rest: 4096 });
    }

    #[test]
    fn the_end_of_an_unprotected_record_must_not_be_zero() {
        let mut out = [0; 256];
        let to = Destination { topic: Topic::new(b"T").unwrap(), queue_id: QueueId::new(0) };
        let message = Message { body: b"body", properties: b"k\x01v\x02", ..Message::default() };
        let placed = Placed { log_offset: AT, ..Placed::default() };
        let record = encode(to, &message, Protection::Body, &mut out).unwrap().place(&placed);
        assert!(matches!(step(record, 4096), Step::Record(_)));
        record.last_chunk_mut::<4>().unwrap().fill(0);
        check(record, 4096, Invalid::EndsInZero);
    }

    #[test]
    fn a_protected_record_is_covered_whole_where_that_is_asked_for() {
        let mut out = [0; 256];
        let to = Destination { topic: Topic::new(b"T").unwrap(), queue_id: QueueId::new(0) };
        let message = Message { properties: b"k\x01v\x02", ..Message::default() };
        let placed = Placed { log_offset: AT, ..Placed::default() };
        let record = encode(to, &message, Protection::Record, &mut out).unwrap().place(&placed);
        record[19] ^= 1;
        assert!(matches!(step(record, 4096), Step::Invalid(Invalid::RecordCrc { .. })));
        assert!(matches!(scan_step(record, AT, 4096, Protection::Body), Step::Record(_)));
    }

    #[test]
    fn a_blank_must_end_with_the_segment() {
        assert!(matches!(step(&encode_blank(96), 96), Step::Blank));
        check(&encode_blank(96), 97, Invalid::BlankLength { declared: 96, rest: 97 });
    }

    #[test]
    fn the_probe_knows_a_record_only_at_its_own_place() {
        let record = sample();
        let probe = record.first_chunk().unwrap();
        assert!(record_at(probe, AT));
        assert!(!record_at(probe, LogOffset::new(1001)));
        assert!(!record_at(&[0; PROBE_LEN], AT));
    }
}
