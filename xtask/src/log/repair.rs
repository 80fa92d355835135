//! `cargo xtask log repair`: makes a damaged store one that opens, and says what that costs.

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{self, Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use store_core::{LogOffset, length_u64};
use store_os::{
    Fault, FaultKind, Fill, FillWith, LostRange, RepairError, RepairPlan, RepairReport, RepairStep,
    Survey,
};

use super::{Store, fault, text};
use crate::{exit, say, signals};

/// Say what a repair would keep and lose, and with --apply do it
///
/// Without --apply this is a dry run: it reads, prints the plan and changes nothing. What is lost
/// is the bytes that are no valid record; every record that can be read keeps its place. Filler
/// records, which no consumer sees, stand where something is lost.
///
/// In place, each damaged segment is first set aside in commitlog/set-aside/, which RocketMQ passes
/// over; nothing is ever deleted. No process may have the store open. A repair that is interrupted
/// leaves each segment either old or new: run it again. With --to the store stays as it is, and a
/// repaired copy of its commit log is written to DIR2.
///
/// A repair needs free space for each segment that it rewrites (1 GiB each by default), a copy for
/// all of them. What was set aside may be deleted once `log verify` finds the repaired store sound
/// and nobody wants the lost bytes any more.
///
/// Where records were lost, RocketMQ's consumequeue/, batchconsumequeue/ and index/ still name
/// them. Move these and the file checkpoint out of the store, and RocketMQ makes them anew from the
/// log when it starts (before 5.3.2 only if there is a file abort: make an empty one). A copy has
/// none of them. Flushmark needs none of this; its recovery-point.* may stay.
///
/// A torn tail is cut: Flushmark does that by itself when it opens the store, RocketMQ leaves it in
/// the file (apache/rocketmq#10666).
///
/// Exit codes: 0 the plan was made, the repair done, or there is nothing to repair, 1 wrong command
/// or directory, the store is in use, or the repair failed or would fail, 130 interrupted. While a
/// repair writes, a first interrupt only has it say that it goes on and a second one ends it: run
/// it again, with an unfinished copy removed.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    store: Store,
    /// Leave DIR as it is and write a repaired copy here; must not exist or be empty
    #[arg(long, value_name = "DIR2")]
    to: Option<PathBuf>,
    /// Do it
    #[arg(long)]
    apply: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<u8> {
    let Arguments { store, to, apply } = arguments;
    store.check()?;
    if let Some(to) = to {
        check_target(&store.dir, to)?;
    }
    let interrupted = signals::flag()?;
    let plan = store.scan_until(&interrupted, store_os::plan_repair)?;
    let Some(plan) = plan else { return Ok(exit::INTERRUPTED) };
    check_plan(&plan)?;
    if plan.steps.is_empty() && to.is_none() {
        say::out(&format!("{}: nothing to repair\n", text::path(&store.dir)))?;
        return Ok(exit::OK);
    }
    let survey = &plan.survey;
    let lost = lost_of_log(survey, &plan.steps, &plan.lost);
    if !apply {
        let plan = Shown {
            survey,
            steps: &plan.steps,
            lost: &lost,
            kept: kept(survey, plan.records_overwritten),
            is_copy: to.is_some(),
        };
        show(|out| plan.render(&store.dir, out))?;
        how_to_go_on(survey, store, to.as_deref());
        return Ok(exit::OK);
    }
    if interrupted.load(Ordering::Relaxed) {
        say!("interrupted before the repair began: nothing was changed");
        return Ok(exit::INTERRUPTED);
    }
    let report = telling(
        &interrupted,
        || say_it_goes_on(to.as_deref()),
        || match to {
            Some(to) => plan.copy_to(to),
            None => plan.apply_in_place(),
        },
    );
    let report = report.map_err(|error| cannot_repair(&error))?;
    let repaired = to.as_deref().unwrap_or(&store.dir);
    let report = RepairReport { lost, ..report };
    let kept = kept(survey, plan.records_overwritten);
    if let Err(error) = show(|out| render_report(survey, &report, &kept, repaired, out)) {
        say!("the repair was done, but what it did could not be printed:");
        say!("{error:#}");
    }
    say!("check it: {}", store.command_on("verify", repaired));
    let is_copy = to.is_some();
    for line in before_rocketmq_starts(survey, &report.lost, repaired, is_copy) {
        say!("{line}");
    }
    Ok(exit::OK)
}

/// Fails if a copy to `to` would, before much is read for it.
fn check_target(dir: &Path, to: &Path) -> Result<()> {
    let seen = |error: io::Error| anyhow!("cannot look at {}: {error}", text::path(to));
    let why = match fs::read_dir(to).map(|mut entries| entries.next()) {
        Ok(Some(_)) => "is not empty",
        Err(error) if error.kind() == ErrorKind::NotADirectory => "is no directory",
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(seen(error)),
        _ if is_in_store(dir, to).map_err(seen)? => "lies in the store",
        _ => return Ok(()),
    };
    bail!("{} {why}; name another", text::path(to))
}

/// Whether `to` lies below the store's root or its segments, with symbolic links followed.
fn is_in_store(dir: &Path, to: &Path) -> io::Result<bool> {
    let to = path::absolute(to)?;
    let there = to.ancestors().find(|place| fs::symlink_metadata(place).is_ok()).unwrap_or(&to);
    let there = fs::canonicalize(there)?;
    let segments = dir.join("commitlog");
    let own = [Some(dir), segments.is_dir().then_some(&segments)];
    own.into_iter()
        .flatten()
        .map(fs::canonicalize)
        .try_fold(false, |is_in, own| Ok(is_in || there.starts_with(own?)))
}

/// Fails if the plan cannot be applied: a segment is a link, or so many are missing that the plan
/// does not fill the gap.
fn check_plan(plan: &RepairPlan) -> Result<()> {
    let size = plan.survey.segment_size.bytes();
    for fault in &plan.survey.faults {
        if matches!(fault.kind, FaultKind::SymbolicLink) {
            return Err(cannot_repair(&RepairError::Link { path: fault.path.clone() }));
        }
        let Fault { from, to, kind: FaultKind::MissingSegment, .. } = fault else { continue };
        let is_inside = |start: &LogOffset| (*from..*to).contains(start);
        let starts = plan.steps.iter().filter_map(|step| match step {
            RepairStep::Insert { start, .. } => Some(start),
            _ => None,
        });
        let made = length_u64(starts.filter(|start| is_inside(start)).count());
        if made > 0 && made * size < to.since(*from) {
            return Err(cannot_repair(&RepairError::GapTooWide { from: *from, to: *to }));
        }
    }
    Ok(())
}

/// Does `work`; when a first signal comes meanwhile, `tell` is called at once.
fn telling<T>(interrupted: &AtomicBool, tell: impl FnOnce() + Send, work: impl FnOnce() -> T) -> T {
    let (done, is_done) = mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            while is_done.recv_timeout(LOOK_EACH) == Err(RecvTimeoutError::Timeout) {
                if interrupted.load(Ordering::Relaxed) {
                    return tell();
                }
            }
        });
        let result = work();
        drop(done);
        result
    })
}

