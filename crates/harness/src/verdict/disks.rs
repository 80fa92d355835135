//! What is said of the disks of a run, each for itself: what one strategy reaches on one disk and
//! another on another says nothing of either.

use std::collections::{BTreeMap, BTreeSet};

use super::{on_strategy, rate};
use crate::comparison::{Measure, noise_floors};
use crate::format;
use crate::results::{Cell, Kind, Status};
use crate::summary::{self, Loops, Row, Stat};

/// Of one disk, a sentence for each kind of strategy; of several, one or two for each disk, and one
/// that compares them. All are about real hardware where there is any.
pub(super) fn sentences(cells: &[Cell], rows: &[Row]) -> Vec<String> {
    let rows: Vec<&Row> = summary::real(rows).collect();
    let names: BTreeSet<&str> = rows.iter().map(|row| row.disk.as_str()).collect();
    if names.len() < 2 {
        let of_kind = |(kind, name): &(Kind, &str)| {
            let (first, rest) = name.split_at(1);
            on_strategy(&rows, *kind, &(first.to_uppercase() + rest))
        };
        return KINDS.iter().filter_map(of_kind).collect();
    }
    let mut said: Vec<String> = names.iter().flat_map(|name| on_disk(cells, name)).collect();
    if rows.iter().all(|row| row.not_hardware.word().is_none()) {
        said.extend(compared(cells, &rows));
    }
    said
}

/// Synchronous flush on a disk, and the fastest of the strategies that flush later.
fn on_disk(cells: &[Cell], name: &str) -> Vec<String> {
    let cells: Vec<Cell> = cells.iter().filter(|cell| cell.disk == name).cloned().collect();
    // Their settings do not name the disk, which the sentence does.
    let rows = summary::rows(&cells);
    let rows: Vec<&Row> = rows.iter().collect();
    let what = rows.iter().find_map(|row| row.not_hardware.word());
    let what = what.map_or_else(String::new, |what| format!(" ({what})"));
    let disk = format!("disk {}{what}", format::clipped(name, 24));
    let [(_, sync), later @ ..] = KINDS;
    let rows_of = |kind| rows.iter().filter(move |row| row.kind == kind);
    let fastest = |kind| rows_of(kind).map(|row| rate(row)).max_by(f64::total_cmp);
    let later = later.into_iter().filter_map(|(kind, name)| Some((kind, name, fastest(kind)?)));
    let later = later.max_by(|a, b| a.2.total_cmp(&b.2)).and_then(|(kind, name, _)| {
        on_strategy(&rows, kind, &format!("On {disk}, of what flushes later, {name}"))
    });
    let sync = on_strategy(&rows, Kind::GroupCommit, &format!("On {disk}, {sync}"));
    sync.into_iter().chain(later).collect()
}

/// The disks under one load of synchronous flush, whose rate is the disk's; `None` if it did not
/// run on two. An open loop sends what is due, on whatever disk.
fn compared(cells: &[Cell], rows: &[&Row]) -> Option<String> {
    let is_sync = |row: &&&Row| row.kind == Kind::GroupCommit && row.loops == Loops::Closed;
    let mut loads: BTreeMap<Load<'_>, Vec<&Row>> = BTreeMap::new();
    let sync: Vec<&Row> = rows.iter().filter(is_sync).copied().collect();
    for row in sync.iter().filter(|row| row.figures.is_some()) {
        loads.entry(Load::of(row)).or_default().push(row);
    }
    // On most disks; of equals with most producers, then the first by name.
    let best = loads.into_iter().rev();
    let best = best.max_by_key(|(load, rows)| (rows.len(), load.producers));
    let Some((load, mut disks)) = best.filter(|(_, rows)| rows.len() > 1) else {
        let several = sync.iter().map(|row| &row.disk).collect::<BTreeSet<_>>().len() > 1;
        return several.then(|| {
            "No load of synchronous flush has figures on two disks, so they are not compared."
                .to_owned()
        });
    };
    disks.sort_by(|a, b| rate(b).total_cmp(&rate(a)).then(a.disk.cmp(&b.disk)));
    let (first, last) = (*disks.first()?, *disks.last()?);
    let name = |row: &Row| format::clipped(&row.disk, 24);
    let rates: Vec<String> =
        disks.iter().map(|row| format!("{} {}", name(row), format::count(rate(row)))).collect();
    Some(format!(
        "The disks under the same load of synchronous flush ({}), msg/s: {}; {} by {}: {}.",
        load.words(),
        rates.join(", "),
        name(first),
        name(last),
        ratio(cells, first, last)
    ))
}

