//! What the disk can do to a log: fail, fill up, be slow. Every error path has a test.

use std::fs;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use group_commit::{Config, GroupCommit};
use rustix::io::Errno;
use store_core::{Message, Nanos, Wait};
use store_os::{AckError, AppendError, Call, CloseError, Io, Log, LogOptions, Op};

use crate::support::{
    Injector, Kind, body, eventually, flushed_past, put, queue, read_all, small, with_faults,
};

/// Opens a log, appends one record durably, and makes the next calls of a kind fail.
fn failing(kind: Kind, root: &std::path::Path, call: Call) -> (Log, Arc<Injector>) {
    let injector = Injector::new();
    let log = kind.open(root, with_faults(small(), &injector));
    let first = put(&log, &queue(&log, "T"), b"first");
    eventually("first record flushed", || {
        // Fewer than four pages wait for RocketMQ's thorough interval; fill them up.
        put(&log, &queue(&log, "T"), &body(1499));
        flushed_past(&log, first.end())
    });
    injector.fail(call, Errno::IO);
    (log, injector)
}

#[test]
fn a_failed_sync_is_final_under_every_strategy() {
    for kind in Kind::ALL {
        let root = tempfile::tempdir().unwrap();
        let (log, injector) = failing(kind, root.path(), Call::Sync);
        let handle = queue(&log, "T");
        let message = Message { body: &[7; 5000], ..Message::default() };
        let poison = loop {
            match log.append_and_wait(&handle, &message, Wait::Yes) {
                Ok(Ok(appended)) => assert!(
                    !matches!(kind, Kind::Sync(_)),
                    "{kind:?}: acknowledged {appended:?} after a failed sync"
                ),
                Ok(Err(AckError::Poisoned(poison))) | Err(AppendError::Poisoned(poison)) => {
                    break poison;
                }
                other => panic!("{kind:?}: {other:?}"),
            }
        };
        assert_eq!((poison.first.op, poison.first.source), (Op::Sync, Errno::IO), "{kind:?}");
        let flushed = log.marks().flushed();
        let syncs = injector.count(Call::Sync);
        injector.heal();
        for _ in 0..3 {
            let refused = log.append(&handle, &message, Wait::Yes).map(|_| ()).unwrap_err();
            assert_eq!(refused, AppendError::Poisoned(poison.clone()), "{kind:?}");
        }
        assert_eq!(log.marks().flushed(), flushed, "{kind:?}: flushed is frozen");
        let wrote = log.marks().wrote();
        assert_eq!(log.close(), Err(CloseError::Poisoned { flushed, wrote, poison }), "{kind:?}");
        assert_eq!(injector.count(Call::Sync), syncs, "{kind:?}: a sync was tried again");
        let reopened = kind.open(root.path(), small());
        assert!(reopened.recovery().end >= flushed, "{kind:?}");
        assert!(reopened.recovery().unclean, "{kind:?}");
        put(&reopened, &queue(&reopened, "T"), b"goes on");
    }
}

#[test]
fn a_failed_write_is_final_too() {
    for kind in [Kind::Sync(Io::Positioned), Kind::Timed(Io::Positioned), Kind::Staged] {
        let root = tempfile::tempdir().unwrap();
        let (log, _injector) = failing(kind, root.path(), Call::Write);
        let handle = queue(&log, "T");
        let message = Message { body: &[7; 5000], ..Message::default() };
        eventually("poisoned", || log.append(&handle, &message, Wait::No).is_err());
        let refused = log.append(&handle, &message, Wait::No).map(|_| ()).unwrap_err();
        let AppendError::Poisoned(poison) = refused else { panic!("{kind:?}: {refused:?}") };
        assert_eq!((poison.first.op, poison.first.source), (Op::Write, Errno::IO), "{kind:?}");
    }
}

