//! What power cuts found, on a terminal of 80 columns: what was at risk and lost, what the cuts
//! met, what to know of it.

use comfy_table::Table;

use super::results::{Case, PlaceKind, PowerCuts, Verdict};
use super::words;
use crate::clock::float;
use crate::format;
use crate::results::Spread;
use crate::table::{ruled, wrapped};

/// The tables of a run, whole or not, no line of them wider than 80 columns.
///
/// There are no colours and no control characters, whatever the results contain.
pub fn text(run: &PowerCuts) -> String {
    let mut lines = wrapped(&words::place(&run.place), "", WIDTH);
    lines.extend(wrapped(&words::run(run), "", WIDTH));
    lines.push(String::new());
    if run.cases.is_empty() {
        lines.push("No cut was made: there is nothing to show.".to_owned());
    } else {
        lines.extend(narrowed(&run.cases, losses));
        lines.push(String::new());
        lines.extend(narrowed(&run.cases, findings));
    }
    lines.push(String::new());
    for (mark, note) in footnotes(run) {
        lines.extend(wrapped(&note, mark, WIDTH));
    }
    let mut out = String::new();
    for line in lines {
        out.push_str(&format::clipped(line.trim_end(), WIDTH));
        out.push('\n');
    }
    out
}

/// A table in the widest form that fits; its arguments are the width of names and the gap between
/// columns.
fn narrowed(cases: &[Case], table: fn(&[Case], usize, u16) -> Table) -> Vec<String> {
    let longest = cases.iter().map(|case| case.case.chars().count()).max().unwrap_or(0);
    let mut tries = vec![(longest, 2)];
    tries.extend((6..=longest).rev().map(|name| (name, 1)));
    let mut lines = Vec::new();
    for (name, gap) in tries {
        lines = ruled(table(cases, name, gap), 2, gap);
        if lines.iter().all(|line| line.trim_end().chars().count() <= WIDTH) {
            break;
        }
    }
    lines
}

/// What was at risk, and what was lost: times above, messages below.
fn losses(cases: &[Case], name: usize, _gap: u16) -> Table {
    let mut table = Table::new();
    table.set_header([
        "\nstrategy",
        "promised\nat most",
        "at risk\nmean",
        "over time\np99",
        "\nmax",
        "lost in\nmean",
        "the cuts\np99",
        "\nmax",
        "\nagree",
    ]);
    for case in cases {
        let (risk, lost) = (&case.gauge, &case.observed);
        let few = if lost.cuts < FEW { "~" } else { "" };
        let mut row = vec![
            format!("{}\n  {}", format::clipped(&case.case, name), words::load(case)),
            promised(case),
        ];
        row.extend(figures(&risk.age_ns, &risk.messages, ""));
        row.extend(figures(&lost.lost_age_ns, &lost.lost_messages, few));
        row.push(format!("{}\n{}", agree(case.agreement.verdict), words::furthest(case)));
        table.add_row(row);
    }
    table
}

fn promised(case: &Case) -> String {
    let doubt = if case.bound.held { "" } else { " ?" };
    format!("{}{doubt}", format::duration(float(case.bound.age_ns)))
}

/// Mean, p99 and greatest, each a time above and messages below; 0 for both where there is none.
fn figures(ages: &Spread, messages: &Spread, mark: &str) -> [String; 3] {
    let cell = |age: f64, messages: f64, mark: &str| {
        if age <= 0.0 && messages <= 0.0 {
            return "0".to_owned();
        }
        format!("{mark}{}\n{}", format::duration(age), format::count(messages))
    };
    [
        cell(ages.mean, messages.mean, ""),
        cell(float(ages.p99), float(messages.p99), mark),
        cell(float(ages.max), float(messages.max), ""),
    ]
}

fn agree(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::AboveGauge => "ABOVE",
        Verdict::Agrees => "yes",
        Verdict::Disagrees => "no",
        Verdict::NothingAtRisk => "–",
        Verdict::TooFewCuts => "few",
    }
}

