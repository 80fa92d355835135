//! What a disk is made of and how the kernel drives it, from the file system down to the hardware.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use rustix::fs::{major, minor};
use serde::{Deserialize, Serialize};

use super::{Block, read_word};
use crate::disks::Made;
use crate::environment;

/// What is known of a disk beyond the first lines of [`DiskInfo`](crate::results::DiskInfo). What
/// cannot be read is `null`. Of a partition, all but the number is the whole disk's.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct DiskDetails {
    /// The directory without links.
    pub real_path: Option<String>,
    /// `major:minor` of the file system, as `stat` gives it.
    pub device_number: Option<String>,
    /// Devices from the file system's down to the hardware, such as `loop0`, `vda1`, `vda`; of
    /// several below one, all, in the order of their names.
    pub device_chain: Vec<String>,
    /// What the file system was made with (ext4, to whom may read the device; btrfs).
    pub file_system_features: Option<Vec<String>>,
    /// All options in force, those that nobody gave too (ext4).
    pub options_in_force: Option<Vec<String>>,
    /// The serial number's hash, 8 hex digits: the same disk is seen to be the same.
    pub serial_hash: Option<String>,
    /// The least that can be written.
    pub logical_block_bytes: Option<u64>,
    /// The least that is written without reading first.
    pub physical_block_bytes: Option<u64>,
    /// Whether a write can ask to be durable by itself.
    pub fua: Option<bool>,
    /// Requests that the queue holds.
    pub nr_requests: Option<u64>,
    /// The latency that throttling of write-back aims at; 0 is off.
    pub wbt_lat_usec: Option<i64>,
    /// What is read ahead, in KiB.
    pub read_ahead_kb: Option<u64>,
    /// The largest request, in KiB.
    pub max_sectors_kb: Option<u64>,
    /// The least percentage of dirty pages that the device is granted.
    pub bdi_min_ratio: Option<u64>,
    /// The largest.
    pub bdi_max_ratio: Option<u64>,
    /// Whether these hold before the machine's own limit is near.
    pub bdi_strict_limit: Option<bool>,
    /// The largest discard; 0 is none.
    pub discard_max_bytes: Option<u64>,
    /// Whether who measures says that the drive's cache survives a power cut.
    pub plp_declared: Option<bool>,
    /// How the disk was made; `null` if it was there.
    pub made: Option<Made>,
}

/// What `/proc` and `/sys` say of the directory `real`, which lies on `block`.
pub(super) fn read(sys: &Path, real: &Path, block: Option<&Block>) -> DiskDetails {
    let number = fs::metadata(real).ok().map(|found| found.dev());
    let mut details = DiskDetails {
        real_path: Some(real.display().to_string()),
        device_number: number.map(|number| format!("{}:{}", major(number), minor(number))),
        ..DiskDetails::default()
    };
    let Some(block) = block else {
        return details;
    };
    add_chain(sys, block, &mut details.device_chain);
    let name = block.name();
    details.options_in_force = lines(&Path::new("/proc/fs/ext4").join(&name).join("options"));
    details.file_system_features = btrfs_features(sys, &name)
        .or_else(|| ext4_features(&superblock(&Path::new("/dev").join(&name))?));
    let word = |attribute: &str| read_word(&block.whole.join(attribute));
    let number = |attribute: &str| word(attribute)?.parse::<u64>().ok();
    let flag = |attribute: &str| word(attribute).map(|flag| flag == "1");
    details.serial_hash = serial(&block.whole).map(|serial| environment::short_hash(&serial));
    details.logical_block_bytes = number("queue/logical_block_size");
    details.physical_block_bytes = number("queue/physical_block_size");
    details.fua = flag("queue/fua");
    details.nr_requests = number("queue/nr_requests");
    details.wbt_lat_usec = word("queue/wbt_lat_usec").and_then(|word| word.parse().ok());
    details.read_ahead_kb = number("queue/read_ahead_kb");
    details.max_sectors_kb = number("queue/max_sectors_kb");
    details.bdi_min_ratio = number("bdi/min_ratio");
    details.bdi_max_ratio = number("bdi/max_ratio");
    details.bdi_strict_limit = flag("bdi/strict_limit");
    details.discard_max_bytes = number("queue/discard_max_bytes");
    details
}

/// The serial number of a device, by its directory.
pub(super) fn serial(device: &Path) -> Option<String> {
    SERIALS.iter().find_map(|attribute| read_word(&device.join(attribute)))
}

/// Adds a device and what it stands on: a partition's disk, a loop device's file's disk, the
/// members of a device mapper or an array.
fn add_chain(sys: &Path, block: &Block, chain: &mut Vec<String>) {
    let name = block.name();
    // After a mount over its file, a loop device can seem to stand on itself.
    if chain.contains(&name) {
        return;
    }
    chain.push(name);
    if block.path != block.whole {
        let whole = Block { path: block.whole.clone(), whole: block.whole.clone() };
        return add_chain(sys, &whole, chain);
    }
    if let Some(file) = read_word(&block.whole.join("loop/backing_file")) {
        let number = fs::metadata(&file).ok().map(|found| found.dev());
        let below = number.and_then(|number| {
            Block::at(&sys.join(format!("dev/block/{}:{}", major(number), minor(number))))
        });
        if let Some(below) = below {
            add_chain(sys, &below, chain);
        }
    }
    let members = fs::read_dir(block.whole.join("slaves")).into_iter().flatten().flatten();
    let mut members: Vec<_> = members.map(|member| member.path()).collect();
    members.sort();
    for below in members.iter().filter_map(|member| Block::at(member)) {
        add_chain(sys, &below, chain);
    }
}

