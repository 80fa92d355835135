//! The shape of a profile: which mappings and lists it has, and where everything in them stands.
//!
//! Values stay texts here, so that what is wrong with one of them does not hide the others.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, Deserializer, MapAccess, Visitor};
use serde_yaml::options::{DuplicateKeyPolicy, MergeKeyPolicy};
use serde_yaml::{DefaultMessageFormatter, Error, Location, MessageFormatter, Options, Spanned};

use super::scalar::{self, quoted};
use super::{Finding, Level};

/// The shape of `text`, or the first thing that does not belong there.
pub(super) fn parse<T: DeserializeOwned>(text: &str) -> Result<Spanned<T>, Finding> {
    if text.len() > TEXT_LIMIT_BYTES {
        let message = format!("the profile has more than {TEXT_LIMIT_BYTES} bytes: it is not read");
        return Err(place(Location::UNKNOWN, message));
    }
    serde_yaml::from_str_with_options(text, options())
        .map_err(|error| syntax_error(error.without_snippet()))
}

/// An error at `at`; where that is not known, at the beginning.
pub(super) fn place(at: Location, message: String) -> Finding {
    Finding {
        file_name: String::new(),
        line: at.line().max(1),
        column: at.column().max(1),
        level: Level::Error,
        message,
    }
}

/// A scalar as it is written, with its place.
pub(super) type Text = Spanned<String>;

/// The whole file. A key that is missing here is missed with all else that is wrong, later.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Shape {
    pub(super) schema: Option<Text>,
    pub(super) name: Option<Text>,
    pub(super) run: Option<Entries<Text>>,
    pub(super) disks: Option<Spanned<Named>>,
    pub(super) sysctls: Option<Spanned<Named>>,
    pub(super) workloads: Option<Spanned<Entries<Spanned<WorkloadShape>>>>,
    pub(super) strategies: Option<Spanned<Named>>,
    pub(super) matrix: Option<Spanned<MatrixShape>>,
    pub(super) slo: Option<Entries<Text>>,
    pub(super) gates: Option<Entries<Text>>,
    pub(super) log: Option<Entries<Text>>,
}

/// Mappings of single values, by name.
pub(super) type Named = Entries<Spanned<Entries<Text>>>;

/// One workload.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WorkloadShape {
    pub(super) message_bytes: Option<Spanned<Sizes>>,
    pub(super) producers: Option<Spanned<Vec<Text>>>,
    pub(super) window: Option<Text>,
    pub(super) rate: Option<Text>,
    pub(super) find_rate: Option<Spanned<Entries<Text>>>,
    pub(super) arrival: Option<Text>,
    pub(super) burst: Option<Spanned<Entries<Text>>>,
    pub(super) reader: Option<Text>,
    pub(super) deletes_every_ms: Option<Text>,
}

/// One workload in a file of its own: a copy of the fields, because what is flattened loses its
/// places.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WorkloadFile {
    pub(super) schema: Option<Text>,
    pub(super) name: Option<Text>,
    message_bytes: Option<Spanned<Sizes>>,
    producers: Option<Spanned<Vec<Text>>>,
    window: Option<Text>,
    rate: Option<Text>,
    find_rate: Option<Spanned<Entries<Text>>>,
    arrival: Option<Text>,
    burst: Option<Spanned<Entries<Text>>>,
    reader: Option<Text>,
    deletes_every_ms: Option<Text>,
}

impl WorkloadFile {
    /// What it says of the workload.
    pub(super) fn into_workload(self) -> WorkloadShape {
        WorkloadShape {
            message_bytes: self.message_bytes,
            producers: self.producers,
            window: self.window,
            rate: self.rate,
            find_rate: self.find_rate,
            arrival: self.arrival,
            burst: self.burst,
            reader: self.reader,
            deletes_every_ms: self.deletes_every_ms,
        }
    }
}

/// A size, or sizes and how often each comes.
pub(super) enum Sizes {
    Mix(Entries<Text>),
    One(String),
}

