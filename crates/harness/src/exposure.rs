//! What a crash would take: the gap between what was acknowledged and what survives, over time.
//!
//! `A(t)` counts acknowledged messages, `D(t)` durable ones. Exposure is `max(0, A − D)`; its age
//! is the time since `A` first exceeded `D(t)`. Both are weighted by time, because a crash comes at
//! a random moment. `D` is known exactly: it steps when a sync returns. `A` is sampled every
//! few milliseconds; between samples it is a straight line where acknowledgements come one by one,
//! and keeps the earlier value where they come in groups, right after a sync ([`Between`]).

use hdrhistogram::Histogram;
use store_core::Nanos;

use crate::clock::{float, round};
use crate::distribution::{record_size, sizes};
use crate::results::{Exposure, Spread};

/// Acknowledged messages at a moment; both never go back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AckSample {
    /// When.
    pub at: Nanos,
    /// Messages acknowledged since the log was opened.
    pub acked: u64,
}

/// Messages that survive from a moment on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DurableStep {
    /// When.
    pub at: Nanos,
    /// Messages since the log was opened that survive a crash from now on.
    pub durable: u64,
}

/// How acknowledgements come between two samples.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Between {
    /// Evenly: asynchronous acknowledgement.
    #[default]
    Line,
    /// At once, at the later sample: a group after its sync. A line would count half a group as
    /// acknowledged before its sync returned.
    Step,
}

/// Exposure between `start` and `end`, for records of `record_bytes` each.
///
/// Samples and steps are in the order of time, beginning before `start`; samples reach `end`.
pub fn exposure(
    between: Between,
    samples: &[AckSample],
    steps: &[DurableStep],
    start: Nanos,
    end: Nanos,
    record_bytes: u64,
) -> Exposure {
    let mut gauge = Gauge::default();
    gauge.add(between, samples, steps, &[(start, end)]);
    gauge.exposure(record_bytes)
}

/// Exposure over some stretches of time, with its whole distribution.
#[derive(Debug, Default)]
pub struct Gauge {
    ages: Weighted,
    messages: Weighted,
}

impl Gauge {
    /// Adds what one log risked over `windows`, each from its start to its end, in the order of
    /// time and apart from each other. Samples and steps as for [`exposure`].
    pub fn add(
        &mut self,
        between: Between,
        samples: &[AckSample],
        steps: &[DurableStep],
        windows: &[(Nanos, Nanos)],
    ) {
        let mut walk = Walk::new(between, samples, steps);
        for &(start, end) in windows {
            let mut from = start;
            for until in moments(samples, steps, start, end) {
                if until > from {
                    let [before, after] = walk.interval(from, until);
                    let weight = until.since(from).get();
                    self.messages.add(before.0, after.0, weight);
                    self.ages.add(before.1, after.1, weight);
                }
                from = until;
            }
        }
    }

    /// Its figures, for records of `record_bytes` each.
    pub fn exposure(&self, record_bytes: u64) -> Exposure {
        Exposure {
            age_ns: self.ages.spread(1),
            bytes: self.messages.spread(record_bytes),
            messages: self.messages.spread(1),
        }
    }

    /// How long the oldest message at risk had been acknowledged, in nanoseconds, 0 where none was:
    /// each value counted by the nanoseconds that it held.
    pub fn age_histogram(&self) -> Histogram<u64> {
        self.ages.histogram(1)
    }

    /// The bytes at risk, for records of `record_bytes` each, counted as the ages are.
    pub fn bytes_histogram(&self, record_bytes: u64) -> Histogram<u64> {
        self.messages.histogram(record_bytes)
    }

    /// The messages at risk at `count` + 1 ends of equal shares of time, from the least to the
    /// most; empty if there was no time.
    pub fn message_quantiles(&self, count: u32) -> Vec<f64> {
        self.messages.quantiles(count)
    }
}

/// When the messages acknowledged first exceeded `count`; `None` if they never did.
pub fn exceeded_at(between: Between, samples: &[AckSample], count: u64) -> Option<Nanos> {
    let right = samples.partition_point(|sample| sample.acked <= count);
    let after = samples.get(right)?;
    let before = right.checked_sub(1).map(|left| samples[left]);
    let Some(before) = before.filter(|_| between == Between::Line) else { return Some(after.at) };
    let share = float(count - before.acked) / float(after.acked - before.acked);
    Some(before.at.after(Nanos::new(round(share * float(after.at.since(before.at).get())))))
}

/// Where a curve bends within the range, in order, ending with `end`.
fn moments(samples: &[AckSample], steps: &[DurableStep], start: Nanos, end: Nanos) -> Vec<Nanos> {
    let samples = &samples[samples.partition_point(|sample| sample.at <= start)..];
    let steps = &steps[steps.partition_point(|step| step.at <= start)..];
    let mut moments: Vec<Nanos> = samples
        .iter()
        .map(|sample| sample.at)
        .take_while(|at| *at < end)
        .chain(steps.iter().map(|step| step.at).take_while(|at| *at < end))
        .collect();
    moments.push(end);
    moments.sort_unstable();
    moments
}

