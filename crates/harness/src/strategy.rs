//! The strategies by name: from a profile's settings to an open log.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use commit_realtime::CommitRealtime;
use flush_realtime::FlushRealtime;
use group_commit::GroupCommit;
use store_core::{
    AckAt, Action, Event, FlushStrategy, Lane, Nanos, Observed, PAGE_SIZE, SegmentSize, Wait,
};
use store_os::{Io, Log, LogOptions, Observer, OpenError, Preallocate};

use crate::clock::nanos;
use crate::profile::{self, Settings};
use crate::results::{AckPromise, Check, Level};

/// The baseline: acknowledges what the page cache has, and never flushes.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFlush;

impl FlushStrategy for NoFlush {
    fn ack(&self, _wait: Wait) -> AckAt {
        AckAt::Committed
    }

    fn wakes(&self, _lane: Lane, _event: Event) -> bool {
        false
    }

    fn timeout(&self) -> Option<Nanos> {
        None
    }

    fn uses(&self, _lane: Lane) -> bool {
        false
    }

    fn poll(&mut self, _lane: Lane, _now: Nanos, seen: &Observed) -> Action {
        if seen.draining { Action::Done } else { Action::Idle }
    }

    fn on_done(&mut self, _lane: Lane, _now: Nanos, _seen: &Observed) {}
}

/// Opens a log in `root` under the strategy that `settings` name.
///
/// # Errors
///
/// If the log cannot be opened, or the strategy refuses its settings.
pub fn open(
    root: &Path,
    settings: &Settings,
    segment_bytes: u64,
    observer: Arc<dyn Observer>,
) -> Result<Log> {
    let options = LogOptions { observer: Some(observer), ..LogOptions::default() };
    open_by(&Threads, root, settings, segment_bytes, options)
}

/// How a log is opened, once its strategy is made.
pub(crate) trait Opener {
    /// What is then there.
    type Opened;

    /// Opens it in `root`.
    fn open(
        &self,
        root: &Path,
        options: LogOptions,
        strategy: impl FlushStrategy + Send + 'static,
    ) -> Result<Self::Opened, OpenError>;
}

/// With threads of its own.
struct Threads;

impl Opener for Threads {
    type Opened = Log;

    fn open(
        &self,
        root: &Path,
        options: LogOptions,
        strategy: impl FlushStrategy + Send + 'static,
    ) -> Result<Log, OpenError> {
        Log::open(root, options, strategy)
    }
}

/// [`open`], as `opener` does it; of `options` those that the settings do not give.
pub(crate) fn open_by<O: Opener>(
    opener: &O,
    root: &Path,
    settings: &Settings,
    segment_bytes: u64,
    options: LogOptions,
) -> Result<O::Opened> {
    let options = LogOptions {
        segment_size: SegmentSize::new(segment_bytes)?,
        // As long as a segment allows: the profile has checked that its messages fit.
        max_message_bytes: usize::try_from(segment_bytes.min(4 << 20))?,
        ..options
    };
    let log = match settings {
        Settings::None { io } => {
            opener.open(root, with(options, *io, profile::Prealloc::Fallocate), NoFlush)
        }
        Settings::GroupCommit { timeout, gather, siblings, io, prealloc, .. } => {
            let config = group_commit::Config {
                timeout: nanos(*timeout),
                gather: nanos(*gather),
                siblings: *siblings,
            };
            let options = with(options, *io, *prealloc);
            opener.open(root, options, GroupCommit::new(config).context("group_commit")?)
        }
        Settings::FlushRealtime { interval, least_pages, thorough, timed, io, prealloc } => {
            let config = flush_config(*interval, *least_pages, *thorough, *timed);
            let options = with(options, *io, *prealloc);
            opener.open(root, options, FlushRealtime::new(config).context("flush_realtime")?)
        }
        Settings::CommitRealtime {
            commit,
            commit_least_pages,
            commit_thorough,
            interval,
            least_pages,
            thorough,
            staging_bytes,
            io,
            prealloc,
        } => {
            let config = commit_realtime::Config {
                commit_interval: nanos(*commit),
                commit_least_pages: *commit_least_pages,
                commit_thorough_interval: nanos(*commit_thorough),
                flush: flush_config(*interval, *least_pages, *thorough, true),
                ..commit_realtime::Config::default()
            };
            let options =
                LogOptions { staging_bytes: *staging_bytes, ..with(options, *io, *prealloc) };
            opener.open(root, options, CommitRealtime::new(config).context("commit_realtime")?)
        }
    };
    Ok(log?)
}

