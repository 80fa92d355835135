//! What is cut: strategies with their intervals, the load on each, and when a cut may fall.

use std::time::Duration;

use store_core::Nanos;

use crate::clock::nanos;
use crate::exposure::Between;
use crate::format;
use crate::random::Random;
use crate::results::{AckPromise, Kind};

/// A strategy that can be asked for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Strategy {
    /// Group commit: acknowledged when synced.
    Sync,
    /// Timed flush: acknowledged in the page cache.
    Timed,
    /// Staged commit and flush: acknowledged in a buffer of the process.
    Staged,
}

impl Strategy {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Sync, Self::Timed, Self::Staged];

    /// Its name, as everywhere here.
    pub fn name(self) -> &'static str {
        match self {
            Self::Staged => "staged",
            Self::Sync => "sync",
            Self::Timed => "timed",
        }
    }

    /// The kind, as results name it.
    pub fn kind(self) -> Kind {
        match self {
            Self::Staged => Kind::CommitRealtime,
            Self::Sync => Kind::GroupCommit,
            Self::Timed => Kind::FlushRealtime,
        }
    }

    /// What an acknowledgement promises.
    pub fn ack_at(self) -> AckPromise {
        match self {
            Self::Staged => AckPromise::Wrote,
            Self::Sync => AckPromise::Flushed,
            Self::Timed => AckPromise::Committed,
        }
    }

    /// How acknowledgements come: right after their sync, or evenly.
    pub fn between(self) -> Between {
        match self {
            Self::Sync => Between::Step,
            Self::Staged | Self::Timed => Between::Line,
        }
    }
}

/// One strategy with its settings under one load.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CasePlan {
    /// Its name, such as `timed 50 ms`.
    pub name: String,
    /// The strategy.
    pub strategy: Strategy,
    /// The flush interval, if it has one.
    pub interval: Option<Duration>,
    /// The load.
    pub load: LoadPlan,
}

/// What producers do.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LoadPlan {
    /// Threads.
    pub producers: u32,
    /// Messages per second over all of them; `None`: each waits for its acknowledgement before it
    /// sends again.
    pub rate_per_s: Option<u32>,
    /// Bytes of a message's body.
    pub message_bytes: u32,
}

impl CasePlan {
    /// Group commit under four producers, of whom each waits for its acknowledgement.
    fn sync() -> Self {
        Self {
            name: Strategy::Sync.name().to_owned(),
            strategy: Strategy::Sync,
            interval: None,
            load: LoadPlan { producers: 4, rate_per_s: None, message_bytes: MESSAGE_BYTES },
        }
    }

    /// An asynchronous strategy under one producer, so that the log's order is that of the
    /// acknowledgements, at a rate that any machine keeps up.
    fn paced(strategy: Strategy, interval: Duration) -> Self {
        let shown = format::duration(interval.as_secs_f64() * 1e9);
        let mut case = Self {
            name: format!("{} {}", strategy.name(), shown.replace(".0 ", " ")),
            strategy,
            interval: Some(interval),
            load: LoadPlan {
                producers: 1,
                rate_per_s: Some(MOST_PER_S),
                message_bytes: MESSAGE_BYTES,
            },
        };
        // Every record of a log is read after every cut in it.
        let fit = u128::from(MOST_PER_LOG) * 1000 / case.round_time().as_millis().max(1);
        let rate = u32::try_from(fit).unwrap_or(MOST_PER_S).min(MOST_PER_S);
        case.load.rate_per_s = Some(rate.next_multiple_of(100));
        case
    }

    /// How long a message may wait in the staging buffer, by the settings: two fifths of the
    /// interval, as RocketMQ's 200 ms stand to its 500 ms.
    pub fn commit(&self) -> Option<Duration> {
        let interval = self.interval.filter(|_| self.strategy == Strategy::Staged)?;
        Some((interval * 2 / 5).max(Duration::from_millis(1)))
    }

    /// Cuts in one fresh log: as many as come in a few seconds.
    pub fn cuts_per_round(&self) -> u32 {
        let window = self.timing().window.get().max(1);
        u32::try_from(ROUND.as_nanos() / u128::from(window)).unwrap_or(u32::MAX).max(1)
    }

    /// How long the load on one log lasts.
    pub fn round_time(&self) -> Duration {
        let Timing { warmup, window } = self.timing();
        let windows = Duration::from_nanos(window.get()) * self.cuts_per_round();
        Duration::from_nanos(warmup.get()) + windows
    }

