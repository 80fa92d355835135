//! A broker's own configuration (`broker.conf` of `RocketMQ`) as a strategy.
//!
//! What is not set has `RocketMQ`'s default. Two things differ from a broker in any case: the space
//! of a segment is reserved (a broker's files are sparse), because a mapping of space that is not
//! there ends the process when the disk is full; and one staging buffer stands for a pool.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use super::broker_keys::UNUSED;
use super::library;
use super::properties::{self, Place, Property};
use super::scalar::{self, quoted};
use super::steps::LONGEST_MS;
use super::strategies::{MOST_PAGES, least_staging_bytes};
use super::workloads::{MESSAGE_LIMIT_BYTES, RECORD_OVERHEAD_BYTES};
use super::{Finding, Io, Level, Prealloc, ProfileErrors, Settings, Strategy, Sweep};

/// What a `broker.conf` says of how messages become durable.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct BrokerConf {
    /// The strategy, called [`Self::STRATEGY`].
    pub strategy: Strategy,
    /// Bytes of a segment of the log (`mappedFileSizeCommitLog`).
    pub segment_bytes: u64,
    /// What of the file is not known, has no effect or another one here, by position.
    pub notes: Vec<Finding>,
    /// Where the segment's size stands, or where it should.
    segment_at: Place,
    file_name: String,
    text: String,
}

impl BrokerConf {
    /// The name of the strategy.
    pub const STRATEGY: &str = "broker-conf";

    /// Reads `text`, Java's syntax of properties; `file_name` only stands before each finding.
    ///
    /// # Errors
    ///
    /// All values that are none of their kind, and all pairs that a broker cannot have or loses
    /// messages with, by position. Text above 256 KiB, and what has thousands of keys, is
    /// refused.
    pub fn parse(file_name: &str, text: &str) -> Result<Self, ProfileErrors> {
        let named = |findings: Vec<Finding>| {
            let mut findings: Vec<Finding> = findings
                .into_iter()
                .map(|found| Finding { file_name: file_name.to_owned(), ..found })
                .collect();
            findings.sort_by_key(|found| (found.line, found.column));
            // A value that several settings are made of is told of once.
            findings.dedup();
            findings
        };
        let properties =
            checked(text).map_err(|finding| ProfileErrors { findings: named(vec![finding]) })?;
        let mut reader = Reader::new(properties);
        let read = reader.read();
        let notes = named(reader.findings);
        match read {
            Some((settings, segment_bytes))
                if notes.iter().all(|found| found.level != Level::Error) =>
            {
                Ok(Self {
                    strategy: Strategy { name: Self::STRATEGY.to_owned(), settings },
                    segment_bytes,
                    notes,
                    segment_at: reader.segment_at,
                    file_name: file_name.to_owned(),
                    text: text.to_owned(),
                })
            }
            _ => Err(ProfileErrors { findings: notes }),
        }
    }

    /// Reads the file at `path`.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or [`ProfileErrors`] for what it holds.
    pub fn load(path: &Path) -> Result<Self> {
        let text = super::read_limited(path)?;
        Ok(Self::parse(&path.display().to_string(), &text)?)
    }
}

