//! A file as it was written long ago: whole, durable, and out of the page cache.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use rustix::fs::{Advice, fadvise};

use crate::random::Random;

/// Makes a new file of so many bytes; a shorter one if it is interrupted, none if it fails.
///
/// # Errors
///
/// If it is there already, or cannot be written.
pub(super) fn write(path: &Path, bytes: u64, seed: u64, interrupted: &AtomicBool) -> Result<File> {
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(path);
    let file = file.with_context(|| format!("make {}", path.display()))?;
    let filled = fill(&file, bytes, seed, interrupted);
    if filled.is_err() {
        // What failed first is the cause.
        let _ = std::fs::remove_file(path);
    }
    filled.with_context(|| format!("fill {}", path.display()))?;
    Ok(file)
}

fn fill(file: &File, bytes: u64, seed: u64, interrupted: &AtomicBool) -> Result<()> {
    let mut piece = vec![0; PIECE];
    Random::new(seed).fill(&mut piece);
    let mut at = 0;
    while at < bytes && !interrupted.load(Ordering::Relaxed) {
        let left = usize::try_from(bytes - at).unwrap_or(PIECE).min(PIECE);
        file.write_all_at(&piece[..left], at)?;
        at += store_core::length_u64(left);
    }
    file.sync_all()?;
    fadvise(file, 0, None, Advice::DontNeed)?;
    Ok(())
}

/// What is written, and read by a consumer, at a time: several messages in one.
pub(super) const PIECE: usize = 256 << 10;
