//! One sync serves all who wait by then: RocketMQ's `SYNC_FLUSH`, class `GroupCommitService`.
//!
//! A producer is told "ok" when a successful sync covers its record. All who come while one sync
//! runs share the next, so the rate grows with the number of producers although each of them still
//! waits for the device: at most for the sync under way and for its own.
//!
//! # What RocketMQ does otherwise
//!
//! - It goes through its requests one by one, and tries a request again each millisecond, up to
//!   1000 times. Here a mark decides, and a failed sync is final.
//! - A wake can get lost there, so it flushes every 10 ms unasked. Here the driver keeps the wake
//!   ([`Observed::woken`]), and an idle log is left alone.
//! - It knows no gathering. That is `PostgreSQL`'s `commit_delay`; see [`Config::gather`].
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

use core::fmt;

use store_core::{AckAt, Action, Event, FlushStrategy, Lane, LogOffset, Nanos, Observed, Wait};

/// Flushes as soon as anyone asks, for all who asked by then.
///
/// Calls come in the order that [`FlushStrategy`] gives: [`poll`](FlushStrategy::poll), the action,
/// [`on_done`](FlushStrategy::on_done). Polls may be repeated at will; time must not run back. Only
/// the flush lane is used: appends go to the page cache, or [`Action::Flush`] commits them first.
///
/// # Examples
///
/// ```
/// use group_commit::GroupCommit;
/// use store_core::{Action, FlushStrategy, Lane, LogOffset, Nanos, Observed, Watermarks};
///
/// let mut strategy = GroupCommit::default();
/// let end = LogOffset::new(300);
/// let mut seen = Observed {
///     marks: Watermarks::new(end, end, LogOffset::ZERO),
///     wanted: end,
///     waiting: 3,
///     ..Observed::default()
/// };
/// assert_eq!(strategy.poll(Lane::Flush, Nanos::new(0), &seen), Action::Flush(end));
///
/// // The driver syncs; then it moves the mark and tells the strategy.
/// seen.marks = Watermarks::new(end, end, end);
/// strategy.on_done(Lane::Flush, Nanos::from_millis(2), &seen);
/// assert_eq!(strategy.poll(Lane::Flush, Nanos::from_millis(2), &seen), Action::Idle);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct GroupCommit {
    config: Config,
    /// The log's end when the flush lane was last woken: up to there somebody asked for a sync.
    asked: LogOffset,
    in_flight: bool,
}

impl GroupCommit {
    /// A strategy that nobody has asked for anything yet.
    ///
    /// # Errors
    ///
    /// If every append would time out under `config`.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        let Config { timeout, gather, .. } = config;
        if timeout == Nanos::new(0) {
            return Err(ConfigError::ZeroTimeout);
        }
        if gather >= timeout {
            return Err(ConfigError::GatherReachesTimeout { gather, timeout });
        }
        Ok(Self { config, ..Self::default() })
    }

    fn poll_flush(&mut self, now: Nanos, seen: &Observed) -> Action {
        let marks = seen.marks;
        if seen.woken {
            self.asked = marks.wrote();
        }
        if self.in_flight {
            return Action::Idle;
        }
        if marks.flushed() == marks.wrote() {
            return idle_or_done(seen);
        }
        if !seen.draining {
            if seen.wanted.max(self.asked) <= marks.flushed() {
                return Action::Idle;
            }
            if let Some(until) = self.gather_end(seen).filter(|until| *until > now) {
                return Action::Sleep(until);
            }
        }
        self.in_flight = true;
        Action::Flush(marks.wrote())
    }

    /// Until when to gather, if enough producers wait; that may be over already.
    fn gather_end(&self, seen: &Observed) -> Option<Nanos> {
        let Config { gather, siblings, .. } = self.config;
        let enough = seen.waiting >= siblings.max(2);
        seen.waiting_since.filter(|_| enough).map(|since| since.after(gather))
    }
}

impl FlushStrategy for GroupCommit {
    /// A producer that waits is told when its record is flushed, any other when the page cache has
    /// it: RocketMQ's `WAIT=false` survives a crash of the process too.
    fn ack(&self, wait: Wait) -> AckAt {
        match wait {
            Wait::No => AckAt::Committed,
            Wait::Yes => AckAt::Flushed,
        }
    }

    /// Every append wakes the flush lane, also one that nobody waits for.
    fn wakes(&self, lane: Lane, event: Event) -> bool {
        lane == Lane::Flush && matches!(event, Event::Appended(_))
    }

