//! A directory for one benchmark: made under a given parent, gone when the benchmark is over.
//!
//! Its owner holds a lock on a file in it. The kernel lets go of the lock when the process dies,
//! whatever killed it, so a directory whose lock is free has no owner and [`sweep_stale`] may
//! remove it.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, anyhow, bail};
use rustix::fs::{FlockOperation, OFlags};

/// A directory that exists as long as this value, and no longer.
///
/// Dropping it removes the directory and all that is in it, without a word if that fails;
/// [`Workdir::close`] does the same and says what failed. After `kill -9` the directory stays, for
/// [`sweep_stale`] to find.
#[derive(Debug)]
pub struct Workdir {
    path: PathBuf,
    /// Locked for as long as the file is open; only ever held.
    _lock: File,
    /// Whether the directory was removed, so that it is not tried twice.
    removed: bool,
}

impl Workdir {
    /// Makes `flushmark-bench-<pid>-<n>` under `parent`, with `owner.lock` in it locked: `flock`.
    ///
    /// Only the owner of the process may enter the directory (mode 0700).
    ///
    /// # Errors
    ///
    /// If `parent` does not exist, is no directory, cannot be written to, lies on a read-only file
    /// system, or is full; nothing is left behind.
    pub fn create(parent: &Path) -> Result<Self> {
        check_parent(parent)?;
        for _ in 0..CREATE_TRIES {
            let path = parent.join(next_name());
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => {}
                // Left by a dead process that had the same process id.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(cannot_create(parent, &error)),
            }
            match take_lock(&path) {
                Ok(Some(lock)) => {
                    return Ok(Self { path, _lock: lock, removed: false });
                }
                Ok(None) => {}
                Err(error) => {
                    // Nobody else has put anything into a directory that was made just now.
                    let _ = fs::remove_dir_all(&path);
                    return Err(cannot_create(parent, &error));
                }
            }
        }
        bail!(
            "cannot make a working directory in {}: {CREATE_TRIES} names are taken; \
             remove the directories {NAME_PREFIX}* that are left there",
            parent.display()
        );
    }

    /// Removes the directory and all that is in it.
    ///
    /// # Errors
    ///
    /// If something in it cannot be removed; what is left is named for removal by hand.
    pub fn close(mut self) -> Result<()> {
        self.removed = true;
        remove(&self.path)
            .with_context(|| format!("cannot remove {}: remove it by hand", self.path.display()))
    }

    /// Where it is: the parent's path, as given, and the directory's name.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Workdir {
    fn drop(&mut self) {
        if !self.removed {
            let _ = remove(&self.path);
        }
    }
}

/// Removes the working directories under `parent` that no living process owns, and names them.
///
/// Only directories named as [`Workdir::create`] names them are looked at, never through a symbolic
/// link, and only those removed whose `owner.lock` is free, or that are empty. What cannot be read
/// or removed is left where it is and not in the answer: this tidies up, and must not stop a run.
pub fn sweep_stale(parent: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(parent) else {
        return Vec::new();
    };
    let mut swept: Vec<PathBuf> = entries
        .flatten()
        .filter(|entry| entry.file_name().to_str().is_some_and(is_workdir_name))
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .filter(|path| remove_if_stale(path))
        .collect();
    swept.sort();
    swept
}

/// Whether `path` had no owner and is gone now.
fn remove_if_stale(path: &Path) -> bool {
    // NOFOLLOW and NONBLOCK: a link must not lead elsewhere, nor a pipe hold us up.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path.join(LOCK_NAME));
    match opened {
        Ok(lock) => {
            lock.metadata().is_ok_and(|found| found.is_file())
                && try_lock(&lock).is_ok_and(|locked| locked)
                && remove(path).is_ok()
        }
        // The kernel removes a directory only while it is empty, whoever else is at work in it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => fs::remove_dir(path).is_ok(),
        Err(_) => false,
    }
}

