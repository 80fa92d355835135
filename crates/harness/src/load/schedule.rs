//! When the messages of an open loop are due.

use store_core::Nanos;

use crate::clock::{float, nanos, round};
use crate::profile::{Arrival, Burst};
use crate::random::Random;

/// A load that comes whether or not what came before was acknowledged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Offered {
    /// Messages a second, of all producers together, without the bursts.
    pub per_s: u64,
    /// How they are spread.
    pub arrival: Arrival,
    /// What comes on top.
    pub burst: Option<Burst>,
}

impl Offered {
    /// Messages a second with the bursts.
    pub fn total_per_s(&self) -> f64 {
        let bursts = self.burst.map_or(0.0, |burst| {
            float(burst.messages) / burst.every.as_secs_f64().max(f64::EPSILON)
        });
        float(self.per_s) + bursts
    }
}

/// The moments at which one producer's messages are due, without end.
#[derive(Debug)]
pub struct Schedule {
    /// Of the messages that are not of a burst: the next, and how far they are apart on average.
    next_ns: f64,
    gap_ns: f64,
    spread: Option<Random>,
    burst: Option<Due>,
}

/// A producer's part of the bursts.
#[derive(Debug)]
struct Due {
    at: Nanos,
    every: Nanos,
    each: u64,
    left: u64,
}

impl Schedule {
    /// What is due from one of so many producers, beginning at `start`; the same for the same seed.
    pub fn new(offered: &Offered, index: u32, producers: u32, seed: u64, start: Nanos) -> Self {
        let apart_ns = 1e9 / float(offered.per_s.max(1));
        let gap_ns = apart_ns * f64::from(producers);
        // Evenly spread messages come from the producers in turn.
        let own = f64::from(index) * apart_ns;
        let spread = match offered.arrival {
            Arrival::Constant => None,
            Arrival::Poisson => Some(Random::new(seed ^ (u64::from(index) << 32))),
        };
        let burst = offered.burst.and_then(|Burst { messages, every }| {
            let (producers, index) = (u64::from(producers), u64::from(index));
            let each = messages / producers + u64::from(index < messages % producers);
            let every = nanos(every);
            (each > 0).then(|| Due { at: start.after(every), every, each, left: each })
        });
        let mut schedule = Self { next_ns: float(start.get()), gap_ns, spread, burst };
        schedule.next_ns += if schedule.spread.is_some() { schedule.gap() } else { own };
        schedule
    }

    /// When the next message is due; each call is about the one after.
    pub fn next_due(&mut self) -> Nanos {
        let next = Nanos::new(round(self.next_ns));
        if let Some(burst) = self.burst.as_mut().filter(|burst| burst.at <= next) {
            let due = burst.at;
            burst.left -= 1;
            if burst.left == 0 {
                burst.at = burst.at.after(burst.every);
                burst.left = burst.each;
            }
            return due;
        }
        self.next_ns += self.gap();
        next
    }

    /// To the message after: exponentially distributed where arrivals know nothing of each other.
    fn gap(&mut self) -> f64 {
        match &mut self.spread {
            None => self.gap_ns,
            Some(random) => {
                // 53 bits, above 0 and up to 1.
                let even = float((random.next_u64() >> 11) + 1) / float(1 << 53);
                -even.ln() * self.gap_ns
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const START: Nanos = Nanos::new(1_000_000_000);

    fn offered(per_s: u64, arrival: Arrival) -> Offered {
        Offered { per_s, arrival, burst: None }
    }

    /// What is due within a second, of all producers.
    fn second(offered: &Offered, producers: u32) -> Vec<u64> {
        let mut due = Vec::new();
        for index in 0..producers {
            let mut schedule = Schedule::new(offered, index, producers, 42, START);
            let own = std::iter::repeat_with(|| schedule.next_due().since(START).get());
            due.extend(own.take_while(|at| *at < 1_000_000_000));
        }
        due.sort_unstable();
        due
    }

    #[test]
    fn a_constant_rate_is_evenly_spread_over_all_producers() {
        for producers in [1, 3, 8] {
            let due = second(&offered(1000, Arrival::Constant), producers);
            assert_eq!(due.len(), 1000, "{producers} producers");
            assert!(due.windows(2).all(|pair| (pair[1] - pair[0]).abs_diff(1_000_000) <= 1));
        }
    }

    #[test]
    fn independent_arrivals_have_the_rate_and_spread_of_a_poisson_process() {
        let due = second(&offered(20_000, Arrival::Poisson), 4);
        // A count has the standard deviation of its root.
        assert!(due.len().abs_diff(20_000) < 600, "{}", due.len());
        let mut buckets = [0_u32; 1000];
        for at in &due {
            buckets[usize::try_from(at / 1_000_000).unwrap()] += 1;
        }
        let mean = 20.0;
        let squares = buckets.iter().map(|count| (f64::from(*count) - mean).powi(2));
        let variance = squares.sum::<f64>() / 1000.0;
        assert!((16.0..24.0).contains(&variance), "{variance}, where a Poisson process has {mean}");
        assert_eq!(due, second(&offered(20_000, Arrival::Poisson), 4), "the seed decides");
    }

    #[test]
    fn bursts_come_on_top_and_are_shared_out() {
        let burst = Burst { messages: 10, every: Duration::from_millis(250) };
        let load = Offered { burst: Some(burst), ..offered(100, Arrival::Constant) };
        let due = second(&load, 3);
        assert_eq!(due.len(), 100 + 3 * 10);
        let at = |ms: u64| due.iter().filter(|at| **at == ms * 1_000_000).count();
        assert_eq!(
            [at(250), at(500), at(750)],
            [11, 11, 11],
            "with the one that is due then anyway"
        );
        assert!((load.total_per_s() - 140.0).abs() < 1e-9);
    }

    #[test]
    fn moments_never_go_back() {
        let burst = Burst { messages: 7, every: Duration::from_millis(3) };
        let load = Offered { burst: Some(burst), ..offered(5000, Arrival::Poisson) };
        let mut schedule = Schedule::new(&load, 1, 2, 1, START);
        let mut before = START;
        for _ in 0..10_000 {
            let due = schedule.next_due();
            assert!(before <= due);
            before = due;
        }
    }
}
