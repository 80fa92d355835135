//! Workloads: sizes of messages, producers, and when they send.

use std::time::Duration;

use serde_yaml::{Location, Spanned};

use super::scalar::{self, quoted};
use super::steps::{Keys, LONGEST_MS, Reader, SWITCH};
use super::yaml::{Entries, Shape, Sizes, Text, WorkloadShape};
use super::{Arrival, Burst, MessageBytes, Pace, Share, Workload};

impl Reader {
    /// The workloads by name, those with errors as `None`.
    pub(super) fn workloads(
        &mut self,
        shape: &Shape,
        segment_bytes: Option<u64>,
    ) -> Vec<(String, Option<Workload>)> {
        let Some(shapes) = &shape.workloads else {
            return Vec::new();
        };
        let entries = self.names("workloads", shapes.referenced, &shapes.value);
        let named = entries.iter().map(|(name, shape)| {
            let path = format!("workloads.{}", scalar::shortened(&name.value));
            let valid_name = self.name("workloads", name);
            let (at, shape) = (shape.referenced, &shape.value);
            let workload = self.workload(&name.value, &path, at, shape, segment_bytes);
            (name.value.clone(), valid_name.and(workload))
        });
        named.collect()
    }

    /// One workload, whose keys errors call `path.KEY`.
    pub(super) fn workload(
        &mut self,
        name: &str,
        path: &str,
        at: Location,
        shape: &WorkloadShape,
        segment_bytes: Option<u64>,
    ) -> Option<Workload> {
        let message_bytes = self.message_bytes(at, path, shape, segment_bytes);
        let producers = self.producers(at, path, shape.producers.as_ref());
        let window = match &shape.window {
            Some(text) => self.checked(&format!("{path}.window"), text, |text| {
                scalar::integer(text, &(1..=MOST_WINDOW))
            }),
            None => Some(1),
        };
        let pace = self.pace(path, shape);
        let reader = match &shape.reader {
            Some(text) => self.chosen(&format!("{path}.reader"), text, &SWITCH),
            None => Some(false),
        };
        let deletes_every = match &shape.deletes_every_ms {
            Some(text) => self.deletes_every(path, text).map(Some),
            None => Some(None),
        };
        Some(Workload {
            name: name.to_owned(),
            message_bytes: message_bytes?,
            producers: producers?,
            window: window?,
            pace: pace?,
            reader: reader?,
            deletes_every: deletes_every?,
        })
    }

    fn message_bytes(
        &mut self,
        at: Location,
        path: &str,
        shape: &WorkloadShape,
        segment_bytes: Option<u64>,
    ) -> Option<MessageBytes> {
        let path = format!("{path}.message_bytes");
        let sizes = self.needed(at, &path, shape.message_bytes.as_ref())?;
        let at = sizes.referenced;
        match &sizes.value {
            Sizes::One(text) => {
                let bytes = self.message_size(&path, at, text, segment_bytes)?;
                Some(MessageBytes::one(bytes))
            }
            Sizes::Mix(entries) => self.mix(&path, at, entries, segment_bytes),
        }
    }

    fn mix(
        &mut self,
        path: &str,
        at: Location,
        entries: &Entries<Text>,
        segment_bytes: Option<u64>,
    ) -> Option<MessageBytes> {
        let entries = self.names(path, at, entries);
        let mut shares: Vec<Share> = Vec::new();
        for (size, percent) in entries {
            let bytes = self.message_size(path, size.referenced, &size.value, segment_bytes);
            let percent = self.checked(path, percent, |text| scalar::integer(text, &(1..=100_u32)));
            let (Some(bytes), Some(percent)) = (bytes, percent) else { continue };
            if shares.iter().any(|share| share.bytes == bytes) {
                let message = format!("{path}: the size {} is there twice", quoted(&size.value));
                self.error(size.referenced, message);
            }
            shares.push(Share { bytes, percent });
        }
        // What is missing of a hundred may be in a share that was refused.
        if shares.len() < entries.len() || shares.is_empty() {
            return None;
        }
        let sum: u64 = shares.iter().map(|share| u64::from(share.percent)).sum();
        let mix = MessageBytes::mix(shares);
        if mix.is_none() {
            let message = format!("{path}: the percents of the sizes make {sum}, not 100");
            self.error(at, message);
        }
        mix
    }

