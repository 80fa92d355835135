//! The lanes of a log in virtual time, and what their syncs tell producers.

use anyhow::{Result, bail, ensure};
use store_core::{Lane, LogOffset, Nanos};
use store_os::{AckError, Step};

use super::world::{Event, World};
use super::{WAKE_UP, copying};

/// What a lane does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum LaneState {
    /// Acts until then.
    Busy(Nanos),
    /// Waits to be woken, or until then.
    Resting(Option<Nanos>),
    /// Does nothing any more.
    Stopped,
}

pub(super) const COMMIT: usize = 0;
pub(super) const FLUSH: usize = 1;

impl World<'_> {
    /// A lane's time may have come.
    pub(super) fn turn(&mut self, lane: usize) -> Result<()> {
        match self.lanes[lane] {
            LaneState::Busy(until) if until <= self.now => self.finish(lane),
            LaneState::Resting(Some(until)) if until <= self.now => {
                self.begin(lane);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Lets a lane look, one wake-up from now.
    pub(super) fn wake(&mut self, lane: usize) {
        if let LaneState::Resting(until) = self.lanes[lane] {
            let woken = self.now.after(WAKE_UP);
            if until.is_none_or(|until| woken < until) {
                self.set(lane, LaneState::Resting(Some(woken)));
            }
        }
    }

    /// Lets a lane look now: it begins what its strategy says.
    pub(super) fn begin(&mut self, lane: usize) {
        let committed = self.log.marks().committed();
        let step = self.log.begin(Lane::ALL[lane]);
        let marks = self.log.marks();
        let copied = marks.committed().since(committed);
        let state = match step {
            Step::Committed => LaneState::Busy(self.now.after(copying(copied))),
            Step::Idle => LaneState::Resting(None),
            Step::Sleep(until) => LaneState::Resting(Some(until)),
            Step::Stop => LaneState::Stopped,
            Step::Syncing => {
                // What was staged is written first.
                let is_copied = self.answers.acks_flushed && copied > 0;
                let begun = if is_copied { self.now.after(copying(copied)) } else { self.now };
                let [from, upto] = [marks.flushed(), marks.committed()].map(LogOffset::get);
                LaneState::Busy(self.device.sync(begun, from, upto, self.setting.segment_bytes))
            }
        };
        self.set(lane, state);
    }

    fn set(&mut self, lane: usize, state: LaneState) {
        self.lanes[lane] = state;
        if let LaneState::Busy(at) | LaneState::Resting(Some(at)) = state {
            self.agenda.add(at, Event::Lane(lane));
        }
    }

    fn finish(&mut self, lane: usize) -> Result<()> {
        ensure!(self.log.finish(Lane::ALL[lane]), "the log failed");
        self.settle()?;
        self.leader = self.leader.filter(|_| lane != FLUSH);
        self.begin(lane);
        if lane == COMMIT && self.answers.committed_wakes_flush {
            self.wake(FLUSH);
        }
        for producer in std::mem::take(&mut self.blocked) {
            self.agenda.add(self.now.after(WAKE_UP), Event::Append(producer));
        }
        Ok(())
    }

    /// Answers those for whom the promise holds by now, or the deadline has passed.
    pub(super) fn settle(&mut self) -> Result<()> {
        while let Some((producer, ticket)) = self.waiting.front() {
            let (producer, Some(outcome)) = (*producer, ticket.outcome()) else { return Ok(()) };
            let in_time = match outcome {
                Ok(_) => true,
                Err(AckError::FlushTimedOut) => false,
                Err(error) => bail!(error),
            };
            // Who runs the sync itself has not to be woken.
            let is_awake = in_time && self.leader == Some(producer);
            let at = if is_awake { self.now } else { self.now.after(WAKE_UP) };
            self.agenda.add(at, Event::Answered { producer, in_time });
            self.waiting.pop_front();
        }
        Ok(())
    }
}
