//! The lines of chart C2: a strategy's latencies under one load, over its blocks.

use hdrhistogram::Histogram;

use crate::chart::choice;
use crate::clock::float;
use crate::recorded::Recorded;
use crate::results::{Cell, Quantiles};
use crate::summary::{Row, Stat};

/// A line with its band.
pub(super) struct Curve<'a> {
    pub(super) row: &'a Row,
    /// Its points, the most common first.
    pub(super) points: Vec<Point>,
    /// Of an open loop, the same from the append on.
    pub(super) service: Vec<Point>,
    /// The slowest of all blocks, in nanoseconds.
    pub(super) max: f64,
    /// Percent of the messages over 200 ms and over 3 s, of all blocks; `None` if nothing tells.
    pub(super) over: [Option<f64>; 2],
    /// Whether it joins what was summed up, for want of histograms.
    pub(super) from_summary: bool,
    invalid: bool,
    overload: bool,
    /// The fewest messages of a block.
    count: f64,
    blocks: usize,
}

/// What one in so many messages takes longer than.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    /// 1/(1−q).
    pub(super) rarity: f64,
    /// In nanoseconds: the lowest of the blocks, their middle one, and the highest.
    pub(super) low: f64,
    pub(super) middle: f64,
    pub(super) high: f64,
    /// Whether it has a mark.
    pub(super) is_mark: bool,
}

impl Curve<'_> {
    /// Whether its figures must not be used as they are.
    pub(super) fn hollow(&self) -> bool {
        self.invalid || self.overload
    }

    /// Why, in a word.
    pub(super) fn state(&self) -> Option<&'static str> {
        match (self.invalid, self.overload) {
            (true, _) => Some("hollow: invalid"),
            (false, true) => Some("hollow: overload"),
            (false, false) => None,
        }
    }

    pub(super) fn has_band(&self) -> bool {
        self.blocks > 1
    }

    /// How rare something can be of which a hundred were seen.
    pub(super) fn firm_to(&self) -> f64 {
        self.count / 100.0
    }

    /// The rarest point.
    pub(super) fn rarest(&self) -> f64 {
        self.points.last().map_or(1.0, |point| point.rarity)
    }

    /// The lowest and the highest that is drawn of each point.
    pub(super) fn ends(&self) -> Vec<f64> {
        let own = self.points.iter().flat_map(|point| [point.low, point.high]);
        own.chain(self.service.iter().map(|point| point.middle)).collect()
    }

    /// The point of this rarity, if so many were measured.
    pub(super) fn at(&self, rarity: f64) -> Option<&Point> {
        self.points.iter().find(|point| (point.rarity / rarity - 1.0).abs() < 1e-6)
    }
}

/// A curve for each row whose cells recorded latencies, and one for its invalid cells.
pub(super) fn curves<'a>(recorded: &Recorded, rows: &'a [Row]) -> anyhow::Result<Vec<Curve<'a>>> {
    let mut curves = Vec::new();
    for row in rows {
        for invalid in [false, true] {
            let cells = choice::cells_where(recorded, row, invalid);
            curves.extend(curve(recorded, row, &cells, invalid)?);
        }
    }
    Ok(curves)
}

fn curve<'a>(
    recorded: &Recorded,
    row: &'a Row,
    cells: &[&Cell],
    invalid: bool,
) -> anyhow::Result<Option<Curve<'a>>> {
    let cells: Vec<&Cell> = cells.iter().copied().filter(|cell| cell.ack_ns().count > 0).collect();
    let counts = cells.iter().map(|cell| cell.ack_ns().count);
    let Some(count) = counts.min() else { return Ok(None) };
    let count = float(count);
    let blocks = distributions(recorded, &cells, |cell| {
        (if cell.open_loop.is_some() { "due_to_ack" } else { "append_to_ack" }, cell.ack_ns())
    })?;
    let is_open = |cell: &&Cell| cell.open_loop.is_some() && cell.append_to_ack_ns.count > 0;
    let open: Vec<&Cell> = cells.iter().copied().filter(is_open).collect();
    let service = distributions(recorded, &open, |cell| ("append_to_ack", cell.append_to_ack_ns))?;
    let maxima = cells.iter().map(|cell| float(cell.ack_ns().max));
    Ok(Some(Curve {
        row,
        points: points(&blocks, count),
        service: points(&service, count),
        max: maxima.fold(0.0, f64::max),
        over: [200_000_000, 3_000_000_000].map(|ns| over(&blocks, ns)),
        from_summary: blocks.iter().any(|block| matches!(block, Distribution::Summary(_))),
        invalid,
        overload: choice::is_overload(&cells),
        count,
        blocks: blocks.len(),
    }))
}

