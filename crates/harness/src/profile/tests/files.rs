//! What a matrix takes from files of their own, and how errors in those are told.

use super::*;

/// A root with the files given by their paths below `profiles`.
fn root_with(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = root.path().join("profiles").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    root
}

/// [`GOOD`] with another matrix for `{workloads: [w], strategies: [s]}`.
fn with_matrix(matrix: &str) -> String {
    GOOD.replacen("{workloads: [w], strategies: [s]}", matrix, 1)
}

/// The errors, with the root left out of the names of files.
#[track_caller]
fn errors_in(root: &tempfile::TempDir, text: &str) -> String {
    let errors = Sweep::parse_within("p.yaml", text, root.path()).expect_err(text);
    without_warnings(&errors).replace(&format!("{}/", root.path().display()), "")
}

const WORKLOAD: &str = "\
schema: flushmark.profile/v1
name: other
message_bytes: 10
producers: [1]
";

#[test]
fn a_profile_is_asked_before_the_files() {
    let own = WORKLOAD.replacen("other", "w", 1);
    let root = root_with(&[("workloads/w.yaml", &own), ("workloads/other.yaml", WORKLOAD)]);
    let text = with_matrix("{workloads: [w, other], strategies: [s]}");
    let sweep = Sweep::parse_within("p.yaml", &text, root.path()).unwrap();
    let sizes: Vec<u64> = sweep.workloads.iter().map(|work| work.message_bytes.mean()).collect();
    assert_eq!(sizes, [1024, 10]);
    assert_eq!(sweep.text, format!("{text}--- # profiles/workloads/other.yaml\n{WORKLOAD}"));
}

#[test]
fn a_profile_needs_no_workloads_of_its_own() {
    let root = root_with(&[("workloads/other.yaml", WORKLOAD)]);
    let text = with_matrix("{workloads: [other], strategies: [s]}");
    let text = text.replacen("workloads:\n  w: {message_bytes: 1KiB, producers: [1]}\n", "", 1);
    let sweep = Sweep::parse_within("p.yaml", &text, root.path()).unwrap();
    assert_eq!(sweep.workloads[0].name, "other");
}

#[test]
fn a_name_that_is_nowhere_lists_what_there_is() {
    let root = root_with(&[
        ("workloads/other.yaml", WORKLOAD),
        ("workloads/w.yaml", ""),
        ("disks/data.yaml", ""),
        ("disks/notes.txt", ""),
    ]);
    let text = with_matrix(
        "{disks: [dta], sysctls: [as-fond], workloads: [othr, ../../etc/x], strategies: [s]}",
    );
    assert_eq!(
        errors_in(&root, &text),
        "\
p.yaml:7:18: error: matrix.disks: `dta` is not defined (have: data, host; did you mean `data`?)
p.yaml:7:34: error: matrix.sysctls: `as-fond` is not defined (have: as-found; did you mean \
`as-found`?)
p.yaml:7:56: error: matrix.workloads: `othr` is not defined (have: w, other; did you mean `other`?)
p.yaml:7:62: error: matrix.workloads: `../../etc/x` is not defined (have: w, other)"
    );
}

#[test]
fn errors_in_a_file_have_its_name_and_come_after_the_profiles() {
    let root = root_with(&[
        (
            "disks/a.yaml",
            "# about\nschema: flushmark.profile/v2\nname: b\nkind: tmpfs\nplp: true\n",
        ),
        ("sysctls/a.yaml", "schema: flushmark.profile/v1\nname: a\ndirty_ratio: 200\n"),
        ("sysctls/b.yaml", "dirty_ratio: 20\nname: [b\n"),
        ("workloads/a.yaml", "schema: flushmark.profile/v1\nmessage_byte: 1\n"),
        ("workloads/b.yaml", "name: b\nmessage_bytes: 127MiB\nproducers: [0]\n"),
    ]);
    let matrix = "{disks: [a], sysctls: [a, b], workloads: [a, b], strategies: [s, t]}";
    assert_eq!(
        errors_in(&root, &with_matrix(matrix)),
        "\
p.yaml:7:74: error: matrix.strategies: `t` is not defined (have: s; did you mean `s`?)
profiles/disks/a.yaml:2:9: error: schema: `flushmark.profile/v2` is not known (this program reads: \
flushmark.profile/v1)
profiles/disks/a.yaml:3:7: error: name: `b` is not the name of the file, `a`
profiles/disks/a.yaml:5:1: error: disks.a: plp has no meaning for tmpfs
profiles/sysctls/a.yaml:3:14: error: sysctls.a.dirty_ratio: 200 is out of range (0 to 100)
profiles/sysctls/b.yaml:2:7: error: a single value is expected here
profiles/workloads/a.yaml:2:1: error: unknown key `message_byte` (have: schema, name, \
message_bytes, producers, window, rate, find_rate, arrival, burst, reader, deletes_every_ms; did \
you mean `message_bytes`?)
profiles/workloads/b.yaml:1:1: error: schema is missing
profiles/workloads/b.yaml:2:16: error: workloads.b.message_bytes: 127MiB is out of range (0 to \
4194304 bytes)
profiles/workloads/b.yaml:3:13: error: workloads.b.producers: 0 is out of range (1 to 1024)"
    );
}

