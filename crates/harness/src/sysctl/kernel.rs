//! The kernel's files: reading them, and writing them so that nothing is refused on the way.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};

use super::device::{self, DeviceLimits, DeviceNumber};
use super::imitation;
use super::settings::{DirtySettings, Key};

/// Where the kernel's settings lie, and where a guard keeps its lock and its restore file.
#[derive(Clone, Debug)]
pub struct Roots {
    vm: PathBuf,
    bdi: PathBuf,
    /// Best first.
    pub(super) run: Vec<PathBuf>,
    /// Whether plain files are to behave as the kernel's do.
    imitated: bool,
}

impl Roots {
    /// This machine's: `/proc/sys/vm`, `/sys/class/bdi`, and for our own files `/run`, the user's
    /// directory below it, or the directory for temporary files.
    pub fn machine() -> Self {
        let user = rustix::process::geteuid().as_raw();
        Self {
            vm: "/proc/sys/vm".into(),
            bdi: "/sys/class/bdi".into(),
            run: vec!["/run".into(), format!("/run/user/{user}").into(), std::env::temp_dir()],
            imitated: false,
        }
    }

    /// Plain files under `dir` that behave as the kernel's: for tests, which need no root then.
    ///
    /// `dir/vm` and `dir/run` are made if they are not there, with what Linux has by default. A
    /// limit written in one unit becomes 0 in the other, and what Linux refuses is refused. A line
    /// `dirty_ratio 30` in a file `dir/vm/refuse` makes writing that setting fail with that errno.
    ///
    /// # Errors
    ///
    /// If `dir` cannot be written.
    pub fn imitated(dir: &Path) -> io::Result<Self> {
        let (vm, bdi, run) = (dir.join("vm"), dir.join("bdi"), dir.join("run"));
        fs::create_dir_all(&run)?;
        imitation::create(&vm)?;
        Ok(Self { vm, bdi, run: vec![run], imitated: true })
    }

    /// The same, with a guard's own files elsewhere.
    #[must_use]
    pub fn with_run(self, run: &[&Path]) -> Self {
        Self { run: run.iter().map(|path| (*path).to_owned()).collect(), ..self }
    }

    /// The file of a setting.
    pub(super) fn file(&self, key: Key) -> PathBuf {
        self.vm.join(key.name())
    }

    fn device_file(&self, device: DeviceNumber, name: &str) -> PathBuf {
        self.bdi.join(device.to_string()).join(name)
    }

    /// What a file is called in reports: `vm.dirty_ratio`, or `bdi/7:0/max_ratio`.
    fn label(&self, path: &Path) -> String {
        match (path.strip_prefix(&self.vm), path.strip_prefix(&self.bdi)) {
            (Ok(name), _) => format!("vm.{}", name.display()),
            (_, Ok(name)) => format!("bdi/{}", name.display()),
            _ => path.display().to_string(),
        }
    }

    /// Whether these are a kernel's files, of which `/proc/vmstat` tells.
    pub(super) fn is_real(&self) -> bool {
        !self.imitated
    }

    /// Whether the kernel knows a device of this number now.
    pub(super) fn has_device(&self, device: DeviceNumber) -> bool {
        self.bdi.join(device.to_string()).is_dir()
    }

    fn write(&self, path: &Path, value: u64) -> Result<()> {
        let write = || {
            if self.imitated {
                return imitation::write(path, value);
            }
            // One call, or the kernel would take a part of the number for all of it.
            OpenOptions::new().write(true).open(path)?.write_all(format!("{value}\n").as_bytes())
        };
        write().map_err(|error| anyhow!("{}", cannot_write(&self.label(path), &error)))
    }

    /// Why a file cannot be written, if that is so; nothing is written. Opening tells: it is there
    /// that the kernel looks at who one is.
    fn unwritable(&self, path: &Path) -> Option<String> {
        let opened = if self.imitated {
            imitation::open(path)
        } else {
            OpenOptions::new().write(true).open(path).map(drop)
        };
        opened.err().map(|error| cannot_write(&self.label(path), &error))
    }

