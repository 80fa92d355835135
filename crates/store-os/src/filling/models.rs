//! Zeroes and what is written to the segment never meet, under every interleaving.

use std::sync::Arc;

use loom::thread;

use super::{Filling, InOneGo, PIECE};
use crate::sync::{AtomicBool, Places, explore};

#[test]
fn no_zero_is_written_once_the_segment_is_used() {
    explore(3, || {
        let filling = Arc::new(Filling::default());
        let bytes = Arc::new(Places::new(1));
        let (theirs, seen) = (Arc::clone(&filling), Arc::clone(&bytes));
        let filler = thread::spawn(move || {
            let pace = InOneGo(&AtomicBool::new(false));
            theirs.run(2 * store_core::length_u64(PIECE), &pace, |_, _| {
                seen.write(0, 1);
                Ok(())
            });
        });
        for _ in 0..2 {
            filling.end();
            bytes.write(0, 1);
        }
        filler.join().unwrap();
    });
}
