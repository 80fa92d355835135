//! `cargo xtask log` as a user runs it, on copies of stores that RocketMQ wrote.

#![expect(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use group_commit::GroupCommit;
use serde_json::Value;
use store_core::{
    Destination, LogOffset, Message, Placed, Protection, QueueId, QueueOffset, SegmentSize,
    TimestampMs, Topic, Wait, encode, encode_blank,
};
use store_os::{Log, LogOptions};
use tempfile::TempDir;

/// A copy of a golden store in a directory of its own, under the store's name.
struct Copy {
    root: TempDir,
    name: &'static str,
}

impl Copy {
    fn of(name: &'static str) -> Self {
        let root = TempDir::new().unwrap();
        copy_tree(&golden(name), &root.path().join(name));
        Self { root, name }
    }

    fn path(&self, file: &str) -> PathBuf {
        self.root.path().join(self.name).join(file)
    }

    /// Overwrites bytes of the log.
    fn patch(&self, offset: usize, bytes: &[u8]) {
        let segment = self.path(&format!("commitlog/{:020}", offset / SEGMENT * SEGMENT));
        let mut content = fs::read(&segment).unwrap();
        content[offset % SEGMENT..][..bytes.len()].copy_from_slice(bytes);
        fs::write(&segment, content).unwrap();
    }

    /// Runs `cargo xtask log` beside the store, so that its name is its path.
    fn log(&self, arguments: &[&str]) -> Told {
        let output = self.command(arguments).output().unwrap();
        Told::new(&output)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
        command.arg("log").args(arguments).current_dir(self.root.path());
        command
    }

    /// Every file with its bytes.
    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = BTreeMap::new();
        walk(self.root.path(), &mut |path| {
            found.insert(path.to_owned(), fs::read(path).unwrap());
        });
        found
    }
}

/// What a run said.
#[derive(Debug)]
struct Told {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Told {
    fn new(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        Self { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
    }

    #[track_caller]
    fn check(&self, code: i32, out: &str, err: &str) {
        assert_eq!((self.code, &*self.out, &*self.err), (Some(code), out, err));
    }

    fn json_lines(&self) -> Vec<Value> {
        self.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/store-os/tests/golden").join(name)
}

fn copy_tree(from: &Path, to: &Path) {
    walk(from, &mut |path| {
        let target = to.join(path.strip_prefix(from).unwrap());
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::write(target, fs::read(path).unwrap()).unwrap();
    });
}

fn walk(folder: &Path, visit: &mut dyn FnMut(&Path)) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { walk(&path, visit) } else { visit(&path) }
    }
}

/// What the golden store `name` was given and answered, message by message.
fn messages(name: &str) -> Vec<Value> {
    let text = fs::read_to_string(golden(&format!("{name}.json"))).unwrap();
    let mut parsed: Value = serde_json::from_str(&text).unwrap();
    serde_json::from_value(parsed["messages"].take()).unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |digits, byte| digits + &format!("{byte:02x}"))
}

/// The golden stores' segment size.
const SEGMENT: usize = 65_536;
/// In `crash`: record 45's place and size, and the last record's.
const RECORD_45: (usize, usize) = (133_649, 2839);
const LAST_RECORD: (usize, usize) = (174_049, 3405);

#[test]
fn a_store_is_shown_on_one_screen() {
    let expect = "\
store       plain
segments    7 of 64 KiB each, offsets 0 to 458752
records     232; 316 KiB; 70 KiB blank
            version 1: 230, version 2: 2; none with a CRC32 property
stored      2026-11-29T13:06:30.649Z to 2026-11-29T13:06:32.353Z
valid to    396139, in 00000000000000393216; 61 KiB of it are left
checkpoint  log 2026-11-29T13:06:30.906Z, queues 2026-11-29T13:06:32.353Z
            index 2026-11-29T13:06:31.260Z, confirmed 0, master flushed 0
exit        clean

topic                                                  records  queues     bytes
Fit                                                          5       1   176 KiB
Big                                                          5       1    67 KiB
Props                                                        6       1    34 KiB
Many                                                       130       2    25 KiB
Batch                                                       29       2   6.9 KiB
and 13 more

health      sound
";
    Copy::of("plain").log(&["plain"]).check(0, expect, "");
}

#[test]
fn a_damaged_store_says_where_and_what_to_run_next() {
    let expect = "\
store       badtopic
segments    2 of 64 KiB each, offsets 0 to 131072
records     2; 204 B
            version 1; none with a CRC32 property
stored      2026-11-29T13:07:09.072Z to 2026-11-29T13:07:09.184Z
valid to    485, in 00000000000000000000; 64 KiB of it are left
checkpoint  log 2026-11-29T13:07:09.184Z, queues 2026-11-29T13:07:09.184Z
            index –, confirmed 0, master flushed 0
exit        unclean: abort is there, and no process has the store open

topic                                                  records  queues     bytes
T                                                            2       1     204 B

health      damaged, 1 fault; the first:
            00000000000000000000, offset 102, 281 bytes
            TopicLength at byte 98 is -76; valid records behind: 1
next        cargo xtask log verify badtopic
            lists every fault
            cargo xtask log repair badtopic
            says what a repair would keep and lose; changes nothing
";
    Copy::of("badtopic").log(&["badtopic"]).check(0, expect, "");
}

