//! Which cells a sweep has, in which order, and what is left out to keep within its time.

use std::time::Duration;

use crate::card;
use crate::clock::{float, nanos};
use crate::format;
use crate::load::Disturbance;
use crate::profile::{
    Disk, DiskSpec, Gates, Io, MessageBytes, Pace, Prealloc, Settings, Strategy, Sweep, Workload,
};
use crate::random::Random;
use crate::results::LeftOut;

/// What stands at one position of a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item<'a> {
    /// Which of the sweep's disks.
    pub(super) disk: usize,
    /// Which of its kernel settings.
    pub(super) sysctl: usize,
    pub(super) what: What<'a>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum What<'a> {
    Raw(&'a Workload),
    Strategy(&'a Strategy, &'a Workload, u32),
}

impl What<'_> {
    /// Whether a rate is searched for, by cells of which one is kept.
    pub(super) fn is_search(&self) -> bool {
        matches!(self, Self::Strategy(_, workload, _) if is_searched(workload))
    }
}

/// A block's cells in the order of its seed: each cell once in every block, those of one kernel
/// setting one after the other, because a change of it must settle.
pub(super) fn block(sweep: &Sweep, number: u32) -> Vec<Item<'_>> {
    let mut random = Random::new(sweep.seed.wrapping_add(u64::from(number)));
    let mut sysctls: Vec<usize> = (0..sweep.sysctls.len()).collect();
    random.shuffle(&mut sysctls);
    let mut block = Vec::new();
    for sysctl in sysctls {
        // No kernel's settings change what is simulated: once is enough.
        let has_cells = |disk: &usize| sysctl == 0 || !is_simulated(&sweep.disks[*disk]);
        let mut items: Vec<Item<'_>> = (0..sweep.disks.len())
            .filter(has_cells)
            .flat_map(|disk| whats(sweep).into_iter().map(move |what| Item { disk, sysctl, what }))
            .filter(|item| runs(&sweep.disks[item.disk], &item.what))
            .collect();
        random.shuffle(&mut items);
        block.append(&mut items);
    }
    block
}

/// Whether there is such a cell on the disk: what disturbs is not simulated.
fn runs(disk: &Disk, what: &What<'_>) -> bool {
    !matches!(what, What::Strategy(_, workload, _) if workload.is_disturbed() && is_simulated(disk))
}

/// What that leaves out.
pub(super) fn without_disturbance(sweep: &Sweep) -> Vec<LeftOut> {
    let disks = sweep.disks.iter().filter(|disk| is_simulated(disk));
    let left_out = disks.flat_map(|disk| {
        let disturbed = sweep.workloads.iter().filter(|workload| workload.is_disturbed());
        disturbed.map(|workload| LeftOut {
            what: format!("workload {} on disk {}", workload.name, disk.name),
            why: "what disturbs (reader, deletes_every_ms) is not simulated".to_owned(),
            how: "measure it on a disk that is there".to_owned(),
        })
    });
    left_out.collect()
}

pub(super) fn is_simulated(disk: &Disk) -> bool {
    matches!(disk.spec, DiskSpec::Simulated { .. })
}

/// Every strategy with every workload, and a raw loop for each workload.
fn whats(sweep: &Sweep) -> Vec<What<'_>> {
    let strategies = sweep.strategies.iter().flat_map(|strategy| {
        sweep.workloads.iter().flat_map(move |workload| {
            let producers = workload.producers.iter();
            producers.map(move |producers| What::Strategy(strategy, workload, *producers))
        })
    });
    strategies.chain(sweep.workloads.iter().map(What::Raw)).collect()
}

/// About how long a block takes.
pub(super) fn block_time(sweep: &Sweep) -> Duration {
    let each = sweep.warmup + sweep.measure + sweep.settle + AROUND_A_CELL;
    let block = block(sweep, 0);
    let [real, simulated] = [false, true].map(|kind| {
        let of_kind = |item: &&Item<'_>| is_simulated(&sweep.disks[item.disk]) == kind;
        let probes = |item: &Item<'_>| match item.what {
            What::Strategy(_, workload, _) if is_searched(workload) => 1 + PROBES_OF_A_SEARCH,
            What::Strategy(..) | What::Raw(_) => 1,
        };
        block.iter().filter(of_kind).map(probes).fold(0, u32::saturating_add)
    });
    let old = |item: &Item<'_>| match item.what {
        What::Strategy(_, workload, _) => {
            Disturbance::bytes(workload, sweep.segment_bytes, sweep.measure)
        }
        What::Raw(_) => 0,
    };
    let old: u64 = block.iter().map(old).fold(0, u64::saturating_add);
    let canaries = if sweep.canary && real > 0 { 2 } else { 0 };
    each.saturating_mul(real)
        + SIMULATED_CELL.saturating_mul(simulated)
        + (canary_time(sweep) + AROUND_A_CELL) * canaries
        + Duration::from_secs(old / OLD_BYTES_PER_S)
}

