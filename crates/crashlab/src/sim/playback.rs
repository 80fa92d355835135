//! A life that is played again, up to any moment, and cut there.

use store_core::{LogOffset, Nanos};
use store_os::Recovery;

use crate::check::{FoundRecord, read_all};
use crate::device::Keep;
use crate::device::files::Disk;
use crate::sim::disk::{SimFiles, empty_disk};
use crate::sim::faults::Faults;
use crate::sim::finding::{Finding, Wrong};
use crate::sim::journal::{Entry, Told, What};
use crate::sim::lies::Lie;
use crate::sim::life::open;
use crate::sim::plan::Plan;
use crate::sim::run::record;
use crate::witness::{Seen, Witness};

/// The first life of a plan, as it was at some moment.
///
/// [`run`](super::run) tries crashes at random places of what happened; this is for who wants them
/// at random moments of time.
#[derive(Debug)]
pub struct Playback {
    plan: Plan,
    lie: Option<Lie>,
    entries: Vec<Entry>,
    played: usize,
    disk: Disk,
    witness: Witness,
    flushed: LogOffset,
}

impl Playback {
    /// Lives the plan's first life, under a lie if one is given, and stands at its beginning.
    ///
    /// # Errors
    ///
    /// What was wrong in it already, if nobody lied.
    pub fn live(mut plan: Plan, lie: Option<Lie>) -> Result<Self, Finding> {
        plan.lives.truncate(1);
        let mut entries = Vec::new();
        let outcome = record(&plan, lie, &mut |_, lived| entries = lived.to_vec());
        match outcome.findings.into_iter().next() {
            Some(finding) if lie.is_none() => Err(finding),
            _ => {
                let witness = Witness::new(plan.shape);
                let (disk, flushed) = (empty_disk(), LogOffset::ZERO);
                Ok(Self { plan, lie, entries, played: 0, disk, witness, flushed })
            }
        }
    }

    /// Everything that happened in the life.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Plays on until everything that had happened at time `at` has happened.
    pub fn play_until(&mut self, at: Nanos) {
        while let Some(entry) = self.entries.get(self.played).filter(|entry| entry.at <= at) {
            match &entry.what {
                What::Changed(change) => self.disk.apply(change),
                What::Told(told) => match told {
                    Told::Acked(sent, mark) => self.witness.acked_at(*sent, *mark),
                    Told::Claimed(sent) => {
                        assert_eq!(self.witness.claim(sent.producer), *sent, "names are in order");
                    }
                    Told::Flushed(upto) | Told::Opened(_, upto) => self.flushed = *upto,
                    Told::Placed(sent, appended) => self.witness.placed(*sent, *appended),
                    Told::Refused(sent) => self.witness.refused(*sent),
                    Told::Closed
                    | Told::Poisoned
                    | Told::SyncBegan
                    | Told::SyncEnded
                    | Told::Unproven => {}
                },
            }
            self.played += 1;
        }
    }

    /// The log's own mark now: what lies below must survive.
    pub fn flushed(&self) -> LogOffset {
        self.flushed
    }

    /// What producers were told by now.
    pub fn seen(&self) -> Seen {
        self.witness.snapshot()
    }

    /// What is found when the power is cut now and the log opened again. The life itself goes on.
    ///
    /// # Errors
    ///
    /// [`Wrong::Refused`] or [`Wrong::Unreadable`] if it is not opened or not read.
    pub fn cut(&self, keep: Keep, seed: u64) -> Result<(Recovery, Vec<FoundRecord>), Wrong> {
        let disk = self.disk.cut(keep, seed);
        let now = self.entries.get(self.played).map_or(Nanos::default(), |entry| entry.at);
        let files = SimFiles::new(disk, now, self.plan.timing, Faults::default(), seed);
        let log = open(&self.plan, &files, self.lie).map_err(Wrong::Refused)?;
        let recovery = log.recovery();
        let found = read_all(&log).map_err(|error| Wrong::Unreadable(error.to_string()));
        log.abandon();
        Ok((recovery, found?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{Promise, check};

    fn plan(seed: u64) -> Plan {
        let mut plan = Plan::of(seed);
        plan.lives.iter_mut().for_each(|life| life.faults.clear());
        plan
    }

    /// Cuts a life at a hundred moments; the promises that were broken.
    fn broken(seed: u64, lie: Option<Lie>) -> usize {
        let mut played = Playback::live(plan(seed), lie).unwrap();
        let end = played.entries().last().unwrap().at;
        let mut broken = 0;
        for hundredth in 1..=100 {
            played.play_until(Nanos::new(end.get() / 100 * hundredth));
            let (_, found) = played.cut(Keep::None, hundredth).unwrap();
            let told = played.seen();
            broken +=
                check(Promise::Durable, &told, played.flushed(), &told, &found).violations.len();
        }
        played.play_until(end);
        assert_eq!(played.played, played.entries.len());
        broken
    }

    #[test]
    fn a_life_keeps_its_promises_at_every_moment_and_a_lie_is_seen() {
        for seed in 0..10 {
            assert_eq!(broken(seed, None), 0, "seed {seed}");
        }
        assert!((0..10).any(|seed| broken(seed, Some(Lie::WritesBackOnly)) > 0));
    }
}
