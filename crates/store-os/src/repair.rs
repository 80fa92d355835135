//! Repairing a store: a plan of what is lost and what bridges it, and its application.
//!
//! Offsets must stay, because PHYSICALOFFSET, message ids and consume queues name them. So what
//! follows a lost range stays where it is, and the range is filled with records that no queue and
//! no index takes. Nothing is ever unlinked.

mod apply;
mod fill;
mod plan;

use std::fmt;
use std::path::{Path, PathBuf};

use store_core::{LogOffset, Protection, TimestampMs};

use crate::error::Error;
use crate::survey::{Gap, Listing, Survey, SurveyError, SurveyOptions};

/// The topic of the records that fill a lost range; a range too short for it has its first bytes.
///
/// They are rollback records (SYSFLAG 0xC), which neither RocketMQ nor this log gives to a queue.
pub const LOST_TOPIC: &str = "FLUSHMARK_LOST";

/// What a repair would do to a store and what is lost; nothing of it is done yet.
#[derive(Debug)]
pub struct RepairPlan {
    /// What was found.
    pub survey: Survey,
    /// What to do, in this order. A caller may leave out the last ones.
    pub steps: Vec<RepairStep>,
    /// What is lost, in log order.
    pub lost: Vec<LostRange>,
    /// Records that the survey counts as valid and that are lost all the same: they follow so
    /// closely on a bad place that it cannot be filled without them, or turned out to be images of
    /// records in the body of a bad one.
    pub records_overwritten: u64,
    listing: Listing,
    protection: Protection,
    gaps: Vec<Gap>,
}

/// One change to a store's files.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum RepairStep {
    /// A missing segment becomes one that is a single blank.
    Insert {
        /// The file.
        path: PathBuf,
        /// Its first byte in the log.
        start: LogOffset,
    },
    /// A segment is replaced by a copy of the right length with other bytes in some ranges.
    Replace {
        /// The file.
        path: PathBuf,
        /// Its first byte in the log.
        start: LogOffset,
        /// The ranges, in order.
        fills: Vec<Fill>,
    },
    /// A file that holds no record of the log is moved out of the way.
    SetAside {
        /// The file.
        path: PathBuf,
    },
}

impl fmt::Display for RepairStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Insert { path, .. } => write!(f, "make {}, one blank", path.display()),
            Self::Replace { path, fills, .. } => {
                write!(f, "rewrite {}", path.display())?;
                fills.iter().try_for_each(|fill| write!(f, ", {fill}"))
            }
            Self::SetAside { path } => write!(f, "set {} aside", path.display()),
        }
    }
}

/// A range of a segment that gets other bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Fill {
    /// Its first byte.
    pub from: LogOffset,
    /// The offset behind its last byte.
    pub to: LogOffset,
    /// What it gets.
    pub with: FillWith,
}

impl fmt::Display for Fill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.with {
            FillWith::Blank => "a blank",
            FillWith::Fillers { .. } => "filler records",
            FillWith::Zeroes => "zeroes",
        };
        write!(f, "{what} from {} to {}", self.from, self.to)
    }
}

/// What a lost range gets.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum FillWith {
    /// A blank, behind which the segment holds nothing.
    Blank,
    /// Records of [`LOST_TOPIC`] that take exactly the range.
    Fillers {
        /// Their store time: that of the record before them.
        store_timestamp: TimestampMs,
    },
    /// Zeroes: the log ends before them.
    Zeroes,
}

/// Bytes of the log that hold no record any more.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LostRange {
    /// The segment's file.
    pub path: PathBuf,
    /// Where it begins.
    pub from: LogOffset,
    /// Where it ends.
    pub to: LogOffset,
    /// What was found there.
    pub found: String,
}

/// What a repair did.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct RepairReport {
    /// What is lost, in log order.
    pub lost: Vec<LostRange>,
    /// Each file that was set aside, and where it is now.
    pub set_aside: Vec<(PathBuf, PathBuf)>,
    /// Segments that were written.
    pub written: Vec<PathBuf>,
}

/// Why a repair was not done, or not to its end.
///
/// What was done until then is safe: each segment is the old one or the new one, and a new plan
/// takes it up from there.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum RepairError {
    /// The store was changed after the plan was made: plan again.
    Changed {
        /// What is not as it was.
        path: PathBuf,
    },
    /// More segments are missing than anybody can have lost: one of the two sides is foreign. Move
    /// it out of the way.
    GapTooWide {
        /// The last segment before the gap ends there.
        from: LogOffset,
        /// The next one begins there.
        to: LogOffset,
    },
    /// A segment is a symbolic link, whose file may be sound: put the file itself there.
    Link {
        /// The link.
        path: PathBuf,
    },
    /// Somebody owns the store: stop it, or repair to a copy.
    Locked {
        /// The lock file.
        path: PathBuf,
    },
    /// The segments belong to no store whose lock could be taken: repair to a copy.
    NotAStore {
        /// The directory.
        path: PathBuf,
    },
    /// The system refused.
    System(Error),
    /// What stands where set-aside files go is no directory: move it out of the way.
    SetAside {
        /// The file.
        path: PathBuf,
    },
    /// Nothing can be written to the target.
    Target {
        /// The directory.
        path: PathBuf,
        /// Why not.
        reason: BadTarget,
    },
    /// A segment that was just written does not read back as it should; it was not put in place.
    Unsound {
        /// The file.
        path: PathBuf,
        /// Where it is wrong.
        at: LogOffset,
    },
}

