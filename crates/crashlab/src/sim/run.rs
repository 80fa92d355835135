//! A run: lives of a log one after the other, and the states that crashes may leave of them.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use store_core::{AckAt, LogOffset, Nanos};
use store_os::{OpenError, Recovery};

use crate::check::{FoundRecord, Promise, Verdict, check};
use crate::device::Keep;
use crate::device::files::Disk;
use crate::payload::Sent;
use crate::random::Random;
use crate::sim::disk::{SimFiles, empty_disk};
use crate::sim::faults::Faults;
use crate::sim::finding::{Finding, Wrong};
use crate::sim::journal::{Entry, Told, What};
use crate::sim::lies::Lie;
use crate::sim::life::{found, live_on, open};
use crate::sim::plan::Plan;
use crate::witness::Witness;

/// What a run showed.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Lives of a log.
    pub lives: u64,
    /// States that a crash may leave, each of which was opened.
    pub states: u64,
    /// Of these, those that a crash of the process alone leaves.
    pub kills: u64,
    /// Messages appended.
    pub appended: u64,
    /// Records acknowledged before the crashes, summed over the states.
    pub acked: u64,
    /// Of these, records that were lost.
    pub lost: u64,
    /// States whose recovery cut a torn tail.
    pub torn: u64,
    /// Records behind holes that were set aside, summed over the states.
    pub unsynced: u64,
    /// Openings that an injected fault refused; they were tried again.
    pub refused: u64,
    /// Faults that came about.
    pub faults: u64,
    /// How near a lost acknowledgement came to the age that it may have at most, in thousandths.
    pub nearest_to_bound: u64,
    /// What must not be.
    pub findings: Vec<Finding>,
}

impl Outcome {
    /// Adds what other runs showed.
    pub fn add(&mut self, other: Self) {
        self.lives += other.lives;
        self.states += other.states;
        self.kills += other.kills;
        self.appended += other.appended;
        self.acked += other.acked;
        self.lost += other.lost;
        self.torn += other.torn;
        self.unsynced += other.unsynced;
        self.refused += other.refused;
        self.faults += other.faults;
        self.nearest_to_bound = self.nearest_to_bound.max(other.nearest_to_bound);
        self.findings.extend(other.findings);
    }
}

/// Runs a plan, under a lie if one is given.
pub fn run(plan: &Plan, lie: Option<Lie>) -> Outcome {
    record(plan, lie, &mut |_, _| {})
}

/// Runs a plan, and shows each life's journal as it was written, with the life's number.
pub fn record(plan: &Plan, lie: Option<Lie>, show: &mut dyn FnMut(usize, &[Entry])) -> Outcome {
    let mut outcome = Outcome::default();
    let ran = catch_unwind(AssertUnwindSafe(|| run_lives(plan, lie, &mut outcome, show)));
    if let Err(panic) = ran {
        let message = panic.downcast_ref::<String>().cloned();
        let message = message.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
        let wrong = Wrong::Panicked(message.unwrap_or_default());
        let number = usize::try_from(outcome.lives).unwrap_or(0);
        outcome.findings.push(Finding { life: number, position: None, wrong });
    }
    outcome
}

