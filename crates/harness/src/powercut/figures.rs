//! What cuts and gauge come to: spreads, the bound on violations, and whether the two agree.

use store_core::Nanos;
use store_os::{CommitEvent, FlushEvent};

use super::lab::Watched;
use super::plan::{CasePlan, Strategy};
use super::results::{Agreement, Bound, Case, Cut, End, Keep, Observed, State, Verdict};
use crate::clock::{float, nanos};
use crate::exposure::{DurableStep, Gauge};
use crate::results::Spread;

/// One fresh log under load: what was seen of it, and when cuts could fall.
#[derive(Clone, Debug, Default)]
pub struct Round {
    /// What was seen of it.
    pub watched: Watched,
    /// The windows of the cuts that were looked at, in order.
    pub windows: Vec<(Nanos, Nanos)>,
    /// When it ended.
    pub end: Nanos,
}

/// The record of a case, from its cuts and what was seen of its logs.
pub fn case(plan: &CasePlan, cuts: &[Cut], rounds: &[Round]) -> Case {
    let mut gauge = Gauge::default();
    for round in rounds {
        let step = |event: &FlushEvent| DurableStep { at: event.ended, durable: event.records };
        let steps: Vec<DurableStep> = round.watched.flushes.iter().map(step).collect();
        gauge.add(round.watched.between, &round.watched.acked, &steps, &round.windows);
    }
    let total = |count: fn(&Round) -> u64| rounds.iter().map(count).sum::<u64>();
    let acked = |round: &Round| round.watched.acked.last().map_or(0, |sample| sample.acked);
    let ran = |round: &Round| {
        round.watched.acked.first().map_or(0, |sample| round.end.since(sample.at).get())
    };
    let appended = total(|round| round.watched.appended);
    let record_bytes = total(|round| round.watched.log_bytes).checked_div(appended).unwrap_or(0);
    let exposure = gauge.exposure(record_bytes);
    let observed = observed(cuts);
    let windows = rounds.iter().flat_map(|round| &round.windows);
    Case {
        case: plan.name.clone(),
        strategy: plan.strategy.name().to_owned(),
        kind: plan.strategy.kind(),
        ack_at: plan.strategy.ack_at(),
        interval_ns: plan.interval.map(|interval| nanos(interval).get()),
        commit_ns: plan.commit().map(|commit| nanos(commit).get()),
        producers: plan.load.producers,
        rate_per_s: plan.load.rate_per_s.map(u64::from),
        message_bytes: plan.load.message_bytes.into(),
        record_bytes,
        acked: total(acked),
        measured_ns: windows.map(|(start, end)| end.since(*start).get()).sum(),
        ran_ns: total(ran),
        bound: bound(plan, rounds, exposure.age_ns.max),
        agreement: agreement(&exposure.messages, &observed, &losses(cuts)),
        gauge: exposure,
        gauge_messages: gauge.message_quantiles(DRAWN),
        observed,
    }
}

/// What a strategy promises to lose at most, by its settings and the longest sync; `oldest_ns` is
/// the greatest age that the gauge saw.
fn bound(plan: &CasePlan, rounds: &[Round], oldest_ns: u64) -> Bound {
    let took = |started: Nanos, ended: Nanos| ended.since(started).get();
    let flushes = || rounds.iter().map(|round| &round.watched.flushes);
    let commits = rounds.iter().flat_map(|round| &round.watched.commits);
    let sync = |event: &FlushEvent| took(event.started, event.ended);
    let commit = |event: &CommitEvent| took(event.started, event.ended);
    let longest_sync_ns = flushes().flatten().map(sync).max().unwrap_or(0);
    let longest_commit_ns = match plan.strategy {
        Strategy::Staged => commits.map(commit).max().unwrap_or(0),
        Strategy::Sync | Strategy::Timed => 0,
    };
    let Some(interval) = plan.interval.map(nanos) else {
        return Bound { longest_sync_ns, held: oldest_ns == 0, ..Bound::default() };
    };
    // How much later than asked for a pass came: from the end of a sync to the next one's start.
    let gap = |pair: &[FlushEvent]| pair[1].started.since(pair[0].ended);
    let late = |pair: &[FlushEvent]| gap(pair).since(interval).get();
    let late_ns = flushes().flat_map(|of_round| of_round.windows(2)).map(late).max().unwrap_or(0);
    let staged = plan.commit().map_or(0, |commit| nanos(commit).get());
    let age_ns = interval.get() + staged + 2 * longest_sync_ns + 2 * longest_commit_ns;
    let held = oldest_ns <= age_ns + late_ns + SAMPLING_NS;
    Bound { age_ns, longest_sync_ns, longest_commit_ns, late_ns, held }
}