/// About how long a sweep takes.
pub(super) fn whole_time(sweep: &Sweep) -> Duration {
    card_time(sweep) + block_time(sweep).saturating_mul(sweep.blocks)
}

/// How much of it goes by before the first block.
pub(super) fn card_time(sweep: &Sweep) -> Duration {
    let is_made = sweep.card && sweep.disks.iter().any(|disk| !is_simulated(disk));
    if is_made { card::TIME } else { Duration::ZERO }
}

fn is_searched(workload: &Workload) -> bool {
    matches!(workload.pace, Pace::FindRate { .. })
}

/// What was left out of a sweep, a sentence each, so that it takes no longer than allowed.
///
/// Loads between the fewest and the most producers go first, then blocks beyond three, then all
/// loads but the one with the most producers; then long cells are halved, for one block of long
/// cells has no spread to tell a difference by; then blocks. Loads that there is time for after all
/// come back. The time of one block is the least.
pub(super) fn trim(sweep: &mut Sweep) -> Vec<String> {
    let before = sweep.clone();
    let is_over = |sweep: &Sweep| sweep.budget < whole_time(sweep);
    let mut removed: Vec<(usize, Vec<u32>)> = Vec::new();
    while is_over(sweep) {
        let longest = |sweep: &Sweep, more_than: usize| {
            let workloads = sweep.workloads.iter().enumerate();
            let long = workloads.filter(|(_, workload)| workload.producers.len() > more_than);
            long.max_by_key(|(_, workload)| workload.producers.len()).map(|(index, _)| index)
        };
        if let Some(index) = longest(sweep, 2) {
            let producers = &mut sweep.workloads[index].producers;
            removed.push((index, producers.clone()));
            producers.remove(producers.len() / 2);
        } else if sweep.blocks > 3 {
            sweep.blocks -= 1;
        } else if let Some(index) = longest(sweep, 1) {
            let producers = &mut sweep.workloads[index].producers;
            removed.push((index, producers.clone()));
            let most = producers.iter().copied().max();
            producers.retain(|count| Some(*count) == most);
        } else if sweep.blocks == 3 && sweep.measure >= 2 * SHORTEST_HALF && !deletes_late(sweep) {
            sweep.measure /= 2;
            sweep.warmup /= 2;
        } else if sweep.blocks > 1 {
            sweep.blocks -= 1;
        } else {
            break;
        }
    }
    for (index, producers) in removed.into_iter().rev() {
        let fewer = std::mem::replace(&mut sweep.workloads[index].producers, producers);
        if is_over(sweep) {
            sweep.workloads[index].producers = fewer;
        }
    }
    told(&before, sweep)
}

/// Whether half of a cell's time would be too short for a deletion.
fn deletes_late(sweep: &Sweep) -> bool {
    let late = |each: Duration| each >= sweep.measure / 2;
    sweep.workloads.iter().any(|workload| workload.deletes_every.is_some_and(late))
}

fn told(before: &Sweep, after: &Sweep) -> Vec<String> {
    let mut told = Vec::new();
    for (asked, kept) in before.workloads.iter().zip(&after.workloads) {
        let left_out = asked.producers.iter().filter(|count| !kept.producers.contains(count));
        let left_out: Vec<String> = left_out.map(u32::to_string).collect();
        if !left_out.is_empty() {
            let counts = left_out.join(", ");
            told.push(format!("workload {}: not with {counts} producers", asked.name));
        }
    }
    if after.measure < before.measure {
        let [kept, asked] =
            [after, before].map(|sweep| format::duration(float(nanos(sweep.measure).get())));
        told.push(format!("cells of {kept} in place of {asked}, with as much less to warm up"));
    }
    if after.blocks < before.blocks {
        let firm = store_core::length_u64(crate::statistics::FIRM_BLOCKS);
        let loses = u64::from(after.blocks) < firm && firm <= u64::from(before.blocks);
        let so = if loses { ", which give no 95 % interval" } else { "" };
        told.push(format!("{} blocks in place of {}{so}", after.blocks, before.blocks));
    }
    told
}

