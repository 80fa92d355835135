//! The harness's one clock: the same that the log stamps its events with.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub use store_os::monotonic as now;

use store_core::Nanos;

/// Milliseconds since 1970 UTC, for saying when something was measured; never for measuring.
pub fn wall_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// A duration in the clock's unit.
pub fn nanos(span: Duration) -> Nanos {
    Nanos::new(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
}

/// An integer as a float, for rates and means.
#[expect(clippy::as_conversions, clippy::cast_precision_loss, reason = "a figure, not a count")]
pub fn float(value: u64) -> f64 {
    value as f64
}

/// A float as an integer, rounded and clamped to what fits.
#[expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "float-to-integer casts saturate, and NaN gives 0"
)]
pub fn round(value: f64) -> u64 {
    value.round() as u64
}
