//! Opening for a session: what is found is judged as an object, and opened only then.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;

use super::fault::FileFault;
use super::links::{LinkIndex, Whereabouts};
use super::mounts::{FsClass, Mount, Mounts, class_of};
use super::path::normalised;
use super::policy::{FilePolicy, HardLinks, NetworkFs};
use super::protected_inodes::{ProtectedInodes, Verdict};
use super::root::Root;
use super::sys::{self, Facts, Handle};
use super::walk::Reason;

/// A session's view of the file system. Made once for each session and shared by its actions.
#[derive(Debug)]
pub struct SessionFiles {
    root: Root,
    policy: Arc<FilePolicy>,
    links: LinkIndex,
}

/// A regular file that passed every check, open for reading.
#[derive(Debug)]
pub(crate) struct OpenFile {
    pub(crate) file: std::fs::File,
    pub(super) facts: Facts,
    /// The path that was asked for, without dots.
    pub(super) path: PathBuf,
}

impl OpenDirectory {
    /// Device and inode.
    pub(crate) const fn identity(&self) -> (u64, u64) {
        self.facts.identity()
    }
}

impl OpenFile {
    /// The path that was asked for, without dots.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The size when it was opened.
    pub(crate) const fn bytes(&self) -> u64 {
        self.facts.bytes
    }

    /// The last byte; `None` if the file is empty by now.
    pub(crate) fn last_byte(&self) -> std::io::Result<Option<u8>> {
        use std::os::unix::fs::FileExt;
        let mut byte = [0];
        let got = self.file.read_at(&mut byte, self.facts.bytes.saturating_sub(1))?;
        Ok((got == 1).then_some(byte[0]))
    }

    /// Whether nobody has written to it since it was opened, as far as size and times tell.
    pub(crate) fn is_unchanged(&self) -> bool {
        sys::stat(&self.file).is_ok_and(|now| {
            (now.bytes, now.modified, now.changed)
                == (self.facts.bytes, self.facts.modified, self.facts.changed)
        })
    }
}

/// A directory that passed every check, open for listing.
#[derive(Debug)]
pub(crate) struct OpenDirectory {
    pub(super) fd: OwnedFd,
    pub(super) facts: Facts,
    /// Its real path.
    pub(crate) path: PathBuf,
    pub(super) mount: Mount,
    pub(super) mounts: Mounts,
}

/// What was found: an object, its real path, and what it lies on.
pub(super) struct Found {
    pub(super) handle: Handle,
    pub(super) facts: Facts,
    pub(super) real: PathBuf,
    pub(super) mount: Mount,
    pub(super) mounts: Mounts,
}

impl SessionFiles {
    /// A view from this root under these rules.
    #[must_use]
    pub fn new(root: Root, policy: Arc<FilePolicy>) -> Self {
        Self { root, policy, links: LinkIndex::default() }
    }

    /// The working directory.
    #[must_use]
    pub const fn root(&self) -> &Root {
        &self.root
    }

    /// The rules.
    #[must_use]
    pub const fn policy(&self) -> &Arc<FilePolicy> {
        &self.policy
    }

    /// Whether `path` lies on, or has below it, what another machine or process serves: those may let us wait forever.
    pub(crate) fn may_hang(&self, path: &Path) -> bool {
        let path = normalised(path);
        let mounts = sys::mounts().unwrap_or_default();
        let around = mounts.containing(&path).cloned();
        let mut near = mounts.below(&path).into_values().chain(around);
        near.any(|mount| class_of(&mount.kind) == FsClass::Network)
    }

    /// Opens a regular file for reading.
    pub(crate) fn open_file(&self, path: &Path) -> Result<OpenFile, FileFault> {
        let path = normalised(path);
        let found = self.find(&path)?;
        if !found.facts.is_file() {
            return Err(FileFault::WrongKind {
                path,
                found: found.facts.kind_name(),
                wanted: "a regular file",
            });
        }
        let inodes = || self.policy.protected_inodes();
        self.judge_links(&found.facts, &found.real, &found.mount, &found.mounts, inodes)
            .map_err(|f| f.at(&path))?;
        let fd = sys::reopen(&found.handle).map_err(|errno| from_errno(errno, &path))?;
        Ok(OpenFile { file: fd.into(), facts: found.facts, path })
    }

