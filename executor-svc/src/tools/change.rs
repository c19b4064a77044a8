//! What the tools that change files have in common: a plan made of input and bytes alone, and its receipt.

mod receipt;

use std::path::PathBuf;

use gatehouse_proto::codes::ActionCode;
use gatehouse_proto::digest::sha256_hex;
use serde::Serialize;

use super::cut::json_len;
use super::edit::shown::Shown;
use super::redact::REDACTED;
use crate::files::replace::Outcome;
use crate::files::text::{BOM, Eol};
pub use receipt::{receipt, refusal};

/// What a tool wants a file to be. Made of the input and the file's bytes alone: the same again from the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    /// The new bytes.
    pub bytes: NewBytes,
    /// What the receipt says besides hashes and differences.
    pub facts: Facts,
}

/// The bytes that a plan leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NewBytes {
    /// Those that are there: nothing is written.
    Unchanged,
    /// These.
    Replaced(Vec<u8>),
}

/// What the receipt of a change says besides hashes and differences.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Facts {
    /// Of `Edit`.
    Edit {
        /// How many places were replaced.
        replacements: usize,
    },
    /// Of `Write`.
    Write {
        /// What the caller should know, if anything.
        note: Option<String>,
    },
    /// Of `NotebookEdit`.
    Notebook(NotebookFacts),
}

/// What the receipt of a changed notebook says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NotebookFacts {
    /// The cell that was replaced, inserted or deleted, by the id that it has (or had).
    pub cell_id: String,
    /// The ids of all cells afterwards, in order; cells without one are `cell-N`.
    pub cells: Vec<String>,
    /// How many outputs of the replaced cell were dropped, since they came from other code.
    pub outputs_dropped: usize,
    /// What else the caller should know.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Why a plan cannot be made. The file is not touched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PlanFault {
    /// The code of the receipt.
    pub code: ActionCode,
    /// What is wrong, in a sentence.
    pub message: String,
    /// What the caller can do.
    pub hint: String,
}

impl PlanFault {
    pub(super) fn new(code: ActionCode, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: hint.into() }
    }

    pub(super) fn not_found(path: &str) -> Self {
        Self::new(
            ActionCode::NotFound,
            format!("{path}: there is no such file"),
            "Look for the name with FindFiles, or make the file with Write.",
        )
    }

    pub(super) fn too_large(path: &str, bytes: usize, limit: u64) -> Self {
        Self::new(
            ActionCode::TooLarge,
            format!("{path}: would have {bytes} bytes, and a file that is changed may have {limit}"),
            "Nothing was changed. Write less.",
        )
    }

    /// Nobody means this text; whoever wrote it has it from a receipt, and it would destroy what it stands for.
    pub(super) fn redacted(path: &str) -> Self {
        Self::new(
            ActionCode::ChangedMeanwhile,
            format!(
                "{path}: would have {REDACTED} where a URL has its password, and has another text there now"
            ),
            "Receipts show passwords so. Change what stands beside it with Edit, and leave the URL as it is.",
        )
    }

    pub(super) fn not_utf8(path: &str, offset: u64) -> Self {
        Self::new(
            ActionCode::NotUtf8,
            format!("{path}: is not UTF-8 text (first bad byte at offset {offset})"),
            "Only UTF-8 text is edited: nothing here can show what such a file says.",
        )
    }
}

/// Holds the hash that the caller expects against the bytes that are there.
pub(super) fn expect_hash(expected: Option<&str>, path: &str, bytes: &[u8]) -> Result<(), PlanFault> {
    let Some(expected) = expected else { return Ok(()) };
    let now = sha256_hex(bytes);
    if now.eq_ignore_ascii_case(expected) {
        return Ok(());
    }
    Err(PlanFault::new(
        ActionCode::ChangedMeanwhile,
        format!("{path}: is not what was expected: its SHA-256 is {now}"),
        "Somebody changed it. Read it again, and decide anew.",
    ))
}

/// How much the names of new directories may take in a receipt, in bytes of JSON. It names each, so that an undo knows them,
/// and must have room for the rest.
const NEW_DIRECTORIES: usize = 8 * 1024;

