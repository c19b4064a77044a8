//! How many commits the executor has made.

use std::path::Path;

use rusqlite::{Connection, OpenFlags};

/// How many commits the executor's ledger has: those that show in its journal, each with one entry while turns are taken, and those that
/// do not, which are counted.
pub fn made(state_dir: &Path) -> u64 {
    let path = state_dir.join("ledger.db");
    let ledger = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    ledger
        .query_row("SELECT commits + (SELECT max(seq) FROM journal) FROM tally", [], |row| row.get(0))
        .unwrap()
}
