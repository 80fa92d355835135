//! Profiles as a whole: what is read, and how everything that is wrong with one is told.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

mod broker;
mod files;
mod parts;
mod shipped;

use crate::results::Kind;

use super::*;

/// A profile without an error, of seven lines; a test adds to it or replaces in it.
const GOOD: &str = "\
schema: flushmark.profile/v1
name: t
workloads:
  w: {message_bytes: 1KiB, producers: [1]}
strategies:
  s: {kind: none}
matrix: {workloads: [w], strategies: [s]}
";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[track_caller]
fn errors(text: &str) -> String {
    match Sweep::parse("p.yaml", text) {
        Ok(sweep) => panic!("no error in {text}\nbut {sweep:?}"),
        Err(errors) => without_warnings(&errors),
    }
}

/// The errors alone: a text as short as these has too few blocks, too, which is a warning.
fn without_warnings(errors: &ProfileErrors) -> String {
    let errors = errors.findings().iter().filter(|finding| finding.level == Level::Error);
    errors.map(Finding::to_string).collect::<Vec<_>>().join("\n")
}

/// The errors of [`GOOD`] with `from`, which it must have, replaced by `to`.
#[track_caller]
fn check_replaced(from: &str, to: &str, expect: &str) {
    assert!(GOOD.contains(from), "{from}");
    assert_eq!(errors(&GOOD.replacen(from, to, 1)), expect);
}

/// The error of [`GOOD`] with an eighth line.
#[track_caller]
fn check_added(line: &str, expect: &str) {
    assert_eq!(errors(&format!("{GOOD}{line}\n")), expect);
}

/// The settings of a strategy written as `{...}`.
#[track_caller]
fn settings(strategy: &str) -> Settings {
    let text = GOOD.replacen("{kind: none}", strategy, 1);
    Sweep::parse("p.yaml", &text).unwrap().strategies[0].settings
}

#[test]
fn the_quick_profile_says_what_the_defaults_are() {
    let quick = Sweep::load("quick", &root()).unwrap();
    assert_eq!(quick.name, "quick");
    assert_eq!((quick.blocks, quick.seed, quick.segment_bytes), (3, 42, 128 << 20));
    assert_eq!(
        (quick.warmup, quick.measure),
        (Duration::from_millis(300), Duration::from_millis(1200))
    );
    assert_eq!(quick.budget, Duration::from_secs(110));
    let workload = &quick.workloads[..];
    assert_eq!(workload.len(), 1);
    assert_eq!(
        (workload[0].name.as_str(), &workload[0].message_bytes),
        ("closed-1k", &MessageBytes::one(1024))
    );
    assert_eq!(workload[0].producers, [1, 8, 64]);
    let names: Vec<&str> = quick.strategies.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["none", "sync", "timed", "staged"]);
    for (strategy, kind) in
        quick.strategies.iter().zip(["none", "group_commit", "flush_realtime", "commit_realtime"])
    {
        let of_defaults = settings(&format!("{{kind: {kind}}}"));
        assert_eq!(strategy.settings, of_defaults, "{kind}: its comments give the defaults");
    }
    let bare = Sweep::parse("p.yaml", GOOD).unwrap();
    assert_eq!((bare.blocks, bare.seed, bare.segment_bytes), (3, 42, 128 << 20));
    assert_eq!((bare.warmup, bare.measure), (quick.warmup, quick.measure));
    assert_eq!(bare.budget, quick.budget);
    assert_eq!(bare.text, GOOD);
}

#[test]
fn the_quick_profile_fits_its_budget() {
    let quick = Sweep::load("quick", &root()).unwrap();
    let producers: usize = quick.workloads.iter().map(|workload| workload.producers.len()).sum();
    let cells = u32::try_from(producers * quick.strategies.len()).unwrap() * quick.blocks;
    assert!((quick.warmup + quick.measure) * cells < quick.budget, "{cells} cells");
}

