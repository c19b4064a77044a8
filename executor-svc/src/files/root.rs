//! The directory that a session is bound to.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::fault::FileFault;
use super::mounts::{FsClass, class_of};
use super::policy::FilePolicy;
use super::sys;

/// What a session may do; fixed when it is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// Changes nothing.
    ReadOnly,
    /// Changes files in the directory that the user chose.
    DirectWrite,
    /// Changes files in a worktree that Gatehouse made.
    WorktreeWrite,
}

/// A session's working directory: canonical, and known by its identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    /// The canonical path.
    pub path: PathBuf,
    /// The device it lies on.
    pub dev: u64,
    /// Its inode.
    pub ino: u64,
}

/// Why a directory cannot be a session's working directory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RootFault {
    /// A relative path, or one with a NUL character.
    #[error("working_directory must be an absolute path")]
    NotAbsolute,
    /// Nothing is there.
    #[error("{}: there is no such directory", .0.display())]
    NotFound(PathBuf),
    /// Something else is there.
    #[error("{}: is not a directory", .0.display())]
    NotADirectory(PathBuf),
    /// The operating system does not let Gatehouse in.
    #[error("{}: the operating system denied it", .0.display())]
    PermissionDenied(PathBuf),
    /// The real path cannot be shown as text.
    #[error("{}: the real path is not UTF-8", .0.display())]
    NotUtf8(PathBuf),
    /// Protected, `.git`, a special file system, or outside `read_roots`.
    #[error("{0}")]
    Refused(FileFault),
    /// Too much to write into: `/`, a home directory itself, or a directory around one.
    #[error("{}: is {what}, which no session may write to as a whole", .path.display())]
    TooWide {
        /// The canonical path.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// The path names another directory than the one the session is bound to.
    #[error("{}: is not the directory any more that the session was bound to", .0.display())]
    Replaced(PathBuf),
    /// Any other failure.
    #[error("{}: {cause}", .path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// The system's own words.
        cause: String,
    },
}

/// Resolves a working directory, once, and decides whether a session of this profile may have it.
///
/// # Errors
/// A [`RootFault`] that says what is wrong with it.
pub fn canonical_root(path: &Path, profile: Profile, policy: &FilePolicy) -> Result<Root, RootFault> {
    if !path.is_absolute() || path.as_os_str().as_encoded_bytes().contains(&0) {
        return Err(RootFault::NotAbsolute);
    }
    // The spelled path first: whether a protected path exists is nobody's business.
    let spelled = super::path::normalised(path);
    policy.judge_path(&spelled, path).or_else(only_if_protected).map_err(RootFault::Refused)?;
    let real = path.canonicalize().map_err(|error| io_fault(path, &error))?;
    if real.to_str().is_none() {
        return Err(RootFault::NotUtf8(real));
    }
    policy.judge_path(&real, path).map_err(RootFault::Refused)?;
    judge_mount(&real, path)?;
    if profile != Profile::ReadOnly {
        judge_width(&real, policy)?;
    }
    identify(real)
}

impl Root {
    /// Whether the path still names the same directory.
    ///
    /// # Errors
    /// [`RootFault::Replaced`], or why the directory cannot be looked at.
    pub fn verify(&self) -> Result<(), RootFault> {
        let real = self.path.canonicalize().map_err(|error| io_fault(&self.path, &error))?;
        let now = identify(real)?;
        if now == *self { Ok(()) } else { Err(RootFault::Replaced(self.path.clone())) }
    }
}

/// The spelling of a path may be a link to an allowed place: of it, only what is protected counts.
fn only_if_protected(fault: FileFault) -> Result<(), FileFault> {
    if matches!(fault, FileFault::Protected { .. }) { Err(fault) } else { Ok(()) }
}

fn identify(real: PathBuf) -> Result<Root, RootFault> {
    let found = real.symlink_metadata().map_err(|error| io_fault(&real, &error))?;
    if found.is_dir() {
        Ok(Root { dev: found.dev(), ino: found.ino(), path: real })
    } else {
        Err(RootFault::NotADirectory(real))
    }
}

fn judge_mount(real: &Path, shown: &Path) -> Result<(), RootFault> {
    let mounts = sys::mounts().map_err(|error| io_fault(shown, &error))?;
    match mounts.containing(real) {
        Some(mount) if class_of(&mount.kind) == FsClass::Special => {
            let fs = mount.kind.clone();
            Err(RootFault::Refused(FileFault::SpecialFileSystem { path: shown.to_owned(), fs }))
        }
        _ => Ok(()),
    }
}

fn judge_width(real: &Path, policy: &FilePolicy) -> Result<(), RootFault> {
    let homes = &policy.config().homes;
    let what = if real == Path::new("/") {
        "the root of the file system"
    } else if homes.iter().any(|home| home == real) {
        "the home directory itself"
    } else if homes.iter().any(|home| home.starts_with(real)) {
        "a directory around the home directory"
    } else {
        return Ok(());
    };
    Err(RootFault::TooWide { path: real.to_owned(), what })
}

fn io_fault(path: &Path, error: &std::io::Error) -> RootFault {
    let path = path.to_owned();
    match error.kind() {
        ErrorKind::NotFound => RootFault::NotFound(path),
        ErrorKind::NotADirectory => RootFault::NotADirectory(path),
        ErrorKind::PermissionDenied => RootFault::PermissionDenied(path),
        _ => RootFault::Io { path, cause: error.to_string() },
    }
}
