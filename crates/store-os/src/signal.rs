//! A wake-up that cannot be lost: one thread waits, any number notify.

use std::sync::atomic::{AtomicU32, Ordering};

use rustix::io::Errno;
use rustix::thread::futex;
use store_core::Nanos;

use crate::clock::monotonic;

/// A sticky permit: a notification that finds no one waiting lets the next wait return at once.
///
/// (RocketMQ's `ServiceThread` resets its latch between test and wait, and loses wake-ups there:
/// apache/rocketmq#10543.)
#[derive(Debug, Default)]
pub(crate) struct Signal {
    state: AtomicU32,
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
            wake_all(&self.state);
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
            let Ok(timeout) = remaining(until) else {
                // Take back the mark of a sleeper; a permit that came meanwhile stays.
                let _ =
                    self.state.compare_exchange(WAITING, EMPTY, Ordering::SeqCst, Ordering::SeqCst);
                return;
            };
            let from =
                self.state.compare_exchange(EMPTY, WAITING, Ordering::SeqCst, Ordering::SeqCst);
            if from != Err(NOTIFIED) {
                sleep_on(&self.state, WAITING, timeout);
            }
        }
    }
}

/// What is left until a deadline; `Ok(None)` without one.
pub(crate) fn remaining(until: Option<Nanos>) -> Result<Option<Nanos>, Passed> {
    let Some(until) = until else { return Ok(None) };
    let left = until.since(monotonic());
    if left.get() > 0 { Ok(Some(left)) } else { Err(Passed) }
}

/// The deadline has passed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passed;

/// Sleeps while `word` holds `value`, at most `timeout`: `FUTEX_WAIT`. May return early.
pub(crate) fn sleep_on(word: &AtomicU32, value: u32, timeout: Option<Nanos>) {
    let timeout = timeout.map(|span| futex::Timespec {
        tv_sec: i64::try_from(span.get() / 1_000_000_000).unwrap_or(i64::MAX),
        tv_nsec: i64::try_from(span.get() % 1_000_000_000).expect("a remainder of 10⁹"),
    });
    match futex::wait(word, futex::Flags::PRIVATE, value, timeout.as_ref()) {
        Ok(()) | Err(Errno::AGAIN | Errno::INTR | Errno::TIMEDOUT) => {}
        Err(errno) => unreachable!("FUTEX_WAIT on a live word: {errno}"),
    }
}

/// Wakes every thread that sleeps on `word`: `FUTEX_WAKE`.
pub(crate) fn wake_all(word: &AtomicU32) {
    futex::wake(word, futex::Flags::PRIVATE, u32::MAX >> 1).expect("FUTEX_WAKE on a live word");
}

const EMPTY: u32 = 0;
const NOTIFIED: u32 = 1;
const WAITING: u32 = 2;

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
        let thread = thread::spawn(move || {
            for _ in 0..50_000 {
                other.0.wait(None);
                other.1.notify();
            }
        });
        for _ in 0..50_000 {
            pair.0.notify();
            pair.1.wait(None);
        }
        thread.join().unwrap();
    }
}
