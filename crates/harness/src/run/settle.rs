//! The quiet before a cell: little dirty, and nobody else at work.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::fs::syncfs;

use crate::clock::{float, nanos, now};
use crate::machine::{Pressure, Waited};
use crate::profile::Sweep;
use crate::results::{Check, Level};
use crate::{format, vmstat};

/// Waits until little is dirty, so that no cell pays for the one before, and then as long as the
/// sweep says; what if it does not come to that, or if others were at work meanwhile.
pub(super) fn settle(directory: &Path, sweep: &Sweep, interrupted: &AtomicBool) -> Vec<Check> {
    let drained = drain(directory, sweep.drain_dirty_below_bytes, interrupted);
    let (begun, before) = (now(), Waited::now());
    let rested = begun.after(nanos(sweep.settle));
    while now() < rested && !interrupted.load(Ordering::Relaxed) {
        let left = Duration::from_nanos(rested.since(now()).get());
        thread::sleep(left.min(Duration::from_millis(20)));
    }
    let is_long = LEAST_REST <= sweep.settle;
    let waited = before.zip(Waited::now()).filter(|_| is_long);
    let waited = waited.map(|(before, after)| after.since(before, now().since(begun).get()));
    drained.into_iter().chain(waited.map(quiet)).collect()
}

fn drain(directory: &Path, most: u64, interrupted: &AtomicBool) -> Option<Check> {
    let patience = now().after(nanos(DRAIN_PATIENCE));
    let at_risk = || vmstat::pages().map(|pages| pages.at_risk_bytes());
    let mut found = at_risk()?;
    while found >= most && now() < patience && !interrupted.load(Ordering::Relaxed) {
        // A sync that fails is for the log to find.
        let _ = std::fs::File::open(directory).map(syncfs);
        thread::sleep(Duration::from_millis(20));
        found = at_risk()?;
    }
    Some(Check {
        code: "drained".to_owned(),
        level: if found < most { Level::Pass } else { Level::Warn },
        value: format::bytes(float(found)),
        rule: format!("less than {} was dirty when the cell began", format::bytes(float(most))),
    })
}

/// What waits while this process does nothing waits for somebody else.
fn quiet(Pressure { io_pct, processor_pct }: Pressure) -> Check {
    let level = if io_pct.max(processor_pct) > MOST_WAITED_PCT { Level::Warn } else { Level::Pass };
    Check {
        code: "idle_pressure".to_owned(),
        level,
        value: format!("{io_pct:.1} % for a disk, {processor_pct:.1} % for a processor"),
        rule: format!(
            "before the cell, while this program did nothing, others waited for at most \
             {MOST_WAITED_PCT} % of the time"
        ),
    }
}

/// How long what is dirty may take to be written before a cell begins all the same.
const DRAIN_PATIENCE: Duration = Duration::from_secs(30);
/// A shorter rest tells nothing.
const LEAST_REST: Duration = Duration::from_millis(200);
const MOST_WAITED_PCT: f64 = 5.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_while_nothing_is_measured_is_warned_of() {
        let level = |io_pct, processor_pct| quiet(Pressure { io_pct, processor_pct }).level;
        assert_eq!(level(5.0, 5.0), Level::Pass);
        assert_eq!(level(5.1, 0.0), Level::Warn);
        assert_eq!(level(0.0, 5.1), Level::Warn);
    }

    #[test]
    fn what_stays_dirty_is_said_and_an_interrupted_wait_ends() {
        let directory = tempfile::tempdir().unwrap();
        let interrupted = AtomicBool::new(true);
        let level = |most| drain(directory.path(), most, &interrupted).map(|check| check.level);
        if vmstat::pages().is_some() {
            assert_eq!((level(0), level(u64::MAX)), (Some(Level::Warn), Some(Level::Pass)));
        }
    }
}
