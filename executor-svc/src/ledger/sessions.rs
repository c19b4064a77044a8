//! The `session` table: the machine's value of each session, as the text it serialises to.

use gatehouse_proto::ids::SessionId;
use rusqlite::{Connection, OptionalExtension, params};

use super::LedgerError;
use crate::clock::Timestamp;

/// One row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRow {
    /// The session.
    pub id: SessionId,
    /// Its public status.
    pub status: &'static str,
    /// Its revision.
    pub revision: u64,
    /// When it was made.
    pub created_at: Timestamp,
    /// Its value, JSON.
    pub state: String,
}

/// Writes a session, new or known.
///
/// # Errors
/// When the ledger cannot be written.
pub fn save(tx: &Connection, row: &SessionRow) -> Result<(), LedgerError> {
    tx.prepare_cached(
        "INSERT INTO session (id, status, revision, created_at, state) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (id) DO UPDATE SET status = ?2, revision = ?3, state = ?5",
    )?
    .execute(params![row.id.as_str(), row.status, row.revision, row.created_at.millis(), row.state])?;
    Ok(())
}

/// The value of a session, if there is one.
///
/// # Errors
/// When the ledger cannot be read.
pub fn load(connection: &Connection, id: &SessionId) -> Result<Option<String>, LedgerError> {
    Ok(connection
        .prepare_cached("SELECT state FROM session WHERE id = ?1")?
        .query_row([id.as_str()], |row| row.get(0))
        .optional()?)
}

/// How many sessions are neither stopped nor expired.
///
/// # Errors
/// When the ledger cannot be read.
pub fn count_live(connection: &Connection) -> Result<u32, LedgerError> {
    Ok(connection
        .prepare_cached("SELECT count(*) FROM session WHERE status NOT IN ('stopped', 'lease_expired')")?
        .query_row([], |row| row.get(0))?)
}

/// The values of all sessions that are neither stopped nor expired.
///
/// # Errors
/// When the ledger cannot be read.
pub fn live(connection: &Connection) -> Result<Vec<String>, LedgerError> {
    texts(
        connection,
        "SELECT state FROM session WHERE status NOT IN ('stopped', 'lease_expired') ORDER BY id",
        [],
    )
}

/// The values of all sessions that are stopped or expired.
///
/// # Errors
/// When the ledger cannot be read.
pub fn ended(connection: &Connection) -> Result<Vec<String>, LedgerError> {
    texts(
        connection,
        "SELECT state FROM session WHERE status IN ('stopped', 'lease_expired') ORDER BY id",
        [],
    )
}

/// The values of sessions that have expired; few, since they are looked at only for processes that are still ending.
///
/// # Errors
/// When the ledger cannot be read.
pub fn expired_with_a_process(connection: &Connection) -> Result<Vec<String>, LedgerError> {
    let mut found = texts(
        connection,
        "SELECT state FROM session WHERE status = 'lease_expired' AND json_extract(state, '$.ending') IS NOT NULL ORDER BY id",
        [],
    )?;
    found.extend(texts(
        connection,
        "SELECT state FROM session WHERE status = 'lease_expired' AND json_extract(state, '$.subagent') IS NOT NULL
           AND json_extract(state, '$.ending') IS NULL ORDER BY id",
        [],
    )?);
    Ok(found)
}

/// Values, newest first, after the session `after`.
///
/// # Errors
/// When the ledger cannot be read.
pub fn list(
    connection: &Connection,
    live_only: bool,
    after: Option<&str>,
    limit: u32,
) -> Result<Vec<String>, LedgerError> {
    texts(
        connection,
        "SELECT state FROM session
         WHERE (?1 = 0 OR status NOT IN ('stopped', 'lease_expired'))
           AND (?2 IS NULL OR (created_at, id) < (SELECT created_at, id FROM session WHERE id = ?2))
         ORDER BY created_at DESC, id DESC LIMIT ?3",
        params![live_only, after, limit],
    )
}

fn texts(
    connection: &Connection,
    sql: &str,
    params: impl rusqlite::Params,
) -> Result<Vec<String>, LedgerError> {
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map(params, |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}
