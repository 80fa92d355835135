//! The highest rate at which a promise is kept.

use std::time::Duration;

use anyhow::Result;

use crate::cell::{self, Measured, Place, Setting};
use crate::clock::{float, nanos, round};
use crate::profile::{Arrival, Pace, Strategy, Workload};
use crate::results::{Cell, Status};

/// Measures a workload at the highest rate at which 99 of 100 messages are acknowledged within
/// `p99` and everything that is due is: it is searched for, in cells of which only the best is
/// kept. `None` if interrupted.
///
/// # Errors
///
/// As [`cell::measure`].
pub fn measure(
    setting: &Setting<'_>,
    place: &Place,
    strategy: &Strategy,
    workload: &Workload,
    (p99, arrival): (Duration, Arrival),
) -> Result<Option<Measured>> {
    let at = |pace| {
        let workload = Workload { pace, ..workload.clone() };
        cell::measure(setting, place, strategy, &workload)
    };
    let rate = |per_s| Pace::Rate { per_s, arrival, burst: None };
    // Producers that wait for each other give a rate to begin with, whatever they promise.
    let Some(closed) = at(Pace::Closed)? else { return Ok(None) };
    let begin = round(closed.cell.acked_per_s / 2.0).max(1);
    let mut best: Option<Measured> = None;
    let mut probe = |per_s: u64| -> Result<Option<bool>> {
        let Some(measured) = at(rate(per_s))? else { return Ok(None) };
        let kept = keeps(&measured.cell, p99);
        if kept || best.is_none() {
            best = Some(measured);
        }
        Ok(Some(kept))
    };
    let is_whole = highest(begin, &mut probe)?;
    Ok(best.filter(|_| is_whole))
}

/// Whether a cell keeps the promise.
fn keeps(cell: &Cell, p99: Duration) -> bool {
    let within = cell.open_loop.is_some_and(|open| open.due_to_ack_ns.p99 <= nanos(p99).get());
    within && !matches!(cell.status, Status::Overload | Status::Invalid)
}

/// Tries rates, beginning with `begin`, until the highest that is kept is known to five percent;
/// `false` if a probe was interrupted. The last probe that was kept is the highest.
fn highest(begin: u64, probe: &mut dyn FnMut(u64) -> Result<Option<bool>>) -> Result<bool> {
    let (mut kept, mut broken): (u64, Option<u64>) = (0, None);
    let mut rate = begin;
    for _ in 0..MOST_PROBES {
        match probe(rate)? {
            None => return Ok(false),
            Some(true) => kept = rate,
            Some(false) => broken = Some(rate),
        }
        rate = match broken {
            None => kept.saturating_mul(2),
            Some(broken) if kept == 0 => broken / 4,
            Some(broken) => kept.midpoint(broken),
        };
        let is_known = broken.is_some_and(|broken| float(broken) <= 1.05 * float(kept));
        if is_known || rate == kept || rate == 0 {
            break;
        }
    }
    Ok(true)
}

/// Enough for a factor of a thousand and five percent.
const MOST_PROBES: u32 = 14;
/// With the one that begins.
pub(crate) const MOST_CELLS: u32 = 1 + MOST_PROBES;

#[cfg(test)]
mod tests {
    use super::*;

    /// The rates that are tried if every rate up to `limit` is kept; the last that was kept first.
    fn tried(begin: u64, limit: u64) -> (u64, usize) {
        let (mut best, mut probes) = (0, 0);
        let is_whole = highest(begin, &mut |rate| {
            probes += 1;
            if rate <= limit {
                assert!(rate >= best, "the last that is kept is the highest");
                best = rate;
            }
            Ok(Some(rate <= limit))
        });
        assert!(is_whole.unwrap());
        (best, probes)
    }

    #[test]
    fn the_highest_rate_is_found_to_five_percent_from_wherever_it_begins() {
        for begin in [10, 900, 1000, 5000, 100_000] {
            let (best, probes) = tried(begin, 1000);
            assert!((950..=1000).contains(&best), "{best} from {begin}");
            assert!(probes <= 14, "{probes} from {begin}");
        }
    }

    #[test]
    fn a_promise_that_no_rate_keeps_ends_the_search() {
        let (best, probes) = tried(1000, 0);
        assert_eq!(best, 0);
        assert!(probes <= 6, "{probes}");
    }

    #[test]
    fn an_interrupted_probe_ends_it() {
        assert!(!highest(100, &mut |_| Ok(None)).unwrap());
    }
}
