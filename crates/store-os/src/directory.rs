//! The store directory: its lock, the mark of an unclean exit, and durable entries.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};

use rustix::fs::{FlockOperation, Mode, OFlags, fcntl_lock, open, statfs};
use rustix::io::Errno;
use rustix::process::{Flock, FlockType, fcntl_getlk};

use crate::error::{Error, Op, OpenError};
use crate::files::{Files, Held, Linux};
use crate::options::{Io, Platform, Possible};

/// A store directory that this process owns.
#[derive(Debug)]
pub(crate) struct Directory {
    platform: Platform,
    root: PathBuf,
    segments: PathBuf,
    /// See [`Files::syncs_direct_writes`].
    syncs_direct_writes: bool,
    lock: Mutex<Option<Box<dyn Held>>>,
}

impl Directory {
    /// Makes the directory if it is missing, and takes its lock.
    pub(crate) fn own(root: &Path, platform: &Platform) -> Result<Self, OpenError> {
        let files = &*platform.0;
        // Segments are opened again later, from wherever the process is then.
        let root = if root.as_os_str().is_empty() { Path::new(".") } else { root };
        let root =
            &std::path::absolute(root).map_err(|error| Error::from_std(Op::Open, root, &error))?;
        let segments = root.join(SEGMENTS);
        // A file system that was shut down says that the name exists, but not what stands there.
        files
            .make_directories(&segments)
            .map_err(|error| files.kind(&segments).err().unwrap_or(error))
            .map_err(|error| Error::from_std(Op::Create, &segments, &error))?;
        let lock = files.lock(&root.join(LOCK))?;
        // Each time, because a crash may have come between making a name and syncing its directory.
        sync_directory_of(files, &segments)?;
        sync_directory_of(files, root)?;
        for ancestor in root.ancestors().skip(1) {
            match sync_directory_of(files, ancestor) {
                Ok(()) => {}
                // Not ours to open, or nothing that can be synced: it was there before this log.
                Err(Error { source, .. }) if NOT_OURS.contains(&source) => break,
                Err(error) => return Err(error.into()),
            }
        }
        let syncs_direct_writes = files.syncs_direct_writes(&segments);
        let (platform, root) = (platform.clone(), root.to_owned());
        Ok(Self { platform, root, segments, syncs_direct_writes, lock: Mutex::new(Some(lock)) })
    }

    /// The files that it is made of.
    pub(crate) fn files(&self) -> &dyn Files {
        &*self.platform.0
    }

    /// The store's own directory.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Where the segments are.
    pub(crate) fn segments(&self) -> &Path {
        &self.segments
    }

    /// Whether the last owner did not close the log.
    pub(crate) fn was_abandoned(&self) -> bool {
        self.files().kind(&self.root.join(ABORT)).is_ok()
    }

    /// Writes `abort`, which says that the log is in use or was left without closing.
    pub(crate) fn mark_in_use(&self) -> Result<(), Error> {
        let path = self.root.join(ABORT);
        let pid = std::process::id().to_string();
        let failed = |error: &std::io::Error| Error::from_std(Op::Create, &path, error);
        let file = self.files().open_or_create(&path).map_err(|error| failed(&error))?;
        let write = || file.set_len(0).and_then(|()| file.write_all_at(pid.as_bytes(), 0));
        unless_full(write().map_err(|error| failed(&error)))?;
        sync_directory_of(self.files(), &self.root)
    }

    /// Removes `abort` after a clean close.
    pub(crate) fn mark_closed(&self) -> Result<(), Error> {
        let path = self.root.join(ABORT);
        let removed = self.files().remove(&path);
        removed.map_err(|error| Error::from_std(Op::Remove, &path, &error))?;
        sync_directory_of(self.files(), &self.root)
    }

    /// What segments can be written with; what `io` leaves no choice for is not tried.
    pub(crate) fn possible(&self, io: Option<Io>) -> Result<Possible, Error> {
        let failed = |error| Error::from_std(Op::Open, &self.segments, &error);
        let files = self.files();
        let mapped = !files.copies_on_write(&self.segments).map_err(failed)?;
        let direct = match io {
            Some(Io::Direct) => files.takes_blocks(&self.segments),
            Some(Io::Mapped | Io::Positioned) => false,
            None => self.syncs_direct_writes && files.takes_blocks(&self.segments),
        };
        Ok(Possible { mapped, direct })
    }

    /// Whether a direct write can be a sync too.
    pub(crate) fn syncs_direct_writes(&self) -> bool {
        self.syncs_direct_writes
    }

    /// Makes the segments' names durable.
    pub(crate) fn sync_segments(&self) -> Result<(), Error> {
        sync_directory_of(self.files(), &self.segments)
    }

