//! The disk behind a directory: what it is, what it counts, what it can do.
//!
//! Everything is read from `/proc` and `/sys` by plain files, so it needs no rights beyond those of
//! any user. What cannot be read is `None`, never a guess.

mod details;
mod mounts;
mod probe;

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use rustix::fs::{major, minor};

pub use self::details::DiskDetails;
use self::mounts::Mount;
pub use self::probe::{Probe, probe};
use crate::clock::float;
use crate::environment;
use crate::results::{DiskInfo, Io};

/// What stands behind `dir`: mount, file system, block device, its queue, its space.
///
/// For a partition, the model and the queue are the whole disk's. An overlay has no device: which
/// of its layers a byte goes to is not for us to say.
///
/// # Errors
///
/// If `dir` does not exist or is not a directory, or `/proc` is not mounted.
pub fn inspect(dir: &Path) -> Result<DiskInfo> {
    let at = dir.display();
    let found = fs::metadata(dir).with_context(|| {
        format!("cannot look at {at}: give an existing directory on the disk to measure")
    })?;
    ensure!(found.is_dir(), "{at} is not a directory: give a directory on the disk to measure");
    let real = fs::canonicalize(dir).with_context(|| format!("cannot resolve {at}"))?;
    let mounts = fs::read(MOUNTINFO)
        .with_context(|| format!("cannot read {MOUNTINFO}: is /proc mounted?"))?;
    let mounts = mounts::parse(&String::from_utf8_lossy(&mounts));
    let device = (major(found.dev()), minor(found.dev()));
    let mount = mounts::find(&mounts, &real, device);
    let block = find_block(Path::new(SYS), device, mount);
    let Space { free_bytes, total_bytes } = space(dir)?;
    let mut info = DiskInfo {
        path: at.to_string(),
        file_system: mount.map(|mount| mount.file_system.clone()),
        mount_options: mount.map(|mount| mount.options.clone()),
        in_memory: in_memory(dir, mount, block.as_ref()),
        free_bytes,
        total_bytes,
        details: details::read(Path::new(SYS), &real, block.as_ref()),
        ..DiskInfo::default()
    };
    if let Some(block) = block {
        block.describe(&mut info);
    }
    info.emulated |= environment::is_limited(&info);
    Ok(info)
}

/// The serial number of a whole device such as `vda`, if it has one that may be read.
pub fn serial(device: &str) -> Option<String> {
    details::serial(&Path::new(SYS).join("block").join(device))
}

/// What a device has done since it was attached, by whomever it was asked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DiskCounters {
    /// Bytes written.
    pub write_bytes: u64,
    /// Flush requests completed; `None` before Linux 5.5, which does not count them.
    pub flush_requests: Option<u64>,
    /// Milliseconds in which requests were in flight; `None` if nobody counts them.
    pub busy_ms: Option<u64>,
}

impl DiskCounters {
    /// What was done after `earlier`.
    ///
    /// A counter that ran back, because the device was replaced, gives no flushes and 0 bytes.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let flush_requests = self.flush_requests.zip(earlier.flush_requests);
        Self {
            write_bytes: self.write_bytes.saturating_sub(earlier.write_bytes),
            // The kernel counts it in 32 bits.
            busy_ms: self
                .busy_ms
                .zip(earlier.busy_ms)
                .map(|(now, then)| now.wrapping_sub(then) & u64::from(u32::MAX)),
            flush_requests: flush_requests.and_then(|(now, then)| now.checked_sub(then)),
        }
    }
}

impl Io {
    /// What a device was given in a time, while so many bytes were appended.
    pub(crate) fn of(device: Option<&DiskCounters>, log_bytes: u64, passed_ns: u64) -> Self {
        let Some(device) = device else { return Self::default() };
        let written = float(device.write_bytes);
        let busy = device.busy_ms.map(|ms| 1e6 * float(ms) / float(passed_ns.max(1)));
        Self {
            device_write_bytes: Some(device.write_bytes),
            flush_requests: device.flush_requests,
            write_amplification: (log_bytes > 0).then(|| written / float(log_bytes)),
            // It is counted in the kernel's ticks; much more is another device of the same name.
            busy_pct: busy.filter(|busy| *busy < 1.2).map(|busy| 100.0 * busy.min(1.0)),
        }
    }
}

