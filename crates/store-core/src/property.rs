//! The property string of a record: `name 0x01 value 0x02`, repeated.

/// Iterates the pairs of a property string in the order they stand.
///
/// Follows `MessageDecoder.string2messageProperties`: the string is split at 0x02, and a piece
/// counts only if it has at least one byte of name, a 0x01, and at least one byte of value; others
/// are passed over. A name may come twice; RocketMQ lets the later one win. Total: any bytes are
/// accepted, and nothing is checked to be UTF-8.
#[derive(Clone, Debug)]
pub struct Properties<'a> {
    rest: &'a [u8],
}

/// One pair of a property string.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Property<'a> {
    /// Bytes before the first 0x01; never empty.
    pub name: &'a [u8],
    /// Bytes after it, which may hold further 0x01; never empty.
    pub value: &'a [u8],
}

impl<'a> Properties<'a> {
    /// The pairs of `string`.
    pub const fn new(string: &'a [u8]) -> Self {
        Self { rest: string }
    }

    /// The value of the last pair named `name`, or `None`.
    pub fn last(self, name: &[u8]) -> Option<&'a [u8]> {
        self.filter(|property| property.name == name).last().map(|property| property.value)
    }
}

impl<'a> Iterator for Properties<'a> {
    type Item = Property<'a>;

    fn next(&mut self) -> Option<Property<'a>> {
        while !self.rest.is_empty() {
            let end = self.rest.iter().position(|byte| *byte == PAIR_END);
            let (piece, rest) = match end {
                Some(end) => (&self.rest[..end], &self.rest[end + 1..]),
                None => (self.rest, &[][..]),
            };
            self.rest = rest;
            let Some(split) = piece.iter().position(|byte| *byte == NAME_END) else {
                continue;
            };
            let (name, value) = (&piece[..split], &piece[split + 1..]);
            if !name.is_empty() && !value.is_empty() {
                return Some(Property { name, value });
            }
        }
        None
    }
}

const NAME_END: u8 = 1;
const PAIR_END: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[track_caller]
    fn check(input: &[u8], expect: &[(&str, &str)]) {
        let found: Vec<_> = Properties::new(input).map(|p| (p.name, p.value)).collect();
        let expect: Vec<_> = expect.iter().map(|(n, v)| (n.as_bytes(), v.as_bytes())).collect();
        assert_eq!(found, expect);
    }

    #[test]
    fn pairs_in_order_with_or_without_the_last_separator() {
        check(b"", &[]);
        check(b"TAGS\x01a\x02KEYS\x01k\x02", &[("TAGS", "a"), ("KEYS", "k")]);
        check(b"TAGS\x01a", &[("TAGS", "a")]);
    }

    #[test]
    fn pieces_without_name_value_or_separator_are_passed_over() {
        check(b"\x01v\x02n\x01\x02plain\x02\x02a\x01b\x02", &[("a", "b")]);
    }

    #[test]
    fn the_first_separator_splits_and_the_last_pair_wins() {
        check(b"a\x01b\x01c\x02", &[("a", "b\x01c")]);
        assert_eq!(Properties::new(b"a\x01b\x02a\x01c\x02").last(b"a"), Some(&b"c"[..]));
    }
}
