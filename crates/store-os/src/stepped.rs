//! A log without threads, for who keeps its time: each lane is stepped through the beginning and
//! the end of its actions, so that time can pass in between. The same code acts as under threads.

use std::ops::Deref;
use std::path::Path;

use store_core::{FlushStrategy, Lane, Nanos};

use crate::driver::{Chosen, Rest};
use crate::error::{CloseError, Error, OpenError};
use crate::flush::Round;
use crate::keeper::Keeping;
use crate::log::Log;
use crate::options::LogOptions;
use crate::sync::Ordering;

/// What a lane does after it was begun.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Step {
    /// Nothing until something was appended, committed or flushed, or the log drains.
    Idle,
    /// As `Idle`, but not past this time.
    Sleep(Nanos),
    /// Nothing more, ever: drained, poisoned or stopped.
    Stop,
    /// Staged bytes are in the page cache; the lane is busy until it is finished.
    Committed,
    /// What a sync covers is fixed; finishing makes the sync calls.
    Syncing,
}

/// A [`Log`] whose lanes, allocator and keeper are stepped by their owner, on one thread.
///
/// An append that would wait for room fails at once instead.
#[doc(hidden)]
#[derive(Debug)]
pub struct SteppedLog {
    log: Log,
    lanes: [Option<Begun>; 2],
    keeping: Keeping,
}

#[derive(Debug)]
struct Begun {
    chosen: Chosen,
    state: State,
}

#[derive(Debug)]
enum State {
    Ended(Result<(), Error>),
    Syncing(Round),
}

impl SteppedLog {
    /// [`Log::open`] without its threads; `append_timeout` becomes 0.
    ///
    /// # Errors
    ///
    /// Those of [`Log::open`].
    pub fn open(
        root: &Path,
        options: LogOptions,
        strategy: impl FlushStrategy + Send + 'static,
    ) -> Result<Self, OpenError> {
        let options = LogOptions { append_timeout: std::time::Duration::ZERO, ..options };
        let log = Log::open_alone(root, options, strategy)?;
        Ok(Self { log, lanes: [None, None], keeping: Keeping::default() })
    }

    /// Polls a lane that is not busy, and begins what its strategy says.
    pub fn begin(&mut self, lane: Lane) -> Step {
        let shared = &self.log.shared;
        let slot = &mut self.lanes[index(lane)];
        assert!(slot.is_none(), "{lane:?} is busy");
        let chosen = match shared.choose(lane) {
            Ok(chosen) => chosen,
            Err(Rest::Event) => return Step::Idle,
            Err(Rest::Until(time)) => return Step::Sleep(time),
            Err(Rest::Stop) => return Step::Stop,
        };
        let (state, step) = match chosen {
            Chosen::Commit { upto, .. } => {
                (State::Ended(shared.commit_through(upto)), Step::Committed)
            }
            Chosen::Flush(upto) => match shared.begin_flush(upto) {
                Ok(Some(round)) => (State::Syncing(round), Step::Syncing),
                Ok(None) => (State::Ended(Ok(())), Step::Committed),
                Err(error) => (State::Ended(Err(error)), Step::Committed),
            },
        };
        *slot = Some(Begun { chosen, state });
        step
    }

    /// Ends what the lane has begun: makes the sync calls, if it is that, and tells the strategy.
    /// A failure poisons the log; `false` then.
    pub fn finish(&mut self, lane: Lane) -> bool {
        let Some(Begun { chosen, state }) = self.lanes[index(lane)].take() else { return true };
        let shared = &self.log.shared;
        let done = match state {
            State::Ended(done) => done,
            State::Syncing(round) => shared.end_flush(round),
        };
        shared.finish(lane, chosen, done)
    }

    /// Whether the lane is between beginning and end of an action.
    pub fn is_busy(&self, lane: Lane) -> bool {
        self.lanes[index(lane)].is_some()
    }

    /// What the allocator does when it is woken: makes the next segment if it is missing.
    pub fn allocate(&self) -> bool {
        self.log.shared.allocate_once()
    }

    /// What the keeper does once a second: writes checkpoint and recovery point if it is time.
    pub fn keep(&mut self) {
        self.log.shared.keep(&mut self.keeping);
    }

    /// Refuses further appends; the lanes are then to be stepped until they stop.
    pub fn drain(&self) {
        self.log.shared.begin_drain();
    }

    /// Closes the log, which was drained.
    ///
    /// # Errors
    ///
    /// Those of [`Log::close`].
    pub fn close(self) -> Result<(), CloseError> {
        self.log.shared.stop.store(true, Ordering::SeqCst);
        self.log.close()
    }

    /// [`Log::abandon`].
    pub fn abandon(self) {
        self.log.abandon();
    }
}

impl Deref for SteppedLog {
    type Target = Log;

    fn deref(&self) -> &Log {
        &self.log
    }
}

fn index(lane: Lane) -> usize {
    match lane {
        Lane::Commit => 0,
        Lane::Flush => 1,
    }
}
