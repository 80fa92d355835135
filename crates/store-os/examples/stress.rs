//! Logs under everything at once, for the sanitizers: `stress SECONDS [SEED]`.
//!
//! Opens one log after the other in a temporary directory, each with another strategy and layout;
//! appends from several threads in every way there is, reads and watches meanwhile, closes or
//! abandons it, opens it again and looks for what was acknowledged. How to build it with a
//! sanitizer says `docs/adr/0018-interleavings.md`.
#![expect(clippy::unwrap_used, reason = "a refusal is a finding, and ends the run")]
#![expect(clippy::print_stdout, reason = "a program's figures")]

use std::collections::BTreeMap;
use std::path::Path;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use commit_realtime::CommitRealtime;
use flush_realtime::FlushRealtime;
use group_commit::GroupCommit;
use store_core::{
    AckAt, Batch, BatchMember, FlushStrategy, LogOffset, Message, Nanos, QueueId, SegmentSize, Wait,
};
use store_os::{
    AckError, AppendError, Appended, Io, Log, LogOptions, Preallocate, Queue, Ticket, monotonic,
};

const PRODUCERS: u8 = 5;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let seconds: u64 = arguments.next().map_or(10, |text| text.parse().unwrap());
    let seed = arguments.next().map_or(monotonic().get(), |text| text.parse().unwrap());
    println!("seed {seed}");
    let mut random = Random(seed);
    let directory = tempfile::tempdir().unwrap();
    let end = monotonic().after(Nanos::from_millis(seconds * 1000));
    let mut totals = Totals::default();
    while monotonic() < end {
        let root = directory.path().join(format!("{}", totals.logs));
        match random.below(5) {
            0 => one(&root, GroupCommit::default(), &mut random, &mut totals),
            1 => one(&root, gathering(), &mut random, &mut totals),
            2 => one(&root, hasty(), &mut random, &mut totals),
            3 => one(&root, timed(&mut random), &mut random, &mut totals),
            _ => one(&root, staged(&mut random), &mut random, &mut totals),
        }
        std::fs::remove_dir_all(&root).unwrap();
    }
    println!("{totals:?}");
}

/// Waits long enough for others that some join.
fn gathering() -> GroupCommit {
    let gather = Nanos::from_micros(500);
    let config = group_commit::Config { gather, siblings: 2, ..group_commit::Config::default() };
    GroupCommit::new(config).unwrap()
}

/// Gives up before most syncs are over.
fn hasty() -> GroupCommit {
    let timeout = Nanos::from_micros(200);
    GroupCommit::new(group_commit::Config { timeout, ..group_commit::Config::default() }).unwrap()
}

fn often(random: &mut Random) -> flush_realtime::Config {
    flush_realtime::Config {
        interval: Nanos::from_millis(2),
        thorough_interval: Nanos::from_millis(5),
        timed: random.below(2) == 0,
        wake_on_append: random.below(2) == 0,
        ..flush_realtime::Config::default()
    }
}

fn timed(random: &mut Random) -> FlushRealtime {
    FlushRealtime::new(often(random)).unwrap()
}

fn staged(random: &mut Random) -> CommitRealtime {
    let config = commit_realtime::Config {
        commit_interval: Nanos::from_millis(2),
        commit_thorough_interval: Nanos::from_millis(2),
        wake_on_append: random.below(2) == 0,
        flush: often(random),
        ..commit_realtime::Config::default()
    };
    CommitRealtime::new(config).unwrap()
}

/// What a run did.
#[derive(Debug, Default)]
struct Totals {
    logs: u64,
    abandoned: u64,
    acknowledged: u64,
    durable: u64,
    timed_out: u64,
    let_go: u64,
    refused: u64,
    read: u64,
    records_at_the_end: u64,
}

/// What the threads of one log share.
struct Run<'a> {
    log: &'a Log,
    acks: [AckAt; 2],
    /// The body that was acknowledged as durable, by its record's offset.
    durable: Mutex<BTreeMap<LogOffset, Vec<u8>>>,
    done: AtomicBool,
    acknowledged: AtomicU64,
    timed_out: AtomicU64,
    let_go: AtomicU64,
    refused: AtomicU64,
    read: AtomicU64,
}

