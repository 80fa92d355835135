//! A wake-up that cannot be lost: one thread waits, any number notify.

use store_core::Nanos;

use crate::clock::monotonic;
use crate::sync::{Futex, Ordering};

/// A sticky permit: a notification that finds no one waiting lets the next wait return at once.
///
/// (RocketMQ's `ServiceThread` resets its latch between test and wait, and loses wake-ups there:
/// apache/rocketmq#10543.)
#[derive(Debug)]
pub(crate) struct Signal {
    state: Futex,
}

impl Default for Signal {
    fn default() -> Self {
        Self { state: Futex::new(EMPTY) }
    }
}

impl Signal {
    /// Lets the waiting thread go on, or the next one that waits. No system call unless one sleeps.
    pub(crate) fn notify(&self) {
        // The load keeps the line shared between cores while a permit is there already. It is
        // enough: whoever takes that permit later sees what the caller did before, because both go
        // through the append lock.
        if self.state.load(Ordering::SeqCst) != NOTIFIED
            && self.state.swap(NOTIFIED, Ordering::SeqCst) == WAITING
        {
            self.state.wake_all();
        }
    }

    /// Waits for a permit and takes it; returns without one at `until`.
    ///
    /// Only one thread may wait at a time.
    pub(crate) fn wait(&self, until: Option<Nanos>) {
        loop {
            if self
                .state
                .compare_exchange(NOTIFIED, EMPTY, Ordering::SeqCst, Ordering::SeqCst)
                .is_ok()
            {
                return;
            }
            if has_passed(until) {
                // Take back the mark of a sleeper; a permit that came meanwhile stays.
                let _ =
                    self.state.compare_exchange(WAITING, EMPTY, Ordering::SeqCst, Ordering::SeqCst);
                return;
            }
            let from =
                self.state.compare_exchange(EMPTY, WAITING, Ordering::SeqCst, Ordering::SeqCst);
            if from != Err(NOTIFIED) {
                self.state.sleep(WAITING, until);
            }
        }
    }

    /// It is `time` now, for who waits here.
    #[cfg(modelled = "loom")]
    #[cfg(test)]
    pub(crate) fn pass_time(&self, time: Nanos) {
        self.state.pass_time(time);
    }
}

/// Whether a deadline is over; never without one.
pub(crate) fn has_passed(deadline: Option<Nanos>) -> bool {
    deadline.is_some_and(|deadline| deadline <= monotonic())
}

const EMPTY: u32 = 0;
const NOTIFIED: u32 = 1;
const WAITING: u32 = 2;

#[cfg(modelled = "loom")]
#[cfg(test)]
mod models;

#[cfg(not(modelled))]
#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::thread;

    #[test]
    fn a_notification_before_the_wait_is_kept_and_taken_once() {
        let signal = Signal::default();
        signal.notify();
        signal.notify();
        signal.wait(None);
        let soon = monotonic().after(Nanos::from_millis(1));
        signal.wait(Some(soon));
        assert!(monotonic() >= soon, "the second permit was the first one again");
        assert_eq!(signal.state.load(Ordering::SeqCst), EMPTY);
    }

    #[test]
    fn no_notification_is_lost_in_a_long_ping_pong() {
        let pair = Arc::new((Signal::default(), Signal::default()));
        let other = Arc::clone(&pair);
        let times = if cfg!(miri) { 20 } else { 50_000 };
        let thread = thread::spawn(move || {
            for _ in 0..times {
                other.0.wait(None);
                other.1.notify();
            }
        });
        for _ in 0..times {
            pair.0.notify();
            pair.1.wait(None);
        }
        thread.join().unwrap();
    }
}
