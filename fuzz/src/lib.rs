//! What must hold for any bytes: the body of each fuzz target, a plain function that panics where
//! something does not hold.
//!
//! The fuzzer calls them, and `store-core/tests/fuzz_bodies.rs` runs the same code on seeded bytes
//! with a stable compiler. Checksums keep random bytes out, so most bodies first make something
//! valid out of the data, and then break it as the rest of the data says.

mod choices;

use choices::{Choices, Input};
use store_core::{
    Batch, BatchMember, Checkpoint, Destination, Frame, LogOffset, MAX_PROPERTIES_LEN, Message,
    PROBE_LEN, Placed, Placement, Properties, Protection, QueueId, QueueOffset, RecordView,
    SegmentSize, Step, SysFlag, TimestampMs, Topic, crc32, decode, encode, encode_batch,
    encode_blank, length_u64, place, record_at, scan_step,
};

/// Any bytes are a record or refused; an accepted record is encoded to the same bytes again; one
/// flipped bit of a protected record is noticed.
pub fn record(data: &[u8]) {
    if let Ok(Frame::Record(view)) = decode(data) {
        check_view(&view, data);
    }
    let mut choices = Choices { rest: data };
    let (protection, placed) = (choices.protection(), choices.placed());
    let input = Input::choose(&mut choices);
    let Some(whole) = input.record(protection, &placed) else { return };
    let Ok(Frame::Record(view)) = decode(&whole) else { panic!("{:?}", decode(&whole)) };
    check_view(&view, &whole);
    input.assert_is(&view, protection, &placed);
    check_step(&whole, placed.log_offset, REST);

    let mut flipped = whole.clone();
    let bit = choices.below(whole.len() * 8);
    flipped[bit / 8] ^= 1 << (bit % 8);
    let step = scan_step(&flipped, placed.log_offset, REST, Protection::Record);
    let is_noticed = !matches!(step, Step::Record(_));
    assert!(is_noticed || protection == Protection::Body, "bit {bit} passed");

    let mut mutant = whole;
    choices.mutate(&mut mutant);
    check_step(&mutant, placed.log_offset, REST);
    if let Ok(Frame::Record(view)) = decode(&mutant) {
        check_view(&view, &mutant);
    }
}

/// The pairs of a property string are those that splitting by hand finds, and they survive being
/// stored; the store adds and removes what it should and nothing else.
pub fn properties(data: &[u8]) {
    let pairs = pairs_of(data);
    assert_eq!(pairs, pairs_by_hand(data));
    for (name, value) in &pairs {
        assert!(!name.is_empty() && !value.is_empty());
        assert!(!name.contains(&1) && !name.contains(&2) && !value.contains(&2));
        let last = pairs.iter().rfind(|pair| pair.0 == *name).map(|pair| pair.1);
        assert_eq!(Properties::new(data).last(name), last);
    }
    let joined: Vec<u8> =
        pairs.iter().flat_map(|(name, value)| [*name, &[1], *value, &[2]].concat()).collect();
    assert_eq!(pairs_of(&joined), pairs);

    let message = Message { properties: data, ..Message::default() };
    let topic = Topic::new(b"T").expect("one letter");
    let to = Destination { topic, queue_id: QueueId::new(0) };
    for protection in PROTECTIONS {
        let mut out = vec![0; 256 + data.len()];
        let expect = stored_properties(data, None, protection);
        let Ok(encoded) = encode(to, &message, protection, &mut out) else {
            let is_text = std::str::from_utf8(&expect).is_ok() && !expect.ends_with(&[0]);
            let is_plain = protection == Protection::Body;
            assert!(expect.len() > MAX_PROPERTIES_LEN || (is_plain && !is_text));
            continue;
        };
        let record = encoded.place(&Placed::default());
        let Ok(Frame::Record(view)) = decode(record) else { panic!("{:?}", decode(record)) };
        check_view(&view, record);
        assert_eq!(without_digits(view.property_string(), protection), expect);
        let stored = pairs_of(view.property_string());
        if protection == Protection::Body {
            assert_eq!(stored, pairs);
            continue;
        }
        let (checksums, others): (Vec<_>, Vec<_>) =
            stored.into_iter().partition(|pair| pair.0 == CRC_NAME);
        let brought: Vec<_> = pairs.iter().filter(|pair| pair.0 != CRC_NAME).copied().collect();
        assert_eq!(others, brought);
        assert_eq!(checksums.len(), 1);
    }
}