fn run_lives(
    plan: &Plan,
    lie: Option<Lie>,
    outcome: &mut Outcome,
    show: &mut dyn FnMut(usize, &[Entry]),
) {
    let mut known = Known::new(plan);
    for (number, life) in plan.lives.iter().enumerate() {
        let part = 1 + store_core::length_u64(number);
        let random = &mut Random::of(plan.seed, part);
        let faults = Faults::new(&life.faults);
        let files =
            SimFiles::new(known.disk.clone(), known.now, plan.timing, faults, random.next_u64());
        files.state().short_writes = plan.short_writes;
        let seen = known.witness.snapshot();
        let claimed = (0..plan.shape.producers).map(|producer| seen.claimed(producer)).collect();
        let lived = live_on(plan, life, &files, claimed, lie);
        let (entries, fired) = {
            let mut state = files.state();
            (std::mem::take(&mut state.entries), state.faults.fired.len())
        };
        show(number, &entries);
        outcome.refused += lived.refused;
        outcome.faults += store_core::length_u64(fired);
        for wrong in lived.wrongs {
            if !(known.opening.may_refuse && matches!(wrong, Wrong::Refused(OpenError::Damage(_))))
            {
                outcome.findings.push(Finding { life: number, position: None, wrong });
            }
        }
        let mut crashes = Crashes { plan, lie, number, entries: &entries, outcome };
        let next = crashes.try_all(known, random, life.states);
        outcome.lives += 1;
        let Some(next) = next else { return };
        known = next;
    }
}

/// How a crash comes.
#[derive(Clone, Copy, Debug)]
enum Crash {
    /// The process alone: the page cache stays.
    Kill,
    /// The power.
    Power(Keep, u64),
}

/// How opening the log went.
#[derive(Clone, Copy, Debug, Default)]
struct Opening {
    /// Whether it was opened in this life.
    is_done: bool,
    /// Whether a hole may be taken for damage, because nothing says what was proven: a fault kept
    /// the last opening from writing its recovery point.
    may_refuse: bool,
    /// Whether a fault came while it was being opened.
    had_fault: bool,
}

/// What a life's producers and its disk know at some position of the journal.
#[derive(Debug)]
struct Known {
    disk: Disk,
    now: Nanos,
    witness: Witness,
    flushed: LogOffset,
    /// Whether what only the page cache had must have survived the last crash.
    cached: bool,
    /// Whether something was lost in writing back since the machine was started.
    has_lost: bool,
    opening: Opening,
    ends: BTreeMap<Sent, LogOffset>,
    /// Acknowledged before they were flushed: when, what that meant, and the record's end.
    early: Vec<(Nanos, AckAt, LogOffset)>,
    longest_sync: Nanos,
    sync_began: Option<Nanos>,
    poisoned_at: Option<Nanos>,
    /// Records that opening showed wrong.
    verdict: Option<Verdict>,
}

impl Known {
    fn new(plan: &Plan) -> Self {
        Self {
            disk: empty_disk(),
            now: Nanos::from_millis(5),
            witness: Witness::new(plan.shape),
            flushed: LogOffset::ZERO,
            cached: true,
            has_lost: false,
            opening: Opening::default(),
            ends: BTreeMap::new(),
            early: Vec::new(),
            longest_sync: Nanos::default(),
            sync_began: None,
            poisoned_at: None,
            verdict: None,
        }
    }

    /// The same knowledge after a crash that left `disk`.
    fn crashed(&self, disk: Disk, now: Nanos, crash: Crash) -> Self {
        let is_kill = matches!(crash, Crash::Kill);
        Self {
            disk,
            now,
            witness: Witness::resumed(self.witness.snapshot()),
            flushed: self.flushed,
            cached: is_kill && self.keeps_cache(),
            has_lost: is_kill && self.has_lost,
            opening: Opening { may_refuse: self.opening.may_refuse, ..Opening::default() },
            ends: BTreeMap::new(),
            early: Vec::new(),
            longest_sync: Nanos::default(),
            sync_began: None,
            poisoned_at: None,
            verdict: None,
        }
    }

    /// Whether a crash of the process now must keep what the page cache has.
    fn keeps_cache(&self) -> bool {
        !self.has_lost && (self.opening.is_done || self.cached)
    }

    fn learn(&mut self, entry: &Entry) {
        self.now = entry.at;
        match &entry.what {
            What::Changed(change) => {
                self.disk.apply(change);
                self.has_lost |= change.is_loss();
            }
            What::Told(told) => self.hear(told, entry.at),
        }
    }

