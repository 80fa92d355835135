//! Old segments that are deleted while others are written: what a broker does at its `deleteWhen`,
//! four in the morning.
//!
//! `RocketMQ`'s `CleanCommitLogService` deletes whole segments one after the other, a tenth of a
//! second apart (`deleteCommitLogFilesInterval`). Some file systems free a large file's blocks in
//! the call that deletes it, and hold up whoever writes meanwhile.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Result;

use super::old;
use crate::clock::{nanos, now};

/// The old files, and whether they are to be deleted.
#[derive(Debug)]
pub(super) struct Cleaner {
    paths: Vec<PathBuf>,
    each: Duration,
    has_begun: AtomicBool,
    is_over: AtomicBool,
    deleted: AtomicU64,
}

impl Cleaner {
    /// Makes files of so many bytes in `directory`, durable and out of the page cache: as many as
    /// are deleted in `lasts` if there is one in `each`.
    ///
    /// # Errors
    ///
    /// If they cannot be written.
    pub(super) fn create(
        directory: &Path,
        bytes: u64,
        (each, lasts): (Duration, Duration),
        seed: u64,
        interrupted: &AtomicBool,
    ) -> Result<Self> {
        let [has_begun, is_over] = [const { AtomicBool::new(false) }; 2];
        let deleted = AtomicU64::new(0);
        let mut cleaner = Self { paths: Vec::new(), each, has_begun, is_over, deleted };
        for number in 0..count(each, lasts) {
            let path = directory.join(format!("old-segment-{number}"));
            old::write(&path, bytes, seed, interrupted)?;
            cleaner.paths.push(path);
        }
        Ok(cleaner)
    }

    /// Bytes that they take.
    pub(super) fn bytes(segment_bytes: u64, each: Duration, lasts: Duration) -> u64 {
        count(each, lasts).saturating_mul(segment_bytes)
    }

    /// Waits for [`begin`](Self::begin), then deletes one after the other, each when its time has
    /// come, until none is left or it is stopped.
    ///
    /// # Errors
    ///
    /// If one cannot be deleted.
    pub(super) fn run(&self) -> std::io::Result<()> {
        let is_over = || self.is_over.load(Ordering::Relaxed);
        while !self.has_begun.load(Ordering::Relaxed) && !is_over() {
            std::thread::sleep(LOOK);
        }
        let mut due = now();
        for path in &self.paths {
            due = due.after(nanos(self.each));
            while now() < due && !is_over() {
                std::thread::sleep(LOOK.min(Duration::from_nanos(due.since(now()).get())));
            }
            if is_over() {
                break;
            }
            std::fs::remove_file(path)?;
            self.deleted.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// The first is deleted when the time from one to the next has passed from now on.
    pub(super) fn begin(&self) {
        self.has_begun.store(true, Ordering::Relaxed);
    }

    /// Lets [`run`](Self::run) return.
    pub(super) fn stop(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Files deleted so far.
    pub(super) fn deleted(&self) -> u64 {
        self.deleted.load(Ordering::Relaxed)
    }
}

impl Drop for Cleaner {
    fn drop(&mut self) {
        for path in &self.paths {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// How many are deleted in that time.
fn count(each: Duration, lasts: Duration) -> u64 {
    nanos(lasts).get() / nanos(each).get().max(1)
}

/// How often it looks whether it has begun or is over.
const LOOK: Duration = Duration::from_millis(2);

#[cfg(test)]
mod tests {
    use super::*;

    fn made(root: &Path, ms: (u64, u64)) -> Result<Cleaner> {
        let times = (Duration::from_millis(ms.0), Duration::from_millis(ms.1));
        Cleaner::create(root, 4096, times, 1, &AtomicBool::new(false))
    }

    fn files(root: &Path) -> usize {
        std::fs::read_dir(root).unwrap().count()
    }

    #[test]
    fn files_go_one_by_one_until_none_is_left() {
        let root = tempfile::tempdir().unwrap();
        let cleaner = made(root.path(), (1, 3)).unwrap();
        let sizes = std::fs::read_dir(root.path()).unwrap().map(|file| file.unwrap().metadata());
        assert!(sizes.map(|of| of.unwrap().len()).eq([4096; 3]), "as large as asked");
        cleaner.begin();
        let begun = now();
        cleaner.run().unwrap();
        assert!(now().since(begun) >= nanos(Duration::from_millis(3)), "each waits for its time");
        assert_eq!((files(root.path()), cleaner.deleted()), (0, 3));
    }

    #[test]
    fn nothing_is_deleted_before_it_begins_and_what_is_left_goes_in_the_end() {
        let root = tempfile::tempdir().unwrap();
        let cleaner = made(root.path(), (1, 2)).unwrap();
        cleaner.stop();
        cleaner.run().unwrap();
        assert_eq!((files(root.path()), cleaner.deleted()), (2, 0));
        drop(cleaner);
        assert_eq!(files(root.path()), 0);
        let slow = made(root.path(), (3_600_000, 3_600_000)).unwrap();
        slow.begin();
        std::thread::scope(|scope| {
            let running = scope.spawn(|| slow.run());
            slow.stop();
            running.join().unwrap().unwrap();
        });
        assert_eq!((files(root.path()), slow.deleted()), (1, 0));
    }

    #[test]
    fn the_bytes_of_all_files_are_known_before() {
        let [each, lasts] = [500, 3400].map(Duration::from_millis);
        assert_eq!(Cleaner::bytes(1 << 20, each, lasts), 6 << 20);
    }

    #[test]
    fn what_somebody_else_made_stays() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("old-segment-1"), "somebody's").unwrap();
        let refused = made(root.path(), (1, 2)).unwrap_err();
        assert!(format!("{refused:#}").contains("old-segment-1"), "{refused:#}");
        assert_eq!(files(root.path()), 1, "and of ours nothing");
    }

    #[test]
    fn an_interruption_ends_what_is_being_made() {
        let root = tempfile::tempdir().unwrap();
        let (each, lasts) = (Duration::from_millis(1), Duration::from_millis(2));
        let interrupted = AtomicBool::new(true);
        let cleaner = Cleaner::create(root.path(), 1 << 40, (each, lasts), 1, &interrupted);
        drop(cleaner.unwrap());
        assert_eq!(files(root.path()), 0);
    }
}
