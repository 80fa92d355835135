//! What a simulated run does, all of it from one seed.

use commit_realtime::CommitRealtime;
use flush_realtime::FlushRealtime;
use group_commit::GroupCommit;
use store_core::{AckAt, Action, Event, FlushStrategy, Lane, Nanos, Observed, SegmentSize, Wait};
use store_os::{Io, Preallocate};

use crate::payload::Shape;
use crate::random::Random;
use crate::sim::faults::Fault;
use crate::sim::timing::Timing;

/// A run: several lives of one log, each ended by a crash.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// What all that is random in the run follows from.
    pub seed: u64,
    /// Which strategy flushes, and how.
    pub strategy: Strategy,
    /// How appended bytes reach the page cache.
    pub io: Io,
    /// How segments are made ready.
    pub preallocate: Preallocate,
    /// The log's segment size in bytes.
    pub segment_bytes: u64,
    /// The staging buffer's size in bytes, above what it needs.
    pub spare_staging_bytes: u64,
    /// Producers and their messages.
    pub shape: Shape,
    /// How long the disk takes.
    pub timing: Timing,
    /// In how many of a thousand cases a write is done in two.
    pub short_writes: u64,
    /// How often checkpoint and recovery point are written.
    pub keep_every: Nanos,
    /// From one crash to the next.
    pub lives: Vec<Life>,
}

/// From opening a log to its crash.
#[derive(Clone, Debug, PartialEq)]
pub struct Life {
    /// How many messages are appended at most.
    pub appends: u32,
    /// The mean pause of a producer.
    pub pause: Nanos,
    /// How many of a thousand appends are followed by the next at once.
    pub burst_in_thousand: u64,
    /// How many of a thousand appends wait for what the strategy promises.
    pub wait_in_thousand: u64,
    /// How many of a thousand appends are batches.
    pub batch_in_thousand: u64,
    /// How many acknowledgements a producer lets stand out.
    pub outstanding: u32,
    /// How long the log goes on when the last message was appended.
    pub rest: Nanos,
    /// Whether the log is closed then.
    pub closes: bool,
    /// What goes wrong.
    pub faults: Vec<Fault>,
    /// How many crash states are tried, beside the one that the next life begins with.
    pub states: u32,
}

/// A strategy with its settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Strategy {
    /// `commit-realtime`.
    CommitRealtime(commit_realtime::Config),
    /// `flush-realtime`.
    FlushRealtime(flush_realtime::Config),
    /// `group-commit`.
    GroupCommit(group_commit::Config),
}

impl Plan {
    /// The run of a seed. Six seeds in a row are of six different kinds.
    pub fn of(seed: u64) -> Self {
        let random = &mut Random::of(seed, 0);
        let (strategy, io) = match seed % KINDS {
            0 => (group_commit_of(random), Io::Positioned),
            1 => (group_commit_of(random), Io::Mapped),
            2 => (Strategy::FlushRealtime(flush_of(random)), Io::Mapped),
            3 => (Strategy::FlushRealtime(flush_of(random)), Io::Positioned),
            4 => (commit_realtime_of(random), *random.pick(&[Io::Positioned, Io::Direct])),
            _ => (group_commit_of(random), Io::Direct),
        };
        let segment_bytes = *random.pick(&[4096, 4096, 8192, 8192, 16_384, 65_536]);
        let (min_body, max_body) =
            *random.pick(&[(16, 60), (16, 700), (100, 100), (400, 400), (300, 1500)]);
        let producers = u32::try_from(random.between(1, 4)).unwrap_or(1);
        let zero = random.chance(250);
        Self {
            seed,
            strategy,
            io,
            preallocate: if zero { Preallocate::Zero } else { Preallocate::Fallocate },
            segment_bytes,
            spare_staging_bytes: *random.pick(&[0, 5000, 60_000]),
            shape: Shape { seed, producers, min_body, max_body },
            timing: Timing::any(random),
            short_writes: *random.pick(&[0, 0, 100, 500]),
            keep_every: Nanos::from_micros(*random.pick(&[300, 20_000, 1_000_000])),
            lives: (0..random.between(1, 3)).map(|_| Life::any(random)).collect(),
        }
    }

    /// Its name: strategy and way of writing.
    pub fn name(&self) -> &'static str {
        match (&self.strategy, self.io) {
            (Strategy::CommitRealtime(_), _) => NAMES[4],
            (Strategy::FlushRealtime(_), Io::Mapped) => NAMES[2],
            (Strategy::FlushRealtime(_), _) => NAMES[3],
            (Strategy::GroupCommit(_), Io::Direct) => NAMES[5],
            (Strategy::GroupCommit(_), Io::Mapped) => NAMES[1],
            (Strategy::GroupCommit(_), Io::Positioned) => NAMES[0],
        }
    }

    pub(crate) fn segment_size(&self) -> SegmentSize {
        SegmentSize::new(self.segment_bytes).expect("a plan's segments are large enough")
    }
}

/// The names that [`Plan::name`] gives.
pub const NAMES: [&str; 6] = [
    "group-commit, positioned",
    "group-commit, mapped",
    "flush-realtime, mapped",
    "flush-realtime, positioned",
    "commit-realtime",
    "group-commit, direct",
];
const KINDS: u64 = 6;

