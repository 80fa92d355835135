//! A comparison on a terminal.

use super::{Compare, Compared};
use crate::comparison::{Measure, Word};
use crate::format;
use crate::table::wrapped;

/// What was found, no line of it wider than `width` columns; without colours and control
/// characters, whatever the results contain.
pub fn text(found: &Compare, width: usize) -> String {
    let mut lines = Vec::new();
    lines.extend(wrapped(&found.a, "A ", width));
    lines.extend(wrapped(&found.b, "B ", width));
    lines.extend(differences(found, width));
    let (controls, rows): (Vec<&Compared>, Vec<&Compared>) =
        found.rows.iter().partition(|row| row.control);
    lines.push(String::new());
    lines.push("B against A: the ratio B/A with its 95 % interval".to_owned());
    lines.push("-".repeat(width));
    lines.extend(told(&rows, width));
    if !controls.is_empty() {
        lines.push(String::new());
        lines.push(
            "Controls: the raw loop and canaries tell of the machine, not of a log".to_owned(),
        );
        lines.push("-".repeat(width));
        lines.extend(told(&controls, width));
    }
    lines.push(String::new());
    lines.extend(wrapped(&summed_up(&rows), "", width));
    if controls.iter().any(|row| matches!(row.word, Word::Faster | Word::Slower)) {
        let said = "a control differs: the machine or its disk was another one, or in another \
                    state, and the rows may differ for that reason alone";
        lines.extend(wrapped(said, "! ", width));
    }
    lines.extend(beyond(found, width));
    for (name, only) in [("A", &found.only_a), ("B", &found.only_b)] {
        if let Some(first) = only.first() {
            let said =
                format!("{} only in {name}, such as {first}", format::plural(only.len(), "row"));
            lines.extend(wrapped(&said, "", width));
        }
    }
    let clipped = lines.iter().map(|line| format::clipped(line.trim_end(), width) + "\n");
    clipped.collect()
}

/// What no ratio says.
fn beyond(found: &Compare, width: usize) -> Vec<String> {
    let overloaded = found.overloaded.iter().map(|one| ("worse", one));
    let hidden = found.hidden.iter().map(|one| ("cannot be told", one));
    let lines = overloaded.chain(hidden).flat_map(|(word, one)| {
        let row = format::clipped(&one.row, 100);
        wrapped(&format!("{word}: {row}: {}", one.said), "! ", width)
    });
    lines.collect()
}

/// What differs besides the figures.
fn differences(found: &Compare, width: usize) -> Vec<String> {
    if found.differ.is_empty() {
        return vec!["Machine, disk, kernel, program and profile are the same.".to_owned()];
    }
    let names: Vec<&str> = found.differ.iter().map(|one| &*one.what).collect();
    let mut lines = wrapped(&format!("DIFFERENT IN THE TWO: {}", names.join(", ")), "! ", width);
    for one in &found.differ {
        let [a, b] = [&one.a, &one.b].map(|value| format::clipped(value, MOST_SHOWN));
        lines.extend(wrapped(&format!("{}: {a} → {b}", one.what), "  ", width));
    }
    if names.len() > 1 {
        let said = "which of these makes a difference in the figures cannot be told from them";
        lines.extend(wrapped(said, "! ", width));
    }
    lines
}

/// A line for what the row is, one for each measure, and the reasons why nothing can be told.
fn told(rows: &[&Compared], width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut last = None;
    for (nth, row) in rows.iter().enumerate() {
        if last.replace(&row.key) != Some(&row.key) {
            lines.push(format::clipped(&row.key.label(), width));
        }
        lines.push(figures(row));
        // What is said of the next one too is said once.
        let next =
            rows.get(nth + 1).filter(|next| next.key == row.key && next.reason == row.reason);
        if let Some(reason) = row.reason.as_ref().filter(|_| next.is_none()) {
            lines.extend(wrapped(&format!("          {reason}"), "", width));
        }
    }
    lines
}

