//! How a log is laid out and written, and who is told what it does.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use store_core::{
    AckAt, FlushStrategy, Lane, LogOffset, Nanos, PAGE_SIZE, Protection, SegmentSize, Wait,
};

use crate::error::OpenError;
use crate::faults::Injected;
use crate::files::{Files, Linux};
use crate::segment_scan::ScanProgress;

/// How appended bytes reach the page cache.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Io {
    /// Stores into a mapping of the segment: written is committed at once. For timed flushes.
    Mapped,
    /// Stores into a staging buffer, which `pwrite` brings to the page cache: for group commit
    /// before each sync, for staged commits at their interval, and otherwise in the append.
    Positioned,
    /// Stores into a staging buffer, whose blocks of 4 KiB go past the page cache to the device
    /// (`O_DIRECT`). Under group commit one call writes and syncs (`RWF_DSYNC`), on ext4 and xfs
    /// and where all before is flushed: the fastest way if every producer waits. Who does not
    /// ([`Wait::No`]) has its record written to the device by itself, behind the sync that is under
    /// way. The last block is written again with what comes behind. Reads go through the page
    /// cache.
    Direct,
}

/// How a segment's space is made sure of before it takes appends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Preallocate {
    /// Not at all: the file has its length and no blocks, as RocketMQ makes it. A full disk then
    /// fails a write, which poisons the log, instead of the making of a segment, and can keep a log
    /// from being opened whose torn tail is to be cut; never into a mapping.
    None,
    /// `fallocate`: blocks are reserved but not written. A sync must also turn them to written.
    Fallocate,
    /// `fallocate`, then zeroes for as long as they are ahead of appends: the disk is written
    /// twice, and a sync writes data alone. Appends that outrun the zeroes end them, and go on in
    /// what is reserved. Into a mapping, and where there is no `fallocate`, all zeroes come first.
    Zero,
}

/// Options of a log; [`Default`] is RocketMQ's layout.
///
/// Make one with `LogOptions { …, ..LogOptions::default() }`.
#[derive(Clone)]
pub struct LogOptions {
    /// Size of each segment (`mappedFileSizeCommitLog`); a log keeps the one it was made with, and
    /// has one ahead. Default 1 GiB, as RocketMQ has it.
    pub segment_size: SegmentSize,
    /// How appends reach the file. Default `None`: direct where the strategy stages, segments are
    /// whole blocks of 4 KiB, and the file system is ext4 or xfs and lets it
    /// ([`Log::can_write_directly`]); else positioned for such a strategy, for one that
    /// acknowledges what is flushed, and where nothing can be mapped ([`Log::can_map`]); else
    /// mapped. Group commit whose producers all wait is faster with `Direct`.
    ///
    /// [`Log::can_map`]: crate::Log::can_map
    /// [`Log::can_write_directly`]: crate::Log::can_write_directly
    pub io: Option<Io>,
    /// How segments are made ready. Default `Fallocate`; group commit syncs faster with `Zero`,
    /// which writes zeroes ahead of what is appended.
    pub preallocate: Preallocate,
    /// Whether a mapped segment's pages are faulted in before it takes appends, which makes all of
    /// them dirty. Default `false`: the first append to each page faults.
    pub prefault: bool,
    /// Size of the staging buffer without [`Io::Mapped`], in bytes. Full, it makes appends wait.
    /// Default 64 MiB.
    pub staging_bytes: u64,
    /// Longest body accepted, in bytes (`maxMessageSize`). Default 4 MiB.
    pub max_message_bytes: usize,
    /// What the checksums of appended records cover, and whether a CRC32 property is verified in
    /// reading. Default `Record`; `Body` is for brokers older than 5.2.0, and for a log in which
    /// messages carry CRC32 properties of elsewhere (`enabledAppendPropCRC`).
    pub protection: Protection,
    /// How long an append waits at most for a segment or for staging space. Default 5 s.
    pub append_timeout: Duration,
    /// How long closing or dropping a log waits at most for the disk. Default 5 min, as RocketMQ
    /// has it.
    pub close_timeout: Duration,
    /// Told of every commit and flush, and, while the log is opened, how far it was read
    /// ([`Observer::on_recovery`]); must be quick, it is called by the lanes and by who
    /// leads a sync ([`Log::append_and_lead`](crate::Log::append_and_lead)).
    pub observer: Option<Arc<dyn Observer>>,
    #[doc(hidden)]
    pub faults: Hidden,
    #[doc(hidden)]
    pub platform: Platform,
}

