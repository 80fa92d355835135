//! What producers show while they run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use store_core::Nanos;

use super::tail::Took;

/// What a producer shows, on a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Shown {
    pub(super) acked: AtomicU64,
    /// The longest append since it was last looked at.
    pub(super) worst_ns: AtomicU64,
    /// Messages that it sent or is sending, and that are without acknowledgement.
    waiting: AtomicU64,
    /// When the first of them was begun, in nanoseconds.
    oldest_ns: AtomicU64,
    /// How long its appends took.
    pub(super) took: Took,
}

impl Shown {
    /// An append ended, in whichever way.
    pub(super) fn ended(&self, took: Nanos) {
        if self.worst_ns.load(Ordering::Relaxed) < took.get() {
            self.worst_ns.store(took.get(), Ordering::Relaxed);
        }
        self.took.add(took);
    }

    /// So many messages wait, the first of them since then.
    pub(super) fn waits(&self, waiting: u64, oldest: Option<Nanos>) {
        if let Some(oldest) = oldest {
            self.oldest_ns.store(oldest.get(), Ordering::Relaxed);
        }
        // Whoever sees the count sees since when, or a later beginning: never an earlier one.
        self.waiting.store(waiting, Ordering::Release);
    }
}

/// What waits for its acknowledgement at a moment.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Waiting {
    /// Messages.
    pub messages: u64,
    /// How long the oldest of them has waited.
    pub oldest: Nanos,
}

/// What waits by `now`. Producers go on meanwhile: each shows one moment of its own.
pub(super) fn waiting(progress: &[Shown], now: Nanos) -> Waiting {
    let mut all = Waiting::default();
    for shown in progress {
        let messages = shown.waiting.load(Ordering::Acquire);
        if messages > 0 {
            let begun = Nanos::new(shown.oldest_ns.load(Ordering::Relaxed));
            all.messages += messages;
            all.oldest = all.oldest.max(now.since(begun));
        }
    }
    all
}

/// How many messages of a load are acknowledged.
#[derive(Clone, Debug)]
pub struct Acknowledged(pub(super) Arc<[Shown]>);

impl Acknowledged {
    /// By now.
    pub fn count(&self) -> u64 {
        total(&self.0)
    }
}

/// How many messages they show as acknowledged.
pub(super) fn total(progress: &[Shown]) -> u64 {
    progress.iter().map(|shown| shown.acked.load(Ordering::Relaxed)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_longer_waits_leaves_no_earlier_beginning_behind() {
        let shown = [Shown::default(), Shown::default()];
        shown[0].waits(3, Some(Nanos::new(700)));
        shown[1].waits(1, Some(Nanos::new(900)));
        let at = Nanos::new(1000);
        assert_eq!(waiting(&shown, at), Waiting { messages: 4, oldest: Nanos::new(300) });
        shown[0].waits(0, None);
        assert_eq!(waiting(&shown, at), Waiting { messages: 1, oldest: Nanos::new(100) });
        // Who read the count just before must not take the first message for one of long ago.
        assert_eq!(shown[0].oldest_ns.load(Ordering::Relaxed), 700);
    }
}