/// Records placed one behind the other are found again; a scan of anything goes on and ends; a
/// flipped bit costs no record but its own.
pub fn segment_scan(data: &[u8]) {
    let mut choices = Choices { rest: data };
    let at = LogOffset::new(choices.number());
    let rest = choices.number() % (2 * length_u64(data.len()) + 1);
    check_step(choices.rest, at, rest);

    let (segment, records) = Segment::choose(&mut choices);
    assert_eq!(segment.scan(Protection::Body), records);
    // A property that only looks like the checksum is taken for a damaged one.
    let verified = segment.scan(Protection::Record);
    assert!(verified == records || segment.protection == Protection::Body);
    assert_eq!(verified, records[..verified.len()]);
    if records.is_empty() {
        return;
    }
    let index = choices.below(records.len());
    let (start, end) = records[index];
    let bit = choices.below(8 * (end - start));
    let mut flipped = segment.clone();
    flipped.bytes[start + bit / 8] ^= 1 << (bit % 8);
    let found = flipped.scan(segment.protection);
    assert_eq!(found[..index], records[..index], "records before the flipped bit are lost");
    if segment.protection == Protection::Record {
        assert_eq!(found.len(), index, "bit {bit} of the record at {start} passed");
        let found = flipped.search();
        for record in &records {
            assert_eq!(found.contains(record), *record != (start, end), "record {record:?}");
        }
    }

    let mut mutant = segment;
    choices.mutate(&mut mutant.bytes);
    mutant.bytes.resize(SEGMENT_LEN, 0);
    for protection in PROTECTIONS {
        mutant.scan(protection);
    }
}

/// Any 40 bytes are a checkpoint and come back; the safe times are within their bounds.
pub fn checkpoint(data: &[u8]) {
    let Ok(checkpoint) = Checkpoint::decode(data) else {
        assert!(data.len() < Checkpoint::LEN);
        return;
    };
    assert_eq!(checkpoint.encode(), data[..Checkpoint::LEN]);
    let (zero, safe) = (TimestampMs::new(0), checkpoint.min_timestamp());
    assert!(zero <= safe);
    assert!(safe <= checkpoint.physic_msg_timestamp.max(zero));
    assert!(safe <= checkpoint.logics_msg_timestamp.max(zero));
    let with_index = checkpoint.min_timestamp_with_index();
    assert!(with_index <= safe && with_index <= checkpoint.index_msg_timestamp);
}

/// Any bytes are a batch or refused; members are encoded to the same bytes again, and become
/// records that follow each other.
pub fn batch(data: &[u8]) {
    check_batch(data, data);
    let mut choices = Choices { rest: data };
    let mut bytes = Vec::new();
    for _ in 0..=choices.below(4) {
        let flag = choices.int();
        let member = BatchMember { flag, properties: choices.bytes(60), body: choices.bytes(200) };
        let mut out = vec![0; member.encoded_len()];
        assert_eq!(member.encode(&mut out), Ok(out.len()));
        bytes.extend(out);
    }
    assert!(Batch::new(&bytes).is_ok());
    check_batch(&bytes, choices.rest);
    choices.mutate(&mut bytes);
    check_batch(&bytes, choices.rest);
}

