//! A cell that is being changed or made: its members with the space between them, as text.

use serde_json::Value;

use super::CellType;
use super::document::{Cell, Document};
use super::style::{Indentation, ListStyle};

/// A member as it will be written.
#[derive(Debug, Clone)]
struct Part {
    name: String,
    /// The space before the comma that stands before it. Not written for the first one.
    before_comma: String,
    /// The space before the key.
    lead: String,
    key: String,
    /// From behind the key to the value.
    colon: String,
    value: String,
}

/// A cell as it will be written.
#[derive(Debug)]
pub(super) struct Draft {
    parts: Vec<Part>,
    /// The space before the closing brace.
    tail: String,
}

/// What changing a cell did.
#[derive(Debug, Default)]
pub(super) struct Done {
    pub changed: bool,
    pub outputs_dropped: usize,
    pub notes: Vec<String>,
}

/// The members of a new cell, in the order in which Jupyter sorts them.
const ORDER: [&str; 6] = ["cell_type", "execution_count", "id", "metadata", "outputs", "source"];

impl Draft {
    /// The cell as it is.
    pub(super) fn of(cell: &Cell, document: &Document<'_>) -> Self {
        let text = document.text;
        let mut behind = cell.at.start + 1;
        let mut parts = Vec::with_capacity(cell.members.len());
        for member in &cell.members {
            let gap = &text[behind..member.key_at.start];
            let (before_comma, lead) = gap.split_once(',').unwrap_or(("", gap));
            parts.push(Part {
                name: member.key.clone(),
                before_comma: before_comma.to_owned(),
                lead: lead.to_owned(),
                key: text[member.key_at.clone()].to_owned(),
                colon: text[member.key_at.end..member.value_at.start].to_owned(),
                value: text[member.value_at.clone()].to_owned(),
            });
            behind = member.value_at.end;
        }
        Self { parts, tail: text[behind..cell.at.end - 1].to_owned() }
    }

    /// A new cell at this place, written like the ones around it.
    pub(super) fn new(
        document: &Document<'_>,
        index: usize,
        kind: CellType,
        source: &str,
        id: Option<&str>,
    ) -> Self {
        let model = model(document, index, kind);
        let mut draft = model.map_or_else(|| Self::plain(document), |cell| Self::of(cell, document));
        let is_wanted = |name: &str| match name {
            "execution_count" | "outputs" => kind == CellType::Code,
            "id" => id.is_some(),
            other => ORDER.contains(&other),
        };
        draft.retain(is_wanted);
        for name in ORDER.into_iter().filter(|name| is_wanted(name)) {
            let value = match name {
                "cell_type" => document.style.string(kind.as_str()),
                "execution_count" => "null".to_owned(),
                "id" => document.style.string(id.unwrap_or_default()),
                "metadata" => "{}".to_owned(),
                "outputs" => "[]".to_owned(),
                _ => source_value(source, model, document),
            };
            draft.set(name, value);
        }
        draft
    }

    /// A cell of a notebook that has none to be like.
    fn plain(document: &Document<'_>) -> Self {
        let indentation = Indentation::of(document);
        let colon = document.members.first().map_or(": ", |m| &document.text[m.key_at.end..m.value_at.start]);
        let part = Part {
            name: "cell_type".to_owned(),
            before_comma: String::new(),
            lead: indentation.line(3),
            key: "\"cell_type\"".to_owned(),
            colon: colon.to_owned(),
            value: String::new(),
        };
        Self { parts: vec![part], tail: indentation.line(2) }
    }

    /// Gives the cell another source and perhaps another type, and drops what came from the old one.
    pub(super) fn change(
        &mut self,
        cell: &Cell,
        document: &Document<'_>,
        source: &str,
        kind: Option<CellType>,
    ) -> Done {
        let mut done = Done::default();
        let new_kind = kind.map_or(cell.kind.as_str(), |kind| kind.as_str());
        if cell.source() == source && cell.kind == new_kind {
            return done;
        }
        done.changed = true;
        if cell.source() != source {
            self.set("source", source_value(source, Some(cell), document));
        }
        if cell.kind == new_kind && cell.kind != "code" {
            return done;
        }
        done.outputs_dropped = self.count("outputs");
        match (cell.kind.as_str(), new_kind) {
            (_, "code") => {
                if cell.kind != "code" {
                    self.drop_noted("attachments", "a code cell has none", &mut done.notes);
                }
                self.set_unless("outputs", "[]", |value| value == &Value::Array(Vec::new()));
                self.set_unless("execution_count", "null", Value::is_null);
            }
            ("code", _) => self.retain(|name| !matches!(name, "outputs" | "execution_count")),
            _ => {}
        }
        if cell.kind != new_kind {
            self.set("cell_type", document.style.string(new_kind));
        }
        done
    }

