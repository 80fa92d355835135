//! A log on real files under load, with a witness of what its producers were told.

mod lying;

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use commit_realtime::CommitRealtime;
use flush_realtime::FlushRealtime;
use group_commit::GroupCommit;
use store_core::{AckAt, LogOffset, Message, Nanos, SegmentSize, Wait};
use store_os::{
    AckError, AppendError, CloseError, Io, Log, LogOptions, Observer, OpenError, Platform,
    Preallocate, Queue, ReadError, Recovery, monotonic,
};

use crate::check::{Promise, Verdict, check, read_all};
use crate::payload::{Sent, Shape};
use crate::witness::{Seen, Witness};

pub use lying::Lie;

/// How the log decides when to sync.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Strategy {
    /// `commit-realtime`: acknowledges what is staged.
    CommitRealtime {
        /// Between two commits of what is staged.
        commit: Duration,
        /// Between two syncs.
        interval: Duration,
    },
    /// `flush-realtime`: acknowledges what the page cache has.
    FlushRealtime {
        /// Between two syncs.
        interval: Duration,
    },
    /// `group-commit`: acknowledges what is synced.
    GroupCommit,
    /// `group-commit` that breaks its promise.
    Lying(Lie),
}

impl Strategy {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::CommitRealtime { .. } => "commit-realtime",
            Self::FlushRealtime { .. } => "flush-realtime",
            Self::GroupCommit => "group-commit",
            Self::Lying(lie) => lie.name(),
        }
    }

    /// What it tells its producers that it promises.
    pub(crate) fn mark(self) -> AckAt {
        match self {
            Self::CommitRealtime { .. } => AckAt::Wrote,
            Self::FlushRealtime { .. } => AckAt::Committed,
            Self::GroupCommit | Self::Lying(_) => AckAt::Flushed,
        }
    }

    /// Opens a log in `root` that decides so.
    pub(crate) fn open(self, root: &Path, mut options: LogOptions) -> Result<Log, OpenError> {
        let nanos =
            |duration: Duration| Nanos::new(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
        let flush = |interval| flush_realtime::Config {
            interval: nanos(interval),
            least_pages: 0,
            ..flush_realtime::Config::default()
        };
        let refused = |reason: &dyn fmt::Display| OpenError::Options { reason: reason.to_string() };
        match self {
            Self::CommitRealtime { commit, interval } => {
                let config = commit_realtime::Config {
                    commit_interval: nanos(commit),
                    commit_least_pages: 0,
                    flush: flush(interval),
                    ..commit_realtime::Config::default()
                };
                let strategy = CommitRealtime::new(config).map_err(|error| refused(&error))?;
                options.io = Some(Io::Positioned);
                Log::open(root, options, strategy)
            }
            Self::FlushRealtime { interval } => {
                let strategy =
                    FlushRealtime::new(flush(interval)).map_err(|error| refused(&error))?;
                Log::open(root, options, strategy)
            }
            Self::GroupCommit => Log::open(root, options, GroupCommit::default()),
            Self::Lying(Lie::AckBeforeSync) => {
                Log::open(root, options, lying::AckBeforeSync::default())
            }
            Self::Lying(lie) => {
                let real = options.platform.files();
                options.platform = Platform::new(Arc::new(lying::LyingFiles { real, lie }));
                options.io = Some(Io::Positioned);
                Log::open(root, options, GroupCommit::default())
            }
        }
    }
}

/// How a load's log is laid out, and how fast it is written.
#[derive(Clone)]
pub struct LoadOptions {
    /// Size of each segment in bytes. Default 1 MiB, so that a short run has several.
    pub segment_bytes: u64,
    /// How appends reach the page cache; `None` is the log's own choice. Default `None`.
    pub io: Option<Io>,
    /// How segments are made ready. Default `Fallocate`.
    pub preallocate: Preallocate,
    /// Messages a second of all producers together; `None` is as fast as they are acknowledged.
    /// Who cannot keep up sends without pauses. Default `None`.
    pub messages_per_s: Option<u32>,
    /// Told of every commit and flush.
    pub observer: Option<Arc<dyn Observer>>,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self {
            segment_bytes: 1 << 20,
            io: None,
            preallocate: Preallocate::Fallocate,
            messages_per_s: None,
            observer: None,
        }
    }
}

impl fmt::Debug for LoadOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadOptions")
            .field("segment_bytes", &self.segment_bytes)
            .field("io", &self.io)
            .field("preallocate", &self.preallocate)
            .field("messages_per_s", &self.messages_per_s)
            .finish_non_exhaustive()
    }
}

impl LoadOptions {
    fn log_options(&self) -> Result<LogOptions, OpenError> {
        let segment_size = SegmentSize::new(self.segment_bytes)
            .map_err(|error| OpenError::Options { reason: error.to_string() })?;
        let max_message_bytes = usize::try_from(self.segment_bytes / 2).unwrap_or(usize::MAX);
        Ok(LogOptions {
            segment_size,
            io: self.io,
            preallocate: self.preallocate,
            max_message_bytes: max_message_bytes.min(4 << 20),
            observer: self.observer.clone(),
            ..LogOptions::default()
        })
    }
}