    /// Why settings cannot be changed here, if that is so; nothing is written.
    pub fn refusal(&self) -> Option<String> {
        Key::ALL.into_iter().find_map(|key| self.unwritable(&self.file(key)))
    }

    /// What is in force: of each limit the active twin, and the two intervals.
    pub(super) fn settings(&self) -> Result<DirtySettings> {
        let mut found = BTreeMap::new();
        for key in Key::ALL {
            let value = read(&self.file(key))?;
            // The kernel shows the inactive twin as 0, and refuses a limit of 0 bytes.
            let inactive = matches!(key, Key::Bytes | Key::BackgroundBytes) && value == 0;
            let twin_active = match key {
                Key::Ratio | Key::BackgroundRatio => {
                    key.twin().is_some_and(|twin| found.contains_key(&twin))
                }
                _ => false,
            };
            if !inactive && !twin_active {
                found.insert(key, value);
            }
        }
        DirtySettings::try_from(found).context("the kernel holds a value that it would not take")
    }

    /// What a device's limits are: the files of [`device::KEPT`] that there are.
    pub(super) fn device(&self, device: DeviceNumber) -> Result<BTreeMap<String, u64>> {
        let mut found = BTreeMap::new();
        for names in device::KEPT {
            let kept = names.iter().find(|name| self.device_file(device, name).exists());
            if let Some(name) = kept {
                found.insert((*name).to_owned(), read(&self.device_file(device, name))?);
            }
        }
        if found.is_empty() {
            let directory = self.bdi.join(device.to_string());
            return Err(anyhow!(
                "device {device} has no limits: there is no {}",
                directory.display()
            ));
        }
        Ok(found)
    }

    /// Why not all of this can be written, if that is so.
    pub(super) fn unwritable_of(
        &self,
        changes: &[(Key, u64)],
        devices: &[(DeviceNumber, DeviceLimits)],
    ) -> Option<String> {
        let settings = changes.iter().map(|(key, _)| self.file(*key));
        let limits = devices.iter().flat_map(|(device, limits)| {
            limits.asked().into_iter().map(|(name, _)| self.device_file(*device, name))
        });
        settings.chain(limits).find_map(|path| self.unwritable(&path))
    }

    /// Sets one setting and makes sure that it is in force. Does nothing if it is already.
    pub(super) fn put(&self, key: Key, value: u64) -> Result<()> {
        if self.is_in_force(key, value)? {
            return Ok(());
        }
        let path = self.file(key);
        self.write(&path, value)?;
        if self.is_in_force(key, value)? {
            return Ok(());
        }
        // The inactive ratio reads 0. To write 0 is then no change to the kernel, and the limit in
        // bytes stays.
        if value == 0 && key.twin().is_some() {
            self.write(&path, 1)?;
            self.write(&path, 0)?;
        }
        if self.is_in_force(key, value)? {
            return Ok(());
        }
        let found = read(&path)?;
        Err(anyhow!("{} is {found} although {value} was written", self.label(&path)))
    }

    /// Whether a setting has this value, and is the active one of its twins.
    fn is_in_force(&self, key: Key, value: u64) -> Result<bool> {
        let same = read(&self.file(key))? == value;
        let twin_silent = match key.twin() {
            Some(twin) if same => read(&self.file(twin))? == 0,
            _ => true,
        };
        Ok(same && twin_silent)
    }

    /// What would have to change for `target` to be in force.
    pub(super) fn changes(&self, target: &DirtySettings) -> Result<Vec<(Key, u64)>> {
        let mut changes = Vec::new();
        for (key, value) in target.iter() {
            if !self.is_in_force(key, value)? {
                changes.push((key, value));
            }
        }
        Ok(changes)
    }

