//! RocketMQ's own stores against this crate: each record is encoded again from what its producer
//! brought, byte for byte, to the same place and with the same id, and scanned back, field for
//! field.
#![expect(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

use std::collections::HashMap;
use std::fs;

use serde_json::Value;
use store_core::{
    Batch, Checkpoint, DecodeError, Destination, EncodeError, Encoded, Field, Frame, Invalid,
    LogOffset, Message, MessageId, Placed, Placement, Protection, QueueId, QueueOffset,
    RecordTooLarge, SegmentName, SegmentSize, Step, SysFlag, TimestampMs, Topic, Version, decode,
    encode, encode_batch, encode_blank, length_u64, place, scan_step,
};

#[path = "../../store-os/tests/golden/mod.rs"]
mod golden;

use golden::{hex, host, integer, is_stored, narrow, puts, stored_records, unsigned};

/// The stores whose every put this crate makes the same of as RocketMQ did.
const AGREED: [&str; 4] = ["plain", "batchcq", "oversize", "crash"];

/// What `AGREED` holds, so that no part of it is left out unseen.
const RECORDS: [usize; 4] = [203 + 29, 30, 2, 60];

fn size() -> SegmentSize {
    SegmentSize::new(65_536).unwrap()
}

/// The whole log as one string of bytes.
fn log(name: &str) -> Vec<u8> {
    let mut log = Vec::new();
    while let Ok(segment) = {
        let name_of_segment = SegmentName::new(LogOffset::new(length_u64(log.len())));
        fs::read(golden::root().join(name).join("commitlog").join(name_of_segment.as_str()))
    } {
        assert_eq!(length_u64(segment.len()), size().bytes());
        log.extend(segment);
    }
    log
}

fn at(log: &[u8], offset: LogOffset) -> &[u8] {
    &log[usize::try_from(offset.get()).unwrap()..]
}

/// A producer's input, owned.
struct Input {
    topic: String,
    queue_id: QueueId,
    properties: Vec<u8>,
    body: Vec<u8>,
    is_batch: bool,
    put: Value,
}

impl Input {
    fn new(put: &Value) -> Self {
        let input = &put["in"];
        let body = match input["bodyZeros"].as_u64() {
            Some(count) => vec![0; usize::try_from(count).unwrap()],
            None => hex(&input["bodyHex"]),
        };
        Self {
            topic: input["topic"].as_str().unwrap().to_owned(),
            queue_id: QueueId::new(narrow(&input["queueId"])),
            properties: hex(&input["propertiesHex"]),
            body,
            is_batch: put["kind"] == "batch",
            put: put.clone(),
        }
    }

    fn to(&self) -> Destination<'_> {
        let topic = Topic::new(self.topic.as_bytes()).unwrap();
        Destination { topic, queue_id: self.queue_id }
    }

    fn message(&self) -> Message<'_> {
        let input = &self.put["in"];
        Message {
            flag: narrow(&input["flag"]),
            sys_flag: SysFlag::new(u32::try_from(unsigned(&input["sysFlagIn"])).unwrap()),
            born_timestamp: TimestampMs::new(integer(&input["bornTimestamp"])),
            born_host: host(&input["bornHost"]),
            store_host: host(&input["storeHost"]),
            reconsume_times: narrow(&input["reconsumeTimes"]),
            prepared_transaction_offset: integer(&input["preparedTransactionOffset"]),
            inner_base: None,
            properties: &self.properties,
            body: &self.body,
        }
    }

    /// How many positions of its queue the put takes.
    fn queue_slots(&self) -> u64 {
        if self.is_batch {
            u64::from(Batch::new(&self.body).unwrap().count())
        } else {
            u64::from(self.message().queue_slots().unwrap())
        }
    }

    /// The record or records, given the queue's next offset.
    fn encode<'b>(&self, next: QueueOffset, out: &'b mut [u8]) -> Encoded<'b> {
        let message = self.message();
        if self.is_batch {
            let batch = Batch::new(&self.body).unwrap();
            let len = batch.encoded_len(self.to(), &message, Protection::Body).unwrap();
            let encoded = encode_batch(self.to(), &message, &batch, Protection::Body, out).unwrap();
            assert_eq!(encoded.len(), len);
            return encoded;
        }
        let is_inner = message.sys_flag.has(SysFlag::INNER_BATCH);
        let message = Message { inner_base: is_inner.then_some(next), ..message };
        let len = message.encoded_len(self.to(), Protection::Body).unwrap();
        let encoded = encode(self.to(), &message, Protection::Body, out).unwrap();
        assert_eq!(encoded.len(), len);
        encoded
    }
}

/// A store that follows RocketMQ's put for put.
struct Replay {
    log: Vec<u8>,
    end: LogOffset,
    blanks: usize,
    queues: HashMap<(String, QueueId), u64>,
    last_store: TimestampMs,
}

