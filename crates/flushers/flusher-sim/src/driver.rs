//! What the driver of one lane knows.

use store_core::{LogOffset, Nanos};

#[derive(Debug, Default)]
pub(crate) struct Driver {
    pub(crate) state: State,
    pub(crate) woken: bool,
    pub(crate) polls: u64,
    pub(crate) steps: Vec<(Nanos, u64)>,
}

impl Driver {
    /// Notes that an action begins that ends `cost` later.
    pub(crate) fn begin(&mut self, now: Nanos, cost: Nanos, upto: LogOffset) -> State {
        self.steps.push((now, upto.get()));
        State::UnderWay { upto, ends: now.after(cost) }
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum State {
    Done,
    Resting { until: Option<Nanos> },
    UnderWay { upto: LogOffset, ends: Nanos },
}

impl Default for State {
    /// Every lane is polled once at the start.
    fn default() -> Self {
        Self::Resting { until: Some(Nanos::new(0)) }
    }
}
