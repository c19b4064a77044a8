//! What has changed in a worktree.

use std::fmt::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gatehouse_proto::socket::make_private_dir;
use gatehouse_sandbox::launch::{SCRATCH, Scratch};
use serde::{Deserialize, Serialize};

use super::fault::{BindingFault, GitFault, LookFault};
use super::git::{Job, Question};
use super::inspect::rev;
use super::status::{self, Scan};
use super::{Worktree, Worktrees};

/// How long a look may take.
const LOOK: Duration = Duration::from_secs(120);
/// The largest patch, in bytes.
pub const MOST_PATCH: usize = 256 << 20;
/// The most that the names of untracked files may come to, in bytes.
const MOST_NAMES: usize = 64 << 20;
/// The name of the second index in the scratch.
const INDEX: &str = "gatehouse-index";

/// What has become of a worktree since it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorktreeState {
    /// Nothing has changed.
    Clean,
    /// Something has.
    Changed {
        /// How many files differ from its commit, untracked ones included and ignored ones not.
        files: usize,
        /// It is at another commit than the one that was checked out: somebody has committed or switched.
        moved: bool,
    },
}

impl Worktrees {
    /// What has changed in a worktree. Writes nothing.
    ///
    /// # Errors
    /// When it is not the one any more, or git fails.
    pub async fn state(&self, worktree: &Worktree) -> Result<WorktreeState, LookFault> {
        let job = self.look(worktree).await?;
        let mut scan = Scan::default();
        let mut sink = |bytes: &[u8]| {
            scan.push(bytes);
            ControlFlow::Continue(())
        };
        let question = Question::new(&worktree.path, &status::words("--untracked-files=all"));
        job.each(question, &mut sink).await?;
        let moved = rev(&job, &worktree.path, "HEAD^{commit}").await?.as_ref() != Some(&worktree.head);
        Ok(if scan.total == 0 && !moved {
            WorktreeState::Clean
        } else {
            WorktreeState::Changed { files: scan.total, moved }
        })
    }

    /// All changes since the commit that was checked out, as a patch for `git apply`: binary files and untracked files
    /// included, ignored files and repositories inside of it not. At most [`MOST_PATCH`] bytes; empty where nothing has
    /// changed. Writes nothing but a temporary file of the room's own.
    ///
    /// # Errors
    /// When it is not the one any more, or git fails.
    pub async fn patch(&self, worktree: &Worktree) -> Result<Vec<u8>, LookFault> {
        let job = self.look(worktree).await?;
        let untracked = untracked(&job, &worktree.path).await?;
        if untracked.is_empty() {
            return Ok(job.bytes(diff(worktree)).await?);
        }
        let index = SecondIndex::of(worktree, &self.scratch)?;
        let mut add =
            Question::new(&worktree.path, &["update-index", "--add", "--replace", "-z", "--index-info"]);
        add.stdin = Some(index_lines(&untracked, &worktree.object_format));
        job.bytes(index.used_by(add)).await?;
        Ok(job.bytes(index.used_by(diff(worktree))).await?)
    }

    async fn look(&self, worktree: &Worktree) -> Result<Job<'_>, LookFault> {
        worktree.verify()?;
        let mut job = self.git.begin(&[&worktree.path, &worktree.common_dir], LOOK).await?;
        job.learn_settings(&worktree.path).await?;
        Ok(job)
    }
}

/// The difference between the files and the commit that was checked out. Every option is there so that no setting decides.
fn diff(worktree: &Worktree) -> Question {
    let words = [
        "diff",
        "--binary",
        "--full-index",
        "--no-color",
        "--no-ext-diff",
        "--no-textconv",
        "--no-renames",
        "--no-relative",
        "--src-prefix=a/",
        "--dst-prefix=b/",
        "--unified=3",
        "--inter-hunk-context=0",
        "--ignore-submodules=dirty",
        "--submodule=short",
        &worktree.head,
        "--",
    ];
    let mut question = Question::new(&worktree.path, &words);
    question.most = Some(MOST_PATCH);
    question
}

/// The untracked files. A repository inside of the worktree ends in a slash, and is left out.
async fn untracked(job: &Job<'_>, path: &Path) -> Result<Vec<Vec<u8>>, GitFault> {
    let mut question = Question::new(path, &["ls-files", "--others", "--exclude-standard", "-z"]);
    question.most = Some(MOST_NAMES);
    let names = job.bytes(question).await?;
    let files = names.split(|byte| *byte == 0).filter(|name| !name.is_empty() && !name.ends_with(b"/"));
    Ok(files.map(<[u8]>::to_vec).collect())
}

/// Lines that make the files known to an index, as empty ones: what they hold is then a difference.
fn index_lines(files: &[Vec<u8>], object_format: &str) -> Vec<u8> {
    let empty = if object_format == "sha256" {
        "473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813"
    } else {
        "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
    };
    let mut lines = Vec::new();
    for file in files {
        lines.extend_from_slice(format!("100644 {empty}\t").as_bytes());
        lines.extend_from_slice(file);
        lines.push(0);
    }
    lines
}

/// A copy of a worktree's index that may be changed. Removed when dropped.
struct SecondIndex {
    directory: PathBuf,
    bytes: u64,
}

impl SecondIndex {
    fn of(worktree: &Worktree, scratch: &Path) -> Result<Self, LookFault> {
        let mut name = String::new();
        let _ = write!(name, "{}", uuid::Uuid::new_v4());
        let directory = scratch.join(name);
        make_private_dir(scratch)
            .and_then(|()| make_private_dir(&directory))
            .map_err(GitFault::io(scratch))?;
        let mut index = Self { directory, bytes: 0 };
        let from = worktree.registration_dir().join("index");
        let io = |source| BindingFault::Io { path: from.clone(), source };
        let size = std::fs::copy(&from, index.directory.join(INDEX)).map_err(io)?;
        index.bytes = size;
        Ok(index)
    }

    fn used_by(&self, question: Question) -> Question {
        // The index, the one that takes its place, and what is added.
        let bytes = 4 * self.bytes + 4 * MOST_NAMES as u64;
        let mut question = question;
        question.scratch = Scratch::Directory { path: self.directory.clone(), bytes };
        question.variables.push(("GIT_INDEX_FILE", Path::new(SCRATCH).join(INDEX).into_os_string()));
        question
    }
}

impl Drop for SecondIndex {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
