//! Stages appends, commits them soon and flushes them later: RocketMQ's `ASYNC_FLUSH` with
//! `transientStorePoolEnable`, classes `CommitRealTimeService` and `FlushRealTimeService`.
//!
//! A producer is told "ok" when its record stands in a staging buffer. Two lanes follow: one writes
//! staged bytes to the page cache, the other is a [`FlushRealtime`] and makes them durable. So a
//! process crash takes what was acknowledged since the last commit, a power cut what was since the
//! last sync. With *c* for the time a commit takes, and if appends wake the commit lane, no byte
//! stays staged for longer than `commit_thorough_interval` + 2 *c*.
//!
//! # What RocketMQ does otherwise
//!
//! - A thorough pass that finds nothing counts as the last commit there. Here only a commit does,
//!   so the first record after a pause is committed when it wakes the lane, not an interval later.
//! - A woken pass that finds too little is followed by a whole interval there. Here the lane comes
//!   back as soon as a thorough pass is due, if that is earlier.
//! - What it does otherwise in flushing, `flush-realtime` says.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

use core::fmt;

use flush_realtime::FlushRealtime;
use store_core::{
    AckAt, Action, Event, FlushStrategy, Lane, LogOffset, Nanos, Observed, Wait, is_worth_a_pass,
};

/// Commits staged bytes in small steps and flushes committed ones in large steps.
///
/// Calls come in the order that [`FlushStrategy`] gives: [`poll`](FlushStrategy::poll), the action,
/// [`on_done`](FlushStrategy::on_done), for each lane by itself. Polls may be repeated at will;
/// time must not run back. The first poll of the commit lane is its first pass.
///
/// In a drain the lanes do not wait for each other: the flush lane asks for all that is written,
/// staged or not, and whichever driver comes first commits it.
///
/// # Examples
///
/// ```
/// use commit_realtime::CommitRealtime;
/// use store_core::{Action, FlushStrategy, Lane, LogOffset, Nanos, Observed, Watermarks};
///
/// let mut strategy = CommitRealtime::default();
/// let start = Nanos::new(0);
/// let end = LogOffset::new(300);
/// let seen = Observed {
///     marks: Watermarks::new(end, LogOffset::ZERO, LogOffset::ZERO),
///     ..Observed::default()
/// };
/// assert_eq!(strategy.poll(Lane::Commit, start, &seen), Action::Commit(end));
/// let pass = Nanos::from_millis(500);
/// assert_eq!(strategy.poll(Lane::Flush, start, &seen), Action::Sleep(pass));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct CommitRealtime {
    config: Config,
    /// When the commit lane's next pass is due; at once if there was none.
    next_pass: Nanos,
    /// When a commit last ended.
    last_commit: Option<Nanos>,
    /// Whether a wake came that no pass of the commit lane has followed yet.
    woken: bool,
    in_flight: bool,
    flush: FlushRealtime,
}

impl CommitRealtime {
    /// A strategy that has made no pass yet.
    ///
    /// # Errors
    ///
    /// If `config` leaves no time between passes of either lane.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        if config.commit_interval == Nanos::new(0) {
            return Err(ConfigError::ZeroCommitInterval);
        }
        Ok(Self {
            config,
            flush: FlushRealtime::new(config.flush).map_err(ConfigError::Flush)?,
            ..Self::default()
        })
    }

    fn poll_commit(&mut self, now: Nanos, seen: &Observed) -> Action {
        self.woken |= seen.woken;
        if self.in_flight {
            return Action::Idle;
        }
        let marks = seen.marks;
        if seen.draining {
            return if marks.committed() < marks.wrote() {
                self.commit(marks.wrote())
            } else {
                Action::Done
            };
        }
        if now < self.next_pass && !self.woken {
            return Action::Sleep(self.next_pass);
        }
        self.pass(now, seen)
    }

    fn pass(&mut self, now: Nanos, seen: &Observed) -> Action {
        self.woken = false;
        let (committed, wrote) = (seen.marks.committed(), seen.marks.wrote());
        let thorough =
            self.last_commit.map_or(now, |last| last.after(self.config.commit_thorough_interval));
        let least_pages = if now < thorough { self.config.commit_least_pages } else { 0 };
        if is_worth_a_pass(committed, wrote, seen.segment_start, least_pages) {
            return self.commit(wrote);
        }
        self.rest(now);
        if committed < wrote {
            self.next_pass = self.next_pass.min(thorough);
        }
        Action::Sleep(self.next_pass)
    }

    fn commit(&mut self, upto: LogOffset) -> Action {
        self.in_flight = true;
        Action::Commit(upto)
    }

    fn rest(&mut self, now: Nanos) {
        self.next_pass = now.after(self.config.commit_interval);
    }
}