/// What is known of a cell's latencies.
enum Distribution {
    Whole(Histogram<u64>),
    /// The percentiles alone.
    Summary(Quantiles),
}

/// The histograms of the cells; if one has none, the percentiles of all, so that all are alike.
fn distributions(
    recorded: &Recorded,
    cells: &[&Cell],
    which: fn(&Cell) -> (&'static str, Quantiles),
) -> anyhow::Result<Vec<Distribution>> {
    let mut whole = Vec::new();
    for cell in cells {
        let found = recorded.histogram(cell, which(cell).0)?;
        let Some(histogram) = found.filter(|histogram| !histogram.is_empty()) else {
            let summed = cells.iter().map(|cell| Distribution::Summary(which(cell).1));
            return Ok(summed.collect());
        };
        whole.push(Distribution::Whole(histogram));
    }
    Ok(whole)
}

impl Distribution {
    /// What one in `rarity` takes longer than.
    fn at(&self, rarity: f64) -> Option<f64> {
        let ns = match self {
            Self::Whole(histogram) => histogram.value_at_quantile(1.0 - 1.0 / rarity),
            Self::Summary(summary) => {
                let known = SUMMED.iter().find(|(known, _)| (known / rarity - 1.0).abs() < 1e-6)?;
                known.1(summary)
            }
        };
        // A logarithmic axis has no 0; the clock tells no less than this apart.
        Some(float(ns.max(1)))
    }
}

fn points(blocks: &[Distribution], count: f64) -> Vec<Point> {
    let rarities = rarities().filter(|(rarity, _)| *rarity <= count.min(RAREST));
    let point = |(rarity, is_mark): (f64, bool)| {
        let found: Option<Vec<f64>> = blocks.iter().map(|block| block.at(rarity)).collect();
        let stat = Stat::of(found?)?;
        Some(Point { rarity, low: stat.min, middle: stat.median, high: stat.max, is_mark })
    };
    rarities.filter_map(point).collect()
}

/// Eight to a decade, and the median; powers of ten have marks.
fn rarities() -> impl Iterator<Item = (f64, bool)> {
    let decade = |power: i32| {
        (0..8_u32).flat_map(move |step| {
            let at = 10_f64.powi(power) * 10_f64.powf(f64::from(step) / 8.0);
            let median = (power == 0 && step == 2).then_some((2.0, false));
            [Some((at, step == 0 && power > 0)), median].into_iter().flatten()
        })
    };
    (0..6).flat_map(decade).chain([(RAREST, true)])
}

/// Percent of all messages that took longer.
fn over(blocks: &[Distribution], ns: u64) -> Option<f64> {
    let (mut all, mut longer) = (0_u64, 0_u64);
    for block in blocks {
        let Distribution::Whole(histogram) = block else { return None };
        all = histogram.len().saturating_add(all);
        longer = histogram.count_between(ns, u64::MAX).saturating_add(longer);
    }
    (all > 0).then(|| 100.0 * float(longer) / float(all))
}

type Summed = fn(&Quantiles) -> u64;

/// The percentiles that are kept of each cell.
const SUMMED: [(f64, Summed); 6] = [
    (1.0, |q| q.min),
    (2.0, |q| q.p50),
    (10.0, |q| q.p90),
    (100.0, |q| q.p99),
    (1e3, |q| q.p999),
    (1e4, |q| q.p9999),
];
/// One in a million: an axis with more would be mostly empty.
const RAREST: f64 = 1e6;
