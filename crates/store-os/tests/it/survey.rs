//! Surveying: what a store holds, and each kind of fault by name and place.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;

use store_core::{
    LogOffset, Protection, QueueId, QueueOffset, SegmentSize, TimestampMs, length_u64,
};
use store_os::{
    Fault, FaultKind, Health, OpenError, ScanProgress, Survey, SurveyError, SurveyOptions, survey,
};

use crate::rocketmq::stored_records;
use crate::stores::{
    KIND, Made, SEGMENT, abandoned, files, filled, flip, golden, made, patch, segment, segment_of,
    segment_size,
};
use crate::support::{body, eventually, put, queue, small};

fn look(root: &Path) -> Survey {
    survey(root, &SurveyOptions::default()).unwrap()
}

#[track_caller]
fn only_fault(found: &Survey) -> &Fault {
    assert_eq!(found.faults.len(), 1, "{:?}", found.faults);
    &found.faults[0]
}

#[test]
fn a_sound_store_is_counted_to_the_last_record() {
    let root = tempfile::tempdir().unwrap();
    let log = KIND.open(root.path(), small());
    let mut appended = Vec::new();
    for number in 0..60 {
        let name = if number % 3 == 0 { "A" } else { "B" };
        appended.push(put(&log, &queue(&log, name), &body(number)));
    }
    log.close().unwrap();
    let found = look(root.path());
    assert_eq!((found.health(), found.faults.len()), (Health::Sound, 0), "{:?}", found.faults);
    assert_eq!((found.segment_size, found.start), (segment_size(), LogOffset::ZERO));
    assert_eq!(found.end, appended[59].end());
    assert_eq!((found.records, found.records_protected, found.records_v2), (60, 60, 0));
    let bytes: u64 = appended.iter().map(|record| u64::from(record.len)).sum();
    assert_eq!(found.record_bytes, bytes);
    assert_eq!(found.blank_bytes, found.end.get() - bytes, "all else before the end is blanks");
    assert_eq!(found.segments.iter().map(|segment| segment.records).sum::<u64>(), 60);
    assert_eq!(found.first_store, Some(appended[0].store_timestamp));
    assert_eq!(found.last_store, Some(appended[59].store_timestamp));
    assert_eq!((found.clock_steps, found.abort, found.locked), (0, None, false));
    let names: Vec<_> = found.topics.keys().map(Vec::as_slice).collect();
    assert_eq!(names, [b"A", b"B"]);
    let topic = &found.topics[&b"B"[..]];
    let queue = topic.queues[&QueueId::new(0)];
    assert_eq!((topic.records, queue.records, queue.gaps), (40, 40, 0));
    assert_eq!((queue.first, queue.next), (QueueOffset::new(0), QueueOffset::new(40)));
}

#[test]
fn an_empty_store_is_sound_and_a_directory_without_one_is_no_store() {
    let root = tempfile::tempdir().unwrap();
    KIND.open(root.path(), small()).close().unwrap();
    let found = look(root.path());
    assert_eq!((found.health(), found.records), (Health::Sound, 0));
    assert_eq!((found.start, found.end), (LogOffset::ZERO, LogOffset::ZERO));
    let other = tempfile::tempdir().unwrap();
    fs::write(other.path().join("notes.txt"), "mine").unwrap();
    let refused = survey(other.path(), &SurveyOptions::default()).unwrap_err();
    assert_eq!(refused, SurveyError::NotAStore { path: other.path().to_owned() });
}

#[test]
fn a_directory_of_segments_is_surveyed_as_its_store_is() {
    let root = tempfile::tempdir().unwrap();
    abandoned(root.path(), 30);
    let (whole, part) = (look(root.path()), look(&root.path().join("commitlog")));
    assert_eq!((whole.records, whole.end), (part.records, part.end));
    assert!(part.abort.is_some(), "the store's own files were not looked for");
    assert_eq!(whole.segments, part.segments);
}

