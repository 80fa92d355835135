//! Watching a cell from outside while it runs.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use store_core::{LogOffset, Nanos};
use store_os::Log;

use super::Setting;
use crate::clock::{float, nanos, now};
use crate::disk::DiskCounters;
use crate::exposure::{AckSample, Between};
use crate::live::Phase;
use crate::load::{Disturbance, Load, Tail, Waiting};
use crate::machine::{Look, thread_ns};
use crate::profile::Settings;
use crate::recorder::Recorder;
use crate::results::{Dirty, EndedBy, Machine};
use crate::series::Row;
use crate::{strategy, vmstat};

/// What was seen from outside while a cell ran.
#[derive(Clone, Debug)]
pub(super) struct Window {
    pub(super) start: Nanos,
    pub(super) end: Nanos,
    pub(super) ended_by: EndedBy,
    pub(super) appended: u64,
    pub(super) acked: u64,
    pub(super) samples: Vec<Sample>,
    /// What waited for its acknowledgement, at each of the watcher's looks.
    pub(super) waiting: Vec<Waiting>,
    pub(super) log_bytes: u64,
    pub(super) device: Option<DiskCounters>,
    pub(super) dirty: Dirty,
    pub(super) machine: Machine,
    pub(super) series: Vec<Row>,
}

/// Lets the load warm up, then watches it until the time or the bytes are used up.
pub(super) fn watch(
    setting: &Setting<'_>,
    load: &Load,
    log: &Log,
    recorder: &Recorder,
    settings: &Settings,
) -> Option<Window> {
    let each_sample = each_sample(setting.measure);
    let mut watcher = Watcher::new(load, log, recorder, setting.disturbance, each_sample);
    setting.live.enter(Phase::WarmingUp, setting.warmup);
    let stop = || setting.interrupted.load(Ordering::Relaxed);
    watcher.sample();
    // A slow disk may take long for its first segments; that is not what is measured.
    let patience = now().after(nanos(PATIENCE));
    while load.acked() == 0 && now() < patience && !stop() {
        watcher.tick();
    }
    while !log.wait_for_segment(Duration::from_millis(1)) && now() < patience && !stop() {
        watcher.tick();
    }
    let opened_at = log.recovery().end;
    let written = || log.wrote().since(opened_at);
    let warm = now().after(nanos(setting.warmup));
    while now() < warm && written() < setting.hard_bytes / 4 && !stop() {
        watcher.tick();
    }
    let look = Look::begin(setting.device);
    // In this order what was acknowledged can exceed what was appended only by what was in flight.
    let (appended, wrote) = (log.appended(), log.wrote());
    let start = watcher.sample();
    load.measure(start.from);
    watcher.measure(start.from);
    if let Some(others) = setting.disturbance {
        others.begin();
    }
    setting.live.enter(Phase::Measuring, setting.measure);
    let promise = strategy::promise(settings);
    let sampler_before = thread_ns();
    // A strategy with an interval has shown what it risks only after two syncs; on a slow disk they
    // take longer than the planned time.
    let syncs_wanted = if strategy::interval(settings).is_some() { 2 } else { 0 };
    let seen_enough = || recorder.flushes_since(start.from) >= syncs_wanted;
    let end = start.from.after(nanos(setting.measure));
    let latest = start.from.after(nanos(setting.measure.saturating_mul(LONGER)));
    let mut ended_by = EndedBy::Time;
    while now() < end || (now() < latest && !seen_enough()) {
        if stop() {
            return None;
        }
        if watcher.tick() {
            setting.live.show(&watcher.series, promise);
        }
        let enough = log.wrote().since(wrote) >= setting.soft_bytes && seen_enough();
        if enough || written() >= setting.hard_bytes {
            ended_by = EndedBy::Bytes;
            break;
        }
    }
    let end = watcher.sample();
    let passed = end.from.since(start.from).get();
    let sampled = float(thread_ns().saturating_sub(sampler_before));
    let (device, machine) = look.end(passed);
    let sampler_pct = (passed > 0).then(|| 100.0 * sampled / float(passed));
    Some(Window {
        start: start.from,
        end: end.from,
        ended_by,
        appended: log.appended() - appended,
        acked: end.acked - start.acked,
        log_bytes: log.wrote().since(wrote),
        device,
        dirty: watcher.dirty.unwrap_or_default(),
        machine: Machine { sampler_pct, ..machine },
        series: watcher.series,
        waiting: watcher.waiting,
        samples: in_order(watcher.samples, &recorder.acked()),
    })
}

/// A count that was read between two moments.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) from: Nanos,
    pub(super) until: Nanos,
    pub(super) acked: u64,
}

impl Sample {
    /// The sample at the moment that makes exposure certain: if acknowledgements come after their
    /// sync, the later one, so that none is dated before it; else the earlier one, so that none is
    /// dated after it came.
    pub(super) fn dated(&self, between: Between) -> AckSample {
        let at = match between {
            Between::Line => self.from,
            Between::Step => self.until,
        };
        AckSample { at, acked: self.acked }
    }
}

