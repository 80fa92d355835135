//! What a profile's values mean: its range for each, its default, and what excludes what.

use std::time::Duration;

use serde_yaml::{Location, Spanned};

use super::scalar::{self, quoted};
use super::steps::{Keys, Reader};
use super::yaml::{self, Entries, Shape, Text, WorkloadShape};
use super::{
    Disk, Finding, Gates, Io, MessageBytes, PROFILE_SCHEMA, Pace, Prealloc, Settings, Slo,
    Strategy, Sweep, Sysctls, Workload,
};

/// The sweep, or everything that is wrong, in the order found.
pub(super) fn read(text: &str) -> Result<Sweep, Vec<Finding>> {
    let shape = yaml::parse(text).map_err(|error| vec![error])?;
    let mut reader = Reader::default();
    match reader.sweep(&shape, text) {
        Some(sweep) if reader.errors.is_empty() => Ok(sweep),
        _ => Err(reader.errors),
    }
}

impl Reader {
    fn sweep(&mut self, shape: &Spanned<Shape>, text: &str) -> Option<Sweep> {
        let (at, shape) = (shape.referenced, &shape.value);
        self.schema(at, shape.schema.as_ref());
        let name = self.needed(at, "name", shape.name.as_ref());
        let name = name.and_then(|name| self.name("name", name));
        let run = self.keys("run", shape.run.as_ref(), &RUN_KEYS);
        let blocks = self.integer(&run, "blocks", 1..=100, 3);
        let seed = self.integer(&run, "seed", 0..=u64::MAX, 42);
        let warmup = self.millis(&run, "warmup_ms", 0..=600_000, 300);
        let measure = self.millis(&run, "measure_ms", 1..=3_600_000, 1_200);
        let budget_s = self.integer(&run, "budget_s", 1..=604_800, 110);
        let log = self.keys("log", shape.log.as_ref(), &["segment_bytes"]);
        let segment_bytes = self.size(&log, "segment_bytes", 4096..=2_147_483_647, 128 << 20);
        let workloads = self.workloads(at, shape, segment_bytes);
        let strategies = self.strategies(at, shape, segment_bytes);
        let matrix = self.needed(at, "matrix", shape.matrix.as_ref())?;
        let (at, matrix) = (matrix.referenced, &matrix.value);
        let workloads = self.pick(at, "matrix.workloads", matrix.workloads.as_ref(), &workloads);
        let strategies =
            self.pick(at, "matrix.strategies", matrix.strategies.as_ref(), &strategies);
        Some(Sweep {
            name: name?,
            blocks: blocks?,
            seed: seed?,
            warmup: warmup?,
            measure: measure?,
            settle: Duration::ZERO,
            drain_dirty_below_bytes: 16 << 20,
            canary: false,
            budget: Duration::from_secs(budget_s?),
            segment_bytes: segment_bytes?,
            disks: vec![Disk::host()],
            sysctls: vec![Sysctls::as_found()],
            workloads,
            strategies,
            slo: Slo::default(),
            gates: Gates::default(),
            warnings: Vec::new(),
            text: text.to_owned(),
        })
    }

    fn schema(&mut self, at: Location, schema: Option<&Text>) {
        let Some(schema) = self.needed(at, "schema", schema) else {
            return;
        };
        if schema.value != PROFILE_SCHEMA {
            let found = quoted(&schema.value);
            let message =
                format!("schema: {found} is not known (this program reads: {PROFILE_SCHEMA})");
            self.error(schema.referenced, message);
        }
    }

    /// The workloads by name, those with errors as `None`.
    fn workloads(
        &mut self,
        at: Location,
        shape: &Shape,
        segment_bytes: Option<u64>,
    ) -> Vec<(String, Option<Workload>)> {
        let Some(shapes) = self.needed(at, "workloads", shape.workloads.as_ref()) else {
            return Vec::new();
        };
        let entries = self.names("workloads", shapes.referenced, &shapes.value);
        let named = entries
            .iter()
            .map(|(name, shape)| (name.value.clone(), self.workload(name, shape, segment_bytes)));
        named.collect()
    }

