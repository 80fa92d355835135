//! Writing records, as `MessageExtEncoder` does, and the blank that ends a segment.

use core::fmt;

use crate::crc::{Shift, crc32_full, is_summed_whole, masked};
use crate::host::host_len;
use crate::protection::{self, PROPERTY_LEN};
use crate::stored_properties::StoredProperties;
use crate::view::{Magic, Prefix, field};
use crate::{
    Host, LogOffset, Properties, Protection, QueueId, QueueOffset, SysFlag, TimestampMs, Topic,
};

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
    /// For an inner batch, the queue offset of its first message, which the store knows: stored as
    /// the property `INNER_BASE`. A log sets it itself.
    pub inner_base: Option<QueueOffset>,
    /// The property string, stored as it is; where the store writes a CRC32 property of its own,
    /// one in the string is left out.
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
    #[inline]
    pub fn encoded_len(
        &self,
        to: Destination<'_>,
        protection: Protection,
    ) -> Result<u32, EncodeError> {
        Parts::new(to, self, protection)?.total_size()
    }

    /// How many positions of its queue the record takes: none for prepared and rollback records,
    /// `INNER_NUM` for an inner batch, else one.
    ///
    /// # Errors
    ///
    /// If `INNER_NUM` is not a number from 1 to 32767, or stands on a message without the flag
    /// ([`SysFlag::INNER_BATCH`]), which RocketMQ refuses too.
    #[inline]
    pub fn queue_slots(&self) -> Result<u16, EncodeError> {
        let is_inner = self.sys_flag.has(SysFlag::INNER_BATCH);
        let slots = match Properties::new(self.properties).last(INNER_NUM) {
            None => 1,
            Some(value) => {
                parse_inner_num(value).filter(|_| is_inner).ok_or(EncodeError::InnerNum)?
            }
        };
        Ok(if self.sys_flag.transaction_type().takes_queue_offset() { slots } else { 0 })
    }
}

/// Writes a record to the front of `out`, all but what [`Placed`] adds.
///
/// The body's checksum is computed here, and of a long record what the CRC32 property covers is
/// summed but for the first bytes, so that nothing long is left for the moment when the record gets
/// its place ([`Encoded::place`]). Topics of more than 127 bytes make it version 2. Source:
/// `MessageExtEncoder.encode`.
///
/// # Errors
///
/// If `out` is too small, the properties exceed [`MAX_PROPERTIES_LEN`], the record would exceed
/// `i32::MAX` bytes, or its end could not be told from a torn one. Nothing useful is in `out` then.
#[inline]
pub fn encode<'b>(
    to: Destination<'_>,
    message: &Message<'_>,
    protection: Protection,
    out: &'b mut [u8],
) -> Result<Encoded<'b>, EncodeError> {
    encode_in(to, message, protection, |_| out)
}

/// [`encode`] into the buffer that `buffer` gives for the record's length, so that nobody needs to
/// measure a message first.
///
/// # Errors
///
/// As [`encode`].
#[inline]
pub fn encode_in<'b>(
    to: Destination<'_>,
    message: &Message<'_>,
    protection: Protection,
    buffer: impl FnOnce(u32) -> &'b mut [u8],
) -> Result<Encoded<'b>, EncodeError> {
    let parts = Parts::new(to, message, protection)?;
    let out = buffer(parts.total_size()?);
    let needed = parts.write(out)?;
    Ok(Encoded { bytes: &mut out[..needed], protection })
}

/// One record to be written: a message, or a member of a batch.
#[derive(Debug)]
pub(crate) struct Parts<'a> {
    to: Destination<'a>,
    message: &'a Message<'a>,
    properties: StoredProperties<'a>,
    properties_len: usize,
}

impl<'a> Parts<'a> {
    #[inline]
    fn new(
        to: Destination<'a>,
        message: &'a Message<'a>,
        protection: Protection,
    ) -> Result<Self, EncodeError> {
        Self::with_shared(to, message, b"", protection)
    }

