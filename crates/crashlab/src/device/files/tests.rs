//! What a power cut may leave of files and names, by example.

use std::collections::BTreeSet;

use super::*;

const FILE: Object = Object(1);

fn write(at: u64, byte: u8, len: usize) -> Change {
    Change::Write { file: FILE, at, bytes: vec![byte; len].into() }
}

fn sync(bytes: Range<u64>, issued: u64) -> Change {
    Change::SyncFile { file: FILE, bytes, issued, failed: false }
}

fn create(name: &str) -> Change {
    Change::CreateFile { directory: ROOT, name: name.into() }
}

/// A durable file of three sectors of 1, and changes since.
fn disk(since: &[Change]) -> Disk {
    let mut disk = Disk::default();
    let first = [create("f"), write(0, 1, 1536), sync(0..1536, 2)];
    let named = [Change::SyncDirectory { directory: ROOT }];
    for change in first.iter().chain(&named).chain(since) {
        disk.apply(change);
    }
    disk
}

/// The first byte of each sector, in all states.
fn states(disk: &Disk, keep: Keep) -> BTreeSet<Vec<u8>> {
    let state = |seed| {
        let cut = disk.cut(keep, seed);
        assert_eq!(cut.cut(Keep::Random, seed).bytes(FILE), cut.bytes(FILE), "it is durable");
        cut.bytes(FILE).iter().step_by(SECTOR_LEN).copied().collect()
    };
    (0..300).map(state).collect()
}

#[track_caller]
fn check(disk: &Disk, keep: Keep, expect: &[&[u8]]) {
    let expect = expect.iter().map(|state| state.to_vec()).collect();
    assert_eq!(states(disk, keep), expect);
}

#[test]
fn a_sector_survives_in_one_of_its_versions() {
    let disk = disk(&[write(512, 2, 512), write(512, 3, 1), write(1024, 4, 10)]);
    check(&disk, Keep::None, &[&[1, 1, 1]]);
    check(&disk, Keep::All, &[&[1, 3, 4]]);
    check(&disk, Keep::Prefix, &[&[1, 1, 1], &[1, 2, 1], &[1, 3, 1], &[1, 3, 4]]);
    assert_eq!(states(&disk, Keep::Random).len(), 6);
    // The second version is the first but for its first byte.
    let cut = disk.cut(Keep::All, 0);
    assert_eq!(cut.bytes(FILE)[512..514], [3, 2]);
}

#[test]
fn a_sync_covers_what_came_before_it_was_issued() {
    let mut disk = disk(&[write(0, 2, 1)]);
    let issued = disk.changes();
    disk.apply(&write(0, 3, 1));
    disk.apply(&write(512, 3, 1));
    disk.apply(&sync(0..1536, issued));
    check(&disk, Keep::None, &[&[2, 1, 1]]);
    assert_eq!(states(&disk, Keep::Random).len(), 4);
    disk.apply(&sync(0..1536, disk.changes()));
    check(&disk, Keep::Random, &[&[3, 3, 1]]);
}

#[test]
fn a_sync_of_a_range_covers_its_pages() {
    let mut disk = disk(&[write(4095, 2, 2)]);
    disk.apply(&sync(5000..5001, disk.changes()));
    let cut = disk.cut(Keep::None, 0);
    assert_eq!(cut.bytes(FILE)[4095..], [0, 2], "the length, and the second page");
    disk.apply(&sync(0..1, disk.changes()));
    assert_eq!(disk.cut(Keep::None, 0).bytes(FILE)[4095..], [2, 2]);
}

#[test]
fn a_length_is_durable_with_the_file() {
    let mut disk = disk(&[write(1536, 2, 512)]);
    check(&disk, Keep::None, &[&[1, 1, 1]]);
    let any: &[&[u8]] = &[&[1, 1, 1], &[1, 1, 1, 0], &[1, 1, 1, 2]];
    check(&disk, Keep::Random, any);
    disk.apply(&Change::SetLength { file: FILE, len: 512 });
    disk.apply(&Change::SetLength { file: FILE, len: 1024 });
    disk.apply(&sync(0..1024, disk.changes()));
    check(&disk, Keep::Random, &[&[1, 0]]);
}

