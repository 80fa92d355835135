//! A fault in words, what follows from a store's health, and what of a log is no message.

use store_core::{LogOffset, length_u64};
use store_os::{Fault, FaultKind, Health, LOST_TOPIC, SegmentSurvey, Survey, TopicSurvey};

use super::text;
use crate::exit;

/// A fault as the command line tells it.
#[derive(Debug)]
pub(super) struct Told {
    /// A word for machines.
    pub(super) kind: &'static str,
    /// What is wrong, escaped.
    pub(super) what: String,
    /// What was found there, where the kind does not say it all.
    pub(super) found: Option<String>,
    /// Valid records between the fault and the log's end, where they were counted.
    pub(super) records_behind: Option<u64>,
}

impl Told {
    pub(super) fn new(fault: &Fault) -> Self {
        let (kind, what, found, records_behind) = match &fault.kind {
            FaultKind::Damage { found, records_behind } => {
                ("damage", shown(found), Some(found.clone()), Some(*records_behind))
            }
            FaultKind::Empty => ("empty", "a last segment without a byte".to_owned(), None, None),
            FaultKind::MissingSegment => {
                ("missing_segment", "the segment's file is missing".to_owned(), None, None)
            }
            FaultKind::TornTail { found } => {
                ("torn_tail", format!("torn tail: {}", shown(found)), Some(found.clone()), Some(0))
            }
            FaultKind::StaleTail { found, records } => (
                "stale_tail",
                format!("older records, left by an earlier cut: {}", shown(found)),
                Some(found.clone()),
                Some(*records),
            ),
            FaultKind::SymbolicLink => {
                let what = "a symbolic link, which is not followed: put the file itself there";
                ("symbolic_link", what.to_owned(), None, None)
            }
            FaultKind::UnknownFile => {
                ("unknown_file", "a file that is no segment of this log".to_owned(), None, None)
            }
            FaultKind::Unreadable { errno, records_behind } => (
                "unreadable",
                format!("cannot be read: {errno}"),
                Some(errno.to_string()),
                Some(*records_behind),
            ),
            FaultKind::WrongLength { found, expected } => (
                "wrong_length",
                format!("the file has {found} bytes, segments of this log have {expected}"),
                None,
                None,
            ),
            _ => (
                "other",
                "a fault that this version of the command does not know".to_owned(),
                None,
                None,
            ),
        };
        Self { kind, what, found, records_behind }
    }
}

/// The faults to tell, in log order.
///
/// They are the survey's, but one for each file that stands behind the log and is no part of it.
/// The survey has up to three: what it holds, its length, and the segments missing before it.
pub(super) fn listed(survey: &Survey) -> Vec<Fault> {
    let foreign: Vec<Fault> = foreign_segments(survey);
    let is_gap =
        |fault: &Fault| matches!(fault.kind, FaultKind::MissingSegment) && survey.end <= fault.from;
    let is_wrong_length = |fault: &Fault| matches!(fault.kind, FaultKind::WrongLength { .. });
    let is_told = |fault: &Fault| foreign.iter().any(|told| told.path == fault.path);
    let is_told_otherwise = |fault: &Fault| {
        is_wrong_length(fault)
            && survey.end <= fault.from
            && survey.faults.iter().any(|other| {
                other.path == fault.path && is_damage(other) && !is_wrong_length(other)
            })
    };
    let is_stale = foreign.iter().any(|fault| matches!(fault.kind, FaultKind::StaleTail { .. }));
    let mut faults: Vec<Fault> = survey.faults.clone();
    faults.retain(|fault| {
        !is_told(fault) && !is_told_otherwise(fault) && (is_stale || !is_gap(fault))
    });
    let named = faults.partition_point(|fault| !is_unplaced(fault));
    let at = |from: LogOffset| faults[..named].partition_point(|fault| fault.from <= from);
    let at = foreign.first().map_or(named, |first| at(first.from));
    faults.splice(at..at, foreign);
    faults
}

/// A fault for each file that has a segment's name and stands behind a gap that ends the log.
fn foreign_segments(survey: &Survey) -> Vec<Fault> {
    let gap_end = survey.faults.iter().find_map(|fault| {
        let ends_log = matches!(fault.kind, FaultKind::MissingSegment) && survey.end <= fault.from;
        ends_log.then_some(fault.to)
    });
    let Some(gap_end) = gap_end else { return Vec::new() };
    let foreign = |segment: &SegmentSurvey| {
        // What it holds may say more.
        let says_more = |fault: &&Fault| {
            fault.path == segment.path
                && matches!(
                    fault.kind,
                    FaultKind::Damage { .. }
                        | FaultKind::StaleTail { .. }
                        | FaultKind::Unreadable { .. }
                )
        };
        survey.faults.iter().find(says_more).cloned().unwrap_or_else(|| Fault {
            path: segment.path.clone(),
            from: segment.start,
            to: segment.start.checked_add(segment.file_len).unwrap_or(segment.start),
            kind: FaultKind::UnknownFile,
        })
    };
    survey.segments.iter().filter(|segment| gap_end <= segment.start).map(foreign).collect()
}

