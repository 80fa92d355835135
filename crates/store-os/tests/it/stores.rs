//! Stores to survey, read and repair: filled by a log or by hand, copied from RocketMQ, damaged.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use store_core::{
    Destination, LogOffset, Message, Placed, Protection, QueueId, QueueOffset, SegmentSize,
    TimestampMs, Topic, encode, encode_blank, length_u64,
};
use store_os::{Appended, Io, Log};

use crate::rocketmq;
use crate::support::{Kind, body, put, queue, small};

pub(crate) const KIND: Kind = Kind::Sync(Io::Positioned);
/// The segments' size in the stores that a log fills here.
pub(crate) const SEGMENT: u64 = 16 << 10;

/// A log of `count` records that was closed.
pub(crate) fn filled(root: &Path, count: u64) -> Vec<Appended> {
    let (log, appended) = written(root, count);
    log.close().unwrap();
    appended
}

/// A log of `count` records whose process went away.
pub(crate) fn abandoned(root: &Path, count: u64) -> Vec<Appended> {
    let (log, appended) = written(root, count);
    log.abandon();
    appended
}

fn written(root: &Path, count: u64) -> (Log, Vec<Appended>) {
    let log = KIND.open(root, small());
    let handle = queue(&log, "T");
    let appended = (0..count).map(|number| put(&log, &handle, &body(number))).collect();
    (log, appended)
}

/// A record that a store made by hand holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Made {
    pub(crate) body_len: usize,
    pub(crate) store: i64,
    pub(crate) queue_offset: u64,
}

impl Made {
    pub(crate) const fn new(store: i64, queue_offset: u64) -> Self {
        Self { body_len: 100, store, queue_offset }
    }

    pub(crate) fn encoded(self, at: LogOffset) -> Vec<u8> {
        let to = Destination { topic: Topic::new(b"made").unwrap(), queue_id: QueueId::new(3) };
        let body = vec![0x42; self.body_len];
        let message = Message { body: &body, ..Message::default() };
        let mut out = vec![0; self.body_len + 256];
        let placed = Placed {
            log_offset: at,
            queue_offset: QueueOffset::new(self.queue_offset),
            store_timestamp: TimestampMs::new(self.store),
        };
        encode(to, &message, Protection::Record, &mut out).unwrap().place(&placed).to_vec()
    }
}

/// A store whose process went away, with these records placed as a log places them; gives where
/// each stands, and the log's end.
pub(crate) fn made(root: &Path, records: &[Made]) -> Vec<LogOffset> {
    let mut log = vec![0; usize::try_from(SEGMENT).unwrap()];
    let mut places = Vec::new();
    let mut at = 0;
    for record in records {
        let segment_end = log.len();
        let mut bytes = record.encoded(offset(at));
        if segment_end - at < bytes.len() + 8 {
            let rest = u32::try_from(segment_end - at).unwrap();
            log[at..at + 8].copy_from_slice(&encode_blank(rest));
            at = segment_end;
            log.resize(segment_end + usize::try_from(SEGMENT).unwrap(), 0);
            bytes = record.encoded(offset(at));
        }
        log[at..at + bytes.len()].copy_from_slice(&bytes);
        places.push(offset(at));
        at += bytes.len();
    }
    places.push(offset(at));
    fs::create_dir_all(root.join("commitlog")).unwrap();
    for (index, bytes) in (0..).zip(log.chunks(usize::try_from(SEGMENT).unwrap())) {
        fs::write(segment(root, index * SEGMENT), bytes).unwrap();
    }
    fs::write(root.join("abort"), "1").unwrap();
    places
}

fn offset(at: usize) -> LogOffset {
    LogOffset::new(length_u64(at))
}

/// A copy of a golden store that may be written to.
pub(crate) fn golden(name: &str) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    copy_folder(&rocketmq::root().join(name), copy.path());
    copy
}

pub(crate) fn copy_folder(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            fs::create_dir_all(&target).unwrap();
            copy_folder(&entry.path(), &target);
        } else {
            fs::write(target, fs::read(entry.path()).unwrap()).unwrap();
        }
    }
}

pub(crate) fn segment(root: &Path, start: u64) -> PathBuf {
    root.join("commitlog").join(format!("{start:020}"))
}

pub(crate) fn segment_of(root: &Path, at: LogOffset) -> PathBuf {
    segment(root, at.get() / SEGMENT * SEGMENT)
}

/// Overwrites bytes of the log.
pub(crate) fn patch(root: &Path, at: u64, bytes: &[u8]) {
    let start = at / SEGMENT * SEGMENT;
    let file = OpenOptions::new().write(true).open(segment(root, start)).unwrap();
    file.write_all_at(bytes, at - start).unwrap();
}

/// Flips all bits of one byte of the log.
pub(crate) fn flip(root: &Path, at: u64) {
    let whole = fs::read(segment(root, at / SEGMENT * SEGMENT)).unwrap();
    patch(root, at, &[!whole[usize::try_from(at % SEGMENT).unwrap()]]);
}

/// Every file below a directory with what it holds.
pub(crate) fn files(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(root).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            found.extend(files(&entry.path()));
        } else {
            found.insert(entry.path(), fs::read(entry.path()).unwrap());
        }
    }
    found
}

pub(crate) fn segment_size() -> SegmentSize {
    SegmentSize::new(SEGMENT).unwrap()
}
