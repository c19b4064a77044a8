//! Whether a directory is the clean top level of a repository that a worktree can be made of.

use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gatehouse_sandbox::launch::Exit;

use super::binding::identify;
use super::environment::Names;
use super::fault::{GitFault, RepositoryFault};
use super::git::{Job, Question};
use super::status::{self, Scan};
use super::{Notes, Repository, Worktrees, progress};

/// How long the whole look may take. The caller waits for it.
const LOOK: Duration = Duration::from_secs(40);

type Checked<T = ()> = Result<T, RepositoryFault>;

impl Worktrees {
    /// Looks at a directory, and changes nothing.
    ///
    /// # Errors
    /// Why no worktree can be made of it.
    pub async fn inspect(&self, directory: &Path) -> Checked<Repository> {
        let top = directory.canonicalize().map_err(GitFault::io(directory))?;
        utf8(&top)?;
        owned(&top)?;
        let common = common_directory_nearby(&top);
        let places: Vec<&Path> = std::iter::once(&*top).chain(common.as_deref()).collect();
        let mut job = self.git.begin(&places, LOOK).await?;
        let object_format = kind(&job, &top).await?;
        judge_settings(job.learn_settings(&top).await?, &top)?;
        is_top(&job, &top).await?;
        let (git_dir, common_dir) = directories(&job, &top).await?;
        let head = head(&job, &top).await?;
        in_progress(&job, &top, &git_dir).await?;
        let ((), notes) = tokio::try_join!(clean(&job, &top), notes(&job, &top))?;
        let common = identify(&common_dir).map_err(GitFault::io(&common_dir))?;
        Ok(Repository { top, common_dir, common, head, object_format, notes })
    }
}

fn utf8(path: &Path) -> Checked {
    if path.to_str().is_some() { Ok(()) } else { Err(RepositoryFault::NotUtf8(path.to_owned())) }
}

/// Git itself refuses what belongs to others, for the settings there could name programs. Its words would be about settings that
/// are not read here.
fn owned(path: &Path) -> Checked {
    let found = path.symlink_metadata().map_err(GitFault::io(path))?;
    let own = found.uid() == nix::unistd::geteuid().as_raw();
    if own { Ok(()) } else { Err(RepositoryFault::OtherOwner(path.to_owned())) }
}

/// Where the common directory of a linked worktree seems to be, so that git can see it also below a covered directory. What it
/// really is, git tells.
fn common_directory_nearby(top: &Path) -> Option<PathBuf> {
    let text = super::binding::read_small(&top.join(".git")).ok()?;
    let git_dir = super::binding::link_target(&text, top)?;
    let common = super::binding::read_small(&git_dir.join("commondir")).ok();
    let common = common.and_then(|text| super::binding::path_in(&text, &git_dir));
    common.unwrap_or(git_dir).canonicalize().ok()
}

/// That it is a checkout; gives the object format.
async fn kind(job: &Job<'_>, top: &Path) -> Checked<String> {
    let words = ["rev-parse", "--is-bare-repository", "--is-inside-git-dir", "--show-object-format"];
    let answer = job.text(Question::new(top, &words)).await;
    let answer = answer.map_err(|fault| no_repository(fault, top))?;
    match answer.split('\n').collect::<Vec<_>>()[..] {
        ["false", "false", format] => Ok(format.to_owned()),
        _ => Err(RepositoryFault::Bare(top.to_owned())),
    }
}

fn no_repository(fault: GitFault, top: &Path) -> RepositoryFault {
    let said = |words: &str| matches!(&fault, GitFault::Failed { said, .. } if said.contains(words));
    if said("not a git repository") {
        RepositoryFault::NotARepository(top.to_owned())
    } else if said("dubious ownership") {
        RepositoryFault::OtherOwner(top.to_owned())
    } else {
        fault.into()
    }
}

fn judge_settings(names: &Names, top: &Path) -> Checked {
    if names.has("core.worktree") {
        return Err(RepositoryFault::FilesElsewhere(top.to_owned()));
    }
    match names.promisor() {
        Some(setting) => {
            Err(RepositoryFault::PartialClone { path: top.to_owned(), setting: setting.to_owned() })
        }
        None => Ok(()),
    }
}

async fn is_top(job: &Job<'_>, path: &Path) -> Checked {
    let top = PathBuf::from(job.text(Question::new(path, &["rev-parse", "--show-toplevel"])).await?);
    if top == path { Ok(()) } else { Err(RepositoryFault::NotTopLevel { path: path.to_owned(), top }) }
}

