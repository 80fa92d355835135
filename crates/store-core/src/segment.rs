//! Segment geometry: names, page arithmetic, and where the next record goes.

use core::fmt::{self, Write as _};

use heapless::String;

use crate::{BLANK_LEN, LogOffset, length_u64};

/// The fixed size of a log's segments in bytes (`mappedFileSizeCommitLog`).
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct SegmentSize(u32);

impl SegmentSize {
    /// RocketMQ's default: 1 GiB.
    pub const ROCKETMQ_DEFAULT: Self = Self(1 << 30);

    /// Checks a size.
    ///
    /// # Errors
    ///
    /// Below [`SegmentSize::MIN`], where no record would fit, or above [`SegmentSize::MAX`].
    #[expect(
        clippy::as_conversions,
        clippy::cast_possible_truncation,
        reason = "TryFrom is not const; checked against MAX, which is an i32"
    )]
    pub const fn new(bytes: u64) -> Result<Self, SegmentSizeError> {
        if bytes < Self::MIN || bytes > Self::MAX {
            Err(SegmentSizeError { bytes })
        } else {
            Ok(Self(bytes as u32))
        }
    }

    /// The smallest size accepted, in bytes: one page.
    pub const MIN: u64 = PAGE_SIZE;
    /// The largest size accepted, in bytes: `i32::MAX`, RocketMQ's type for it.
    pub const MAX: u64 = 0x7FFF_FFFF;

    /// Bytes per segment.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Bytes per segment, for arithmetic with offsets.
    pub fn bytes(self) -> u64 {
        u64::from(self.0)
    }

    /// The first offset of the segment that holds `offset`.
    pub fn start_of(self, offset: LogOffset) -> LogOffset {
        LogOffset::new(offset.get() - u64::from(self.position_of(offset)))
    }

    /// The byte within its segment that `offset` is.
    pub fn position_of(self, offset: LogOffset) -> u32 {
        u32::try_from(offset.get() % self.bytes()).expect("a remainder is below its u32 divisor")
    }

    /// The longest record that fits an empty segment, in bytes.
    pub fn max_record_len(self) -> u32 {
        self.0 - BLANK_LEN_U32
    }
}

/// A segment size outside what the format and placement allow.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SegmentSizeError {
    /// The size asked for, in bytes.
    pub bytes: u64,
}

impl fmt::Display for SegmentSizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "a segment of {} bytes is outside {}..={}",
            self.bytes,
            SegmentSize::MIN,
            SegmentSize::MAX
        )
    }
}

impl core::error::Error for SegmentSizeError {}

/// A segment's file name: its first offset in 20 decimal digits.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SegmentName(String<NAME_LEN>);

impl SegmentName {
    /// The name of the segment that begins at `first`.
    pub fn new(first: LogOffset) -> Self {
        let mut name = String::new();
        write!(name, "{:020}", first.get()).expect("20 digits hold any u64");
        Self(name)
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The offset that a name of exactly 20 decimal digits stands for, or `None`.
    pub fn parse(name: &str) -> Option<LogOffset> {
        let digits = name.len() == NAME_LEN && name.bytes().all(|byte| byte.is_ascii_digit());
        name.parse().ok().filter(|_| digits).map(LogOffset::new)
    }
}

impl fmt::Display for SegmentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Where a record goes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Placement {
    /// At the end of what is written, in the same segment.
    Fits {
        /// The record's first byte.
        at: LogOffset,
    },
    /// At the start of the next segment; a blank closes this one.
    Roll {
        /// Where the blank goes.
        blank_at: LogOffset,
        /// What the blank says: bytes to the segment's end.
        blank_len: u32,
        /// The record's first byte: the next segment's start.
        at: LogOffset,
    },
}

/// Decides where a record of `len` bytes goes when the log ends at `end`.
///
/// A record must leave [`BLANK_LEN`] bytes free behind it in its segment, so every closed segment
/// ends in a blank. Source: `CommitLog.DefaultAppendMessageCallback`.
///
/// # Errors
///
/// If the record fits no segment. RocketMQ would blank two segments and answer `PUT_OK`.
pub fn place(size: SegmentSize, end: LogOffset, len: u32) -> Result<Placement, RecordTooLarge> {
    if len > size.max_record_len() {
        return Err(RecordTooLarge { len, max: size.max_record_len() });
    }
    let free = size.get() - size.position_of(end);
    if free - BLANK_LEN_U32 >= len {
        return Ok(Placement::Fits { at: end });
    }
    let at = LogOffset::new(end.get() + u64::from(free));
    Ok(Placement::Roll { blank_at: end, blank_len: free, at })
}

/// A record that no segment of this log can hold.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RecordTooLarge {
    /// The record's length in bytes.
    pub len: u32,
    /// The longest that fits.
    pub max: u32,
}

