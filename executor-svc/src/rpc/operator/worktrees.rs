//! The worktrees of sessions: listed, saved as a patch, removed.

use gatehouse_proto::codes::ErrorCode;
use gatehouse_proto::digest::sha256_hex;
use gatehouse_proto::ids::SessionId;
use gatehouse_proto::refusal::Refusal as Spoken;
use gatehouse_proto::v1;
use tonic::Status as Wire;

use super::{OperatorService, ledger};
use crate::action::{PruneAsk, PruneMode, ended_before};
use crate::engine::parse;
use crate::ledger::sessions;
use crate::rpc::refusals::spoken;
use crate::rpc::view::status_of;
use crate::session::{Command, Isolation, Session};
use crate::worktree::{LookFault, Worktree, WorktreeState};

/// How many sessions are looked through at a time.
const PAGE: u32 = 500;

impl OperatorService {
    /// Every worktree that there is, newest session first, with what has changed in it.
    pub(super) async fn worktrees(&self) -> Result<Vec<v1::WorktreeView>, Wire> {
        let mut views = Vec::new();
        for session in self.isolated_sessions().await? {
            if let Some(worktree) = session.isolation.as_ref().and_then(Isolation::made) {
                views.push(self.worktree_view(&session, worktree).await);
            }
        }
        Ok(views)
    }

    async fn isolated_sessions(&self) -> Result<Vec<Session>, Wire> {
        let found = self.engine.read(|connection| {
            let (mut found, mut after): (Vec<Session>, Option<String>) = (Vec::new(), None);
            loop {
                let texts = sessions::list(connection, false, after.as_deref(), PAGE)?;
                let page = texts.iter().map(|text| parse(text)).collect::<Result<Vec<_>, _>>()?;
                let full = page.len() == PAGE as usize;
                after = page.last().map(|session| session.id.to_string());
                found.extend(page.into_iter().filter(|session| session.isolation.is_some()));
                if !full {
                    return Ok(found);
                }
            }
        });
        found.await.map_err(ledger)
    }

    async fn worktree_view(&self, session: &Session, worktree: &Worktree) -> v1::WorktreeView {
        let (state, changed, problem) = match self.worktrees.state(worktree).await {
            Ok(WorktreeState::Clean) => ("clean", 0, None),
            // A commit of somebody's own is a change too.
            Ok(WorktreeState::Changed { files, moved }) => ("changed", files.max(usize::from(moved)), None),
            Err(fault) => ("unusable", 0, Some(fault.to_string())),
        };
        v1::WorktreeView {
            native_session_id: session.id.to_string(),
            session_status: status_of(session.state.status()).into(),
            path: worktree.path.to_string_lossy().into_owned(),
            source_directory: session.source_directory.to_string_lossy().into_owned(),
            head: worktree.head.clone(),
            state: state.to_owned(),
            changed_files: changed as u64,
            problem,
        }
    }

    /// All changes in a session's worktree.
    pub(super) async fn patch(&self, id: &SessionId) -> Result<Vec<u8>, Wire> {
        let (_, worktree) = self.worktree_of(id).await?;
        self.worktrees.patch(&worktree).await.map_err(|fault| unusable(&fault))
    }

    /// Removes a session's worktree, unless something in it would be lost that is not in the patch with this hash.
    pub(super) async fn remove_worktree(
        &self,
        id: &SessionId,
        saved: Option<String>,
    ) -> Result<v1::WorktreeView, Wire> {
        let (session, worktree) = self.worktree_of(id).await?;
        if session.state.status().is_live() {
            return Err(still_used(&session).into());
        }
        let view = self.worktree_view(&session, &worktree).await;
        if view.state == "changed" {
            let patch = self.worktrees.patch(&worktree).await.map_err(|fault| unusable(&fault))?;
            if saved.as_deref() != Some(sha256_hex(&patch).as_str()) {
                return Err(not_saved(&view, saved.is_some()).into());
            }
        }
        self.take_away(id, &worktree).await?;
        Ok(view)
    }

    /// Removes a worktree in which nothing would be lost, of a session that has ended.
    async fn take_away(&self, id: &SessionId, worktree: &Worktree) -> Result<(), Wire> {
        self.worktrees.remove(worktree).await.map_err(|fault| {
            Wire::from(Spoken::new(
                ErrorCode::WorkingDirectoryInvalid,
                format!("The worktree was not removed: {fault}."),
                "Look at what is there, then try again.",
            ))
        })?;
        self.engine.submit(id, None, |_, _| Ok(Command::WorktreeRemoved)).await.map_err(spoken)?;
        Ok(())
    }

    /// Removes the worktrees without changes of the sessions that ended long ago, and counts.
    pub(super) async fn with_worktrees(
        &self,
        mut done: v1::PruneProgress,
        ask: PruneAsk,
    ) -> Result<v1::PruneProgress, Wire> {
        let now = self.engine.now();
        let ended = self.engine.read(move |connection| ended_before(connection, now, ask.older_than));
        let ended = ended.await.map_err(ledger)?;
        for session in self.isolated_sessions().await? {
            let Some(worktree) = session.isolation.as_ref().and_then(Isolation::made) else { continue };
            if !ended.contains_key(session.id.as_str()) {
                continue;
            }
            let clean = matches!(self.worktrees.state(worktree).await, Ok(WorktreeState::Clean));
            let goes = clean
                && (ask.mode == PruneMode::DryRun || self.take_away(&session.id, worktree).await.is_ok());
            if goes {
                done.worktrees_removed += 1;
            } else {
                done.worktrees_kept += 1;
            }
        }
        Ok(done)
    }

    async fn worktree_of(&self, id: &SessionId) -> Result<(Session, Worktree), Wire> {
        let session = self.engine.load(id).map_err(spoken)?;
        let worktree = session.isolation.as_ref().and_then(Isolation::made).cloned();
        let none = || {
            Wire::from(Spoken::new(
                ErrorCode::InvalidArgument,
                "This session has no worktree.",
                "`gatehouse worktree list` shows those that there are.",
            ))
        };
        Ok((session, worktree.ok_or_else(none)?))
    }
}

fn still_used(session: &Session) -> Spoken {
    Spoken::new(
        ErrorCode::SessionBusy,
        format!("The session is {}: it still works in its worktree.", session.state.status().as_str()),
        "Stop the session first.",
    )
}

fn not_saved(view: &v1::WorktreeView, stale: bool) -> Spoken {
    let message = if stale {
        "The worktree has changed since the patch was saved.".to_owned()
    } else {
        format!("{} files in the worktree differ from its commit, and would be lost.", view.changed_files)
    };
    Spoken::new(
        ErrorCode::RepositoryNotClean,
        message,
        "Save the changes with --save-patch FILE, or commit them to a branch in the worktree and take that elsewhere first.",
    )
}

fn unusable(fault: &LookFault) -> Wire {
    Spoken::new(
        ErrorCode::WorkingDirectoryInvalid,
        format!("The worktree cannot be looked at: {fault}."),
        "Look at what is there; if it is to go, remove it with git (`git worktree remove`) in the repository.",
    )
    .into()
}
