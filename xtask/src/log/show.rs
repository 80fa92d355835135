//! `cargo xtask log DIR`: what is in a store, on one screen.

use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, Result};
use store_core::{Checkpoint, TimestampMs};
use store_os::{Fault, FaultKind, Health, Survey, TopicSurvey};

use super::fault::{self, Told};
use super::{Store, json, text};
use crate::{exit, say};

pub(super) fn run(store: &Store, json: bool) -> Result<u8> {
    let Some(survey) = store.scan(store_os::survey)? else { return Ok(exit::INTERRUPTED) };
    say::stream(|out| {
        if json {
            json::write(&survey, &store.dir, out)?;
        } else {
            render(&survey, store, out).context(say::CANNOT_WRITE)?;
        }
        Ok(exit::OK)
    })
}

/// Writes the screen: at most 24 lines of 80 columns, but for a long path.
fn render(survey: &Survey, store: &Store, out: &mut dyn Write) -> io::Result<()> {
    let mut above = Vec::new();
    facts(survey, &store.dir, &mut above)?;
    let health = health(survey, store);
    out.write_all(&above)?;
    // Behind the last line's end there is one more piece: that counts the blank line.
    let taken = above.split(|byte| *byte == b'\n').count() + health.len();
    topics(survey, LINES.saturating_sub(taken + 2), out)?;
    writeln!(out)?;
    health.iter().try_for_each(|(name, value)| line(out, name, value))
}

/// What is said of the store as a whole.
fn facts(survey: &Survey, dir: &Path, out: &mut dyn Write) -> io::Result<()> {
    line(out, "store", &text::path(dir))?;
    fact(out, "segments", &segments(survey))?;
    for (name, value) in ["records", ""].into_iter().zip(records(survey)) {
        fact(out, name, &value)?;
    }
    if let (Some(first), Some(last)) = (survey.first_store, survey.last_store) {
        line(out, "stored", &format!("{} to {}", text::time(first), text::time(last)))?;
    }
    if let Some(step) = &survey.first_clock_step {
        let times = text::plural(survey.clock_steps, "time");
        let back = step.before.get().saturating_sub(step.after.get());
        let back = text::span(u64::try_from(back).unwrap_or(0));
        fact(out, "clock", &format!("went back {times}, first by {back} at {}", step.at))?;
    }
    fact(out, "valid to", &watermark(survey))?;
    for (name, value) in ["checkpoint", ""].into_iter().zip(checkpoint(survey)) {
        fact(out, name, &value)?;
    }
    if let Some(proven) = survey.proven {
        line(out, "proven to", &format!("{proven}, by the recovery point"))?;
    }
    line(out, "exit", last_exit(survey))
}

fn line(out: &mut dyn Write, name: &str, value: &str) -> io::Result<()> {
    writeln!(out, "{name:<LABEL$}{value}")
}

/// A line, or more where its numbers need them.
fn fact(out: &mut dyn Write, name: &str, value: &str) -> io::Result<()> {
    let values = text::folded(value, VALUE);
    let names = std::iter::once(name).chain(std::iter::repeat(""));
    names.zip(&values).try_for_each(|(name, value)| line(out, name, value))
}

fn segments(survey: &Survey) -> String {
    let count = survey.segments.len();
    if count == 0 {
        return "none yet".to_owned();
    }
    let size = text::bytes(survey.segment_size.bytes());
    let end =
        survey.segments.iter().filter_map(|segment| segment.start.checked_add(segment.file_len));
    let end = end.max().unwrap_or(survey.end);
    format!("{count} of {size} each, offsets {} to {end}", survey.start)
}

fn records(survey: &Survey) -> Vec<String> {
    let Survey { records, record_bytes, records_v2, records_protected, .. } = survey;
    let blank = fault::blank(survey);
    if *records == 0 {
        return vec![format!("none{blank}")];
    }
    let filler = match fault::fillers(survey) {
        (0, _) => String::new(),
        (fillers, _) => format!(", {fillers} of them filler"),
    };
    let version = match (*records_v2, records - records_v2) {
        (0, _) => "version 1".to_owned(),
        (_, 0) => "version 2".to_owned(),
        (second, first) => format!("version 1: {first}, version 2: {second}"),
    };
    let protected = match *records_protected {
        0 => "none with a CRC32 property".to_owned(),
        all if all == *records => "all with a CRC32 property".to_owned(),
        some => format!("{some} with a CRC32 property"),
    };
    vec![
        format!("{records}{filler}; {}{blank}", text::bytes(*record_bytes)),
        format!("{version}; {protected}"),
    ]
}

