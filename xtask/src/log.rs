//! `cargo xtask log`: looks into a store directory, Flushmark's or RocketMQ's.

mod dump;
mod fault;
#[cfg(test)]
mod fixture;
mod json;
mod repair;
mod show;
mod text;
mod verify;

use std::fmt::Write as _;
use std::fs;
use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, anyhow, bail};
use store_core::{Protection, SegmentSize};
use store_os::{SurveyError, SurveyOptions};

use crate::progress::ScanBar;
use crate::signals;

/// Look into a store, Flushmark's or RocketMQ's: what is in it, and is it sound?
///
/// `log DIR` reads every byte of the commit log in DIR and says on one screen what is in it. It
/// writes nothing, takes no lock and needs no right to write, so it may look at a store in use:
/// what is being written just then can look torn. A store whose directory is named like a command
/// is given as ./NAME.
///
/// Filler records are what `log repair` put where something was lost; no consumer sees them, and
/// they are no topic here. Blank is what was left over at segments' ends.
///
/// Exit codes of `log DIR`: 0 it was read, whatever its health (`log verify` judges it), 1 wrong
/// command or directory, or it could not be read, 130 interrupted.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    task: Option<Task>,
    #[command(flatten)]
    store: Option<Store>,
    /// One JSON object with all that was found, as `log verify DIR --json` prints it
    #[arg(long, requires = "dir")]
    json: bool,
}

#[derive(Debug, clap::Subcommand)]
enum Task {
    Dump(dump::Arguments),
    Repair(repair::Arguments),
    Verify(verify::Arguments),
}

/// Which store, and how to read it.
#[derive(Debug, clap::Args)]
struct Store {
    /// The store's root, which holds commitlog/, or a directory of segments itself
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Segment size (mappedFileSizeCommitLog), also as 64MiB [default: what the segments show]
    #[arg(long, value_name = "BYTES", value_parser = segment_size)]
    segment_size: Option<SegmentSize>,
    /// Do not verify records' CRC32 property, only their bodies' checksums
    ///
    /// As RocketMQ reads without forceVerifyPropCRC. For a store whose CRC32 properties are known
    /// to be wrong.
    #[arg(long)]
    ignore_crc_property: bool,
}

impl Store {
    fn protection(&self) -> Protection {
        if self.ignore_crc_property { Protection::Body } else { Protection::Record }
    }

    /// A command on this store for a user to run, with the options that this one was given:
    /// without them it would read other records.
    fn command(&self, task: &str) -> String {
        self.command_on(task, &self.dir)
    }

    /// The same on a copy of this store.
    fn command_on(&self, task: &str, dir: &Path) -> String {
        let mut command = format!("cargo xtask log {task} {}", text::shell_word(dir));
        if let Some(size) = self.segment_size {
            let _ = write!(command, " --segment-size {}", size.bytes());
        }
        if self.ignore_crc_property {
            command.push_str(" --ignore-crc-property");
        }
        command
    }

    /// Whether DIR is known to be a store's root whose owner closed it.
    fn is_closed(&self) -> bool {
        self.dir.join("commitlog").is_dir() && !self.dir.join("abort").exists()
    }

