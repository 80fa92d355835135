//! Repair: offsets stay, what is readable stays readable, and nothing is ever gone.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use store_core::{LogOffset, QueueId, SegmentSize};
use store_os::{
    Appended, BadTarget, FaultKind, FillWith, Health, LOST_TOPIC, LogOptions, OpenError,
    RepairError, RepairPlan, RepairReport, RepairStep, SurveyError, SurveyOptions, plan_repair,
    survey,
};

use crate::rocketmq::{Stored, stored_records};
use crate::stores::{
    KIND, Made, SEGMENT, abandoned, copy_folder, files, filled, flip, golden, made, patch, segment,
    segment_of,
};
use crate::support::{body, put, queue, small};

fn plan(root: &Path) -> RepairPlan {
    plan_repair(root, &SurveyOptions::default()).unwrap()
}

fn repair(root: &Path) -> RepairReport {
    let report = plan(root).apply_in_place().unwrap();
    assert_sound(root);
    report
}

#[track_caller]
fn assert_sound(root: &Path) {
    let found = survey(root, &SurveyOptions::default()).unwrap();
    assert_eq!(found.health(), Health::Sound, "{:?}", found.faults);
}

/// Opens the log and reads it; every record that is not lost must stand where it stood.
fn assert_holds(root: &Path, expected: &[(LogOffset, Vec<u8>)]) {
    let log = KIND.open(root, small());
    let mut cursor = log.cursor(log.recovery().start);
    let mut found = Vec::new();
    while let Some(record) = cursor.next_record().unwrap() {
        if !LOST_TOPIC.as_bytes().starts_with(record.topic()) {
            found.push((record.log_offset(), record.body().to_vec()));
        }
    }
    assert_eq!(found.len(), expected.len());
    assert_eq!(found, expected);
    assert_eq!(queue(&log, LOST_TOPIC).next_offset().get(), 0, "a filler took a queue's place");
    put(&log, &queue(&log, "T"), b"the log goes on");
    log.close().unwrap();
}

fn kept(appended: &[Appended], lost: &[usize]) -> Vec<(LogOffset, Vec<u8>)> {
    let kept = (0..).zip(appended).enumerate().filter(|(index, _)| !lost.contains(index));
    kept.map(|(_, (number, record))| (record.offset, body(number))).collect()
}

fn set_aside(root: &Path, start: u64, number: u32) -> PathBuf {
    root.join(format!("commitlog/set-aside/{start:020}.damaged-{number}"))
}

#[test]
fn a_damaged_record_is_bridged_and_all_others_stay_where_they_are() {
    for lost in [vec![0], vec![5], vec![20, 21], vec![7, 9, 40], vec![58]] {
        let root = tempfile::tempdir().unwrap();
        let appended = filled(root.path(), 60);
        for victim in &lost {
            flip(root.path(), appended[*victim].offset.get() + 89);
        }
        let before = files(root.path());
        let report = repair(root.path());
        assert_eq!(files(root.path()).len(), before.len() + report.set_aside.len(), "{lost:?}");
        for (original, kept) in &report.set_aside {
            assert_eq!(fs::read(kept).unwrap(), before[original], "{lost:?}: not byte for byte");
        }
        let places: Vec<_> = report.lost.iter().map(|lost| lost.from).collect();
        assert!(lost.iter().any(|victim| places.contains(&appended[*victim].offset)), "{lost:?}");
        assert_holds(root.path(), &kept(&appended, &lost));
    }
}

#[test]
fn the_original_is_a_second_name_and_the_new_one_is_the_owner_s() {
    let root = tempfile::tempdir().unwrap();
    let appended = filled(root.path(), 60);
    let path = segment(root.path(), SEGMENT);
    let victim = appended.iter().find(|record| SEGMENT < record.offset.get()).unwrap();
    flip(root.path(), victim.offset.get() + 89);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let original = fs::metadata(&path).unwrap();
    let report = repair(root.path());
    let kept = set_aside(root.path(), SEGMENT, 1);
    assert_eq!(report.set_aside, [(path.clone(), kept.clone())]);
    assert_eq!(report.written, std::slice::from_ref(&path));
    assert_eq!(fs::metadata(kept).unwrap().ino(), original.ino());
    let new = fs::metadata(path).unwrap();
    assert_ne!(new.ino(), original.ino());
    assert_eq!(new.permissions().mode() & 0o777, 0o640);
    assert_eq!((new.uid(), new.gid()), (original.uid(), original.gid()));
}

#[test]
fn a_sound_store_needs_no_repair_and_a_repaired_one_none_again() {
    let root = tempfile::tempdir().unwrap();
    let appended = filled(root.path(), 60);
    assert_eq!(plan(root.path()).steps, []);
    flip(root.path(), appended[7].offset.get() + 89);
    repair(root.path());
    let before = files(root.path());
    let again = plan(root.path());
    assert_eq!((again.steps.len(), again.lost.len()), (0, 0));
    let report = again.apply_in_place().unwrap();
    assert_eq!(report, RepairReport::default());
    assert_eq!(files(root.path()), before);
}

