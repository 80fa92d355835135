//! A commit log: opened, appended to, read, closed.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64 as Counter;
use std::time::Duration;

use store_core::{
    AckAt, Batch, FlushStrategy, Lane, LogOffset, Message, Nanos, PAGE_SIZE, QueueId, TopicError,
    Wait, Watermarks,
};

use crate::append::{Appended, Queue, Queues, Sink, Tail};
use crate::blocks::{BLOCK, BLOCK_LEN};
use crate::clock::monotonic;
use crate::closing::{Closing, Ending};
use crate::crew::Crew;
use crate::cursor::Cursor;
use crate::directory::Directory;

use crate::error::{AckError, AppendError, CloseError, Error, Op, OpenError};
use crate::files::{Files as _, Linux};
use crate::keeper::{CheckpointFile, Records};
use crate::map::{Reader, Writer, ring};
use crate::options::{Io, LogOptions};
use crate::progress::Progress;
use crate::recovery::{Recovered, Recovery, recover};
use crate::shared::{Answers, LaneState, Mark, Shared};
use crate::signal::has_passed;
use crate::sync::{AtomicBool, AtomicU64, Condvar, Mutex, Ordering};
use crate::ticket::Ticket;

/// A commit log on a store directory, with the threads that flush it.
///
/// All methods take `&self` and may be called from any thread. Dropping a log drains it like
/// [`close`](Self::close), but cannot say what went wrong.
///
/// # Examples
///
/// ```
/// use group_commit::GroupCommit;
/// use store_core::{Message, QueueId, Wait};
/// use store_os::{Log, LogOptions};
///
/// # let directory = tempfile::tempdir()?;
/// # let segment_size = store_core::SegmentSize::new(1 << 20)?;
/// # let max_message_bytes = 64 << 10;
/// let options = LogOptions { segment_size, max_message_bytes, ..LogOptions::default() };
/// let log = Log::open(directory.path(), options, GroupCommit::default())?;
/// let queue = log.queue(b"orders", QueueId::new(0))?;
/// let message = Message { body: b"one espresso", ..Message::default() };
/// let appended = log.append_and_wait(&queue, &message, Wait::Yes)?.expect("flushed");
/// assert!(log.marks().flushed() >= appended.end());
/// log.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Log {
    pub(crate) shared: Arc<Shared>,
    recovery: Recovery,
    lanes: Crew,
    helpers: Crew,
}

/// What became of a batch.
#[derive(Debug)]
pub struct AppendedBatch {
    /// Tells when the strategy's promise holds for all members.
    pub ticket: Ticket,
    /// Where each member's record begins; with the store's host it makes the message's id.
    pub offsets: Vec<LogOffset>,
}

static LOGS: Counter = Counter::new(0);

impl Log {
    /// Opens the store in `root`, which is made if it is missing, and recovers what is in it.
    ///
    /// Reads what no earlier run has proven durable; that can take long for a store that RocketMQ
    /// wrote, and [`Observer::on_recovery`](crate::Observer::on_recovery) is told how far it came
    /// and can end it. What it found and did says [`recovery`](Self::recovery).
    ///
    /// # Errors
    ///
    /// If another process has it, the options contradict each other, something in it is not
    /// understood, a bad record has valid ones behind it ([`OpenError::Damage`]; see
    /// [`plan_repair`](crate::plan_repair)), the observer ended the scan, or the system refuses. A
    /// torn tail is cut, nothing else is changed.
    pub fn open(
        root: &Path,
        options: LogOptions,
        strategy: impl FlushStrategy + Send + 'static,
    ) -> Result<Self, OpenError> {
        let mut log = Self::open_alone(root, options, strategy)?;
        log.spawn_threads()?;
        Ok(log)
    }

    /// A log without threads.
    pub(crate) fn open_alone(
        root: &Path,
        mut options: LogOptions,
        strategy: impl FlushStrategy + Send + 'static,
    ) -> Result<Self, OpenError> {
        let answers = Answers::of(&strategy);
        let directory = Directory::own(root, &options.platform)?;
        options.resolve(&strategy, directory.possible(options.io)?)?;
        let id = LOGS.fetch_add(1, Ordering::Relaxed);
        let queues = Queues::default();
        let checkpoint = CheckpointFile::load(directory.root(), directory.files());
        let recovered = recover(&directory, &options, checkpoint.others(), (id, &queues))?;
        let recovery = recovered.report;
        let place = (directory, options);
        let strategy = Box::new(strategy);
        let shared = build(id, place, answers, strategy, queues, recovered, checkpoint)?;
        let (lanes, helpers) = (Crew::default(), Crew::default());
        let log = Self { shared: Arc::new(shared), recovery, lanes, helpers };
        // Recovery synced what it read. Durable, because a power cut that comes soon must find
        // that nothing behind this place was promised by then. A failure only makes the next open
        // read more, and refuse more.
        let _ = log.shared.write_last_point(true);
        // Last, because it syncs the directory: the point's name is durable with it.
        log.shared.directory.mark_in_use()?;
        Ok(log)
    }

