//! Stores that RocketMQ wrote: opened, read, appended to, and recovered at least as well as it
//! recovers them.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use serde_json::Value;
use store_core::{
    Batch, EncodeError, Frame, LogOffset, Message, MessageId, Protection, QueueId, SegmentName,
    SegmentSize, Step, SysFlag, TimestampMs, Wait, decode, length_u64, scan_step,
};
use store_os::{AppendError, Appended, Io, Log, LogOptions, OpenError};

use crate::rocketmq::{self, Stored, hex, host, integer, narrow, puts, stored_records, unsigned};
use crate::support::{Kind, body, queue};

const SEGMENT: u64 = 65_536;

fn options() -> LogOptions {
    LogOptions {
        segment_size: SegmentSize::new(SEGMENT).unwrap(),
        staging_bytes: 1 << 20,
        ..LogOptions::default()
    }
}

/// Files of `commitlog/` by their first offset.
type Segments = BTreeMap<u64, Vec<u8>>;

fn segments(root: &Path) -> Segments {
    fs::read_dir(root.join("commitlog"))
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| {
            let start = SegmentName::parse(entry.file_name().to_str().unwrap()).unwrap();
            (start.get(), fs::read(entry.path()).unwrap())
        })
        .collect()
}

/// A copy of a golden store that may be written to.
fn copy(name: &str) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    copy_folder(&rocketmq::root().join(name), copy.path());
    copy
}

fn copy_folder(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            fs::create_dir(&target).unwrap();
            copy_folder(&entry.path(), &target);
        } else {
            fs::write(target, fs::read(entry.path()).unwrap()).unwrap();
        }
    }
}

/// Reads the log from its start, and compares every record with what RocketMQ was given.
fn assert_holds(log: &Log, expected: &[Stored], what: &str) {
    let mut cursor = log.cursor(log.recovery().start);
    for stored in expected {
        let record = cursor.next_record().unwrap();
        stored.assert_is(&record.unwrap_or_else(|| panic!("{what}: ends before {}", stored.at)));
    }
    assert!(cursor.next_record().unwrap().is_none(), "{what}: more than was stored");
}

/// Whether the record stands whole in these files.
fn stands_in(files: &Segments, stored: &Stored) -> bool {
    let start = stored.at / SEGMENT * SEGMENT;
    let Some(file) = files.get(&start) else { return false };
    let window = &file[usize::try_from(stored.at - start).unwrap()..];
    let rest = length_u64(window.len());
    match scan_step(window, LogOffset::new(stored.at), rest, Protection::Record) {
        Step::Record(view) => {
            stored.assert_is(&view);
            true
        }
        _ => false,
    }
}

/// Appends, closes, reopens: what was there is there, and what was added behind it.
fn goes_on(kind: Kind, root: &Path, log: Log, expected: &[Stored], what: &str) {
    let end = log.recovery().end;
    let handle = queue(&log, "New");
    let added: Vec<_> = (0..40)
        .map(|number| {
            let message = Message { body: &body(number), ..Message::default() };
            log.append(&handle, &message, Wait::Yes).unwrap().appended()
        })
        .collect();
    assert_eq!(added[0].queue_offset.get(), 0, "{what}");
    assert!(added[0].offset >= end, "{what}");
    log.close().unwrap();
    let log = kind.open(root, options());
    let recovery = log.recovery();
    assert!(!recovery.unclean && recovery.torn_bytes == 0, "{what}: {recovery:?}");
    assert_eq!(recovery.records, length_u64(expected.len() + added.len()), "{what}");
    assert_eq!(recovery.end, added.last().unwrap().end(), "{what}");
    let mut cursor = log.cursor(recovery.start);
    for stored in expected {
        stored.assert_is(&cursor.next_record().unwrap().unwrap());
    }
    for (number, appended) in (0..).zip(&added) {
        let view = cursor.next_record().unwrap().unwrap();
        assert_eq!((view.log_offset(), view.body()), (appended.offset, &body(number)[..]));
    }
    assert!(cursor.next_record().unwrap().is_none(), "{what}");
    log.close().unwrap();
}