#[test]
fn planning_changes_nothing() {
    let root = tempfile::tempdir().unwrap();
    let appended = abandoned(root.path(), 30);
    flip(root.path(), appended[7].offset.get() + 89);
    let before = files(root.path());
    let plan = plan(root.path());
    assert!(!plan.steps.is_empty());
    assert_eq!(files(root.path()), before);
}

#[test]
fn a_second_damage_of_the_same_segment_is_set_aside_beside_the_first() {
    let root = tempfile::tempdir().unwrap();
    let appended = filled(root.path(), 60);
    for (number, victim) in [(1, 3), (2, 6)] {
        flip(root.path(), appended[victim].offset.get() + 89);
        let damaged = fs::read(segment(root.path(), 0)).unwrap();
        repair(root.path());
        assert_eq!(fs::read(set_aside(root.path(), 0, number)).unwrap(), damaged);
    }
    assert_holds(root.path(), &kept(&appended, &[3, 6]));
}

#[test]
fn a_torn_or_stale_tail_is_overwritten_and_kept_aside() {
    let root = tempfile::tempdir().unwrap();
    let appended = abandoned(root.path(), 30);
    let last = appended[29];
    flip(root.path(), last.offset.get() + 89);
    let start = last.offset.get() / SEGMENT * SEGMENT;
    let damaged = fs::read(segment(root.path(), start)).unwrap();
    let report = repair(root.path());
    assert_eq!(report.lost.len(), 1);
    assert_eq!(fs::read(set_aside(root.path(), start, 1)).unwrap(), damaged);
    let new = fs::read(segment(root.path(), start)).unwrap();
    let from = usize::try_from(last.offset.get() - start).unwrap();
    assert!(new[from..].iter().all(|byte| *byte == 0));
    assert_holds(root.path(), &kept(&appended, &[29]));

    let mut records: Vec<_> = (0..70).map(|n| Made::new(1000, n)).collect();
    records.extend((70..400).map(|n| Made::new(500, n)));
    let root = tempfile::tempdir().unwrap();
    let places = made(root.path(), &records);
    flip(root.path(), places[70].get() + 100);
    let before = files(root.path());
    let report = repair(root.path());
    let found = survey(root.path(), &SurveyOptions::default()).unwrap();
    assert_eq!((found.records, found.end), (70, places[70]));
    for (original, kept) in &report.set_aside {
        assert_eq!(fs::read(kept).unwrap(), before[original]);
    }
    assert_eq!(report.set_aside.len(), before.len() - 1, "all segments, not `abort`");
    let log = KIND.open(root.path(), small());
    assert_eq!((log.recovery().records, log.recovery().end), (70, places[70]));
}

#[test]
fn a_missing_segment_becomes_a_blank() {
    let root = tempfile::tempdir().unwrap();
    let appended = filled(root.path(), 60);
    let path = segment(root.path(), SEGMENT);
    fs::remove_file(&path).unwrap();
    let report = repair(root.path());
    assert_eq!((report.written.as_slice(), report.set_aside.len()), (&[path][..], 0));
    let lost: Vec<_> =
        (0..60).filter(|index| appended[*index].offset.get() / SEGMENT == 1).collect();
    assert_holds(root.path(), &kept(&appended, &lost));
}

#[test]
fn a_gap_that_nobody_can_have_lost_is_refused() {
    let root = tempfile::tempdir().unwrap();
    filled(root.path(), 30);
    let far = 1 << 40;
    let start = usize::try_from(SEGMENT).unwrap();
    let mut bytes = vec![0; start];
    let record = Made::new(i64::MAX, 0).encoded(LogOffset::new(far));
    bytes[..record.len()].copy_from_slice(&record);
    fs::write(segment(root.path(), far), bytes).unwrap();
    let before = files(root.path());
    let plan = plan(root.path());
    let target = tempfile::tempdir().unwrap();
    for refused in [plan.apply_in_place(), plan.copy_to(target.path())] {
        assert!(matches!(refused, Err(RepairError::GapTooWide { .. })), "{refused:?}");
    }
    assert_eq!(files(root.path()), before);
}

#[test]
fn a_segment_of_wrong_length_keeps_the_records_it_has() {
    for (index, len) in [(0, 5000), (1, 9000), (1, SEGMENT + 10)] {
        let root = tempfile::tempdir().unwrap();
        let appended = filled(root.path(), 60);
        let path = segment(root.path(), index * SEGMENT);
        OpenOptions::new().write(true).open(&path).unwrap().set_len(len).unwrap();
        let short = fs::read(&path).unwrap();
        repair(root.path());
        assert_eq!(fs::read(set_aside(root.path(), index * SEGMENT, 1)).unwrap(), short);
        let is_lost = |record: &Appended| {
            record.offset.get() / SEGMENT == index && index * SEGMENT + len < record.end().get()
        };
        let lost: Vec<_> = (0..60).filter(|at| is_lost(&appended[*at])).collect();
        assert_holds(root.path(), &kept(&appended, &lost));
    }
}

