//! Surveys for tests: one that is sound, and what makes it otherwise.

use std::path::PathBuf;

use store_core::{Checkpoint, LogOffset, QueueId, QueueOffset, SegmentSize, TimestampMs};
use store_os::{Fault, FaultKind, QueueSurvey, SegmentSurvey, Survey, TopicSurvey};

/// Two segments of 64 KiB, three records of which one is of version 2, topics `orders` and `logs`.
pub(super) fn sound() -> Survey {
    let segment = |start: u64, records| SegmentSurvey {
        path: PathBuf::from(format!("/s/commitlog/{start:020}")),
        start: LogOffset::new(start),
        file_len: 65_536,
        records,
        record_bytes: 200 * records,
        blank_bytes: 0,
        first_store: Some(TimestampMs::new(FIRST)),
        last_store: Some(TimestampMs::new(FIRST + 1)),
    };
    Survey {
        segments_dir: PathBuf::from("/s/commitlog"),
        segment_size: SegmentSize::new(65_536).unwrap(),
        start: LogOffset::new(65_536),
        end: LogOffset::new(131_272),
        segments: vec![segment(65_536, 2), segment(131_072, 1)],
        faults: Vec::new(),
        topics: [topic("orders", 2), topic("logs", 1)].into_iter().collect(),
        records: 3,
        record_bytes: 600,
        blank_bytes: 65_136,
        records_v2: 1,
        records_protected: 2,
        first_store: Some(TimestampMs::new(FIRST)),
        last_store: Some(TimestampMs::new(FIRST + 1)),
        clock_steps: 0,
        first_clock_step: None,
        checkpoint: Some(Ok(Checkpoint {
            physic_msg_timestamp: TimestampMs::new(FIRST),
            confirm_phy_offset: 131_072,
            ..Checkpoint::default()
        })),
        abort: None,
        locked: false,
        proven: Some(LogOffset::new(131_072)),
    }
}

pub(super) fn topic(name: &str, records: u64) -> (Vec<u8>, TopicSurvey) {
    let queue = QueueSurvey {
        records,
        first: QueueOffset::new(5),
        next: QueueOffset::new(5 + records),
        gaps: 0,
    };
    let queues = [(QueueId::new(0), queue)].into_iter().collect();
    (name.as_bytes().to_vec(), TopicSurvey { records, record_bytes: 200 * records, queues })
}

/// A fault of the fixture's first segment, 100 bytes long.
pub(super) fn fault(kind: FaultKind) -> Fault {
    Fault {
        path: PathBuf::from("/s/commitlog/00000000000000065536"),
        from: LogOffset::new(65_636),
        to: LogOffset::new(65_736),
        kind,
    }
}

pub(super) fn damage() -> Fault {
    fault(FaultKind::Damage { found: "unknown magic 0x00000001".to_owned(), records_behind: 2 })
}

pub(super) fn torn_tail() -> Fault {
    fault(FaultKind::TornTail { found: "unknown magic 0x00000001".to_owned() })
}

pub(super) fn stale_tail() -> Fault {
    fault(FaultKind::StaleTail { found: "never written".to_owned(), records: 14 })
}

/// 2026-11-29T13:07:01.653Z.
const FIRST: i64 = 1_795_957_621_653;
