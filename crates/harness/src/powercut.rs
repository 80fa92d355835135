//! Power cuts: a log runs under load on a disk that can lose its power, and does, at random
//! moments; what each cut took is held against what the log's own marks said was at risk.
//!
//! [`run`] makes the cuts in a [`lab::Lab`] and leaves a result directory. Two samples of the same
//! thing come out of it. The *gauge* weights by time how much of what was acknowledged no sync
//! covered. The *cuts* show what is really gone after mounting, opening and reading. They must
//! agree, and no cut may take more than the gauge said at its moment: the log's mark is read first,
//! then the power goes, and what was acknowledged by then counts, so that this is a theorem unless
//! the log lies.

pub mod emulated;
pub mod figures;
pub mod lab;
mod output;
pub mod plan;
pub mod results;
#[cfg(test)]
pub(crate) mod results_fixture;
pub mod simulated;
mod states;
pub mod table;
pub(crate) mod words;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use store_core::Nanos;

use self::figures::Round;
use self::lab::{Lab, Look, Looked, Moment, Watched};
use self::output::Output;
pub use self::output::read;
use self::plan::{CasePlan, Timing};
use self::results::{CUT_SCHEMA, Cut, End, Keep, Place, PowerCuts, SCHEMA, State};
use crate::clock::wall_ms;
use crate::environment;
use crate::exposure::exceeded_at;
use crate::format;
use crate::random::Random;
use crate::results::{DiskInfo, Environment, Origin, Outcome};

/// What to cut and how often.
#[derive(Clone, Debug)]
pub struct Order {
    /// The cases, in this order.
    pub cases: Vec<CasePlan>,
    /// Cuts in each.
    pub cuts: u32,
    /// Seeds everything that is random but the kernel.
    pub seed: u64,
    /// Where result directories go.
    pub results: PathBuf,
    /// For the record.
    pub origin: Origin,
}

/// What a run will do, before it does it.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The run's directory.
    pub path: PathBuf,
    /// Where the power is cut.
    pub place: Place,
    /// Cases.
    pub cases: u32,
    /// Cuts in each.
    pub cuts: u32,
    /// The least that the cuts' windows take, looking at what they leave not included; in the time
    /// that the load lives in.
    pub least: Duration,
}

impl Plan {
    /// Where the power is cut, in a line.
    pub fn place_in_words(&self) -> String {
        words::place(&self.place)
    }
}

/// What a case came to, in a sentence.
pub fn case_in_words(case: &results::Case) -> String {
    format::clipped(&words::sentence(case), usize::MAX)
}

/// Told how a run goes.
pub trait Watch {
    /// Before the first case.
    fn planned(&mut self, plan: &Plan);
    /// A case begins; `done` cuts were made in those before it.
    fn started(&mut self, case: &str, done: u32);
    /// A cut was made and looked at; `done` were made in all.
    fn cut(&mut self, cut: &Cut, done: u32);
    /// A case has ended, or the run ends in it.
    fn finished(&mut self, case: &results::Case);
}

/// What a run came to.
#[derive(Debug)]
pub struct Finished {
    /// Its directory.
    pub path: PathBuf,
    /// What it found.
    pub run: PowerCuts,
    /// What ended it early, if something failed.
    pub error: Option<anyhow::Error>,
}

/// Cuts the power as ordered.
///
/// Whatever ends it, the cuts that were made are kept and reported.
///
/// # Errors
///
/// If it cannot begin: the results, the environment. What fails later is in [`Finished::error`].
pub fn run(
    order: &Order,
    lab: &mut dyn Lab,
    interrupted: &AtomicBool,
    watch: &mut dyn Watch,
) -> Result<Finished> {
    let place = lab.place();
    let environment = surroundings(&place)?;
    let started_at_ms = wall_ms();
    let name = format!("{}-powercut-{}", format::utc_compact(started_at_ms), environment.host_hash);
    let output = Output::create(&order.results, &name)?;
    let cases = u32::try_from(order.cases.len()).context("too many cases")?;
    let plan = Plan {
        path: output.path().to_owned(),
        place: place.clone(),
        cases,
        cuts: order.cuts,
        least: least_time(order),
    };
    watch.planned(&plan);
    let run = PowerCuts {
        schema: SCHEMA.to_owned(),
        run: output.name(),
        origin: order.origin.clone(),
        seed: order.seed,
        place,
        cuts_planned: order.cuts,
        cases_planned: cases,
        started_at_ms,
        ended_at_ms: None,
        outcome: Outcome::Running,
        cases: Vec::new(),
    };
    let mut running = Running { order, output, run, environment, lab, watch, interrupted, done: 0 };
    running.output.write(&running.run, &running.environment)?;
    let ended = running.cases();
    Ok(running.conclude(ended))
}

