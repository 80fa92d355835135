//! Reopening: what is really there, where it ends, and the durable cut behind it.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use store_core::{Invalid, LogOffset, Nanos, SegmentName, TimestampMs};

use crate::append::{Appended, Queues};
use crate::directory::Directory;
use crate::error::{Error, Op, OpenError};
use crate::hole::{began_a_blank, looks_torn, was_never_written};
use crate::listing::list;
use crate::map::FileWriter;
use crate::options::LogOptions;
use crate::recovery_point::{Others, PointFiles, READ_AGAIN, RecoveryPoint};
use crate::segment::Segment;
use crate::segment_scan::{ClockStep, Scanned, Tally, scan_segments};
use crate::set_aside::set_aside_range;
use crate::walk::{
    FOREIGN_RECORDS, Found, Resync, Walked, Walker, behind, is_whole, whole_but_for_the_property,
};

/// What opening a log found and did.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Recovery {
    /// Where the first segment begins.
    pub start: LogOffset,
    /// From where on records were read; what lies before was proven by an earlier run.
    pub scanned_from: LogOffset,
    /// Where valid records end, and appends go on.
    pub end: LogOffset,
    /// Valid records found from `scanned_from` on.
    pub records: u64,
    /// Whether the last owner did not close the log.
    pub unclean: bool,
    /// Bytes of a torn tail that were overwritten with zeroes behind `end`.
    pub torn_bytes: u64,
    /// Whole records among them, left over from an earlier cut that was not erased (RocketMQ does
    /// not): they are older than the last record.
    pub stale_records: u64,
    /// Whole records among them behind a hole that a power cut left: sectors that were never
    /// written though later ones were. No sync had covered them, so none was promised to be
    /// durable.
    pub unsynced_records: u64,
    /// Bytes among them that were copied to `commitlog/set-aside` first: whole records, and what
    /// should not be torn, because an earlier run had proven it durable.
    pub set_aside_bytes: u64,
    /// How often a store time lies before the previous record's.
    pub clock_steps: u64,
    /// The first time that it does.
    pub first_clock_step: Option<ClockStep>,
}

/// An opened log before its threads start.
#[derive(Debug)]
pub(crate) struct Recovered {
    pub(crate) report: Recovery,
    /// All segments, the active one last.
    pub(crate) segments: Vec<Arc<Segment>>,
    /// Whether the last segment takes appends.
    pub(crate) has_active: bool,
    pub(crate) writer: Option<FileWriter>,
    /// The last record.
    pub(crate) last: Option<Appended>,
    /// The latest store time that appends must not go behind.
    pub(crate) last_store: TimestampMs,
    pub(crate) points: PointFiles,
}

/// Scans what no recovery point proves, cuts a torn tail durably, and gives what is there.
///
/// `queues` are told the next offset of each queue. A recovery point counts only if the checkpoint
/// still has the same of `others`.
pub(crate) fn recover(
    directory: &Directory,
    options: &LogOptions,
    others: Others,
    (id, queues): (u64, &Queues),
) -> Result<Recovered, OpenError> {
    let (names, empty) = list(directory.segments(), options)?;
    let start = names.first().map_or(LogOffset::ZERO, |(start, _)| *start);
    let (points, found) = PointFiles::load(directory.root(), directory.files());
    let mut walker = Walker::new(options.protection);
    let size = options.segment_size;
    let ours = found.into_iter().filter(|point| point.others == others);
    let ours: Vec<_> = ours.filter(|point| point.segment_size == size).collect();
    // Also of a point whose last record is not there any more.
    let proven = ours.iter().map(|point| point.upto).max();
    let known = ours
        .into_iter()
        .find(|point| point.is_of(&names, size, options.protection, directory.files()));
    for mark in known.iter().flat_map(|known| &known.queues) {
        queues.found(id, &mark.topic, mark.id, mark.next);
    }
    let is_erased = known.as_ref().is_some_and(|known| known.is_erased);
    // Little is read whole all the same: it costs nothing, and shows damage early.
    let known = known.filter(|known| READ_AGAIN < known.upto.since(start));
    let from = known.as_ref().map_or(start, |known| known.upto);
    let mut scan = Scan {
        directory,
        options,
        others,
        id,
        queues,
        points,
        is_erased,
        proven,
        proven_here: None,
        saved: directory.files().monotonic(),
        tally: Tally::behind(known.and_then(|known| known.last)),
        segments: Vec::new(),
        torn: None,
        cached: Vec::new(),
    };
    for (start, path) in names.iter().take_while(|(start, _)| segment_end(*start, options) <= from)
    {
        scan.segments.push(Segment::unopened(path, *start, options));
    }
    let rest = &names[scan.segments.len()..];
    // What an owner closed was synced by it.
    let unproven_from = directory.was_abandoned().then(|| proven.unwrap_or(start));
    match scan_segments(rest, from, options, unproven_from, |scanned| scan.take(scanned)) {
        Ok(()) => scan.finish(start, from, &empty, &mut walker),
        Err(error) => {
            if error == OpenError::Interrupted {
                scan.save();
            }
            Err(error)
        }
    }
}

