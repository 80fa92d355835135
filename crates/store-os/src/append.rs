//! Appending: encode outside the lock; inside it place, patch and copy.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError};

use store_core::{
    AckAt, Batch, Destination, Encoded, LogOffset, Message, MessageId, Nanos, Placed, Placement,
    QueueId, QueueOffset, SysFlag, TimestampMs, Topic, TopicError, Wait, encode_batch,
    encode_blank, encode_in, place,
};

use crate::error::{AppendError, Error};
use crate::map::{FileWriter, Writer};
use crate::recovery_point::QueueMark;
use crate::segment::Segment;
use crate::shared::Shared;
use crate::signal::has_passed;
use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering, fence, thread_local};

/// A queue of one log: the handle that messages are appended with.
///
/// Cheap to clone; clones share the queue's counter.
#[derive(Clone, Debug)]
pub struct Queue {
    state: Arc<QueueState>,
}

#[derive(Debug)]
struct QueueState {
    log: u64,
    topic: Box<[u8]>,
    id: QueueId,
    /// The next message's queue offset. Changed under the append lock only.
    next: AtomicU64,
}

impl Queue {
    /// The topic's bytes.
    pub fn topic(&self) -> &[u8] {
        &self.state.topic
    }

    /// The number within the topic.
    pub fn id(&self) -> QueueId {
        self.state.id
    }

    /// The queue offset that the next message will get.
    pub fn next_offset(&self) -> QueueOffset {
        QueueOffset::new(self.state.next.load(Ordering::Relaxed))
    }

    fn destination(&self) -> Destination<'_> {
        let topic = Topic::new(&self.state.topic).expect("checked when the handle was made");
        Destination { topic, queue_id: self.state.id }
    }
}

/// The queues of a log, with what recovery found their next offsets to be.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    by_name: Mutex<HashMap<QueueName, Queue>>,
}

type QueueName = (Box<[u8]>, QueueId);

impl Queues {
    /// The handle for a queue, made if it is new.
    pub(crate) fn handle(&self, log: u64, topic: &[u8], id: QueueId) -> Result<Queue, TopicError> {
        Topic::new(topic)?;
        Ok(self.handle_unchecked(log, topic, id))
    }

    fn handle_unchecked(&self, log: u64, topic: &[u8], id: QueueId) -> Queue {
        let mut by_name = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        let state = || QueueState { log, topic: topic.into(), id, next: AtomicU64::new(0) };
        by_name
            .entry((topic.into(), id))
            .or_insert_with(|| Queue { state: Arc::new(state()) })
            .clone()
    }

    /// Recovery found that a queue's next offset is `next` at least.
    pub(crate) fn found(&self, log: u64, topic: &[u8], id: QueueId, next: u64) {
        let queue = self.handle_unchecked(log, topic, id);
        queue.state.next.fetch_max(next, Ordering::Relaxed);
    }

    /// The next offset of each queue that has had a message.
    pub(crate) fn marks(&self) -> Vec<QueueMark> {
        let by_name = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        let mark = |queue: &Queue| QueueMark {
            topic: queue.state.topic.clone(),
            id: queue.state.id,
            next: queue.state.next.load(Ordering::Relaxed),
        };
        let mut marks: Vec<_> = by_name.values().map(mark).filter(|mark| mark.next > 0).collect();
        drop(by_name);
        // The map's order is another in each process.
        marks.sort_unstable_by(|one, other| (&one.topic, one.id).cmp(&(&other.topic, other.id)));
        marks
    }
}

/// Where a message went, or a batch, of which `len` then counts all members' records and
/// `queue_offset` is the first one's.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Appended {
    /// The record's first byte.
    pub offset: LogOffset,
    /// The record's length in bytes.
    pub len: u32,
    /// The message's position in its queue.
    pub queue_offset: QueueOffset,
    /// When the store took it.
    pub store_timestamp: TimestampMs,
}

impl Appended {
    /// The offset behind the record's last byte: what a mark must reach to cover it.
    pub fn end(&self) -> LogOffset {
        LogOffset::new(self.offset.get() + u64::from(self.len))
    }

    /// The message's id, given the host that stored it.
    pub fn message_id(&self, store_host: store_core::Host) -> MessageId {
        MessageId::new(store_host, self.offset)
    }
}

