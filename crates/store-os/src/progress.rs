//! How far the log has come, and who waits for it to come further.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;

use store_core::{LogOffset, Nanos};

use crate::clock::monotonic;
use crate::error::{AckError, Error, Poison};
use crate::signal::{Signal, remaining, sleep_on, wake_all};

/// The marks that other threads watch, and the waiters.
///
/// Blocking waiters sleep on one of two futex words, by the sync that will cover them: the one
/// under way or the next. A finished sync wakes its own waiters with one call, and nobody else.
#[derive(Debug)]
pub(crate) struct Progress {
    wrote: AtomicU64,
    committed: AtomicU64,
    flushed: AtomicU64,
    /// What the latest sync to start covers, doubled, plus the parity of its number. One word, so
    /// that a waiter never sees the one without the other.
    round: AtomicU64,
    words: [AtomicU32; 2],
    poison: OnceLock<Poison>,
    stopped: AtomicBool,
    sleepers: Mutex<Sleepers>,
    /// Tells the timekeeper that a deadline was added.
    pub(crate) timekeeper: Signal,
}

/// The futures that wait, by what they wait for and by their deadlines.
#[derive(Debug, Default)]
struct Sleepers {
    by_end: BTreeMap<Place, Sleeper>,
    by_deadline: BTreeSet<(Nanos, Place)>,
}

/// A record's end and its ticket's number.
type Place = (LogOffset, u64);

#[derive(Debug)]
struct Sleeper {
    deadline: Option<Nanos>,
    waker: Waker,
}

impl Sleepers {
    fn remove(&mut self, place: Place) -> Option<Waker> {
        let Sleeper { deadline, waker } = self.by_end.remove(&place)?;
        if let Some(deadline) = deadline {
            self.by_deadline.remove(&(deadline, place));
        }
        Some(waker)
    }
}

impl Progress {
    /// All marks at `start`.
    pub(crate) fn new(start: LogOffset) -> Self {
        Self {
            wrote: AtomicU64::new(start.get()),
            committed: AtomicU64::new(start.get()),
            flushed: AtomicU64::new(start.get()),
            round: AtomicU64::new(start.get() << 1),
            words: [AtomicU32::new(0), AtomicU32::new(0)],
            poison: OnceLock::new(),
            stopped: AtomicBool::new(false),
            sleepers: Mutex::default(),
            timekeeper: Signal::default(),
        }
    }

    pub(crate) fn wrote(&self) -> LogOffset {
        LogOffset::new(self.wrote.load(Ordering::Acquire))
    }

    pub(crate) fn committed(&self) -> LogOffset {
        LogOffset::new(self.committed.load(Ordering::SeqCst))
    }

    pub(crate) fn flushed(&self) -> LogOffset {
        LogOffset::new(self.flushed.load(Ordering::SeqCst))
    }

    pub(crate) fn poison(&self) -> Option<&Poison> {
        self.poison.get()
    }

    pub(crate) fn set_wrote(&self, end: LogOffset) {
        self.wrote.store(end.get(), Ordering::Release);
    }

    pub(crate) fn set_committed(&self, end: LogOffset) {
        let before = self.committed.swap(end.get(), Ordering::SeqCst);
        assert!(before <= end.get(), "committed went back from {before} to {end}");
    }

    /// A sync that covers everything below `upto` begins.
    pub(crate) fn begin_round(&self, upto: LogOffset) {
        let parity = (self.round.load(Ordering::SeqCst) & 1) ^ 1;
        self.round.store(upto.get() << 1 | parity, Ordering::SeqCst);
    }

    /// The sync that began last has succeeded: moves `flushed` and wakes who waited for it.
    pub(crate) fn complete_round(&self) {
        let round = self.round.load(Ordering::SeqCst);
        let upto = round >> 1;
        let before = self.flushed.swap(upto, Ordering::SeqCst);
        assert!(before <= upto, "flushed went back from {before} to {upto}");
        self.wake_word(usize::from(round & 1 == 1));
        self.wake_futures(LogOffset::new(upto));
    }

    /// Makes `error` the log's first failure, unless there was one, and wakes everyone.
    pub(crate) fn fail(&self, error: Error) {
        let _ = self.poison.set(Poison { first: error });
        self.wake_everyone();
    }

