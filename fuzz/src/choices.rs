//! What the data of a run chooses: numbers, inputs of records, and ways to break things.

use std::net::IpAddr;

use store_core::{
    Destination, Host, LogOffset, Message, Placed, Protection, QueueId, QueueOffset, RecordView,
    SysFlag, TimestampMs, Topic, crc32, encode,
};

use super::{CRC_LEN, PROTECTIONS, stored_properties, without_digits};

/// The data as a sequence of choices; all zero once it is used up.
pub(super) struct Choices<'a> {
    pub(super) rest: &'a [u8],
}

impl<'a> Choices<'a> {
    fn byte(&mut self) -> u8 {
        self.rest.split_off_first().copied().unwrap_or_default()
    }

    pub(super) fn int(&mut self) -> i32 {
        i32::from_be_bytes([self.byte(), self.byte(), self.byte(), self.byte()])
    }

    pub(super) fn number(&mut self) -> u64 {
        let (high, low) = (self.int().cast_unsigned(), self.int().cast_unsigned());
        u64::from(high) << 32 | u64::from(low)
    }

    /// A number below `limit`, which is not 0.
    pub(super) fn below(&mut self, limit: usize) -> usize {
        usize::from(u16::from_be_bytes([self.byte(), self.byte()])) % limit
    }

    /// The next bytes, fewer than `limit` of them.
    pub(super) fn bytes(&mut self, limit: usize) -> &'a [u8] {
        let len = self.below(limit).min(self.rest.len());
        self.rest.split_off(..len).expect("no more than there is")
    }

    pub(super) fn protection(&mut self) -> Protection {
        PROTECTIONS[usize::from(self.byte() % 2)]
    }

    fn host(&mut self) -> Host {
        let port = u16::from_be_bytes([self.byte(), self.byte()]);
        let ip = match self.byte() % 2 {
            0 => IpAddr::from([self.byte(); 4]),
            _ => IpAddr::from([self.byte(); 16]),
        };
        Host::new(ip, port)
    }

    pub(super) fn placed(&mut self) -> Placed {
        Placed {
            log_offset: LogOffset::new(self.number()),
            queue_offset: QueueOffset::new(self.number()),
            store_timestamp: TimestampMs::new(self.number().cast_signed()),
        }
    }

    /// Breaks `bytes` in one to four ways.
    pub(super) fn mutate(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len() + 1);
            let (_, behind) = bytes.split_at_mut(at);
            match (self.byte() % 7, behind) {
                (0, [byte, ..]) => *byte ^= 1 << self.below(8),
                (1, [byte, ..]) => *byte = self.byte(),
                (2, [a, b, c, d, ..]) => {
                    // Lengths at the edges of their types.
                    let edge = [0, 1, 7, 8, 0x7F, 0xFF, 0x7FFF, 0x7FFF_FFFF, u32::MAX];
                    [*a, *b, *c, *d] = edge[self.below(edge.len())].to_be_bytes();
                }
                (3, [_, ..]) => bytes.truncate(at),
                (4, behind) => {
                    let len = self.below(behind.len().min(64) + 1);
                    behind[..len].fill(0);
                }
                (5, behind) => {
                    let piece = behind[..self.below(behind.len().min(64) + 1)].to_vec();
                    let to = self.below(bytes.len() + 1);
                    bytes.splice(to..to, piece);
                }
                _ => {
                    let piece = self.bytes(32);
                    bytes.splice(at..at, piece.iter().copied());
                }
            }
        }
    }
}

/// What a producer brings, chosen by the data.
pub(super) struct Input<'a> {
    pub(super) topic: String,
    numbers: (i32, i32, i32, i64, i64),
    pub(super) sys_flag: u32,
    hosts: [Host; 2],
    inner_base: Option<QueueOffset>,
    properties: &'a [u8],
    body: &'a [u8],
}

