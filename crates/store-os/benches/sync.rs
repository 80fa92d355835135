//! Time of one append that waits for its sync, by who runs the sync, and the last part of it: from
//! the sync's end to the producer that it wakes.

use std::future::Future;
use std::hint::black_box;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use group_commit::GroupCommit;
use store_core::{Message, Nanos, QueueId, SegmentSize, Wait};
use store_os::{FlushEvent, Io, Log, LogOptions, Observer, Preallocate, Ticket, monotonic};

/// A log of group commit in a directory beside the build, not in a file system of memory.
fn with_log(io: Io, observer: Option<Arc<dyn Observer>>, bench: impl FnOnce(&Log)) {
    let options = LogOptions {
        segment_size: SegmentSize::new(64 << 20).expect("64 MiB"),
        io: Some(io),
        preallocate: Preallocate::Zero,
        prefault: true,
        observer,
        ..LogOptions::default()
    };
    let root = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let log = Log::open(root.path(), options, GroupCommit::default()).expect("a log");
    bench(&log);
    log.abandon();
}

/// From the call of append to the acknowledgement, one producer.
fn appends(criterion: &mut Criterion) {
    for (name, io, leads) in [
        ("led", Io::Positioned, true),
        ("handed-over", Io::Positioned, false),
        ("led-mapped", Io::Mapped, true),
    ] {
        let mut group = criterion.benchmark_group(format!("sync/{name}"));
        for body_len in [128_u64, 1024, 16 << 10] {
            let body = vec![0xA5; usize::try_from(body_len).expect("small")];
            let message = Message { body: &body, ..Message::default() };
            group.throughput(Throughput::Bytes(body_len));
            with_log(io, None, |log| {
                let queue = log.queue(b"bench-topic", QueueId::new(0)).expect("a valid topic");
                group.bench_function(format!("{body_len}B"), |bencher| {
                    bencher.iter(|| {
                        let acked = if leads {
                            log.append_and_lead(&queue, &message, Wait::Yes)
                        } else {
                            log.append_and_wait(&queue, &message, Wait::Yes)
                        };
                        black_box(acked.expect("placed").expect("acknowledged"))
                    });
                });
            });
        }
        group.finish();
    }
}

/// When the latest sync had ended, right before anyone was told.
#[derive(Debug, Default)]
struct Ended(AtomicU64);

impl Observer for Ended {
    fn on_flush(&self, event: &FlushEvent) {
        self.0.store(event.ended.get(), Ordering::Release);
    }
}

/// From the end of the sync to the moment at which the ticket's waiter runs again: a thread that
/// blocks, or one that awaits the ticket as a future and is unparked by its waker.
fn wake_ups(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("wake-up");
    let blocks: fn(Ticket) = |ticket| _ = ticket.wait().expect("acknowledged");
    let awaits: fn(Ticket) = |ticket| _ = block_on(ticket).expect("acknowledged");
    for (name, wait) in [("blocked", blocks), ("awaited", awaits)] {
        let ended = Arc::new(Ended::default());
        let observer: Arc<dyn Observer> = Arc::<Ended>::clone(&ended);
        with_log(Io::Positioned, Some(observer), |log| {
            let queue = log.queue(b"bench-topic", QueueId::new(0)).expect("a valid topic");
            let message = Message { body: &[0xA5; 1024], ..Message::default() };
            group.bench_function(name, |bencher| {
                bencher.iter_custom(|count| {
                    let mut sum = 0;
                    for _ in 0..count {
                        wait(log.append(&queue, &message, Wait::Yes).expect("placed"));
                        let woken = monotonic();
                        sum += woken.since(Nanos::new(ended.0.load(Ordering::Acquire))).get();
                    }
                    Duration::from_nanos(sum)
                });
            });
        });
    }
    group.finish();
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Pending => thread::park(),
            Poll::Ready(output) => return output,
        }
    }
}

criterion_group!(benches, appends, wake_ups);
criterion_main!(benches);
