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
use crashlab::load::{AckTimes, JudgeError, Load, LoadOptions, Stopped, judge};
use crashlab::payload::Shape;
use crashlab::witness::{Seen, Witness};
use store_core::{LogOffset, Nanos};
use store_os::{Observer, Preallocate};

use super::lab::{Lab, Look, Looked, Moment, Watched};
use super::plan::{CasePlan, Strategy};
use super::results::{Keep, Place, PlaceKind};
use super::states::{self, shortened};
use crate::clock::{float, nanos, now};
use crate::exposure::{AckSample, Between};
use crate::format;
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
}

impl Emulated {
    /// Logs on this file system, on disks of this type that `server` serves.
    ///
    /// The calling thread, which must be the process's first and only one, has mounts of its own
    /// from then on.
    ///
    /// # Errors
    ///
    /// Outside: there is no place for the directories to mount on. Inside: what this machine lacks.
    pub fn new(
        file_system: FsKind,
        disk_type: DiskType,
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
        Ok(Ok(Self { mounts, server, work, file_system, disk_type, interrupted, running: None }))
    }

    fn running(&mut self) -> Result<&mut Running> {
        self.running.as_mut().context("no log was started")
    }
}

impl Lab for Emulated {
    fn place(&self) -> Place {
        let sync = nanos(self.disk_type.timing().sync(4096)).get();
        Place {
            kind: PlaceKind::Emulated,
            fallback: None,
            file_system: Some(self.file_system.to_string()),
            disk: format!(
                "block device in user space, volatile cache, {} ({} a sync)",
                self.disk_type,
                format::duration(float(sync))
            ),
        }
    }

    fn start(&mut self, case: &CasePlan, seed: u64) -> Result<()> {
        let started = Running::start(self, case, seed)?;
        self.running = Some(started);
        Ok(())
    }

    fn now(&self) -> Nanos {
        now()
    }

    fn run_until(&mut self, at: Nanos) -> Result<()> {
        while now() < at && !self.interrupted.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_nanos(at.since(now()).get()).min(LOOK_UP));
        }
        match &self.running()?.load {
            Some(load) if load.has_failed() => bail!("the load failed"),
            _ => Ok(()),
        }
    }

    fn cut(&mut self, seed: u64) -> Result<()> {
        self.running()?.cut(seed)
    }

    fn stop(&mut self) -> Result<Watched> {
        self.running()?.stop()
    }

    fn look(&mut self, cut: usize) -> Result<Looked> {
        self.running()?.look(cut)
    }

    fn finish(&mut self) -> Result<()> {
        let running = self.running.take().context("no log was started")?;
        running.finish()
    }
}

/// A log under load on a disk of its own. Fields are dropped in this order.
#[derive(Debug)]
struct Running {
    taken: Vec<Taken>,
    /// `None` once it is over.
    load: Option<Load>,
    strategy: crashlab::load::Strategy,
    options: LoadOptions,
    sampler: Option<Sampler>,
    between: Between,
    recorder: Arc<Recorder>,
    mounted: Mounted,
    disk: PowerDisk,
    /// What was told in the end, and when.
    after: Option<(Seen, AckTimes)>,
}

