//! What can go wrong on the owner's side, and what a machine can lack.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

/// Why an emulated disk cannot be used on this machine. Says in one line what is missing, and how
/// to get it.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Missing {
    /// A device file is not there or cannot be opened.
    Device {
        /// The file.
        path: &'static str,
        /// The kernel's part that makes it.
        module: &'static str,
    },
    /// The kernel is too old.
    Kernel {
        /// What it cannot do.
        lacks: &'static str,
        /// The first version that can, major and minor.
        since: (u32, u32),
        /// The version that runs.
        found: String,
    },
    /// The process may not mount.
    Privilege {
        /// What the kernel said to a mount namespace of our own.
        refused: Errno,
    },
    /// A program is not installed.
    Program {
        /// Its name.
        name: &'static str,
        /// Debian's package that has it.
        package: &'static str,
    },
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device { path, module } => {
                write!(
                    f,
                    "{path} cannot be opened: run as root, and load it with modprobe {module}"
                )
            }
            Self::Kernel { lacks, since: (major, minor), found } => {
                write!(f, "Linux {found} cannot {lacks}: use {major}.{minor} or later")
            }
            Self::Privilege { refused } => write!(
                f,
                "no mounts of its own ({refused}): run as root, in a container with CAP_SYS_ADMIN"
            ),
            Self::Program { name, package } => {
                write!(f, "{name} is not installed: apt-get install {package}")
            }
        }
    }
}

impl std::error::Error for Missing {}

/// An emulated disk could not be made or used.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A program of the system's failed.
    Program {
        /// Its name.
        name: &'static str,
        /// What it wrote to its standard error.
        said: String,
    },
    /// The process that serves the disk is gone or does not answer.
    ServerGone(io::Error),
    /// The process that serves the disk refused.
    ServerRefused {
        /// What it said.
        said: String,
    },
    /// The system refused.
    System {
        /// What was being done.
        doing: &'static str,
        /// To which file or directory.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The disk to be emulated is too fast for this machine.
    TooFast(super::FloorLimited),
}

impl Error {
    pub(super) fn system(doing: &'static str, path: &Path, source: impl Into<io::Error>) -> Self {
        Self::System { doing, path: path.to_owned(), source: source.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program { name, said } => write!(f, "{name} failed: {}", said.trim()),
            Self::ServerGone(error) => {
                write!(f, "the process that serves the disk does not answer: {error}")
            }
            Self::ServerRefused { said } => {
                write!(f, "the process that serves the disk refused: {said}")
            }
            Self::System { doing, path, source } => {
                write!(f, "cannot {doing} {}: {source}", path.display())
            }
            Self::TooFast(limit) => limit.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::ServerGone(source) | Self::System { source, .. } => Some(source),
            Self::TooFast(limit) => Some(limit),
            Self::Program { .. } | Self::ServerRefused { .. } => None,
        }
    }
}

/// A view was not mounted.
#[derive(Debug)]
#[non_exhaustive]
pub enum MountError {
    /// Its file system does not take what the power cut left: the journal or what it leads to is
    /// broken.
    NotMountable {
        /// What the kernel said.
        refused: Errno,
    },
    /// Something else failed before.
    Other(Error),
}

impl fmt::Display for MountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotMountable { refused } => {
                write!(f, "the file system cannot be mounted after the power cut: {refused}")
            }
            Self::Other(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for MountError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::NotMountable { .. } => None,
            Self::Other(error) => Some(error),
        }
    }
}

impl From<Error> for MountError {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}
