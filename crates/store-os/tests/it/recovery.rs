//! What opening reads, proves and keeps: recovery points, interrupted scans, the checkpoint, and
//! records that an earlier cut left behind.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use store_core::{
    Checkpoint, Destination, LogOffset, Message, Placed, Protection, QueueId, QueueOffset,
    SegmentSize, TimestampMs, Topic, Wait, encode,
};
use store_os::{
    Appended, Call, CommitEvent, FlushEvent, Health, Io, Log, LogOptions, Observer, OpenError,
    ScanProgress, SurveyOptions,
};

use crate::support::{Injector, Kind, body, eventually, put, queue, read_all, small, with_faults};

const KIND: Kind = Kind::Sync(Io::Positioned);

/// Options of a log that grows past what is always read again.
fn large() -> LogOptions {
    LogOptions {
        segment_size: SegmentSize::new(1 << 20).unwrap(),
        staging_bytes: 8 << 20,
        max_message_bytes: 512 << 10,
        ..LogOptions::default()
    }
}

/// A closed log of 24 MiB and its last record.
fn filled(root: &Path) -> Appended {
    let log = Kind::Timed(Io::Positioned).open(root, large());
    let handles = [queue(&log, "A"), queue(&log, "B")];
    let mut last = None;
    for number in 0..96 {
        last = Some(put(&log, &handles[number % 2], &vec![1; 250 << 10]));
    }
    log.close().unwrap();
    last.unwrap()
}

fn forget_points(root: &Path) {
    for name in ["recovery-point.0", "recovery-point.1"] {
        fs::remove_file(root.join(name)).unwrap();
    }
}

fn segment(root: &Path, offset: LogOffset, size: u64) -> (PathBuf, u64) {
    let start = offset.get() / size * size;
    (root.join("commitlog").join(format!("{start:020}")), offset.get() - start)
}

fn patch(root: &Path, offset: LogOffset, size: u64, bytes: &[u8]) {
    use std::os::unix::fs::FileExt;
    let (path, at) = segment(root, offset, size);
    fs::File::options().write(true).open(path).unwrap().write_all_at(bytes, at).unwrap();
}

#[test]
fn a_long_log_that_was_closed_is_not_read_again_and_goes_on() {
    let root = tempfile::tempdir().unwrap();
    let last = filled(root.path());
    let log = KIND.open(root.path(), large());
    let recovery = log.recovery();
    assert_eq!((recovery.start, recovery.records), (LogOffset::ZERO, 0));
    assert_eq!((recovery.scanned_from, recovery.end), (last.end(), last.end()));
    assert_eq!(queue(&log, "A").next_offset(), QueueOffset::new(48));
    assert_eq!(put(&log, &queue(&log, "B"), b"next").queue_offset, QueueOffset::new(48));
    assert_eq!(read_all(&log).len(), 97, "what was not read again is there");
    log.close().unwrap();
}

#[test]
fn after_a_crash_the_scan_begins_at_what_is_proven() {
    let root = tempfile::tempdir().unwrap();
    let proven = filled(root.path()).end();
    let log = KIND.open(root.path(), large());
    let handle = queue(&log, "C");
    for number in 0..100 {
        put(&log, &handle, &body(number));
    }
    log.abandon();
    let log = KIND.open(root.path(), large());
    let recovery = log.recovery();
    assert_eq!((recovery.scanned_from, recovery.records), (proven, 100));
    assert!(recovery.unclean);
    assert_eq!(queue(&log, "C").next_offset(), QueueOffset::new(100));
    assert_eq!(queue(&log, "A").next_offset(), QueueOffset::new(48));
    assert_eq!(read_all(&log).len(), 196);
}