impl fmt::Display for RepairError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Changed { path } => {
                write!(f, "{} changed since the survey; survey again", path.display())
            }
            Self::GapTooWide { from, to } => write!(
                f,
                "no segment is there from log offset {from} to {to}, too many to be lost: move \
                 what does not belong to this log out of the way"
            ),
            Self::Link { path } => write!(
                f,
                "{} is a symbolic link, which is not followed: put the file itself there",
                path.display()
            ),
            Self::Locked { path } => write!(
                f,
                "{} is locked: stop whoever uses this store, or repair to a copy",
                path.display()
            ),
            Self::NotAStore { path } => write!(
                f,
                "{} is a directory of segments without a store around it, so nothing keeps others \
                 out: repair to a copy",
                path.display()
            ),
            Self::System(error) => error.fmt(f),
            Self::SetAside { path } => write!(
                f,
                "{} is no directory, but set-aside files go there: move it out of the way",
                path.display()
            ),
            Self::Target { path, reason } => {
                write!(f, "{} {reason}; name another", path.display())
            }
            Self::Unsound { path, at } => write!(
                f,
                "{} was written but does not read back at log offset {at}; it was not used",
                path.display()
            ),
        }
    }
}

impl std::error::Error for RepairError {}

/// Why a directory cannot take the copy of a store.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum BadTarget {
    /// It lies in the store that is copied, or is that.
    InTheStore,
    /// It is a file.
    NotADirectory,
    /// Something is in it.
    NotEmpty,
}

impl fmt::Display for BadTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InTheStore => "lies in the store",
            Self::NotADirectory => "is no directory",
            Self::NotEmpty => "is not empty",
        })
    }
}

impl From<Error> for RepairError {
    fn from(error: Error) -> Self {
        Self::System(error)
    }
}

/// Surveys a store and plans what would make it sound. Reads only.
///
/// A store that is sound gets a plan without steps. The survey is in the plan. A log that is opened
/// with a [`LogOptions::protection`](crate::LogOptions::protection) other than the default is to be
/// surveyed and repaired with the same.
///
/// # Examples
///
/// ```no_run
/// # use group_commit::GroupCommit;
/// # use store_os::{Log, LogOptions, OpenError, SurveyOptions, plan_repair};
/// # let root = std::path::Path::new("/var/lib/log");
/// let log = match Log::open(root, LogOptions::default(), GroupCommit::default()) {
///     Err(OpenError::Damage(damage)) => {
///         let plan = plan_repair(root, &SurveyOptions::default())?;
///         for lost in &plan.lost {
///             eprintln!("{}: {} to {} is lost", lost.path.display(), lost.from, lost.to);
///         }
///         plan.apply_in_place()?;
///         Log::open(root, LogOptions::default(), GroupCommit::default())?
///     }
///     opened => opened?,
/// };
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// As [`survey`](crate::survey).
pub fn plan_repair(root: &Path, options: &SurveyOptions<'_>) -> Result<RepairPlan, SurveyError> {
    plan::plan(root, options)
}

impl RepairPlan {
    /// Does the steps to the store itself, whose lock is held meanwhile.
    ///
    /// The original of each segment that is replaced stays, byte for byte, in the directory
    /// `commitlog/set-aside`, where files that hold nothing of the log go as well. At each moment
    /// either the old or the new segment is there. Consume queues and index are left as they are.
    ///
    /// # Errors
    ///
    /// If somebody owns the store, it was changed since it was surveyed, or the system refuses.
    pub fn apply_in_place(&self) -> Result<RepairReport, RepairError> {
        apply::in_place(self)
    }

    /// Writes the repaired log to a store of its own at `to`: segments only, no consume queues and
    /// no index, which RocketMQ makes again from the log. The source is left as it is.
    ///
    /// # Errors
    ///
    /// If `to` exists and is no empty directory, or lies in the store, or the system refuses; what
    /// was written until then stays.
    pub fn copy_to(&self, to: &Path) -> Result<RepairReport, RepairError> {
        apply::copy_to(self, to)
    }
}
