//! What a place must be able to do in which the power is cut while a log runs.

use anyhow::Result;
use store_core::Nanos;
use store_os::{CommitEvent, FlushEvent};

use super::plan::CasePlan;
use super::results::{Keep, Place};
use crate::exposure::{AckSample, Between};

/// A place where the power can be cut: a block device in user space, or a simulation.
///
/// Calls come in this order: [`start`](Self::start); [`run_until`](Self::run_until) and
/// [`cut`](Self::cut), again and again; [`stop`](Self::stop); [`look`](Self::look) at each cut;
/// [`finish`](Self::finish). Then the next log may start.
pub trait Lab {
    /// What it is.
    fn place(&self) -> Place;

    /// Makes a fresh disk and puts a log under load on it.
    ///
    /// # Errors
    ///
    /// If something that it needs is missing or fails; nothing is left behind then.
    fn start(&mut self, case: &CasePlan, seed: u64) -> Result<()>;

    /// The time that the load lives in.
    fn now(&self) -> Nanos;

    /// Lets the load go on until `at`, or until the run is interrupted.
    ///
    /// # Errors
    ///
    /// If the load failed.
    fn run_until(&mut self, at: Nanos) -> Result<()>;

    /// Reads the log's flushed mark, then cuts; what was acknowledged by the cut counts as at risk,
    /// and nothing that was acknowledged after it. The load goes on.
    /// `seed` decides what survives where not nothing does.
    ///
    /// # Errors
    ///
    /// If the device does not answer.
    fn cut(&mut self, seed: u64) -> Result<()>;

    /// Ends the load, whatever state it is in, and gives what was seen of it. The disk, and what
    /// the cuts left, stay.
    ///
    /// # Errors
    ///
    /// If the load had failed, or the log does not close.
    fn stop(&mut self) -> Result<Watched>;

    /// Looks at what the cut number `cut` of this log, from 0, left: each state mounted, opened,
    /// checked, dropped.
    ///
    /// # Errors
    ///
    /// If it cannot be looked at for another reason than what the cut left.
    fn look(&mut self, cut: usize) -> Result<Looked>;

    /// Takes the disk away, whatever failed before.
    ///
    /// # Errors
    ///
    /// If something is left behind.
    fn finish(&mut self) -> Result<()>;
}

/// What was read right before a cut, and what the cut left.
#[derive(Clone, Debug, PartialEq)]
pub struct Looked {
    /// The moment.
    pub moment: Moment,
    /// The states, the worst first.
    pub states: Vec<(Keep, Look)>,
}

/// The moment of a cut.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moment {
    /// When.
    pub at: Nanos,
    /// The log's flushed mark, read first.
    pub flushed: u64,
    /// Messages acknowledged by then.
    pub acked: u64,
    /// Those of them that end behind the mark.
    pub at_risk: u64,
}

/// What a look at a state found.
#[derive(Clone, Debug, PartialEq)]
pub enum Look {
    /// The log was opened and read.
    Recovered {
        /// Messages acknowledged before the cut that are not there.
        lost: u64,
        /// Whether the log ended in a torn record.
        torn: bool,
        /// The promises that were broken, in words.
        violations: Vec<String>,
    },
    /// The log refused to open.
    Refused(String),
    /// The file system could not be mounted.
    Unmountable(String),
}

/// What was seen of a log from outside, on the clock of [`Lab::now`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Watched {
    /// Messages acknowledged, in samples, the first before anything was.
    pub acked: Vec<AckSample>,
    /// How they came between two samples.
    pub between: Between,
    /// Every sync that ended.
    pub flushes: Vec<FlushEvent>,
    /// Every move of staged bytes to the page cache that ended.
    pub commits: Vec<CommitEvent>,
    /// Bytes that the log grew by.
    pub log_bytes: u64,
    /// Messages placed in it.
    pub appended: u64,
}
