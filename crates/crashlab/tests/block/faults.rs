//! Faults of a disk under a real file system: the log is poisoned, and no acknowledgement follows.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crashlab::block::{Fault, FsKind, Keep, Requests, Times};
use crashlab::load::{Failure, Lie, Load, LoadOptions, Stopped, Strategy};
use store_os::{AckError, AppendError, CloseError, Io, Preallocate};

use crate::support::{Bench, Tally, eventually, say, steady, usable};

/// Steady, in one segment whose blocks are written: a sync is one write of data, and one flush.
fn written(io: Io) -> LoadOptions {
    LoadOptions { io: Some(io), preallocate: Preallocate::Zero, segment_bytes: 4 << 20, ..steady() }
}

/// A load under way, past its first acknowledgements.
fn under_way(bench: &Bench, strategy: Strategy, options: &LoadOptions) -> Load {
    let load = bench.load(strategy, options);
    eventually("acknowledgements", || 50 < load.seen().acked_records());
    // The one after the one in use: nothing else is being written to the disk then.
    assert!(load.log().wait_for_segment(Duration::from_secs(20)));
    load
}

fn is_poisoned(failure: &Failure) -> bool {
    matches!(
        failure,
        Failure::Ack(AckError::Poisoned(_)) | Failure::Append(AppendError::Poisoned(_))
    )
}

/// Waits until the load has met the fault, and does `again` each second while it has not;
/// everything after that must be refused.
fn met(load: Load, again: impl Fn()) -> Stopped {
    let looks = Cell::new(0);
    eventually("a producer that fails", || {
        looks.set(looks.get() + 1);
        if looks.get() % 200 == 0 {
            again();
        }
        load.has_failed()
    });
    let first = load.look();
    std::thread::park_timeout(Duration::from_millis(50));
    assert_eq!(load.look().flushed, first.flushed, "flushed stands still");
    let stopped = load.stop();
    assert!(stopped.failures.iter().all(is_poisoned), "{:?}", stopped.failures);
    assert!(matches!(stopped.closed, Err(CloseError::Poisoned { .. })), "{:?}", stopped.closed);
    stopped
}

/// What was acknowledged is on the disk, whatever becomes of the volatile rest.
fn keeps_its_promise(bench: &Bench, strategy: Strategy, stopped: &Stopped, options: &LoadOptions) {
    let mut tally = Tally::default();
    for (seed, keep) in (0..).zip([Keep::None, Keep::All, Keep::Random]) {
        let view = bench.disk.cut(keep, seed).unwrap();
        tally.judge_stopped(&view, (strategy, options), stopped);
    }
    assert_eq!(tally.violations, [""; 0]);
    assert_eq!(tally.judged, 3, "{tally:?}");
}

fn a_fault_poisons(kind: FsKind, io: Io, fault: &Fault) {
    let options = written(io);
    let bench = Bench::new(kind, "");
    let load = under_way(&bench, Strategy::GroupCommit, &options);
    let inject = || bench.disk.inject(fault.clone()).unwrap();
    inject();
    // A request of the file system's own, of which the log is not told, may have met it instead.
    let stopped = met(load, inject);
    assert!(bench.disk.counters().unwrap().failed > 0);
    bench.disk.heal().unwrap();
    keeps_its_promise(&bench, Strategy::GroupCommit, &stopped, &options);
}

/// Where each way of writing is possible.
fn places() -> Vec<(FsKind, Io)> {
    let both = |kind| match kind {
        FsKind::Btrfs => vec![(kind, Io::Positioned)],
        FsKind::Ext4 | FsKind::Xfs => vec![(kind, Io::Mapped), (kind, Io::Positioned)],
    };
    usable(&FsKind::ALL).into_iter().flat_map(both).collect()
}

#[test]
fn a_data_write_that_fails_poisons_the_log() {
    for (kind, io) in places() {
        a_fault_poisons(kind, io, &Fault::FailWrite(Times::Once, Fault::ANYWHERE));
    }
}

#[test]
fn a_flush_command_that_fails_poisons_the_log() {
    for (kind, io) in places() {
        a_fault_poisons(kind, io, &Fault::FailFlush(Times::Once));
    }
}

