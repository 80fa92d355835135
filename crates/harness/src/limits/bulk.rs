//! More bytes than the kernel lets stay dirty: the rate at which they reach the device.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::fs::{FallocateFlags, OFlags, fallocate};
use store_core::{Message, Nanos, Wait};

use super::cases::FILE_BYTES;
use super::clocked::{Bench, Cost, Measured};
use super::files::Blocks;
use super::{Bulk, Contender, Work, ours};
use crate::clock::{float, nanos, now};
use crate::load::Bodies;
use crate::profile::{Io, Prealloc, Settings};
use crate::random::Random;
use crate::recorder::Recorder;
use crate::results::Dirty;
use crate::{disk, strategy, vmstat};

/// How much is moved, the same in every round.
#[derive(Debug)]
pub(super) struct Plan {
    /// For [`Case::Sustained`](super::Case::Sustained).
    pub(super) sustained_bytes: u64,
    /// At most, for [`Case::Paced`](super::Case::Paced).
    pub(super) paced_bytes: u64,
    /// For [`Case::Scan`](super::Case::Scan).
    pub(super) scan_bytes: u64,
    /// Records a second that the log sustained when it was first measured.
    sustained_per_s: Option<f64>,
}

impl Plan {
    /// By the disk's free space, the kernel's limit and the time that is asked for.
    ///
    /// The limit is what the kernel made of `vm.dirty_*` and of the memory that is free now.
    pub(super) fn new(bench: &Bench<'_>) -> Result<Self> {
        let by_space = disk::space(bench.directory)?.free_bytes / 3;
        let by_time = nanos(bench.measure).get() / 1_000_000 * (MOST_BYTES / 1000);
        let most = MOST_BYTES.min(by_space).min(by_time);
        let limit = vmstat::sample().and_then(|dirty| dirty.limit_bytes);
        let past = limit.map_or(MOST_BYTES, |limit| limit.saturating_add(limit / 2));
        Ok(Self {
            sustained_bytes: past.min(most),
            paced_bytes: most,
            scan_bytes: most / 2,
            sustained_per_s: None,
        })
    }

    /// Records a second that the log sustains, found out with a short run if it is not known yet;
    /// `None` if that was interrupted.
    pub(super) fn sustained_per_s(
        &mut self,
        bench: &Bench<'_>,
        work: Work,
        root: &Path,
    ) -> Result<Option<f64>> {
        if self.sustained_per_s.is_none() {
            let timed = settings(bench, Contender::Async)?;
            let found = flood(bench, work, root, self.paced_bytes / 4, &timed)?;
            super::remove(root)?;
            self.keep(found.as_ref());
        }
        Ok(self.sustained_per_s)
    }

    fn keep(&mut self, found: Option<&Measured>) {
        let per_s = found.map(|found| float(found.records) / (float(found.took.get()) / 1e9));
        self.sustained_per_s = self.sustained_per_s.or(per_s);
    }
}

/// As many records as there is to be of them, by whoever it is.
pub(super) fn measure(
    bench: &Bench<'_>,
    plan: &mut Plan,
    work: Work,
    root: &Path,
    contender: Contender,
) -> Result<Option<Measured>> {
    let bytes = plan.sustained_bytes;
    match contender {
        Contender::Async => {
            let found = flood(bench, work, root, bytes, &settings(bench, contender)?)?;
            plan.keep(found.as_ref());
            Ok(found)
        }
        Contender::Positioned | Contender::Staged => {
            flood(bench, work, root, bytes, &settings(bench, contender)?)
        }
        Contender::Pieces => pieces(bench, work, root, bytes, OFlags::DIRECT),
        _ => pieces(bench, work, root, bytes, OFlags::empty()),
    }
}

/// The settings of an asynchronous log: as a sweep has them that says nothing else, but for where
/// its bytes go.
pub(super) fn settings(bench: &Bench<'_>, contender: Contender) -> Result<Settings> {
    let timed = |io| Settings::FlushRealtime {
        interval: FLUSH_EACH,
        least_pages: 4,
        thorough: Duration::from_secs(10),
        timed: true,
        io,
        prealloc: Prealloc::Fallocate,
    };
    let settings = match contender {
        Contender::Positioned => timed(Io::Positioned),
        Contender::Staged => Settings::CommitRealtime {
            commit: Duration::from_millis(200),
            // Each write past the page cache begins with the last block again.
            commit_least_pages: 64,
            commit_thorough: Duration::from_millis(200),
            interval: FLUSH_EACH,
            least_pages: 4,
            thorough: Duration::from_secs(10),
            staging_bytes: 64 << 20,
            io: Io::Direct,
            prealloc: Prealloc::Fallocate,
        },
        _ => timed(Io::Mapped),
    };
    Ok(strategy::usable(&settings, FILE_BYTES, bench.directory)?.0)
}

