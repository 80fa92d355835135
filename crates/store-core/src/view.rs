//! Reading records: a view over borrowed bytes, made only when every length has been checked.

use core::fmt;
use core::ops::Range;

use crate::crc::{Shift, crc32_full, is_summed_whole, masked};
use crate::host::host_len;
use crate::protection;
use crate::record::{INNER_NUM, parse_inner_num};
use crate::{
    BLANK_LEN, Host, LogOffset, Properties, Protection, QueueId, QueueOffset, SysFlag, TimestampMs,
    Version, crc32,
};

/// What stands at a position of a segment.
#[derive(Clone, Copy, Debug)]
pub enum Frame<'a> {
    /// Nothing but unused space from here to the segment's end.
    Blank {
        /// Bytes to the end of the segment, counted from the blank's first byte.
        len: u32,
    },
    /// A message.
    Record(RecordView<'a>),
}

/// Reads what stands at the front of `bytes`.
///
/// Total: any bytes give a frame or an error, never a panic or a read past the slice. Bytes behind
/// the frame are not looked at. The body's checksum is *not* verified
/// ([`RecordView::body_crc_matches`]), nor whether the record stands where it says it does.
///
/// # Errors
///
/// Names the field that does not hold, its place and what was found. [`DecodeError::Truncated`]
/// says how many bytes would be needed; a caller that has them can try again.
pub fn decode(bytes: &[u8]) -> Result<Frame<'_>, DecodeError> {
    let mut reader = Reader { bytes, at: 0 };
    let total = reader.u32(Field::TotalSize)?;
    let magic = Magic::from_code(reader.u32(Field::Magic)?)?;
    match magic {
        Magic::Blank if crate::length_u64(BLANK_LEN) <= u64::from(total) => {
            Ok(Frame::Blank { len: total })
        }
        Magic::Blank => Err(DecodeError::TotalSizeTooSmall { declared: total }),
        Magic::Record(version) => RecordView::parse(bytes, total, version).map(Frame::Record),
    }
}

/// A whole record over borrowed bytes.
///
/// Invariant: `bytes` is exactly the record, and every range below lies within it and in order.
#[derive(Clone, Copy, Debug)]
pub struct RecordView<'a> {
    bytes: &'a [u8],
    version: Version,
    born_host: [usize; 2],
    store_host: [usize; 2],
    body: [usize; 2],
    topic: [usize; 2],
    properties: [usize; 2],
}

impl<'a> RecordView<'a> {
    fn parse(bytes: &'a [u8], total: u32, version: Version) -> Result<Self, DecodeError> {
        let needed = usize::try_from(total)
            .ok()
            .filter(|total| i32::try_from(*total).is_ok())
            .ok_or(DecodeError::TotalSizeTooLarge { declared: total })?;
        if needed < SHORTEST {
            return Err(DecodeError::TotalSizeTooSmall { declared: total });
        }
        let available = bytes.len();
        let bytes = bytes.get(..needed).ok_or(DecodeError::Truncated {
            field: Field::TotalSize,
            at: field::TOTAL_SIZE.start,
            needed,
            available,
        })?;
        let mut reader = Reader { bytes, at: field::SYS_FLAG.start };
        let sys_flag = SysFlag::new(reader.u32(Field::SysFlag)?);
        reader.skip(8, Field::BornTimestamp)?;
        let born_len = host_len(sys_flag.has(SysFlag::BORN_HOST_IPV6));
        let born_host = reader.skip(born_len, Field::BornHost)?;
        reader.skip(8, Field::StoreTimestamp)?;
        let store_len = host_len(sys_flag.has(SysFlag::STORE_HOST_IPV6));
        let store_host = reader.skip(store_len, Field::StoreHost)?;
        reader.skip(4, Field::ReconsumeTimes)?;
        reader.skip(8, Field::PreparedTransactionOffset)?;
        let body_len = reader.length(4, Field::BodyLength)?;
        let body = reader.skip(body_len, Field::Body)?;
        let topic_len = reader.length(version.topic_length_width(), Field::TopicLength)?;
        let topic = reader.skip(topic_len, Field::Topic)?;
        let properties_len = reader.length(2, Field::PropertiesLength)?;
        let properties = reader.skip(properties_len, Field::Properties)?;
        if reader.at != bytes.len() {
            return Err(DecodeError::LengthMismatch { declared: total, fields: reader.at });
        }
        Ok(Self { bytes, version, born_host, store_host, body, topic, properties })
    }

