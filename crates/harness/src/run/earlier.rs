//! A run that ended early and is gone on with.

use std::path::Path;

use anyhow::{Result, ensure};

use super::{Order, count, real};
use crate::environment;
use crate::output::{Output, read_cells, read_environment, read_manifest};
use crate::results::{Cell, Manifest, Outcome};

/// What an earlier run left.
pub(super) struct Earlier {
    pub(super) output: Output,
    pub(super) manifest: Manifest,
    pub(super) cells: Vec<Cell>,
}

impl Earlier {
    /// Opens it, to go on with what `order` says.
    ///
    /// # Errors
    ///
    /// If it is none, or is whole; or if what would be measured now and what was measured then
    /// cannot be compared: another profile, directory, machine or build.
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
        let host = environment::capture(&order.directory)?.host_hash;
        ensure!(
            read_environment(path)?.host_hash == host,
            "{name} was measured on another machine: one run is of one machine"
        );
        if let (Some(then), Some(now)) = (&manifest.origin.revision, &order.origin.revision) {
            ensure!(
                then == now,
                "{name} was measured by revision {then}, this is {now}: check that one out, or \
                 measure anew"
            );
        }
        Ok(Self { output: Output::open(path)?, manifest, cells })
    }
}
