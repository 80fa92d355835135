//! The recorded rows of a cell as a chart over time takes them.

use std::collections::BTreeMap;

use crate::chart::choice;
use crate::clock::float;
use crate::recorded::Recorded;
use crate::results::{Cell, Status};
use crate::summary::Row;

/// What was seen under one kernel setting.
pub(super) struct Column<'a> {
    pub(super) row: &'a Row,
    /// One of each block.
    pub(super) traces: Vec<Trace>,
    /// Which of them stands for all.
    main: usize,
}

/// One block.
pub(super) struct Trace {
    pub(super) block: u32,
    pub(super) invalid: bool,
    pub(super) moments: Vec<Moment>,
    /// Of all appends.
    pub(super) p99_ns: u64,
}

/// The end of a tenth of a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Moment {
    /// Seconds since measuring began.
    pub(super) at_s: f64,
    /// Bytes that are dirty or being written.
    pub(super) dirty: Option<f64>,
    /// Where write-back begins, and where writers are stopped.
    pub(super) limits: Option<(f64, f64)>,
    /// Whether the kernel made writers wait.
    pub(super) throttled: bool,
    /// The longest append that ended; 0 if none did.
    pub(super) worst_ns: f64,
    /// What 99 of 100 of them took at most; `None` where it was not recorded, or none ended.
    pub(super) p99_ns: Option<f64>,
    /// Whether a sync returned.
    pub(super) flushed: bool,
    /// Whether a segment was full and the next one begun.
    pub(super) rolled: bool,
    /// Old files that were deleted beside the log.
    pub(super) deleted: f64,
}

impl<'a> Column<'a> {
    /// The row's blocks; `None` if none has a series.
    pub(super) fn of(recorded: &Recorded, row: &'a Row) -> anyhow::Result<Option<Self>> {
        let mut traces = Vec::new();
        // A profile that cannot be read any more tells of no segments.
        let sweep = recorded.manifest.sweep();
        let segment_bytes = sweep.map(|sweep| float(sweep.segment_bytes));
        for cell in choice::cells_of(recorded, row) {
            let moments = moments(&recorded.series(cell)?, segment_bytes);
            if moments.iter().any(|moment| moment.dirty.is_some()) {
                traces.push(Trace::of(cell, moments));
            }
        }
        // The valid ones by their dirty pages; the invalid ones stand for something only if they
        // are all there is.
        let mut order: Vec<usize> = (0..traces.len()).collect();
        let valid = traces.iter().filter(|trace| !trace.invalid).count();
        order.sort_by(|a, b| {
            let [a, b] = [a, b].map(|nth| &traces[*nth]);
            let dirty = |trace: &Trace| trace.dirty_max().unwrap_or(0.0);
            a.invalid.cmp(&b.invalid).then(dirty(a).total_cmp(&dirty(b)))
        });
        let count = if valid > 0 { valid } else { traces.len() };
        Ok(order.get(count.saturating_sub(1) / 2).map(|&main| Self { row, traces, main }))
    }

    pub(super) fn main(&self) -> &Trace {
        &self.traces[self.main]
    }

    pub(super) fn others(&self) -> impl Iterator<Item = &Trace> {
        let is_other = |(nth, _): &(usize, &Trace)| *nth != self.main;
        self.traces.iter().enumerate().filter(is_other).map(|(_, trace)| trace)
    }
}

impl Trace {
    fn of(cell: &Cell, moments: Vec<Moment>) -> Self {
        Self {
            block: cell.block,
            invalid: cell.status == Status::Invalid,
            moments,
            p99_ns: cell.append_ns.unwrap_or(cell.append_to_ack_ns).p99,
        }
    }

    pub(super) fn dirty_max(&self) -> Option<f64> {
        self.moments.iter().filter_map(|moment| moment.dirty).max_by(f64::total_cmp)
    }

    pub(super) fn worst_max(&self) -> f64 {
        self.moments.iter().fold(0.0, |worst, moment| worst.max(moment.worst_ns))
    }

    /// Whether the p99 of each tenth of a second was recorded.
    pub(super) fn has_p99(&self) -> bool {
        self.moments.iter().any(|moment| moment.p99_ns.is_some())
    }

    /// The highest of those.
    pub(super) fn p99_max(&self) -> Option<f64> {
        self.moments.iter().filter_map(|moment| moment.p99_ns).max_by(f64::total_cmp)
    }

    /// Where write-back begins, when it was lowest: limits move with the memory that is free.
    pub(super) fn background(&self) -> Option<f64> {
        self.limits().map(|(background, _)| background).min_by(f64::total_cmp)
    }

    /// Where writers are stopped, when it was lowest.
    pub(super) fn limit(&self) -> Option<f64> {
        self.limits().map(|(_, limit)| limit).min_by(f64::total_cmp)
    }

    fn limits(&self) -> impl Iterator<Item = (f64, f64)> {
        self.moments.iter().filter_map(|moment| moment.limits)
    }

