//! Simulated logs crash, until so many states that a crash may leave were opened and checked.
//!
//! ```text
//! cargo run --release -p crashlab --example crash_states -- --states 1000000 [--seed S]
//! cargo run -p crashlab --example crash_states -- --seed S
//! ```
//!
//! The first goes through seeds from S on, or from one of the clock, and prints totals by strategy.
//! The second replays one seed; a run that fails is made smaller and shown.
#![expect(clippy::print_stdout, reason = "it is a program")]

use std::process::ExitCode;

use crashlab::sim::{Enough, Failure, NAMES, Outcome, Plan, Totals, record, run_many, shrink};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let value = |name: &str| {
        let place = arguments.iter().position(|argument| argument == name)?;
        arguments.get(place + 1)?.parse::<u64>().ok()
    };
    let known = arguments.chunks(2).all(|pair| {
        matches!(pair, [name, value] if ["--seed", "--states"].contains(&&**name)
            && value.parse::<u64>().is_ok())
    });
    let failures = match (value("--states"), value("--seed")) {
        (Some(states), seed) if known => many(states, seed),
        (None, Some(seed)) if known => one(seed),
        _ => {
            println!("usage: crash_states --states N [--seed S] | --seed S");
            return ExitCode::from(2);
        }
    };
    if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn many(states: u64, seed: Option<u64>) -> usize {
    let seed = seed.unwrap_or_else(|| store_os::monotonic().get());
    println!("seeds from {seed} on");
    let began = store_os::monotonic();
    let totals = run_many(seed, Enough::States(states), None);
    let millis = store_os::monotonic().since(began).get() / 1_000_000;
    table(&totals);
    println!("{} runs in {}.{:03} s", totals.all_runs(), millis / 1000, millis % 1000);
    for failure in &totals.failures {
        println!("{failure}");
    }
    totals.failures.len()
}

fn table(totals: &Totals) {
    println!(
        "{:<27}{:>9}{:>9}{:>9}{:>10}{:>10}{:>8}{:>8}{:>9}{:>9}{:>8}{:>11}",
        "strategy",
        "runs",
        "states",
        "(kills)",
        "acked",
        "lost",
        "torn",
        "refused",
        "unsynced",
        "faults",
        "bound",
        "violations"
    );
    let row = |name: &str, runs: u64, outcome: &Outcome, failures: usize| {
        let Outcome { states, kills, acked, lost, torn, refused, unsynced, faults, .. } = outcome;
        let bound = match outcome.nearest_to_bound {
            0 => "-".to_owned(),
            near => format!("{}.{} %", near / 10, near % 10),
        };
        println!(
            "{name:<27}{runs:>9}{states:>9}{kills:>9}{acked:>10}{lost:>10}{torn:>8}{refused:>8}\
             {unsynced:>9}{faults:>9}{bound:>8}{failures:>11}"
        );
    };
    for (place, name) in NAMES.into_iter().enumerate() {
        let failures = totals.failures.iter().filter(|failure| failure.plan.name() == name);
        row(name, totals.runs[place], &totals.outcomes[place], failures.count());
    }
    row("all", totals.all_runs(), &totals.all(), totals.failures.len());
    println!(
        "acked, lost: records, summed over the states. torn: states with a torn tail. refused: \
         openings\nthat an injected fault refused. unsynced: records behind a hole, set aside. \
         bound: how near the oldest\nlost acknowledgement came to the strategy's bound."
    );
}

fn one(seed: u64) -> usize {
    let plan = Plan::of(seed);
    let outcome = crashlab::sim::run(&plan, None);
    for finding in &outcome.findings {
        println!("{finding}");
    }
    let Some(finding) = outcome.findings.into_iter().next() else {
        println!("seed {seed}, {}: {} states, nothing wrong", plan.name(), outcome.states);
        return 0;
    };
    let Failure { plan, finding, .. } = shrink(&Failure { seed, plan, finding }, None);
    println!("smaller: {plan:#?}");
    record(&plan, None, &mut |life, entries| {
        let upto = finding.position.unwrap_or(entries.len());
        for entry in entries.iter().take(if life == finding.life { upto } else { entries.len() }) {
            println!("{life} {entry}");
        }
    });
    println!("{finding}");
    1
}
