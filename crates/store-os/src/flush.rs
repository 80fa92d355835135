//! The two actions: staged bytes to the page cache, and the page cache to the device.

use std::io::IoSlice;
use std::sync::{Arc, PoisonError};

use store_core::{LogOffset, Nanos};

use crate::blocks::{BLOCK, BLOCK_LEN, Blocks};
use crate::error::Error;
use crate::map::Reader;
use crate::options::{CommitEvent, FlushEvent, Io};
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
        self.write_staged(&mut reader, from, mark, false)?;
        drop(reader);
        let (ended, upto, records) = (self.now(), mark.offset, mark.records);
        self.tell_of_commit(&CommitEvent { started, ended, from, upto, records });
        Ok(())
    }

    /// Staging space has become free: lets appends go on that wait for it, and tells the observer.
    fn tell_of_commit(&self, event: &CommitEvent) {
        fence(Ordering::SeqCst);
        if self.blocked.load(Ordering::SeqCst) > 0 {
            self.notify_room();
        }
        if let Some(observer) = &self.options.observer {
            observer.on_commit(event);
        }
    }

    /// [`commit_through`](Self::commit_through) for an append, whose failure poisons the log as a
    /// lane's does.
    pub(crate) fn commit_in_append(&self, upto: LogOffset) -> Result<(), Error> {
        self.commit_through(upto).inspect_err(|error| self.fail(error))
    }

    /// Writes what is staged up to `to` and moves `committed` there; `durably`: each write syncs.
    fn write_staged(
        &self,
        reader: &mut Reader,
        from: LogOffset,
        to: Mark,
        durably: bool,
    ) -> Result<(), Error> {
        let is_direct = self.options.io() == Io::Direct;
        for (segment, start, end) in self.pieces(from, to.offset) {
            let written = if is_direct {
                write_blocks(&segment, reader, start, end, durably)
            } else {
                write_bytes(&segment, reader, start, end)
            };
            written.inspect_err(|error| {
                // Before the next who waits for the ring has it, and writes the same again.
                self.progress.poison_with(error);
            })?;
        }
        let kept = if is_direct { to.offset.get() % BLOCK } else { 0 };
        reader.release(to.offset.get() - kept);
        // Both in one step for `flushable`: a sync must not cover what `committed` does not show.
        let mut committed = self.committed();
        self.progress.set_committed(to.offset);
        *committed = to;
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
        if let Some(round) = self.write_durably(upto)? {
            return Ok(Some(round));
        }
        self.commit_through(upto)?;
        let from = self.progress.flushed();
        let mark = self.flushable();
        if mark.offset <= from {
            return Ok(None);
        }
        self.progress.begin_round(mark.offset);
        Ok(Some(Round { started: self.now(), from, mark, is_synced: false }))
    }

    /// Writes what is staged with calls that return when it is durable, where everything before is
    /// and no lane commits meanwhile; `None` otherwise.
    fn write_durably(&self, upto: LogOffset) -> Result<Option<Round>, Error> {
        let Some(staged) = &self.staged else { return Ok(None) };
        if !self.syncs_by_writing() {
            return Ok(None);
        }
        let mut reader = staged.lock().unwrap_or_else(PoisonError::into_inner);
        let from = self.progress.flushed();
        // What was only written before would not be covered: a device that forces a write through
        // (FUA) flushes nothing else.
        if upto <= from || self.progress.committed() != from {
            return Ok(None);
        }
        if let Some(poison) = self.progress.poison() {
            return Err(poison.first.clone());
        }
        let mark = self.written();
        self.no_longer_waiting(mark.offset);
        self.progress.begin_round(mark.offset);
        let started = self.now();
        self.write_staged(&mut reader, from, mark, true)?;
        drop(reader);
        let (ended, upto, records) = (self.now(), mark.offset, mark.records);
        self.tell_of_commit(&CommitEvent { started, ended, from, upto, records });
        Ok(Some(Round { started, from, mark, is_synced: true }))
    }

    /// Syncs what a round covers, and moves `flushed` when all of it has succeeded.
    pub(crate) fn end_flush(&self, round: Round) -> Result<(), Error> {
        let Round { started, from, mark, is_synced } = round;
        let mut syncs = 0;
        for (segment, start, end) in self.pieces(from, mark.offset) {
            if !is_synced {
                segment.sync(start, end)?;
            }
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
        self.no_longer_waiting(mark.offset);
        mark
    }

    /// A sync that covers everything below `upto` is about to begin.
    fn no_longer_waiting(&self, upto: LogOffset) {
        let mut tail = self.tail();
        if tail.wanted <= upto {
            tail.waiting_since = None;
        }
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
    /// The writes were syncs.
    is_synced: bool,
}

/// Brings staged bytes of one segment to the page cache.
fn write_bytes(
    segment: &Segment,
    reader: &Reader,
    start: LogOffset,
    end: LogOffset,
) -> Result<(), Error> {
    let mut at = start;
    for slice in reader.slices(start.get(), end.get()) {
        if !slice.is_empty() {
            segment.write(slice, at)?;
            at = LogOffset::new(at.get() + store_core::length_u64(slice.len()));
        }
    }
    Ok(())
}

/// Writes the blocks that staged bytes of one segment lie in: the first of them again, if it holds
/// earlier bytes too, and the last with zeroes behind the log's end.
fn write_blocks(
    segment: &Segment,
    reader: &Reader,
    start: LogOffset,
    end: LogOffset,
    durably: bool,
) -> Result<(), Error> {
    let begun = start.get() - start.get() % BLOCK;
    let whole = end.get() - end.get() % BLOCK;
    let mut last = Blocks([0; BLOCK_LEN]);
    let [tail, rest] = reader.slices(whole, end.get());
    assert!(rest.is_empty(), "the ring begins anew with a block");
    last.0[..tail.len()].copy_from_slice(tail);
    let last = if tail.is_empty() { &[] } else { &last.0[..] };
    let [first, second] = reader.slices(begun, whole);
    let pieces = &mut [first, second, last].map(IoSlice::new);
    segment.write_blocks(pieces, LogOffset::new(begun), durably)
}

/// Full segments whose descriptors are kept for readers; older ones are opened when read.
const OPEN_FULL_SEGMENTS: usize = 8;
