//! The kernel's write-back settings, changed for a measurement and put back, whatever happens.
//!
//! Only `vm.dirty_*` and the limits of devices of our own are ever touched, and only by a
//! [`Guard`]. It holds the machine's lock, and writes down what it found before it changes
//! anything. What it found is in force again when it is restored or dropped (so after an error or a
//! panic too), when a program that is told to end at once calls [`restore_now`], and after
//! `kill -9` at the next start, by [`Guard::take`] or [`restore_leftover`].
//!
//! Of each limit only the active twin is put back: the kernel refuses a limit of 0 bytes, and a
//! ratio that is written ends the limit in bytes.

mod device;
mod imitation;
mod kernel;
mod leftover;
mod owner;
mod settings;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use anyhow::{Result, anyhow, bail};
use serde::{Deserialize, Serialize};

pub use device::{DeviceLimits, DeviceNumber, Share};
pub use kernel::{Change, Roots};
pub use leftover::{Leftover, Restored, restore_leftover};
pub use owner::Busy;
pub use settings::{DirtySettings, Key, Limit, Refused, Warning};

use crate::vmstat;
use leftover::{Devices, Record};
pub(crate) use owner::Lock;

/// The right to change the kernel's settings, and the duty to put them back.
///
/// Call [`apply`](Self::apply) before each profile, [`check`](Self::check) at the end of each cell,
/// and [`restore`](Self::restore) at the end of all. Dropping it restores without a word.
#[derive(Debug)]
pub struct Guard {
    held: Arc<Mutex<Held>>,
    leftover: Leftover,
}

impl Guard {
    /// Takes the machine's lock, puts back what a killed process left, and reads what is in force.
    ///
    /// Nothing is changed beyond that. It takes no rights: without them [`Guard::apply`] says that
    /// nothing could be applied.
    ///
    /// # Errors
    ///
    /// [`Busy`] if another sweep runs on this machine. Or if there is a restore file that cannot be
    /// used: it says how to put that right.
    pub fn take(roots: &Roots) -> Result<Self> {
        let lock = Lock::take(&roots.run)?;
        let leftover = leftover::restore_locked(roots)?;
        let obstacle = match &leftover {
            Leftover::Failed { pid, restored, .. } => Some(format!(
                "the settings that process {pid} left could not be put back ({}); run `cargo xtask \
                 restore` as root",
                restored.failures().first().map_or("", String::as_str)
            )),
            _ => None,
        };
        let baseline = roots.settings();
        let held = Held {
            roots: roots.clone(),
            in_force: baseline.as_ref().ok().map(|found| (found.clone(), Devices::new())),
            baseline: baseline.map_err(|error| format!("{error:#}")),
            devices: Devices::new(),
            lock,
            obstacle,
            restore_file: None,
            is_over: false,
        };
        let held = Arc::new(Mutex::new(held));
        let mut guards = locked(&GUARDS);
        guards.retain(|guard| guard.strong_count() > 0);
        guards.push(Arc::downgrade(&held));
        Ok(Self { held, leftover })
    }

    /// Brings the settings of a profile into force, over what was found in the beginning: nothing
    /// of an earlier profile remains.
    ///
    /// All of it or nothing: if the kernel does not take one value, what was found in the beginning
    /// is in force again, and the answer says why. That is no error, but something to record; so
    /// is a missing right. Where all values are in force already, no right is needed.
    ///
    /// The limits of devices are set after those of the machine, of which they are a part. Give
    /// only devices that were made for this measurement.
    ///
    /// # Errors
    ///
    /// If settings of an earlier profile could not be put back: then it is not known what is in
    /// force, and the restore file stays. If [`restore_now`] was called: the program is to end.
    pub fn apply(
        &mut self,
        asked: &DirtySettings,
        devices: &[(DeviceNumber, DeviceLimits)],
    ) -> Result<Applied> {
        locked(&self.held).apply(asked, devices)
    }

    /// Whether all is still as [`apply`](Self::apply) left it, or as it was found before that: what
    /// is not. For the end of a cell. `None` if it is not known how it was.
    ///
    /// Also if nothing could be applied: then what was found must have stayed.
    ///
    /// # Errors
    ///
    /// If the kernel's files cannot be read.
    pub fn check(&self) -> Result<Option<Vec<Drift>>> {
        locked(&self.held).check()
    }

