//! Keeps what the log's lanes report while a cell runs.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use store_core::Nanos;
use store_os::{CommitEvent, FlushEvent, Observer};

use crate::clock::now;
use crate::exposure::AckSample;
use crate::load::Acknowledged;

/// Every commit and flush of one cell, and how much was acknowledged at each if that was asked for.
#[derive(Debug)]
pub struct Recorder {
    commits: Mutex<Vec<CommitEvent>>,
    flushes: Mutex<Vec<FlushEvent>>,
    counter: OnceLock<Acknowledged>,
    acked: Mutex<Vec<AckSample>>,
}

impl Default for Recorder {
    fn default() -> Self {
        Self {
            commits: Mutex::new(Vec::with_capacity(EXPECTED)),
            flushes: Mutex::new(Vec::with_capacity(EXPECTED)),
            counter: OnceLock::new(),
            acked: Mutex::default(),
        }
    }
}

impl Recorder {
    /// From now on notes at each step what is acknowledged by then: between two steps what is at
    /// risk only grows, so that these moments are the ones to know it at.
    pub fn count_by(&self, counter: Acknowledged) {
        // Who asks twice asks for the same load.
        let _ = self.counter.set(counter);
    }

    /// What was noted.
    pub fn acked(&self) -> Vec<AckSample> {
        lock(&self.acked).clone()
    }

    fn count(&self) {
        if let Some(counter) = self.counter.get() {
            let mut acked = lock(&self.acked);
            acked.push(AckSample { at: now(), acked: counter.count() });
        }
    }

    /// The commits so far, in order.
    pub fn commits(&self) -> Vec<CommitEvent> {
        lock(&self.commits).clone()
    }

    /// How many flushes ended after `time`.
    pub fn flushes_since(&self, time: Nanos) -> usize {
        lock(&self.flushes).iter().rev().take_while(|event| event.ended > time).count()
    }

    /// How many there were.
    pub fn flush_count(&self) -> u64 {
        store_core::length_u64(lock(&self.flushes).len())
    }

    /// The flushes so far, in order.
    pub fn flushes(&self) -> Vec<FlushEvent> {
        lock(&self.flushes).clone()
    }
}

impl Observer for Recorder {
    fn on_commit(&self, event: &CommitEvent) {
        lock(&self.commits).push(*event);
        self.count();
    }

    fn on_flush(&self, event: &FlushEvent) {
        lock(&self.flushes).push(*event);
        self.count();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Enough for a few seconds of syncs at the fastest disk's pace; more makes the vector grow.
const EXPECTED: usize = 1 << 16;