    /// A record whose properties end in those that all members of its batch share.
    #[inline]
    pub(crate) fn with_shared(
        to: Destination<'a>,
        message: &'a Message<'a>,
        shared: &'a [u8],
        protection: Protection,
    ) -> Result<Self, EncodeError> {
        let (inner_base, own) = (message.inner_base, message.properties);
        let properties = StoredProperties::new(inner_base, own, shared, protection);
        let (properties_len, last) = properties.measure();
        if properties_len > MAX_PROPERTIES_LEN {
            let max = MAX_PROPERTIES_LEN;
            return Err(EncodeError::PropertiesTooLong { len: properties_len, max });
        }
        if last.or(to.topic.as_bytes().last().copied()) == Some(0) {
            return Err(EncodeError::EndsInZero);
        }
        if protection == Protection::Body {
            for string in [own, shared] {
                // Cheaper for short strings than to look at each character.
                if !string.is_ascii() {
                    core::str::from_utf8(string).map_err(|_| EncodeError::PropertiesNotUtf8)?;
                }
            }
        }
        Ok(Self { to, message, properties, properties_len })
    }

    #[inline]
    pub(crate) fn total_size(&self) -> Result<u32, EncodeError> {
        let message = self.message;
        let hosts = message.born_host.encoded_len() + message.store_host.encoded_len();
        let topic = self.to.topic.version().topic_length_width() + self.to.topic.as_bytes().len();
        let fixed = FIXED_LEN + hosts + topic + self.properties_len;
        match message.body.len().checked_add(fixed).map(i32::try_from) {
            Some(Ok(total)) => Ok(total.unsigned_abs()),
            _ => Err(EncodeError::BodyTooLong { len: message.body.len() }),
        }
    }

    /// Writes the record to the front of `out` and gives its length.
    #[inline]
    pub(crate) fn write(&self, out: &mut [u8]) -> Result<usize, EncodeError> {
        let message = self.message;
        let total = self.total_size()?;
        let needed = usize::try_from(total)
            .map_err(|_| EncodeError::BodyTooLong { len: message.body.len() })?;
        let available = out.len();
        let Some(bytes) = out.get_mut(..needed) else {
            return Err(EncodeError::BufferTooSmall { needed, available });
        };
        let topic = self.to.topic;
        let sys_flag =
            message.sys_flag.with_hosts(message.born_host.is_ipv6(), message.store_host.is_ipv6());
        let body_crc = crc32_full(message.body);
        let mut writer = Writer { rest: &mut *bytes };
        Prefix {
            total_size: total,
            magic: Magic::Record(topic.version()),
            body_crc: masked(body_crc),
            queue_id: self.to.queue_id,
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
        let behind_body = writer.rest.len() - message.body.len();
        writer.take(message.body.len()).copy_from_slice(message.body);
        let [high, low] = u16::try_from(topic.as_bytes().len())
            .expect("Topic holds at most 255 bytes")
            .to_be_bytes();
        writer.take(topic.version().topic_length_width() - 1).fill(high);
        writer.put([low]);
        writer.take(topic.as_bytes().len()).copy_from_slice(topic.as_bytes());
        let properties_len =
            i16::try_from(self.properties_len).expect("checked when the parts were put together");
        writer.put(properties_len.to_be_bytes());
        self.properties.write(writer.take(self.properties_len));
        if self.properties.protection == Protection::Record {
            sum_tail(bytes, needed - behind_body, message.body.len(), body_crc);
        }
        Ok(needed)
    }
}

/// Sums what lies between STORETIMESTAMP and the CRC32 property of a long record, and keeps the
/// sum, with the shift by its length, where the property's digits will stand.
#[inline]
fn sum_tail(bytes: &mut [u8], body_end: usize, body_len: usize, body_crc: u32) {
    let head_len = placed_len(bytes);
    let (covered, property) = split_property(bytes);
    if is_summed_whole(covered.len()) {
        return;
    }
    let before = crc32_full(&covered[head_len..body_end - body_len]);
    let behind = &covered[body_end..];
    let through_body = Shift::by(body_len).join(before, body_crc);
    let tail = Shift::by(behind.len()).join(through_body, crc32_full(behind));
    let shift = Shift::by(covered.len() - head_len).bits();
    property[KEPT_SUM].copy_from_slice(&tail.to_be_bytes());
    property[KEPT_SHIFT].copy_from_slice(&shift.to_be_bytes());
}

/// One record without its place, or several: the members of a batch, one behind the other.
#[derive(Debug)]
pub struct Encoded<'b> {
    pub(crate) bytes: &'b mut [u8],
    pub(crate) protection: Protection,
}

