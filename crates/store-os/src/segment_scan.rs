//! Reading the segments that recovery must see: several at a time, each from the device.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc;

use store_core::{LogOffset, QueueId, QueueOffset, RecordView, TimestampMs};

use crate::append::Appended;
use crate::error::{Error, Op, OpenError};
use crate::options::LogOptions;
use crate::segment::Segment;
use crate::walk::{Walked, Walker};

/// How far reading a log has come.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ScanProgress {
    /// Bytes looked at.
    pub scanned_bytes: u64,
    /// Bytes to look at, unused rest of the last segment included.
    pub total_bytes: u64,
    /// Valid records found in them.
    pub records: u64,
}

/// A store time that lies before the previous record's: the clock was set back.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ClockStep {
    /// The record with the earlier time.
    pub at: LogOffset,
    /// The previous record's store time.
    pub before: TimestampMs,
    /// Its own.
    pub after: TimestampMs,
}

/// What one segment holds up to where valid records end in it.
#[derive(Debug)]
pub(crate) struct Scanned {
    pub(crate) segment: Segment,
    pub(crate) walked: Walked,
    pub(crate) tally: Tally,
    /// From where on the page cache could not be made to forget it, if that was asked for.
    pub(crate) cached_from: Option<LogOffset>,
}

/// What was counted on a way through records.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) records: u64,
    pub(crate) first: Option<Appended>,
    pub(crate) last: Option<Appended>,
    pub(crate) latest: Option<TimestampMs>,
    pub(crate) clock_steps: u64,
    pub(crate) first_clock_step: Option<ClockStep>,
    /// Each queue's next offset.
    queues: HashMap<Box<[u8]>, HashMap<QueueId, u64>>,
}

impl Tally {
    /// Nothing yet, behind a record.
    pub(crate) fn behind(last: Option<Appended>) -> Self {
        Self { last, ..Self::default() }
    }

    fn add(&mut self, view: &RecordView<'_>) {
        let record = Appended {
            offset: view.log_offset(),
            len: view.total_size(),
            queue_offset: view.queue_offset(),
            store_timestamp: view.store_timestamp(),
        };
        self.step_to(record);
        self.first.get_or_insert(record);
        self.last = Some(record);
        self.latest = self.latest.max(Some(record.store_timestamp));
        self.records += 1;
        if view.sys_flag().transaction_type().takes_queue_offset() {
            self.count(view.topic(), view.queue_id(), view.queue_offset(), view.message_count());
        }
    }

    fn step_to(&mut self, next: Appended) {
        let Some(before) = self.last.map(|last| last.store_timestamp) else { return };
        if next.store_timestamp < before {
            self.clock_steps += 1;
            self.first_clock_step.get_or_insert(ClockStep {
                at: next.offset,
                before,
                after: next.store_timestamp,
            });
        }
    }

    fn count(&mut self, topic: &[u8], id: QueueId, offset: QueueOffset, messages: u16) {
        // Nothing may protect the field: what no counter can have reached is not where one goes on.
        let next = offset.get().saturating_add(u64::from(messages));
        if LogOffset::MAX.get() < next {
            return;
        }
        let queues = match self.queues.get_mut(topic) {
            Some(queues) => queues,
            None => self.queues.entry(topic.into()).or_default(),
        };
        let known = queues.entry(id).or_default();
        *known = next.max(*known);
    }

    /// Adds what was counted right behind.
    pub(crate) fn append(&mut self, behind: &Self) {
        if let Some(first) = behind.first {
            self.step_to(first);
            self.first.get_or_insert(first);
        }
        self.last = behind.last.or(self.last);
        self.latest = self.latest.max(behind.latest);
        self.records += behind.records;
        self.clock_steps += behind.clock_steps;
        self.first_clock_step = self.first_clock_step.or(behind.first_clock_step);
    }

    /// Gives each queue's next offset.
    pub(crate) fn queues(&self) -> impl Iterator<Item = (&[u8], QueueId, u64)> {
        self.queues
            .iter()
            .flat_map(|(topic, queues)| queues.iter().map(move |(id, next)| (&**topic, *id, *next)))
    }
}

