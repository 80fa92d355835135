//! The report: one HTML file that needs nothing else, made from recorded results alone.
//!
//! Every string of the results is escaped where it enters the page, and the page forbids itself to
//! fetch anything.

pub mod cuts;
mod html;
mod loads;
pub mod machines;
mod rocketmq;
mod tables;

use std::collections::BTreeMap;

use self::html::{Datum, Table};
use crate::chart::{self, Drawn, Figure};
use crate::clock::float;
use crate::comparison::{self, Comparison, Measure};
use crate::format;
use crate::recorded::Recorded;
use crate::results::{Cell, DiskInfo, Environment, Manifest, MeasuredDisk};
use crate::summary::{self, Loops, LossModel, Row};
use crate::sysctl::{Applied, Found};
use crate::verdict;

/// The report of a run, whole or not: verdict, machine, validity, charts, tables, profile, method.
///
/// The same results give the same bytes.
///
/// # Errors
///
/// If a chart cannot be drawn, see [`chart::pareto`].
pub fn html(recorded: &Recorded, charts: &[Drawn]) -> anyhow::Result<String> {
    let Recorded { manifest, environment: env, cells, .. } = recorded;
    let rows = summary::rows(cells);
    let mut page = head(&manifest.run);
    page += &opening(manifest, env, cells, &rows);
    page += &section("Machine", &machine(manifest, env));
    page += &section("Validity", &validity(cells));
    if !cells.is_empty() {
        for model in LossModel::ALL {
            page += &charted(manifest, env, cells, &rows, model)?;
        }
        let (first, rest): (Vec<&Drawn>, Vec<&Drawn>) =
            charts.iter().partition(|chart| FIRST.contains(&&*chart.name));
        for name in FIRST {
            page.extend(first.iter().filter(|chart| chart.name == name).map(|chart| drawn(chart)));
        }
        page += &section("All strategies and loads", &strategies(manifest, &rows));
        page.extend(rest.into_iter().map(drawn));
        if let Some(stalls) = tables::stalls(recorded)? {
            page += &section("Stalls", &stalls);
        }
        if let Some(words) = rocketmq::section(manifest, &rows, cells) {
            page += &section("In RocketMQ's words", &words);
        }
        let compared = comparison::comparisons(cells, manifest.gates());
        if !compared.is_empty() {
            page += &section("Comparisons", &comparisons(&compared));
        }
        page += &section("All cells", &all_cells(cells));
    }
    page += &section("Profile", &profile(manifest));
    page += &section("Definitions and method", &method(manifest, &rows));
    page += &section("Reproduce", &reproduce(manifest));
    Ok(page + &foot())
}

/// The charts that stand right behind C1: what carries which load, then what the kernel's dirty
/// limits do.
const FIRST: [&str; 2] = ["c9", "c4"];

/// A chart under its number: how it is read, the chart, and its table.
fn drawn(chart: &Drawn) -> String {
    let has_figures = |column: usize| {
        chart.rows.iter().any(|row| matches!(row.get(column), Some(Figure::Number(..))))
    };
    let datum = |(column, figure): (usize, &Figure)| match figure {
        Figure::Text(text) => Datum::text(text),
        Figure::Number(text, value) => Datum::shown(text, *value),
        Figure::Missing if has_figures(column) => Datum::missing(),
        // It stands where the words of its column do.
        Figure::Missing => Datum::missing().class(""),
    };
    let table = Table {
        caption: &format!("The figures of chart {}", chart.name.to_uppercase()),
        heads: &chart.heads,
        rows: chart.rows.iter().map(|row| row.iter().enumerate().map(datum).collect()).collect(),
        sortable: true,
    };
    let note = format::escaped(&chart.note);
    let body = format!("<p class=\"note\">{note}</p>\n{}", plate(&chart.svg, &table.html()));
    section(&format!("{}: {}", chart.name.to_uppercase(), chart.question), &body)
}

fn foot() -> String {
    format!("<script>\n{}</script>\n</body>\n</html>\n", include_str!("report/page.js"))
}

fn head(run: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <title>Flushmark: {}</title>\n<style>\n{}</style>\n</head>\n<body>\n",
        format::escaped(run),
        include_str!("report/page.css")
    )
}

