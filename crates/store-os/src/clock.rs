//! The two clocks: monotonic for strategies and deadlines, wall for store timestamps.

use std::time::{SystemTime, UNIX_EPOCH};

#[cfg(not(modelled))]
use rustix::time::{ClockId, clock_gettime};
use store_core::{Nanos, TimestampMs};

/// Now on the monotonic clock, in nanoseconds since its own zero: `clock_gettime(CLOCK_MONOTONIC)`.
///
/// The clock of every time that this crate reports.
pub fn monotonic() -> Nanos {
    #[cfg(modelled)]
    return crate::sync::now();
    #[cfg(not(modelled))]
    kernel()
}

#[cfg(not(modelled))]
fn kernel() -> Nanos {
    let now = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).expect("the monotonic clock starts at zero");
    let nanos = u64::try_from(now.tv_nsec).expect("tv_nsec is 0..1_000_000_000");
    Nanos::new(seconds * 1_000_000_000 + nanos)
}

/// Now in milliseconds since 1970 UTC; 0 before that.
pub(crate) fn wall() -> TimestampMs {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    TimestampMs::new(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
