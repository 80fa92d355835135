//! Sweep profiles: what to run, read from YAML and checked before anything is run.
//!
//! A profile is flat: named disks, kernel settings, workloads and strategies, and a matrix that
//! names those to combine. What a matrix names and the profile does not define is looked up in the
//! files `profiles/disks`, `profiles/sysctls` and `profiles/workloads`. Anchors, aliases and merge
//! keys are refused, and several documents in a file but for those that [`Sweep::text`] has. All
//! that is wrong with what the file means is reported at once, each error with its line and column.

mod broker_conf;
mod broker_keys;
mod disks;
mod library;
mod model;
mod properties;
mod reading;
mod scalar;
mod steps;
mod strategies;
mod sysctls;
mod workloads;
mod yaml;

use std::fmt;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

pub use broker_conf::BrokerConf;
pub use model::{
    Burst, Disk, Gates, Io, MessageBytes, Pace, Prealloc, Settings, Share, Slo, Strategy, Sweep,
    Sysctls, Workload,
};

pub use crate::disks::DiskSpec;
pub use crate::results::Arrival;

/// The schema of a profile.
pub const PROFILE_SCHEMA: &str = "flushmark.profile/v1";

impl Sweep {
    /// Reads `text` and checks it; `file_name` only stands before each error.
    ///
    /// # Errors
    ///
    /// The first error of syntax, a key that does not exist included; otherwise all errors of
    /// meaning, by position. Text above 1 MiB is refused unread, and so is what nests or repeats
    /// beyond what a profile needs: no text takes long or much memory.
    pub fn parse(file_name: &str, text: &str) -> Result<Self, ProfileErrors> {
        Self::read(file_name, text, None)
    }

    /// As [`Self::parse`], with what the text does not define looked up in `root/profiles`.
    ///
    /// # Errors
    ///
    /// As there; those in a file that was looked up have its name, and come after the text's own.
    pub fn parse_within(file_name: &str, text: &str, root: &Path) -> Result<Self, ProfileErrors> {
        Self::read(file_name, text, Some(root))
    }

    fn read(file_name: &str, text: &str, root: Option<&Path>) -> Result<Self, ProfileErrors> {
        let sweep =
            reading::read(file_name, text, root).map_err(|findings| ProfileErrors { findings })?;
        match library::broker_conf(text) {
            Some(conf) => sweep.with_broker_conf(&BrokerConf::parse(BROKER_CONF, &conf)?),
            None => Ok(sweep),
        }
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
        Ok(Self::parse_within(&path.display().to_string(), &text, root)?)
    }
}

/// All that was found in a profile with an error; shown as a line `FILE:LINE:COLUMN: error: …` (or
/// `warning`) for each.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ProfileErrors {
    findings: Vec<Finding>,
}

/// One thing that is wrong, or probably not meant.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Finding {
    /// The file, as errors name it.
    pub file_name: String,
    /// Line, from 1.
    pub line: u64,
    /// Column in characters, from 1.
    pub column: u64,
    /// How bad it is.
    pub level: Level,
    /// What is wrong, what was expected, in one line.
    pub message: String,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Level {
    /// The profile is refused.
    Error,
    /// It is taken; something else in it is not.
    Note,
    /// It is taken, but probably not what was meant.
    Warning,
}

impl ProfileErrors {
    /// The errors and warnings, by position; at least one error.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file_name, line, column, level, message } = self;
        let level = match level {
            Level::Error => "error",
            Level::Note => "note",
            Level::Warning => "warning",
        };
        write!(f, "{file_name}:{line}:{column}: {level}: {message}")
    }
}

impl fmt::Display for ProfileErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, finding) in self.findings.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{finding}")?;
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

/// How errors name a broker's configuration that is kept behind a profile.
const BROKER_CONF: &str = "broker.conf";

/// Where the named sweeps are, under the root.
const SWEEPS: &str = "profiles/sweeps";

#[cfg(test)]
mod tests;