    /// [`Config::timeout`].
    fn timeout(&self) -> Option<Nanos> {
        Some(self.config.timeout)
    }

    /// The flush lane only.
    fn uses(&self, lane: Lane) -> bool {
        lane == Lane::Flush
    }

    fn poll(&mut self, lane: Lane, now: Nanos, seen: &Observed) -> Action {
        match lane {
            Lane::Commit => idle_or_done(seen),
            Lane::Flush => self.poll_flush(now, seen),
        }
    }

    fn on_done(&mut self, _lane: Lane, _now: Nanos, _seen: &Observed) {
        self.in_flight = false;
    }
}

/// How long producers wait, for the device and for each other.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Config {
    /// How long a producer waits at most before it is told that the flush timed out
    /// (`syncFlushTimeout`). Default 5000 ms.
    pub timeout: Nanos,
    /// How long after the first waiter came a sync is held back so that more can join it
    /// (`wait_us`; `PostgreSQL`'s `commit_delay`). Default 0: not at all.
    ///
    /// It counts from when the first waiter came, so a sync that takes longer than this leaves
    /// nothing to gather behind it. `PostgreSQL` counts from when the leader is free to flush.
    pub gather: Nanos,
    /// The fewest producers that must wait for a sync to be held back (`PostgreSQL`'s
    /// `commit_siblings`, which does not count the leader). Default 5.
    ///
    /// Below 2 means 2: a lone producer never waits for others.
    pub siblings: u64,
}

impl Default for Config {
    /// RocketMQ's timeout and `PostgreSQL`'s gathering, which is off.
    fn default() -> Self {
        Self { timeout: Nanos::from_millis(5000), gather: Nanos::new(0), siblings: 5 }
    }
}

/// A configuration under which every append would time out.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum ConfigError {
    /// Producers that gather would give up before their sync begins.
    GatherReachesTimeout {
        /// [`Config::gather`] as given.
        gather: Nanos,
        /// [`Config::timeout`] as given.
        timeout: Nanos,
    },
    /// Producers would give up at once.
    ZeroTimeout,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::GatherReachesTimeout { gather, timeout } => write!(
                f,
                "gathering for {} ns leaves no time for a sync before the timeout of {} ns",
                gather.get(),
                timeout.get()
            ),
            Self::ZeroTimeout => f.write_str("a timeout of 0 leaves no time for a sync"),
        }
    }
}

impl core::error::Error for ConfigError {}

fn idle_or_done(seen: &Observed) -> Action {
    if seen.draining { Action::Done } else { Action::Idle }
}

#[cfg(test)]
mod tests {
    use core::fmt::Write as _;
    use std::format;
    use std::string::{String, ToString as _};

    use flusher_sim::{Device, Sim, check_random_loads, ms};
    use store_core::{Watermarks, length_u64};

    use super::*;

    fn gathering(gather: Nanos, siblings: u64) -> GroupCommit {
        GroupCommit::new(Config { gather, siblings, ..Config::default() }).unwrap()
    }

    fn sim(strategy: GroupCommit) -> Sim<GroupCommit> {
        Sim::new(strategy, Device::with_sync(ms(10)))
    }

    fn marks(wrote: u64, flushed: u64) -> Watermarks {
        let at = LogOffset::new;
        Watermarks::new(at(wrote), at(wrote), at(flushed))
    }

    #[test]
    fn the_defaults_are_those_of_rocketmq_and_postgresql() {
        let config = Config::default();
        assert_eq!(config.timeout, ms(5000));
        assert_eq!(config.gather, ms(0));
        assert_eq!(config.siblings, 5);
        assert_eq!(GroupCommit::default().config, config);
        assert_eq!(GroupCommit::new(config).unwrap().config, config);
    }

    #[test]
    fn a_config_under_which_every_append_times_out_is_refused() {
        let new = |timeout, gather| {
            let config = Config { timeout, gather, ..Config::default() };
            GroupCommit::new(config).map(|strategy| strategy.config.timeout)
        };
        assert_eq!(new(ms(0), ms(0)), Err(ConfigError::ZeroTimeout));
        assert_eq!(new(ms(2), ms(1)), Ok(ms(2)));
        let error = new(ms(2), ms(2)).unwrap_err();
        let (gather, timeout) = (ms(2), ms(2));
        assert_eq!(error, ConfigError::GatherReachesTimeout { gather, timeout });
        assert_eq!(
            error.to_string(),
            "gathering for 2000000 ns leaves no time for a sync before the timeout of 2000000 ns"
        );
        assert_eq!(
            ConfigError::ZeroTimeout.to_string(),
            "a timeout of 0 leaves no time for a sync"
        );
    }

