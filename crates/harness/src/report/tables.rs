//! What the tables of a report hold: rows, cells, checks, and the twin of each chart.

use super::html::{Datum, Table};
use crate::chart;
use crate::clock::float;
use crate::comparison::Comparison;
use crate::format;
use crate::profile::Slo;
use crate::recorded::Recorded;
use crate::results::{AckPromise, Cell, EndedBy, Level, Quantiles, Spread, Stall, Status};
use crate::run::CANARY;
use crate::summary::{
    Extent, Figures, Kept, Loops, Loss, LossModel, Note, Percentile, Row, Stat, level_name, notes,
    status_name,
};

/// Every check that did not pass, with what was found and in how many cells.
pub(super) fn not_passed(cells: &[Cell]) -> String {
    let all = cells.len();
    let row = |note: &Note| {
        let mut values: Vec<String> = note.values.iter().take(3).cloned().collect();
        if note.values.len() > values.len() {
            values.push(format!("… ({} findings)", note.values.len()));
        }
        vec![
            Datum::text(&note.code),
            Datum::text(level_name(note.level)).class(level_class(note.level)),
            Datum::text(values.join(", ")),
            Datum::text(&note.rule),
            Datum::shown(format!("{} of {all}", note.cells), approximate(note.cells)),
        ]
    };
    Table {
        caption: "Checks that did not pass",
        heads: &["check", "outcome", "found", "rule", "cells"],
        rows: notes(cells).iter().map(row).collect(),
        sortable: false,
    }
    .html()
}

/// Every check of every cell, passed or not.
pub(super) fn all_checks(cells: &[Cell]) -> String {
    let mut rows = Vec::new();
    for cell in cells {
        for check in &cell.validity {
            rows.push(vec![
                Datum::text(&cell.cell),
                Datum::count(cell.block.into()),
                Datum::text(&check.code),
                Datum::text(level_name(check.level)).class(level_class(check.level)),
                Datum::text(&check.value),
                Datum::text(&check.rule),
            ]);
        }
    }
    Table {
        caption: "All checks of all cells",
        heads: &["cell", "block", "check", "outcome", "found", "rule"],
        rows,
        sortable: true,
    }
    .html()
}

/// The longest stalls of all cells: when, how long, and whether the kernel held writers up; `None`
/// if there were none.
///
/// # Errors
///
/// If a series cannot be read.
pub(super) fn stalls(recorded: &Recorded) -> anyhow::Result<Option<String>> {
    let cells = &recorded.cells;
    let mut all: Vec<(&Stall, &Cell)> =
        cells.iter().flat_map(|cell| cell.stalls.iter().map(move |stall| (stall, cell))).collect();
    if all.is_empty() {
        return Ok(None);
    }
    // The order of cells decides among equals.
    all.sort_by_key(|(stall, _)| std::cmp::Reverse(stall.took_ns));
    let row = |(stall, cell): &(&Stall, &Cell)| {
        let stall = recorded.stall(cell, stall)?;
        let (at, took) = (float(stall.at_ns), float(stall.took_ns));
        let throttled = match stall.throttled {
            Some(true) => "the dirty limit: writers wait for write-back",
            Some(false) => "not the dirty limit",
            None => "unknown",
        };
        Ok(vec![
            Datum::text(&cell.cell),
            Datum::count(cell.block.into()),
            Datum::number(took, format::duration),
            Datum::number(at, format::duration),
            Datum::maybe(stall.dirty_bytes.map(float), format::bytes),
            Datum::text(throttled),
        ])
    };
    let count = format::plural(all.len(), "stall");
    let table = Table {
        caption: "Appends that were held up longest",
        heads: &["cell", "block", "took", "ended at", "most dirty", "what held it up"],
        rows: all.iter().take(LONGEST_STALLS).map(row).collect::<anyhow::Result<_>>()?,
        sortable: true,
    };
    Ok(Some(format!(
        "<p class=\"note\">{count} in {}; the longest {LONGEST_STALLS} at most are shown. Times \
         are since measuring began; the last two columns are of all the time that it \
         took.</p>\n<div class=\"figures\">\n{}</div>\n",
        format::plural(cells.iter().filter(|cell| !cell.stalls.is_empty()).count(), "cell"),
        table.html()
    )))
}

