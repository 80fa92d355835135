//! Tickets as futures, without an executor, and what happens when the log goes away.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use group_commit::{Config, GroupCommit};
use rustix::io::Errno;
use store_core::{AckAt, Action, Event, FlushStrategy, Lane, Message, Nanos, Observed, Wait};
use store_os::{AckError, Call, Io, Log, LogOptions, Op};

use crate::support::{Injector, Kind, eventually, queue, small, with_faults};

#[derive(Default)]
struct Counter(AtomicUsize);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Counter {
    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

fn stuck(root: &std::path::Path, timeout: Nanos) -> (Log, Arc<Injector>) {
    let injector = Injector::new();
    injector.hold(Call::Sync);
    let options = LogOptions { io: Some(Io::Positioned), ..with_faults(small(), &injector) };
    let strategy = GroupCommit::new(Config { timeout, ..Config::default() }).unwrap();
    (Log::open(root, options, strategy).unwrap(), injector)
}

#[test]
fn a_future_is_woken_once_when_its_record_is_flushed() {
    let root = tempfile::tempdir().unwrap();
    // Recovery syncs nothing in an empty directory, so only the flush lane is held.
    let (log, injector) = stuck(root.path(), Nanos::from_millis(5000));
    let counter = Arc::new(Counter::default());
    let waker = Waker::from(Arc::clone(&counter));
    let ticket = log.append(&queue(&log, "T"), &Message::default(), Wait::Yes).unwrap();
    let appended = ticket.appended();
    let mut future = pin!(ticket);
    for _ in 0..3 {
        assert_eq!(future.as_mut().poll(&mut Context::from_waker(&waker)), Poll::Pending);
    }
    assert_eq!(counter.count(), 0);
    injector.let_go();
    eventually("woken", || counter.count() == 1);
    let outcome = future.as_mut().poll(&mut Context::from_waker(&waker));
    assert_eq!(outcome, Poll::Ready(Ok(appended)));
    log.close().unwrap();
    assert_eq!(counter.count(), 1, "woken again");
}

#[test]
fn a_future_is_woken_at_its_deadline_while_a_sync_is_stuck() {
    let root = tempfile::tempdir().unwrap();
    let (log, injector) = stuck(root.path(), Nanos::from_millis(20));
    let counter = Arc::new(Counter::default());
    let waker = Waker::from(Arc::clone(&counter));
    let ticket = log.append(&queue(&log, "T"), &Message::default(), Wait::Yes).unwrap();
    let mut future = pin!(ticket);
    assert_eq!(future.as_mut().poll(&mut Context::from_waker(&waker)), Poll::Pending);
    eventually("woken", || counter.count() == 1);
    let outcome = future.as_mut().poll(&mut Context::from_waker(&waker));
    assert_eq!(outcome, Poll::Ready(Err(AckError::FlushTimedOut)));
    injector.let_go();
}

#[test]
fn a_dropped_future_is_not_woken() {
    let root = tempfile::tempdir().unwrap();
    let (log, injector) = stuck(root.path(), Nanos::from_millis(5000));
    let counter = Arc::new(Counter::default());
    let waker = Waker::from(Arc::clone(&counter));
    let mut ticket = log.append(&queue(&log, "T"), &Message::default(), Wait::Yes).unwrap();
    assert!(pin!(&mut ticket).as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    drop(ticket);
    injector.let_go();
    log.close().unwrap();
    assert_eq!(counter.count(), 0);
}

#[test]
fn a_ticket_outlives_its_log() {
    for kind in [Kind::Sync(Io::Positioned), Kind::Sync(Io::Mapped)] {
        let root = tempfile::tempdir().unwrap();
        let log = kind.open(root.path(), small());
        let ticket = log.append(&queue(&log, "T"), &Message::default(), Wait::Yes).unwrap();
        let second = log.append(&queue(&log, "T"), &Message::default(), Wait::Yes).unwrap();
        drop(log);
        ticket.wait().unwrap();
        // The tickets keep memory, not the directory.
        let reopened = kind.open(root.path(), small());
        assert_eq!(reopened.recovery().records, 2);
        second.wait().unwrap();
    }
}

#[test]
fn a_thousand_outstanding_tickets_are_all_acknowledged() {
    let root = tempfile::tempdir().unwrap();
    let log = Kind::Sync(Io::Positioned).open(root.path(), small());
    let handle = queue(&log, "T");
    let message = Message { body: &[1; 100], ..Message::default() };
    let tickets: Vec<_> =
        (0..1000).map(|_| log.append(&handle, &message, Wait::Yes).unwrap()).collect();
    for ticket in tickets {
        let end = ticket.appended().end();
        ticket.wait().unwrap();
        assert!(end <= log.marks().flushed());
    }
}

/// A waker that panics, as a bug in an executor would.
struct Bomb;

impl Wake for Bomb {
    fn wake(self: Arc<Self>) {
        panic!("a bug in a waker");
    }
}

#[test]
fn a_waker_that_panics_keeps_no_other_from_being_woken() {
    let root = tempfile::tempdir().unwrap();
    let (log, injector) = stuck(root.path(), Nanos::from_millis(5000));
    let handle = queue(&log, "T");
    let counter = Arc::new(Counter::default());
    let wakers = [Waker::from(Arc::new(Bomb)), Waker::from(Arc::clone(&counter))];
    let mut tickets = Vec::new();
    for waker in &wakers {
        let mut ticket = log.append(&handle, &Message::default(), Wait::Yes).unwrap();
        assert!(pin!(&mut ticket).as_mut().poll(&mut Context::from_waker(waker)).is_pending());
        tickets.push(ticket);
    }
    injector.let_go();
    eventually("the other is woken", || counter.count() == 1);
    log.close().unwrap();
}

/// A waker that owns another waiting ticket: dropping it takes that ticket out of the same list.
struct Owner(
    #[expect(dead_code, reason = "only its drop matters")] std::sync::Mutex<store_os::Ticket>,
);

impl Wake for Owner {
    fn wake(self: Arc<Self>) {}
}

#[test]
fn a_waker_that_owns_a_ticket_can_be_dropped_with_one() {
    let root = tempfile::tempdir().unwrap();
    let (log, injector) = stuck(root.path(), Nanos::from_millis(5000));
    let handle = queue(&log, "T");
    let poll = |waker: &Waker| {
        let mut ticket = log.append(&handle, &Message::default(), Wait::Yes).unwrap();
        assert!(pin!(&mut ticket).as_mut().poll(&mut Context::from_waker(waker)).is_pending());
        ticket
    };
    let owned = poll(Waker::noop());
    let waker = Waker::from(Arc::new(Owner(std::sync::Mutex::new(owned))));
    let ticket = poll(&waker);
    drop(waker);
    drop(ticket);
    injector.let_go();
    log.close().unwrap();
}

/// What a blocking waiter and a future are told, which must be the same, when `cause` has happened
/// to the log.
fn told_both(log: Log, cause: impl FnOnce(Log) -> Option<Log>) -> (AckError, Option<Log>) {
    let handle = queue(&log, "T");
    let waiting = log.append(&handle, &Message::default(), Wait::Yes).unwrap();
    let counter = Arc::new(Counter::default());
    let waker = Waker::from(Arc::clone(&counter));
    let mut future = pin!(log.append(&handle, &Message::default(), Wait::Yes).unwrap());
    assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    let waiter = std::thread::spawn(move || waiting.wait().unwrap_err());
    let log = cause(log);
    let told = waiter.join().unwrap();
    eventually("the future is woken", || counter.count() == 1);
    let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
    assert_eq!(polled, Poll::Ready(Err(told.clone())));
    (told, log)
}

/// Promises what is flushed, and flushes nothing.
#[derive(Clone, Copy, Debug)]
struct NeverFlushes;

impl FlushStrategy for NeverFlushes {
    fn ack(&self, _wait: Wait) -> AckAt {
        AckAt::Flushed
    }

    fn wakes(&self, _lane: Lane, _event: Event) -> bool {
        false
    }

    fn timeout(&self) -> Option<Nanos> {
        None
    }

    fn uses(&self, _lane: Lane) -> bool {
        false
    }

    fn poll(&mut self, _lane: Lane, _now: Nanos, seen: &Observed) -> Action {
        if seen.draining { Action::Done } else { Action::Idle }
    }

    fn on_done(&mut self, _lane: Lane, _now: Nanos, _seen: &Observed) {}
}

#[test]
fn why_there_is_no_acknowledgement_is_in_the_errors_type() {
    let root = tempfile::tempdir().unwrap();
    let (log, injector) = stuck(root.path(), Nanos::from_millis(20));
    let (late, _log) = told_both(log, Some);
    assert_eq!(late, AckError::FlushTimedOut);
    assert_eq!(late.to_string(), "the record was not flushed before the deadline");
    injector.let_go();

    let root = tempfile::tempdir().unwrap();
    let (log, injector) = stuck(root.path(), Nanos::from_millis(60_000));
    let (failed, _log) = told_both(log, |log| {
        injector.fail(Call::Sync, Errno::IO);
        injector.let_go();
        Some(log)
    });
    let AckError::Poisoned(poison) = &failed else { panic!("{failed:?}") };
    assert_eq!((poison.first.op, poison.first.source), (Op::Sync, Errno::IO));
    assert!(failed.to_string().contains("cannot sync "), "{failed}");

    let root = tempfile::tempdir().unwrap();
    let log = Log::open(root.path(), small(), NeverFlushes).unwrap();
    let (shut, _) = told_both(log, |log| {
        log.abandon();
        None
    });
    assert_eq!(shut, AckError::Closed);
    assert_eq!(shut.to_string(), "the log was closed before the record was durable");
}

/// Commits what is appended, and flushes what is committed: two lanes that work together.
#[derive(Clone, Copy, Debug)]
struct CommitsFirst {
    /// Whether appends wake the flush lane too, which has nothing to do yet.
    wakes_both: bool,
}

impl FlushStrategy for CommitsFirst {
    fn ack(&self, _wait: Wait) -> AckAt {
        AckAt::Flushed
    }

    fn wakes(&self, lane: Lane, event: Event) -> bool {
        match event {
            Event::Appended(_) => lane == Lane::Commit || self.wakes_both,
            Event::Committed => lane == Lane::Flush,
        }
    }

    /// Long, and a test that hears of it has hung.
    fn timeout(&self) -> Option<Nanos> {
        Some(Nanos::from_millis(60_000))
    }

    fn uses(&self, _lane: Lane) -> bool {
        true
    }

    fn poll(&mut self, lane: Lane, _now: Nanos, seen: &Observed) -> Action {
        let marks = seen.marks;
        match lane {
            Lane::Commit if marks.committed() < marks.wrote() => Action::Commit(marks.wrote()),
            Lane::Flush if marks.flushed() < marks.committed() => Action::Flush(marks.committed()),
            _ if seen.draining && marks.flushed() == marks.wrote() => Action::Done,
            Lane::Commit if seen.draining => Action::Done,
            _ => Action::Idle,
        }
    }

    fn on_done(&mut self, _lane: Lane, _now: Nanos, _seen: &Observed) {}
}

#[test]
fn who_leads_is_told_also_where_the_commit_lane_has_to_act_first() {
    for wakes_both in [false, true] {
        let root = tempfile::tempdir().unwrap();
        let options = LogOptions { io: Some(Io::Positioned), ..small() };
        let log = Log::open(root.path(), options, CommitsFirst { wakes_both }).unwrap();
        let handle = queue(&log, "T");
        for _ in 0..200 {
            let told = log.append_and_lead(&handle, &Message::default(), Wait::Yes).unwrap();
            assert!(told.unwrap().end() <= log.marks().flushed(), "{wakes_both}");
        }
    }
}
