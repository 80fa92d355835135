//! The `checkpoint` file: up to which store time each part of a store is known to be on disk.

use core::fmt;

use crate::TimestampMs;

/// The five fields of RocketMQ's `checkpoint` file (`StoreCheckpoint`).
///
/// The file has no checksum, and RocketMQ overwrites the fields one after the other: what is read
/// from it is a hint where to begin, never a proof of what was flushed. A store that has none
/// behaves as with [`Checkpoint::default`], all zero, which proves nothing.
///
/// # Examples
///
/// ```
/// use store_core::{Checkpoint, TimestampMs};
///
/// let mut file = [0; Checkpoint::FILE_LEN];
/// let physic_msg_timestamp = TimestampMs::new(9000);
/// let known = Checkpoint { physic_msg_timestamp, ..Checkpoint::default() };
/// file[..Checkpoint::LEN].copy_from_slice(&known.encode());
/// assert_eq!(Checkpoint::decode(&file), Ok(known));
/// ```
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Checkpoint {
    /// Store time of a record up to which the commit log is flushed.
    pub physic_msg_timestamp: TimestampMs,
    /// Store time of the last record that was put into a consume queue.
    pub logics_msg_timestamp: TimestampMs,
    /// Store time of the last record in the last index file that was filled and flushed; 0 until
    /// one was.
    pub index_msg_timestamp: TimestampMs,
    /// Where a slave's copy of its master's log is flushed; a log offset, kept signed as it stands.
    pub master_flushed_offset: i64,
    /// Up to which log offset records may be consumed. After a recovery RocketMQ leaves the first
    /// byte of the last valid record here, not its end.
    pub confirm_phy_offset: i64,
}

impl Checkpoint {
    /// Bytes that the fields take.
    pub const LEN: usize = 40;
    /// Bytes of the file; all behind the fields is zero.
    pub const FILE_LEN: usize = 4096;

    /// The fields as they stand at the front of the file.
    pub fn encode(&self) -> [u8; Self::LEN] {
        let fields = [
            self.physic_msg_timestamp.get(),
            self.logics_msg_timestamp.get(),
            self.index_msg_timestamp.get(),
            self.master_flushed_offset,
            self.confirm_phy_offset,
        ];
        let mut out = [0; Self::LEN];
        for (place, value) in out.chunks_exact_mut(FIELD_LEN).zip(fields) {
            place.copy_from_slice(&value.to_be_bytes());
        }
        out
    }

    /// Reads the fields from the front of `file`.
    ///
    /// Any 40 bytes are five numbers. What lies behind them is not looked at, so a file of another
    /// length than [`Checkpoint::FILE_LEN`] is accepted too; RocketMQ makes it that long in mapping
    /// it.
    ///
    /// # Errors
    ///
    /// If there are fewer than [`Checkpoint::LEN`] bytes, as after a crash right behind the file's
    /// creation.
    pub fn decode(file: &[u8]) -> Result<Self, CheckpointError> {
        let Some(bytes) = file.first_chunk::<{ Self::LEN }>() else {
            return Err(CheckpointError::TooShort { len: file.len() });
        };
        let mut fields = [0; Self::LEN / FIELD_LEN];
        for (field, at) in fields.iter_mut().zip(bytes.chunks_exact(FIELD_LEN)) {
            *field = i64::from_be_bytes(at.try_into().expect("chunks_exact gives whole fields"));
        }
        let [physic, logics, index, master_flushed_offset, confirm_phy_offset] = fields;
        Ok(Self {
            physic_msg_timestamp: TimestampMs::new(physic),
            logics_msg_timestamp: TimestampMs::new(logics),
            index_msg_timestamp: TimestampMs::new(index),
            master_flushed_offset,
            confirm_phy_offset,
        })
    }

    /// The store time that RocketMQ's recovery after a crash takes for safe: the earlier of log and
    /// consume queues, less [`Checkpoint::MARGIN_MS`], at least 0.
    ///
    /// It begins at the last segment whose first record is not stored later than this. Source:
    /// `StoreCheckpoint.getMinTimestamp`, which wraps where this stops at 0.
    pub fn min_timestamp(&self) -> TimestampMs {
        let earlier = self.physic_msg_timestamp.min(self.logics_msg_timestamp);
        TimestampMs::new(earlier.get().saturating_sub(Self::MARGIN_MS).max(0))
    }

    /// [`Checkpoint::min_timestamp`], or the index's time if that is earlier: where a recovery
    /// begins that shall complete the index as well (`messageIndexSafe`).
    ///
    /// Without a margin for the index, as in the source: `StoreCheckpoint.getMinTimestampIndex`.
    pub fn min_timestamp_with_index(&self) -> TimestampMs {
        self.min_timestamp().min(self.index_msg_timestamp)
    }