/// Goes through both curves once, from left to right.
struct Walk<'a> {
    between: Between,
    samples: &'a [AckSample],
    steps: &'a [DurableStep],
    durable: u64,
    /// The first sample after the last whose `acked` does not exceed `durable`.
    crossing: usize,
    /// The first sample after the current time.
    ahead: usize,
}

impl<'a> Walk<'a> {
    fn new(between: Between, samples: &'a [AckSample], steps: &'a [DurableStep]) -> Self {
        Self { between, samples, steps, durable: 0, crossing: 0, ahead: 0 }
    }

    /// Gap and age right after `from` and right before `until`, between which `D` is constant.
    fn interval(&mut self, from: Nanos, until: Nanos) -> [(f64, f64); 2] {
        while let [step, rest @ ..] = self.steps
            && step.at <= from
        {
            self.durable = self.durable.max(step.durable);
            self.steps = rest;
        }
        while self.samples.get(self.crossing).is_some_and(|sample| sample.acked <= self.durable) {
            self.crossing += 1;
        }
        [from, until].map(|at| {
            let acked = match self.between {
                Between::Line => self.acked(at),
                // What is acknowledged at `until` itself belongs to the next interval.
                Between::Step => self.acked(from),
            };
            let gap = (acked - float(self.durable)).max(0.0);
            let age = if gap > 0.0 { float(at.get()) - self.exceeded_at() } else { 0.0 };
            (gap, age.max(0.0))
        })
    }

    /// `A(at)`.
    fn acked(&mut self, at: Nanos) -> f64 {
        while self.samples.get(self.ahead).is_some_and(|sample| sample.at <= at) {
            self.ahead += 1;
        }
        match (
            self.ahead.checked_sub(1).map(|index| self.samples[index]),
            self.samples.get(self.ahead),
        ) {
            (Some(left), Some(_)) if self.between == Between::Step => float(left.acked),
            (Some(left), Some(right)) => {
                let share = float(at.since(left.at).get()) / float(right.at.since(left.at).get());
                float(left.acked) + share * float(right.acked - left.acked)
            }
            (Some(last), None) => float(last.acked),
            (None, _) => 0.0,
        }
    }

    /// When `A` first exceeded `D`, in nanoseconds.
    fn exceeded_at(&self) -> f64 {
        match (self.crossing.checked_sub(1), self.samples.get(self.crossing)) {
            (Some(_), Some(right)) if self.between == Between::Step => float(right.at.get()),
            (Some(left), Some(right)) => {
                let left = self.samples[left];
                let share = float(self.durable - left.acked) / float(right.acked - left.acked);
                float(left.at.get()) + share * float(right.at.since(left.at).get())
            }
            (None, Some(first)) => float(first.at.get()),
            (_, None) => f64::INFINITY,
        }
    }
}

/// Values with the time they held.
#[derive(Debug, Default)]
struct Weighted {
    values: Vec<(f64, u64)>,
    max: f64,
}

impl Weighted {
    /// A straight line from one value to another.
    fn add(&mut self, from: f64, to: f64, weight: u64) {
        self.values.push((f64::midpoint(from, to), weight));
        self.max = self.max.max(from).max(to);
    }

    fn sorted(&self) -> Vec<(f64, u64)> {
        let mut values = self.values.clone();
        values.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        values
    }

    /// The values in units of `unit`, rounded, each counted by the time that it held.
    fn histogram(&self, unit: u64) -> Histogram<u64> {
        let mut histogram = sizes();
        for (value, weight) in &self.values {
            record_size(&mut histogram, round(float(unit) * *value), *weight);
        }
        histogram
    }

    fn spread(&self, unit: u64) -> Spread {
        let values = self.sorted();
        let total: u64 = values.iter().map(|(_, weight)| weight).sum();
        if total == 0 {
            return Spread::default();
        }
        let unit = float(unit);
        let sum: f64 = values.iter().map(|(value, weight)| value * float(*weight)).sum();
        Spread {
            mean: unit * sum / float(total),
            p50: round(unit * at_share(&values, 0.5 * float(total))),
            p99: round(unit * at_share(&values, 0.99 * float(total))),
            max: round(unit * self.max),
        }
    }

    fn quantiles(&self, count: u32) -> Vec<f64> {
        let values = self.sorted();
        let total: u64 = values.iter().map(|(_, weight)| weight).sum();
        if total == 0 {
            return Vec::new();
        }
        let share = |nth| float(total) * f64::from(nth) / f64::from(count.max(1));
        let mut quantiles: Vec<f64> = (0..count).map(|nth| at_share(&values, share(nth))).collect();
        quantiles.push(self.max);
        quantiles
    }
}

