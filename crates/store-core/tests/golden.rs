//! RocketMQ's own store against this crate: each record of `golden/plain` is decoded, and encoded
//! again from the inputs of its put, byte for byte, at the same offset and with the same id.
#![expect(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

use std::fs;
use std::net::IpAddr;
use std::path::Path;

use serde_json::Value;
use store_core::{
    Destination, Frame, Host, LogOffset, Message, MessageId, Placed, Placement, Protection,
    QueueId, QueueOffset, SegmentName, SegmentSize, SysFlag, TimestampMs, Topic, crc32, decode,
    encode, encode_blank, place,
};

const SEGMENT: u64 = 65536;

/// A store that RocketMQ wrote, and how.
struct Golden {
    log: Vec<u8>,
    puts: Vec<Value>,
}

impl Golden {
    fn plain() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../store-os/tests/golden");
        let mut log = Vec::new();
        while let Ok(segment) = {
            let start = LogOffset::new(log.len().try_into().unwrap());
            fs::read(root.join("plain/commitlog").join(SegmentName::new(start).as_str()))
        } {
            assert_eq!(segment.len(), 65536);
            log.extend(segment);
        }
        let text = fs::read_to_string(root.join("plain.json")).unwrap();
        let store: Value = serde_json::from_str(&text).unwrap();
        Self { log, puts: store["messages"].as_array().unwrap().clone() }
    }

    fn accepted(&self) -> impl Iterator<Item = &Value> {
        self.puts.iter().filter(|put| put["out"]["putStatus"] == "PUT_OK")
    }

    fn at(&self, offset: u64) -> &[u8] {
        &self.log[usize::try_from(offset).unwrap()..]
    }
}

fn integer(value: &Value) -> i64 {
    value.as_i64().unwrap()
}