impl FlushStrategy for CommitRealtime {
    /// Every producer is told when its record is staged.
    fn ack(&self, _wait: Wait) -> AckAt {
        AckAt::Wrote
    }

    /// Appends wake the commit lane if [`Config::wake_on_append`] says so; a commit wakes the flush
    /// lane unless that is timed.
    fn wakes(&self, lane: Lane, event: Event) -> bool {
        match (lane, event) {
            (Lane::Commit, Event::Appended(_)) => self.config.wake_on_append,
            (Lane::Flush, Event::Committed) => self.flush.wakes(lane, event),
            (Lane::Commit, Event::Committed) | (Lane::Flush, Event::Appended(_)) => false,
        }
    }

    /// None: nobody waits for a sync.
    fn timeout(&self) -> Option<Nanos> {
        self.flush.timeout()
    }

    /// Both lanes.
    fn uses(&self, _lane: Lane) -> bool {
        true
    }

    fn poll(&mut self, lane: Lane, now: Nanos, seen: &Observed) -> Action {
        match lane {
            Lane::Commit => self.poll_commit(now, seen),
            Lane::Flush => self.flush.poll(lane, now, seen),
        }
    }

    fn on_done(&mut self, lane: Lane, now: Nanos, seen: &Observed) {
        match lane {
            Lane::Commit => {
                self.in_flight = false;
                self.last_commit = Some(now);
                self.rest(now);
            }
            Lane::Flush => self.flush.on_done(lane, now, seen),
        }
    }
}

/// When staged bytes are committed, and when committed bytes are flushed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Config {
    /// From the end of one pass of the commit lane to the next (`commitIntervalCommitLog`).
    /// Default 200 ms.
    pub commit_interval: Nanos,
    /// How many page boundaries staged bytes must cross to be worth a commit
    /// (`commitCommitLogLeastPages`). Default 4. With 0 every pass commits what there is.
    pub commit_least_pages: u64,
    /// How long after the last commit a pass commits whatever there is
    /// (`commitCommitLogThoroughInterval`). Default 200 ms. With 0 every pass does.
    pub commit_thorough_interval: Nanos,
    /// Whether an append wakes the commit lane (`wakeCommitWhenPutMessage`). Default true.
    pub wake_on_append: bool,
    /// The flush lane's. Its `wake_on_append` has no effect here: only a commit wakes that lane,
    /// and only if it is not `timed`.
    pub flush: flush_realtime::Config,
}

impl Default for Config {
    /// RocketMQ's values.
    fn default() -> Self {
        Self {
            commit_interval: Nanos::from_millis(200),
            commit_least_pages: 4,
            commit_thorough_interval: Nanos::from_millis(200),
            wake_on_append: true,
            flush: flush_realtime::Config::default(),
        }
    }
}

/// A configuration that no driver could follow.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum ConfigError {
    /// The flush lane's part is wrong.
    Flush(flush_realtime::ConfigError),
    /// Passes of the commit lane would follow each other without a pause.
    ZeroCommitInterval,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flush(_) => f.write_str("the flush lane cannot be configured so"),
            Self::ZeroCommitInterval => {
                f.write_str("a commit interval of 0 leaves no pause between passes")
            }
        }
    }
}

