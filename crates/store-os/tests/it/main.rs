//! Tests of the log on real files, under every strategy.

#![expect(
    clippy::as_conversions,
    clippy::unwrap_used,
    reason = "a helper that fails is a test that fails, and counts are small"
)]

mod append;
mod faults;
mod kill;
mod reopen;
mod support;
mod ticket;
