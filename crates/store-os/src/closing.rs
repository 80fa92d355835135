//! The end of a log: drained if the disk answers, and its directory given back.

use std::panic::resume_unwind;
use std::sync::{Arc, PoisonError};

use store_core::{Lane, Nanos};

use crate::append::Sink;
use crate::clock::monotonic;
use crate::crew::Crew;
use crate::error::{CloseError, Error, Op};
use crate::shared::Shared;
use crate::signal::has_passed;
use crate::sync::{Builder, Condvar, Mutex, MutexGuard, Ordering};

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
    pub(crate) fn end(self) -> Result<(), CloseError> {
        if self.lanes.is_empty() && self.helpers.is_empty() {
            // A log without threads ends without one too.
            return self.run();
        }
        let shared = Arc::clone(&self.shared);
        let limit = u64::try_from(shared.options.close_timeout.as_nanos()).unwrap_or(u64::MAX);
        let deadline = monotonic().after(Nanos::new(limit));
        let handed = Arc::new(HandedOver::new(self));
        let taken = Arc::clone(&handed);
        let closer = Builder::new().name("log-close".to_owned()).spawn(move || taken.run());
        let Ok(closer) = closer else {
            // Nobody could go on with it.
            return handed.take().run();
        };
        if !handed.wait_until(deadline) {
            let marks = shared.marks();
            return Err(CloseError::TimedOut { flushed: marks.flushed(), wrote: marks.wrote() });
        }
        if let Err(panic) = closer.join() {
            resume_unwind(panic);
        }
        handed.state().result.take().expect("told, as it did not panic")
    }

    fn run(mut self) -> Result<(), CloseError> {
        self.stop_threads();
        self.finish()
    }

    /// Drains the lanes and ends every thread.
    fn stop_threads(&mut self) {
        self.shared.begin_drain();
        self.lanes.join();
        let shared = &self.shared;
        shared.stop.store(true, Ordering::SeqCst);
        shared.allocator.notify();
        shared.keeper.notify();
        shared.progress.stop();
        self.helpers.join();
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
        let mut tail = self.tail();
        tail.closed = true;
        // Under the lock that every poll takes, as what is appended: see `Signal::notify`.
        self.draining.store(true, Ordering::SeqCst);
        drop(tail);
        self.room.notify_all();
        for lane in Lane::ALL {
            self.wake(lane);
        }
    }
}

/// What the thread that ends a log takes, and what it tells who waits for it.
struct HandedOver {
    state: Mutex<Handed>,
    ended: Condvar,
}

struct Handed {
    closing: Option<Closing>,
    has_ended: bool,
    /// None also if the thread panicked.
    result: Option<Result<(), CloseError>>,
}

impl HandedOver {
    fn new(closing: Closing) -> Self {
        let state = Handed { closing: Some(closing), has_ended: false, result: None };
        Self { state: Mutex::new(state), ended: Condvar::default() }
    }

    fn state(&self) -> MutexGuard<'_, Handed> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Closing {
        self.state().closing.take().expect("taken once")
    }

    fn run(&self) {
        let _tells = TellsEnd(self);
        let result = self.take().run();
        self.state().result = Some(result);
    }

    /// Waits until the log has ended, at most until `deadline`; whether it has.
    fn wait_until(&self, deadline: Nanos) -> bool {
        let mut state = self.state();
        while !state.has_ended && !has_passed(Some(deadline)) {
            state = self.ended.wait_until(state, deadline);
        }
        state.has_ended
    }
}

/// Tells of the end also if what ends the log panics.
struct TellsEnd<'a>(&'a HandedOver);

impl Drop for TellsEnd<'_> {
    fn drop(&mut self) {
        self.0.state().has_ended = true;
        self.0.ended.notify_all();
    }
}
