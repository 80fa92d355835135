//! Repair: offsets stay, what is readable stays readable, and nothing is ever gone.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use store_core::{LogOffset, QueueId, SegmentSize};
use store_os::{
    Appended, FillWith, Health, LOST_TOPIC, LogOptions, RepairError, RepairPlan, RepairReport,
    RepairStep, SurveyOptions, plan_repair, survey,
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
    for target in [taken.path().to_owned(), root.path().join("commitlog/copy")] {
        let refused = plan(root.path()).copy_to(&target).unwrap_err();
        assert_eq!(refused, RepairError::Target { path: target });
    }
    assert_eq!(files(taken.path()).len(), 1);
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