/// What the cuts took and found.
pub fn observed(cuts: &[Cut]) -> Observed {
    let states = || cuts.iter().flat_map(|cut| &cut.states);
    let count = |which: fn(&State) -> bool| counted(states().filter(|state| which(state)));
    let checked = || cuts.iter().filter(|cut| is_checked(cut));
    let violated = counted(checked().filter(|cut| is_violated(cut)));
    let at_risk: Vec<u64> = cuts.iter().map(|cut| cut.at_risk).collect();
    let ages: Vec<u64> = worst(cuts).filter_map(|state| state.lost_age_ns).collect();
    let named = states().flat_map(|state| &state.violations);
    Observed {
        cuts: counted(cuts.iter()),
        checked: counted(checked()),
        states: counted(states()),
        torn_tails: count(|state| state.torn == Some(true)),
        unmountable: count(|state| state.end == End::Unmountable),
        refused_opens: count(|state| state.end == End::Refused),
        violated,
        violated_at_most: upper_bound(violated, counted(checked())),
        violations: named.take(NAMED).cloned().collect(),
        lost_messages: spread(&losses(cuts)),
        lost_quantiles: quantiles(losses(cuts)),
        lost_age_ns: spread(&ages),
        at_risk_messages: spread(&at_risk),
        above_gauge: counted(cuts.iter().flat_map(above)),
    }
}

/// The worst state of each cut.
fn worst(cuts: &[Cut]) -> impl Iterator<Item = &State> {
    cuts.iter().flat_map(|cut| &cut.states).filter(|state| state.keep == Keep::Nothing)
}

/// What the worst state of each cut lost, as far as it could be read.
pub fn losses(cuts: &[Cut]) -> Vec<u64> {
    worst(cuts).filter_map(|state| state.lost).collect()
}

/// The states of a cut that lost more than was at risk.
fn above(cut: &Cut) -> impl Iterator<Item = &State> {
    let at_risk = cut.at_risk;
    cut.states.iter().filter(move |state| state.lost.is_some_and(|lost| lost > at_risk))
}

fn is_checked(cut: &Cut) -> bool {
    !cut.states.is_empty() && cut.states.iter().all(|state| state.end == End::Recovered)
}

/// Whether a promise was broken. Losing more than was at risk is losing what had been synced.
fn is_violated(cut: &Cut) -> bool {
    cut.states.iter().any(|state| !state.violations.is_empty()) || above(cut).next().is_some()
}

fn counted<T>(items: impl Iterator<Item = T>) -> u32 {
    u32::try_from(items.count()).unwrap_or(u32::MAX)
}

/// Mean, median, p99 and greatest; percentiles by nearest rank.
pub fn spread(values: &[u64]) -> Spread {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let (Some(max), count) = (sorted.last(), sorted.len()) else { return Spread::default() };
    let rank = |percent: usize| sorted[(percent * count).div_ceil(100).max(1) - 1];
    Spread { mean: mean(values), p50: rank(50), p99: rank(99), max: *max }
}

