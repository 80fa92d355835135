//! Telling what a power cut left unwritten from what was damaged later.

use std::ops::Range;

use store_core::{
    BLANK_LEN, DecodeError, Invalid, LogOffset, Magic, PROBE_LEN, Version, encode_blank, record_at,
};

use crate::error::Error;
use crate::segment::Segment;
use crate::walk::{Source, behind};

/// Whether some sector between a bad place and `upto`, where the next valid record or the segment's
/// end is, was never written: from the bad place, or from the sector's first byte, to its last one
/// it is zero.
///
/// What a segment holds before it is written is zero, and a device writes whole sectors: so does a
/// sector look that no sync had covered when the power was cut. A flipped bit, or bytes of
/// something else, do not. The next valid record can begin in such a sector: with bytes of its
/// length that are zero. `segment` begins with a sector's first byte.
pub(crate) fn was_never_written(
    source: &impl Source,
    segment: &Range<LogOffset>,
    at: LogOffset,
    upto: LogOffset,
) -> Result<bool, Error> {
    let start = segment.start;
    let upto = behind(start, upto.since(start).next_multiple_of(SECTOR)).min(segment.end);
    let mut window = vec![0; WINDOW];
    let mut from = at;
    while from < upto {
        // Up to a sector's end, so that none is looked at in two parts.
        let aligned = behind(start, (from.since(start) / CHUNK + 1) * CHUNK);
        let to = aligned.min(upto);
        let len = usize::try_from(to.since(from)).unwrap_or(WINDOW);
        let bytes = &mut window[..len];
        source.read(bytes, from)?;
        let mut rest = &bytes[..];
        let mut place = from.since(start);
        loop {
            let left = usize::try_from(SECTOR - place % SECTOR).unwrap_or(rest.len());
            let Some((sector, next)) = rest.split_at_checked(left) else { break };
            if sector.iter().all(|byte| *byte == 0) {
                return Ok(true);
            }
            if next.is_empty() {
                break;
            }
            place += store_core::length_u64(left);
            rest = next;
        }
        from = to;
    }
    Ok(false)
}

/// Whether the blank that closes `segment` was begun at `at`, and the sector that its rest is in
/// was never written.
pub(crate) fn began_a_blank(
    source: &impl Source,
    segment: &Range<LogOffset>,
    at: LogOffset,
) -> Result<bool, Error> {
    let here = usize::try_from(SECTOR - at.since(segment.start) % SECTOR).unwrap_or(BLANK_LEN);
    let Ok(rest) = u32::try_from(segment.end.since(at)) else { return Ok(false) };
    let blank = encode_blank(rest);
    let mut found = [0; BLANK_LEN];
    if found.len() <= here || store_core::length_u64(found.len()) > u64::from(rest) {
        return Ok(false);
    }
    source.read(&mut found, at)?;
    Ok(found[..here] == blank[..here] && found[here..].iter().all(|byte| *byte == 0))
}

/// Whether the torn place is what a write leaves that did not come to its end: space that was never
/// written, or the beginning of a record that says it stands here, with lengths that can be.
pub(crate) fn looks_torn(segment: &Segment, at: LogOffset, found: Invalid) -> Result<bool, Error> {
    match found {
        Invalid::Unwritten => return Ok(true),
        Invalid::Decode(DecodeError::NegativeLength { .. }) => return Ok(false),
        _ => {}
    }
    let mut probe = [0; PROBE_LEN];
    let rest = usize::try_from(segment.end().since(at)).unwrap_or(PROBE_LEN);
    segment.read(&mut probe[..rest.min(PROBE_LEN)], at)?;
    // Completed by what would have come, it is a record's.
    let written = probe.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let place = at.get().to_be_bytes();
    Ok([Version::V1, Version::V2].into_iter().any(|version| {
        let mut whole = [0; PROBE_LEN];
        whole[MAGIC].copy_from_slice(&Magic::Record(version).code().to_be_bytes());
        whole[PROBE_LEN - place.len()..].copy_from_slice(&place);
        whole[..written].copy_from_slice(&probe[..written]);
        record_at(&whole, at)
    }))
}

/// Where a record's magic stands.
const MAGIC: Range<usize> = 4..8;
/// The least that a device writes as one.
const SECTOR: u64 = 512;
/// How much is looked at at a time: whole sectors.
const CHUNK: u64 = 1 << 16;
const WINDOW: usize = 1 << 16;

#[cfg(not(modelled))]
#[cfg(test)]
mod tests {
    use super::*;

    struct Bytes(Vec<u8>);

    const START: LogOffset = LogOffset::new(1 << 20);

    impl Source for Bytes {
        fn read(&self, out: &mut [u8], at: LogOffset) -> Result<(), Error> {
            let at = usize::try_from(at.since(START)).unwrap();
            out.copy_from_slice(&self.0[at..at + out.len()]);
            Ok(())
        }

        fn next_data(&self, from: LogOffset, to: LogOffset) -> Option<Range<LogOffset>> {
            (from < to).then_some(from..to)
        }
    }

    /// All ones but for `zero`; looked at from `at` to `upto`.
    fn look(zero: Range<usize>, at: u64, upto: u64) -> bool {
        let mut bytes = Bytes(vec![1; 200_000]);
        bytes.0[zero].fill(0);
        let segment = START..behind(START, 200_000);
        was_never_written(&bytes, &segment, behind(START, at), behind(START, upto)).unwrap()
    }

    #[test]
    fn a_whole_sector_of_zeroes_was_never_written() {
        assert!(look(1024..1536, 700, 5000));
        assert!(look(131_072..131_584, 100, 199_000), "behind the first chunks");
        assert!(look(65_024..65_536, 64_900, 65_536), "the last of a chunk");
        assert!(!look(1024..1535, 700, 5000), "its last byte was");
        assert!(!look(1025..1536, 700, 5000), "its first byte was");
        assert!(!look(1100..1612, 700, 5000), "as many zeroes, but parts of two sectors");
    }

    #[test]
    fn of_the_first_sector_only_what_lies_behind_the_bad_place_counts() {
        assert!(look(700..1024, 700, 5000));
        assert!(!look(700..1023, 700, 5000));
        assert!(!look(701..1024, 700, 5000), "something was begun there");
        assert!(look(1023..1024, 1023, 5000), "one byte");
    }

    #[test]
    fn a_sector_that_the_next_record_begins_in_was_written() {
        assert!(!look(1024..1500, 1024, 1500));
        assert!(!look(700..900, 700, 900));
        assert!(!look(1024..1535, 1024, 1534));
        assert!(look(1024..1536, 1024, 1534), "but for zeroes that the next record begins with");
    }
}
