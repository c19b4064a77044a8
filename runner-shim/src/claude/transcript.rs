//! Whether Claude Code has a conversation to go on with.
//!
//! It writes its transcript some 100 ms late. A process that is killed before that leaves no file, or one that holds
//! no conversation: `--resume` then fails for want of a conversation, and `--session-id` because the id is "in use".
//! So what lies on disk decides, not what was planned, and a file without a conversation is put out of the way. Nothing
//! is lost by that: what was done stands in the executor's ledger, and ChatGPT is told from there.

use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::plan::{Plan, SessionStart};

/// The longest line that is looked at; a longer one is part of a conversation.
const MAX_LINE: u64 = 1024 * 1024;

/// How the session is to be begun.
///
/// # Errors
/// When its directory cannot be read, or a useless file not removed.
pub(super) fn how_to_begin(plan: &Plan) -> io::Result<SessionStart> {
    let mut begin = SessionStart::New;
    for path in transcripts(&plan.directories.config, &plan.claude_session_id)? {
        if holds_conversation(&path)? {
            begin = SessionStart::Resume;
        } else {
            std::fs::remove_file(&path)?;
        }
    }
    if begin != plan.start {
        tracing::warn!(planned = ?plan.start, ?begin, "the transcript decides how the session begins");
    }
    Ok(begin)
}

/// `CONFIG/projects/*/ID.jsonl`: one directory for each working directory, named in a way of Claude Code's own.
fn transcripts(config: &Path, session_id: &str) -> io::Result<Vec<PathBuf>> {
    let projects = match std::fs::read_dir(config.join("projects")) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        projects => projects?,
    };
    let file = format!("{session_id}.jsonl");
    let mut paths = Vec::new();
    for project in projects {
        let project = project?;
        let path = project.path().join(&file);
        // Claude Code can put links here, and is not to lead us out of its directory by one.
        let is_own =
            project.file_type()?.is_dir() && path.symlink_metadata().is_ok_and(|found| found.is_file());
        paths.extend(is_own.then_some(path));
    }
    Ok(paths)
}

fn holds_conversation(path: &Path) -> io::Result<bool> {
    let mut lines = BufReader::new(File::open(path)?);
    let mut line = Vec::new();
    while lines.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)? > 0 {
        if is_message(&line) {
            return Ok(true);
        }
        line.clear();
    }
    Ok(false)
}

fn is_message(line: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Kind {
        #[serde(rename = "type")]
        kind: String,
    }
    let full = u64::try_from(line.len()).is_ok_and(|length| length == MAX_LINE);
    full || serde_json::from_slice(line).is_ok_and(|Kind { kind }| kind == "user" || kind == "assistant")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::plan;

    const LATCH: &str = "{\"type\":\"atis-latch\"}\n{\"type\":\"queue-operation\"}\n";
    const USER: &str = "{\"type\":\"user\",\"message\":{}}\n";

    /// What is decided with this transcript, and whether it is still there.
    fn decided(transcript: Option<&str>, start: SessionStart) -> (SessionStart, bool) {
        let top = tempfile::tempdir().unwrap();
        let mut plan = Plan { start, ..plan() };
        plan.directories.config = top.path().to_owned();
        let project = top.path().join("projects/-s-cwd");
        let path = project.join(format!("{}.jsonl", plan.claude_session_id));
        if let Some(text) = transcript {
            std::fs::create_dir_all(&project).unwrap();
            std::fs::write(&path, text).unwrap();
        }
        (how_to_begin(&plan).unwrap(), path.exists())
    }

    #[test]
    fn a_conversation_on_disk_is_gone_on_with_whatever_was_planned() {
        let torn = format!("{LATCH}{USER}{{\"type\":\"assist");
        for start in [SessionStart::New, SessionStart::Resume] {
            assert_eq!(decided(Some(&torn), start), (SessionStart::Resume, true));
            assert_eq!(decided(None, start), (SessionStart::New, false));
        }
        let large = format!("{LATCH}{}", "x".repeat(2 * 1024 * 1024));
        assert_eq!(decided(Some(&large), SessionStart::Resume), (SessionStart::Resume, true));
    }

    #[test]
    fn a_link_leads_nowhere() {
        let top = tempfile::tempdir().unwrap();
        let mut plan = plan();
        plan.directories.config = top.path().join("config");
        let file = format!("{}.jsonl", plan.claude_session_id);
        let (projects, outside) = (top.path().join("config/projects"), top.path().join("outside"));
        for dir in [projects.join("own"), outside.clone()] {
            std::fs::create_dir_all(dir).unwrap();
        }
        std::fs::write(outside.join(&file), LATCH).unwrap();
        std::os::unix::fs::symlink(&outside, projects.join("linked")).unwrap();
        std::os::unix::fs::symlink(outside.join(&file), projects.join("own").join(&file)).unwrap();
        assert_eq!(how_to_begin(&plan).unwrap(), SessionStart::New);
        assert_eq!(std::fs::read_to_string(outside.join(&file)).unwrap(), LATCH);
    }

    #[test]
    fn a_file_without_a_conversation_is_put_out_of_the_way() {
        for empty in ["", LATCH, "{\"type\":\"us"] {
            assert_eq!(decided(Some(empty), SessionStart::Resume), (SessionStart::New, false), "{empty:?}");
        }
    }
}
