//! What the run was and which program made it: `manifest.json`.

use serde::{Deserialize, Serialize};

use crate::profile::{Gates, Slo};

/// What the run was: `manifest.json`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Manifest {
    /// [`MANIFEST_SCHEMA`](super::MANIFEST_SCHEMA).
    pub schema: String,
    /// The run's directory name.
    pub run: String,
    /// Who made it.
    #[serde(flatten)]
    pub origin: Origin,
    /// The sweep's name.
    pub sweep: String,
    /// The sweep's profile, word for word.
    pub profile: String,
    /// Seeds order and bodies.
    pub seed: u64,
    /// Blocks planned.
    pub blocks: u32,
    /// Cells planned, over all blocks.
    pub cells_planned: u32,
    /// Cells finished.
    pub cells_done: u32,
    /// Milliseconds since 1970 UTC.
    pub started_at_ms: u64,
    /// Milliseconds since 1970 UTC; `null` while running.
    pub ended_at_ms: Option<u64>,
    /// How the run ended.
    pub outcome: Outcome,
    /// The directory that was given; empty before schema 1.1.
    #[serde(default)]
    pub directory: String,
    /// The time that was allowed, in seconds; 0 before schema 1.1.
    #[serde(default)]
    pub budget_s: u64,
    /// What was left out to keep within it.
    #[serde(default)]
    pub trimmed: Vec<String>,
    /// What the machine lacked.
    #[serde(default)]
    pub left_out: Vec<LeftOut>,
    /// Kernel settings that were to be applied, and what became of that, the last time.
    #[serde(default)]
    pub sysctls: Vec<AppliedSysctls>,
    /// How much the canaries of each block differed.
    #[serde(default)]
    pub noise: Vec<BlockNoise>,
    /// From when on a difference or a disturbance counted; `null` before they were recorded.
    #[serde(default)]
    pub gates: Option<Gates>,
    /// What was asked of the figures; `null` before it was recorded.
    #[serde(default)]
    pub slo: Option<Slo>,
}

/// A part of a sweep that could not be measured here.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct LeftOut {
    /// What: `disk cloud-3000iops`.
    pub what: String,
    /// What is missing.
    pub why: String,
    /// How to get it.
    pub how: String,
}

/// Kernel settings of a profile, and whether they were in force.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct AppliedSysctls {
    /// Their name in the profile; `NAME on DISK` with limits of that disk's device.
    pub name: String,
    /// What the kernel took.
    pub applied: crate::sysctl::Applied,
}

/// The same small cell at the beginning and the end of a block.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct BlockNoise {
    /// The block, from 0.
    pub block: u32,
    /// How much the faster was faster, in percent.
    pub spread_pct: f64,
    /// Whether that is more than the profile allows (`gates.noise_max_pct`).
    pub flagged: bool,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// All cells are there.
    Complete,
    /// An error ended it; the cells before it are there.
    Failed,
    /// A signal ended it; the cells before it are there.
    Interrupted,
    /// It has not ended, or was killed.
    Running,
    /// The time allowed was over; the blocks before that are there.
    Trimmed,
}

/// Which program made a record, and how it was called.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Origin {
    /// This program's version.
    pub version: String,
    /// The source revision, `null` outside a checkout.
    pub revision: Option<String>,
    /// Whether the checkout had changes.
    pub dirty: Option<bool>,
    /// The command that was given.
    pub command: Vec<String>,
}

impl Origin {
    /// This program, called so; the revision and whether it had changes, if they are known.
    pub fn here(command: &[String], revision: Option<&(String, bool)>) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            revision: revision.map(|(revision, _)| revision.clone()),
            dirty: revision.map(|(_, dirty)| *dirty),
            command: command.to_vec(),
        }
    }
}
