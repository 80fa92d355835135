//! Batches: several messages to one queue in one call, stored as ordinary records that follow each
//! other.

use core::fmt;

use crate::record::Parts;
use crate::{
    Destination, EncodeError, Encoded, Message, Protection, SysFlag, TransactionType, length_u64,
};

/// A batch as the client encodes it (`MessageDecoder.encodeMessages`): members one behind the
/// other, each with its lengths, flag, body and properties.
///
/// Invariant: every member's lengths hold.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    bytes: &'a [u8],
    count: u32,
}

impl<'a> Batch<'a> {
    /// Checks every member's lengths.
    ///
    /// # Errors
    ///
    /// If there is no member, or one's lengths do not add up; names the member and the place.
    pub fn new(bytes: &'a [u8]) -> Result<Self, BatchError> {
        let mut rest = bytes;
        let mut count = 0;
        while !rest.is_empty() {
            let at = bytes.len() - rest.len();
            (_, rest) = split_member(rest).map_err(|(field, in_member)| {
                let at = at.saturating_add(in_member);
                BatchError::Member { index: count, field, at }
            })?;
            count += 1;
        }
        if count == 0 { Err(BatchError::Empty) } else { Ok(Self { bytes, count }) }
    }

    /// How many members there are.
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// The client's bytes.
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The members in order.
    pub fn members(&self) -> impl Iterator<Item = BatchMember<'a>> + use<'a> {
        let mut rest = self.bytes;
        core::iter::from_fn(move || {
            let (member, behind) = split_member(rest).ok()?;
            rest = behind;
            Some(member)
        })
    }

    /// The bytes of all members as records.
    ///
    /// # Errors
    ///
    /// As [`encode_batch`], but for the buffer.
    pub fn encoded_len(
        &self,
        to: Destination<'_>,
        message: &Message<'_>,
        protection: Protection,
    ) -> Result<u32, BatchError> {
        let mut sum = 0_u64;
        self.each_message(message, |member, index| {
            let refused = |error| BatchError::Encode { index, error };
            let parts = Parts::with_shared(to, member, message.properties, protection);
            sum += u64::from(parts.and_then(|parts| parts.total_size()).map_err(refused)?);
            Ok(())
        })?;
        i32::try_from(sum)
            .map(i32::unsigned_abs)
            .map_err(|_| BatchError::TooLong { len: self.bytes.len() })
    }

    /// Gives each member as the message that it is stored as.
    fn each_message(
        &self,
        message: &Message<'_>,
        mut give: impl FnMut(&Message<'_>, u32) -> Result<(), BatchError>,
    ) -> Result<(), BatchError> {
        if message.sys_flag.transaction_type() != TransactionType::None {
            return Err(BatchError::Transactional);
        }
        if message.sys_flag.has(SysFlag::INNER_BATCH) {
            return Err(BatchError::InnerBatch);
        }
        for (index, BatchMember { flag, properties, body }) in (0..).zip(self.members()) {
            let (prepared_transaction_offset, inner_base) = (0, None);
            give(
                &Message {
                    flag,
                    prepared_transaction_offset,
                    inner_base,
                    properties,
                    body,
                    ..*message
                },
                index,
            )?;
        }
        Ok(())
    }
}

/// One message of a batch.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BatchMember<'a> {
    /// The application's flag.
    pub flag: i32,
    /// The member's own property string.
    pub properties: &'a [u8],
    /// The body.
    pub body: &'a [u8],
}

