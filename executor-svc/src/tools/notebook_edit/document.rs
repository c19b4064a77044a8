//! A notebook as text, with the places of its cells and their members.

use std::collections::HashSet;
use std::fmt;
use std::ops::Range;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::style::Style;

/// Why a text is not a notebook that can be edited.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Invalid {
    #[error("it is not JSON: {0}")]
    NotJson(String),
    #[error("it is no JSON object")]
    NoObject,
    #[error("it has no {0}")]
    Missing(&'static str),
    #[error("it is of nbformat {0}, not 4")]
    Format(u64),
    #[error("its {0} is not what it should be")]
    Form(&'static str),
    #[error("cell {index}: {what}")]
    Cell { index: usize, what: &'static str },
    #[error("the key {0} is there twice")]
    DuplicateKey(String),
    #[error("two cells have the id {0}")]
    DuplicateId(String),
    #[error("it is written in a form that could not be kept")]
    Unwritable,
}

/// A JSON object's members in order, each with the place of its value.
struct Members<'a>(Vec<(String, &'a RawValue)>);
/// A JSON array's elements in order.
struct Elements<'a>(Vec<&'a RawValue>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Members<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}

impl<'de> Deserialize<'de> for Elements<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Elements<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut elements = Vec::new();
                while let Some(element) = seq.next_element()? {
                    elements.push(element);
                }
                Ok(Elements(elements))
            }
        }
        deserializer.deserialize_seq(Collect)
    }
}

/// A member of an object, by its places in the text.
#[derive(Debug, Clone)]
pub(super) struct Member {
    pub key: String,
    pub key_at: Range<usize>,
    pub value_at: Range<usize>,
}

/// A cell.
#[derive(Debug)]
pub(super) struct Cell {
    pub at: Range<usize>,
    pub members: Vec<Member>,
    pub id: Option<String>,
    pub kind: String,
    source: Source,
}

/// The source of a cell, in one of its two forms.
#[derive(Debug)]
pub(super) enum Source {
    Text(String),
    Lines(Vec<String>),
}

/// A notebook.
#[derive(Debug)]
pub(super) struct Document<'a> {
    pub text: &'a str,
    pub cells: Vec<Cell>,
    /// The members of the whole.
    pub members: Vec<Member>,
    /// The array of cells, brackets included.
    cells_at: Range<usize>,
    minor: u64,
    pub style: Style,
}

impl Cell {
    pub(super) fn text<'a>(&self, document: &Document<'a>) -> &'a str {
        &document.text[self.at.clone()]
    }

    pub(super) fn source(&self) -> String {
        match &self.source {
            Source::Text(text) => text.clone(),
            Source::Lines(lines) => lines.concat(),
        }
    }

    pub(super) const fn has_lines(&self) -> bool {
        matches!(self.source, Source::Lines(_))
    }

    pub(super) fn member(&self, key: &str) -> Option<&Member> {
        self.members.iter().find(|member| member.key == key)
    }
}

