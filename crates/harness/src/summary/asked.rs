//! Which rows keep what the profile asks of the figures (`slo`).

use std::time::Duration;

use super::{Row, real};
use crate::clock::{float, nanos};
use crate::format;
use crate::profile::Slo;
use crate::results::Kind;

/// Whether a row keeps what is asked, with its whole range; `None` where nothing is asked, or the
/// row has no figures.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Kept {
    /// The time within which 99 of 100 messages must be acknowledged; not where the load was more
    /// than the row could take, for then its times grow with the time measured.
    pub ack_p99: Option<bool>,
    /// The age of what a power cut may take, at 99 of 100 moments; not where only a lower bound was
    /// seen, or everything is lost.
    pub power_loss_rpo: Option<bool>,
}

impl Kept {
    /// Of this row.
    pub fn of(row: &Row, slo: Slo) -> Self {
        let relied = row.relied();
        let ack_p99 = slo
            .ack_p99
            .zip(relied)
            .map(|(asked, relied)| relied.ack_p99_ns.is_ok_and(|p99| p99 <= ns(asked)));
        let power_loss_rpo = slo
            .power_loss_rpo
            .zip(relied)
            .map(|(asked, relied)| relied.power_ns.is_ok_and(|age| age <= ns(asked)));
        Self { ack_p99, power_loss_rpo }
    }

    /// What is asked and not kept, in words; none if all is, `None` if nothing is asked.
    pub fn broken(self) -> Option<Vec<&'static str>> {
        let both = [(self.ack_p99, "ack p99"), (self.power_loss_rpo, "power-cut loss")];
        let asked = both.iter().any(|(kept, _)| kept.is_some());
        let broken = both.iter().filter(|(kept, _)| *kept == Some(false));
        asked.then(|| broken.map(|(_, what)| *what).collect())
    }
}

/// What is asked, which rows keep it, and which do not and why: of real hardware where there is
/// any, without the raw loop, which is no log. `None` if nothing is asked.
pub fn sentence(rows: &[Row], slo: Slo) -> Option<String> {
    let ack = slo.ack_p99.map(|asked| format!("ack p99 within {}", format::duration(ns(asked))));
    let power = slo.power_loss_rpo.map(|asked| match ns(asked) {
        none if none <= 0.0 => "nothing lost on a power cut (p99 of time)".to_owned(),
        asked => format!("at most {} lost on a power cut (p99 of time)", format::duration(asked)),
    });
    let asked: Vec<String> = [ack, power].into_iter().flatten().collect();
    let (mut keep, mut break_it) = (Vec::new(), Vec::new());
    for row in real(rows).filter(|row| row.kind != Kind::Raw) {
        match Kept::of(row, slo).broken() {
            Some(broken) if broken.is_empty() => keep.push(row.label()),
            Some(broken) => break_it.push(format!("{}: {}", row.label(), broken.join(", "))),
            None => {}
        }
    }
    (!asked.is_empty()).then(|| {
        format!(
            "Asked is {}, with the whole range: kept by {}; not by {}.",
            asked.join(", and "),
            listed(&keep),
            listed(&break_it)
        )
    })
}

fn listed(names: &[String]) -> String {
    let first = names.get(..MOST_NAMED).unwrap_or(names).join("; ");
    match names.len().saturating_sub(MOST_NAMED) {
        _ if names.is_empty() => "none".to_owned(),
        0 => first,
        more => format!("{first}; and {more} more, see summary.json"),
    }
}

fn ns(time: Duration) -> f64 {
    float(nanos(time).get())
}

