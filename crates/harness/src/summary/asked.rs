//! Which rows keep what the profile asks of the figures (`slo`).

use std::time::Duration;

use super::{Row, real};
use crate::clock::{float, nanos};
use crate::format;
use crate::profile::Slo;
use crate::results::{Kind, Status};

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
    if asked.is_empty() {
        return None;
    }
    let judged: Vec<(&Row, Vec<&str>)> = real(rows)
        .filter(|row| row.kind != Kind::Raw)
        .filter_map(|row| Some((row, Kept::of(row, slo).broken()?)))
        .collect();
    let answer = if judged.len() > MOST_NAMED { counted(&judged) } else { named(&judged) };
    let doubtful = judged.iter().filter(|(row, _)| row.status != Status::Valid).count();
    let validity = match doubtful {
        0 => "valid".to_owned(),
        some => format!("valid but for {some} of {}", format::plural(judged.len(), "row")),
    };
    let asked = asked.join(", and ");
    Some(format!("Asked is {asked}, with the whole range: {answer}. [{validity}]"))
}

/// Each row, and what it does not keep.
fn named(judged: &[(&Row, Vec<&str>)]) -> String {
    let listed = |names: Vec<String>| {
        if names.is_empty() { "none".to_owned() } else { names.join("; ") }
    };
    let (keep, break_it): (Vec<_>, Vec<_>) =
        judged.iter().partition(|(_, broken)| broken.is_empty());
    let keep = keep.iter().map(|(row, _)| row.label()).collect();
    let name =
        |(row, broken): &&(&Row, Vec<&str>)| format!("{}: {}", row.label(), broken.join(", "));
    let break_it = break_it.iter().map(name).collect();
    format!("kept by {}; not by {}", listed(keep), listed(break_it))
}

/// How many rows of each strategy do, in the order of rows: more names in a sentence are not read.
fn counted(judged: &[(&Row, Vec<&str>)]) -> String {
    let mut strategies: Vec<&str> = judged.iter().map(|(row, _)| row.strategy.as_str()).collect();
    strategies.dedup();
    let part = |name: &&str| {
        let own = judged.iter().filter(|(row, _)| row.strategy == **name);
        let (all, kept) = own.fold((0, 0), |(all, kept), (_, broken)| {
            (all + 1, kept + u32::from(broken.is_empty()))
        });
        match kept {
            0 => format!("by none of {all} rows of {name}"),
            kept if kept == all => format!("by all {all} rows of {name}"),
            kept => format!("by {kept} of {all} of {name}"),
        }
    };
    let parts: Vec<String> = strategies.iter().map(part).collect();
    format!("kept {}; the table of strategies and loads says which", parts.join(", "))
}

fn ns(time: Duration) -> f64 {
    float(nanos(time).get())
}

/// Rows that a sentence names one by one.
const MOST_NAMED: usize = 6;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Cell, Level};
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
                      power-cut loss. [valid]";
        assert_eq!(told, expect);
        assert_eq!(sentence(&rows(&cells), Slo::default()), None);
        let nothing = Slo { ack_p99: None, ..asked(1, 0) };
        let told = sentence(&rows(&cells), nothing).unwrap();
        assert!(told.starts_with("Asked is nothing lost on a power cut (p99 of time), "), "{told}");
    }

    #[test]
    fn rows_that_are_not_plainly_valid_are_counted() {
        let warned = |count| cell(Kind::GroupCommit, count, 0, |c| c.status = Status::Warn);
        let cells = [cell(Kind::GroupCommit, 1, 0, |_| {}), warned(8), warned(64)];
        let told = sentence(&rows(&cells), asked(10_000, 1000)).unwrap();
        assert!(told.ends_with(". [valid but for 2 of 3 rows]"), "{told}");
    }

    #[test]
    fn many_rows_are_counted_by_strategy() {
        let producers = |kind| move |count| cell(kind, count, 0, |_| {});
        let mut cells: Vec<Cell> = (1..=5).map(producers(Kind::GroupCommit)).collect();
        cells.extend((1..=2).map(producers(Kind::None)));
        cells.push(cell(Kind::GroupCommit, 64, 0, |c| c.append_to_ack_ns.p99 = 11_000_000));
        let told = sentence(&rows(&cells), asked(10_000, 1000)).unwrap();
        let expect = "kept by none of 2 rows of none, by 5 of 6 of sync; the table of strategies \
                      and loads says which. [valid]";
        assert!(told.ends_with(expect), "{told}");
    }
}