/// The counters of `device`, a name as [`DiskInfo::device`] has it, by `/proc/diskstats`.
///
/// Flush requests are counted for whole disks only: a partition shows those of its disk, from
/// whichever partition they came. `None` if there is no such device.
pub fn counters(device: &str) -> Option<DiskCounters> {
    let text = fs::read_to_string(DISKSTATS).ok()?;
    let block = Block::at(&Path::new(SYS).join("class/block").join(sys_name(device)));
    let whole = block.map_or_else(|| device.to_owned(), |block| block.whole_name());
    counters_in(&text, device, &whole)
}

/// Bytes of a file system.
pub(crate) struct Space {
    /// Those that a user without privileges may still take.
    pub(crate) free_bytes: u64,
    /// Its size.
    pub(crate) total_bytes: u64,
}

/// The space of the file system that holds `dir`: `statvfs`.
pub(crate) fn space(dir: &Path) -> Result<Space> {
    let found = rustix::fs::statvfs(dir)
        .with_context(|| format!("cannot ask for the free space of {}", dir.display()))?;
    Ok(Space {
        free_bytes: found.f_bavail.saturating_mul(found.f_frsize),
        total_bytes: found.f_blocks.saturating_mul(found.f_frsize),
    })
}

/// A block device in `/sys`.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Block {
    /// The directory of the device or the partition.
    path: PathBuf,
    /// The directory of the whole disk; the same if it is no partition.
    whole: PathBuf,
}

impl Block {
    /// The device that `link` leads to, by whatever links.
    fn at(link: &Path) -> Option<Self> {
        let path = fs::canonicalize(link).ok()?;
        let whole = if path.join("partition").exists() { path.parent()? } else { &path };
        Some(Self { whole: whole.to_owned(), path })
    }

    fn name(&self) -> String {
        device_name(&self.path)
    }

    fn whole_name(&self) -> String {
        device_name(&self.whole)
    }

    /// Fills in what concerns the device.
    fn describe(&self, info: &mut DiskInfo) {
        let read = |attribute: &str| read_word(&self.whole.join(attribute));
        info.device = Some(self.name());
        info.model = read("device/model").or_else(|| read("device/name"));
        info.scheduler = read("queue/scheduler").map(|list| chosen(&list));
        info.write_cache = read("queue/write_cache");
        info.rotational = read("queue/rotational").map(|flag| flag == "1");
        info.emulated = is_any(&self.whole_name(), &EMULATED);
    }
}

/// The block device with this number or, for a number without a device (btrfs), the mount's source.
fn find_block(sys: &Path, device: (u32, u32), mount: Option<&Mount>) -> Option<Block> {
    let by_number =
        |(major, minor): (u32, u32)| Block::at(&sys.join(format!("dev/block/{major}:{minor}")));
    if device.0 != 0 {
        return by_number(device);
    }
    let source = Path::new(&mount?.source);
    source.strip_prefix("/dev").ok()?;
    // The node may be a link (/dev/mapper/…); in a container it may be missing, but not the name.
    match fs::metadata(source) {
        Ok(node) if node.file_type().is_block_device() => {
            by_number((major(node.rdev()), minor(node.rdev())))
        }
        _ => Block::at(&sys.join("class/block").join(source.file_name()?)),
    }
}

/// Whether what is written to `dir` stays in memory, as far as can be seen from here.
fn in_memory(dir: &Path, mount: Option<&Mount>, block: Option<&Block>) -> bool {
    let by_name = mount.is_some_and(|mount| MEMORY_FILE_SYSTEMS.contains(&&*mount.file_system));
    // An overlay writes to its upper directory. In a container that path is the host's, and only
    // counts if it is there by chance; such an overlay has a check of its own.
    let upper = mount
        .filter(|mount| mount.file_system == "overlay")
        .and_then(|mount| mount.option("upperdir"));
    // A memory disk is memory under any file system, and so is a loop device over such a file.
    let device_in_memory = block.is_some_and(|block| {
        let backing = read_word(&block.whole.join("loop/backing_file"));
        is_any(&block.whole_name(), &MEMORY_DEVICES)
            || backing.is_some_and(|file| is_memory_file_system(Path::new(&file)))
    });
    by_name
        || is_memory_file_system(dir)
        || upper.is_some_and(|upper| is_memory_file_system(Path::new(&upper)))
        || device_in_memory
}

/// By the magic number of the file system that holds `path`: `statfs`.
fn is_memory_file_system(path: &Path) -> bool {
    // Of another type on each architecture, and negative on some: compared as 32 bits.
    let magic = rustix::fs::statfs(path)
        .ok()
        .and_then(|found| u64::try_from(found.f_type).ok())
        .map(|magic| magic & 0xFFFF_FFFF);
    magic.is_some_and(|magic| MEMORY_MAGIC.contains(&magic))
}