    fn hear(&mut self, told: &Told, at: Nanos) {
        match told {
            Told::Acked(sent, mark) => {
                self.witness.acked_at(*sent, *mark);
                if *mark < AckAt::Flushed {
                    self.early.push((at, *mark, self.ends[sent]));
                }
            }
            Told::Claimed(sent) => {
                assert_eq!(self.witness.claim(sent.producer), *sent, "names come in order");
            }
            Told::Closed => {}
            Told::Flushed(upto) => self.flushed = *upto,
            Told::Opened(found, end) => {
                let is_cached = self.cached && !self.has_lost;
                let promise = if is_cached { Promise::Cached } else { Promise::Durable };
                self.verdict = Some(self.check(promise, found));
                self.witness.reopened(found);
                self.flushed = *end;
                self.opening.is_done = true;
                self.opening.may_refuse = self.opening.had_fault;
            }
            Told::Placed(sent, appended) => {
                self.witness.placed(*sent, *appended);
                self.ends.insert(*sent, appended.end());
            }
            Told::Poisoned => self.poisoned_at = self.poisoned_at.or(Some(at)),
            Told::Refused(sent) => self.witness.refused(*sent),
            Told::Unproven => self.opening.had_fault = true,
            Told::SyncBegan => self.sync_began = Some(at),
            Told::SyncEnded => {
                if let Some(began) = self.sync_began.take() {
                    self.longest_sync = self.longest_sync.max(at.since(began));
                }
            }
        }
    }

    fn check(&self, promise: Promise, found: &[FoundRecord]) -> Verdict {
        let seen = self.witness.snapshot();
        check(promise, &seen, self.flushed, &seen, found)
    }

    /// The age of the oldest lost acknowledgement at time `at`, and the age that it may have.
    fn oldest_lost(
        &self,
        plan: &Plan,
        crash: Crash,
        at: Nanos,
        end: LogOffset,
    ) -> Option<(Nanos, Nanos)> {
        if !self.opening.is_done || self.has_lost {
            return None;
        }
        let at = self.poisoned_at.map_or(at, |poisoned| poisoned.min(at));
        let commit = plan.timing.commit;
        let (bound, below) = match crash {
            Crash::Kill => (plan.strategy.staged_bound(commit)?, AckAt::Committed),
            Crash::Power(..) => {
                let current = self.sync_began.map(|began| at.since(began)).unwrap_or_default();
                let longest = self.longest_sync.max(current);
                (plan.strategy.volatile_bound(longest, commit)?, AckAt::Flushed)
            }
        };
        let lost = self.early.iter().filter(|(_, mark, to)| *mark < below && end < *to);
        let age = lost.map(|(acked, _, _)| at.since(*acked)).max()?;
        Some((age, bound))
    }
}

/// The crashes of one life.
struct Crashes<'a> {
    plan: &'a Plan,
    lie: Option<Lie>,
    number: usize,
    entries: &'a [Entry],
    outcome: &'a mut Outcome,
}

