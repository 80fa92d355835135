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
mod private;
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
pub use disk::{CutView, DiskOptions, PowerDisk, ServerCommand};
pub use error::{Error, Missing, MountError};
pub use fault::{Fault, Requests, Times};
pub use fs::{FsKind, Mounted};
pub use private::PrivateMounts;
pub use protocol::Counters;
pub use server::{ServeOptions, serve};
pub use timing::{DiskType, Timing};

/// Whether this machine can emulate a disk with that file system.
///
/// # Errors
///
/// The first thing that is missing.
pub fn available(kind: FsKind) -> Result<(), Missing> {
    for (path, module) in [("/dev/fuse", "fuse"), ("/dev/loop-control", "loop")] {
        let opened = std::fs::OpenOptions::new().read(true).write(true).open(path);
        opened.map_err(|_| Missing::Device { path, module })?;
    }
    fs::program("losetup", "mount")?;
    let (name, package) = kind.maker();
    fs::program(name, package)?;
    // In a thread that ends at once, so that the caller keeps its mounts.
    std::thread::scope(|scope| {
        let tried = scope.spawn(|| PrivateMounts::enter().map(drop));
        tried.join().expect("it does not panic")
    })
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
