//! The private folders of a session: 0700, one set for all its runs.

use std::io;
use std::path::{Path, PathBuf};

use gatehouse_proto::ids::{SessionId, SubagentId};
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

    /// The folders of a subagent: as private from the session's own as from everybody else.
    #[must_use]
    pub fn of_subagent(&self, subagent: &SubagentId) -> Self {
        Self { top: self.top.join("subagents").join(subagent.as_str()) }
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

    /// What its commands see as `/tmp`.
    #[must_use]
    pub fn scratch(&self) -> PathBuf {
        self.top.join("scratch")
    }

    /// Makes them.
    ///
    /// # Errors
    /// With the path at fault.
    pub fn make(&self) -> io::Result<()> {
        let dirs = [
            self.top.clone(),
            self.home(),
            self.config(),
            self.run(),
            self.cwd(),
            self.tmp(),
            self.scratch(),
        ];
        for dir in dirs {
            make_private_dir(&dir)?;
        }
        Ok(())
    }
}