/// The one by the other in the same blocks: `4.9 times (4.7–5.1 over 3 blocks)`.
fn ratio(cells: &[Cell], first: &Row, last: &Row) -> String {
    let rates = |row: &Row| -> BTreeMap<u32, f64> {
        let is_of = |cell: &&Cell| {
            cell.disk == row.disk
                && cell.kind == row.kind
                && Load::of_cell(cell) == Load::of(row)
                && cell.status != Status::Invalid
                && cell.acked_per_s.is_finite()
                && cell.acked_per_s > 0.0
        };
        cells.iter().filter(is_of).map(|cell| (cell.block, cell.acked_per_s)).collect()
    };
    let (of, by) = (rates(first), rates(last));
    let ratios = of.iter().filter_map(|(block, rate)| Some(rate / by.get(block)?));
    let Some(ratio) = Stat::of(ratios).filter(|ratio| ratio.blocks > 1) else {
        return "not known, because fewer than two blocks have both".to_owned();
    };
    let sure = if ratio.interval().is_some() { "95 %: " } else { "" };
    // A ratio is no larger than what the same cell differs by from itself.
    let floors = noise_floors(cells, Measure::AckedPerS);
    let of = |row: &Row| floors.get(row.disk.as_str()).copied().unwrap_or(0.0);
    let floor = 1.0 + of(first).max(of(last)) / 100.0;
    let noise = if ratio.low() <= floor { ", within noise" } else { "" };
    let (shown, range) = (format::ratio(ratio.centre()), ratio.range(format::ratio));
    format!("{shown} times ({sure}{range} over {} blocks{noise})", ratio.blocks)
}

/// What a row is beside its disk.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Load<'a> {
    strategy: &'a str,
    workload: &'a str,
    sysctl: &'a str,
    producers: u32,
}

impl<'a> Load<'a> {
    fn of(row: &'a Row) -> Self {
        let Row { strategy, workload, sysctl, producers, .. } = row;
        Self { strategy, workload, sysctl, producers: *producers }
    }

    fn of_cell(cell: &'a Cell) -> Self {
        let Cell { strategy, workload, sysctl, producers, .. } = cell;
        Self { strategy, workload, sysctl, producers: *producers }
    }

    /// `sync ×64, payments, kernel-default`.
    fn words(&self) -> String {
        let names = [self.strategy, self.workload, self.sysctl];
        let [strategy, workload, sysctl] = names.map(|name| format::clipped(name, 24));
        format!("{strategy} ×{}, {workload}, {sysctl}", self.producers)
    }
}

