//! What a run found, on a terminal of 80 columns: a table for each case.

use comfy_table::Table;

use super::{Case, Contender, Limits, Measurement};
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
            lines.extend(ruled(table(&rows), 2, 1));
        }
    }
    lines.push(String::new());
    lines.extend(wrapped(NOTES, "", WIDTH));
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
    /// every round: the one with the highest median.
    pub of_raw: Vec<f64>,
    /// Whether the median of that reaches [`Case::goal`]; `None` for a raw loop, or without any.
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
    let best = raw.copied().max_by(|one, other| rate(*one).total_cmp(&rate(*other)));
    let Some(best) = best else { return Vec::new() };
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
        let is_judged = contender.is_log() && !of_raw.is_empty();
        let meets_goal = is_judged.then(|| case.goal() <= median(of_raw.clone()));
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
        let least = row.of_raw.iter().copied().fold(f64::INFINITY, f64::min);
        let most = row.of_raw.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mark = if row.meets_goal == Some(false) { " !" } else { "" };
        table.add_row([
            row.contender.words().to_owned(),
            format::count(median(row.per_s.clone())),
            if row.of_raw.is_empty() {
                "–".to_owned()
            } else {
                format!("{}{mark}", format::ratio(median(row.of_raw.clone())))
            },
            if row.of_raw.is_empty() {
                String::new()
            } else {
                format!("[{}–{}]", format::ratio(least), format::ratio(most))
            },
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
    nothing; the log encodes, sums and makes segments. CPU: of the whole process. KiB: given to \
    the device, by whomever. !: below the goal (0.95 to 64 producers; 0.9 for 256 and for 16 KiB; \
    0.7 for the window; 0.5 into memory, 0.35 at 128 B).";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::SCHEMA;
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
        }
    }

    fn limits(measurements: Vec<Measurement>) -> Limits {
        Limits {
            schema: SCHEMA.to_owned(),
            run: "20261130T000000Z-limits-00000000".to_owned(),
            version: "0.0.0".to_owned(),
            revision: None,
            dirty: None,
            command: Vec::new(),
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
            contenders.map(move |contender| found(0, case, *contender, 123_456.0))
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
    fn the_middle_of_an_even_number_is_a_mean() {
        assert!(median([]).abs() < f64::EPSILON);
        assert!((median([3.0, 1.0, 2.0]) - 2.0).abs() < f64::EPSILON);
        assert!((median([4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < f64::EPSILON);
    }
}
