//! What table, chart and report say in the same words.

use super::results::{Case, Place, PlaceKind, PowerCuts, Verdict};
use crate::clock::float;
use crate::format;
use crate::results::Outcome;

/// The place of a run in a line: that it is no real disk comes first.
pub(crate) fn place(place: &Place) -> String {
    let file_system = place.file_system.as_ref().map(|name| format!("{name} on a "));
    format!("{} disk: {}{}", place.kind.label(), file_system.unwrap_or_default(), place.disk)
}

/// Cuts, seed and date; how it ended if it is not whole.
pub(crate) fn run(run: &PowerCuts) -> String {
    let planned = run.cuts_planned.saturating_mul(run.cases_planned);
    let made: u32 = run.cases.iter().map(|case| case.observed.cuts).sum();
    let cuts = match run.outcome {
        Outcome::Complete => format!("{} cuts for each", run.cuts_planned),
        Outcome::Failed => format!("failed after {made} of {planned} cuts"),
        Outcome::Interrupted | Outcome::Trimmed => {
            format!("interrupted after {made} of {planned} cuts")
        }
        Outcome::Running => format!("not ended, or killed, after {made} of {planned} cuts"),
    };
    format!("{cuts}, seed {}, {}", run.seed, format::utc(run.started_at_ms))
}

/// The load of a case, short: `10k/s` or `×4`.
pub(crate) fn load(case: &Case) -> String {
    match case.rate_per_s {
        Some(rate) => format!("{}/s", format::count(float(rate))),
        None => format!("×{}", case.producers),
    }
}

/// A share as `1.0 %`.
pub(crate) fn percent(share: f64) -> String {
    format!("{} %", format::count(100.0 * share))
}

/// What the place says about the figures.
pub(crate) fn standing(kind: PlaceKind) -> &'static str {
    match kind {
        PlaceKind::Emulated => {
            "EMULATED disk under a real file system: times are those of the emulation; what a cut \
             takes is what the kernel had not synced"
        }
        PlaceKind::Simulated => {
            "SIMULATED disk and file system under a virtual clock: times are those of the model"
        }
    }
}

/// What the two halves of the table are.
pub(crate) const AT_RISK_AND_LOST: [&str; 4] = [
    "promised: the age of what is lost at most: interval, staging and twice the longest sync",
    "at risk: age of the oldest acknowledged message that no sync covers, and how many there are, \
     by the log's own marks, weighted by time",
    "lost: the same of what was gone when the worst state of each cut (none of the disk's volatile \
     cache kept) had been mounted, opened and read",
    "agree: mean and p99 lost are within 10 % of those at risk (the larger difference stands \
     below), and no cut lost more than was at risk at its moment",
];

/// That the bound did not hold.
pub(crate) fn not_held(case: &Case) -> String {
    let time = |ns: u64| format::duration(float(ns));
    format!(
        "{}: something was at risk for {}, longer than promised even with the {} that the flush \
         lane came late",
        case.case,
        time(case.gauge.age_ns.max),
        time(case.bound.late_ns)
    )
}

/// That a cut took more than was at risk.
pub(crate) fn above(case: &Case) -> String {
    format!(
        "{}: {} lost more than the log's marks said was at risk: it had called durable what was \
         not",
        case.case,
        format::plural(usize::try_from(case.observed.above_gauge).unwrap_or(usize::MAX), "state")
    )
}

/// What a case comes to, in a sentence.
pub(crate) fn sentence(case: &Case) -> String {
    let observed = &case.observed;
    let bound = observed.violated_at_most.map_or_else(
        || "no cut could be checked".to_owned(),
        |most| format!("at most {} of cuts do, at 95 %", percent(most)),
    );
    let lost = &observed.lost_messages;
    let took = if lost.max == 0 {
        "they took nothing that was acknowledged".to_owned()
    } else {
        format!(
            "they took {} acknowledged messages on average and {} at most, the oldest {} old",
            format::count(lost.mean),
            format::count(float(lost.max)),
            format::duration(float(observed.lost_age_ns.max))
        )
    };
    format!(
        "{}: of {} cuts {} broke a promise ({bound}); {took}. {}",
        case.case,
        observed.cuts,
        observed.violated,
        agreement(case)
    )
}

/// Whether gauge and cuts agree, in a sentence.
pub(crate) fn agreement(case: &Case) -> String {
    let apart = apart(case);
    match case.agreement.verdict {
        Verdict::AboveGauge => "More was lost than the log's marks said was at risk.".to_owned(),
        Verdict::Agrees => format!("That is what the log's marks said was at risk ({apart})."),
        Verdict::Disagrees => {
            format!("The log's marks said otherwise ({apart}), and not for want of cuts.")
        }
        Verdict::NothingAtRisk => "By the log's marks nothing was ever at risk.".to_owned(),
        Verdict::TooFewCuts => {
            format!("Too few cuts to tell whether the log's marks agree ({apart}).")
        }
    }
}

/// How far cuts and gauge are apart, short.
pub(crate) fn apart(case: &Case) -> String {
    let found = &case.agreement;
    let off = |ratio: Option<f64>| {
        ratio.map_or_else(|| "–".to_owned(), |ratio| signed_percent(ratio - 1.0))
    };
    match found.verdict {
        Verdict::NothingAtRisk => "nothing at risk".to_owned(),
        _ => format!("mean {}, p99 {}", off(found.mean_ratio), off(found.p99_ratio)),
    }
}

/// The larger of both differences; nothing if nothing was at risk.
pub(crate) fn furthest(case: &Case) -> String {
    let ratios = [case.agreement.mean_ratio, case.agreement.p99_ratio];
    let off = ratios.into_iter().flatten().map(|ratio| ratio - 1.0);
    let most = off.max_by(|a, b| a.abs().total_cmp(&b.abs()));
    most.map_or_else(String::new, signed_percent)
}

fn signed_percent(share: f64) -> String {
    // Whatever rounds to 0 has no sign.
    let percent = (100.0 * share).round() + 0.0;
    if percent.abs() < 1000.0 { format!("{percent:+.0} %") } else { ">1000 %".to_owned() }
}
