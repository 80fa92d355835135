//! A virtual clock, a fake device and a driver, to run a flush strategy without waiting.
//!
//! [`Sim`] plays what `store-os` plays with threads. It also holds the strategy to its contract and
//! panics when it sleeps into the past, acts on nothing, acts while an action is under way, or says
//! that a drain is done when it is not. No call takes real time and no result depends on it.
#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::mem;

use store_core::{
    AckAt, Action, Event, FlushStrategy, Lane, LogOffset, Nanos, Observed, Placement, SegmentSize,
    Wait, Watermarks, length_u64, place,
};

mod driver;
mod random;

use driver::{Driver, State};
pub use random::{Random, check_random_loads};

/// What the fake device costs.
#[derive(Clone, Copy, Debug)]
pub struct Device {
    /// How long a commit takes.
    pub commit: Nanos,
    /// How large the log's segments are.
    pub segment: SegmentSize,
    /// How long a sync takes.
    pub sync: Nanos,
}

impl Device {
    /// A device that commits at once and syncs in `sync`, under segments of RocketMQ's size.
    pub const fn with_sync(sync: Nanos) -> Self {
        Self { commit: Nanos::new(0), segment: SegmentSize::ROCKETMQ_DEFAULT, sync }
    }
}

/// One appended record and when each mark passed its end.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// When it was written.
    pub appended: Nanos,
    /// When the page cache had it.
    pub committed: Option<Nanos>,
    /// The offset behind its last byte.
    pub end: LogOffset,
    /// When it was durable.
    pub flushed: Option<Nanos>,
    /// Whether its producer waits.
    pub wait: Wait,
}

/// A log, its producers, its device and the drivers of both lanes, under one virtual clock.
///
/// Appends are staged if the strategy uses the commit lane; otherwise they commit themselves.
/// Schedule appends with [`append`](Self::append) or [`load`](Self::load), let time pass with
/// [`run_until`](Self::run_until), end with [`drain`](Self::drain).
#[derive(Debug)]
pub struct Sim<S> {
    strategy: S,
    device: Device,
    nosy_every: Option<Nanos>,
    now: Nanos,
    marks: Watermarks,
    arrivals: VecDeque<Arrival>,
    records: Vec<Record>,
    committed_count: usize,
    flushed_count: usize,
    commit: Driver,
    flush: Driver,
    draining: bool,
}

impl<S: FlushStrategy> Sim<S> {
    /// An empty log at time zero.
    pub fn new(strategy: S, device: Device) -> Self {
        Self {
            strategy,
            device,
            nosy_every: None,
            now: Nanos::default(),
            marks: Watermarks::default(),
            arrivals: VecDeque::new(),
            records: Vec::new(),
            committed_count: 0,
            flushed_count: 0,
            commit: Driver::default(),
            flush: Driver::default(),
            draining: false,
        }
    }

    /// Polls both lanes also without a reason: at every event, under way or not, and every `every`.
    ///
    /// Such a poll takes `woken` with it, so a strategy that needs it later has to remember it.
    #[must_use]
    pub fn nosy(mut self, every: Nanos) -> Self {
        self.nosy_every = Some(every);
        self
    }

    /// Schedules one record of `len` bytes.
    pub fn append(&mut self, at: Nanos, len: u32, wait: Wait) {
        assert!(at >= self.now, "{at:?} is over, it is {:?}", self.now);
        let index = self.arrivals.partition_point(|other| other.at <= at);
        self.arrivals.insert(index, Arrival { at, len, wait });
    }

    /// Schedules a record of `len` bytes `every` so often, the first at `from`, none at `until`.
    ///
    /// An open loop: the next record comes whether or not the last was acknowledged.
    pub fn load(&mut self, from: Nanos, until: Nanos, every: Nanos, len: u32, wait: Wait) {
        let mut at = from;
        while at < until {
            self.append(at, len, wait);
            at = at.after(every);
        }
    }

    /// Lets time pass until `end`, and does all that happens up to and at it.
    pub fn run_until(&mut self, end: Nanos) {
        loop {
            self.settle();
            let Some(next) = self.next_time().filter(|next| *next <= end) else {
                break;
            };
            self.now = next;
        }
        self.now = end;
    }

    /// Shuts the log down: forgets what is still scheduled and runs until both lanes are done.
    pub fn drain(&mut self) {
        self.draining = true;
        self.arrivals.clear();
        for lane in Lane::ALL {
            let now = self.now;
            let driver = self.driver(lane);
            if let State::Resting { until } = &mut driver.state {
                *until = Some(now);
            }
        }
        self.settle();
        while self.commit.state != State::Done || self.flush.state != State::Done {
            assert!(self.next_event().is_some(), "the drain hangs");
            self.now = self.next_time().expect("there is an event");
            self.settle();
        }
    }

    /// The time.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// The log's marks.
    pub fn marks(&self) -> Watermarks {
        self.marks
    }

