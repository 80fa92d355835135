//! Whose turn it is to act for a lane: at most one thread, and no request to act is lost.

use crate::sync::{AtomicU32, Ordering};

/// A lock that is never waited for: who does not get it leaves a note for who has it.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    state: AtomicU32,
}

impl Turn {
    /// Takes the turn, or leaves a note and returns `false`.
    pub(crate) fn take(&self) -> bool {
        loop {
            let taken =
                self.state.compare_exchange(FREE, TAKEN, Ordering::SeqCst, Ordering::SeqCst);
            if taken.is_ok() {
                return true;
            }
            let noted =
                self.state.compare_exchange(TAKEN, NOTED, Ordering::SeqCst, Ordering::SeqCst);
            if noted != Err(FREE) {
                return false;
            }
        }
    }

    /// Gives the turn back; `true` if someone wanted it meanwhile, who must not be forgotten.
    #[must_use]
    pub(crate) fn give_back(&self) -> bool {
        self.state.swap(FREE, Ordering::SeqCst) == NOTED
    }
}

const FREE: u32 = 0;
const TAKEN: u32 = 1;
const NOTED: u32 = 2;

#[cfg(modelled = "loom")]
#[cfg(test)]
mod models;

#[cfg(not(modelled))]
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_turn_leaves_a_note() {
        let turn = Turn::default();
        assert!(turn.take());
        assert!(!turn.take());
        assert!(!turn.take());
        assert!(turn.give_back());
        assert!(turn.take());
        assert!(!turn.give_back());
    }
}
