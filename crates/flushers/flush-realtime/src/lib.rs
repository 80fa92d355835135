//! Flushes at intervals, whoever waits: RocketMQ's `ASYNC_FLUSH`, class `FlushRealTimeService`.
//!
//! A producer is told "ok" when the page cache has its record, so a power cut takes what was
//! acknowledged since the last sync. How much that can be is what the configuration bounds. With
//! *s* for the time a sync takes, no byte stays unflushed for longer than
//!
//! - `interval` + 2 *s*, while each interval brings `least_pages` pages or a full segment;
//! - `thorough_interval` + `interval` + *s*, however little is written.
//!
//! # What RocketMQ does otherwise
//!
//! - It decides whether a pass is thorough before it waits for the pass. Here the pass decides.
//!   While passes come by interval alone that changes nothing; where wakes shift them it takes up
//!   to one interval (half a second) off the second bound.
//! - It syncs one segment in a pass and leaves the next to the next. [`Action::Flush`] crosses
//!   segments.
//! - It syncs a full segment again and again until the log goes on in the next one. Here a sync
//!   needs bytes that are not flushed yet.
//! - Its shutdown gives up after ten tries. Here the driver sees when nothing is left.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

use core::fmt;

use store_core::{
    AckAt, Action, Event, FlushStrategy, Lane, LogOffset, Nanos, Observed, Wait, is_worth_a_pass,
};

/// Looks at the log every now and then, and flushes if that is worth a sync.
///
/// Calls come in the order that [`FlushStrategy`] gives: [`poll`](FlushStrategy::poll), the action,
/// [`on_done`](FlushStrategy::on_done). Polls may be repeated at will; time must not run back. The
/// first poll starts the first interval. Only the flush lane is used, and only bytes that the page
/// cache holds are flushed, save in a drain.
///
/// # Examples
///
/// ```
/// use flush_realtime::FlushRealtime;
/// use store_core::{Action, FlushStrategy, Lane, LogOffset, Nanos, Observed, Watermarks};
///
/// let mut strategy = FlushRealtime::default();
/// let end = LogOffset::new(300);
/// let seen = Observed {
///     marks: Watermarks::new(end, end, LogOffset::ZERO),
///     ..Observed::default()
/// };
/// let pass = Nanos::from_millis(500);
/// assert_eq!(strategy.poll(Lane::Flush, Nanos::new(0), &seen), Action::Sleep(pass));
/// assert_eq!(strategy.poll(Lane::Flush, pass, &seen), Action::Flush(end));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct FlushRealtime {
    config: Config,
    /// When the next pass is due; none before the first poll.
    next_pass: Option<Nanos>,
    /// When a pass was last thorough.
    last_thorough: Option<Nanos>,
    /// Whether a wake came that no pass has followed yet.
    woken: bool,
    in_flight: bool,
}

impl FlushRealtime {
    /// A strategy that has made no pass yet.
    ///
    /// # Errors
    ///
    /// If `config` leaves no time between passes.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        if config.interval == Nanos::new(0) {
            return Err(ConfigError::ZeroInterval);
        }
        Ok(Self { config, ..Self::default() })
    }

    fn poll_flush(&mut self, now: Nanos, seen: &Observed) -> Action {
        self.woken |= seen.woken && !self.config.timed;
        if self.in_flight {
            return Action::Idle;
        }
        let marks = seen.marks;
        if seen.draining {
            return if marks.flushed() < marks.wrote() {
                self.flush(marks.wrote())
            } else {
                Action::Done
            };
        }
        let next_pass = *self.next_pass.get_or_insert(now.after(self.config.interval));
        if now < next_pass && !self.woken {
            return Action::Sleep(next_pass);
        }
        self.pass(now, seen)
    }

    fn pass(&mut self, now: Nanos, seen: &Observed) -> Action {
        self.woken = false;
        let (flushed, committed) = (seen.marks.flushed(), seen.marks.committed());
        let least_pages = self.least_pages_now(now);
        if is_worth_a_pass(flushed, committed, seen.segment_start, least_pages) {
            return self.flush(committed);
        }
        Action::Sleep(self.rest(now))
    }

    /// The least pages of a pass at `now`; zero makes it thorough.
    fn least_pages_now(&mut self, now: Nanos) -> u64 {
        let config = self.config;
        let due = self.last_thorough.map(|last| last.after(config.thorough_interval));
        if due.is_some_and(|due| now < due) {
            return config.least_pages;
        }
        self.last_thorough = Some(now);
        0
    }

    fn flush(&mut self, upto: LogOffset) -> Action {
        self.in_flight = true;
        Action::Flush(upto)
    }

    /// Begins the wait for the next pass and says when it ends.
    fn rest(&mut self, now: Nanos) -> Nanos {
        *self.next_pass.insert(now.after(self.config.interval))
    }
}

