//! What a run says, in sentences: each with its range, and with what speaks against it.

mod disks;

use std::collections::BTreeSet;

use crate::comparison;
use crate::format;
use crate::results::{
    Cell, DiskInfo, Environment, Kind, LeftOut, Level, Manifest, Outcome, Status,
};
use crate::statistics::FIRM_BLOCKS;
use crate::summary::{self, Extent, Figures, Loss, Row};

/// A sentence for each kind of strategy, or for several disks two on each and one that compares
/// them; one on how strategies compare if there are enough blocks, and one on what was asked, if
/// something was.
pub fn sentences(manifest: &Manifest, cells: &[Cell], rows: &[Row]) -> Vec<String> {
    let mut said = Vec::new();
    if cells.is_empty() {
        said.push(format!(
            "No cell was finished{}: there are no figures, only the plan and the machine.",
            outcome(manifest).map_or_else(String::new, |how| format!(" ({how})"))
        ));
    }
    said.extend(disks::sentences(cells, rows));
    let has_real = rows.iter().any(|row| row.not_hardware.word().is_none());
    let compared = comparison::comparisons(cells, manifest.gates());
    said.extend(comparison::sentence(&compared, has_real));
    if !cells.is_empty() {
        said.extend(summary::asked_sentence(rows, manifest.slo()));
    }
    said
}

/// What those sentences are to be read with: what is invalid, what was left out, what limits every
/// figure.
pub fn doubts(manifest: &Manifest, env: &Environment, cells: &[Cell], rows: &[Row]) -> Vec<String> {
    let mut said = Vec::new();
    if !cells.is_empty() {
        said.push(on_validity(manifest, cells, rows));
    }
    said.extend(left_out(manifest));
    let caveats = conditions(manifest, env, rows);
    if !caveats.is_empty() {
        said.push(format!("Read with it: {}.", caveats.join("; ")));
    }
    said
}

/// What limits every figure of the run, each in a clause; the first is the gravest.
pub fn conditions(manifest: &Manifest, env: &Environment, rows: &[Row]) -> Vec<String> {
    let mut clauses = Vec::new();
    clauses.extend(
        emulated(env, rows).map(|disk| format!("{disk}, which says nothing about real hardware")),
    );
    clauses.extend(simulated(env, rows).map(|disk| format!("{disk}, whose figures are a model's")));
    clauses
        .extend(in_memory(env, rows).map(|place| format!("{place}, where a power cut takes all")));
    match env.virtual_machine {
        // Nothing persists that is simulated.
        _ if env.disk.simulated => {}
        Some(true) => clauses.push("persistence not verifiable in a VM".to_owned()),
        Some(false) => {}
        None => clauses.push("a virtual machine or not: unknown".to_owned()),
    }
    clauses.extend(noise(manifest, rows));
    let absorbed = absorbed(rows);
    if !absorbed.is_empty() {
        clauses.push(format!(
            "page-cache absorbed: the dirty limit was not reached, not a sustained rate ({})",
            absorbed.join(", ")
        ));
    }
    clauses
}

/// `EMULATED disk`, with its name where there are others; `None` if there is none.
pub fn emulated(env: &Environment, rows: &[Row]) -> Option<String> {
    let names = names(env, rows, |row| row.not_hardware.emulated, |disk| disk.emulated)?;
    let names = if names.is_empty() { names } else { format!(" ({names})") };
    Some(format!("EMULATED disk{names}"))
}

/// `SIMULATED disk`, with its name where there are others; `None` if there is none.
pub fn simulated(env: &Environment, rows: &[Row]) -> Option<String> {
    let names = names(env, rows, |row| row.not_hardware.simulated, |disk| disk.simulated)?;
    let names = if names.is_empty() { names } else { format!(" ({names})") };
    Some(format!("SIMULATED disk{names}"))
}

/// `the file system lives in memory`, with the disk's name where there are others; `None` if none
/// does.
pub fn in_memory(env: &Environment, rows: &[Row]) -> Option<String> {
    let names = names(env, rows, |row| row.not_hardware.in_memory, |disk| disk.in_memory)?;
    let names = if names.is_empty() { names } else { format!(" of {names}") };
    Some(format!("the file system{names} lives in memory"))
}

