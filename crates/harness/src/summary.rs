//! From cells to rows: what the blocks of one strategy under one load come to.
//!
//! The unit of analysis is one repetition, that is one cell. A row says where its repetitions lie
//! and, of six or more, where others would with 95 of 100; fewer blocks are indicative.
//! Invalid cells take no part in a median, but are counted, named and shown apart.

mod asked;
mod loss_model;
mod record;
mod relied;
mod stat;

use std::collections::{BTreeMap, BTreeSet};

pub use self::asked::{Kept, sentence as asked_sentence};
pub use self::loss_model::LossModel;
pub use self::record::{Figure, SCHEMA, Summary, SummaryRow, record};
pub use self::relied::{Doubt, Relied};
pub use self::stat::Stat;
use crate::clock::float;
use crate::format;
use crate::results::{
    AckPromise, Cell, Check, Exposure, Kind, Level, NotHardware, Quantiles, Spread, Status,
};

/// A percentile of a latency over the blocks of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Percentile {
    /// In nanoseconds.
    pub ns: Stat,
    /// Whether a block had fewer than 100/(1−q) values, too few for this percentile to be firm.
    pub rough: bool,
}

impl Percentile {
    /// The figure as a duration, with `~` before it where it is rough.
    pub fn shown(&self) -> String {
        let mark = if self.rough { "~" } else { "" };
        format!("{mark}{}", format::duration(self.ns.centre()))
    }
}

/// What a crash of one kind would take of what was acknowledged, at 99 of 100 moments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Loss {
    /// Age of the oldest message at risk, in nanoseconds.
    pub age_ns: Stat,
    /// Log bytes at risk.
    pub bytes: Stat,
    /// Messages at risk.
    pub messages: Stat,
    /// Whether anything was at risk at any moment, the last of the 100 included.
    pub ever: bool,
    /// How far the figures can be relied on.
    pub extent: Extent,
}

/// What a loss figure is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Extent {
    /// A lower bound: what is at risk still grew when the measured time was over.
    AtLeast,
    /// Everything is lost, whatever was measured: the file system lives in memory.
    Everything,
    /// What was measured.
    Measured,
}

impl Loss {
    /// Whether nothing is at risk at 99 of 100 moments; more may be at the others, see `ever`.
    pub fn is_zero(&self) -> bool {
        self.age_ns.max <= 0.0 && self.bytes.max <= 0.0 && self.messages.max <= 0.0
    }

    /// `540 ms / 162 MiB`, `0`, or `0 (p99)` if something was at risk at rarer moments; `≥` before
    /// a lower bound, and `all` where everything is lost.
    pub fn shown(&self) -> String {
        self.shown_in_parts("0").join(" / ")
    }

    /// The parts of [`shown`](Self::shown), with `nothing` for a loss that never was.
    pub fn shown_in_parts(&self, nothing: &str) -> Vec<String> {
        match (self.extent, self.is_zero(), self.ever) {
            (Extent::Everything, _, _) => vec!["all".to_owned()],
            (_, true, false) => vec![nothing.to_owned()],
            (_, true, true) => vec!["0 (p99)".to_owned()],
            (_, false, _) => vec![
                format!("{}{}", self.bound(), format::duration(self.age_ns.centre())),
                format::bytes(self.bytes.centre()),
            ],
        }
    }

    /// `≥` before a lower bound, else nothing.
    pub fn bound(&self) -> &'static str {
        if self.extent == Extent::AtLeast { "≥" } else { "" }
    }
}

/// The figures of some cells of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// Acknowledged messages per second.
    pub acked_per_s: Stat,
    /// To acknowledgement, see [`Cell::ack_ns`]: half of the messages.
    pub ack_p50: Option<Percentile>,
    /// 99 of 100.
    pub ack_p99: Option<Percentile>,
    /// 999 of 1000.
    pub ack_p999: Option<Percentile>,
    /// The slowest.
    pub ack_max: Option<Percentile>,
    /// From the start of a sync to its return: half of the syncs.
    pub flush_p50: Option<Percentile>,
    /// Messages that a sync made durable: the mean over blocks of each block's mean.
    pub messages_per_flush: Option<f64>,
    /// What `kill -9` would take.
    pub process: Loss,
    /// What a power cut would take.
    pub power: Loss,
    /// Device bytes per appended log byte.
    pub write_amplification: Option<Stat>,
    /// The rate by that of the raw loop of the same block.
    pub ratio_to_raw: Option<Stat>,
}

