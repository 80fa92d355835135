//! The charts of a run, each with the question that it answers.

mod axis;
mod breakdown;
mod capacity;
pub mod card;
mod choice;
pub mod cuts;
mod drawn;
mod exposures;
mod fit;
mod flushes;
mod frame;
#[cfg(test)]
mod golden;
mod head;
mod labels;
mod latency;
mod load;
mod over_time;
mod pareto;
mod pen;
mod plot;
mod producers;
mod repeats;

pub use self::drawn::{Drawn, Figure, all};
pub use self::pareto::{frontier, pareto};
use crate::clock::{float, nanos};
use crate::format;
use crate::results::Manifest;
use crate::summary::LossModel;

impl LossModel {
    /// The question of C1, or C1b, which is its title.
    pub fn question(self) -> &'static str {
        match self {
            Self::Power => "How many messages per second, and what would a power cut take?",
            Self::Process => "How many messages per second, and what would kill -9 take?",
        }
    }

    /// The name of the chart's file, which also begins every id in it: `c1` or `c1b`.
    pub fn file_stem(self) -> &'static str {
        match self {
            Self::Power => "c1",
            Self::Process => "c1b",
        }
    }

    /// How old what is lost may be, if the profile asks; it asks nothing of `kill -9`.
    fn asked_ns(self, manifest: &Manifest) -> Option<f64> {
        let asked = manifest.slo().power_loss_rpo.filter(|_| self == Self::Power)?;
        Some(float(nanos(asked).get()))
    }

    fn axis_title(self) -> &'static str {
        match self {
            Self::Power => {
                "power-cut exposure: age of the oldest message at risk, p99 of time (log)"
            }
            Self::Process => {
                "kill -9 exposure: age of the oldest message at risk, p99 of time (log)"
            }
        }
    }
}

/// `svg` with a name and a description for those who do not see it; their ids begin with `id`.
fn with_description(svg: &str, title: &str, description: &str, id: &str) -> String {
    let (tag, rest) = svg.split_once('>').expect("the backend opens an svg element");
    format!(
        "{tag} role=\"img\" aria-labelledby=\"{id}-title {id}-desc\">\n\
         <title id=\"{id}-title\">{}</title>\n<desc id=\"{id}-desc\">{}</desc>{rest}",
        format::escaped(title),
        format::escaped(description)
    )
}

fn drawable(rate: f64) -> bool {
    rate.is_finite() && rate > 0.0
}

const HEIGHT: i32 = 560;
const RIGHT: i32 = 876;
