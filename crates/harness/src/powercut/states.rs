//! What every place does alike with the states of a cut.

use crashlab::check::Violation;
use crashlab::device::Keep as Survives;
use crashlab::witness::Seen;
use store_core::LogOffset;

use super::results::Keep;

/// The states that are looked at after a cut: the worst, and one that `seed` decides on.
pub(super) fn of_a_cut(seed: u64) -> [(Keep, Survives); 2] {
    let some = SOME[usize::try_from(seed % SOME_COUNT).unwrap_or(0)];
    [(Keep::Nothing, Survives::None), (Keep::Some, some)]
}

/// The messages acknowledged that end behind the log's own mark.
pub(super) fn at_risk(seen: &Seen, flushed: LogOffset) -> u64 {
    let risked = seen.acked().filter(|(_, appended, _)| flushed < appended.end());
    store_core::length_u64(risked.count())
}

/// The first violations in words, and how many there are if that is not all.
pub(super) fn shortened(violations: &[Violation]) -> Vec<String> {
    let mut words: Vec<String> = violations.iter().take(NAMED).map(ToString::to_string).collect();
    if violations.len() > NAMED {
        words.push(format!("and {} more of this cut", violations.len() - NAMED));
    }
    words
}

/// What survives of the cache where not nothing does.
const SOME: [Survives; 6] = [
    Survives::Random,
    Survives::Prefix,
    Survives::Random,
    Survives::AllButOne,
    Survives::OnlyOne,
    Survives::All,
];
const SOME_COUNT: u64 = 6;
/// Violations of one cut that are kept in words.
const NAMED: usize = 5;