/// Something that the checks of some cells had to say.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Note {
    /// What it means.
    pub level: Level,
    /// The check's fixed word.
    pub code: String,
    /// What was checked.
    pub rule: String,
    /// What was found, each finding once.
    pub values: Vec<String>,
    /// In how many cells.
    pub cells: usize,
}

/// One strategy under one load, over all blocks.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The strategy's name in the profile.
    pub strategy: String,
    /// What the strategy is.
    pub kind: Kind,
    /// What an acknowledgement promises.
    pub ack_at: AckPromise,
    /// Producer threads.
    pub producers: u32,
    /// The disk's name.
    pub disk: String,
    /// The kernel settings' name.
    pub sysctl: String,
    /// The workload's name.
    pub workload: String,
    /// Of these three, those of which the run has more than one.
    pub setting: String,
    /// What its disk was, if not hardware.
    pub not_hardware: NotHardware,
    /// What its valid cells say of themselves that keeps figures from being relied on.
    pub doubts: Vec<Doubt>,
    /// How messages came.
    pub loops: Loops,
    /// The figures of the cells that count; `None` if all are invalid.
    pub figures: Option<Figures>,
    /// The figures of the invalid cells, to be shown as such.
    pub refused: Option<Figures>,
    /// The blocks that count.
    pub blocks: Vec<u32>,
    /// The blocks that are invalid.
    pub invalid_blocks: Vec<u32>,
    /// The worst of the cells' states.
    pub status: Status,
    /// What the checks that did not pass had to say, the worst first.
    pub notes: Vec<Note>,
    /// The rate of unsynced appends was measured before the kernel began to write back.
    pub page_cache_absorbed: bool,
}

impl Row {
    /// `sync`, with the setting and what its disk is where the run has more than one setting.
    pub fn named(&self) -> String {
        if self.setting.is_empty() {
            return self.strategy.clone();
        }
        let what = self.not_hardware.word().map_or_else(String::new, |what| format!(", {what}"));
        format!("{} ({}{what})", self.strategy, self.setting)
    }

    /// Whether the cell is one of the row's.
    pub fn has(&self, cell: &Cell) -> bool {
        self.producers == cell.producers
            && self.kind == cell.kind
            && self.strategy == cell.strategy
            && self.workload == cell.workload
            && self.disk == cell.disk
            && self.sysctl == cell.sysctl
    }

    /// Whether the row's figures are of this cell among others: one of its own that is valid.
    pub fn counts(&self, cell: &Cell) -> bool {
        self.has(cell) && cell.status != Status::Invalid
    }

    /// `sync ×64`, with the setting where it matters.
    pub fn label(&self) -> String {
        let setting =
            if self.setting.is_empty() { String::new() } else { format!(" ({})", self.setting) };
        format!("{} ×{}{setting}", self.strategy, self.producers)
    }
}