/// What the cuts met.
fn findings(cases: &[Case], name: usize, _gap: u16) -> Table {
    let mut table = Table::new();
    table.set_header([
        "\nstrategy",
        "cuts\nmade",
        "\nchecked",
        "promise\nbroken",
        "so at most\n(at 95 %)",
        "torn\ntails",
        "not\nmounted",
        "log\nrefused",
    ]);
    for case in cases {
        let observed = &case.observed;
        table.add_row([
            format::clipped(&case.case, name),
            observed.cuts.to_string(),
            observed.checked.to_string(),
            observed.violated.to_string(),
            observed.violated_at_most.map_or_else(|| "–".to_owned(), words::percent),
            observed.torn_tails.to_string(),
            observed.unmountable.to_string(),
            observed.refused_opens.to_string(),
        ]);
    }
    table
}

/// What to know of the figures, each with the mark that points to it.
fn footnotes(run: &PowerCuts) -> Vec<(&'static str, String)> {
    let mut notes = Vec::new();
    let mut note = |mark, text: &str| notes.push((mark, text.to_owned()));
    if let Some(fallback) = &run.place.fallback {
        note("", &format!("not emulated: {fallback}"));
    }
    note("", words::standing(run.place.kind));
    if run.cases.is_empty() {
        return notes;
    }
    for line in words::AT_RISK_AND_LOST {
        note("", line);
    }
    let verdicts = || run.cases.iter().map(|case| case.agreement.verdict);
    if verdicts().any(|verdict| verdict == Verdict::TooFewCuts) {
        note("", "few: so many cuts can miss by that much; make more with --cuts");
    }
    if run.cases.iter().any(|case| case.observed.cuts < FEW) {
        note("~", "of fewer than 100 cuts, so no more than about their greatest");
    }
    for case in &run.cases {
        if !case.bound.held {
            note("?", &words::not_held(case));
        }
        for violation in case.observed.violations.iter().take(3) {
            note("!", &format!("{}: {}", case.case, format::clipped(violation, 200)));
        }
        if case.observed.above_gauge > 0 {
            note("!", &words::above(case));
        }
    }
    notes
}

/// The width of the terminal that is always there.
const WIDTH: usize = 80;
/// Fewer cuts have no firm p99.
const FEW: u32 = 100;

impl PlaceKind {
    /// The word that stands on everything that is shown of it.
    pub fn label(self) -> &'static str {
        match self {
            Self::Emulated => "EMULATED",
            Self::Simulated => "SIMULATED",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::powercut::results_fixture;
    use crate::results_fixture::{HOSTILE, assert_fits};

    #[track_caller]
    fn shown(run: &PowerCuts) -> String {
        let text = text(run);
        assert_fits(&text, WIDTH);
        text
    }

    #[test]
    fn every_figure_fits_80_columns_and_the_place_stands_first() {
        let text = shown(&results_fixture::run());
        assert!(text.starts_with("EMULATED disk: "), "{text}");
        for part in ["timed 50 ms", "timed 500 ms", "staged 50 ms", "10k/s", "×4", "  yes", "1.6 %"]
        {
            assert!(text.contains(part), "{part:?} in\n{text}");
        }
        assert!(!text.contains('…'), "{text}");
    }

    #[test]
    fn what_went_wrong_is_said() {
        let text = shown(&results_fixture::troubled("x"));
        for part in [
            "SIMULATED",
            "not emulated: no /dev/fuse x",
            "interrupted",
            "ABOVE",
            "! timed 50 ms: message 7 is lost x",
            "? timed 50 ms",
            "~",
        ] {
            assert!(text.contains(part), "{part:?} in\n{text}");
        }
    }

    #[test]
    fn hostile_strings_and_greatest_figures_stay_in_their_place() {
        shown(&results_fixture::troubled(HOSTILE));
        let mut run = results_fixture::run();
        let most = Spread { mean: 1e18, p50: u64::MAX, p99: u64::MAX, max: u64::MAX };
        for case in &mut run.cases {
            case.case = "a name that is longer than any".to_owned();
            case.gauge.age_ns = most;
            case.gauge.messages = most;
            case.observed.lost_age_ns = most;
            case.observed.lost_messages = most;
            case.bound.age_ns = u64::MAX;
        }
        shown(&run);
        run.cases.clear();
        assert!(shown(&run).contains("No cut was made"));
    }
}
