//! What a profile may set, and which values and combinations the kernel takes.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// A setting of the kernel's write-back: a file `/proc/sys/vm/dirty_*`. Nothing else is ever set.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub enum Key {
    /// Dirty bytes above which the kernel writes back on its own account.
    #[serde(rename = "dirty_background_bytes")]
    BackgroundBytes,
    /// The same, in percent of the memory available.
    #[serde(rename = "dirty_background_ratio")]
    BackgroundRatio,
    /// Dirty bytes above which whoever writes must wait.
    #[serde(rename = "dirty_bytes")]
    Bytes,
    /// Age from which dirty pages are written back, in hundredths of a second.
    #[serde(rename = "dirty_expire_centisecs")]
    ExpireCentisecs,
    /// Where writers must wait, in percent of the memory available.
    #[serde(rename = "dirty_ratio")]
    Ratio,
    /// How often the kernel looks for old pages, in hundredths of a second; 0: never.
    #[serde(rename = "dirty_writeback_centisecs")]
    WritebackCentisecs,
}

impl Key {
    /// Every setting there is.
    pub const ALL: [Self; 6] = [
        Self::BackgroundBytes,
        Self::BackgroundRatio,
        Self::Bytes,
        Self::ExpireCentisecs,
        Self::Ratio,
        Self::WritebackCentisecs,
    ];

