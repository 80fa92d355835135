//! A process that is killed while it writes: what its strategy promised is there, in order.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use store_core::QueueId;
use store_os::Io;

use crate::support::{Kind, body, put, queue, small};

const KINDS: [(&str, Kind); 6] = [
    ("sync-direct", Kind::Sync(Io::Direct)),
    ("sync-positioned", Kind::Sync(Io::Positioned)),
    ("sync-mapped", Kind::Sync(Io::Mapped)),
    ("timed-mapped", Kind::Timed(Io::Mapped)),
    ("timed-positioned", Kind::Timed(Io::Positioned)),
    ("staged", Kind::Staged),
];

/// The child: writes from four threads and says after each acknowledgement what it was promised.
///
/// Run only by the tests below, which name its directory in the environment.
#[test]
fn writing_child() {
    let Ok(directory) = std::env::var("FLUSHMARK_KILL_DIR") else {
        return;
    };
    let name = std::env::var("FLUSHMARK_KILL_KIND").unwrap();
    let (_, kind) = KINDS.into_iter().find(|(known, _)| *known == name).unwrap();
    let log = kind.open(Path::new(&directory), small());
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let log = &log;
            scope.spawn(move || {
                let handle = log.queue(b"T", QueueId::new(i32::try_from(thread).unwrap())).unwrap();
                for number in 0.. {
                    let appended = put(log, &handle, &body(thread * 1_000_000 + number));
                    // Staged appends promise nothing against a crash before they are committed.
                    let promised = match kind {
                        Kind::Staged => log.marks().committed(),
                        _ => appended.end(),
                    };
                    let line = format!("promised {promised}\n");
                    std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
                }
            });
        }
    });
}

fn kill_while_writing(name: &str, kind: Kind, lines: usize) {
    let root = tempfile::tempdir().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kill::writing_child", "--nocapture"])
        .env("FLUSHMARK_KILL_DIR", root.path())
        .env("FLUSHMARK_KILL_KIND", name)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut promised = 0;
    let mut line = String::new();
    let mut seen = 0;
    // After the kill, what the child had said already is still in the pipe: all of it counts.
    while output.read_line(&mut line).unwrap() > 0 {
        if let Some(end) = line.trim().strip_prefix("promised ").and_then(|end| end.parse().ok()) {
            promised = u64::max(promised, end);
            seen += 1;
            if seen == lines {
                child.kill().unwrap();
            }
        }
        line.clear();
    }
    child.wait().unwrap();
    assert!(seen >= lines, "{name}: the child ended by itself");
    let log = kind.open(root.path(), small());
    let recovery = log.recovery();
    assert!(recovery.unclean, "{name}");
    assert!(
        recovery.end.get() >= promised,
        "{name}: promised up to {promised}, found up to {}",
        recovery.end
    );
    let mut next = [0; 4];
    let mut cursor = log.cursor(recovery.start);
    while let Some(record) = cursor.next_record().unwrap() {
        let thread = usize::try_from(record.queue_id().get()).unwrap();
        assert_eq!(record.queue_offset().get(), next[thread], "{name}: order");
        let expect = body(thread as u64 * 1_000_000 + next[thread]);
        assert_eq!(record.body(), expect, "{name}: thread {thread}, record {}", next[thread]);
        next[thread] += 1;
    }
    assert_eq!(cursor.offset(), recovery.end, "{name}");
    assert_eq!(next.iter().sum::<u64>(), recovery.records, "{name}");
    for (thread, found) in next.into_iter().enumerate() {
        let handle = log.queue(b"T", QueueId::new(i32::try_from(thread).unwrap())).unwrap();
        assert_eq!(handle.next_offset().get(), found, "{name}: the queue goes on");
    }
    put(&log, &queue(&log, "after"), b"the log goes on");
    log.close().unwrap();
}

#[test]
fn a_killed_process_leaves_all_that_was_promised() {
    for (name, kind) in KINDS {
        for lines in [1, 40, 400, 3000] {
            kill_while_writing(name, kind, lines);
        }
    }
}
