//! A disk with a mounted file system, a load on it, and power cuts that are judged.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crashlab::block::{
    CutView, DiskOptions, FsKind, Keep, Missing, MountError, Mounted, PowerDisk, PrivateMounts,
    ServerCommand, Timing, available,
};
use crashlab::load::{JudgeError, Judged, Load, LoadOptions, Look, Stopped, Strategy, judge};
use crashlab::payload::Shape;
use crashlab::witness::Witness;
use store_core::LogOffset;
use tempfile::TempDir;

/// The strategies that keep their promises, with short intervals.
pub(crate) const STRATEGIES: [Strategy; 3] = [
    Strategy::GroupCommit,
    Strategy::FlushRealtime { interval: Duration::from_millis(30) },
    Strategy::CommitRealtime {
        commit: Duration::from_millis(5),
        interval: Duration::from_millis(30),
    },
];

pub(crate) fn server() -> ServerCommand {
    ServerCommand { program: env!("CARGO_BIN_EXE_power-disk").into(), arguments: Vec::new() }
}

/// Those of `kinds` that this machine has, the others said aloud.
pub(crate) fn usable(kinds: &[FsKind]) -> Vec<FsKind> {
    kinds
        .iter()
        .copied()
        .filter(|kind| available(*kind).inspect_err(|missing| say_missing(*kind, missing)).is_ok())
        .collect()
}

/// Once for each file system, and past what a passing test's output is kept from.
fn say_missing(kind: FsKind, missing: &Missing) {
    static SAID: Mutex<Vec<FsKind>> = Mutex::new(Vec::new());
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    if !said.contains(&kind) {
        said.push(kind);
        say(&format!("left out: power cuts and faults of an emulated disk with {kind}: {missing}"));
    }
}

pub(crate) fn say(line: &str) {
    std::io::stderr().lock().write_all(format!("{line}\n").as_bytes()).unwrap();
}

/// A disk with a file system on it.
#[derive(Debug)]
pub(crate) struct Bench {
    // Dropped in this order.
    live: Mounted,
    pub(crate) disk: PowerDisk,
    _mounts: PrivateMounts,
    _work: TempDir,
}

impl Bench {
    pub(crate) fn new(kind: FsKind, options: &str) -> Self {
        Self::made_with(kind, &[], options)
    }

    /// With more arguments for the program that makes the file system.
    pub(crate) fn made_with(kind: FsKind, arguments: &[&str], options: &str) -> Self {
        let mounts = PrivateMounts::enter().unwrap();
        let work = tempfile::tempdir().unwrap();
        let mut disk =
            PowerDisk::start(&mounts, &server(), work.path(), DiskOptions::default()).unwrap();
        let live = disk.make_file_system_with(kind, arguments, options).unwrap();
        if !live.is_direct() {
            say("note: loop devices refuse direct I/O here: their page cache lies between");
        }
        Self { live, disk, _mounts: mounts, _work: work }
    }

    pub(crate) fn root(&self) -> &Path {
        self.live.path()
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.root().join("log")
    }

    pub(crate) fn load(&self, strategy: Strategy, options: &LoadOptions) -> Load {
        let shape = Shape { seed: 4, producers: 4, min_body: 100, max_body: 2000 };
        let witness = Arc::new(Witness::new(shape));
        Load::start(&self.log(), strategy, witness, options.clone()).unwrap()
    }
}

/// What a row of cuts showed.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) judged: u64,
    pub(crate) violations: Vec<String>,
    pub(crate) lost_acked: u64,
    pub(crate) torn: u64,
    pub(crate) holes: u64,
    pub(crate) not_mountable: u64,
    /// Logs that do not open: the file system, or the log itself, is damaged.
    pub(crate) not_opened: Vec<JudgeError>,
}

impl Tally {
    /// Cuts in which a promise was broken, one way or another.
    pub(crate) fn caught(&self) -> u64 {
        let not_opened = u64::try_from(self.not_opened.len()).unwrap();
        u64::try_from(self.violations.len()).unwrap() + self.not_mountable + not_opened
    }

    /// Mounts what a cut left, and judges the log in it.
    pub(crate) fn judge(&mut self, view: &CutView, judge: impl Fn(&Path) -> Judgement) {
        let mounted = match view.mount() {
            Ok(mounted) => mounted,
            Err(MountError::NotMountable { .. }) => {
                self.not_mountable += 1;
                return;
            }
            Err(error) => panic!("{error}"),
        };
        match judge(&mounted.path().join("log")) {
            Ok(judged) => {
                self.judged += 1;
                self.lost_acked += u64::from(judged.verdict.lost_acked > 0);
                self.torn += u64::from(judged.recovery.torn_bytes > 0);
                self.holes += u64::from(judged.recovery.unsynced_records > 0);
                self.violations.extend(judged.verdict.violations.first().map(ToString::to_string));
            }
            Err(error) => self.not_opened.push(error),
        }
        mounted.unmount().unwrap();
    }

    /// The same for a load that has stopped.
    pub(crate) fn judge_stopped(
        &mut self,
        view: &CutView,
        (strategy, options): (Strategy, &LoadOptions),
        stopped: &Stopped,
    ) {
        let before = Look { flushed: LogOffset::ZERO, seen: stopped.seen.clone() };
        self.judge(view, |root| judge(root, strategy, options, &before, &stopped.seen));
    }
}

type Judgement = Result<Judged, JudgeError>;

/// Cuts the power `count` times under load.
pub(crate) fn cut_under_load(
    bench: &Bench,
    strategy: Strategy,
    options: &LoadOptions,
    count: u64,
) -> Tally {
    // As slow as a disk, so that appends come while it syncs.
    let flush = Duration::from_millis(3);
    bench.disk.set_timing(Timing { flush, ..Timing::INSTANT }).unwrap();
    let load = bench.load(strategy, options);
    let mut tally = Tally::default();
    for seed in 0..count {
        // Somewhere in the load's cycle of appends and syncs.
        std::thread::park_timeout(Duration::from_micros(1000 + seed * 1931 % 9000));
        let before = load.look();
        let keep = Keep::ALL[usize::try_from(seed).unwrap() % Keep::ALL.len()];
        let view = bench.disk.cut(keep, seed).unwrap();
        let after = load.seen();
        tally.judge(&view, |root| load.judge(root, &before, &after));
    }
    let stopped = load.stop();
    assert_eq!(stopped.failures, []);
    assert_eq!(stopped.closed, Ok(()));
    assert!(stopped.seen.acked_records() > 0, "nothing was written");
    tally
}

/// Fast enough to be always at it, slow enough that a log stays short.
pub(crate) fn steady() -> LoadOptions {
    LoadOptions { messages_per_s: Some(800), ..LoadOptions::default() }
}

/// Waits until `holds`; panics if that takes longer than anything here can.
pub(crate) fn eventually(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..4000 {
        if holds() {
            return;
        }
        std::thread::park_timeout(Duration::from_millis(5));
    }
    panic!("never came: {what}");
}
