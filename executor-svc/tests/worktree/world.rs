//! A repository to make worktrees of, the room, and plain git to compare with.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use executor_svc::files::{FilePolicy, FilePolicyConfig};
use executor_svc::worktree::{
    Repository, RepositoryFault, Worktree, WorktreeIntent, WorktreeSettings, Worktrees,
};
use tempfile::TempDir;

pub const NONCE: &str = "0123456789abcdef";

pub struct World {
    top: TempDir,
    git: PathBuf,
    pub room: Worktrees,
}

/// The gits of this machine, each a program of its own. `WORKTREE_GIT` names another one for all tests.
pub fn gits() -> Vec<PathBuf> {
    if let Some(named) = std::env::var_os("WORKTREE_GIT") {
        return vec![named.into()];
    }
    let mut gits: Vec<PathBuf> =
        ["/usr/local/bin", "/usr/bin"].iter().map(|dir| Path::new(dir).join("git")).collect();
    gits.retain(|git| git.is_file());
    assert!(!gits.is_empty(), "git is needed");
    gits
}

/// Where cargo puts what a test run needs: the folder above the tests' own.
pub fn launcher() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let file = test.parent().unwrap().parent().unwrap().join("sandbox-launch");
    assert!(file.is_file(), "build the workspace's binaries first: {} is missing", file.display());
    file
}

pub fn policy(top: &Path) -> Arc<FilePolicy> {
    let config = FilePolicyConfig {
        homes: vec![top.join("home")],
        own_dirs: vec![top.join("state")],
        ..FilePolicyConfig::default()
    };
    Arc::new(FilePolicy::new(config).unwrap())
}

impl World {
    /// Not below /tmp, which the sandbox covers.
    pub fn new() -> Self {
        Self::in_dir("/var/tmp")
    }

    pub fn in_dir(place: &str) -> Self {
        Self::of(place, &gits()[0])
    }

    pub fn with_git(git: &Path) -> Self {
        Self::of("/var/tmp", git)
    }

    fn of(place: &str, git: &Path) -> Self {
        let top = tempfile::Builder::new().prefix("gatehouse-worktree-").tempdir_in(place).unwrap();
        for dir in ["home", "state", "canaries"] {
            fs::create_dir(top.path().join(dir)).unwrap();
        }
        let real = top.path().canonicalize().unwrap();
        let settings = WorktreeSettings {
            launcher: Some(launcher()),
            path: vec!["/nonexistent".into(), git.parent().unwrap().into()],
            excludes: None,
            scratch: real.join("state/worktree-scratch"),
        };
        let room = Worktrees::new(settings, policy(&real));
        Self { top, git: git.to_owned(), room }
    }

    /// A world with a clean repository of a few files in `source`.
    pub fn with_source() -> Self {
        let world = Self::new();
        world.fill("source");
        world
    }

    pub fn path(&self, name: impl AsRef<OsStr>) -> PathBuf {
        self.top.path().canonicalize().unwrap().join(name.as_ref())
    }

    pub fn source(&self) -> PathBuf {
        self.path("source")
    }

    /// Makes a repository with a commit.
    pub fn fill(&self, name: impl AsRef<OsStr>) -> PathBuf {
        let dir = self.path(name);
        fs::create_dir_all(&dir).unwrap();
        self.git(&dir, &["init", "-q", "-b", "main"]);
        self.files(&dir);
        self.commit(&dir, "first");
        dir
    }

    /// Text, bytes, a program, a link, names that are unusual.
    pub fn files(&self, dir: &Path) {
        fs::create_dir_all(dir.join("deep/er")).unwrap();
        fs::write(dir.join("text"), "one\ntwo\n").unwrap();
        fs::write(dir.join("bytes"), (0..=255).cycle().take(5000).collect::<Vec<u8>>()).unwrap();
        fs::write(dir.join("deep/er/two words\nand a line \u{e9}"), "x").unwrap();
        fs::write(dir.join("program"), "#!/bin/sh\n").unwrap();
        fs::set_permissions(dir.join("program"), fs::Permissions::from_mode(0o755)).unwrap();
        std::os::unix::fs::symlink("text", dir.join("link")).unwrap();
        fs::write(dir.join(".gitignore"), "ignored\n").unwrap();
        fs::write(dir.join("ignored"), "not of interest").unwrap();
    }

    pub fn commit(&self, dir: &Path, message: &str) {
        self.git(dir, &["add", "-A"]);
        self.git(dir, &["commit", "-q", "--allow-empty", "-m", message]);
    }

    /// Plain git, as a user runs it; its environment is this world's.
    pub fn try_git(&self, dir: &Path, words: &[&str]) -> Output {
        Command::new(&self.git)
            .current_dir(dir)
            .args(words)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", self.path("home"))
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .envs([("GIT_AUTHOR_NAME", "t"), ("GIT_AUTHOR_EMAIL", "t@example")])
            .envs([("GIT_COMMITTER_NAME", "t"), ("GIT_COMMITTER_EMAIL", "t@example")])
            .output()
            .unwrap()
    }

    /// Whether this git knows the other way of keeping refs: since 2.45.
    pub fn has_reftables(&self) -> bool {
        self.try_git(&self.path(""), &["init", "-h"]).stdout.windows(10).any(|word| word == b"ref-format")
    }

    /// The same, where it must succeed; what it says.
    pub fn git(&self, dir: &Path, words: &[&str]) -> String {
        let done = self.try_git(dir, words);
        assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8_lossy(&done.stdout).into_owned()
    }

    pub fn intent(&self, repository: &Repository) -> WorktreeIntent {
        self.intent_with(repository, NONCE)
    }

    pub fn intent_with(&self, repository: &Repository, nonce: &str) -> WorktreeIntent {
        WorktreeIntent::new(repository.clone(), self.path("worktrees"), nonce).unwrap()
    }

    pub async fn inspect(&self) -> Repository {
        self.room.inspect(&self.source()).await.unwrap()
    }

    pub async fn refused(&self, dir: &Path) -> RepositoryFault {
        self.room.inspect(dir).await.unwrap_err()
    }

    /// A worktree of `source`.
    pub async fn made(&self) -> Worktree {
        let repository = self.inspect().await;
        self.room.create(&self.intent(&repository)).await.unwrap()
    }
}

/// Files of a checkout: each path with its content, links by their target; `.git` left out.
pub fn checkout(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut waiting = vec![dir.to_owned()];
    while let Some(at) = waiting.pop() {
        for entry in fs::read_dir(&at).unwrap().map(Result::unwrap) {
            let (path, kind) = (entry.path(), entry.file_type().unwrap());
            if entry.file_name() == ".git" {
                continue;
            } else if kind.is_dir() {
                waiting.push(path);
            } else {
                let content = match fs::read_link(&path) {
                    Ok(target) => target.into_os_string().into_encoded_bytes(),
                    Err(_) => fs::read(&path).unwrap(),
                };
                found.push((path.strip_prefix(dir).unwrap().to_owned(), content));
            }
        }
    }
    found.sort();
    found
}