    fn message_size(
        &mut self,
        path: &str,
        at: Location,
        text: &str,
        segment_bytes: Option<u64>,
    ) -> Option<u64> {
        let bytes = scalar::size(text, &(0..=MESSAGE_LIMIT_BYTES))
            .map_err(|message| self.error(at, format!("{path}: {message}")))
            .ok()?;
        let needed = bytes + RECORD_OVERHEAD_BYTES;
        if let Some(segment) = segment_bytes
            && needed > segment
        {
            let message = format!(
                "{path}: a record of it ({needed} bytes) does not fit into a segment \
                 (log.segment_bytes is {segment})"
            );
            self.error(at, message);
        }
        Some(bytes)
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

    fn pace(&mut self, path: &str, shape: &WorkloadShape) -> Option<Pace> {
        let rate = shape.rate.as_ref().map(|text| {
            self.checked(&format!("{path}.rate"), text, |text| scalar::integer(text, &RATES))
        });
        let p99 = shape.find_rate.as_ref().map(|search| {
            let search_path = format!("{path}.find_rate");
            let keys = self.keys(&search_path, Some(&search.value), &["p99_ms"]);
            self.needed_millis(search.referenced, &keys, "p99_ms")
        });
        let arrival = match &shape.arrival {
            Some(text) => self.chosen(&format!("{path}.arrival"), text, &ARRIVALS),
            None => Some(Arrival::Constant),
        };
        let burst = shape.burst.as_ref().map(|burst| {
            let burst_path = format!("{path}.burst");
            let keys = self.keys(&burst_path, Some(&burst.value), &["messages", "every_ms"]);
            self.burst(burst.referenced, &keys)
        });
        self.only_together(path, shape);
        match (rate, p99) {
            (Some(rate), None) => {
                let burst = match burst {
                    Some(burst) => Some(burst?),
                    None => None,
                };
                Some(Pace::Rate { per_s: rate?, arrival: arrival?, burst })
            }
            (None, Some(p99)) => Some(Pace::FindRate { p99: p99?, arrival: arrival? }),
            (None, None) => Some(Pace::Closed),
            (Some(_), Some(_)) => None,
        }
    }

    fn deletes_every(&mut self, path: &str, text: &Text) -> Option<Duration> {
        let path = format!("{path}.deletes_every_ms");
        let millis = self.checked(&path, text, |text| scalar::integer(text, &DELETES_MS))?;
        let each = Duration::from_millis(millis);
        if let Some(measure) = self.measure.filter(|measure| each >= *measure) {
            let message = format!(
                "{path}: nothing is deleted in the {} ms that a cell is measured for \
                 (run.measure_ms)",
                measure.as_millis()
            );
            self.error(text.referenced, message);
        }
        Some(each)
    }

    fn burst(&mut self, at: Location, keys: &Keys<'_>) -> Option<Burst> {
        let messages_path = format!("{}.messages", keys.path);
        let messages = self.needed(at, &messages_path, keys.get("messages"));
        let messages = messages.and_then(|text| {
            self.checked(&messages_path, text, |text| scalar::integer(text, &(1..=1_000_000_u64)))
        });
        let every = self.needed_millis(at, keys, "every_ms");
        Some(Burst { messages: messages?, every: every? })
    }

    fn needed_millis(&mut self, at: Location, keys: &Keys<'_>, key: &str) -> Option<Duration> {
        let path = format!("{}.{key}", keys.path);
        let text = self.needed(at, &path, keys.get(key))?;
        let millis = self.checked(&path, text, |text| scalar::integer(text, &(1..=LONGEST_MS)))?;
        Some(Duration::from_millis(millis))
    }

    /// Complains about what excludes each other, and about what says nothing alone.
    fn only_together(&mut self, path: &str, shape: &WorkloadShape) {
        if let (Some(rate), Some(search)) = (&shape.rate, &shape.find_rate) {
            let line = self.line(rate.referenced);
            let message = format!(
                "{path}: rate and find_rate exclude each other: a rate is given or searched for \
                 (rate is set at line {line})"
            );
            self.error(search.referenced, message);
        }
        if let Some(arrival) = &shape.arrival
            && shape.rate.is_none()
            && shape.find_rate.is_none()
        {
            let message = format!(
                "{path}: arrival has no meaning without rate or find_rate: in a closed loop the \
                 acknowledgements say when to send"
            );
            self.error(arrival.referenced, message);
        }
        if let Some(deletes) = &shape.deletes_every_ms
            && shape.find_rate.is_some()
        {
            let message = format!(
                "{path}: deletes_every_ms has no meaning with find_rate: the files would be gone \
                 after the first rate that is tried"
            );
            self.error(deletes.referenced, message);
        }
        if let Some(burst) = &shape.burst
            && shape.rate.is_none()
        {
            let message =
                format!("{path}: burst has no meaning without rate: a burst comes on top of it");
            self.error(burst.referenced, message);
        }
    }
}

const ARRIVALS: [(&str, Arrival); 2] =
    [("constant", Arrival::Constant), ("poisson", Arrival::Poisson)];

/// Messages a second: far more than a log takes, and few enough to be told apart in nanoseconds.
const RATES: std::ops::RangeInclusive<u64> = 1..=100_000_000;
const MOST_WINDOW: u32 = 4096;
/// From half of `RocketMQ`'s `deleteCommitLogFilesInterval` on: each file has to be made before.
const DELETES_MS: std::ops::RangeInclusive<u64> = 50..=LONGEST_MS;
/// RocketMQ's `maxMessageSize`.
pub(super) const MESSAGE_LIMIT_BYTES: u64 = 4 << 20;
/// What a record has around its body, rounded up: fixed fields, hosts, topic, properties.
pub(super) const RECORD_OVERHEAD_BYTES: u64 = 200;
