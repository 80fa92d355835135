//! A log that is read from its first byte when it is opened, beside reading its files and summing
//! as many bytes.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::{hint, thread};

use anyhow::{Context, Result, ensure};
use rustix::fs::{Advice, OFlags, fadvise};
use store_core::{Message, Wait, crc32};

use super::bulk::{LOOK_EACH, PIECE, Plan, SEED, bulk, records_bytes};
use super::cases::FILE_BYTES;
use super::clocked::{Bench, Measured};
use super::files::Blocks;
use super::{Bulk, Contender, Work, ours};
use crate::clock::now;
use crate::load::Bodies;
use crate::profile::{Io, Prealloc, Settings};
use crate::recorder::Recorder;
use crate::strategy;

/// Reads one log, which is made before and stays for the other rounds, each time from a cold page
/// cache.
pub(super) fn measure(
    bench: &Bench<'_>,
    plan: &Plan,
    work: Work,
    contender: Contender,
) -> Result<Option<Measured>> {
    if contender == Contender::Checksum {
        return summed(bench, work, plan.scan_bytes).map(Some);
    }
    let root = bench.directory.join("scan");
    if !root.exists() {
        fill(bench, work, &root, plan.scan_bytes)?;
    }
    if bench.interrupted.load(Ordering::Relaxed) {
        return Ok(None);
    }
    let files = files(&root)?;
    forget(&files).context("drop the log from the page cache")?;
    match contender {
        Contender::Open => opened(bench, &root).map(Some),
        Contender::Pieces => read(bench, work, &files, plan.scan_bytes, OFlags::DIRECT),
        _ => read(bench, work, &files, plan.scan_bytes, OFlags::empty()),
    }
}

/// A log whose owner died: what was promised is durable, and nothing says how far it is whole.
fn fill(bench: &Bench<'_>, work: Work, root: &Path, bytes: u64) -> Result<()> {
    let log = ours::open_observed(root, &settings(), FILE_BYTES, &Arc::<Recorder>::default())?;
    let queue = ours::queue(&log, 0)?;
    let bodies = Bodies::new(SEED, work.message_bytes);
    for index in 0.. {
        let message = Message { body: bodies.get(index), ..Message::default() };
        let is_last = bytes <= log.marks().wrote().get()
            || index.is_multiple_of(LOOK_EACH) && bench.interrupted.load(Ordering::Relaxed);
        if is_last {
            log.append_and_wait(&queue, &message, Wait::Yes)??;
            break;
        }
        let _not_awaited = log.append(&queue, &message, Wait::No)?;
    }
    log.abandon();
    Ok(())
}

/// Group commit, whose files are reserved only: zeroes in them would have to be written first.
fn settings() -> Settings {
    Settings::GroupCommit {
        timeout: std::time::Duration::from_mins(5),
        gather: std::time::Duration::ZERO,
        siblings: 5,
        lead: true,
        io: Io::Positioned,
        prealloc: Prealloc::Fallocate,
    }
}

/// The log's segments, in order.
fn files(root: &Path) -> Result<Vec<PathBuf>> {
    let directory = root.join("commitlog");
    let at = || format!("list {}", directory.display());
    let entries = fs::read_dir(&directory).with_context(at)?;
    let entries = entries.collect::<io::Result<Vec<_>>>().with_context(at)?;
    let mut files: Vec<PathBuf> = entries.iter().map(fs::DirEntry::path).collect();
    files.retain(|path| path.is_file());
    files.sort();
    Ok(files)
}

/// Writes what is dirty, and then drops it: a dirty page stays.
fn forget(files: &[PathBuf]) -> io::Result<()> {
    for path in files {
        let file = File::open(path)?;
        file.sync_all()?;
        fadvise(&file, 0, None, Advice::DontNeed)?;
    }
    Ok(())
}

/// The log, opened as after a crash, without what would let it begin behind its first byte.
fn opened(bench: &Bench<'_>, root: &Path) -> Result<Measured> {
    for point in ["recovery-point.0", "recovery-point.1"] {
        super::remove(&root.join(point))?;
    }
    let (before, read_before) = (bench.cost(), read_bytes());
    let begun = now();
    let log = strategy::open(root, &settings(), FILE_BYTES, Arc::<Recorder>::default())?;
    let (took, cost) = (now().since(begun), bench.cost().since(before));
    let read_bytes = since(read_before);
    let recovery = log.recovery();
    log.abandon();
    ensure!(recovery.scanned_from == recovery.start, "only a part was read: {recovery:?}");
    let bytes = recovery.end.since(recovery.start);
    Ok(bulk(recovery.records, took, cost, Bulk { bytes, read_bytes, dirty: None }))
}

/// The first `bytes` of the segments one piece after the other; `None` where the file system has no
/// `O_DIRECT`, if that is asked for.
fn read(
    bench: &Bench<'_>,
    work: Work,
    files: &[PathBuf],
    bytes: u64,
    flags: OFlags,
) -> Result<Option<Measured>> {
    let mut blocks = Blocks::new();
    let piece = blocks.first(PIECE, 0);
    let (before, read_before) = (bench.cost(), read_bytes());
    let begun = now();
    let mut done = 0;
    for path in files {
        let at = || format!("read {}", path.display());
        let opened =
            OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path);
        let file = match opened {
            Err(error) if error.kind() == ErrorKind::InvalidInput => return Ok(None),
            opened => opened.with_context(at)?,
        };
        fadvise(&file, 0, None, Advice::Sequential).with_context(at)?;
        let mut place = 0;
        while done < bytes && !bench.interrupted.load(Ordering::Relaxed) {
            let count = store_core::length_u64(file.read_at(piece, place).with_context(at)?);
            if count == 0 {
                break;
            }
            place += count;
            done += count;
        }
    }
    let (took, cost) = (now().since(begun), bench.cost().since(before));
    let records = done / store_core::length_u64(work.record_bytes);
    let read_bytes = since(read_before);
    Ok(Some(bulk(records, took, cost, Bulk { bytes: done, read_bytes, dirty: None })))
}

/// As many bytes summed as the log has, from memory, by every core.
fn summed(bench: &Bench<'_>, work: Work, bytes: u64) -> Result<Measured> {
    let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let each = bytes / store_core::length_u64(cores * work.record_bytes);
    let count = usize::try_from(each)?;
    let bodies = Bodies::new(SEED, work.record_bytes);
    let before = bench.cost();
    let begun = now();
    thread::scope(|scope| {
        for core in 0..cores {
            let bodies = &bodies;
            scope.spawn(move || {
                for index in 0..count {
                    hint::black_box(crc32(bodies.get(core + index)));
                }
            });
        }
    });
    let (took, cost) = (now().since(begun), bench.cost().since(before));
    let records = each * store_core::length_u64(cores);
    let bytes = records_bytes(records, work);
    Ok(bulk(records, took, cost, Bulk { bytes, read_bytes: None, dirty: None }))
}

/// What the device has read for this process: `read_bytes` of `proc_pid_io(5)`.
fn read_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/io").ok()?;
    let mut lines = text.lines();
    lines.find_map(|line| line.strip_prefix("read_bytes:"))?.trim().parse().ok()
}

fn since(before: Option<u64>) -> Option<u64> {
    before.zip(read_bytes()).map(|(before, after)| after.saturating_sub(before))
}
