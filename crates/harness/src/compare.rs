//! Two runs against each other, row by row: is B faster or slower than A, and can that be told?
//!
//! Blocks of two runs are no pairs: they ran at different times, perhaps on different machines. So
//! rows are compared by Welch's t of the logarithms, and what differs between the runs is said.

mod beyond;
mod differ;
mod text;

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use serde::Serialize;

pub use self::beyond::Finding;
pub use self::differ::Differ;
pub use self::text::text;
use crate::comparison::{Measure, Word, noise_floors};
use crate::recorded::Recorded;
use crate::results::{Cell, Kind, Status};
use crate::run::CANARY;
use crate::statistics::{Better, Difference, FIRM_BLOCKS, Found, Judged, Limits, judge};
use crate::summary::Stat;

/// The schema of [`Compare`].
pub const SCHEMA: &str = "flushmark.compare/1.0";

/// What comparing two runs found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compare {
    /// [`SCHEMA`].
    pub schema: String,
    /// The first run.
    pub a: String,
    /// The second, of which something is said.
    pub b: String,
    /// What differs between them besides the figures.
    pub differ: Vec<Differ>,
    /// Each row that both have, by each measure.
    pub rows: Vec<Compared>,
    /// Strategies that B no longer keeps up with, though A did: worse, whatever their rates are.
    pub overloaded: Vec<Finding>,
    /// Strategies of which B has too few figures though A has enough: a regression may hide there.
    pub hidden: Vec<Finding>,
    /// The rows that only A has.
    pub only_a: Vec<String>,
    /// The rows that only B has.
    pub only_b: Vec<String>,
}

/// One row in one measure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// What the row is, the same in both.
    #[serde(flatten)]
    pub key: Key,
    /// Whether it is the raw loop or a canary, which tell of the machine and not of a strategy.
    pub control: bool,
    /// What is compared.
    pub measure: Measure,
    /// Where A lies, over the blocks that count; `null` if none does.
    pub a: Option<f64>,
    /// Where B lies.
    pub b: Option<f64>,
    /// Blocks of A that count.
    pub blocks_a: u64,
    /// Blocks of B that count.
    pub blocks_b: u64,
    /// B by A; `null` if either has none.
    pub ratio: Option<f64>,
    /// The lower end of its 95 % interval; `null` with fewer than six blocks of either.
    pub ratio_low: Option<f64>,
    /// The upper end.
    pub ratio_high: Option<f64>,
    /// The chance of such blocks if A and B are the same, corrected by Holm's method for all rows
    /// in this measure.
    pub p_holm: Option<f64>,
    /// Differences that are smaller are not told, in percent: by the profiles, and by how much
    /// canaries differed from themselves.
    pub least_pct: f64,
    /// What was found of B.
    pub word: Word,
    /// Of `no_difference`: one as large as this, in percent, would have been told.
    pub detectable_pct: Option<f64>,
    /// Why it is inconclusive.
    pub reason: Option<String>,
}

/// What a row is.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub struct Key {
    /// The disk's name.
    pub disk: String,
    /// The kernel settings' name.
    pub sysctl: String,
    /// The workload's name.
    pub workload: String,
    /// The strategy's name.
    pub strategy: String,
    /// Producer threads.
    pub producers: u32,
}

impl Key {
    fn of(cell: &Cell) -> Self {
        Self {
            disk: cell.disk.clone(),
            sysctl: cell.sysctl.clone(),
            workload: cell.workload.clone(),
            strategy: cell.strategy.clone(),
            producers: cell.producers,
        }
    }

    /// `sync ×8 (payments, host, as-found)`.
    pub fn label(&self) -> String {
        let Self { disk, sysctl, workload, strategy, producers } = self;
        format!("{strategy} ×{producers} ({workload}, {disk}, {sysctl})")
    }
}

