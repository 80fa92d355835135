//! Mounts beside the emulated disks: a file system on an image file under a loop device, and one in
//! memory.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::error::Error;
use super::fs::{FsKind, Loop, make, run, unmount_patiently};
use super::private::PrivateMounts;

/// A mounted file system that is of no emulated disk. Unmounted when dropped, and by the kernel
/// when the last process that sees it ends, however it ends; a loop device goes with it.
///
/// Seen by the thread that entered [`PrivateMounts`] and by those it started since.
#[derive(Debug)]
pub struct PlainMount {
    path: PathBuf,
    device: Option<Loop>,
    is_attached: bool,
}

impl PlainMount {
    /// Makes a file system on the file `image`, whose length is a multiple of 4096, under a loop
    /// device of its own, and mounts it at the directory `at`. Mount options as of `mount -o`.
    ///
    /// # Errors
    ///
    /// If a program of the system's fails, or the kernel does not mount it.
    pub fn image(
        _mounts: &PrivateMounts,
        image: &Path,
        at: &Path,
        kind: FsKind,
        options: &str,
    ) -> Result<Self, Error> {
        let device = Loop::attach(image, true)?;
        make(kind, &[], device.path())?;
        let options = if options.is_empty() { "defaults" } else { options };
        mount(kind.name(), options, device.path().as_os_str(), at)?;
        Ok(Self { path: at.to_owned(), device: Some(device), is_attached: true })
    }

    /// Mounts a tmpfs of at most `bytes` at the directory `at`.
    ///
    /// # Errors
    ///
    /// If the kernel does not mount it.
    pub fn memory(_mounts: &PrivateMounts, at: &Path, bytes: u64) -> Result<Self, Error> {
        mount("tmpfs", &format!("mode=0700,size={bytes}"), OsStr::new("tmpfs"), at)?;
        Ok(Self { path: at.to_owned(), device: None, is_attached: true })
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the loop device goes past the page cache of its file; `None` in memory.
    pub fn is_direct(&self) -> Option<bool> {
        self.device.as_ref().map(|device| device.is_direct)
    }

    /// Unmounts it.
    ///
    /// # Errors
    ///
    /// If the kernel refuses, such as because files of it are open; it is detached then, and goes
    /// when they are closed.
    pub fn unmount(mut self) -> Result<(), Error> {
        self.unmount_now()
    }

    fn unmount_now(&mut self) -> Result<(), Error> {
        if !std::mem::take(&mut self.is_attached) {
            return Ok(());
        }
        let outcome = unmount_patiently(&self.path);
        outcome.map_err(|refused| Error::system("unmount", &self.path, refused))
    }
}

impl Drop for PlainMount {
    fn drop(&mut self) {
        // Nobody is left to tell; the kernel unmounts it with the last process that sees it.
        let _ = self.unmount_now();
    }
}

/// By `mount(8)`, which knows which options are the file system's and which the kernel's.
fn mount(kind: &str, options: &str, source: &OsStr, at: &Path) -> Result<(), Error> {
    let arguments = ["-t", kind, "-o", options].map(OsStr::new).into_iter();
    run("mount", arguments.chain([source, at.as_os_str()]))
}
