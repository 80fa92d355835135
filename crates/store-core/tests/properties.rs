//! Properties that hold for all inputs: what is encoded is decoded, and nothing else is accepted.
#![expect(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

use std::net::IpAddr;

use proptest::prelude::*;
use store_core::{
    BLANK_LEN, Destination, Frame, Host, LogOffset, Message, Placed, Placement, Properties,
    Protection, QueueId, QueueOffset, SegmentName, SegmentSize, Step, SysFlag, TimestampMs, Topic,
    decode, encode, place, scan_step,
};

fn hosts() -> impl Strategy<Value = Host> {
    let ip = prop_oneof![
        any::<[u8; 4]>().prop_map(IpAddr::from),
        any::<[u8; 16]>().prop_map(IpAddr::from),
    ];
    (ip, any::<u16>()).prop_map(|(ip, port)| Host::new(ip, port))
}

/// Everything that goes into a record, owned.
#[derive(Clone, Debug)]
struct Input {
    topic: String,
    numbers: (i32, i32, u32, i64, i32, i64),
    hosts: (Host, Host),
    properties: Vec<u8>,
    body: Vec<u8>,
    placed: Placed,
}

fn inputs() -> impl Strategy<Value = Input> {
    let placed = (0..=i64::MAX.unsigned_abs(), any::<u64>(), any::<i64>()).prop_map(
        |(log_offset, queue_offset, store_timestamp)| Placed {
            log_offset: LogOffset::new(log_offset),
            queue_offset: QueueOffset::new(queue_offset),
            store_timestamp: TimestampMs::new(store_timestamp),
        },
    );
    (
        "[a-zA-Z%_é标]{1,31}",
        any::<(i32, i32, u32, i64, i32, i64)>(),
        (hosts(), hosts()),
        prop::collection::vec(1_u8.., 0..300),
        prop::collection::vec(any::<u8>(), 0..2000),
        placed,
    )
        .prop_map(|(topic, numbers, hosts, properties, body, placed)| Input {
            topic,
            numbers,
            hosts,
            properties,
            body,
            placed,
        })
}

fn record(input: &Input) -> Vec<u8> {
    let (queue_id, flag, sys_flag, born, reconsume_times, prepared) = input.numbers;
    let message = Message {
        flag,
        sys_flag: SysFlag::new(sys_flag),
        born_timestamp: TimestampMs::new(born),
        born_host: input.hosts.0,
        store_host: input.hosts.1,
        reconsume_times,
        prepared_transaction_offset: prepared,
        inner_base: None,
        properties: &input.properties,
        body: &input.body,
    };
    let topic = Topic::new(input.topic.as_bytes()).unwrap();
    let to = Destination { topic, queue_id: QueueId::new(queue_id) };
    let mut out = vec![0; 4096];
    encode(to, &message, Protection::Body, &mut out).unwrap().place(&input.placed).to_vec()
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded(input in inputs()) {
        let bytes = record(&input);
        let Ok(Frame::Record(view)) = decode(&bytes) else { panic!("{:?}", decode(&bytes)) };
        let hosts = SysFlag::BORN_HOST_IPV6 | SysFlag::STORE_HOST_IPV6;
        prop_assert_eq!(view.as_bytes(), &bytes[..]);
        prop_assert_eq!(view.topic(), input.topic.as_bytes());
        prop_assert_eq!(view.queue_id().get(), input.numbers.0);
        prop_assert_eq!(view.flag(), input.numbers.1);
        prop_assert_eq!(view.sys_flag().bits() & !hosts, input.numbers.2 & !hosts);
        prop_assert_eq!(view.born_timestamp().get(), input.numbers.3);
        prop_assert_eq!(view.reconsume_times(), input.numbers.4);
        prop_assert_eq!(view.prepared_transaction_offset(), input.numbers.5);
        prop_assert_eq!((view.born_host(), view.store_host()), input.hosts);
        prop_assert_eq!(view.property_string(), &input.properties[..]);
        prop_assert_eq!(view.body(), &input.body[..]);
        prop_assert_eq!(view.log_offset(), input.placed.log_offset);
        prop_assert_eq!(view.queue_offset(), input.placed.queue_offset);
        prop_assert_eq!(view.store_timestamp(), input.placed.store_timestamp);
        prop_assert!(view.body_crc_matches());
    }

    #[test]
    fn a_cut_record_is_no_record(input in inputs(), cut in any::<prop::sample::Index>()) {
        let bytes = record(&input);
        prop_assert!(decode(&bytes[..cut.index(bytes.len())]).is_err());
    }

    #[test]
    fn a_flipped_bit_in_length_place_or_body_is_noticed(
        input in inputs(),
        bit in any::<prop::sample::Index>(),
    ) {
        let mut bytes = record(&input);
        let at = input.placed.log_offset;
        let body = bytes.len() - input.properties.len() - 2 - input.topic.len() - 1;
        let covered: Vec<usize> =
            (0..8).chain(28..36).chain(body - input.body.len() - 4..body).collect();
        let bit = bit.index(covered.len() * 8);
        bytes[covered[bit / 8]] ^= 1 << (bit % 8);
        let step = scan_step(&bytes, at, 1 << 20, Protection::Record);
        prop_assert!(!matches!(step, Step::Record(_)), "bit {} passed: {:?}", bit, step);
    }

    #[test]
    fn any_bytes_give_an_answer(
        bytes in prop::collection::vec(any::<u8>(), 0..400),
        at in any::<u64>(),
        rest in any::<u64>(),
        magic in any::<bool>(),
    ) {
        let mut bytes = bytes;
        if let Some(code) = bytes.get_mut(4..8).filter(|_| magic) {
            code.copy_from_slice(&[0xDA, 0xA3, 0x20, 0xA7]);
        }
        let _ = decode(&bytes);
        let _ = scan_step(&bytes, LogOffset::new(at), rest, Protection::Record);
        for property in Properties::new(&bytes) {
            prop_assert!(!property.name.is_empty() && !property.value.is_empty());
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