impl Compared {
    /// By how much B is worse than A, in percent, below 0 if it is better; `None` if that is not
    /// known.
    pub fn worse_pct(&self) -> Option<f64> {
        let ratio = self.ratio?;
        Some(match self.measure.better() {
            Better::Higher => 100.0 * (1.0 - ratio),
            Better::Lower => 100.0 * (ratio - 1.0),
        })
    }

    /// Whether a strategy is told to be slower, by more than this.
    pub fn is_regression(&self, over_pct: f64) -> bool {
        let is_worse = self.worse_pct().is_some_and(|pct| pct > over_pct);
        !self.control && self.word == Word::Slower && is_worse
    }
}

impl Compare {
    /// The rows that got slower by more than this.
    pub fn regressions(&self, over_pct: f64) -> Vec<&Compared> {
        self.rows.iter().filter(|row| row.is_regression(over_pct)).collect()
    }

    /// Whether anything could be told of a strategy: of no row, no regression can be found.
    pub fn tells_anything(&self) -> bool {
        self.rows.iter().any(|row| !row.control && row.word != Word::Inconclusive)
    }
}

/// Compares B with A.
///
/// # Errors
///
/// If they are the same run, or have no row in common.
pub fn compare(a: &Recorded, b: &Recorded) -> Result<Compare> {
    ensure!(
        a.manifest.run != b.manifest.run,
        "both are the run {}: give two different ones",
        crate::format::clipped(&a.manifest.run, 80)
    );
    let [of_a, of_b] = [a, b].map(|run| grouped(&run.cells));
    let only = |mine: &Groups<'_>, other: &Groups<'_>| -> Vec<String> {
        mine.keys().filter(|key| !other.contains_key(key)).map(Key::label).collect()
    };
    let shared: Vec<Shared<'_>> =
        of_a.iter().filter_map(|(key, a)| Some(Shared { key, a, b: of_b.get(key)? })).collect();
    // The raw loop and canaries tell of machines, which nobody asked.
    ensure!(
        !shared.iter().all(Shared::control),
        "they have no row in common: {} in A, {} in B; measure both with the same sweep",
        first_label(&of_a),
        first_label(&of_b)
    );
    let mut rows = Vec::new();
    for measure in [Measure::AckedPerS, Measure::AckNsP99] {
        rows.extend(judged(a, b, &shared, measure));
    }
    rows.sort_by(|x, y| (x.control, &x.key, x.measure).cmp(&(y.control, &y.key, y.measure)));
    Ok(Compare {
        schema: SCHEMA.to_owned(),
        a: a.manifest.run.clone(),
        b: b.manifest.run.clone(),
        differ: differ::between(a, b, &shared),
        rows,
        overloaded: beyond::overloaded(&shared),
        hidden: beyond::hidden(&shared, &of_a),
        only_a: only(&of_a, &of_b),
        only_b: only(&of_b, &of_a),
    })
}

/// The cells of each row.
type Groups<'a> = BTreeMap<Key, Vec<&'a Cell>>;

fn grouped(cells: &[Cell]) -> Groups<'_> {
    let mut groups = Groups::new();
    for cell in cells {
        groups.entry(Key::of(cell)).or_default().push(cell);
    }
    groups
}

fn first_label(groups: &Groups<'_>) -> String {
    let label = groups.keys().next().map_or_else(|| "none".to_owned(), Key::label);
    crate::format::clipped(&label, 80)
}

/// Whether a row is the raw loop or a canary, which tell of the machine.
fn is_control(key: &Key, cells: &[&Cell]) -> bool {
    key.strategy == CANARY || cells.iter().any(|cell| cell.kind == Kind::Raw)
}

/// The values of the cells that count.
fn values(cells: &[&Cell], measure: Measure) -> Vec<f64> {
    let valid = cells.iter().filter(|cell| cell.status != Status::Invalid);
    valid.filter_map(|cell| measure.of(cell)).collect()
}

