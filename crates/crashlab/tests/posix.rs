//! Power cuts and errors on files that are as durable as POSIX promises, and no more.
//!
//! Needs root and `/dev/fuse`; without them it says so, and leaves everything out.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crashlab::block::{PrivateMounts, ServerCommand, Times};
use crashlab::device::Keep;
use crashlab::load::{Failure, Lie, Load, LoadOptions, Strategy, judge};
use crashlab::payload::Shape;
use crashlab::posix::{Call, Fault, PosixFiles, available};
use crashlab::witness::Witness;
use group_commit::GroupCommit;
use rustix::io::Errno;
use store_core::SegmentSize;
use store_os::{AckError, AppendError, CloseError, Io, Log, LogOptions, Op, Poison};
use tempfile::TempDir;

/// The trees, mounted where this test's thread alone sees them.
struct Bench {
    // Dropped in this order.
    files: PosixFiles,
    _mounts: PrivateMounts,
    work: TempDir,
}

/// `None`, said aloud, where the machine cannot.
fn bench() -> Option<Bench> {
    if let Err(missing) = available() {
        let line = format!("left out: power cuts on files as POSIX promises them: {missing}\n");
        io::stderr().lock().write_all(line.as_bytes()).unwrap();
        return None;
    }
    let mounts = PrivateMounts::enter().unwrap();
    let work = tempfile::tempdir().unwrap();
    let program = env!("CARGO_BIN_EXE_power-disk").into();
    let server = ServerCommand { program, arguments: vec!["posix".into()] };
    let files = PosixFiles::start(&mounts, &server, work.path()).unwrap();
    Some(Bench { files, _mounts: mounts, work })
}

impl Bench {
    fn log(&self) -> PathBuf {
        self.files.live().join("log")
    }

    fn load(&self, strategy: Strategy, options: &LoadOptions) -> Load {
        let shape = Shape { seed: 5, producers: 4, min_body: 100, max_body: 2000 };
        let witness = Arc::new(Witness::new(shape));
        Load::start(&self.log(), strategy, witness, options.clone()).unwrap()
    }
}

const STRATEGIES: [Strategy; 3] = [
    Strategy::GroupCommit,
    Strategy::FlushRealtime { interval: Duration::from_millis(30) },
    Strategy::CommitRealtime {
        commit: Duration::from_millis(5),
        interval: Duration::from_millis(30),
    },
];

/// Segments that are full after some sixty messages.
fn rolling() -> LoadOptions {
    LoadOptions { segment_bytes: 64 << 10, messages_per_s: Some(1500), ..LoadOptions::default() }
}

#[derive(Debug, Default)]
struct Tally {
    judged: u64,
    violations: Vec<String>,
    not_opened: Vec<String>,
    lost_acked: u64,
    torn: u64,
    segments: usize,
}

fn segments(log: &Path) -> usize {
    fs::read_dir(log.join("commitlog")).map_or(0, Iterator::count)
}

fn cut_under_load(bench: &Bench, strategy: Strategy, count: u64) -> Tally {
    bench.files.set_sync_time(Duration::from_millis(2)).unwrap();
    let load = bench.load(strategy, &rolling());
    let mut tally = Tally::default();
    for seed in 0..count {
        // Somewhere in the load's cycle of appends and syncs.
        std::thread::park_timeout(Duration::from_micros(20_000 + seed * 1931 % 40_000));
        let before = load.look();
        let keep = Keep::ALL[usize::try_from(seed).unwrap() % Keep::ALL.len()];
        let cut = bench.files.cut(keep, seed).unwrap();
        let after = load.seen();
        match load.judge(&cut.path().join("log"), &before, &after) {
            Ok(judged) => {
                tally.judged += 1;
                tally.lost_acked += u64::from(judged.verdict.lost_acked > 0);
                tally.torn += u64::from(judged.recovery.torn_bytes > 0);
                let said = judged.verdict.violations.first().map(ToString::to_string);
                tally.violations.extend(said.map(|said| format!("{keep:?} {seed}: {said}")));
            }
            Err(error) => tally.not_opened.push(format!("{keep:?} {seed}: {error}")),
        }
    }
    let stopped = load.stop();
    assert_eq!((stopped.failures, stopped.closed), (vec![], Ok(())));
    assert!(stopped.seen.acked_records() > 0, "nothing was written");
    tally.segments = segments(&bench.log());
    tally
}

