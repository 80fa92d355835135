//! Sectors that cannot be read, met by opening and by readers: error values, nothing is changed.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use store_core::LogOffset;
use store_os::{Op, OpenError, ReadError};

use crate::medium::Medium;
use crate::stores::{KIND, SEGMENT, abandoned, filled};
use crate::support::{body, files, put, queue, read_all, small};

fn segment(root: &Path, at: LogOffset) -> PathBuf {
    root.join("commitlog").join(format!("{:020}", at.get() / SEGMENT * SEGMENT))
}

fn spoil(medium: &Medium, root: &Path, at: LogOffset) {
    let sector = at.get() % SEGMENT / 512 * 512;
    medium.spoil(&segment(root, at), sector..sector + 512);
}

#[test]
fn a_bad_sector_that_opening_must_read_is_an_error_and_changes_nothing() {
    for is_closed in [true, false] {
        let root = tempfile::tempdir().unwrap();
        let appended = if is_closed { filled(root.path(), 60) } else { abandoned(root.path(), 60) };
        let before = files(root.path());
        let (first, last) = (appended[0].offset, appended[59].offset);
        for (name, at) in [("first", first), ("middle", appended[30].offset), ("last", last)] {
            let medium = Medium::new();
            spoil(&medium, root.path(), at);
            let refused = KIND.try_open(root.path(), medium.under(small())).map(|_| ());
            let Err(OpenError::System(error)) = refused else { panic!("{name}: {refused:?}") };
            assert_eq!((error.op, error.source), (Op::Read, Errno::IO), "{name}");
            assert_eq!(error.path, segment(root.path(), at), "{name}");
            assert_eq!(files(root.path()), before, "{name}: something was changed");
        }
        let log = KIND.open(root.path(), small());
        assert_eq!(log.recovery().records, 60, "the sectors can be read again");
    }
}

/// The rest of a torn record is read to see what it is: it is not cut unseen.
#[test]
fn a_bad_sector_behind_a_torn_record_is_not_cut() {
    let root = tempfile::tempdir().unwrap();
    let appended = abandoned(root.path(), 40);
    let torn = appended[39];
    let path = segment(root.path(), torn.offset);
    let whole = fs::read(&path).unwrap();
    let mut patched = whole.clone();
    patched[usize::try_from(torn.offset.get() % SEGMENT).unwrap() + 60] ^= 1;
    fs::write(&path, &patched).unwrap();
    let medium = Medium::new();
    spoil(&medium, root.path(), LogOffset::new(torn.end().get() - 1));
    let refused = KIND.try_open(root.path(), medium.under(small())).map(|_| ()).unwrap_err();
    assert!(matches!(refused, OpenError::System(_)), "{refused:?}");
    assert_eq!(fs::read(&path).unwrap(), patched, "cut unseen");
    medium.restore_sectors();
    let log = KIND.open(root.path(), medium.under(small()));
    assert_eq!(log.recovery().end, torn.offset);
}

#[test]
fn a_bad_sector_met_by_a_reader_is_an_error_and_the_log_goes_on() {
    let root = tempfile::tempdir().unwrap();
    let medium = Medium::new();
    let log = KIND.open(root.path(), medium.under(small()));
    let handle = queue(&log, "T");
    let appended: Vec<_> = (0..40).map(|number| put(&log, &handle, &body(number))).collect();
    spoil(&medium, root.path(), appended[5].offset);
    let read = log.cursor(appended[5].offset).next_record().map(|_| ()).unwrap_err();
    let ReadError::System(error) = read else { panic!("{read:?}") };
    assert_eq!((error.op, error.source), (Op::Read, Errno::IO));
    assert_eq!(error.path, segment(root.path(), appended[5].offset));
    put(&log, &handle, b"goes on");
    medium.restore_sectors();
    assert_eq!(read_all(&log).len(), 41);
}

/// What stands beside the log only shortens opening.
#[test]
fn small_files_that_cannot_be_read_cost_time_and_nothing_else() {
    let root = tempfile::tempdir().unwrap();
    filled(root.path(), 60);
    let medium = Medium::new();
    for name in ["checkpoint", "recovery-point.0", "recovery-point.1"] {
        medium.spoil(&root.path().join(name), 0..4096);
    }
    let log = KIND.open(root.path(), medium.under(small()));
    assert_eq!(log.recovery().records, 60);
    assert_eq!(log.recovery().scanned_from, LogOffset::ZERO);
}
