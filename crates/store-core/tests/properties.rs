//! Properties that hold for all inputs: what is encoded is decoded, and nothing else is accepted.
#![expect(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

use std::net::IpAddr;

use proptest::prelude::*;
use proptest::sample::Index;
use store_core::{
    BLANK_LEN, Batch, BatchMember, Destination, EncodeError, Frame, Host, LogOffset, Message,
    Placed, Placement, Properties, Protection, QueueId, QueueOffset, RecordView, SegmentName,
    SegmentSize, Step, SysFlag, TimestampMs, Topic, Version, crc32, decode, encode, encode_batch,
    length_u64, place, scan_step,
};

fn hosts() -> impl Strategy<Value = Host> {
    let ip = prop_oneof![
        any::<[u8; 4]>().prop_map(IpAddr::from),
        any::<[u8; 16]>().prop_map(IpAddr::from),
    ];
    (ip, any::<u16>()).prop_map(|(ip, port)| Host::new(ip, port))
}

/// Property strings with what only the store writes in them, or nothing but bytes; they do not end
/// in a zero byte, which an unprotected record must not.
fn property_strings() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..20),
        "[a-z]{1,5}\u{1}[a-z ]{1,9}\u{2}?".prop_map(String::into_bytes),
        "__CRC32#\u{1}[0-9]{0,10}\u{2}?".prop_map(String::into_bytes),
        "INNER_(BASE|NUM)\u{1}[0-9]{1,3}\u{2}?".prop_map(String::into_bytes),
    ];
    prop::collection::vec(piece, 0..10)
        .prop_map(|pieces| pieces.concat())
        .prop_filter("ends in zero", |string| string.last() != Some(&0))
}

/// Everything that goes into a record, owned.
#[derive(Clone, Debug)]
struct Input {
    topic: String,
    numbers: (i32, i32, u32, i64, i32, i64),
    hosts: (Host, Host),
    inner_base: Option<u64>,
    properties: Vec<u8>,
    body: Vec<u8>,
    protection: Protection,
    placed: Placed,
}

fn placed() -> impl Strategy<Value = Placed> {
    let log_offset = 0..=i64::MAX.unsigned_abs();
    (log_offset, any::<u64>(), any::<i64>()).prop_map(
        |(log_offset, queue_offset, store_timestamp)| Placed {
            log_offset: LogOffset::new(log_offset),
            queue_offset: QueueOffset::new(queue_offset),
            store_timestamp: TimestampMs::new(store_timestamp),
        },
    )
}

fn protections() -> impl Strategy<Value = Protection> {
    prop_oneof![Just(Protection::Body), Just(Protection::Record)]
}

/// Without the CRC32 property only text is stored.
fn storable(properties: Vec<u8>, protection: Protection) -> Vec<u8> {
    match protection {
        Protection::Body => String::from_utf8_lossy(&properties).into_owned().into_bytes(),
        Protection::Record => properties,
    }
}

fn topics() -> impl Strategy<Value = String> {
    prop_oneof!["[a-zA-Z%_é标]{1,31}", "[a-z]{100,255}", "[é标]{60,85}"]
}

fn inputs() -> impl Strategy<Value = Input> {
    (
        (topics(), any::<(i32, i32, u32, i64, i32, i64)>(), (hosts(), hosts())),
        (any::<Option<u64>>(), property_strings(), prop::collection::vec(any::<u8>(), 0..700)),
        (protections(), placed()),
    )
        .prop_map(
            |((topic, numbers, hosts), (inner_base, properties, body), (protection, placed))| {
                let properties = storable(properties, protection);
                Input { topic, numbers, hosts, inner_base, properties, body, protection, placed }
            },
        )
        // What is left of a string may end in a zero byte, though the string does not.
        .prop_filter("ends in zero", |input| !input.stored_properties().ends_with(&[0]))
}

