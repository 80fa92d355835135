//! A device's contents behind its volatile write cache, and what a power cut leaves of them.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::content::{Content, UNIT_BYTES, Unit, unit_of};
use super::survive::{Keep, Survivors};

/// The contents of one device. Writes are volatile until a flush that was issued after they
/// completed has completed itself.
#[derive(Debug)]
pub(super) struct Medium {
    bytes: u64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// What reads see.
    live: Content,
    /// What no power cut takes.
    durable: Content,
    /// The writes between the two, one entry for each unit, in the order of completion.
    volatile: VecDeque<Write>,
    /// Entries that were in `volatile` and are durable now: the number of its first one.
    settled: u64,
    /// Most entries that `volatile` holds; the oldest become durable beyond that.
    cache_units: usize,
}

#[derive(Clone, Debug)]
struct Write {
    unit: u64,
    to: Unit,
}

/// A place in the order of completed writes.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Position(pub(super) u64);

impl Medium {
    /// A device of `bytes`, a multiple of the unit, that holds zeroes.
    pub(super) fn new(bytes: u64, cache_bytes: u64) -> Self {
        Self::holding(Content::zeroes(bytes / unit_bytes()), bytes, cache_bytes)
    }

    fn holding(content: Content, bytes: u64, cache_bytes: u64) -> Self {
        let cache_units = usize::try_from(cache_bytes / unit_bytes()).unwrap_or(usize::MAX);
        let state = State {
            live: content.clone(),
            durable: content,
            volatile: VecDeque::new(),
            settled: 0,
            cache_units,
        };
        Self { bytes, state: Mutex::new(state) }
    }

    /// Its size.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The bytes at `offset`, at most `len`, less at the end.
    pub(super) fn read(&self, offset: u64, len: usize) -> Vec<u8> {
        let len = len.min(usize::try_from(self.bytes.saturating_sub(offset)).unwrap_or(len));
        let mut out = vec![0; len];
        for piece in pieces(offset, len) {
            // The lock is held for a reference alone, so that a copy delays no write.
            let unit = self.state().live.get(piece.unit);
            if let Some(unit) = unit {
                out[piece.at..piece.at + piece.len]
                    .copy_from_slice(&unit[piece.within..piece.within + piece.len]);
            }
        }
        out
    }

    /// Completes a write: reads see it, and the volatile cache holds it.
    ///
    /// What would reach beyond the end is left out.
    pub(super) fn write(&self, offset: u64, bytes: &[u8]) {
        let room = usize::try_from(self.bytes.saturating_sub(offset)).unwrap_or(usize::MAX);
        let bytes = &bytes[..bytes.len().min(room)];
        let whole: Vec<_> = pieces(offset, bytes.len())
            .map(|piece| {
                let part = &bytes[piece.at..piece.at + piece.len];
                (piece, <&[u8; UNIT_BYTES]>::try_from(part).ok().map(unit_of))
            })
            .collect();
        let mut state = self.state();
        for (piece, whole) in whole {
            let to = whole.unwrap_or_else(|| {
                let mut unit = state.live.get(piece.unit).map_or([0; UNIT_BYTES], |unit| *unit);
                unit[piece.within..piece.within + piece.len]
                    .copy_from_slice(&bytes[piece.at..piece.at + piece.len]);
                unit_of(&unit)
            });
            state.live.set(piece.unit, to.clone());
            state.volatile.push_back(Write { unit: piece.unit, to });
        }
        let surplus = state.volatile.len().saturating_sub(state.cache_units);
        state.settle(surplus);
    }

    /// What a flush that is issued now will cover.
    pub(super) fn completed(&self) -> Position {
        let state = self.state();
        state.completed()
    }

    /// Completes a flush that was issued at `covered`.
    pub(super) fn flush(&self, covered: Position) {
        let mut state = self.state();
        let count = covered.0.saturating_sub(state.settled);
        state.settle(usize::try_from(count).unwrap_or(usize::MAX));
    }

