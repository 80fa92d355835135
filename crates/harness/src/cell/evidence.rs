//! What a cell's figures are computed from, and how.

use hdrhistogram::Histogram;
use store_core::Nanos;
use store_os::{CommitEvent, FlushEvent};

use super::watch::Window;
use super::{Measured, Place, Setting};
use crate::clock::{float, nanos};
use crate::distribution::{quantiles, quantiles_of, record_size, sizes, times};
use crate::exposure::{AckSample, Between, DurableStep, Gauge};
use crate::load::{self, Offered, Produced, Sampled};
use crate::profile::{Pace, Settings, Strategy, Workload};
use crate::results::{
    AckPromise, Backlog, CELL_SCHEMA, Cell, Check, Counts, Dirty, ExposureByModel, Interval, Io,
    Kind, Little, Machine, OpenLoop, Status, SyncWait,
};
use crate::series::{self, Flush};
use crate::{strategy, validity};

pub(super) struct Events {
    pub(super) commits: Vec<CommitEvent>,
    pub(super) flushes: Vec<FlushEvent>,
}

/// Everything that a cell's figures are computed from.
pub(super) struct Evidence {
    /// What is to be said of the settings.
    pub(super) said: Option<Check>,
    pub(super) window: Window,
    pub(super) produced: Vec<Produced>,
    pub(super) events: Events,
    pub(super) record_bytes: u64,
}

/// Times of all producers and syncs.
struct Latencies {
    append_to_ack: Histogram<u64>,
    append: Histogram<u64>,
    flush: Histogram<u64>,
}

/// What a crash would have taken at each moment, by loss model.
struct Gauges {
    process: Gauge,
    power: Gauge,
}

impl Evidence {
    pub(super) fn cell(
        &self,
        setting: &Setting<'_>,
        place: &Place,
        strategy: &Strategy,
        workload: &Workload,
        started_at_ms: u64,
    ) -> Measured {
        let mut flush = times();
        for (_, event) in self.flushes_within() {
            flush.saturating_record(event.ended.since(event.started).get());
        }
        let took = Latencies {
            append_to_ack: self.merged(|produced| Some(&produced.append_to_ack)),
            append: self.merged(|produced| Some(&produced.append)),
            flush,
        };
        let gauges = self.gauges(&strategy.settings);
        let exposure = ExposureByModel {
            process: gauges.process.exposure(self.record_bytes),
            power: gauges.power.exposure(self.record_bytes),
        };
        let mut cell = self.record(setting, place, strategy, workload, &took, exposure);
        cell.started_at_ms = started_at_ms;
        let Latencies { append_to_ack, append, flush } = took;
        let due_to_ack = self.merged_open(|open| &open.due_to_ack);
        let all = [&append_to_ack, &flush, &due_to_ack];
        let saturated = all.into_iter().any(crate::distribution::is_saturated);
        let seen = validity::Seen {
            saturated,
            acked_early: self.acked_early(),
            volatile_cache: setting.volatile_cache && !forces_through(setting, strategy),
            gates: setting.gates,
            steadiness: series::steadiness(&self.window.series),
            flush_drift: self.flush_drift(),
        };
        let checks: Vec<Check> =
            setting.environment_checks.iter().chain(&self.said).cloned().collect();
        validity::judge(&mut cell, &checks, &seen);
        let mut histograms = vec![("append_to_ack", append_to_ack), ("flush", flush)];
        if cell.append_ns.is_some() {
            histograms.push(("append", append));
        }
        if cell.open_loop.is_some() {
            histograms.push(("due_to_ack", due_to_ack));
            histograms.push(("lag", self.merged_open(|open| &open.lag)));
            histograms.push(("own_lag", self.merged_open(|open| &open.own_lag)));
        }
        histograms.push(("exposure_process_age", gauges.process.age_histogram()));
        histograms.push(("exposure_power_age", gauges.power.age_histogram()));
        let bytes = |gauge: &Gauge| gauge.bytes_histogram(self.record_bytes);
        histograms.push(("exposure_process_bytes", bytes(&gauges.process)));
        histograms.push(("exposure_power_bytes", bytes(&gauges.power)));
        histograms.push(("ack_to_written", self.ack_to_written(&strategy.settings)));
        histograms.push(("ack_to_durable", self.ack_to_durable()));
        let (series, flushes) = (self.window.series.clone(), self.some_flushes());
        Measured { cell, histograms, series, flushes }
    }

