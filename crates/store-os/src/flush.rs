//! The two actions: staged bytes to the page cache, and the page cache to the device.

use std::sync::{Arc, PoisonError};

use store_core::{LogOffset, Nanos};

use crate::error::Error;
use crate::map::Reader;
use crate::options::{CommitEvent, FlushEvent};
use crate::segment::Segment;
use crate::shared::{Mark, Shared};
use crate::sync::{Ordering, fence};

impl Shared {
    /// Brings everything staged to the page cache if `upto` is not there yet.
    ///
    /// Whoever comes while another commits waits for it, and mostly finds its own bytes taken
    /// along.
    pub(crate) fn commit_through(&self, upto: LogOffset) -> Result<(), Error> {
        let Some(staged) = &self.staged else {
            return Ok(());
        };
        if upto <= self.progress.committed() {
            return Ok(());
        }
        let mut reader = staged.lock().unwrap_or_else(PoisonError::into_inner);
        let from = self.progress.committed();
        if upto <= from {
            return Ok(());
        }
        if let Some(poison) = self.progress.poison() {
            return Err(poison.first.clone());
        }
        let started = self.now();
        let mark = self.written();
        self.write_staged(&reader, from, mark.offset).inspect_err(|error| {
            // Before the next who waits for the ring has it, and writes the same again.
            self.progress.poison_with(error);
        })?;
        let ended = self.now();
        reader.release(mark.offset.get());
        // Both in one step for `flushable`: a sync must not cover what `committed` does not show.
        let mut committed = self.committed();
        self.progress.set_committed(mark.offset);
        *committed = mark;
        drop(committed);
        drop(reader);
        fence(Ordering::SeqCst);
        if self.blocked.load(Ordering::SeqCst) > 0 {
            self.notify_room();
        }
        if let Some(observer) = &self.options.observer {
            let records = mark.records;
            observer.on_commit(&CommitEvent { started, ended, from, upto: mark.offset, records });
        }
        Ok(())
    }

    /// [`commit_through`](Self::commit_through) for an append, whose failure poisons the log as a
    /// lane's does.
    pub(crate) fn commit_in_append(&self, upto: LogOffset) -> Result<(), Error> {
        self.commit_through(upto).inspect_err(|error| self.fail(error))
    }

    fn write_staged(&self, reader: &Reader, from: LogOffset, to: LogOffset) -> Result<(), Error> {
        for (segment, start, end) in self.pieces(from, to) {
            let mut at = start;
            for slice in reader.slices(start.get(), end.get()) {
                if !slice.is_empty() {
                    segment.write(slice, at)?;
                    at = LogOffset::new(at.get() + store_core::length_u64(slice.len()));
                }
            }
        }
        Ok(())
    }

    /// Makes the bytes below `upto`, and what else is committed by then, durable.
    ///
    /// Only who has the flush lane's turn calls this. `flushed` moves when every sync call has
    /// returned success, and not otherwise.
    pub(crate) fn flush_through(&self, upto: LogOffset) -> Result<(), Error> {
        match self.begin_flush(upto)? {
            Some(round) => self.end_flush(round),
            None => Ok(()),
        }
    }

    /// Commits, and fixes what the sync covers; `None` if nothing is left to sync.
    pub(crate) fn begin_flush(&self, upto: LogOffset) -> Result<Option<Round>, Error> {
        self.commit_through(upto)?;
        let from = self.progress.flushed();
        let mark = self.flushable();
        if mark.offset <= from {
            return Ok(None);
        }
        self.progress.begin_round(mark.offset);
        Ok(Some(Round { started: self.now(), from, mark }))
    }

    /// Syncs what a round covers, and moves `flushed` when all of it has succeeded.
    pub(crate) fn end_flush(&self, round: Round) -> Result<(), Error> {
        let Round { started, from, mark } = round;
        let mut syncs = 0;
        for (segment, start, end) in self.pieces(from, mark.offset) {
            segment.sync(start, end)?;
            syncs += 1;
        }
        let ended = self.now();
        self.flushed_wanted.store(mark.wanted_records, Ordering::SeqCst);
        self.progress.complete_round();
        if let Some(observer) = &self.options.observer {
            let records = mark.records;
            let upto = mark.offset;
            observer.on_flush(&FlushEvent { started, ended, from, upto, records, syncs });
        }
        self.retire_segments(mark.offset);
        Ok(())
    }

    /// The end of what is written.
    fn written(&self) -> Mark {
        let tail = self.tail();
        Mark { offset: tail.wrote, records: tail.records, wanted_records: tail.wanted_records }
    }

    /// The end of what a sync can cover now; it takes along everyone who waits for bytes before it.
    fn flushable(&self) -> Mark {
        let mark = if self.staged.is_some() { *self.committed() } else { self.written() };
        let mut tail = self.tail();
        if tail.wanted <= mark.offset {
            tail.waiting_since = None;
        }
        mark
    }

    /// `from..to` by segment.
    fn pieces(
        &self,
        from: LogOffset,
        to: LogOffset,
    ) -> impl Iterator<Item = (Arc<Segment>, LogOffset, LogOffset)> {
        let mut at = from;
        std::iter::from_fn(move || {
            let segments = self.segments();
            let index = segments.partition_point(|segment| segment.end() <= at);
            let segment = segments.get(index).filter(|segment| at < to && segment.start < to)?;
            let start = at.max(segment.start);
            at = to.min(segment.end());
            Some((Arc::clone(segment), start, at))
        })
    }

    /// Gives back what segments hold that take no more appends and need no more syncs: the maps,
    /// and behind the newest few the descriptors too.
    fn retire_segments(&self, flushed: LogOffset) {
        // Unmapping a segment takes a while, so not under the lock that appends take to roll.
        let mut given_back = Vec::new();
        let mut segments = self.segments();
        let newest_full = segments.iter().rposition(|segment| segment.end() <= flushed);
        let Some(newest_full) = newest_full else { return };
        for index in (0..=newest_full).rev() {
            let keeps_file = newest_full - index < OPEN_FULL_SEGMENTS;
            let retired = segments[index].retired(keeps_file);
            match retired {
                Some(retired) => {
                    given_back.push(std::mem::replace(&mut segments[index], Arc::new(retired)));
                }
                None if keeps_file => {}
                None => break,
            }
        }
        drop(segments);
        drop(given_back);
    }
}

/// A flush between its beginning and its sync calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    started: Nanos,
    from: LogOffset,
    mark: Mark,
}

/// Full segments whose descriptors are kept for readers; older ones are opened when read.
const OPEN_FULL_SEGMENTS: usize = 8;
