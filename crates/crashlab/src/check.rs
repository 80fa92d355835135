//! Whether a recovered log keeps what was promised.

use std::collections::{HashMap, HashSet};
use std::fmt;

use store_core::{AckAt, LogOffset, QueueId, QueueOffset, TimestampMs};
use store_os::{Appended, Log, ReadError};

use crate::payload::{Sent, Shape};
use crate::witness::{Fate, Seen};

/// What an acknowledgement meant for the kind of crash that is checked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Promise {
    /// A crash of the process, which keeps the page cache: what was acknowledged at
    /// [`AckAt::Committed`] or [`AckAt::Flushed`] must be there.
    Cached,
    /// A power cut under group commit: what was acknowledged at [`AckAt::Flushed`] must be there.
    Durable,
    /// A power cut under an asynchronous strategy: only what a sync covered must be there.
    None,
}

impl Promise {
    fn holds_for(self, mark: AckAt) -> bool {
        match self {
            Self::Cached => AckAt::Committed <= mark,
            Self::Durable => AckAt::Flushed <= mark,
            Self::None => false,
        }
    }
}

/// A record of the reopened log.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FoundRecord {
    /// Its first byte.
    pub offset: LogOffset,
    /// Its length in bytes.
    pub len: u32,
    /// Its position in its queue.
    pub queue_offset: QueueOffset,
    /// When the store took it.
    pub store_timestamp: TimestampMs,
    /// The topic.
    pub topic: Vec<u8>,
    /// The queue within the topic.
    pub queue_id: QueueId,
    /// The body.
    pub body: Vec<u8>,
}

impl FoundRecord {
    /// The record that `sent` makes where it was `appended`.
    pub fn of(shape: &Shape, sent: Sent, appended: Appended) -> Self {
        let content = shape.content(sent);
        Self {
            offset: appended.offset,
            len: appended.len,
            queue_offset: appended.queue_offset,
            store_timestamp: appended.store_timestamp,
            topic: content.topic,
            queue_id: content.queue_id,
            body: content.body,
        }
    }

    /// The offset behind its last byte.
    pub fn end(&self) -> LogOffset {
        self.appended().end()
    }

    /// Where it stands.
    pub fn appended(&self) -> Appended {
        Appended {
            offset: self.offset,
            len: self.len,
            queue_offset: self.queue_offset,
            store_timestamp: self.store_timestamp,
        }
    }
}

/// The records of a log, from its start to its readable end.
///
/// # Errors
///
/// If a record that opening found cannot be read.
pub fn read_all(log: &Log) -> Result<Vec<FoundRecord>, ReadError> {
    let mut found = Vec::new();
    let mut cursor = log.cursor(log.recovery().start);
    while let Some(record) = cursor.next_record()? {
        let len = u32::try_from(record.as_bytes().len()).expect("a record's length is an i32");
        found.push(FoundRecord {
            offset: record.log_offset(),
            len,
            queue_offset: record.queue_offset(),
            store_timestamp: record.store_timestamp(),
            topic: record.topic().to_vec(),
            queue_id: record.queue_id(),
            body: record.body().to_vec(),
        });
    }
    Ok(found)
}

/// What a crash left of a run.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Verdict {
    /// Records that are there.
    pub survived: u64,
    /// Records that were acknowledged before the crash, under whatever promise, and are not there.
    pub lost_acked: u64,
    /// The bytes of these.
    pub lost_acked_bytes: u64,
    /// What must not be.
    pub violations: Vec<Violation>,
}

