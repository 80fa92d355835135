//! What of many rows a chart shows: one disk under one setting of the kernel, or one load there.

use std::collections::BTreeMap;

use crate::format;
use crate::recorded::Recorded;
use crate::results::{Cell, Kind, Status};
use crate::summary::{self, Row};
use crate::validity::OVERLOAD;

/// A disk under kernel settings, by their names.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Place<'a> {
    pub(super) disk: &'a str,
    pub(super) sysctl: &'a str,
}

impl<'a> Place<'a> {
    /// Where a row was measured.
    pub(super) fn of(row: &'a Row) -> Self {
        Self { disk: &row.disk, sysctl: &row.sysctl }
    }

    /// `host with kernel-default`.
    pub(super) fn words(&self) -> String {
        format!("{} with {}", format::clipped(self.disk, 24), format::clipped(self.sysctl, 24))
    }
}

/// What strategies are compared under: one workload of so many producers in one place.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Load<'a> {
    pub(super) place: Place<'a>,
    pub(super) workload: &'a str,
    pub(super) producers: u32,
}

impl<'a> Load<'a> {
    /// What a row was measured under.
    pub(super) fn of(row: &'a Row) -> Self {
        Self { place: Place::of(row), workload: &row.workload, producers: row.producers }
    }

    /// Whether a row was measured under it.
    pub(super) fn has(&self, row: &Row) -> bool {
        *self == Load::of(row)
    }

    /// `bursts ×16`.
    pub(super) fn words(&self) -> String {
        format!("{} ×{}", format::clipped(self.workload, 24), self.producers)
    }

    /// The whole of it, with its place.
    fn setting(&self) -> String {
        let names = [self.place.disk, self.place.sysctl, self.workload];
        let [disk, sysctl, workload] = names.map(|name| format::clipped(name, 24));
        let producers = producers(self.producers);
        format!("disk {disk}, kernel settings {sysctl}, workload {workload}, {producers}")
    }
}

/// `8 producers`.
pub(super) fn producers(count: u32) -> String {
    format::plural(usize::try_from(count).unwrap_or(usize::MAX), "producer")
}

/// The rows of one load.
#[derive(Clone, Debug)]
pub(super) struct Chosen {
    /// The rows, one of each strategy.
    pub(super) rows: Vec<Row>,
    /// What they have in common, in words.
    pub(super) setting: String,
    /// What the chart does not show, as a sentence; empty if it shows all.
    pub(super) left_out: String,
}

/// Of the rows that have what the chart is about, those of the load that has most of them: of
/// real hardware where there is any, of equals the one with most producers, then by name. At most
/// `most` rows; the raw loop is none.
pub(super) fn choose(
    recorded: &Recorded,
    most: usize,
    has: impl Fn(&Row) -> anyhow::Result<bool>,
) -> anyhow::Result<Option<Chosen>> {
    let all = rows_where(recorded, |row| row.kind != Kind::Raw);
    let mut loads: BTreeMap<Load<'_>, Vec<&Row>> = BTreeMap::new();
    for row in &all {
        if has(row)? {
            loads.entry(Load::of(row)).or_default().push(row);
        }
    }
    let others = loads.len().saturating_sub(1);
    // The last of equals is taken, and the first by name is wanted.
    let best = loads.into_iter().rev().max_by_key(|(load, rows)| {
        let is_real = rows.iter().all(|row| row.not_hardware.word().is_none());
        (is_real, rows.len(), load.producers)
    });
    let Some((load, mut rows)) = best else { return Ok(None) };
    let too_many = rows.split_off(rows.len().min(most));
    let mut left_out = Vec::new();
    if !too_many.is_empty() {
        let names: Vec<String> =
            too_many.iter().map(|row| format::clipped(&row.strategy, 24)).collect();
        left_out.push(format!("the strategies {}", named(&names)));
    }
    if others > 0 {
        left_out.push(format::plural(others, "other setting"));
    }
    let rows = rows.into_iter().cloned().collect();
    Ok(Some(Chosen { rows, setting: load.setting(), left_out: not_shown(&left_out) }))
}

/// A sentence that follows others; empty if nothing is left out.
pub(super) fn not_shown(left_out: &[String]) -> String {
    if left_out.is_empty() {
        return String::new();
    }
    format!(" Not shown: {}.", left_out.join(" and "))
}