fn figures(row: &Compared) -> String {
    let shown = |value: Option<f64>| match (value, row.measure) {
        (None, _) => "–".to_owned(),
        (Some(value), Measure::AckedPerS) => format::count(value),
        (Some(value), Measure::AckNsP99) => format::duration(value),
    };
    let ratio = row.ratio.map_or_else(|| "–".to_owned(), format::ratio);
    let interval = match row.ratio_low.zip(row.ratio_high) {
        Some((low, high)) => format!("[{}–{}]", format::ratio(low), format::ratio(high)),
        None => String::new(),
    };
    let word = match row.detectable_pct {
        Some(pct) => format!("no difference above {pct:.0} %"),
        None => row.word.words().to_owned(),
    };
    let (a, b) = (shown(row.a), shown(row.b));
    format!("  {:<8}{a:>8} → {b:<8}{ratio:>6} {interval:<13} {word}", row.measure.words())
}

/// How many of each word there are.
fn summed_up(rows: &[&Compared]) -> String {
    let with = |word| rows.iter().filter(|row| row.word == word).count();
    let counts = [Word::Faster, Word::Slower, Word::NoDifference, Word::Inconclusive]
        .map(|word| format!("{} {}", with(word), word.words()));
    format!(
        "Of {}: {}. A difference is told beyond chance (Welch's t, Holm for all rows of a \
         measure) and beyond what the profile and canaries make count.",
        format::plural(rows.len(), "comparison"),
        counts.join(", ")
    )
}

/// A longer value of what differs is cut.
const MOST_SHOWN: usize = 60;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::compare;
    use crate::compare::tests::run;
    use crate::results::Status;
    use crate::results_fixture::HOSTILE;

    #[test]
    fn every_row_has_its_word_and_fits() {
        let (a, mut b) = (run("a", 7, 1.0), run("b", 7, 0.67));
        b.environment.kernel = HOSTILE.to_owned();
        let told = text(&compare(&a, &b).unwrap(), 80);
        assert!(told.lines().all(|line| line.chars().count() <= 80), "{told}");
        assert!(!told.contains('\u{1b}') && !told.contains('\0'));
        assert!(told.contains("DIFFERENT IN THE TWO: kernel"), "{told}");
        let line = "  msg/s       1.0k → 690       0.67 [0.65–0.69]   slower";
        assert!(told.lines().any(|found| found == line), "{told}");
        assert!(told.contains("Of 4 comparisons: 0 faster, 2 slower, 2 no difference, 0 incon"));
        assert!(told.contains("! a control differs"), "{told}");
    }

    #[test]
    fn what_no_ratio_says_is_said() {
        let (a, mut b) = (run("a", 7, 1.0), run("b", 7, 1.0));
        b.cells.retain(|cell| cell.strategy != "timed");
        b.cells.iter_mut().for_each(|cell| cell.status = Status::Overload);
        b.cells[0].strategy += HOSTILE;
        let told = text(&compare(&a, &b).unwrap(), 80);
        assert!(told.lines().all(|line| line.chars().count() <= 80), "{told}");
        let flat = told.split_whitespace().collect::<Vec<_>>().join(" ").replace(" ! ", " ");
        for part in [
            "worse: sync ×8 (closed-1k, data, kernel-default): overloaded in 7 of 7 blocks of B,",
            "cannot be told: timed ×8 (closed-1k, data, kernel-default): B does not have it",
        ] {
            assert!(flat.contains(part), "{part:?} in {flat}");
        }
    }

    #[test]
    fn what_is_inconclusive_says_why_and_what_is_alone_is_named() {
        let (a, mut b) = (run("a", 3, 1.0), run("b", 3, 1.0));
        b.cells.retain(|cell| cell.strategy != "timed");
        let told = text(&compare(&a, &b).unwrap(), 80);
        assert!(told.contains("Machine, disk, kernel, program and profile are the same."));
        assert!(
            told.contains("          few blocks: 3 of A, 3 of B; six of each are needed"),
            "{told}"
        );
        assert!(told.contains("1 row only in A, such as timed ×8"), "{told}");
    }
}