#[test]
fn a_flipped_byte_costs_its_record_and_is_named_with_what_stands_behind() {
    let root = tempfile::tempdir().unwrap();
    let appended = filled(root.path(), 60);
    for victim in [0, 7, 20, 33, 58] {
        for byte in [0, 3, 5, 8, 30, 35, 50, 60, 84, 88, 90] {
            let record = appended[victim];
            flip(root.path(), record.offset.get() + byte);
            let found = look(root.path());
            let fault = only_fault(&found);
            let behind = 59 - length_u64(victim);
            assert_eq!(fault.path, segment_of(root.path(), record.offset));
            let next = appended[victim + 1].offset;
            let same = segment_of(root.path(), next) == fault.path;
            // At a segment's end its blank is what follows.
            let to = if same { next } else { record.end() };
            assert_eq!((fault.from, fault.to), (record.offset, to), "{victim}, byte {byte}");
            let FaultKind::Damage { records_behind, .. } = fault.kind else {
                panic!("{victim}, byte {byte}: {fault:?}")
            };
            assert_eq!(records_behind, behind, "{victim}, byte {byte}");
            assert_eq!((found.records, found.health()), (59, Health::Damaged));
            assert_eq!(found.end, appended[59].end());
            flip(root.path(), record.offset.get() + byte);
        }
    }
    assert_eq!(look(root.path()).health(), Health::Sound);
}

#[test]
fn two_damaged_places_are_two_faults() {
    let root = tempfile::tempdir().unwrap();
    let appended = filled(root.path(), 60);
    for victim in [3, 5, 40] {
        flip(root.path(), appended[victim].offset.get() + 90);
    }
    let found = look(root.path());
    let places: Vec<_> = found.faults.iter().map(|fault| fault.from).collect();
    assert_eq!(places, [3, 5, 40].map(|victim| appended[victim].offset));
    let behind = |fault: &Fault| match fault.kind {
        FaultKind::Damage { records_behind, .. } => records_behind,
        _ => panic!("{fault:?}"),
    };
    assert_eq!(found.faults.iter().map(behind).collect::<Vec<_>>(), [54, 53, 19]);
}

#[test]
fn a_torn_tail_is_what_is_not_zero_behind_the_last_record() {
    for cut in [4, 8, 20, 36, 40, 91] {
        let root = tempfile::tempdir().unwrap();
        let appended = abandoned(root.path(), 30);
        let last = appended[29];
        let keep = last.offset.get() + cut;
        let rest = usize::try_from(last.end().get() - keep).unwrap();
        patch(root.path(), keep, &vec![0; rest]);
        let found = look(root.path());
        let fault = only_fault(&found);
        assert!(matches!(fault.kind, FaultKind::TornTail { .. }), "{fault:?}");
        assert_eq!((fault.from, found.end), (last.offset, last.offset));
        let bytes = fs::read(segment_of(root.path(), last.offset)).unwrap();
        let data = bytes.iter().rposition(|byte| *byte != 0).unwrap();
        let start = last.offset.get() / SEGMENT * SEGMENT;
        assert_eq!(fault.to.get(), start + length_u64(data) + 1, "cut after {cut}");
        assert_eq!((found.health(), found.records), (Health::TornTail, 29));
        assert!(found.abort.is_some());
    }
}

#[test]
fn space_that_was_never_written_is_no_fault() {
    let root = tempfile::tempdir().unwrap();
    let appended = abandoned(root.path(), 30);
    // A segment that was made ahead; the allocator may not have come to it.
    let behind = appended[29].end().get() / SEGMENT * SEGMENT + SEGMENT;
    let ahead = segment(root.path(), behind);
    if !ahead.exists() {
        fs::write(ahead, vec![0; usize::try_from(SEGMENT).unwrap()]).unwrap();
    }
    let found = look(root.path());
    assert_eq!(found.segments.last().map(|segment| segment.records), Some(0));
    assert_eq!((found.health(), found.end), (Health::Sound, appended[29].end()));
}

#[test]
fn a_missing_segment_is_named() {
    let root = tempfile::tempdir().unwrap();
    let appended = filled(root.path(), 60);
    fs::remove_file(segment(root.path(), SEGMENT)).unwrap();
    let found = look(root.path());
    let fault = only_fault(&found);
    assert_eq!(fault.kind, FaultKind::MissingSegment);
    assert_eq!(fault.path, segment(root.path(), SEGMENT));
    assert_eq!((fault.from.get(), fault.to.get()), (SEGMENT, 2 * SEGMENT));
    let kept = appended.iter().filter(|record| record.offset.get() / SEGMENT != 1).count();
    assert_eq!(found.records, length_u64(kept));
    assert_eq!(found.end, appended[59].end());
    assert_eq!(found.topics[&b"T"[..]].queues[&QueueId::new(0)].gaps, 1);
}