/// The same small cell at the beginning and the end of each block, which shows drift; `when` is
/// part of its name.
pub(super) fn canary(when: &str) -> (Strategy, Workload) {
    let settings = Settings::GroupCommit {
        timeout: Duration::from_secs(5),
        gather: Duration::ZERO,
        siblings: 5,
        lead: true,
        io: Io::Positioned,
        prealloc: Prealloc::Zero,
    };
    let workload = Workload {
        name: when.to_owned(),
        message_bytes: MessageBytes::one(4096),
        producers: vec![1],
        window: 1,
        pace: Pace::Closed,
        reader: false,
        deletes_every: None,
    };
    (Strategy { name: CANARY.to_owned(), settings }, workload)
}

pub(super) fn canary_time(sweep: &Sweep) -> Duration {
    sweep.warmup.min(LONGEST_CANARY) + sweep.measure.min(LONGEST_CANARY)
}

/// How much the canaries of a block differ, in percent, and whether that is more than allowed.
pub(super) fn noise(rates: &[f64], gates: Gates) -> Option<(f64, bool)> {
    let least = rates.iter().copied().reduce(f64::min).filter(|least| *least > 0.0)?;
    let most = rates.iter().copied().reduce(f64::max)?;
    let spread = 100.0 * (most / least - 1.0);
    (rates.len() > 1).then_some((spread, spread > f64::from(gates.noise_max_pct)))
}

