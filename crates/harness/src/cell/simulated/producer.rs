//! Producers in virtual time: as those of [`load`](crate::load), without their threads.

use std::collections::VecDeque;

use anyhow::{Result, bail, ensure};
use store_core::{LogOffset, Message, Nanos, Wait};
use store_os::{AppendError, Queue, Ticket};

use super::copying;
use super::lanes::{COMMIT, FLUSH, LaneState};
use super::world::{Event, World};
use crate::load::{Load, Produced, Sampled, Schedule};

/// One producer.
pub(super) struct Producer {
    queue: Queue,
    schedule: Option<Schedule>,
    /// When the message that it sends next, or sends now, was due.
    due: Option<Nanos>,
    /// When it began to send what it sends now.
    sending: Option<Nanos>,
    /// When it could send its next message at the earliest.
    free_at: Nanos,
    /// It may have no more messages on their way.
    is_full: bool,
    sent: usize,
    acked: usize,
    on_their_way: VecDeque<OnItsWay>,
    produced: Produced,
}

/// A message without its acknowledgement.
struct OnItsWay {
    due: Option<Nanos>,
    begun: Nanos,
    end: LogOffset,
}

impl Producer {
    pub(super) fn new(queue: Queue, schedule: Option<Schedule>) -> Self {
        Self {
            queue,
            due: None,
            sending: None,
            free_at: Nanos::new(0),
            is_full: false,
            sent: 0,
            acked: 0,
            on_their_way: VecDeque::new(),
            produced: Produced::new(schedule.is_some()),
            schedule,
        }
    }

    /// Whether it neither sends nor waits for an answer.
    pub(super) fn is_idle(&self) -> bool {
        self.sending.is_none() && self.on_their_way.is_empty()
    }

    /// Its messages without acknowledgement, and when the first of them was begun.
    pub(super) fn waiting(&self) -> (u64, Option<Nanos>) {
        let count = self.on_their_way.len() + usize::from(self.sending.is_some());
        let first = self.on_their_way.front().map(|first| first.begun).or(self.sending);
        (store_core::length_u64(count), first)
    }

    /// What it measured, at the end.
    pub(super) fn ended(self, load: &Load, index: usize) -> Produced {
        let Self { sent, mut produced, .. } = self;
        if let Some(open) = &mut produced.open {
            load.count_due(index, sent, open);
        }
        produced
    }
}

impl World<'_> {
    /// A producer may send again: as soon as its next message is due.
    pub(super) fn arm(&mut self, index: usize) {
        if self.watching.is_over() {
            return;
        }
        let producer = &mut self.producers[index];
        producer.free_at = self.now;
        producer.due = producer.schedule.as_mut().map(Schedule::next_due);
        let at = producer.due.map_or(self.now, |due| due.max(self.now));
        self.agenda.add(at, Event::Due(index));
    }

    /// A producer sends; the log takes one append after the other.
    pub(super) fn due(&mut self, index: usize) {
        if self.watching.is_over() {
            return;
        }
        let took = copying(store_core::length_u64(self.body(index).len()));
        self.free_at = self.now.max(self.free_at).after(took);
        self.agenda.add(self.free_at, Event::Append(index));
        let is_measured = self.watching.is_measuring();
        let producer = &mut self.producers[index];
        producer.sending = Some(self.now);
        if let (Some(due), Some(open)) = (producer.due, &mut producer.produced.open)
            && is_measured
        {
            open.lag.saturating_record(self.now.since(due).get());
            open.own_lag.saturating_record(self.now.since(due.max(producer.free_at)).get());
        }
    }

    fn body(&self, index: usize) -> &[u8] {
        let producers = self.producers.len();
        self.load.bodies.get(self.producers[index].sent * producers + index)
    }

    /// A producer's message comes into the log, or waits for room.
    pub(super) fn append(&mut self, index: usize) -> Result<()> {
        loop {
            let message = Message { body: self.body(index), ..Message::default() };
            match self.log.append(&self.producers[index].queue, &message, Wait::Yes) {
                Ok(ticket) => {
                    self.placed(index, ticket);
                    return Ok(());
                }
                Err(AppendError::SegmentNotReady) => {
                    ensure!(self.log.allocate(), "a segment is missing that was made");
                }
                Err(AppendError::StagingFull) => {
                    self.blocked.push(index);
                    self.wake(COMMIT);
                    return Ok(());
                }
                Err(error) => bail!(error),
            }
        }
    }

    fn placed(&mut self, index: usize, ticket: Ticket) {
        let now = self.now;
        let is_ahead = self.load.shape.window > 1;
        let is_measured = self.watching.is_measuring();
        let producer = &mut self.producers[index];
        let begun = producer.sending.take().unwrap_or(now);
        let end = ticket.appended().end();
        producer.sent += 1;
        producer.on_their_way.push_back(OnItsWay { due: producer.due, begun, end });
        let took = now.since(begun);
        if is_ahead && is_measured {
            producer.produced.append.saturating_record(took.get());
        }
        if is_ahead {
            self.watching.ended(took);
        }
        if self.answers.acks_flushed {
            self.waiting.push_back((index, ticket));
        } else {
            self.answered(index, true);
        }
        self.wake_for_append(index);
        let on_their_way = self.producers[index].on_their_way.len();
        let has_room = store_core::length_u64(on_their_way) < u64::from(self.load.shape.window);
        if has_room {
            self.arm(index);
        } else {
            self.producers[index].is_full = true;
        }
    }

    /// Wakes the lanes; who waits alone flushes itself, if it may and nobody is at it.
    fn wake_for_append(&mut self, index: usize) {
        let shape = &self.load.shape;
        let leads = shape.leads && shape.window == 1 && self.waiting.len() == 1;
        if leads && matches!(self.lanes[FLUSH], LaneState::Resting(_)) {
            self.begin(FLUSH);
            let is_busy = matches!(self.lanes[FLUSH], LaneState::Busy(_));
            self.leader = is_busy.then_some(index);
            return;
        }
        for lane in [COMMIT, FLUSH] {
            if self.answers.appended_wakes[lane] {
                self.wake(lane);
            }
        }
    }

    /// A producer has its answer to the first of its messages, and may send again.
    pub(super) fn answered(&mut self, index: usize, in_time: bool) {
        let now = self.now;
        let is_ahead = self.load.shape.window > 1;
        let counts = self.watching.counts();
        let producer = &mut self.producers[index];
        let Some(OnItsWay { due, begun, end }) = producer.on_their_way.pop_front() else { return };
        if in_time {
            if counts(begun) {
                if !is_ahead {
                    producer.produced.outside_ns += self.load.outside(begun, now);
                }
                producer.produced.record(due, begun, now);
            }
            producer.acked += 1;
            producer
                .produced
                .sample(producer.acked, Sampled { end, begun, acked: now, stands_for: 1 });
            self.watching.acked(now, self.answers.acks_flushed);
            if !is_ahead {
                self.watching.ended(now.since(begun));
            }
        } else {
            // Not less than that, as for a real producer.
            if counts(begun) {
                producer.produced.timeouts += 1;
                producer.produced.outside_ns += self.load.outside(begun, now);
                producer.produced.record(due, begun, now);
            }
        }
        if std::mem::take(&mut self.producers[index].is_full) {
            self.arm(index);
        }
    }
}
