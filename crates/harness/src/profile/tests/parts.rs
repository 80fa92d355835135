//! Disks, kernel settings and workloads: what each key gives, and what is wrong with it.

use crashlab::block::{DiskType, FsKind};

use super::*;
use crate::sysctl::{self, DeviceLimits, Key};

/// The sweep of [`GOOD`] with a workload, a disk or a kernel setting called `x` written as `{...}`.
fn with(family: &str, written: &str) -> Result<Sweep, ProfileErrors> {
    let (family_text, matrix) = match family {
        "workloads" => (format!("  x: {written}\n"), "workloads: [x]".to_owned()),
        _ => (String::new(), format!("{family}: [x], workloads: [w]")),
    };
    let text = GOOD.replacen("strategies:\n", &format!("{family_text}strategies:\n"), 1);
    let mut text = text.replacen("matrix: {workloads: [w]", &format!("matrix: {{{matrix}"), 1);
    if family_text.is_empty() {
        text = format!("{text}{family}:\n  x: {written}\n");
    }
    Sweep::parse("p.yaml", &text)
}

/// The messages of a sweep that is refused; the first places are left out.
#[track_caller]
fn refused(family: &str, written: &str) -> Vec<String> {
    let errors = with(family, written).expect_err(written);
    let errors = errors.findings().iter().filter(|finding| finding.level == Level::Error);
    errors.map(|finding| finding.message.clone()).collect()
}

#[track_caller]
fn check_refused(family: &str, written: &str, expect: &[&str]) {
    assert_eq!(refused(family, written), expect, "{written}");
}

#[track_caller]
fn workload(written: &str) -> Workload {
    with("workloads", written).unwrap().workloads[0].clone()
}

#[track_caller]
fn disk(written: &str) -> DiskSpec {
    with("disks", written).unwrap().disks[0].spec.clone()
}

#[test]
fn a_workload_has_its_keys_and_their_defaults() {
    let plain = workload("{message_bytes: 1KiB, producers: [2]}");
    assert_eq!((plain.window, plain.pace, plain.reader), (1, Pace::Closed, false));
    assert_eq!((plain.deletes_every, plain.is_disturbed()), (None, false));
    let all = workload(
        "{message_bytes: {0: 60, 4KiB: 40}, producers: [2, 1], window: 4096, rate: 7, \
         arrival: poisson, burst: {messages: 3, every_ms: 20}, reader: true, \
         deletes_every_ms: 250}",
    );
    let burst = Burst { messages: 3, every: Duration::from_millis(20) };
    let pace = Pace::Rate { per_s: 7, arrival: Arrival::Poisson, burst: Some(burst) };
    assert_eq!((all.window, all.pace, all.reader), (4096, pace, true));
    assert_eq!(all.deletes_every, Some(Duration::from_millis(250)));
    let cleaned = workload("{message_bytes: 1, producers: [1], deletes_every_ms: 50}");
    assert!(all.is_disturbed() && cleaned.is_disturbed() && !cleaned.reader);
    assert_eq!(all.producers, [2, 1]);
    let bytes = all.message_bytes;
    assert_eq!((bytes.largest(), bytes.mean()), (4096, 1638));
    let drawn: Vec<u64> = (0..200).map(|number| bytes.drawn(number)).collect();
    assert_eq!(drawn.iter().filter(|bytes| **bytes == 0).count(), 120);
    assert_eq!(drawn.iter().filter(|bytes| **bytes == 4096).count(), 80);
    let rate = workload("{message_bytes: 1, producers: [1], rate: 5}");
    assert_eq!(rate.pace, Pace::Rate { per_s: 5, arrival: Arrival::Constant, burst: None });
    let search = workload("{message_bytes: 1, producers: [1], find_rate: {p99_ms: 9}}");
    let p99 = Duration::from_millis(9);
    assert_eq!(search.pace, Pace::FindRate { p99, arrival: Arrival::Constant });
}