/// The rows that these cells make: raw first, then none and the strategies, fewer producers first.
///
/// The order of `cells` does not matter.
///
/// Canaries make no row: they show drift, and are nobody's way to run a store.
pub fn rows(cells: &[Cell]) -> Vec<Row> {
    let is_canary = |cell: &&Cell| cell.strategy == crate::run::CANARY;
    let kept: Vec<Cell> = cells.iter().filter(|cell| !is_canary(cell)).cloned().collect();
    let cells = &kept;
    let varies = varying(cells);
    let mut groups: BTreeMap<(usize, &str, Setting<'_>, u32), Vec<&Cell>> = BTreeMap::new();
    for cell in cells {
        let name = cell.strategy.as_str();
        let key = (rank(cell.kind), name, setting(cell), cell.producers);
        groups.entry(key).or_default().push(cell);
    }
    groups
        .into_values()
        .map(|mut group| {
            group.sort_by_key(|cell| (cell.block, cell.position));
            row(&group, cells, varies)
        })
        .collect()
}

/// The rows of real hardware where there are any, else all: a disk that is not hardware as it is
/// says nothing about one that is.
pub fn real(rows: &[Row]) -> impl Iterator<Item = &Row> {
    let has_real = rows.iter().any(|row| row.not_hardware.word().is_none());
    rows.iter().filter(move |row| !has_real || row.not_hardware.word().is_none())
}

/// What the checks of these cells had to say that did not pass, the worst first.
pub fn notes<'a>(cells: impl IntoIterator<Item = &'a Cell>) -> Vec<Note> {
    let mut found: BTreeMap<_, (BTreeSet<&str>, usize)> = BTreeMap::new();
    for cell in cells {
        for check in cell.validity.iter().filter(|check| check.level > Level::Pass) {
            let Check { code, level, value, rule } = check;
            let entry = found.entry((std::cmp::Reverse(*level), code, rule)).or_default();
            entry.0.insert(value);
            entry.1 += 1;
        }
    }
    found
        .into_iter()
        .map(|((level, code, rule), (values, cells))| Note {
            level: level.0,
            code: code.clone(),
            rule: rule.clone(),
            values: values.into_iter().map(str::to_owned).collect(),
            cells,
        })
        .collect()
}

/// How messages came, which says from when on latencies are; the raw loop is no load.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Loops {
    /// Each after the acknowledgement of one before: latency is from its append.
    Closed,
    /// The one or the other.
    Mixed,
    /// Each at a time, whatever becomes of those before: latency is from when it was due.
    Open,
}

impl Loops {
    /// Of these rows.
    pub fn of(rows: &[Row]) -> Self {
        let loads = rows.iter().filter(|row| row.kind != Kind::Raw).map(|row| row.loops);
        loads.reduce(|all, one| if all == one { all } else { Self::Mixed }).unwrap_or(Self::Closed)
    }

    fn of_cell(cell: &Cell) -> Self {
        if cell.open_loop.is_some() { Self::Open } else { Self::Closed }
    }

    /// In words: `closed loop`.
    pub fn words(self) -> &'static str {
        match self {
            Self::Closed => "closed loop",
            Self::Mixed => "closed and open loops",
            Self::Open => "open loop",
        }
    }
}

/// The word that the profile uses for it.
pub fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::CommitRealtime => "commit_realtime",
        Kind::FlushRealtime => "flush_realtime",
        Kind::GroupCommit => "group_commit",
        Kind::None => "none",
        Kind::Raw => "raw",
    }
}

/// The word for it in records, tables and charts.
pub fn status_name(status: Status) -> &'static str {
    match status {
        Status::Invalid => "invalid",
        Status::Overload => "overload",
        Status::Valid => "valid",
        Status::Warn => "warn",
    }
}

/// The word for it in records, tables and charts.
pub fn level_name(level: Level) -> &'static str {
    match level {
        Level::Invalid => "invalid",
        Level::Label => "label",
        Level::Pass => "pass",
        Level::Warn => "warn",
    }
}

/// What is the same for all cells of most runs.
type Setting<'a> = [&'a str; 3];

fn setting(cell: &Cell) -> Setting<'_> {
    [&cell.disk, &cell.sysctl, &cell.workload]
}

/// Which parts of the setting differ between cells.
fn varying(cells: &[Cell]) -> [bool; 3] {
    std::array::from_fn(|part| {
        let values: BTreeSet<&str> = cells.iter().map(|cell| setting(cell)[part]).collect();
        values.len() > 1
    })
}

