//! A disk that this machine cannot make: why, and what would help.

use std::fmt;

use anyhow::Result;
use crashlab::block::{Error, Missing};

use super::Disk;
use crate::clock::{float, nanos};
use crate::format;

/// Why a disk cannot be made here. Others may still be.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Unavailable {
    /// What is missing, in a line.
    pub why: String,
    /// What would help.
    pub how: String,
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.why, self.how)
    }
}

impl From<Missing> for Unavailable {
    fn from(missing: Missing) -> Self {
        // It says both in a line.
        let words = missing.to_string();
        let (why, how) = words.split_once(": ").unwrap_or((&words, "run as root"));
        Self { why: why.to_owned(), how: how.to_owned() }
    }
}

/// What stopped the making of a disk.
#[derive(Debug)]
pub(super) enum Stopped {
    Failed(anyhow::Error),
    Lacking(Unavailable),
}

impl Stopped {
    pub(super) fn lacking(why: String, how: &str) -> Self {
        Self::Lacking(Unavailable { why, how: how.to_owned() })
    }
}

impl From<anyhow::Error> for Stopped {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(error)
    }
}

impl From<Missing> for Stopped {
    fn from(missing: Missing) -> Self {
        Self::Lacking(missing.into())
    }
}

impl From<Error> for Stopped {
    fn from(error: Error) -> Self {
        match error {
            Error::TooFast(limit) => {
                let time = |span| format::duration(float(nanos(span).get()));
                let why = format!(
                    "its syncs take {}, which is less than twice of the {} that they take here on \
                     an emulated disk without any latency",
                    time(limit.asked),
                    time(limit.floor)
                );
                Self::lacking(why, "emulate a slower type, or measure where nothing else runs")
            }
            // A loop device in a container, mount options that nobody knows: what the program says
            // is all there is.
            Error::Program { name, said } => {
                let said: Vec<&str> = said.lines().map(str::trim).collect();
                let why = format!("{name} failed ({})", said.join(" ").trim());
                Self::lacking(why, "correct the disk's mount options, or allow it to this process")
            }
            other => Self::Failed(other.into()),
        }
    }
}

/// What a machine lacks is an answer, anything else a failure.
pub(super) fn told(made: Result<Disk, Stopped>) -> Result<Result<Disk, Unavailable>> {
    match made {
        Ok(disk) => Ok(Ok(disk)),
        Err(Stopped::Failed(error)) => Err(error),
        Err(Stopped::Lacking(unavailable)) => Ok(Err(unavailable)),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crashlab::block::FloorLimited;

    use super::*;

    #[track_caller]
    fn lacking(stopped: Stopped) -> Unavailable {
        match stopped {
            Stopped::Lacking(unavailable) => unavailable,
            Stopped::Failed(error) => panic!("{error:#}"),
        }
    }

    #[test]
    fn what_is_missing_and_how_to_get_it_are_told_apart() {
        let missing = Missing::Program { name: "mkfs.xfs", package: "xfsprogs" };
        let found = lacking(missing.into());
        assert_eq!(found.why, "mkfs.xfs is not installed");
        assert_eq!(found.how, "apt-get install xfsprogs");
        let missing = Missing::Device { path: "/dev/fuse", module: "fuse" };
        assert_eq!(lacking(missing.into()).how, "run as root, and load it with modprobe fuse");
    }

    #[test]
    fn a_type_that_is_too_fast_says_both_times() {
        let micros = Duration::from_micros;
        let limit = FloorLimited { asked: micros(21), floor: micros(50) };
        let found = lacking(Error::TooFast(limit).into());
        assert!(found.why.contains("21 µs") && found.why.contains("50 µs"), "{found}");
        assert!(found.how.contains("slower type"), "{found}");
    }

    #[test]
    fn a_program_that_fails_is_quoted_in_one_line() {
        let said = "mount: /x: bad option.\n       dmesg(1) may have more.\n".to_owned();
        let found = lacking(Error::Program { name: "mount", said }.into());
        assert_eq!(found.why, "mount failed (mount: /x: bad option. dmesg(1) may have more.)");
    }

    #[test]
    fn a_server_that_is_gone_is_a_failure() {
        let gone = Error::ServerGone(std::io::ErrorKind::UnexpectedEof.into());
        assert!(matches!(Stopped::from(gone), Stopped::Failed(_)));
    }
}