impl Sweep {
    /// The sweep with a broker's configuration instead of its strategies and its segments' size;
    /// those that never flush stay, for comparison. The file is kept in [`Self::text`].
    ///
    /// # Errors
    ///
    /// If a message of the sweep does not fit into such a segment, or the profile and the file
    /// together are longer than a profile may be.
    pub fn with_broker_conf(self, conf: &BrokerConf) -> Result<Self, ProfileErrors> {
        let largest = self.workloads.iter().map(|workload| workload.message_bytes.largest());
        let needed = largest.max().unwrap_or(0) + RECORD_OVERHEAD_BYTES;
        let text = library::with_broker_conf(&self.text, &conf.text);
        let refused = |message| {
            let file_name = conf.file_name.clone();
            let finding = conf.segment_at.finding(Level::Error, message);
            ProfileErrors { findings: vec![Finding { file_name, ..finding }] }
        };
        if needed > conf.segment_bytes {
            return Err(refused(format!(
                "{SEGMENT}: the largest message of the sweep {} (a record of {needed} bytes) does \
                 not fit into a segment of {} bytes",
                self.name, conf.segment_bytes
            )));
        }
        if text.len() > super::yaml::TEXT_LIMIT_BYTES {
            return Err(refused("the profile and this file are too long together".to_owned()));
        }
        let never = self.strategies.into_iter();
        let never = never.filter(|strategy| matches!(strategy.settings, Settings::None { .. }));
        let strategies = never.chain([conf.strategy.clone()]).collect();
        Ok(Self { strategies, segment_bytes: conf.segment_bytes, text, ..self })
    }
}

/// The properties, unless there are more than a broker has.
fn checked(text: &str) -> Result<Vec<Property>, Finding> {
    let refused = |message| Place { line: 1, column: 1 }.finding(Level::Error, message);
    if text.len() > CONF_LIMIT_BYTES {
        let message = format!("the file has more than {CONF_LIMIT_BYTES} bytes: it is not read");
        return Err(refused(message));
    }
    let properties = properties::parse(text)?;
    if properties.len() > MOST_PROPERTIES {
        return Err(refused(format!("the file has more than {MOST_PROPERTIES} keys")));
    }
    Ok(properties)
}

/// What decides which keys count.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Mode {
    Staged,
    Sync,
    Timed,
}

#[derive(Clone, Copy, Debug)]
enum Role {
    AsyncMaster,
    Slave,
    SyncMaster,
}

struct Reader {
    /// For each key the last value.
    values: BTreeMap<String, (Place, Property)>,
    findings: Vec<Finding>,
    segment_at: Place,
}

impl Reader {
    fn new(properties: Vec<Property>) -> Self {
        let segment_at = Place { line: 1, column: 1 };
        let mut reader = Self { values: BTreeMap::new(), findings: Vec::new(), segment_at };
        for property in properties {
            let place = property.key.place;
            let key = property.key.text.clone();
            if let Some((first, _)) = reader.values.insert(key.clone(), (place, property)) {
                let first = first.line;
                reader.note(
                    place,
                    format!("{} is there twice (line {first}): this one counts", quoted(&key)),
                );
            }
        }
        reader
    }

    fn read(&mut self) -> Option<(Settings, u64)> {
        self.tell_unused();
        let sync =
            self.choice("flushDiskType", &[("ASYNC_FLUSH", false), ("SYNC_FLUSH", true)], false);
        let pool = self.flag("transientStorePoolEnable", false);
        let unmapped = self.flag("writeWithoutMmap", false);
        let warm = self.flag("warmMapedFileEnable", false);
        let segment_bytes = self.number(SEGMENT, 4096, 2_147_483_647, 1 << 30);
        self.role();
        self.fits(segment_bytes);
        let mode = match (sync, pool) {
            (Some(true), Some(false)) => Some(Mode::Sync),
            (Some(false), Some(false)) => Some(Mode::Timed),
            (Some(false), Some(true)) => Some(Mode::Staged),
            _ => None,
        };
        self.refuse_pairs(sync, pool, unmapped);
        let io = unmapped.map(|unmapped| if unmapped { Io::Positioned } else { Io::Mapped });
        // Warming writes a zero to each page of a segment before it takes appends.
        let prealloc = warm.map(|warm| if warm { Prealloc::Zero } else { Prealloc::Fallocate });
        // Those of other modes are read as well: no bad value hides behind another one.
        let sync = self.group_commit(io, prealloc);
        let timed = self.flush_realtime(io, prealloc);
        let staged = self.commit_realtime(prealloc, segment_bytes);
        let settings = match mode? {
            Mode::Sync => sync,
            Mode::Timed => timed,
            Mode::Staged => staged,
        };
        self.tell_of_mode(mode?, segment_bytes?);
        Some((settings?, segment_bytes?))
    }

