//! Writes in place and their syncs, timed one by one.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use hdrhistogram::Histogram;
use rustix::fs::OFlags;
use store_core::Nanos;

use super::{Method, Row, THREADS};
use crate::clock::{float, nanos, now};
use crate::disk::{self, DiskCounters};
use crate::distribution::times;
use crate::limits::{self, Blocks};

/// Files that were written before, in a directory, and the counters of their device.
#[derive(Debug)]
pub(super) struct Bench<'a> {
    directory: &'a Path,
    device: Option<&'a str>,
    interrupted: &'a AtomicBool,
}

impl<'a> Bench<'a> {
    /// Writes the files.
    pub(super) fn new(
        directory: &'a Path,
        device: Option<&'a str>,
        interrupted: &'a AtomicBool,
    ) -> Result<Self> {
        let bench = Self { directory, device, interrupted };
        for thread in 0..THREADS.into_iter().max().unwrap_or(1) {
            let path = bench.file(thread);
            write_file(&path).with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(bench)
    }

    pub(super) fn directory(&self) -> &Path {
        self.directory
    }

    pub(super) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    fn file(&self, thread: u32) -> PathBuf {
        self.directory.join(format!("sync-{thread}"))
    }

    /// Syncs for `time`, and some however long they take. `None` if it was interrupted, or the file
    /// system cannot do it.
    pub(super) fn row(
        &self,
        method: Method,
        bytes: u64,
        threads: u32,
        time: Duration,
    ) -> Result<Option<Row>> {
        if self.is_interrupted() {
            return Ok(None);
        }
        if method == Method::Msync {
            return self.mapped(bytes, time);
        }
        if method == Method::Direct && !bytes.is_multiple_of(BLOCK) {
            return Ok(None);
        }
        let files = (0..threads).map(|thread| Timed::open(&self.file(thread), method, bytes));
        let files = match files.collect::<io::Result<Vec<_>>>() {
            // No O_DIRECT here (tmpfs before 6.6, some network file systems).
            Err(error)
                if method == Method::Direct && error.kind() == io::ErrorKind::InvalidInput =>
            {
                return Ok(None);
            }
            files => files.context("cannot open the file again")?,
        };
        let before = self.device.and_then(disk::counters);
        let begun = now();
        let end = begun.after(nanos(time));
        let done: io::Result<Vec<Timed>> = thread::scope(|scope| {
            let started: Vec<_> = files
                .into_iter()
                .map(|file| scope.spawn(move || file.until(end, self.interrupted)))
                .collect();
            started.into_iter().map(|thread| thread.join().expect("it gives errors")).collect()
        });
        let took = now().since(begun);
        let after = self.device.and_then(disk::counters);
        let done = done.with_context(|| format!("{}, {bytes} bytes", method.words()))?;
        let flushes = flushes(before, after);
        Ok((!self.is_interrupted()).then(|| summed(method, bytes, &done, took, flushes)))
    }

    fn mapped(&self, bytes: u64, time: Duration) -> Result<Option<Row>> {
        let (directory, device) = (self.directory, self.device);
        let found = limits::mapped_syncs(directory, device, bytes, time, self.interrupted)?;
        Ok(found.map(|found| Row {
            method: Method::Msync,
            bytes,
            threads: 1,
            syncs: found.records,
            per_s: found.per_s,
            write_to_durable_ns_p50: found.p50_ns.unwrap_or(0),
            write_to_durable_ns_p99: found.p99_ns.unwrap_or(0),
            write_to_durable_ns_max: None,
            sync_ns_p50: None,
            flushes_per_sync: found.flushes_per_record,
        }))
    }
}

/// A thread's file, and what its syncs took.
struct Timed {
    file: File,
    method: Method,
    bytes: u64,
    all: Histogram<u64>,
    sync: Histogram<u64>,
}

impl Timed {
    fn open(path: &Path, method: Method, bytes: u64) -> io::Result<Self> {
        let flags = match method {
            Method::Direct => OFlags::DIRECT | OFlags::DSYNC,
            Method::Dsync => OFlags::DSYNC,
            Method::Fdatasync | Method::Fsync | Method::Msync => OFlags::empty(),
        };
        let flags = flags.bits().cast_signed();
        let file = OpenOptions::new().write(true).custom_flags(flags).open(path)?;
        Ok(Self { file, method, bytes, all: times(), sync: times() })
    }

    fn until(mut self, end: Nanos, interrupted: &AtomicBool) -> io::Result<Self> {
        let mut memory = Blocks::new();
        let content = memory.first(usize::try_from(self.bytes).unwrap_or(usize::MAX), 0);
        let mut at = 0;
        for count in 0_u64.. {
            let begun = now();
            let is_enough = SYNCS_AT_LEAST <= count && end <= begun;
            if is_enough || interrupted.load(Ordering::Relaxed) {
                break;
            }
            // No two writes alike, for devices that compare.
            content[..8].copy_from_slice(&count.to_be_bytes());
            self.file.write_all_at(content, at)?;
            let written = now();
            match self.method {
                Method::Fdatasync => self.file.sync_data()?,
                Method::Fsync => self.file.sync_all()?,
                Method::Direct | Method::Dsync | Method::Msync => {}
            }
            let done = now();
            self.all.saturating_record(done.since(begun).get());
            self.sync.saturating_record(done.since(written).get());
            at += self.bytes;
            if FILE_BYTES < at + self.bytes {
                at = 0;
            }
        }
        Ok(self)
    }
}

fn flushes(before: Option<DiskCounters>, after: Option<DiskCounters>) -> Option<u64> {
    after?.since(&before?).flush_requests
}

fn summed(method: Method, bytes: u64, done: &[Timed], took: Nanos, flushes: Option<u64>) -> Row {
    let (mut all, mut sync) = (times(), times());
    for timed in done {
        all.add(&timed.all).expect("all have the same bounds");
        sync.add(&timed.sync).expect("all have the same bounds");
    }
    let has_call = matches!(method, Method::Fdatasync | Method::Fsync);
    Row {
        method,
        bytes,
        threads: u32::try_from(done.len()).unwrap_or(u32::MAX),
        syncs: all.len(),
        per_s: float(all.len()) * 1e9 / float(took.get().max(1)),
        write_to_durable_ns_p50: all.value_at_quantile(0.5),
        write_to_durable_ns_p99: all.value_at_quantile(0.99),
        write_to_durable_ns_max: Some(all.max()),
        sync_ns_p50: has_call.then(|| sync.value_at_quantile(0.5)),
        flushes_per_sync: flushes.map(|flushes| float(flushes) / float(all.len().max(1))),
    }
}

/// In writes of 4 KiB: in larger ones the page cache would use larger folios, on which small writes
/// are slow.
fn write_file(path: &Path) -> io::Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).open(path)?;
    let block = [1; 4096];
    for at in 0..FILE_BYTES / BLOCK {
        file.write_all_at(&block, at * BLOCK)?;
    }
    file.sync_all()
}

/// What direct writes are multiples of.
const BLOCK: u64 = 4096;
const FILE_BYTES: u64 = 8 << 20;
/// Syncs to time however slow they are: fewer have no median worth the name.
const SYNCS_AT_LEAST: u64 = 5;