#[test]
fn stores_that_rocketmq_closed_open_and_go_on() {
    for (name, end, records) in
        [("plain", 396_139, 232), ("batchcq", 4_616, 30), ("oversize", 131_264, 2)]
    {
        for kind in Kind::ALL {
            let root = copy(name);
            let before = segments(root.path());
            let log = kind.open(root.path(), options());
            let recovery = log.recovery();
            let found = (recovery.start.get(), recovery.end.get(), recovery.records);
            assert_eq!(found, (0, end, records), "{name}, {kind:?}");
            assert!(!recovery.unclean && recovery.torn_bytes == 0, "{name}, {kind:?}");
            let expected = stored_records(name);
            assert_holds(&log, &expected, name);
            goes_on(kind, root.path(), log, &expected, name);
            let after = segments(root.path());
            for (start, bytes) in before {
                let len = usize::try_from(end.saturating_sub(start).min(SEGMENT)).unwrap();
                assert!(after[&start][..len] == bytes[..len], "{name}: segment {start} changed");
            }
        }
    }
}

/// Queues go on where RocketMQ left them, an inner batch counting for what it holds.
#[test]
fn queue_offsets_go_on_where_rocketmq_left_them() {
    for name in ["plain", "crash", "oversize", "batchcq"] {
        let root = copy(name);
        let log = Kind::ALL[0].open(root.path(), options());
        let description = rocketmq::description(name);
        let queues = description["live"]["queues"].as_array().unwrap();
        assert!(!queues.is_empty());
        for queue in queues {
            let topic = queue["topic"].as_str().unwrap();
            let handle = log.queue(topic.as_bytes(), QueueId::new(narrow(&queue["queueId"])));
            let next = handle.unwrap().next_offset().get();
            assert_eq!(next, unsigned(&queue["nextQueueOffset"]), "{name}: {topic}");
        }
    }
}

#[test]
fn a_record_that_rocketmq_cannot_read_is_damage_and_not_passed_over() {
    for kind in Kind::ALL {
        let root = copy("badtopic");
        let before = segments(root.path());
        match kind.try_open(root.path(), options()).map(|_| ()) {
            Err(OpenError::Damage(damage)) => {
                assert_eq!(damage.path, root.path().join("commitlog/00000000000000000000"));
                let resumes_at = damage.resumes_at.map(LogOffset::get);
                assert_eq!((damage.at.get(), damage.len, resumes_at), (102, 281, Some(383)));
                assert_eq!(damage.records_behind, 1);
            }
            other => panic!("{kind:?}: {other:?}"),
        }
        assert!(segments(root.path()) == before, "{kind:?}: something was changed");
        let readable: Vec<_> = stored_records("badtopic")
            .iter()
            .map(|stored| (stored.at, stands_in(&before, stored)))
            .collect();
        assert_eq!(readable, [(0, true), (102, false), (383, true)]);
    }
}

/// What opening ends with.
#[derive(Clone, Copy, Debug)]
enum Ends {
    /// Open, with this end and so many records.
    Open { end: u64, records: usize },
    /// Refused, nothing changed; all records but the one at `at` are still there.
    Refused { at: u64, resumes_at: u64 },
}
use Ends::{Open, Refused};

const WHOLE: Ends = Open { end: 177_454, records: 60 };
const LAST_TORN: Ends = Open { end: 174_049, records: 59 };
const RECORD_45: Ends = Refused { at: 133_649, resumes_at: 136_488 };
const FIRST_OF_LAST: Ends = Refused { at: 131_072, resumes_at: 133_649 };
const FIRST_OF_MIDDLE: Ends = Refused { at: 65_536, resumes_at: 68_560 };

