//! A block device in user space under a real file system, on which a real log runs.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, bail};
pub use crashlab::block::FsKind;
use crashlab::block::{
    self, CutView, DiskOptions, DiskType, Missing, MountError, Mounted, PowerDisk, PrivateMounts,
    ServerCommand,
};
use crashlab::load::{JudgeError, Load, LoadOptions, Stopped};
use crashlab::payload::Shape;
use crashlab::witness::{Seen, Witness};
use store_core::{LogOffset, Nanos};
use store_os::{Observer, Preallocate};

use super::lab::{Lab, Look, Moment, Watched};
use super::plan::{CasePlan, Strategy};
use super::results::{Keep, Place, PlaceKind};
use crate::clock::now;
use crate::exposure::{AckSample, Between};
use crate::recorder::Recorder;
use crate::workdir::Workdir;

/// Logs on emulated disks.
#[derive(Debug)]
pub struct Emulated {
    mounts: PrivateMounts,
    server: ServerCommand,
    work: Workdir,
    file_system: FsKind,
    disk_type: DiskType,
    interrupted: Arc<AtomicBool>,
    running: Option<Running>,
    ended: Nanos,
}

impl Emulated {
    /// Logs on this file system, on disks that `server` serves.
    ///
    /// The calling thread, which must be the process's first and only one, has mounts of its own
    /// from then on.
    ///
    /// # Errors
    ///
    /// Outside: there is no place for the directories to mount on. Inside: what this machine lacks.
    pub fn new(
        file_system: FsKind,
        server: ServerCommand,
        interrupted: Arc<AtomicBool>,
    ) -> Result<Result<Self, Missing>> {
        let mounts = match block::available(file_system).and_then(|()| PrivateMounts::enter()) {
            Ok(mounts) => mounts,
            Err(missing) => return Ok(Err(missing)),
        };
        let directory = std::env::temp_dir();
        crate::workdir::sweep_stale(&directory);
        let work = Workdir::create(&directory)?;
        let (running, ended) = (None, Nanos::new(0));
        let disk_type = DiskType::NvmeNoPlp;
        Ok(Ok(Self { mounts, server, work, file_system, disk_type, interrupted, running, ended }))
    }

    fn running(&mut self) -> Result<&mut Running> {
        self.running.as_mut().context("no log was started")
    }
}

impl Lab for Emulated {
    fn place(&self) -> Place {
        let sync = self.disk_type.timing().sync(4096);
        Place {
            kind: PlaceKind::Emulated,
            fallback: None,
            file_system: Some(self.file_system.to_string()),
            disk: format!(
                "block device in user space, volatile cache, as slow as {} ({sync:?} for a small \
                 write and its flush)",
                self.disk_type
            ),
        }
    }

    fn start(&mut self, case: &CasePlan, seed: u64) -> Result<()> {
        let started = Running::start(self, case, seed)?;
        self.running = Some(started);
        Ok(())
    }

    fn now(&self) -> Nanos {
        if self.running.is_some() { now() } else { self.ended }
    }

    fn run_until(&mut self, at: Nanos) -> Result<()> {
        while now() < at && !self.interrupted.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_nanos(at.since(now()).get()).min(LOOK_UP));
        }
        if self.running()?.load.has_failed() {
            bail!("a producer has stopped");
        }
        Ok(())
    }

    fn cut(&mut self, seed: u64) -> Result<()> {
        self.running()?.cut(seed)
    }

    fn moment(&mut self) -> Result<Moment> {
        let running = self.running()?;
        let after = running.load.seen();
        let taken = running.taken.as_mut().context("no cut was made")?;
        let before = taken.before(after.clone());
        let flushed = taken.flushed;
        let at_risk = before.acked().filter(|(_, appended, _)| flushed < appended.end()).count();
        let moment = Moment {
            at: taken.at,
            flushed: flushed.get(),
            acked: taken.acked.iter().sum(),
            at_risk: store_core::length_u64(at_risk),
        };
        taken.seen = Some((before, after));
        Ok(moment)
    }

    fn look(&mut self, keep: Keep) -> Result<Look> {
        self.running()?.look(keep)
    }

    fn stop(&mut self) -> Result<Watched> {
        let running = self.running.take().context("no log was started")?;
        self.ended = now();
        running.stop()
    }
}