fn check_batch(bytes: &[u8], rest: &[u8]) {
    let Ok(batch) = Batch::new(bytes) else { return };
    let members: Vec<_> = batch.members().collect();
    assert_eq!(u64::from(batch.count()), length_u64(members.len()));
    let mut again = vec![0; bytes.len()];
    let mut end = 0;
    for member in &members {
        let start = end;
        end += member.encode(&mut again[start..]).expect("it came from such bytes");
        // A client writes zeroes for magic and checksum, and nobody reads them.
        again[start + 4..start + 12].copy_from_slice(&bytes[start + 4..start + 12]);
    }
    assert!(again == bytes && end == bytes.len(), "members are encoded to other bytes");

    let mut choices = Choices { rest };
    let (protection, placed) = (choices.protection(), choices.placed());
    let input = Input::choose(&mut choices);
    let sys_flag = SysFlag::new(input.sys_flag & !(TRANSACTION | INNER_BATCH));
    let message = Message { sys_flag, inner_base: None, ..input.message() };
    let Ok(needed) = batch.encoded_len(input.to(), &message, protection) else { return };
    let mut out = vec![0xEE; usize::try_from(needed).expect("little more than the members")];
    let encoded = encode_batch(input.to(), &message, &batch, protection, &mut out)
        .expect("the buffer has the length asked for");
    assert_eq!(encoded.len(), needed);
    let mut records = &*encoded.place(&placed);
    let mut at = placed.log_offset.get();
    for (index, member) in (0..).zip(&members) {
        let Ok(Frame::Record(view)) = decode(records) else { panic!("{:?}", decode(records)) };
        check_view(&view, records);
        assert_eq!((view.flag(), view.body()), (member.flag, member.body));
        assert_eq!(view.topic(), input.topic.as_bytes());
        assert_eq!(view.log_offset().get(), at);
        assert_eq!(view.queue_offset().get(), placed.queue_offset.get().wrapping_add(index));
        assert_eq!(view.prepared_transaction_offset(), 0);
        assert!(view.body_crc_matches());
        let is_covered = view.record_crc().is_some() && view.record_crc_matches();
        assert!(is_covered || protection == Protection::Body);
        at = at.wrapping_add(u64::from(view.total_size()));
        records = &records[view.as_bytes().len()..];
    }
    assert!(records.is_empty());
}

/// A view lies within the bytes it was decoded from, its fields fill it, and if it has the form
/// that `encode` gives, `encode` gives it again.
fn check_view(view: &RecordView<'_>, decoded: &[u8]) {
    let bytes = view.as_bytes();
    assert_eq!(bytes, &decoded[..bytes.len()]);
    assert_eq!(u64::from(view.total_size()), length_u64(bytes.len()));
    let fields = [view.body(), view.topic(), view.property_string()];
    for field in fields {
        let (inner, outer) = (field.as_ptr_range(), decoded.as_ptr_range());
        assert!(outer.start <= inner.start && inner.end <= outer.end);
    }
    let hosts = view.born_host().encoded_len() + view.store_host().encoded_len();
    let width = if view.version() == store_core::Version::V1 { 1 } else { 2 };
    let filled: usize = fields.iter().map(|field| field.len()).sum();
    assert_eq!(74 + hosts + width + filled, bytes.len());
    assert!(view.message_count() >= 1);

    let string = view.property_string();
    let (own, protection) = match view.record_crc() {
        Some(_) if view.record_crc_matches() => {
            (&string[..string.len() - CRC_LEN], Protection::Record)
        }
        _ => (string, Protection::Body),
    };
    let has_end = own.is_empty() || own.ends_with(&[2]) || protection == Protection::Body;
    let is_kept = match protection {
        Protection::Body => std::str::from_utf8(own).is_ok(),
        Protection::Record => {
            let stored = stored_properties(own, None, protection);
            stored[..stored.len() - CRC_LEN] == *own
        }
    };
    let Ok(topic) = Topic::new(view.topic()) else { return };
    let is_whole = topic.version() == view.version() && view.body_crc() == crc32(view.body());
    if !(has_end && is_kept && is_whole) {
        return;
    }
    let to = Destination { topic, queue_id: view.queue_id() };
    let message = Message {
        flag: view.flag(),
        sys_flag: view.sys_flag(),
        born_timestamp: view.born_timestamp(),
        born_host: view.born_host(),
        store_host: view.store_host(),
        reconsume_times: view.reconsume_times(),
        prepared_transaction_offset: view.prepared_transaction_offset(),
        inner_base: None,
        properties: own,
        body: view.body(),
    };
    let mut out = vec![0xEE; bytes.len()];
    let Ok(encoded) = encode(to, &message, protection, &mut out) else {
        let ends_in_zero = string.last().or(view.topic().last()) == Some(&0);
        assert!(ends_in_zero, "a record that is accepted cannot be encoded");
        return;
    };
    let placed = Placed {
        log_offset: view.log_offset(),
        queue_offset: view.queue_offset(),
        store_timestamp: view.store_timestamp(),
    };
    assert_eq!(encoded.place(&placed), bytes);
}

