//! `NotebookEdit`: one cell of a Jupyter notebook is replaced, inserted or deleted, and no other byte changes.

mod cell;
mod document;
mod style;
#[cfg(test)]
mod tests;

use gatehouse_proto::codes::ActionCode;
use gatehouse_proto::digest::sha256_hex;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::cell::Draft;
use self::document::{Document, Invalid};
use super::change::{Facts, NewBytes, NotebookFacts, PlanFault, Planned, expect_hash};
use super::edit::MAX_TEXT;
use super::input::{Field, InputFault, Kind, Need, checked};
use crate::files::text::BOM;

/// What a brain is told of the tool.
pub const DESCRIPTION: &str = "Changes one cell of a Jupyter notebook (.ipynb, nbformat 4) below the working directory: \
    replaces its source, inserts a cell, or deletes one. Cells are named by their id; a cell without one is `cell-N`, \
    N counting from 0. Nothing is executed. Outputs of a replaced code cell are dropped, for they came from other code; \
    everything else in the file stays as it is, byte for byte.";

pub(super) const FIELDS: &[Field] = &[
    Field {
        name: "notebook_path",
        need: Need::Required,
        kind: Kind::Path,
        description: "Absolute path of the notebook.",
    },
    Field {
        name: "edit_mode",
        need: Need::Required,
        kind: Kind::Choice(&["replace", "insert", "delete"]),
        description: "What to do.",
    },
    Field {
        name: "cell_id",
        need: Need::Optional,
        kind: Kind::Line { min: 1, max: 256 },
        description: "The cell to replace or delete, or the one beside which to insert.",
    },
    Field {
        name: "position",
        need: Need::Optional,
        kind: Kind::Choice(&["before", "after", "start", "end"]),
        description: "Where to insert: before or after cell_id (after is the default), or at the start or end of the \
            notebook (end is the default without cell_id).",
    },
    Field {
        name: "cell_type",
        need: Need::Optional,
        kind: Kind::Choice(&["code", "markdown", "raw"]),
        description: "The type of the inserted cell, or the new type of the replaced one.",
    },
    Field {
        name: "new_source",
        need: Need::Optional,
        kind: Kind::Text { min: 0, max: MAX_TEXT },
        description: "The whole source of the replaced or inserted cell.",
    },
    Field {
        name: "expected_sha256",
        need: Need::Optional,
        kind: Kind::Sha256,
        description: "SHA-256 of the file as Read gave it: the edit is refused if it has changed since.",
    },
];

/// What to do with a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EditMode {
    /// Give it another source.
    Replace,
    /// Put a new one in.
    Insert,
    /// Take it out.
    Delete,
}

/// Where to put a new cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Position {
    /// Before the named cell.
    Before,
    /// After it.
    After,
    /// As the first one.
    Start,
    /// As the last one.
    End,
}

/// What kind a cell is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CellType {
    /// Code, with outputs.
    Code,
    /// Text.
    Markdown,
    /// Text for a converter.
    Raw,
}

impl CellType {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Code => "code",
            Self::Markdown => "markdown",
            Self::Raw => "raw",
        }
    }
}

/// The input of `NotebookEdit`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotebookEditInput {
    /// Absolute path of the notebook.
    pub notebook_path: String,
    /// What to do.
    pub edit_mode: EditMode,
    /// The cell that is meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cell_id: Option<String>,
    /// Where to insert.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<Position>,
    /// The type of the new cell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cell_type: Option<CellType>,
    /// The source of the new cell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_source: Option<String>,
    /// SHA-256 that the file must have, in lower-case hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_sha256: Option<String>,
}

