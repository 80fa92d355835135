//! `/proc/self/mountinfo`: which mount a directory lies on.

use std::path::{Path, PathBuf};

/// One line of `/proc/self/mountinfo`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Mount {
    /// Major and minor number of the device, as `stat` gives them for most file systems.
    pub(super) device: (u32, u32),
    /// Where it is mounted.
    pub(super) point: PathBuf,
    /// The file system's type.
    pub(super) file_system: String,
    /// What was mounted: `/dev/vda1`, `tmpfs`, `host:/export`.
    pub(super) source: String,
    /// Options of this mount, then those of the file system, each once; still escaped.
    pub(super) options: String,
}

impl Mount {
    /// The value of the option `key=value`, decoded, or the empty text for a bare `key`.
    pub(super) fn option(&self, key: &str) -> Option<String> {
        self.options.split(',').find_map(|option| match option.split_once('=') {
            Some((name, value)) => (name == key).then(|| unescape(value)),
            None => (option == key).then(String::new),
        })
    }
}

/// The mounts in `text`; lines that are not understood are passed over.
pub(super) fn parse(text: &str) -> Vec<Mount> {
    text.lines().filter_map(parse_line).collect()
}

/// The mount that holds `dir`, an absolute path without links, on `device`.
///
/// The longest mount point above `dir` wins, of equals the last, which hides the others. A mount of
/// another device is taken only if none of the right one is there: btrfs gives each subvolume a
/// device number of its own, which mountinfo does not know.
pub(super) fn find<'a>(mounts: &'a [Mount], dir: &Path, device: (u32, u32)) -> Option<&'a Mount> {
    let depth = |mount: &&Mount| mount.point.components().count();
    let above = || mounts.iter().filter(|mount| dir.starts_with(&mount.point));
    above().filter(|mount| mount.device == device).max_by_key(depth).or_else(|| {
        // `max_by_key` gives the last of equals, here as above.
        above().max_by_key(depth)
    })
}

/// `id parent major:minor root point options [optional…] - type source super-options`.
fn parse_line(line: &str) -> Option<Mount> {
    let (left, right) = line.split_once(" - ")?;
    let mut left = left.split(' ').skip(2);
    let (major, minor) = left.next()?.split_once(':')?;
    let point = left.nth(1)?;
    let mount_options = left.next()?;
    let mut right = right.split(' ');
    let file_system = right.next()?;
    let source = right.next()?;
    let super_options = right.next().unwrap_or_default();
    Some(Mount {
        device: (major.parse().ok()?, minor.parse().ok()?),
        point: PathBuf::from(unescape(point)),
        file_system: unescape(file_system),
        source: unescape(source),
        options: join_options(mount_options, super_options),
    })
}

/// Both lists as one, without the second's repetitions of the first (`rw`).
fn join_options(of_mount: &str, of_file_system: &str) -> String {
    let mut joined: Vec<&str> = of_mount.split(',').collect();
    for option in of_file_system.split(',').filter(|option| !option.is_empty()) {
        if !joined.contains(&option) {
            joined.push(option);
        }
    }
    joined.join(",")
}

/// Decodes `\040` and its like, by which the kernel writes blanks, tabs, newlines, backslashes.
fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let octal = (first == b'\\').then(|| after.get(..3).and_then(octal_byte)).flatten();
        bytes.push(octal.unwrap_or(first));
        rest = if octal.is_some() { &after[3..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The byte that three octal digits stand for.
fn octal_byte(digits: &[u8]) -> Option<u8> {
    digits.iter().try_fold(0_u8, |value, digit| {
        let digit = digit.checked_sub(b'0').filter(|digit| *digit < 8)?;
        value.checked_mul(8)?.checked_add(digit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard,resv_strict
28 27 0:25 / /mnt/a\\040b ro,nosuid - tmpfs name\\134x rw,size=4k
30 27 254:1 / /data rw,noatime - xfs /dev/vdb rw,logbufs=8
31 27 254:0 /srv /data/bound rw,relatime master:1 propagate_from:2 - ext4 /dev/vda rw,discard
32 27 0:40 / /data/top rw - tmpfs first rw
33 32 0:41 / /data/top rw - tmpfs second rw
34 27 0:50 /@home /home rw,relatime - btrfs /dev/sda2 rw,compress=zstd:3,subvol=/@home
not a line
35 27 x:y / /bad rw - ext4 /dev/bad rw
";

    #[track_caller]
    fn check(dir: &str, device: (u32, u32), point: &str, source: &str) {
        let mounts = parse(MOUNTS);
        let found = find(&mounts, Path::new(dir), device).unwrap();
        assert_eq!((found.point.to_str().unwrap(), found.source.as_str()), (point, source));
    }

    #[test]
    fn the_longest_mount_point_wins() {
        check("/", (254, 0), "/", "/dev/vda");
        check("/database", (254, 0), "/", "/dev/vda");
        check("/data/log", (254, 1), "/data", "/dev/vdb");
        check("/data/bound/x", (254, 0), "/data/bound", "/dev/vda");
    }

    #[test]
    fn the_device_decides_where_mounts_hide_each_other() {
        check("/data/top", (0, 41), "/data/top", "second");
        check("/data/top", (0, 40), "/data/top", "first");
    }

    #[test]
    fn an_unknown_device_number_falls_back_to_the_path() {
        check("/home/u", (0, 51), "/home", "/dev/sda2");
        check("/data/top/x", (0, 99), "/data/top", "second");
    }

    #[test]
    fn escapes_are_decoded_and_optional_fields_passed_over() {
        let mounts = parse(MOUNTS);
        assert_eq!(mounts.len(), 8, "two lines are no mounts");
        check("/mnt/a b/c", (0, 25), "/mnt/a b", "name\\x");
        assert_eq!(unescape("a\\011b\\012c\\134d\\9\\04"), "a\tb\nc\\d\\9\\04");
        assert_eq!(unescape("\\777"), "\\777", "no byte");
    }

    #[test]
    fn options_of_mount_and_file_system_are_joined() {
        let mounts = parse(MOUNTS);
        assert_eq!(mounts[1].options, "rw,relatime,discard,resv_strict");
        assert_eq!(mounts[2].options, "ro,nosuid,rw,size=4k");
        assert_eq!(mounts[7].option("compress").as_deref(), Some("zstd:3"));
        assert_eq!(mounts[7].option("relatime").as_deref(), Some(""));
        assert_eq!(mounts[7].option("subvolid"), None);
    }

    #[test]
    fn an_overlay_keeps_commas_inside_a_path_apart() {
        let line = "40 1 0:60 / /m rw - overlay overlay rw,lowerdir=/l,upperdir=/u\\054p\\040q,\
                    workdir=/w,volatile";
        let mount = &parse(line)[0];
        assert_eq!(mount.option("upperdir").as_deref(), Some("/u,p q"));
        assert_eq!(mount.option("volatile").as_deref(), Some(""));
    }

    #[test]
    fn no_mount_is_found_without_mounts() {
        assert_eq!(find(&[], Path::new("/"), (254, 0)), None);
    }
}
