//! Reopening: what is cut, what is refused, and that what was cut stays away.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use store_core::{LogOffset, QueueOffset, SegmentSize};
use store_os::{Io, LogOptions, Op, OpenError};

use crate::stores::{KIND, abandoned, filled};
use crate::support::{Kind, body, files, put, queue, read_all, small};

fn segment(root: &Path, start: u64) -> PathBuf {
    root.join("commitlog").join(format!("{start:020}"))
}

fn patch(root: &Path, at: u64, bytes: &[u8]) {
    let start = at / (16 << 10) * (16 << 10);
    let file = OpenOptions::new().write(true).open(segment(root, start)).unwrap();
    file.write_all_at(bytes, at - start).unwrap();
}

#[test]
fn a_clean_log_goes_on_where_it_stopped() {
    for first in Kind::ALL {
        for second in Kind::ALL {
            let root = tempfile::tempdir().unwrap();
            let log = first.open(root.path(), small());
            for number in 0..49 {
                put(&log, &queue(&log, "T"), &body(number));
            }
            let last = put(&log, &queue(&log, "T"), &body(49));
            log.close().unwrap();
            let log = second.open(root.path(), small());
            let recovery = log.recovery();
            assert_eq!((recovery.records, recovery.unclean), (50, false), "{first:?}, {second:?}");
            assert_eq!(recovery.end, last.end());
            let next = put(&log, &queue(&log, "T"), &body(50));
            assert_eq!(next.queue_offset, QueueOffset::new(50));
            assert_eq!(read_all(&log).len(), 51, "{first:?}, {second:?}");
        }
    }
}

#[test]
fn a_log_is_reopened_after_every_single_append() {
    let root = tempfile::tempdir().unwrap();
    for number in 0..60 {
        let log = KIND.open(root.path(), small());
        assert_eq!(log.recovery().records, number);
        let appended = put(&log, &queue(&log, "T"), &body(number));
        assert_eq!(appended.queue_offset, QueueOffset::new(number));
        log.close().unwrap();
    }
}

#[test]
fn a_tail_torn_at_any_byte_is_cut_and_stays_cut() {
    for cut in [1, 4, 8, 20, 36, 40, 91] {
        let root = tempfile::tempdir().unwrap();
        let appended = abandoned(root.path(), 30);
        let last = appended[29];
        let torn = [0_u8; 2048];
        let keep = last.offset.get() + cut;
        let rest = usize::try_from(last.end().get() - keep).unwrap();
        patch(root.path(), keep, &torn[..rest]);
        let log = KIND.open(root.path(), small());
        assert_eq!(log.recovery().records, 29, "cut after {cut}");
        assert_eq!(log.recovery().end, last.offset);
        log.close().unwrap();
        let bytes = fs::read(segment(root.path(), last.offset.get() / 16384 * 16384)).unwrap();
        let from = usize::try_from(last.offset.get() % 16384).unwrap();
        assert!(bytes[from..].iter().all(|byte| *byte == 0), "cut after {cut}: not overwritten");
    }
}

/// golden/stale: RocketMQ drops records behind a cut, and a later recovery brings them back.
#[test]
fn records_behind_a_cut_never_come_back() {
    let root = tempfile::tempdir().unwrap();
    let appended = abandoned(root.path(), 30);
    let last = appended[29];
    // The last record is torn, and a copy of it, whole, stands right behind: stale bytes that a
    // recovery which only moves positions would run into after the next append.
    let start = last.offset.get() / 16384 * 16384;
    let bytes = fs::read(segment(root.path(), start)).unwrap();
    let from = usize::try_from(last.offset.get() - start).unwrap();
    let record = bytes[from..from + usize::try_from(last.len).unwrap()].to_vec();
    patch(root.path(), last.end().get(), &record);
    patch(root.path(), last.offset.get() + 90, &[0xFF; 3]);
    let log = KIND.open(root.path(), small());
    assert_eq!(log.recovery().records, 29);
    assert_eq!(log.recovery().torn_bytes, 2 * u64::from(last.len));
    // A record of the same length goes where the torn one stood.
    let again = put(&log, &queue(&log, "T"), &body(29));
    assert_eq!((again.offset, again.len), (last.offset, last.len));
    drop(log);
    let log = KIND.open(root.path(), small());
    assert_eq!(log.recovery().records, 30, "a stale record came back");
}

