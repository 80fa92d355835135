//! A card on a terminal of 80 columns.

use comfy_table::Table;

use super::{Card, CrossCheck, Fitness, PRODUCERS, Row, Verdict};
use crate::clock::float;
use crate::environment::write_cache;
use crate::format;
use crate::results::Environment;
use crate::table::{disk_line, ruled, wrapped};

/// The card, whole or not, no line of it wider than 80 columns.
///
/// There are no colours and no control characters, whatever the results contain.
pub fn text(card: &Card, environment: &Environment) -> String {
    let disk = &environment.disk;
    let mut lines = wrapped(&disk_line(environment), "", WIDTH);
    let details = &disk.details;
    if 1 < details.device_chain.len() {
        lines.extend(wrapped(
            &format!("devices: {}", details.device_chain.join(" on ")),
            "",
            WIDTH,
        ));
    }
    if !disk.in_memory {
        lines.extend(wrapped(&format!("cache: {}", write_cache(disk).value), "", WIDTH));
    }
    if let Some(calibration) = details.made.as_ref().and_then(|made| made.calibration) {
        lines.extend(wrapped(&format!("calibration: {calibration}"), "", WIDTH));
    }
    if !card.labels.is_empty() {
        lines.extend(wrapped(&format!("figures are: {}", card.labels.join(", ")), "", WIDTH));
    }
    let tables = [
        ("How: 4 KiB written in place, and made durable", &card.methods),
        ("How much at once", &card.sizes),
        ("How many at once: 4 KiB each, a file each", &card.parallel),
    ];
    for (title, rows) in tables {
        if !rows.is_empty() {
            lines.push(String::new());
            lines.push(title.to_owned());
            lines.extend(ruled(table(rows), 2, 1));
        }
    }
    lines.push(String::new());
    lines.extend(wrapped(NOTES, "", WIDTH));
    lines.extend(wrapped(&cross_check(card.cross_check.as_ref()), "", WIDTH));
    if let Some(verdict) = &card.verdict {
        lines.push(String::new());
        lines.extend(wrapped(&sentence(verdict), "", WIDTH));
    }
    let mut out = String::new();
    for line in lines {
        out.push_str(&format::clipped(line.trim_end(), WIDTH));
        out.push('\n');
    }
    out
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new();
    table.set_header([
        "\nwhat",
        "\nbytes",
        "\nthreads",
        "\na second",
        "\np50",
        "\np99",
        "\nworst",
        "flushes\neach",
    ]);
    for row in rows {
        let time = |ns: u64| format::duration(float(ns));
        table.add_row([
            row.method.words().to_owned(),
            format::bytes(float(row.bytes)),
            row.threads.to_string(),
            format::count(row.per_s),
            time(row.write_to_durable_ns_p50),
            time(row.write_to_durable_ns_p99),
            row.write_to_durable_ns_max.map_or("–".to_owned(), time),
            row.flushes_per_sync.map_or("–".to_owned(), format::ratio),
        ]);
    }
    table
}

pub(crate) fn cross_check(found: Option<&CrossCheck>) -> String {
    let Some(found) = found else {
        return "fio: not installed or not reached, no cross-check (apt-get install fio)"
            .to_owned();
    };
    let time = |ns: u64| format::duration(float(ns));
    let says = if found.agrees() { "both agree" } else { "they differ: look for other load" };
    format!(
        "{}: the fdatasync call alone takes {} (p50), here {}: {} of it, {says} (0.9 to 1.1)",
        found.version,
        time(found.sync_ns_p50),
        time(found.ours_ns_p50),
        format::ratio(found.ratio)
    )
}

/// What the disk is good for, with the threshold.
pub fn sentence(verdict: &Verdict) -> String {
    let time = |ns: u64| format::duration(float(ns));
    let Verdict { fitness, messages_per_s, method, group_ns_p50, sync_ns_p99, threshold_ns } =
        *verdict;
    let rate = format!(
        "about {} msg/s at {PRODUCERS} producers (1 KiB each; {PRODUCERS} KiB at once take {} by \
         {})",
        format::count(float(messages_per_s)),
        time(group_ns_p50),
        method.words()
    );
    let tail =
        format!("p99 of 4 KiB + fdatasync {}, threshold {}", time(sync_ns_p99), time(threshold_ns));
    match fitness {
        Fitness::Fit => format!("FIT for synchronous flush up to {rate}; {tail}"),
        Fitness::NotDurable => {
            format!(
                "NOT DURABLE: a sync here makes nothing survive a power cut; it would be {rate}"
            )
        }
        Fitness::NotFlushed => format!(
            "NOT FLUSHED: the device has a volatile cache, and syncs do not flush it (mount \
             options?); it would be {rate}; {tail}"
        ),
        Fitness::TooSlow => {
            format!("NOT FIT for synchronous flush: {tail}; typically {rate}")
        }
    }
}

const WIDTH: usize = 80;
const NOTES: &str = "Times: from the beginning of the write to the end of the sync. Flushes: \
                     requests the device completed for each sync, whoever asked; about 1 is right \
                     with a volatile cache, 0 without one, or for O_DSYNC where the device has \
                     FUA.";