impl Input {
    fn to(&self) -> Destination<'_> {
        let topic = Topic::new(self.topic.as_bytes()).unwrap();
        Destination { topic, queue_id: QueueId::new(self.numbers.0) }
    }

    fn message(&self) -> Message<'_> {
        let (_, flag, sys_flag, born, reconsume_times, prepared) = self.numbers;
        Message {
            flag,
            sys_flag: SysFlag::new(sys_flag),
            born_timestamp: TimestampMs::new(born),
            born_host: self.hosts.0,
            store_host: self.hosts.1,
            reconsume_times,
            prepared_transaction_offset: prepared,
            inner_base: self.inner_base.map(QueueOffset::new),
            properties: &self.properties,
            body: &self.body,
        }
    }

    fn record(&self) -> Vec<u8> {
        let mut out = vec![0; 4096];
        encode(self.to(), &self.message(), self.protection, &mut out)
            .unwrap()
            .place(&self.placed)
            .to_vec()
    }

    /// The stored string without the CRC32 property, by splitting.
    fn stored_properties(&self) -> Vec<u8> {
        let base = self.inner_base.map(|base| format!("INNER_BASE\u{1}{base}\u{2}").into_bytes());
        let is_dropped = |piece: &&[u8]| {
            let is_base = piece.starts_with(b"INNER_BASE\x01");
            let is_crc = piece.starts_with(b"__CRC32#\x01");
            (is_crc && self.protection == Protection::Record) || (base.is_some() && is_base)
        };
        let pieces = self.properties.split_inclusive(|byte| *byte == 2);
        let kept = pieces.filter(|piece| !is_dropped(piece));
        base.iter().map(Vec::as_slice).chain(kept).collect::<Vec<_>>().concat()
    }
}

fn view(bytes: &[u8]) -> RecordView<'_> {
    match decode(bytes) {
        Ok(Frame::Record(view)) => view,
        other => panic!("{other:?}"),
    }
}

/// Whether a scan takes what stands here for a record.
fn is_accepted(bytes: &[u8], at: LogOffset) -> bool {
    matches!(scan_step(bytes, at, 1 << 20, Protection::Record), Step::Record(_))
}

fn batches() -> impl Strategy<Value = Vec<(i32, Vec<u8>, Vec<u8>)>> {
    let member = (any::<i32>(), property_strings(), prop::collection::vec(any::<u8>(), 0..200));
    prop::collection::vec(member, 1..8)
}

