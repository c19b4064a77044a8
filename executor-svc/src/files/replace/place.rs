//! Where a file stands or will stand: its directory, held open, and its name in it.

use std::ffi::{CString, OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::Mode;
use rustix::io::Errno;

use super::fault::ReplaceFault;
use super::lock::PathKey;
use crate::files::fault::FileFault;
use crate::files::path::normalised;
use crate::files::session::{SessionFiles, io_fault};
use crate::files::sys::{self, Facts, Handle};

/// The longest name of one component, on every file system we know.
const LONGEST_NAME: usize = 255;

/// A file's place below the session's root.
#[derive(Debug)]
pub(super) struct Place {
    /// The path that was asked for, without dots.
    pub path: PathBuf,
    /// Its name in the directory.
    pub name: CString,
    /// The nearest directory on the way that exists.
    pub directory: OwnedFd,
    directory_path: PathBuf,
    facts: Facts,
    /// The directories between that one and the name, outermost first.
    pub missing: Vec<OsString>,
    root: PathBuf,
    root_identity: (u64, u64),
}

/// A directory that was made on the way, and how to get rid of it.
#[derive(Debug)]
pub(super) struct MadeDirectory {
    pub parent: OwnedFd,
    pub name: CString,
    pub path: PathBuf,
}

impl Place {
    /// Finds the place and judges it by its names; nothing is made.
    pub(super) fn find(files: &SessionFiles, path: &Path) -> Result<Self, ReplaceFault> {
        let path = normalised(path);
        files.policy().judge_path(&path, &path)?;
        let root = files.root().path.clone();
        let Ok(below) = path.strip_prefix(&root) else {
            return Err(ReplaceFault::OutsideRoot { path, root });
        };
        let mut names: Vec<OsString> = below.iter().map(OsStr::to_owned).collect();
        judge_names(&names, &path)?;
        let Some(name) = names.pop().and_then(|name| CString::new(name.as_bytes()).ok()) else {
            return Err(ReplaceFault::BadPath { path, why: "is the session's root itself" });
        };
        let root_identity = (files.root().dev, files.root().ino);
        let (directory, existing) = nearest(files, &root, root_identity, &names, &path)?;
        let missing = names.split_off(existing);
        let directory_path = root.join(names.iter().collect::<PathBuf>());
        let (directory, facts) = judge(files, directory, &directory_path, &path, &missing)?;
        Ok(Self { path, name, directory, directory_path, facts, missing, root, root_identity })
    }

    /// What other actions on the same file must wait for.
    pub(super) fn key(&self) -> PathKey {
        let mut rest: PathBuf = self.missing.iter().collect();
        rest.push(OsStr::from_bytes(self.name.to_bytes()));
        let rest = gatehouse_sandbox::policy::folded(&rest.to_string_lossy()).into_owned();
        PathKey { device: self.facts.dev, inode: self.facts.ino, rest }
    }

    /// The directories that have to be made.
    pub(super) fn directories_to_create(&self) -> Vec<PathBuf> {
        let mut at = self.directory_path.clone();
        self.missing
            .iter()
            .map(|name| {
                at.push(name);
                at.clone()
            })
            .collect()
    }

    /// Whether names may be changed in the directory.
    pub(super) fn judge_directory_writable(&self) -> Result<(), ReplaceFault> {
        if self.facts.mode & 0o222 == 0 || self.facts.locked {
            return Err(self.read_only("its directory is write-protected"));
        }
        sys::may_write(&self.directory, None).map_err(|errno| match errno {
            Errno::ACCESS | Errno::PERM => {
                self.read_only("its directory cannot be written by Gatehouse's user")
            }
            other => ReplaceFault::of(other, &self.path),
        })
    }

    pub(super) fn read_only(&self, what: &'static str) -> ReplaceFault {
        ReplaceFault::ReadOnly { path: self.path.clone(), what }
    }

    /// The facts of what stands under a name in the directory; `None` if nothing does.
    pub(super) fn facts_of(&self, name: &std::ffi::CStr) -> Result<Option<Facts>, ReplaceFault> {
        match sys::stat_child(&self.directory, name) {
            Ok(facts) => Ok(Some(facts)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(ReplaceFault::of(errno, &self.path)),
        }
    }

    /// Whether the directory still lies where it was found, below the same root.
    pub(super) fn is_still_there(&self) -> bool {
        let below = self.directory_path.strip_prefix(&self.root).unwrap_or_else(|_| Path::new(""));
        let identity = |found: &OwnedFd| sys::stat(found).map(|now| now.identity());
        let now = sys::find_directory(&self.root).and_then(|root| match identity(&root)? {
            replaced if replaced != self.root_identity => Err(Errno::STALE),
            same if below.as_os_str().is_empty() => Ok(same),
            _ => identity(&sys::find_directory_below(&root, below)?),
        });
        now.is_ok_and(|now| now == self.facts.identity())
    }

    /// Makes the next missing directory and goes into it; `Some` if it was this call that made it.
    pub(super) fn make_next_directory(
        &mut self,
        files: &SessionFiles,
        umask: u32,
    ) -> Result<Option<MadeDirectory>, ReplaceFault> {
        let fail = |errno| ReplaceFault::of(errno, &self.path);
        let Some(name) = self.missing.first().and_then(|name| CString::new(name.as_bytes()).ok()) else {
            return Ok(None);
        };
        let made = match rustix::fs::mkdirat(&self.directory, &name, Mode::from_raw_mode(0o777)) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(errno) => return Err(fail(errno)),
        };
        let next = self.directory_path.join(&self.missing[0]);
        let made_or_found = match open_below(&self.directory, Path::new(&self.missing[0])) {
            Ok(opened) => opened,
            Err(errno) => return Err(through(files, errno, &next, &self.path)),
        };
        if made {
            super::metadata::as_if_made_by_the_user(&made_or_found, 0o777, umask).map_err(fail)?;
            sys::sync_directory(&self.directory).map_err(fail)?;
        }
        let opened;
        (opened, self.facts) = judge(files, made_or_found, &next, &self.path, &self.missing[1..])?;
        let parent = std::mem::replace(&mut self.directory, opened);
        self.directory_path.clone_from(&next);
        self.missing.remove(0);
        Ok(made.then_some(MadeDirectory { parent, name, path: next }))
    }

    /// Writes the directory's entries to the disk.
    pub(super) fn sync(&self) -> Result<(), ReplaceFault> {
        sys::sync_directory(&self.directory).map_err(|errno| ReplaceFault::of(errno, &self.path))
    }
}

/// What a spelling alone forbids: too long names, and the short form under which FAT and NTFS also know `.git`.
fn judge_names(names: &[OsString], path: &Path) -> Result<(), ReplaceFault> {
    for name in names {
        if name.len() > LONGEST_NAME {
            return Err(FileFault::NameTooLong { path: path.to_owned() }.into());
        }
        let short = name.as_bytes();
        if short.len() == 5 && short[..4].eq_ignore_ascii_case(b"git~") && short[4].is_ascii_digit() {
            return Err(FileFault::Git { path: path.to_owned() }.into());
        }
        if short.contains(&0) {
            return Err(ReplaceFault::BadPath { path: path.to_owned(), why: "has a NUL character" });
        }
    }
    Ok(())
}

/// Finds the root, to go on from it.
fn open_root(root: &Path, identity: (u64, u64), path: &Path) -> Result<OwnedFd, ReplaceFault> {
    let replaced = || ReplaceFault::RootReplaced { path: path.to_owned() };
    let found = sys::find_directory(root).map_err(|_| replaced())?;
    let facts = sys::stat(&found).map_err(|errno| ReplaceFault::of(errno, path))?;
    if facts.identity() == identity { Ok(found) } else { Err(replaced()) }
}

/// `open_directory_below` that takes the empty path for the directory itself.
fn open_below(dir: &OwnedFd, below: &Path) -> rustix::io::Result<OwnedFd> {
    let below = if below.as_os_str().is_empty() { Path::new(".") } else { below };
    sys::open_directory_below(dir, below)
}

/// Opens the deepest directory that exists, and says how many of the names lead to it.
fn nearest(
    files: &SessionFiles,
    root: &Path,
    identity: (u64, u64),
    names: &[OsString],
    path: &Path,
) -> Result<(OwnedFd, usize), ReplaceFault> {
    let top = open_root(root, identity, path)?;
    for existing in (0..=names.len()).rev() {
        let below: PathBuf = names[..existing].iter().collect();
        match open_below(&top, &below) {
            Ok(found) => return Ok((found, existing)),
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(through(files, errno, &root.join(below), path)),
        }
    }
    Err(ReplaceFault::RootReplaced { path: path.to_owned() })
}

/// Why a directory on the way could not be opened. A link as the last of them is reported as no directory.
fn through(files: &SessionFiles, errno: Errno, directory: &Path, path: &Path) -> ReplaceFault {
    match files.explain(Errno::LOOP, directory) {
        link @ FileFault::Symlink { .. } if matches!(errno, Errno::LOOP | Errno::NOTDIR) => link.into(),
        changed if errno == Errno::LOOP => changed.into(),
        _ => ReplaceFault::of(errno, path),
    }
}

/// Judges a directory as an object, and the names below it that do not exist yet; gives it back with its facts.
fn judge(
    files: &SessionFiles,
    directory: OwnedFd,
    directory_path: &Path,
    path: &Path,
    missing: &[OsString],
) -> Result<(OwnedFd, Facts), ReplaceFault> {
    let mounts = sys::mounts().map_err(|error| io_fault(path, &error))?;
    let found = files.judge_found(Handle(directory), directory_path, mounts)?;
    let mut rest: PathBuf = missing.iter().collect();
    rest.extend(path.file_name());
    let real = found.real.join(&rest);
    // The path itself was judged first of all.
    if real != path {
        files.policy().judge_path(&real, path)?;
    }
    for alias in found.mounts.aliases(&found.mount, &found.real) {
        files.judge_alias(&alias.join(&rest), path)?;
    }
    Ok((found.handle.0, found.facts))
}
