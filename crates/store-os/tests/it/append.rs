//! Appending and reading back, by one thread and by many, across segments.

use std::collections::HashMap;
use std::fs;

use store_core::{
    Destination, LogOffset, Message, Placed, Placement, Protection, QueueId, QueueOffset,
    SegmentName, SysFlag, Topic, Wait, encode, encode_blank, place,
};
use store_os::{AppendError, Io, LogOptions, Preallocate};

use crate::support::{Kind, body, eventually, flushed_past, put, queue, read_all, small};

#[test]
fn what_was_appended_is_read_back_in_order_across_many_segments() {
    for kind in Kind::ALL {
        let root = tempfile::tempdir().unwrap();
        let log = kind.open(root.path(), small());
        let queue = queue(&log, "T");
        for number in 0..200 {
            let appended = put(&log, &queue, &body(number));
            assert_eq!(appended.queue_offset, QueueOffset::new(number), "{kind:?}");
        }
        let found = read_all(&log);
        assert_eq!(found.len(), 200, "{kind:?}");
        for (number, (_, found)) in (0..).zip(&found) {
            assert_eq!(found, &body(number), "{kind:?}, record {number}");
        }
        log.close().unwrap();
    }
}

#[test]
fn many_threads_lose_and_repeat_nothing() {
    for kind in Kind::ALL {
        let root = tempfile::tempdir().unwrap();
        let log = kind.open(root.path(), small());
        std::thread::scope(|scope| {
            for thread in 0..8_u64 {
                let log = &log;
                scope.spawn(move || {
                    let queue = queue(log, &format!("T{thread}"));
                    for number in 0..100 {
                        put(log, &queue, &body(thread * 1000 + number));
                    }
                });
            }
        });
        let mut next: HashMap<Vec<u8>, u64> = HashMap::new();
        for (topic, found) in read_all(&log) {
            let thread: u64 = std::str::from_utf8(&topic[1..]).unwrap().parse().unwrap();
            let number = next.entry(topic).or_default();
            assert_eq!(found, body(thread * 1000 + *number), "{kind:?}");
            *number += 1;
        }
        assert_eq!(next.values().sum::<u64>(), 800, "{kind:?}");
        log.close().unwrap();
    }
}

/// The bytes on disk against an encoder of three lines, for random sizes: the log's model.
#[test]
fn the_files_hold_exactly_the_records_and_blanks() {
    for kind in Kind::ALL {
        for preallocate in [Preallocate::Fallocate, Preallocate::Zero] {
            let root = tempfile::tempdir().unwrap();
            let options = LogOptions { preallocate, ..small() };
            let size = options.segment_size;
            let log = kind.open(root.path(), options);
            let handle = queue(&log, "T");
            let mut model: Vec<u8> = Vec::new();
            let mut end = LogOffset::ZERO;
            for number in 0..150 {
                let bytes = body(number * 7919);
                let message = Message { body: &bytes, ..Message::default() };
                let appended = put(&log, &handle, &bytes);
                if let Placement::Roll { blank_len, at, .. } =
                    place(size, end, appended.len).unwrap()
                {
                    model.extend(encode_blank(blank_len));
                    model.resize(usize::try_from(at.get()).unwrap(), 0);
                    end = at;
                }
                assert_eq!(appended.offset, end);
                let mut out = vec![0; 4096];
                let to =
                    Destination { topic: Topic::new(b"T").unwrap(), queue_id: QueueId::new(0) };
                model.extend_from_slice(
                    encode(to, &message, Protection::Record, &mut out).unwrap().place(&Placed {
                        log_offset: end,
                        queue_offset: QueueOffset::new(number),
                        store_timestamp: appended.store_timestamp,
                    }),
                );
                end = appended.end();
            }
            log.close().unwrap();
            let mut found = Vec::new();
            let mut start = LogOffset::ZERO;
            while start < end {
                let name = SegmentName::new(start);
                found.extend(fs::read(root.path().join("commitlog").join(name.as_str())).unwrap());
                start = start.checked_add(size.bytes()).unwrap();
            }
            model.resize(found.len(), 0);
            assert!(model == found, "{kind:?}, {preallocate:?}: the bytes differ");
            let files = fs::read_dir(root.path().join("commitlog")).unwrap().count();
            let full = usize::try_from(start.get() / size.bytes()).unwrap();
            assert_eq!(files, full, "{kind:?}: the segment made ahead is removed on closing");
        }
    }
}

#[test]
fn what_cannot_fit_is_refused_before_anything_is_written() {
    for kind in Kind::ALL {
        let root = tempfile::tempdir().unwrap();
        let mut options = small();
        options.max_message_bytes = 20 << 10;
        let log = kind.open(root.path(), options);
        let handle = queue(&log, "T");
        put(&log, &handle, b"first");
        let before = log.marks().wrote();
        let append = |bytes: &[u8]| {
            let message = Message { body: bytes, ..Message::default() };
            log.append(&handle, &message, Wait::Yes).map(|ticket| ticket.appended()).unwrap_err()
        };
        assert!(matches!(append(&[0; 16 << 10]), AppendError::TooLarge(_)));
        let too_long = AppendError::BodyTooLong { len: 20 * 1024 + 1, max: 20 * 1024 };
        assert_eq!(append(&vec![0; (20 << 10) + 1]), too_long);
        assert_eq!(log.marks().wrote(), before);
        assert_eq!(handle.next_offset(), QueueOffset::new(1));
        put(&log, &handle, b"second");
        assert_eq!(read_all(&log).len(), 2);
    }
}

#[test]
fn a_queue_of_another_log_is_refused() {
    let roots = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let logs = roots.each_ref().map(|root| Kind::Sync(Io::Positioned).open(root.path(), small()));
    let foreign = queue(&logs[0], "T");
    let refused = logs[1].append(&foreign, &Message::default(), Wait::Yes).unwrap_err();
    assert_eq!(refused, AppendError::ForeignQueue);
}

#[test]
fn prepared_and_rolled_back_messages_take_no_queue_offset() {
    let root = tempfile::tempdir().unwrap();
    let log = Kind::Sync(Io::Positioned).open(root.path(), small());
    let handle = queue(&log, "T");
    let offsets: Vec<_> = [0, 4, 8, 12, 0]
        .map(|bits| Message { sys_flag: SysFlag::new(bits), ..Message::default() })
        .iter()
        .map(|message| log.append_and_wait(&handle, message, Wait::Yes).unwrap().unwrap())
        .map(|appended| appended.queue_offset.get())
        .collect();
    assert_eq!(offsets, [0, 0, 1, 0, 2]);
}

#[test]
fn asynchronous_appends_become_durable_without_anyone_waiting() {
    for kind in [Kind::Timed(Io::Mapped), Kind::Timed(Io::Positioned), Kind::Staged] {
        let root = tempfile::tempdir().unwrap();
        let log = kind.open(root.path(), small());
        let handle = queue(&log, "T");
        for number in 0..39 {
            put(&log, &handle, &body(number));
        }
        let last = put(&log, &handle, &body(39));
        eventually("everything flushed", || flushed_past(&log, last.end()));
    }
}

#[test]
fn a_producer_that_does_not_wait_is_acknowledged_at_once_and_flushed_soon() {
    let root = tempfile::tempdir().unwrap();
    let log = Kind::Sync(Io::Positioned).open(root.path(), small());
    let handle = queue(&log, "T");
    let ticket = log.append(&handle, &Message::default(), Wait::No).unwrap();
    assert!(ticket.is_done());
    let end = ticket.wait().unwrap().end();
    eventually("flushed though nobody waits", || flushed_past(&log, end));
}
