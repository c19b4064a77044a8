//! What Claude Code itself wrote down about a session, in its private directory.

use std::path::{Path, PathBuf};

use serde_json::Value;

/// The texts of all user messages in Claude Code's own transcript of a session, oldest first.
///
/// # Panics
/// When there is not exactly one transcript.
#[must_use]
pub fn user_texts(state_dir: &Path, claude_session_id: &str) -> Vec<String> {
    let found = transcripts(state_dir, claude_session_id);
    assert_eq!(found.len(), 1, "transcripts of {claude_session_id}: {found:?}");
    let text = std::fs::read_to_string(&found[0]).expect("the transcript is readable");
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines
        .filter(|line| line["type"] == "user")
        .flat_map(|line| texts_of(&line["message"]["content"]))
        .collect()
}

/// Whether Claude Code has written a message of the user down yet; it does so in the background.
#[must_use]
pub fn has_begun(state_dir: &Path, claude_session_id: &str) -> bool {
    !transcripts(state_dir, claude_session_id).is_empty()
        && !user_texts(state_dir, claude_session_id).is_empty()
}

fn transcripts(state_dir: &Path, claude_session_id: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    collect(state_dir, &format!("{claude_session_id}.jsonl"), &mut found);
    found
}

fn collect(directory: &Path, name: &str, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let kind = entry.file_type().expect("the system tells");
        if kind.is_dir() {
            collect(&entry.path(), name, found);
        } else if entry.file_name() == name {
            found.push(entry.path());
        }
    }
}

fn texts_of(content: &Value) -> Vec<String> {
    match content {
        Value::String(text) => vec![text.clone()],
        Value::Array(blocks) => {
            blocks.iter().filter_map(|block| block["text"].as_str()).map(str::to_owned).collect()
        }
        _ => Vec::new(),
    }
}
