//! What stands in under a model checker: its types, and a futex, a condition variable and a clock
//! made of them.
//!
//! Time is whatever the model makes of it: a wait until a time may end at any moment, and then it
//! is that late. Under shuttle that happens by itself, at random; under loom a thread of the model
//! lets it happen ([`Futex::pass_time`]). A time that is an hour away never comes, so that a
//! wake-up lost by someone who would have timed out is a deadlock too, and is reported.
//!
//! The mutex of a modelled futex orders more than the C11 rules promise of `futex(2)`; the kernel's
//! barriers do order it so.

#[cfg(modelled = "loom")]
use loom as checker;
#[cfg(modelled = "shuttle")]
use shuttle as checker;
use std::ops::Deref;
use std::sync::PoisonError;

use store_core::Nanos;

#[cfg(modelled = "loom")]
use super::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};

pub(crate) use checker::sync::{Mutex, MutexGuard};
pub(crate) use checker::thread::{Builder, JoinHandle};
#[cfg(modelled = "shuttle")]
pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
#[cfg(modelled = "shuttle")]
pub(crate) use shuttle::thread_local;

/// Loom's own takes no `const`.
#[cfg(modelled = "loom")]
macro_rules! per_thread {
    (static $name:ident: $of:ty = const { $value:expr };) => {
        loom::thread_local! {
            static $name: $of = $value;
        }
    };
}
#[cfg(modelled = "loom")]
pub(crate) use per_thread as thread_local;

/// What is further away than this never comes.
const NEVER: Nanos = Nanos::new(3_600_000_000_000);

/// A word that threads can sleep on until another changes it.
#[derive(Debug)]
pub(crate) struct Futex {
    word: AtomicU32,
    /// As outside models: who sleeps, counted before the word is looked at.
    asleep: AtomicU32,
    /// How often sleepers were woken. Locked, as the kernel does it, while a sleeper looks at the
    /// word, and while they are woken.
    wakes: Mutex<u64>,
    woken: checker::sync::Condvar,
}

impl Futex {
    pub(crate) fn new(value: u32) -> Self {
        Self {
            word: AtomicU32::new(value),
            asleep: AtomicU32::new(0),
            wakes: Mutex::new(0),
            woken: checker::sync::Condvar::new(),
        }
    }

    /// Sleeps while the word holds `value`, at most until `until`. May return early.
    pub(crate) fn sleep(&self, value: u32, until: Option<Nanos>) {
        self.asleep.fetch_add(1, Ordering::SeqCst);
        // Of `SeqCst`, loom takes fences alone at their word.
        fence(Ordering::SeqCst);
        self.sleep_counted(value, until);
        self.asleep.fetch_sub(1, Ordering::SeqCst);
    }

    fn sleep_counted(&self, value: u32, until: Option<Nanos>) {
        let wakes = self.wakes();
        if self.word.load(Ordering::Relaxed) != value {
            return;
        }
        match until.filter(|until| until.since(now()) < NEVER) {
            None => drop(self.woken.wait(wakes)),
            Some(until) => self.doze(wakes, until),
        }
    }

    /// Wakes every thread that sleeps on the word, which the caller has changed.
    pub(crate) fn wake_all(&self) {
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::SeqCst) > 0 {
            self.wake();
        }
    }

    fn wake(&self) {
        *self.wakes() += 1;
        self.woken.notify_all();
    }

    /// Sleeps until woken, or until it is decided that it is `until`.
    #[cfg(modelled = "shuttle")]
    fn doze(&self, wakes: MutexGuard<'_, u64>, until: Nanos) {
        let before = *wakes;
        drop(wakes);
        for _ in 0..random_below(12) {
            shuttle::thread::yield_now();
            if *self.wakes() != before {
                return;
            }
        }
        advance_clock(until);
    }

    /// Sleeps until woken or past `until`, by [`pass_time`](Self::pass_time).
    #[cfg(modelled = "loom")]
    fn doze(&self, wakes: MutexGuard<'_, u64>, until: Nanos) {
        if now() < until {
            drop(self.woken.wait(wakes));
        }
    }

    /// It is `time` now: wakes who sleeps on the word until then or before.
    #[cfg(modelled = "loom")]
    #[cfg(test)]
    pub(crate) fn pass_time(&self, time: Nanos) {
        CLOCK.store(time.get(), Ordering::SeqCst);
        self.wake();
    }

    fn wakes(&self) -> MutexGuard<'_, u64> {
        self.wakes.lock().unwrap_or_else(PoisonError::into_inner)
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
    condvar: checker::sync::Condvar,
}

impl Condvar {
    pub(crate) fn notify_all(&self) {
        self.condvar.notify_all();
    }

    /// Waits for a notification, unless it is decided that it is `until` already.
    pub(crate) fn wait_until<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        until: Nanos,
    ) -> MutexGuard<'a, T> {
        #[cfg(modelled = "shuttle")]
        if until.since(now()) < NEVER && random_below(4) == 0 {
            advance_clock(until);
            return guard;
        }
        let _ = until;
        self.condvar.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }
}

/// A cell that is written once.
#[derive(Debug)]
pub(crate) struct OnceLock<T> {
    value: std::sync::OnceLock<T>,
    /// What other threads see, in the checker's order.
    is_set: AtomicBool,
}

impl<T> OnceLock<T> {
    pub(crate) fn new() -> Self {
        Self { value: std::sync::OnceLock::new(), is_set: AtomicBool::new(false) }
    }

    pub(crate) fn get(&self) -> Option<&T> {
        if self.is_set.load(Ordering::Acquire) { self.value.get() } else { None }
    }

    pub(crate) fn set(&self, value: T) -> Result<(), T> {
        let result = self.value.set(value);
        self.is_set.store(true, Ordering::Release);
        result
    }
}

#[cfg(modelled = "loom")]
loom::lazy_static! {
    static ref CLOCK: AtomicU64 = AtomicU64::new(0);
}

/// Now, as the model has it.
#[cfg(modelled = "loom")]
pub(crate) fn now() -> Nanos {
    Nanos::new(CLOCK.load(Ordering::SeqCst))
}

#[cfg(modelled = "shuttle")]
std::thread_local! {
    /// All threads of a model run on one of the system's.
    static CLOCK: std::cell::Cell<Nanos> = const { std::cell::Cell::new(Nanos::new(0)) };
}

/// Now, as the model has it.
#[cfg(modelled = "shuttle")]
pub(crate) fn now() -> Nanos {
    CLOCK.get()
}

#[cfg(modelled = "shuttle")]
fn advance_clock(time: Nanos) {
    CLOCK.set(CLOCK.get().max(time));
}

#[cfg(modelled = "shuttle")]
pub(crate) fn random_below(limit: u32) -> u32 {
    use shuttle::rand::{Rng, thread_rng};
    thread_rng().gen_range(0..limit)
}

/// Another thread may go on here.
#[cfg(modelled = "shuttle")]
#[cfg(test)]
pub(crate) fn pause() {
    shuttle::thread::yield_now();
}

/// Loom tries what it is to try without being told where.
#[cfg(modelled = "loom")]
#[cfg(test)]
pub(crate) fn pause() {}

/// Loom has no choices but those between threads.
#[cfg(modelled = "loom")]
#[cfg(test)]
pub(crate) fn random_below(_limit: u32) -> u32 {
    0
}