/// What a first signal is answered while a repair writes; the second ends it.
fn say_it_goes_on(to: Option<&Path>) {
    match to {
        None => {
            say!("the repair goes on. Interrupting it once more ends it, which is safe:");
            say!("each segment is either old or new; then run it again");
        }
        Some(to) => {
            say!("the copy goes on. Interrupting it once more ends it, which is safe for the");
            say!("store; then remove {} and run it again", text::path(to));
        }
    }
}

/// What is lost of the log: a file that stands behind it and holds no record of it is set aside as
/// it is, so nothing of it is.
fn lost_of_log(survey: &Survey, steps: &[RepairStep], lost: &[LostRange]) -> Vec<LostRange> {
    let faults = fault::listed(survey);
    let goes_aside = |path: &Path| {
        steps.iter().any(|step| match step {
            RepairStep::SetAside { path: aside } => aside == path,
            _ => false,
        })
    };
    let holds_no_record = |path: &Path| {
        let fault = faults.iter().find(|fault| fault.path == path);
        fault.is_some_and(|fault| {
            matches!(
                fault.kind,
                FaultKind::Damage { .. } | FaultKind::TornTail { .. } | FaultKind::UnknownFile
            )
        })
    };
    let is_foreign = |path: &Path| goes_aside(path) && holds_no_record(path);
    lost.iter().filter(|range| !is_foreign(&range.path)).cloned().collect()
}

