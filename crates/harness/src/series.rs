//! What a cell looked like over time, ten rows a second, and what its flushes were.

use std::cmp::Reverse;
use std::fmt::Write as _;

use store_core::{Nanos, Watermarks};
use store_os::PageCache;

use crate::clock::float;
use crate::results::Stall;
use crate::statistics::{Steadiness, WINDOWS};
use crate::vmstat::Pages;

/// One row: the state at its end, and what was worst since the row before.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Row {
    /// Since measuring began.
    pub at: Nanos,
    /// Messages acknowledged since the log was opened.
    pub acked: u64,
    /// The log's marks.
    pub marks: Watermarks,
    /// Syncs that ended since the log was opened.
    pub flushes: u64,
    /// The longest append that ended since the row before.
    pub worst_append: Nanos,
    /// What 99 of 100 appends took at most that ended since the row before, to 1/16; 0 without any.
    pub p99_append: Nanos,
    /// The whole machine's dirty pages.
    pub pages: Option<Pages>,
    /// What the page cache holds of the log's last 16 MiB; `None` before Linux 6.5.
    pub tail: Option<PageCache>,
    /// Old files that were deleted beside the log, since measuring began.
    pub deleted: u64,
}

impl Row {
    /// Whether the kernel makes writers wait by now: above the middle of its two limits.
    pub fn is_throttled(&self) -> bool {
        self.pages.is_some_and(|pages| pages.free_run_bytes() < pages.at_risk_bytes())
    }
}

/// The rows as CSV with a header; what is not known is empty.
pub fn csv(rows: &[Row]) -> String {
    let mut text = HEADER.to_owned();
    for row in rows {
        let Row { at, acked, marks, flushes, worst_append, p99_append, deleted, .. } = row;
        let [wrote, committed, flushed] =
            [marks.wrote(), marks.committed(), marks.flushed()].map(store_core::LogOffset::get);
        let pages = row.pages.map_or_else(
            || ",,,".to_owned(),
            |Pages { dirty_bytes, writeback_bytes, background_limit_bytes, limit_bytes }| {
                format!("{dirty_bytes},{writeback_bytes},{background_limit_bytes},{limit_bytes}")
            },
        );
        let tail = row.tail.map_or_else(
            || ",,".to_owned(),
            |PageCache { cached_bytes, dirty_bytes, writeback_bytes }| {
                format!("{cached_bytes},{dirty_bytes},{writeback_bytes}")
            },
        );
        let (at, worst, p99) = (at.get(), worst_append.get(), p99_append.get());
        let throttled = u8::from(row.is_throttled());
        let marks = format!("{wrote},{committed},{flushed}");
        let marks = format!("{marks},{flushes}");
        let kernel = format!("{pages},{throttled},{tail}");
        let _ = writeln!(text, "{at},{acked},{marks},{worst},{p99},{kernel},{deleted}");
    }
    text
}

/// One flush.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Flush {
    /// Log bytes that it made durable.
    pub bytes: u64,
    /// From its start to its return.
    pub took: Nanos,
}

/// The flushes as CSV with a header.
pub fn flushes_csv(flushes: &[Flush]) -> String {
    let mut text = "bytes,ns\n".to_owned();
    for Flush { bytes, took } in flushes {
        let _ = writeln!(text, "{bytes},{}", took.get());
    }
    text
}

/// At most `most` of the items, in order, from the first on each as far from the next.
pub fn evenly<T>(items: &[T], most: usize) -> Vec<&T> {
    let kept = items.len().min(most);
    (0..kept).map(|nth| &items[nth * items.len() / kept]).collect()
}

/// The rows in which an append took longer than [`STALL`], in order; of too many the longest.
pub fn stalls(rows: &[Row]) -> Vec<Stall> {
    let moment = |row: &Row| Moment {
        at_ns: row.at.get(),
        dirty_bytes: row.pages.map(|pages| pages.at_risk_bytes()),
        throttled: row.pages.map(|_| row.is_throttled()),
    };
    let moments: Vec<Moment> = rows.iter().map(moment).collect();
    let stall = |row: &Row| {
        let (at_ns, took_ns) = (row.at.get(), row.worst_append.get());
        let (dirty_bytes, throttled) = during(&moments, at_ns, took_ns);
        Stall { at_ns, took_ns, dirty_bytes, throttled }
    };
    let mut long: Vec<&Row> = rows.iter().filter(|row| STALL <= row.worst_append).collect();
    long.sort_by_key(|row| (Reverse(row.worst_append), row.at));
    long.truncate(MOST_STALLS);
    long.sort_by_key(|row| row.at);
    long.into_iter().map(stall).collect()
}

