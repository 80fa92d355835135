//! From scanned segments to a survey: what lies behind what, and where the log ends.

use std::collections::BTreeMap;
use std::path::PathBuf;

use store_core::{LogOffset, Protection, SegmentName, TimestampMs};

use super::listing::{Listed, Listing};
use super::scan::{Bad, SegmentScan, Tally, scan_listed};
use super::{Examined, Fault, FaultKind, Progress, Survey, SurveyError};
use crate::walk::{Resync, Walker, behind};

/// A stretch of a segment that must be filled for the records behind it to be found again.
#[derive(Clone, Debug)]
pub(crate) struct Bridge {
    /// The segment, by its place in the listing.
    pub(crate) segment: usize,
    pub(crate) from: LogOffset,
    pub(crate) to: LogOffset,
    /// Whether a record of the segment follows; else the segment's rest is lost.
    pub(crate) has_next: bool,
    pub(crate) found: String,
    /// The store time of the record before it, or of the log's first one.
    pub(crate) store: TimestampMs,
}

/// What is not zero in a segment behind the log's end.
#[derive(Clone, Debug)]
pub(crate) struct TailPart {
    /// The segment, by its place in the listing.
    pub(crate) segment: usize,
    pub(crate) from: LogOffset,
    pub(crate) to: LogOffset,
    pub(crate) found: String,
}

/// Segments that are missing between two others, or before the log's proven end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gap {
    pub(crate) from: LogOffset,
    pub(crate) to: LogOffset,
    /// Whether a record of the log stands behind it.
    pub(crate) has_records_behind: bool,
}

pub(crate) fn merge(
    mut listing: Listing,
    scans: Vec<Option<SegmentScan>>,
    protection: Protection,
    locked: bool,
) -> Result<Examined, SurveyError> {
    // What was removed since it was listed: at the front it expired, elsewhere it is missing.
    let mut there = scans.iter().map(Option::is_some);
    listing.segments.retain(|_| there.next().unwrap_or(false));
    let mut scans: Vec<SegmentScan> = scans.into_iter().flatten().collect();
    settle(&mut scans);
    // A log of ours was never cut without erasing.
    let point = listing.point(protection);
    let is_erased = point.as_ref().is_some_and(|point| point.is_erased);
    let missing_end = listing.missing_end();
    let stale = if is_erased || missing_end.is_some() { None } else { stale_from(&scans) };
    let stale_records = match stale {
        Some((index, from)) => cut_stale(&listing, &mut scans, protection, (index, from))?,
        None => Vec::new(),
    };
    let mut merger = Merger::new(&listing, &scans, &stale_records);
    if let Some((from, to)) = missing_end {
        // Records stood there: nothing before it is a tail.
        merger.gaps.iter_mut().for_each(|gap| gap.has_records_behind = true);
        merger.gaps.push(Gap { from, to, has_records_behind: true });
        merger.end = to;
    }
    let (mut faults, bridges) = merger.faults_before_the_end();
    let tail = merger.tail();
    faults.extend(merger.tail_faults(&tail));
    faults.extend(merger.length_faults());
    if locked {
        // Its owner is making it.
        faults.retain(|fault| fault.kind != FaultKind::Empty);
    }
    faults.sort_by_key(|fault| fault.from);
    let no_part = |path: &PathBuf, kind| {
        let path = path.clone();
        Fault { path, from: LogOffset::ZERO, to: LogOffset::ZERO, kind }
    };
    faults.extend(listing.links.iter().map(|path| no_part(path, FaultKind::SymbolicLink)));
    faults.extend(listing.foreign.iter().map(|path| no_part(path, FaultKind::UnknownFile)));
    let (end, gaps) = (merger.end, merger.gaps);
    let survey = Survey {
        proven: point.map(|point| point.upto),
        ..summary(&listing, scans, end, faults, locked)
    };
    Ok(Examined { survey, listing, bridges, tail, gaps })
}

/// Gives each bad place what only its predecessors and successors in other segments know.
fn settle(scans: &mut [SegmentScan]) {
    let mut before = None;
    for scan in scans.iter_mut() {
        for bad in &mut scan.bad {
            bad.store_before = bad.store_before.or(before);
        }
        before = scan.tally.last_store.or(before);
    }
    let mut behind = None;
    for scan in scans.iter_mut().rev() {
        for bad in scan.bad.iter_mut().rev() {
            bad.latest_behind = bad.latest_behind.max(behind);
            behind = bad.latest_behind;
        }
        behind = behind.max(scan.tally.latest_store);
    }
}