#[test]
fn a_mix_makes_a_hundred() {
    let share = |bytes, percent| Share { bytes, percent };
    assert_eq!(MessageBytes::mix(Vec::new()), None);
    assert_eq!(MessageBytes::mix(vec![share(1, 50), share(2, 49)]), None);
    assert_eq!(MessageBytes::mix(vec![share(1, 100), share(2, 0)]), None);
    assert_eq!(MessageBytes::mix(vec![share(7, 100)]), Some(MessageBytes::one(7)));
    let check = |mix: &str, expect: &[&str]| {
        let written = format!("{{message_bytes: {mix}, producers: [1]}}");
        check_refused("workloads", &written, expect);
    };
    check(
        "{128: 70, 1KiB: 25}",
        &["workloads.x.message_bytes: the percents of the sizes make 95, not 100"],
    );
    check("{1KiB: 50, 1024: 50}", &["workloads.x.message_bytes: the size `1024` is there twice"]);
    check("{}", &["workloads.x.message_bytes: at least one is needed"]);
    check(
        "{128: 0, 5MiB: 101}",
        &[
            "workloads.x.message_bytes: 0 is out of range (1 to 100)",
            "workloads.x.message_bytes: 5MiB is out of range (0 to 4194304 bytes)",
            "workloads.x.message_bytes: 101 is out of range (1 to 100)",
        ],
    );
}

#[test]
fn a_size_that_is_none_is_told_as_it_is_written() {
    const HELP: &str = "is not a size: give bytes, or a number with KiB, MiB or GiB";
    let check = |size: &str, expect: &str| {
        let written = format!("{{message_bytes: {size}, producers: [1]}}");
        let message = format!("workloads.x.message_bytes: {expect}");
        check_refused("workloads", &written, &[&message]);
    };
    check("1.5", &format!("`1.5` {HELP}"));
    check("1e3", &format!("`1000.0` {HELP}"));
    check("-1", &format!("`-1` {HELP}"));
    check("true", &format!("`true` {HELP}"));
    check("1KB", &format!("`1KB` {HELP}"));
    assert_eq!(refused("workloads", "{message_bytes: ~, producers: [1]}").len(), 1);
    assert_eq!(refused("workloads", "{message_bytes: [1], producers: [1]}").len(), 1);
}

#[test]
fn paces_that_exclude_each_other_are_refused() {
    const BURST: &str =
        "workloads.x: burst has no meaning without rate: a burst comes on top of it";
    let check = |keys: &str, expect: &[&str]| {
        let written = format!("{{message_bytes: 1, producers: [1], {keys}}}");
        check_refused("workloads", &written, expect);
    };
    check(
        "rate: 1, find_rate: {p99_ms: 1}",
        &["workloads.x: rate and find_rate exclude each other: a rate is given or searched for \
           (rate is set at line 5)"],
    );
    check(
        "arrival: poisson",
        &["workloads.x: arrival has no meaning without rate or find_rate: in a closed loop the \
           acknowledgements say when to send"],
    );
    check("burst: {messages: 1, every_ms: 1}", &[BURST]);
    check("find_rate: {p99_ms: 1}, burst: {messages: 1, every_ms: 1}", &[BURST]);
    check(
        "rate: 0, burst: {mesages: 1}",
        &[
            "workloads.x.rate: 0 is out of range (1 to 100000000)",
            "workloads.x.burst.messages is missing",
            "workloads.x.burst.every_ms is missing",
            "workloads.x.burst: unknown key `mesages` (have: messages, every_ms; did you mean \
             `messages`?)",
        ],
    );
    check("find_rate: {}", &["workloads.x.find_rate.p99_ms is missing"]);
    check("window: 0", &["workloads.x.window: 0 is out of range (1 to 4096)"]);
    check("reader: yes", &["workloads.x.reader: `yes` is not a choice (have: true, false)"]);
    check(
        "find_rate: {p99_ms: 1}, deletes_every_ms: 50",
        &["workloads.x: deletes_every_ms has no meaning with find_rate: the files would be gone \
           after the first rate that is tried"],
    );
    check(
        "deletes_every_ms: 1200",
        &["workloads.x.deletes_every_ms: nothing is deleted in the 1200 ms that a cell is \
           measured for (run.measure_ms)"],
    );
    check(
        "deletes_every_ms: 49",
        &["workloads.x.deletes_every_ms: 49 is out of range (50 to 3600000)"],
    );
    check(
        "rate: 5, arrival: poison",
        &["workloads.x.arrival: `poison` is not a choice (have: constant, poisson; did you mean \
           `poisson`?)"],
    );
}