impl FlushStrategy for FlushRealtime {
    /// Every producer is told when the page cache has its record.
    fn ack(&self, _wait: Wait) -> AckAt {
        AckAt::Committed
    }

    /// Nothing, while [`Config::timed`]; else a commit, and appends if
    /// [`Config::wake_on_append`] says so.
    fn wakes(&self, lane: Lane, event: Event) -> bool {
        let is_heard = match event {
            Event::Appended(_) => self.config.wake_on_append,
            Event::Committed => true,
        };
        lane == Lane::Flush && !self.config.timed && is_heard
    }

    /// None: nobody waits for a sync.
    fn timeout(&self) -> Option<Nanos> {
        None
    }

    /// The flush lane only.
    fn uses(&self, lane: Lane) -> bool {
        lane == Lane::Flush
    }

    fn poll(&mut self, lane: Lane, now: Nanos, seen: &Observed) -> Action {
        match lane {
            Lane::Commit if seen.draining => Action::Done,
            Lane::Commit => Action::Idle,
            Lane::Flush => self.poll_flush(now, seen),
        }
    }

    fn on_done(&mut self, _lane: Lane, now: Nanos, _seen: &Observed) {
        self.in_flight = false;
        self.rest(now);
    }
}

/// When a pass is made and what is worth a sync.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Config {
    /// From the end of one pass to the next (`flushIntervalCommitLog`). Default 500 ms.
    pub interval: Nanos,
    /// How many page boundaries unflushed bytes must cross to be worth a sync
    /// (`flushCommitLogLeastPages`). Default 4. With 0 every pass is thorough.
    pub least_pages: u64,
    /// How long after a thorough pass the next pass is thorough again, that is, flushes whatever
    /// there is (`flushCommitLogThoroughInterval`). Default 10000 ms. The first pass is thorough,
    /// and with 0 every pass.
    pub thorough_interval: Nanos,
    /// Whether passes come by interval alone (`flushCommitLogTimed`). Default true. Otherwise a
    /// wake makes a pass at once.
    pub timed: bool,
    /// Whether an append wakes the lane (`wakeFlushWhenPutMessage`). Default false. Has no effect
    /// while `timed`.
    pub wake_on_append: bool,
}

impl Default for Config {
    /// RocketMQ's values.
    fn default() -> Self {
        Self {
            interval: Nanos::from_millis(500),
            least_pages: 4,
            thorough_interval: Nanos::from_millis(10_000),
            timed: true,
            wake_on_append: false,
        }
    }
}

/// A configuration that no driver could follow.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum ConfigError {
    /// Passes would follow each other without a pause.
    ZeroInterval,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ZeroInterval => f.write_str("an interval of 0 leaves no pause between passes"),
        }
    }
}

impl core::error::Error for ConfigError {}

#[cfg(test)]
mod tests {
    use std::string::ToString as _;

    use flusher_sim::{Device, Sim, check_random_loads, ms};
    use store_core::{PAGE_SIZE, SegmentSize, Watermarks};

    use super::*;

    const TIMED: Config = Config {
        interval: ms(500),
        least_pages: 4,
        thorough_interval: ms(10_000),
        timed: true,
        wake_on_append: false,
    };
    const WOKEN: Config = Config { timed: false, wake_on_append: true, ..TIMED };
    const FOUR_PAGES: u32 = 4 * 4096;

    fn sim(config: Config) -> Sim<FlushRealtime> {
        let strategy = FlushRealtime::new(config).unwrap();
        Sim::new(strategy, Device::with_sync(ms(10)))
    }

    #[test]
    fn the_defaults_are_those_of_rocketmq() {
        assert_eq!(Config::default(), TIMED);
        assert_eq!(FlushRealtime::default().config, TIMED);
        assert_eq!(FlushRealtime::new(TIMED).unwrap().config, TIMED);
    }

    #[test]
    fn an_interval_of_zero_is_refused() {
        let config = Config { interval: ms(0), ..TIMED };
        let error = FlushRealtime::new(config).unwrap_err();
        assert_eq!(error, ConfigError::ZeroInterval);
        assert_eq!(error.to_string(), "an interval of 0 leaves no pause between passes");
    }