    /// All records appended so far, in the log's order.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// When each commit began and up to where it was to reach.
    pub fn commits(&self) -> Vec<(Nanos, u64)> {
        self.commit.steps.clone()
    }

    /// When each sync began and up to where it was to reach.
    pub fn syncs(&self) -> Vec<(Nanos, u64)> {
        self.flush.steps.clone()
    }

    /// How often `lane` was polled.
    pub fn polls(&self, lane: Lane) -> u64 {
        match lane {
            Lane::Commit => self.commit.polls,
            Lane::Flush => self.flush.polls,
        }
    }

    /// The longest time that a record waited, or waits still, to be committed.
    pub fn oldest_staged(&self) -> Nanos {
        self.oldest(|record| record.committed)
    }

    /// The longest time that a record waited, or waits still, to be flushed.
    pub fn oldest_unflushed(&self) -> Nanos {
        self.oldest(|record| record.flushed)
    }

    fn oldest(&self, end: impl Fn(&Record) -> Option<Nanos>) -> Nanos {
        let ages = self.records.iter().map(|record| {
            let end = end(record).unwrap_or(self.now);
            end.since(record.appended)
        });
        ages.max().unwrap_or_default()
    }

    /// Does everything that happens at this instant.
    fn settle(&mut self) {
        self.land_arrivals();
        if self.nosy_every.is_some() {
            for lane in Lane::ALL {
                self.poll(lane);
            }
        }
        while Lane::ALL.map(|lane| self.turn(lane)).contains(&true) {}
    }

    /// Ends the lane's action if it is over and polls if there is a reason; says whether it did.
    fn turn(&mut self, lane: Lane) -> bool {
        let ended = self.end_action(lane);
        let now = self.now;
        let driver = self.driver(lane);
        let is_due = match driver.state {
            State::Resting { until } => driver.woken || until.is_some_and(|until| until <= now),
            State::Done | State::UnderWay { .. } => false,
        };
        if is_due {
            self.poll(lane);
        }
        ended || is_due
    }

    fn poll(&mut self, lane: Lane) {
        let woken = mem::take(&mut self.driver(lane).woken);
        let seen = self.observe(woken);
        let now = self.now;
        let action = self.strategy.poll(lane, now, &seen);
        let device = self.device;
        let driver = self.driver(lane);
        driver.polls += 1;
        match driver.state {
            State::Done => return assert_eq!(action, Action::Done, "Done is for ever"),
            State::UnderWay { .. } => return assert_eq!(action, Action::Idle, "under way"),
            State::Resting { .. } => {}
        }
        let marks = seen.marks;
        driver.state = match action {
            Action::Commit(upto) => {
                assert_eq!(lane, Lane::Commit);
                assert!(marks.committed() < upto && upto <= marks.wrote());
                driver.begin(now, device.commit, upto)
            }
            Action::Done => {
                assert!(seen.draining, "done before the end");
                assert_eq!(marks.committed(), marks.wrote());
                assert!(lane == Lane::Commit || marks.flushed() == marks.wrote());
                State::Done
            }
            Action::Flush(upto) => {
                assert_eq!(lane, Lane::Flush);
                assert!(marks.flushed() < upto && upto <= marks.wrote());
                driver.begin(now, device.sync, upto)
            }
            Action::Idle => State::Resting { until: None },
            Action::Sleep(until) => {
                assert!(until > now, "sleeps until {until:?}, it is {now:?}");
                assert!(!seen.draining, "a drain waits for no time");
                State::Resting { until: Some(until) }
            }
        };
    }

    fn observe(&self, woken: bool) -> Observed {
        let waiters = self.records[self.flushed_count..].iter().filter(|record| {
            record.wait == Wait::Yes && self.strategy.ack(Wait::Yes) == AckAt::Flushed
        });
        let first = waiters.clone().next();
        Observed {
            marks: self.marks,
            segment_start: self.device.segment.start_of(self.marks.wrote()),
            wanted: waiters.clone().next_back().map_or(LogOffset::ZERO, |last| last.end),
            waiting: length_u64(waiters.count()),
            waiting_since: first.map(|first| first.appended),
            woken,
            draining: self.draining,
        }
    }

    fn land_arrivals(&mut self) {
        while let Some(Arrival { at, len, wait }) =
            self.arrivals.pop_front_if(|next| next.at <= self.now)
        {
            let placement = place(self.device.segment, self.marks.wrote(), len);
            let (Placement::Fits { at: start } | Placement::Roll { at: start, .. }) =
                placement.expect("the test's records fit its segments");
            let end = start.checked_add(len.into()).expect("the test's log is short");
            self.records.push(Record { appended: at, committed: None, end, flushed: None, wait });
            let committed =
                if self.strategy.uses(Lane::Commit) { self.marks.committed() } else { end };
            self.advance(Watermarks::new(end, committed, self.marks.flushed()));
            self.wake(Event::Appended(wait));
        }
    }

