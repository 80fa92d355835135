//! The files that come with the program: each is read, and says what its comments say.

use std::collections::BTreeMap;

use crashlab::block::{DiskType, FsKind};

use super::*;
use crate::sysctl::{DirtySettings, Key};

/// The names of the files in a folder of `profiles`.
fn shipped(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(root().join("profiles").join(folder)).unwrap();
    let files = entries.map(|entry| PathBuf::from(entry.unwrap().file_name()));
    let mut names: Vec<String> =
        files.map(|file| file.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

/// A sweep that takes from one of the folders everything that there is.
#[track_caller]
fn all_of(folder: &str) -> Sweep {
    let names = shipped(folder).join(", ");
    let matrix = if folder == "workloads" {
        format!("{{workloads: [{names}], strategies: [s]}}")
    } else {
        format!("{{{folder}: [{names}], workloads: [w], strategies: [s]}}")
    };
    let text = GOOD.replacen("{workloads: [w], strategies: [s]}", &matrix, 1);
    Sweep::parse_within("p.yaml", &text, &root()).unwrap()
}

#[test]
fn every_sweep_is_read_and_warns_of_what_is_meant_to_be_so() {
    let warnings: BTreeMap<String, Vec<String>> = shipped("sweeps")
        .into_iter()
        .map(|name| {
            let sweep = Sweep::load(&name, &root()).unwrap();
            assert_eq!(sweep.name, name);
            let warnings = sweep.warnings.iter();
            (name, warnings.map(|warning| warning.message.clone()).collect())
        })
        .collect();
    let names: Vec<&str> = warnings.keys().map(String::as_str).collect();
    let shipped = [
        "deletes",
        "disks",
        "files",
        "full",
        "group-commit",
        "quick",
        "rates",
        "reader",
        "simulated",
        "sync-vs-async",
        "sysctl",
        "tiny",
    ];
    assert_eq!(names, shipped);
    let few = |blocks| {
        vec![format!(
            "run.blocks: {blocks} gives no 95 % interval for a median (needs 6): the figures are \
             indicative"
        )]
    };
    assert_eq!((&warnings["quick"], &warnings["tiny"]), (&few(3), &few(1)));
    // Virtual time repeats itself.
    assert_eq!(warnings["simulated"], few(1));
    assert_eq!(
        warnings["sysctl"],
        ["sysctls.rocketmq-os-sh: background 50% >= limit 50%: the kernel will use half the \
          limit (25%)"]
    );
    let long = "deletes disks files full group-commit rates reader sync-vs-async";
    for name in long.split(' ') {
        assert_eq!(warnings[name], [""; 0], "{name}");
        assert_eq!(Sweep::load(name, &root()).unwrap().blocks, 7);
    }
}

/// The time that the cells alone take is within what a sweep allows itself.
#[test]
fn every_sweep_fits_its_budget() {
    for name in shipped("sweeps") {
        let sweep = Sweep::load(&name, &root()).unwrap();
        let producers: usize = sweep.workloads.iter().map(|work| work.producers.len()).sum();
        let cells = producers * sweep.strategies.len() * sweep.disks.len() * sweep.sysctls.len();
        let cells = u32::try_from(cells).unwrap() * sweep.blocks;
        let each = sweep.warmup + sweep.measure + sweep.settle;
        assert!(each * cells < sweep.budget, "{name}: {:?}", each * cells);
    }
}

#[test]
fn the_record_of_a_sweep_gives_it_again_without_the_files() {
    for name in shipped("sweeps") {
        let sweep = Sweep::load(&name, &root()).unwrap();
        let again = Sweep::parse("profile.yaml", &sweep.text).unwrap();
        assert_eq!(again.text, sweep.text);
        let without = |sweep: Sweep| Sweep { warnings: Vec::new(), ..sweep };
        assert_eq!(without(again), without(sweep), "{name}");
    }
    let full = Sweep::load("full", &root()).unwrap().text;
    let own = fs::read_to_string(root().join("profiles/sweeps/full.yaml")).unwrap();
    let mixed = fs::read_to_string(root().join("profiles/workloads/mixed.yaml")).unwrap();
    assert!(full.starts_with(&own));
    assert!(full.contains(&format!("\n--- # profiles/workloads/mixed.yaml\n{mixed}--- # ")));
    // Nothing is added where nothing is taken.
    let quick = fs::read_to_string(root().join("profiles/sweeps/quick.yaml")).unwrap();
    assert_eq!(Sweep::load("quick", &root()).unwrap().text, quick);
}

#[test]
fn kernel_settings_are_those_that_their_names_stand_for() {
    let found: BTreeMap<String, Sysctls> =
        all_of("sysctls").sysctls.into_iter().map(|set| (set.name.clone(), set)).collect();
    let check = |name: &str, background: (Key, u64), limit: (Key, u64), times: [u64; 2]| {
        // 0 is none.
        let times = [Key::ExpireCentisecs, Key::WritebackCentisecs].into_iter().zip(times);
        let mut expect = DirtySettings::default();
        for (key, value) in [background, limit].into_iter().chain(times.filter(|time| time.1 > 0)) {
            expect.set(key, value).unwrap();
        }
        assert_eq!(found[name], Sysctls { name: name.to_owned(), settings: expect });
    };
    let ratios = |background, limit| ((Key::BackgroundRatio, background), (Key::Ratio, limit));
    let mib = |background: u64, limit: u64| {
        ((Key::BackgroundBytes, background << 20), (Key::Bytes, limit << 20))
    };
    for (name, (background, limit), times) in [
        ("broker-guide", ratios(10, 20), [3000, 0]),
        ("huge", ratios(80, 90), [360_000, 360_000]),
        ("kernel-default", ratios(10, 20), [3000, 500]),
        ("low-latency", mib(32, 1024), [100, 50]),
        ("rocketmq-os-sh", ratios(50, 50), [0, 360_000]),
        ("small-bytes", mib(64, 256), [0, 0]),
    ] {
        check(name, background, limit, times);
    }
    assert_eq!(found.len(), 6);
}

#[test]
fn workloads_are_those_that_their_names_stand_for() {
    let found: BTreeMap<String, Workload> =
        all_of("workloads").workloads.into_iter().map(|work| (work.name.clone(), work)).collect();
    let poisson = Arrival::Poisson;
    let check = |name: &str, bytes, producers: &[u32], window, pace| {
        let expect = Workload {
            name: name.to_owned(),
            message_bytes: bytes,
            producers: producers.to_vec(),
            window,
            pace,
            reader: false,
            deletes_every: None,
        };
        assert_eq!(found[name], expect);
    };
    let one = MessageBytes::one;
    let burst = Burst { messages: 2000, every: Duration::from_secs(2) };
    let bursts = Pace::Rate { per_s: 1000, arrival: poisson, burst: Some(burst) };
    check("bursts", one(1024), &[16], 256, bursts);
    let search = Pace::FindRate { p99: Duration::from_millis(10), arrival: poisson };
    check("find-rate", one(1024), &[16], 256, search);
    check("large", one(16 << 10), &[8], 1, Pace::Closed);
    let share = |bytes, percent| Share { bytes, percent };
    let mix = MessageBytes::mix(vec![share(128, 70), share(1024, 25), share(16 << 10, 5)]);
    check("mixed", mix.unwrap(), &[8], 1, Pace::Closed);
    check("payments", one(1024), &[1, 8, 64], 1, Pace::Closed);
    let rate = Pace::Rate { per_s: 10_000, arrival: poisson, burst: None };
    check("telemetry", one(128), &[16], 256, rate);
    assert_eq!(found.len(), 6);
}

#[test]
fn disks_are_those_that_their_names_stand_for() {
    let disks = all_of("disks").disks;
    let found: BTreeMap<&str, &DiskSpec> =
        disks.iter().map(|disk| (disk.name.as_str(), &disk.spec)).collect();
    assert_eq!(found["host"], &Disk::host().spec);
    assert_eq!(found["tmpfs"], &DiskSpec::Tmpfs { bytes: 2 << 30 });
    for (name, file_system) in [("loop-ext4", FsKind::Ext4), ("loop-xfs", FsKind::Xfs)] {
        let expect = DiskSpec::Loop {
            backing: None,
            file_system,
            mount_options: "noatime".to_owned(),
            bytes: 2 << 30,
        };
        assert_eq!(found[name], &expect);
    }
    for disk_type in DiskType::ALL {
        let (file_system, mount_options) = (FsKind::Ext4, String::new());
        let expect = DiskSpec::Emulated { disk_type, file_system, mount_options, bytes: 2 << 30 };
        assert_eq!(found[disk_type.name()], &expect);
    }
    for disk_type in [DiskType::NvmeNoPlp, DiskType::Hdd7200] {
        let name = format!("simulated-{disk_type}");
        assert_eq!(found[name.as_str()], &DiskSpec::Simulated { disk_type });
    }
    assert_eq!(found.len(), 4 + DiskType::ALL.len() + 2);
}