/// A log that producers write to.
#[derive(Debug)]
pub struct Load {
    running: Arc<Running>,
    strategy: Strategy,
    options: LoadOptions,
    producers: Vec<JoinHandle<Option<Failure>>>,
}

#[derive(Debug)]
struct Running {
    log: Log,
    witness: Arc<Witness>,
    mark: AckAt,
    stop: AtomicBool,
    /// Between two messages of one producer.
    pause: Option<Duration>,
    /// When each producer's messages were acknowledged.
    acked_at: Vec<Mutex<Vec<Nanos>>>,
}

/// Why a producer stopped before it was told to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Failure {
    /// Its message is in the log, but was not acknowledged.
    Ack(AckError),
    /// Its message is not in the log.
    Append(AppendError),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ack(error) => error.fmt(f),
            Self::Append(error) => error.fmt(f),
        }
    }
}

/// What was promised at a moment.
#[derive(Clone, Debug)]
pub struct Look {
    /// The log's own mark.
    pub flushed: LogOffset,
    /// What the producers were told: at least what they were when the mark was read.
    pub seen: Seen,
}

/// How a load ended.
#[derive(Debug)]
pub struct Stopped {
    /// What the producers were told in the end.
    pub seen: Seen,
    /// When each producer's messages were acknowledged, by [`monotonic`].
    pub acked_at: AckTimes,
    /// Why producers stopped early, if some did.
    pub failures: Vec<Failure>,
    /// What became of closing the log.
    pub closed: Result<(), CloseError>,
}

/// When each producer's messages were acknowledged.
#[derive(Clone, Debug, Default)]
pub struct AckTimes(Vec<Vec<Nanos>>);

impl AckTimes {
    /// How many messages of each producer were acknowledged by then, for [`Seen::when`].
    pub fn by(&self, at: Nanos) -> Vec<u64> {
        let by = |times: &Vec<Nanos>| times.partition_point(|time| *time <= at);
        self.0.iter().map(|times| store_core::length_u64(by(times))).collect()
    }
}

impl Load {
    /// Opens a log in `directory` and starts a thread for each producer of the witness's shape.
    ///
    /// # Errors
    ///
    /// If the log cannot be opened, or the system has no thread for a producer.
    pub fn start(
        directory: &Path,
        strategy: Strategy,
        witness: Arc<Witness>,
        options: LoadOptions,
    ) -> Result<Self, StartError> {
        let log = strategy.open(directory, options.log_options()?)?;
        let count = witness.shape().producers;
        let pause = options.messages_per_s.map(|rate| Duration::from_secs(1) * count / rate.max(1));
        let stop = AtomicBool::new(false);
        let acked_at = (0..count).map(|_| Mutex::default()).collect();
        let running = Running { log, witness, mark: strategy.mark(), stop, pause, acked_at };
        let mut load =
            Self { running: Arc::new(running), strategy, options, producers: Vec::new() };
        for producer in 0..count {
            let running = Arc::clone(&load.running);
            let thread = thread::Builder::new()
                .name(format!("produce-{producer}"))
                .spawn(move || running.produce(producer))?;
            load.producers.push(thread);
        }
        Ok(load)
    }

    /// The log.
    pub fn log(&self) -> &Log {
        &self.running.log
    }

    /// What is promised now. For a sound check, to be taken before a cut.
    pub fn look(&self) -> Look {
        let flushed = self.running.log.marks().flushed();
        Look { flushed, seen: self.running.witness.snapshot() }
    }

    /// What the producers were told by now. For a sound check, to be taken after a cut.
    pub fn seen(&self) -> Seen {
        self.running.witness.snapshot()
    }

    /// Whether a producer has stopped, so that no acknowledgement is to be expected from it.
    pub fn has_failed(&self) -> bool {
        self.producers.iter().any(JoinHandle::is_finished)
    }

    /// Opens the log that a cut left in `directory`, and decides whether it keeps what `before`
    /// says was promised. `after` is taken after the cut.
    ///
    /// # Errors
    ///
    /// If the log does not open, or cannot be read.
    pub fn judge(
        &self,
        directory: &Path,
        before: &Look,
        after: &Seen,
    ) -> Result<Judged, JudgeError> {
        judge(directory, self.strategy, &self.options, before, after)
    }