    /// A device as this one would be after a power cut now, and where in the order of writes that
    /// is. This one goes on.
    pub(super) fn cut(&self, keep: Keep, seed: u64) -> (Self, Position) {
        let (mut content, volatile, position, cache_units) = {
            let state = self.state();
            let volatile: Vec<_> = state.volatile.iter().cloned().collect();
            (state.durable.clone(), volatile, state.completed(), state.cache_units)
        };
        let units: Vec<_> = volatile.iter().map(|write| write.unit).collect();
        for index in Survivors::choose(keep, seed, &units) {
            let write = &volatile[index];
            content.set(write.unit, write.to.clone());
        }
        let cache_bytes = store_core::length_u64(cache_units).saturating_mul(unit_bytes());
        (Self::holding(content, self.bytes, cache_bytes), position)
    }

    /// Units of the volatile cache in use.
    pub(super) fn volatile_units(&self) -> u64 {
        store_core::length_u64(self.state().volatile.len())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn completed(&self) -> Position {
        Position(self.settled + store_core::length_u64(self.volatile.len()))
    }

    /// Makes the oldest `count` volatile writes durable.
    fn settle(&mut self, count: usize) {
        let count = count.min(self.volatile.len());
        for write in self.volatile.drain(..count) {
            self.durable.set(write.unit, write.to);
        }
        self.settled += store_core::length_u64(count);
    }
}

/// A part of a range that lies in one unit.
#[derive(Clone, Copy, Debug)]
struct Piece {
    unit: u64,
    /// Where in the unit it begins.
    within: usize,
    /// Where in the range it begins.
    at: usize,
    len: usize,
}

fn pieces(offset: u64, len: usize) -> impl Iterator<Item = Piece> {
    let mut at = 0;
    std::iter::from_fn(move || {
        if at == len {
            return None;
        }
        let here = offset + store_core::length_u64(at);
        let within = usize::try_from(here % unit_bytes()).expect("less than a unit");
        let piece = Piece {
            unit: here / unit_bytes(),
            within,
            at,
            len: (UNIT_BYTES - within).min(len - at),
        };
        at += piece.len;
        Some(piece)
    })
}

fn unit_bytes() -> u64 {
    store_core::length_u64(UNIT_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn medium() -> Medium {
        Medium::new(1 << 20, u64::MAX)
    }

    fn after_cut(medium: &Medium, keep: Keep) -> Vec<u8> {
        let (view, _) = medium.cut(keep, 1);
        [0, 4096, 8192].map(|at| view.read(at, 1)[0]).to_vec()
    }

    #[test]
    fn a_flush_covers_what_completed_before_it_was_issued() {
        let medium = medium();
        medium.write(0, &[1; 4096]);
        let issued = medium.completed();
        medium.write(4096, &[2; 4096]);
        assert_eq!(after_cut(&medium, Keep::None), [0, 0, 0], "issued is not completed");
        medium.flush(issued);
        assert_eq!(after_cut(&medium, Keep::None), [1, 0, 0]);
        assert_eq!(after_cut(&medium, Keep::All), [1, 2, 0]);
        assert_eq!(medium.volatile_units(), 1);
    }

    #[test]
    fn a_write_shorter_than_a_unit_leaves_the_rest_of_it() {
        let medium = medium();
        medium.write(0, &[1; 8192]);
        medium.write(4000, &[2; 200]);
        let found = medium.read(3999, 202);
        assert_eq!((found[0], found[1], found[200], found[201]), (1, 2, 2, 1));
        assert_eq!(medium.read((1 << 20) - 1, 10), [0]);
    }

    #[test]
    fn what_is_written_to_a_view_stays_there() {
        let medium = medium();
        medium.write(0, &[1; 4096]);
        let (view, position) = medium.cut(Keep::All, 0);
        view.write(0, &[7; 4096]);
        assert_eq!((view.read(0, 1), medium.read(0, 1)), (vec![7], vec![1]));
        assert_eq!(position, Position(1));
    }

    #[test]
    fn a_full_cache_lets_go_of_its_oldest() {
        let medium = Medium::new(1 << 20, 2 * 4096);
        for at in 0..3_u8 {
            medium.write(u64::from(at) * 4096, &[at + 1; 4096]);
        }
        assert_eq!(after_cut(&medium, Keep::None), [1, 0, 0]);
        medium.flush(medium.completed());
        assert_eq!(after_cut(&medium, Keep::None), [1, 2, 3]);
    }
}
