//! What power cuts leave behind: `powercut.json`, one for the run, and `cuts.jsonl`, a line per
//! cut.
//!
//! As in [`crate::results`], field names carry the unit, `null` is never the same as 0, and readers
//! refuse another major version.

use serde::{Deserialize, Serialize};

use crate::results::{AckPromise, Exposure, Kind, Origin, Outcome, Spread};

/// The schema of [`PowerCuts`].
pub const SCHEMA: &str = "flushmark.powercut/1.0";
/// The schema of [`Cut`].
pub const CUT_SCHEMA: &str = "flushmark.cut/1.0";

/// A run of power cuts: `powercut.json`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct PowerCuts {
    /// [`SCHEMA`].
    pub schema: String,
    /// The run's directory name.
    pub run: String,
    /// Who made it.
    #[serde(flatten)]
    pub origin: Origin,
    /// Seeds the messages, the moments of the cuts and what each keeps.
    pub seed: u64,
    /// Where the power was cut.
    pub place: Place,
    /// Cuts planned for each case.
    pub cuts_planned: u32,
    /// Cases planned.
    pub cases_planned: u32,
    /// Milliseconds since 1970 UTC.
    pub started_at_ms: u64,
    /// Milliseconds since 1970 UTC; `null` while running.
    pub ended_at_ms: Option<u64>,
    /// How the run ended.
    pub outcome: Outcome,
    /// The cases, those under way included.
    pub cases: Vec<Case>,
}

/// Where the power was cut; never a real disk.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Place {
    /// What stands in for a disk.
    pub kind: PlaceKind,
    /// Why it is simulated though that was not asked for; `null` if it was, or is not.
    pub fallback: Option<String>,
    /// The file system on it, with its options; `null` where none is.
    pub file_system: Option<String>,
    /// How the disk behaves, in words.
    pub disk: String,
}

/// What stands in for a disk.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PlaceKind {
    /// A block device in user space under a real file system of the kernel.
    Emulated,
    /// A file system and a disk in memory, under a virtual clock.
    Simulated,
}

/// One strategy with its settings under one load: an element of [`PowerCuts::cases`].
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Case {
    /// Its name: the strategy, and its interval if it has one.
    pub case: String,
    /// The strategy's name.
    pub strategy: String,
    /// What the strategy is.
    pub kind: Kind,
    /// What an acknowledgement promises.
    pub ack_at: AckPromise,
    /// The flush interval asked for.
    pub interval_ns: Option<u64>,
    /// How long a message may wait in the staging buffer, by the strategy's settings.
    pub commit_ns: Option<u64>,
    /// Producer threads.
    pub producers: u32,
    /// Messages per second offered over all producers; `null` where each waits for its
    /// acknowledgement before it sends again.
    pub rate_per_s: Option<u64>,
    /// Bytes of a message's body.
    pub message_bytes: u64,
    /// Bytes of a record in the log, on average.
    pub record_bytes: u64,
    /// Messages acknowledged while the case's logs were under load.
    pub acked: u64,
    /// The windows in which cuts could fall, one for each cut, in all.
    pub measured_ns: u64,
    /// How long the case's logs were under load, in all.
    pub ran_ns: u64,
    /// What the strategy promises to lose at most.
    pub bound: Bound,
    /// What a power cut would have taken at each moment of the windows, by the log's own marks.
    pub gauge: Exposure,
    /// [`Self::gauge`] whole, for drawing: messages at risk at ends of equal shares of time.
    pub gauge_messages: Vec<f64>,
    /// What the cuts took and found.
    pub observed: Observed,
    /// How gauge and cuts agree.
    pub agreement: Agreement,
}

/// What a strategy promises to lose at most.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Bound {
    /// Age of the oldest message lost; 0 where an acknowledgement comes after its sync.
    pub age_ns: u64,
    /// The longest sync seen, two of which are in it.
    pub longest_sync_ns: u64,
    /// The longest move from the staging buffer to the page cache, two of which are in it.
    pub longest_commit_ns: u64,
    /// How late the flush lane came at most: the machine's doing, not in the bound.
    pub late_ns: u64,
    /// Whether the gauge stayed below bound and lateness.
    pub held: bool,
}