/// What RocketMQ must not find, or must find, for its queues to be those of the repaired log. What
/// is cut at the log's end it takes out of its queues by itself.
fn before_rocketmq_starts(
    survey: &Survey,
    lost: &[LostRange],
    dir: &Path,
    is_copy: bool,
) -> Vec<String> {
    if lost.iter().all(|range| survey.end <= range.from) {
        return Vec::new();
    }
    let root = if dir.join("commitlog").is_dir() { dir.to_owned() } else { dir.join("..") };
    let touch = format!("  touch {}", text::shell_word(&root.join("abort")));
    let mut lines: Vec<&str> = Vec::new();
    let has_abort = survey.abort.is_some() && !is_copy;
    if is_copy {
        lines
            .push("RocketMQ makes consumequeue/, batchconsumequeue/ and index/ anew from the log;");
        lines.push("before 5.3.2 it does so only with a file abort:");
    } else {
        lines.push("before RocketMQ starts, move consumequeue/, batchconsumequeue/, index/ and");
        lines.push("checkpoint out of the store: they name what is lost, and are made anew from");
        if has_abort {
            lines.push("the log");
        } else {
            lines.push("the log. RocketMQ before 5.3.2 does so only with a file abort:");
        }
    }
    if !has_abort {
        lines.push(&touch);
    }
    if !is_copy {
        lines.push("Flushmark needs none of this, and its recovery-point.* may stay");
    }
    lines.into_iter().map(str::to_owned).collect()
}

/// Why a store was not repaired, in one line; what it names is escaped.
fn cannot_repair(error: &RepairError) -> anyhow::Error {
    let hint = match error {
        RepairError::Locked { .. } | RepairError::NotAStore { .. } => " (--to DIR2)",
        _ => "",
    };
    anyhow!("{}{hint}", text::escaped(error.to_string().as_bytes()))
}

fn show(render: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<u8> {
    say::stream(|out| render(out).map(|()| exit::OK).context(say::CANNOT_WRITE))
}

fn how_to_go_on(survey: &Survey, store: &Store, to: Option<&Path>) {
    if fault::has_tail(survey) {
        for line in fault::WHO_CUTS {
            say!("{line}");
        }
    }
    let command = store.command("repair");
    if let Some(to) = to {
        say!("dry run: nothing was changed. To do it:");
        say!("  {command} --to {} --apply", text::shell_word(to));
    } else {
        say!("dry run: nothing was changed. To do it in place, or in a copy:");
        say!("  {command} --apply");
        say!("  {command} --to DIR2 --apply");
    }
}

/// A plan as it is shown.
#[derive(Debug)]
struct Shown<'a> {
    survey: &'a Survey,
    steps: &'a [RepairStep],
    lost: &'a [LostRange],
    /// How many records are kept.
    kept: String,
    is_copy: bool,
}

impl Shown<'_> {
    fn render(&self, dir: &Path, out: &mut dyn Write) -> io::Result<()> {
        let (kept, lost) = (&self.kept, sum(self.lost));
        let what = format!("a repair keeps {kept} and loses {lost}");
        writeln!(out, "{}", text::headed(dir, &what))?;
        lost_ranges(self.lost, out)?;
        if !self.steps.is_empty() {
            writeln!(out)?;
            writeln!(out, "it would")?;
        }
        self.all_steps(out)
    }

    /// The steps; missing segments in a row are one.
    fn all_steps(&self, out: &mut dyn Write) -> io::Result<()> {
        let is_next = |one: &RepairStep, next: &RepairStep| match (one, next) {
            (RepairStep::Insert { start: one, .. }, RepairStep::Insert { start: next, .. }) => {
                one.checked_add(self.survey.segment_size.bytes()) == Some(*next)
            }
            _ => false,
        };
        self.steps.chunk_by(is_next).try_for_each(|steps| match steps {
            [RepairStep::Insert { path: first, .. }, .., RepairStep::Insert { path: last, .. }] => {
                let (first, last) = (text::name(first), text::name(last));
                writeln!(out, "- make {first} to {last},")?;
                writeln!(out, "    {} missing segments, as one blank each", steps.len())
            }
            steps => steps.iter().try_for_each(|step| self.step(step, out)),
        })
    }

    fn step(&self, step: &RepairStep, out: &mut dyn Write) -> io::Result<()> {
        match step {
            RepairStep::Insert { path, .. } => {
                writeln!(out, "- make {}, which is missing, as one blank", text::name(path))
            }
            RepairStep::Replace { path, fills, .. } => {
                let name = text::name(path);
                let anew = if self.is_copy {
                    format!("- write {name} anew")
                } else {
                    format!("- set {name} aside and write it anew")
                };
                if fills.is_empty() {
                    let size = self.survey.segment_size.bytes();
                    return writeln!(out, "{anew}, {size} bytes long");
                }
                writeln!(out, "{anew} with")?;
                fills.iter().try_for_each(|fill| render_fill(fill, out))
            }
            RepairStep::SetAside { path } => {
                let what = if self.is_copy { "leave out" } else { "set aside" };
                item(out, &format!("{what} {}", text::name(path)))
            }
            other => item(out, &text::escaped(other.to_string().as_bytes())),
        }
    }
}