#[test]
fn a_log_that_starts_later_misses_nothing() {
    let root = tempfile::tempdir().unwrap();
    filled(root.path(), 60);
    fs::remove_file(segment(root.path(), 0)).unwrap();
    let found = look(root.path());
    assert_eq!((found.health(), found.start.get()), (Health::Sound, SEGMENT));
}

#[test]
fn a_segment_of_wrong_length_is_surveyed_as_far_as_it_goes() {
    let root = tempfile::tempdir().unwrap();
    let appended = filled(root.path(), 60);
    for (index, len) in [(0, 5000), (1, 9000), (1, SEGMENT + 10)] {
        let path = segment(root.path(), index * SEGMENT);
        let whole = fs::read(&path).unwrap();
        OpenOptions::new().write(true).open(&path).unwrap().set_len(len).unwrap();
        let found = look(root.path());
        assert_eq!(found.segment_size, segment_size(), "{len}");
        let wrong = found.faults.iter().find(|fault| fault.path == path).unwrap();
        assert_eq!(wrong.kind, FaultKind::WrongLength { found: len, expected: SEGMENT });
        let is_whole = |record: &&store_os::Appended| {
            record.offset.get() / SEGMENT != index || record.end().get() <= index * SEGMENT + len
        };
        assert_eq!(found.records, length_u64(appended.iter().filter(is_whole).count()), "{len}");
        assert_eq!(found.health(), Health::Damaged);
        fs::write(&path, whole).unwrap();
    }
}

#[test]
fn files_that_are_no_segments_are_named_and_directories_passed_over() {
    let root = tempfile::tempdir().unwrap();
    filled(root.path(), 30);
    let names = ["notes.txt", "00000000000000000001", "18446744073709535232"];
    for name in names {
        fs::write(root.path().join("commitlog").join(name), vec![7; 100]).unwrap();
    }
    fs::create_dir(root.path().join("commitlog/set-aside")).unwrap();
    fs::create_dir(root.path().join("commitlog/00000000000001638400")).unwrap();
    let found = look(root.path());
    let mut paths: Vec<_> = found.faults.iter().map(|fault| fault.path.clone()).collect();
    paths.sort();
    let expect = [names[1], "00000000000001638400", names[2], names[0]];
    assert_eq!(paths, expect.map(|name| root.path().join("commitlog").join(name)));
    assert!(found.faults.iter().all(|fault| fault.kind == FaultKind::UnknownFile));
    assert_eq!(found.records, 30);
}

#[test]
fn a_last_file_without_a_byte_is_what_opening_removes() {
    let root = tempfile::tempdir().unwrap();
    filled(root.path(), 30);
    let next = look(root.path()).segments.last().unwrap().start.get() + SEGMENT;
    fs::write(segment(root.path(), next), "").unwrap();
    let found = look(root.path());
    assert_eq!(only_fault(&found).kind, FaultKind::Empty);
    assert_eq!(found.health(), Health::TornTail);
}

#[test]
fn a_bad_first_record_does_not_hide_its_segment() {
    let root = tempfile::tempdir().unwrap();
    let appended = filled(root.path(), 60);
    let first = appended.iter().position(|record| record.offset.get() == SEGMENT).unwrap();
    patch(root.path(), SEGMENT, &[0xFF; 40]);
    let found = look(root.path());
    let fault = only_fault(&found);
    assert_eq!((fault.from.get(), fault.to), (SEGMENT, appended[first + 1].offset));
    assert_eq!(found.records, 59);
}

#[test]
fn a_hole_of_zeroes_costs_what_it_covers() {
    let root = tempfile::tempdir().unwrap();
    let appended = filled(root.path(), 60);
    let (from, to) = (appended[10].offset.get() + 50, appended[14].offset.get() + 50);
    assert_eq!(from / SEGMENT, to / SEGMENT);
    patch(root.path(), from, &vec![0; usize::try_from(to - from).unwrap()]);
    let found = look(root.path());
    let fault = only_fault(&found);
    assert_eq!((fault.from, fault.to), (appended[10].offset, appended[15].offset));
    assert_eq!(found.records, 55);
    // Up to the segment's end, blank and all: the next one still follows.
    let to = (from / SEGMENT + 1) * SEGMENT;
    patch(root.path(), from, &vec![0; usize::try_from(to - from).unwrap()]);
    let found = look(root.path());
    let fault = only_fault(&found);
    assert_eq!((fault.from, fault.to.get()), (appended[10].offset, to));
    assert_eq!(found.end, appended[59].end());
}

