//! A sweep's kernel settings: brought into force, and whether a cell ran under them.

use anyhow::Result;

use crate::profile::Sysctls;
use crate::results::{Cell, Check, Level};
use crate::sysctl::{Applied, DirtySettings, Guard, Key, Status as InForce};
use crate::validity;

/// A profile's settings in the kernel's words.
pub(super) fn settings(of: &Sysctls) -> Result<DirtySettings> {
    use crate::profile::DirtyLimit::{Bytes, Ratio};
    let mut asked = DirtySettings::default();
    let limits = [
        (of.background, Key::BackgroundBytes, Key::BackgroundRatio),
        (of.limit, Key::Bytes, Key::Ratio),
    ];
    for (limit, bytes, ratio) in limits {
        match limit {
            Some(Bytes(value)) => asked.set(bytes, value)?,
            Some(Ratio(value)) => asked.set(ratio, u64::from(value))?,
            None => {}
        }
    }
    let times = [
        (of.expire_centisecs, Key::ExpireCentisecs),
        (of.writeback_centisecs, Key::WritebackCentisecs),
    ];
    for (value, key) in times {
        if let Some(value) = value {
            asked.set(key, u64::from(value))?;
        }
    }
    Ok(asked)
}

/// Whether a cell runs under the settings that its name says.
pub(super) fn sysctl_check(of: &Sysctls, applied: Option<&Applied>) -> Check {
    let reason = applied
        .filter(|applied| applied.status == InForce::NotApplied)
        .map(|applied| applied.reason.clone().unwrap_or_default());
    let value = match &reason {
        Some(reason) => format!("{}: not applied: {reason}", of.name),
        None if of.changes_nothing() => format!("{}: nothing was changed", of.name),
        None => format!("{}: applied, as read back", of.name),
    };
    Check {
        code: NOT_APPLIED.to_owned(),
        level: if reason.is_some() { Level::Invalid } else { Level::Pass },
        value,
        rule: "the kernel's settings are those that the profile names".to_owned(),
    }
}

/// No kernel has a hand in what is simulated.
pub(super) fn no_kernel() -> Check {
    Check {
        code: NOT_APPLIED.to_owned(),
        level: Level::Pass,
        value: "a simulated disk is under no kernel's settings".to_owned(),
        rule: "the kernel's settings are those that the profile names".to_owned(),
    }
}

/// At the end of a cell they still must be.
pub(super) fn unchanged(guard: &Guard, cell: &mut Cell) -> Result<()> {
    let drifts = guard.check()?;
    let level = if drifts.is_empty() { Level::Pass } else { Level::Invalid };
    let shown = |value: Option<u64>| value.map_or_else(|| "unset".to_owned(), |v| v.to_string());
    let changed = drifts.iter().map(|drift| {
        format!("{}: {}, was {}", drift.key, shown(drift.found), shown(drift.applied))
    });
    let value = if drifts.is_empty() {
        "unchanged".to_owned()
    } else {
        changed.collect::<Vec<_>>().join("; ")
    };
    let rule = "nobody else changed the kernel's settings meanwhile".to_owned();
    validity::add(cell, Check { code: "sysctl_unchanged".to_owned(), level, value, rule });
    Ok(())
}

/// The code of the check that kernel settings were applied.
pub const NOT_APPLIED: &str = "sysctl_applied";