/// Where valid records end, and what is left of the segment there.
fn watermark(survey: &Survey) -> String {
    let end = survey.end;
    let last = survey.segments.iter().rev().find(|segment| {
        segment.start <= end && end.since(segment.start) < survey.segment_size.bytes()
    });
    match last {
        Some(segment) => {
            let rest = survey.segment_size.bytes() - end.since(segment.start);
            format!("{end}, in {}; {} of it are left", text::name(&segment.path), text::bytes(rest))
        }
        None => format!("{end}"),
    }
}

/// What the checkpoint says, in two lines.
fn checkpoint(survey: &Survey) -> Vec<String> {
    let checkpoint = match &survey.checkpoint {
        None => return vec!["none".to_owned()],
        Some(Err(error)) => return vec![format!("unreadable: {error}")],
        Some(Ok(checkpoint)) => checkpoint,
    };
    let Checkpoint {
        physic_msg_timestamp: log,
        logics_msg_timestamp: queues,
        index_msg_timestamp: index,
        master_flushed_offset: master,
        confirm_phy_offset: confirmed,
    } = *checkpoint;
    let or_none = |at: TimestampMs| if at.get() == 0 { "–".to_owned() } else { text::time(at) };
    vec![
        format!("log {}, queues {}", or_none(log), or_none(queues)),
        format!("index {}, confirmed {confirmed}, master flushed {master}", or_none(index)),
    ]
}

fn last_exit(survey: &Survey) -> &'static str {
    match (&survey.abort, survey.locked) {
        (Some(_), true) => "none: a process has the store open",
        (Some(_), false) => "unclean: abort is there, and no process has the store open",
        (None, true) => "clean; a process has the store open",
        (None, false) => "clean",
    }
}

/// The topics with most bytes, in `room` lines below their head where that is not too few.
fn topics(survey: &Survey, room: usize, out: &mut dyn Write) -> io::Result<()> {
    let mut topics: Vec<(&Vec<u8>, &TopicSurvey)> =
        survey.topics.iter().filter(|(name, topic)| !fault::is_filler(name, topic)).collect();
    if topics.is_empty() {
        return Ok(());
    }
    topics.sort_by_key(|(_, topic)| std::cmp::Reverse(topic.record_bytes));
    writeln!(out)?;
    writeln!(out, "{:<TOPIC$}{:>12}{:>8}{:>10}", "topic", "records", "queues", "bytes")?;
    // The last line says how many more there are.
    let room = room.clamp(FEWEST_TOPICS, MOST_TOPICS + 1);
    let shown = if topics.len() <= room { topics.len() } else { room - 1 };
    for (name, topic) in topics.iter().take(shown) {
        let name = text::padded(&text::escaped(name), TOPIC);
        let (queues, bytes) = (topic.queues.len(), text::bytes(topic.record_bytes));
        writeln!(out, "{name}{:>12}{queues:>8}{bytes:>10}", topic.records)?;
    }
    if topics.len() > shown {
        writeln!(out, "and {} more", topics.len() - shown)?;
    }
    Ok(())
}

/// Sound, torn or damaged, and what to run next, as labels with their values.
fn health(survey: &Survey, store: &Store) -> Vec<(&'static str, String)> {
    let faults = fault::listed(survey);
    let mut lines = verdict(survey, &faults);
    let is_damaged = survey.health() == Health::Damaged;
    if is_damaged {
        lines.push(store.command("verify"));
        lines.push("lists every fault".to_owned());
    }
    let next = if is_damaged { lines.len() - 2 } else { lines.len() };
    if fault::is_repairable(survey) {
        lines.push(store.command("repair"));
        lines.push("says what a repair would keep and lose; changes nothing".to_owned());
    }
    let label = |(index, line)| match index {
        0 => ("health", line),
        index if index == next => ("next", line),
        _ => ("", line),
    };
    lines.into_iter().enumerate().map(label).collect()
}

/// What is wrong first, in a few lines.
fn verdict(survey: &Survey, faults: &[Fault]) -> Vec<String> {
    let Some(first) = faults.first() else {
        let sound = if fault::is_empty(survey) { "empty, no segment yet" } else { "sound" };
        return vec![sound.to_owned()];
    };
    if survey.health() == Health::Damaged {
        let mut lines = vec![format!("damaged, {}; the first:", fault::count(faults))];
        lines.extend(damage(first));
        return lines;
    }
    let mut lines = match &first.kind {
        FaultKind::Empty => {
            return vec![
                "sound, with an empty file at its end".to_owned(),
                format!(
                    "{}; Flushmark removes it when it opens the store",
                    text::name(&first.path)
                ),
            ];
        }
        FaultKind::StaleTail { records, .. } => {
            let records = text::plural(*records, "older record");
            let place = format!("from {} on, left by an earlier cut", first.from);
            vec![format!("sound, with {records} behind its end"), place]
        }
        _ => {
            let length = text::plural(fault::length(first), "byte");
            let found = Told::new(first).found.unwrap_or_default();
            let found = text::clipped(&text::escaped(found.as_bytes()), VALUE);
            let mut lines = vec![format!("torn tail of {length} at {}:", first.from), found];
            let why = fault::verdict(survey).1;
            lines.extend(why.iter().flat_map(|why| text::wrapped(why, VALUE)));
            lines
        }
    };
    if !survey.locked {
        lines.extend(fault::WHO_CUTS.map(str::to_owned));
    }
    lines
}