/// A row of both.
#[derive(Clone, Copy, Debug)]
struct Shared<'a> {
    key: &'a Key,
    a: &'a [&'a Cell],
    b: &'a [&'a Cell],
}

impl Shared<'_> {
    fn control(&self) -> bool {
        is_control(self.key, self.a)
    }

    /// Why these cannot be compared whatever the figures are; `None` if they can.
    fn obstacle(&self, counted: [usize; 2]) -> Option<String> {
        if let Some(load) = differ::load(self.a, self.b) {
            return Some(format!("not the same load: {load}"));
        }
        let sides = [("A", self.a.len(), counted[0]), ("B", self.b.len(), counted[1])];
        let lacking = sides.iter().filter(|(_, _, counted)| *counted < FIRM_BLOCKS);
        // With all of its blocks it would have had enough.
        let spoilt = lacking.clone().filter(|(_, all, _)| *all >= FIRM_BLOCKS);
        let spoilt: Vec<String> = spoilt
            .map(|(name, all, counted)| {
                format!("{} of {all} blocks of {name} do not count", all - counted)
            })
            .collect();
        if !spoilt.is_empty() {
            return Some(format!("invalid or overloaded: {}", spoilt.join(", ")));
        }
        let is_short = lacking.count() > 0;
        let [a, b] = counted;
        is_short.then(|| format!("few blocks: {a} of A, {b} of B; six of each are needed"))
    }
}