impl Replay {
    fn new(name: &str) -> Self {
        Self {
            log: log(name),
            end: LogOffset::ZERO,
            blanks: 0,
            queues: HashMap::new(),
            last_store: TimestampMs::default(),
        }
    }

    /// Asserts that RocketMQ left this blank.
    fn blank(&mut self, blank_at: LogOffset, len: u32) {
        let stored = at(&self.log, blank_at);
        assert_eq!(stored[..8], encode_blank(len));
        assert!(matches!(decode(stored), Ok(Frame::Blank { len: found }) if found == len));
        self.blanks += 1;
    }

    /// Encodes and places a put, and compares everything with what RocketMQ answered and stored.
    fn put(&mut self, put: &Value) {
        let (input, output) = (Input::new(put), &put["out"]);
        let queue = self.queues.entry((input.topic.clone(), input.queue_id)).or_default();
        let next = QueueOffset::new(*queue);
        let slots = input.queue_slots();
        *queue += slots;

        let mut out = vec![0xEE; 70_000];
        let encoded = input.encode(next, &mut out);
        assert_eq!(u64::from(encoded.len()), unsigned(&output["wroteBytes"]));
        let placement = place(size(), self.end, encoded.len()).unwrap();
        let log_offset = match placement {
            Placement::Fits { at } => at,
            Placement::Roll { blank_at, blank_len, at } => {
                self.blank(blank_at, blank_len);
                at
            }
        };
        let store_timestamp = TimestampMs::new(integer(&output["storeTimestamp"]));
        // Prepared and rollback records hold 0, the counter stays.
        let queue_offset = if slots == 0 { QueueOffset::new(0) } else { next };
        let placed = encoded.place(&Placed { log_offset, queue_offset, store_timestamp });
        let what = format!("put {} ({})", put["idx"], put["note"]);
        assert_eq!(log_offset.get(), unsigned(&output["wroteOffset"]), "{what}");
        assert_eq!(queue_offset.get(), unsigned(&output["queueOffset"]), "{what}");
        assert!(placed == &at(&self.log, log_offset)[..placed.len()], "{what}: bytes differ");
        assert!(self.last_store <= store_timestamp, "{what}: the store's clock went back");
        self.last_store = store_timestamp;
        self.check_ids(placed, output);
        self.end = log_offset.checked_add(length_u64(placed.len())).unwrap();
    }

    /// The ids of all records, and how many messages they are.
    fn check_ids(&self, mut placed: &[u8], output: &Value) {
        let mut ids = Vec::new();
        let mut messages = 0;
        while !placed.is_empty() {
            let Ok(Frame::Record(view)) = decode(placed) else { panic!("{:?}", decode(placed)) };
            let id = MessageId::new(view.store_host(), view.log_offset());
            ids.push(id.as_str().to_owned());
            messages += u64::from(view.message_count());
            placed = &placed[view.as_bytes().len()..];
        }
        assert_eq!(output["msgId"], ids.join(","), "record {}", self.end);
        assert_eq!(messages, unsigned(&output["msgNum"]), "record {}", self.end);
    }

    /// What RocketMQ does with a message that no segment holds, and this crate does not: two
    /// blanks, nothing stored.
    fn blanked_for_nothing(&mut self, put: &Value) {
        let input = Input::new(put);
        let len = input.message().encoded_len(input.to(), Protection::Body).unwrap();
        let refused = place(size(), self.end, len);
        assert_eq!(refused, Err(RecordTooLarge { len, max: size().max_record_len() }));
        let rest = size().get() - size().position_of(self.end);
        self.blank(self.end, rest);
        let next = self.end.checked_add(u64::from(rest)).unwrap();
        self.blank(next, size().get());
        self.end = next.checked_add(size().bytes()).unwrap();
    }

    /// What RocketMQ refused is refused, by this crate or by what uses it.
    fn refused(put: &Value) {
        let input = Input::new(put);
        let encoded_len = input.message().encoded_len(input.to(), Protection::Body);
        match put["out"]["putStatus"].as_str().unwrap() {
            "PROPERTIES_SIZE_EXCEEDED" => {
                let expect = EncodeError::PropertiesTooLong { len: 32_768, max: 32_767 };
                assert_eq!(encoded_len, Err(expect));
            }
            // The limit of a body is the engine's; here it fits no segment either.
            "MESSAGE_ILLEGAL" => {
                assert_eq!(input.body.len(), (4 << 20) + 1);
                assert!(place(size(), LogOffset::ZERO, encoded_len.unwrap()).is_err());
            }
            other => panic!("put {}: unexpected {other}", put["idx"]),
        }
    }
}