fn segment_end(start: LogOffset, options: &LogOptions) -> LogOffset {
    behind(start, options.segment_size.bytes())
}

/// Where valid records end before the last segment does.
#[derive(Clone, Copy, Debug)]
struct Torn {
    /// The segment, counted from the log's first.
    index: usize,
    at: LogOffset,
    found: Invalid,
}

struct Scan<'a> {
    directory: &'a Directory,
    options: &'a LogOptions,
    others: Others,
    id: u64,
    queues: &'a Queues,
    points: PointFiles,
    /// Whether nothing stands behind the log's end that an earlier cut did not erase.
    is_erased: bool,
    /// Up to where an earlier run had proven the log.
    proven: Option<LogOffset>,
    /// The end of the last whole segment that this scan has proven.
    proven_here: Option<LogOffset>,
    /// When a recovery point was last written.
    saved: Nanos,
    tally: Tally,
    segments: Vec<Segment>,
    torn: Option<Torn>,
    /// Segments, counted from the log's first, that the page cache still holds from a place on.
    cached: Vec<(usize, LogOffset)>,
}

impl Scan<'_> {
    /// Takes the next segment.
    fn take(&mut self, scanned: Scanned) -> Result<(), OpenError> {
        let Scanned { segment, walked, tally, cached_from } = scanned;
        let end = segment.end();
        self.cached.extend(cached_from.map(|from| (self.segments.len(), from)));
        let path = segment.path().to_owned();
        self.segments.push(segment);
        self.retire_oldest();
        if self.torn.is_some() {
            return Ok(());
        }
        for (topic, queue, next) in tally.queues() {
            self.queues.found(self.id, topic, queue, next);
        }
        self.tally.append(&tally);
        match walked {
            Walked::Invalid { at, found } => {
                self.torn = Some(Torn { index: self.segments.len() - 1, at, found });
            }
            Walked::Unreadable { at } => {
                let (path, found) = (path, "some bytes cannot be read".to_owned());
                return Err(OpenError::Damage(Box::new(crate::error::Damage {
                    path,
                    at,
                    len: end.since(at),
                    records_behind: 0,
                    resumes_at: None,
                    found,
                })));
            }
            Walked::Blank { .. } | Walked::Stopped { .. } => self.keep(end),
        }
        Ok(())
    }

    /// Old segments give their descriptors back, of which a process may have fewer than a long log
    /// has segments.
    fn retire_oldest(&mut self) {
        if let Some(older) = self.segments.len().checked_sub(OPEN_SEGMENTS + 1)
            && let Some(retired) = self.segments[older].retired(false)
        {
            self.segments[older] = retired;
        }
    }

    /// A whole segment was proven. In a long scan this is written down, so that the next open goes
    /// on from here if this one is killed.
    fn keep(&mut self, end: LogOffset) {
        self.proven_here = Some(end);
        let now = self.directory.files().monotonic();
        if SAVE_EACH <= now.since(self.saved) {
            self.save();
            self.saved = now;
        }
    }

    /// Writes a point at the end of the segments taken so far, which are all whole. A failure only
    /// makes the next open read more.
    fn save(&mut self) {
        let Some(end) = self.proven_here else { return };
        // What was only read from the page cache proves nothing.
        if self.write_again(end).is_err() {
            return;
        }
        let segments = &self.segments;
        self.cached.retain(|(index, _)| end < segments[*index].end());
        let size = self.options.segment_size;
        let point = RecoveryPoint::new(size, self.others, end, self.tally.last, self.queues);
        let point = RecoveryPoint { is_erased: self.is_erased, ..point };
        let _ = self.points.save(&point, self.directory.files(), false);
    }

    /// Cuts what is torn, and makes the last segment ready for appends.
    fn finish(
        mut self,
        start: LogOffset,
        scanned_from: LogOffset,
        empty: &[PathBuf],
        walker: &mut Walker,
    ) -> Result<Recovered, OpenError> {
        self.check_end()?;
        let unclean = self.directory.was_abandoned();
        let last_end = self.segments.last().map_or(LogOffset::ZERO, Segment::end);
        let mut report = Recovery {
            start,
            scanned_from,
            end: self.torn.map_or(last_end, |torn| torn.at),
            records: self.tally.records,
            unclean,
            clock_steps: self.tally.clock_steps,
            first_clock_step: self.tally.first_clock_step,
            ..Recovery::default()
        };
        if let Some(torn) = self.torn {
            // A log that was closed has nothing behind the place where it was closed.
            let is_last = torn.index + 1 == self.segments.len();
            let untouched = !unclean && start < scanned_from && torn.at == scanned_from;
            if !(untouched && is_last && torn.found == Invalid::Unwritten) {
                let cut = self.cut(torn, unclean, walker)?;
                report.torn_bytes = cut.bytes;
                report.stale_records = cut.stale_records;
                report.unsynced_records = cut.unsynced_records;
                report.set_aside_bytes = cut.set_aside_bytes;
            }
        }
        for path in empty {
            remove(path, self.directory)?;
        }
        self.write_again(report.end)?;
        let now = self.directory.files().wall();
        let Self { options, tally, mut segments, points, .. } = self;
        let mut recovered = Recovered {
            report,
            segments: Vec::new(),
            has_active: false,
            writer: None,
            last: tally.last,
            last_store: not_ahead(
                tally.latest.max(tally.last.map(|last| last.store_timestamp)),
                now,
            ),
            points,
        };
        // A segment that is not full takes the next append.
        if let Some(last) = segments.pop_if(|last| report.end < last.end()) {
            let (active, writer) = Segment::reopen(last.path(), last.start, report.end, options)?;
            segments.push(active);
            recovered.has_active = true;
            recovered.writer = writer;
        }
        recovered.segments = segments.into_iter().map(Arc::new).collect();
        Ok(recovered)
    }

    /// Writes again what was read from the page cache and not from the device, and syncs it: after
    /// a failed sync the cache can hold as clean what the device does not have.
    fn write_again(&self, end: LogOffset) -> Result<(), Error> {
        let mut window = vec![0; if self.cached.is_empty() { 0 } else { WINDOW }];
        for (index, from) in &self.cached {
            let Some(segment) = self.segments.get(*index) else { continue };
            let (segment, to) = (segment.opened()?, end.min(segment.end()));
            let mut at = *from;
            while at < to {
                let len = usize::try_from(to.since(at)).unwrap_or(WINDOW).min(WINDOW);
                segment.read(&mut window[..len], at)?;
                segment.write(&window[..len], at)?;
                at = behind(at, store_core::length_u64(len));
            }
            if *from < to {
                segment.sync(*from, to)?;
            }
        }
        Ok(())
    }

    /// Makes sure that no segment is missing at the end of what an earlier run had proven.
    fn check_end(&self) -> Result<(), OpenError> {
        let end = self.segments.last().map_or(LogOffset::ZERO, Segment::end);
        match self.proven {
            Some(proven) if end < proven => {
                let path = self.directory.segments().join(SegmentName::new(end).as_str());
                Err(OpenError::MissingEnd { path, proven })
            }
            _ => Ok(()),
        }
    }

    /// Makes sure that nothing valid lies behind the torn place but what was cut before, then
    /// overwrites what lies there with zeroes, and removes the segments behind it, which are all
    /// zero then. What should not be torn is copied first.
    ///
    /// The zeroes are durable before the log serves, so what they cover never comes back, neither
    /// here nor in RocketMQ, whose recovery moves only positions in memory (apache/rocketmq#10666).
    fn cut(&mut self, torn: Torn, unclean: bool, walker: &mut Walker) -> Result<Cut, OpenError> {
        let mut cuts = Vec::new();
        for segment in &self.segments[torn.index..] {
            let from = torn.at.max(segment.start);
            cuts.push(walker.last_data(segment, from, segment.end())?.map(|to| (from, to)));
        }
        let behind = Behind::look(&self.segments[torn.index..], &cuts, torn, walker)?;
        let last_store = self.tally.last.map(|last| last.store_timestamp);
        // A log of ours was never cut without erasing.
        let is_stale = behind.records > 0
            && !self.is_erased
            && !behind.gave_up
            && last_store.is_some_and(|last| behind.latest.is_some_and(|latest| latest < last));
        let segment = &self.segments[torn.index];
        let is_unsynced = behind.records > 0
            && !is_stale
            && !behind.gave_up
            && self.was_unsynced(torn, unclean, behind.blank_at.or(behind.resumes_at))?;
        let is_known = is_stale || is_unsynced;
        if (behind.records > 0 && !is_known) || behind.gave_up {
            return Err(behind.damage(segment, torn));
        }
        if let Some(refused) = self.understood_otherwise(torn, &cuts, walker)? {
            return Err(refused);
        }
        // A log that was closed has nothing in segments behind its last record. (Behind it in its
        // own segment it may: RocketMQ cuts a torn tail without overwriting it.)
        let foreign = cuts.iter().zip(&self.segments[torn.index..]).skip(1);
        if let Some((_, segment)) = foreign.into_iter().find(|(cut, _)| cut.is_some())
            && !unclean
            && !is_known
        {
            return Err(OpenError::UnknownFile { path: segment.path().to_owned() });
        }
        let is_expected = !is_known
            && self.proven.is_none_or(|upto| upto <= torn.at)
            && cuts.iter().skip(1).all(Option::is_none)
            && looks_torn(segment, torn.at, torn.found)?;
        let mut cut = Cut::default();
        if is_unsynced {
            cut.unsynced_records = behind.records;
        } else {
            cut.stale_records = behind.records;
        }
        for (range, segment) in cuts.iter().zip(&self.segments[torn.index..]) {
            let Some((from, to)) = *range else { continue };
            if !is_expected {
                let files = self.directory.files();
                set_aside_range(files, self.directory.segments(), segment, from, to)?;
                cut.set_aside_bytes += to.since(from);
            }
            overwrite(segment, from, to)?;
            cut.bytes += to.since(from);
        }
        // The segment with the torn place stays, as the active one. Those behind it go from the
        // last on, each durably, so that a crash in between leaves no gap.
        for empty in self.segments.drain(torn.index + 1..).rev() {
            remove(empty.path(), self.directory)?;
        }
        Ok(cut)
    }

    /// Whether a power cut explains a torn place that valid records lie behind: the log was in use
    /// (so a point of ours says how far it was proven), nothing proves it up to there, and sectors
    /// are missing. What lies behind was then covered by no sync either: a sync covers all that is
    /// before its end.
    fn was_unsynced(
        &self,
        torn: Torn,
        unclean: bool,
        written_at: Option<LogOffset>,
    ) -> Result<bool, Error> {
        let segment = &self.segments[torn.index];
        let range = segment.start..segment.end();
        let upto = match written_at {
            Some(at) if at < segment.end() => at,
            // Nothing closes the segment, so its end may never have been needed: only what was
            // begun shows that it was, or that nothing stands at the bad place itself.
            _ if looks_torn(segment, torn.at, torn.found)?
                || began_a_blank(segment, &range, torn.at)? =>
            {
                segment.end()
            }
            _ => behind(torn.at, 1),
        };
        let is_unproven = self.proven.is_some_and(|proven| proven <= torn.at);
        Ok(unclean && is_unproven && was_never_written(segment, &range, torn.at, upto)?)
    }

    /// Whether the torn place or a segment behind it holds what is no torn tail though no valid
    /// record lies behind: whole records that say that they stand elsewhere, which a segment under
    /// a wrong name begins with, or several that are whole but for their CRC32 property.
    fn understood_otherwise(
        &self,
        torn: Torn,
        data: &[Option<(LogOffset, LogOffset)>],
        walker: &mut Walker,
    ) -> Result<Option<OpenError>, Error> {
        for (segment, data) in self.segments[torn.index..].iter().zip(data) {
            let Some((from, _)) = *data else { continue };
            walker.forget();
            let Found::Invalid(found) = walker.step(segment, from, segment.end())? else {
                continue;
            };
            let whole = match found {
                Invalid::Place { .. } if is_whole(segment, from, segment.end())? => 1,
                Invalid::RecordCrc { .. } => {
                    whole_but_for_the_property(segment, from, segment.end())?
                }
                _ => 0,
            };
            let is_elsewhere = matches!(found, Invalid::Place { .. }) && whole > 0;
            if is_elsewhere || whole >= FOREIGN_RECORDS {
                let here = Torn { at: from, found, ..torn };
                return Ok(Some(Behind::default().damage(segment, here)));
            }
        }
        Ok(None)
    }
}

