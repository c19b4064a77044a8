//! Why a file could not be used.

use std::path::{Path, PathBuf};

use gatehouse_proto::codes::ActionCode;

/// What stands in the place of a regular file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A FIFO, socket or device.
    Other,
}

impl FileKind {
    /// The kind as receipts name it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Directory => "directory",
            Self::Symlink => "symlink",
            Self::Other => "other",
        }
    }
}

/// A refusal or failure, with the path that the caller named.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileFault {
    /// Nothing has this path.
    #[error("{}: there is no such file or directory", .path.display())]
    NotFound {
        /// What was asked for.
        path: PathBuf,
    },
    /// A directory, device, FIFO or socket where a regular file is needed, or a file where a directory is needed.
    #[error("{}: is {}, not {wanted}", .path.display(), .found)]
    WrongKind {
        /// What was asked for.
        path: PathBuf,
        /// What it is, for example ``a FIFO``.
        found: &'static str,
        /// What it must be.
        wanted: &'static str,
    },
    /// A protected path, under this or another of its names.
    #[error("{}: is protected ({reason})", .path.display())]
    Protected {
        /// What was asked for.
        path: PathBuf,
        /// The reason that stands beside the entry in the list.
        reason: String,
    },
    /// `.git` itself or something below it.
    #[error("{}: lies in a .git directory", .path.display())]
    Git {
        /// What was asked for.
        path: PathBuf,
    },
    /// A component is a symbolic link.
    #[error("{}: {} is a symbolic link{}", .path.display(), .link.display(), .target.as_ref().map(|t| format!(" to {}", t.display())).unwrap_or_default())]
    Symlink {
        /// What was asked for.
        path: PathBuf,
        /// The first component that is a link.
        link: PathBuf,
        /// The path with every link resolved; `None` if it leads nowhere or to a protected place.
        target: Option<PathBuf>,
    },
    /// On a file system that holds no ordinary files.
    #[error("{}: lies on a special file system ({fs})", .path.display())]
    SpecialFileSystem {
        /// What was asked for.
        path: PathBuf,
        /// The file system's name.
        fs: String,
    },
    /// On a network or FUSE file system outside the session's root.
    #[error("{}: lies on a network or FUSE file system ({fs}) outside the session's root", .path.display())]
    NetworkFileSystem {
        /// What was asked for.
        path: PathBuf,
        /// The file system's name.
        fs: String,
    },
    /// A regular file with further names that are not known to lie inside the root.
    #[error("{}: has {links} hard links, {why}", .path.display())]
    HardLink {
        /// What was asked for.
        path: PathBuf,
        /// How many names it has.
        links: u64,
        /// What is wrong with them.
        why: &'static str,
    },
    /// Outside the configured `read_roots`.
    #[error("{}: lies outside the directories that may be read", .path.display())]
    OutsideReadRoots {
        /// What was asked for.
        path: PathBuf,
    },
    /// The operating system denied it.
    #[error("{}: the operating system denied it", .path.display())]
    PermissionDenied {
        /// What was asked for.
        path: PathBuf,
    },
    /// It changed, shrank or was replaced while it was read.
    #[error("{}: changed while it was read", .path.display())]
    Changed {
        /// What was asked for.
        path: PathBuf,
    },
    /// The bytes are not UTF-8.
    #[error("{}: is not UTF-8 text (first bad byte at offset {offset})", .path.display())]
    NotUtf8 {
        /// What was asked for.
        path: PathBuf,
        /// Where the first bad sequence begins, in bytes from the start of the file.
        offset: u64,
    },
    /// A name or the whole path is longer than the system takes.
    #[error("{}: the name is too long", shown_start(.path))]
    NameTooLong {
        /// What was asked for.
        path: PathBuf,
    },
    /// The time for the action ran out.
    #[error("{}: the time limit was reached", .path.display())]
    TimedOut {
        /// What was asked for.
        path: PathBuf,
    },
    /// The session stopped, or its lease ran out.
    #[error("{}: ended early because the session stops", .path.display())]
    Cancelled {
        /// What was asked for.
        path: PathBuf,
    },
    /// Any other failure of a system call.
    #[error("{}: {cause}", .path.display())]
    Io {
        /// What was asked for.
        path: PathBuf,
        /// The system's own words.
        cause: String,
    },
}