#[test]
fn older_records_behind_the_end_are_a_stale_tail_and_newer_ones_are_not() {
    let before: Vec<_> = (0..5).map(|n| Made::new(1000, n)).collect();
    let records = |store| -> Vec<_> {
        before.iter().copied().chain((5..9).map(|n| Made::new(store, n))).collect()
    };
    for (store, is_stale) in [(500, true), (1000, false), (1500, false)] {
        let root = tempfile::tempdir().unwrap();
        let places = made(root.path(), &records(store));
        flip(root.path(), places[5].get() + 100);
        let found = look(root.path());
        let fault = only_fault(&found);
        assert_eq!(fault.from, places[5]);
        if is_stale {
            assert!(matches!(fault.kind, FaultKind::StaleTail { records: 3, .. }), "{fault:?}");
            assert_eq!(fault.to, places[9]);
            assert_eq!((found.records, found.end), (5, places[5]));
            assert_eq!((found.health(), found.clock_steps), (Health::TornTail, 0));
            assert_eq!(found.topics[&b"made"[..]].records, 5);
        } else {
            assert!(matches!(fault.kind, FaultKind::Damage { records_behind: 3, .. }), "{fault:?}");
            assert_eq!((found.records, found.end), (8, places[9]));
        }
    }
}

#[test]
fn a_stale_tail_may_reach_into_later_segments() {
    let mut records: Vec<_> = (0..70).map(|n| Made::new(1000, n)).collect();
    records.extend((70..400).map(|n| Made::new(500, n)));
    let root = tempfile::tempdir().unwrap();
    let places = made(root.path(), &records);
    assert!(places[70].get() < SEGMENT && 4 * SEGMENT < places[400].get());
    flip(root.path(), places[70].get() + 100);
    let found = look(root.path());
    assert_eq!((found.records, found.end, found.health()), (70, places[70], Health::TornTail));
    let stale = |fault: &Fault| match fault.kind {
        FaultKind::StaleTail { records, .. } => records,
        _ => panic!("{fault:?}"),
    };
    assert_eq!(found.faults.iter().map(stale).sum::<u64>(), 329);
    assert_eq!(found.faults.len(), found.segments.len());
}

#[test]
fn store_time_that_goes_back_is_reported_and_no_fault() {
    // Within a segment, and from one to the next.
    let mut records: Vec<_> = (0..140).map(|n| Made::new(1000, n)).collect();
    records[10].store = 900;
    let root = tempfile::tempdir().unwrap();
    let places = made(root.path(), &records);
    let border = places.iter().position(|place| SEGMENT <= place.get()).unwrap();
    records[border - 1].store = 2000;
    let places = made(root.path(), &records);
    let found = look(root.path());
    assert_eq!((found.health(), found.clock_steps), (Health::Sound, 2));
    let step = found.first_clock_step.unwrap();
    assert_eq!(step.at, places[10]);
    assert_eq!((step.before, step.after), (TimestampMs::new(1000), TimestampMs::new(900)));
}

#[test]
fn queue_offsets_that_do_not_follow_are_gaps() {
    let mut records: Vec<_> = (0..140).map(|n| Made::new(1000, n)).collect();
    for record in &mut records[100..] {
        record.queue_offset += 5;
    }
    records[120].queue_offset = 3;
    let root = tempfile::tempdir().unwrap();
    made(root.path(), &records);
    let queue = look(root.path()).topics[&b"made"[..]].queues[&QueueId::new(3)];
    assert_eq!((queue.records, queue.gaps), (140, 3));
    assert_eq!(queue.next, QueueOffset::new(145));
}

