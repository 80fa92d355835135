//! The kernel's dirty pages and its two limits on them, by `/proc/vmstat`.
//!
//! A rate at which nothing is synced is only a rate of the disk once the limits were reached; until
//! then it is the page cache's. One look takes some 50 µs, so ten a second cost nothing.

use std::fs;

use crate::results::Dirty;

/// One look at the whole machine's dirty pages; `None` if `/proc/vmstat` tells too little.
///
/// Start and maximum both are the present value. The limits are those in force at this moment: they
/// move with the memory that is free, so whether the background limit is reached is said here, of
/// each look by its own limit. To join looks, take the greatest `max_bytes` and
/// `reached_background`, and the rest from the first.
pub fn sample() -> Option<Dirty> {
    let text = fs::read_to_string("/proc/vmstat").ok()?;
    parse(&text, u64::try_from(rustix::param::page_size()).ok()?)
}

/// What the text of `/proc/vmstat`, which counts pages, says in bytes.
fn parse(text: &str, page_bytes: u64) -> Option<Dirty> {
    let bytes = |name: &str| -> Option<u64> {
        let mut fields = text.lines().filter_map(|line| line.split_once(' '));
        let (_, pages) = fields.find(|(field, _)| *field == name)?;
        pages.trim().parse::<u64>().ok()?.checked_mul(page_bytes)
    };
    let dirty_bytes = bytes("nr_dirty")?.checked_add(bytes("nr_writeback")?)?;
    let background_limit_bytes = bytes("nr_dirty_background_threshold")?;
    Some(Dirty {
        start_bytes: Some(dirty_bytes),
        max_bytes: Some(dirty_bytes),
        background_limit_bytes: Some(background_limit_bytes),
        limit_bytes: Some(bytes("nr_dirty_threshold")?),
        reached_background: Some(dirty_bytes >= background_limit_bytes),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const VMSTAT: &str = "\
nr_free_pages 5765498
nr_dirty 100
nr_writeback 20
nr_writeback_temp 7
nr_dirtied 400000
nr_dirty_threshold 1000
nr_dirty_background_threshold 500
";

    #[test]
    fn pages_become_bytes() {
        let found = parse(VMSTAT, 4096).unwrap();
        assert_eq!(found.start_bytes, Some(120 * 4096));
        assert_eq!(found.max_bytes, Some(120 * 4096));
        assert_eq!(found.background_limit_bytes, Some(500 * 4096));
        assert_eq!(found.limit_bytes, Some(1000 * 4096));
        assert_eq!(parse(VMSTAT, 65536).unwrap().start_bytes, Some(120 * 65536));
    }

    #[test]
    fn the_background_limit_is_reached_by_both_together() {
        #[track_caller]
        fn check(dirty: &str, reached: bool) {
            let found = parse(&VMSTAT.replace("nr_dirty 100", dirty), 4096).unwrap();
            assert_eq!(found.reached_background, Some(reached), "{dirty}");
        }
        check("nr_dirty 479", false);
        check("nr_dirty 480", true);
        check("nr_dirty 2000", true);
    }

    #[test]
    fn a_missing_or_odd_field_is_no_sample() {
        for name in ["nr_dirty ", "nr_writeback ", "nr_dirty_threshold", "nr_dirty_background"] {
            assert_eq!(parse(&VMSTAT.replace(name, "x"), 4096), None, "{name}");
        }
        assert_eq!(parse("", 4096), None);
        assert_eq!(parse(&VMSTAT.replace("100\n", "-1\n"), 4096), None);
        assert_eq!(parse(VMSTAT, u64::MAX), None, "no overflow");
    }

    #[test]
    fn this_machines_limits_are_in_order() {
        // A container may hide the file.
        let Some(found) = sample() else { return };
        assert!(found.background_limit_bytes <= found.limit_bytes, "{found:?}");
        assert_eq!(found.start_bytes, found.max_bytes);
    }
}