fn row(group: &[&Cell], all: &[Cell], varies: [bool; 3]) -> Row {
    let first = group[0];
    let (invalid, valid): (Vec<&Cell>, Vec<&Cell>) =
        group.iter().partition(|cell| cell.status == Status::Invalid);
    let blocks = |cells: &[&Cell]| cells.iter().map(|cell| cell.block).collect();
    let parts = setting(first).into_iter().zip(varies);
    let named: Vec<&str> = parts.filter_map(|(part, varies)| varies.then_some(part)).collect();
    Row {
        strategy: first.strategy.clone(),
        kind: first.kind,
        ack_at: first.ack_at,
        producers: first.producers,
        disk: first.disk.clone(),
        sysctl: first.sysctl.clone(),
        workload: first.workload.clone(),
        setting: named.join(", "),
        not_hardware: group
            .iter()
            .map(|cell| cell.not_hardware())
            .fold(NotHardware::default(), NotHardware::or),
        doubts: relied::doubts(&valid),
        loops: Loops::of_cell(first),
        figures: figures(&valid, all),
        refused: figures(&invalid, all),
        blocks: blocks(&valid),
        invalid_blocks: blocks(&invalid),
        status: worst(group),
        notes: notes(group.iter().copied()),
        page_cache_absorbed: first.kind != Kind::Raw
            && first.ack_at != AckPromise::Flushed
            && group.iter().any(|cell| {
                let is_simulated = cell.did_not_pass(crate::cell::simulated::ABSORBED);
                cell.dirty.reached_background == Some(false) || is_simulated
            }),
    }
}

fn figures(cells: &[&Cell], all: &[Cell]) -> Option<Figures> {
    let ack = Cell::ack_ns;
    let flush = |cell: &Cell| cell.flush_ns;
    let per_flush: Vec<f64> = cells
        .iter()
        .filter(|cell| cell.messages_per_flush.count > 0)
        .map(|cell| cell.messages_per_flush.mean)
        .collect();
    Some(Figures {
        acked_per_s: Stat::of(cells.iter().map(|cell| cell.acked_per_s))?,
        ack_p50: percentile(cells, ack, |q| q.p50, 200),
        ack_p99: percentile(cells, ack, |q| q.p99, 10_000),
        ack_p999: percentile(cells, ack, |q| q.p999, 100_000),
        ack_max: percentile(cells, ack, |q| q.max, 1),
        flush_p50: percentile(cells, flush, |q| q.p50, 200),
        messages_per_flush: mean(&per_flush),
        process: loss(cells, |cell| &cell.exposure.process, extent(cells, "commits_seen"))?,
        power: loss(cells, |cell| &cell.exposure.power, power_extent(cells))?,
        write_amplification: Stat::of(cells.iter().filter_map(|c| c.io.write_amplification)),
        ratio_to_raw: Stat::of(cells.iter().filter_map(|cell| ratio_to_raw(cell, all))),
    })
}

/// A percentile over the cells that recorded any; rough where one recorded fewer than `needed`.
fn percentile(
    cells: &[&Cell],
    of: fn(&Cell) -> Quantiles,
    which: fn(&Quantiles) -> u64,
    needed: u64,
) -> Option<Percentile> {
    let recorded: Vec<Quantiles> =
        cells.iter().map(|cell| of(cell)).filter(|quantiles| quantiles.count > 0).collect();
    Some(Percentile {
        ns: Stat::of(recorded.iter().map(|quantiles| float(which(quantiles))))?,
        rough: recorded.iter().any(|quantiles| quantiles.count < needed),
    })
}

/// A lower bound if the check that says so did not pass in some cell.
fn extent(cells: &[&Cell], check: &str) -> Extent {
    if cells.iter().any(|cell| cell.did_not_pass(check)) {
        Extent::AtLeast
    } else {
        Extent::Measured
    }
}

/// The gravest of any cell.
fn power_extent(cells: &[&Cell]) -> Extent {
    let has = |extent| cells.iter().any(|cell| cell.power_extent() == extent);
    let gravest = [Extent::Everything, Extent::AtLeast].into_iter().find(|extent| has(*extent));
    gravest.unwrap_or(Extent::Measured)
}