    /// The setting of a name such as `dirty_ratio`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|key| key.name() == name)
    }

    /// Its file in `/proc/sys/vm`, and its key in a profile.
    pub fn name(self) -> &'static str {
        match self {
            Self::BackgroundBytes => "dirty_background_bytes",
            Self::BackgroundRatio => "dirty_background_ratio",
            Self::Bytes => "dirty_bytes",
            Self::ExpireCentisecs => "dirty_expire_centisecs",
            Self::Ratio => "dirty_ratio",
            Self::WritebackCentisecs => "dirty_writeback_centisecs",
        }
    }

    /// The same limit in the other unit: the kernel keeps one of the two and reads the other as 0.
    pub fn twin(self) -> Option<Self> {
        match self {
            Self::BackgroundBytes => Some(Self::BackgroundRatio),
            Self::BackgroundRatio => Some(Self::BackgroundBytes),
            Self::Bytes => Some(Self::Ratio),
            Self::Ratio => Some(Self::Bytes),
            Self::ExpireCentisecs | Self::WritebackCentisecs => None,
        }
    }

    /// What the kernel takes, both ends included; anything else is `EINVAL`.
    pub fn range(self) -> (u64, u64) {
        let page = u64::try_from(rustix::param::page_size()).expect("a page fits any u64");
        match self {
            Self::BackgroundBytes => (1, u64::MAX),
            Self::BackgroundRatio | Self::Ratio => (0, 100),
            Self::Bytes => (2 * page, u64::MAX),
            // An int in the kernel.
            Self::ExpireCentisecs | Self::WritebackCentisecs => (0, 0x7fff_ffff),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Values for some or all of the settings, of each limit in one unit only.
///
/// Empty, it asks for nothing: the kernel stays as it was found. It is also what was found: then
/// each limit is there once, by the unit that is active.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(try_from = "BTreeMap<Key, u64>", into = "BTreeMap<Key, u64>")]
pub struct DirtySettings {
    values: BTreeMap<Key, u64>,
}

impl DirtySettings {
    /// Adds a value; a second one for the same key replaces the first.
    ///
    /// # Errors
    ///
    /// What the kernel would refuse, or silently undo: a value out of its range, or a limit that
    /// was already given in its other unit. Nothing is added then, and more may be tried.
    pub fn set(&mut self, key: Key, value: u64) -> Result<(), Refused> {
        let (min, max) = key.range();
        if !(min..=max).contains(&value) {
            return Err(Refused::OutOfRange { key, value, min, max });
        }
        if let Some(twin) = key.twin().filter(|twin| self.values.contains_key(twin)) {
            return Err(Refused::Twins { key, twin });
        }
        self.values.insert(key, value);
        Ok(())
    }

    /// The value for a key, if there is one.
    pub fn get(&self, key: Key) -> Option<u64> {
        self.values.get(&key).copied()
    }

    /// Each key that has a value.
    pub fn iter(&self) -> impl Iterator<Item = (Key, u64)> {
        self.values.iter().map(|(key, value)| (*key, *value))
    }

    /// Whether nothing is asked for.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// These values, and for what they say nothing of, those of `found`.
    #[must_use]
    pub fn over(&self, found: &Self) -> Self {
        let said = |key: &Key| {
            self.values.contains_key(key)
                || key.twin().is_some_and(|twin| self.values.contains_key(&twin))
        };
        let rest = found.values.iter().filter(|(key, _)| !said(key));
        let values = rest.chain(&self.values).map(|(key, value)| (*key, *value)).collect();
        Self { values }
    }

    /// Whether each limit and each interval has a value: nothing is left open.
    pub(super) fn is_complete(&self) -> bool {
        let has = |key: Key| self.values.contains_key(&key);
        Key::ALL.into_iter().all(|key| has(key) || key.twin().is_some_and(has))
    }

    /// What the kernel takes, but will not do as one might think; one sentence each.
    ///
    /// `available_bytes` is the memory of which the ratios are percentages (about what is free and
    /// in the page cache). Without it a limit in bytes and one in percent cannot be compared.
    pub fn warnings(&self, available_bytes: Option<u64>) -> Vec<Warning> {
        let mut warnings = Vec::new();
        let mut warn = |key, words: String| warnings.push(Warning { key, words });
        let background = self.limit(Key::BackgroundBytes, Key::BackgroundRatio);
        let limit = self.limit(Key::Bytes, Key::Ratio);
        if let (Some(background), Some(limit)) = (background, limit)
            && background.reaches(limit, available_bytes)
        {
            let key = match background {
                Limit::Bytes(_) => Key::BackgroundBytes,
                Limit::Percent(_) => Key::BackgroundRatio,
            };
            let half = limit.half();
            let words = "the kernel will use half the limit";
            warn(key, format!("background {background} >= limit {limit}: {words} ({half})"));
        }
        if self.get(Key::Ratio) == Some(0) {
            let words = "limit 0%: every write waits until it is on the disk";
            warn(Key::Ratio, words.to_owned());
        }
        let key = Key::WritebackCentisecs;
        if self.get(key) == Some(0) {
            warn(key, format!("{key} 0: pages are never written back for their age"));
        }
        warnings
    }

    fn limit(&self, bytes: Key, ratio: Key) -> Option<Limit> {
        let in_bytes = self.get(bytes).map(Limit::Bytes);
        in_bytes.or_else(|| self.get(ratio).map(Limit::Percent))
    }

    /// When writers must wait, if that is set.
    pub fn dirty_limit(&self) -> Option<Limit> {
        self.limit(Key::Bytes, Key::Ratio)
    }

    /// When the kernel begins to write back, if that is set.
    pub fn background_limit(&self) -> Option<Limit> {
        self.limit(Key::BackgroundBytes, Key::BackgroundRatio)
    }
}

impl TryFrom<BTreeMap<Key, u64>> for DirtySettings {
    type Error = Refused;

    fn try_from(values: BTreeMap<Key, u64>) -> Result<Self, Refused> {
        let mut settings = Self::default();
        for (key, value) in values {
            settings.set(key, value)?;
        }
        Ok(settings)
    }
}

impl From<DirtySettings> for BTreeMap<Key, u64> {
    fn from(settings: DirtySettings) -> Self {
        settings.values
    }
}

/// What the kernel takes, but will not do as one might think.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Warning {
    /// The setting that is odd.
    pub key: Key,
    /// A sentence.
    pub words: String,
}

/// A limit on dirty pages, in the unit that is active.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// A number of bytes.
    Bytes(u64),
    /// Percent of the memory available, which moves.
    Percent(u64),
}