/// The values in order, or so many of them at equal distances, the least and the greatest included.
fn quantiles(mut values: Vec<u64>) -> Vec<u64> {
    values.sort_unstable();
    let most = usize::try_from(DRAWN).unwrap_or(usize::MAX);
    match values.len().checked_sub(1) {
        Some(last) if last > most => (0..=most).map(|nth| values[nth * last / most]).collect(),
        _ => values,
    }
}

fn mean(values: &[u64]) -> f64 {
    let sum: f64 = values.iter().map(|value| float(*value)).sum();
    sum / float(store_core::length_u64(values.len()))
}

/// The highest share of violations that `violated` of `cuts` speak for, at 95 %, one-sided (Clopper
/// and Pearson): 1 − 0.05^(1/cuts), below 3/cuts, if there was none. `None` without a cut.
pub fn upper_bound(violated: u32, cuts: u32) -> Option<f64> {
    if cuts == 0 {
        return None;
    }
    if violated >= cuts {
        return Some(1.0);
    }
    // The share at which so few would be seen in 1 of 20 runs only. It falls as the share grows.
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if at_most(violated, cuts, middle) > 0.05 {
            low = middle;
        } else {
            high = middle;
        }
    }
    Some(high)
}

/// The chance of `few` or fewer of `cuts`, each with the chance `share`, which is within 0 and 1.
fn at_most(few: u32, cuts: u32, share: f64) -> f64 {
    // By logarithms: the first factor of 10 000 cuts is too small for a float.
    let (odds, mut log_term) = ((share / (1.0 - share)).ln(), f64::from(cuts) * (1.0 - share).ln());
    let mut sum = log_term.exp();
    for k in 1..=few {
        log_term += odds + (f64::from(cuts - k + 1) / f64::from(k)).ln();
        sum += log_term.exp();
    }
    sum
}

/// Whether what was lost at the cuts is what was at risk over time.
pub fn agreement(gauge: &Spread, observed: &Observed, losses: &[u64]) -> Agreement {
    let lost = observed.lost_messages;
    let ratio = |lost: f64, at_risk: f64| (at_risk > 0.0).then(|| lost / at_risk);
    let mut found = Agreement {
        mean_ratio: ratio(lost.mean, gauge.mean),
        p99_ratio: ratio(float(lost.p99), float(gauge.p99)),
        mean_uncertain: ratio(1.0, gauge.mean).zip(uncertain(losses)).map(|(per, by)| per * by),
        p99_interval: p99_interval(losses),
        verdict: Verdict::Disagrees,
    };
    found.verdict = if observed.above_gauge > 0 {
        Verdict::AboveGauge
    } else if losses.is_empty() {
        Verdict::TooFewCuts
    } else if gauge.max == 0 && lost.max == 0 {
        Verdict::NothingAtRisk
    } else if is_near(found.mean_ratio, 0.0) && is_near(found.p99_ratio, 0.0) {
        Verdict::Agrees
    } else if may_be_chance(&found, gauge.p99) {
        Verdict::TooFewCuts
    } else {
        Verdict::Disagrees
    };
    found
}

/// Whether so many cuts may miss mean and p99 by so much.
fn may_be_chance(found: &Agreement, gauge_p99: u64) -> bool {
    let Some((least, most)) = found.p99_interval else { return true };
    let gauge_p99 = float(gauge_p99);
    let low = gauge_p99 >= float(least) * (1.0 - TOLERANCE);
    let high = most.is_none_or(|most| gauge_p99 <= float(most) * (1.0 + TOLERANCE));
    is_near(found.mean_ratio, found.mean_uncertain.unwrap_or(1.0)) && low && high
}

fn is_near(ratio: Option<f64>, uncertain: f64) -> bool {
    ratio.is_some_and(|ratio| (ratio - 1.0).abs() <= TOLERANCE + uncertain)
}

