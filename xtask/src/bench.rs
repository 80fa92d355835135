//! `cargo xtask bench`: the main job.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use harness::profile::Sweep;
use harness::results::{Outcome, Status};
use harness::run::{self, Finished, Order};
use harness::table;

use crate::progress::Progress;
use crate::{exit, say, signals};

/// Measure this disk: messages per second and what a crash would take, per strategy
///
/// Runs the three flush strategies, a baseline that never flushes and a raw pwrite + fdatasync loop
/// on fresh logs in the directory's file system, several times in random order. Prints a table on
/// stdout and leaves records, charts and a report in results/. Ctrl-C keeps what was measured.
///
/// Exit codes: 0 ok, 1 wrong command, profile or directory, 2 invalid figures or not one whole
/// block of them, 130 interrupted.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The directory whose disk is measured; logs are made in it and removed again
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// What to measure: a name in profiles/sweeps, or a YAML file
    #[arg(long, value_name = "NAME|FILE", default_value = "quick")]
    sweep: String,
    /// Where the result directory is made [default: results/ of the project]
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
    /// Measure even if the file system lives in memory; nothing there is durable
    #[arg(long)]
    allow_memory: bool,
}

fn measure(arguments: &Arguments) -> Result<Finished> {
    let root = crate::root();
    let sweep = Sweep::load(&arguments.sweep, &root)?;
    let interrupted = signals::flag()?;
    let order = Order {
        directory: arguments.dir.clone(),
        results: arguments.results.clone().unwrap_or_else(|| root.join("results")),
        sweep,
        command: command(),
        revision: revision(&root),
        allow_in_memory: arguments.allow_memory,
    };
    run::run(&order, &interrupted, &mut Progress::default())
}

pub(crate) fn run(arguments: &Arguments) -> Result<u8> {
    let finished = measure(arguments)?;
    let Finished { path, manifest, environment, cells, error } = &finished;
    say::out(&table::text(manifest, environment, cells, COLUMNS))?;
    say!("");
    say!("report   {}", path.join("report.html").display());
    say!("charts   {}", path.join("plots").display());
    say!("records  {}", path.join("cells.jsonl").display());
    let (done, planned) = (manifest.cells_done, manifest.cells_planned);
    if let Some(error) = error {
        say!("error: {error:#}");
        say!("{done} of {planned} cells were measured and are kept");
        return Ok(exit::INVALID);
    }
    match manifest.outcome {
        Outcome::Interrupted => {
            say!("interrupted: {done} of {planned} cells were measured and are kept");
            return Ok(exit::INTERRUPTED);
        }
        Outcome::Trimmed => say!(
            "trimmed: the time allowed (run.budget_s) was over after {done} of {planned} cells"
        ),
        _ => {}
    }
    let invalid = cells.iter().any(|cell| cell.status == Status::Invalid);
    let per_block = manifest.cells_planned / manifest.blocks.max(1);
    Ok(if invalid || done < per_block { exit::INVALID } else { exit::OK })
}

/// The command as the user can give it again.
pub(crate) fn command() -> Vec<String> {
    ["cargo", "xtask"].map(str::to_owned).into_iter().chain(std::env::args().skip(1)).collect()
}

/// The checkout's revision and whether it has changes; `None` without git.
pub(crate) fn revision(root: &Path) -> Option<(String, bool)> {
    let git = |arguments: &[&str]| -> Result<String> {
        let output = Command::new("git").arg("-C").arg(root).args(arguments).output()?;
        anyhow::ensure!(output.status.success(), "git failed");
        String::from_utf8(output.stdout).context("git")
    };
    let revision = git(&["rev-parse", "HEAD"]).ok()?;
    let dirty = !git(&["status", "--porcelain"]).ok()?.trim().is_empty();
    Some((revision.trim().to_owned(), dirty))
}

/// The table fits a terminal of this width.
const COLUMNS: usize = 80;