/// The first bad place behind which there are records, all of them older than the last one before
/// it. An owner never writes such: they are left over.
fn stale_from(scans: &[SegmentScan]) -> Option<(usize, LogOffset)> {
    scans.iter().enumerate().find_map(|(index, scan)| {
        let bad = scan.bad.iter().find(|bad| {
            let is_older = matches!(
                (bad.latest_behind, bad.store_before),
                (Some(behind), Some(before)) if behind < before
            );
            is_older && bad.unreadable.is_none()
        });
        bad.map(|bad| (index, bad.from))
    })
}

/// Takes the records behind `from` out of what was found; gives how many each segment had.
fn cut_stale(
    listing: &Listing,
    scans: &mut [SegmentScan],
    protection: Protection,
    (index, from): (usize, LogOffset),
) -> Result<Vec<u64>, SurveyError> {
    let mut counts = vec![0; scans.len()];
    for (segment, scan) in scans.iter_mut().enumerate().skip(index) {
        let listed = &listing.segments[segment];
        let limit = from.max(listed.start);
        let before = scan.segment.records;
        let progress = Progress::unwatched();
        let mut walker = Walker::new(protection);
        let cut = scan_listed(listed, listing.size, &mut walker, &progress, Some(limit))?;
        if let Some(mut cut) = cut {
            if let (Some(bad), Some(old)) = (cut.bad.last_mut(), scan.bad.first()) {
                bad.store_before = bad.store_before.or(old.store_before);
            }
            counts[segment] = before - cut.segment.records;
            *scan = cut;
        }
    }
    Ok(counts)
}

struct Merger<'a> {
    listing: &'a Listing,
    scans: &'a [SegmentScan],
    /// By segment, the records behind the end that are older than those before it.
    stale_records: &'a [u64],
    records: u64,
    /// Where valid records end.
    end: LogOffset,
    gaps: Vec<Gap>,
}

impl<'a> Merger<'a> {
    fn new(listing: &'a Listing, scans: &'a [SegmentScan], stale_records: &'a [u64]) -> Self {
        let records = scans.iter().map(|scan| scan.segment.records).sum();
        let mut merger =
            Self { listing, scans, stale_records, records, end: LogOffset::ZERO, gaps: Vec::new() };
        merger.find_gaps_and_end();
        merger
    }

    fn find_gaps_and_end(&mut self) {
        let mut before = 0;
        let mut expected: Option<LogOffset> = None;
        let mut end = None;
        for (listed, scan) in self.listing.segments.iter().zip(self.scans) {
            let from = expected.unwrap_or(listed.start);
            if from < listed.start {
                let has_records_behind = before < self.records;
                self.gaps.push(Gap { from, to: listed.start, has_records_behind });
                if !has_records_behind {
                    end.get_or_insert(from);
                }
            }
            let last = scan.bad.iter().find(|bad| before + bad.records_before == self.records);
            if let Some(bad) = last {
                end.get_or_insert(bad.from);
            }
            before += scan.segment.records;
            expected = Some(behind(listed.start, self.listing.size.bytes()));
        }
        self.end = end.or(expected).unwrap_or(LogOffset::ZERO);
    }

    /// The bad places and gaps before the end, and what bridges the former.
    fn faults_before_the_end(&self) -> (Vec<Fault>, Vec<Bridge>) {
        let mut faults = Vec::new();
        let mut bridges = Vec::new();
        let mut before = 0;
        let first_store = self.scans.iter().find_map(|scan| scan.tally.first_store);
        for (segment, scan) in self.scans.iter().enumerate() {
            for bad in scan.bad.iter().filter(|bad| bad.from < self.end) {
                let records_behind = self.records - before - bad.records_before;
                faults.push(self.fault(segment, bad, bad.to, records_behind));
                bridges.push(Bridge {
                    segment,
                    from: bad.from,
                    to: bad.to,
                    has_next: matches!(bad.goes_on, Resync::Record(_)),
                    found: bad.found.clone(),
                    store: bad.store_before.or(first_store).unwrap_or_default(),
                });
            }
            before += scan.segment.records;
        }
        faults.extend(self.gaps.iter().map(|gap| Fault {
            path: self.listing.directory.join(SegmentName::new(gap.from).as_str()),
            from: gap.from,
            to: gap.to,
            kind: FaultKind::MissingSegment,
        }));
        (faults, bridges)
    }