/// This machine, with the disk that stands in for one.
fn surroundings(place: &Place) -> Result<Environment> {
    let here = std::env::temp_dir();
    let disk = DiskInfo {
        path: place.disk.clone(),
        file_system: place.file_system.clone(),
        emulated: true,
        ..DiskInfo::default()
    };
    Ok(Environment { disk, ..environment::capture(&here)? })
}

fn least_time(order: &Order) -> Duration {
    let of = |case: &CasePlan| {
        let Timing { warmup, window } = case.timing();
        let each = Duration::from_nanos(window.get()) * order.cuts;
        each + Duration::from_nanos(warmup.get()) * order.cuts.div_ceil(case.cuts_per_round())
    };
    order.cases.iter().map(of).sum()
}

struct Running<'a> {
    order: &'a Order,
    output: Output,
    run: PowerCuts,
    environment: Environment,
    lab: &'a mut dyn Lab,
    watch: &'a mut dyn Watch,
    interrupted: &'a AtomicBool,
    done: u32,
}

impl Running<'_> {
    fn cases(&mut self) -> Result<Outcome> {
        for (number, plan) in (0..).zip(&self.order.cases) {
            if self.is_interrupted() {
                return Ok(Outcome::Interrupted);
            }
            self.watch.started(&plan.name, self.done);
            let seed = Random::new(self.order.seed.wrapping_add(number)).next_u64();
            let mut cutting = Cutting::new(plan, seed);
            let ended = self.case(&mut cutting);
            if !cutting.cuts.is_empty() {
                let case = figures::case(plan, &cutting.cuts, &cutting.rounds);
                self.watch.finished(&case);
                self.run.cases.push(case);
            }
            self.output.write(&self.run, &self.environment)?;
            ended.with_context(|| plan.name.clone())?;
        }
        let all = self.order.cuts.saturating_mul(self.run.cases_planned);
        Ok(if self.done < all { Outcome::Interrupted } else { Outcome::Complete })
    }

    /// Makes the cuts of a case, a few in each fresh log: reading a log takes the longer the more
    /// was appended to it.
    fn case(&mut self, cutting: &mut Cutting<'_>) -> Result<()> {
        while cutting.made() < self.order.cuts && !self.is_interrupted() {
            let cuts = (self.order.cuts - cutting.made()).min(cutting.plan.cuts_per_round());
            if let Err(error) = self.lab.start(cutting.plan, cutting.random.next_u64()) {
                // A program that it runs may have got the signal as well.
                return if self.is_interrupted() { Ok(()) } else { Err(error) };
            }
            let begun = self.lab.now();
            let windows = self.cut(cutting, cuts);
            let end = self.lab.now();
            let first = cutting.cuts.len();
            let looked = match (windows, self.lab.stop()) {
                (Ok(windows), Ok(watched)) => {
                    cutting.rounds.push(Round { watched, windows: Vec::new(), end });
                    self.look(cutting, begun, &windows)
                }
                // Without what was seen of it a cut cannot be held against anything.
                (Ok(_), Err(error)) | (Err(error), Ok(_)) => Err(error),
                (Err(first), Err(error)) => Err(error.context(first)),
            };
            self.lab.finish().and(looked)?;
            if cutting.cuts.len() == first {
                cutting.rounds.pop();
            }
        }
        Ok(())
    }

    fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// Makes some cuts in a log that has just been started, each in a window of its own.
    fn cut(&mut self, cutting: &mut Cutting<'_>, cuts: u32) -> Result<Vec<(Nanos, Nanos)>> {
        let timing = cutting.plan.timing();
        let lab = &mut *self.lab;
        let mut start = lab.now().after(timing.warmup);
        let mut windows = Vec::new();
        lab.run_until(start)?;
        for _ in 0..cuts {
            let at = timing.moment(start, &mut cutting.random);
            lab.run_until(at)?;
            lab.cut(cutting.random.next_u64())?;
            lab.run_until(start.after(timing.window))?;
            if self.interrupted.load(Ordering::Relaxed) {
                // The load did not run on to the window's end: this cut is no sample.
                break;
            }
            // A thread that came late has moved the window's end.
            let end = lab.now().max(start.after(timing.window));
            windows.push((start, end));
            start = end;
        }
        Ok(windows)
    }

    /// Looks at what the cuts in these windows left, and records it, until the run is interrupted.
    fn look(
        &mut self,
        cutting: &mut Cutting<'_>,
        begun: Nanos,
        windows: &[(Nanos, Nanos)],
    ) -> Result<()> {
        for (number, window) in windows.iter().enumerate() {
            if self.is_interrupted() {
                break;
            }
            let looked = self.lab.look(number)?;
            let cut = cutting.record(begun, *window, looked);
            self.output.write_cut(&cut)?;
            self.done += 1;
            self.watch.cut(&cut, self.done);
            cutting.cuts.push(cut);
        }
        Ok(())
    }

    fn conclude(mut self, ended: Result<Outcome>) -> Finished {
        let (outcome, error) = match ended {
            Ok(outcome) => (outcome, None),
            Err(error) => (Outcome::Failed, Some(error)),
        };
        self.run.outcome = outcome;
        self.run.ended_at_ms = Some(wall_ms());
        let finished = self.output.finish(&self.run, &self.environment);
        let error = match (error, finished) {
            (None, Err(unfinished)) => Some(unfinished.context("the cuts are kept, but no report")),
            (error, _) => error,
        };
        Finished { path: self.output.path().to_owned(), run: self.run, error }
    }
}