/// Nothing may be fetched from anywhere; style and script are in the page.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'";

fn section(title: &str, body: &str) -> String {
    let id: String = title
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' })
        .collect();
    format!("<section>\n<h2 id=\"{id}\">{}</h2>\n{body}</section>\n", format::escaped(title))
}

/// The question, when and where it was asked, and the verdict.
fn opening(manifest: &Manifest, env: &Environment, cells: &[Cell], rows: &[Row]) -> String {
    let mut out = format!(
        "<h1>Flush strategies on {}</h1>\n\
         <p class=\"meta\">sweep {} · {} · run {} · {} of {} cells</p>\n",
        format::escaped(&place(&env.disk)),
        format::escaped(&manifest.sweep),
        format::utc(manifest.started_at_ms),
        format::escaped(&manifest.run),
        manifest.cells_done,
        manifest.cells_planned,
    );
    if let Some(disk) = verdict::emulated(env, rows) {
        let said = format!("{disk}: the figures say nothing about real hardware.");
        out = format!("{out}<p class=\"emulated\">{}</p>\n", format::escaped(&said));
    }
    if let Some(disk) = verdict::simulated(env, rows) {
        let said = format!("{disk}, in virtual time: the figures are those of a model.");
        out = format!("{out}<p class=\"emulated\">{}</p>\n", format::escaped(&said));
    }
    let sentences = verdict::sentences(manifest, cells, rows);
    let item = |sentence: &String| format!("<li>{}</li>\n", format::escaped(sentence));
    out += "<div class=\"verdict\"><ul>\n";
    out.extend(sentences.iter().map(item));
    out += "</ul></div>\n<ul class=\"doubts\">\n";
    out.extend(verdict::doubts(manifest, env, cells, rows).iter().map(item));
    out + "</ul>\n"
}

/// `vda (ext4)`, or the directory if there is no device.
fn place(disk: &DiskInfo) -> String {
    let device = disk.device.as_deref().unwrap_or(&disk.path);
    match &disk.file_system {
        Some(file_system) => format!("{device} ({file_system})"),
        None => device.to_owned(),
    }
}

fn machine(manifest: &Manifest, env: &Environment) -> String {
    let revision = checkout(manifest.origin.revision.as_ref(), manifest.origin.dirty);
    let mut tables = Vec::new();
    match &*env.disks {
        // Before schema 1.1 there was one, without a name.
        [] => tables.push(("Disk".to_owned(), disk_facts(&env.disk))),
        disks => tables.extend(disks.iter().map(|disk| {
            let caption = format!("Disk {}", format::clipped(&disk.name, 40));
            (caption, [measured_facts(disk), disk_facts(&disk.info)].concat())
        })),
    }
    let system = system_facts(env, &manifest.origin.version, revision);
    tables.push(("System and program".to_owned(), system));
    if !manifest.sysctls.is_empty() {
        tables.push(("Kernel settings of the profile".to_owned(), applied(manifest)));
    }
    facts(&tables)
}

/// What a run found of a disk before it measured anything.
fn measured_facts(disk: &MeasuredDisk) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    if !disk.labels.is_empty() {
        found.push(("labels", disk.labels.join(", ")));
    }
    found.push(("a 4 KiB sync, p50", format::duration(float(disk.sync_p50_ns))));
    found.extend(disk.calibration.clone().map(|calibration| ("calibration", calibration)));
    found
}

/// The profile's kernel settings with what was in force, or why they were not.
fn applied(manifest: &Manifest) -> Vec<(&str, String)> {
    let words = |of: &Applied| {
        let value = |Found { key, asked, found }: &Found| match found {
            Some(found) if found == asked => format!("{key}={found}"),
            Some(found) => format!("{key}={found} (asked {asked})"),
            None => format!("{key} unknown (asked {asked})"),
        };
        let values: Vec<String> = of.values.iter().map(value).collect();
        let reason = of.reason.as_ref().map_or_else(String::new, |reason| format!(": {reason}"));
        format!("{}{reason}; {}", of.status.words(), values.join(", "))
    };
    manifest.sysctls.iter().map(|of| (of.name.as_str(), words(&of.applied))).collect()
}

