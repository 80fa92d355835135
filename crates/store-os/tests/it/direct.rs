//! Writes past the page cache, and segments that are filled while they may be taken at any time.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use commit_realtime::CommitRealtime;
use flush_realtime::FlushRealtime;
use group_commit::GroupCommit;
use store_core::{LogOffset, Nanos, SegmentSize};
use store_os::{CommitEvent, FlushEvent, Io, Log, LogOptions, Observer, OpenError, Preallocate};

use crate::disks::aloud;
use crate::support::{Kind, body, eventually, files, put, queue, small};

const KIND: Kind = Kind::Sync(Io::Direct);

/// Segments that are filled with more than one piece of zeroes each.
fn filled() -> LogOptions {
    LogOptions {
        segment_size: SegmentSize::new(4 << 20).unwrap(),
        preallocate: Preallocate::Zero,
        staging_bytes: 4 << 20,
        max_message_bytes: 1 << 20,
        ..small()
    }
}

fn can_write_directly(root: &Path) -> bool {
    let can = Log::can_write_directly(root);
    if !can {
        aloud("left out: the directory for temporary files takes no O_DIRECT");
    }
    can
}

/// Everything that the segments hold, one behind the other.
fn bytes(root: &Path) -> Vec<u8> {
    files(root).into_iter().flat_map(|(_, bytes)| bytes).collect()
}

/// What an observer is told.
#[derive(Debug, Default)]
struct Told {
    commits: Mutex<Vec<CommitEvent>>,
    flushes: Mutex<Vec<FlushEvent>>,
}

impl Observer for Told {
    fn on_commit(&self, event: &CommitEvent) {
        self.commits.lock().unwrap().push(*event);
    }

    fn on_flush(&self, event: &FlushEvent) {
        self.flushes.lock().unwrap().push(*event);
    }
}

impl Told {
    /// For each flush, whether it began as the commit of its last byte did: both were one call.
    fn one_call_each(&self) -> Vec<bool> {
        let commits = self.commits.lock().unwrap();
        let committed = |flush: &FlushEvent| {
            let commit = commits.iter().find(|commit| commit.upto == flush.upto).unwrap();
            commit.started == flush.started
        };
        self.flushes.lock().unwrap().iter().map(committed).collect()
    }
}

/// The bodies that stand in the log, from `at` on.
fn bodies(log: &Log, at: LogOffset) -> Vec<Vec<u8>> {
    let mut cursor = log.cursor(at);
    let mut found = Vec::new();
    while let Some(record) = cursor.next_record().unwrap() {
        found.push(record.body().to_vec());
    }
    found
}

#[test]
fn a_block_is_written_again_as_it_fills_and_read_as_it_is() {
    let root = tempfile::tempdir().unwrap();
    if !can_write_directly(root.path()) {
        return;
    }
    let mut number = 0;
    for ending in ["abandoned", "closed", "abandoned"] {
        let log = KIND.open(root.path(), small());
        let handle = queue(&log, "T");
        // More than the staging ring and several segments hold.
        for _ in 0..150 {
            let appended = put(&log, &handle, &body(number));
            number += 1;
            let found = bodies(&log, appended.offset);
            assert_eq!(found, [body(number - 1)], "read through a page that was cached before");
            let end = usize::try_from(appended.end().get()).unwrap();
            let rest = &bytes(root.path())[end..];
            assert!(rest.iter().all(|byte| *byte == 0), "{ending}: behind record {number}");
        }
        assert_eq!(bodies(&log, LogOffset::ZERO), (0..number).map(body).collect::<Vec<_>>());
        match ending {
            "closed" => log.close().unwrap(),
            _ => log.abandon(),
        }
    }
    // What was written past the page cache is what others read through it.
    let log = Kind::Sync(Io::Positioned).open(root.path(), small());
    assert_eq!(bodies(&log, LogOffset::ZERO), (0..number).map(body).collect::<Vec<_>>());
}

