//! `cargo xtask bench`: the main job.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::Result;
use harness::output::read_manifest;
use harness::powercut::emulated;
use harness::profile::{BrokerConf, Sweep};
use harness::results::{Cell, Level, Manifest, Outcome, Status};
use harness::run::{self, Finished, Order};
use harness::sysctl::Roots;
use harness::table;

use crate::origin::origin;
use crate::progress::Progress;
use crate::{exit, powercut, progress, report, say, signals};

/// Measure this disk: messages per second and what a crash would take, per strategy
///
/// Runs the three flush strategies, a baseline that never flushes and a raw pwrite + fdatasync loop
/// on fresh logs in the directory's file system, several times in random order. Prints a table on
/// stdout and leaves records, charts and a report in results/. Ctrl-C keeps what was measured.
///
/// Sweeps may also vary disks and the kernel's vm.dirty_* settings, and limit a disk that they
/// make; what they set is put back in any case: at the end, at a signal, and after a kill by the
/// next start or `cargo xtask restore`.
///
/// Exit codes: 0 ok, 1 wrong command, profile or directory, 2 invalid figures or not one whole
/// block of them, 3 kernel settings of the sweep could not be applied (its cells say so), 130
/// interrupted.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    what: What,
    /// Where the result directory is made [default: results/ of the project]
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
    /// Go on with a run that ended early: what its directory has is not measured again
    #[arg(
        long,
        value_name = "DIR",
        conflicts_with_all = ["sweep", "broker_conf", "results", "budget"]
    )]
    resume: Option<PathBuf>,
    /// Print the figures of all rows as JSON in place of the table: summary.json, as
    /// docs/schemas/summary.json says
    #[arg(long)]
    json: bool,
}

/// Say what `bench` would do: cells, time, bytes, disks, and what this machine lacks
///
/// Disks that the sweep makes are made and calibrated to see whether they can be, and taken away
/// again; not while a sweep runs, which that would disturb. Nothing is measured, no kernel setting
/// is touched.
#[derive(Debug, clap::Args)]
pub(crate) struct PlanArguments {
    #[command(flatten)]
    what: What,
}

/// What is to be measured.
#[derive(Debug, clap::Args)]
struct What {
    /// The directory whose disk is measured; logs are made in it and removed again [default: .]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// What to measure: a name in profiles/sweeps, or a YAML file
    #[arg(long, value_name = "NAME|FILE", default_value = "quick")]
    sweep: String,
    /// Measure a broker's configuration in place of the sweep's strategies
    #[arg(long, value_name = "FILE")]
    broker_conf: Option<PathBuf>,
    /// The most that it may take, such as 90s, 20m or 2h: loads, then blocks are left out
    #[arg(long, value_name = "TIME", value_parser = duration)]
    budget: Option<Duration>,
    /// Keep the host's name and the disks' serial numbers in the record, not their hashes alone
    #[arg(long)]
    full_env: bool,
    /// Measure even if the file system lives in memory; nothing there is durable
    #[arg(long)]
    allow_memory: bool,
}

/// `90s`, `20m`, `2h`.
fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || "a whole number of seconds, minutes or hours is expected: 90s, 20m, 2h";
    let unit = text.chars().last().ok_or_else(wrong)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        _ => return Err(wrong().to_owned()),
    };
    let count: u64 = text[..text.len() - 1].parse().map_err(|_| wrong())?;
    count
        .checked_mul(seconds)
        .filter(|seconds| (1..=604_800).contains(seconds))
        .map(Duration::from_secs)
        .ok_or_else(|| "between one second and a week".to_owned())
}

impl What {
    fn order(&self, results: PathBuf, resume: Option<&Path>) -> Result<Order> {
        let root = crate::root();
        let earlier = resume.map(read_manifest).transpose()?;
        let mut sweep = match &earlier {
            // As it was then, whatever the files are now.
            Some(earlier) => Sweep::parse("profile.yaml", &earlier.profile)?,
            None => Sweep::load(&self.sweep, &root)?,
        };
        let budget = earlier.as_ref().map(|earlier| Duration::from_secs(earlier.budget_s));
        let directory = earlier.map(|earlier| PathBuf::from(earlier.directory));
        let directory = directory.filter(|directory| !directory.as_os_str().is_empty());
        for warning in &sweep.warnings {
            say!("{warning}");
        }
        if let Some(path) = &self.broker_conf {
            let conf = BrokerConf::load(path)?;
            for note in &conf.notes {
                say!("{note}");
            }
            sweep = sweep.with_broker_conf(&conf)?;
        }
        if let Some(budget) = self.budget.or(budget.filter(|budget| !budget.is_zero())) {
            sweep.budget = budget;
        }
        Ok(Order {
            directory: self.dir.clone().or(directory).unwrap_or_else(|| PathBuf::from(".")),
            results,
            sweep,
            origin: origin(),
            allow_in_memory: self.allow_memory,
            server: emulated::served_by(powercut::DISK_TASK)?,
            kernel: Roots::machine(),
            resume: resume.map(Path::to_owned),
            full_env: self.full_env,
            live: Arc::default(),
        })
    }
}

fn measure(arguments: &Arguments) -> Result<Finished> {
    let results = arguments.results.clone().unwrap_or_else(|| crate::root().join("results"));
    let order = arguments.what.order(results, arguments.resume.as_deref())?;
    let interrupted = signals::flag()?;
    run::run(&order, &interrupted, &mut Progress::of(Arc::clone(&order.live)))
}