    #[test]
    fn every_producer_is_told_when_the_page_cache_has_its_record() {
        let strategy = FlushRealtime::default();
        for wait in [Wait::No, Wait::Yes] {
            assert_eq!(strategy.ack(wait), AckAt::Committed);
        }
        assert_eq!(strategy.timeout(), None);
    }

    #[test]
    fn a_timed_lane_is_woken_by_nothing() {
        let appended = Event::Appended(Wait::Yes);
        let wakes = |timed, wake_on_append, lane, event| {
            let config = Config { timed, wake_on_append, ..TIMED };
            FlushRealtime::new(config).unwrap().wakes(lane, event)
        };
        for wake_on_append in [false, true] {
            assert!(!wakes(true, wake_on_append, Lane::Flush, appended));
            assert!(!wakes(true, wake_on_append, Lane::Flush, Event::Committed));
            assert!(wakes(false, wake_on_append, Lane::Flush, Event::Committed));
            assert!(!wakes(false, wake_on_append, Lane::Commit, appended));
        }
        assert!(wakes(false, true, Lane::Flush, appended));
        assert!(!wakes(false, false, Lane::Flush, appended));
    }

    #[test]
    fn the_commit_lane_has_nothing_to_do() {
        let mut strategy = FlushRealtime::default();
        assert!(strategy.uses(Lane::Flush));
        assert!(!strategy.uses(Lane::Commit));
        let mut seen = Observed::default();
        assert_eq!(strategy.poll(Lane::Commit, ms(0), &seen), Action::Idle);
        seen.draining = true;
        assert_eq!(strategy.poll(Lane::Commit, ms(0), &seen), Action::Done);
    }

    #[test]
    fn the_first_pass_comes_after_one_interval_and_is_thorough() {
        let mut sim = sim(TIMED);
        sim.append(ms(0), 1, Wait::Yes);
        sim.run_until(ms(1000));
        assert_eq!(sim.syncs(), [(ms(500), 1)]);
    }

    #[test]
    fn the_next_pass_comes_one_interval_after_the_last_ended() {
        let mut sim = sim(TIMED);
        for at in [0, 505, 1015] {
            sim.append(ms(at), FOUR_PAGES, Wait::Yes);
        }
        sim.run_until(ms(2000));
        // The sync from 500 to 510 shifts the passes by 10 ms, the next one by another 10 ms.
        let pages = 4 * PAGE_SIZE;
        let expect = [(ms(500), pages), (ms(1010), 2 * pages), (ms(1520), 3 * pages)];
        assert_eq!(sim.syncs(), expect);
    }

    #[test]
    fn least_pages_decide_between_thorough_passes() {
        let mut sim = sim(TIMED);
        sim.append(ms(600), FOUR_PAGES - 1, Wait::Yes);
        sim.append(ms(1600), 1, Wait::Yes);
        sim.run_until(ms(5000));
        assert_eq!(sim.syncs(), [(ms(2000), 4 * PAGE_SIZE)]);
    }

    #[test]
    fn page_boundaries_count_and_not_bytes() {
        let mut sim = sim(Config { least_pages: 1, ..TIMED });
        sim.append(ms(0), 4095, Wait::Yes);
        sim.append(ms(600), 1, Wait::Yes);
        sim.run_until(ms(2000));
        assert_eq!(sim.syncs(), [(ms(500), 4095), (ms(1010), 4096)]);
    }

    #[test]
    fn zero_least_pages_flush_one_byte_at_each_pass() {
        let mut sim = sim(Config { least_pages: 0, ..TIMED });
        for at in [0, 600, 1100] {
            sim.append(ms(at), 1, Wait::Yes);
        }
        sim.run_until(ms(2000));
        assert_eq!(sim.syncs(), [(ms(500), 1), (ms(1010), 2), (ms(1520), 3)]);
    }

    #[test]
    fn a_full_segment_is_flushed_with_fewer_than_least_pages() {
        let device = Device {
            segment: SegmentSize::new(2 * PAGE_SIZE).unwrap(),
            ..Device::with_sync(ms(10))
        };
        let mut sim = Sim::new(FlushRealtime::default(), device);
        sim.append(ms(600), 5000, Wait::Yes);
        sim.run_until(ms(1900));
        assert_eq!(sim.syncs(), []);
        sim.append(ms(1900), 100, Wait::Yes);
        sim.append(ms(1900), 5000, Wait::Yes);
        sim.run_until(ms(5000));
        assert_eq!(sim.syncs(), [(ms(2000), 2 * PAGE_SIZE + 5000)]);
    }

