//! A failing run made smaller: fewer lives, faults and messages, and simpler ones.

use store_core::Nanos;
use store_os::Preallocate;

use crate::sim::finding::{Failure, Finding, Wrong};
use crate::sim::lies::Lie;
use crate::sim::plan::{Life, Plan};
use crate::sim::run::run;
use crate::sim::timing::Timing;

/// Looks for a smaller plan that fails in the same way.
///
/// A smaller plan meets other chances, so each is tried with several seeds of its own, and more
/// crash states. The same failure gives the same plan again.
pub fn shrink(failure: &Failure, lie: Option<Lie>) -> Failure {
    let mut search = Search { lie, best: failure.clone(), left: MOST_RUNS };
    search.accept(Plan { lives: lives_upto(failure), ..failure.plan.clone() });
    while search.left > 0 && search.round() {}
    search.best
}

struct Search {
    lie: Option<Lie>,
    best: Failure,
    /// How many runs may still be made.
    left: u32,
}

impl Search {
    /// Tries each way of making the plan smaller once; whether one did.
    fn round(&mut self) -> bool {
        let mut is_smaller = false;
        for way in ways() {
            for place in 0.. {
                let mut plan = self.best.plan.clone();
                match way(&mut plan, place) {
                    Tried::Done => break,
                    Tried::Nothing => {}
                    Tried::Smaller if plan == self.best.plan => {}
                    Tried::Smaller => is_smaller |= self.accept(plan),
                }
            }
        }
        is_smaller
    }

    /// Takes the plan if it fails in the same way.
    fn accept(&mut self, mut plan: Plan) -> bool {
        let first = plan.seed;
        for life in &mut plan.lives {
            life.states = life.states.max(STATES);
        }
        for chance in 0..CHANCES {
            if self.left == 0 {
                return false;
            }
            self.left -= 1;
            plan.seed = first.wrapping_add(chance);
            if let Some(finding) = self.first_like(&plan) {
                self.best = Failure { plan, finding, ..self.best };
                return true;
            }
        }
        false
    }

    fn first_like(&self, plan: &Plan) -> Option<Finding> {
        let wrong: &Wrong = &self.best.finding.wrong;
        run(plan, self.lie).findings.into_iter().find(|finding| finding.wrong.is_like(wrong))
    }
}

fn lives_upto(failure: &Failure) -> Vec<Life> {
    failure.plan.lives.iter().take(failure.finding.life + 1).cloned().collect()
}

/// What a way of making a plan smaller did at one place.
enum Tried {
    /// There is no such place.
    Done,
    /// It is as small as it can be there.
    Nothing,
    Smaller,
}

type Way = fn(&mut Plan, usize) -> Tried;

fn ways() -> [Way; 6] {
    [fewer_lives, fewer_faults, fewer_appends, simpler_lives, simpler_shape, simpler_disk]
}

fn fewer_lives(plan: &mut Plan, place: usize) -> Tried {
    if plan.lives.len() <= place {
        return Tried::Done;
    }
    if plan.lives.len() == 1 {
        return Tried::Nothing;
    }
    plan.lives.remove(place);
    Tried::Smaller
}

fn fewer_faults(plan: &mut Plan, place: usize) -> Tried {
    let mut place = place;
    for life in &mut plan.lives {
        if place < life.faults.len() {
            life.faults.remove(place);
            return Tried::Smaller;
        }
        place -= life.faults.len();
    }
    Tried::Done
}

fn fewer_appends(plan: &mut Plan, place: usize) -> Tried {
    let Some(life) = plan.lives.get_mut(place / 3) else { return Tried::Done };
    let appends = match place % 3 {
        0 => life.appends / 4,
        1 => life.appends / 2,
        _ => life.appends.saturating_sub(1),
    };
    life.appends = appends.max(1);
    Tried::Smaller
}

fn simpler_lives(plan: &mut Plan, place: usize) -> Tried {
    let Some(life) = plan.lives.get_mut(place / 6) else { return Tried::Done };
    match place % 6 {
        0 => life.batch_in_thousand = 0,
        1 => life.burst_in_thousand = 0,
        2 => life.closes = false,
        3 => life.rest = Nanos::default(),
        4 => life.wait_in_thousand = 1000,
        _ => life.outstanding = 1,
    }
    Tried::Smaller
}

fn simpler_shape(plan: &mut Plan, place: usize) -> Tried {
    match place {
        0 => plan.shape.producers = 1,
        1 => (plan.shape.min_body, plan.shape.max_body) = (16, 16),
        2 => plan.shape.max_body = plan.shape.min_body,
        3 => plan.segment_bytes = 4096,
        _ => return Tried::Done,
    }
    Tried::Smaller
}

fn simpler_disk(plan: &mut Plan, place: usize) -> Tried {
    let quick = Timing {
        sync: Nanos::from_micros(100),
        bytes_per_second: 0,
        jitter: Nanos::default(),
        stuck_in_thousand: 0,
        stuck: Nanos::default(),
        commit: Nanos::default(),
        allocate: Nanos::default(),
    };
    match place {
        0 => plan.timing = quick,
        1 => plan.timing.stuck_in_thousand = 0,
        2 => plan.short_writes = 0,
        3 => plan.preallocate = Preallocate::Fallocate,
        4 => plan.keep_every = Nanos::from_millis(1000),
        5 => plan.spare_staging_bytes = 0,
        _ => return Tried::Done,
    }
    Tried::Smaller
}

/// Seeds that each smaller plan is tried with.
const CHANCES: u64 = 8;
/// Crash states of each life of a smaller plan.
const STATES: u32 = 20;
/// All runs of a search.
const MOST_RUNS: u32 = 3000;
