//! The thread that makes the next segment ready before the log needs it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use store_core::LogOffset;

use crate::append::Ready;
use crate::segment::Segment;
use crate::shared::Shared;

impl Shared {
    /// The allocator's thread: one segment ahead, made whenever the last one was taken.
    ///
    /// After a failure it tries again when an append asks, so that space which was freed is used.
    pub(crate) fn allocate_ahead(&self) {
        loop {
            self.allocate_once();
            if self.stop.load(Ordering::SeqCst) {
                return;
            }
            self.allocator.wait(None);
        }
    }

    /// Makes the next segment if it is missing; whether it was.
    pub(crate) fn allocate_once(&self) -> bool {
        let wanted = self.wanted_segment();
        if let Some(start) = wanted {
            self.deliver(start);
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

    fn deliver(&self, start: LogOffset) {
        let made = Segment::create(self.directory.segments(), start, &self.options, &self.stop);
        let mut tail = self.tail();
        tail.attempts += 1;
        match made {
            Ok((segment, writer)) => {
                tail.next = Some(Ready { segment: Arc::new(segment), writer });
                tail.made += 1;
                tail.refused = None;
            }
            Err(error) => tail.refused = Some(error),
        }
        drop(tail);
        self.room.notify_all();
    }
}
