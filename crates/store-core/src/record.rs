//! Writing records: the v1 form of `MessageExtEncoder` and the blank that ends a segment.

use core::fmt;

use crate::host::host_len;
use crate::view::{Magic, Prefix};
use crate::{Host, LogOffset, QueueId, QueueOffset, SysFlag, TimestampMs, crc32};

/// A topic name that fits a v1 record: 1 to 127 bytes of UTF-8.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Topic<'a>(&'a [u8]);

impl<'a> Topic<'a> {
    /// Checks a topic name.
    ///
    /// # Errors
    ///
    /// If it is empty, longer than [`MAX_TOPIC_LEN`] bytes (bytes, not characters: RocketMQ counts
    /// characters and so writes records that it cannot read), or not UTF-8.
    pub fn new(name: &'a [u8]) -> Result<Self, TopicError> {
        if name.is_empty() {
            return Err(TopicError::Empty);
        }
        if name.len() > MAX_TOPIC_LEN {
            return Err(TopicError::TooLong { len: name.len(), max: MAX_TOPIC_LEN });
        }
        match core::str::from_utf8(name) {
            Ok(_) => Ok(Self(name)),
            Err(error) => Err(TopicError::NotUtf8 { valid_up_to: error.valid_up_to() }),
        }
    }

    /// The name's bytes.
    pub const fn as_bytes(self) -> &'a [u8] {
        self.0
    }
}

/// Why a topic name was refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum TopicError {
    /// No bytes.
    Empty,
    /// A byte sequence that is not UTF-8.
    NotUtf8 {
        /// Bytes before it.
        valid_up_to: usize,
    },
    /// More bytes than the length field of this record version holds.
    TooLong {
        /// The name's length in bytes.
        len: usize,
        /// The longest allowed.
        max: usize,
    },
}

impl fmt::Display for TopicError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "topic is empty"),
            Self::NotUtf8 { valid_up_to } => {
                write!(f, "topic is not UTF-8 after byte {valid_up_to}")
            }
            Self::TooLong { len, max } => write!(f, "topic has {len} bytes, at most {max} fit"),
        }
    }
}

impl core::error::Error for TopicError {}

/// Which queue a message goes to.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Destination<'a> {
    /// The topic.
    pub topic: Topic<'a>,
    /// The queue within the topic.
    pub queue_id: QueueId,
}

/// What a producer brings; everything else in a record the store adds.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Message<'a> {
    /// The application's flag; opaque, may be negative.
    pub flag: i32,
    /// Compression and transaction bits; the two host bits are set by [`encode`].
    pub sys_flag: SysFlag,
    /// When the producer made the message.
    pub born_timestamp: TimestampMs,
    /// Where the producer runs.
    pub born_host: Host,
    /// The store's own address; part of the message id.
    pub store_host: Host,
    /// How often it was delivered again.
    pub reconsume_times: i32,
    /// For a transaction's second record, the place of the first; opaque.
    pub prepared_transaction_offset: i64,
    /// The property string, stored as it is.
    pub properties: &'a [u8],
    /// The body, stored as it is.
    pub body: &'a [u8],
}

/// What is known only when a record gets its place, and patched into it then.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Placed {
    /// The record's first byte in the log.
    pub log_offset: LogOffset,
    /// The message's position in its queue.
    pub queue_offset: QueueOffset,
    /// When the store took it.
    pub store_timestamp: TimestampMs,
}

impl Message<'_> {
    /// The record's length in bytes, or why it cannot be one.
    ///
    /// # Errors
    ///
    /// As [`encode`], but for the buffer.
    pub fn encoded_len(&self, to: Destination<'_>) -> Result<u32, EncodeError> {
        if self.properties.len() > MAX_PROPERTIES_LEN {
            return Err(EncodeError::PropertiesTooLong {
                len: self.properties.len(),
                max: MAX_PROPERTIES_LEN,
            });
        }
        let hosts = self.born_host.encoded_len() + self.store_host.encoded_len();
        let fixed = FIXED_LEN + hosts + to.topic.as_bytes().len() + self.properties.len();
        match self.body.len().checked_add(fixed).map(i32::try_from) {
            Some(Ok(total)) => Ok(total.unsigned_abs()),
            _ => Err(EncodeError::BodyTooLong { len: self.body.len() }),
        }
    }
}

