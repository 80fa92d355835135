//! Logs on simulated files, through crashes of the process and of the power: the promises hold, and
//! a store that breaks them is caught.
#![expect(clippy::unwrap_used, reason = "a test")]
#![expect(clippy::print_stdout, reason = "which seeds a run took is to be known when it fails")]

use crashlab::check::Violation;
use crashlab::payload::Shape;
use crashlab::sim::{
    Call, Enough, Entry, Failure, Fault, Lie, NAMES, Outcome, Plan, Totals, Wrong, record, run,
    run_many, run_plans, shrink,
};

/// Runs over all strategies with the same seeds each time.
const FIXED: u64 = 19_000;
/// Runs with seeds that nobody has seen.
const FRESH: u64 = 2_000;

#[track_caller]
fn assert_clean(totals: &Totals) {
    let Some(failure) = totals.failures.first() else { return };
    let Failure { plan, finding, .. } = shrink(failure, None);
    let others = totals.failures.len() - 1;
    panic!("{failure}\nand {others} others. Smaller: {plan:#?}\n{finding}");
}

#[test]
fn no_crash_breaks_a_promise_under_any_strategy() {
    let fresh = store_os::monotonic().get();
    println!("fresh seeds from {fresh} on");
    let mut shown: [Outcome; NAMES.len()] = Default::default();
    for (first, runs) in [(0, FIXED), (fresh, FRESH)] {
        let totals = run_many(first, Enough::Runs(runs), None);
        assert_clean(&totals);
        assert_eq!(totals.all_runs(), runs);
        for (place, outcome) in totals.outcomes.into_iter().enumerate() {
            println!("{}: {} runs, {outcome:?}", NAMES[place], totals.runs[place]);
            shown[place].add(outcome);
            let outcome = &shown[place];
            // That nothing is wrong says something only if there was something to lose. The fixed
            // seeds show it alone, and the fresh ones, of which few may show little, with them.
            let name = NAMES[place];
            assert!(outcome.acked > outcome.states && outcome.lost > outcome.states / 5, "{name}");
            assert!(outcome.torn > 0 && outcome.unsynced > 0 && outcome.faults > 0, "{name}");
            assert!(outcome.kills > 0 && outcome.refused > 0, "{name}");
            let is_bounded = outcome.nearest_to_bound > 500;
            assert_eq!(is_bounded, !name.starts_with("group"), "{name}");
        }
    }
}

#[test]
fn one_seed_is_one_run_entry_by_entry() {
    let journal = |seed| {
        let mut journal: Vec<Vec<Entry>> = Vec::new();
        let outcome = record(&Plan::of(seed), None, &mut |_, entries| journal.push(entries.into()));
        (format!("{outcome:?}"), journal)
    };
    for seed in 0..200 {
        let (outcome, entries) = journal(seed);
        let (outcome_again, entries_again) = journal(seed);
        for (life, again) in entries.iter().zip(&entries_again) {
            for (entry, again) in life.iter().zip(again) {
                assert_eq!(entry, again, "seed {seed}");
            }
        }
        assert_eq!((outcome, entries.len()), (outcome_again, entries_again.len()), "seed {seed}");
    }
}

/// Runs a store that lies until it is caught some times; gives the runs that caught it.
#[track_caller]
fn caught(lie: Lie, plan: impl Fn(u64) -> Plan + Sync) -> Vec<Failure> {
    let totals = run_plans(0, Enough::Failures(FAILURES, 4000), Some(lie), plan);
    let (count, runs) = (totals.failures.len(), totals.all_runs());
    println!("{lie:?}: {count} of {runs} runs caught it");
    for failure in &totals.failures {
        println!("  seed {}, {}: {}", failure.seed, failure.plan.name(), failure.finding);
    }
    assert!(count >= 4, "{lie:?} was caught in {count} of {runs} runs");
    totals.failures
}

/// How often a lie is to be caught.
const FAILURES: u64 = 4;

