//! Stores that only look like a crash's: what open cuts, keeps a copy of, or leaves alone.

use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use store_core::{Message, Protection, QueueOffset, Wait};
use store_os::{Appended, Io, LogOptions, Observer, OpenError, Recovery, ScanProgress};

use crate::support::{Kind, body, put, queue, read_all, small};

const KIND: Kind = Kind::Sync(Io::Positioned);
const SEGMENT: u64 = 16 << 10;

/// A log of `count` records that looks as after a crash, without recovery points.
fn crashed(root: &Path, count: u64, options: LogOptions) -> Vec<Appended> {
    let log = KIND.open(root, options);
    let handle = queue(&log, "T");
    let appended = (0..count).map(|number| put(&log, &handle, &body(number))).collect();
    log.close().unwrap();
    fs::write(root.join("abort"), "1").unwrap();
    forget_points(root);
    appended
}

fn forget_points(root: &Path) {
    for name in ["recovery-point.0", "recovery-point.1"] {
        fs::remove_file(root.join(name)).unwrap();
    }
}

fn segment(root: &Path, start: u64) -> PathBuf {
    root.join("commitlog").join(format!("{start:020}"))
}

fn patch(root: &Path, at: u64, bytes: &[u8]) {
    let start = at / SEGMENT * SEGMENT;
    let file = fs::File::options().write(true).open(segment(root, start)).unwrap();
    file.write_all_at(bytes, at - start).unwrap();
}

