//! The two clocks: monotonic for strategies and deadlines, wall for store timestamps.

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
    #[cfg(modelled)]
    return TimestampMs::new(1);
    #[cfg(not(modelled))]
    {
        let now = clock_gettime(ClockId::Realtime);
        TimestampMs::new(now.tv_sec.max(0).saturating_mul(1000) + now.tv_nsec / 1_000_000)
    }
}
