//! Reading a store's records without owning it.

use std::fs;
use std::path::Path;

use store_core::{LogOffset, Protection};
use store_os::{ReadError, StoreReader};

use crate::rocketmq::stored_records;
use crate::stores::{KIND, SEGMENT, abandoned, filled, flip, golden, patch, segment};
use crate::support::{body, put, queue, small};

fn open(root: &Path) -> StoreReader {
    StoreReader::open(root, None, Protection::Record).unwrap()
}

/// Offsets of all records, over whatever is bad, and the places that were bad.
fn read_all(reader: &mut StoreReader) -> (Vec<LogOffset>, Vec<LogOffset>) {
    let (mut records, mut bad) = (Vec::new(), Vec::new());
    loop {
        match reader.next_record() {
            Ok(Some(record)) => records.push(record.log_offset()),
            Ok(None) => return (records, bad),
            Err(ReadError::NotARecord { at, .. }) => {
                bad.push(at);
                if reader.skip_damage().unwrap().is_none() {
                    return (records, bad);
                }
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn every_record_is_read_in_order() {
    let root = tempfile::tempdir().unwrap();
    let appended = filled(root.path(), 60);
    let mut reader = open(root.path());
    assert_eq!((reader.start(), reader.segment_size().bytes()), (LogOffset::ZERO, SEGMENT));
    for (number, record) in (0..).zip(&appended) {
        let found = reader.next_record().unwrap().unwrap();
        assert_eq!((found.log_offset(), found.body()), (record.offset, &body(number)[..]));
        assert_eq!(reader.offset(), record.end());
    }
    for _ in 0..2 {
        assert!(reader.next_record().unwrap().is_none());
    }
}

#[test]
fn what_rocketmq_wrote_is_read() {
    for name in ["plain", "crash", "oversize", "batchcq"] {
        let root = golden(name);
        let mut reader = open(root.path());
        for stored in stored_records(name) {
            stored.assert_is(&reader.next_record().unwrap().unwrap());
        }
        assert!(reader.next_record().unwrap().is_none(), "{name}");
    }
    let root = golden("badtopic");
    let (records, bad) = read_all(&mut open(root.path()));
    assert_eq!(records.len() + bad.len(), stored_records("badtopic").len());
}

#[test]
fn seeking_finds_the_first_record_at_or_behind_a_place() {
    let root = tempfile::tempdir().unwrap();
    let appended = filled(root.path(), 60);
    let mut reader = open(root.path());
    for (index, record) in appended.iter().enumerate() {
        reader.seek(record.offset).unwrap();
        let found = reader.next_record().unwrap().unwrap().log_offset();
        assert_eq!(found, record.offset);
        reader.seek(LogOffset::new(record.offset.get() + 1)).unwrap();
        let found = reader.next_record().unwrap().map(|found| found.log_offset());
        assert_eq!(found, appended.get(index + 1).map(|next| next.offset));
    }
    for behind in [appended[59].end().get(), 100 * SEGMENT, i64::MAX.unsigned_abs()] {
        reader.seek(LogOffset::new(behind)).unwrap();
        assert!(reader.next_record().unwrap().is_none(), "{behind}");
    }
}

#[test]
fn damage_is_an_error_that_can_be_passed_over() {
    let root = tempfile::tempdir().unwrap();
    let appended = filled(root.path(), 60);
    for victim in [3, 4, 30] {
        flip(root.path(), appended[victim].offset.get() + 90);
    }
    let mut reader = open(root.path());
    let (records, bad) = read_all(&mut reader);
    assert_eq!(bad, [3, 30].map(|victim| appended[victim].offset));
    let expect: Vec<_> = (0..60)
        .filter(|index| ![3, 4, 30].contains(index))
        .map(|index| appended[index].offset)
        .collect();
    assert_eq!(records, expect);
    // Before it, in it, at its end.
    reader.seek(appended[2].offset).unwrap();
    assert!(reader.next_record().unwrap().is_some());
    reader.seek(appended[4].offset).unwrap();
    let refused = reader.next_record().unwrap_err();
    assert!(
        matches!(refused, ReadError::NotARecord { at, .. } if at == appended[3].offset),
        "{refused:?}"
    );
    reader.seek(appended[5].offset).unwrap();
    assert_eq!(reader.next_record().unwrap().unwrap().log_offset(), appended[5].offset);
    // Where a valid record stands there is nothing to pass over.
    reader.seek(appended[10].offset).unwrap();
    assert_eq!(reader.skip_damage().unwrap(), Some(appended[10].offset));
}

#[test]
fn a_missing_segment_is_an_error_that_can_be_passed_over() {
    let root = tempfile::tempdir().unwrap();
    let appended = filled(root.path(), 60);
    fs::remove_file(segment(root.path(), SEGMENT)).unwrap();
    let mut reader = open(root.path());
    let (records, bad) = read_all(&mut reader);
    assert_eq!(bad, [LogOffset::new(SEGMENT)]);
    let kept = appended.iter().filter(|record| record.offset.get() / SEGMENT != 1);
    assert_eq!(records, kept.map(|record| record.offset).collect::<Vec<_>>());
    reader.seek(LogOffset::new(SEGMENT + 100)).unwrap();
    assert!(reader.next_record().is_err());
}

#[test]
fn a_torn_tail_is_an_error_with_nothing_behind() {
    let root = tempfile::tempdir().unwrap();
    let appended = abandoned(root.path(), 30);
    patch(root.path(), appended[29].offset.get() + 60, &[0xEE; 8]);
    let mut reader = open(root.path());
    let (records, bad) = read_all(&mut reader);
    assert_eq!((records.len(), bad), (29, vec![appended[29].offset]));
    assert_eq!(reader.offset(), appended[29].offset, "the reader stays");
}

#[test]
fn a_reader_goes_on_as_the_owner_appends() {
    let root = tempfile::tempdir().unwrap();
    let log = KIND.open(root.path(), small());
    let handle = queue(&log, "T");
    put(&log, &handle, &body(0));
    let mut reader = open(root.path());
    let mut read = 0;
    for number in 1..8 {
        while let Some(record) = reader.next_record().unwrap() {
            assert_eq!(record.body(), body(read));
            read += 1;
        }
        assert_eq!(read, number);
        put(&log, &handle, &body(number));
    }
}
