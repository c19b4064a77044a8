//! Making a worktree.

use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gatehouse_proto::socket::make_private_dir;

use super::binding::identify;
use super::fault::{CreateFault, GitFault};
use super::git::{Job, Question};
use super::{Worktree, WorktreeIntent, Worktrees};

/// How long it may take to write all files. Nobody waits in a call.
const CHECKOUT: Duration = Duration::from_secs(900);

type Made<T = ()> = Result<T, CreateFault>;

impl Worktrees {
    /// Makes the worktree that the intent names, at the commit that was looked at, and locks it. The intent has to be durable
    /// before.
    ///
    /// # Errors
    /// Why it was not made. What was begun is removed again, as far as the system lets us; [`Worktrees::clear_away`] tries
    /// that once more.
    pub async fn create(&self, intent: &WorktreeIntent) -> Made<Worktree> {
        let place = Place::of(intent)?;
        let made = self.make(intent, &place).await;
        if made.is_err() {
            let cleared = self.clear_away(intent).await;
            if let Err(fault) = cleared {
                tracing::warn!(%fault, "a half-made worktree stays");
            }
        }
        made
    }

    async fn make(&self, intent: &WorktreeIntent, place: &Place) -> Made<Worktree> {
        place.prepare(intent)?;
        let repository = &intent.repository;
        let places = [&*repository.top, &*repository.common_dir, &*place.path];
        let mut job = self.git.begin(&places, CHECKOUT).await?;
        job.learn_settings(&repository.top).await?;
        {
            // Git reads the other registrations as well, and fails where one is being written.
            let _one_at_a_time = self.registering.lock().await;
            self.git.orphans_gone().await;
            register(&job, intent, place).await?;
        }
        // Settings may hold for this worktree alone (a conditional include), and so have to be asked for again.
        job.learn_settings(&place.path).await?;
        check_out(&job, intent, place).await?;
        let worktree = Worktree {
            path: place.path.clone(),
            identity: identify(&place.path).map_err(GitFault::io(&place.path))?,
            source: repository.top.clone(),
            common_dir: repository.common_dir.clone(),
            common: repository.common,
            registration: intent.name.clone(),
            head: repository.head.clone(),
            object_format: repository.object_format.clone(),
        };
        worktree.verify()?;
        Ok(worktree)
    }
}

/// Where it goes.
struct Place {
    path: PathBuf,
    registrations: PathBuf,
}

impl Place {
    /// The place, which must be free. Makes the folder if need be.
    fn of(intent: &WorktreeIntent) -> Made<Self> {
        let repository = &intent.repository;
        let inside = |folder: &Path| {
            let surrounds =
                [&repository.top, &repository.common_dir].iter().any(|dir| folder.starts_with(dir));
            let (folder, top) = (folder.to_owned(), repository.top.clone());
            if surrounds { Err(CreateFault::FolderInside { folder, top }) } else { Ok(()) }
        };
        inside(&real_of(&intent.folder))?;
        make_private_dir(&intent.folder).map_err(GitFault::io(&intent.folder))?;
        let folder = intent.folder.canonicalize().map_err(GitFault::io(&intent.folder))?;
        inside(&folder)?;
        let common = identify(&repository.common_dir).map_err(GitFault::io(&repository.common_dir))?;
        if common != repository.common {
            return Err(CreateFault::SourceChanged(repository.top.clone()));
        }
        let path = folder.join(&intent.name);
        for taken in [&path, &intent.registration()] {
            if taken.symlink_metadata().is_ok() {
                return Err(CreateFault::Exists(taken.clone()));
            }
        }
        Ok(Self { path, registrations: repository.common_dir.join("worktrees") })
    }

    /// The two directories that git may write must be there.
    fn prepare(&self, intent: &WorktreeIntent) -> Made {
        private(&self.path).map_err(GitFault::io(&self.path))?;
        like(&self.registrations, &intent.repository.common_dir)
            .map_err(GitFault::io(&self.registrations))?;
        Ok(())
    }
}

/// Where a path leads that need not be there yet.
fn real_of(path: &Path) -> PathBuf {
    let there = path.ancestors().find_map(|dir| Some((dir, dir.canonicalize().ok()?)));
    match there {
        Some((dir, real)) => path.strip_prefix(dir).map_or_else(|_| path.to_owned(), |rest| real.join(rest)),
        None => path.to_owned(),
    }
}

fn private(path: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().mode(0o700).create(path)
}

/// Makes a directory that is as open to others as the one that it is in: a repository may be shared.
fn like(path: &Path, parent: &Path) -> io::Result<()> {
    match std::fs::create_dir(path) {
        Ok(()) => std::fs::set_permissions(path, parent.metadata()?.permissions()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// Has the repository register it. No file is checked out: it can write the registrations and the empty directory only.
async fn register(job: &Job<'_>, intent: &WorktreeIntent, place: &Place) -> Made {
    let reason = intent.lock_reason();
    let words =
        ["worktree", "add", "--quiet", "--detach", "--no-checkout", "--lock", "--reason", &reason, "--"];
    let repository = &intent.repository;
    let words: Vec<&std::ffi::OsStr> =
        words.iter().map(AsRef::as_ref).chain([place.path.as_ref(), repository.head.as_ref()]).collect();
    let mut question = Question::new(&repository.top, &words);
    question.writable = vec![place.registrations.clone(), place.path.clone()];
    job.bytes(question).await?;
    Ok(())
}

/// Writes the files: it can write its own registration and its own directory.
async fn check_out(job: &Job<'_>, intent: &WorktreeIntent, place: &Place) -> Made {
    let words = ["reset", "--quiet", "--hard", "--no-recurse-submodules", &intent.repository.head];
    let mut question = Question::new(&place.path, &words);
    question.writable = vec![intent.registration(), place.path.clone()];
    job.bytes(question).await?;
    Ok(())
}
