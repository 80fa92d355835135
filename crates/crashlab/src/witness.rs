//! What a run told its producers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use store_core::{AckAt, LogOffset};
use store_os::Appended;

use crate::check::FoundRecord;
use crate::payload::{Sent, Shape};

/// What became of a message, as far as its producer knows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fate {
    /// Its append was begun; it may be in the log.
    Claimed,
    /// Its append was refused: it must not be in the log.
    Refused,
    /// It is in the log; nothing was promised of it.
    Placed(Appended),
    /// It is in the log, and its producer was told "ok".
    Acked(Appended, AckAt),
    /// An earlier recovery did not find it: it must not come back.
    Cut,
}

impl Fate {
    /// Where the message went, if it is in the log.
    pub fn place(&self) -> Option<Appended> {
        match self {
            Self::Placed(appended) | Self::Acked(appended, _) => Some(*appended),
            Self::Claimed | Self::Refused | Self::Cut => None,
        }
    }
}

/// What a run told its producers.
///
/// Each producer takes its messages' names from [`claim`](Self::claim) *before* it appends them, so
/// that a record is known that a crash left in the log before its producer heard of it. Names are
/// never used again, also not after a crash.
///
/// Cheap to record into from several threads, of which each serves other producers.
#[derive(Debug)]
pub struct Witness {
    shape: Shape,
    /// Fates by index, for each producer.
    producers: Vec<Mutex<Vec<Fate>>>,
    /// Messages acknowledged since the log was last opened, for each producer.
    acked: Vec<AtomicU64>,
}

impl Witness {
    /// A witness of a run that has not begun.
    pub fn new(shape: Shape) -> Self {
        let producers = (0..shape.producers).map(|_| Mutex::default()).collect();
        let acked = (0..shape.producers).map(|_| AtomicU64::new(0)).collect();
        Self { shape, producers, acked }
    }

    /// A witness of a run that has come so far.
    pub fn resumed(seen: Seen) -> Self {
        let Seen { shape, producers } = seen;
        let count = |fates: &Vec<Fate>| {
            let acked = fates.iter().filter(|fate| matches!(fate, Fate::Acked(..)));
            AtomicU64::new(store_core::length_u64(acked.count()))
        };
        let acked = producers.iter().map(count).collect();
        Self { shape, producers: producers.into_iter().map(Mutex::new).collect(), acked }
    }

    /// How the messages look.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The name of the producer's next message, which is appended now.
    ///
    /// # Panics
    ///
    /// If there is no such producer; so do the other methods, also for a name not claimed.
    pub fn claim(&self, producer: u32) -> Sent {
        let mut fates = self.of(producer);
        fates.push(Fate::Claimed);
        Sent { producer, index: store_core::length_u64(fates.len()) - 1 }
    }

    /// The append of `sent` was refused.
    pub fn refused(&self, sent: Sent) {
        self.set(sent, Fate::Refused);
    }

    /// `sent` was placed in the log.
    pub fn placed(&self, sent: Sent, appended: Appended) {
        self.set(sent, Fate::Placed(appended));
    }

    /// The producer of `sent`, which was placed, was told "ok" by a log whose strategy promises
    /// what is flushed, or promises nothing.
    pub fn acked(&self, sent: Sent) {
        self.acked_at(sent, AckAt::Flushed);
    }

    /// The producer of `sent`, which was placed, was told "ok", which promised that `mark` had
    /// passed the record.
    pub fn acked_at(&self, sent: Sent, mark: AckAt) {
        let mut fates = self.of(sent.producer);
        let fate = &mut fates[index(sent)];
        let appended = fate.place().expect("an acknowledged message was placed");
        *fate = Fate::Acked(appended, mark);
        // Counted when it can be seen in a snapshot.
        self.acked[place(sent.producer)].fetch_add(1, Ordering::Release);
    }

    /// How many messages of each producer are acknowledged: at once, where a snapshot takes its
    /// time. See [`Seen::when`].
    pub fn acked_by_producer(&self) -> Vec<u64> {
        self.acked.iter().map(|acked| acked.load(Ordering::Acquire)).collect()
    }