#[test]
fn a_disk_has_its_kinds_keys_and_their_defaults() {
    let two = 2 << 30;
    assert_eq!(disk("{kind: host}"), Disk::host().spec);
    assert_eq!(
        disk("{kind: host, path: /data/mq, plp: true}"),
        DiskSpec::Host { path: Some(PathBuf::from("/data/mq")), plp: true }
    );
    assert_eq!(
        disk("{kind: loop}"),
        DiskSpec::Loop {
            backing: None,
            file_system: FsKind::Ext4,
            mount_options: String::new(),
            bytes: two
        }
    );
    assert_eq!(
        disk(
            "{kind: loop, file_system: btrfs, size: 128MiB, mount_options: 'noatime,compress=no', \
             backing: images}"
        ),
        DiskSpec::Loop {
            backing: Some(PathBuf::from("images")),
            file_system: FsKind::Btrfs,
            mount_options: "noatime,compress=no".to_owned(),
            bytes: 128 << 20
        }
    );
    assert_eq!(disk("{kind: tmpfs, size: 1GiB}"), DiskSpec::Tmpfs { bytes: 1 << 30 });
    let disk_type = DiskType::SataPlp;
    let emulated = |file_system, mount_options: &str, bytes| {
        let mount_options = mount_options.to_owned();
        DiskSpec::Emulated { disk_type, file_system, mount_options, bytes }
    };
    assert_eq!(disk("{kind: emulated, type: sata-plp}"), emulated(FsKind::Ext4, "", two));
    assert_eq!(
        disk(
            "{kind: emulated, type: sata-plp, file_system: xfs, size: 512MiB, \
             mount_options: noatime}"
        ),
        emulated(FsKind::Xfs, "noatime", 512 << 20)
    );
    assert_eq!(disk("{kind: simulated, type: sata-plp}"), DiskSpec::Simulated { disk_type });
    let none = Sweep::parse("p.yaml", GOOD).unwrap();
    assert_eq!((none.disks, none.sysctls), (vec![Disk::host()], vec![Sysctls::as_found()]));
}

#[test]
fn a_made_disk_may_have_limits_of_its_own() {
    let limits = |written: &str| {
        let sweep = with("disks", written).unwrap();
        sweep.disks[0].limits
    };
    assert!(limits("{kind: loop}").is_empty());
    let found = limits("{kind: loop, max_bytes: 64MiB, min_ratio: 1, strict_limit: true}");
    let (max, min) = (Some(sysctl::Share::Bytes(64 << 20)), Some(sysctl::Share::Percent(1)));
    assert_eq!(found, DeviceLimits { max, min, strict: Some(true) });
    let found = limits("{kind: emulated, type: sata-plp, max_ratio: 5, min_bytes: 1MiB}");
    let (max, min) = (Some(sysctl::Share::Percent(5)), Some(sysctl::Share::Bytes(1 << 20)));
    assert_eq!(found, DeviceLimits { max, min, strict: None });
    let check = |written: &str, expect: &[&str]| check_refused("disks", written, expect);
    check("{kind: host, max_ratio: 5}", &["disks.x: max_ratio has no meaning for host"]);
    check("{kind: tmpfs, strict_limit: true}", &["disks.x: strict_limit has no meaning for tmpfs"]);
    check(
        "{kind: loop, max_ratio: 5, max_bytes: 1GiB}",
        &["disks.x: max_bytes and max_ratio exclude each other"],
    );
    check(
        "{kind: loop, max_ratio: 5, min_ratio: 6}",
        &["disks.x.min_ratio: 6 is more than max_ratio, 5"],
    );
    check(
        "{kind: loop, file_system: btrfs, max_ratio: 5}",
        &["disks.x: btrfs has no limits of a device"],
    );
    check(
        "{kind: loop, max_ratio: 0, min_bytes: 1KiB, strict_limit: yes}",
        &[
            "disks.x.max_ratio: 0 is out of range (1 to 100)",
            "disks.x.min_bytes: 1KiB is out of range (1048576 to 1099511627776 bytes)",
            "disks.x.strict_limit: `yes` is not a choice (have: true, false)",
        ],
    );
}