/// Faults for tests; nothing else can make one that does anything.
#[doc(hidden)]
#[derive(Clone, Debug, Default)]
pub struct Hidden(pub(crate) Injected);

/// The files and clocks that a log stands on: Linux's, unless they are simulated.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct Platform(pub(crate) Arc<dyn Files>);

impl Platform {
    /// Files and clocks of another kind.
    pub fn new(files: Arc<dyn Files>) -> Self {
        Self(files)
    }

    /// What it stands on, to be wrapped.
    pub fn files(&self) -> Arc<dyn Files> {
        Arc::clone(&self.0)
    }
}

impl Default for Platform {
    fn default() -> Self {
        Self(Arc::new(Linux))
    }
}

#[cfg(feature = "_faults")]
impl Hidden {
    /// Faults that `faults` decides on.
    pub fn new(faults: Arc<dyn crate::Faults>) -> Self {
        Self(Injected { faults: Some(faults) })
    }
}

impl Default for LogOptions {
    fn default() -> Self {
        Self {
            segment_size: SegmentSize::ROCKETMQ_DEFAULT,
            io: None,
            preallocate: Preallocate::Fallocate,
            prefault: false,
            staging_bytes: 64 << 20,
            max_message_bytes: 4 << 20,
            protection: Protection::Record,
            append_timeout: Duration::from_secs(5),
            close_timeout: Duration::from_mins(5),
            observer: None,
            faults: Hidden::default(),
            platform: Platform::default(),
        }
    }
}

impl LogOptions {
    /// The files and clocks that the log stands on.
    pub(crate) fn files(&self) -> &dyn Files {
        &*self.platform.0
    }

    /// The longest record that these options let in, in bytes (`maxMessageSize` + 64 KiB).
    pub(crate) fn max_record_len(&self) -> u64 {
        let beside_body = 64 << 10;
        let by_message = store_core::length_u64(self.max_message_bytes).saturating_add(beside_body);
        by_message.min(u64::from(self.segment_size.max_record_len()))
    }

    /// How appends reach the file, once the log is being opened.
    pub(crate) fn io(&self) -> Io {
        self.io.expect("chosen by `resolve`")
    }

    /// Chooses `io` where the caller did not, and checks what the types cannot.
    pub(crate) fn resolve(
        &mut self,
        strategy: &dyn FlushStrategy,
        possible: Possible,
    ) -> Result<(), OpenError> {
        let refuse = |reason: &str| Err(OpenError::Options { reason: reason.to_owned() });
        let Possible { mapped: can_map, direct: can_write_directly } = possible;
        let acks_flushed = strategy.ack(Wait::Yes) == AckAt::Flushed;
        let stages = strategy.uses(Lane::Commit);
        let has_blocks = self.segment_size.bytes().is_multiple_of(PAGE_SIZE);
        let chosen = match () {
            // Where blocks are copied on write the page cache gathers them to larger ones.
            () if stages && can_write_directly && has_blocks && can_map => Io::Direct,
            () if acks_flushed || stages || !can_map => Io::Positioned,
            () => Io::Mapped,
        };
        let io = *self.io.get_or_insert(chosen);
        if io == Io::Mapped && stages {
            return refuse(
                "a strategy with a commit lane needs Io::Positioned or Io::Direct: mapped bytes \
                 are committed at once",
            );
        }
        if io == Io::Mapped && !can_map {
            return refuse(
                "a store into a mapping can die for want of space on a file system that copies on \
                 write; use Io::Positioned",
            );
        }
        if io == Io::Mapped && self.preallocate == Preallocate::None {
            return refuse(
                "a store into a mapping can die for want of space that was not reserved; use \
                 Preallocate::Fallocate, or another Io",
            );
        }
        if io == Io::Direct && !acks_flushed && !stages {
            return refuse(
                "a strategy that acknowledges what the page cache has would write each record to \
                 the device with Io::Direct; use Io::Mapped or Io::Positioned",
            );
        }
        if io == Io::Direct && !can_write_directly {
            return refuse(
                "the file system does not take writes of 4 KiB past the page cache (O_DIRECT), or \
                 has no space to try one; use Io::Positioned",
            );
        }
        if io == Io::Direct && !has_blocks {
            return refuse(
                "Io::Direct writes blocks of 4096 bytes, of which a segment has no whole number; \
                 use Io::Positioned",
            );
        }
        // A roll takes a blank that is shorter than the record behind it, and the record.
        let needed = 2 * self.max_record_len() + 8;
        if io != Io::Mapped && self.staging_bytes < needed {
            return Err(OpenError::Options {
                reason: format!(
                    "staging_bytes is {}, but a message of max_message_bytes {} needs {needed}",
                    self.staging_bytes, self.max_message_bytes
                ),
            });
        }
        Ok(())
    }

