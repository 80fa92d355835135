//! Producers, lanes, allocator and keeper of an open log under a virtual clock.

use rustix::io::Errno;
use store_core::{
    AckAt, Batch, BatchMember, Event, FlushStrategy, Lane, LogOffset, Message, Nanos, QueueOffset,
    Wait,
};
use store_os::{AckError, AppendError, Appended, Error, Poison, Queue, Step, SteppedLog, Ticket};

use crate::device::files::Change;
use crate::payload::Sent;
use crate::random::Random;
use crate::sim::disk::SimFiles;
use crate::sim::faults::{Call, Fault};
use crate::sim::finding::Wrong;
use crate::sim::journal::Told;
use crate::sim::plan::{Life, Machine, Plan};

pub(crate) struct World<'p> {
    plan: &'p Plan,
    life: &'p Life,
    files: &'p SimFiles,
    pub(crate) log: SteppedLog,
    answers: Machine,
    random: Random,
    now: Nanos,
    began: Nanos,
    producers: Vec<Producer>,
    lanes: [LaneState; 2],
    waiting: Vec<Waiting>,
    allocate_at: Option<Nanos>,
    keep_at: Nanos,
    write_back_fails_at: Vec<Nanos>,
    /// What a sync under way covers: the changes up to this number.
    issued: u64,
    flushed: LogOffset,
    segment: u64,
    appends: u32,
    poison: Option<Poison>,
    draining: bool,
    pub(crate) wrongs: Vec<Wrong>,
}

struct Producer {
    number: u32,
    queue: Queue,
    next: Option<Nanos>,
    claimed: u64,
    outstanding: u32,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum LaneState {
    /// Busy until then.
    Busy(Nanos),
    Off,
    Resting(Option<Nanos>),
    Stopped,
}

/// Messages of one append whose producer waits.
struct Waiting {
    ticket: Ticket,
    sent: Vec<Sent>,
    producer: usize,
    promised: AckAt,
    deadline: Option<Nanos>,
}

const LANES: [Lane; 2] = [Lane::Commit, Lane::Flush];

impl<'p> World<'p> {
    pub(crate) fn new(
        plan: &'p Plan,
        life: &'p Life,
        files: &'p SimFiles,
        log: SteppedLog,
        claimed: Vec<u64>,
    ) -> Self {
        let now = files.state().now;
        let answers = plan.strategy.machine();
        let mut random = Random::of(plan.seed, files.state().random.next_u64());
        let producer = |(number, claimed)| {
            let topic = plan.shape.topic(number);
            let queue = log.queue(&topic, plan.shape.queue_id(number)).expect("a topic");
            let pause = random.below(2 * life.pause.get() + 1);
            let next = Some(now.after(Nanos::new(pause)));
            Producer { number, queue, next, claimed, outstanding: 0 }
        };
        let producers = (0..plan.shape.producers).zip(claimed).map(producer).collect();
        let lane = |lane| match lane {
            Lane::Commit if !answers.uses(Lane::Commit) => LaneState::Off,
            Lane::Commit | Lane::Flush => LaneState::Resting(Some(now)),
        };
        let fails = |fault: &Fault| match fault {
            Fault::WriteBack { after } => Some(now.after(*after)),
            Fault::Call { .. } => None,
        };
        let flushed = log.marks().flushed();
        Self {
            lanes: LANES.map(lane),
            waiting: Vec::new(),
            allocate_at: Some(now.after(plan.timing.allocate)),
            keep_at: now.after(plan.keep_every),
            write_back_fails_at: life.faults.iter().filter_map(fails).collect(),
            issued: 0,
            flushed,
            segment: flushed.get() / plan.segment_bytes,
            appends: 0,
            poison: None,
            draining: false,
            wrongs: Vec::new(),
            began: now,
            plan,
            life,
            files,
            log,
            answers,
            random,
            now,
            producers,
        }
    }

    /// Lets the life pass, up to its end.
    pub(crate) fn run(&mut self) {
        for _ in 0..MOST_EVENTS {
            let next = self.next_time();
            let done = self.appends >= self.life.appends || self.poison.is_some();
            if done && self.producers.iter().any(|producer| producer.next.is_some()) {
                self.producers.iter_mut().for_each(|producer| producer.next = None);
                self.began = self.now;
                continue;
            }
            let idle = self.producers.iter().all(|producer| producer.next.is_none());
            let end = self.began.after(self.life.rest);
            if done && idle && next.is_none_or(|next| end < next) {
                self.pass_to(end);
                return self.drain();
            }
            let Some(next) = next else { return self.drain() };
            self.pass_to(next);
            self.act();
        }
        self.wrongs.push(Wrong::Hangs);
    }