#[test]
fn what_is_no_part_of_the_log_is_moved_out_of_its_way() {
    let root = tempfile::tempdir().unwrap();
    let appended = filled(root.path(), 30);
    let next = files(&root.path().join("commitlog")).len() as u64 * SEGMENT;
    let commitlog = root.path().join("commitlog");
    fs::write(commitlog.join("notes.txt"), "mine").unwrap();
    fs::write(segment(root.path(), next), vec![7; usize::try_from(SEGMENT).unwrap()]).unwrap();
    fs::write(segment(root.path(), next + SEGMENT), "").unwrap();
    let report = repair(root.path());
    assert_eq!(report.set_aside.len(), 3, "{report:?}");
    let notes = commitlog.join("set-aside/notes.txt.damaged-1");
    assert_eq!(fs::read_to_string(notes).unwrap(), "mine");
    assert_holds(root.path(), &kept(&appended, &[]));
}

#[test]
fn a_hole_is_filled_to_the_byte_or_blanked_to_the_segment_s_end() {
    let root = tempfile::tempdir().unwrap();
    let appended = filled(root.path(), 60);
    let (from, to) = (appended[10].offset.get() + 50, appended[14].offset.get() + 50);
    patch(root.path(), from, &vec![0; usize::try_from(to - from).unwrap()]);
    repair(root.path());
    assert_holds(root.path(), &kept(&appended, &[10, 11, 12, 13, 14]));

    let root = tempfile::tempdir().unwrap();
    let appended = filled(root.path(), 60);
    let to = (from / SEGMENT + 1) * SEGMENT;
    patch(root.path(), from, &vec![0; usize::try_from(to - from).unwrap()]);
    repair(root.path());
    let lost: Vec<_> = (10..60).filter(|at| appended[*at].offset.get() < to).collect();
    assert_holds(root.path(), &kept(&appended, &lost));
}

#[test]
fn a_place_too_short_for_a_filler_takes_the_record_behind_it() {
    let records: Vec<_> = (0..20).map(|n| Made::new(1000, n)).collect();
    let root = tempfile::tempdir().unwrap();
    let places = made(root.path(), &records);
    // A record moved up by forty bytes, its place patched: a bad place of forty bytes before it.
    let at = places[7].get() + 40;
    let record = records[7].encoded(LogOffset::new(at));
    let behind = places[8].get() + 40;
    let next = Made { body_len: 100 - 40, ..records[8] }.encoded(LogOffset::new(behind));
    patch(root.path(), places[7].get(), &[0xEE; 40]);
    patch(root.path(), at, &record);
    patch(root.path(), behind, &next);
    let plan = plan(root.path());
    assert_eq!(plan.survey.records, 20);
    let [RepairStep::Replace { fills, .. }] = plan.steps.as_slice() else {
        panic!("{:?}", plan.steps)
    };
    assert!(matches!(fills[0].with, FillWith::Fillers { .. }));
    assert_eq!((fills[0].from, fills[0].to.get()), (places[7], behind));
    plan.apply_in_place().unwrap();
    let found = survey(root.path(), &SurveyOptions::default()).unwrap();
    assert_eq!(found.health(), Health::Sound, "{:?}", found.faults);
    assert_eq!(found.topics[&b"made"[..]].records, 19);
}

#[test]
fn a_copy_is_sound_and_the_source_is_left_as_it_is() {
    let root = tempfile::tempdir().unwrap();
    let appended = abandoned(root.path(), 60);
    flip(root.path(), appended[7].offset.get() + 89);
    fs::remove_file(segment(root.path(), SEGMENT)).unwrap();
    flip(root.path(), appended[59].offset.get() + 89);
    let before = files(root.path());
    let place = tempfile::tempdir().unwrap();
    let target = place.path().join("new/store");
    let report = plan(root.path()).copy_to(&target).unwrap();
    assert_eq!(files(root.path()), before);
    assert_eq!((report.lost.len(), report.set_aside.len()), (3, 0));
    assert_sound(&target);
    let written: Vec<_> = files(&target).into_keys().collect();
    assert_eq!(written, report.written, "segments and nothing else");
    let lost =
        (0..60).filter(|at| appended[*at].offset.get() / SEGMENT == 1 || *at == 7 || *at == 59);
    assert_holds(&target, &kept(&appended, &lost.collect::<Vec<_>>()));
}

#[test]
fn a_target_that_holds_something_or_lies_in_the_store_is_refused() {
    let root = tempfile::tempdir().unwrap();
    filled(root.path(), 10);
    let taken = tempfile::tempdir().unwrap();
    fs::write(taken.path().join("x"), "mine").unwrap();
    let link = taken.path().join("link");
    std::os::unix::fs::symlink(root.path(), &link).unwrap();
    let targets = [
        (taken.path().to_owned(), BadTarget::NotEmpty),
        (taken.path().join("x"), BadTarget::NotADirectory),
        (root.path().join("commitlog/copy"), BadTarget::InTheStore),
        (root.path().join("copy"), BadTarget::InTheStore),
        (link.join("commitlog/copy"), BadTarget::InTheStore),
        (link.join("new/copy"), BadTarget::InTheStore),
    ];
    for (target, reason) in targets {
        let refused = plan(root.path()).copy_to(&target).unwrap_err();
        assert_eq!(refused, RepairError::Target { path: target, reason });
    }
    assert!(!root.path().join("copy").exists() && !root.path().join("new").exists());
}

