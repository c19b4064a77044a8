//! What the ledger file says of itself.

use rusqlite::Connection;

use super::LedgerError;

/// How many problems are told.
const TOLD: u32 = 5;

/// What a quick check of the file finds wrong; nothing, if it is sound.
///
/// # Errors
/// When the ledger cannot be read at all.
pub fn quick_check(connection: &Connection) -> Result<Vec<String>, LedgerError> {
    let mut statement = connection.prepare(&format!("PRAGMA quick_check({TOLD})"))?;
    let found: Vec<String> = statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    Ok(found.into_iter().filter(|line| line != "ok").collect())
}

/// The size of the file, in bytes.
///
/// # Errors
/// When the ledger cannot be read.
pub fn file_bytes(connection: &Connection) -> Result<u64, LedgerError> {
    let number = |name: &str| connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, u64>(0));
    Ok(number("page_count")? * number("page_size")?)
}

/// How many sessions there are in each state.
///
/// # Errors
/// When the ledger cannot be read.
pub fn sessions_by_status(connection: &Connection) -> Result<Vec<(String, u64)>, LedgerError> {
    // In two parts, each by the index that has no more than it needs.
    let mut statement = connection.prepare_cached(
        "SELECT status, count(*) FROM session WHERE ended = 0 GROUP BY status
         UNION ALL SELECT status, count(*) FROM session WHERE ended = 1 GROUP BY status ORDER BY 1",
    )?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fresh_ledger_is_sound_and_has_a_size() {
        let dir = tempfile::tempdir().unwrap();
        drop(crate::ledger::open(dir.path()).unwrap());
        let connection = super::super::open::connect(&dir.path().join("ledger.db")).unwrap();
        assert_eq!(quick_check(&connection).unwrap(), Vec::<String>::new());
        assert!(file_bytes(&connection).unwrap() > 4096);
        assert_eq!(sessions_by_status(&connection).unwrap(), []);
    }
}
