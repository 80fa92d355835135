//! Power cuts made up by hand, for the tests of what is shown of them.

use super::figures::{self, Round};
use super::lab::Watched;
use super::plan::{self, CasePlan, Strategy};
use super::results::{CUT_SCHEMA, Cut, End, Keep, Place, PlaceKind, PowerCuts, SCHEMA, State};
use crate::exposure::{AckSample, Between};
use crate::results::{Origin, Outcome};
use std::time::Duration;
use store_core::{LogOffset, Nanos};
use store_os::FlushEvent;

/// A cut at which so much was at risk.
pub(crate) fn cut(at_risk: u64, states: impl IntoIterator<Item = State>) -> Cut {
    Cut {
        schema: CUT_SCHEMA.to_owned(),
        case: "timed 50 ms".to_owned(),
        cut: 0,
        round: 0,
        at_ns: 0,
        window_ns: 0,
        flushed: 0,
        acked: 0,
        at_risk,
        states: states.into_iter().collect(),
    }
}

/// The worst state of a cut, which took so much.
pub(crate) fn recovered(lost: u64) -> State {
    State {
        keep: Keep::Nothing,
        end: End::Recovered,
        lost: Some(lost),
        lost_age_ns: Some(lost * 50_000),
        torn: Some(false),
        error: None,
        violations: Vec::new(),
    }
}

/// A log of 20 000 messages a second for one second, whose sync of 1 ms begins 50 ms after the last
/// one ended and covers what was acknowledged when it began.
pub(crate) fn saw_tooth() -> Watched {
    let sample = |ms: u64| AckSample { at: Nanos::from_millis(ms), acked: ms * 20 };
    let flush = |nth: u64| {
        let started = Nanos::from_millis(nth * 51 - 1);
        FlushEvent {
            started,
            ended: Nanos::from_millis(nth * 51),
            from: LogOffset::ZERO,
            upto: LogOffset::ZERO,
            records: (nth * 51 - 1) * 20,
            syncs: 1,
        }
    };
    Watched {
        acked: (0..=1020).map(sample).collect(),
        flushes: (1..=20).map(flush).collect(),
        between: Between::Line,
        commits: Vec::new(),
        log_bytes: 20_400 * 700,
        appended: 20_400,
    }
}

/// Twenty windows of one such log, whose cuts take `share` of what is at risk.
fn sampled(plan: &CasePlan, share: impl Fn(u64) -> u64) -> (Vec<Cut>, Round) {
    let window = |nth: u64| (Nanos::from_millis(51 + nth * 51), Nanos::from_millis(102 + nth * 51));
    let windows = (0..19).map(window).collect();
    let cuts = (0..190_u64).map(|nth| {
        // Ten moments of each tooth, its middle tenths.
        let at_risk = 71 + nth % 10 * 102;
        let torn =
            State { keep: Keep::Some, torn: Some(nth % 7 == 0), ..recovered(share(at_risk)) };
        let states = [recovered(share(at_risk)), torn];
        Cut { case: plan.name.clone(), ..cut(at_risk, states) }
    });
    let end = Nanos::from_millis(1020);
    (cuts.collect(), Round { watched: saw_tooth(), windows, end })
}

/// A whole run: synchronous flush, timed at two intervals, staged.
pub(crate) fn run() -> PowerCuts {
    let intervals = [50, 500].map(Duration::from_millis);
    let mut plans = plan::cases(&Strategy::ALL, &intervals);
    plans.pop();
    let case = |plan: &CasePlan| {
        let is_sync = plan.strategy == Strategy::Sync;
        let (cuts, mut round) = sampled(plan, |at_risk| if is_sync { 0 } else { at_risk });
        if is_sync {
            round.watched.acked.iter_mut().for_each(|sample| sample.acked = 0);
        }
        figures::case(plan, &cuts, &[round])
    };
    PowerCuts {
        schema: SCHEMA.to_owned(),
        run: "20260309T140559Z-powercut-1a2b3c4d".to_owned(),
        origin: Origin {
            version: "0.0.0".to_owned(),
            revision: Some("0123456789abcdef".to_owned()),
            dirty: Some(false),
            command: ["cargo", "xtask", "powercut"].map(str::to_owned).into(),
        },
        seed: 42,
        place: Place {
            kind: PlaceKind::Emulated,
            fallback: None,
            file_system: Some("ext4 (rw,relatime)".to_owned()),
            disk: "block device in user space, volatile cache, 0.8 ms a flush".to_owned(),
        },
        cuts_planned: 190,
        cases_planned: 4,
        started_at_ms: 1_773_065_159_000,
        ended_at_ms: Some(1_773_065_459_000),
        outcome: Outcome::Complete,
        cases: plans.iter().map(case).collect(),
    }
}

/// The same with all that can go wrong, and strings that try to leave their place.
pub(crate) fn troubled(hostile: &str) -> PowerCuts {
    let mut run = run();
    run.outcome = Outcome::Interrupted;
    run.place = Place {
        kind: PlaceKind::Simulated,
        fallback: Some(format!("no /dev/fuse {hostile}")),
        file_system: None,
        disk: hostile.to_owned(),
    };
    run.origin.revision = None;
    run.run = hostile.to_owned();
    run.origin.command.push(hostile.to_owned());
    let plan = &plan::cases(&[Strategy::Timed], &[Duration::from_millis(50)])[0];
    let (mut cuts, round) = sampled(plan, |at_risk| at_risk / 2);
    cuts[3].states[0].violations = vec![format!("message 7 is lost {hostile}")];
    cuts[4].states[1] = State {
        end: End::Refused,
        lost: None,
        torn: None,
        error: Some(hostile.to_owned()),
        ..recovered(0)
    };
    cuts[5].states[0] = State { end: End::Unmountable, lost: None, torn: None, ..recovered(0) };
    cuts[6].states[0] = recovered(5_000);
    run.cases[1] = figures::case(plan, &cuts, &[round]);
    run.cases[1].bound.held = false;
    run.cases[2] = figures::case(plan, &cuts[..3], &[Round::default()]);
    run.cases[2].case = hostile.to_owned();
    run
}
