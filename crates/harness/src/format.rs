//! Figures and names as people read them: two digits that matter, and the unit.
//!
//! Every figure is at most eight characters wide, so that tables can be laid out beforehand.

/// A number without unit, such as a rate: `8.2k`, `1.5M`.
pub fn count(value: f64) -> String {
    if value.is_finite() && value >= 999.5e12 {
        return format!("{value:.0e}");
    }
    let steps = [("", 1.0), ("k", 1e3), ("M", 1e6), ("G", 1e9), ("T", 1e12)];
    scaled(value, &steps)
}

/// A duration in nanoseconds: `101 µs`, `1.2 ms`, `0`.
pub fn duration(ns: f64) -> String {
    let steps = [
        (" ns", 1.0),
        (" µs", 1e3),
        (" ms", 1e6),
        (" s", 1e9),
        (" min", 60e9),
        (" h", 3_600e9),
        (" d", 86_400e9),
        (" y", 31_557_600e9),
    ];
    scaled(ns, &steps)
}

/// A number of bytes: `5.4 MiB`, `0`.
pub fn bytes(value: f64) -> String {
    const KIB: f64 = 1024.0;
    let steps = [
        (" B", 1.0),
        (" KiB", KIB),
        (" MiB", KIB * KIB),
        (" GiB", KIB * KIB * KIB),
        (" TiB", KIB * KIB * KIB * KIB),
        (" PiB", KIB * KIB * KIB * KIB * KIB),
        (" EiB", KIB * KIB * KIB * KIB * KIB * KIB),
    ];
    scaled(value, &steps)
}

/// A ratio, with two decimals below 10: `0.92`, `38`.
pub fn ratio(value: f64) -> String {
    if (0.0..9.995).contains(&value) { format!("{value:.2}") } else { count(value) }
}

/// `few` things of a kind, with the plural made by an s: `1 block`, `3 blocks`.
pub fn plural(few: usize, noun: &str) -> String {
    if few == 1 { format!("1 {noun}") } else { format!("{few} {noun}s") }
}

/// A moment as `2026-03-09 14:05 UTC`, from milliseconds since 1970.
pub fn utc(ms: u64) -> String {
    let [year, month, day, hour, minute, _] = civil(ms);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
}

/// A moment as `20260309T140559Z`, for file names.
pub fn utc_compact(ms: u64) -> String {
    let [year, month, day, hour, minute, second] = civil(ms);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

/// A moment as `2026-03-09T14:05:59.042Z` (ISO 8601), from milliseconds since 1970; as the bare
/// number where no calendar reaches: before 1970 and behind the year 9999.
pub fn utc_iso(ms: i64) -> String {
    match u64::try_from(ms) {
        Ok(since) if since < YEAR_10000 => {
            let [year, month, day, hour, minute, second] = civil(since);
            let millis = since % 1000;
            format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
        }
        _ => format!("{ms} ms"),
    }
}

/// Year, month, day, hour, minute and second in UTC.
fn civil(ms: u64) -> [u64; 6] {
    let seconds = ms / 1000;
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Days to a civil date with years that begin in March, so that the leap day comes last.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    [year, month, day, second / 3600, second / 60 % 60, second % 60]
}

/// `text` without control characters and at most `width` characters long, the last one `…` if cut.
pub fn clipped(text: &str, width: usize) -> String {
    let clean = text.chars().map(printable);
    if text.chars().count() <= width {
        return clean.collect();
    }
    clean.take(width.saturating_sub(1)).chain(['…']).collect()
}

/// `text` for HTML and SVG, in elements and in quoted attributes.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            other => out.push(printable(other)),
        }
    }
    out
}

/// Control characters are no text: XML refuses them and a terminal obeys them. Others turn the
/// direction of writing, so that a line would read as what it is not.
fn printable(c: char) -> char {
    let turns = matches!(
        c,
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    if c == '\t' {
        ' '
    } else if turns || c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') {
        char::REPLACEMENT_CHARACTER
    } else {
        c
    }
}

