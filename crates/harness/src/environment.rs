//! Where a run ran, and what that says about its figures.
//!
//! [`capture`] reads; [`checks`] judges what was read, by the rules of the method, and reads
//! nothing. No host name, serial number or user name is kept: a result is made to be shown.

mod details;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

pub use self::details::{Cgroup, MachineDetails};
use crate::disk::{self, Probe};
use crate::results::{Check, DiskInfo, ENV_SCHEMA, Environment, Level, Names};

/// All that is known of this machine and of the disk under `dir`.
///
/// # Errors
///
/// If `dir` is not a directory that can be looked at, or `/proc` is not mounted.
pub fn capture(dir: &Path) -> Result<Environment> {
    let cpuinfo = read("/proc/cpuinfo");
    let dmi = ["sys_vendor", "product_name", "product_version"]
        .map(|name| read(&format!("/sys/class/dmi/id/{name}")).unwrap_or_default());
    let hypervisor = HYPERVISOR_FILES.iter().any(|path| Path::new(path).exists());
    Ok(Environment {
        schema: ENV_SCHEMA.to_owned(),
        host_hash: short_hash(&read_needed(HOST_NAME)?),
        names: None,
        kernel: read_needed("/proc/sys/kernel/osrelease")?,
        distribution: ["/etc/os-release", "/usr/lib/os-release"]
            .iter()
            .find_map(|path| pretty_name(&read(path)?)),
        virtual_machine: virtual_machine(cpuinfo.as_deref(), &dmi, hypervisor),
        cpu_model: cpuinfo.as_deref().and_then(cpu_model),
        cores: cores(),
        memory_bytes: read("/proc/meminfo").as_deref().and_then(memory_bytes),
        clocksource: read("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        clock_step_ns: clock_step_ns(),
        build: build(),
        sysctls: sysctls(),
        disk: disk::inspect(dir)?,
        disks: Vec::new(),
        machine: details::read(Path::new("/")),
    })
}

/// The names behind the hashes, for who wants them in the record.
///
/// # Errors
///
/// If the host's name cannot be read.
pub fn names(environment: &Environment) -> Result<Names> {
    let measured = environment.disks.iter().map(|disk| &disk.info).chain([&environment.disk]);
    let devices = measured.flat_map(|disk| &disk.details.device_chain);
    let serials = devices.filter_map(|name| Some((name.clone(), disk::serial(name)?)));
    Ok(Names { host: read_needed(HOST_NAME)?, serials: serials.collect() })
}

const HOST_NAME: &str = "/proc/sys/kernel/hostname";

/// What the environment makes of a run's figures: each check of it, passed or not.
///
/// `allow_in_memory` says that a disk in memory was asked for; it then is a label, and so is a sync
/// that does nothing, which on such a disk cannot be otherwise.
pub fn checks(env: &Environment, probe: &Probe, allow_in_memory: bool) -> Vec<Check> {
    let disk = &env.disk;
    vec![
        in_memory(disk, allow_in_memory),
        overlay(disk),
        sync_no_op(probe, disk.in_memory && allow_in_memory),
        barriers(disk),
        write_cache(disk),
        virtual_machine_check(env.virtual_machine),
        emulated_disk(disk),
        clocksource(env.clocksource.as_deref()),
        clock_step(env.clock_step_ns),
        compression(disk),
        io_limits(disk, &env.machine.cgroup),
        memory_limit(env),
        governor(env.machine.governor.as_deref()),
        free_space(disk),
        debug_build(&env.build),
    ]
}

fn in_memory(disk: &DiskInfo, allowed: bool) -> Check {
    let level = match (disk.in_memory, allowed) {
        (false, _) => Level::Pass,
        (true, true) => Level::Label,
        (true, false) => Level::Invalid,
    };
    let rule = "the file system lies on a disk, not in memory, unless that was asked for";
    check("in_memory", level, file_system(disk), rule)
}

fn overlay(disk: &DiskInfo) -> Check {
    let is_overlay = disk.file_system.as_deref() == Some("overlay");
    let (level, value) = match (is_overlay, has_option(disk, "volatile")) {
        (false, _) => (Level::Pass, file_system(disk)),
        (true, false) => (Level::Label, "overlay: which disk is below is not known".to_owned()),
        (true, true) => (Level::Invalid, "overlay, volatile: syncs are skipped".to_owned()),
    };
    check("overlay", level, value, "the directory does not lie on an overlay; never a volatile one")
}

fn sync_no_op(probe: &Probe, expected: bool) -> Check {
    let level = match (probe.no_op, expected) {
        (false, _) => Level::Pass,
        (true, true) => Level::Label,
        (true, false) => Level::Invalid,
    };
    let value = format!("p50 {} ns of {} syncs", probe.sync_ns_p50, probe.syncs);
    check("sync_no_op", level, value, "a sync of 4 KiB takes 5 µs or more: less reaches no device")
}

fn barriers(disk: &DiskInfo) -> Check {
    let found = NO_BARRIERS.iter().find(|option| has_option(disk, option));
    let level = if found.is_some() { Level::Warn } else { Level::Pass };
    let value = found.map_or_else(|| "no such option".to_owned(), |option| (*option).to_owned());
    check("barriers", level, value, "no mount option keeps flushes from the device")
}

pub(crate) fn write_cache(disk: &DiskInfo) -> Check {
    let (level, value) = match disk.write_cache.as_deref() {
        Some("write through") => (Level::Pass, "write through: no volatile cache reported"),
        Some("write back") => {
            (Level::Label, "write back: durable only if the device honours flushes")
        }
        Some(_) | None => (Level::Label, "not known"),
    };
    let rule = "the device reports no volatile write cache";
    check("write_cache", level, value.to_owned(), rule)
}

fn virtual_machine_check(found: Option<bool>) -> Check {
    let (level, value) = match found {
        Some(false) => (Level::Pass, "no hypervisor found"),
        Some(true) => (Level::Label, "virtual machine: persistence cannot be verified inside a VM"),
        None => (Level::Label, "not known: persistence cannot be verified inside a VM"),
    };
    check("virtual_machine", level, value.to_owned(), "the machine is not virtual")
}

fn emulated_disk(disk: &DiskInfo) -> Check {
    let level = if disk.emulated { Level::Label } else { Level::Pass };
    let device = disk.device.clone().unwrap_or_else(|| "no block device".to_owned());
    check(
        "emulated_disk",
        level,
        device,
        "the device is not a loop, device mapper, md, nbd or zram",
    )
}

/// Latencies are differences of two looks at the clock.
fn clock_step(found: Option<u64>) -> Check {
    let is_fine = found.is_some_and(|step| step <= 1000);
    let level = if is_fine { Level::Pass } else { Level::Warn };
    let value = found.map_or_else(|| "not known".to_owned(), |step| format!("{step} ns"));
    check("clock_step", level, value, "the clock moves in steps of 1 µs or less")
}

/// Bodies are random bytes, which nothing makes smaller; a user's may be.
fn compression(disk: &DiskInfo) -> Check {
    let options = disk.mount_options.iter().flat_map(|options| options.split(','));
    let found = options.into_iter().find(|option| option.starts_with("compress"));
    let compresses = found.is_some() || disk.file_system.as_deref() == Some("zfs");
    let level = if compresses { Level::Label } else { Level::Pass };
    let value = found.map_or_else(|| file_system(disk), str::to_owned);
    let rule = "the file system compresses nothing: bodies are random, as few users' are";
    check("compression", level, value, rule)
}

/// A control group's limits on a disk make another disk of it.
fn io_limits(disk: &DiskInfo, cgroup: &Cgroup) -> Check {
    let found: Vec<&str> = io_limits_of(disk, cgroup).collect();
    let level = if found.is_empty() { Level::Pass } else { Level::Label };
    let value = if found.is_empty() { "none seen".to_owned() } else { found.join("; ") };
    check("io_limits", level, value, "no control group limits this process on the disk")
}

/// Whether a control group limits this process on the disk.
pub(crate) fn is_limited(disk: &DiskInfo) -> bool {
    io_limits_of(disk, &details::read(Path::new("/")).cgroup).next().is_some()
}

/// Those that concern the disk, by the numbers of its devices; all where these are not known.
fn io_limits_of<'a>(disk: &'a DiskInfo, cgroup: &'a Cgroup) -> impl Iterator<Item = &'a str> {
    let number = disk.details.device_number.as_deref();
    let whole = number.and_then(|number| number.split_once(':')).map(|(major, _)| major);
    cgroup.io.iter().map(String::as_str).filter(move |line| {
        // A limit is on the whole disk, whose partitions have other minor numbers.
        let major = line.split_once(':').map(|(major, _)| major);
        whole.is_none_or(|whole| major == Some(whole))
    })
}

/// In version 2 the dirty limits follow the group's memory, whatever the machine's settings are.
fn memory_limit(env: &Environment) -> Check {
    let cgroup = &env.machine.cgroup;
    let limited =
        cgroup.memory_bytes.filter(|limit| env.memory_bytes.is_none_or(|all| *limit < all));
    let (level, value) = match limited {
        None => (Level::Pass, "none seen".to_owned()),
        Some(bytes) => {
            let is_followed = cgroup.version == Some(2);
            let level = if is_followed { Level::Warn } else { Level::Label };
            (level, crate::format::bytes(crate::clock::float(bytes)))
        }
    };
    let rule = "no control group leaves this process less memory than the machine has: its page \
        cache, and in version 2 its dirty limits, follow that";
    check("memory_limit", level, value, rule)
}

fn governor(found: Option<&str>) -> Check {
    let level =
        if found.is_none_or(|name| name == "performance") { Level::Pass } else { Level::Warn };
    let value = found.unwrap_or("none: the clock is not this system's to set").to_owned();
    check("governor", level, value, "the processors' clock is governed by `performance`")
}

fn clocksource(found: Option<&str>) -> Check {
    let is_quick = found.is_some_and(|name| QUICK_CLOCKS.contains(&name));
    let level = if is_quick { Level::Pass } else { Level::Warn };
    let value = found.unwrap_or("not known").to_owned();
    check("clocksource", level, value, "the clock is tsc, kvm-clock or arch_sys_counter")
}

fn free_space(disk: &DiskInfo) -> Check {
    let rule = "at least 20 % of the file system is free";
    let hundredths = u128::from(disk.free_bytes) * 100;
    let (level, value) = match hundredths.checked_div(u128::from(disk.total_bytes)) {
        Some(percent) if hundredths >= u128::from(disk.total_bytes) * 20 => {
            (Level::Pass, format!("{percent} %"))
        }
        Some(percent) => (Level::Warn, format!("{percent} %")),
        None => (Level::Warn, "not known".to_owned()),
    };
    check("free_space", level, value, rule)
}

fn debug_build(build: &str) -> Check {
    let is_debug = build.split(", ").any(|part| part == DEBUG);
    let level = if is_debug { Level::Invalid } else { Level::Pass };
    check("debug_build", level, build.to_owned(), "the program was built with --release")
}

fn check(code: &str, level: Level, value: String, rule: &str) -> Check {
    Check { code: code.to_owned(), level, value, rule: rule.to_owned() }
}

fn file_system(disk: &DiskInfo) -> String {
    disk.file_system.clone().unwrap_or_else(|| "not known".to_owned())
}

fn has_option(disk: &DiskInfo, wanted: &str) -> bool {
    let options = disk.mount_options.as_deref().unwrap_or_default();
    options.split(',').any(|option| option == wanted)
}

/// The 32-bit FNV-1a hash of a host's name or a disk's serial number, so that two runs of one
/// machine are seen to be.
///
/// It keeps the name out of a result; it does not keep it secret from whoever guesses names.
pub(crate) fn short_hash(name: &str) -> String {
    let hash = name
        .trim()
        .bytes()
        .fold(0x811C_9DC5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    format!("{hash:08x}")
}

/// `PRETTY_NAME` of an os-release file, whose values are quoted as a shell's.
fn pretty_name(os_release: &str) -> Option<String> {
    let value = os_release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?.trim();
    let unquoted = ['"', '\'']
        .iter()
        .find_map(|quote| value.strip_prefix(*quote)?.strip_suffix(*quote))
        .unwrap_or(value);
    let mut name = String::with_capacity(unquoted.len());
    let mut rest = unquoted.chars();
    while let Some(c) = rest.next() {
        name.extend(if c == '\\' { rest.next() } else { Some(c) });
    }
    (!name.is_empty()).then_some(name)
}

/// Whether a hypervisor is below, or `None` where nothing tells either way.
///
/// On x86 the processor says it; elsewhere only the firmware's names do, and a machine without
/// them is left open.
fn virtual_machine(cpuinfo: Option<&str>, dmi: &[String; 3], hypervisor: bool) -> Option<bool> {
    let [vendor, product, version] = dmi;
    let is_virtual = VIRTUAL_NAMES
        .iter()
        .any(|name| vendor.contains(name) || product.contains(name) || version.contains(name));
    // These two also sell machines that are not virtual.
    let is_cloud = (vendor == "Amazon EC2" && !product.contains(".metal"))
        || (vendor == "Microsoft Corporation" && product == "Virtual Machine");
    let flags = cpuinfo.and_then(|text| cpuinfo_value(text, "flags"));
    let flagged = flags.map(|flags| flags.split(' ').any(|flag| flag == "hypervisor"));
    if hypervisor || is_virtual || is_cloud || flagged == Some(true) {
        return Some(true);
    }
    let knows_dmi = !vendor.is_empty() || !product.is_empty();
    (flagged.is_some() || knows_dmi).then_some(false)
}

/// The first processor's name, under whichever key the architecture gives it.
fn cpu_model(cpuinfo: &str) -> Option<String> {
    ["model name", "Model", "cpu model", "cpu", "Hardware"]
        .iter()
        .find_map(|key| cpuinfo_value(cpuinfo, key))
        .map(str::to_owned)
}

/// The value of the first line `key : value`.
fn cpuinfo_value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = pairs.find(|(name, _)| name.trim() == key)?;
    Some(value.trim()).filter(|value| !value.is_empty())
}

/// `MemTotal` of `/proc/meminfo`, which counts KiB and calls them kB.
fn memory_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Processors that this process may run on: `sched_getaffinity`.
fn cores() -> u32 {
    match rustix::thread::sched_getaffinity(None) {
        Ok(allowed) => allowed.count(),
        // More processors than the set has room for.
        Err(_) => std::thread::available_parallelism()
            .map_or(1, |count| u32::try_from(count.get()).unwrap_or(u32::MAX)),
    }
}

/// The least that the clock moves by, in nanoseconds; `None` if it does not move.
fn clock_step_ns() -> Option<u64> {
    let looks: Vec<u64> = (0..10_000).map(|_| crate::clock::now().get()).collect();
    looks.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).filter(|step| *step > 0).min()
}

