//! The kernel's dirty pages and its two limits on them, by `/proc/vmstat`.
//!
//! A rate at which nothing is synced is only a rate of the disk once the limits were reached; until
//! then it is the page cache's. One look takes some 50 µs, so ten a second cost nothing.

use std::fs;

use crate::results::Dirty;

/// One look at the whole machine's dirty pages, and the limits on them at that moment.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Pages {
    /// Written, and not on their way to a disk.
    pub dirty_bytes: u64,
    /// On their way.
    pub writeback_bytes: u64,
    /// Where background write-back begins.
    pub background_limit_bytes: u64,
    /// Where writers are stopped.
    pub limit_bytes: u64,
}

impl Pages {
    /// What a power cut takes: dirty, or on its way.
    pub fn at_risk_bytes(&self) -> u64 {
        self.dirty_bytes.saturating_add(self.writeback_bytes)
    }

    /// From where on writers are made to wait a little: the middle of the two limits
    /// (`dirty_freerun_ceiling`).
    pub fn free_run_bytes(&self) -> u64 {
        self.background_limit_bytes.midpoint(self.limit_bytes)
    }
}

/// One look at the whole machine; `None` if `/proc/vmstat` tells too little.
pub fn pages() -> Option<Pages> {
    let text = fs::read_to_string("/proc/vmstat").ok()?;
    parse(&text, u64::try_from(rustix::param::page_size()).ok()?)
}

/// The same as the beginning of a time that is watched.
///
/// Start and maximum both are the present value. The limits are those in force at this moment: they
/// move with the memory that is free, so whether one is reached is said of each look by its own
/// limit ([`Dirty::join`]).
pub fn sample() -> Option<Dirty> {
    pages().map(|pages| Dirty::from(&pages))
}

impl From<&Pages> for Dirty {
    fn from(pages: &Pages) -> Self {
        let at_risk = pages.at_risk_bytes();
        Self {
            start_bytes: Some(at_risk),
            max_bytes: Some(at_risk),
            background_limit_bytes: Some(pages.background_limit_bytes),
            limit_bytes: Some(pages.limit_bytes),
            reached_background: Some(pages.background_limit_bytes <= at_risk),
            reached_free_run: Some(pages.free_run_bytes() < at_risk),
            reached_limit: Some(pages.limit_bytes <= at_risk),
        }
    }
}

impl Dirty {
    /// Takes a later look in.
    pub fn join(&mut self, later: &Self) {
        self.max_bytes = self.max_bytes.max(later.max_bytes);
        self.reached_background = self.reached_background.max(later.reached_background);
        self.reached_free_run = self.reached_free_run.max(later.reached_free_run);
        self.reached_limit = self.reached_limit.max(later.reached_limit);
    }
}

/// What the text of `/proc/vmstat`, which counts pages, says in bytes.
fn parse(text: &str, page_bytes: u64) -> Option<Pages> {
    let [mut dirty, mut writeback, mut background_limit, mut limit] = [None; 4];
    for (name, pages) in text.lines().filter_map(|line| line.split_once(' ')) {
        let found = match name {
            "nr_dirty" => &mut dirty,
            "nr_writeback" => &mut writeback,
            "nr_dirty_background_threshold" => &mut background_limit,
            "nr_dirty_threshold" => &mut limit,
            _ => continue,
        };
        *found = Some(pages.trim().parse::<u64>().ok()?.checked_mul(page_bytes)?);
    }
    Some(Pages {
        dirty_bytes: dirty?,
        writeback_bytes: writeback?,
        background_limit_bytes: background_limit?,
        limit_bytes: limit?,
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
        let found = Dirty::from(&parse(VMSTAT, 4096).unwrap());
        assert_eq!(found.start_bytes, Some(120 * 4096));
        assert_eq!(found.max_bytes, Some(120 * 4096));
        assert_eq!(found.background_limit_bytes, Some(500 * 4096));
        assert_eq!(found.limit_bytes, Some(1000 * 4096));
        assert_eq!(parse(VMSTAT, 65536).unwrap().at_risk_bytes(), 120 * 65536);
    }

    #[test]
    fn limits_are_reached_by_both_together() {
        #[track_caller]
        fn check(dirty: &str, reached: [bool; 3]) {
            let pages = parse(&VMSTAT.replace("nr_dirty 100", dirty), 4096).unwrap();
            let found = Dirty::from(&pages);
            let told = [found.reached_background, found.reached_free_run, found.reached_limit];
            assert_eq!(told, reached.map(Some), "{dirty}");
        }
        check("nr_dirty 479", [false, false, false]);
        check("nr_dirty 480", [true, false, false]);
        check("nr_dirty 730", [true, false, false]);
        check("nr_dirty 731", [true, true, false]);
        check("nr_dirty 980", [true, true, true]);
    }

    #[test]
    fn joined_looks_keep_the_start_and_the_worst() {
        let look = |dirty| Dirty::from(&parse(&VMSTAT.replace(" 100\n", dirty), 4096).unwrap());
        let mut joined = look(" 100\n");
        joined.join(&look(" 800\n"));
        joined.join(&look(" 10\n"));
        assert_eq!((joined.start_bytes, joined.max_bytes), (Some(120 * 4096), Some(820 * 4096)));
        assert_eq!((joined.reached_free_run, joined.reached_limit), (Some(true), Some(false)));
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