/// The counters of `device` in the text of `/proc/diskstats`, its flushes from `whole`.
fn counters_in(text: &str, device: &str, whole: &str) -> Option<DiskCounters> {
    let field = |name: &str, index: usize| -> Option<u64> {
        let mut lines = text.lines().map(str::split_whitespace);
        let mut fields = lines.find(|fields| fields.clone().nth(2) == Some(name))?;
        fields.nth(index)?.parse().ok()
    };
    Some(DiskCounters {
        write_bytes: field(device, SECTORS_WRITTEN)?.saturating_mul(SECTOR_BYTES),
        flush_requests: field(whole, FLUSHES_COMPLETED),
        busy_ms: field(whole, MS_DOING_IO),
    })
}

/// The last component, with `/` where `/sys` has to write `!` (`cciss!c0d0`).
fn device_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().replace('!', "/")
}

fn sys_name(device: &str) -> String {
    device.replace('/', "!")
}

/// A file's text without the blanks around it, or `None` if that is nothing.
fn read_word(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let word = text.trim();
    (!word.is_empty()).then(|| word.to_owned())
}

/// The entry in brackets of a list such as `[mq-deadline] kyber none`; the list if none is.
pub(crate) fn chosen(list: &str) -> String {
    let bracketed = list.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    bracketed.map_or(list, |(inner, _)| inner).to_owned()
}

/// Whether `name` begins with one of `prefixes` and goes on as the kernel numbers devices.
fn is_any(name: &str, prefixes: &[&str]) -> bool {
    let is_number = |rest: &str| rest.starts_with(|c: char| c.is_ascii_digit());
    prefixes.iter().any(|prefix| {
        name.strip_prefix(prefix).is_some_and(|rest| is_number(rest.trim_start_matches("_d")))
    })
}

const SYS: &str = "/sys";
/// Of the thread, which can have mounts of its own ([`crate::disks`]).
const MOUNTINFO: &str = "/proc/thread-self/mountinfo";
const DISKSTATS: &str = "/proc/diskstats";

/// Places in a line of `/proc/diskstats`, counted from 0 (Documentation/admin-guide/iostats.rst).
const SECTORS_WRITTEN: usize = 9;
const MS_DOING_IO: usize = 12;
const FLUSHES_COMPLETED: usize = 18;
/// A sector there, whatever the device's own sectors are.
const SECTOR_BYTES: u64 = 512;