/// Whether a receipt can name these directories, which are to be made on the way to `path`. Asked before anything is made.
///
/// # Errors
/// [`ActionCode::TooLarge`].
pub fn expect_room_for(path: &str, directories: &[PathBuf]) -> Result<(), PlanFault> {
    let used: usize = directories.iter().map(|made| json_len(&made.to_string_lossy()) + 3).sum();
    if used <= NEW_DIRECTORIES {
        return Ok(());
    }
    Err(PlanFault::new(
        ActionCode::TooLarge,
        format!(
            "{path}: {} directories are missing on the way, more than a receipt can name",
            directories.len()
        ),
        "Nothing was made. Choose a shorter path, or write into directories further up first.",
    ))
}

/// The text for a comparison: as Read shows it, and where it is not UTF-8, as far as it goes.
#[must_use]
pub fn comparable(bytes: &[u8]) -> String {
    Shown::new(bytes)
        .map_or_else(|_| String::from_utf8_lossy(bytes).into_owned(), |shown| shown.text.into_owned())
}

/// How the lines of a text end; `None` if it is not UTF-8.
pub(super) fn eol_of(bytes: &[u8]) -> Option<Eol> {
    Shown::new(bytes).ok().map(|shown| shown.eol)
}

/// Whether the bytes are text that can be compared line by line.
#[must_use]
pub fn is_text(bytes: &[u8]) -> bool {
    !bytes.contains(&0) && Shown::new(bytes).is_ok()
}

/// What a comparison of [`comparable`] texts does not show: line ends and byte order mark, if these differ.
#[must_use]
pub fn form_note(before: &[u8], after: &[u8]) -> Option<String> {
    let mut changes = Vec::new();
    if let (Some(old), Some(new)) = (end_name(before), end_name(after))
        && old != new
    {
        changes.push(format!("the line ends change from {old} to {new}"));
    }
    match (before.starts_with(BOM), after.starts_with(BOM)) {
        (true, false) => changes.push("the byte order mark goes".to_owned()),
        (false, true) => changes.push("a byte order mark comes".to_owned()),
        (true, true) | (false, false) => {}
    }
    if changes.is_empty() && before != after && comparable(before) == comparable(after) {
        changes.push("some line ends change between LF and CR LF".to_owned());
    }
    (!changes.is_empty()).then(|| format!("Not shown: {}.", changes.join(", and ")))
}

/// How lines end, for a sentence; `None` if there are no line ends.
fn end_name(bytes: &[u8]) -> Option<&'static str> {
    match eol_of(bytes)? {
        Eol::Lf => Some("LF"),
        Eol::Crlf => Some("CR LF"),
        Eol::Cr => Some("CR"),
        Eol::Mixed => Some("mixed"),
        Eol::None => None,
    }
}

/// What was done to a file, for its receipt.
#[derive(Debug, Clone, Copy)]
pub struct Change<'a> {
    /// The path as the caller named it.
    pub path: &'a str,
    /// What the plan says.
    pub facts: &'a Facts,
    /// The bytes before; `None` if there was no file.
    pub before: Option<&'a [u8]>,
    /// The bytes after.
    pub after: &'a [u8],
    /// What the write said; `None` if nothing was written, or if a crash came between write and receipt.
    pub outcome: Option<&'a Outcome>,
    /// Directories that were made on the way, also where a crash came between.
    pub created_directories: &'a [PathBuf],
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_that_no_receipt_could_name_are_not_made() {
        let below =
            |count: usize| (1..=count).map(|depth| "/b".repeat(depth).into()).collect::<Vec<PathBuf>>();
        assert!(expect_room_for("/f", &below(40)).is_ok());
        assert_eq!(expect_room_for("/f", &below(260)).unwrap_err().code, ActionCode::TooLarge);
    }

    #[test]
    fn what_lines_do_not_show_is_said() {
        assert_eq!(form_note(b"a\nb\n", b"a\nc\n"), None);
        let ends = form_note(b"a\r\n", b"a\n").unwrap();
        assert_eq!(ends, "Not shown: the line ends change from CR LF to LF.");
        assert!(form_note(b"\xef\xbb\xbfa\n", b"a\n").unwrap().contains("mark goes"));
        let mixed = form_note(b"a\r\nb\nc\n", b"a\nb\r\nc\n").unwrap();
        assert!(mixed.contains("some line ends"), "{mixed}");
        assert!(is_text("é\n".as_bytes()) && !is_text(b"a\0b") && !is_text(b"\xff"));
    }
}