/// A line of a list, or more for a long name.
fn item(out: &mut dyn Write, text: &str) -> io::Result<()> {
    writeln!(out, "- {}", text::folded(text, text::COLUMNS - 2).join("\n  "))
}

fn render_fill(fill: &Fill, out: &mut dyn Write) -> io::Result<()> {
    let Fill { from, to, with } = fill;
    let with = match with {
        FillWith::Blank => "a blank",
        FillWith::Fillers { .. } => "filler records",
        FillWith::Zeroes => "zeroes",
        _ => "other bytes",
    };
    writeln!(out, "    {with} from {from} to {to}")
}

fn render_report(
    survey: &Survey,
    report: &RepairReport,
    kept: &str,
    dir: &Path,
    out: &mut dyn Write,
) -> io::Result<()> {
    let lost_sum = sum(&report.lost);
    writeln!(out, "{}", text::headed(dir, &format!("repaired; {kept} kept, {lost_sum} lost")))?;
    lost_ranges(&report.lost, out)?;
    if !report.set_aside.is_empty() {
        writeln!(out)?;
        writeln!(out, "set aside")?;
    }
    let root = survey.segments_dir.parent().unwrap_or(&survey.segments_dir);
    for (_, now) in &report.set_aside {
        item(out, &text::path(now.strip_prefix(root).unwrap_or(now)))?;
    }
    if !report.written.is_empty() {
        writeln!(out)?;
        writeln!(out, "written")?;
    }
    for paths in report.written.chunk_by(|one, next| is_behind(survey, one, next)) {
        match paths {
            [first, _, .., last] => {
                let (first, last) = (text::name(first), text::name(last));
                writeln!(out, "- {first} to {last}, {} segments", paths.len())?;
            }
            paths => paths.iter().try_for_each(|path| writeln!(out, "- {}", text::name(path)))?,
        }
    }
    Ok(())
}

/// Whether the segment at `next` is the one behind that at `one`.
fn is_behind(survey: &Survey, one: &Path, next: &Path) -> bool {
    let start = |path: &Path| path.file_name()?.to_str()?.parse::<u64>().ok();
    start(one).and_then(|start| start.checked_add(survey.segment_size.bytes())) == start(next)
}

/// Records that a repair keeps, which are no fillers; it overwrites so many that are valid.
fn kept(survey: &Survey, overwritten: u64) -> String {
    let records = survey.records - fault::fillers(survey).0;
    text::plural(records.saturating_sub(overwritten), "record")
}

fn sum(lost: &[LostRange]) -> String {
    match lost.iter().map(|range| range.to.since(range.from)).sum() {
        0 => "nothing".to_owned(),
        bytes => format!(
            "{} in {}",
            text::plural(bytes, "byte"),
            text::plural(length_u64(lost.len()), "place")
        ),
    }
}

/// One line per range, with a head.
fn lost_ranges(lost: &[LostRange], out: &mut dyn Write) -> io::Result<()> {
    if lost.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    writeln!(out, "{:<20} {:>12} {:>10}", "lost in", "offset", "length")?;
    for LostRange { path, from, to, found } in lost {
        let name = text::padded(&text::name(path), 20);
        writeln!(out, "{name} {from:>12} {:>10}", to.since(*from))?;
        for line in text::wrapped(&text::escaped(found.as_bytes()), text::COLUMNS - 4) {
            writeln!(out, "    {line}")?;
        }
    }
    Ok(())
}

