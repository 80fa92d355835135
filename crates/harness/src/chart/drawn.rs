//! A chart with what belongs to it in a report.

use super::{
    breakdown, capacity, card, exposures, flushes, latency, load, over_time, producers, repeats,
};
use crate::recorded::Recorded;

/// A chart beside C1, drawn from what was recorded.
#[derive(Clone, Debug)]
pub struct Drawn {
    /// The name of its file without `.svg`, such as `c2`, which also begins every id in it.
    pub name: String,
    /// The question that it answers.
    pub question: &'static str,
    /// What is to be known to read it, in a sentence or two.
    pub note: String,
    /// The picture.
    pub svg: String,
    /// The names of the columns of the same figures as a table.
    pub heads: Vec<&'static str>,
    /// The table's rows, of which the first field names each.
    pub rows: Vec<Vec<Figure>>,
}

/// A field of a chart's table.
#[derive(Clone, Debug, PartialEq)]
pub enum Figure {
    /// Words.
    Text(String),
    /// A figure as it is read, and what it is sorted by.
    Number(String, f64),
    /// It is not known, or does not apply.
    Missing,
}

/// Draws a chart, if the results have something to show in it.
type Draw = fn(&Recorded) -> anyhow::Result<Option<Drawn>>;

/// All charts beside C1 that these results have something to show in, in the order of a report.
///
/// # Errors
///
/// If the drawing library fails, or a recorded histogram or series cannot be read.
pub fn all(recorded: &Recorded) -> anyhow::Result<Vec<Drawn>> {
    let mut drawn = Vec::new();
    for chart in CHARTS {
        drawn.extend(chart(recorded)?);
    }
    Ok(drawn)
}

/// The charts beside C1, by their numbers: C2 to C11.
const CHARTS: &[Draw] = &[
    latency::draw,
    load::draw,
    over_time::draw,
    producers::draw,
    exposures::draw,
    breakdown::draw,
    flushes::draw,
    capacity::draw,
    repeats::draw,
    card::draw,
];
