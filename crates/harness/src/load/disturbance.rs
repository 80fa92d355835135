//! What others do on the disk while a log is written.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

use anyhow::{Context, Result};

use super::cleaner::Cleaner;
use super::reader::{READ_BYTES, Reader};
use crate::profile::Workload;

/// What disturbs a cell.
#[derive(Debug)]
pub struct Disturbance {
    reader: Option<Reader>,
    cleaner: Option<Cleaner>,
}

/// The threads of what disturbs.
#[derive(Debug)]
pub struct Disturbing<'scope>(Vec<ScopedJoinHandle<'scope, std::io::Result<()>>>);

impl Disturbance {
    /// Makes the files that this workload wants read or deleted, in `directory`, for a cell that is
    /// measured for so long; `None` if it wants none. If it is interrupted, they are not whole.
    ///
    /// # Errors
    ///
    /// If they cannot be written.
    pub fn create(
        workload: &Workload,
        directory: &Path,
        segment_bytes: u64,
        measure: Duration,
        seed: u64,
        interrupted: &AtomicBool,
    ) -> Result<Option<Self>> {
        let reader = workload.reader.then(|| Reader::create(directory, seed, interrupted));
        let cleaner = workload.deletes_every.map(|each| {
            Cleaner::create(directory, segment_bytes, (each, measure), seed, interrupted)
        });
        let made = Self { reader: reader.transpose()?, cleaner: cleaner.transpose()? };
        Ok(workload.is_disturbed().then_some(made))
    }

    /// Bytes of those files.
    pub fn bytes(workload: &Workload, segment_bytes: u64, measure: Duration) -> u64 {
        let read = if workload.reader { READ_BYTES } else { 0 };
        let each = workload.deletes_every;
        read + each.map_or(0, |each| Cleaner::bytes(segment_bytes, each, measure))
    }

    /// Reads from now on, in a thread of its own; another deletes once it [begins](Self::begin).
    pub fn start<'scope, 'env>(
        &'env self,
        scope: &'scope Scope<'scope, 'env>,
    ) -> Disturbing<'scope> {
        let reading = self.reader.as_ref().map(|reader| {
            reader.renew();
            scope.spawn(|| reader.run())
        });
        let cleaning = self.cleaner.as_ref().map(|cleaner| scope.spawn(|| cleaner.run()));
        Disturbing(reading.into_iter().chain(cleaning).collect())
    }

    /// The cell is measured from now on.
    pub fn begin(&self) {
        if let Some(cleaner) = &self.cleaner {
            cleaner.begin();
        }
    }

    /// Lets the threads end, and waits for them.
    ///
    /// # Errors
    ///
    /// If a read or a deletion failed.
    pub fn stop(&self, threads: Disturbing<'_>) -> Result<()> {
        if let Some(reader) = &self.reader {
            reader.stop();
        }
        if let Some(cleaner) = &self.cleaner {
            cleaner.stop();
        }
        // All are waited for before the first that failed is told.
        let ended = threads.0.into_iter().map(|thread| thread.join().expect("they catch errors"));
        let ended: Vec<std::io::Result<()>> = ended.collect();
        ended.into_iter().collect::<std::io::Result<()>>().context("what disturbs the cell")
    }

    /// Files deleted since it began.
    pub fn deleted(&self) -> u64 {
        self.cleaner.as_ref().map_or(0, Cleaner::deleted)
    }
}