impl<'b> Encoded<'b> {
    /// Patches queue offset, log offset and store time in, finishes the CRC32 property, and gives
    /// the finished bytes. The members of a batch follow each other in log and queue.
    #[inline]
    pub fn place(self, placed: &Placed) -> &'b mut [u8] {
        let mut placed = *placed;
        let mut rest = &mut *self.bytes;
        while let Some(total) = rest.first_chunk() {
            let len = u32::from_be_bytes(*total);
            let record;
            (record, rest) = rest
                .split_at_mut_checked(usize::try_from(len).expect("encode wrote that many bytes"))
                .expect("encode wrote whole records");
            place_one(record, &placed, self.protection);
            placed.queue_offset = QueueOffset::new(placed.queue_offset.get().wrapping_add(1));
            placed.log_offset =
                LogOffset::new(placed.log_offset.get().wrapping_add(u64::from(len)));
        }
        self.bytes
    }

    /// The lengths of the records in bytes, in order.
    #[inline]
    pub fn record_lens(&self) -> impl Iterator<Item = u32> {
        let mut rest = &*self.bytes;
        core::iter::from_fn(move || {
            let len = u32::from_be_bytes(*rest.first_chunk()?);
            rest = usize::try_from(len).ok().and_then(|len| rest.get(len..))?;
            Some(len)
        })
    }

    /// The length of all in bytes.
    #[expect(clippy::len_without_is_empty, reason = "a record is never empty")]
    #[inline]
    pub fn len(&self) -> u32 {
        u32::try_from(self.bytes.len()).expect("encode limits a record to i32::MAX bytes")
    }
}

#[inline]
fn place_one(record: &mut [u8], placed: &Placed, protection: Protection) {
    record[field::QUEUE_OFFSET].copy_from_slice(&placed.queue_offset.get().to_be_bytes());
    record[field::LOG_OFFSET].copy_from_slice(&placed.log_offset.get().to_be_bytes());
    let end = placed_len(record);
    record[end - STORE_TIMESTAMP_LEN..end]
        .copy_from_slice(&placed.store_timestamp.get().to_be_bytes());
    if protection == Protection::Record {
        let (covered, property) = split_property(record);
        let full = if is_summed_whole(covered.len()) {
            crc32_full(covered)
        } else {
            let kept = |range: core::ops::Range<usize>| {
                u32::from_be_bytes(*property[range].first_chunk().expect("four bytes were kept"))
            };
            Shift::from_bits(kept(KEPT_SHIFT)).join(crc32_full(&covered[..end]), kept(KEPT_SUM))
        };
        protection::write_digits(full, property);
    }
}

/// Bytes from a record's start to behind STORETIMESTAMP: all that placing changes.
#[inline]
fn placed_len(record: &[u8]) -> usize {
    let bits = *record[field::SYS_FLAG].first_chunk().expect("four bytes");
    let is_ipv6 = SysFlag::new(u32::from_be_bytes(bits)).has(SysFlag::BORN_HOST_IPV6);
    Prefix::LEN + host_len(is_ipv6) + STORE_TIMESTAMP_LEN
}

#[inline]
fn split_property(record: &mut [u8]) -> (&mut [u8], &mut [u8; PROPERTY_LEN]) {
    record.split_last_chunk_mut().expect("a protected record ends in the property")
}

