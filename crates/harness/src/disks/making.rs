//! How each kind of disk is made.

use std::cell::OnceCell;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use crashlab::block::{self, DiskOptions, PlainMount, PowerDisk, PrivateMounts};
use rustix::fs::Advice;

use super::unavailable::Stopped;
use super::{Calibration, Disk, DiskType, FsKind, Made, MadeKind, ServerCommand, Undo, labels};
use crate::clock::float;
use crate::workdir::{self, Workdir};
use crate::{disk, format};

/// A disk, or what stopped its making.
type Making = Result<Disk, Stopped>;

/// A directory as it is.
pub(super) fn host(path: &Path, plp: bool) -> Result<Disk> {
    let mut info = disk::inspect(path)?;
    info.details.plp_declared = plp.then_some(true);
    let labels = labels(&info);
    Ok(Disk { directory: path.to_owned(), info, labels, undo: Undo::default() })
}

/// A file system in memory.
pub(super) fn memory(work: &Path, bytes: u64) -> Making {
    ensure_size(bytes, 1 << 20, "a tmpfs")?;
    block::may_mount()?;
    has_memory(bytes)?;
    let workdir = workdir(work)?;
    let at = mount_point(&workdir)?;
    let mounted = with_mounts(|mounts| Ok(PlainMount::memory(mounts, &at, bytes)?))?;
    let made = Made {
        kind: MadeKind::Tmpfs,
        disk_type: None,
        bytes,
        backing: None,
        direct_io: None,
        calibration: None,
    };
    let undo = Undo { plain: Some(mounted), workdir: Some(workdir), ..Undo::default() };
    finish(at, made, undo)
}

/// A file system in an image file.
pub(super) struct Image<'a> {
    pub(super) backing: &'a Path,
    pub(super) file_system: FsKind,
    pub(super) mount_options: &'a str,
    pub(super) bytes: u64,
}

impl Image<'_> {
    pub(super) fn make(&self, work: &Path) -> Making {
        ensure_size(self.bytes, self.file_system.least_bytes(), self.file_system.name())?;
        block::takes_images(self.file_system)?;
        let bytes = self.bytes / BLOCK * BLOCK;
        let image_directory = workdir(self.backing)?;
        let free = disk::space(self.backing)?.free_bytes;
        if free < bytes.saturating_add(SPARE_BYTES) {
            let why = format!(
                "an image of {} does not fit into {}, where {} are free",
                size(bytes),
                self.backing.display(),
                size(free)
            );
            return Err(Stopped::lacking(why, "free some space, or make the disk smaller"));
        }
        let image = image_directory.path().join("image");
        write_zeroes(&image, bytes)
            .with_context(|| format!("cannot write the image {}", image.display()))?;
        let workdir = workdir(work)?;
        let at = mount_point(&workdir)?;
        let mounted = with_mounts(|mounts| {
            let (kind, options) = (self.file_system, self.mount_options);
            Ok(PlainMount::image(mounts, &image, &at, kind, options)?)
        })?;
        let made = Made {
            kind: MadeKind::Loop,
            disk_type: None,
            bytes,
            backing: Some(self.backing.display().to_string()),
            direct_io: mounted.is_direct(),
            calibration: None,
        };
        let undo = Undo {
            plain: Some(mounted),
            workdir: Some(workdir),
            image: Some(image_directory),
            ..Undo::default()
        };
        finish(at, made, undo)
    }
}

/// A block device in user space.
pub(super) struct Emulated<'a> {
    pub(super) disk_type: DiskType,
    pub(super) file_system: FsKind,
    pub(super) mount_options: &'a str,
    pub(super) bytes: u64,
}

impl Emulated<'_> {
    pub(super) fn make(&self, work: &Path, server: &ServerCommand) -> Making {
        ensure_size(self.bytes, self.file_system.least_bytes(), self.file_system.name())?;
        block::available(self.file_system)?;
        has_memory(self.bytes)?;
        let bytes = self.bytes / BLOCK * BLOCK;
        // What a real disk of these types has, or near it; it matters for power cuts alone.
        let options = DiskOptions { bytes, ..DiskOptions::default() };
        let workdir = workdir(work)?;
        let mut power =
            with_mounts(|mounts| Ok(PowerDisk::start(mounts, server, workdir.path(), options)?))?;
        let mounted = power.make_file_system(self.file_system, self.mount_options)?;
        let found = power.calibrate(self.disk_type.timing(), mounted.path())?;
        let made = Made {
            kind: MadeKind::Emulated,
            disk_type: Some(self.disk_type.name().to_owned()),
            bytes,
            backing: None,
            direct_io: Some(mounted.is_direct()),
            calibration: Some(Calibration::of(&found)),
        };
        let at = mounted.path().to_owned();
        let undo = Undo {
            emulated: Some(mounted),
            power: Some(power),
            workdir: Some(workdir),
            ..Undo::default()
        };
        finish(at, made, undo)
    }
}

