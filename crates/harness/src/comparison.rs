//! Whether strategies differ under the same load, and whether a disk or a kernel setting makes one
//! differ from itself: records for `comparisons.jsonl`, and the same in words.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::clock::float;
use crate::format;
use crate::profile::Gates;
use crate::results::{Cell, Kind, NotHardware, Status};
use crate::run::CANARY;
use crate::statistics::{
    Better, Difference, FIRM_BLOCKS, Found, Judged, Limits, judge, noise_floor,
};

/// The schema of [`Comparison`].
pub const SCHEMA: &str = "flushmark.comparison/1.0";

/// Two sets of cells that differ in one thing, compared block by block: a line of
/// `comparisons.jsonl`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Comparison {
    /// [`SCHEMA`].
    pub schema: String,
    /// What differs.
    pub varied: Varied,
    /// The first: a name of what differs.
    pub a: String,
    /// The second, of which something is said.
    pub b: String,
    /// What is the same, by what it is: disk, kernel settings, workload, strategy.
    pub same: BTreeMap<String, String>,
    /// Producer threads of both.
    pub producers: u32,
    /// What a disk of either was, if not hardware.
    #[serde(flatten)]
    pub not_hardware: NotHardware,
    /// What is compared.
    pub measure: Measure,
    /// Blocks in which both are valid.
    pub blocks: u64,
    /// B by A, the geometric mean over blocks.
    pub ratio: f64,
    /// The lower end of its 95 % interval, by t of the logarithms.
    pub ratio_low: f64,
    /// The upper end.
    pub ratio_high: f64,
    /// The chance of such blocks if A and B are the same.
    pub p: f64,
    /// The same, corrected by Holm's method for all that vary the same thing and compare the same
    /// measure.
    pub p_holm: f64,
    /// How many those are.
    pub family: u32,
    /// Differences that are smaller are not told, in percent.
    pub min_effect_pct: f64,
    /// By how much canaries on the disk (on either, if disks are compared) differed from themselves
    /// within a block in the same measure, 95 of 100 times, in percent; `null` if no canary ran on
    /// it. Smaller differences are not told either.
    pub noise_floor_pct: Option<f64>,
    /// What was found of B.
    pub word: Word,
    /// Of `no_difference`: one as large as this, in percent, would have been told in this family.
    pub detectable_pct: Option<f64>,
}

/// What differs between the two.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Varied {
    /// The disk.
    Disk,
    /// The strategy; what is acknowledged may promise something else.
    Strategy,
    /// The kernel's settings.
    Sysctl,
}

/// What is compared.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Acknowledged messages a second: more is faster.
    AckedPerS,
    /// To acknowledgement, 99 of 100 messages: from when a message was due where it was at a time,
    /// else from its append. Less is faster.
    AckNsP99,
}

/// What was found of B.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Word {
    /// Faster than A.
    Faster,
    /// Blocks vary too much: the interval, as wide as the family makes it, is wider than ±20 %. Or
    /// it excludes 1 by itself, which among so many may be chance.
    Inconclusive,
    /// None that is as large as `detectable_pct`.
    NoDifference,
    /// Slower than A.
    Slower,
}

impl Word {
    /// In words: `no difference`.
    pub fn words(self) -> &'static str {
        match self {
            Self::Faster => "faster",
            Self::Inconclusive => "inconclusive",
            Self::NoDifference => "no difference",
            Self::Slower => "slower",
        }
    }
}

/// Every comparison that these cells allow; none with fewer than six blocks that have both.
///
/// Raw loops and canaries take no part, nor do cells that are invalid, and in times those that are
/// overloaded, whose times grow with the measured time.
pub fn comparisons(cells: &[Cell], gates: Gates) -> Vec<Comparison> {
    let mut all = Vec::new();
    for varied in [Varied::Strategy, Varied::Sysctl, Varied::Disk] {
        for measure in [Measure::AckedPerS, Measure::AckNsP99] {
            let floors = noise_floors(cells, measure);
            let limited = |(pair, paired): (Pair, Difference)| {
                let noise_floor_pct = pair.noise_floor(&floors);
                let min_effect_pct = f64::from(gates.min_effect_pct);
                (pair, (paired, Limits { min_effect_pct, noise_floor_pct }))
            };
            let (pairs, family): (Vec<Pair>, Vec<(Difference, Limits)>) =
                pairs(cells, varied, measure).into_iter().map(limited).unzip();
            let judged = judge(&family, measure.better());
            let size = u32::try_from(judged.len()).unwrap_or(u32::MAX);
            let told = pairs.into_iter().zip(family).zip(judged);
            all.extend(told.map(|((pair, (_, limits)), judged)| Comparison {
                family: size,
                ..comparison(pair, varied, measure, &judged, limits)
            }));
        }
    }
    all
}