/// Holds an input against the schema.
///
/// # Errors
/// An [`InputFault`] that names the field.
pub fn check(input: &Value) -> Result<NotebookEditInput, InputFault> {
    let input: NotebookEditInput = checked(FIELDS, input)?;
    let beside = matches!(input.position, Some(Position::Before | Position::After));
    let needs_cell = input.edit_mode != EditMode::Insert || beside;
    let fault = |field: &str, problem: &str| Err(InputFault::at(field, problem));
    if needs_cell && input.cell_id.is_none() {
        return fault("cell_id", "is missing: it names the cell that is meant");
    }
    if input.edit_mode != EditMode::Insert && input.position.is_some() {
        return fault("position", "is for edit_mode insert");
    }
    if matches!(input.position, Some(Position::Start | Position::End)) && input.cell_id.is_some() {
        return fault("cell_id", "goes together with position before or after");
    }
    match (input.edit_mode, &input.new_source) {
        (EditMode::Delete, Some(_)) => return fault("new_source", "is not for edit_mode delete"),
        (EditMode::Replace | EditMode::Insert, None) => {
            return fault("new_source", "is missing: it is the whole source of the cell");
        }
        _ => {}
    }
    match (input.edit_mode, input.cell_type) {
        (EditMode::Delete, Some(_)) => fault("cell_type", "is not for edit_mode delete"),
        (EditMode::Insert, None) => fault("cell_type", "is missing: code, markdown or raw"),
        _ => Ok(input),
    }
}

/// What the file is to be, from the input and its bytes (`None` if there is no file).
///
/// # Errors
/// Not there, not as expected, no notebook of a supported form, no such cell.
pub fn plan(input: &NotebookEditInput, before: Option<&[u8]>) -> Result<Planned, PlanFault> {
    let path = &input.notebook_path;
    let bytes = before.ok_or_else(|| PlanFault::not_found(path))?;
    expect_hash(input.expected_sha256.as_deref(), path, bytes)?;
    let (mark, json) = if bytes.starts_with(BOM) { bytes.split_at(BOM.len()) } else { (&[][..], bytes) };
    let text = std::str::from_utf8(json)
        .map_err(|error| PlanFault::not_utf8(path, (mark.len() + error.valid_up_to()) as u64))?;
    let document = Document::parse(text).map_err(|invalid| not_a_notebook(path, &invalid))?;
    let edited = match input.edit_mode {
        EditMode::Replace => replace(input, &document)?,
        EditMode::Insert => insert(input, &document)?,
        EditMode::Delete => delete(input, &document)?,
    };
    confirm(&edited, &document).map_err(|invalid| not_a_notebook(path, &invalid))?;
    let after = [mark, edited.text.as_bytes()].concat();
    let bytes = if after == bytes { NewBytes::Unchanged } else { NewBytes::Replaced(after) };
    Ok(Planned { bytes, facts: Facts::Notebook(edited.facts) })
}

fn not_a_notebook(path: &str, invalid: &Invalid) -> PlanFault {
    PlanFault::new(
        ActionCode::NotebookInvalid,
        format!("{path}: is not a notebook that can be edited by cell: {invalid}"),
        "Edit it as text, with Edit or Write.",
    )
}

/// The text of a notebook after an edit.
struct Edited {
    text: String,
    /// Which of the old cells stand in it unchanged, in order, and where the changed or new one is.
    kept: Vec<usize>,
    touched: Option<(usize, String)>,
    facts: NotebookFacts,
}

/// Reads the result again: it must hold exactly what it is meant to. Costs one more pass, and catches whatever form of
/// a file nobody thought of before it is written.
fn confirm(edited: &Edited, before: &Document<'_>) -> Result<(), Invalid> {
    let after = Document::parse(&edited.text)?;
    let touched = edited.touched.as_ref();
    let untouched =
        after.cells.iter().enumerate().filter(|(at, _)| touched.is_none_or(|(index, _)| index != at));
    let same = untouched
        .map(|(_, cell)| cell.text(&after))
        .eq(edited.kept.iter().map(|at| before.cells[*at].text(before)));
    let source =
        touched.is_none_or(|(at, source)| after.cells.get(*at).is_some_and(|cell| cell.source() == *source));
    if same && source { Ok(()) } else { Err(Invalid::Unwritable) }
}

fn find(input: &NotebookEditInput, document: &Document<'_>) -> Result<usize, PlanFault> {
    let wanted = input.cell_id.as_deref().unwrap_or_default();
    document.index_of(wanted).ok_or_else(|| {
        let names: Vec<String> = document.names().take(20).collect();
        let more = if document.cells.len() > names.len() { ", …" } else { "" };
        PlanFault::new(
            ActionCode::CellNotFound,
            format!("{}: has no cell {wanted}", input.notebook_path),
            format!("It has {} cells: {}{more}.", document.cells.len(), names.join(", ")),
        )
    })
}