    /// The record, but for what is judged of it.
    fn record(
        &self,
        setting: &Setting<'_>,
        place: &Place,
        strategy: &Strategy,
        workload: &Workload,
        took: &Latencies,
        exposure: ExposureByModel,
    ) -> Cell {
        let Latencies { append_to_ack, append, flush } = took;
        let window = &self.window;
        let measured_ns = window.end.since(window.start).get();
        let seconds = float(measured_ns) / 1e9;
        let flushes = self.flushes_within();
        let acked_per_s = float(window.acked) / seconds;
        let syncs: u64 = flushes.iter().map(|(_, event)| u64::from(event.syncs)).sum();
        Cell {
            schema: CELL_SCHEMA.to_owned(),
            run: setting.run.to_owned(),
            cell: format!("{}/{}/{}", strategy.name, workload.name, place.producers),
            block: place.block,
            position: place.position,
            started_at_ms: 0,
            disk: "host".to_owned(),
            sysctl: "as-found".to_owned(),
            strategy: strategy.name.clone(),
            kind: strategy.settings.kind(),
            ack_at: strategy::promise(&strategy.settings),
            workload: workload.name.clone(),
            producers: place.producers,
            window: workload.window,
            reader: workload.reader,
            deletes_every_ms: workload
                .deletes_every
                .map(|each| u64::try_from(each.as_millis()).unwrap_or(u64::MAX)),
            message_bytes: workload.message_bytes.mean(),
            record_bytes: self.record_bytes,
            emulated: setting.emulated,
            simulated: setting.simulated.is_some(),
            measured_ns,
            ended_by: window.ended_by,
            counts: Counts {
                appended: window.appended,
                acked: window.acked,
                flushes: syncs,
                commits: self.commits_within(),
                errors: self.produced.iter().map(|produced| produced.refused).sum(),
                timeouts: self.produced.iter().map(|produced| produced.timeouts).sum(),
            },
            acked_per_s,
            bytes_per_s: acked_per_s * float(workload.message_bytes.mean()),
            append_to_ack_ns: quantiles(append_to_ack),
            append_ns: (!append.is_empty()).then(|| quantiles(append)),
            open_loop: self.open_loop(workload),
            put_message_distribute_time: distribute(append_to_ack),
            backlog: Some(self.backlog()),
            sync_wait: self.sync_wait(&strategy.settings),
            flush_ns: quantiles(flush),
            messages_per_flush: quantiles_of(flushes.iter().map(|(records, _)| *records)),
            bytes_per_flush: quantiles_of(
                flushes.iter().map(|(_, event)| event.upto.since(event.from)),
            ),
            fsync_per_ack: if window.acked == 0 { 0.0 } else { float(syncs) / float(window.acked) },
            exposure,
            ack_to_durable_ns: quantiles(&self.ack_to_durable()),
            interval: self.interval(&strategy.settings),
            io: Io::of(window.device.as_ref(), window.log_bytes, measured_ns),
            dirty: self.dirty(&strategy.settings),
            throttled_pct: series::throttled_pct(&window.series),
            stalls: series::stalls(&window.series),
            machine: self.machine(setting, workload, place.producers),
            little: self.little(workload, place.producers, append_to_ack, &exposure),
            validity: Vec::new(),
            status: Status::Valid,
        }
    }

    /// A latency of all producers.
    fn merged(&self, of: impl Fn(&Produced) -> Option<&Histogram<u64>>) -> Histogram<u64> {
        let mut merged = times();
        for histogram in self.produced.iter().filter_map(of) {
            merged.add(histogram).expect("both have the same bounds");
        }
        merged
    }

    fn merged_open(&self, of: impl Fn(&load::OpenLoop) -> &Histogram<u64>) -> Histogram<u64> {
        self.merged(|produced| produced.open.as_ref().map(&of))
    }

    fn sum_open(&self, of: impl Fn(&load::OpenLoop) -> u64) -> u64 {
        self.produced.iter().filter_map(|produced| produced.open.as_ref()).map(of).sum()
    }

    fn open_loop(&self, workload: &Workload) -> Option<OpenLoop> {
        let Pace::Rate { per_s, arrival, burst } = workload.pace else { return None };
        Some(OpenLoop {
            offered_per_s: Offered { per_s, arrival, burst }.total_per_s(),
            arrival,
            due: self.sum_open(|open| open.due),
            judged: self.sum_open(|open| open.judged),
            unsent: self.sum_open(|open| open.unsent),
            promised_p99_ns: None,
            due_to_ack_ns: quantiles(&self.merged_open(|open| &open.due_to_ack)),
            lag_ns: quantiles(&self.merged_open(|open| &open.lag)),
            own_lag_ns: quantiles(&self.merged_open(|open| &open.own_lag)),
        })
    }

