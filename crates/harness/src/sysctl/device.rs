//! The kernel's limits on the dirty pages of one device: `/sys/class/bdi/MAJOR:MINOR`.
//!
//! For a disk of our own alone, so whatever it is told harms nobody else. A loop device keeps its
//! limits when its disk is gone: they are put back like all others.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A device's number, as the kernel writes it: `7:0`.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct DeviceNumber {
    major: u32,
    minor: u32,
}

impl DeviceNumber {
    /// The device that `st_dev` or `st_rdev` of a file names.
    pub fn from_dev(dev: u64) -> Self {
        Self { major: rustix::fs::major(dev), minor: rustix::fs::minor(dev) }
    }
}

impl FromStr for DeviceNumber {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |part: &str| {
            let plain = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
            plain.then(|| part.parse::<u32>().ok()).flatten()
        };
        text.split_once(':')
            .and_then(|(major, minor)| Some((number(major)?, number(minor)?)))
            .map(|(major, minor)| Self { major, minor })
            .ok_or_else(|| format!("{text:?} is not a device number such as 7:0"))
    }
}

impl TryFrom<String> for DeviceNumber {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<DeviceNumber> for String {
    fn from(number: DeviceNumber) -> Self {
        number.to_string()
    }
}

impl fmt::Display for DeviceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

/// A part of the machine's dirty limit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Share {
    /// Bytes; the kernel turns them into a share of the limit at this moment, and rounds.
    Bytes(u64),
    /// Percent of the limit, 0 to 100.
    Percent(u64),
}

/// What a device of our own may have of the dirty limit. What is `None` stays as it was found.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct DeviceLimits {
    /// The most it may have: `max_bytes` or `max_ratio`.
    pub max: Option<Share>,
    /// What it may always have: `min_bytes` or `min_ratio`.
    pub min: Option<Share>,
    /// Whether its own limit holds even while the machine is far below its: `strict_limit`.
    pub strict: Option<bool>,
}

impl DeviceLimits {
    /// Whether nothing is asked for.
    pub fn is_empty(&self) -> bool {
        self.asked().is_empty()
    }

    /// Each file to write and its value, in an order in which the kernel refuses none for the sake
    /// of the one that is written after it.
    pub(super) fn writes(&self) -> Vec<(&'static str, u64)> {
        let mut writes = Vec::new();
        if self.max.is_some() && self.min.is_some() {
            // The most may not be less than the least, not even for a moment.
            writes.push(("min_ratio", 0));
        }
        writes.extend(self.asked());
        writes
    }

    /// Each file and what it is to say in the end.
    pub(super) fn asked(&self) -> Vec<(&'static str, u64)> {
        let share = |share: Share, bytes, percent| match share {
            Share::Bytes(value) => (bytes, value),
            Share::Percent(value) => (percent, value),
        };
        let max = self.max.map(|max| share(max, "max_bytes", "max_ratio"));
        let min = self.min.map(|min| share(min, "min_bytes", "min_ratio"));
        let strict = self.strict.map(|strict| ("strict_limit", u64::from(strict)));
        [max, min, strict].into_iter().flatten().collect()
    }
}

/// Whether the kernel took what was asked: exactly, but for bytes, which it keeps as a millionth of
/// a limit that moves.
pub(super) fn is_taken(file: &str, asked: u64, found: u64) -> bool {
    let slack = if file.ends_with("_bytes") { (asked / 100).max(64 * 1024) } else { 0 };
    asked.abs_diff(found) <= slack
}

/// The files that hold all there is to know, the first that exists of each row: the others are
/// views of them. `_fine` (since Linux 6.2) counts millionths, so that nothing is rounded away.
pub(super) const KEPT: [&[&str]; 3] =
    [&["max_ratio_fine", "max_ratio"], &["min_ratio_fine", "min_ratio"], &["strict_limit"]];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_leads_nowhere_else() {
        assert_eq!("7:0".parse(), Ok(DeviceNumber { major: 7, minor: 0 }));
        assert_eq!("253:16".parse::<DeviceNumber>().unwrap().to_string(), "253:16");
        for text in ["", "7", ":", "7:", ":0", "../7:0", "7:0/..", "+7:0", "7:0:0", "7:4294967296"]
        {
            assert!(text.parse::<DeviceNumber>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_least_never_stands_above_the_most() {
        let mut limits = DeviceLimits::default();
        assert!(limits.writes().is_empty() && limits.is_empty());
        limits.min = Some(Share::Percent(60));
        assert_eq!(limits.writes(), [("min_ratio", 60)]);
        limits.max = Some(Share::Bytes(1 << 20));
        limits.strict = Some(true);
        let after = [("max_bytes", 1 << 20), ("min_ratio", 60), ("strict_limit", 1)];
        assert_eq!(limits.asked(), after);
        assert_eq!(limits.writes()[0], ("min_ratio", 0));
        assert_eq!(limits.writes()[1..], after);
    }

    #[test]
    fn bytes_are_taken_roughly_and_the_rest_exactly() {
        assert!(is_taken("max_bytes", 256 << 20, (256 << 20) - 4096));
        assert!(!is_taken("max_bytes", 256 << 20, 250 << 20));
        assert!(is_taken("max_ratio", 10, 10) && !is_taken("max_ratio", 10, 11));
    }
}
