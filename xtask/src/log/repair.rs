//! `cargo xtask log repair`: makes a damaged store one that opens, and says what that costs.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use store_core::length_u64;
use store_os::{Fill, FillWith, Health, LostRange, RepairError, RepairReport, RepairStep, Survey};

use super::{Store, text};
use crate::{exit, say};

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
/// Where records were lost, RocketMQ's consumequeue/, batchconsumequeue/ and index/ still name
/// them. Move these and the file checkpoint out of the store, and RocketMQ makes them anew from the
/// log when it starts (before 5.3.2 only if there is a file abort: make an empty one). A copy has
/// none of them.
///
/// Exit codes: 0 the plan was made, the repair done, or there is nothing to repair, 1 wrong command
/// or directory, the store is in use, or the repair failed, 130 interrupted before it began.
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
    let Some(plan) = store.scan(store_os::plan_repair)? else { return Ok(exit::INTERRUPTED) };
    if plan.steps.is_empty() && to.is_none() {
        say::out(&format!("{}: nothing to repair\n", text::path(&store.dir)))?;
        return Ok(exit::OK);
    }
    let survey = &plan.survey;
    if !apply {
        show(|out| render_plan(survey, &plan.steps, &plan.lost, &store.dir, out))?;
        if survey.health() == Health::TornTail {
            say!("opening the store does the same by itself: no repair is needed");
        }
        how_to_go_on(&store.dir, to.as_deref());
        return Ok(exit::OK);
    }
    let report = match to {
        Some(to) => plan.copy_to(to),
        None => plan.apply_in_place(),
    };
    let report = report.map_err(|error| cannot_repair(&error))?;
    let repaired = to.as_deref().unwrap_or(&store.dir);
    show(|out| render_report(survey, &report, repaired, out))?;
    say!("check it: cargo xtask log verify {}", text::shell_word(repaired));
    if to.is_none() && survey.health() == Health::Damaged && !report.lost.is_empty() {
        say!(
            "before RocketMQ starts, move consumequeue/, batchconsumequeue/, index/ and checkpoint"
        );
        say!("out of the store: they name what is lost, and are made anew from the log");
    }
    Ok(exit::OK)
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

fn how_to_go_on(dir: &Path, to: Option<&Path>) {
    let dir = text::shell_word(dir);
    say!("dry run: nothing was changed. To do it:");
    if let Some(to) = to {
        say!("  cargo xtask log repair {dir} --to {} --apply", text::shell_word(to));
    } else {
        say!("  cargo xtask log repair {dir} --apply              in place");
        say!("  cargo xtask log repair {dir} --to DIR2 --apply    in a copy");
    }
}

fn render_plan(
    survey: &Survey,
    steps: &[RepairStep],
    lost: &[LostRange],
    dir: &Path,
    out: &mut dyn Write,
) -> io::Result<()> {
    let (kept, lost_sum) = (kept(survey), sum(lost));
    writeln!(out, "{}: a repair keeps {kept} and loses {lost_sum}", text::path(dir))?;
    lost_ranges(lost, out)?;
    if !steps.is_empty() {
        writeln!(out)?;
        writeln!(out, "it would")?;
    }
    for step in steps {
        render_step(step, out)?;
    }
    Ok(())
}

fn render_step(step: &RepairStep, out: &mut dyn Write) -> io::Result<()> {
    match step {
        RepairStep::Insert { path, .. } => {
            writeln!(out, "- make {}, which is missing, as one blank", text::name(path))
        }
        RepairStep::Replace { path, fills, .. } => {
            writeln!(out, "- set {} aside and write it anew with", text::name(path))?;
            for Fill { from, to, with } in fills {
                let with = match with {
                    FillWith::Blank => "a blank",
                    FillWith::Fillers { .. } => "filler records",
                    FillWith::Zeroes => "zeroes",
                    _ => "other bytes",
                };
                writeln!(out, "    {with} from {from} to {to}")?;
            }
            Ok(())
        }
        RepairStep::SetAside { path } => writeln!(out, "- set {} aside", text::name(path)),
        other => writeln!(out, "- {}", text::escaped(other.to_string().as_bytes())),
    }
}

fn render_report(
    survey: &Survey,
    report: &RepairReport,
    dir: &Path,
    out: &mut dyn Write,
) -> io::Result<()> {
    let (kept, lost_sum) = (kept(survey), sum(&report.lost));
    writeln!(out, "{}: repaired; {kept} kept, {lost_sum} lost", text::path(dir))?;
    lost_ranges(&report.lost, out)?;
    if !report.set_aside.is_empty() {
        writeln!(out)?;
        writeln!(out, "set aside")?;
    }
    let root = survey.segments_dir.parent().unwrap_or(&survey.segments_dir);
    for (_, now) in &report.set_aside {
        writeln!(out, "- {}", text::path(now.strip_prefix(root).unwrap_or(now)))?;
    }
    if !report.written.is_empty() {
        writeln!(out)?;
        writeln!(out, "written")?;
    }
    for path in &report.written {
        writeln!(out, "- {}", text::name(path))?;
    }
    Ok(())
}

fn kept(survey: &Survey) -> String {
    text::plural(survey.records, "record")
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
    writeln!(out, "{:<20} {:>12} {:>10}  lost", "segment", "offset", "length")?;
    for LostRange { path, from, to, found } in lost {
        let name = text::padded(&text::name(path), 20);
        let found = text::escaped(found.as_bytes());
        writeln!(out, "{name} {from:>12} {:>10}  {found}", to.since(*from))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::fixture;
    use store_core::{LogOffset, TimestampMs};

    fn lost() -> LostRange {
        LostRange {
            path: PathBuf::from("/s/commitlog/00000000000000065536"),
            from: LogOffset::new(65_636),
            to: LogOffset::new(65_736),
            found: "unknown \u{1b} magic".to_owned(),
        }
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
        let survey = fixture::sound();
        let found = text(|out| render_plan(&survey, &steps, &lost, Path::new("/s"), out));
        let expect = r"
/s: a repair keeps 3 records and loses 200 bytes in 2 places

segment                    offset     length  lost
00000000000000065536        65636        100  unknown \u{1b} magic
00000000000000065536        65636        100  unknown \u{1b} magic

it would
- set 00000000000000065536 aside and write it anew with
    filler records from 65636 to 65736
    a blank from 65836 to 131072
- make 00000000000000065536, which is missing, as one blank
- set a\u{7} aside
";
        assert_eq!(found, expect.trim_start());
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
        let found = text(|out| render_report(&survey, &report, Path::new("/s"), out));
        let expect = r"
/s: repaired; 3 records kept, 100 bytes in 1 place lost

segment                    offset     length  lost
00000000000000065536        65636        100  unknown \u{1b} magic

set aside
- commitlog/set-aside/00000000000000065536.damaged-1

written
- 00000000000000065536
";
        assert_eq!(found, expect.trim_start());
        let found =
            text(|out| render_report(&survey, &RepairReport::default(), Path::new("/s"), out));
        assert_eq!(found, "/s: repaired; 3 records kept, nothing lost\n");
    }
}