    /// The record as stored.
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The record's form, by its MAGICCODE.
    pub const fn version(&self) -> Version {
        self.version
    }

    /// TOTALSIZE: the record's length in bytes.
    pub fn total_size(&self) -> u32 {
        u32::from_be_bytes(self.array(field::TOTAL_SIZE.start))
    }

    /// BODYCRC as stored.
    pub fn body_crc(&self) -> u32 {
        u32::from_be_bytes(self.array(field::BODY_CRC.start))
    }

    /// Whether BODYCRC is the checksum of the body; an empty body always matches, as in RocketMQ.
    pub fn body_crc_matches(&self) -> bool {
        self.body().is_empty() || crc32(self.body()) == self.body_crc()
    }

    /// The checksum of the whole record that its CRC32 property holds, if it ends in one. A value
    /// above 31 bits is a damaged property's.
    pub fn record_crc(&self) -> Option<u64> {
        protection::claimed(self.property_string())
    }

    /// Whether the CRC32 property, if there is one, is the checksum of the record before it.
    pub fn record_crc_matches(&self) -> bool {
        let covered = self.bytes.len().saturating_sub(protection::PROPERTY_LEN);
        self.record_crc().is_none_or(|stored| stored == u64::from(crc32(&self.bytes[..covered])))
    }

    /// How many messages of its queue the record is: `INNER_NUM` for an inner batch, else one.
    pub fn message_count(&self) -> u16 {
        let inner_num = || self.properties().last(INNER_NUM).and_then(parse_inner_num);
        self.sys_flag().has(SysFlag::INNER_BATCH).then(inner_num).flatten().unwrap_or(1)
    }

    /// Verifies both checksums; a long body is summed once.
    pub(crate) fn verify(&self, protection: Protection) -> Result<(), BadChecksum> {
        let [body_start, body_end] = self.body;
        let body = crc32_full(self.body());
        let body_crc = self.body_crc();
        if body_start < body_end && masked(body) != body_crc {
            return Err(BadChecksum::Body { stored: body_crc });
        }
        if protection == Protection::Body {
            return Ok(());
        }
        let Some(stored) = self.record_crc() else {
            return Ok(());
        };
        let covered = &self.bytes[..self.bytes.len() - protection::PROPERTY_LEN];
        let full = if is_summed_whole(covered.len()) {
            crc32_full(covered)
        } else {
            let before = crc32_full(&covered[..body_start]);
            let through_body = Shift::by(self.body().len()).join(before, body);
            let behind = &covered[body_end..];
            Shift::by(behind.len()).join(through_body, crc32_full(behind))
        };
        let computed = masked(full);
        if stored == u64::from(computed) {
            Ok(())
        } else {
            Err(BadChecksum::Record { stored, computed })
        }
    }

    /// Whether the record ends in a zero byte where text should stand: what a torn write leaves,
    /// and what no checksum covers without the CRC32 property.
    pub(crate) fn ends_in_zero(&self) -> bool {
        let last = [self.property_string(), self.topic()].into_iter().find_map(<[u8]>::last);
        last == Some(&0)
    }

    /// Whether the properties are text, or end in a CRC32 property, which covers them.
    pub(crate) fn has_plausible_properties(&self) -> bool {
        self.record_crc().is_some() || core::str::from_utf8(self.property_string()).is_ok()
    }

    /// QUEUEID.
    pub fn queue_id(&self) -> QueueId {
        QueueId::new(i32::from_be_bytes(self.array(field::QUEUE_ID.start)))
    }

    /// FLAG.
    pub fn flag(&self) -> i32 {
        i32::from_be_bytes(self.array(field::FLAG.start))
    }

    /// QUEUEOFFSET.
    pub fn queue_offset(&self) -> QueueOffset {
        QueueOffset::new(u64::from_be_bytes(self.array(field::QUEUE_OFFSET.start)))
    }

    /// PHYSICALOFFSET: where the record says that it stands.
    pub fn log_offset(&self) -> LogOffset {
        LogOffset::new(u64::from_be_bytes(self.array(field::LOG_OFFSET.start)))
    }