#[test]
fn a_store_in_use_or_changed_since_is_not_touched() {
    let root = tempfile::tempdir().unwrap();
    let appended = filled(root.path(), 60);
    flip(root.path(), appended[50].offset.get() + 89);
    let old = plan(root.path());
    flip(root.path(), appended[52].offset.get() + 89);
    let before = files(root.path());
    let refused = old.apply_in_place().unwrap_err();
    let path = segment_of(root.path(), appended[52].offset);
    assert_eq!(refused, RepairError::Changed { path });
    assert_eq!(files(root.path()), before);
    repair(root.path());

    let log = KIND.open(root.path(), small());
    let refused = plan(root.path()).apply_in_place().unwrap_err();
    assert_eq!(refused, RepairError::Locked { path: root.path().join("lock") });
    put(&log, &queue(&log, "T"), b"still mine");
    let in_use = plan(root.path());
    log.close().unwrap();
    let refused = in_use.apply_in_place().unwrap_err();
    assert!(matches!(refused, RepairError::Changed { .. }), "{refused:?}");
}

#[test]
fn segments_without_a_store_are_repaired_to_a_copy_only() {
    let root = tempfile::tempdir().unwrap();
    let appended = filled(root.path(), 60);
    flip(root.path(), appended[7].offset.get() + 89);
    let bare = tempfile::tempdir().unwrap();
    copy_folder(&root.path().join("commitlog"), bare.path());
    let plan = plan(bare.path());
    let refused = plan.apply_in_place().unwrap_err();
    assert_eq!(refused, RepairError::NotAStore { path: bare.path().to_owned() });
    let target = tempfile::tempdir().unwrap();
    plan.copy_to(target.path()).unwrap();
    assert_holds(target.path(), &kept(&appended, &[7]));
}

/// Whatever the store holds that is valid, by offset.
fn valid(root: &Path) -> BTreeMap<LogOffset, Vec<u8>> {
    let mut reader =
        store_os::StoreReader::open(root, None, store_core::Protection::Record).unwrap();
    let mut found = BTreeMap::new();
    loop {
        match reader.next_record() {
            Ok(Some(record)) => {
                if !LOST_TOPIC.as_bytes().starts_with(record.topic()) {
                    found.insert(record.log_offset(), record.as_bytes().to_vec());
                }
            }
            Ok(None) => return found,
            Err(_) => {
                if reader.skip_damage().unwrap().is_none() {
                    return found;
                }
            }
        }
    }
}

/// Damage of every kind at once, at most one per segment.
fn ruined(root: &Path) {
    let appended = abandoned(root, 200);
    let in_segment =
        |index: u64| appended.iter().filter(move |record| record.offset.get() / SEGMENT == index);
    flip(root, in_segment(0).nth(3).unwrap().offset.get() + 89);
    patch(root, in_segment(1).next().unwrap().offset.get(), &[0xFF; 50]);
    fs::remove_file(segment(root, 2 * SEGMENT)).unwrap();
    let short = segment(root, 3 * SEGMENT);
    OpenOptions::new().write(true).open(short).unwrap().set_len(9000).unwrap();
    flip(root, appended[199].offset.get() + 89);
    fs::write(root.join("commitlog/notes.txt"), "mine").unwrap();
}

/// A repair that is interrupted after any step, or within one, leaves a store that opens or is
/// refused, with every record and every old byte still there, and can be taken up.
#[test]
fn a_repair_interrupted_after_any_step_loses_nothing_and_can_be_taken_up() {
    let root = tempfile::tempdir().unwrap();
    ruined(root.path());
    let before = valid(root.path());
    let originals: Vec<_> = files(&root.path().join("commitlog")).into_values().collect();
    let mut rounds = 0;
    loop {
        let mut plan = plan(root.path());
        if plan.steps.is_empty() {
            break;
        }
        rounds += 1;
        assert!(rounds < 20, "the repair does not end: {:?}", plan.steps);
        // What is left of an interrupted step: a part of the new segment, a second name.
        let aside = root.path().join("commitlog/set-aside");
        if let RepairStep::Replace { path, .. } = &plan.steps[0] {
            let name = path.file_name().unwrap().to_str().unwrap();
            fs::create_dir_all(&aside).unwrap();
            fs::write(aside.join(format!("{name}.new")), vec![0xAB; 20_000]).unwrap();
            fs::hard_link(path, aside.join(format!("{name}.damaged-1"))).unwrap();
        }
        plan.steps.truncate(1);
        let report = plan.apply_in_place().unwrap();
        assert!(report.set_aside.iter().all(|(_, kept)| kept.to_str().unwrap().ends_with("-1")));
        assert_eq!(valid(root.path()), before, "after step {rounds}");
        let now: Vec<_> = files(root.path()).into_values().collect();
        for (index, original) in originals.iter().enumerate() {
            assert!(now.contains(original), "after step {rounds}: bytes of file {index} are gone");
        }
        // Opening a copy refuses or gives all records.
        let copy = tempfile::tempdir().unwrap();
        copy_folder(root.path(), copy.path());
        if let Ok(log) = KIND.try_open(copy.path(), small()) {
            drop(log);
            assert_eq!(valid(copy.path()), before, "after step {rounds}: opening lost records");
        }
    }
    assert!(rounds >= 5, "{rounds} rounds");
    let leftovers = files(&root.path().join("commitlog/set-aside"));
    assert!(leftovers.keys().all(|path| path.extension().unwrap() != "new"));
    let log = KIND.open(root.path(), small());
    assert_eq!(log.queue(b"T", QueueId::new(0)).unwrap().next_offset().get(), 199);
    log.close().unwrap();
    assert_eq!(valid(root.path()), before);
}

