//! `cargo xtask limits`: what the disk allows, and how near the log comes.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::builder::PossibleValuesParser;
use harness::limits::{self, Case, Finished, Order, table};

use crate::origin::origin;
use crate::{exit, say, signals};

/// Measure what this disk and processor allow, and how near the log comes
///
/// Raw loops (pwrite + fdatasync, synchronous and direct descriptors, a mapping and msync, group
/// commit by leader and followers, a window of records on their way, checksum and copy) and the log
/// do the same work, one after the other in random order, several rounds. Prints a table for each
/// case on stdout and leaves every measurement in results/. Takes more than a minute a round.
/// Ctrl-C keeps what was measured.
///
/// Three cases are measured only if they are named, for they move up to 8 GiB in each round, and
/// no more than a third of the free space: `sustained`, past the kernel's dirty limit; `paced`, at
/// 0.7 of that rate; `scan`, a log that is read when it is opened.
///
/// Exit codes: 0 ok, 1 wrong command or directory, 2 something failed on the way, 130 interrupted.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The directory whose disk is measured; files are made in it and removed again
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// How often everything is measured
    #[arg(long, value_name = "N", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// How long each contender is measured, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    #[arg(value_parser = clap::value_parser!(u64).range(10..=60_000))]
    measure_ms: u64,
    /// What to measure; may be given more than once [default: all but the last three]
    #[arg(long, value_name = "NAME")]
    #[arg(value_parser = PossibleValuesParser::new(Case::ALL.map(Case::name)))]
    case: Vec<String>,
    /// Where the result directory is made [default: results/ of the project]
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<u8> {
    let root = crate::root();
    let asked = |case: &Case| arguments.case.iter().any(|name| name == case.name());
    let order = Order {
        directory: arguments.dir.clone(),
        results: arguments.results.clone().unwrap_or_else(|| root.join("results")),
        rounds: arguments.rounds,
        measure: Duration::from_millis(arguments.measure_ms),
        cases: Case::ALL.into_iter().filter(asked).collect(),
        origin: origin(),
    };
    let interrupted = signals::flag()?;
    let mut last = None;
    let mut progress = |round, case: Case, _| {
        if last.replace((round, case)) != Some((round, case)) {
            say!("round {} of {}: {}", round + 1, arguments.rounds, case.words());
        }
    };
    let finished = limits::run(&order, &interrupted, &mut progress)?;
    let Finished { path, limits, environment, error } = &finished;
    say::out(&table::text(limits, environment))?;
    say!("");
    say!("records  {}", path.join("limits.json").display());
    if let Some(error) = error {
        say!("error: {error:#}");
        return Ok(exit::INVALID);
    }
    if limits.rounds_done < limits.rounds_planned {
        say!("interrupted: {} of {} rounds are whole", limits.rounds_done, limits.rounds_planned);
        return Ok(exit::INTERRUPTED);
    }
    Ok(exit::OK)
}
