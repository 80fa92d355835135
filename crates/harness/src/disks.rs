//! The disk of a cell: made for it, with everything about it recorded, and taken away again.
//!
//! What is mounted is seen by the calling thread, and by the threads and processes that it starts
//! afterwards, and by nobody else. The kernel unmounts it with the last of them, however that ends,
//! and takes away the loop device under it: a killed process leaves a directory and perhaps an
//! image file in it, which the next [`Disk::make`] for the same place removes.

mod making;
mod unavailable;

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
pub use crashlab::block::{DiskType, FsKind, ServerCommand};
use crashlab::block::{Mounted, PlainMount, PowerDisk};
use serde::{Deserialize, Serialize};

pub use self::unavailable::Unavailable;
use crate::clock::{float, nanos};
use crate::format;
use crate::results::DiskInfo;
use crate::workdir::Workdir;

/// What a disk is to be.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum DiskSpec {
    /// A block device in user space, which takes as long as a disk of a type does.
    Emulated {
        /// Which type.
        disk_type: DiskType,
        /// The file system on it.
        file_system: FsKind,
        /// What `mount -o` gets, such as `noatime,data=ordered`; empty for nothing.
        mount_options: String,
        /// Its size. Memory is taken for what is written.
        bytes: u64,
    },
    /// A directory as it is.
    Host {
        /// The directory; `None` is the one that is given when it is made.
        path: Option<PathBuf>,
        /// Whether who measures declares that the drive's cache survives a power cut.
        plp: bool,
    },
    /// A file system of its own in an image file, under a loop device.
    Loop {
        /// The directory in which the image is made; `None` is the one that is given then.
        backing: Option<PathBuf>,
        /// The file system in it.
        file_system: FsKind,
        /// What `mount -o` gets; empty for nothing.
        mount_options: String,
        /// The size of the image, all of which is written before it is used.
        bytes: u64,
    },
    /// A type of disk in virtual time. Nothing is written anywhere, so it cannot be made.
    Simulated {
        /// Which type.
        disk_type: DiskType,
    },
    /// A file system in memory.
    Tmpfs {
        /// Its size.
        bytes: u64,
    },
}

impl DiskSpec {
    /// Whether it is made for a run, and taken away after it.
    pub fn is_made(&self) -> bool {
        match self {
            Self::Emulated { .. } | Self::Loop { .. } | Self::Tmpfs { .. } => true,
            Self::Host { .. } | Self::Simulated { .. } => false,
        }
    }
}

/// What a result must say about the disk it was measured on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Label {
    /// It is not hardware as it is.
    Emulated,
    /// What is written to it stays in memory.
    InMemory,
    /// It is an image file under a loop device.
    Loop,
    /// Its syncs do not take what they were to take.
    Missed,
    /// What was synced does not survive a power cut.
    NotDurable,
}

impl Label {
    /// As a reader sees it.
    pub fn words(self) -> &'static str {
        match self {
            Self::Emulated => "EMULATED",
            Self::InMemory => "in memory",
            Self::Loop => "loop",
            Self::Missed => "asked latency missed",
            Self::NotDurable => "not durable",
        }
    }
}

/// How a disk was made.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Made {
    /// What was made.
    pub kind: MadeKind,
    /// The type that is emulated.
    pub disk_type: Option<String>,
    /// The size that was asked for.
    pub bytes: u64,
    /// The directory in which the image stands.
    pub backing: Option<String>,
    /// Whether the loop device goes past the page cache of its file; `null` without one.
    pub direct_io: Option<bool>,
    /// What its syncs were to take and do take; `null` if it was not to take any time.
    pub calibration: Option<Calibration>,
}

/// See [`DiskSpec`].
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MadeKind {
    /// A block device in user space.
    Emulated,
    /// An image under a loop device.
    Loop,
    /// In memory.
    Tmpfs,
}

/// What a write of 4 KiB and its `fdatasync` were to take on an emulated disk, and do take, as
/// medians.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct Calibration {
    /// On a disk of the type.
    pub asked_ns: u64,
    /// On the emulated one, measured before it was used.
    pub obtained_ns: u64,
    /// The same on an emulated disk that takes no time; it is taken off beforehand.
    pub floor_ns: u64,
    /// How far from asked that is, in percent of it; below zero if it is too fast.
    pub error_pct: f64,
}

impl Calibration {
    /// Whether it came within [`WITHIN_PCT`] of what was asked.
    pub fn has_landed(&self) -> bool {
        self.error_pct.abs() <= WITHIN_PCT
    }

    fn of(found: &crashlab::block::Calibration) -> Self {
        let asked_ns = nanos(found.asked).get();
        let obtained_ns = nanos(found.obtained).get();
        let share = float(obtained_ns) / float(asked_ns.max(1));
        let floor_ns = nanos(found.floor).get();
        Self { asked_ns, obtained_ns, floor_ns, error_pct: (share - 1.0) * 100.0 }
    }
}