fn all_but(count: usize, index: usize) -> Vec<usize> {
    (0..count).filter(|at| *at != index).collect()
}

fn replace(input: &NotebookEditInput, document: &Document<'_>) -> Result<Edited, PlanFault> {
    let index = find(input, document)?;
    let cell = &document.cells[index];
    let source = input.new_source.clone().unwrap_or_default();
    let mut draft = Draft::of(cell, document);
    let done = draft.change(cell, document, &source, input.cell_type);
    let mut names: Vec<String> = document.names().collect();
    let mut notes = done.notes;
    if done.changed && cell.id.is_none() && document.has_ids() {
        let id = fresh_id(document, &source, index);
        draft.set_id(&id, document);
        notes.push(format!("The cell had no id and has one now; it was {}.", names[index]));
        names[index] = id;
    }
    let text = if done.changed { document.with_cell(index, &draft.text()) } else { document.text.to_owned() };
    let facts = NotebookFacts {
        cell_id: names[index].clone(),
        cells: names,
        outputs_dropped: done.outputs_dropped,
        note: (!notes.is_empty()).then(|| notes.join(" ")),
    };
    Ok(Edited { text, kept: all_but(document.cells.len(), index), touched: Some((index, source)), facts })
}

fn insert(input: &NotebookEditInput, document: &Document<'_>) -> Result<Edited, PlanFault> {
    let count = document.cells.len();
    let index = match (input.position, &input.cell_id) {
        (Some(Position::Start), _) => 0,
        (Some(Position::End), _) | (None, None) => count,
        (Some(Position::Before), _) => find(input, document)?,
        (Some(Position::After) | None, _) => find(input, document)? + 1,
    };
    let source = input.new_source.clone().unwrap_or_default();
    let kind = input.cell_type.unwrap_or(CellType::Code);
    let id = document.has_ids().then(|| fresh_id(document, &source, index));
    let cell = Draft::new(document, index, kind, &source, id.as_deref()).text();
    let text = document.with_new_cell(index, &cell);
    let names = names_after(
        document,
        (0..index).map(Some).chain([None]).chain((index..count).map(Some)),
        id.as_ref(),
    );
    let facts = NotebookFacts { cell_id: names[index].clone(), cells: names, outputs_dropped: 0, note: None };
    Ok(Edited { text, kept: (0..count).collect(), touched: Some((index, source)), facts })
}

fn delete(input: &NotebookEditInput, document: &Document<'_>) -> Result<Edited, PlanFault> {
    let index = find(input, document)?;
    let kept = all_but(document.cells.len(), index);
    let cell_id = document.names().nth(index).unwrap_or_default();
    let cells = names_after(document, kept.iter().map(|at| Some(*at)), None);
    let facts = NotebookFacts { cell_id, cells, outputs_dropped: 0, note: None };
    Ok(Edited { text: document.without_cell(index), kept, touched: None, facts })
}

/// The names of cells in a new order; `None` is the new one.
fn names_after(
    document: &Document<'_>,
    order: impl Iterator<Item = Option<usize>>,
    new_id: Option<&String>,
) -> Vec<String> {
    let id = |at: Option<usize>| at.map_or(new_id, |at| document.cells[at].id.as_ref());
    order
        .enumerate()
        .map(|(number, at)| id(at).cloned().unwrap_or_else(|| format!("cell-{number}")))
        .collect()
}

/// An id that no cell has: from the notebook and the new cell, so that the same edit gives the same id again.
fn fresh_id(document: &Document<'_>, source: &str, index: usize) -> String {
    let seed = sha256_hex(format!("{}\0{index}\0{source}", document.text).as_bytes());
    let mut number = 0_u64;
    loop {
        let id = sha256_hex(format!("{seed}{number}").as_bytes())[..8].to_owned();
        if document.index_of(&id).is_none() {
            return id;
        }
        number += 1;
    }
}
