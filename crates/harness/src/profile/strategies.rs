//! Strategies: their kinds, the settings of each with range and default.

use std::time::Duration;

use serde_yaml::{Location, Spanned};

use super::scalar;
use super::steps::{Keys, LONGEST_MS, Reader, SWITCH};
use super::workloads::MESSAGE_LIMIT_BYTES;
use super::yaml::{Entries, Shape, Text};
use super::{Io, Prealloc, Settings, Strategy};

impl Reader {
    /// The strategies by name, those with errors as `None`.
    pub(super) fn strategies(
        &mut self,
        at: Location,
        shape: &Shape,
        segment_bytes: Option<u64>,
    ) -> Vec<(String, Option<Strategy>)> {
        let Some(shapes) = self.needed(at, "strategies", shape.strategies.as_ref()) else {
            return Vec::new();
        };
        let entries = self.names("strategies", shapes.referenced, &shapes.value);
        let named = entries.iter().map(|(name, shape)| {
            let path = format!("strategies.{}", scalar::shortened(&name.value));
            let valid_name = self.strategy_name(name);
            let settings = self.settings(path, shape, segment_bytes);
            let strategy = valid_name.zip(settings);
            let strategy = strategy.map(|(name, settings)| Strategy { name, settings });
            (name.value.clone(), strategy)
        });
        named.collect()
    }

    /// A name that no row has that is there beside the profile's own.
    fn strategy_name(&mut self, name: &Text) -> Option<String> {
        if ["canary", "raw"].contains(&name.value.as_str()) {
            let message = format!(
                "strategies: {} is the name of cells that every sweep has: give it another",
                scalar::quoted(&name.value)
            );
            self.error(name.referenced, message);
            return None;
        }
        self.name("strategies", name)
    }

    fn settings(
        &mut self,
        path: String,
        shape: &Spanned<Entries<Text>>,
        segment_bytes: Option<u64>,
    ) -> Option<Settings> {
        let keys = Keys { path, entries: &shape.value.0, beside: &[] };
        match self.kind(shape.referenced, &keys, &KINDS)? {
            "commit_realtime" => self.commit_realtime(&keys, segment_bytes),
            "flush_realtime" => self.flush_realtime(&keys),
            "group_commit" => self.group_commit(&keys),
            _ => Some(Settings::None { io: Io::Mapped }),
        }
    }

    fn commit_realtime(&mut self, keys: &Keys<'_>, segment_bytes: Option<u64>) -> Option<Settings> {
        let commit = self.millis(keys, "commit_ms", 1..=LONGEST_MS, 200);
        let commit_least_pages = self.integer(keys, "commit_least_pages", 0..=MOST_PAGES, 4);
        let commit_thorough = self.millis(keys, "commit_thorough_ms", 0..=LONGEST_MS, 200);
        let interval = self.millis(keys, "interval_ms", 1..=LONGEST_MS, 500);
        let least_pages = self.integer(keys, "least_pages", 0..=MOST_PAGES, 4);
        let thorough = self.millis(keys, "thorough_ms", 0..=LONGEST_MS, 10_000);
        let staging_bytes = self.size(keys, "staging_bytes", 4096..=4 << 30, 64 << 20);
        let io = self.choice(keys, "io", &STAGED_IOS, Io::Direct);
        let prealloc = self.choice(keys, "prealloc", &PREALLOCS, Prealloc::Fallocate);
        let text = keys.get("staging_bytes");
        if let (Some(text), Some(staging), Some(segment)) = (text, staging_bytes, segment_bytes)
            && staging < least_staging_bytes(segment)
        {
            let path = &keys.path;
            let least = least_staging_bytes(segment);
            let message = format!(
                "{path}.staging_bytes: {staging} bytes do not hold two of the largest records that \
                 the log accepts (at least {least})"
            );
            self.error(text.referenced, message);
        }
        Some(Settings::CommitRealtime {
            commit: commit?,
            commit_least_pages: commit_least_pages?,
            commit_thorough: commit_thorough?,
            interval: interval?,
            least_pages: least_pages?,
            thorough: thorough?,
            staging_bytes: staging_bytes?,
            io: io?,
            prealloc: prealloc?,
        })
    }

