//! What everybody reads out of records in the same way.

use super::{Cell, Quantiles};

impl Cell {
    /// The latency that counts: from when a message was due where it was at a time, because what
    /// comes late is late from then on; else from its append.
    pub fn ack_ns(&self) -> Quantiles {
        self.open_loop.map_or(self.append_to_ack_ns, |open| open.due_to_ack_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Kind, OpenLoop};
    use crate::results_fixture::{cell, open_loop};

    #[test]
    fn what_was_due_at_a_time_is_late_from_then_on() {
        let late = Quantiles { count: 1, p99: 700_000_000, ..Quantiles::default() };
        let closed = cell(Kind::GroupCommit, 8, 0, |_| {});
        assert_eq!(closed.ack_ns(), closed.append_to_ack_ns);
        let open = cell(Kind::GroupCommit, 8, 0, |c| {
            c.open_loop = Some(OpenLoop { due_to_ack_ns: late, ..open_loop() });
        });
        assert_eq!(open.ack_ns(), late);
    }
}