    /// Fails in one line if DIR cannot be a store.
    fn check(&self) -> Result<()> {
        let shown = text::path(&self.dir);
        match fs::metadata(&self.dir) {
            Ok(found) if found.is_dir() => {
                let is_empty =
                    fs::read_dir(&self.dir).is_ok_and(|mut entries| entries.next().is_none());
                if is_empty {
                    bail!("{shown} is empty: DIR is {STORE_ROOT}");
                }
                Ok(())
            }
            Ok(_) => bail!("{shown} is a file: DIR is {STORE_ROOT}"),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                bail!("{shown} does not exist: DIR is {STORE_ROOT}")
            }
            Err(error) => bail!("cannot look at {shown}: {error}"),
        }
    }

    /// Reads the store by `read`, with a bar; `None` if a signal ended it.
    fn scan<T>(
        &self,
        read: impl FnOnce(&Path, &SurveyOptions<'_>) -> Result<T, SurveyError>,
    ) -> Result<Option<T>> {
        self.check()?;
        self.scan_until(&*signals::flag()?, read)
    }

    /// The same until `interrupted` is set, without a look at DIR first.
    fn scan_until<T>(
        &self,
        interrupted: &AtomicBool,
        read: impl FnOnce(&Path, &SurveyOptions<'_>) -> Result<T, SurveyError>,
    ) -> Result<Option<T>> {
        let bar = ScanBar::new();
        let progress = |seen| {
            bar.show(&seen);
            if interrupted.load(Ordering::Relaxed) {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        let options = SurveyOptions {
            segment_size: self.segment_size,
            protection: self.protection(),
            progress: Some(&progress),
        };
        let result = read(&self.dir, &options);
        drop(bar);
        match result {
            Ok(found) => Ok(Some(found)),
            Err(SurveyError::Interrupted) => {
                say!("interrupted: the store was not read to its end; nothing was changed");
                Ok(None)
            }
            Err(error) => Err(cannot_read(&error)),
        }
    }
}

/// Runs the task; an error's text fits a terminal.
pub(crate) fn run(arguments: &Arguments) -> Result<u8> {
    run_task(arguments).map_err(|error| anyhow!("{}", error_lines(&format!("{error:#}"))))
}

/// An error in lines of at most 80 columns, but for a long path, behind `error: `.
fn error_lines(error: &str) -> String {
    let lines: Vec<String> =
        error.lines().flat_map(|line| text::folded(line, text::COLUMNS - 7)).collect();
    lines.join("\n")
}

fn run_task(arguments: &Arguments) -> Result<u8> {
    match (&arguments.task, &arguments.store) {
        (Some(Task::Dump(arguments)), _) => dump::run(arguments),
        (Some(Task::Repair(arguments)), _) => repair::run(arguments),
        (Some(Task::Verify(arguments)), _) => verify::run(arguments),
        (None, Some(store)) => show::run(store, arguments.json),
        (None, None) => bail!("no DIR was given"),
    }
}

/// Why a store was not read, in one line; what it names is escaped.
fn cannot_read(error: &SurveyError) -> anyhow::Error {
    let hint = match error {
        SurveyError::NotAStore { .. } => "; DIR is a store's root",
        SurveyError::SegmentSize { .. } => " (--segment-size BYTES)",
        _ => "",
    };
    anyhow!("{}{hint}", text::escaped(error.to_string().as_bytes()))
}

/// Parses `65536`, `64KiB`, `16MiB` or `1GiB`.
fn segment_size(given: &str) -> Result<SegmentSize, String> {
    let (digits, unit) =
        given.split_at(given.trim_end_matches(|c: char| !c.is_ascii_digit()).len());
    let shift = match unit {
        "" | "B" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        _ => return Err("not a number of bytes, such as 65536 or 64MiB".to_owned()),
    };
    let bytes = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
    let bytes = bytes.ok_or("not a number of bytes, such as 65536 or 64MiB")?;
    SegmentSize::new(bytes).map_err(|error| error.to_string())
}

const STORE_ROOT: &str = "a store's root, which holds commitlog/";

#[cfg(test)]
mod tests {
    use super::*;
    use store_os::ScanProgress;

    #[test]
    fn segment_sizes_are_bytes_or_have_a_binary_unit() {
        for (given, expect) in
            [("65536", 65_536), ("64KiB", 65_536), ("16MiB", 16 << 20), ("1GiB", 1 << 30)]
        {
            assert_eq!(segment_size(given).map(SegmentSize::bytes), Ok(expect), "{given}");
        }
        for given in ["", "KiB", "64kb", "-1", "1.5GiB", "64 MiB", "99999999999GiB", "4096GiB"] {
            assert!(segment_size(given).is_err(), "{given}");
        }
    }

    #[test]
    fn an_error_has_lines_of_80_columns_and_whole_words() {
        assert_eq!(error_lines("a\nb"), "a\nb");
        let path = "/x".repeat(50);
        assert_eq!(
            error_lines(&format!("cannot look at {path}: no")),
            format!("cannot look at\n{path}:\nno")
        );
        assert!(error_lines(&"word ".repeat(40)).lines().all(|line| line.len() + 7 <= 80));
    }

    #[test]
    fn every_task_is_known_to_what_names_a_directory() {
        let command = <Arguments as clap::Args>::augment_args(clap::Command::new("log"));
        let tasks: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
        assert!(!tasks.is_empty());
        assert!(tasks.iter().all(|task| text::TASKS.contains(task)), "{tasks:?}");
    }

    #[test]
    fn a_printed_command_has_the_options_that_were_given() {
        let dir = PathBuf::from("it's a store");
        let plain = Store { dir, segment_size: None, ignore_crc_property: false };
        assert_eq!(plain.command("verify"), r"cargo xtask log verify 'it'\''s a store'");
        let given = Store {
            segment_size: SegmentSize::new(1 << 20).ok(),
            ignore_crc_property: true,
            ..plain
        };
        assert_eq!(
            given.command_on("repair", Path::new("b")),
            "cargo xtask log repair b --segment-size 1048576 --ignore-crc-property"
        );
    }

    #[test]
    fn a_signal_ends_the_scan_through_its_progress() {
        let store =
            Store { dir: PathBuf::from("."), segment_size: None, ignore_crc_property: false };
        let seen = || ScanProgress { scanned_bytes: 0, total_bytes: 1, records: 0 };
        let found = store.scan(|_, options| {
            let progress = options.progress.unwrap();
            assert_eq!(progress(seen()), ControlFlow::Continue(()));
            signal_hook::low_level::raise(signal_hook::consts::SIGTERM).unwrap();
            assert_eq!(progress(seen()), ControlFlow::Break(()));
            Err::<(), _>(SurveyError::Interrupted)
        });
        assert!(matches!(found, Ok(None)));
    }
}