    fn end_action(&mut self, lane: Lane) -> bool {
        let now = self.now;
        let driver = self.driver(lane);
        let upto = match driver.state {
            State::UnderWay { upto, ends } if ends <= now => upto,
            _ => return false,
        };
        driver.state = State::Resting { until: Some(now) };
        let committed = self.marks.committed().max(upto);
        let flushed = match lane {
            Lane::Commit => self.marks.flushed(),
            Lane::Flush => upto,
        };
        self.advance(Watermarks::new(self.marks.wrote(), committed, flushed));
        if lane == Lane::Commit {
            self.wake(Event::Committed);
        }
        let seen = self.observe(false);
        self.strategy.on_done(lane, now, &seen);
        true
    }

    fn advance(&mut self, marks: Watermarks) {
        self.marks = marks;
        for record in &mut self.records[self.committed_count..] {
            if record.end <= marks.committed() {
                record.committed = Some(self.now);
                self.committed_count += 1;
            }
        }
        for record in &mut self.records[self.flushed_count..] {
            if record.end <= marks.flushed() {
                record.flushed = Some(self.now);
                self.flushed_count += 1;
            }
        }
    }

    fn wake(&mut self, event: Event) {
        for lane in Lane::ALL {
            let wakes = self.strategy.wakes(lane, event);
            self.driver(lane).woken |= wakes;
        }
    }

    fn next_time(&self) -> Option<Nanos> {
        let nosy = self.nosy_every.map(|every| self.now.after(every));
        [self.next_event(), nosy].into_iter().flatten().min()
    }

    fn next_event(&self) -> Option<Nanos> {
        let arrival = self.arrivals.front().map(|next| next.at);
        let lanes = [&self.commit, &self.flush].map(|driver| match driver.state {
            State::Done => None,
            State::Resting { until } => until,
            State::UnderWay { ends, .. } => Some(ends),
        });
        [arrival].into_iter().chain(lanes).flatten().min()
    }

    fn driver(&mut self, lane: Lane) -> &mut Driver {
        match lane {
            Lane::Commit => &mut self.commit,
            Lane::Flush => &mut self.flush,
        }
    }
}

/// `millis` milliseconds.
pub const fn ms(millis: u64) -> Nanos {
    Nanos::from_millis(millis)
}

#[derive(Clone, Copy, Debug)]
struct Arrival {
    at: Nanos,
    len: u32,
    wait: Wait,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives one answer, whatever it is shown.
    #[derive(Debug)]
    struct Stubborn(Action);

    impl FlushStrategy for Stubborn {
        fn ack(&self, _: Wait) -> AckAt {
            AckAt::Flushed
        }

        fn wakes(&self, _: Lane, _: Event) -> bool {
            true
        }

        fn timeout(&self) -> Option<Nanos> {
            None
        }

        fn uses(&self, lane: Lane) -> bool {
            lane == Lane::Flush
        }

        fn poll(&mut self, lane: Lane, _: Nanos, _: &Observed) -> Action {
            match lane {
                Lane::Commit => Action::Idle,
                Lane::Flush => self.0,
            }
        }

        fn on_done(&mut self, _: Lane, _: Nanos, _: &Observed) {}
    }

    fn with_one_record(answer: Action) -> Sim<Stubborn> {
        let mut sim = Sim::new(Stubborn(answer), Device::with_sync(ms(10)));
        sim.append(ms(0), 100, Wait::Yes);
        sim
    }

    #[test]
    fn a_sync_takes_its_time_and_moves_the_mark_at_its_end() {
        let mut sim = with_one_record(Action::Flush(LogOffset::new(100)));
        sim.run_until(ms(9));
        assert_eq!(sim.marks().flushed(), LogOffset::ZERO);
        assert_eq!(sim.oldest_unflushed(), ms(9));
        assert_eq!(sim.syncs(), [(ms(0), 100)]);
    }

    #[test]
    #[should_panic(expected = "marks.flushed() < upto")]
    fn a_sync_of_nothing_is_found_out() {
        with_one_record(Action::Flush(LogOffset::new(100))).run_until(ms(10));
    }

    #[test]
    #[should_panic(expected = "sleeps until Nanos(0)")]
    fn a_sleep_that_is_over_is_found_out() {
        with_one_record(Action::Sleep(ms(0))).run_until(ms(1));
    }

    #[test]
    #[should_panic(expected = "under way")]
    fn a_second_action_beside_the_first_is_found_out() {
        let mut sim = with_one_record(Action::Flush(LogOffset::new(100))).nosy(ms(1));
        sim.run_until(ms(1));
    }

    #[test]
    #[should_panic(expected = "the drain hangs")]
    fn a_drain_that_hangs_is_found_out() {
        with_one_record(Action::Idle).drain();
    }

    #[test]
    #[should_panic(expected = "done before the end")]
    fn an_early_end_is_found_out() {
        with_one_record(Action::Done).run_until(ms(1));
    }
}
