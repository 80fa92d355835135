//! Disk images, and the file systems on them.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::error::{Missing, VmError};
use super::{program, run};

/// A file system that a guest can have.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fs {
    /// btrfs, which copies on write.
    Btrfs,
    /// ext4, data ordered.
    Ext4,
    /// XFS.
    Xfs,
}

impl Fs {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Btrfs, Self::Ext4, Self::Xfs];

    /// Its name, as mount knows it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Btrfs => "btrfs",
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
        }
    }

    /// The one called `name`.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|fs| fs.name() == name)
    }

    /// The modules it needs; those built into the kernel are passed over.
    pub(super) fn modules(self) -> &'static [&'static str] {
        match self {
            // The first three it asks for when it is loaded, by what they do, not by name.
            Self::Btrfs => &["blake2b_generic", "sha256_generic", "xxhash_generic", "btrfs"],
            Self::Ext4 => &["ext4"],
            Self::Xfs => &["xfs"],
        }
    }

    fn maker(self) -> (&'static str, &'static str, &'static [&'static str]) {
        match self {
            Self::Btrfs => ("mkfs.btrfs", "btrfs-progs", &["-q"]),
            Self::Ext4 => ("mkfs.ext4", "e2fsprogs", &["-q", "-F"]),
            Self::Xfs => ("mkfs.xfs", "xfsprogs", &["-q"]),
        }
    }

    /// The program that makes it.
    pub(super) fn mkfs(self) -> Result<PathBuf, Missing> {
        let (name, package, _) = self.maker();
        program(name, package)
    }

    /// Makes a new image with an empty file system at `path`.
    pub(super) fn make(self, path: &Path) -> Result<(), VmError> {
        let _ = fs::remove_file(path);
        let file = File::create(path).map_err(VmError::io("make", path))?;
        file.set_len(DISK_BYTES).map_err(VmError::io("lengthen", path))?;
        let (_, _, arguments) = self.maker();
        run(Command::new(self.mkfs()?).args(arguments).arg(path)).map(|_| ())
    }
}

/// Enough for XFS, which wants 300 MB; sparse.
const DISK_BYTES: u64 = 512 << 20;
