//! A disk and a file system in memory under a virtual clock, with the real log on them.

use anyhow::{Context, Result, anyhow};
use crashlab::check::{Promise, check};
use crashlab::payload::Shape;
use crashlab::sim::{Lie, Life, Plan, Playback, Strategy as Flushing, Timing, Told, What, Wrong};
use store_core::{LogOffset, Nanos};
use store_os::{FlushEvent, Io, Preallocate};

use super::lab::{Lab, Look, Looked, Moment, Watched};
use super::plan::{CasePlan, Strategy};
use super::results::{Place, PlaceKind};
use super::states::{self, shortened};
use crate::clock::{float, nanos};
use crate::exposure::{AckSample, Between};
use crate::format;

/// Logs on simulated disks: the same append, flush and recovery code, in time that passes only
/// here.
#[derive(Debug, Default)]
pub struct Simulated {
    fallback: Option<String>,
    lie: Option<Lie>,
    running: Option<Running>,
    now: Nanos,
}

#[derive(Debug)]
struct Running {
    played: Playback,
    cuts: Vec<(Nanos, u64)>,
}

impl Simulated {
    /// Simulated disks, because this is missing for emulated ones, or because they were asked for.
    pub fn new(fallback: Option<String>) -> Self {
        Self { fallback, ..Self::default() }
    }

    /// Logs that lie, to show that it is seen.
    #[cfg(test)]
    pub(super) fn lying(lie: Lie) -> Self {
        Self { lie: Some(lie), ..Self::default() }
    }

    fn running(&mut self) -> Result<&mut Running> {
        self.running.as_mut().context("no log was started")
    }
}

impl Lab for Simulated {
    fn place(&self) -> Place {
        let sync = format::duration(float(TIMING.sync.get()));
        Place {
            kind: PlaceKind::Simulated,
            fallback: self.fallback.clone(),
            file_system: None,
            disk: format!("files in memory that keep what was synced, {sync} a sync, virtual time"),
        }
    }

    fn start(&mut self, case: &CasePlan, seed: u64) -> Result<()> {
        let lived = Playback::live(plan(case, seed)?, self.lie);
        let played =
            lived.map_err(|finding| anyhow!("the simulation failed: {}", finding.wrong))?;
        let opened = |what: &What| matches!(what, What::Told(Told::Opened(..)));
        let opened = played.entries().iter().find(|entry| opened(&entry.what));
        self.now = opened.context("the log was not opened")?.at;
        self.running = Some(Running { played, cuts: Vec::new() });
        Ok(())
    }

    fn now(&self) -> Nanos {
        self.now
    }

    fn run_until(&mut self, at: Nanos) -> Result<()> {
        self.now = self.now.max(at);
        Ok(())
    }

    fn cut(&mut self, seed: u64) -> Result<()> {
        let now = self.now;
        self.running()?.cuts.push((now, seed));
        Ok(())
    }

    fn stop(&mut self) -> Result<Watched> {
        let end = self.now;
        let watched = watched(&self.running()?.played, end);
        let last = watched.acked.last().map_or(Nanos::default(), |sample| sample.at);
        anyhow::ensure!(end <= last, "the load was over before the last cut");
        Ok(watched)
    }

    fn look(&mut self, cut: usize) -> Result<Looked> {
        let running = self.running()?;
        let (at, chance) = *running.cuts.get(cut).context("no such cut was made")?;
        running.played.play_until(at);
        let (flushed, seen) = (running.played.flushed(), running.played.seen());
        let moment = Moment {
            at,
            flushed: flushed.get(),
            acked: seen.acked_records(),
            at_risk: states::at_risk(&seen, flushed),
        };
        let mut found = Vec::new();
        for (keep, survives) in states::of_a_cut(chance) {
            let look = match running.played.cut(survives, chance) {
                Ok((recovery, records)) => {
                    let verdict = check(Promise::Durable, &seen, flushed, &seen, &records);
                    Look::Recovered {
                        lost: verdict.lost_acked,
                        torn: recovery.torn_bytes > 0,
                        violations: shortened(&verdict.violations),
                    }
                }
                Err(Wrong::Refused(error)) => Look::Refused(error.to_string()),
                Err(wrong) => Look::Refused(wrong.to_string()),
            };
            found.push((keep, look));
        }
        Ok(Looked { moment, states: found })
    }

    fn finish(&mut self) -> Result<()> {
        self.running = None;
        Ok(())
    }
}

