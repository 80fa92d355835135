//! Whole logs with all their threads, under random interleavings.
//!
//! Each model appends from several threads in every way there is, and checks each acknowledgement
//! against what the disk holds at that moment. A thread that is never woken is a deadlock, which
//! shuttle reports with a schedule for `shuttle::replay`.

use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use commit_realtime::CommitRealtime;
use flush_realtime::FlushRealtime;
use group_commit::GroupCommit;
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::thread;
use store_core::{
    AckAt, FlushStrategy, Frame, LogOffset, Message, Nanos, QueueId, SegmentSize, Wait,
};

use super::memory::Disk;
use crate::append::Appended;
use crate::error::{AckError, AppendError, CloseError};
use crate::log::Log;
use crate::options::{Io, LogOptions, Platform};
use crate::sync::random_below;
use crate::ticket::Ticket;

/// A day: further away than any model looks, so that who waits for it is never let go.
const NEVER: Nanos = Nanos::from_millis(86_400_000);

/// What a model is made of.
#[derive(Clone, Copy)]
struct Model<S> {
    strategy: S,
    io: Io,
    producers: u32,
    /// Messages of each producer.
    each: u32,
    body: usize,
    segment: u64,
    append_timeout: Nanos,
    close_timeout: Nanos,
    /// One of the first this many syncs fails; 0: none.
    failing_syncs: u32,
    /// One of the first this many writes fails; 0: none.
    failing_writes: u32,
    /// The log is abandoned while tickets are waited for, not closed.
    abandons: bool,
}

