//! The highest rate at which a promise is kept.

use std::time::Duration;

use anyhow::Result;

use crate::cell::{self, Measured, Place, Setting};
use crate::clock::{float, nanos, round};
use crate::profile::{Arrival, Pace, Strategy, Workload};
use crate::results::{Cell, Check, Level, Status};
use crate::{format, validity};

/// Measures a workload at the highest rate at which 99 of 100 messages are acknowledged within
/// `p99` and everything that is due is sent: it is searched for, in cells of which only the best is
/// kept. Where no rate keeps the promise the cell says so, and is invalid. `None` if interrupted.
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
    let (mut best, mut last) = (None, None);
    let mut probe = |per_s: u64| -> Result<Option<bool>> {
        let Some(measured) = at(rate(per_s))? else { return Ok(None) };
        let kept = keeps(&measured.cell, p99);
        *(if kept { &mut best } else { &mut last }) = Some(measured);
        Ok(Some(kept))
    };
    if !highest(begin, &mut probe)? {
        return Ok(None);
    }
    let found: Option<Measured> = best.or(last);
    Ok(found.map(|mut measured| {
        promised(&mut measured.cell, p99);
        measured
    }))
}

/// Whether a cell keeps the promise.
fn keeps(cell: &Cell, p99: Duration) -> bool {
    let within = cell.open_loop.is_some_and(|open| open.due_to_ack_ns.p99 <= nanos(p99).get());
    within && !matches!(cell.status, Status::Overload | Status::Invalid)
}

/// Records what was promised, and whether it is kept.
fn promised(cell: &mut Cell, p99: Duration) {
    let kept = keeps(cell, p99);
    let Some(open) = &mut cell.open_loop else { return };
    open.promised_p99_ns = Some(nanos(p99).get());
    let found = Check {
        code: "rate_found".to_owned(),
        level: if kept { Level::Pass } else { Level::Invalid },
        value: format!(
            "p99 {} at {}/s",
            format::duration(float(open.due_to_ack_ns.p99)),
            format::count(open.offered_per_s)
        ),
        rule: format!(
            "a rate was found at which 99 of 100 are acknowledged within {}",
            format::duration(float(nanos(p99).get()))
        ),
    };
    validity::add(cell, found);
}

/// Tries rates, beginning with `begin`, until the highest that is kept is known to five percent;
/// `false` if a probe was interrupted. The last probe that was kept is the highest.
///
/// A rate is only broken if it is twice in turn: one stall of the machine's is not the strategy's.
fn highest(begin: u64, probe: &mut dyn FnMut(u64) -> Result<Option<bool>>) -> Result<bool> {
    let (mut kept, mut broken): (u64, Option<u64>) = (0, None);
    let mut rate = begin;
    for _ in 0..MOST_RATES {
        let mut told = probe(rate)?;
        if told == Some(false) {
            told = probe(rate)?;
        }
        match told {
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
const MOST_RATES: u32 = 14;
/// With the one that begins, and each rate tried twice.
pub(crate) const MOST_CELLS: u32 = 1 + 2 * MOST_RATES;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Kind, OpenLoop, Quantiles};
    use crate::results_fixture;

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
            assert!(probes <= 22, "{probes} from {begin}");
        }
    }

    #[test]
    fn a_promise_that_no_rate_keeps_ends_the_search() {
        let (best, probes) = tried(1000, 0);
        assert_eq!(best, 0);
        assert!(probes <= 12, "{probes}");
    }

    #[test]
    fn an_interrupted_probe_ends_it() {
        assert!(!highest(100, &mut |_| Ok(None)).unwrap());
    }

    #[test]
    fn one_stall_does_not_break_a_rate() {
        let (mut best, mut tried) = (0, Vec::new());
        let mut probe = |rate| {
            // Each rate is disturbed when it is tried first.
            let kept = rate <= 1000 && tried.contains(&rate);
            tried.push(rate);
            if kept {
                best = rate;
            }
            Ok(Some(kept))
        };
        assert!(highest(500, &mut probe).unwrap());
        assert!((950..=1000).contains(&best), "{best}");
    }

    #[test]
    fn a_promise_is_kept_by_latencies_from_when_it_was_due_and_by_keeping_up() {
        let kept = |p99: u64, status: Status| {
            let mut found = results_fixture::cell(Kind::GroupCommit, 8, 0, |_| {});
            let due_to_ack_ns = Quantiles { p99, ..Quantiles::default() };
            found.open_loop = Some(OpenLoop { due_to_ack_ns, ..results_fixture::open_loop() });
            found.status = status;
            let before = keeps(&found, Duration::from_millis(10));
            promised(&mut found, Duration::from_millis(10));
            let check = found.validity.last().map(|check| check.level);
            assert_eq!(check, Some(if before { Level::Pass } else { Level::Invalid }));
            assert_eq!(found.open_loop.unwrap().promised_p99_ns, Some(10_000_000));
            before
        };
        assert!(kept(10_000_000, Status::Valid));
        assert!(!kept(10_000_001, Status::Valid), "whatever the service time is");
        assert!(!kept(1, Status::Overload));
        assert!(!kept(1, Status::Invalid));
    }
}
