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

/// The old files, and whether they are to be deleted on.
#[derive(Debug)]
pub(super) struct Cleaner {
    paths: Vec<PathBuf>,
    each: Duration,
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
        each: Duration,
        lasts: Duration,
        seed: u64,
    ) -> Result<Self> {
        let path = |number| directory.join(format!("old-segment-{number}"));
        let paths = (0..count(each, lasts)).map(path).collect();
        // Those that are there are removed again if one cannot be made.
        let cleaner =
            Self { paths, each, is_over: AtomicBool::new(false), deleted: AtomicU64::new(0) };
        for path in &cleaner.paths {
            old::write(path, bytes, seed)?;
        }
        Ok(cleaner)
    }

    /// Bytes that they take.
    pub(super) fn bytes(segment_bytes: u64, each: Duration, lasts: Duration) -> u64 {
        count(each, lasts).saturating_mul(segment_bytes)
    }

    /// Deletes one after the other, each when its time has come, until none is left or it is
    /// stopped.
    ///
    /// # Errors
    ///
    /// If one cannot be deleted.
    pub(super) fn run(&self) -> std::io::Result<()> {
        let mut due = now();
        for path in &self.paths {
            due = due.after(nanos(self.each));
            while now() < due {
                if self.is_over.load(Ordering::Relaxed) {
                    return Ok(());
                }
                std::thread::sleep(LOOK.min(Duration::from_nanos(due.since(now()).get())));
            }
            std::fs::remove_file(path)?;
            self.deleted.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
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
    let count = nanos(lasts).get() / nanos(each).get().max(1);
    count.max(1)
}

/// How often it looks whether it is over.
const LOOK: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use super::*;

    fn files(root: &Path) -> usize {
        std::fs::read_dir(root).unwrap().count()
    }

    #[test]
    fn files_go_one_by_one_until_none_is_left() {
        let root = tempfile::tempdir().unwrap();
        let [each, lasts] = [1, 3].map(Duration::from_millis);
        let cleaner = Cleaner::create(root.path(), 4096, each, lasts, 1).unwrap();
        assert_eq!((files(root.path()), cleaner.deleted()), (3, 0));
        let begun = now();
        cleaner.run().unwrap();
        assert!(now().since(begun) >= nanos(lasts), "each waits for its time");
        assert_eq!((files(root.path()), cleaner.deleted()), (0, 3));
    }

    #[test]
    fn what_is_not_deleted_in_time_is_removed_in_the_end() {
        let root = tempfile::tempdir().unwrap();
        let [each, lasts] = [3_600_000, 7_200_000].map(Duration::from_millis);
        let cleaner = Cleaner::create(root.path(), 4096, each, lasts, 1).unwrap();
        cleaner.stop();
        cleaner.run().unwrap();
        assert_eq!((files(root.path()), cleaner.deleted()), (2, 0));
        drop(cleaner);
        assert_eq!(files(root.path()), 0);
    }

    #[test]
    fn the_bytes_of_all_files_are_known_before() {
        let [each, lasts] = [500, 3500].map(Duration::from_millis);
        assert_eq!(Cleaner::bytes(1 << 20, each, lasts), 7 << 20);
        assert_eq!(Cleaner::bytes(1 << 20, lasts, each), 1 << 20, "one at least");
        let root = tempfile::tempdir().unwrap();
        let taken = root.path().join("old-segment-1");
        std::fs::write(&taken, "somebody's").unwrap();
        assert!(Cleaner::create(root.path(), 4096, each, lasts, 1).is_err());
    }
}
