//! What producers and file names may hold, made fit for a terminal: escaped, clipped, aligned.

use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use harness::format;
use store_core::TimestampMs;

/// `bytes` as text that a terminal shows and does not obey: control characters, characters that
/// cannot be seen or that turn the direction of writing, backslashes and what is no UTF-8 are
/// escaped as in Rust.
pub(super) fn escaped(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for piece in chunk.valid().split_inclusive(['\'', '"']) {
            // Quotes are harmless here.
            let quoted = piece.ends_with(['\'', '"']);
            let (text, quote) = piece.split_at(piece.len() - usize::from(quoted));
            out.extend(text.escape_debug());
            out.push_str(quote);
        }
        for byte in chunk.invalid() {
            write!(out, "\\x{byte:02x}").expect("a string takes what is written");
        }
    }
    out
}

/// Whether all of `bytes` can be shown as it is.
pub(super) fn is_printable(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|text| escaped(bytes) == text)
}

/// A path, escaped.
pub(super) fn path(path: &Path) -> String {
    escaped(path.as_os_str().as_bytes())
}

/// A path as a word for a shell, which `log` takes neither for an option nor for a task.
pub(super) fn shell_word(path: &Path) -> String {
    let bytes = path.as_os_str().as_bytes();
    if bytes.starts_with(b"-") || TASKS.iter().any(|task| task.as_bytes() == bytes) {
        return shell_word(&Path::new(".").join(path));
    }
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-+,:@%".contains(byte);
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.is_empty() && bytes.iter().all(plain) => text.to_owned(),
        Ok(text) if is_printable(bytes) => format!("'{}'", text.replace('\'', r"'\''")),
        _ => {
            let escape = |byte: &u8| {
                if plain(byte) { char::from(*byte).to_string() } else { format!(r"\x{byte:02x}") }
            };
            format!("$'{}'", bytes.iter().map(escape).collect::<String>())
        }
    }
}

/// A file's name, escaped.
pub(super) fn name(path: &Path) -> String {
    escaped(path.file_name().unwrap_or(path.as_os_str()).as_bytes())
}

/// `text`, which must be escaped, in at most `width` columns; if cut, the last one is `…`.
pub(super) fn clipped(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    let mut left = width.saturating_sub(1);
    let mut out: String = text
        .chars()
        .take_while(|c| {
            let fits = char_columns(*c) <= left;
            left = left.saturating_sub(char_columns(*c));
            fits
        })
        .collect();
    out.push('…');
    out
}

/// `text`, which must be escaped, in lines of at most `width` columns, broken at blanks; a longer
/// word is broken anywhere.
pub(super) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for line in folded(text, width) {
        let mut rest = String::new();
        for c in line.chars() {
            if !rest.is_empty() && columns(&rest) + char_columns(c) > width {
                lines.push(std::mem::take(&mut rest));
            }
            rest.push(c);
        }
        lines.push(rest);
    }
    lines
}

