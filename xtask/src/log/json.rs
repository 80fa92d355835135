//! A store's survey as one JSON object.

use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;
use store_core::{Checkpoint, LogOffset, TimestampMs};
use store_os::{Fault, QueueSurvey, SegmentSurvey, Survey, TopicSurvey};

use super::fault::{self, Told};
use super::text;
use crate::say;

/// All that a survey found. Offsets and lengths are bytes, times milliseconds since 1970.
#[derive(Debug, Serialize)]
pub(super) struct Json {
    schema: &'static str,
    store: String,
    segments_dir: String,
    health: &'static str,
    segment_size: u64,
    start: u64,
    end: u64,
    records: u64,
    record_bytes: u64,
    blank_bytes: u64,
    records_v1: u64,
    records_v2: u64,
    records_protected: u64,
    filler_records: u64,
    filler_bytes: u64,
    first_store_timestamp_ms: Option<i64>,
    last_store_timestamp_ms: Option<i64>,
    clock_steps: u64,
    first_clock_step: Option<ClockStepJson>,
    checkpoint: Option<CheckpointJson>,
    checkpoint_error: Option<String>,
    abort: Option<String>,
    locked: bool,
    proven: Option<u64>,
    faults: Vec<FaultJson>,
    segments: Vec<SegmentJson>,
    topics: Vec<TopicJson>,
}

#[derive(Debug, Serialize)]
struct ClockStepJson {
    offset: u64,
    before_ms: i64,
    after_ms: i64,
}

#[derive(Debug, Serialize)]
struct CheckpointJson {
    physic_msg_timestamp_ms: i64,
    logics_msg_timestamp_ms: i64,
    index_msg_timestamp_ms: i64,
    master_flushed_offset: i64,
    confirm_phy_offset: i64,
}

#[derive(Debug, Serialize)]
struct FaultJson {
    kind: &'static str,
    path: String,
    segment: String,
    from: u64,
    to: u64,
    length: u64,
    found: Option<String>,
    records_behind: Option<u64>,
}

#[derive(Debug, Serialize)]
struct SegmentJson {
    path: String,
    start: u64,
    file_length: u64,
    records: u64,
    record_bytes: u64,
    blank_bytes: u64,
    first_store_timestamp_ms: Option<i64>,
    last_store_timestamp_ms: Option<i64>,
}

#[derive(Debug, Serialize)]
struct TopicJson {
    topic: String,
    topic_hex: String,
    records: u64,
    record_bytes: u64,
    queues: Vec<QueueJson>,
}

#[derive(Debug, Serialize)]
struct QueueJson {
    queue_id: i32,
    records: u64,
    first_offset: u64,
    next_offset: u64,
    gaps: u64,
}

/// Writes a survey, one field per line.
pub(super) fn write(survey: &Survey, store: &Path, out: &mut dyn Write) -> Result<()> {
    let json = serde_json::to_string_pretty(&Json::new(survey, store))?;
    writeln!(out, "{}", inert(json)).context(say::CANNOT_WRITE)
}

/// JSON with what a terminal would obey or not show escaped, beyond what JSON itself asks for: its
/// strings hold what producers and file names hold, and only they can hold such characters.
pub(super) fn inert(json: String) -> String {
    let obeyed = |c: char| {
        matches!(
            c,
            '\u{7f}'..='\u{9f}'
                | '\u{61c}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
        )
    };
    if !json.contains(obeyed) {
        return json;
    }
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if obeyed(c) {
            write!(out, "\\u{:04x}", u32::from(c)).expect("a string takes what is written");
        } else {
            out.push(c);
        }
    }
    out
}

