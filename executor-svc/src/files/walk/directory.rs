//! Opening one directory of a tree, judging it, and splitting it into pieces of work.

use std::collections::HashMap;
use std::ffi::{CStr, CString, OsStr};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use super::ignores::{Ignores, read_text};
use super::split::Split;
use super::tally::Reason;
use super::{Bounds, EntryKind, Ignored, Position, Visitor};
use crate::files::FileFault;
use crate::files::mounts::{Mount, Mounts};
use crate::files::protected_inodes::ProtectedInodes;
use crate::files::session::{OpenDirectory, SessionFiles, from_errno};
use crate::files::sys;
use gatehouse_sandbox::policy::Position as Guard;

/// What all workers share.
pub(super) struct Tree<'a> {
    pub files: &'a SessionFiles,
    top: &'a OpenDirectory,
    bounds: &'a Bounds,
    looked_at: &'a AtomicUsize,
    /// What is mounted below the top, by path: judged before it is touched.
    mounted: HashMap<PathBuf, Mount>,
    /// Paths below the top that a mount elsewhere shows under another name.
    shown_elsewhere: HashMap<PathBuf, Vec<PathBuf>>,
    inodes: OnceLock<Arc<ProtectedInodes>>,
    /// The path of the top with a slash at its end, as text.
    top_text: String,
}

/// A piece of work.
#[derive(Debug)]
pub(super) enum Pending {
    Directory(Directory),
    Run(Run),
}

/// A directory that is still to be opened.
#[derive(Debug)]
pub(super) struct Directory {
    /// Below the top; empty for the top itself.
    pub path: String,
    pub depth: u64,
    /// Where it stands in the list of protected paths, under each of its names.
    pub guards: Vec<Guard>,
    pub ignores: Option<Arc<Ignores>>,
    pub mount: Mount,
}

/// Entries of one directory, with no subdirectory between them.
#[derive(Debug)]
pub(super) struct Run {
    pub home: Arc<Home>,
    pub entries: Vec<RunEntry>,
    /// The directory, if it is still open.
    pub opened: Option<OwnedFd>,
}

/// The directory that a run belongs to.
#[derive(Debug)]
pub(super) struct Home {
    pub path: String,
    pub identity: (u64, u64),
    pub mount: Mount,
}

#[derive(Debug)]
pub(super) struct RunEntry {
    /// Below the top; shared with whatever is found there.
    pub path: Arc<str>,
    pub name: CString,
    pub kind: EntryKind,
    /// Set if it is left out.
    pub skip: Option<Reason>,
    /// The last line that was given before; 0 if it was not visited before.
    pub after: u64,
}

impl Pending {
    pub(super) fn top(tree: &Tree<'_>) -> Self {
        let (path, mount) = (&tree.top.path, &tree.top.mount);
        let ignores = match tree.bounds.ignored {
            Ignored::LeftOut => Ignores::above(tree.files, path),
            Ignored::Included => None,
        };
        let guards = tree.guards_of(path, mount);
        Self::Directory(Directory { path: String::new(), depth: 0, guards, ignores, mount: mount.clone() })
    }

    /// Where it begins in the order.
    pub(super) fn start(&self) -> Position {
        let path = match self {
            Self::Directory(directory) if directory.path.is_empty() => Arc::default(),
            Self::Directory(directory) => format!("{}/", directory.path).into(),
            Self::Run(run) => run.entries.first().map(|entry| entry.path.clone()).unwrap_or_default(),
        };
        Position { path, line: 0 }
    }

    /// A piece that is nothing but its place in the order.
    #[cfg(test)]
    pub(super) fn placeholder(path: &str) -> Self {
        let mount = Mount {
            id: 0,
            device: String::new(),
            root: PathBuf::new(),
            point: PathBuf::new(),
            kind: String::new(),
        };
        let home = Arc::new(Home { path: String::new(), identity: (0, 0), mount });
        let entry = RunEntry {
            path: path.into(),
            name: CString::default(),
            kind: EntryKind::Other,
            skip: None,
            after: 0,
        };
        Self::Run(Run { home, entries: vec![entry], opened: None })
    }
}