/// The canary's name, as a strategy.
pub const CANARY: &str = "canary";
/// A canary is measured no longer.
pub(super) const LONGEST_CANARY: Duration = Duration::from_secs(5);
/// Opening, the first segments, and removing the log again.
const AROUND_A_CELL: Duration = Duration::from_millis(400);
/// How fast files are made that others read or delete: many a disk is faster.
const OLD_BYTES_PER_S: u64 = 400 << 20;
/// What a cell in virtual time takes of the machine's: less with few appends, more with many.
const SIMULATED_CELL: Duration = Duration::from_secs(1);
/// A cell is not halved below it: ten intervals of a timed flush.
const SHORTEST_HALF: Duration = Duration::from_secs(5);
/// About what a search for a rate takes, in cells.
const PROBES_OF_A_SEARCH: u32 = 8;

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn cells_per_block(sweep: &Sweep) -> u32 {
        u32::try_from(block(sweep, 0).len()).unwrap_or(u32::MAX)
    }

    fn quick() -> Sweep {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        Sweep::load("quick", &root).unwrap()
    }

    #[test]
    fn every_block_has_every_cell_once_in_an_order_of_its_own() {
        let sweep = quick();
        let names = |number| -> Vec<String> {
            block(&sweep, number).iter().map(|item| format!("{item:?}")).collect()
        };
        let mut blocks: Vec<_> = (0..3).map(names).collect();
        assert_ne!(blocks[0], blocks[1]);
        assert_eq!(blocks[0], names(0), "the seed decides");
        for block in &mut blocks {
            block.sort();
        }
        assert_eq!(blocks[0], blocks[1]);
        assert_eq!(blocks[0].len(), 13);
    }

    #[test]
    fn cells_of_one_kernel_setting_follow_each_other() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let sweep = Sweep::load("sysctl", &root).unwrap();
        let settings = |number| -> Vec<usize> {
            let mut changes: Vec<usize> =
                block(&sweep, number).iter().map(|item| item.sysctl).collect();
            changes.dedup();
            changes
        };
        assert_eq!(settings(0).len(), sweep.sysctls.len(), "each is applied once in a block");
        assert!((1..9).any(|number| settings(number) != settings(0)), "in random order");
    }

    #[test]
    fn what_is_simulated_has_its_cells_once_under_all_settings_and_takes_no_canary() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut sweep = Sweep::load("sysctl", &root).unwrap();
        let on_host = cells_per_block(&sweep);
        let settings = u32::try_from(sweep.sysctls.len()).unwrap();
        let disk_type = crashlab::block::DiskType::Hdd7200;
        let spec = DiskSpec::Simulated { disk_type };
        sweep.disks.push(Disk { name: "model".to_owned(), spec, ..Disk::host() });
        assert!(settings > 1 && sweep.canary);
        assert_eq!(cells_per_block(&sweep), on_host + on_host / settings);
        sweep.disks.remove(0);
        let cells = on_host / settings;
        assert_eq!(block_time(&sweep), SIMULATED_CELL * cells, "whatever it measures");
        // A search for a rate is so many cells.
        let p99 = Duration::from_millis(10);
        let arrival = crate::profile::Arrival::Poisson;
        sweep.workloads.truncate(1);
        sweep.workloads[0].producers = vec![4];
        let one = block_time(&sweep);
        sweep.workloads[0].pace = Pace::FindRate { p99, arrival };
        let strategies = u32::try_from(sweep.strategies.len()).unwrap();
        let more = SIMULATED_CELL * strategies * PROBES_OF_A_SEARCH;
        assert_eq!(block_time(&sweep), one + more);
    }

    #[test]
    fn a_sweep_that_takes_too_long_loses_loads_then_blocks_and_says_so() {
        let whole = quick();
        let within = |blocks: u32, cells: u32| {
            let each = block_time(&whole) / cells_per_block(&whole);
            each * cells * blocks + Duration::from_millis(1)
        };
        let trimmed = |budget| {
            let mut sweep = Sweep { budget, ..whole.clone() };
            let told = trim(&mut sweep);
            (sweep.workloads[0].producers.clone(), sweep.blocks, told)
        };
        assert_eq!(trimmed(within(3, 13)), (vec![1, 8, 64], 3, vec![]));
        let told = ["workload closed-1k: not with 8 producers"].map(str::to_owned);
        assert_eq!(trimmed(within(3, 9)), (vec![1, 64], 3, told.to_vec()));
        let told = ["workload closed-1k: not with 1, 8 producers"].map(str::to_owned);
        assert_eq!(trimmed(within(3, 5)), (vec![64], 3, told.to_vec()));
        let (producers, blocks, told) = trimmed(within(1, 5));
        assert_eq!((producers, blocks), (vec![64], 1));
        assert_eq!(told[1], "1 blocks in place of 3");
        assert_eq!(trimmed(Duration::ZERO).1, 1, "one block is the least");
    }

    #[test]
    fn long_cells_are_halved_before_there_are_too_few_blocks_to_compare() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut sweep = Sweep::load("full", &root).unwrap();
        sweep.budget = Duration::from_mins(30);
        let told = trim(&mut sweep);
        assert!(whole_time(&sweep) <= sweep.budget);
        assert_eq!((sweep.blocks, sweep.measure), (3, Duration::from_secs(5)));
        assert_eq!(sweep.warmup, Duration::from_secs(1));
        let words = "cells of 5.0 s in place of 10 s, with as much less to warm up";
        assert!(told.iter().any(|out| out == words), "{told:?}");
        // What cells of half the time leave room for comes back.
        let producers = |minutes| {
            let mut sweep = Sweep::load("full", &root).unwrap();
            sweep.budget = Duration::from_mins(minutes);
            trim(&mut sweep);
            assert!(whole_time(&sweep) <= sweep.budget && sweep.blocks == 3);
            sweep.workloads[0].producers.clone()
        };
        assert_eq!([30, 33, 45].map(producers), [vec![64], vec![1, 64], vec![1, 8, 64]]);
        // Not where nothing would be deleted any more.
        let mut sweep = Sweep::load("full", &root).unwrap();
        sweep.budget = Duration::from_mins(30);
        sweep.workloads[0].deletes_every = Some(Duration::from_secs(5));
        trim(&mut sweep);
        assert_eq!((sweep.blocks, sweep.measure), (1, Duration::from_secs(10)));
    }

    #[test]
    fn a_card_takes_its_time_once_and_only_of_a_disk_that_is_there() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut sweep = Sweep::load("full", &root).unwrap();
        assert!(sweep.card);
        let blocks = block_time(&sweep) * sweep.blocks;
        assert_eq!(whole_time(&sweep), blocks + card::TIME);
        sweep.card = false;
        assert_eq!(whole_time(&sweep), blocks);
        sweep.card = true;
        let disk_type = crashlab::block::DiskType::Hdd7200;
        sweep.disks[0].spec = DiskSpec::Simulated { disk_type };
        assert_eq!(card_time(&sweep), Duration::ZERO);
    }

    #[test]
    fn files_to_be_deleted_take_time_to_be_made() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut sweep = Sweep::load("deletes", &root).unwrap();
        let with = block_time(&sweep);
        for workload in &mut sweep.workloads {
            workload.deletes_every = None;
        }
        // Four strategies delete six files of 128 MiB each.
        assert_eq!(with, block_time(&sweep) + Duration::from_secs(7));
    }

    #[test]
    fn canaries_that_differ_flag_their_block() {
        let gates = Gates { noise_max_pct: 15, ..Gates::default() };
        assert_eq!(noise(&[100.0], gates), None);
        assert_eq!(noise(&[0.0, 100.0], gates), None);
        let (spread, flagged) = noise(&[100.0, 114.0], gates).unwrap();
        assert!((spread - 14.0).abs() < 1e-9 && !flagged);
        assert!(noise(&[100.0, 90.0, 116.0], gates).unwrap().1);
    }
}
