//! What a run found, on a terminal of 80 columns: a table for each case.

use comfy_table::Table;

use super::{
    Case, Contender, Limits, Measurement, PACED_MAX_NS, PACED_P9999_NS, PACED_WRITTEN, Tail,
};
use crate::clock::float;
use crate::format;
use crate::results::Environment;
use crate::table::{disk_line, ruled, wrapped};

/// The tables of a run, whole or not, no line of them wider than 80 columns.
///
/// There are no colours and no control characters, whatever the results contain.
pub fn text(limits: &Limits, environment: &Environment) -> String {
    let mut lines = wrapped(&disk_line(environment), "", WIDTH);
    lines.extend(wrapped(
        &format!(
            "{} of {}, {} each, {}",
            format::plural(usize::try_from(limits.rounds_done).unwrap_or(usize::MAX), "round"),
            limits.rounds_planned,
            format::duration(float(limits.measure_ns)),
            format::utc(limits.started_at_ms)
        ),
        "",
        WIDTH,
    ));
    if environment.disk.in_memory {
        lines.push("IN MEMORY: nothing here is durable, and a sync costs nothing".to_owned());
    }
    for case in Case::ALL {
        let rows = rows(limits, case);
        if !rows.is_empty() {
            lines.push(String::new());
            lines.extend(wrapped(case.words(), "", WIDTH));
            let table = match case {
                Case::Paced => paced(&rows),
                Case::Scan | Case::Sustained => bulk(&rows, case),
                _ => table(&rows),
            };
            lines.extend(ruled(table, 2, 1));
            lines.extend(wrapped(&said(&rows, case), "", WIDTH));
        }
    }
    lines.push(String::new());
    lines.extend(wrapped(NOTES, "", WIDTH));
    if limits.measurements.iter().any(|found| found.bulk.is_some()) {
        lines.extend(wrapped(NOTES_ON_BULK, "", WIDTH));
    }
    let mut out = String::new();
    for line in lines {
        out.push_str(&format::clipped(line.trim_end(), WIDTH));
        out.push('\n');
    }
    out
}

/// A contender in all rounds of a case.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Who.
    pub contender: Contender,
    /// Records a second, a round each.
    pub per_s: Vec<f64>,
    /// The same as a share of the best raw loop's in the same round, which is the same loop in
    /// every round: the one with the highest median. Of [`Case::Scan`], for which bytes must be
    /// both read and summed, the checksum's if that is slower than the best that reads.
    pub of_raw: Vec<f64>,
    /// Whether the median of that reaches [`Case::goal`], or a tail its limits; `None` for a raw
    /// loop, or without any.
    pub meets_goal: Option<bool>,
    found: Vec<Measurement>,
}

/// The contenders of a case, raw loops first, in the order in which the case names them.
pub fn rows(limits: &Limits, case: Case) -> Vec<Row> {
    let found = |contender: Contender| -> Vec<&Measurement> {
        let all = limits.measurements.iter();
        all.filter(|found| found.case == case && found.contender == contender).collect()
    };
    let rate = |contender| median(found(contender).iter().map(|found| found.per_s));
    let raw = case.contenders().iter().filter(|contender| !contender.is_log());
    let moves = raw.copied().filter(|contender| *contender != Contender::Checksum);
    let best = moves.max_by(|one, other| rate(*one).total_cmp(&rate(*other)));
    let Some(mut best) = best else { return Vec::new() };
    if (f64::MIN_POSITIVE..rate(best)).contains(&rate(Contender::Checksum)) {
        best = Contender::Checksum;
    }
    let best = found(best);
    let row = |contender: Contender| {
        let found: Vec<Measurement> = found(contender).into_iter().cloned().collect();
        let of_raw: Vec<f64> = found
            .iter()
            .filter_map(|one| {
                let raw = best.iter().find(|raw| raw.round == one.round)?;
                (raw.per_s > 0.0).then(|| one.per_s / raw.per_s)
            })
            .collect();
        let meets_goal = match case.goal() {
            _ if !contender.is_log() => None,
            Some(goal) => (!of_raw.is_empty()).then(|| goal <= median(of_raw.clone())),
            None => (!found.is_empty()).then(|| missed(&found) == [false; 3]),
        };
        let per_s = found.iter().map(|found| found.per_s).collect();
        Row { contender, per_s, of_raw, meets_goal, found }
    };
    let rows = case.contenders().iter().map(|contender| row(*contender));
    rows.filter(|row| !row.found.is_empty()).collect()
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new();
    table.set_header([
        "\nwhat",
        "\nper s",
        "of the\nbest raw",
        "\n[min–max]",
        "\np50",
        "\np99",
        "CPU\neach",
        "KiB\neach",
    ]);
    for row in rows {
        let time = |time: fn(&Measurement) -> Option<u64>| {
            let times: Vec<f64> = row.found.iter().filter_map(time).map(float).collect();
            if times.is_empty() { "–".to_owned() } else { format::duration(median(times)) }
        };
        let written: Vec<f64> =
            row.found.iter().filter_map(|found| found.device_bytes_per_record).collect();
        let [share, range] = shares(row);
        table.add_row([
            row.contender.words().to_owned(),
            format::count(median(row.per_s.clone())),
            share,
            range,
            time(|found| found.p50_ns),
            time(|found| found.p99_ns),
            format::duration(median(row.found.iter().map(|found| found.cpu_ns_per_record))),
            if written.is_empty() {
                "–".to_owned()
            } else {
                format!("{:.1}", median(written) / 1024.0)
            },
        ]);
    }
    table
}

