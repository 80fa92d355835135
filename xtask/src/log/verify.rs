//! `cargo xtask log verify`: is every byte of a store's commit log sound?

use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, Result};
use store_core::length_u64;
use store_os::{Fault, Health, Survey};

use super::fault::{self, Told};
use super::{Store, json, text};
use crate::{exit, say};

/// Check every byte of a store's commit log
///
/// Reads all records and verifies lengths, checksums and places, and that nothing is missing
/// between segments. Prints a summary and two lines per fault: segment, log offset, length and
/// valid records behind it, then what was found. Writes nothing and takes no lock.
///
/// A torn tail is what a crash leaves behind the last valid record. While abort is there (the last
/// exit was unclean, or the store is in use) that is expected. Flushmark cuts it when it opens the
/// store; RocketMQ leaves it in the file, where records that it cut can come back
/// (apache/rocketmq#10666). `log repair` cuts it for both.
///
/// Reads every byte; Flushmark, when it opens a long log, reads only what an earlier run did not
/// prove.
///
/// Exit codes: 0 sound, or torn where that is expected, 1 wrong command or directory, or the store
/// could not be read, 2 damage, with which Flushmark would not open the store, or a torn tail after
/// a clean exit, 130 interrupted.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    store: Store,
    /// One JSON object with all that was found, also segments, topics and queues
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<u8> {
    let store = &arguments.store;
    let Some(survey) = store.scan(store_os::survey)? else { return Ok(exit::INTERRUPTED) };
    let (code, why) = fault::verdict(&survey);
    // Not the stream's own code: whoever stopped reading still gets the verdict.
    say::stream(|out| {
        if arguments.json {
            json::write(&survey, &store.dir, out)?;
        } else {
            render(&survey, &store.dir, out).context(say::CANNOT_WRITE)?;
        }
        Ok(exit::OK)
    })?;
    if let Some(why) = why {
        say!("{why}");
    }
    next(&survey, store);
    Ok(code)
}

/// What to run next, and what happens without it.
fn next(survey: &Survey, store: &Store) {
    if !fault::is_repairable(survey) {
        return;
    }
    if fault::has_tail(survey) {
        for line in fault::WHO_CUTS {
            say!("{line}");
        }
    }
    say!("next: {}", store.command("repair"));
    say!("      says what a repair would keep and lose; changes nothing");
}

fn render(survey: &Survey, dir: &Path, out: &mut dyn Write) -> io::Result<()> {
    let faults = fault::listed(survey);
    writeln!(out, "{}", text::headed(dir, &headline(survey, &faults)))?;
    if !survey.segments.is_empty() {
        writeln!(
            out,
            "{}; {} in {} of {} each",
            fault::records(survey),
            text::bytes(survey.record_bytes),
            text::plural(length_u64(survey.segments.len()), "segment"),
            text::bytes(survey.segment_size.bytes()),
        )?;
        writeln!(out, "valid to offset {}{}", survey.end, fault::blank(survey))?;
    }
    if let Some(step) = &survey.first_clock_step {
        writeln!(
            out,
            "the clock went back {} (no fault), first at offset {}:\n{} after {}",
            text::plural(survey.clock_steps, "time"),
            step.at,
            text::time(step.after),
            text::time(step.before)
        )?;
    }
    if faults.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    writeln!(out, "{:<20} {:>12} {:>10} {:>8}", "segment", "offset", "length", "behind")?;
    for fault in &faults {
        let told = Told::new(fault);
        let (from, length) = match fault::length(fault) {
            0 => ("–".to_owned(), "–".to_owned()),
            length => (fault.from.to_string(), length.to_string()),
        };
        let name = text::padded(&text::name(&fault.path), 20);
        let Told { what, records_behind, .. } = told;
        let behind = records_behind.map_or_else(|| "–".to_owned(), |count| count.to_string());
        writeln!(out, "{name} {from:>12} {length:>10} {behind:>8}")?;
        for line in text::wrapped(&what, text::COLUMNS - INDENT.len()) {
            writeln!(out, "{INDENT}{line}")?;
        }
    }
    Ok(())
}

fn headline(survey: &Survey, faults: &[Fault]) -> String {
    match survey.health() {
        Health::Damaged => format!("damaged, {}", fault::count(faults)),
        Health::Sound if fault::is_empty(survey) => "empty, no segment yet".to_owned(),
        Health::Sound => "sound".to_owned(),
        Health::TornTail if !fault::has_tail(survey) => {
            "sound, with an empty file at its end".to_owned()
        }
        Health::TornTail => "sound but for its tail".to_owned(),
    }
}

