//! When a timed strategy's lanes find a pass worth it, and so which loads a row can speak for.
//!
//! A lane syncs or commits by its interval only once its least pages were filled; with less it
//! waits out its thorough interval. So a load that fills fewer pages in an interval than that loses
//! older messages than a faster one does, whatever the faster one was measured to lose.

use std::time::Duration;

use store_core::PAGE_SIZE;

use crate::clock::{float, nanos};
use crate::profile::Settings;
use crate::results::Kind;
use crate::summary::LossModel;

/// The lanes of a strategy; those that it has not are `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Passes {
    /// Moves staged bytes to the page cache.
    commit: Option<Lane>,
    /// Syncs.
    flush: Option<Lane>,
}

/// When one lane passes.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Lane {
    interval_ns: f64,
    /// What must have come to be worth a pass.
    least_bytes: f64,
    /// After which it passes whatever there is.
    thorough_ns: f64,
    /// An append makes it look: it passes as soon as there is enough.
    wakes: bool,
}

impl Lane {
    fn of(interval: Duration, pages: u64, thorough: Duration, wakes: bool) -> Self {
        let ns = |time| float(nanos(time).get());
        let least_bytes = float(pages.saturating_mul(PAGE_SIZE));
        Self { interval_ns: ns(interval), least_bytes, thorough_ns: ns(thorough), wakes }
    }

    /// Whether an interval brings enough at so many bytes a second; with a thorough interval of 0
    /// anything is.
    fn is_filled(&self, bytes_per_s: f64) -> bool {
        self.thorough_ns <= 0.0 || bytes_per_s / 1e9 * self.interval_ns >= self.least_bytes
    }

    /// How long it waits for enough, at most.
    fn wait_ns(&self, bytes_per_s: f64) -> f64 {
        (self.least_bytes / bytes_per_s.max(f64::MIN_POSITIVE) * 1e9).min(self.thorough_ns)
    }
}

/// What the rarer passes of a slow load come to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Slow {
    /// `commits` or `syncs`.
    pub(super) does: &'static str,
    /// The pages that an interval does not fill.
    pub(super) pages: f64,
    /// How long it may wait instead.
    pub(super) thorough_ns: f64,
}

impl Passes {
    /// Of a strategy as the profile sets it, or, where no profile tells, with `RocketMQ`'s values
    /// and the interval that was recorded.
    pub(super) fn of(kind: Kind, settings: Option<&Settings>, interval_ns: Option<f64>) -> Self {
        match (kind, settings) {
            (
                Kind::CommitRealtime,
                Some(Settings::CommitRealtime {
                    commit,
                    commit_least_pages,
                    commit_thorough,
                    interval,
                    least_pages,
                    thorough,
                    ..
                }),
            ) => Self {
                commit: Some(Lane::of(*commit, *commit_least_pages, *commit_thorough, true)),
                flush: Some(Lane::of(*interval, *least_pages, *thorough, false)),
            },
            (
                Kind::FlushRealtime,
                Some(Settings::FlushRealtime { interval, least_pages, thorough, timed, .. }),
            ) => Self {
                commit: None,
                flush: Some(Lane::of(*interval, *least_pages, *thorough, !timed)),
            },
            (Kind::CommitRealtime | Kind::FlushRealtime, _) => {
                let flush = Lane { interval_ns: interval_ns.unwrap_or(500e6), ..USUAL_FLUSH };
                let has_commit = kind == Kind::CommitRealtime;
                Self { commit: has_commit.then_some(USUAL_COMMIT), flush: Some(flush) }
            }
            (Kind::GroupCommit | Kind::None | Kind::Raw, _) => Self::default(),
        }
    }

    /// The same with another flush interval.
    pub(super) fn with_interval(self, interval_ns: f64) -> Self {
        Self { flush: self.flush.map(|lane| Lane { interval_ns, ..lane }), ..self }
    }

    /// The lane by which so many bytes a second lose more than faster loads do under this crash,
    /// the one that waits longest; `None` if passes come by interval.
    pub(super) fn slow(&self, model: LossModel, bytes_per_s: f64) -> Option<Slow> {
        let counted = |lane: &Lane| !lane.is_filled(bytes_per_s);
        let told = |does, lane: Lane| Slow {
            does,
            pages: lane.least_bytes / float(PAGE_SIZE),
            thorough_ns: lane.thorough_ns,
        };
        let flush = self.flush.filter(|_| model == LossModel::Power).filter(counted);
        let commit = self.commit.filter(counted);
        let flush = flush.map(|lane| told("syncs", lane));
        flush.or(commit.map(|lane| told("commits", lane)))
    }

    /// What so many bytes a second lose at most, by the settings and the longest sync that was
    /// measured.
    pub(super) fn bound_ns(&self, model: LossModel, bytes_per_s: f64, sync_ns: f64) -> f64 {
        let staged = self.commit.map_or(0.0, |lane| {
            // A commit writes less than a sync has written, and is not measured by itself.
            lane.thorough_ns.max(lane.interval_ns) + 2.0 * sync_ns
        });
        let flush = self.flush.filter(|_| model == LossModel::Power);
        let synced = flush.map_or(0.0, |lane| {
            // A pass that finds too little waits for the next one, and there is the sync before it.
            let waits = if lane.is_filled(bytes_per_s) { 0.0 } else { lane.thorough_ns };
            waits + lane.interval_ns + 2.0 * sync_ns
        });
        staged + synced
    }

