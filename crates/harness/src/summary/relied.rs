//! What of a row's figures can be relied on: the worst of its blocks, or why there is none.

use super::{Extent, Loss, Row};
use crate::results::Status;
use crate::validity::OVERLOAD;

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
            Self::Overload => "it was overloaded",
        }
    }
}

impl Row {
    /// What can be relied on, over the whole range of the blocks that count; `None` without any.
    pub fn relied(&self) -> Option<Relied> {
        let figures = self.figures?;
        let ack_p99_ns = if self.is_overloaded() {
            Err(Doubt::Overload)
        } else if self.is_too_often_late {
            Err(Doubt::Late)
        } else {
            figures.ack_p99.map(|p99| p99.ns.max).ok_or(Doubt::Missing)
        };
        Some(Relied {
            ack_p99_ns,
            power_ns: whole(&figures.power),
            process_ns: whole(&figures.process),
        })
    }

    /// Whether in some block more was due than it could take.
    pub fn is_overloaded(&self) -> bool {
        self.status == Status::Overload || self.notes.iter().any(|note| note.code == OVERLOAD)
    }
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
    use crate::results::{Cell, Kind, Level, Quantiles};
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
        let silent = cell(Kind::GroupCommit, 8, 0, |c| c.append_to_ack_ns = Quantiles::default());
        let found = rows(&[silent])[0].relied().unwrap();
        assert_eq!(found.ack_p99_ns, Err(Doubt::Missing));
        let invalid = cell(Kind::GroupCommit, 8, 0, |c| c.status = Status::Invalid);
        assert_eq!(rows(&[invalid])[0].relied(), None);
    }
}
