//! `cargo xtask powercut`: what a power cut really takes.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Result;
use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use harness::disks::DiskType;
use harness::powercut::emulated::{self, Emulated, FsKind};
use harness::powercut::lab::Lab;
use harness::powercut::plan::{Strategy, cases};
use harness::powercut::simulated::Simulated;
use harness::powercut::{self, Finished, Order, table};
use harness::results::Outcome;

use crate::origin::origin;
use crate::progress::CutProgress;
use crate::{exit, say, signals};

/// Cut the power of a disk under a running log, again and again, and see what was promised and lost
///
/// Runs the log under load on an emulated disk (a block device in user space under a real file
/// system), cuts its power at random moments while the load goes on, mounts and recovers what each
/// cut left, and holds it against what the log's own marks said was at risk. Where the machine
/// cannot do that (it takes root, /dev/fuse and loop devices), disk, file system and time are
/// simulated, and everything says so. Prints tables on stdout and leaves records, a chart and a
/// report in results/. Ctrl-C keeps what was found and leaves nothing mounted.
///
/// Exit codes: 0 ok, 1 wrong command, 2 a promise was broken or a state could not be checked, 130
/// interrupted.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// What to cut; may be given more than once [default: all]
    #[arg(long, value_name = "NAME")]
    strategy: Vec<Name>,
    /// The file system on the emulated disk
    #[arg(long, value_name = "NAME", default_value = "ext4")]
    fs: FileSystem,
    /// The type of the emulated disk, for how long it takes; all have a volatile cache, of which a
    /// cut takes what was not flushed
    #[arg(long, value_name = "TYPE", default_value = "nvme-noplp", value_parser = disk_types())]
    disk: DiskType,
    /// Cuts for each strategy and interval; 300 are enough to compare p99
    #[arg(long, value_name = "N", default_value_t = 100)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    cuts: u32,
    /// Flush intervals of the asynchronous strategies, each a case of its own: 20ms, 1s
    #[arg(long, value_name = "TIME", num_args = 1.., default_values = ["50ms"])]
    #[arg(value_parser = interval)]
    interval: Vec<Duration>,
    /// Simulate disk, file system and time, whatever the machine can do
    #[arg(long)]
    simulated: bool,
    /// Seeds messages, moments and what each cut keeps
    #[arg(long, value_name = "N", default_value_t = 42)]
    seed: u64,
    /// Where the result directory is made [default: results/ of the project]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Name {
    Sync,
    Timed,
    Staged,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum FileSystem {
    Ext4,
    Xfs,
    Btrfs,
}

impl FileSystem {
    fn kind(self) -> FsKind {
        match self {
            Self::Btrfs => FsKind::Btrfs,
            Self::Ext4 => FsKind::Ext4,
            Self::Xfs => FsKind::Xfs,
        }
    }
}

/// A type of disks that can be emulated.
pub(crate) fn disk_types() -> impl TypedValueParser<Value = DiskType> {
    PossibleValuesParser::new(DiskType::ALL.map(DiskType::name))
        .try_map(|name| DiskType::named(&name).ok_or("no such type"))
}

