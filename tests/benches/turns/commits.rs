//! Bare commits, and how many the executor has made.

use std::path::Path;

use rusqlite::{Connection, OpenFlags};

/// A database of one table, whose commits wait for the disk as the ledger's do.
pub struct Bare(Connection);

impl Bare {
    pub fn open(path: &Path) -> Self {
        let connection = Connection::open(path).unwrap();
        connection.pragma_update(None, "journal_mode", "wal").unwrap();
        connection.pragma_update(None, "synchronous", "full").unwrap();
        connection.execute_batch("CREATE TABLE row (id INTEGER PRIMARY KEY, body TEXT)").unwrap();
        Self(connection)
    }

    /// One commit of one row of some two hundred bytes.
    pub fn commit(&self) {
        let mut insert = self.0.prepare_cached("INSERT INTO row (body) VALUES (?1)").unwrap();
        insert.execute(["some two hundred bytes ".repeat(9)]).unwrap();
    }
}

/// How many commits the executor's ledger has.
pub fn made(state_dir: &Path) -> u64 {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let ledger = Connection::open_with_flags(state_dir.join("ledger.db"), flags).unwrap();
    ledger.query_row("SELECT commits FROM tally", [], |row| row.get(0)).unwrap()
}
