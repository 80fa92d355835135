//! The CRC32 property against its description, with a checksum computed bit by bit and a property
//! put together by hand.
#![expect(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

use std::net::Ipv6Addr;

use store_core::{
    Batch, BatchError, BatchMember, Destination, EncodeError, Frame, Host, Invalid, LogOffset,
    Message, Placed, Protection, QueueId, QueueOffset, RecordView, Step, SysFlag, TimestampMs,
    Topic, Version, decode, encode, encode_batch, length_u64, scan_step,
};

const PLACED: Placed = Placed {
    log_offset: LogOffset::new(0x0102_0304_0506),
    queue_offset: QueueOffset::new(77),
    store_timestamp: TimestampMs::new(1_795_957_590_649),
};

/// CRC-32 of IEEE 802.3, reflected, one bit at a time, all 32 bits of it.
fn bitwise_crc(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0xEDB8_8320 } else { crc >> 1 };
        }
    }
    !crc
}

/// The property of a record with these bytes before it: lowest digit first, padded at the end.
fn property_of(covered: &[u8]) -> Vec<u8> {
    let value = bitwise_crc(covered) & 0x7FFF_FFFF;
    let digits: String = value.to_string().chars().rev().collect();
    format!("__CRC32#\u{1}{digits:0<10}\u{2}").into_bytes()
}

fn to(topic: &str) -> Destination<'_> {
    Destination { topic: Topic::new(topic.as_bytes()).unwrap(), queue_id: QueueId::new(3) }
}

/// Encodes with the property, and asserts that the record ends in the right one.
fn protected(topic: &str, message: &Message<'_>, placed: &Placed) -> Vec<u8> {
    let mut out = vec![0xEE; 40_000];
    let len = message.encoded_len(to(topic), Protection::Record).unwrap();
    let record = encode(to(topic), message, Protection::Record, &mut out).unwrap().place(placed);
    assert_eq!(length_u64(record.len()), u64::from(len));
    assert_protected(record);
    record.to_vec()
}

#[track_caller]
fn assert_protected(record: &[u8]) {
    let (covered, property) = record.split_at(record.len() - 20);
    assert_eq!(property, property_of(covered));
    let view = view(record);
    assert_eq!(view.record_crc(), Some(u64::from(bitwise_crc(covered) & 0x7FFF_FFFF)));
    assert!(view.record_crc_matches() && view.body_crc_matches());
    let found = scan_step(record, view.log_offset(), 1 << 20, Protection::Record);
    assert!(matches!(found, Step::Record(_)), "{found:?}");
}

fn view(record: &[u8]) -> RecordView<'_> {
    match decode(record) {
        Ok(Frame::Record(view)) if view.as_bytes().len() == record.len() => view,
        other => panic!("{other:?}"),
    }
}

fn step(record: &[u8], protection: Protection) -> Step<'_> {
    scan_step(record, PLACED.log_offset, 1 << 20, protection)
}

#[test]
fn the_checksum_by_bits_is_the_known_one() {
    assert_eq!(bitwise_crc(b"123456789"), 0xCBF4_3926);
    assert_eq!(bitwise_crc(b""), 0);
}

/// A store timestamp whose low half makes the record's full checksum `target`: the checksum is
/// linear in the bits, so 32 of them suffice for any.
fn timestamp_for(message: &Message<'_>, target: u32) -> TimestampMs {
    let crc_at = |low: u32| {
        let store_timestamp = TimestampMs::new(i64::from(low));
        let record = protected("T", message, &Placed { store_timestamp, ..PLACED });
        bitwise_crc(&record[..record.len() - 20])
    };
    let base = crc_at(0);
    // Each row: what a combination of bits does to the checksum; brought to one leading bit each.
    let mut rows: Vec<(u32, u32)> =
        (0..32).map(|bit| (crc_at(1 << bit) ^ base, 1 << bit)).collect();
    let (mut wanted, mut low) = (base ^ target, 0);
    for bit in (0..32).map(|bit| 1_u32 << bit) {
        let pivot = rows.iter().position(|(effect, _)| effect & bit != 0).expect("a full basis");
        let (effect, bits) = rows.swap_remove(pivot);
        for row in rows.iter_mut().filter(|row| row.0 & bit != 0) {
            *row = (row.0 ^ effect, row.1 ^ bits);
        }
        if wanted & bit != 0 {
            (wanted, low) = (wanted ^ effect, low ^ bits);
        }
    }
    TimestampMs::new(i64::from(low))
}

