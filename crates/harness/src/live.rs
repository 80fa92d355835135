//! What a run is doing at this moment, for whoever shows it from another thread.
//!
//! A cell tells its phase and, ten times a second, the row of its series that it keeps anyway, so
//! that being looked at costs it one lock that nobody holds for long.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use store_core::Nanos;

use crate::clock::{float, now};
use crate::results::AckPromise;
use crate::series::Row;
use crate::vmstat::Pages;

/// The moment of a run.
#[derive(Debug, Default)]
pub struct Live(Mutex<Moment>);

/// One look at it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Moment {
    /// The cell, in the run's words.
    pub cell: String,
    /// What the cell is at.
    pub phase: Phase,
    /// For how long.
    pub passed: Duration,
    /// How long that is planned to take; zero if that is not known.
    pub planned: Duration,
    /// What was seen of a measured cell, from the second row on.
    pub seen: Option<Seen>,
    since: Nanos,
}

/// What a cell is at.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Phase {
    /// Disks are made, files removed.
    #[default]
    Preparing,
    /// Until little is dirty, and nobody at work.
    Resting,
    /// Producers run, and nothing counts.
    WarmingUp,
    /// It counts.
    Measuring,
}

/// What a cell shows while it is measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seen {
    /// Acknowledged messages per second, over the last second.
    pub acked_per_s: f64,
    /// The longest append of the last second.
    pub worst_append: Nanos,
    /// What a kill of the process would take now.
    pub process: AtRisk,
    /// What a power cut would take now.
    pub power: AtRisk,
    /// The whole machine's dirty pages.
    pub pages: Option<Pages>,
}

/// Acknowledged, and not safe.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct AtRisk {
    /// Log bytes.
    pub bytes: u64,
    /// How old the oldest of them is, to a tenth of a second.
    pub age: Duration,
    /// It is older than what was watched: its age is a lower bound.
    pub at_least: bool,
}

impl Live {
    /// Now.
    pub fn moment(&self) -> Moment {
        let mut moment = self.lock().clone();
        moment.passed = Duration::from_nanos(now().since(moment.since).get());
        moment
    }

    /// A cell begins.
    pub fn begin(&self, cell: String) {
        *self.lock() = Moment { cell, since: now(), ..Moment::default() };
    }

    /// The cell is at this from now on.
    pub fn enter(&self, phase: Phase, planned: Duration) {
        let mut moment = self.lock();
        *moment = Moment {
            cell: std::mem::take(&mut moment.cell),
            phase,
            planned,
            since: now(),
            ..Moment::default()
        };
    }

    /// The cell has a new row.
    pub fn show(&self, rows: &[Row], promise: AckPromise) {
        if let Some(seen) = Seen::of(rows, promise) {
            self.lock().seen = Some(seen);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Moment> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seen {
    /// `None` until there are two rows.
    fn of(rows: &[Row], promise: AckPromise) -> Option<Self> {
        let (last, before) = rows.split_last()?;
        let first = before.iter().rev().take(A_SECOND).next_back()?;
        let passed = float(last.at.since(first.at).get()) / 1e9;
        let recent = &rows[rows.len().saturating_sub(A_SECOND)..];
        let [process, power] = match promise {
            AckPromise::Flushed => [AtRisk::default(); 2],
            AckPromise::Committed | AckPromise::Wrote => [
                AtRisk::beyond(last.marks.committed().get(), rows),
                AtRisk::beyond(last.marks.flushed().get(), rows),
            ],
        };
        Some(Self {
            acked_per_s: float(last.acked - first.acked) / passed,
            worst_append: recent.iter().map(|row| row.worst_append).max()?,
            process,
            power,
            pages: last.pages,
        })
    }
}

impl AtRisk {
    /// What was written beyond a mark, and how long ago it was all within it.
    fn beyond(mark: u64, rows: &[Row]) -> Self {
        let wrote = |row: &Row| row.marks.wrote().get();
        let Some(last) = rows.last() else { return Self::default() };
        let bytes = wrote(last).saturating_sub(mark);
        if bytes == 0 {
            return Self::default();
        }
        let safe = rows.iter().rev().find(|row| wrote(row) <= mark);
        let age = safe.or(rows.first()).map_or(0, |row| last.at.since(row.at).get());
        Self { bytes, age: Duration::from_nanos(age), at_least: safe.is_none() }
    }
}

/// Rows in a second.
const A_SECOND: usize = 10;

#[cfg(test)]
mod tests {
    use store_core::{LogOffset, Watermarks};

    use super::*;

    /// A row each 100 ms: a thousand messages of a kilobyte more in each of the last ten, half as
    /// many before; the flush three behind.
    fn rows(count: u64) -> Vec<Row> {
        let at = |row: u64| LogOffset::new(row * 1_000_000);
        (1..=count)
            .map(|row| Row {
                at: Nanos::from_millis(100 * row),
                acked: row * 500 + row.saturating_sub(count.saturating_sub(10)) * 500,
                marks: Watermarks::new(
                    at(row),
                    at(row.saturating_sub(1)),
                    at(row.saturating_sub(3)),
                ),
                flushes: row,
                worst_append: Nanos::new(1000 * (count - row)),
                p99_append: Nanos::new(0),
                pages: None,
                tail: None,
                deleted: 0,
            })
            .collect()
    }

    #[test]
    fn a_moment_is_what_the_last_second_was() {
        let live = Live::default();
        live.begin("block 1, sync".to_owned());
        live.enter(Phase::Measuring, Duration::from_secs(2));
        live.show(&rows(1), AckPromise::Wrote);
        assert_eq!(live.moment().seen, None, "one row gives no rate");
        live.show(&rows(20), AckPromise::Wrote);
        let Moment { cell, phase, planned, seen, .. } = live.moment();
        assert_eq!((cell.as_str(), phase), ("block 1, sync", Phase::Measuring));
        assert_eq!(planned, Duration::from_secs(2));
        let seen = seen.unwrap();
        assert!((seen.acked_per_s - 10_000.0).abs() < 1e-6, "{seen:?}");
        assert_eq!(seen.worst_append, Nanos::new(9000), "that of the last ten rows");
        let hundreds = |count: u64| Duration::from_millis(100 * count);
        let at_risk = |bytes, age| AtRisk { bytes, age, at_least: false };
        assert_eq!(seen.process, at_risk(1_000_000, hundreds(1)));
        assert_eq!(seen.power, at_risk(3_000_000, hundreds(3)));
        live.enter(Phase::Resting, Duration::ZERO);
        let moment = live.moment();
        assert_eq!((moment.cell.as_str(), moment.seen), ("block 1, sync", None));
    }

    #[test]
    fn what_is_acknowledged_when_it_is_safe_is_never_at_risk() {
        let seen = Seen::of(&rows(20), AckPromise::Flushed).unwrap();
        assert_eq!([seen.process, seen.power], [AtRisk::default(); 2]);
    }

    #[test]
    fn what_was_never_safe_is_as_old_as_the_time_that_was_watched() {
        let mut rows = rows(4);
        rows.remove(0);
        let seen = Seen::of(&rows, AckPromise::Committed).unwrap();
        assert_eq!((seen.power.age, seen.power.at_least), (Duration::from_millis(200), true));
    }
}