/// A case while its cuts are made.
struct Cutting<'a> {
    plan: &'a CasePlan,
    random: Random,
    rounds: Vec<Round>,
    cuts: Vec<Cut>,
}

impl<'a> Cutting<'a> {
    fn new(plan: &'a CasePlan, seed: u64) -> Self {
        Self { plan, random: Random::new(seed), rounds: Vec::new(), cuts: Vec::new() }
    }

    fn made(&self) -> u32 {
        u32::try_from(self.cuts.len()).unwrap_or(u32::MAX)
    }

    /// The record of a cut of the last round.
    fn record(&mut self, begun: Nanos, window: (Nanos, Nanos), looked: Looked) -> Cut {
        let Looked { moment, states } = looked;
        let cut = self.made();
        let number = u32::try_from(self.rounds.len() - 1).unwrap_or(u32::MAX);
        let round = self.rounds.last_mut().expect("a round is looked at after it ended");
        round.windows.push(window);
        let state = |(keep, look)| {
            let state = state(keep, look);
            let age = |lost| lost_age(&round.watched, &moment, lost);
            State { lost_age_ns: state.lost.map(age), ..state }
        };
        Cut {
            schema: CUT_SCHEMA.to_owned(),
            case: self.plan.name.clone(),
            cut,
            round: number,
            at_ns: moment.at.since(begun).get(),
            window_ns: window.0.since(begun).get(),
            flushed: moment.flushed,
            acked: moment.acked,
            at_risk: moment.at_risk,
            states: states.into_iter().map(state).collect(),
        }
    }
}

/// How long the oldest of the last `lost` messages had been acknowledged.
fn lost_age(watched: &Watched, moment: &Moment, lost: u64) -> u64 {
    if lost == 0 {
        return 0;
    }
    let kept = moment.acked.saturating_sub(lost);
    let since = exceeded_at(watched.between, &watched.acked, kept);
    since.map_or(0, |since| moment.at.since(since).get())
}

fn state(keep: Keep, look: Look) -> State {
    let unread = |end, error| State {
        keep,
        end,
        lost: None,
        lost_age_ns: None,
        torn: None,
        error: Some(error),
        violations: Vec::new(),
    };
    match look {
        Look::Recovered { lost, torn, violations } => State {
            keep,
            end: End::Recovered,
            lost: Some(lost),
            lost_age_ns: None,
            torn: Some(torn),
            error: None,
            violations,
        },
        Look::Refused(error) => unread(End::Refused, error),
        Look::Unmountable(error) => unread(End::Unmountable, error),
    }
}

#[cfg(test)]
mod tests;