    fn group_commit(&mut self, io: Option<Io>, prealloc: Option<Prealloc>) -> Option<Settings> {
        let timeout = self.millis("syncFlushTimeout", 1, 5000);
        Some(Settings::GroupCommit {
            timeout: timeout?,
            gather: Duration::ZERO,
            siblings: 5,
            // A thread of its own runs every flush there.
            lead: false,
            io: io?,
            prealloc: prealloc?,
        })
    }

    fn flush_realtime(&mut self, io: Option<Io>, prealloc: Option<Prealloc>) -> Option<Settings> {
        let interval = self.millis("flushIntervalCommitLog", 1, 500);
        let least_pages = self.number("flushCommitLogLeastPages", 0, MOST_PAGES, 4);
        let thorough = self.millis("flushCommitLogThoroughInterval", 0, 10_000);
        let timed = self.flag(TIMED, true);
        let wake = self.flag("wakeFlushWhenPutMessage", false);
        Some(Settings::FlushRealtime {
            interval: interval?,
            least_pages: least_pages?,
            thorough: thorough?,
            timed: timed? || !wake?,
            io: io?,
            prealloc: prealloc?,
        })
    }

    fn commit_realtime(
        &mut self,
        prealloc: Option<Prealloc>,
        segment_bytes: Option<u64>,
    ) -> Option<Settings> {
        let commit = self.millis("commitIntervalCommitLog", 1, 200);
        let commit_least_pages = self.number("commitCommitLogLeastPages", 0, MOST_PAGES, 4);
        let commit_thorough = self.millis("commitCommitLogThoroughInterval", 0, 200);
        let flush = self.flush_realtime(Some(Io::Positioned), prealloc);
        let buffers = self.number("transientStorePoolSize", 1, 1024, 5);
        let Settings::FlushRealtime { interval, least_pages, thorough, io, prealloc, .. } = flush?
        else {
            return None;
        };
        Some(Settings::CommitRealtime {
            commit: commit?,
            commit_least_pages: commit_least_pages?,
            commit_thorough: commit_thorough?,
            interval,
            least_pages,
            thorough,
            staging_bytes: staging_bytes(buffers?, segment_bytes?),
            io,
            prealloc,
        })
    }

    /// Tells what of the mode is other than it seems, and which keys only count in other modes.
    fn tell_of_mode(&mut self, mode: Mode, segment_bytes: u64) {
        let timed = self.flag(TIMED, true);
        let wake = self.flag("wakeFlushWhenPutMessage", false);
        if (mode, timed, wake) == (Mode::Timed, Some(false), Some(false)) {
            let message = format!(
                "{TIMED}=false changes nothing without wakeFlushWhenPutMessage=true, as in \
                 RocketMQ 5: nothing wakes the flush before its interval is over (4.x woke it with \
                 each message)"
            );
            self.note_at(TIMED, message);
        }
        let buffers = self.number("transientStorePoolSize", 1, 1024, 5);
        if let (Mode::Staged, Some(buffers)) = (mode, buffers)
            && staging_bytes(buffers, segment_bytes) != buffers * segment_bytes
        {
            let message = format!(
                "the pool of {buffers} buffers with {segment_bytes} bytes each is one staging \
                 buffer of {} bytes here",
                staging_bytes(buffers, segment_bytes)
            );
            self.note_at("transientStorePoolEnable", message);
        }
        let with = match mode {
            Mode::Staged => "transientStorePoolEnable=true",
            Mode::Sync => "flushDiskType=SYNC_FLUSH",
            Mode::Timed => "flushDiskType=ASYNC_FLUSH and no transient pool",
        };
        for (key, _) in MODES.iter().filter(|(_, modes)| !modes.contains(&mode)) {
            self.note_at(key, format!("`{key}` has no effect with {with}"));
        }
    }