/// The disks of which something is true: `None` if it is of none, and no name if it is of all.
fn names(
    env: &Environment,
    rows: &[Row],
    of_row: fn(&Row) -> bool,
    of_disk: fn(&DiskInfo) -> bool,
) -> Option<String> {
    let measured = rows.iter().map(|row| (row.disk.as_str(), of_row(row)));
    let there = env.disks.iter().map(|disk| (disk.name.as_str(), of_disk(&disk.info)));
    let (are, others): (BTreeSet<_>, BTreeSet<_>) =
        measured.chain(there).partition(|(_, is_so)| *is_so);
    let are: Vec<&str> = are.into_iter().map(|(name, _)| name).collect();
    match (are.is_empty(), others.is_empty()) {
        (true, _) => of_disk(&env.disk).then(String::new),
        (false, true) => Some(String::new()),
        (false, false) => Some(are.join(", ")),
    }
}

/// `36 %`; without all the digits of what no disk does.
fn percent(value: f64) -> String {
    if value < 10_000.0 { format!("{value:.0} %") } else { format!("{} %", format::count(value)) }
}

/// What does the same work in every block tells how noisy the machine was while everything else was
/// measured: the canaries of a block, or else the raw loop over the blocks, on the worst disk.
pub fn noise(manifest: &Manifest, rows: &[Row]) -> Option<String> {
    let most = f64::from(manifest.gates().noise_max_pct);
    if !manifest.noise.is_empty() {
        let flagged = || manifest.noise.iter().filter(|noise| noise.flagged);
        let worst = flagged().map(|noise| noise.spread_pct).reduce(f64::max)?;
        let mut blocks: Vec<u32> = flagged().map(|noise| noise.block).collect();
        blocks.sort_unstable();
        let numbers: Vec<String> = blocks.iter().map(u32::to_string).collect();
        return Some(format!(
            "noisy: in {} of {} (counted from 0: {}) canaries differed by more than {most:.0} %, \
             by up to {}, and so may the rest",
            blocks.len(),
            format::plural(manifest.noise.len(), "block"),
            numbers.join(", "),
            percent(worst)
        ));
    }
    let varied = |figures: &Figures| {
        let rate = figures.acked_per_s;
        100.0 * (rate.max - rate.min) / rate.median
    };
    let loops = rows.iter().filter(|row| row.kind == Kind::Raw);
    let loops = loops.filter_map(|row| Some((varied(row.figures.as_ref()?), row)));
    let (varied, row) = loops.max_by(|a, b| a.0.total_cmp(&b.0))?;
    let setting = &row.setting;
    let on = if setting.is_empty() { String::new() } else { format!(" ({setting})") };
    (varied > most).then(|| {
        format!(
            "noisy: the raw loop{on} varied by {} between blocks, and so may the rest",
            percent(varied)
        )
    })
}

/// What the plan lacks of what was asked for, each in a sentence.
pub fn left_out(manifest: &Manifest) -> Vec<String> {
    let mut said = Vec::new();
    if !manifest.trimmed.is_empty() {
        said.push(format!(
            "Left out to keep within {} s: {}.",
            manifest.budget_s,
            manifest.trimmed.join("; ")
        ));
    }
    let lacking = manifest.left_out.iter();
    said.extend(
        lacking.map(|LeftOut { what, why, how }| format!("Left out: {what} ({why}; {how}).")),
    );
    said
}