/// What was dirty at a moment, and whether the kernel made writers wait.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moment {
    /// Since measuring began.
    pub at_ns: u64,
    /// The machine's dirty pages.
    pub dirty_bytes: Option<u64>,
    /// Whether writers wait.
    pub throttled: Option<bool>,
}

/// The most that was dirty while an append took so long and ended then, or since the moment before,
/// and whether the kernel made writers wait at any time meanwhile: by its end what held it up is
/// often over.
pub fn during(moments: &[Moment], at_ns: u64, took_ns: u64) -> (Option<u64>, Option<bool>) {
    let before = moments.iter().map(|moment| moment.at_ns).filter(|at| *at < at_ns).max();
    let time = before.unwrap_or(at_ns).saturating_sub(took_ns)..=at_ns;
    let within = || moments.iter().filter(|moment| time.contains(&moment.at_ns));
    let throttled = within().filter_map(|moment| moment.throttled);
    (within().filter_map(|moment| moment.dirty_bytes).max(), throttled.reduce(|a, b| a || b))
}

/// How much of the time the kernel made writers wait, in percent; `None` if nothing tells.
pub fn throttled_pct(rows: &[Row]) -> Option<f64> {
    let known = rows.iter().filter(|row| row.pages.is_some()).count();
    let throttled = rows.iter().filter(|row| row.is_throttled()).count();
    let [known, throttled] = [known, throttled].map(|count| float(store_core::length_u64(count)));
    (known > 0.0).then(|| 100.0 * throttled / known)
}

/// Whether the rate of acknowledgements had settled; `None` if there are too few rows to tell.
pub fn steadiness(rows: &[Row]) -> Option<Steadiness> {
    if rows.len() < FEWEST_ROWS {
        return None;
    }
    let (first, last) = (rows.first()?, rows.last()?);
    let [start, end] = [first, last].map(|row| float(row.at.get()));
    // Rows are a tenth of a second apart, or more on a busy machine: between two of them the rate
    // is taken as even.
    let acked_at = |at: f64| {
        let after = rows.partition_point(|row| float(row.at.get()) < at).clamp(1, rows.len() - 1);
        let [before, after] = [&rows[after - 1], &rows[after]];
        let [from, until] = [before, after].map(|row| float(row.at.get()));
        let share = if until > from { (at - from) / (until - from) } else { 1.0 };
        float(before.acked) + share * float(after.acked - before.acked)
    };
    let each = (end - start) / float(store_core::length_u64(WINDOWS));
    let edge = |window: usize| start + each * float(store_core::length_u64(window));
    Steadiness::of(std::array::from_fn(|window| {
        acked_at(edge(window + 1)) - acked_at(edge(window))
    }))
}

/// An append that takes this long is a stall: what disks and kernels that are well never do.
pub const STALL: Nanos = Nanos::from_millis(50);
/// A window of fewer than two tenths of a second would show the rows, not the rate.
const FEWEST_ROWS: usize = 2 * WINDOWS + 1;
/// Shorter ones are in the rows.
const MOST_STALLS: usize = 100;
const HEADER: &str = "t_ns,acked,wrote_bytes,committed_bytes,flushed_bytes,flushes,\
    worst_append_ns,p99_append_ns,dirty_bytes,writeback_bytes,background_limit_bytes,\
    limit_bytes,throttled,\
    tail_cached_bytes,tail_dirty_bytes,tail_writeback_bytes,deleted_files\n";

#[cfg(test)]
mod tests {
    use super::*;
    use store_core::LogOffset;

    fn row(ms: u64, worst_ms: u64, dirty_mib: u64) -> Row {
        let mark = LogOffset::new(4096);
        Row {
            at: Nanos::from_millis(ms),
            acked: 7,
            marks: Watermarks::new(mark, mark, LogOffset::ZERO),
            flushes: 3,
            worst_append: Nanos::from_millis(worst_ms),
            p99_append: Nanos::from_millis(worst_ms / 2),
            pages: Some(Pages {
                dirty_bytes: dirty_mib << 20,
                writeback_bytes: 1 << 20,
                background_limit_bytes: 100 << 20,
                limit_bytes: 200 << 20,
            }),
            tail: None,
            deleted: 0,
        }
    }

    #[test]
    fn rows_become_lines_with_as_many_fields_as_the_header() {
        let mut rows = vec![row(100, 1, 20), row(200, 60, 160)];
        rows[0].pages = None;
        let tail = PageCache { cached_bytes: 9, dirty_bytes: 5, writeback_bytes: 3 };
        (rows[1].tail, rows[1].deleted) = (Some(tail), 7);
        let text = csv(&rows);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(lines.iter().all(|line| line.split(',').count() == 17), "{text}");
        assert_eq!(lines[1], "100000000,7,4096,4096,0,3,1000000,0,,,,,0,,,,0");
        assert_eq!(
            lines[2],
            "200000000,7,4096,4096,0,3,60000000,30000000,167772160,1048576,104857600,209715200,\
             1,9,5,3,7"
        );
    }

