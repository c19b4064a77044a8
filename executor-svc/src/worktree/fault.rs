//! Why there is no worktree, or not this one.

use std::io;
use std::path::{Path, PathBuf};

use gatehouse_proto::codes::ErrorCode;

/// How many changes a refusal names.
const SHOWN: usize = 10;

/// Why git gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum GitFault {
    /// Git is not installed where it is looked for.
    #[error("git is not installed: there is none in {}", shown(looked_in))]
    NoGit {
        /// Where it was looked for.
        looked_in: Vec<PathBuf>,
    },
    /// Git is too old to be told everything that is needed to keep it quiet.
    #[error("git is of version {found}, and {needed} is the oldest that can be used")]
    TooOld {
        /// What git says.
        found: String,
        /// The oldest that can be used.
        needed: String,
    },
    /// The sandbox is not to be had, so git was not started.
    #[error("{0}")]
    Sandbox(String),
    /// It took too long.
    #[error("git {doing} was not done after {seconds} s")]
    TimedOut {
        /// The git command.
        doing: String,
        /// The limit.
        seconds: u64,
    },
    /// It said more than is kept.
    #[error("git {doing} gave more than {limit} bytes")]
    TooMuch {
        /// The git command.
        doing: String,
        /// The limit, in bytes.
        limit: usize,
    },
    /// It failed.
    #[error("git {doing} failed: {said}")]
    Failed {
        /// The git command.
        doing: String,
        /// The end of what it wrote to standard error, bounded.
        said: String,
    },
    /// The settings name a driver that is not UTF-8, which cannot be switched off by name.
    #[error("the repository's settings have a name that is not UTF-8")]
    StrangeSettings,
    /// A system call of ours failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

impl GitFault {
    pub(super) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }
}

fn shown(places: &[PathBuf]) -> String {
    let places: Vec<_> = places.iter().map(|place| place.display().to_string()).collect();
    places.join(":")
}

/// What stands in the way of a clean repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// What it is.
    pub kind: ChangeKind,
    /// Where, from the top level; what is not UTF-8 by its nearest spelling.
    pub path: String,
}

/// A kind of change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// In the index, not in HEAD.
    Staged,
    /// In the working tree, not in the index.
    Unstaged,
    /// Both.
    StagedAndUnstaged,
    /// Left over from a merge.
    Conflict,
    /// Neither tracked nor ignored.
    Untracked,
}

impl ChangeKind {
    /// The kind as it is told.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Staged => "staged",
            Self::Unstaged => "changed",
            Self::StagedAndUnstaged => "staged and changed",
            Self::Conflict => "in conflict",
            Self::Untracked => "untracked",
        }
    }
}

/// Why no worktree can be made of a directory.
#[derive(Debug, thiserror::Error)]
pub enum RepositoryFault {
    /// No repository.
    #[error("{}: is not in a Git repository", .0.display())]
    NotARepository(PathBuf),
    /// A directory below the top level.
    #[error("{}: is not the top level of its repository, which is {}", path.display(), top.display())]
    NotTopLevel {
        /// What was asked for.
        path: PathBuf,
        /// The top level.
        top: PathBuf,
    },
    /// A bare repository, or the inside of a `.git` directory.
    #[error("{}: is a bare repository, or lies inside of one", .0.display())]
    Bare(PathBuf),
    /// `core.worktree` is set: the files may be anywhere.
    #[error("{}: the repository has its files elsewhere (core.worktree is set)", .0.display())]
    FilesElsewhere(PathBuf),
    /// A partial clone: objects that a worktree needs may have to be fetched.
    #[error("{}: is a partial clone ({setting} is set)", path.display())]
    PartialClone {
        /// The top level.
        path: PathBuf,
        /// The setting.
        setting: String,
    },
    /// Belongs to somebody else.
    #[error("{}: belongs to another user", .0.display())]
    OtherOwner(PathBuf),
    /// A path of it is not UTF-8.
    #[error("{}: is not UTF-8", .0.display())]
    NotUtf8(PathBuf),
    /// Nothing to make a worktree of.
    #[error("{}: has no commit yet", .0.display())]
    NoCommit(PathBuf),
    /// In the middle of something.
    #[error("{}: is in the middle of {operation}", path.display())]
    InProgress {
        /// The top level.
        path: PathBuf,
        /// Of what, for example `a merge`.
        operation: &'static str,
    },
    /// Not clean.
    #[error("{}: has {total} uncommitted {}: {}", path.display(), changes_word(*total), list(first, *total))]
    Changed {
        /// The top level.
        path: PathBuf,
        /// Some of them.
        first: Vec<Change>,
        /// How many there are; an untracked directory counts once.
        total: usize,
        /// Some files are kept in another form than they are checked out in (Git LFS and the like), so that git without
        /// their programs cannot tell whether they have changed, once their time stamps have.
        filtered: bool,
    },
    /// Git gave no answer.
    #[error(transparent)]
    Git(#[from] GitFault),
}

const fn changes_word(total: usize) -> &'static str {
    if total == 1 { "change" } else { "changes" }
}

fn list(first: &[Change], total: usize) -> String {
    let mut words: Vec<String> = first
        .iter()
        .take(SHOWN)
        .map(|change| format!("{} ({})", change.path.escape_debug(), change.kind.as_str()))
        .collect();
    let more = total.saturating_sub(words.len());
    if more > 0 {
        words.push(format!("and {more} more"));
    }
    words.join(", ")
}