impl<'a> Document<'a> {
    pub(super) fn parse(text: &'a str) -> Result<Self, Invalid> {
        let whole: &RawValue =
            serde_json::from_str(text).map_err(|error| Invalid::NotJson(error.to_string()))?;
        let members = members(text, whole, Invalid::NoObject)?;
        let find =
            |key: &'static str| members.iter().find(|member| member.key == key).ok_or(Invalid::Missing(key));
        let number = |key: &'static str| {
            let at = find(key)?.value_at.clone();
            serde_json::from_str::<u64>(&text[at]).map_err(|_| Invalid::Form(key))
        };
        match number("nbformat")? {
            4 => {}
            other => return Err(Invalid::Format(other)),
        }
        let minor = number("nbformat_minor")?;
        let cells_at = find("cells")?.value_at.clone();
        let Elements(raw) =
            serde_json::from_str(&text[cells_at.clone()]).map_err(|_| Invalid::Form("cells"))?;
        let cells = raw.into_iter().enumerate().map(|(index, raw)| cell(text, index, raw));
        let cells = cells.collect::<Result<Vec<_>, _>>()?;
        let mut ids = HashSet::new();
        if let Some(twice) = cells.iter().filter_map(|cell| cell.id.as_ref()).find(|id| !ids.insert(*id)) {
            return Err(Invalid::DuplicateId(twice.clone()));
        }
        let style = Style::of(text);
        Ok(Self { text, cells, members, cells_at, minor, style })
    }

    /// Whether cells have ids of their own in this version of the format.
    pub(super) const fn has_ids(&self) -> bool {
        self.minor >= 5
    }

    /// The cells' names: their ids, or `cell-N`.
    pub(super) fn names(&self) -> impl Iterator<Item = String> {
        let name = |(index, cell): (usize, &Cell)| cell.id.clone().unwrap_or_else(|| format!("cell-{index}"));
        self.cells.iter().enumerate().map(name)
    }

    /// The cell of that name. A real id comes before a number.
    pub(super) fn index_of(&self, name: &str) -> Option<usize> {
        let by_id = self.cells.iter().position(|cell| cell.id.as_deref() == Some(name));
        by_id.or_else(|| {
            let number: usize = name.strip_prefix("cell-")?.parse().ok()?;
            // Neither `cell-01` nor `cell-+1`.
            let is_plain = format!("cell-{number}") == name;
            self.cells.get(number).filter(|cell| is_plain && cell.id.is_none()).map(|_| number)
        })
    }

    fn spliced(&self, at: Range<usize>, new: &str) -> String {
        [&self.text[..at.start], new, &self.text[at.end..]].concat()
    }

    pub(super) fn with_cell(&self, index: usize, new: &str) -> String {
        self.spliced(self.cells[index].at.clone(), new)
    }

    pub(super) fn with_new_cell(&self, index: usize, new: &str) -> String {
        let Some(first) = self.cells.first() else {
            let (open, close) = self.style.around_cells(self);
            return self.spliced(self.cells_at.clone(), &format!("[{open}{new}{close}]"));
        };
        // Between two cells as between the first two; with one alone, as before it.
        let between = match self.cells.get(1) {
            Some(second) => self.text[first.at.end..second.at.start].to_owned(),
            None => {
                format!(",{}", self.style.after_comma(&self.text[self.cells_at.start + 1..first.at.start]))
            }
        };
        match index.checked_sub(1) {
            None => self.spliced(first.at.start..first.at.start, &format!("{new}{between}")),
            Some(before) => {
                let end = self.cells[before].at.end;
                self.spliced(end..end, &format!("{between}{new}"))
            }
        }
    }

    pub(super) fn without_cell(&self, index: usize) -> String {
        match (index.checked_sub(1), self.cells.get(index + 1)) {
            (Some(before), _) => self.spliced(self.cells[before].at.end..self.cells[index].at.end, ""),
            (None, Some(next)) => self.spliced(self.cells[index].at.start..next.at.start, ""),
            (None, None) => self.spliced(self.cells_at.clone(), "[]"),
        }
    }
}

/// Where a value stands in the text that it was read from.
fn place(text: &str, raw: &RawValue) -> Range<usize> {
    let start = raw.get().as_ptr().addr() - text.as_ptr().addr();
    start..start + raw.get().len()
}

fn members(text: &str, raw: &RawValue, otherwise: Invalid) -> Result<Vec<Member>, Invalid> {
    let Members(found) = serde_json::from_str(raw.get()).map_err(|_| otherwise)?;
    let mut behind = place(text, raw).start + 1;
    let mut members: Vec<Member> = Vec::with_capacity(found.len());
    let mut keys = HashSet::with_capacity(found.len());
    for (key, value) in found {
        let value_at = place(text, value);
        // Between the values stand only space, a comma, the key, space and a colon.
        let gap = &text[behind..value_at.start];
        let start = gap.find('"').unwrap_or_default();
        let end = gap.rfind('"').map_or(start, |at| at + 1);
        if !keys.insert(key.clone()) {
            return Err(Invalid::DuplicateKey(key));
        }
        members.push(Member { key, key_at: behind + start..behind + end, value_at: value_at.clone() });
        behind = value_at.end;
    }
    Ok(members)
}

fn cell(text: &str, index: usize, raw: &RawValue) -> Result<Cell, Invalid> {
    let fault = |what| Invalid::Cell { index, what };
    let members = members(text, raw, fault("it is no object"))?;
    let value = |key: &str| members.iter().find(|m| m.key == key).map(|m| &text[m.value_at.clone()]);
    let string = |json: &str| serde_json::from_str::<String>(json).ok();
    let kind = value("cell_type").and_then(string).ok_or_else(|| fault("it has no cell_type"))?;
    let id = match value("id") {
        None => None,
        Some(json) => Some(string(json).ok_or_else(|| fault("its id is no string"))?),
    };
    let source = value("source").ok_or_else(|| fault("it has no source"))?;
    let source = match (string(source), serde_json::from_str(source)) {
        (Some(text), _) => Source::Text(text),
        (None, Ok(lines)) => Source::Lines(lines),
        (None, Err(_)) => return Err(fault("its source is neither a string nor a list of strings")),
    };
    Ok(Cell { at: place(text, raw), members, id, kind, source })
}
