//! What the log, its lanes, its allocator and its tickets share.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};

use store_core::{AckAt, Event, FlushStrategy, Lane, LogOffset, Nanos, Observed, Wait, Watermarks};

use crate::append::{Queues, Tail};
use crate::directory::Directory;
use crate::error::Error;
use crate::keeper::Records;
use crate::map::Reader;
use crate::options::{Io, LogOptions};
use crate::progress::Progress;
use crate::segment::Segment;
use crate::signal::Signal;
use crate::sync::{AtomicBool, AtomicU64, Condvar, Mutex, MutexGuard, Ordering};
use crate::turn::Turn;

/// A log without its threads.
///
/// Locks are taken in this order: `staged`, `tail`, `segments`; the others by themselves.
pub(crate) struct Shared {
    /// Tells this log's queues from another's.
    pub(crate) id: u64,
    pub(crate) options: LogOptions,
    pub(crate) directory: Directory,
    pub(crate) answers: Answers,
    pub(crate) strategy: Mutex<Box<dyn FlushStrategy + Send>>,
    pub(crate) tail: Mutex<Tail>,
    /// Notified, with `tail`, when a segment or staging space became ready.
    pub(crate) room: Condvar,
    /// Appends that wait for `room`.
    pub(crate) blocked: AtomicU64,
    /// Staging space runs out.
    pub(crate) commit_wanted: AtomicBool,
    /// Whether somebody commits when they do.
    pub(crate) has_committer: AtomicBool,
    pub(crate) progress: Progress,
    pub(crate) lanes: [LaneState; 2],
    /// The staging ring's reading end; `None` with mapped appends.
    pub(crate) staged: Option<Mutex<Reader>>,
    /// What was committed last, of what is staged.
    pub(crate) committed: Mutex<Mark>,
    pub(crate) segments: Mutex<VecDeque<Arc<Segment>>>,
    /// Of the records whose producers wait, those that are flushed.
    pub(crate) flushed_wanted: AtomicU64,
    pub(crate) queues: Queues,
    /// Tells the allocator that a segment is wanted.
    pub(crate) allocator: Signal,
    /// Ends the keeper's wait.
    pub(crate) keeper: Signal,
    /// Checkpoint and recovery point.
    pub(crate) records: Mutex<Records>,
    pub(crate) stop: AtomicBool,
    pub(crate) draining: AtomicBool,
}

/// A place in the log with what lies before it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mark {
    pub(crate) offset: LogOffset,
    /// Records appended since opening that end here or before.
    pub(crate) records: u64,
    /// Of these, the ones whose producers wait until they are flushed.
    pub(crate) wanted_records: u64,
}

/// What a lane's driver and those who wake it share.
#[derive(Debug, Default)]
pub(crate) struct LaneState {
    pub(crate) turn: Turn,
    pub(crate) signal: Signal,
    /// An event woke the lane since it was last polled.
    pub(crate) woken: AtomicBool,
}

/// A strategy's constant answers, asked for once so that appends take no lock for them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answers {
    ack: [AckAt; 2],
    wakes: [[bool; 2]; 2],
    commit_wakes_flush: bool,
    pub(crate) timeout: Option<Nanos>,
    pub(crate) uses_commit: bool,
}

impl Answers {
    pub(crate) fn of(strategy: &dyn FlushStrategy) -> Self {
        let waits = [Wait::No, Wait::Yes];
        let wakes = |lane| waits.map(|wait| strategy.wakes(lane, Event::Appended(wait)));
        Self {
            ack: waits.map(|wait| strategy.ack(wait)),
            wakes: Lane::ALL.map(wakes),
            commit_wakes_flush: strategy.wakes(Lane::Flush, Event::Committed),
            timeout: strategy.timeout(),
            uses_commit: strategy.uses(Lane::Commit),
        }
    }

    pub(crate) fn ack(&self, wait: Wait) -> AckAt {
        self.ack[usize::from(wait == Wait::Yes)]
    }

    pub(crate) fn wakes(&self, lane: Lane, wait: Wait) -> bool {
        self.wakes[index(lane)][usize::from(wait == Wait::Yes)]
    }
}

impl Shared {
    /// Now on the monotonic clock that the log stands on.
    pub(crate) fn now(&self) -> Nanos {
        self.options.files().monotonic()
    }