/// More names in a sentence are not read.
const MOST_NAMED: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Cell, Level, Status};
    use crate::results_fixture::{cell, check, example};
    use crate::summary::rows;
    use crate::validity::OVERLOAD;

    fn asked(ack_p99_us: u64, power_loss_rpo_ms: u64) -> Slo {
        Slo {
            ack_p99: Some(Duration::from_micros(ack_p99_us)),
            power_loss_rpo: Some(Duration::from_millis(power_loss_rpo_ms)),
        }
    }

    /// Whether one cell keeps 1 ms and 500 ms.
    fn kept(kind: Kind, edit: impl FnOnce(&mut Cell)) -> (Option<bool>, Option<bool>) {
        let kept = Kept::of(&rows(&[cell(kind, 1, 0, edit)])[0], asked(1000, 500));
        (kept.ack_p99, kept.power_loss_rpo)
    }

    #[test]
    fn a_row_keeps_what_its_whole_range_does() {
        let times = |last: u64| {
            let block = |(block, p99)| {
                cell(Kind::FlushRealtime, 1, block, |c| {
                    c.append_to_ack_ns.p99 = p99;
                    c.exposure.power.age_ns.p99 = 500 * p99;
                })
            };
            let cells: Vec<Cell> = (0..).zip([900_000, 950_000, last]).map(block).collect();
            Kept::of(&rows(&cells)[0], asked(1000, 500))
        };
        let both = |kept| Kept { ack_p99: Some(kept), power_loss_rpo: Some(kept) };
        assert_eq!(times(1_000_000), both(true));
        assert_eq!(times(1_000_001), both(false));
        // With six blocks or more there is an interval too, which one bad block hardly moves.
        let one_bad = (0..7).map(|block| {
            cell(Kind::GroupCommit, 1, block, |c| {
                c.append_to_ack_ns.p99 = if block == 3 { 50_000_000 } else { 1_000_000 };
            })
        });
        let cells: Vec<Cell> = one_bad.collect();
        assert_eq!(Kept::of(&rows(&cells)[0], asked(10_000, 500)).ack_p99, Some(false));
    }

    #[test]
    fn what_passes_its_deadline_too_often_is_not_kept_whatever_its_percentiles() {
        let late = |timeouts| {
            kept(Kind::GroupCommit, |c| (c.counts.acked, c.counts.timeouts) = (990, timeouts))
        };
        assert_eq!(late(10), (Some(true), Some(true)));
        assert_eq!(late(11), (Some(false), Some(true)));
    }

    #[test]
    fn what_was_not_seen_whole_is_not_kept() {
        assert_eq!(kept(Kind::GroupCommit, |_| {}), (Some(true), Some(true)));
        let mark = |code: &'static str| {
            move |c: &mut Cell| c.validity.push(check(code, Level::Warn, "", "rule"))
        };
        assert_eq!(kept(Kind::GroupCommit, mark(OVERLOAD)), (Some(false), Some(true)));
        assert_eq!(kept(Kind::GroupCommit, mark("syncs_seen")), (Some(true), Some(false)));
        assert_eq!(kept(Kind::GroupCommit, mark("in_memory")), (Some(true), Some(false)));
        let at_once = |c: &mut Cell| c.exposure.power.age_ns.p99 = 1;
        assert_eq!(kept(Kind::None, at_once), (Some(true), Some(false)), "it only grows");
        assert_eq!(kept(Kind::GroupCommit, |c| c.status = Status::Invalid), (None, None));
        assert_eq!(Kept::of(&rows(&example())[0], Slo::default()).broken(), None);
    }

    #[test]
    fn each_row_of_real_hardware_has_a_clause() {
        let mut cells = Vec::new();
        for (kind, emulated) in [
            (Kind::Raw, false),
            (Kind::GroupCommit, false),
            (Kind::None, false),
            (Kind::None, true),
        ] {
            cells.push(cell(kind, 1, 0, |c| {
                c.emulated = emulated;
                c.disk = if emulated { "hdd" } else { "host" }.to_owned();
            }));
        }
        let told = sentence(&rows(&cells), asked(10_000, 1000)).unwrap();
        let expect = "Asked is ack p99 within 10 ms, and at most 1.0 s lost on a power cut (p99 of \
                      time), with the whole range: kept by sync ×1 (host); not by none ×1 (host): \
                      power-cut loss.";
        assert_eq!(told, expect);
        assert_eq!(sentence(&rows(&cells), Slo::default()), None);
        let nothing = Slo { ack_p99: None, ..asked(1, 0) };
        let told = sentence(&rows(&cells), nothing).unwrap();
        assert!(told.starts_with("Asked is nothing lost on a power cut (p99 of time), "), "{told}");
    }

    #[test]
    fn a_long_list_is_cut_and_says_so() {
        let producers = |count| cell(Kind::GroupCommit, count, 0, |_| {});
        let cells: Vec<Cell> = (1..=15).map(producers).collect();
        let told = sentence(&rows(&cells), asked(10_000, 1000)).unwrap();
        assert!(told.contains("; sync ×12; and 3 more, see summary.json; not by none."), "{told}");
    }
}