    fn workload(
        &mut self,
        name: &Text,
        shape: &Spanned<WorkloadShape>,
        segment_bytes: Option<u64>,
    ) -> Option<Workload> {
        let path = format!("workloads.{}", scalar::shortened(&name.value));
        let (at, shape) = (shape.referenced, &shape.value);
        let name = self.name("workloads", name);
        let message_path = format!("{path}.message_bytes");
        let message = self.needed(at, &message_path, shape.message_bytes.as_ref());
        let message_bytes = message.and_then(|text| {
            self.checked(&message_path, text, |text| scalar::size(text, &(0..=MESSAGE_LIMIT_BYTES)))
        });
        if let (Some(text), Some(message), Some(segment)) = (message, message_bytes, segment_bytes)
            && message + RECORD_OVERHEAD_BYTES > segment
        {
            let needed = message + RECORD_OVERHEAD_BYTES;
            let message = format!(
                "{message_path}: a record of it ({needed} bytes) does not fit into a segment \
                 (log.segment_bytes is {segment})"
            );
            self.error(text.referenced, message);
        }
        let producers = self.producers(at, &path, shape.producers.as_ref());
        Some(Workload {
            name: name?,
            message_bytes: MessageBytes::one(message_bytes?),
            producers: producers?,
            window: 1,
            pace: Pace::Closed,
            reader: false,
        })
    }

    fn producers(
        &mut self,
        at: Location,
        path: &str,
        list: Option<&Spanned<Vec<Text>>>,
    ) -> Option<Vec<u32>> {
        let path = format!("{path}.producers");
        let list = self.list(at, &path, list)?;
        let numbers = list
            .iter()
            .map(|text| self.checked(&path, text, |text| scalar::integer(text, &(1..=1024_u32))));
        // All are read before the first bad one decides.
        numbers.collect::<Vec<_>>().into_iter().collect()
    }

    /// The strategies by name, those with errors as `None`.
    fn strategies(
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
            let valid_name = self.name("strategies", name);
            let settings = self.settings(path, shape, segment_bytes);
            let strategy = valid_name.zip(settings);
            let strategy = strategy.map(|(name, settings)| Strategy { name, settings });
            (name.value.clone(), strategy)
        });
        named.collect()
    }

    fn settings(
        &mut self,
        path: String,
        shape: &Spanned<Entries<Text>>,
        segment_bytes: Option<u64>,
    ) -> Option<Settings> {
        let keys = Keys { path, entries: &shape.value.0 };
        let kind_path = format!("{}.kind", keys.path);
        let kind = self.needed(shape.referenced, &kind_path, keys.get("kind"))?;
        let Some((name, allowed)) = KINDS.iter().find(|(name, _)| kind.value == *name) else {
            let names: Vec<&str> = KINDS.iter().map(|(name, _)| *name).collect();
            let have = scalar::have(&kind.value, &names);
            let message = format!("{kind_path}: {} is not a kind ({have})", quoted(&kind.value));
            self.error(kind.referenced, message);
            return None;
        };
        self.only(&keys, name, allowed);
        match *name {
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

    /// Complains about the keys that `kind` does not take: those of other kinds, those of none.
    fn only(&mut self, keys: &Keys<'_>, kind: &str, allowed: &[&str]) {
        let is_known = |key: &str| KINDS.iter().any(|(_, known)| known.contains(&key));
        for (key, _) in keys.entries.iter().filter(|(key, _)| !allowed.contains(&&*key.value)) {
            if is_known(&key.value) {
                let message = format!("{}: {} has no meaning for {kind}", keys.path, key.value);
                self.error(key.referenced, message);
            } else {
                self.unknown_key(&keys.path, key, allowed);
            }
        }
    }
}

/// What the log asks of its staging buffer: a blank at a segment's end may be as long as a record.
fn least_staging_bytes(segment_bytes: u64) -> u64 {
    let largest = MESSAGE_LIMIT_BYTES + (64 << 10);
    2 * largest.min(segment_bytes) + 8
}

const SWITCH: [(&str, bool); 2] = [("true", true), ("false", false)];
const RUN_KEYS: [&str; 5] = ["blocks", "seed", "warmup_ms", "measure_ms", "budget_s"];

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

/// RocketMQ's `maxMessageSize`.
const MESSAGE_LIMIT_BYTES: u64 = 4 << 20;
/// What a record has around its body, rounded up: fixed fields, hosts, topic, properties.
const RECORD_OVERHEAD_BYTES: u64 = 200;
/// An hour.
const LONGEST_MS: u64 = 3_600_000;
/// 256 MiB: more would never be reached within a segment of the usual size.
const MOST_PAGES: u64 = 65_536;