impl Limit {
    /// Whether it is no lower than `other`; false if that cannot be known.
    fn reaches(self, other: Self, available_bytes: Option<u64>) -> bool {
        if let (Self::Percent(own), Self::Percent(others)) = (self, other) {
            return own >= others;
        }
        let bytes = |limit: Self| match limit {
            Self::Bytes(bytes) => Some(bytes),
            Self::Percent(percent) => (available_bytes? / 100).checked_mul(percent),
        };
        bytes(self).zip(bytes(other)).is_some_and(|(own, others)| own >= others)
    }

    fn half(self) -> String {
        match self {
            Self::Bytes(bytes) => Self::Bytes(bytes / 2).to_string(),
            Self::Percent(percent) if percent % 2 == 1 => format!("{}.5%", percent / 2),
            Self::Percent(percent) => Self::Percent(percent / 2).to_string(),
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(f, "{bytes} bytes"),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

/// A value that cannot be set.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Refused {
    /// The kernel takes no such value.
    OutOfRange {
        /// The setting.
        key: Key,
        /// What was asked for.
        value: u64,
        /// The least it takes.
        min: u64,
        /// The most it takes.
        max: u64,
    },
    /// The limit was already given in its other unit.
    Twins {
        /// The setting.
        key: Key,
        /// What was given before.
        twin: Key,
    },
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfRange { key: Key::Bytes, value, min, .. } => write!(
                f,
                "dirty_bytes {value} is less than two pages ({min} bytes): the kernel refuses it"
            ),
            Self::OutOfRange { key: Key::BackgroundBytes, value, .. } => write!(
                f,
                "dirty_background_bytes {value}: the kernel refuses it; give 1 or more, or \
                 dirty_background_ratio"
            ),
            Self::OutOfRange { key, value, min, max } => {
                write!(f, "{key} {value}: the kernel takes {min} to {max}")
            }
            Self::Twins { key, twin } => {
                let (bytes, ratio) =
                    if key.name() < twin.name() { (key, twin) } else { (twin, key) };
                write!(f, "{bytes} and {ratio} exclude each other in the kernel")
            }
        }
    }
}