impl BatchMember<'_> {
    /// Bytes of the member as a client encodes it.
    pub fn encoded_len(&self) -> usize {
        FIXED_LEN.saturating_add(self.body.len()).saturating_add(self.properties.len())
    }

    /// Writes the member as a client does to the front of `out`, and gives its length; one behind
    /// the other they are a batch. Source: `MessageDecoder.encodeMessage`.
    ///
    /// # Errors
    ///
    /// If `out` is too small, or a length exceeds its field.
    pub fn encode(&self, out: &mut [u8]) -> Result<usize, EncodeError> {
        let needed = self.encoded_len();
        let too_long = EncodeError::BodyTooLong { len: self.body.len() };
        let size = i32::try_from(needed).map_err(|_| too_long)?;
        let body_len = i32::try_from(self.body.len()).map_err(|_| too_long)?;
        let properties_len = i16::try_from(self.properties.len()).map_err(|_| {
            let max = crate::MAX_PROPERTIES_LEN;
            EncodeError::PropertiesTooLong { len: self.properties.len(), max }
        })?;
        let available = out.len();
        let mut rest =
            out.get_mut(..needed).ok_or(EncodeError::BufferTooSmall { needed, available })?;
        let mut put = |bytes: &[u8]| {
            rest.split_off_mut(..bytes.len())
                .expect("encoded_len counted every field")
                .copy_from_slice(bytes);
        };
        put(&size.to_be_bytes());
        put(&[0; 8]);
        put(&self.flag.to_be_bytes());
        put(&body_len.to_be_bytes());
        put(self.body);
        put(&properties_len.to_be_bytes());
        put(self.properties);
        Ok(needed)
    }
}

/// Writes the members of `batch` as records to the front of `out`, all but what
/// [`Placed`](crate::Placed) adds: one unit, to be placed together.
///
/// `message` gives what the members share: flags of the store, times, hosts, and properties that
/// follow each member's own. Its `flag`, `body` and `prepared_transaction_offset` are not used: the
/// members have their own, and 0. After a crash a first part of a batch may be there without the
/// rest. Unlike RocketMQ's, members too are separated from their CRC32 property, which otherwise
/// fuses with a last property that lacks its end. Source: `MessageExtEncoder.encode` for
/// `MessageExtBatch`.
///
/// # Errors
///
/// Names the member that cannot be a record and why. A batch takes no part in transactions.
pub fn encode_batch<'b>(
    to: Destination<'_>,
    message: &Message<'_>,
    batch: &Batch<'_>,
    protection: Protection,
    out: &'b mut [u8],
) -> Result<Encoded<'b>, BatchError> {
    let needed = batch.encoded_len(to, message, protection)?;
    let needed =
        usize::try_from(needed).map_err(|_| BatchError::TooLong { len: batch.bytes.len() })?;
    let available = out.len();
    let bytes = out.get_mut(..needed).ok_or(BatchError::BufferTooSmall { needed, available })?;
    let mut at = 0;
    batch.each_message(message, |member, index| {
        let parts = Parts::with_shared(to, member, message.properties, protection);
        let written = parts.and_then(|parts| parts.write(&mut bytes[at..]));
        at += written.map_err(|error| BatchError::Encode { index, error })?;
        Ok(())
    })?;
    Ok(Encoded { bytes, protection })
}

/// The first member and what lies behind it; or the length that does not hold, and its place.
fn split_member(bytes: &[u8]) -> Result<(BatchMember<'_>, &[u8]), (BatchField, usize)> {
    let bad_size = (BatchField::Size, 0);
    let size = length(bytes, 0).filter(|size| FIXED_LEN <= *size).ok_or(bad_size)?;
    let (member, behind) = bytes.split_at_checked(size).ok_or(bad_size)?;
    let flag = *member[FLAG..].first_chunk().expect("a member has its fixed fields");
    let bad_body = (BatchField::BodyLength, BODY_LENGTH);
    let body_len = length(member, BODY_LENGTH).ok_or(bad_body)?;
    let (body, rest) = member[BODY..].split_at_checked(body_len).ok_or(bad_body)?;
    let (properties_len, properties) = rest.split_first_chunk().ok_or(bad_body)?;
    let properties_len = usize::try_from(i16::from_be_bytes(*properties_len)).ok();
    if properties_len != Some(properties.len()) {
        return Err((BatchField::PropertiesLength, BODY.saturating_add(body_len)));
    }
    Ok((BatchMember { flag: i32::from_be_bytes(flag), properties, body }, behind))
}

/// A non-negative 32-bit length.
fn length(bytes: &[u8], at: usize) -> Option<usize> {
    let field = bytes.get(at..)?.first_chunk()?;
    usize::try_from(i32::from_be_bytes(*field)).ok()
}