impl<'de> Deserialize<'de> for Sizes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOrMix;

        impl<'de> Visitor<'de> for OneOrMix {
            type Value = Sizes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a size or a mapping of sizes to percents")
            }

            fn visit_str<E>(self, text: &str) -> Result<Sizes, E> {
                Ok(Sizes::One(text.to_owned()))
            }

            fn visit_u64<E>(self, number: u64) -> Result<Sizes, E> {
                Ok(Sizes::One(number.to_string()))
            }

            fn visit_i64<E>(self, number: i64) -> Result<Sizes, E> {
                Ok(Sizes::One(number.to_string()))
            }

            fn visit_f64<E>(self, number: f64) -> Result<Sizes, E> {
                // With its point, so that it does not pass for a whole number.
                Ok(Sizes::One(format!("{number:?}")))
            }

            fn visit_bool<E>(self, value: bool) -> Result<Sizes, E> {
                Ok(Sizes::One(value.to_string()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Sizes, A::Error> {
                Entries::deserialize(MapAccessDeserializer::new(map)).map(Sizes::Mix)
            }
        }

        deserializer.deserialize_any(OneOrMix)
    }
}

/// What is combined with what.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MatrixShape {
    pub(super) disks: Option<Spanned<Vec<Text>>>,
    pub(super) sysctls: Option<Spanned<Vec<Text>>>,
    pub(super) workloads: Option<Spanned<Vec<Text>>>,
    pub(super) strategies: Option<Spanned<Vec<Text>>>,
}

/// A mapping in the order written, with the places of its keys.
pub(super) struct Entries<V>(pub(super) Vec<(Text, V)>);

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Entries<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder<V>(PhantomData<V>);

        impl<'de, V: Deserialize<'de>> Visitor<'de> for InOrder<V> {
            type Value = Entries<V>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a mapping")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries<V>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }

        deserializer.deserialize_map(InOrder(PhantomData))
    }
}

/// Limits far above any profile, far below what would hurt.
fn options() -> Options {
    serde_yaml::options! {
        budget: serde_yaml::budget! {
            flow_nesting_limit: 16,
            max_aliases: 0,
            max_anchors: 0,
            max_depth: 16,
            max_documents: 1,
            max_events: 10_000,
            max_nodes: 5_000,
            max_total_scalar_bytes: 64 << 10,
        },
        duplicate_keys: DuplicateKeyPolicy::Error,
        merge_keys: MergeKeyPolicy::Error,
        reject_unsupported_tags: true,
        with_snippet: false,
    }
}

/// The parser's error in one line, its place apart.
fn syntax_error(error: &Error) -> Finding {
    let message = match error {
        Error::SerdeUnknownField { field, expected, .. } => {
            format!("unknown key {} ({})", quoted(field), scalar::have(field, expected))
        }
        Error::DuplicateMappingKey { key: Some(key), .. } => {
            format!("the key {} is there twice", quoted(key))
        }
        Error::NullIntoString { .. } => "a value is missing here".to_owned(),
        Error::Unexpected { expected: "mapping start", .. } => {
            "a mapping of keys to values is expected here".to_owned()
        }
        Error::Unexpected { expected: "sequence start", .. } => {
            "a list is expected here, such as [a, b]".to_owned()
        }
        Error::Unexpected { expected: "string scalar", .. } => {
            "a single value is expected here".to_owned()
        }
        Error::Budget { .. } | Error::MergeKeyNotAllowed { .. } => {
            "a profile is one small, flat document without anchors, aliases and merge keys"
                .to_owned()
        }
        other => DefaultMessageFormatter.format_message(other).into_owned(),
    };
    let in_line = |c: char| if c.is_control() { ' ' } else { c };
    let message = message.chars().take(MESSAGE_LIMIT).map(in_line).collect();
    place(error.location().unwrap_or(Location::UNKNOWN), message)
}

/// A profile takes a few KiB; what is larger is something else.
pub(super) const TEXT_LIMIT_BYTES: usize = 1 << 20;

/// Characters of an error that the parser words, which may quote the text.
const MESSAGE_LIMIT: usize = 200;
