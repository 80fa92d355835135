//! What the page cache holds of a log.

use std::ops::{Add, Range};

use store_core::LogOffset;

use crate::log::Log;

/// Bytes of a log's files that the page cache holds, in whole pages (`cachestat`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct PageCache {
    /// All of them.
    pub cached_bytes: u64,
    /// Those of them that nobody has begun to write back,
    pub dirty_bytes: u64,
    /// and those that are on their way to the device.
    pub writeback_bytes: u64,
}

impl Add for PageCache {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            cached_bytes: self.cached_bytes.saturating_add(other.cached_bytes),
            dirty_bytes: self.dirty_bytes.saturating_add(other.dirty_bytes),
            writeback_bytes: self.writeback_bytes.saturating_add(other.writeback_bytes),
        }
    }
}

impl Log {
    /// What the page cache holds of the log between two offsets; `None` if a file there cannot
    /// tell: the kernel is older than 6.5, or a container forbids the call.
    ///
    /// It takes some 6 us and as much again for each 4 MiB that are cached, and holds up no append.
    pub fn page_cache(&self, range: Range<LogOffset>) -> Option<PageCache> {
        // The lock is not held while the kernel looks.
        let segments: Vec<_> = self.shared.segments().iter().cloned().collect();
        segments
            .iter()
            .map(|segment| segment.page_cache(&range))
            .try_fold(PageCache::default(), |sum, found| Some(sum + found?))
    }
}