/// Devices that are no hardware: what is measured is what they stand on, and they themselves.
const EMULATED: [&str; 6] = ["dm-", "loop", "md", "nbd", "ram", "zram"];
/// Devices that are memory.
const MEMORY_DEVICES: [&str; 2] = ["ram", "zram"];
/// File systems that are memory, by name …
const MEMORY_FILE_SYSTEMS: [&str; 4] = ["devtmpfs", "ramfs", "rootfs", "tmpfs"];
/// … and by `f_type`: `TMPFS_MAGIC`, `RAMFS_MAGIC`.
const MEMORY_MAGIC: [u64; 2] = [0x0102_1994, 0x8584_58F6];

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// A `/sys` with `vda` and its first partition, `loop0` over `backing`, and `zram0`.
    fn fake_sys(backing: &Path) -> tempfile::TempDir {
        let sys = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = sys.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let disk = "devices/pci/block/vda";
        write(&format!("{disk}/device/model"), "Samsung SSD 990 PRO 2TB        \n");
        write(&format!("{disk}/queue/scheduler"), "none [mq-deadline] kyber\n");
        write(&format!("{disk}/queue/write_cache"), "write back\n");
        write(&format!("{disk}/queue/rotational"), "0\n");
        write(&format!("{disk}/vda1/partition"), "1\n");
        write("devices/virtual/block/loop0/queue/scheduler", "none\n");
        write("devices/virtual/block/loop0/loop/backing_file", backing.to_str().unwrap());
        write("devices/virtual/block/zram0/queue/rotational", "0\n");
        for (number, name, target) in [
            ("254:0", "vda", "devices/pci/block/vda"),
            ("254:1", "vda1", "devices/pci/block/vda/vda1"),
            ("7:0", "loop0", "devices/virtual/block/loop0"),
            ("253:0", "zram0", "devices/virtual/block/zram0"),
        ] {
            for link in [format!("dev/block/{number}"), format!("class/block/{name}")] {
                let link = sys.path().join(link);
                fs::create_dir_all(link.parent().unwrap()).unwrap();
                symlink(sys.path().join(target), link).unwrap();
            }
        }
        sys
    }

    fn mount(file_system: &str, source: &str, options: &str) -> Mount {
        let line = format!("1 0 0:9 / /x rw - {file_system} {source} {options}");
        mounts::parse(&line).remove(0)
    }

    fn described(block: &Block) -> DiskInfo {
        let mut info = DiskInfo::default();
        block.describe(&mut info);
        info
    }

    #[test]
    fn a_partition_has_its_disks_model_and_queue() {
        let sys = fake_sys(Path::new("/nonexistent"));
        let block = find_block(sys.path(), (254, 1), None).unwrap();
        let info = described(&block);
        assert_eq!(info.device.as_deref(), Some("vda1"));
        assert_eq!(block.whole_name(), "vda");
        assert_eq!(info.model.as_deref(), Some("Samsung SSD 990 PRO 2TB"));
        assert_eq!(info.scheduler.as_deref(), Some("mq-deadline"));
        assert_eq!(info.write_cache.as_deref(), Some("write back"));
        assert_eq!((info.rotational, info.emulated), (Some(false), false));
    }

    #[test]
    fn a_loop_device_is_emulated_and_what_is_missing_is_none() {
        let sys = fake_sys(Path::new("/nonexistent"));
        let block = find_block(sys.path(), (7, 0), None).unwrap();
        let info = described(&block);
        assert_eq!((info.device.as_deref(), info.emulated), (Some("loop0"), true));
        assert_eq!((info.model, info.write_cache, info.rotational), (None, None, None));
        assert_eq!(info.scheduler.as_deref(), Some("none"));
        assert!(!in_memory(Path::new("/nonexistent"), None, Some(&block)));
    }

    #[test]
    fn an_anonymous_device_number_goes_by_the_mounts_source() {
        let sys = fake_sys(Path::new("/nonexistent"));
        let find = |mount: &Mount| find_block(sys.path(), (0, 51), Some(mount));
        // No such node here, as in a container: the name is enough.
        let found = find(&mount("btrfs", "/dev/nodes-are-missing/vda1", "rw"));
        assert_eq!(found.unwrap().name(), "vda1");
        assert_eq!(find(&mount("overlay", "overlay", "rw")), None);
        assert_eq!(find(&mount("nfs4", "host:/export/dev/vda1", "rw")), None);
        assert_eq!(find(&mount("fuse", "/dev/fuse", "rw")), None);
        assert_eq!(find_block(sys.path(), (0, 51), None), None);
        assert_eq!(find_block(sys.path(), (99, 0), None), None);
    }

    #[test]
    fn memory_is_seen_through_device_and_overlay() {
        #[track_caller]
        fn check(mount: Option<&Mount>, block: Option<&Block>, expect: bool) {
            assert_eq!(in_memory(Path::new("/nonexistent"), mount, block), expect);
        }
        // /proc itself is no disk, but no tmpfs either.
        let sys = fake_sys(Path::new("/proc/version"));
        let block = |number| find_block(sys.path(), number, None);
        check(Some(&mount("ext4", "/dev/vda", "rw")), block((254, 0)).as_ref(), false);
        check(Some(&mount("ext4", "/dev/loop0", "rw")), block((7, 0)).as_ref(), false);
        check(Some(&mount("ext4", "/dev/zram0", "rw")), block((253, 0)).as_ref(), true);
        check(Some(&mount("tmpfs", "tmpfs", "rw")), None, true);
        check(Some(&mount("ramfs", "x", "rw")), None, true);
        check(Some(&mount("overlay", "overlay", "rw,upperdir=/proc")), None, false);
        check(None, None, false);
        if is_memory_file_system(Path::new("/dev/shm")) {
            check(Some(&mount("overlay", "overlay", "rw,upperdir=/dev/shm")), None, true);
            let sys = fake_sys(Path::new("/dev/shm"));
            check(None, find_block(sys.path(), (7, 0), None).as_ref(), true);
        }
    }

    #[test]
    fn emulated_devices_are_known_by_their_names() {
        for name in ["loop0", "loop12p1", "dm-3", "md127", "md_d0", "nbd1", "zram0", "ram0"] {
            assert!(is_any(name, &EMULATED), "{name}");
        }
        for name in ["vda", "sda1", "nvme0n1", "mmcblk0", "loop", "mdx", "xvda", "ramdisk"] {
            assert!(!is_any(name, &EMULATED), "{name}");
        }
    }

    const DISKSTATS_TEXT: &str = "\
   7       0 loop0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
 254       0 vda 43493 7235 4926186 49382 19759 16699 3153896 9354 0 11120 59624 8277 33 682616 \
        730 2983 155
 254       1 vda1 10 0 80 1 5 0 4000 2 0 3 3 0 0 0 0 0 0
   8       0 sda 43493 7235 4926186 49382 19759 16699 1000 9354 0 11120 59624
