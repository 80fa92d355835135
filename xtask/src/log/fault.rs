//! A fault in words, and what follows from a store's health.

use store_core::length_u64;
use store_os::{Fault, FaultKind, Health, Survey};

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

/// A health in a word for machines.
pub(super) fn health_word(health: Health) -> &'static str {
    match health {
        Health::Damaged => "damaged",
        Health::Sound => "sound",
        Health::TornTail => "torn_tail",
    }
}

/// Bytes from a fault's first to its last.
pub(super) fn length(fault: &Fault) -> u64 {
    fault.to.since(fault.from)
}

/// The exit code of `log verify`, and why, if that needs a word.
pub(super) fn verdict(survey: &Survey) -> (u8, Option<String>) {
    match survey.health() {
        Health::Sound => (exit::OK, None),
        Health::Damaged => (exit::INVALID, None),
        Health::TornTail if survey.abort.is_some() => {
            let why = if survey.locked {
                "a process has the store open: what it is writing now can look torn"
            } else {
                "the last exit was unclean (abort is there), so a torn tail is no damage"
            };
            (exit::OK, Some(why.to_owned()))
        }
        Health::TornTail => {
            let torn = |fault: &&Fault| matches!(fault.kind, FaultKind::TornTail { .. });
            if survey.faults.iter().any(|fault| torn(&fault)) {
                let why = "the last exit was clean (no abort), so nothing should be torn";
                return (exit::INVALID, Some(why.to_owned()));
            }
            (exit::OK, Some("RocketMQ leaves such a tail, and opening cuts it".to_owned()))
        }
    }
}

/// `2 faults` or the like.
pub(super) fn count(survey: &Survey) -> String {
    text::plural(length_u64(survey.faults.len()), "fault")
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
        check(vec![fixture::torn_tail()], true, exit::OK, Some("unclean"));
        check(vec![fixture::torn_tail()], false, exit::INVALID, Some("no abort"));
        check(vec![fixture::stale_tail()], false, exit::OK, Some("RocketMQ"));
    }
}
