//! Strategies to choose from, small logs, bodies that can be told apart, and faults on demand.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use commit_realtime::CommitRealtime;
use flush_realtime::FlushRealtime;
use group_commit::GroupCommit;
use rustix::io::Errno;
use store_core::{LogOffset, Message, Nanos, QueueId, SegmentSize, Wait};
use store_os::{Appended, Call, Faults, Io, Log, LogOptions, Preallocate, Queue};

/// The three strategies at RocketMQ's defaults, with the ways of writing they allow.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Sync(Io),
    Timed(Io),
    Staged,
}

impl Kind {
    pub(crate) const ALL: [Self; 6] = [
        Self::Sync(Io::Direct),
        Self::Sync(Io::Positioned),
        Self::Sync(Io::Mapped),
        Self::Timed(Io::Mapped),
        Self::Timed(Io::Positioned),
        Self::Staged,
    ];

    pub(crate) fn open(self, root: &Path, options: LogOptions) -> Log {
        self.try_open(root, options).unwrap()
    }

    pub(crate) fn try_open(
        self,
        root: &Path,
        options: LogOptions,
    ) -> Result<Log, store_os::OpenError> {
        let timed = flush_realtime::Config::default();
        self.try_open_with(root, options, timed)
    }

    /// Opens with a timed flush that comes every few milliseconds.
    pub(crate) fn try_open_brisk(
        self,
        root: &Path,
        options: LogOptions,
    ) -> Result<Log, store_os::OpenError> {
        let interval = Nanos::from_millis(5);
        let timed = flush_realtime::Config { interval, least_pages: 0, ..Default::default() };
        self.try_open_with(root, options, timed)
    }

    fn try_open_with(
        self,
        root: &Path,
        options: LogOptions,
        timed: flush_realtime::Config,
    ) -> Result<Log, store_os::OpenError> {
        let io = match self {
            Self::Sync(io) | Self::Timed(io) => io,
            Self::Staged => Io::Positioned,
        };
        // Where the file system copies on write nothing can be mapped; the rest holds there too.
        let place = root.ancestors().find(|place| place.exists()).unwrap();
        let is_possible = match io {
            Io::Mapped => place.is_file() || Log::can_map(place).unwrap(),
            Io::Direct => place.is_file() || Log::can_write_directly(place),
            Io::Positioned => true,
        };
        let io = if is_possible { io } else { Io::Positioned };
        let options = LogOptions { io: Some(io), ..options };
        match self {
            Self::Sync(_) => Log::open(root, options, GroupCommit::default()),
            Self::Timed(_) => Log::open(root, options, FlushRealtime::new(timed).unwrap()),
            Self::Staged => {
                let config = commit_realtime::Config { flush: timed, ..Default::default() };
                Log::open(root, options, CommitRealtime::new(config).unwrap())
            }
        }
    }
}

/// Options of a log whose segments fill quickly.
pub(crate) fn small() -> LogOptions {
    LogOptions {
        segment_size: SegmentSize::new(16 << 10).unwrap(),
        preallocate: Preallocate::Fallocate,
        staging_bytes: 64 << 10,
        max_message_bytes: 8 << 10,
        ..LogOptions::default()
    }
}

pub(crate) fn with_faults(options: LogOptions, faults: &Arc<Injector>) -> LogOptions {
    let faults: Arc<Injector> = Arc::clone(faults);
    LogOptions { faults: store_os::Hidden::new(faults), ..options }
}

pub(crate) fn queue(log: &Log, topic: &str) -> Queue {
    log.queue(topic.as_bytes(), QueueId::new(0)).unwrap()
}

/// Appends and waits for what the strategy promises.
pub(crate) fn put(log: &Log, queue: &Queue, body: &[u8]) -> Appended {
    let message = Message { body, ..Message::default() };
    log.append_and_wait(queue, &message, Wait::Yes).unwrap().unwrap()
}

/// A body of its own length and content for each number.
pub(crate) fn body(number: u64) -> Vec<u8> {
    let len = 1 + number * 37 % 1500;
    let mut state = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_be_bytes()[0]
        })
        .collect()
}

/// Every segment with what is in it.
pub(crate) fn files(root: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found: Vec<_> = fs::read_dir(root.join("commitlog"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.clone(), fs::read(path).unwrap()))
        .collect();
    found.sort();
    found
}

/// All readable records' topics and bodies.
pub(crate) fn read_all(log: &Log) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut cursor = log.cursor(log.recovery().start);
    let mut found = Vec::new();
    while let Some(record) = cursor.next_record().unwrap() {
        found.push((record.topic().to_vec(), record.body().to_vec()));
    }
    found
}

/// Waits until `holds`; panics if that takes longer than anything here can.
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..20_000 {
        if holds() {
            return;
        }
        std::thread::park_timeout(Duration::from_millis(1));
    }
    panic!("never came: {what}");
}

pub(crate) fn flushed_past(log: &Log, end: LogOffset) -> bool {
    end <= log.marks().flushed()
}

/// Fails or holds calls on demand.
#[derive(Debug, Default)]
pub(crate) struct Injector {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    fail: Option<(Call, Errno)>,
    hold: Option<Call>,
    held: usize,
    calls: Vec<Call>,
}

impl Injector {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// From now on every such call fails.
    pub(crate) fn fail(&self, call: Call, errno: Errno) {
        self.state.lock().unwrap().fail = Some((call, errno));
    }

    pub(crate) fn heal(&self) {
        self.state.lock().unwrap().fail = None;
    }

    /// From now on every such call is held until `let_go`.
    pub(crate) fn hold(&self, call: Call) {
        self.state.lock().unwrap().hold = Some(call);
    }

    pub(crate) fn let_go(&self) {
        self.state.lock().unwrap().hold = None;
        self.changed.notify_all();
    }

    pub(crate) fn held(&self) -> usize {
        self.state.lock().unwrap().held
    }

    pub(crate) fn count(&self, call: Call) -> usize {
        self.state.lock().unwrap().calls.iter().filter(|made| **made == call).count()
    }
}

impl Faults for Injector {
    fn before(&self, call: Call) -> Result<(), Errno> {
        let mut state = self.state.lock().unwrap();
        state.calls.push(call);
        state.held += 1;
        while state.hold == Some(call) {
            state = self.changed.wait(state).unwrap();
        }
        state.held -= 1;
        match state.fail {
            Some((failing, errno)) if failing == call => Err(errno),
            _ => Ok(()),
        }
    }
}