    #[test]
    fn who_waits_is_told_when_flushed_and_any_other_at_once() {
        let strategy = GroupCommit::default();
        assert_eq!(strategy.ack(Wait::Yes), AckAt::Flushed);
        assert_eq!(strategy.ack(Wait::No), AckAt::Committed);
        assert_eq!(strategy.timeout(), Some(ms(5000)));
    }

    #[test]
    fn appends_wake_the_flush_lane_and_nothing_else_does() {
        let strategy = GroupCommit::default();
        for wait in [Wait::No, Wait::Yes] {
            assert!(strategy.wakes(Lane::Flush, Event::Appended(wait)));
            assert!(!strategy.wakes(Lane::Commit, Event::Appended(wait)));
        }
        for lane in Lane::ALL {
            assert!(!strategy.wakes(lane, Event::Committed));
        }
    }

    #[test]
    fn the_commit_lane_has_nothing_to_do() {
        let mut strategy = GroupCommit::default();
        assert!(strategy.uses(Lane::Flush));
        assert!(!strategy.uses(Lane::Commit));
        let mut seen =
            Observed { marks: marks(100, 0), wanted: LogOffset::new(100), ..Observed::default() };
        assert_eq!(strategy.poll(Lane::Commit, ms(0), &seen), Action::Idle);
        seen.draining = true;
        assert_eq!(strategy.poll(Lane::Commit, ms(0), &seen), Action::Done);
    }

    #[test]
    fn a_lone_producer_is_flushed_at_once() {
        let mut sim = sim(GroupCommit::default());
        sim.append(ms(3), 100, Wait::Yes);
        sim.run_until(ms(1000));
        assert_eq!(sim.syncs(), [(ms(3), 100)]);
        assert_eq!(sim.oldest_unflushed(), ms(10));
    }

    #[test]
    fn all_who_come_during_a_sync_share_the_next() {
        let mut sim = sim(GroupCommit::default());
        for at in [0, 1, 5, 9] {
            sim.append(ms(at), 100, Wait::Yes);
        }
        sim.run_until(ms(1000));
        assert_eq!(sim.syncs(), [(ms(0), 100), (ms(10), 400)]);
    }

    #[test]
    fn a_producer_that_does_not_wait_is_flushed_too() {
        let mut sim = sim(GroupCommit::default());
        sim.append(ms(3), 100, Wait::No);
        sim.run_until(ms(1000));
        assert_eq!(sim.syncs(), [(ms(3), 100)]);
    }

    #[test]
    fn a_wake_during_a_sync_is_not_forgotten() {
        for nosy in [false, true] {
            let mut sim = sim(GroupCommit::default());
            if nosy {
                sim = sim.nosy(ms(1));
            }
            sim.append(ms(0), 100, Wait::Yes);
            sim.append(ms(4), 100, Wait::No);
            sim.run_until(ms(1000));
            assert_eq!(sim.syncs(), [(ms(0), 100), (ms(10), 200)], "nosy: {nosy}");
        }
    }

    #[test]
    fn bytes_that_nobody_asked_for_are_left_alone() {
        let seen =
            Observed { marks: marks(200, 100), wanted: LogOffset::new(100), ..Observed::default() };
        let mut strategy = GroupCommit::default();
        assert_eq!(strategy.poll(Lane::Flush, ms(0), &seen), Action::Idle);
    }

    #[test]
    fn a_wake_that_a_sync_has_covered_asks_for_nothing_more() {
        let mut strategy = GroupCommit::default();
        let mut seen = Observed { marks: marks(100, 0), woken: true, ..Observed::default() };
        let everything = Action::Flush(LogOffset::new(100));
        assert_eq!(strategy.poll(Lane::Flush, ms(0), &seen), everything);
        assert_eq!(strategy.poll(Lane::Flush, ms(1), &seen), Action::Idle);
        seen.marks = marks(150, 100);
        seen.woken = false;
        strategy.on_done(Lane::Flush, ms(2), &seen);
        assert_eq!(strategy.poll(Lane::Flush, ms(2), &seen), Action::Idle);
    }