/// How far apart acknowledgements are counted, beside each commit and flush, at which they are too:
/// often enough for stalls in between to show. Each look wakes a thread, which costs the others.
fn each_sample(measure: Duration) -> Duration {
    (measure / 25).clamp(Duration::from_millis(1), Duration::from_millis(20))
}

/// All counts in the order of time. They were read by several threads, each its producers one after
/// the other, so that a later one may hold less; it never was less.
fn in_order(mut samples: Vec<Sample>, at_steps: &[AckSample]) -> Vec<Sample> {
    samples.extend(at_steps.iter().map(|&AckSample { at, acked }| Sample {
        from: at,
        until: at,
        acked,
    }));
    samples.sort_by_key(|sample| sample.from);
    let mut most = 0;
    for sample in &mut samples {
        most = sample.acked.max(most);
        sample.acked = most;
    }
    samples
}

struct Watcher<'a> {
    load: &'a Load,
    log: &'a Log,
    recorder: &'a Recorder,
    disturbance: Option<&'a Disturbance>,
    each_sample: Duration,
    samples: Vec<Sample>,
    waiting: Vec<Waiting>,
    tail: Tail,
    /// When the next row is due, once measuring has begun.
    next_row: Option<Nanos>,
    measured_since: Nanos,
    dirty: Option<Dirty>,
    series: Vec<Row>,
}

impl<'a> Watcher<'a> {
    fn new(
        load: &'a Load,
        log: &'a Log,
        recorder: &'a Recorder,
        disturbance: Option<&'a Disturbance>,
        each_sample: Duration,
    ) -> Self {
        Self {
            load,
            log,
            recorder,
            disturbance,
            each_sample,
            samples: Vec::new(),
            waiting: Vec::new(),
            tail: Tail::default(),
            next_row: None,
            measured_since: Nanos::new(0),
            dirty: None,
            series: Vec::new(),
        }
    }

    /// Rows are kept from now on.
    fn measure(&mut self, start: Nanos) {
        self.dirty = vmstat::sample();
        let _ = (self.load.take_worst(), self.load.take_p99(&mut self.tail));
        self.measured_since = start;
        self.next_row = Some(start.after(EACH_ROW));
    }

    /// Notes how much is acknowledged now.
    fn sample(&mut self) -> Sample {
        let from = now();
        let acked = self.load.acked();
        let sample = Sample { from, until: now(), acked };
        self.samples.push(sample);
        sample
    }

    /// Sleeps a little and samples; ten times a second a whole row, the kernel's dirty pages
    /// included, and then says so.
    fn tick(&mut self) -> bool {
        thread::sleep(self.each_sample);
        let Sample { from: at, acked, .. } = self.sample();
        if self.next_row.is_some() {
            self.waiting.push(self.load.waiting(now()));
        }
        if self.next_row.is_none_or(|due| at < due) {
            return false;
        }
        self.next_row = Some(at.after(EACH_ROW));
        let pages = vmstat::pages();
        if let (Some(dirty), Some(pages)) = (&mut self.dirty, &pages) {
            dirty.join(&Dirty::from(pages));
        }
        let marks = self.log.marks();
        let tail = LogOffset::new(marks.wrote().get().saturating_sub(TAIL_BYTES))..marks.wrote();
        // An upper end of a bin may be longer than the longest.
        let p99 = self.load.take_p99(&mut self.tail);
        let worst_append = self.load.take_worst();
        self.series.push(Row {
            at: at.since(self.measured_since),
            acked,
            marks,
            tail: self.log.page_cache(tail),
            flushes: self.recorder.flush_count(),
            worst_append,
            p99_append: p99.min(worst_append),
            pages,
            deleted: self.disturbance.map_or(0, Disturbance::deleted),
        });
        true
    }
}

/// How many times the planned time a cell may take to see two syncs.
pub(super) const LONGER: u32 = 2;

/// How long a cell waits for its first acknowledgement and segment.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// How much of the log's end is looked for in the page cache: more takes the kernel longer.
const TAIL_BYTES: u64 = 16 << 20;

/// Between two rows of the series.
pub(super) const EACH_ROW: Nanos = Nanos::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_several_threads_are_one_that_never_falls() {
        let at = Nanos::from_millis;
        let own = |ms, acked| Sample { from: at(ms), until: at(ms), acked };
        let step = |ms, acked| AckSample { at: at(ms), acked };
        let all =
            in_order(vec![own(0, 0), own(20, 10), own(40, 30)], &[step(19, 11), step(30, 20)]);
        let found: Vec<_> = all.iter().map(|sample| (sample.from, sample.acked)).collect();
        assert_eq!(found, [(at(0), 0), (at(19), 11), (at(20), 11), (at(30), 20), (at(40), 30)]);
    }
}
