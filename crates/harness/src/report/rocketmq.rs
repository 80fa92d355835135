//! What a run says in RocketMQ's own words: its buckets of time, and what waits how long.

use std::collections::BTreeSet;

use super::html::{Datum, Table};
use crate::broker_words::{broker_conf, measured_under};
use crate::clock::float;
use crate::format;
use crate::results::{Cell, Manifest};
use crate::summary::Row;

/// The thirteen buckets of `StoreStatsService`, as it names them.
const BUCKETS: [&str; 13] = [
    "<=0ms",
    "0~10ms",
    "10~50ms",
    "50~100ms",
    "100~200ms",
    "200~500ms",
    "500ms~1s",
    "1~2s",
    "2~3s",
    "3~4s",
    "4~5s",
    "5~10s",
    "10s~",
];

/// What happens in RocketMQ to a message that takes longer, and the bucket that begins there.
const THRESHOLDS: [(&str, &str, usize); 5] = [
    (
        "200 ms",
        "waitTimeMillsInSendQueue: who waits behind it in the send queue is refused, \
         [TIMEOUT_CLEAN_QUEUE] broker busy",
        5,
    ),
    ("500 ms", "the broker logs a slow put, and how long it held the lock", 6),
    (
        "1 s",
        "osPageCacheBusyTimeOutMills: if it is within the lock, all are refused, \
         [PC_SYNCHRONIZED] and [PCBUSY_CLEAN_QUEUE] broker busy",
        7,
    ),
    ("3 s", "sendMsgTimeout: the client gives up, and sends again", 9),
    ("5 s", "syncFlushTimeout: FLUSH_DISK_TIMEOUT under SYNC_FLUSH", 11),
];

/// The counts of a row by RocketMQ's buckets, over the cells that count.
#[derive(Clone, Debug)]
struct Counts<'a> {
    row: &'a Row,
    buckets: [u64; BUCKETS.len()],
}

impl<'a> Counts<'a> {
    /// `None` if no cell that counts has them: results of schema 1.0, the raw loop.
    fn of(row: &'a Row, cells: &[Cell]) -> Option<Self> {
        let mut all = cells.iter().filter(|cell| row.counts(cell)).filter_map(|cell| {
            <[u64; BUCKETS.len()]>::try_from(cell.put_message_distribute_time.as_slice()).ok()
        });
        let first = all.next()?;
        let buckets = all.fold(first, |mut sum, cell| {
            sum.iter_mut().zip(cell).for_each(|(sum, count)| *sum = sum.saturating_add(count));
            sum
        });
        Some(Self { row, buckets })
    }

    /// How many of all were in this bucket or a later one.
    fn share_from(&self, bucket: usize) -> f64 {
        let sum = |of: &[u64]| of.iter().copied().fold(0, u64::saturating_add);
        let (all, late) = (sum(&self.buckets), sum(&self.buckets[bucket..]));
        if all == 0 { 0.0 } else { float(late) / float(all) }
    }

    fn named(&self) -> [Datum; 2] {
        [Datum::text(self.row.named()), Datum::count(self.row.producers.into())]
    }
}

/// What a broker is to be told for it to do as each strategy of the run, ready to be pasted; empty
/// if the run's profile cannot be read any more.
fn broker_confs(manifest: &Manifest, rows: &[Row]) -> String {
    let Some(sweep) = manifest.sweep() else { return String::new() };
    let is_shown = |name: &str| rows.iter().any(|row| row.strategy == name);
    let mut out = String::new();
    for strategy in sweep.strategies.iter().filter(|strategy| is_shown(&strategy.name)) {
        let name = format::escaped(&strategy.name);
        let own = rows.iter().filter(|row| row.strategy == strategy.name);
        let places = own.map(|row| measured_under(manifest, &row.sysctl, &row.disk));
        let under: String = places.collect::<BTreeSet<String>>().into_iter().collect();
        let conf = broker_conf(&strategy.settings, sweep.segment_bytes);
        let conf = format::escaped(&(under + &conf));
        out += "<details><summary>broker.conf of ";
        out += &name;
        out += "</summary>\n<pre tabindex=\"0\">";
        out += &conf;
        out += "</pre></details>\n";
    }
    out
}

/// The section; `None` if no row has anything to say.
pub(super) fn section(manifest: &Manifest, rows: &[Row], cells: &[Cell]) -> Option<String> {
    let counts: Vec<Counts<'_>> = rows.iter().filter_map(|row| Counts::of(row, cells)).collect();
    if counts.is_empty() {
        return None;
    }
    let mut explained = String::new();
    for (time, what, _) in THRESHOLDS {
        explained += &["<li>", time, ": ", &format::escaped(what), "</li>\n"].concat();
    }
    Some(format!(
        "<p class=\"note\">Times are from append to acknowledgement, in whole milliseconds as the \
         broker counts them; RocketMQ also has its queue, its hooks and its client in them, so \
         that these are the least it would show. In a closed loop, where producers wait, a stall \
         holds up one message of each, and not those that would have come. Beyond a threshold of \
         its defaults:</p>\n\
         <ul>\n{explained}</ul>\n<div class=\"figures\">\n{}{}</div>\n{}",
        beyond(&counts),
        distribution(&counts),
        broker_confs(manifest, rows)
    ))
}

