//! What can keep a ledger from being read or written, in words that stay the same.

use rusqlite::ErrorCode;

/// The kinds of trouble. What is acknowledged is safe in all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Trouble {
    /// No space is left on the disk, or the quota is used up.
    Full,
    /// Another process holds a lock on the file.
    Locked,
    /// The file, its directory or its file system can only be read, or may not be opened.
    ReadOnly,
    /// The disk or the file system gave an error.
    Io,
    /// The file does not hold what was written to it.
    Damaged,
    /// Anything else.
    Other,
}

impl Trouble {
    /// The kind of a failure of SQLite.
    #[must_use]
    pub fn of(error: &rusqlite::Error) -> Self {
        match error {
            rusqlite::Error::SqliteFailure(failure, _) => Self::of_code(failure.code),
            rusqlite::Error::SqlInputError { error, .. } => Self::of_code(error.code),
            // A column of another type than the schema has: only another hand brings that about.
            rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::Utf8Error(..) => Self::Damaged,
            _ => Self::Other,
        }
    }

    const fn of_code(code: ErrorCode) -> Self {
        match code {
            ErrorCode::DiskFull => Self::Full,
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed => {
                Self::Locked
            }
            ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied => Self::ReadOnly,
            ErrorCode::SystemIoFailure | ErrorCode::NoLargeFileSupport => Self::Io,
            ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::TypeMismatch => Self::Damaged,
            _ => Self::Other,
        }
    }

    /// The kind of a failure of the file system.
    #[must_use]
    pub fn of_io(error: &std::io::Error) -> Self {
        use std::io::ErrorKind;
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Self::Full,
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Self::ReadOnly,
            _ => Self::Io,
        }
    }

    /// The word for it in answers, logs and `health`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Locked => "locked",
            Self::ReadOnly => "read_only",
            Self::Io => "io",
            Self::Damaged => "damaged",
            Self::Other => "other",
        }
    }

    /// What has happened, in a sentence without a path.
    #[must_use]
    pub const fn message(self) -> &'static str {
        match self {
            Self::Full => "The disk that holds the gateway's ledger is full.",
            Self::Locked => "Another process holds a lock on the gateway's ledger.",
            Self::ReadOnly => "The gateway's ledger, or the directory that it lies in, cannot be written.",
            Self::Io => "The disk of the gateway's ledger gives errors.",
            Self::Damaged => "The gateway's ledger is damaged: a part of it is not what was written.",
            Self::Other => "The gateway could not read or write its ledger.",
        }
    }

    /// What can be done about it.
    #[must_use]
    pub const fn what_to_do(self) -> &'static str {
        match self {
            Self::Full => {
                "Call again with the same ids: it goes through as soon as there is room, without a restart. The person at \
                 the machine makes room on the disk of the state directory; `gatehouse prune` gives back what old sessions \
                 keep."
            }
            Self::Locked => {
                "Call again with the same ids. The person at the machine ends whatever else has the ledger open, for example a \
                 backup program or an SQLite shell."
            }
            Self::ReadOnly => {
                "Call again with the same ids: it goes through as soon as the ledger can be written. The person at the machine \
                 looks at the permissions of the state directory, and whether its file system is mounted read-only."
            }
            Self::Io => {
                "Call again with the same ids. If it stays so, the person at the machine looks at the disk and the kernel's log, \
                 and keeps a copy of the state directory."
            }
            Self::Damaged => {
                "The person at the machine runs `gatehouse verify`, which says where, keeps the state directory as it is, and \
                 restores the last good copy. Nothing is replaced or repaired by itself."
            }
            Self::Other => {
                "Call again with the same ids. If it stays so, the person at the machine should look at the executor's log and \
                 the disk."
            }
        }
    }

    /// Whether the same call may go through when the cause is gone.
    #[must_use]
    pub const fn passes(self) -> bool {
        !matches!(self, Self::Damaged)
    }
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
