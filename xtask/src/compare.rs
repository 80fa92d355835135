//! `cargo xtask compare`: two results, row by row.

use std::path::PathBuf;

use anyhow::{Context, Result};
use harness::compare::{self, Compare};
use harness::recorded::Recorded;

use crate::{exit, say};

/// Say of each row of two results whether B is faster or slower than A, or that it cannot be told
///
/// Rows meet by disk, kernel settings, workload, strategy and producers; compared are messages a
/// second and the time to acknowledgement of 99 of 100. B is said to differ beyond chance alone
/// (Welch's t of the logarithms, corrected for the number of rows), if by more than the profile's
/// gate and by more than canaries differed from themselves. With fewer than six valid blocks of
/// either, nothing is said. What else differs between the two, such as machine, kernel or
/// revision, is named first.
///
/// Some of what is worse has no figures to compare. A row that is overloaded in most blocks of B
/// and in none of A counts as slower, whatever its rate. Of a row that only A has, that is invalid
/// or overloaded in more of B, or of which B has fewer than six blocks where A has them, it cannot
/// be told.
///
/// Exit codes: 0 ok, 1 wrong command or directory, or no row in common; 2 with --fail-over, if of
/// no row anything can be told, or it cannot be told of a row for one of the reasons above; 4 with
/// --fail-over, if a row of B is slower by more than that, or overloaded.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The result directory of what was before
    #[arg(value_name = "A")]
    a: PathBuf,
    /// The result directory of which something is said
    #[arg(value_name = "B")]
    b: PathBuf,
    /// Exit with 4 if a row is told to be slower by more than so many percent, or is overloaded;
    /// and with 2 if B lacks what it takes to tell
    #[arg(long, value_name = "PCT", value_parser = percent)]
    fail_over: Option<f64>,
    /// Print JSON (flushmark.compare/1.0) in place of text
    #[arg(long)]
    json: bool,
}

/// A share of a whole that is not below zero.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim_end_matches('%').trim_end().parse::<f64>();
    let usable = number.ok().filter(|value| (0.0..=10_000.0).contains(value));
    usable.ok_or_else(|| "a number of percent from 0 to 10000 is expected".to_owned())
}

pub(crate) fn run(arguments: &Arguments) -> Result<u8> {
    let [a, b] = [&arguments.a, &arguments.b].map(|path| Recorded::read(path));
    let found = compare::compare(&a?, &b?)?;
    if arguments.json {
        let json = serde_json::to_string_pretty(&found).context("write the comparison as JSON")?;
        say::out(&format!("{json}\n"))?;
    } else {
        say::out(&compare::text(&found, COLUMNS))?;
    }
    Ok(arguments.fail_over.map_or(exit::OK, |over| judged(&found, over)))
}

/// Says what speaks against B, on stderr, and answers with the exit code.
fn judged(found: &Compare, over: f64) -> u8 {
    let said = |row: &str| harness::format::clipped(row, 100);
    let regressions = found.regressions(over);
    for row in &regressions {
        let worse = row.worse_pct().unwrap_or_default();
        let label = said(&row.key.label());
        say!("regression: {label}: {} worse by {worse:.0} %", row.measure.words());
    }
    for one in &found.overloaded {
        say!("regression: {}: {}", said(&one.row), one.said);
    }
    for one in &found.hidden {
        say!("cannot be told: {}: {}", said(&one.row), one.said);
    }
    if !(regressions.is_empty() && found.overloaded.is_empty()) {
        return exit::REGRESSION;
    }
    if !found.tells_anything() {
        say!("error: of no row anything can be told, so there may be a regression all the same;");
        say!("measure both with at least six blocks, and see the reasons above");
        return exit::INVALID;
    }
    if !found.hidden.is_empty() {
        say!("error: B lacks what it takes to tell of every row that A has; see above");
        return exit::INVALID;
    }
    exit::OK
}

/// The text fits a terminal of this width.
const COLUMNS: usize = 80;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_a_number_with_or_without_its_sign() {
        assert_eq!(percent("5"), Ok(5.0));
        assert_eq!(percent("2.5%"), Ok(2.5));
        assert_eq!(percent("10 %"), Ok(10.0));
        for wrong in ["", "%", "-1", "x", "nan", "inf", "1e9"] {
            assert!(percent(wrong).is_err(), "{wrong}");
        }
    }
}