#[test]
fn a_segment_of_another_place_is_damage_though_nothing_follows() {
    let root = tempfile::tempdir().unwrap();
    abandoned(root.path(), 60);
    let last = look(root.path()).segments.last().unwrap().start.get();
    let copy = segment(root.path(), last + SEGMENT);
    fs::copy(segment(root.path(), 0), &copy).unwrap();
    let found = look(root.path());
    let fault = only_fault(&found);
    assert!(matches!(fault.kind, FaultKind::Damage { records_behind: 0, .. }), "{fault:?}");
    assert_eq!((&fault.path, found.health()), (&copy, Health::Damaged));
}

#[test]
fn what_rocketmq_wrote_is_counted_as_it_was_put() {
    for name in ["plain", "crash", "oversize", "batchcq"] {
        let root = golden(name);
        let stored = stored_records(name);
        let found = look(root.path());
        assert_eq!(found.health(), Health::Sound, "{name}: {:?}", found.faults);
        assert_eq!(found.records, length_u64(stored.len()), "{name}");
        let last = stored.last().unwrap();
        assert!(last.at + last.len <= found.end.get(), "{name}");
        assert_eq!(found.abort.is_some(), name == "crash", "{name}");
        assert!(found.checkpoint.unwrap().is_ok(), "{name}");
        let gaps = found.topics.values().flat_map(|topic| topic.queues.values());
        assert_eq!(gaps.map(|queue| queue.gaps).sum::<u64>(), 0, "{name}");
    }
}

#[test]
fn a_record_that_rocketmq_cannot_read_is_damage_and_its_neighbours_are_found() {
    let root = golden("badtopic");
    let stored = stored_records("badtopic");
    let found = look(root.path());
    let fault = only_fault(&found);
    assert!(matches!(fault.kind, FaultKind::Damage { .. }), "{fault:?}");
    let bad = stored.iter().find(|stored| stored.at == fault.from.get()).unwrap();
    assert_eq!(fault.to.get(), bad.at + bad.len);
    assert_eq!(found.records, length_u64(stored.len()) - 1);
}

#[test]
fn body_checksums_alone_are_verified_where_that_is_asked() {
    let root = tempfile::tempdir().unwrap();
    let appended = filled(root.path(), 20);
    // The reconsume times, which BODYCRC does not cover.
    flip(root.path(), appended[5].offset.get() + 72);
    assert_eq!(look(root.path()).health(), Health::Damaged);
    let options = SurveyOptions { protection: Protection::Body, ..SurveyOptions::default() };
    assert_eq!(survey(root.path(), &options).unwrap().health(), Health::Sound);
}

#[test]
fn progress_ends_at_the_total_and_can_break_off() {
    let root = tempfile::tempdir().unwrap();
    filled(root.path(), 60);
    let told: Mutex<Vec<ScanProgress>> = Mutex::default();
    let note = |progress| {
        told.lock().unwrap().push(progress);
        ControlFlow::Continue(())
    };
    let options = SurveyOptions { progress: Some(&note), ..SurveyOptions::default() };
    let found = survey(root.path(), &options).unwrap();
    let told = told.into_inner().unwrap();
    let total = length_u64(found.segments.len()) * SEGMENT;
    let last = told.iter().max_by_key(|told| told.scanned_bytes).unwrap();
    let expect = ScanProgress { scanned_bytes: total, total_bytes: total, records: 60 };
    assert_eq!(*last, expect);
    let stop = |_| ControlFlow::Break(());
    let options = SurveyOptions { progress: Some(&stop), ..SurveyOptions::default() };
    assert_eq!(survey(root.path(), &options).unwrap_err(), SurveyError::Interrupted);
}

#[test]
fn a_survey_changes_nothing_and_needs_no_leave_to_write() {
    use std::os::unix::fs::PermissionsExt;
    let root = tempfile::tempdir().unwrap();
    let appended = abandoned(root.path(), 30);
    flip(root.path(), appended[3].offset.get() + 90);
    let before = files(root.path());
    let set = |mode| {
        for path in [root.path().join("commitlog"), root.path().to_owned()] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        }
        for path in before.keys() {
            fs::set_permissions(path, fs::Permissions::from_mode(mode & 0o444)).unwrap();
        }
    };
    set(0o555);
    let found = survey(root.path(), &SurveyOptions::default());
    set(0o755);
    assert_eq!(found.unwrap().records, 29);
    assert_eq!(files(root.path()), before);
}