fn system_facts<'a>(
    env: &'a Environment,
    version: &str,
    revision: String,
) -> Vec<(&'a str, String)> {
    let mut system = vec![
        ("virtual machine", yes(env.virtual_machine)),
        ("processor", text(env.cpu_model.as_ref())),
        ("cores usable", env.cores.to_string()),
        ("memory", env.memory_bytes.map_or_else(unknown, size)),
        ("kernel", env.kernel.clone()),
        ("distribution", text(env.distribution.as_ref())),
        ("clock source", text(env.clocksource.as_ref())),
        ("build", env.build.clone()),
        ("flushmark", version.to_owned()),
        ("revision", revision),
        ("host, hashed", env.host_hash.clone()),
    ];
    if let Some(names) = &env.names {
        system.push(("host", names.host.clone()));
        system.extend(
            names
                .serials
                .iter()
                .map(|(device, serial)| ("serial number", format!("{serial} ({device})"))),
        );
    }
    let machine = &env.machine;
    let list = |limits: &BTreeMap<String, String>| {
        let each: Vec<_> = limits.iter().map(|(name, value)| format!("{name} {value}")).collect();
        if each.is_empty() { unknown() } else { each.join(", ") }
    };
    let none = || "none seen".to_owned();
    let cgroup = &machine.cgroup;
    system.extend([
        ("processors online", text(machine.online_processors.as_ref())),
        ("processors allowed", text(machine.allowed_processors.as_ref())),
        ("memory nodes", machine.numa_nodes.map_or_else(unknown, |nodes| nodes.to_string())),
        ("clock governor", text(machine.governor.as_ref())),
        ("turbo", yes(machine.turbo)),
        ("huge pages", text(machine.transparent_hugepages.as_ref())),
        ("swap", machine.swap_bytes.map_or_else(unknown, size)),
        ("memory of the control group", cgroup.memory_bytes.map_or_else(none, size)),
        (
            "processors of the control group",
            cgroup.processors.map_or_else(none, |processors| format!("{processors:.2}")),
        ),
        (
            "disk limits of the control group",
            if cgroup.io.is_empty() { none() } else { cgroup.io.join("; ") },
        ),
        ("limits of the process", list(&machine.ulimits)),
    ]);
    system.extend(env.sysctls.iter().map(|(name, value)| (name.as_str(), value.clone())));
    system
}

/// Tables of facts side by side.
fn facts<C: AsRef<str>>(tables: &[(C, Vec<(&str, String)>)]) -> String {
    let row = |(name, value): &(&str, String)| vec![Datum::text(*name), Datum::text(value)];
    let table = |(caption, facts): &(C, Vec<(&str, String)>)| {
        Table {
            caption: caption.as_ref(),
            heads: &["what", "value"],
            rows: facts.iter().map(row).collect(),
            sortable: false,
        }
        .html()
    };
    format!("<div class=\"facts\">\n{}</div>\n", tables.iter().map(table).collect::<String>())
}

fn disk_facts(disk: &DiskInfo) -> Vec<(&'static str, String)> {
    if disk.simulated {
        return vec![("disk", disk.path.clone()), ("time", "virtual".to_owned())];
    }
    let mut facts = vec![
        ("directory", disk.path.clone()),
        ("device", text(disk.device.as_ref())),
        ("model", text(disk.model.as_ref())),
        ("file system", text(disk.file_system.as_ref())),
        ("mount options", text(disk.mount_options.as_ref())),
        ("write cache, as reported", text(disk.write_cache.as_ref())),
        ("queue scheduler", text(disk.scheduler.as_ref())),
        ("rotational", yes(disk.rotational)),
        ("loop, device mapper or the like", yes(Some(disk.emulated))),
        ("in memory", yes(Some(disk.in_memory))),
        ("free at the start", format!("{} of {}", size(disk.free_bytes), size(disk.total_bytes))),
    ];
    let details = &disk.details;
    let number = |value: Option<u64>| value.map_or_else(unknown, |value| value.to_string());
    let chain = &details.device_chain;
    facts.extend([
        ("devices below", if chain.is_empty() { unknown() } else { chain.join(" → ") }),
        ("a write can be durable by itself (FUA)", yes(details.fua)),
        ("power-loss protection, as declared", yes(details.plp_declared)),
        ("requests in the queue", number(details.nr_requests)),
        ("share of dirty pages", {
            let [least, most] = [details.bdi_min_ratio, details.bdi_max_ratio].map(number);
            format!("{least} to {most} %")
        }),
        ("serial number, hashed", text(details.serial_hash.as_ref())),
    ]);
    facts
}