#[test]
fn a_disk_that_cannot_be_is_refused() {
    let check = |written: &str, expect: &str| check_refused("disks", written, &[expect]);
    check("{}", "disks.x.kind is missing");
    check("{kind: emulated}", "disks.x.type is missing");
    check(
        "{kind: emulated, type: nvme}",
        "disks.x.type: `nvme` is not a choice (have: nvme-plp, sata-plp, nvme-noplp, \
         cloud-3000iops, sata-noplp, hdd-7200)",
    );
    check(
        "{kind: simulated, type: nvme-pip}",
        "disks.x.type: `nvme-pip` is not a choice (have: nvme-plp, sata-plp, nvme-noplp, \
         cloud-3000iops, sata-noplp, hdd-7200; did you mean `nvme-plp`?)",
    );
    check(
        "{kind: loops}",
        "disks.x.kind: `loops` is not a kind (have: host, loop, tmpfs, emulated, simulated; did \
         you mean `loop`?)",
    );
    check("{kind: tmpfs, plp: true}", "disks.x: plp has no meaning for tmpfs");
    check(
        "{kind: tmpfs, sizes: 1GiB}",
        "disks.x: unknown key `sizes` (have: kind, size; did you mean `size`?)",
    );
    check(
        "{kind: loop, file_system: xfs, size: 319MiB}",
        "disks.x.size: 319MiB is too small for xfs (at least 320MiB)",
    );
    check(
        "{kind: tmpfs, size: 1MiB}",
        "disks.x.size: 1MiB is out of range (67108864 to \
           1099511627776 bytes)",
    );
    check("{kind: host, path: ''}", "disks.x.path: `` is not a path");
    check(
        "{kind: loop, mount_options: ro}",
        "disks.x.mount_options: with `ro` nothing can be \
           written",
    );
    for options in ["-o", "a b", "noatime,,x", "x;reboot", "a=$HOME"] {
        check(
            &format!("{{kind: loop, mount_options: '{options}'}}"),
            &format!(
                "disks.x.mount_options: `{options}` is not a list of options such as \
                 noatime,data=ordered"
            ),
        );
    }
}

#[test]
fn an_option_that_keeps_flushes_from_the_device_is_warned_of() {
    for (kind, column) in [("loop", 34), ("emulated, type: sata-plp", 54)] {
        let written = format!("{{kind: {kind}, mount_options: 'noatime,nobarrier'}}");
        let sweep = with("disks", &written).unwrap();
        let warning = sweep.warnings.iter().find(|warning| warning.line > 1).unwrap();
        assert_eq!(
            warning.to_string(),
            format!(
                "p.yaml:9:{column}: warning: disks.x.mount_options: with `nobarrier` no flush \
                 reaches the device: nothing on it is durable"
            )
        );
    }
}

#[test]
fn kernel_settings_are_a_closed_list() {
    let sweep = with(
        "sysctls",
        "{dirty_background_bytes: 64MiB, dirty_bytes: 256MiB, dirty_expire_centisecs: 0, \
         dirty_writeback_centisecs: 200000000}",
    );
    let sysctls = &sweep.unwrap().sysctls[0];
    let expect = [
        (Key::BackgroundBytes, 64 << 20),
        (Key::Bytes, 256 << 20),
        (Key::ExpireCentisecs, 0),
        (Key::WritebackCentisecs, 200_000_000),
    ];
    assert_eq!(sysctls.settings.iter().collect::<Vec<_>>(), expect);
    assert!(!sysctls.changes_nothing());
    let check = |written: &str, expect: &[&str]| check_refused("sysctls", written, expect);
    check(
        "{swappiness: 1, dirty_ratios: 5}",
        &[
            "sysctls.x: unknown key `swappiness` (have: dirty_background_bytes, \
             dirty_background_ratio, dirty_bytes, dirty_expire_centisecs, dirty_ratio, \
             dirty_writeback_centisecs)",
            "sysctls.x: unknown key `dirty_ratios` (have: dirty_background_bytes, \
             dirty_background_ratio, dirty_bytes, dirty_expire_centisecs, dirty_ratio, \
             dirty_writeback_centisecs; did you mean `dirty_ratio`?)",
        ],
    );
    check("{}", &["sysctls.x: at least one is needed (as-found changes nothing)"]);
    check(
        "{dirty_bytes: 256MiB, dirty_ratio: 10}",
        &["sysctls.x: dirty_bytes and dirty_ratio exclude each other in the kernel (dirty_bytes \
           is set at line 9)"],
    );
    check(
        "{dirty_background_ratio: 10, dirty_background_bytes: 64MiB}",
        &["sysctls.x: dirty_background_bytes and dirty_background_ratio exclude each other in \
           the kernel (dirty_background_ratio is set at line 9)"],
    );
}