/// What must not be after a crash.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Violation {
    /// A record that an earlier recovery had cut is there again.
    CameBack {
        /// Which.
        sent: Sent,
        /// Where it stands now.
        at: LogOffset,
    },
    /// A record is not what was appended, or not where.
    Changed {
        /// Which, as its body says.
        sent: Sent,
        /// Where it stands.
        at: LogOffset,
        /// What differs.
        what: &'static str,
    },
    /// A record stands before the end of the one before it.
    Disordered {
        /// Where it stands.
        at: LogOffset,
        /// The end of the one before.
        behind: LogOffset,
    },
    /// A record is not there though its acknowledgement, or the log's own mark, said it is durable.
    LostDurable {
        /// Which.
        sent: Sent,
        /// Where it was.
        at: LogOffset,
        /// Up to where the log had called itself flushed.
        flushed: LogOffset,
        /// What its acknowledgement promised, if it was given.
        acked: Option<AckAt>,
    },
    /// A record is there that no producer sent.
    NeverSent {
        /// Where it stands.
        at: LogOffset,
        /// Its length in bytes.
        len: u32,
    },
    /// A record is missing though one that was placed behind it is there.
    NotAPrefix {
        /// Which.
        sent: Sent,
        /// Where it was.
        at: LogOffset,
        /// Where the log ends.
        end: LogOffset,
    },
    /// A queue does not count on by one.
    QueueOffset {
        /// Where the record stands.
        at: LogOffset,
        /// The position that it should have.
        expected: QueueOffset,
        /// The position that it has.
        found: QueueOffset,
    },
    /// A record is there though its append was refused.
    Refused {
        /// Which.
        sent: Sent,
        /// Where it stands.
        at: LogOffset,
    },
    /// A record is there twice.
    Twice {
        /// Which.
        sent: Sent,
        /// Where the second stands.
        at: LogOffset,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CameBack { sent, at } => {
                write!(f, "{sent} came back at {at} after a recovery had cut it")
            }
            Self::Changed { sent, at, what } => write!(f, "{sent} at {at} has another {what}"),
            Self::Disordered { at, behind } => {
                write!(f, "a record at {at} stands before {behind}, where the one before it ends")
            }
            Self::LostDurable { sent, at, flushed, acked: Some(mark) } => write!(
                f,
                "{sent} at {at} is lost though it was acknowledged at {mark:?}; flushed was \
                 {flushed}"
            ),
            Self::LostDurable { sent, at, flushed, acked: None } => {
                write!(f, "{sent} at {at} is lost though the log was flushed up to {flushed}")
            }
            Self::NeverSent { at, len } => {
                write!(f, "a record of {len} bytes at {at} was never sent")
            }
            Self::NotAPrefix { sent, at, end } => {
                write!(f, "{sent} at {at} is missing, but the log goes on to {end}")
            }
            Self::QueueOffset { at, expected, found } => write!(
                f,
                "the record at {at} has queue offset {} where {} was to come",
                found.get(),
                expected.get()
            ),
            Self::Refused { sent, at } => {
                write!(f, "{sent} stands at {at} though its append was refused")
            }
            Self::Twice { sent, at } => write!(f, "{sent} is there twice, again at {at}"),
        }
    }
}

/// Decides whether what a crash left is what was promised.
///
/// `before` is a snapshot taken before the crash, and `flushed_before` the log's own `flushed` mark
/// read before it: what lies below must be there under every strategy. `after` is a snapshot taken
/// when no producer was at work any more, and `found` are the records of the reopened log in its
/// order.
pub fn check(
    promise: Promise,
    before: &Seen,
    flushed_before: LogOffset,
    after: &Seen,
    found: &[FoundRecord],
) -> Verdict {
    let mut verdict = Verdict::default();
    let mut there = HashSet::with_capacity(found.len());
    check_order(found, &mut verdict);
    for record in found {
        check_record(record, after, &mut there, &mut verdict);
    }
    let end = found.iter().map(FoundRecord::end).max().unwrap_or_default();
    for (sent, appended) in after.placed().filter(|(sent, _)| !there.contains(sent)) {
        let acked = match before.fate(sent) {
            Some(Fate::Acked(_, mark)) => Some(mark),
            _ => None,
        };
        if acked.is_some() {
            verdict.lost_acked += 1;
            verdict.lost_acked_bytes += u64::from(appended.len);
        }
        let at = appended.offset;
        let is_promised = acked.is_some_and(|mark| promise.holds_for(mark));
        if is_promised || appended.end() <= flushed_before {
            let flushed = flushed_before;
            verdict.violations.push(Violation::LostDurable { sent, at, flushed, acked });
        } else if appended.end() <= end {
            verdict.violations.push(Violation::NotAPrefix { sent, at, end });
        }
    }
    verdict
}

/// Records follow each other, and each queue counts by one.
fn check_order(found: &[FoundRecord], verdict: &mut Verdict) {
    let mut behind = LogOffset::ZERO;
    let mut queues: HashMap<(&[u8], QueueId), u64> = HashMap::new();
    for record in found {
        let at = record.offset;
        if at < behind {
            verdict.violations.push(Violation::Disordered { at, behind });
        }
        behind = record.end();
        let next = queues.entry((&record.topic, record.queue_id)).or_default();
        if record.queue_offset.get() != *next {
            let (expected, found) = (QueueOffset::new(*next), record.queue_offset);
            verdict.violations.push(Violation::QueueOffset { at, expected, found });
        }
        *next = record.queue_offset.get().saturating_add(1);
    }
}

/// The record is what a producer sent, once, and stands where it was placed.
fn check_record(
    record: &FoundRecord,
    after: &Seen,
    there: &mut HashSet<Sent>,
    verdict: &mut Verdict,
) {
    let at = record.offset;
    let known = after.shape().name(&record.body).and_then(|sent| Some((sent, after.fate(sent)?)));
    let Some((sent, fate)) = known else {
        verdict.violations.push(Violation::NeverSent { at, len: record.len });
        return;
    };
    if !there.insert(sent) {
        verdict.violations.push(Violation::Twice { sent, at });
        return;
    }
    match fate {
        Fate::Cut => verdict.violations.push(Violation::CameBack { sent, at }),
        Fate::Refused => verdict.violations.push(Violation::Refused { sent, at }),
        Fate::Claimed | Fate::Placed(_) | Fate::Acked(..) => {
            if let Some(what) = difference(record, &after.shape(), sent, fate.place()) {
                verdict.violations.push(Violation::Changed { sent, at, what });
            } else {
                verdict.survived += 1;
            }
        }
    }
}

