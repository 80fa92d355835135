//! A sweep's kernel settings: brought into force, and whether a cell ran under them.

use anyhow::Result;

use crate::profile::Sysctls;
use crate::results::{Cell, Check, Level};
use crate::sysctl::{Applied, Guard, Status as InForce};
use crate::validity;

/// Whether a cell runs under the settings that its name says, and its disk's device under those of
/// its own.
pub(super) fn sysctl_check(of: &Sysctls, applied: Option<&Applied>) -> Check {
    let reason = applied
        .filter(|applied| applied.status == InForce::NotApplied)
        .map(|applied| applied.reason.clone().unwrap_or_default());
    let found = applied.iter().flat_map(|applied| &applied.values);
    let of_device: Vec<String> = found
        .filter(|found| found.key.starts_with("bdi/"))
        .map(|found| format!("{} {}", found.key, found.asked))
        .collect();
    let value = match &reason {
        Some(reason) => format!("{}: not applied: {reason}", of.name),
        None if !of_device.is_empty() => {
            format!("{}: applied, as read back, with {}", of.name, of_device.join(", "))
        }
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
    let Some(drifts) = guard.check()? else {
        let (code, level) = ("sysctl_unchanged".to_owned(), Level::Label);
        let value = "not known: the kernel's settings could not be read".to_owned();
        let rule = UNCHANGED.to_owned();
        validity::add(cell, Check { code, level, value, rule });
        return Ok(());
    };
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
    let rule = UNCHANGED.to_owned();
    validity::add(cell, Check { code: "sysctl_unchanged".to_owned(), level, value, rule });
    Ok(())
}

const UNCHANGED: &str = "nobody else changed the kernel's settings meanwhile";
/// The code of the check that kernel settings were applied.
pub const NOT_APPLIED: &str = "sysctl_applied";