/// The value that is not exceeded for this much of the time; `values` are in order.
fn at_share(values: &[(f64, u64)], time: f64) -> f64 {
    let mut passed = 0;
    let found = values.iter().find(|(_, weight)| {
        passed += weight;
        float(passed) >= time
    });
    found.map_or(0.0, |(value, _)| *value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at: u64, acked: u64) -> AckSample {
        AckSample { at: Nanos::new(at), acked }
    }

    fn step(at: u64, durable: u64) -> DurableStep {
        DurableStep { at: Nanos::new(at), durable }
    }

    fn close(found: f64, expect: f64) -> bool {
        (found - expect).abs() <= 1e-6 * expect.abs().max(1.0)
    }

    /// One message a nanosecond, a sync each 1000 that covers all: a saw-tooth.
    #[test]
    fn a_saw_tooth_has_its_known_mean_and_maximum() {
        let samples: Vec<_> = (0..=100).map(|n| sample(n * 100, n * 100)).collect();
        let steps: Vec<_> = (1..=10).map(|n| step(n * 1000, n * 1000)).collect();
        let found =
            exposure(Between::Line, &samples, &steps, Nanos::new(1000), Nanos::new(9000), 10);
        assert!(close(found.messages.mean, 500.0), "{found:?}");
        assert_eq!(found.messages.max, 1000);
        assert_eq!(found.bytes.max, 10_000);
        assert!(close(found.age_ns.mean, 500.0), "{found:?}");
        assert_eq!(found.age_ns.max, 1000);
        assert_eq!(found.age_ns.p50, 450, "the middle of the tenth of ten pieces of 100");
        assert_eq!(found.age_ns.p99, 950);
    }

    #[test]
    fn ages_are_counted_by_the_time_they_held() {
        // Nothing at risk to 2000; then from 0 to 1000 within as long.
        let samples = [sample(0, 0), sample(2000, 0), sample(3000, 10)];
        let mut gauge = Gauge::default();
        let windows = [(Nanos::new(1000), Nanos::new(3000))];
        gauge.add(Between::Line, &samples, &[], &windows);
        let ages = gauge.age_histogram();
        assert_eq!((ages.len(), ages.count_at(0)), (2000, 1000));
        assert_eq!(ages.value_at_quantile(0.99), 500, "the middle of the only piece at risk");
        assert!(Gauge::default().age_histogram().is_empty());
        let bytes = gauge.bytes_histogram(1000);
        assert_eq!((bytes.len(), bytes.count_at(0)), (2000, 1000));
        assert_eq!(bytes.max(), bytes.highest_equivalent(5000), "half of ten of 1000 bytes each");
    }

    /// A sync covers what was acknowledged when it began: the age never falls below its length.
    #[test]
    fn what_came_during_a_sync_stays_exposed() {
        let samples: Vec<_> = (0..=100).map(|n| sample(n * 100, n * 100)).collect();
        let steps: Vec<_> = (1..=10).map(|n| step(n * 1000, n * 1000 - 300)).collect();
        let found =
            exposure(Between::Line, &samples, &steps, Nanos::new(1000), Nanos::new(9000), 1);
        assert!(close(found.age_ns.mean, 800.0), "{found:?}");
        assert_eq!(found.age_ns.max, 1300);
        assert_eq!(found.messages.max, 1300);
    }

    #[test]
    fn acknowledged_after_the_sync_means_no_exposure() {
        let samples: Vec<_> = (0..=100).map(|n| sample(n * 100, n)).collect();
        let steps: Vec<_> =
            (0..=100).map(|n| step((n * 100_u64).saturating_sub(50), n + 1)).collect();
        let found =
            exposure(Between::Line, &samples, &steps, Nanos::new(1000), Nanos::new(9000), 1);
        assert_eq!(found, Exposure::default());
    }

    /// Groups of 64, acknowledged right after each sync, sampled now and then.
    #[test]
    fn a_group_acknowledged_after_its_sync_is_not_exposed_between_samples() {
        let samples: Vec<_> = (0..=90).map(|n| sample(n * 100, n * 100 / 170 * 64)).collect();
        let steps: Vec<_> = (0..=60).map(|n| step(n * 170, n * 64)).collect();
        let range = (Nanos::new(1000), Nanos::new(9000));
        let found = exposure(Between::Step, &samples, &steps, range.0, range.1, 1);
        assert_eq!(found, Exposure::default());
        let line = exposure(Between::Line, &samples, &steps, range.0, range.1, 1);
        assert!(line.messages.max > 0, "a line shows what is not there");
    }

    #[test]
    fn an_acknowledgement_before_its_sync_is_seen_by_steps_too() {
        let samples: Vec<_> = (0..=90).map(|n| sample(n * 100, n * 10)).collect();
        let steps: Vec<_> = (0..=8).map(|n| step(n * 1000, n * 100)).collect();
        let found =
            exposure(Between::Step, &samples, &steps, Nanos::new(1000), Nanos::new(9000), 1);
        assert_eq!(found.messages.max, 90, "the sample at 1900 has 190, and 100 are durable");
    }

    #[test]
    fn without_any_sync_the_age_is_that_of_the_first_message() {
        let samples = [sample(0, 0), sample(100, 0), sample(200, 100), sample(10_000, 100)];
        let found = exposure(Between::Line, &samples, &[], Nanos::new(5000), Nanos::new(10_000), 1);
        assert_eq!(found.messages.p50, 100);
        assert_eq!(found.age_ns.max, 9900);
        assert!(close(found.age_ns.mean, 7400.0), "{found:?}");
    }
}
