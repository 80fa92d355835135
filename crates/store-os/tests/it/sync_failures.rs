//! Each way in which syncing goes wrong on Linux, under each strategy: no acknowledgement of what
//! the failed sync covered, and reopening finds what the device has.

use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;
use store_core::{LogOffset, Message, Wait};
use store_os::{AckError, AppendError, Appended, CloseError, Log, Op, OpenError, Poison};

use crate::medium::{Breakdown, Medium};
use crate::support::{Kind, body, eventually, flushed_past, put, queue, small};

/// A record that was placed.
struct Placed {
    at: Appended,
    body: Vec<u8>,
    is_acked: bool,
}

/// Appends until the log refuses; gives what was placed, and why not more.
fn append_all(log: &Log, producer: u64) -> (Vec<Placed>, Poison) {
    let handle = queue(log, &format!("T{producer}"));
    let mut placed = Vec::new();
    for number in 0.. {
        let body = body(producer * 10_000 + number);
        let message = Message { body: &body, ..Message::default() };
        let (poison, at) = match log.append(&handle, &message, Wait::Yes) {
            Ok(ticket) => {
                let at = ticket.appended();
                match ticket.wait() {
                    Ok(_) => (None, Some(at)),
                    Err(AckError::Poisoned(poison)) => (Some(poison), Some(at)),
                    Err(error) => panic!("{error:?}"),
                }
            }
            Err(AppendError::Poisoned(poison)) => (Some(poison), None),
            // A segment that could not be synced holds nothing yet: it is made anew.
            Err(AppendError::Segment(error)) if error.op == Op::Sync => {
                std::thread::park_timeout(Duration::from_millis(1));
                (None, None)
            }
            Err(error) => panic!("{error:?}"),
        };
        placed.extend(at.map(|at| Placed { at, body, is_acked: poison.is_none() }));
        if let Some(poison) = poison {
            return (placed, poison);
        }
    }
    unreachable!("the log never fails");
}

/// Opens the log, with timed flushes that come often.
///
/// What went wrong in the background and nobody was told of, each segment's first sync tells once;
/// that opens nothing.
fn open(kind: Kind, root: &Path, medium: &Medium) -> Log {
    for _ in 0..1000 {
        match kind.try_open_brisk(root, medium.under(small())) {
            Ok(log) => return log,
            Err(OpenError::System(error)) => {
                assert_eq!((error.op, error.source), (Op::Sync, Errno::IO), "{kind:?}");
            }
            Err(error) => panic!("{kind:?}: {error}"),
        }
    }
    panic!("{kind:?}: never opens");
}

/// What lies below `end` is there, byte for byte.
#[track_caller]
fn check(log: &Log, placed: &[Placed], end: LogOffset, what: &str) {
    for Placed { at, body, .. } in placed.iter().filter(|placed| placed.at.end() <= end) {
        let mut cursor = log.cursor(at.offset);
        let record = cursor.next_record().unwrap();
        let record = record.unwrap_or_else(|| panic!("{what}: {at:?} is gone"));
        assert!(record.body() == body, "{what}: {at:?} is another");
    }
}

fn breaks_down(kind: Kind, how: Breakdown) {
    let what = format!("{kind:?}, {how:?}");
    let root = tempfile::tempdir().unwrap();
    let medium = Medium::new();
    let log = open(kind, root.path(), &medium);
    let first = put(&log, &queue(&log, "first"), b"first");
    eventually("the first is flushed", || {
        put(&log, &queue(&log, "first"), &body(1499));
        flushed_past(&log, first.end())
    });
    let told: Vec<_> = std::thread::scope(|scope| {
        let producers = [1, 2, 3].map(|producer| {
            let log = &log;
            scope.spawn(move || append_all(log, producer))
        });
        eventually("appends go on", || first.end().get() + 20_000 < log.marks().wrote().get());
        medium.break_down(how);
        producers.map(|producer| producer.join().unwrap()).into()
    });
    let flushed = log.marks().flushed();
    let syncs = medium.syncs();
    let poison = told[0].1.clone();
    assert_eq!((poison.first.op, poison.first.source), (Op::Sync, Errno::IO), "{what}");
    for (placed, other) in &told {
        assert_eq!(*other, poison, "{what}: every producer is told the same");
        let acked = placed.iter().rfind(|placed| placed.is_acked).map(|acked| acked.at.end());
        assert!(
            !matches!(kind, Kind::Sync(_)) || acked <= Some(flushed),
            "{what}: {acked:?} was acknowledged, flushed is {flushed}"
        );
    }
    // The next sync would succeed, and lie.
    medium.revive();
    let refused = log.append(&queue(&log, "later"), &Message::default(), Wait::Yes).unwrap_err();
    assert_eq!(refused, AppendError::Poisoned(poison.clone()), "{what}");
    let wrote = log.marks().wrote();
    assert_eq!(log.marks().flushed(), flushed, "{what}: flushed is frozen");
    assert_eq!(log.close(), Err(CloseError::Poisoned { flushed, wrote, poison }), "{what}");
    assert_eq!(medium.syncs(), syncs, "{what}: a sync was tried again");

    let log = open(kind, root.path(), &medium);
    let end = log.recovery().end;
    assert!(flushed <= end && end <= wrote, "{what}: {flushed}, {end}, {wrote}");
    let placed: Vec<Placed> = told.into_iter().flat_map(|(placed, _)| placed).collect();
    check(&log, &placed, end, &what);
    // The log goes on in the same segment, and what is durable now stays so.
    let handle = queue(&log, "later");
    let later: Vec<Placed> = (0..5)
        .map(|number| {
            let body = body(number);
            Placed { at: put(&log, &handle, &body), body, is_acked: true }
        })
        .collect();
    let flushed = log.marks().flushed();
    log.abandon();
    medium.cut_power();
    let log = open(kind, root.path(), &medium);
    assert!(end.max(flushed) <= log.recovery().end, "{what}: {:?}", log.recovery());
    if let Kind::Sync(_) = kind {
        assert!(later[4].at.end() <= log.recovery().end, "{what}: {:?}", log.recovery());
    }
    check(&log, &placed, end, &what);
    check(&log, &later, log.recovery().end, &what);
}

#[test]
fn whatever_way_a_sync_fails_it_is_final_and_reopening_finds_what_the_device_has() {
    for kind in Kind::ALL {
        for how in Breakdown::ALL {
            breaks_down(kind, how);
        }
    }
}