#[test]
fn a_dead_device_poisons_the_log_and_signals_nobody() {
    for (kind, io) in places() {
        a_fault_poisons(kind, io, &Fault::Dead);
    }
}

fn first_segment(bench: &Bench) -> PathBuf {
    bench.log().join("commitlog").join("00000000000000000000")
}

/// Writes a file's dirty pages to the device, as the kernel's flusher thread does by itself:
/// whoever has the file open is not told of an error yet.
fn write_back(file: &Path) {
    // One flag a command: of several it takes the last.
    let [write, wait] = ["sync_range -w 0 0", "sync_range -a 0 0"];
    let output = Command::new("xfs_io")
        .args(["-c", write, "-c", wait])
        .arg(file)
        .stdin(Stdio::null())
        .output();
    // It may be told of the error itself; the log still is.
    output.unwrap();
}

/// Whether `xfs_io` is there to start write-back with, said aloud if not.
fn has_xfs_io() -> bool {
    let is_there = !usable(&[FsKind::Xfs]).is_empty();
    if !is_there {
        say("left out: background write-back is started by xfs_io, which is in xfsprogs as well");
    }
    is_there
}

#[test]
fn a_background_write_that_failed_earlier_poisons_the_log_at_its_next_sync() {
    if !has_xfs_io() {
        return;
    }
    for (kind, io) in places() {
        let bench = Bench::new(kind, "");
        let strategy = Strategy::FlushRealtime { interval: Duration::from_hours(1) };
        let options = written(io);
        let load = under_way(&bench, strategy, &options);
        bench.disk.inject(Fault::FailWrite(Times::Once, Fault::ANYWHERE)).unwrap();
        write_back(&first_segment(&bench));
        assert_eq!(bench.disk.counters().unwrap().failed, 1, "{kind} {io:?}");
        let stopped = load.stop();
        let closed = &stopped.closed;
        assert!(matches!(closed, Err(CloseError::Poisoned { .. })), "{kind} {io:?}: {closed:?}");
        keeps_its_promise(&bench, strategy, &stopped, &options);
    }
}

#[test]
fn a_stuck_flush_delays_no_staged_append() {
    for kind in usable(&[FsKind::Ext4]) {
        let bench = Bench::new(kind, "");
        // Not of a mapped append: ext4 notes the time of a store into a clean page in its journal,
        // and waits with that for a commit that is stuck.
        let interval = Duration::from_millis(10);
        let strategy = Strategy::CommitRealtime { commit: interval, interval };
        let load = under_way(&bench, strategy, &written(Io::Positioned));
        bench.disk.inject(Fault::Stuck(Requests::Flushes)).unwrap();
        eventually("a stuck flush", || bench.disk.counters().unwrap().waiting > 0);
        let stuck = load.look();
        eventually("more acknowledgements", || {
            stuck.seen.acked_records() + 50 < load.seen().acked_records()
        });
        assert_eq!(load.look().flushed, stuck.flushed);
        bench.disk.heal().unwrap();
        eventually("a flush", || stuck.flushed < load.look().flushed);
        let stopped = load.stop();
        assert_eq!((stopped.failures, stopped.closed), (vec![], Ok(())));
    }
}

#[test]
fn a_sync_error_that_is_swallowed_or_retried_is_caught() {
    for kind in usable(&[FsKind::Ext4]) {
        for lie in [Lie::SwallowedError, Lie::RetriedSync] {
            let options = written(Io::Positioned);
            let bench = Bench::new(kind, "");
            let strategy = Strategy::Lying(lie);
            let load = under_way(&bench, strategy, &options);
            // Several: what shares a page with a later record is written again with it.
            for failed in 1..=8 {
                bench.disk.inject(Fault::FailWrite(Times::Once, Fault::ANYWHERE)).unwrap();
                eventually("the fault", || bench.disk.counters().unwrap().failed == failed);
            }
            let stopped = load.stop();
            assert_eq!(stopped.failures, [], "{lie:?}: nobody was told");
            let view = bench.disk.cut(Keep::All, 1).unwrap();
            let mut tally = Tally::default();
            tally.judge_stopped(&view, (strategy, &options), &stopped);
            assert!(tally.caught() > 0, "{lie:?}: {tally:?}");
        }
    }
}