/// The next of a fixed sequence of numbers below `limit`.
fn random(state: &mut u64, limit: u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state % limit
}

/// Damages the store in one to four places, and gives the ranges of the log that were touched.
fn damage(root: &Path, segments: u64, state: &mut u64) -> Vec<(u64, u64)> {
    let mut touched = Vec::new();
    for _ in 0..=random(state, 4) {
        let from = random(state, segments * SEGMENT);
        let start = from / SEGMENT * SEGMENT;
        let path = segment(root, start);
        let Ok(mut bytes) = fs::read(&path) else { continue };
        let to = (from + 1 + random(state, 3000)).min(start + SEGMENT);
        let place = |at: u64| usize::try_from(at - start).unwrap().min(bytes.len());
        let range = place(from)..place(to);
        match random(state, 6) {
            0 => {
                fs::remove_file(&path).unwrap();
                touched.push((start, start + SEGMENT));
                continue;
            }
            1 => {
                bytes.truncate(range.start);
                touched.push((from, start + SEGMENT));
            }
            2 => {
                bytes[range].fill(0);
                touched.push((from, to));
            }
            3 => {
                bytes[range]
                    .iter_mut()
                    .for_each(|byte| *byte = u8::try_from(random(state, 256)).unwrap());
                touched.push((from, to));
            }
            _ if range.is_empty() => {}
            _ => {
                bytes[range.start] ^= 1 << random(state, 8);
                touched.push((from, from + 1));
            }
        }
        fs::write(&path, bytes).unwrap();
    }
    touched
}

/// Whatever happens to a store, repair keeps every record that nothing happened to. (In 227 the
/// last segment with records becomes bad from its first byte, and an empty one stands behind it.)
#[test]
fn repair_keeps_every_record_that_was_not_touched_whatever_else_was() {
    let whole = tempfile::tempdir().unwrap();
    let appended = abandoned(whole.path(), 60);
    let segments = appended[59].end().get().div_ceil(SEGMENT);
    for seed in (1..=24_u64).chain([227]) {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let root = tempfile::tempdir().unwrap();
        copy_folder(whole.path(), root.path());
        let touched = damage(root.path(), segments, &mut state);
        let what = format!("seed {seed}: {touched:?}");
        let is_whole = |record: &&Appended| {
            let (from, to) = (record.offset.get(), record.end().get());
            touched.iter().all(|(begin, end)| to <= *begin || *end <= from)
        };
        let expected: Vec<_> =
            appended.iter().filter(is_whole).map(|record| record.offset).collect();
        let options = SurveyOptions {
            segment_size: Some(SegmentSize::new(SEGMENT).unwrap()),
            ..SurveyOptions::default()
        };
        let plan = plan_repair(root.path(), &options).unwrap();
        let copy = tempfile::tempdir().unwrap();
        plan.copy_to(copy.path()).unwrap();
        plan.apply_in_place().unwrap();
        for repaired in [root.path(), copy.path()] {
            let found = survey(repaired, &options).unwrap();
            assert_eq!(found.health(), Health::Sound, "{what}: {:?}", found.faults);
            let there = valid(repaired);
            let lost: Vec<_> = expected.iter().filter(|at| !there.contains_key(at)).collect();
            assert!(lost.is_empty(), "{what}: lost {lost:?}");
            let log = KIND.try_open(repaired, small()).unwrap_or_else(|e| panic!("{what}: {e}"));
            assert_eq!((log.recovery().end, log.recovery().torn_bytes), (found.end, 0), "{what}");
            log.close().unwrap();
        }
    }
}

#[test]
fn rocketmq_s_unreadable_record_is_bridged_and_its_neighbours_open() {
    let root = golden("badtopic");
    let stored = stored_records("badtopic");
    let report = repair(root.path());
    let [lost] = report.lost.as_slice() else { panic!("{report:?}") };
    let size = SegmentSize::new(65_536).unwrap();
    let log = KIND.open(root.path(), LogOptions { segment_size: size, ..LogOptions::default() });
    let mut cursor = log.cursor(log.recovery().start);
    let mut rest = stored.iter().filter(|stored| stored.at != lost.from.get());
    while let Some(record) = cursor.next_record().unwrap() {
        if record.topic() != LOST_TOPIC.as_bytes() {
            Stored::assert_is(rest.next().unwrap(), &record);
        }
    }
    assert!(rest.next().is_none());
}