#[test]
fn the_segments_themselves_can_be_looked_at() {
    let told = Copy::of("crash").log(&["crash/commitlog"]);
    assert_eq!(told.code, Some(0), "{told:?}");
    assert!(told.out.contains("\nrecords     60; 171 KiB; "), "{}", told.out);
}

#[test]
fn every_golden_store_is_verified() {
    for (name, code, expect) in [
        (
            "plain",
            0,
            "plain: sound\n\
             232 records; 316 KiB in 7 segments of 64 KiB each\n\
             valid to offset 396139; 70 KiB blank\n",
        ),
        (
            "crash",
            0,
            "crash: sound\n\
             60 records; 171 KiB in 4 segments of 64 KiB each\n\
             valid to offset 177454; 2.3 KiB blank\n",
        ),
        (
            "batchcq",
            0,
            "batchcq: sound\n\
             30 records; 4.5 KiB in 1 segment of 64 KiB each\n\
             valid to offset 4616\n",
        ),
        (
            "oversize",
            0,
            "oversize: sound\n\
             2 records; 384 B in 3 segments of 64 KiB each\n\
             valid to offset 131264; 128 KiB blank\n",
        ),
        (
            "badtopic",
            2,
            "badtopic: damaged, 1 fault\n\
             2 records; 204 B in 2 segments of 64 KiB each\n\
             valid to offset 485\n\
             \n\
             segment                    offset     length   behind\n\
             00000000000000000000          102        281        1\n    \
             TopicLength at byte 98 is -76\n",
        ),
    ] {
        let told = Copy::of(name).log(&["verify", name]);
        assert_eq!((told.code, &*told.out), (Some(code), expect), "{name}");
    }
}

#[test]
fn a_torn_tail_is_expected_after_an_unclean_exit_only() {
    let store = Copy::of("crash");
    let (at, size) = LAST_RECORD;
    store.patch(at + size / 2, &vec![0; size - size / 2]);
    let told = store.log(&["verify", "crash"]);
    assert_eq!(told.code, Some(0), "{told:?}");
    assert!(told.out.starts_with("crash: sound but for its tail\n59 records; "));
    assert!(told.out.contains("\n00000000000000131072       174049 "), "{}", told.out);
    let next = "Flushmark cuts it when it opens the store; RocketMQ leaves it in the\n\
                file (apache/rocketmq#10666)\n\
                next: cargo xtask log repair crash\n      \
                says what a repair would keep and lose; changes nothing\n";
    let why = "the last exit was unclean (abort is there): a torn tail is no damage\n";
    assert_eq!(told.err, format!("{why}{next}"));

    fs::remove_file(store.path("abort")).unwrap();
    let told = store.log(&["verify", "crash"]);
    assert_eq!(told.code, Some(2), "{told:?}");
    let why = "the last exit was clean (no abort), so nothing should be torn\n";
    assert_eq!(told.err, format!("{why}{next}"));
}

#[test]
fn damage_is_verified_in_json_too() {
    let store = Copy::of("crash");
    let (at, size) = RECORD_45;
    store.patch(at + 200, &[0xFF]);
    let told = store.log(&["verify", "crash", "--json"]);
    assert_eq!(told.code, Some(2), "{told:?}");
    let json: Value = serde_json::from_str(&told.out).unwrap();
    assert_eq!(json["health"], "damaged");
    assert_eq!((&json["records"], &json["abort"]), (&59.into(), &"9607".into()));
    assert_eq!(json["segments"].as_array().unwrap().len(), 4);
    let fault = &json["faults"][0];
    assert_eq!(fault["kind"], "damage");
    assert_eq!(fault["segment"], "00000000000000131072");
    assert_eq!((&fault["from"], &fault["length"]), (&at.into(), &size.into()));
    assert_eq!(fault["records_behind"], 14);
    assert_eq!(json["faults"].as_array().unwrap().len(), 1);
    assert!(told.err.starts_with("next: cargo xtask log repair crash\n"), "{}", told.err);
}

#[test]
fn a_dump_lists_a_screen_of_records_and_says_how_to_go_on() {
    let store = Copy::of("plain");
    let told = store.log(&["dump", "plain"]);
    assert_eq!(told.code, Some(0), "{told:?}");
    let lines: Vec<&str> = told.out.lines().collect();
    assert_eq!(lines.len(), 20, "{}", told.out);
    assert_eq!(
        lines[2],
        "         185     103  2026-11-29T13:06:30.791Z  T/1@0  11 B  \"hello world\""
    );
    assert_eq!(
        told.err,
        "      offset    size  stored                    topic/queue@offset, body, tags\n\
         more: cargo xtask log dump plain --from 3065\n"
    );

    let told = store.log(&["dump", "plain", "--from", "3065", "--count", "2"]);
    let expect = "        3065     114  2026-11-29T13:06:30.844Z  Tags/0@2  11 B  TAGS=Aa\n        \
                  3179     114  2026-11-29T13:06:30.845Z  Tags/0@3  11 B  TAGS=BB\n";
    assert_eq!((told.code, &*told.out), (Some(0), expect));
    assert!(told.err.ends_with("dump plain --from 3293 --count 2\n"), "{}", told.err);
}

