//! How long opening takes after a crash, and what it reads, beside reading the same bytes.
//!
//! `reopen fill DIR GIB` writes a log under group commit and dies without closing it;
//! `reopen open DIR` opens it and prints time and bytes. Remove `DIR/recovery-point.*` in between
//! to see the whole log scanned, and drop the page cache (`/proc/sys/vm/drop_caches`) before a
//! comparison with `dd`.
#![expect(clippy::print_stdout, reason = "an example tells what it measured")]

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use group_commit::GroupCommit;
use store_core::{Message, Protection, QueueId, Wait};
use store_os::{Log, LogOptions, monotonic};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [_, "fill", dir, gib] => fill(Path::new(dir), gib.parse::<u64>()? << 30),
        [_, "open", dir] => open(Path::new(dir)),
        _ => Err("usage: reopen fill DIR GIB | reopen open DIR".into()),
    }
}

fn fill(root: &Path, bytes: u64) -> Result<(), Box<dyn Error>> {
    let log = Arc::new(Log::open(root, options(), GroupCommit::default())?);
    let threads: Vec<_> = (0..64)
        .map(|id| {
            let log = Arc::clone(&log);
            std::thread::spawn(move || -> Result<(), String> {
                let queue = log.queue(b"reopen", QueueId::new(id)).map_err(|e| e.to_string())?;
                let body = body(id);
                let message =
                    Message { body: &body, properties: b"TAGS\x01a\x02", ..Message::default() };
                while log.marks().wrote().get() < bytes {
                    let _not_awaited =
                        log.append(&queue, &message, Wait::No).map_err(|e| e.to_string())?;
                }
                let last = log.append_and_wait(&queue, &message, Wait::Yes);
                last.map_err(|e| e.to_string())?.map_err(|e| e.to_string())?;
                Ok(())
            })
        })
        .collect();
    for thread in threads {
        thread.join().map_err(|_| "a producer panicked")??;
    }
    println!("{} bytes, dying without closing", log.marks().flushed());
    std::process::abort()
}

/// 1 KiB that does not compress.
fn body(seed: i32) -> Vec<u8> {
    let mut state = u64::from(seed.unsigned_abs()) * 0x9E37_79B9_7F4A_7C15 + 1;
    (0..1024)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_be_bytes()[0]
        })
        .collect()
}

fn open(root: &Path) -> Result<(), Box<dyn Error>> {
    let before = read_bytes()?;
    let started = monotonic();
    let log = Log::open(root, options(), GroupCommit::default())?;
    let nanos = monotonic().since(started).get();
    let [device, calls] = read_bytes()?;
    println!("{:?}", log.recovery());
    println!(
        "{}.{:03} s, {} bytes from the device, {} bytes by read calls",
        nanos / 1_000_000_000,
        nanos / 1_000_000 % 1000,
        device - before[0],
        calls - before[1]
    );
    log.abandon();
    Ok(())
}

fn options() -> LogOptions {
    LogOptions { protection: Protection::Record, ..LogOptions::default() }
}

/// `read_bytes` and `rchar` of this process (`proc_pid_io(5)`).
fn read_bytes() -> Result<[u64; 2], Box<dyn Error>> {
    let text = std::fs::read_to_string("/proc/self/io")?;
    let field = |name: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(name));
        value.and_then(|value| value.trim().parse().ok()).unwrap_or_default()
    };
    Ok([field("read_bytes:"), field("rchar:")])
}