/// How many passed each threshold.
fn beyond(counts: &[Counts<'_>]) -> String {
    let row = |counts: &Counts<'_>| {
        let shares = THRESHOLDS.iter().map(|(_, _, from)| {
            let share = counts.share_from(*from);
            Datum::shown(share_in_words(share), share)
        });
        counts.named().into_iter().chain(shares).collect()
    };
    Table {
        caption: "Messages beyond RocketMQ's thresholds",
        heads: &[
            "strategy",
            "producers",
            "over 200 ms",
            "over 500 ms",
            "over 1 s",
            "over 3 s",
            "over 5 s",
        ],
        rows: counts.iter().map(row).collect(),
        sortable: true,
    }
    .html()
}

/// `putMessageDistributeTime`, as the broker's statistics print it.
fn distribution(counts: &[Counts<'_>]) -> String {
    let row = |counts: &Counts<'_>| {
        let each = counts.buckets.iter().map(|count| Datum::count(*count));
        counts.named().into_iter().chain(each).collect()
    };
    let heads: Vec<&str> = ["strategy", "producers"].into_iter().chain(BUCKETS).collect();
    Table {
        caption: "putMessageDistributeTime: messages by time",
        heads: &heads,
        rows: counts.iter().map(row).collect(),
        sortable: true,
    }
    .html()
}

/// `none`, or `1 in 340`: few are what one looks for, and a percentage of few has many zeroes.
fn share_in_words(share: f64) -> String {
    if share <= 0.0 {
        return "none".to_owned();
    }
    if 0.1 <= share {
        return format!("{:.0} %", 100.0 * share);
    }
    format!("1 in {}", format::count(1.0 / share))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results_fixture::{manifest, troubled};
    use crate::summary;

    /// Cells of which each has ten messages in the first bucket, and one in another.
    fn counted(other: usize) -> Vec<Cell> {
        let mut cells = troubled();
        for cell in &mut cells {
            cell.put_message_distribute_time = vec![0; BUCKETS.len()];
            cell.put_message_distribute_time[0] = 10;
            cell.put_message_distribute_time[other] += 1;
        }
        cells
    }

    #[test]
    fn what_took_longer_than_a_threshold_is_in_the_buckets_from_there_on() {
        let cells = counted(5);
        let rows = summary::rows(&cells);
        let row = rows.iter().find(|row| row.figures.is_some()).unwrap();
        let counts = Counts::of(row, &cells).unwrap();
        let blocks = u64::try_from(row.blocks.len()).unwrap();
        assert_eq!((counts.buckets[0], counts.buckets[5]), (10 * blocks, blocks));
        assert!((counts.share_from(5) - 1.0 / 11.0).abs() < 1e-9, "over 200 ms");
        assert!(counts.share_from(6).abs() < 1e-9, "and not over 500 ms");
        let profile = include_str!("../../../../profiles/sweeps/quick.yaml");
        let of = |profile: &str| Manifest { profile: profile.to_owned(), ..manifest() };
        let page = section(&of(profile), &rows, &cells).unwrap();
        assert!(
            page.contains("broker.conf of staged") && page.contains("flushDiskType=SYNC_FLUSH")
        );
        assert!(!section(&of(""), &rows, &cells).unwrap().contains("broker.conf of"));
        assert!(page.contains("1 in 11") && page.contains("500ms~1s"), "{page}");
        assert!(page.contains("&lt;=0ms"), "escaped: {page}");
    }

    #[test]
    fn results_without_buckets_have_no_such_section() {
        let mut cells = counted(3);
        for cell in &mut cells {
            cell.put_message_distribute_time.clear();
        }
        assert_eq!(section(&manifest(), &summary::rows(&cells), &cells), None);
    }

    #[test]
    fn counts_from_a_stranger_do_not_overflow() {
        let mut cells = counted(5);
        for cell in &mut cells {
            cell.put_message_distribute_time[5] = u64::MAX;
        }
        let rows = summary::rows(&cells);
        let row = rows.iter().find(|row| row.figures.is_some()).unwrap();
        let share = Counts::of(row, &cells).unwrap().share_from(5);
        assert!((share - 1.0).abs() < 1e-9, "{share}");
    }

    #[test]
    fn few_are_said_as_one_in_many() {
        assert_eq!(share_in_words(0.0), "none");
        assert_eq!(share_in_words(0.000_25), "1 in 4.0k");
        assert_eq!(share_in_words(0.25), "25 %");
    }
}
