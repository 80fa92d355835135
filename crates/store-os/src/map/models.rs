//! Writer and reader of the ring never touch the same byte, under every interleaving.

use loom::thread;

use super::ring;
use crate::sync::{Ordering, explore};

/// Stores pieces of these lengths into a ring of 8 bytes, and takes them out beside that.
fn check(lens: &'static [u64]) {
    explore(3, move || {
        let start = 1_000_003;
        let (mut writer, mut reader) = ring(8, start).unwrap();
        let total: u64 = lens.iter().sum();
        let storing = thread::spawn(move || {
            let mut next: u8 = 0;
            for len in lens {
                while writer.free() < *len {
                    thread::yield_now();
                }
                let behind = next + u8::try_from(*len).unwrap();
                let bytes: Vec<u8> = (next..behind).collect();
                writer.store(&bytes);
                next = behind;
                let mut back = vec![0; bytes.len()];
                assert!(writer.read_back(writer.stored() - len, &mut back));
                assert_eq!(back, bytes);
            }
        });
        let mut at = start;
        while at < start + total {
            let upto = reader.ring.stored.load(Ordering::Relaxed);
            if upto == at {
                thread::yield_now();
                continue;
            }
            let found: Vec<u8> = reader.slices(at, upto).concat();
            let expect: Vec<u8> =
                (at - start..upto - start).map(|n| u8::try_from(n).unwrap()).collect();
            assert_eq!(found, expect);
            reader.release(upto);
            at = upto;
        }
        storing.join().unwrap();
    });
}

#[test]
fn pieces_that_fill_the_ring_and_wrap_are_read_as_they_were_stored() {
    check(&[5, 3, 6]);
}

#[test]
fn a_ring_that_is_always_full_hands_each_place_over() {
    check(&[8, 8]);
}