/// The features of the btrfs that has the device `name`.
fn btrfs_features(sys: &Path, name: &str) -> Option<Vec<String>> {
    let mut all = fs::read_dir(sys.join("fs/btrfs")).ok()?.flatten().map(|entry| entry.path());
    let mine = all.find(|path| path.join("devices").join(name).exists())?;
    let features = fs::read_dir(mine.join("features")).ok()?.flatten();
    let mut names: Vec<String> =
        features.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    Some(names)
}

/// The 1024 bytes in which ext4 describes itself, if this user may read the device.
fn superblock(device: &Path) -> Option<[u8; 1024]> {
    let mut bytes = [0; 1024];
    File::open(device).ok()?.read_exact_at(&mut bytes, 1024).ok()?;
    Some(bytes)
}

/// The features in an ext4 superblock that say how it writes; `None` if it is another's.
fn ext4_features(superblock: &[u8; 1024]) -> Option<Vec<String>> {
    let number = |at: usize, len: usize| {
        let bytes = superblock.get(at..at + len).unwrap_or_default();
        bytes.iter().rev().fold(0_u32, |value, byte| value << 8 | u32::from(*byte))
    };
    if number(0x38, 2) != EXT4_MAGIC {
        return None;
    }
    let sets = |(at, bit, _): &&(usize, u32, &str)| number(*at, 4) & bit != 0;
    Some(EXT4_FEATURES.iter().filter(sets).map(|(_, _, name)| (*name).to_owned()).collect())
}

fn lines(path: &Path) -> Option<Vec<String>> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.lines().map(str::to_owned).collect())
}

/// Where kinds of disks have their serial number: virtio, `NVMe`, SCSI and ATA.
const SERIALS: [&str; 4] = ["serial", "device/serial", "device/wwid", "wwid"];

/// `s_magic` (Documentation/filesystems/ext4/super.rst, as all below).
const EXT4_MAGIC: u32 = 0xEF53;
/// Place of the set, bit, and the name that `dumpe2fs` gives it.
const EXT4_FEATURES: [(usize, u32, &str); 11] = [
    (0x5C, 0x4, "has_journal"),
    (0x5C, 0x400, "fast_commit"),
    (0x5C, 0x1000, "orphan_file"),
    (0x60, 0x40, "extent"),
    (0x60, 0x80, "64bit"),
    (0x60, 0x200, "flex_bg"),
    (0x60, 0x8000, "inline_data"),
    (0x60, 0x1_0000, "encrypt"),
    (0x64, 0x100, "quota"),
    (0x64, 0x200, "bigalloc"),
    (0x64, 0x400, "metadata_csum"),
];

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A `/sys` in which `dm-0` stands on a partition and on an array of two disks.
    fn fake_sys() -> tempfile::TempDir {
        let sys = tempfile::tempdir().unwrap();
        let device = |name: &str| sys.path().join("devices").join(name);
        for name in ["dm-0/slaves", "md0/slaves", "sda/sda1", "sdb/queue", "sdc/queue"] {
            fs::create_dir_all(device(name)).unwrap();
        }
        fs::write(device("sda/sda1/partition"), "1\n").unwrap();
        for (upper, lower) in
            [("dm-0", "sda/sda1"), ("dm-0", "md0"), ("md0", "sdc"), ("md0", "sdb")]
        {
            let name = Path::new(lower).file_name().unwrap();
            symlink(device(lower), device(upper).join("slaves").join(name)).unwrap();
        }
        sys
    }

    fn block(path: &Path) -> Block {
        Block::at(path).unwrap()
    }

    #[test]
    fn a_chain_goes_down_to_every_disk_once() {
        let sys = fake_sys();
        let mut chain = Vec::new();
        add_chain(sys.path(), &block(&sys.path().join("devices/dm-0")), &mut chain);
        assert_eq!(chain, ["dm-0", "md0", "sdb", "sdc", "sda1", "sda"]);
    }

    #[test]
    fn a_queue_is_read_and_the_serial_number_is_not_kept() {
        let sys = fake_sys();
        let write = |attribute: &str, text: &str| {
            let path = sys.path().join("devices/sdb").join(attribute);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("serial", "S6Z2NX0W\n");
        write("queue/logical_block_size", "512\n");
        write("queue/fua", "1\n");
        write("queue/wbt_lat_usec", "2000\n");
        write("bdi/strict_limit", "0\n");
        let found = read(sys.path(), sys.path(), Some(&block(&sys.path().join("devices/sdb"))));
        assert_eq!(found.logical_block_bytes, Some(512));
        assert_eq!((found.fua, found.bdi_strict_limit), (Some(true), Some(false)));
        assert_eq!((found.wbt_lat_usec, found.nr_requests), (Some(2000), None));
        assert_eq!(found.serial_hash.as_deref().map(str::len), Some(8));
        let text = serde_json::to_string(&found).unwrap();
        assert!(!text.contains("S6Z2NX0W"), "{text}");
    }

    #[test]
    fn ext4_says_its_features_and_nobody_else_does() {
        let mut bytes = [0; 1024];
        assert_eq!(ext4_features(&bytes), None);
        bytes[0x38..0x3A].copy_from_slice(&[0x53, 0xEF]);
        bytes[0x5C] = 0x04;
        bytes[0x60] = 0xC0;
        bytes[0x65] = 0x04;
        let expect = ["has_journal", "extent", "64bit", "metadata_csum"];
        assert_eq!(ext4_features(&bytes).unwrap(), expect);
    }

    #[test]
    fn details_of_an_older_record_are_unknown() {
        assert_eq!(serde_json::from_str::<DiskDetails>("{}").unwrap(), DiskDetails::default());
    }
}