#[test]
fn a_flipped_byte_in_each_golden_store_costs_its_record_alone() {
    for name in ["plain", "crash", "batchcq"] {
        let stored = stored_records(name);
        for victim in [0, stored.len() / 3, stored.len() - 2] {
            let root = golden(name);
            let at = stored[victim].at;
            let path = segment(root.path(), at / 65_536 * 65_536);
            let mut bytes = fs::read(&path).unwrap();
            // The magic, which a record without a body has too.
            bytes[usize::try_from(at % 65_536).unwrap() + 5] ^= 0xFF;
            fs::write(&path, bytes).unwrap();
            let report = repair(root.path());
            assert_eq!(report.lost.len(), 1, "{name}, {victim}");
            assert_eq!(report.lost[0].from.get(), at);
            assert_eq!(report.lost[0].to.get(), at + stored[victim].len, "{name}, {victim}");
            let found = survey(root.path(), &SurveyOptions::default()).unwrap();
            // The last record of a segment becomes a part of its blank, and a record of 92 bytes a
            // filler with a short topic.
            let is_filler = |name: &[u8]| LOST_TOPIC.as_bytes().starts_with(name);
            let fillers: Vec<_> =
                found.topics.iter().filter(|(name, _)| is_filler(name)).map(|(_, it)| it).collect();
            let count: u64 = fillers.iter().map(|topic| topic.records).sum();
            assert_eq!(found.records - count, stored.len() as u64 - 1, "{name}, {victim}");
            assert!(fillers.iter().all(|topic| topic.queues.is_empty()), "{name}, {victim}");
        }
    }
}

fn set_len(root: &Path, start: u64, len: u64) {
    OpenOptions::new().write(true).open(segment(root, start)).unwrap().set_len(len).unwrap();
}

/// Files of wrong length must not decide on the size: with a wrong one, sound segments would go.
#[test]
fn cut_or_grown_files_do_not_cost_the_sound_ones() {
    const SIZE: u64 = 65_536;
    let count = stored_records("crash").len() as u64;
    let files = files(&golden("crash").path().join("commitlog")).len() as u64;
    assert!(files >= 4, "{files} files: the test shows nothing");
    let cuts: [&[(u64, u64)]; 5] = [
        &[(0, 50_000)],
        &[(0, SIZE / 2)],
        &[(0, SIZE / 2), (1, SIZE / 2), (2, SIZE / 2)],
        &[(0, SIZE + 100), (1, 2 * SIZE)],
        &[(0, SIZE + 100), (1, SIZE + 4096), (2, SIZE + 9000)],
    ];
    for cut in cuts {
        let root = golden("crash");
        for (index, len) in cut {
            set_len(root.path(), index * SIZE, *len);
        }
        let plan = plan(root.path());
        assert_eq!(plan.survey.segment_size.bytes(), SIZE, "{cut:?}");
        let aside = plan.steps.iter().any(|step| matches!(step, RepairStep::SetAside { .. }));
        assert!(!aside, "{cut:?}: {:?}", plan.steps);
        if cut.iter().all(|(_, len)| SIZE <= *len) {
            assert_eq!(plan.survey.records, count, "{cut:?}");
        }
        plan.apply_in_place().unwrap();
        assert_sound(root.path());
    }
    // Two files and nothing else.
    for len in [50_000, SIZE / 2] {
        let root = golden("crash");
        for index in 2..files {
            fs::remove_file(segment(root.path(), index * SIZE)).unwrap();
        }
        set_len(root.path(), 0, len);
        assert_eq!(plan(root.path()).survey.segment_size.bytes(), SIZE, "{len}");
    }
}

#[test]
fn a_size_that_names_and_lengths_leave_open_is_asked_for() {
    let root = golden("crash");
    let count = files(&root.path().join("commitlog")).len() as u64;
    for index in 0..count {
        set_len(root.path(), index * 65_536, 32_768);
    }
    let refused = plan_repair(root.path(), &SurveyOptions::default()).unwrap_err();
    let path = segment(root.path(), 0);
    assert_eq!(refused, SurveyError::SegmentSize { path, found: 32_768 });
    let size = SegmentSize::new(65_536).ok();
    let options = SurveyOptions { segment_size: size, ..SurveyOptions::default() };
    assert_eq!(plan_repair(root.path(), &options).unwrap().survey.segment_size.bytes(), 65_536);
}

#[test]
fn what_an_overlong_segment_has_behind_its_end_is_lost_and_kept_aside() {
    let root = tempfile::tempdir().unwrap();
    let appended = filled(root.path(), 60);
    let path = segment(root.path(), SEGMENT);
    let mut bytes = fs::read(&path).unwrap();
    bytes.extend([0, 7, 7, 0]);
    fs::write(&path, &bytes).unwrap();
    let report = repair(root.path());
    let [lost] = report.lost.as_slice() else { panic!("{report:?}") };
    assert_eq!((lost.from.get(), lost.to.get()), (2 * SEGMENT, 2 * SEGMENT + 3));
    assert_eq!(fs::read(set_aside(root.path(), SEGMENT, 1)).unwrap(), bytes);
    assert_holds(root.path(), &kept(&appended, &[]));
}

