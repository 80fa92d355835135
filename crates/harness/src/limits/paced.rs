//! Records that come at a given rate: each has a moment at which it is due, and its time counts
//! from there.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use hdrhistogram::Histogram;
use rustix::fs::{FallocateFlags, fallocate};
use store_core::{Message, Nanos, Wait};

use super::bulk::{LOOK_EACH, Plan, SEED, records_bytes, settings, syncing, watched};
use super::cases::FILE_BYTES;
use super::clocked::{Bench, Cost, Measured};
use super::{Bulk, Contender, Work, ours};
use crate::clock::{float, nanos, now, round};
use crate::distribution::times;
use crate::load::Bodies;
use crate::profile::Settings;
use crate::recorder::Recorder;
use crate::results::Dirty;

/// How fast records come, and how many.
#[derive(Clone, Copy, Debug)]
struct Pace {
    per_s: u64,
    records: u64,
    /// The first of them, which are not timed.
    warm: u64,
}

impl Pace {
    /// [`SHARE`] of what is sustained, for [`LONGER`] than others are measured: a flush each half
    /// second shows only over several.
    fn new(bench: &Bench<'_>, sustained_per_s: f64, most: u64) -> Self {
        let per_s = round(SHARE * sustained_per_s).max(1);
        let count = |time: Duration| {
            round(float(nanos(time).get()) / 1e9 * float(per_s)).saturating_mul(LONGER)
        };
        let warm = count(bench.warmup).min(most / 4);
        Self { per_s, records: (warm + count(bench.measure)).min(most), warm }
    }

    /// When a record is due, from the first on.
    fn due(self, record: u64) -> Nanos {
        let ns = u128::from(record) * 1_000_000_000 / u128::from(self.per_s);
        Nanos::new(u64::try_from(ns).unwrap_or(u64::MAX))
    }
}

/// Records at 0.7 of what the log sustains, into the page cache, with a flush each half second.
pub(super) fn measure(
    bench: &Bench<'_>,
    plan: &mut Plan,
    work: Work,
    root: &Path,
    contender: Contender,
) -> Result<Option<Measured>> {
    let Some(sustained) = plan.sustained_per_s(bench, work, root)? else { return Ok(None) };
    let most = plan.paced_bytes / store_core::length_u64(work.record_bytes);
    let pace = Pace::new(bench, sustained, most);
    let found = match contender {
        Contender::Async | Contender::Positioned | Contender::Staged => {
            logged(bench, work, root, pace, &settings(bench, contender)?)
        }
        _ => written(bench, work, root, pace),
    };
    found.map(Some)
}

/// Does `append` for each record when it is due, or as soon after as those before let it.
fn on_time<E>(
    bench: &Bench<'_>,
    pace: Pace,
    mut append: impl FnMut(usize) -> Result<(), E>,
) -> Result<Timed, E> {
    let mut times = times();
    let begun = now();
    for (record, index) in (0..pace.records).zip(0_usize..) {
        if index.is_multiple_of(LOOK_EACH) && bench.interrupted.load(Ordering::Relaxed) {
            break;
        }
        let due = begun.after(pace.due(record));
        wait_until(due);
        append(index)?;
        if pace.warm <= record {
            times.saturating_record(now().since(due).get());
        }
    }
    Ok(Timed { times, took: now().since(begun) })
}

struct Timed {
    times: Histogram<u64>,
    took: Nanos,
}

/// Sleeping on wakes too late, so the last of it is spent looking at the clock.
fn wait_until(due: Nanos) {
    loop {
        let at = now();
        if due <= at {
            return;
        }
        match Duration::from_nanos(due.since(at).get()).checked_sub(WAKES_LATE) {
            Some(sleep) => thread::sleep(sleep),
            None => std::hint::spin_loop(),
        }
    }
}

