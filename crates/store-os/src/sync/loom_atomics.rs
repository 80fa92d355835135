//! Loom's atomics, which can be told to take `SeqCst` at its word.
//!
//! Loom treats an access of order `SeqCst` as acquire and release only (tokio-rs/loom#180), so what
//! passes needs no more than that. Where code does need more, its model says
//! [`explore_seq_cst`]: then a fence of that order, which loom does model, stands before each such
//! access. That orders more than the access alone would.

use std::cell::Cell;

use loom::sync::atomic as checker;

pub(crate) use checker::{Ordering, fence};

std::thread_local! {
    /// All threads of a model run on one of the system's.
    static TAKES_SEQ_CST: Cell<bool> = const { Cell::new(false) };
}

/// Runs `model` once for each of its executions in which at most `preemptions` times a thread has
/// to stop where it could go on, or as many as `LOOM_MAX_PREEMPTIONS` says.
#[cfg(test)]
pub(crate) fn explore(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.max_branches = 10_000;
    builder.preemption_bound = builder.preemption_bound.or(Some(preemptions));
    builder.check(model);
}

/// [`explore`] for a model that relies on a single order of all `SeqCst` accesses.
#[cfg(test)]
pub(crate) fn explore_seq_cst(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    TAKES_SEQ_CST.set(true);
    explore(preemptions, model);
    TAKES_SEQ_CST.set(false);
}

fn before(order: Ordering) -> Ordering {
    if order == Ordering::SeqCst && TAKES_SEQ_CST.get() {
        fence(order);
    }
    order
}

macro_rules! atomic {
    ($name:ident, $value:ty) => {
        #[derive(Debug, Default)]
        pub(crate) struct $name(checker::$name);

        impl $name {
            pub(crate) fn new(value: $value) -> Self {
                Self(checker::$name::new(value))
            }

            pub(crate) fn load(&self, order: Ordering) -> $value {
                self.0.load(before(order))
            }

            pub(crate) fn swap(&self, value: $value, order: Ordering) -> $value {
                self.0.swap(value, before(order))
            }
        }
    };
}

macro_rules! number {
    ($name:ident, $value:ty) => {
        atomic!($name, $value);

        impl $name {
            pub(crate) fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                self.0.fetch_add(value, before(order))
            }
        }
    };
}

atomic!(AtomicBool, bool);
number!(AtomicU32, u32);
number!(AtomicU64, u64);

impl AtomicBool {
    /// Loom lets a store slip between the halves of another thread's swap (tokio-rs/loom#254), but
    /// not a swap.
    pub(crate) fn store(&self, value: bool, order: Ordering) {
        self.0.swap(value, before(order));
    }
}

impl AtomicU32 {
    pub(crate) fn compare_exchange(
        &self,
        from: u32,
        to: u32,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u32, u32> {
        self.0.compare_exchange(from, to, before(success), failure)
    }

    pub(crate) fn fetch_sub(&self, value: u32, order: Ordering) -> u32 {
        self.0.fetch_sub(value, before(order))
    }
}

impl AtomicU64 {
    pub(crate) fn store(&self, value: u64, order: Ordering) {
        self.0.store(value, before(order));
    }

    pub(crate) fn fetch_max(&self, value: u64, order: Ordering) -> u64 {
        self.0.fetch_max(value, before(order))
    }

    pub(crate) fn fetch_sub(&self, value: u64, order: Ordering) -> u64 {
        self.0.fetch_sub(value, before(order))
    }
}
