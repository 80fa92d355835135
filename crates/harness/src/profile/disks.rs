//! Disks: their kinds and what describes each.

use std::path::PathBuf;

use crashlab::block::{DiskType, FsKind};
use serde_yaml::{Location, Spanned};

use super::scalar::{self, quoted};
use super::steps::{Keys, Reader, SWITCH, Told};
use super::yaml::{Entries, Shape, Text};
use super::{Disk, DiskSpec};
use crate::environment::NO_BARRIERS;
use crate::sysctl::{DeviceLimits, Share};

impl Reader {
    /// The disks by name, those with errors as `None`.
    pub(super) fn disks(&mut self, shape: &Shape) -> Vec<(String, Option<Disk>)> {
        let Some(shapes) = &shape.disks else {
            return Vec::new();
        };
        let entries = self.names("disks", shapes.referenced, &shapes.value);
        let named = entries.iter().map(|(name, shape)| {
            let path = format!("disks.{}", scalar::shortened(&name.value));
            let valid_name = self.name("disks", name);
            let disk = self.disk(&name.value, path, shape, &[]);
            (name.value.clone(), valid_name.and(disk))
        });
        named.collect()
    }

    /// One disk; `beside` are keys of its file that do not describe it.
    pub(super) fn disk(
        &mut self,
        name: &str,
        path: String,
        shape: &Spanned<Entries<Text>>,
        beside: &[&str],
    ) -> Option<Disk> {
        let (at, keys) = (shape.referenced, Keys { path, entries: &shape.value.0, beside });
        let limits = self.limits(&keys);
        let spec = match self.kind(at, &keys, &KINDS)? {
            "emulated" => self.emulated(at, &keys),
            "loop" => self.image(&keys),
            "simulated" => {
                self.disk_type(at, &keys).map(|disk_type| DiskSpec::Simulated { disk_type })
            }
            "tmpfs" => {
                let size = self.size(&keys, "size", LEAST_BYTES..=MOST_BYTES, DEFAULT_BYTES);
                size.map(|bytes| DiskSpec::Tmpfs { bytes })
            }
            _ => {
                let path = self.path(&keys, "path");
                let plp = self.choice(&keys, "plp", &SWITCH, false);
                path.ok().zip(plp).map(|(path, plp)| DiskSpec::Host { path, plp })
            }
        };
        let spec = spec?;
        if let DiskSpec::Emulated { file_system, .. } | DiskSpec::Loop { file_system, .. } = &spec
            && *file_system == FsKind::Btrfs
            && let Some(at) = LIMITS.into_iter().find_map(|key| keys.place(key))
        {
            // Its dirty pages are counted to a device of its own, which has no number here.
            self.error(at, format!("{}: btrfs has no limits of a device", keys.path));
            return None;
        }
        Some(Disk { name: name.to_owned(), spec, limits: limits? })
    }

    /// What it may have of the machine's dirty limit.
    fn limits(&mut self, keys: &Keys<'_>) -> Option<DeviceLimits> {
        let [max, min] = [("max_bytes", "max_ratio"), ("min_bytes", "min_ratio")]
            .map(|(bytes, percent)| self.share(keys, bytes, percent));
        let strict = keys.get("strict_limit").map(|text| {
            self.chosen(&format!("{}.strict_limit", keys.path), text, &SWITCH).ok_or(Told)
        });
        let limits =
            DeviceLimits { max: max.ok()?, min: min.ok()?, strict: strict.transpose().ok()? };
        if let (Some(Share::Percent(max)), Some(Share::Percent(min))) = (limits.max, limits.min)
            && max < min
            && let Some(at) = keys.place("min_ratio")
        {
            let path = &keys.path;
            self.error(at, format!("{path}.min_ratio: {min} is more than max_ratio, {max}"));
            return None;
        }
        Some(limits)
    }

    /// A share in one of two units; `None` if there is neither.
    fn share(
        &mut self,
        keys: &Keys<'_>,
        bytes: &str,
        percent: &str,
    ) -> Result<Option<Share>, Told> {
        if let (Some(_), Some(at)) = (keys.get(bytes), keys.place(percent)) {
            self.error(at, format!("{}: {bytes} and {percent} exclude each other", keys.path));
            return Err(Told);
        }
        let in_bytes = keys.get(bytes).map(|_| {
            self.size(keys, bytes, LEAST_SHARE_BYTES..=MOST_BYTES, 0).map(Share::Bytes).ok_or(Told)
        });
        let in_percent = keys
            .get(percent)
            .map(|_| self.integer(keys, percent, 1..=100, 0_u64).map(Share::Percent).ok_or(Told));
        in_bytes.or(in_percent).transpose()
    }

    fn emulated(&mut self, at: Location, keys: &Keys<'_>) -> Option<DiskSpec> {
        let disk_type = self.disk_type(at, keys);
        let (file_system, bytes) = self.formatted(keys);
        let mount_options = self.mount_options(keys);
        Some(DiskSpec::Emulated {
            disk_type: disk_type?,
            file_system: file_system?,
            mount_options: mount_options?,
            bytes: bytes?,
        })
    }

