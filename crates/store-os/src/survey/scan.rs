//! Scanning one segment: what stands in it, and each place where something bad begins.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;

use rustix::io::Errno;
use store_core::{
    Invalid, LogOffset, QueueId, QueueOffset, RecordView, SegmentSize, TimestampMs, Version,
};

use super::listing::Listed;
use super::segment_file::{DataParts, SegmentFile};
use super::{Progress, QueueSurvey, SegmentSurvey, SurveyError, TopicSurvey};
use crate::error::Error;
use crate::segment_scan::ClockStep;
use crate::walk::{
    FOREIGN_RECORDS, Found, Resync, Walked, Walker, is_whole, whole_but_for_the_property,
};

/// What one segment holds.
#[derive(Debug)]
pub(crate) struct SegmentScan {
    pub(crate) segment: SegmentSurvey,
    pub(crate) tally: Tally,
    /// Where something bad begins, in order. Only behind the last one nothing may follow.
    pub(crate) bad: Vec<Bad>,
}

/// A place where no valid frame stands.
#[derive(Clone, Debug)]
pub(crate) struct Bad {
    pub(crate) from: LogOffset,
    /// Where it goes on, or the segment's end.
    pub(crate) to: LogOffset,
    pub(crate) found: String,
    pub(crate) unreadable: Option<Errno>,
    /// A whole record that says that it stands elsewhere, or several that are whole but for their
    /// CRC32 property.
    pub(crate) is_foreign: bool,
    pub(crate) goes_on: Resync,
    /// Valid records before it, in its segment.
    pub(crate) records_before: u64,
    /// The store time of the last of them.
    pub(crate) store_before: Option<TimestampMs>,
    /// The latest store time of the records from here to the next bad place of the segment.
    pub(crate) latest_behind: Option<TimestampMs>,
    /// The end of what is not zero from here on in the segment; only if no record follows in it.
    pub(crate) data_end: Option<LogOffset>,
}

/// What is counted of records, in log order.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) topics: HashMap<Vec<u8>, TopicSurvey>,
    pub(crate) records_v2: u64,
    pub(crate) records_protected: u64,
    pub(crate) first_store: Option<TimestampMs>,
    pub(crate) last_store: Option<TimestampMs>,
    pub(crate) latest_store: Option<TimestampMs>,
    /// Where the first record stands.
    pub(crate) first_at: Option<LogOffset>,
    pub(crate) clock_steps: u64,
    pub(crate) first_clock_step: Option<ClockStep>,
}

impl Tally {
    fn take(&mut self, view: &RecordView<'_>) {
        let store = view.store_timestamp();
        let at = view.log_offset();
        if let Some(before) = self.last_store
            && store < before
        {
            self.clock_steps += 1;
            self.first_clock_step.get_or_insert(ClockStep { at, before, after: store });
        }
        self.records_v2 += u64::from(view.version() == Version::V2);
        self.records_protected += u64::from(view.record_crc().is_some());
        self.first_store.get_or_insert(store);
        self.first_at.get_or_insert(at);
        self.last_store = Some(store);
        self.latest_store = self.latest_store.max(Some(store));
        if !self.topics.contains_key(view.topic()) {
            self.topics.insert(view.topic().to_vec(), TopicSurvey::default());
        }
        let topic = self.topics.get_mut(view.topic()).expect("put there above");
        topic.records += 1;
        topic.record_bytes += u64::from(view.total_size());
        if view.sys_flag().transaction_type().takes_queue_offset() {
            let first = view.queue_offset();
            let count = u64::from(view.message_count());
            let next = QueueOffset::new(first.get().saturating_add(count));
            let found = QueueSurvey { records: 1, first, next, gaps: 0 };
            join(topic, view.queue_id(), found);
        }
    }

    /// Adds what stands behind.
    pub(crate) fn join(&mut self, later: Self) {
        if let (Some(before), Some(after), Some(at)) =
            (self.last_store, later.first_store, later.first_at)
            && after < before
        {
            self.clock_steps += 1;
            self.first_clock_step.get_or_insert(ClockStep { at, before, after });
        }
        self.records_v2 += later.records_v2;
        self.records_protected += later.records_protected;
        self.clock_steps += later.clock_steps;
        self.first_clock_step = self.first_clock_step.or(later.first_clock_step);
        self.first_store = self.first_store.or(later.first_store);
        self.first_at = self.first_at.or(later.first_at);
        self.last_store = later.last_store.or(self.last_store);
        self.latest_store = self.latest_store.max(later.latest_store);
        for (name, found) in later.topics {
            let topic = self.topics.entry(name).or_default();
            topic.records += found.records;
            topic.record_bytes += found.record_bytes;
            for (id, queue) in found.queues {
                join(topic, id, queue);
            }
        }
    }
}

/// Adds records of a queue that stand behind those it has.
fn join(topic: &mut TopicSurvey, id: QueueId, later: QueueSurvey) {
    topic
        .queues
        .entry(id)
        .and_modify(|queue| {
            queue.records += later.records;
            queue.gaps += later.gaps + u64::from(queue.next != later.first);
            queue.next = later.next;
        })
        .or_insert(later);
}

