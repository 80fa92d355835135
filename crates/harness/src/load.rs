//! Closed-loop producers: each sends, waits for its acknowledgement, and sends again.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread;

use hdrhistogram::Histogram;
use store_core::{LogOffset, Message, Nanos, QueueId, TimestampMs, Wait};
use store_os::{AckError, Log};

use crate::clock::{now, wall_ms};
use crate::distribution::times;
use crate::random::Random;

/// What the producers of a cell are told, and what they show while they run.
#[derive(Debug)]
pub struct Load {
    phase: AtomicU32,
    /// When the measured time began and ended, in nanoseconds; each is set before its phase.
    starts_at: AtomicU64,
    ends_at: AtomicU64,
    progress: Vec<Padded>,
    bodies: Bodies,
    leads: bool,
}

/// A producer's counter on a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Padded(AtomicU64);

/// What a producer measured.
#[derive(Clone, Debug)]
pub struct Produced {
    /// From the call of append to its acknowledgement, in the measured phase.
    pub append_to_ack: Histogram<u64>,
    /// Nanoseconds between an acknowledgement and the next append, in the measured phase.
    pub between_ns: u64,
    /// Nanoseconds that counted messages took outside the measured time: the first before it, the
    /// last beyond it.
    pub outside_ns: u64,

    /// Some of the acknowledged records: where each ends and when it was acknowledged.
    pub sampled: Vec<Sampled>,
    /// Appends whose acknowledgement passed its deadline.
    pub timeouts: u64,
    /// The first append that failed; the producer stopped there.
    pub failed: Option<String>,
}

/// One acknowledged record.
#[derive(Clone, Copy, Debug)]
pub struct Sampled {
    /// The offset behind the record.
    pub end: LogOffset,
    /// When its producer was told.
    pub acked: Nanos,
    /// How many records it stands for.
    pub stands_for: u64,
}

/// Bodies that no compressor shortens: windows into one random block.
#[derive(Debug)]
pub struct Bodies {
    block: Vec<u8>,
    message_bytes: usize,
}

impl Bodies {
    /// Bodies of `message_bytes` each; the same for the same seed.
    pub fn new(seed: u64, message_bytes: usize) -> Self {
        let mut block = vec![0; BLOCK_BYTES + message_bytes];
        Random::new(seed).fill(&mut block);
        Self { block, message_bytes }
    }

    /// The body number `index`; bodies overlap only after the whole block was used.
    pub fn get(&self, index: usize) -> &[u8] {
        let start = index.wrapping_mul(self.message_bytes.max(1)) % BLOCK_BYTES;
        &self.block[start..start + self.message_bytes]
    }
}

impl Load {
    /// A load of `producers` threads; if `leads`, one that waits alone runs the flush itself.
    pub fn new(producers: u32, bodies: Bodies, leads: bool) -> Self {
        let progress = (0..producers).map(|_| Padded::default()).collect();
        Self {
            phase: AtomicU32::new(WARM_UP),
            starts_at: AtomicU64::new(0),
            ends_at: AtomicU64::new(0),
            progress,
            bodies,
            leads,
        }
    }

    /// Latencies count from `start` on.
    pub fn measure(&self, start: Nanos) {
        self.starts_at.store(start.get(), Ordering::Relaxed);
        self.phase.store(MEASURE, Ordering::Release);
    }

    /// From now on they do not; each producer stops after its current message. The measured time
    /// was over at `end`.
    pub fn stop(&self, end: Nanos) {
        self.ends_at.store(end.get(), Ordering::Relaxed);
        self.phase.store(STOP, Ordering::Release);
    }

    /// Messages acknowledged since the start.
    pub fn acked(&self) -> u64 {
        self.progress.iter().map(|count| count.0.load(Ordering::Relaxed)).sum()
    }