#[test]
fn a_dump_begins_at_the_first_record_at_or_behind_an_offset() {
    let store = Copy::of("crash");
    let told = store.log(&["dump", "crash", "--from", "170822", "--json"]);
    let offsets: Vec<Value> = told.json_lines().iter().map(|line| line["offset"].clone()).collect();
    assert_eq!(offsets, [LAST_RECORD.0]);
    let note = "no record begins at offset 170822; the next one begins at 174049\n";
    assert_eq!((told.code, &*told.err), (Some(0), note));

    let told = store.log(&["dump", "crash", "--from", "174050"]);
    let note = "error: no record begins at offset 174050 or behind it; the log ends at 177454\n";
    told.check(1, "", note);
    for (name, end) in [("plain", "396139"), ("badtopic", "485"), ("batchcq", "4616")] {
        let told = Copy::of(name).log(&["dump", name, "--from", "999999999"]);
        assert!(told.err.ends_with(&format!("; the log ends at {end}\n")), "{told:?}");
    }
}

#[test]
fn a_dump_passes_over_damage_and_fails_at_its_end() {
    let store = Copy::of("badtopic");
    let told = store.log(&["dump", "badtopic", "--json"]);
    let offsets: Vec<Value> = told.json_lines().iter().map(|line| line["offset"].clone()).collect();
    assert_eq!(offsets, [0, 383]);
    told.check(
        2,
        &told.out,
        "damage: 281 bytes passed over at offset 102; the next record is at 383\n        \
         TopicLength at byte 98 is -76\n",
    );
}

#[test]
fn a_torn_tail_ends_a_dump_and_is_no_damage() {
    let store = Copy::of("crash");
    let (at, size) = LAST_RECORD;
    store.patch(at + size / 2, &vec![0; size - size / 2]);
    let told = store.log(&["dump", "crash", "--json"]);
    assert_eq!((told.code, told.json_lines().len()), (Some(0), 59), "{}", told.err);
    let note = "nothing valid follows offset 174049:\n";
    let judge = "        whether that is a torn tail or damage is judged by\n        \
                 cargo xtask log verify crash\n";
    assert!(told.err.starts_with(note) && told.err.ends_with(judge), "{}", told.err);
    let told = store.log(&["dump", "crash", "--from", "174049"]);
    assert_eq!((told.code, &*told.out), (Some(0), ""), "{}", told.err);
    assert!(told.err.starts_with(note) && told.err.ends_with(judge), "{}", told.err);
}

#[test]
fn what_a_crash_does_not_leave_behind_the_last_record_is_damage_to_a_dump_too() {
    let elsewhere = Copy::of("crash");
    let segment = fs::read(elsewhere.path("commitlog/00000000000000131072")).unwrap();
    let (at, size) = LAST_RECORD;
    elsewhere.patch(177_454, &segment[at - 131_072..][..size]);
    let missing = Copy::of("crash");
    fs::write(missing.path("commitlog/00000000000000327680"), vec![0xA5; SEGMENT]).unwrap();
    let closed = Copy::of("crash");
    fs::write(closed.path("commitlog/00000000000000196608"), vec![0xA5; SEGMENT]).unwrap();
    let told = closed.log(&["dump", "crash", "--json"]);
    assert_eq!(told.code, Some(0), "an unclean exit may leave that: {}", told.err);
    fs::remove_file(closed.path("abort")).unwrap();
    let that = "that";
    let behind = "what is in segments behind it";
    for (store, what) in [(elsewhere, that), (missing, behind), (closed, behind)] {
        let told = store.log(&["dump", "crash", "--json"]);
        assert_eq!((told.code, told.json_lines().len()), (Some(2), 60), "{}", told.err);
        let note = "nothing valid follows offset 177454:\n";
        let judge = format!(
            "        {what} is damage and no torn tail:\n        cargo xtask log verify crash\n"
        );
        assert!(told.err.starts_with(note) && told.err.ends_with(&judge), "{}", told.err);
        assert_eq!(store.log(&["verify", "crash"]).code, Some(2));
    }
}

#[test]
fn a_dump_from_the_end_of_the_log_says_that_it_is_the_end() {
    for (name, end) in [("plain", "396139"), ("crash", "177454"), ("batchcq", "4616")] {
        let told = Copy::of(name).log(&["dump", name, "--from", end]);
        told.check(0, "", &format!("the log ends at offset {end}\n"));
    }
}

