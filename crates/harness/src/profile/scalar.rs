//! Single values of a profile: numbers, sizes, names, and what to say when they are wrong.

use std::ops::RangeInclusive;

/// A whole number within `range`, or what is wrong with it.
pub(super) fn integer<T>(text: &str, range: &RangeInclusive<T>) -> Result<T, String>
where
    T: Copy + Into<u64> + TryFrom<u64>,
{
    let (least, most) = (*range.start(), *range.end());
    let allowed = format!("{} to {}", least.into(), most.into());
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("{} is not a whole number ({allowed})", quoted(text)));
    }
    // What does not even fit 64 bits is out of range all the same.
    text.parse::<u64>()
        .ok()
        .filter(|value| (least.into()..=most.into()).contains(value))
        .and_then(|value| T::try_from(value).ok())
        .ok_or_else(|| format!("{} is out of range ({allowed})", shortened(text)))
}

/// A number of bytes within `range`: a whole number, or one with `KiB`, `MiB` or `GiB`.
pub(super) fn size(text: &str, range: &RangeInclusive<u64>) -> Result<u64, String> {
    let units = [("KiB", 1_u64 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];
    let (number, unit_bytes) = units
        .iter()
        .find_map(|(unit, bytes)| Some((text.strip_suffix(unit)?.trim_end(), *bytes)))
        .unwrap_or((text, 1));
    if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        let text = quoted(text);
        return Err(format!("{text} is not a size: give bytes, or a number with KiB, MiB or GiB"));
    }
    number
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(unit_bytes))
        .filter(|bytes| range.contains(bytes))
        .ok_or_else(|| {
            let (least, most) = (range.start(), range.end());
            format!("{} is out of range ({least} to {most} bytes)", shortened(text))
        })
}

/// Whether `text` may name something: it stands in file names and in the lines of a table.
pub(super) fn check_name(text: &str) -> Result<(), String> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let is_name = text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(is_allowed)
        && text.len() <= NAME_LIMIT;
    if is_name {
        return Ok(());
    }
    Err(format!(
        "{} is not a name: give up to {NAME_LIMIT} of A-Z a-z 0-9 - _ . that begin with a letter \
         or a digit",
        quoted(text)
    ))
}

/// What there is instead of `wanted`, and which of it was probably meant.
pub(super) fn have(wanted: &str, names: &[&str]) -> String {
    let list = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
    match closest(wanted, names) {
        Some(name) => format!("have: {list}; did you mean {}?", quoted(name)),
        None => format!("have: {list}"),
    }
}

/// The name that differs least from `wanted`, if it is not too much: one letter in three.
pub(super) fn closest<'a>(wanted: &str, names: &[&'a str]) -> Option<&'a str> {
    if wanted.len() > NAME_LIMIT {
        return None;
    }
    let len = wanted.chars().count();
    let allowed = (len / 3).max(1);
    names
        .iter()
        // The distance is no less than the difference of the lengths, which is found sooner.
        .filter(|name| name.chars().count().abs_diff(len) <= allowed)
        .map(|name| (distance(wanted, name), *name))
        .filter(|(distance, _)| *distance <= allowed)
        .min()
        .map(|(_, name)| name)
}

/// Insertions, deletions and substitutions that make `b` of `a`: Levenshtein's distance.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        // What the row above had to the left.
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

/// `text` in back quotes, as [`shortened`].
pub(super) fn quoted(text: &str) -> String {
    format!("`{}`", shortened(text))
}

/// `text` fit for one line of an error: 40 characters at most, none of them a control character.
pub(super) fn shortened(text: &str) -> String {
    let mut shown: String = text.chars().take(SHOWN_LIMIT).flat_map(char::escape_debug).collect();
    if text.chars().nth(SHOWN_LIMIT).is_some() {
        shown.push('…');
    }
    shown
}

/// Longest name, so that a file name made of two of them fits every file system.
const NAME_LIMIT: usize = 64;
const SHOWN_LIMIT: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_decimal_and_in_range() {
        #[track_caller]
        fn check(text: &str, expect: Result<u32, &str>) {
            assert_eq!(integer(text, &(1..=100_u32)), expect.map_err(str::to_owned));
        }
        check("1", Ok(1));
        check("100", Ok(100));
        check("007", Ok(7));
        check("0", Err("0 is out of range (1 to 100)"));
        check("101", Err("101 is out of range (1 to 100)"));
        check("-1", Err("-1 is out of range (1 to 100)"));
        check("4294967297", Err("4294967297 is out of range (1 to 100)"));
        check("99999999999999999999", Err("99999999999999999999 is out of range (1 to 100)"));
        check("", Err("`` is not a whole number (1 to 100)"));
        check("1.5", Err("`1.5` is not a whole number (1 to 100)"));
        check("1e3", Err("`1e3` is not a whole number (1 to 100)"));
        check("0x10", Err("`0x10` is not a whole number (1 to 100)"));
        check("+5", Err("`+5` is not a whole number (1 to 100)"));
        check("five", Err("`five` is not a whole number (1 to 100)"));
    }

    #[test]
    fn sizes_have_binary_units() {
        #[track_caller]
        fn check(text: &str, expect: Result<u64, &str>) {
            assert_eq!(size(text, &(0..=1 << 31)), expect.map_err(str::to_owned));
        }
        const HELP: &str = "is not a size: give bytes, or a number with KiB, MiB or GiB";
        check("0", Ok(0));
        check("4096", Ok(4096));
        check("1KiB", Ok(1024));
        check("64 MiB", Ok(64 << 20));
        check("2GiB", Ok(2 << 30));
        check("3GiB", Err("3GiB is out of range (0 to 2147483648 bytes)"));
        check(
            "18446744073709551615GiB",
            Err("18446744073709551615GiB is out of range (0 to 2147483648 bytes)"),
        );
        for text in ["1KB", "1kib", "1.5MiB", "KiB", "", "-1KiB", "64M"] {
            check(text, Err(&format!("`{text}` {HELP}")));
        }
    }

    #[test]
    fn names_are_fit_for_files() {
        for name in ["a", "closed-1k", "v2.1_x", "0", &"n".repeat(64)] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        for name in ["", ".", "..", "-x", "a/b", "a b", "é", "a\n", &"n".repeat(65)] {
            assert!(check_name(name).unwrap_err().contains("is not a name"), "{name}");
        }
    }

    #[test]
    fn a_slip_of_the_pen_is_recognised() {
        #[track_caller]
        fn check(wanted: &str, expect: &str) {
            assert_eq!(have(wanted, &["none", "staged", "sync", "timed"]), expect);
        }
        const ALL: &str = "have: none, staged, sync, timed";
        check("synk", &format!("{ALL}; did you mean `sync`?"));
        check("stagd", &format!("{ALL}; did you mean `staged`?"));
        check("tiemd", ALL);
        check("raft", ALL);
        check("", ALL);
        assert_eq!(have("x", &[]), "have: nothing");
    }

    #[test]
    fn distances_count_edits() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!((distance("", "abc"), distance("abc", ""), distance("a", "a")), (3, 3, 0));
    }

    #[test]
    fn what_is_shown_is_short_and_of_one_line() {
        assert_eq!(quoted("a\nb\u{1b}[0m"), "`a\\nb\\u{1b}[0m`");
        assert_eq!(shortened(&"x".repeat(1000)), format!("{}…", "x".repeat(40)));
    }
}