/// The log, which flushes each half second.
fn logged(
    bench: &Bench<'_>,
    work: Work,
    root: &Path,
    pace: Pace,
    settings: &Settings,
) -> Result<Measured> {
    let log = ours::open_observed(root, settings, FILE_BYTES, &Arc::<Recorder>::default())?;
    let queue = ours::queue(&log, 0)?;
    let bodies = Bodies::new(SEED, work.message_bytes);
    let before = bench.cost();
    let (timed, dirty) = watched(|| {
        let timed = on_time(bench, pace, |index| -> Result<()> {
            let message = Message { body: bodies.get(index), ..Message::default() };
            log.append_and_wait(&queue, &message, Wait::Yes)??;
            Ok(())
        });
        if bench.interrupted.load(Ordering::Relaxed) {
            log.abandon();
        } else {
            // The device gets the rest too, so that what it is given can be compared.
            log.close()?;
        }
        timed
    });
    Ok(paced(bench, work, pace, timed?, before, dirty))
}

/// `pwrite` into reserved space, and a thread that makes durable what came.
///
/// A copy into a mapping and `msync` of what is new would be nearer to the log, but takes unsafe
/// code, which is `map.rs`'s alone.
fn written(bench: &Bench<'_>, work: Work, root: &Path, pace: Pace) -> Result<Measured> {
    let at = || format!("write {}", root.display());
    let file = OpenOptions::new().write(true).create_new(true).open(root).with_context(at)?;
    let bytes = records_bytes(pace.records, work);
    fallocate(&file, FallocateFlags::empty(), 0, bytes).with_context(at)?;
    file.sync_all().with_context(at)?;
    let bodies = Bodies::new(SEED, work.record_bytes);
    let record_bytes = store_core::length_u64(work.record_bytes);
    let before = bench.cost();
    let (timed, dirty) = watched(|| {
        syncing(&file, || {
            on_time(bench, pace, |index| {
                let offset = u64::try_from(index).unwrap_or(u64::MAX) * record_bytes;
                file.write_all_at(bodies.get(index), offset)
            })
        })
    });
    let timed = timed.with_context(at)?;
    Ok(paced(bench, work, pace, timed, before, dirty))
}

fn paced(
    bench: &Bench<'_>,
    work: Work,
    pace: Pace,
    timed: Timed,
    before: Cost,
    dirty: Option<Dirty>,
) -> Measured {
    let bytes = records_bytes(pace.records, work);
    Measured {
        records: pace.records,
        took: timed.took,
        times: Some(timed.times),
        cost: bench.cost().since(before),
        offered_per_s: Some(pace.per_s),
        bulk: Some(Bulk { bytes, read_bytes: None, dirty }),
    }
}

/// Of what is sustained.
const SHARE: f64 = 0.7;
/// Than other cases are measured.
const LONGER: u64 = 4;
/// What a sleeping thread may be late on an idle machine, and some more.
const WAKES_LATE: Duration = Duration::from_micros(200);

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn a_record_is_late_by_what_held_up_those_before_it() {
        let interrupted = AtomicBool::new(false);
        let bench = Bench {
            directory: Path::new("."),
            device: None,
            warmup: Duration::ZERO,
            measure: Duration::from_millis(1),
            interrupted: &interrupted,
        };
        let pace = Pace::new(&bench, 1000.0 / SHARE * 5.0, u64::MAX);
        assert_eq!((pace.per_s, pace.records, pace.warm), (5000, 20, 0));
        assert_eq!(pace.due(10), Nanos::from_millis(2));
        let stall = Duration::from_millis(10);
        let late = on_time(&bench, pace, |index| -> Result<()> {
            if index == 0 {
                let until = now().after(nanos(stall));
                while now() < until {}
            }
            Ok(())
        });
        let times = late.unwrap().times;
        assert_eq!(times.len(), 20);
        // All twenty are due within 4 ms, in which none but the first could be appended.
        assert!(Nanos::from_millis(6) <= Nanos::new(times.min()), "{}", times.min());
    }

    #[test]
    fn a_pace_never_asks_for_more_than_there_is_room_for() {
        let interrupted = AtomicBool::new(false);
        let bench = Bench {
            directory: Path::new("."),
            device: None,
            warmup: Duration::from_mins(1),
            measure: Duration::from_mins(1),
            interrupted: &interrupted,
        };
        let pace = Pace::new(&bench, 1e9, 1000);
        assert_eq!((pace.records, pace.warm), (1000, 250));
        assert_eq!(Pace::new(&bench, 0.0, 1000).per_s, 1);
    }
}