#[test]
fn strategies_have_rocketmqs_defaults() {
    let millis = Duration::from_millis;
    assert_eq!(settings("{kind: none}"), Settings::None { io: Io::Mapped });
    assert_eq!(
        settings("{kind: group_commit}"),
        Settings::GroupCommit {
            timeout: millis(5000),
            gather: Duration::ZERO,
            siblings: 5,
            lead: true,
            io: Io::Direct,
            prealloc: Prealloc::Zero,
        }
    );
    assert_eq!(
        settings("{kind: flush_realtime}"),
        Settings::FlushRealtime {
            interval: millis(500),
            least_pages: 4,
            thorough: millis(10_000),
            timed: true,
            io: Io::Mapped,
            prealloc: Prealloc::Fallocate,
        }
    );
    assert_eq!(
        settings("{kind: commit_realtime}"),
        Settings::CommitRealtime {
            commit: millis(200),
            commit_least_pages: 4,
            commit_thorough: millis(200),
            interval: millis(500),
            least_pages: 4,
            thorough: millis(10_000),
            staging_bytes: 64 << 20,
            io: Io::Direct,
            prealloc: Prealloc::Fallocate,
        }
    );
}

#[test]
fn each_key_reaches_its_setting() {
    let millis = Duration::from_millis;
    let sync = "{kind: group_commit, timeout_ms: 1, gather_us: 2, siblings: 3, lead: false, \
                io: mapped, prealloc: fallocate}";
    assert_eq!(
        settings(sync),
        Settings::GroupCommit {
            timeout: millis(1),
            gather: Duration::from_micros(2),
            siblings: 3,
            lead: false,
            io: Io::Mapped,
            prealloc: Prealloc::Fallocate,
        }
    );
    let timed = "{kind: flush_realtime, interval_ms: 1, least_pages: 2, thorough_ms: 3, \
                 timed: false, io: positioned, prealloc: zero}";
    assert_eq!(
        settings(timed),
        Settings::FlushRealtime {
            interval: millis(1),
            least_pages: 2,
            thorough: millis(3),
            timed: false,
            io: Io::Positioned,
            prealloc: Prealloc::Zero,
        }
    );
    let staged = "{kind: commit_realtime, commit_ms: 1, commit_least_pages: 2, \
                  commit_thorough_ms: 3, interval_ms: 4, least_pages: 5, thorough_ms: 6, \
                  staging_bytes: 16MiB, io: positioned, prealloc: zero}";
    assert_eq!(
        settings(staged),
        Settings::CommitRealtime {
            commit: millis(1),
            commit_least_pages: 2,
            commit_thorough: millis(3),
            interval: millis(4),
            least_pages: 5,
            thorough: millis(6),
            staging_bytes: 16 << 20,
            io: Io::Positioned,
            prealloc: Prealloc::Zero,
        }
    );
    assert_eq!(settings(sync).kind(), Kind::GroupCommit);
    assert_eq!(settings(staged).kind(), Kind::CommitRealtime);
}

#[test]
fn the_matrix_chooses_and_orders() {
    let text = "\
schema: flushmark.profile/v1
name: t
run: {blocks: 100, seed: 18446744073709551615, warmup_ms: 0, measure_ms: 1, budget_s: 1}
workloads:
  a: {message_bytes: 0, producers: [1024, 1]}
  b: {message_bytes: 4194304, producers: [2]}
strategies:
  x: {kind: none}
  y: {kind: group_commit}
  z: {kind: none}
matrix: {workloads: [b, a], strategies: [z, y]}
log: {segment_bytes: 2147483647}
";
    let sweep = Sweep::parse("p.yaml", text).unwrap();
    assert_eq!((sweep.blocks, sweep.seed), (100, u64::MAX));
    assert_eq!(sweep.segment_bytes, 2_147_483_647);
    let workloads: Vec<&str> = sweep.workloads.iter().map(|w| w.name.as_str()).collect();
    let strategies: Vec<&str> = sweep.strategies.iter().map(|s| s.name.as_str()).collect();
    assert_eq!((workloads, strategies), (vec!["b", "a"], vec!["z", "y"]));
    assert_eq!(sweep.workloads[1].producers, [1024, 1]);
}

