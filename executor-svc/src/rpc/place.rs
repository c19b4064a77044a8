//! Where a session works: found and judged when it starts, and looked at again before it goes on.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use gatehouse_proto::ids::SessionId;
use gatehouse_proto::refusal::Refusal as Spoken;

use super::checks;
use crate::engine::Engine;
use crate::files::{Profile, Root, canonical_root};
use crate::session::{Isolation, RootBinding, RootStanding, Session};
use crate::worktree::{RepositoryFault, Worktree, WorktreeIntent, Worktrees};

/// How long a file system may take to tell what a directory is; one whose server is away may never answer.
const ROOT_PATIENCE: Duration = Duration::from_secs(10);

/// Where a new session will work.
pub(super) struct Place {
    pub root: RootBinding,
    /// The directory that the caller named, resolved; of a worktree, the repository.
    pub source: PathBuf,
    pub isolation: Option<Isolation>,
}

/// Finds places.
#[derive(Debug, Clone)]
pub(super) struct Places {
    pub engine: Engine,
    pub worktrees: Arc<Worktrees>,
}

impl Places {
    /// The place of a new session, for a directory as the caller names it.
    pub(super) async fn of_start(
        &self,
        directory: String,
        profile: Profile,
        id: &SessionId,
    ) -> Result<Place, Spoken> {
        match profile {
            Profile::ReadOnly | Profile::DirectWrite => {
                let root = self.root(directory, profile).await?;
                let binding = RootBinding { path: root.path.clone(), device: root.dev, inode: root.ino };
                Ok(Place { root: binding, source: root.path, isolation: None })
            }
            Profile::WorktreeWrite => self.isolated(directory, id).await,
        }
    }

    /// The worktree is only planned: it is made in the background, once the session is in the ledger.
    async fn isolated(&self, directory: String, id: &SessionId) -> Result<Place, Spoken> {
        // The source itself is only read.
        let source = self.root(directory, Profile::ReadOnly).await?;
        let repository = self.worktrees.inspect(&source.path).await.map_err(|fault| unfit(&fault))?;
        let folder = self.engine.settings().writing.worktree_dir.clone();
        let nonce = uuid::Uuid::new_v4().simple().to_string();
        let intent = WorktreeIntent::new(repository, folder, &nonce)
            .map_err(|fault| checks::unusable(format_args!("{fault} ({id})")))?;
        // What it will be known by comes when it is there.
        let root = RootBinding { path: intent.path(), device: 0, inode: 0 };
        Ok(Place { root, source: source.path, isolation: Some(Isolation::Planned(intent)) })
    }

    /// Resolves a working directory on the blocking pool: it may lie on a slow file system.
    async fn root(&self, path: String, profile: Profile) -> Result<Root, Spoken> {
        checks::directory(&path)?;
        let policy = self.engine.policy().clone();
        let resolving =
            tokio::task::spawn_blocking(move || canonical_root(Path::new(&path), profile, &policy));
        let resolved = tokio::time::timeout(ROOT_PATIENCE, resolving).await;
        resolved
            .map_err(|_| checks::unusable("its file system does not answer"))?
            .map_err(checks::unusable)?
            .map_err(checks::unusable)
    }

    /// Whether the session's root is still what it was made for.
    pub(super) async fn standing(&self, session: Session) -> RootStanding {
        match session.isolation {
            // What is half made is made anew.
            Some(Isolation::Planned(_)) => RootStanding::Same,
            Some(Isolation::Made { worktree, .. }) => verified(worktree).await,
            Some(Isolation::Removed { .. }) => RootStanding::Changed("its worktree was removed".to_owned()),
            None => self.same_root(session.root, session.profile).await,
        }
    }

    async fn same_root(&self, bound: RootBinding, profile: Profile) -> RootStanding {
        let found = self.root(bound.path.to_string_lossy().into_owned(), profile).await;
        match found {
            Ok(root) if (root.dev, root.ino, &root.path) == (bound.device, bound.inode, &bound.path) => {
                RootStanding::Same
            }
            Ok(_) => RootStanding::Changed("another directory has its place".to_owned()),
            Err(refusal) => RootStanding::Changed(refusal.message),
        }
    }
}

async fn verified(worktree: Worktree) -> RootStanding {
    let verifying = tokio::task::spawn_blocking(move || worktree.verify());
    match tokio::time::timeout(ROOT_PATIENCE, verifying).await {
        Ok(Ok(Ok(()))) => RootStanding::Same,
        Ok(Ok(Err(fault))) => RootStanding::Changed(fault.to_string()),
        Ok(Err(_)) | Err(_) => RootStanding::Changed("its file system does not answer".to_owned()),
    }
}

fn unfit(fault: &RepositoryFault) -> Spoken {
    Spoken::new(fault.code(), format!("No worktree can be made of this: {fault}."), fault.what_to_do())
}