#[test]
fn a_log_in_use_is_surveyed_and_keeps_its_lock() {
    let root = tempfile::tempdir().unwrap();
    let log = KIND.open(root.path(), small());
    let handle = queue(&log, "T");
    for number in 0..30 {
        put(&log, &handle, &body(number));
        let found = look(root.path());
        assert_eq!((found.records, found.locked), (number + 1, true), "{:?}", found.faults);
        assert_eq!(found.health(), Health::Sound);
    }
    // The segment after the next, between its making and its getting a length.
    let commitlog = root.path().join("commitlog");
    let made = || fs::read_dir(&commitlog).unwrap().count() as u64;
    eventually("one ahead", || log.marks().wrote().get() + SEGMENT < made() * SEGMENT);
    let next = commitlog.join(format!("{:020}", made() * SEGMENT));
    fs::write(&next, b"").unwrap();
    assert_eq!(look(root.path()).health(), Health::Sound);
    fs::remove_file(next).unwrap();
    // A lock that this process lost another one would get.
    let refused = other_process("locked", root.path());
    assert_eq!(refused, "refused");
    log.close().unwrap();
    assert!(!look(root.path()).locked);
}

#[test]
fn a_lock_of_another_process_is_seen_and_not_taken() {
    let root = tempfile::tempdir().unwrap();
    filled(root.path(), 10);
    let mut child = child("hold", root.path()).stdin(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("holds it") {
        line.clear();
        assert!(output.read_line(&mut line).unwrap() > 0, "the child ended");
    }
    let found = look(root.path());
    assert!(found.locked);
    assert_eq!(found.records, 10);
    drop(child.stdin.take());
    child.wait().unwrap();
    assert!(!look(root.path()).locked);
}

fn child(what: &str, root: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "survey::locking_child", "--nocapture"])
        .env("FLUSHMARK_LOCK_DIR", root)
        .env("FLUSHMARK_LOCK_DOES", what)
        .stdout(Stdio::piped());
    command
}

fn other_process(what: &str, root: &Path) -> &'static str {
    let output = child(what, root).output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    if text.contains("was refused") { "refused" } else { "got it" }
}

/// The other process: takes the store's lock, or is refused it.
///
/// Run only by the tests above, which name its directory in the environment.
#[test]
fn locking_child() {
    let Ok(directory) = std::env::var("FLUSHMARK_LOCK_DIR") else {
        return;
    };
    let opened = KIND.try_open(Path::new(&directory), small());
    let mut out = std::io::stdout().lock();
    match opened {
        Ok(log) => {
            out.write_all(b"holds it\n").unwrap();
            out.flush().unwrap();
            if std::env::var("FLUSHMARK_LOCK_DOES").unwrap() == "hold" {
                std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
            }
            log.close().unwrap();
        }
        Err(OpenError::Locked { .. }) => out.write_all(b"was refused\n").unwrap(),
        Err(error) => panic!("{error}"),
    }
}

/// A wrong size would make a repair rewrite a sound store.
#[test]
fn a_segment_size_that_no_segment_has_is_refused_unless_the_only_one_may_be_cut() {
    let root = golden("plain");
    let other =
        SurveyOptions { segment_size: SegmentSize::new(32 << 10).ok(), ..Default::default() };
    let path = root.path().join("commitlog");
    let refused = SurveyError::OtherSegmentSize { path, given: 32 << 10, likely: 64 << 10 };
    assert_eq!(survey(root.path(), &other).map(|_| ()), Err(refused.clone()));
    assert_eq!(store_os::plan_repair(root.path(), &other).map(|_| ()), Err(refused));
    let root = golden("batchcq");
    let cut = root.path().join("commitlog/00000000000000000000");
    OpenOptions::new().write(true).open(cut).unwrap().set_len(32 << 10).unwrap();
    let whole =
        SurveyOptions { segment_size: SegmentSize::new(64 << 10).ok(), ..Default::default() };
    let found = survey(root.path(), &whole).unwrap();
    assert_eq!(found.records, 30);
    assert!(matches!(only_fault(&found).kind, FaultKind::WrongLength { .. }), "{found:?}");
}