/// What was overwritten.
#[derive(Clone, Copy, Debug, Default)]
struct Cut {
    bytes: u64,
    stale_records: u64,
    unsynced_records: u64,
    set_aside_bytes: u64,
}

/// What valid records lie behind a torn place.
#[derive(Debug, Default)]
struct Behind {
    records: u64,
    resumes_at: Option<LogOffset>,
    /// Where the blank stands that closes the torn segment, if no record lies before it.
    blank_at: Option<LogOffset>,
    latest: Option<TimestampMs>,
    /// The search was given up: too much only looks like records.
    gave_up: bool,
}

impl Behind {
    /// Looks through `segments`, of which the first holds the torn place; `data` says where
    /// something other than zeroes is.
    fn look(
        segments: &[Segment],
        data: &[Option<(LogOffset, LogOffset)>],
        torn: Torn,
        walker: &mut Walker,
    ) -> Result<Self, Error> {
        let mut found = Self::default();
        for (segment, data) in segments.iter().zip(data) {
            walker.forget();
            let Some((from, _)) = *data else { continue };
            let mut bad =
                if from == torn.at { Some(from) } else { found.walk(segment, from, walker)? };
            while let Some(place) = bad {
                bad = match walker.resync(segment, place, segment.end())? {
                    Resync::Record(at) => found.walk(segment, at, walker)?,
                    Resync::Blank(at) => {
                        // Behind it a segment is zero, which says nothing of a hole.
                        let is_first = found.records == 0 && segment.start <= torn.at;
                        found.blank_at = found.blank_at.or(is_first.then_some(at));
                        None
                    }
                    Resync::Nothing => None,
                    Resync::Exhausted => {
                        found.gave_up = true;
                        None
                    }
                };
            }
        }
        Ok(found)
    }

