//! Keeping time: each lane's loop of polling, acting and reporting.

use rustix::io::Errno;
use store_core::{Action, Lane, LogOffset, Nanos, Wait};

use crate::error::{Error, Op};
use crate::shared::Shared;
use crate::sync::Ordering;

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
    pub(crate) fn drive(&self, lane: Lane) {
        let signal = &self.lane(lane).signal;
        loop {
            // Who has the turn instead notifies this thread when it gives it back.
            let rest = match Held::take(self, lane) {
                Some(turn) => {
                    let rest = self.act_while_there_is_need(lane);
                    if turn.give_back() {
                        continue;
                    }
                    rest
                }
                None => Rest::Event,
            };
            match rest {
                Rest::Event => signal.wait(None),
                Rest::Stop => return,
                Rest::Until(time) => signal.wait(Some(time)),
            }
        }
    }

    /// As [`wake_for_append`](Self::wake_for_append), but a producer that waits for `end` does the
    /// flush lane's next action itself, if nobody is at it: without a second thread there is no
    /// hand-over to wait for.
    pub(crate) fn lead_for_append(&self, end: LogOffset, wait: Wait) {
        if self.answers.wakes(Lane::Commit, wait) {
            self.wake(Lane::Commit);
        }
        if self.answers.wakes(Lane::Flush, wait) {
            self.note(Lane::Flush);
            self.lead(end);
        }
    }

    fn lead(&self, end: LogOffset) {
        let Some(turn) = Held::take(self, Lane::Flush) else { return };
        let mut acted = self.act(Lane::Flush);
        if matches!(acted, Acted::Did) {
            // What the strategy wants next: as good as always, to wait for an event.
            acted = self.act(Lane::Flush);
        }
        let wanted = turn.give_back();
        // Who asked meanwhile, a time to wait for, and what one action did not reach are left to
        // the lane's thread.
        let has_rest = !matches!(acted, Acted::Not(Rest::Event)) || self.progress.flushed() < end;
        if wanted || has_rest {
            self.lane(Lane::Flush).signal.notify();
        }
    }

    /// Acts until the strategy has nothing to do now.
    fn act_while_there_is_need(&self, lane: Lane) -> Rest {
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
        if lane == Lane::Commit {
            if self.commit_wanted.swap(false, Ordering::SeqCst) {
                // Staging space runs out, whatever the strategy thinks of committing now.
                return Ok(Chosen::Commit { upto: self.progress.wrote(), is_asked: false });
            }
            if !self.answers.uses_commit {
                // Here for those appends alone.
                let is_over = self.tail().closed;
                return Err(if is_over { Rest::Stop } else { Rest::Event });
            }
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
            self.fail(&error);
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
        // Only a panic comes here: `give_back` forgets the guard. Loom also unwinds the threads of
        // a deadlock, when its own types are gone.
        if !cfg!(modelled = "loom") {
            let path = self.shared.directory.segments();
            self.shared.fail(&Error::new(Op::Panicked, path, Errno::CANCELED));
            // Only then may another thread act, which finds the log poisoned.
            let lane = self.shared.lane(self.lane);
            if lane.turn.give_back() {
                lane.signal.notify();
            }
        }
    }
}

/// Whether a poll led to an action.
enum Acted {
    Did,
    Not(Rest),
}
