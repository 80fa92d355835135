//! Tests of the log on real files, under every strategy.

#![expect(
    clippy::as_conversions,
    clippy::unwrap_used,
    reason = "a helper that fails is a test that fails, and counts are small"
)]

mod append;
mod bad_sectors;
mod batch;
mod closing;
mod direct;
mod disks;
mod faults;
mod full_disk;
mod golden;
mod hole;
mod hostile;
mod kill;
mod medium;
mod page_cache;
mod reader;
mod recovery;
mod reopen;
mod repair;
#[path = "../golden/mod.rs"]
mod rocketmq;
mod stores;
mod support;
mod survey;
mod sync_failures;
mod ticket;