/// `text`, which must be escaped, in lines broken at blanks. They have at most `width` columns, but
/// for a longer word: that is a path, which can be copied only where nothing was put into it.
pub(super) fn folded(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split(' ') {
        if !line.is_empty() && columns(&line) + 1 + columns(word) > width {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    lines
}

/// What is said of a path: in one line where that fits, else below it.
pub(super) fn headed(path: &Path, what: &str) -> String {
    let path = self::path(path);
    let blank = if columns(&path) + 2 + columns(what) <= COLUMNS { ' ' } else { '\n' };
    format!("{path}:{blank}{what}")
}

/// `text` in exactly `width` columns, filled up on the right.
pub(super) fn padded(text: &str, width: usize) -> String {
    let mut out = clipped(text, width);
    out.extend(std::iter::repeat_n(' ', width.saturating_sub(columns(&out))));
    out
}

/// The columns that a terminal gives `text`.
pub(super) fn columns(text: &str) -> usize {
    text.chars().map(char_columns).sum()
}

/// Two columns for the scripts and signs that have them; combining signs are counted as one, which
/// leaves a line short at worst.
fn char_columns(c: char) -> usize {
    let wide = matches!(
        c,
        '\u{1100}'..='\u{115f}'
            | '\u{2e80}'..='\u{303e}'
            | '\u{3041}'..='\u{a4cf}'
            | '\u{ac00}'..='\u{d7a3}'
            | '\u{f900}'..='\u{faff}'
            | '\u{fe30}'..='\u{fe6f}'
            | '\u{ff00}'..='\u{ff60}'
            | '\u{ffe0}'..='\u{ffe6}'
            | '\u{1f300}'..='\u{1faff}'
            | '\u{20000}'..='\u{3fffd}'
    );
    if wide { 2 } else { 1 }
}

/// A store time in UTC.
pub(super) fn time(at: TimestampMs) -> String {
    format::utc_iso(at.get())
}

/// A number of milliseconds as people read it.
pub(super) fn span(millis: u64) -> String {
    format::duration(harness::clock::float(millis) * 1e6)
}

/// A number of bytes as people read it.
pub(super) fn bytes(bytes: u64) -> String {
    format::bytes(harness::clock::float(bytes))
}

/// `count` things, with the plural made by an s.
pub(super) fn plural(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Lower-case hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| HEX[usize::from(nibble)];
    let digits: Vec<u8> =
        bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect();
    String::from_utf8(digits).expect("digits are ASCII")
}

const HEX: &[u8; 16] = b"0123456789abcdef";

/// The tasks of `log`, which stand where a store's directory can stand too.
pub(super) const TASKS: [&str; 4] = ["dump", "help", "repair", "verify"];

/// What fits a terminal of the usual width.
pub(super) const COLUMNS: usize = 80;

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    #[test]
    fn what_a_terminal_would_obey_is_escaped() {
        for (bytes, expect) in [
            (&b"orders"[..], "orders"),
            ("主题-é \"it's\"".as_bytes(), "主题-é \"it's\""),
            (b"a\x1b[2J\x07\x00", r"a\u{1b}[2J\u{7}\0"),
            (b"a\r\n\tb\\", r"a\r\n\tb\\"),
            ("\u{202e}\u{200b}\u{2028}\u{9b}".as_bytes(), r"\u{202e}\u{200b}\u{2028}\u{9b}"),
            (b"\xff\xe4\xb8", r"\xff\xe4\xb8"),
        ] {
            let found = escaped(bytes);
            assert_eq!(found, expect);
            assert!(!found.chars().any(char::is_control));
            assert_eq!(is_printable(bytes), found.as_bytes() == bytes);
        }
    }

    #[test]
    fn clipped_text_has_the_width_in_columns() {
        for (text, width, expect) in [
            ("orders", 6, "orders"),
            ("orders", 5, "orde…"),
            ("主题主题", 8, "主题主题"),
            ("主题主题", 7, "主题主…"),
            ("主题主题", 6, "主题…"),
            ("a", 0, "…"),
        ] {
            assert_eq!(clipped(text, width), expect, "{text} {width}");
        }
        assert_eq!(padded("主", 4), "主  ");
    }

    #[test]
    fn wrapped_text_has_no_line_above_the_width_and_loses_nothing() {
        for (text, width, expect) in [
            ("", 5, &[""][..]),
            ("one two", 7, &["one two"]),
            ("one two", 6, &["one", "two"]),
            ("a bcdefgh i", 4, &["a", "bcde", "fgh", "i"]),
            ("主题 主题", 4, &["主题", "主题"]),
        ] {
            assert_eq!(wrapped(text, width), expect, "{text} {width}");
        }
    }

    #[test]
    fn folded_text_keeps_its_words() {
        for (text, width, expect) in [
            ("one two", 7, &["one two"][..]),
            ("one two", 6, &["one", "two"]),
            ("a bcdefgh i", 4, &["a", "bcdefgh", "i"]),
        ] {
            assert_eq!(folded(text, width), expect, "{text} {width}");
        }
        assert_eq!(headed(Path::new("/s"), &"x".repeat(76)).lines().count(), 1);
        assert_eq!(headed(Path::new("/s"), &"x".repeat(77)), format!("/s:\n{}", "x".repeat(77)));
    }

    #[test]
    fn a_path_can_be_given_to_a_shell_again() {
        for (path, expect) in [
            ("/data/mq-1/store", "/data/mq-1/store"),
            ("a b", "'a b'"),
            ("it's", r"'it'\''s'"),
            ("a\nb'", r"$'a\x0ab\x27'"),
            ("", "''"),
            ("-rf", "./-rf"),
            ("dump", "./dump"),
            ("help", "./help"),
            ("dump/s", "dump/s"),
            ("dumps", "dumps"),
        ] {
            assert_eq!(shell_word(Path::new(path)), expect);
        }
        assert_eq!(shell_word(Path::new(OsStr::from_bytes(b"\xff"))), r"$'\xff'");
    }
}