/// A clause for each thing that varies: how many pairs differ in rate, and how many do not.
///
/// If the run `has_real` hardware, only its pairs are counted.
pub fn sentence(all: &[Comparison], has_real: bool) -> Option<String> {
    let is_real = |one: &&Comparison| one.not_hardware.word().is_none();
    let counts =
        |one: &&Comparison| one.measure == Measure::AckedPerS && (!has_real || is_real(one));
    let counted: Vec<&Comparison> = all.iter().filter(counts).collect();
    let least = beyond(&counted)?;
    let clause = |varied: Varied| {
        let rates: Vec<&&Comparison> = counted.iter().filter(|one| one.varied == varied).collect();
        let with = |word| rates.iter().filter(|one| one.word == word).count();
        let differ = with(Word::Faster) + with(Word::Slower);
        (!rates.is_empty()).then(|| {
            format!(
                "of {} of {}, msg/s differs in {differ}, does not in {}, and is inconclusive in {}",
                format::plural(rates.len(), "pair"),
                varied.words(),
                with(Word::NoDifference),
                with(Word::Inconclusive)
            )
        })
    };
    let clauses: Vec<String> =
        [Varied::Strategy, Varied::Sysctl, Varied::Disk].into_iter().filter_map(clause).collect();
    (!clauses.is_empty()).then(|| {
        format!(
            "Compared block by block, beyond {least}, and corrected for their number: {}. [95 %; \
             valid cells alone]",
            clauses.join("; ")
        )
    })
}

/// What differences must exceed to be told, in words; `None` of none.
pub fn beyond(all: &[&Comparison]) -> Option<String> {
    let least = all.first()?.min_effect_pct;
    let floors = all.iter().filter_map(|one| one.noise_floor_pct);
    let Some(floor) = floors.reduce(f64::max) else {
        return Some(format!("{least:.0} % (no canary tells how noisy it was)"));
    };
    let with = if floor > least {
        format!("the {floor:.0} % by which canaries differ from themselves")
    } else {
        format!("{least:.0} % (canaries differ by {floor:.0} %)")
    };
    let is_everywhere = all.iter().all(|one| one.noise_floor_pct.is_some());
    let without = if is_everywhere {
        String::new()
    } else {
        format!(", or {least:.0} % on disks without a canary")
    };
    Some(with + &without)
}

/// Two sets of cells by name, and what they share.
#[derive(Clone, Debug)]
struct Pair {
    a: String,
    b: String,
    same: BTreeMap<String, String>,
    producers: u32,
    not_hardware: NotHardware,
}

impl Pair {
    /// What is known of the disk's noise; of two disks, of the noisier one that is known.
    fn noise_floor(&self, floors: &BTreeMap<&str, f64>) -> Option<f64> {
        let disks = match self.same.get("disk") {
            Some(disk) => vec![disk],
            None => vec![&self.a, &self.b],
        };
        disks.into_iter().filter_map(|disk| floors.get(&**disk)).copied().reduce(f64::max)
    }
}

fn comparison(
    pair: Pair,
    varied: Varied,
    measure: Measure,
    judged: &Judged,
    limits: Limits,
) -> Comparison {
    let (word, detectable_pct) = match judged.found {
        Found::Faster => (Word::Faster, None),
        Found::Inconclusive => (Word::Inconclusive, None),
        Found::NoDifference { detectable_pct } => (Word::NoDifference, Some(detectable_pct)),
        Found::Slower => (Word::Slower, None),
    };
    let Difference { blocks, ratio, interval, p, .. } = judged.difference;
    Comparison {
        schema: SCHEMA.to_owned(),
        varied,
        a: pair.a,
        b: pair.b,
        same: pair.same,
        producers: pair.producers,
        not_hardware: pair.not_hardware,
        measure,
        blocks,
        ratio,
        ratio_low: interval.low,
        ratio_high: interval.high,
        p,
        p_holm: judged.p_holm,
        family: 1,
        min_effect_pct: limits.min_effect_pct,
        noise_floor_pct: limits.noise_floor_pct,
        word,
        detectable_pct,
    }
}