fn loss(cells: &[&Cell], under: fn(&Cell) -> &Exposure, extent: Extent) -> Option<Loss> {
    let stat = |of: fn(&Exposure) -> &Spread| {
        Stat::of(cells.iter().map(|cell| float(of(under(cell)).p99)))
    };
    let ever = cells.iter().map(|cell| under(cell)).any(|exposure| {
        exposure.age_ns.max > 0 || exposure.bytes.max > 0 || exposure.messages.max > 0
    });
    Some(Loss {
        age_ns: stat(|exposure| &exposure.age_ns)?,
        bytes: stat(|exposure| &exposure.bytes)?,
        messages: stat(|exposure| &exposure.messages)?,
        ever,
        extent,
    })
}

/// The cell's rate by that of the same block's raw loop; `None` if that is missing or unusable.
fn ratio_to_raw(cell: &Cell, all: &[Cell]) -> Option<f64> {
    let usable = |raw: &&Cell| {
        raw.kind == Kind::Raw
            && raw.block == cell.block
            && raw.disk == cell.disk
            && raw.sysctl == cell.sysctl
            && (raw.message_bytes == cell.message_bytes || raw.record_bytes == cell.record_bytes)
            && raw.status != Status::Invalid
            && raw.acked_per_s > 0.0
    };
    // Of its own workload if there is one; else another of the same size does.
    let nearest = |raw: &&Cell| (raw.workload != cell.workload, raw.producers, raw.position);
    let raw = all.iter().filter(usable).min_by_key(nearest)?;
    Some(cell.acked_per_s / raw.acked_per_s)
}

fn mean(values: &[f64]) -> Option<f64> {
    let count = u64::try_from(values.len()).expect("a slice is shorter than 2^64");
    (count > 0).then(|| values.iter().sum::<f64>() / float(count))
}

fn worst(cells: &[&Cell]) -> Status {
    let any = |status| cells.iter().any(|cell| cell.status == status);
    if any(Status::Invalid) {
        Status::Invalid
    } else if any(Status::Overload) {
        Status::Overload
    } else if any(Status::Warn) {
        Status::Warn
    } else {
        Status::Valid
    }
}