    #[test]
    fn a_full_segment_without_committed_bytes_is_not_flushed() {
        let at = LogOffset::new;
        let seen = Observed {
            marks: Watermarks::new(at(9000), at(100), at(100)),
            segment_start: at(8192),
            ..Observed::default()
        };
        let mut strategy = FlushRealtime::default();
        assert_eq!(strategy.poll(Lane::Flush, ms(0), &seen), Action::Sleep(ms(500)));
        assert_eq!(strategy.poll(Lane::Flush, ms(500), &seen), Action::Sleep(ms(1000)));
    }

    #[test]
    fn only_committed_bytes_are_flushed() {
        let at = LogOffset::new;
        let seen =
            Observed { marks: Watermarks::new(at(300), at(200), at(100)), ..Observed::default() };
        let mut strategy = FlushRealtime::default();
        let _ = strategy.poll(Lane::Flush, ms(0), &seen);
        assert_eq!(strategy.poll(Lane::Flush, ms(500), &seen), Action::Flush(at(200)));
    }

    #[test]
    fn a_thorough_pass_flushes_a_single_byte() {
        let mut sim = sim(TIMED);
        sim.append(ms(501), 1, Wait::Yes);
        sim.run_until(ms(20_000));
        // The first pass, at 500, was thorough though it found nothing.
        assert_eq!(sim.syncs(), [(ms(10_500), 1)]);
    }

    #[test]
    fn the_pass_and_not_the_wait_before_it_decides_whether_it_is_thorough() {
        let mut sim = sim(WOKEN);
        // A wake at once makes the first, thorough pass. One shortly before the next pass shifts
        // all later ones, so that one pass comes just before the thorough interval is over.
        sim.append(ms(0), 1, Wait::Yes);
        sim.append(ms(11), 1, Wait::Yes);
        sim.append(ms(499), 1, Wait::Yes);
        sim.run_until(ms(20_000));
        // RocketMQ's would be thorough at 10 999.
        assert_eq!(sim.syncs(), [(ms(0), 1), (ms(10_499), 3)]);
    }

    #[test]
    fn a_wake_makes_a_pass_at_once_unless_timed() {
        for (config, expect) in [(WOKEN, ms(700)), (TIMED, ms(1000))] {
            let mut sim = sim(config);
            sim.append(ms(700), FOUR_PAGES, Wait::Yes);
            sim.run_until(ms(2000));
            assert_eq!(sim.syncs(), [(expect, 4 * PAGE_SIZE)], "{config:?}");
        }
    }

    #[test]
    fn a_timed_lane_does_not_react_to_a_wake_that_comes_all_the_same() {
        let at = LogOffset::new;
        let seen = Observed {
            marks: Watermarks::new(at(99_999), at(99_999), at(0)),
            woken: true,
            ..Observed::default()
        };
        let mut strategy = FlushRealtime::default();
        for now in [0, 499] {
            let action = strategy.poll(Lane::Flush, ms(now), &seen);
            assert_eq!(action, Action::Sleep(ms(500)));
        }
    }

    #[test]
    fn a_wake_during_a_sync_makes_a_pass_right_behind_it() {
        for nosy in [false, true] {
            let mut sim = sim(WOKEN);
            if nosy {
                sim = sim.nosy(ms(1));
            }
            sim.append(ms(0), FOUR_PAGES, Wait::Yes);
            sim.append(ms(5), FOUR_PAGES, Wait::Yes);
            sim.run_until(ms(400));
            let pages = 4 * PAGE_SIZE;
            let expect = [(ms(0), pages), (ms(10), 2 * pages)];
            assert_eq!(sim.syncs(), expect, "nosy: {nosy}");
        }
    }

    #[test]
    fn a_wake_with_too_few_pages_does_not_spin_and_begins_the_interval_anew() {
        let mut sim = sim(WOKEN);
        sim.append(ms(0), 1, Wait::Yes);
        sim.append(ms(300), FOUR_PAGES - 2, Wait::Yes);
        sim.run_until(ms(799));
        // The start, which is the first wake; after the sync; the second wake.
        assert_eq!(sim.polls(Lane::Flush), 3);
        sim.run_until(ms(800));
        assert_eq!(sim.polls(Lane::Flush), 4);
        assert_eq!(sim.syncs(), [(ms(0), 1)]);
    }