    /// When cuts may fall.
    pub fn timing(&self) -> Timing {
        let interval = self.interval.map_or(Nanos::new(0), nanos);
        let twice = interval.after(interval);
        Timing {
            warmup: twice.max(Nanos::from_millis(300)),
            window: twice.max(Nanos::from_millis(50)),
        }
    }
}

/// The cases of a run: each strategy once, those with an interval once for each.
pub fn cases(strategies: &[Strategy], intervals: &[Duration]) -> Vec<CasePlan> {
    let mut cases = Vec::new();
    for strategy in Strategy::ALL.into_iter().filter(|one| strategies.contains(one)) {
        match strategy {
            Strategy::Sync => cases.push(CasePlan::sync()),
            Strategy::Staged | Strategy::Timed => {
                cases.extend(intervals.iter().map(|interval| CasePlan::paced(strategy, *interval)));
            }
        }
    }
    cases
}

/// When cuts may fall.
///
/// Each cut has a window of time of its own, of the same length for all and one after the other,
/// and falls at a uniformly random moment of it. The gauge is weighted over the same windows, so
/// that the expected loss of a cut *is* the gauge's mean over time, whatever the log does. What the
/// cuts left is looked at when the load is over: that work would otherwise be at every moment but
/// those of the cuts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Timing {
    /// Before the first window.
    pub warmup: Nanos,
    /// A window: long enough for every phase of a flush interval.
    pub window: Nanos,
}

impl Timing {
    /// A uniformly random moment of a window that begins at `start`.
    pub fn moment(&self, start: Nanos, random: &mut Random) -> Nanos {
        let within = random.next_u64() % self.window.get().max(1);
        start.after(Nanos::new(within))
    }
}

/// About how long a log is cut.
const ROUND: Duration = Duration::from_secs(2);
/// Messages a second offered to the asynchronous strategies at most.
const MOST_PER_S: u32 = 10_000;
/// Messages in one log, about.
const MOST_PER_LOG: u32 = 25_000;
const MESSAGE_BYTES: u32 = 512;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn strategies_with_an_interval_come_once_for_each_and_in_a_fixed_order() {
        let names = |strategies: &[Strategy], intervals: &[Duration]| -> Vec<String> {
            cases(strategies, intervals).into_iter().map(|case| case.name).collect()
        };
        assert_eq!(
            names(&[Strategy::Staged, Strategy::Sync, Strategy::Timed], &[50 * MS, 1500 * MS]),
            ["sync", "timed 50 ms", "timed 1.5 s", "staged 50 ms", "staged 1.5 s"]
        );
        assert_eq!(names(&[Strategy::Timed], &[1000 * MS]), ["timed 1 s"]);
        assert_eq!(names(&[Strategy::Sync, Strategy::Sync], &[50 * MS]), ["sync"]);
    }

    #[test]
    fn a_staged_message_waits_two_fifths_of_the_interval_at_most() {
        let case = CasePlan::paced(Strategy::Staged, 500 * MS);
        assert_eq!(case.commit(), Some(200 * MS));
        assert_eq!(CasePlan::paced(Strategy::Timed, 500 * MS).commit(), None);
    }

    #[test]
    fn a_window_holds_every_phase_of_an_interval() {
        let timing = CasePlan::paced(Strategy::Timed, 80 * MS).timing();
        assert_eq!(timing.window, Nanos::from_millis(160));
        assert_eq!(CasePlan::sync().timing().window, Nanos::from_millis(50));
    }

    #[test]
    fn longer_intervals_get_a_lower_rate() {
        let rate = |ms| CasePlan::paced(Strategy::Timed, ms * MS).load.rate_per_s;
        assert_eq!(rate(50), Some(10_000));
        assert_eq!(rate(500), Some(8400), "25 000 in one second and two of one second");
        assert_eq!(rate(5000), Some(1300));
    }

    #[test]
    fn moments_are_spread_evenly_over_the_window() {
        let timing = CasePlan::paced(Strategy::Timed, 50 * MS).timing();
        let start = Nanos::from_millis(7);
        let mut random = Random::new(3);
        let mut tenths = [0_u32; 10];
        for _ in 0..10_000 {
            let within = timing.moment(start, &mut random).since(start).get();
            assert!(within < timing.window.get());
            tenths[usize::try_from(within * 10 / timing.window.get()).unwrap()] += 1;
        }
        assert!(tenths.iter().all(|count| (900..=1100).contains(count)), "{tenths:?}");
    }
}