impl Crashes<'_> {
    /// Tries crashes at random positions; gives what the next life begins with.
    fn try_all(&mut self, before: Known, random: &mut Random, states: u32) -> Option<Known> {
        let mut crashes: Vec<_> = (0..=states).map(|_| self.pick(random)).collect();
        crashes.sort_by_key(|(position, _)| *position);
        let chosen = random.index(crashes.len());
        let mut known = before;
        let mut played = 0;
        let mut next = None;
        for (index, (position, crash)) in crashes.into_iter().enumerate() {
            for entry in &self.entries[played..position] {
                known.learn(entry);
                self.take_verdict(&mut known, position);
            }
            played = position;
            let disk = match crash {
                Crash::Kill => known.disk.clone(),
                Crash::Power(keep, seed) => known.disk.cut(keep, seed),
            };
            // The state is there until the next thing happens.
            let at = self.entries.get(position).map_or(known.now, |entry| entry.at);
            let is_good = self.try_one(&known, &disk, crash, position, at);
            if index == chosen && is_good {
                next = Some(known.crashed(disk, at, crash));
            }
        }
        for entry in &self.entries[played..] {
            known.learn(entry);
            self.take_verdict(&mut known, self.entries.len());
        }
        self.outcome.appended += store_core::length_u64(known.ends.len());
        next
    }

    fn pick(&self, random: &mut Random) -> (usize, Crash) {
        let opened = self
            .entries
            .iter()
            .position(|entry| matches!(entry.what, What::Told(Told::Opened(..))));
        let last = match opened {
            Some(opened) if random.chance(200) => opened,
            _ => self.entries.len(),
        };
        let position = random.index(last + 1);
        let crash = if random.chance(200) {
            Crash::Kill
        } else {
            let keep = if random.chance(500) { Keep::Random } else { *random.pick(&Keep::ALL) };
            Crash::Power(keep, random.next_u64())
        };
        (position, crash)
    }

    fn take_verdict(&mut self, known: &mut Known, position: usize) {
        if let Some(verdict) = known.verdict.take() {
            for violation in verdict.violations {
                self.find(position, Wrong::Check(violation));
            }
        }
    }

    fn find(&mut self, position: usize, wrong: Wrong) {
        let position = Some(position);
        self.outcome.findings.push(Finding { life: self.number, position, wrong });
    }

    /// Opens what a crash left and checks it; whether it could be opened.
    fn try_one(
        &mut self,
        known: &Known,
        disk: &Disk,
        crash: Crash,
        position: usize,
        at: Nanos,
    ) -> bool {
        self.outcome.states += 1;
        self.outcome.kills += u64::from(matches!(crash, Crash::Kill));
        let opened = self.open(disk, at);
        let (recovery, found) = match opened {
            Ok(opened) => opened,
            Err(Wrong::Refused(OpenError::Damage(_))) if known.opening.may_refuse => {
                self.outcome.refused += 1;
                return false;
            }
            Err(wrong) => {
                self.find(position, wrong);
                return false;
            }
        };
        let is_kill = matches!(crash, Crash::Kill);
        let promise =
            if is_kill && known.keeps_cache() { Promise::Cached } else { Promise::Durable };
        let verdict = known.check(promise, &found);
        self.outcome.acked += known.witness.snapshot().acked_records();
        self.outcome.lost += verdict.lost_acked;
        self.outcome.torn += u64::from(recovery.torn_bytes > 0);
        self.outcome.unsynced += recovery.unsynced_records;
        for violation in verdict.violations {
            self.find(position, Wrong::Check(violation));
        }
        if let Some((age, bound)) = known.oldest_lost(self.plan, crash, at, recovery.end) {
            let near = age.get().saturating_mul(1000).checked_div(bound.get()).unwrap_or(0);
            self.outcome.nearest_to_bound = self.outcome.nearest_to_bound.max(near);
            if bound < age {
                self.find(position, Wrong::TooOld { age, bound });
            }
        }
        true
    }

    fn open(&mut self, disk: &Disk, at: Nanos) -> Result<(Recovery, Vec<FoundRecord>), Wrong> {
        let timing = self.plan.timing;
        let files = SimFiles::new(disk.clone(), at, timing, Faults::default(), at.get());
        let mut opened = open(self.plan, &files, self.lie);
        // What failed write-backs left to tell, each of its file.
        let mut told = 0;
        while matches!(opened, Err(OpenError::System(_))) {
            let fired = files.state().faults.fired.len();
            if fired == std::mem::replace(&mut told, fired) {
                break;
            }
            self.outcome.refused += 1;
            opened = open(self.plan, &files, self.lie);
        }
        let log = opened.map_err(Wrong::Refused)?;
        let recovery = log.recovery();
        let found = found(&log)?;
        log.abandon();
        Ok((recovery, found))
    }
}
