//! What producers show while they run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a producer shows, on a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Shown {
    pub(super) acked: AtomicU64,
    /// The longest append since it was last looked at.
    pub(super) worst_ns: AtomicU64,
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
