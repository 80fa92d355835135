//! Flushmark's command line. Every task explains itself: `cargo xtask TASK --help`.
#![forbid(unsafe_code)]

#[macro_use]
mod say;

mod bench;
mod capacity;
mod ci;
mod compare;
mod disk;
mod limits;
mod log;
mod origin;
mod powercut;
mod progress;
mod report;
mod restore;
mod signals;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};
use harness::profile::ProfileErrors;

/// Flushmark: what each flush strategy of a RocketMQ-format commit log gives on your disk, and what
/// a crash would take.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", max_term_width = 80)]
struct Arguments {
    #[command(subcommand)]
    task: Option<Task>,
}

#[derive(Debug, Subcommand)]
enum Task {
    Bench(bench::Arguments),
    Capacity(capacity::Arguments),
    Ci(ci::Arguments),
    Compare(compare::Arguments),
    Disk(disk::Arguments),
    Limits(limits::Arguments),
    Log(log::Arguments),
    Plan(bench::PlanArguments),
    Powercut(powercut::Arguments),
    #[command(hide = true)]
    PowerDisk(powercut::DiskArguments),
    Report(report::Arguments),
    Restore(restore::Arguments),
    Tidy(tidy::Arguments),
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return usage(&error),
    };
    let result = match arguments.task {
        Some(Task::Bench(arguments)) => bench::run(&arguments),
        Some(Task::Capacity(arguments)) => capacity::run(&arguments),
        Some(Task::Ci(arguments)) => ci::run(&arguments),
        Some(Task::Compare(arguments)) => compare::run(&arguments),
        Some(Task::Disk(arguments)) => disk::run(&arguments),
        Some(Task::Limits(arguments)) => limits::run(&arguments),
        Some(Task::Log(arguments)) => log::run(&arguments),
        Some(Task::Plan(arguments)) => bench::plan(&arguments),
        Some(Task::Powercut(arguments)) => powercut::run(&arguments),
        Some(Task::PowerDisk(arguments)) => powercut::serve(&arguments),
        Some(Task::Report(arguments)) => report::run(&arguments),
        Some(Task::Restore(arguments)) => restore::run(&arguments),
        Some(Task::Tidy(arguments)) => tidy::run(&arguments),
        None => say::out(&format!("{}\n", Arguments::command().render_help())).map(|()| exit::OK),
    };
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            // Each line of these begins with its place and says that it is an error.
            let is_placed = error.is::<ProfileErrors>();
            let prefix = if is_placed { "" } else { "error: " };
            say!("{prefix}{error:#}");
            ExitCode::from(exit::USAGE)
        }
    }
}

/// Help goes to stdout with 0, a usage error to stderr with 1 (clap's own 2 means invalid runs
/// here).
fn usage(error: &clap::Error) -> ExitCode {
    // If the terminal is gone there is nobody to tell.
    let _ = error.print();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => ExitCode::SUCCESS,
        _ => ExitCode::from(exit::USAGE),
    }
}

/// The project's root.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// What the exit code says.
mod exit {
    /// All is well.
    pub(crate) const OK: u8 = 0;
    /// The command, a profile or a directory is wrong; or a check failed.
    pub(crate) const USAGE: u8 = 1;
    /// Runs ended early or their figures are invalid; a store is damaged; a promise was broken.
    pub(crate) const INVALID: u8 = 2;
    /// The environment that was asked for cannot be had: kernel settings, a disk; or settings could
    /// not be put back.
    pub(crate) const ENVIRONMENT: u8 = 3;
    /// A row of a comparison got slower than allowed; no strategy keeps what is asked.
    pub(crate) const REGRESSION: u8 = 4;
    /// A signal ended the run; what was measured is kept.
    pub(crate) const INTERRUPTED: u8 = 130;
}