#[test]
fn all_errors_are_told_in_order_of_position() {
    let text = "\
schema: flushmark.profile/v2
name: a/b
run: {blocks: 0, bloks: 3}
workloads:
  w: {message_bytes: 5MiB, producers: [0, 8, 8]}
  v: {}
strategies:
  a: {kind: nome}
  b: {kind: none, io: mapped, foo: 1}
  c: {io: mapped}
  d: {kind: group_commit, interval_ms: 500, timout_ms: 1, io: mmap}
matrix: {workloads: [], strategies: [a, bb, a]}
log: {segment_bytes: 1KiB}
";
    assert_eq!(
        errors(text),
        "\
p.yaml:1:9: error: schema: `flushmark.profile/v2` is not known (this program reads: \
flushmark.profile/v1)
p.yaml:2:7: error: name: `a/b` is not a name: give up to 64 of A-Z a-z 0-9 - _ . that begin with \
a letter or a digit
p.yaml:3:15: error: run.blocks: 0 is out of range (1 to 100)
p.yaml:3:18: error: run: unknown key `bloks` (have: blocks, seed, warmup_ms, measure_ms, \
cell_bytes, settle_ms, drain_dirty_below, canary, card, budget_s; did you mean `blocks`?)
p.yaml:5:22: error: workloads.w.message_bytes: 5MiB is out of range (0 to 4194304 bytes)
p.yaml:5:40: error: workloads.w.producers: 0 is out of range (1 to 1024)
p.yaml:5:46: error: workloads.w.producers: `8` is there twice (line 5)
p.yaml:6:6: error: workloads.v.message_bytes is missing
p.yaml:6:6: error: workloads.v.producers is missing
p.yaml:8:13: error: strategies.a.kind: `nome` is not a kind (have: commit_realtime, \
flush_realtime, group_commit, none; did you mean `none`?)
p.yaml:9:19: error: strategies.b: io has no meaning for none
p.yaml:9:31: error: strategies.b: unknown key `foo` (have: kind)
p.yaml:10:6: error: strategies.c.kind is missing
p.yaml:11:27: error: strategies.d: interval_ms has no meaning for group_commit
p.yaml:11:45: error: strategies.d: unknown key `timout_ms` (have: kind, timeout_ms, gather_us, \
siblings, lead, io, prealloc; did you mean `timeout_ms`?)
p.yaml:11:63: error: strategies.d.io: `mmap` is not a choice (have: direct, positioned, mapped)
p.yaml:12:21: error: matrix.workloads: at least one is needed
p.yaml:12:41: error: matrix.strategies: `bb` is not defined (have: a, b, c, d; did you mean `b`?)
p.yaml:12:45: error: matrix.strategies: `a` is there twice (line 12)
p.yaml:13:22: error: log.segment_bytes: 1KiB is out of range (4096 to 2147483647 bytes)"
    );
}

#[test]
fn names_of_cells_that_every_sweep_has_are_taken() {
    for taken in ["raw", "canary"] {
        let text = GOOD.replace("  s: ", &format!("  {taken}: "));
        let message = format!(
            "p.yaml:6:3: error: strategies: `{taken}` is the name of cells that every sweep has: \
             give it another"
        );
        assert_eq!(errors(&text.replace("[s]", &format!("[{taken}]"))), message);
    }
}

#[test]
fn a_small_text_cannot_ask_for_more_cells_than_can_be_kept() {
    let list = |of: &str, value: &str| -> (String, String) {
        let names: Vec<String> = (0..40).map(|number| format!("{of}{number}")).collect();
        let defined: Vec<String> =
            names.iter().map(|name| format!("  {name}: {value}\n")).collect();
        (defined.concat(), names.join(", "))
    };
    let (workloads, loads) = list("w", "{message_bytes: 1, producers: [1, 2, 3, 4, 5, 6, 7]}");
    let (strategies, ways) = list("s", "{kind: none}");
    let text = format!(
        "schema: flushmark.profile/v1\nname: t\nworkloads:\n{workloads}strategies:\n{strategies}\
         matrix: {{workloads: [{loads}], strategies: [{ways}]}}\n"
    );
    let found = errors(&text);
    assert!(found.contains("matrix: 11240 cells in a block are more than 10000"), "{found}");
}

