//! What a power cut leaves of bytes that no sync had covered: a hole with valid records behind it.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;
use store_core::QueueOffset;
use store_os::{Appended, Call, LogOptions, Observer, Op, OpenError, ScanProgress};

use crate::stores::{KIND, SEGMENT, files, flip, patch, segment};
use crate::support::{Injector, Kind, body, put, queue, read_all, small, with_faults};

/// A log that was left without closing, and whose recovery point proves nothing but its beginning.
fn unproven(root: &Path, count: u64) -> Vec<Appended> {
    unproven_of(root, &(0..count).map(body).collect::<Vec<_>>())
}

fn unproven_of(root: &Path, bodies: &[Vec<u8>]) -> Vec<Appended> {
    let log = KIND.open(root, small());
    let points = points(root);
    let handle = queue(&log, "T");
    let appended = bodies.iter().map(|body| put(&log, &handle, body)).collect();
    log.abandon();
    // As if the keeper had not come by.
    for (path, bytes) in points {
        fs::write(path, bytes).unwrap();
    }
    appended
}

fn points(root: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let paths = ["recovery-point.0", "recovery-point.1"].map(|name| root.join(name));
    let there = paths.into_iter().filter(|path| path.exists());
    there.map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

/// The first whole sector of a record, and the record.
fn sector_of_one(appended: &[Appended]) -> (usize, u64) {
    let inside = |record: &Appended| {
        let sector = record.offset.get().next_multiple_of(512);
        (sector + 512 <= record.end().get()).then_some(sector)
    };
    let mut found = appended.iter().enumerate().skip(5);
    found.find_map(|(index, record)| Some((index, inside(record)?))).unwrap()
}

#[test]
fn records_behind_a_missing_sector_that_nothing_proves_are_set_aside_and_cut() {
    let root = tempfile::tempdir().unwrap();
    let appended = unproven(root.path(), 80);
    let (index, sector) = sector_of_one(&appended);
    let hole = appended[index];
    patch(root.path(), sector, &[0; 512]);
    let path = segment(root.path(), hole.offset.get() / SEGMENT * SEGMENT);
    let before = fs::read(&path).unwrap();
    let log = KIND.open(root.path(), small());
    let recovery = log.recovery();
    assert_eq!((recovery.records, recovery.end), (index as u64, hole.offset));
    assert_eq!(recovery.unsynced_records, 79 - index as u64);
    assert!(recovery.set_aside_bytes > 0 && recovery.stale_records == 0);
    // What was cut is kept, the next record goes where it stood, and it never comes back.
    let kept = root.path().join("commitlog/set-aside");
    let name = format!("{:020}.cut-{}", hole.offset.get() / SEGMENT * SEGMENT, hole.offset);
    let from = usize::try_from(hole.offset.get() % SEGMENT).unwrap();
    assert!(before[from..].starts_with(&fs::read(kept.join(name)).unwrap()));
    let next = put(&log, &queue(&log, "T"), &body(index as u64));
    assert_eq!((next.offset, next.queue_offset), (hole.offset, QueueOffset::new(index as u64)));
    log.abandon();
    let log = KIND.open(root.path(), small());
    assert_eq!((log.recovery().records, log.recovery().unsynced_records), (index as u64 + 1, 0));
    assert_eq!(read_all(&log).len(), index + 1);
}

#[test]
fn the_first_sectors_of_a_segment_can_be_missing_with_records_in_later_ones() {
    let root = tempfile::tempdir().unwrap();
    let appended = unproven(root.path(), 80);
    assert!(appended[79].offset.get() > 2 * SEGMENT, "not three segments");
    patch(root.path(), SEGMENT, &[0; 4096]);
    let log = KIND.open(root.path(), small());
    assert_eq!(log.recovery().end.get(), SEGMENT);
    assert!(log.recovery().unsynced_records > 30);
    assert!(read_all(&log).len() as u64 == log.recovery().records);
}

#[test]
fn a_changed_byte_is_damage_also_where_a_power_cut_was_possible() {
    let root = tempfile::tempdir().unwrap();
    let appended = unproven(root.path(), 80);
    let (index, sector) = sector_of_one(&appended);
    for place in [appended[index].offset.get() + 89, sector, sector + 511] {
        flip(root.path(), place);
        let before = files(root.path());
        let refused = KIND.try_open(root.path(), small()).map(|_| ()).unwrap_err();
        assert!(matches!(refused, OpenError::Damage(_)), "at {place}: {refused:?}");
        assert_eq!(files(root.path()), before, "at {place}: something was changed");
        flip(root.path(), place);
    }
}

#[test]
fn the_unused_end_of_a_segment_is_not_taken_for_missing_sectors() {
    let root = tempfile::tempdir().unwrap();
    let appended = unproven_of(root.path(), &vec![vec![7; 2800]; 8]);
    // Room for a sector, but not for another record.
    let (last, next) = (appended[4], appended[5]);
    assert!(next.offset.get() == SEGMENT && last.end().get() + 1024 < SEGMENT);
    // A byte of the last record, of the blank's length, of its magic.
    let blank = last.end();
    for (bad, place) in [(last.offset, 1000), (blank, 3), (blank, 5)] {
        flip(root.path(), bad.get() + place);
        let before = files(root.path());
        let refused = KIND.try_open(root.path(), small()).map(|_| ()).unwrap_err();
        let OpenError::Damage(damage) = refused else { panic!("{refused:?}") };
        assert_eq!((damage.at, damage.resumes_at), (bad, Some(next.offset)));
        assert!(files(root.path()) == before, "{bad}, {place}: something was changed");
        flip(root.path(), bad.get() + place);
    }
    // A sector of the same record is one.
    patch(root.path(), last.offset.get().next_multiple_of(512), &[0; 512]);
    let recovery = KIND.open(root.path(), small()).recovery();
    assert_eq!((recovery.end, recovery.unsynced_records), (last.offset, 3));
}

#[test]
fn a_segment_that_a_power_cut_left_without_its_blank_is_cut() {
    // From a sector of its last record on, from a later one, and from the blank on: a sector's
    // version may end there.
    for version in 0..3 {
        let root = tempfile::tempdir().unwrap();
        let appended = unproven_of(root.path(), &vec![vec![7; 2800]; 8]);
        let last = appended[4];
        let sector = last.offset.get().next_multiple_of(512);
        let hole = [sector, sector + 1024, last.end().get()][version];
        patch(root.path(), hole, &vec![0; usize::try_from(SEGMENT - hole).unwrap()]);
        let recovery = KIND.open(root.path(), small()).recovery();
        let end = if version == 2 { last.end() } else { last.offset };
        assert_eq!((recovery.end, recovery.unsynced_records), (end, 3), "from {hole}");
    }
}

#[test]
fn a_blank_of_which_a_power_cut_left_the_first_bytes_is_cut() {
    let learnt = tempfile::tempdir().unwrap();
    let beside = u64::from(unproven_of(learnt.path(), &[vec![7; 2800]])[0].len) - 2800;
    for bytes in 1..8 {
        let root = tempfile::tempdir().unwrap();
        let mut bodies = vec![vec![7; 2800]; 8];
        let end = 5 * (2800 + beside);
        let more = (1024 - bytes - end % 512) % 512;
        bodies[4] = vec![7; usize::try_from(2800 + more).unwrap()];
        let last = unproven_of(root.path(), &bodies)[4];
        let hole = last.end().get() + bytes;
        assert!(hole.is_multiple_of(512) && hole < SEGMENT);
        patch(root.path(), hole, &vec![0; usize::try_from(SEGMENT - hole).unwrap()]);
        let recovery = KIND.open(root.path(), small()).recovery();
        assert_eq!((recovery.end, recovery.unsynced_records), (last.end(), 3), "{bytes} bytes");
    }
}

#[test]
fn a_missing_sector_is_damage_where_the_log_was_closed_or_is_proven() {
    // Closed: everything was synced.
    let root = tempfile::tempdir().unwrap();
    let log = KIND.open(root.path(), small());
    let handle = queue(&log, "T");
    let appended: Vec<_> = (0..80).map(|number| put(&log, &handle, &body(number))).collect();
    log.close().unwrap();
    let (_, sector) = sector_of_one(&appended);
    let place = usize::try_from(sector % SEGMENT).unwrap();
    let whole = fs::read(segment(root.path(), sector / SEGMENT * SEGMENT)).unwrap();
    patch(root.path(), sector, &[0; 512]);
    assert!(matches!(KIND.try_open(root.path(), small()), Err(OpenError::Damage(_))));
    // In use again, but this part had been proven before.
    patch(root.path(), sector, &whole[place..place + 512]);
    KIND.open(root.path(), small()).abandon();
    patch(root.path(), sector, &[0; 512]);
    assert!(matches!(KIND.try_open(root.path(), small()), Err(OpenError::Damage(_))));
}

#[test]
fn a_store_without_a_recovery_point_of_ours_is_not_cut_at_a_missing_sector() {
    let root = tempfile::tempdir().unwrap();
    let appended = unproven(root.path(), 80);
    for (path, _) in points(root.path()) {
        fs::remove_file(path).unwrap();
    }
    patch(root.path(), sector_of_one(&appended).1, &[0; 512]);
    assert!(matches!(KIND.try_open(root.path(), small()), Err(OpenError::Damage(_))));
}

#[test]
fn a_recovery_point_is_there_before_the_first_append() {
    for kind in Kind::ALL {
        let root = tempfile::tempdir().unwrap();
        let log = kind.open(root.path(), small());
        assert!(!points(root.path()).is_empty(), "{kind:?}");
        log.abandon();
    }
}

#[test]
fn what_the_page_cache_does_not_forget_is_written_again() {
    let root = tempfile::tempdir().unwrap();
    unproven(root.path(), 20);
    // Locked pages stay cached: after a failed sync they could hold what the device does not have.
    let file = fs::File::open(segment(root.path(), 0)).unwrap();
    let map = memmap2::MmapOptions::new().map_raw_read_only(&file).unwrap();
    map.lock().unwrap();
    let injector = Injector::new();
    injector.fail(Call::Write, Errno::IO);
    let options = with_faults(small(), &injector);
    let refused = KIND.try_open(root.path(), options).map(|_| ()).unwrap_err();
    assert!(matches!(&refused, OpenError::System(error) if error.op == Op::Write), "{refused:?}");
    let log = KIND.open(root.path(), small());
    assert_eq!(read_all(&log).len(), 20);
}

/// Ends a scan when all was read.
struct EndsScan;

impl Observer for EndsScan {
    fn on_recovery(&self, progress: &ScanProgress) -> ControlFlow<()> {
        if progress.scanned_bytes == progress.total_bytes {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

#[test]
fn what_is_only_in_the_page_cache_is_written_again_before_a_scan_calls_it_proven() {
    let root = tempfile::tempdir().unwrap();
    unproven(root.path(), 80);
    let before = points(root.path());
    let file = fs::File::open(segment(root.path(), 0)).unwrap();
    let map = memmap2::MmapOptions::new().map_raw_read_only(&file).unwrap();
    map.lock().unwrap();
    let injector = Injector::new();
    injector.fail(Call::Write, Errno::IO);
    let interrupt = |injector| {
        let options = LogOptions { observer: Some(Arc::new(EndsScan)), ..small() };
        let refused = KIND.try_open(root.path(), with_faults(options, injector)).map(|_| ());
        assert_eq!(refused, Err(OpenError::Interrupted));
    };
    interrupt(&injector);
    assert!(points(root.path()) == before);
    injector.heal();
    interrupt(&injector);
    assert!(points(root.path()) != before);
}