#[test]
fn kernel_settings_are_in_the_kernels_range_or_in_one_that_is_ours() {
    let check = |written: &str, expect: &[&str]| check_refused("sysctls", written, expect);
    let page = u64::try_from(rustix::param::page_size()).unwrap();
    check(
        &format!("{{dirty_bytes: {}}}", 2 * page - 1),
        &[&format!(
            "sysctls.x.dirty_bytes: {} is less than two pages ({} bytes), which the kernel refuses",
            2 * page - 1,
            2 * page
        )],
    );
    assert!(with("sysctls", &format!("{{dirty_bytes: {}}}", 2 * page)).is_ok());
    check(
        "{dirty_background_bytes: 0}",
        &["sysctls.x.dirty_background_bytes: 0 is refused by the kernel: give 1 or more, or \
           dirty_background_ratio"],
    );
    assert!(with("sysctls", "{dirty_background_bytes: 1}").is_ok(), "the kernel takes it");
    check(
        "{dirty_bytes: 1, dirty_ratio: 10}",
        &[
            &format!(
                "sysctls.x.dirty_bytes: 1 is less than two pages ({} bytes), which the kernel \
                 refuses",
                2 * page
            ),
            "sysctls.x: dirty_bytes and dirty_ratio exclude each other in the kernel (dirty_bytes \
             is set at line 9)",
        ],
    );
    check(
        "{dirty_expire_centisecs: 200000001, dirty_writeback_centisecs: 2147483648}",
        &[
            "sysctls.x.dirty_expire_centisecs: 200000001 is more than a profile may ask for (at \
             most 200000000)",
            "sysctls.x.dirty_writeback_centisecs: 2147483648 is out of range (0 to 200000000)",
        ],
    );
    check(
        "{dirty_bytes: 1048577GiB}",
        &["sysctls.x.dirty_bytes: 1048577GiB is more than a profile may ask for (at most \
           1125899906842624)"],
    );
    check(
        "{dirty_ratio: 101, dirty_expire_centisecs: -1}",
        &[
            "sysctls.x.dirty_ratio: 101 is out of range (0 to 100)",
            "sysctls.x.dirty_expire_centisecs: -1 is out of range (0 to 200000000)",
        ],
    );
}