/// Writes a v1 record to the front of `out`, all but what [`Placed`] adds.
///
/// The body's checksum is computed here, so that nothing long is left for the moment when the
/// record gets its place ([`Encoded::place`]). Source: `MessageExtEncoder.encode`.
///
/// # Errors
///
/// If `out` is too small, the properties exceed [`MAX_PROPERTIES_LEN`], or the record would exceed
/// `i32::MAX` bytes. Nothing useful is in `out` then.
pub fn encode<'b>(
    to: Destination<'_>,
    message: &Message<'_>,
    out: &'b mut [u8],
) -> Result<Encoded<'b>, EncodeError> {
    let total = message.encoded_len(to)?;
    let needed =
        usize::try_from(total).map_err(|_| EncodeError::BodyTooLong { len: message.body.len() })?;
    let available = out.len();
    let Some(bytes) = out.get_mut(..needed) else {
        return Err(EncodeError::BufferTooSmall { needed, available });
    };
    let sys_flag =
        message.sys_flag.with_hosts(message.born_host.is_ipv6(), message.store_host.is_ipv6());
    let mut writer = Writer { rest: &mut *bytes };
    Prefix {
        total_size: total,
        magic: Magic::V1,
        body_crc: crc32(message.body),
        queue_id: to.queue_id,
        flag: message.flag,
        sys_flag,
        born_timestamp: message.born_timestamp,
    }
    .write(writer.take(Prefix::LEN));
    message.born_host.write(writer.take(message.born_host.encoded_len()));
    writer.take(STORE_TIMESTAMP_LEN).fill(0);
    message.store_host.write(writer.take(message.store_host.encoded_len()));
    writer.put(message.reconsume_times.to_be_bytes());
    writer.put(message.prepared_transaction_offset.to_be_bytes());
    writer.put(length_field(message.body.len()).to_be_bytes());
    writer.take(message.body.len()).copy_from_slice(message.body);
    let topic = to.topic.as_bytes();
    writer.put([u8::try_from(topic.len()).expect("Topic holds at most 127 bytes")]);
    writer.take(topic.len()).copy_from_slice(topic);
    let properties_len =
        i16::try_from(message.properties.len()).expect("encoded_len checked the properties");
    writer.put(properties_len.to_be_bytes());
    writer.take(message.properties.len()).copy_from_slice(message.properties);
    Ok(Encoded { bytes, born_host_len: message.born_host.encoded_len() })
}

/// A record without its place.
#[derive(Debug)]
pub struct Encoded<'b> {
    bytes: &'b mut [u8],
    born_host_len: usize,
}

impl<'b> Encoded<'b> {
    /// Patches queue offset, log offset and store time in, and gives the finished record.
    ///
    /// May be called again with another place, for example after the segment turned out full.
    pub fn place(self, placed: &Placed) -> &'b mut [u8] {
        self.bytes[crate::view::field::QUEUE_OFFSET]
            .copy_from_slice(&placed.queue_offset.get().to_be_bytes());
        self.bytes[crate::view::field::LOG_OFFSET]
            .copy_from_slice(&placed.log_offset.get().to_be_bytes());
        let at = Prefix::LEN + self.born_host_len;
        self.bytes[at..at + STORE_TIMESTAMP_LEN]
            .copy_from_slice(&placed.store_timestamp.get().to_be_bytes());
        self.bytes
    }

    /// The record's length in bytes.
    #[expect(clippy::len_without_is_empty, reason = "a record is never empty")]
    pub fn len(&self) -> u32 {
        u32::try_from(self.bytes.len()).expect("encode limits a record to i32::MAX bytes")
    }
}

/// Writes the blank that closes a segment: how many bytes are left from here to the segment's end,
/// these eight included, and the blank's magic.
///
/// # Panics
///
/// If `rest_of_segment` is below [`BLANK_LEN`]: placement never leaves less.
pub fn encode_blank(rest_of_segment: u32) -> [u8; BLANK_LEN] {
    assert!(
        crate::length_u64(BLANK_LEN) <= u64::from(rest_of_segment),
        "a blank needs {BLANK_LEN} bytes, the segment has {rest_of_segment}"
    );
    let mut out = [0; BLANK_LEN];
    out[crate::view::field::TOTAL_SIZE].copy_from_slice(&rest_of_segment.to_be_bytes());
    out[crate::view::field::MAGIC].copy_from_slice(&Magic::Blank.code().to_be_bytes());
    out
}

/// Why a message cannot be a record.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum EncodeError {
    /// The body makes the record longer than `i32::MAX` bytes.
    BodyTooLong {
        /// The body's length in bytes.
        len: usize,
    },
    /// The caller's buffer does not hold the record.
    BufferTooSmall {
        /// The record's length in bytes.
        needed: usize,
        /// The buffer's length in bytes.
        available: usize,
    },
    /// The property string exceeds its 15-bit length field.
    PropertiesTooLong {
        /// The string's length in bytes.
        len: usize,
        /// The longest allowed.
        max: usize,
    },
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BodyTooLong { len } => write!(f, "a body of {len} bytes exceeds the format"),
            Self::BufferTooSmall { needed, available } => {
                write!(f, "the record needs {needed} bytes, the buffer has {available}")
            }
            Self::PropertiesTooLong { len, max } => {
                write!(f, "properties have {len} bytes, at most {max} fit")
            }
        }
    }
}

impl core::error::Error for EncodeError {}

/// The part of a record's bytes that is still to be written.
struct Writer<'b> {
    rest: &'b mut [u8],
}

impl<'b> Writer<'b> {
    fn take(&mut self, len: usize) -> &'b mut [u8] {
        self.rest.split_off_mut(..len).expect("encoded_len counted every field")
    }

    fn put<const N: usize>(&mut self, bytes: [u8; N]) {
        self.take(N).copy_from_slice(&bytes);
    }
}

