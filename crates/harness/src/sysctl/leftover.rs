//! The restore file: what the settings were, written before the first of them is changed, and what
//! is done with one that a killed process left.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail, ensure};
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use super::device::{DeviceNumber, KEPT};
use super::kernel::{Change, Roots, discard_beside, write_whole};
use super::owner::{Lock, Process, boot_id};
use super::settings::DirtySettings;

/// What is kept of a device: the value of each of its files.
pub(super) type Devices = BTreeMap<DeviceNumber, BTreeMap<String, u64>>;

/// The settings as they were found, and who is about to change them.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(super) struct Record {
    /// [`SCHEMA`].
    schema: String,
    /// Who.
    #[serde(flatten)]
    process: Process,
    /// Since which start of the machine.
    boot_id: String,
    /// What was in force.
    vm: DirtySettings,
    /// What the limits of our own devices were.
    devices: Devices,
}

impl Record {
    /// Of this process, now.
    pub(super) fn new(vm: DirtySettings, devices: Devices) -> Result<Self> {
        let (process, boot_id) = (Process::this()?, boot_id()?);
        Ok(Self { schema: SCHEMA.to_owned(), process, boot_id, vm, devices })
    }

    /// Writes it to the first of the directories that takes it, whole and synced; says where.
    pub(super) fn save(&self, run: &[PathBuf]) -> Result<PathBuf> {
        let bytes = serde_json::to_vec_pretty(self).context("the restore file")?;
        let mut why = Vec::new();
        for path in run.iter().map(|directory| directory.join(FILE_NAME)) {
            match write_whole(&path, &bytes) {
                Ok(()) => return Ok(path),
                Err(error) => why.push(format!("{}: {error}", path.display())),
            }
        }
        bail!("no restore file can be written ({})", why.join("; "))
    }
}

/// Puts all of it back; every setting is tried, whatever becomes of the others.
pub(super) fn put_back(roots: &Roots, vm: &DirtySettings, devices: &Devices) -> Restored {
    let mut restored = Restored::default();
    // Devices after the machine's limit, of which theirs are a part.
    for (key, to) in vm.iter() {
        let from = roots.value(key);
        let twin = key.twin().and_then(|twin| roots.value(twin));
        let done = roots.put(key, to);
        let unchanged = from == Some(to) && twin.is_none_or(|value| value == 0);
        if !unchanged || done.is_err() {
            let error = done.err().map(|error| format!("{error:#}"));
            restored.changes.push(Change { key: format!("vm.{key}"), from, to, error });
        }
    }
    for (device, kept) in devices {
        if roots.has_device(*device) {
            restored.changes.extend(roots.put_device(*device, kept));
        } else {
            restored.gone.push(*device);
        }
    }
    restored
}

/// What putting settings back did.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Restored {
    /// Each setting that was not as it should be; those already right are not named.
    pub changes: Vec<Change>,
    /// Devices that are no longer there, and their limits with them.
    pub gone: Vec<DeviceNumber>,
}

impl Restored {
    /// Whether everything is as it was.
    pub fn is_whole(&self) -> bool {
        self.changes.iter().all(|change| change.error.is_none())
    }

    /// What could not be put back, in one line each; empty if all could.
    pub fn failures(&self) -> Vec<String> {
        let failed = self.changes.iter().filter(|change| change.error.is_some());
        failed.map(ToString::to_string).collect()
    }
}

/// What became of a restore file that a process left when it was killed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Leftover {
    /// Not all could be put back: the file stays, for the next start.
    Failed {
        /// The file.
        file: PathBuf,
        /// The process that had changed the settings.
        pid: u32,
        /// What could be put back, and what could not.
        restored: Restored,
    },
    /// There was none.
    None,
    /// The machine was started anew since: its settings are those it starts with. The file is gone.
    OtherBoot {
        /// The file that was removed.
        file: PathBuf,
    },
    /// The settings are as they were before; the file is gone.
    Restored {
        /// The process that had changed the settings.
        pid: u32,
        /// What was put back.
        restored: Restored,
    },
}

/// Puts back what a killed process left, if any did: for the start of a program.
///
/// # Errors
///
/// [`Busy`](super::Busy) if a living process has changed the settings: they are its own to put
/// back. Or if the restore file cannot be read or makes no sense: nothing is written then, and the
/// file stays. That a setting cannot be put back is no error, but [`Leftover::Failed`].
pub fn restore_leftover(roots: &Roots) -> Result<Leftover> {
    let _lock = Lock::take(&roots.run)?;
    restore_locked(roots)
}

/// The same, for who holds the lock.
pub(super) fn restore_locked(roots: &Roots) -> Result<Leftover> {
    let mut leftover = Leftover::None;
    for path in roots.run.iter().map(|directory| directory.join(FILE_NAME)) {
        discard_beside(&path);
        if let Some(record) = load(&path).with_context(|| damaged(&path))? {
            leftover = settle(roots, path, &record)?;
        }
        if matches!(leftover, Leftover::Failed { .. }) {
            break;
        }
    }
    Ok(leftover)
}

fn settle(roots: &Roots, file: PathBuf, record: &Record) -> Result<Leftover> {
    if record.boot_id != boot_id()? {
        remove_if_ours(&file)?;
        return Ok(Leftover::OtherBoot { file });
    }
    let pid = record.process.pid;
    // Who holds no lock may yet be at work, if it found no place for one.
    if record.process.is_alive() && pid != std::process::id() {
        bail!("process {pid}, which changed the kernel's settings, still runs: end it first");
    }
    let restored = put_back(roots, &record.vm, &record.devices);
    if !restored.is_whole() {
        return Ok(Leftover::Failed { file, pid, restored });
    }
    remove_if_ours(&file)?;
    Ok(Leftover::Restored { pid, restored })
}

