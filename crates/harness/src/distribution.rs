//! Distributions: recorded in HDR histograms, kept whole, summed up as quantiles.

use hdrhistogram::Histogram;

use crate::results::Quantiles;

/// A histogram for times in nanoseconds: three digits, up to two minutes.
pub fn times() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("bounds and digits are in range")
}

/// A histogram for counts and sizes: three digits, growing as needed.
pub fn sizes() -> Histogram<u64> {
    Histogram::new(3).expect("three digits are in range")
}

/// Records a count or size that occurred `count` times; the histogram grows to hold it.
pub fn record_size(histogram: &mut Histogram<u64>, value: u64, count: u64) {
    // `saturating_record` would clip at the present bounds instead of moving them.
    histogram.record_n(value, count).expect("a histogram that resizes itself holds any u64");
}

/// Whether a value lay at or above what the histogram can tell apart.
pub fn is_saturated(histogram: &Histogram<u64>) -> bool {
    !histogram.is_auto_resize() && !histogram.is_empty() && histogram.max() >= LONGEST_NS
}

/// The quantiles of a histogram; all zero if it is empty.
pub fn quantiles(histogram: &Histogram<u64>) -> Quantiles {
    if histogram.is_empty() {
        return Quantiles::default();
    }
    Quantiles {
        count: histogram.len(),
        min: histogram.min(),
        p50: histogram.value_at_quantile(0.5),
        p90: histogram.value_at_quantile(0.9),
        p99: histogram.value_at_quantile(0.99),
        p999: histogram.value_at_quantile(0.999),
        p9999: histogram.value_at_quantile(0.9999),
        max: histogram.max(),
        mean: histogram.mean(),
    }
}

/// The quantiles of a few values.
pub fn quantiles_of(values: impl IntoIterator<Item = u64>) -> Quantiles {
    let mut histogram = sizes();
    for value in values {
        record_size(&mut histogram, value, 1);
    }
    quantiles(&histogram)
}

/// Two minutes: more than any deadline here.
const LONGEST_NS: u64 = 120_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_a_known_distribution() {
        let found = quantiles_of(1..=1000);
        assert_eq!((found.count, found.min, found.p50, found.max), (1000, 1, 500, 1000));
        assert_eq!((found.p90, found.p99, found.p999), (900, 990, 999));
        assert!((found.mean - 500.5).abs() < 0.1);
        assert_eq!(quantiles_of([]), Quantiles::default());
    }

    #[test]
    fn sizes_of_any_magnitude_are_kept_to_three_digits() {
        for value in [0, 1, 2047, 2048, 500_000_000, 1 << 40] {
            let found = quantiles_of([value, value]);
            let error = found.p50.abs_diff(value);
            assert!(error <= value / 1000, "{value} came back as {}", found.p50);
        }
    }

    #[test]
    fn a_clipped_value_is_noticed() {
        let mut histogram = times();
        histogram.saturating_record(5);
        assert!(!is_saturated(&histogram));
        histogram.saturating_record(LONGEST_NS * 2);
        assert!(is_saturated(&histogram));
    }
}