/// Version, optimisation, target and compiler of this program; a build script hands the last down.
fn build() -> String {
    let kind = if cfg!(debug_assertions) { DEBUG } else { "release" };
    let version = env!("CARGO_PKG_VERSION");
    let target = format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS);
    let [compiler, level, flags] =
        [env!("HARNESS_RUSTC"), env!("HARNESS_OPT_LEVEL"), env!("HARNESS_RUSTFLAGS")];
    let flags = if flags.is_empty() { String::new() } else { format!(", {flags}") };
    format!("harness {version}, {kind}, {target}, {compiler}, opt-level {level}{flags}")
}

/// The settings of the kernel's write-back and of its memory; one that cannot be read is left out.
fn sysctls() -> BTreeMap<String, String> {
    SYSCTLS
        .iter()
        .filter_map(|name| {
            let value = read(&format!("/proc/sys/vm/{name}"))?;
            Some((format!("vm.{name}"), value))
        })
        .collect()
}

/// A file's text without the blanks around it, or `None` if there is nothing to be had.
fn read(path: &str) -> Option<String> {
    let bytes = fs::read(path).ok()?;
    let text = String::from_utf8_lossy(&bytes).trim().to_owned();
    (!text.is_empty()).then_some(text)
}

fn read_needed(path: &str) -> Result<String> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {path}: is /proc mounted?"))?;
    Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
}

