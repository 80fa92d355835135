//! What a run says, in sentences: each with its range, and with what speaks against it.

use std::collections::BTreeSet;

use crate::comparison;
use crate::format;
use crate::results::{Cell, Environment, Kind, Level, Manifest, Outcome, Status};
use crate::statistics::FIRM_BLOCKS;
use crate::summary::{Extent, Figures, Loss, Row};

/// A sentence for each kind of strategy, one on how they compare if there are enough blocks, one on
/// validity, one on conditions.
pub fn sentences(
    manifest: &Manifest,
    env: &Environment,
    cells: &[Cell],
    rows: &[Row],
) -> Vec<String> {
    let mut said = Vec::new();
    if cells.is_empty() {
        said.push(format!(
            "No cell was finished{}: there are no figures, only the plan and the machine.",
            outcome(manifest).map_or_else(String::new, |how| format!(" ({how})"))
        ));
    }
    let kinds = [
        (Kind::GroupCommit, "Synchronous flush"),
        (Kind::FlushRealtime, "Timed flush"),
        (Kind::CommitRealtime, "Staged flush"),
    ];
    said.extend(kinds.iter().filter_map(|(kind, name)| on_strategy(rows, *kind, name)));
    said.extend(comparison::sentence(&comparison::comparisons(cells)));
    if !cells.is_empty() {
        said.push(on_validity(manifest, cells, rows));
    }
    let caveats = conditions(env, rows);
    if !caveats.is_empty() {
        said.push(format!("Read with it: {}.", caveats.join("; ")));
    }
    said
}

/// What limits every figure of the run, each in a clause; the first is the gravest.
pub fn conditions(env: &Environment, rows: &[Row]) -> Vec<String> {
    let mut clauses = Vec::new();
    if env.disk.emulated || rows.iter().any(|row| row.emulated) {
        clauses.push("EMULATED disk, which says nothing about real hardware".to_owned());
    }
    if env.disk.simulated || rows.iter().any(|row| row.simulated) {
        clauses.push("SIMULATED disk, whose figures are those of a model".to_owned());
    }
    if env.disk.in_memory {
        clauses.push("the file system lives in memory, where a power cut takes all".to_owned());
    }
    match env.virtual_machine {
        // Nothing persists that is simulated.
        _ if env.disk.simulated => {}
        Some(true) => clauses.push("persistence not verifiable in a VM".to_owned()),
        Some(false) => {}
        None => clauses.push("a virtual machine or not: unknown".to_owned()),
    }
    clauses.extend(noise(rows));
    let absorbed = absorbed(rows);
    if !absorbed.is_empty() {
        clauses.push(format!(
            "page-cache absorbed: the dirty limit was not reached, not a sustained rate ({})",
            absorbed.join(", ")
        ));
    }
    clauses
}

/// The raw loop does the same work in every block: by how much it varies tells how noisy the
/// machine was while everything else was measured.
fn noise(rows: &[Row]) -> Option<String> {
    let raw = rows.iter().find(|row| row.kind == Kind::Raw)?;
    let rate = raw.figures?.acked_per_s;
    let varied = 100.0 * (rate.max - rate.min) / rate.median;
    (varied > NOISY_PCT).then(|| {
        format!("noisy: the raw loop varied by {varied:.0} % between blocks, and so may the rest")
    })
}

/// More than this between repetitions of one loop, and differences between rows may be chance.
const NOISY_PCT: f64 = 15.0;

/// How the run ended if it is not whole: `interrupted after 5 of 39 cells`.
pub fn outcome(manifest: &Manifest) -> Option<String> {
    let word = match manifest.outcome {
        Outcome::Complete => return None,
        Outcome::Failed => "failed",
        Outcome::Interrupted => "interrupted",
        Outcome::Running => "not ended, or killed,",
        Outcome::Trimmed => "ended by the time allowed",
    };
    Some(format!("{word} after {} of {} cells", manifest.cells_done, manifest.cells_planned))
}

/// The blocks that there are: `3 blocks (indicative)`, or `1 of 3 blocks (indicative)`.
pub fn blocks(manifest: &Manifest, rows: &[Row]) -> String {
    let measured = block_count(rows);
    let planned = usize::try_from(manifest.blocks).unwrap_or(usize::MAX);
    let indicative = if measured < FIRM_BLOCKS { " (indicative)" } else { "" };
    if measured == planned {
        format!("{}{indicative}", format::plural(measured, "block"))
    } else {
        format!("{measured} of {}{indicative}", format::plural(planned, "block"))
    }
}

