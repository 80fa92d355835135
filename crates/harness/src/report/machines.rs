//! The report of several results side by side: one HTML file that needs nothing else.

use std::collections::BTreeMap;

use super::html::{Datum, Table};
use super::{foot, head, place, plate, section, text, yes};
use crate::chart;
use crate::clock::float;
use crate::format;
use crate::recorded::Recorded;
use crate::summary::{self, LossModel, Row};
use crate::verdict;

/// The page: what differs, the machines, what each row gives on each, and C1 of each.
///
/// The same results give the same bytes; every string of theirs is escaped.
///
/// # Errors
///
/// If a chart cannot be drawn, see [`chart::pareto`].
pub fn html(all: &[Recorded]) -> anyhow::Result<String> {
    let rows: Vec<Vec<Row>> = all.iter().map(|one| summary::rows(&one.cells)).collect();
    let names = names(all);
    let title = format!(
        "<h1>{} side by side</h1>\n<p class=\"note\">Each was measured at a time of its own: what \
         differs may be the machine, the disk, the kernel, the program or the day. \
         <code>cargo xtask compare A B</code> judges two of them, row by row.</p>\n",
        format::plural(all.len(), "result")
    );
    let mut page = head("several machines") + &title;
    for (name, (one, rows)) in names.iter().zip(all.iter().zip(&rows)) {
        page += &standing(name, one, rows);
    }
    page += &section("Machines", &machines(all, &names));
    page += &section("Rows side by side", &shared(&rows, &names));
    for (nth, (name, one)) in names.iter().zip(all).enumerate() {
        if !one.cells.is_empty() {
            page += &section(&format!("C1: {name}"), &charted(nth, one, &rows[nth])?);
        }
    }
    Ok(page + &foot())
}

/// What each is called: `A (host 1a2b3c4d)`.
fn names(all: &[Recorded]) -> Vec<String> {
    let letter =
        |nth: usize| match u32::try_from(nth).ok().and_then(|nth| char::from_digit(nth + 10, 36)) {
            Some(letter) => letter.to_ascii_uppercase().to_string(),
            None => (nth + 1).to_string(),
        };
    let name = |(nth, one): (usize, &Recorded)| {
        format!("{} (host {})", letter(nth), format::clipped(&one.environment.host_hash, 12))
    };
    all.iter().enumerate().map(name).collect()
}

/// What must be said of a result before its figures.
fn standing(name: &str, one: &Recorded, rows: &[Row]) -> String {
    let env = &one.environment;
    let emulated = verdict::emulated(env, rows).into_iter();
    let unreal = emulated.chain(verdict::simulated(env, rows)).chain(verdict::in_memory(env, rows));
    let said = unreal.map(|said| {
        format!("<p class=\"emulated\">{}</p>\n", format::escaped(&format!("{name}: {said}.")))
    });
    said.collect()
}

/// A column for each result, a line for each fact; those that differ are marked.
fn machines(all: &[Recorded], names: &[String]) -> String {
    let facts: Vec<Vec<(&str, String)>> = all.iter().map(facts).collect();
    let mut lines = Vec::new();
    for (nth, (what, first)) in facts[0].iter().enumerate() {
        let values: Vec<&String> = facts.iter().map(|of| &of[nth].1).collect();
        let differ = values.iter().any(|value| *value != first);
        let mut line = vec![Datum::text(*what)];
        line.push(if differ { Datum::text("differs").class("warn") } else { Datum::text("same") });
        line.extend(values.into_iter().map(Datum::text));
        lines.push(line);
    }
    let heads: Vec<&str> =
        ["what", "differs"].into_iter().chain(names.iter().map(String::as_str)).collect();
    let caption = "The machines, their disks and programs";
    Table { caption, heads: &heads, rows: lines, sortable: false }.html()
}