    /// The syncs that ended within the window, each with the records it made durable.
    fn flushes_within(&self) -> Vec<(u64, FlushEvent)> {
        let mut before = 0;
        self.events
            .flushes
            .iter()
            .map(|event| (event.records - std::mem::replace(&mut before, event.records), *event))
            .filter(|(_, event)| self.is_within(event.ended))
            .collect()
    }

    /// The median time of a sync in the last third of the window by that in the first.
    fn flush_drift(&self) -> Option<f64> {
        let third = self.window.end.since(self.window.start).get() / 3;
        let early = self.window.start.after(Nanos::new(third));
        let late = self.window.start.after(Nanos::new(2 * third));
        let flushes = self.flushes_within();
        let took = |is_in: &dyn Fn(&FlushEvent) -> bool| {
            let of = flushes.iter().map(|(_, event)| event).filter(|event| is_in(event));
            quantiles_of(of.map(|event| event.ended.since(event.started).get()))
        };
        let [first, last] =
            [took(&|event| event.ended <= early), took(&|event| late < event.ended)];
        let is_known = FEWEST_SYNCS <= first.count.min(last.count) && first.p50 > 0;
        is_known.then(|| float(last.p50) / float(first.p50))
    }

    fn commits_within(&self) -> u64 {
        let commits = self.events.commits.iter().filter(|event| self.is_within(event.ended));
        store_core::length_u64(commits.count())
    }

    fn is_within(&self, at: Nanos) -> bool {
        self.window.start < at && at <= self.window.end
    }

    fn gauges(&self, settings: &Settings) -> Gauges {
        let Window { start, end, samples, .. } = &self.window;
        // Where an acknowledgement waits for the mark in question, it comes after the step.
        let promise = strategy::promise(settings);
        let gauge = |mark: AckPromise, steps: &[DurableStep]| {
            let waits = promise == AckPromise::Flushed || promise == mark;
            let between = if waits { Between::Step } else { Between::Line };
            let dated: Vec<AckSample> =
                samples.iter().map(|sample| sample.dated(between)).collect();
            let mut gauge = Gauge::default();
            gauge.add(between, &dated, steps, &[(*start, *end)]);
            gauge
        };
        let flushed: Vec<_> = self
            .events
            .flushes
            .iter()
            .map(|event| DurableStep { at: event.ended, durable: event.records })
            .collect();
        let committed: Vec<_> = if strategy::is_staged(settings) {
            let commits = self.events.commits.iter();
            commits.map(|event| DurableStep { at: event.ended, durable: event.records }).collect()
        } else {
            // Mapped bytes are in the page cache before the append returns.
            vec![DurableStep { at: Nanos::new(0), durable: u64::MAX }]
        };
        Gauges {
            process: gauge(AckPromise::Committed, &committed),
            power: gauge(AckPromise::Flushed, &flushed),
        }
    }

    /// When a sampled record became durable.
    fn durable_at(&self, sampled: &Sampled) -> Option<Nanos> {
        self.sync_of(sampled).map(|event| event.ended)
    }

    /// The sync that made a sampled record durable.
    fn sync_of(&self, sampled: &Sampled) -> Option<&FlushEvent> {
        let flushes = &self.events.flushes;
        flushes.get(flushes.partition_point(|event| event.upto < sampled.end))
    }

    /// Sampled records whose producer was told before the sync that covers them had returned.
    fn acked_early(&self) -> u64 {
        let sampled = self.produced.iter().flat_map(|produced| &produced.sampled);
        let early = sampled.filter(|sampled| {
            self.durable_at(sampled).is_none_or(|durable| sampled.acked < durable)
        });
        store_core::length_u64(early.count())
    }

    /// From acknowledgement to durability, of the sampled records; 0 where durability comes first.
    fn ack_to_durable(&self) -> Histogram<u64> {
        self.waits(|sampled| self.durable_at(sampled))
    }

    /// From acknowledgement to the page cache, where nothing but a power cut or the kernel's end
    /// takes them.
    fn ack_to_written(&self, settings: &Settings) -> Histogram<u64> {
        let commits = &self.events.commits;
        self.waits(|sampled| {
            if !strategy::is_staged(settings) {
                return Some(sampled.acked);
            }
            let index = commits.partition_point(|event| event.upto < sampled.end);
            commits.get(index).map(|event| event.ended)
        })
    }

    fn backlog(&self) -> Backlog {
        let waiting = || self.window.waiting.iter();
        Backlog {
            messages: quantiles_of(waiting().map(|waiting| waiting.messages)),
            oldest_wait_ns: quantiles_of(waiting().map(|waiting| waiting.oldest.get())),
        }
    }

