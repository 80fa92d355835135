//! Exact instruction counts of what is done for each record: gungraun runs this under valgrind's
//! callgrind, and fails where a count is above its limit.
//!
//! A limit is a tenth above what was counted, for other compilers and processors; who makes a count
//! lower, lowers its limit. Valgrind knows no AVX-512, so the checksum of 1 KiB counts 500 here.
//! Without valgrind and gungraun-runner `cargo xtask ci` says so and leaves it out.
#![expect(missing_docs, reason = "gungraun's macros make items without docs")]

use std::hint::black_box;

use gungraun::{
    Callgrind, EventKind, LibraryBenchmarkConfig, library_benchmark, library_benchmark_group, main,
};
use store_core::{
    Batch, BatchMember, Destination, LogOffset, Message, Placed, Protection, QueueId, SegmentSize,
    Topic, crc32, decode, encode, encode_batch, place, scan_step,
};

fn at_most(instructions: u64) -> LibraryBenchmarkConfig {
    let mut callgrind = Callgrind::default();
    callgrind.hard_limits([(EventKind::Ir, instructions)]);
    let mut config = LibraryBenchmarkConfig::default();
    config.tool(callgrind);
    config
}

/// Body and buffer, made outside the count, and what the checksums cover.
fn inputs(body_len: usize, protection: Protection) -> (Vec<u8>, Vec<u8>, Protection) {
    // The first checksum of a process also finds out what the processor can.
    black_box(crc32(&[1; 2048]));
    (vec![0xA5; body_len], vec![0; body_len + 256], protection)
}

/// A record with its place, as it stands in the log.
fn record(body_len: usize) -> Vec<u8> {
    let (body, mut out, protection) = inputs(body_len, Protection::Record);
    let record = encode(to(), &message(&body), protection, &mut out).expect("it fits");
    record.place(&Placed::default()).to_vec()
}

// All that an append does outside the lock.
#[library_benchmark]
#[bench::body_128(args = (inputs(128, Protection::Record)), config = at_most(690))]
#[bench::body_1024(args = (inputs(1024, Protection::Record)), config = at_most(1250))]
#[bench::body_1024_without_crc_property(
    args = (inputs(1024, Protection::Body)),
    config = at_most(1206)
)]
fn encode_record((body, mut out, protection): (Vec<u8>, Vec<u8>, Protection)) -> [Vec<u8>; 2] {
    let record = encode(to(), black_box(&message(&body)), protection, &mut out).expect("it fits");
    black_box(record.len());
    [body, out]
}

// The same, and what it does to the record under the lock.
#[library_benchmark]
#[bench::body_128(args = (inputs(128, Protection::Record)), config = at_most(1100))]
#[bench::body_1024(args = (inputs(1024, Protection::Record)), config = at_most(2106))]
#[bench::body_1024_without_crc_property(
    args = (inputs(1024, Protection::Body)),
    config = at_most(1251)
)]
fn encode_and_place((body, mut out, protection): (Vec<u8>, Vec<u8>, Protection)) -> [Vec<u8>; 2] {
    let record = encode(to(), black_box(&message(&body)), protection, &mut out).expect("it fits");
    black_box(record.place(&Placed::default()));
    [body, out]
}

#[library_benchmark]
#[bench::body_1024(args = (record(1024)), config = at_most(205))]
fn decode_record(bytes: Vec<u8>) -> Vec<u8> {
    black_box(decode(black_box(&bytes))).expect("a record");
    bytes
}

// What recovery does for each record: decode, and every checksum.
#[library_benchmark]
#[bench::body_1024(args = (record(1024)), config = at_most(1960))]
fn scan_record(bytes: Vec<u8>) -> Vec<u8> {
    let rest = 1 << 20;
    black_box(scan_step(black_box(&bytes), LogOffset::ZERO, rest, Protection::Record));
    bytes
}

// Eight messages of 128 B that were sent together.
#[library_benchmark]
#[bench::eight_of_128(args = (batch(8, 128)), config = at_most(11_453))]
fn encode_records_of_batch((members, mut out): (Vec<u8>, Vec<u8>)) -> [Vec<u8>; 2] {
    let batch = Batch::new(black_box(&members)).expect("a batch");
    let records = encode_batch(to(), &message(&[]), &batch, Protection::Record, &mut out);
    black_box(records.expect("it fits").len());
    [members, out]
}

#[library_benchmark]
#[bench::fits(args = (LogOffset::new(5000), 1100), config = at_most(50))]
#[bench::rolls(args = (LogOffset::new((1 << 20) - 500), 1100), config = at_most(50))]
fn place_record(end: LogOffset, len: u32) {
    let size = SegmentSize::new(1 << 20).expect("1 MiB");
    let _ = black_box(place(black_box(size), black_box(end), black_box(len)));
}

/// Messages as a client sends them together, and a buffer for their records.
fn batch(count: usize, body_len: usize) -> (Vec<u8>, Vec<u8>) {
    let (body, record, _) = inputs(body_len, Protection::Record);
    let member = BatchMember { flag: 0, properties: b"TAGS\x01bench\x02", body: &body };
    let mut members = vec![0; count * member.encoded_len()];
    for place in members.chunks_mut(member.encoded_len()) {
        member.encode(place).expect("it fits");
    }
    (members, vec![0; count * record.len()])
}

fn to() -> Destination<'static> {
    let topic = Topic::new(b"bench-topic").expect("eleven bytes of ASCII");
    Destination { topic, queue_id: QueueId::new(3) }
}

fn message(body: &[u8]) -> Message<'_> {
    Message { body, properties: b"TAGS\x01bench\x02", ..Message::default() }
}

library_benchmark_group!(
    name = records,
    benchmarks = [
        encode_record,
        encode_and_place,
        encode_records_of_batch,
        decode_record,
        scan_record,
        place_record
    ]
);
main!(library_benchmark_groups = records);
