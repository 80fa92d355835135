//! The owner's side: a disk, the views that power cuts leave of it, and the process behind them.

use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::mount::{UnmountFlags, unmount};
use store_core::Nanos;

use crate::device::Keep;

use super::error::{Error, MountError};
use super::fault::Fault;
use super::fs::{FsKind, Loop, Mount, Mounted, make};
use super::private::PrivateMounts;
use super::protocol::{Counters, DISK, QUIT, Request};
use super::timing::Timing;

/// How a disk's process is started: a program that calls [`serve_from_arguments`] with what follows
/// `arguments`.
///
/// [`serve_from_arguments`]: super::serve_from_arguments
#[derive(Clone, Debug)]
pub struct ServerCommand {
    /// The program.
    pub program: PathBuf,
    /// Its first arguments.
    pub arguments: Vec<OsString>,
}

/// What a disk is like.
#[derive(Clone, Copy, Debug)]
pub struct DiskOptions {
    /// Its size in bytes. Memory is taken only for what is written and not zero. Default 512 MiB
    /// (xfs wants 300 MiB at least).
    pub bytes: u64,
    /// Size of its volatile cache in bytes; beyond that the oldest writes become durable by
    /// themselves. Default 256 MiB.
    pub cache_bytes: u64,
}

impl Default for DiskOptions {
    fn default() -> Self {
        Self { bytes: 512 << 20, cache_bytes: 256 << 20 }
    }
}

/// A disk in user space, whose power can be cut.
///
/// Its process, and whatever is mounted of it, end with this value, the mounted file systems and
/// the views, and with the process that owns them, however it ends.
#[derive(Debug)]
pub struct PowerDisk {
    server: Arc<Server>,
    kind: Option<FsKind>,
}

impl PowerDisk {
    /// Starts the process of a disk that holds zeroes. Uses `work`, which is made if it is missing,
    /// for what it mounts, and leaves nothing in it.
    ///
    /// # Errors
    ///
    /// If the process does not start, or cannot mount.
    pub fn start(
        _mounts: &PrivateMounts,
        server: &ServerCommand,
        work: &Path,
        options: DiskOptions,
    ) -> Result<Self, Error> {
        let sizes = [options.bytes.to_string(), options.cache_bytes.to_string()];
        Ok(Self { server: Arc::new(Server::start(server, work, &sizes)?), kind: None })
    }

    /// Makes a file system on the disk and mounts it. Mount options as of `mount -o`, such as
    /// `"nobarrier"`.
    ///
    /// # Errors
    ///
    /// If a program of the system's fails, or the kernel does not mount it.
    pub fn make_file_system(&mut self, kind: FsKind, options: &str) -> Result<Mounted, Error> {
        self.make_file_system_with(kind, &[], options)
    }

    /// The same with more arguments for the program that makes it, such as `-O ^has_journal`.
    ///
    /// # Errors
    ///
    /// As [`make_file_system`](Self::make_file_system).
    pub fn make_file_system_with(
        &mut self,
        kind: FsKind,
        arguments: &[&str],
        options: &str,
    ) -> Result<Mounted, Error> {
        let device = Loop::attach(&self.server.file(DISK), true)?;
        make(kind, arguments, device.path())?;
        self.kind = Some(kind);
        self.mount_on(device, kind, options)
    }

    /// Mounts the file system that was made on the disk again.
    ///
    /// # Errors
    ///
    /// If none was made, or the kernel does not mount it.
    pub fn mount(&self, options: &str) -> Result<Mounted, Error> {
        let kind = self.made()?;
        self.mount_on(Loop::attach(&self.server.file(DISK), true)?, kind, options)
    }

    fn mount_on(&self, device: Loop, kind: FsKind, options: &str) -> Result<Mounted, Error> {
        let mount = Mount { server: &self.server, disk: DISK, kind, options, view: None };
        mount.mount(device).map_err(|error| match error {
            MountError::NotMountable { refused } => {
                Error::system("mount", &self.server.mount_point(DISK), refused)
            }
            MountError::Other(error) => error,
        })
    }

    fn made(&self) -> Result<FsKind, Error> {
        self.kind.ok_or_else(|| Error::ServerRefused { said: "no file system was made".to_owned() })
    }

