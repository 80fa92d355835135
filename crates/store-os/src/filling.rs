//! Zeroes for a segment that is made: written while nobody writes anything else to it.

use std::ops::Range;
use std::sync::{PoisonError, TryLockError};

use rustix::io::Errno;
use store_core::{Nanos, length_u64};

use crate::blocks::Blocks;
use crate::clock::monotonic;
use crate::sync::{AtomicBool, AtomicU64, Mutex, Ordering};

/// Keeps the zeroes of a segment away from what is written to it.
#[derive(Debug, Default)]
pub(crate) struct Filling {
    is_used: AtomicBool,
    has_ended: AtomicBool,
    piece: Mutex<()>,
    /// Where the next piece begins.
    filled: AtomicU64,
}

impl Filling {
    /// Writes a piece of zeroes, unless the segment is used by now: `None` then.
    fn unless_used<T>(&self, write: impl FnOnce() -> T) -> Option<T> {
        let _piece = self.piece.lock().unwrap_or_else(PoisonError::into_inner);
        (!self.is_used.load(Ordering::SeqCst)).then(write)
    }

    /// The segment is about to be taken: no piece begins any more; `false` while one is under way.
    pub(crate) fn try_end(&self) -> bool {
        if !self.has_ended.load(Ordering::Acquire) {
            self.is_used.store(true, Ordering::SeqCst);
            let is_free = match self.piece.try_lock() {
                Ok(_) | Err(TryLockError::Poisoned(_)) => true,
                Err(TryLockError::WouldBlock) => false,
            };
            if is_free {
                self.has_ended.store(true, Ordering::Release);
            }
        }
        self.has_ended.load(Ordering::Acquire)
    }

    /// The segment is about to be written to: no piece begins any more, and one that is under way
    /// has ended when this returns. Whoever took it has ended them already.
    pub(crate) fn end(&self) {
        if !self.has_ended.load(Ordering::Acquire) {
            self.is_used.store(true, Ordering::SeqCst);
            drop(self.piece.lock().unwrap_or_else(PoisonError::into_inner));
            self.has_ended.store(true, Ordering::Release);
        }
    }

    /// Goes on to fill the first `bytes` by `write`, which makes zeroes durable at a place, until
    /// the segment is used, `pace` ends it or a write fails. All of that is well: the blocks are
    /// there already, and writes to those that were not filled only cost more.
    pub(crate) fn run(
        &self,
        bytes: u64,
        pace: &dyn Pace,
        mut write: impl FnMut(&[u8], u64) -> Result<(), Errno>,
    ) {
        let from = self.filled.load(Ordering::SeqCst);
        let _ended_early = fill(from..bytes, pace, |zeroes, at, _| {
            self.unless_used(|| write(zeroes, at)).unwrap_or(Err(Errno::CANCELED))?;
            self.filled.store(at + length_u64(zeroes.len()), Ordering::SeqCst);
            // Who takes it may be waiting for just this piece.
            if self.is_used.load(Ordering::SeqCst) { Err(Errno::CANCELED) } else { Ok(()) }
        });
    }
}

/// Writes zeroes over a range of a file, in pieces, as fast as `pace` says.
pub(crate) fn fill(
    range: Range<u64>,
    pace: &dyn Pace,
    mut write: impl FnMut(&[u8], u64, Haste) -> Result<(), Errno>,
) -> Result<(), Errno> {
    static ZEROES: Blocks<PIECE> = Blocks([0; PIECE]);
    let mut at = range.start;
    let mut took = Nanos::default();
    while at < range.end {
        let haste = pace.haste(at, range.end)?;
        if haste != Haste::Wait {
            let begun = monotonic();
            let len = usize::try_from(range.end - at).unwrap_or(PIECE).min(PIECE);
            write(&ZEROES.0[..len], at, haste)?;
            at += length_u64(len);
            took = monotonic().since(begun);
        }
        if haste != Haste::Hurry && at < range.end {
            pace.rest(took);
        }
    }
    Ok(())
}

/// How fast a segment is filled with zeroes.
pub(crate) trait Pace {
    /// What to do when so many bytes of all are filled.
    ///
    /// # Errors
    ///
    /// If filling is to end.
    fn haste(&self, filled: u64, of: u64) -> Result<Haste, Errno>;