/// The end of the log, under the append lock.
#[derive(Debug)]
pub(crate) struct Tail {
    pub(crate) wrote: LogOffset,
    /// The last record before it.
    pub(crate) last: Option<Appended>,
    /// Records appended since opening.
    pub(crate) records: u64,
    /// Of these, the ones whose producers wait until they are flushed.
    pub(crate) wanted_records: u64,
    /// The end of the last of them.
    pub(crate) wanted: LogOffset,
    /// When the first of them that no sync has been asked to cover was appended.
    pub(crate) waiting_since: Option<Nanos>,
    /// The segment that takes appends, or none before the first and behind a full last one.
    pub(crate) active: Option<Arc<Segment>>,
    /// The segment after it, made ready ahead.
    pub(crate) next: Option<Ready>,
    /// Attempts to make a segment that have ended.
    pub(crate) attempts: u64,
    /// How many of them made one.
    pub(crate) made: u64,
    /// How many of those are filled as far as they will be.
    pub(crate) filled: u64,
    /// How the last of them failed, if it did.
    pub(crate) refused: Option<Error>,
    /// Whether one of them may have left a file behind.
    pub(crate) has_litter: bool,
    pub(crate) sink: Sink,
    pub(crate) last_store: TimestampMs,
    pub(crate) closed: bool,
}

/// A segment that is ready for appends.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) segment: Arc<Segment>,
    pub(crate) writer: Option<FileWriter>,
}

/// Where appended bytes are stored.
#[derive(Debug)]
pub(crate) enum Sink {
    /// Into the active segment's map; none before there is one.
    Mapped(Option<FileWriter>),
    /// Into the staging ring.
    Staged(Writer),
}

impl Tail {
    /// Where the active segment starts; what lies before is in full segments.
    pub(crate) fn segment_start(&self) -> LogOffset {
        self.active.as_ref().map_or(self.wrote, |segment| segment.start)
    }

    fn obstacle(&self, blank: Option<u32>, len: u32) -> Option<Obstacle> {
        let wants_next = blank.is_some() || self.active.is_none();
        if wants_next && self.next.as_ref().is_none_or(|next| !next.segment.end_filling()) {
            return Some(Obstacle::Segment);
        }
        let needed = u64::from(blank.unwrap_or(0)) + u64::from(len);
        match &self.sink {
            Sink::Staged(writer) if writer.free() < needed => Some(Obstacle::Space),
            _ => None,
        }
    }

    fn store(&mut self, bytes: &[u8], at: LogOffset) {
        match &mut self.sink {
            Sink::Mapped(writer) => {
                let active = self.active.as_ref().expect("a record has a segment");
                let place = usize::try_from(at.since(active.start)).expect("a map fits usize");
                writer.as_mut().expect("an active segment is mapped").store(place, bytes);
            }
            Sink::Staged(writer) => writer.store(bytes),
        }
    }

    /// Closes the active segment with a blank and goes on in the next, which must be there.
    fn roll(&mut self, blank: Option<u32>) {
        if let Some(len) = blank {
            self.store(&encode_blank(len), self.wrote);
            if let Sink::Staged(writer) = &mut self.sink {
                // What is staged is contiguous, so the unused rest is staged too: zeroes, which
                // the segment holds there already.
                let mut rest = usize::try_from(len).expect("a blank fits usize") - 8;
                while rest > 0 {
                    let piece = rest.min(ZEROES.len());
                    writer.store(&ZEROES[..piece]);
                    rest -= piece;
                }
            }
            self.wrote = LogOffset::new(self.wrote.get() + u64::from(len));
        }
        let Ready { segment, writer } = self.next.take().expect("the caller saw it");
        assert_eq!(segment.start, self.wrote, "the next segment begins where the log ends");
        if let Sink::Mapped(current) = &mut self.sink {
            *current = writer;
        }
        self.active = Some(segment);
    }
}

static ZEROES: [u8; 4096] = [0; 4096];

/// What keeps an append from going on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Obstacle {
    /// The next segment is not ready.
    Segment,
    /// The staging ring is full.
    Space,
}

/// What is placed together: one record, or those of a batch.
struct Unit<'b> {
    encoded: Encoded<'b>,
    /// Positions of the queue that it takes.
    slots: u64,
    /// The queue offset that it was encoded for, if that stands in its properties.
    base: Option<u64>,
}

