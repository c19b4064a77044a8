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
pub mod health;
pub mod journal;
pub mod once;
mod open;
mod readers;
pub mod runs;
pub mod sessions;
pub mod skills;
pub mod subagents;
pub mod turns;
mod writer;

pub use open::{Opened, SCHEMA_VERSION, open};
pub use readers::Readers;
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
        "ledger: {path} has schema version {found}, this executor knows up to {known}; use the newer executor"
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
    #[error("ledger: {path} is damaged ({why}); it was left as it is, restore a backup beside it")]
    Corrupt {
        /// The ledger file.
        path: std::path::PathBuf,
        /// The first finding.
        why: String,
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
    #[error("ledger: the commit failed: {0}")]
    NotCommitted(String),
    /// The writer thread is gone; nothing can be written any more.
    #[error("ledger: the writer has stopped")]
    WriterStopped,
}

impl LedgerError {
    pub(crate) fn damaged(what: &'static str, why: impl std::fmt::Display) -> Self {
        Self::Damaged { what, why: why.to_string() }
    }
}