/// How often a signal is looked for.
const LOOK_EACH: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::fixture;
    use store_core::TimestampMs;

    fn lost() -> LostRange {
        LostRange {
            path: PathBuf::from("/s/commitlog/00000000000000065536"),
            from: LogOffset::new(65_636),
            to: LogOffset::new(65_736),
            found: "unknown \u{1b} magic".to_owned(),
        }
    }

    fn plan<'a>(steps: &'a [RepairStep], lost: &'a [LostRange], is_copy: bool) -> String {
        let survey = fixture::sound();
        let shown = Shown { survey: &survey, steps, lost, kept: kept(&survey, 0), is_copy };
        text(|out| shown.render(Path::new("/s"), out))
    }

    fn text(render: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        render(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_plan_names_every_lost_range_and_every_step() {
        let fill =
            |from, to, with| Fill { from: LogOffset::new(from), to: LogOffset::new(to), with };
        let filler = FillWith::Fillers { store_timestamp: TimestampMs::new(0) };
        let path = PathBuf::from("/s/commitlog/00000000000000065536");
        let start = LogOffset::new(65_536);
        let fills = vec![fill(65_636, 65_736, filler), fill(65_836, 131_072, FillWith::Blank)];
        let steps = [
            RepairStep::Replace { path: path.clone(), start, fills },
            RepairStep::Insert { path, start },
            RepairStep::SetAside { path: PathBuf::from("/s/commitlog/a\u{7}") },
        ];
        let lost = [lost(), lost()];
        let found = plan(&steps, &lost, false);
        let expect = r"
/s: a repair keeps 3 records and loses 200 bytes in 2 places

lost in                    offset     length
00000000000000065536        65636        100
    unknown \u{1b} magic
00000000000000065536        65636        100
    unknown \u{1b} magic

it would
- set 00000000000000065536 aside and write it anew with
    filler records from 65636 to 65736
    a blank from 65836 to 131072
- make 00000000000000065536, which is missing, as one blank
- set aside a\u{7}
";
        assert_eq!(found, expect.trim_start());
    }

    #[test]
    fn a_step_without_fills_names_the_length_and_a_copy_sets_nothing_aside() {
        let path = PathBuf::from("/s/commitlog/00000000000000065536");
        let start = LogOffset::new(65_536);
        let steps = [
            RepairStep::Replace { path: path.clone(), start, fills: Vec::new() },
            RepairStep::SetAside { path },
        ];
        let head = "/s: a repair keeps 3 records and loses nothing\n\nit would\n";
        let in_place = "- set 00000000000000065536 aside and write it anew, 65536 bytes long\n\
                        - set aside 00000000000000065536\n";
        assert_eq!(plan(&steps, &[], false), format!("{head}{in_place}"));
        let copied = "- write 00000000000000065536 anew, 65536 bytes long\n\
                      - leave out 00000000000000065536\n";
        assert_eq!(plan(&steps, &[], true), format!("{head}{copied}"));
    }

    #[test]
    fn many_missing_segments_take_two_lines_and_long_names_one_more() {
        let insert = |number: u64| {
            let start = LogOffset::new(number * 65_536);
            RepairStep::Insert { path: format!("/s/commitlog/{start:020}").into(), start }
        };
        let long = format!("/s/commitlog/{}", "x".repeat(76));
        let mut steps = vec![insert(1), insert(3), insert(4), insert(5), insert(9)];
        steps.push(RepairStep::SetAside { path: long.into() });
        let found = plan(&steps, &[], false);
        let expect = format!(
            "it would\n- make 00000000000000065536, which is missing, as one blank\n\
             - make 00000000000000196608 to 00000000000000327680,\n    \
             3 missing segments, as one blank each\n\
             - make 00000000000000589824, which is missing, as one blank\n\
             - set aside\n  {}\n",
            "x".repeat(76)
        );
        assert!(found.ends_with(&expect), "{found}");
        assert!(found.lines().all(|line| text::columns(line) <= text::COLUMNS), "{found}");
    }

    #[test]
    fn a_report_names_the_ends_of_a_row_of_written_segments() {
        let written = [1, 2, 3, 5, 6].map(|number| format!("/c/{:020}", number * 65_536).into());
        let report = RepairReport { written: written.to_vec(), ..RepairReport::default() };
        let found = text(|out| {
            render_report(&fixture::sound(), &report, "3 records", Path::new("/c"), out)
        });
        let expect = "written\n- 00000000000000065536 to 00000000000000196608, 3 segments\n\
                      - 00000000000000327680\n- 00000000000000393216\n";
        assert!(found.ends_with(expect), "{found}");
    }

    #[test]
    fn the_first_signal_is_answered_while_the_work_goes_on() {
        let interrupted = AtomicBool::new(false);
        let (told, hears) = mpsc::channel();
        let tell = move || told.send(()).unwrap();
        let done = telling(&interrupted, tell, || {
            interrupted.store(true, Ordering::Relaxed);
            hears.recv_timeout(Duration::from_mins(1))
        });
        assert_eq!(done, Ok(()));
        let quiet = AtomicBool::new(false);
        assert_eq!(telling(&quiet, || panic!("there was no signal"), || 7), 7);
    }

    #[test]
    fn fillers_of_an_earlier_repair_and_what_is_overwritten_are_not_counted_as_kept() {
        let mut survey = fixture::sound();
        let (name, topic) = fixture::topic("FLUSHMARK_LOST", 1);
        let topic = store_os::TopicSurvey { queues: std::collections::BTreeMap::new(), ..topic };
        survey.topics.insert(name, topic);
        assert_eq!(kept(&survey, 0), "2 records");
        assert_eq!(kept(&survey, 1), "1 record");
        assert_eq!(kept(&survey, 3), "0 records");
    }

    #[test]
    fn nothing_of_the_log_is_lost_with_a_foreign_file_behind_it() {
        let range = lost();
        let aside = [RepairStep::SetAside { path: range.path.clone() }];
        let foreign = fixture::fault(FaultKind::UnknownFile);
        for (kind, steps, expect) in [
            (FaultKind::UnknownFile, &aside[..], 0),
            (fixture::damage().kind, &aside, 0),
            (fixture::torn_tail().kind, &aside, 0),
            (fixture::stale_tail().kind, &aside, 1),
            (fixture::damage().kind, &[], 1),
        ] {
            let faults = vec![Fault { kind, ..foreign.clone() }];
            let survey = Survey { faults, ..fixture::sound() };
            let found = lost_of_log(&survey, steps, std::slice::from_ref(&range));
            assert_eq!(found.len(), expect, "{survey:?}");
        }
    }

    #[test]
    fn what_rocketmq_needs_is_said_where_records_are_lost_and_fits_80_columns() {
        let dir = Path::new("/a store");
        let advice = |survey: &Survey, lost: &[LostRange], is_copy| {
            let lines = before_rocketmq_starts(survey, lost, dir, is_copy);
            assert!(lines.iter().all(|line| text::columns(line) <= text::COLUMNS), "{lines:?}");
            lines.join("\n")
        };
        let closed = fixture::sound();
        let touch = "before 5.3.2 does so only with a file abort:\n  touch '/a store/../abort'";
        let in_place = advice(&closed, &[lost()], false);
        assert!(in_place.contains(touch) && in_place.contains("move consumequeue/"), "{in_place}");
        assert!(in_place.ends_with("recovery-point.* may stay"), "{in_place}");
        let copied = advice(&closed, &[lost()], true);
        assert!(copied.ends_with("abort:\n  touch '/a store/../abort'"), "{copied}");
        assert!(!copied.contains("move"), "{copied}");
        let died = Survey { abort: Some("7".to_owned()), ..fixture::sound() };
        assert!(!advice(&died, &[lost()], false).contains("touch"));
        assert!(advice(&died, &[lost()], true).contains("touch"), "a copy has no abort");
        let end = LogOffset::new(65_636);
        assert_eq!(advice(&Survey { end, ..closed }, &[lost()], false), "", "a tail was cut");
    }

    #[test]
    fn a_report_names_what_is_where_now() {
        let path = PathBuf::from("/s/commitlog/00000000000000065536");
        let aside = PathBuf::from("/s/commitlog/set-aside/00000000000000065536.damaged-1");
        let report = RepairReport {
            lost: vec![lost()],
            set_aside: vec![(path.clone(), aside)],
            written: vec![path],
        };
        let survey = fixture::sound();
        let found = text(|out| render_report(&survey, &report, "3 records", Path::new("/s"), out));
        let expect = r"
/s: repaired; 3 records kept, 100 bytes in 1 place lost

lost in                    offset     length
00000000000000065536        65636        100
    unknown \u{1b} magic

set aside
- commitlog/set-aside/00000000000000065536.damaged-1

written
- 00000000000000065536
";
        assert_eq!(found, expect.trim_start());
        let found = text(|out| {
            render_report(&survey, &RepairReport::default(), "3 records", Path::new("/s"), out)
        });
        assert_eq!(found, "/s: repaired; 3 records kept, nothing lost\n");
    }
}
