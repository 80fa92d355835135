//! Batches are placed as one, inner batches know their place.

use store_core::{Batch, BatchError, BatchMember, LogOffset, Message, Properties, SysFlag, Wait};
use store_os::{AppendError, Io};

use crate::support::{Kind, body, put, queue, read_all, small};

fn client_bytes(bodies: &[Vec<u8>]) -> Vec<u8> {
    let mut out = Vec::new();
    for (flag, body) in (0..).zip(bodies) {
        let member = BatchMember { flag, properties: b"KEYS\x01k", body };
        let at = out.len();
        out.resize(at + member.encoded_len(), 0);
        member.encode(&mut out[at..]).unwrap();
    }
    out
}

#[test]
fn a_batch_moves_as_one_when_it_does_not_fit() {
    for kind in Kind::ALL {
        let root = tempfile::tempdir().unwrap();
        let log = kind.open(root.path(), small());
        let handle = queue(&log, "T");
        // 2 KiB are left in the first segment: enough for each member, not for all.
        let first = put(&log, &handle, &[7; 8000]);
        let second = put(&log, &handle, &[7; 6000]);
        assert!(second.end() > first.end() && second.end().get() < 16 << 10);
        let bodies: Vec<_> = (0..5).map(|_| vec![9; 700]).collect();
        let bytes = client_bytes(&bodies);
        let batch = Batch::new(&bytes).unwrap();
        let stored = log.append_batch(&handle, &Message::default(), &batch, Wait::Yes).unwrap();
        let appended = stored.ticket.wait().unwrap();
        assert_eq!(appended.offset, LogOffset::new(16 << 10), "{kind:?}");
        assert_eq!(stored.offsets.len(), 5);
        assert_eq!(stored.offsets[0], appended.offset);
        assert!(stored.offsets.is_sorted() && stored.offsets[4] < appended.end());
        assert_eq!((appended.queue_offset.get(), handle.next_offset().get()), (2, 7));
        assert_eq!(put(&log, &handle, b"behind").queue_offset.get(), 7);
        log.close().unwrap();
        let log = kind.open(root.path(), small());
        assert_eq!(log.recovery().records, 8, "{kind:?}");
        assert_eq!(queue(&log, "T").next_offset().get(), 8);
        let found: Vec<_> = read_all(&log).into_iter().map(|(_, body)| body).collect();
        assert_eq!(found[2..7], bodies);
    }
}

#[test]
fn a_batch_that_cannot_be_stored_leaves_nothing() {
    let root = tempfile::tempdir().unwrap();
    let log = Kind::Sync(Io::Positioned).open(root.path(), small());
    let handle = queue(&log, "T");
    let before = put(&log, &handle, b"before");
    let bytes = client_bytes(&[body(1), body(2)]);
    let batch = Batch::new(&bytes).unwrap();
    let transactional = Message { sys_flag: SysFlag::new(4), ..Message::default() };
    let refused = log.append_batch(&handle, &transactional, &batch, Wait::Yes).unwrap_err();
    assert_eq!(refused, AppendError::Batch(BatchError::Transactional));
    let many: Vec<_> = (0..20).map(|_| vec![1; 500]).collect();
    let bytes = client_bytes(&many);
    let batch = Batch::new(&bytes).unwrap();
    let refused = log.append_batch(&handle, &Message::default(), &batch, Wait::Yes).unwrap_err();
    assert!(matches!(refused, AppendError::BodyTooLong { max: 8192, .. }), "{refused:?}");
    // Short members grow by what every record has.
    let many: Vec<_> = (0..200).map(|_| vec![1; 5]).collect();
    let bytes = client_bytes(&many);
    let batch = Batch::new(&bytes).unwrap();
    let refused = log.append_batch(&handle, &Message::default(), &batch, Wait::Yes).unwrap_err();
    assert!(matches!(refused, AppendError::TooLarge(_)), "{refused:?}");
    assert_eq!(log.marks().wrote(), before.end());
    assert_eq!(handle.next_offset().get(), 1);
}

#[test]
fn inner_batches_of_many_producers_take_their_positions_and_say_which() {
    for kind in Kind::ALL {
        let root = tempfile::tempdir().unwrap();
        let log = kind.open(root.path(), small());
        let handle = queue(&log, "T");
        std::thread::scope(|scope| {
            for producer in 1..=4_u8 {
                let (log, handle) = (&log, &handle);
                scope.spawn(move || {
                    let properties = format!("INNER_NUM\u{1}{producer}\u{2}");
                    let message = Message {
                        sys_flag: SysFlag::new(SysFlag::INNER_BATCH | SysFlag::NEED_UNWRAP),
                        properties: properties.as_bytes(),
                        body: &[producer; 50],
                        ..Message::default()
                    };
                    for _ in 0..50 {
                        log.append_and_wait(handle, &message, Wait::Yes).unwrap().unwrap();
                    }
                });
            }
        });
        assert_eq!(handle.next_offset().get(), 50 * (1 + 2 + 3 + 4), "{kind:?}");
        log.close().unwrap();
        let log = kind.open(root.path(), small());
        assert_eq!(queue(&log, "T").next_offset().get(), 500, "{kind:?}");
        let mut cursor = log.cursor(log.recovery().start);
        let mut next = 0;
        while let Some(view) = cursor.next_record().unwrap() {
            assert_eq!(view.queue_offset().get(), next, "{kind:?}");
            let base = Properties::new(view.property_string()).last(b"INNER_BASE").unwrap();
            assert_eq!(base, next.to_string().as_bytes(), "{kind:?}");
            next += u64::from(view.message_count());
        }
        assert_eq!(next, 500, "{kind:?}");
    }
}

#[test]
fn a_count_without_the_flag_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let log = Kind::Staged.open(root.path(), small());
    let message = Message { properties: b"INNER_NUM\x012\x02", ..Message::default() };
    let refused = log.append(&queue(&log, "T"), &message, Wait::No).map(|_| ()).unwrap_err();
    assert_eq!(refused, AppendError::Encode(store_core::EncodeError::InnerNum));
}