    /// The parts of the time until acknowledgement, of the sampled records that were under way in
    /// the measured time, as those that count; `None` where an acknowledgement does not wait for a
    /// sync.
    fn sync_wait(&self, settings: &Settings) -> Option<SyncWait> {
        if strategy::promise(settings) != AckPromise::Flushed {
            return None;
        }
        let [mut queue, mut flush, mut wake] = [(); 3].map(|()| sizes());
        let Window { start, end, .. } = &self.window;
        let sampled = self.produced.iter().flat_map(|produced| &produced.sampled);
        let counts = |one: &&Sampled| *start < one.acked && one.begun < *end;
        for sampled in sampled.filter(counts) {
            let Some(sync) = self.sync_of(sampled) else { continue };
            let started = sync.started.max(sampled.begun);
            let parts = [
                (&mut queue, started.since(sampled.begun)),
                (&mut flush, sync.ended.since(started)),
                (&mut wake, sampled.acked.since(sync.ended)),
            ];
            for (part, took) in parts {
                record_size(part, took.get(), sampled.stands_for);
            }
        }
        let [queue_ns, flush_ns, wake_ns] = [&queue, &flush, &wake].map(quantiles);
        Some(SyncWait { queue_ns, flush_ns, wake_ns })
    }

    /// From acknowledgement until this moment, of the sampled records for which both lie in the
    /// measured time.
    fn waits(&self, until: impl Fn(&Sampled) -> Option<Nanos>) -> Histogram<u64> {
        let mut waits = sizes();
        for sampled in self.produced.iter().flat_map(|produced| &produced.sampled) {
            let Some(until) = until(sampled) else { continue };
            if self.window.start <= sampled.acked && until <= self.window.end {
                record_size(&mut waits, until.since(sampled.acked).get(), sampled.stands_for);
            }
        }
        waits
    }

    /// The syncs of the measured time with what each covered and took, of many as many as a chart
    /// can show, evenly chosen.
    fn some_flushes(&self) -> Vec<Flush> {
        let flushes = self.flushes_within();
        let flush = |(_, event): &(u64, FlushEvent)| Flush {
            bytes: event.upto.since(event.from),
            took: event.ended.since(event.started),
        };
        series::evenly(&flushes, MOST_FLUSHES).into_iter().map(flush).collect()
    }

    fn interval(&self, settings: &Settings) -> Interval {
        let flushes = self.flushes_within();
        let starts: Vec<Nanos> = flushes.iter().map(|(_, event)| event.started).collect();
        let achieved = quantiles_of(starts.windows(2).map(|pair| pair[1].since(pair[0]).get()));
        let known = achieved.count > 0;
        Interval {
            configured_ns: strategy::interval(settings).map(|interval| nanos(interval).get()),
            achieved_p50_ns: known.then_some(achieved.p50),
            achieved_p99_ns: known.then_some(achieved.p99),
        }
    }

    fn dirty(&self, settings: &Settings) -> Dirty {
        let dirty = self.window.dirty;
        let absorbs = !strategy::is_direct(settings);
        Dirty { reached_background: dirty.reached_background.filter(|_| absorbs), ..dirty }
    }

    fn machine(&self, setting: &Setting<'_>, workload: &Workload, producers: u32) -> Machine {
        let own: u64 = self.produced.iter().map(|produced| produced.between_ns).sum();
        let all = self.window_ns() * f64::from(producers);
        // In an open loop a producer that is free waits for what is due; a simulated one takes no
        // time.
        let takes_time = workload.pace == Pace::Closed && setting.simulated.is_none();
        let generator_pct = takes_time.then(|| 100.0 * float(own) / all);
        Machine { generator_pct, ..self.window.machine }
    }

    fn window_ns(&self) -> f64 {
        float(self.window.end.since(self.window.start).get())
    }

