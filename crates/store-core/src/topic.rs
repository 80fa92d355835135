//! Topic names, and the record version that their length asks for.

use core::fmt;

/// A topic name: 1 to 255 bytes of UTF-8.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Topic<'a>(&'a [u8]);

impl<'a> Topic<'a> {
    /// Checks a topic name.
    ///
    /// # Errors
    ///
    /// If it is empty, longer than [`MAX_TOPIC_LEN`] bytes (bytes, not characters: RocketMQ counts
    /// characters and so writes records that it cannot read), or not UTF-8.
    #[inline]
    pub fn new(name: &'a [u8]) -> Result<Self, TopicError> {
        if name.is_empty() {
            return Err(TopicError::Empty);
        }
        if name.len() > MAX_TOPIC_LEN {
            return Err(TopicError::TooLong { len: name.len(), max: MAX_TOPIC_LEN });
        }
        if name.is_ascii() {
            return Ok(Self(name));
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

    /// The version of a record with this topic: the first whose length field holds it
    /// (`autoMessageVersionOnTopicLen`, but by bytes).
    pub const fn version(self) -> Version {
        if self.0.len() <= MAX_TOPIC_LEN_V1 { Version::V1 } else { Version::V2 }
    }
}

/// The two forms of a record; they differ in the width of the topic's length.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Version {
    /// A topic of at most 127 bytes, its length in one byte.
    V1,
    /// A topic length of two bytes; RocketMQ reads it from 5.1 on.
    V2,
}

impl Version {
    /// Bytes of the topic's length field.
    pub(crate) const fn topic_length_width(self) -> usize {
        match self {
            Self::V1 => 1,
            Self::V2 => 2,
        }
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
    /// More bytes than RocketMQ lets a topic have.
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

/// The longest topic name, in bytes: what RocketMQ allows retry and dead-letter topics.
pub const MAX_TOPIC_LEN: usize = 255;
/// The longest topic name of a version 1 record, whose length is a signed byte.
const MAX_TOPIC_LEN_V1: usize = 127;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_are_measured_in_bytes() {
        assert_eq!(Topic::new(&[b't'; 127]).unwrap().version(), Version::V1);
        assert_eq!(Topic::new(&[b't'; 128]).unwrap().version(), Version::V2);
        assert!(Topic::new(&[b't'; 255]).is_ok());
        assert_eq!(Topic::new(&[b't'; 256]), Err(TopicError::TooLong { len: 256, max: 255 }));
        let cjk = "标".repeat(60);
        assert_eq!(Topic::new(cjk.as_bytes()).unwrap().version(), Version::V2, "180 bytes");
        assert_eq!(Topic::new(b""), Err(TopicError::Empty));
        assert_eq!(Topic::new(b"ab\xFF"), Err(TopicError::NotUtf8 { valid_up_to: 2 }));
    }
}