";

    #[test]
    fn a_partition_counts_its_bytes_and_its_disks_flushes() {
        #[track_caller]
        fn check(device: &str, whole: &str, expect: Option<(u64, Option<u64>)>) {
            let found = counters_in(DISKSTATS_TEXT, device, whole);
            assert_eq!(found.map(|found| (found.write_bytes, found.flush_requests)), expect);
            assert!(found.is_none_or(|found| found.busy_ms == Some(11_120)), "the disk's, not 3");
        }
        check("vda", "vda", Some((3_153_896 * 512, Some(2983))));
        check("vda1", "vda", Some((4000 * 512, Some(2983))));
        check("sda", "sda", Some((1000 * 512, None)));
        check("vdb", "vdb", None);
    }

    #[test]
    fn a_difference_never_runs_back() {
        #[track_caller]
        fn check(now: (u64, Option<u64>), then: (u64, Option<u64>), expect: (u64, Option<u64>)) {
            let [now, then, expect] = [now, then, expect].map(|(write_bytes, flush_requests)| {
                DiskCounters { write_bytes, flush_requests, busy_ms: None }
            });
            assert_eq!(now.since(&then), expect);
        }
        check((9, Some(5)), (4, Some(5)), (5, Some(0)));
        check((9, None), (4, None), (5, None));
        check((9, Some(5)), (4, None), (5, None));
        check((3, Some(9)), (4, Some(5)), (0, Some(4)));
        check((9, Some(1)), (4, Some(5)), (5, None));
        let busy = |ms| DiskCounters { write_bytes: 0, flush_requests: None, busy_ms: Some(ms) };
        assert_eq!(busy(7).since(&busy(u64::from(u32::MAX))).busy_ms, Some(8), "32 bits wrap");
        let of = |busy_ms| Io::of(Some(&busy(busy_ms)), 0, 1_000_000_000).busy_pct;
        assert_eq!([700, 1004, 5000].map(of), [Some(70.0), Some(100.0), None]);
    }

    #[test]
    fn names_with_a_slash_are_found_in_sys() {
        assert_eq!(sys_name("cciss/c0d0"), "cciss!c0d0");
        assert_eq!(device_name(Path::new("/sys/block/cciss!c0d0")), "cciss/c0d0");
        assert_eq!(chosen("none"), "none");
        assert_eq!(chosen("[none] bfq"), "none");
    }

    #[test]
    fn this_machines_disk_is_described_without_contradiction() {
        let dir = tempfile::tempdir().unwrap();
        let info = inspect(dir.path()).unwrap();
        assert_eq!(info.path, dir.path().display().to_string());
        assert!(info.file_system.is_some() && info.mount_options.is_some(), "{info:?}");
        assert!(info.free_bytes <= info.total_bytes, "{info:?}");
        if let Some(device) = &info.device {
            let before = counters(device).unwrap();
            let after = counters(device).unwrap();
            assert_eq!(after.write_bytes, before.write_bytes + after.since(&before).write_bytes);
        }
    }

    #[test]
    fn what_is_no_directory_is_refused() {
        #[track_caller]
        fn check(path: &str, expect: &str) {
            let message = format!("{:#}", inspect(Path::new(path)).unwrap_err());
            assert!(message.contains(path) && message.contains(expect), "{message}");
        }
        check("/nonexistent/flushmark", "existing directory");
        check("/proc/version", "is not a directory");
        assert_eq!(counters("no-such-device"), None);
    }

    #[test]
    fn a_tmpfs_is_in_memory_and_its_sync_does_nothing() {
        let Ok(dir) = tempfile::tempdir_in("/dev/shm") else {
            return;
        };
        let info = inspect(dir.path()).unwrap();
        if info.file_system.as_deref() == Some("tmpfs") {
            assert!(info.in_memory && info.device.is_none() && !info.emulated, "{info:?}");
        }
    }
}