fn length_field(len: usize) -> u32 {
    u32::try_from(len).expect("encoded_len limits a record to i32::MAX bytes")
}

/// The longest topic name of a v1 record, in bytes.
pub const MAX_TOPIC_LEN: usize = 127;
/// The longest property string, in bytes (`i16::MAX`).
pub const MAX_PROPERTIES_LEN: usize = 32_767;
/// Bytes of a blank; also what a record must leave free behind it in its segment.
pub const BLANK_LEN: usize = 8;

const STORE_TIMESTAMP_LEN: usize = 8;
/// A v1 record without hosts, topic, properties and body.
const FIXED_LEN: usize = Prefix::LEN + STORE_TIMESTAMP_LEN + 4 + 8 + 4 + 1 + 2;
const _: () = assert!(FIXED_LEN + 2 * host_len(false) == 91, "RocketMQ's 91 + T + N");

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv6Addr;
    use std::vec;

    fn to(topic: &[u8]) -> Destination<'_> {
        Destination { topic: Topic::new(topic).unwrap(), queue_id: QueueId::new(1) }
    }

    #[test]
    fn every_byte_of_a_small_record() {
        let message = Message {
            flag: -2,
            born_timestamp: TimestampMs::new(-1),
            properties: b"a\x01b\x02",
            body: &[0x7F],
            ..Message::default()
        };
        let mut out = [0xEE; 128];
        let record = encode(to(b"T"), &message, &mut out).unwrap().place(&Placed {
            log_offset: LogOffset::new(0x0102_0304_0506_0708),
            queue_offset: QueueOffset::new(9),
            store_timestamp: TimestampMs::new(10),
        });
        #[rustfmt::skip]
        let expect: &[u8] = &[
            0, 0, 0, 97,  0xDA, 0xA3, 0x20, 0xA7,  0x12, 0xB8, 0x83, 0x20,  // size, magic, crc
            0, 0, 0, 1,  0xFF, 0xFF, 0xFF, 0xFE,                            // queue id, flag
            0, 0, 0, 0, 0, 0, 0, 9,  1, 2, 3, 4, 5, 6, 7, 8,                // queue, log offset
            0, 0, 0, 0,  0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF,    // sysflag, born
            0, 0, 0, 0, 0, 0, 0, 0,  0, 0, 0, 0, 0, 0, 0, 10,               // born host, stored
            0, 0, 0, 0, 0, 0, 0, 0,  0, 0, 0, 0,                            // store host, again
            0, 0, 0, 0, 0, 0, 0, 0,  0, 0, 0, 1, 0x7F,                      // prepared, body
            1, b'T',  0, 4, b'a', 1, b'b', 2,                               // topic, properties
        ];
        assert_eq!(record, expect);
        assert_eq!(out[97..], [0xEE; 31], "nothing is written behind the record");
    }

    #[test]
    fn a_small_buffer_is_refused_with_both_lengths() {
        let mut out = [0; 91];
        let error = encode(to(b"T"), &Message::default(), &mut out).unwrap_err();
        assert_eq!(error, EncodeError::BufferTooSmall { needed: 92, available: 91 });
    }

    #[test]
    fn ipv6_hosts_lengthen_the_record_and_set_the_flags() {
        let host = Host::new(Ipv6Addr::LOCALHOST.into(), 1);
        let message = Message { born_host: host, store_host: host, ..Message::default() };
        assert_eq!(message.encoded_len(to(b"T")), Ok(92 + 24));
        let mut out = [0; 116];
        let record = encode(to(b"T"), &message, &mut out).unwrap().place(&Placed::default());
        assert_eq!(record[39], 0x30);
    }

    #[test]
    fn properties_up_to_the_field_width() {
        let mut out = vec![0; 40_000];
        let longest = vec![b'x'; MAX_PROPERTIES_LEN + 1];
        let fits = Message { properties: &longest[1..], ..Message::default() };
        encode(to(b"T"), &fits, &mut out).unwrap();
        let exceeds = Message { properties: &longest, ..Message::default() };
        assert_eq!(
            encode(to(b"T"), &exceeds, &mut out).unwrap_err(),
            EncodeError::PropertiesTooLong { len: 32_768, max: 32_767 }
        );
    }

    #[test]
    fn topics_are_measured_in_bytes() {
        assert!(Topic::new(&[b't'; 127]).is_ok());
        assert_eq!(Topic::new(&[b't'; 128]), Err(TopicError::TooLong { len: 128, max: 127 }));
        let cjk = "标".repeat(60);
        assert_eq!(Topic::new(cjk.as_bytes()), Err(TopicError::TooLong { len: 180, max: 127 }));
        assert_eq!(Topic::new(b""), Err(TopicError::Empty));
        assert_eq!(Topic::new(b"ab\xFF"), Err(TopicError::NotUtf8 { valid_up_to: 2 }));
    }

    #[test]
    fn blank_bytes() {
        assert_eq!(encode_blank(8), [0, 0, 0, 8, 0xCB, 0xD4, 0x31, 0x94]);
    }
}