    #[test]
    fn a_producer_whose_bytes_are_not_in_the_log_yet_causes_no_empty_sync() {
        let seen = Observed {
            marks: marks(100, 100),
            wanted: LogOffset::new(200),
            waiting: 1,
            waiting_since: Some(ms(0)),
            woken: true,
            ..Observed::default()
        };
        let mut strategy = GroupCommit::default();
        assert_eq!(strategy.poll(Lane::Flush, ms(0), &seen), Action::Idle);
    }

    #[test]
    fn many_gather_until_the_first_has_waited_that_long() {
        let mut sim = sim(gathering(ms(5), 3));
        sim.append(ms(0), 100, Wait::Yes);
        // The sync of the first ends at 10; by then three wait, the first of them since 8.
        for at in [8, 9, 9, 12] {
            sim.append(ms(at), 100, Wait::Yes);
        }
        sim.run_until(ms(1000));
        assert_eq!(sim.syncs(), [(ms(0), 100), (ms(13), 500)]);
    }

    #[test]
    fn fewer_than_the_siblings_do_not_gather() {
        let mut sim = sim(gathering(ms(5), 3));
        for at in [0, 8, 9] {
            sim.append(ms(at), 100, Wait::Yes);
        }
        sim.run_until(ms(1000));
        assert_eq!(sim.syncs(), [(ms(0), 100), (ms(10), 300)]);
    }

    #[test]
    fn a_lone_producer_never_gathers() {
        for siblings in [0, 1, 2] {
            let mut sim = sim(gathering(ms(5), siblings));
            sim.append(ms(0), 100, Wait::Yes);
            sim.run_until(ms(1000));
            assert_eq!(sim.syncs(), [(ms(0), 100)], "siblings: {siblings}");
        }
    }

    #[test]
    fn those_who_do_not_wait_are_not_gathered_for() {
        let mut sim = sim(gathering(ms(5), 2));
        for at in [0, 9, 9, 9] {
            sim.append(ms(at), 100, Wait::No);
        }
        sim.run_until(ms(1000));
        assert_eq!(sim.syncs(), [(ms(0), 100), (ms(10), 400)]);
    }

    #[test]
    fn who_does_not_wait_does_not_cut_a_gather_short() {
        let mut sim = sim(gathering(ms(5), 2));
        for at in [0, 9, 9] {
            sim.append(ms(at), 100, Wait::Yes);
        }
        sim.append(ms(11), 100, Wait::No);
        sim.run_until(ms(1000));
        assert_eq!(sim.syncs(), [(ms(0), 100), (ms(14), 400)]);
    }

    #[test]
    fn a_sync_longer_than_the_gather_leaves_nothing_to_gather() {
        let mut sim = sim(gathering(ms(5), 2));
        for at in [0, 5, 6] {
            sim.append(ms(at), 100, Wait::Yes);
        }
        sim.run_until(ms(1000));
        assert_eq!(sim.syncs(), [(ms(0), 100), (ms(10), 300)]);
    }

    #[test]
    fn those_who_gave_up_are_flushed_without_a_gather() {
        let seen =
            Observed { marks: marks(100, 0), wanted: LogOffset::new(100), ..Observed::default() };
        let everything = Action::Flush(LogOffset::new(100));
        let mut strategy = gathering(ms(5), 0);
        assert_eq!(strategy.poll(Lane::Flush, ms(0), &seen), everything);
    }

    #[test]
    fn a_drain_flushes_what_nobody_asked_for() {
        let mut strategy = GroupCommit::default();
        let mut seen = Observed { marks: marks(100, 0), draining: true, ..Observed::default() };
        let everything = Action::Flush(LogOffset::new(100));
        assert_eq!(strategy.poll(Lane::Flush, ms(0), &seen), everything);
        assert_eq!(strategy.poll(Lane::Flush, ms(1), &seen), Action::Idle);
        seen.marks = marks(100, 100);
        strategy.on_done(Lane::Flush, ms(2), &seen);
        assert_eq!(strategy.poll(Lane::Flush, ms(2), &seen), Action::Done);
    }

    #[test]
    fn a_drain_during_a_sync_lets_it_end_and_takes_the_rest() {
        let mut sim = sim(GroupCommit::default());
        sim.append(ms(0), 100, Wait::Yes);
        sim.append(ms(4), 100, Wait::No);
        sim.run_until(ms(5));
        sim.drain();
        assert_eq!(sim.syncs(), [(ms(0), 100), (ms(10), 200)]);
        assert_eq!(sim.now(), ms(20));
    }