    /// Lets others through for as long as a piece took.
    fn rest(&self, took: Nanos);
}

/// What a look at the others says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Haste {
    /// One piece after the other.
    Hurry,
    /// A piece, and a rest.
    Share,
    /// A rest.
    Wait,
}

/// As fast as it goes, until told to stop.
pub(crate) struct InOneGo<'a>(pub(crate) &'a AtomicBool);

impl Pace for InOneGo<'_> {
    fn haste(&self, _filled: u64, _of: u64) -> Result<Haste, Errno> {
        if self.0.load(Ordering::SeqCst) { Err(Errno::CANCELED) } else { Ok(Haste::Hurry) }
    }

    fn rest(&self, _took: Nanos) {}
}

/// 1 MiB: large writes fill fastest. (Only positioned and direct writes use zeroed segments; under
/// a mapping the large folios that this makes would be written whole at each sync.)
pub(crate) const PIECE: usize = 1 << 20;

#[cfg(modelled = "loom")]
#[cfg(test)]
mod models;

#[cfg(not(modelled))]
#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::sync::atomic::AtomicBool as Plain;

    use super::*;

    /// Says what it was told to, one after the other; then that it is over.
    struct Scripted {
        says: RefCell<Vec<Haste>>,
        rests: RefCell<u32>,
    }

    impl Pace for Scripted {
        fn haste(&self, _filled: u64, _of: u64) -> Result<Haste, Errno> {
            self.says.borrow_mut().pop().ok_or(Errno::CANCELED)
        }

        fn rest(&self, _took: Nanos) {
            *self.rests.borrow_mut() += 1;
        }
    }

    fn run(filling: &Filling, bytes: u64, says: &[Haste]) -> (Vec<(u64, u64)>, u32) {
        let says: Vec<_> = says.iter().rev().copied().collect();
        let pace = Scripted { says: says.into(), rests: 0.into() };
        let mut written = Vec::new();
        filling.run(bytes, &pace, |zeroes, at| {
            assert!(zeroes.iter().all(|byte| *byte == 0));
            written.push((at, length_u64(zeroes.len())));
            Ok(())
        });
        (written, pace.rests.into_inner())
    }

    const MIB: u64 = 1 << 20;

    #[test]
    fn pieces_follow_each_other_with_rests_and_go_on_where_they_were_left() {
        let filling = Filling::default();
        let bytes = 4 * MIB + 10;
        let says = [Haste::Hurry, Haste::Wait, Haste::Share];
        assert_eq!(run(&filling, bytes, &says), (vec![(0, MIB), (MIB, MIB)], 2));
        let rest = vec![(2 * MIB, MIB), (3 * MIB, MIB), (4 * MIB, 10)];
        assert_eq!(run(&filling, bytes, &[Haste::Share; 9]), (rest, 2));
        assert_eq!(run(&filling, bytes, &[Haste::Share; 9]), (vec![], 0), "all is filled");
    }

    #[test]
    fn a_piece_that_fails_is_the_last() {
        let filling = Filling::default();
        let mut tried = 0;
        filling.run(3 * MIB, &InOneGo(&AtomicBool::new(false)), |_, _| {
            tried += 1;
            Err(Errno::IO)
        });
        assert_eq!(tried, 1);
    }

    #[test]
    fn who_uses_the_segment_waits_for_the_piece_under_way_and_none_follows() {
        let filling = Filling::default();
        let is_over = Plain::new(false);
        std::thread::scope(|scope| {
            let (begun, begins) = std::sync::mpsc::channel();
            let (filling, is_over) = (&filling, &is_over);
            scope.spawn(move || {
                let mut pieces = 0;
                filling.run(9 * MIB, &InOneGo(&AtomicBool::new(false)), |_, _| {
                    pieces += 1;
                    begun.send(()).unwrap();
                    while !filling.is_used.load(Ordering::SeqCst) {
                        std::thread::yield_now();
                    }
                    is_over.store(true, Ordering::SeqCst);
                    Ok(())
                });
                assert_eq!(pieces, 1);
            });
            begins.recv().unwrap();
            filling.end();
            assert!(is_over.load(Ordering::SeqCst));
            filling.end();
        });
    }
}