#[test]
fn what_is_missing_is_named() {
    check_replaced("name: t\n", "", "p.yaml:1:1: error: name is missing");
    check_replaced("name: t", "name:", "p.yaml:1:1: error: name is missing");
    check_replaced(", strategies: [s]", "", "p.yaml:7:9: error: matrix.strategies is missing");
    check_replaced(
        "message_bytes: 1KiB, ",
        "",
        "p.yaml:4:6: error: workloads.w.message_bytes is missing",
    );
    check_replaced("kind: none", "", "p.yaml:6:6: error: strategies.s.kind is missing");
    assert_eq!(errors("").lines().count(), 4);
    assert_eq!(errors("# nothing but a comment\n").lines().count(), 4);
}

#[test]
fn a_list_has_entries_each_once_and_not_too_many() {
    check_replaced(
        "[1]",
        "[]",
        "p.yaml:4:39: error: workloads.w.producers: at least one is needed",
    );
    let many = (1..=65).map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
    check_replaced(
        "[1]",
        &format!("[{many}]"),
        "p.yaml:4:39: error: workloads.w.producers: 65 are too many (at most 64)",
    );
    check_replaced(
        "[w]",
        "[w, w]",
        "p.yaml:7:25: error: matrix.workloads: `w` is there twice (line 7)",
    );
    check_replaced(
        "\n  s: {kind: none}",
        " {}",
        "p.yaml:5:13: error: strategies: at least one is needed\n\
         p.yaml:6:39: error: matrix.strategies: `s` is not defined (have: nothing)",
    );
}

#[test]
fn a_record_must_fit_into_segment_and_staging_buffer() {
    let segment = |message: &str, segment: &str| {
        let text = GOOD.replacen("1KiB", message, 1);
        Sweep::parse("p.yaml", &format!("{text}log: {{segment_bytes: {segment}}}\n"))
    };
    assert!(segment("3896", "4096").is_ok());
    assert_eq!(
        without_warnings(&segment("3897", "4096").unwrap_err()),
        "p.yaml:4:22: error: workloads.w.message_bytes: a record of it (4097 bytes) does not fit \
         into a segment (log.segment_bytes is 4096)"
    );
    let staging = |staging: &str, segment: &str| {
        let staged = format!("{{kind: commit_realtime, staging_bytes: {staging}}}");
        let text = GOOD.replacen("{kind: none}", &staged, 1);
        Sweep::parse("p.yaml", &format!("{text}log: {{segment_bytes: {segment}}}\n"))
    };
    assert!(staging("8519688", "128MiB").is_ok());
    assert!(staging("8200", "4096").is_ok());
    assert_eq!(
        without_warnings(&staging("8MiB", "128MiB").unwrap_err()),
        "p.yaml:6:45: error: strategies.s.staging_bytes: 8388608 bytes do not hold two of the \
         largest records that the log accepts (at least 8519688)"
    );
}

#[test]
fn a_mapping_needs_space_that_is_reserved() {
    for kind in ["group_commit", "flush_realtime"] {
        let refused = format!("{{kind: {kind}, io: mapped, prealloc: none}}");
        let text = GOOD.replacen("{kind: none}", &refused, 1);
        let error = Sweep::parse("p.yaml", &text).unwrap_err().to_string();
        assert!(error.contains("strategies.s.prealloc: none is not possible with io: mapped"));
        let taken = format!("{{kind: {kind}, io: positioned, prealloc: none}}");
        Sweep::parse("p.yaml", &GOOD.replacen("{kind: none}", &taken, 1)).unwrap();
    }
    // The other choices name what there is.
    let text = GOOD.replacen("{kind: none}", "{kind: flush_realtime, io: direct}", 1);
    let error = Sweep::parse("p.yaml", &text).unwrap_err().to_string();
    assert!(error.contains("mapped") && error.contains("positioned"), "{error}");
}

