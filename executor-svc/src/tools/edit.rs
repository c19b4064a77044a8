//! `Edit`: an exact text of a file is replaced by another.

mod nearest;
pub(super) mod shown;
mod splice;
#[cfg(test)]
mod tests;

use gatehouse_proto::codes::ActionCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::shown::Shown;
use self::splice::{MOST_PLACES, all_places, places, spliced, spliced_len};
use super::change::{Facts, NewBytes, PlanFault, Planned, expect_hash};
use super::input::{Field, InputFault, Kind, Need, checked};
use crate::files::text::Eol;

/// What a brain is told of the tool.
pub const DESCRIPTION: &str = "Replaces an exact piece of text in one file below the working directory. old_string must \
    be in the file exactly once, white space included, as Read shows it (line ends as LF, whatever the file has); with \
    replace_all every occurrence is replaced. Line endings, byte order mark, permissions and every other byte stay as \
    they are. Give expected_sha256 (from Read) to be sure that nobody changed the file since. To make or fill a file, \
    use Write.";

/// The longest text of an input, in bytes: no reply is larger.
pub(super) const MAX_TEXT: usize = 768 * 1024;

pub(super) const FIELDS: &[Field] = &[
    Field {
        name: "file_path",
        need: Need::Required,
        kind: Kind::Path,
        description: "Absolute path of the file.",
    },
    Field {
        name: "old_string",
        need: Need::Required,
        kind: Kind::Text { min: 1, max: MAX_TEXT },
        description: "The text to replace, exactly as it is in the file; with enough of its surroundings to be there \
            only once.",
    },
    Field {
        name: "new_string",
        need: Need::Required,
        kind: Kind::Text { min: 0, max: MAX_TEXT },
        description: "The text to put in its place. Empty to delete it.",
    },
    Field {
        name: "replace_all",
        need: Need::Optional,
        kind: Kind::Flag,
        description: "Replace every occurrence.",
    },
    Field {
        name: "expected_sha256",
        need: Need::Optional,
        kind: Kind::Sha256,
        description: "SHA-256 of the file as Read gave it: the edit is refused if it has changed since.",
    },
];

/// The input of `Edit`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EditInput {
    /// Absolute path of the file.
    pub file_path: String,
    /// The text to replace.
    pub old_string: String,
    /// The text to put in its place.
    pub new_string: String,
    /// Whether to replace every occurrence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replace_all: Option<bool>,
    /// SHA-256 that the file must have, in lower-case hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_sha256: Option<String>,
}

/// Holds an input against the schema.
///
/// # Errors
/// An [`InputFault`] that names the field.
pub fn check(input: &Value) -> Result<EditInput, InputFault> {
    checked(FIELDS, input)
}

/// What the file is to be, from the input and its bytes (`None` if there is no file).
///
/// # Errors
/// Not there, not UTF-8, not as expected, text missing, text ambiguous, more than `most` bytes afterwards.
pub fn plan(input: &EditInput, before: Option<&[u8]>, most: u64) -> Result<Planned, PlanFault> {
    let path = &input.file_path;
    let bytes = before.ok_or_else(|| PlanFault::not_found(path))?;
    expect_hash(input.expected_sha256.as_deref(), path, bytes)?;
    let shown = Shown::new(bytes).map_err(|bad| PlanFault::not_utf8(path, bad.0))?;
    let (old, new) = fitting(input, &shown);
    let count = if input.replace_all == Some(true) {
        places(&shown.text, &old).count()
    } else {
        let all = all_places(&shown.text, &old);
        if all.len() > 1 {
            return Err(ambiguous(path, &shown, &all));
        }
        all.len()
    };
    if count == 0 {
        return Err(missing(path, &shown, &old));
    }
    let len = spliced_len(bytes, &old, &new, count);
    if len as u64 > most {
        return Err(PlanFault::too_large(path, len, most));
    }
    let after = spliced(bytes, &shown, &old, &new, count);
    let bytes = if after == bytes { NewBytes::Unchanged } else { NewBytes::Replaced(after) };
    Ok(Planned { bytes, facts: Facts::Edit { replacements: count } })
}

/// Both texts with line ends as the shown text has them, for a caller may write CR LF where the file has it.
fn fitting(input: &EditInput, shown: &Shown<'_>) -> (String, String) {
    let (old, new) = (&input.old_string, &input.new_string);
    // A CR before a LF that is a line end of its own: only a file with such a thing can have it.
    if old.contains("\r\n") && shown.text.contains(old.as_str()) {
        return (old.clone(), new.clone());
    }
    let old = old.replace("\r\n", "\n");
    let new = new.replace("\r\n", "\n");
    // Where nothing but CRs ends lines, a caller's LF means one.
    if shown.eol == Eol::Cr && old.contains('\n') { (old.replace('\n', "\r"), new) } else { (old, new) }
}

/// How many places a message names.
const NAMED: usize = 20;

fn ambiguous(path: &str, shown: &Shown<'_>, found: &[usize]) -> PlanFault {
    let mut lines: Vec<usize> = found.iter().take(NAMED).map(|at| shown.line_at(*at)).collect();
    lines.dedup();
    let named: Vec<_> = lines.iter().map(ToString::to_string).collect();
    let count =
        if found.len() > MOST_PLACES { format!("more than {MOST_PLACES}") } else { found.len().to_string() };
    let more = if found.len() > NAMED { ", …" } else { "" };
    PlanFault::new(
        ActionCode::OldStringAmbiguous,
        format!("{path}: old_string is there {count} times, in lines {}{more}", named.join(", ")),
        "Take in more of what surrounds the one that is meant, or set replace_all.",
    )
}

fn missing(path: &str, shown: &Shown<'_>, old: &str) -> PlanFault {
    let (what, hint) = nearest::explain(&shown.text, old);
    PlanFault::new(ActionCode::OldStringMissing, format!("{path}: old_string is not in the file{what}"), hint)
}