/// The median share with its mark, and the least and most.
fn shares(row: &Row) -> [String; 2] {
    if row.of_raw.is_empty() {
        return ["–".to_owned(), String::new()];
    }
    let least = row.of_raw.iter().copied().fold(f64::INFINITY, f64::min);
    let most = row.of_raw.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let share = marked(format::ratio(median(row.of_raw.clone())), row.meets_goal == Some(false));
    [share, format!("[{}–{}]", format::ratio(least), format::ratio(most))]
}

fn marked(figure: String, is_missed: bool) -> String {
    if is_missed { figure + " !" } else { figure }
}

/// Many bytes: at which rate, and what the device had to do for them.
fn bulk(rows: &[Row], case: Case) -> Table {
    let mut table = Table::new();
    let (best, device) = match case {
        Case::Scan => ("of the\nbound", "read, of\nthe bytes"),
        _ => ("of the\nbest raw", "written, of\nthe bytes"),
    };
    table.set_header(["\nwhat", "a\nsecond", best, "\n[min–max]", "CPU\neach", device]);
    for row in rows {
        let rates = row.found.iter().filter_map(|found| {
            Some(float(found.bulk?.bytes) / (float(found.measured_ns.max(1)) / 1e9))
        });
        let read = |found: &Measurement| {
            let bulk = found.bulk?;
            Some(float(bulk.read_bytes?) / float(bulk.bytes.max(1)))
        };
        let [share, range] = shares(row);
        table.add_row([
            row.contender.words().to_owned(),
            format::bytes(median(rates)),
            share,
            range,
            format::duration(median(row.found.iter().map(|found| found.cpu_ns_per_record))),
            match case {
                Case::Scan => middle(row, read).map_or("–".to_owned(), format::ratio),
                _ => middle(row, written).map_or("–".to_owned(), format::ratio),
            },
        ]);
    }
    table
}

/// Records that came at a given rate: how late they were.
fn paced(rows: &[Row]) -> Table {
    let mut table = Table::new();
    table.set_header([
        "\nwhat",
        "\nper s",
        "\np50",
        "\np99",
        "\np99.9",
        "\np99.99",
        "\nworst",
        "written, of\nthe bytes",
    ]);
    for row in rows {
        let [is_late, is_stalled, is_amplified] =
            if row.contender.is_log() { missed(&row.found) } else { [false; 3] };
        let time = |time: fn(&Measurement) -> Option<u64>| {
            let found = middle(row, |found| time(found).map(float));
            found.map_or("–".to_owned(), format::duration)
        };
        table.add_row([
            row.contender.words().to_owned(),
            format::count(median(row.per_s.clone())),
            time(|found| found.p50_ns),
            time(|found| found.p99_ns),
            time(|found| Some(found.tail?.p999_ns)),
            marked(time(|found| Some(found.tail?.p9999_ns)), is_late),
            marked(format::duration(worst(&row.found)), is_stalled),
            marked(middle(row, written).map_or("–".to_owned(), format::ratio), is_amplified),
        ]);
    }
    table
}

