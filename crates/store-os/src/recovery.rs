//! Reopening: what is really there, where it ends, and the durable cut behind it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use store_core::{
    Invalid, LogOffset, PROBE_LEN, QueueId, QueueOffset, RecordView, SegmentName, Step,
    TimestampMs, length_u64, record_at, scan_step,
};

use crate::directory::{Directory, sync_directory};
use crate::error::{Error, Op, OpenError};
use crate::map::FileWriter;
use crate::options::LogOptions;
use crate::segment::Segment;

/// What opening a log found and did.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Recovery {
    /// Where the first segment begins.
    pub start: LogOffset,
    /// Where valid records end, and appends go on.
    pub end: LogOffset,
    /// Valid records found.
    pub records: u64,
    /// Whether the last owner did not close the log.
    pub unclean: bool,
    /// Bytes of a torn tail that were overwritten with zeroes behind `end`.
    pub torn_bytes: u64,
}

/// An opened log before its threads start.
#[derive(Debug, Default)]
pub(crate) struct Recovered {
    pub(crate) report: Recovery,
    /// All segments, the active one last.
    pub(crate) segments: Vec<Arc<Segment>>,
    /// Whether the last segment takes appends.
    pub(crate) has_active: bool,
    pub(crate) writer: Option<FileWriter>,
    pub(crate) last_store: TimestampMs,
}

/// Scans the log, cuts a torn tail durably, and gives what is there.
///
/// Every segment is synced before it is read, and its clean pages forgotten: what the page cache
/// holds after a failed sync is not what the device has. `found` is told of each record that takes
/// a queue offset.
pub(crate) fn recover(
    directory: &Directory,
    options: &LogOptions,
    mut found: impl FnMut(&[u8], QueueId, QueueOffset),
) -> Result<Recovered, OpenError> {
    let names = list(directory.segments(), options)?;
    let unclean = directory.was_abandoned();
    let mut scan = Scan {
        unclean,
        options,
        buffer: vec![0; WINDOW],
        records: 0,
        last_store: TimestampMs::default(),
    };
    let mut segments = Vec::new();
    let mut torn = None;
    for (start, path) in &names {
        let segment = Segment::sealed(path, *start, options)?;
        segment.sync(segment.start, segment.end())?;
        segment.forget_clean_pages();
        if torn.is_none() {
            torn = scan.segment(&segment, &mut found)?;
        }
        segments.push(segment);
        // A long log has more segments than a process may have descriptors.
        if let Some(older) = segments.len().checked_sub(OPEN_SEGMENTS + 1)
            && let Some(retired) = segments[older].retired(false)
        {
            segments[older] = retired;
        }
    }
    let last_end = segments.last().map_or(LogOffset::ZERO, Segment::end);
    let end = torn.map_or(last_end, |torn: Torn| torn.at);
    let start = segments.first().map_or(LogOffset::ZERO, |segment| segment.start);
    let mut torn_bytes = 0;
    if let Some(torn) = torn {
        torn_bytes = scan.cut(directory, &mut segments, torn)?;
    }
    let mut recovered = Recovered {
        report: Recovery { start, end, records: scan.records, unclean, torn_bytes },
        last_store: scan.last_store,
        ..Recovered::default()
    };
    // A segment that is not full takes the next append.
    if let Some(last) = segments.last().filter(|last| end < last.end()) {
        let (active, writer) = Segment::reopen(last.path(), last.start, end, options)?;
        segments.pop();
        segments.push(active);
        recovered.has_active = true;
        recovered.writer = writer;
    }
    recovered.segments = segments.into_iter().map(Arc::new).collect();
    Ok(recovered)
}

