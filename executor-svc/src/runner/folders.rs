//! The private folders of a session: 0700, one set for all its runs.

use std::io;
use std::path::{Path, PathBuf};

use gatehouse_proto::ids::SessionId;
use gatehouse_proto::socket::make_private_dir;

/// Where a session keeps what Claude Code needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionFolders {
    top: PathBuf,
}

impl SessionFolders {
    /// The folders of a session.
    #[must_use]
    pub fn of(state_dir: &Path, session: &SessionId) -> Self {
        Self { top: state_dir.join("sessions").join(session.as_str()) }
    }

    /// Claude Code's HOME.
    #[must_use]
    pub fn home(&self) -> PathBuf {
        self.top.join("home")
    }

    /// Its CLAUDE_CONFIG_DIR, which holds the history that a resume needs.
    #[must_use]
    pub fn config(&self) -> PathBuf {
        self.top.join("config")
    }

    /// Its MCP configuration and the shim's log.
    #[must_use]
    pub fn run(&self) -> PathBuf {
        self.top.join("run")
    }

    /// Its working directory: empty, so that no repository can make it run anything.
    #[must_use]
    pub fn cwd(&self) -> PathBuf {
        self.top.join("cwd")
    }

    /// Its TMPDIR.
    #[must_use]
    pub fn tmp(&self) -> PathBuf {
        self.top.join("tmp")
    }

    /// Makes them.
    ///
    /// # Errors
    /// With the path at fault.
    pub fn make(&self) -> io::Result<()> {
        for dir in [self.top.clone(), self.home(), self.config(), self.run(), self.cwd(), self.tmp()] {
            make_private_dir(&dir)?;
        }
        Ok(())
    }

    /// Whether Claude Code has kept a history for that id, so that it can be resumed.
    #[must_use]
    pub fn has_history(&self, claude_session_id: &str) -> bool {
        let transcript = format!("{claude_session_id}.jsonl");
        self.transcripts().any(|path| path.ends_with(&transcript) && holds_a_message(&path))
    }

    /// Removes the transcripts of Claude Code processes that were killed before they wrote a message down. Such a one
    /// can neither be resumed ("no conversation found") nor begun again ("already in use").
    ///
    /// # Errors
    /// When one cannot be removed.
    pub fn drop_empty_histories(&self) -> io::Result<()> {
        self.transcripts().filter(|path| !holds_a_message(path)).try_for_each(std::fs::remove_file)
    }

    fn transcripts(&self) -> impl Iterator<Item = PathBuf> {
        let projects = std::fs::read_dir(self.config().join("projects")).into_iter().flatten().flatten();
        let files = projects.filter_map(|project| std::fs::read_dir(project.path()).ok()).flatten().flatten();
        files.map(|file| file.path()).filter(|path| path.extension().is_some_and(|ext| ext == "jsonl"))
    }
}

/// A message of the user stands near the beginning of every transcript that has one; what cannot be read counts as one.
fn holds_a_message(transcript: &Path) -> bool {
    use std::io::BufRead;
    let Ok(file) = std::fs::File::open(transcript) else { return true };
    let mut lines = io::BufReader::new(file).lines();
    lines.any(|line| line.map_or(true, |line| line.contains("\"type\":\"user\"")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_is_found_under_whatever_project_name() {
        let state = tempfile::tempdir().unwrap();
        let folders = SessionFolders::of(state.path(), &SessionId::mint());
        folders.make().unwrap();
        assert!(!folders.has_history("abc"));
        let project = folders.config().join("projects/-some-dir");
        std::fs::create_dir_all(&project).unwrap();
        std::fs::write(project.join("abc.jsonl"), "{}\n{\"type\":\"user\"}\n").unwrap();
        assert!(folders.has_history("abc"));
        assert!(!folders.has_history("abd"));
    }

    #[test]
    fn a_history_without_a_message_is_none_and_goes_before_the_next_launch() {
        let state = tempfile::tempdir().unwrap();
        let folders = SessionFolders::of(state.path(), &SessionId::mint());
        let project = folders.config().join("projects/-some-dir");
        std::fs::create_dir_all(&project).unwrap();
        std::fs::write(project.join("empty.jsonl"), "{\"type\":\"atis-latch\"}\n").unwrap();
        std::fs::write(project.join("begun.jsonl"), "{\"type\":\"user\"}\n").unwrap();
        assert!(!folders.has_history("empty") && folders.has_history("begun"));
        folders.drop_empty_histories().unwrap();
        assert!(!project.join("empty.jsonl").exists() && project.join("begun.jsonl").exists());
    }
}
