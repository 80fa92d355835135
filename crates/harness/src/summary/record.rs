//! What the rows come to, as `summary.json`: every statistic of every figure.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Figures, Kept, Percentile, Row, Stat};
use crate::profile::Slo;
use crate::results::{Kind, NotHardware, Status};

/// The schema of [`Summary`].
pub const SCHEMA: &str = "flushmark.summary/1.0";

/// The rows of a run: `summary.json`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Summary {
    /// [`SCHEMA`].
    pub schema: String,
    /// The run's directory name.
    pub run: String,
    /// One strategy under one load, each.
    pub rows: Vec<SummaryRow>,
}

/// One strategy under one load, over all blocks.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct SummaryRow {
    /// The disk's name.
    pub disk: String,
    /// The kernel settings' name.
    pub sysctl: String,
    /// The workload's name.
    pub workload: String,
    /// The strategy's name in the profile.
    pub strategy: String,
    /// What the strategy is.
    pub kind: Kind,
    /// Producer threads.
    pub producers: u32,
    /// What the disk was, if not hardware.
    #[serde(flatten)]
    pub not_hardware: NotHardware,
    /// The worst of the cells' states.
    pub status: Status,
    /// The blocks that count.
    pub blocks: Vec<u32>,
    /// The blocks that are invalid.
    pub invalid_blocks: Vec<u32>,
    /// Whether the profile's `slo.ack_p99_ms` is kept, with the whole range; `null` where it asks
    /// nothing, or the row has no figures.
    pub meets_ack_p99: Option<bool>,
    /// The same of `slo.power_loss_rpo_ms`; of what was not seen whole, not.
    pub meets_power_loss_rpo: Option<bool>,
    /// The figures over the blocks that count, by name; those that no block had are missing.
    pub figures: BTreeMap<String, Figure>,
}

/// A figure over the blocks of a row.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct Figure {
    /// How many blocks had it.
    pub blocks: u64,
    /// The middle one; the mean of the middle two if their count is even.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// The geometric mean; `null` with fewer than six blocks, or where it is 0 in one.
    pub geometric_mean: Option<f64>,
    /// The lower end of the 95 % t interval of the logarithms, given back as what it is of.
    pub geometric_mean_low: Option<f64>,
    /// The upper end.
    pub geometric_mean_high: Option<f64>,
    /// The lower end of the narrowest interval between two of the values that holds the median in
    /// 95 of 100 runs; `null` with fewer than six blocks.
    pub median_low: Option<f64>,
    /// The upper end.
    pub median_high: Option<f64>,
    /// How often that interval holds the median, in percent.
    pub median_coverage_pct: Option<f64>,
}

impl From<Stat> for Figure {
    fn from(stat: Stat) -> Self {
        let (geometric_mean, interval) = stat.mean.unzip();
        let of_median = stat.median_interval;
        Self {
            blocks: store_core::length_u64(stat.blocks),
            median: stat.median,
            min: stat.min,
            max: stat.max,
            geometric_mean,
            geometric_mean_low: interval.map(|interval| interval.low),
            geometric_mean_high: interval.map(|interval| interval.high),
            median_low: of_median.map(|found| found.interval.low),
            median_high: of_median.map(|found| found.interval.high),
            median_coverage_pct: of_median.map(|found| found.coverage_pct),
        }
    }
}

/// The record of these rows, of which this is asked.
pub fn record(run: &str, rows: &[Row], slo: Slo) -> Summary {
    let row = |row: &Row| SummaryRow {
        disk: row.disk.clone(),
        sysctl: row.sysctl.clone(),
        workload: row.workload.clone(),
        strategy: row.strategy.clone(),
        kind: row.kind,
        producers: row.producers,
        not_hardware: row.not_hardware,
        status: row.status,
        blocks: row.blocks.clone(),
        invalid_blocks: row.invalid_blocks.clone(),
        meets_ack_p99: Kept::of(row, slo).ack_p99,
        meets_power_loss_rpo: Kept::of(row, slo).power_loss_rpo,
        figures: row.figures.as_ref().map(named).unwrap_or_default(),
    };
    Summary { schema: SCHEMA.to_owned(), run: run.to_owned(), rows: rows.iter().map(row).collect() }
}