impl RepositoryFault {
    /// The code of the refusal.
    #[must_use]
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::NoCommit(_) | Self::InProgress { .. } | Self::Changed { .. } => {
                ErrorCode::RepositoryNotClean
            }
            Self::Git(GitFault::NoGit { .. } | GitFault::TooOld { .. } | GitFault::Sandbox(_)) => {
                ErrorCode::ProfileForbids
            }
            Self::Git(GitFault::Io { .. }) => ErrorCode::Internal,
            _ => ErrorCode::WorkingDirectoryInvalid,
        }
    }

    /// What the caller can do about it.
    #[must_use]
    pub fn what_to_do(&self) -> String {
        match self {
            Self::NotARepository(_) => "Name the top level of a Git repository; for a directory without Git there is the profile direct_write.".to_owned(),
            Self::NotTopLevel { top, .. } => format!("Call again with working_directory {}.", top.display()),
            Self::Bare(_) => "Name a checkout with files, not the repository itself.".to_owned(),
            Self::FilesElsewhere(_) => "Name an ordinary checkout. A submodule is one of these: clone it on its own.".to_owned(),
            Self::PartialClone { .. } => "A copy would need objects from the network, and git has none here. Use a full clone.".to_owned(),
            Self::OtherOwner(_) => "Use a repository of the user that Gatehouse runs as.".to_owned(),
            Self::NotUtf8(_) => "Use a path that is UTF-8.".to_owned(),
            Self::NoCommit(_) => "Have the user make a first commit, or use direct_write.".to_owned(),
            Self::InProgress { operation, .. } => format!("Have the user finish or abort {operation}, then call again."),
            Self::Changed { filtered: false, .. } => "Have the user commit, stash or ignore these, then call again. What only the user's own Git settings ignore counts as untracked: .git/info/exclude is seen.".to_owned(),
            Self::Changed { .. } => "Have the user commit, stash or ignore these, then call again. If they are files of Git LFS that have not changed, one `git status` of the user's own settles it.".to_owned(),
            Self::Git(fault) => fault.what_to_do(),
        }
    }
}

impl GitFault {
    /// What can be done about it.
    #[must_use]
    pub fn what_to_do(&self) -> String {
        match self {
            Self::NoGit { .. } => "Have the user install git, or name its place: config key commands.path.",
            Self::TooOld { .. } => "Have the user install a newer git.",
            Self::Sandbox(_) => "Git runs in the sandbox or not at all. Tell the user; `sandbox-launch --probe` says what this computer lacks.",
            Self::TimedOut { .. } | Self::TooMuch { .. } => "The repository is too large for this, or its disk too slow. Try again, or use direct_write.",
            Self::Failed { .. } => "Have the user look at the repository with git itself (`git fsck`, `git status`).",
            Self::StrangeSettings => "Have the user rename that setting (`git config --list` shows it).",
            Self::Io { .. } => "Try again; if it stays so, tell the user.",
        }
        .to_owned()
    }
}

/// Why a worktree was not made. What was begun is removed again.
#[derive(Debug, thiserror::Error)]
pub enum CreateFault {
    /// The folder for worktrees lies inside of the repository that one is to be made of.
    #[error("the folder for worktrees, {}, lies inside of the repository {}", folder.display(), top.display())]
    FolderInside {
        /// The folder.
        folder: PathBuf,
        /// The top level.
        top: PathBuf,
    },
    /// Something is there already.
    #[error("{}: is there already", .0.display())]
    Exists(PathBuf),
    /// The repository is not at the same commit any more, or not the same.
    #[error("{}: is not the repository any more that was looked at", .0.display())]
    SourceChanged(PathBuf),
    /// Git failed.
    #[error(transparent)]
    Git(#[from] GitFault),
    /// What came of it is not what was asked for.
    #[error("the new worktree is not as it should be: {0}")]
    Unsound(#[from] BindingFault),
}

/// Why a worktree is not the one that a session is bound to.
#[derive(Debug, thiserror::Error)]
pub enum BindingFault {
    /// It is gone.
    #[error("{}: is not there any more", .0.display())]
    Missing(PathBuf),
    /// Something else is there.
    #[error("{}: is not the directory any more that Gatehouse made", .0.display())]
    Replaced(PathBuf),
    /// The repository's directory is another one.
    #[error("{}: is not the repository any more that the worktree was made of", .0.display())]
    RepositoryReplaced(PathBuf),
    /// The worktree's `.git` file does not lead to its registration.
    #[error("{}: does not lead to the worktree's registration", .0.display())]
    GitFile(PathBuf),
    /// The repository does not know the worktree, or knows another of that name.
    #[error("{}: does not register the worktree", .0.display())]
    NotRegistered(PathBuf),
    /// Something could not be looked at.
    #[error("{}: {source}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

/// Why the state of a worktree cannot be told, or no patch be made.
#[derive(Debug, thiserror::Error)]
pub enum LookFault {
    /// It is not the one.
    #[error(transparent)]
    Binding(#[from] BindingFault),
    /// Git failed.
    #[error(transparent)]
    Git(#[from] GitFault),
}

/// Why a worktree was not removed.
#[derive(Debug, thiserror::Error)]
pub enum RemoveFault {
    /// It is not the one.
    #[error(transparent)]
    Binding(#[from] BindingFault),
    /// What is there was not made by the attempt that is to be cleared away.
    #[error("{}: {why}, so it is left alone", path.display())]
    NotOurs {
        /// What is there.
        path: PathBuf,
        /// Why it is not ours.
        why: &'static str,
    },
    /// The system did not let us.
    #[error("{}: {source}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}