impl Shared {
    /// Places `message` at the end of the log. Also says whether its producer is the only one that
    /// waits for a flush.
    pub(crate) fn append(
        &self,
        queue: &Queue,
        message: &Message<'_>,
        wait: Wait,
    ) -> Result<(Appended, bool), AppendError> {
        self.check(queue, message.body.len())?;
        let protection = self.options.protection;
        let slots = u64::from(message.queue_slots()?);
        let is_inner = message.sys_flag.has(SysFlag::INNER_BATCH);
        let to = queue.destination();
        with_scratch(|scratch| {
            loop {
                // An inner batch tells its queue offset in its properties. If another append takes
                // it meanwhile, it is encoded for the next one.
                let base = is_inner.then(|| queue.state.next.load(Ordering::Relaxed));
                let inner_base =
                    base.map(|base| QueueOffset::new(if slots > 0 { base } else { 0 }));
                let message = Message { inner_base, ..*message };
                let scratch = &mut *scratch;
                let encoded = encode_in(to, &message, protection, move |len| {
                    reserve(scratch, len);
                    scratch
                })?;
                // Refused before anything is written, not after blanking two segments.
                place(self.options.segment_size, LogOffset::ZERO, encoded.len())?;
                let unit = Unit { encoded, slots, base };
                if let Some(placed) = self.place_unit(queue, unit, wait)? {
                    return Ok(placed);
                }
            }
        })
    }

    /// Places the members of `batch` at the end of the log, one behind the other, in one segment;
    /// gives also where each of them begins.
    pub(crate) fn append_batch(
        &self,
        queue: &Queue,
        message: &Message<'_>,
        batch: &Batch<'_>,
        wait: Wait,
    ) -> Result<(Appended, Vec<LogOffset>), AppendError> {
        self.check(queue, batch.as_bytes().len())?;
        let protection = self.options.protection;
        let to = queue.destination();
        let len = batch.encoded_len(to, message, protection)?;
        place(self.options.segment_size, LogOffset::ZERO, len)?;
        let max = self.options.max_record_len();
        if max < u64::from(len) {
            return Err(AppendError::BatchTooLong { len, max });
        }
        with_scratch(|scratch| {
            reserve(scratch, len);
            let encoded = encode_batch(to, message, batch, protection, scratch)?;
            let lens: Vec<u32> = encoded.record_lens().collect();
            let unit = Unit { encoded, slots: u64::from(batch.count()), base: None };
            let placed = self.place_unit(queue, unit, wait)?;
            let (appended, _) = placed.expect("no offset stands in a batch's properties");
            let mut at = appended.offset;
            let offsets = lens.iter().map(|len| {
                let next = LogOffset::new(at.get() + u64::from(*len));
                std::mem::replace(&mut at, next)
            });
            Ok((appended, offsets.collect()))
        })
    }

    fn check(&self, queue: &Queue, len: usize) -> Result<(), AppendError> {
        if queue.state.log != self.id {
            return Err(AppendError::ForeignQueue);
        }
        let max = self.options.max_message_bytes;
        if len > max { Err(AppendError::BodyTooLong { len, max }) } else { Ok(()) }
    }

    /// Places a unit; `None` if the queue offset that it was encoded for is taken.
    fn place_unit(
        &self,
        queue: &Queue,
        unit: Unit<'_>,
        wait: Wait,
    ) -> Result<Option<(Appended, bool)>, AppendError> {
        let len = unit.encoded.len();
        let (mut tail, blank) = self.make_room(len)?;
        let next = queue.state.next.load(Ordering::Relaxed);
        if unit.base.is_some_and(|base| base != next) {
            return Ok(None);
        }
        let behind = next.checked_add(unit.slots).filter(|behind| *behind <= LogOffset::MAX.get());
        let behind = behind.ok_or(AppendError::OffsetsExhausted)?;
        if blank.is_some() || tail.active.is_none() {
            tail.roll(blank);
            self.adopt(&tail);
        }
        let appended = Appended {
            offset: tail.wrote,
            len,
            queue_offset: QueueOffset::new(if unit.slots > 0 { next } else { 0 }),
            store_timestamp: self.options.files().wall().max(tail.last_store),
        };
        let (records, last) = last_of(&unit.encoded, appended);
        let bytes = unit.encoded.place(&Placed {
            log_offset: appended.offset,
            queue_offset: appended.queue_offset,
            store_timestamp: appended.store_timestamp,
        });
        tail.store(bytes, appended.offset);
        queue.state.next.store(behind, Ordering::Relaxed);
        tail.last_store = appended.store_timestamp;
        tail.wrote = appended.end();
        tail.last = Some(last);
        tail.records += records;
        let waits_for_flush = self.answers.ack(wait) == AckAt::Flushed;
        if waits_for_flush {
            tail.wanted = tail.wrote;
            tail.wanted_records += 1;
            if tail.waiting_since.is_none() {
                tail.waiting_since = Some(self.now());
            }
        }
        self.progress.set_wrote(tail.wrote);
        let others = tail.wanted_records - self.flushed_wanted.load(Ordering::SeqCst);
        let is_half_full = matches!(&tail.sink, Sink::Staged(writer) if writer.is_half_full());
        drop(tail);
        if is_half_full {
            // Before appends have to wait for it, whatever the strategy's interval is.
            self.hurry_commit();
        }
        Ok(Some((appended, waits_for_flush && others == 1)))
    }