fn unsigned(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

fn narrow(value: &Value) -> i32 {
    integer(value).try_into().unwrap()
}

fn hex(value: &Value) -> Vec<u8> {
    // A message without a property string has null there; it is stored as an empty one.
    let digits = value.as_str().unwrap_or_default().as_bytes();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

fn host(value: &Value) -> Host {
    let address = hex(&value["ipHex"]);
    let ip = match <[u8; 4]>::try_from(address.as_slice()) {
        Ok(four) => IpAddr::from(four),
        Err(_) => IpAddr::from(<[u8; 16]>::try_from(address.as_slice()).unwrap()),
    };
    Host::new(ip, u16::try_from(unsigned(&value["port"])).unwrap())
}

/// One record of a put: the whole message, or a member of a batch.
struct Member {
    flag: i32,
    prepared: i64,
    properties: Vec<u8>,
    body: Vec<u8>,
}

/// The records that a put becomes: the store expands a batch into ordinary ones.
fn members(put: &Value) -> Vec<Member> {
    let input = &put["in"];
    match input["batch"].as_array() {
        Some(batch) => batch
            .iter()
            .map(|member| Member {
                flag: narrow(&member["flag"]),
                prepared: 0,
                properties: hex(&member["propertiesHex"]),
                body: hex(&member["bodyHex"]),
            })
            .collect(),
        None => vec![Member {
            flag: narrow(&input["flag"]),
            prepared: integer(&input["preparedTransactionOffset"]),
            properties: hex(&input["propertiesHex"]),
            body: hex(&input["bodyHex"]),
        }],
    }
}

fn is_v1(put: &Value) -> bool {
    put["out"]["version"] == "MESSAGE_VERSION_V1"
}

#[test]
fn every_version_1_record_is_encoded_byte_for_byte() {
    let golden = Golden::plain();
    let mut compared = 0;
    for put in golden.accepted().filter(|put| is_v1(put)) {
        let (input, output) = (&put["in"], &put["out"]);
        let topic = input["topic"].as_str().unwrap();
        let to = Destination {
            topic: Topic::new(topic.as_bytes()).unwrap(),
            queue_id: QueueId::new(narrow(&input["queueId"])),
        };
        let mut offset = unsigned(&output["wroteOffset"]);
        let mut ids = Vec::new();
        for (index, member) in (0..).zip(members(put)) {
            let message = Message {
                flag: member.flag,
                sys_flag: SysFlag::new(u32::try_from(unsigned(&input["sysFlagIn"])).unwrap()),
                born_timestamp: TimestampMs::new(integer(&input["bornTimestamp"])),
                born_host: host(&input["bornHost"]),
                store_host: host(&input["storeHost"]),
                reconsume_times: narrow(&input["reconsumeTimes"]),
                prepared_transaction_offset: member.prepared,
                inner_base: None,
                properties: &member.properties,
                body: &member.body,
            };
            let placed = Placed {
                log_offset: LogOffset::new(offset),
                queue_offset: QueueOffset::new(unsigned(&output["queueOffset"]) + index),
                store_timestamp: TimestampMs::new(integer(&output["storeTimestamp"])),
            };
            let mut out = vec![0; 65536];
            let record = encode(to, &message, Protection::Body, &mut out).unwrap().place(&placed);
            let stored = &golden.at(offset)[..record.len()];
            assert!(record == stored, "put {} ({}) differs", put["idx"], put["note"]);
            ids.push(MessageId::new(message.store_host, placed.log_offset).as_str().to_owned());
            offset += u64::try_from(record.len()).unwrap();
            compared += 1;
        }
        assert_eq!(output["msgId"], ids.join(","), "put {}", put["idx"]);
        assert_eq!(offset, unsigned(&output["wroteOffset"]) + unsigned(&output["wroteBytes"]));
    }
    assert_eq!(compared, 201 + 29, "the records of 201 single puts and of 6 batches");
}

#[test]
fn every_version_1_record_is_decoded_to_its_inputs() {
    let golden = Golden::plain();
    for put in golden.accepted().filter(|put| is_v1(put)) {
        let (input, output) = (&put["in"], &put["out"]);
        let mut offset = unsigned(&output["wroteOffset"]);
        for (index, member) in (0..).zip(members(put)) {
            let Ok(Frame::Record(view)) = decode(golden.at(offset)) else {
                panic!("put {}: no record", put["idx"])
            };
            assert_eq!(view.topic(), input["topic"].as_str().unwrap().as_bytes());
            assert_eq!(i64::from(view.queue_id().get()), integer(&input["queueId"]));
            assert_eq!(view.queue_offset().get(), unsigned(&output["queueOffset"]) + index);
            assert_eq!(view.log_offset(), LogOffset::new(offset));
            assert_eq!(view.flag(), member.flag);
            assert_eq!(u64::from(view.sys_flag().bits()), unsigned(&output["sysFlagStored"]));
            assert_eq!(view.born_timestamp().get(), integer(&input["bornTimestamp"]));
            assert_eq!(view.store_timestamp().get(), integer(&output["storeTimestamp"]));
            assert_eq!(view.born_host(), host(&input["bornHost"]));
            assert_eq!(view.store_host(), host(&input["storeHost"]));
            assert_eq!(view.reconsume_times(), narrow(&input["reconsumeTimes"]));
            assert_eq!(view.prepared_transaction_offset(), member.prepared);
            assert_eq!(view.body(), member.body);
            assert_eq!(view.property_string(), member.properties);
            assert_eq!(view.body_crc(), crc32(&member.body));
            assert!(view.body_crc_matches());
            offset += u64::from(view.total_size());
        }
    }
}

#[test]
fn records_and_blanks_stand_where_placement_says() {
    let golden = Golden::plain();
    let size = SegmentSize::new(SEGMENT).unwrap();
    let mut end = LogOffset::ZERO;
    let mut blanks = 0;
    for put in golden.accepted() {
        let len = u32::try_from(unsigned(&put["out"]["wroteBytes"])).unwrap();
        let at = match place(size, end, len).unwrap() {
            Placement::Fits { at } => at,
            Placement::Roll { blank_at, blank_len, at } => {
                let stored = golden.at(blank_at.get());
                assert_eq!(stored[..8], encode_blank(blank_len));
                assert!(matches!(decode(stored), Ok(Frame::Blank { len }) if len == blank_len));
                blanks += 1;
                at
            }
        };
        assert_eq!(at.get(), unsigned(&put["out"]["wroteOffset"]), "put {}", put["idx"]);
        end = at.checked_add(u64::from(len)).unwrap();
    }
    assert_eq!(end, LogOffset::new(396_139));
    assert_eq!(blanks, 6);
    assert!(golden.at(end.get()).iter().all(|byte| *byte == 0));
}

#[test]
fn what_rocketmq_refused_is_refused() {
    let golden = Golden::plain();
    let refused: Vec<_> =
        golden.puts.iter().filter(|put| put["out"]["putStatus"] != "PUT_OK").collect();
    assert_eq!(refused.len(), 1);
    let input = &refused[0]["in"];
    assert_eq!(refused[0]["out"]["putStatus"], "PROPERTIES_SIZE_EXCEEDED");
    let properties = hex(&input["propertiesHex"]);
    let message = Message { properties: &properties, ..Message::default() };
    let topic = Topic::new(input["topic"].as_str().unwrap().as_bytes()).unwrap();
    let to = Destination { topic, queue_id: QueueId::new(0) };
    assert!(message.encoded_len(to, Protection::Body).is_err());
}