fn facts(one: &Recorded) -> Vec<(&'static str, String)> {
    let Recorded { manifest, environment: env, cells, .. } = one;
    let rows = summary::rows(cells);
    let disk = &env.disk;
    let revision = super::checkout(manifest.origin.revision.as_ref(), manifest.origin.dirty);
    let size = |bytes: u64| format::bytes(float(bytes));
    vec![
        ("run", manifest.run.clone()),
        ("sweep", manifest.sweep.clone()),
        ("begun", format::utc(manifest.started_at_ms)),
        ("blocks", verdict::blocks(manifest, &rows)),
        ("cells", format!("{} of {}", manifest.cells_done, manifest.cells_planned)),
        ("processor", text(env.cpu_model.as_ref())),
        ("cores usable", env.cores.to_string()),
        ("memory", env.memory_bytes.map_or_else(super::unknown, size)),
        ("virtual machine", yes(env.virtual_machine)),
        ("kernel", env.kernel.clone()),
        ("disk", place(disk)),
        ("its model", text(disk.model.as_ref())),
        ("mount options", text(disk.mount_options.as_ref())),
        ("write cache, as reported", text(disk.write_cache.as_ref())),
        ("queue scheduler", text(disk.scheduler.as_ref())),
        ("noise", verdict::noise(manifest, &rows).unwrap_or_else(|| "none seen".to_owned())),
        ("flushmark", manifest.origin.version.clone()),
        ("revision", revision),
        ("build", env.build.clone()),
    ]
}

/// What makes rows of different machines the same: disk, settings, workload, strategy, producers.
type Key = (String, String, String, String, u32);

/// What a row shows of a machine.
const SHOWN: [&str; 3] = ["msg/s", "ack p99", "power-cut exposure, p99"];

/// A line for each row that more than one has, with its figures on each.
fn shared(rows: &[Vec<Row>], names: &[String]) -> String {
    let mut found: BTreeMap<Key, Vec<Option<&Row>>> = BTreeMap::new();
    for (nth, of) in rows.iter().enumerate() {
        for row in of {
            let (disk, sysctl) = (row.disk.clone(), row.sysctl.clone());
            let key = (disk, sysctl, row.workload.clone(), row.strategy.clone(), row.producers);
            found.entry(key).or_insert_with(|| vec![None; rows.len()])[nth] = Some(row);
        }
    }
    let all = found.len();
    found.retain(|_, of| of.iter().flatten().count() > 1);
    if found.is_empty() {
        return "<p>No row has the same disk, kernel settings, workload, strategy and producers in \
                two of them: there is nothing to put side by side.</p>\n"
            .to_owned();
    }
    let heads: Vec<String> = ["strategy", "producers", "workload", "disk", "kernel settings"]
        .map(str::to_owned)
        .into_iter()
        .chain(names.iter().flat_map(|name| SHOWN.map(|what| format!("{what}: {name}"))))
        .collect();
    let line = |((disk, sysctl, workload, strategy, producers), of): (&Key, &Vec<Option<&Row>>)| {
        let mut data = vec![Datum::text(strategy), Datum::count((*producers).into())];
        data.extend([workload, disk, sysctl].map(Datum::text));
        data.extend(of.iter().flat_map(|row| figures(*row)));
        data
    };
    let table = Table {
        caption: "Rows that more than one result has",
        heads: &heads.iter().map(String::as_str).collect::<Vec<_>>(),
        rows: found.iter().map(line).collect(),
        sortable: true,
    };
    let left_out = match all - found.len() {
        0 => String::new(),
        few => format!(" Not shown: {} that one result alone has.", format::plural(few, "row")),
    };
    format!(
        "<p class=\"note\">Figures are over the valid blocks, with ranges beside them; “–” where \
         none is valid, or the result lacks the row.{left_out} A click on a column's name sorts.\
         </p>\n<div class=\"figures\">\n{}</div>\n",
        table.html()
    )
}

fn figures(row: Option<&Row>) -> [Datum; SHOWN.len()] {
    let Some((row, figures)) = row.and_then(|row| Some((row, row.figures?))) else {
        return std::array::from_fn(|_| Datum::missing());
    };
    // What a disk is not must stand at each of its figures.
    let mark = row.not_hardware.word().map_or_else(String::new, |word| format!("{word} "));
    let p99 = figures.ack_p99.map_or_else(Datum::missing, |p99| {
        Datum::shown(p99.shown(), p99.ns.centre()).preceded_by(&mark)
    });
    [
        Datum::stat(Some(figures.acked_per_s), format::count).preceded_by(&mark),
        p99,
        Datum::shown(figures.power.shown(), figures.power.age_ns.centre()).preceded_by(&mark),
    ]
}

