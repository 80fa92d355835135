//! The acting half of a commit log in Apache RocketMQ's on-disk format, for Linux.
//!
//! [`Log`] owns a store directory: it places records, brings them to the page cache and to the
//! device when its flush strategy says so, tells producers what the strategy promises, and reads
//! records back. Which strategies exist it does not know: [`Log::open`] takes any
//! [`FlushStrategy`](store_core::FlushStrategy).
//!
//! What it promises (`docs/DURABILITY.md` has the reasons):
//!
//! - `flushed` moves only after a sync call that covered the bytes returned success.
//! - The first failed write or sync poisons the log: every waiter fails, every later append is
//!   refused with that first error, and nothing is tried again. Reopening runs recovery.
//! - Space is allocated before a segment takes appends, so a full disk is an error value.
//! - No sync runs under the append lock.
#![deny(unsafe_code)]
#![cfg(target_os = "linux")]

mod allocator;
mod append;
mod blocks;
mod clock;
mod closing;
mod crew;
mod cursor;
mod directory;
mod driver;
mod error;
mod faults;
mod files;
mod filling;
mod flush;
mod hole;
mod keeper;
mod listing;
mod log;
mod map;
mod mapped_file;
mod options;
mod page_cache;
mod progress;
mod reader;
mod recovery;
mod recovery_point;
mod repair;
mod segment;
mod segment_scan;
mod set_aside;
mod shared;
mod signal;
mod stepped;
mod survey;
mod sync;
mod ticket;
mod turn;
mod walk;

pub use append::{Appended, Queue};
pub use clock::monotonic;
pub use cursor::Cursor;
pub use error::{
    AckError, AppendError, CloseError, Damage, Error, Op, OpenError, Poison, ReadError,
};
#[doc(hidden)]
pub use faults::{Call, Faults};
#[doc(hidden)]
pub use files::{Entry, Files, Held, Kind, LogFile};
pub use log::{AppendedBatch, Log};
#[doc(hidden)]
pub use mapped_file::MappedFile;
pub use options::{CommitEvent, FlushEvent, Io, LogOptions, Observer, Preallocate};
#[doc(hidden)]
pub use options::{Hidden, Platform};
pub use page_cache::PageCache;
pub use reader::StoreReader;
pub use recovery::Recovery;
#[cfg(feature = "_faults")]
#[doc(hidden)]
pub use recovery_point::fuzz_recovery_point;
pub use repair::{
    BadTarget, Fill, FillWith, LOST_TOPIC, LostRange, RepairError, RepairPlan, RepairReport,
    RepairStep, plan_repair,
};
pub use segment_scan::{ClockStep, ScanProgress};
#[doc(hidden)]
pub use stepped::{Step, SteppedLog};
pub use survey::{
    Fault, FaultKind, Health, QueueSurvey, SegmentSurvey, Survey, SurveyError, SurveyOptions,
    TopicSurvey, survey,
};
pub use ticket::Ticket;