    /// Lets the lanes end what they have to, if the log is closed.
    fn drain(&mut self) {
        if !self.life.closes {
            return;
        }
        self.producers.iter_mut().for_each(|producer| producer.next = None);
        self.log.drain();
        self.draining = true;
        for lane in 0..LANES.len() {
            self.wake(lane);
        }
        for _ in 0..MOST_EVENTS {
            let lanes = self.lanes.iter();
            if lanes.clone().all(|lane| matches!(lane, LaneState::Off | LaneState::Stopped)) {
                return;
            }
            let Some(next) = lanes.filter_map(|lane| lane.time()).min() else { break };
            self.pass_to(next.max(self.now));
            self.act();
        }
        self.wrongs.push(Wrong::Hangs);
    }

    fn next_time(&self) -> Option<Nanos> {
        let producers = self.producers.iter().filter_map(|producer| producer.next);
        let lanes = self.lanes.iter().filter_map(|lane| lane.time());
        let deadlines = self.waiting.iter().filter_map(|waiting| waiting.deadline);
        let fails = self.write_back_fails_at.iter().copied();
        let all = producers.chain(lanes).chain(deadlines).chain(fails).chain(self.allocate_at);
        all.chain([self.keep_at]).min()
    }

    fn pass_to(&mut self, time: Nanos) {
        self.now = self.now.max(time);
        self.files.state().now = self.now;
    }

    /// Does all that is due now.
    fn act(&mut self) {
        for lane in 0..LANES.len() {
            match self.lanes[lane] {
                LaneState::Busy(until) if until <= self.now => self.finish(lane),
                LaneState::Resting(Some(until)) if until <= self.now => self.begin(lane),
                _ => {}
            }
        }
        self.settle();
        let due = |fails: &mut Nanos| *fails <= self.now;
        for _ in self.write_back_fails_at.extract_if(.., due) {
            lose(self.files, &mut self.random);
        }
        if self.allocate_at.is_some_and(|at| at <= self.now) {
            self.allocate_at = None;
            self.log.allocate();
        }
        if self.keep_at <= self.now && !self.draining {
            self.log.keep();
            self.keep_at = self.now.after(self.plan.keep_every);
        }
        for producer in 0..self.producers.len() {
            if self.producers[producer].next.is_some_and(|next| next <= self.now) {
                self.produce(producer);
            }
        }
    }

    fn wake(&mut self, lane: usize) {
        if matches!(self.lanes[lane], LaneState::Resting(_)) {
            self.begin(lane);
        }
    }

    fn begin(&mut self, lane: usize) {
        self.lanes[lane] = match self.log.begin(LANES[lane]) {
            Step::Idle => LaneState::Resting(None),
            Step::Sleep(until) => LaneState::Resting(Some(until)),
            Step::Stop => LaneState::Stopped,
            Step::Committed => LaneState::Busy(self.now.after(self.plan.timing.commit)),
            Step::Syncing => {
                self.files.tell(Told::SyncBegan);
                let marks = self.log.marks();
                let bytes = marks.committed().get().saturating_sub(marks.flushed().get());
                let time = self.plan.timing.sync(bytes, &mut self.random);
                self.issued = self.files.state().disk.changes();
                LaneState::Busy(self.now.after(time))
            }
        };
    }

    fn finish(&mut self, lane: usize) {
        if LANES[lane] == Lane::Flush {
            self.files.state().issued = Some(self.issued);
        }
        let succeeded = self.log.finish(LANES[lane]);
        self.files.state().issued = None;
        if LANES[lane] == Lane::Flush {
            self.files.tell(Told::SyncEnded);
        }
        let flushed = self.log.marks().flushed();
        if self.flushed < flushed {
            self.flushed = flushed;
            self.files.tell(Told::Flushed(flushed));
        }
        if !succeeded {
            self.files.tell(Told::Poisoned);
        }
        self.lanes[lane] = LaneState::Resting(None);
        self.begin(lane);
        if LANES[lane] == Lane::Commit && self.answers.wakes(Lane::Flush, Event::Committed) {
            self.wake(1);
        }
    }

