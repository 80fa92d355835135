//! One record or two with the flush lane, under every interleaving in which few threads are stopped
//! where they could go on.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use commit_realtime::CommitRealtime;
use group_commit::GroupCommit;
use loom::thread;
use store_core::{FlushStrategy, Frame, Lane, Message, Nanos, QueueId, SegmentSize, Wait};

use super::memory::Disk;
use crate::append::Appended;
use crate::error::{AckError, AppendError};
use crate::log::Log;
use crate::options::{Io, LogOptions, Platform};
use crate::sync::{Ordering, explore};

const SEGMENT: u64 = 4096;
/// The least that is allowed: two records as long as a segment, and a blank.
const STAGING: u64 = 2 * (SEGMENT - 8) + 8;

/// A log without threads whose first segment is there, and its disk.
fn open(
    disk: Disk,
    io: Io,
    strategy: impl FlushStrategy + Send + 'static,
) -> (Arc<Disk>, Arc<Log>) {
    let disk = Arc::new(disk);
    let options = LogOptions {
        segment_size: SegmentSize::new(SEGMENT).unwrap(),
        io: Some(io),
        staging_bytes: STAGING,
        max_message_bytes: 3800,
        append_timeout: Duration::from_hours(24),
        platform: Platform::new(disk.clone()),
        ..LogOptions::default()
    };
    let log = Log::open_alone(Path::new("/store"), options, strategy).unwrap();
    assert!(log.shared.allocate_once());
    (disk, Arc::new(log))
}

fn group_commit() -> GroupCommit {
    let timeout = Nanos::from_millis(86_400_000);
    let config = group_commit::Config { timeout, ..group_commit::Config::default() };
    GroupCommit::new(config).unwrap()
}

fn assert_durable(disk: &Disk, appended: &Appended, body: &[u8]) {
    let [durable, _] = disk.durable_and_cached(appended.offset, appended.len);
    match store_core::decode(&durable) {
        Ok(Frame::Record(record)) => assert_eq!(record.body(), body),
        other => panic!("{appended:?} was acknowledged, but there is {other:?}"),
    }
}

/// Producers that each wait for one record, beside the lane's thread.
fn producers(others: u8, preemptions: usize, io: Io, leads: bool) {
    explore(preemptions, move || {
        let (disk, log) = open(Disk::default(), io, group_commit());
        let produce = |number: u8| {
            let (disk, log) = (Arc::clone(&disk), Arc::clone(&log));
            move || {
                let queue = log.queue(b"t", QueueId::new(0)).unwrap();
                let body = [number];
                let message = Message { body: &body, ..Message::default() };
                let told = if leads {
                    log.append_and_lead(&queue, &message, Wait::Yes).unwrap()
                } else {
                    log.append_and_wait(&queue, &message, Wait::Yes).unwrap()
                };
                assert_durable(&disk, &told.unwrap(), &body);
            }
        };
        let shared = Arc::clone(&log.shared);
        let lane = thread::spawn(move || shared.drive(Lane::Flush));
        let others: Vec<_> = (0..others).map(|number| thread::spawn(produce(1 + number))).collect();
        produce(0)();
        for other in others {
            other.join().unwrap();
        }
        log.shared.begin_drain();
        lane.join().unwrap();
    });
}

#[test]
fn a_producer_is_not_forgotten_by_the_lane() {
    producers(0, 2, Io::Direct, false);
    producers(0, 2, Io::Positioned, false);
    producers(0, 2, Io::Mapped, false);
}

#[test]
fn of_two_producers_none_is_forgotten_by_the_lane() {
    producers(1, 1, Io::Direct, false);
    producers(1, 1, Io::Positioned, false);
}

#[test]
fn a_producer_that_leads_and_the_lane_forget_nobody() {
    producers(0, 2, Io::Direct, true);
    producers(0, 2, Io::Positioned, true);
    producers(0, 2, Io::Mapped, true);
}

#[test]
fn two_producers_that_lead_and_the_lane_forget_nobody() {
    producers(1, 1, Io::Direct, true);
    producers(1, 1, Io::Positioned, true);
}

/// The staging ring is full, and the commit lane alone can make room.
fn full_staging(io: Io, strategy: impl FlushStrategy + Copy + Send + Sync + 'static) {
    explore(3, move || {
        let (_, log) = open(Disk::default(), io, strategy);
        log.shared.has_committer.store(true, Ordering::SeqCst);
        let queue = log.queue(b"t", QueueId::new(0)).unwrap();
        let message = Message { body: &[7; 3800], ..Message::default() };
        // Two segments' worth fill the ring, and a third is ready.
        for _ in 0..2 {
            log.shared.append(&queue, &message, Wait::Yes).unwrap();
            assert!(log.shared.allocate_once());
        }
        let shared = Arc::clone(&log.shared);
        let lane = thread::spawn(move || shared.drive(Lane::Commit));
        log.shared.append(&queue, &message, Wait::Yes).unwrap();
        log.shared.begin_drain();
        lane.join().unwrap();
    });
}

#[test]
fn an_append_that_waits_for_staging_space_is_woken_by_the_commit() {
    for io in [Io::Direct, Io::Positioned] {
        full_staging(io, CommitRealtime::default());
        full_staging(io, group_commit());
    }
}

#[test]
fn a_sync_that_fails_is_told_to_its_producer_and_to_the_next() {
    for io in [Io::Direct, Io::Positioned] {
        sync_that_fails(io);
    }
}

fn sync_that_fails(io: Io) {
    explore(2, move || {
        let (_, log) = open(Disk::failing_at(1, 0), io, group_commit());
        let shared = Arc::clone(&log.shared);
        let lane = thread::spawn(move || shared.drive(Lane::Flush));
        let queue = log.queue(b"t", QueueId::new(0)).unwrap();
        let message = Message { body: b"a", ..Message::default() };
        let told = log.append_and_wait(&queue, &message, Wait::Yes).unwrap();
        assert!(matches!(told, Err(AckError::Poisoned(_))), "{told:?}");
        let refused = log.append(&queue, &message, Wait::Yes);
        assert!(matches!(refused, Err(AppendError::Poisoned(_))), "{refused:?}");
        log.shared.begin_drain();
        lane.join().unwrap();
        assert_eq!(log.marks().flushed().get(), 0);
    });
}
