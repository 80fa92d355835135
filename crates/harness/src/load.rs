//! Producers: each sends, waits for its acknowledgement, and sends again; or has several messages
//! on their way; or sends when messages are due, whatever became of those before.

mod bodies;
mod cleaner;
mod disturbance;
mod old;
mod produced;
mod progress;
mod reader;
mod schedule;
mod tail;

use std::collections::VecDeque;
use std::future::Future;
use std::num::NonZeroU64;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use store_core::{LogOffset, Message, Nanos, QueueId, TimestampMs, Wait};
use store_os::{AckError, AppendError, Log, Queue, Ticket};

pub use self::bodies::Bodies;
pub use self::disturbance::{Disturbance, Disturbing};
pub use self::produced::{OpenLoop, Produced, Sampled};
pub use self::progress::{Acknowledged, Waiting};
use self::progress::{Shown, total, waiting};
pub use self::schedule::{Offered, Schedule};
pub(crate) use self::tail::{Tail, Took};
use crate::clock::{nanos, now, wall_ms};

/// How producers send.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Threads.
    pub producers: u32,
    /// Whether one that waits alone runs the flush itself.
    pub leads: bool,
    /// Whether an acknowledgement waits for a flush; else it comes with the append.
    pub waits_for_flush: bool,
    /// Messages of one producer that may be without acknowledgement at a time; at least 1.
    pub window: u32,
    /// What is due when; `None`: each sends as soon as its window has room.
    pub offered: Option<Offered>,
    /// Seeds what is due when.
    pub seed: u64,
}

/// What the producers of a cell are told, and what they show while they run.
#[derive(Debug)]
pub struct Load {
    phase: AtomicU32,
    /// When the measured time began and ended, in nanoseconds; each is set before its phase.
    starts_at: AtomicU64,
    ends_at: AtomicU64,
    progress: Arc<[Shown]>,
    pub(crate) bodies: Bodies,
    pub(crate) shape: Shape,
    begun: Nanos,
}

impl Load {
    /// A load that begins now.
    pub fn new(shape: Shape, bodies: Bodies) -> Self {
        Self::beginning(shape, bodies, now())
    }

    /// A load that begins at that time, which may be another clock's.
    pub(crate) fn beginning(shape: Shape, bodies: Bodies, begun: Nanos) -> Self {
        Self {
            phase: AtomicU32::new(WARM_UP),
            starts_at: AtomicU64::new(0),
            ends_at: AtomicU64::new(0),
            progress: (0..shape.producers).map(|_| Shown::default()).collect(),
            bodies,
            shape,
            begun,
        }
    }

    /// Latencies count from `start` on.
    pub fn measure(&self, start: Nanos) {
        self.starts_at.store(start.get(), Ordering::Relaxed);
        self.phase.store(MEASURE, Ordering::Release);
    }

    /// From now on they do not; each producer stops after its current message. The measured time
    /// was over at `end`.
    pub fn stop(&self, end: Nanos) {
        self.ends_at.store(end.get(), Ordering::Relaxed);
        self.phase.store(STOP, Ordering::Release);
    }

    /// Messages acknowledged since the start.
    pub fn acked(&self) -> u64 {
        total(&self.progress)
    }

    /// The same count for who looks from elsewhere.
    pub fn counter(&self) -> Acknowledged {
        Acknowledged(Arc::clone(&self.progress))
    }

    /// The longest append that ended since this was last asked.
    pub fn take_worst(&self) -> Nanos {
        let taken = self.progress.iter().map(|shown| shown.worst_ns.swap(0, Ordering::Relaxed));
        Nanos::new(taken.max().unwrap_or(0))
    }

    /// What 99 of 100 appends took at most that ended since this was last asked with `tail`.
    pub(crate) fn take_p99(&self, tail: &mut Tail) -> Nanos {
        tail.take_p99(self.progress.iter().map(|shown| &shown.took))
    }

    /// What waits for its acknowledgement by `now`.
    pub fn waiting(&self, now: Nanos) -> Waiting {
        waiting(&self.progress, now)
    }

