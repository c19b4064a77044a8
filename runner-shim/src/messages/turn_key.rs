//! The key by which a model request is known.
//!
//! It is read from the last user message alone, from things that are ours: the marker that we put before the run's
//! prompt, or the ids that the executor minted for the calls of the last reply. Dates, cache marks, the stream flag
//! and rewritten results change nothing.

use gatehouse_proto::v1::open_turn_request::Key;
use gatehouse_proto::v1::{SeenToolResult, ToolResultSet};
use serde_json::Value;

use super::request::NoKey;

/// What is forwarded of one tool result's text, in bytes.
const MAX_TEXT: usize = 4 * 1024;
/// A reply asks for 16 calls at most; anything near this is no answer to one.
const MAX_RESULTS: usize = 64;
/// What is forwarded of all of them together, in bytes.
const MAX_TEXTS: usize = 64 * 1024;

/// The key of the request with this last user message.
pub(super) fn of(content: &Value, ordinal: u32) -> Result<Key, NoKey> {
    // The marker counts before tool results: when a run was cut off in the middle of its calls, the next one's first
    // request may still carry what was left of them, in the same message.
    if texts(content).any(|text| starts_the_run(text, ordinal)) {
        return Ok(Key::FirstOfRun(ordinal));
    }
    let results = tool_results(content)?;
    if results.is_empty() { Err(NoKey::Unmarked) } else { Ok(Key::ToolResults(ToolResultSet { results })) }
}

/// Whether a text block begins with this run's marker. A prompt that holds one elsewhere, or another run's, does not.
/// The line break after it is ours too, but Claude Code cuts white space off the end of a prompt that is nothing else.
fn starts_the_run(text: &str, ordinal: u32) -> bool {
    let marker = format!("[gatehouse run {ordinal}]");
    text.strip_prefix(&marker).is_some_and(|rest| rest.is_empty() || rest.starts_with('\n'))
}

/// The text blocks of a message, or of a tool result: a bare string is one.
fn texts(content: &Value) -> impl Iterator<Item = &str> {
    let blocks = content.as_array().into_iter().flatten();
    let in_blocks = blocks.filter(|block| block["type"] == "text").filter_map(|block| block["text"].as_str());
    content.as_str().into_iter().chain(in_blocks)
}

fn tool_results(content: &Value) -> Result<Vec<SeenToolResult>, NoKey> {
    let mut seen: Vec<SeenToolResult> = Vec::new();
    let mut room = MAX_TEXTS;
    let blocks = content.as_array().into_iter().flatten().filter(|block| block["type"] == "tool_result");
    for block in blocks {
        let id = block["tool_use_id"].as_str().ok_or(NoKey::NamelessResult)?;
        if seen.iter().any(|result| result.tool_call_id == id) {
            continue;
        }
        if seen.len() == MAX_RESULTS || id.len() > MAX_TEXT {
            return Err(NoKey::TooManyResults);
        }
        let text = bounded_text(&block["content"], MAX_TEXT.min(room));
        room -= text.len();
        seen.push(SeenToolResult { tool_call_id: id.to_owned(), is_error: block["is_error"] == true, text });
    }
    Ok(seen)
}

/// The texts of a result, one under the other, cut between two characters.
fn bounded_text(content: &Value, limit: usize) -> String {
    let mut all = String::new();
    for text in texts(content) {
        if !all.is_empty() {
            all.push('\n');
        }
        let room = (limit + 1).saturating_sub(all.len());
        all.push_str(text.get(..text.floor_char_boundary(room)).unwrap_or_default());
        if all.len() > limit {
            break;
        }
    }
    all.truncate(all.floor_char_boundary(limit));
    all
}
