//! The thread that makes the next segment ready before the log needs it.

use std::io::ErrorKind;
use std::sync::Arc;

use rustix::io::Errno;
use store_core::{LogOffset, Nanos, SegmentName};

use crate::append::Ready;
use crate::clock::monotonic;
use crate::error::{Error, Op};
use crate::segment::{InOneGo, Pace, Segment};
use crate::shared::Shared;
use crate::sync::Ordering;

impl Shared {
    /// The allocator's thread: one segment ahead, made whenever the last one was taken.
    ///
    /// After a failure it tries again when an append asks, so that space which was freed is used.
    pub(crate) fn allocate_ahead(&self) {
        loop {
            self.allocate(&WithTime(self));
            if self.stop.load(Ordering::SeqCst) {
                return;
            }
            self.allocator.wait(None);
        }
    }

    /// Makes the next segment in one go if it is missing; whether it was.
    pub(crate) fn allocate_once(&self) -> bool {
        self.allocate(&InOneGo(&self.stop))
    }

    fn allocate(&self, pace: &dyn Pace) -> bool {
        let wanted = self.wanted_segment();
        if let Some(start) = wanted {
            self.deliver(start, pace);
        }
        wanted.is_some()
    }

    fn wanted_segment(&self) -> Option<LogOffset> {
        let tail = self.tail();
        if tail.closed || tail.next.is_some() {
            return None;
        }
        let start = tail.active.as_ref().map_or(tail.wrote, |active| active.end());
        start.checked_add(self.options.segment_size.bytes()).map(|_| start)
    }

    fn deliver(&self, start: LogOffset, pace: &dyn Pace) {
        let made = self
            .clear_away(start)
            .and_then(|()| Segment::create(self.directory.segments(), start, &self.options, pace));
        let mut tail = self.tail();
        tail.attempts += 1;
        match made {
            Ok((segment, writer)) => {
                tail.next = Some(Ready { segment: Arc::new(segment), writer });
                tail.made += 1;
                tail.refused = None;
            }
            Err(error) => {
                tail.has_litter |= !matches!(error.op, Op::Create);
                tail.refused = Some(error.wanting(self.options.segment_size.bytes()));
            }
        }
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
    fn has_time(&self, filled: u64, of: u64) -> Result<bool, Errno> {
        let Self(shared) = self;
        InOneGo(&shared.stop).has_time(filled, of)?;
        let tail = shared.tail();
        let Some(active) = &tail.active else { return Ok(false) };
        let used = tail.wrote.since(active.start);
        // Both segments have the same size.
        Ok(used <= filled)
    }

    /// An append that comes to wait for the segment ends it.
    fn rest(&self, took: Nanos) {
        let Self(shared) = self;
        shared.allocator.wait(Some(monotonic().after(took)));
    }
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
        assert_eq!(pace.has_time(size - 1, size), Ok(false));
        let queue = log.queue(b"t", QueueId::new(0)).unwrap();
        let message = Message { body: &[1; 5000], ..Message::default() };
        let used = log.append_and_wait(&queue, &message, Wait::Yes).unwrap().unwrap().end().get();
        assert_eq!(pace.has_time(used - 1, size), Ok(false));
        assert_eq!(pace.has_time(used, size), Ok(true));
        // Into the second segment, of which little is used.
        while log.marks().wrote().get() < size {
            log.append_and_wait(&queue, &message, Wait::Yes).unwrap().unwrap();
        }
        assert_eq!(pace.has_time(10_000, size), Ok(true));
        assert!(log.wait_for_segment(Duration::from_mins(1)));
        log.shared.stop.store(true, Ordering::SeqCst);
        assert_eq!(pace.has_time(size - 1, size), Err(Errno::CANCELED));
        log.shared.stop.store(false, Ordering::SeqCst);
    }
}