/// Opens a log, loads it, ends it and opens it again.
fn one<S: FlushStrategy + Copy + Send + 'static>(
    root: &Path,
    strategy: S,
    random: &mut Random,
    totals: &mut Totals,
) {
    let io = match random.below(3) {
        0 if !strategy.uses(store_core::Lane::Commit) => Some(Io::Mapped),
        1 => Some(Io::Positioned),
        _ => None,
    };
    let options = LogOptions {
        segment_size: SegmentSize::new([1 << 13, 1 << 16, 1 << 20][random.below(3)]).unwrap(),
        io,
        preallocate: [Preallocate::Fallocate, Preallocate::Zero][random.below(2)],
        staging_bytes: 1 << 19,
        max_message_bytes: 5000,
        ..LogOptions::default()
    };
    let log = Log::open(root, options.clone(), strategy).unwrap();
    let run = Run {
        log: &log,
        acks: [Wait::No, Wait::Yes].map(|wait| strategy.ack(wait)),
        durable: Mutex::default(),
        done: AtomicBool::new(false),
        acknowledged: AtomicU64::new(0),
        timed_out: AtomicU64::new(0),
        let_go: AtomicU64::new(0),
        refused: AtomicU64::new(0),
        read: AtomicU64::new(0),
    };
    let until = monotonic().after(Nanos::from_millis(50 + random.below_u64(300)));
    thread::scope(|scope| {
        let producers: Vec<_> = (0..PRODUCERS)
            .map(|producer| {
                let (run, mut random) = (&run, random.fork());
                scope.spawn(move || run.produce(producer, until, &mut random))
            })
            .collect();
        scope.spawn(|| run.watch());
        scope.spawn(|| run.follow());
        for producer in producers {
            producer.join().unwrap();
        }
        run.done.store(true, Ordering::SeqCst);
    });
    totals.logs += 1;
    totals.acknowledged += run.acknowledged.into_inner();
    totals.timed_out += run.timed_out.into_inner();
    totals.let_go += run.let_go.into_inner();
    totals.refused += run.refused.into_inner();
    totals.read += run.read.into_inner();
    let durable = run.durable.into_inner().unwrap();
    totals.durable += store_core::length_u64(durable.len());
    totals.abandoned += u64::from(end(log, random));
    let log = Log::open(root, options, strategy).unwrap();
    totals.records_at_the_end += assert_kept(&log, durable);
    log.close().unwrap();
}

/// Closes or abandons the log while tickets are waited for; whether it was abandoned.
fn end(log: Log, random: &mut Random) -> bool {
    let queue = log.queue(b"last", QueueId::new(0)).unwrap();
    let message = Message { body: b"last", ..Message::default() };
    let append = || log.append(&queue, &message, Wait::Yes);
    let waiting: Vec<Ticket> = (0..4).map_while(|_| append().ok()).collect();
    let abandons = random.below(3) == 0;
    thread::scope(|scope| {
        for (index, ticket) in (0..).zip(waiting) {
            scope.spawn(move || {
                match if index % 2 == 0 { ticket.wait() } else { block_on(ticket) } {
                    Ok(_) | Err(AckError::FlushTimedOut) => {}
                    Err(AckError::Closed) => assert!(abandons, "a drain acknowledges"),
                    Err(error) => panic!("{error}"),
                }
            });
        }
        if abandons { log.abandon() } else { log.close().unwrap() }
    });
    abandons
}

/// Reads the whole log, and finds every record that was acknowledged as durable; gives the number
/// of records.
fn assert_kept(log: &Log, mut durable: BTreeMap<LogOffset, Vec<u8>>) -> u64 {
    let mut cursor = log.cursor(log.recovery().start);
    let mut records = 0;
    while let Some(record) = cursor.next_record().unwrap() {
        assert_whole(record.body());
        records += 1;
        if let Some(body) = durable.remove(&record.log_offset()) {
            assert_eq!(record.body(), body);
        }
    }
    assert!(durable.is_empty(), "lost: {:?}", durable.keys());
    records
}

/// Every byte of a body is its first, but for the few that are not made by [`Run::produce`].
fn assert_whole(body: &[u8]) {
    assert!(body == b"last" || body.iter().all(|byte| *byte == body[0]));
}