/// A set of cells: the values of its blocks, and whether its disk is hardware as it is.
#[derive(Clone, Debug, Default)]
struct Set {
    blocks: BTreeMap<u32, f64>,
    not_hardware: NotHardware,
}

/// What a set of cells has in common with those it is compared with, and each by its name.
type Sets<'a> = BTreeMap<(BTreeMap<String, String>, u32), BTreeMap<&'a str, Set>>;

fn pairs(cells: &[Cell], varied: Varied, measure: Measure) -> Vec<(Pair, Difference)> {
    let mut sets: Sets<'_> = BTreeMap::new();
    for cell in cells.iter().filter(|cell| takes_part(cell)) {
        let Some(value) = measure.of(cell) else { continue };
        let (name, same) = varied.split(cell);
        let set = sets.entry((same, cell.producers)).or_default().entry(name).or_default();
        set.blocks.insert(cell.block, value);
        set.not_hardware = set.not_hardware.or(cell.not_hardware());
    }
    let mut found = Vec::new();
    for ((same, producers), of_name) in &sets {
        for (nth, (a, of_a)) in of_name.iter().enumerate() {
            for (b, of_b) in of_name.iter().skip(nth + 1) {
                let of_block = |(block, a): (&u32, &f64)| Some((*a, *of_b.blocks.get(block)?));
                let shared = of_a.blocks.iter().filter_map(of_block);
                let shared: Vec<(f64, f64)> = shared.collect();
                let Some(paired) =
                    Difference::paired(&shared).filter(|_| shared.len() >= FIRM_BLOCKS)
                else {
                    continue;
                };
                let pair = Pair {
                    a: (*a).to_owned(),
                    b: (*b).to_owned(),
                    same: same.clone(),
                    producers: *producers,
                    not_hardware: of_a.not_hardware.or(of_b.not_hardware),
                };
                found.push((pair, paired));
            }
        }
    }
    found
}

fn takes_part(cell: &Cell) -> bool {
    cell.kind != Kind::Raw && cell.strategy != CANARY && cell.status != Status::Invalid
}

impl Varied {
    /// In words, of several.
    pub fn words(self) -> &'static str {
        match self {
            Self::Disk => "disks",
            Self::Strategy => "strategies",
            Self::Sysctl => "kernel settings",
        }
    }

    /// The name of what differs, and all else.
    fn split(self, cell: &Cell) -> (&str, BTreeMap<String, String>) {
        let parts = [
            (Some(Self::Disk), "disk", &cell.disk),
            (Some(Self::Strategy), "strategy", &cell.strategy),
            (Some(Self::Sysctl), "sysctl", &cell.sysctl),
            (None, "workload", &cell.workload),
        ];
        let mut name = "";
        let mut same = BTreeMap::new();
        for (part, called, value) in parts {
            if part == Some(self) {
                name = value;
            } else {
                same.insert(called.to_owned(), value.clone());
            }
        }
        (name, same)
    }
}

impl Measure {
    pub(crate) fn better(self) -> Better {
        match self {
            Self::AckedPerS => Better::Higher,
            Self::AckNsP99 => Better::Lower,
        }
    }

    /// Its value; `None` where there is none, or it means nothing.
    pub(crate) fn of(self, cell: &Cell) -> Option<f64> {
        let value = match self {
            Self::AckedPerS => cell.acked_per_s,
            Self::AckNsP99 if cell.status == Status::Overload => return None,
            // Rates that were searched for differ, and each is as late as was promised.
            Self::AckNsP99 if is_searched(cell) => return None,
            Self::AckNsP99 => float(cell.ack_ns().p99),
        };
        (value > 0.0).then_some(value)
    }

    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::AckedPerS => "msg/s",
            Self::AckNsP99 => "ack p99",
        }
    }
}