/// `INNER_NUM` as Java's `Short.parseShort` reads it, if it counts anything.
pub(crate) fn parse_inner_num(value: &[u8]) -> Option<u16> {
    let number: i16 = core::str::from_utf8(value).ok()?.parse().ok()?;
    u16::try_from(number).ok().filter(|number| *number > 0)
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
    out[field::TOTAL_SIZE].copy_from_slice(&rest_of_segment.to_be_bytes());
    out[field::MAGIC].copy_from_slice(&Magic::Blank.code().to_be_bytes());
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
    /// Without the CRC32 property, properties or topic that end in a zero byte could not be told
    /// from the end of a torn record.
    EndsInZero,
    /// `INNER_NUM` is no count, or stands on a message that is no inner batch.
    InnerNum,
    /// Without the CRC32 property, properties that are no text could not be told from damaged ones.
    PropertiesNotUtf8,
    /// The property string exceeds its 15-bit length field.
    PropertiesTooLong {
        /// The string's length in bytes, with what the store adds.
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
            Self::EndsInZero => f.write_str("properties or topic end in a zero byte"),
            Self::InnerNum => {
                f.write_str("INNER_NUM is not from 1 to 32767, or the message is no inner batch")
            }
            Self::PropertiesNotUtf8 => f.write_str("properties are not UTF-8"),
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
    #[inline]
    fn take(&mut self, len: usize) -> &'b mut [u8] {
        self.rest.split_off_mut(..len).expect("encoded_len counted every field")
    }

    #[inline]
    fn put<const N: usize>(&mut self, bytes: [u8; N]) {
        self.take(N).copy_from_slice(&bytes);
    }
}

#[inline]
fn length_field(len: usize) -> u32 {
    u32::try_from(len).expect("encoded_len limits a record to i32::MAX bytes")
}

/// The longest property string, in bytes (`i16::MAX`), with what the store adds.
pub const MAX_PROPERTIES_LEN: usize = 32_767;
/// Bytes of a blank; also what a record must leave free behind it in its segment.
pub const BLANK_LEN: usize = 8;