/// The segments by their first offset. Last ones without a byte are what a crash leaves between
/// creating a file and giving it its length: they are removed.
fn list(directory: &Path, options: &LogOptions) -> Result<Vec<(LogOffset, PathBuf)>, OpenError> {
    let listing = |error: &std::io::Error| Error::from_std(Op::List, directory, error);
    let mut names = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(|error| listing(&error))? {
        let entry = entry.map_err(|error| listing(&error))?;
        let path = entry.path();
        let kind = entry.file_type().map_err(|error| listing(&error))?;
        let start = entry.file_name().to_str().and_then(SegmentName::parse);
        let ends = start.and_then(|start| start.checked_add(options.segment_size.bytes()));
        match start {
            Some(start) if kind.is_file() && ends.is_some() => names.push((start, path)),
            None if kind.is_dir() => {}
            _ => return Err(OpenError::UnknownFile { path }),
        }
    }
    names.sort_unstable();
    let expected = options.segment_size.bytes();
    let mut lengths: Vec<u64> =
        names.iter().map(|(_, path)| length(path)).collect::<Result<_, _>>()?;
    while let Some((_, path)) = names.pop_if(|_| lengths.pop_if(|last| *last == 0).is_some()) {
        std::fs::remove_file(&path).map_err(|error| Error::from_std(Op::Remove, &path, &error))?;
        sync_directory(directory)?;
    }
    for ((_, path), found) in names.iter().zip(lengths) {
        if found != expected {
            return Err(OpenError::WrongLength { path: path.clone(), found, expected });
        }
    }
    for (earlier, later) in names.iter().zip(names.iter().skip(1)) {
        let next = LogOffset::new(earlier.0.get().saturating_add(expected));
        if later.0 != next {
            let path = directory.join(SegmentName::new(next).as_str());
            return Err(OpenError::MissingSegment { path });
        }
    }
    match names.first() {
        Some((start, path)) if options.segment_size.position_of(*start) != 0 => {
            Err(OpenError::UnknownFile { path: path.clone() })
        }
        _ => Ok(names),
    }
}

fn length(path: &Path) -> Result<u64, Error> {
    std::fs::metadata(path)
        .map(|found| found.len())
        .map_err(|error| Error::from_std(Op::Open, path, &error))
}

/// Where valid records end before the last segment does.
#[derive(Clone, Copy, Debug)]
struct Torn {
    at: LogOffset,
    found: Invalid,
}

struct Scan<'a> {
    options: &'a LogOptions,
    /// Whether the last owner did not close the log.
    unclean: bool,
    buffer: Vec<u8>,
    records: u64,
    last_store: TimestampMs,
}

impl Scan<'_> {
    /// Walks one segment; gives where it stops being valid, or `None` if it ends in a blank.
    fn segment(
        &mut self,
        segment: &Segment,
        found: &mut impl FnMut(&[u8], QueueId, QueueOffset),
    ) -> Result<Option<Torn>, OpenError> {
        let mut at = segment.start;
        let mut window = 0..0;
        loop {
            let rest = segment.end().since(at);
            match scan_step(&self.buffer[window.clone()], at, rest, self.options.protection) {
                Step::Blank => return Ok(None),
                Step::Record(view) => {
                    at = LogOffset::new(at.get() + u64::from(view.total_size()));
                    window.start += view.as_bytes().len();
                    self.last_store = self.last_store.max(view.store_timestamp());
                    self.records += 1;
                    take_record(&view, found);
                }
                Step::More { needed } => {
                    let len = needed.max(length_u64(WINDOW)).min(rest);
                    let len = usize::try_from(len).expect("a segment fits the address space");
                    if self.buffer.len() < len {
                        self.buffer.resize(len, 0);
                    }
                    segment.read(&mut self.buffer[..len], at)?;
                    window = 0..len;
                }
                Step::Invalid(found) => {
                    refuse_at_sight(segment, at, &self.buffer[window.clone()], found)?;
                    return Ok(Some(Torn { at, found }));
                }
            }
        }
    }

    /// Makes sure that nothing valid lies behind the torn place, then overwrites what lies there
    /// with zeroes, and removes the segments behind it, which are all zero then.
    ///
    /// The zeroes are durable before the log serves, so what they cover never comes back, neither
    /// here nor in RocketMQ, whose recovery moves only positions in memory (apache/rocketmq#10666).
    fn cut(
        &mut self,
        directory: &Directory,
        segments: &mut Vec<Segment>,
        torn: Torn,
    ) -> Result<u64, OpenError> {
        let index = segments
            .iter()
            .position(|segment| torn.at < segment.end())
            .expect("the torn place was found in a segment");
        let mut stray = Vec::with_capacity(segments.len());
        for segment in &segments[index..] {
            stray.push(self.search(segment, torn, &segments[index])?);
        }
        // A log that was closed has nothing in segments behind its last record. (Behind it in its
        // own segment it may: RocketMQ cuts a torn tail without overwriting it.)
        let foreign = stray.iter().zip(&segments[index..]).find(|(last, segment)| {
            let is_behind = torn.at <= segment.start;
            !self.unclean && is_behind && last.is_some()
        });
        if let Some((_, segment)) = foreign {
            return Err(OpenError::UnknownFile { path: segment.path().to_owned() });
        }
        let mut cut = 0;
        for (segment, last) in segments[index..].iter().zip(stray) {
            if let Some(end) = last {
                let start = torn.at.max(segment.start);
                overwrite(segment, start, end)?;
                cut += end.since(start);
            }
        }
        // The segment with the torn place stays, as the active one. Those behind it go from the
        // last on, each durably, so that a crash in between leaves no gap.
        for empty in segments.drain(index + 1..).rev() {
            std::fs::remove_file(empty.path())
                .map_err(|error| Error::from_std(Op::Remove, empty.path(), &error))?;
            sync_directory(directory.segments())?;
        }
        Ok(cut)
    }

    /// Looks for a valid record behind the torn place; gives the end of what is not zero there.
    fn search(
        &mut self,
        segment: &Segment,
        torn: Torn,
        damaged: &Segment,
    ) -> Result<Option<LogOffset>, OpenError> {
        let mut at = torn.at.max(segment.start);
        let mut stray = None;
        while at < segment.end() {
            let rest = segment.end().since(at);
            let len = usize::try_from(rest).unwrap_or(WINDOW).min(WINDOW);
            segment.read(&mut self.buffer[..len], at)?;
            if let Some(last) = self.buffer[..len].iter().rposition(|byte| *byte != 0) {
                stray = Some(LogOffset::new(at.get() + length_u64(last) + 1));
                for place in candidates(&self.buffer[..len], at) {
                    if place > torn.at && self.is_record(segment, place)? {
                        return Err(OpenError::Damage {
                            path: damaged.path().to_owned(),
                            at: torn.at,
                            resumes_at: Some(place),
                            found: torn.found.to_string(),
                        });
                    }
                }
            }
            // The windows overlap, so that a record's first bytes are whole in one of them.
            let step = if length_u64(len) == rest { len } else { len - PROBE_LEN };
            at = LogOffset::new(at.get() + length_u64(step));
        }
        Ok(stray)
    }

    fn is_record(&self, segment: &Segment, at: LogOffset) -> Result<bool, OpenError> {
        let rest = segment.end().since(at);
        let mut bytes = vec![0; PROBE_LEN];
        loop {
            segment.read(&mut bytes, at)?;
            match scan_step(&bytes, at, rest, self.options.protection) {
                Step::Record(_) => return Ok(true),
                Step::More { needed } if needed <= self.options.segment_size.bytes() => {
                    bytes.resize(usize::try_from(needed).expect("below a segment's size"), 0);
                }
                _ => return Ok(false),
            }
        }
    }
}