#[test]
fn damage_with_valid_records_behind_is_refused_and_nothing_is_changed() {
    let root = tempfile::tempdir().unwrap();
    let appended = filled(root.path(), 60);
    for victim in [0, 5, 20, 58] {
        let at = appended[victim].offset.get() + 89;
        let path = segment(root.path(), at / 16384 * 16384);
        let whole = fs::read(&path).unwrap();
        patch(root.path(), at, &[whole[usize::try_from(at % 16384).unwrap()] ^ 1]);
        let damaged: Vec<_> = files(root.path());
        match KIND.try_open(root.path(), small()).map(|_| ()) {
            Err(OpenError::Damage(damage)) => {
                let next = appended[victim + 1].offset;
                assert_eq!(damage.path, path);
                assert_eq!(damage.at, appended[victim].offset);
                assert_eq!(damage.len, next.since(damage.at));
                assert_eq!(damage.resumes_at, Some(next));
                assert_eq!(damage.records_behind, 59 - victim as u64);
            }
            other => panic!("record {victim}: {other:?}"),
        }
        assert_eq!(files(root.path()), damaged, "record {victim}: something was changed");
        fs::write(&path, whole).unwrap();
    }
    assert_eq!(KIND.open(root.path(), small()).recovery().records, 60);
}

#[test]
fn what_is_no_part_of_this_log_is_neither_cut_nor_removed() {
    let root = tempfile::tempdir().unwrap();
    filled(root.path(), 60);
    let last = files(root.path()).len() as u64 * 16384;
    // A segment restored under a wrong name.
    fs::copy(segment(root.path(), 0), segment(root.path(), last)).unwrap();
    let before = files(root.path());
    let refused = KIND.try_open(root.path(), small()).map(|_| ()).unwrap_err();
    assert!(matches!(refused, OpenError::Damage(_) | OpenError::UnknownFile { .. }), "{refused:?}");
    assert_eq!(files(root.path()), before, "something was changed");
    // Foreign bytes under a segment's name.
    fs::write(segment(root.path(), last), vec![7; 16384]).unwrap();
    let refused = KIND.try_open(root.path(), small()).map(|_| ()).unwrap_err();
    assert_eq!(refused, OpenError::UnknownFile { path: segment(root.path(), last) });
    assert!(segment(root.path(), last).exists());
    // A name past the last offset, and a directory under a segment's name.
    fs::remove_file(segment(root.path(), last)).unwrap();
    for name in ["18446744073709535232", "00000000000001638400"] {
        let path = root.path().join("commitlog").join(name);
        if name.starts_with('1') {
            fs::write(&path, vec![0; 16384]).unwrap();
        } else {
            fs::create_dir(&path).unwrap();
        }
        let refused = KIND.try_open(root.path(), small()).map(|_| ()).unwrap_err();
        assert_eq!(refused, OpenError::UnknownFile { path: path.clone() });
        if path.is_dir() { fs::remove_dir(path) } else { fs::remove_file(path) }.unwrap();
    }
    assert_eq!(KIND.open(root.path(), small()).recovery().records, 60);
}

#[test]
fn a_long_log_holds_few_descriptors_and_is_read_whole() {
    let root = tempfile::tempdir().unwrap();
    let log = KIND.open(root.path(), small());
    let handle = queue(&log, "T");
    let count = 400;
    for number in 0..count {
        put(&log, &handle, &vec![u8::try_from(number % 251).unwrap(); 7000]);
    }
    let open = fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter_map(|entry| fs::read_link(entry.unwrap().path()).ok())
        .filter(|path| path.starts_with(root.path()))
        .count();
    assert!(open < 20, "{open} descriptors for {} segments", files(root.path()).len());
    assert_eq!(read_all(&log).len(), count);
    log.close().unwrap();
    assert_eq!(KIND.open(root.path(), small()).recovery().records, count as u64);
}

#[test]
fn a_roll_that_was_cut_short_is_continued() {
    let root = tempfile::tempdir().unwrap();
    let appended = abandoned(root.path(), 30);
    let second = appended.iter().find(|appended| appended.offset.get() == 16384).unwrap();
    // The blank is there, the next segment is all zero, as after a crash between the two.
    for start in [16384, 32768] {
        if segment(root.path(), start).exists() {
            fs::write(segment(root.path(), start), vec![0; 16384]).unwrap();
        }
    }
    let log = KIND.open(root.path(), small());
    assert_eq!(log.recovery().end, second.offset);
    let again = put(&log, &queue(&log, "T"), b"again");
    assert_eq!(again.offset, second.offset);
    assert!(!segment(root.path(), 49152).exists());
}