#[test]
fn digits_stand_lowest_first_and_are_padded_at_the_end() {
    let message = Message { body: b"body", properties: b"k\x01v\x02", ..Message::default() };
    for (full, digits) in [
        (0x7FFF_FFFF, "7463847412"),
        (0xFFFF_FFFF, "7463847412"),
        (5, "5000000000"),
        (0x8000_0005, "5000000000"),
        (1_000_000_000, "0000000001"),
        (0, "0000000000"),
    ] {
        let store_timestamp = timestamp_for(&message, full);
        let record = protected("T", &message, &Placed { store_timestamp, ..PLACED });
        let expect = format!("__CRC32#\u{1}{digits}\u{2}");
        assert_eq!(record[record.len() - 20..], *expect.as_bytes(), "{full:#x}");
    }
}

/// What the record's properties are before the CRC32 property.
#[track_caller]
fn check_stored(own: &[u8], expect: &[u8]) {
    let message = Message { body: b"body", properties: own, ..Message::default() };
    let record = protected("T", &message, &PLACED);
    let stored = view(&record).property_string();
    assert_eq!(stored[..stored.len() - 20], *expect);
    let len_at = 91 + 4 + 1 - 2;
    assert_eq!(record[len_at..len_at + 2], u16::try_from(stored.len()).unwrap().to_be_bytes());
    assert_eq!(record.len(), 91 + 4 + 1 + expect.len() + 20);
    assert_eq!(record[..4], u32::try_from(record.len()).unwrap().to_be_bytes());
}

#[test]
fn empty_properties_then_have_length_20() {
    let record = protected("T", &Message::default(), &PLACED);
    assert_eq!(view(&record).property_string().len(), 20);
    check_stored(b"", b"");
}

#[test]
fn what_does_not_end_in_a_separator_gets_one() {
    check_stored(b"k\x01v\x02", b"k\x01v\x02");
    check_stored(b"k\x01v", b"k\x01v\x02");
    check_stored(b"x", b"x\x02");
    check_stored(b"\x02", b"\x02");
    check_stored(b"k\x01v\x02\x01", b"k\x01v\x02\x01\x02");
}

#[test]
fn an_incoming_checksum_is_removed_first_wherever_it_stands() {
    check_stored(b"__CRC32#\x011234567890\x02k\x01v\x02", b"k\x01v\x02");
    check_stored(b"a\x01b\x02__CRC32#\x011234567890\x02k\x01v\x02", b"a\x01b\x02k\x01v\x02");
    check_stored(b"k\x01v\x02__CRC32#\x011234567890\x02", b"k\x01v\x02");
    check_stored(b"k\x01v\x02__CRC32#\x011234567890", b"k\x01v\x02");
    check_stored(b"__CRC32#\x015\x02__CRC32#\x016\x02", b"");
    check_stored(b"__CRC32#\x01", b"");
    // Only a whole name at the start of a pair is one.
    check_stored(b"X__CRC32#\x015\x02", b"X__CRC32#\x015\x02");
    check_stored(b"__CRC32#x\x015\x02", b"__CRC32#x\x015\x02");
    check_stored(b"k\x01__CRC32#\x015\x02", b"k\x01__CRC32#\x015\x02");
    check_stored(b"__CRC32#", b"__CRC32#\x02");
}

#[test]
fn the_limit_of_properties_counts_the_reserve_and_the_separator() {
    let mut out = vec![0; 40_000];
    let mut check = |own: &[u8], expect: Result<usize, usize>| {
        let message = Message { properties: own, ..Message::default() };
        let found = encode(to("T"), &message, Protection::Record, &mut out)
            .map(|encoded| view(encoded.place(&PLACED)).property_string().len());
        let too_long = |len| EncodeError::PropertiesTooLong { len, max: 32_767 };
        assert_eq!(found, expect.map_err(too_long), "{} bytes", own.len());
    };
    let mut ended = vec![b'x'; 32_748];
    *ended.last_mut().unwrap() = 2;
    check(&ended[1..], Ok(32_767));
    check(&ended, Err(32_768));
    let open = vec![b'x'; 32_747];
    check(&open[1..], Ok(32_767));
    check(&open, Err(32_768));
    // What is removed does not count.
    check(&[b"__CRC32#\x011234567890\x02", &ended[1..]].concat(), Ok(32_767));
}

