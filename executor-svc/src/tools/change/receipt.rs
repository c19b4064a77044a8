//! The receipt of a changed file.

use std::path::PathBuf;

use gatehouse_proto::codes::ActionCode;
use gatehouse_proto::digest::sha256_hex;
use gatehouse_proto::ids::ToolCallId;
use serde::Serialize;

use super::{Change, Facts, comparable};
use crate::files::replace::{How, Outcome, WriterCheck};
use crate::tools::cut::json_len;
use crate::tools::diff;
use crate::tools::receipt::{Frame, Receipt};
use crate::tools::{ReceiptBudget, ToolName};

#[derive(Debug, Serialize)]
struct Body<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    file_path: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    notebook_path: Option<&'a str>,
    before_sha256: Option<String>,
    after_sha256: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    unchanged: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    replacements: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    created_directories: Option<&'a [PathBuf]>,
    #[serde(flatten)]
    notebook: Option<Notebook<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    how: Option<How>,
    #[serde(skip_serializing_if = "Option::is_none")]
    foreign_writer_check: Option<WriterCheck>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'a str>,
    #[serde(flatten)]
    difference: Option<Difference>,
}

#[derive(Debug, Serialize)]
struct Notebook<'a> {
    cell_id: &'a str,
    cells: &'a [String],
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    cells_truncated: bool,
    outputs_dropped: usize,
}

#[derive(Debug, Default, Serialize)]
struct Difference {
    lines_added: usize,
    lines_removed: usize,
    diff: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    diff_truncated: bool,
}

/// Room for what is only known with the difference: two counts and a mark.
const COUNTS: usize = 80;

/// The receipt of a change, within its budget: of the difference and of a notebook's cells as much as fits.
#[must_use]
pub fn receipt(id: &ToolCallId, name: ToolName, budget: ReceiptBudget, change: &Change<'_>) -> Receipt {
    let frame = Frame { id, name: name.as_str(), budget };
    let mut body = body(change);
    if let Some(notebook) = &mut body.notebook {
        let half = frame.budget.bytes() / 2;
        let mut used = 0;
        let fitting = notebook.cells.iter().take_while(|id| {
            used += json_len(id) + 3;
            used <= half
        });
        let fitting = fitting.count();
        notebook.cells_truncated = fitting < notebook.cells.len();
        notebook.cells = &notebook.cells[..fitting];
    } else {
        body.difference = Some(Difference::default());
        let room = frame.room_beside(&body).saturating_sub(COUNTS);
        let before = change.before.map(comparable).unwrap_or_default();
        let found = diff::unified(&before, &comparable(change.after), room);
        body.difference = Some(Difference {
            lines_added: found.added,
            lines_removed: found.removed,
            diff: found.text,
            diff_truncated: found.truncated,
        });
    }
    frame.success(&body)
}

/// The receipt of a change that was refused or failed: the code, message and hint of a [`PlanFault`] or of a fault of
/// the replacement.
///
/// [`PlanFault`]: super::PlanFault
#[must_use]
pub fn refusal(
    id: &ToolCallId,
    name: ToolName,
    budget: ReceiptBudget,
    (code, message, hint): (ActionCode, &str, &str),
) -> Receipt {
    Frame { id, name: name.as_str(), budget }.failure(code, message, hint)
}

fn body<'a>(change: &Change<'a>) -> Body<'a> {
    let (replacements, created_directories, notebook, note) = match change.facts {
        Facts::Edit { replacements } => (Some(*replacements), None, None, None),
        Facts::Write { note } => (None, Some(change.created_directories), None, note.as_deref()),
        Facts::Notebook(facts) => {
            let notebook = Notebook {
                cell_id: &facts.cell_id,
                cells: &facts.cells,
                cells_truncated: false,
                outputs_dropped: facts.outputs_dropped,
            };
            (None, None, Some(notebook), facts.note.as_deref())
        }
    };
    let is_notebook = notebook.is_some();
    // What was made was hashed on the way.
    let known =
        |side: fn(&Outcome) -> &Option<String>| change.outcome.and_then(|outcome| side(outcome).clone());
    Body {
        file_path: (!is_notebook).then_some(change.path),
        notebook_path: is_notebook.then_some(change.path),
        before_sha256: known(|outcome| &outcome.before_sha256).or_else(|| change.before.map(sha256_hex)),
        after_sha256: known(|outcome| &outcome.after_sha256).unwrap_or_else(|| sha256_hex(change.after)),
        unchanged: change.before == Some(change.after),
        replacements,
        created_directories,
        notebook,
        how: change.outcome.map(|outcome| outcome.how),
        foreign_writer_check: change.outcome.map(|outcome| outcome.foreign_writer_check),
        note,
        difference: None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::tools::change::NotebookFacts;

    fn made(change: &Change<'_>, budget: ReceiptBudget) -> Value {
        let id = ToolCallId::mint();
        // The name is the caller's to give; any will do here.
        let receipt = receipt(&id, ToolName::Read, budget, change);
        assert!(receipt.ok && receipt.json.len() <= budget.bytes(), "{} bytes", receipt.json.len());
        serde_json::from_str(&receipt.json).unwrap()
    }

    #[test]
    fn a_receipt_fills_its_budget_and_not_more() {
        let (before, after) = ("\"old\"\n".repeat(40_000), "\"new\"\n".repeat(40_000));
        let facts = Facts::Edit { replacements: 40_000 };
        let change = Change {
            path: "/a",
            facts: &facts,
            before: Some(before.as_bytes()),
            after: after.as_bytes(),
            outcome: None,
            created_directories: &[],
        };
        for budget in [ReceiptBudget::MIN, ReceiptBudget::MAX] {
            let value = made(&change, budget);
            assert_eq!((&value["diff_truncated"], &value["lines_added"]), (&true.into(), &40_000.into()));
            assert!(value.to_string().len() > budget.bytes() - 1_000);
        }
    }

    #[test]
    fn a_new_file_has_no_hash_before_and_an_unchanged_one_says_so() {
        let facts = Facts::Write { note: None };
        let change = Change {
            path: "/a",
            facts: &facts,
            before: None,
            after: b"x",
            outcome: None,
            created_directories: &["/d".into()],
        };
        let new = made(&change, ReceiptBudget::MIN);
        assert!(new["before_sha256"].is_null());
        assert_eq!(new["created_directories"], serde_json::json!(["/d"]));
        let same = made(&Change { before: Some(b"x"), ..change }, ReceiptBudget::MIN);
        assert_eq!((&same["unchanged"], &same["diff"]), (&true.into(), &"".into()));
    }

    #[test]
    fn of_very_many_cells_the_first_are_named() {
        let cells: Vec<String> = (0..5_000).map(|n| format!("cell-{n}")).collect();
        let facts = Facts::Notebook(NotebookFacts {
            cell_id: "cell-0".into(),
            cells,
            outputs_dropped: 2,
            note: None,
        });
        let change = Change {
            path: "/a.ipynb",
            facts: &facts,
            before: Some(b"{}"),
            after: b"[]",
            outcome: None,
            created_directories: &[],
        };
        let value = made(&change, ReceiptBudget::MIN);
        assert_eq!((&value["cells_truncated"], &value["outputs_dropped"]), (&true.into(), &2.into()));
        assert_eq!(value["notebook_path"], "/a.ipynb");
    }
}