#[test]
fn syntax_errors_are_one_line_with_its_place() {
    const FLAT: &str =
        "a profile is one small, flat document without anchors, aliases and merge keys";
    check_added(
        "runn: {}",
        "p.yaml:8:1: error: unknown key `runn` (have: schema, name, run, disks, sysctls, \
         workloads, strategies, matrix, slo, gates, log; did you mean `run`?)",
    );
    check_added("name: x", "p.yaml:8:1: error: the key `name` is there twice");
    check_added("run: 5", "p.yaml:8:6: error: a mapping of keys to values is expected here");
    check_added("run: {seed: [1]}", "p.yaml:8:13: error: a single value is expected here");
    check_added("run: {seed: ~}", "p.yaml:8:13: error: a value is missing here");
    check_added("run: {seed: !x 1}", "p.yaml:8:16: error: unsupported tag `!x`");
    check_added("run: {seed: 1", "p.yaml:8:6: error: unclosed bracket '{'");
    check_added("run: &a {seed: 1}", &format!("p.yaml:8:9: error: {FLAT}"));
    check_added("run: {<<: {seed: 1}}", &format!("p.yaml:8:7: error: {FLAT}"));
    check_added("---\nname: x", &format!("p.yaml:8:1: error: {FLAT}"));
    check_replaced("[1]", "1", "p.yaml:4:39: error: a list is expected here, such as [a, b]");
    check_replaced(
        "producers: [1]",
        "producer: [1]",
        "p.yaml:4:28: error: unknown key `producer` (have: message_bytes, producers, \
         window, rate, find_rate, arrival, burst, reader, deletes_every_ms; did you mean \
         `producers`?)",
    );
    check_replaced(
        "  s: {kind: none}",
        "  s: {kind: none}\n  s: {kind: none}",
        "p.yaml:7:3: error: the key `s` is there twice",
    );
    assert_eq!(
        errors("just words"),
        "p.yaml:1:1: error: a mapping of keys to values is expected here"
    );
    assert_eq!(errors("a: b\n\tc: d\n").lines().count(), 1);
}

/// A list of aliases to lists of aliases, 10^20 entries if it were followed.
fn alias_bomb() -> String {
    let level = |n: usize| match n {
        0 => "a0: &a0 [x, x, x, x, x, x, x, x, x, x]".to_owned(),
        n => format!("a{n}: &a{n} [{}]", format!("*a{}, ", n - 1).repeat(10)),
    };
    (0..20).map(level).collect::<Vec<_>>().join("\n")
}