/// How many stalls a table shows.
const LONGEST_STALLS: usize = 50;

/// What a chart shows, as a table.
pub(super) fn twin(rows: &[Row], model: LossModel) -> String {
    let best = chart::frontier(rows, model);
    let mut data = Vec::new();
    for row in rows {
        let on_frontier = best.iter().any(|other| std::ptr::eq(*other, row));
        let own = if row.is_overloaded() { "hollow: overload" } else { "filled" };
        for (figures, drawn) in [(row.figures, own), (row.refused, "hollow: invalid")] {
            let Some(figures) = figures else { continue };
            let filled = drawn == "filled";
            let class = if filled { "" } else { "invalid" };
            let mut line = vec![Datum::text(row.named()), Datum::count(row.producers.into())];
            line.push(Datum::stat(Some(figures.acked_per_s), format::count));
            line.extend(loss(&model.loss(&figures)));
            line.push(Datum::text(if filled && on_frontier { "yes" } else { "" }));
            line.push(Datum::text(drawn).class(class));
            data.push(line);
        }
    }
    let caption = match model {
        LossModel::Power => "The figures of chart C1",
        LossModel::Process => "The figures of chart C1b",
    };
    Table {
        caption,
        heads: &[
            "strategy",
            "producers",
            "msg/s [range]",
            "age at risk p99 [range]",
            "bytes at risk p99 [range]",
            "messages at risk p99 [range]",
            "on the frontier",
            "drawn",
        ],
        rows: data,
        sortable: false,
    }
    .html()
}

/// Every strategy under every load, over its blocks.
pub(super) fn rows(rows: &[Row], slo: Slo) -> String {
    // Under a heading that also stands over the raw loop's, which is from its write.
    let from = if Loops::of(rows) == Loops::Closed { "append→ack" } else { "ack" };
    let heads = ROW_HEADS.map(|head| head.replace("[from]", from));
    Table {
        caption: "Strategies and loads: figures over blocks, with their ranges",
        heads: &heads.each_ref().map(String::as_str),
        rows: rows.iter().map(|one| row(one, slo)).collect(),
        sortable: true,
    }
    .html()
}

fn row(row: &Row, slo: Slo) -> Vec<Datum> {
    let (good, bad) = (row.blocks.len(), row.invalid_blocks.len());
    let blocks = if bad == 0 { good.to_string() } else { format!("{good} ({bad} invalid)") };
    let mut data = vec![
        Datum::text(row.named()),
        Datum::count(row.producers.into()),
        Datum::text(status_name(row.status)).class(status_class(row.status)),
        Datum::shown(blocks, approximate(good)),
    ];
    match &row.figures {
        Some(figures) => data.extend(figures_of(figures)),
        None => data.extend(std::iter::repeat_with(Datum::missing).take(FIGURES)),
    }
    data.push(match Kept::of(row, slo).broken() {
        None => Datum::missing().class(""),
        Some(broken) if broken.is_empty() => Datum::text("kept"),
        Some(broken) => Datum::text(format!("not: {}", broken.join(", "))),
    });
    data.push(Datum::text(promise(row.ack_at)));
    let codes: Vec<&str> = row.notes.iter().map(|note| note.code.as_str()).collect();
    data.push(Datum::text(codes.join(", ")));
    data
}

fn figures_of(figures: &Figures) -> Vec<Datum> {
    let mut data = vec![
        Datum::stat(Some(figures.acked_per_s), format::count),
        Datum::stat(figures.ratio_to_raw, format::ratio),
        percentile(figures.ack_p50),
        percentile(figures.ack_p99),
        percentile(figures.ack_p999),
        percentile(figures.ack_max),
        percentile(figures.flush_p50),
        Datum::maybe(figures.messages_per_flush, format::count),
    ];
    data.extend(loss(&figures.process));
    data.extend(loss(&figures.power));
    data.push(Datum::stat(figures.write_amplification, format::ratio));
    data
}