#[test]
fn a_full_disk_refuses_the_append_that_needs_a_segment_and_nothing_else() {
    for kind in Kind::ALL {
        let root = tempfile::tempdir().unwrap();
        let injector = Injector::new();
        let log = kind.open(root.path(), with_faults(small(), &injector));
        let handle = queue(&log, "T");
        put(&log, &handle, &body(0));
        // The first segment and the one ahead of it are there by now, or will be.
        eventually("one segment ahead", || injector.count(Call::Allocate) >= 2);
        injector.fail(Call::Allocate, Errno::NOSPC);
        let message = Message { body: &[7; 5000], ..Message::default() };
        let mut placed = 1_u64;
        let refused = loop {
            match log.append_and_wait(&handle, &message, Wait::Yes) {
                Ok(acknowledged) => {
                    acknowledged.unwrap();
                    placed += 1;
                }
                Err(error) => break error,
            }
        };
        let AppendError::Segment(error) = refused else { panic!("{kind:?}: {refused:?}") };
        assert_eq!(error.op, Op::Allocate { bytes: 16 << 10 }, "{kind:?}");
        assert_eq!(error.source, Errno::NOSPC, "{kind:?}");
        injector.heal();
        put(&log, &handle, b"space came back");
        assert_eq!(read_all(&log).len() as u64, placed + 1, "{kind:?}");
        log.close().unwrap();
        assert_eq!(kind.open(root.path(), small()).recovery().records, placed + 1);
    }
}

#[test]
fn a_sync_that_does_not_return_delays_no_asynchronous_acknowledgement() {
    for kind in [Kind::Timed(Io::Mapped), Kind::Timed(Io::Positioned), Kind::Staged] {
        let root = tempfile::tempdir().unwrap();
        let injector = Injector::new();
        let log = kind.open(root.path(), with_faults(small(), &injector));
        let handle = queue(&log, "T");
        injector.hold(Call::Sync);
        eventually("a sync is stuck", || {
            put(&log, &handle, &body(1499));
            injector.held() > 0
        });
        let flushed = log.marks().flushed();
        // Several segments and more than the staging buffer: neither appends nor commits wait.
        for number in 0..200 {
            put(&log, &handle, &body(number));
        }
        assert_eq!(log.marks().flushed(), flushed, "{kind:?}");
        injector.let_go();
        log.close().unwrap();
    }
}

/// A log whose deadline is 20 ms and whose next sync does not return.
fn stuck(root: &std::path::Path) -> (Log, Arc<Injector>) {
    let injector = Injector::new();
    let config = Config { timeout: Nanos::from_millis(20), ..Config::default() };
    let strategy = GroupCommit::new(config).unwrap();
    let options = LogOptions { io: Some(Io::Positioned), ..with_faults(small(), &injector) };
    let log = Log::open(root, options, strategy).unwrap();
    injector.hold(Call::Sync);
    (log, injector)
}

#[test]
fn a_deadline_passes_while_a_sync_is_stuck_and_the_record_stays() {
    let root = tempfile::tempdir().unwrap();
    let (log, injector) = stuck(root.path());
    let handle = queue(&log, "T");
    let message = Message { body: b"late", ..Message::default() };
    // A producer that is alone waits no longer than others.
    let told = log.append_and_wait(&handle, &message, Wait::Yes).unwrap();
    assert_eq!(told, Err(AckError::FlushTimedOut));
    let ticket = log.append(&handle, &message, Wait::Yes).unwrap();
    let end = ticket.appended().end();
    assert_eq!(ticket.wait(), Err(AckError::FlushTimedOut));
    assert!(read_all(&log).is_empty(), "what is not flushed is not visible");
    injector.let_go();
    eventually("flushed after all", || flushed_past(&log, end));
    assert_eq!(read_all(&log).len(), 2);
}

