//! What of a row's figures can be relied on: the worst of its blocks, or why there is none.

use super::{Extent, Loss, Row};
use crate::results::Cell;
use crate::validity::FLUSH_REQUESTS;

/// The worst figures of a row's blocks, or why they are none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Relied {
    /// To acknowledgement, 99 of 100 messages, in nanoseconds.
    pub ack_p99_ns: Result<f64, Doubt>,
    /// Age of what a power cut takes, at 99 of 100 moments, in nanoseconds.
    pub power_ns: Result<f64, Doubt>,
    /// The same of `kill -9`.
    pub process_ns: Result<f64, Doubt>,
}

/// Why a figure cannot be relied on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Doubt {
    /// What is at risk still grew when the measured time was over: a lower bound was seen.
    AtLeast,
    /// All is lost, whatever was measured.
    Everything,
    /// More than one in a hundred messages passed its deadline: no percentile says when they come.
    Late,
    /// None was recorded.
    Missing,
    /// Syncs returned for which the device was asked to flush nothing.
    NotFlushed,
    /// More was due than the row could take: its times grow with the time measured.
    Overload,
}

impl Doubt {
    /// In words, behind what is doubtful.
    pub fn words(self) -> &'static str {
        match self {
            Self::AtLeast => "only a lower bound was seen",
            Self::Everything => "all is lost, the file system lives in memory",
            Self::Late => "more than one in a hundred messages passed its deadline",
            Self::Missing => "no acknowledgement was recorded",
            Self::NotFlushed => "syncs did not make the device flush its volatile cache",
            Self::Overload => "it was overloaded",
        }
    }
}

impl Row {
    /// What can be relied on, over the whole range of the blocks that count; `None` without any.
    pub fn relied(&self) -> Option<Relied> {
        let figures = self.figures?;
        let doubt = |of: &[Doubt]| of.iter().find(|doubt| self.doubts.contains(doubt)).copied();
        let ack_p99_ns = match doubt(&[Doubt::Overload, Doubt::Late]) {
            Some(doubt) => Err(doubt),
            None => figures.ack_p99.map(|p99| p99.ns.max).ok_or(Doubt::Missing),
        };
        let power_ns = match doubt(&[Doubt::NotFlushed]) {
            Some(doubt) => Err(doubt),
            None => whole(&figures.power),
        };
        Some(Relied { ack_p99_ns, power_ns, process_ns: whole(&figures.process) })
    }

    /// Whether in some block that counts more was due than it could take.
    pub fn is_overloaded(&self) -> bool {
        self.doubts.contains(&Doubt::Overload)
    }
}

/// What these cells say of themselves, each once.
pub(super) fn doubts(cells: &[&Cell]) -> Vec<Doubt> {
    let any = |is_so: fn(&Cell) -> bool| cells.iter().any(|cell| is_so(cell));
    let found = [
        (Doubt::Overload, any(Cell::is_overloaded)),
        (Doubt::Late, any(Cell::is_too_often_late)),
        (Doubt::NotFlushed, any(|cell| cell.did_not_pass(FLUSH_REQUESTS))),
    ];
    found.into_iter().filter_map(|(doubt, is_so)| is_so.then_some(doubt)).collect()
}

fn whole(loss: &Loss) -> Result<f64, Doubt> {
    match loss.extent {
        Extent::AtLeast => Err(Doubt::AtLeast),
        Extent::Everything => Err(Doubt::Everything),
        Extent::Measured => Ok(loss.age_ns.max),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Kind, Level, Quantiles, Status};
    use crate::results_fixture::{cell, check};
    use crate::summary::rows;

    /// Of seven blocks, the fourth as `edit` leaves it.
    fn relied(edit: impl Fn(&mut Cell)) -> Relied {
        let block = |block| {
            cell(Kind::CommitRealtime, 8, block, |c| {
                c.append_to_ack_ns.p99 = 1000;
                c.exposure.power.age_ns.p99 = 2000;
                c.exposure.process.age_ns.p99 = 300;
                if block == 3 {
                    edit(c);
                }
            })
        };
        rows(&(0..7).map(block).collect::<Vec<_>>())[0].relied().unwrap()
    }

    #[test]
    fn one_bad_block_counts_whatever_the_interval_says() {
        let bad = relied(|c| {
            c.append_to_ack_ns.p99 = 50_000;
            c.exposure.power.age_ns.p99 = 60_000;
            c.exposure.process.age_ns.p99 = 70_000;
        });
        assert_eq!((bad.ack_p99_ns, bad.power_ns), (Ok(50_000.0), Ok(60_000.0)));
        assert_eq!(bad.process_ns, Ok(70_000.0));
    }

    #[test]
    fn what_is_doubtful_says_why() {
        let doubt = |edit: fn(&mut Cell)| {
            let found = relied(edit);
            [found.ack_p99_ns, found.power_ns, found.process_ns].map(Result::err)
        };
        let warned = |code| check(code, Level::Warn, "1", "two were seen");
        assert_eq!(doubt(|_| {}), [None, None, None]);
        assert_eq!(doubt(|c| c.status = Status::Overload), [Some(Doubt::Overload), None, None]);
        assert_eq!(doubt(|c| c.counts.timeouts = 10_000), [Some(Doubt::Late), None, None]);
        let found = relied(|c| c.validity.push(warned("syncs_seen")));
        assert_eq!((found.power_ns, found.process_ns), (Err(Doubt::AtLeast), Ok(300.0)));
        let found = relied(|c| c.validity.push(warned("commits_seen")));
        assert_eq!((found.power_ns, found.process_ns), (Ok(2000.0), Err(Doubt::AtLeast)));
        let found = relied(|c| c.validity.push(warned("in_memory")));
        assert_eq!(found.power_ns, Err(Doubt::Everything));
        let found = relied(|c| c.validity.push(warned(FLUSH_REQUESTS)));
        assert_eq!((found.power_ns, found.process_ns), (Err(Doubt::NotFlushed), Ok(300.0)));
        // What an invalid block says of itself is no doubt about the others.
        let other = doubt(|c| {
            c.status = Status::Invalid;
            c.counts.timeouts = 10_000;
            c.validity.push(check(FLUSH_REQUESTS, Level::Warn, "1", "two"));
        });
        assert_eq!(other, [None, None, None]);
        let silent = cell(Kind::GroupCommit, 8, 0, |c| c.append_to_ack_ns = Quantiles::default());
        let found = rows(&[silent])[0].relied().unwrap();
        assert_eq!(found.ack_p99_ns, Err(Doubt::Missing));
        let invalid = cell(Kind::GroupCommit, 8, 0, |c| c.status = Status::Invalid);
        assert_eq!(rows(&[invalid])[0].relied(), None);
    }
}