    /// Counts records from `from` on; gives the next bad place in the segment.
    fn walk(
        &mut self,
        segment: &Segment,
        from: LogOffset,
        walker: &mut Walker,
    ) -> Result<Option<LogOffset>, Error> {
        let ended = walker.walk(segment, from, segment.end(), &mut |view| {
            self.records += 1;
            self.resumes_at.get_or_insert(view.log_offset());
            self.latest = self.latest.max(Some(view.store_timestamp()));
            ControlFlow::Continue(())
        })?;
        Ok(match ended {
            Walked::Blank { .. } | Walked::Stopped { .. } => None,
            Walked::Invalid { at, .. } | Walked::Unreadable { at } => Some(at),
        })
    }

    fn damage(&self, segment: &Segment, torn: Torn) -> OpenError {
        let upto = self.resumes_at.unwrap_or(segment.end());
        OpenError::Damage(Box::new(crate::error::Damage {
            path: segment.path().to_owned(),
            at: torn.at,
            len: upto.since(torn.at),
            records_behind: self.records,
            resumes_at: self.resumes_at,
            found: torn.found.to_string(),
        }))
    }
}

/// The latest store time, unless the clock has since been set back by more than a moment: new
/// records must not be held at a time that comes much later.
fn not_ahead(latest: Option<TimestampMs>, now: TimestampMs) -> TimestampMs {
    let latest = latest.unwrap_or_default();
    if latest.get().saturating_sub(now.get()) > CLOCK_SLACK_MS { now } else { latest }
}

