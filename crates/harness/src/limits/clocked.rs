//! Work that threads repeat for a window of time, or a number of times, with what it cost.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use hdrhistogram::Histogram;
use rustix::time::{ClockId, clock_gettime};
use store_core::Nanos;

use super::{Bulk, Case, Contender, Measurement, Tail};
use crate::clock::{float, nanos, now};
use crate::disk::{self, DiskCounters};
use crate::distribution::times;

/// What all measurements of a run share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bench<'a> {
    pub(super) directory: &'a Path,
    pub(super) device: Option<&'a str>,
    pub(super) warmup: Duration,
    pub(super) measure: Duration,
    pub(super) interrupted: &'a AtomicBool,
}

/// When what is done counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window<'a> {
    start: Nanos,
    end: Nanos,
    interrupted: &'a AtomicBool,
}

impl Window<'_> {
    /// Whether to begin another record.
    pub(super) fn is_open(&self, at: Nanos) -> bool {
        at < self.end && !self.interrupted.load(Ordering::Relaxed)
    }
}

/// What a thread did in the window.
#[derive(Debug)]
pub(super) struct Tally {
    start: Nanos,
    end: Nanos,
    times: Histogram<u64>,
}

impl Tally {
    fn new(window: &Window<'_>) -> Self {
        Self { start: window.start, end: window.end, times: times() }
    }

    /// A record was begun and acknowledged then; it counts where its acknowledgement falls.
    pub(super) fn add(&mut self, begun: Nanos, done: Nanos) {
        if (self.start..self.end).contains(&done) {
            self.times.saturating_record(done.since(begun).get());
        }
    }
}

/// What was done, and what it took.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) records: u64,
    pub(super) took: Nanos,
    pub(super) times: Option<Histogram<u64>>,
    pub(super) cost: Cost,
    /// At which rate they came, if that was given.
    pub(super) offered_per_s: Option<u64>,
    pub(super) bulk: Option<Bulk>,
}

impl Measured {
    pub(super) fn of(&self, round: u32, case: Case, contender: Contender) -> Measurement {
        let Self { records, took, times, cost, offered_per_s, bulk } = self;
        let records_or_one = float((*records).max(1));
        let quantile = |quantile| times.as_ref().map(|times| times.value_at_quantile(quantile));
        let tail = offered_per_s.zip(times.as_ref()).map(|(offered_per_s, times)| Tail {
            offered_per_s,
            p999_ns: times.value_at_quantile(0.999),
            p9999_ns: times.value_at_quantile(0.9999),
            max_ns: times.max(),
        });
        let flushes = cost.device.and_then(|device| device.flush_requests);
        Measurement {
            round,
            case,
            contender,
            records: *records,
            measured_ns: took.get(),
            per_s: float(*records) / (float(took.get().max(1)) / 1e9),
            p50_ns: quantile(0.5),
            p99_ns: quantile(0.99),
            cpu_ns_per_record: float(cost.cpu.get()) / records_or_one,
            device_bytes_per_record: cost
                .device
                .map(|device| float(device.write_bytes) / records_or_one),
            flushes_per_record: flushes.map(|flushes| float(flushes) / records_or_one),
            tail,
            bulk: *bulk,
        }
    }
}

/// Processor time and device traffic up to now, or between two moments.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    cpu: Nanos,
    device: Option<DiskCounters>,
}

impl Bench<'_> {
    /// What the process and the device have done up to now.
    pub(super) fn cost(&self) -> Cost {
        let spent = clock_gettime(ClockId::ProcessCPUTime);
        let seconds = u64::try_from(spent.tv_sec).unwrap_or_default();
        let cpu = seconds * 1_000_000_000 + u64::try_from(spent.tv_nsec).unwrap_or_default();
        Cost { cpu: Nanos::new(cpu), device: self.device.and_then(disk::counters) }
    }
}

impl Cost {
    pub(super) fn since(self, earlier: Self) -> Self {
        let device = earlier.device.zip(self.device);
        Self {
            cpu: self.cpu.since(earlier.cpu),
            device: device.map(|(earlier, later)| later.since(&earlier)),
        }
    }
}

/// Threads that work until the window closes; `work` goes on while [`Window::is_open`].
pub(super) fn for_a_time<F>(bench: &Bench<'_>, threads: u32, work: F) -> Result<Measured>
where
    F: Fn(u32, &Window<'_>, &mut Tally) -> Result<()> + Sync,
{
    let start = now().after(nanos(bench.warmup));
    let end = start.after(nanos(bench.measure));
    let window = Window { start, end, interrupted: bench.interrupted };
    let (work, window) = (&work, &window);
    let (cost, tallies) = thread::scope(|scope| {
        let started: Vec<_> = (0..threads)
            .map(|thread| {
                scope.spawn(move || {
                    let mut tally = Tally::new(window);
                    work(thread, window, &mut tally).map(|()| tally)
                })
            })
            .collect();
        sleep_until(window, start);
        let before = bench.cost();
        sleep_until(window, end);
        let cost = bench.cost().since(before);
        let join = |thread: thread::ScopedJoinHandle<'_, Result<Tally>>| {
            thread.join().expect("work catches errors")
        };
        (cost, started.into_iter().map(join).collect::<Result<Vec<_>>>())
    });
    let mut all = times();
    for tally in tallies? {
        all.add(tally.times).expect("all have the same bounds");
    }
    let (records, took) = (all.len(), end.since(start));
    Ok(Measured { records, took, times: Some(all), cost, offered_per_s: None, bulk: None })
}

/// Threads that each call `work` once, which does `records` of them in all.
pub(super) fn once<F>(bench: &Bench<'_>, threads: u32, records: u64, work: F) -> Result<Measured>
where
    F: Fn(u32) -> Result<()> + Sync,
{
    let work = &work;
    let before = bench.cost();
    let begun = now();
    let done: Result<Vec<()>> = thread::scope(|scope| {
        let started: Vec<_> =
            (0..threads).map(|thread| scope.spawn(move || work(thread))).collect();
        started.into_iter().map(|thread| thread.join().expect("work catches errors")).collect()
    });
    done?;
    let took = now().since(begun);
    let cost = bench.cost().since(before);
    Ok(Measured { records, took, times: None, cost, offered_per_s: None, bulk: None })
}

fn sleep_until(window: &Window<'_>, at: Nanos) {
    while now() < at && !window.interrupted.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_nanos(at.since(now()).get()).min(LOOK_UP));
    }
}

/// How long a signal goes unseen at most.
const LOOK_UP: Duration = Duration::from_millis(50);