/// The first part of a path that is too long to repeat.
fn shown_start(path: &Path) -> String {
    path.to_string_lossy().chars().take(200).collect::<String>() + "…"
}

impl FileFault {
    /// The code of the receipt.
    #[must_use]
    pub const fn code(&self) -> ActionCode {
        match self {
            Self::NotFound { .. } => ActionCode::NotFound,
            Self::WrongKind { .. } => ActionCode::NotAFile,
            Self::Protected { .. } => ActionCode::ProtectedPath,
            Self::Git { .. } => ActionCode::GitRefused,
            Self::Symlink { .. } => ActionCode::SymlinkRefused,
            Self::SpecialFileSystem { .. } | Self::NetworkFileSystem { .. } => ActionCode::SpecialFileSystem,
            Self::HardLink { .. } => ActionCode::HardLinkRefused,
            Self::OutsideReadRoots { .. } => ActionCode::OutsideRoot,
            Self::PermissionDenied { .. } | Self::Io { .. } => ActionCode::PermissionDenied,
            Self::Changed { .. } => ActionCode::ChangedMeanwhile,
            Self::NotUtf8 { .. } => ActionCode::NotUtf8,
            Self::NameTooLong { .. } => ActionCode::TooLarge,
            Self::TimedOut { .. } => ActionCode::TimedOut,
            Self::Cancelled { .. } => ActionCode::Cancelled,
        }
    }

    /// What the caller can do about it.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::NotFound { .. } => "Look for the name with FindFiles.".to_owned(),
            Self::WrongKind { found: "a directory", .. } => "List a directory with FindFiles.".to_owned(),
            Self::WrongKind { wanted: "a directory", .. } => "Name a directory; read a file with Read.".to_owned(),
            Self::WrongKind { .. } => "Only regular files can be read.".to_owned(),
            Self::Protected { .. } => {
                "Credentials and private state are never read. Work without it, or ask the user for what is needed."
                    .to_owned()
            }
            Self::Git { .. } => "The file tools leave .git alone. Use a read-only git command if there is one.".to_owned(),
            Self::Symlink { target: Some(target), .. } => {
                format!("Links are not followed. If that is what is meant, name the real path: {}", target.display())
            }
            Self::Symlink { .. } => "Links are not followed, and this one leads nowhere that may be read.".to_owned(),
            Self::SpecialFileSystem { .. } => "Kernel and device file systems hold no ordinary files.".to_owned(),
            Self::NetworkFileSystem { .. } => {
                "The user can allow it: config key files.network_file_systems = \"allowed\".".to_owned()
            }
            Self::HardLink { .. } => {
                "The user can allow it: config key files.hard_links = \"protected_only\" refuses only files that share \
                 their bytes with a protected one."
                    .to_owned()
            }
            Self::OutsideReadRoots { .. } => "The user has narrowed reading: config key files.read_roots.".to_owned(),
            Self::PermissionDenied { .. } => "Gatehouse has the rights of its user and no more.".to_owned(),
            Self::Changed { .. } => "Another process is writing to it. Try again when it is done.".to_owned(),
            Self::NotUtf8 { .. } => "Only UTF-8 text can be read; a command may be able to convert it.".to_owned(),
            Self::NameTooLong { .. } => "Use a shorter path.".to_owned(),
            Self::TimedOut { .. } => "Ask for less: a smaller range or a deeper directory.".to_owned(),
            Self::Cancelled { .. } => "Nothing was changed.".to_owned(),
            Self::Io { .. } => "The system call failed in an unexpected way; try again, or tell the user.".to_owned(),
        }
    }
}
