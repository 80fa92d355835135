//! Keeps what the log's lanes report while a cell runs.

use std::sync::{Mutex, MutexGuard, PoisonError};

use store_core::Nanos;
use store_os::{CommitEvent, FlushEvent, Observer};

/// Every commit and flush of one cell.
#[derive(Debug)]
pub struct Recorder {
    commits: Mutex<Vec<CommitEvent>>,
    flushes: Mutex<Vec<FlushEvent>>,
}

impl Default for Recorder {
    fn default() -> Self {
        Self {
            commits: Mutex::new(Vec::with_capacity(EXPECTED)),
            flushes: Mutex::new(Vec::with_capacity(EXPECTED)),
        }
    }
}

impl Recorder {
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
    }

    fn on_flush(&self, event: &FlushEvent) {
        lock(&self.flushes).push(*event);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Enough for a few seconds of syncs at the fastest disk's pace; more makes the vector grow.
const EXPECTED: usize = 1 << 16;