fn checkout(revision: Option<&String>, dirty: Option<bool>) -> String {
    match (revision, dirty) {
        (None, _) => unknown(),
        (Some(revision), Some(true)) => format!("{revision}, with changes"),
        (Some(revision), _) => revision.clone(),
    }
}

fn text(known: Option<&String>) -> String {
    known.cloned().unwrap_or_else(unknown)
}

fn yes(known: Option<bool>) -> String {
    known.map_or_else(unknown, |known| if known { "yes" } else { "no" }.to_owned())
}

fn size(bytes: u64) -> String {
    format::bytes(float(bytes))
}

fn unknown() -> String {
    "unknown".to_owned()
}

fn validity(cells: &[Cell]) -> String {
    let checks: usize = cells.iter().map(|cell| cell.validity.len()).sum();
    if checks == 0 {
        return "<p>No check was made, because no cell was finished.</p>\n".to_owned();
    }
    let not_passed = if summary::notes(cells).is_empty() {
        "<p>Every check passed.</p>\n".to_owned()
    } else {
        tables::not_passed(cells)
    };
    format!(
        "{not_passed}<details><summary>All {} of {}</summary>\n\
         <div class=\"figures\">\n{}</div></details>\n",
        format::plural(checks, "check"),
        format::plural(cells.len(), "cell"),
        tables::all_checks(cells)
    )
}

fn charted(
    manifest: &Manifest,
    env: &Environment,
    cells: &[Cell],
    rows: &[Row],
    model: LossModel,
) -> anyhow::Result<String> {
    let svg = chart::pareto(manifest, env, cells, model)?;
    let body = plate(&svg, &tables::twin(rows, model));
    let title = match model {
        LossModel::Power => "C1: throughput and power cut",
        LossModel::Process => "C1b: throughput and kill -9",
    };
    Ok(section(title, &body))
}

/// A chart with the table of what it shows.
fn plate(svg: &str, twin: &str) -> String {
    format!(
        "<div class=\"plate\" tabindex=\"0\" role=\"region\" aria-label=\"Chart\">\n{svg}</div>\n\
         <details open><summary>The chart as a table</summary>\n\
         <div class=\"figures\">\n{twin}</div></details>\n"
    )
}

fn strategies(manifest: &Manifest, rows: &[Row]) -> String {
    let standing = verdict::standing(manifest, rows);
    let from = match Loops::of(rows) {
        Loops::Closed => "",
        Loops::Mixed | Loops::Open => {
            "“ack” is from when a message was due where it came at a rate, else from its append. "
        }
    };
    format!(
        "<p class=\"note\">Figures are over the valid blocks, with ranges beside them. \
         {standing}. {from}\
         Exposure is the p99 of time. “~”: from too few values to be firm. \
         A click on a column's name sorts.</p>\n\
         <div class=\"figures\">\n{}</div>\n",
        tables::rows(rows, manifest.slo())
    ) + &loads::tables(manifest)
}

fn comparisons(compared: &[Comparison]) -> String {
    format!(
        "<p class=\"note\">B by A, block by block: the geometric mean with its 95 % interval. B is \
         said to differ if the interval excludes 1, also after Holm's correction for all \
         comparisons of the kind, and if it differs by more than {}. A canary runs on the first \
         disk alone and says nothing of others. An acknowledgement of B may promise something \
         else than one of A.</p>\n<div class=\"figures\">\n{}</div>\n",
        limits(compared),
        tables::comparisons(compared)
    )
}