#[test]
fn a_linked_segment_is_named_and_nothing_is_done_in_its_place() {
    let root = tempfile::tempdir().unwrap();
    filled(root.path(), 60);
    let elsewhere = tempfile::tempdir().unwrap();
    let (path, moved) = (segment(root.path(), SEGMENT), elsewhere.path().join("moved"));
    fs::rename(&path, &moved).unwrap();
    std::os::unix::fs::symlink(&moved, &path).unwrap();
    let before = files(root.path());
    let plan = plan(root.path());
    let kinds: Vec<_> = plan.survey.faults.iter().map(|fault| &fault.kind).collect();
    assert!(kinds.contains(&&FaultKind::SymbolicLink), "{kinds:?}");
    let target = tempfile::tempdir().unwrap();
    for refused in [plan.apply_in_place(), plan.copy_to(target.path())] {
        assert_eq!(refused, Err(RepairError::Link { path: path.clone() }));
    }
    let opened = KIND.try_open(root.path(), small()).map(|_| ()).unwrap_err();
    assert_eq!(opened, OpenError::UnknownFile { path: path.clone() });
    assert!(fs::symlink_metadata(&path).unwrap().is_symlink());
    assert_eq!(files(root.path()), before);
}

#[test]
fn what_stands_in_a_missing_segment_s_place_is_set_aside_before_one_is_made() {
    let root = tempfile::tempdir().unwrap();
    let appended = filled(root.path(), 60);
    let path = segment(root.path(), SEGMENT);
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    fs::write(path.join("x"), "mine").unwrap();
    let report = repair(root.path());
    assert_eq!((report.written.as_slice(), report.set_aside.len()), (&[path.clone()][..], 1));
    assert_eq!(fs::read(report.set_aside[0].1.join("x")).unwrap(), b"mine");
    let lost: Vec<_> = (0..60).filter(|at| appended[*at].offset.get() / SEGMENT == 1).collect();
    assert_holds(root.path(), &kept(&appended, &lost));
}

#[test]
fn a_segment_made_in_the_meantime_is_not_replaced_by_a_blank() {
    let root = tempfile::tempdir().unwrap();
    filled(root.path(), 60);
    let (path, other) = (segment(root.path(), SEGMENT), segment(root.path(), 1 << 40));
    fs::remove_file(&path).unwrap();
    let mut plan = plan(root.path());
    // The step comes twice: at the second time its file is there.
    let step = plan.steps[0].clone();
    plan.steps.push(step);
    let refused = plan.apply_in_place().unwrap_err();
    assert_eq!(refused, RepairError::Changed { path: path.clone() });
    assert!(!other.exists() && path.exists());
    assert!(files(&root.path().join("commitlog/set-aside")).is_empty());
}

/// The image of a record in a body is found when both ends of what is around it are bad. What
/// follows is undamaged, and must not go with it.
#[test]
fn an_image_in_a_damaged_body_does_not_cost_the_record_behind_it() {
    let root = tempfile::tempdir().unwrap();
    let records: Vec<_> = (0..20).map(|n| Made::new(1000, n)).collect();
    let places = made(root.path(), &records);
    // The record at 5 becomes one with the image of another one in its body: the head of it and
    // the end of the one before it are bad, and thirty bytes behind the image.
    let (from, to) = (places[5].get(), places[6].get());
    let image_len = to - from - 60;
    let image = Made { body_len: 100 - 60, ..records[5] };
    let at = LogOffset::new(from + 30);
    let image = image.encoded(at);
    assert_eq!(image.len() as u64, image_len);
    patch(root.path(), from - 14, &[0xEE; 44]);
    patch(root.path(), at.get(), &image);
    patch(root.path(), to - 30, &[0xEE; 30]);
    let plan = plan(root.path());
    assert_eq!((plan.survey.records, plan.records_overwritten), (19, 1));
    let [lost] = plan.lost.as_slice() else { panic!("{:?}", plan.lost) };
    assert_eq!((lost.from, lost.to), (places[4], places[6]));
    plan.apply_in_place().unwrap();
    assert_sound(root.path());
    let there = valid(root.path());
    let expected: Vec<_> = (0..20).filter(|n| ![4, 5].contains(n)).map(|n| places[n]).collect();
    assert_eq!(there.into_keys().collect::<Vec<_>>(), expected);
}

#[test]
fn missing_segments_that_were_proven_become_blanks_and_their_offsets_are_not_used_again() {
    let root = tempfile::tempdir().unwrap();
    let appended = filled(root.path(), 60);
    let end = appended[59].end().get();
    let first_lost = (end / SEGMENT - 1) * SEGMENT;
    for start in [first_lost, first_lost + SEGMENT] {
        fs::remove_file(segment(root.path(), start)).unwrap();
    }
    // Also a tail that is torn before them is no tail.
    let last = appended.iter().rposition(|record| record.offset.get() < first_lost).unwrap();
    flip(root.path(), appended[last].offset.get() + 89);
    let opened = KIND.try_open(root.path(), small()).map(|_| ()).unwrap_err();
    assert!(matches!(opened, OpenError::MissingEnd { .. } | OpenError::Damage(_)), "{opened:?}");
    let found = survey(root.path(), &SurveyOptions::default()).unwrap();
    let missing = found.faults.last().unwrap();
    assert_eq!((&missing.kind, found.health()), (&FaultKind::MissingSegment, Health::Damaged));
    assert_eq!((missing.from.get(), missing.to.get()), (first_lost, first_lost + 2 * SEGMENT));
    let report = repair(root.path());
    assert_eq!(report.written.len(), 3, "{report:?}");
    assert_holds(root.path(), &kept(&appended[..last], &[]));
    let log = KIND.open(root.path(), small());
    assert!(end <= log.recovery().end.get());
}