    pub(crate) fn tail(&self) -> MutexGuard<'_, Tail> {
        self.tail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn segments(&self) -> MutexGuard<'_, VecDeque<Arc<Segment>>> {
        self.segments.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn committed(&self) -> MutexGuard<'_, Mark> {
        self.committed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn strategy(&self) -> MutexGuard<'_, Box<dyn FlushStrategy + Send>> {
        self.strategy.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn lane(&self, lane: Lane) -> &LaneState {
        &self.lanes[index(lane)]
    }

    /// Remembers that an event concerns `lane`, and makes its thread look.
    pub(crate) fn wake(&self, lane: Lane) {
        self.note(lane);
        self.lane(lane).signal.notify();
    }

    /// Remembers that an event concerns `lane`, for whoever polls it next.
    pub(crate) fn note(&self, lane: Lane) {
        let woken = &self.lane(lane).woken;
        // Only a change is stored, so that the line stays shared between appending cores.
        if !woken.load(Ordering::SeqCst) {
            woken.store(true, Ordering::SeqCst);
        }
    }

    /// Wakes the lanes that an append concerns.
    pub(crate) fn wake_for_append(&self, wait: Wait) {
        for lane in Lane::ALL {
            if self.answers.wakes(lane, wait) {
                self.wake(lane);
            }
        }
    }

    /// Wakes the flush lane after a commit, if its strategy wants that.
    pub(crate) fn wake_for_commit(&self) {
        if self.answers.commit_wakes_flush {
            self.wake(Lane::Flush);
        }
    }

    /// Makes the commit lane commit now, because staging space runs out.
    pub(crate) fn hurry_commit(&self) {
        self.commit_wanted.store(true, Ordering::SeqCst);
        self.wake(Lane::Commit);
    }

    /// Whether a sync writes what is staged itself, in one call.
    pub(crate) fn syncs_by_writing(&self) -> bool {
        self.options.io() == Io::Direct
            && !self.answers.uses_commit
            && self.directory.syncs_direct_writes()
    }

    /// The append rolled into `tail.active`: makes it known to flushes and readers, and wakes the
    /// allocator for the one after.
    pub(crate) fn adopt(&self, tail: &Tail) {
        let active = tail.active.as_ref().expect("adopt follows a roll");
        self.segments().push_back(Arc::clone(active));
        self.allocator.notify();
    }

    /// What the strategy is shown. Takes the lane's `woken` away if `take_woken`.
    pub(crate) fn observe(&self, lane: Lane, take_woken: bool) -> Observed {
        let woken = take_woken && self.lane(lane).woken.swap(false, Ordering::SeqCst);
        // In this order each mark can only be lower than the ones read after it.
        let flushed_wanted = self.flushed_wanted.load(Ordering::SeqCst);
        let flushed = self.progress.flushed();
        let staged_upto = self.committed().offset;
        let tail = self.tail();
        let committed = if self.staged.is_some() { staged_upto } else { tail.wrote };
        Observed {
            marks: Watermarks::new(tail.wrote, committed, flushed),
            segment_start: tail.segment_start(),
            wanted: tail.wanted,
            waiting: tail.wanted_records - flushed_wanted,
            waiting_since: tail.waiting_since,
            woken,
            draining: self.draining.load(Ordering::SeqCst),
        }
    }

    /// The three marks now.
    pub(crate) fn marks(&self) -> Watermarks {
        self.observe(Lane::Flush, false).marks
    }

    /// Where records become readable: the mark that the strategy acknowledges at.
    pub(crate) fn readable(&self) -> LogOffset {
        match self.answers.ack(Wait::Yes) {
            AckAt::Flushed => self.progress.flushed(),
            AckAt::Committed if self.staged.is_some() => self.progress.committed(),
            AckAt::Committed | AckAt::Wrote => self.progress.wrote(),
        }
    }

    /// Poisons the log and lets go of everyone who waits.
    pub(crate) fn fail(&self, error: &Error) {
        self.progress.fail(error);
        self.notify_room();
        for lane in &self.lanes {
            lane.signal.notify();
        }
    }

    /// Room may have come: wakes the appends that wait for it.
    pub(crate) fn notify_room(&self) {
        drop(self.tail());
        self.room.notify_all();
    }
}

fn index(lane: Lane) -> usize {
    match lane {
        Lane::Commit => 0,
        Lane::Flush => 1,
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("directory", &self.directory)
            .field("options", &self.options)
            .field("progress", &self.progress)
            .finish_non_exhaustive()
    }
}