impl fmt::Display for RecordTooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a record of {} bytes exceeds the {} that fit a segment", self.len, self.max)
    }
}

impl core::error::Error for RecordTooLarge {}

/// How many page boundaries lie in `from..=to`: `to / 4096 − from / 4096`.
///
/// RocketMQ's measure for "least pages": boundaries crossed, not bytes.
pub fn pages_crossed(from: LogOffset, to: LogOffset) -> u64 {
    (to.get() / PAGE_SIZE).saturating_sub(from.get() / PAGE_SIZE)
}

/// Whether the bytes from one mark to the next are worth a sync or a commit.
///
/// They are if there are any and they either begin in a full segment or cross `least_pages` page
/// boundaries. A thorough pass asks with `least_pages` 0. RocketMQ's `isAbleToFlush` and
/// `isAbleToCommit`, which call a full segment worth it even when it holds nothing new.
pub fn is_worth_a_pass(
    from: LogOffset,
    to: LogOffset,
    segment_start: LogOffset,
    least_pages: u64,
) -> bool {
    from < to && (from < segment_start || pages_crossed(from, to) >= least_pages)
}

/// The page of RocketMQ's flush rules, in bytes; not the machine's page.
pub const PAGE_SIZE: u64 = 4096;

const NAME_LEN: usize = 20;
const BLANK_LEN_U32: u32 = 8;
const _: () = assert!(length_u64(BLANK_LEN) == 8);

#[cfg(test)]
mod tests {
    use super::*;

    fn size(bytes: u64) -> SegmentSize {
        SegmentSize::new(bytes).unwrap()
    }

    #[test]
    fn sizes_outside_the_range_are_refused() {
        for bytes in [0, 4095, 0x8000_0000, u64::MAX] {
            assert_eq!(SegmentSize::new(bytes), Err(SegmentSizeError { bytes }));
        }
        assert_eq!(size(4096).get(), 4096);
        assert_eq!(size(0x7FFF_FFFF).get(), 0x7FFF_FFFF);
    }

    #[test]
    fn names_have_twenty_digits_and_only_such_names_parse() {
        let name = SegmentName::new(LogOffset::new(1_073_741_824));
        assert_eq!(name.as_str(), "00000000001073741824");
        assert_eq!(SegmentName::parse(name.as_str()), Some(LogOffset::new(1_073_741_824)));
        for bad in ["", "1", "0000000000107374182x", "+0000000001073741824", "99999999999999999999"]
        {
            assert_eq!(SegmentName::parse(bad), None, "{bad}");
        }
    }

    #[track_caller]
    fn check(end: u64, len: u32, expect: Placement) {
        assert_eq!(place(size(4096), LogOffset::new(end), len), Ok(expect));
    }

    #[test]
    fn a_record_may_leave_exactly_eight_bytes() {
        check(0, 4088, Placement::Fits { at: LogOffset::ZERO });
        check(4096, 100, Placement::Fits { at: LogOffset::new(4096) });
        check(4000, 88, Placement::Fits { at: LogOffset::new(4000) });
        let roll = |blank_at, blank_len| Placement::Roll {
            blank_at: LogOffset::new(blank_at),
            blank_len,
            at: LogOffset::new(4096),
        };
        check(4000, 89, roll(4000, 96));
        check(4088, 1, roll(4088, 8));
    }

    #[test]
    fn a_record_that_fits_no_segment_is_refused() {
        let refused = place(size(4096), LogOffset::ZERO, 4089);
        assert_eq!(refused, Err(RecordTooLarge { len: 4089, max: 4088 }));
    }

    #[test]
    fn pages_count_boundaries_not_bytes() {
        let pages = |from, to| pages_crossed(LogOffset::new(from), LogOffset::new(to));
        assert_eq!(pages(0, 4095), 0);
        assert_eq!(pages(4095, 4096), 1);
        assert_eq!(pages(4096, 3 * 4096 + 1), 2);
        assert_eq!(pages(9000, 0), 0);
    }

    #[test]
    fn a_pass_is_worth_it_by_pages_or_for_a_full_segment_but_never_for_nothing() {
        let worth = |from, to, start, least| {
            is_worth_a_pass(LogOffset::new(from), LogOffset::new(to), LogOffset::new(start), least)
        };
        assert!(!worth(100, 4 * 4096 - 1, 0, 4));
        assert!(worth(100, 4 * 4096, 0, 4));
        assert!(worth(100, 101, 0, 0), "a thorough pass takes a single byte");
        assert!(worth(100, 101, 4096, 4), "the segment of byte 100 is full");
        assert!(!worth(100, 100, 4096, 0));
    }
}