/// A step tells the truth about the window, and asks for more only where there is more.
fn check_step(window: &[u8], at: LogOffset, rest: u64) {
    for protection in PROTECTIONS {
        match scan_step(window, at, rest, protection) {
            Step::Blank => {
                let rest = u32::try_from(rest).expect("a blank's length has 32 bits");
                assert!(window.starts_with(&encode_blank(rest)));
            }
            Step::Invalid(found) => assert!(!found.to_string().is_empty()),
            Step::More { needed } => assert!(length_u64(window.len()) < needed && needed <= rest),
            Step::Record(view) => {
                check_view(&view, window);
                assert!(length_u64(view.as_bytes().len()) + 8 <= rest);
                assert_eq!(view.log_offset(), at);
                assert!(view.body_crc_matches());
                assert!(view.record_crc_matches() || protection == Protection::Body);
                let probe = window.first_chunk().expect("a record is longer than a probe");
                assert!(record_at(probe, at));
            }
        }
    }
}

/// A segment that records were placed in.
#[derive(Clone)]
struct Segment {
    start: LogOffset,
    bytes: Vec<u8>,
    protection: Protection,
}

impl Segment {
    /// Records up to the segment's end or the data's, and where they begin and end.
    fn choose(choices: &mut Choices<'_>) -> (Self, Vec<(usize, usize)>) {
        let size = SegmentSize::new(length_u64(SEGMENT_LEN)).expect("the smallest size");
        let start = LogOffset::new(choices.number() % (1 << 40) * size.bytes());
        let protection = choices.protection();
        let mut segment = Self { start, bytes: vec![0; SEGMENT_LEN], protection };
        let mut records = Vec::new();
        let mut end = 0;
        while !choices.rest.is_empty() {
            let mut placed = choices.placed();
            placed.log_offset = segment.offset(end);
            let input = Input::choose(choices);
            let Some(record) = input.record(protection, &placed) else { continue };
            let len = u32::try_from(record.len()).expect("a few hundred bytes");
            match place(size, placed.log_offset, len).expect("it fits an empty segment") {
                Placement::Fits { at } => assert_eq!(at, placed.log_offset),
                Placement::Roll { blank_len, .. } => {
                    let blank = encode_blank(blank_len);
                    segment.bytes[end..end + blank.len()].copy_from_slice(&blank);
                    break;
                }
            }
            segment.bytes[end..end + record.len()].copy_from_slice(&record);
            records.push((end, end + record.len()));
            end += record.len();
        }
        (segment, records)
    }

    fn offset(&self, position: usize) -> LogOffset {
        LogOffset::new(self.start.get() + length_u64(position))
    }

    /// Where valid records begin and end, from the start to the first that is none.
    fn scan(&self, protection: Protection) -> Vec<(usize, usize)> {
        let mut records = Vec::new();
        let mut end = 0;
        while let Some(next) = self.record(end, protection) {
            assert!(end < next, "the scan does not go on");
            records.push((end, next));
            end = next;
        }
        records
    }

