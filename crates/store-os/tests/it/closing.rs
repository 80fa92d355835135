//! The end of a log: what was promised is there, and a disk that does not answer holds nobody up.

use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use store_core::{Lane, Message, Wait};
use store_os::{
    AppendError, Call, CloseError, Io, Log, LogOptions, Op, OpenError, Step, SteppedLog, Ticket,
};

use crate::medium::Medium;
use crate::support::{Injector, Kind, body, eventually, put, queue, read_all, small, with_faults};

/// Options of a log whose end is waited for only shortly.
fn impatient(injector: &Arc<Injector>) -> LogOptions {
    with_faults(LogOptions { close_timeout: Duration::from_millis(20), ..small() }, injector)
}

/// A log with a record for which a sync is stuck.
fn stuck(kind: Kind, root: &std::path::Path, injector: &Arc<Injector>) -> (Log, Ticket) {
    let log = kind.open(root, impatient(injector));
    injector.hold(Call::Sync);
    let ticket = log.append(&queue(&log, "T"), &Message::default(), Wait::Yes).unwrap();
    (log, ticket)
}

#[test]
fn closing_says_what_is_not_durable_in_time_and_goes_on_by_itself() {
    for kind in Kind::ALL {
        let root = tempfile::tempdir().unwrap();
        let injector = Injector::new();
        let (log, ticket) = stuck(kind, root.path(), &injector);
        let appended = ticket.appended();
        let late = log.close().unwrap_err();
        let (flushed, wrote) = (appended.offset, appended.end());
        assert_eq!(late, CloseError::TimedOut { flushed, wrote }, "{kind:?}");
        assert!(late.to_string().contains("were not durable in time"), "{kind:?}: {late}");
        // A call that is stuck may still write: nobody else may have the store.
        let refused = kind.try_open(root.path(), small()).map(|_| ()).unwrap_err();
        assert_eq!(refused, OpenError::Locked { path: root.path().join("lock") }, "{kind:?}");
        assert_eq!(ticket.is_done(), !matches!(kind, Kind::Sync(_)), "{kind:?}");
        injector.let_go();
        ticket.wait().unwrap();
        let mut log = None;
        eventually("closed after all", || {
            log = kind.try_open(root.path(), small()).ok();
            log.is_some()
        });
        let recovery = log.unwrap().recovery();
        assert_eq!((recovery.records, recovery.unclean), (1, false), "{kind:?}");
    }
}

#[test]
fn dropping_and_abandoning_a_log_wait_for_a_stuck_sync_no_longer_either() {
    let ends: [fn(Log); 2] = [drop, Log::abandon];
    for end in ends {
        let root = tempfile::tempdir().unwrap();
        let injector = Injector::new();
        let (log, ticket) = stuck(Kind::Sync(Io::Positioned), root.path(), &injector);
        eventually("a sync is stuck", || injector.held() > 0);
        end(log);
        assert!(!ticket.is_done());
        injector.let_go();
        eventually("the store is given back", || {
            Kind::Sync(Io::Positioned).try_open(root.path(), small()).is_ok()
        });
        ticket.wait().unwrap();
    }
}

#[test]
fn a_stuck_allocation_holds_up_closing_no_longer_than_that_and_all_is_durable() {
    let root = tempfile::tempdir().unwrap();
    let injector = Injector::new();
    let kind = Kind::Sync(Io::Positioned);
    let log = kind.open(root.path(), impatient(&injector));
    eventually("a first segment", || injector.count(Call::Allocate) >= 1);
    injector.hold(Call::Allocate);
    let appended = put(&log, &queue(&log, "T"), b"first");
    eventually("the next is being made", || injector.count(Call::Allocate) >= 2);
    let end = appended.end();
    let late = log.close().unwrap_err();
    assert_eq!(late, CloseError::TimedOut { flushed: end, wrote: end });
    assert!(late.to_string().starts_with("everything is durable"), "{late}");
    injector.let_go();
    eventually("closed after all", || kind.try_open(root.path(), small()).is_ok());
}