#[test]
fn a_log_that_was_changed_meanwhile_is_read_whole() {
    let root = tempfile::tempdir().unwrap();
    let last = filled(root.path());
    // Another owner cut the last record and stored one of the same length there.
    let topic = Topic::new(b"B").unwrap();
    let to = Destination { topic, queue_id: QueueId::new(0) };
    let changed = vec![2; 250 << 10];
    let message = Message { body: &changed, ..Message::default() };
    let mut out = vec![0; 300 << 10];
    let record = encode(to, &message, Protection::Record, &mut out).unwrap().place(&Placed {
        log_offset: last.offset,
        queue_offset: last.queue_offset,
        store_timestamp: TimestampMs::new(last.store_timestamp.get() + 1),
    });
    patch(root.path(), last.offset, 1 << 20, record);
    let log = KIND.open(root.path(), large());
    assert_eq!((log.recovery().scanned_from, log.recovery().records), (LogOffset::ZERO, 96));
    drop(log);
    // Another owner ran, which kept no point but the checkpoint.
    let others = Checkpoint { logics_msg_timestamp: TimestampMs::new(1), ..Checkpoint::default() };
    fs::write(root.path().join("checkpoint"), others.encode()).unwrap();
    let log = KIND.open(root.path(), large());
    assert_eq!((log.recovery().scanned_from, log.recovery().records), (LogOffset::ZERO, 96));
    log.close().unwrap();
    let log = KIND.open(root.path(), large());
    assert_eq!(log.recovery().scanned_from, log.recovery().end);
    log.close().unwrap();
    // Without its points, and with points that are garbage.
    for garbage in [&b""[..], b"FMPOINT1 garbage", &[0xFF; 200]] {
        for name in ["recovery-point.0", "recovery-point.1"] {
            fs::write(root.path().join(name), garbage).unwrap();
        }
        let log = KIND.open(root.path(), large());
        assert_eq!((log.recovery().scanned_from, log.recovery().records), (LogOffset::ZERO, 96));
        assert_eq!(queue(&log, "A").next_offset(), QueueOffset::new(48));
    }
}

/// Breaks off after a number of reports.
struct Impatient {
    left: AtomicU64,
    seen: AtomicU64,
}

impl Observer for Impatient {
    fn on_commit(&self, _: &CommitEvent) {}
    fn on_flush(&self, _: &FlushEvent) {}
    fn on_recovery(&self, progress: &ScanProgress) -> ControlFlow<()> {
        assert!(progress.scanned_bytes <= progress.total_bytes);
        self.seen.fetch_max(progress.scanned_bytes, Ordering::SeqCst);
        match self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1))
        {
            Ok(_) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    }
}

#[test]
fn an_interrupted_scan_is_gone_on_with() {
    let root = tempfile::tempdir().unwrap();
    let last = filled(root.path());
    forget_points(root.path());
    fs::write(root.path().join("abort"), "1").unwrap();
    let observer = Arc::new(Impatient { left: AtomicU64::new(20), seen: AtomicU64::new(0) });
    let watched: Arc<Impatient> = Arc::clone(&observer);
    let options = LogOptions { observer: Some(watched), ..large() };
    let refused = KIND.try_open(root.path(), options).map(|_| ()).unwrap_err();
    assert_eq!(refused, OpenError::Interrupted);
    assert!(observer.seen.load(Ordering::SeqCst) > 16 << 20);
    let log = KIND.open(root.path(), large());
    let recovery = log.recovery();
    assert!(recovery.scanned_from.get() > 16 << 20, "{recovery:?}");
    assert_eq!((recovery.end, recovery.unclean), (last.end(), true));
    assert_eq!(queue(&log, "A").next_offset(), QueueOffset::new(48));
    assert_eq!(read_all(&log).len(), 96);
}