/// The order of rows: what the disk allows, what no flush allows, then the strategies.
fn rank(kind: Kind) -> usize {
    match kind {
        Kind::Raw => 0,
        Kind::None => 1,
        Kind::GroupCommit => 2,
        Kind::FlushRealtime => 3,
        Kind::CommitRealtime => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results_fixture::{cell, check, example};

    #[test]
    fn rows_stand_in_a_fixed_order() {
        let mut cells = example();
        let forward = rows(&cells);
        cells.reverse();
        assert_eq!(rows(&cells), forward);
        let labels: Vec<String> = forward.iter().map(Row::label).collect();
        let expect = "raw ×1|none ×1|none ×8|none ×64|sync ×1|sync ×8|sync ×64|timed ×1|timed ×8|\
                      timed ×64|staged ×1|staged ×8|staged ×64";
        assert_eq!(labels.join("|"), expect);
    }

    #[test]
    fn the_ratio_is_taken_within_the_block() {
        let mut cells = Vec::new();
        // The disk gets slower; the strategy keeps its distance.
        for (block, rate) in [(0, 1000.0), (1, 500.0), (2, 100.0)] {
            cells.push(cell(Kind::Raw, 1, block, |c| c.acked_per_s = rate));
            cells.push(cell(Kind::GroupCommit, 8, block, |c| {
                c.acked_per_s = 3.0 * rate;
            }));
        }
        let ratio = rows(&cells)[1].figures.unwrap().ratio_to_raw.unwrap();
        assert_eq!((ratio.min, ratio.median, ratio.max), (3.0, 3.0, 3.0));
    }

    #[test]
    fn without_a_usable_raw_cell_there_is_no_ratio() {
        let sync = cell(Kind::GroupCommit, 8, 0, |_| {});
        assert_eq!(rows(std::slice::from_ref(&sync))[0].figures.unwrap().ratio_to_raw, None);
        let raw = cell(Kind::Raw, 1, 0, |c| c.status = Status::Invalid);
        assert_eq!(rows(&[raw, sync.clone()])[1].figures.unwrap().ratio_to_raw, None);
        let other_block = cell(Kind::Raw, 1, 1, |_| {});
        assert_eq!(rows(&[other_block, sync])[1].figures.unwrap().ratio_to_raw, None);
    }

    #[test]
    fn invalid_cells_stay_out_of_medians_but_are_named() {
        let rate = |block, rate, status| {
            cell(Kind::GroupCommit, 8, block, |c| {
                c.acked_per_s = rate;
                c.status = status;
                if status == Status::Invalid {
                    c.validity.push(check("errors", Level::Invalid, "3", "no append failed"));
                }
            })
        };
        let rows = rows(&[
            rate(0, 10.0, Status::Valid),
            rate(1, 900.0, Status::Invalid),
            rate(2, 20.0, Status::Warn),
        ]);
        let row = &rows[0];
        assert_eq!(row.figures.unwrap().acked_per_s.range(format::count), "10–20");
        assert_eq!(row.refused.unwrap().acked_per_s.range(format::count), "one block");
        assert_eq!((&row.blocks[..], &row.invalid_blocks[..]), (&[0, 2][..], &[1][..]));
        assert_eq!(row.status, Status::Invalid);
        assert_eq!(row.notes[0].code, "errors");
    }

    #[test]
    fn nothing_recorded_is_not_zero() {
        let silent = cell(Kind::None, 1, 0, |c| {
            c.flush_ns = Quantiles::default();
            c.messages_per_flush = Quantiles::default();
            c.append_to_ack_ns = Quantiles::default();
        });
        let figures = rows(&[silent])[0].figures.unwrap();
        assert_eq!(figures.flush_p50, None);
        assert_eq!(figures.messages_per_flush, None);
        assert_eq!(figures.ack_p99, None);
    }

    #[test]
    fn a_percentile_of_too_few_values_is_rough() {
        let few = cell(Kind::GroupCommit, 1, 0, |c| {
            c.append_to_ack_ns.count = 9_999;
        });
        let figures = rows(&[few])[0].figures.unwrap();
        assert!(!figures.ack_p50.unwrap().rough);
        assert!(figures.ack_p99.unwrap().rough);
        assert!(figures.ack_p99.unwrap().shown().starts_with('~'));
    }

    #[test]
    fn notes_join_what_is_said_twice() {
        let says = |value: &str, block| {
            cell(Kind::None, 1, block, |c| {
                c.validity = vec![
                    check("vm", Level::Label, "yes", "bare metal"),
                    check("steal", Level::Warn, value, "at most 2 %"),
                    check("clock", Level::Pass, "tsc", "a clock that counts"),
                ];
            })
        };
        let found = notes(&[says("3 %", 0), says("5 %", 1)]);
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].code.as_str(), found[0].cells), ("steal", 2));
        assert_eq!(found[0].values, ["3 %", "5 %"]);
        assert_eq!(found[1].level, Level::Label);
    }

    #[test]
    fn other_settings_are_other_rows() {
        let small = cell(Kind::None, 1, 0, |_| {});
        let large = cell(Kind::None, 1, 0, |c| {
            c.workload = "closed-64k".to_owned();
            c.message_bytes = 65_536;
        });
        let rows = rows(&[small, large]);
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[1].label(), "none ×1 (closed-64k)");
    }

    #[test]
    fn what_is_rarely_at_risk_is_not_nothing() {
        let rare = cell(Kind::GroupCommit, 1, 0, |c| c.exposure.power.bytes.max = 1);
        let figures = rows(&[rare])[0].figures.unwrap();
        assert_eq!(
            (figures.process.shown(), figures.power.shown()),
            ("0".into(), "0 (p99)".into())
        );
    }

    #[test]
    fn only_unsynced_appends_are_absorbed_by_the_page_cache() {
        let absorbed = |kind| {
            let one = cell(kind, 1, 0, |c| c.dirty.reached_background = Some(false));
            rows(&[one])[0].page_cache_absorbed
        };
        assert!(absorbed(Kind::None) && absorbed(Kind::FlushRealtime));
        assert!(!absorbed(Kind::GroupCommit) && !absorbed(Kind::Raw));
    }
}
