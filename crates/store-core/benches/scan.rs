//! Time to go through 1 MiB of records one behind the other: to find where each ends, to decode it,
//! and, as recovery does, to check all it says.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use store_core::{
    Destination, Frame, LogOffset, Message, Placed, Protection, QueueId, Step, Topic, crc32,
    decode, encode, scan_step,
};

/// Records with bodies of `body_len`, each with its place, as they stand in a segment.
fn log(body_len: usize) -> Vec<u8> {
    let body: Vec<u8> = (0..body_len).map(|n| u8::try_from(n % 251).unwrap_or(0)).collect();
    let topic = Topic::new(b"bench-topic").expect("eleven bytes of ASCII");
    let to = Destination { topic, queue_id: QueueId::new(3) };
    let message = Message { body: &body, ..Message::default() };
    let mut record = vec![0; body.len() + 256];
    let mut log = Vec::new();
    while log.len() < LOG_LEN {
        let log_offset = LogOffset::new(store_core::length_u64(log.len()));
        let encoded = encode(to, &message, Protection::Record, &mut record).expect("it fits");
        log.extend_from_slice(encoded.place(&Placed { log_offset, ..Placed::default() }));
    }
    log
}

/// Calls `len_of` for what is left, until nothing is, and gives the number of records.
fn walk(log: &[u8], mut len_of: impl FnMut(&[u8], LogOffset) -> Option<u32>) -> u32 {
    let (mut at, mut count) = (0, 0);
    while at < log.len() {
        let place = LogOffset::new(store_core::length_u64(at));
        let len = len_of(&log[at..], place).expect("a whole record");
        at += usize::try_from(len).expect("a small record");
        count += 1;
    }
    count
}

fn logs(criterion: &mut Criterion) {
    for body_len in [128, 1024, 16 << 10] {
        let log = log(body_len);
        let rest = 1 << 30;
        let mut group = criterion.benchmark_group(format!("log/{body_len}B"));
        group.throughput(Throughput::Bytes(store_core::length_u64(log.len())));
        group.bench_function("crc", |bencher| bencher.iter(|| black_box(crc32(black_box(&log)))));
        group.bench_function("decode", |bencher| {
            bencher.iter(|| {
                walk(black_box(&log), |window, _| match decode(window) {
                    Ok(Frame::Record(view)) => Some(black_box(view).total_size()),
                    _ => None,
                })
            });
        });
        for (name, protection) in [("scan", Protection::Record), ("scan-body", Protection::Body)] {
            group.bench_function(name, |bencher| {
                bencher.iter(|| {
                    walk(black_box(&log), |window, at| {
                        match scan_step(window, at, rest, protection) {
                            Step::Record(view) => Some(view.total_size()),
                            _ => None,
                        }
                    })
                });
            });
        }
        group.finish();
    }
}

const LOG_LEN: usize = 1 << 20;

criterion_group!(benches, logs);
criterion_main!(benches);
