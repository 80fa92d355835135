//! What everybody reads out of records in the same way.

use serde::{Deserialize, Serialize};

use super::{Cell, Counts, Kind, Level, Manifest, Quantiles, Status};
use crate::profile::{Gates, Slo, Sweep};
use crate::summary::Extent;
use crate::validity::{OVERLOAD, SYNCS_SEEN};

/// What a disk is that is not hardware as it is; of one that is, nothing of this is true.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct NotHardware {
    /// It was emulated: the figures say nothing about real hardware.
    pub emulated: bool,
    /// Its file system lived in memory, where a power cut takes all.
    pub in_memory: bool,
    /// It was simulated in virtual time: the figures are those of a model.
    pub simulated: bool,
}

impl NotHardware {
    /// What is true of either of two.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            emulated: self.emulated || other.emulated,
            in_memory: self.in_memory || other.in_memory,
            simulated: self.simulated || other.simulated,
        }
    }

    /// The words for it, the most important first; none if it is hardware.
    pub fn words(self) -> impl Iterator<Item = &'static str> {
        let Self { emulated, in_memory, simulated } = self;
        [(simulated, "SIMULATED"), (emulated, "EMULATED"), (in_memory, "in memory")]
            .into_iter()
            .filter_map(|(is_so, word)| is_so.then_some(word))
    }

    /// The first of them.
    pub fn word(self) -> Option<&'static str> {
        self.words().next()
    }
}

impl Kind {
    /// Whether it is a way to run a store: the raw loop is no log, and what is never flushed is no
    /// strategy.
    pub fn is_strategy(self) -> bool {
        !matches!(self, Self::None | Self::Raw)
    }
}

impl Cell {
    /// The latency that counts: from when a message was due where it was at a time, because what
    /// comes late is late from then on; else from its append.
    pub fn ack_ns(&self) -> Quantiles {
        self.open_loop.map_or(self.append_to_ack_ns, |open| open.due_to_ack_ns)
    }

    /// Whether more than one in a hundred messages was not acknowledged by its deadline: then no
    /// percentile up to the 99th says how long they take.
    pub fn is_too_often_late(&self) -> bool {
        let Counts { acked, timeouts, .. } = self.counts;
        timeouts.saturating_mul(100) > acked.saturating_add(timeouts)
    }

    /// Whether more was due than it could take.
    pub fn is_overloaded(&self) -> bool {
        self.status == Status::Overload || self.did_not_pass(OVERLOAD)
    }

    /// Whether others were at the disk meanwhile, as the workload asked.
    pub fn is_disturbed(&self) -> bool {
        self.reader || self.deletes_every_ms.is_some()
    }

    /// What its disk was, if not hardware.
    pub fn not_hardware(&self) -> NotHardware {
        NotHardware {
            emulated: self.emulated,
            in_memory: self.did_not_pass("in_memory"),
            simulated: self.simulated,
        }
    }

    /// How far it was seen what a power cut would take: what lies in memory is lost whole, and what
    /// is never flushed grows for ever.
    pub fn power_extent(&self) -> Extent {
        if self.not_hardware().in_memory {
            Extent::Everything
        } else if self.kind == Kind::None || self.did_not_pass(SYNCS_SEEN) {
            Extent::AtLeast
        } else {
            Extent::Measured
        }
    }

    /// Whether the check of this code was made and had something to say.
    pub fn did_not_pass(&self, code: &str) -> bool {
        self.validity.iter().any(|check| check.code == code && check.level > Level::Pass)
    }
}

impl Manifest {
    /// The gates that held; the usual ones where they were not recorded.
    pub fn gates(&self) -> Gates {
        self.gates.unwrap_or_default()
    }

    /// The profile as it was written down; `None` if it cannot be read any more.
    pub fn sweep(&self) -> Option<Sweep> {
        Sweep::parse("profile.yaml", &self.profile).ok()
    }

    /// What was asked of the figures; nothing where it was not recorded.
    pub fn slo(&self) -> Slo {
        self.slo.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::results::OpenLoop;
    use crate::results_fixture::{cell, manifest, open_loop};

    #[test]
    fn the_raw_loop_and_what_is_never_flushed_are_no_strategies() {
        let kinds = [Kind::CommitRealtime, Kind::FlushRealtime, Kind::GroupCommit];
        assert!(kinds.into_iter().all(Kind::is_strategy));
        assert!(!Kind::None.is_strategy() && !Kind::Raw.is_strategy());
    }

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

    #[test]
    fn what_a_profile_asks_is_recorded_and_read_again() {
        let asked = Slo { ack_p99: Some(Duration::from_millis(10)), power_loss_rpo: None };
        let gates = Gates { min_effect_pct: 20, ..Gates::default() };
        let written = Manifest { slo: Some(asked), gates: Some(gates), ..manifest() };
        let mut record = serde_json::to_value(written).unwrap();
        assert_eq!(record["slo"], json!({"ack_p99_ms": 10, "power_loss_rpo_ms": null}));
        let read: Manifest = serde_json::from_value(record.clone()).unwrap();
        assert_eq!((read.slo(), read.gates()), (asked, gates));
        // As runs before it have none.
        for name in ["slo", "gates"] {
            record.as_object_mut().unwrap().remove(name);
        }
        let read: Manifest = serde_json::from_value(record).unwrap();
        assert_eq!((read.slo(), read.gates()), (Slo::default(), Gates::default()));
    }
}
