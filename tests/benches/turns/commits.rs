//! How many commits the executor has made.

use std::path::Path;

use rusqlite::{Connection, OpenFlags};

/// How many commits the executor's ledger has.
pub fn made(state_dir: &Path) -> u64 {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let ledger = Connection::open_with_flags(state_dir.join("ledger.db"), flags).unwrap();
    ledger.query_row("SELECT commits FROM tally", [], |row| row.get(0)).unwrap()
}