#[test]
fn every_put_becomes_rocketmqs_bytes_at_rocketmqs_place() {
    for (name, ends_at, blanks) in [
        ("plain", 396_139, 6),
        ("batchcq", 4_616, 0),
        ("oversize", 131_264, 2),
        ("crash", 177_454, 2),
    ] {
        let mut replay = Replay::new(name);
        for put in &puts(name) {
            match put["out"]["appendStatus"].as_str() {
                _ if is_stored(put) => replay.put(put),
                Some("END_OF_FILE") => replay.blanked_for_nothing(put),
                _ => Replay::refused(put),
            }
        }
        assert_eq!((replay.end.get(), replay.blanks), (ends_at, blanks), "{name}");
        let behind = at(&replay.log, replay.end);
        assert!(behind.iter().all(|byte| *byte == 0), "{name}: more than was understood");
    }
}

#[test]
fn every_record_is_scanned_and_is_its_input() {
    for protection in [Protection::Body, Protection::Record] {
        for (name, count) in AGREED.into_iter().zip(RECORDS) {
            let log = log(name);
            let expected = stored_records(name);
            assert_eq!(expected.len(), count, "{name}");
            let mut here = LogOffset::ZERO;
            for stored in &expected {
                let view = loop {
                    let rest = size().bytes() - u64::from(size().position_of(here));
                    match scan_step(at(&log, here), here, rest, protection) {
                        Step::Blank => here = here.checked_add(rest).unwrap(),
                        Step::Record(view) => break view,
                        other => panic!("{name} at {here}: {other:?}"),
                    }
                };
                stored.assert_is(&view);
                assert!(view.record_crc_matches(), "none is there to differ");
                here = here.checked_add(u64::from(view.total_size())).unwrap();
            }
            let rest = size().bytes() - u64::from(size().position_of(here));
            let behind = scan_step(at(&log, here), here, rest, protection);
            assert!(matches!(behind, Step::Invalid(Invalid::Unwritten)), "{name}: {behind:?}");
        }
    }
}

/// 60 characters, 180 bytes: RocketMQ counts characters and writes a length of −76.
#[test]
fn a_topic_that_rocketmq_cannot_read_back_is_readable_here() {
    let (log, puts, stored) = (log("badtopic"), puts("badtopic"), stored_records("badtopic"));
    let starts: Vec<_> = stored.iter().map(|stored| stored.at).collect();
    assert_eq!(starts, [0, 102, 383]);
    let negative = DecodeError::NegativeLength { field: Field::TopicLength, at: 98, found: -76 };
    for (stored, is_readable) in stored.iter().zip([true, false, true]) {
        let here = LogOffset::new(stored.at);
        let rest = size().bytes() - stored.at;
        match scan_step(at(&log, here), here, rest, Protection::Record) {
            Step::Record(view) if is_readable => stored.assert_is(&view),
            Step::Invalid(Invalid::Decode(error)) if !is_readable => assert_eq!(error, negative),
            other => panic!("record at {here}: {other:?}"),
        }
    }
    let input = Input::new(&puts[1]);
    let mut out = vec![0; 300];
    let placed = input.encode(QueueOffset::new(0), &mut out).place(&Placed::default());
    assert_eq!(length_u64(placed.len()), unsigned(&puts[1]["out"]["wroteBytes"]) + 1);
    let Ok(Frame::Record(view)) = decode(placed) else { panic!("{:?}", decode(placed)) };
    assert_eq!((view.version(), view.topic()), (Version::V2, input.topic.as_bytes()));
    assert_eq!(view.body(), input.body);
}

/// RocketMQ sets the fields as it goes and flushes them at shutdown, so what is on disk is at least
/// what the running store had.
#[test]
fn every_checkpoint_is_read_and_written_byte_for_byte() {
    for name in ["plain", "batchcq", "oversize", "badtopic", "crash"] {
        let file = fs::read(golden::root().join(name).join("checkpoint")).unwrap();
        assert_eq!(file.len(), Checkpoint::FILE_LEN);
        let checkpoint = Checkpoint::decode(&file).unwrap();
        let (fields, rest) = file.split_at(Checkpoint::LEN);
        assert_eq!(checkpoint.encode(), fields, "{name}");
        assert!(rest.iter().all(|byte| *byte == 0), "{name}");
        let live = &golden::description(name)["live"]["checkpoint"];
        let at_least = |field: &str, found: TimestampMs| {
            assert!(integer(&live[field]) <= found.get(), "{name}: {field} is {}", found.get());
        };
        at_least("physicMsgTimestamp", checkpoint.physic_msg_timestamp);
        at_least("logicsMsgTimestamp", checkpoint.logics_msg_timestamp);
        at_least("indexMsgTimestamp", checkpoint.index_msg_timestamp);
        let logics = integer(&live["logicsMsgTimestamp"]);
        assert_eq!(checkpoint.logics_msg_timestamp.get(), logics, "{name}");
        assert_eq!((checkpoint.master_flushed_offset, checkpoint.confirm_phy_offset), (0, 0));
    }
}
