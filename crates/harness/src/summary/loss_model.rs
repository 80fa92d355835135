//! Which crash a loss is of.

use super::{Figures, Loss};

/// A crash.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LossModel {
    /// What no successful sync covers is lost.
    Power,
    /// What the page cache does not hold is lost.
    Process,
}

impl LossModel {
    /// Both, the one that takes more first.
    pub const ALL: [Self; 2] = [Self::Power, Self::Process];

    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Power => "power cut",
            Self::Process => "kill -9",
        }
    }

    /// The loss under this crash.
    pub fn loss(self, figures: &Figures) -> Loss {
        match self {
            Self::Power => figures.power,
            Self::Process => figures.process,
        }
    }
}
