//! Reading records back, by offset or one after the other.

use std::sync::Arc;

use store_core::{LogOffset, RecordView, Step, scan_step};

use crate::append::Sink;
use crate::error::ReadError;
use crate::segment::Segment;
use crate::shared::Shared;

/// Reads records in log order.
///
/// Sees what the strategy would acknowledge by now: under group commit only what is flushed, so
/// that no consumer acts on a record that a crash can still take. Reading goes on where it stopped
/// when more has become readable.
#[derive(Debug)]
pub struct Cursor {
    shared: Arc<Shared>,
    at: LogOffset,
    buffer: Vec<u8>,
}

impl Cursor {
    pub(crate) fn new(shared: Arc<Shared>, at: LogOffset) -> Self {
        Self { shared, at, buffer: Vec::new() }
    }

    /// Where the next record is looked for.
    pub fn offset(&self) -> LogOffset {
        self.at
    }

    /// The next record, or `None` at the readable end.
    ///
    /// # Errors
    ///
    /// If the offset lies before the log, no record begins there, or reading fails. The cursor
    /// stays where it is.
    pub fn next_record(&mut self) -> Result<Option<RecordView<'_>>, ReadError> {
        loop {
            if self.shared.readable() <= self.at {
                return Ok(None);
            }
            match self.shared.read_frame(self.at, &mut self.buffer)? {
                Some(len) => {
                    self.at = LogOffset::new(self.at.get() + store_core::length_u64(len));
                    let view = store_core::decode(&self.buffer[..len]);
                    let Ok(store_core::Frame::Record(view)) = view else {
                        unreachable!("read_frame gives the length of a whole record")
                    };
                    return Ok(Some(view));
                }
                None => self.at = self.shared.segment_behind(self.at),
            }
        }
    }
}

impl Shared {
    /// Reads the record at `at` to the front of `buffer` and gives its length; `None` at a blank.
    fn read_frame(&self, at: LogOffset, buffer: &mut Vec<u8>) -> Result<Option<usize>, ReadError> {
        let segment = self.segment_of(at)?;
        let rest = segment.end().since(at);
        let mut wanted = FIRST_READ.min(rest);
        loop {
            let len = usize::try_from(wanted).expect("a segment fits memory's address space");
            if buffer.len() < len {
                buffer.resize(len, 0);
            }
            self.read_bytes(&segment, at, &mut buffer[..len])?;
            match scan_step(&buffer[..len], at, rest, self.options.protection) {
                Step::Blank => return Ok(None),
                Step::Record(view) => return Ok(Some(view.as_bytes().len())),
                Step::More { needed } => wanted = needed,
                Step::Invalid(found) => {
                    return Err(ReadError::NotARecord { at, found: found.to_string() });
                }
            }
        }
    }

    /// Reads from the file, or from the staging ring where the file does not have it yet.
    fn read_bytes(
        &self,
        segment: &Segment,
        at: LogOffset,
        out: &mut [u8],
    ) -> Result<(), ReadError> {
        // Commits end between records, so a record is wholly in the file or wholly in the ring.
        if self.staged.is_some() && self.progress.committed() <= at {
            let tail = self.tail();
            if let Sink::Staged(writer) = &tail.sink {
                // The first read may ask for more than is written; no frame reaches into the rest.
                let written = usize::try_from(tail.wrote.since(at)).unwrap_or(usize::MAX);
                let len = out.len().min(written);
                if writer.read_back(at.get(), &mut out[..len]) {
                    return Ok(());
                }
                // Overwritten in the ring, so committed meanwhile.
            }
        }
        Ok(segment.read(out, at)?)
    }

    fn segment_of(&self, at: LogOffset) -> Result<Arc<Segment>, ReadError> {
        let end = self.readable();
        if end <= at {
            return Err(ReadError::PastEnd { at, end });
        }
        let segments = self.segments();
        let start = segments.front().map_or(end, |first| first.start);
        let found = segments.iter().find(|segment| segment.start <= at && at < segment.end());
        found.cloned().ok_or(ReadError::BeforeStart { at, start })
    }

    fn segment_behind(&self, at: LogOffset) -> LogOffset {
        let size = self.options.segment_size;
        LogOffset::new(size.start_of(at).get() + size.bytes())
    }
}

/// Enough for most records in one read.
const FIRST_READ: u64 = 4096;