/// The checkout's own directory, and the one that it shares with others.
async fn directories(job: &Job<'_>, top: &Path) -> Checked<(PathBuf, PathBuf)> {
    let common = ["rev-parse", "--path-format=absolute", "--git-common-dir"];
    let (own, common) = tokio::try_join!(
        job.text(Question::new(top, &["rev-parse", "--absolute-git-dir"])),
        job.text(Question::new(top, &common)),
    )?;
    let real = |path: String| {
        let path = PathBuf::from(path);
        utf8(&path)?;
        let path = path.canonicalize().map_err(GitFault::io(&path))?;
        utf8(&path).and_then(|()| owned(&path)).map(|()| path)
    };
    Ok((real(own)?, real(common)?))
}

async fn head(job: &Job<'_>, top: &Path) -> Checked<String> {
    rev(job, top, "HEAD^{commit}").await?.ok_or_else(|| RepositoryFault::NoCommit(top.to_owned()))
}

/// What a revision is, if there is one of that name.
pub(super) async fn rev(job: &Job<'_>, directory: &Path, name: &str) -> Result<Option<String>, GitFault> {
    let question = Question::new(directory, &["rev-parse", "--quiet", "--verify", name]);
    let (answer, said) = job.ask(question).await?;
    let text = String::from_utf8_lossy(&answer).trim().to_owned();
    Ok((said.how == Exit::Code(0)).then_some(text))
}

async fn in_progress(job: &Job<'_>, top: &Path, git_dir: &Path) -> Checked {
    let refuse = |operation| Err(RepositoryFault::InProgress { path: top.to_owned(), operation });
    if let Some(operation) = progress::operation(git_dir) {
        return refuse(operation);
    }
    if job.names().has("extensions.refstorage") {
        for name in progress::REFS {
            let found = rev(job, top, name).await?;
            if let Some(operation) = found.and_then(|_| progress::of_ref(name)) {
                return refuse(operation);
            }
        }
    }
    Ok(())
}

async fn clean(job: &Job<'_>, top: &Path) -> Checked {
    let mut scan = Scan::default();
    let mut sink = |bytes: &[u8]| {
        scan.push(bytes);
        ControlFlow::Continue(())
    };
    job.each(Question::new(top, &status::words("--untracked-files=normal")), &mut sink).await?;
    if scan.total == 0 {
        return Ok(());
    }
    let filtered = !job.names().filters().is_empty() || count_lfs(job, top).await? > 0;
    Err(RepositoryFault::Changed { path: top.to_owned(), first: scan.first, total: scan.total, filtered })
}

async fn notes(job: &Job<'_>, top: &Path) -> Checked<Notes> {
    let submodules = async {
        let is_submodule = |entry: &[u8]| entry.starts_with(b"160000 ");
        count(job, Question::new(top, &["ls-files", "--stage", "-z"]), is_submodule).await
    };
    let (submodules, lfs_files) = tokio::try_join!(submodules, count_lfs(job, top))?;
    let filters =
        job.names().filters().into_iter().filter(|name| *name != "lfs").map(str::to_owned).collect();
    let sparse = job.names().has("core.sparsecheckout") && is_sparse(job, top).await?;
    Ok(Notes { submodules, lfs_files, filters, sparse })
}

async fn is_sparse(job: &Job<'_>, top: &Path) -> Checked<bool> {
    let question = Question::new(top, &["config", "--type=bool", "--get", "core.sparseCheckout"]);
    Ok(job.ask(question).await?.0 == b"true\n")
}

async fn count_lfs(job: &Job<'_>, top: &Path) -> Result<usize, GitFault> {
    let mut question = Question::new(top, &["ls-files", "-z", "--", ":(attr:filter=lfs)"]);
    question.variables = vec![("GIT_LITERAL_PATHSPECS", "0".into())];
    count(job, question, |_| true).await
}

/// How many of the entries of an answer are of a kind. Only the beginning of each is looked at.
async fn count(
    job: &Job<'_>,
    question: Question,
    is_one: impl Fn(&[u8]) -> bool + Send + Sync,
) -> Result<usize, GitFault> {
    /// As much as tells an entry's kind.
    const BEGINNING: usize = 16;
    let (mut total, mut beginning) = (0, Vec::with_capacity(BEGINNING));
    let mut sink = |bytes: &[u8]| {
        for &byte in bytes {
            if byte == 0 {
                total += usize::from(is_one(&beginning));
                beginning.clear();
            } else if beginning.len() < BEGINNING {
                beginning.push(byte);
            }
        }
        ControlFlow::Continue(())
    };
    job.each(question, &mut sink).await?;
    Ok(total)
}
