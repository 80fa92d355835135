//! What the kernel unpacks at boot: our program as init, and the modules it loads.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::block::FsKind;

use super::cpio::Archive;
use super::error::VmError;
use super::kernel::Kernel;
use super::{disk, run};

/// Builds the init program: `crashlab-init`, linked statically, as a guest has no libraries.
///
/// A build of its own, because the linking of C's library is chosen for a whole build. It goes to
/// `folder`, so that it neither waits for the build that is running nor makes that one start anew.
pub(super) fn build_init(folder: &Path) -> Result<PathBuf, VmError> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let build = folder.join("build");
    run(Command::new(cargo)
        .current_dir(workspace)
        .args(["build", "--release", "--locked", "--quiet", "--package", "crashlab"])
        .args(["--bin", INIT, "--target", TARGET, "--target-dir"])
        .arg(&build)
        .env("RUSTFLAGS", "-C target-feature=+crt-static -C strip=symbols")
        .env_remove("CARGO_ENCODED_RUSTFLAGS"))?;
    Ok(build.join(TARGET).join("release").join(INIT))
}

/// Packs `init` and the modules that a guest on `fs` needs.
pub(super) fn pack(kernel: &Kernel, init: &Path, fs: FsKind) -> Result<Vec<u8>, VmError> {
    let mut archive = Archive::default();
    let program = fs::read(init).map_err(VmError::io("read", init))?;
    archive.file("init", &program);
    for folder in ["proc", "sys", "disk", "modules"] {
        archive.directory(folder);
    }
    // The disk's driver comes last: a guest is kept before it has read anything of a disk.
    let early: Vec<_> = PORT.iter().chain(disk::modules(fs)).copied().collect();
    let early = kernel.modules(&early)?;
    let late = kernel.modules(&[DISK])?;
    let late = late.into_iter().filter(|(name, _)| early.iter().all(|(known, _)| known != name));
    for (folder, modules) in [(EARLY, early.clone()), (LATE, late.collect())] {
        archive.directory(folder);
        for (number, (name, content)) in modules.iter().enumerate() {
            archive.file(&format!("{folder}/{number:02}-{name}.ko"), content);
        }
    }
    Ok(archive.finish())
}

/// Where the modules lie that are loaded at boot, in the order of their names.
pub(super) const EARLY: &str = "modules/early";
/// Where those lie that are loaded when a disk is to be used.
pub(super) const LATE: &str = "modules/late";

const INIT: &str = "crashlab-init";
const TARGET: &str = "x86_64-unknown-linux-gnu";
const PORT: [&str; 2] = ["virtio_pci", "virtio_console"];
const DISK: &str = "virtio_blk";