/// The word for a build that must not be measured.
const DEBUG: &str = "debug";

/// All of `vm.dirty_*` that governs when write-back begins and when writers are blocked, and what
/// governs how much memory there is for it.
const SYSCTLS: [&str; 9] = [
    "dirty_background_bytes",
    "dirty_background_ratio",
    "dirty_bytes",
    "dirty_expire_centisecs",
    "dirty_ratio",
    "dirty_writeback_centisecs",
    "min_free_kbytes",
    "overcommit_memory",
    "swappiness",
];

/// Clocks that a program reads without a system call, steady across processors.
const QUICK_CLOCKS: [&str; 3] = ["arch_sys_counter", "kvm-clock", "tsc"];

/// Mount options by which a file system leaves flushes out (ext4, xfs, btrfs, f2fs).
pub(crate) const NO_BARRIERS: [&str; 4] =
    ["barrier=0", "barrier=none", "nobarrier", "fsync_mode=nobarrier"];

/// Files that only a guest has: of Xen, and of KVM where a device tree describes the machine.
const HYPERVISOR_FILES: [&str; 2] =
    ["/sys/hypervisor/type", "/proc/device-tree/hypervisor/compatible"];

/// What the firmware of virtual machines calls itself, in one of its three names.
const VIRTUAL_NAMES: [&str; 14] = [
    "Alibaba Cloud ECS",
    "Bochs",
    "Firecracker",
    "Google Compute Engine",
    "HVM domU",
    "KVM",
    "OpenStack",
    "Parallels",
    "QEMU",
    "VMware",
    "VirtualBox",
    "Virtual Machine",
    "bhyve",
    "innotek",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn probe(sync_ns_p50: u64) -> Probe {
        Probe {
            syncs: 200,
            sync_ns_p50,
            sync_ns_p99: sync_ns_p50 * 2,
            no_op: sync_ns_p50 < 5_000,
            write_bytes_per_s: 1 << 28,
        }
    }

    /// A machine without any blemish.
    fn sound() -> Environment {
        Environment {
            schema: ENV_SCHEMA.to_owned(),
            host_hash: "00000000".to_owned(),
            names: None,
            kernel: "6.18.0".to_owned(),
            distribution: None,
            virtual_machine: Some(false),
            cpu_model: None,
            cores: 2,
            memory_bytes: Some(1 << 34),
            clocksource: Some("tsc".to_owned()),
            clock_step_ns: Some(20),
            build: "harness 0.0.0, release, x86_64-linux".to_owned(),
            sysctls: BTreeMap::new(),
            disk: DiskInfo {
                path: "/data".to_owned(),
                file_system: Some("ext4".to_owned()),
                mount_options: Some("rw,relatime".to_owned()),
                device: Some("nvme0n1".to_owned()),
                write_cache: Some("write through".to_owned()),
                free_bytes: 20,
                total_bytes: 100,
                ..DiskInfo::default()
            },
            disks: Vec::new(),
            machine: MachineDetails::default(),
        }
    }

    /// The checks that did not pass, after `change` was made to a sound machine.
    #[track_caller]
    fn found(
        sync_ns_p50: u64,
        allow_in_memory: bool,
        change: impl FnOnce(&mut Environment),
    ) -> Vec<(String, Level)> {
        let mut env = sound();
        change(&mut env);
        let checks = checks(&env, &probe(sync_ns_p50), allow_in_memory);
        assert_eq!(checks.len(), 15, "passed or not, each is there");
        assert!(checks.iter().all(|check| !check.value.is_empty() && !check.rule.is_empty()));
        let failed = checks.into_iter().filter(|check| check.level != Level::Pass);
        failed.map(|check| (check.code, check.level)).collect()
    }

    #[track_caller]
    fn check(change: impl FnOnce(&mut Environment), expect: &[(&str, Level)]) {
        let found = found(100_000, false, change);
        let found: Vec<(&str, Level)> = found.iter().map(|(c, level)| (&**c, *level)).collect();
        assert_eq!(found, expect);
    }

    #[test]
    fn a_sound_machine_passes_everything() {
        check(|_| {}, &[]);
    }

    #[test]
    fn each_blemish_has_its_level() {
        check(
            |env| env.machine.governor = Some("powersave".to_owned()),
            &[("governor", Level::Warn)],
        );
        check(|env| env.machine.governor = Some("performance".to_owned()), &[]);
        check(|env| env.clock_step_ns = Some(1000), &[]);
        check(|env| env.clock_step_ns = Some(1001), &[("clock_step", Level::Warn)]);
        check(|env| env.clock_step_ns = None, &[("clock_step", Level::Warn)]);
        let compressed = |options: &'static str| {
            move |env: &mut Environment| env.disk.mount_options = Some(options.to_owned())
        };
        check(compressed("rw,compress=zstd:3"), &[("compression", Level::Label)]);
        check(compressed("rw,nocompress"), &[]);
        let limit = |version, bytes| {
            move |env: &mut Environment| {
                env.machine.cgroup =
                    Cgroup { version, memory_bytes: Some(bytes), ..Cgroup::default() };
            }
        };
        check(limit(Some(2), 1 << 33), &[("memory_limit", Level::Warn)]);
        check(limit(Some(1), 1 << 33), &[("memory_limit", Level::Label)]);
        check(limit(Some(2), 1 << 34), &[]);
        let io = |line: &'static str| {
            move |env: &mut Environment| {
                env.disk.details.device_number = Some("254:1".to_owned());
                env.machine.cgroup.io = vec![line.to_owned()];
            }
        };
        check(io("254:0 wbps=1"), &[("io_limits", Level::Label)]);
        check(io("8:0 wbps=1"), &[]);
        check(|env| env.build = build_of(DEBUG), &[("debug_build", Level::Invalid)]);
        check(|env| env.disk.emulated = true, &[("emulated_disk", Level::Label)]);
        check(|env| env.disk.free_bytes = 19, &[("free_space", Level::Warn)]);
        check(|env| env.disk.total_bytes = 0, &[("free_space", Level::Warn)]);
        check(|env| env.clocksource = Some("hpet".into()), &[("clocksource", Level::Warn)]);
        check(|env| env.clocksource = None, &[("clocksource", Level::Warn)]);
        check(|env| env.virtual_machine = Some(true), &[("virtual_machine", Level::Label)]);
        check(|env| env.virtual_machine = None, &[("virtual_machine", Level::Label)]);
        check(|env| env.disk.write_cache = None, &[("write_cache", Level::Label)]);
        let write_back = Some("write back".to_owned());
        check(|env| env.disk.write_cache = write_back, &[("write_cache", Level::Label)]);
        let options = Some("rw,nobarrier".to_owned());
        check(|env| env.disk.mount_options = options, &[("barriers", Level::Warn)]);
    }

    fn build_of(kind: &str) -> String {
        format!("harness 0.0.0, {kind}, x86_64-linux")
    }

    #[test]
    fn memory_is_invalid_unless_asked_for() {
        let tmpfs = |env: &mut Environment| {
            env.disk.in_memory = true;
            env.disk.file_system = Some("tmpfs".to_owned());
        };
        let codes = ["in_memory".to_owned(), "sync_no_op".to_owned()];
        let with = |level| codes.clone().map(|code| (code, level)).to_vec();
        assert_eq!(found(220, false, tmpfs), with(Level::Invalid));
        assert_eq!(found(220, true, tmpfs), with(Level::Label));
    }

    #[test]
    fn a_disk_whose_sync_does_nothing_is_never_excused() {
        assert_eq!(found(220, true, |_| {}), [("sync_no_op".to_owned(), Level::Invalid)]);
    }

    #[test]
    fn an_overlay_is_a_label_and_a_volatile_one_invalid() {
        let overlay = |options: &'static str| {
            move |env: &mut Environment| {
                env.disk.file_system = Some("overlay".to_owned());
                env.disk.mount_options = Some(options.to_owned());
            }
        };
        check(overlay("rw,upperdir=/volatile"), &[("overlay", Level::Label)]);
        check(overlay("rw,upperdir=/u,volatile"), &[("overlay", Level::Invalid)]);
    }

    #[test]
    fn a_vm_is_told_what_cannot_be_verified() {
        let check = virtual_machine_check(Some(true));
        assert!(check.value.contains("cannot be verified inside a VM"), "{check:?}");
    }

    #[test]
    fn the_hash_is_fnv_1a() {
        // The test vectors of the algorithm's authors.
        for (name, hash) in [("", "811c9dc5"), ("a", "e40c292c"), ("foobar", "bf9cf968")] {
            assert_eq!(short_hash(name), hash);
        }
        assert_eq!(short_hash("foobar\n"), "bf9cf968");
    }

    #[test]
    fn a_distributions_name_is_unquoted() {
        #[track_caller]
        fn check(line: &str, expect: Option<&str>) {
            let text = format!("ID=x\n{line}\nVERSION_ID=1\n");
            assert_eq!(pretty_name(&text).as_deref(), expect);
        }
        check(
            "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"",
            Some("Debian GNU/Linux 12 (bookworm)"),
        );
        check("PRETTY_NAME='a \"b\"'", Some("a \"b\""));
        check("PRETTY_NAME=\"a \\\"b\\\" \\$c\"", Some("a \"b\" $c"));
        check("PRETTY_NAME=Alpine", Some("Alpine"));
        check("PRETTY_NAME=\"\"", None);
        check("NAME=x", None);
    }

    #[test]
    fn a_hypervisor_is_found_by_flag_file_or_name() {
        #[track_caller]
        fn check(flags: Option<&str>, dmi: [&str; 2], file: bool, expect: Option<bool>) {
            let cpuinfo = flags.map(|flags| format!("processor\t: 0\nflags\t\t: {flags}\n"));
            let dmi = [dmi[0].to_owned(), dmi[1].to_owned(), String::new()];
            assert_eq!(virtual_machine(cpuinfo.as_deref(), &dmi, file), expect);
        }
        check(Some("fpu vme hypervisor avx"), ["", ""], false, Some(true));
        check(Some("fpu vme"), ["Dell Inc.", "PowerEdge R650"], false, Some(false));
        check(Some("fpu vme"), ["", ""], false, Some(false));
        check(Some("fpu vme"), ["", ""], true, Some(true));
        check(None, ["QEMU", "KVM Virtual Machine"], false, Some(true));
        check(None, ["Amazon EC2", "m7g.large"], false, Some(true));
        check(None, ["Amazon EC2", "m7i.metal-24xl"], false, Some(false));
        check(None, ["Microsoft Corporation", "Surface Book"], false, Some(false));
        check(None, ["Xen", "HVM domU"], false, Some(true));
        check(None, ["Ampere", "Mt. Jade"], false, Some(false));
        check(None, ["", ""], false, None);
    }

    #[test]
    fn processor_and_memory_are_read() {
        let x86 = "processor\t: 0\nmodel\t\t: 207\nmodel name\t: Intel(R) Xeon(R) Processor\n";
        assert_eq!(cpu_model(x86).as_deref(), Some("Intel(R) Xeon(R) Processor"));
        let arm = "processor\t: 0\nBogoMIPS\t: 50.00\nModel\t\t: Raspberry Pi 5\n";
        assert_eq!(cpu_model(arm).as_deref(), Some("Raspberry Pi 5"));
        assert_eq!(cpu_model("processor\t: 0\nFeatures\t: fp asimd\n"), None);
        assert_eq!(memory_bytes("MemTotal:       24684084 kB\n"), Some(24_684_084 * 1024));
        assert_eq!(memory_bytes("MemFree: 1 kB\n"), None);
    }

    #[test]
    fn this_machine_is_captured_without_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let env = capture(dir.path()).unwrap();
        assert!(env.cores >= 1 && env.host_hash.len() == 8, "{env:?}");
        assert!(!env.kernel.is_empty());
        assert_eq!(env.names, None);
        let named = names(&env).unwrap();
        assert_eq!(short_hash(&named.host), env.host_hash, "only if it is asked for");
        assert_eq!(debug_build(&env.build).level == Level::Invalid, cfg!(debug_assertions));
        assert!(env.sysctls.keys().all(|name| name.starts_with("vm.")));
        let text = serde_json::to_string(&env).unwrap();
        assert_eq!(serde_json::from_str::<Environment>(&text).unwrap(), env);
    }

    #[test]
    fn a_missing_directory_is_an_error() {
        let message = format!("{:#}", capture(Path::new("/nonexistent/flushmark")).unwrap_err());
        assert!(message.contains("/nonexistent/flushmark"), "{message}");
    }
}
