//! What a profile says, once it is read: only values that make sense together can be written here.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::disks::DiskSpec;
use crate::results::{Arrival, Kind};
use crate::sysctl::{DeviceLimits, DirtySettings};

use super::Finding;

/// A sweep: every strategy with every workload, under all kernel settings, on all disks, over and
/// over in blocks.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Sweep {
    /// The sweep's name, which names its results too.
    pub name: String,
    /// Repetitions of all cells, 1 to 100.
    pub blocks: u32,
    /// Seeds the order of the cells and the bodies of the messages.
    pub seed: u64,
    /// Before measuring in each cell.
    pub warmup: Duration,
    /// Measuring in each cell.
    pub measure: Duration,
    /// Log bytes after which a cell may end before its time; `None`: what disk and memory suggest.
    pub cell_bytes: Option<u64>,
    /// Rest before each cell, once little enough is dirty.
    pub settle: Duration,
    /// A cell begins when fewer bytes than this are dirty or on their way to a disk.
    pub drain_dirty_below_bytes: u64,
    /// Whether each block begins and ends with the same small cell, which shows drift.
    pub canary: bool,
    /// Whether a card of the first disk is made before the first block.
    pub card: bool,
    /// What the whole sweep may take; blocks that would pass it are left out.
    pub budget: Duration,
    /// Bytes of a segment of the log.
    pub segment_bytes: u64,
    /// The disks that the matrix names, in its order; without any, the host's alone.
    pub disks: Vec<Disk>,
    /// The kernel settings that the matrix names, in its order; without any, those found alone.
    pub sysctls: Vec<Sysctls>,
    /// The workloads that the matrix names, in its order; at least one.
    pub workloads: Vec<Workload>,
    /// The strategies that the matrix names, in its order; at least one.
    pub strategies: Vec<Strategy>,
    /// What the user asks of the figures.
    pub slo: Slo,
    /// From when on a difference or a disturbance counts.
    pub gates: Gates,
    /// What is allowed but probably not meant, by position.
    pub warnings: Vec<Finding>,
    /// The profile word for word, and after it each file that it took something from: read again,
    /// it gives the same sweep without those files.
    pub text: String,
}

/// A disk to run on.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Disk {
    /// Its name in the profile.
    pub name: String,
    /// What it is.
    pub spec: DiskSpec,
    /// What it may have of the machine's dirty limit, if it is made for the run and is a device.
    pub limits: DeviceLimits,
}

impl Disk {
    /// The disk of a matrix that names none: the directory that the command was given.
    pub fn host() -> Self {
        let name = Self::HOST.to_owned();
        let spec = DiskSpec::Host { path: None, plp: false };
        Self { name, spec, limits: DeviceLimits::default() }
    }

    /// The name of [`Self::host`].
    pub const HOST: &str = "host";
}

/// Kernel settings for dirty pages (`vm.dirty_*`).
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Sysctls {
    /// Their name in the profile.
    pub name: String,
    /// The values; what has none stays as it is found.
    pub settings: DirtySettings,
}

impl Sysctls {
    /// The settings of a matrix that names none: nothing is changed.
    pub fn as_found() -> Self {
        Self { name: Self::AS_FOUND.to_owned(), settings: DirtySettings::default() }
    }

    /// Whether they leave everything as it is found.
    pub fn changes_nothing(&self) -> bool {
        self.settings.is_empty()
    }

    /// The name of [`Self::as_found`].
    pub const AS_FOUND: &str = "as-found";
}

/// What producers send.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Workload {
    /// Its name in the profile.
    pub name: String,
    /// Bytes of a message's body.
    pub message_bytes: MessageBytes,
    /// Producer threads, a cell for each number; at least one, none twice.
    pub producers: Vec<u32>,
    /// Messages of one producer that may be without acknowledgement at a time; at least 1.
    pub window: u32,
    /// When messages are sent.
    pub pace: Pace,
    /// Whether a reader of old messages disturbs.
    pub reader: bool,
    /// How often a file as large as a segment is deleted beside the log; `None`: never.
    pub deletes_every: Option<Duration>,
}