/// What became of a directory.
pub(super) enum Expanded {
    Pieces(Vec<Pending>),
    LeftOut(Reason),
}

impl<'a> Tree<'a> {
    pub(super) fn new(
        files: &'a SessionFiles,
        top: &'a OpenDirectory,
        bounds: &'a Bounds,
        looked_at: &'a AtomicUsize,
    ) -> Self {
        let mounted = top.mounts.below(&top.path);
        let mut shown_elsewhere: HashMap<PathBuf, Vec<PathBuf>> = HashMap::new();
        for mount in mounted.values().chain([&top.mount]) {
            for (here, elsewhere) in top.mounts.shown_elsewhere(mount) {
                if here.starts_with(&top.path) {
                    shown_elsewhere.entry(here).or_default().push(elsewhere);
                }
            }
        }
        let mut top_text = top.path.to_string_lossy().into_owned();
        if !top_text.ends_with('/') {
            top_text.push('/');
        }
        Self { files, top, bounds, looked_at, mounted, shown_elsewhere, inodes: OnceLock::new(), top_text }
    }

    pub(super) const fn mounts(&self) -> &Mounts {
        &self.top.mounts
    }

    /// How long the path of the top is.
    pub(super) fn top_bytes(&self) -> usize {
        self.top.path.as_os_str().len()
    }

    pub(super) const fn bounds(&self) -> &Bounds {
        self.bounds
    }

    /// The protected inodes, brought up to date once for the whole walk.
    pub(super) fn inodes(&self) -> Arc<ProtectedInodes> {
        Arc::clone(self.inodes.get_or_init(|| self.files.policy().protected_inodes()))
    }

    /// The real path of something below the top.
    pub(super) fn real(&self, path: &str) -> PathBuf {
        if path.is_empty() { self.top.path.clone() } else { self.top.path.join(path) }
    }

    /// The same as text, in the place of what stands there.
    pub(super) fn write_real(&self, path: &str, text: &mut String) {
        text.clear();
        text.push_str(&self.top_text);
        text.push_str(path);
    }

    fn guards_of(&self, real: &Path, mount: &Mount) -> Vec<Guard> {
        let aliases = self.top.mounts.aliases(mount, real);
        aliases
            .iter()
            .map(PathBuf::as_path)
            .chain([real])
            .filter_map(|path| self.files.policy().position(path))
            .collect()
    }

    /// Opens a directory that may have been opened before.
    pub(super) fn open(&self, path: &str) -> Result<OwnedFd, Reason> {
        let relative = if path.is_empty() { Path::new(".") } else { Path::new(path) };
        sys::open_directory_below(&self.top.fd, relative).map_err(|errno| match errno {
            rustix::io::Errno::LOOP | rustix::io::Errno::NOTDIR => Reason::Changed,
            errno => Reason::from(&from_errno(errno, relative)),
        })
    }

    /// Opens a directory, judges it, and splits it into pieces in their order.
    pub(super) fn expand<V: Visitor>(&self, directory: Directory, visitor: &V) -> Expanded {
        match self.try_expand(directory, visitor) {
            Ok(pieces) => Expanded::Pieces(pieces),
            Err(reason) => Expanded::LeftOut(reason),
        }
    }

    fn try_expand<V: Visitor>(&self, mut directory: Directory, visitor: &V) -> Result<Vec<Pending>, Reason> {
        let real = self.real(&directory.path);
        let opened = self.open(&directory.path)?;
        let facts = sys::stat(&opened).map_err(|errno| Reason::from(&from_errno(errno, &real)))?;
        if facts.mount != directory.mount.id || facts.mount == 0 {
            self.enter_mount(&mut directory, &opened, &facts, &real)?;
        }
        let listed = sys::list(&opened).map_err(|errno| Reason::from(&from_errno(errno, &real)))?;
        self.looked_at.fetch_add(listed.len(), Ordering::Relaxed);
        self.read_ignores(&mut directory, &opened, &listed);
        let home = Arc::new(Home {
            path: directory.path.clone(),
            identity: facts.identity(),
            mount: directory.mount.clone(),
        });
        let mut split = Split::new(self, directory);
        for entry in listed {
            split.sort_in(entry, &opened, visitor);
        }
        Ok(split.pieces(&home, opened))
    }