impl<S: FlushStrategy + Copy + Send + Sync + 'static> Model<S> {
    fn new(strategy: S, io: Io) -> Self {
        Self {
            strategy,
            io,
            producers: 2,
            each: 2,
            body: 100,
            segment: 1 << 16,
            append_timeout: NEVER,
            close_timeout: NEVER,
            failing_syncs: 0,
            failing_writes: 0,
            abandons: false,
        }
    }

    /// Runs the model under two schedulers: one that picks at random each time, and one that lets
    /// threads run by priority and changes that three times.
    fn check(self, executions: usize) {
        let mut config = shuttle::Config::new();
        config.stack_size = 1 << 18;
        config.silence_warnings = true;
        config.max_steps = shuttle::MaxSteps::FailAfter(200_000);
        let random = RandomScheduler::new(executions);
        shuttle::Runner::new(random, config.clone()).run(move || self.run());
        let by_priority = PctScheduler::new(3, executions);
        shuttle::Runner::new(by_priority, config).run(move || self.run());
    }

    fn run(self) {
        let failing = |of: u32| if of > 0 { 1 + random_below(of) } else { 0 };
        let disk = Disk::failing_at(failing(self.failing_syncs), failing(self.failing_writes));
        let disk = Arc::new(disk);
        let options = LogOptions {
            segment_size: SegmentSize::new(self.segment).unwrap(),
            io: Some(self.io),
            max_message_bytes: 4000,
            append_timeout: Duration::from_nanos(self.append_timeout.get()),
            close_timeout: Duration::from_nanos(self.close_timeout.get()),
            platform: Platform::new(disk.clone()),
            ..LogOptions::default()
        };
        let options = LogOptions { staging_bytes: 2 * options.max_record_len() + 8, ..options };
        let log = Arc::new(Log::open(Path::new("/store"), options, self.strategy).unwrap());
        let mut threads: Vec<_> = (0..self.producers)
            .map(|producer| {
                let (log, disk) = (Arc::clone(&log), Arc::clone(&disk));
                thread::spawn(move || self.produce(&log, &disk, producer))
            })
            .collect();
        let (watched, seen) = (Arc::clone(&log), Arc::clone(&disk));
        threads.push(thread::spawn(move || self.watch(&watched, &seen)));
        if self.abandons {
            self.abandon(log, &disk, threads);
        } else {
            join(threads);
            self.close(log);
        }
    }

    fn fails(&self) -> bool {
        self.failing_syncs > 0 || self.failing_writes > 0
    }

    fn produce(&self, log: &Log, disk: &Disk, producer: u32) {
        let queue = log.queue(b"topic", QueueId::new(i32::try_from(producer).unwrap())).unwrap();
        for index in 0..self.each {
            let body = vec![u8::try_from(producer * 16 + index).unwrap(); self.body];
            let message = Message { body: &body, ..Message::default() };
            let wait = if random_below(4) == 0 { Wait::No } else { Wait::Yes };
            let told = match random_below(5) {
                0 => log.append(&queue, &message, wait).map(Ticket::wait),
                1 => log.append(&queue, &message, wait).map(shuttle::future::block_on),
                2 => log.append(&queue, &message, wait).map(|ticket| {
                    // Looked at once and dropped, which must disturb nobody.
                    let mut ticket = pin!(ticket);
                    match ticket.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                        Poll::Ready(outcome) => outcome,
                        Poll::Pending => Err(AckError::Closed),
                    }
                }),
                3 => log.append_and_lead(&queue, &message, wait),
                _ => log.append_and_wait(&queue, &message, wait),
            };
            match told {
                Ok(Ok(appended)) => self.assert_kept(disk, &appended, &body, wait),
                Ok(Err(AckError::Closed)) => {}
                Ok(Err(AckError::FlushTimedOut)) => {
                    assert!(self.strategy.timeout().is_some_and(|timeout| timeout < NEVER));
                }
                Ok(Err(AckError::Poisoned(_))) | Err(AppendError::Poisoned(_)) => {
                    assert!(self.fails(), "poisoned by nothing");
                }
                Err(AppendError::SegmentNotReady | AppendError::StagingFull) => {
                    assert!(self.append_timeout < NEVER, "timed out before its time");
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// What the strategy promised holds: the record is where it was said to be.
    fn assert_kept(&self, disk: &Disk, appended: &Appended, body: &[u8], wait: Wait) {
        let [durable, cached] = disk.durable_and_cached(appended.offset, appended.len);
        let bytes = match self.strategy.ack(wait) {
            AckAt::Committed => cached,
            AckAt::Flushed => durable,
            AckAt::Wrote => return,
        };
        match store_core::decode(&bytes) {
            Ok(Frame::Record(record)) => assert_eq!(record.body(), body),
            other => panic!("{appended:?} was acknowledged, but there is {other:?}"),
        }
    }

    /// Marks never go back, and what is readable keeps the strategy's promise.
    fn watch(&self, log: &Log, disk: &Disk) {
        let mut before = log.marks();
        let mut cursor = log.cursor(LogOffset::ZERO);
        for _ in 0..4 {
            thread::yield_now();
            let marks = log.marks();
            assert!(before.flushed() <= marks.flushed());
            assert!(before.committed() <= marks.committed());
            assert!(before.wrote() <= marks.wrote());
            before = marks;
            let found = cursor.next_record().unwrap().map(|record| record.as_bytes().to_vec());
            if let (Some(bytes), AckAt::Flushed) = (found, self.strategy.ack(Wait::Yes)) {
                let len = u32::try_from(bytes.len()).unwrap();
                let offset = LogOffset::new(cursor.offset().get() - u64::from(len));
                let [durable, _] = disk.durable_and_cached(offset, len);
                assert_eq!(durable, bytes, "readable before it was durable");
            }
        }
    }

    fn close(&self, log: Arc<Log>) {
        let shared = Arc::clone(&log.shared);
        let log = Arc::into_inner(log).expect("every other thread has ended");
        let appended = log.appended();
        let closed = log.close();
        let marks = shared.marks();
        match closed {
            Ok(()) => {
                assert_eq!(marks.flushed(), marks.wrote());
                if shared.progress.poison().is_none() && self.append_timeout == NEVER {
                    let all = u64::from(self.producers * self.each);
                    assert_eq!(appended, all);
                }
            }
            Err(CloseError::Poisoned { .. }) => assert!(self.fails()),
            Err(CloseError::TimedOut { .. }) => assert!(self.close_timeout < NEVER),
            Err(error) => panic!("{error}"),
        }
    }

    /// Leaves a log whose tickets are still waited for.
    fn abandon(&self, log: Arc<Log>, disk: &Arc<Disk>, threads: Vec<thread::JoinHandle<()>>) {
        join(threads);
        let queue = log.queue(b"topic", QueueId::new(99)).unwrap();
        let body = [7; 50];
        let message = Message { body: &body, ..Message::default() };
        let (model, other) = (*self, Arc::clone(disk));
        let ticket = log.append(&queue, &message, Wait::Yes).unwrap();
        let future = log.append(&queue, &message, Wait::Yes).unwrap();
        let check = move |told: Result<Appended, AckError>| match told {
            Ok(appended) => model.assert_kept(&other, &appended, &body, Wait::Yes),
            Err(AckError::Closed) => {}
            Err(error) => panic!("{error}"),
        };
        let check_future = check.clone();
        let waiting = [
            thread::spawn(move || check(ticket.wait())),
            thread::spawn(move || check_future(shuttle::future::block_on(future))),
        ];
        Arc::into_inner(log).expect("every other thread has ended").abandon();
        join(Vec::from(waiting));
    }
}

fn join(threads: Vec<thread::JoinHandle<()>>) {
    for thread in threads {
        thread.join().unwrap();
    }
}

fn group_commit() -> GroupCommit {
    let config = group_commit::Config { timeout: NEVER, ..group_commit::Config::default() };
    GroupCommit::new(config).unwrap()
}

#[test]
fn group_commit_acknowledges_what_is_durable_and_forgets_nobody() {
    for io in [Io::Direct, Io::Positioned] {
        Model { producers: 3, ..Model::new(group_commit(), io) }.check(300);
    }
    Model::new(group_commit(), Io::Mapped).check(300);
}

#[test]
fn group_commit_with_gathering_forgets_nobody() {
    let gather =
        group_commit::Config { timeout: NEVER, gather: Nanos::from_millis(1), siblings: 2 };
    let strategy = GroupCommit::new(gather).unwrap();
    Model { producers: 3, ..Model::new(strategy, Io::Positioned) }.check(300);
}

#[test]
fn group_commit_under_deadlines_tells_the_truth() {
    let timeout = Nanos::from_millis(5);
    let config = group_commit::Config { timeout, ..group_commit::Config::default() };
    Model::new(GroupCommit::new(config).unwrap(), Io::Positioned).check(300);
}

#[test]
fn a_failed_sync_is_followed_by_no_acknowledgement_of_what_it_covered() {
    for io in [Io::Direct, Io::Positioned, Io::Mapped] {
        Model { failing_syncs: 3, ..Model::new(group_commit(), io) }.check(300);
    }
    Model { failing_syncs: 2, ..Model::new(FlushRealtime::default(), Io::Mapped) }.check(200);
    Model { failing_syncs: 2, ..Model::new(CommitRealtime::default(), Io::Positioned) }.check(200);
}

#[test]
fn a_failed_write_is_not_tried_again_by_anyone() {
    let failing_writes = 3;
    for io in [Io::Direct, Io::Positioned] {
        Model { failing_writes, ..Model::new(group_commit(), io) }.check(200);
    }
    let timed = FlushRealtime::default();
    Model { failing_writes, producers: 3, ..Model::new(timed, Io::Positioned) }.check(200);
    Model { failing_writes, ..Model::new(CommitRealtime::default(), Io::Positioned) }.check(100);
}

#[test]
fn segments_roll_while_producers_wait_for_room() {
    let model =
        Model { segment: 4096, body: 1500, each: 3, ..Model::new(group_commit(), Io::Positioned) };
    model.check(300);
    Model { io: Io::Mapped, ..model }.check(300);
    Model { io: Io::Direct, ..model }.check(300);
    Model { append_timeout: Nanos::from_millis(5), ..model }.check(200);
    Model { body: 3000, ..model }.check(200);
}

#[test]
fn flush_realtime_acknowledges_what_is_in_the_page_cache() {
    let woken = flush_realtime::Config {
        timed: false,
        wake_on_append: true,
        ..flush_realtime::Config::default()
    };
    for strategy in [FlushRealtime::default(), FlushRealtime::new(woken).unwrap()] {
        for io in [Io::Positioned, Io::Mapped] {
            Model::new(strategy, io).check(150);
        }
    }
}

#[test]
fn commit_realtime_commits_for_who_waits_for_staging_space() {
    for io in [Io::Direct, Io::Positioned] {
        Model::new(CommitRealtime::default(), io).check(200);
    }
    let model = Model {
        segment: 4096,
        body: 3000,
        each: 3,
        ..Model::new(CommitRealtime::default(), Io::Positioned)
    };
    model.check(300);
}

#[test]
fn a_log_that_is_abandoned_lets_go_of_who_waits() {
    Model { abandons: true, producers: 1, ..Model::new(group_commit(), Io::Positioned) }.check(300);
}

#[test]
fn a_close_that_gives_up_leaves_an_end_that_others_bring() {
    let close_timeout = Nanos::from_millis(5);
    Model { close_timeout, ..Model::new(group_commit(), Io::Positioned) }.check(200);
    Model { close_timeout, ..Model::new(CommitRealtime::default(), Io::Positioned) }.check(100);
}