#[test]
fn a_name_is_durable_with_its_directory() {
    let mut disk = disk(&[create("g")]);
    let has = |disk: &Disk, name: &str| disk.find(ROOT, name).is_some();
    let names = |disk: &Disk| -> BTreeSet<[bool; 3]> {
        let cuts = (0..200).map(|seed| disk.cut(Keep::Random, seed));
        cuts.map(|cut| ["f", "g", "h"].map(|name| has(&cut, name))).collect()
    };
    // A sync of the file is none of its name.
    let file = Object(2);
    disk.apply(&Change::SyncFile { file, bytes: 0..1, issued: disk.changes(), failed: false });
    assert_eq!(names(&disk), [[true, false, false], [true, true, false]].into());
    disk.apply(&Change::SyncDirectory { directory: ROOT });
    assert_eq!(names(&disk), [[true, true, false]].into());
    disk.apply(&Change::Remove { directory: ROOT, name: "f".into() });
    disk.apply(&Change::Rename { from: (ROOT, "g".into()), to: (ROOT, "h".into()) });
    assert_eq!(names(&disk).len(), 8, "each by itself");
    assert!(has(&disk, "h") && !has(&disk, "g"));
    disk.apply(&Change::SyncDirectory { directory: ROOT });
    assert_eq!(names(&disk), [[false, false, true]].into());
}

#[test]
fn what_is_in_a_directory_that_is_lost_is_lost() {
    let mut disk = Disk::default();
    disk.apply(&Change::CreateDirectory { directory: ROOT, name: "d".into() });
    let directory = Object(1);
    disk.apply(&Change::CreateFile { directory, name: "f".into() });
    disk.apply(&Change::SyncDirectory { directory });
    assert_eq!(disk.cut(Keep::None, 0).find(ROOT, "d"), None);
    disk.apply(&Change::SyncDirectory { directory: ROOT });
    let cut = disk.cut(Keep::None, 0);
    assert_eq!(cut.find(ROOT, "d"), Some(Found::Directory(directory)));
    assert_eq!(cut.list(directory).collect::<Vec<_>>(), [("f", Found::File(Object(2), 0))]);
}

#[test]
fn what_a_failed_sync_covered_no_later_sync_makes_durable() {
    let mut disk = disk(&[write(0, 2, 1)]);
    let issued = disk.changes();
    disk.apply(&Change::SyncFile { file: FILE, bytes: 0..512, issued, failed: true });
    disk.apply(&sync(0..1536, disk.changes()));
    assert_eq!(disk.bytes(FILE)[0], 2, "the page cache has it");
    check(&disk, Keep::None, &[&[1, 1, 1]]);
    check(&disk, Keep::Random, &[&[1, 1, 1], &[2, 1, 1]]);
    // Stored to again, its page is dirty as a whole.
    disk.apply(&write(1024, 5, 1));
    disk.apply(&sync(0..1536, disk.changes()));
    check(&disk, Keep::Random, &[&[2, 1, 5]]);
}

#[test]
fn what_was_lost_shows_when_the_page_cache_forgets_it() {
    let lost = Change::Lost { file: FILE, bytes: 0..1536 };
    let seen: BTreeSet<_> = (0..50)
        .map(|seed| {
            let mut disk = disk(&[write(0, 2, 1), lost.clone()]);
            assert!(disk.owes_error(FILE));
            assert_eq!(disk.dirty_files().count(), 0);
            disk.apply(&sync(0..1536, disk.changes()));
            assert!(!disk.owes_error(FILE));
            disk.apply(&Change::Forget { file: FILE, seed });
            assert_eq!(states(&disk, Keep::Random).len(), 1);
            disk.bytes(FILE)[0]
        })
        .collect();
    assert_eq!(seen, [1, 2].into());
    let mut disk = disk(&[write(0, 2, 1)]);
    assert_eq!(disk.dirty_files().collect::<Vec<_>>(), [FILE]);
    disk.apply(&Change::Forget { file: FILE, seed: 1 });
    assert_eq!(disk.bytes(FILE)[0], 2, "what is dirty is not forgotten");
}

#[test]
fn a_journal_gives_the_state_at_any_of_its_positions() {
    let journal = [write(0, 2, 1), write(512, 3, 1), sync(0..1536, 6)];
    let first = |position| {
        let cut = generate(disk(&[]), &journal, position, Keep::None, 0);
        [cut.bytes(FILE)[0], cut.bytes(FILE)[512]]
    };
    assert_eq!([first(2), first(3)], [[1, 1], [2, 3]]);
}
