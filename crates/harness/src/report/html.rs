//! Tables of a report, as HTML.

use crate::clock::float;
use crate::format;
use crate::summary::Stat;

/// A cell of a table: what is read, and what it is sorted by.
#[derive(Clone, Debug)]
pub(super) struct Datum {
    text: String,
    sort: Option<f64>,
    class: &'static str,
}

impl Datum {
    /// A word.
    pub(super) fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), sort: None, class: "" }
    }

    /// A figure.
    pub(super) fn number(value: f64, shown: fn(f64) -> String) -> Self {
        Self::shown(shown(value), value)
    }

    /// A figure that is already written out.
    pub(super) fn shown(text: impl Into<String>, value: f64) -> Self {
        Self { text: text.into(), sort: Some(value), class: "n" }
    }

    /// A count.
    pub(super) fn count(value: u64) -> Self {
        Self::shown(value.to_string(), float(value))
    }

    /// A figure that is not known, or does not apply.
    pub(super) fn missing() -> Self {
        Self { class: "n", ..Self::text("–") }
    }

    /// The figure, or that there is none.
    pub(super) fn maybe(value: Option<f64>, shown: fn(f64) -> String) -> Self {
        value.map_or_else(Self::missing, |value| Self::number(value, shown))
    }

    /// A median with its range.
    pub(super) fn stat(stat: Option<Stat>, shown: fn(f64) -> String) -> Self {
        stat.map_or_else(Self::missing, |stat| {
            let text = format!("{} [{}]", shown(stat.centre()), stat.range(shown));
            Self::shown(text, stat.centre())
        })
    }

    /// The same with a mark before it.
    pub(super) fn preceded_by(self, mark: &str) -> Self {
        Self { text: format!("{mark}{}", self.text), ..self }
    }

    /// The same with a class for its looks.
    pub(super) fn class(self, class: &'static str) -> Self {
        Self { class, ..self }
    }
}

/// A table in a box of its own that scrolls.
#[derive(Clone, Debug)]
pub(super) struct Table<'a> {
    /// What the table is, for those who cannot see its place.
    pub(super) caption: &'a str,
    /// The columns' names.
    pub(super) heads: &'a [&'a str],
    /// The rows; the first cell of each names it.
    pub(super) rows: Vec<Vec<Datum>>,
    /// Whether a click on a column's name sorts by it.
    pub(super) sortable: bool,
}

impl Table<'_> {
    /// The table as HTML, every string escaped.
    pub(super) fn html(&self) -> String {
        let caption = format::escaped(self.caption);
        let class = if self.sortable { " class=\"sortable\"" } else { "" };
        let mut out = format!(
            "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{caption}\">\n\
             <table{class}>\n<caption>{caption}</caption>\n<thead><tr>"
        );
        // A column's name stands over its figures.
        let classes = self.rows.first().into_iter().flatten().map(|datum| datum.class == "n");
        let figures = classes.chain(std::iter::repeat(false));
        out.extend(self.heads.iter().zip(figures).map(|(name, figures)| {
            let class = if figures { " class=\"n\"" } else { "" };
            format!("<th scope=\"col\"{class}>{}</th>", format::escaped(name))
        }));
        out += "</tr></thead>\n<tbody>\n";
        for row in &self.rows {
            out += "<tr>";
            let cells = row.iter().enumerate();
            out.extend(cells.map(|(column, datum)| datum_html(datum, column == 0)));
            out += "</tr>\n";
        }
        out += "</tbody>\n</table>\n</div>\n";
        out
    }
}

fn datum_html(datum: &Datum, names_the_row: bool) -> String {
    let text = format::escaped(&datum.text);
    let class =
        if datum.class.is_empty() { String::new() } else { format!(" class=\"{}\"", datum.class) };
    let sort = datum
        .sort
        .filter(|value| value.is_finite())
        .map_or_else(String::new, |value| format!(" data-v=\"{value}\""));
    if names_the_row {
        format!("<th scope=\"row\"{class}{sort}>{text}</th>")
    } else {
        format!("<td{class}{sort}>{text}</td>")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results_fixture::HOSTILE;

    #[test]
    fn no_string_leaves_its_cell() {
        let table = Table {
            caption: HOSTILE,
            heads: &[HOSTILE, "a"],
            rows: vec![vec![Datum::text(HOSTILE), Datum::number(1500.0, format::count)]],
            sortable: true,
        };
        let html = table.html();
        assert!(!html.contains("<script") && !html.contains('\u{1b}'), "{html}");
        assert_eq!(html.matches("<td").count(), 1);
        assert!(html.contains("<td class=\"n\" data-v=\"1500\">1.5k</td>"), "{html}");
    }
}
