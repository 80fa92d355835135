//! What runs outside models: std's types and the kernel's futex.

use std::num::NonZeroU32;
use std::ops::Deref;
use std::sync::PoisonError;
use std::time::Duration;

use rustix::io::Errno;
use rustix::thread::futex;
use store_core::Nanos;

use crate::clock::monotonic;

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
pub(crate) use std::sync::{Mutex, MutexGuard, OnceLock};
pub(crate) use std::thread::{Builder, JoinHandle};
pub(crate) use std::thread_local;

/// A word that threads can sleep on until another changes it: `futex(2)`, private to the process.
///
/// Who is about to sleep counts itself, then the kernel looks at the word; who wakes has changed
/// the word, then looks at the count. One of the two sees the other, so nobody is woken by a system
/// call for nothing, and nobody sleeps on.
#[derive(Debug)]
pub(crate) struct Futex {
    word: AtomicU32,
    asleep: AtomicU32,
}

impl Futex {
    pub(crate) fn new(value: u32) -> Self {
        Self { word: AtomicU32::new(value), asleep: AtomicU32::new(0) }
    }

    /// Sleeps while the word holds `value`, at most until `until`: `FUTEX_WAIT_BITSET`. May return
    /// early.
    pub(crate) fn sleep(&self, value: u32, until: Option<Nanos>) {
        let until = until.map(|time| futex::Timespec {
            tv_sec: i64::try_from(time.get() / 1_000_000_000).unwrap_or(i64::MAX),
            tv_nsec: i64::try_from(time.get() % 1_000_000_000).expect("a remainder of 10⁹"),
        });
        let flags = futex::Flags::PRIVATE;
        self.asleep.fetch_add(1, Ordering::SeqCst);
        let slept = futex::wait_bitset(&self.word, flags, value, until.as_ref(), NonZeroU32::MAX);
        self.asleep.fetch_sub(1, Ordering::SeqCst);
        match slept {
            Ok(()) | Err(Errno::AGAIN | Errno::INTR | Errno::TIMEDOUT) => {}
            Err(errno) => unreachable!("FUTEX_WAIT_BITSET on a live word: {errno}"),
        }
    }

    /// Wakes every thread that sleeps on the word, which the caller has changed: `FUTEX_WAKE`.
    pub(crate) fn wake_all(&self) {
        if self.asleep.load(Ordering::SeqCst) == 0 {
            return;
        }
        futex::wake(&self.word, futex::Flags::PRIVATE, u32::MAX >> 1)
            .expect("FUTEX_WAKE on a live word");
    }
}

impl Deref for Futex {
    type Target = AtomicU32;

    fn deref(&self) -> &AtomicU32 {
        &self.word
    }
}

/// A condition variable whose waits end at a time.
#[derive(Debug, Default)]
pub(crate) struct Condvar {
    condvar: std::sync::Condvar,
}

impl Condvar {
    pub(crate) fn notify_all(&self) {
        self.condvar.notify_all();
    }

    /// Waits for a notification, at most until `until`. May return early.
    pub(crate) fn wait_until<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        until: Nanos,
    ) -> MutexGuard<'a, T> {
        let left = Duration::from_nanos(until.since(monotonic()).get());
        self.condvar.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner).0
    }
}