/// A cut that was made.
#[derive(Debug)]
struct Taken {
    at: Nanos,
    flushed: LogOffset,
    /// What it left; `None` once that was looked at.
    views: Option<Vec<(Keep, CutView)>>,
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
        let observer: Arc<dyn Observer> = Arc::<Recorder>::clone(&recorder);
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
        let sampler = Some(Sampler::start(Arc::clone(&witness), case.strategy.between())?);
        let at = log_directory(&mounted);
        let load = Some(Load::start(&at, strategy, witness, options.clone())?);
        let (taken, after) = (Vec::new(), None);
        Ok(Self {
            taken,
            load,
            strategy,
            options,
            sampler,
            between: case.strategy.between(),
            recorder,
            mounted,
            disk,
            after,
        })
    }

    fn cut(&mut self, seed: u64) -> Result<()> {
        let load = self.load.as_ref().context("the load is over")?;
        let flushed = load.log().marks().flushed();
        // The worst first. The other comes a moment later: what was promised at the cut still is.
        let view = |(keep, survives)| self.disk.cut(survives, seed).map(|view| (keep, view));
        let views: Vec<(Keep, CutView)> =
            states::of_a_cut(seed).into_iter().map(view).collect::<Result<_, _>>()?;
        let (_, worst) = views.first().context("a cut leaves a state")?;
        self.taken.push(Taken { at: worst.at(), flushed, views: Some(views) });
        Ok(())
    }

    fn stop(&mut self) -> Result<Watched> {
        let load = self.load.take().context("the load is over")?;
        let acked = self.sampler.take().map(Sampler::stop).unwrap_or_default();
        let log = load.log();
        let log_bytes = log.marks().wrote().since(log.recovery().end);
        let appended = log.appended();
        let Stopped { seen, acked_at, failures, closed } = load.stop();
        self.after = Some((seen, acked_at));
        if let Some(failure) = failures.first() {
            bail!("a producer stopped: {failure}");
        }
        closed.context("the log did not close")?;
        let (flushes, commits) = (self.recorder.flushes(), self.recorder.commits());
        Ok(Watched { acked, between: self.between, flushes, commits, log_bytes, appended })
    }

    fn look(&mut self, cut: usize) -> Result<Looked> {
        let (after, acked_at) = self.after.as_ref().context("the load is not over")?;
        let taken = self.taken.get_mut(cut).context("no such cut was made")?;
        let views = taken.views.take().context("it was looked at before")?;
        let acked = acked_at.by(taken.at);
        let before = after.clone().when(&acked);
        let flushed = taken.flushed;
        let moment = Moment {
            at: taken.at,
            flushed: flushed.get(),
            acked: acked.iter().sum(),
            at_risk: states::at_risk(&before, flushed),
        };
        let before = crashlab::load::Look { flushed, seen: before };
        let mut states = Vec::new();
        for (keep, view) in views {
            states.push((keep, self.judge(&view, &before, after)?));
        }
        Ok(Looked { moment, states })
    }

    /// Mounts a state, and opens and checks the log in it.
    fn judge(&self, view: &CutView, before: &crashlab::load::Look, after: &Seen) -> Result<Look> {
        let mounted = match view.mount() {
            Ok(mounted) => mounted,
            Err(error @ MountError::NotMountable { .. }) => {
                return Ok(Look::Unmountable(error.to_string()));
            }
            Err(error) => return Err(error.into()),
        };
        let at = log_directory(&mounted);
        let judged = judge(&at, self.strategy, &self.options, before, after);
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

    fn finish(self) -> Result<()> {
        // A load that was not stopped, because something failed, ends here.
        let Self { taken, load, sampler, mounted, disk, .. } = self;
        drop((taken, sampler));
        if let Some(load) = load {
            let _ = load.stop();
        }
        let unmounted = mounted.unmount();
        drop(disk);
        Ok(unmounted?)
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

/// Counts acknowledgements each millisecond, in a thread of its own.
#[derive(Debug)]
struct Sampler {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<AckSample>>>,
}

impl Sampler {
    fn start(witness: Arc<Witness>, between: Between) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&stop);
        let thread = thread::Builder::new().name("sample".to_owned()).spawn(move || {
            let mut samples = Vec::new();
            while !ends.load(Ordering::Relaxed) {
                samples.push(sample(&witness, between));
                thread::sleep(EVERY);
            }
            samples.push(sample(&witness, between));
            samples
        })?;
        Ok(Self { stop, thread: Some(thread) })
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

/// Some seconds of load are several segments.
const SEGMENT_BYTES: u64 = 16 << 20;
/// How long a signal goes unseen at most.
const LOOK_UP: Duration = Duration::from_millis(20);
const EVERY: Duration = Duration::from_millis(1);