impl core::error::Error for ConfigError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Flush(source) => Some(source),
            Self::ZeroCommitInterval => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use core::error::Error as _;
    use std::string::ToString as _;

    use flusher_sim::{Device, Sim, check_random_loads, ms};
    use store_core::{PAGE_SIZE, SegmentSize, Watermarks};

    use super::*;

    const FLUSH: flush_realtime::Config = flush_realtime::Config {
        interval: ms(500),
        least_pages: 4,
        thorough_interval: ms(10_000),
        timed: true,
        wake_on_append: false,
    };
    const WOKEN: Config = Config {
        commit_interval: ms(200),
        commit_least_pages: 4,
        commit_thorough_interval: ms(200),
        wake_on_append: true,
        flush: FLUSH,
    };
    const UNWOKEN: Config = Config { wake_on_append: false, ..WOKEN };
    const UNTIMED: Config =
        Config { flush: flush_realtime::Config { timed: false, ..FLUSH }, ..WOKEN };
    const DEVICE: Device = Device { commit: ms(1), ..Device::with_sync(ms(10)) };
    const FOUR_PAGES: u32 = 4 * 4096;

    fn sim(config: Config) -> Sim<CommitRealtime> {
        Sim::new(CommitRealtime::new(config).unwrap(), DEVICE)
    }

    fn seen(wrote: u64, committed: u64, flushed: u64) -> Observed {
        let at = LogOffset::new;
        Observed {
            marks: Watermarks::new(at(wrote), at(committed), at(flushed)),
            ..Observed::default()
        }
    }

    #[test]
    fn the_defaults_are_those_of_rocketmq() {
        assert_eq!(Config::default(), WOKEN);
        assert_eq!(CommitRealtime::default().config, WOKEN);
        assert_eq!(CommitRealtime::new(UNTIMED).unwrap().config, UNTIMED);
    }

    #[test]
    fn an_interval_of_zero_is_refused_on_either_lane() {
        let error = CommitRealtime::new(Config { commit_interval: ms(0), ..WOKEN }).unwrap_err();
        assert_eq!(error, ConfigError::ZeroCommitInterval);
        assert_eq!(error.to_string(), "a commit interval of 0 leaves no pause between passes");
        assert!(error.source().is_none());
        let error = CommitRealtime::new(Config {
            flush: flush_realtime::Config { interval: ms(0), ..FLUSH },
            ..WOKEN
        })
        .unwrap_err();
        assert_eq!(error, ConfigError::Flush(flush_realtime::ConfigError::ZeroInterval));
        assert_eq!(error.to_string(), "the flush lane cannot be configured so");
        assert_eq!(
            error.source().unwrap().to_string(),
            "an interval of 0 leaves no pause between passes"
        );
    }

    #[test]
    fn every_producer_is_told_when_its_record_is_staged() {
        let strategy = CommitRealtime::default();
        for wait in [Wait::No, Wait::Yes] {
            assert_eq!(strategy.ack(wait), AckAt::Wrote);
        }
        assert_eq!(strategy.timeout(), None);
        assert!(strategy.uses(Lane::Commit) && strategy.uses(Lane::Flush));
    }

    #[test]
    fn appends_wake_the_commit_lane_and_commits_the_flush_lane() {
        let wakes = |config, lane, event| CommitRealtime::new(config).unwrap().wakes(lane, event);
        for wait in [Wait::No, Wait::Yes] {
            let appended = Event::Appended(wait);
            assert!(wakes(WOKEN, Lane::Commit, appended));
            assert!(!wakes(UNWOKEN, Lane::Commit, appended));
            let mut config = UNTIMED;
            config.flush.wake_on_append = true;
            assert!(!wakes(config, Lane::Flush, appended));
        }
        assert!(wakes(UNTIMED, Lane::Flush, Event::Committed));
        assert!(!wakes(WOKEN, Lane::Flush, Event::Committed));
        assert!(!wakes(UNTIMED, Lane::Commit, Event::Committed));
    }

    #[test]
    fn what_is_staged_at_the_start_is_committed_at_once() {
        let mut sim = sim(UNWOKEN);
        sim.append(ms(0), 1, Wait::Yes);
        sim.run_until(ms(100));
        assert_eq!(sim.commits(), [(ms(0), 1)]);
    }

    #[test]
    fn a_single_byte_is_committed_at_once_when_the_last_commit_is_long_ago() {
        let mut sim = sim(WOKEN);
        sim.append(ms(50), 1, Wait::Yes);
        sim.append(ms(251), 1, Wait::Yes);
        sim.run_until(ms(1000));
        assert_eq!(sim.commits(), [(ms(50), 1), (ms(251), 2)]);
    }

    #[test]
    fn without_wakes_a_pass_comes_one_interval_after_the_last_ended() {
        let device = Device { commit: ms(20), ..DEVICE };
        let strategy = CommitRealtime::new(UNWOKEN).unwrap();
        let mut sim = Sim::new(strategy, device);
        for at in [10, 210, 421] {
            sim.append(ms(at), FOUR_PAGES, Wait::Yes);
        }
        sim.run_until(ms(1000));
        let pages = 4 * PAGE_SIZE;
        let expect = [(ms(200), pages), (ms(420), 2 * pages), (ms(640), 3 * pages)];
        assert_eq!(sim.commits(), expect);
    }

    #[test]
    fn least_pages_are_committed_at_once_when_woken() {
        let mut sim = sim(WOKEN);
        sim.append(ms(0), 1, Wait::Yes);
        sim.append(ms(50), FOUR_PAGES - 1, Wait::Yes);
        sim.run_until(ms(100));
        assert_eq!(sim.commits(), [(ms(0), 1), (ms(50), 4 * PAGE_SIZE)]);
    }

    #[test]
    fn fewer_pages_wait_until_the_last_commit_is_long_enough_ago() {
        let mut sim = sim(WOKEN);
        sim.append(ms(0), 1, Wait::Yes);
        sim.append(ms(50), FOUR_PAGES - 2, Wait::Yes);
        sim.run_until(ms(1000));
        assert_eq!(sim.commits(), [(ms(0), 1), (ms(201), 4 * PAGE_SIZE - 1)]);
    }

    #[test]
    fn a_wake_with_too_few_pages_does_not_spin() {
        let mut sim = sim(WOKEN);
        sim.append(ms(0), 1, Wait::Yes);
        sim.append(ms(50), 1, Wait::Yes);
        sim.run_until(ms(200));
        // The start, which is the first wake; after the commit; the second wake.
        assert_eq!(sim.polls(Lane::Commit), 3);
    }

    #[test]
    fn one_pass_uses_a_wake_up() {
        let mut strategy =
            CommitRealtime::new(Config { commit_thorough_interval: ms(1000), ..WOKEN }).unwrap();
        let _ = strategy.poll(Lane::Commit, ms(0), &seen(1, 0, 0));
        strategy.on_done(Lane::Commit, ms(0), &seen(1, 1, 0));
        let woken = Observed { woken: true, ..seen(2, 1, 0) };
        let second_pass = Action::Sleep(ms(250));
        assert_eq!(strategy.poll(Lane::Commit, ms(50), &woken), second_pass);
        let action = strategy.poll(Lane::Commit, ms(60), &seen(2, 1, 0));
        assert_eq!(action, second_pass);
    }

    #[test]
    fn the_lane_comes_back_as_soon_as_a_thorough_pass_is_due() {
        let mut sim = sim(Config { commit_thorough_interval: ms(450), ..WOKEN });
        sim.append(ms(0), 1, Wait::Yes);
        sim.append(ms(50), 1, Wait::Yes);
        sim.run_until(ms(1000));
        // Passes at 50, 250 and 450 find too little. At 451 one byte is enough, so the lane does
        // not sleep until 650.
        assert_eq!(sim.commits(), [(ms(0), 1), (ms(451), 2)]);
        // The start, after the commit, 50, 250, 450, 451, after the commit, 652 and 852.
        assert_eq!(sim.polls(Lane::Commit), 9);
    }

    #[test]
    fn zero_least_pages_commit_each_byte_when_woken() {
        let mut sim = sim(Config { commit_least_pages: 0, ..WOKEN });
        for at in [0, 50, 60] {
            sim.append(ms(at), 1, Wait::Yes);
        }
        sim.run_until(ms(100));
        assert_eq!(sim.commits(), [(ms(0), 1), (ms(50), 2), (ms(60), 3)]);
    }

    #[test]
    fn a_full_segment_is_committed_with_fewer_than_least_pages() {
        let device = Device { segment: SegmentSize::new(2 * PAGE_SIZE).unwrap(), ..DEVICE };
        let mut sim = Sim::new(CommitRealtime::default(), device);
        sim.append(ms(0), 5000, Wait::Yes);
        sim.append(ms(50), 5000, Wait::Yes);
        sim.run_until(ms(100));
        let end = 2 * PAGE_SIZE + 5000;
        assert_eq!(sim.commits(), [(ms(0), 5000), (ms(50), end)]);
    }

    #[test]
    fn a_full_segment_that_is_committed_is_not_committed_again() {
        let mut strategy = CommitRealtime::default();
        let seen = Observed { segment_start: LogOffset::new(8192), ..seen(5000, 5000, 0) };
        let action = strategy.poll(Lane::Commit, ms(0), &seen);
        assert_eq!(action, Action::Sleep(ms(200)));
    }

    #[test]
    fn a_wake_during_a_commit_makes_a_pass_right_behind_it() {
        for nosy in [false, true] {
            let device = Device { commit: ms(20), ..DEVICE };
            let mut sim = Sim::new(CommitRealtime::default(), device);
            if nosy {
                sim = sim.nosy(ms(1));
            }
            sim.append(ms(0), 1, Wait::Yes);
            sim.append(ms(5), FOUR_PAGES, Wait::Yes);
            sim.run_until(ms(100));
            let expect = [(ms(0), 1), (ms(20), 4 * PAGE_SIZE + 1)];
            assert_eq!(sim.commits(), expect, "nosy: {nosy}");
        }
    }

    #[test]
    fn the_flush_lane_follows_the_rules_of_flush_realtime() {
        let mut sim = sim(WOKEN);
        sim.append(ms(0), 1, Wait::Yes);
        sim.append(ms(600), 1, Wait::Yes);
        sim.append(ms(2100), FOUR_PAGES, Wait::Yes);
        sim.run_until(ms(5000));
        let expect = [(ms(500), 1), (ms(2510), 4 * PAGE_SIZE + 2)];
        assert_eq!(sim.syncs(), expect);
    }

    #[test]
    fn the_flush_lane_leaves_staged_bytes_alone() {
        let mut strategy = CommitRealtime::default();
        let seen = seen(99_999, 20_000, 0);
        let _ = strategy.poll(Lane::Flush, ms(0), &seen);
        let action = strategy.poll(Lane::Flush, ms(500), &seen);
        assert_eq!(action, Action::Flush(LogOffset::new(20_000)));
    }

    #[test]
    fn a_commit_makes_a_flush_pass_at_once_unless_timed() {
        for (config, expect) in [(UNTIMED, ms(101)), (WOKEN, ms(500))] {
            let mut sim = sim(config);
            sim.append(ms(100), FOUR_PAGES, Wait::Yes);
            sim.run_until(ms(2000));
            assert_eq!(sim.syncs(), [(expect, 4 * PAGE_SIZE)], "{config:?}");
        }
    }

    #[test]
    fn a_slow_sync_delays_no_commit() {
        let device = Device { sync: ms(2000), ..DEVICE };
        let mut sim = Sim::new(CommitRealtime::default(), device);
        sim.load(ms(0), ms(10_000), ms(1), 1024, Wait::Yes);
        sim.run_until(ms(10_000));
        assert!(sim.oldest_staged() <= ms(20), "{:?}", sim.oldest_staged());
    }

    #[test]
    fn an_idle_log_is_looked_at_once_an_interval_and_neither_committed_nor_synced() {
        for config in [WOKEN, UNWOKEN, UNTIMED] {
            let mut sim = sim(config);
            sim.run_until(ms(3_600_000));
            assert_eq!(sim.commits(), []);
            assert_eq!(sim.syncs(), []);
            assert_eq!(sim.polls(Lane::Commit), 1 + 18_000);
            assert_eq!(sim.polls(Lane::Flush), 1 + 7200);
        }
    }

    #[test]
    fn each_append_and_each_pass_costs_one_poll_at_most() {
        let mut sim = sim(WOKEN);
        sim.load(ms(0), ms(10_000), ms(7), 100, Wait::Yes);
        sim.run_until(ms(10_000));
        let events = sim.records().len() + 2 * sim.commits().len();
        let polls = usize::try_from(sim.polls(Lane::Commit)).unwrap();
        assert!(polls <= 1 + events, "{polls} polls for {events} events");
    }

    #[test]
    fn a_drain_commits_and_flushes_one_byte_without_waiting_for_a_pass() {
        let mut sim = sim(WOKEN);
        sim.append(ms(0), 1, Wait::Yes);
        sim.append(ms(50), 1, Wait::Yes);
        sim.run_until(ms(60));
        sim.drain();
        assert_eq!(sim.commits(), [(ms(0), 1), (ms(60), 2)]);
        assert_eq!(sim.syncs(), [(ms(60), 2)]);
        assert_eq!(sim.now(), ms(70));
    }

    #[test]
    fn a_drain_during_a_commit_and_a_sync_lets_both_end_and_takes_the_rest() {
        let device = Device { commit: ms(20), sync: ms(50), ..DEVICE };
        let mut sim = Sim::new(CommitRealtime::default(), device);
        for at in [0, 499, 510] {
            sim.append(ms(at), 1, Wait::Yes);
        }
        sim.run_until(ms(515));
        sim.drain();
        assert_eq!(sim.commits(), [(ms(0), 1), (ms(499), 2), (ms(519), 3)]);
        assert_eq!(sim.syncs(), [(ms(500), 1), (ms(550), 3)]);
    }

    #[test]
    fn in_a_drain_the_flush_lane_does_not_wait_for_the_commit_lane() {
        let mut strategy = CommitRealtime::default();
        let draining = |observed| Observed { draining: true, ..observed };
        let all = LogOffset::new(300);
        let staged = draining(seen(300, 100, 100));
        let commit = strategy.poll(Lane::Commit, ms(0), &staged);
        assert_eq!(commit, Action::Commit(all));
        let flush = strategy.poll(Lane::Flush, ms(0), &staged);
        assert_eq!(flush, Action::Flush(all));
        for lane in Lane::ALL {
            assert_eq!(strategy.poll(lane, ms(1), &staged), Action::Idle);
        }
        let committed = draining(seen(300, 300, 100));
        strategy.on_done(Lane::Commit, ms(2), &committed);
        let commit = strategy.poll(Lane::Commit, ms(2), &committed);
        assert_eq!(commit, Action::Done);
        assert_eq!(
            strategy.poll(Lane::Flush, ms(2), &committed),
            Action::Idle,
            "the end of a commit is not the end of a sync"
        );
        let flushed = draining(seen(300, 300, 300));
        strategy.on_done(Lane::Flush, ms(3), &flushed);
        assert_eq!(strategy.poll(Lane::Flush, ms(3), &flushed), Action::Done);
    }

    #[test]
    fn random_loads_keep_the_bounds_and_do_not_notice_needless_polls() {
        for config in [WOKEN, UNWOKEN, UNTIMED] {
            check_random_loads(&CommitRealtime::new(config).unwrap(), |sim, device| {
                let staged = ms(200).after(device.commit).after(device.commit);
                let unflushed = ms(10_000 + 500).after(device.sync).after(device.sync);
                sim.oldest_staged() <= staged && sim.oldest_unflushed() <= staged.after(unflushed)
            });
        }
    }
}
