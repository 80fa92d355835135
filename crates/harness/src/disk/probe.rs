//! A second's look at a disk: what one sync costs, and how fast it takes bytes in order.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use store_core::Nanos;

use crate::clock::{nanos, now};
use crate::workdir::Workdir;

/// What [`probe`] found.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Probe {
    /// Syncs that were timed, 5 to 200.
    pub syncs: u32,
    /// From the call of `fdatasync` to its return, after a write of 4 KiB: median.
    pub sync_ns_p50: u64,
    /// 99 of 100 are at most this.
    pub sync_ns_p99: u64,
    /// The sync is too quick to have reached any device.
    pub no_op: bool,
    /// Bytes per second, written in order and synced.
    pub write_bytes_per_s: u64,
}

/// Times up to 200 syncs of 4 KiB each, then a sequential write of up to 64 MiB, in `dir`.
///
/// It takes about 1.5 s at most, longer only on a disk of which five syncs do. The file stands in a
/// [`Workdir`], which goes with it on every way out. It has a name while it is measured, as a log
/// has: for a file without one (`O_TMPFILE`, or unlinked) btrfs leaves out of a sync the very part
/// that makes it durable, and the disk would look faster than it is. The bytes do not compress.
///
/// # Errors
///
/// If the file cannot be made, written or synced in `dir`, or less than 8 MiB are free.
pub fn probe(dir: &Path) -> Result<Probe> {
    let at = dir.display();
    let workdir = Workdir::create(dir)?;
    let sequential_limit = sequential_limit(dir)?;
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(workdir.path().join("probe"))
        .with_context(|| format!("cannot make a file in {at}: give another directory"))?;
    let mut content = Content::new();
    let advice = || format!("cannot probe the disk under {at}: look into the kernel's log");
    let sync_ns = time_syncs(&file, &mut content).with_context(advice)?;
    let write_bytes_per_s =
        sequential_rate(&file, &mut content, sequential_limit).with_context(advice)?;
    workdir.close()?;
    Ok(summarise(sync_ns, write_bytes_per_s))
}

/// The figures from the single times, of which there is at least one.
fn summarise(mut sync_ns: Vec<u64>, write_bytes_per_s: u64) -> Probe {
    sync_ns.sort_unstable();
    let sync_ns_p50 = nearest_rank(&sync_ns, 50);
    Probe {
        syncs: u32::try_from(sync_ns.len()).unwrap_or(u32::MAX),
        sync_ns_p50,
        sync_ns_p99: nearest_rank(&sync_ns, 99),
        no_op: sync_ns_p50 < NO_OP_BELOW_NS,
        write_bytes_per_s,
    }
}

/// The least value that `percent` of 100 values do not exceed; 0 without values.
fn nearest_rank(sorted: &[u64], percent: usize) -> u64 {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0)
}

/// How long each `fdatasync` took, in nanoseconds, over blocks that were allocated before.
fn time_syncs(file: &File, content: &mut Content) -> Result<Vec<u64>> {
    file.write_all_at(content.next_mebibyte(), 0).context("writing 1 MiB")?;
    file.sync_all().context("the first sync")?;
    let begin = now();
    let mut sync_ns = Vec::with_capacity(SYNCS);
    while sync_ns.len() < SYNCS {
        let offset = u64::try_from(sync_ns.len() * BLOCK_BYTES)? % MEBIBYTE;
        file.write_all_at(content.next_block(), offset).context("writing 4 KiB")?;
        let called = now();
        file.sync_data().context("the sync of 4 KiB")?;
        sync_ns.push(now().since(called).get());
        if sync_ns.len() >= SYNCS_AT_LEAST && now().since(begin) >= nanos(SYNC_TIME) {
            break;
        }
    }
    Ok(sync_ns)
}

/// Bytes per second of writing behind the first mebibyte, with a sync whenever the sum has doubled.
///
/// So seven syncs are enough for 64 MiB, and the time of the next step can be told from what the
/// steps before it took: a slow disk ends after the first, not after the last.
fn sequential_rate(file: &File, content: &mut Content, limit: u64) -> Result<u64> {
    let begin = now();
    let mut synced = 0;
    let mut step = MEBIBYTE;
    loop {
        let end = synced + step;
        let mut offset = synced;
        while offset < end {
            file.write_all_at(content.next_mebibyte(), MEBIBYTE + offset).context("writing")?;
            offset += MEBIBYTE;
        }
        file.sync_data().context("the sync of a sequential write")?;
        synced = end;
        let taken_ns = now().since(begin).get();
        step = synced.min(limit - synced);
        if step == 0 || Nanos::new(taken_ns.saturating_mul(2)) > nanos(SEQUENTIAL_TIME) {
            return Ok(per_second(synced, taken_ns));
        }
    }
}

fn per_second(bytes: u64, taken_ns: u64) -> u64 {
    let per_s = u128::from(bytes) * 1_000_000_000 / u128::from(taken_ns.max(1));
    u64::try_from(per_s).unwrap_or(u64::MAX)
}