#[test]
fn a_record_is_read_without_the_files_and_its_errors_have_its_lines() {
    let root = root_with(&[("workloads/other.yaml", WORKLOAD)]);
    let text = with_matrix("{workloads: [other], strategies: [s]}");
    let sweep = Sweep::parse_within("p.yaml", text.trim_end(), root.path()).unwrap();
    let again = Sweep::parse("profile.yaml", &sweep.text).unwrap();
    assert_eq!((&again.workloads, &again.text), (&sweep.workloads, &sweep.text));
    // What is kept counts, whatever the files have become.
    fs::write(root.path().join("profiles/workloads/other.yaml"), "").unwrap();
    assert_eq!(Sweep::parse_within("profile.yaml", &sweep.text, root.path()).unwrap(), again);
    // Line 7 is the matrix, 8 the mark: the file's first line is the ninth.
    assert_eq!(
        errors(&sweep.text.replacen("message_bytes: 10", "message_bytes: x", 1)),
        "p.yaml:11:16: error: workloads.other.message_bytes: `x` is not a size: give bytes, or a \
         number with KiB, MiB or GiB"
    );
}

#[test]
fn what_cannot_be_kept_is_refused() {
    let marked = format!("{WORKLOAD}--- # profiles/disks/x.yaml\n");
    let large = format!("{WORKLOAD}{}", "#\n".repeat((1 << 19) - 50));
    let root = root_with(&[("workloads/a.yaml", &marked), ("workloads/other.yaml", &large)]);
    fs::write(root.path().join("profiles/workloads/b.yaml"), [0xff]).unwrap();
    let of = |name: &str| {
        errors_in(&root, &with_matrix(&format!("{{workloads: [{name}], strategies: [s]}}")))
    };
    assert_eq!(
        of("a"),
        "p.yaml:7:22: error: profiles/workloads/a.yaml has a line that begins with \
         `--- # profiles/`"
    );
    assert!(of("b").contains("b.yaml is not UTF-8 text"), "{}", of("b"));
    assert_eq!(
        of("other"),
        "p.yaml:1:1: error: the profile and the files that it takes from have more than 1048576 \
         bytes"
    );
    // Other documents are none of ours.
    check_added(
        "--- # profiles",
        "p.yaml:8:1: error: a profile is one small, flat document without anchors, aliases and \
         merge keys",
    );
}

#[test]
fn hostile_files_are_refused_quickly() {
    const LONG: usize = 1 << 19;
    let nested = "[".repeat(LONG);
    let before = now();
    for text in [
        alias_bomb(),
        nested.clone(),
        format!("message_bytes: {nested}"),
        format!("message_bytes: {}", "{1: ".repeat(LONG / 4)),
        format!("message_bytes: {{{}}}", "1: 1, ".repeat(LONG / 6)),
        format!("burst: {}", "{a: ".repeat(LONG / 4)),
        format!("kind: {}", "x".repeat(LONG)),
        format!("dirty_bytes: {}", "9".repeat(60_000)),
        format!("name: |\n{}", "  x\n".repeat(LONG / 4)),
        " ".repeat((1 << 20) + 1),
        "--- # profiles/disks/x.yaml\n".repeat(LONG / 28),
    ] {
        for family in ["disks", "sysctls", "workloads"] {
            let root = root_with(&[(&format!("{family}/x.yaml"), &text)]);
            let matrix = match family {
                "workloads" => "{workloads: [x], strategies: [s]}".to_owned(),
                _ => format!("{{{family}: [x], workloads: [w], strategies: [s]}}"),
            };
            let errors = errors_in(&root, &with_matrix(&matrix));
            assert!(errors.lines().all(|line| line.len() < 4096), "{errors}");
        }
    }
    // A profile of nothing but marks.
    assert!(!errors(&"--- # profiles/disks/x.yaml\n".repeat(LONG / 28)).is_empty());
    assert!(now().saturating_sub(before) < Duration::from_secs(20));
}
