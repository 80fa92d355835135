//! Time of one append on real files: asynchronous (the CPU's part alone) and synchronous (a sync).

use std::hint::black_box;

use commit_realtime::CommitRealtime;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use flush_realtime::FlushRealtime;
use group_commit::GroupCommit;
use store_core::{FlushStrategy, Message, QueueId, SegmentSize, Wait};
use store_os::{Io, Log, LogOptions, Preallocate};

/// Appends under one strategy, in a directory beside the build, not in a file system of memory.
fn append(
    criterion: &mut Criterion,
    name: &str,
    options: &LogOptions,
    strategy: &(impl FlushStrategy + Clone + Send + 'static),
) {
    let mut group = criterion.benchmark_group(format!("append/{name}"));
    for body_len in [128_u64, 1024] {
        let root = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        let log = Log::open(root.path(), options.clone(), strategy.clone()).expect("a log");
        let queue = log.queue(b"bench-topic", QueueId::new(0)).expect("a valid topic");
        let body = vec![0xA5; usize::try_from(body_len).expect("small")];
        let message = Message { body: &body, ..Message::default() };
        group.throughput(Throughput::Bytes(body_len));
        group.bench_function(format!("{body_len}B"), |bencher| {
            bencher.iter(|| {
                let acked = log.append_and_wait(&queue, &message, Wait::Yes).expect("placed");
                black_box(acked.expect("acknowledged"))
            });
        });
        log.abandon();
    }
    group.finish();
}

fn all(criterion: &mut Criterion) {
    let segment_size = SegmentSize::new(64 << 20).expect("64 MiB");
    let mapped = LogOptions { segment_size, prefault: true, ..LogOptions::default() };
    let positioned = LogOptions { io: Some(Io::Positioned), ..mapped.clone() };
    let zeroed = LogOptions { preallocate: Preallocate::Zero, ..positioned.clone() };
    append(criterion, "flush-realtime", &mapped, &FlushRealtime::default());
    append(criterion, "commit-realtime", &positioned, &CommitRealtime::default());
    append(criterion, "group-commit", &zeroed, &GroupCommit::default());
}

criterion_group!(benches, all);
criterion_main!(benches);
