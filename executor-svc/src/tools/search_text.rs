//! `SearchText`: where a literal text stands in the files below a directory.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ToolContext;
use super::find_files::MAX_CURSOR_BYTES;
use super::input::{Field, InputFault, Kind, Need, checked};
use super::receipt::{Frame, Receipt};

pub(super) const DESCRIPTION: &str = "Finds a literal text (no regular expression, no wildcards) in the UTF-8 files \
    below a directory, hidden ones included, sorted by path (byte order) and line: one match for each line, with the \
    column of the first occurrence. Links are not followed; what .gitignore names is left out unless asked for; .git \
    and protected paths always are. `skipped` counts what was not searched, by reason. When `truncated` is true, ask \
    again with cursor = next_cursor and otherwise the same input.";

/// The most matches in one answer.
pub(super) const MAX_LIMIT: u64 = 1000;

pub(super) const FIELDS: &[Field] = &[
    Field {
        name: "text",
        need: Need::Required,
        kind: Kind::Line { min: 1, max: 4096 },
        description: "The text to find, in one line, exactly as it stands in the files.",
    },
    Field {
        name: "directory",
        need: Need::Optional,
        kind: Kind::Path,
        description: "Absolute path of the directory to search. Without it: the session's working directory.",
    },
    Field {
        name: "case_insensitive",
        need: Need::Optional,
        kind: Kind::Flag,
        description: "Upper and lower case are the same (Unicode simple case folding).",
    },
    Field {
        name: "include_glob",
        need: Need::Optional,
        kind: Kind::Line { min: 1, max: 1024 },
        description: "Only files that match this glob (* ? [a-z] {a,b} and ** across directories). Without a slash \
                      it is held against the name, with one against the path below the directory.",
    },
    Field {
        name: "exclude_glob",
        need: Need::Optional,
        kind: Kind::Line { min: 1, max: 1024 },
        description: "No files that match this glob, and nothing below directories that do.",
    },
    Field {
        name: "context_lines",
        need: Need::Optional,
        kind: Kind::Integer { min: 0, max: 5, default: Some(0) },
        description: "How many lines before and after each match to show.",
    },
    Field {
        name: "limit",
        need: Need::Optional,
        kind: Kind::Integer { min: 1, max: MAX_LIMIT, default: Some(100) },
        description: "How many matches to return at most.",
    },
    Field {
        name: "include_ignored",
        need: Need::Optional,
        kind: Kind::Flag,
        description: "Also what .gitignore files name.",
    },
    Field {
        name: "cursor",
        need: Need::Optional,
        kind: Kind::Line { min: 1, max: MAX_CURSOR_BYTES },
        description: "next_cursor of an earlier answer to the same input, to go on behind it.",
    },
];

/// The input of `SearchText`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SearchTextInput {
    /// What to find.
    pub text: String,
    /// Where to look; the session's working directory when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// Case does not count.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub case_insensitive: bool,
    /// Only these files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub include_glob: Option<String>,
    /// Not these files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exclude_glob: Option<String>,
    /// Lines around each match.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_lines: Option<u64>,
    /// How many matches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// Also ignored names.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub include_ignored: bool,
    /// Where to go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

pub(super) fn check(input: &Value) -> Result<SearchTextInput, InputFault> {
    checked(FIELDS, input)
}

pub(super) fn perform(_input: &SearchTextInput, _ctx: &ToolContext, frame: &Frame<'_>) -> Receipt {
    frame.failure(gatehouse_proto::codes::ActionCode::Cancelled, "being built", "")
}