    /// The log was opened again and holds `found`; what was claimed and is not there was cut, and
    /// must not come back. What is there was made durable by opening.
    ///
    /// For the rounds after the first; no producer may be at work.
    pub fn reopened(&self, found: &[FoundRecord]) {
        for fates in &self.producers {
            let mut fates = fates.lock().unwrap_or_else(PoisonError::into_inner);
            let cut = |fate: &mut Fate| match fate {
                Fate::Refused => {}
                Fate::Claimed | Fate::Placed(_) | Fate::Acked(..) | Fate::Cut => *fate = Fate::Cut,
            };
            fates.iter_mut().for_each(cut);
        }
        self.acked.iter().for_each(|acked| acked.store(0, Ordering::Release));
        for record in found {
            if let Some(sent) = self.shape.name(&record.body)
                && let Some(fate) = self.of(sent.producer).get_mut(index(sent))
            {
                *fate = Fate::Placed(record.appended());
            }
        }
    }

    /// What producers know now. Each producer's part is of one moment, the whole need not be.
    pub fn snapshot(&self) -> Seen {
        let fates =
            |fates: &Mutex<Vec<Fate>>| fates.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Seen { shape: self.shape, producers: self.producers.iter().map(fates).collect() }
    }

    fn set(&self, sent: Sent, fate: Fate) {
        self.of(sent.producer)[index(sent)] = fate;
    }

    fn of(&self, producer: u32) -> MutexGuard<'_, Vec<Fate>> {
        self.producers[place(producer)].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn place(producer: u32) -> usize {
    usize::try_from(producer).expect("a u32 is a place")
}

fn index(sent: Sent) -> usize {
    usize::try_from(sent.index).unwrap_or(usize::MAX)
}

/// A moment of a [`Witness`].
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Seen {
    shape: Shape,
    producers: Vec<Vec<Fate>>,
}

impl Seen {
    /// How the messages look.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// What became of `sent`; `None` if it was not claimed.
    pub fn fate(&self, sent: Sent) -> Option<Fate> {
        let producer = usize::try_from(sent.producer).ok()?;
        self.producers.get(producer)?.get(index(sent)).copied()
    }

    /// How many messages a producer has claimed: the index of its next.
    pub fn claimed(&self, producer: u32) -> u64 {
        let fates = usize::try_from(producer).ok().and_then(|place| self.producers.get(place));
        fates.map_or(0, |fates| store_core::length_u64(fates.len()))
    }

    /// All messages claimed, by producer and index.
    pub fn fates(&self) -> impl Iterator<Item = (Sent, Fate)> + '_ {
        (0..).zip(&self.producers).flat_map(|(producer, fates)| {
            (0..).zip(fates).map(move |(index, fate)| (Sent { producer, index }, *fate))
        })
    }