/// Writes zeroes over `from..to` and makes them durable.
fn overwrite(segment: &Segment, from: LogOffset, to: LogOffset) -> Result<(), Error> {
    // One descriptor: what the writes did wrong, its sync tells.
    let segment = segment.opened()?;
    let zeroes = vec![0; WINDOW];
    let mut at = from;
    while at < to {
        let len = usize::try_from(to.since(at)).unwrap_or(WINDOW).min(WINDOW);
        segment.write(&zeroes[..len], at)?;
        at = behind(at, store_core::length_u64(len));
    }
    segment.sync(from, to)
}

/// Removes an empty segment durably.
fn remove(path: &Path, directory: &Directory) -> Result<(), Error> {
    let removed = directory.files().remove(path);
    removed.map_err(|error| Error::from_std(Op::Remove, path, &error))?;
    directory.sync_segments()
}

/// Segments whose descriptors stay open behind the scan.
const OPEN_SEGMENTS: usize = 8;
/// How much is written at a time.
const WINDOW: usize = 1 << 20;
/// How often a long scan keeps how far it came.
const SAVE_EACH: Nanos = Nanos::new(5_000_000_000);
/// How far store times may lie ahead of the clock and still be gone on from.
const CLOCK_SLACK_MS: i64 = 10_000;
