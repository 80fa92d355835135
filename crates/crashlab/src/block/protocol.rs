//! What the owner of an emulated disk and the process that serves it say to each other: one line
//! each, over a socket.

use std::fmt;
use std::str::SplitWhitespace;

use crate::device::Keep;

use super::fault::Fault;
use super::timing::Timing;

/// The file that is the disk.
pub(super) const DISK: &str = "disk";
/// The line that ends a process, without an answer.
pub(super) const QUIT: &str = "quit";

/// What the owner asks. `disk` names a file: [`DISK`] or a view.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Request {
    Counters { disk: String },
    Cut { disk: String, keep: Keep, seed: u64 },
    Drop { disk: String },
    Heal { disk: String },
    Inject { disk: String, fault: Fault },
    Timing { disk: String, timing: Timing },
}

/// What a disk was asked since it began.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counters {
    /// Reads, failed ones not.
    pub reads: u64,
    /// Writes, failed ones not.
    pub writes: u64,
    /// Bytes of these writes.
    pub write_bytes: u64,
    /// Flushes, failed ones not.
    pub flushes: u64,
    /// Requests that a fault failed.
    pub failed: u64,
    /// Requests that wait now: for their time, or stuck.
    pub waiting: u64,
    /// Bytes in the volatile cache now.
    pub volatile_bytes: u64,
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Counters { disk } => write!(f, "counters {disk}"),
            Self::Cut { disk, keep, seed } => write!(f, "cut {disk} {} {seed}", keep_name(*keep)),
            Self::Drop { disk } => write!(f, "drop {disk}"),
            Self::Heal { disk } => write!(f, "heal {disk}"),
            Self::Inject { disk, fault } => write!(f, "inject {disk} {}", fault.words()),
            Self::Timing { disk, timing } => write!(f, "timing {disk} {}", timing.words()),
        }
    }
}

impl Request {
    pub(super) fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let verb = words.next()?;
        let disk = words.next()?.to_owned();
        let request = match verb {
            "counters" => Self::Counters { disk },
            "cut" => {
                let keep = keep_named(words.next()?)?;
                Self::Cut { disk, keep, seed: words.next()?.parse().ok()? }
            }
            "drop" => Self::Drop { disk },
            "heal" => Self::Heal { disk },
            "inject" => Self::Inject { disk, fault: Fault::from_words(&mut words)? },
            "timing" => Self::Timing { disk, timing: Timing::from_words(&mut words)? },
            _ => return None,
        };
        words.next().is_none().then_some(request)
    }
}

impl Counters {
    pub(super) fn words(&self) -> String {
        let Self { reads, writes, write_bytes, flushes, failed, waiting, volatile_bytes } = self;
        format!("{reads} {writes} {write_bytes} {flushes} {failed} {waiting} {volatile_bytes}")
    }

    pub(super) fn from_words(words: &mut SplitWhitespace<'_>) -> Option<Self> {
        let mut number = || words.next()?.parse().ok();
        Some(Self {
            reads: number()?,
            writes: number()?,
            write_bytes: number()?,
            flushes: number()?,
            failed: number()?,
            waiting: number()?,
            volatile_bytes: number()?,
        })
    }
}

const KEEPS: [(&str, Keep); 6] = [
    ("all", Keep::All),
    ("all-but-one", Keep::AllButOne),
    ("none", Keep::None),
    ("only-one", Keep::OnlyOne),
    ("prefix", Keep::Prefix),
    ("random", Keep::Random),
];

pub(crate) fn keep_name(keep: Keep) -> &'static str {
    KEEPS.iter().find(|(_, known)| *known == keep).map_or("none", |(name, _)| name)
}

pub(crate) fn keep_named(name: &str) -> Option<Keep> {
    KEEPS.iter().find(|(known, _)| *known == name).map(|(_, keep)| *keep)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::timing::DiskType;

    #[test]
    fn requests_come_back_from_their_lines() {
        let disk = || DISK.to_owned();
        let mut requests = vec![
            Request::Counters { disk: disk() },
            Request::Drop { disk: "cut-3".to_owned() },
            Request::Heal { disk: disk() },
            Request::Inject { disk: disk(), fault: Fault::Dead },
            Request::Timing { disk: disk(), timing: DiskType::Hdd7200.timing() },
        ];
        requests.extend(KEEPS.map(|(_, keep)| Request::Cut { disk: disk(), keep, seed: u64::MAX }));
        for request in requests {
            assert_eq!(Request::parse(&request.to_string()), Some(request));
        }
        for line in ["", "cut", "cut disk some 1", "drop disk now", "counters"] {
            assert_eq!(Request::parse(line), None, "{line}");
        }
    }

    #[test]
    fn counters_come_back_from_their_words() {
        let counters = Counters {
            reads: 1,
            writes: 2,
            write_bytes: 3,
            flushes: 4,
            failed: 5,
            waiting: 6,
            volatile_bytes: 7,
        };
        let words = counters.words();
        assert_eq!(Counters::from_words(&mut words.split_whitespace()), Some(counters));
    }
}