/// `value` in the smallest unit that needs no more than three digits.
fn scaled(value: f64, steps: &[(&str, f64)]) -> String {
    if !value.is_finite() {
        return "n/a".to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    let last = steps.len() - 1;
    let at = steps.iter().position(|&(_, size)| value.abs() / size < 999.5).unwrap_or(last);
    let (unit, size) = steps[at];
    let shown = value / size;
    if shown.abs() < 0.000_5 {
        return format!("<0.001{unit}");
    }
    let decimals = if at == 0 && shown.fract() == 0.0 {
        0
    } else if shown.abs() < 0.095 {
        3
    } else if shown.abs() < 0.995 {
        2
    } else {
        usize::from(shown.abs() < 9.95)
    };
    format!("{shown:.decimals$}{unit}")
}

/// Milliseconds from 1970 to the year 10000.
const YEAR_10000: u64 = 253_402_300_800_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_in_file_names_are_compact_and_sort() {
        assert_eq!(utc_compact(0), "19700101T000000Z");
        assert_eq!(utc_compact(951_782_400_000), "20000229T000000Z");
        assert_eq!(utc_compact(1_796_000_799_999), "20261130T010639Z");
        assert_eq!(utc_compact(4_107_542_399_000), "21000228T235959Z");
    }
    use crate::clock::float;

    #[test]
    fn counts_keep_two_digits() {
        for (value, expect) in [
            (0.0, "0"),
            (1e-9, "<0.001"),
            (0.04, "0.040"),
            (0.5, "0.50"),
            (0.999, "1.0"),
            (7.0, "7"),
            (7.25, "7.2"),
            (87.4, "87"),
            (999.4, "999"),
            (999.6, "1.0k"),
            (8_240.0, "8.2k"),
            (9_960.0, "10k"),
            (310_000.0, "310k"),
            (999_600.0, "1.0M"),
            (1_500_000.0, "1.5M"),
            (2e14, "200T"),
            (1e300, "1e300"),
            (f64::NAN, "n/a"),
            (f64::INFINITY, "n/a"),
        ] {
            assert_eq!(count(value), expect, "{value}");
        }
    }

    #[test]
    fn durations_choose_their_unit() {
        for (ns, expect) in [
            (0.0, "0"),
            (1.0, "1 ns"),
            (101_000.0, "101 µs"),
            (1_240_000.0, "1.2 ms"),
            (999_700_000.0, "1.0 s"),
            (540e6, "540 ms"),
            (45e9, "45 s"),
            (1_200e9, "20 min"),
            (float(u64::MAX), "585 y"),
        ] {
            assert_eq!(duration(ns), expect, "{ns}");
        }
    }

    #[test]
    fn bytes_are_binary() {
        for (value, expect) in [
            (0.0, "0"),
            (5.0, "5 B"),
            (999.0, "999 B"),
            (1000.0, "0.98 KiB"),
            (1024.0, "1.0 KiB"),
            (5.4 * 1024.0 * 1024.0, "5.4 MiB"),
            (162.0 * 1024.0 * 1024.0, "162 MiB"),
            (float(u64::MAX), "16 EiB"),
        ] {
            assert_eq!(bytes(value), expect, "{value}");
        }
    }

    #[test]
    fn ratios_show_hundredths_where_they_matter() {
        for (value, expect) in [
            (0.0, "0.00"),
            (0.923, "0.92"),
            (1.0, "1.00"),
            (9.999, "10"),
            (38.2, "38"),
            (12_000.0, "12k"),
        ] {
            assert_eq!(ratio(value), expect, "{value}");
        }
    }

    #[test]
    fn dates_follow_the_calendar() {
        for (ms, expect) in [
            (0, "1970-01-01 00:00 UTC"),
            (951_782_340_000, "2000-02-28 23:59 UTC"),
            (951_782_400_000, "2000-02-29 00:00 UTC"),
            (1_772_323_199_000, "2026-02-28 23:59 UTC"),
            (1_798_761_600_000, "2027-01-01 00:00 UTC"),
        ] {
            assert_eq!(utc(ms), expect, "{ms}");
        }
        assert!(utc(u64::MAX).ends_with("UTC"));
    }

    #[test]
    fn iso_times_have_milliseconds_and_a_number_stands_in_where_there_is_no_date() {
        for (ms, expect) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (1_795_957_621_653, "2026-11-29T13:07:01.653Z"),
            (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
            (253_402_300_800_000, "253402300800000 ms"),
            (-1, "-1 ms"),
            (i64::MIN, "-9223372036854775808 ms"),
        ] {
            assert_eq!(utc_iso(ms), expect, "{ms}");
        }
    }

    #[test]
    fn clipped_text_holds_no_control_characters() {
        assert_eq!(clipped("group_commit", 12), "group_commit");
        assert_eq!(clipped("group_commit", 6), "group…");
        assert_eq!(clipped("a\u{1b}[2J\u{202e}", 9), "a\u{fffd}[2J\u{fffd}");
    }

    #[test]
    fn escaped_text_cannot_leave_its_place() {
        assert_eq!(
            escaped("<b a=\"x\" b='y'>&\u{0}\n"),
            "&lt;b a=&quot;x&quot; b=&#39;y&#39;&gt;&amp;\u{fffd}\n"
        );
    }
}