/// C1 of a result with its table; ids are made the page's own, for there are several charts.
fn charted(nth: usize, one: &Recorded, rows: &[Row]) -> anyhow::Result<String> {
    let model = LossModel::Power;
    let svg = chart::pareto(&one.manifest, &one.environment, &one.cells, model)?;
    let stem = model.file_stem();
    let (tag, rest) = svg.split_once("</desc>").unwrap_or((&svg, ""));
    let own = tag
        .replace(&format!("{stem}-title"), &format!("m{nth}-{stem}-title"))
        .replace(&format!("{stem}-desc"), &format!("m{nth}-{stem}-desc"));
    Ok(plate(&format!("{own}</desc>{rest}"), &super::tables::twin(rows, model)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Cell, Kind, Level, Status};
    use crate::results_fixture::{
        HOSTILE, assert_closed, assert_columns_named, assert_nothing_fetched, cell, check,
        environment, example, manifest,
    };

    fn two(edit: impl FnOnce(&mut Recorded)) -> [Recorded; 2] {
        let first = Recorded::new(&manifest(), &environment(), &example(), None);
        let mut second = first.clone();
        edit(&mut second);
        [first, second]
    }

    #[test]
    fn the_page_says_what_differs_and_shows_each_chart() {
        let page = html(&two(|b| {
            b.environment.host_hash = "99999999".to_owned();
            b.environment.kernel = "6.1.0".to_owned();
        }))
        .unwrap();
        assert_closed(&page);
        assert_columns_named(&page);
        for part in ["A (host 1a2b3c4d)", "B (host 99999999)", "m0-c1-title", "m1-c1-title"] {
            assert!(page.contains(part), "{part}");
        }
        let kernel = page.split("<th scope=\"row\">kernel</th>").nth(1).unwrap();
        assert!(kernel.starts_with("<td class=\"warn\">differs</td><td>6.18.2</td><td>6.1.0</td>"));
        let cores = page.split("<th scope=\"row\">cores usable</th>").nth(1).unwrap();
        assert!(cores.starts_with("<td>same</td>"));
        // Every id is there once.
        for id in page.split(" id=\"").skip(1).map(|rest| rest.split('"').next().unwrap()) {
            assert_eq!(page.matches(&format!(" id=\"{id}\"")).count(), 1, "{id}");
        }
    }

    #[test]
    fn rows_meet_by_their_key_and_what_is_invalid_has_no_figure() {
        let rate = |rate: f64| move |c: &mut Cell| c.acked_per_s = rate;
        let a =
            [cell(Kind::GroupCommit, 8, 0, rate(1000.0)), cell(Kind::GroupCommit, 64, 0, |_| {})];
        let b =
            [cell(Kind::GroupCommit, 8, 0, rate(3000.0)), cell(Kind::FlushRealtime, 8, 0, |_| {})];
        let rows = [&a, &b].map(|cells| summary::rows(cells));
        let names = ["A", "B"].map(str::to_owned);
        let table = shared(&rows, &names);
        assert_eq!(table.matches("<th scope=\"row\">").count(), 1, "{table}");
        assert!(
            table.contains(">1.0k [one block]</td>") && table.contains(">3.0k [one block]</td>")
        );
        assert!(table.contains("Not shown: 2 rows that one result alone has."), "{table}");
        let invalid = [cell(Kind::GroupCommit, 8, 0, |c| {
            c.status = Status::Invalid;
            c.validity.push(check("errors", Level::Invalid, "3", "rule"));
        })];
        let table = shared(&[summary::rows(&a), summary::rows(&invalid)], &names);
        assert!(table.contains("<td class=\"n\">–</td>"), "{table}");
        let none = shared(&[summary::rows(&a), summary::rows(&b[1..])], &names);
        assert!(none.contains("nothing to put side by side"), "{none}");
    }

    #[test]
    fn what_is_not_hardware_is_marked_at_its_figures() {
        let page = html(&two(|b| {
            b.cells.iter_mut().for_each(|cell| cell.emulated = true);
        }))
        .unwrap();
        assert!(page.contains("<td class=\"n\" data-v=\"") && page.contains("\">EMULATED "));
        assert!(page.contains("<p class=\"emulated\">B (host 1a2b3c4d): "), "before the figures");
    }

    #[test]
    fn no_string_leaves_its_place_and_nothing_is_fetched() {
        let page = html(&two(|b| {
            let hostile = || HOSTILE.to_owned();
            (b.manifest.run, b.manifest.sweep) = (hostile(), hostile());
            (b.environment.kernel, b.environment.host_hash) = (hostile(), hostile());
            b.environment.disk.mount_options = Some(hostile());
            b.cells.iter_mut().for_each(|cell| cell.strategy = hostile());
        }))
        .unwrap();
        assert_closed(&page);
        assert_eq!(page.matches("<script").count(), 1);
        assert_eq!(page.matches("<b ").count(), 0);
        assert!(!page.contains('\u{1b}') && !page.contains('\0'));
        assert_nothing_fetched(&page);
    }
}