    /// The messages in the log, by producer and index.
    pub fn placed(&self) -> impl Iterator<Item = (Sent, Appended)> + '_ {
        self.fates().filter_map(|(sent, fate)| fate.place().map(|appended| (sent, appended)))
    }

    /// The messages acknowledged, with what was promised.
    pub fn acked(&self) -> impl Iterator<Item = (Sent, Appended, AckAt)> + '_ {
        self.fates().filter_map(|(sent, fate)| match fate {
            Fate::Acked(appended, mark) => Some((sent, appended, mark)),
            _ => None,
        })
    }

    /// The same when only so many messages of each producer were acknowledged; what was
    /// acknowledged after them counts as placed. For producers that take their acknowledgements in
    /// order.
    #[must_use]
    pub fn when(mut self, acked: &[u64]) -> Self {
        for (fates, acked) in self.producers.iter_mut().zip(acked) {
            let mut left = *acked;
            for fate in fates {
                if let Fate::Acked(appended, _) = *fate {
                    match left.checked_sub(1) {
                        Some(rest) => left = rest,
                        None => *fate = Fate::Placed(appended),
                    }
                }
            }
        }
        self
    }

    /// How many messages were acknowledged since the log was last opened.
    pub fn acked_records(&self) -> u64 {
        store_core::length_u64(self.acked().count())
    }

    /// The offset behind the highest of them; zero if there is none.
    pub fn acked_end(&self) -> LogOffset {
        self.acked().map(|(_, appended, _)| appended.end()).max().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use store_core::{QueueOffset, TimestampMs};

    use super::*;

    const SHAPE: Shape = Shape { seed: 1, producers: 2, min_body: 16, max_body: 40 };

    fn at(offset: u64) -> Appended {
        Appended {
            offset: LogOffset::new(offset),
            len: 100,
            queue_offset: QueueOffset::new(0),
            store_timestamp: TimestampMs::new(0),
        }
    }

    #[test]
    fn a_snapshot_keeps_what_was_told_by_then() {
        let witness = Witness::new(SHAPE);
        let sent = [0, 1, 1].map(|producer| witness.claim(producer));
        assert_eq!(sent[2], Sent { producer: 1, index: 1 });
        witness.placed(sent[0], at(0));
        witness.placed(sent[2], at(100));
        witness.acked(sent[2]);
        let before = witness.snapshot();
        witness.refused(sent[1]);
        witness.acked_at(sent[0], AckAt::Wrote);
        assert_eq!(before.fate(sent[0]), Some(Fate::Placed(at(0))));
        assert_eq!(before.fate(sent[1]), Some(Fate::Claimed));
        assert_eq!(before.fate(sent[2]), Some(Fate::Acked(at(100), AckAt::Flushed)));
        assert_eq!(before.fate(Sent { producer: 1, index: 2 }), None);
        assert_eq!(before.fate(Sent { producer: 2, index: 0 }), None);
        assert_eq!((before.acked_records(), before.acked_end()), (1, LogOffset::new(200)));
        assert_eq!(before.placed().count(), 2);
        assert_eq!(witness.snapshot().acked_records(), 2);
        assert_eq!(witness.snapshot().fate(sent[1]), Some(Fate::Refused));
    }

    #[test]
    fn an_earlier_moment_is_told_by_how_many_were_acknowledged() {
        let witness = Witness::new(SHAPE);
        for (offset, producer) in [(0, 0), (100, 1), (200, 0), (300, 0)] {
            let sent = witness.claim(producer);
            witness.placed(sent, at(offset));
            if offset != 200 {
                witness.acked(sent);
            }
        }
        let early = witness.acked_by_producer();
        assert_eq!(early, [2, 1]);
        let then = witness.snapshot();
        assert_eq!(then.clone().when(&early), then);
        let late = witness.claim(1);
        witness.placed(late, at(400));
        witness.acked(late);
        let now = witness.snapshot();
        assert_eq!(now.clone().when(&witness.acked_by_producer()), now);
        let before = now.when(&early);
        assert_eq!(before.acked_records(), 3);
        assert_eq!(before.fate(late), Some(Fate::Placed(at(400))));
        witness.reopened(&[]);
        assert_eq!(witness.acked_by_producer(), [0, 0]);
    }

    #[test]
    fn what_a_recovery_did_not_find_was_cut_and_its_name_is_not_used_again() {
        let witness = Witness::new(SHAPE);
        let sent = [0, 0, 0, 0].map(|producer| witness.claim(producer));
        witness.placed(sent[0], at(0));
        witness.placed(sent[1], at(100));
        witness.acked(sent[1]);
        witness.refused(sent[2]);
        // Found though its producer never heard of it.
        let found = FoundRecord::of(&SHAPE, sent[3], at(0));
        witness.reopened(&[found]);
        let seen = witness.snapshot();
        assert_eq!(seen.fate(sent[0]), Some(Fate::Cut));
        assert_eq!(seen.fate(sent[1]), Some(Fate::Cut));
        assert_eq!(seen.fate(sent[2]), Some(Fate::Refused));
        assert_eq!(seen.fate(sent[3]).and_then(|fate| fate.place()).map(|at| at.len), Some(100));
        assert_eq!(seen.acked_records(), 0);
        assert_eq!(witness.claim(0).index, 4);
    }
}