#[test]
fn a_new_store_with_nothing_but_an_empty_file_is_what_opening_makes_anew() {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join("commitlog")).unwrap();
    fs::write(segment(root.path(), 0), "").unwrap();
    let found = look(root.path());
    assert_eq!(only_fault(&found).kind, FaultKind::Empty);
    assert_eq!(found.segment_size, SegmentSize::ROCKETMQ_DEFAULT);
    KIND.open(root.path(), small()).close().unwrap();
}

#[test]
fn the_segment_that_the_log_ends_in_is_torn_and_only_later_ones_are_unknown() {
    let root = tempfile::tempdir().unwrap();
    let records: Vec<_> = (0..400).map(|n| Made::new(1000, n)).collect();
    let places = made(root.path(), &records);
    fs::remove_file(root.path().join("abort")).unwrap();
    let last = places[400].get() / SEGMENT * SEGMENT;
    patch(root.path(), last, &vec![0xEE; usize::try_from(SEGMENT).unwrap()]);
    let found = look(root.path());
    assert_eq!(found.end.get(), last);
    assert!(matches!(only_fault(&found).kind, FaultKind::TornTail { .. }), "{:?}", found.faults);
    fs::copy(segment(root.path(), last), segment(root.path(), last + SEGMENT)).unwrap();
    let found = look(root.path());
    let kinds: Vec<_> = found.faults.iter().map(|fault| &fault.kind).collect();
    assert!(matches!(kinds[..], [FaultKind::TornTail { .. }, FaultKind::UnknownFile]), "{kinds:?}");
    let later = segment(root.path(), last + SEGMENT);
    let opened = KIND.try_open(root.path(), small()).map(|_| ()).unwrap_err();
    assert_eq!(opened, OpenError::UnknownFile { path: later.clone() });
    fs::remove_file(later).unwrap();
    KIND.open(root.path(), small()).close().unwrap();
}

#[test]
fn pipes_in_the_place_of_small_files_are_not_waited_for() {
    let root = tempfile::tempdir().unwrap();
    filled(root.path(), 10);
    for name in ["abort", "checkpoint", "lock"] {
        let path = root.path().join(name);
        let _ = fs::remove_file(&path);
        let made = Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
    }
    let found = look(root.path());
    assert_eq!((found.records, found.locked), (10, false));
    assert_eq!((found.abort.as_deref(), found.checkpoint), (Some(""), None));
}

#[test]
fn of_a_large_abort_only_the_first_bytes_are_read() {
    let root = tempfile::tempdir().unwrap();
    filled(root.path(), 10);
    fs::write(root.path().join("abort"), vec![b'1'; 1 << 20]).unwrap();
    assert_eq!(look(root.path()).abort.unwrap().len(), 4096);
}

#[test]
fn the_recovery_point_says_the_size_when_no_file_has_it_any_more() {
    let root = tempfile::tempdir().unwrap();
    filled(root.path(), 60);
    let count = look(root.path()).segments.len();
    for index in 0..length_u64(count) {
        let path = segment(root.path(), index * SEGMENT);
        OpenOptions::new().write(true).open(path).unwrap().set_len(SEGMENT / 2).unwrap();
    }
    assert_eq!(look(root.path()).segment_size, segment_size());
    // Where RocketMQ had the log since, an older point says nothing.
    let other = golden("plain");
    for name in ["recovery-point.0", "recovery-point.1"] {
        let point = root.path().join(name);
        if point.exists() {
            fs::copy(point, other.path().join(name)).unwrap();
        }
    }
    assert_eq!(look(other.path()).segment_size.bytes(), 64 << 10);
    fs::copy(root.path().join("checkpoint"), other.path().join("checkpoint")).unwrap();
    assert_eq!(look(other.path()).segment_size, segment_size(), "the point was not looked at");
}

#[test]
fn a_size_that_a_grown_file_has_and_the_names_do_not_fit_is_refused() {
    let root = golden("crash");
    let grown = root.path().join("commitlog/00000000000000000000");
    OpenOptions::new().write(true).open(grown).unwrap().set_len(128 << 10).unwrap();
    let segment_size = SegmentSize::new(128 << 10).ok();
    let options = SurveyOptions { segment_size, ..SurveyOptions::default() };
    let path = root.path().join("commitlog");
    let refused = SurveyError::OtherSegmentSize { path, given: 128 << 10, likely: 64 << 10 };
    assert_eq!(survey(root.path(), &options).map(|_| ()), Err(refused));
}