/// The figures by the names that cells have for them.
fn named(figures: &Figures) -> BTreeMap<String, Figure> {
    let ns = |percentile: Option<Percentile>| percentile.map(|percentile| percentile.ns);
    let (process, power) = (&figures.process, &figures.power);
    let all = [
        ("acked_per_s", Some(figures.acked_per_s)),
        ("ack_ns_p50", ns(figures.ack_p50)),
        ("ack_ns_p99", ns(figures.ack_p99)),
        ("ack_ns_p999", ns(figures.ack_p999)),
        ("ack_ns_max", ns(figures.ack_max)),
        ("flush_ns_p50", ns(figures.flush_p50)),
        ("process_exposure_age_ns_p99", Some(process.age_ns)),
        ("process_exposure_bytes_p99", Some(process.bytes)),
        ("process_exposure_messages_p99", Some(process.messages)),
        ("power_exposure_age_ns_p99", Some(power.age_ns)),
        ("power_exposure_bytes_p99", Some(power.bytes)),
        ("power_exposure_messages_p99", Some(power.messages)),
        ("write_amplification", figures.write_amplification),
        ("ratio_to_raw", figures.ratio_to_raw),
    ];
    let there = all.into_iter().filter_map(|(name, stat)| Some((name.to_owned(), stat?.into())));
    there.collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::results::Cell;
    use crate::results_fixture::{example, example_of, troubled};
    use crate::summary::rows;

    fn of(cells: &[Cell]) -> Summary {
        let slo =
            Slo { ack_p99: Some(Duration::from_millis(1)), power_loss_rpo: Some(Duration::ZERO) };
        record("a", &rows(cells), slo)
    }

    #[test]
    fn rows_say_whether_they_keep_what_is_asked() {
        let summary = of(&troubled());
        let found = |strategy: &str, producers| {
            let is_it =
                |row: &&SummaryRow| (&*row.strategy, row.producers) == (strategy, producers);
            let row = summary.rows.iter().find(is_it).unwrap();
            (row.meets_ack_p99, row.meets_power_loss_rpo)
        };
        assert_eq!(found("sync", 8), (Some(true), Some(true)));
        assert_eq!(found("timed", 8), (Some(true), Some(false)));
        assert_eq!(found("staged", 8), (None, None), "no block of it is valid");
        let nothing = record("a", &rows(&example()), Slo::default());
        assert!(nothing.rows.iter().all(|row| row.meets_ack_p99.is_none()));
    }

    #[test]
    fn a_record_has_both_intervals_with_enough_blocks_alone() {
        let mut cells = example_of(9);
        for cell in &mut cells {
            cell.acked_per_s = 1000.0 + f64::from(cell.block);
        }
        let rate = of(&cells).rows[1].figures["acked_per_s"];
        assert_eq!((rate.blocks, rate.median_coverage_pct.map(f64::round)), (9, Some(96.0)));
        assert_eq!((rate.min, rate.median_low), (1000.0, Some(1001.0)), "the second of nine");
        assert_eq!((rate.max, rate.median_high), (1008.0, Some(1007.0)));
        assert!(rate.geometric_mean_low < rate.geometric_mean, "{rate:?}");
        let few = of(&example()).rows[1].figures["acked_per_s"];
        assert_eq!((few.geometric_mean, few.median_low), (None, None));
        assert!(few.min < few.max);
    }

    #[test]
    fn what_was_never_measured_is_missing_and_what_is_invalid_too() {
        let summary = of(&troubled());
        let of = |strategy: &str, producers: u32| {
            let is_it =
                |row: &&SummaryRow| (&*row.strategy, row.producers) == (strategy, producers);
            summary.rows.iter().find(is_it).unwrap()
        };
        assert!(!of("none", 1).figures.contains_key("flush_ns_p50"), "never flushed");
        assert!(of("staged", 8).figures.is_empty());
        assert_eq!(of("staged", 8).invalid_blocks, [0, 1, 2]);
        assert_eq!(of("sync", 64).figures["acked_per_s"].blocks, 2);
    }
}