/// Each case of `recovery.json`: where RocketMQ's log ends, how many records it has then, and what
/// opening makes of the same files here.
#[rustfmt::skip]
const CASES: [(&str, u64, usize, Ends); 13] = [
    ("r00_abort_clean",                          177_454, 60, WHOLE),
    ("r01_abort_torn_tail",                      174_049, 59, LAST_TORN),
    ("r02_abort_bitflip_mid",                    133_649, 45, RECORD_45),
    ("r03_abort_cq_removed",                     177_454, 60, WHOLE),
    ("r04_normal_clean",                         177_454, 60, WHOLE),
    ("r05_normal_torn_tail",                     174_049, 59, LAST_TORN),
    ("r06_abort_size_field",                     133_649, 45, RECORD_45),
    ("r07_abort_size_zero",                      133_649, 45, RECORD_45),
    ("r08_abort_checkpoint_removed",             177_454, 60, WHOLE),
    ("r09_abort_bad_magic_first_of_last_file",   131_072, 44, FIRST_OF_LAST),
    ("r10_abort_bad_magic_first_of_middle_file",  65_536, 22, FIRST_OF_MIDDLE),
    ("r11_normal_cq_removed",                    177_454, 60, WHOLE),
    ("r12_abort_size_smaller",                   133_649, 45, RECORD_45),
];

/// A copy of the base with the case's patches and removals.
fn patched(case: &Value) -> tempfile::TempDir {
    let root = copy("crash");
    for patch in case["patches"].as_array().unwrap() {
        let path = root.path().join(patch["file"].as_str().unwrap());
        let file = OpenOptions::new().write(true).open(path).unwrap();
        file.write_all_at(&hex(&patch["hex"]), unsigned(&patch["pos"])).unwrap();
    }
    for name in case["remove"].as_array().unwrap() {
        let path = root.path().join(name.as_str().unwrap());
        // Consume queues are no part of the golden data here.
        if path.exists() {
            fs::remove_file(path).unwrap();
        } else {
            assert_eq!(name, "consumequeue");
        }
    }
    root
}

#[test]
fn recovery_ends_with_what_rocketmq_has_or_with_more() {
    let description = rocketmq::description("recovery");
    let cases = description["cases"].as_object().unwrap();
    assert_eq!(description["base"], "crash");
    assert_eq!(
        cases.keys().collect::<Vec<_>>(),
        CASES.map(|case| case.0).iter().collect::<Vec<_>>()
    );
    let base = stored_records("crash");
    for (name, rocketmq_end, rocketmq_records, ends) in CASES {
        let case = &cases[name];
        assert_eq!(unsigned(&case["after"]["maxPhyOffset"]), rocketmq_end, "{name}");
        let kept_there =
            base.iter().filter(|stored| stored.at + stored.len <= rocketmq_end).count();
        assert_eq!(kept_there, rocketmq_records, "{name}");
        for kind in [Kind::Sync(Io::Positioned), Kind::Timed(Io::Mapped), Kind::Staged] {
            let root = patched(case);
            let what = format!("{name}, {kind:?}");
            let unclean = root.path().join("abort").exists();
            let kept = match ends {
                Open { end, records } => opens(kind, root.path(), &base[..records], end, &what),
                Refused { at, resumes_at } => {
                    is_refused(kind, root.path(), &base, [at, resumes_at], &what)
                }
            };
            assert!(kept >= rocketmq_records, "{what}: fewer records than RocketMQ keeps");
            assert_eq!(unclean, !name.contains("normal"), "{what}");
        }
    }
}