    fn spawn_threads(&mut self) -> Result<(), Error> {
        let shared = &self.shared;
        let path = shared.directory.segments();
        let run = |run: fn(&Shared)| {
            let shared = Arc::clone(shared);
            move || run(&shared)
        };
        let failed = |error: std::io::Error| Error::from_std(Op::Spawn, path, &error);
        self.lanes.spawn("flush", run(|shared| shared.drive(Lane::Flush))).map_err(failed)?;
        if shared.staged.is_some() {
            // Where the strategy commits before each sync, or in the append, this one is there for
            // appends that find no staging space: the flush lane may be in a sync.
            shared.has_committer.store(true, Ordering::SeqCst);
            self.lanes.spawn("commit", run(|shared| shared.drive(Lane::Commit))).map_err(failed)?;
        }
        self.helpers.spawn("allocate", run(Shared::allocate_ahead)).map_err(failed)?;
        self.helpers.spawn("keep", run(Shared::keep_records)).map_err(failed)?;
        if shared.answers.timeout.is_some() {
            self.helpers
                .spawn("deadlines", run(|shared| shared.progress.keep_deadlines()))
                .map_err(failed)?;
        }
        Ok(())
    }

    /// Whether [`Io::Mapped`] is possible in `root`, which exists: not where the file system copies
    /// on write (btrfs, bcachefs, zfs), because there a full disk would be a signal, not an error.
    ///
    /// # Errors
    ///
    /// If the file system cannot be asked.
    pub fn can_map(root: &Path) -> Result<bool, Error> {
        crate::directory::copies_on_write(root).map(|copies| !copies)
    }

    /// Whether [`Io::Direct`] is possible in `root`, which exists. That is tried with a block in a
    /// file that has no name and is gone at once: not where none can be made, nor on a full disk.
    pub fn can_write_directly(root: &Path) -> bool {
        Linux.takes_blocks(root)
    }

    /// What opening found.
    pub fn recovery(&self) -> Recovery {
        self.recovery
    }

    /// The handle for a queue, which begins to exist with its first message.
    ///
    /// # Errors
    ///
    /// If the topic is empty, too long or not UTF-8.
    pub fn queue(&self, topic: &[u8], id: QueueId) -> Result<Queue, TopicError> {
        self.shared.queues.handle(self.shared.id, topic, id)
    }

    /// Places a message at the end of the log. Its ticket tells when the strategy's promise holds.
    ///
    /// A message with the flag [`SysFlag::INNER_BATCH`](store_core::SysFlag::INNER_BATCH) is an
    /// inner batch: its body holds several messages in a form that the store does not look into,
    /// its property `INNER_NUM` says how many (one if it is missing), and it takes as many
    /// positions of its queue. The store adds the property `INNER_BASE`.
    ///
    /// Blocks only while the next segment or staging space is missing, at most
    /// [`LogOptions::append_timeout`], and where it has to bring bytes to the page cache itself, as
    /// long as the kernel takes for that; never for a sync, unless group commit was told to use
    /// [`Io::Direct`] and `wait` is [`Wait::No`]: then it writes to the device, behind a sync that
    /// is under way.
    ///
    /// # Errors
    ///
    /// Nothing of the message is in the log then; see [`AppendError`] for what to do.
    pub fn append(
        &self,
        queue: &Queue,
        message: &Message<'_>,
        wait: Wait,
    ) -> Result<Ticket, AppendError> {
        let (appended, _) = self.shared.append(queue, message, wait)?;
        self.shared.wake_for_append(wait);
        Ok(self.ticket(appended, wait))
    }

    /// Places a message at the end of the log and blocks until the strategy's promise holds for it,
    /// or its deadline passes: [`append`](Self::append) and [`Ticket::wait`].
    ///
    /// # Errors
    ///
    /// Outside: the message is not in the log. Inside: it is, but not acknowledged.
    pub fn append_and_wait(
        &self,
        queue: &Queue,
        message: &Message<'_>,
        wait: Wait,
    ) -> Result<Result<Appended, AckError>, AppendError> {
        Ok(self.append(queue, message, wait)?.wait())
    }