const STORE_TIMESTAMP_LEN: usize = 8;
/// A record without hosts, topic and its length, properties and body.
const FIXED_LEN: usize = Prefix::LEN + STORE_TIMESTAMP_LEN + 4 + 8 + 4 + 2;
const _: () = assert!(FIXED_LEN + 2 * host_len(false) + 1 == 91, "RocketMQ's 91 + T + N");
/// Where a protected record keeps, until it is placed, the sum of what placing leaves as it is.
const KEPT_SUM: core::ops::Range<usize> = 9..13;
/// And the shift by the length of that.
const KEPT_SHIFT: core::ops::Range<usize> = 13..17;
/// How many messages an inner batch holds (`MessageConst.PROPERTY_INNER_NUM`).
pub(crate) const INNER_NUM: &[u8] = b"INNER_NUM";

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
        let record =
            encode(to(b"T"), &message, Protection::Body, &mut out).unwrap().place(&Placed {
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
        let error = encode(to(b"T"), &Message::default(), Protection::Body, &mut out).unwrap_err();
        assert_eq!(error, EncodeError::BufferTooSmall { needed: 92, available: 91 });
    }

    #[test]
    fn ipv6_hosts_lengthen_the_record_and_set_the_flags() {
        let host = Host::new(Ipv6Addr::LOCALHOST.into(), 1);
        let message = Message { born_host: host, store_host: host, ..Message::default() };
        assert_eq!(message.encoded_len(to(b"T"), Protection::Body), Ok(92 + 24));
        let mut out = [0; 116];
        let record = encode(to(b"T"), &message, Protection::Body, &mut out)
            .unwrap()
            .place(&Placed::default());
        assert_eq!(record[39], 0x30);
    }

    #[test]
    fn properties_up_to_the_field_width() {
        let mut out = vec![0; 40_000];
        let longest = vec![b'x'; MAX_PROPERTIES_LEN + 1];
        let fits = Message { properties: &longest[1..], ..Message::default() };
        encode(to(b"T"), &fits, Protection::Body, &mut out).unwrap();
        let exceeds = Message { properties: &longest, ..Message::default() };
        assert_eq!(
            encode(to(b"T"), &exceeds, Protection::Body, &mut out).unwrap_err(),
            EncodeError::PropertiesTooLong { len: 32_768, max: 32_767 }
        );
    }

    #[test]
    fn the_crc32_property_counts_among_the_properties() {
        let longest = vec![b'x'; MAX_PROPERTIES_LEN - 21];
        let mut out = vec![0; 40_000];
        let fits = Message { properties: &longest, ..Message::default() };
        encode(to(b"T"), &fits, Protection::Record, &mut out).unwrap();
        let exceeds = [&longest[..], b"x"].concat();
        let exceeds = Message { properties: &exceeds, ..Message::default() };
        assert_eq!(
            encode(to(b"T"), &exceeds, Protection::Record, &mut out).unwrap_err(),
            EncodeError::PropertiesTooLong { len: 32_768, max: 32_767 }
        );
    }

    #[test]
    fn a_protected_record_ends_in_the_checksum_of_all_before() {
        let ipv6 = Host::new(Ipv6Addr::LOCALHOST.into(), 1);
        let long = [b't'; 200];
        for topic in [&b"T"[..], &long] {
            for (born_host, body, properties) in [
                (Host::default(), &b""[..], &b""[..]),
                (Host::default(), b"body", b"a\x01b"),
                (ipv6, &[7; 5000], b"a\x01b\x02__CRC32#\x019\x02"),
            ] {
                let message = Message { born_host, properties, body, ..Message::default() };
                let mut out = vec![0xEE; 6000];
                let record = encode(to(topic), &message, Protection::Record, &mut out).unwrap();
                let record = record.place(&Placed {
                    log_offset: LogOffset::new(77),
                    queue_offset: QueueOffset::new(8),
                    store_timestamp: TimestampMs::new(1_700_000_000_000),
                });
                let (covered, property) = record.split_last_chunk::<PROPERTY_LEN>().unwrap();
                let stored = u64::from(crate::crc32(covered));
                assert_eq!(crate::protection::claimed(property), Some(stored));
            }
        }
    }

    #[test]
    fn an_unprotected_record_does_not_end_in_zero() {
        let mut out = [0; 200];
        let message = Message { properties: b"a\x01b\0", ..Message::default() };
        let refused = encode(to(b"T"), &message, Protection::Body, &mut out).unwrap_err();
        assert_eq!(refused, EncodeError::EndsInZero);
        encode(to(b"T"), &message, Protection::Record, &mut out).unwrap();
        let message = Message::default();
        let refused = encode(to(b"T\0"), &message, Protection::Body, &mut out).unwrap_err();
        assert_eq!(refused, EncodeError::EndsInZero);
    }

    #[test]
    fn an_inner_batch_takes_as_many_positions_as_it_says() {
        let inner = SysFlag::new(SysFlag::INNER_BATCH);
        for (sys_flag, properties, expect) in [
            (inner, &b"INNER_NUM\x0132767\x02"[..], Ok(32_767)),
            (inner, b"INNER_NUM\x012\x02INNER_NUM\x013\x02", Ok(3)),
            (inner, b"", Ok(1)),
            (SysFlag::default(), b"a\x01b\x02", Ok(1)),
            (SysFlag::new(0x4), b"", Ok(0)),
            (SysFlag::default(), b"INNER_NUM\x012\x02", Err(EncodeError::InnerNum)),
            (inner, b"INNER_NUM\x0132768\x02", Err(EncodeError::InnerNum)),
            (inner, b"INNER_NUM\x010\x02", Err(EncodeError::InnerNum)),
            (inner, b"INNER_NUM\x01two\x02", Err(EncodeError::InnerNum)),
        ] {
            let message = Message { sys_flag, properties, ..Message::default() };
            assert_eq!(message.queue_slots(), expect, "{properties:?}");
        }
    }

    #[test]
    fn blank_bytes() {
        assert_eq!(encode_blank(8), [0, 0, 0, 8, 0xCB, 0xD4, 0x31, 0x94]);
    }
}
