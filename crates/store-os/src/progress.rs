//! How far the log has come, and who waits for it to come further.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;
use std::task::{Poll, Waker};

use store_core::{LogOffset, Nanos};

use crate::clock::monotonic;
use crate::error::{AckError, Error, Poison};
use crate::signal::{Signal, has_passed};
use crate::sync::{AtomicBool, AtomicU64, Futex, Mutex, MutexGuard, OnceLock, Ordering};

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
    words: [Futex; 2],
    poison: OnceLock<Poison>,
    stopped: AtomicBool,
    sleepers: Mutex<Sleepers>,
    next_ticket: AtomicU64,
    /// Tells the timekeeper that a deadline was added.
    timekeeper: Signal,
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
            words: [Futex::new(0), Futex::new(0)],
            poison: OnceLock::new(),
            stopped: AtomicBool::new(false),
            sleepers: Mutex::default(),
            next_ticket: AtomicU64::new(0),
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

    /// Makes `error` the log's first failure, unless there was one. [`fail`](Self::fail) must
    /// follow, which wakes who waits.
    pub(crate) fn poison_with(&self, error: &Error) {
        let _ = self.poison.set(Poison { first: error.clone() });
    }

    /// Makes `error` the log's first failure, unless there was one, and wakes everyone.
    pub(crate) fn fail(&self, error: &Error) {
        self.poison_with(error);
        self.wake_everyone();
    }

    /// Nothing moves any more: wakes everyone.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        self.wake_everyone();
        self.timekeeper.notify();
    }

    fn is_stopped(&self) -> bool {
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
            if has_passed(deadline) {
                return Err(AckError::FlushTimedOut);
            }
            word.sleep(value, deadline);
        }
    }

    /// The same for a future, whose `ticket` names it among those that wait from its first poll on.
    /// It is woken at its deadline too, which is for the caller to look at.
    pub(crate) fn poll(
        &self,
        ticket: &mut Option<u64>,
        end: LogOffset,
        waker: &Waker,
        deadline: Option<Nanos>,
    ) -> Poll<Result<(), AckError>> {
        if let Some(outcome) = self.outcome(end) {
            return Poll::Ready(outcome);
        }
        let number = || self.next_ticket.fetch_add(1, Ordering::Relaxed);
        self.register(*ticket.get_or_insert_with(number), end, deadline, waker);
        // What happened before the registration woke nobody: look again.
        self.outcome(end).map_or(Poll::Pending, Poll::Ready)
    }

    /// Remembers whom to wake for a future; a later call for the same ticket replaces the earlier.
    fn register(&self, ticket: u64, end: LogOffset, deadline: Option<Nanos>, waker: &Waker) {
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

    /// The thread that wakes futures when their deadline comes, whatever the lanes are stuck in.
    pub(crate) fn keep_deadlines(&self) {
        while !self.is_stopped() {
            let next = self.wake_overdue();
            self.timekeeper.wait(next);
        }
    }

    /// Wakes the futures whose deadline has passed, and gives the next deadline.
    fn wake_overdue(&self) -> Option<Nanos> {
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
        self.words[parity].wake_all();
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

#[cfg(modelled = "loom")]
#[cfg(test)]
mod models;

#[cfg(not(modelled))]
#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::task::Wake;
    use std::thread::{self, Thread};

    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    fn block_on(progress: &Progress, end: LogOffset, deadline: Nanos) -> Result<(), AckError> {
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut ticket = None;
        loop {
            match progress.poll(&mut ticket, end, &waker, Some(deadline)) {
                Poll::Ready(outcome) => return outcome,
                Poll::Pending if has_passed(Some(deadline)) => return Err(AckError::FlushTimedOut),
                Poll::Pending => thread::park(),
            }
        }
    }

    #[derive(Default)]
    struct Count(AtomicU64);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_future_is_woken_once_for_each_time_that_it_waits() {
        let progress = Progress::new(LogOffset::ZERO);
        let count = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&count));
        let mut ticket = None;
        for woken in [1, 2] {
            let polled = progress.poll(&mut ticket, LogOffset::new(30), &waker, None);
            assert!(polled.is_pending());
            for _ in 0..2 {
                progress.wake_futures(LogOffset::new(30));
                assert_eq!(count.0.load(Ordering::SeqCst), woken);
            }
        }
    }

    #[test]
    fn blocked_waiters_and_futures_hear_their_sync_the_deadline_or_the_stop() {
        for _ in 0..if cfg!(miri) { 3 } else { 300 } {
            let progress = Progress::new(LogOffset::ZERO);
            let soon = monotonic().after(Nanos::from_micros(50));
            let late = monotonic().after(Nanos::from_millis(3_600_000));
            thread::scope(|scope| {
                scope.spawn(|| progress.keep_deadlines());
                for end in [10, 20].map(LogOffset::new) {
                    let progress = &progress;
                    scope.spawn(move || progress.wait(end, None).unwrap());
                    scope.spawn(move || block_on(progress, end, late).unwrap());
                }
                let never = LogOffset::new(30);
                let timed_out = scope.spawn(|| block_on(&progress, LogOffset::new(30), soon));
                let stopped = scope.spawn(|| progress.wait(LogOffset::new(30), None));
                for upto in [10, 20].map(LogOffset::new) {
                    progress.set_committed(upto);
                    progress.begin_round(upto);
                    progress.complete_round();
                }
                let told = timed_out.join().unwrap();
                assert!(matches!(told, Err(AckError::FlushTimedOut)), "{told:?}");
                progress.stop();
                assert!(matches!(stopped.join().unwrap(), Err(AckError::Closed)));
                assert!(matches!(progress.outcome(never), Some(Err(AckError::Closed))));
            });
        }
    }
}