/// In what the record differs from what was sent, or from where that was placed.
fn difference(
    record: &FoundRecord,
    shape: &Shape,
    sent: Sent,
    placed: Option<Appended>,
) -> Option<&'static str> {
    // Topics and numbers are cheap to make, bodies are made once.
    let rules = [
        (record.body == shape.body(sent), "body"),
        (record.topic == shape.topic(sent.producer), "topic"),
        (record.queue_id == shape.queue_id(sent.producer), "queue"),
        (placed.is_none_or(|placed| placed.offset == record.offset), "place"),
        (placed.is_none_or(|placed| placed.len == record.len), "length"),
        (placed.is_none_or(|placed| placed.queue_offset == record.queue_offset), "queue offset"),
        (
            placed.is_none_or(|placed| placed.store_timestamp == record.store_timestamp),
            "store time",
        ),
    ];
    rules.iter().find(|(holds, _)| !holds).map(|(_, what)| *what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::witness::Witness;

    const SHAPE: Shape = Shape { seed: 9, producers: 2, min_body: 20, max_body: 60 };

    /// Eight records of 100 bytes, producers in turn; the first five are acknowledged.
    fn run() -> (Witness, Vec<FoundRecord>) {
        let witness = Witness::new(SHAPE);
        let found = (0..8).map(|number| {
            let sent = witness.claim(number % 2);
            let appended = Appended {
                offset: LogOffset::new(u64::from(number) * 100),
                len: 100,
                queue_offset: QueueOffset::new(u64::from(number / 2)),
                store_timestamp: TimestampMs::new(i64::from(number)),
            };
            witness.placed(sent, appended);
            if number < 5 {
                witness.acked(sent);
            }
            FoundRecord::of(&SHAPE, sent, appended)
        });
        let found = found.collect();
        (witness, found)
    }

    fn judge(promise: Promise, flushed: u64, witness: &Witness, found: &[FoundRecord]) -> Verdict {
        let seen = witness.snapshot();
        check(promise, &seen, LogOffset::new(flushed), &seen, found)
    }

    #[track_caller]
    fn only(verdict: &Verdict, expect: &str) {
        let said: Vec<_> = verdict.violations.iter().map(ToString::to_string).collect();
        assert_eq!(said, [expect], "{verdict:?}");
    }

    #[test]
    fn what_was_promised_may_end_anywhere_behind_the_promise() {
        let (witness, found) = run();
        for kept in 5..=8 {
            let verdict = judge(Promise::Durable, 500, &witness, &found[..kept]);
            assert_eq!(verdict.violations, []);
            assert_eq!(verdict.survived, store_core::length_u64(kept));
        }
        let verdict = judge(Promise::None, 300, &witness, &found[..3]);
        assert_eq!(verdict.violations, []);
        assert_eq!((verdict.lost_acked, verdict.lost_acked_bytes), (2, 200));
        let nothing = Witness::new(SHAPE);
        assert_eq!(judge(Promise::Durable, 0, &nothing, &[]), Verdict::default());
    }

    #[test]
    fn an_acknowledged_record_that_is_gone_was_promised() {
        let (witness, found) = run();
        let verdict = judge(Promise::Durable, 400, &witness, &found[..4]);
        let lost = "message 2 of producer 0 at 400 is lost though it was acknowledged at Flushed; \
                    flushed was 400";
        only(&verdict, lost);
        assert_eq!(verdict.lost_acked, 1);
    }

    #[test]
    fn a_record_acknowledged_after_the_cut_was_not_promised_before_it() {
        let (witness, found) = run();
        let before = witness.snapshot();
        witness.acked(Sent { producer: 1, index: 2 });
        let after = witness.snapshot();
        let flushed = LogOffset::new(500);
        let verdict = check(Promise::Durable, &before, flushed, &after, &found[..5]);
        assert_eq!(verdict.violations, []);
        let verdict = check(Promise::Durable, &after, flushed, &after, &found[..5]);
        assert_eq!(verdict.violations.len(), 1);
    }

    #[test]
    fn a_process_crash_keeps_what_was_committed_and_a_power_cut_need_not() {
        let (witness, found) = run();
        witness.acked_at(Sent { producer: 1, index: 2 }, AckAt::Committed);
        witness.acked_at(Sent { producer: 0, index: 3 }, AckAt::Wrote);
        assert_eq!(judge(Promise::Durable, 500, &witness, &found[..5]).violations, []);
        assert_eq!(judge(Promise::Cached, 500, &witness, &found[..6]).violations, []);
        let lost = "message 2 of producer 1 at 500 is lost though it was acknowledged at \
                    Committed; flushed was 500";
        only(&judge(Promise::Cached, 500, &witness, &found[..5]), lost);
    }

    #[test]
    fn what_the_log_called_flushed_is_there_under_every_strategy() {
        let (witness, found) = run();
        let lost = "message 3 of producer 0 at 600 is lost though the log was flushed up to 700";
        for promise in [Promise::Cached, Promise::Durable, Promise::None] {
            only(&judge(promise, 700, &witness, &found[..6]), lost);
        }
    }

    #[test]
    fn a_hole_is_no_prefix() {
        let (witness, mut found) = run();
        found.remove(6);
        let hole = "message 3 of producer 0 at 600 is missing, but the log goes on to 800";
        only(&judge(Promise::Durable, 500, &witness, &found), hole);
    }

    #[test]
    fn a_record_that_differs_was_changed() {
        let (witness, found) = run();
        let check = |what: &str, change: fn(&mut FoundRecord)| {
            let mut found = found.clone();
            change(&mut found[7]);
            let verdict = judge(Promise::Durable, 500, &witness, &found);
            let at = found[7].offset;
            let expect = format!("message 3 of producer 1 at {at} has another {what}");
            assert!(verdict.violations.iter().any(|one| one.to_string() == expect), "{verdict:?}");
        };
        check("body", |record| record.body[13] ^= 1);
        check("body", |record| record.body.push(0));
        check("topic", |record| record.topic.push(b'x'));
        check("queue", |record| record.queue_id = QueueId::new(0));
        check("place", |record| record.offset = LogOffset::new(808));
        check("length", |record| record.len += 1);
        check("queue offset", |record| record.queue_offset = QueueOffset::new(9));
        check("store time", |record| record.store_timestamp = TimestampMs::new(-1));
    }

    #[test]
    fn a_record_of_nobody_was_never_sent() {
        let (witness, mut found) = run();
        found[7].body[3] = 7;
        let verdict = judge(Promise::Durable, 500, &witness, &found);
        assert_eq!(
            verdict.violations[0].to_string(),
            "a record of 100 bytes at 700 was never sent"
        );
        let (witness, mut found) = run();
        let ahead = Sent { producer: 0, index: 4 };
        let appended = Appended { offset: LogOffset::new(800), ..found[6].appended() };
        let appended = Appended { queue_offset: QueueOffset::new(4), ..appended };
        found.push(FoundRecord::of(&SHAPE, ahead, appended));
        let verdict = judge(Promise::Durable, 500, &witness, &found);
        only(&verdict, "a record of 100 bytes at 800 was never sent");
        // Once its append has begun it may be there.
        assert_eq!(witness.claim(0), ahead);
        assert_eq!(judge(Promise::Durable, 500, &witness, &found).violations, []);
        witness.refused(ahead);
        let verdict = judge(Promise::Durable, 500, &witness, &found);
        only(&verdict, "message 4 of producer 0 stands at 800 though its append was refused");
    }

    #[test]
    fn queues_count_by_one_from_zero() {
        let (witness, found) = run();
        let verdict = judge(Promise::None, 0, &witness, &found[1..]);
        let skipped = "the record at 200 has queue offset 1 where 0 was to come";
        assert_eq!(verdict.violations[0].to_string(), skipped);
    }

    #[test]
    fn what_was_cut_does_not_come_back() {
        let (witness, found) = run();
        witness.reopened(&found[..5]);
        assert_eq!(judge(Promise::Durable, 500, &witness, &found[..5]).violations, []);
        let verdict = judge(Promise::Durable, 500, &witness, &found[..6]);
        only(&verdict, "message 2 of producer 1 came back at 500 after a recovery had cut it");
        // What the recovery found was durable then.
        let lost = "message 2 of producer 0 at 400 is lost though the log was flushed up to 500";
        only(&judge(Promise::None, 500, &witness, &found[..4]), lost);
    }

    #[test]
    fn records_stand_once_and_in_order() {
        let (witness, mut found) = run();
        let mut again = found[7].clone();
        again.offset = LogOffset::new(750);
        again.queue_offset = QueueOffset::new(4);
        found.push(again);
        let said: Vec<_> = judge(Promise::Durable, 500, &witness, &found).violations;
        let said: Vec<_> = said.iter().map(ToString::to_string).collect();
        let expect = [
            "a record at 750 stands before 800, where the one before it ends",
            "message 3 of producer 1 is there twice, again at 750",
        ];
        assert_eq!(said, expect);
    }
}
