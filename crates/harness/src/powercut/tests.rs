//! The run of cuts against a place made up for it.

use std::fs;
use std::path::Path;

use super::lab::Watched;
use super::plan::{Strategy, cases};
use super::results::{Case, PlaceKind, Verdict};
use super::simulated::Simulated;
use super::*;
use crate::exposure::{AckSample, Between};
use crashlab::sim::Lie;
use store_core::LogOffset;
use store_os::FlushEvent;

/// A log that acknowledges 20 messages a millisecond and syncs 50 ms after the last sync ended,
/// which takes 1 ms: all in time that passes only here.
struct Made<'a> {
    now: Nanos,
    begun: Nanos,
    cuts: u32,
    /// Of the log's cuts.
    moments: Vec<Moment>,
    started: u32,
    finished: u32,
    what: Happens,
    interrupted: &'a AtomicBool,
}

/// What happens at some cut, or in the second log.
#[derive(Clone, Copy, PartialEq)]
enum Happens {
    Nothing,
    /// A cut takes a message that was synced.
    ALie,
    /// The device does not answer.
    CutFails,
    /// Somebody presses Ctrl-C while the load goes on.
    Interrupted,
    /// Or while a cut is looked at.
    InterruptedLater,
    /// What was seen cannot be told.
    StopFails,
}

impl<'a> Made<'a> {
    fn new(what: Happens, interrupted: &'a AtomicBool) -> Self {
        let at = Nanos::from_millis(5);
        let (cuts, started, finished) = (0, 0, 0);
        Self { now: at, begun: at, cuts, moments: Vec::new(), started, finished, what, interrupted }
    }

    fn ms(&self) -> u64 {
        self.now.since(self.begun).get() / 1_000_000
    }

    /// Messages that a sync covered by now.
    fn durable(&self) -> u64 {
        match self.ms() / 51 {
            0 => 0,
            syncs => (syncs * 51 - 1) * 20,
        }
    }
}

impl Lab for Made<'_> {
    fn place(&self) -> Place {
        Place {
            kind: PlaceKind::Simulated,
            fallback: None,
            file_system: None,
            disk: "made up".to_owned(),
        }
    }

    fn start(&mut self, _case: &CasePlan, _seed: u64) -> Result<()> {
        self.started += 1;
        self.begun = self.now;
        self.moments.clear();
        Ok(())
    }

    fn now(&self) -> Nanos {
        self.now
    }

    fn run_until(&mut self, at: Nanos) -> Result<()> {
        if !self.interrupted.load(Ordering::Relaxed) {
            self.now = self.now.max(at);
        }
        Ok(())
    }

    fn cut(&mut self, _seed: u64) -> Result<()> {
        self.cuts += 1;
        match (self.cuts, self.what) {
            (27, Happens::CutFails) => anyhow::bail!("the device does not answer"),
            (27, Happens::Interrupted) => self.interrupted.store(true, Ordering::Relaxed),
            _ => {}
        }
        let (acked, durable) = (self.ms() * 20, self.durable());
        let at_risk = acked - durable;
        self.moments.push(Moment { at: self.now, flushed: durable * 700, acked, at_risk });
        Ok(())
    }

    fn stop(&mut self) -> Result<Watched> {
        if self.what == Happens::StopFails && self.started == 2 {
            anyhow::bail!("the load had failed");
        }
        let at = |ms: u64| self.begun.after(Nanos::from_millis(ms));
        let flush = |nth: u64| FlushEvent {
            started: at(nth * 51 - 1),
            ended: at(nth * 51),
            from: LogOffset::ZERO,
            upto: LogOffset::ZERO,
            records: (nth * 51 - 1) * 20,
            syncs: 1,
        };
        Ok(Watched {
            acked: (0..=self.ms()).map(|ms| AckSample { at: at(ms), acked: ms * 20 }).collect(),
            flushes: (1..=self.ms() / 51).map(flush).collect(),
            between: Between::Line,
            commits: Vec::new(),
            log_bytes: self.ms() * 20 * 700,
            appended: self.ms() * 20,
        })
    }

    fn look(&mut self, cut: usize) -> Result<Looked> {
        let moment = self.moments[cut];
        let (second, seventh) = (cut.is_multiple_of(2), cut == 6 && self.started == 1);
        if self.what == Happens::InterruptedLater && seventh {
            self.interrupted.store(true, Ordering::Relaxed);
        }
        let lost = moment.at_risk + u64::from(self.what == Happens::ALie && seventh);
        let state = |torn| Look::Recovered { lost, torn, violations: Vec::new() };
        let states = vec![(Keep::Nothing, state(false)), (Keep::Some, state(second))];
        Ok(Looked { moment, states })
    }

    fn finish(&mut self) -> Result<()> {
        self.finished += 1;
        Ok(())
    }
}