fn take_record(view: &RecordView<'_>, found: &mut impl FnMut(&[u8], QueueId, QueueOffset)) {
    if view.sys_flag().transaction_type().takes_queue_offset() {
        found(view.topic(), view.queue_id(), view.queue_offset());
    }
}

/// Refuses what is understood well enough not to be taken for a torn tail: a record of a later
/// version, and a whole record of another place, which a segment under a wrong name begins with.
fn refuse_at_sight(
    segment: &Segment,
    at: LogOffset,
    window: &[u8],
    found: Invalid,
) -> Result<(), OpenError> {
    let path = || segment.path().to_owned();
    match found {
        Invalid::Place { .. } => match store_core::decode(window) {
            Ok(store_core::Frame::Record(view)) if view.body_crc_matches() => {
                let found = found.to_string();
                Err(OpenError::Damage { path: path(), at, resumes_at: None, found })
            }
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

/// Places in `window`, which begins at `at`, where a record may begin.
fn candidates(window: &[u8], at: LogOffset) -> Vec<LogOffset> {
    window
        .windows(PROBE_LEN)
        .enumerate()
        .filter_map(|(index, probe)| {
            let place = LogOffset::new(at.get() + length_u64(index));
            record_at(probe.first_chunk()?, place).then_some(place)
        })
        .collect()
}

/// Writes zeroes over `from..to` and makes them durable.
fn overwrite(segment: &Segment, from: LogOffset, to: LogOffset) -> Result<(), Error> {
    let zeroes = vec![0; WINDOW];
    let mut at = from;
    while at < to {
        let len = usize::try_from(to.since(at)).unwrap_or(WINDOW).min(WINDOW);
        segment.write(&zeroes[..len], at)?;
        at = LogOffset::new(at.get() + length_u64(len));
    }
    segment.sync(from, to)
}

/// Segments whose descriptors stay open behind the scan.
const OPEN_SEGMENTS: usize = 8;
/// How much is read at a time; longer records are read whole.
const WINDOW: usize = 1 << 20;
