//! What a simulated run must not show.

use std::fmt;

use store_core::Nanos;
use store_os::{AckError, AppendError, CloseError, OpenError, Poison};

use crate::check::Violation;
use crate::sim::plan::Plan;

/// Something wrong, and where in the run.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The life, counted from 0.
    pub life: usize,
    /// How many entries of the life's journal had come about before the crash; `None` if it showed
    /// without one.
    pub position: Option<usize>,
    /// What.
    pub wrong: Wrong,
}

/// What can be wrong.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Wrong {
    /// A producer was told something that was not the case.
    Answer(AckError),
    /// An append was refused without a cause.
    Append(AppendError),
    /// The reopened log does not hold what was promised.
    Check(Violation),
    /// A life does not come to its end.
    Hangs,
    /// An acknowledgement that needs no sync was held back.
    LateAnswer,
    /// A deadline passed, and the producer was not told.
    LateDeadline,
    /// The log could not be closed, without a cause.
    NotClosed(CloseError),
    /// The program panicked.
    Panicked(String),
    /// The log is poisoned by an error that it did not get, or another than before.
    Poison(Poison),
    /// The log could not be opened after a crash, without a cause.
    Refused(OpenError),
    /// An acknowledged record was lost that was older than the strategy's bound.
    TooOld {
        /// How long ago it had been acknowledged.
        age: Nanos,
        /// The bound.
        bound: Nanos,
    },
    /// The opened log could not be read.
    Unreadable(String),
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answer(error) => write!(f, "a producer was told without cause: {error}"),
            Self::Append(error) => write!(f, "an append was refused without cause: {error}"),
            Self::Check(violation) => violation.fmt(f),
            Self::Hangs => f.write_str("a life does not come to its end"),
            Self::LateAnswer => f.write_str("an acknowledgement waited for a sync"),
            Self::LateDeadline => f.write_str("a deadline passed in silence"),
            Self::NotClosed(error) => write!(f, "closing failed without cause: {error}"),
            Self::Panicked(message) => write!(f, "the log panicked: {message}"),
            Self::Poison(poison) => write!(f, "not the first error: {poison}"),
            Self::Refused(error) => write!(f, "opening was refused without cause: {error}"),
            Self::TooOld { age, bound } => {
                write!(f, "a record acknowledged {age} ago was lost; the bound is {bound}")
            }
            Self::Unreadable(error) => write!(f, "the opened log cannot be read: {error}"),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "life {}", self.life)?;
        if let Some(position) = self.position {
            write!(f, ", crash after {position} entries")?;
        }
        write!(f, ": {}", self.wrong)
    }
}

impl Wrong {
    /// Whether both are wrong in the same way, wherever.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Check(one), Self::Check(other)) => {
                std::mem::discriminant(one) == std::mem::discriminant(other)
            }
            (Self::Refused(one), Self::Refused(other)) => {
                std::mem::discriminant(one) == std::mem::discriminant(other)
            }
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }
}

/// A run that showed something wrong.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed that it came from.
    pub seed: u64,
    /// What it did.
    pub plan: Plan,
    /// What it showed first.
    pub finding: Finding,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, plan, finding } = self;
        writeln!(f, "seed {seed}, {}: {finding}", plan.name())?;
        write!(f, "replay: cargo run -p crashlab --example crash_states -- --seed {seed}")
    }
}