/// Root's file stays where a user finds that it has nothing left to say.
fn remove_if_ours(file: &Path) -> Result<()> {
    let kind = |error: &anyhow::Error| error.downcast_ref::<io::Error>().map(io::Error::kind);
    match remove(file) {
        Err(error) if kind(&error) == Some(io::ErrorKind::PermissionDenied) => Ok(()),
        done => done,
    }
}

/// Removes a restore file that has done its duty.
pub(super) fn remove(file: &Path) -> Result<()> {
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", file.display()))
        }
        _ => Ok(()),
    }
}

/// Reads a restore file, if there is one that is root's or this user's.
fn load(path: &Path) -> Result<Option<Record>> {
    // NOFOLLOW and NONBLOCK: a link must not lead elsewhere, nor a pipe hold us up.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if is_nothing(&error) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let found = file.metadata()?;
    // In a directory where all may write, another user's file is no order to us.
    if !found.is_file() || ![0, rustix::process::geteuid().as_raw()].contains(&found.uid()) {
        return Ok(None);
    }
    let mut text = String::new();
    let len = file.take(LONGEST + 1).read_to_string(&mut text)?;
    ensure!(u64::try_from(len)? <= LONGEST, "it is longer than {LONGEST} bytes");
    parse(&text).map(Some)
}

/// Whether the error says that there is no such file, or only a link, which is not ours.
fn is_nothing(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error())
        || matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn parse(text: &str) -> Result<Record> {
    let record: Record = serde_json::from_str(text)?;
    let major = |schema: &str| schema.rsplit_once('.').map(|(major, _)| major.to_owned());
    ensure!(major(&record.schema) == major(SCHEMA), "its schema is {:?}", record.schema);
    ensure!(record.vm.is_complete(), "not every setting has a value in it");
    let known = |name: &String| KEPT.iter().any(|names| names.contains(&name.as_str()));
    let odd = record.devices.values().flat_map(BTreeMap::keys).find(|name| !known(name));
    odd.map_or(Ok(record.clone()), |name| Err(anyhow!("{name:?} is no limit of a device")))
}

fn damaged(path: &Path) -> String {
    format!(
        "the restore file {} cannot be used, and nothing was changed; set vm.dirty_* yourself \
         (sysctl --system gives the values the machine starts with), then remove the file",
        path.display()
    )
}

/// The schema of the restore file.
const SCHEMA: &str = "flushmark.restore/1.0";

const FILE_NAME: &str = "flushmark-restore.json";

/// No restore file is near as long.
const LONGEST: u64 = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = r#"{"schema":"flushmark.restore/1.0","pid":7,"started_ticks":9,
        "boot_id":"x","vm":{"dirty_ratio":20,"dirty_background_ratio":10,
        "dirty_expire_centisecs":3000,"dirty_writeback_centisecs":500},
        "devices":{"7:0":{"max_ratio_fine":1000000,"min_ratio_fine":0,"strict_limit":0}}}"#;

    #[test]
    fn a_record_comes_back_as_it_was_written() {
        let record = parse(WHOLE).unwrap();
        assert_eq!((record.process.pid, record.process.started_ticks), (7, 9));
        let dir = tempfile::tempdir().unwrap();
        let path = record.save(&["/nonexistent".into(), dir.path().into()]).unwrap();
        assert_eq!(path, dir.path().join(FILE_NAME));
        assert_eq!(load(&path).unwrap(), Some(record));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing beside it");
    }

    #[test]
    fn what_makes_no_sense_is_an_error() {
        #[track_caller]
        fn check(from: &str, to: &str, expect: &str) {
            assert!(WHOLE.contains(from), "{from}");
            let error = format!("{:#}", parse(&WHOLE.replace(from, to)).unwrap_err());
            assert!(error.contains(expect), "{error}");
        }
        check("restore/1.0", "restore/2.0", "its schema is");
        check("\"dirty_ratio\":20,", "", "not every setting");
        check("\"dirty_ratio\":20", "\"dirty_ratio\":20,\"dirty_bytes\":99999", "exclude each");
        check("\"dirty_ratio\":20", "\"dirty_bytes\":0", "less than two pages");
        check("\"dirty_ratio\":20", "\"swappiness\":0", "unknown variant");
        check("\"7:0\"", "\"../../etc\"", "not a device number");
        check("\"strict_limit\"", "\"../../x\"", "no limit of a device");
        check("\"pid\":7,", "", "pid");
        check("500},", "500}", "expected");
        assert!(parse(&WHOLE.replace("1.0", "1.7")).is_ok(), "a minor version adds fields");
    }

    #[test]
    fn every_cut_of_the_file_is_refused() {
        for len in 0..WHOLE.len() {
            assert!(parse(&WHOLE[..len]).is_err(), "{len}");
        }
    }

    #[test]
    fn a_link_a_giant_and_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE_NAME);
        assert_eq!(load(&path).unwrap(), None);
        std::fs::write(dir.path().join("target"), WHOLE).unwrap();
        std::os::unix::fs::symlink(dir.path().join("target"), &path).unwrap();
        assert_eq!(load(&path).unwrap(), None, "a link is not followed");
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, " ".repeat(70_000)).unwrap();
        assert!(format!("{:#}", load(&path).unwrap_err()).contains("longer than"));
    }
}
