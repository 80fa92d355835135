//! A disk that fails in the middle of a sweep.

use anyhow::{Error, Result};

use super::{Running, plan};
use crate::results::{LeftOut, Outcome};

impl Running<'_> {
    /// Goes on without a disk on which a cell failed, if there is another one: what can be measured
    /// there is not to be lost with it. The error is told at the end, and the run has failed.
    ///
    /// # Errors
    ///
    /// The same error if no other disk is left.
    pub(super) fn give_up(&mut self, disk: usize, block: u32, error: Error) -> Result<()> {
        let sweep = &self.order.sweep;
        if self.benches.iter().flatten().count() < 2 {
            return Err(error);
        }
        let name = &sweep.disks[disk].name;
        let missing = (0..sweep.blocks).flat_map(|number| {
            (0..).zip(plan::block(sweep, number)).map(move |(place, item)| (number, place, item))
        });
        let missing = missing
            .filter(|(number, position, item)| item.disk == disk && !self.has(*number, *position));
        let missing = u32::try_from(missing.count()).unwrap_or(u32::MAX);
        self.manifest.cells_planned = self.manifest.cells_planned.saturating_sub(missing);
        self.manifest.left_out.push(LeftOut {
            what: format!("disk {name} from block {} on", block + 1),
            why: format!("it failed: {error:#}"),
            how: "what was measured on it before is kept; the kernel's log may say more".to_owned(),
        });
        self.output.write_json("manifest.json", &self.manifest)?;
        self.failed.push(error.context(format!("disk {name} failed in block {}", block + 1)));
        // Settings of its device may be in force: it is removed when all are put back.
        self.broken.extend(self.benches[disk].take());
        Ok(())
    }

    /// How the blocks ended, with what failed meanwhile.
    pub(super) fn with_failures(&mut self, ended: Result<Outcome>) -> Result<Outcome> {
        self.failed.drain(..).fold(ended, |ended, error| super::and(ended, Err(error)))
    }
}
