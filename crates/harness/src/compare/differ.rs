//! What differs between two runs besides the figures, and between the loads of two cells.

use serde::Serialize;

use crate::clock::float;
use crate::format;
use crate::recorded::Recorded;
use crate::results::Cell;

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
pub(super) fn between(a: &Recorded, b: &Recorded) -> Vec<Differ> {
    let facts = facts(a).into_iter().zip(facts(b));
    let mut found: Vec<Differ> = facts
        .filter(|((_, a), (_, b))| a != b)
        .map(|((what, a), (_, b))| Differ { what: what.to_owned(), a, b })
        .collect();
    let [of_a, of_b] = [a, b].map(|run| &run.environment.sysctls);
    let names = of_a.keys().chain(of_b.keys()).collect::<std::collections::BTreeSet<_>>();
    for name in names {
        let [a, b] = [of_a, of_b].map(|of| known(of.get(name)));
        if a != b {
            found.push(Differ { what: name.clone(), a, b });
        }
    }
    if a.manifest.profile != b.manifest.profile {
        let said = |run: &Recorded| format!("sweep {}", run.manifest.sweep);
        found.push(Differ { what: "profile".to_owned(), a: said(a), b: said(b) });
    }
    found
}

fn facts(run: &Recorded) -> Vec<(&'static str, String)> {
    let Recorded { manifest, environment: env, .. } = run;
    let (disk, origin) = (&env.disk, &manifest.origin);
    let changes = if origin.dirty == Some(true) { ", with changes" } else { "" };
    let mut facts = vec![
        ("machine", format!("host {}", env.host_hash)),
        ("processor", known(env.cpu_model.as_ref())),
        ("cores", env.cores.to_string()),
        ("memory", env.memory_bytes.map_or_else(unknown, |bytes| format::bytes(float(bytes)))),
        ("virtual machine", env.virtual_machine.map_or_else(unknown, |is| is.to_string())),
        ("kernel", env.kernel.clone()),
        ("directory", disk.path.clone()),
        ("disk", known(disk.device.as_ref())),
        ("disk model", known(disk.model.as_ref())),
        ("file system", known(disk.file_system.as_ref())),
        ("mount options", known(disk.mount_options.as_ref())),
        ("write cache", known(disk.write_cache.as_ref())),
        ("queue scheduler", known(disk.scheduler.as_ref())),
        ("version", origin.version.clone()),
        ("revision", format!("{}{changes}", known(origin.revision.as_ref()))),
        ("build", env.build.clone()),
        ("seed", manifest.seed.to_string()),
    ];
    let measured = run.cells.first().map_or(0, |cell| cell.measured_ns / 1_000_000_000);
    facts.push(("time measured", format!("{measured} s")));
    facts
}

fn known(value: Option<&String>) -> String {
    value.cloned().unwrap_or_else(unknown)
}

fn unknown() -> String {
    "unknown".to_owned()
}

/// How the loads of two cells differ that bear the same names; `None` if they do not.
pub(super) fn load(a: &Cell, b: &Cell) -> Option<String> {
    let [of_a, of_b] = [a, b].map(parts);
    let differ = of_a.iter().zip(&of_b).filter(|(a, b)| a != b);
    let said: Vec<String> =
        differ.map(|((what, a), (_, b))| format!("{what} {a} and {b}")).collect();
    (!said.is_empty()).then(|| said.join("; "))
}

fn parts(cell: &Cell) -> [(&'static str, String); 7] {
    // A rate that was searched for is a figure; one that was given is a load.
    let given = cell.open_loop.filter(|open| open.promised_p99_ns.is_none());
    let is_open = if cell.open_loop.is_some() { "open" } else { "closed" };
    [
        ("message bytes", cell.message_bytes.to_string()),
        ("kind", crate::summary::kind_name(cell.kind).to_owned()),
        ("window", cell.window.to_string()),
        ("reader", cell.reader.to_string()),
        ("loop", is_open.to_owned()),
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
    use crate::compare::tests::run;

    #[test]
    fn what_may_be_the_reason_is_named() {
        let (a, mut b) = (run("a", 6, 1.0), run("b", 6, 1.0));
        assert!(between(&a, &b).is_empty());
        b.environment.kernel = "6.1.0".to_owned();
        b.environment.sysctls.insert("vm.dirty_ratio".to_owned(), "50".to_owned());
        b.environment.disk.device = None;
        b.manifest.origin.dirty = Some(true);
        b.manifest.profile += "# another\n";
        let found = between(&a, &b);
        let named: Vec<&str> = found.iter().map(|one| &*one.what).collect();
        assert_eq!(named, ["kernel", "disk", "revision", "vm.dirty_ratio", "profile"]);
        assert_eq!((&*found[1].a, &*found[1].b), ("vda", "unknown"));
    }
}
