//! Why a content could not be kept or given.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use gatehouse_proto::codes::ActionCode;

use crate::ledger::LedgerError;

/// What went wrong in the content store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ContentFault {
    /// The configured size would be passed.
    #[error("the store of file contents may hold {limit} bytes and holds {used}; {needed} more are needed")]
    Full {
        /// How many bytes it may hold.
        limit: u64,
        /// How many it holds.
        used: u64,
        /// How many are to be added.
        needed: u64,
    },
    /// No space is left on the store's disk, or the quota is used up.
    #[error("no space is left for the store of file contents")]
    NoSpace,
    /// It is not kept.
    #[error("the content {sha256} is not kept any more")]
    Missing {
        /// Its hash.
        sha256: String,
    },
    /// Its bytes are not what its name says.
    #[error("the content {sha256} is damaged")]
    Damaged {
        /// Its hash.
        sha256: String,
    },
    /// A name that is no SHA-256.
    #[error("a content is named by a SHA-256 in lower-case hexadecimal")]
    NoHash,
    /// The ledger, which has the small ones, cannot be read.
    #[error("the store of file contents: {0}")]
    Ledger(String),
    /// The system's own failure. The path is private: not for public output.
    #[error("the store of file contents: {cause}")]
    Io {
        /// What was worked on.
        path: PathBuf,
        /// The system's words.
        cause: String,
    },
}

impl From<LedgerError> for ContentFault {
    fn from(error: LedgerError) -> Self {
        Self::Ledger(error.to_string())
    }
}

impl ContentFault {
    /// The code of the receipt of a write that needed it.
    #[must_use]
    pub const fn code(&self) -> ActionCode {
        match self {
            Self::Full { .. } | Self::NoSpace => ActionCode::DiskFull,
            Self::Missing { .. } | Self::Damaged { .. } | Self::NoHash => ActionCode::NotFound,
            Self::Ledger(_) | Self::Io { .. } => ActionCode::PermissionDenied,
        }
    }

    /// What can be done about it.
    #[must_use]
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::Full { .. } => {
                "Nothing was changed. The user can remove old sessions with `gatehouse prune`, or allow more bytes in the \
                 configuration."
            }
            Self::NoSpace => "Nothing was changed. The user can make room on the disk of Gatehouse's state.",
            Self::Missing { .. } => "It was pruned, so this write can be neither shown nor undone.",
            Self::Damaged { .. } => {
                "The disk or somebody else changed it, so this write can be neither shown nor undone."
            }
            Self::NoHash | Self::Ledger(_) | Self::Io { .. } => {
                "Nothing was changed. The executor's log has more."
            }
        }
    }

    pub(super) fn io(path: &Path, error: &std::io::Error) -> Self {
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Self::NoSpace,
            _ => Self::Io { path: path.to_owned(), cause: error.to_string() },
        }
    }
}