#[test]
fn power_cuts_that_leave_what_posix_promises_break_no_promise() {
    for strategy in STRATEGIES {
        let Some(bench) = bench() else { return };
        let tally = cut_under_load(&bench, strategy, 20);
        let name = strategy.name();
        println!("{name}: {tally:?}");
        assert_eq!((&tally.violations, &tally.not_opened), (&vec![], &vec![]), "{name}");
        assert_eq!(tally.judged, 20, "{name}");
        assert!(tally.segments > 5, "{name}: segments roll: {tally:?}");
    }
}

#[test]
fn a_directory_that_is_never_synced_is_caught() {
    let Some(bench) = bench() else { return };
    // The directories are durable before: what is at stake is the name of each segment.
    let options = LogOptions {
        segment_size: SegmentSize::new(rolling().segment_bytes).unwrap(),
        max_message_bytes: 32 << 10,
        ..LogOptions::default()
    };
    Log::open(&bench.log(), options, GroupCommit::default()).unwrap().close().unwrap();
    let honest = bench.files.cut(Keep::None, 0).unwrap();
    assert!(honest.path().join("log/commitlog").is_dir(), "an honest log syncs its directories");
    let tally = cut_under_load(&bench, Strategy::Lying(Lie::SkippedDirectorySync), 12);
    println!("{tally:?}");
    assert!(!tally.violations.is_empty() || !tally.not_opened.is_empty(), "{tally:?}");
}

/// Waits until `holds`; panics if that takes longer than anything here can.
fn eventually(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..4000 {
        if holds() {
            return;
        }
        std::thread::park_timeout(Duration::from_millis(5));
    }
    panic!("never came: {what}");
}

fn poison(failure: &Failure) -> &Poison {
    match failure {
        Failure::Ack(AckError::Poisoned(poison))
        | Failure::Append(AppendError::Poisoned(poison)) => poison,
        other => panic!("not poisoned: {other}"),
    }
}

/// A load meets `fault`: poison names its call and `errno`, nothing is acknowledged after it,
/// and what was acknowledged before it outlives any cut.
fn poisons(io: Io, fault: Fault, is_op: fn(&Op) -> bool) {
    let Some(bench) = bench() else { return };
    // One segment, so that the next call of its kind is the log's own.
    let options = LoadOptions { segment_bytes: 4 << 20, io: Some(io), ..rolling() };
    let errno = fault.errno;
    let load = bench.load(Strategy::GroupCommit, &options);
    eventually("acknowledgements", || 50 < load.seen().acked_records());
    assert!(load.log().wait_for_segment(Duration::from_secs(20)));
    bench.files.inject(fault).unwrap();
    eventually("a producer that fails", || load.has_failed());
    let before = load.look();
    std::thread::park_timeout(Duration::from_millis(50));
    assert_eq!(load.look().flushed, before.flushed, "nothing is acknowledged after");
    bench.files.heal().unwrap();
    let stopped = load.stop();
    assert_eq!(stopped.failures.len(), 4, "every producer is told");
    for failure in &stopped.failures {
        let first = &poison(failure).first;
        assert!(is_op(&first.op) && first.source == errno, "{first}");
        assert!(first.path.starts_with(bench.log().join("commitlog")), "{first}");
    }
    assert!(matches!(stopped.closed, Err(CloseError::Poisoned { .. })), "{:?}", stopped.closed);
    for (seed, keep) in (0..).zip([Keep::None, Keep::All, Keep::Random]) {
        let cut = bench.files.cut(keep, seed).unwrap();
        let log = cut.path().join("log");
        let judged = judge(&log, Strategy::GroupCommit, &options, &before, &stopped.seen).unwrap();
        assert_eq!(judged.verdict.violations, [], "{keep:?}");
    }
}

#[test]
fn a_sync_that_fails_once_poisons_the_log_and_is_named() {
    let fault = Fault { call: Call::Sync, errno: Errno::IO, times: Times::Once };
    poisons(Io::Mapped, fault, |op| matches!(op, Op::Sync));
}