/// Where a fault is, and what it is.
fn damage(fault: &Fault) -> [String; 2] {
    let told = Told::new(fault);
    let segment = text::name(&fault.path);
    let place = match fault::length(fault) {
        0 => segment,
        length => format!("{segment}, offset {}, {}", fault.from, text::plural(length, "byte")),
    };
    let behind = match told.records_behind {
        None | Some(0) => String::new(),
        Some(behind) => format!("; valid records behind: {behind}"),
    };
    [text::clipped(&place, VALUE), text::clipped(&told.what, VALUE - behind.len()) + &behind]
}

/// Columns of the labels, of what stands beside them, and of a topic's name.
const LABEL: usize = 12;
const VALUE: usize = text::COLUMNS - LABEL;
const TOPIC: usize = 50;

/// A terminal's lines.
const LINES: usize = 24;
/// So many topics are shown where there is room for them, and so many lines where there is not.
const MOST_TOPICS: usize = 5;
const FEWEST_TOPICS: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::fixture;
    use std::collections::BTreeMap;
    use store_core::LogOffset;
    use store_os::ClockStep;

    fn store(dir: &str) -> Store {
        Store { dir: dir.into(), segment_size: None, ignore_crc_property: false }
    }

    fn screen(survey: &Survey, dir: &str) -> String {
        let mut out = Vec::new();
        render(survey, &store(dir), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_sound_store_on_one_screen() {
        let expect = "\
store       /s
segments    2 of 64 KiB each, offsets 65536 to 196608
records     3; 600 B; 64 KiB blank
            version 1: 2, version 2: 1; 2 with a CRC32 property
stored      2026-11-29T13:07:01.653Z to 2026-11-29T13:07:01.654Z
valid to    131272, in 00000000000000131072; 64 KiB of it are left
checkpoint  log 2026-11-29T13:07:01.653Z, queues –
            index –, confirmed 131072, master flushed 0
proven to   131072, by the recovery point
exit        clean

topic                                                  records  queues     bytes
orders                                                       2       1     400 B
logs                                                         1       1     200 B

health      sound
";
        assert_eq!(screen(&fixture::sound(), "/s"), expect);
    }

    #[test]
    fn the_fullest_screen_has_24_lines_of_80_columns() {
        let step = ClockStep {
            at: LogOffset::new(u64::MAX >> 1),
            before: TimestampMs::new(3_100),
            after: TimestampMs::new(0),
        };
        let mut survey = Survey {
            clock_steps: 123_456_789,
            first_clock_step: Some(step),
            faults: vec![fixture::damage(), fixture::torn_tail()],
            abort: Some("4711".to_owned()),
            ..fixture::sound()
        };
        let found = "x".repeat(200);
        survey.faults[0].kind = FaultKind::Damage { found, records_behind: 123_456_789 };
        for number in 0..4 {
            let (name, topic) = fixture::topic(&format!("{number}\u{1b}[2J主").repeat(9), 100);
            survey.topics.insert(name, topic);
        }
        let full = screen(&survey, "/s");
        assert!(full.contains("\nand 4 more\n"), "{full}");
        let mut three = survey.clone();
        three.topics = survey.topics.clone().into_iter().take(3).collect();
        let three = screen(&three, "/s");
        assert!(!three.contains(" more\n"), "{three}");
        for screen in [full, three] {
            assert_eq!(screen.lines().count(), 24, "{screen}");
            for line in screen.lines() {
                assert!(text::columns(line) <= 80, "{line}");
                assert!(!line.chars().any(char::is_control), "{line}");
            }
        }
    }

    #[test]
    fn the_numbers_of_a_large_log_fit_80_columns() {
        let far = i64::MAX;
        let start = LogOffset::new(u64::MAX >> 2);
        let mut survey = Survey { start, end: start, ..fixture::sound() };
        survey.segments[1].start = start;
        survey.segments[1].path = "/s/commitlog/04611686018427387903".into();
        survey.checkpoint = Some(Ok(Checkpoint {
            index_msg_timestamp: TimestampMs::new(1),
            confirm_phy_offset: far,
            master_flushed_offset: far,
            ..Checkpoint::default()
        }));
        let screen = screen(&survey, "/s");
        let checkpoint = format!(
            "index 1970-01-01T00:00:00.001Z, confirmed {far},\n            master flushed {far}\n"
        );
        assert!(screen.contains(&checkpoint), "{screen}");
        assert!(screen.lines().all(|line| text::columns(line) <= 80), "{screen}");
    }

    #[test]
    fn an_empty_store_has_no_topics_and_no_times() {
        let survey = Survey {
            start: LogOffset::ZERO,
            end: LogOffset::ZERO,
            proven: None,
            blank_bytes: 0,
            segments: Vec::new(),
            topics: BTreeMap::new(),
            records: 0,
            record_bytes: 0,
            records_v2: 0,
            records_protected: 0,
            first_store: None,
            last_store: None,
            checkpoint: None,
            ..fixture::sound()
        };
        let expect = "\
store       /s
segments    none yet
records     none
valid to    0
checkpoint  none
exit        clean

health      empty, no segment yet
";
        assert_eq!(screen(&survey, "/s"), expect);
    }

    #[track_caller]
    fn check_health(fault: Fault, expect: &str) {
        let survey = Survey { faults: vec![fault], ..fixture::sound() };
        let lines = health(&survey, &store("a b"));
        let lines = lines.iter().map(|(name, value)| format!("{name:<7}{value}"));
        let found = lines.collect::<Vec<_>>();
        assert!(found.iter().all(|line| text::columns(line) + 5 <= text::COLUMNS), "{found:?}");
        let found = found.join("\n");
        assert_eq!(found.lines().map(str::trim_start).collect::<Vec<_>>().join("\n"), expect);
    }

    #[test]
    fn health_says_what_and_where_and_what_to_run_next() {
        let repair = "next   cargo xtask log repair 'a b'\n\
                      says what a repair would keep and lose; changes nothing";
        let both = "next   cargo xtask log verify 'a b'\nlists every fault\n\
                    cargo xtask log repair 'a b'\n\
                    says what a repair would keep and lose; changes nothing";
        let who = "Flushmark cuts it when it opens the store; RocketMQ leaves it in the\n\
                   file (apache/rocketmq#10666)";
        check_health(
            fixture::damage(),
            &format!(
                "health damaged, 1 fault; the first:\n\
                 00000000000000065536, offset 65636, 100 bytes\n\
                 unknown magic 0x00000001; valid records behind: 2\n{both}"
            ),
        );
        let unknown = FaultKind::UnknownFile;
        let place = LogOffset::ZERO;
        let path = "/s/commitlog/a\u{1b}".into();
        check_health(
            Fault { path, from: place, to: place, kind: unknown },
            &format!(
                "health damaged, 1 fault; the first:\na\\u{{1b}}\n\
                 a file that is no segment of this log\n{both}"
            ),
        );
        check_health(
            fixture::torn_tail(),
            &format!(
                "health torn tail of 100 bytes at 65636:\nunknown magic 0x00000001\n\
                 the last exit was clean (no abort), so nothing should be torn\n{who}\n{repair}"
            ),
        );
        check_health(
            fixture::fault(FaultKind::Empty),
            &format!(
                "health sound, with an empty file at its end\n\
                 00000000000000065536; Flushmark removes it when it opens the store\n{repair}"
            ),
        );
        check_health(
            fixture::stale_tail(),
            &format!(
                "health sound, with 14 older records behind its end\n\
                 from 65636 on, left by an earlier cut\n{who}\n{repair}"
            ),
        );
    }

    #[test]
    fn a_torn_tail_of_a_store_in_use_asks_for_nothing() {
        let (faults, abort) = (vec![fixture::torn_tail()], Some("7".to_owned()));
        let survey = Survey { faults, abort, locked: true, ..fixture::sound() };
        let lines = health(&survey, &store("s"));
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert!(lines[2].1.starts_with("a process has the store open"), "{lines:?}");
    }

    #[test]
    fn fillers_are_counted_and_are_no_topic() {
        let mut survey = fixture::sound();
        let (name, topic) = fixture::topic("FLUSHMARK_LOST", 1);
        survey.topics.insert(name, TopicSurvey { queues: BTreeMap::new(), ..topic });
        let screen = screen(&survey, "/s");
        assert!(screen.contains("\nrecords     3, 1 of them filler; 600 B; "), "{screen}");
        assert!(!screen.contains("FLUSHMARK_LOST"), "{screen}");
    }

    #[test]
    fn the_exit_is_told_from_abort_and_lock() {
        for (abort, locked, expect) in [
            (None, false, "clean"),
            (Some("7"), false, "unclean: abort is there, and no process has the store open"),
            (Some("7"), true, "none: a process has the store open"),
            (None, true, "clean; a process has the store open"),
        ] {
            let survey = Survey { abort: abort.map(str::to_owned), locked, ..fixture::sound() };
            assert_eq!(last_exit(&survey), expect);
        }
    }
}