impl Workload {
    /// Whether others are at the disk meanwhile: what it breaks, an even load alone may keep.
    pub fn is_disturbed(&self) -> bool {
        self.reader || self.deletes_every.is_some()
    }
}

/// Sizes of messages and how often each comes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct MessageBytes {
    shares: Vec<Share>,
}

/// One size of a mix.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Share {
    /// Bytes of a message's body.
    pub bytes: u64,
    /// Messages in a hundred that have it, 1 to 100.
    pub percent: u32,
}

impl MessageBytes {
    /// All messages of one size.
    pub fn one(bytes: u64) -> Self {
        Self { shares: vec![Share { bytes, percent: 100 }] }
    }

    /// A mix, or `None` unless there is a share, each has a percent and all have a hundred.
    pub fn mix(shares: Vec<Share>) -> Option<Self> {
        let percents = shares.iter().map(|share| u64::from(share.percent));
        let complete = percents.sum::<u64>() == 100;
        (complete && shares.iter().all(|share| share.percent > 0)).then_some(Self { shares })
    }

    /// The sizes in the order of the profile; their percents make a hundred.
    pub fn shares(&self) -> &[Share] {
        &self.shares
    }

    /// The largest size.
    pub fn largest(&self) -> u64 {
        self.shares.iter().map(|share| share.bytes).max().unwrap_or(0)
    }

    /// The size of a message on average, rounded to the nearest byte.
    pub fn mean(&self) -> u64 {
        let each = self.shares.iter().map(|share| share.bytes * u64::from(share.percent));
        (each.sum::<u64>() + 50) / 100
    }

    /// The size of the message that drew `number`, of which only the rest by 100 counts: numbers
    /// spread evenly give the sizes in their shares.
    pub fn drawn(&self, number: u64) -> u64 {
        let mut left = number % 100;
        for share in &self.shares {
            let percent = u64::from(share.percent);
            if left < percent {
                return share.bytes;
            }
            left -= percent;
        }
        unreachable!("the percents make a hundred")
    }
}

/// When producers send.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Pace {
    /// Each as soon as its window has room: closed loop.
    Closed,
    /// At the highest rate that keeps the promise, which is searched for: open loop.
    FindRate {
        /// What 99 of 100 messages must be acknowledged within.
        p99: Duration,
        /// How the messages are spread.
        arrival: Arrival,
    },
    /// At a rate, whatever the acknowledgements do: open loop.
    Rate {
        /// Messages a second, of all producers together, without the bursts.
        per_s: u64,
        /// How they are spread.
        arrival: Arrival,
        /// What comes on top, all at once.
        burst: Option<Burst>,
    },
}

/// Messages at once, over and over, on top of a rate.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Burst {
    /// How many, of all producers together; at least 1.
    pub messages: u64,
    /// From the beginning of one to that of the next.
    pub every: Duration,
}

/// What the user asks of the figures; nothing is asked where it is `None`.
///
/// Recorded under the names that the profile has for them.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Slo {
    /// What 99 of 100 messages must be acknowledged within.
    #[serde(rename = "ack_p99_ms", with = "millis")]
    pub ack_p99: Option<Duration>,
    /// How old the oldest message may be that a power cut takes, in 99 of 100 moments.
    #[serde(rename = "power_loss_rpo_ms", with = "millis")]
    pub power_loss_rpo: Option<Duration>,
}

/// Times in whole milliseconds, as a profile has them.
mod millis {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[expect(clippy::ref_option, reason = "serde calls it so")]
    pub(super) fn serialize<S: Serializer>(
        time: &Option<Duration>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        let whole = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        time.map(whole).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Duration>, D::Error> {
        Ok(Option::deserialize(from)?.map(Duration::from_millis))
    }
}

/// From when on a difference or a disturbance counts, in percent.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Gates {
    /// Differences below it are not told as such.
    pub min_effect_pct: u32,
    /// A block in which the canaries differ by more is flagged.
    pub noise_max_pct: u32,
    /// A cell is flagged from which the hypervisor took more of the processors' time.
    pub steal_max_pct: u32,
}