#[test]
fn a_repair_that_fails_leaves_no_unfinished_segment_and_the_next_one_removes_older_ones() {
    let root = tempfile::tempdir().unwrap();
    let appended = filled(root.path(), 60);
    flip(root.path(), appended[7].offset.get() + 89);
    let aside = root.path().join("commitlog/set-aside");
    fs::create_dir(&aside).unwrap();
    let stray = aside.join(format!("{:020}.new", 7 * SEGMENT));
    fs::write(&stray, "unfinished").unwrap();
    fs::write(aside.join("notes.new"), "mine").unwrap();
    let mut broken = plan(root.path());
    let RepairStep::Replace { fills, .. } = &mut broken.steps[0] else { panic!() };
    // Zeroes in the middle of the log do not read back.
    fills[0].with = FillWith::Zeroes;
    fills[0].to = fills[0].from.checked_add(1).unwrap();
    let refused = broken.apply_in_place().unwrap_err();
    assert!(matches!(refused, RepairError::Unsound { .. }), "{refused:?}");
    let target = tempfile::tempdir().unwrap();
    let refused = broken.copy_to(target.path()).unwrap_err();
    assert!(matches!(refused, RepairError::Unsound { .. }), "a copy: {refused:?}");
    let left: Vec<_> = files(&aside).into_keys().collect();
    assert_eq!(left, [aside.join("notes.new")]);
    repair(root.path());
    assert_holds(root.path(), &kept(&appended, &[7]));
}

#[test]
fn a_set_aside_that_is_no_directory_is_refused_by_name() {
    for is_link in [false, true] {
        let root = tempfile::tempdir().unwrap();
        let appended = filled(root.path(), 60);
        flip(root.path(), appended[7].offset.get() + 89);
        let elsewhere = tempfile::tempdir().unwrap();
        let path = root.path().join("commitlog/set-aside");
        if is_link {
            std::os::unix::fs::symlink(elsewhere.path(), &path).unwrap();
        } else {
            fs::write(&path, "mine").unwrap();
        }
        let refused = plan(root.path()).apply_in_place().unwrap_err();
        assert_eq!(refused, RepairError::SetAside { path });
    }
}

/// Of a store whose process went away or that was closed, with what recovery points prove or
/// without, and with segments of other places behind it.
#[test]
fn opening_refuses_what_a_survey_calls_damaged_and_nothing_else() {
    let (mut refusals, mut opened) = (0, 0);
    let wholes = [abandoned, filled].map(|write| {
        let whole = tempfile::tempdir().unwrap();
        let appended = write(whole.path(), 40);
        (whole, appended)
    });
    for seed in 1..=200_u64 {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let (whole, appended) = &wholes[usize::from(seed % 2 == 0)];
        let root = tempfile::tempdir().unwrap();
        copy_folder(whole.path(), root.path());
        if seed % 3 == 0 {
            for name in ["recovery-point.0", "recovery-point.1"] {
                let _ = fs::remove_file(root.path().join(name));
            }
        }
        let segments = appended[39].end().get().div_ceil(SEGMENT);
        let what = match random(&mut state, 5) {
            0 => format!("{:?}", damage(root.path(), segments, &mut state)),
            1 => {
                let last = appended[39].end().get() - 1 - random(&mut state, 300);
                flip(root.path(), last);
                format!("flipped {last}")
            }
            2 => {
                let to = (segments + random(&mut state, 2)) * SEGMENT;
                fs::copy(segment(root.path(), 0), segment(root.path(), to)).unwrap();
                format!("copied to {to}")
            }
            3 => {
                let start = (segments - 1) * SEGMENT;
                let size = usize::try_from(SEGMENT).unwrap();
                patch(root.path(), start, &vec![0xEE; size]);
                format!("{start} is garbage")
            }
            _ => {
                let start = random(&mut state, 2) * (segments - 1) * SEGMENT;
                fs::remove_file(segment(root.path(), start)).unwrap();
                format!("removed {start}")
            }
        };
        let options = SurveyOptions {
            segment_size: Some(SegmentSize::new(SEGMENT).unwrap()),
            ..SurveyOptions::default()
        };
        let found = survey(root.path(), &options).unwrap();
        let is_damaged = found.health() == Health::Damaged;
        let log = KIND.try_open(root.path(), small());
        let refused = log.as_ref().err();
        assert_eq!(
            refused.is_some(),
            is_damaged,
            "seed {seed}, {what}: {:?}, {refused:?}",
            found.faults
        );
        if let Ok(log) = &log {
            assert_eq!(log.recovery().end, found.end, "seed {seed}, {what}");
        }
        if is_damaged { refusals += 1 } else { opened += 1 }
    }
    assert!(refusals > 20 && opened > 20, "{refusals} refused, {opened} opened");
}