    /// Whether a file could be opened by this path; it is not.
    pub(super) fn judge_at(&self, path: &Path) -> Result<(), FileFault> {
        let found = self.find(path)?;
        let inodes = || self.policy.protected_inodes();
        self.judge_links(&found.facts, &found.real, &found.mount, &found.mounts, inodes)
            .map_err(|f| f.at(path))
    }

    /// Whether the path still names the file that was opened.
    pub(crate) fn is_still_at(&self, opened: &OpenFile) -> bool {
        let now = sys::find(&opened.path).and_then(|handle| sys::stat(&handle.0));
        now.is_ok_and(|now| now.identity() == opened.facts.identity())
    }

    /// Opens a directory for listing.
    pub(crate) fn open_directory(&self, path: &Path) -> Result<OpenDirectory, FileFault> {
        let path = normalised(path);
        let found = self.find(&path)?;
        if !found.facts.is_directory() {
            return Err(FileFault::WrongKind { path, found: found.facts.kind_name(), wanted: "a directory" });
        }
        let fd = sys::reopen(&found.handle).map_err(|errno| from_errno(errno, &path))?;
        Ok(OpenDirectory {
            fd,
            facts: found.facts,
            path: found.real,
            mount: found.mount,
            mounts: found.mounts,
        })
    }

    /// Finds an object and judges where it lies. Nothing is opened, and a network file system that may not be read
    /// is not even touched.
    fn find(&self, path: &Path) -> Result<Found, FileFault> {
        self.policy.judge_path(path, path)?;
        let mounts = sys::mounts().map_err(|error| io_fault(path, &error))?;
        if let Some(mount) = mounts.containing(path) {
            self.judge_mount(mount, path, path)?;
        }
        let handle = sys::find(path).map_err(|errno| self.explain(errno, path))?;
        self.judge_found(handle, path, mounts)
    }

    /// Judges an object that was found under an absolute path without dots.
    pub(super) fn judge_found(
        &self,
        handle: Handle,
        path: &Path,
        mounts: Mounts,
    ) -> Result<Found, FileFault> {
        let facts = sys::stat(&handle.0).map_err(|errno| from_errno(errno, path))?;
        let real = sys::real_path(&handle.0).map_err(|errno| from_errno(errno, path))?;
        if !same_place(&real, path) {
            // Renamed or unlinked between two system calls.
            return Err(FileFault::Changed { path: path.to_owned() });
        }
        self.policy.judge_path(&real, path)?;
        let Some(mount) = sys::mount_of(&handle.0, &facts, &mounts, &real) else {
            return Err(FileFault::SpecialFileSystem {
                path: path.to_owned(),
                fs: "unknown mount".to_owned(),
            });
        };
        self.judge_mount(&mount, &real, path)?;
        for alias in mounts.aliases(&mount, &real) {
            self.judge_alias(&alias, path)?;
        }
        Ok(Found { handle, facts, real, mount, mounts })
    }

    /// Whether files may be read on this mount.
    pub(super) fn judge_mount(&self, mount: &Mount, real: &Path, shown: &Path) -> Result<(), FileFault> {
        let (path, fs) = (shown.to_owned(), mount.kind.clone());
        match class_of(&mount.kind) {
            FsClass::Ordinary => Ok(()),
            FsClass::Special => Err(FileFault::SpecialFileSystem { path, fs }),
            FsClass::Network if self.policy.config().network_fs == NetworkFs::Allowed => Ok(()),
            FsClass::Network if real.starts_with(&self.root.path) => Ok(()),
            FsClass::Network => Err(FileFault::NetworkFileSystem { path, fs }),
        }
    }

    /// Another name of the same object must not be protected or below `.git` either.
    pub(super) fn judge_alias(&self, alias: &Path, shown: &Path) -> Result<(), FileFault> {
        match self.policy.judge_path(alias, shown) {
            Err(fault @ (FileFault::Protected { .. } | FileFault::Git { .. })) => Err(fault),
            _ => Ok(()),
        }
    }

