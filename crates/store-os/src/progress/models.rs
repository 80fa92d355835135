//! Every waiter is told, once, and the truth, under every interleaving; marks never go back.
//!
//! A waiter that is never told sleeps for ever, which loom reports.

use std::sync::Arc;
use std::task::{Poll, Wake, Waker};

use loom::thread;
use rustix::io::Errno;
use store_core::{LogOffset, Nanos};

use super::Progress;
use crate::error::{AckError, Error, Op};
use crate::signal::{Signal, has_passed};
use crate::sync::{AtomicU32, Ordering, explore, explore_seq_cst};

fn at(offset: u64) -> LogOffset {
    LogOffset::new(offset)
}

fn new() -> Arc<Progress> {
    Arc::new(Progress::new(at(0)))
}

/// What a sync of everything below `upto` does to the marks.
fn sync(progress: &Progress, upto: u64) {
    progress.set_committed(at(upto));
    progress.begin_round(at(upto));
    progress.complete_round();
}

fn refusal() -> Error {
    Error::new(Op::Sync, std::path::Path::new("segment"), Errno::IO)
}

/// A task that polls one ticket again when it is woken.
#[derive(Default)]
struct Task {
    signal: Signal,
    woken: AtomicU32,
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.woken.fetch_add(1, Ordering::SeqCst);
        self.signal.notify();
    }
}

/// Awaits the flush of `end` as a ticket does, and drops it.
fn block_on(progress: &Progress, end: LogOffset, deadline: Option<Nanos>) -> Result<(), AckError> {
    let task = Arc::new(Task::default());
    let waker = Waker::from(Arc::clone(&task));
    let mut ticket = None;
    let mut polls = 0;
    let outcome = loop {
        polls += 1;
        match progress.poll(&mut ticket, end, &waker, deadline) {
            Poll::Ready(outcome) => break outcome,
            Poll::Pending if has_passed(deadline) => break Err(AckError::FlushTimedOut),
            Poll::Pending => task.signal.wait(None),
        }
    };
    if let Some(ticket) = ticket {
        progress.unregister(ticket, end);
    }
    assert!(task.woken.load(Ordering::SeqCst) <= polls, "woken more often than it asked for");
    outcome
}

#[track_caller]
fn assert_forgotten(progress: &Progress) {
    let sleepers = progress.sleepers();
    assert!(sleepers.by_end.is_empty() && sleepers.by_deadline.is_empty(), "{sleepers:?}");
}

#[test]
fn a_blocked_waiter_hears_the_first_or_the_second_of_two_syncs() {
    for end in [10, 20] {
        explore(3, move || {
            let progress = new();
            let other = Arc::clone(&progress);
            let waiter = thread::spawn(move || {
                other.wait(at(end), None).unwrap();
                assert!(other.flushed() >= at(end));
            });
            sync(&progress, 10);
            sync(&progress, 20);
            waiter.join().unwrap();
        });
    }
}

#[test]
fn a_blocked_waiter_is_found_by_the_third_sync_when_the_words_come_round() {
    explore(3, move || {
        let progress = new();
        let other = Arc::clone(&progress);
        let waiter = thread::spawn(move || other.wait(at(30), None).unwrap());
        for upto in [10, 20, 30] {
            sync(&progress, upto);
        }
        waiter.join().unwrap();
    });
}

#[test]
fn two_blocked_waiters_each_hear_their_sync() {
    explore(2, || {
        let progress = new();
        let waiters = [10, 20].map(|end| {
            let progress = Arc::clone(&progress);
            thread::spawn(move || progress.wait(at(end), None).unwrap())
        });
        sync(&progress, 10);
        sync(&progress, 20);
        for waiter in waiters {
            waiter.join().unwrap();
        }
    });
}

#[test]
fn a_future_hears_the_first_or_the_second_of_two_syncs() {
    for end in [10, 20] {
        explore(3, move || {
            let progress = new();
            let other = Arc::clone(&progress);
            let waiter = thread::spawn(move || block_on(&other, at(end), None).unwrap());
            sync(&progress, 10);
            sync(&progress, 20);
            waiter.join().unwrap();
            assert_forgotten(&progress);
        });
    }
}

#[test]
fn a_failed_sync_reaches_who_waits_and_no_later_one_undoes_it() {
    explore(3, || {
        let progress = new();
        let [blocked, future] = [true, false].map(|blocks| {
            let progress = Arc::clone(&progress);
            thread::spawn(move || {
                if blocks { progress.wait(at(10), None) } else { block_on(&progress, at(10), None) }
            })
        });
        progress.begin_round(at(10));
        progress.fail(&refusal());
        for waiter in [blocked, future] {
            let told = waiter.join().unwrap();
            assert!(matches!(told, Err(AckError::Poisoned(_))), "{told:?}");
        }
        assert_forgotten(&progress);
    });
}

