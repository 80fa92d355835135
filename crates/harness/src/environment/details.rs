//! What of a machine beyond its name moves figures: its processors' clock, its memory, its limits.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// What is known of the machine and of what this process may take of it. What is not there, as a
/// clock that a virtual machine cannot set, is `null`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct MachineDetails {
    /// Processors that are switched on, as a list of ranges.
    pub online_processors: Option<String>,
    /// Those of them that this process may run on.
    pub allowed_processors: Option<String>,
    /// Nodes of memory.
    pub numa_nodes: Option<u64>,
    /// How the processors' clock is chosen; several where they differ, joined by `, `.
    pub governor: Option<String>,
    /// Whether the clock may rise above its nominal rate.
    pub turbo: Option<bool>,
    /// When memory comes in huge pages: `always`, `madvise` or `never`.
    pub transparent_hugepages: Option<String>,
    /// Size of the swap space; 0 is none.
    pub swap_bytes: Option<u64>,
    /// What the control group allows.
    pub cgroup: Cgroup,
    /// Soft limits of this process: `memlock`, `nofile` and `fsize`, as the kernel words them.
    pub ulimits: BTreeMap<String, String>,
}

/// What a control group allows; `null` is no limit that can be seen.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct Cgroup {
    /// 1 or 2; of a hybrid, that which has the memory controller.
    pub version: Option<u64>,
    /// Memory, page cache included.
    pub memory_bytes: Option<u64>,
    /// Processors' worth of time.
    pub processors: Option<f64>,
    /// Limits on disks as the kernel words them, each with the device's number first.
    pub io: Vec<String>,
}

/// What `/proc` and `/sys` below `root` say.
pub(super) fn read(root: &Path) -> MachineDetails {
    let word = |path: &str| word(&root.join(path));
    let status = word("proc/self/status");
    let allowed = status.as_deref().and_then(|text| value(text, "Cpus_allowed_list:"));
    let meminfo = word("proc/meminfo");
    let swap = meminfo.as_deref().and_then(|text| value(text, "SwapTotal:"));
    MachineDetails {
        online_processors: word("sys/devices/system/cpu/online"),
        allowed_processors: allowed,
        numa_nodes: numa_nodes(&root.join("sys/devices/system/node")),
        governor: governor(&root.join("sys/devices/system/cpu")),
        turbo: turbo(&root.join("sys/devices/system/cpu")),
        transparent_hugepages: word("sys/kernel/mm/transparent_hugepage/enabled")
            .map(|list| crate::disk::chosen(&list)),
        swap_bytes: swap.and_then(|text| kib(&text)),
        cgroup: cgroup(root),
        ulimits: word("proc/self/limits").map(|text| ulimits(&text)).unwrap_or_default(),
    }
}

fn word(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// What follows `name` in the line that begins with it.
fn value(text: &str, name: &str) -> Option<String> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim().to_owned())
}

