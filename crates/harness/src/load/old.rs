//! A file as it was written long ago: whole, durable, and out of the page cache.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, Result};
use rustix::fs::{Advice, fadvise};

use crate::random::Random;

/// Makes a new file of so many bytes, rounded up to whole [`PIECE`]s.
///
/// # Errors
///
/// If it is there already, or cannot be written.
pub(super) fn write(path: &Path, bytes: u64, seed: u64) -> Result<File> {
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(path);
    let file = file.with_context(|| format!("make {}", path.display()))?;
    fill(&file, bytes, seed).with_context(|| format!("fill {}", path.display()))?;
    Ok(file)
}

fn fill(file: &File, bytes: u64, seed: u64) -> Result<()> {
    let mut piece = vec![0; PIECE];
    Random::new(seed).fill(&mut piece);
    let len = store_core::length_u64(PIECE);
    for number in 0..bytes.div_ceil(len) {
        file.write_all_at(&piece, number * len)?;
    }
    file.sync_all()?;
    fadvise(file, 0, None, Advice::DontNeed)?;
    Ok(())
}

/// What is written, and read by a consumer, at a time: several messages in one.
pub(super) const PIECE: usize = 256 << 10;
