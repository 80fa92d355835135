//! A thing that changed, with all its states since it was last durable.

use std::ops::Range;

use crate::random::Random;

/// Which of what was not durable a power cut leaves.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Keep {
    /// All of it but one unit, or one write.
    AllButOne,
    /// All of it.
    All,
    /// Nothing of it.
    None,
    /// One unit of it, or one write.
    OnlyOne,
    /// What came up to some moment.
    Prefix,
    /// Any version of each unit.
    Random,
}

impl Keep {
    /// Every way.
    pub const ALL: [Self; 6] =
        [Self::AllButOne, Self::All, Self::None, Self::OnlyOne, Self::Prefix, Self::Random];
}

/// The durable state of a thing and those since, the newest last.
///
/// Changes are numbered; the numbers of one device go up.
#[derive(Clone, Debug)]
pub(crate) struct Versions<T> {
    durable: T,
    /// The numbers of the changes, and what each of them made of it.
    numbers: Vec<u64>,
    since: Vec<T>,
    /// What came at or before this number is no longer on its way to the device: writing it back
    /// failed.
    lost: u64,
}

impl<T> Versions<T> {
    /// A thing without changes.
    pub(crate) fn new(durable: T) -> Self {
        Self { durable, numbers: Vec::new(), since: Vec::new(), lost: 0 }
    }

    /// What a power cut leaves for sure, if nothing since.
    pub(crate) fn durable(&self) -> &T {
        &self.durable
    }

    /// What the running system sees.
    pub(crate) fn latest(&self) -> &T {
        self.since.last().unwrap_or(&self.durable)
    }

    /// Whether a cut can leave only one state.
    pub(crate) fn is_settled(&self) -> bool {
        self.since.is_empty()
    }

    /// The numbers of the changes since it was durable.
    pub(crate) fn numbers(&self) -> &[u64] {
        &self.numbers
    }

    /// Change number `at` made it `value`.
    pub(crate) fn push(&mut self, at: u64, value: T) {
        self.numbers.push(at);
        self.since.push(value);
    }

    /// Changes every version alike.
    pub(crate) fn change_all(&mut self, change: impl Fn(&T) -> T) {
        self.durable = change(&self.durable);
        for value in &mut self.since {
            *value = change(value);
        }
    }

    /// A flush covers the changes up to number `upto`; whether one became durable.
    pub(crate) fn settle(&mut self, upto: u64) -> bool {
        let covered = self.numbers.partition_point(|at| *at <= upto);
        // Of what is lost the flush knows nothing.
        if covered == 0 || self.numbers[covered - 1] <= self.lost {
            return false;
        }
        self.numbers.drain(..covered);
        if let Some(value) = self.since.drain(..covered).next_back() {
            self.durable = value;
        }
        true
    }

    /// Writing back the changes up to number `upto` failed: the device may have any of them, and no
    /// later flush covers them.
    pub(crate) fn lose(&mut self, upto: u64) {
        self.lost = self.lost.max(upto);
    }

    /// Whether its newest change was lost and is on no way to the device.
    pub(crate) fn is_lost(&self) -> bool {
        self.numbers.last().is_some_and(|at| *at <= self.lost)
    }

    /// It is what the device holds: the version with this index, the durable one first.
    pub(crate) fn decide(&mut self, index: usize) {
        self.numbers.clear();
        let since = self.since.drain(..);
        if let Some(value) = index.checked_sub(1).and_then(|last| since.into_iter().nth(last)) {
            self.durable = value;
        }
    }

    /// How many states a cut can leave.
    pub(crate) fn count(&self) -> usize {
        self.since.len() + 1
    }

    fn last_where(&self, is_kept: impl Fn(u64) -> bool) -> &T {
        let kept = self.numbers.iter().rposition(|at| is_kept(*at));
        kept.map_or(&self.durable, |index| &self.since[index])
    }
}

/// The choice that one power cut makes among the versions of many things.
#[derive(Debug)]
pub(crate) struct Choice {
    random: Random,
    rule: Rule,
    /// How many things were picked from.
    picked: usize,
}

#[derive(Debug)]
enum Rule {
    Durable,
    Latest,
    /// The newest so many times in a thousand, else any.
    Any(u64),
    Upto(u64),
    AllButChange(u64),
    AllButThing(usize),
    OnlyChange(u64),
    OnlyThing(usize),
}

impl Choice {
    /// A choice among things of which these are the changes' numbers. Only those that changed
    /// count; they must be picked from in the same order.
    pub(crate) fn new<'a>(
        keep: Keep,
        seed: u64,
        things: impl Iterator<Item = &'a [u64]> + Clone,
    ) -> Self {
        let mut random = Random::new(seed);
        let rule = Self::rule(keep, &mut random, things);
        Self { random, rule, picked: 0 }
    }

    fn rule<'a>(
        keep: Keep,
        random: &mut Random,
        mut things: impl Iterator<Item = &'a [u64]> + Clone,
    ) -> Rule {
        match keep {
            Keep::All => return Rule::Latest,
            Keep::None => return Rule::Durable,
            Keep::Random => return Rule::Any(*random.pick(&[0, 300, 700, 950])),
            Keep::Prefix => {
                let Range { start, end } = span(things);
                return Rule::Upto(start.saturating_sub(1) + random.below(end + 1 - start));
            }
            Keep::AllButOne | Keep::OnlyOne => {}
        }
        let index = random.index(things.clone().count());
        let by_thing = random.chance(500);
        let Some(numbers) = things.nth(index) else { return Rule::Durable };
        let number = *random.pick(numbers);
        match (keep, by_thing) {
            (Keep::AllButOne, true) => Rule::AllButThing(index),
            (Keep::AllButOne, false) => Rule::AllButChange(number),
            (_, true) => Rule::OnlyThing(index),
            (_, false) => Rule::OnlyChange(number),
        }
    }

    /// What is left of the next thing.
    pub(crate) fn pick<'a, T>(&mut self, of: &'a Versions<T>) -> &'a T {
        let index = self.picked;
        self.picked += 1;
        let is_latest = match self.rule {
            Rule::Durable => false,
            Rule::Latest => true,
            Rule::Any(newest) => {
                if !self.random.chance(newest) {
                    let index = self.random.index(of.count()).checked_sub(1);
                    return index.map_or(&of.durable, |index| &of.since[index]);
                }
                true
            }
            Rule::AllButThing(thing) => thing != index,
            Rule::OnlyThing(thing) => thing == index,
            Rule::Upto(number) => return of.last_where(|at| at <= number),
            Rule::AllButChange(number) => return of.last_where(|at| at != number),
            Rule::OnlyChange(number) => return of.last_where(|at| at == number),
        };
        if is_latest { of.latest() } else { &of.durable }
    }
}

/// From the lowest change's number to behind the highest's; empty at zero without changes.
fn span<'a>(things: impl Iterator<Item = &'a [u64]>) -> Range<u64> {
    let spans = things.filter_map(|numbers| Some((*numbers.first()?, *numbers.last()?)));
    let whole = spans.reduce(|whole, one| (whole.0.min(one.0), whole.1.max(one.1)));
    whole.map_or(0..0, |(first, last)| first..last + 1)
}
