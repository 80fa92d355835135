//! Reads what RocketMQ was given and what it made of it; shared by the tests of both crates.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use serde_json::Value;
use store_core::{Host, RecordView, Version, crc32};

/// Where the stores and their descriptions are.
pub(crate) fn root() -> PathBuf {
    // The manifest is that of the crate whose tests run; they are neighbours.
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../store-os/tests/golden")
}

/// The content of a description, such as `plain.json`.
pub(crate) fn description(name: &str) -> Value {
    let text = fs::read_to_string(root().join(name).with_extension("json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// The records that RocketMQ stored in the golden store `name`, in log order.
pub(crate) fn stored_records(name: &str) -> Vec<Stored> {
    let mut records = Vec::new();
    for put in puts(name).iter().filter(|put| is_stored(put)) {
        let mut at = unsigned(&put["out"]["wroteOffset"]);
        for (index, member) in (0..).zip(members(put)) {
            let stored = Stored::new(put, index, at, member);
            at += stored.len;
            records.push(stored);
        }
        let end = unsigned(&put["out"]["wroteOffset"]) + unsigned(&put["out"]["wroteBytes"]);
        assert_eq!(at, end, "put {} is not understood", put["idx"]);
    }
    records
}

/// Every put, in order, whatever became of it.
pub(crate) fn puts(name: &str) -> Vec<Value> {
    description(name)["messages"].as_array().unwrap().clone()
}

/// Whether a put became records; a message longer than a segment is `PUT_OK` without any.
pub(crate) fn is_stored(put: &Value) -> bool {
    put["out"]["putStatus"] == "PUT_OK" && put["out"]["appendStatus"] == "PUT_OK"
}

/// One record: what the producer brought and what the store made of it.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    /// The record's first byte in the log.
    pub(crate) at: u64,
    /// Its length in bytes.
    pub(crate) len: u64,
    put: Value,
    index_in_put: u64,
    member: Member,
}

impl Stored {
    fn new(put: &Value, index_in_put: u64, at: u64, member: Member) -> Self {
        let input = &put["in"];
        let topic = input["topic"].as_str().unwrap().len();
        let topic_length_width = if version(put) == Version::V1 { 1 } else { 2 };
        let hosts =
            host(&input["bornHost"]).encoded_len() + host(&input["storeHost"]).encoded_len();
        // FORMAT.md's table: what is left without hosts, topic, properties and body is 74 bytes.
        let lengths = topic_length_width + topic + member.body.len() + member.properties.len();
        let len = u64::try_from(74 + hosts + lengths).unwrap();
        Self { at, len, put: put.clone(), index_in_put, member }
    }

    /// Panics unless `view` is this record, field for field.
    pub(crate) fn assert_is(&self, view: &RecordView<'_>) {
        let (input, output, member) = (&self.put["in"], &self.put["out"], &self.member);
        let what = format!("put {} ({}), record {}", self.put["idx"], self.put["note"], self.at);
        let queue_offset = unsigned(&output["queueOffset"]) + self.index_in_put;
        assert_eq!(view.log_offset().get(), self.at, "{what}");
        assert_eq!(u64::from(view.total_size()), self.len, "{what}");
        assert_eq!(view.version(), version(&self.put), "{what}");
        assert_eq!(view.topic(), input["topic"].as_str().unwrap().as_bytes(), "{what}");
        assert_eq!(i64::from(view.queue_id().get()), integer(&input["queueId"]), "{what}");
        assert_eq!(view.queue_offset().get(), queue_offset, "{what}");
        assert_eq!(view.flag(), member.flag, "{what}");
        assert_eq!(u64::from(view.sys_flag().bits()), unsigned(&output["sysFlagStored"]), "{what}");
        assert_eq!(view.born_timestamp().get(), integer(&input["bornTimestamp"]), "{what}");
        assert_eq!(view.store_timestamp().get(), integer(&output["storeTimestamp"]), "{what}");
        assert_eq!(view.born_host(), host(&input["bornHost"]), "{what}");
        assert_eq!(view.store_host(), host(&input["storeHost"]), "{what}");
        assert_eq!(i64::from(view.reconsume_times()), integer(&input["reconsumeTimes"]), "{what}");
        assert_eq!(view.prepared_transaction_offset(), member.prepared, "{what}");
        assert_eq!(view.body(), member.body, "{what}");
        assert_eq!(view.property_string(), member.properties, "{what}");
        assert_eq!(view.body_crc(), member.body_crc, "{what}");
        assert!(view.body_crc_matches(), "{what}");
        assert_eq!(view.record_crc(), None, "{what}: the CRC property was off");
    }
}

#[derive(Clone, Debug)]
struct Member {
    flag: i32,
    prepared: i64,
    properties: Vec<u8>,
    body: Vec<u8>,
    body_crc: u32,
}

/// What a put becomes: the store expands a batch into ordinary records.
fn members(put: &Value) -> Vec<Member> {
    let (input, output) = (&put["in"], &put["out"]);
    match input["batch"].as_array() {
        Some(batch) => batch
            .iter()
            .map(|member| {
                let body = hex(&member["bodyHex"]);
                Member {
                    flag: narrow(&member["flag"]),
                    prepared: 0,
                    properties: hex(&member["propertiesHex"]),
                    // The description has no checksums of members.
                    body_crc: crc32(&body),
                    body,
                }
            })
            .collect(),
        None => vec![Member {
            flag: narrow(&input["flag"]),
            prepared: integer(&input["preparedTransactionOffset"]),
            properties: output["propertiesStoredString"].as_str().unwrap_or_default().into(),
            body: hex(&input["bodyHex"]),
            body_crc: u32::try_from(unsigned(&output["bodyCRC"])).unwrap(),
        }],
    }
}

fn version(put: &Value) -> Version {
    match put["out"]["version"].as_str().unwrap() {
        "MESSAGE_VERSION_V1" => Version::V1,
        "MESSAGE_VERSION_V2" => Version::V2,
        other => panic!("unknown version {other}"),
    }
}

pub(crate) fn host(value: &Value) -> Host {
    let address = hex(&value["ipHex"]);
    let ip = match <[u8; 4]>::try_from(address.as_slice()) {
        Ok(four) => IpAddr::from(four),
        Err(_) => IpAddr::from(<[u8; 16]>::try_from(address.as_slice()).unwrap()),
    };
    Host::new(ip, u16::try_from(unsigned(&value["port"])).unwrap())
}

/// Bytes from hex digits; a message without a property string has null there.
pub(crate) fn hex(value: &Value) -> Vec<u8> {
    let digits = value.as_str().unwrap_or_default().as_bytes();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

pub(crate) fn integer(value: &Value) -> i64 {
    value.as_i64().unwrap()
}

pub(crate) fn unsigned(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

pub(crate) fn narrow(value: &Value) -> i32 {
    integer(value).try_into().unwrap()
}
