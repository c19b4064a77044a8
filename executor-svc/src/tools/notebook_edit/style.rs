//! How a notebook is written: what it escapes, and how it is spaced.

use std::fmt::Write as _;

use super::document::{Cell, Document};

/// What holds for the whole file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Style {
    letters: Letters,
}

/// How characters beyond ASCII are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Letters {
    /// As themselves.
    Plain,
    /// As `\u00e9`.
    Lower,
    /// As `\u00E9`.
    Upper,
}

impl Style {
    pub(super) fn of(text: &str) -> Self {
        Self { letters: letters(text) }
    }

    /// The text as a JSON string.
    pub(super) fn string(self, text: &str) -> String {
        let mut out = String::with_capacity(text.len() + 2);
        out.push('"');
        for c in text.chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\u{8}' => out.push_str("\\b"),
                '\u{c}' => out.push_str("\\f"),
                '\0'..='\u{1f}' => self.escape(c, &mut out),
                ' '..='~' => out.push(c),
                _ if self.letters == Letters::Plain => out.push(c),
                _ => self.escape(c, &mut out),
            }
        }
        out.push('"');
        out
    }

    fn escape(self, c: char, out: &mut String) {
        for unit in c.encode_utf16(&mut [0; 2]) {
            // Writing to a string does not fail.
            let _ = match self.letters {
                Letters::Upper => write!(out, "\\u{unit:04X}"),
                Letters::Plain | Letters::Lower => write!(out, "\\u{unit:04x}"),
            };
        }
    }

    /// The space behind a comma where the space before the first element is this.
    pub(super) fn after_comma(self, before_first: &str) -> &str {
        if before_first.is_empty() { " " } else { before_first }
    }

    /// The space around the first cell of a notebook that has none.
    pub(super) fn around_cells(self, document: &Document<'_>) -> (String, String) {
        let outer = Indentation::of(document);
        (outer.line(2), outer.line(1))
    }
}

fn letters(text: &str) -> Letters {
    if !text.is_ascii() {
        return Letters::Plain;
    }
    let escapes =
        memchr::memmem::find_iter(text.as_bytes(), b"\\u").filter_map(|at| text.get(at + 2..at + 6));
    let beyond = escapes.filter(|digits| u16::from_str_radix(digits, 16).is_ok_and(|unit| unit > 0x7f));
    let mut found = None;
    for digits in beyond {
        if digits.bytes().any(|digit| digit.is_ascii_uppercase()) {
            return Letters::Upper;
        }
        found = Some(Letters::Lower);
        if digits.bytes().any(|digit| digit.is_ascii_lowercase()) {
            break;
        }
    }
    found.unwrap_or(Letters::Plain)
}

/// How the lines of a file are indented, as far as its outermost members tell.
#[derive(Debug)]
pub(super) struct Indentation {
    /// The line end and the step; `None` where all is in one line.
    steps: Option<(&'static str, String)>,
}

impl Indentation {
    pub(super) fn of(document: &Document<'_>) -> Self {
        let first = document.members.first().map(|member| member.key_at.start).unwrap_or_default();
        let lead = document.text[..first].trim_start().strip_prefix('{').unwrap_or_default();
        let step = lead.rsplit('\n').next().unwrap_or_default().to_owned();
        let end = if lead.contains("\r\n") { "\r\n" } else { "\n" };
        Self { steps: lead.contains('\n').then_some((end, step)) }
    }

    /// The space before something so deep inside.
    pub(super) fn line(&self, depth: usize) -> String {
        self.steps.as_ref().map_or_else(String::new, |(end, step)| format!("{end}{}", step.repeat(depth)))
    }
}

/// How a list of strings is spaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ListStyle {
    pub first: String,
    pub between: String,
    pub last: String,
}

impl ListStyle {
    /// As the source of this cell is; `None` if that is no list or an empty one. With a single line, what stands
    /// between two is not seen but concluded.
    fn of(cell: &Cell, document: &Document<'_>) -> Option<(Self, bool)> {
        let member = cell.member("source").filter(|_| cell.has_lines())?;
        let list = &document.text[member.value_at.clone()];
        let inside = list.strip_prefix('[')?.strip_suffix(']')?;
        let first = &inside[..inside.find('"')?];
        let last = &inside[inside.rfind('"')? + 1..];
        let elements: Vec<&serde_json::value::RawValue> = serde_json::from_str(list).ok()?;
        let between = elements.get(1).map(|second| {
            let end = elements[0].get().as_ptr().addr() + elements[0].get().len() - list.as_ptr().addr();
            list[end..second.get().as_ptr().addr() - list.as_ptr().addr()].to_owned()
        });
        let seen = between.is_some();
        let between = between.unwrap_or_else(|| format!(",{}", document.style.after_comma(first)));
        Some((Self { first: first.to_owned(), between, last: last.to_owned() }, seen))
    }

    /// As the source of this cell is, or that of others.
    pub(super) fn near(cell: Option<&Cell>, document: &Document<'_>) -> Self {
        let own = cell.and_then(|cell| Self::of(cell, document));
        if let Some((style, true)) = own {
            return style;
        }
        let others: Vec<_> = document.cells.iter().filter_map(|cell| Self::of(cell, document)).collect();
        let best =
            others.iter().find(|(_, seen)| *seen).or_else(|| others.first()).map(|(style, _)| style.clone());
        match (own, best) {
            // The same space before the first: then the same between as well.
            (Some((own, _)), Some(other)) if own.first == other.first => other,
            (Some((own, _)), _) => own,
            (None, Some(other)) => other,
            (None, None) => Self::concluded(cell, document),
        }
    }

    /// As the indentation of the cell, or of the whole file, suggests.
    fn concluded(cell: Option<&Cell>, document: &Document<'_>) -> Self {
        let indentation = Indentation::of(document);
        let own = cell.and_then(|cell| {
            cell.members.first().map(|first| document.text[cell.at.start + 1..first.key_at.start].to_owned())
        });
        let last = own.unwrap_or_else(|| indentation.line(3));
        let step = indentation.steps.map(|(_, step)| step).unwrap_or_default();
        let (first, last) = if last.contains('\n') {
            (format!("{last}{step}"), last)
        } else {
            (String::new(), String::new())
        };
        let between = format!(",{}", document.style.after_comma(&first));
        Self { first, between, last }
    }
}
