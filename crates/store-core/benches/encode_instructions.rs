//! Exact instruction counts of encoding: gungraun runs this under valgrind's callgrind.
//!
//! Without valgrind and gungraun-runner `cargo xtask ci` says so and leaves it out.
#![expect(missing_docs, reason = "gungraun's macros make items without docs")]

use std::hint::black_box;

use gungraun::{library_benchmark, library_benchmark_group, main};
use store_core::{Destination, Message, Placed, Protection, QueueId, Topic, encode};

/// Body and buffer, made outside the count.
fn buffers(body_len: usize) -> (Vec<u8>, Vec<u8>) {
    (vec![0xA5; body_len], vec![0; body_len + 256])
}

#[library_benchmark]
#[bench::body_128(buffers(128))]
#[bench::body_1024(buffers(1024))]
fn encode_record((body, mut out): (Vec<u8>, Vec<u8>)) -> (Vec<u8>, Vec<u8>) {
    let topic = Topic::new(b"bench-topic").expect("eleven bytes of ASCII");
    let to = Destination { topic, queue_id: QueueId::new(3) };
    let message = Message { body: &body, ..Message::default() };
    let record = encode(to, black_box(&message), Protection::Record, &mut out).expect("it fits");
    black_box(record.place(&Placed::default()));
    (body, out)
}

library_benchmark_group!(name = encoding, benchmarks = encode_record);
main!(library_benchmark_groups = encoding);