/// The figures that [`figures_of`] gives.
const FIGURES: usize = 15;
const ROW_HEADS: [&str; 2 + FIGURES + 5] = [
    "strategy",
    "producers",
    "worst state",
    "blocks",
    "msg/s [range]",
    "× raw [range]",
    "[from] p50",
    "[from] p99",
    "[from] p99.9",
    "[from] max",
    "flush p50",
    "messages per flush",
    "kill -9: age p99",
    "kill -9: bytes p99",
    "kill -9: messages p99",
    "power cut: age p99",
    "power cut: bytes p99",
    "power cut: messages p99",
    "write amplification",
    "what is asked (slo)",
    "acknowledged survives",
    "labels and warnings",
];

/// Every comparison.
pub(super) fn comparisons(all: &[Comparison]) -> String {
    let row = |one: &Comparison| {
        let same: Vec<&str> = one.same.values().map(String::as_str).collect();
        let word = match one.detectable_pct {
            Some(least) => format!("{} ≥ {least:.0} %", one.word.words()),
            None => one.word.words().to_owned(),
        };
        let [low, high] = [one.ratio_low, one.ratio_high].map(small_ratio);
        let ratio = format!("{} [{low}–{high}]", small_ratio(one.ratio));
        vec![
            Datum::text(&one.b),
            Datum::text(word),
            Datum::text(&one.a),
            Datum::text(one.measure.words()),
            Datum::shown(ratio, one.ratio),
            Datum::text(format!("{} ×{}{}", same.join(", "), one.producers, label(one))),
            Datum::count(one.blocks),
            Datum::number(one.p_holm, |p| {
                if p < 0.0001 { "< 0.0001".to_owned() } else { format!("{p:.4}") }
            }),
        ]
    };
    Table {
        caption: "Comparisons by block",
        heads: &[
            "B",
            "is",
            "than A",
            "in",
            "B ÷ A [95 %]",
            "under the same",
            "blocks",
            "p, corrected",
        ],
        rows: all.iter().map(row).collect(),
        sortable: true,
    }
    .html()
}

/// What must be said of the disks, if they are not hardware as they are.
fn label(one: &Comparison) -> String {
    let words: Vec<_> = one.not_hardware.words().collect();
    if words.is_empty() { String::new() } else { format!(" ({})", words.join(", ")) }
}

/// A ratio that may be far below 1, where two decimals would show nothing.
fn small_ratio(ratio: f64) -> String {
    if ratio < 0.1 { format!("1/{}", format::count(1.0 / ratio)) } else { format::ratio(ratio) }
}

/// Every cell of every block.
pub(super) fn cells(cells: &[Cell]) -> String {
    let any_open = cells.iter().any(|cell| cell.open_loop.is_some());
    let is_shown = |head: &&&str| any_open || !head.starts_with(OPEN_ONLY);
    let heads: Vec<&str> = CELL_HEADS.iter().filter(is_shown).copied().collect();
    Table {
        caption: "All cells as measured, one repetition each",
        heads: &heads,
        rows: cells.iter().map(|one| cell(one, any_open)).collect(),
        sortable: true,
    }
    .html()
}

fn cell(cell: &Cell, any_open: bool) -> Vec<Datum> {
    let what = cell.not_hardware().word().map_or_else(String::new, |what| format!(" ({what})"));
    let mut data = vec![
        Datum::text(format!("{}{what}", cell.cell)),
        Datum::count(cell.block.into()),
        // A canary stands before or behind all others, and has no place among them.
        if cell.strategy == CANARY { Datum::missing() } else { Datum::count(cell.position.into()) },
        Datum::text(status_name(cell.status)).class(status_class(cell.status)),
        Datum::number(cell.acked_per_s, format::count),
        Datum::number(cell.bytes_per_s, |rate| format!("{}/s", format::bytes(rate))),
        Datum::count(cell.counts.appended),
        Datum::count(cell.counts.acked),
        Datum::count(cell.counts.errors),
        Datum::count(cell.counts.timeouts),
        Datum::count(cell.counts.commits),
        Datum::count(cell.counts.flushes),
        Datum::number(cell.fsync_per_ack, format::ratio),
    ];
    data.extend(latency(&cell.append_to_ack_ns));
    if any_open {
        let due_to_ack = cell.open_loop.map(|open| open.due_to_ack_ns).unwrap_or_default();
        data.extend(latency(&due_to_ack));
    }
    let waiting = cell.backlog.unwrap_or_default();
    data.push(tail(&waiting.messages, format::count));
    data.push(tail(&waiting.oldest_wait_ns, format::duration));
    data.extend(latency(&cell.flush_ns));
    data.push(median(&cell.messages_per_flush, format::count));
    data.push(median(&cell.bytes_per_flush, format::bytes));
    data.extend(interval(cell));
    for exposure in [&cell.exposure.process, &cell.exposure.power] {
        data.push(spread(&exposure.age_ns, format::duration));
        data.push(spread(&exposure.bytes, format::bytes));
        data.push(spread(&exposure.messages, format::count));
    }
    data.extend(machine(cell));
    let said = notes([cell]);
    let codes: Vec<&str> = said.iter().map(|note| note.code.as_str()).collect();
    data.push(Datum::text(codes.join(", ")));
    data
}

