//! Where a run ran: the machine and the disks that were measured.

use serde::{Deserialize, Serialize};

use super::MeasuredDisk;

/// Where the run ran: `env.json`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Environment {
    /// [`ENV_SCHEMA`](super::ENV_SCHEMA).
    pub schema: String,
    /// A hash of the host's name, 8 hex digits.
    pub host_hash: String,
    /// Names that tell whose machine it is; `null` unless they were asked for.
    #[serde(default)]
    pub names: Option<Names>,
    /// Kernel release.
    pub kernel: String,
    /// `PRETTY_NAME` of the distribution.
    pub distribution: Option<String>,
    /// Whether a hypervisor is present.
    pub virtual_machine: Option<bool>,
    /// The processor's name.
    pub cpu_model: Option<String>,
    /// Processors that this process may use.
    pub cores: u32,
    /// Memory of the machine.
    pub memory_bytes: Option<u64>,
    /// The current clock source.
    pub clocksource: Option<String>,
    /// The least that the clock moves by; `null` before schema 1.1.
    #[serde(default)]
    pub clock_step_ns: Option<u64>,
    /// Compiler, optimisation, target.
    pub build: String,
    /// `vm.dirty_*` and what else governs memory as found, by name.
    pub sysctls: std::collections::BTreeMap<String, String>,
    /// The disk that was measured, of several the first.
    pub disk: DiskInfo,
    /// Every disk that was measured; empty before schema 1.1.
    #[serde(default)]
    pub disks: Vec<MeasuredDisk>,
    /// More; empty before schema 1.1.
    #[serde(default)]
    pub machine: crate::environment::MachineDetails,
}

/// What is only a hash where it was not asked for.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Names {
    /// The host's name.
    pub host: String,
    /// Serial numbers of the disks measured, by device.
    pub serials: std::collections::BTreeMap<String, String>,
}

/// The disk behind a directory.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct DiskInfo {
    /// The directory given.
    pub path: String,
    /// File system type, by `/proc/self/mountinfo`.
    pub file_system: Option<String>,
    /// Mount options.
    pub mount_options: Option<String>,
    /// Block device name, such as `vda`; `null` where there is none (tmpfs, network, overlay).
    pub device: Option<String>,
    /// Its model.
    pub model: Option<String>,
    /// Its queue scheduler.
    pub scheduler: Option<String>,
    /// `write back` or `write through`.
    pub write_cache: Option<String>,
    /// Whether it rotates.
    pub rotational: Option<bool>,
    /// Loop, device mapper, a control group's limits and the like: not hardware as it is.
    pub emulated: bool,
    /// The file system lives in memory.
    pub in_memory: bool,
    /// There is none: it was simulated in virtual time.
    #[serde(default)]
    pub simulated: bool,
    /// Free bytes when the run began.
    pub free_bytes: u64,
    /// Size of the file system.
    pub total_bytes: u64,
    /// More; empty before schema 1.1.
    #[serde(default)]
    pub details: crate::disk::DiskDetails,
}