    /// Every record that stands anywhere, as a search behind a bad one finds them.
    fn search(&self) -> Vec<(usize, usize)> {
        let is_candidate = |position: &usize| {
            let probe = self.bytes[*position..].first_chunk().expect("a probe's length is left");
            record_at(probe, self.offset(*position))
        };
        (0..=SEGMENT_LEN - PROBE_LEN)
            .filter(is_candidate)
            .filter_map(|position| Some((position, self.record(position, Protection::Record)?)))
            .collect()
    }

    /// The end of the record at `position`, read as a scan does: a little first, then what it asks
    /// for.
    fn record(&self, position: usize, protection: Protection) -> Option<usize> {
        let rest = &self.bytes[position..];
        let at = self.offset(position);
        let mut window = PROBE_LEN.min(rest.len());
        loop {
            let step = scan_step(&rest[..window], at, length_u64(rest.len()), protection);
            match step {
                Step::More { needed } => {
                    let needed = usize::try_from(needed).expect("at most the segment's length");
                    assert!(window < needed && needed <= rest.len(), "{needed} after {window}");
                    window = needed;
                }
                Step::Record(view) => return Some(position + view.as_bytes().len()),
                Step::Blank | Step::Invalid(_) => return None,
            }
        }
    }
}

/// What the store makes of a property string, by hand; the checksum's digits are zeroes.
fn stored_properties(
    own: &[u8],
    inner_base: Option<QueueOffset>,
    protection: Protection,
) -> Vec<u8> {
    let mut stored = Vec::new();
    if let Some(base) = inner_base {
        stored.extend(format!("INNER_BASE\u{1}{}\u{2}", base.get()).bytes());
    }
    for piece in own.split_inclusive(|byte| *byte == 2) {
        let is_base = inner_base.is_some() && piece.starts_with(b"INNER_BASE\x01");
        let is_crc = protection == Protection::Record && piece.starts_with(b"__CRC32#\x01");
        if !is_base && !is_crc {
            stored.extend(piece);
        }
    }
    if protection == Protection::Record {
        if !stored.is_empty() && !stored.ends_with(&[2]) {
            stored.push(2);
        }
        stored.extend(b"__CRC32#\x010000000000\x02");
    }
    stored
}

fn without_digits(stored: &[u8], protection: Protection) -> Vec<u8> {
    let mut stored = stored.to_vec();
    if protection == Protection::Record {
        let end = stored.len() - 1;
        stored[end - 10..end].fill(b'0');
    }
    stored
}

fn pairs_of(string: &[u8]) -> Vec<(&[u8], &[u8])> {
    Properties::new(string).map(|pair| (pair.name, pair.value)).collect()
}

fn pairs_by_hand(string: &[u8]) -> Vec<(&[u8], &[u8])> {
    let pair = |piece: &'_ [u8]| {
        let mut parts = piece.splitn(2, |byte| *byte == 1);
        Some((parts.next()?.len(), parts.next()?.len()))
    };
    string
        .split(|byte| *byte == 2)
        .filter_map(|piece| {
            let (name, value) = pair(piece).filter(|lens| lens.0 > 0 && lens.1 > 0)?;
            Some((&piece[..name], &piece[piece.len() - value..]))
        })
        .collect()
}

/// Both, as indexed by a choice.
const PROTECTIONS: [Protection; 2] = [Protection::Body, Protection::Record];
const CRC_NAME: &[u8] = b"__CRC32#";
/// Bytes of the CRC32 property.
const CRC_LEN: usize = 20;
const SEGMENT_LEN: usize = 4096;
/// Bytes left in the segment, where there is none.
const REST: u64 = 1 << 20;
const TRANSACTION: u32 = 0xC;
/// Of a record that is several messages, which no member of a batch is.
const INNER_BATCH: u32 = 0x80;
