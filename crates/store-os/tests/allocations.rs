//! Memory of a running log is fixed: once it is warm, appends allocate nothing. Segments do.

use commit_realtime::CommitRealtime;
use flush_realtime::FlushRealtime;
use group_commit::GroupCommit;
use store_core::{FlushStrategy, Message, QueueId, SegmentSize, Wait};
use store_os::{Io, Log, LogOptions};

/// That 1000 appends reach into.
const SEGMENTS: u64 = 6;

/// Appends through the ends of several segments, and counts what this thread allocates.
#[track_caller]
fn check(io: Io, strategy: impl FlushStrategy + Send + 'static) {
    let root = tempfile::tempdir().expect("a directory");
    let options = LogOptions {
        segment_size: SegmentSize::new(1 << 18).expect("256 KiB"),
        io: Some(io),
        ..LogOptions::default()
    };
    let log = Log::open(root.path(), options, strategy).expect("a log");
    let queue = log.queue(b"orders", QueueId::new(0)).expect("a topic");
    let body = [7; 1000];
    let message = Message { body: &body, properties: b"TAGS\x01a\x02", ..Message::default() };
    let wait = || {
        let told = log.append_and_wait(&queue, &message, Wait::Yes).expect("placed");
        told.expect("acknowledged");
        let ticket = log.append(&queue, &message, Wait::Yes).expect("placed");
        ticket.wait().expect("acknowledged");
    };
    let lead = || {
        let told = log.append_and_lead(&queue, &message, Wait::Yes).expect("placed");
        told.expect("acknowledged");
    };
    // The list of segments may grow; who leads the sync that finishes a segment gives back what the
    // segment holds.
    let kinds: [(&dyn Fn(), u32, u64); 2] = [(&wait, 500, 1), (&lead, 1000, 4 * SEGMENTS)];
    for (append, times, most) in kinds {
        append();
        let counted = allocation_counter::measure(|| (0..times).for_each(|_| append()));
        assert!(counted.count_total <= most, "{counted:?} for 1000 appends, not {most}");
    }
}

#[test]
fn no_append_allocates_under_group_commit() {
    check(Io::Positioned, GroupCommit::default());
    check(Io::Mapped, GroupCommit::default());
}

#[test]
fn no_append_allocates_under_the_asynchronous_strategies() {
    check(Io::Mapped, FlushRealtime::default());
    check(Io::Positioned, FlushRealtime::default());
    check(Io::Positioned, CommitRealtime::default());
}