impl fmt::Display for Calibration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = |ns: u64| format::duration(float(ns));
        write!(
            f,
            "a sync takes {}, asked {} ({:+.1} %; without the disk {})",
            time(self.obtained_ns),
            time(self.asked_ns),
            self.error_pct,
            time(self.floor_ns)
        )?;
        if self.has_landed() {
            return Ok(());
        }
        write!(f, ": MISSED by more than {WITHIN_PCT} %")
    }
}

/// A disk, there as long as this value.
///
/// It stays on the thread that made it, whose mounts it is in. Threads that are to see
/// [`directory`](Self::directory) are started by that thread afterwards.
#[derive(Debug)]
pub struct Disk {
    directory: PathBuf,
    info: DiskInfo,
    labels: Vec<Label>,
    undo: Undo,
}

/// What goes away, in the order in which it was put on one another: fields are dropped in order.
#[derive(Debug, Default)]
struct Undo {
    emulated: Option<Mounted>,
    plain: Option<PlainMount>,
    power: Option<PowerDisk>,
    workdir: Option<Workdir>,
    /// Where an image is, beside the mount point's directory.
    image: Option<Workdir>,
    /// What is mounted is in this thread's mounts.
    thread: std::marker::PhantomData<*const ()>,
}

impl Disk {
    /// Makes the disk, with a directory of its own below `given` to mount on. `server` is the
    /// program that serves emulated disks.
    ///
    /// With all kinds that [are made](DiskSpec::is_made) the calling thread has mounts of its own
    /// from then on.
    ///
    /// # Errors
    ///
    /// Outside: the specification is wrong, or something fails that should not. Inside: what this
    /// machine lacks; others can still be made.
    pub fn make(
        spec: &DiskSpec,
        given: &Path,
        server: &ServerCommand,
    ) -> Result<Result<Self, Unavailable>> {
        match spec {
            DiskSpec::Host { path, plp } => {
                making::host(path.as_deref().unwrap_or(given), *plp).map(Ok)
            }
            DiskSpec::Emulated { disk_type, file_system, mount_options, bytes } => {
                let disk = making::Emulated {
                    disk_type: *disk_type,
                    file_system: *file_system,
                    mount_options,
                    bytes: *bytes,
                };
                unavailable::told(disk.make(given, server))
            }
            DiskSpec::Loop { backing, file_system, mount_options, bytes } => {
                let image = making::Image {
                    backing: backing.as_deref().unwrap_or(given),
                    file_system: *file_system,
                    mount_options,
                    bytes: *bytes,
                };
                unavailable::told(image.make(given))
            }
            DiskSpec::Simulated { .. } => Ok(Err(Unavailable {
                why: "a simulated disk has no files to measure".to_owned(),
                how: "a sweep measures it in virtual time, and powercut cuts it".to_owned(),
            })),
            DiskSpec::Tmpfs { bytes } => unavailable::told(making::memory(given, *bytes)),
        }
    }

    /// The directory on it that is to be used.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// All that is known of it, for the record; how it was made is in
    /// [`DiskDetails::made`](crate::disk::DiskDetails::made).
    pub fn info(&self) -> &DiskInfo {
        &self.info
    }

    /// What a result must say about it.
    pub fn labels(&self) -> &[Label] {
        &self.labels
    }

    /// What its syncs were to take and do take, if it is an emulated one.
    pub fn calibration(&self) -> Option<&Calibration> {
        self.info.details.made.as_ref()?.calibration.as_ref()
    }

    /// Takes it away, as dropping it does, and says what failed.
    ///
    /// # Errors
    ///
    /// If files on it are still open; it goes when they are closed. Or if what it stood in cannot
    /// be removed.
    pub fn remove(self) -> Result<()> {
        let Undo { emulated, plain, power, workdir, image, .. } = self.undo;
        let unmounted = match (emulated, plain) {
            (Some(mounted), _) => mounted.unmount(),
            (None, Some(mounted)) => mounted.unmount(),
            (None, None) => Ok(()),
        };
        drop(power);
        let removed: Result<Vec<()>> =
            workdir.into_iter().chain(image).map(Workdir::close).collect();
        unmounted.context("the disk is still in use")?;
        removed.map(drop)
    }
}

/// What a specification and a look at the disk make a result say.
fn labels(info: &DiskInfo) -> Vec<Label> {
    let made = info.details.made.as_ref();
    let kind = made.map(|made| made.kind);
    let calibration = made.and_then(|made| made.calibration);
    let all = [
        (Label::Emulated, info.emulated),
        (Label::Loop, kind == Some(MadeKind::Loop)),
        (Label::Missed, calibration.is_some_and(|found| !found.has_landed())),
        (Label::InMemory, info.in_memory),
        (Label::NotDurable, info.in_memory || kind == Some(MadeKind::Emulated)),
    ];
    all.into_iter().filter(|(_, is_so)| *is_so).map(|(label, _)| label).collect()
}

/// How far from its asked latency an emulated disk may be, in percent.
pub const WITHIN_PCT: f64 = 25.0;

#[cfg(test)]
mod tests;