    /// SYSFLAG.
    pub fn sys_flag(&self) -> SysFlag {
        SysFlag::new(u32::from_be_bytes(self.array(field::SYS_FLAG.start)))
    }

    /// BORNTIMESTAMP.
    pub fn born_timestamp(&self) -> TimestampMs {
        TimestampMs::new(i64::from_be_bytes(self.array(field::BORN_TIMESTAMP.start)))
    }

    /// BORNHOST.
    pub fn born_host(&self) -> Host {
        Host::read(self.slice(self.born_host)).expect("parse took the length from the flag")
    }

    /// STORETIMESTAMP.
    pub fn store_timestamp(&self) -> TimestampMs {
        TimestampMs::new(i64::from_be_bytes(self.array(self.born_host[1])))
    }

    /// STOREHOST.
    pub fn store_host(&self) -> Host {
        Host::read(self.slice(self.store_host)).expect("parse took the length from the flag")
    }

    /// RECONSUMETIMES.
    pub fn reconsume_times(&self) -> i32 {
        i32::from_be_bytes(self.array(self.store_host[1]))
    }

    /// PREPAREDTRANSACTIONOFFSET; opaque.
    pub fn prepared_transaction_offset(&self) -> i64 {
        i64::from_be_bytes(self.array(self.store_host[1] + 4))
    }

    /// The body as stored.
    pub fn body(&self) -> &'a [u8] {
        self.slice(self.body)
    }

    /// The topic's bytes; UTF-8 if a RocketMQ producer wrote them, but not checked to be.
    pub fn topic(&self) -> &'a [u8] {
        self.slice(self.topic)
    }

    /// The property string as stored.
    pub fn property_string(&self) -> &'a [u8] {
        self.slice(self.properties)
    }

    /// The pairs of the property string.
    pub fn properties(&self) -> Properties<'a> {
        Properties::new(self.property_string())
    }

    fn slice(&self, [start, end]: [usize; 2]) -> &'a [u8] {
        &self.bytes[start..end]
    }

    fn array<const N: usize>(&self, at: usize) -> [u8; N] {
        *self.bytes[at..].first_chunk().expect("parse checked that the fixed fields are there")
    }
}

/// A checksum that does not hold.
pub(crate) enum BadChecksum {
    Body { stored: u32 },
    Record { stored: u64, computed: u32 },
}

/// The kinds of frame, by their MAGICCODE.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Magic {
    /// The rest of the segment is unused.
    Blank,
    /// A message.
    Record(Version),
}

impl Magic {
    /// The code on disk.
    pub const fn code(self) -> u32 {
        match self {
            Self::Blank => 0xCBD4_3194,
            Self::Record(Version::V1) => 0xDAA3_20A7,
            Self::Record(Version::V2) => 0xDAA3_20AB,
        }
    }

    pub(crate) fn from_code(code: u32) -> Result<Self, DecodeError> {
        [Self::Blank, Self::Record(Version::V1), Self::Record(Version::V2)]
            .into_iter()
            .find(|magic| magic.code() == code)
            .ok_or(DecodeError::BadMagic { found: code })
    }
}

/// The fields before the first one of variable length.
pub(crate) struct Prefix {
    pub(crate) total_size: u32,
    pub(crate) magic: Magic,
    pub(crate) body_crc: u32,
    pub(crate) queue_id: QueueId,
    pub(crate) flag: i32,
    pub(crate) sys_flag: SysFlag,
    pub(crate) born_timestamp: TimestampMs,
}

impl Prefix {
    pub(crate) const LEN: usize = field::BORN_TIMESTAMP.end;

    /// Writes all but the two offsets, which are zeroed until the record gets its place.
    pub(crate) fn write(&self, out: &mut [u8]) {
        out[field::TOTAL_SIZE].copy_from_slice(&self.total_size.to_be_bytes());
        out[field::MAGIC].copy_from_slice(&self.magic.code().to_be_bytes());
        out[field::BODY_CRC].copy_from_slice(&self.body_crc.to_be_bytes());
        out[field::QUEUE_ID].copy_from_slice(&self.queue_id.get().to_be_bytes());
        out[field::FLAG].copy_from_slice(&self.flag.to_be_bytes());
        out[field::QUEUE_OFFSET].fill(0);
        out[field::LOG_OFFSET].fill(0);
        out[field::SYS_FLAG].copy_from_slice(&self.sys_flag.bits().to_be_bytes());
        out[field::BORN_TIMESTAMP].copy_from_slice(&self.born_timestamp.get().to_be_bytes());
    }
}

