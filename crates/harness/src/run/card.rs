//! The card of the first disk, before the first block.

use anyhow::Result;

use super::Running;
use super::prepared::first;
use super::settle::settle;
use crate::card::{self, Card};
use crate::live::Phase;
use crate::output;
use crate::results::LeftOut;

impl Running<'_> {
    /// Makes the card of the first disk, if the profile asks for one and an earlier run has none.
    ///
    /// What fails is left out, and said to be: no cell rests on it.
    pub(super) fn card(&mut self) -> Result<()> {
        let sweep = &self.order.sweep;
        let first = first(&self.benches).filter(|bench| bench.simulated.is_none());
        let Some(bench) = first.filter(|_| sweep.card) else { return Ok(()) };
        let is_whole = |card: &Card| card.verdict.is_some();
        // One that cannot be read any more is made again.
        if matches!(output::read_card(self.output.path()), Ok(Some(card)) if is_whole(&card)) {
            return Ok(());
        }
        let live = &self.order.live;
        live.begin(format!("card of disk {}", bench.name));
        live.enter(Phase::Resting, sweep.settle);
        settle(bench.directory(), sweep, self.interrupted);
        live.enter(Phase::Measuring, card::TIME);
        let made = bench.card(&self.manifest.run, &self.order.origin, self.interrupted);
        // An earlier attempt is over.
        let what = format!("card of disk {}", bench.name);
        self.manifest.left_out.retain(|earlier| !earlier.what.ends_with(&what));
        let (part, ended) = match made {
            Ok((card, ended)) => {
                self.output.write_json(card::FILE, &card)?;
                (if is_whole(&card) { "part of the " } else { "the " }, ended)
            }
            Err(error) => ("the ", Err(error)),
        };
        if let Err(error) = ended {
            self.manifest.left_out.push(LeftOut {
                what: format!("{part}{what}"),
                why: format!("{error:#}"),
                how: "make it alone with `cargo xtask disk`".to_owned(),
            });
        }
        self.output.write_json("manifest.json", &self.manifest)
    }
}
