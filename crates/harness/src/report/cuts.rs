//! The report of power cuts: one HTML file that needs nothing else, as [`super::html`] makes one.

use super::html::{Datum, Table};
use super::{checkout, command, facts, foot, head, plate, revision, section, system_facts};
use crate::chart;
use crate::clock::float;
use crate::format;
use crate::powercut::results::{Case, PlaceKind, PowerCuts};
use crate::powercut::words;
use crate::results::{Environment, Spread};

/// The report of a run, whole or not: what it came to, chart, tables, machine, method.
///
/// The same results give the same bytes; every string of theirs is escaped.
///
/// # Errors
///
/// If the chart cannot be drawn, see [`chart::cuts::losses`].
pub fn html(run: &PowerCuts, env: &Environment) -> anyhow::Result<String> {
    let mut page = head(&run.run);
    page += &opening(run);
    if !run.cases.is_empty() {
        let svg = chart::cuts::losses(run, env)?;
        page += &section("At risk and lost", &plate(&svg, &at_risk_and_lost(&run.cases)));
        page += &section("What the cuts met", &met(&run.cases));
        page += &section("Bounds", &bounds(&run.cases));
    }
    let place = vec![
        ("disk", format!("{}: {}", run.place.kind.label(), run.place.disk)),
        ("file system", run.place.file_system.clone().unwrap_or_else(|| "none".to_owned())),
        ("why not emulated", run.place.fallback.clone().unwrap_or_else(|| "–".to_owned())),
    ];
    let checkout = checkout(run.origin.revision.as_ref(), run.origin.dirty);
    let machine = facts(&[
        ("Disk", place),
        ("System and program", system_facts(env, &run.origin.version, checkout)),
    ]);
    page += &section("Machine", &machine);
    page += &section("Definitions and method", include_str!("cuts.html"));
    page += &section("Reproduce", &reproduce(run));
    Ok(page + &foot())
}

/// The question, when and where it was asked, and the answer for each case.
fn opening(run: &PowerCuts) -> String {
    let mut out = format!(
        "<h1>What power cuts took</h1>\n<p class=\"meta\">{} · run {}</p>\n\
         <p class=\"emulated\">{}.</p>\n<div class=\"verdict\"><ul>\n",
        format::escaped(&words::run(run)),
        format::escaped(&run.run),
        format::escaped(words::standing(run.place.kind))
    );
    let mut sentences: Vec<String> = run.cases.iter().map(words::sentence).collect();
    sentences.extend(run.cases.iter().filter(|case| !case.bound.held).map(words::not_held));
    if sentences.is_empty() {
        sentences.push("No cut was made: there are no figures, only the machine.".to_owned());
    }
    let item = |sentence: &String| format!("<li>{}</li>\n", format::escaped(sentence));
    out.extend(sentences.iter().map(item));
    out + "</ul></div>\n"
}

/// The figures of the chart, and the same as ages.
fn at_risk_and_lost(cases: &[Case]) -> String {
    let row = |case: &Case| {
        let (risk, lost) = (&case.gauge, &case.observed);
        let mut data = vec![Datum::text(&case.case), Datum::text(words::load(case))];
        data.extend(messages(&risk.messages));
        data.extend(messages(&lost.lost_messages));
        data.extend(messages(&lost.at_risk_messages));
        let (mean, p99) = (case.agreement.mean_ratio, case.agreement.p99_ratio);
        data.extend([mean, p99].map(|ratio| Datum::maybe(ratio, format::ratio)));
        data.push(Datum::maybe(case.agreement.mean_uncertain, |share| {
            format!("± {}", words::percent(share))
        }));
        data.extend(ages(&risk.age_ns));
        data.extend(ages(&lost.lost_age_ns));
        data
    };
    Table {
        caption: "Acknowledged messages at risk over time, lost in the cuts, and the ages of the \
                  oldest",
        heads: &[
            "case",
            "load",
            "at risk: mean",
            "at risk: p99",
            "at risk: max",
            "lost: mean",
            "lost: p99",
            "lost: max",
            "at risk at the cuts: mean",
            "at risk at the cuts: p99",
            "at risk at the cuts: max",
            "lost / at risk: mean",
            "lost / at risk: p99",
            "mean uncertain by",
            "age at risk: mean",
            "age at risk: p99",
            "age at risk: max",
            "age lost: mean",
            "age lost: p99",
            "age lost: max",
        ],
        rows: cases.iter().map(row).collect(),
        sortable: true,
    }
    .html()
}

fn messages(spread: &Spread) -> [Datum; 3] {
    [spread.mean, float(spread.p99), float(spread.max)]
        .map(|count| Datum::number(count, format::count))
}

fn ages(spread: &Spread) -> [Datum; 3] {
    [spread.mean, float(spread.p99), float(spread.max)]
        .map(|ns| Datum::number(ns, format::duration))
}