/// Looks at the disk that was made.
fn finish(directory: PathBuf, made: Made, undo: Undo) -> Making {
    let mut info = disk::inspect(&directory)?;
    info.details.made = Some(made);
    let labels = labels(&info);
    Ok(Disk { directory, info, labels, undo })
}

/// Calls `make` with this thread's own mounts, which it has from the first call on.
fn with_mounts<T>(make: impl FnOnce(&PrivateMounts) -> Result<T, Stopped>) -> Result<T, Stopped> {
    thread_local! {
        static MOUNTS: OnceCell<PrivateMounts> = const { OnceCell::new() };
    }
    MOUNTS.with(|mounts| {
        if mounts.get().is_none() {
            let _ = mounts.set(PrivateMounts::enter()?);
        }
        make(mounts.get().expect("set above, by this thread alone"))
    })
}

/// A directory of our own in `parent`, rid of what killed processes left there.
fn workdir(parent: &Path) -> Result<Workdir> {
    workdir::sweep_stale(parent);
    Workdir::create(parent)
}

fn mount_point(workdir: &Workdir) -> Result<PathBuf> {
    let at = workdir.path().join("mounted");
    fs::create_dir(&at).with_context(|| format!("cannot create {}", at.display()))?;
    Ok(at)
}

/// A file of zeroes, every block of it written: where the file is only allocated, the first write
/// to each place is also one to the journal of the file system below.
fn write_zeroes(path: &Path, bytes: u64) -> Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).open(path)?;
    let zeroes = vec![0; usize::try_from(PIECE)?];
    let mut at = 0;
    while at < bytes {
        let len = PIECE.min(bytes - at);
        file.write_all_at(&zeroes[..usize::try_from(len)?], at)?;
        at += len;
    }
    file.sync_all()?;
    // The loop device goes past the page cache. Advice alone.
    let _ = rustix::fs::fadvise(&file, 0, None, Advice::DontNeed);
    Ok(())
}

fn ensure_size(bytes: u64, least: u64, what: &str) -> Result<()> {
    ensure!(
        least <= bytes,
        "a disk of {} is too small for {what}: give it {} or more",
        size(bytes),
        size(least)
    );
    Ok(())
}

/// Whether a disk that is memory leaves some of it to the rest.
fn has_memory(bytes: u64) -> Result<(), Stopped> {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    match available_bytes(&text) {
        Some(available) if available < bytes.saturating_add(SPARE_BYTES) => {
            let why = format!(
                "a disk of {} does not fit into memory, of which {} are available",
                size(bytes),
                size(available)
            );
            Err(Stopped::lacking(why, "make the disk smaller"))
        }
        _ => Ok(()),
    }
}

/// `MemAvailable` of `/proc/meminfo`, which counts KiB and calls them kB.
fn available_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

fn size(bytes: u64) -> String {
    format::bytes(float(bytes))
}

/// What is left free beside a disk.
const SPARE_BYTES: u64 = 256 << 20;
/// A sector of the loop devices.
const BLOCK: u64 = 4096;
const PIECE: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn available_memory_is_read() {
        let text = "MemTotal:  1 kB\nMemAvailable:   22 kB\n";
        assert_eq!(available_bytes(text), Some(22 << 10));
        assert_eq!(available_bytes("MemTotal: 1 kB\n"), None);
    }

    #[test]
    fn more_than_there_is_in_memory_is_lacking() {
        match has_memory(u64::MAX) {
            Err(Stopped::Lacking(found)) => assert!(found.why.contains("memory"), "{found}"),
            other => panic!("{other:?}"),
        }
        assert!(has_memory(1 << 20).is_ok());
    }

    #[test]
    fn an_image_is_written_to_its_last_byte() {
        use std::os::unix::fs::MetadataExt;

        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("image");
        write_zeroes(&path, (2 << 20) + 4096).unwrap();
        let found = fs::metadata(&path).unwrap();
        assert_eq!(found.len(), (2 << 20) + 4096);
        assert!(found.blocks() * 512 >= found.len(), "it has holes");
    }
}