pub(crate) fn plan(arguments: &PlanArguments) -> Result<u8> {
    let order = arguments.what.order(crate::root().join("results"), None)?;
    let interrupted = signals::flag()?;
    let plan = run::plan(&order, &interrupted)?;
    say::out(&progress::planned(&plan))?;
    Ok(if interrupted.load(Ordering::Relaxed) { exit::INTERRUPTED } else { exit::OK })
}

pub(crate) fn run(arguments: &Arguments) -> Result<u8> {
    let finished = measure(arguments)?;
    let Finished { path, manifest, environment, cells, error } = &finished;
    if arguments.json {
        say::out(&report::figures(manifest, cells)?)?;
    } else {
        say::out(&table::text(manifest, environment, cells, say::columns()))?;
    }
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
    if manifest.outcome == Outcome::Interrupted {
        say!("interrupted: {done} of {planned} cells were measured and are kept;");
        if manifest.origin.dirty == Some(false) {
            let memory = if arguments.what.allow_memory { " --allow-memory" } else { "" };
            say!("go on with cargo xtask bench --resume {}{memory}", path.display());
        } else {
            say!("it cannot be gone on with: the checkout has changes, or is not known");
        }
        return Ok(exit::INTERRUPTED);
    }
    if manifest.outcome == Outcome::Trimmed && done < planned {
        say!("trimmed: the time allowed was over after {done} of {planned} cells");
    }
    Ok(exit_code(manifest, cells))
}

fn exit_code(manifest: &Manifest, cells: &[Cell]) -> u8 {
    let not_applied = |cell: &Cell| {
        let mut checks = cell.validity.iter();
        checks.any(|check| check.code == run::NOT_APPLIED && check.level == Level::Invalid)
    };
    if cells.iter().any(not_applied) {
        say!("kernel settings were not applied: the cells say why");
        return exit::ENVIRONMENT;
    }
    let invalid = cells.iter().any(|cell| cell.status == Status::Invalid);
    let per_block = manifest.cells_planned / manifest.blocks.max(1);
    if invalid || manifest.cells_done < per_block { exit::INVALID } else { exit::OK }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use harness::profile::Sysctls;
    use harness::sysctl::{DirtySettings, Key};

    use super::*;

    /// The run of a tiny sweep over a kernel setting; `refuse` is what the kernel does not take.
    fn finished(refuse: &str) -> Finished {
        // On the disk that the project is built on, not in a file system of memory.
        let built = std::env::current_exe().unwrap();
        let place = tempfile::tempdir_in(built.parent().unwrap()).unwrap();
        let kernel = Roots::imitated(place.path()).unwrap();
        std::fs::write(place.path().join("vm/refuse"), refuse).unwrap();
        let mut sweep = Sweep::load("tiny", &crate::root()).unwrap();
        let mut settings = DirtySettings::default();
        settings.set(Key::ExpireCentisecs, 100).unwrap();
        sweep.sysctls = vec![Sysctls { name: "short".to_owned(), settings }];
        sweep.strategies.truncate(1);
        sweep.measure = Duration::from_millis(50);
        let order = Order {
            directory: place.path().to_owned(),
            results: place.path().join("results"),
            sweep,
            origin: origin(),
            allow_in_memory: true,
            server: emulated::served_by(powercut::DISK_TASK).unwrap(),
            kernel,
            resume: None,
            full_env: false,
            live: Arc::default(),
        };
        let interrupted = AtomicBool::new(false);
        let finished = run::run_any_build(&order, &interrupted, &mut Progress::default()).unwrap();
        assert!(finished.error.is_none(), "{:?}", finished.error);
        finished
    }

    #[test]
    fn settings_that_were_not_applied_are_told_by_the_exit_code() {
        let Finished { manifest, mut cells, .. } = finished("dirty_expire_centisecs 13");
        assert!(cells.iter().all(|cell| cell.status == Status::Invalid));
        assert_eq!(exit_code(&manifest, &cells), 3, "and not 2, although the cells are invalid");
        for cell in &mut cells {
            cell.validity.retain(|check| check.code != run::NOT_APPLIED);
        }
        assert_eq!(exit_code(&manifest, &cells), 2);
        let Finished { mut manifest, mut cells, .. } = finished("");
        let applied = |cell: &Cell| {
            let mut checks = cell.validity.iter();
            checks.any(|check| check.code == run::NOT_APPLIED && check.level == Level::Pass)
        };
        assert!(cells.iter().all(applied));
        // What a short cell in a debug build is besides does not matter here.
        for cell in &mut cells {
            cell.status = Status::Valid;
        }
        assert_eq!(exit_code(&manifest, &cells), 0);
        manifest.cells_done = 1;
        assert_eq!(exit_code(&manifest, &cells), 2, "less than a block");
    }

    #[test]
    fn a_budget_is_a_number_and_its_unit() {
        let seconds = |text| duration(text).map(|found| found.as_secs());
        assert_eq!(seconds("90s"), Ok(90));
        assert_eq!(seconds("20m"), Ok(1200));
        assert_eq!(seconds("2h"), Ok(7200));
        for wrong in ["", "m", "20", "1.5h", "-3m", "20 m", "9d", "20µ", "0s", "169h"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
        assert!(seconds("99999999999999999999h").is_err());
    }
}