impl Default for Gates {
    fn default() -> Self {
        Self { min_effect_pct: 5, noise_max_pct: 15, steal_max_pct: 2 }
    }
}

/// A strategy with its settings.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Strategy {
    /// Its name in the profile.
    pub name: String,
    /// What it is and how it is set.
    pub settings: Settings,
}

/// The settings that have a meaning for a kind of strategy.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Settings {
    /// Commit lane and flush lane over a staging buffer; appends always are positioned writes.
    CommitRealtime {
        /// Between two looks of the commit lane (`commitIntervalCommitLog`).
        commit: Duration,
        /// Pages that must have been filled before it commits (`commitCommitLogLeastPages`).
        commit_least_pages: u64,
        /// After which it commits whatever there is (`commitCommitLogThoroughInterval`).
        commit_thorough: Duration,
        /// Between two looks of the flush lane (`flushIntervalCommitLog`).
        interval: Duration,
        /// Pages that must have been committed before it flushes (`flushCommitLogLeastPages`).
        least_pages: u64,
        /// After which it flushes whatever there is (`flushCommitLogThoroughInterval`).
        thorough: Duration,
        /// Bytes of the staging buffer.
        staging_bytes: u64,
        /// Where they go from there: never a mapping.
        io: Io,
        /// How a segment's space is allocated.
        prealloc: Prealloc,
    },
    /// Timed flush.
    FlushRealtime {
        /// Between two looks (`flushIntervalCommitLog`).
        interval: Duration,
        /// Pages that must have been written before it flushes (`flushCommitLogLeastPages`).
        least_pages: u64,
        /// After which it flushes whatever there is (`flushCommitLogThoroughInterval`).
        thorough: Duration,
        /// Whether it sleeps its interval out, or an append wakes it (`flushCommitLogTimed`).
        timed: bool,
        /// How appends reach the page cache.
        io: Io,
        /// How a segment's space is allocated.
        prealloc: Prealloc,
    },
    /// Synchronous group commit.
    GroupCommit {
        /// How long a producer waits for its flush (`syncFlushTimeout`).
        timeout: Duration,
        /// How long a flush waits for others to join (PostgreSQL's `commit_delay`).
        gather: Duration,
        /// Waiters that must be there for that wait (PostgreSQL's `commit_siblings`).
        siblings: u64,
        /// Whether a producer that waits alone runs the flush itself.
        lead: bool,
        /// How appends reach the page cache.
        io: Io,
        /// How a segment's space is allocated.
        prealloc: Prealloc,
    },
    /// Nothing is ever flushed.
    None {
        /// How appends reach the page cache; a profile cannot set it.
        io: Io,
    },
}

impl Settings {
    /// The kind, as results name it.
    pub fn kind(&self) -> Kind {
        match self {
            Self::CommitRealtime { .. } => Kind::CommitRealtime,
            Self::FlushRealtime { .. } => Kind::FlushRealtime,
            Self::GroupCommit { .. } => Kind::GroupCommit,
            Self::None { .. } => Kind::None,
        }
    }
}

/// How appends reach the file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Io {
    /// Stores into a shared mapping, made durable by `msync`.
    Mapped,
    /// `pwrite`, made durable by `fdatasync`.
    Positioned,
    /// Whole blocks past the page cache (`O_DIRECT`), durable when the call returns (`RWF_DSYNC`).
    Direct,
}

/// How a segment's space is allocated before it takes appends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Prealloc {
    /// Not at all: blocks come with the writes, and a full disk fails one of those.
    None,
    /// `fallocate`: at once, but the first write to each block changes metadata too.
    Fallocate,
    /// Writing zeros: slower, and later writes change data only.
    Zero,
}