/// Counts what it is told.
#[derive(Default)]
struct Told {
    least: Duration,
    started: Vec<String>,
    cuts: u32,
    finished: u32,
}

impl Watch for Told {
    fn planned(&mut self, plan: &Plan) {
        self.least = plan.least;
        assert_eq!(plan.place.kind, PlaceKind::Simulated);
    }

    fn started(&mut self, case: &str, _done: u32) {
        self.started.push(case.to_owned());
    }

    fn cut(&mut self, _cut: &Cut, done: u32) {
        self.cuts = done;
    }

    fn finished(&mut self, _case: &Case) {
        self.finished += 1;
    }
}

struct Ran {
    finished: Finished,
    told: Told,
    results: tempfile::TempDir,
    /// Logs that were started and not stopped.
    left: u32,
    /// How long it took, on its own clock.
    took: Duration,
}

fn order(results: &Path, strategies: &[Strategy], cuts: u32) -> Order {
    Order {
        cases: cases(strategies, &[Duration::from_millis(50)]),
        cuts,
        seed: 42,
        results: results.to_owned(),
        origin: Origin::here(&["test".to_owned()], None),
    }
}

fn ran(strategies: &[Strategy], cuts: u32, what: Happens) -> Ran {
    let results = tempfile::tempdir().unwrap();
    let order = order(results.path(), strategies, cuts);
    let interrupted = AtomicBool::new(false);
    let mut made = Made::new(what, &interrupted);
    let mut told = Told::default();
    let begun = made.now;
    let finished = run(&order, &mut made, &interrupted, &mut told).unwrap();
    let took = Duration::from_nanos(made.now.since(begun).get());
    Ran { finished, told, results, left: made.started - made.finished, took }
}

/// A run on simulated disks.
fn simulated(mut lab: Simulated, strategies: &[Strategy], cuts: u32) -> PowerCuts {
    let results = tempfile::tempdir().unwrap();
    let order = order(results.path(), strategies, cuts);
    let interrupted = AtomicBool::new(false);
    let finished = run(&order, &mut lab, &interrupted, &mut Told::default()).unwrap();
    assert!(finished.error.is_none(), "{:?}", finished.error);
    let (read_again, _) = read(&finished.path).unwrap();
    assert_eq!(read_again, finished.run);
    finished.run
}

#[test]
fn simulated_cuts_lose_what_was_at_risk_and_nothing_that_was_promised() {
    let run = simulated(Simulated::new(None), &Strategy::ALL, 8);
    let again = simulated(Simulated::new(None), &[Strategy::Sync], 8);
    assert_eq!(run.cases[0], again.cases[0], "nothing but the seed decides");
    for case in &run.cases {
        let observed = &case.observed;
        assert_eq!((observed.checked, observed.violated, observed.above_gauge), (8, 0, 0));
        assert_eq!(observed.refused_opens, 0, "{case:?}");
        assert!(case.gauge.age_ns.max <= case.bound.age_ns, "exactly, without any tolerance");
        assert!(case.acked > 1000, "{case:?}");
        // A cut in virtual time comes between two things that happen, not within one.
        assert_eq!(observed.lost_messages, observed.at_risk_messages);
    }
    assert_eq!(run.cases[0].agreement.verdict, Verdict::NothingAtRisk);
    for case in &run.cases[1..] {
        assert!((300..700).contains(&case.gauge.messages.max), "{case:?}");
        assert!(case.observed.lost_messages.max > 0);
    }
}

#[test]
fn a_log_that_lies_is_seen() {
    let lying = Simulated::lying(Lie::WritesBackOnly);
    for case in simulated(lying, &[Strategy::Sync, Strategy::Timed], 4).cases {
        assert!(case.observed.violated > 0 && case.observed.is_bad(), "{case:?}");
        assert!(!case.observed.violations.is_empty());
    }
}

#[test]
fn cuts_at_random_moments_sample_the_gauge() {
    let ran = ran(&[Strategy::Timed], 300, Happens::Nothing);
    assert!(ran.finished.error.is_none() && ran.left == 0);
    assert_eq!(ran.finished.run.outcome, Outcome::Complete);
    assert_eq!((ran.told.cuts, ran.told.finished), (300, 1));
    assert_eq!(ran.told.started, ["timed 50 ms"]);
    assert_eq!(ran.told.least, ran.took, "nothing but windows and what is between them");
    let case = &ran.finished.run.cases[0];
    // Between 20 and 1040 at risk, evenly; over the window of 100 ms not quite.
    assert!((515.0..545.0).contains(&case.gauge.messages.mean), "{:?}", case.gauge);
    assert_eq!(case.gauge.messages.max, 1040);
    assert_eq!(case.agreement.verdict, Verdict::Agrees, "{:?}", case.agreement);
    assert_eq!(case.observed.torn_tails, 150);
    assert_eq!((case.observed.violated, case.observed.above_gauge), (0, 0));
    assert_eq!(case.bound.age_ns, 52_000_000, "50 ms and two syncs of 1 ms");
    assert!(case.bound.held);
    assert_eq!(case.measured_ns, 300 * 100_000_000);
    assert_eq!(case.record_bytes, 700);
    let oldest = case.observed.lost_age_ns.max - case.observed.lost_messages.max * 50_000;
    assert!(oldest < 1_000_000, "{oldest}: messages come by the millisecond");
}