    /// Cuts the power, in a copy: what would be on the disk if its power were cut now. The disk
    /// itself goes on.
    ///
    /// # Errors
    ///
    /// If no file system was made, or the disk's process is gone.
    pub fn cut(&self, keep: Keep, seed: u64) -> Result<CutView, Error> {
        cut(&self.server, DISK, self.made()?, keep, seed)
    }

    /// Makes something go wrong from now on.
    ///
    /// # Errors
    ///
    /// If the disk's process is gone.
    pub fn inject(&self, fault: Fault) -> Result<(), Error> {
        self.server.ask(&Request::Inject { disk: DISK.to_owned(), fault }).map(drop)
    }

    /// Ends all faults; what is stuck goes on.
    ///
    /// # Errors
    ///
    /// If the disk's process is gone.
    pub fn heal(&self) -> Result<(), Error> {
        self.server.let_go(DISK)
    }

    /// What the disk was asked so far.
    ///
    /// # Errors
    ///
    /// If the disk's process is gone.
    pub fn counters(&self) -> Result<Counters, Error> {
        self.server.counters(DISK)
    }

    /// Takes as much time for each request from now on. See [`calibrate`](Self::calibrate), which
    /// takes this machine's own time off.
    ///
    /// # Errors
    ///
    /// If the disk's process is gone.
    pub fn set_timing(&self, timing: Timing) -> Result<(), Error> {
        self.server.ask(&Request::Timing { disk: DISK.to_owned(), timing }).map(drop)
    }

    /// The id of the disk's process.
    pub fn server_id(&self) -> u32 {
        self.server.id()
    }
}

/// What a power cut left of a disk: a disk of its own, which shares what is not written. Gone when
/// it and its mounts are dropped.
#[derive(Debug)]
pub struct CutView {
    file: Arc<ViewFile>,
    kind: FsKind,
    position: u64,
    at: Nanos,
}

impl CutView {
    /// When the power was cut, by [`store_os::monotonic`]; not later than it was.
    pub fn at(&self) -> Nanos {
        self.at
    }

    /// Where in the order of the disk's completed writes the cut is, in units of 4 KiB.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Mounts it beside the disk; the file system replays its journal.
    ///
    /// # Errors
    ///
    /// [`MountError::NotMountable`] if the file system does not take what is there.
    pub fn mount(&self) -> Result<Mounted, MountError> {
        let server = &self.file.server;
        let device = Loop::attach(&server.file(&self.file.name), false)?;
        let view = Some(Arc::clone(&self.file));
        let mount = Mount { server, disk: &self.file.name, kind: self.kind, options: "", view };
        mount.mount(device)
    }

    /// Cuts the power of the view, as while it recovers.
    ///
    /// # Errors
    ///
    /// If the disk's process is gone.
    pub fn cut(&self, keep: Keep, seed: u64) -> Result<Self, Error> {
        cut(&self.file.server, &self.file.name, self.kind, keep, seed)
    }

    /// Makes something go wrong with the view from now on.
    ///
    /// # Errors
    ///
    /// If the disk's process is gone.
    pub fn inject(&self, fault: Fault) -> Result<(), Error> {
        let disk = self.file.name.clone();
        self.file.server.ask(&Request::Inject { disk, fault }).map(drop)
    }

    /// What the view was asked so far.
    ///
    /// # Errors
    ///
    /// If the disk's process is gone.
    pub fn counters(&self) -> Result<Counters, Error> {
        self.file.server.counters(&self.file.name)
    }
}

fn cut(
    server: &Arc<Server>,
    disk: &str,
    kind: FsKind,
    keep: Keep,
    seed: u64,
) -> Result<CutView, Error> {
    let words = server.ask(&Request::Cut { disk: disk.to_owned(), keep, seed })?;
    let not_understood = || Error::ServerRefused { said: words.clone() };
    let mut parts = words.split(' ');
    let name = parts.next().ok_or_else(not_understood)?;
    let mut number = || parts.next().and_then(|part| part.parse().ok()).ok_or_else(not_understood);
    let (position, at) = (number()?, Nanos::new(number()?));
    let file = ViewFile { server: Arc::clone(server), name: name.to_owned() };
    Ok(CutView { file: Arc::new(file), kind, position, at })
}

/// A view in the served directory.
#[derive(Debug)]
pub(super) struct ViewFile {
    server: Arc<Server>,
    name: String,
}