    /// How much earlier recovery begins than the file says, in milliseconds.
    pub const MARGIN_MS: i64 = 3000;
}

/// Why bytes are no checkpoint.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The file ends within the fields.
    TooShort {
        /// The file's length in bytes.
        len: usize,
    },
}

impl fmt::Display for CheckpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooShort { len } => {
                write!(f, "a checkpoint has {} bytes at least, {len} are there", Checkpoint::LEN)
            }
        }
    }
}

impl core::error::Error for CheckpointError {}

const FIELD_LEN: usize = 8;
const _: () = assert!(Checkpoint::LEN == 5 * FIELD_LEN && Checkpoint::LEN <= Checkpoint::FILE_LEN);

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;
    use std::vec;

    /// What RocketMQ wrote in closing golden/plain.
    #[rustfmt::skip]
    const PLAIN: [u8; 40] = [
        0, 0, 0x01, 0xA2, 0x27, 0x6A, 0x0B, 0x7A,  0, 0, 0x01, 0xA2, 0x27, 0x6A, 0x11, 0x21,
        0, 0, 0x01, 0xA2, 0x27, 0x6A, 0x0C, 0xDC,  0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0,
    ];

    fn plain() -> Checkpoint {
        Checkpoint {
            physic_msg_timestamp: TimestampMs::new(1_795_957_590_906),
            logics_msg_timestamp: TimestampMs::new(1_795_957_592_353),
            index_msg_timestamp: TimestampMs::new(1_795_957_591_260),
            master_flushed_offset: 0,
            confirm_phy_offset: 0,
        }
    }

    fn with(physic: i64, logics: i64, index: i64) -> Checkpoint {
        Checkpoint {
            physic_msg_timestamp: TimestampMs::new(physic),
            logics_msg_timestamp: TimestampMs::new(logics),
            index_msg_timestamp: TimestampMs::new(index),
            ..Checkpoint::default()
        }
    }

    #[test]
    fn the_golden_file_is_read_and_written_byte_for_byte() {
        assert_eq!(Checkpoint::decode(&PLAIN), Ok(plain()));
        assert_eq!(plain().encode(), PLAIN);
    }

    #[test]
    fn every_field_has_its_own_place() {
        let numbered = Checkpoint {
            master_flushed_offset: 0x0404_0404_0404_0404,
            confirm_phy_offset: -2,
            ..with(0x0101_0101_0101_0101, 0x0202_0202_0202_0202, 0x0303_0303_0303_0303)
        };
        let bytes = numbered.encode();
        for (index, byte) in [1, 2, 3, 4].into_iter().enumerate() {
            assert_eq!(bytes[8 * index..8 * index + 8], [byte; 8]);
        }
        assert_eq!(bytes[32..], [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFE]);
        assert_eq!(Checkpoint::decode(&bytes), Ok(numbered));
    }

    #[test]
    fn a_file_that_ends_within_the_fields_is_refused_and_a_longer_one_accepted() {
        for len in 0..Checkpoint::LEN {
            let refused = Checkpoint::decode(&PLAIN[..len]);
            assert_eq!(refused, Err(CheckpointError::TooShort { len }));
        }
        for len in [41, Checkpoint::FILE_LEN, 5000] {
            let mut file = vec![0xEE; len];
            file[..40].copy_from_slice(&PLAIN);
            assert_eq!(Checkpoint::decode(&file), Ok(plain()), "{len} bytes");
        }
        let error = CheckpointError::TooShort { len: 7 };
        assert_eq!(error.to_string(), "a checkpoint has 40 bytes at least, 7 are there");
    }

    #[test]
    fn the_safe_time_is_the_earlier_less_three_seconds_and_never_negative() {
        #[track_caller]
        fn check(physic: i64, logics: i64, expect: i64) {
            assert_eq!(with(physic, logics, 0).min_timestamp().get(), expect);
        }
        check(1_795_957_590_906, 1_795_957_592_353, 1_795_957_587_906);
        check(10_000, 9_000, 6_000);
        check(3_001, i64::MAX, 1);
        check(3_000, 3_000, 0);
        check(2_999, 3_000, 0);
        check(0, 9_000, 0);
        check(-1, i64::MAX, 0);
        check(i64::MIN, i64::MAX, 0);
    }

    #[test]
    fn the_index_pulls_the_safe_time_back_without_a_margin() {
        #[track_caller]
        fn check(index: i64, expect: i64) {
            assert_eq!(with(10_000, 9_000, index).min_timestamp_with_index().get(), expect);
        }
        check(6_001, 6_000);
        check(5_999, 5_999);
        check(0, 0);
    }
}
