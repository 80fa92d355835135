//! The steps in which a shape becomes values: look, check, and keep what is wrong.

use std::ops::RangeInclusive;
use std::time::Duration;

use serde_yaml::{Location, Spanned};

use super::library::Library;
use super::scalar::{self, quoted};
use super::yaml::{Entries, Text, place};
use super::{Finding, Level};

/// The scalars of one mapping, and how errors call it: `strategies.sync`.
pub(super) struct Keys<'a> {
    pub(super) path: String,
    pub(super) entries: &'a [(Text, Text)],
    /// Keys of the same mapping that are read elsewhere.
    pub(super) beside: &'a [&'a str],
}

impl Keys<'_> {
    /// The entries but for those read elsewhere.
    pub(super) fn own(&self) -> impl Iterator<Item = &(Text, Text)> {
        self.entries.iter().filter(|(key, _)| !self.beside.contains(&&*key.value))
    }

    /// Where a key stands.
    pub(super) fn place(&self, key: &str) -> Option<Location> {
        self.entries.iter().find(|(name, _)| name.value == key).map(|(name, _)| name.referenced)
    }

    pub(super) fn get(&self, key: &str) -> Option<&Text> {
        self.entries.iter().find(|(name, _)| name.value == key).map(|(_, value)| value)
    }
}

/// Turns shapes into values and keeps what is wrong.
///
/// Each step gives `None` if something was wrong with its value, so that no later step complains
/// about a value that nobody wrote; a key that may be missing gives its default.
pub(super) struct Reader {
    /// What was found so far, each with the index of its source.
    findings: Vec<(usize, Finding)>,
    /// The texts read so far: the profile's, and those looked up.
    sources: Vec<Source>,
    /// The index of the text that is being read.
    current: usize,
    /// How long cells are measured, once that was read.
    pub(super) measure: Option<Duration>,
    pub(super) library: Library,
}

/// Something was wrong with a value, and was told; for steps whose value may be none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told;

/// A text that is read.
pub(super) struct Source {
    /// The file, as errors name it.
    pub(super) file_name: String,
    /// Lines of that file before the text.
    pub(super) lines_before: u64,
}

impl Reader {
    pub(super) fn new(source: Source, library: Library) -> Self {
        let (findings, sources) = (Vec::new(), vec![source]);
        Self { findings, sources, current: 0, measure: None, library }
    }

    /// What was found, text after text, each by position.
    pub(super) fn into_findings(mut self) -> Vec<Finding> {
        self.findings.sort_by_key(|(source, found)| (*source, found.line, found.column));
        self.findings.into_iter().map(|(_, finding)| finding).collect()
    }

    pub(super) fn has_errors(&self) -> bool {
        self.findings.iter().any(|(_, finding)| finding.level == Level::Error)
    }

    /// Keeps a finding whose line is one of the text that is being read.
    pub(super) fn report(&mut self, finding: Finding) {
        let Source { file_name, lines_before } = &self.sources[self.current];
        let (file_name, line) = (file_name.clone(), finding.line + lines_before);
        self.findings.push((self.current, Finding { file_name, line, ..finding }));
    }

    pub(super) fn error(&mut self, at: Location, message: String) {
        self.report(place(at, message));
    }

    pub(super) fn warn(&mut self, at: Location, message: String) {
        self.report(Finding { level: Level::Warning, ..place(at, message) });
    }

    /// The line of the file that is being read.
    pub(super) fn line(&self, at: Location) -> u64 {
        at.line() + self.sources[self.current].lines_before
    }

    /// Runs `read` with errors placed in another text.
    pub(super) fn within<T>(&mut self, source: Source, read: impl FnOnce(&mut Self) -> T) -> T {
        self.sources.push(source);
        let outer = std::mem::replace(&mut self.current, self.sources.len() - 1);
        let value = read(self);
        self.current = outer;
        value
    }