impl Drop for ViewFile {
    fn drop(&mut self) {
        // If the process is gone, so is the view.
        let _ = self.server.ask(&Request::Drop { disk: self.name.clone() });
    }
}

/// The process that serves a file system, and ends with this value.
#[derive(Debug)]
pub(crate) struct Server {
    control: Mutex<BufReader<UnixStream>>,
    child: Mutex<Child>,
    work: PathBuf,
}

impl Server {
    /// Starts it, with the served directory and then `arguments` behind those of the command.
    pub(crate) fn start(
        command: &ServerCommand,
        work: &Path,
        arguments: &[String],
    ) -> Result<Self, Error> {
        let work =
            std::path::absolute(work).map_err(|source| Error::system("find", work, source))?;
        let files = work.join(FILES);
        std::fs::create_dir_all(&files)
            .map_err(|source| Error::system("create", &files, source))?;
        let (mine, other) = UnixStream::pair().map_err(Error::ServerGone)?;
        mine.set_read_timeout(Some(PATIENCE)).map_err(Error::ServerGone)?;
        let child = Command::new(&command.program)
            .args(&command.arguments)
            .arg(&files)
            .args(arguments)
            .stdin(Stdio::from(OwnedFd::from(other)))
            .stdout(Stdio::null())
            .spawn()
            .map_err(|source| Error::system("run", &command.program, source))?;
        let control = Mutex::new(BufReader::new(mine));
        let server = Self { control, child: Mutex::new(child), work };
        server.answer()?;
        Ok(server)
    }

    pub(crate) fn file(&self, disk: &str) -> PathBuf {
        self.work.join(FILES).join(disk)
    }

    pub(super) fn mount_point(&self, disk: &str) -> PathBuf {
        self.work.join(format!("{disk}-mounted"))
    }

    pub(crate) fn ask(&self, request: &impl Display) -> Result<String, Error> {
        let mut control = self.control.lock().unwrap_or_else(PoisonError::into_inner);
        writeln!(control.get_mut(), "{request}").map_err(Error::ServerGone)?;
        read_answer(&mut control)
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.lock().unwrap_or_else(PoisonError::into_inner).id()
    }

    fn answer(&self) -> Result<String, Error> {
        read_answer(&mut self.control.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn let_go(&self, disk: &str) -> Result<(), Error> {
        self.ask(&Request::Heal { disk: disk.to_owned() }).map(drop)
    }

    fn counters(&self, disk: &str) -> Result<Counters, Error> {
        let words = self.ask(&Request::Counters { disk: disk.to_owned() })?;
        let counters = Counters::from_words(&mut words.split_whitespace());
        counters.ok_or(Error::ServerRefused { said: words })
    }
}

fn read_answer(control: &mut BufReader<UnixStream>) -> Result<String, Error> {
    let mut line = String::new();
    let len = control.read_line(&mut line).map_err(Error::ServerGone)?;
    if len == 0 {
        return Err(Error::ServerGone(io::ErrorKind::UnexpectedEof.into()));
    }
    match line.trim_end_matches('\n').split_once(' ') {
        Some(("ok", words)) => Ok(words.to_owned()),
        Some(("error", said)) => Err(Error::ServerRefused { said: said.to_owned() }),
        _ => Err(Error::ServerRefused { said: line }),
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let control = self.control.get_mut().unwrap_or_else(PoisonError::into_inner);
        let _ = writeln!(control.get_mut(), "{QUIT}");
        let child = self.child.get_mut().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..QUIT_CHECKS {
            if let Ok(Some(_)) = child.try_wait() {
                break;
            }
            thread::park_timeout(QUIT_CHECK_EVERY);
        }
        let _ = child.kill();
        let _ = child.wait();
        let files = self.work.join(FILES);
        // It unmounts by itself, unless it was killed.
        let _ = unmount(&files, UnmountFlags::DETACH);
        let _ = std::fs::remove_dir(&files);
    }
}

/// The served directory, below the owner's.
const FILES: &str = "files";
/// How long an answer may take: none needs longer than a copy of the disk's table.
const PATIENCE: Duration = Duration::from_secs(30);
const QUIT_CHECKS: u32 = 500;
const QUIT_CHECK_EVERY: Duration = Duration::from_millis(2);