/// A log under load on a disk of its own. Fields are dropped in this order.
#[derive(Debug)]
struct Running {
    taken: Option<Taken>,
    load: Load,
    sampler: Sampler,
    recorder: Arc<Recorder>,
    begins: LogOffset,
    mounted: Mounted,
    disk: PowerDisk,
}

/// A cut that was made, until the next.
#[derive(Debug)]
struct Taken {
    at: Nanos,
    flushed: LogOffset,
    /// For each producer.
    acked: Vec<u64>,
    views: Vec<(Keep, CutView)>,
    /// What was told before and after the cut.
    seen: Option<(Seen, Seen)>,
}

impl Taken {
    fn before(&self, after: Seen) -> Seen {
        after.when(&self.acked)
    }
}

impl Running {
    fn start(lab: &Emulated, case: &CasePlan, seed: u64) -> Result<Self> {
        let work = lab.work.path();
        let mut disk = PowerDisk::start(&lab.mounts, &lab.server, work, DiskOptions::default())?;
        let mounted = disk.make_file_system(lab.file_system, "")?;
        disk.set_timing(lab.disk_type.timing())?;
        let bytes = case.load.message_bytes;
        let shape =
            Shape { seed, producers: case.load.producers, min_body: bytes, max_body: bytes };
        let witness = Arc::new(Witness::new(shape));
        let recorder = Arc::new(Recorder::default());
        let sampler = Sampler::start(Arc::clone(&witness), case.strategy.between())?;
        let observer: Arc<dyn Observer> = Arc::clone(&recorder) as Arc<dyn Observer>;
        let options = LoadOptions {
            segment_bytes: SEGMENT_BYTES,
            preallocate: match case.strategy {
                Strategy::Sync => Preallocate::Zero,
                Strategy::Staged | Strategy::Timed => Preallocate::Fallocate,
            },
            messages_per_s: case.load.rate_per_s,
            observer: Some(observer),
            ..LoadOptions::default()
        };
        let strategy = strategy(case)?;
        let load = Load::start(&log_directory(&mounted), strategy, witness, options)?;
        let begins = load.log().recovery().end;
        Ok(Self { taken: None, load, sampler, recorder, begins, mounted, disk })
    }

    fn cut(&mut self, seed: u64) -> Result<()> {
        // The views of the cut before go first: dropping them takes time.
        self.taken = None;
        let flushed = self.load.log().marks().flushed();
        let acked = self.sampler.witness.acked_by_producer();
        let at = now();
        let worst = self.disk.cut(block::Keep::None, seed)?;
        // A moment later: what was promised at the cut still is.
        let some = SOME[usize::try_from(seed % SOME_COUNT).unwrap_or(0)];
        let random = self.disk.cut(some, seed)?;
        let views = vec![(Keep::Nothing, worst), (Keep::Some, random)];
        self.taken = Some(Taken { at, flushed, acked, views, seen: None });
        Ok(())
    }

    fn look(&self, keep: Keep) -> Result<Look> {
        let taken = self.taken.as_ref().context("no cut was made")?;
        let (before, after) = taken.seen.as_ref().context("the moment was not asked for")?;
        let view = taken.views.iter().find(|(kept, _)| *kept == keep);
        let (_, view) = view.context("no such state was made")?;
        let mounted = match view.mount() {
            Ok(mounted) => mounted,
            Err(error @ MountError::NotMountable { .. }) => {
                return Ok(Look::Unmountable(error.to_string()));
            }
            Err(error) => return Err(error.into()),
        };
        let before = crashlab::load::Look { flushed: taken.flushed, seen: before.clone() };
        let judged = self.load.judge(&log_directory(&mounted), &before, after);
        mounted.unmount()?;
        Ok(match judged {
            Ok(judged) => Look::Recovered {
                lost: judged.verdict.lost_acked,
                torn: judged.recovery.torn_bytes > 0,
                violations: shortened(&judged.verdict.violations),
            },
            Err(JudgeError::Open(error)) => Look::Refused(error.to_string()),
            Err(JudgeError::Read(error)) => Look::Refused(format!("opened, but not read: {error}")),
        })
    }

