//! A file that was written before, as the log's own segments are, and the ways to write it durably.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;

use anyhow::{Context, Result};
use rustix::fs::OFlags;
use store_os::MappedFile;

use super::Contender;

/// Where bytes go that are durable when the call returns.
pub(super) trait Sink: Send {
    /// Writes `bytes` behind the last, going round at the file's end.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
}

/// A fresh file of `bytes` at `path`, written as `contender` does; `None` on a file system without
/// `O_DIRECT`.
pub(super) fn sink(path: &Path, contender: Contender, bytes: u64) -> Result<Option<Box<dyn Sink>>> {
    let flags = match contender {
        Contender::Direct => OFlags::DIRECT | OFlags::DSYNC,
        Contender::Dsync => OFlags::DSYNC,
        _ => OFlags::empty(),
    };
    let open = || {
        fill(path, bytes)?;
        let flags = flags.bits().cast_signed();
        // A mapping for writing wants a descriptor for reading as well.
        let reads = contender == Contender::Msync;
        OpenOptions::new().read(reads).write(true).custom_flags(flags).open(path)
    };
    let file = match open() {
        Err(error)
            if contender == Contender::Direct && error.kind() == io::ErrorKind::InvalidInput =>
        {
            return Ok(None);
        }
        opened => opened.with_context(|| format!("make {}", path.display()))?,
    };
    Ok(Some(match contender {
        Contender::Direct => {
            Box::new(Direct { file, bytes, at: 0, block: Blocks::new(), filled: 0 })
        }
        Contender::Msync => {
            let len = usize::try_from(bytes)?;
            let file = MappedFile::new(file, len).context("map the file")?;
            Box::new(Mapped { file, len, at: 0 })
        }
        Contender::Dsync => Box::new(Positioned { file, bytes, at: 0, syncs: false }),
        _ => Box::new(Positioned { file, bytes, at: 0, syncs: true }),
    }))
}

/// Zeroes in writes of 4 KiB: in larger ones the page cache would use larger folios, on which small
/// writes are slow.
fn fill(path: &Path, bytes: u64) -> io::Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).open(path)?;
    let zeroes = [0; BLOCK];
    for block in 0..bytes / store_core::length_u64(BLOCK) {
        file.write_all_at(&zeroes, block * store_core::length_u64(BLOCK))?;
    }
    file.sync_all()
}

struct Positioned {
    file: File,
    bytes: u64,
    at: u64,
    /// Else the descriptor does.
    syncs: bool,
}

impl Sink for Positioned {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let len = store_core::length_u64(bytes.len());
        if self.bytes < self.at + len {
            self.at = 0;
        }
        self.file.write_all_at(bytes, self.at)?;
        self.at += len;
        if self.syncs { self.file.sync_data() } else { Ok(()) }
    }
}

struct Mapped {
    file: MappedFile,
    len: usize,
    at: usize,
}

impl Sink for Mapped {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.len < self.at + bytes.len() {
            self.at = 0;
        }
        self.file.write_durably(self.at, bytes)?;
        self.at += bytes.len();
        Ok(())
    }
}

/// Whole blocks from aligned memory; the last, which is not full, is written again with what
/// follows.
struct Direct {
    file: File,
    bytes: u64,
    at: u64,
    block: Blocks,
    /// Bytes of the block at `at` that were written before.
    filled: usize,
}

impl Sink for Direct {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let end = self.filled + bytes.len();
        let padded = end.next_multiple_of(BLOCK);
        if self.bytes < self.at + store_core::length_u64(padded) {
            (self.at, self.filled) = (0, 0);
            return self.append(bytes);
        }
        let blocks = self.block.first(padded, self.filled);
        blocks[self.filled..end].copy_from_slice(bytes);
        blocks[end..].fill(0);
        self.file.write_all_at(blocks, self.at)?;
        let whole = end / BLOCK * BLOCK;
        blocks.copy_within(whole..end, 0);
        self.at += store_core::length_u64(whole);
        self.filled = end - whole;
        Ok(())
    }
}

/// Memory at a multiple of a block.
pub(crate) struct Blocks {
    memory: Vec<u8>,
}

impl Blocks {
    pub(crate) fn new() -> Self {
        Self { memory: vec![0; (1 << 20) + BLOCK] }
    }

    /// The first `len` bytes, of which the first `keep` stay as they are.
    pub(crate) fn first(&mut self, len: usize, keep: usize) -> &mut [u8] {
        if self.memory.len() < len + BLOCK {
            let mut more = vec![0; 2 * len + BLOCK];
            let (from, to) = (self.start(), more.as_ptr().align_offset(BLOCK));
            more[to..to + keep].copy_from_slice(&self.memory[from..from + keep]);
            self.memory = more;
        }
        let start = self.start();
        &mut self.memory[start..start + len]
    }

    fn start(&self) -> usize {
        self.memory.as_ptr().align_offset(BLOCK)
    }
}

/// What devices and page caches deal in.
const BLOCK: usize = 4096;

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn every_sink_writes_what_it_is_given_one_behind_the_other() {
        let root = tempfile::tempdir().unwrap();
        let records: Vec<Vec<u8>> =
            (1..60_u8).map(|number| vec![number; usize::from(number) * 97]).collect();
        for contender in
            [Contender::Fdatasync, Contender::Dsync, Contender::Msync, Contender::Direct]
        {
            let path = root.path().join(format!("{contender:?}"));
            let Some(mut sink) = sink(&path, contender, 4 << 20).unwrap() else {
                assert_eq!(contender, Contender::Direct);
                continue;
            };
            for record in &records {
                sink.append(record).unwrap();
            }
            let all = records.concat();
            drop(sink);
            assert!(fs::read(&path).unwrap().starts_with(&all), "{contender:?}");
            fs::remove_file(path).unwrap();
        }
    }
}