/// The blocks that there are, and what the ranges beside figures are.
pub fn standing(manifest: &Manifest, rows: &[Row]) -> String {
    let ranges = match Ranges::of(rows) {
        _ if block_count(rows) == 1 => "one repetition has no range",
        Ranges::Intervals => {
            "ranges are 95 % intervals, by t of the logarithms; of what is 0 in some block, \
             intervals of the median"
        }
        Ranges::MinMax => "ranges are min–max, not confidence intervals",
        Ranges::Mixed => {
            "ranges are 95 % intervals; where fewer than 6 blocks are valid, min–max, not \
             confidence intervals"
        }
    };
    format!("{}: {ranges}", blocks(manifest, rows))
}

/// What stands beside the figures of a run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ranges {
    /// 95 % intervals.
    Intervals,
    /// Smallest and largest: too few blocks.
    MinMax,
    /// The one or the other.
    Mixed,
}

impl Ranges {
    /// Of the rows that have figures.
    pub fn of(rows: &[Row]) -> Self {
        let figures = rows.iter().filter_map(|row| row.figures);
        let firm: BTreeSet<bool> =
            figures.map(|figures| figures.acked_per_s.interval().is_some()).collect();
        match (firm.contains(&true), firm.contains(&false)) {
            (true, false) => Self::Intervals,
            (true, true) => Self::Mixed,
            (false, _) => Self::MinMax,
        }
    }

    /// A word for a heading.
    pub fn word(self) -> &'static str {
        match self {
            Self::Intervals => "95 %",
            Self::MinMax => "min–max",
            Self::Mixed => "range",
        }
    }
}

fn block_count(rows: &[Row]) -> usize {
    let blocks = rows.iter().flat_map(|row| row.blocks.iter().chain(&row.invalid_blocks));
    blocks.collect::<BTreeSet<_>>().len()
}

/// What speaks against a row's figures: `valid`, `warn: steal`, `1 of 3 blocks invalid, left out`.
pub fn validity(row: &Row) -> String {
    let mut said = Vec::new();
    let (good, bad) = (row.blocks.len(), row.invalid_blocks.len());
    if bad > 0 {
        said.push(format!("{bad} of {} invalid, left out", format::plural(good + bad, "block")));
    }
    let warnings = row.notes.iter().filter(|note| note.level == Level::Warn);
    let codes: Vec<&str> = warnings.map(|note| note.code.as_str()).collect();
    if !codes.is_empty() {
        said.push(format!("warn: {}", codes.join(", ")));
    } else if row.status == Status::Warn {
        said.push("warn".to_owned());
    }
    if said.is_empty() {
        said.push("valid".to_owned());
    }
    said.join("; ")
}

/// The strategies whose rate the page cache absorbed, each once.
pub fn absorbed(rows: &[Row]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for row in rows.iter().filter(|row| row.page_cache_absorbed) {
        if !names.contains(&row.strategy.as_str()) {
            names.push(&row.strategy);
        }
    }
    names
}

fn on_strategy(rows: &[Row], kind: Kind, name: &str) -> Option<String> {
    // A disk that is not hardware as it is says nothing about one that is.
    let is_real = |row: &Row| row.not_hardware().is_none();
    let has_real = rows.iter().any(is_real);
    let counts = |row: &&Row| row.kind == kind && (!has_real || is_real(row));
    let of_kind: Vec<&Row> = rows.iter().filter(counts).collect();
    if of_kind.is_empty() {
        return None;
    }
    let rate =
        |row: &Row| row.figures.map_or(f64::NEG_INFINITY, |figures| figures.acked_per_s.centre());
    let fastest = of_kind.iter().max_by(|a, b| rate(a).total_cmp(&rate(b)))?;
    let Some(figures) = fastest.figures else {
        return Some(format!("{name}: no valid cell, hence no figure."));
    };
    let mut sentence = format!(
        "{name} ({}) acknowledged {} msg/s ({})",
        fastest.label(),
        format::count(figures.acked_per_s.centre()),
        spread(&figures)
    );
    if kind == Kind::GroupCommit {
        sentence += &beside_raw(&figures, &of_kind);
    }
    let mut power = taken(&figures.power);
    if figures.power.is_zero() && figures.power.extent != Extent::Everything {
        power += ", if the device honours flush";
    }
    Some(format!(
        "{sentence}; a power cut would take {power}; kill -9 {}. [{}]",
        taken(&figures.process),
        validity(fastest)
    ))
}