    /// Starts the producers within `scope`.
    pub fn start<'scope>(
        &'scope self,
        scope: &'scope thread::Scope<'scope, '_>,
        log: &'scope Log,
    ) -> Vec<thread::ScopedJoinHandle<'scope, Produced>> {
        (0..self.progress.len())
            .map(|index| scope.spawn(move || self.produce(index, log)))
            .collect()
    }

    fn produce(&self, index: usize, log: &Log) -> Produced {
        let nothing = Produced::new(self.shape.offered.is_some());
        let id = i32::try_from(index % QUEUES).expect("a few queues");
        let queue = match log.queue(TOPIC, QueueId::new(id)) {
            Ok(queue) => queue,
            Err(error) => return nothing.stopped_by(&error),
        };
        let mut thread = Producer {
            load: self,
            index,
            log,
            queue,
            born: TimestampMs::new(i64::try_from(wall_ms()).unwrap_or(i64::MAX)),
            schedule: self.schedule(index),
            sent: 0,
            acked: 0,
            free_at: Nanos::new(0),
            on_their_way: VecDeque::new(),
            produced: nothing,
        };
        let ended = thread.send();
        let (sent, mut produced) = (thread.sent, thread.produced);
        if let Some(open) = &mut produced.open {
            self.count_due(index, sent, open);
        }
        match ended {
            Ok(()) => produced,
            Err(error) => produced.stopped_by(&*error),
        }
    }

    pub(crate) fn schedule(&self, index: usize) -> Option<Schedule> {
        let Shape { producers, seed, offered, .. } = &self.shape;
        let index = u32::try_from(index).expect("as many as there are producers");
        offered.as_ref().map(|of| Schedule::new(of, index, *producers, *seed, self.begun))
    }

    /// What was due in the measured time, and what of it a producer had not sent at its end that
    /// has sent so many in all: a burst may take until the next one.
    pub(crate) fn count_due(&self, index: usize, sent: usize, open: &mut OpenLoop) {
        let start = Nanos::new(self.starts_at.load(Ordering::Relaxed));
        let end = Nanos::new(self.ends_at.load(Ordering::Relaxed));
        let Some(mut schedule) = self.schedule(index).filter(|_| start.get() > 0) else { return };
        let burst = self.shape.offered.and_then(|offered| offered.burst);
        let grace = burst.map_or(GRACE, |burst| nanos(burst.every));
        let half = Nanos::new(end.since(start).get() / 2);
        let judged_until = Nanos::new(end.get() - grace.min(half).get());
        for number in 0.. {
            let due = schedule.next_due();
            if end <= due {
                return;
            }
            if start <= due {
                open.due += 1;
                let is_judged = due < judged_until;
                open.judged += u64::from(is_judged);
                open.unsent += u64::from(is_judged && sent <= number);
            }
        }
    }

    /// How much of a message's time lies outside the measured time.
    pub(crate) fn outside(&self, begun: Nanos, told: Nanos) -> u64 {
        let start = Nanos::new(self.starts_at.load(Ordering::Relaxed));
        let end = match self.ends_at.load(Ordering::Relaxed) {
            0 => told,
            end => Nanos::new(end),
        };
        start.since(begun).get() + told.since(end).get()
    }

    fn is_in(&self, phase: u32) -> bool {
        self.phase.load(Ordering::Acquire) == phase
    }
}

/// One producer's thread.
struct Producer<'a> {
    load: &'a Load,
    index: usize,
    log: &'a Log,
    queue: Queue,
    born: TimestampMs,
    schedule: Option<Schedule>,
    sent: usize,
    acked: usize,
    /// When it could send its next message at the earliest.
    free_at: Nanos,
    on_their_way: VecDeque<OnItsWay>,
    produced: Produced,
}

/// A message without its acknowledgement.
struct OnItsWay {
    due: Option<Nanos>,
    begun: Nanos,
    ticket: Ticket,
}

type Ended = Result<(), Box<dyn std::error::Error>>;