fn opens(kind: Kind, root: &Path, expected: &[Stored], end: u64, what: &str) -> usize {
    let before = segments(root);
    let unclean = root.join("abort").exists();
    let log = kind.open(root, options());
    let recovery = log.recovery();
    assert_eq!(recovery.records, length_u64(expected.len()), "{what}");
    assert_eq!((recovery.end.get(), recovery.unclean), (end, unclean), "{what}");
    assert_holds(&log, expected, what);
    // What was there stays, and behind the end there is nothing that could come back.
    log.abandon();
    let after = segments(root);
    for (start, bytes) in &before {
        let len = usize::try_from(end.saturating_sub(*start).min(SEGMENT)).unwrap();
        match after.get(start) {
            Some(now) => {
                assert!(now[..len] == bytes[..len], "{what}: segment {start} changed");
                assert!(
                    now[len..].iter().all(|byte| *byte == 0) || len as u64 == SEGMENT,
                    "{what}"
                );
            }
            None => assert!(bytes.iter().all(|byte| *byte == 0), "{what}: segment {start} is gone"),
        }
    }
    goes_on(kind, root, kind.open(root, options()), expected, what);
    expected.len()
}

fn is_refused(
    kind: Kind,
    root: &Path,
    base: &[Stored],
    [at, resumes_at]: [u64; 2],
    what: &str,
) -> usize {
    let before = segments(root);
    match kind.try_open(root, options()).map(|_| ()) {
        Err(OpenError::Damage(damage)) => {
            let name = SegmentName::new(LogOffset::new(at / SEGMENT * SEGMENT));
            assert_eq!(damage.path, root.join("commitlog").join(name.as_str()), "{what}");
            let found = (damage.at.get(), damage.resumes_at.map(LogOffset::get));
            assert_eq!(found, (at, Some(resumes_at)), "{what}");
            assert_eq!(damage.len, resumes_at - at, "{what}");
            let behind = base.iter().filter(|stored| stored.at > at).count();
            assert_eq!(damage.records_behind, length_u64(behind), "{what}");
        }
        other => panic!("{what}: {other:?}"),
    }
    assert!(segments(root) == before, "{what}: something was changed");
    let whole: Vec<_> = base.iter().filter(|stored| stands_in(&before, stored)).collect();
    assert!(whole.iter().all(|stored| stored.at != at), "{what}: the patch hit something else");
    assert_eq!(whole.len(), base.len() - 1, "{what}: records beside the damage are gone");
    whole.len()
}

/// A message as its producer brought it.
fn message<'a>(put: &Value, properties: &'a [u8], body: &'a [u8]) -> Message<'a> {
    let input = &put["in"];
    Message {
        flag: narrow(&input["flag"]),
        sys_flag: SysFlag::new(u32::try_from(unsigned(&input["sysFlagIn"])).unwrap()),
        born_timestamp: TimestampMs::new(integer(&input["bornTimestamp"])),
        born_host: host(&input["bornHost"]),
        store_host: host(&input["storeHost"]),
        reconsume_times: narrow(&input["reconsumeTimes"]),
        prepared_transaction_offset: integer(&input["preparedTransactionOffset"]),
        properties,
        body,
        ..Message::default()
    }
}

/// Appends a put as its producer brought it; gives where it went, and the ids of its records.
fn append(log: &Log, put: &Value) -> Result<(Appended, String), AppendError> {
    let input = &put["in"];
    let topic = input["topic"].as_str().unwrap().as_bytes();
    let handle = log.queue(topic, QueueId::new(narrow(&input["queueId"]))).unwrap();
    let (properties, body) = (hex(&input["propertiesHex"]), hex(&input["bodyHex"]));
    let message = message(put, &properties, &body);
    if put["kind"] == "batch" {
        let batch = Batch::new(&body).unwrap();
        let appended = log.append_batch(&handle, &message, &batch, Wait::Yes)?;
        let ids = appended.offsets.iter().map(|at| MessageId::new(message.store_host, *at));
        let ids: Vec<String> = ids.map(|id| id.as_str().to_owned()).collect();
        return Ok((appended.ticket.appended(), ids.join(",")));
    }
    let appended = log.append(&handle, &message, Wait::Yes)?.appended();
    Ok((appended, appended.message_id(message.store_host).as_str().to_owned()))
}

