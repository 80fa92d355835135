//! One type per quantity that could be swapped: positions, queue numbers, times.

use core::fmt;

/// A byte position in the whole log, counted from its first byte.
///
/// Logical: it never wraps, and does not say which segment holds the byte
/// ([`SegmentSize`](crate::SegmentSize) does). RocketMQ calls it the physical offset and stores it
/// as a signed 64-bit integer, so values above [`LogOffset::MAX`] cannot be written.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[repr(transparent)]
pub struct LogOffset(u64);

impl LogOffset {
    /// The first byte of a log.
    pub const ZERO: Self = Self(0);
    /// The last position the format can hold: `i64::MAX`.
    pub const MAX: Self = Self(u64::MAX >> 1);

    /// The position `bytes` after the start of the log.
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    /// Bytes since the start of the log.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The offset `len` bytes further on, or `None` past [`LogOffset::MAX`].
    pub fn checked_add(self, len: u64) -> Option<Self> {
        self.0.checked_add(len).map(Self).filter(|sum| *sum <= Self::MAX)
    }

    /// Bytes from `earlier` to here; zero if `earlier` lies behind this offset.
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for LogOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The position of a message within one (topic, queue id), counted in messages.
///
/// RocketMQ calls it the logical or queue offset.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[repr(transparent)]
pub struct QueueOffset(u64);

impl QueueOffset {
    /// The position of the message that has `messages` before it in its queue.
    pub const fn new(messages: u64) -> Self {
        Self(messages)
    }

    /// Messages before this one in its queue.
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// The number of a queue within its topic; the format stores it as a signed 32-bit integer.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[repr(transparent)]
pub struct QueueId(i32);

impl QueueId {
    /// The queue with this number.
    pub const fn new(number: i32) -> Self {
        Self(number)
    }

    /// The number as it is stored.
    pub const fn get(self) -> i32 {
        self.0
    }
}

/// Milliseconds since 1970-01-01 UTC, as RocketMQ stores times; may be negative.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[repr(transparent)]
pub struct TimestampMs(i64);

impl TimestampMs {
    /// The instant `millis` milliseconds after 1970-01-01 UTC.
    pub const fn new(millis: i64) -> Self {
        Self(millis)
    }

    /// Milliseconds since 1970-01-01 UTC.
    pub const fn get(self) -> i64 {
        self.0
    }
}

/// A length in memory as the `u64` that offsets are counted in.
#[expect(clippy::as_conversions, reason = "usize is at most 64 bits wide on every Rust target")]
pub const fn length_u64(len: usize) -> u64 {
    len as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addition_stops_at_the_largest_storable_offset() {
        assert_eq!(LogOffset::new(5).checked_add(7), Some(LogOffset::new(12)));
        assert_eq!(LogOffset::MAX.checked_add(0), Some(LogOffset::MAX));
        assert_eq!(LogOffset::MAX.checked_add(1), None);
        assert_eq!(LogOffset::new(u64::MAX).checked_add(1), None);
    }

    #[test]
    fn distance_never_wraps() {
        assert_eq!(LogOffset::new(9).since(LogOffset::new(4)), 5);
        assert_eq!(LogOffset::new(4).since(LogOffset::new(9)), 0);
    }
}