/// The lie took what was promised to be durable.
#[track_caller]
fn loses(lie: Lie, plan: impl Fn(u64) -> Plan + Sync) -> Failure {
    let mut failures = caught(lie, plan).into_iter();
    failures.find(is_lost).unwrap_or_else(|| panic!("{lie:?} lost nothing"))
}

fn is_lost(failure: &Failure) -> bool {
    matches!(failure.finding.wrong, Wrong::Check(Violation::LostDurable { .. }))
}

/// Plans of one kind: the one with this place in [`NAMES`].
fn of_strategy(place: u64) -> impl Fn(u64) -> Plan {
    move |seed| Plan::of(seed * PLACES + place)
}

const PLACES: u64 = store_core::length_u64(NAMES.len());

/// The same, with a sync that fails in each life.
fn with_failed_syncs(place: u64) -> impl Fn(u64) -> Plan {
    move |seed| {
        let mut plan = of_strategy(place)(seed);
        for life in &mut plan.lives {
            let number = u32::try_from(10 + seed % 16).unwrap();
            let errno = rustix::io::Errno::IO;
            life.faults = vec![Fault::Call { call: Call::Sync, number, count: 1, errno }];
        }
        plan
    }
}

#[test]
fn an_answer_that_overtakes_its_sync_is_caught() {
    // Writing directly, the log refuses such a strategy.
    for place in [0, 1] {
        loses(Lie::AcksBeforeSync, of_strategy(place));
    }
}

#[test]
fn a_sync_of_the_wrong_range_is_caught() {
    for place in [1, 2] {
        loses(Lie::SyncsWrongRange, of_strategy(place));
    }
}

#[test]
fn writing_back_in_place_of_a_sync_is_caught_under_every_strategy() {
    for place in 0..PLACES {
        loses(Lie::WritesBackOnly, of_strategy(place));
    }
}

#[test]
fn a_failed_sync_that_counts_is_caught_under_every_strategy() {
    for place in 0..PLACES {
        loses(Lie::SwallowsSyncErrors, with_failed_syncs(place));
    }
}

#[test]
fn a_failed_sync_that_is_tried_again_is_caught_under_every_strategy() {
    for place in 0..PLACES {
        loses(Lie::RetriesFailedSync, with_failed_syncs(place));
    }
}

#[test]
fn a_cut_that_is_not_made_on_the_disk_is_caught() {
    // Records of one length, so that new ones end where old ones do.
    let plan = |seed| {
        let mut plan = Plan::of(seed);
        plan.shape = Shape { producers: 1, min_body: 100, max_body: 100, ..plan.shape };
        for life in &mut plan.lives {
            life.faults.clear();
            life.appends = life.appends.max(20);
        }
        plan.lives = plan.lives.into_iter().cycle().take(4).collect();
        plan
    };
    let came_back = caught(Lie::KeepsWhatItCuts, plan)
        .into_iter()
        .find(|failure| matches!(failure.finding.wrong, Wrong::Check(Violation::CameBack { .. })));
    assert!(came_back.is_some());
}

#[test]
fn a_directory_that_is_not_synced_is_caught() {
    loses(Lie::SyncsNoDirectory, Plan::of);
}

#[test]
fn a_failing_run_is_made_smaller_and_fails_alike() {
    let failure = loses(Lie::AcksBeforeSync, of_strategy(0));
    let smaller = shrink(&failure, Some(Lie::AcksBeforeSync));
    assert!(is_lost(&smaller), "{smaller}");
    let appends =
        |failure: &Failure| -> u32 { failure.plan.lives.iter().map(|life| life.appends).sum() };
    println!("{} appends of {}, {:#?}", appends(&smaller), appends(&failure), smaller.plan);
    assert_eq!((smaller.plan.lives.len(), appends(&smaller)), (1, 1));
    // It is a plan by itself, which fails again.
    let again = run(&smaller.plan, Some(Lie::AcksBeforeSync));
    assert!(again.findings.iter().any(|finding| finding.wrong == smaller.finding.wrong));
    assert_eq!(shrink(&failure, Some(Lie::AcksBeforeSync)).plan, smaller.plan);
    assert_eq!(run(&smaller.plan, None).findings.len(), 0);
}
