//! The worktree of a session that works in one: first planned, then made.

use gatehouse_proto::ids::RunId;
use serde::{Deserialize, Serialize};

use super::Refusal;
use super::command::Step;
use super::effect::Effect;
use super::machine::done;
use super::running::serves;
use super::state::{RootBinding, Session, State};
use crate::worktree::{Notes, Worktree, WorktreeIntent};

/// How far a session's worktree is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// It is going to be made; what there may be is half made.
    Planned(WorktreeIntent),
    /// It is there.
    Made {
        /// What it is known by.
        worktree: Worktree,
        /// What is different in it from what somebody may expect.
        notes: Notes,
    },
}

impl Isolation {
    /// The commit that it was, or will be, made at.
    #[must_use]
    pub fn head(&self) -> &str {
        match self {
            Self::Planned(intent) => &intent.repository.head,
            Self::Made { worktree, .. } => &worktree.head,
        }
    }

    /// What is different in it from what somebody may expect.
    #[must_use]
    pub const fn notes(&self) -> &Notes {
        match self {
            Self::Planned(intent) => &intent.repository.notes,
            Self::Made { notes, .. } => notes,
        }
    }

    /// The worktree, once it is made.
    #[must_use]
    pub const fn made(&self) -> Option<&Worktree> {
        match self {
            Self::Planned(_) => None,
            Self::Made { worktree, .. } => Some(worktree),
        }
    }
}

/// The worktree is there: from now on it is the session's root.
pub(super) fn made(
    mut session: Session,
    run_id: &RunId,
    epoch: u32,
    worktree: Worktree,
) -> Result<Step, Refusal> {
    if !serves(&session, run_id, epoch) || !matches!(session.state, State::Starting(_)) {
        return Err(Refusal::StaleRunner);
    }
    let Some(Isolation::Planned(intent)) = &session.isolation else { return Err(Refusal::StaleRunner) };
    let notes = intent.repository.notes.clone();
    session.root = RootBinding {
        path: worktree.path.clone(),
        device: worktree.identity.dev,
        inode: worktree.identity.ino,
    };
    let effect =
        Effect::WorktreeMade { head: worktree.head.clone(), registration: worktree.registration.clone() };
    session.isolation = Some(Isolation::Made { worktree, notes });
    Ok(done(session, vec![effect]))
}
