//! The thread that makes the next segment ready before the log needs it.

use std::cell::Cell;
use std::io::ErrorKind;
use std::sync::Arc;

use rustix::io::Errno;
use store_core::{LogOffset, Nanos, SegmentName, length_u64};

use crate::append::{Ready, Tail};
use crate::clock::monotonic;
use crate::error::{Error, Op};
use crate::filling::{Haste, InOneGo, PIECE, Pace};
use crate::segment::Segment;
use crate::shared::Shared;
use crate::sync::Ordering;

impl Shared {
    /// The allocator's thread: one segment ahead, made whenever the last one was taken.
    ///
    /// After a failure it tries again when an append asks, so that space which was freed is used.
    pub(crate) fn allocate_ahead(&self) {
        loop {
            if let Allocated::Made(segment) = self.allocate(&WithTime(self)) {
                let seen = Cell::new(0);
                self.fill(&segment, &UntilTaken { shared: self, segment: &segment, seen });
                // Who took it meanwhile may have ended a rest with its wake-up.
                continue;
            }
            if self.stop.load(Ordering::SeqCst) {
                return;
            }
            self.allocator.wait(None);
        }
    }

    /// Makes the next segment in one go if it is missing; whether it was.
    pub(crate) fn allocate_once(&self) -> bool {
        let pace = &InOneGo(&self.stop);
        let allocated = self.allocate(pace);
        if let Allocated::Made(segment) = &allocated {
            self.fill(segment, pace);
        }
        !matches!(allocated, Allocated::Nothing)
    }

    fn allocate(&self, pace: &dyn Pace) -> Allocated {
        match self.wanted_segment() {
            Some(start) => self.deliver(start, pace),
            None => Allocated::Nothing,
        }
    }

    fn wanted_segment(&self) -> Option<LogOffset> {
        let tail = self.tail();
        if tail.closed || tail.next.is_some() {
            return None;
        }
        let start = tail.active.as_ref().map_or(tail.wrote, |active| active.end());
        start.checked_add(self.options.segment_size.bytes()).map(|_| start)
    }

    fn deliver(&self, start: LogOffset, pace: &dyn Pace) -> Allocated {
        let made = self
            .clear_away(start)
            .and_then(|()| Segment::create(self.directory.segments(), start, &self.options, pace));
        if let Ok((segment, _)) = &made
            && self.tail().active.is_none()
        {
            // Who opens a log appends at once, and would end it before it has begun.
            let until = self.now().after(HEAD_START_TIME);
            segment.fill(HEAD_START, &self.options, &AtMost { pace, until, shared: self });
        }
        let mut tail = self.tail();
        tail.attempts += 1;
        let allocated = match made {
            Ok((segment, writer)) => {
                let segment = Arc::new(segment);
                tail.next = Some(Ready { segment: Arc::clone(&segment), writer });
                tail.made += 1;
                tail.refused = None;
                Allocated::Made(segment)
            }
            Err(error) => {
                tail.has_litter |= !matches!(error.op, Op::Create);
                tail.refused = Some(error.wanting(self.options.segment_size.bytes()));
                Allocated::Refused
            }
        };
        drop(tail);
        self.room.notify_all();
        allocated
    }

    /// Fills the segment that was made last with zeroes, as far as there is time for it before it
    /// is used.
    fn fill(&self, segment: &Segment, pace: &dyn Pace) {
        segment.fill(self.options.segment_size.bytes(), &self.options, pace);
        let mut tail = self.tail();
        tail.filled = tail.made;
        drop(tail);
        self.room.notify_all();
    }

    /// Removes what an earlier attempt could not remove itself, because the disk had become
    /// read-only.
    fn clear_away(&self, start: LogOffset) -> Result<(), Error> {
        if !self.tail().has_litter {
            return Ok(());
        }
        let path = self.directory.segments().join(SegmentName::new(start).as_str());
        match self.directory.files().remove(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(Error::from_std(Op::Remove, &path, &error))
            }
            _ => {
                self.tail().has_litter = false;
                Ok(())
            }
        }
    }
}

/// The allocator's thread: while it is ahead of the appends that fill the segment before, who syncs
/// comes first.
struct WithTime<'a>(&'a Shared);

impl Pace for WithTime<'_> {
    fn haste(&self, filled: u64, of: u64) -> Result<Haste, Errno> {
        let Self(shared) = self;
        InOneGo(&shared.stop).haste(filled, of)?;
        // Both segments have the same size.
        let has_time = used(&shared.tail()).is_some_and(|used| used <= filled);
        Ok(if has_time { Haste::Share } else { Haste::Hurry })
    }

    /// An append that comes to wait for the segment ends it.
    fn rest(&self, took: Nanos) {
        let Self(shared) = self;
        shared.allocator.wait(Some(monotonic().after(took)));
    }
}

