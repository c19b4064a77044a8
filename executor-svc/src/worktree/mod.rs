//! Isolated copies: a locked, detached Git worktree for each session that asks for one.
//!
//! [`Worktrees::inspect`] looks at a repository and refuses what is not clean; [`Worktrees::create`] makes the worktree
//! that a [`WorktreeIntent`] names; [`Worktree::verify`] tells whether a session's worktree is still the same;
//! [`Worktrees::state`] and [`Worktrees::patch`] tell what has changed in it; [`Worktrees::remove`] takes it away, and
//! [`Worktrees::clear_away`] what is left of a creation that was interrupted.
//!
//! Of the source nothing changes but the list of worktrees in its common directory: a git that creates can write that list and
//! the new directory, every other git nothing at all. No program that a repository names (hook, filter, monitor, driver,
//! helper) is ever started.

mod binding;
mod create;
mod environment;
mod fault;
mod git;
mod inspect;
mod intent;
mod look;
mod progress;
mod remove;
mod run;
mod status;

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::files::FilePolicy;

pub use fault::{
    BindingFault, Change, ChangeKind, CreateFault, GitFault, LookFault, RemoveFault, RepositoryFault,
};
pub use intent::{NonceFault, WorktreeIntent};
pub use look::WorktreeState;
pub use remove::Cleared;

/// A directory, known by what it is and not only by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Identity {
    /// The device it lies on.
    pub dev: u64,
    /// Its inode.
    pub ino: u64,
}

/// A repository that a worktree can be made of.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Repository {
    /// The top level of the checkout, canonical.
    pub top: PathBuf,
    /// The directory that all worktrees of the repository share, canonical.
    pub common_dir: PathBuf,
    /// The same, by its identity.
    pub common: Identity,
    /// The commit at HEAD, in full.
    pub head: String,
    /// `sha1` or `sha256`.
    pub object_format: String,
    /// What will be different in the worktree.
    pub notes: Notes,
}

/// What will be different in a worktree from what somebody may expect.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Notes {
    /// How many submodules there are; in a worktree they stay empty directories.
    pub submodules: usize,
    /// How many files Git LFS keeps; in a worktree they stay pointers.
    pub lfs_files: usize,
    /// Other filters that the repository has settings for; files under them stay as they are stored.
    pub filters: Vec<String>,
    /// Only a part of the files is checked out, and so it will be in the worktree.
    pub sparse: bool,
}

/// A worktree that was made. Everything that recognises it again.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Worktree {
    /// Where it is, canonical.
    pub path: PathBuf,
    /// The directory there, by its identity.
    pub identity: Identity,
    /// The top level of the checkout that it was made of.
    pub source: PathBuf,
    /// The directory that it shares with the source, canonical.
    pub common_dir: PathBuf,
    /// The same, by its identity.
    pub common: Identity,
    /// The name of its registration, a directory in `common_dir/worktrees`.
    pub registration: String,
    /// The commit that was checked out.
    pub head: String,
    /// `sha1` or `sha256`.
    pub object_format: String,
}

/// What the room needs to know.
#[derive(Debug, Clone)]
pub struct WorktreeSettings {
    /// `sandbox-launch`; without it every git is refused, and told why.
    pub launcher: Option<PathBuf>,
    /// Where git is looked for, in order.
    pub path: Vec<PathBuf>,
    /// The user's own list of files to ignore (`~/.config/git/ignore`), if there is one. It is data and names no program.
    pub excludes: Option<PathBuf>,
    /// A private directory for temporary files, of the room's own; made when needed, emptied at start.
    pub scratch: PathBuf,
}

/// The room. One for the whole executor. Its calls launch processes: on Linux those die with the thread, so call it on one that
/// lives as long as the executor.
#[derive(Debug)]
pub struct Worktrees {
    git: git::Git,
    scratch: PathBuf,
    /// Held while a repository registers a worktree.
    registering: tokio::sync::Mutex<()>,
}

impl Worktrees {
    /// The room under these settings.
    #[must_use]
    pub fn new(settings: WorktreeSettings, policy: Arc<FilePolicy>) -> Self {
        let WorktreeSettings { launcher, path, excludes, scratch } = settings;
        // What a crash left. If it cannot be removed it only takes room.
        let _ = std::fs::remove_dir_all(&scratch);
        let git = git::Git::new(launcher, path, excludes, policy);
        Self { git, scratch, registering: tokio::sync::Mutex::default() }
    }
}
