//! The `session` table: the machine's value of each session, as the text it serialises to.

use std::sync::LazyLock;

use gatehouse_proto::ids::SessionId;
use rusqlite::{Connection, OptionalExtension, params};

use super::seal::{SESSION, Statement};
use super::{LedgerError, journal};
use crate::clock::Timestamp;

/// One row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRow {
    /// The session.
    pub id: SessionId,
    /// Its public status.
    pub status: &'static str,
    /// Whether that is one of those in which it is live: neither stopped nor expired.
    pub is_live: bool,
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
    // Not all in one: an index over a column is written with every statement that sets it, whatever it is set to.
    static KNOWN: Statement =
        SESSION.update(&[("status", "?2"), ("revision", "?3"), ("state", "?4")], "id = ?1 AND ended = ?5");
    static MOVED: Statement =
        SESSION.update(&[("status", "?2"), ("revision", "?3"), ("state", "?4"), ("ended", "?5")], "id = ?1");
    static NEW: Statement = SESSION.insert(&[
        ("id", "?1"),
        ("status", "?2"),
        ("revision", "?3"),
        ("state", "?4"),
        ("ended", "?5"),
        ("created_at", "?6"),
    ]);
    let (id, created_at) = (row.id.as_str(), row.created_at.millis());
    let ended = !row.is_live;
    let known = params![id, row.status, row.revision, row.state, ended];
    if KNOWN.run(tx, known)? == 0 && MOVED.run(tx, known)? == 0 {
        NEW.run(tx, params![id, row.status, row.revision, row.state, ended, created_at])?;
    }
    Ok(())
}

/// The value of a session, if there is one.
///
/// # Errors
/// When the ledger cannot be read, or the session is gone from it although the journal knows it.
pub fn load(connection: &Connection, id: &SessionId) -> Result<Option<String>, LedgerError> {
    static SQL: LazyLock<String> =
        LazyLock::new(|| format!("SELECT state, {} FROM session WHERE id = ?1", SESSION.whole()));
    let found = connection
        .prepare_cached(&SQL)?
        .query_row([id.as_str()], |row| {
            SESSION.check(row, 1)?;
            row.get(0)
        })
        .optional()?;
    if found.is_none() && journal::knows(connection, id)? {
        return Err(LedgerError::damaged("session", format!("{id} is missing")));
    }
    Ok(found)
}

/// How many sessions are neither stopped nor expired.
///
/// # Errors
/// When the ledger cannot be read.
pub fn count_live(connection: &Connection) -> Result<u32, LedgerError> {
    Ok(connection
        .prepare_cached("SELECT count(*) FROM session WHERE ended = 0")?
        .query_row([], |row| row.get(0))?)
}

/// The values of all sessions that are neither stopped nor expired.
///
/// # Errors
/// When the ledger cannot be read.
pub fn live(connection: &Connection) -> Result<Vec<String>, LedgerError> {
    live_readable(connection)?.all()
}

/// The same, as far as they can be read.
///
/// # Errors
/// When the ledger cannot be read at all.
pub fn live_readable(connection: &Connection) -> Result<Readable, LedgerError> {
    texts(connection, "WHERE ended = 0 ORDER BY created_at, id", [])
}

/// The values of all sessions that are stopped or expired.
///
/// # Errors
/// When the ledger cannot be read.
pub fn ended(connection: &Connection) -> Result<Vec<String>, LedgerError> {
    texts(connection, "WHERE ended = 1 ORDER BY status, id", [])?.all()
}

/// The values of sessions that have expired; few, since they are looked at only for processes that are still ending.
///
/// # Errors
/// When the ledger cannot be read.
pub fn expired_with_a_process(connection: &Connection) -> Result<Vec<String>, LedgerError> {
    let ending = "WHERE status = 'lease_expired' AND json_extract(state, '$.ending') IS NOT NULL ORDER BY id";
    let subagent = "WHERE status = 'lease_expired' AND json_extract(state, '$.subagent') IS NOT NULL
        AND json_extract(state, '$.ending') IS NULL ORDER BY id";
    let mut found = texts(connection, ending, [])?.all()?;
    found.extend(texts(connection, subagent, [])?.all()?);
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
    list_readable(connection, live_only, after, limit)?.all()
}

/// The same, as far as they can be read.
///
/// # Errors
/// When the ledger cannot be read at all.
pub fn list_readable(
    connection: &Connection,
    live_only: bool,
    after: Option<&str>,
    limit: u32,
) -> Result<Readable, LedgerError> {
    let live = if live_only { "ended = 0" } else { "true" };
    let order = "ORDER BY created_at DESC, id DESC LIMIT ?1";
    let Some(after) = after else { return texts(connection, &format!("WHERE {live} {order}"), [limit]) };
    let place: Option<(u64, String)> = connection
        .prepare_cached("SELECT created_at, id FROM session WHERE id = ?1")?
        .query_row([after], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((at, id)) = place else { return Ok(Readable::default()) };
    texts(
        connection,
        &format!("WHERE {live} AND (created_at, id) < (?2, ?3) {order}"),
        params![limit, at, id],
    )
}

/// Values of sessions, and those whose rows are not what was written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Readable {
    /// The values.
    pub texts: Vec<String>,
    /// The ids of the others, as they stand there.
    pub damaged: Vec<String>,
}

impl Readable {
    fn all(self) -> Result<Vec<String>, LedgerError> {
        match self.damaged.first() {
            None => Ok(self.texts),
            Some(id) => Err(LedgerError::damaged("session", format!("{id} is not what was written"))),
        }
    }
}

fn texts(
    connection: &Connection,
    which: &str,
    params: impl rusqlite::Params,
) -> Result<Readable, LedgerError> {
    let mut statement =
        connection.prepare_cached(&format!("SELECT id, state, {} FROM session {which}", SESSION.whole()))?;
    let mut rows = statement.query(params)?;
    let mut found = Readable::default();
    while let Some(row) = rows.next()? {
        if row.get(2)? {
            found.texts.push(row.get(1)?);
        } else {
            found.damaged.push(row.get(0)?);
        }
    }
    Ok(found)
}