/// Which limits of [`Case::Paced`] are passed: by one of ten thousand, the worst of all rounds, the
/// bytes that the device was given.
fn missed(found: &[Measurement]) -> [bool; 3] {
    let tails = || found.iter().filter_map(|found| found.tail);
    let p9999 = median(tails().map(|tail: Tail| float(tail.p9999_ns)));
    [
        float(PACED_P9999_NS) < p9999,
        float(PACED_MAX_NS) < worst(found),
        PACED_WRITTEN < median(found.iter().filter_map(written)),
    ]
}

/// The slowest record of all rounds.
fn worst(found: &[Measurement]) -> f64 {
    float(found.iter().filter_map(|found| found.tail).map(|tail| tail.max_ns).max().unwrap_or(0))
}

/// Bytes that the device was given for each of a measurement.
fn written(found: &Measurement) -> Option<f64> {
    let bytes = float(found.bulk?.bytes.max(1));
    Some(found.device_bytes_per_record? * float(found.records) / bytes)
}

fn middle(row: &Row, figure: impl Fn(&Measurement) -> Option<f64>) -> Option<f64> {
    let figures: Vec<f64> = row.found.iter().filter_map(figure).collect();
    (!figures.is_empty()).then(|| median(figures))
}

/// What is to be known of one run's sizes.
fn said(rows: &[Row], case: Case) -> String {
    let found = || rows.iter().flat_map(|row| &row.found);
    let Some(bytes) = found().filter_map(|found| Some(found.bulk?.bytes)).max() else {
        return String::new();
    };
    let mut said = vec![format!("{} each", format::bytes(float(bytes)))];
    if let Some(tail) = found().find_map(|found| found.tail) {
        said.push(format!("{} a second are due", format::count(float(tail.offered_per_s))));
    }
    let dirty = |row: &Row| {
        let dirty = row.found.iter().filter_map(|found| found.bulk?.dirty?.max_bytes).max()?;
        Some(format!("{} ({})", format::bytes(float(dirty)), row.contender.words()))
    };
    let dirty: Vec<String> = rows.iter().filter_map(dirty).collect();
    let limits = found().find_map(|found| {
        let dirty = found.bulk?.dirty?;
        Some((dirty.background_limit_bytes?, dirty.limit_bytes?))
    });
    if let Some((background, limit)) = limits.filter(|_| !dirty.is_empty()) {
        said.push(format!("dirty at most {}", dirty.join(", ")));
        said.push(format!(
            "the kernel writes from {} on and holds writers up at {}",
            format::bytes(float(background)),
            format::bytes(float(limit))
        ));
        if case == Case::Sustained && bytes <= limit {
            said.push(
                "so few bytes cannot reach that: they are at most 8 GiB, a third of the free \
                 space, and 8 GiB for each second of --measure-ms"
                    .to_owned(),
            );
        }
    }
    said.join("; ")
}

/// The middle value, or the mean of the two in the middle; 0 of nothing.
fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.get(middle) {
        None => 0.0,
        Some(high) if sorted.len() % 2 == 1 => *high,
        Some(high) => (sorted[middle - 1] + high) / 2.0,
    }
}

const WIDTH: usize = 80;
const NOTES: &str = "medians over the rounds, closed loop; a share is taken within its round. What \
    waits for its sync is lost to no crash, if the device honours flushes; what goes into memory \
    is lost to a power cut. Raw loops go round in one file that was written before and encode \
    nothing; the log encodes and sums, in segments that were filled before unless its row says \
    otherwise. CPU: of the whole process. KiB: given to \
    the device, by whomever. !: below the goal (0.95 to 64 producers; 0.9 for 256 and for 16 KiB; \
    0.7 for the window; 0.5 into memory, 0.35 at 128 B).";
