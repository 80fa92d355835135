//! What the owner of the trees and the process that serves them say to each other: one line each,
//! over a socket.

use std::fmt;
use std::time::Duration;

use rustix::io::Errno;

use super::Times;
use crate::block::{keep_name, keep_named};
use crate::device::Keep;

/// The tree that is written to; the others are what cuts left.
pub(super) const LIVE: &str = "live";

/// The calls that can be made to fail.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Call {
    /// Reading a file.
    Read,
    /// `fsync`, `fdatasync`, `msync` of a file. What it covered is lost.
    Sync,
    /// `fsync` of a directory. Nothing becomes durable by it.
    SyncDirectory,
    /// Writing to a file, and writing back what was stored through a mapping. Nothing is changed.
    Write,
}

/// A call fails.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Fault {
    /// Which.
    pub call: Call,
    /// With what. Of a mapping's write-back Linux remembers `ENOSPC`, and anything else as `EIO`.
    pub errno: Errno,
    /// How often.
    pub times: Times,
}

/// What the owner asks.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Request {
    Cut { tree: String, keep: Keep, seed: u64 },
    Drop { tree: String },
    Heal { tree: String },
    Inject { tree: String, fault: Fault },
    SyncTime { tree: String, time: Duration },
}

const CALLS: [(&str, Call); 4] = [
    ("read", Call::Read),
    ("sync", Call::Sync),
    ("sync-directory", Call::SyncDirectory),
    ("write", Call::Write),
];

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cut { tree, keep, seed } => write!(f, "cut {tree} {} {seed}", keep_name(*keep)),
            Self::Drop { tree } => write!(f, "drop {tree}"),
            Self::Heal { tree } => write!(f, "heal {tree}"),
            Self::Inject { tree, fault: Fault { call, errno, times } } => {
                let known = CALLS.iter().find(|(_, known)| known == call);
                let call = known.map_or("", |(name, _)| name);
                let times = match times {
                    Times::Always => "always",
                    Times::Once => "once",
                };
                write!(f, "inject {tree} {call} {} {times}", errno.raw_os_error())
            }
            Self::SyncTime { tree, time } => write!(f, "sync-time {tree} {}", time.as_nanos()),
        }
    }
}

impl Request {
    pub(super) fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let verb = words.next()?;
        let tree = words.next()?.to_owned();
        let request = match verb {
            "cut" => {
                let keep = keep_named(words.next()?)?;
                Self::Cut { tree, keep, seed: words.next()?.parse().ok()? }
            }
            "drop" => Self::Drop { tree },
            "heal" => Self::Heal { tree },
            "inject" => {
                let call = words.next()?;
                let (_, call) = *CALLS.iter().find(|(name, _)| *name == call)?;
                let number = words.next()?.parse().ok().filter(|number| *number > 0)?;
                let errno = Errno::from_raw_os_error(number);
                let times = match words.next()? {
                    "always" => Times::Always,
                    "once" => Times::Once,
                    _ => return None,
                };
                Self::Inject { tree, fault: Fault { call, errno, times } }
            }
            "sync-time" => {
                let time = Duration::from_nanos(words.next()?.parse().ok()?);
                Self::SyncTime { tree, time }
            }
            _ => return None,
        };
        words.next().is_none().then_some(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_come_back_from_their_lines() {
        let tree = || LIVE.to_owned();
        let mut requests = vec![
            Request::Cut { tree: tree(), keep: Keep::Prefix, seed: u64::MAX },
            Request::Drop { tree: "cut-3".to_owned() },
            Request::Heal { tree: tree() },
            Request::SyncTime { tree: tree(), time: Duration::from_millis(3) },
        ];
        for (_, call) in CALLS {
            for (errno, times) in [(Errno::DQUOT, Times::Always), (Errno::ROFS, Times::Once)] {
                let fault = Fault { call, errno, times };
                requests.push(Request::Inject { tree: tree(), fault });
            }
        }
        for request in requests {
            assert_eq!(Request::parse(&request.to_string()), Some(request));
        }
        for line in ["", "cut", "cut live some 1", "drop live now", "inject live write 0 once"] {
            assert_eq!(Request::parse(line), None, "{line}");
        }
    }
}