/// What only an open loop has.
const OPEN_ONLY: &str = "due→ack";
const CELL_HEADS: [&str; 54] = [
    "cell",
    "block",
    "position",
    "state",
    "msg/s",
    "body bytes",
    "appended",
    "acked",
    "errors",
    "timeouts",
    "commits",
    "flushes",
    "fsync per ack",
    "append→ack p50",
    "append→ack p99",
    "append→ack p99.9",
    "append→ack max",
    "due→ack p50",
    "due→ack p99",
    "due→ack p99.9",
    "due→ack max",
    "waiting p99 (max)",
    "oldest wait p99 (max)",
    "flush p50",
    "flush p99",
    "flush p99.9",
    "flush max",
    "messages per flush p50",
    "bytes per flush p50",
    "interval set",
    "interval p50",
    "interval p99",
    "kill -9: age p99 (max)",
    "kill -9: bytes p99 (max)",
    "kill -9: messages p99 (max)",
    "power cut: age p99 (max)",
    "power cut: bytes p99 (max)",
    "power cut: messages p99 (max)",
    "ack→durable p50",
    "ack→durable p99",
    "device bytes",
    "flush requests",
    "write amplification",
    "faults, minor",
    "faults, major",
    "dirty at start",
    "dirty max",
    "background limit",
    "dirty limit",
    "Little, loop",
    "Little, exposure",
    "measured",
    "started",
    "not passed",
];

fn latency(quantiles: &Quantiles) -> [Datum; 4] {
    if quantiles.count == 0 {
        return std::array::from_fn(|_| Datum::missing());
    }
    [quantiles.p50, quantiles.p99, quantiles.p999, quantiles.max]
        .map(|ns| Datum::number(float(ns), format::duration))
}

fn median(quantiles: &Quantiles, shown: fn(f64) -> String) -> Datum {
    let value = (quantiles.count > 0).then(|| float(quantiles.p50));
    Datum::maybe(value, shown)
}

fn interval(cell: &Cell) -> [Datum; 3] {
    let interval = &cell.interval;
    [interval.configured_ns, interval.achieved_p50_ns, interval.achieved_p99_ns]
        .map(|ns| Datum::maybe(ns.map(float), format::duration))
}

fn spread(spread: &Spread, shown: fn(f64) -> String) -> Datum {
    p99_and_max(spread.p99, spread.max, shown)
}

fn tail(quantiles: &Quantiles, shown: fn(f64) -> String) -> Datum {
    if quantiles.count == 0 {
        return Datum::missing();
    }
    p99_and_max(quantiles.p99, quantiles.max, shown)
}

fn p99_and_max(p99: u64, max: u64, shown: fn(f64) -> String) -> Datum {
    let (p99, max) = (float(p99), float(max));
    let text = if max > 0.0 { format!("{} ({})", shown(p99), shown(max)) } else { "0".to_owned() };
    Datum::shown(text, p99)
}

