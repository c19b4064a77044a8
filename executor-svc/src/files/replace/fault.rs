//! Why a file could not be replaced.

use std::path::{Path, PathBuf};

use gatehouse_proto::codes::ActionCode;
use rustix::io::Errno;

use crate::files::fault::FileFault;
use crate::files::session::from_errno;

/// A refusal or failure of a write. Unless it is [`Self::Uncertain`], the file is what it was, or what another process
/// made of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplaceFault {
    /// What also forbids reading.
    #[error(transparent)]
    File(#[from] FileFault),
    /// Outside the session's root.
    #[error("{}: lies outside the session's root, {}", .path.display(), .root.display())]
    OutsideRoot {
        /// What was asked for.
        path: PathBuf,
        /// The root.
        root: PathBuf,
    },
    /// The session's root is not the directory any more that the session was bound to.
    #[error("{}: the session's root is not the directory any more that the session was bound to", .path.display())]
    RootReplaced {
        /// What was asked for.
        path: PathBuf,
    },
    /// The path cannot name a file that is to be written.
    #[error("{}: {why}", .path.display())]
    BadPath {
        /// What was asked for.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A regular file with further names: replacing one would part it from the others.
    #[error("{}: has {links} hard links, and files with several are never written", .path.display())]
    HardLink {
        /// What was asked for.
        path: PathBuf,
        /// How many names it has.
        links: u64,
    },
    /// It may not be written, although it could be replaced.
    #[error("{}: {what}", .path.display())]
    ReadOnly {
        /// What was asked for.
        path: PathBuf,
        /// What is read-only, in a sentence.
        what: &'static str,
    },
    /// Something that belongs to the file would be lost by replacing it.
    #[error("{}: {what} cannot be kept: {cause}", .path.display())]
    Unkept {
        /// What was asked for.
        path: PathBuf,
        /// For example: its owner.
        what: String,
        /// The system's own words.
        cause: String,
    },
    /// Over the size up to which files are changed.
    #[error("{}: {bytes} bytes are more than the {limit} up to which files are changed", .path.display())]
    TooLarge {
        /// What was asked for.
        path: PathBuf,
        /// The size before or after.
        bytes: u64,
        /// The largest that is possible.
        limit: u64,
    },
    /// Another process changed it meanwhile. What that process wrote is in its place.
    #[error("{}: {what}", .path.display())]
    Conflict {
        /// What was asked for.
        path: PathBuf,
        /// What was seen, in a sentence.
        what: &'static str,
    },
    /// No space is left, or the quota is used up.
    #[error("{}: no space is left on its file system, or the quota is used up", .path.display())]
    DiskFull {
        /// What was asked for.
        path: PathBuf,
    },
    /// Its file system cannot swap two names, and the configuration wants that.
    #[error("{}: its file system cannot swap two files, so another process's change could be lost", .path.display())]
    NoExchange {
        /// What was asked for.
        path: PathBuf,
    },
    /// Another action on this file took too long.
    #[error("{}: another action holds it", .path.display())]
    Busy {
        /// What was asked for.
        path: PathBuf,
    },
    /// What is on disk is, or may be, neither what was there before nor what should be there.
    #[error("{}: {why}", .path.display())]
    Uncertain {
        /// What was asked for.
        path: PathBuf,
        /// What is known.
        why: String,
    },
}

impl ReplaceFault {
    /// The code of the receipt.
    #[must_use]
    pub const fn code(&self) -> ActionCode {
        match self {
            Self::File(fault) => fault.code(),
            Self::OutsideRoot { .. } | Self::RootReplaced { .. } => ActionCode::OutsideRoot,
            Self::BadPath { .. } => ActionCode::NotAFile,
            Self::HardLink { .. } => ActionCode::HardLinkRefused,
            Self::ReadOnly { .. } | Self::Unkept { .. } => ActionCode::PermissionDenied,
            Self::TooLarge { .. } => ActionCode::TooLarge,
            Self::Conflict { .. } => ActionCode::ChangedMeanwhile,
            Self::DiskFull { .. } => ActionCode::DiskFull,
            Self::NoExchange { .. } => ActionCode::SpecialFileSystem,
            Self::Busy { .. } => ActionCode::TimedOut,
            Self::Uncertain { .. } => ActionCode::Uncertain,
        }
    }

    /// What the caller can do about it.
    #[must_use]
    pub fn hint(&self) -> String {
        let hint = match self {
            Self::File(FileFault::Symlink { target: None, .. }) => "Links are not followed.",
            Self::File(FileFault::WrongKind { .. }) => "Only regular files can be written.",
            Self::File(FileFault::Protected { .. }) => "Credentials and private state are never written.",
            Self::File(fault) => return fault.hint(),
            Self::OutsideRoot { .. } => "A session writes below its working directory only.",
            Self::RootReplaced { .. } => "The user moved or replaced the directory; start a new session.",
            Self::BadPath { .. } => "Name a file below the working directory.",
            Self::HardLink { .. } => "The user can make it a file of its own by copying it.",
            Self::ReadOnly { .. } => "It is write-protected. The user can change its permissions.",
            Self::Unkept { .. } => {
                "A file is replaced with all that belongs to it. The user can change this one."
            }
            Self::TooLarge { .. } => "Such a file can be read by range, not changed.",
            Self::Conflict { .. } => "Read it again, and decide anew.",
            Self::DiskFull { .. } => "Nothing was changed. The user can make room.",
            Self::NoExchange { .. } => "The user can allow the weaker way in the configuration.",
            Self::Busy { .. } => "Nothing was changed. Try again.",
            Self::Uncertain { .. } => "A person has to look at it and decide.",
        };
        hint.to_owned()
    }

    /// The fault that a failed system call means for a write.
    pub(super) fn of(errno: Errno, path: &Path) -> Self {
        let owned = path.to_owned();
        match errno {
            Errno::NOSPC | Errno::DQUOT => Self::DiskFull { path: owned },
            Errno::ROFS => Self::ReadOnly { path: owned, what: "lies on a file system mounted read-only" },
            Errno::NOTDIR => Self::File(FileFault::WrongKind {
                path: owned,
                found: "a path through a file",
                wanted: "a path through directories",
            }),
            other => Self::File(from_errno(other, path)),
        }
    }

    /// The same for the standard library's errors.
    pub(super) fn of_io(error: &std::io::Error, path: &Path) -> Self {
        match Errno::from_io_error(error) {
            Some(errno) => Self::of(errno, path),
            None => Self::File(FileFault::Io { path: path.to_owned(), cause: error.to_string() }),
        }
    }
}