#[test]
fn a_disk_that_is_stuck_only_when_all_is_durable_holds_up_closing_no_longer_either() {
    let root = tempfile::tempdir().unwrap();
    let medium = Medium::new();
    let kind = Kind::Sync(Io::Positioned);
    let log = kind.open(root.path(), medium.under(impatient(&Injector::new())));
    let end = put(&log, &queue(&log, "T"), b"first").end();
    assert!(log.wait_for_segment(Duration::MAX));
    let stuck = medium.hold_directories();
    let late = log.close().unwrap_err();
    assert_eq!(late, CloseError::TimedOut { flushed: end, wrote: end });
    let refused = kind.try_open(root.path(), small()).map(|_| ()).unwrap_err();
    assert_eq!(refused, OpenError::Locked { path: root.path().join("lock") });
    drop(stuck);
    let mut log = None;
    eventually("closed after all", || {
        log = kind.try_open(root.path(), small()).ok();
        log.is_some()
    });
    assert!(!log.unwrap().recovery().unclean);
}

#[test]
fn a_log_whose_end_may_take_for_ever_or_no_time_is_closed() {
    for close_timeout in [Duration::MAX, Duration::ZERO] {
        let root = tempfile::tempdir().unwrap();
        let kind = Kind::Sync(Io::Positioned);
        let log = kind.open(root.path(), LogOptions { close_timeout, ..small() });
        put(&log, &queue(&log, "T"), b"first");
        let closed = log.close();
        assert!(closed.is_ok() || close_timeout.is_zero(), "{closed:?}");
        eventually("closed", || kind.try_open(root.path(), small()).is_ok());
        assert!(!kind.open(root.path(), small()).recovery().unclean);
    }
}

#[test]
fn a_drain_that_fails_says_what_may_be_lost() {
    for kind in Kind::ALL {
        let root = tempfile::tempdir().unwrap();
        let injector = Injector::new();
        let log = kind.open(root.path(), with_faults(small(), &injector));
        let first = put(&log, &queue(&log, "T"), b"first");
        injector.fail(Call::Sync, Errno::IO);
        let ticket = log.append(&queue(&log, "T"), &Message::default(), Wait::Yes).unwrap();
        let end = ticket.appended().end();
        let Err(CloseError::Poisoned { flushed, wrote, poison }) = log.close() else {
            panic!("{kind:?}")
        };
        assert!(flushed <= first.end() && wrote == end, "{kind:?}: {flushed}, {wrote}");
        assert_eq!((poison.first.op, poison.first.source), (Op::Sync, Errno::IO), "{kind:?}");
        assert_eq!(ticket.wait().is_err(), matches!(kind, Kind::Sync(_)), "{kind:?}");
    }
}

#[test]
fn a_log_that_is_only_dropped_has_all_that_was_acknowledged() {
    for kind in Kind::ALL {
        let root = tempfile::tempdir().unwrap();
        let log = kind.open(root.path(), small());
        let handle = queue(&log, "T");
        for number in 0..100 {
            put(&log, &handle, &body(number));
        }
        drop(log);
        let log = kind.open(root.path(), small());
        assert!(!log.recovery().unclean, "{kind:?}");
        let found: Vec<_> = read_all(&log).into_iter().map(|(_, body)| body).collect();
        assert_eq!(found, (0..100).map(body).collect::<Vec<_>>(), "{kind:?}");
    }
}

#[test]
fn an_append_that_comes_too_late_is_told_so() {
    let root = tempfile::tempdir().unwrap();
    let mut log =
        SteppedLog::open(root.path(), small(), group_commit::GroupCommit::default()).unwrap();
    log.drain();
    let refused = log.append(&queue(&log, "T"), &Message::default(), Wait::Yes).unwrap_err();
    assert_eq!(refused, AppendError::Closed);
    assert_eq!(log.begin(Lane::Flush), Step::Stop);
    log.close().unwrap();
}
