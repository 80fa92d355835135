//! What a run leaves behind: one record per cell and repetition, and what describes the run.
//!
//! Field names carry the unit. `null` means "not known here" and is never the same as 0. The schema
//! is `name/major.minor`: readers ignore fields they do not know and refuse another major version.

mod derived;
mod environment;
mod manifest;

use serde::{Deserialize, Serialize};

pub use self::derived::NotHardware;
pub use self::environment::{DiskInfo, Environment, Names};
pub use self::manifest::{AppliedSysctls, BlockNoise, LeftOut, Manifest, Origin, Outcome};

/// The schema of [`Cell`].
pub const CELL_SCHEMA: &str = "flushmark.cell/1.1";
/// The schema of [`Manifest`].
pub const MANIFEST_SCHEMA: &str = "flushmark.manifest/1.1";
/// The schema of [`Environment`].
pub const ENV_SCHEMA: &str = "flushmark.env/1.1";

/// One cell, measured once: a line of `cells.jsonl`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Cell {
    /// [`CELL_SCHEMA`].
    pub schema: String,
    /// The run's directory name.
    pub run: String,
    /// `strategy/workload/producers`, the same in every block.
    pub cell: String,
    /// The block (repetition) it belongs to, from 0.
    pub block: u32,
    /// Its place within the block, from 0.
    pub position: u32,
    /// When measuring began, milliseconds since 1970 UTC.
    pub started_at_ms: u64,
    /// The disk's name.
    pub disk: String,
    /// The kernel settings' name.
    pub sysctl: String,
    /// The strategy's name in the profile.
    pub strategy: String,
    /// What the strategy is.
    pub kind: Kind,
    /// What an acknowledgement promises.
    pub ack_at: AckPromise,
    /// The workload's name.
    pub workload: String,
    /// Producer threads.
    pub producers: u32,
    /// Messages of one producer that may be without acknowledgement at a time; 1 before schema 1.1.
    #[serde(default = "one")]
    pub window: u32,
    /// Whether a reader of old bytes disturbed.
    #[serde(default)]
    pub reader: bool,
    /// How often an old file as large as a segment was deleted beside the log; `null` for never.
    #[serde(default)]
    pub deletes_every_ms: Option<u64>,
    /// Bytes of a message's body, of mixed sizes the mean.
    pub message_bytes: u64,
    /// Bytes of a record in the log, of mixed sizes the mean.
    pub record_bytes: u64,
    /// Whether the disk was emulated.
    pub emulated: bool,
    /// Whether the disk was simulated: time was virtual, nothing was written.
    #[serde(default)]
    pub simulated: bool,
    /// How long was measured, after warming up.
    pub measured_ns: u64,
    /// Why measuring ended.
    pub ended_by: EndedBy,
    /// Event counts within the measured time.
    pub counts: Counts,
    /// Acknowledged messages per second.
    pub acked_per_s: f64,
    /// Acknowledged body bytes per second.
    pub bytes_per_s: f64,
    /// From the call of append to its acknowledgement: service time.
    pub append_to_ack_ns: Quantiles,
    /// The call of append alone, where it does not wait for its acknowledgement; `null` where it
    /// does, and before schema 1.1.
    #[serde(default)]
    pub append_ns: Option<Quantiles>,
    /// Where messages come whatever becomes of those before; `null` for a closed loop, in which
    /// each producer waits.
    #[serde(default)]
    pub open_loop: Option<OpenLoop>,
    /// Acknowledgements by RocketMQ's thirteen buckets of time (`putMessageDistributeTime`): to 0,
    /// 10, 50, 100, 200, 500 ms, 1, 2, 3, 4, 5, 10 s, and beyond; empty before schema 1.1.
    #[serde(default)]
    pub put_message_distribute_time: Vec<u64>,
    /// What waited for its acknowledgement; `null` for the raw loop, and before it was recorded.
    #[serde(default)]
    pub backlog: Option<Backlog>,
    /// Of what is acknowledged after its sync, where its time to acknowledgement went; `null` for
    /// the raw loop, for what is acknowledged before, and before it was recorded.
    #[serde(default)]
    pub sync_wait: Option<SyncWait>,
    /// From the start of a sync to its return.
    pub flush_ns: Quantiles,
    /// Messages that one sync made durable.
    pub messages_per_flush: Quantiles,
    /// Log bytes that one sync made durable.
    pub bytes_per_flush: Quantiles,
    /// Syncs per acknowledged message.
    pub fsync_per_ack: f64,
    /// What a crash would take, by loss model.
    pub exposure: ExposureByModel,
    /// From acknowledgement to durability, sampled; 0 where durability comes first.
    pub ack_to_durable_ns: Quantiles,
    /// The flush interval, asked for and achieved.
    pub interval: Interval,
    /// What reached the device.
    pub io: Io,
    /// The kernel's dirty pages.
    pub dirty: Dirty,
    /// Percent of the time in which writers had to wait: dirty pages above the limits' middle.
    #[serde(default)]
    pub throttled_pct: Option<f64>,
    /// Appends that took 50 ms or more, the worst of each tenth of a second; a hundred at most.
    #[serde(default)]
    pub stalls: Vec<Stall>,
    /// Processors, faults, pressure, other people's writes.
    #[serde(default)]
    pub machine: Machine,
    /// The two Little's-law checks.
    pub little: Little,
    /// Each check that was made, passed or not.
    pub validity: Vec<Check>,
    /// What the checks come to.
    pub status: Status,
}