/// Removes a working directory, the lock file last: killed half way, it still can be swept.
fn remove(path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_name() == LOCK_NAME {
            continue;
        }
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    fs::remove_file(path.join(LOCK_NAME))?;
    match fs::remove_dir(path) {
        // Another process swept it when it was empty.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// The lock on a directory made just now, or `None` if another process swept it meanwhile.
fn take_lock(path: &Path) -> io::Result<Option<File>> {
    let lock_path = path.join(LOCK_NAME);
    let lock = match OpenOptions::new().write(true).create_new(true).open(&lock_path) {
        Ok(lock) => lock,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if !try_lock(&lock)? {
        return Ok(None);
    }
    // A sweeper may have locked and removed the file between our creating and our locking it.
    match fs::symlink_metadata(&lock_path) {
        Ok(found) => {
            let held = lock.metadata()?;
            Ok((found.ino() == held.ino() && found.dev() == held.dev()).then_some(lock))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether the lock was free: `flock(LOCK_EX | LOCK_NB)`.
fn try_lock(file: &File) -> io::Result<bool> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// Refuses what is not a directory, before anything is tried in it.
fn check_parent(parent: &Path) -> Result<()> {
    let found = fs::metadata(parent).map_err(|error| cannot_create(parent, &error))?;
    if !found.is_dir() {
        bail!("{} is not a directory: give the directory to measure in", parent.display());
    }
    Ok(())
}

/// What a failed system call means for the user, and what to do about it.
fn cannot_create(parent: &Path, error: &io::Error) -> anyhow::Error {
    let place = parent.display();
    let advice = match error.kind() {
        // The second is /proc.
        io::ErrorKind::NotFound => {
            "it does not exist or takes no directories: create it, or give another directory"
        }
        io::ErrorKind::NotADirectory => {
            "a part of the path is not a directory: give an existing directory"
        }
        io::ErrorKind::PermissionDenied => {
            "it is not writable for this user: change its mode or owner, or give another directory"
        }
        io::ErrorKind::ReadOnlyFilesystem => {
            "its file system is read-only: mount it for writing, or give another directory"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "no space is left: free some, or give a directory on another disk"
        }
        _ => "give another directory if this one cannot be written to",
    };
    anyhow!("cannot make a working directory in {place}: {advice} ({error})")
}

/// A name that this process has not used yet.
fn next_name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{NAME_PREFIX}{}-{number}", std::process::id())
}

/// Whether `name` is one that [`next_name`] gives.
fn is_workdir_name(name: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    name.strip_prefix(NAME_PREFIX)
        .and_then(|rest| rest.split_once('-'))
        .is_some_and(|(pid, number)| is_number(pid) && is_number(number))
}

/// What each name begins with; the process id and a number follow.
const NAME_PREFIX: &str = "flushmark-bench-";

/// The file whose lock says that the directory has an owner.
const LOCK_NAME: &str = "owner.lock";

/// How many taken names are passed over; a parent with more of them wants cleaning.
const CREATE_TRIES: u32 = 1000;

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn parent() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    /// A directory with an unlocked `owner.lock`, as a killed process leaves it.
    fn leave_stale(parent: &Path, name: &str) -> PathBuf {
        let path = parent.join(name);
        fs::create_dir(&path).unwrap();
        fs::write(path.join(LOCK_NAME), "").unwrap();
        fs::create_dir(path.join("log")).unwrap();
        fs::write(path.join("log/00000000000000000000"), "bytes").unwrap();
        path
    }

    #[test]
    fn a_directory_is_gone_when_its_value_is() {
        let parent = parent();
        let workdir = Workdir::create(parent.path()).unwrap();
        let path = workdir.path().to_owned();
        assert!(is_workdir_name(path.file_name().unwrap().to_str().unwrap()));
        assert!(path.join(LOCK_NAME).is_file());
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
        fs::write(path.join("segment"), [0; 4096]).unwrap();
        drop(workdir);
        assert!(!path.exists());
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    #[test]
    fn closing_removes_it_or_says_what_is_left() {
        let parent = parent();
        let workdir = Workdir::create(parent.path()).unwrap();
        let path = workdir.path().to_owned();
        workdir.close().unwrap();
        assert!(!path.exists());

        let workdir = Workdir::create(parent.path()).unwrap();
        let path = workdir.path().to_owned();
        fs::remove_dir_all(&path).unwrap();
        let message = format!("{:#}", workdir.close().unwrap_err());
        assert!(message.contains("by hand") && message.contains("flushmark-bench-"), "{message}");
    }

    #[test]
    fn two_directories_of_one_process_live_side_by_side() {
        let parent = parent();
        let first = Workdir::create(parent.path()).unwrap();
        let second = Workdir::create(parent.path()).unwrap();
        assert_ne!(first.path(), second.path());
    }

    #[test]
    fn sweeping_removes_what_the_dead_left_and_spares_the_living() {
        let parent = parent();
        let living = Workdir::create(parent.path()).unwrap();
        let stale = leave_stale(parent.path(), "flushmark-bench-4194305-0");
        let empty = parent.path().join("flushmark-bench-4194305-1");
        fs::create_dir(&empty).unwrap();
        assert_eq!(sweep_stale(parent.path()), [stale.clone(), empty.clone()]);
        assert!(!stale.exists() && !empty.exists());
        assert!(living.path().join(LOCK_NAME).is_file());
        assert!(sweep_stale(parent.path()).is_empty(), "a second sweep finds nothing");
    }

    #[test]
    fn sweeping_touches_nothing_else() {
        let parent = parent();
        let elsewhere = tempfile::tempdir().unwrap();
        let outside = leave_stale(elsewhere.path(), "flushmark-bench-7-7");
        let at = |name: &str| parent.path().join(name);
        // A link to a directory that would be stale.
        symlink(&outside, at("flushmark-bench-1-0")).unwrap();
        // Files, but no lock: perhaps somebody's own.
        fs::create_dir(at("flushmark-bench-1-1")).unwrap();
        fs::write(at("flushmark-bench-1-1").join("data"), "x").unwrap();
        // A file of that name.
        fs::write(at("flushmark-bench-1-2"), "x").unwrap();
        // Its lock is a link, and a directory.
        fs::create_dir(at("flushmark-bench-1-3")).unwrap();
        symlink(outside.join(LOCK_NAME), at("flushmark-bench-1-3").join(LOCK_NAME)).unwrap();
        fs::create_dir_all(at("flushmark-bench-1-4").join(LOCK_NAME)).unwrap();
        // Other names.
        leave_stale(parent.path(), "flushmark-bench-1");
        leave_stale(parent.path(), "flushmark-bench-x-1");
        leave_stale(parent.path(), "flushmark-bench-1-1.bak");
        leave_stale(parent.path(), "important");
        let before = fs::read_dir(parent.path()).unwrap().count();
        assert!(sweep_stale(parent.path()).is_empty());
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), before);
        assert!(outside.join("log/00000000000000000000").is_file());
    }

    #[test]
    fn a_link_inside_a_stale_directory_is_removed_but_not_followed() {
        let parent = parent();
        let elsewhere = tempfile::tempdir().unwrap();
        fs::write(elsewhere.path().join("precious"), "x").unwrap();
        let stale = leave_stale(parent.path(), "flushmark-bench-9-9");
        symlink(elsewhere.path(), stale.join("link")).unwrap();
        assert_eq!(sweep_stale(parent.path()), [stale]);
        assert!(elsewhere.path().join("precious").is_file());
    }

    #[test]
    fn a_removal_that_fails_half_way_leaves_the_lock_file() {
        let parent = parent();
        let workdir = Workdir::create(parent.path()).unwrap();
        let path = workdir.path().to_owned();
        fs::remove_file(path.join(LOCK_NAME)).unwrap();
        fs::create_dir(path.join(LOCK_NAME)).unwrap();
        fs::write(path.join("segment"), "x").unwrap();
        assert!(workdir.close().is_err(), "a directory cannot be removed as a file");
        assert!(!path.join("segment").exists() && path.join(LOCK_NAME).exists());
    }

    #[test]
    fn a_directory_swept_before_its_lock_was_taken_is_not_used() {
        let parent = parent();
        let gone = parent.path().join("flushmark-bench-2-0");
        assert!(take_lock(&gone).unwrap().is_none(), "swept between mkdir and open");
    }

    #[test]
    fn sweeping_while_others_begin_takes_nothing_from_them() {
        let parent = parent();
        let done = std::sync::atomic::AtomicBool::new(false);
        let use_one = || {
            let workdir = Workdir::create(parent.path())?;
            fs::write(workdir.path().join("segment"), "x")?;
            workdir.close()
        };
        let used: Vec<Result<()>> = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    sweep_stale(parent.path());
                }
            });
            let used = (0..300).map(|_| use_one()).collect();
            done.store(true, Ordering::Relaxed);
            used
        });
        for result in used {
            result.unwrap();
        }
        sweep_stale(parent.path());
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    #[test]
    fn sweeping_a_missing_directory_finds_nothing() {
        assert!(sweep_stale(Path::new("/nonexistent/flushmark")).is_empty());
    }

    #[test]
    fn a_bad_parent_is_named_with_what_to_do() {
        #[track_caller]
        fn check(parent: &Path, expect: &str) {
            let message = format!("{:#}", Workdir::create(parent).unwrap_err());
            assert!(message.contains(expect), "{message}");
            assert!(message.contains(&parent.display().to_string()), "{message}");
        }
        let parent = parent();
        let file = parent.path().join("file");
        fs::write(&file, "x").unwrap();
        check(&parent.path().join("missing"), "does not exist or takes no directories: create it");
        check(&file, "is not a directory");
        check(&file.join("below"), "a part of the path is not a directory");
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1, "nothing is left behind");
    }

    #[test]
    fn each_refusal_of_the_kernel_has_its_advice() {
        #[track_caller]
        fn check(errno: rustix::io::Errno, expect: &str) {
            let message = cannot_create(Path::new("/data"), &errno.into()).to_string();
            assert!(message.contains(expect) && message.contains("/data"), "{message}");
        }
        check(rustix::io::Errno::ACCESS, "not writable for this user");
        check(rustix::io::Errno::PERM, "not writable for this user");
        check(rustix::io::Errno::ROFS, "read-only: mount it for writing");
        check(rustix::io::Errno::NOSPC, "no space is left");
        check(rustix::io::Errno::DQUOT, "no space is left");
        check(rustix::io::Errno::IO, "give another directory");
    }

    #[test]
    fn only_our_names_are_ours() {
        for name in ["flushmark-bench-1-0", "flushmark-bench-4194304-12"] {
            assert!(is_workdir_name(name), "{name}");
        }
        for name in ["flushmark-bench-1", "flushmark-bench--1", "flushmark-bench-1-", "x"] {
            assert!(!is_workdir_name(name), "{name}");
        }
    }
}