/// How the run ended if it is not whole: `interrupted after 5 of 39 cells`.
pub fn outcome(manifest: &Manifest) -> Option<String> {
    let word = match manifest.outcome {
        Outcome::Complete => return None,
        Outcome::Failed => "failed",
        Outcome::Interrupted => "interrupted",
        Outcome::Running => "not ended, or killed,",
        // What was trimmed is none of the plan: the rest of it is whole.
        Outcome::Trimmed if manifest.cells_done >= manifest.cells_planned => return None,
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

/// What the fastest of a kind reaches, and what a crash would take of it; the sentence begins with
/// `name`.
fn on_strategy(rows: &[&Row], kind: Kind, name: &str) -> Option<String> {
    let of_kind: Vec<&Row> = rows.iter().copied().filter(|row| row.kind == kind).collect();
    // One that kept up, if one did.
    let kept_up = |row: &Row| row.figures.is_some() && !row.is_overloaded();
    let fastest = of_kind
        .iter()
        .max_by(|a, b| kept_up(a).cmp(&kept_up(b)).then(rate(a).total_cmp(&rate(b))))?;
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
        sentence += &beside_raw(fastest, &figures, &of_kind);
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

/// What a row acknowledges a second; below all others without a figure.
fn rate(row: &Row) -> f64 {
    row.figures.map_or(f64::NEG_INFINITY, |figures| figures.acked_per_s.centre())
}

/// What synchronous flush reaches of what the disk allows, at its fastest and the same with one
/// producer.
fn beside_raw(fastest: &Row, figures: &Figures, rows: &[&Row]) -> String {
    let times = |figures: &Figures| {
        figures.ratio_to_raw.map(|ratio| {
            format!("{} times ({})", format::ratio(ratio.centre()), ratio.range(format::ratio))
        })
    };
    let Some(best) = times(figures) else {
        return ", with no valid raw loop to hold it against".to_owned();
    };
    let place =
        |row: &Row| [&row.strategy, &row.disk, &row.sysctl, &row.workload].map(Clone::clone);
    let is_alone =
        |row: &&&Row| row.producers == 1 && fastest.producers != 1 && place(row) == place(fastest);
    let alone = rows.iter().find(is_alone).and_then(|row| row.figures.as_ref()).and_then(times);
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
    let overloaded = match with(Status::Overload) {
        0 => String::new(),
        some => format!("{some} overloaded, "),
    };
    let left_out = if invalid == 0 {
        "none is invalid".to_owned()
    } else {
        format!("{invalid} invalid and left out")
    };
    let ended = outcome(manifest).map_or_else(String::new, |how| format!("The run {how}. "));
    format!(
        "{ended}Of {}, {left_out}, {overloaded}{warned} with warnings; {}.",
        format::plural(cells.len(), "cell"),
        standing(manifest, rows)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Gates, Slo};
    use crate::results::BlockNoise;
    use crate::results_fixture::{
        cell, check, environment, example, example_of, manifest, troubled,
    };

    fn said(cells: &[Cell]) -> Vec<String> {
        said_of(&manifest(), cells)
    }

    /// The sentences, and then the doubts.
    fn said_of(manifest: &Manifest, cells: &[Cell]) -> Vec<String> {
        let rows = summary::rows(cells);
        let mut said = sentences(manifest, cells, &rows);
        said.extend(doubts(manifest, &environment(), cells, &rows));
        said
    }

    #[test]
    fn a_verdict_has_five_sentences_at_most() {
        let time = |ms| Some(std::time::Duration::from_millis(ms));
        let slo = Some(Slo { ack_p99: time(10), power_loss_rpo: time(700) });
        let (cells, mine) = (example_of(7), Manifest { slo, blocks: 7, ..manifest() });
        let told = sentences(&mine, &cells, &summary::rows(&cells));
        assert_eq!(told.len(), 5, "three strategies, how they compare, what was asked: {told:?}");
    }

    #[test]
    fn a_whole_run_is_told_in_three_sentences_and_two_doubts() {
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
        let told = said_of(&mine, &cells);
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
        let told = said_of(&mine, &cells);
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
        let said = sentences(&manifest, &[], &[]);
        assert!(said[0].starts_with("No cell was finished (interrupted after 0 of 39 cells)"));
    }

    #[test]
    fn the_verdict_is_about_real_hardware_where_there_is_any() {
        let on = |disk: &'static str, per_s: f64| {
            cell(Kind::GroupCommit, 8, 0, move |c| {
                (c.disk, c.acked_per_s) = (disk.to_owned(), per_s);
                c.emulated = disk == "loop";
                if disk == "tmpfs" {
                    c.validity.push(check("in_memory", Level::Label, "tmpfs", "on a disk"));
                }
            })
        };
        let cells = [on("host", 1000.0), on("loop", 90_000.0), on("tmpfs", 700_000.0)];
        let told = said(&cells).join(" ");
        assert!(told.contains("EMULATED disk (loop), which says nothing"), "{told}");
        assert!(told.contains("the file system of tmpfs lives in memory, where"), "{told}");
        let told = said(&cells[2..]).join(" ");
        assert!(told.contains("the file system lives in memory"), "{told}");
        let told = said(&cells).join(" ");
        assert!(told.contains("1.0k") && !told.contains("700k") && !told.contains("90k"), "{told}");
        let told = said(&cells[1..2]).join(" ");
        assert!(told.contains("90k") && told.contains("EMULATED disk, which"), "{told}");
        assert!(!told.contains("in memory"), "{told}");
    }

    #[test]
    fn an_emulated_disk_is_said_first() {
        let cells = [cell(Kind::GroupCommit, 8, 0, |c| c.emulated = true)];
        let clauses = conditions(&manifest(), &environment(), &summary::rows(&cells));
        assert!(clauses[0].starts_with("EMULATED disk"));
    }

    #[test]
    fn one_producer_is_of_the_same_strategy_and_setting() {
        let of = |strategy: &str, disk: &str, producers, per_s: f64| {
            cell(Kind::GroupCommit, producers, 0, |c| {
                (c.strategy, c.disk) = (strategy.to_owned(), disk.to_owned());
                c.acked_per_s = per_s;
            })
        };
        let raw = |disk: &str| cell(Kind::Raw, 1, 0, |c| c.disk = disk.to_owned());
        let mut cells = vec![
            raw("a"),
            raw("b"),
            of("sync", "a", 1, 910.0),
            of("sync", "b", 64, 91_000.0),
            of("another", "b", 1, 1820.0),
        ];
        // On disk a one producer is the fastest, and on b only another strategy ran with one.
        let told = said(&cells);
        assert!(told[0].starts_with("On disk a, ") && !told[0].contains("with 1"), "{told:?}");
        let told = &told[1];
        assert!(told.starts_with("On disk b, ") && told.contains("(sync ×64)"), "{told}");
        assert!(!told.contains("with 1 producer"), "{told}");
        let rate = cells[1].acked_per_s;
        cells.push(of("sync", "b", 1, rate / 2.0));
        let told = said(&cells).remove(1);
        assert!(told.contains("; with 1 producer 0.50 times"), "{told}");
    }

    #[test]
    fn noise_is_what_canaries_say_or_else_the_worst_raw_loop() {
        let raw = |disk: &str, block, per_s: f64| {
            let disk = disk.to_owned();
            cell(Kind::Raw, 1, block, |c| (c.disk, c.acked_per_s) = (disk, per_s))
        };
        let mut cells = vec![raw("a", 0, 100.0), raw("a", 1, 100.0)];
        cells.extend([raw("b", 0, 90.0), raw("b", 1, 130.0)]);
        let rows = summary::rows(&cells);
        let mut mine = manifest();
        let worst = "noisy: the raw loop (b) varied by 36 % between blocks, and so may the rest";
        assert_eq!(noise(&mine, &rows).as_deref(), Some(worst));
        mine.gates = Some(Gates { noise_max_pct: 40, ..Gates::default() });
        assert_eq!(noise(&mine, &rows), None, "the profile allows it");
        mine.gates = Some(Gates { noise_max_pct: 20, ..Gates::default() });
        assert!(noise(&mine, &rows).is_some());
        let of_block =
            |(block, spread_pct)| BlockNoise { block, spread_pct, flagged: spread_pct > 20.0 };
        mine.noise = [(0, 3.0), (1, 25.0), (2, 20.0), (3, 44.4)].map(of_block).to_vec();
        let found = "noisy: in 2 of 4 blocks (counted from 0: 1, 3) canaries differed by more than \
                     20 %, by up to 44 %, and so may the rest";
        assert_eq!(noise(&mine, &rows).as_deref(), Some(found));
        mine.noise.retain(|noise| !noise.flagged);
        assert_eq!(noise(&mine, &rows), None, "what canaries say holds");
    }

    #[test]
    fn the_fastest_is_one_that_kept_up() {
        let mut cells = example();
        for cell in cells.iter_mut().filter(|cell| cell.strategy == "sync") {
            if cell.producers == 64 {
                cell.status = Status::Overload;
            }
        }
        assert!(said(&cells)[0].contains("(sync ×8)"), "{}", said(&cells)[0]);
        for cell in cells.iter_mut().filter(|cell| cell.strategy == "sync") {
            cell.status = Status::Overload;
        }
        assert!(said(&cells)[0].contains("(sync ×64)"), "none did");
    }

    #[test]
    fn what_is_overloaded_is_counted() {
        let mut cells = example();
        for cell in cells.iter_mut().filter(|cell| cell.strategy == "sync" && cell.block == 0) {
            cell.status = Status::Overload;
        }
        let told = said(&cells);
        let on_validity = "Of 39 cells, none is invalid, 3 overloaded, 0 with warnings; ";
        assert!(told[3].starts_with(on_validity), "{}", told[3]);
    }

    #[test]
    fn what_was_left_out_is_said() {
        assert!(left_out(&manifest()).is_empty());
        let (cells, mut mine) = (example(), manifest());
        mine.outcome = Outcome::Trimmed;
        mine.trimmed = vec!["3 of 7 blocks".to_owned(), "workload a: not with 8".to_owned()];
        let lacks = ["disk hdd", "no /dev/fuse", "run it as root"].map(str::to_owned);
        let [what, why, how] = lacks;
        mine.left_out.push(LeftOut { what, why, how });
        let told = said_of(&mine, &cells);
        let trimmed = "Left out to keep within 110 s: 3 of 7 blocks; workload a: not with 8.";
        let lacking = "Left out: disk hdd (no /dev/fuse; run it as root).";
        assert_eq!(told[4..6], [trimmed, lacking], "{told:?}");
        assert!(told[3].starts_with("Of 39 cells"), "what was planned is whole: {}", told[3]);
        mine.cells_done = 26;
        assert!(outcome(&mine).unwrap().starts_with("ended by the time allowed after 26 of 39"));
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
