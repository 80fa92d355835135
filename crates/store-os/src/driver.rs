//! Keeping time: each lane's loop of polling, acting and reporting.

use rustix::io::Errno;
use store_core::{Action, Lane, LogOffset, Nanos};

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
        let _guard = PoisonsIfPanicking(self);
        let signal = &self.lane(lane).signal;
        loop {
            match self.act_while_there_is_need(lane) {
                Rest::Event => signal.wait(None),
                Rest::Stop => return,
                Rest::Until(time) => signal.wait(Some(time)),
            }
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
                // Appends wait for staging space, whatever the strategy thinks of committing now.
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

/// A panic while acting (a bug of ours, of a strategy or an observer) must not leave everyone
/// waiting: it poisons the log like a failed sync.
struct PoisonsIfPanicking<'a>(&'a Shared);

impl Drop for PoisonsIfPanicking<'_> {
    fn drop(&mut self) {
        // Loom unwinds the threads of a deadlock when its own types are gone.
        if std::thread::panicking() && !cfg!(modelled = "loom") {
            let path = self.0.directory.segments();
            self.0.fail(&Error::new(Op::Panicked, path, Errno::CANCELED));
        }
    }
}

/// Whether a poll led to an action.
enum Acted {
    Did,
    Not(Rest),
}