    /// The errors by now that poison a log.
    fn fired(&self) -> Vec<Errno> {
        let state = self.files.state();
        let fired = state.faults.fired.iter();
        let poisons =
            fired.filter(|(call, _)| matches!(call, Call::Change | Call::Sync | Call::Write));
        poisons.map(|(_, errno)| *errno).collect()
    }

    /// Tells producers what is known now.
    fn settle(&mut self) {
        let mut index = 0;
        while index < self.waiting.len() {
            let waiting = &self.waiting[index];
            let outcome = waiting.ticket.outcome();
            let is_due = waiting.deadline.is_some_and(|deadline| deadline <= self.now);
            match outcome {
                None if is_due => self.wrongs.push(Wrong::LateDeadline),
                None => {
                    index += 1;
                    continue;
                }
                Some(outcome) => self.answer(index, outcome, is_due),
            }
            let waiting = self.waiting.remove(index);
            let producer = &mut self.producers[waiting.producer];
            producer.outstanding -= 1;
            if producer.next.is_none() && !self.draining {
                producer.next = Some(self.now.after(pause(self.life, &mut self.random)));
            }
        }
    }

    fn answer(&mut self, index: usize, outcome: Result<Appended, AckError>, is_due: bool) {
        let waiting = &self.waiting[index];
        match outcome {
            Ok(_) => {
                for sent in &waiting.sent {
                    self.files.tell(Told::Acked(*sent, waiting.promised));
                }
            }
            Err(AckError::Poisoned(poison)) => self.poisoned(poison),
            Err(AckError::FlushTimedOut) if is_due => {}
            Err(error) => self.wrongs.push(Wrong::Answer(error)),
        }
    }

    /// The log says that it is poisoned: with its first error, which was injected.
    fn poisoned(&mut self, poison: Poison) {
        if self.poison.is_none() {
            // An append that failed poisons too.
            self.files.tell(Told::Poisoned);
            let Error { op: _, path: _, source } = poison.first;
            if !self.fired().contains(&source) {
                self.wrongs.push(Wrong::Poison(poison.clone()));
            }
        }
        let first = self.poison.get_or_insert_with(|| poison.clone());
        if *first != poison {
            self.wrongs.push(Wrong::Poison(poison));
        }
    }

    fn produce(&mut self, index: usize) {
        let is_batch = self.random.chance(self.life.batch_in_thousand);
        let waits = self.random.chance(self.life.wait_in_thousand);
        let wait = if waits { Wait::Yes } else { Wait::No };
        // As many as fit the smallest segment.
        let most = 3600 / (u64::from(self.plan.shape.max_body) + 190);
        let count = if is_batch { self.random.between(1, most.min(4)) } else { 1 };
        let producer = &mut self.producers[index];
        let number = producer.number;
        let first = producer.claimed;
        producer.claimed += count;
        let sent: Vec<_> =
            (first..first + count).map(|index| Sent { producer: number, index }).collect();
        for sent in &sent {
            self.files.tell(Told::Claimed(*sent));
        }
        self.appends += 1;
        let placed = if is_batch {
            self.append_batch(index, &sent, wait)
        } else {
            self.append(index, sent[0], wait)
        };
        match placed {
            Ok((ticket, at)) => self.placed(index, ticket, (sent, at), wait),
            Err(error) => self.refused(sent, error),
        }
        let burst = self.random.chance(self.life.burst_in_thousand);
        let pause = if burst { Nanos::default() } else { pause(self.life, &mut self.random) };
        let producer = &mut self.producers[index];
        let may = producer.outstanding < self.life.outstanding;
        producer.next = may.then(|| self.now.after(pause));
    }

    fn append(
        &self,
        index: usize,
        sent: Sent,
        wait: Wait,
    ) -> Result<(Ticket, Vec<Appended>), AppendError> {
        let body = self.plan.shape.body(sent);
        let message = Message { body: &body, ..Message::default() };
        let ticket = self.log.append(&self.producers[index].queue, &message, wait)?;
        let appended = ticket.appended();
        Ok((ticket, vec![appended]))
    }