/// A flush interval: a whole number of `ms` or `s`.
fn interval(text: &str) -> Result<Duration, String> {
    let units = [("ms", 1), ("s", 1000)];
    let parsed = units.iter().find_map(|(unit, factor)| {
        let number = text.strip_suffix(unit)?;
        let plain = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        plain.then(|| number.parse::<u64>().ok()?.checked_mul(*factor)).flatten()
    });
    match parsed {
        Some(ms @ 1..=5000) => Ok(Duration::from_millis(ms)),
        Some(_) => Err("an interval is 1ms to 5s".to_owned()),
        None => Err("give a whole number with ms or s, such as 50ms".to_owned()),
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<u8> {
    let root = crate::root();
    let strategies: Vec<Strategy> = if arguments.strategy.is_empty() {
        Strategy::ALL.into()
    } else {
        arguments.strategy.iter().map(|name| name.strategy()).collect()
    };
    let mut intervals = arguments.interval.clone();
    intervals.sort_unstable();
    intervals.dedup();
    let order = Order {
        cases: cases(&strategies, &intervals),
        cuts: arguments.cuts,
        seed: arguments.seed,
        results: arguments.out.clone().unwrap_or_else(|| root.join("results")),
        origin: origin(),
    };
    let interrupted = signals::flag()?;
    let mut lab = lab(arguments, &interrupted)?;
    let finished = powercut::run(&order, &mut *lab, &interrupted, &mut CutProgress::default())?;
    // What it leaves mounted goes before anything is said to be over.
    drop(lab);
    conclude(&finished)
}

impl Name {
    fn strategy(self) -> Strategy {
        match self {
            Self::Staged => Strategy::Staged,
            Self::Sync => Strategy::Sync,
            Self::Timed => Strategy::Timed,
        }
    }
}

/// The emulated disk, if it was not asked otherwise and the machine can.
fn lab(arguments: &Arguments, interrupted: &Arc<AtomicBool>) -> Result<Box<dyn Lab>> {
    if arguments.simulated {
        return Ok(Box::new(Simulated::new(None)));
    }
    let server = emulated::served_by(DISK_TASK)?;
    match Emulated::new(arguments.fs.kind(), arguments.disk, server, Arc::clone(interrupted))? {
        Ok(lab) => Ok(Box::new(lab)),
        Err(missing) => {
            say!("no disk can be emulated here: {missing}; going on SIMULATED");
            Ok(Box::new(Simulated::new(Some(missing.to_string()))))
        }
    }
}

fn conclude(finished: &Finished) -> Result<u8> {
    let Finished { path, run, error } = finished;
    say::out(&table::text(run))?;
    say!("");
    say!("report   {}", path.join("report.html").display());
    say!("chart    {}", path.join("plots/losses.svg").display());
    say!("records  {}", path.join("powercut.json").display());
    let made: u32 = run.cases.iter().map(|case| case.observed.cuts).sum();
    let planned = run.cuts_planned.saturating_mul(run.cases_planned);
    if let Some(error) = error {
        say!("error: {error:#}");
        say!("{made} of {planned} cuts were made and are kept");
        return Ok(exit::INVALID);
    }
    let bad = run.cases.iter().any(|case| case.observed.is_bad());
    if run.outcome == Outcome::Interrupted {
        say!("interrupted: {made} of {planned} cuts were made and are kept");
        return Ok(if bad { exit::INVALID } else { exit::INTERRUPTED });
    }
    Ok(if bad { exit::INVALID } else { exit::OK })
}

/// The hidden task that serves the emulated disk.
pub(crate) const DISK_TASK: &str = "power-disk";

/// Serve an emulated disk; started by powercut alone
#[derive(Debug, clap::Args)]
pub(crate) struct DiskArguments {
    /// What the disk's library says
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<std::ffi::OsString>,
}

/// Serves a disk until its owner is gone. A signal to the whole group of processes, such as that of
/// Ctrl-C, is the owner's to follow: without its disk the log could not end in order.
pub(crate) fn serve(arguments: &DiskArguments) -> Result<u8> {
    signals::pass_over()?;
    emulated::serve(&arguments.arguments)?;
    Ok(exit::OK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_whole_numbers_with_a_unit() {
        for (text, ms) in [("50ms", 50), ("1s", 1000), ("5s", 5000), ("1ms", 1)] {
            assert_eq!(interval(text), Ok(Duration::from_millis(ms)));
        }
        for text in
            ["", "50", "ms", "0ms", "6s", "-1s", "1.5s", "1 s", "+1s", "18446744073709551616s"]
        {
            assert!(interval(text).is_err(), "{text}");
        }
    }
}
