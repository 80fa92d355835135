//! What runs inside the machine: the only program there, as init.
//!
//! Waits for orders at its port, mounts the disk, opens the log, tells every record of it, and goes
//! on appending until its kernel is killed.

use std::convert::Infallible;
use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::mount::{MountFlags, mount};
use rustix::time::{ClockId, Timespec, clock_settime};
use store_core::{Message, SegmentSize, Wait};
use store_os::{AckError, AppendError, Io, Log, LogOptions, OpenError, Preallocate};

use crate::check::read_all;
use crate::payload::Sent;

use super::initramfs::{EARLY, LATE};
use super::wire::{self, Loading, Opening, Report};

/// Does what the host orders, until the machine ends. To be called by the guest's init alone.
///
/// # Errors
///
/// If it cannot tell the host why it cannot go on; everything else it tells there.
pub fn run() -> io::Result<Infallible> {
    for (kind, at) in [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev")] {
        mount(kind, at, kind, MountFlags::empty(), None)?;
    }
    load_modules(EARLY)?;
    let port = open_port()?;
    let mut orders = port.try_clone()?;
    let port = Port(Mutex::new(port));
    port.tell(&Report::Ready(fs::read_to_string("/proc/sys/kernel/osrelease")?.trim().to_owned()))?;
    if let Err(said) = obey(&mut orders, &port) {
        port.tell(&Report::Failed(said))?;
    }
    rest()
}

/// Waits for the kill: the kernel would panic if its init ended.
fn rest() -> ! {
    loop {
        thread::park();
    }
}

/// The way to the host.
struct Port(Mutex<File>);

impl Port {
    fn tell(&self, report: &Report) -> io::Result<()> {
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        wire::send(&mut *file, &report.encode())
    }
}