/// Device, dirty pages, identities and time.
fn machine(cell: &Cell) -> Vec<Datum> {
    let percent = |error: Option<f64>| Datum::maybe(error, |error| format!("{error:.1} %"));
    let bytes = |value: Option<u64>| Datum::maybe(value.map(float), format::bytes);
    let count = |value: Option<u64>| value.map_or_else(Datum::missing, Datum::count);
    let [durable_p50, durable_p99, ..] = latency(&cell.ack_to_durable_ns);
    let ended = match cell.ended_by {
        EndedBy::Bytes => " (all bytes written)",
        EndedBy::Time => "",
    };
    let measured = float(cell.measured_ns);
    vec![
        durable_p50,
        durable_p99,
        bytes(cell.io.device_write_bytes),
        count(cell.io.flush_requests),
        Datum::maybe(cell.io.write_amplification, format::ratio),
        count(cell.machine.minor_faults),
        count(cell.machine.major_faults),
        bytes(cell.dirty.start_bytes),
        bytes(cell.dirty.max_bytes),
        bytes(cell.dirty.background_limit_bytes),
        bytes(cell.dirty.limit_bytes),
        percent(cell.little.closed_error_pct),
        percent(cell.little.exposure_error_pct),
        Datum::shown(format!("{}{ended}", format::duration(measured)), measured),
        Datum::shown(format::utc(cell.started_at_ms), float(cell.started_at_ms)),
    ]
}

fn percentile(percentile: Option<Percentile>) -> Datum {
    percentile.map_or_else(Datum::missing, |p| Datum::shown(p.shown(), p.ns.centre()))
}

fn loss(loss: &Loss) -> [Datum; 3] {
    let at_risk = |stat: Stat, shown| match loss.extent {
        Extent::Everything => Datum::shown("all", f64::INFINITY),
        _ if loss.is_zero() => Datum::shown("0", 0.0),
        Extent::AtLeast => Datum::stat(Some(stat), shown).preceded_by("≥ "),
        Extent::Measured => Datum::stat(Some(stat), shown),
    };
    [
        at_risk(loss.age_ns, format::duration),
        at_risk(loss.bytes, format::bytes),
        at_risk(loss.messages, format::count),
    ]
}

fn promise(ack_at: AckPromise) -> &'static str {
    match ack_at {
        AckPromise::Committed => "kill -9",
        AckPromise::Flushed => "power cut, if the device honours flush",
        AckPromise::Wrote => "nothing yet",
    }
}

fn status_class(status: Status) -> &'static str {
    match status {
        Status::Invalid => "invalid",
        Status::Overload => "overload",
        Status::Valid => "valid",
        Status::Warn => "warn",
    }
}

fn level_class(level: Level) -> &'static str {
    match level {
        Level::Invalid => "invalid",
        Level::Label => "",
        Level::Pass => "pass",
        Level::Warn => "warn",
    }
}

fn approximate(count: usize) -> f64 {
    float(u64::try_from(count).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Kind;
    use crate::results_fixture::{cell, environment, example, manifest};

    #[test]
    fn stalls_are_told_longest_first_with_what_the_kernel_did_then() {
        let mut cells = example();
        let told = |cells: &[Cell]| {
            let run = Recorded::new(&manifest(), &environment(), cells, None);
            stalls(&run).unwrap()
        };
        assert_eq!(told(&cells), None);
        let stall = |took_ms: u64, throttled| Stall {
            at_ns: 1_200_000_000,
            took_ns: took_ms * 1_000_000,
            dirty_bytes: Some(3 << 30),
            throttled: Some(throttled),
        };
        cells[2].stalls = vec![stall(70, false), stall(4052, true)];
        cells[5].stalls = (0..60).map(|more| stall(100 + more, false)).collect();
        let page = told(&cells).unwrap();
        assert!(page.contains("62 stalls in 2 cells"), "{page}");
        let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text} in {page}"));
        assert!(at("4.1 s") < at("159 ms") && at("the dirty limit") < at("not the dirty limit"));
        assert!(!page.contains("70 ms"), "the shortest are left out");
    }

    #[test]
    fn a_canary_has_no_position_among_the_cells() {
        let canary = |c: &mut Cell| (c.strategy, c.position) = (CANARY.to_owned(), u32::MAX - 1);
        let all = [cell(Kind::GroupCommit, 1, 0, canary), cell(Kind::GroupCommit, 8, 0, |_| {})];
        let html = super::cells(&all);
        assert!(!html.contains("4294967294"), "{html}");
        assert!(html.contains("<td class=\"n\">–</td>"), "{html}");
        assert!(html.contains("<td class=\"n\" data-v=\"8\">8</td>"), "{html}");
    }
}
