//! Who changes the kernel's settings: one process at a time on a machine.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, OFlags};
use serde::{Deserialize, Serialize};

/// A process, told from a later one that was given the same number.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct Process {
    /// Its number.
    pub(super) pid: u32,
    /// When it began, in clock ticks since the machine did: field 22 of `/proc/PID/stat`.
    pub(super) started_ticks: u64,
}

impl Process {
    /// This one.
    pub(super) fn this() -> Result<Self> {
        let pid = std::process::id();
        let (started_ticks, _) =
            stat(pid).context("/proc does not tell when this process began")?;
        Ok(Self { pid, started_ticks })
    }

    /// Whether it still runs. One that was killed and whose parent has not asked yet does not.
    pub(super) fn is_alive(self) -> bool {
        let ended = |state: char| matches!(state, 'Z' | 'X' | 'x');
        stat(self.pid)
            .is_some_and(|(started, state)| started == self.started_ticks && !ended(state))
    }
}

/// When a process began, and its state's letter.
fn stat(pid: u32) -> Option<(u64, char)> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

fn parse_stat(text: &str) -> Option<(u64, char)> {
    // The second field is the program's name, which may hold anything.
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((fields.nth(18)?.parse().ok()?, state))
}

/// What tells one run of the kernel from the next.
pub(super) fn boot_id() -> Result<String> {
    let path = "/proc/sys/kernel/random/boot_id";
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
    Ok(text.trim().to_owned())
}

/// The lock of the machine, held until this is dropped or the process ends, however that may be.
#[derive(Debug)]
pub(crate) struct Lock {
    files: Vec<File>,
}

impl Lock {
    /// Locks `flushmark.lock` in each of the directories in which it can be opened: `flock`.
    ///
    /// Each, because a user and root cannot write in the same places, but can meet in one: a lock
    /// needs only a file that can be read.
    pub(super) fn take(run: &[PathBuf]) -> Result<Self> {
        let mut files = Vec::new();
        for path in run.iter().map(|directory| directory.join(LOCK_NAME)) {
            let Ok(mut file) = open(&path) else { continue };
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => return Err(busy(&path, &mut file).into()),
                // A file system without locks: as if the directory were not there.
                Err(_) => continue,
            }
            sign(&mut file);
            files.push(file);
        }
        Ok(Self { files })
    }

    /// Whether there was no place for a lock at all, so that nobody is kept out.
    pub(super) fn is_missing(&self) -> bool {
        self.files.is_empty()
    }
}

/// Another sweep runs on this machine.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Busy {
    /// The process that changes the settings, if it says so.
    pub pid: Option<u32>,
    /// The file that it has locked.
    pub lock: PathBuf,
}

impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lock = self.lock.display();
        match self.pid {
            Some(pid) if pid == std::process::id() => {
                write!(f, "this process ({pid}) already guards the kernel's settings ({lock})")
            }
            Some(pid) => write!(
                f,
                "another sweep runs on this machine: process {pid} holds {lock}; wait for it, or \
                 end it"
            ),
            None => write!(
                f,
                "another sweep runs on this machine: another user's process holds {lock}; wait \
                 for it, or end it"
            ),
        }
    }
}

impl std::error::Error for Busy {}

fn busy(path: &Path, file: &mut File) -> Busy {
    let mut text = String::new();
    // Who could only read the file could not sign it: what it says may be of an earlier one.
    let read = file.take(64).read_to_string(&mut text);
    let process = read.ok().and_then(|_| {
        let (pid, started_ticks) = text.trim().split_once(' ')?;
        Some(Process { pid: pid.parse().ok()?, started_ticks: started_ticks.parse().ok()? })
    });
    let pid = process.filter(|process| process.is_alive()).map(|process| process.pid);
    Busy { pid, lock: path.to_owned() }
}