fn one() -> u32 {
    1
}

/// Messages that come when they are due.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct OpenLoop {
    /// Messages a second that were asked for, bursts included.
    pub offered_per_s: f64,
    /// How they were spread.
    pub arrival: Arrival,
    /// Messages that were due in the measured time.
    pub due: u64,
    /// Of these the ones that were due early enough to have been sent by its end: 20 ms before it,
    /// with bursts the time from one to the next.
    pub judged: u64,
    /// Of these the ones that were not sent.
    pub unsent: u64,
    /// What 99 of 100 were to be acknowledged within, where the rate was searched for; `null` where
    /// it was given.
    pub promised_p99_ns: Option<u64>,
    /// From when a message was due to its acknowledgement: what holds up one makes others late,
    /// and is counted for them too.
    pub due_to_ack_ns: Quantiles,
    /// From when a message was due to its append.
    pub lag_ns: Quantiles,
    /// The same, but from when its producer was free to send it too: the load generator's own.
    pub own_lag_ns: Quantiles,
}

/// What waited for its acknowledgement, looked at every 1 to 20 ms.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Backlog {
    /// Messages that had been sent and not acknowledged.
    pub messages: Quantiles,
    /// How long the oldest of them had waited; 0 where there was none.
    pub oldest_wait_ns: Quantiles,
}

/// The way of a message to its acknowledgement by the sync that covers it, sampled.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct SyncWait {
    /// From the call of append to the start of its sync: the append itself, what was left of the
    /// sync before, gathering, and the move to the page cache where that is the flush lane's.
    pub queue_ns: Quantiles,
    /// From there to the sync's return.
    pub flush_ns: Quantiles,
    /// From there until its producer was told.
    pub wake_ns: Quantiles,
}

/// How the messages of an open loop are spread over time.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrival {
    /// Each as long after the one before.
    Constant,
    /// Independent of each other.
    Poisson,
}

/// An append that took long.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Stall {
    /// When it had ended, to a tenth of a second, since measuring began.
    pub at_ns: u64,
    /// How long it took.
    pub took_ns: u64,
    /// The machine's dirty pages meanwhile, at most.
    pub dirty_bytes: Option<u64>,
    /// Whether the kernel made writers wait at any time meanwhile.
    pub throttled: Option<bool>,
}

