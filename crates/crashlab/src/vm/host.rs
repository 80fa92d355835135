//! What a virtual machine needs of the host.

use std::path::{Path, PathBuf};

use crate::block::FsKind;

use super::error::{Missing, VmError};
use super::{Kernel, disk, program};

/// What a virtual machine needs of the host, found.
#[derive(Clone, Debug)]
pub struct Host {
    pub(super) qemu: PathBuf,
    /// Starts a program that is killed when its parent ends.
    pub(super) setpriv: PathBuf,
    pub(super) kernel: Kernel,
    /// Where the kernel lies, and the guest's program is built.
    pub(super) folder: PathBuf,
}

/// Looks for QEMU, for the maker of the file system, and for the kernel, which [`fetch_kernel`]
/// brings.
///
/// # Errors
///
/// The first that is missing, with how to get it in one line.
pub fn available(fs: FsKind) -> Result<Host, Missing> {
    if !cfg!(target_arch = "x86_64") {
        return Err(Missing::Architecture);
    }
    let qemu = program("qemu-system-x86_64", "qemu-system-x86")?;
    disk::maker(fs)?;
    let setpriv = program("setpriv", "util-linux")?;
    let folder = folder();
    Ok(Host { qemu, setpriv, kernel: Kernel::find(&folder.join(KERNEL))?, folder })
}

/// Downloads the kernel that the machine runs, unless it is there; nothing is installed.
///
/// # Errors
///
/// If apt cannot: it wants the network, and `apt-get update` to have been run.
pub fn fetch_kernel() -> Result<Kernel, VmError> {
    Kernel::fetch(&folder().join(KERNEL))
}

/// `vm` in cargo's target folder.
fn folder() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    target.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target")).join("vm")
}

const KERNEL: &str = "kernel";