/// Scans the segments of `names` from `from` on, and gives them to `took` in log order.
///
/// A segment begins with a record at its first byte, so each is a job of its own. It is synced
/// before it is read, and its clean pages forgotten: what the page cache holds after a failed sync
/// is not what the device has. Of what lies behind `unproven_from`, is looked at what it kept all
/// the same.
pub(crate) fn scan_segments(
    names: &[(LogOffset, PathBuf)],
    from: LogOffset,
    options: &LogOptions,
    unproven_from: Option<LogOffset>,
    mut took: impl FnMut(Scanned) -> Result<(), OpenError>,
) -> Result<(), OpenError> {
    let size = options.segment_size.bytes();
    let first = names.first().map_or(from, |(start, _)| from.max(*start));
    let end = names.last().map_or(first, |(start, _)| LogOffset::new(start.get() + size));
    let total_bytes = end.since(first);
    let shared = Progress { unproven_from, total_bytes, ..Progress::new(options) };
    let next = AtomicUsize::new(0);
    let threads = options.files().readers().min(names.len());
    if threads <= 1 {
        return alone(names, from, &shared, took);
    }
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        let mut refused = None;
        let mut started = 0;
        for _ in 0..threads {
            let (sender, shared, next) = (sender.clone(), &shared, &next);
            let thread = std::thread::Builder::new().name("log-scan".to_owned());
            let spawned = thread.spawn_scoped(scope, move || {
                let mut walker = Walker::new(options.protection);
                while !shared.is_stopped() {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some((start, path)) = names.get(index) else { return };
                    let scanned = shared.scan(&mut walker, *start, path, from);
                    if sender.send((index, scanned)).is_err() {
                        return;
                    }
                }
            });
            match spawned {
                Ok(_) => started += 1,
                Err(error) => refused = Some(error),
            }
        }
        drop(sender);
        // One thread does as well as many.
        if let (0, Some(error), Some((_, path))) = (started, refused, names.first()) {
            return Err(Error::from_std(Op::Spawn, path, &error).into());
        }
        let result = in_order(&receiver, &mut took);
        shared.stopped.store(true, Ordering::Relaxed);
        result
    })?;
    if shared.interrupted.load(Ordering::Relaxed) {
        return Err(OpenError::Interrupted);
    }
    Ok(())
}

/// Scans the segments one after the other.
fn alone(
    names: &[(LogOffset, PathBuf)],
    from: LogOffset,
    shared: &Progress<'_>,
    mut took: impl FnMut(Scanned) -> Result<(), OpenError>,
) -> Result<(), OpenError> {
    let mut walker = Walker::new(shared.options.protection);
    for (start, path) in names {
        let scanned = shared.scan(&mut walker, *start, path, from)?;
        if matches!(scanned.walked, Walked::Stopped { .. }) {
            return Err(OpenError::Interrupted);
        }
        took(scanned)?;
    }
    Ok(())
}

fn in_order(
    receiver: &mpsc::Receiver<(usize, Result<Scanned, Error>)>,
    took: &mut impl FnMut(Scanned) -> Result<(), OpenError>,
) -> Result<(), OpenError> {
    let mut waiting = BTreeMap::new();
    let mut next = 0;
    for (index, scanned) in receiver {
        waiting.insert(index, scanned);
        while let Some(scanned) = waiting.remove(&next) {
            let scanned = scanned?;
            if matches!(scanned.walked, Walked::Stopped { .. }) {
                return Ok(());
            }
            took(scanned)?;
            next += 1;
        }
    }
    Ok(())
}

/// What the scanning threads share.
struct Progress<'a> {
    options: &'a LogOptions,
    unproven_from: Option<LogOffset>,
    total_bytes: u64,
    scanned_bytes: AtomicU64,
    records: AtomicU64,
    stopped: AtomicBool,
    interrupted: AtomicBool,
}

impl<'a> Progress<'a> {
    fn new(options: &'a LogOptions) -> Self {
        Self {
            options,
            unproven_from: None,
            total_bytes: 0,
            scanned_bytes: AtomicU64::new(0),
            records: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            interrupted: AtomicBool::new(false),
        }
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    fn scan(
        &self,
        walker: &mut Walker,
        start: LogOffset,
        path: &std::path::Path,
        from: LogOffset,
    ) -> Result<Scanned, Error> {
        let segment = Segment::sealed(path, start, self.options)?;
        segment.sync(segment.start, segment.end())?;
        segment.forget_clean_pages();
        let unproven = self.unproven_from.map(|from| from.clamp(segment.start, segment.end()));
        let cached_from = unproven.and_then(|from| segment.first_cached(from));
        segment.read_ahead();
        walker.forget();
        let from = from.max(start);
        let mut tally = Tally::default();
        let mut told = (from, 0);
        let ended = walker.walk(&segment, from, segment.end(), &mut |view| {
            tally.add(view);
            let at = LogOffset::new(view.log_offset().get() + u64::from(view.total_size()));
            if at.since(told.0) < TELL_EACH {
                return ControlFlow::Continue(());
            }
            let (bytes, records) = (at.since(told.0), tally.records - told.1);
            told = (at, tally.records);
            self.tell(bytes, records)
        })?;
        let rest = segment.end().since(told.0);
        if self.tell(rest, tally.records - told.1).is_break() {
            let ended = Walked::Stopped { at: from };
            return Ok(Scanned { segment, walked: ended, tally, cached_from });
        }
        Ok(Scanned { segment, walked: ended, tally, cached_from })
    }

    fn tell(&self, bytes: u64, records: u64) -> ControlFlow<()> {
        let progress = ScanProgress {
            scanned_bytes: self.scanned_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes,
            total_bytes: self.total_bytes,
            records: self.records.fetch_add(records, Ordering::Relaxed) + records,
        };
        let told = self.options.observer.as_ref().map(|observer| observer.on_recovery(&progress));
        if told.is_some_and(|told| told.is_break()) {
            self.interrupted.store(true, Ordering::Relaxed);
            self.stopped.store(true, Ordering::Relaxed);
        }
        if self.is_stopped() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// How many bytes pass between two reports of progress.
const TELL_EACH: u64 = 8 << 20;
