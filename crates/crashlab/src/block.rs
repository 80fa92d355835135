//! A block device in user space: a FUSE file under a loop device, whose power can be cut.
//!
//! A process of its own ([`serve`]) holds the contents in memory, behind a volatile write cache:
//! what is written is volatile until a flush that was issued after it completed. On top of it are a
//! real file system, the kernel's page cache, write-back and journal. [`PowerDisk::cut`] gives the
//! disk as it would be after a power cut at that moment, as a copy that shares what is not written;
//! mounting it makes the file system replay its journal, while the disk itself goes on.
//!
//! Everything is mounted where nobody else sees it ([`PrivateMounts`]), and every loop device goes
//! with its last user, so that a killed process leaves nothing behind.
//!
//! What it is not: a device in which a flush and other requests overlap. The loop driver does one
//! flush at a time, and nothing that comes behind it until it is done.

mod calibrate;
mod disk;
mod error;
mod fault;
mod fs;
mod medium;
mod plain;
mod private;
mod process;
mod protocol;
mod server;
mod timing;

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

pub use crate::device::Keep;
pub use calibrate::{Calibration, FloorLimited};
pub(crate) use disk::Server;
pub use disk::{CutView, DiskOptions, PowerDisk, ServerCommand};
pub use error::{Error, Missing, MountError};
pub use fault::{Fault, Requests, Times};
pub use fs::{FsKind, Mounted};
pub use plain::PlainMount;
pub use private::PrivateMounts;
pub(crate) use process::serve_file_system;
pub use protocol::Counters;
pub(crate) use protocol::{keep_name, keep_named};
pub use server::{ServeOptions, serve};
pub use timing::{Asked, DiskType, Schedule, Timing};

/// Whether this machine can emulate a disk with that file system.
///
/// # Errors
///
/// The first thing that is missing.
pub fn available(kind: FsKind) -> Result<(), Missing> {
    opens("/dev/fuse", "fuse")?;
    if kind == FsKind::Btrfs {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        mounts_btrfs_twice(release.trim())?;
    }
    takes_images(kind)
}

/// Whether this machine can mount that file system on an image ([`PlainMount::image`]).
///
/// # Errors
///
/// The first thing that is missing.
pub fn takes_images(kind: FsKind) -> Result<(), Missing> {
    opens("/dev/loop-control", "loop")?;
    fs::program("losetup", "mount")?;
    let (name, package) = kind.maker();
    fs::program(name, package)?;
    may_mount()
}

/// Whether a device file, which a part of the kernel makes, can be opened.
pub(crate) fn opens(path: &'static str, module: &'static str) -> Result<(), Missing> {
    let opened = std::fs::OpenOptions::new().read(true).write(true).open(path);
    opened.map(drop).map_err(|_| Missing::Device { path, module })
}

/// Whether this process can have mounts of its own.
///
/// # Errors
///
/// [`Missing::Privilege`] if not.
pub fn may_mount() -> Result<(), Missing> {
    // In a thread that ends at once, so that the caller keeps its mounts.
    std::thread::scope(|scope| {
        let tried = scope.spawn(|| PrivateMounts::enter().map(drop));
        tried.join().expect("it does not panic")
    })
}

/// Before 6.7 btrfs does not mount a copy beside the disk that it is of. Giving the copy another id
/// (`btrfstune -m`) is no way: it commits, which makes what its log tree holds unreadable.
fn mounts_btrfs_twice(release: &str) -> Result<(), Missing> {
    let since = (6, 7);
    let mut numbers = release.split(|char: char| !char.is_ascii_digit());
    let mut number = || numbers.next()?.parse::<u32>().ok();
    match (number(), number()) {
        (Some(major), Some(minor)) if (major, minor) < since => {
            let lacks = "mount btrfs beside a copy of it";
            Err(Missing::Kernel { lacks, since, found: release.to_owned() })
        }
        _ => Ok(()),
    }
}

/// What a disk's process does, with the arguments that [`ServerCommand::arguments`] are followed
/// by: the directory to mount on, the size of the disk and that of its cache. Its standard input is
/// the control socket.
///
/// # Errors
///
/// If the arguments are others, or as [`serve`].
pub fn serve_from_arguments(arguments: &[OsString]) -> io::Result<()> {
    let number = |at: usize| arguments.get(at)?.to_str()?.parse().ok();
    let (Some(at), Some(bytes), Some(cache_bytes)) = (arguments.first(), number(1), number(2))
    else {
        let reason = "expected: DIRECTORY BYTES CACHE_BYTES, and a socket as standard input";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
    };
    let control = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    serve(&control, Path::new(at), ServeOptions { bytes, cache_bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_that_cannot_mount_a_copy_of_btrfs_are_known() {
        for release in ["6.18.44-fc-v669", "6.7", "7.0.1", "unknown"] {
            assert_eq!(mounts_btrfs_twice(release), Ok(()), "{release}");
        }
        let refused = mounts_btrfs_twice("6.1.0-28-amd64").map_err(|missing| missing.to_string());
        let expect =
            "Linux 6.1.0-28-amd64 cannot mount btrfs beside a copy of it: use 6.7 or later";
        assert_eq!(refused, Err(expect.to_owned()));
        assert!(mounts_btrfs_twice("5.19.0").is_err());
    }
}