#[test]
fn files_that_are_not_segments_of_this_log_are_named() {
    let root = tempfile::tempdir().unwrap();
    filled(root.path(), 60);
    let commitlog = root.path().join("commitlog");

    let path = commitlog.join("notes.txt");
    fs::write(&path, "mine").unwrap();
    let refused = KIND.try_open(root.path(), small()).map(|_| ()).unwrap_err();
    assert_eq!(refused, OpenError::UnknownFile { path: path.clone() });
    fs::remove_file(path).unwrap();

    let middle = segment(root.path(), 16384);
    let aside = root.path().join("aside");
    fs::rename(&middle, &aside).unwrap();
    let refused = KIND.try_open(root.path(), small()).map(|_| ()).unwrap_err();
    assert_eq!(refused, OpenError::MissingSegment { path: middle.clone() });
    fs::rename(&aside, &middle).unwrap();

    OpenOptions::new().write(true).open(&middle).unwrap().set_len(1000).unwrap();
    let refused = KIND.try_open(root.path(), small()).map(|_| ()).unwrap_err();
    let wrong = OpenError::WrongLength { path: middle.clone(), found: 1000, expected: 16384 };
    assert_eq!(refused, wrong);

    let other = LogOptions { segment_size: SegmentSize::new(32 << 10).unwrap(), ..small() };
    let refused = KIND.try_open(root.path(), other).map(|_| ()).unwrap_err();
    assert!(matches!(refused, OpenError::WrongLength { expected: 32768, .. }), "{refused:?}");
}

#[test]
fn a_last_file_without_a_byte_is_what_a_crash_leaves_and_is_dropped() {
    let root = tempfile::tempdir().unwrap();
    let count = filled(root.path(), 30).len();
    let next = files(root.path()).len() as u64 * 16384;
    fs::write(segment(root.path(), next), "").unwrap();
    let log = KIND.open(root.path(), small());
    assert_eq!(log.recovery().records, count as u64);
}

#[test]
fn a_log_that_starts_later_is_read_from_there() {
    let root = tempfile::tempdir().unwrap();
    let appended = filled(root.path(), 60);
    fs::remove_file(segment(root.path(), 0)).unwrap();
    let log = KIND.open(root.path(), small());
    assert_eq!(log.recovery().start, LogOffset::new(16384));
    let kept = appended.iter().filter(|appended| appended.offset.get() >= 16384).count();
    assert_eq!(read_all(&log).len(), kept);
    assert!(log.cursor(LogOffset::ZERO).next_record().is_err());
}

#[test]
fn one_log_owns_a_directory() {
    let root = tempfile::tempdir().unwrap();
    let log = KIND.open(root.path(), small());
    for _ in 0..2 {
        let refused = KIND.try_open(root.path(), small()).map(|_| ()).unwrap_err();
        assert_eq!(refused, OpenError::Locked { path: root.path().join("lock") });
    }
    put(&log, &queue(&log, "T"), b"still mine");
    assert_eq!(fs::read(root.path().join("lock")).unwrap(), b"lock");
    let pid = fs::read_to_string(root.path().join("abort")).unwrap();
    assert_eq!(pid, std::process::id().to_string());
    log.close().unwrap();
    assert!(!root.path().join("abort").exists());
    KIND.open(root.path(), small()).close().unwrap();
}

#[test]
fn a_directory_that_cannot_be_made_is_named() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("file");
    fs::write(&file, "").unwrap();
    let refused = KIND.try_open(&file.join("store"), small()).map(|_| ()).unwrap_err();
    let OpenError::System(error) = refused else { panic!("{refused:?}") };
    assert!(error.to_string().starts_with("cannot create "), "{error}");
}

#[test]
fn a_staging_buffer_that_no_memory_holds_is_an_error() {
    for staging_bytes in [u64::MAX, u64::MAX >> 1] {
        let root = tempfile::tempdir().unwrap();
        let options = LogOptions { staging_bytes, ..small() };
        let refused = KIND.try_open(root.path(), options).map(|_| ()).unwrap_err();
        let OpenError::System(error) = refused else { panic!("{refused:?}") };
        assert_eq!(error.op, Op::Map, "{error}");
    }
}

#[test]
fn options_that_contradict_are_refused_with_the_remedy() {
    let root = tempfile::tempdir().unwrap();
    let options = LogOptions { staging_bytes: 1000, ..small() };
    let refused = KIND.try_open(root.path(), options).map(|_| ()).unwrap_err();
    assert!(refused.to_string().contains("staging_bytes is 1000"), "{refused}");
    let options = LogOptions { io: Some(Io::Mapped), ..small() };
    let strategy = commit_realtime::CommitRealtime::default();
    let refused = store_os::Log::open(root.path(), options, strategy).map(|_| ()).unwrap_err();
    assert!(refused.to_string().contains("needs Io::Positioned"), "{refused}");
}