/// Whether a fault is none of the log's end.
fn is_damage(fault: &Fault) -> bool {
    !matches!(
        fault.kind,
        FaultKind::Empty | FaultKind::StaleTail { .. } | FaultKind::TornTail { .. }
    )
}

/// Whether a fault has no place in the log.
fn is_unplaced(fault: &Fault) -> bool {
    matches!(fault.kind, FaultKind::SymbolicLink | FaultKind::UnknownFile) && fault.from == fault.to
}

/// Records that a repair put where something was lost, and their bytes.
pub(super) fn fillers(survey: &Survey) -> (u64, u64) {
    let fillers = survey.topics.iter().filter(|(name, topic)| is_filler(name, topic));
    fillers.fold((0, 0), |(records, bytes), (_, topic)| {
        (records + topic.records, bytes + topic.record_bytes)
    })
}

/// Whether a topic's records are fillers: their topic is [`LOST_TOPIC`] or, where that is too long,
/// its beginning, and they have no place in a queue.
pub(super) fn is_filler(name: &[u8], topic: &TopicSurvey) -> bool {
    LOST_TOPIC.as_bytes().starts_with(name) && topic.queues.is_empty()
}

/// `3 records, 1 of them filler` or the like.
pub(super) fn records(survey: &Survey) -> String {
    let records = text::plural(survey.records, "record");
    match fillers(survey) {
        (0, _) => records,
        (fillers, _) => format!("{records}, {fillers} of them filler"),
    }
}

/// What blanks take, to be put behind something else; nothing if there are none.
pub(super) fn blank(survey: &Survey) -> String {
    match survey.blank_bytes {
        0 => String::new(),
        blank => format!("; {} blank", text::bytes(blank)),
    }
}

/// Whether a repair has something to do that an owner at work does not explain.
pub(super) fn is_repairable(survey: &Survey) -> bool {
    match survey.health() {
        Health::Sound => false,
        Health::TornTail => !survey.locked,
        Health::Damaged => true,
    }
}

/// Whether there is a log at all.
pub(super) fn is_empty(survey: &Survey) -> bool {
    survey.segments.is_empty() && survey.faults.is_empty()
}

/// Who cuts a tail, and who does not.
pub(super) const WHO_CUTS: [&str; 2] = [
    "Flushmark cuts it when it opens the store; RocketMQ leaves it in the",
    "file (apache/rocketmq#10666)",
];

/// A health in a word for machines.
pub(super) fn health_word(health: Health) -> &'static str {
    match health {
        Health::Damaged => "damaged",
        Health::Sound => "sound",
        Health::TornTail => "torn_tail",
    }
}

/// Bytes from a fault's first to its last; an empty file has none, whatever it was to get.
pub(super) fn length(fault: &Fault) -> u64 {
    match fault.kind {
        FaultKind::Empty => 0,
        _ => fault.to.since(fault.from),
    }
}

/// Whether something stands behind the log's end that its owner is to cut.
pub(super) fn has_tail(survey: &Survey) -> bool {
    let is_tail = |fault: &Fault| {
        matches!(fault.kind, FaultKind::StaleTail { .. } | FaultKind::TornTail { .. })
    };
    survey.health() == Health::TornTail && survey.faults.iter().any(is_tail)
}

/// The exit code of `log verify`, and why, if that needs a word.
pub(super) fn verdict(survey: &Survey) -> (u8, Option<String>) {
    match survey.health() {
        Health::Sound => (exit::OK, None),
        Health::TornTail if !has_tail(survey) => (exit::OK, None),
        Health::Damaged => {
            // Segments are read one after the other while the log's end moves.
            let in_use = "a process has the store open: what it wrote while this was read can \
                          look\ndamaged; look again when it is closed";
            let crashed = "the last exit was unclean and nothing proves this part: if a power cut \
                           left\nit, opening with Flushmark cuts it and keeps a copy; a repair \
                           keeps all records";
            let why = match () {
                () if survey.locked => Some(in_use),
                () if can_be_a_power_cuts(survey) => Some(crashed),
                () => None,
            };
            (exit::INVALID, why.map(str::to_owned))
        }
        Health::TornTail if survey.abort.is_some() => {
            let why = if survey.locked {
                "a process has the store open: what it is writing now can look torn"
            } else {
                "the last exit was unclean (abort is there): a torn tail is no damage"
            };
            (exit::OK, Some(why.to_owned()))
        }
        Health::TornTail => {
            let torn = |fault: &&Fault| matches!(fault.kind, FaultKind::TornTail { .. });
            if survey.faults.iter().any(|fault| torn(&fault)) {
                let why = "the last exit was clean (no abort), so nothing should be torn";
                return (exit::INVALID, Some(why.to_owned()));
            }
            (exit::OK, None)
        }
    }
}

/// Whether the first damage is where no sync may have come by when the power was cut.
fn can_be_a_power_cuts(survey: &Survey) -> bool {
    let damage = |fault: &&Fault| matches!(fault.kind, FaultKind::Damage { .. });
    let first = survey.faults.iter().find(|fault| is_damage(fault));
    survey.abort.is_some()
        && first
            .filter(damage)
            .is_some_and(|first| survey.proven.is_some_and(|proven| proven <= first.from))
}

