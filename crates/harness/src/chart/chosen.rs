//! Which of a run's many settings a chart shows, where one sheet cannot show all.

use std::collections::BTreeMap;

use crate::format;
use crate::recorded::Recorded;
use crate::results::{Cell, Kind, Status};
use crate::summary::{self, Row};

/// The rows of one disk under one kernel setting and one load: what strategies are compared by.
#[derive(Clone, Debug)]
pub(super) struct Chosen {
    /// The rows, one of each strategy.
    pub(super) rows: Vec<Row>,
    /// What they have in common, in words.
    pub(super) setting: String,
    /// What the chart does not show, as a sentence; empty if it shows all.
    pub(super) left_out: String,
}

/// Of the rows that have what the chart is about, those of the setting that has most of them: of
/// real hardware where there is any, of equals the one with most producers, then by name. At most
/// `most` rows; the raw loop is none.
pub(super) fn choose(
    recorded: &Recorded,
    most: usize,
    has: impl Fn(&Row) -> anyhow::Result<bool>,
) -> anyhow::Result<Option<Chosen>> {
    let mut settings: BTreeMap<(String, String, String, u32), Vec<Row>> = BTreeMap::new();
    let all = summary::rows(&recorded.cells);
    for row in all.into_iter().filter(|row| row.kind != Kind::Raw) {
        if has(&row)? {
            let (disk, sysctl, workload) = (&row.disk, &row.sysctl, &row.workload);
            let key = (disk.clone(), sysctl.clone(), workload.clone(), row.producers);
            settings.entry(key).or_default().push(row);
        }
    }
    let others = settings.len().saturating_sub(1);
    // The last of equals is taken, and the first by name is wanted.
    let best = settings.into_iter().rev().max_by_key(|(key, rows)| {
        let is_real = rows.iter().all(|row| row.not_hardware.word().is_none());
        (is_real, rows.len(), key.3)
    });
    let Some(((disk, sysctl, workload, producers), mut rows)) = best else { return Ok(None) };
    let too_many = rows.split_off(rows.len().min(most));
    let mut left_out = Vec::new();
    if !too_many.is_empty() {
        let names: Vec<&str> = too_many.iter().map(|row| row.strategy.as_str()).collect();
        left_out.push(format!("the strategies {}", names.join(", ")));
    }
    if others > 0 {
        left_out.push(format::plural(others, "other setting"));
    }
    let setting = format!(
        "disk {disk}, kernel settings {sysctl}, workload {workload}, {}",
        format::plural(usize::try_from(producers).unwrap_or(usize::MAX), "producer")
    );
    let left_out = match left_out.as_slice() {
        [] => String::new(),
        parts => format!(" Not shown: {}.", parts.join(" and ")),
    };
    Ok(Some(Chosen { rows, setting, left_out }))
}

/// The row's cells of all blocks, in their order.
pub(super) fn cells_of<'a>(recorded: &'a Recorded, row: &Row) -> Vec<&'a Cell> {
    let of_row = |cell: &&Cell| {
        (&cell.disk, &cell.sysctl, &cell.workload) == (&row.disk, &row.sysctl, &row.workload)
            && (&cell.strategy, cell.producers) == (&row.strategy, row.producers)
    };
    let mut cells: Vec<&Cell> = recorded.cells.iter().filter(of_row).collect();
    cells.sort_by_key(|cell| (cell.block, cell.position));
    cells
}

/// The cells that count; where none does the invalid ones, which are drawn hollow.
pub(super) fn counted<'a>(cells: &[&'a Cell]) -> (Vec<&'a Cell>, bool) {
    let is_valid = |cell: &&&Cell| cell.status != Status::Invalid;
    let valid: Vec<&Cell> = cells.iter().filter(is_valid).copied().collect();
    if valid.is_empty() { (cells.to_vec(), true) } else { (valid, false) }
}