/// What the machine did in the measured time; `null` where nothing tells.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Machine {
    /// Processor time of this process in user mode.
    pub user_ns: Option<u64>,
    /// In the kernel.
    pub system_ns: Option<u64>,
    /// Of all processors' time, what the hypervisor gave to others.
    pub steal_pct: Option<f64>,
    /// Of all processors' time, idle while a disk was waited for.
    pub iowait_pct: Option<f64>,
    /// Page faults of this process without a disk,
    pub minor_faults: Option<u64>,
    /// and with one.
    pub major_faults: Option<u64>,
    /// How much of the time some task waited for a disk (`/proc/pressure/io`).
    pub io_pressure_pct: Option<f64>,
    /// Bytes that the device was given beyond those of this process, about: the file system's own
    /// and what was dirty before are among them, so it is recorded and not judged.
    pub foreign_write_bytes: Option<u64>,
    /// Bytes that this process had written to disks; a page that is written anew counts with all
    /// that the kernel keeps together with it. `null` before schema 1.1.
    #[serde(default)]
    pub own_write_bytes: Option<u64>,
    /// Those of other processes, to whichever disk, as far as they may be looked at: an ordinary
    /// user sees his own. `null` before schema 1.1.
    #[serde(default)]
    pub others_write_bytes: Option<u64>,
    /// Other processes that may not be looked at. `null` before schema 1.1.
    #[serde(default)]
    pub others_hidden: Option<u64>,
    /// Processor time of the thread that looked at all this, in percent of one processor; `null`
    /// before schema 1.1.
    #[serde(default)]
    pub sampler_pct: Option<f64>,
    /// How much of their time producers spent on themselves, between being free to send and
    /// sending; `null` for an open loop, and before schema 1.1.
    #[serde(default)]
    pub generator_pct: Option<f64>,
}

/// What is measured in a cell.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Commit lane and flush lane over a staging buffer.
    CommitRealtime,
    /// Timed flush.
    FlushRealtime,
    /// Synchronous group commit.
    GroupCommit,
    /// Appends that nothing ever flushes: the baseline.
    None,
    /// pwrite + fdatasync in a loop on one thread, without a log: what the disk allows.
    Raw,
}

/// What an acknowledgement promises; the survivor of which crash the message is.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AckPromise {
    /// Survives a process crash.
    Committed,
    /// Survives a power cut, if the device honours flushes.
    Flushed,
    /// Survives nothing yet.
    Wrote,
}

/// Why a cell stopped.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EndedBy {
    /// It had written as much as the plan allows it.
    Bytes,
    /// The measuring time was over.
    Time,
}

/// Events within the measured time.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Counts {
    /// Messages placed in the log.
    pub appended: u64,
    /// Messages acknowledged.
    pub acked: u64,
    /// Sync calls.
    pub flushes: u64,
    /// Moves of staged bytes to the page cache.
    pub commits: u64,
    /// Appends that were refused because the disk did not keep up.
    pub errors: u64,
    /// Appends whose acknowledgement passed its deadline.
    pub timeouts: u64,
}

/// A distribution; all fields 0 where `count` is 0.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Quantiles {
    /// Values recorded.
    pub count: u64,
    /// Smallest.
    pub min: u64,
    /// Median.
    pub p50: u64,
    /// 90 of 100 are at most this.
    pub p90: u64,
    /// 99 of 100.
    pub p99: u64,
    /// 999 of 1000.
    pub p999: u64,
    /// 9999 of 10 000.
    pub p9999: u64,
    /// Largest.
    pub max: u64,
    /// Arithmetic mean.
    pub mean: f64,
}

/// Exposure under the two loss models.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct ExposureByModel {
    /// `kill -9`: what the page cache does not hold is lost.
    pub process: Exposure,
    /// Power cut: what no successful sync covers is lost.
    pub power: Exposure,
}