#[test]
fn what_is_written_is_what_was_found() {
    let ran = ran(&[Strategy::Timed, Strategy::Staged], 12, Happens::Nothing);
    let (run, cuts) = read(&ran.finished.path).unwrap();
    assert_eq!(run, ran.finished.run);
    assert_eq!(cuts.len(), 24);
    for (case, cuts) in run.cases.iter().zip(cuts.chunks(12)) {
        assert_eq!(figures::observed(cuts), case.observed);
        assert!(cuts.iter().all(|cut| cut.case == case.case));
        assert!(cuts.iter().all(|cut| cut.at_ns - cut.window_ns < 100_000_000));
        assert!(cuts.iter().flat_map(|cut| &cut.states).all(|state| state.lost_age_ns.is_some()));
    }
    for name in ["report.html", "plots/losses.svg", "env.json"] {
        assert!(fs::metadata(ran.finished.path.join(name)).unwrap().len() > 500, "{name}");
    }
    let latest = ran.results.path().join("latest-powercut/powercut.json");
    assert!(latest.exists());
}

#[test]
fn a_lie_is_a_violation() {
    let ran = ran(&[Strategy::Timed], 12, Happens::ALie);
    let observed = &ran.finished.run.cases[0].observed;
    assert_eq!((observed.violated, observed.above_gauge), (1, 2), "in both states of one cut");
    assert_eq!(ran.finished.run.cases[0].agreement.verdict, Verdict::AboveGauge);
}

#[test]
fn what_was_found_before_an_end_is_kept_and_nothing_is_left_running() {
    for (what, outcome, kept) in [
        // The first log has twenty cuts; what an end in the second cuts short is no sample.
        (Happens::Interrupted, Outcome::Interrupted, 20),
        (Happens::InterruptedLater, Outcome::Interrupted, 7),
        (Happens::CutFails, Outcome::Failed, 20),
        (Happens::StopFails, Outcome::Failed, 20),
    ] {
        let ran = ran(&[Strategy::Timed, Strategy::Staged], 30, what);
        assert_eq!(ran.left, 0);
        assert_eq!(ran.finished.error.is_some(), outcome == Outcome::Failed);
        let (run, cuts) = read(&ran.finished.path).unwrap();
        assert_eq!((run.outcome, run.cases.len()), (outcome, 1));
        assert_eq!(run.cases[0].observed.cuts, kept);
        assert_eq!(cuts.len(), usize::try_from(kept).unwrap());
        assert!(ran.finished.path.join("report.html").exists());
    }
}

#[test]
fn records_of_another_version_are_refused_by_name() {
    let ran = ran(&[Strategy::Timed], 1, Happens::Nothing);
    let change = |file: &str, from: &str, to: &str| {
        let path = ran.finished.path.join(file);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from));
        fs::write(&path, text.replace(from, to)).unwrap();
        let error = read(&ran.finished.path).map(|_| ()).map_err(|error| format!("{error:#}"));
        fs::write(&path, text).unwrap();
        error
    };
    assert_eq!(change("powercut.json", SCHEMA, "flushmark.powercut/1.9"), Ok(()));
    for (file, from, to, expect) in [
        (
            "powercut.json",
            SCHEMA,
            "flushmark.powercut/2.0",
            "powercut.json: schema flushmark.powercut/2.0 is not one that this version reads \
             (flushmark.powercut/1.x)",
        ),
        ("cuts.jsonl", CUT_SCHEMA, "flushmark.cut/10.0", "cuts.jsonl:1: schema flushmark.cut/10.0"),
        ("cuts.jsonl", "\"schema\"", "\"scheme\"", "cuts.jsonl:1: schema none"),
    ] {
        let error = change(file, from, to).unwrap_err();
        assert!(error.contains(expect), "{error}");
    }
    let lines = ran.finished.path.join("cuts.jsonl");
    let whole = fs::read_to_string(&lines).unwrap();
    fs::write(&lines, format!("{whole}{{\"schema\": \"flushm")).unwrap();
    assert_eq!(read(&ran.finished.path).unwrap().1.len(), 1, "a line that was cut is passed over");
}
