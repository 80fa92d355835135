//! Many runs, on all cores.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::sim::finding::Failure;
use crate::sim::lies::Lie;
use crate::sim::plan::{NAMES, Plan};
use crate::sim::run::{Outcome, run};

/// When many runs are enough.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Enough {
    /// After so many failing runs, or so many runs at all.
    Failures(u64, u64),
    /// After so many runs.
    Runs(u64),
    /// After so many crash states.
    States(u64),
}

/// What many runs showed, by strategy in the order of [`NAMES`].
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Runs.
    pub runs: [u64; NAMES.len()],
    /// What they showed, without findings.
    pub outcomes: [Outcome; NAMES.len()],
    /// The runs that showed something wrong, by seed.
    pub failures: Vec<Failure>,
}

impl Totals {
    /// All runs.
    pub fn all_runs(&self) -> u64 {
        self.runs.iter().sum()
    }

    /// What all strategies showed.
    pub fn all(&self) -> Outcome {
        let mut all = Outcome::default();
        self.outcomes.iter().cloned().for_each(|outcome| all.add(outcome));
        all
    }

    fn add_run(&mut self, plan: Plan, mut outcome: Outcome) {
        let place = NAMES.iter().position(|name| *name == plan.name()).unwrap_or(0);
        let mut findings = std::mem::take(&mut outcome.findings).into_iter();
        self.runs[place] += 1;
        self.outcomes[place].add(outcome);
        if let Some(finding) = findings.next() {
            self.failures.push(Failure { seed: plan.seed, plan, finding });
        }
    }

    fn add(&mut self, other: Self) {
        for (runs, more) in self.runs.iter_mut().zip(other.runs) {
            *runs += more;
        }
        for (outcome, more) in self.outcomes.iter_mut().zip(other.outcomes) {
            outcome.add(more);
        }
        self.failures.extend(other.failures);
    }
}

/// Runs the plans of the seeds from `first` on until it is enough.
pub fn run_many(first: u64, enough: Enough, lie: Option<Lie>) -> Totals {
    run_plans(first, enough, lie, Plan::of)
}

/// Runs the plans that `plan` makes of the seeds from `first` on until it is enough.
pub fn run_plans(
    first: u64,
    enough: Enough,
    lie: Option<Lie>,
    plan: impl Fn(u64) -> Plan + Sync,
) -> Totals {
    let counts = Counts::default();
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let work = || {
        let mut totals = Totals::default();
        while let Some(number) = counts.next(enough) {
            let plan = plan(first.wrapping_add(number));
            let outcome = run(&plan, lie);
            counts.states.fetch_add(outcome.states, Ordering::Relaxed);
            let failed = u64::from(!outcome.findings.is_empty());
            counts.failures.fetch_add(failed, Ordering::Relaxed);
            totals.add_run(plan, outcome);
        }
        totals
    };
    let mut totals = Totals::default();
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            totals.add(worker.join().expect("a run's panic is a finding of it"));
        }
    });
    totals.failures.sort_by_key(|failure| failure.seed);
    totals
}

#[derive(Debug, Default)]
struct Counts {
    runs: AtomicU64,
    states: AtomicU64,
    failures: AtomicU64,
}

impl Counts {
    /// The number of the next run, if there is to be one.
    fn next(&self, enough: Enough) -> Option<u64> {
        let failures = self.failures.load(Ordering::Relaxed);
        let states = self.states.load(Ordering::Relaxed);
        let number = self.runs.fetch_add(1, Ordering::Relaxed);
        let goes_on = match enough {
            Enough::Failures(most, runs) => failures < most && number < runs,
            Enough::Runs(runs) => number < runs,
            Enough::States(most) => states < most,
        };
        goes_on.then_some(number)
    }
}
