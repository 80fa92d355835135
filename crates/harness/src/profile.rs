//! Sweep profiles: what to run, read from YAML and checked before anything is run.
//!
//! A profile is flat: named workloads and strategies, and a matrix that names those to combine.
//! Anchors, aliases, merge keys and several documents in a file are refused. All that is wrong with
//! what the file means is reported at once, each error with its line and column.

mod reading;
mod scalar;
mod steps;
mod yaml;

use std::fmt;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::results::Kind;

/// The schema of a profile.
pub const PROFILE_SCHEMA: &str = "flushmark.profile/v1";

/// A sweep: every workload with every strategy, over and over in blocks.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Sweep {
    /// The sweep's name, which names its results too.
    pub name: String,
    /// Repetitions of all cells, 1 to 100.
    pub blocks: u32,
    /// Seeds the order of the cells and the bodies of the messages.
    pub seed: u64,
    /// Before measuring in each cell.
    pub warmup: Duration,
    /// Measuring in each cell.
    pub measure: Duration,
    /// What the whole sweep may take; blocks that would pass it are left out.
    pub budget: Duration,
    /// Bytes of a segment of the log.
    pub segment_bytes: u64,
    /// The workloads that the matrix names, in its order; at least one.
    pub workloads: Vec<Workload>,
    /// The strategies that the matrix names, in its order; at least one.
    pub strategies: Vec<Strategy>,
    /// The profile, word for word.
    pub text: String,
}

/// What producers send.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Workload {
    /// Its name in the profile.
    pub name: String,
    /// Bytes of a message's body.
    pub message_bytes: u64,
    /// Producer threads, a cell for each number; at least one, none twice.
    pub producers: Vec<u32>,
}

/// A strategy with its settings.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Strategy {
    /// Its name in the profile.
    pub name: String,
    /// What it is and how it is set.
    pub settings: Settings,
}

/// The settings that have a meaning for a kind of strategy.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Settings {
    /// Commit lane and flush lane over a staging buffer; appends always are positioned writes.
    CommitRealtime {
        /// Between two looks of the commit lane (`commitIntervalCommitLog`).
        commit: Duration,
        /// Pages that must have been filled before it commits (`commitCommitLogLeastPages`).
        commit_least_pages: u64,
        /// After which it commits whatever there is (`commitCommitLogThoroughInterval`).
        commit_thorough: Duration,
        /// Between two looks of the flush lane (`flushIntervalCommitLog`).
        interval: Duration,
        /// Pages that must have been committed before it flushes (`flushCommitLogLeastPages`).
        least_pages: u64,
        /// After which it flushes whatever there is (`flushCommitLogThoroughInterval`).
        thorough: Duration,
        /// Bytes of the staging buffer.
        staging_bytes: u64,
        /// Where they go from there: never a mapping.
        io: Io,
        /// How a segment's space is allocated.
        prealloc: Prealloc,
    },
    /// Timed flush.
    FlushRealtime {
        /// Between two looks (`flushIntervalCommitLog`).
        interval: Duration,
        /// Pages that must have been written before it flushes (`flushCommitLogLeastPages`).
        least_pages: u64,
        /// After which it flushes whatever there is (`flushCommitLogThoroughInterval`).
        thorough: Duration,
        /// Whether it sleeps its interval out, or an append wakes it (`flushCommitLogTimed`).
        timed: bool,
        /// How appends reach the page cache.
        io: Io,
        /// How a segment's space is allocated.
        prealloc: Prealloc,
    },
    /// Synchronous group commit.
    GroupCommit {
        /// How long a producer waits for its flush (`syncFlushTimeout`).
        timeout: Duration,
        /// How long a flush waits for others to join (PostgreSQL's `commit_delay`).
        gather: Duration,
        /// Waiters that must be there for that wait (PostgreSQL's `commit_siblings`).
        siblings: u64,
        /// Whether a producer that waits alone runs the flush itself.
        lead: bool,
        /// How appends reach the page cache.
        io: Io,
        /// How a segment's space is allocated.
        prealloc: Prealloc,
    },
    /// Nothing is ever flushed.
    None {
        /// How appends reach the page cache; a profile cannot set it.
        io: Io,
    },
}

impl Settings {
    /// The kind, as results name it.
    pub fn kind(&self) -> Kind {
        match self {
            Self::CommitRealtime { .. } => Kind::CommitRealtime,
            Self::FlushRealtime { .. } => Kind::FlushRealtime,
            Self::GroupCommit { .. } => Kind::GroupCommit,
            Self::None { .. } => Kind::None,
        }
    }
}

/// How appends reach the file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Io {
    /// Stores into a shared mapping, made durable by `msync`.
    Mapped,
    /// `pwrite`, made durable by `fdatasync`.
    Positioned,
    /// Whole blocks past the page cache (`O_DIRECT`), durable when the call returns (`RWF_DSYNC`).
    Direct,
}