impl<'a> Input<'a> {
    pub(super) fn choose(choices: &mut Choices<'a>) -> Self {
        let shape = choices.byte();
        // Lengths around the change of versions and around the limit are as likely as short ones.
        let topic_len = [1, 5, 126, 127, 128, 129, 254, 255][usize::from(shape % 8)];
        let letter = ['T', 'é', '标', '😀'][usize::from(shape / 8 % 4)];
        let mut topic = String::new();
        while topic.len() + letter.len_utf8() <= topic_len {
            topic.push(letter);
        }
        topic.extend(std::iter::repeat_n('t', topic_len - topic.len()));
        let inner_base = (shape >= 224).then(|| QueueOffset::new(choices.number()));
        Self {
            topic,
            numbers: (
                choices.int(),
                choices.int(),
                choices.int(),
                i64::from(choices.int()),
                i64::from(choices.int()),
            ),
            sys_flag: u32::from(choices.byte()),
            hosts: [choices.host(), choices.host()],
            inner_base,
            properties: choices.bytes(80),
            body: choices.bytes(300),
        }
    }

    pub(super) fn to(&self) -> Destination<'_> {
        let topic = Topic::new(self.topic.as_bytes()).expect("1 to 255 bytes of UTF-8");
        Destination { topic, queue_id: QueueId::new(self.numbers.0) }
    }

    pub(super) fn message(&self) -> Message<'_> {
        Message {
            flag: self.numbers.1,
            sys_flag: SysFlag::new(self.sys_flag),
            born_timestamp: TimestampMs::new(self.numbers.3),
            born_host: self.hosts[0],
            store_host: self.hosts[1],
            reconsume_times: self.numbers.2,
            prepared_transaction_offset: self.numbers.4,
            inner_base: self.inner_base,
            properties: self.properties,
            body: self.body,
        }
    }

    /// The record, unless it is refused because its end could not be told from a torn one.
    pub(super) fn record(&self, protection: Protection, placed: &Placed) -> Option<Vec<u8>> {
        let message = self.message();
        let Ok(len) = message.encoded_len(self.to(), protection) else {
            let stored = stored_properties(self.properties, self.inner_base, protection);
            let is_text = std::str::from_utf8(self.properties).is_ok();
            assert!(stored.ends_with(&[0]) || !is_text);
            assert_eq!(protection, Protection::Body);
            return None;
        };
        let mut out = vec![0xEE; usize::try_from(len).expect("a few hundred bytes")];
        let encoded = encode(self.to(), &message, protection, &mut out).expect("it has a length");
        assert_eq!(encoded.len(), len);
        encoded.place(placed);
        Some(out)
    }

    pub(super) fn assert_is(&self, view: &RecordView<'_>, protection: Protection, placed: &Placed) {
        let hosts = SysFlag::BORN_HOST_IPV6 | SysFlag::STORE_HOST_IPV6;
        let numbers = (
            view.queue_id().get(),
            view.flag(),
            view.reconsume_times(),
            view.born_timestamp().get(),
            view.prepared_transaction_offset(),
        );
        assert_eq!(numbers, self.numbers);
        assert_eq!(view.topic(), self.topic.as_bytes());
        assert_eq!(view.version(), self.to().topic.version());
        assert_eq!(view.sys_flag().bits() & !hosts, self.sys_flag & !hosts);
        assert_eq!([view.born_host(), view.store_host()], self.hosts);
        assert_eq!(view.body(), self.body);
        assert_eq!(view.log_offset(), placed.log_offset);
        assert_eq!(view.queue_offset(), placed.queue_offset);
        assert_eq!(view.store_timestamp(), placed.store_timestamp);
        assert_eq!(view.body_crc(), crc32(self.body));
        let expect = stored_properties(self.properties, self.inner_base, protection);
        assert_eq!(without_digits(view.property_string(), protection), expect);
        if protection == Protection::Record {
            let covered = &view.as_bytes()[..view.as_bytes().len() - CRC_LEN];
            assert_eq!(view.record_crc(), Some(u64::from(crc32(covered))));
        }
    }
}