    /// As [`append_and_wait`](Self::append_and_wait), but a producer that nobody else waits beside
    /// runs the sync in its own thread instead of handing it over, which is faster by two wake-ups.
    ///
    /// The price: the strategy's deadline cannot end a sync that the calling thread itself is in. A
    /// device that is stuck keeps this producer for as long as that; others' deadlines hold.
    ///
    /// # Errors
    ///
    /// Those of [`append_and_wait`](Self::append_and_wait).
    ///
    /// # Panics
    ///
    /// If the strategy or the observer does while this thread acts for the lane; the log is then
    /// poisoned, as by a panic in the lane's own thread.
    pub fn append_and_lead(
        &self,
        queue: &Queue,
        message: &Message<'_>,
        wait: Wait,
    ) -> Result<Result<Appended, AckError>, AppendError> {
        let (appended, is_lone) = self.shared.append(queue, message, wait)?;
        if is_lone {
            self.shared.lead_for_append(appended.end(), wait);
        } else {
            self.shared.wake_for_append(wait);
        }
        Ok(self.ticket(appended, wait).wait())
    }

    /// Places the messages of a batch at the end of the log, as records that follow each other in
    /// one segment and in their queue. One ticket tells of all.
    ///
    /// `message` gives what the members share (see [`encode_batch`](store_core::encode_batch)).
    /// After a crash a first part of the batch may be there without the rest, unless the ticket
    /// said that the strategy's promise holds.
    ///
    /// # Examples
    ///
    /// ```
    /// # use group_commit::GroupCommit;
    /// # use store_core::{Batch, BatchMember, Message, QueueId, Wait};
    /// # use store_os::{Log, LogOptions};
    /// # let directory = tempfile::tempdir()?;
    /// # let segment_size = store_core::SegmentSize::new(1 << 20)?;
    /// # let max_message_bytes = 64 << 10;
    /// # let options = LogOptions { segment_size, max_message_bytes, ..LogOptions::default() };
    /// # let log = Log::open(directory.path(), options, GroupCommit::default())?;
    /// # let queue = log.queue(b"orders", QueueId::new(0))?;
    /// let mut bytes = Vec::new();
    /// for body in [&b"one espresso"[..], b"two teas"] {
    ///     let member = BatchMember { flag: 0, properties: b"TAGS\x01bar\x02", body };
    ///     let at = bytes.len();
    ///     bytes.resize(at + member.encoded_len(), 0);
    ///     member.encode(&mut bytes[at..])?;
    /// }
    /// let stored =
    ///     log.append_batch(&queue, &Message::default(), &Batch::new(&bytes)?, Wait::Yes)?;
    /// assert_eq!(stored.offsets.len(), 2);
    /// stored.ticket.wait()?;
    /// # log.close()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Nothing of the batch is in the log then. As the client sends it, it may have no more bytes
    /// than [`LogOptions::max_message_bytes`], and as records 64 KiB more.
    pub fn append_batch(
        &self,
        queue: &Queue,
        message: &Message<'_>,
        batch: &Batch<'_>,
        wait: Wait,
    ) -> Result<AppendedBatch, AppendError> {
        let (appended, offsets) = self.shared.append_batch(queue, message, batch, wait)?;
        self.shared.wake_for_append(wait);
        Ok(AppendedBatch { ticket: self.ticket(appended, wait), offsets })
    }

    fn ticket(&self, appended: Appended, wait: Wait) -> Ticket {
        match self.shared.answers.ack(wait) {
            AckAt::Committed => {
                if self.shared.commit_in_append(appended.end()).is_err() {
                    let poison = self.shared.progress.poison().expect("a failed commit poisons");
                    return Ticket::failed(appended, AckError::Poisoned(poison.clone()));
                }
                Ticket::ready(appended)
            }
            AckAt::Flushed => Ticket::flushing(Arc::clone(&self.shared), appended),
            AckAt::Wrote => Ticket::ready(appended),
        }
    }

    /// Records appended since opening.
    pub fn appended(&self) -> u64 {
        self.shared.tail().records
    }

