//! Time to encode, place and decode a record, beside a plain copy of the body and its checksum.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use store_core::{
    Destination, LogOffset, Message, Placed, Protection, QueueId, Topic, crc32, decode, encode,
    scan_step,
};

fn records(criterion: &mut Criterion) {
    for body_len in [128_u64, 1024, 16 << 10] {
        let body: Vec<u8> = (0..body_len).map(|n| u8::try_from(n % 251).unwrap_or(0)).collect();
        let topic = Topic::new(b"bench-topic").expect("eleven bytes of ASCII");
        let to = Destination { topic, queue_id: QueueId::new(3) };
        let message = Message { body: &body, ..Message::default() };
        let mut out = vec![0; body.len() + 256];
        let mut group = criterion.benchmark_group(format!("record/{body_len}B"));
        group.throughput(Throughput::Bytes(body_len));
        group.bench_function("copy+crc", |bencher| {
            bencher.iter(|| {
                out[..body.len()].copy_from_slice(black_box(&body));
                black_box(crc32(&body))
            });
        });
        for (name, protection) in
            [("encode", Protection::Record), ("encode-body-crc", Protection::Body)]
        {
            group.bench_function(name, |bencher| {
                bencher.iter(|| {
                    let record =
                        encode(to, black_box(&message), protection, &mut out).expect("it fits");
                    black_box(record.place(&Placed::default()).len())
                });
            });
        }
        let len = message.encoded_len(to, Protection::Record).expect("it fits");
        let len = usize::try_from(len).expect("a small record");
        encode(to, &message, Protection::Record, &mut out)
            .expect("it fits")
            .place(&Placed::default());
        group.bench_function("scan", |bencher| {
            bencher.iter(|| {
                let at = LogOffset::ZERO;
                black_box(scan_step(black_box(&out[..len]), at, 1 << 20, Protection::Record));
            });
        });
        group.bench_function("decode", |bencher| {
            bencher.iter(|| black_box(decode(black_box(&out[..len])).is_ok()));
        });
        group.finish();
    }
}

criterion_group!(benches, records);
criterion_main!(benches);
