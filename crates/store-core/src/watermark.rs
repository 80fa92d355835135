//! The three marks of a log and what must hold between them.

use crate::LogOffset;

/// How far a log has come: `flushed ≤ committed ≤ wrote`, always.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Watermarks {
    wrote: LogOffset,
    committed: LogOffset,
    flushed: LogOffset,
}

impl Watermarks {
    /// The three marks.
    ///
    /// # Panics
    ///
    /// If they are out of order: a mark that runs ahead would acknowledge bytes that can be lost.
    pub fn new(wrote: LogOffset, committed: LogOffset, flushed: LogOffset) -> Self {
        assert!(
            flushed <= committed && committed <= wrote,
            "flushed {flushed} ≤ committed {committed} ≤ wrote {wrote} does not hold"
        );
        Self { wrote, committed, flushed }
    }

    /// End of the bytes placed in the mapping or in the staging buffer.
    pub const fn wrote(&self) -> LogOffset {
        self.wrote
    }

    /// End of the bytes that the page cache holds; what a process crash leaves.
    pub const fn committed(&self) -> LogOffset {
        self.committed
    }

    /// End of the bytes that a successful sync covers; what a power cut leaves.
    pub const fn flushed(&self) -> LogOffset {
        self.flushed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "flushed 2 ≤ committed 1 ≤ wrote 3")]
    fn marks_out_of_order_stop_the_program() {
        let at = LogOffset::new;
        let _ = Watermarks::new(at(3), at(1), at(2));
    }
}