/// What the cuts of a case took and found.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Observed {
    /// Cuts made.
    pub cuts: u32,
    /// Cuts of which every state was mounted, opened and checked.
    pub checked: u32,
    /// States looked at; each cut leaves the worst one and a random one.
    pub states: u32,
    /// States in which the log ended in a torn record.
    pub torn_tails: u32,
    /// States whose file system could not be mounted.
    pub unmountable: u32,
    /// States whose log refused to open.
    pub refused_opens: u32,
    /// Checked cuts in which a promise was broken.
    pub violated: u32,
    /// At most this share of cuts breaks a promise, at 95 % (Clopper and Pearson, one-sided);
    /// `null` without a checked cut.
    pub violated_at_most: Option<f64>,
    /// The first violations, in words.
    pub violations: Vec<String>,
    /// Acknowledged messages that the worst state of each cut lacked.
    pub lost_messages: Spread,
    /// All of these whole, for drawing: at ends of equal shares of the cuts.
    pub lost_quantiles: Vec<u64>,
    /// How long the oldest of them had been acknowledged.
    pub lost_age_ns: Spread,
    /// What the log's marks said at those very moments: an upper limit for each.
    pub at_risk_messages: Spread,
    /// States that lacked more than that.
    pub above_gauge: u32,
}

impl Observed {
    /// Whether a promise was broken, or a cut could not be checked.
    pub fn is_bad(&self) -> bool {
        self.violated > 0 || self.above_gauge > 0 || self.checked < self.cuts
    }
}

/// How the gauge and the cuts agree.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct Agreement {
    /// Mean lost over mean at risk; `null` where nothing was at risk.
    pub mean_ratio: Option<f64>,
    /// The same of p99.
    pub p99_ratio: Option<f64>,
    /// Half of the 95 % interval of that ratio: what the number of cuts alone makes uncertain.
    pub mean_uncertain: Option<f64>,
    /// The 95 % interval of the p99 lost, likewise; few cuts give no upper end, none gives none.
    pub p99_interval: Option<(u64, Option<u64>)>,
    /// What that comes to.
    pub verdict: Verdict,
}

/// What comparing gauge and cuts comes to.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// A cut took more than the gauge said.
    AboveGauge,
    /// Mean and p99 are within 10 %, and no cut took more than the gauge said.
    Agrees,
    /// They are not, and it is not for want of cuts.
    Disagrees,
    /// Nothing was at risk at any moment, and nothing was lost.
    NothingAtRisk,
    /// They are not, but that many cuts may miss by so much.
    TooFewCuts,
}

/// One cut: a line of `cuts.jsonl`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Cut {
    /// [`CUT_SCHEMA`].
    pub schema: String,
    /// The case it belongs to.
    pub case: String,
    /// Its number within the case, from 0.
    pub cut: u32,
    /// The fresh log within the case in which it fell, from 0.
    pub round: u32,
    /// When, from the start of that log.
    pub at_ns: u64,
    /// When the window began in which it fell, likewise.
    pub window_ns: u64,
    /// The log's flushed mark right before: everything below it must be there.
    pub flushed: u64,
    /// Messages acknowledged by then; the mark was read before.
    pub acked: u64,
    /// Those of them at or behind the mark: no more can be lost.
    pub at_risk: u64,
    /// What was found, the worst state first.
    pub states: Vec<State>,
}

/// One state that a cut may have left.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct State {
    /// What of the disk's volatile cache survived.
    pub keep: Keep,
    /// What became of it.
    pub end: End,
    /// Acknowledged messages that it lacks; `null` if it could not be read.
    pub lost: Option<u64>,
    /// How long the oldest of them had been acknowledged.
    pub lost_age_ns: Option<u64>,
    /// Whether the log ended in a torn record; `null` if it could not be read.
    pub torn: Option<bool>,
    /// Why it could not be mounted or opened.
    pub error: Option<String>,
    /// The promises that were broken, in words.
    pub violations: Vec<String>,
}

/// What of the disk's volatile cache survives a cut.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Keep {
    /// Nothing: the worst case, which the gauge is about.
    Nothing,
    /// Any part of it, torn at sectors, in any order.
    Some,
}

/// What became of a state.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// The log was opened and read.
    Recovered,
    /// The log refused to open.
    Refused,
    /// The file system could not be mounted.
    Unmountable,
}
