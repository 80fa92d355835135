//! The end of a log: drained if the disk answers, and its directory given back.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use store_core::{Lane, Nanos};

use crate::append::Sink;
use crate::clock::monotonic;
use crate::crew::Crew;
use crate::error::{CloseError, Error, Op};
use crate::shared::Shared;

/// What is left of a log that ends.
#[derive(Debug)]
pub(crate) struct Closing {
    pub(crate) shared: Arc<Shared>,
    pub(crate) lanes: Crew,
    pub(crate) helpers: Crew,
    pub(crate) ending: Ending,
}

/// How a log ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Ending {
    /// As a crash of the process would.
    Abandoned,
    /// With everything durable.
    Closed,
}

impl Closing {
    /// Ends the log within its limit; what takes longer is left to a thread.
    ///
    /// The directory must stay locked meanwhile: a call that is stuck may still write.
    pub(crate) fn end(mut self) -> Result<(), CloseError> {
        if self.stop_threads(self.shared.options.close_timeout) {
            return self.finish();
        }
        let marks = self.shared.marks();
        // If there can be no such thread, the lock goes with the last of the log's own.
        let _ = thread::Builder::new().name("log-close".to_owned()).spawn(move || {
            self.stop_threads(Duration::MAX);
            // Nobody is left to tell.
            let _ = self.finish();
        });
        Err(CloseError::TimedOut { flushed: marks.flushed(), wrote: marks.wrote() })
    }

    /// Drains the lanes and ends every thread; whether that was done in time.
    fn stop_threads(&mut self, limit: Duration) -> bool {
        let began = monotonic();
        self.shared.begin_drain();
        if !self.lanes.join_within(limit) {
            return false;
        }
        let shared = &self.shared;
        shared.stop.store(true, Ordering::SeqCst);
        shared.allocator.notify();
        shared.keeper.notify();
        shared.progress.stop();
        self.helpers.join_within(limit.saturating_sub(span(monotonic().since(began))))
    }

    fn finish(&self) -> Result<(), CloseError> {
        let result = match self.ending {
            Ending::Abandoned => Ok(()),
            Ending::Closed => self.clean_up(),
        };
        self.give_up();
        result
    }

    fn clean_up(&self) -> Result<(), CloseError> {
        let shared = &self.shared;
        let unused = shared.tail().next.take();
        let marks = shared.marks();
        if let Some(poison) = shared.progress.poison() {
            let (flushed, wrote) = (marks.flushed(), marks.wrote());
            return Err(CloseError::Poisoned { flushed, wrote, poison: poison.clone() });
        }
        if marks.flushed() < marks.wrote() {
            let (flushed, wrote) = (marks.flushed(), marks.wrote());
            return Err(CloseError::Unflushed { flushed, wrote });
        }
        if let Some(ready) = unused {
            let path = ready.segment.path();
            let removed = shared.directory.files().remove(path);
            removed
                .map_err(|error| CloseError::System(Error::from_std(Op::Remove, path, &error)))?;
        }
        shared.write_last_point(true).map_err(CloseError::System)?;
        shared.directory.mark_closed().map_err(CloseError::System)
    }

    /// Gives the maps and the directory back, though tickets and cursors may live on: pages that
    /// are still mapped would not be forgotten by the next recovery.
    fn give_up(&self) {
        let mut tail = self.shared.tail();
        tail.next = None;
        tail.active = None;
        if let Sink::Mapped(writer) = &mut tail.sink {
            *writer = None;
        }
        drop(tail);
        for segment in self.shared.segments().iter_mut() {
            if let Some(retired) = segment.retired(false) {
                *segment = Arc::new(retired);
            }
        }
        self.shared.directory.release();
    }
}

impl Shared {
    /// Refuses further appends, and tells the lanes to make everything durable.
    pub(crate) fn begin_drain(&self) {
        self.tail().closed = true;
        self.room.notify_all();
        self.draining.store(true, Ordering::SeqCst);
        for lane in Lane::ALL {
            self.wake(lane);
        }
    }
}

fn span(nanos: Nanos) -> Duration {
    Duration::from_nanos(nanos.get())
}