/// Cuts, states, and what was wrong with them.
fn met(cases: &[Case]) -> String {
    let row = |case: &Case| {
        let observed = &case.observed;
        let bad = |count: u32| {
            let class = if count > 0 { "invalid" } else { "n" };
            Datum::count(count.into()).class(class)
        };
        vec![
            Datum::text(&case.case),
            Datum::count(observed.cuts.into()),
            Datum::count(observed.checked.into()),
            Datum::count(observed.states.into()),
            bad(observed.violated),
            Datum::maybe(observed.violated_at_most, words::percent),
            bad(observed.above_gauge),
            Datum::count(observed.torn_tails.into()),
            bad(observed.unmountable),
            bad(observed.refused_opens),
        ]
    };
    let table = Table {
        caption: "Cuts, the states they left, and what was found in them",
        heads: &[
            "case",
            "cuts",
            "cuts checked",
            "states",
            "cuts that broke a promise",
            "at most, at 95 %",
            "states that lost more than was at risk",
            "torn tails",
            "not mountable",
            "log refused to open",
        ],
        rows: cases.iter().map(row).collect(),
        sortable: true,
    };
    let named = cases.iter().flat_map(|case| {
        case.observed.violations.iter().map(move |violation| {
            format!("<li>{}: {}</li>\n", format::escaped(&case.case), format::escaped(violation))
        })
    });
    let named: String = named.collect();
    let list = if named.is_empty() { named } else { format!("<ul>\n{named}</ul>\n") };
    format!("<div class=\"figures\">\n{}</div>\n{list}", table.html())
}

/// What each case promises, and what that is made of.
fn bounds(cases: &[Case]) -> String {
    let time = |ns: u64| Datum::number(float(ns), format::duration);
    let row = |case: &Case| {
        let bound = &case.bound;
        let span = |ns: Option<u64>| Datum::maybe(ns.map(float), format::duration);
        let (word, class) = if bound.held { ("yes", "pass") } else { ("no", "invalid") };
        vec![
            Datum::text(&case.case),
            time(bound.age_ns),
            span(case.interval_ns),
            span(case.commit_ns),
            time(bound.longest_sync_ns),
            time(bound.longest_commit_ns),
            time(case.gauge.age_ns.max),
            time(bound.late_ns),
            Datum::text(word).class(class),
        ]
    };
    let table = Table {
        caption: "The age of what is lost at most, and the oldest that was at risk",
        heads: &[
            "case",
            "promised at most",
            "flush interval",
            "staged at most",
            "longest sync",
            "longest commit",
            "oldest at risk",
            "flush lane late by at most",
            "held",
        ],
        rows: cases.iter().map(row).collect(),
        sortable: true,
    };
    format!("<div class=\"figures\">\n{}</div>\n", table.html())
}

fn reproduce(run: &PowerCuts) -> String {
    format!(
        "{}<p class=\"note\">{}; seed {}. The messages, the moments of the cuts within their \
         windows and what each keeps are the same again; {}.</p>\n",
        command(&run.origin.command),
        revision(run.origin.revision.as_ref(), run.origin.dirty),
        run.seed,
        match run.place.kind {
            PlaceKind::Emulated => "what the kernel does meanwhile is not",
            PlaceKind::Simulated => "so is everything else",
        }
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::powercut::results_fixture::{run, troubled};
    use crate::results_fixture::{
        HOSTILE, assert_closed, assert_columns_named, assert_nothing_fetched, environment,
    };

    fn page(run: &PowerCuts) -> String {
        html(run, &environment()).unwrap()
    }

    #[test]
    fn the_page_holds_every_part_and_says_what_the_disk_is() {
        let page = page(&run());
        assert_closed(&page);
        for part in [
            "<p class=\"emulated\">EMULATED disk under a real file system",
            "aria-labelledby=\"cuts-title cuts-desc\"",
            "<h2 id=\"at-risk-and-lost\">",
            "<h2 id=\"what-the-cuts-met\">",
            "<h2 id=\"bounds\">",
            "sync: of 190 cuts 0 broke a promise (at most 1.6 % of cuts do, at 95 %)",
            "0.8 ms a flush",
            "Theorem",
        ] {
            assert!(page.contains(part), "{part:?}");
        }
    }

    #[test]
    fn every_column_has_a_name() {
        assert_columns_named(&page(&troubled("x")));
    }

    #[test]
    fn no_string_leaves_its_place_and_nothing_is_fetched() {
        let mut env = environment();
        env.kernel = HOSTILE.to_owned();
        let page = html(&troubled(HOSTILE), &env).unwrap();
        assert_closed(&page);
        assert_eq!(page.matches("<script").count(), 1);
        assert_eq!(page.matches("<b ").count(), 0);
        assert!(!page.contains('\u{1b}') && !page.contains('\0'));
        assert_nothing_fetched(&page);
    }

    #[test]
    fn a_run_without_cuts_still_has_a_report() {
        let page = page(&PowerCuts { cases: Vec::new(), ..run() });
        assert_closed(&page);
        assert!(page.contains("No cut was made") && !page.contains("<svg"));
    }
}