/// What differences must exceed, by measure.
fn limits(compared: &[Comparison]) -> String {
    let of = |measure: Measure| {
        let all: Vec<&Comparison> = compared.iter().filter(|one| one.measure == measure).collect();
        comparison::beyond(&all).map(|beyond| format!("{beyond} in {}", measure.words()))
    };
    let both = [Measure::AckedPerS, Measure::AckNsP99].into_iter().filter_map(of);
    format::escaped(&both.collect::<Vec<_>>().join("; "))
}

fn all_cells(cells: &[Cell]) -> String {
    format!(
        "<p class=\"note\">One line per repetition, invalid ones included. Blocks and positions \
         count from 0. “measured” leaves out the warm-up.</p>\n\
         <div class=\"figures all\">\n{}</div>\n",
        tables::cells(cells)
    )
}

fn profile(manifest: &Manifest) -> String {
    // A parser drops one line break after the tag; this one is for it.
    format!("<pre tabindex=\"0\">\n{}</pre>\n", format::escaped(&manifest.profile))
}

fn reproduce(manifest: &Manifest) -> String {
    let revision = revision(manifest.origin.revision.as_ref(), manifest.origin.dirty);
    format!(
        "{}<p class=\"note\">{revision}; seed {}. \
         The order of cells and the messages are the same again, the disk is not.</p>\n",
        command(&manifest.origin.command),
        manifest.seed
    )
}

fn command(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    format!("<pre tabindex=\"0\">\n{}</pre>\n", format::escaped(&words.join(" ")))
}