/// Half of the mean's 95 % interval, by the normal law; `None` with fewer than two values.
fn uncertain(values: &[u64]) -> Option<f64> {
    let (count, centre) = (float(store_core::length_u64(values.len())), mean(values));
    let squares: f64 = values.iter().map(|value| (float(*value) - centre).powi(2)).sum();
    (values.len() > 1).then(|| 1.96 * (squares / (count - 1.0) / count).sqrt())
}

/// Between which values the p99 lies that cuts without end would have, at 95 %, by order
/// statistics; fewer than 368 give no upper one. `None` without a value.
fn p99_interval(values: &[u64]) -> Option<(u64, Option<u64>)> {
    let mut falling = values.to_vec();
    falling.sort_unstable_by(|a, b| b.cmp(a));
    let count = u32::try_from(falling.len()).unwrap_or(u32::MAX);
    // How many lie above the p99 follows the binomial law of 1 in 100.
    let most = (0..count).take_while(|above| at_most(*above, count, 0.01) <= 0.025).last();
    let least = (0..count).find(|above| at_most(*above, count, 0.01) >= 0.975)?;
    let nth = |nth: u32| usize::try_from(nth).ok().and_then(|nth| falling.get(nth)).copied();
    Some((nth(least)?, most.and_then(nth)))
}

