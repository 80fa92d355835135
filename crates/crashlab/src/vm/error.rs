//! Why a virtual machine could not be had, or did not do as it was told.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why a virtual machine could not be had, or did not do as it was told.
///
/// Nothing here says anything about a log: what a log did wrong is a violation of the run's tally.
#[derive(Debug)]
#[non_exhaustive]
pub enum VmError {
    /// A command ended with an error.
    Command {
        /// The program.
        program: String,
        /// What it said, or how it ended.
        said: String,
    },
    /// The guest could not do what it was told.
    Guest {
        /// What it said.
        said: String,
    },
    /// The host's system refused.
    Io {
        /// What was being done.
        doing: &'static str,
        /// To which file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file that is needed is not there.
    Missing(Missing),
    /// The guest said nothing more for too long, or ended by itself.
    Silent {
        /// What was waited for.
        awaited: &'static str,
        /// The end of what its kernel printed.
        console: String,
    },
}

impl VmError {
    pub(super) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { doing, path, source }
    }
}

impl fmt::Display for VmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command { program, said } => write!(f, "{program} failed: {said}"),
            Self::Guest { said } => write!(f, "the guest could not go on: {said}"),
            Self::Io { doing, path, source } => {
                write!(f, "cannot {doing} {}: {source}", path.display())
            }
            Self::Missing(missing) => missing.fmt(f),
            Self::Silent { awaited, console } => {
                write!(f, "the guest did not come to {awaited}; its kernel said: {console}")
            }
        }
    }
}

impl std::error::Error for VmError {}

impl From<Missing> for VmError {
    fn from(missing: Missing) -> Self {
        Self::Missing(missing)
    }
}

/// What has to be there for a virtual machine, and is not. One line, which says how to get it.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Missing {
    /// The machine is none that the guest's program is built for.
    Architecture,
    /// No kernel was fetched.
    Kernel {
        /// Where it is looked for.
        folder: PathBuf,
    },
    /// The kernel's package has no such module.
    Module {
        /// Its name.
        name: String,
    },
    /// A program is not installed.
    Program {
        /// Its name.
        name: &'static str,
        /// The Debian package that has it.
        package: &'static str,
    },
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Architecture => f.write_str("the guest is built for x86-64 alone"),
            Self::Kernel { folder } => write!(
                f,
                "no kernel in {}: `cargo run --release -p crashlab --example kernel_kills -- \
                 --fetch` downloads Debian's (27 MB), needs no root and installs nothing",
                folder.display()
            ),
            Self::Module { name } => write!(f, "the kernel's package has no module {name}"),
            Self::Program { name, package } => {
                write!(f, "{name} is not installed: `apt-get install {package}` has it")
            }
        }
    }
}

impl std::error::Error for Missing {}