    fn image(&mut self, keys: &Keys<'_>) -> Option<DiskSpec> {
        let (file_system, bytes) = self.formatted(keys);
        let mount_options = self.mount_options(keys);
        let backing = self.path(keys, "backing");
        Some(DiskSpec::Loop {
            backing: backing.ok()?,
            file_system: file_system?,
            mount_options: mount_options?,
            bytes: bytes?,
        })
    }

    fn mount_options(&mut self, keys: &Keys<'_>) -> Option<String> {
        let mount_options = self.optional(keys, "mount_options", String::new(), mount_options);
        if let (Some(options), Some(text)) = (&mount_options, keys.get("mount_options"))
            && let Some(option) = options.split(',').find(|option| NO_BARRIERS.contains(option))
        {
            let message = format!(
                "{}.mount_options: with {} no flush reaches the device: nothing on it is durable",
                keys.path,
                quoted(option)
            );
            self.warn(text.referenced, message);
        }
        mount_options
    }

    /// The file system and a size that it can have.
    fn formatted(&mut self, keys: &Keys<'_>) -> (Option<FsKind>, Option<u64>) {
        let file_system = self.choice(keys, "file_system", &FILE_SYSTEMS, FsKind::Ext4);
        let size = self.size(keys, "size", LEAST_BYTES..=MOST_BYTES, DEFAULT_BYTES);
        if let (Some(kind), Some(size), Some(text)) = (file_system, size, keys.get("size"))
            && size < kind.least_bytes()
        {
            let least = kind.least_bytes() >> 20;
            let message = format!(
                "{}.size: {} is too small for {} (at least {least}MiB)",
                keys.path,
                scalar::shortened(&text.value),
                kind.name()
            );
            self.error(text.referenced, message);
        }
        (file_system, size)
    }

    fn disk_type(&mut self, at: Location, keys: &Keys<'_>) -> Option<DiskType> {
        let path = format!("{}.type", keys.path);
        let text = self.needed(at, &path, keys.get("type"))?;
        let types = DiskType::ALL.map(|known| (known.name(), known));
        self.chosen(&path, text, &types)
    }

    fn path(&mut self, keys: &Keys<'_>, key: &str) -> Result<Option<PathBuf>, Told> {
        let path = self.optional(keys, key, None, |text| {
            if text.is_empty() || text.contains(char::is_control) {
                return Err(format!("{} is not a path", quoted(text)));
            }
            Ok(Some(PathBuf::from(text)))
        });
        path.ok_or(Told)
    }
}

/// The options, if they can be handed to `mount -o` as they are.
fn mount_options(text: &str) -> Result<String, String> {
    let is_option = |option: &str| {
        option.starts_with(|c: char| c.is_ascii_alphabetic())
            && option.chars().all(|c| c.is_ascii_alphanumeric() || "_-=.:".contains(c))
    };
    if !text.split(',').all(is_option) {
        let found = quoted(text);
        return Err(format!("{found} is not a list of options such as noatime,data=ordered"));
    }
    if let Some(option) = text.split(',').find(|option| UNWRITABLE.contains(option)) {
        return Err(format!("with {} nothing can be written", quoted(option)));
    }
    Ok(text.to_owned())
}

/// The kinds of disks and the keys that each takes.
const KINDS: [(&str, &[&str]); 5] = [
    ("host", &["kind", "path", "plp"]),
    (
        "loop",
        &[
            "kind",
            "file_system",
            "size",
            "mount_options",
            "backing",
            "max_bytes",
            "max_ratio",
            "min_bytes",
            "min_ratio",
            "strict_limit",
        ],
    ),
    ("tmpfs", &["kind", "size"]),
    (
        "emulated",
        &[
            "kind",
            "type",
            "file_system",
            "size",
            "mount_options",
            "max_bytes",
            "max_ratio",
            "min_bytes",
            "min_ratio",
            "strict_limit",
        ],
    ),
    ("simulated", &["kind", "type"]),
];

/// The keys of [`DeviceLimits`].
const LIMITS: [&str; 5] = ["max_bytes", "max_ratio", "min_bytes", "min_ratio", "strict_limit"];

const FILE_SYSTEMS: [(&str, FsKind); 3] =
    [("ext4", FsKind::Ext4), ("xfs", FsKind::Xfs), ("btrfs", FsKind::Btrfs)];

const UNWRITABLE: [&str; 2] = ["ro", "norecovery"];
/// For every kind. What a run needs beside its file system is known when it is made, and said then.
const LEAST_BYTES: u64 = 64 << 20;
const DEFAULT_BYTES: u64 = 2 << 30;
const MOST_BYTES: u64 = 1 << 40;
/// A rule of ours: the kernel keeps bytes as millionths of its limit, which below are too few.
const LEAST_SHARE_BYTES: u64 = 1 << 20;