/// The segments' names and bytes.
fn segments(root: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(root.join("commitlog")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
    let mut found: Vec<_> = paths.map(|path| (path.clone(), fs::read(path).unwrap())).collect();
    found.sort();
    found
}

#[track_caller]
fn refused_unchanged(root: &Path, options: LogOptions) -> OpenError {
    let before = segments(root);
    let refused = KIND.try_open(root, options).map(|_| ()).unwrap_err();
    assert!(segments(root) == before, "something was changed: {refused:?}");
    refused
}

fn opened(root: &Path) -> Recovery {
    let log = KIND.open(root, small());
    let recovery = log.recovery();
    log.abandon();
    recovery
}

#[test]
fn segments_under_each_others_names_are_damage_wherever_they_stand() {
    let root = tempfile::tempdir().unwrap();
    crashed(root.path(), 60, small());
    let count = u64::try_from(segments(root.path()).len()).unwrap();
    let (a, b) =
        (segment(root.path(), (count - 2) * SEGMENT), segment(root.path(), count * SEGMENT));
    // A copy of a segment behind the last one; then two that changed their names.
    fs::copy(&a, &b).unwrap();
    assert!(matches!(refused_unchanged(root.path(), small()), OpenError::Damage(_)));
    fs::remove_file(&b).unwrap();
    let last = segment(root.path(), (count - 1) * SEGMENT);
    let (before, after) = (fs::read(&a).unwrap(), fs::read(&last).unwrap());
    fs::write(&a, after).unwrap();
    fs::write(&last, before).unwrap();
    assert!(matches!(refused_unchanged(root.path(), small()), OpenError::Damage(_)));
}

#[test]
fn records_that_only_lack_their_crc32_property_are_another_brokers_and_not_torn() {
    let root = tempfile::tempdir().unwrap();
    let plain = LogOptions { protection: Protection::Body, ..small() };
    let log = KIND.open(root.path(), plain.clone());
    let handle = queue(&log, "T");
    let mut bad = None;
    for number in 0..40 {
        let own = b"a\x01b\x02";
        let brought = b"a\x01b\x02__CRC32#\x011234567890\x02";
        let properties = if number < 3 { &own[..] } else { brought };
        let message = Message { body: &[7; 900], properties, ..Message::default() };
        let appended = log.append_and_wait(&handle, &message, Wait::Yes).unwrap().unwrap();
        bad = bad.or(Some(appended.offset).filter(|_| number == 3));
    }
    log.close().unwrap();
    for is_closed in [true, false] {
        if !is_closed {
            fs::write(root.path().join("abort"), "1").unwrap();
        }
        match refused_unchanged(root.path(), small()) {
            OpenError::Damage(damage) => assert_eq!(Some(damage.at), bad),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(KIND.open(root.path(), plain).recovery().records, 40);
}

#[test]
fn what_does_not_look_torn_is_set_aside_before_it_is_cut() {
    let root = tempfile::tempdir().unwrap();
    let appended = crashed(root.path(), 60, small());
    // A later form of records, from the tenth on, over several segments.
    for record in &appended[10..] {
        patch(root.path(), record.offset.get() + 7, &[0xAF]);
    }
    let before = segments(root.path());
    let recovery = opened(root.path());
    assert_eq!((recovery.records, recovery.end), (10, appended[10].offset));
    assert!(recovery.torn_bytes > 30_000 && recovery.set_aside_bytes == recovery.torn_bytes);
    for (path, bytes) in before {
        let start: u64 = path.file_name().unwrap().to_str().unwrap().parse().unwrap();
        let from = recovery.end.get().max(start);
        let kept = format!("set-aside/{start:020}.cut-{from}");
        let Ok(kept) = fs::read(root.path().join("commitlog").join(kept)) else {
            assert!(bytes.iter().all(|byte| *byte == 0), "{start} is not kept");
            continue;
        };
        let cut = &bytes[usize::try_from(from - start).unwrap()..];
        assert!(cut.starts_with(&kept) && cut[kept.len()..].iter().all(|byte| *byte == 0));
    }
}

#[test]
fn a_torn_record_is_cut_without_a_copy_at_any_byte() {
    for cut in [0, 3, 6, 8, 30, 33, 60, 88, 100] {
        let root = tempfile::tempdir().unwrap();
        let last = crashed(root.path(), 30, small())[29];
        let from = last.offset.get() + cut;
        patch(root.path(), from, &vec![0; usize::try_from(last.end().get() - from).unwrap()]);
        let recovery = opened(root.path());
        assert_eq!((recovery.records, recovery.set_aside_bytes), (29, 0), "torn behind {cut}");
    }
}

/// Breaks off after a number of reports.
struct Impatient(AtomicU64);

impl Observer for Impatient {
    fn on_recovery(&self, _: &ScanProgress) -> ControlFlow<()> {
        let left =
            self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if left.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}

#[track_caller]
fn interrupt(root: &Path, options: LogOptions, after: u64) {
    let observer: Arc<dyn Observer> = Arc::new(Impatient(AtomicU64::new(after)));
    let options = LogOptions { observer: Some(observer), ..options };
    let refused = KIND.try_open(root, options).map(|_| ()).unwrap_err();
    assert_eq!(refused, OpenError::Interrupted);
}

#[test]
fn an_interrupted_open_does_not_make_left_overs_into_damage() {
    let root = tempfile::tempdir().unwrap();
    let appended = crashed(root.path(), 40, small());
    // What another owner leaves that cuts in memory and appends a shorter record.
    let victim = appended[30];
    let source = tempfile::tempdir().unwrap();
    let shorter = {
        let log = KIND.open(source.path(), small());
        let handle = queue(&log, "T");
        for number in 0..30 {
            put(&log, &handle, &body(number));
        }
        put(&log, &handle, b"after the cut")
    };
    assert_eq!(shorter.offset, victim.offset);
    assert!(shorter.len < victim.len);
    let start = victim.offset.get() / SEGMENT * SEGMENT;
    let bytes = fs::read(segment(source.path(), start)).unwrap();
    let from = usize::try_from(victim.offset.get() - start).unwrap();
    patch(root.path(), victim.offset.get(), &bytes[from..from + shorter.len as usize]);
    for after in 0..3 {
        interrupt(root.path(), small(), after);
    }
    let recovery = opened(root.path());
    assert_eq!((recovery.records, recovery.stale_records), (31, 9), "{recovery:?}");
    assert_eq!(read_all(&KIND.open(root.path(), small())).len(), 31);
}

/// Options of a log that grows past what is always read again.
fn large() -> LogOptions {
    LogOptions {
        segment_size: store_core::SegmentSize::new(1 << 20).unwrap(),
        staging_bytes: 8 << 20,
        max_message_bytes: 512 << 10,
        ..LogOptions::default()
    }
}

fn filled(root: &Path) -> Appended {
    let log = Kind::Timed(Io::Positioned).open(root, large());
    let handle = queue(&log, "A");
    let appended: Vec<_> = (0..80).map(|_| put(&log, &handle, &vec![1; 250 << 10])).collect();
    log.close().unwrap();
    appended[79]
}

#[test]
fn interrupts_do_not_replace_a_better_point() {
    let root = tempfile::tempdir().unwrap();
    let end = filled(root.path()).end();
    fs::write(root.path().join("abort"), "1").unwrap();
    for _ in 0..3 {
        interrupt(root.path(), large(), 0);
    }
    let log = KIND.open(root.path(), large());
    assert_eq!(log.recovery().scanned_from, end);
    assert_eq!(queue(&log, "A").next_offset(), QueueOffset::new(80));
}

#[test]
fn segments_missing_at_the_end_of_what_was_proven_are_missed() {
    let root = tempfile::tempdir().unwrap();
    let end = filled(root.path()).end();
    let last = segments(root.path()).pop().unwrap().0;
    let kept = fs::read(&last).unwrap();
    fs::remove_file(&last).unwrap();
    let refused = refused_unchanged(root.path(), large());
    assert_eq!(refused, OpenError::MissingEnd { path: last.clone(), proven: end });
    fs::write(&last, kept).unwrap();
    assert_eq!(KIND.open(root.path(), large()).recovery().end, end);
}

#[test]
fn a_point_that_cannot_be_written_is_no_failure_of_opening() {
    let root = tempfile::tempdir().unwrap();
    crashed(root.path(), 30, small());
    for name in ["recovery-point.0", "recovery-point.1"] {
        fs::create_dir(root.path().join(name)).unwrap();
    }
    interrupt(root.path(), small(), 1);
    assert_eq!(opened(root.path()).records, 30);
}

#[test]
fn an_empty_last_file_stays_if_opening_refuses() {
    let root = tempfile::tempdir().unwrap();
    let appended = crashed(root.path(), 40, small());
    let behind = u64::try_from(segments(root.path()).len()).unwrap() * SEGMENT;
    fs::write(segment(root.path(), behind), b"").unwrap();
    patch(root.path(), appended[20].offset.get() + 89, &[0xEE; 3]);
    assert!(matches!(refused_unchanged(root.path(), small()), OpenError::Damage(_)));
    assert!(segment(root.path(), behind).exists());
}

#[test]
fn a_wrong_body_length_does_not_hide_the_records_behind() {
    let root = tempfile::tempdir().unwrap();
    let options = LogOptions { protection: Protection::Body, ..small() };
    let log = KIND.open(root.path(), options.clone());
    let handle = queue(&log, "T");
    // Records of 256 bytes each, so that two more lengths fit.
    let appended: Vec<_> = (0..6).map(|_| put(&log, &handle, &[7; 164])).collect();
    assert_eq!(appended[0].len, 256);
    log.close().unwrap();
    patch(root.path(), appended[1].offset.get() + 86, &[2]);
    match refused_unchanged(root.path(), options) {
        OpenError::Damage(damage) => {
            assert_eq!(damage.resumes_at, Some(appended[2].offset));
            assert_eq!(damage.records_behind, 4);
        }
        other => panic!("{other:?}"),
    }
}
