//! `Read`: a text file, whole or by range.

mod range;
mod render;
mod scan;
#[cfg(test)]
mod tests;

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::range::Wanted;
use self::render::{Next, render};
use self::scan::{Scanned, scan};
use super::ToolContext;
use super::input::{Field, InputFault, Kind, Need, checked};
use super::receipt::{Frame, Receipt};
use crate::files::text::Eol;

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

pub(super) fn perform(input: &ReadInput, ctx: &ToolContext, frame: &Frame<'_>) -> Receipt {
    let start = Next { line: input.start_line.unwrap_or(1), column: input.start_column.unwrap_or(1) };
    let wanted = Wanted {
        line: start.line,
        column: start.column,
        lines: input.max_lines.unwrap_or(u64::MAX),
        bytes: frame.budget.bytes(),
    };
    match scan(Path::new(&input.file_path), &wanted, ctx) {
        Ok(scanned) => success(input, start, &scanned, frame),
        Err(fault) => frame.fault(&fault),
    }
}

/// What the receipt of a read file says.
#[derive(Debug, Clone, Serialize)]
struct Body<'a> {
    file_path: &'a str,
    bytes: u64,
    sha256: Option<&'a str>,
    lines: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    eol: Eol,
    bom: bool,
    final_newline: bool,
    start_line: u64,
    #[serde(skip_serializing_if = "super::receipt::is_one")]
    start_column: u64,
    truncated: bool,
    next_start_line: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_column: Option<u64>,
    #[serde(skip_serializing_if = "super::receipt::is_zero")]
    redacted_passwords: usize,
    content: &'a str,
}

/// Room for the fields that are only known when the content is: positions of up to 20 digits and a count.
const POSITIONS: usize = 140;

fn success(input: &ReadInput, start: Next, scanned: &Scanned, frame: &Frame<'_>) -> Receipt {
    let whole = scanned.whole.as_ref();
    let mut body = Body {
        file_path: &input.file_path,
        bytes: scanned.bytes,
        sha256: whole.and_then(|facts| facts.sha256.as_deref()),
        lines: whole.map(|facts| facts.lines),
        note: note(start, scanned),
        eol: scanned.eol,
        bom: scanned.bom,
        final_newline: scanned.final_newline,
        start_line: start.line,
        start_column: start.column,
        truncated: false,
        next_start_line: None,
        next_column: None,
        redacted_passwords: 0,
        content: "",
    };
    let room = frame.room_beside(&body).saturating_sub(POSITIONS);
    let rendered = render(&scanned.taken, start, room);
    let more = scanned.more.then_some(Next { line: start.line + rendered.lines, column: 1 });
    let next = rendered.cut.or(more);
    body.truncated = rendered.cut.is_some();
    body.next_start_line = next.map(|next| next.line);
    body.next_column = next.map(|next| next.column).filter(|column| *column > 1);
    body.redacted_passwords = rendered.redacted;
    body.content = &rendered.content;
    frame.success(&body)
}

/// What the facts alone do not say.
fn note(start: Next, scanned: &Scanned) -> Option<String> {
    match &scanned.whole {
        None => Some(
            "The file is over the size up to which it is read as a whole: sha256 and lines are not known, and eol \
             speaks of what lies before the end of this range."
                .to_owned(),
        ),
        Some(facts) if facts.sha256.is_none() => Some(
            "The file is over the size up to which it is hashed: sha256 is not known.".to_owned(),
        ),
        Some(facts) if start.line > facts.lines.max(1) => {
            Some(format!("start_line is behind the end: the file has {} lines.", facts.lines))
        }
        Some(_) => None,
    }
}