    /// A directory on another mount than its parent: judged anew, under every name that the mount gives it.
    fn enter_mount(
        &self,
        directory: &mut Directory,
        opened: &OwnedFd,
        facts: &sys::Facts,
        real: &Path,
    ) -> Result<(), Reason> {
        let mount = sys::mount_of(opened, facts, &self.top.mounts, real).ok_or(Reason::SpecialFileSystem)?;
        if mount == directory.mount {
            return Ok(());
        }
        self.files.judge_mount(&mount, real, real).map_err(|fault| Reason::from(&fault))?;
        for alias in self.top.mounts.aliases(&mount, real) {
            self.files.judge_alias(&alias, real).map_err(|fault: FileFault| Reason::from(&fault))?;
        }
        directory.guards = self.guards_of(real, &mount);
        directory.mount = mount;
        Ok(())
    }

    fn read_ignores(&self, directory: &mut Directory, opened: &OwnedFd, listed: &[sys::Listed]) {
        if self.bounds.ignored == Ignored::Included {
            return;
        }
        let has = |wanted: &CStr| listed.iter().any(|entry| entry.name.as_c_str() == wanted);
        if has(c".git") {
            // The top of a repository: nothing outside says what it ignores.
            directory.ignores = None;
        }
        if !has(c".gitignore") {
            return;
        }
        // Opening refuses a link, as git does.
        let Ok(file) = sys::open_child(opened, c".gitignore") else { return };
        let Ok(facts) = sys::stat(&file) else { return };
        if let Some(text) = facts.is_file().then(|| read_text(file, facts.bytes)).flatten() {
            directory.ignores = Some(Ignores::inside(&text, &directory.path, directory.ignores.take()));
        }
    }

    /// The guards of a child, or why it is protected.
    pub(super) fn guard_child(
        &self,
        directory: &Directory,
        name: &OsStr,
        path: &str,
    ) -> Result<Vec<Guard>, Reason> {
        let protected = self.files.policy().protected();
        let mut guards = Vec::with_capacity(directory.guards.len());
        for guard in &directory.guards {
            guards.push(protected.child(guard, name).map_err(|_| Reason::Protected)?);
        }
        for elsewhere in self.elsewhere(path) {
            self.files.judge_alias(elsewhere, elsewhere).map_err(|fault| Reason::from(&fault))?;
            guards.extend(self.files.policy().position(elsewhere));
        }
        Ok(guards)
    }

    /// The same for a child that is no directory.
    pub(super) fn judge_child(&self, directory: &Directory, name: &OsStr, path: &str) -> Option<Reason> {
        let protected = self.files.policy().protected();
        let by_place = directory.guards.iter().any(|guard| protected.rule_for_child(guard, name).is_some());
        let by_alias = || self.elsewhere(path).iter().find_map(|e| self.files.judge_alias(e, e).err());
        if by_place { Some(Reason::Protected) } else { by_alias().map(|fault| Reason::from(&fault)) }
    }

    /// Whether what is mounted at this path, if anything is, may be read. It is not touched.
    pub(super) fn judge_mounted(&self, path: &str) -> Result<(), Reason> {
        if self.mounted.is_empty() {
            return Ok(());
        }
        let real = self.real(path);
        let is_device_tree = || ["/proc", "/sys", "/dev"].into_iter().any(|tree| real == Path::new(tree));
        match self.mounted.get(&real) {
            Some(_) if is_device_tree() => Err(Reason::SpecialFileSystem),
            Some(mount) => self.files.judge_mount(mount, &real, &real).map_err(|fault| Reason::from(&fault)),
            None => Ok(()),
        }
    }

    fn elsewhere(&self, path: &str) -> &[PathBuf] {
        if self.shown_elsewhere.is_empty() {
            return &[];
        }
        self.shown_elsewhere.get(&self.real(path)).map_or(&[], Vec::as_slice)
    }
}