/// A record of version 1 with IPv4 hosts and nothing of variable length.
const SHORTEST: usize = 91;

/// Where the fields of fixed place stand.
pub(crate) mod field {
    use super::Range;

    pub(crate) const TOTAL_SIZE: Range<usize> = 0..4;
    pub(crate) const MAGIC: Range<usize> = 4..8;
    pub(crate) const BODY_CRC: Range<usize> = 8..12;
    pub(crate) const QUEUE_ID: Range<usize> = 12..16;
    pub(crate) const FLAG: Range<usize> = 16..20;
    pub(crate) const QUEUE_OFFSET: Range<usize> = 20..28;
    pub(crate) const LOG_OFFSET: Range<usize> = 28..36;
    pub(crate) const SYS_FLAG: Range<usize> = 36..40;
    pub(crate) const BORN_TIMESTAMP: Range<usize> = 40..48;
}

/// The fields of a record, for errors; in the order in which they stand.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the names are the format's; docs/FORMAT.md describes each")]
pub enum Field {
    TotalSize,
    Magic,
    SysFlag,
    BornTimestamp,
    BornHost,
    StoreTimestamp,
    StoreHost,
    ReconsumeTimes,
    PreparedTransactionOffset,
    BodyLength,
    Body,
    TopicLength,
    Topic,
    PropertiesLength,
    Properties,
}

/// Why bytes are no frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum DecodeError {
    /// The magic names no known frame; 0 is what never-written space holds.
    BadMagic {
        /// The code found.
        found: u32,
    },
    /// The fields do not add up to TOTALSIZE.
    LengthMismatch {
        /// TOTALSIZE.
        declared: u32,
        /// Where the last field ends.
        fields: usize,
    },
    /// A length field is negative.
    NegativeLength {
        /// Which one.
        field: Field,
        /// Where it stands, from the frame's start.
        at: usize,
        /// Its value.
        found: i64,
    },
    /// TOTALSIZE exceeds what a record can have.
    TotalSizeTooLarge {
        /// TOTALSIZE.
        declared: u32,
    },
    /// A blank shorter than its own eight bytes, or a record shorter than its fixed fields.
    TotalSizeTooSmall {
        /// TOTALSIZE.
        declared: u32,
    },
    /// A field reaches past the bytes at hand, or past TOTALSIZE.
    Truncated {
        /// The field, or `TotalSize` where the whole record does.
        field: Field,
        /// Where it begins, from the frame's start.
        at: usize,
        /// Bytes needed from the frame's start.
        needed: usize,
        /// Bytes there are.
        available: usize,
    },
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadMagic { found } => write!(f, "unknown magic {found:#010x} at byte 4"),
            Self::LengthMismatch { declared, fields } => {
                write!(f, "total size says {declared} bytes, the fields end at {fields}")
            }
            Self::NegativeLength { field, at, found } => {
                write!(f, "{field:?} at byte {at} is {found}")
            }
            Self::TotalSizeTooLarge { declared } => {
                write!(f, "total size {declared} exceeds what a record can have")
            }
            Self::TotalSizeTooSmall { declared } => {
                write!(f, "total size {declared} is less than anything has")
            }
            Self::Truncated { field, at, needed, available } => {
                write!(f, "{field:?} at byte {at} ends at {needed}, {available} bytes are there")
            }
        }
    }
}

