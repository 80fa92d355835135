//! The process that serves an emulated disk.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyWrite, WriteFlags,
};
use store_os::monotonic;

use super::fault::{Failed, Faults};
use super::medium::Medium;
use super::process::serve_file_system;
use super::protocol::{Counters, DISK, Request};
use super::timing::{Asked, Schedule, Timing, nanos};

/// What a served disk is like.
#[derive(Clone, Copy, Debug)]
pub struct ServeOptions {
    /// Its size, rounded down to 4096.
    pub bytes: u64,
    /// Size of its volatile cache; beyond that the oldest writes become durable by themselves.
    pub cache_bytes: u64,
}

/// Serves a disk at the directory `at`, as the file `disk` and views of it, until the owner at the
/// other end of `control` says so or is gone.
///
/// To be the only thing that its process does: a process that waits for its own disk waits for
/// ever. What was served is lost when it ends.
///
/// # Errors
///
/// If the directory cannot be mounted on, or the control socket fails.
pub fn serve(control: &UnixStream, at: &Path, options: ServeOptions) -> io::Result<()> {
    let disks = Arc::new(Disks::new(options));
    let answer = |line: &str| {
        let request = Request::parse(line).ok_or_else(|| "not understood".to_owned());
        request.and_then(|request| disks.answer(request))
    };
    // Stuck requests hold the threads that the session would wait for.
    let at_end = || disks.heal_all();
    serve_file_system(control, at, Served(Arc::clone(&disks)), THREADS, answer, at_end)
}

/// The live disk and its views, by the number of their file.
#[derive(Debug)]
struct Disks {
    table: Mutex<Table>,
}

#[derive(Debug)]
struct Table {
    disks: BTreeMap<u64, (String, Arc<Disk>)>,
    next: u64,
}

#[derive(Debug)]
struct Disk {
    medium: Medium,
    schedule: Mutex<Schedule>,
    faults: Faults,
    reads: AtomicU64,
    writes: AtomicU64,
    write_bytes: AtomicU64,
    flushes: AtomicU64,
    failed: AtomicU64,
    waiting: AtomicU64,
}

impl Disks {
    fn new(options: ServeOptions) -> Self {
        let bytes = options.bytes / UNIT * UNIT;
        let live = Disk::new(Medium::new(bytes, options.cache_bytes));
        let disks = BTreeMap::from([(FIRST_FILE, (DISK.to_owned(), live))]);
        Self { table: Mutex::new(Table { disks, next: FIRST_FILE + 1 }) }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, file: INodeNo) -> Option<Arc<Disk>> {
        self.table().disks.get(&file.0).map(|(_, disk)| Arc::clone(disk))
    }

    fn find(&self, name: &str) -> Option<(u64, Arc<Disk>)> {
        let table = self.table();
        let mut disks = table.disks.iter();
        disks.find(|(_, (known, _))| known == name).map(|(file, (_, disk))| (*file, disk.clone()))
    }

    fn heal_all(&self) {
        for (_, disk) in self.table().disks.values() {
            disk.faults.heal();
        }
    }

    /// Does what the owner asks; the words of the answer.
    fn answer(&self, request: Request) -> Result<String, String> {
        let named = |name: &str| {
            self.find(name).ok_or_else(|| format!("no disk {name}")).map(|(_, disk)| disk)
        };
        match request {
            Request::Counters { disk } => Ok(named(&disk)?.counters().words()),
            Request::Cut { disk, keep, seed } => {
                let disk = named(&disk)?;
                // Before the cut, never after: what came later must not count as there before it.
                let at = monotonic();
                let (medium, position) = disk.medium.cut(keep, seed);
                let view = Disk::new(medium);
                let mut table = self.table();
                let file = table.next;
                table.next += 1;
                let name = format!("cut-{}", file - FIRST_FILE);
                table.disks.insert(file, (name.clone(), view));
                Ok(format!("{name} {} {}", position.get(), at.get()))
            }
            Request::Drop { disk } => {
                let (file, _) = self.find(&disk).ok_or_else(|| format!("no disk {disk}"))?;
                self.table().disks.remove(&file);
                Ok(String::new())
            }
            Request::Heal { disk } => {
                named(&disk)?.faults.heal();
                Ok(String::new())
            }
            Request::Inject { disk, fault } => {
                named(&disk)?.faults.inject(fault);
                Ok(String::new())
            }
            Request::Timing { disk, timing } => {
                named(&disk)?.schedule().timing = timing;
                Ok(String::new())
            }
        }
    }
}

impl Disk {
    fn new(medium: Medium) -> Arc<Self> {
        Arc::new(Self {
            medium,
            schedule: Mutex::new(Schedule::new(Timing::INSTANT)),
            faults: Faults::default(),
            reads: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            write_bytes: AtomicU64::new(0),
            flushes: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
        })
    }

