//! The card of the first disk, before the first block.

use anyhow::Result;

use super::Running;
use super::prepared::first;
use crate::card::{self, Card};
use crate::live::Phase;
use crate::output;
use crate::results::LeftOut;

impl Running<'_> {
    /// Makes the card of the first disk, if the profile asks for one and an earlier run has none.
    ///
    /// A card that fails is left out: no cell rests on it.
    pub(super) fn card(&mut self) -> Result<()> {
        let first = first(&self.benches).filter(|bench| bench.simulated.is_none());
        let Some(bench) = first.filter(|_| self.order.sweep.card) else { return Ok(()) };
        let is_whole = |card: &Card| card.verdict.is_some();
        if output::read_card(self.output.path())?.as_ref().is_some_and(is_whole) {
            return Ok(());
        }
        let live = &self.order.live;
        live.begin(format!("card of disk {}", bench.name));
        live.enter(Phase::Measuring, card::TIME);
        let (card, ended) = bench.card(&self.manifest.run, &self.order.origin, self.interrupted);
        if let Some(card) = card {
            self.output.write_json(card::FILE, &card)?;
        }
        let Err(error) = ended else { return Ok(()) };
        self.manifest.left_out.push(LeftOut {
            what: format!("the card of disk {}, chart C11", bench.name),
            why: format!("{error:#}"),
            how: "make it alone with `cargo xtask disk`".to_owned(),
        });
        self.output.write_json("manifest.json", &self.manifest)
    }
}
