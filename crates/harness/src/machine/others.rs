//! What other processes had written to disks meanwhile, by `/proc/PID/io`.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use super::write_bytes;

/// What each other process has had written so far; neither the kernel's own threads, which write
/// what others left, nor this process and its children.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Others {
    by_process: BTreeMap<u32, u64>,
    /// Processes that may not be looked at.
    pub(super) hidden: u64,
}

impl Others {
    /// The counts now, of those processes that may be looked at: an ordinary user's are his own.
    /// `None` without `/proc`.
    pub fn now() -> Option<Self> {
        Self::of(Path::new("/proc"), std::process::id())
    }

    fn of(proc: &Path, own: u32) -> Option<Self> {
        let mut parents = BTreeMap::new();
        let (mut by_process, mut hidden) = (BTreeMap::new(), Vec::new());
        for entry in fs::read_dir(proc).ok()?.flatten() {
            let name = entry.file_name();
            let Some(process) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
                continue;
            };
            // A process may have ended since it was listed.
            let stat = fs::read_to_string(entry.path().join("stat"));
            let Some(Stat { parent, is_kernel }) = stat.ok().and_then(|text| stat_of(&text)) else {
                continue;
            };
            parents.insert(process, parent);
            if is_kernel || process == own {
                continue;
            }
            match fs::read_to_string(entry.path().join("io")) {
                Ok(text) => by_process.extend(write_bytes(&text).map(|bytes| (process, bytes))),
                Err(error) if error.kind() == ErrorKind::PermissionDenied => hidden.push(process),
                Err(_) => {}
            }
        }
        by_process.retain(|process, _| !descends(&parents, *process, own));
        hidden.retain(|process| !descends(&parents, *process, own));
        Some(Self { by_process, hidden: store_core::length_u64(hidden.len()) })
    }

    /// Bytes since `earlier`. Of a process that ended meanwhile nothing is known.
    pub fn since(&self, earlier: &Self) -> u64 {
        let of = |(process, now): (&u32, &u64)| {
            let before = earlier.by_process.get(process).copied().unwrap_or(0);
            now.saturating_sub(before)
        };
        self.by_process.iter().map(of).sum()
    }
}

fn descends(parents: &BTreeMap<u32, u32>, process: u32, from: u32) -> bool {
    let mut at = process;
    // Parents were read one after another, so a chain of them may be no line.
    for _ in 0..parents.len() {
        match parents.get(&at) {
            Some(parent) if *parent == from => return true,
            Some(parent) => at = *parent,
            None => return false,
        }
    }
    false
}

struct Stat {
    parent: u32,
    is_kernel: bool,
}

/// Of `/proc/PID/stat`: behind the name stand state, parent, group, session, terminal and its
/// group, and flags.
fn stat_of(text: &str) -> Option<Stat> {
    let (_, fields) = text.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(1);
    let parent = fields.next()?.parse().ok()?;
    let flags: u64 = fields.nth(4)?.parse().ok()?;
    Some(Stat { parent, is_kernel: flags & KERNEL_THREAD != 0 })
}

/// `PF_KTHREAD` of `include/linux/sched.h`.
const KERNEL_THREAD: u64 = 0x0020_0000;

#[cfg(test)]
mod tests {
    use super::*;

    fn process(proc: &Path, id: u32, parent: u32, flags: u64, written: u64) {
        let at = proc.join(id.to_string());
        fs::create_dir_all(&at).unwrap();
        let stat = format!("{id} (a ) b) S {parent} 1 1 0 -1 {flags} 0 0 0 0 0 0\n");
        fs::write(at.join("stat"), stat).unwrap();
        fs::write(at.join("io"), format!("rchar: 1\nwrite_bytes: {written}\n")).unwrap();
    }

    #[test]
    fn only_strangers_count_and_only_what_they_wrote_meanwhile() {
        let proc = tempfile::tempdir().unwrap();
        let proc = proc.path();
        process(proc, 1, 0, 0, 100);
        process(proc, 2, 0, KERNEL_THREAD, 1000);
        process(proc, 50, 1, 0, 10_000);
        process(proc, 51, 50, 0, 100_000);
        process(proc, 52, 51, 0, 100_000);
        process(proc, 60, 1, 0, 5);
        fs::create_dir(proc.join("sys")).unwrap();
        let before = Others::of(proc, 50).unwrap();
        assert_eq!(before.by_process, [(1, 100), (60, 5)].into());
        process(proc, 1, 0, 0, 107);
        process(proc, 2, 0, KERNEL_THREAD, 9000);
        process(proc, 52, 51, 0, 900_000);
        process(proc, 61, 1, 0, 20);
        fs::remove_dir_all(proc.join("60")).unwrap();
        let after = Others::of(proc, 50).unwrap();
        assert_eq!(after.since(&before), 27);
    }

    #[test]
    fn this_process_is_no_stranger() {
        let found = Others::now().unwrap();
        assert!(!found.by_process.contains_key(&std::process::id()));
    }
}
