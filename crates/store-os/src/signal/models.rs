//! No notification is lost, under every interleaving: a lost one leaves the waiting thread asleep
//! for ever, which loom reports.

use std::sync::Arc;

use loom::thread;

use super::{EMPTY, NOTIFIED, Signal};
use crate::sync::{Mutex, Ordering, explore};
use store_core::Nanos;

/// A signal and what it tells of, which lies behind a lock as the log's end does.
#[derive(Default)]
struct Box {
    signal: Signal,
    posted: Mutex<u32>,
}

impl Box {
    fn post(&self) {
        *self.posted.lock().unwrap() += 1;
        self.signal.notify();
    }

    fn posted(&self) -> u32 {
        *self.posted.lock().unwrap()
    }
}

fn check(notifiers: u32, each: u32) {
    explore(3, move || {
        let shared = Arc::new(Box::default());
        let threads: Vec<_> = (0..notifiers)
            .map(|_| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || (0..each).for_each(|_| shared.post()))
            })
            .collect();
        while shared.posted() < notifiers * each {
            shared.signal.wait(None);
        }
        for thread in threads {
            thread.join().unwrap();
        }
        let state = shared.signal.state.load(Ordering::SeqCst);
        assert!(state == EMPTY || state == NOTIFIED, "a sleeper's mark stayed");
    });
}

#[test]
fn one_notifier_of_two_posts_is_heard() {
    check(1, 2);
}

#[test]
fn two_notifiers_are_both_heard() {
    check(2, 1);
}

#[test]
fn a_permit_that_comes_as_the_time_runs_out_is_kept() {
    explore(3, || {
        let shared = Arc::new(Box::default());
        let poster = Arc::clone(&shared);
        let poster = thread::spawn(move || poster.post());
        let clock = Arc::clone(&shared);
        let clock = thread::spawn(move || clock.signal.pass_time(Nanos::new(10)));
        shared.signal.wait(Some(Nanos::new(10)));
        // The time is over or the post was heard; if it was not, its permit must be there still.
        while shared.posted() == 0 {
            shared.signal.wait(None);
        }
        poster.join().unwrap();
        clock.join().unwrap();
        assert_ne!(shared.signal.state.load(Ordering::SeqCst), super::WAITING);
    });
}
