//! The `turn` and `reply` tables.

use std::sync::LazyLock;

use gatehouse_proto::ids::{RequestKey, RunId, SessionId, TurnId};
use rusqlite::{Connection, OptionalExtension, params};

use super::LedgerError;
use super::seal::{REPLY, Statement, TURN};
use crate::clock::Timestamp;

/// A turn that opens.
#[derive(Debug)]
pub struct NewTurn<'a> {
    /// Its id.
    pub id: &'a TurnId,
    /// Its session.
    pub session: &'a SessionId,
    /// Its run.
    pub run: &'a RunId,
    /// Its place in the session.
    pub ordinal: u32,
    /// Its key, unique in the run.
    pub key: &'a str,
    /// What it is about.
    pub kind: &'a str,
    /// Hash of the request.
    pub request_hash: &'a str,
    /// When.
    pub at: Timestamp,
}

/// Adds a pending turn.
///
/// # Errors
/// When the ledger cannot be written.
pub fn insert(tx: &Connection, turn: &NewTurn<'_>) -> Result<(), LedgerError> {
    static WRITE: Statement = TURN.insert(&[
        ("id", "?1"),
        ("session_id", "?2"),
        ("run_id", "?3"),
        ("ordinal", "?4"),
        ("key", "?5"),
        ("kind", "?6"),
        ("request_hash", "?7"),
        ("opened_at", "?8"),
        ("state", "'pending'"),
    ]);
    WRITE.run(
        tx,
        params![
            turn.id.as_str(),
            turn.session.as_str(),
            turn.run.as_str(),
            turn.ordinal,
            turn.key,
            turn.kind,
            turn.request_hash,
            turn.at.millis()
        ],
    )?;
    Ok(())
}

/// Closes a turn without a reply.
///
/// # Errors
/// When the ledger cannot be written.
pub fn abandon(tx: &Connection, id: &TurnId, why: &str) -> Result<(), LedgerError> {
    static WRITE: Statement =
        TURN.update(&[("state", "'abandoned'"), ("closed_why", "?2")], "id = ?1 AND state = 'pending'");
    WRITE.run(tx, params![id.as_str(), why])?;
    Ok(())
}

/// Gives a turn its reply.
///
/// # Errors
/// When it has one, or the ledger cannot be written.
pub fn answer(
    tx: &Connection,
    id: &TurnId,
    reply_id: &RequestKey,
    text: &str,
    at: Timestamp,
) -> Result<(), LedgerError> {
    static REPLIED: Statement =
        REPLY.insert(&[("turn_id", "?1"), ("reply_id", "?2"), ("text", "?3"), ("committed_at", "?4")]);
    static ANSWERED: Statement = TURN.update(&[("state", "'answered'")], "id = ?1 AND state = 'pending'");
    REPLIED.run(tx, params![id.as_str(), reply_id.as_str(), text, at.millis()])?;
    ANSWERED.run(tx, [id.as_str()])?;
    Ok(())
}

/// The turn of that key in that run.
///
/// # Errors
/// When the ledger cannot be read.
pub fn by_key(connection: &Connection, run: &RunId, key: &str) -> Result<Option<TurnId>, LedgerError> {
    let found: Option<String> = connection
        .prepare_cached("SELECT id FROM turn WHERE run_id = ?1 AND key = ?2")?
        .query_row([run.as_str(), key], |row| row.get(0))
        .optional()?;
    found.map(TurnId::try_from).transpose().map_err(|e| LedgerError::damaged("turn.id", e))
}

/// Where a turn stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnRow {
    /// Its session.
    pub session_id: String,
    /// Its run.
    pub run_id: String,
    /// `pending`, `answered` or `abandoned`.
    pub state: String,
    /// Why it was abandoned.
    pub closed_why: Option<String>,
    /// The text of its reply.
    pub reply_text: Option<String>,
}

/// Looks a turn up.
///
/// # Errors
/// When the ledger cannot be read.
pub fn load(connection: &Connection, id: &TurnId) -> Result<Option<TurnRow>, LedgerError> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        format!(
            "SELECT turn.session_id, turn.run_id, turn.state, turn.closed_why, reply.text,
                    {}, reply.turn_id IS NULL OR {}
             FROM turn LEFT JOIN reply ON reply.turn_id = turn.id WHERE turn.id = ?1",
            TURN.whole(),
            REPLY.whole()
        )
    });
    Ok(connection
        .prepare_cached(&SQL)?
        .query_row([id.as_str()], |row| {
            TURN.check(row, 5)?;
            REPLY.check(row, 6)?;
            Ok(TurnRow {
                session_id: row.get(0)?,
                run_id: row.get(1)?,
                state: row.get(2)?,
                closed_why: row.get(3)?,
                reply_text: row.get(4)?,
            })
        })
        .optional()?)
}