/// What synchronous flush reaches of what the disk allows, at its fastest and with one producer.
fn beside_raw(fastest: &Figures, rows: &[&Row]) -> String {
    let times = |figures: &Figures| {
        figures.ratio_to_raw.map(|ratio| {
            format!("{} times ({})", format::ratio(ratio.centre()), ratio.range(format::ratio))
        })
    };
    let Some(best) = times(fastest) else {
        return ", with no valid raw loop to hold it against".to_owned();
    };
    let alone = rows.iter().find(|row| row.producers == 1).and_then(|row| row.figures);
    let alone = alone.filter(|figures| figures != fastest).as_ref().and_then(times);
    let alone = alone.map_or_else(String::new, |alone| format!("; with 1 producer {alone}"));
    format!(", {best} what the raw pwrite + fdatasync loop reaches on one thread{alone}")
}

fn spread(figures: &Figures) -> String {
    let rate = figures.acked_per_s;
    if rate.blocks == 1 {
        return "one block, no range".to_owned();
    }
    let sure = if rate.interval().is_some() { "95 %: " } else { "" };
    format!("{sure}{} over {} blocks", rate.range(format::count), rate.blocks)
}

fn taken(loss: &Loss) -> String {
    if loss.extent == Extent::Everything {
        return "everything".to_owned();
    }
    match (loss.is_zero(), loss.ever) {
        (true, false) => return "nothing acknowledged".to_owned(),
        (true, true) => return "nothing at 99 of 100 moments, something at others".to_owned(),
        (false, _) => {}
    }
    let range = if loss.age_ns.blocks > 1 {
        format!(", {}", loss.age_ns.range(format::duration))
    } else {
        String::new()
    };
    let bound = match loss.extent {
        Extent::AtLeast => "at least ",
        Extent::Everything | Extent::Measured => "",
    };
    format!(
        "{bound}the last {} or {} (p99 of time{range})",
        format::duration(loss.age_ns.centre()),
        format::bytes(loss.bytes.centre())
    )
}