impl Run<'_> {
    fn produce(&self, producer: u8, until: Nanos, random: &mut Random) {
        let queue = self.log.queue(b"stress", QueueId::new(i32::from(producer))).unwrap();
        while monotonic() < until {
            let longest = if random.below(8) == 0 { 5000 } else { 300 };
            let body = vec![producer; 1 + random.below(longest)];
            let wait = if random.below(4) == 0 { Wait::No } else { Wait::Yes };
            let message = Message { body: &body, ..Message::default() };
            let told = match random.below(7) {
                0 => self.log.append(&queue, &message, wait).map(Ticket::wait),
                1 => self.log.append(&queue, &message, wait).map(block_on),
                2 => {
                    self.batch(&queue, producer, wait, random);
                    continue;
                }
                3 => self.log.append(&queue, &message, wait).map(|ticket| {
                    if random.below(2) == 0 {
                        drop(ticket);
                        return Err(AckError::Closed);
                    }
                    let mut ticket = pin!(ticket);
                    match ticket.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                        Poll::Ready(outcome) => outcome,
                        Poll::Pending => Err(AckError::Closed),
                    }
                }),
                4 => self.log.append_and_lead(&queue, &message, wait),
                _ => self.log.append_and_wait(&queue, &message, wait),
            };
            self.hear(told, Some(&body), wait);
        }
    }

    fn batch(&self, queue: &Queue, producer: u8, wait: Wait, random: &mut Random) {
        let mut bytes = Vec::new();
        let body = [producer; 40];
        for _ in 0..=random.below(4) {
            let member = BatchMember { flag: 0, properties: b"", body: &body };
            let at = bytes.len();
            bytes.resize(at + member.encoded_len(), 0);
            member.encode(&mut bytes[at..]).unwrap();
        }
        let batch = Batch::new(&bytes).unwrap();
        let stored = self.log.append_batch(queue, &Message::default(), &batch, wait);
        self.hear(stored.map(|stored| stored.ticket.wait()), None, wait);
    }

    /// `body` is what a reopened log must hold if this was durable.
    fn hear(
        &self,
        told: Result<Result<Appended, AckError>, AppendError>,
        body: Option<&[u8]>,
        wait: Wait,
    ) {
        match told {
            Ok(Ok(appended)) => {
                self.assert_promised(&appended, wait);
                self.acknowledged.fetch_add(1, Ordering::Relaxed);
                if let (Some(body), AckAt::Flushed) = (body, self.ack(wait)) {
                    self.durable.lock().unwrap().insert(appended.offset, body.to_vec());
                }
            }
            Ok(Err(AckError::FlushTimedOut)) => {
                self.timed_out.fetch_add(1, Ordering::Relaxed);
            }
            Ok(Err(AckError::Closed)) => {
                self.let_go.fetch_add(1, Ordering::Relaxed);
            }
            Err(AppendError::SegmentNotReady | AppendError::StagingFull) => {
                self.refused.fetch_add(1, Ordering::Relaxed);
            }
            Ok(Err(error)) => panic!("{error}"),
            Err(error) => panic!("{error}"),
        }
    }

    fn ack(&self, wait: Wait) -> AckAt {
        self.acks[usize::from(wait == Wait::Yes)]
    }

    fn assert_promised(&self, appended: &Appended, wait: Wait) {
        let marks = self.log.marks();
        let mark = match self.ack(wait) {
            AckAt::Committed => marks.committed(),
            AckAt::Flushed => marks.flushed(),
            AckAt::Wrote => marks.wrote(),
        };
        assert!(appended.end() <= mark, "{appended:?} was acknowledged at {mark:?}");
    }

    /// Marks never go back.
    fn watch(&self) {
        let mut before = self.log.marks();
        while !self.done.load(Ordering::SeqCst) {
            let marks = self.log.marks();
            assert!(before.flushed() <= marks.flushed());
            assert!(before.committed() <= marks.committed());
            assert!(before.wrote() <= marks.wrote());
            before = marks;
            thread::yield_now();
        }
    }

    /// What is readable is whole.
    fn follow(&self) {
        let mut cursor = self.log.cursor(LogOffset::ZERO);
        while !self.done.load(Ordering::SeqCst) {
            match cursor.next_record() {
                Ok(Some(record)) => {
                    assert_whole(record.body());
                    self.read.fetch_add(1, Ordering::Relaxed);
                }
                Ok(None) => thread::yield_now(),
                Err(error) => panic!("{error}"),
            }
        }
    }
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
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

/// `SplitMix64`.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    fn below_u64(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.below_u64(store_core::length_u64(limit))).unwrap()
    }

    fn fork(&mut self) -> Self {
        Self(self.next())
    }
}