    /// Two identities between figures that were taken independently of each other.
    fn little(
        &self,
        workload: &Workload,
        producers: u32,
        append_to_ack: &Histogram<u64>,
        exposure: &ExposureByModel,
    ) -> Little {
        let length = self.window_ns();
        let is_closed = workload.pace == Pace::Closed && workload.window == 1;
        // Closed loop: each message takes its latency and the time until the next one, as producers
        // timed it; the rate is that of the watcher's counts.
        let waiting = append_to_ack.mean() * float(append_to_ack.len());
        let apart: f64 = self
            .produced
            .iter()
            .map(|one| float(one.between_ns) + float(one.refused_ns) - float(one.outside_ns))
            .sum();
        let per_message = (waiting + apart) / float(append_to_ack.len().max(1));
        let late: u64 = self.produced.iter().map(|produced| produced.timeouts).sum();
        let busy = float(self.window.acked + late) / length * per_message;
        let closed = 100.0 * (busy - f64::from(producers)) / f64::from(producers);
        // Exposure: the mean number at risk is the sum, over messages, of the time each was.
        let at_risk: f64 = self
            .produced
            .iter()
            .flat_map(|produced| &produced.sampled)
            .map(|sampled| {
                let until =
                    self.durable_at(sampled).unwrap_or(self.window.end).min(self.window.end);
                let from = sampled.acked.max(self.window.start);
                float(until.since(from).get()) * float(sampled.stands_for)
            })
            .sum::<f64>()
            / length;
        let mean = exposure.power.messages.mean;
        let larger = mean.max(at_risk);
        Little {
            // Others wait for what is due, or have several on their way.
            closed_error_pct: (is_closed && !append_to_ack.is_empty()).then_some(closed),
            exposure_error_pct: (larger >= 1.0).then(|| 100.0 * (at_risk - mean) / larger),
        }
    }
}

/// Flushes that are kept of a cell.
const MOST_FLUSHES: usize = 2000;

/// A median of fewer says little.
const FEWEST_SYNCS: u64 = 10;

/// Whether a sync is one write that the device forces through (FUA), which needs no flush.
fn forces_through(setting: &Setting<'_>, strategy: &Strategy) -> bool {
    let settings = &strategy.settings;
    setting.has_fua && settings.kind() == Kind::GroupCommit && strategy::is_direct(settings)
}