fn client_encoded(members: &[(i32, Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (flag, properties, body) in members {
        let member = BatchMember { flag: *flag, properties, body };
        let mut bytes = vec![0; member.encoded_len()];
        member.encode(&mut bytes).unwrap();
        out.extend(bytes);
    }
    out
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded(input in inputs()) {
        let bytes = input.record();
        let view = view(&bytes);
        let hosts = SysFlag::BORN_HOST_IPV6 | SysFlag::STORE_HOST_IPV6;
        prop_assert_eq!(view.as_bytes(), &bytes[..]);
        let is_long = input.topic.len() > 127;
        prop_assert_eq!(view.version(), if is_long { Version::V2 } else { Version::V1 });
        prop_assert_eq!(view.topic(), input.topic.as_bytes());
        prop_assert_eq!(view.queue_id().get(), input.numbers.0);
        prop_assert_eq!(view.flag(), input.numbers.1);
        prop_assert_eq!(view.sys_flag().bits() & !hosts, input.numbers.2 & !hosts);
        prop_assert_eq!(view.born_timestamp().get(), input.numbers.3);
        prop_assert_eq!(view.reconsume_times(), input.numbers.4);
        prop_assert_eq!(view.prepared_transaction_offset(), input.numbers.5);
        prop_assert_eq!((view.born_host(), view.store_host()), input.hosts);
        prop_assert_eq!(view.body(), &input.body[..]);
        prop_assert_eq!(view.log_offset(), input.placed.log_offset);
        prop_assert_eq!(view.queue_offset(), input.placed.queue_offset);
        prop_assert_eq!(view.store_timestamp(), input.placed.store_timestamp);
        prop_assert!(view.body_crc_matches());
        let mut expect = input.stored_properties();
        if input.protection == Protection::Record {
            if !expect.is_empty() && !expect.ends_with(&[2]) {
                expect.push(2);
            }
            let crc = crc32(&bytes[..bytes.len() - 20]);
            prop_assert_eq!(view.record_crc(), Some(u64::from(crc)));
            let digits: String = crc.to_string().chars().rev().collect();
            expect.extend(format!("__CRC32#\u{1}{digits:0<10}\u{2}").bytes());
            prop_assert!(is_accepted(&bytes, input.placed.log_offset));
        }
        prop_assert_eq!(view.property_string(), &expect[..]);
        let len = input.message().encoded_len(input.to(), input.protection);
        prop_assert_eq!(len.map(u64::from), Ok(length_u64(bytes.len())));
    }

    #[test]
    fn a_cut_record_is_no_record(input in inputs(), cut in any::<Index>()) {
        let bytes = input.record();
        let cut = &bytes[..cut.index(bytes.len())];
        prop_assert!(decode(cut).is_err());
        let step = scan_step(cut, input.placed.log_offset, 1 << 20, Protection::Record);
        prop_assert!(matches!(step, Step::More { .. }), "{:?}", step);
    }

    #[test]
    fn a_record_whose_end_was_never_written_is_noticed(input in inputs(), cut in any::<Index>()) {
        let mut bytes = input.record();
        let cut = cut.index(bytes.len());
        bytes[cut..].fill(0);
        // Nothing is lost where only the zero length of no properties was to come.
        let is_whole = bytes == input.record();
        let is_accepted = is_accepted(&bytes, input.placed.log_offset);
        prop_assert!(is_whole || !is_accepted, "cut at {}", cut);
    }

    #[test]
    fn a_flipped_bit_in_length_place_or_body_is_noticed(
        input in inputs(),
        bit in any::<Index>(),
    ) {
        let mut bytes = input.record();
        let view = view(&bytes);
        let width = if view.version() == Version::V1 { 1 } else { 2 };
        let behind_body = width + view.topic().len() + 2 + view.property_string().len();
        let body = bytes.len() - behind_body;
        let covered: Vec<usize> =
            (0..8).chain(28..36).chain(body - input.body.len() - 4..body).collect();
        let bit = bit.index(covered.len() * 8);
        bytes[covered[bit / 8]] ^= 1 << (bit % 8);
        prop_assert!(!is_accepted(&bytes, input.placed.log_offset), "bit {} passed", bit);
    }

    #[test]
    fn a_flipped_bit_anywhere_in_a_protected_record_is_noticed(
        input in inputs(),
        bit in any::<Index>(),
    ) {
        let input = Input { protection: Protection::Record, ..input };
        let mut bytes = input.record();
        let bit = bit.index(bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(!is_accepted(&bytes, input.placed.log_offset), "bit {} passed", bit);
    }

    #[test]
    fn garbage_in_a_protected_record_is_refused_or_the_record_is_as_before(
        input in inputs(),
        garbage in prop::collection::vec(any::<u8>(), 1..60),
        at in any::<Index>(),
    ) {
        let input = Input { protection: Protection::Record, ..input };
        let whole = input.record();
        let at = at.index(whole.len());
        let len = garbage.len().min(whole.len() - at);
        let mut bytes = whole.clone();
        bytes[at..at + len].copy_from_slice(&garbage[..len]);
        let is_accepted = is_accepted(&bytes, input.placed.log_offset);
        prop_assert_eq!(is_accepted, bytes == whole);
    }

    #[test]
    fn any_bytes_give_an_answer(
        bytes in prop::collection::vec(any::<u8>(), 0..400),
        at in any::<u64>(),
        rest in any::<u64>(),
        magic in 0_usize..4,
        protection in protections(),
    ) {
        let mut bytes = bytes;
        let magics = [0xDAA3_20A7_u32, 0xDAA3_20AB, 0xCBD4_3194];
        if let (Some(code), Some(magic)) = (bytes.get_mut(4..8), magics.get(magic)) {
            code.copy_from_slice(&magic.to_be_bytes());
        }
        let _ = decode(&bytes);
        let _ = Batch::new(&bytes).map(|batch| batch.members().count());
        match scan_step(&bytes, LogOffset::new(at), rest, protection) {
            Step::More { needed } => {
                prop_assert!(length_u64(bytes.len()) < needed && needed <= rest);
            }
            Step::Record(_) | Step::Blank | Step::Invalid(_) => {}
        }
        for property in Properties::new(&bytes) {
            prop_assert!(!property.name.is_empty() && !property.value.is_empty());
        }
    }

    #[test]
    fn members_of_a_batch_are_the_records_that_they_would_be_alone(
        input in inputs(),
        members in batches(),
    ) {
        let bytes = client_encoded(&members);
        let batch = Batch::new(&bytes).unwrap();
        let read: Vec<_> = batch
            .members()
            .map(|member| (member.flag, member.properties.to_vec(), member.body.to_vec()))
            .collect();
        prop_assert_eq!(&read, &members);

        let sys_flag = SysFlag::new(input.numbers.2 & !0x8C);
        let shared = Message { sys_flag, inner_base: None, properties: b"", ..input.message() };
        let mut out = vec![0xEE; 1 << 14];
        let encoded = encode_batch(input.to(), &shared, &batch, input.protection, &mut out);
        let alone = members.iter().map(|(flag, properties, body)| Message {
            flag: *flag,
            prepared_transaction_offset: 0,
            properties,
            body,
            ..shared
        });
        let mut expect = Vec::new();
        let mut placed = input.placed;
        for message in alone {
            let mut record = vec![0xEE; 4096];
            let encoded = encode(input.to(), &message, input.protection, &mut record);
            if let Err(error) = &encoded {
                let expect = [EncodeError::EndsInZero, EncodeError::PropertiesNotUtf8];
                prop_assert!(expect.contains(error) && input.protection == Protection::Body);
                return Ok(());
            }
            let record = encoded.unwrap().place(&placed);
            placed.log_offset = LogOffset::new(placed.log_offset.get() + length_u64(record.len()));
            placed.queue_offset = QueueOffset::new(placed.queue_offset.get().wrapping_add(1));
            expect.extend_from_slice(record);
        }
        prop_assert!(encoded.unwrap().place(&input.placed) == expect);
    }

    #[test]
    fn a_cut_batch_is_refused_or_has_fewer_whole_members(
        members in batches(),
        cut in any::<Index>(),
    ) {
        let bytes = client_encoded(&members);
        let cut = cut.index(bytes.len());
        if let Ok(batch) = Batch::new(&bytes[..cut]) {
            let whole = usize::try_from(batch.count()).unwrap();
            prop_assert!(whole < members.len());
            prop_assert_eq!(client_encoded(&members[..whole]).len(), cut);
        }
    }

    #[test]
    fn placement_never_leaves_less_than_a_blank(
        size in SegmentSize::MIN..=1 << 20,
        end in 0_u64..1 << 40,
        len in 1_u32..1 << 20,
    ) {
        let size = SegmentSize::new(size).unwrap();
        // A log never ends within the last seven bytes of a segment.
        let end = LogOffset::new(end);
        prop_assume!(size.get() - size.position_of(end) >= 8);
        let Ok(placement) = place(size, end, len) else {
            prop_assert!(len > size.max_record_len());
            return Ok(());
        };
        let at = match placement {
            Placement::Fits { at } => {
                prop_assert_eq!(at, end);
                at
            }
            Placement::Roll { blank_at, blank_len, at } => {
                prop_assert_eq!(blank_at, end);
                prop_assert_eq!(end.checked_add(u64::from(blank_len)), Some(at));
                prop_assert_eq!(size.position_of(at), 0);
                at
            }
        };
        let last = at.get() + u64::from(len) - 1;
        let free = size.get() - size.position_of(LogOffset::new(last)) - 1;
        prop_assert!(usize::try_from(free).unwrap() >= BLANK_LEN);
        prop_assert_eq!(size.start_of(at), size.start_of(LogOffset::new(last)));
    }

    #[test]
    fn names_round_trip_and_sort_as_numbers(a in any::<u64>(), b in any::<u64>()) {
        let (a, b) = (LogOffset::new(a), LogOffset::new(b));
        prop_assert_eq!(SegmentName::parse(SegmentName::new(a).as_str()), Some(a));
        let names = (SegmentName::new(a), SegmentName::new(b));
        prop_assert_eq!(a.cmp(&b), names.0.as_str().cmp(names.1.as_str()));
    }
}