    /// Stops the producers and closes the log.
    pub fn stop(mut self) -> Stopped {
        self.running.stop.store(true, Ordering::Relaxed);
        let producers = std::mem::take(&mut self.producers);
        for producer in &producers {
            producer.thread().unpark();
        }
        let failures = producers
            .into_iter()
            .filter_map(|producer| producer.join().expect("a producer does not panic"))
            .collect();
        let seen = self.running.witness.snapshot();
        let alone = Arc::clone(&self.running);
        drop(self);
        let Running { log, acked_at, .. } = Arc::into_inner(alone).expect("the producers are gone");
        let times =
            |times: Mutex<Vec<Nanos>>| times.into_inner().unwrap_or_else(PoisonError::into_inner);
        let acked_at = AckTimes(acked_at.into_iter().map(times).collect());
        Stopped { seen, acked_at, failures, closed: log.close() }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.running.stop.store(true, Ordering::Relaxed);
    }
}

impl Running {
    /// Sends messages until told to stop, or until one fails.
    fn produce(&self, producer: u32) -> Option<Failure> {
        let shape = self.witness.shape();
        let queue = self
            .log
            .queue(&shape.topic(producer), shape.queue_id(producer))
            .expect("a shape's topics are short text");
        let mut next = monotonic();
        while !self.stop.load(Ordering::Relaxed) {
            if let Some(pause) = self.pause {
                let now = monotonic();
                if now < next {
                    thread::park_timeout(Duration::from_nanos(next.since(now).get()));
                    continue;
                }
                let pause = u64::try_from(pause.as_nanos()).unwrap_or(u64::MAX);
                // Who falls behind catches up, by a few messages at most.
                next = next
                    .after(Nanos::new(pause))
                    .max(Nanos::new(now.get().saturating_sub(pause.saturating_mul(CATCH_UP))));
            }
            let sent = self.witness.claim(producer);
            if let Err(failure) = self.send(&queue, &shape, sent) {
                return Some(failure);
            }
        }
        None
    }

    fn send(&self, queue: &Queue, shape: &Shape, sent: Sent) -> Result<(), Failure> {
        let body = shape.body(sent);
        let message = Message { body: &body, ..Message::default() };
        match self.log.append_and_wait(queue, &message, Wait::Yes) {
            Ok(Ok(appended)) => {
                let now = monotonic();
                self.witness.placed(sent, appended);
                self.witness.acked_at(sent, self.mark);
                let place = usize::try_from(sent.producer).expect("a u32 is a place");
                self.acked_at[place].lock().unwrap_or_else(PoisonError::into_inner).push(now);
                Ok(())
            }
            // It may be there or not; the producer sends its next one.
            Ok(Err(AckError::FlushTimedOut)) => Ok(()),
            Ok(Err(error)) => Err(Failure::Ack(error)),
            Err(error) => {
                self.witness.refused(sent);
                Err(Failure::Append(error))
            }
        }
    }
}

/// What a cut left of a log, and whether that was promised.
#[derive(Clone, Debug)]
pub struct Judged {
    /// What opening it found.
    pub recovery: Recovery,
    /// Whether that was promised.
    pub verdict: Verdict,
}

/// Opens the log that a cut left in `directory`, and decides whether it keeps what `before` says
/// was promised. Under every strategy, that is what was acknowledged as flushed, and what the log
/// itself called flushed.
///
/// # Errors
///
/// If the log does not open, or cannot be read.
pub fn judge(
    directory: &Path,
    strategy: Strategy,
    options: &LoadOptions,
    before: &Look,
    after: &Seen,
) -> Result<Judged, JudgeError> {
    let options = LoadOptions { observer: None, ..options.clone() };
    let honest = match strategy {
        Strategy::Lying(_) => Strategy::GroupCommit,
        honest => honest,
    };
    let log = honest.open(directory, options.log_options()?)?;
    let recovery = log.recovery();
    let found = read_all(&log);
    log.abandon();
    let verdict = check(Promise::Durable, &before.seen, before.flushed, after, &found?);
    Ok(Judged { recovery, verdict })
}

/// A load was not started.
#[derive(Debug)]
pub enum StartError {
    /// The log cannot be opened.
    Open(OpenError),
    /// The system has no thread for a producer.
    Spawn(std::io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open(error) => error.fmt(f),
            Self::Spawn(error) => write!(f, "cannot start a producer: {error}"),
        }
    }
}

impl std::error::Error for StartError {}

impl From<OpenError> for StartError {
    fn from(error: OpenError) -> Self {
        Self::Open(error)
    }
}

impl From<std::io::Error> for StartError {
    fn from(error: std::io::Error) -> Self {
        Self::Spawn(error)
    }
}

/// What a cut left of a log was not judged.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum JudgeError {
    /// The log does not open.
    Open(OpenError),
    /// A record that opening found cannot be read.
    Read(ReadError),
}

impl fmt::Display for JudgeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open(error) => error.fmt(f),
            Self::Read(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for JudgeError {}

impl From<OpenError> for JudgeError {
    fn from(error: OpenError) -> Self {
        Self::Open(error)
    }
}

impl From<ReadError> for JudgeError {
    fn from(error: ReadError) -> Self {
        Self::Read(error)
    }
}

/// How many messages a producer that fell behind sends without pause.
const CATCH_UP: u64 = 16;
