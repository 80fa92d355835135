//! The property string as it is stored: the producer's, and what the store adds to it.

use core::fmt::Write as _;

use heapless::String;

use crate::protection::{self, PROPERTY_LEN};
use crate::{Protection, QueueOffset};

/// What a record's properties are made of, in this order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoredProperties<'a> {
    /// `INNER_BASE` of an inner batch.
    pub(crate) inner_base: Option<QueueOffset>,
    /// The producer's string.
    pub(crate) own: &'a [u8],
    /// The string that all members of a batch share.
    pub(crate) shared: &'a [u8],
    /// Whether the CRC32 property ends them.
    pub(crate) protection: Protection,
    /// Whether a CRC32 property may stand in the strings: nearly none has one byte of its name, and
    /// is kept whole.
    may_hold_crc: bool,
}

impl<'a> StoredProperties<'a> {
    #[inline]
    pub(crate) fn new(
        inner_base: Option<QueueOffset>,
        own: &'a [u8],
        shared: &'a [u8],
        protection: Protection,
    ) -> Self {
        let may_hold_crc = protection == Protection::Record
            && [own, shared].iter().any(|string| string.contains(&NAMES_END));
        Self { inner_base, own, shared, protection, may_hold_crc }
    }

    /// The stored string's length in bytes, and its last byte.
    #[inline]
    pub(crate) fn measure(&self) -> (usize, Option<u8>) {
        let mut len = self.protection.reserved_len();
        let mut last = None;
        self.each(|piece| {
            len += piece.len();
            last = piece.last().copied();
        });
        (len, if self.protection == Protection::Record { Some(END) } else { last })
    }

    /// Writes the string over `out`, which has the measured length, but for the CRC32 property's
    /// digits.
    #[inline]
    pub(crate) fn write(&self, out: &mut [u8]) {
        let mut rest = out;
        self.each(|piece| {
            rest.split_off_mut(..piece.len())
                .expect("measure counted every piece")
                .copy_from_slice(piece);
        });
        if let Ok(property) = <&mut [u8; PROPERTY_LEN]>::try_from(rest) {
            protection::write_frame(property);
        }
    }

    /// Gives every piece but the CRC32 property, separators included.
    #[inline]
    fn each(&self, mut give: impl FnMut(&[u8])) {
        let without_base = self.inner_base.is_some();
        let without_crc = self.protection == Protection::Record && self.may_hold_crc;
        let mut last = END;
        let mut put = |piece: &[u8], last: &mut u8| {
            if let Some(byte) = piece.last() {
                *last = *byte;
                give(piece);
            }
        };
        if let Some(base) = self.inner_base {
            let mut digits: String<20> = String::new();
            write!(digits, "{}", base.get()).expect("a u64 has at most 20 digits");
            put(INNER_BASE, &mut last);
            put(&[SPLIT], &mut last);
            put(digits.as_bytes(), &mut last);
            put(&[END], &mut last);
        }
        for string in [self.own, self.shared] {
            if !without_base && !without_crc {
                // Nearly all are stored as they are.
                if !string.is_empty() && last != END {
                    put(&[END], &mut last);
                }
                put(string, &mut last);
                continue;
            }
            let mut separated = false;
            Kept { rest: string, without_base, without_crc }.for_each(|piece| {
                if piece.is_empty() {
                    return;
                }
                if !separated && last != END {
                    put(&[END], &mut last);
                }
                separated = true;
                put(piece, &mut last);
            });
        }
        if self.protection == Protection::Record && last != END {
            put(&[END], &mut last);
        }
    }
}

/// The parts of a property string without the properties that the store writes itself.
struct Kept<'a> {
    rest: &'a [u8],
    without_base: bool,
    without_crc: bool,
}

impl<'a> Iterator for Kept<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        let mut piece = self.rest;
        loop {
            let end = piece.iter().position(|byte| *byte == END);
            let next = end.map_or(&[][..], |end| &piece[end + 1..]);
            let is_stores_own = (self.without_crc && is_named(piece, protection::NAME))
                || (self.without_base && is_named(piece, INNER_BASE));
            if is_stores_own || next.is_empty() {
                let dropped = if is_stores_own { piece.len() } else { 0 };
                let kept = &self.rest[..self.rest.len() - dropped];
                self.rest = next;
                return Some(kept);
            }
            piece = next;
        }
    }
}