/// What a crash at a random moment would take of what was acknowledged.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Exposure {
    /// How long the oldest message at risk has been acknowledged.
    pub age_ns: Spread,
    /// Log bytes at risk; of mixed sizes the messages times their mean, an estimate.
    pub bytes: Spread,
    /// Messages at risk.
    pub messages: Spread,
}

/// A time-weighted distribution.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Spread {
    /// Mean over time.
    pub mean: f64,
    /// Half of the time it is at most this.
    pub p50: u64,
    /// 99 of 100 moments.
    pub p99: u64,
    /// Ever.
    pub max: u64,
}

/// Times from the start of one sync to the start of the next.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Interval {
    /// The strategy's setting; `null` for strategies without one.
    pub configured_ns: Option<u64>,
    /// Median achieved; `null` with fewer than two syncs.
    pub achieved_p50_ns: Option<u64>,
    /// 99th percentile achieved.
    pub achieved_p99_ns: Option<u64>,
}

/// What reached the device within the measured time, by `/proc/diskstats`.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Io {
    /// Bytes written to the device, by anyone; `null` where the device is not known.
    pub device_write_bytes: Option<u64>,
    /// Flush requests that the device got, from anyone.
    pub flush_requests: Option<u64>,
    /// Device bytes per appended log byte.
    pub write_amplification: Option<f64>,
    /// How much of the time the device had requests in flight; `null` before schema 1.1.
    #[serde(default)]
    pub busy_pct: Option<f64>,
}

/// Dirty and write-back pages of the whole machine, by `/proc/vmstat`.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Dirty {
    /// When measuring began.
    pub start_bytes: Option<u64>,
    /// The highest value seen.
    pub max_bytes: Option<u64>,
    /// Where background write-back begins.
    pub background_limit_bytes: Option<u64>,
    /// Where writers are blocked.
    pub limit_bytes: Option<u64>,
    /// Whether the background limit was reached; if not, an unsynced rate is page-cache absorbed.
    /// `null` also where the log's bytes go past the page cache, which then absorbs nothing.
    pub reached_background: Option<bool>,
    /// Whether the middle of the two limits was passed, above which writers are made to wait a
    /// little; `null` before schema 1.1.
    #[serde(default)]
    pub reached_free_run: Option<bool>,
    /// Whether the limit was reached; `null` before schema 1.1.
    #[serde(default)]
    pub reached_limit: Option<bool>,
}

/// Two identities that hold if counting and timing agree.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Little {
    /// producers against rate × mean time per message (latency and the time until the next), in
    /// percent.
    pub closed_error_pct: Option<f64>,
    /// mean messages at risk against rate × mean time from ack to durable, in percent.
    pub exposure_error_pct: Option<f64>,
}

/// One validity check.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Check {
    /// A fixed word for it.
    pub code: String,
    /// What its outcome means.
    pub level: Level,
    /// What was found.
    pub value: String,
    /// What was checked.
    pub rule: String,
}

/// What a check's outcome means.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// It held.
    Pass,
    /// To be said beside the figure.
    Label,
    /// The figure is doubtful.
    Warn,
    /// The figure must not be used.
    Invalid,
}

/// What all checks of a cell come to.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Not to be used.
    Invalid,
    /// Less was acknowledged than was due: its latencies grow with the time measured, and are none
    /// of the strategy's.
    Overload,
    /// All well.
    Valid,
    /// To be read with its warnings.
    Warn,
}

/// A disk of a sweep.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct MeasuredDisk {
    /// Its name in the profile.
    pub name: String,
    /// What must be said beside its figures: `EMULATED`, `not durable`.
    pub labels: Vec<String>,
    /// What an emulated one was to take and does take; `null` for others.
    pub calibration: Option<String>,
    /// A write of 4 KiB with its sync, the median of a short look.
    pub sync_p50_ns: u64,
    /// Everything else.
    pub info: DiskInfo,
}
