//! Whoever wants to act leaves either its own mark or a note, under every interleaving.

use std::sync::Arc;

use loom::thread;

use super::Turn;
use crate::sync::{AtomicU32, Ordering, Places, explore};

/// Turn, what is asked for, and what the holder alone touches.
struct Desk {
    turn: Turn,
    asked: AtomicU32,
    acting: Places,
}

impl Desk {
    /// As a lane's thread does: asks, then acts until nobody wanted the turn meanwhile.
    fn ask(&self) {
        self.asked.fetch_add(1, Ordering::SeqCst);
        while self.turn.take() {
            self.acting.write(0, 1);
            self.asked.swap(0, Ordering::SeqCst);
            if !self.turn.give_back() {
                return;
            }
        }
    }
}

fn check(threads: u32) {
    explore(3, move || {
        let turn = Turn::default();
        let desk = Arc::new(Desk { turn, asked: AtomicU32::new(0), acting: Places::new(1) });
        let others: Vec<_> = (1..threads)
            .map(|_| {
                let desk = Arc::clone(&desk);
                thread::spawn(move || desk.ask())
            })
            .collect();
        desk.ask();
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(desk.asked.load(Ordering::SeqCst), 0, "a request was forgotten");
        assert!(desk.turn.take(), "the turn was not given back");
    });
}

#[test]
fn two_threads_act_one_at_a_time_and_forget_no_request() {
    check(2);
}

#[test]
fn three_threads_act_one_at_a_time_and_forget_no_request() {
    check(3);
}