    /// Puts everything back as it was found, and gives up the lock.
    ///
    /// # Errors
    ///
    /// If something could not be put back, all of which is named; everything else was. The restore
    /// file stays for the next start.
    pub fn restore(self) -> Result<Restored> {
        locked(&self.held).restore()
    }

    /// What a killed process had left, and what became of it.
    pub fn leftover(&self) -> &Leftover {
        &self.leftover
    }

    /// What was in force in the beginning, if it could be read.
    pub fn found(&self) -> Option<DirtySettings> {
        locked(&self.held).baseline.clone().ok()
    }
}

/// Takes the machine's lock alone: nothing is read, and what a killed process left stays. For what
/// a sweep must not be disturbed by.
///
/// # Errors
///
/// [`Busy`] if a sweep runs on this machine.
pub(crate) fn lock(roots: &Roots) -> Result<Lock> {
    Lock::take(&roots.run)
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Who wants to know calls `restore`; what could not be put back stands in the file.
        let _ = locked(&self.held).restore();
    }
}

/// Puts back what any guard of this process has changed, at once and for good: no guard changes
/// anything after it. For a program that ends without unwinding, as at a second signal.
///
/// It takes locks and allocates, so it belongs into a thread that waits for the signal, not into
/// the signal's handler. What cannot be put back stays in the restore file.
///
/// # Errors
///
/// If something could not be put back.
pub fn restore_now() -> Result<()> {
    let guards: Vec<Arc<Mutex<Held>>> = locked(&GUARDS).iter().filter_map(Weak::upgrade).collect();
    let mut failed = Vec::new();
    for guard in guards {
        let mut held = locked(&guard);
        held.is_over = true;
        failed.extend(held.restore().err().map(|error| format!("{error:#}")));
    }
    if failed.is_empty() { Ok(()) } else { Err(anyhow!("{}", failed.join("; "))) }
}

/// Every guard of this process that was not dropped.
static GUARDS: Mutex<Vec<Weak<Mutex<Held>>>> = Mutex::new(Vec::new());

/// Who panicked while holding the lock left work undone, but nothing that the next cannot see.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What became of a profile's settings.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Applied {
    /// Whether they are in force.
    pub status: Status,
    /// Why they are not, in words, if so.
    pub reason: Option<String>,
    /// Each value that was asked for, and what was found when all was written.
    pub values: Vec<Found>,
    /// What the kernel took, but does not do as one might think.
    pub warnings: Vec<String>,
}

/// Whether a profile's settings are in force.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// All of them, as read back.
    Applied,
    /// None: what was found in the beginning is in force.
    NotApplied,
}

impl Status {
    /// In words: `applied`, `not applied`.
    pub fn words(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::NotApplied => "not applied",
        }
    }
}

/// One value that was asked for.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Found {
    /// `vm.dirty_ratio`, or `bdi/7:0/max_ratio`.
    pub key: String,
    /// What was asked for.
    pub asked: u64,
    /// What the kernel says it is; `None` if it says nothing.
    pub found: Option<u64>,
}

/// A setting that somebody else changed.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Drift {
    /// `vm.dirty_ratio`, or `bdi/7:0/max_ratio_fine`.
    pub key: String,
    /// What it was after the settings were applied; `None` for a twin that was not active.
    pub applied: Option<u64>,
    /// What it is now; `None` for a twin that is not active, or a device that is gone.
    pub found: Option<u64>,
}

/// The limits in force, and what they come to at this moment.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Effective {
    /// The active twin of the background limit.
    pub background: Limit,
    /// The active twin of the limit on writers.
    pub limit: Limit,
    /// The background limit by `/proc/vmstat`, which moves with the memory that is free.
    pub background_limit_bytes: Option<u64>,
    /// The limit on writers, likewise.
    pub limit_bytes: Option<u64>,
}

impl Effective {
    /// The memory of which the ratios are percentages, if the limit is given in percent.
    ///
    /// What [`DirtySettings::warnings`] needs to compare bytes with percent.
    pub fn available_bytes(&self) -> Option<u64> {
        match (self.limit, self.limit_bytes) {
            (Limit::Percent(percent), Some(bytes)) => bytes.checked_mul(100)?.checked_div(percent),
            _ => None,
        }
    }