    fn schedule(&self) -> MutexGuard<'_, Schedule> {
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, offset: u64, len: u32) -> Result<Vec<u8>, Failed> {
        let bytes = u64::from(len);
        self.take_time(Asked::Read, offset..offset.saturating_add(bytes))?;
        self.reads.fetch_add(1, Ordering::Relaxed);
        Ok(self.medium.read(offset, usize::try_from(len).unwrap_or(usize::MAX)))
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), Failed> {
        let bytes = store_core::length_u64(data.len());
        self.take_time(Asked::Write, offset..offset.saturating_add(bytes))?;
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.write_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.medium.write(offset, data);
        Ok(())
    }

    fn flush(&self) -> Result<(), Failed> {
        let covered = self.medium.completed();
        self.take_time(Asked::Flush, 0..0)?;
        self.flushes.fetch_add(1, Ordering::Relaxed);
        self.medium.flush(covered);
        Ok(())
    }

    /// Waits as long as the request takes.
    fn take_time(&self, asked: Asked, range: Range<u64>) -> Result<(), Failed> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let outcome = self.faults.before(asked, &range).map(|slow| {
            let now = monotonic();
            let due = self.schedule().due(now, asked, range.end - range.start).after(nanos(slow));
            if now < due {
                thread::sleep(Duration::from_nanos(due.since(now).get()));
            }
        });
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        if outcome.is_err() {
            self.failed.fetch_add(1, Ordering::Relaxed);
        }
        outcome
    }

    fn counters(&self) -> Counters {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counters {
            reads: read(&self.reads),
            writes: read(&self.writes),
            write_bytes: read(&self.write_bytes),
            flushes: read(&self.flushes),
            failed: read(&self.failed),
            waiting: read(&self.waiting),
            volatile_bytes: self.medium.volatile_bytes(),
        }
    }
}

/// The file system in which the disks are files.
struct Served(Arc<Disks>);

impl fmt::Debug for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Served")
    }
}

impl Served {
    fn attr(&self, file: INodeNo) -> Option<FileAttr> {
        let is_root = file == INodeNo::ROOT;
        let size = if is_root { 0 } else { self.0.get(file)?.medium.bytes() };
        Some(FileAttr {
            ino: file,
            size,
            blocks: size / 512,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: if is_root { FileType::Directory } else { FileType::RegularFile },
            perm: if is_root { 0o700 } else { 0o600 },
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }
}

impl Filesystem for Served {
    fn init(&mut self, _: &fuser::Request, config: &mut KernelConfig) -> io::Result<()> {
        // What older kernels lack only costs time.
        let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
        let _ = config.set_max_write(MAX_WRITE_BYTES);
        let _ = config.set_max_background(128);
        Ok(())
    }

    fn lookup(&self, _: &fuser::Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = name.to_str().filter(|_| parent == INodeNo::ROOT);
        let found = found.and_then(|name| self.0.find(name));
        match found.and_then(|(file, _)| self.attr(INodeNo(file))) {
            Some(attr) => reply.entry(&KEPT, &attr, Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &fuser::Request, file: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attr(file) {
            Some(attr) => reply.attr(&KEPT, &attr),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn open(&self, _: &fuser::Request, file: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        // Of the disk the kernel is to keep nothing: its cache is here. Of a view it keeps what it
        // has read, ahead too, which makes journals replay many times faster; what it writes to a
        // view comes here at once all the same.
        let uncached = if file.0 == FIRST_FILE {
            FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES
        } else {
            FopenFlags::empty()
        };
        match self.0.get(file) {
            Some(_) => reply.opened(FileHandle(0), FopenFlags::FOPEN_NOFLUSH | uncached),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn read(
        &self,
        _: &fuser::Request,
        file: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.0.get(file).ok_or(Failed).and_then(|disk| disk.read(offset, size)) {
            Ok(bytes) => reply.data(&bytes),
            Err(Failed) => reply.error(Errno::EIO),
        }
    }

    fn write(
        &self,
        _: &fuser::Request,
        file: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.0.get(file).ok_or(Failed).and_then(|disk| disk.write(offset, data)) {
            Ok(()) => reply.written(u32::try_from(data.len()).unwrap_or(u32::MAX)),
            Err(Failed) => reply.error(Errno::EIO),
        }
    }

    fn fsync(&self, _: &fuser::Request, file: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        match self.0.get(file).ok_or(Failed).and_then(|disk| disk.flush()) {
            Ok(()) => reply.ok(),
            Err(Failed) => reply.error(Errno::EIO),
        }
    }

    fn readdir(
        &self,
        _: &fuser::Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let table = self.0.table();
        for (&file, (name, _)) in table.disks.range((offset + 1)..) {
            if reply.add(INodeNo(file), file, FileType::RegularFile, name) {
                break;
            }
        }
        drop(table);
        reply.ok();
    }
}

const FIRST_FILE: u64 = 2;
const UNIT: u64 = 4096;
/// Requests that are served at the same time; the others wait for one of them.
const THREADS: usize = 16;
/// The largest that current kernels send.
const MAX_WRITE_BYTES: u32 = 1 << 20;
/// How long the kernel may keep names and sizes, which do not change.
const KEPT: Duration = Duration::from_hours(1);