    /// Takes the append lock once a record of `len` bytes can be placed, and says how long the
    /// blank before it is.
    fn make_room(&self, len: u32) -> Result<(MutexGuard<'_, Tail>, Option<u32>), AppendError> {
        let mut tail = self.tail();
        let mut waiting: Option<Waiting<'_>> = None;
        loop {
            if tail.closed {
                return Err(AppendError::Closed);
            }
            if let Some(poison) = self.progress.poison() {
                return Err(poison.clone().into());
            }
            let (blank, at) = match place(self.options.segment_size, tail.wrote, len)? {
                Placement::Fits { at } => (None, at),
                Placement::Roll { blank_len, at, .. } => (Some(blank_len), at),
            };
            let size = self.options.segment_size;
            if size.start_of(at).checked_add(size.bytes()).is_none() {
                return Err(AppendError::OffsetsExhausted);
            }
            let Some(obstacle) = tail.obstacle(blank, len) else {
                return Ok((tail, blank));
            };
            let Some(began) = &waiting else {
                // Counted first, then looked again: whoever makes room sees one or the other.
                waiting = Some(Waiting::new(self, &tail));
                continue;
            };
            if obstacle == Obstacle::Segment
                && tail.attempts != began.attempts
                && let Some(error) = &tail.refused
            {
                return Err(AppendError::Segment(error.clone()));
            }
            if obstacle == Obstacle::Space && !self.has_committer.load(Ordering::SeqCst) {
                // Nobody else will: the log is stepped, and its only lane may be in a sync.
                let wrote = tail.wrote;
                drop(tail);
                // A failure poisons the log, which the next round tells.
                let _ = self.commit_in_append(wrote);
                tail = self.tail();
                continue;
            }
            // Asked for even if this append does not wait: a later one may find it.
            match obstacle {
                Obstacle::Segment => self.allocator.notify(),
                Obstacle::Space => self.hurry_commit(),
            }
            if has_passed(Some(began.deadline)) {
                return Err(match (obstacle, &tail.refused) {
                    (Obstacle::Segment, Some(error)) => AppendError::Segment(error.clone()),
                    (Obstacle::Segment, None) => AppendError::SegmentNotReady,
                    (Obstacle::Space, _) => AppendError::StagingFull,
                });
            }
            tail = self.room.wait_until(tail, began.deadline);
        }
    }
}

/// An append that waits for room.
struct Waiting<'a> {
    blocked: &'a AtomicU64,
    deadline: Nanos,
    /// Attempts to make a segment that had ended before.
    attempts: u64,
}

impl<'a> Waiting<'a> {
    fn new(shared: &'a Shared, tail: &Tail) -> Self {
        shared.blocked.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let deadline = shared.now().after(shared.options.append_limit());
        Self { blocked: &shared.blocked, deadline, attempts: tail.attempts }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.blocked.fetch_sub(1, Ordering::SeqCst);
    }
}

/// How many records a unit has that was placed as `all`, and the last of them.
fn last_of(encoded: &Encoded<'_>, all: Appended) -> (u64, Appended) {
    let (mut records, mut last_len) = (0, all.len);
    for len in encoded.record_lens() {
        records += 1;
        last_len = len;
    }
    if records < 2 {
        return (1, all);
    }
    let offset = LogOffset::new(all.end().get() - u64::from(last_len));
    let queue_offset = QueueOffset::new(all.queue_offset.get() + records - 1);
    (records, Appended { offset, len: last_len, queue_offset, ..all })
}

/// Makes sure that the buffer holds `len` bytes.
fn reserve(scratch: &mut Vec<u8>, len: u32) {
    let needed = usize::try_from(len).expect("a record fits the address space");
    if scratch.len() < needed {
        scratch.resize(needed, 0);
    }
}

/// Lends the thread's encoding buffer, which grows to the longest record and stays.
fn with_scratch<T>(run: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    thread_local! {
        static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }
    SCRATCH.with(|scratch| run(&mut scratch.borrow_mut()))
}