impl Json {
    pub(super) fn new(survey: &Survey, store: &Path) -> Self {
        let (filler_records, filler_bytes) = fault::fillers(survey);
        let topics = survey.topics.iter().filter(|(name, topic)| !fault::is_filler(name, topic));
        let checkpoint = survey.checkpoint.as_ref();
        Self {
            schema: "flushmark.log/1.0",
            store: lossy(store),
            segments_dir: lossy(&survey.segments_dir),
            health: fault::health_word(survey.health()),
            segment_size: survey.segment_size.bytes(),
            start: survey.start.get(),
            end: survey.end.get(),
            records: survey.records,
            record_bytes: survey.record_bytes,
            blank_bytes: survey.blank_bytes,
            records_v1: survey.records - survey.records_v2,
            records_v2: survey.records_v2,
            records_protected: survey.records_protected,
            filler_records,
            filler_bytes,
            first_store_timestamp_ms: survey.first_store.map(TimestampMs::get),
            last_store_timestamp_ms: survey.last_store.map(TimestampMs::get),
            clock_steps: survey.clock_steps,
            first_clock_step: survey.first_clock_step.as_ref().map(|step| ClockStepJson {
                offset: step.at.get(),
                before_ms: step.before.get(),
                after_ms: step.after.get(),
            }),
            checkpoint: checkpoint.and_then(|read| read.as_ref().ok()).map(CheckpointJson::new),
            checkpoint_error: checkpoint
                .and_then(|read| read.as_ref().err())
                .map(ToString::to_string),
            abort: survey.abort.clone(),
            locked: survey.locked,
            proven: survey.proven.map(LogOffset::get),
            faults: fault::listed(survey).iter().map(FaultJson::new).collect(),
            segments: survey.segments.iter().map(SegmentJson::new).collect(),
            topics: topics.map(|(name, topic)| TopicJson::new(name, topic)).collect(),
        }
    }
}

impl CheckpointJson {
    fn new(checkpoint: &Checkpoint) -> Self {
        Self {
            physic_msg_timestamp_ms: checkpoint.physic_msg_timestamp.get(),
            logics_msg_timestamp_ms: checkpoint.logics_msg_timestamp.get(),
            index_msg_timestamp_ms: checkpoint.index_msg_timestamp.get(),
            master_flushed_offset: checkpoint.master_flushed_offset,
            confirm_phy_offset: checkpoint.confirm_phy_offset,
        }
    }
}

impl FaultJson {
    fn new(fault: &Fault) -> Self {
        let told = Told::new(fault);
        Self {
            kind: told.kind,
            path: lossy(&fault.path),
            segment: lossy(fault.path.file_name().unwrap_or_default().as_ref()),
            from: fault.from.get(),
            to: fault.to.get(),
            length: fault::length(fault),
            found: told.found,
            records_behind: told.records_behind,
        }
    }
}

impl SegmentJson {
    fn new(segment: &SegmentSurvey) -> Self {
        Self {
            path: lossy(&segment.path),
            start: segment.start.get(),
            file_length: segment.file_len,
            records: segment.records,
            record_bytes: segment.record_bytes,
            blank_bytes: segment.blank_bytes,
            first_store_timestamp_ms: segment.first_store.map(TimestampMs::get),
            last_store_timestamp_ms: segment.last_store.map(TimestampMs::get),
        }
    }
}

impl TopicJson {
    fn new(name: &[u8], topic: &TopicSurvey) -> Self {
        let queue = |(id, queue): (&store_core::QueueId, &QueueSurvey)| QueueJson {
            queue_id: id.get(),
            records: queue.records,
            first_offset: queue.first.get(),
            next_offset: queue.next.get(),
            gaps: queue.gaps,
        };
        Self {
            topic: String::from_utf8_lossy(name).into_owned(),
            topic_hex: text::hex(name),
            records: topic.records,
            record_bytes: topic.record_bytes,
            queues: topic.queues.iter().map(queue).collect(),
        }
    }
}

fn lossy(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_escaped_and_the_json_says_the_same() {
        for (said, expect) in [
            ("é主 \u{1b}[2J\"\\", r#""é主 \u001b[2J\"\\""#),
            ("\u{7f}\u{80}\u{9b}\u{9f}", r#""\u007f\u0080\u009b\u009f""#),
            ("\u{61c}\u{200b}\u{200e}\u{200f}", r#""\u061c\u200b\u200e\u200f""#),
            ("\u{2028}\u{202a}\u{202e}\u{2066}", r#""\u2028\u202a\u202e\u2066""#),
            ("\u{2069}\u{feff}", r#""\u2069\ufeff""#),
            ("\u{a0}\u{2010}\u{202f}", "\"\u{a0}\u{2010}\u{202f}\""),
        ] {
            let found = inert(serde_json::to_string(said).unwrap());
            assert_eq!(found, expect);
            assert_eq!(serde_json::from_str::<String>(&found).unwrap(), said);
        }
        assert_eq!(inert("{}".to_owned()), "{}");
    }
}