    /// Starts the producers within `scope`.
    pub fn start<'scope>(
        &'scope self,
        scope: &'scope thread::Scope<'scope, '_>,
        log: &'scope Log,
    ) -> Vec<thread::ScopedJoinHandle<'scope, Produced>> {
        (0..self.progress.len())
            .map(|index| scope.spawn(move || self.produce(index, log)))
            .collect()
    }

    fn produce(&self, index: usize, log: &Log) -> Produced {
        let mut produced = Produced::new();
        let id = i32::try_from(index % QUEUES).expect("a few queues");
        let queue = match log.queue(b"bench-topic", QueueId::new(id)) {
            Ok(queue) => queue,
            Err(error) => return produced.stopped_by(&error),
        };
        let born_timestamp = TimestampMs::new(i64::try_from(wall_ms()).unwrap_or(i64::MAX));
        let mut count = 0;
        let mut ended: Option<Nanos> = None;
        loop {
            let phase = self.phase.load(Ordering::Acquire);
            if phase == STOP {
                return produced;
            }
            let body = self.bodies.get(count * self.progress.len() + index);
            let message = Message { born_timestamp, body, ..Message::default() };
            let begun = now();
            if phase == MEASURE {
                produced.between_ns += ended.map_or(0, |ended| begun.since(ended).get());
            }
            let told = if self.leads {
                log.append_and_lead(&queue, &message, Wait::Yes)
            } else {
                log.append_and_wait(&queue, &message, Wait::Yes)
            };
            let acked = match told {
                Ok(Ok(appended)) => appended,
                Ok(Err(AckError::FlushTimedOut)) => {
                    produced.timeouts += 1;
                    ended = None;
                    continue;
                }
                Ok(Err(error)) => return produced.stopped_by(&error),
                Err(error) => return produced.stopped_by(&error),
            };
            let told = now();
            count += 1;
            self.progress[index].0.store(store_core::length_u64(count), Ordering::Relaxed);
            // A message counts if it was under way in the measured time, so that no stall at either
            // end is missed.
            if phase == MEASURE || self.phase.load(Ordering::Acquire) == MEASURE {
                produced.append_to_ack.saturating_record(told.since(begun).get());
                produced.outside_ns += self.outside(begun, told);
            }
            produced.sample(count, Sampled { end: acked.end(), acked: told, stands_for: 1 });
            ended = Some(told);
        }
    }
}

impl Load {
    /// How much of a message's time lies outside the measured time.
    fn outside(&self, begun: Nanos, told: Nanos) -> u64 {
        let start = Nanos::new(self.starts_at.load(Ordering::Relaxed));
        let end = match self.ends_at.load(Ordering::Relaxed) {
            0 => told,
            end => Nanos::new(end),
        };
        start.since(begun).get() + told.since(end).get()
    }
}

impl Produced {
    fn new() -> Self {
        Self {
            append_to_ack: times(),
            between_ns: 0,
            outside_ns: 0,

            sampled: Vec::with_capacity(MAX_SAMPLES),
            timeouts: 0,
            failed: None,
        }
    }

    fn stopped_by(mut self, error: &dyn std::error::Error) -> Self {
        self.failed = Some(error.to_string());
        self
    }

    /// Keeps every `stride`-th record; when there are too many, every second of those is dropped
    /// and the stride doubled, so that memory stays bounded and the sample stays even.
    fn sample(&mut self, count: usize, sampled: Sampled) {
        let stride = self.sampled.first().map_or(1, |first| first.stands_for);
        if !store_core::length_u64(count).is_multiple_of(stride) {
            return;
        }
        if self.sampled.len() == MAX_SAMPLES {
            let mut odd = false;
            self.sampled.retain_mut(|kept| {
                odd = !odd;
                kept.stands_for *= 2;
                !odd
            });
            return;
        }
        self.sampled.push(Sampled { stands_for: stride, ..sampled });
    }
}

const WARM_UP: u32 = 0;
const MEASURE: u32 = 1;
const STOP: u32 = 2;
/// Queues that producers share, as a topic of a broker has.
const QUEUES: usize = 8;
/// Larger than what a compressor looks back.
const BLOCK_BYTES: usize = 8 << 20;
const MAX_SAMPLES: usize = 8192;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_stays_bounded_and_stands_for_everything() {
        let mut produced = Produced::new();
        for count in 1..=100_000 {
            let end = LogOffset::new(store_core::length_u64(count));
            produced.sample(count, Sampled { end, acked: Nanos::new(0), stands_for: 1 });
        }
        assert!(produced.sampled.len() <= MAX_SAMPLES);
        let total: u64 = produced.sampled.iter().map(|kept| kept.stands_for).sum();
        assert!((99_000..=101_000).contains(&total), "{total}");
        let ends: Vec<u64> = produced.sampled.iter().map(|kept| kept.end.get()).collect();
        let stride = produced.sampled[0].stands_for;
        assert!(ends.iter().all(|end| end.is_multiple_of(stride)), "every {stride}th");
    }

    #[test]
    fn bodies_differ_and_have_their_length() {
        for len in [0, 1, 1024, 3000] {
            let bodies = Bodies::new(1, len);
            assert_eq!(bodies.get(12345).len(), len);
        }
        let bodies = Bodies::new(1, 1024);
        assert_ne!(bodies.get(0), bodies.get(1));
        assert_eq!(bodies.get(0), Bodies::new(1, 1024).get(0));
    }
}