/// The kinds that the verdict is about, in its order.
const KINDS: [(Kind, &str); 3] = [
    (Kind::GroupCommit, "synchronous flush"),
    (Kind::FlushRealtime, "timed flush"),
    (Kind::CommitRealtime, "staged flush"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Level;
    use crate::results_fixture::{cell, check, example, open_loop};

    fn said(cells: &[Cell]) -> Vec<String> {
        sentences(cells, &summary::rows(cells))
    }

    /// The example on a disk of this name that is so many times as fast.
    fn on(disk: &str, faster: f64) -> Vec<Cell> {
        let mut cells = example();
        for cell in &mut cells {
            disk.clone_into(&mut cell.disk);
            cell.acked_per_s *= faster;
            cell.emulated = disk == "hdd";
            cell.simulated = disk == "model";
            if disk == "tmpfs" {
                cell.validity.push(check("in_memory", Level::Label, "tmpfs", "on a disk"));
            }
        }
        cells
    }

    #[track_caller]
    fn begins(said: &[String], expect: &[&str]) {
        assert_eq!(said.len(), expect.len(), "{said:#?}");
        for (said, part) in said.iter().zip(expect) {
            assert!(said.starts_with(part), "{part:?} in {said}");
        }
    }

    #[test]
    fn each_real_disk_is_told_by_itself_and_one_sentence_compares_them() {
        let real = [on("nvme", 2.0), on("sata", 0.5)].concat();
        let expect = [
            "On disk nvme, synchronous flush (sync ×64) acknowledged 296k msg/s (",
            "On disk nvme, of what flushes later, staged flush (staged ×64) acknowledged 873k",
            "On disk sata, synchronous flush (sync ×64) acknowledged 74k msg/s (",
            "On disk sata, of what flushes later, staged flush (staged ×64) acknowledged 2",
            "The disks under the same load of synchronous flush (sync ×64, closed-1k, \
             kernel-default), msg/s: nvme 296k, sata 74k; nvme by sata: 4.00 times (4.00–4.00 over \
             3 blocks).",
        ];
        begins(&said(&real), &expect);
        // What is no hardware changes none of it, however fast it is.
        let unreal = [on("hdd", 9.0), on("model", 99.0), on("tmpfs", 999.0)].concat();
        assert_eq!(said(&[&real[..], &unreal].concat()), said(&real));
    }

    #[test]
    fn one_disk_is_told_as_ever_and_what_is_no_hardware_is_compared_with_nothing() {
        let expect = ["Synchronous flush (sync", "Timed flush (timed", "Staged flush (staged"];
        begins(&said(&on("nvme", 1.0)), &expect);
        // The label names it where there are others.
        let mixed = said(&[on("nvme", 1.0), on("hdd", 9.0)].concat());
        begins(&mixed, &["Synchronous flush (sync ×64 (nvme))", expect[1], expect[2]]);
        let unreal = said(&[on("hdd", 9.0), on("model", 99.0)].concat());
        let expect = [
            "On disk hdd (EMULATED), synchronous flush",
            "On disk hdd (EMULATED), of what",
            "On disk model (SIMULATED), synchronous flush",
            "On disk model (SIMULATED), of what",
        ];
        begins(&unreal, &expect);
    }

    #[test]
    fn disks_are_compared_block_by_block_under_a_load_that_both_have() {
        let sync = |disk: &str, producers: u32, rates: &[f64]| -> Vec<Cell> {
            let one = |(block, rate): (u32, &f64)| {
                cell(Kind::GroupCommit, producers, block, |c| {
                    (c.disk, c.acked_per_s) = (disk.to_owned(), *rate);
                })
            };
            (0..).zip(rates).map(one).collect()
        };
        let last = |cells: &[Vec<Cell>]| said(&cells.concat()).pop().unwrap();
        let near =
            last(&[sync("a", 8, &[100.0, 210.0, 330.0]), sync("b", 8, &[99.0, 200.0, 340.0])]);
        assert!(
            near.ends_with("a by b: 1.01 times (0.97–1.05 over 3 blocks, within noise)."),
            "{near}"
        );
        // What canaries differ by is no difference of disks.
        let canary = |(position, rate): (u32, f64)| {
            cell(Kind::GroupCommit, 1, 0, |c| {
                (c.strategy, c.disk) = (crate::run::CANARY.to_owned(), "b".to_owned());
                (c.position, c.acked_per_s) = (position, rate);
            })
        };
        let noisy = [(u32::MAX - 1, 100.0), (u32::MAX, 160.0)].map(canary).to_vec();
        let two = [sync("a", 8, &[150.0; 3]), sync("b", 8, &[100.0; 3])];
        assert!(last(&two).ends_with("1.50 times (1.50–1.50 over 3 blocks)."));
        let found = last(&[&two[..], &[noisy]].concat());
        assert!(found.ends_with("over 3 blocks, within noise)."), "{found}");
        let once = last(&[sync("a", 8, &[100.0]), sync("b", 8, &[50.0])]);
        assert!(once.ends_with("a by b: not known, because fewer than two blocks have both."));
        // More producers on one of them is another load.
        let other = [sync("a", 8, &[100.0; 2]), sync("b", 8, &[50.0; 2]), sync("a", 64, &[900.0])];
        let found = last(&other);
        assert!(
            found.contains("(sync ×8, ") && found.contains("a 100, b 50; a by b: 2.00"),
            "{found}"
        );
        let none =
            "No load of synchronous flush has figures on two disks, so they are not compared.";
        assert_eq!(last(&[sync("a", 8, &[1.0]), sync("b", 64, &[1.0])]), none);
        let mut invalid = sync("b", 8, &[1.0]);
        invalid[0].status = Status::Invalid;
        assert_eq!(last(&[sync("a", 8, &[1.0]), invalid]), none);
        let mut open = [sync("a", 8, &[1.0; 2]), sync("b", 8, &[1.0; 2])];
        open.iter_mut().flatten().for_each(|cell| {
            cell.open_loop = Some(open_loop());
        });
        assert!(last(&open).starts_with("On disk b, synchronous flush"), "a rate that was sent");
    }
}