    /// What is odd about a background limit in percent under a limit in bytes. Only the kernel can
    /// compare them, which uses exactly half of the limit where the background is no lower.
    fn warning(&self) -> Option<String> {
        let (Limit::Percent(_), Limit::Bytes(_)) = (self.background, self.limit) else {
            return None;
        };
        let half = self.limit_bytes? / 2;
        let (two_pages, _) = Key::Bytes.range();
        (half.abs_diff(self.background_limit_bytes?) <= two_pages).then(|| {
            format!(
                "background {} >= limit {}: the kernel uses half the limit ({half} bytes)",
                self.background, self.limit
            )
        })
    }
}

/// Which limits are in force, and how many bytes they are at this moment.
///
/// # Errors
///
/// If the settings cannot be read.
pub fn effective(roots: &Roots) -> Result<Effective> {
    let settings = roots.settings()?;
    let sample = if roots.is_real() { vmstat::sample() } else { None };
    let none = || anyhow!("the kernel shows no limit");
    Ok(Effective {
        background: settings.background_limit().ok_or_else(none)?,
        limit: settings.dirty_limit().ok_or_else(none)?,
        background_limit_bytes: sample.and_then(|dirty| dirty.background_limit_bytes),
        limit_bytes: sample.and_then(|dirty| dirty.limit_bytes),
    })
}

/// What a guard holds; behind a lock, for a signal's thread may want to restore.
#[derive(Debug)]
struct Held {
    roots: Roots,
    /// What was found, or why that cannot be known.
    baseline: Result<DirtySettings, String>,
    /// What was found of each device that was ever limited.
    devices: Devices,
    lock: Lock,
    /// Why nothing may be changed at all.
    obstacle: Option<String>,
    /// There as long as not everything is as it was found.
    restore_file: Option<PathBuf>,
    /// What was read back after the last profile.
    in_force: Option<(DirtySettings, Devices)>,
    /// Whether the program is ending, so that nothing may be changed any more.
    is_over: bool,
}

impl Held {
    fn apply(
        &mut self,
        asked: &DirtySettings,
        devices: &[(DeviceNumber, DeviceLimits)],
    ) -> Result<Applied> {
        if self.is_over {
            bail!("the kernel's settings were put back, because the program is to end");
        }
        let refused = match self.prepare(asked, devices) {
            Ok(None) => None,
            Ok(Some(target)) => self.enforce(&target, devices).err(),
            Err(error) => Some(error),
        };
        if let Some(reason) = &refused {
            let restored = self.put_back()?;
            if !restored.is_whole() {
                bail!("{reason:#}; then not all could be put back: {}", listed(&restored));
            }
        }
        self.in_force = self.read_back().ok();
        let mut applied = self.report(asked, devices);
        applied.reason = refused.map(|reason| format!("{reason:#}")).or(applied.reason);
        if applied.reason.is_some() {
            applied.status = Status::NotApplied;
        }
        Ok(applied)
    }

    /// Makes sure that all can be done and undone; what is to be in force, or `None` if all is
    /// already. An error is a reason to leave everything as it was found.
    fn prepare(
        &mut self,
        asked: &DirtySettings,
        devices: &[(DeviceNumber, DeviceLimits)],
    ) -> Result<Option<DirtySettings>> {
        if let Some(obstacle) = &self.obstacle {
            bail!("{obstacle}");
        }
        let baseline = self.baseline.clone().map_err(|error| anyhow!("{error}"))?;
        let target = asked.over(&baseline);
        let changes = self.roots.changes(&target)?;
        if changes.is_empty() && devices.is_empty() && self.devices.is_empty() {
            return Ok(None);
        }
        if self.lock.is_missing() {
            bail!("there is no place for a lock, and so none to make sure that one sweep runs");
        }
        if let Some(reason) = self.roots.unwritable_of(&changes, devices) {
            bail!("{reason}");
        }
        let mut known = self.devices.clone();
        for (device, _) in devices {
            if let Entry::Vacant(entry) = known.entry(*device) {
                entry.insert(self.roots.device(*device)?);
            }
        }
        let record = Record::new(baseline, known.clone())?;
        self.restore_file = Some(record.save(&self.roots.run)?);
        self.devices = known;
        Ok(Some(target))
    }

