//! The syntax of Java's properties files: what stands where, and nothing of what it means.

use super::{Finding, Level};

/// One key and its value.
pub(super) struct Property {
    pub(super) key: Word,
    pub(super) value: Word,
}

/// A text, its escapes resolved, and where it begins.
pub(super) struct Word {
    pub(super) text: String,
    pub(super) place: Place,
}

/// A line and a column in characters, both from 1.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Place {
    pub(super) line: u64,
    pub(super) column: u64,
}

impl Place {
    pub(super) fn finding(self, level: Level, message: String) -> Finding {
        let Self { line, column } = self;
        Finding { file_name: String::new(), line, column, level, message }
    }
}

/// The properties in the order written, or what Java would refuse too.
pub(super) fn parse(text: &str) -> Result<Vec<Property>, Finding> {
    let mut properties = Vec::new();
    let mut lines = (1..).zip(text.lines());
    while let Some((number, line)) = lines.next() {
        let trimmed = line.trim_start_matches(BLANKS);
        if trimmed.is_empty() || trimmed.starts_with(['#', '!']) {
            continue;
        }
        let mut letters = Letters::default();
        let mut continued = letters.push_line(number, line);
        while continued {
            let Some((number, line)) = lines.next() else { break };
            continued = letters.push_line(number, line);
        }
        properties.push(letters.property()?);
    }
    Ok(properties)
}

/// The characters of a key and its value, with their places: lines that a backslash joins are one.
#[derive(Default)]
struct Letters {
    letters: Vec<(char, Place)>,
    next: usize,
}

impl Letters {
    /// Adds a line without the blanks before it; whether the next one belongs to it.
    fn push_line(&mut self, number: u64, line: &str) -> bool {
        let places = (1..).map(|column| Place { line: number, column });
        let letters = line.chars().zip(places);
        self.letters.extend(letters.skip_while(|(letter, _)| BLANKS.contains(letter)));
        let backslashes = line.chars().rev().take_while(|letter| *letter == '\\').count();
        // An even number are escaped backslashes.
        let continued = backslashes % 2 == 1;
        if continued {
            self.letters.pop();
        }
        continued
    }

    fn property(mut self) -> Result<Property, Finding> {
        let key = self.word(|letter| BLANKS.contains(&letter) || "=:".contains(letter))?;
        self.skip_blanks();
        if self.peek().is_some_and(|letter| "=:".contains(letter)) {
            self.next += 1;
            self.skip_blanks();
        }
        let value = self.word(|_| false)?;
        Ok(Property { key, value })
    }

    fn peek(&self) -> Option<char> {
        self.letters.get(self.next).map(|(letter, _)| *letter)
    }

    fn skip_blanks(&mut self) {
        while self.peek().is_some_and(|letter| BLANKS.contains(&letter)) {
            self.next += 1;
        }
    }

    /// The place of the next letter; after the last one, the place behind it.
    fn place(&self) -> Place {
        let behind = |place: &Place| Place { column: place.column + 1, ..*place };
        let last = self.letters.last().map(|(_, place)| behind(place));
        let here = self.letters.get(self.next).map(|(_, place)| *place);
        here.or(last).unwrap_or(Place { line: 1, column: 1 })
    }

    /// All until a letter at which it ends, unless that is escaped.
    fn word(&mut self, is_end: impl Fn(char) -> bool) -> Result<Word, Finding> {
        let place = self.place();
        let mut text = String::new();
        while let Some(letter) = self.peek().filter(|letter| !is_end(*letter)) {
            let at = self.place();
            self.next += 1;
            text.push(if letter == '\\' { self.escaped(at)? } else { letter });
        }
        Ok(Word { text, place })
    }

    /// What stands for itself behind a backslash, or for something else.
    fn escaped(&mut self, at: Place) -> Result<char, Finding> {
        let Some(letter) = self.peek() else { return Ok('\\') };
        self.next += 1;
        Ok(match letter {
            't' => '\t',
            'n' => '\n',
            'r' => '\r',
            'f' => '\u{c}',
            'u' => {
                let digits = self.letters.get(self.next..self.next + 4);
                let digits: Option<String> =
                    digits.map(|digits| digits.iter().map(|(letter, _)| letter).collect());
                let code = digits
                    .filter(|digits| digits.chars().all(|digit| digit.is_ascii_hexdigit()))
                    .and_then(|digits| u32::from_str_radix(&digits, 16).ok());
                self.next += 4;
                let Some(letter) = code.and_then(char::from_u32) else {
                    let message = "a \\u is followed by the four digits of a character".to_owned();
                    return Err(at.finding(Level::Error, message));
                };
                letter
            }
            other => other,
        })
    }
}

const BLANKS: [char; 3] = [' ', '\t', '\u{c}'];

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: &[(&str, &str)]) {
        let found = parse(text).map_err(|finding| finding.message).unwrap();
        let found: Vec<(&str, &str)> = found
            .iter()
            .map(|found| (found.key.text.as_str(), found.value.text.as_str()))
            .collect();
        assert_eq!(found, expect, "{text:?}");
    }

    #[test]
    fn keys_and_values_are_apart_as_in_java() {
        check("", &[]);
        check("a=1", &[("a", "1")]);
        check("a = 1\nb:2\n c\t3\r\nd", &[("a", "1"), ("b", "2"), ("c", "3"), ("d", "")]);
        check("# a=1\n  ! b=2\n\n \t\n", &[]);
        check("a==1\nb :: 2", &[("a", "=1"), ("b", ": 2")]);
        // A blank at the end belongs to the value.
        check("a=1 ", &[("a", "1 ")]);
        check("a=1 # no comment", &[("a", "1 # no comment")]);
    }

    #[test]
    fn lines_are_continued_as_in_java() {
        check("a=1\\\n   2\nb=3", &[("a", "12"), ("b", "3")]);
        check("a=1\\\\\nb=2", &[("a", "1\\"), ("b", "2")]);
        check("a=\\\n# no comment\\\n\nb=2", &[("a", "# no comment"), ("b", "2")]);
        // A comment goes to the end of its line.
        check("# a\\\nb=1", &[("b", "1")]);
        check("a=1\\", &[("a", "1")]);
    }

    #[test]
    fn escapes_are_resolved_as_in_java() {
        check("a\\=b\\ c=d\\te", &[("a=b c", "d\te")]);
        check("\\u0061=\\u00e9\\q", &[("a", "éq")]);
        for text in ["a=\\u12", "a=\\u12g4", "a=\\u+123", "a=\\ud800", "\\u"] {
            let finding = parse(text).err().unwrap();
            assert!(finding.message.contains("four digits"), "{text}");
        }
        let finding = parse("x=1\nab = c\\u12").err().unwrap();
        assert_eq!((finding.line, finding.column), (2, 7));
    }

    #[test]
    fn places_are_those_in_the_file() {
        let found = parse("# é\n é = v\nb=\\\n  w\nc").unwrap();
        let places: Vec<[(u64, u64); 2]> = found
            .iter()
            .map(|found| {
                [&found.key, &found.value].map(|word| (word.place.line, word.place.column))
            })
            .collect();
        assert_eq!(places, [[(2, 2), (2, 6)], [(3, 1), (4, 3)], [(5, 1), (5, 2)]]);
    }
}