const NOTES_ON_BULK: &str = "sustained: goal 0.9, of bytes that are durable, over all the time \
    until the last is. Paced: open loop, from when a record is due, so what a stall holds up \
    counts as late; goals p99.99 10 ms, worst of all rounds 50 ms, 1.2 bytes written for each. \
    What is staged is acknowledged in memory of the process, which a crash of it takes too; the \
    others' when the page cache has it. Of both the raw pwrite goes to reserved space, while \
    another thread syncs each 500 ms; a paced one is a record. Opened: goal 0.8 of reading as many \
    bytes of the same files, or of summing them on all cores where that is slower.";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{Bulk, SCHEMA};
    use crate::results::Dirty;
    use crate::results::Origin;
    use crate::results_fixture::{HOSTILE, assert_fits, environment};

    fn found(round: u32, case: Case, contender: Contender, per_s: f64) -> Measurement {
        Measurement {
            round,
            case,
            contender,
            records: 1000,
            measured_ns: 1_000_000_000,
            per_s,
            p50_ns: Some(123_456),
            p99_ns: Some(999_999_999),
            cpu_ns_per_record: 45_678.0,
            device_bytes_per_record: Some(1_073_741.0),
            flushes_per_record: Some(1.0),
            tail: None,
            bulk: None,
        }
    }

    fn in_bulk(mut found: Measurement) -> Measurement {
        let dirty = Dirty {
            max_bytes: Some(1023 << 20),
            background_limit_bytes: Some(1023 << 20),
            limit_bytes: Some(8 << 30),
            ..Dirty::default()
        };
        let bulk = Bulk { bytes: 8 << 30, read_bytes: Some(8 << 30), dirty: Some(dirty) };
        found.bulk = Some(bulk);
        found
    }

    fn late(found: Measurement, p9999_ns: u64, max_ns: u64, written: f64) -> Measurement {
        let tail = Tail { offered_per_s: 123_456, p999_ns: 999_000, p9999_ns, max_ns };
        let bytes = float(8 << 30) / float(found.records);
        let device_bytes_per_record = Some(written * bytes);
        Measurement { tail: Some(tail), device_bytes_per_record, ..in_bulk(found) }
    }

    fn limits(measurements: Vec<Measurement>) -> Limits {
        Limits {
            schema: SCHEMA.to_owned(),
            run: "20261130T000000Z-limits-00000000".to_owned(),
            origin: Origin {
                version: "0.0.0".to_owned(),
                revision: None,
                dirty: None,
                command: Vec::new(),
            },
            started_at_ms: 1_700_000_000_000,
            rounds_done: 2,
            rounds_planned: 5,
            measure_ns: 1_000_000_000,
            measurements,
        }
    }

    #[test]
    fn a_share_is_taken_within_its_round_of_the_loop_that_is_best_over_all() {
        let rates = [
            (Contender::Fdatasync, [100.0, 200.0, 300.0]),
            (Contender::Direct, [110.0, 50.0, 60.0]),
            (Contender::Lead, [99.0, 190.0, 150.0]),
        ];
        let measurements = (0..3).flat_map(|round: u32| {
            let at = usize::try_from(round).unwrap();
            rates.iter().map(move |(who, per_s)| found(round, Case::Sync16, *who, per_s[at]))
        });
        let rows = rows(&limits(measurements.collect()), Case::Sync16);
        let shares: Vec<_> = rows.iter().map(|row| (row.contender, row.of_raw.clone())).collect();
        assert_eq!(
            shares,
            [
                (Contender::Fdatasync, vec![1.0, 1.0, 1.0]),
                (Contender::Direct, vec![1.1, 0.25, 0.2]),
                (Contender::Lead, vec![0.99, 0.95, 0.5]),
            ]
        );
        let meets: Vec<_> = rows.iter().map(|row| row.meets_goal).collect();
        assert_eq!(meets, [None, None, Some(true)], "the median is the goal itself");
    }

    #[test]
    fn a_round_that_was_cut_short_gives_no_share() {
        let measurements = vec![
            found(0, Case::Window, Contender::Fdatasync, 1000.0),
            found(0, Case::Window, Contender::Tickets, 600.0),
            found(1, Case::Window, Contender::Tickets, 900.0),
        ];
        let rows = rows(&limits(measurements), Case::Window);
        assert_eq!(rows.last().map(|row| row.of_raw.clone()), Some(vec![0.6]));
        assert_eq!(rows.last().and_then(|row| row.meets_goal), Some(false));
        let alone = limits(vec![found(0, Case::Window, Contender::Tickets, 600.0)]);
        let row = super::rows(&alone, Case::Window).pop().unwrap();
        assert_eq!((row.of_raw, row.meets_goal), (Vec::new(), None));
        assert!(!text(&alone, &environment()).contains("0.00"));
    }

    #[test]
    fn everything_fits_80_columns_and_a_missed_goal_is_marked() {
        let measurements = Case::ALL.into_iter().flat_map(|case| {
            let contenders = case.contenders().iter();
            contenders.map(move |contender| {
                let found = found(0, case, *contender, 123_456.0);
                match case {
                    Case::Paced => late(found, 999_000_000, 999_000_000, 999.0),
                    Case::Scan | Case::Sustained => in_bulk(found),
                    _ => found,
                }
            })
        });
        let mut environment = environment();
        environment.disk.path = HOSTILE.to_owned();
        let mut limits = limits(measurements.collect());
        for found in &mut limits.measurements {
            found.per_s *= if found.contender == Contender::Lead { 0.123 } else { 1.0 };
        }
        let text = text(&limits, &environment);
        assert_fits(&text, WIDTH);
        assert!(!text.contains('…'), "{text}");
        assert!(text.contains("15k   0.12 !"), "{text}");
        for (in_memory, emulated, label) in [(true, false, "IN MEMORY"), (false, true, "EMULATED")]
        {
            environment.disk.in_memory = in_memory;
            environment.disk.emulated = emulated;
            let text = super::text(&super::tests::limits(Vec::new()), &environment);
            assert_fits(&text, WIDTH);
            assert!(text.contains(label), "{text}");
        }
    }

    #[test]
    fn a_scan_is_held_against_the_slower_of_reading_and_summing() {
        let check = |summed: f64, expect: f64| {
            let rates = [
                (Contender::Read, 80.0),
                (Contender::Pieces, 100.0),
                (Contender::Checksum, summed),
                (Contender::Open, 60.0),
            ];
            let found = rates.map(|(who, per_s)| in_bulk(found(0, Case::Scan, who, per_s)));
            let row = rows(&limits(found.to_vec()), Case::Scan).pop().unwrap();
            assert_eq!((row.of_raw, row.meets_goal), (vec![expect], Some(0.8 <= expect)));
        };
        check(500.0, 0.6);
        check(75.0, 0.8);
    }

    #[test]
    fn a_given_rate_is_judged_by_what_came_late_and_what_was_written() {
        let check = |p9999_ns, max_ns, written, expect: [&str; 3]| {
            let one = |round, max_ns| {
                let found = found(round, Case::Paced, Contender::Async, 1000.0);
                late(found, p9999_ns, max_ns, written)
            };
            let limits = limits(vec![one(0, 1000), one(1, max_ns), one(2, 1000)]);
            let row = rows(&limits, Case::Paced).pop().unwrap();
            assert_eq!(row.meets_goal, Some(expect.iter().all(|figure| !figure.ends_with('!'))));
            let text = text(&limits, &environment());
            let line = text.lines().find(|line| line.starts_with("log, async")).unwrap();
            let figures = expect.join(" ").replace("  ", " ");
            let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(line.ends_with(&figures), "{text}");
        };
        check(PACED_P9999_NS, PACED_MAX_NS, 1.2, ["10 ms", "50 ms", "1.20"]);
        check(PACED_P9999_NS * 2, PACED_MAX_NS, 1.2, ["20 ms !", "50 ms", "1.20"]);
        check(PACED_P9999_NS, PACED_MAX_NS * 2, 1.0, ["10 ms", "100 ms !", "1.00"]);
        check(PACED_P9999_NS, 1000, 1.3, ["10 ms", "1.0 µs", "1.30 !"]);
    }

    #[test]
    fn what_was_written_before_there_were_tails_is_still_read() {
        let mut written =
            serde_json::to_value(found(0, Case::Sync1, Contender::Lead, 1.0)).unwrap();
        let fields = written.as_object_mut().unwrap();
        assert!(fields.remove("tail").is_some() && fields.remove("bulk").is_some());
        let read: Measurement = serde_json::from_value(written).unwrap();
        assert_eq!(read, found(0, Case::Sync1, Contender::Lead, 1.0));
        let paced = late(found(0, Case::Paced, Contender::Async, 1.0), 1, 2, 1.0);
        let written = serde_json::to_string(&paced).unwrap();
        assert_eq!(serde_json::from_str::<Measurement>(&written).unwrap(), paced);
    }

    #[test]
    fn the_middle_of_an_even_number_is_a_mean() {
        assert!(median([]).abs() < f64::EPSILON);
        assert!((median([3.0, 1.0, 2.0]) - 2.0).abs() < f64::EPSILON);
        assert!((median([4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < f64::EPSILON);
    }
}