/// How a segment's space is allocated before it takes appends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Prealloc {
    /// Not at all: blocks come with the writes, and a full disk fails one of those.
    None,
    /// `fallocate`: at once, but the first write to each block changes metadata too.
    Fallocate,
    /// Writing zeros: slower, and later writes change data only.
    Zero,
}

impl Sweep {
    /// Reads `text` and checks it; `file_name` only stands before each error.
    ///
    /// # Errors
    ///
    /// The first error of syntax, a key that does not exist included; otherwise all errors of
    /// meaning, by position. Text above 1 MiB is refused unread, and so is what nests or repeats
    /// beyond what a profile needs: no text takes long or much memory.
    pub fn parse(file_name: &str, text: &str) -> Result<Self, ProfileErrors> {
        reading::read(text).map_err(|mut errors| {
            errors.sort_by_key(|error| (error.line, error.column));
            ProfileErrors { file_name: file_name.to_owned(), errors }
        })
    }

    /// Reads a profile by its name, `root/profiles/sweeps/NAME.yaml`, or by its path.
    ///
    /// What has a `/` in it or ends with `.yaml` or `.yml` is a path.
    ///
    /// # Errors
    ///
    /// If there is no such file, with the names that there are; if it cannot be read; or
    /// [`ProfileErrors`] for what it holds.
    pub fn load(name_or_path: &str, root: &Path) -> Result<Self> {
        let given = Path::new(name_or_path);
        let has_yaml_ending = given.extension().is_some_and(|e| e == "yaml" || e == "yml");
        let path = if name_or_path.contains('/') || has_yaml_ending {
            given.to_owned()
        } else {
            named(name_or_path, &root.join(SWEEPS))?
        };
        let text = read_limited(&path)?;
        Ok(Self::parse(&path.display().to_string(), &text)?)
    }
}

/// All that is wrong with a profile; shown as a line `FILE:LINE:COLUMN: error: …` for each error.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ProfileErrors {
    file_name: String,
    errors: Vec<ProfileError>,
}

/// One thing that is wrong.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ProfileError {
    /// Line, from 1.
    pub line: u64,
    /// Column in characters, from 1.
    pub column: u64,
    /// What is wrong, what was expected, in one line.
    pub message: String,
}

impl ProfileErrors {
    /// The errors, by position; at least one.
    pub fn errors(&self) -> &[ProfileError] {
        &self.errors
    }
}

impl fmt::Display for ProfileErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, ProfileError { line, column, message }) in self.errors.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{}:{line}:{column}: error: {message}", self.file_name)?;
        }
        Ok(())
    }
}

impl std::error::Error for ProfileErrors {}

/// The file of the sweep called `name`, if there is one.
fn named(name: &str, sweeps: &Path) -> Result<PathBuf> {
    let path = sweeps.join(format!("{name}.yaml"));
    if path.is_file() {
        return Ok(path);
    }
    let mut have: Vec<String> = fs::read_dir(sweeps)
        .with_context(|| format!("cannot list the sweeps in {}", sweeps.display()))?
        .flatten()
        .map(|entry| PathBuf::from(entry.file_name()))
        .filter(|file| file.extension().is_some_and(|extension| extension == "yaml"))
        .filter_map(|file| file.file_stem()?.to_str().map(str::to_owned))
        .collect();
    have.sort();
    let have: Vec<&str> = have.iter().map(String::as_str).collect();
    bail!(
        "there is no sweep {} in {} ({}); the path of a profile has a / or ends with .yaml",
        scalar::quoted(name),
        sweeps.display(),
        scalar::have(name, &have)
    );
}

/// The file's text, unless it is larger than a profile may be, or no file at all.
fn read_limited(path: &Path) -> Result<String> {
    let at = path.display();
    // Asked before it is opened: opening a pipe waits for its other end.
    let found = fs::metadata(path).with_context(|| format!("cannot read the profile {at}"))?;
    ensure!(found.is_file(), "cannot read the profile {at}: it is not a file");
    let limit = u64::try_from(yaml::TEXT_LIMIT_BYTES).unwrap_or(u64::MAX);
    ensure!(found.len() <= limit, "the profile {at} has more than {limit} bytes: it is not read");
    let mut text = Vec::new();
    File::open(path)
        // Should it grow meanwhile, the parser sees the one byte that is too much.
        .and_then(|file| file.take(limit.saturating_add(1)).read_to_end(&mut text))
        .with_context(|| format!("cannot read the profile {at}"))?;
    String::from_utf8(text).with_context(|| format!("the profile {at} is not UTF-8 text"))
}

/// Where the named sweeps are, under the root.
const SWEEPS: &str = "profiles/sweeps";

#[cfg(test)]
mod tests;