    #[test]
    fn of_many_flushes_some_are_kept_evenly() {
        let chosen = |count: u32| {
            let all: Vec<u32> = (0..count).collect();
            evenly(&all, 4).into_iter().copied().collect::<Vec<_>>()
        };
        assert_eq!(chosen(10), [0, 2, 5, 7]);
        assert_eq!(chosen(4), [0, 1, 2, 3]);
        assert_eq!(chosen(1), [0]);
        assert!(chosen(0).is_empty());
        let flush = Flush { bytes: 4096, took: Nanos::new(98_000) };
        assert_eq!(flushes_csv(&[flush]), "bytes,ns\n4096,98000\n");
    }

    #[test]
    fn writers_wait_above_the_middle_of_the_two_limits() {
        assert!(!row(0, 0, 149).is_throttled());
        assert!(row(0, 0, 150).is_throttled(), "with what is on its way to the disk");
        let rows = [row(0, 0, 0), row(0, 0, 190), row(0, 0, 150), row(0, 0, 10)];
        assert_eq!(throttled_pct(&rows), Some(50.0));
        assert_eq!(throttled_pct(&[]), None);
    }

    #[test]
    fn a_stall_says_when_how_long_and_whether_the_kernel_held_writers_up() {
        let rows = [row(100, 49, 10), row(200, 50, 190), row(300, 60, 20), row(400, 150, 10)];
        let found = stalls(&rows);
        let mib = |stall: &Stall| stall.dirty_bytes.map(|bytes| bytes >> 20);
        let told: Vec<_> =
            found.iter().map(|s| (s.at_ns / 1_000_000, mib(s), s.throttled)).collect();
        // The last one began before the limit was over.
        let held_up = Some(true);
        let expect = [(200, Some(191), held_up), (300, Some(191), held_up)];
        assert_eq!(told, [expect[0], expect[1], (400, Some(191), held_up)]);
        assert_eq!(found[2].took_ns, 150_000_000);
        let short = stalls(&[row(200, 0, 190), row(300, 0, 20), row(400, 99, 10), row(500, 0, 9)]);
        assert_eq!((mib(&short[0]), short[0].throttled), (Some(21), Some(false)));
        let unknown = stalls(&[Row { pages: None, ..row(200, 50, 190) }]);
        assert_eq!((unknown[0].dirty_bytes, unknown[0].throttled), (None, None));
    }

    #[test]
    fn of_too_many_stalls_the_longest_are_kept_in_their_order() {
        let rows: Vec<Row> = (0..150).map(|nth| row(100 * nth, 50 + nth, 10)).collect();
        let took =
            |stalls: &[Stall]| stalls.iter().map(|stall| stall.took_ns / 1_000_000).collect();
        let kept: Vec<u64> = took(&stalls(&rows));
        assert_eq!(kept, (100..200).collect::<Vec<u64>>());
        let backwards: Vec<Row> = (0..150).map(|nth| row(100 * nth, 199 - nth, 10)).collect();
        let kept: Vec<u64> = took(&stalls(&backwards));
        assert_eq!(kept, (100..200).rev().collect::<Vec<u64>>());
    }

    fn acked(at_ms: u64, acked: u64) -> Row {
        Row { acked, ..row(at_ms, 0, 0) }
    }

    #[test]
    fn a_rate_is_steady_whenever_its_rows_were_taken() {
        // 1000 in a tenth of a second, but for two rows that came late.
        let at = [100, 200, 300, 400, 550, 600, 700, 830, 900, 1000, 1100];
        let even: Vec<Row> = at.map(|ms| acked(ms, 7 + 10 * ms)).to_vec();
        let found = steadiness(&even).unwrap();
        assert!(found.range_pct < 1e-9 && found.rise_pct.abs() < 1e-9, "{found:?}");
        assert_eq!(steadiness(&even[1..]), None, "too few rows");
        assert_eq!(steadiness(&[]), None);
    }

    #[test]
    fn a_rate_that_falls_when_a_cache_is_full_is_not_steady() {
        // 3000 in each tenth of the first fifth of the time, then 1000.
        let falls = |nth: u64| acked(100 * nth, 1000 * nth + 2000 * nth.min(2));
        let rows: Vec<Row> = (0..=10).map(falls).collect();
        let found = steadiness(&rows).unwrap();
        // Windows of 6000 and four of 2000: mean 2800, slope (2·−4000 + 0)/10 by window.
        assert!((found.range_pct - 100.0 * 4000.0 / 2800.0).abs() < 1e-6, "{found:?}");
        assert!((found.rise_pct + 100.0 * 3200.0 / 2800.0).abs() < 1e-6, "{found:?}");
        assert!(!found.is_steady());
    }
}