    fn fault(&self, segment: usize, bad: &Bad, to: LogOffset, records_behind: u64) -> Fault {
        let kind = match bad.unreadable {
            Some(errno) => FaultKind::Unreadable { errno, records_behind },
            None => FaultKind::Damage { found: bad.found.clone(), records_behind },
        };
        Fault { path: self.listing.segments[segment].path.clone(), from: bad.from, to, kind }
    }

    /// What is not zero behind the end, by segment.
    fn tail(&self) -> Vec<TailPart> {
        let mut tail = Vec::new();
        for (segment, scan) in self.scans.iter().enumerate() {
            let last = scan.bad.iter().rev().find(|bad| self.end <= bad.from);
            let Some(bad) = scan.bad.iter().find(|bad| self.end <= bad.from) else {
                // A blank alone behind the end closes a segment that nothing leads to.
                let start = scan.segment.start;
                if self.end <= start && scan.segment.blank_bytes > 0 {
                    let to = behind(start, scan.segment.blank_bytes);
                    let found = "a blank that nothing leads to".to_owned();
                    tail.push(TailPart { segment, from: start, to, found });
                }
                continue;
            };
            if let Some(to) = last.and_then(|last| last.data_end) {
                let found = bad.found.clone();
                tail.push(TailPart { segment, from: bad.from, to, found });
            }
        }
        tail
    }

    fn tail_faults(&self, tail: &[TailPart]) -> Vec<Fault> {
        let mut faults = Vec::new();
        for part in tail {
            let listed = &self.listing.segments[part.segment];
            let scan = &self.scans[part.segment];
            let bad = scan.bad.iter().find(|bad| self.end <= bad.from);
            let stale = self.stale_records.get(part.segment).copied().unwrap_or(0);
            let refused = bad.filter(|bad| {
                bad.is_foreign || bad.unreadable.is_some() || bad.goes_on == Resync::Exhausted
            });
            // A log that was closed has nothing in segments behind the one that it ends in.
            let is_closed = self.listing.root.is_some() && self.listing.abort.is_none();
            let found = part.found.clone();
            let kind = match refused {
                Some(bad) => self.fault(part.segment, bad, part.to, 0).kind,
                None if stale > 0 => FaultKind::StaleTail { found, records: stale },
                None if is_closed && self.end < listed.start => FaultKind::UnknownFile,
                None => FaultKind::TornTail { found },
            };
            faults.push(Fault { path: listed.path.clone(), from: part.from, to: part.to, kind });
        }
        faults
    }

    fn length_faults(&self) -> Vec<Fault> {
        let expected = self.listing.size.bytes();
        let fault = |file: &Listed, kind| Fault {
            path: file.path.clone(),
            from: file.start,
            to: behind(file.start, expected),
            kind,
        };
        let wrong = self.listing.segments.iter().filter(|file| file.len != expected);
        let wrong =
            wrong.map(|file| fault(file, FaultKind::WrongLength { found: file.len, expected }));
        let empty = self.listing.empty.iter().map(|file| fault(file, FaultKind::Empty));
        wrong.chain(empty).collect()
    }
}

fn summary(
    listing: &Listing,
    scans: Vec<SegmentScan>,
    end: LogOffset,
    faults: Vec<Fault>,
    locked: bool,
) -> Survey {
    let mut all = Tally::default();
    let mut segments = Vec::with_capacity(scans.len());
    for scan in scans {
        let mut segment = scan.segment;
        if let Some(Bad { goes_on: Resync::Blank(blank), .. }) = scan.bad.last() {
            segment.blank_bytes = behind(segment.start, listing.size.bytes()).since(*blank);
        }
        if end <= segment.start {
            segment.blank_bytes = 0;
        }
        all.join(scan.tally);
        segments.push(segment);
    }
    let total = |part: fn(&super::SegmentSurvey) -> u64| segments.iter().map(part).sum();
    Survey {
        segments_dir: listing.directory.clone(),
        segment_size: listing.size,
        start: segments.first().map_or(LogOffset::ZERO, |segment| segment.start),
        end,
        faults,
        records: total(|segment| segment.records),
        record_bytes: total(|segment| segment.record_bytes),
        blank_bytes: total(|segment| segment.blank_bytes),
        segments,
        topics: all.topics.into_iter().collect::<BTreeMap<_, _>>(),
        records_v2: all.records_v2,
        records_protected: all.records_protected,
        first_store: all.first_store,
        last_store: all.last_store,
        clock_steps: all.clock_steps,
        first_clock_step: all.first_clock_step,
        checkpoint: listing.checkpoint,
        proven: None,
        abort: listing.abort.clone(),
        locked,
    }
}