#[test]
fn the_checkpoint_holds_what_is_flushed_and_keeps_what_others_wrote() {
    let root = tempfile::tempdir().unwrap();
    let others = Checkpoint {
        logics_msg_timestamp: TimestampMs::new(7),
        index_msg_timestamp: TimestampMs::new(8),
        master_flushed_offset: 9,
        ..Checkpoint::default()
    };
    fs::write(root.path().join("checkpoint"), others.encode()).unwrap();
    let read = || {
        let bytes = fs::read(root.path().join("checkpoint")).unwrap();
        assert_eq!(bytes.len(), Checkpoint::FILE_LEN);
        Checkpoint::decode(&bytes).unwrap()
    };
    let log = KIND.open(root.path(), small());
    assert_eq!(read(), others, "nothing is stored yet");
    let handle = queue(&log, "T");
    let mut last = put(&log, &handle, b"first");
    for number in 0..20 {
        last = put(&log, &handle, &body(number));
    }
    log.close().unwrap();
    let expect = Checkpoint {
        physic_msg_timestamp: last.store_timestamp,
        confirm_phy_offset: i64::try_from(last.offset.get()).unwrap(),
        ..others
    };
    assert_eq!(read(), expect);
    // A staged record that a crash takes is never in it.
    let log = Kind::Staged.open(root.path(), small());
    put(&log, &queue(&log, "T"), b"staged");
    log.abandon();
    assert_eq!(read(), expect);
}

/// What RocketMQ leaves when it cuts a log, which it does in memory alone, and then appends: the
/// bytes of `old` records stand behind those of the new ones.
///
/// The recovery point is still there.
fn with_left_overs(root: &Path, ahead_ms: i64) -> (Vec<Appended>, Vec<u8>) {
    let log = KIND.open(root, small());
    let handle = queue(&log, "T");
    let old: Vec<_> = (0..30).map(|number| put(&log, &handle, &body(number))).collect();
    log.close().unwrap();
    let to = Destination { topic: Topic::new(b"T").unwrap(), queue_id: QueueId::new(0) };
    let mut out = vec![0; 400];
    let message = Message { body: b"stored after the cut", ..Message::default() };
    let record = encode(to, &message, Protection::Record, &mut out).unwrap().place(&Placed {
        log_offset: old[10].offset,
        queue_offset: old[10].queue_offset,
        store_timestamp: TimestampMs::new(old[29].store_timestamp.get() + ahead_ms),
    });
    patch(root, old[10].offset, 16 << 10, record);
    let end = old[10].offset.get() + u64::try_from(record.len()).unwrap();
    assert!(end < old[10].end().get());
    let (path, _) = segment(root, old[10].offset, 16 << 10);
    let left = fs::read(path).unwrap()[usize::try_from(end % (16 << 10)).unwrap()..].to_vec();
    (old, left)
}

