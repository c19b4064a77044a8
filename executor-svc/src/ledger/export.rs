//! A session as a whole, for a report: its runs and turns in order, and what of the journal is about it.

use gatehouse_proto::ids::{RunId, SessionId, TurnId};
use rusqlite::{Connection, OptionalExtension, params};

use super::LedgerError;
use crate::clock::Timestamp;

/// How much there is of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Runs.
    pub runs: u32,
    /// Turns of all runs.
    pub turns: u32,
    /// Actions, the operator's included.
    pub actions: u32,
    /// Journal entries about it.
    pub entries: u64,
    /// The place of the first of them; 0 if there is none.
    pub first_seq: u64,
    /// The place of the last.
    pub last_seq: u64,
}

/// Counts what there is of a session.
///
/// # Errors
/// When the ledger cannot be read.
pub fn counts(connection: &Connection, session: &SessionId) -> Result<Counts, LedgerError> {
    let count = |table: &str| -> Result<u32, LedgerError> {
        let sql = format!("SELECT count(*) FROM {table} WHERE session_id = ?1");
        Ok(connection.prepare_cached(&sql)?.query_row([session.as_str()], |row| row.get(0))?)
    };
    let (entries, first_seq, last_seq) = connection
        .prepare_cached(
            "SELECT count(*), ifnull(min(seq), 0), ifnull(max(seq), 0) FROM journal WHERE session_id = ?1",
        )?
        .query_row([session.as_str()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    Ok(Counts {
        runs: count("run")?,
        turns: count("turn")?,
        actions: count("action")?,
        entries,
        first_seq,
        last_seq,
    })
}

/// One run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunLine {
    /// Its id.
    pub id: RunId,
    /// Its place in the session.
    pub ordinal: u32,
    /// What the caller asked.
    pub prompt: String,
    /// When it began.
    pub started_at: Timestamp,
    /// When it was over.
    pub ended_at: Option<Timestamp>,
}

/// The run that comes after this one, by when they began; without one, the first. Those of subagents are among them.
///
/// # Errors
/// When the ledger cannot be read.
pub fn run_after(
    connection: &Connection,
    session: &SessionId,
    after: Option<&RunLine>,
) -> Result<Option<RunLine>, LedgerError> {
    let (started, ordinal, id) =
        after.map_or((0, 0, ""), |run| (run.started_at.millis(), run.ordinal, run.id.as_str()));
    let found = connection
        .prepare_cached(
            "SELECT id, ordinal, prompt, started_at, ended_at FROM run
             WHERE session_id = ?1 AND (started_at, ordinal, id) > (?2, ?3, ?4) ORDER BY started_at, ordinal, id LIMIT 1",
        )?
        .query_row(params![session.as_str(), started, ordinal, id], |row| {
            let id: String = row.get(0)?;
            let ended: Option<u64> = row.get(4)?;
            Ok((id, row.get(1)?, row.get(2)?, row.get::<_, u64>(3)?, ended))
        })
        .optional()?;
    let Some((id, ordinal, prompt, started, ended)) = found else { return Ok(None) };
    Ok(Some(RunLine {
        id: RunId::try_from(id).map_err(|error| LedgerError::damaged("run.id", error))?,
        ordinal,
        prompt,
        started_at: Timestamp::from_millis(started),
        ended_at: ended.map(Timestamp::from_millis),
    }))
}

/// One turn with its reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnLine {
    /// Its id.
    pub id: TurnId,
    /// Its place.
    pub ordinal: u32,
    /// What it is about.
    pub kind: String,
    /// `pending`, `answered` or `abandoned`.
    pub state: String,
    /// When it was opened.
    pub opened_at: Timestamp,
    /// When its reply was committed.
    pub answered_at: Option<Timestamp>,
    /// The text of its reply.
    pub reply_text: Option<String>,
    /// Why it was abandoned.
    pub closed_why: Option<String>,
}

/// The turn of a run that comes after this one; without one, the first.
///
/// # Errors
/// When the ledger cannot be read.
pub fn turn_after(
    connection: &Connection,
    run: &RunId,
    after: Option<&TurnLine>,
) -> Result<Option<TurnLine>, LedgerError> {
    // An abandoned turn and the one in its place may have one ordinal.
    let (ordinal, opened, id) =
        after.map_or((0, 0, ""), |turn| (turn.ordinal, turn.opened_at.millis(), turn.id.as_str()));
    let found = connection
        .prepare_cached(
            "SELECT turn.id, ordinal, kind, state, opened_at, reply.committed_at, reply.text, closed_why
             FROM turn LEFT JOIN reply ON reply.turn_id = turn.id
             WHERE run_id = ?1 AND (ordinal, opened_at, turn.id) > (?2, ?3, ?4)
             ORDER BY ordinal, opened_at, turn.id LIMIT 1",
        )?
        .query_row(params![run.as_str(), ordinal, opened, id], |row| {
            let id: String = row.get(0)?;
            let turn = TurnLine {
                id: TurnId::try_from(id).map_err(|_| rusqlite::Error::InvalidQuery)?,
                ordinal: row.get(1)?,
                kind: row.get(2)?,
                state: row.get(3)?,
                opened_at: Timestamp::from_millis(row.get(4)?),
                answered_at: row.get::<_, Option<u64>>(5)?.map(Timestamp::from_millis),
                reply_text: row.get(6)?,
                closed_why: row.get(7)?,
            };
            Ok(turn)
        })
        .optional()?;
    Ok(found)
}