impl<'a> Producer<'a> {
    fn message(&self) -> Message<'a> {
        let Load { progress, bodies, .. } = self.load;
        let body = bodies.get(self.sent * progress.len() + self.index);
        Message { born_timestamp: self.born, body, ..Message::default() }
    }

    fn send(&mut self) -> Ended {
        if self.schedule.is_some() {
            // Else a sleep may end 50 us late, and every message that was due then with it.
            let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        }
        if self.load.shape.window == 1 { self.send_one_by_one() } else { self.send_ahead() }
    }

    fn send_one_by_one(&mut self) -> Ended {
        let load = self.load;
        let mut ended: Option<Nanos> = None;
        loop {
            let due = self.schedule.as_mut().map(Schedule::next_due);
            if !self.wait_until(due)? {
                return Ok(());
            }
            let phase = load.phase.load(Ordering::Acquire);
            if phase == STOP {
                return Ok(());
            }
            let message = self.message();
            let begun = now();
            self.shown().waits(1, Some(begun));
            self.record_lag(due, begun);
            if phase == MEASURE {
                self.produced.between_ns += ended.map_or(0, |ended| begun.since(ended).get());
            }
            let told = if load.shape.leads {
                self.log.append_and_lead(&self.queue, &message, Wait::Yes)
            } else {
                self.log.append_and_wait(&self.queue, &message, Wait::Yes)
            };
            self.shown().waits(0, None);
            let Some(told) = self.taken(begun, told)? else {
                ended = None;
                continue;
            };
            self.sent += 1;
            let appended = match told {
                Ok(appended) => appended,
                Err(AckError::FlushTimedOut) => {
                    self.timed_out(due, begun);
                    ended = None;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let told = now();
            self.free_at = told;
            self.shown().ended(told.since(begun));
            // A message counts if it was under way in the measured time, so that no stall at either
            // end is missed.
            if phase == MEASURE || load.is_in(MEASURE) {
                self.produced.outside_ns += load.outside(begun, told);
                self.produced.record(due, begun, told);
            }
            self.count(begun, appended.end(), told);
            ended = Some(told);
        }
    }

    fn send_ahead(&mut self) -> Ended {
        let load = self.load;
        let window = usize::try_from(load.shape.window)?;
        while !load.is_in(STOP) {
            self.take_told()?;
            while self.on_their_way.len() >= window
                && let Some(first) = self.on_their_way.pop_front()
            {
                self.wait_for(first)?;
                self.free_at = now();
            }
            let due = self.schedule.as_mut().map(Schedule::next_due);
            if !self.wait_until(due)? {
                break;
            }
            let begun = now();
            self.record_lag(due, begun);
            let was_measured = load.is_in(MEASURE);
            if was_measured && self.sent > 0 {
                self.produced.between_ns += begun.since(self.free_at).get();
            }
            self.show_waiting(Some(begun));
            let ticket = self.log.append(&self.queue, &self.message(), Wait::Yes);
            self.show_waiting(None);
            let Some(ticket) = self.taken(begun, ticket)? else { continue };
            let appended = now();
            self.free_at = appended;
            self.sent += 1;
            self.shown().ended(appended.since(begun));
            if was_measured || load.is_in(MEASURE) {
                self.produced.append.saturating_record(appended.since(begun).get());
            }
            if load.shape.waits_for_flush {
                self.on_their_way.push_back(OnItsWay { due, begun, ticket });
                self.show_waiting(None);
            } else {
                self.told(due, begun, ticket.appended().end(), appended);
            }
        }
        // What was under way when the measured time ended counts, or a stall at its end was missed.
        while let Some(last) = self.on_their_way.pop_front() {
            self.wait_for(last)?;
        }
        Ok(())
    }

    /// What was appended; `None` if it was refused because the disk does not keep up, which is a
    /// figure and no end.
    fn taken<T>(
        &mut self,
        begun: Nanos,
        of: Result<T, AppendError>,
    ) -> Result<Option<T>, AppendError> {
        match of {
            Ok(taken) => Ok(Some(taken)),
            Err(AppendError::SegmentNotReady | AppendError::StagingFull) => {
                self.free_at = now();
                let took = self.free_at.since(begun);
                self.shown().ended(took);
                if self.counts(begun) {
                    let outside = self.load.outside(begun, self.free_at);
                    self.produced.refused += 1;
                    self.produced.refused_ns += took.get().saturating_sub(outside);
                }
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn record_lag(&mut self, due: Option<Nanos>, begun: Nanos) {
        if let (Some(due), Some(open)) = (due, &mut self.produced.open)
            && self.load.is_in(MEASURE)
        {
            open.lag.saturating_record(begun.since(due).get());
            open.own_lag.saturating_record(begun.since(due.max(self.free_at)).get());
        }
    }

    /// Waits until a message is due, and takes acknowledgements meanwhile; `false` if the load was
    /// stopped before.
    fn wait_until(&mut self, due: Option<Nanos>) -> Result<bool, AckError> {
        let Some(due) = due else { return Ok(true) };
        loop {
            let at = now();
            if due <= at {
                return Ok(true);
            }
            if self.load.is_in(STOP) {
                return Ok(false);
            }
            let left = Duration::from_nanos(due.since(at).get()).min(LOOK_UP);
            match self.on_their_way.front_mut() {
                None => thread::sleep(left),
                Some(first) => {
                    let waker = Waker::from(Arc::new(Unpark(thread::current())));
                    match pin!(&mut first.ticket).poll(&mut Context::from_waker(&waker)) {
                        Poll::Pending => thread::park_timeout(left),
                        Poll::Ready(_) => {}
                    }
                }
            }
            self.take_told()?;
        }
    }

    /// Takes the acknowledgements that have come.
    fn take_told(&mut self) -> Result<(), AckError> {
        while let Some(first) = self.on_their_way.pop_front_if(|first| first.ticket.is_done()) {
            self.wait_for(first)?;
        }
        Ok(())
    }

    fn wait_for(&mut self, message: OnItsWay) -> Result<(), AckError> {
        let OnItsWay { due, begun, ticket } = message;
        let told = ticket.wait();
        self.show_waiting(None);
        match told {
            Ok(appended) => self.told(due, begun, appended.end(), now()),
            Err(AckError::FlushTimedOut) => self.timed_out(due, begun),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// It took longer than its deadline: how much nobody knows, but not less, and without it what
    /// takes too long would make latencies better.
    fn timed_out(&mut self, due: Option<Nanos>, begun: Nanos) {
        self.free_at = now();
        self.shown().ended(self.free_at.since(begun));
        if self.counts(begun) {
            self.produced.timeouts += 1;
            self.produced.outside_ns += self.load.outside(begun, self.free_at);
            self.produced.record(due, begun, self.free_at);
        }
    }

    /// Whether a message that began then was under way in the measured time.
    fn counts(&self, begun: Nanos) -> bool {
        let phase = self.load.phase.load(Ordering::Acquire);
        let ends_at = Nanos::new(self.load.ends_at.load(Ordering::Relaxed));
        phase == MEASURE || (phase == STOP && begun < ends_at)
    }

    fn told(&mut self, due: Option<Nanos>, begun: Nanos, end: LogOffset, told: Nanos) {
        if self.counts(begun) {
            self.produced.record(due, begun, told);
        }
        self.count(begun, end, told);
    }

    fn count(&mut self, begun: Nanos, end: LogOffset, acked: Nanos) {
        self.acked += 1;
        self.shown().acked.store(store_core::length_u64(self.acked), Ordering::Relaxed);
        self.produced.sample(self.acked, Sampled { end, begun, acked, stands_for: 1 });
    }

    fn shown(&self) -> &'a Shown {
        &self.load.progress[self.index]
    }

    /// What is on its way, and the message that is being appended.
    fn show_waiting(&self, appending: Option<Nanos>) {
        let first = self.on_their_way.front().map(|first| first.begun).or(appending);
        let waiting = self.on_their_way.len() + usize::from(appending.is_some());
        self.shown().waits(store_core::length_u64(waiting), first);
    }
}

/// Ends a thread's `park_timeout`.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

const WARM_UP: u32 = 0;
const MEASURE: u32 = 1;
const STOP: u32 = 2;
/// The topic of all messages.
pub(crate) const TOPIC: &[u8] = b"bench-topic";
/// Queues that producers share, as a topic of a broker has.
pub(crate) const QUEUES: usize = 8;
/// What is due so shortly before the end need not be sent by then.
const GRACE: Nanos = Nanos::from_millis(20);
/// A producer that waits for what is due looks so often whether the load was stopped.
const LOOK_UP: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests;