    fn flush_realtime(&mut self, keys: &Keys<'_>) -> Option<Settings> {
        let interval = self.millis(keys, "interval_ms", 1..=LONGEST_MS, 500);
        let least_pages = self.integer(keys, "least_pages", 0..=MOST_PAGES, 4);
        let thorough = self.millis(keys, "thorough_ms", 0..=LONGEST_MS, 10_000);
        let timed = self.choice(keys, "timed", &SWITCH, true);
        let io = self.choice(keys, "io", &IOS, Io::Mapped);
        let prealloc = self.choice(keys, "prealloc", &PREALLOCS, Prealloc::Fallocate);
        self.reserved_if_mapped(keys, io, prealloc);
        Some(Settings::FlushRealtime {
            interval: interval?,
            least_pages: least_pages?,
            thorough: thorough?,
            timed: timed?,
            io: io?,
            prealloc: prealloc?,
        })
    }

    fn group_commit(&mut self, keys: &Keys<'_>) -> Option<Settings> {
        let timeout = self.millis(keys, "timeout_ms", 1..=LONGEST_MS, 5_000);
        let gather_us = self.integer(keys, "gather_us", 0..=1_000_000_u64, 0);
        let siblings = self.integer(keys, "siblings", 0..=1024, 5);
        let lead = self.choice(keys, "lead", &SWITCH, true);
        let io = self.choice(keys, "io", &SYNC_IOS, Io::Direct);
        let prealloc = self.choice(keys, "prealloc", &PREALLOCS, Prealloc::Zero);
        self.reserved_if_mapped(keys, io, prealloc);
        Some(Settings::GroupCommit {
            timeout: timeout?,
            gather: Duration::from_micros(gather_us?),
            siblings: siblings?,
            lead: lead?,
            io: io?,
            prealloc: prealloc?,
        })
    }

    /// Complains about a mapping of space that is not reserved.
    fn reserved_if_mapped(&mut self, keys: &Keys<'_>, io: Option<Io>, prealloc: Option<Prealloc>) {
        if let (Some(Io::Mapped), Some(Prealloc::None), Some(text)) =
            (io, prealloc, keys.get("prealloc"))
        {
            let path = &keys.path;
            let message = format!(
                "{path}.prealloc: none is not possible with io: mapped, where a full disk would \
                 end the process"
            );
            self.error(text.referenced, message);
        }
    }
}

/// What the log asks of its staging buffer: a blank at a segment's end may be as long as a record.
pub(super) fn least_staging_bytes(segment_bytes: u64) -> u64 {
    let largest = MESSAGE_LIMIT_BYTES + (64 << 10);
    2 * largest.min(segment_bytes) + 8
}

/// The kinds of strategies and the keys that each takes.
const KINDS: [(&str, &[&str]); 4] = [
    (
        "commit_realtime",
        &[
            "kind",
            "commit_ms",
            "commit_least_pages",
            "commit_thorough_ms",
            "interval_ms",
            "least_pages",
            "thorough_ms",
            "staging_bytes",
            "io",
            "prealloc",
        ],
    ),
    (
        "flush_realtime",
        &["kind", "interval_ms", "least_pages", "thorough_ms", "timed", "io", "prealloc"],
    ),
    ("group_commit", &["kind", "timeout_ms", "gather_us", "siblings", "lead", "io", "prealloc"]),
    ("none", &["kind"]),
];

const IOS: [(&str, Io); 2] = [("mapped", Io::Mapped), ("positioned", Io::Positioned)];
const SYNC_IOS: [(&str, Io); 3] =
    [("direct", Io::Direct), ("positioned", Io::Positioned), ("mapped", Io::Mapped)];
const STAGED_IOS: [(&str, Io); 2] = [("direct", Io::Direct), ("positioned", Io::Positioned)];
const PREALLOCS: [(&str, Prealloc); 3] =
    [("none", Prealloc::None), ("fallocate", Prealloc::Fallocate), ("zero", Prealloc::Zero)];

/// 256 MiB: more would never be reached within a segment of the usual size.
pub(super) const MOST_PAGES: u64 = 65_536;
