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
use crate::format;
use crate::summary::{Figures, Loss};

/// Which crash a chart is about.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LossModel {
    /// Chart C1: what no successful sync covers is lost.
    Power,
    /// Chart C1b: what the page cache does not hold is lost.
    Process,
}

impl LossModel {
    /// Both, the one that takes more first.
    pub const ALL: [Self; 2] = [Self::Power, Self::Process];

    /// The chart's question, which is its title.
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

    /// The loss under this crash.
    pub fn loss(self, figures: &Figures) -> Loss {
        match self {
            Self::Power => figures.power,
            Self::Process => figures.process,
        }
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