    fn role(&mut self) {
        let roles = [
            ("ASYNC_MASTER", Role::AsyncMaster),
            ("SYNC_MASTER", Role::SyncMaster),
            ("SLAVE", Role::Slave),
        ];
        let role = self.choice("brokerRole", &roles, Role::AsyncMaster);
        let Some((at, property)) = self.values.get("brokerRole") else { return };
        let (key_at, value_at) = (*at, property.value.place);
        match role {
            Some(Role::Slave) => self.error(
                value_at,
                "brokerRole=SLAVE: a slave takes no messages from producers; give the \
                 configuration of its master"
                    .to_owned(),
            ),
            Some(Role::SyncMaster) => self.note(
                key_at,
                "brokerRole=SYNC_MASTER has no effect here: nothing is replicated".to_owned(),
            ),
            Some(Role::AsyncMaster) | None => {}
        }
    }

    /// Complains about messages that no segment holds, unless both sizes are the defaults.
    fn fits(&mut self, segment_bytes: Option<u64>) {
        if let Some((_, property)) = self.values.get(SEGMENT) {
            self.segment_at = property.value.place;
        }
        let message = self.number("maxMessageSize", 10, 2_147_483_647, MESSAGE_LIMIT_BYTES);
        let Some((at, property)) = self.values.get("maxMessageSize") else { return };
        let (key_at, value_at) = (*at, property.value.place);
        let (Some(message), Some(segment)) = (message, segment_bytes) else { return };
        if message + RECORD_OVERHEAD_BYTES > segment {
            let text = format!(
                "maxMessageSize: a message of {message} bytes does not fit into a segment of \
                 {segment} bytes ({SEGMENT}): RocketMQ answers PUT_OK and does not store it"
            );
            self.error(value_at, text);
        } else {
            self.note(
                key_at,
                "`maxMessageSize` has no effect here: a sweep's workloads say how \
                               long messages are"
                    .to_owned(),
            );
        }
    }

    /// Complains about switches that are not to be on together.
    fn refuse_pairs(&mut self, sync: Option<bool>, pool: Option<bool>, unmapped: Option<bool>) {
        let pairs = [
            (
                sync,
                "flushDiskType",
                "SYNC_FLUSH",
                "a message waits for the commit thread as well, about 200 ms, and before RocketMQ \
                 5.2 it always timed out (apache/rocketmq#7523)",
            ),
            (unmapped, "writeWithoutMmap", "true", "RocketMQ then has no pool"),
        ];
        for (other, key, value, why) in pairs {
            if let (Some(true), Some(true)) = (pool, other)
                && let Some((_, property)) = self.values.get("transientStorePoolEnable")
            {
                let at = property.value.place;
                let line = self.values.get(key).map_or(at.line, |(place, _)| place.line);
                let message = format!(
                    "transientStorePoolEnable=true and {key}={value} (line {line}) exclude each \
                     other: {why}"
                );
                self.error(at, message);
            }
        }
    }

    /// Lists the keys that count nowhere.
    fn tell_unused(&mut self) {
        let known: Vec<&str> =
            MODES.iter().map(|(key, _)| *key).chain(SWITCHES).chain(UNUSED).collect();
        let unused: Vec<(Place, String)> = self
            .values
            .iter()
            .filter(|(key, _)| {
                !SWITCHES.contains(&key.as_str()) && !MODES.iter().any(|(mode, _)| mode == key)
            })
            .map(|(key, (at, _))| (*at, key.clone()))
            .collect();
        for (at, key) in unused {
            let key_name = quoted(&key);
            let message = if UNUSED.contains(&key.as_str()) {
                format!("{key_name} has no effect here")
            } else {
                match scalar::closest(&key, &known) {
                    Some(name) => {
                        format!("{key_name} is not known here; did you mean {}?", quoted(name))
                    }
                    None => format!("{key_name} is not known here"),
                }
            };
            self.note(at, message);
        }
    }