impl core::error::Error for DecodeError {}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    /// Passes over `len` bytes and gives their range.
    fn skip(&mut self, len: usize, field: Field) -> Result<[usize; 2], DecodeError> {
        let available = self.bytes.len();
        match self.at.checked_add(len) {
            Some(end) if end <= available => {
                let start = core::mem::replace(&mut self.at, end);
                Ok([start, end])
            }
            end => {
                let needed = end.unwrap_or(usize::MAX);
                Err(DecodeError::Truncated { field, at: self.at, needed, available })
            }
        }
    }

    fn u32(&mut self, field: Field) -> Result<u32, DecodeError> {
        let [start, _] = self.skip(4, field)?;
        let bytes = self.bytes[start..].first_chunk().expect("skip checked the length");
        Ok(u32::from_be_bytes(*bytes))
    }

    /// A signed big-endian length of `width` bytes.
    fn length(&mut self, width: usize, field: Field) -> Result<usize, DecodeError> {
        let [start, end] = self.skip(width, field)?;
        let bytes = &self.bytes[start..end];
        let sign = if bytes[0] & 0x80 == 0 { 0 } else { -1 };
        let found = bytes.iter().fold(sign, |value: i64, byte| value << 8 | i64::from(*byte));
        usize::try_from(found).map_err(|_| DecodeError::NegativeLength { field, at: start, found })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Destination, Message, Placed, Topic, encode, encode_blank};
    use std::vec::Vec;

    fn sample() -> Vec<u8> {
        let mut out = [0; 256];
        let to = Destination { topic: Topic::new(b"Topic").unwrap(), queue_id: QueueId::new(7) };
        let message = Message { body: b"body", properties: b"k\x01v\x02", ..Message::default() };
        encode(to, &message, Protection::Body, &mut out).unwrap().place(&Placed::default()).to_vec()
    }

    #[track_caller]
    fn check(bytes: &[u8], expect: DecodeError) {
        assert_eq!(decode(bytes).map(|_| ()), Err(expect));
    }

    fn patched(at: usize, value: &[u8]) -> Vec<u8> {
        let mut bytes = sample();
        bytes[at..at + value.len()].copy_from_slice(value);
        bytes
    }

    #[test]
    fn any_cut_says_how_much_is_needed() {
        let bytes = sample();
        for cut in 0..bytes.len() {
            let found = decode(&bytes[..cut]).map(|_| ());
            let Err(DecodeError::Truncated { needed, available, .. }) = found else {
                panic!("cut at {cut}: {found:?}")
            };
            assert!(needed > cut && available == cut, "cut at {cut}: {found:?}");
        }
    }

    #[test]
    fn each_length_field_is_checked() {
        check(&patched(4, &[0; 4]), DecodeError::BadMagic { found: 0 });
        check(&patched(0, &[0xFF; 4]), DecodeError::TotalSizeTooLarge { declared: u32::MAX });
        check(&patched(0, &[0; 4]), DecodeError::TotalSizeTooSmall { declared: 0 });
        check(&patched(0, &[0, 0, 0, 90]), DecodeError::TotalSizeTooSmall { declared: 90 });
        let negative = |field, at| DecodeError::NegativeLength { field, at, found: -1 };
        check(&patched(84, &[0xFF; 4]), negative(Field::BodyLength, 84));
        check(&patched(92, &[0xFF]), negative(Field::TopicLength, 92));
        check(&patched(98, &[0xFF; 2]), negative(Field::PropertiesLength, 98));
        let past = |field, at, needed| DecodeError::Truncated { field, at, needed, available: 104 };
        check(&patched(84, &[0, 0, 1, 0]), past(Field::Body, 88, 344));
        check(&patched(92, &[0x7F]), past(Field::Topic, 93, 220));
        check(&patched(98, &[0x7F, 0xFF]), past(Field::Properties, 100, 32_867));
        check(&patched(98, &[0, 3]), DecodeError::LengthMismatch { declared: 104, fields: 103 });
    }

    #[test]
    fn a_blank_is_a_frame_but_not_below_its_own_length() {
        assert!(matches!(decode(&encode_blank(1000)), Ok(Frame::Blank { len: 1000 })));
        let mut small = encode_blank(8);
        small[3] = 7;
        check(&small, DecodeError::TotalSizeTooSmall { declared: 7 });
    }

    #[test]
    fn a_flipped_body_bit_shows_in_the_checksum() {
        let bytes = sample();
        for bit in 0..32 {
            let mut flipped = bytes.clone();
            flipped[88 + bit / 8] ^= 1 << (bit % 8);
            let Ok(Frame::Record(view)) = decode(&flipped) else { panic!("structure is intact") };
            assert!(!view.body_crc_matches(), "bit {bit}");
        }
    }
}