/// How far cuts and gauge may be apart.
const TOLERANCE: f64 = 0.1;
/// Violations that are kept in words; the rest is in the lines of the cuts.
const NAMED: usize = 20;
/// Points of the gauge's distribution that are kept.
const DRAWN: u32 = 200;
/// Two samples of a millisecond: an age is read off a line between them.
const SAMPLING_NS: u64 = 2_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::powercut::results::CUT_SCHEMA;
    use crate::powercut::results_fixture::{cut, recovered};

    #[track_caller]
    fn near(found: f64, expect: f64) {
        assert!((found - expect).abs() < 1e-4 * expect.abs(), "{found} instead of {expect}");
    }

    #[test]
    fn percentiles_are_values_that_were_seen() {
        let values: Vec<u64> = (1..=300).rev().collect();
        let found = spread(&values);
        assert_eq!((found.p50, found.p99, found.max), (150, 297, 300));
        near(found.mean, 150.5);
        assert_eq!(spread(&[7]), Spread { mean: 7.0, p50: 7, p99: 7, max: 7 });
        assert_eq!(spread(&[]), Spread::default());
    }

    #[test]
    fn without_a_violation_the_bound_is_just_below_three_in_n() {
        for (violated, cuts, expect) in [
            (0, 1, 0.95),
            (0, 60, 0.048_70),
            (0, 300, 0.009_936),
            (0, 10_000, 2.995_28e-4),
            (1, 100, 0.046_56),
            (2, 10, 0.506_90),
            (300, 300, 1.0),
        ] {
            near(upper_bound(violated, cuts).unwrap(), expect);
        }
        assert_eq!(upper_bound(0, 0), None);
    }

    #[test]
    fn an_interval_of_p99_is_made_of_ranks() {
        // Of 300 three are expected above the p99; seven or fewer are in 98.8 of 100 runs, none is
        // in 4.9 of 100, which is too often for an upper end.
        let values: Vec<u64> = (1..=300).collect();
        assert_eq!(p99_interval(&values), Some((293, None)));
        // Of 1000: 16 or fewer in 97.4 of 100, 17 or fewer in 98.6; three or fewer in 1.0.
        let values: Vec<u64> = (1..=1000).collect();
        assert_eq!(p99_interval(&values), Some((983, Some(997))));
        assert_eq!(p99_interval(&[]), None);
        assert_eq!(p99_interval(&[5]), Some((5, None)));
    }

    fn compared(lost: impl IntoIterator<Item = u64>, gauge: Spread) -> Agreement {
        let cuts: Vec<Cut> =
            lost.into_iter().map(|lost| cut(u64::MAX, [recovered(lost)])).collect();
        agreement(&gauge, &observed(&cuts), &losses(&cuts))
    }

    const SAW_TOOTH: Spread = Spread { mean: 500.0, p50: 500, p99: 990, max: 1000 };

    #[test]
    fn cuts_that_sample_the_gauge_agree_with_it() {
        let found = compared((0..300).map(|n| n * 1000 / 299), SAW_TOOTH);
        assert_eq!(found.verdict, Verdict::Agrees);
        near(found.mean_ratio.unwrap(), 0.999_007);
        near(found.p99_ratio.unwrap(), 0.999_0);
        // √(1000² / 12) / √300 × 1.96 of 500.
        assert!((found.mean_uncertain.unwrap() - 0.065_3).abs() < 0.001, "{found:?}");
    }

    #[test]
    fn half_of_the_gauge_is_no_agreement_and_ten_cuts_decide_nothing() {
        let half = compared((0..300).map(|n| n * 500 / 299), SAW_TOOTH);
        assert_eq!(half.verdict, Verdict::Disagrees);
        let few = compared([100, 900, 300, 800, 50], SAW_TOOTH);
        assert_eq!(few.verdict, Verdict::TooFewCuts);
        assert_eq!(compared([], SAW_TOOTH).verdict, Verdict::TooFewCuts);
        let zero = compared([0; 300], SAW_TOOTH);
        assert_eq!(zero.verdict, Verdict::Disagrees, "nothing is lost though something is at risk");
    }

    #[test]
    fn where_nothing_is_at_risk_nothing_may_be_lost() {
        assert_eq!(compared([0; 9], Spread::default()).verdict, Verdict::NothingAtRisk);
        assert_eq!(compared([0, 1], Spread::default()).verdict, Verdict::Disagrees);
    }

    #[test]
    fn a_loss_above_the_gauge_is_a_violation_and_no_agreement() {
        let mut cuts: Vec<Cut> = (0..300).map(|n| cut(n * 3, [recovered(n * 3)])).collect();
        let gauge = Spread { mean: 450.0, p50: 450, p99: 890, max: 900 };
        let fine = observed(&cuts);
        assert_eq!((fine.above_gauge, fine.violated, fine.checked), (0, 0, 300));
        assert_eq!(agreement(&gauge, &fine, &losses(&cuts)).verdict, Verdict::Agrees);
        cuts[7].at_risk = 20;
        let found = observed(&cuts);
        assert_eq!((found.above_gauge, found.violated), (1, 1));
        near(found.violated_at_most.unwrap(), 0.015_715);
        assert_eq!(agreement(&gauge, &found, &losses(&cuts)).verdict, Verdict::AboveGauge);
    }

    #[test]
    fn a_cut_counts_as_checked_only_if_every_state_of_it_could_be_read() {
        let unread = |end| State { end, lost: None, torn: None, lost_age_ns: None, ..recovered(0) };
        let random = State { keep: Keep::Some, torn: Some(true), ..recovered(3) };
        let broken = State { violations: vec!["a lie".to_owned()], ..recovered(9) };
        let cuts = [
            cut(10, [recovered(4), random.clone()]),
            cut(10, [recovered(6), unread(End::Refused)]),
            cut(10, [unread(End::Unmountable), random]),
            cut(10, [broken, recovered(0)]),
            Cut { schema: CUT_SCHEMA.to_owned(), ..cut(10, []) },
        ];
        let found = observed(&cuts);
        assert_eq!((found.cuts, found.checked, found.states), (5, 2, 8));
        assert_eq!((found.torn_tails, found.unmountable, found.refused_opens), (2, 1, 1));
        assert_eq!((found.violated, found.violations.len()), (1, 1));
        assert_eq!(found.violations, ["a lie"]);
        near(found.violated_at_most.unwrap(), 0.974_68);
        assert_eq!(losses(&cuts), [4, 6, 9, 0], "of the worst state alone");
        assert_eq!(found.lost_messages.max, 9);
    }
}
