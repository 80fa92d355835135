//! A virtual machine whose kernel is killed.
//!
//! QEMU runs Debian's cloud kernel with a program of ours as init, which has a real log under load
//! on a real file system on a virtual disk, and tells its acknowledgements over a virtual serial
//! port. Killing QEMU kills that kernel at any instruction: its page cache is gone, and what it had
//! written to its disk stays, as the host lives on. For a power cut ([`Loss::Power`]) QEMU records
//! the disk's writes and flushes, and what was not flushed survives in part.
//!
//! No root is needed, and no hardware support: QEMU translates the guest's instructions itself
//! (TCG). Its own use of KVM is left alone, as it hangs where virtual machines cannot be nested.

mod cpio;
mod disk;
mod error;
pub mod guest;
mod host;
mod initramfs;
mod kernel;
mod kills;
mod machine;
mod wire;
mod write_log;

use std::path::{Path, PathBuf};
use std::process::Command;

pub use error::{Missing, VmError};
pub use host::{Host, available, fetch_kernel};
pub use kernel::Kernel;
pub use kills::{Lab, Loss, Plan, Tally};

/// Runs a command to its end, and gives what it printed.
fn run(command: &mut Command) -> Result<String, VmError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(VmError::io("run", Path::new(&program)))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(VmError::Command { program, said: format!("{said} ({})", output.status) })
}

/// Where the program called `name` is.
fn program(name: &'static str, package: &'static str) -> Result<PathBuf, Missing> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Users other than root often lack the last two.
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    let mut files = folders.map(|folder| folder.join(name));
    files.find(|file| file.is_file()).ok_or(Missing::Program { name, package })
}