#[test]
fn a_producer_stuck_in_the_sync_that_it_leads_delays_no_other_deadline() {
    let root = tempfile::tempdir().unwrap();
    let (log, injector) = stuck(root.path());
    let handle = queue(&log, "T");
    let message = Message { body: b"late", ..Message::default() };
    let lead = || log.append_and_lead(&handle, &message, Wait::Yes).unwrap();
    thread::scope(|scope| {
        let first = scope.spawn(lead);
        eventually("a sync is stuck", || injector.held() == 1);
        for told in [lead(), log.append_and_wait(&handle, &message, Wait::Yes).unwrap()] {
            assert_eq!(told, Err(AckError::FlushTimedOut));
        }
        drop(log.append(&handle, &message, Wait::No).unwrap());
        assert!(!first.is_finished());
        injector.let_go();
        // Its sync took longer than its deadline, but it did not fail: the record is durable.
        let appended = first.join().unwrap().unwrap();
        assert!(flushed_past(&log, appended.end()));
    });
    eventually("the lane syncs the rest", || read_all(&log).len() == 4);
}

#[test]
fn a_full_staging_buffer_pushes_back_within_a_limit_and_loses_nothing() {
    for kind in [Kind::Staged, Kind::Sync(Io::Positioned)] {
        let root = tempfile::tempdir().unwrap();
        let injector = Injector::new();
        let options = LogOptions { append_timeout: Duration::from_millis(50), ..small() };
        let log = kind.open(root.path(), with_faults(options, &injector));
        let handle = queue(&log, "T");
        put(&log, &handle, &body(0));
        eventually("a segment ahead", || injector.count(Call::Allocate) >= 2);
        injector.hold(Call::Write);
        let message = Message { body: &[7; 1000], ..Message::default() };
        let mut tickets = Vec::new();
        let refused = loop {
            match log.append(&handle, &message, Wait::Yes) {
                Ok(ticket) => tickets.push(ticket),
                // The ring holds more than a segment, and the one after it may not be there yet.
                Err(AppendError::SegmentNotReady) => {}
                Err(error) => break error,
            }
        };
        assert_eq!(refused, AppendError::StagingFull, "{kind:?}");
        let placed = tickets.len() as u64;
        assert!(placed > 50, "{kind:?}: only {placed} records of 1 KiB were staged in 64 KiB");
        injector.let_go();
        for ticket in tickets {
            ticket.wait().unwrap();
        }
        put(&log, &handle, b"goes on");
        log.close().unwrap();
        let log = kind.open(root.path(), small());
        assert_eq!(log.recovery().records, placed + 2, "{kind:?}");
    }
}

#[test]
fn a_slow_allocation_makes_only_the_append_that_needs_it_wait_and_only_so_long() {
    let root = tempfile::tempdir().unwrap();
    let injector = Injector::new();
    let options = LogOptions { append_timeout: Duration::from_millis(50), ..small() };
    let kind = Kind::Sync(Io::Positioned);
    let log = kind.open(root.path(), with_faults(options, &injector));
    let handle = queue(&log, "T");
    // On a busy machine the first one can take longer than the limit.
    assert!(log.wait_for_segment(Duration::from_mins(1)));
    put(&log, &handle, &body(0));
    eventually("one segment ahead", || injector.count(Call::Allocate) >= 2);
    injector.hold(Call::Allocate);
    let message = Message { body: &[7; 5000], ..Message::default() };
    let refused = loop {
        if let Err(error) = log.append_and_wait(&handle, &message, Wait::Yes) {
            break error;
        }
    };
    assert_eq!(refused, AppendError::SegmentNotReady);
    put(&log, &handle, b"still fits");
    injector.let_go();
    eventually("the segment comes", || log.append_and_wait(&handle, &message, Wait::Yes).is_ok());
}

