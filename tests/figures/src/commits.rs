//! Bare commits: what a durable change cannot cost less than.

use std::path::Path;

use rusqlite::Connection;

/// A database of one table, whose commits wait for the disk as the ledger's do.
#[derive(Debug)]
pub struct BareCommits(Connection);

impl BareCommits {
    /// Makes it.
    ///
    /// # Errors
    /// When it cannot be made, or is there.
    pub fn open(path: &Path) -> rusqlite::Result<Self> {
        let connection = Connection::open(path)?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.pragma_update(None, "synchronous", "full")?;
        connection.execute_batch("CREATE TABLE row (id INTEGER PRIMARY KEY, body TEXT)")?;
        Ok(Self(connection))
    }

    /// Writes a row of some two hundred bytes: a commit of its own, unless a transaction is open.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn commit(&self) -> rusqlite::Result<()> {
        let mut insert = self.0.prepare_cached("INSERT INTO row (body) VALUES (?1)")?;
        insert.execute(["some two hundred bytes ".repeat(9)]).map(drop)
    }

    /// The database, for whoever opens transactions.
    #[must_use]
    pub const fn connection(&self) -> &Connection {
        &self.0
    }
}
