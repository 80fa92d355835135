//! When a simulated disk has made something durable.

use crashlab::block::{Asked, DiskType, Schedule};
use store_core::Nanos;

use crate::disk::DiskCounters;

/// A disk of a type, and what it was asked.
#[derive(Debug)]
pub(crate) struct Device {
    schedule: Schedule,
    pub(crate) counters: DiskCounters,
}

impl Device {
    /// A disk that has nothing to do.
    pub(crate) fn new(of: DiskType) -> Self {
        let counters = DiskCounters { write_bytes: 0, flush_requests: Some(0), busy_ms: None };
        Self { schedule: Schedule::new(of.timing()), counters }
    }

    /// When a sync that begins at `now` returns, of the log's bytes from `from` to `upto`: in each
    /// segment the pages that they lie in are written, and then the disk's cache is flushed.
    pub(crate) fn sync(&mut self, now: Nanos, from: u64, upto: u64, segment: u64) -> Nanos {
        let (mut at, mut from) = (now, from);
        while from < upto {
            let end = upto.min((from / segment + 1) * segment);
            let bytes = end.next_multiple_of(PAGE) - from / PAGE * PAGE;
            at = self.schedule.due(at, Asked::Write, bytes);
            at = self.schedule.due(at, Asked::Flush, 0);
            self.counters.write_bytes += bytes;
            self.counters.flush_requests = self.counters.flush_requests.map(|count| count + 1);
            from = end;
        }
        at
    }
}

/// What the page cache writes is whole pages.
const PAGE: u64 = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sync_writes_whole_pages_and_flushes_once_in_each_segment() {
        let mut device = Device::new(DiskType::Hdd7200);
        let start = Nanos::from_millis(1000);
        let took = |device: &mut Device, from, upto| {
            device.sync(start, from, upto, 1 << 20).since(start).get() / 1000
        };
        // A page at 180 MB/s, 4.2 ms to write it and 8 ms to flush.
        assert_eq!(took(&mut device, 5000, 6000), 22 + 4200 + 8000);
        assert_eq!((device.counters.write_bytes, device.counters.flush_requests), (4096, Some(1)));
        // Over the end of a segment: two syncs, one after the other; nothing beside them.
        let mut device = Device::new(DiskType::Hdd7200);
        let end = 1 << 20;
        assert_eq!(took(&mut device, end - 100, end + 100), 2 * (4200 + 8000) + 45);
        assert_eq!((device.counters.write_bytes, device.counters.flush_requests), (8192, Some(2)));
    }
}