/// Commits by appends and syncs by the lane, side by side: no mark runs ahead of another.
#[test]
fn commits_and_syncs_beside_each_other_keep_the_marks_in_order() {
    let root = tempfile::tempdir().unwrap();
    let config = flush_realtime::Config {
        interval: Nanos::from_micros(50),
        least_pages: 0,
        ..flush_realtime::Config::default()
    };
    let strategy = flush_realtime::FlushRealtime::new(config).unwrap();
    let options = LogOptions { io: Some(Io::Positioned), ..small() };
    let log = Log::open(root.path(), options, strategy).unwrap();
    thread::scope(|scope| {
        for thread in 0..4 {
            let log = &log;
            scope.spawn(move || {
                let handle = queue(log, &format!("T{thread}"));
                for number in 0..2500 {
                    put(log, &handle, &body(number % 7));
                    let _ = log.marks();
                }
            });
        }
    });
    log.close().unwrap();
    assert_eq!(Kind::Timed(Io::Positioned).open(root.path(), small()).recovery().records, 10_000);
}

/// An observer with a bug.
struct Panics;

impl store_os::Observer for Panics {
    fn on_commit(&self, _: &store_os::CommitEvent) {}

    fn on_flush(&self, _: &store_os::FlushEvent) {
        panic!("a bug in an observer");
    }
}

#[test]
fn a_panic_in_a_lane_poisons_the_log_and_hangs_nobody() {
    for io in [Io::Positioned, Io::Mapped] {
        let root = tempfile::tempdir().unwrap();
        if io == Io::Mapped && !Log::can_map(root.path()).unwrap() {
            continue;
        }
        let options = LogOptions { io: Some(io), observer: Some(Arc::new(Panics)), ..small() };
        let log = Log::open(root.path(), options, GroupCommit::default()).unwrap();
        let handle = queue(&log, "T");
        // In the lane's thread. The sync itself succeeded, so the first record is acknowledged.
        log.append(&handle, &Message::default(), Wait::Yes).unwrap().wait().unwrap();
        eventually("poisoned", || {
            let message = Message { body: b"later", ..Message::default() };
            match log.append(&handle, &message, Wait::Yes).map(store_os::Ticket::wait) {
                Err(AppendError::Poisoned(poison)) | Ok(Err(AckError::Poisoned(poison))) => {
                    poison.first.op == Op::Panicked
                }
                _ => false,
            }
        });
        assert!(matches!(log.close(), Err(CloseError::Poisoned { .. })));
    }
}

#[test]
fn a_panic_of_who_leads_goes_to_its_caller_and_poisons_the_log() {
    let root = tempfile::tempdir().unwrap();
    let options =
        LogOptions { io: Some(Io::Positioned), observer: Some(Arc::new(Panics)), ..small() };
    let log = Log::open(root.path(), options, GroupCommit::default()).unwrap();
    let handle = queue(&log, "T");
    let message = Message::default();
    let lead = || log.append_and_lead(&handle, &message, Wait::Yes);
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(lead)).is_err());
    let later = log.append(&handle, &message, Wait::Yes).map(|_| ());
    let Err(AppendError::Poisoned(poison)) = later else { panic!("{later:?}") };
    assert_eq!(poison.first.op, Op::Panicked);
    assert!(matches!(log.close(), Err(CloseError::Poisoned { .. })));
}

#[test]
fn without_patience_an_append_still_asks_for_what_is_missing() {
    let root = tempfile::tempdir().unwrap();
    let injector = Injector::new();
    let options = LogOptions { append_timeout: Duration::ZERO, ..small() };
    let log = Kind::Staged.open(root.path(), with_faults(options, &injector));
    let handle = queue(&log, "T");
    let message = Message { body: &[7; 5000], ..Message::default() };
    injector.fail(Call::Allocate, Errno::NOSPC);
    eventually("the cause is told", || {
        let refused = log.append(&handle, &message, Wait::Yes).map(|_| ());
        matches!(refused, Err(AppendError::Segment(error)) if error.source == Errno::NOSPC)
    });
    injector.heal();
    eventually("appended again", || log.append(&handle, &message, Wait::Yes).is_ok());
}