/// Before what was found.
const INDENT: &str = "    ";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::fixture;
    use store_core::{LogOffset, TimestampMs};
    use store_os::{ClockStep, Fault, FaultKind};

    fn summary(survey: &Survey) -> String {
        let mut out = Vec::new();
        render(survey, Path::new("/s"), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_sound_store_takes_three_lines_and_an_empty_one_one() {
        let expect = "/s: sound\n3 records; 600 B in 2 segments of 64 KiB each\n\
                      valid to offset 131272; 64 KiB blank\n";
        assert_eq!(summary(&fixture::sound()), expect);
        let survey = Survey { segments: Vec::new(), records: 0, ..fixture::sound() };
        assert_eq!(summary(&survey), "/s: empty, no segment yet\n");
        let faults = vec![fixture::fault(FaultKind::Empty)];
        let survey = Survey { faults, ..fixture::sound() };
        assert!(summary(&survey).starts_with("/s: sound, with an empty file at its end\n"));
    }

    #[test]
    fn every_fault_has_a_line() {
        let place = LogOffset::ZERO;
        let path = "/s/commitlog/a file of the backup".into();
        let wrong = FaultKind::WrongLength { found: 5, expected: 65_536 };
        let step = ClockStep { at: place, before: TimestampMs::new(9), after: TimestampMs::new(2) };
        let survey = Survey {
            clock_steps: 2,
            first_clock_step: Some(step),
            faults: vec![
                fixture::damage(),
                fixture::fault(FaultKind::MissingSegment),
                fixture::fault(wrong),
                Fault { path, from: place, to: place, kind: FaultKind::UnknownFile },
                fixture::torn_tail(),
            ],
            ..fixture::sound()
        };
        let expect = "\
/s: damaged, 5 faults
3 records; 600 B in 2 segments of 64 KiB each
valid to offset 131272; 64 KiB blank
the clock went back 2 times (no fault), first at offset 0:
1970-01-01T00:00:00.002Z after 1970-01-01T00:00:00.009Z

segment                    offset     length   behind
00000000000000065536        65636        100        2
    unknown magic 0x00000001
00000000000000065536        65636        100        –
    the segment's file is missing
00000000000000065536        65636        100        –
    the file has 5 bytes, segments of this log have 65536
a file of the backup            –          –        –
    a file that is no segment of this log
00000000000000065536        65636        100        0
    torn tail: unknown magic 0x00000001
";
        assert!(expect.lines().all(|line| text::columns(line) <= text::COLUMNS));
        let lines: Vec<_> = expect.lines().collect();
        assert_eq!(summary(&survey).lines().collect::<Vec<_>>(), lines);
    }

    #[test]
    fn a_long_path_has_the_verdict_below_it() {
        let mut out = Vec::new();
        let dir = format!("/{}", "s".repeat(75));
        render(&fixture::sound(), Path::new(&dir), &mut out).unwrap();
        let found = String::from_utf8(out).unwrap();
        assert!(found.starts_with(&format!("{dir}:\nsound\n3 records; ")), "{found}");
    }

    #[test]
    fn json_has_all_that_was_found() {
        let survey = Survey { faults: vec![fixture::damage()], ..fixture::sound() };
        let json = serde_json::to_value(json::Json::new(&survey, Path::new("/s"))).unwrap();
        assert_eq!(json["schema"], "flushmark.log/1.0");
        assert_eq!(json["health"], "damaged");
        assert_eq!((&json["filler_records"], &json["filler_bytes"]), (&0.into(), &0.into()));
        assert_eq!((&json["records_v1"], &json["records_v2"]), (&2.into(), &1.into()));
        assert_eq!(
            json["faults"],
            serde_json::json!([{
                "kind": "damage",
                "path": "/s/commitlog/00000000000000065536",
                "segment": "00000000000000065536",
                "from": 65636,
                "to": 65736,
                "length": 100,
                "found": "unknown magic 0x00000001",
                "records_behind": 2,
            }])
        );
        assert_eq!(json["checkpoint"]["confirm_phy_offset"], 131_072);
        assert_eq!(json["topics"][0]["topic"], "logs");
        assert_eq!(
            json["topics"][1]["queues"],
            serde_json::json!([{
                "queue_id": 0, "records": 2, "first_offset": 5, "next_offset": 7, "gaps": 0
            }])
        );
    }
}