impl Life {
    fn any(random: &mut Random) -> Self {
        let faults = *random.pick(&[0, 0, 0, 1, 1, 2]);
        Self {
            appends: u32::try_from(random.between(1, 40)).unwrap_or(1),
            pause: Nanos::from_micros(*random.pick(&[1, 40, 1000, 15_000])),
            burst_in_thousand: *random.pick(&[0, 300, 900]),
            wait_in_thousand: *random.pick(&[1000, 1000, 700, 100]),
            batch_in_thousand: *random.pick(&[0, 0, 200]),
            outstanding: *random.pick(&[1, 3, 1000]),
            rest: Nanos::from_micros(*random.pick(&[0, 500, 20_000, 3_000_000])),
            closes: random.chance(350),
            faults: (0..faults).map(|_| Fault::any(random)).collect(),
            states: 3,
        }
    }
}

fn group_commit_of(random: &mut Random) -> Strategy {
    Strategy::GroupCommit(group_commit::Config {
        timeout: Nanos::from_millis(*random.pick(&[3, 60, 5000])),
        gather: Nanos::from_micros(*random.pick(&[0, 0, 200, 2000])),
        siblings: random.between(2, 4),
    })
}

fn flush_of(random: &mut Random) -> flush_realtime::Config {
    let timed = random.chance(600);
    flush_realtime::Config {
        interval: Nanos::from_millis(*random.pick(&[1, 5, 25, 500])),
        least_pages: *random.pick(&[0, 0, 1, 4]),
        thorough_interval: Nanos::from_millis(*random.pick(&[0, 10, 100, 10_000])),
        timed,
        wake_on_append: !timed && random.chance(700),
    }
}

fn commit_realtime_of(random: &mut Random) -> Strategy {
    Strategy::CommitRealtime(commit_realtime::Config {
        commit_interval: Nanos::from_millis(*random.pick(&[1, 6, 40, 200])),
        commit_least_pages: *random.pick(&[0, 1, 4]),
        commit_thorough_interval: Nanos::from_millis(*random.pick(&[0, 10, 200])),
        wake_on_append: random.chance(700),
        flush: flush_of(random),
    })
}

impl Strategy {
    /// The state machine, which has made no pass yet.
    ///
    /// # Panics
    ///
    /// If the settings are none that it takes.
    pub fn machine(&self) -> Machine {
        match *self {
            Self::CommitRealtime(config) => {
                Machine::Commit(CommitRealtime::new(config).expect("passes have a pause"))
            }
            Self::FlushRealtime(config) => {
                Machine::Flush(FlushRealtime::new(config).expect("passes have a pause"))
            }
            Self::GroupCommit(config) => {
                Machine::Group(GroupCommit::new(config).expect("gathering ends in time"))
            }
        }
    }

    /// How long an acknowledged record stays staged at most, if a commit takes `commit`; `None` if
    /// nothing is staged behind an acknowledgement.
    pub fn staged_bound(&self, commit: Nanos) -> Option<Nanos> {
        let Self::CommitRealtime(config) = self else { return None };
        let passes = config.commit_thorough_interval.after(config.commit_interval);
        Some(passes.after(commit).after(commit))
    }

    /// How long an acknowledged record stays volatile at most, if a sync takes `sync`; `None` if
    /// none is acknowledged before it is durable, but those that nobody waits for.
    ///
    /// Of the two bounds that `flush-realtime` states the one that holds for any load.
    pub fn volatile_bound(&self, sync: Nanos, commit: Nanos) -> Option<Nanos> {
        let config = match self {
            Self::CommitRealtime(config) => config.flush,
            Self::FlushRealtime(config) => *config,
            Self::GroupCommit(_) => return None,
        };
        let thorough =
            if config.least_pages == 0 { Nanos::default() } else { config.thorough_interval };
        let staged = self.staged_bound(commit).unwrap_or_default();
        Some(staged.after(thorough).after(config.interval).after(sync).after(sync))
    }
}

/// Any of the strategies, as a value.
#[derive(Clone, Copy, Debug)]
pub enum Machine {
    /// `commit-realtime`.
    Commit(CommitRealtime),
    /// `flush-realtime`.
    Flush(FlushRealtime),
    /// `group-commit`.
    Group(GroupCommit),
}

impl Machine {
    fn get(&self) -> &dyn FlushStrategy {
        match self {
            Self::Commit(machine) => machine,
            Self::Flush(machine) => machine,
            Self::Group(machine) => machine,
        }
    }

    fn get_mut(&mut self) -> &mut dyn FlushStrategy {
        match self {
            Self::Commit(machine) => machine,
            Self::Flush(machine) => machine,
            Self::Group(machine) => machine,
        }
    }
}

impl FlushStrategy for Machine {
    fn ack(&self, wait: Wait) -> AckAt {
        self.get().ack(wait)
    }

    fn wakes(&self, lane: Lane, event: Event) -> bool {
        self.get().wakes(lane, event)
    }

    fn timeout(&self) -> Option<Nanos> {
        self.get().timeout()
    }

    fn uses(&self, lane: Lane) -> bool {
        self.get().uses(lane)
    }

    fn poll(&mut self, lane: Lane, now: Nanos, seen: &Observed) -> Action {
        self.get_mut().poll(lane, now, seen)
    }

    fn on_done(&mut self, lane: Lane, now: Nanos, seen: &Observed) {
        self.get_mut().on_done(lane, now, seen);
    }
}