/// Appends what RocketMQ's producers sent, and compares files, statuses and ids with RocketMQ's.
#[test]
fn rocketmqs_puts_make_rocketmqs_files() {
    for (name, kind) in ["plain", "batchcq", "crash"]
        .into_iter()
        .flat_map(|name| Kind::ALL.into_iter().map(move |kind| (name, kind)))
    {
        let root = tempfile::tempdir().unwrap();
        let log = kind.open(root.path(), LogOptions { protection: Protection::Body, ..options() });
        for put in puts(name) {
            let output = &put["out"];
            match append(&log, &put) {
                Ok((appended, ids)) => {
                    assert_eq!(output["putStatus"], "PUT_OK");
                    assert_eq!(appended.offset.get(), unsigned(&output["wroteOffset"]));
                    assert_eq!(u64::from(appended.len), unsigned(&output["wroteBytes"]));
                    assert_eq!(appended.queue_offset.get(), unsigned(&output["queueOffset"]));
                    assert_eq!(output["msgId"], ids);
                }
                Err(AppendError::Encode(EncodeError::PropertiesTooLong { .. })) => {
                    assert_eq!(output["putStatus"], "PROPERTIES_SIZE_EXCEEDED");
                }
                Err(other) => panic!("{name}, {kind:?}, put {}: {other}", put["idx"]),
            }
        }
        log.close().unwrap();
        let (mut ours, theirs) = (segments(root.path()), segments(&rocketmq::root().join(name)));
        for stored in stored_records(name) {
            // The store's own clock is all that may differ: STORETIMESTAMP, behind BORNHOST.
            let start = stored.at / SEGMENT * SEGMENT;
            let at = usize::try_from(stored.at - start).unwrap();
            let Ok(Frame::Record(view)) = decode(&theirs[&start][at..]) else { panic!("{at}") };
            let at = at + 48 + view.born_host().encoded_len();
            ours.get_mut(&start).unwrap()[at..at + 8].copy_from_slice(&theirs[&start][at..at + 8]);
        }
        for (start, bytes) in &theirs {
            match ours.get(start) {
                Some(ours) => assert!(ours == bytes, "{name}, {kind:?}: segment {start} differs"),
                None => assert!(bytes.iter().all(|byte| *byte == 0), "{name}, {kind:?}: {start}"),
            }
        }
    }
}

#[test]
fn what_rocketmq_answers_ok_and_does_not_store_is_refused() {
    for kind in Kind::ALL {
        let root = tempfile::tempdir().unwrap();
        let log = kind.open(root.path(), LogOptions { protection: Protection::Body, ..options() });
        let handle = log.queue(b"T", QueueId::new(0)).unwrap();
        let mut appended = Vec::new();
        for put in puts("oversize") {
            let zeros = put["in"]["bodyZeros"].as_u64().unwrap_or_default();
            let body = match zeros {
                0 => hex(&put["in"]["bodyHex"]),
                count => vec![0; usize::try_from(count).unwrap()],
            };
            let status = (&put["out"]["putStatus"], &put["out"]["appendStatus"]);
            match log.append_and_wait(&handle, &message(&put, b"", &body), Wait::Yes) {
                Ok(placed) => {
                    assert_eq!(status.1, "PUT_OK");
                    appended.push(placed.unwrap());
                }
                Err(AppendError::TooLarge(refused)) => {
                    assert_eq!((status.0, status.1), (&"PUT_OK".into(), &"END_OF_FILE".into()));
                    assert_eq!((refused.len, refused.max), (70_092, 65_528));
                }
                Err(AppendError::BodyTooLong { len, max }) => {
                    assert_eq!(status.0, "MESSAGE_ILLEGAL");
                    assert_eq!((len, max), ((4 << 20) + 1, 4 << 20));
                }
                Err(other) => panic!("{kind:?}: {other:?}"),
            }
        }
        let [first, second] = appended[..] else { panic!("{kind:?}: {appended:?}") };
        assert_eq!((first.offset, second.offset), (LogOffset::ZERO, first.end()));
        assert_eq!(second.queue_offset.get(), 1, "{kind:?}: no hole in the queue");
        log.close().unwrap();
    }
}
