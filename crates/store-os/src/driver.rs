//! Keeping time: each lane's loop of polling, acting and reporting.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::io::Errno;
use store_core::{Action, Lane, LogOffset, Nanos};

use crate::error::{Error, Op};
use crate::shared::Shared;

/// What a lane does next.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Chosen {
    /// Commits, because the strategy asked, or because appends wait for staging space.
    Commit { upto: LogOffset, is_asked: bool },
    /// Flushes.
    Flush(LogOffset),
}

/// What a lane's driver does after a turn.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rest {
    /// Nothing until an event.
    Event,
    /// Nothing more, ever.
    Stop,
    /// Nothing until an event or this time.
    Until(Nanos),
}

impl Shared {
    /// A lane's thread: acts when its time or an event comes, until the log is drained or fails.
    pub(crate) fn drive(self: &Arc<Self>, lane: Lane) {
        let state = self.lane(lane);
        loop {
            // Whoever has the turn instead notifies this thread when it gives it back.
            let rest = if let Some(turn) = Held::take(self, lane) {
                let rest = self.take_turn(lane);
                if turn.give_back() {
                    continue;
                }
                rest
            } else {
                Rest::Event
            };
            match rest {
                Rest::Event => state.signal.wait(None),
                Rest::Stop => return,
                Rest::Until(time) => state.signal.wait(Some(time)),
            }
        }
    }

    /// A waiting producer does the flush lane's next action itself, if nobody is at it: without a
    /// second thread there is no hand-over to wait for.
    ///
    /// Only one action, so that it does not work for others after its own record is durable.
    pub(crate) fn lead(&self) {
        let state = self.lane(Lane::Flush);
        let Some(turn) = Held::take(self, Lane::Flush) else { return };
        let acted = self.act(Lane::Flush);
        let wanted = turn.give_back();
        // Who asked meanwhile, or a gather that has to end, is left to the lane's thread.
        if wanted || !matches!(acted, Acted::Did) {
            state.signal.notify();
        }
    }

    /// Acts until the strategy has nothing to do now.
    fn take_turn(&self, lane: Lane) -> Rest {
        loop {
            match self.act(lane) {
                Acted::Did => {}
                Acted::Not(rest) => return rest,
            }
        }
    }

    /// Polls the strategy and does what it says.
    fn act(&self, lane: Lane) -> Acted {
        let chosen = match self.choose(lane) {
            Ok(chosen) => chosen,
            Err(rest) => return Acted::Not(rest),
        };
        let done = match chosen {
            Chosen::Commit { upto, .. } => self.commit_through(upto),
            Chosen::Flush(upto) => self.flush_through(upto),
        };
        if self.finish(lane, chosen, done) { Acted::Did } else { Acted::Not(Rest::Stop) }
    }

    /// The lane's next action, if it has one now.
    pub(crate) fn choose(&self, lane: Lane) -> Result<Chosen, Rest> {
        if self.progress.poison().is_some() || self.stop.load(Ordering::SeqCst) {
            return Err(Rest::Stop);
        }
        if lane == Lane::Commit && self.commit_wanted.swap(false, Ordering::SeqCst) {
            // Appends wait for staging space, whatever the strategy thinks of committing now.
            return Ok(Chosen::Commit { upto: self.progress.wrote(), is_asked: false });
        }
        let seen = self.observe(lane, true);
        match self.strategy().poll(lane, self.now(), &seen) {
            Action::Commit(upto) => Ok(Chosen::Commit { upto, is_asked: true }),
            Action::Done => Err(Rest::Stop),
            Action::Flush(upto) => Ok(Chosen::Flush(upto)),
            Action::Idle => Err(Rest::Event),
            Action::Sleep(until) => Err(Rest::Until(until)),
        }
    }

    /// Tells the strategy that its action has succeeded, or poisons the log; `false` if it failed.
    pub(crate) fn finish(&self, lane: Lane, chosen: Chosen, done: Result<(), Error>) -> bool {
        if let Err(error) = done {
            self.fail(error);
            return false;
        }
        if !matches!(chosen, Chosen::Commit { is_asked: false, .. }) {
            let seen = self.observe(lane, false);
            self.strategy().on_done(lane, self.now(), &seen);
        }
        if lane == Lane::Commit {
            self.wake_for_commit();
        }
        true
    }

    /// The thread that wakes futures when their deadline comes, whatever the lanes are stuck in.
    pub(crate) fn keep_deadlines(&self) {
        while !self.progress.is_stopped() {
            let next = self.progress.wake_overdue();
            self.progress.timekeeper.wait(next);
        }
    }
}

/// A lane's turn while it is held.
///
/// A panic while acting (a bug of ours, of a strategy or an observer) must not leave the turn taken
/// and everyone waiting: it poisons the log like a failed sync.
struct Held<'a> {
    shared: &'a Shared,
    lane: Lane,
}

impl<'a> Held<'a> {
    fn take(shared: &'a Shared, lane: Lane) -> Option<Self> {
        shared.lane(lane).turn.take().then(|| Self { shared, lane })
    }

    /// Gives the turn back; `true` if someone wanted it meanwhile.
    fn give_back(self) -> bool {
        let Self { shared, lane } = &self;
        let wanted = shared.lane(*lane).turn.give_back();
        std::mem::forget(self);
        wanted
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // Only a panic comes here: `give_back` forgets the guard.
        let path = self.shared.directory.segments();
        let state = self.shared.lane(self.lane);
        let _ = state.turn.give_back();
        self.shared.fail(Error::new(Op::Panicked, path, Errno::CANCELED));
    }
}

/// Whether a poll led to an action.
enum Acted {
    Did,
    Not(Rest),
}