/// Bytes that appends have used of the segment before the next; `None` before there is one.
fn used(tail: &Tail) -> Option<u64> {
    tail.active.as_ref().map(|active| tail.wrote.since(active.start))
}

/// The allocator's thread behind a segment that appends can have at any time. Zeroes are then only
/// worth writing ahead of appends: while those outrun them, every byte would go to the device twice
/// when it has the least to spare.
struct UntilTaken<'a> {
    shared: &'a Shared,
    segment: &'a Segment,
    /// What was used at the last look.
    seen: Cell<u64>,
}

impl Pace for UntilTaken<'_> {
    fn haste(&self, filled: u64, of: u64) -> Result<Haste, Errno> {
        let Self { shared, segment, seen } = self;
        InOneGo(&shared.stop).haste(filled, of)?;
        let tail = shared.tail();
        if tail.next.as_ref().is_none_or(|next| next.segment.start != segment.start) {
            return Err(Errno::CANCELED);
        }
        let Some(used) = used(&tail) else { return Ok(Haste::Hurry) };
        let grown = used.saturating_sub(seen.replace(used));
        let is_outrun = filled < used && length_u64(PIECE) <= grown;
        Ok(if is_outrun { Haste::Wait } else { Haste::Share })
    }

    fn rest(&self, took: Nanos) {
        WithTime(self.shared).rest(took.max(SHORT_REST));
    }
}

/// As another says, but no longer than until then: appends may be waiting already.
struct AtMost<'a> {
    pace: &'a dyn Pace,
    until: Nanos,
    shared: &'a Shared,
}

impl Pace for AtMost<'_> {
    fn haste(&self, filled: u64, of: u64) -> Result<Haste, Errno> {
        if self.until <= self.shared.now() { Err(Errno::TIME) } else { self.pace.haste(filled, of) }
    }

    fn rest(&self, took: Nanos) {
        self.pace.rest(took);
    }
}

/// How much of the first segment that a run makes is filled before it takes appends.
const HEAD_START: u64 = 64 << 20;
/// And how long that may take: on a slow disk it has to do with less.
const HEAD_START_TIME: Nanos = Nanos::from_millis(500);
/// Appends that outrun the zeroes are looked at again after as long.
const SHORT_REST: Nanos = Nanos::from_millis(1);

/// What became of a look whether a segment is wanted.
enum Allocated {
    Made(Arc<Segment>),
    Nothing,
    Refused,
}

#[cfg(not(modelled))]
#[cfg(test)]
mod tests {
    use std::time::Duration;

    use group_commit::GroupCommit;
    use store_core::{Message, QueueId, SegmentSize, Wait};

    use super::*;
    use crate::{Log, LogOptions};

    #[test]
    fn there_is_time_while_more_is_filled_than_appends_have_used() {
        let root = tempfile::tempdir().unwrap();
        let segment_size = SegmentSize::new(1 << 20).unwrap();
        let options = LogOptions { segment_size, ..LogOptions::default() };
        let log = Log::open(root.path(), options, GroupCommit::default()).unwrap();
        let pace = WithTime(&log.shared);
        let size = segment_size.bytes();
        // The first segment is waited for by whoever comes first.
        assert_eq!(pace.haste(size - 1, size), Ok(Haste::Hurry));
        let queue = log.queue(b"t", QueueId::new(0)).unwrap();
        let message = Message { body: &[1; 5000], ..Message::default() };
        let used = log.append_and_wait(&queue, &message, Wait::Yes).unwrap().unwrap().end().get();
        assert_eq!(pace.haste(used - 1, size), Ok(Haste::Hurry));
        assert_eq!(pace.haste(used, size), Ok(Haste::Share));
        // Into the second segment, of which little is used.
        while log.marks().wrote().get() < size {
            log.append_and_wait(&queue, &message, Wait::Yes).unwrap().unwrap();
        }
        assert_eq!(pace.haste(10_000, size), Ok(Haste::Share));
        assert!(log.wait_for_segment(Duration::from_mins(1)));
        log.shared.stop.store(true, Ordering::SeqCst);
        assert_eq!(pace.haste(size - 1, size), Err(Errno::CANCELED));
        log.shared.stop.store(false, Ordering::SeqCst);
    }
}