#[test]
fn what_the_kernel_understands_otherwise_is_warned_of() {
    let warnings = |written: &str| {
        let sweep = with("sysctls", written).unwrap();
        let of_sysctls = sweep.warnings.into_iter().filter(|warning| warning.line > 1);
        of_sysctls.map(|warning| warning.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(
        warnings("{dirty_background_ratio: 50, dirty_ratio: 25}"),
        ["p.yaml:9:31: warning: sysctls.x: background 50% >= limit 25%: the kernel will use half \
          the limit (12.5%)"]
    );
    assert_eq!(
        warnings("{dirty_background_bytes: 1MiB, dirty_bytes: 1MiB}"),
        ["p.yaml:9:31: warning: sysctls.x: background 1048576 bytes >= limit 1048576 bytes: the \
          kernel will use half the limit (524288 bytes)"]
    );
    assert_eq!(warnings("{dirty_background_ratio: 10, dirty_ratio: 20}"), [""; 0]);
    assert_eq!(
        warnings("{dirty_writeback_centisecs: 0, dirty_ratio: 0}"),
        [
            "p.yaml:9:34: warning: sysctls.x: dirty_writeback_centisecs 0: pages are never \
             written back for their age",
            "p.yaml:9:50: warning: sysctls.x: limit 0%: every write waits until it is on the disk",
        ]
    );
    // How they compare depends on the machine.
    assert_eq!(warnings("{dirty_background_ratio: 90, dirty_bytes: 1MiB}"), [""; 0]);
    assert_eq!(warnings("{dirty_background_ratio: 90}"), [""; 0]);
}

#[test]
fn nothing_else_is_called_as_found() {
    let text = GOOD.replacen("{workloads", "{sysctls: [as-found], workloads", 1);
    assert_eq!(Sweep::parse("p.yaml", &text).unwrap().sysctls, [Sysctls::as_found()]);
    check_added(
        "sysctls: {as-found: {dirty_ratio: 5}}",
        "p.yaml:8:11: error: sysctls.as-found is the name for changing nothing: choose another",
    );
}

#[test]
fn a_run_has_what_comes_around_the_cells() {
    let bare = Sweep::parse("p.yaml", GOOD).unwrap();
    assert_eq!((bare.settle, bare.drain_dirty_below_bytes), (Duration::ZERO, 16 << 20));
    assert_eq!(bare.cell_bytes, None);
    assert_eq!((bare.canary, bare.card, bare.slo), (false, false, Slo::default()));
    let gates = Gates { min_effect_pct: 5, noise_max_pct: 15, steal_max_pct: 2 };
    assert_eq!(bare.gates, gates);
    let text = format!(
        "{GOOD}run: {{blocks: 6, settle_ms: 7, drain_dirty_below: 1MiB, canary: true, card: true, \
         cell_bytes: 64MiB}}\n\
         slo: {{ack_p99_ms: 10, power_loss_rpo_ms: 0}}\n\
         gates: {{min_effect_pct: 1, noise_max_pct: 2, steal_max_pct: 3}}\n"
    );
    let full = Sweep::parse("p.yaml", &text).unwrap();
    assert_eq!((full.settle, full.drain_dirty_below_bytes), (Duration::from_millis(7), 1 << 20));
    assert_eq!((full.canary, full.card, full.cell_bytes), (true, true, Some(64 << 20)));
    check_added(
        "run: {cell_bytes: 63MiB}",
        "p.yaml:8:19: error: run.cell_bytes: 63MiB is out of range (67108864 to 1099511627776 \
         bytes)",
    );
    let slo =
        Slo { ack_p99: Some(Duration::from_millis(10)), power_loss_rpo: Some(Duration::ZERO) };
    assert_eq!(full.slo, slo);
    assert_eq!(full.gates, Gates { min_effect_pct: 1, noise_max_pct: 2, steal_max_pct: 3 });
    assert_eq!(full.warnings, []);
    check_added(
        "gates: {min_effect: 5}",
        "p.yaml:8:9: error: gates: unknown key `min_effect` (have: min_effect_pct, noise_max_pct, \
         steal_max_pct)",
    );
    check_added(
        "slo: {ack_p99_ms: 0}",
        "p.yaml:8:19: error: slo.ack_p99_ms: 0 is out of range (1 to 3600000)",
    );
}

#[test]
fn too_few_blocks_are_warned_of_where_they_stand() {
    const FEW: &str = "gives no 95 % interval for a median (needs 6): the figures are indicative";
    let warning = |text: &str| {
        let warnings = Sweep::parse("p.yaml", text).unwrap().warnings;
        warnings.iter().map(Finding::to_string).collect::<Vec<_>>()
    };
    assert_eq!(warning(GOOD), [format!("p.yaml:1:1: warning: run.blocks: 3 {FEW}")]);
    assert_eq!(
        warning(&format!("{GOOD}run: {{blocks: 5}}\n")),
        [format!("p.yaml:8:15: warning: run.blocks: 5 {FEW}")]
    );
    assert_eq!(warning(&format!("{GOOD}run: {{blocks: 6}}\n")), [""; 0]);
}

#[test]
fn ten_mistakes_are_ten_errors_with_their_places() {
    let text = "\
schema: flushmark.profile/v1
name: my sweep
run: {blocks: 7, warmup_ms: 5s, canary: maybe}
disks:
  data: {kind: host, size: 1GiB}
  slow: {kind: emulated, type: hdd-5400}
sysctls:
  both: {dirty_bytes: 256MiB, dirty_background_ratio: 5, dirty_ratio: 10}
workloads:
  mixed: {message_bytes: {128: 70, 1KiB: 20}, producers: [8]}
  open: {message_bytes: 1KiB, producers: [8], burst: {messages: 10, every_ms: 100}}
strategies:
  sync: {kind: group_commit, interval_ms: 500}
matrix: {disks: [data, slow], sysctls: [bth], workloads: [mixed, open], strategies: [sync]}
";
    assert_eq!(
        errors(text),
        "\
p.yaml:2:7: error: name: `my sweep` is not a name: give up to 64 of A-Z a-z 0-9 - _ . that begin \
with a letter or a digit
p.yaml:3:29: error: run.warmup_ms: `5s` is not a whole number (0 to 600000)
p.yaml:3:41: error: run.canary: `maybe` is not a choice (have: true, false)
p.yaml:5:22: error: disks.data: size has no meaning for host
p.yaml:6:32: error: disks.slow.type: `hdd-5400` is not a choice (have: nvme-plp, sata-plp, \
nvme-noplp, cloud-3000iops, sata-noplp, hdd-7200; did you mean `hdd-7200`?)
p.yaml:8:58: error: sysctls.both: dirty_bytes and dirty_ratio exclude each other in the kernel \
(dirty_bytes is set at line 8)
p.yaml:10:26: error: workloads.mixed.message_bytes: the percents of the sizes make 90, not 100
p.yaml:11:54: error: workloads.open: burst has no meaning without rate: a burst comes on top of it
p.yaml:13:30: error: strategies.sync: interval_ms has no meaning for group_commit
p.yaml:14:41: error: matrix.sysctls: `bth` is not defined (have: both, as-found; did you mean \
`both`?)"
    );
}