    fn millis(&mut self, key: &str, least: u64, default: u64) -> Option<Duration> {
        self.number(key, least, LONGEST_MS, default).map(Duration::from_millis)
    }

    fn number(&mut self, key: &str, least: u64, most: u64, default: u64) -> Option<u64> {
        self.value(key, default, |text| scalar::integer(text, &(least..=most)))
    }

    fn flag(&mut self, key: &str, default: bool) -> Option<bool> {
        self.value(key, default, |text| match text.to_ascii_lowercase().as_str() {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(format!("{} is not a choice (have: true, false)", quoted(text))),
        })
    }

    fn choice<T: Copy>(&mut self, key: &str, choices: &[(&str, T)], default: T) -> Option<T> {
        self.value(key, default, |text| {
            let found = choices.iter().find(|(name, _)| text == *name);
            found.map(|(_, value)| *value).ok_or_else(|| {
                let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
                format!("{} is not a choice ({})", quoted(text), scalar::have(text, &names))
            })
        })
    }

    fn value<T>(
        &mut self,
        key: &str,
        default: T,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let Some((_, property)) = self.values.get(key) else { return Some(default) };
        let (text, at) = (&property.value.text, property.value.place);
        // RocketMQ passes over a value that it cannot read, and so it would go unnoticed.
        parse(text).map_err(|message| self.error(at, format!("{key}: {message}"))).ok()
    }

    fn error(&mut self, at: Place, message: String) {
        self.findings.push(at.finding(Level::Error, message));
    }

    /// A note where a key stands, if it does.
    fn note_at(&mut self, key: &str, message: String) {
        if let Some((at, _)) = self.values.get(key) {
            self.note(*at, message);
        }
    }

    fn note(&mut self, at: Place, message: String) {
        self.findings.push(at.finding(Level::Note, message));
    }
}

/// Bytes of the staging buffer that stands for a pool.
fn staging_bytes(buffers: u64, segment_bytes: u64) -> u64 {
    let least = least_staging_bytes(segment_bytes);
    (buffers * segment_bytes).clamp(least, STAGING_LIMIT_BYTES.max(least))
}

const SEGMENT: &str = "mappedFileSizeCommitLog";
const TIMED: &str = "flushCommitLogTimed";

/// A broker's file takes a few KiB.
const CONF_LIMIT_BYTES: usize = 256 << 10;
/// A broker has some three hundred.
const MOST_PROPERTIES: usize = 2000;

/// What a pool's buffers are taken for at most: what they hold before it is written is that of an
/// interval, and the rest would only be memory.
const STAGING_LIMIT_BYTES: u64 = 1 << 30;

/// The keys that count in some modes.
const MODES: [(&str, &[Mode]); 10] = [
    ("commitCommitLogLeastPages", &[Mode::Staged]),
    ("commitCommitLogThoroughInterval", &[Mode::Staged]),
    ("commitIntervalCommitLog", &[Mode::Staged]),
    ("flushCommitLogLeastPages", &[Mode::Staged, Mode::Timed]),
    ("flushCommitLogThoroughInterval", &[Mode::Staged, Mode::Timed]),
    (TIMED, &[Mode::Timed]),
    ("flushIntervalCommitLog", &[Mode::Staged, Mode::Timed]),
    ("syncFlushTimeout", &[Mode::Sync]),
    ("transientStorePoolSize", &[Mode::Staged]),
    ("wakeFlushWhenPutMessage", &[Mode::Timed]),
];

/// The keys that count in every mode.
const SWITCHES: [&str; 7] = [
    "brokerRole",
    "flushDiskType",
    SEGMENT,
    "maxMessageSize",
    "transientStorePoolEnable",
    "warmMapedFileEnable",
    "writeWithoutMmap",
];