    /// How much older what is lost gets at `bytes_per_s` than at the higher rate of a row, because
    /// the pages for which a woken lane waits fill more slowly; less than 0 at a higher one.
    pub(super) fn older_ns(&self, model: LossModel, bytes_per_s: f64, row_bytes_per_s: f64) -> f64 {
        let flush = self.flush.filter(|_| model == LossModel::Power);
        let woken = [self.commit, flush].into_iter().flatten().filter(|lane| lane.wakes);
        woken.map(|lane| lane.wait_ns(bytes_per_s) - lane.wait_ns(row_bytes_per_s)).sum()
    }

    /// Between two syncs at so many bytes a second; `None` for strategies without an interval, and
    /// where appends wake them.
    pub(super) fn between_syncs_ns(&self, bytes_per_s: f64) -> Option<f64> {
        let lane = self.flush.filter(|lane| !lane.wakes)?;
        let waits = if lane.is_filled(bytes_per_s) { 0.0 } else { lane.wait_ns(bytes_per_s) };
        Some(waits.max(lane.interval_ns))
    }
}

/// `RocketMQ`'s values.
const USUAL_FLUSH: Lane =
    Lane { interval_ns: 500e6, least_bytes: LEAST_BYTES, thorough_ns: 10e9, wakes: false };
/// Of the commit lane.
const USUAL_COMMIT: Lane =
    Lane { interval_ns: 200e6, least_bytes: LEAST_BYTES, thorough_ns: 200e6, wakes: true };
/// Four pages.
const LEAST_BYTES: f64 = 16_384.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Io, Prealloc};

    #[test]
    fn an_interval_counts_once_it_fills_the_least_pages() {
        let timed = Passes::of(Kind::FlushRealtime, None, Some(500e6));
        // Four pages in half a second.
        assert_eq!(timed.slow(LossModel::Power, 32_768.0), None);
        let slow = timed.slow(LossModel::Power, 32_767.0).unwrap();
        assert_eq!((slow.does, slow.pages, slow.thorough_ns), ("syncs", 4.0, 10e9));
        assert_eq!(timed.slow(LossModel::Process, 1.0), None, "the page cache has it");
        assert_eq!(timed.with_interval(100e6).slow(LossModel::Power, 32_768.0), Some(slow));
        assert_eq!(Some(timed.bound_ns(LossModel::Power, 1.0, 50e6)), Some(10.6e9));
        assert_eq!(timed.between_syncs_ns(32_768.0), Some(500e6));
        assert_eq!(timed.between_syncs_ns(8_192.0), Some(2e9));
        assert_eq!(timed.between_syncs_ns(1.0), Some(10e9));
        let sync = Passes::of(Kind::GroupCommit, None, None);
        assert_eq!((sync.slow(LossModel::Power, 1.0), sync.between_syncs_ns(1.0)), (None, None));
    }

    #[test]
    fn what_is_staged_waits_for_its_pages_too() {
        let staged = Passes::of(Kind::CommitRealtime, None, Some(500e6));
        // Four pages in 200 ms.
        assert_eq!(staged.slow(LossModel::Process, 81_920.0), None);
        assert_eq!(staged.slow(LossModel::Process, 81_919.0).unwrap().does, "commits");
        assert_eq!(staged.slow(LossModel::Power, 81_919.0).unwrap().does, "commits");
        assert_eq!(staged.slow(LossModel::Power, 32_767.0).unwrap().does, "syncs");
        assert_eq!(Some(staged.bound_ns(LossModel::Process, 1.0, 50e6)), Some(300e6));
        assert_eq!(Some(staged.bound_ns(LossModel::Power, 50_000.0, 50e6)), Some(900e6));
        // 16 ms at 1 MiB/s in place of 1 ms.
        let older = staged.older_ns(LossModel::Process, 1_024_000.0, 16_384_000.0);
        assert!((older - 15e6).abs() < 1.0, "{older}");
        assert_eq!(Some(staged.older_ns(LossModel::Process, 1.0, 1.0)), Some(0.0));
    }

    #[test]
    fn the_profile_says_which_pages_and_what_wakes() {
        let settings = Settings::FlushRealtime {
            interval: Duration::from_millis(100),
            least_pages: 8,
            thorough: Duration::from_secs(3),
            timed: false,
            io: Io::Mapped,
            prealloc: Prealloc::None,
        };
        let passes = Passes::of(Kind::FlushRealtime, Some(&settings), Some(1.0));
        let slow = passes.slow(LossModel::Power, 327_679.0).unwrap();
        assert_eq!((slow.pages, slow.thorough_ns), (8.0, 3e9));
        assert_eq!(passes.slow(LossModel::Power, 327_680.0), None);
        assert!(passes.older_ns(LossModel::Power, 1e6, 2e6) > 0.0, "an append wakes it");
        assert_eq!(passes.between_syncs_ns(1e6), None);
        // With no pages or no thorough interval every pass is worth it.
        let Settings::FlushRealtime { interval, timed, io, prealloc, .. } = settings else {
            unreachable!()
        };
        for (least_pages, thorough) in [(0, Duration::from_secs(3)), (8, Duration::ZERO)] {
            let all =
                Settings::FlushRealtime { interval, least_pages, thorough, timed, io, prealloc };
            let passes = Passes::of(Kind::FlushRealtime, Some(&all), None);
            assert_eq!(passes.slow(LossModel::Power, 1.0), None);
        }
    }
}
