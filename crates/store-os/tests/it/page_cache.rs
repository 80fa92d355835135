//! What the page cache holds of a log: what was appended, dirty until it is synced.

use store_core::LogOffset;
use store_os::{Call, Io, PageCache};

use crate::support::{Injector, Kind, eventually, flushed_past, put, queue, small, with_faults};

#[test]
fn what_no_sync_covers_yet_is_dirty_or_on_its_way_and_later_it_is_neither() {
    // In memory pages are never dirty.
    let root = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let injector = Injector::new();
    let log = Kind::Timed(Io::Positioned).open(root.path(), with_faults(small(), &injector));
    injector.hold(Call::Sync);
    let queue = queue(&log, "T");
    // Over the end of the first segment.
    let [first, .., last] = [(); 3].map(|()| put(&log, &queue, &[7; 6000]));
    let all = first.offset..last.end();
    let Some(found) = log.page_cache(all.clone()) else {
        // Before Linux 6.5 nobody tells.
        return;
    };
    assert!((18_000..28 << 10).contains(&found.cached_bytes), "their pages, no more: {found:?}");
    // The kernel may write a page back before anybody asks it to, but not each time.
    eventually("dirty", || {
        let end = put(&log, &queue, b"once more").end();
        let found = log.page_cache(first.offset..end).unwrap();
        let waiting = found.dirty_bytes + found.writeback_bytes;
        assert!(waiting <= found.cached_bytes, "{found:?}");
        waiting > 0
    });
    injector.let_go();
    let end = put(&log, &queue, b"and the last").end();
    eventually("durable", || flushed_past(&log, end));
    let after = log.page_cache(first.offset..end).unwrap();
    assert_eq!((after.dirty_bytes, after.writeback_bytes), (0, 0), "{after:?}");
    let nowhere = LogOffset::new(1 << 40)..LogOffset::new(1 << 41);
    assert_eq!(log.page_cache(nowhere), Some(PageCache::default()));
    log.close().unwrap();
}