/// The revision, escaped, and how far it can be relied on.
fn revision(revision: Option<&String>, dirty: Option<bool>) -> String {
    let changes = match dirty {
        Some(true) => " with changes that are not in it",
        Some(false) => "",
        None => ", clean or not: unknown",
    };
    let revision = revision.map_or("unknown", |revision| revision.as_str());
    format!("Revision {}{changes}", format::escaped(revision))
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

fn method(manifest: &Manifest, rows: &[Row]) -> String {
    let latency = match Loops::of(rows) {
        Loops::Closed => CLOSED.to_owned(),
        Loops::Mixed => format!("By workload. {CLOSED} {OPEN}"),
        Loops::Open => OPEN.to_owned(),
    };
    let least = manifest.gates().min_effect_pct.to_string();
    METHOD.replace("{latency}", &latency).replace("{min_effect_pct}", &least)
}

/// What a latency is in a closed loop,
const CLOSED: &str = "In a closed loop from the call of append to its acknowledgement: a producer \
    waits for an acknowledgement before it sends again, so this is service time. A stall delays \
    few messages here and would delay many at a fixed rate.";
/// and in an open one.
const OPEN: &str = "In an open loop from when a message was due to its acknowledgement: messages \
    come at a rate whatever becomes of those before, so what holds up one makes others late, and \
    is counted for them too.";
const METHOD: &str = include_str!("report/method.html");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Gates, Slo};
    use crate::results::{AppliedSysctls, Kind, Level, OpenLoop, Outcome, Quantiles};
    use crate::results_fixture::{
        HOSTILE, assert_closed, assert_columns_named, assert_nothing_fetched, cell, check,
        environment, example, example_of, extreme, manifest, open_loop, troubled,
    };
    use crate::sysctl::Status;

    fn page_of(manifest: &Manifest, env: &Environment, cells: &[Cell]) -> String {
        html(&Recorded::new(manifest, env, cells, None), &[]).unwrap()
    }

    fn page(cells: &[Cell]) -> String {
        page_of(&manifest(), &environment(), cells)
    }

    #[test]
    fn the_same_results_give_the_same_bytes() {
        assert_eq!(page(&troubled()), page(&troubled()));
    }

    #[test]
    fn the_page_holds_every_part() {
        let page = page(&troubled());
        assert_closed(&page);
        for part in [
            "<h1>Flush strategies on vda (ext4)</h1>",
            "Synchronous flush (sync ×64) acknowledged",
            "<h2 id=\"machine\">",
            "<th scope=\"row\">errors</th><td class=\"invalid\">invalid</td><td>3</td>",
            "<summary>All 85 checks of 39 cells</summary>",
            "aria-labelledby=\"c1-title c1-desc\"",
            "aria-labelledby=\"c1b-title c1b-desc\"",
            "hollow: invalid</td>",
            "<h2 id=\"all-cells\">",
            "schema: flushmark.sweep/v1\nblocks: 3        # repetitions\n",
            "Loss models",
            "Page-cache absorbed",
            "cargo xtask bench --disk &#39;/data/mq dir&#39; --blocks 3",
        ] {
            assert!(page.contains(part), "{part:?}");
        }
    }

    #[test]
    fn every_chart_has_its_number_a_plate_to_scroll_in_and_a_table() {
        let recorded = Recorded::new(&manifest(), &environment(), &example(), None);
        let charts = chart::all(&recorded).unwrap();
        let page = html(&recorded, &charts).unwrap();
        assert_closed(&page);
        for Drawn { name, question, .. } in &charts {
            let number = name.to_uppercase();
            assert!(page.contains(&format!(">{number}: {question}</h2>")), "{number}");
            assert!(page.contains(&format!("<caption>The figures of chart {number}<")), "{number}");
        }
        let plates = page.matches("<div class=\"plate\"").count();
        assert_eq!((plates, plates), (page.matches("<svg").count(), charts.len() + 2));
    }

    #[test]
    fn what_carries_a_load_stands_right_behind_c1() {
        let mut charts =
            chart::all(&Recorded::new(&manifest(), &environment(), &example(), None)).unwrap();
        // It has no series.
        charts.push(Drawn { name: "c4".to_owned(), ..charts[0].clone() });
        let page = html(&Recorded::new(&manifest(), &environment(), &example(), None), &charts);
        let page = page.unwrap();
        let order = [
            "<div class=\"verdict\">",
            "<h2 id=\"machine\">",
            "<h2 id=\"validity\">",
            ">C1: ",
            ">C1b: ",
            ">C9: ",
            ">C4: ",
            ">All strategies and loads<",
            ">C2: ",
            ">C10: ",
            ">All cells<",
        ];
        let places: Vec<usize> = order.map(|part| page.find(part).unwrap()).to_vec();
        assert!(places.is_sorted(), "{places:?}");
    }

    #[test]
    fn every_column_has_a_name() {
        assert_columns_named(&page(&troubled()));
        assert_columns_named(&page(&example_of(7)));
        assert_columns_named(&page(&at_a_rate()));
    }

    /// A closed loop, and messages at a rate.
    fn at_a_rate() -> Vec<Cell> {
        let due_to_ack_ns = Quantiles { count: 9, p50: 700_000_000, ..Quantiles::default() };
        let open = cell(Kind::GroupCommit, 8, 0, |c| {
            c.workload = "poisson".to_owned();
            c.open_loop = Some(OpenLoop { due_to_ack_ns, ..open_loop() });
        });
        vec![cell(Kind::Raw, 1, 0, |_| {}), cell(Kind::GroupCommit, 8, 0, |_| {}), open]
    }

    #[test]
    fn a_latency_is_called_what_it_is() {
        let closed = page(&example());
        assert!(closed.contains(">append→ack p99<") && closed.contains("this is service time"));
        assert!(closed.contains("closed loop, seed 42"));
        assert!(!closed.contains("due→ack") && !closed.contains("In an open loop"), "{closed}");
        let mixed = page(&at_a_rate());
        for part in [
            ">ack p99<",
            ">append→ack p99<",
            ">due→ack p99<",
            ">700 ms<",
            "closed and open loops, seed 42",
            "this is service time",
            "In an open loop",
        ] {
            assert!(mixed.contains(part), "{part:?}");
        }
        let open = page(&at_a_rate()[2..]);
        assert!(open.contains("open loop, seed 42") && !open.contains("service time"), "{open}");
        for page in [closed, mixed, open] {
            assert!(!page.contains("{latency}") && !page.contains("[from]"));
        }
    }

    #[test]
    fn comparisons_are_shown_if_there_are_blocks_for_them() {
        assert!(!page(&example()).contains("<h2 id=\"comparisons\">"));
        let page = page(&example_of(7));
        assert_closed(&page);
        assert!(page.contains("<h2 id=\"comparisons\">"), "36 of them");
        assert!(page.contains("<td>faster</td>") && page.contains("<td>slower</td>"));
        assert!(page.contains("< 0.0001</td>") || page.contains("&lt; 0.0001</td>"));
        assert!(page.contains("95 % intervals"));
    }

    #[test]
    fn what_is_asked_is_answered_row_by_row() {
        let time = |ms| Some(std::time::Duration::from_millis(ms));
        let slo = Some(Slo { ack_p99: time(10), power_loss_rpo: time(700) });
        let mine = Manifest { slo, ..manifest() };
        let asked = page_of(&mine, &environment(), &troubled());
        assert_columns_named(&asked);
        assert!(asked.contains("by all 3 rows of sync, by all 3 rows of timed, by "), "{asked}");
        assert!(asked.contains("<td>kept</td>") && asked.contains("<td>not: power-cut loss</td>"));
        assert!(!page(&troubled()).contains("<td>kept</td>"));
        let text = crate::table::text(&mine, &environment(), &troubled(), 80);
        assert!(text.contains("Asked is ack p99 within 10 ms, and at most 700 ms lost"), "{text}");
    }

    #[test]
    fn the_method_says_from_when_on_a_difference_counted() {
        let with = |gates| {
            let manifest = Manifest { gates, ..manifest() };
            page_of(&manifest, &environment(), &example_of(7))
        };
        assert!(with(None).contains("above 5 % and above"));
        let page = with(Some(Gates { min_effect_pct: 20, ..Gates::default() }));
        assert!(page.contains("above 20 % and above") && page.contains("by more than 20 %"));
    }

    #[test]
    fn nothing_is_fetched_from_anywhere() {
        assert_nothing_fetched(&page(&troubled()));
    }

    #[test]
    fn no_string_leaves_its_place() {
        let hostile = || HOSTILE.to_owned();
        let mut manifest = manifest();
        manifest.run = hostile();
        manifest.sweep = hostile();
        manifest.origin.version = hostile();
        manifest.profile = hostile();
        manifest.origin.revision = Some(hostile());
        manifest.origin.command = vec![hostile(), "it's".to_owned()];
        let mut env = environment();
        for text in [&mut env.kernel, &mut env.build, &mut env.host_hash, &mut env.disk.path] {
            *text = hostile();
        }
        env.cpu_model = Some(hostile());
        env.distribution = Some(hostile());
        env.sysctls = [(hostile(), hostile())].into();
        let disk = &mut env.disk;
        for text in
            [&mut disk.device, &mut disk.model, &mut disk.file_system, &mut disk.mount_options]
        {
            *text = Some(hostile());
        }
        let cells = [0, 1].map(|block| {
            cell(Kind::GroupCommit, 8, block, |c| {
                for text in
                    [&mut c.run, &mut c.cell, &mut c.strategy, &mut c.workload, &mut c.sysctl]
                {
                    *text = hostile();
                }
                c.validity = vec![check(HOSTILE, Level::Warn, HOSTILE, HOSTILE)];
            })
        });
        let page = page_of(&manifest, &env, &cells);
        assert_closed(&page);
        assert_eq!(page.matches("<script").count(), 1);
        assert_eq!(page.matches("<b ").count(), 0);
        assert_eq!(page.matches("</title>").count(), 3);
        assert!(!page.contains('\u{1b}') && !page.contains('\0'));
    }

    #[test]
    fn each_disk_is_told_with_its_calibration_and_each_setting_as_it_was_in_force() {
        let (mut manifest, mut env) = (manifest(), environment());
        let disk = |name: &str, calibration: Option<&str>| MeasuredDisk {
            name: name.to_owned(),
            labels: vec![format!("{HOSTILE} label")],
            calibration: calibration.map(str::to_owned),
            sync_p50_ns: 13_000_000,
            info: env.disk.clone(),
        };
        env.disks = vec![disk("host", None), disk(HOSTILE, Some("asked 12 ms, takes 13 ms"))];
        let applied = |status, reason: Option<&str>, found| Applied {
            status,
            reason: reason.map(str::to_owned),
            values: vec![Found { key: "vm.dirty_ratio".to_owned(), asked: 10, found }],
            warnings: Vec::new(),
        };
        let named = |name: &str, applied| AppliedSysctls { name: name.to_owned(), applied };
        manifest.sysctls = vec![
            named("good", applied(Status::Applied, None, Some(10))),
            named(HOSTILE, applied(Status::NotApplied, Some("no right"), Some(20))),
            named("odd", applied(Status::Applied, None, None)),
        ];
        let page = page_of(&manifest, &env, &example());
        for part in [
            "<caption>Disk host</caption>",
            "asked 12 ms, takes 13 ms",
            "13 ms",
            "applied; vm.dirty_ratio=10<",
            "not applied: no right; vm.dirty_ratio=20 (asked 10)",
            "vm.dirty_ratio unknown (asked 10)",
        ] {
            assert!(page.contains(part), "{part}");
        }
        assert_closed(&page);
        assert_eq!((page.matches("<script").count(), page.matches("<b ").count()), (1, 0));
    }

    #[test]
    fn a_run_without_cells_still_has_a_report() {
        let mut manifest = manifest();
        (manifest.outcome, manifest.cells_done) = (Outcome::Interrupted, 0);
        let page = page_of(&manifest, &environment(), &[]);
        assert_closed(&page);
        assert!(page.contains("No cell was finished (interrupted after 0 of 39 cells)"));
        assert!(page.contains("No check was made"));
        assert!(page.contains("/data/mq") && page.contains("flushmark.sweep/v1"));
        assert!(!page.contains("<svg"));
    }

    #[test]
    fn an_emulated_disk_has_a_banner() {
        assert!(!page(&example()).contains("class=\"emulated\""));
        let mut env = environment();
        env.disk.emulated = true;
        assert!(page_of(&manifest(), &env, &example()).contains("class=\"emulated\""));
    }

    #[test]
    fn tables_name_each_setting_with_what_its_disk_is() {
        let on = |disk: &str, strategy: &str, block| {
            cell(Kind::GroupCommit, 8, block, |c| {
                (c.disk, c.strategy) = (disk.to_owned(), strategy.to_owned());
                c.cell = format!("{disk}/{strategy}");
                c.emulated = disk == "hdd";
                if disk == "tmpfs" {
                    c.validity.push(check("in_memory", Level::Label, "tmpfs", "on a disk"));
                }
            })
        };
        let all = |disk| {
            (0..6).flat_map(move |block| ["a", "b"].map(move |strategy| on(disk, strategy, block)))
        };
        let several: Vec<Cell> = ["host", "hdd", "tmpfs"].into_iter().flat_map(all).collect();
        let page = page(&several);
        assert_columns_named(&page);
        for (part, times) in [
            // The twins of both charts, and the table of rows.
            (">a (hdd, EMULATED)<", 3),
            (">a (tmpfs, in memory)<", 3),
            (">a (host)<", 3),
            (">hdd/a (EMULATED)<", 6),
            (">tmpfs/a (in memory)<", 6),
            // Of disks with either other one, by two measures and strategies; and of strategies.
            (">hdd, kernel-default, closed-1k ×8 (EMULATED)<", 2),
            (">tmpfs, kernel-default, closed-1k ×8 (in memory)<", 2),
            (">host, kernel-default, closed-1k ×8<", 2),
            (">a, kernel-default, closed-1k ×8 (EMULATED)<", 2),
            (">a, kernel-default, closed-1k ×8 (EMULATED, in memory)<", 2),
            ("class=\"emulated\">EMULATED disk (hdd): the figures", 1),
        ] {
            assert_eq!(page.matches(part).count(), times, "{part}");
        }
    }

    #[test]
    fn extremes_and_missing_values_are_shown() {
        let page = page(&extreme());
        assert_closed(&page);
        assert!(page.contains("1e300") && page.contains("585 y") && page.contains("16 EiB"));
        assert!(!page.contains("NaN") && !page.contains("\"inf\""));
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        for (word, expect) in [
            ("--blocks=3", "--blocks=3"),
            ("", "''"),
            ("a b", "'a b'"),
            ("it's", "'it'\\''s'"),
            ("$(x)", "'$(x)'"),
        ] {
            assert_eq!(quoted(word), expect);
        }
    }
}