    fn stop(self) -> Result<Watched> {
        let Self { taken, load, sampler, recorder, begins, mounted, disk } = self;
        drop(taken);
        let acked = sampler.stop();
        let (appended, log_bytes) =
            (load.log().appended(), load.log().marks().wrote().since(begins));
        let Stopped { failures, closed, .. } = load.stop();
        let (flushes, commits) = (recorder.flushes(), recorder.commits());
        // Also where the load failed.
        let unmounted = mounted.unmount();
        drop(disk);
        if let Some(failure) = failures.first() {
            bail!("a producer stopped: {failure}");
        }
        closed.context("the log did not close")?;
        unmounted?;
        Ok(Watched { acked, flushes, commits, log_bytes, appended })
    }
}

fn strategy(case: &CasePlan) -> Result<crashlab::load::Strategy> {
    let interval = || case.interval.context("a strategy without its interval");
    Ok(match case.strategy {
        Strategy::Staged => crashlab::load::Strategy::CommitRealtime {
            commit: case.commit().context("a strategy without its interval")?,
            interval: interval()?,
        },
        Strategy::Sync => crashlab::load::Strategy::GroupCommit,
        Strategy::Timed => crashlab::load::Strategy::FlushRealtime { interval: interval()? },
    })
}

fn log_directory(mounted: &Mounted) -> PathBuf {
    mounted.path().join("log")
}

/// The first violations in words, and how many there are if that is not all.
pub(super) fn shortened(violations: &[crashlab::check::Violation]) -> Vec<String> {
    let mut words: Vec<String> = violations.iter().take(NAMED).map(ToString::to_string).collect();
    if violations.len() > NAMED {
        words.push(format!("and {} more of this cut", violations.len() - NAMED));
    }
    words
}

/// Counts acknowledgements each millisecond, in a thread of its own.
#[derive(Debug)]
struct Sampler {
    witness: Arc<Witness>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<AckSample>>>,
}

impl Sampler {
    fn start(witness: Arc<Witness>, between: Between) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (seen, ends) = (Arc::clone(&witness), Arc::clone(&stop));
        let thread = thread::Builder::new().name("sample".to_owned()).spawn(move || {
            let mut samples = Vec::new();
            while !ends.load(Ordering::Relaxed) {
                samples.push(sample(&seen, between));
                thread::sleep(EVERY);
            }
            samples.push(sample(&seen, between));
            samples
        })?;
        Ok(Self { witness, stop, thread: Some(thread) })
    }

    fn stop(mut self) -> Vec<AckSample> {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().expect("it is stopped once");
        thread.join().expect("sampling does not panic")
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// The count at the moment that makes exposure certain, as a cell of the benchmark dates it: if
/// acknowledgements come after their sync, not before it; else not after they came.
fn sample(witness: &Witness, between: Between) -> AckSample {
    let from = now();
    let acked = witness.acked_by_producer().iter().sum();
    let at = match between {
        Between::Line => from,
        Between::Step => now(),
    };
    AckSample { at, acked }
}

/// The command of this program, whose hidden task serves a disk.
///
/// # Errors
///
/// If the system does not say where the program is.
pub fn served_by(task: &str) -> Result<ServerCommand> {
    let program = std::env::current_exe().context("where is this program?")?;
    Ok(ServerCommand { program, arguments: vec![task.into()] })
}

/// Serves a disk with the arguments that follow those of [`served_by`], until its owner is gone.
///
/// # Errors
///
/// If the disk cannot be served.
pub fn serve(arguments: &[OsString]) -> Result<()> {
    block::serve_from_arguments(arguments).context("cannot serve a disk")
}

/// What survives of the cache where not nothing does.
const SOME: [block::Keep; 6] = [
    block::Keep::Random,
    block::Keep::Prefix,
    block::Keep::Random,
    block::Keep::AllButOne,
    block::Keep::OnlyOne,
    block::Keep::All,
];
const SOME_COUNT: u64 = 6;
/// Some seconds of load are several segments.
const SEGMENT_BYTES: u64 = 16 << 20;
/// How long a signal goes unseen at most.
const LOOK_UP: Duration = Duration::from_millis(20);
const EVERY: Duration = Duration::from_millis(1);
/// Violations of one cut that are kept in words.
const NAMED: usize = 5;
