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
    since: Vec<(u64, T)>,
}

impl<T> Versions<T> {
    /// A thing without changes.
    pub(crate) fn new(durable: T) -> Self {
        Self { durable, since: Vec::new() }
    }

    /// What a power cut leaves for sure, if nothing since.
    pub(crate) fn durable(&self) -> &T {
        &self.durable
    }

    /// What the running system sees.
    pub(crate) fn latest(&self) -> &T {
        self.since.last().map_or(&self.durable, |(_, value)| value)
    }

    /// Whether a cut can leave only one state.
    pub(crate) fn is_settled(&self) -> bool {
        self.since.is_empty()
    }

    /// The numbers of the changes since it was durable.
    pub(crate) fn positions(&self) -> Positions<'_, T> {
        Positions(&self.since)
    }

    /// Change number `at` made it `value`.
    pub(crate) fn push(&mut self, at: u64, value: T) {
        self.since.push((at, value));
    }

    /// Changes every version alike.
    pub(crate) fn change_all(&mut self, change: impl Fn(&T) -> T) {
        self.durable = change(&self.durable);
        for (_, value) in &mut self.since {
            *value = change(value);
        }
    }

    /// A flush covers the changes up to number `upto`; whether one became durable.
    pub(crate) fn settle(&mut self, upto: u64) -> bool {
        let covered = self.since.partition_point(|(at, _)| *at <= upto);
        let Some((_, value)) = self.since.drain(..covered).next_back() else { return false };
        self.durable = value;
        true
    }

    /// How many states a cut can leave.
    pub(crate) fn count(&self) -> usize {
        self.since.len() + 1
    }

    fn last_where(&self, is_kept: impl Fn(u64) -> bool) -> &T {
        let kept = self.since.iter().rfind(|(at, _)| is_kept(*at));
        kept.map_or(&self.durable, |(_, value)| value)
    }
}

/// The numbers of a thing's changes.
#[derive(Debug)]
pub(crate) struct Positions<'a, T>(&'a [(u64, T)]);

/// What [`Choice`] asks of things of any kind.
pub(crate) trait Changes {
    /// How many changes there are; at least one.
    fn count(&self) -> usize;
    /// The number of one of them.
    fn number(&self, index: usize) -> u64;
}

impl<T> Changes for Positions<'_, T> {
    fn count(&self) -> usize {
        self.0.len()
    }

    fn number(&self, index: usize) -> u64 {
        self.0[index].0
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
    /// A choice among `things`, of which only those that changed are given; they must be picked
    /// from in the same order.
    pub(crate) fn new<C: Changes>(
        keep: Keep,
        seed: u64,
        things: impl Iterator<Item = C> + Clone,
    ) -> Self {
        let mut random = Random::new(seed);
        let rule = Self::rule(keep, &mut random, things);
        Self { random, rule, picked: 0 }
    }

    fn rule<C: Changes>(
        keep: Keep,
        random: &mut Random,
        things: impl Iterator<Item = C> + Clone,
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
        let Some(thing) = things.into_iter().nth(index) else { return Rule::Durable };
        let number = thing.number(random.index(thing.count()));
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
                    return index.map_or(&of.durable, |index| &of.since[index].1);
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
fn span<C: Changes>(things: impl Iterator<Item = C>) -> Range<u64> {
    let numbers = things.map(|thing| (thing.number(0), thing.number(thing.count() - 1)));
    let whole = numbers.reduce(|whole, one| (whole.0.min(one.0), whole.1.max(one.1)));
    whole.map_or(0..0, |(first, last)| first..last + 1)
}