fn kib(text: &str) -> Option<u64> {
    text.strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

fn numa_nodes(at: &Path) -> Option<u64> {
    let is_node =
        |name: &str| name.strip_prefix("node").is_some_and(|number| number.parse::<u32>().is_ok());
    let entries = fs::read_dir(at).ok()?.flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    Some(store_core::length_u64(names.filter(|name| is_node(name)).count()))
}

fn governor(at: &Path) -> Option<String> {
    let entries = fs::read_dir(at).ok()?.flatten();
    let mut found: Vec<String> =
        entries.filter_map(|entry| word(&entry.path().join("cpufreq/scaling_governor"))).collect();
    found.sort();
    found.dedup();
    (!found.is_empty()).then(|| found.join(", "))
}

/// Intel's driver says what is forbidden, the others what is allowed.
fn turbo(at: &Path) -> Option<bool> {
    let forbidden = word(&at.join("intel_pstate/no_turbo")).map(|word| word == "0");
    forbidden.or_else(|| word(&at.join("cpufreq/boost")).map(|word| word == "1"))
}

/// The first number of a line of `/proc/self/limits`, of which there is one for each of these.
fn ulimits(text: &str) -> BTreeMap<String, String> {
    [("Max locked memory", "memlock"), ("Max open files", "nofile"), ("Max file size", "fsize")]
        .into_iter()
        .filter_map(|(line, name)| {
            let rest = value(text, line)?;
            Some((name.to_owned(), rest.split_whitespace().next()?.to_owned()))
        })
        .collect()
}

/// The least that a process's group and the groups above it allow, where they are mounted in the
/// usual place.
fn cgroup(root: &Path) -> Cgroup {
    let groups = word(&root.join("proc/self/cgroup")).unwrap_or_default();
    let at = root.join("sys/fs/cgroup");
    let path_of = |controller: &str| {
        groups.lines().find_map(|line| {
            let (_, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            let is_it = controllers.split(',').any(|name| name == controller);
            is_it.then(|| path.trim_start_matches('/').to_owned())
        })
    };
    let first = |controller: &str| {
        let path = path_of(controller)?;
        Some(Levels { mount: at.join(controller), path })
    };
    let unified = Levels { mount: at.clone(), path: path_of("").unwrap_or_default() };
    if at.join("cgroup.controllers").exists() {
        return Cgroup {
            version: Some(2),
            memory_bytes: unified.least("memory.max", |text| text.parse().ok()),
            processors: unified.least("cpu.max", |text| {
                let (quota, period) = text.split_once(' ')?;
                Some(quota.parse::<f64>().ok()? / period.parse::<f64>().ok()?)
            }),
            io: unified.lines(&["io.max"]),
        };
    }
    let (memory, cpu, blkio) = (first("memory"), first("cpu"), first("blkio"));
    Cgroup {
        version: memory.is_some().then_some(1),
        memory_bytes: memory.and_then(|levels| {
            let parsed = |text: &str| text.parse().ok().filter(|bytes| *bytes < NO_LIMIT);
            levels.least("memory.limit_in_bytes", parsed)
        }),
        processors: cpu.and_then(|levels| {
            let number = |level: &Path, file: &str| word(&level.join(file))?.parse::<f64>().ok();
            let share = |level: &Path| {
                let quota = number(level, "cpu.cfs_quota_us").filter(|quota| *quota > 0.0)?;
                Some(quota / number(level, "cpu.cfs_period_us")?)
            };
            levels.levels().iter().filter_map(|level| share(level)).reduce(f64::min)
        }),
        io: blkio.map_or_else(Vec::new, |levels| levels.lines(&BLKIO)),
    }
}

/// A group and those above it.
struct Levels {
    mount: PathBuf,
    path: String,
}

impl Levels {
    /// The file of that name in each of them, from the group itself up to the root's.
    fn each(&self, file: &str) -> Vec<String> {
        self.levels().iter().filter_map(|level| word(&level.join(file))).collect()
    }

    fn levels(&self) -> Vec<PathBuf> {
        let group = self.mount.join(&self.path);
        let levels = group.ancestors().take_while(|level| level.starts_with(&self.mount));
        levels.map(Path::to_owned).collect()
    }

    fn least<T: PartialOrd>(&self, file: &str, parse: impl Fn(&str) -> Option<T>) -> Option<T> {
        let all = self.each(file).into_iter().filter_map(|text| parse(&text));
        all.reduce(|least, one| if one < least { one } else { least })
    }

    fn lines(&self, files: &[&str]) -> Vec<String> {
        let of = |file: &&str| {
            let lines = self.each(file);
            let named = file.strip_prefix("blkio.throttle.").map(str::to_owned);
            let each = lines.iter().flat_map(|text| text.lines());
            each.map(|line| match &named {
                Some(name) => format!("{line} {name}"),
                None => line.to_owned(),
            })
            .collect::<Vec<_>>()
        };
        files.iter().flat_map(of).collect()
    }
}

/// Version 1 has no word for no limit: it is the largest that fits in pages.
const NO_LIMIT: u64 = 1 << 62;

/// Where version 1 keeps its limits on disks.
const BLKIO: [&str; 4] = [
    "blkio.throttle.read_bps_device",
    "blkio.throttle.read_iops_device",
    "blkio.throttle.write_bps_device",
    "blkio.throttle.write_iops_device",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(files: &[(&str, &str)]) -> MachineDetails {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        read(root.path())
    }

    #[test]
    fn a_machine_that_tells_nothing_is_not_guessed() {
        assert_eq!(machine(&[]), MachineDetails::default());
    }

    #[test]
    fn processors_memory_and_limits_are_read() {
        let found = machine(&[
            ("sys/devices/system/cpu/online", "0-3\n"),
            ("proc/self/status", "Name:\ta\nCpus_allowed_list:\t0,2\n"),
            ("sys/devices/system/node/node0/meminfo", "x"),
            ("sys/devices/system/node/node1/meminfo", "x"),
            ("sys/devices/system/node/has_cpu", "0"),
            ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n"),
            ("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "powersave\n"),
            ("sys/devices/system/cpu/cpu2/cpufreq/scaling_governor", "performance\n"),
            ("sys/devices/system/cpu/intel_pstate/no_turbo", "1\n"),
            ("sys/devices/system/cpu/cpufreq/boost", "1\n"),
            ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
            ("proc/meminfo", "MemTotal: 9 kB\nSwapTotal:       2048 kB\n"),
            (
                "proc/self/limits",
                "Limit    Soft Limit   Hard Limit   Units\n\
                 Max locked memory         8388608              unlimited            bytes\n\
                 Max file size             unlimited            unlimited            bytes\n\
                 Max open files            1024                 4096                 files\n",
            ),
        ]);
        assert_eq!(found.online_processors.as_deref(), Some("0-3"));
        assert_eq!(found.allowed_processors.as_deref(), Some("0,2"));
        assert_eq!((found.numa_nodes, found.turbo), (Some(2), Some(false)));
        assert_eq!(found.governor.as_deref(), Some("performance, powersave"));
        assert_eq!(found.transparent_hugepages.as_deref(), Some("madvise"));
        assert_eq!(found.swap_bytes, Some(2 << 20));
        let limits = [("fsize", "unlimited"), ("memlock", "8388608"), ("nofile", "1024")];
        assert_eq!(found.ulimits, limits.map(|(a, b)| (a.to_owned(), b.to_owned())).into());
    }

    #[test]
    fn the_least_that_any_level_of_a_group_allows_holds() {
        let found = machine(&[
            ("proc/self/cgroup", "0::/a/b\n"),
            ("sys/fs/cgroup/cgroup.controllers", "cpu io memory\n"),
            ("sys/fs/cgroup/a/memory.max", "1000000\n"),
            ("sys/fs/cgroup/a/b/memory.max", "max\n"),
            ("sys/fs/cgroup/a/b/cpu.max", "150000 100000\n"),
            ("sys/fs/cgroup/a/cpu.max", "max 100000\n"),
            ("sys/fs/cgroup/a/b/io.max", "8:0 rbps=max wbps=1048576 riops=max wiops=max\n"),
        ]);
        let expect = Cgroup {
            version: Some(2),
            memory_bytes: Some(1_000_000),
            processors: Some(1.5),
            io: vec!["8:0 rbps=max wbps=1048576 riops=max wiops=max".to_owned()],
        };
        assert_eq!(found.cgroup, expect);
    }

    #[test]
    fn the_first_version_of_groups_is_understood() {
        let found = machine(&[
            ("proc/self/cgroup", "7:blkio:/\n4:memory:/m/n\n1:cpu,cpuacct:/c/d\n0::/\n"),
            ("sys/fs/cgroup/memory/m/n/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/memory/m/memory.limit_in_bytes", "4096000\n"),
            ("sys/fs/cgroup/cpu/c/d/cpu.cfs_quota_us", "200000\n"),
            ("sys/fs/cgroup/cpu/c/d/cpu.cfs_period_us", "100000\n"),
            ("sys/fs/cgroup/cpu/c/cpu.cfs_quota_us", "50000\n"),
            ("sys/fs/cgroup/cpu/c/cpu.cfs_period_us", "10000\n"),
            ("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"),
            ("sys/fs/cgroup/blkio/blkio.throttle.write_iops_device", "254:0 100\n254:16 5\n"),
        ]);
        let io = ["254:0 100 write_iops_device", "254:16 5 write_iops_device"];
        let expect = Cgroup {
            version: Some(1),
            memory_bytes: Some(4_096_000),
            processors: Some(2.0),
            io: io.map(str::to_owned).to_vec(),
        };
        assert_eq!(found.cgroup, expect);
    }
}