    fn enforce(
        &mut self,
        target: &DirtySettings,
        devices: &[(DeviceNumber, DeviceLimits)],
    ) -> Result<()> {
        for (key, value) in target.iter() {
            self.roots.put(key, value)?;
        }
        // A disk that went has taken its limits along.
        let there = self.devices.iter().filter(|(device, _)| self.roots.has_device(**device));
        for (device, kept) in there {
            let changes = self.roots.put_device(*device, kept);
            if let Some(failed) = changes.iter().find(|change| change.error.is_some()) {
                bail!("{failed}");
            }
        }
        devices.iter().try_for_each(|(device, limits)| self.roots.limit_device(*device, limits))?;
        let report = self.report(&DirtySettings::default(), devices);
        report.reason.map_or(Ok(()), |reason| Err(anyhow!("{reason}")))
    }

    /// What was asked for against what the kernel says.
    fn report(&self, asked: &DirtySettings, devices: &[(DeviceNumber, DeviceLimits)]) -> Applied {
        let mut values = Vec::new();
        let mut reason = None;
        let mut add = |key: String, asked: u64, found: Option<u64>, is_taken: bool| {
            if !is_taken && reason.is_none() {
                let now = found.map_or("not there".to_owned(), |found| found.to_string());
                reason = Some(format!("{key} was asked to be {asked} and is {now}"));
            }
            values.push(Found { key, asked, found });
        };
        for (key, value) in asked.iter() {
            let found = self.roots.value(key);
            add(format!("vm.{key}"), value, found, found == Some(value));
        }
        for (device, limits) in devices {
            for (name, value) in limits.asked() {
                let found = self.roots.device_value(*device, name);
                let is_taken = found.is_some_and(|found| device::is_taken(name, value, found));
                add(format!("bdi/{device}/{name}"), value, found, is_taken);
            }
        }
        let effective = effective(&self.roots).ok();
        let available = effective.and_then(|effective| effective.available_bytes());
        let now = self.roots.settings().unwrap_or_default();
        let known = now.warnings(available).into_iter().map(|warning| warning.words);
        let mut warnings: Vec<String> = known.collect();
        warnings.extend(effective.and_then(|effective| effective.warning()));
        Applied { status: Status::Applied, reason, values, warnings }
    }

    fn check(&self) -> Result<Option<Vec<Drift>>> {
        let Some((settings, devices)) = &self.in_force else {
            return Ok(None);
        };
        let now = self.roots.settings()?;
        let mut drifts = Vec::new();
        for key in Key::ALL {
            let (applied, found) = (settings.get(key), now.get(key));
            if applied != found {
                drifts.push(Drift { key: format!("vm.{key}"), applied, found });
            }
        }
        for (device, kept) in devices {
            for (name, value) in kept {
                let found = self.roots.device_value(*device, name);
                if found != Some(*value) {
                    let key = format!("bdi/{device}/{name}");
                    drifts.push(Drift { key, applied: Some(*value), found });
                }
            }
        }
        Ok(Some(drifts))
    }

    fn read_back(&self) -> Result<(DirtySettings, Devices)> {
        let devices: Result<BTreeMap<_, _>> = self
            .devices
            .keys()
            .filter(|number| self.roots.has_device(**number))
            .map(|number| Ok((*number, self.roots.device(*number)?)))
            .collect();
        Ok((self.roots.settings()?, devices?))
    }

    fn restore(&mut self) -> Result<Restored> {
        let restored = self.put_back()?;
        if !restored.is_whole() {
            bail!("not all of the kernel's settings could be put back: {}", listed(&restored));
        }
        Ok(restored)
    }

    /// Puts everything back, if anything was changed. The restore file goes once all is as it was.
    fn put_back(&mut self) -> Result<Restored> {
        let (Some(file), Ok(baseline)) = (&self.restore_file, &self.baseline) else {
            return Ok(Restored::default());
        };
        let restored = leftover::put_back(&self.roots, baseline, &self.devices);
        if restored.is_whole() {
            leftover::remove(file)?;
            self.restore_file = None;
            self.in_force = None;
            self.devices.clear();
        }
        Ok(restored)
    }
}

fn listed(restored: &Restored) -> String {
    restored.failures().join("; ")
}