/// Why a batch cannot be stored; nothing of it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum BatchError {
    /// The caller's buffer does not hold the records.
    BufferTooSmall {
        /// The records' length in bytes.
        needed: usize,
        /// The buffer's length in bytes.
        available: usize,
    },
    /// No members.
    Empty,
    /// A member cannot be a record.
    Encode {
        /// Which member, counted from 0.
        index: u32,
        /// Why.
        error: EncodeError,
    },
    /// The flag says that each record holds several messages, which a member does not.
    InnerBatch,
    /// A member's length is negative, reaches past the member or the batch, or does not add up with
    /// the others.
    Member {
        /// Which member, counted from 0.
        index: u32,
        /// Which length.
        field: BatchField,
        /// Where that stands in the batch.
        at: usize,
    },
    /// The records exceed `i32::MAX` bytes.
    TooLong {
        /// The batch's length in bytes.
        len: usize,
    },
    /// The flag names a transaction.
    Transactional,
}

impl fmt::Display for BatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BufferTooSmall { needed, available } => {
                write!(f, "the batch's records need {needed} bytes, the buffer has {available}")
            }
            Self::Empty => f.write_str("a batch without members"),
            Self::InnerBatch => f.write_str("a batch has no inner batches as members"),
            Self::Encode { index, error } => write!(f, "member {index} of the batch: {error}"),
            Self::Member { index, field, at } => {
                write!(f, "member {index} of the batch: {field:?} at byte {at} does not hold")
            }
            Self::TooLong { len } => write!(f, "a batch of {len} bytes exceeds the format"),
            Self::Transactional => f.write_str("a batch takes no part in transactions"),
        }
    }
}

impl core::error::Error for BatchError {}

/// The lengths of a batch's member, for errors.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum BatchField {
    /// The body's.
    BodyLength,
    /// The properties'.
    PropertiesLength,
    /// The member's own.
    Size,
}

