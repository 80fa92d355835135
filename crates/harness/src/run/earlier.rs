//! A run that ended early and is gone on with.

use std::path::Path;

use anyhow::{Result, bail, ensure};

use super::{Order, count, real};
use crate::environment;
use crate::output::{Output, read_cells, read_environment, read_manifest};
use crate::results::{Cell, Environment, Manifest, Origin, Outcome};

/// What an earlier run left.
pub(super) struct Earlier {
    pub(super) output: Output,
    pub(super) manifest: Manifest,
    pub(super) cells: Vec<Cell>,
    environment: Environment,
}

impl Earlier {
    /// Opens it, to go on with what `order` says.
    ///
    /// # Errors
    ///
    /// If it is none, or is whole; or if what would be measured now and what was measured then
    /// cannot be compared: another profile, directory, machine, kernel or build.
    pub(super) fn open(path: &Path, order: &Order) -> Result<Self> {
        let manifest = read_manifest(path)?;
        let cells = read_cells(path)?;
        let name = path.display();
        ensure!(
            manifest.outcome != Outcome::Complete || count(&cells) < manifest.cells_planned,
            "{name} is complete: all its {} cells are measured",
            manifest.cells_planned
        );
        ensure!(manifest.profile == order.sweep.text, "{name} was measured with another profile");
        let directory = real(&order.directory).display().to_string();
        ensure!(
            manifest.directory.is_empty() || manifest.directory == directory,
            "{name} was measured in {}, not in {directory}: one run is of one disk",
            manifest.directory
        );
        let environment = read_environment(path)?;
        let now = environment::capture(&order.directory)?;
        ensure!(
            environment.host_hash == now.host_hash,
            "{name} was measured on another machine: one run is of one machine"
        );
        ensure!(
            environment.kernel == now.kernel,
            "{name} was measured under Linux {}, this is {}: start that one, or measure anew",
            environment.kernel,
            now.kernel
        );
        if let Err(reason) = same_program(&manifest.origin, &order.origin) {
            bail!("{name} was measured by {reason}");
        }
        ensure!(
            environment.build == now.build,
            "{name} was measured by a program built otherwise ({}; this: {}): build it so, or \
             measure anew",
            environment.build,
            now.build
        );
        Ok(Self { output: Output::open(path)?, manifest, cells, environment })
    }

    /// What is to be said of both halves.
    pub(super) fn joined(&self, now: Environment) -> Environment {
        joined(&self.environment, now)
    }
}

/// Where both halves of a run were: the disks of the first stay, for cells were measured on them,
/// whether they are there now or not.
fn joined(then: &Environment, now: Environment) -> Environment {
    if then.disks.is_empty() {
        return now;
    }
    let mut disks = then.disks.clone();
    for disk in now.disks {
        match disks.iter_mut().find(|known| known.name == disk.name) {
            // What must be said of one half must be said of the run.
            Some(known) => {
                let more = disk.labels.into_iter();
                let more: Vec<_> = more.filter(|label| !known.labels.contains(label)).collect();
                known.labels.extend(more);
            }
            None => disks.push(disk),
        }
    }
    Environment { disk: then.disk.clone(), disks, ..now }
}

/// Whether the two are known to be one program; if not, what measured `then`, and what to do.
fn same_program(then: &Origin, now: &Origin) -> Result<(), String> {
    let anew = "measure anew (without --resume)";
    match (&then.revision, &now.revision) {
        (Some(other), Some(this)) if other != this => {
            return Err(format!("revision {other}, this is {this}: check that one out, or {anew}"));
        }
        (Some(_), Some(_)) => {}
        (None, None) if then.version == now.version => {}
        (None, None) => {
            return Err(format!("version {}, this is {}: {anew}", then.version, now.version));
        }
        (Some(known), None) => {
            return Err(format!("revision {known}, and this one's is not known: {anew}"));
        }
        (None, Some(known)) => {
            return Err(format!("a revision that is not known, this is {known}: {anew}"));
        }
    }
    // Two checkouts with changes may differ in anything.
    match (then.dirty, now.dirty) {
        (Some(true), _) => Err(format!("a checkout with uncommitted changes: {anew}")),
        (_, Some(true)) => Err(format!(
            "a checkout without changes, this one has some: put them aside (git stash), or {anew}"
        )),
        (then, now) if then != now => {
            Err(format!("a checkout of which it is not known whether it had changes: {anew}"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{DiskInfo, MeasuredDisk};
    use crate::results_fixture;

    #[test]
    fn what_may_be_another_program_goes_not_on_and_says_how_to() {
        #[track_caller]
        fn check(then: (Option<&str>, Option<bool>), now: (Option<&str>, Option<bool>)) -> String {
            let [then, now] = [then, now].map(|(revision, dirty)| Origin {
                revision: revision.map(str::to_owned),
                dirty,
                ..Origin::here(&[], None)
            });
            same_program(&then, &now).err().unwrap_or_default()
        }
        let (clean, dirty) = (Some(false), Some(true));
        assert_eq!(check((Some("a"), clean), (Some("a"), clean)), "");
        assert_eq!(check((None, None), (None, None)), "", "outside a checkout");
        let all = [
            check((Some("a"), clean), (Some("b"), clean)),
            check((Some("a"), clean), (None, None)),
            check((None, None), (Some("a"), clean)),
            check((Some("a"), dirty), (Some("a"), clean)),
            check((Some("a"), clean), (Some("a"), dirty)),
            check((Some("a"), dirty), (Some("a"), dirty)),
            check((Some("a"), None), (Some("a"), clean)),
            check((Some("a"), clean), (Some("a"), None)),
        ];
        for refused in &all {
            assert!(refused.ends_with("measure anew (without --resume)"), "{refused}");
        }
        assert!(all[0].starts_with("revision a, this is b: check that one out"));
        let then = Origin { version: "0.1.0".to_owned(), ..Origin::here(&[], None) };
        assert!(same_program(&then, &Origin::here(&[], None)).is_err());
    }

    #[test]
    fn disks_of_both_halves_are_kept_with_what_must_be_said_of_either() {
        let of = |disks: &[(&str, &[&str], u64)]| {
            let disks = disks.iter().map(|(name, labels, sync_p50_ns)| MeasuredDisk {
                name: (*name).to_owned(),
                labels: labels.iter().map(|label| (*label).to_owned()).collect(),
                calibration: None,
                sync_p50_ns: *sync_p50_ns,
                info: DiskInfo::default(),
            });
            Environment { disks: disks.collect(), ..results_fixture::environment() }
        };
        let mut then = of(&[("gone", &[], 1), ("both", &["EMULATED"], 2)]);
        then.disk.path = "/first".to_owned();
        let now = of(&[("new", &[], 3), ("both", &["EMULATED", "asked latency missed"], 4)]);
        let found = joined(&then, now.clone());
        let labels: &[_] = &["EMULATED", "asked latency missed"];
        assert_eq!(
            found.disks,
            of(&[("gone", &[], 1), ("both", labels, 2), ("new", &[], 3)]).disks
        );
        assert_eq!(found.disk.path, "/first");
        assert_eq!(joined(&of(&[]), now.clone()), now, "before disks were recorded");
    }
}
