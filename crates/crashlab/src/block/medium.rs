//! A device's contents behind its volatile write cache, shared by the threads that serve it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::device::{Device, Keep, Position};

/// The contents of one device. Writes are volatile until a flush that was issued after they
/// completed has completed itself.
#[derive(Debug)]
pub(super) struct Medium {
    bytes: u64,
    cache_bytes: u64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    device: Device,
    /// Bytes written since the cache was empty.
    cached: u64,
}

impl Medium {
    /// A device of `bytes` that holds zeroes. When more than `cache_bytes` were written without a
    /// flush, all of it becomes durable by itself.
    pub(super) fn new(bytes: u64, cache_bytes: u64) -> Self {
        Self::of(Device::new(bytes), cache_bytes)
    }

    fn of(device: Device, cache_bytes: u64) -> Self {
        let bytes = device.len();
        Self { bytes, cache_bytes, state: Mutex::new(State { device, cached: 0 }) }
    }

    /// Its size.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The bytes at `offset`, at most `len`, less at the end.
    pub(super) fn read(&self, offset: u64, len: usize) -> Vec<u8> {
        let mut out = vec![0; self.room(offset).min(len)];
        if !out.is_empty() {
            self.state().device.read(offset, &mut out);
        }
        out
    }

    /// Completes a write: reads see it, and the volatile cache holds it.
    ///
    /// What would reach beyond the end is left out.
    pub(super) fn write(&self, offset: u64, bytes: &[u8]) {
        let bytes = &bytes[..bytes.len().min(self.room(offset))];
        if bytes.is_empty() {
            return;
        }
        let len = store_core::length_u64(bytes.len());
        // File systems fill journals and tables with zeroes, which take no memory.
        let is_zero = bytes.iter().all(|byte| *byte == 0);
        let mut state = self.state();
        if is_zero {
            state.device.zero(offset, len);
        } else {
            state.device.write(offset, bytes);
        }
        state.cached += len;
        if self.cache_bytes < state.cached {
            let completed = state.device.position();
            state.flush(completed);
        }
    }

    /// What a flush that is issued now will cover.
    pub(super) fn completed(&self) -> Position {
        self.state().device.position()
    }

    /// Completes a flush that was issued at `covered`.
    pub(super) fn flush(&self, covered: Position) {
        self.state().flush(covered);
    }

    /// A device as this one would be after a power cut now, and where in the order of writes that
    /// is. This one goes on.
    pub(super) fn cut(&self, keep: Keep, seed: u64) -> (Self, Position) {
        let (image, position) = {
            let state = self.state();
            (state.device.cut(keep, seed), state.device.position())
        };
        (Self::of(Device::of(image), self.cache_bytes), position)
    }

    /// Bytes that a power cut could take, in whole units.
    pub(super) fn volatile_bytes(&self) -> u64 {
        self.state().device.unflushed_bytes()
    }

    fn room(&self, offset: u64) -> usize {
        usize::try_from(self.bytes.saturating_sub(offset)).unwrap_or(usize::MAX)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn flush(&mut self, covered: Position) {
        self.device.flush(covered);
        self.cached = self.device.unflushed_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after_cut(medium: &Medium, keep: Keep) -> Vec<u8> {
        let (view, _) = medium.cut(keep, 1);
        [0, 4096, 8192].map(|at| view.read(at, 1)[0]).to_vec()
    }

    #[test]
    fn nothing_lies_beyond_the_end() {
        let medium = Medium::new(8192, u64::MAX);
        medium.write(8000, &[1; 500]);
        assert_eq!(medium.read(8191, 10), [1]);
        assert_eq!(medium.read(9000, 10), []);
        medium.write(8192, &[1; 500]);
    }

    #[test]
    fn what_is_written_to_a_view_stays_there() {
        let medium = Medium::new(1 << 20, u64::MAX);
        medium.write(0, &[1; 4096]);
        let (view, _) = medium.cut(Keep::All, 0);
        view.write(0, &[7; 4096]);
        assert_eq!((view.read(0, 1), medium.read(0, 1)), (vec![7], vec![1]));
    }

    #[test]
    fn a_full_cache_is_written_out() {
        let medium = Medium::new(1 << 20, 2 * 4096);
        for (at, byte) in [(0, 1), (4096, 2)] {
            medium.write(at, &[byte; 4096]);
        }
        assert_eq!(after_cut(&medium, Keep::None), [0, 0, 0]);
        medium.write(8192, &[3; 4096]);
        assert_eq!(after_cut(&medium, Keep::None), [1, 2, 3]);
        medium.write(8192, &[0; 4096]);
        assert_eq!(after_cut(&medium, Keep::None), [1, 2, 3]);
        assert_eq!(after_cut(&medium, Keep::All), [1, 2, 0]);
        medium.flush(medium.completed());
        assert_eq!((after_cut(&medium, Keep::None), medium.volatile_bytes()), (vec![1, 2, 0], 0));
    }
}
