//! `cargo xtask capacity`: what carries a load on a measured disk.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::builder::PossibleValuesParser;
use harness::capacity::{self, Ask};
use harness::recorded::Recorded;
use harness::summary::LossModel;

use crate::{exit, say};

/// Say which strategy carries a load on a measured disk, and what that leaves room for
///
/// Rows that were measured answer first: one that took this load or more and kept what is asked
/// does so at this load too, unless a row whose messages came at a rate broke it at less. Where
/// none did, a model of the disk answers, but only if it predicts each measured row from the others
/// within 20 %, and rows lie no more than ten times apart; what lies beyond the measurements is
/// called EXTRAPOLATED, and what nothing tells is called unknown. Says too how many producers or
/// disks it takes, and what the next cheaper choice would lose.
///
/// A load so small that an interval does not fill the pages of a sync is bounded by the strategy's
/// settings alone.
///
/// Exit codes: 0 ok, 1 wrong command or directory, 4 no strategy is known to keep what is asked; on
/// real disks, where there are any.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The result directory of `cargo xtask bench`, such as results/latest
    #[arg(value_name = "DIR")]
    results: PathBuf,
    /// Messages a second, such as 800, 50k or 1.5M
    #[arg(long, value_name = "N", value_parser = rate)]
    rate: f64,
    /// Bytes of a message's body, such as 200 or 1KiB
    #[arg(long, value_name = "BYTES", value_parser = size)]
    size: u64,
    /// The age of what a crash may take, in 99 of 100 moments, such as 0, 100ms, 1s or 2min
    #[arg(long, value_name = "TIME", value_parser = time)]
    loss: f64,
    /// What 99 of 100 messages must be acknowledged within, such as 500us or 10ms
    #[arg(long, value_name = "TIME", value_parser = wait)]
    p99: Option<f64>,
    /// Which crash: that of the power, or that of the process (kill -9)
    #[arg(long, value_name = "NAME", default_value = "power")]
    #[arg(value_parser = PossibleValuesParser::new(["power", "process"]))]
    loss_model: String,
    /// Print JSON (flushmark.capacity/1.0) in place of text
    #[arg(long)]
    json: bool,
}

/// `50k`.
fn rate(text: &str) -> Result<f64, String> {
    let units = [("", 1.0), ("k", 1e3), ("M", 1e6)];
    let found = scaled(text, &units).filter(|rate| (1.0..=1e9).contains(rate));
    found.ok_or_else(|| "messages a second are expected, 1 to 1000M: 800, 50k, 1.5M".to_owned())
}

/// `1KiB`.
fn size(text: &str) -> Result<u64, String> {
    let units = [("", 1.0), ("B", 1.0), ("KiB", 1024.0), ("MiB", 1024.0 * 1024.0)];
    let found = scaled(text, &units).filter(|size| (0.0..=4_194_304.0).contains(size));
    let wrong = || "bytes are expected, 0 to 4MiB: 200, 1KiB".to_owned();
    found.map(harness::clock::round).ok_or_else(wrong)
}

/// `100ms`, in nanoseconds.
fn time(text: &str) -> Result<f64, String> {
    if text == "0" {
        return Ok(0.0);
    }
    let units = [("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9), ("min", 60e9)];
    let found = scaled(text, &units).filter(|time| (0.0..=3.6e12).contains(time));
    found.ok_or_else(|| "a time is expected, at most an hour: 0, 500us, 100ms, 1s, 2min".to_owned())
}

/// `10ms`, in nanoseconds.
fn wait(text: &str) -> Result<f64, String> {
    let none = || "nothing is acknowledged in no time: 500us, 10ms".to_owned();
    time(text).and_then(|time| if time > 0.0 { Ok(time) } else { Err(none()) })
}

/// A number with one of these units.
fn scaled(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let (_, by) = units.iter().find(|(name, _)| *name == unit.trim_start())?;
    Some(number.parse::<f64>().ok()? * by)
}

pub(crate) fn run(arguments: &Arguments) -> Result<u8> {
    let is_power = arguments.loss_model == "power";
    let ask = Ask {
        rate_per_s: arguments.rate,
        message_bytes: arguments.size,
        loss_ns: arguments.loss,
        ack_p99_ns: arguments.p99,
        model: if is_power { LossModel::Power } else { LossModel::Process },
    };
    let found = capacity::capacity(&Recorded::read(&arguments.results)?, &ask)?;
    if arguments.json {
        let json = serde_json::to_string_pretty(&found).context("write the answer as JSON")?;
        say::out(&format!("{json}\n"))?;
    } else {
        say::out(&capacity::text(&found, &ask, COLUMNS))?;
    }
    Ok(if found.is_kept() { exit::OK } else { exit::REGRESSION })
}

/// The text fits a terminal of this width.
const COLUMNS: usize = 80;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_is_a_number_and_its_unit() {
        assert_eq!((rate("800"), rate("50k"), rate("1.5M")), (Ok(800.0), Ok(50e3), Ok(1.5e6)));
        assert_eq!((size("200"), size("1KiB"), size("0")), (Ok(200), Ok(1024), Ok(0)));
        assert_eq!((time("0"), time("500us"), time("100ms")), (Ok(0.0), Ok(500e3), Ok(100e6)));
        assert_eq!((time("2min"), wait("10ms")), (Ok(120e9), Ok(10e6)));
        assert!(wait("0").is_err() && wait("0s").is_err() && wait("61min").is_err());
        for wrong in ["", "k", "-1", "0", "5K", "1e3", "2G", "1.2.3"] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
        assert!(["", "1KB", "5MiB", "-1"].into_iter().all(|wrong| size(wrong).is_err()));
        assert!(["", "100", "2h", "-1s", "4000s"].into_iter().all(|wrong| time(wrong).is_err()));
    }
}
