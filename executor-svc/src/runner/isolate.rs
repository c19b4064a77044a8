//! Making a session's worktree before its first launch.

use gatehouse_proto::ids::{RunId, SessionId};

use super::Runners;
use super::launch::LaunchError;
use crate::session::{Command, Isolation};
use crate::worktree::{Worktree, WorktreeIntent};

impl Runners {
    /// Makes sure that the session's worktree is there, if it works in one. What a try before this one left half made is
    /// cleared away first: no turn has been opened in it.
    pub(super) async fn isolate(
        &self,
        session: &SessionId,
        run: &RunId,
        epoch: u32,
    ) -> Result<(), LaunchError> {
        let Some(Isolation::Planned(intent)) = self.shared.engine.load(session)?.isolation else {
            return Ok(());
        };
        self.shared.worktrees.clear_away(&intent).await.map_err(LaunchError::Unclear)?;
        let worktree = self.shared.worktrees.create(&intent).await.map_err(LaunchError::Worktree)?;
        self.bind(session, run, epoch, worktree, &intent).await
    }

    async fn bind(
        &self,
        session: &SessionId,
        run: &RunId,
        epoch: u32,
        worktree: Worktree,
        intent: &WorktreeIntent,
    ) -> Result<(), LaunchError> {
        let run_id = run.clone();
        let made = move |_: &_, _| Ok(Command::WorktreeMade { run_id, epoch, worktree: Box::new(worktree) });
        let Err(fault) = self.shared.engine.submit(session, None, made).await else { return Ok(()) };
        // Stopped meanwhile, or not to be recorded: nobody will ever know of it, so it must not stay.
        if let Err(error) = self.shared.worktrees.clear_away(intent).await {
            tracing::warn!(%session, %error, "a worktree that nobody wants any more stays");
        }
        Err(fault.into())
    }
}