/// Opens and scans a segment up to `limit`; `None` if it was removed since it was listed.
pub(crate) fn scan_listed(
    listed: &Listed,
    size: SegmentSize,
    walker: &mut Walker,
    progress: &Progress<'_>,
    limit: Option<LogOffset>,
) -> Result<Option<SegmentScan>, SurveyError> {
    match SegmentFile::open(&listed.path, listed.start, size) {
        Ok(file) => scan_segment(listed, &file, walker, progress, limit).map(Some),
        Err(Error { source: Errno::NOENT, .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Scans a segment. Nothing at or behind `limit`, a place where the scan without it stopped or the
/// segment's first byte, counts as valid.
pub(crate) fn scan_segment<F: FileExt + DataParts>(
    listed: &Listed,
    file: &SegmentFile<F>,
    walker: &mut Walker,
    progress: &Progress<'_>,
    limit: Option<LogOffset>,
) -> Result<SegmentScan, SurveyError> {
    let (start, end) = (file.start(), file.end());
    let mut scan = SegmentScan {
        segment: SegmentSurvey {
            path: listed.path.clone(),
            start,
            file_len: listed.len,
            records: 0,
            record_bytes: 0,
            blank_bytes: 0,
            first_store: None,
            last_store: None,
        },
        tally: Tally::default(),
        bad: Vec::new(),
    };
    walker.forget();
    let mut at = start;
    let mut told = Told::default();
    loop {
        // Behind the log's end even what is valid does not count.
        let is_over = limit == Some(at)
            && matches!(walker.step(file, at, end)?, Found::Blank | Found::Record(_));
        let ended = if is_over {
            Walked::Invalid { at, found: Invalid::Unwritten }
        } else {
            walker.walk(file, at, end, &mut |view| {
                scan.take(view);
                told.step(u64::from(view.total_size()), progress)
            })?
        };
        let (from, found) = match ended {
            Walked::Blank { at } => {
                scan.segment.blank_bytes = end.since(at);
                break;
            }
            Walked::Stopped { .. } => return Err(SurveyError::Interrupted),
            Walked::Invalid { at, found } => (at, Some(found)),
            Walked::Unreadable { at } => (at, None),
        };
        let mut bad = scan.bad_at(file, walker, from, found)?;
        if limit == Some(from) {
            (bad.goes_on, bad.to) = (Resync::Nothing, end);
        }
        if is_over {
            "it stands behind the log's end".clone_into(&mut bad.found);
        }
        let goes_on = bad.goes_on;
        if !matches!(goes_on, Resync::Record(_)) {
            bad.data_end = walker.last_data(file, from, end)?;
        }
        scan.bad.push(bad);
        match goes_on {
            Resync::Record(next) => at = next,
            Resync::Blank(_) | Resync::Exhausted | Resync::Nothing => break,
        }
    }
    scan.segment.first_store = scan.tally.first_store;
    scan.segment.last_store = scan.tally.last_store;
    match told.finish(end.since(start), progress) {
        ControlFlow::Continue(()) => Ok(scan),
        ControlFlow::Break(()) => Err(SurveyError::Interrupted),
    }
}

impl SegmentScan {
    fn take(&mut self, view: &RecordView<'_>) {
        self.segment.records += 1;
        self.segment.record_bytes += u64::from(view.total_size());
        self.tally.take(view);
        if let Some(bad) = self.bad.last_mut() {
            bad.latest_behind = bad.latest_behind.max(Some(view.store_timestamp()));
        }
    }

    fn bad_at<F: FileExt + DataParts>(
        &self,
        file: &SegmentFile<F>,
        walker: &mut Walker,
        from: LogOffset,
        found: Option<Invalid>,
    ) -> Result<Bad, Error> {
        let end = file.end();
        let is_foreign = match found {
            Some(Invalid::Place { .. }) => is_whole(file, from, end)?,
            Some(Invalid::RecordCrc { .. }) => {
                whole_but_for_the_property(file, from, end)? >= FOREIGN_RECORDS
            }
            _ => false,
        };
        let goes_on = walker.resync(file, from, end)?;
        let to = match goes_on {
            Resync::Blank(to) | Resync::Record(to) => to,
            Resync::Exhausted | Resync::Nothing => end,
        };
        let mut text =
            found.map_or_else(|| "it cannot be read".to_owned(), |found| found.to_string());
        if goes_on == Resync::Exhausted {
            text.push_str("; too much behind it only looks like records");
        }
        Ok(Bad {
            from,
            to,
            found: text,
            unreadable: file.refusal(from, to),
            is_foreign,
            goes_on,
            records_before: self.segment.records,
            store_before: self.tally.last_store,
            latest_behind: None,
            data_end: None,
        })
    }
}

/// What of a segment was told to whoever watches, and what was not yet.
#[derive(Default)]
struct Told {
    passed: u64,
    bytes: u64,
    records: u64,
}

impl Told {
    fn step(&mut self, len: u64, progress: &Progress<'_>) -> ControlFlow<()> {
        self.bytes += len;
        self.records += 1;
        if self.bytes < TELL_EACH {
            return ControlFlow::Continue(());
        }
        self.passed += self.bytes;
        let told = progress.add(self.bytes, self.records);
        (self.bytes, self.records) = (0, 0);
        told
    }

    fn finish(&self, size: u64, progress: &Progress<'_>) -> ControlFlow<()> {
        progress.add(size - self.passed, self.records)
    }
}

/// How many bytes pass between two calls of the progress callback on one thread.
const TELL_EACH: u64 = 4 << 20;

#[cfg(not(modelled))]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::survey::listing::Stamp;
    use std::io::{Error as IoError, Result as IoResult};
    use std::ops::Range;
    use std::path::{Path, PathBuf};
    use store_core::{Destination, Message, Placed, Protection, Topic, encode, length_u64};

    /// A file some bytes of which cannot be read.
    struct Flaky {
        bytes: Vec<u8>,
        bad: Range<u64>,
    }

    impl FileExt for Flaky {
        fn read_at(&self, out: &mut [u8], at: u64) -> IoResult<usize> {
            let upto = at + length_u64(out.len());
            if at < self.bad.end && self.bad.start < upto {
                return Err(IoError::from_raw_os_error(Errno::IO.raw_os_error()));
            }
            let rest = &self.bytes[usize::try_from(at).unwrap().min(self.bytes.len())..];
            let len = rest.len().min(out.len());
            out[..len].copy_from_slice(&rest[..len]);
            Ok(len)
        }

        fn write_at(&self, _: &[u8], _: u64) -> IoResult<usize> {
            Err(IoError::from_raw_os_error(Errno::ROFS.raw_os_error()))
        }
    }

    impl DataParts for Flaky {
        fn next_data(
            &self,
            _: LogOffset,
            from: LogOffset,
            to: LogOffset,
        ) -> Option<Range<LogOffset>> {
            (from < to).then_some(from..to)
        }
    }

    /// Records of 1 KiB with bodies of zeroes, which a sector that reads as zeroes would fit in.
    fn scanned(count: usize, bad: Range<u64>) -> SegmentScan {
        let size = SegmentSize::new(64 << 10).unwrap();
        let mut bytes = Vec::new();
        for _ in 0..count {
            let to = Destination { topic: Topic::new(b"T").unwrap(), queue_id: QueueId::new(0) };
            let message = Message { body: &[0; 1024 - 92], ..Message::default() };
            let mut out = [0; 1024];
            let log_offset = LogOffset::new(length_u64(bytes.len()));
            let placed = Placed { log_offset, ..Placed::default() };
            let record = encode(to, &message, Protection::Body, &mut out).unwrap().place(&placed);
            bytes.extend_from_slice(record);
        }
        bytes.resize(64 << 10, 0);
        let metadata = std::fs::metadata("/").unwrap();
        let listed = Listed {
            start: LogOffset::ZERO,
            path: PathBuf::from("x"),
            len: 64 << 10,
            stamp: Stamp::new(&metadata),
        };
        let file =
            SegmentFile::with_file(Path::new("x"), LogOffset::ZERO, size, Flaky { bytes, bad });
        let mut walker = Walker::new(Protection::Record);
        scan_segment(&listed, &file, &mut walker, &Progress::unwatched(), None).unwrap()
    }

    #[test]
    fn a_bad_sector_costs_the_records_that_touch_it() {
        // The sector of bytes 4096 to 8192, and a part of one.
        for (bad, lost) in [(4096..8192, 4..8), (5000..5001, 4..8), (0..1, 0..4)] {
            let scan = scanned(20, bad.clone());
            assert_eq!(scan.segment.records, 16, "{bad:?}");
            let place = |index: u64| LogOffset::new(index * 1024);
            let end = scan.bad.last().unwrap();
            assert_eq!((end.from, end.unreadable, end.data_end), (place(20), None, None));
            let unreadable: Vec<_> = scan.bad.iter().filter(|bad| bad.from != end.from).collect();
            assert!(unreadable.iter().all(|bad| bad.unreadable == Some(Errno::IO)), "{bad:?}");
            assert_eq!(unreadable[0].from, place(lost.start));
            assert_eq!(unreadable.last().unwrap().to, place(lost.end));
        }
    }

    #[test]
    fn a_zero_sector_that_was_not_read_is_no_valid_record() {
        // The bodies are zeroes and so is what stands for the sector: the checksums would match.
        let scan = scanned(3, 100..101);
        assert_eq!(scan.segment.records, 0);
        assert_eq!(scan.bad[0].unreadable, Some(Errno::IO));
    }

    #[test]
    fn a_bad_sector_behind_the_end_counts_as_data() {
        let scan = scanned(3, 20_000..20_001);
        assert_eq!(scan.segment.records, 3);
        let end = scan.bad.last().unwrap();
        assert!(end.data_end.is_some());
        assert_eq!(end.unreadable, Some(Errno::IO));
    }
}
