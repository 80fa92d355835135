//! What a run is at, in a few lines under its bar, drawn again four times a second.

use harness::clock::float;
use harness::format;
use harness::live::{AtRisk, Moment, Phase, Seen};

/// How many lines there are.
pub(crate) const LINES: usize = 4;

/// The lines, each of at most `columns`; later ones are empty while there is nothing to say.
pub(crate) fn lines(moment: &Moment, columns: usize) -> [String; LINES] {
    let seconds = |time: std::time::Duration| format!("{:.1}", time.as_secs_f64());
    let phase = match moment.phase {
        Phase::Preparing => "preparing",
        Phase::Resting => "waiting for the disk to rest",
        Phase::WarmingUp => "warming up",
        Phase::Measuring => "measuring",
    };
    let passed = seconds(moment.passed);
    let time = if moment.planned.is_zero() {
        format!("{passed} s")
    } else {
        format!("{passed} of {} s", seconds(moment.planned))
    };
    let at = format!("  {phase}, {time}");
    let name = format::clipped(&moment.cell, columns.saturating_sub(at.chars().count()));
    let mut lines = [name + &at, String::new(), String::new(), String::new()];
    if let Some(Seen { acked_per_s, worst_append, process, power, pages }) = &moment.seen {
        lines[1] = format!(
            "  rate     {} msg/s, longest append {}",
            format::count(*acked_per_s),
            format::duration(float(worst_append.get()))
        );
        lines[2] = format!("  at risk  kill -9: {}, power cut: {}", risk(process), risk(power));
        if let Some(pages) = pages {
            lines[3] = format!(
                "  dirty    {} of {} (writers wait from {}), {} being written",
                format::bytes(float(pages.at_risk_bytes())),
                format::bytes(float(pages.limit_bytes)),
                format::bytes(float(pages.free_run_bytes())),
                format::bytes(float(pages.writeback_bytes)),
            );
        }
    }
    lines.map(|line| format::clipped(&line, columns))
}

fn risk(AtRisk { bytes, age, at_least }: &AtRisk) -> String {
    if *bytes == 0 {
        return "nothing".to_owned();
    }
    let bound = if *at_least { "≥" } else { "" };
    format!("{bound}{:.1} s, {}", age.as_secs_f64(), format::bytes(float(*bytes)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use harness::live::Live;
    use harness::vmstat::Pages;

    use super::*;

    fn moment() -> Moment {
        let live = Live::default();
        live.begin("block 1, timed ×8 closed-1k".to_owned());
        let at = |bytes, ms| AtRisk { bytes, age: Duration::from_millis(ms), at_least: false };
        let mut moment = live.moment();
        moment.phase = Phase::Measuring;
        moment.passed = Duration::from_millis(3210);
        moment.planned = Duration::from_secs(6);
        moment.seen = Some(Seen {
            acked_per_s: 271_000.0,
            worst_append: store_core::Nanos::from_millis(12),
            process: at(0, 0),
            power: at(844 << 20, 2500),
            pages: Some(Pages {
                dirty_bytes: 800 << 20,
                writeback_bytes: 12 << 20,
                background_limit_bytes: 1 << 30,
                limit_bytes: 2 << 30,
            }),
        });
        moment
    }

    #[test]
    fn a_moment_is_four_lines() {
        let expected = [
            "block 1, timed ×8 closed-1k  measuring, 3.2 of 6.0 s",
            "  rate     271k msg/s, longest append 12 ms",
            "  at risk  kill -9: nothing, power cut: 2.5 s, 844 MiB",
            "  dirty    812 MiB of 2.0 GiB (writers wait from 1.5 GiB), 12 MiB being written",
        ];
        assert_eq!(lines(&moment(), 80), expected);
        let mut young = moment();
        young.seen.as_mut().unwrap().power.at_least = true;
        assert!(lines(&young, 80)[2].ends_with("power cut: ≥2.5 s, 844 MiB"));
        let mut resting = moment();
        (resting.phase, resting.planned, resting.seen) = (Phase::Resting, Duration::ZERO, None);
        let resting = lines(&resting, 80);
        let said = "block 1, timed ×8 closed-1k  waiting for the disk to rest, 3.2 s";
        assert_eq!(resting, [said, "", "", ""]);
    }

    #[test]
    fn a_narrow_terminal_keeps_the_end_of_the_first_line() {
        let lines = lines(&moment(), 36);
        assert!(lines.iter().all(|line| line.chars().count() <= 36), "{lines:?}");
        assert_eq!(lines[0], "block 1, t…  measuring, 3.2 of 6.0 s");
    }
}
