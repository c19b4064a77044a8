//! The ledger: one SQLite file, one writer thread, many readers.
//!
//! Every change is a closure that the writer thread runs inside a transaction. Closures that are waiting together are
//! committed together, with one fsync for all of them ([`writer`]); a caller hears of success only after that commit.
//! WAL and `synchronous=FULL` make a commit survive the loss of power. The journal ([`journal`]) is append-only and
//! hash-chained. [`once`] is the only idempotency primitive there is.
//!
//! The ledger knows rows, not rules: what may follow what is decided in `session`.

pub mod actions;
pub mod blobs;
pub mod contents;
pub mod export;
mod head;
mod header;
pub mod health;
pub mod journal;
mod migrate;
pub mod once;
mod open;
mod readers;
pub mod runs;
mod schema;
pub mod seal;
pub mod sessions;
pub mod skills;
pub mod subagents;
mod trouble;
pub mod turns;
pub mod verify;
mod writer;

pub use head::Head;
pub use migrate::{MIGRATIONS, MigrationStep, SCHEMA_VERSION};
pub use open::{LOG_BYTES, Opened, is_absent, look, look_at, open, open_watched, path};
pub use readers::Readers;
pub use trouble::Trouble;
pub use writer::{AfterCommit, WriteError, Writer};

/// A ledger file that cannot be opened, read or written.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// SQLite's own words.
    #[error("ledger: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// A row that does not hold what the schema promises.
    #[error("ledger: {what} cannot be read back: {why}")]
    Damaged {
        /// The table and column.
        what: &'static str,
        /// The parser's words.
        why: String,
    },
    /// The file was written by a newer Gatehouse.
    #[error(
        "ledger: {path} has schema version {found}, and this executor knows up to {known}; start the newer Gatehouse that wrote \
         it, or restore the backup that it made of version {known} or older; nothing was changed"
    )]
    Newer {
        /// The ledger file.
        path: std::path::PathBuf,
        /// Its version.
        found: u32,
        /// The newest version known here.
        known: u32,
    },
    /// The file fails SQLite's own check.
    #[error(
        "ledger: {path} is damaged ({why}); it was left as it is: keep it, and restore the last good copy of the state directory"
    )]
    Corrupt {
        /// The ledger file.
        path: std::path::PathBuf,
        /// The first finding.
        why: String,
    },
    /// The file is another program's database.
    #[error(
        "ledger: {path} is another program's database (application id {found:#010x}); it was left as it is"
    )]
    Foreign {
        /// The file.
        path: std::path::PathBuf,
        /// Whose it is.
        found: u32,
    },
    /// There was a ledger, and its file is gone or empty.
    #[error(
        "ledger: {path} is missing or empty, and `ledger.head` beside it says that there was one; restore the last good copy, or, to \
         begin with an empty one, move the whole state directory away"
    )]
    Missing {
        /// The ledger file.
        path: std::path::PathBuf,
    },
    /// Entries that were acknowledged are not there.
    #[error(
        "ledger: {path} ends at entry {} (commit {}), and entry {} (commit {}) was acknowledged: its log (ledger.db-wal) is missing or \
         damaged, or the file is an older copy; it was left as it is. Restore the last good copy; if this is one, and what came \
         after it is to be given up, remove `ledger.head`",
        found.seq, found.commits, acknowledged.seq, acknowledged.commits
    )]
    Lost {
        /// The ledger file.
        path: std::path::PathBuf,
        /// What was acknowledged last.
        acknowledged: Head,
        /// What is there.
        found: Head,
    },
    /// Before a migration, no copy could be made.
    #[error(
        "ledger: {path}: the backup before the migration could not be made ({source}); nothing was changed"
    )]
    NoBackup {
        /// The copy.
        path: std::path::PathBuf,
        /// The cause.
        source: rusqlite::Error,
    },
    /// The file system refused.
    #[error("ledger: {path}: {source}")]
    Io {
        /// The path at fault.
        path: std::path::PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The commit failed, and with it everything of its group. Nothing was changed.
    #[error("ledger: the commit failed: {why}")]
    NotCommitted {
        /// The kind of trouble.
        trouble: Trouble,
        /// SQLite's words.
        why: String,
    },
    /// The writer thread is gone; nothing can be written any more.
    #[error("ledger: the writer has stopped")]
    WriterStopped,
}

impl LedgerError {
    pub(crate) fn damaged(what: &'static str, why: impl std::fmt::Display) -> Self {
        Self::Damaged { what, why: why.to_string() }
    }

    /// The kind of trouble that this is.
    #[must_use]
    pub fn trouble(&self) -> Trouble {
        match self {
            Self::Sqlite(error) | Self::NoBackup { source: error, .. } => Trouble::of(error),
            Self::NotCommitted { trouble, .. } => *trouble,
            Self::Io { source, .. } => Trouble::of_io(source),
            Self::Damaged { .. } | Self::Corrupt { .. } | Self::Missing { .. } | Self::Lost { .. } => {
                Trouble::Damaged
            }
            Self::Newer { .. } | Self::Foreign { .. } | Self::WriterStopped => Trouble::Other,
        }
    }
}