    /// Gives the store's lock back, while tickets and cursors may still hold the rest.
    pub(crate) fn release(&self) {
        *self.lock.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// The store's lock, held as RocketMQ holds it: a POSIX record lock on the file `lock`.
///
/// Such locks belong to the process, so two logs of one process are told apart by a table.
#[derive(Debug)]
pub(crate) struct Lock {
    identity: (u64, u64),
    file: Option<File>,
}

static OWNED: LazyLock<Mutex<HashSet<(u64, u64)>>> = LazyLock::new(Mutex::default);

impl Lock {
    pub(crate) fn take(path: PathBuf) -> Result<Self, OpenError> {
        let failed = |op, error: &std::io::Error| Error::from_std(op, &path, error);
        // Opening and closing the file would drop a lock that this process holds on it already,
        // so the table is asked first.
        let mut owned = OWNED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Ok(found) = std::fs::metadata(&path)
            && owned.contains(&(found.dev(), found.ino()))
        {
            return Err(OpenError::Locked { path });
        }
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(|error| failed(Op::Open, &error))?;
        match fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::AGAIN | Errno::ACCESS) => return Err(OpenError::Locked { path }),
            Err(errno) => return Err(Error::new(Op::Lock, &path, errno).into()),
        }
        let found = file.metadata().map_err(|error| failed(Op::Open, &error))?;
        let identity = (found.dev(), found.ino());
        owned.insert(identity);
        // A stuck disk must not keep logs on others from being opened or closed.
        drop(owned);
        let mut lock = Self { identity, file: None };
        let signed = sign(&mut file).map_err(|error| failed(Op::Write, &error));
        lock.file = Some(file);
        unless_full(signed)?;
        Ok(lock)
    }
}

/// Writes what RocketMQ writes into the lock file, where it does not stand yet.
fn sign(file: &mut File) -> std::io::Result<()> {
    let mut found = Vec::new();
    file.take(SMALL).read_to_end(&mut found)?;
    if found == SIGNATURE {
        return Ok(());
    }
    file.write_all_at(SIGNATURE, 0)?;
    file.sync_all()
}

/// What stands in `lock` and `abort` nobody reads, so a full disk is no reason not to open a log.
fn unless_full(written: Result<(), Error>) -> Result<(), Error> {
    written.or_else(|error| if error.is_out_of_space() { Ok(()) } else { Err(error) })
}

impl Held for Lock {}

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing the file ends every record lock that this process has on it, so it must be closed
        // before the table lets another log of this process lock it.
        let mut owned = OWNED.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.file.take());
        owned.remove(&self.identity);
    }
}

/// Whether somebody holds the store's lock; it is asked for and not taken (`F_GETLK`).
///
/// A lock file that cannot be opened counts as free.
pub(crate) fn is_locked(root: &Path) -> bool {
    let path = root.join(LOCK);
    // Closing the file would drop a lock that this process has on it.
    let owned = OWNED.lock().unwrap_or_else(PoisonError::into_inner);
    let Ok(found) = std::fs::metadata(&path) else { return false };
    if !found.is_file() {
        return false;
    }
    if owned.contains(&(found.dev(), found.ino())) {
        return true;
    }
    let Ok(file) = File::open(&path) else { return false };
    let whole = Flock::from(FlockType::WriteLock);
    fcntl_getlk(&file, &whole).is_ok_and(|holder| holder.is_some())
}

/// Whether a directory's file system writes changed blocks to new places: there a block that is
/// allocated may still not be written for want of space.
pub(crate) fn copies_on_write(path: &Path) -> Result<bool, Error> {
    is_one_of(path, &COPY_ON_WRITE)
}

/// Whether a directory's file system is known to sync what it writes directly with `RWF_DSYNC`.
pub(crate) fn syncs_direct_writes(path: &Path) -> bool {
    is_one_of(path, &SYNCS_DIRECT_WRITES).unwrap_or(false)
}

fn is_one_of(path: &Path, magics: &[u32]) -> Result<bool, Error> {
    let found = statfs(path).map_err(|errno| Error::new(Op::Open, path, errno))?;
    Ok(magics.iter().any(|magic| i128::from(found.f_type) == i128::from(*magic)))
}

/// The first bytes, 4 KiB at most, of a small file of a store; `None` if it is no regular file or
/// cannot be read. A pipe of that name is not waited for.
pub(crate) fn read_small(path: &Path) -> Option<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = File::from(open(path, flags, Mode::empty()).ok()?);
    file.metadata().ok().filter(std::fs::Metadata::is_file)?;
    let mut bytes = Vec::new();
    file.take(SMALL).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Makes a directory's entries durable: `fsync` of the directory.
pub(crate) fn sync_directory(path: &Path) -> Result<(), Error> {
    sync_directory_of(&Linux, path)
}

/// [`sync_directory`] on any files.
pub(crate) fn sync_directory_of(files: &dyn Files, path: &Path) -> Result<(), Error> {
    files.sync_directory(path).map_err(|error| Error::from_std(Op::Sync, path, &error))
}

/// The directory of the segments in a store's root.
pub(crate) const SEGMENTS: &str = "commitlog";
/// The file that says that a log is in use or was left without closing.
pub(crate) const ABORT: &str = "abort";
const LOCK: &str = "lock";
const SIGNATURE: &[u8] = b"lock";
/// What is read of a small file: RocketMQ's `checkpoint` has as much.
const SMALL: u64 = 4096;

/// What syncing a directory above the store may be refused with: no right to, read-only, or a file
/// system without such a thing.
const NOT_OURS: [Errno; 6] =
    [Errno::ACCESS, Errno::INVAL, Errno::NOSYS, Errno::OPNOTSUPP, Errno::PERM, Errno::ROFS];

/// `f_type` of ext4 and xfs (`statfs(2)`).
const SYNCS_DIRECT_WRITES: [u32; 2] = [0xEF53, 0x5846_5342];
/// `f_type` of btrfs, bcachefs and zfs (`statfs(2)`).
const COPY_ON_WRITE: [u32; 3] = [0x9123_683E, 0xCA45_1A4E, 0x2FC1_2FC1];