#[test]
fn without_the_property_the_limit_and_the_length_are_those_of_the_string() {
    let mut out = vec![0; 40_000];
    let own = vec![b'x'; 32_767];
    let message = Message { properties: &own, ..Message::default() };
    let record = encode(to("T"), &message, Protection::Body, &mut out).unwrap().place(&PLACED);
    assert_eq!(view(record).property_string(), own);
    assert_eq!(view(record).record_crc(), None);
    assert!(view(record).record_crc_matches(), "none is there to differ");
}

fn long_topic() -> String {
    "主题".repeat(30)
}

fn ipv6(last: u16) -> Host {
    Host::new(Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, last).into(), 10_911)
}

/// One message of each form: both versions, all address families, with and without body and
/// properties, an inner batch.
fn forms() -> Vec<(String, Message<'static>)> {
    let mut forms = Vec::new();
    for topic in ["T".to_owned(), long_topic()] {
        for (born_host, store_host) in [
            (Host::default(), Host::default()),
            (ipv6(1), Host::default()),
            (Host::default(), ipv6(2)),
            (ipv6(1), ipv6(2)),
        ] {
            for (body, properties) in
                [(&b""[..], &b""[..]), (b"a body", b""), (b"a body", b"TAGS\x01a\x02k\x01v")]
            {
                let message =
                    Message { born_host, store_host, body, properties, ..Message::default() };
                forms.push((topic.clone(), message));
            }
        }
        let message = Message {
            sys_flag: SysFlag::new(0xC0),
            inner_base: Some(QueueOffset::new(77)),
            properties: b"INNER_NUM\x013\x02",
            body: b"an inner batch",
            ..Message::default()
        };
        forms.push((topic, message));
    }
    forms
}

#[test]
fn every_form_of_record_is_covered_whole() {
    for (topic, message) in forms() {
        let record = protected(&topic, &message, &PLACED);
        let version = if topic == "T" { Version::V1 } else { Version::V2 };
        assert_eq!(view(&record).version(), version);
        assert_eq!(view(&record).born_host(), message.born_host);
        assert_eq!(view(&record).store_host(), message.store_host);
    }
}

