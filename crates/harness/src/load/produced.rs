//! What a producer measures.

use hdrhistogram::Histogram;
use store_core::{LogOffset, Nanos};

use crate::distribution::times;

/// What a producer measured.
#[derive(Clone, Debug)]
pub struct Produced {
    /// From the call of append to its acknowledgement, in the measured phase.
    pub append_to_ack: Histogram<u64>,
    /// The call of append alone, where it does not wait for the acknowledgement.
    pub append: Histogram<u64>,
    /// What is measured of an open loop.
    pub open: Option<OpenLoop>,
    /// Nanoseconds between being free to send, by an acknowledgement or by having sent, and the
    /// next append, in the measured phase.
    pub between_ns: u64,
    /// Nanoseconds that counted messages took outside the measured time: the first before it, the
    /// last beyond it.
    pub outside_ns: u64,
    /// Some of the acknowledged records.
    pub sampled: Vec<Sampled>,
    /// Messages that count and whose acknowledgement passed its deadline.
    pub timeouts: u64,
    /// Appends that were refused because the disk did not keep up,
    pub refused: u64,
    /// and how long they waited for that within the measured time.
    pub refused_ns: u64,
    /// The first append that failed otherwise; the producer stopped there.
    pub failed: Option<String>,
}

/// Latencies that count from when a message was due: what holds up one makes others late.
#[derive(Clone, Debug)]
pub struct OpenLoop {
    /// From when a message was due to its acknowledgement.
    pub due_to_ack: Histogram<u64>,
    /// From when a message was due to its append.
    pub lag: Histogram<u64>,
    /// The same, but from when its producer was free to send it too, neither in an append nor with
    /// a full window: lateness that is the producer's own.
    pub own_lag: Histogram<u64>,
    /// Messages that were due in the measured time.
    pub due: u64,
    /// Of these the ones that were due early enough to have been sent by its end …
    pub judged: u64,
    /// … and were not.
    pub unsent: u64,
}

/// One acknowledged record.
#[derive(Clone, Copy, Debug)]
pub struct Sampled {
    /// The offset behind the record.
    pub end: LogOffset,
    /// When its append was called,
    pub begun: Nanos,
    /// and when its producer was told.
    pub acked: Nanos,
    /// How many records it stands for.
    pub stands_for: u64,
}

impl Produced {
    pub(crate) fn new(is_open: bool) -> Self {
        let open = || OpenLoop {
            due_to_ack: times(),
            lag: times(),
            own_lag: times(),
            due: 0,
            judged: 0,
            unsent: 0,
        };
        Self {
            append_to_ack: times(),
            append: times(),
            open: is_open.then(open),
            between_ns: 0,
            outside_ns: 0,
            sampled: Vec::with_capacity(MAX_SAMPLES),
            timeouts: 0,
            refused: 0,
            refused_ns: 0,
            failed: None,
        }
    }

    pub(super) fn stopped_by(mut self, error: &dyn std::error::Error) -> Self {
        self.failed = Some(error.to_string());
        self
    }

    pub(crate) fn record(&mut self, due: Option<Nanos>, begun: Nanos, told: Nanos) {
        self.append_to_ack.saturating_record(told.since(begun).get());
        if let (Some(open), Some(due)) = (&mut self.open, due) {
            open.due_to_ack.saturating_record(told.since(due).get());
        }
    }

    /// Keeps every `stride`-th record; when there are too many, every second of those is dropped
    /// and the stride doubled, so that memory stays bounded and the sample stays even.
    pub(crate) fn sample(&mut self, count: usize, sampled: Sampled) {
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

/// Records that a producer keeps; of more every second one goes.
pub(super) const MAX_SAMPLES: usize = 8192;
