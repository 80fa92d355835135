//! Mounts that nobody else sees, and that end with the processes that see them.

use std::ffi::OsStr;
use std::marker::PhantomData;
use std::os::unix::ffi::OsStrExt;

use rustix::mount::{MountPropagationFlags, UnmountFlags, mount_change, unmount};
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

/// The calling thread, and those it starts from now on, see no emulated disk any more.
///
/// For a disk's own process: the last process that sees a mount unmounts it as it ends, and a file
/// system that is unmounted writes. If that process were the disk's own, it would wait for itself,
/// past any SIGKILL.
pub(super) fn leave() -> Result<(), Missing> {
    let _mounts = PrivateMounts::enter()?;
    let table = std::fs::read("/proc/thread-self/mountinfo").unwrap_or_default();
    for line in table.split(|byte| *byte == b'\n') {
        if let Some(point) = disks_mount_point(line) {
            // A mount below another of them is gone already.
            let _ = unmount(OsStr::from_bytes(&point), UnmountFlags::DETACH);
        }
    }
    Ok(())
}

/// Where a line of `proc_pid_mountinfo(5)` mounts something of an emulated disk, if it does.
fn disks_mount_point(line: &[u8]) -> Option<Vec<u8>> {
    let mut fields = line.split(|byte| *byte == b' ');
    let point = fields.by_ref().nth(4)?;
    let source = fields.skip_while(|field| *field != b"-").nth(2)?;
    let is_ours = source == SOURCE.as_bytes() || source.starts_with(b"/dev/loop");
    is_ours.then(|| unescaped(point))
}

/// A path in which blanks and the like stand as `\040`.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, behind)) = rest.split_first() {
        let digits = behind.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        let escaped = byte.filter(|_| *first == b'\\');
        out.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { &behind[3..] } else { behind };
    }
    out
}

/// What the served directory calls itself in tables of mounts.
pub(super) const SOURCE: &str = "power-disk";

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expect: Option<&str>) {
        let found = disks_mount_point(line.as_bytes());
        assert_eq!(found.as_deref(), expect.map(str::as_bytes), "{line}");
    }

    #[test]
    fn mounts_of_emulated_disks_are_told_from_others() {
        check("36 35 98:0 / /a\\040b rw,noatime master:1 - ext4 /dev/loop3 rw", Some("/a b"));
        check("36 35 0:41 / /w/files rw - fuse power-disk rw,user_id=0", Some("/w/files"));
        check("36 35 98:0 / / rw,relatime shared:1 shared:2 - ext4 /dev/vda rw", None);
        check("36 35 0:4 / /proc rw - proc proc rw", None);
        check("", None);
    }
}