    /// `append_timeout` for arithmetic with the monotonic clock.
    pub(crate) fn append_limit(&self) -> Nanos {
        Nanos::new(u64::try_from(self.append_timeout.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl fmt::Debug for LogOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogOptions")
            .field("segment_size", &self.segment_size)
            .field("io", &self.io)
            .field("preallocate", &self.preallocate)
            .field("prefault", &self.prefault)
            .field("staging_bytes", &self.staging_bytes)
            .field("max_message_bytes", &self.max_message_bytes)
            .field("protection", &self.protection)
            .field("append_timeout", &self.append_timeout)
            .field("close_timeout", &self.close_timeout)
            .finish_non_exhaustive()
    }
}

/// What the file system lets a log do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Possible {
    /// [`Log::can_map`](crate::Log::can_map).
    pub(crate) mapped: bool,
    /// [`Log::can_write_directly`](crate::Log::can_write_directly).
    pub(crate) direct: bool,
}

/// Told what the lanes do, as it ends, and how opening goes on. Each method does nothing unless it
/// is written.
pub trait Observer: Send + Sync {
    /// Staged bytes reached the page cache, or with [`Io::Direct`] the device.
    fn on_commit(&self, _event: &CommitEvent) {}
    /// Bytes became durable.
    fn on_flush(&self, _event: &FlushEvent) {}
    /// Opening reads the log: called every few MiB, from several threads. `Break` ends it with
    /// [`OpenError::Interrupted`]; whole segments that were proven by then need not be read again,
    /// and the next open counts from 0, with a smaller total.
    fn on_recovery(&self, _progress: &ScanProgress) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// One move of staged bytes to the page cache, or with [`Io::Direct`] to the device.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CommitEvent {
    /// When it began, on [`monotonic`](crate::monotonic)'s clock.
    pub started: Nanos,
    /// When the bytes were there, right before `committed` moved and anyone was told.
    pub ended: Nanos,
    /// Where `committed` was.
    pub from: LogOffset,
    /// Where `committed` is now.
    pub upto: LogOffset,
    /// Records appended since opening that end at or before `upto`.
    pub records: u64,
}

/// One sync.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FlushEvent {
    /// When the first sync call began, on [`monotonic`](crate::monotonic)'s clock.
    pub started: Nanos,
    /// When the last sync call had returned, right before `flushed` moved and anyone was told.
    pub ended: Nanos,
    /// Where `flushed` was.
    pub from: LogOffset,
    /// Where `flushed` is now.
    pub upto: LogOffset,
    /// Records appended since opening that end at or before `upto`.
    pub records: u64,
    /// Sync calls made: one for each segment that the range touches.
    pub syncs: u32,
}
