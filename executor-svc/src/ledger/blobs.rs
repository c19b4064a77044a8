//! The `content` table: small contents of files, by their SHA-256 (32 bytes).

use rusqlite::{Connection, OptionalExtension, params};

use super::LedgerError;

/// A SHA-256.
pub type Sha256 = [u8; 32];

/// Keeps a content; gives how many bytes more are kept by that. One that is there already, whole, stays as it is; a
/// damaged one is replaced.
///
/// # Errors
/// When the ledger cannot be written.
pub fn keep(tx: &Connection, sha256: &Sha256, bytes: &[u8]) -> Result<i64, LedgerError> {
    let there: Option<(i64, bool)> = tx
        .prepare_cached("SELECT size, bytes = ?2 FROM content WHERE sha256 = ?1")?
        .query_row(params![sha256, bytes], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let new = i64::try_from(bytes.len()).unwrap_or(i64::MAX);
    match there {
        Some((_, true)) => Ok(0),
        Some((old, false)) => {
            tx.prepare_cached("UPDATE content SET bytes = ?2, size = ?3 WHERE sha256 = ?1")?
                .execute(params![sha256, bytes, new])?;
            Ok(new - old)
        }
        None => {
            tx.prepare_cached("INSERT INTO content (sha256, size, bytes) VALUES (?1, ?3, ?2)")?
                .execute(params![sha256, bytes, new])?;
            Ok(new)
        }
    }
}

/// A content's bytes, as they are there.
///
/// # Errors
/// When the ledger cannot be read.
pub fn load(connection: &Connection, sha256: &Sha256) -> Result<Option<Vec<u8>>, LedgerError> {
    Ok(connection
        .prepare_cached("SELECT bytes FROM content WHERE sha256 = ?1")?
        .query_row([sha256], |row| row.get(0))
        .optional()?)
}

/// The size of a content; its bytes are not looked at.
///
/// # Errors
/// When the ledger cannot be read.
pub fn size(connection: &Connection, sha256: &Sha256) -> Result<Option<u64>, LedgerError> {
    Ok(connection
        .prepare_cached("SELECT size FROM content WHERE sha256 = ?1")?
        .query_row([sha256], |row| row.get(0))
        .optional()?)
}

/// Every content's hash and size.
///
/// # Errors
/// When the ledger cannot be read.
pub fn list(connection: &Connection) -> Result<Vec<(Sha256, u64)>, LedgerError> {
    let mut statement = connection.prepare("SELECT sha256, size FROM content ORDER BY sha256")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// How many bytes all of them have.
///
/// # Errors
/// When the ledger cannot be read.
pub fn total(connection: &Connection) -> Result<u64, LedgerError> {
    Ok(connection.query_row("SELECT coalesce(sum(size), 0) FROM content", [], |row| row.get(0))?)
}

/// Removes a content; gives its size if it was there.
///
/// # Errors
/// When the ledger cannot be written.
pub fn remove(tx: &Connection, sha256: &Sha256) -> Result<Option<u64>, LedgerError> {
    Ok(tx
        .prepare_cached("DELETE FROM content WHERE sha256 = ?1 RETURNING size")?
        .query_row([sha256], |row| row.get(0))
        .optional()?)
}