    /// Nothing moves any more: wakes everyone.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        self.wake_everyone();
        self.timekeeper.notify();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    /// Whether the record that ends at `end` is durable, or never will be told to be.
    pub(crate) fn outcome(&self, end: LogOffset) -> Option<Result<(), AckError>> {
        if end <= self.flushed() {
            return Some(Ok(()));
        }
        if let Some(poison) = self.poison() {
            return Some(Err(AckError::Poisoned(poison.clone())));
        }
        // A drain ends with `flushed` moved and only then `stopped` set, so the order of these
        // reads may call a record lost that has just become durable: look again.
        let stopped = self.is_stopped();
        if end <= self.flushed() {
            return Some(Ok(()));
        }
        stopped.then_some(Err(AckError::Closed))
    }

    /// Blocks until `flushed` passes `end`, the log fails or stops, or `deadline` comes.
    pub(crate) fn wait(&self, end: LogOffset, deadline: Option<Nanos>) -> Result<(), AckError> {
        loop {
            let round = self.round.load(Ordering::SeqCst);
            // The latest sync to start covers the record, or else the next one will.
            let covered = end.get() <= round >> 1;
            let word = &self.words[usize::from((round & 1 == 1) == covered)];
            let value = word.load(Ordering::SeqCst);
            if let Some(outcome) = self.outcome(end) {
                return outcome;
            }
            // If a sync started since, its completion may come on the other word: choose again.
            // If none did, the completion that concerns this record changes `word` after `value`
            // was read, and the sleep returns at once.
            if self.round.load(Ordering::SeqCst) != round {
                continue;
            }
            let Ok(timeout) = remaining(deadline) else {
                return Err(AckError::FlushTimedOut);
            };
            sleep_on(word, value, timeout);
        }
    }

    /// Remembers whom to wake for a future; a later call for the same ticket replaces the earlier.
    pub(crate) fn register(
        &self,
        ticket: u64,
        end: LogOffset,
        deadline: Option<Nanos>,
        waker: &Waker,
    ) {
        let place = (end, ticket);
        // Cloning and dropping a waker may run anything too, so neither under the lock.
        let waker = waker.clone();
        let mut sleepers = self.sleepers();
        if let Some(sleeper) = sleepers.by_end.get_mut(&place) {
            let replaced = std::mem::replace(&mut sleeper.waker, waker);
            drop(sleepers);
            drop(replaced);
            return;
        }
        sleepers.by_end.insert(place, Sleeper { deadline, waker });
        let Some(deadline) = deadline else { return };
        sleepers.by_deadline.insert((deadline, place));
        let is_earliest = sleepers.by_deadline.first() == Some(&(deadline, place));
        drop(sleepers);
        if is_earliest {
            self.timekeeper.notify();
        }
    }

    /// Forgets a future that was dropped.
    pub(crate) fn unregister(&self, ticket: u64, end: LogOffset) {
        let waker = self.sleepers().remove((end, ticket));
        drop(waker);
    }

    /// Wakes the futures whose deadline has passed, and gives the next deadline.
    pub(crate) fn wake_overdue(&self) -> Option<Nanos> {
        let now = monotonic();
        let mut woken = Vec::new();
        let mut sleepers = self.sleepers();
        let next = loop {
            match sleepers.by_deadline.first().copied() {
                Some((deadline, place)) if deadline <= now => woken.extend(sleepers.remove(place)),
                first => break first.map(|(deadline, _)| deadline),
            }
        };
        drop(sleepers);
        wake_each(woken);
        next
    }

    fn wake_everyone(&self) {
        self.wake_word(0);
        self.wake_word(1);
        self.wake_futures(LogOffset::new(u64::MAX));
    }

    fn wake_word(&self, parity: usize) {
        self.words[parity].fetch_add(1, Ordering::SeqCst);
        wake_all(&self.words[parity]);
    }

    /// Wakes the futures whose records end at or before `upto`.
    fn wake_futures(&self, upto: LogOffset) {
        let mut woken = Vec::new();
        let mut sleepers = self.sleepers();
        while let Some((&place, _)) = sleepers.by_end.first_key_value()
            && place.0 <= upto
        {
            woken.extend(sleepers.remove(place));
        }
        // A waker may run anything, so not under the lock.
        drop(sleepers);
        wake_each(woken);
    }

    fn sleepers(&self) -> MutexGuard<'_, Sleepers> {
        self.sleepers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes each, whatever one of them does: the others are registered nowhere any more.
fn wake_each(wakers: Vec<Waker>) {
    for waker in wakers {
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| waker.wake()));
    }
}
