//! What a simulated run did, in its order: changes of the disk, and what anyone was told.

use std::fmt;

use store_core::{AckAt, LogOffset, Nanos};
use store_os::Appended;

use crate::check::FoundRecord;
use crate::device::files::Change;
use crate::payload::Sent;

/// One thing that happened.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// When, on the virtual clock.
    pub at: Nanos,
    /// What.
    pub what: What,
}

/// What can happen.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// To the disk.
    Changed(Change),
    /// To the log and its producers.
    Told(Told),
}

/// What the log said, or was asked for.
#[derive(Clone, Debug, PartialEq)]
pub enum Told {
    /// A producer was told "ok", and what that meant.
    Acked(Sent, AckAt),
    /// A producer began to append a message.
    Claimed(Sent),
    /// The log was closed.
    Closed,
    /// The log's `flushed` moved.
    Flushed(LogOffset),
    /// The log was opened, and held this.
    Opened(Vec<FoundRecord>, LogOffset),
    /// A message has its place.
    Placed(Sent, Appended),
    /// A write or sync failed: nothing is promised any more.
    Poisoned,
    /// An append was refused.
    Refused(Sent),
    /// A fault came while the log was being opened, which may have kept its recovery point from
    /// being written.
    Unproven,
    /// A lane began to sync.
    SyncBegan,
    /// The sync ended.
    SyncEnded,
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.at.get() / 1000;
        write!(f, "{:>6}.{:03} ms  ", micros / 1000, micros % 1000)?;
        match &self.what {
            What::Changed(Change::Write { file, at, bytes }) => {
                let what = if bytes.iter().all(|byte| *byte == 0) { " zero" } else { "" };
                write!(f, "Write {{ file: {file:?}, at: {at}, {}{what} bytes }}", bytes.len())
            }
            What::Changed(change) => write!(f, "{change:?}"),
            What::Told(Told::Opened(found, end)) => {
                write!(f, "opened with {} records, end {end}", found.len())
            }
            What::Told(Told::Placed(sent, appended)) => {
                write!(f, "{sent} placed at {}, {} bytes", appended.offset, appended.len)
            }
            What::Told(told) => write!(f, "{told:?}"),
        }
    }
}
