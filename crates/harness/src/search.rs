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
    let Some(known) = highest(begin, &mut probe)? else { return Ok(None) };
    let found: Option<Measured> = best.or(last);
    Ok(found.map(|mut measured| {
        promised(&mut measured.cell, p99, known);
        measured
    }))
}

/// Whether a cell keeps the promise.
fn keeps(cell: &Cell, p99: Duration) -> bool {
    let within = cell.open_loop.is_some_and(|open| open.due_to_ack_ns.p99 <= nanos(p99).get());
    within
        && !cell.is_too_often_late()
        && !matches!(cell.status, Status::Overload | Status::Invalid)
}

/// Records what was promised, and whether it is kept.
fn promised(cell: &mut Cell, p99: Duration, known: Known) {
    let kept = keeps(cell, p99);
    let Some(open) = &mut cell.open_loop else { return };
    open.promised_p99_ns = Some(nanos(p99).get());
    let is_firm = known == Known::Closely && open.due_to_ack_ns.count >= FEWEST_MESSAGES;
    let doubt = match known {
        _ if !kept => "",
        Known::Closely if is_firm => "",
        Known::Closely => ", by few messages",
        Known::FromBelow => ", and no rate was seen to break it",
        Known::Roughly => ", and the next rate that breaks it lies more than 5 % above",
    };
    let found = Check {
        code: "rate_found".to_owned(),
        level: match (kept, is_firm) {
            (true, true) => Level::Pass,
            (true, false) => Level::Warn,
            (false, _) => Level::Invalid,
        },
        value: format!(
            "p99 {} at {}/s{doubt}",
            format::duration(float(open.due_to_ack_ns.p99)),
            format::count(open.offered_per_s)
        ),
        rule: format!(
            "the highest rate was found, to 5 %, at which 99 of 100 are acknowledged within {}",
            format::duration(float(nanos(p99).get()))
        ),
    };
    validity::add(cell, found);
}

/// How much is known of the highest rate.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Known {
    /// A rate five percent above it, or less, breaks the promise; or the lowest does.
    Closely,
    /// No rate that was tried breaks it.
    FromBelow,
    /// One breaks it that is further above.
    Roughly,
}

/// Tries rates, beginning with `begin`, until the highest that is kept is known to five percent or
/// enough were tried; `None` if a probe was interrupted. The last probe that was kept is the
/// highest.
///
/// A rate is only broken if it is twice in turn: one stall of the machine's is not the strategy's.
fn highest(
    begin: u64,
    probe: &mut dyn FnMut(u64) -> Result<Option<bool>>,
) -> Result<Option<Known>> {
    let (mut kept, mut broken): (u64, Option<u64>) = (0, None);
    let mut rate = begin;
    for _ in 0..MOST_RATES {
        let mut told = probe(rate)?;
        if told == Some(false) {
            told = probe(rate)?;
        }
        match told {
            None => return Ok(None),
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
            return Ok(Some(Known::Closely));
        }
    }
    Ok(Some(if broken.is_some() { Known::Roughly } else { Known::FromBelow }))
}

/// Enough for a factor of some hundreds and five percent.
const MOST_RATES: u32 = 14;
/// Of fewer, the 99th percentile is the longest or nearly so.
const FEWEST_MESSAGES: u64 = 100;
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
        assert_eq!(is_whole.unwrap(), Some(Known::Closely), "from {begin}");
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
        assert_eq!(highest(100, &mut |_| Ok(None)).unwrap(), None);
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
        assert_eq!(highest(500, &mut probe).unwrap(), Some(Known::Closely));
        assert!((950..=1000).contains(&best), "{best}");
    }

    #[test]
    fn a_promise_is_kept_by_latencies_from_when_it_was_due_and_by_keeping_up() {
        let kept = |p99: u64, status: Status| {
            let mut found = results_fixture::cell(Kind::GroupCommit, 8, 0, |_| {});
            let due_to_ack_ns = Quantiles { p99, count: 100, ..Quantiles::default() };
            found.open_loop = Some(OpenLoop { due_to_ack_ns, ..results_fixture::open_loop() });
            found.status = status;
            let before = keeps(&found, Duration::from_millis(10));
            promised(&mut found, Duration::from_millis(10), Known::Closely);
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

    #[test]
    fn a_rate_that_may_not_be_the_highest_is_said_to_be_found_in_doubt() {
        let far = highest(1, &mut |rate| Ok(Some(rate <= 100_000))).unwrap();
        assert_eq!(far, Some(Known::FromBelow));
        let rough = highest(1, &mut |rate| Ok(Some(rate <= 1023))).unwrap();
        assert_eq!(rough, Some(Known::Roughly));
        let level = |known, count| {
            let mut found = results_fixture::cell(Kind::GroupCommit, 8, 0, |_| {});
            let due_to_ack_ns = Quantiles { p99: 1, count, ..Quantiles::default() };
            found.open_loop = Some(OpenLoop { due_to_ack_ns, ..results_fixture::open_loop() });
            promised(&mut found, Duration::from_millis(10), known);
            found.validity.last().unwrap().level
        };
        assert_eq!(level(Known::Closely, 100), Level::Pass);
        assert_eq!(level(Known::Closely, 99), Level::Warn);
        assert_eq!(level(Known::FromBelow, 100), Level::Warn);
        assert_eq!(level(Known::Roughly, 100), Level::Warn);
    }

    #[test]
    fn what_is_too_often_late_keeps_no_promise_however_short_its_deadline() {
        let mut found = results_fixture::cell(Kind::GroupCommit, 8, 0, |_| {});
        let due_to_ack_ns = Quantiles { p99: 1, count: 100, ..Quantiles::default() };
        found.open_loop = Some(OpenLoop { due_to_ack_ns, ..results_fixture::open_loop() });
        found.status = Status::Warn;
        (found.counts.acked, found.counts.timeouts) = (990, 10);
        assert!(keeps(&found, Duration::from_millis(10)));
        found.counts.timeouts = 11;
        assert!(!keeps(&found, Duration::from_millis(10)));
    }
}