#[test]
fn every_flipped_bit_of_a_protected_record_is_noticed() {
    for (topic, message) in forms() {
        let record = protected(&topic, &message, &PLACED);
        // Another record follows, so that a length that grew leads to plausible bytes.
        let next = PLACED.log_offset.checked_add(length_u64(record.len())).unwrap();
        let behind = protected(&topic, &message, &Placed { log_offset: next, ..PLACED });
        let mut window = [&record[..], &behind, &vec![0; 4096]].concat();
        let rest = length_u64(window.len());
        let step =
            |window: &[u8]| match scan_step(window, PLACED.log_offset, rest, Protection::Record) {
                Step::Record(view) => Ok(view.as_bytes().len()),
                Step::Invalid(found) => Err(found),
                other => panic!("{other:?}"),
            };
        assert_eq!(step(&window), Ok(record.len()));
        for bit in 0..record.len() * 8 {
            window[bit / 8] ^= 1 << (bit % 8);
            let found = step(&window);
            assert!(found.is_err(), "{message:?}: bit {bit} of byte {} passed", bit / 8);
            window[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

#[test]
fn a_difference_is_told_with_both_values_and_only_where_it_is_asked_for() {
    let message = Message { body: b"body", properties: b"k\x01v\x02", ..Message::default() };
    let mut record = protected("T", &message, &PLACED);
    let stored = view(&record).record_crc().unwrap();
    record[19] ^= 1; // FLAG, which BODYCRC does not cover
    let computed = bitwise_crc(&record[..record.len() - 20]) & 0x7FFF_FFFF;
    match step(&record, Protection::Record) {
        Step::Invalid(found) => assert_eq!(found, Invalid::RecordCrc { stored, computed }),
        other => panic!("{other:?}"),
    }
    assert!(!view(&record).record_crc_matches());
    assert!(matches!(step(&record, Protection::Body), Step::Record(_)));
}

#[test]
fn a_record_without_the_property_is_verified_by_its_body() {
    let mut out = vec![0; 200];
    let message = Message { body: b"body", properties: b"k\x01v\x02", ..Message::default() };
    let record = encode(to("T"), &message, Protection::Body, &mut out).unwrap().place(&PLACED);
    assert!(matches!(step(record, Protection::Record), Step::Record(_)));
    record[88] ^= 1;
    let stored = bitwise_crc(b"body") & 0x7FFF_FFFF;
    match step(record, Protection::Record) {
        Step::Invalid(found) => assert_eq!(found, Invalid::BodyCrc { stored }),
        other => panic!("{other:?}"),
    }
}

const MEMBERS: [BatchMember<'_>; 4] = [
    BatchMember { flag: 1, properties: b"k\x01v\x02", body: b"one" },
    BatchMember { flag: -2, properties: b"k\x01v", body: b"" },
    BatchMember { flag: 3, properties: b"", body: b"three" },
    BatchMember { flag: 4, properties: b"a\x01b\x02__CRC32#\x011234567890", body: b"four" },
];

fn client_encoded(members: &[BatchMember<'_>]) -> Vec<u8> {
    let mut out = vec![0; members.iter().map(BatchMember::encoded_len).sum()];
    let mut at = 0;
    for member in members {
        at += member.encode(&mut out[at..]).unwrap();
    }
    assert_eq!(at, out.len());
    out
}

/// RocketMQ forgets the separator here, so that its own recovery cannot find the property again.
#[test]
fn every_member_of_a_batch_ends_in_its_own() {
    let bytes = client_encoded(&MEMBERS);
    let batch = Batch::new(&bytes).unwrap();
    let mut out = vec![0; 2000];
    for (topic, host) in
        [("T".to_owned(), Host::default()), (long_topic(), ipv6(1)), ("T".to_owned(), ipv6(1))]
    {
        let message = Message { born_host: host, store_host: host, ..Message::default() };
        let encoded =
            encode_batch(to(&topic), &message, &batch, Protection::Record, &mut out).unwrap();
        let mut rest = &*encoded.place(&PLACED);
        let mut here = PLACED.log_offset;
        for (queue_offset, (member, own)) in
            (77..).zip(MEMBERS.iter().zip([&b"k\x01v\x02"[..], b"k\x01v\x02", b"", b"a\x01b\x02"]))
        {
            let len = u32::from_be_bytes(*rest.first_chunk().unwrap());
            let (record, behind) = rest.split_at(usize::try_from(len).unwrap());
            let (covered, property) = record.split_at(record.len() - 20);
            assert_eq!(property, property_of(covered));
            let view = view(record);
            assert_eq!((view.flag(), view.body()), (member.flag, member.body));
            assert_eq!(view.property_string(), [own, property].concat());
            assert_eq!(view.queue_offset().get(), queue_offset);
            let found = scan_step(record, here, 1 << 20, Protection::Record);
            assert!(matches!(found, Step::Record(_)), "{found:?}");
            here = here.checked_add(length_u64(record.len())).unwrap();
            rest = behind;
        }
        assert!(rest.is_empty());
    }
}

#[test]
fn the_limit_of_properties_holds_for_each_member() {
    let long = vec![b'x'; 32_747];
    let members = [MEMBERS[0], BatchMember { flag: 0, properties: &long, body: b"" }];
    let bytes = client_encoded(&members);
    let batch = Batch::new(&bytes).unwrap();
    let refused = batch.encoded_len(to("T"), &Message::default(), Protection::Record);
    let error = EncodeError::PropertiesTooLong { len: 32_768, max: 32_767 };
    assert_eq!(refused, Err(BatchError::Encode { index: 1, error }));
    assert!(batch.encoded_len(to("T"), &Message::default(), Protection::Body).is_ok());
}
