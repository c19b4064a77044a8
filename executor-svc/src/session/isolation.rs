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
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
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
    /// The operator has removed it.
    Removed {
        /// What it was known by.
        worktree: Worktree,
    },
}

impl Isolation {
    /// The commit that it was, or will be, made at.
    #[must_use]
    pub fn head(&self) -> &str {
        match self {
            Self::Planned(intent) => &intent.repository.head,
            Self::Made { worktree, .. } | Self::Removed { worktree } => &worktree.head,
        }
    }

    /// What is different in it from what somebody may expect.
    #[must_use]
    pub const fn notes(&self) -> Option<&Notes> {
        match self {
            Self::Planned(intent) => Some(&intent.repository.notes),
            Self::Made { notes, .. } => Some(notes),
            Self::Removed { .. } => None,
        }
    }

    /// The worktree, while there is one.
    #[must_use]
    pub const fn made(&self) -> Option<&Worktree> {
        match self {
            Self::Planned(_) | Self::Removed { .. } => None,
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

/// The operator has removed it. Only of a session that has ended: nobody works in it any more.
pub(super) fn removed(mut session: Session) -> Result<Step, Refusal> {
    if session.state.status().is_live() {
        return Err(Refusal::SessionBusy(session.state.status()));
    }
    let Some(Isolation::Made { worktree, .. }) = session.isolation else {
        return Err(Refusal::NotAuthorised);
    };
    let effect = Effect::WorktreeRemoved { registration: worktree.registration.clone() };
    session.isolation = Some(Isolation::Removed { worktree });
    Ok(done(session, vec![effect]))
}
