//! A session's root to write in, and a watcher that does things between the steps.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use executor_svc::files::replace::{
    Outcome, ReplaceFault, ReplaceOptions, Replacer, Step, StepWatch, Target, is_temporary_name,
};
use executor_svc::files::{FilePolicy, FilePolicyConfig, Profile, SessionFiles, canonical_root};
use rustix::io::Errno;

/// `top/root` is the session's root; `top/outside` must never change.
pub struct World {
    _kept: Option<tempfile::TempDir>,
    pub root: PathBuf,
    pub outside: PathBuf,
    pub files: Arc<SessionFiles>,
    pub replacer: Replacer,
}

impl World {
    pub fn new() -> Self {
        Self::with(ReplaceOptions::default())
    }

    pub fn with(options: ReplaceOptions) -> Self {
        let kept = tempfile::tempdir().unwrap();
        let top = kept.path().canonicalize().unwrap();
        Self { _kept: Some(kept), ..Self::at(&top, Replacer::new(options)) }
    }

    pub fn watched(watch: impl StepWatch + 'static) -> Self {
        Self { replacer: Replacer::watched(ReplaceOptions::default(), Arc::new(watch)), ..Self::new() }
    }

    /// A world in a directory that exists already.
    pub fn at(top: &Path, replacer: Replacer) -> Self {
        let (root, outside) = (top.join("root"), top.join("outside"));
        std::fs::create_dir_all(&root).unwrap();
        std::fs::create_dir_all(&outside).unwrap();
        Self { _kept: None, files: session(&root), root, outside, replacer }
    }

    pub fn put(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.root.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    pub fn open(&self, path: impl AsRef<Path>) -> Result<Target, ReplaceFault> {
        self.replacer.open(&self.files, path.as_ref(), Instant::now() + Duration::from_secs(60))
    }

    /// Opens, prepares and performs.
    pub fn write(&self, path: impl AsRef<Path>, content: &str) -> Result<Outcome, ReplaceFault> {
        self.open(path)?.prepare(content.as_bytes().to_vec(), "toolu_test")?.perform()
    }

    /// The code with which writing is refused. Nothing may have changed.
    pub fn refusal(&self, path: impl AsRef<Path>) -> &'static str {
        let before = snapshot(self.top());
        let fault = self.write(path, "refused").unwrap_err();
        assert_eq!(snapshot(self.top()), before, "{fault}");
        assert!(!fault.hint().is_empty());
        fault.code().as_str()
    }

    pub fn top(&self) -> &Path {
        self.root.parent().unwrap()
    }

    /// No write left anything behind.
    #[track_caller]
    pub fn assert_tidy(&self) {
        let is_left =
            |path: &PathBuf| path.file_name().is_some_and(|n| is_temporary_name(&n.to_string_lossy()));
        let left: Vec<_> = snapshot(self.top()).into_iter().map(|(path, _)| path).filter(is_left).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

pub fn session(root: &Path) -> Arc<SessionFiles> {
    let policy = Arc::new(FilePolicy::new(FilePolicyConfig::default()).unwrap());
    let root = canonical_root(root, Profile::DirectWrite, &policy).unwrap();
    Arc::new(SessionFiles::new(root, policy))
}

/// Every path below, with what it holds.
pub fn snapshot(top: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders = vec![top.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let (path, kind) = (entry.path(), entry.file_type().unwrap());
            let holds = if kind.is_dir() {
                folders.push(path.clone());
                "directory".to_owned()
            } else if kind.is_file() {
                format!(
                    "file {:?}",
                    std::fs::read(&path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
                )
            } else {
                format!("{kind:?} {:?}", std::fs::read_link(&path).ok())
            };
            found.push((path, holds));
        }
    }
    found.sort();
    found
}

/// Does something, once, before a step.
pub struct Before<F> {
    step: Step,
    act: F,
    done: AtomicBool,
    asks: bool,
}

impl<F: Fn() -> Result<(), Errno> + Send + Sync> Before<F> {
    /// As on a system that does not tell who has a file open for writing.
    pub fn untold(self) -> Self {
        Self { asks: false, ..self }
    }

    pub const fn new(step: Step, act: F) -> Self {
        Self { step, act, done: AtomicBool::new(false), asks: true }
    }
}

impl<F> fmt::Debug for Before<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "before {:?}", self.step)
    }
}

impl<F: Fn() -> Result<(), Errno> + Send + Sync> StepWatch for Before<F> {
    fn before(&self, step: Step) -> Result<(), Errno> {
        if step == self.step && !self.done.swap(true, Ordering::AcqRel) { (self.act)() } else { Ok(()) }
    }

    fn asks_for_writers(&self) -> bool {
        self.asks
    }
}