/// Whole mebibytes that may be written: 64, or an eighth of what is free.
fn sequential_limit(dir: &Path) -> Result<u64> {
    let at = dir.display();
    let free_bytes = super::space(dir)?.free_bytes;
    let limit = (free_bytes / 8 / MEBIBYTE).min(SEQUENTIAL_MEBIBYTES) * MEBIBYTE;
    ensure!(
        limit > 0,
        "cannot probe the disk under {at}: only {free_bytes} bytes are free; free at least 8 MiB"
    );
    Ok(limit)
}

/// Bytes that do not compress, no two blocks alike.
struct Content {
    mebibyte: Vec<u8>,
    blocks_stamped: u64,
}

impl Content {
    fn new() -> Self {
        let mut mebibyte = Vec::with_capacity(1 << 20);
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        while mebibyte.len() < 1 << 20 {
            // xorshift64: any state but 0 will do.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            mebibyte.extend_from_slice(&state.to_be_bytes());
        }
        Self { mebibyte, blocks_stamped: 0 }
    }

    /// 4 KiB as never written before.
    fn next_block(&mut self) -> &[u8] {
        self.stamp(0);
        &self.mebibyte[..BLOCK_BYTES]
    }

    /// 1 MiB, no block of it as written before.
    fn next_mebibyte(&mut self) -> &[u8] {
        for start in (0..self.mebibyte.len()).step_by(BLOCK_BYTES) {
            self.stamp(start);
        }
        &self.mebibyte
    }

    fn stamp(&mut self, start: usize) {
        self.blocks_stamped += 1;
        self.mebibyte[start..start + 8].copy_from_slice(&self.blocks_stamped.to_be_bytes());
    }
}

/// One write before each timed sync.
const BLOCK_BYTES: usize = 4096;
/// Syncs to time.
const SYNCS: usize = 200;
/// Syncs to time however slow they are: fewer have no median worth the name.
const SYNCS_AT_LEAST: usize = 5;
/// When timing syncs ends early.
const SYNC_TIME: Duration = Duration::from_millis(700);
/// A sync on tmpfs takes 0.2 µs, on the quickest drive with a capacitor some 10 µs.
const NO_OP_BELOW_NS: u64 = 5_000;
const MEBIBYTE: u64 = 1 << 20;
/// Bytes to write in order, at most.
const SEQUENTIAL_MEBIBYTES: u64 = 64;
/// What the sequential write may take.
const SEQUENTIAL_TIME: Duration = Duration::from_millis(800);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_values_that_occurred() {
        let hundred: Vec<u64> = (1..=100).collect();
        assert_eq!((nearest_rank(&hundred, 50), nearest_rank(&hundred, 99)), (50, 99));
        assert_eq!((nearest_rank(&[7, 9], 50), nearest_rank(&[7, 9], 99)), (7, 9));
        assert_eq!((nearest_rank(&[7], 50), nearest_rank(&[], 99)), (7, 0));
    }

    #[test]
    fn a_sync_below_5_microseconds_is_none() {
        #[track_caller]
        fn check(sync_ns: u64, no_op: bool) {
            assert_eq!(summarise(vec![sync_ns; 9], 1).no_op, no_op, "{sync_ns} ns");
        }
        check(220, true);
        check(4_999, true);
        check(5_000, false);
        check(1_600_000, false);
    }

    #[test]
    fn one_slow_sync_does_not_make_the_others_real() {
        let found = summarise(vec![9_000_000, 200, 300, 250, 220], 1);
        assert_eq!((found.syncs, found.sync_ns_p50, found.sync_ns_p99), (5, 250, 9_000_000));
        assert!(found.no_op);
    }

    #[test]
    fn a_rate_is_bytes_over_seconds() {
        assert_eq!(per_second(64 << 20, 500_000_000), 128 << 20);
        assert_eq!(per_second(1, 0), 1_000_000_000, "no division by zero");
        assert_eq!(per_second(u64::MAX, 1), u64::MAX);
    }

    #[test]
    fn no_two_blocks_are_alike() {
        let mut content = Content::new();
        let first = content.next_block().to_vec();
        let second = content.next_block().to_vec();
        assert_ne!(first, second);
        let mebibyte = content.next_mebibyte().to_vec();
        let mut blocks: Vec<&[u8]> = mebibyte.chunks(BLOCK_BYTES).collect();
        blocks.sort_unstable();
        blocks.dedup();
        assert_eq!((mebibyte.len(), blocks.len()), (1 << 20, 256));
    }

    #[test]
    fn a_probe_of_this_disk_holds_together_and_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let found = probe(dir.path()).unwrap();
        assert!((5..=200).contains(&found.syncs), "{found:?}");
        assert!(0 < found.sync_ns_p50 && found.sync_ns_p50 <= found.sync_ns_p99, "{found:?}");
        assert!(found.write_bytes_per_s > 0, "{found:?}");
        assert_eq!(found.no_op, found.sync_ns_p50 < NO_OP_BELOW_NS);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_missing_directory_is_an_error() {
        let message = format!("{:#}", probe(Path::new("/nonexistent/flushmark")).unwrap_err());
        assert!(message.contains("/nonexistent/flushmark"), "{message}");
    }
}