/// Counts by RocketMQ's buckets of time (`StoreStatsService.initPutMessageDistributeTime`).
fn distribute(append_to_ack: &Histogram<u64>) -> Vec<u64> {
    let bounds_ms = [0_u64, 10, 50, 100, 200, 500, 1000, 2000, 3000, 4000, 5000, 10_000];
    // RocketMQ counts whole milliseconds: what took less than one took none. The histogram counts a
    // bin whole that a bound lies in, so what is up to each bound is counted from the beginning:
    // then such a bin is in one bucket, not in both beside the bound.
    let mut upto: Vec<u64> = bounds_ms
        .iter()
        .map(|ms| append_to_ack.count_between(0, (ms + 1) * 1_000_000 - 1))
        .collect();
    upto.push(append_to_ack.len());
    let before = std::iter::once(&0).chain(&upto);
    upto.iter().zip(before).map(|(upto, before)| upto - before).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::AtomicBool;
    use std::time::Duration;

    use store_core::LogOffset;

    use super::super::watch::Sample;
    use super::*;
    use crate::disk::DiskCounters;
    use crate::load::Waiting;
    use crate::profile::{Gates, Io as ProfileIo, MessageBytes, Prealloc};
    use crate::results::{EndedBy, Level, Machine, Quantiles};

    const MS: u64 = 1_000_000;
    const RECORD: u64 = 100;

    fn at(ms: u64) -> Nanos {
        Nanos::new(ms * MS)
    }

    /// Ten records each millisecond; a sync begins each 10 ms, takes 2 ms and covers what was there
    /// when it began. The window is 100 to 200 ms. Acknowledgements come after `delay_ms`.
    fn evidence(delay_ms: u64) -> Evidence {
        let count = |ms: u64| ms * 10;
        let flushes = (1..=30).map(|n| FlushEvent {
            started: at(n * 10),
            ended: at(n * 10 + 2),
            from: LogOffset::new(count(n * 10 - 10) * RECORD),
            upto: LogOffset::new(count(n * 10) * RECORD),
            records: count(n * 10),
            syncs: 1,
        });
        let samples = (0..=200_u64).map(|ms| {
            let acked = count(ms.saturating_sub(delay_ms));
            Sample { from: at(ms), until: at(ms), acked }
        });
        let records = (1..=count(200 - delay_ms)).map(|record| Sampled {
            end: LogOffset::new(record * RECORD),
            begun: Nanos::new(record * MS / 10),
            acked: Nanos::new(record * MS / 10 + delay_ms * MS),
            stands_for: 1,
        });
        let mut append_to_ack = times();
        append_to_ack.record_n(MS / 10, 1000).unwrap();
        Evidence {
            said: None,
            window: Window {
                start: at(100),
                end: at(200),
                ended_by: EndedBy::Time,
                appended: 1000,
                acked: 1000,
                samples: samples.collect(),
                waiting: [3, 7].map(|ms| Waiting { messages: ms * 10, oldest: at(ms) }).to_vec(),
                log_bytes: 1000 * RECORD,
                device: Some(DiskCounters {
                    write_bytes: 300_000,
                    flush_requests: Some(10),
                    busy_ms: Some(70),
                }),
                dirty: Dirty::default(),
                machine: Machine::default(),
                series: Vec::new(),
            },
            produced: vec![Produced {
                append_to_ack,
                append: times(),
                open: None,
                between_ns: 0,
                outside_ns: 0,
                sampled: records.collect(),
                timeouts: 0,
                refused: 0,
                refused_ns: 0,
                failed: None,
            }],
            events: Events { commits: Vec::new(), flushes: flushes.collect() },
            record_bytes: RECORD,
        }
    }

    fn plain(interrupted: &AtomicBool) -> Setting<'_> {
        Setting {
            run: "run",
            directory: Path::new("/nowhere"),
            device: None,
            emulated: false,
            simulated: None,
            volatile_cache: true,
            has_fua: false,
            warmup: Duration::ZERO,
            measure: Duration::from_millis(100),
            soft_bytes: u64::MAX,
            hard_bytes: u64::MAX,
            segment_bytes: 1 << 20,
            seed: 1,
            gates: Gates::default(),
            environment_checks: &[],
            disturbance: None,
            interrupted,
            live: Box::leak(Box::default()),
        }
    }

    fn judged(evidence: &Evidence, settings: Settings) -> Cell {
        judged_of(evidence, settings, Pace::Closed)
    }

    fn judged_of(evidence: &Evidence, settings: Settings, pace: Pace) -> Cell {
        let interrupted = AtomicBool::new(false);
        let setting = plain(&interrupted);
        let at = Place { block: 2, position: 3, producers: 1 };
        let strategy = Strategy { name: "s".to_owned(), settings };
        let workload = Workload {
            name: "w".to_owned(),
            message_bytes: MessageBytes::one(9),
            producers: vec![1],
            window: 1,
            pace,
            reader: false,
            deletes_every: None,
        };
        evidence.cell(&setting, &at, &strategy, &workload, 7).cell
    }

    fn timed() -> Settings {
        Settings::FlushRealtime {
            interval: Duration::from_millis(8),
            least_pages: 4,
            thorough: Duration::from_secs(10),
            timed: true,
            io: ProfileIo::Mapped,
            prealloc: Prealloc::Fallocate,
        }
    }

    fn synchronous() -> Settings {
        Settings::GroupCommit {
            timeout: Duration::from_secs(5),
            gather: Duration::ZERO,
            siblings: 5,
            lead: true,
            io: ProfileIo::Mapped,
            prealloc: Prealloc::Fallocate,
        }
    }

    #[track_caller]
    fn near(found: f64, expect: f64) {
        assert!((found - expect).abs() <= 0.01 * expect.abs(), "{found}, expected {expect}");
    }

    #[test]
    fn the_figures_of_a_known_run_come_out() {
        let cell = judged(&evidence(0), timed());
        assert_eq!(cell.cell, "s/w/1");
        near(cell.acked_per_s, 10_000.0);
        near(cell.bytes_per_s, 90_000.0);
        assert_eq!(cell.counts.flushes, 10);
        near(cell.fsync_per_ack, 0.01);
        let one = |quantiles: Quantiles| [quantiles.p50, quantiles.max].map(|ns| ns / MS);
        assert_eq!(one(cell.flush_ns), [2, 2]);
        assert_eq!((cell.messages_per_flush.min, cell.messages_per_flush.max), (100, 100));
        near(cell.bytes_per_flush.mean, 10_000.0);
        assert_eq!(cell.interval.configured_ns, Some(8 * MS));
        near(float(cell.interval.achieved_p50_ns.unwrap()), 10e6);
        near(cell.io.write_amplification.unwrap(), 3.0);
        // At risk right before a sync ends: what came in the 12 ms since the one before began.
        let power = cell.exposure.power;
        assert_eq!((power.messages.max, power.bytes.max, power.age_ns.max), (120, 12_000, 12 * MS));
        near(power.messages.mean, 70.0);
        near(power.age_ns.mean, 7e6);
        assert_eq!(cell.exposure.process, crate::results::Exposure::default());
        // A record waits from 2 ms, if it came right before a sync, to 12 ms.
        near(float(cell.ack_to_durable_ns.max), 11.9e6);
        near(cell.ack_to_durable_ns.mean, 6.95e6);
        near(1.0 + cell.little.closed_error_pct.unwrap(), 1.0);
        assert!(cell.little.exposure_error_pct.unwrap().abs() < 1.0, "{:?}", cell.little);
        assert_eq!(cell.status, Status::Valid, "{:?}", cell.validity);
    }

    #[test]
    fn what_charts_are_drawn_from_is_kept_whole() {
        let interrupted = AtomicBool::new(false);
        let setting = plain(&interrupted);
        let at = Place { block: 0, position: 0, producers: 1 };
        let strategy = Strategy { name: "s".to_owned(), settings: timed() };
        let workload = Workload {
            name: "w".to_owned(),
            message_bytes: MessageBytes::one(9),
            producers: vec![1],
            window: 1,
            pace: Pace::Closed,
            reader: false,
            deletes_every: None,
        };
        let measured = evidence(0).cell(&setting, &at, &strategy, &workload, 7);
        let of = |name: &str| &measured.histograms.iter().find(|(n, _)| *n == name).unwrap().1;
        // Every nanosecond of the window has an age; nothing is ever safe from a power cut, and
        // all is from the end of the process.
        let power = of("exposure_power_age");
        assert_eq!((power.len(), power.count_at(0)), (100 * MS, 0));
        // The middle of the last millisecond between two samples.
        near(float(power.max()), 11.5e6);
        let process = of("exposure_process_age");
        assert_eq!((process.len(), process.max()), (100 * MS, 0));
        let bytes = of("exposure_power_bytes");
        assert_eq!((bytes.len(), bytes.count_at(0)), (100 * MS, 0));
        // Between 20 records, right after a sync, and 120; each piece counts as its middle.
        near(float(bytes.min()), 2500.0);
        near(float(bytes.max()), 11_500.0);
        assert_eq!(of("exposure_process_bytes").max(), 0);
        near(float(of("ack_to_durable").max()), 11.9e6);
        assert_eq!(of("ack_to_written").max(), 0);
        let flush = Flush { bytes: 100 * RECORD, took: Nanos::new(2 * MS) };
        assert_eq!(measured.flushes, [flush; 10]);
    }

    #[test]
    fn the_way_to_an_acknowledgement_after_its_sync_is_taken_apart() {
        // Sent and then told 13 ms later: the first of a group 1.1 ms after its sync, the last 11.
        let cell = judged(&evidence(13), synchronous());
        let way = cell.sync_wait.unwrap();
        assert_eq!(way.queue_ns.count, 1000, "{way:?}");
        near(float(way.queue_ns.max), 9.9e6);
        near(float(way.flush_ns.p50), 2e6);
        near(float(way.wake_ns.min), 1.1e6);
        near(float(way.wake_ns.max), 11e6);
        let sum = way.queue_ns.mean + way.flush_ns.mean + way.wake_ns.mean;
        near(sum, 13e6);
        assert_eq!(judged(&evidence(0), timed()).sync_wait, None, "told before its sync");
        // One that was under way when the measured time ended counts whole.
        let mut late = evidence(13);
        let produced = &mut late.produced[0];
        produced.sampled.truncate(1);
        produced.sampled[0] = Sampled {
            end: LogOffset::new(1995 * RECORD),
            begun: at(199),
            acked: at(260),
            stands_for: 1,
        };
        let way = judged(&late, synchronous()).sync_wait.unwrap();
        let parts = [way.queue_ns, way.flush_ns, way.wake_ns].map(|part| part.max / MS);
        assert_eq!((way.wake_ns.count, parts), (1, [1, 2, 58]));
        let backlog = cell.backlog.unwrap();
        assert_eq!((backlog.messages.min, backlog.messages.max), (30, 70));
        near(float(backlog.oldest_wait_ns.max), 7e6);
    }

    #[test]
    fn each_acknowledgement_is_in_one_bucket_of_time() {
        let of = |values: &[u64]| {
            let mut recorded = times();
            for ns in values {
                recorded.saturating_record(*ns);
            }
            distribute(&recorded)
        };
        // Either side of 1 ms, within one bin of the histogram; then 30 ms, 11.5 s and 60 s.
        let counts = of(&[999_999, 1_000_000, 30_000_000, 11_500_000_000, 60_000_000_000]);
        assert_eq!(counts, [2, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
        assert_eq!(of(&[]), [0; 13]);
    }

    #[test]
    fn an_open_loop_adds_up_what_its_producers_saw() {
        let mut evidence = evidence(0);
        let open = |took_ms: u64| {
            let of = |ms: u64| {
                let mut histogram = times();
                histogram.record_n(ms * MS, 500).unwrap();
                histogram
            };
            let (due_to_ack, lag, own_lag) = (of(took_ms), of(took_ms - 1), of(1));
            load::OpenLoop { due_to_ack, lag, own_lag, due: 600, judged: 550, unsent: 3 }
        };
        let other = evidence.produced[0].clone();
        evidence.produced[0].open = Some(open(5));
        evidence.produced.push(Produced { open: Some(open(80)), ..other });
        let arrival = crate::profile::Arrival::Poisson;
        let pace = Pace::Rate { per_s: 9000, arrival, burst: None };
        let cell = judged_of(&evidence, timed(), pace);
        let open = cell.open_loop.unwrap();
        assert_eq!((open.due, open.judged, open.unsent), (1200, 1100, 6));
        near(open.offered_per_s, 9000.0);
        assert_eq!(open.due_to_ack_ns.count, 1000);
        assert_eq!([open.due_to_ack_ns.p50, open.due_to_ack_ns.p99].map(|ns| ns / MS), [5, 80]);
        assert_eq!([open.lag_ns.p99, open.own_lag_ns.p99].map(|ns| ns / MS), [79, 1]);
        assert_eq!(cell.little.closed_error_pct, None, "nobody waits for anybody");
        assert!(judged(&evidence, timed()).open_loop.is_none());
    }

    #[test]
    fn syncs_that_become_slower_are_told_by_their_medians() {
        let drift = |factor: u64, count: u64| {
            let mut evidence = evidence(0);
            let flush = |n: u64| {
                let ended = Nanos::new(100 * MS + n * 100 * MS / count);
                let took = if 2 * count < 3 * n { factor * MS } else { MS };
                let from = LogOffset::new(n * RECORD);
                FlushEvent {
                    started: Nanos::new(ended.get() - took),
                    ended,
                    from,
                    upto: LogOffset::new((n + 1) * RECORD),
                    records: n,
                    syncs: 1,
                }
            };
            evidence.events.flushes = (1..=count).map(flush).collect();
            evidence.flush_drift()
        };
        near(drift(1, 60).unwrap(), 1.0);
        near(drift(2, 60).unwrap(), 2.0);
        assert_eq!(drift(2, 20), None, "too few in a third");
    }

    #[test]
    fn writes_that_are_forced_through_need_no_flush_request() {
        for (io, has_fua, is_told) in [
            (ProfileIo::Direct, true, false),
            (ProfileIo::Direct, false, true),
            (ProfileIo::Positioned, true, true),
        ] {
            let Settings::GroupCommit { timeout, gather, siblings, lead, prealloc, .. } =
                synchronous()
            else {
                unreachable!("it is group commit")
            };
            let settings = Settings::GroupCommit { timeout, gather, siblings, lead, io, prealloc };
            let strategy = Strategy { name: "s".to_owned(), settings };
            let interrupted = AtomicBool::new(false);
            let setting = Setting { has_fua, ..plain(&interrupted) };
            assert_eq!(!forces_through(&setting, &strategy), is_told, "{io:?}, {has_fua}");
        }
    }

    #[test]
    fn what_goes_past_the_page_cache_is_not_absorbed_by_it() {
        for (io, is_labelled) in [(ProfileIo::Direct, false), (ProfileIo::Positioned, true)] {
            let mut evidence = evidence(0);
            evidence.window.dirty.reached_background = Some(false);
            let settings = Settings::CommitRealtime {
                commit: Duration::from_millis(8),
                commit_least_pages: 4,
                commit_thorough: Duration::from_millis(8),
                interval: Duration::from_millis(8),
                least_pages: 4,
                thorough: Duration::from_secs(10),
                staging_bytes: 64 << 20,
                io,
                prealloc: Prealloc::Fallocate,
            };
            let cell = judged(&evidence, settings);
            let mut checks = cell.validity.iter();
            assert_eq!(checks.any(|check| check.code == "page_cache_absorbed"), is_labelled);
        }
    }

    #[test]
    fn counts_that_do_not_fit_the_latencies_are_noticed() {
        let mut wrong = evidence(0);
        wrong.window.acked = 3000;
        wrong.window.appended = 3000;
        let cell = judged(&wrong, timed());
        let check = cell.validity.iter().find(|check| check.code == "little_closed").unwrap();
        assert_eq!(check.level, Level::Warn, "{check:?}");
    }

    #[test]
    fn a_strategy_that_acknowledges_before_its_sync_is_caught() {
        let level = |delay_ms| {
            let cell = judged(&evidence(delay_ms), synchronous());
            let early = cell.validity.iter().find(|check| check.code == "acked_after_sync");
            (early.unwrap().level, cell.status, cell.exposure.power.messages.max)
        };
        // Every record is durable 12 ms after it came, at the latest.
        assert_eq!(level(13), (Level::Pass, Status::Valid, 0));
        let (check, status, exposed) = level(5);
        assert_eq!((check, status), (Level::Invalid, Status::Invalid));
        assert!(exposed > 0);
    }
}