fn load_modules(folder: &str) -> io::Result<()> {
    let mut files: Vec<_> = fs::read_dir(Path::new("/").join(folder))?.collect::<Result<_, _>>()?;
    files.sort_by_key(fs::DirEntry::file_name);
    for file in files {
        match rustix::system::init_module(&fs::read(file.path())?, c"") {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Opens the port, once its driver has made it.
fn open_port() -> io::Result<File> {
    wait_for(|| {
        let mut devices = fs::read_dir("/dev")?.flatten();
        let port = devices.find(|device| device.file_name().to_string_lossy().starts_with("vport"));
        let port = port.ok_or(io::ErrorKind::NotFound)?;
        OpenOptions::new().read(true).write(true).open(port.path())
    })
}

/// Tries for some seconds, as drivers make their devices when they come to it. A device's file can
/// be there before the device is: opening it fails with ENXIO then.
fn wait_for<T>(attempt: impl Fn() -> io::Result<T>) -> io::Result<T> {
    let mut tries = 0;
    loop {
        match attempt() {
            Err(_) if tries < 5000 => {
                thread::sleep(Duration::from_millis(2));
                tries += 1;
            }
            outcome => return outcome,
        }
    }
}

fn obey(orders: &mut File, port: &Port) -> Result<(), String> {
    let opening = next(orders, Opening::decode)?;
    let text = |error: io::Error| error.to_string();
    prepare(&opening).map_err(|error| format!("cannot use the disk: {error}"))?;
    let options =
        CString::new(opening.mount_options.as_str()).map_err(|error| error.to_string())?;
    let flags = MountFlags::empty();
    if let Err(refused) = mount(DISK, MOUNTED, &*opening.fs, flags, Some(&*options)) {
        return port.tell(&Report::Unmountable(refused.to_string())).map_err(text);
    }
    let log = match open(&opening) {
        Ok(log) => log,
        Err(refused) => {
            return port.tell(&Report::Refused(refused.to_string())).map_err(text);
        }
    };
    tell_what_is_there(&log, port)?;
    let loading = next(orders, Loading::decode)?;
    thread::scope(|scope| {
        for (producer, first) in (0..).zip(&loading.next) {
            let (log, loading) = (&log, &loading);
            scope.spawn(move || {
                if let Err(said) = produce(producer, *first, loading, log, port) {
                    // If the host does not hear that either, it sees that nothing more comes.
                    let _ = port.tell(&Report::Failed(said));
                }
            });
        }
    });
    // All is sent. The log stays open, and its lanes at work.
    rest()
}

fn next<T>(orders: &mut File, decode: impl Fn(&[u8]) -> Option<T>) -> Result<T, String> {
    let frame = wire::receive(orders).map_err(|error| error.to_string())?;
    frame.and_then(|frame| decode(&frame)).ok_or_else(|| "orders not understood".to_owned())
}

/// Sets clock and kernel as ordered, and brings up the disk.
fn prepare(orders: &Opening) -> io::Result<()> {
    let wall = Duration::from_nanos(orders.wall_ns);
    let wall = Timespec::try_from(wall).map_err(io::Error::other)?;
    clock_settime(ClockId::Realtime, wall)?;
    if orders.expire_cs > 0 {
        fs::write("/proc/sys/vm/dirty_expire_centisecs", orders.expire_cs.to_string())?;
        fs::write("/proc/sys/vm/dirty_writeback_centisecs", orders.expire_cs.to_string())?;
    }
    load_modules(LATE)?;
    wait_for(|| File::open(DISK)).map(drop)
}

fn open(orders: &Opening) -> Result<Log, OpenError> {
    let can_map = orders.mapped && Log::can_map(Path::new(MOUNTED))?;
    let options = LogOptions {
        // Small, so that a second of load fills several.
        segment_size: SegmentSize::new(SEGMENT_BYTES).expect("a valid size"),
        max_message_bytes: 16 << 10,
        staging_bytes: 1 << 20,
        io: Some(if can_map { Io::Mapped } else { Io::Positioned }),
        preallocate: if orders.zeroed { Preallocate::Zero } else { Preallocate::Fallocate },
        ..LogOptions::default()
    };
    orders.strategy.open(&Path::new(MOUNTED).join("store"), options)
}

fn tell_what_is_there(log: &Log, port: &Port) -> Result<(), String> {
    let recovery = log.recovery();
    let opened = Report::Opened {
        end: recovery.end,
        torn_bytes: recovery.torn_bytes,
        unsynced_records: recovery.unsynced_records,
    };
    let found = read_all(log).map_err(|error| error.to_string())?;
    let records = found.into_iter().map(Report::Record);
    for report in [opened].into_iter().chain(records).chain([Report::ReadBack]) {
        port.tell(&report).map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn produce(
    producer: u32,
    first: u64,
    loading: &Loading,
    log: &Log,
    port: &Port,
) -> Result<(), String> {
    let text = |error: &dyn std::error::Error| error.to_string();
    let shape = loading.shape;
    let queue = log.queue(&shape.topic(producer), shape.queue_id(producer));
    let queue = queue.map_err(|error| text(&error))?;
    for index in first..first + loading.count {
        let sent = Sent { producer, index };
        let body = shape.body(sent);
        let message = Message { body: &body, ..Message::default() };
        let outcome = log.append_and_wait(&queue, &message, Wait::Yes);
        let outcome = match outcome {
            // Nothing of it is in the log; the next message tries again.
            Err(AppendError::SegmentNotReady | AppendError::StagingFull) => continue,
            outcome => outcome.map_err(|error| text(&error))?,
        };
        match outcome {
            Ok(appended) => {
                let flushed = log.marks().flushed();
                let acked = Report::Acked { sent, appended, flushed };
                port.tell(&acked).map_err(|error| text(&error))?;
            }
            // It is in the log, and nothing was promised.
            Err(AckError::FlushTimedOut) => {}
            Err(error) => return Err(text(&error)),
        }
        if loading.pause_us > 0 {
            thread::sleep(Duration::from_micros(loading.pause_us));
        }
    }
    Ok(())
}

const DISK: &str = "/dev/vda";
const MOUNTED: &str = "/disk";
const SEGMENT_BYTES: u64 = 256 << 10;
