//! Which contents of files the ledger names: those before and after each write.

use std::collections::HashMap;

use gatehouse_proto::ids::SessionId;
use rusqlite::Connection;

use super::LedgerError;
use crate::clock::Timestamp;

/// The journal's word for a session whose contents may be gone.
pub const SESSION_PRUNED: &str = "session.pruned";
/// The journal's word for the whole of a pruning.
pub const STORE_PRUNED: &str = "store.pruned";

/// A write, by what the ledger names of its contents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// The action.
    pub action: String,
    /// Its session.
    pub session: String,
    /// When it was authorised.
    pub at: Timestamp,
    /// SHA-256 of what was there before, and after. What was no file has none.
    pub contents: [Option<String>; 2],
}

/// Goes through all writes.
///
/// # Errors
/// When the ledger cannot be read.
pub fn each(connection: &Connection, mut look: impl FnMut(Named)) -> Result<(), LedgerError> {
    let mut statement = connection.prepare(
        "SELECT id, session_id, authorised_at, json_extract(intent, '$.before.file.sha256'),
                json_extract(intent, '$.after.file.sha256')
         FROM action WHERE intent IS NOT NULL",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        look(Named {
            action: row.get(0)?,
            session: row.get(1)?,
            at: Timestamp::from_millis(row.get(2)?),
            contents: [row.get(3)?, row.get(4)?],
        });
    }
    Ok(())
}

/// A receipt that is not what it was, or says other hashes than its write had.
///
/// # Errors
/// When the ledger cannot be read.
pub fn wrong_receipts(connection: &Connection) -> Result<Vec<String>, LedgerError> {
    let mut statement = connection.prepare(
        "SELECT id, receipt, receipt_sha256, CASE WHEN ok = 1 AND intent IS NOT NULL AND json_valid(receipt) THEN
                json_extract(receipt, '$.before_sha256') IS NOT json_extract(intent, '$.before.file.sha256')
             OR json_extract(receipt, '$.after_sha256') IS NOT json_extract(intent, '$.after.file.sha256') END
         FROM action WHERE receipt IS NOT NULL",
    )?;
    let mut rows = statement.query([])?;
    let mut wrong = Vec::new();
    while let Some(row) = rows.next()? {
        let (receipt, sha256): (String, Option<String>) = (row.get(1)?, row.get(2)?);
        let is_other = sha256 != Some(gatehouse_proto::digest::sha256_hex(receipt.as_bytes()));
        if is_other || row.get::<_, Option<bool>>(3)? == Some(true) {
            wrong.push(row.get(0)?);
        }
    }
    Ok(wrong)
}

/// When a session was last pruned, by session.
///
/// # Errors
/// When the ledger cannot be read.
pub fn pruned(connection: &Connection) -> Result<HashMap<String, Timestamp>, LedgerError> {
    // Not a parameter: the index is for this word.
    let mut statement = connection.prepare(&format!(
        "SELECT session_id, max(at) FROM journal WHERE kind = '{SESSION_PRUNED}' GROUP BY session_id"
    ))?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, Timestamp::from_millis(row.get(1)?))))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// When the latest action of a session was authorised.
///
/// # Errors
/// When the ledger cannot be read.
pub fn latest_action(connection: &Connection, session: &SessionId) -> Result<Timestamp, LedgerError> {
    let at: Option<u64> = connection
        .prepare_cached("SELECT max(authorised_at) FROM action WHERE session_id = ?1")?
        .query_row([session.as_str()], |row| row.get(0))?;
    Ok(at.map(Timestamp::from_millis).unwrap_or_default())
}