#[test]
fn hostile_text_is_refused_quickly() {
    const LONG: usize = 1 << 19;
    let names: Vec<String> = (0..64).map(|n| format!("{n:0>64}")).collect();
    let defined: Vec<String> = names.iter().map(|name| format!("{name}: {{}}")).collect();
    let wanted: Vec<String> = names.iter().map(|name| name.replace('0', "x")).collect();
    let strangers = format!(
        "strategies: {{{}}}\nmatrix: {{strategies: [{}]}}",
        defined[..32].join(", "),
        wanted[..32].join(", ")
    );
    let nested: Vec<String> = (0..500).map(|n| format!("{}run:", " ".repeat(n))).collect();
    let keys: Vec<String> = (0..100_000).map(|n| format!("k{n}: 1")).collect();
    let before = now();
    for text in [
        alias_bomb(),
        alias_bomb().replacen("a0:", "run:", 1),
        " ".repeat((1 << 20) + 1),
        "[".repeat(LONG),
        format!("workloads: {{w: {{producers: {}", "[".repeat(LONG)),
        "{run: ".repeat(LONG / 8),
        "- ".repeat(LONG),
        format!("matrix:\n  workloads: {}", "- ".repeat(LONG)),
        nested.join("\n"),
        format!("name: {}", "x".repeat(LONG)),
        format!("name: \"{}\"", "\\u0041".repeat(LONG / 6)),
        format!("name: |\n{}", "  x\n".repeat(LONG / 4)),
        format!("name: !{} x", "t".repeat(LONG)),
        format!("name: &{} x", "t".repeat(LONG)),
        format!("{}: 1", "x".repeat(LONG)),
        format!("? \"{}\"\n: 1", "x".repeat(LONG)),
        format!("run: {{seed: {}}}", "9".repeat(10_000)),
        format!("run: {{{}}}", "seed: 1, ".repeat(LONG / 9)),
        keys.join("\n"),
        format!("run: {{{}}}", keys[..2000].join(", ")),
        strangers,
        "---\n".repeat(LONG / 4),
        "#\n".repeat(LONG),
        "%YAML 1.2\n".repeat(LONG / 10),
        "name: \u{1b}[31m\u{7}\0".to_owned(),
        "name: \"\\e[31m\\a\"".to_owned(),
        "name: a\n\u{feff}b: c".to_owned(),
    ] {
        let what: String = text.chars().take(30).collect();
        let errors = errors(&text);
        assert!(errors.lines().all(|line| line.len() < 4096), "{what}: {errors}");
        // Nothing that a terminal would obey.
        assert!(errors.chars().all(|c| !c.is_control() || c == '\n'), "{what}: {errors:?}");
    }
    // Half a second without optimisation; the rest is for busy machines.
    assert!(now().saturating_sub(before) < Duration::from_secs(20));
}

fn now() -> Duration {
    Duration::try_from(clock_gettime(ClockId::Monotonic)).unwrap()
}

#[test]
fn a_profile_is_found_by_name_or_path() {
    let by_path = root().join("profiles/sweeps/quick.yaml");
    let by_path = Sweep::load(by_path.to_str().unwrap(), Path::new("/nonexistent")).unwrap();
    assert_eq!(by_path, Sweep::load("quick", &root()).unwrap());
}

#[test]
fn an_unknown_name_lists_what_there_is() {
    let root = tempfile::tempdir().unwrap();
    let sweeps = root.path().join(SWEEPS);
    let error = |name: &str| format!("{:#}", Sweep::load(name, root.path()).unwrap_err());
    assert!(error("quick").contains("cannot list the sweeps in"), "{}", error("quick"));
    fs::create_dir_all(&sweeps).unwrap();
    assert!(error("quick").contains("(have: nothing)"), "{}", error("quick"));
    for file in ["quick.yaml", "full.yaml", "notes.md"] {
        fs::write(sweeps.join(file), "").unwrap();
    }
    let message = error("quik");
    assert!(message.contains("(have: full, quick; did you mean `quick`?)"), "{message}");
    assert!(error("..").contains("there is no sweep"), "{}", error(".."));
}

#[test]
fn what_cannot_be_read_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let error = |name: &str| format!("{:#}", Sweep::load(&path(name), dir.path()).unwrap_err());
    fs::create_dir(path("dir.yaml")).unwrap();
    fs::write(path("bytes.yaml"), b"name: \xff").unwrap();
    File::create(path("large.yaml")).unwrap().set_len(1 << 40).unwrap();
    fs::write(path("bad.yaml"), GOOD.replace("none", "nine")).unwrap();
    assert!(error("missing.yaml").contains("cannot read the profile"));
    assert!(error("dir.yaml").contains("is not a file"));
    assert!(error("bytes.yaml").contains("is not UTF-8"));
    assert!(error("large.yaml").contains("has more than 1048576 bytes"));
    let message = error("bad.yaml");
    assert!(message.contains(&format!("\n{}:6:13: error: ", path("bad.yaml"))), "{message}");
    let errors = Sweep::load(&path("bad.yaml"), dir.path()).unwrap_err();
    assert_eq!(errors.downcast_ref::<ProfileErrors>().unwrap().findings().len(), 2);
}