fn is_searched(cell: &Cell) -> bool {
    cell.open_loop.is_some_and(|open| open.promised_p99_ns.is_some())
}

/// By how much canaries differ from themselves in this measure, by their disk.
///
/// A run has them on one disk: they say nothing of the others.
pub(crate) fn noise_floors(cells: &[Cell], measure: Measure) -> BTreeMap<&str, f64> {
    let mut blocks: BTreeMap<(&str, u32), Vec<&Cell>> = BTreeMap::new();
    let usable = |cell: &&Cell| cell.strategy == CANARY && cell.status != Status::Invalid;
    for cell in cells.iter().filter(usable) {
        blocks.entry((&cell.disk, cell.block)).or_default().push(cell);
    }
    let mut disks: BTreeMap<&str, Vec<(f64, f64)>> = BTreeMap::new();
    for ((disk, _), mut of_block) in blocks {
        of_block.sort_by_key(|cell| cell.position);
        if let [first, .., last] = of_block[..] {
            let both = measure.of(first).zip(measure.of(last));
            disks.entry(disk).or_default().extend(both);
        }
    }
    let floor = |(disk, pairs): (_, Vec<_>)| Some((disk, noise_floor(&pairs)?));
    disks.into_iter().filter_map(floor).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Level, OpenLoop};
    use crate::results_fixture::{cell, check, example, example_of, open_loop};

    fn compared(cells: &[Cell]) -> Vec<Comparison> {
        comparisons(cells, Gates::default())
    }

    fn canary(block: u32, position: u32, rate: f64) -> Cell {
        cell(Kind::GroupCommit, 1, block, |c| {
            (c.strategy, c.workload) = (CANARY.to_owned(), CANARY.to_owned());
            (c.position, c.acked_per_s) = (position, rate);
        })
    }

    fn with(
        all: &[Comparison],
        measure: Measure,
        producers: u32,
    ) -> impl Iterator<Item = &Comparison> {
        all.iter().filter(move |one| one.measure == measure && one.producers == producers)
    }

    #[test]
    fn latencies_at_rates_that_were_searched_for_are_not_compared() {
        let mut cells = example_of(7);
        for cell in cells.iter_mut().filter(|cell| cell.strategy == "sync") {
            let promised_p99_ns = Some(10_000_000);
            cell.open_loop = Some(OpenLoop { promised_p99_ns, ..open_loop() });
        }
        let all = compared(&cells);
        let of_sync = |measure| {
            let all = all.iter().filter(move |one| one.measure == measure);
            all.filter(|one| one.a == "sync" || one.b == "sync").count()
        };
        assert_eq!(of_sync(Measure::AckNsP99), 0);
        assert_eq!(of_sync(Measure::AckedPerS), 3 * 3);
    }

    #[test]
    fn three_blocks_compare_nothing() {
        assert_eq!(compared(&example()), []);
    }

    #[test]
    fn strategies_of_the_same_load_are_compared_with_each_other() {
        let all = compared(&example_of(7));
        // Of none, sync, timed and staged six pairs, under three loads, by two measures.
        assert_eq!(all.len(), 6 * 3 * 2);
        let pairs: Vec<_> =
            with(&all, Measure::AckedPerS, 8).map(|one| (one.a.as_str(), one.b.as_str())).collect();
        let expect = [
            ("none", "staged"),
            ("none", "sync"),
            ("none", "timed"),
            ("staged", "sync"),
            ("staged", "timed"),
            ("sync", "timed"),
        ];
        assert_eq!(pairs, expect);
        let last = with(&all, Measure::AckedPerS, 8).last().unwrap();
        // 260 000 · 8^0.06 by 7 400 · 8^0.72, in every block alike.
        let expect = 260.0 / 7.4 * 8.0_f64.powf(0.06 - 0.72);
        assert!((last.ratio - expect).abs() < 1e-9, "{last:?}");
        assert_eq!((last.word, last.family, last.blocks), (Word::Faster, 18, 7));
        assert_eq!(last.same["workload"], "closed-1k");
        // A longer time is slower.
        let time = with(&all, Measure::AckNsP99, 64).last().unwrap();
        assert!(time.ratio > 1.0 && time.word == Word::Slower, "{time:?}");
    }

    #[test]
    fn a_kernel_setting_is_compared_under_the_same_strategy() {
        let mut cells = Vec::new();
        for (block, share) in (0..6).zip([0.50, 0.52, 0.48, 0.51, 0.49, 0.50]) {
            let plain = cell(Kind::FlushRealtime, 8, block, |_| {});
            let rate = plain.acked_per_s;
            cells.push(plain);
            cells.push(cell(Kind::FlushRealtime, 8, block, |c| {
                (c.sysctl, c.acked_per_s) = ("small-bytes".to_owned(), rate * share);
            }));
        }
        let all = compared(&cells);
        assert_eq!(all.len(), 2, "{all:?}");
        let rate = &all[0];
        assert_eq!((rate.varied, rate.word), (Varied::Sysctl, Word::Slower));
        assert_eq!((rate.a.as_str(), rate.b.as_str()), ("kernel-default", "small-bytes"));
        assert_eq!(rate.same["strategy"], "timed");
        assert_eq!(all[1].word, Word::NoDifference, "their times are the same");
        assert_eq!(all[1].detectable_pct.map(f64::round), Some(5.0));
    }

    /// Two strategies under the same load, in six blocks alike.
    fn two(rates: [f64; 2]) -> Vec<Cell> {
        let one = |block, (strategy, rate): (&str, f64)| {
            cell(Kind::GroupCommit, 8, block, |c| {
                (c.strategy, c.acked_per_s) = (strategy.to_owned(), rate);
            })
        };
        let of_block = |block| ["a", "b"].into_iter().zip(rates).map(move |of| one(block, of));
        (0..6).flat_map(of_block).collect()
    }

    #[test]
    fn a_profile_says_from_when_on_a_difference_counts() {
        let cells = two([100.0, 107.0]);
        let found = |min_effect_pct| {
            let rate = comparisons(&cells, Gates { min_effect_pct, ..Gates::default() }).remove(0);
            (rate.word, rate.min_effect_pct, rate.detectable_pct.map(f64::round))
        };
        assert_eq!(found(5), (Word::Faster, 5.0, None));
        assert_eq!(found(20), (Word::NoDifference, 20.0, Some(20.0)), "7 % are of no interest");
    }

    #[test]
    fn a_block_without_one_of_both_is_left_out() {
        let mut cells = example_of(7);
        let is_timed = |cell: &Cell| cell.strategy == "timed" && cell.producers == 8;
        for cell in cells.iter_mut().filter(|cell| is_timed(cell) && cell.block == 3) {
            cell.status = Status::Invalid;
        }
        let timed = |all: &[Comparison]| -> Vec<u64> {
            let rates = with(all, Measure::AckedPerS, 8).filter(|one| one.b == "timed");
            rates.map(|one| one.blocks).collect()
        };
        assert_eq!(timed(&compared(&cells)), [6, 6, 6]);
        for cell in cells.iter_mut().filter(|cell| is_timed(cell) && cell.block == 4) {
            cell.status = Status::Invalid;
        }
        assert!(timed(&compared(&cells)).is_empty(), "five blocks are too few");
        for cell in cells.iter_mut().filter(|cell| cell.strategy == "sync") {
            cell.status = Status::Overload;
        }
        let all = compared(&cells);
        assert!(all.iter().any(|one| one.b == "sync" && one.measure == Measure::AckedPerS));
        assert!(all.iter().all(|one| one.b != "sync" || one.measure == Measure::AckedPerS));
    }

    #[test]
    fn canaries_give_the_noise_floor_and_are_not_compared() {
        let mut cells = two([100.0, 112.0]);
        let rate = |cells: &[Cell]| compared(cells).remove(0);
        assert_eq!((rate(&cells).word, rate(&cells).noise_floor_pct), (Word::Faster, None));
        for block in 0..6 {
            cells.push(canary(block, u32::MAX, 100.0));
            cells.push(canary(block, u32::MAX - 1, if block == 2 { 125.0 } else { 100.0 }));
        }
        let found = rate(&cells);
        assert_eq!(found.word, Word::NoDifference, "12 % are less than 25 %");
        assert_eq!(found.noise_floor_pct.map(f64::round), Some(25.0));
        assert_eq!(compared(&cells).len(), 2, "two measures of one pair");
        let told = "Compared block by block, beyond the 25 % by which canaries differ from \
                    themselves, and corrected for their number: of 1 pair of strategies, msg/s \
                    differs in 0, does not in 1, and is inconclusive in 0. [95 %; valid cells \
                    alone]";
        assert_eq!(sentence(&compared(&cells), true).as_deref(), Some(told));
        assert_eq!(sentence(&[], true), None);
    }

    #[test]
    fn times_have_the_noise_of_the_canaries_times() {
        let mut cells = two([100.0, 100.0]);
        for block in 0..6 {
            cells.push(canary(block, u32::MAX - 1, 100.0));
            cells.push(canary(block, u32::MAX, 100.0));
        }
        for last in cells.iter_mut().filter(|cell| cell.position == u32::MAX) {
            last.append_to_ack_ns.p99 = last.append_to_ack_ns.p99 * 3 / 2;
        }
        let floors: Vec<_> =
            compared(&cells).iter().map(|one| one.noise_floor_pct.map(f64::round)).collect();
        assert_eq!(floors, [Some(0.0), Some(50.0)], "rate and time");
    }

    #[test]
    fn a_canary_says_nothing_of_other_disks() {
        let mut cells = two([100.0, 112.0]);
        let on = |disk: &str, cell: &Cell| Cell { disk: disk.to_owned(), ..cell.clone() };
        let others: Vec<Cell> = cells.iter().map(|cell| on("other", cell)).collect();
        let thirds: Vec<Cell> = cells.iter().map(|cell| on("third", cell)).collect();
        cells.extend(others.into_iter().chain(thirds));
        for block in 0..6 {
            cells.push(canary(block, u32::MAX - 1, 100.0));
            cells.push(canary(block, u32::MAX, 125.0));
        }
        let all = compared(&cells);
        let rates = |varied| {
            let of =
                move |one: &&Comparison| one.varied == varied && one.measure == Measure::AckedPerS;
            all.iter().filter(of)
        };
        for one in rates(Varied::Strategy) {
            let (floor, word) = match &*one.same["disk"] {
                "data" => (Some(25.0), Word::NoDifference),
                _ => (None, Word::Faster),
            };
            assert_eq!((one.noise_floor_pct.map(f64::round), one.word), (floor, word), "{one:?}");
        }
        for one in rates(Varied::Disk) {
            // Half of such a pair is as noisy as that.
            let expect = (one.a == "data").then_some(25.0);
            assert_eq!(one.noise_floor_pct.map(f64::round), expect, "{one:?}");
        }
        assert_eq!((rates(Varied::Strategy).count(), rates(Varied::Disk).count()), (3, 6));
        let told = sentence(&all, true).unwrap();
        let least = "beyond the 25 % by which canaries differ from themselves, or 5 % on disks \
                     without a canary,";
        assert!(told.contains(least), "{told}");
    }

    #[test]
    fn what_is_not_hardware_is_labelled_and_not_counted_beside_what_is() {
        let mut cells = two([100.0, 112.0]);
        let emulated = |cell: &Cell| Cell { disk: "hdd".into(), emulated: true, ..cell.clone() };
        let mut others: Vec<Cell> = cells.iter().map(emulated).collect();
        for cell in &cells {
            let mut in_memory = Cell { disk: "tmpfs".to_owned(), ..cell.clone() };
            in_memory.validity.push(check("in_memory", Level::Label, "tmpfs", "on a disk"));
            others.push(in_memory);
        }
        let told = sentence(&compared(&others), false).unwrap();
        assert!(told.contains("of 2 pairs of strategies") && told.contains("of disks"), "{told}");
        cells.extend(others);
        let all = compared(&cells);
        for one in &all {
            let has = |disk: &str| {
                [&one.a, &one.b].into_iter().chain(one.same.values()).any(|of| of == disk)
            };
            let NotHardware { emulated, in_memory, simulated } = one.not_hardware;
            let expect = (has("hdd"), has("tmpfs"), false);
            assert_eq!((emulated, in_memory, simulated), expect, "{one:?}");
        }
        let told = sentence(&all, true).unwrap();
        assert!(told.contains("of 1 pair of strategies") && !told.contains("of disks"), "{told}");
    }
}
