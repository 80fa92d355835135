//! What no ratio of figures says: rows that B no longer keeps up with, and rows of which B has too
//! few figures though A has enough.
//!
//! The worst regressions leave nothing to compare: of an overloaded block there is no latency, an
//! invalid one does not count, and a row that is gone has no block at all.

use std::collections::BTreeSet;

use serde::Serialize;

use super::{Groups, Key, Shared, differ, is_control};
use crate::comparison::Measure;
use crate::results::{Cell, Status};
use crate::statistics::FIRM_BLOCKS;

/// Something that is said of a row.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Finding {
    /// The row's label.
    pub row: String,
    /// What is said.
    pub said: String,
}

impl Finding {
    fn of(key: &Key, said: String) -> Self {
        Self { row: key.label(), said }
    }
}

/// The rows that are overloaded in most blocks of B that count, and in none of A.
pub(super) fn overloaded(shared: &[Shared<'_>]) -> Vec<Finding> {
    strategies(shared).filter(|row| is_overloaded(row)).map(overload).collect()
}

/// The rows in which a regression may hide, with what is missing to tell.
pub(super) fn hidden(shared: &[Shared<'_>], of_a: &Groups<'_>) -> Vec<Finding> {
    let both: BTreeSet<&Key> = shared.iter().map(|row| row.key).collect();
    let gone = of_a.iter().filter(|(key, cells)| !both.contains(key) && !is_control(key, cells));
    let gone = gone.map(|(key, _)| Finding::of(key, "B does not have it".to_owned()));
    let rows = strategies(shared).filter(|row| !is_overloaded(row));
    let untold = rows.filter_map(|row| Some(Finding::of(row.key, missing(row)?)));
    let mut found: Vec<Finding> = untold.chain(gone).collect();
    found.sort_by(|x, y| x.row.cmp(&y.row));
    found
}

fn strategies<'s, 'a>(shared: &'s [Shared<'a>]) -> impl Iterator<Item = &'s Shared<'a>> {
    shared.iter().filter(|row| !row.control())
}

/// How many of these are in this state, and how many there are.
fn share(cells: &[&Cell], of: Status) -> (usize, usize) {
    (cells.iter().filter(|cell| cell.status == of).count(), cells.len())
}

fn is_overloaded(row: &Shared<'_>) -> bool {
    let (over_a, all_a) = share(row.a, Status::Overload);
    let (over_b, all_b) = share(row.b, Status::Overload);
    let invalid = |cells| share(cells, Status::Invalid).0;
    let counts = |all: usize, cells| all - invalid(cells);
    differ::load(row.a, row.b).is_none()
        && over_a == 0
        && counts(all_a, row.a) > 0
        && 2 * over_b > counts(all_b, row.b)
}

fn overload(row: &Shared<'_>) -> Finding {
    let ((_, all_a), (over_b, all_b)) =
        (share(row.a, Status::Overload), share(row.b, Status::Overload));
    let said = format!("overloaded in {over_b} of {all_b} blocks of B, in 0 of {all_a} of A");
    Finding::of(row.key, said)
}

/// What B lacks to be told from A; `None` if it lacks nothing that A has.
fn missing(row: &Shared<'_>) -> Option<String> {
    if let Some(load) = differ::load(row.a, row.b) {
        return Some(format!("not the same load: {load}"));
    }
    for (state, word) in [(Status::Invalid, "invalid"), (Status::Overload, "overloaded")] {
        let ((some_a, all_a), (some_b, all_b)) = (share(row.a, state), share(row.b, state));
        // A larger part of B than of A.
        if some_b * all_a > some_a * all_b {
            let said =
                format!("{word} in {some_b} of {all_b} blocks of B, in {some_a} of {all_a} of A");
            return Some(said);
        }
    }
    [Measure::AckedPerS, Measure::AckNsP99].into_iter().find_map(|measure| {
        let [a, b] = [row.a, row.b].map(|cells| super::values(cells, measure).len());
        let is_lost = a >= FIRM_BLOCKS && b < FIRM_BLOCKS;
        is_lost.then(|| format!("{}: {a} blocks of A count, {b} of B", measure.words()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::tests::run;
    use crate::compare::{Compare, compare};
    use crate::recorded::Recorded;
    use crate::results::Kind;
    use crate::run::CANARY;

    const SYNC: &str = "sync ×8 (closed-1k, data, kernel-default)";

    /// Seven blocks of both; of B, `edit` changes the cells of `sync`, while `timed` stays as it
    /// is and can be told.
    fn edited(edit: impl Fn(&mut Cell)) -> Compare {
        let (a, mut b) = (run("a", 7, 1.0), run("b", 7, 1.0));
        b.cells.iter_mut().filter(|cell| cell.kind == Kind::GroupCommit).for_each(edit);
        compare(&a, &b).unwrap()
    }

    /// What is said of the only row that anything is said of.
    #[track_caller]
    fn said(findings: &[Finding]) -> &str {
        let [only] = findings else { panic!("{findings:?}") };
        assert_eq!(only.row, SYNC);
        &only.said
    }

    #[test]
    fn a_row_that_falls_into_overload_is_told_whatever_its_rate() {
        let found = edited(|cell| cell.status = Status::Overload);
        assert!(found.regressions(10.0).is_empty(), "its rate is the same, and it has no latency");
        assert_eq!(said(&found.overloaded), "overloaded in 7 of 7 blocks of B, in 0 of 7 of A");
        assert!(found.hidden.is_empty() && found.tells_anything());
        // An invalid block says nothing of what it can keep up with.
        let found = edited(|cell| {
            cell.status = if cell.block < 3 { Status::Invalid } else { Status::Overload };
        });
        assert_eq!(said(&found.overloaded), "overloaded in 4 of 7 blocks of B, in 0 of 7 of A");
    }

    #[test]
    fn some_blocks_in_overload_leave_open_what_the_row_does() {
        for few in 1..=3 {
            let found = edited(|cell| {
                if cell.block < few {
                    cell.status = Status::Overload;
                }
            });
            assert!(found.overloaded.is_empty());
            let expect = format!("overloaded in {few} of 7 blocks of B, in 0 of 7 of A");
            assert_eq!(said(&found.hidden), expect);
        }
    }

    #[test]
    fn what_both_are_overloaded_with_is_compared_by_its_rate_alone() {
        let overloaded = |name, factor| {
            let mut run = run(name, 7, factor);
            run.cells.iter_mut().for_each(|cell| cell.status = Status::Overload);
            run
        };
        let found = compare(&overloaded("a", 1.0), &overloaded("b", 0.5)).unwrap();
        assert!(found.overloaded.is_empty() && found.hidden.is_empty(), "{found:?}");
        assert_eq!(found.regressions(10.0).len(), 2);
    }

    #[test]
    fn blocks_that_are_invalid_or_missing_in_b_alone_hide_a_regression() {
        let found = edited(|cell| cell.status = Status::Invalid);
        assert_eq!(said(&found.hidden), "invalid in 7 of 7 blocks of B, in 0 of 7 of A");
        assert!(found.overloaded.is_empty() && found.tells_anything());
        let found = edited(|cell| cell.acked_per_s = 0.0);
        assert_eq!(said(&found.hidden), "msg/s: 7 blocks of A count, 0 of B");
        let found = edited(|cell| cell.append_to_ack_ns.p99 = 0);
        assert_eq!(said(&found.hidden), "ack p99: 7 blocks of A count, 0 of B");
        let found = edited(|cell| cell.message_bytes = 128);
        assert_eq!(said(&found.hidden), "not the same load: message bytes 1024 and 128");
        // What A has not either is no loss, nor is what B has more of.
        let without = |name: &str, blocks| {
            let mut run = run(name, blocks, 1.0);
            let of_sync = run.cells.iter_mut().filter(|cell| cell.kind == Kind::GroupCommit);
            of_sync.for_each(|cell| cell.status = Status::Invalid);
            run
        };
        let (a, b) = (without("a", 7), without("b", 7));
        assert!(compare(&a, &b).unwrap().hidden.is_empty());
        assert!(compare(&a, &run("b", 7, 1.0)).unwrap().hidden.is_empty());
        assert!(edited(|_| ()).hidden.is_empty());
    }

    #[test]
    fn a_row_that_b_does_not_have_hides_a_regression_unless_it_is_a_control() {
        let without = |name: &str, kind: Kind| -> Recorded {
            let mut run = run(name, 7, 1.0);
            run.cells.retain(|cell| cell.kind != kind);
            run
        };
        let mut a = run("a", 7, 1.0);
        let found = compare(&a, &without("b", Kind::GroupCommit)).unwrap();
        assert_eq!(said(&found.hidden), "B does not have it");
        assert!(compare(&a, &without("b", Kind::Raw)).unwrap().hidden.is_empty());
        assert!(compare(&without("b", Kind::GroupCommit), &a).unwrap().hidden.is_empty());
        for mut canary in run("a", 7, 1.0).cells {
            canary.strategy = CANARY.to_owned();
            a.cells.push(canary);
        }
        assert!(compare(&a, &run("b", 7, 1.0)).unwrap().hidden.is_empty());
    }
}
