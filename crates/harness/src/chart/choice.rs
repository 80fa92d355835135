//! What of many rows a chart shows: one disk under one setting of the kernel.

use std::collections::BTreeMap;

use crate::format;
use crate::recorded::Recorded;
use crate::results::{Cell, Status};
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

/// The cells of a row, invalid ones or the others, by block.
pub(super) fn cells_of<'a>(recorded: &'a Recorded, row: &Row, invalid: bool) -> Vec<&'a Cell> {
    let is_of = |cell: &&Cell| {
        cell.strategy == row.strategy
            && cell.kind == row.kind
            && cell.producers == row.producers
            && cell.disk == row.disk
            && cell.sysctl == row.sysctl
            && cell.workload == row.workload
            && (cell.status == Status::Invalid) == invalid
    };
    let mut cells: Vec<&Cell> = recorded.cells.iter().filter(is_of).collect();
    cells.sort_by_key(|cell| (cell.block, cell.position));
    cells
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