const FLAG: usize = 12;
const BODY_LENGTH: usize = 16;
const BODY: usize = 20;
/// A member without body and properties.
const FIXED_LEN: usize = BODY + 2;
const _: () = assert!(length_u64(FIXED_LEN) == 22, "five 32-bit fields and a 16-bit one");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Frame, LogOffset, Placed, QueueId, QueueOffset, Topic, decode};
    use std::vec;
    use std::vec::Vec;

    const MEMBERS: [BatchMember<'_>; 3] = [
        BatchMember { flag: 0, properties: b"a\x01b", body: b"one" },
        BatchMember { flag: -1, properties: b"", body: b"" },
        BatchMember { flag: 7, properties: b"c\x01d\x02", body: b"three" },
    ];

    fn client_bytes() -> Vec<u8> {
        let mut out = vec![0; 200];
        let mut at = 0;
        for member in MEMBERS {
            at += member.encode(&mut out[at..]).unwrap();
        }
        out.truncate(at);
        out
    }

    fn to() -> Destination<'static> {
        Destination { topic: Topic::new(b"T").unwrap(), queue_id: QueueId::new(1) }
    }

    #[test]
    fn members_come_back() {
        let bytes = client_bytes();
        let batch = Batch::new(&bytes).unwrap();
        assert_eq!((batch.count(), batch.as_bytes()), (3, &bytes[..]));
        assert_eq!(batch.members().collect::<Vec<_>>(), MEMBERS);
    }

    #[test]
    fn members_become_records_that_follow_each_other() {
        let bytes = client_bytes();
        let batch = Batch::new(&bytes).unwrap();
        for protection in [Protection::Body, Protection::Record] {
            let message = Message {
                reconsume_times: 5,
                prepared_transaction_offset: 9,
                ..Message::default()
            };
            let mut out = vec![0xEE; 1000];
            let encoded = encode_batch(to(), &message, &batch, protection, &mut out).unwrap();
            assert_eq!(Ok(encoded.len()), batch.encoded_len(to(), &message, protection));
            let placed = Placed {
                log_offset: LogOffset::new(1000),
                queue_offset: QueueOffset::new(40),
                ..Placed::default()
            };
            let mut rest = &*encoded.place(&placed);
            let mut at = 1000;
            for (member, queue_offset) in MEMBERS.iter().zip(40..) {
                let Ok(Frame::Record(view)) = decode(rest) else { panic!("{:?}", decode(rest)) };
                assert_eq!((view.flag(), view.body()), (member.flag, member.body));
                assert_eq!(view.log_offset().get(), at);
                assert_eq!(view.queue_offset().get(), queue_offset);
                assert_eq!(view.reconsume_times(), 5);
                assert_eq!(view.prepared_transaction_offset(), 0);
                assert!(view.body_crc_matches() && view.record_crc_matches());
                assert_eq!(view.record_crc().is_some(), protection == Protection::Record);
                at += u64::from(view.total_size());
                rest = &rest[view.as_bytes().len()..];
            }
            assert!(rest.is_empty());
        }
    }

    #[test]
    fn a_member_whose_last_property_lacks_its_end_is_separated_from_the_checksum() {
        let bytes = client_bytes();
        let batch = Batch::new(&bytes).unwrap();
        let mut out = vec![0; 1000];
        let message = Message::default();
        let encoded = encode_batch(to(), &message, &batch, Protection::Record, &mut out).unwrap();
        let placed = encoded.place(&Placed::default());
        let Ok(Frame::Record(view)) = decode(placed) else { panic!("the first member") };
        assert!(view.property_string().starts_with(b"a\x01b\x02__CRC32#\x01"));
    }

    #[test]
    fn lengths_that_do_not_add_up_name_the_member() {
        let bytes = client_bytes();
        let second = MEMBERS[0].encoded_len();
        assert_eq!(Batch::new(b"").unwrap_err(), BatchError::Empty);
        let ends = [second, second + MEMBERS[1].encoded_len(), bytes.len()];
        for cut in (1..bytes.len()).filter(|cut| !ends.contains(cut)) {
            assert!(Batch::new(&bytes[..cut]).is_err(), "cut at {cut}");
        }
        for (at, value, field, place) in [
            (0, 0xFF, BatchField::Size, 0),
            (2, 9, BatchField::Size, 0),
            (3, 1, BatchField::Size, 0),
            (16, 0x80, BatchField::BodyLength, 16),
            (19, 200, BatchField::BodyLength, 16),
            (20, 0xFF, BatchField::PropertiesLength, 20),
            (21, 1, BatchField::PropertiesLength, 20),
        ] {
            let mut bad = bytes.clone();
            bad[second + at] = value;
            let expect = BatchError::Member { index: 1, field, at: second + place };
            assert_eq!(Batch::new(&bad).unwrap_err(), expect, "byte {at}");
        }
    }

    #[test]
    fn what_cannot_be_stored_is_refused_by_member() {
        let bytes = client_bytes();
        let batch = Batch::new(&bytes).unwrap();
        let prepared = Message { sys_flag: SysFlag::new(4), ..Message::default() };
        let refused = batch.encoded_len(to(), &prepared, Protection::Body).unwrap_err();
        assert_eq!(refused, BatchError::Transactional);
        let inner = Message { sys_flag: SysFlag::new(0x80), ..Message::default() };
        let refused = batch.encoded_len(to(), &inner, Protection::Body).unwrap_err();
        assert_eq!(refused, BatchError::InnerBatch);
        let shared = vec![b'x'; 32_766];
        let long = Message { properties: &shared, ..Message::default() };
        let refused = batch.encoded_len(to(), &long, Protection::Body).unwrap_err();
        let error = EncodeError::PropertiesTooLong { len: 32_770, max: 32_767 };
        assert_eq!(refused, BatchError::Encode { index: 0, error });
        let mut small = [0; 10];
        let message = Message::default();
        let refused = encode_batch(to(), &message, &batch, Protection::Body, &mut small);
        assert!(matches!(refused, Err(BatchError::BufferTooSmall { available: 10, .. })));
    }
}