/// The log, as fast as it goes, until the last record is durable; `None` if interrupted.
fn flood(
    bench: &Bench<'_>,
    work: Work,
    root: &Path,
    bytes: u64,
    settings: &Settings,
) -> Result<Option<Measured>> {
    let recorder = Arc::new(Recorder::default());
    let log = ours::open_observed(root, settings, FILE_BYTES, &recorder)?;
    let queue = ours::queue(&log, 0)?;
    let bodies = Bodies::new(SEED, work.message_bytes);
    let records = bytes / store_core::length_u64(work.record_bytes);
    let before = bench.cost();
    let begun = now();
    let (upto, dirty) = watched(|| -> Result<_> {
        for index in 0..usize::try_from(records)? {
            if index.is_multiple_of(LOOK_EACH) && bench.interrupted.load(Ordering::Relaxed) {
                log.abandon();
                return Ok(None);
            }
            let message = Message { body: bodies.get(index), ..Message::default() };
            log.append_and_wait(&queue, &message, Wait::Yes)??;
        }
        let upto = log.marks().wrote();
        log.close()?;
        Ok(Some(upto))
    });
    let Some(upto) = upto? else { return Ok(None) };
    let cost = bench.cost().since(before);
    let flushes = recorder.flushes();
    let last = flushes.last().context("the log was never flushed")?;
    ensure!(last.upto == upto, "closed at {upto}, but flushed only to {}", last.upto);
    let moved = Bulk { bytes: records_bytes(records, work), read_bytes: None, dirty };
    Ok(Some(bulk(records, last.ended.since(begun), cost, moved)))
}

/// The same bytes into reserved space, and one `fdatasync` at the end: through `O_DIRECT`, or
/// through the page cache with another thread that syncs each half second. `None` where the file
/// system has no `O_DIRECT`.
fn pieces(
    bench: &Bench<'_>,
    work: Work,
    root: &Path,
    bytes: u64,
    flags: OFlags,
) -> Result<Option<Measured>> {
    let at = || format!("write {}", root.display());
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).custom_flags(flags.bits().cast_signed());
    let opened = options.open(root);
    let file = match opened {
        Err(error) if error.kind() == ErrorKind::InvalidInput => return Ok(None),
        opened => opened.with_context(at)?,
    };
    let count = bytes.div_ceil(store_core::length_u64(PIECE));
    let bytes = count * store_core::length_u64(PIECE);
    fallocate(&file, FallocateFlags::empty(), 0, bytes).with_context(at)?;
    file.sync_all().with_context(at)?;
    let mut blocks = Blocks::new();
    let piece = blocks.first(PIECE, 0);
    Random::new(SEED).fill(piece);
    let before = bench.cost();
    let begun = now();
    let write = || -> io::Result<()> {
        for number in 0..count {
            if bench.interrupted.load(Ordering::Relaxed) {
                break;
            }
            file.write_all_at(piece, number * store_core::length_u64(PIECE))?;
        }
        Ok(())
    };
    let (written, dirty) = watched(|| {
        if flags.contains(OFlags::DIRECT) {
            write().and_then(|()| file.sync_data())
        } else {
            syncing(&file, write)
        }
    });
    written.with_context(at)?;
    let (took, cost) = (now().since(begun), bench.cost().since(before));
    let records = bytes / store_core::length_u64(work.record_bytes);
    Ok(Some(bulk(records, took, cost, Bulk { bytes, read_bytes: None, dirty })))
}

/// Does it while another thread syncs the file each half second, and once more at the end.
pub(super) fn syncing<T>(file: &File, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let flusher = scope.spawn(|| {
            while !is_over.load(Ordering::Acquire) {
                thread::park_timeout(FLUSH_EACH);
                file.sync_data()?;
            }
            io::Result::Ok(())
        });
        let done = work();
        is_over.store(true, Ordering::Release);
        flusher.thread().unpark();
        flusher.join().expect("a sync does not panic")?;
        let done = done?;
        file.sync_data()?;
        Ok(done)
    })
}

/// What was moved, without a time for each record.
pub(super) fn bulk(records: u64, took: Nanos, cost: Cost, bulk: Bulk) -> Measured {
    Measured { records, took, times: None, cost, offered_per_s: None, bulk: Some(bulk) }
}

/// Bytes of so many records.
pub(super) fn records_bytes(records: u64, work: Work) -> u64 {
    records * store_core::length_u64(work.record_bytes)
}

/// Does it, and watches the machine's dirty pages meanwhile.
pub(super) fn watched<T>(work: impl FnOnce() -> T) -> (T, Option<Dirty>) {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut dirty = vmstat::sample()?;
            while !is_over.load(Ordering::Acquire) {
                thread::park_timeout(SAMPLE_EACH);
                dirty.join(&vmstat::sample()?);
            }
            Some(dirty)
        });
        let done = work();
        is_over.store(true, Ordering::Release);
        watcher.thread().unpark();
        (done, watcher.join().expect("looking at a file does not panic"))
    })
}

/// Written and read at a time.
pub(super) const PIECE: usize = 1 << 20;
/// The default of a sweep, and RocketMQ's.
const FLUSH_EACH: Duration = Duration::from_millis(500);
/// Records after which a signal is looked for.
pub(super) const LOOK_EACH: usize = 1024;
pub(super) const SEED: u64 = 1;
/// However large memory is, and for each second of `measure`: so that a short run is a small one.
const MOST_BYTES: u64 = 8 << 30;
const SAMPLE_EACH: Duration = Duration::from_millis(50);
