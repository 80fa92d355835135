//! What a sync takes by what it covers: a fixed part, and the bytes by a bandwidth.

use crate::statistics::Line;

/// The time of a sync as a straight line over its bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Fit {
    /// What a sync of nothing would take.
    pub(super) fixed_ns: f64,
    /// What each byte adds.
    pub(super) ns_per_byte: f64,
    /// Half of the syncs lie within this share of the line.
    pub(super) error: f64,
}

impl Fit {
    /// The line through syncs of (bytes, nanoseconds); `None` if their sizes are too alike, or too
    /// few, to tell the two parts apart.
    ///
    /// It goes through the medians of sizes that are alike, each counted once, so that neither a
    /// stall nor the most frequent size bends it; and the relative error is what is made small,
    /// because syncs differ by orders of magnitude.
    pub(super) fn of(syncs: &[(f64, f64)]) -> Option<Self> {
        let medians: Vec<(f64, f64)> = sizes(syncs)
            .into_iter()
            .filter(|size| size.count >= FEWEST)
            .map(|s| s.middle)
            .collect();
        let (first, last) = (medians.first()?, medians.last()?);
        if medians.len() < 3 || last.0 < 8.0 * first.0 {
            return None;
        }
        let Line { fixed: fixed_ns, slope: ns_per_byte } = Line::fitted(&medians)?;
        let mut errors: Vec<f64> = syncs
            .iter()
            .filter(|(_, ns)| *ns > 0.0)
            .map(|(bytes, ns)| (fixed_ns + ns_per_byte * bytes - ns).abs() / ns)
            .collect();
        errors.sort_by(f64::total_cmp);
        let error = *errors.get(errors.len() / 2)?;
        Some(Self { fixed_ns, ns_per_byte, error })
    }

    /// What a sync of these bytes takes.
    pub(super) fn at(&self, bytes: f64) -> f64 {
        self.fixed_ns + self.ns_per_byte * bytes
    }
}

/// Syncs of about the same size, from one power of two to the next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Size {
    /// How many.
    pub(super) count: usize,
    /// Their median size and median time.
    pub(super) middle: (f64, f64),
    /// What 99 of 100 take at most.
    pub(super) p99_ns: f64,
    /// The longest.
    pub(super) max_ns: f64,
    /// The least size.
    pub(super) from_bytes: f64,
    /// The largest.
    pub(super) to_bytes: f64,
}

/// By size, the small ones first; syncs of nothing are none.
pub(super) fn sizes(syncs: &[(f64, f64)]) -> Vec<Size> {
    let is_usable = |(bytes, ns): &&(f64, f64)| {
        bytes.is_finite() && ns.is_finite() && *bytes >= 1.0 && *ns > 0.0
    };
    let mut syncs: Vec<(f64, f64)> = syncs.iter().filter(is_usable).copied().collect();
    syncs.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let octave = |bytes: f64| bytes.log2().floor();
    syncs.chunk_by(|a, b| octave(a.0).total_cmp(&octave(b.0)).is_eq()).map(size).collect()
}

fn size(syncs: &[(f64, f64)]) -> Size {
    let mut times: Vec<f64> = syncs.iter().map(|(_, ns)| *ns).collect();
    times.sort_by(f64::total_cmp);
    let count = syncs.len();
    Size {
        count,
        middle: (syncs[count / 2].0, times[count / 2]),
        p99_ns: times[(count * 99).div_ceil(100) - 1],
        max_ns: times[count - 1],
        from_bytes: syncs[0].0,
        to_bytes: syncs[count - 1].0,
    }
}

/// Syncs of a size from which on their median counts.
const FEWEST: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    /// Syncs of 4 KiB to 4 MiB that take 2 ms and 10 ns a byte, some a little longer.
    fn known() -> Vec<(f64, f64)> {
        let sync = |nth: u32| {
            let bytes = 4096.0 * f64::from(1 << (nth % 11));
            (bytes, (2e6 + 10.0 * bytes) * (1.0 + f64::from(nth % 3) / 100.0))
        };
        (0..660).map(sync).collect()
    }

    #[track_caller]
    fn near(found: f64, expect: f64) {
        assert!((found - expect).abs() <= 0.03 * expect, "{found}, expected {expect}");
    }

    #[test]
    fn the_two_parts_of_a_known_disk_come_out() {
        let fit = Fit::of(&known()).unwrap();
        near(fit.fixed_ns, 2e6);
        near(fit.ns_per_byte, 10.0);
        assert!(fit.error < 0.02, "{fit:?}");
        near(fit.at(1e6), 12e6);
    }

    #[test]
    fn neither_stalls_nor_a_frequent_size_bend_the_line() {
        let mut syncs = known();
        syncs.extend((0..20).map(|_| (4096.0, 5e9)));
        syncs.extend((0..9000).map(|_| (8192.0, 2e6 + 81_920.0)));
        let fit = Fit::of(&syncs).unwrap();
        near(fit.fixed_ns, 2e6);
        near(fit.ns_per_byte, 10.0);
    }

    #[test]
    fn sizes_that_are_alike_or_few_tell_nothing() {
        let alike: Vec<_> = (0..100).map(|nth| (4096.0 + f64::from(nth), 2e6)).collect();
        assert_eq!(Fit::of(&alike), None);
        assert_eq!(Fit::of(&known()[..12]), None, "too few of each");
        assert_eq!(Fit::of(&[(0.0, 1.0), (f64::NAN, 2.0), (f64::INFINITY, 3.0)]), None);
    }

    #[test]
    fn a_disk_that_is_faster_for_more_has_no_bandwidth_below_zero() {
        let odd: Vec<_> = known().into_iter().map(|(bytes, _)| (bytes, 1e12 / bytes)).collect();
        let fit = Fit::of(&odd).unwrap();
        assert!(fit.ns_per_byte.abs() < 1e-9 && fit.fixed_ns > 0.0, "{fit:?}");
    }

    #[test]
    fn sizes_go_from_one_power_of_two_to_the_next() {
        let found = sizes(&[(1024.0, 5.0), (2047.0, 7.0), (2048.0, 9.0), (0.0, 1.0)]);
        let counts: Vec<_> = found.iter().map(|size| (size.count, size.max_ns)).collect();
        assert_eq!(counts, [(2, 7.0), (1, 9.0)]);
    }
}