impl std::error::Error for Refused {}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(values: &[(Key, u64)]) -> Result<DirtySettings, Refused> {
        values.iter().copied().collect::<BTreeMap<Key, u64>>().try_into()
    }

    #[test]
    fn the_list_is_closed() {
        for key in Key::ALL {
            assert_eq!(Key::from_name(key.name()), Some(key));
            assert!(key.name().starts_with("dirty_"), "{key}");
            assert_eq!(key.twin().and_then(Key::twin), key.twin().map(|_| key));
            let json = serde_json::to_string(&key).unwrap();
            assert_eq!(json, format!("\"{key}\""));
        }
        assert!(Key::ALL.is_sorted());
        for name in ["swappiness", "dirty", "vm.dirty_ratio", "dirty_ratio ", "../dirty_ratio", ""]
        {
            assert_eq!(Key::from_name(name), None, "{name}");
        }
        assert!(serde_json::from_str::<DirtySettings>(r#"{"swappiness":1}"#).is_err());
    }

    #[test]
    fn a_limit_has_one_unit() {
        let mut settings = DirtySettings::default();
        settings.set(Key::Ratio, 20).unwrap();
        settings.set(Key::BackgroundBytes, 1).unwrap();
        for (key, twin) in [
            (Key::Bytes, "dirty_bytes and dirty_ratio exclude each other in the kernel"),
            (
                Key::BackgroundRatio,
                "dirty_background_bytes and dirty_background_ratio exclude each other in the \
                 kernel",
            ),
        ] {
            let (least, _) = key.range();
            assert_eq!(settings.set(key, least.max(1)).unwrap_err().to_string(), twin);
            assert_eq!(settings.get(key), None);
        }
        settings.set(Key::Ratio, 30).unwrap();
        assert_eq!(settings.get(Key::Ratio), Some(30));
    }

    #[test]
    fn what_the_kernel_refuses_is_refused() {
        #[track_caller]
        fn check(key: Key, value: u64, expect: &str) {
            let found = DirtySettings::default().set(key, value).map_err(|r| r.to_string());
            match found {
                Ok(()) => assert_eq!(expect, "taken"),
                Err(words) => assert!(words.contains(expect) && expect != "taken", "{words}"),
            }
        }
        let page = u64::try_from(rustix::param::page_size()).unwrap();
        check(Key::Bytes, 2 * page, "taken");
        check(Key::Bytes, 2 * page - 1, "less than two pages");
        check(Key::Bytes, 0, "less than two pages");
        check(Key::BackgroundBytes, 0, "give 1 or more");
        check(Key::BackgroundBytes, 1, "taken");
        check(Key::Ratio, 100, "taken");
        check(Key::Ratio, 101, "dirty_ratio 101: the kernel takes 0 to 100");
        check(Key::BackgroundRatio, 0, "taken");
        check(Key::BackgroundRatio, 200, "takes 0 to 100");
        check(Key::ExpireCentisecs, 1 << 31, "takes 0 to 2147483647");
        check(Key::WritebackCentisecs, 360_000, "taken");
    }

    #[test]
    fn what_is_not_asked_for_stays_as_found() {
        let found = settings(&[
            (Key::Ratio, 20),
            (Key::BackgroundRatio, 10),
            (Key::ExpireCentisecs, 3000),
            (Key::WritebackCentisecs, 500),
        ])
        .unwrap();
        assert!(found.is_complete());
        let asked = settings(&[(Key::Bytes, 1 << 28), (Key::ExpireCentisecs, 100)]).unwrap();
        assert!(!asked.is_complete());
        let together = asked.over(&found);
        assert!(together.is_complete());
        let expect = [
            (Key::BackgroundRatio, 10),
            (Key::Bytes, 1 << 28),
            (Key::ExpireCentisecs, 100),
            (Key::WritebackCentisecs, 500),
        ];
        assert_eq!(together.iter().collect::<Vec<_>>(), expect);
        assert_eq!(DirtySettings::default().over(&found), found);
        assert_eq!(found.over(&together), found);
    }

    #[test]
    fn odd_combinations_are_warned_of() {
        #[track_caller]
        fn check(values: &[(Key, u64)], available: Option<u64>, expect: &[&str]) {
            let found = settings(values).unwrap().warnings(available);
            let words: Vec<&str> = found.iter().map(|warning| warning.words.as_str()).collect();
            assert_eq!(words, expect);
            assert!(found.iter().all(|warning| values.iter().any(|(key, _)| *key == warning.key)));
        }
        let (background, limit) = (Key::BackgroundRatio, Key::Ratio);
        check(&[(background, 10), (limit, 20)], None, &[]);
        check(
            &[(background, 50), (limit, 50)],
            None,
            &["background 50% >= limit 50%: the kernel will use half the limit (25%)"],
        );
        check(
            &[(background, 60), (limit, 25)],
            None,
            &["background 60% >= limit 25%: the kernel will use half the limit (12.5%)"],
        );
        check(
            &[(Key::BackgroundBytes, 9000), (Key::Bytes, 9000)],
            None,
            &["background 9000 bytes >= limit 9000 bytes: the kernel will use half the limit \
               (4500 bytes)"],
        );
        check(&[(background, 10), (Key::Bytes, 100_000)], None, &[]);
        check(&[(background, 10), (Key::Bytes, 100_001)], Some(1_000_000), &[]);
        check(
            &[(background, 10), (Key::Bytes, 100_000)],
            Some(1_000_000),
            &["background 10% >= limit 100000 bytes: the kernel will use half the limit \
               (50000 bytes)"],
        );
        check(
            &[(limit, 0), (Key::WritebackCentisecs, 0)],
            None,
            &[
                "limit 0%: every write waits until it is on the disk",
                "dirty_writeback_centisecs 0: pages are never written back for their age",
            ],
        );
    }
}
