//! Exact instruction counts of encoding: gungraun runs this under valgrind's callgrind.
//!
//! Without valgrind and gungraun-runner `cargo xtask ci` says so and leaves it out.
#![expect(missing_docs, reason = "gungraun's macros make items without docs")]

use std::hint::black_box;

use gungraun::{library_benchmark, library_benchmark_group, main};
use store_core::{Destination, Message, Placed, Protection, QueueId, Topic, encode};

/// Body and buffer, made outside the count, and what the checksums cover.
fn inputs(body_len: usize, protection: Protection) -> (Vec<u8>, Vec<u8>, Protection) {
    (vec![0xA5; body_len], vec![0; body_len + 256], protection)
}

// All that an append does outside the lock.
#[library_benchmark]
#[bench::body_128(inputs(128, Protection::Record))]
#[bench::body_1024(inputs(1024, Protection::Record))]
#[bench::body_1024_without_crc_property(inputs(1024, Protection::Body))]
fn encode_record((body, mut out, protection): (Vec<u8>, Vec<u8>, Protection)) -> [Vec<u8>; 2] {
    let record = encode(to(), black_box(&message(&body)), protection, &mut out).expect("it fits");
    black_box(record.len());
    [body, out]
}

// The same, and what it does to the record under the lock.
#[library_benchmark]
#[bench::body_128(inputs(128, Protection::Record))]
#[bench::body_1024(inputs(1024, Protection::Record))]
#[bench::body_1024_without_crc_property(inputs(1024, Protection::Body))]
fn encode_and_place((body, mut out, protection): (Vec<u8>, Vec<u8>, Protection)) -> [Vec<u8>; 2] {
    let record = encode(to(), black_box(&message(&body)), protection, &mut out).expect("it fits");
    black_box(record.place(&Placed::default()));
    [body, out]
}

fn to() -> Destination<'static> {
    let topic = Topic::new(b"bench-topic").expect("eleven bytes of ASCII");
    Destination { topic, queue_id: QueueId::new(3) }
}

fn message(body: &[u8]) -> Message<'_> {
    Message { body, properties: b"TAGS\x01bench\x02", ..Message::default() }
}

library_benchmark_group!(name = encoding, benchmarks = [encode_record, encode_and_place]);
main!(library_benchmark_groups = encoding);
