//! `FindFiles`: what there is below a directory.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ToolContext;
use super::input::{Field, InputFault, Kind, MAX_PATH_BYTES, Need, checked};
use super::receipt::{Frame, Receipt};

pub(super) const DESCRIPTION: &str = "Lists files and directories below a directory, sorted by path (byte order), \
    with an optional filter on the name. Links are listed and never followed. Hidden names and what .gitignore names \
    are left out unless asked for; .git and protected paths always are. `skipped` counts what was left out, by \
    reason. When `truncated` is true, ask again with cursor = next_cursor and otherwise the same input.";

/// The most entries in one answer.
pub(super) const MAX_LIMIT: u64 = 2000;

/// What a cursor can be at most, in bytes: a path and the root's identity.
pub(super) const MAX_CURSOR_BYTES: usize = MAX_PATH_BYTES + 160;

pub(super) const FIELDS: &[Field] = &[
    Field {
        name: "directory",
        need: Need::Optional,
        kind: Kind::Path,
        description: "Absolute path of the directory to list. Without it: the session's working directory.",
    },
    Field {
        name: "name_contains",
        need: Need::Optional,
        kind: Kind::Line { min: 1, max: 255 },
        description: "Only entries whose name contains this text, exactly as written (case counts).",
    },
    Field {
        name: "extension",
        need: Need::Optional,
        kind: Kind::Line { min: 1, max: 255 },
        description: "Only entries whose name ends in a dot and this text, for example rs or tar.gz.",
    },
    Field {
        name: "glob",
        need: Need::Optional,
        kind: Kind::Line { min: 1, max: 1024 },
        description: "Only entries that match this glob (* ? [a-z] {a,b} and ** across directories). Without a slash \
                      it is held against the name, with one against the path below the directory.",
    },
    Field {
        name: "max_depth",
        need: Need::Optional,
        kind: Kind::Integer { min: 1, max: 2048, default: None },
        description: "How many levels to go down; 1 is the directory's own entries.",
    },
    Field {
        name: "limit",
        need: Need::Optional,
        kind: Kind::Integer { min: 1, max: MAX_LIMIT, default: Some(200) },
        description: "How many entries to return at most.",
    },
    Field {
        name: "include_hidden",
        need: Need::Optional,
        kind: Kind::Flag,
        description: "Also names that begin with a dot.",
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

/// The input of `FindFiles`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct FindFilesInput {
    /// Where to look; the session's working directory when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// A part of the name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name_contains: Option<String>,
    /// The end of the name, behind a dot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extension: Option<String>,
    /// A glob.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub glob: Option<String>,
    /// How many levels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_depth: Option<u64>,
    /// How many entries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// Also hidden names.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub include_hidden: bool,
    /// Also ignored names.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub include_ignored: bool,
    /// Where to go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

pub(super) fn check(input: &Value) -> Result<FindFilesInput, InputFault> {
    checked(FIELDS, input)
}

pub(super) fn perform(_input: &FindFilesInput, _ctx: &ToolContext, frame: &Frame<'_>) -> Receipt {
    frame.failure(gatehouse_proto::codes::ActionCode::Cancelled, "being built", "")
}
