//! The `run` table: prompts, and which process serves which run.

use std::sync::LazyLock;

use gatehouse_proto::ids::{LinkHash, RunId, SessionId, SubagentId};
use rusqlite::{Connection, OptionalExtension, params};

use super::LedgerError;
use super::seal::{RUN, Statement};
use crate::clock::Timestamp;

/// A run that begins.
#[derive(Debug)]
pub struct NewRun<'a> {
    /// Its id.
    pub id: &'a RunId,
    /// Its session.
    pub session: &'a SessionId,
    /// Its place in the session.
    pub ordinal: u32,
    /// Its launch.
    pub epoch: u32,
    /// What the caller asked, unchanged.
    pub prompt: &'a str,
    /// When.
    pub at: Timestamp,
    /// The subagent that it serves, if it serves one.
    pub subagent: Option<&'a SubagentId>,
}

/// Adds a run.
///
/// # Errors
/// When the ledger cannot be written.
pub fn insert(tx: &Connection, run: &NewRun<'_>) -> Result<(), LedgerError> {
    static WRITE: Statement = RUN.insert(&[
        ("id", "?1"),
        ("session_id", "?2"),
        ("ordinal", "?3"),
        ("epoch", "?4"),
        ("prompt", "?5"),
        ("started_at", "?6"),
        ("subagent_id", "?7"),
    ]);
    WRITE.run(
        tx,
        params![
            run.id.as_str(),
            run.session.as_str(),
            run.ordinal,
            run.epoch,
            run.prompt,
            run.at.millis(),
            run.subagent.map(SubagentId::as_str),
        ],
    )?;
    Ok(())
}

/// Notes that a run is over.
///
/// # Errors
/// When the ledger cannot be written.
pub fn close(tx: &Connection, id: &RunId, at: Timestamp) -> Result<(), LedgerError> {
    static WRITE: Statement = RUN.update(&[("ended_at", "?2")], "id = ?1 AND ended_at IS NULL");
    WRITE.run(tx, params![id.as_str(), at.millis()])?;
    Ok(())
}

/// Notes that a run is launched anew: the former launch's token names nothing any more.
///
/// # Errors
/// When the ledger cannot be written.
pub fn relaunch(tx: &Connection, id: &RunId, epoch: u32) -> Result<(), LedgerError> {
    static WRITE: Statement =
        RUN.update(&[("epoch", "?2"), ("link_hash", "NULL"), ("identity", "NULL")], "id = ?1");
    WRITE.run(tx, params![id.as_str(), epoch])?;
    Ok(())
}

/// Notes which link token a launch answers to, if the run is not over. An older launch's token is forgotten.
///
/// # Errors
/// When the ledger cannot be written.
pub fn set_link(tx: &Connection, id: &RunId, link: &LinkHash) -> Result<(), LedgerError> {
    static WRITE: Statement =
        RUN.update(&[("link_hash", "?2"), ("identity", "NULL")], "id = ?1 AND ended_at IS NULL");
    WRITE.run(tx, params![id.as_str(), link.as_str()])?;
    Ok(())
}

/// Notes which process serves the run.
///
/// # Errors
/// When the ledger cannot be written.
pub fn set_identity(tx: &Connection, id: &RunId, identity: &str) -> Result<(), LedgerError> {
    static WRITE: Statement = RUN.update(&[("identity", "?2")], "id = ?1");
    WRITE.run(tx, params![id.as_str(), identity])?;
    Ok(())
}

/// The process that serves the run, if it was noted.
///
/// # Errors
/// When the ledger cannot be read.
pub fn identity(connection: &Connection, id: &RunId) -> Result<Option<String>, LedgerError> {
    static SQL: LazyLock<String> =
        LazyLock::new(|| format!("SELECT identity, {} FROM run WHERE id = ?1", RUN.whole()));
    let found: Option<Option<String>> = connection
        .prepare_cached(&SQL)?
        .query_row([id.as_str()], |row| {
            RUN.check(row, 1)?;
            row.get(0)
        })
        .optional()?;
    Ok(found.flatten())
}

/// Whether the run is under way.
///
/// # Errors
/// When the ledger cannot be read.
pub fn is_open(connection: &Connection, id: &RunId) -> Result<bool, LedgerError> {
    Ok(connection
        .prepare_cached("SELECT ended_at IS NULL FROM run WHERE id = ?1")?
        .query_row([id.as_str()], |row| row.get(0))
        .optional()?
        .unwrap_or(false))
}

/// The run's prompt.
///
/// # Errors
/// When the ledger cannot be read.
pub fn prompt(connection: &Connection, id: &RunId) -> Result<Option<String>, LedgerError> {
    static SQL: LazyLock<String> =
        LazyLock::new(|| format!("SELECT prompt, {} FROM run WHERE id = ?1", RUN.whole()));
    Ok(connection
        .prepare_cached(&SQL)?
        .query_row([id.as_str()], |row| {
            RUN.check(row, 1)?;
            row.get(0)
        })
        .optional()?)
}

/// The session, run and launch that a link token names.
///
/// # Errors
/// When the ledger cannot be read.
pub fn by_link(
    connection: &Connection,
    link: &LinkHash,
) -> Result<Option<(SessionId, RunId, u32)>, LedgerError> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        format!("SELECT session_id, id, epoch, {} FROM run WHERE link_hash = ?1", RUN.whole())
    });
    let found: Option<(String, String, u32)> = connection
        .prepare_cached(&SQL)?
        .query_row([link.as_str()], |row| {
            RUN.check(row, 3)?;
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .optional()?;
    let Some((session, run, epoch)) = found else { return Ok(None) };
    let session = SessionId::try_from(session).map_err(|e| LedgerError::damaged("run.session_id", e))?;
    let run = RunId::try_from(run).map_err(|e| LedgerError::damaged("run.id", e))?;
    Ok(Some((session, run, epoch)))
}