/// One life without faults that lasts longer than the cuts of a round.
fn plan(case: &CasePlan, seed: u64) -> Result<Plan> {
    let producers = case.load.producers;
    let seconds = case.round_time().as_secs_f64() + 0.1;
    // Who waits for syncs gets as many answers as the disk gives; the others pause.
    let syncs_per_s = 1e9 / float(TIMING.sync.get());
    let most = f64::from(producers) * syncs_per_s;
    let rate = case.load.rate_per_s.map_or(most, f64::from);
    let pause_ns = f64::from(producers) * 1e9 / rate / MEAN_PAUSE;
    let pause = if case.load.rate_per_s.is_some() { pause_ns } else { 10_000.0 };
    let appends = crate::clock::round(1.1 * rate * seconds);
    let bytes = case.load.message_bytes;
    let life = Life {
        appends: u32::try_from(appends)?,
        pause: Nanos::new(crate::clock::round(pause)),
        burst_in_thousand: 0,
        wait_in_thousand: 1000,
        batch_in_thousand: 0,
        outstanding: 1,
        rest: Nanos::new(0),
        closes: false,
        faults: Vec::new(),
        states: 0,
    };
    let (io, preallocate) = match case.strategy {
        Strategy::Staged => (Io::Positioned, Preallocate::Fallocate),
        Strategy::Sync => (Io::Positioned, Preallocate::Zero),
        Strategy::Timed => (Io::Mapped, Preallocate::Fallocate),
    };
    Ok(Plan {
        seed,
        strategy: strategy(case)?,
        io,
        preallocate,
        segment_bytes: 1 << 20,
        spare_staging_bytes: 1 << 20,
        shape: Shape { seed, producers, min_body: bytes, max_body: bytes },
        timing: TIMING,
        short_writes: 0,
        keep_every: Nanos::from_millis(1000),
        lives: vec![life],
    })
}

fn strategy(case: &CasePlan) -> Result<Flushing> {
    let interval = || case.interval.map(nanos).context("a strategy without its interval");
    let flush = |interval| flush_realtime::Config {
        interval,
        least_pages: 0,
        ..flush_realtime::Config::default()
    };
    Ok(match case.strategy {
        Strategy::Staged => {
            let commit = case.commit().map(nanos).context("a strategy without its interval")?;
            Flushing::CommitRealtime(commit_realtime::Config {
                commit_interval: commit,
                commit_least_pages: 0,
                commit_thorough_interval: commit,
                flush: flush(interval()?),
                ..commit_realtime::Config::default()
            })
        }
        Strategy::Sync => Flushing::GroupCommit(group_commit::Config::default()),
        Strategy::Timed => Flushing::FlushRealtime(flush(interval()?)),
    })
}

/// What the life's journal says of acknowledgements and syncs up to `end`, and a little beyond: the
/// last sample lies behind it.
fn watched(played: &Playback, end: Nanos) -> Watched {
    // Every acknowledgement is a sample: nothing is between them.
    let mut watched = Watched { between: Between::Step, ..Watched::default() };
    let (mut acked, mut began, mut flushed) = (0, None, LogOffset::ZERO);
    // Records by where they end, in the log's order.
    let mut ends: Vec<LogOffset> = Vec::new();
    for entry in played.entries() {
        let (at, What::Told(told)) = (entry.at, &entry.what) else { continue };
        match told {
            Told::Acked(..) => {
                acked += 1;
                watched.acked.push(AckSample { at, acked });
            }
            Told::Flushed(upto) => {
                let covered = ends.partition_point(|end| end <= upto);
                watched.flushes.push(FlushEvent {
                    started: began.unwrap_or(at),
                    ended: at,
                    from: flushed,
                    upto: *upto,
                    records: store_core::length_u64(covered),
                    syncs: 1,
                });
                flushed = *upto;
            }
            Told::Opened(..) => watched.acked.push(AckSample { at, acked }),
            Told::Placed(_, appended) => ends.push(appended.end()),
            Told::SyncBegan => began = Some(at),
            _ => {}
        }
        if end < at && matches!(told, Told::Acked(..)) {
            break;
        }
    }
    watched.appended = store_core::length_u64(ends.len());
    watched.log_bytes = ends.last().map_or(0, |end| end.get());
    watched
}

/// As the emulated disk is.
const TIMING: Timing = Timing {
    sync: Nanos::from_micros(775),
    bytes_per_second: 2_000_000_000,
    jitter: Nanos::from_micros(75),
    stuck_in_thousand: 0,
    stuck: Nanos::new(0),
    commit: Nanos::from_micros(20),
    allocate: Nanos::from_micros(500),
};
/// The simulation's pauses in units of what it is given: now and then one is ten times as long.
const MEAN_PAUSE: f64 = 1.45;