/// `2 faults` or the like.
pub(super) fn count(faults: &[Fault]) -> String {
    text::plural(length_u64(faults.len()), "fault")
}

fn shown(found: &str) -> String {
    text::escaped(found.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::fixture;

    #[track_caller]
    fn check(faults: Vec<Fault>, abort: bool, code: u8, why: Option<&str>) {
        let abort = abort.then(|| "7".to_owned());
        let survey = Survey { faults, abort, ..fixture::sound() };
        let found = verdict(&survey);
        assert_eq!(found.0, code);
        assert_eq!(found.1.is_some(), why.is_some());
        assert!(found.1.unwrap_or_default().contains(why.unwrap_or_default()));
    }

    #[test]
    fn a_torn_tail_is_expected_after_an_unclean_exit_only() {
        for abort in [false, true] {
            check(vec![], abort, exit::OK, None);
            check(vec![fixture::damage()], abort, exit::INVALID, None);
            check(vec![fixture::torn_tail(), fixture::damage()], abort, exit::INVALID, None);
        }
        let proven = |at| Survey {
            faults: vec![fixture::damage()],
            abort: Some("7".to_owned()),
            proven: Some(LogOffset::new(at)),
            ..fixture::sound()
        };
        let at = fixture::damage().from.get();
        assert!(verdict(&proven(at)).1.is_some_and(|why| why.contains("power cut")));
        assert_eq!(verdict(&proven(at + 1)).1, None);
        check(vec![fixture::torn_tail()], true, exit::OK, Some("unclean"));
        check(vec![fixture::torn_tail()], false, exit::INVALID, Some("no abort"));
        check(vec![fixture::stale_tail()], false, exit::OK, None);
        check(vec![fixture::fault(FaultKind::Empty)], true, exit::OK, None);
    }

    #[track_caller]
    fn check_listed(faults: Vec<Fault>, expect: &[Fault]) {
        // The log ends at 65736; its second segment, at 131072, stands behind a gap.
        let end = LogOffset::new(65_736);
        let survey = Survey { faults, end, ..fixture::sound() };
        let health = survey.health();
        assert_eq!(listed(&survey), expect);
        let listed = Survey { faults: listed(&survey), ..survey };
        assert_eq!(listed.health(), health);
    }

    #[test]
    fn a_foreign_file_behind_the_log_is_one_fault() {
        let place = |from, to, kind| Fault {
            path: format!("/s/commitlog/{from:020}").into(),
            from: LogOffset::new(from),
            to: LogOffset::new(to),
            kind,
        };
        let gap = || place(98_304, 131_072, FaultKind::MissingSegment);
        let foreign = || place(131_072, 196_608, FaultKind::UnknownFile);
        let torn = || place(131_072, 131_080, FaultKind::TornTail { found: "x".to_owned() });
        let short = || {
            let kind = FaultKind::WrongLength { found: 65_536, expected: 32_768 };
            place(131_072, 163_840, kind)
        };
        let zero = LogOffset::ZERO;
        let kind = FaultKind::UnknownFile;
        let notes = || Fault { path: "/n".into(), from: zero, to: zero, kind: kind.clone() };
        let stale = FaultKind::StaleTail { found: "x".to_owned(), records: 2 };
        let stale = || place(131_072, 131_080, stale.clone());
        check_listed(vec![gap()], &[foreign()]);
        check_listed(vec![gap(), torn(), short(), notes()], &[foreign(), notes()]);
        let before = fixture::damage();
        check_listed(vec![before.clone(), gap(), foreign()], &[before, foreign()]);
        check_listed(vec![foreign(), short()], &[foreign()]);
        check_listed(vec![torn(), short()], &[torn(), short()]);
        check_listed(vec![gap(), stale()], &[gap(), stale()]);
    }

    #[test]
    fn fillers_are_counted_apart_and_a_topic_of_their_name_is_a_topic() {
        let mut survey = fixture::sound();
        assert_eq!(records(&survey), "3 records");
        let (name, mut topic) = fixture::topic("FLUSHMARK_LOST", 2);
        survey.topics.insert(name.clone(), topic.clone());
        assert_eq!(fillers(&survey), (0, 0), "it has queues");
        topic.queues.clear();
        survey.topics.insert(name, topic.clone());
        survey.topics.insert(b"FLU".to_vec(), topic.clone());
        survey.topics.insert(b"LOST".to_vec(), topic);
        assert_eq!(fillers(&survey), (4, 800));
        survey.records += 6;
        assert_eq!(records(&survey), "9 records, 4 of them filler");
    }

    #[test]
    fn damage_in_a_store_in_use_comes_with_a_doubt() {
        let closed = Survey { faults: vec![fixture::damage()], ..fixture::sound() };
        assert_eq!(verdict(&closed), (exit::INVALID, None));
        let (code, why) = verdict(&Survey { locked: true, ..closed });
        assert_eq!(code, exit::INVALID);
        assert!(why.is_some_and(|why| why.contains("look again when it is closed")));
    }
}