#[test]
fn a_write_to_a_full_disk_poisons_the_log_and_is_named() {
    let fault = Fault { call: Call::Write, errno: Errno::NOSPC, times: Times::Once };
    // Whatever call finds out, the log says for how much there was no room.
    poisons(Io::Positioned, fault, |op| matches!(op, Op::Allocate { bytes } if 0 < *bytes));
}

fn raw<T: std::fmt::Debug>(outcome: io::Result<T>) -> Option<i32> {
    outcome.unwrap_err().raw_os_error()
}

#[test]
fn a_cut_keeps_a_name_by_its_directory_and_bytes_by_their_file() {
    let Some(bench) = bench() else { return };
    let live = bench.files.live();
    let kept = |name: &str| fs::read(bench.files.cut(Keep::None, 0).unwrap().path().join(name));
    let mut file = File::create_new(live.join("a")).unwrap();
    file.write_all(b"one").unwrap();
    file.sync_all().unwrap();
    assert_eq!(kept("a").unwrap_err().kind(), io::ErrorKind::NotFound, "no name yet");
    file.write_all(b"two").unwrap();
    File::open(&live).unwrap().sync_all().unwrap();
    assert_eq!(kept("a").unwrap(), b"one");
    file.sync_data().unwrap();
    assert_eq!(kept("a").unwrap(), b"onetwo");
    fs::rename(live.join("a"), live.join("b")).unwrap();
    assert_eq!(kept("a").unwrap(), b"onetwo");
    File::open(&live).unwrap().sync_all().unwrap();
    assert_eq!(kept("b").unwrap(), b"onetwo");
    fs::remove_file(live.join("b")).unwrap();
    assert_eq!(kept("b").unwrap(), b"onetwo");

    // A tree that a cut left is of its own.
    let cut = bench.files.cut(Keep::None, 0).unwrap();
    let copy = OpenOptions::new().read(true).write(true).open(cut.path().join("b")).unwrap();
    copy.write_all_at(b"ONE", 0).unwrap();
    assert_eq!(fs::read(cut.path().join("b")).unwrap(), b"ONEtwo");
    assert_eq!(kept("b").unwrap(), b"onetwo");
    assert_eq!(fs::read_dir(&live).unwrap().count(), 0);
}

#[test]
fn calls_fail_with_the_error_that_was_asked_for() {
    let Some(bench) = bench() else { return };
    let live = bench.files.live();
    let file = File::create_new(live.join("a")).unwrap();
    for errno in [Errno::IO, Errno::NOSPC, Errno::DQUOT, Errno::ROFS] {
        let inject = |call| {
            bench.files.inject(Fault { call, errno, times: Times::Once }).unwrap();
            Some(errno.raw_os_error())
        };
        assert_eq!(inject(Call::Write), raw(file.write_at(b"x", 0)));
        file.write_all_at(b"x", 0).unwrap();
        assert_eq!(inject(Call::Sync), raw(file.sync_data()));
        file.sync_data().unwrap();
        assert_eq!(inject(Call::SyncDirectory), raw(File::open(&live).unwrap().sync_all()));
        File::open(&live).unwrap().sync_all().unwrap();
    }
    let cut = bench.files.cut(Keep::None, 0).unwrap();
    let mut read = File::open(cut.path().join("a")).unwrap();
    cut.inject(Fault { call: Call::Read, errno: Errno::IO, times: Times::Always }).unwrap();
    assert_eq!(raw(read.read(&mut [0])), Some(Errno::IO.raw_os_error()));
}

#[test]
fn nothing_stays_mounted_when_it_ends_or_its_process_is_killed() {
    let mounted = || fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
    let Some(bench) = bench() else { return };
    let at = bench.work.path().to_str().unwrap().to_owned();
    assert!(mounted().contains(&at));
    let pid = i32::try_from(bench.files.server_id()).unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    eventually("its end", || fs::read_dir(bench.files.live()).is_err());
    let Bench { files, work, .. } = bench;
    drop(files);
    assert!(!mounted().contains(&at));
    work.close().unwrap();
}
