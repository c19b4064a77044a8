//! `Read`: a text file, whole or by range.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ToolContext;
use super::input::{Field, InputFault, Kind, Need, checked};
use super::receipt::{Frame, Receipt};

pub(super) const DESCRIPTION: &str = "Reads a regular UTF-8 text file anywhere on the computer, whole or by line \
    range, and tells its SHA-256, size, line endings and whether the answer was cut. When `truncated` is true, ask \
    again with start_line = next_start_line (and start_column = next_column when that is given). Line ends are shown \
    as LF whatever the file has; `eol` tells which. Links are not followed; credentials, .git and kernel file \
    systems are refused.";

const MAX_POSITION: u64 = 1 << 53;

pub(super) const FIELDS: &[Field] = &[
    Field {
        name: "file_path",
        need: Need::Required,
        kind: Kind::Path,
        description: "Absolute path of the file.",
    },
    Field {
        name: "start_line",
        need: Need::Optional,
        kind: Kind::Integer { min: 1, max: MAX_POSITION, default: Some(1) },
        description: "First line to return; lines count from 1.",
    },
    Field {
        name: "max_lines",
        need: Need::Optional,
        kind: Kind::Integer { min: 1, max: MAX_POSITION, default: None },
        description: "How many lines to return at most. Without it: as many as fit.",
    },
    Field {
        name: "start_column",
        need: Need::Optional,
        kind: Kind::Integer { min: 1, max: MAX_POSITION, default: Some(1) },
        description: "First character to return of the first line, counted from 1: to go on inside a very long line.",
    },
];

/// The input of `Read`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadInput {
    /// Absolute path of the file.
    pub file_path: String,
    /// First line, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_line: Option<u64>,
    /// How many lines at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_lines: Option<u64>,
    /// First character of the first line, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_column: Option<u64>,
}

pub(super) fn check(input: &Value) -> Result<ReadInput, InputFault> {
    checked(FIELDS, input)
}

pub(super) fn perform(_input: &ReadInput, _ctx: &ToolContext, frame: &Frame<'_>) -> Receipt {
    frame.failure(gatehouse_proto::codes::ActionCode::Cancelled, "being built", "")
}