fn with(options: LogOptions, io: profile::Io, prealloc: profile::Prealloc) -> LogOptions {
    LogOptions {
        io: Some(match io {
            profile::Io::Mapped => Io::Mapped,
            profile::Io::Positioned => Io::Positioned,
            profile::Io::Direct => Io::Direct,
        }),
        prefault: true,
        preallocate: match prealloc {
            profile::Prealloc::None => Preallocate::None,
            profile::Prealloc::Fallocate => Preallocate::Fallocate,
            profile::Prealloc::Zero => Preallocate::Zero,
        },
        ..options
    }
}

fn flush_config(
    interval: Duration,
    least_pages: u64,
    thorough: Duration,
    timed: bool,
) -> flush_realtime::Config {
    flush_realtime::Config {
        interval: nanos(interval),
        least_pages,
        thorough_interval: nanos(thorough),
        timed,
        wake_on_append: !timed,
    }
}

/// The settings that can be used in `directory`: a mapping or writes past the page cache where the
/// file system allows them, else positioned writes. Also what to say about that, if anything.
///
/// # Errors
///
/// If the file system cannot be asked.
pub fn usable(
    settings: &Settings,
    segment_bytes: u64,
    directory: &Path,
) -> Result<(Settings, Option<Check>)> {
    let mut usable = *settings;
    let io = match &mut usable {
        Settings::FlushRealtime { io, .. }
        | Settings::GroupCommit { io, .. }
        | Settings::CommitRealtime { io, .. }
        | Settings::None { io } => io,
    };
    let (is_possible, instead_of, rule) = match *io {
        profile::Io::Positioned => return Ok((usable, None)),
        profile::Io::Mapped => (
            Log::can_map(directory)?,
            "mapped",
            "a mapping is possible: the file system does not copy on write",
        ),
        profile::Io::Direct => (
            segment_bytes.is_multiple_of(PAGE_SIZE) && Log::can_write_directly(directory),
            "direct",
            "whole blocks can be written past the page cache: the file system takes O_DIRECT, and \
             segments are whole blocks",
        ),
    };
    if is_possible {
        return Ok((usable, None));
    }
    *io = profile::Io::Positioned;
    let check = Check {
        code: "io".to_owned(),
        level: Level::Label,
        value: format!("positioned instead of {instead_of}"),
        rule: rule.to_owned(),
    };
    Ok((usable, Some(check)))
}

/// What an acknowledgement promises under the settings.
pub fn promise(settings: &Settings) -> AckPromise {
    match settings {
        Settings::CommitRealtime { .. } => AckPromise::Wrote,
        Settings::FlushRealtime { .. } | Settings::None { .. } => AckPromise::Committed,
        Settings::GroupCommit { .. } => AckPromise::Flushed,
    }
}

/// The flush interval asked for, if the strategy has one.
pub fn interval(settings: &Settings) -> Option<Duration> {
    match settings {
        Settings::CommitRealtime { interval, .. } | Settings::FlushRealtime { interval, .. } => {
            Some(*interval)
        }
        Settings::GroupCommit { .. } | Settings::None { .. } => None,
    }
}

/// Whether appended bytes go past the page cache.
pub fn is_direct(settings: &Settings) -> bool {
    match settings {
        Settings::CommitRealtime { io, .. }
        | Settings::FlushRealtime { io, .. }
        | Settings::GroupCommit { io, .. }
        | Settings::None { io } => *io == profile::Io::Direct,
    }
}

/// Whether segments are written with zeroes before they are used.
pub fn is_zeroed(settings: &Settings) -> bool {
    match settings {
        Settings::CommitRealtime { prealloc, .. }
        | Settings::FlushRealtime { prealloc, .. }
        | Settings::GroupCommit { prealloc, .. } => *prealloc == profile::Prealloc::Zero,
        Settings::None { .. } => false,
    }
}

/// Whether appended bytes are staged in process memory, so that a crash of the process takes them.
pub fn is_staged(settings: &Settings) -> bool {
    match settings {
        Settings::CommitRealtime { .. } => true,
        Settings::FlushRealtime { io, .. }
        | Settings::GroupCommit { io, .. }
        | Settings::None { io } => *io != profile::Io::Mapped,
    }
}
