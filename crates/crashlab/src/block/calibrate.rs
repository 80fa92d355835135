//! Whether an emulated disk takes the time it was asked to.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use store_os::monotonic;

use super::disk::PowerDisk;
use super::error::Error;
use super::timing::Timing;

/// What a small write and its sync take on an emulated disk, as medians.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Calibration {
    /// On the disk that is emulated.
    pub asked: Duration,
    /// With a disk that takes no time at all: what file system, loop driver and server take.
    pub floor: Duration,
    /// On the emulated disk, from which that was taken off.
    pub obtained: Duration,
}

/// A disk is too fast to be emulated here: less than twice of what an instant one takes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FloorLimited {
    /// What a small write and its sync take on the disk that is emulated.
    pub asked: Duration,
    /// What they take here with a disk that takes no time at all.
    pub floor: Duration,
}

impl fmt::Display for FloorLimited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "syncs of {:?} cannot be emulated where they take {:?} on a disk that takes no time: \
             it must be twice that at least",
            self.asked, self.floor
        )
    }
}

impl std::error::Error for FloorLimited {}

impl PowerDisk {
    /// Makes the disk as slow as `timing` says, less what the machine takes by itself, and measures
    /// what became of it, with a file in `directory`, which lies on the disk. What is off by more
    /// than a twentieth is corrected and measured again, up to twice; the nearest is kept.
    ///
    /// # Errors
    ///
    /// [`Error::TooFast`] if the machine takes too large a part; the disk takes no time then.
    /// Otherwise if the file cannot be written, or the disk's process is gone.
    pub fn calibrate(&self, timing: Timing, directory: &Path) -> Result<Calibration, Error> {
        let path = directory.join("calibration");
        let failed = |source| Error::system("write", &path, source);
        let file = prepare(&path).map_err(failed)?;
        self.set_timing(Timing::INSTANT)?;
        let floor = floor(&file).map_err(failed)?;
        let asked = timing.sync(BLOCK);
        if asked < floor * 2 {
            let _ = std::fs::remove_file(&path);
            return Err(Error::TooFast(FloorLimited { asked, floor }));
        }
        let rounds = ROUNDS_FOR.as_nanos().checked_div(asked.as_nanos()).unwrap_or(0);
        let rounds = u32::try_from(rounds).unwrap_or(FLOOR_ROUNDS).clamp(9, FLOOR_ROUNDS);
        // A request that waits also has to wake up, which the floor does not have in it.
        let mut taken = floor;
        let mut best: Option<(Duration, Duration)> = None;
        for _ in 0..TRIES {
            self.set_timing(without(timing, taken))?;
            let obtained = median_sync(&file, rounds).map_err(failed)?;
            let is_better =
                |(_, so_far): (_, Duration)| obtained.abs_diff(asked) < so_far.abs_diff(asked);
            if best.is_none_or(is_better) {
                best = Some((taken, obtained));
            }
            if obtained.abs_diff(asked) * CLOSE <= asked {
                break;
            }
            // What else runs on the machine is no reason to make a disk that takes no time.
            taken = (taken + obtained).saturating_sub(asked).min(asked / 2);
        }
        let (taken, obtained) = best.expect("it is tried at least once");
        self.set_timing(without(timing, taken))?;
        std::fs::remove_file(&path).map_err(failed)?;
        Ok(Calibration { asked, floor, obtained })
    }
}

/// `timing` with `floor` taken off write and flush, by their share.
fn without(timing: Timing, floor: Duration) -> Timing {
    let latency = timing.write + timing.flush;
    let rest = latency.saturating_sub(floor).as_nanos();
    let share = |part: Duration| {
        let nanos = (part.as_nanos() * rest).checked_div(latency.as_nanos()).unwrap_or(0);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    };
    Timing { write: share(timing.write), flush: share(timing.flush), ..timing }
}

/// The least of several medians: what else runs for a moment is not the disk's.
fn floor(file: &File) -> io::Result<Duration> {
    let mut least = Duration::MAX;
    for _ in 0..FLOOR_PARTS {
        least = least.min(median_sync(file, FLOOR_ROUNDS / FLOOR_PARTS)?);
    }
    Ok(least)
}

fn prepare(path: &Path) -> io::Result<File> {
    let file = File::options().read(true).write(true).create(true).truncate(true).open(path)?;
    let block = [1; 4096];
    for at in 0..BLOCKS {
        file.write_all_at(&block, at * BLOCK)?;
    }
    file.sync_all()?;
    Ok(file)
}

/// The median time of a write of 4 KiB in place and its `fdatasync`.
fn median_sync(file: &File, rounds: u32) -> io::Result<Duration> {
    let mut times = Vec::new();
    for round in 0..u64::from(rounds) {
        let begun = monotonic();
        file.write_all_at(&[2; 4096], round % BLOCKS * BLOCK)?;
        file.sync_data()?;
        times.push(monotonic().since(begun));
    }
    times.sort_unstable();
    Ok(Duration::from_nanos(times.get(times.len() / 2).map_or(0, |median| median.get())))
}

const BLOCK: u64 = 4096;
const BLOCKS: u64 = 64;
const FLOOR_ROUNDS: u32 = 200;
const FLOOR_PARTS: u32 = 5;
const ROUNDS_FOR: Duration = Duration::from_secs(2);
/// How often what is taken off is corrected, at most.
const TRIES: u32 = 3;
/// One part in so many that it may be off without being corrected.
const CLOSE: u32 = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_machine_takes_is_taken_off_by_share() {
        let micros = Duration::from_micros;
        let timing = Timing { write: micros(100), flush: micros(300), ..Timing::INSTANT };
        let rest = without(timing, micros(40));
        assert_eq!((rest.write, rest.flush), (micros(90), micros(270)));
        assert_eq!(without(Timing::INSTANT, micros(1)), Timing::INSTANT);
    }
}