    pub(super) fn is_throttled(&self) -> bool {
        self.moments.iter().any(|moment| moment.throttled)
    }

    /// Of the rows.
    pub(super) fn throttled_share(&self) -> f64 {
        let count = self.moments.iter().filter(|moment| moment.throttled).count();
        let [throttled, all] =
            [count, self.moments.len()].map(|count| float(store_core::length_u64(count)));
        throttled / all.max(1.0)
    }
}

/// The rows by time; those without one, which nothing writes, are left out.
fn moments(
    columns: &BTreeMap<String, Vec<Option<f64>>>,
    segment_bytes: Option<f64>,
) -> Vec<Moment> {
    let value = |name: &str, nth: usize| {
        let value = columns.get(name).and_then(|column| *column.get(nth)?);
        value.filter(|value| value.is_finite() && *value >= 0.0)
    };
    let rows = columns.get("t_ns").map_or(0, Vec::len);
    let segment = |nth| value("wrote_bytes", nth).zip(segment_bytes).map(|(at, size)| at / size);
    let mut flushes = value("flushes", 0);
    let mut segments = segment(0).map(f64::floor);
    // Counted since measuring began.
    let mut deleted = value("deleted_files", 0).map(|_| 0.0);
    let mut moments = Vec::new();
    for nth in 0..rows {
        let Some(at_ns) = value("t_ns", nth) else { continue };
        let before = std::mem::replace(&mut flushes, value("flushes", nth));
        let last = std::mem::replace(&mut segments, segment(nth).map(f64::floor));
        let fewer = std::mem::replace(&mut deleted, value("deleted_files", nth));
        moments.push(Moment {
            at_s: at_ns / 1e9,
            dirty: value("dirty_bytes", nth)
                .zip(value("writeback_bytes", nth))
                .map(|(dirty, writeback)| dirty + writeback),
            limits: value("background_limit_bytes", nth).zip(value("limit_bytes", nth)),
            throttled: value("throttled", nth).is_some_and(|throttled| throttled > 0.0),
            worst_ns: value("worst_append_ns", nth).unwrap_or(0.0),
            p99_ns: value("p99_append_ns", nth).filter(|ns| *ns > 0.0),
            flushed: before < flushes,
            rolled: last.zip(segments).is_some_and(|(last, now)| last < now),
            deleted: fewer.zip(deleted).map_or(0.0, |(fewer, now)| now - fewer),
        });
    }
    moments.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
    moments
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(rows: &[(&str, &[f64])]) -> BTreeMap<String, Vec<Option<f64>>> {
        let column = |values: &[f64]| values.iter().map(|value| Some(*value)).collect();
        rows.iter().map(|(name, values)| ((*name).to_owned(), column(values))).collect()
    }

    #[test]
    fn rows_become_moments() {
        let found = moments(
            &columns(&[
                ("t_ns", &[1e8, 2e8, f64::NAN]),
                ("dirty_bytes", &[10.0, 20.0, 30.0]),
                ("writeback_bytes", &[1.0, 2.0, 3.0]),
                ("throttled", &[0.0, 1.0, 1.0]),
                ("flushes", &[7.0, 8.0, 9.0]),
                ("p99_append_ns", &[0.0, 5.0, 6.0]),
            ]),
            None,
        );
        let parts: Vec<_> =
            found.iter().map(|m| (m.dirty, m.throttled, m.flushed, m.limits)).collect();
        assert_eq!(parts, [(Some(11.0), false, false, None), (Some(22.0), true, true, None)]);
        let p99: Vec<_> = found.iter().map(|m| m.p99_ns).collect();
        assert_eq!(p99, [None, Some(5.0)], "no append ended in the first");
    }

    #[test]
    fn what_was_not_recorded_is_unknown() {
        let found = moments(&columns(&[("t_ns", &[1e8]), ("dirty_bytes", &[5.0])]), None);
        assert_eq!((found.len(), found[0].dirty, found[0].worst_ns), (1, None, 0.0));
        assert!(moments(&BTreeMap::new(), None).is_empty());
    }

    #[test]
    fn a_segment_is_begun_where_the_log_passes_the_end_of_one() {
        let of = columns(&[
            ("t_ns", &[1e8, 2e8, 3e8, 4e8]),
            ("wrote_bytes", &[90.0, 99.0, 100.0, 350.0]),
        ]);
        let rolled = |size| moments(&of, size).iter().map(|m| m.rolled).collect::<Vec<_>>();
        assert_eq!(rolled(Some(100.0)), [false, false, true, true]);
        assert_eq!(rolled(None), [false; 4]);
    }

    #[test]
    fn a_file_is_deleted_where_more_of_them_are_gone() {
        let of =
            columns(&[("t_ns", &[1e8, 2e8, 3e8, 4e8]), ("deleted_files", &[1.0, 1.0, 2.0, 2.0])]);
        let deleted = moments(&of, None).iter().map(|m| m.deleted).collect::<Vec<_>>();
        assert_eq!(deleted, [1.0, 0.0, 1.0, 0.0]);
    }
}
