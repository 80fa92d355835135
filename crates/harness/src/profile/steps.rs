//! The steps in which a shape becomes values: look, check, and keep what is wrong.

use std::ops::RangeInclusive;
use std::time::Duration;

use serde_yaml::{Location, Spanned};

use super::Finding;
use super::scalar::{self, quoted};
use super::yaml::{Entries, Text, place};

/// The scalars of one mapping, and how errors call it: `strategies.sync`.
pub(super) struct Keys<'a> {
    pub(super) path: String,
    pub(super) entries: &'a [(Text, Text)],
}

impl Keys<'_> {
    pub(super) fn get(&self, key: &str) -> Option<&Text> {
        self.entries.iter().find(|(name, _)| name.value == key).map(|(_, value)| value)
    }
}

/// Turns shapes into values and keeps what is wrong.
///
/// Each step gives `None` if something was wrong with its value, so that no later step complains
/// about a value that nobody wrote; a key that may be missing gives its default.
#[derive(Default)]
pub(super) struct Reader {
    pub(super) errors: Vec<Finding>,
}

impl Reader {
    pub(super) fn error(&mut self, at: Location, message: String) {
        self.errors.push(place(at, message));
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
        self.optional(keys, key, default, |text| {
            let found = choices.iter().find(|(name, _)| text == *name);
            found.map(|(_, value)| *value).ok_or_else(|| {
                let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
                format!("{} is not a choice ({})", quoted(text), scalar::have(text, &names))
            })
        })
    }

    /// A mapping that may be missing, none of its keys unknown.
    pub(super) fn keys<'a>(
        &mut self,
        path: &str,
        entries: Option<&'a Entries<Text>>,
        allowed: &[&str],
    ) -> Keys<'a> {
        let keys = Keys { path: path.to_owned(), entries: entries.map_or(&[], |found| &found.0) };
        for (key, _) in keys.entries.iter().filter(|(key, _)| !allowed.contains(&&*key.value)) {
            self.unknown_key(path, key, allowed);
        }
        keys
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
                let (value, line) = (quoted(&entry.value), first.referenced.line());
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

    /// What the names in a list of the matrix stand for.
    pub(super) fn pick<T: Clone>(
        &mut self,
        at: Location,
        path: &str,
        list: Option<&Spanned<Vec<Text>>>,
        defined: &[(String, Option<T>)],
    ) -> Vec<T> {
        let mut picked = Vec::new();
        for wanted in self.list(at, path, list).unwrap_or_default() {
            if let Some((_, value)) = defined.iter().find(|(name, _)| *name == wanted.value) {
                picked.extend(value.clone());
            } else {
                let names: Vec<&str> = defined.iter().map(|(name, _)| name.as_str()).collect();
                let have = scalar::have(&wanted.value, &names);
                let message = format!("{path}: {} is not defined ({have})", quoted(&wanted.value));
                self.error(wanted.referenced, message);
            }
        }
        picked
    }
}

/// Workloads, strategies, numbers of producers: more would not be run in a lifetime.
const MOST_ENTRIES: usize = 64;