#[test]
fn of_two_failures_one_is_the_first_for_everyone() {
    explore(3, || {
        let progress = new();
        let other = Arc::clone(&progress);
        let failing = thread::spawn(move || {
            other.fail(&Error::new(Op::Write, std::path::Path::new("segment"), Errno::NOSPC));
            other.poison().unwrap().first.source
        });
        progress.fail(&refusal());
        let seen = progress.poison().unwrap().first.source;
        assert_eq!(failing.join().unwrap(), seen);
    });
}

#[test]
fn a_drain_that_flushes_the_record_is_never_told_as_closed() {
    for blocks in [true, false] {
        explore(3, move || {
            let progress = new();
            let other = Arc::clone(&progress);
            let waiter = thread::spawn(move || {
                let end = at(10);
                if blocks { other.wait(end, None) } else { block_on(&other, end, None) }
            });
            sync(&progress, 10);
            progress.stop();
            assert!(waiter.join().unwrap().is_ok());
        });
    }
}

#[test]
fn a_log_that_stops_lets_go_of_who_waits() {
    for blocks in [true, false] {
        explore(3, move || {
            let progress = new();
            let other = Arc::clone(&progress);
            let waiter = thread::spawn(move || {
                let end = at(11);
                if blocks { other.wait(end, None) } else { block_on(&other, end, None) }
            });
            sync(&progress, 10);
            progress.stop();
            assert!(matches!(waiter.join().unwrap(), Err(AckError::Closed)));
        });
    }
}

#[test]
fn a_blocked_waiter_is_told_in_time_or_that_it_was_late() {
    explore(3, || {
        let progress = new();
        let deadline = Nanos::new(10);
        let other = Arc::clone(&progress);
        let waiter = thread::spawn(move || other.wait(at(10), Some(deadline)));
        let other = Arc::clone(&progress);
        let clock =
            thread::spawn(move || other.words.each_ref().map(|word| word.pass_time(deadline)));
        progress.begin_round(at(10));
        clock.join().unwrap();
        let told = waiter.join().unwrap();
        assert!(matches!(told, Err(AckError::FlushTimedOut)), "{told:?}");
    });
}

#[test]
fn a_future_is_told_in_time_or_that_it_was_late() {
    // `stop` leaves a permit alone that is there already, and relies on the order of `SeqCst` for
    // whoever takes that one to see that the log has stopped.
    explore_seq_cst(2, || {
        let progress = new();
        let deadline = Nanos::new(10);
        let keeper = Arc::clone(&progress);
        let keeper = thread::spawn(move || keeper.keep_deadlines());
        let other = Arc::clone(&progress);
        let waiter = thread::spawn(move || block_on(&other, at(10), Some(deadline)));
        progress.timekeeper.pass_time(deadline);
        let told = waiter.join().unwrap();
        assert!(matches!(told, Err(AckError::FlushTimedOut)), "{told:?}");
        progress.stop();
        keeper.join().unwrap();
        assert_forgotten(&progress);
    });
}

#[test]
fn a_ticket_that_is_dropped_while_a_sync_ends_leaves_nothing_behind() {
    for end in [10, 20] {
        explore(3, move || {
            let progress = new();
            let other = Arc::clone(&progress);
            let dropper = thread::spawn(move || {
                let waker = Waker::from(Arc::new(Task::default()));
                let mut ticket = None;
                let _ = other.poll(&mut ticket, at(end), &waker, Some(Nanos::new(10)));
                if let Some(ticket) = ticket {
                    other.unregister(ticket, at(end));
                }
            });
            sync(&progress, 10);
            dropper.join().unwrap();
            assert_forgotten(&progress);
        });
    }
}

#[test]
fn marks_keep_their_order_and_never_go_back() {
    explore(3, || {
        let progress = new();
        let other = Arc::clone(&progress);
        let reader = thread::spawn(move || {
            let mut before = [at(0); 3];
            for _ in 0..2 {
                let flushed = other.flushed();
                let committed = other.committed();
                let wrote = other.wrote();
                assert!(flushed <= committed && committed <= wrote);
                let now = [flushed, committed, wrote];
                assert!(before.iter().zip(&now).all(|(before, now)| before <= now));
                before = now;
            }
        });
        for upto in [10, 20] {
            progress.set_wrote(at(upto));
            sync(&progress, upto);
        }
        reader.join().unwrap();
    });
}