#[test]
fn json_has_what_the_store_was_given() {
    for name in ["plain", "crash", "batchcq", "oversize"] {
        let told = Copy::of(name).log(&["dump", name, "--json"]);
        assert_eq!((told.code, &*told.err), (Some(0), ""), "{name}");
        let records: BTreeMap<u64, Value> = told
            .json_lines()
            .into_iter()
            .map(|record| (record["offset"].as_u64().unwrap(), record))
            .collect();
        let mut compared = 0;
        for message in messages(name) {
            let (given, answer) = (&message["in"], &message["out"]);
            if message["kind"] != "single" || answer["appendStatus"] != "PUT_OK" {
                continue;
            }
            compared += 1;
            let record = &records[&answer["wroteOffset"].as_u64().unwrap()];
            let stored = answer["propertiesStoredString"].as_str().unwrap_or_default();
            let stored = hex(stored.as_bytes());
            let host = |host: &Value| match host["ip"].as_str().unwrap().parse().unwrap() {
                std::net::IpAddr::V4(ip) => format!("{ip}:{}", host["port"]),
                std::net::IpAddr::V6(ip) => format!("[{ip}]:{}", host["port"]),
            };
            for (field, expect) in [
                ("size", answer["wroteBytes"].clone()),
                ("version", (1 + u8::from(answer["version"] == "MESSAGE_VERSION_V2")).into()),
                ("topic", given["topic"].clone()),
                ("queue_id", given["queueId"].clone()),
                ("queue_offset", answer["queueOffset"].clone()),
                ("flag", given["flag"].clone()),
                ("sys_flag", answer["sysFlagStored"].clone()),
                ("born_timestamp_ms", given["bornTimestamp"].clone()),
                ("born_host", host(&given["bornHost"]).into()),
                ("store_timestamp_ms", answer["storeTimestamp"].clone()),
                ("store_host", host(&given["storeHost"]).into()),
                ("reconsume_times", given["reconsumeTimes"].clone()),
                ("prepared_transaction_offset", given["preparedTransactionOffset"].clone()),
                ("body_crc", answer["bodyCRC"].clone()),
                ("body_crc_ok", true.into()),
                ("record_crc", Value::Null),
                ("properties_hex", stored.into()),
                ("message_id", answer["msgId"].clone()),
                ("body_hex", given["bodyHex"].clone()),
            ] {
                assert_eq!(record[field], expect, "{name}: {field} of {}", message["idx"]);
            }
        }
        assert!(compared > 0, "{name}");
    }
}