    /// Gives a device back limits that [`Roots::device`] read; each file is tried.
    pub(super) fn put_device(
        &self,
        device: DeviceNumber,
        kept: &BTreeMap<String, u64>,
    ) -> Vec<Change> {
        let is_min = |name: &str| name.starts_with("min_");
        let read_now = |name: &str| read(&self.device_file(device, name));
        // The most may not stand below the least, not even for a moment: the least goes first.
        let differs = kept.iter().any(|(name, value)| read_now(name).ok() != Some(*value));
        let least = kept.keys().find(|name| is_min(name)).filter(|_| differs);
        let before: BTreeMap<&String, Result<u64>> =
            kept.keys().map(|name| (name, read_now(name))).collect();
        if let Some(name) = least {
            // If it fails, so does what follows, which says so.
            let _ = self.write(&self.device_file(device, name), 0);
        }
        let mut changes = Vec::new();
        for (name, value) in kept {
            let path = self.device_file(device, name);
            let from = before.get(name).and_then(|found| found.as_ref().ok()).copied();
            let done = match read(&path) {
                Ok(now) if now == *value => Ok(()),
                _ => self.write(&path, *value).and_then(|()| match read(&path)? {
                    now if now == *value => Ok(()),
                    now => Err(anyhow!("{} is {now}, not {value}", self.label(&path))),
                }),
            };
            if from != Some(*value) || done.is_err() {
                let key = format!("bdi/{device}/{name}");
                let error = done.err().map(|error| format!("{error:#}"));
                changes.push(Change { key, from, to: *value, error });
            }
        }
        changes
    }

    /// Gives a device limits of its own, all or up to the first that the kernel refuses.
    pub(super) fn limit_device(&self, device: DeviceNumber, limits: &DeviceLimits) -> Result<()> {
        for (name, value) in limits.writes() {
            self.write(&self.device_file(device, name), value)?;
        }
        Ok(())
    }

    /// What a file of a device says, if it can be read.
    pub(super) fn device_value(&self, device: DeviceNumber, name: &str) -> Option<u64> {
        read(&self.device_file(device, name)).ok()
    }

    /// What the file of a setting says, if it can be read.
    pub(super) fn value(&self, key: Key) -> Option<u64> {
        read(&self.file(key)).ok()
    }
}

/// One setting that was put back, or could not be.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Change {
    /// `vm.dirty_ratio`, or `bdi/7:0/max_ratio`.
    pub key: String,
    /// What it was just before; `None` if that could not be read.
    pub from: Option<u64>,
    /// What it was to be.
    pub to: u64,
    /// Why it could not be put back, if so.
    pub error: Option<String>,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, from, to, error } = self;
        match (error, from) {
            (Some(error), _) => write!(f, "{error} (to be {to})"),
            (None, Some(from)) => write!(f, "{key} {from} -> {to}"),
            (None, None) => write!(f, "{key} -> {to}"),
        }
    }
}

/// A number the kernel shows.
fn read(path: &Path) -> Result<u64> {
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let number = text.trim();
    number.parse().map_err(|_| anyhow!("{} says {number:?}, which is no number", path.display()))
}

/// Why a write failed, in words.
fn cannot_write(key: &str, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::InvalidInput => format!("the kernel refuses the value for {key} (EINVAL)"),
        io::ErrorKind::NotFound => format!("this kernel has no {key}"),
        io::ErrorKind::PermissionDenied => format!("only root may write {key}"),
        io::ErrorKind::ReadOnlyFilesystem => {
            format!("{key} is read-only here, as in most containers")
        }
        _ => format!("{key} cannot be written: {error}"),
    }
}

/// Writes a file under a name beside it and renames it: whole and on the disk, or not there.
pub(super) fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    discard_beside(path);
    let beside = path.with_extension(BESIDE);
    let written = OpenOptions::new()
        .write(true)
        // Never through a link that somebody laid there.
        .create_new(true)
        .open(&beside)
        .and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()
        })
        .and_then(|()| fs::rename(&beside, path))
        .and_then(|()| match path.parent() {
            Some(parent) => File::open(parent)?.sync_all(),
            None => Ok(()),
        });
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written
}

/// Removes what [`write_whole`] leaves if it is killed: nothing was changed on its word.
pub(super) fn discard_beside(path: &Path) {
    // If it cannot be removed, the next write fails and says why.
    let _ = fs::remove_file(path.with_extension(BESIDE));
}

const BESIDE: &str = "new";