#[test]
fn left_overs_of_an_earlier_cut_are_set_aside_and_never_come_back() {
    for was_closed in [true, false] {
        let root = tempfile::tempdir().unwrap();
        let (old, left) = with_left_overs(root.path(), 1);
        forget_points(root.path());
        if !was_closed {
            fs::write(root.path().join("abort"), "1").unwrap();
        }
        let log = KIND.open(root.path(), small());
        let recovery = log.recovery();
        assert_eq!((recovery.records, recovery.stale_records), (11, 19), "{was_closed}");
        assert_eq!(recovery.set_aside_bytes, recovery.torn_bytes, "{was_closed}");
        assert_eq!(read_all(&log).last().unwrap().1, b"stored after the cut");
        // They are kept, byte for byte.
        let mut kept: Vec<_> = fs::read_dir(root.path().join("commitlog/set-aside"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        kept.sort();
        let first = fs::read(&kept[0]).unwrap();
        assert!(left.starts_with(&first) && left[first.len()..].iter().all(|byte| *byte == 0));
        // New records of the old ones' lengths run into nothing.
        let handle = queue(&log, "T");
        for number in 11..14 {
            put(&log, &handle, &body(number));
        }
        log.abandon();
        let log = KIND.open(root.path(), small());
        assert_eq!((log.recovery().records, log.recovery().stale_records), (14, 0));
        assert!(log.recovery().end < old[20].offset);
    }
}

/// A log of our own has no left-overs: what looks so has a clock that was set back.
#[test]
fn in_a_log_with_a_recovery_point_nothing_counts_as_left_over() {
    let root = tempfile::tempdir().unwrap();
    let (old, _) = with_left_overs(root.path(), 1);
    match KIND.try_open(root.path(), small()).map(|_| ()) {
        Err(OpenError::Damage(damage)) => {
            assert_eq!((damage.resumes_at, damage.records_behind), (Some(old[11].offset), 19));
        }
        other => panic!("{other:?}"),
    }
    let found = store_os::survey(root.path(), &SurveyOptions::default()).unwrap();
    assert_eq!((found.health(), found.records), (Health::Damaged, 30));
    forget_points(root.path());
    let found = store_os::survey(root.path(), &SurveyOptions::default()).unwrap();
    assert_eq!((found.health(), found.records), (Health::TornTail, 11));
}

/// A bad last record is a torn tail, whatever the reason; where nothing should be torn, it is kept.
#[test]
fn what_should_not_be_torn_is_set_aside_before_it_is_cut() {
    for (is_closed, has_points, is_kept) in
        [(true, true, true), (false, true, true), (true, false, false), (false, false, false)]
    {
        let root = tempfile::tempdir().unwrap();
        let log = KIND.open(root.path(), small());
        let handle = queue(&log, "T");
        let appended: Vec<_> = (0..10).map(|number| put(&log, &handle, &body(number))).collect();
        log.close().unwrap();
        let last = appended[9];
        patch(root.path(), LogOffset::new(last.offset.get() + 89), 16 << 10, &[0xEE]);
        if !is_closed {
            fs::write(root.path().join("abort"), "1").unwrap();
        }
        if !has_points {
            forget_points(root.path());
        }
        let log = KIND.open(root.path(), small());
        let recovery = log.recovery();
        let what = format!("closed {is_closed}, points {has_points}");
        assert_eq!((recovery.records, recovery.end), (9, last.offset), "{what}");
        assert_eq!(recovery.torn_bytes, u64::from(last.len), "{what}");
        let kept = if is_kept { u64::from(last.len) } else { 0 };
        assert_eq!(recovery.set_aside_bytes, kept, "{what}");
        assert_eq!(root.path().join("commitlog/set-aside").exists(), is_kept, "{what}");
    }
}

#[test]
fn newer_records_behind_a_bad_one_are_no_left_overs() {
    let root = tempfile::tempdir().unwrap();
    with_left_overs(root.path(), -1_000_000);
    forget_points(root.path());
    match KIND.try_open(root.path(), small()).map(|_| ()) {
        Err(OpenError::Damage(damage)) => assert_eq!(damage.records_behind, 19),
        other => panic!("{other:?}"),
    }
    assert!(!root.path().join("commitlog/set-aside").exists());
}

/// A closed log of one record, behind which another owner stored one `ahead_ms` later.
fn with_a_record_ahead(root: &Path, ahead_ms: i64) -> (Appended, TimestampMs) {
    let log = KIND.open(root, small());
    let first = put(&log, &queue(&log, "T"), b"first");
    log.close().unwrap();
    let to = Destination { topic: Topic::new(b"T").unwrap(), queue_id: QueueId::new(0) };
    let mut out = vec![0; 400];
    let stored = TimestampMs::new(first.store_timestamp.get() + ahead_ms);
    let message = Message { body: b"second", ..Message::default() };
    let record = encode(to, &message, Protection::Record, &mut out).unwrap().place(&Placed {
        log_offset: first.end(),
        queue_offset: QueueOffset::new(1),
        store_timestamp: stored,
    });
    patch(root, first.end(), 16 << 10, record);
    (first, stored)
}

#[test]
fn a_clock_that_was_set_back_is_reported_and_not_fatal() {
    let root = tempfile::tempdir().unwrap();
    let (first, back) = with_a_record_ahead(root.path(), -5000);
    let log = KIND.open(root.path(), small());
    let recovery = log.recovery();
    assert_eq!((recovery.records, recovery.clock_steps), (2, 1));
    let step = recovery.first_clock_step.unwrap();
    assert_eq!((step.at, step.before, step.after), (first.end(), first.store_timestamp, back));
    // Times never go back in what is appended here.
    assert!(put(&log, &queue(&log, "T"), b"third").store_timestamp >= first.store_timestamp);
}

#[test]
fn a_time_far_ahead_of_the_clock_does_not_hold_the_log_at_it() {
    let root = tempfile::tempdir().unwrap();
    let (_, ahead) = with_a_record_ahead(root.path(), 3_600_000);
    let log = KIND.open(root.path(), small());
    assert!(put(&log, &queue(&log, "T"), b"third").store_timestamp < ahead);
}

fn proven(root: &Path) -> Option<LogOffset> {
    store_os::survey(root, &SurveyOptions::default()).unwrap().proven
}

/// The keeper writes while the log runs, and never ahead of what a sync covers: a second log, whose
/// syncs return, tells how often the keepers have been at it.
#[test]
fn a_running_log_keeps_its_point_close_behind_what_is_flushed() {
    let (held, clock) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let injector = Injector::new();
    let stuck = KIND.open(held.path(), with_faults(small(), &injector));
    let first = put(&stuck, &queue(&stuck, "T"), b"flushed");
    eventually("the first point", || proven(held.path()) == Some(first.end()));
    injector.hold(Call::Sync);
    let message = Message { body: b"in a sync that does not return", ..Message::default() };
    let ticket = stuck.append(&queue(&stuck, "T"), &message, Wait::Yes).unwrap();
    let other = KIND.open(clock.path(), small());
    for _ in 0..3 {
        let end = put(&other, &queue(&other, "T"), b"tick").end();
        eventually("a tick", || proven(clock.path()) == Some(end));
    }
    let ahead = proven(held.path());
    let checkpoint = fs::read(held.path().join("checkpoint")).unwrap();
    // First let go, or a failed assertion would wait for the sync.
    injector.let_go();
    assert_eq!(ahead, Some(first.end()), "ahead of the sync");
    let checkpoint = Checkpoint::decode(&checkpoint).unwrap();
    assert_eq!(checkpoint.confirm_phy_offset, 0, "ahead of the sync");
    let second = ticket.wait().unwrap();
    eventually("the next point", || proven(held.path()) == Some(second.end()));
    stuck.abandon();
    other.abandon();
}

#[test]
fn a_flipped_header_bit_is_damage_unless_checksums_cover_bodies_alone() {
    let root = tempfile::tempdir().unwrap();
    let log = KIND.open(root.path(), small());
    let handle = queue(&log, "T");
    let appended: Vec<_> = (0..10).map(|number| put(&log, &handle, &body(number))).collect();
    log.close().unwrap();
    // FLAG, which BODYCRC does not cover.
    patch(root.path(), LogOffset::new(appended[4].offset.get() + 19), 16 << 10, &[1]);
    match KIND.try_open(root.path(), small()).map(|_| ()) {
        Err(OpenError::Damage(damage)) => {
            assert_eq!((damage.at, damage.records_behind), (appended[4].offset, 5));
        }
        other => panic!("{other:?}"),
    }
    let options = LogOptions { protection: Protection::Body, ..small() };
    assert_eq!(KIND.open(root.path(), options).recovery().records, 10);
}

/// Opens under every strategy a log that another closed, so that each meets each one's files.
#[test]
fn points_are_common_to_all_strategies() {
    let root = tempfile::tempdir().unwrap();
    filled(root.path());
    let mut end = None;
    for kind in Kind::ALL {
        let log: Log = kind.open(root.path(), large());
        let recovery = log.recovery();
        assert_eq!(recovery.scanned_from, recovery.end, "{kind:?}");
        assert!(end.is_none_or(|end| end == recovery.end), "{kind:?}");
        end = Some(put(&log, &queue(&log, "A"), b"one more").end());
        log.close().unwrap();
    }
}
