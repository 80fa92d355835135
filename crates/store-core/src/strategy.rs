//! What a flush strategy and the driver that runs it say to each other.

use crate::{LogOffset, Watermarks};

/// A monotonic time in nanoseconds; the driver chooses where zero is.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
#[repr(transparent)]
pub struct Nanos(u64);

impl core::fmt::Display for Nanos {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} ns", self.0)
    }
}

impl Nanos {
    /// `nanos` nanoseconds after the driver's zero.
    pub const fn new(nanos: u64) -> Self {
        Self(nanos)
    }

    /// `millis` milliseconds, for configuration.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// `micros` microseconds, for configuration.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(1_000))
    }

    /// Nanoseconds since the driver's zero.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// `self + span`; stays at the last representable time instead of wrapping.
    #[must_use]
    pub const fn after(self, span: Self) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// The time since `earlier`; zero if that lies ahead.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }
}

/// Whether a producer waits for what its strategy promises (RocketMQ's property `WAIT`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Wait {
    /// Acknowledge without waiting for a sync (`WAIT=false`).
    No,
    /// Acknowledge when the strategy's promise holds.
    #[default]
    Yes,
}

/// When an append may be acknowledged: which mark must pass the record's end.
///
/// In the order of what they promise.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum AckAt {
    /// Placed; a process crash can take it if appends are staged.
    Wrote,
    /// In the page cache; a power cut can take it.
    Committed,
    /// Covered by a successful sync.
    Flushed,
}

/// What goes on beside each other: a lane has at most one action under way.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Lane {
    /// Staged bytes to the page cache.
    Commit,
    /// Page cache to the device.
    Flush,
}

impl Lane {
    /// Both lanes.
    pub const ALL: [Self; 2] = [Self::Commit, Self::Flush];
}

/// What may wake a lane before its time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Event {
    /// A record was appended, by a producer that waits or does not.
    Appended(Wait),
    /// The commit lane moved `committed`.
    Committed,
}

/// What a strategy is shown when it is polled.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Observed {
    /// The three marks.
    pub marks: Watermarks,
    /// The first offset of the segment that takes appends; what lies before it is in full segments.
    pub segment_start: LogOffset,
    /// The highest record end that a producer waits for until it is flushed; at most `wrote`.
    pub wanted: LogOffset,
    /// How many records up to `wanted` are not flushed yet and waited for.
    pub waiting: u64,
    /// Since when the first of them has waited; `None` if none does.
    pub waiting_since: Option<Nanos>,
    /// Whether an event woke this lane since it was last polled.
    pub woken: bool,
    /// Whether the log shuts down: no append comes any more, everything is to be flushed.
    pub draining: bool,
}

/// What the driver of a lane does next.
#[must_use]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Action {
    /// Bring the bytes below this offset to the page cache; more is allowed.
    Commit(LogOffset),
    /// Nothing is left to do, now or later; only while draining.
    Done,
    /// Make the bytes below this offset durable; more is allowed. Commits them first if need be.
    Flush(LogOffset),
    /// Wait for an event.
    Idle,
    /// Wait for an event, but not past this time.
    Sleep(Nanos),
}

/// Decides when appended bytes are committed and flushed, and when producers are told.
///
/// A strategy is a value: it has no thread, clock or file. One driver per lane calls, in this
/// order and again and again: [`poll`](Self::poll); the action it gave, if that was `Commit` or
/// `Flush`; [`on_done`](Self::on_done) when that succeeded. An action that failed is not reported:
/// the log is poisoned and polls no more. Calls for the two lanes may alternate in any way; between
/// them the driver holds no lock, so a slow flush never delays a commit. Polling a lane again while
/// its action is under way is allowed and gives `Idle`. Time must not run back.
///
/// A driver moves the marks before it wakes anyone and before `on_done`, whose `seen` shows them.
/// When a drain begins it polls every lane, which is no [`Event`]. During a drain both lanes may be
/// given bytes to commit; the driver sees to it that each is committed once. Bytes that nobody asks
/// for, such as those found when a log is opened, are the driver's to flush.
///
/// [`ack`](Self::ack), [`wakes`](Self::wakes) and [`timeout`](Self::timeout) depend on nothing but
/// the strategy's configuration: a driver may ask once and keep the answers, so that an append
/// takes no lock for them.
pub trait FlushStrategy {
    /// Which mark must pass a record's end before its producer is told "ok".
    fn ack(&self, wait: Wait) -> AckAt;

    /// Whether `event` wakes `lane` or leaves it to its interval.
    fn wakes(&self, lane: Lane, event: Event) -> bool;

    /// How long a producer waits at most (`syncFlushTimeout`); `None` for ever.
    ///
    /// Past it the producer is told that the flush timed out. The record stays in the log and may
    /// still become durable.
    fn timeout(&self) -> Option<Nanos>;

    /// Whether this strategy has something for `lane` to do at all.
    fn uses(&self, lane: Lane) -> bool;

    /// The lane's next action.
    fn poll(&mut self, lane: Lane, now: Nanos, seen: &Observed) -> Action;

    /// The action that the last `poll` of this lane gave has succeeded.
    fn on_done(&mut self, lane: Lane, now: Nanos, seen: &Observed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_do_not_wrap() {
        let last = Nanos::new(u64::MAX);
        assert_eq!(last.after(Nanos::from_millis(1)), last);
        assert_eq!(Nanos::new(1).since(Nanos::new(2)), Nanos::new(0));
        assert_eq!(Nanos::from_millis(u64::MAX), last);
        assert_eq!(Nanos::from_micros(7).get(), 7_000);
    }
}