/// Opens the lock file, and makes it if it is not there; never through a link.
fn open(path: &Path) -> Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let existing = |write: bool| {
        let flags = flags.bits().cast_signed();
        OpenOptions::new().read(true).write(write).custom_flags(flags).open(path)
    };
    let file = match existing(true) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let made =
                OpenOptions::new().read(true).write(true).create_new(true).mode(0o644).open(path);
            // Another process may have made it meanwhile.
            made.or_else(|_| existing(true)).or_else(|_| existing(false))?
        }
        Err(_) => existing(false)?,
    };
    if !file.metadata()?.is_file() {
        bail!("{} is not a file", path.display());
    }
    Ok(file)
}

/// Puts this process's number into a lock file of our own, for whoever finds it locked.
fn sign(file: &mut File) {
    let user = rustix::process::geteuid().as_raw();
    // Another user's file may be another name of a file that is not ours to write.
    let ours = file.metadata().is_ok_and(|found| found.uid() == user && found.nlink() == 1);
    if let Ok(Process { pid, started_ticks }) = Process::this()
        && ours
    {
        // The lock holds with or without a name on it.
        let _ = file.set_len(0).and_then(|()| file.rewind());
        let _ = file.write_all(format!("{pid} {started_ticks}\n").as_bytes());
    }
}

const LOCK_NAME: &str = "flushmark.lock";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_its_number_and_beginning() {
        let this = Process::this().unwrap();
        assert!(this.is_alive());
        let earlier = Process { started_ticks: this.started_ticks - 1, ..this };
        assert!(!earlier.is_alive(), "the number was given away again");
        assert!(!Process { pid: 4_194_305, ..this }.is_alive(), "beyond the kernel's greatest");
    }

    #[test]
    fn a_killed_child_is_dead_before_its_parent_asks() {
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let (started_ticks, _) = stat(child.id()).unwrap();
        let process = Process { pid: child.id(), started_ticks };
        assert!(process.is_alive());
        child.kill().unwrap();
        // Waits without reaping, so that a zombie is left.
        let options =
            rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::waitid(rustix::process::WaitId::Pid(pid), options).unwrap();
        assert!(stat(child.id()).is_some() && !process.is_alive());
        child.wait().unwrap();
        assert!(!process.is_alive());
    }

    #[test]
    fn a_programs_name_may_hold_anything() {
        let rest = "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20 21";
        for name in ["xtask", "a) S 1 (b", "x y"] {
            assert_eq!(parse_stat(&format!("42 ({name}) {rest}")), Some((4711, 'S')), "{name}");
        }
        assert_eq!(parse_stat("42 (x) S 1 2"), None);
        assert_eq!(parse_stat(""), None);
    }

    #[test]
    fn a_lock_is_held_once_and_names_its_holder() {
        let dir = tempfile::tempdir().unwrap();
        let run = [PathBuf::from("/nonexistent/flushmark"), dir.path().to_owned()];
        let first = Lock::take(&run).unwrap();
        assert!(!first.is_missing());
        let error = Lock::take(&run).unwrap_err();
        let busy = error.downcast_ref::<Busy>().unwrap();
        assert_eq!(busy.pid, Some(std::process::id()));
        assert_eq!(busy.lock, dir.path().join(LOCK_NAME));
        drop(first);
        assert!(!Lock::take(&run).unwrap().is_missing());
        assert!(Lock::take(&run[..1]).unwrap().is_missing());
    }

    #[test]
    fn a_dead_holders_name_is_not_blamed() {
        let dir = tempfile::tempdir().unwrap();
        let run = [dir.path().to_owned()];
        let _held = Lock::take(&run).unwrap();
        fs::write(dir.path().join(LOCK_NAME), "4194305 1\n").unwrap();
        let error = Lock::take(&run).unwrap_err();
        assert_eq!(error.downcast_ref::<Busy>().unwrap().pid, None);
        assert!(error.to_string().contains("another user's process"), "{error}");
    }

    #[test]
    fn a_link_or_a_pipe_is_no_lock() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("precious");
        fs::write(&target, "bytes").unwrap();
        std::os::unix::fs::symlink(&target, dir.path().join(LOCK_NAME)).unwrap();
        assert!(Lock::take(&[dir.path().to_owned()]).unwrap().is_missing());
        assert_eq!(fs::read_to_string(&target).unwrap(), "bytes");
    }
}
