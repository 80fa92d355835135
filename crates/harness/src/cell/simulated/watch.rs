//! Watching a cell in virtual time: as [`watch`](crate::cell::watch), without its thread.

use store_core::Nanos;

use super::BEGINNING;
use super::world::World;
use crate::cell::watch::{EACH_ROW, LONGER, PATIENCE, Sample, Window};
use crate::clock::nanos;
use crate::disk::DiskCounters;
use crate::load::{Tail, Took, Waiting};
use crate::results::{Dirty, EndedBy, Machine};
use crate::series::Row;

/// What was seen so far.
#[derive(Debug, Default)]
pub(super) struct Watching {
    began: Option<Began>,
    acked: u64,
    worst: Nanos,
    took: Took,
    tail: Tail,
    samples: Vec<Sample>,
    waiting: Vec<Waiting>,
    series: Vec<Row>,
    next_row: Nanos,
    /// What was seen in the measured time, once that is over.
    pub(super) window: Option<Window>,
}

/// How things stood when measuring began.
#[derive(Clone, Copy, Debug)]
struct Began {
    at: Nanos,
    acked: u64,
    appended: u64,
    wrote: u64,
    counters: DiskCounters,
}

impl Watching {
    pub(super) fn is_over(&self) -> bool {
        self.window.is_some()
    }

    pub(super) fn is_measuring(&self) -> bool {
        self.began.is_some() && !self.is_over()
    }

    /// Whether a message counts that was begun then and is acknowledged now: if it was under way in
    /// the measured time.
    pub(super) fn counts(&self) -> impl Fn(Nanos) -> bool + use<> {
        let has_begun = self.began.is_some();
        let end = self.window.as_ref().map(|window| window.end);
        move |begun| has_begun && end.is_none_or(|end| begun < end)
    }

    /// A message was acknowledged; `exactly`: that is not to be taken as evenly spread.
    pub(super) fn acked(&mut self, now: Nanos, exactly: bool) {
        self.acked += 1;
        if exactly && !self.is_over() {
            self.sample(now);
        }
    }

    /// An append ended.
    pub(super) fn ended(&mut self, took: Nanos) {
        self.worst = self.worst.max(took);
        self.took.add(took);
    }

    fn sample(&mut self, now: Nanos) {
        self.samples.pop_if(|last| last.from == now);
        self.samples.push(Sample { from: now, until: now, acked: self.acked });
    }
}

impl World<'_> {
    /// Looks at the cell: its warm-up, the measured time or its end.
    pub(super) fn tick(&mut self) {
        if self.watching.is_over() {
            return;
        }
        self.watching.sample(self.now);
        match self.watching.began {
            None if self.is_warm() => self.measure(),
            None => {}
            Some(began) => {
                let waiting = self.waiting();
                self.watching.waiting.push(waiting);
                if self.watching.next_row <= self.now {
                    self.row(&began);
                }
                if let Some(by) = self.ends(&began) {
                    self.end(&began, by);
                }
            }
        }
    }

    /// Log bytes since the beginning.
    fn written(&self) -> u64 {
        self.log.marks().wrote().since(self.log.recovery().end)
    }

    fn is_warm(&self) -> bool {
        let is_time = BEGINNING.after(nanos(self.setting.warmup)) <= self.now;
        let is_much = self.setting.hard_bytes / 4 <= self.written();
        let has_waited = BEGINNING.after(nanos(PATIENCE)) <= self.now;
        (is_time || is_much) && (self.watching.acked > 0 || has_waited)
    }

    fn measure(&mut self) {
        self.load.measure(self.now);
        self.watching.next_row = self.now.after(EACH_ROW);
        let Watching { worst, took, tail, .. } = &mut self.watching;
        *worst = Nanos::default();
        let _ = tail.take_p99([&*took]);
        self.watching.began = Some(Began {
            at: self.now,
            acked: self.watching.acked,
            appended: self.log.appended(),
            wrote: self.written(),
            counters: self.device.counters,
        });
    }

    fn row(&mut self, began: &Began) {
        self.watching.next_row = self.now.after(EACH_ROW);
        let Watching { worst, took, tail, .. } = &mut self.watching;
        let (worst_append, p99) = (std::mem::take(worst), tail.take_p99([&*took]));
        self.watching.series.push(Row {
            at: self.now.since(began.at),
            acked: self.watching.acked,
            marks: self.log.marks(),
            flushes: self.recorder.flush_count(),
            worst_append,
            p99_append: p99.min(worst_append),
            pages: None,
            tail: None,
            deleted: 0,
        });
    }

    /// What waits for its acknowledgement.
    fn waiting(&self) -> Waiting {
        self.producers.iter().fold(Waiting::default(), |all, producer| {
            let (messages, begun) = producer.waiting();
            let waited = begun.map_or(all.oldest, |begun| self.now.since(begun).max(all.oldest));
            Waiting { messages: all.messages + messages, oldest: waited }
        })
    }

    /// Why the measured time is over, if it is; by the rules of real cells.
    fn ends(&self, began: &Began) -> Option<EndedBy> {
        let wanted = if self.has_interval { 2 } else { 0 };
        let seen_enough = || self.recorder.flushes_since(began.at) >= wanted;
        let measure = self.setting.measure;
        let end = began.at.after(nanos(measure));
        let latest = began.at.after(nanos(measure.saturating_mul(LONGER)));
        if latest <= self.now || (end <= self.now && seen_enough()) {
            return Some(EndedBy::Time);
        }
        let written = self.written();
        let is_much = self.setting.soft_bytes <= written - began.wrote && seen_enough();
        (is_much || self.setting.hard_bytes <= written).then_some(EndedBy::Bytes)
    }

    fn end(&mut self, began: &Began, ended_by: EndedBy) {
        self.load.stop(self.now);
        let watching = &mut self.watching;
        watching.window = Some(Window {
            start: began.at,
            end: self.now,
            ended_by,
            appended: self.log.appended() - began.appended,
            acked: watching.acked - began.acked,
            samples: std::mem::take(&mut watching.samples),
            waiting: std::mem::take(&mut watching.waiting),
            log_bytes: self.log.marks().wrote().since(self.log.recovery().end) - began.wrote,
            device: Some(self.device.counters.since(&began.counters)),
            dirty: Dirty::default(),
            machine: Machine::default(),
            series: std::mem::take(&mut watching.series),
        });
    }
}