fn on_validity(manifest: &Manifest, cells: &[Cell], rows: &[Row]) -> String {
    let with = |status| cells.iter().filter(|cell| cell.status == status).count();
    let (invalid, warned) = (with(Status::Invalid), with(Status::Warn));
    let left_out = if invalid == 0 {
        "none is invalid".to_owned()
    } else {
        format!("{invalid} invalid and left out")
    };
    let ended = outcome(manifest).map_or_else(String::new, |how| format!("The run {how}. "));
    format!(
        "{ended}Of {}, {left_out}, {warned} with warnings; {}.",
        format::plural(cells.len(), "cell"),
        standing(manifest, rows)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results_fixture::{
        cell, check, environment, example, example_of, manifest, troubled,
    };
    use crate::summary;

    fn said(cells: &[Cell]) -> Vec<String> {
        sentences(&manifest(), &environment(), cells, &summary::rows(cells))
    }

    #[test]
    fn a_whole_run_is_told_in_five_sentences() {
        let said = said(&example());
        assert_eq!(said.len(), 5);
        for (sentence, part) in said.iter().zip([
            "Synchronous flush (sync ×64) acknowledged 148k msg/s (136k–160k over 3 blocks)",
            "a power cut would take the last 567 ms or 208 MiB (p99 of time, 540 ms–594 ms); \
             kill -9 nothing acknowledged. [valid]",
            "kill -9 the last 220 ms or 106 MiB",
            "Of 39 cells, none is invalid, 0 with warnings; 3 blocks (indicative): ranges are",
            "persistence not verifiable in a VM; page-cache absorbed",
        ]) {
            assert!(sentence.contains(part), "{part:?} in {sentence}");
        }
        assert!(
            said[0].contains("nothing acknowledged, if the device honours flush"),
            "{}",
            said[0]
        );
    }

    #[test]
    fn enough_blocks_are_told_with_their_intervals() {
        let mut cells = example_of(7);
        let mut mine = manifest();
        mine.blocks = 7;
        let told = sentences(&mine, &environment(), &cells, &summary::rows(&cells));
        assert!(
            told[0].contains("msg/s (95 %: ") && told[0].contains(" over 7 blocks"),
            "{told:?}"
        );
        assert!(told[3].contains("of 18 pairs of strategies"), "{}", told[3]);
        assert!(told[4].contains("7 blocks: ranges are 95 % intervals"), "{}", told[4]);
        // Two blocks of one row are not valid: five have no interval.
        let mut few = cells.iter_mut().filter(|cell| cell.strategy == "timed" && cell.block < 2);
        few.by_ref().for_each(|cell| cell.status = Status::Invalid);
        let rows = summary::rows(&cells);
        assert_eq!(Ranges::of(&rows), Ranges::Mixed);
        let told = sentences(&mine, &environment(), &cells, &rows);
        assert!(told[1].contains("msg/s (") && !told[1].contains("95 %"), "{}", told[1]);
        assert!(told[4].contains("where fewer than 6 blocks are valid, min–max"), "{}", told[4]);
    }

    #[test]
    fn a_sentence_tells_what_speaks_against_it() {
        let said = said(&troubled());
        assert!(said[0].ends_with("[1 of 3 blocks invalid, left out]"), "{}", said[0]);
        assert!(said[1].ends_with("[warn: steal]"), "{}", said[1]);
        assert!(said[3].starts_with("Of 39 cells, 4 invalid and left out, 3 with warnings"));
    }

    #[test]
    fn without_a_raw_row_nothing_is_compared() {
        let cells = [cell(Kind::GroupCommit, 8, 0, |_| {})];
        assert!(said(&cells)[0].contains("(one block, no range), with no valid raw loop"));
    }

    #[test]
    fn a_strategy_of_which_nothing_is_valid_gets_no_figure() {
        let cells = [cell(Kind::FlushRealtime, 8, 0, |c| {
            c.status = Status::Invalid;
        })];
        assert_eq!(said(&cells)[0], "Timed flush: no valid cell, hence no figure.");
    }

    #[test]
    fn a_run_without_cells_says_so() {
        let mut manifest = manifest();
        (manifest.outcome, manifest.cells_done) = (Outcome::Interrupted, 0);
        let said = sentences(&manifest, &environment(), &[], &[]);
        assert!(said[0].starts_with("No cell was finished (interrupted after 0 of 39 cells)"));
    }

    #[test]
    fn the_verdict_is_about_real_hardware_where_there_is_any() {
        let on = |disk: &'static str, per_s: f64| {
            cell(Kind::GroupCommit, 8, 0, move |c| {
                (c.disk, c.acked_per_s) = (disk.to_owned(), per_s);
                c.emulated = disk == "loop";
                if disk == "tmpfs" {
                    let (code, rule) = ("in_memory".to_owned(), "on a disk".to_owned());
                    let check = crate::results::Check {
                        code,
                        level: Level::Label,
                        value: String::new(),
                        rule,
                    };
                    c.validity.push(check);
                }
            })
        };
        let told =
            said(&[on("host", 1000.0), on("loop", 90_000.0), on("tmpfs", 700_000.0)]).join(" ");
        assert!(told.contains("1.0k") && !told.contains("700k") && !told.contains("90k"), "{told}");
        let told = said(&[on("loop", 90_000.0)]).join(" ");
        assert!(told.contains("90k"), "{told}");
    }

    #[test]
    fn an_emulated_disk_is_said_first() {
        let cells = [cell(Kind::GroupCommit, 8, 0, |c| c.emulated = true)];
        let clauses = conditions(&environment(), &summary::rows(&cells));
        assert!(clauses[0].starts_with("EMULATED disk"));
    }

    #[test]
    fn blocks_are_counted_and_few_are_indicative() {
        let of = |measured: u32, planned: u32| {
            let cells: Vec<Cell> = (0..measured)
                .map(|block| {
                    cell(Kind::None, 1, block, |c| {
                        c.validity = vec![check("a", Level::Pass, "", "")];
                    })
                })
                .collect();
            let mut manifest = manifest();
            manifest.blocks = planned;
            blocks(&manifest, &summary::rows(&cells))
        };
        assert_eq!(of(3, 3), "3 blocks (indicative)");
        assert_eq!(of(1, 3), "1 of 3 blocks (indicative)");
        assert_eq!(of(7, 7), "7 blocks");
    }
}