    /// Whether a regular file's other names, if it has any, allow reading it.
    pub(super) fn judge_links(
        &self,
        facts: &Facts,
        real: &Path,
        mount: &Mount,
        mounts: &Mounts,
        inodes: impl FnOnce() -> Arc<ProtectedInodes>,
    ) -> Result<(), LinkFault> {
        if facts.links <= 1 {
            return Ok(());
        }
        match inodes().verdict(facts.identity()) {
            Verdict::Protected => return Err(LinkFault::Protected),
            Verdict::Unknown => return Err(LinkFault::Refused(facts.links, TOO_MANY_PROTECTED)),
            Verdict::Free => {}
        }
        if self.policy.config().hard_links == HardLinks::ProtectedOnly
            || mounts.covers(&self.root.path, mount)
        {
            return Ok(());
        }
        if !real.starts_with(&self.root.path) {
            return Err(LinkFault::Refused(facts.links, OUTSIDE));
        }
        match self.links.whereabouts(&self.root.path, facts, &self.policy) {
            Whereabouts::Inside => Ok(()),
            Whereabouts::Guarded => Err(LinkFault::Protected),
            Whereabouts::Elsewhere => Err(LinkFault::Refused(facts.links, SOME_OUTSIDE)),
            Whereabouts::Unknown => Err(LinkFault::Refused(facts.links, TOO_LARGE)),
        }
    }

    /// Why an object could not be found; a symbolic link is named together with its real target.
    pub(super) fn explain(&self, errno: Errno, path: &Path) -> FileFault {
        if errno != Errno::LOOP {
            return from_errno(errno, path);
        }
        let is_link = |prefix: &&Path| prefix.symlink_metadata().is_ok_and(|found| found.is_symlink());
        let mut prefixes: Vec<&Path> = path.ancestors().collect();
        prefixes.reverse();
        let Some(link) = prefixes.into_iter().find(is_link) else {
            return FileFault::Changed { path: path.to_owned() };
        };
        // The target of a link into a protected place is not told.
        let target = path.canonicalize().ok().filter(|real| self.policy.judge_path(real, real).is_ok());
        FileFault::Symlink { path: path.to_owned(), link: link.to_owned(), target }
    }
}

const OUTSIDE: &str = "and lies outside the session's root";
const SOME_OUTSIDE: &str = "not all of them inside the session's root";
const TOO_LARGE: &str = "and the session's root is too large to find them all";
const TOO_MANY_PROTECTED: &str = "and there are too many protected files to compare it with";

/// Why a file's other names forbid reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LinkFault {
    /// It shares its bytes with a protected file.
    Protected,
    /// So many names, and what is wrong with them.
    Refused(u64, &'static str),
}

impl LinkFault {
    pub(super) const fn reason(self) -> Reason {
        match self {
            Self::Protected => Reason::Protected,
            Self::Refused(..) => Reason::HardLink,
        }
    }

    fn at(self, path: &Path) -> FileFault {
        let path = path.to_owned();
        match self {
            Self::Protected => {
                FileFault::Protected { path, reason: "another name of a protected file".to_owned() }
            }
            Self::Refused(links, why) => FileFault::HardLink { path, links, why },
        }
    }
}

/// Whether the kernel's path is the one that was asked for. Where case does not count, the disk's spelling differs.
fn same_place(real: &Path, asked: &Path) -> bool {
    let alike = || gatehouse_sandbox::policy::same_name(&real.to_string_lossy(), &asked.to_string_lossy());
    real == asked || alike()
}

/// The refusal that a failed system call means.
pub(super) fn from_errno(errno: Errno, path: &Path) -> FileFault {
    let path = path.to_owned();
    match errno {
        Errno::NOENT | Errno::NOTDIR => FileFault::NotFound { path },
        Errno::ACCESS | Errno::PERM => FileFault::PermissionDenied { path },
        Errno::NAMETOOLONG => FileFault::NameTooLong { path },
        Errno::STALE => FileFault::Changed { path },
        // What macOS finds that is neither a file nor a directory.
        Errno::NOTSUP | Errno::NXIO => {
            FileFault::WrongKind { path, found: "a FIFO, socket or device", wanted: "a regular file" }
        }
        other => FileFault::Io { path, cause: other.to_string() },
    }
}

/// The same for the standard library's errors.
pub(crate) fn io_fault(path: &Path, error: &std::io::Error) -> FileFault {
    match Errno::from_io_error(error) {
        Some(errno) => from_errno(errno, path),
        None => FileFault::Io { path: path.to_owned(), cause: error.to_string() },
    }
}
