//! A file system in user space that keeps no more than POSIX promises.
//!
//! A process of its own holds a tree of files in memory, at `live` below what it mounts: the
//! kernel's page cache, shared mappings and `msync` are real, and what they reach is
//! [`device::files`](crate::device::files). A name is durable once its directory was synced, bytes
//! and length once the file was, and nothing else ever is. [`PosixFiles::cut`] gives the tree as a
//! power cut at that moment may leave it, as a tree of its own beside the live one, while that goes
//! on. Calls can be made to fail with any error.
//!
//! What it is not: a device. Bytes that were stored through a mapping and not written back yet are
//! in the kernel alone, and no cut leaves them.

mod protocol;
mod served;
mod trees;

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::block::{self, Error, Missing, PrivateMounts, Server, ServerCommand, Times};
use crate::device::Keep;

pub use protocol::{Call, Fault};
use protocol::{LIVE, Request};
use served::Served;
use trees::Trees;

/// Whether this machine can mount such a file system.
///
/// # Errors
///
/// The first thing that is missing.
pub fn available() -> Result<(), Missing> {
    block::opens("/dev/fuse", "fuse")?;
    block::may_mount()
}

/// A tree of files that loses at a power cut what POSIX allows to be lost.
///
/// Its process, and what it mounted, end with this value and the trees that cuts left, and with the
/// process that owns them, however it ends.
#[derive(Debug)]
pub struct PosixFiles {
    server: Arc<Server>,
}

impl PosixFiles {
    /// Starts the process, with an empty tree. Uses `work`, which is made if it is missing, for
    /// what it mounts, and leaves nothing in it. `server` must call [`serve_from_arguments`].
    ///
    /// # Errors
    ///
    /// If the process does not start, or cannot mount.
    pub fn start(
        _mounts: &PrivateMounts,
        server: &ServerCommand,
        work: &Path,
    ) -> Result<Self, Error> {
        Ok(Self { server: Arc::new(Server::start(server, work, &[])?) })
    }

    /// The directory above the tree.
    pub fn live(&self) -> PathBuf {
        self.server.file(LIVE)
    }

    /// Cuts the power, in a copy: what may be there if the power were cut now. The same state and
    /// `seed` give the same again.
    ///
    /// # Errors
    ///
    /// If the process is gone.
    pub fn cut(&self, keep: Keep, seed: u64) -> Result<CutTree, Error> {
        let name = self.server.ask(&Request::Cut { tree: LIVE.to_owned(), keep, seed })?;
        Ok(CutTree { server: Arc::clone(&self.server), name })
    }

    /// Makes a call on the tree fail from now on; one fault of each call at a time.
    ///
    /// # Errors
    ///
    /// If the process is gone.
    pub fn inject(&self, fault: Fault) -> Result<(), Error> {
        self.server.ask(&Request::Inject { tree: LIVE.to_owned(), fault }).map(drop)
    }

    /// Ends all faults of the tree.
    ///
    /// # Errors
    ///
    /// If the process is gone.
    pub fn heal(&self) -> Result<(), Error> {
        self.server.ask(&Request::Heal { tree: LIVE.to_owned() }).map(drop)
    }

    /// Makes each sync of a file take that long; other calls go on meanwhile.
    ///
    /// # Errors
    ///
    /// If the process is gone.
    pub fn set_sync_time(&self, time: Duration) -> Result<(), Error> {
        self.server.ask(&Request::SyncTime { tree: LIVE.to_owned(), time }).map(drop)
    }

    /// The process's id.
    pub fn server_id(&self) -> u32 {
        self.server.id()
    }
}

/// What a power cut left of a tree: one of its own, which shares what is not written. Gone when it
/// is dropped.
#[derive(Debug)]
pub struct CutTree {
    server: Arc<Server>,
    name: String,
}

impl CutTree {
    /// The directory above it.
    pub fn path(&self) -> PathBuf {
        self.server.file(&self.name)
    }

    /// Makes a call on it fail from now on.
    ///
    /// # Errors
    ///
    /// If the process is gone.
    pub fn inject(&self, fault: Fault) -> Result<(), Error> {
        self.server.ask(&Request::Inject { tree: self.name.clone(), fault }).map(drop)
    }
}

impl Drop for CutTree {
    fn drop(&mut self) {
        // If the process is gone, so is the tree.
        let _ = self.server.ask(&Request::Drop { tree: self.name.clone() });
    }
}

/// What the process does, with the argument that [`ServerCommand::arguments`] are followed by: the
/// directory to mount on. Its standard input is the control socket. To be the only thing that its
/// process does; what was served is lost when it ends.
///
/// # Errors
///
/// If the arguments are others, the directory cannot be mounted on, or the control socket fails.
pub fn serve_from_arguments(arguments: &[OsString]) -> io::Result<()> {
    let [at] = arguments else {
        let reason = "expected: DIRECTORY, and a socket as standard input";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
    };
    let control = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let trees = Arc::new(Trees::default());
    let served = Served(Arc::clone(&trees));
    let answer = |line: &str| {
        let request = Request::parse(line).ok_or_else(|| "not understood".to_owned());
        request.and_then(|request| trees.answer(request))
    };
    block::serve_file_system(&control, Path::new(at), served, THREADS, answer, || {})
}

/// Requests that are served at the same time; the others wait for one of them.
const THREADS: usize = 8;