#[test]
fn a_full_staging_buffer_is_committed_whatever_the_strategy_would_wait_for() {
    let root = tempfile::tempdir().unwrap();
    let config = commit_realtime::Config {
        commit_least_pages: 1000,
        commit_interval: Nanos::from_millis(100_000),
        commit_thorough_interval: Nanos::from_millis(100_000),
        ..commit_realtime::Config::default()
    };
    let strategy = commit_realtime::CommitRealtime::new(config).unwrap();
    let options = LogOptions { io: Some(Io::Positioned), ..small() };
    let log = Log::open(root.path(), options, strategy).unwrap();
    let handle = queue(&log, "T");
    for number in 0..300 {
        put(&log, &handle, &body(number));
    }
    log.close().unwrap();
    assert_eq!(Kind::Staged.open(root.path(), small()).recovery().records, 300);
}

/// A record whose own commit failed is in the log all the same, and its producer is told so.
#[test]
fn a_failed_commit_is_the_tickets_error_not_the_appends() {
    let root = tempfile::tempdir().unwrap();
    let (log, _injector) = failing(Kind::Timed(Io::Positioned), root.path(), Call::Write);
    let ticket = log.append(&queue(&log, "T"), &Message::default(), Wait::Yes).unwrap();
    assert!(matches!(ticket.wait(), Err(AckError::Poisoned(_))));
}

/// Under group commit the flush lane commits; while it is in a sync, appends commit for themselves.
#[test]
fn a_stuck_sync_and_a_full_staging_buffer_delay_no_append() {
    let root = tempfile::tempdir().unwrap();
    let injector = Injector::new();
    let options = LogOptions { append_timeout: Duration::from_secs(1), ..small() };
    let log = Kind::Sync(Io::Positioned).open(root.path(), with_faults(options, &injector));
    let handle = queue(&log, "T");
    put(&log, &handle, b"first");
    injector.hold(Call::Sync);
    let message = Message { body: &[7; 1000], ..Message::default() };
    for _ in 0..300 {
        drop(log.append(&handle, &message, Wait::Yes).unwrap());
    }
    injector.let_go();
    log.close().unwrap();
    assert_eq!(Kind::Sync(Io::Positioned).open(root.path(), small()).recovery().records, 301);
}

/// A process may go on writing to a file that somebody removed; nobody will ever find it.
#[test]
fn a_directory_that_vanishes_is_an_error_and_nothing_more_is_acknowledged_as_durable() {
    for kind in Kind::ALL {
        let root = tempfile::tempdir().unwrap();
        let log = kind.try_open_brisk(root.path(), small()).unwrap();
        let handle = queue(&log, "T");
        let first = put(&log, &handle, b"first");
        eventually("flushed", || flushed_past(&log, first.end()));
        fs::remove_dir_all(root.path().join("commitlog")).unwrap();
        let flushed = log.marks().flushed();
        let message = Message { body: &[7; 5000], ..Message::default() };
        let mut refused = None;
        eventually("refused", || {
            match log.append_and_wait(&handle, &message, Wait::Yes) {
                Ok(Ok(appended)) => assert!(
                    !matches!(kind, Kind::Sync(_)),
                    "{kind:?}: {appended:?} was acknowledged in a file without a name"
                ),
                Err(AppendError::Segment(error)) => {
                    assert_eq!((error.op, error.source), (Op::Create, Errno::NOENT), "{kind:?}");
                }
                Ok(Err(AckError::Poisoned(poison))) | Err(AppendError::Poisoned(poison)) => {
                    refused = Some(poison);
                }
                other => panic!("{kind:?}: {other:?}"),
            }
            refused.is_some()
        });
        let first = refused.unwrap().first;
        assert_eq!((first.op, first.source), (Op::Sync, Errno::NOENT), "{kind:?}");
        assert!(first.path.starts_with(root.path()), "{kind:?}: {first}");
        assert_eq!(log.marks().flushed(), flushed, "{kind:?}");
        assert!(matches!(log.close(), Err(CloseError::Poisoned { .. })), "{kind:?}");
    }
}
