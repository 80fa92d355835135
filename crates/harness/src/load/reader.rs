//! A reader of what was written long ago: it disturbs who writes, as a consumer that lags behind.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use anyhow::Result;
use rustix::fs::{Advice, fadvise};

use super::old::{self, PIECE};

/// Old bytes on the disk that is measured, and whether they are to be read on.
#[derive(Debug)]
pub(super) struct Reader {
    path: PathBuf,
    file: File,
    is_over: AtomicBool,
    /// So far.
    read_bytes: AtomicU64,
}

impl Reader {
    /// Makes the old bytes in `directory`, durable and out of the page cache.
    ///
    /// # Errors
    ///
    /// If they cannot be written.
    pub(super) fn create(directory: &Path, seed: u64, interrupted: &AtomicBool) -> Result<Self> {
        let path = directory.join("history");
        let file = old::write(&path, READ_BYTES, seed, interrupted)?;
        Ok(Self { path, file, is_over: AtomicBool::new(false), read_bytes: AtomicU64::new(0) })
    }

    /// Reads piece after piece, each from the disk, until it is stopped.
    ///
    /// # Errors
    ///
    /// If a read fails.
    pub(super) fn run(&self) -> std::io::Result<()> {
        let mut piece = vec![0; PIECE];
        let len = store_core::length_u64(PIECE);
        for number in (0..PIECES).cycle() {
            if self.is_over.load(Ordering::Relaxed) {
                break;
            }
            self.file.read_exact_at(&mut piece, number * len)?;
            self.read_bytes.fetch_add(len, Ordering::Relaxed);
            // The next time round it must come from the disk again.
            fadvise(&self.file, number * len, std::num::NonZeroU64::new(len), Advice::DontNeed)?;
        }
        Ok(())
    }

    /// Takes back an earlier [`stop`](Self::stop), for another cell of a search.
    pub(super) fn renew(&self) {
        self.is_over.store(false, Ordering::Relaxed);
    }

    /// Lets [`run`](Self::run) return.
    pub(super) fn stop(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

const PIECES: u64 = 1024;
/// The old bytes: more than disks read ahead.
pub(super) const READ_BYTES: u64 = PIECES * (256 << 10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_until_it_is_stopped_and_leaves_nothing_behind() {
        let root = tempfile::tempdir().unwrap();
        let reader = Reader::create(root.path(), 1, &AtomicBool::new(false)).unwrap();
        std::thread::scope(|scope| {
            let reading = scope.spawn(|| reader.run());
            while reader.read_bytes.load(Ordering::Relaxed) < 4 * store_core::length_u64(PIECE) {
                std::thread::yield_now();
            }
            reader.stop();
            reading.join().unwrap().unwrap();
        });
        drop(reader);
        assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0);
    }
}