/// Where most of these rows are, those of real hardware before others; then all other places.
pub(super) fn places(rows: &[Row]) -> Vec<Place<'_>> {
    let mut counts: BTreeMap<Place<'_>, (bool, usize)> = BTreeMap::new();
    for row in rows {
        let entry = counts.entry(Place::of(row)).or_default();
        entry.0 |= row.not_hardware.word().is_none();
        entry.1 += 1;
    }
    let mut places: Vec<_> = counts.into_iter().collect();
    places.sort_by_key(|(place, (real, count))| (!*real, std::cmp::Reverse(*count), *place));
    places.into_iter().map(|(place, _)| place).collect()
}

/// Where the figures of a chart are from, and which are not drawn; nothing if there is one place.
pub(super) fn told(places: &[Place<'_>]) -> String {
    let Some((drawn, rest)) = places.split_first().filter(|(_, rest)| !rest.is_empty()) else {
        return String::new();
    };
    let rest: Vec<String> = rest.iter().map(Place::words).collect();
    format!("Drawn is {}; in the table alone: {}.", drawn.words(), named(&rest))
}

/// A list of names that a note has room for.
pub(super) fn named(names: &[String]) -> String {
    let first = names.get(..MOST_NAMED).unwrap_or(names).join(", ");
    match names.len().saturating_sub(MOST_NAMED) {
        0 => first,
        more => format!("{first}, and {more} more"),
    }
}

/// The rows of the results that such a chart is about; canaries make none.
pub(super) fn rows_where(recorded: &Recorded, keep: impl Fn(&Row) -> bool) -> Vec<Row> {
    summary::rows(&recorded.cells).into_iter().filter(keep).collect()
}

/// The cells of a row, by block.
pub(super) fn cells_of<'a>(recorded: &'a Recorded, row: &Row) -> Vec<&'a Cell> {
    let mut cells: Vec<&Cell> = recorded.cells.iter().filter(|cell| row.has(cell)).collect();
    cells.sort_by_key(|cell| (cell.block, cell.position));
    cells
}

/// Those of them that are invalid, or the others.
pub(super) fn cells_where<'a>(recorded: &'a Recorded, row: &Row, invalid: bool) -> Vec<&'a Cell> {
    let mut cells = cells_of(recorded, row);
    cells.retain(|cell| (cell.status == Status::Invalid) == invalid);
    cells
}

/// The cells of a row that count, and false; where none does the invalid ones, which are drawn
/// hollow, and true.
pub(super) fn counted<'a>(recorded: &'a Recorded, row: &Row) -> (Vec<&'a Cell>, bool) {
    let valid = cells_where(recorded, row, false);
    if valid.is_empty() { (cells_of(recorded, row), true) } else { (valid, false) }
}

/// Whether less was sent in some of these cells than was due.
pub(super) fn is_overload(cells: &[&Cell]) -> bool {
    cells.iter().any(|cell| {
        cell.status == Status::Overload || cell.open_loop.is_some() && cell.did_not_pass(OVERLOAD)
    })
}

/// ` EMULATED`, if all rows of a chart are not the same.
pub(super) fn mark(row: &Row, rows: &[Row]) -> String {
    let what = row.not_hardware.word();
    let differs = rows.iter().any(|other| other.not_hardware.word() != what);
    what.filter(|_| differs).map_or_else(String::new, |what| format!(" {what}"))
}

/// More names in a note are not read.
const MOST_NAMED: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Kind;
    use crate::results_fixture::cell;

    #[test]
    fn the_place_of_most_rows_comes_first_unless_it_is_no_hardware() {
        let on = |disk: &'static str, producers: u32| {
            cell(Kind::GroupCommit, producers, 0, |c| {
                disk.clone_into(&mut c.disk);
                c.emulated = disk == "hdd";
            })
        };
        let cells = [on("hdd", 1), on("hdd", 8), on("hdd", 64), on("a", 1), on("b", 1), on("b", 8)];
        let rows = summary::rows(&cells);
        let found = places(&rows);
        let disks: Vec<&str> = found.iter().map(|place| place.disk).collect();
        assert_eq!(disks, ["b", "a", "hdd"]);
        assert_eq!(
            told(&found),
            "Drawn is b with kernel-default; in the table alone: a with kernel-default, hdd with \
             kernel-default."
        );
        assert_eq!(told(&found[..1]), "");
    }
}