/// What was found of each row in this measure.
fn judged(a: &Recorded, b: &Recorded, shared: &[Shared<'_>], measure: Measure) -> Vec<Compared> {
    let least = a.manifest.gates().min_effect_pct.max(b.manifest.gates().min_effect_pct);
    let floors = [a, b].map(|run| noise_floors(&run.cells, measure));
    let (mut rows, mut family, mut places) = (Vec::new(), Vec::new(), Vec::new());
    for one in shared {
        let floors = floors.iter().filter_map(|of| of.get(&*one.key.disk)).copied();
        let limits =
            Limits { min_effect_pct: f64::from(least), noise_floor_pct: floors.reduce(f64::max) };
        let (row, difference) = plain(one, measure, limits);
        if let Some(difference) = difference {
            // A control is no member of the family: it is asked something else.
            if row.control {
                let alone = judge(&[(difference, limits)], measure.better());
                rows.push(alone.iter().fold(row, told));
                continue;
            }
            places.push(rows.len());
            family.push((difference, limits));
        }
        rows.push(row);
    }
    for (place, judged) in places.into_iter().zip(judge(&family, measure.better())) {
        rows[place] = told(rows[place].clone(), &judged);
    }
    rows
}

/// The row before anything is judged, and the difference if there is one that can be.
fn plain(one: &Shared<'_>, measure: Measure, limits: Limits) -> (Compared, Option<Difference>) {
    let [of_a, of_b] = [one.a, one.b].map(|cells| values(cells, measure));
    let obstacle = one.obstacle([of_a.len(), of_b.len()]);
    let difference = if obstacle.is_none() { Difference::unpaired(&of_a, &of_b) } else { None };
    let centre = |values: &[f64]| Stat::of(values.iter().copied()).map(|stat| stat.centre());
    let [a, b] = [centre(&of_a), centre(&of_b)];
    let no_logarithm = || "its values have no logarithm".to_owned();
    let row = Compared {
        key: one.key.clone(),
        control: one.control(),
        measure,
        a,
        b,
        blocks_a: store_core::length_u64(of_a.len()),
        blocks_b: store_core::length_u64(of_b.len()),
        ratio: difference.map(|found| found.ratio).or(a.zip(b).map(|(a, b)| b / a)),
        ratio_low: difference.map(|found| found.interval.low),
        ratio_high: difference.map(|found| found.interval.high),
        p_holm: None,
        least_pct: limits.min_effect_pct.max(limits.noise_floor_pct.unwrap_or(0.0)),
        word: Word::Inconclusive,
        detectable_pct: None,
        reason: Some(obstacle.unwrap_or_else(no_logarithm)),
    };
    (row, difference)
}

/// The row with what was found of it.
fn told(row: Compared, judged: &Judged) -> Compared {
    let interval = judged.difference.interval;
    let (word, detectable_pct, reason) = match judged.found {
        Found::Faster => (Word::Faster, None, None),
        Found::Slower => (Word::Slower, None, None),
        Found::NoDifference { detectable_pct } => (Word::NoDifference, Some(detectable_pct), None),
        Found::Inconclusive if interval.low > 1.0 || interval.high < 1.0 => {
            (Word::Inconclusive, None, Some("chance: among so many rows one may differ so".into()))
        }
        Found::Inconclusive => {
            (Word::Inconclusive, None, Some("noise: the interval is wider than ±20 %".into()))
        }
    };
    Compared { word, detectable_pct, reason, p_holm: Some(judged.p_holm), ..row }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::results_fixture::{cell, environment, manifest};

    /// A run of so many blocks of two rows, whose rates are those of the example by `factor`.
    pub(super) fn run(name: &str, blocks: u32, factor: f64) -> Recorded {
        let mut cells = Vec::new();
        for block in 0..blocks {
            // Blocks differ by a few percent, as they do.
            let wobble = factor * (1.0 + 0.01 * f64::from((block * 5 + 2) % 7));
            for kind in [Kind::Raw, Kind::GroupCommit, Kind::FlushRealtime] {
                cells.push(cell(kind, 8, block, |c| c.acked_per_s = 1000.0 * wobble));
            }
        }
        let mut recorded = Recorded::new(&manifest(), &environment(), &cells, None);
        recorded.manifest.run = name.to_owned();
        recorded
    }

    fn of(found: &Compare, strategy: &str, measure: Measure) -> Compared {
        let is_it = |row: &&Compared| row.key.strategy == strategy && row.measure == measure;
        found.rows.iter().find(is_it).unwrap().clone()
    }

    fn sync(a: &Recorded, b: &Recorded) -> Compared {
        of(&compare(a, b).unwrap(), "sync", Measure::AckedPerS)
    }

    #[test]
    fn slower_by_a_third_is_told_with_its_interval() {
        let (a, b) = (run("a", 7, 1.0), run("b", 7, 0.67));
        let found = compare(&a, &b).unwrap();
        let row = of(&found, "sync", Measure::AckedPerS);
        assert_eq!((row.word, row.blocks_a, row.blocks_b), (Word::Slower, 7, 7));
        assert!((row.ratio.unwrap() - 0.67).abs() < 1e-9, "{row:?}");
        assert!(row.ratio_low.unwrap() < 0.67 && row.ratio_high.unwrap() > 0.67);
        assert!(row.ratio_high.unwrap() < 0.75 && row.reason.is_none());
        assert!(row.is_regression(30.0) && !row.is_regression(35.0));
        assert_eq!(sync(&b, &a).word, Word::Faster);
        assert_eq!(found.regressions(30.0).len(), 2, "the raw loop is a control, and none");
        let raw = of(&found, "raw", Measure::AckedPerS);
        assert!(raw.control && raw.word == Word::Slower && !raw.is_regression(1.0));
    }

    #[test]
    fn a_longer_time_is_slower_too() {
        let slow = |name: &str, factor: u64| {
            let mut run = run(name, 6, 1.0);
            for cell in &mut run.cells {
                cell.append_to_ack_ns.p99 = factor * (1_000_000 + u64::from(cell.block) * 10_000);
            }
            run
        };
        let found = compare(&slow("a", 1), &slow("b", 2)).unwrap();
        let row = of(&found, "sync", Measure::AckNsP99);
        assert_eq!(row.word, Word::Slower);
        assert!((row.worse_pct().unwrap() - 100.0).abs() < 1e-6, "{row:?}");
        assert_eq!(of(&found, "sync", Measure::AckedPerS).word, Word::NoDifference);
    }

    #[test]
    fn why_nothing_can_be_told_is_said() {
        let a = run("a", 7, 1.0);
        let few = sync(&a, &run("b", 3, 0.5));
        assert_eq!(few.word, Word::Inconclusive);
        assert_eq!(
            few.reason.as_deref(),
            Some("few blocks: 7 of A, 3 of B; six of each are needed")
        );
        assert!((few.ratio.unwrap() - 0.5).abs() < 0.05 && few.ratio_low.is_none());
        let mut b = run("b", 7, 0.5);
        for cell in b.cells.iter_mut().filter(|cell| cell.block < 2) {
            cell.status = Status::Invalid;
        }
        let reason = "invalid or overloaded: 2 of 7 blocks of B do not count";
        assert_eq!(sync(&a, &b).reason.as_deref(), Some(reason));
        let mut b = run("b", 7, 0.9);
        for cell in &mut b.cells {
            cell.acked_per_s *= 1.0 + 2.0 * f64::from(cell.block % 2);
        }
        let reason = sync(&a, &b).reason.unwrap();
        assert!(reason.starts_with("noise: "), "{reason}");
        let mut b = run("b", 7, 0.5);
        b.cells.iter_mut().for_each(|cell| (cell.message_bytes, cell.emulated) = (128, true));
        let row = sync(&a, &b);
        let reason = "not the same load: message bytes 1024 and 128; disk hardware and EMULATED";
        assert_eq!((row.word, row.reason.as_deref()), (Word::Inconclusive, Some(reason)));
        assert!(!compare(&a, &b).unwrap().tells_anything());
        assert!(compare(&a, &run("b", 7, 1.0)).unwrap().tells_anything());
    }

    #[test]
    fn canaries_that_differ_from_themselves_hide_as_much() {
        let noisy = |name: &str, factor| {
            let mut run = run(name, 7, factor);
            for block in 0..7 {
                for (position, rate) in [(0, 100.0), (9, 200.0)] {
                    run.cells.push(cell(Kind::GroupCommit, 1, block, |c| {
                        c.strategy = CANARY.to_owned();
                        (c.position, c.acked_per_s) = (position, rate);
                    }));
                }
            }
            run
        };
        let (a, b) = (run("a", 7, 1.0), run("b", 7, 0.67));
        assert_eq!(sync(&a, &b).word, Word::Slower);
        let row = sync(&noisy("a", 1.0), &b);
        assert!((row.least_pct - 100.0).abs() < 1e-9, "{row:?}");
        assert_eq!(row.word, Word::NoDifference);
    }

    #[test]
    fn rows_of_one_run_alone_are_named_and_the_same_run_is_refused() {
        let mut a = run("a", 6, 1.0);
        let mut b = run("b", 6, 1.0);
        b.cells.retain(|cell| cell.kind != Kind::FlushRealtime);
        let found = compare(&a, &b).unwrap();
        assert_eq!(found.only_a, ["timed ×8 (closed-1k, data, kernel-default)"]);
        assert!(found.only_b.is_empty());
        let error = compare(&a, &a).unwrap_err().to_string();
        assert!(error.contains("both are the run a"), "{error}");
        b.cells.iter_mut().for_each(|cell| cell.disk = "other".to_owned());
        let error = compare(&a, &b).unwrap_err().to_string();
        assert!(error.contains("no row in common"), "{error}");
        // That both have a raw loop says nothing of a log.
        a.cells.push(cell(Kind::Raw, 1, 0, |_| {}));
        b.cells.push(cell(Kind::Raw, 1, 0, |_| {}));
        let error = compare(&a, &b).unwrap_err().to_string();
        assert!(error.contains("no row in common"), "{error}");
    }
}
