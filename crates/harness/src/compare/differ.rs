//! What differs between two runs besides the figures, and between the loads of two cells.

use std::collections::BTreeSet;

use serde::Serialize;

use super::Shared;
use crate::clock::{float, round};
use crate::format;
use crate::recorded::Recorded;
use crate::results::{Arrival, Cell, DiskInfo, EndedBy, MeasuredDisk};
use crate::run::CANARY;

/// Something that is not the same in both runs.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Differ {
    /// What: `kernel`.
    pub what: String,
    /// In A.
    pub a: String,
    /// In B.
    pub b: String,
}

/// Everything that differs and may be why figures do: machine, disk, kernel, program, profile.
pub(super) fn between(a: &Recorded, b: &Recorded, shared: &[Shared<'_>]) -> Vec<Differ> {
    let mut found = unlike(facts(a), facts(b));
    found.extend(disks(&a.environment.disks, &b.environment.disks));
    found.extend(time_measured(shared));
    let [of_a, of_b] = [a, b].map(|run| &run.environment.sysctls);
    let names: BTreeSet<&String> = of_a.keys().chain(of_b.keys()).collect();
    for name in names {
        let [a, b] = [of_a, of_b].map(|of| known(of.get(name)));
        if a != b {
            found.push(Differ { what: name.clone(), a, b });
        }
    }
    found.extend(profiles(a, b));
    found
}

/// Those of the same facts that differ.
fn unlike<T: Into<String>>(a: Vec<(T, String)>, b: Vec<(T, String)>) -> Vec<Differ> {
    let differ = a.into_iter().zip(b).filter(|((_, a), (_, b))| a != b);
    differ.map(|((what, a), (_, b))| Differ { what: what.into(), a, b }).collect()
}

fn facts(run: &Recorded) -> Vec<(&'static str, String)> {
    let Recorded { manifest, environment: env, .. } = run;
    let origin = &manifest.origin;
    let changes = if origin.dirty == Some(true) { ", with changes" } else { "" };
    let mut facts = vec![
        ("machine", format!("host {}", env.host_hash)),
        ("processor", known(env.cpu_model.as_ref())),
        ("cores", env.cores.to_string()),
        ("memory", env.memory_bytes.map_or_else(unknown, |bytes| format::bytes(float(bytes)))),
        ("virtual machine", env.virtual_machine.map_or_else(unknown, |is| is.to_string())),
        ("kernel", env.kernel.clone()),
    ];
    facts.extend(disk(&env.disk));
    facts.extend([
        ("version", origin.version.clone()),
        ("revision", format!("{}{changes}", known(origin.revision.as_ref()))),
        ("build", env.build.clone()),
        ("seed", manifest.seed.to_string()),
    ]);
    facts
}

fn disk(disk: &DiskInfo) -> [(&'static str, String); 7] {
    [
        ("directory", disk.path.clone()),
        ("disk", known(disk.device.as_ref())),
        ("disk model", known(disk.model.as_ref())),
        ("file system", known(disk.file_system.as_ref())),
        ("mount options", known(disk.mount_options.as_ref())),
        ("write cache", known(disk.write_cache.as_ref())),
        ("queue scheduler", known(disk.scheduler.as_ref())),
    ]
}

/// What differs of the disks beside the first that both have by name: the first is among the facts.
fn disks(a: &[MeasuredDisk], b: &[MeasuredDisk]) -> Vec<Differ> {
    let mut found = Vec::new();
    for (nth, of_a) in a.iter().enumerate() {
        let Some((place, of_b)) = b.iter().enumerate().find(|(_, of_b)| of_b.name == of_a.name)
        else {
            continue;
        };
        // What a disk was calibrated to differs from run to run, and says nothing by that.
        let facts = |one: &MeasuredDisk| -> Vec<(String, String)> {
            let own = if (nth, place) == (0, 0) { None } else { Some(disk(&one.info)) };
            let labels = ("labels", one.labels.join(", "));
            let facts = own.into_iter().flatten().chain([labels]);
            facts.map(|(what, value)| (format!("{}: {what}", one.name), value)).collect()
        };
        found.extend(unlike(facts(of_a), facts(of_b)));
    }
    found
}

/// The first row that was not measured as long, to a second.
///
/// Canaries are measured for five seconds at most, whatever the sweep says. Of a row the shortest
/// cell counts that ended by time: some go on until they have seen enough syncs.
fn time_measured(shared: &[Shared<'_>]) -> Option<Differ> {
    let time = |cells: &[&Cell]| {
        let by_time = cells.iter().filter(|cell| cell.ended_by == EndedBy::Time);
        by_time.map(|cell| round(float(cell.measured_ns) / 1e9)).min()
    };
    shared.iter().filter(|row| row.key.strategy != CANARY).find_map(|row| {
        let (a, b) = (time(row.a)?, time(row.b)?);
        let differ = Differ {
            what: "time measured".to_owned(),
            a: format!("{a} s"),
            b: format!("{b} s, of {}", row.key.label()),
        };
        (a != b).then_some(differ)
    })
}

/// The first line in which the profiles differ.
fn profiles(a: &Recorded, b: &Recorded) -> Option<Differ> {
    let [of_a, of_b] = [a, b].map(|run| run.manifest.profile.lines().collect::<Vec<_>>());
    let most = of_a.len().max(of_b.len());
    let nth = (0..most).find(|nth| of_a.get(*nth) != of_b.get(*nth))?;
    let said = |run: &Recorded, lines: &[&str]| {
        let line = lines.get(nth).map_or("no such line", |line| line.trim());
        format!("{}:{}: {line}", format::clipped(&run.manifest.sweep, 20), nth + 1)
    };
    let (a, b) = (said(a, &of_a), said(b, &of_b));
    Some(Differ { what: "profile".to_owned(), a, b })
}

fn known(value: Option<&String>) -> String {
    value.cloned().unwrap_or_else(unknown)
}

fn unknown() -> String {
    "unknown".to_owned()
}

/// How the loads of two rows differ that bear the same names; `None` if they do not.
pub(super) fn load(a: &[&Cell], b: &[&Cell]) -> Option<String> {
    let [of_a, of_b] = [parts(a.first()?), parts(b.first()?)];
    let differ = of_a.iter().zip(&of_b).filter(|(a, b)| a != b);
    let said: Vec<String> =
        differ.map(|((what, a), (_, b))| format!("{what} {a} and {b}")).collect();
    (!said.is_empty()).then(|| said.join("; "))
}

fn parts(cell: &Cell) -> [(&'static str, String); 9] {
    // A rate that was searched for is a figure; one that was given is a load.
    let given = cell.open_loop.filter(|open| open.promised_p99_ns.is_none());
    let is_open = if cell.open_loop.is_some() { "open" } else { "closed" };
    let arrival = match cell.open_loop.map(|open| open.arrival) {
        Some(Arrival::Constant) => "constant",
        Some(Arrival::Poisson) => "poisson",
        None => "on acknowledgement",
    };
    [
        ("message bytes", cell.message_bytes.to_string()),
        ("kind", crate::summary::kind_name(cell.kind).to_owned()),
        ("window", cell.window.to_string()),
        ("reader", cell.reader.to_string()),
        (
            "deletes",
            cell.deletes_every_ms.map_or_else(|| "never".to_owned(), |ms| format!("each {ms} ms")),
        ),
        ("loop", is_open.to_owned()),
        ("arrival", arrival.to_owned()),
        (
            "rate",
            given.map_or_else(|| "free".to_owned(), |open| format!("{:.0}", open.offered_per_s)),
        ),
        ("disk", cell.not_hardware().word().unwrap_or("hardware").to_owned()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::compare;
    use crate::compare::tests::run;
    use crate::results::{Kind, OpenLoop};
    use crate::results_fixture::{cell, open_loop};

    fn differences(a: &Recorded, b: &Recorded) -> Vec<(String, String, String)> {
        let found = compare(a, b).unwrap().differ;
        found.into_iter().map(|Differ { what, a, b }| (what, a, b)).collect()
    }

    #[track_caller]
    fn check(a: &Recorded, b: &Recorded, expect: &[[&str; 3]]) {
        let owned =
            |[what, a, b]: &[&str; 3]| ((*what).to_owned(), (*a).to_owned(), (*b).to_owned());
        assert_eq!(differences(a, b), expect.iter().map(owned).collect::<Vec<_>>());
    }

    #[test]
    fn what_may_be_the_reason_is_named() {
        let (a, mut b) = (run("a", 6, 1.0), run("b", 6, 1.0));
        assert!(differences(&a, &b).is_empty());
        b.environment.kernel = "6.1.0".to_owned();
        b.environment.sysctls.insert("vm.dirty_ratio".to_owned(), "50".to_owned());
        b.environment.disk.device = None;
        b.manifest.origin.dirty = Some(true);
        b.manifest.profile += "# another\n";
        let found = differences(&a, &b);
        let named: Vec<&str> = found.iter().map(|(what, _, _)| &**what).collect();
        assert_eq!(named, ["kernel", "disk", "revision", "vm.dirty_ratio", "profile"]);
        assert_eq!((&*found[1].1, &*found[1].2), ("vda", "unknown"));
    }

    #[test]
    fn the_time_measured_is_that_of_rows_and_not_of_canaries() {
        let with_canaries = |name: &str, seconds: u64| {
            let mut run = run(name, 6, 1.0);
            for cell in &mut run.cells {
                // Some end when all is written, and some go on.
                let more = if cell.block == 1 { 2_400_000_000 } else { 3_000 };
                cell.measured_ns = seconds * 1_000_000_000 + more;
                if cell.block == 2 {
                    (cell.measured_ns, cell.ended_by) = (1_000_000_000, EndedBy::Bytes);
                }
            }
            let canary = cell(Kind::GroupCommit, 1, 0, |c| {
                c.strategy = CANARY.to_owned();
                c.measured_ns = seconds.min(5) * 1_000_000_000;
            });
            run.cells.insert(0, canary);
            run
        };
        let (a, b) = (with_canaries("a", 5), with_canaries("b", 30));
        let row = "30 s, of raw ×8 (closed-1k, data, kernel-default)";
        check(&a, &b, &[["time measured", "5 s", row]]);
        check(&with_canaries("a", 3), &b, &[["time measured", "3 s", row]]);
        check(&a, &with_canaries("b", 5), &[]);
        let mut less = with_canaries("b", 5);
        less.cells.iter_mut().for_each(|cell| cell.measured_ns -= 5_000);
        check(&a, &less, &[]);
    }

    #[test]
    fn every_disk_is_looked_at() {
        let on_disks = |name: &str, second: &str, label: &str| {
            let mut run = run(name, 6, 1.0);
            let disk = |name: &str, device: &str, labels: &[&str]| MeasuredDisk {
                name: name.to_owned(),
                labels: labels.iter().map(|label| (*label).to_owned()).collect(),
                calibration: Some(format!("as in {}", run.manifest.run)),
                sync_p50_ns: 1,
                info: DiskInfo { device: Some(device.to_owned()), ..run.environment.disk.clone() },
            };
            let disks = vec![disk("data", "vda", &[label]), disk("fast", second, &[])];
            run.environment.disks = disks;
            run
        };
        let a = on_disks("a", "nvme0n1", "");
        check(&a, &on_disks("b", "nvme0n1", ""), &[]);
        let other = on_disks("b", "nvme1n1", "EMULATED");
        let expect = [["data: labels", "", "EMULATED"], ["fast: disk", "nvme0n1", "nvme1n1"]];
        check(&a, &other, &expect);
    }

    #[test]
    fn the_first_line_in_which_profiles_differ_is_shown() {
        let (mut a, mut b) = (run("a", 6, 1.0), run("b", 6, 1.0));
        a.manifest.profile = "schema: x\nblocks: 6\nseed: 1\n".to_owned();
        b.manifest.profile = "schema: x\nblocks: 7\nseed: 2\n".to_owned();
        check(&a, &b, &[["profile", "default:2: blocks: 6", "default:2: blocks: 7"]]);
        b.manifest.profile = "schema: x\nblocks: 6\n".to_owned();
        check(&a, &b, &[["profile", "default:3: seed: 1", "default:3: no such line"]]);
    }

    #[test]
    fn how_messages_arrive_is_part_of_the_load() {
        let of = |arrival| {
            cell(Kind::GroupCommit, 8, 0, |c| {
                c.open_loop = Some(OpenLoop { arrival, ..open_loop() });
            })
        };
        let (constant, poisson) = (of(Arrival::Constant), of(Arrival::Poisson));
        assert_eq!(load(&[&poisson], &[&poisson]), None);
        let said = load(&[&constant], &[&poisson]);
        assert_eq!(said.as_deref(), Some("arrival constant and poisson"));
    }
}