    #[test]
    fn one_pass_uses_a_wake_up() {
        let mut strategy = FlushRealtime::new(WOKEN).unwrap();
        let woken = Observed { woken: true, ..Observed::default() };
        let second_pass = Action::Sleep(ms(550));
        assert_eq!(strategy.poll(Lane::Flush, ms(50), &woken), second_pass);
        let action = strategy.poll(Lane::Flush, ms(60), &Observed::default());
        assert_eq!(action, second_pass);
    }

    #[test]
    fn an_idle_log_is_looked_at_once_an_interval_and_never_synced() {
        for config in [TIMED, WOKEN] {
            let mut sim = sim(config);
            sim.run_until(ms(3_600_000));
            assert_eq!(sim.syncs(), []);
            assert_eq!(sim.polls(Lane::Flush), 1 + 7200);
        }
    }

    #[test]
    fn a_log_that_falls_idle_is_not_synced_again() {
        let mut sim = sim(TIMED);
        sim.append(ms(100), 1, Wait::Yes);
        sim.run_until(ms(3_600_000));
        assert_eq!(sim.syncs(), [(ms(500), 1)]);
    }

    #[test]
    fn a_drain_flushes_one_byte_without_waiting_for_a_pass() {
        let mut sim = sim(TIMED);
        sim.append(ms(600), 1, Wait::Yes);
        sim.run_until(ms(601));
        sim.drain();
        assert_eq!(sim.syncs(), [(ms(601), 1)]);
        assert_eq!(sim.now(), ms(611));
    }

    #[test]
    fn a_drain_during_a_sync_lets_it_end_and_takes_the_rest() {
        let mut sim = sim(TIMED);
        sim.append(ms(0), 1, Wait::Yes);
        sim.append(ms(505), 1, Wait::Yes);
        sim.run_until(ms(505));
        sim.drain();
        assert_eq!(sim.syncs(), [(ms(500), 1), (ms(510), 2)]);
    }

    #[test]
    fn a_drain_flushes_staged_bytes_as_well() {
        let at = LogOffset::new;
        let seen = Observed {
            marks: Watermarks::new(at(300), at(200), at(200)),
            draining: true,
            ..Observed::default()
        };
        let mut strategy = FlushRealtime::default();
        assert_eq!(strategy.poll(Lane::Flush, ms(0), &seen), Action::Flush(at(300)));
        assert_eq!(strategy.poll(Lane::Flush, ms(0), &seen), Action::Idle);
    }

    #[test]
    fn under_a_steady_load_no_byte_is_older_than_an_interval_and_two_syncs() {
        for sync in [ms(1), ms(50), ms(700)] {
            let mut sim = Sim::new(FlushRealtime::default(), Device::with_sync(sync));
            sim.load(ms(0), ms(60_000), ms(1), 1024, Wait::Yes);
            sim.run_until(ms(60_000));
            let limit = ms(500).after(sync).after(sync);
            let oldest = sim.oldest_unflushed();
            assert!(oldest <= limit, "{oldest:?} > {limit:?}");
            // The bound is tight: the record that just misses one sync waits for the next.
            assert!(oldest.after(ms(1)) >= limit, "{oldest:?} << {limit:?}");
        }
    }

    #[test]
    fn under_a_thin_load_no_byte_is_older_than_both_intervals_and_a_sync() {
        let mut oldest = Nanos::default();
        for phase in 0..500 {
            let mut sim = sim(WOKEN);
            sim.append(ms(0), 1, Wait::Yes);
            sim.append(ms(11), 1, Wait::Yes);
            sim.append(ms(11 + phase), 1, Wait::Yes);
            sim.run_until(ms(30_000));
            oldest = oldest.max(sim.oldest_unflushed());
        }
        let limit = ms(10_000 + 500 + 10);
        assert!(oldest <= limit, "{oldest:?} > {limit:?}");
        assert!(oldest.after(ms(20)) >= limit, "{oldest:?} << {limit:?}");
    }

    #[test]
    fn random_loads_keep_the_bound_and_do_not_notice_needless_polls() {
        for config in [TIMED, WOKEN] {
            check_random_loads(&FlushRealtime::new(config).unwrap(), |sim, device| {
                let limit = ms(10_000 + 500).after(device.sync).after(device.sync);
                sim.oldest_unflushed() <= limit
            });
        }
    }
}