    #[test]
    fn a_drain_never_gathers() {
        let mut sim = sim(gathering(ms(1000), 2));
        for at in [0, 0, 0] {
            sim.append(ms(at), 100, Wait::Yes);
        }
        sim.run_until(ms(5));
        assert_eq!(sim.syncs(), []);
        sim.drain();
        assert_eq!(sim.syncs(), [(ms(5), 300)]);
    }

    #[test]
    fn an_idle_log_is_polled_once_and_never_synced() {
        let mut sim = sim(gathering(ms(5), 2));
        sim.run_until(ms(3_600_000));
        assert_eq!(sim.syncs(), []);
        assert_eq!(sim.polls(Lane::Flush), 1);
        sim.drain();
        assert_eq!(sim.now(), ms(3_600_000));
    }

    #[test]
    fn each_append_and_each_sync_costs_one_poll_at_most() {
        let mut sim = sim(GroupCommit::default());
        sim.load(ms(0), ms(1000), ms(3), 100, Wait::Yes);
        sim.run_until(ms(2000));
        let events = sim.records().len() + sim.syncs().len();
        assert!(sim.polls(Lane::Flush) <= 1 + length_u64(events));
    }

    #[test]
    fn nobody_is_flushed_later_than_a_sync_a_gather_and_a_sync_from_now() {
        for gather in [ms(0), ms(20)] {
            check_random_loads(&gathering(gather, 5), |sim, device| {
                let limit = device.sync.after(gather).after(device.sync);
                sim.oldest_unflushed() <= limit
            });
        }
    }

    #[test]
    fn who_waits_pays_for_a_gather_only_if_it_is_longer_than_the_sync_under_way() {
        let gather = ms(20);
        check_random_loads(&gathering(gather, 5), |sim, device| {
            let limit = device.sync.max(gather).after(device.sync);
            let mut waiting = sim.records().iter().filter(|it| it.wait == Wait::Yes);
            waiting.all(|it| it.flushed.unwrap_or(sim.now()).since(it.appended) <= limit)
        });
    }

    /// Mean records per sync over ten seconds of an open load, and the longest time to "ok".
    fn cell(strategy: GroupCommit, sync: Nanos, records_per_second: u64) -> String {
        let mut sim = Sim::new(strategy, Device::with_sync(sync));
        let every = Nanos::new(1_000_000_000 / records_per_second);
        sim.load(ms(0), ms(10_000), every, 1024, Wait::Yes);
        sim.run_until(ms(10_000));
        sim.drain();
        let syncs = sim.syncs().len();
        let tenths = (sim.records().len() * 10 + syncs / 2) / syncs;
        let longest_us = sim.oldest_unflushed().get() / 1000;
        format!("{}.{} in {longest_us} us", tenths / 10, tenths % 10)
    }

    #[track_caller]
    fn check_table(strategy: GroupCommit, expect: &str) {
        let rates = [100, 1000, 5000];
        let mut table = String::from("    sync");
        for rate in rates {
            write!(table, " |{:>17}", format!("{rate}/s")).unwrap();
        }
        for sync_us in [100, 1000, 10_000] {
            write!(table, "\n{sync_us:>5} us").unwrap();
            for rate in rates {
                let cell = cell(strategy, Nanos::from_micros(sync_us), rate);
                write!(table, " |{cell:>17}").unwrap();
            }
        }
        assert_eq!(table, expect, "\n{table}\n");
    }

    #[test]
    fn the_group_grows_with_the_load_and_with_the_latency() {
        let expect = "    sync |            100/s |           1000/s |           5000/s
  100 us |    1.0 in 100 us |    1.0 in 100 us |    1.0 in 100 us
 1000 us |   1.0 in 1000 us |   1.0 in 1000 us |   5.0 in 1800 us
10000 us |  1.0 in 10000 us | 10.0 in 19000 us | 50.0 in 19800 us";
        check_table(GroupCommit::default(), expect);
    }

    #[test]
    fn a_gather_makes_larger_groups_only_where_several_wait_within_it() {
        let expect = "    sync |            100/s |           1000/s |           5000/s
  100 us |    1.0 in 100 us |    1.0 in 100 us |    1.0 in 100 us
 1000 us |   1.0 in 1000 us |   1.0 in 1000 us |  11.0 in 3000 us
10000 us |  1.0 in 10000 us | 10.0 in 19000 us | 50.0 in 19800 us";
        check_table(gathering(ms(2), 2), expect);
    }
}