#[test]
fn what_a_producer_named_does_not_reach_the_terminal_raw() {
    let store = Copy::of("crash");
    // Without the CRC32 property nothing covers a topic. Record 45's stands behind its body.
    let (at, size) = RECORD_45;
    let segment = fs::read(store.path("commitlog/00000000000000131072")).unwrap();
    let record = &segment[at - 131_072..][..size];
    let name = messages("crash")[45]["in"]["topic"].as_str().unwrap().to_owned();
    let named = [&[2], name.as_bytes()].concat();
    let topic = record.windows(3).rposition(|window| window == named).unwrap() + 1;
    store.patch(at + topic, b"\x1b\x07");
    for arguments in [&["crash"][..], &["dump", "crash", "--count", "60"]] {
        let told = store.log(arguments);
        assert_eq!(told.code, Some(0), "{told:?}");
        assert!(told.out.contains(r"\u{1b}\u{7}"), "{}", told.out);
        assert!(!told.out.contains('\u{1b}'), "{}", told.out);
    }
    store.patch(at + topic, "\u{9b}".as_bytes());
    for arguments in [&["verify", "crash", "--json"][..], &["dump", "crash", "--json"]] {
        let told = store.log(arguments);
        assert!(
            told.out.contains(r#""topic":"\u009b""#) || told.out.contains(r#""topic": "\u009b""#)
        );
        assert!(!told.out.contains('\u{9b}'), "{}", told.out);
    }
}

#[test]
fn a_reader_that_stops_is_no_error() {
    let store = Copy::of("plain");
    let mut child = store
        .command(&["dump", "plain", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // All of it is more than a pipe holds, so the child meets the closed end.
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert!(first.starts_with("{\"offset\":0,"), "{first}");
    Told::new(&child.wait_with_output().unwrap()).check(0, "", "");
}

#[test]
fn nothing_of_a_store_is_changed_by_looking_at_it() {
    for name in ["crash", "badtopic"] {
        let store = Copy::of(name);
        let before = store.files();
        for task in [&[name][..], &["verify", name], &["dump", name], &["repair", name]] {
            store.log(task);
            assert!(store.files() == before, "{task:?}");
        }
    }
}

#[test]
fn what_is_no_store_is_named_in_one_line() {
    let store = Copy::of("crash");
    fs::create_dir(store.root.path().join("empty")).unwrap();
    for task in ["verify", "dump", "repair"] {
        store.log(&[task, "nowhere"]).check(
            1,
            "",
            "error: nowhere does not exist: DIR is a store's root, which holds commitlog/\n",
        );
        store.log(&[task, "crash/abort"]).check(
            1,
            "",
            "error: crash/abort is a file: DIR is a store's root, which holds commitlog/\n",
        );
        let told = store.log(&[task, "empty"]);
        told.check(1, "", "error: empty is empty: DIR is a store's root, which holds commitlog/\n");
    }
}

#[test]
fn wrong_arguments_are_told_apart_from_wrong_stores() {
    let store = Copy::of("crash");
    for arguments in [
        &[][..],
        &["crash", "--segment-size", "64kb"],
        &["dump", "crash", "--count", "0"],
        &["dump", "crash", "--from", "-1"],
        &["dump", "crash", "--from", "18446744073709551615"],
        &["verify"],
        &["dmp", "crash"],
    ] {
        let told = store.log(arguments);
        assert_eq!((told.code, &*told.out), (Some(1), ""), "{arguments:?}");
        assert!(told.err.contains("try '--help'"), "{arguments:?}: {}", told.err);
    }
}

#[test]
fn a_wrong_segment_size_is_said() {
    for task in ["verify", "repair"] {
        let told = Copy::of("crash").log(&[task, "crash", "--segment-size", "128KiB"]);
        assert_eq!((told.code, &*told.out), (Some(1), ""), "{told:?}");
        let err = told.err.replace('\n', " ");
        assert!(err.contains("is 131072 bytes long, most have 65536"), "{err}");
    }
}

#[test]
fn every_printed_command_has_the_options_that_were_given() {
    let store = Copy::of("crash");
    store.patch(RECORD_45.0 + 200, &[0xFF]);
    let given = ["--ignore-crc-property", "--segment-size", "64KiB"];
    let with = " --segment-size 65536 --ignore-crc-property";
    let run = |task: &[&str]| store.log(&[task, &given].concat());
    let told = run(&["crash"]);
    for task in ["verify", "repair"] {
        assert!(told.out.contains(&format!(" log {task} crash{with}\n")), "{}", told.out);
    }
    let told = run(&["verify", "crash"]);
    assert!(told.err.contains(&format!(" log repair crash{with}\n")), "{}", told.err);
    let told = run(&["dump", "crash", "--json", "--count", "1"]);
    let go_on = format!("more: cargo xtask log dump crash{with} --from 3240 --count 1 --json\n");
    assert!(told.err.ends_with(&go_on), "{}", told.err);
    let told = run(&["repair", "crash"]);
    let plan = format!(
        "\n  cargo xtask log repair crash{with} --apply\n  \
         cargo xtask log repair crash{with} --to DIR2 --apply\n"
    );
    assert!(told.err.ends_with(&plan), "{}", told.err);
    let told = run(&["repair", "crash", "--to", "a copy"]);
    let plan = format!(" log repair crash{with} --to 'a copy' --apply\n");
    assert!(told.err.ends_with(&plan), "{}", told.err);
    let told = run(&["repair", "crash", "--to", "a copy", "--apply"]);
    let check = format!("check it: cargo xtask log verify 'a copy'{with}\n");
    assert!(told.err.starts_with(&check), "{}", told.err);
    let told = run(&["repair", "crash", "--apply"]);
    let check = format!("check it: cargo xtask log verify crash{with}\n");
    assert!(told.err.starts_with(&check), "{}", told.err);
}

#[test]
fn a_store_is_shown_in_json_as_verify_prints_it() {
    let store = Copy::of("badtopic");
    let shown = store.log(&["badtopic", "--json"]);
    let verified = store.log(&["verify", "badtopic", "--json"]);
    shown.check(0, &verified.out, "");
}

#[test]
fn an_inner_batch_shows_how_many_messages_it_has() {
    let store = Copy::of("batchcq");
    let told = store.log(&["dump", "batchcq", "--count", "2"]);
    assert!(told.out.ends_with("  BatchCq/0@1 ×2  30 B\n"), "{}", told.out);
    assert!(told.out.contains("  BatchCq/0@0  30 B\n"), "{}", told.out);
    let told = store.log(&["dump", "batchcq", "--count", "2", "--json"]);
    let counts: Vec<Value> =
        told.json_lines().iter().map(|line| line["message_count"].clone()).collect();
    assert_eq!(counts, [1, 2]);
}

#[test]
fn a_log_without_a_segment_is_empty() {
    let store = Copy { root: TempDir::new().unwrap(), name: "s" };
    fs::create_dir_all(store.path("commitlog")).unwrap();
    store.log(&["verify", "s"]).check(0, "s: empty, no segment yet\n", "");
    store.log(&["dump", "s"]).check(0, "", "there is no record\n");
    let told = store.log(&["s"]);
    assert!(told.out.ends_with("\nhealth      empty, no segment yet\n"), "{}", told.out);
}

#[test]
fn a_foreign_file_behind_the_log_is_one_fault_and_no_loss() {
    let store = Copy::of("crash");
    fs::write(store.path("commitlog/00000000000000524288"), vec![0xA5; 30_000]).unwrap();
    let told = store.log(&["verify", "crash"]);
    let head = "crash: damaged, 1 fault\n";
    let fault = "00000000000000524288       524288      30000        –\n    \
                 a file that is no segment of this log\n";
    assert!(told.out.starts_with(head) && told.out.ends_with(fault), "{}", told.out);
    assert_eq!(told.code, Some(2));
    let told = store.log(&["repair", "crash", "--apply"]);
    let done =
        "crash: repaired; 60 records kept, nothing lost\n\nset aside\n- commitlog/set-aside/";
    assert!(told.out.starts_with(done), "{}", told.out);
    assert_eq!(told.err, "check it: cargo xtask log verify crash\n");
    assert_eq!(store.log(&["verify", "crash"]).code, Some(0));
}

#[test]
fn a_segment_that_was_cut_in_its_unused_rest_is_written_anew_in_its_length() {
    let store = Copy::of("crash");
    let segment = store.path("commitlog/00000000000000131072");
    let content = fs::read(&segment).unwrap();
    fs::write(&segment, &content[..60_000]).unwrap();
    let told = store.log(&["repair", "crash"]);
    let plan = "\nit would\n\
                - set 00000000000000131072 aside and write it anew, 65536 bytes long\n";
    assert!(told.out.ends_with(plan), "{}", told.out);
}

/// No line that a terminal of 80 columns would break, with what is said of stores in any state.
#[test]
fn every_line_fits_80_columns() {
    let damaged = Copy::of("crash");
    damaged.patch(RECORD_45.0 + 200, &[0xFF]);
    fs::write(damaged.path("commitlog/notes.txt"), "bought milk").unwrap();
    let torn = Copy::of("crash");
    torn.patch(LAST_RECORD.0 + LAST_RECORD.1 / 2, &vec![0; LAST_RECORD.1 / 2 + 1]);
    let missing = Copy::of("crash");
    fs::remove_file(missing.path("commitlog/00000000000000065536")).unwrap();
    let short = Copy::of("plain");
    fs::write(short.path("commitlog/00000000000000065536"), vec![1; 30_000]).unwrap();
    for store in [damaged, torn, missing, short, Copy::of("badtopic")] {
        let name = store.name;
        for task in [
            &[name][..],
            &["verify", name],
            &["dump", name, "--count", "1000"],
            &["dump", name],
            &["repair", name],
            &["repair", name, "--to", "copy", "--apply"],
            &["repair", name, "--apply"],
        ] {
            let told = store.log(task);
            for line in told.out.lines().chain(told.err.lines()) {
                assert!(line.chars().count() <= 80, "{name} {task:?}: {line}");
            }
        }
    }
}

#[test]
fn a_repair_is_planned_then_done_in_place() {
    let store = Copy::of("crash");
    let (at, size) = RECORD_45;
    store.patch(at + 200, &[0xFF]);
    let damaged = fs::read(store.path("commitlog/00000000000000131072")).unwrap();
    let told = store.log(&["repair", "crash"]);
    assert_eq!(told.code, Some(0), "{told:?}");
    let head = "crash: a repair keeps 59 records and loses 2839 bytes in 1 place\n\n\
                lost in                    offset     length\n\
                00000000000000131072       133649       2839\n    the body's checksum is not 0x";
    assert!(told.out.starts_with(head), "{}", told.out);
    let plan = "\n\nit would\n- set 00000000000000131072 aside and write it anew with\n    \
                filler records from 133649 to 136488\n";
    assert!(told.out.ends_with(plan), "{}", told.out);
    assert_eq!(
        told.err,
        "dry run: nothing was changed. To do it in place, or in a copy:\n  \
         cargo xtask log repair crash --apply\n  \
         cargo xtask log repair crash --to DIR2 --apply\n"
    );

    let told = store.log(&["repair", "crash", "--apply"]);
    assert_eq!(told.code, Some(0), "{told:?}");
    let head = "crash: repaired; 59 records kept, 2839 bytes in 1 place lost\n\nlost in  ";
    assert!(told.out.starts_with(head), "{}", told.out);
    let done = "\n\nset aside\n- commitlog/set-aside/00000000000000131072.damaged-1\n\n\
                written\n- 00000000000000131072\n";
    assert!(told.out.ends_with(done), "{}", told.out);
    let next = "check it: cargo xtask log verify crash\n\
                before RocketMQ starts, move consumequeue/, batchconsumequeue/, index/ and\n\
                checkpoint out of the store: they name what is lost, and are made anew from\n\
                the log\n\
                Flushmark needs none of this, and its recovery-point.* may stay\n";
    assert_eq!(told.err, next);
    let aside = store.path("commitlog/set-aside/00000000000000131072.damaged-1");
    assert!(fs::read(aside).unwrap() == damaged);

    let told = store.log(&["verify", "crash"]);
    assert_eq!(told.code, Some(0), "{told:?}");
    let sound = "crash: sound\n60 records, 1 of them filler; 171 KiB in ";
    assert!(told.out.starts_with(sound), "{}", told.out);
    let told = store.log(&["dump", "crash", "--from", "133649", "--count", "1", "--json"]);
    let filler = &told.json_lines()[0];
    assert_eq!((&filler["topic"], &filler["size"]), (&"FLUSHMARK_LOST".into(), &size.into()));
    store.log(&["repair", "crash"]).check(0, "crash: nothing to repair\n", "");
}

#[test]
fn a_repaired_copy_leaves_the_store_as_it_is() {
    let store = Copy::of("badtopic");
    let before = store.files();
    let told = store.log(&["repair", "badtopic", "--to", "copy"]);
    assert_eq!(told.code, Some(0), "{told:?}");
    assert!(told.err.ends_with("  cargo xtask log repair badtopic --to copy --apply\n"));
    assert!(store.files() == before);

    let told = store.log(&["repair", "badtopic", "--to", "copy", "--apply"]);
    assert_eq!(told.code, Some(0), "{told:?}");
    assert_eq!(
        told.err,
        "check it: cargo xtask log verify copy\n\
         RocketMQ makes consumequeue/, batchconsumequeue/ and index/ anew from the log;\n\
         before 5.3.2 it does so only with a file abort:\n  touch copy/abort\n"
    );
    assert!(told.out.starts_with("copy: repaired; 2 records kept, 281 bytes in 1 place lost\n"));
    let kept: BTreeMap<_, _> = store
        .files()
        .into_iter()
        .filter(|(path, _)| !path.starts_with(store.root.path().join("copy")))
        .collect();
    assert!(kept == before);
    assert_eq!(store.log(&["verify", "copy"]).code, Some(0));

    let told = store.log(&["repair", "badtopic", "--to", "copy", "--apply"]);
    assert_eq!((told.code, &*told.out), (Some(1), ""), "{told:?}");
    assert!(told.err.contains("is not empty"), "{}", told.err);
}

#[test]
fn a_dry_run_checks_what_the_repair_would_refuse() {
    let store = Copy::of("crash");
    store.patch(RECORD_45.0 + 200, &[0xFF]);
    for (target, why) in [
        ("crash", "is not empty"),
        ("crash/copy", "lies in the store"),
        ("crash/commitlog/copy", "lies in the store"),
        ("crash/abort", "is no directory"),
    ] {
        for apply in [&[][..], &["--apply"]] {
            let told = store.log(&[&["repair", "crash", "--to", target], apply].concat());
            assert_eq!((told.code, &*told.out), (Some(1), ""), "{told:?}");
            assert_eq!(told.err, format!("error: {target} {why}; name another\n"));
        }
    }
    let (_, wide) = far_segment(5000);
    for to in [&[][..], &["--to", "copy"]] {
        let told = wide.log(&[&["repair", "s", "--segment-size", "64KiB"], to].concat());
        assert_eq!((told.code, &*told.out), (Some(1), ""), "{told:?}");
        let err = told.err.replace('\n', " ");
        assert!(err.contains("too many to be lost: move what does not belong"), "{told:?}");
    }
    let (missing, gap) = far_segment(1024);
    let told = gap.log(&["repair", "s", "--segment-size", "64KiB"]);
    assert_eq!(told.code, Some(0), "{told:?}");
    let (first, last) = (missing.start, missing.end - SEGMENT);
    let made = format!(
        "\n\nit would\n- make {first:020} to {last:020},\n    \
         1024 missing segments, as one blank each\n"
    );
    assert!(told.out.ends_with(&made), "{}", told.out);
}

#[test]
fn a_segment_that_is_a_link_is_named_and_not_repaired() {
    let store = Copy::of("crash");
    let segment = store.path("commitlog/00000000000000131072");
    fs::rename(&segment, store.path("elsewhere")).unwrap();
    std::os::unix::fs::symlink(store.path("elsewhere"), &segment).unwrap();
    let told = store.log(&["verify", "crash"]);
    let fault = "\n00000000000000131072            –          –        –\n    \
                 a symbolic link, which is not followed: put the file itself there\n";
    assert!(told.code == Some(2) && told.out.ends_with(fault), "{told:?}");
    for task in [&["repair", "crash"][..], &["repair", "crash", "--apply"]] {
        let told = store.log(task);
        assert_eq!((told.code, &*told.out), (Some(1), ""), "{told:?}");
        assert!(told.err.contains("symbolic link"), "{told:?}");
    }
}

#[test]
fn a_record_that_a_repair_overwrites_is_not_counted_as_kept() {
    let store = Copy::of("crash");
    let (at, size) = RECORD_45;
    // Thirty bad bytes are too few for a filler: the valid record behind them goes too.
    store.patch(at, &[0xEE; 30]);
    let body_len = size - 30 - record_at(at + 30, 0).len();
    store.patch(at + 30, &record_at(at + 30, body_len));
    let told = store.log(&["repair", "crash"]);
    let head = "crash: a repair keeps 59 records and loses 2839 bytes in 2 places\n";
    assert!(told.out.starts_with(head), "{}", told.out);
    let told = store.log(&["repair", "crash", "--apply"]);
    let head = "crash: repaired; 59 records kept, 2839 bytes in 2 places lost\n";
    assert!(told.out.starts_with(head), "{}", told.out);
    let told = store.log(&["verify", "crash"]);
    let sound = "crash: sound\n60 records, 1 of them filler; ";
    assert!(told.out.starts_with(sound), "{}", told.out);
}

/// A record with a body of so many bytes.
fn record_at(at: usize, body_len: usize) -> Vec<u8> {
    let mut bytes = vec![0; SEGMENT];
    let to = Destination { topic: Topic::new(b"orders").unwrap(), queue_id: QueueId::new(0) };
    let message = Message { body: &vec![b'x'; body_len], ..Message::default() };
    let encoded = encode(to, &message, Protection::Record, &mut bytes).unwrap();
    let placed = encoded.place(&Placed {
        log_offset: LogOffset::new(at.try_into().unwrap()),
        queue_offset: QueueOffset::new(0),
        store_timestamp: TimestampMs::new(1_795_957_621_653),
    });
    placed.to_vec()
}

/// A store of one segment with a record, and another so many segments behind it; and the bytes
/// that are missing between them.
fn far_segment(missing: usize) -> (Range<usize>, Copy) {
    let store = Copy { root: TempDir::new().unwrap(), name: "s" };
    fs::create_dir_all(store.path("commitlog")).unwrap();
    let start = SEGMENT * (missing + 1);
    for at in [0, start] {
        let mut segment = record_at(at, 0);
        let rest = SEGMENT - segment.len();
        segment.extend(encode_blank(rest.try_into().unwrap()));
        segment.resize(SEGMENT, 0);
        fs::write(store.path(&format!("commitlog/{at:020}")), segment).unwrap();
    }
    (SEGMENT..start, store)
}

#[test]
fn a_repair_whose_report_cannot_be_printed_is_done_and_says_so() {
    let store = Copy::of("badtopic");
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = store.command(&["repair", "badtopic", "--apply"]).stdout(full).output().unwrap();
    let told = Told::new(&output);
    let said = "the repair was done, but what it did could not be printed:\n\
                cannot write to standard output: No space left on device (os error 28)\n\
                check it: cargo xtask log verify badtopic\n";
    assert!(told.err.starts_with(said), "{told:?}");
    assert_eq!(told.code, Some(0));
    assert_eq!(store.log(&["verify", "badtopic"]).code, Some(0));
}

#[test]
fn a_missing_segment_and_a_foreign_file_are_found_and_repaired() {
    let store = Copy::of("crash");
    fs::remove_file(store.path("commitlog/00000000000000065536")).unwrap();
    fs::write(store.path("commitlog/notes.txt"), "bought milk").unwrap();
    let told = store.log(&["verify", "crash"]);
    assert_eq!(told.code, Some(2), "{told:?}");
    let faults = "segment                    offset     length   behind\n\
                  00000000000000065536        65536      65536        –\n    \
                  the segment's file is missing\n\
                  notes.txt                       –          –        –\n    \
                  a file that is no segment of this log\n";
    assert!(told.out.ends_with(faults), "{}", told.out);
    let told = store.log(&["repair", "crash", "--apply"]);
    assert_eq!(told.code, Some(0), "{told:?}");
    let set_aside = store.path("commitlog/set-aside/notes.txt.damaged-1");
    assert_eq!(fs::read(set_aside).unwrap(), b"bought milk");
    assert_eq!(store.log(&["verify", "crash"]).code, Some(0));
}

#[test]
fn a_torn_tail_can_be_cut_for_an_owner_that_leaves_it() {
    let store = Copy::of("crash");
    let (at, size) = LAST_RECORD;
    store.patch(at + size / 2, &vec![0; size - size / 2]);
    let told = store.log(&["repair", "crash"]);
    assert_eq!(told.code, Some(0), "{told:?}");
    assert!(told.out.ends_with("    zeroes from 174049 to 196608\n"), "{}", told.out);
    let note = "Flushmark cuts it when it opens the store; RocketMQ leaves it in the\n\
                file (apache/rocketmq#10666)\ndry run: ";
    assert!(told.err.starts_with(note), "{}", told.err);
    let told = store.log(&["repair", "crash", "--apply"]);
    assert_eq!(told.code, Some(0), "{told:?}");
    assert_eq!(told.err, "check it: cargo xtask log verify crash\n");
    let told = store.log(&["verify", "crash"]);
    assert!(told.out.starts_with("crash: sound\n59 records"), "{told:?}");
}

#[test]
fn a_store_in_use_is_looked_at_and_not_repaired() {
    let folder = TempDir::new().unwrap();
    let options =
        LogOptions { segment_size: SegmentSize::new(1 << 20).unwrap(), ..LogOptions::default() };
    let owner = Log::open(&folder.path().join("s"), options, GroupCommit::default()).unwrap();
    let queue = owner.queue(b"orders", QueueId::new(0)).unwrap();
    let message = Message { body: b"one espresso", ..Message::default() };
    owner.append_and_wait(&queue, &message, Wait::Yes).unwrap().unwrap();

    let store = Copy { root: folder, name: "s" };
    let told = store.log(&["s"]);
    assert_eq!(told.code, Some(0), "{told:?}");
    assert!(told.out.contains("\nexit        none: a process has the store open\n"), "{told:?}");
    assert!(told.out.contains("; all with a CRC32 property\n"), "{told:?}");
    let told = store.log(&["verify", "s", "--json"]);
    let json: Value = serde_json::from_str(&told.out).unwrap();
    assert_eq!((&json["locked"], &json["health"]), (&true.into(), &"sound".into()));
    let told = store.log(&["dump", "s"]);
    assert!(told.out.ends_with("  orders/0@0  12 B  \"one espresso\"\n"), "{told:?}");

    fs::write(store.path("commitlog/notes.txt"), "").unwrap();
    let told = store.log(&["repair", "s", "--apply"]);
    assert_eq!((told.code, &*told.out), (Some(1), ""), "{told:?}");
    assert!(told.err.contains("locked") && told.err.contains("--to DIR2"), "{}", told.err);
    owner.close().unwrap();
}