    /// Gives the cell an id.
    pub(super) fn set_id(&mut self, id: &str, document: &Document<'_>) {
        self.set("id", document.style.string(id));
    }

    pub(super) fn text(&self) -> String {
        let mut out = String::from("{");
        for (index, part) in self.parts.iter().enumerate() {
            if index > 0 {
                out.push_str(&part.before_comma);
                out.push(',');
            }
            for piece in [&part.lead, &part.key, &part.colon, &part.value] {
                out.push_str(piece);
            }
        }
        out.push_str(&self.tail);
        out.push('}');
        out
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.parts.iter().position(|part| part.name == name)
    }

    fn value(&self, name: &str) -> Option<Value> {
        self.find(name).and_then(|at| serde_json::from_str(&self.parts[at].value).ok())
    }

    fn count(&self, name: &str) -> usize {
        self.value(name).and_then(|value| value.as_array().map(Vec::len)).unwrap_or_default()
    }

    fn set_unless(&mut self, name: &str, value: &str, is_so: impl Fn(&Value) -> bool) {
        if !self.value(name).is_some_and(|value| is_so(&value)) {
            self.set(name, value.to_owned());
        }
    }

    /// Gives a member its value; a new one goes where Jupyter's order has it.
    fn set(&mut self, name: &str, value: String) {
        if let Some(at) = self.find(name) {
            self.parts[at].value = value;
            return;
        }
        let rank = |name: &str| ORDER.iter().position(|known| *known == name);
        let later = |part: &Part| rank(&part.name).is_some_and(|other| Some(other) > rank(name));
        let at = self.parts.iter().position(later).unwrap_or(self.parts.len());
        let first = self.parts.first().map(|part| part.lead.clone()).unwrap_or_default();
        let second = self.parts.get(1).map(|part| part.lead.clone());
        // In one line the first key has no space before it.
        let inner = second.unwrap_or_else(|| if first.is_empty() { " ".to_owned() } else { first.clone() });
        let colon = self.parts.first().map_or_else(|| ": ".to_owned(), |part| part.colon.clone());
        let lead = if at == 0 { first } else { inner.clone() };
        if at == 0
            && let Some(next) = self.parts.first_mut()
        {
            next.lead = inner;
        }
        let (name, key) = (name.to_owned(), format!("\"{name}\""));
        self.parts.insert(at, Part { name, before_comma: String::new(), lead, key, colon, value });
    }

    fn retain(&mut self, is_kept: impl Fn(&str) -> bool) {
        let first = self.parts.first().map(|part| part.lead.clone());
        self.parts.retain(|part| is_kept(&part.name));
        if let (Some(part), Some(lead)) = (self.parts.first_mut(), first) {
            part.lead = lead;
        }
    }

    fn drop_noted(&mut self, name: &str, why: &str, notes: &mut Vec<String>) {
        if self.find(name).is_some() {
            self.retain(|other| other != name);
            notes.push(format!("Its {name} were dropped: {why}."));
        }
    }
}

/// The cell that a new one is written like: of its type if there is one, and near.
fn model<'d>(document: &'d Document<'_>, index: usize, kind: CellType) -> Option<&'d Cell> {
    let distance = |(at, cell): &(usize, &Cell)| (cell.kind != kind.as_str(), at.abs_diff(index));
    document.cells.iter().enumerate().min_by_key(distance).map(|(_, cell)| cell)
}

/// A source as JSON, in the form that the cell's own has: one string, or a list of lines.
fn source_value(source: &str, like: Option<&Cell>, document: &Document<'_>) -> String {
    if like.is_some_and(|cell| !cell.has_lines()) {
        return document.style.string(source);
    }
    let lines: Vec<String> = source.split_inclusive('\n').map(|line| document.style.string(line)).collect();
    if lines.is_empty() {
        return "[]".to_owned();
    }
    let style = ListStyle::near(like, document);
    format!("[{}{}{}]", style.first, lines.join(&style.between), style.last)
}