    /// The value, or an error at `at`, where the key should be.
    pub(super) fn needed<'a, T>(
        &mut self,
        at: Location,
        path: &str,
        value: Option<&'a T>,
    ) -> Option<&'a T> {
        if value.is_none() {
            self.error(at, format!("{path} is missing"));
        }
        value
    }

    /// What `parse` makes of a text, or the error that it gives.
    pub(super) fn checked<T>(
        &mut self,
        path: &str,
        text: &Text,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        parse(&text.value)
            .map_err(|message| self.error(text.referenced, format!("{path}: {message}")))
            .ok()
    }

    /// As [`Self::checked`], for a key that may be missing.
    pub(super) fn optional<T>(
        &mut self,
        keys: &Keys<'_>,
        key: &str,
        default: T,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        match keys.get(key) {
            Some(text) => self.checked(&format!("{}.{key}", keys.path), text, parse),
            None => Some(default),
        }
    }

    pub(super) fn name(&mut self, path: &str, text: &Text) -> Option<String> {
        self.checked(path, text, |name| scalar::check_name(name).map(|()| name.to_owned()))
    }

    pub(super) fn integer<T>(
        &mut self,
        keys: &Keys<'_>,
        key: &str,
        range: RangeInclusive<T>,
        default: T,
    ) -> Option<T>
    where
        T: Copy + Into<u64> + TryFrom<u64>,
    {
        self.optional(keys, key, default, |text| scalar::integer(text, &range))
    }

    pub(super) fn millis(
        &mut self,
        keys: &Keys<'_>,
        key: &str,
        range: RangeInclusive<u64>,
        default: u64,
    ) -> Option<Duration> {
        self.integer(keys, key, range, default).map(Duration::from_millis)
    }

    pub(super) fn size(
        &mut self,
        keys: &Keys<'_>,
        key: &str,
        range: RangeInclusive<u64>,
        default: u64,
    ) -> Option<u64> {
        self.optional(keys, key, default, |text| scalar::size(text, &range))
    }

    pub(super) fn choice<T: Copy>(
        &mut self,
        keys: &Keys<'_>,
        key: &str,
        choices: &[(&str, T)],
        default: T,
    ) -> Option<T> {
        match keys.get(key) {
            Some(text) => self.chosen(&format!("{}.{key}", keys.path), text, choices),
            None => Some(default),
        }
    }

    pub(super) fn chosen<T: Copy>(
        &mut self,
        path: &str,
        text: &Text,
        choices: &[(&str, T)],
    ) -> Option<T> {
        self.checked(path, text, |text| {
            let found = choices.iter().find(|(name, _)| text == *name);
            found.map(|(_, value)| *value).ok_or_else(|| {
                let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
                format!("{} is not a choice ({})", quoted(text), scalar::have(text, &names))
            })
        })
    }

    /// The name of the kind, one of those with the keys that each takes; complains about keys that
    /// it does not take: those of other kinds, those of none.
    pub(super) fn kind<'a>(
        &mut self,
        at: Location,
        keys: &Keys<'_>,
        kinds: &[(&'a str, &[&str])],
    ) -> Option<&'a str> {
        let path = format!("{}.kind", keys.path);
        let kind = self.needed(at, &path, keys.get("kind"))?;
        let Some((name, allowed)) = kinds.iter().find(|(name, _)| kind.value == *name) else {
            let names: Vec<&str> = kinds.iter().map(|(name, _)| *name).collect();
            let have = scalar::have(&kind.value, &names);
            let message = format!("{path}: {} is not a kind ({have})", quoted(&kind.value));
            self.error(kind.referenced, message);
            return None;
        };
        let is_known = |key: &str| kinds.iter().any(|(_, known)| known.contains(&key));
        for (key, _) in keys.own().filter(|(key, _)| !allowed.contains(&&*key.value)) {
            if is_known(&key.value) {
                let message = format!("{}: {} has no meaning for {name}", keys.path, key.value);
                self.error(key.referenced, message);
            } else {
                self.unknown_key(&keys.path, key, allowed);
            }
        }
        Some(*name)
    }

    /// A mapping that may be missing, none of its keys unknown.
    pub(super) fn keys<'a>(
        &mut self,
        path: &str,
        entries: Option<&'a Entries<Text>>,
        allowed: &[&str],
    ) -> Keys<'a> {
        let entries = entries.map_or(&[][..], |found| &found.0);
        let keys = Keys { path: path.to_owned(), entries, beside: &[] };
        self.known(&keys, allowed);
        keys
    }

    /// Complains about keys that are not in `allowed`.
    pub(super) fn known(&mut self, keys: &Keys<'_>, allowed: &[&str]) {
        for (key, _) in keys.own().filter(|(key, _)| !allowed.contains(&&*key.value)) {
            self.unknown_key(&keys.path, key, allowed);
        }
    }

    pub(super) fn unknown_key(&mut self, path: &str, key: &Text, allowed: &[&str]) {
        let have = scalar::have(&key.value, allowed);
        let message = format!("{path}: unknown key {} ({have})", quoted(&key.value));
        self.error(key.referenced, message);
    }

    /// The named entries of a mapping: at least one, and not too many to run.
    pub(super) fn names<'a, V>(
        &mut self,
        path: &str,
        at: Location,
        map: &'a Entries<V>,
    ) -> &'a [(Text, V)] {
        self.count(path, at, map.0.len());
        map.0.get(..MOST_ENTRIES).unwrap_or(&map.0)
    }

    /// The entries of a list that must be there: at least one, not too many, none twice.
    pub(super) fn list<'a>(
        &mut self,
        at: Location,
        path: &str,
        list: Option<&'a Spanned<Vec<Text>>>,
    ) -> Option<&'a [Text]> {
        let list = self.needed(at, path, list)?;
        self.count(path, list.referenced, list.value.len());
        let entries = list.value.get(..MOST_ENTRIES).unwrap_or(&list.value);
        for (index, entry) in entries.iter().enumerate() {
            if let Some(first) = entries[..index].iter().find(|first| first.value == entry.value) {
                let (value, line) = (quoted(&entry.value), self.line(first.referenced));
                self.error(
                    entry.referenced,
                    format!("{path}: {value} is there twice (line {line})"),
                );
            }
        }
        Some(entries)
    }

    pub(super) fn count(&mut self, path: &str, at: Location, count: usize) {
        if count == 0 {
            self.error(at, format!("{path}: at least one is needed"));
        } else if count > MOST_ENTRIES {
            self.error(at, format!("{path}: {count} are too many (at most {MOST_ENTRIES})"));
        }
    }
}

pub(super) const SWITCH: [(&str, bool); 2] = [("true", true), ("false", false)];
/// An hour.
pub(super) const LONGEST_MS: u64 = 3_600_000;
/// Workloads, strategies, numbers of producers: more would not be run in a lifetime.
const MOST_ENTRIES: usize = 64;