#[test]
fn readers_beside_writers_see_whole_records_only() {
    let root = tempfile::tempdir().unwrap();
    if !can_write_directly(root.path()) {
        return;
    }
    let log = KIND.open(root.path(), small());
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut cursor = log.cursor(LogOffset::ZERO);
            let mut seen = 0;
            loop {
                let was_over = is_over.load(Ordering::SeqCst);
                while let Some(record) = cursor.next_record().unwrap() {
                    assert_eq!(record.body(), body(record.queue_offset().get()));
                    seen += 1;
                }
                if was_over {
                    return seen;
                }
            }
        });
        let writers: Vec<_> = (0..3)
            .map(|writer| {
                let log = &log;
                scope.spawn(move || {
                    let handle = queue(log, &format!("T{writer}"));
                    for number in 0..400 {
                        put(log, &handle, &body(number));
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.join().unwrap();
        }
        is_over.store(true, Ordering::SeqCst);
        assert_eq!(reader.join().unwrap(), 1200);
    });
    log.close().unwrap();
}

#[test]
fn a_staging_strategy_can_write_directly_too() {
    let root = tempfile::tempdir().unwrap();
    if !can_write_directly(root.path()) {
        return;
    }
    let options = || LogOptions { io: Some(Io::Direct), ..small() };
    for number in 0..3 {
        let log = Log::open(root.path(), options(), CommitRealtime::default()).unwrap();
        let handle = queue(&log, "T");
        for record in 0..100 {
            put(&log, &handle, &body(number * 100 + record));
        }
        log.close().unwrap();
    }
    let log = Log::open(root.path(), options(), CommitRealtime::default()).unwrap();
    assert_eq!(bodies(&log, LogOffset::ZERO), (0..300).map(body).collect::<Vec<_>>());
}

#[test]
fn what_cannot_be_written_directly_is_refused_with_what_to_do() {
    let root = tempfile::tempdir().unwrap();
    if !can_write_directly(root.path()) {
        return;
    }
    let direct = |options| LogOptions { io: Some(Io::Direct), ..options };
    let refused = |result: Result<Log, OpenError>, words: &str| {
        let error = result.unwrap_err().to_string();
        assert!(error.contains(words) && error.contains("Io::Positioned"), "{error}");
    };
    let timed = Log::open(root.path(), direct(small()), FlushRealtime::default());
    refused(timed, "would write each record to the device");
    let odd = LogOptions { segment_size: SegmentSize::new(10_000).unwrap(), ..small() };
    let log = Log::open(root.path(), direct(odd.clone()), GroupCommit::default());
    refused(log, "4096 bytes");
    // By default such a log is written another way.
    let log = Log::open(root.path(), odd, GroupCommit::default()).unwrap();
    put(&log, &queue(&log, "T"), b"goes");
    log.close().unwrap();
}

#[test]
fn segments_that_are_taken_while_they_are_filled_lose_nothing() {
    for kind in [KIND, Kind::Sync(Io::Positioned)] {
        let root = tempfile::tempdir().unwrap();
        let log = kind.open(root.path(), filled());
        let handle = queue(&log, "T");
        // As fast as it goes: the zeroes are outrun, and begun in each next segment.
        let large = |number: u8| vec![number; 700_000 + usize::from(number) * 1000];
        for number in 1..=60 {
            put(&log, &handle, &large(number));
        }
        let expect: Vec<_> = (1..=60).map(large).collect();
        assert!(bodies(&log, LogOffset::ZERO) == expect, "{kind:?}");
        log.abandon();
        let log = kind.open(root.path(), filled());
        assert_eq!(log.recovery().records, 60, "{kind:?}");
        assert!(bodies(&log, LogOffset::ZERO) == expect, "{kind:?}");
    }
}

#[test]
fn a_segment_that_has_time_is_filled_to_its_end() {
    let root = tempfile::tempdir().unwrap();
    for kind in [KIND, Kind::Sync(Io::Positioned)] {
        let root = root.path().join(format!("{kind:?}"));
        let log = kind.open(&root, filled());
        assert!(log.wait_for_segment(Duration::from_mins(1)));
        let segment = fs::File::open(root.join("commitlog/00000000000000000000")).unwrap();
        let size = filled().segment_size.bytes();
        // Reserved blocks are a hole to this question, until something was written to them.
        match rustix::fs::seek(&segment, rustix::fs::SeekFrom::Hole(0)) {
            Ok(hole) => assert_eq!(hole, size, "{kind:?}"),
            Err(error) => aloud(&format!("left out: SEEK_HOLE: {error}")),
        }
        log.close().unwrap();
    }
}

#[test]
fn without_reserved_space_a_log_works_but_not_into_a_mapping() {
    let none = || LogOptions { preallocate: Preallocate::None, ..small() };
    for kind in [KIND, Kind::Sync(Io::Positioned), Kind::Staged] {
        let root = tempfile::tempdir().unwrap();
        for number in 0..3 {
            let log = kind.open(root.path(), none());
            let handle = queue(&log, "T");
            for record in 0..40 {
                put(&log, &handle, &body(number * 40 + record));
            }
            log.close().unwrap();
        }
        let log = kind.open(root.path(), none());
        assert_eq!(bodies(&log, LogOffset::ZERO), (0..120).map(body).collect::<Vec<_>>());
    }
    let root = tempfile::tempdir().unwrap();
    let mapped = LogOptions { io: Some(Io::Mapped), ..none() };
    let error = Log::open(root.path(), mapped, FlushRealtime::default()).unwrap_err();
    assert!(error.to_string().contains("Preallocate::Fallocate"), "{error}");
}

fn one_call_each(root: &Path) -> Vec<bool> {
    let told = Arc::new(Told::default());
    let observer: Arc<dyn Observer> = told.clone();
    let options = LogOptions { observer: Some(observer), ..small() };
    let log = KIND.open(root, options);
    let handle = queue(&log, "T");
    for number in 0..5 {
        put(&log, &handle, &body(number));
    }
    log.close().unwrap();
    let one_call_each = told.one_call_each();
    assert_eq!(one_call_each.len(), 5);
    one_call_each
}

#[test]
fn a_group_is_written_and_synced_by_one_call_where_that_is_known_to_sync() {
    let root = tempfile::tempdir().unwrap();
    let magic = i128::from(rustix::fs::statfs(root.path()).unwrap().f_type);
    if ![0xEF53, 0x5846_5342].contains(&magic) {
        return aloud("left out: the directory for temporary files is on neither ext4 nor xfs");
    }
    assert_eq!(one_call_each(root.path()), [true; 5]);
}

#[test]
fn elsewhere_writing_and_syncing_stay_two_calls() {
    let Ok(root) = tempfile::tempdir_in("/dev/shm") else {
        return aloud("left out: /dev/shm is missing");
    };
    if can_write_directly(root.path()) {
        assert_eq!(one_call_each(root.path()), [false; 5]);
    }
}

#[test]
fn a_ring_that_is_half_full_is_written_before_its_time() {
    let never = Nanos::from_millis(3_600_000);
    let config = commit_realtime::Config {
        commit_interval: never,
        commit_least_pages: 1 << 20,
        commit_thorough_interval: never,
        ..commit_realtime::Config::default()
    };
    for io in [Io::Direct, Io::Positioned] {
        let root = tempfile::tempdir().unwrap();
        if io == Io::Direct && !can_write_directly(root.path()) {
            continue;
        }
        // One segment: a full one is committed too.
        let segment_size = SegmentSize::new(512 << 10).unwrap();
        let options =
            LogOptions { io: Some(io), segment_size, staging_bytes: 256 << 10, ..small() };
        let half = options.staging_bytes / 2;
        let log = Log::open(root.path(), options, CommitRealtime::new(config).unwrap()).unwrap();
        let handle = queue(&log, "T");
        // The strategy's first look commits what is there.
        let first = put(&log, &handle, &body(0)).end();
        eventually("the first look", || first <= log.marks().committed());
        let mut number = 1;
        let mut fill_to = |end: u64| {
            while log.marks().wrote().get() < first.get() + end {
                put(&log, &handle, &body(number));
                number += 1;
            }
        };
        fill_to(half - 2000);
        assert_eq!(log.marks().committed(), first, "{io:?}: it is not its time");
        fill_to(half + 6000);
        eventually("a commit", || half <= log.marks().committed().get());
        log.close().unwrap();
    }
}
