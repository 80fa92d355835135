//! Mounts that nobody else sees, and that end with the processes that see them.

use std::marker::PhantomData;

use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::thread::UnshareFlags;

use super::error::Missing;

/// The calling thread, and every thread and process it starts from now on, has mounts of its own:
/// `unshare(CLONE_NEWNS)`, everything private.
///
/// Nobody else sees what they mount, and the kernel unmounts it when the last of them ends, however
/// it ends. A program makes it first thing in its main thread; a test in its own thread. Threads
/// that were there before go on seeing the old mounts.
#[derive(Debug)]
pub struct PrivateMounts {
    /// Holds for the thread that made it.
    thread: PhantomData<*const ()>,
}

impl PrivateMounts {
    /// Gives the calling thread its own mounts; there is no way back.
    ///
    /// # Errors
    ///
    /// [`Missing::Privilege`] without `CAP_SYS_ADMIN`.
    pub fn enter() -> Result<Self, Missing> {
        #[expect(deprecated, reason = "unsafe for file descriptors alone, which stay shared here")]
        let unshared = rustix::thread::unshare(UnshareFlags::NEWNS);
        unshared
            .and_then(|()| {
                mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
            })
            .map_err(|refused| Missing::Privilege { refused })?;
        Ok(Self { thread: PhantomData })
    }
}
