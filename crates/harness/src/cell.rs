//! One cell: a fresh log, producers, a window of time, and everything that happened in it.

mod evidence;
pub(crate) mod simulated;
mod watch;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use crashlab::block::DiskType;
use hdrhistogram::Histogram;
use store_core::{Destination, Message, Protection, QueueId, Topic};

use self::evidence::{Events, Evidence};
use self::watch::watch;
use crate::clock::{now, wall_ms};
use crate::live::Live;
use crate::load::{Bodies, Disturbance, Load, Offered, Produced, Shape};
use crate::profile::{Gates, MessageBytes, Pace, Settings, Share, Strategy, Workload};
use crate::recorder::Recorder;
use crate::results::{AckPromise, Cell, Check};
use crate::series::{Flush, Row};
use crate::strategy;

/// What all cells of a run share.
#[derive(Clone, Debug)]
pub struct Setting<'a> {
    /// The run's name.
    pub run: &'a str,
    /// Where logs are made; each cell makes and removes its own below it.
    pub directory: &'a Path,
    /// The device below, if there is one.
    pub device: Option<&'a str>,
    /// Whether the disk is emulated.
    pub emulated: bool,
    /// The type of a disk that is simulated in virtual time: there is nothing at `directory` then.
    pub simulated: Option<DiskType>,
    /// Whether the device may have a volatile write cache.
    pub volatile_cache: bool,
    /// Whether the device can force a write through that cache (FUA).
    pub has_fua: bool,
    /// How long producers run before anything counts.
    pub warmup: Duration,
    /// How long is measured.
    pub measure: Duration,
    /// Log bytes after which a cell ends early, once it has seen two syncs.
    pub soft_bytes: u64,
    /// Log bytes, those of the warm-up included, after which it ends in any case.
    pub hard_bytes: u64,
    /// Segment size.
    pub segment_bytes: u64,
    /// Seeds the bodies.
    pub seed: u64,
    /// From when on a disturbance counts.
    pub gates: Gates,
    /// What the checks of the environment found, to be said with every cell.
    pub environment_checks: &'a [Check],
    /// What others do on the disk meanwhile, if the workload wants that.
    pub disturbance: Option<&'a Disturbance>,
    /// Set when the run is to stop.
    pub interrupted: &'a AtomicBool,
    /// Where what it is at can be looked at.
    pub live: &'a Live,
}

/// Which cell, and where in the run.
#[derive(Clone, Debug)]
pub struct Place {
    /// The block, from 0.
    pub block: u32,
    /// The place within the block, from 0.
    pub position: u32,
    /// Producer threads.
    pub producers: u32,
}

/// A cell's record with the histograms behind its quantiles.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The record.
    pub cell: Cell,
    /// Each histogram with a name for its file.
    pub histograms: Vec<(&'static str, Histogram<u64>)>,
    /// Ten rows a second.
    pub series: Vec<Row>,
    /// Some of its flushes, evenly chosen, in order.
    pub flushes: Vec<Flush>,
}

/// Measures one cell; `None` if the run was interrupted meanwhile.
///
/// # Errors
///
/// If the log cannot be opened or an append fails: a full disk, a failed sync.
pub fn measure(
    setting: &Setting<'_>,
    place: &Place,
    strategy: &Strategy,
    workload: &Workload,
) -> Result<Option<Measured>> {
    if let Some(disk) = setting.simulated {
        return simulated::measure(setting, disk, place, strategy, workload);
    }
    let root = setting.directory.join(format!("cell-{}-{}", place.block, place.position));
    let recorder = Arc::new(Recorder::default());
    let observer = Arc::clone(&recorder);
    let started_at_ms = wall_ms();
    let (settings, said) =
        strategy::usable(&strategy.settings, setting.segment_bytes, setting.directory)?;
    let strategy = &Strategy { settings, ..strategy.clone() };
    let log = strategy::open(&root, &settings, setting.segment_bytes, observer)
        .with_context(|| format!("strategy {}", strategy.name))?;
    let bodies = Bodies::mixed(setting.seed, &workload.message_bytes)?;
    let load = Load::new(shape(setting, place, &settings, workload)?, bodies);
    if strategy::promise(&settings) != AckPromise::Flushed {
        recorder.count_by(load.counter());
    }
    let (window, produced, disturbed) = thread::scope(|scope| {
        let disturbing = setting.disturbance.map(|others| (others, others.start(scope)));
        let producers = load.start(scope, &log);
        let window = watch(setting, &load, &log, &recorder, &settings);
        load.stop(window.as_ref().map_or_else(now, |window| window.end));
        let produced: Vec<Produced> = producers
            .into_iter()
            .map(|thread| thread.join().expect("producers catch errors"))
            .collect();
        let disturbed = disturbing.map(|(others, threads)| others.stop(threads));
        (window, produced, disturbed)
    });
    // The rest need not become durable: the log is removed.
    log.abandon();
    let removed =
        std::fs::remove_dir_all(&root).with_context(|| format!("remove {}", root.display()));
    // What failed first is the cause.
    if let Some(failed) = produced.iter().find_map(|produced| produced.failed.as_ref()) {
        return Err(anyhow!("strategy {}: {failed}", strategy.name));
    }
    removed?;
    disturbed.transpose()?;
    let Some(window) = window else { return Ok(None) };
    let record_bytes = mean_record_bytes(&workload.message_bytes)?;
    let events = Events { commits: recorder.commits(), flushes: recorder.flushes() };
    let evidence = Evidence { said, window, produced, events, record_bytes };
    let measured = evidence.cell(setting, place, strategy, workload, started_at_ms);
    Ok(Some(measured))
}

/// How the producers of a cell send.
fn shape(
    setting: &Setting<'_>,
    place: &Place,
    settings: &Settings,
    workload: &Workload,
) -> Result<Shape> {
    let offered = match workload.pace {
        Pace::Closed => None,
        Pace::Rate { per_s, arrival, burst } => Some(Offered { per_s, arrival, burst }),
        Pace::FindRate { .. } => bail!("workload {}: a rate is searched for first", workload.name),
    };
    Ok(Shape {
        producers: place.producers,
        leads: matches!(settings, Settings::GroupCommit { lead: true, .. }),
        waits_for_flush: strategy::promise(settings) == AckPromise::Flushed,
        window: workload.window,
        offered,
        seed: setting.seed.wrapping_add(u64::from(place.block)),
    })
}

/// Bytes of a record with a body of one of these sizes, on average.
///
/// # Errors
///
/// If a body is too long for a record.
pub fn mean_record_bytes(sizes: &MessageBytes) -> Result<u64> {
    let mut hundred = 0;
    for Share { bytes, percent } in sizes.shares() {
        hundred += record_bytes(usize::try_from(*bytes)?)? * u64::from(*percent);
    }
    Ok((hundred + 50) / 100)
}

/// Bytes of a record with such a body, as the producers send it.
///
/// # Errors
///
/// If the body is too long for a record.
pub fn record_bytes(message_bytes: usize) -> Result<u64> {
    let body = vec![0; message_bytes];
    let topic = Topic::new(b"bench-topic").context("topic")?;
    let to = Destination { topic, queue_id: QueueId::new(0) };
    let message = Message { body: &body, ..Message::default() };
    Ok(u64::from(message.encoded_len(to, Protection::default())?))
}