    fn append_batch(
        &self,
        index: usize,
        sent: &[Sent],
        wait: Wait,
    ) -> Result<(Ticket, Vec<Appended>), AppendError> {
        let mut bytes = Vec::new();
        for sent in sent {
            let body = self.plan.shape.body(*sent);
            let member = BatchMember { flag: 0, properties: b"", body: &body };
            let at = bytes.len();
            bytes.resize(at + member.encoded_len(), 0);
            member.encode(&mut bytes[at..])?;
        }
        let batch = Batch::new(&bytes)?;
        let queue = &self.producers[index].queue;
        let stored = self.log.append_batch(queue, &Message::default(), &batch, wait)?;
        let all = stored.ticket.appended();
        let ends = stored.offsets.iter().skip(1).copied().chain([all.end()]);
        let places = stored.offsets.iter().zip(ends).zip(0..).map(|((at, end), index)| Appended {
            offset: *at,
            len: u32::try_from(end.since(*at)).unwrap_or(0),
            queue_offset: QueueOffset::new(all.queue_offset.get() + index),
            store_timestamp: all.store_timestamp,
        });
        let places = places.collect();
        Ok((stored.ticket, places))
    }

    fn placed(
        &mut self,
        producer: usize,
        ticket: Ticket,
        (sent, places): (Vec<Sent>, Vec<Appended>),
        wait: Wait,
    ) {
        for (sent, appended) in sent.iter().zip(&places) {
            self.files.tell(Told::Placed(*sent, *appended));
        }
        let segment = ticket.appended().offset.get() / self.plan.segment_bytes;
        // The first append takes the first segment, each roll the next.
        if self.segment != segment || self.log.appended() <= store_core::length_u64(sent.len()) {
            self.segment = segment;
            self.want_segment();
        }
        let promised = self.answers.ack(wait);
        if promised < AckAt::Flushed && ticket.outcome().is_none() {
            self.wrongs.push(Wrong::LateAnswer);
        }
        let deadline = self.answers.timeout().map(|timeout| self.now.after(timeout));
        self.producers[producer].outstanding += 1;
        self.waiting.push(Waiting { ticket, sent, producer, promised, deadline });
        self.settle();
        for (index, lane) in LANES.into_iter().enumerate() {
            if self.answers.wakes(lane, Event::Appended(wait)) {
                self.wake(index);
            }
        }
    }

    fn refused(&mut self, sent: Vec<Sent>, error: AppendError) {
        for sent in sent {
            self.files.tell(Told::Refused(sent));
        }
        match error {
            AppendError::SegmentNotReady => self.want_segment(),
            AppendError::Segment(error) => {
                // Not always the same error: a file that could not be removed is in the way.
                if self.files.state().faults.fired.is_empty() {
                    self.wrongs.push(Wrong::Append(AppendError::Segment(error)));
                }
                self.want_segment();
            }
            AppendError::StagingFull => self.wake(0),
            AppendError::Poisoned(poison) => self.poisoned(poison),
            error => self.wrongs.push(Wrong::Append(error)),
        }
    }

    fn want_segment(&mut self) {
        let at = self.now.after(self.plan.timing.allocate);
        self.allocate_at.get_or_insert(at);
    }
}

impl LaneState {
    fn time(self) -> Option<Nanos> {
        match self {
            Self::Busy(until) => Some(until),
            Self::Off | Self::Stopped => None,
            Self::Resting(until) => until,
        }
    }
}

/// Some pause of a producer: short ones mostly, now and then a long one.
fn pause(life: &Life, random: &mut Random) -> Nanos {
    let mean = life.pause.get();
    let factor = if random.chance(50) { 10 } else { 1 };
    Nanos::new(1 + random.below(2 * mean * factor + 1))
}

/// Writing back something of some file fails.
fn lose(files: &SimFiles, random: &mut Random) {
    let mut state = files.state();
    let dirty: Vec<_> = state.disk.dirty_files().collect();
    if dirty.is_empty() {
        return;
    }
    let file = *random.pick(&dirty);
    let pages = store_core::length_u64(state.disk.bytes(file).len()).div_ceil(4096);
    let (one, other) = (random.below(pages + 1) * 4096, random.below(pages + 1) * 4096);
    let bytes = if random.chance(500) { 0..1 << 62 } else { one.min(other)..one.max(other) };
    state.change(Change::Lost { file, bytes });
}

/// More than any life has.
const MOST_EVENTS: u32 = 200_000;