    /// Blocks until a first segment was made ready ahead of appends, and filled with zeroes as far
    /// as it will be ([`Preallocate::Zero`](crate::Preallocate::Zero)), at most `limit`; whether it
    /// was.
    ///
    /// Appends wait for a segment by themselves; this is for who wants the first ones not to.
    pub fn wait_for_segment(&self, limit: Duration) -> bool {
        let is_ahead =
            |tail: &Tail| (tail.next.is_some() || tail.made > 1) && tail.filled == tail.made;
        let limit = Nanos::new(u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX));
        let deadline = monotonic().after(limit);
        let mut tail = self.shared.tail();
        while !is_ahead(&tail) && !has_passed(Some(deadline)) {
            tail = self.shared.room.wait_until(tail, deadline);
        }
        is_ahead(&tail)
    }

    /// The three marks now.
    pub fn marks(&self) -> Watermarks {
        self.shared.marks()
    }

    /// The end of what a successful sync covers: one load, for who has many records on their way
    /// and looks often, where [`marks`](Self::marks) takes the append lock.
    pub fn flushed(&self) -> LogOffset {
        self.shared.progress.flushed()
    }

    /// The end of what was appended: one load too.
    pub fn wrote(&self) -> LogOffset {
        self.shared.progress.wrote()
    }

    /// Where records become readable: the mark that the strategy acknowledges at.
    pub fn readable(&self) -> LogOffset {
        self.shared.readable()
    }

    /// Reads from `at` on; `at` must be a record's first byte, such as [`Recovery::start`] or what
    /// an append gave.
    pub fn cursor(&self, at: LogOffset) -> Cursor {
        Cursor::new(Arc::clone(&self.shared), at)
    }

    /// Refuses further appends, makes everything durable, and gives the directory back.
    ///
    /// Waits for the disk at most [`LogOptions::close_timeout`].
    ///
    /// # Errors
    ///
    /// What could not be made durable, and why.
    pub fn close(mut self) -> Result<(), CloseError> {
        self.take_apart(Ending::Closed).end()
    }

    /// Stops without making anything durable, as a crash of the process would: staged bytes are
    /// gone, and the next open recovers.
    pub fn abandon(mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        let _ = self.take_apart(Ending::Abandoned).end();
    }

    fn take_apart(&mut self, ending: Ending) -> Closing {
        Closing {
            shared: Arc::clone(&self.shared),
            lanes: std::mem::take(&mut self.lanes),
            helpers: std::mem::take(&mut self.helpers),
            ending,
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        if !self.lanes.is_empty() {
            // Nobody is left to tell. What was acknowledged as durable is durable already.
            let _ = self.take_apart(Ending::Closed).end();
        }
    }
}

fn build(
    id: u64,
    (directory, options): (Directory, LogOptions),
    answers: Answers,
    strategy: Box<dyn FlushStrategy + Send>,
    queues: Queues,
    recovered: Recovered,
    checkpoint: CheckpointFile,
) -> Result<Shared, Error> {
    let records = Records::new(recovered.points, checkpoint);
    let end = recovered.report.end;
    let (sink, staged) = match options.io() {
        Io::Mapped => (Sink::Mapped(recovered.writer), None),
        Io::Positioned => {
            let (writer, reader) = staging(&directory, &options, end)?;
            (Sink::Staged(writer), Some(Mutex::new(reader)))
        }
        Io::Direct => {
            // The block that the log ends in is written again with what comes next.
            let begun = LogOffset::new(end.get() - end.get() % BLOCK);
            let (mut writer, reader) = staging(&directory, &options, begun)?;
            if let Some(active) = recovered.segments.last().filter(|_| begun < end) {
                let mut block = [0; BLOCK_LEN];
                let len = usize::try_from(end.since(begun)).expect("less than a block");
                active.read(&mut block[..len], begun)?;
                writer.store(&block[..len]);
            }
            (Sink::Staged(writer), Some(Mutex::new(reader)))
        }
    };
    let segments: VecDeque<_> = recovered.segments.into();
    let active = segments.back().filter(|_| recovered.has_active).cloned();
    let tail = Tail {
        wrote: end,
        last: recovered.last,
        records: 0,
        wanted_records: 0,
        wanted: LogOffset::ZERO,
        waiting_since: None,
        active,
        next: None,
        attempts: 0,
        made: 0,
        filled: 0,
        refused: None,
        has_litter: false,
        sink,
        last_store: recovered.last_store,
        closed: false,
    };
    Ok(Shared {
        id,
        options,
        directory,
        answers,
        strategy: Mutex::new(strategy),
        tail: Mutex::new(tail),
        room: Condvar::default(),
        blocked: AtomicU64::new(0),
        commit_wanted: AtomicBool::new(false),
        has_committer: AtomicBool::new(answers.uses_commit),
        progress: Progress::new(end),
        lanes: [LaneState::default(), LaneState::default()],
        staged,
        committed: Mutex::new(Mark { offset: end, ..Mark::default() }),
        segments: Mutex::new(segments),
        flushed_wanted: AtomicU64::new(0),
        queues,
        allocator: crate::signal::Signal::default(),
        keeper: crate::signal::Signal::default(),
        records: Mutex::new(records),
        stop: AtomicBool::new(false),
        draining: AtomicBool::new(false),
    })
}

/// The staging ring, whose positions begin at `start`.
fn staging(
    directory: &Directory,
    options: &LogOptions,
    start: LogOffset,
) -> Result<(Writer, Reader), Error> {
    // Whole pages, so that where the ring begins anew no write ends within a sector; and one for
    // the block that stays to be written again.
    let pages = options.staging_bytes.checked_next_multiple_of(PAGE_SIZE);
    let kept = if options.io() == Io::Direct { BLOCK } else { 0 };
    let capacity = pages.and_then(|bytes| bytes.checked_add(kept)).unwrap_or(u64::MAX);
    ring(capacity, start.get())
        .map_err(|error| Error::from_std(Op::Map, directory.segments(), &error))
}

#[cfg(modelled)]
#[cfg(test)]
mod models;