fn is_named(piece: &[u8], name: &[u8]) -> bool {
    piece.strip_prefix(name).is_some_and(|rest| rest.first() == Some(&SPLIT))
}

/// The queue offset of an inner batch's first message (`MessageConst.PROPERTY_INNER_BASE`).
const INNER_BASE: &[u8] = b"INNER_BASE";
const SPLIT: u8 = 1;
const END: u8 = 2;
/// Of [`protection::NAME`] the byte that is rarest elsewhere.
const NAMES_END: u8 = protection::NAME[protection::NAME.len() - 1];

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;

    const CRC: &[u8] = b"__CRC32#\x010000000000\x02";

    #[track_caller]
    fn check(properties: StoredProperties<'_>, expect: &[u8]) {
        let mut out = vec![0xEE; properties.measure().0];
        properties.write(&mut out);
        assert_eq!(out, expect);
        let protected = StoredProperties::new(
            properties.inner_base,
            properties.own,
            properties.shared,
            Protection::Record,
        );
        let mut out = vec![0xEE; protected.measure().0];
        protected.write(&mut out);
        let separator = if expect.is_empty() || expect.ends_with(&[2]) { &[][..] } else { &[2] };
        assert_eq!(out, [expect, separator, CRC].concat());
    }

    #[test]
    fn a_string_is_stored_as_it_is() {
        check(StoredProperties::new(None, b"", b"", Protection::Body), b"");
        for own in
            [&b"a\x01b\x02"[..], b"a\x01b", b"\x02\x02", b"garbage", b"__CRC32#", b"x__CRC32#\x011"]
        {
            check(StoredProperties::new(None, own, b"", Protection::Body), own);
        }
    }

    #[test]
    fn an_incoming_checksum_is_removed_where_one_is_written() {
        for (own, expect) in [
            (&b"__CRC32#\x01123\x02a\x01b\x02"[..], &b"a\x01b\x02"[..]),
            (b"a\x01b\x02__CRC32#\x01123\x02c\x01d", b"a\x01b\x02c\x01d\x02"),
            (b"a\x01b\x02__CRC32#\x01123\x02", b"a\x01b\x02"),
            (b"a\x01b\x02__CRC32#\x01123", b"a\x01b\x02"),
            (b"__CRC32#\x01\x02__CRC32#\x01x\x02", b""),
            (b"__CRC32#\x01", b""),
        ] {
            let properties = StoredProperties::new(None, own, b"", Protection::Record);
            let mut out = vec![0xEE; properties.measure().0];
            properties.write(&mut out);
            assert_eq!(out, [expect, CRC].concat());
            // Without one of its own the store keeps the string as it is, as RocketMQ does.
            let properties = StoredProperties::new(None, own, b"", Protection::Body);
            let mut out = vec![0xEE; properties.measure().0];
            properties.write(&mut out);
            assert_eq!(out, own);
        }
    }

    #[test]
    fn shared_properties_follow_a_members_own() {
        for (own, shared, expect) in [
            (&b"a\x01b"[..], &b"c\x01d\x02"[..], &b"a\x01b\x02c\x01d\x02"[..]),
            (b"a\x01b\x02", b"c\x01d", b"a\x01b\x02c\x01d"),
            (b"", b"c\x01d", b"c\x01d"),
            (b"a\x01b", b"", b"a\x01b"),
        ] {
            check(StoredProperties::new(None, own, shared, Protection::Body), expect);
        }
    }

    #[test]
    fn an_inner_batch_begins_with_its_base() {
        let inner_base = Some(QueueOffset::new(73));
        let own = b"INNER_NUM\x012\x02";
        check(
            StoredProperties::new(inner_base, own, b"", Protection::Body),
            b"INNER_BASE\x0173\x02INNER_NUM\x012\x02",
        );
        let own = b"INNER_BASE\x015\x02INNER_NUM\x012\x02";
        check(
            StoredProperties::new(inner_base, own, b"", Protection::Body),
            b"INNER_BASE\x0173\x02INNER_NUM\x012\x02",
        );
    }
}
