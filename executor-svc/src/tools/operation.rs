//! The receipts of what the operator does with a write: undoing it, and deciding what it comes to.

use std::path::{Path, PathBuf};

use gatehouse_proto::codes::ActionCode;
use gatehouse_proto::ids::ToolCallId;
use serde::Serialize;

use super::change::comparable;
use super::receipt::{Frame, Receipt};
use super::{ReceiptBudget, diff};
use crate::files::replace::{How, Outcome, WriterCheck};

/// What the difference takes at most, in bytes of JSON: many such receipts may stand in one turn.
const DIFFERENCE: usize = 4 * 1024;

/// What was done to a file by the operator.
#[derive(Debug, Clone, Copy)]
pub struct Operation<'a> {
    /// Which operation, on which action.
    pub kind: Kind<'a>,
    /// The file.
    pub path: &'a Path,
    /// The bytes before and their hash; `None` if there was no file.
    pub before: Option<(&'a str, &'a [u8])>,
    /// The bytes after and their hash; `None` if there is no file.
    pub after: Option<(&'a str, &'a [u8])>,
    /// What the write said; `None` if nothing was written, or if a crash came between write and receipt.
    pub outcome: Option<&'a Outcome>,
    /// Directories that were made on the way, also where a crash came between.
    pub created_directories: &'a [PathBuf],
    /// Directories that were removed with the file, also where a crash came between.
    pub removed_directories: &'a [PathBuf],
    /// What else the reader should know.
    pub note: Option<&'a str>,
}

/// Which operation, on which action.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(untagged)]
pub enum Kind<'a> {
    /// An undo.
    Undo {
        /// The action that it undoes.
        undoes: &'a str,
    },
    /// A decision about an uncertain action.
    Resolve {
        /// The uncertain action.
        resolves: &'a str,
        /// What was decided.
        decision: &'static str,
    },
}

#[derive(Debug, Serialize)]
struct Body<'a> {
    #[serde(flatten)]
    kind: Kind<'a>,
    file_path: &'a Path,
    before_sha256: Option<&'a str>,
    after_sha256: Option<&'a str>,
    #[serde(skip_serializing_if = "<[PathBuf]>::is_empty")]
    created_directories: &'a [PathBuf],
    #[serde(skip_serializing_if = "<[PathBuf]>::is_empty")]
    removed_directories: &'a [PathBuf],
    #[serde(skip_serializing_if = "Option::is_none")]
    how: Option<How>,
    #[serde(skip_serializing_if = "Option::is_none")]
    foreign_writer_check: Option<WriterCheck>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'a str>,
    lines_added: usize,
    lines_removed: usize,
    diff: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    diff_truncated: bool,
}

/// The receipt of an operation that was done.
#[must_use]
pub fn receipt(id: &ToolCallId, name: &'static str, operation: &Operation<'_>) -> Receipt {
    let frame = Frame { id, name, budget: ReceiptBudget::MIN };
    let text = |side: Option<(&str, &[u8])>| side.map(|(_, bytes)| comparable(bytes)).unwrap_or_default();
    let found = diff::unified(&text(operation.before), &text(operation.after), DIFFERENCE);
    frame.success(&Body {
        kind: operation.kind,
        file_path: operation.path,
        before_sha256: operation.before.map(|(sha256, _)| sha256),
        after_sha256: operation.after.map(|(sha256, _)| sha256),
        created_directories: operation.created_directories,
        removed_directories: operation.removed_directories,
        how: operation.outcome.map(|outcome| outcome.how),
        foreign_writer_check: operation.outcome.map(|outcome| outcome.foreign_writer_check),
        note: operation.note,
        lines_added: found.added,
        lines_removed: found.removed,
        diff: found.text,
        diff_truncated: found.truncated,
    })
}

/// The receipt of an operation that was refused or failed.
#[must_use]
pub fn refusal(
    id: &ToolCallId,
    name: &'static str,
    kind: Kind<'_>,
    path: &Path,
    (code, message, hint): (ActionCode, &str, &str),
) -> Receipt {
    #[derive(Serialize)]
    struct About<'a> {
        #[serde(flatten)]
        kind: Kind<'a>,
        file_path: &'a Path,
    }
    let frame = Frame { id, name, budget: ReceiptBudget::MIN };
    frame.failure_beside(code, message, hint, &About { kind, file_path: path })
}

/// What is known of an uncertain write when a person has decided.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Decided<'a> {
    /// The action that says what was decided.
    pub resolved_by: &'a str,
    /// What was decided.
    pub decision: &'static str,
    /// The file.
    pub file_path: &'a Path,
    /// What was there before the write; `None` if there was no file.
    pub before_sha256: Option<&'a str>,
    /// What the write should have made of it; `None` if the file should have gone.
    pub intended_sha256: Option<&'a str>,
    /// What is there now, if it can be read; `None` if there is no file.
    pub disk_sha256: Option<&'a str>,
}

/// The receipt of a write that was uncertain, and was not made in the end.
#[must_use]
pub fn decided(
    id: &ToolCallId,
    name: &'static str,
    budget: ReceiptBudget,
    (code, message, hint): (ActionCode, &str, &str),
    decided: &Decided<'_>,
) -> Receipt {
    Frame { id, name, budget }.failure_beside(code, message, hint, decided)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_receipt_names_both_actions_and_both_hashes_and_keeps_its_difference_short() {
        let (id, many) = (ToolCallId::mint(), "line\n".repeat(10_000));
        let operation = Operation {
            kind: Kind::Undo { undoes: "toolu_x" },
            path: Path::new("/w/a"),
            before: Some(("ab", many.as_bytes())),
            after: None,
            outcome: None,
            created_directories: &[],
            removed_directories: &["/w/d".into()],
            note: None,
        };
        let made = receipt(&id, "Undo", &operation);
        let value: Value = serde_json::from_str(&made.json).unwrap();
        assert!(made.ok && made.json.len() < DIFFERENCE + 1024, "{}", made.json.len());
        assert_eq!((&value["name"], &value["undoes"]), (&json!("Undo"), &json!("toolu_x")));
        assert_eq!((&value["before_sha256"], &value["after_sha256"]), (&json!("ab"), &Value::Null));
        assert_eq!(
            (&value["removed_directories"], &value["diff_truncated"]),
            (&json!(["/w/d"]), &json!(true))
        );
        assert_eq!(value["lines_removed"], 10_000);
        assert!(value.get("how").is_none() && value.get("created_directories").is_none());
    }

    #[test]
    fn a_refusal_says_what_it_was_about() {
        let kind = Kind::Resolve { resolves: "toolu_x", decision: "restore_before" };
        let words = (ActionCode::DiskFull, "full", "make room");
        let made = refusal(&ToolCallId::mint(), "Resolve", kind, Path::new("/w/a"), words);
        let value: Value = serde_json::from_str(&made.json).unwrap();
        assert_eq!(made.code, Some(ActionCode::DiskFull));
        for (field, wanted) in
            [("resolves", "toolu_x"), ("decision", "restore_before"), ("code", "disk_full")]
        {
            assert_eq!(value[field], wanted);
        }
    }
}
