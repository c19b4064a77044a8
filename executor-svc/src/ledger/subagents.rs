//! The `subagent` and `subagent_answer` tables.

use gatehouse_proto::ids::{SessionId, SubagentId, ToolCallId, TurnId};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::LedgerError;
use super::seal::{ACTION, REPLY, SUBAGENT, SUBAGENT_ANSWER, Statement};
use crate::clock::Timestamp;

/// A subagent that begins.
#[derive(Debug)]
pub struct NewSubagent<'a> {
    /// Its id.
    pub id: &'a SubagentId,
    /// Its session.
    pub session: &'a SessionId,
    /// The action that started it.
    pub started_by: &'a ToolCallId,
    /// Its place in the session.
    pub ordinal: u32,
    /// What was asked for.
    pub grade: &'a str,
    /// When.
    pub at: Timestamp,
}

/// Adds a subagent.
///
/// # Errors
/// When the ledger cannot be written.
pub fn insert(tx: &Connection, new: &NewSubagent<'_>) -> Result<(), LedgerError> {
    static WRITE: Statement = SUBAGENT.insert(&[
        ("id", "?1"),
        ("session_id", "?2"),
        ("started_by", "?3"),
        ("ordinal", "?4"),
        ("grade", "?5"),
        ("status", "'started'"),
        ("started_at", "?6"),
        ("requests", "0"),
        ("input_tokens", "0"),
        ("output_tokens", "0"),
    ]);
    WRITE.run(
        tx,
        params![
            new.id.as_str(),
            new.session.as_str(),
            new.started_by.as_str(),
            new.ordinal,
            new.grade,
            new.at.millis()
        ],
    )?;
    Ok(())
}

/// Notes that the provider is about to be asked.
///
/// # Errors
/// When the ledger cannot be written.
pub fn requested(tx: &Connection, id: &SubagentId, requests: u32) -> Result<(), LedgerError> {
    static WRITE: Statement = SUBAGENT.update(&[("status", "'running'"), ("requests", "?2")], "id = ?1");
    WRITE.run(tx, params![id.as_str(), requests])?;
    Ok(())
}

/// An answer that was verified.
#[derive(Debug)]
pub struct NewAnswer<'a> {
    /// Whose.
    pub id: &'a SubagentId,
    /// The turn that it answers.
    pub turn: &'a TurnId,
    /// Its place in the sub-session.
    pub ordinal: u32,
    /// Its blocks, JSON.
    pub content: &'a str,
    /// The model that answered.
    pub model: &'a str,
    /// Tokens that were sent so far.
    pub input_tokens: u64,
    /// Tokens that were answered so far.
    pub output_tokens: u64,
}

/// Keeps an answer.
///
/// # Errors
/// When the ledger cannot be written.
pub fn answered(tx: &Connection, answer: &NewAnswer<'_>) -> Result<(), LedgerError> {
    static ANSWER: Statement = SUBAGENT_ANSWER.insert(&[
        ("turn_id", "?1"),
        ("subagent_id", "?2"),
        ("ordinal", "?3"),
        ("content", "?4"),
    ]);
    static COUNTS: Statement = SUBAGENT.update(
        &[("model", "?2"), ("model_verified", "1"), ("input_tokens", "?3"), ("output_tokens", "?4")],
        "id = ?1",
    );
    ANSWER.run(tx, params![answer.turn.as_str(), answer.id.as_str(), answer.ordinal, answer.content])?;
    let counts = params![answer.id.as_str(), answer.model, answer.input_tokens, answer.output_tokens];
    COUNTS.run(tx, counts)?;
    Ok(())
}

/// Where a subagent stands that is on its way out, or out.
#[derive(Debug)]
pub struct NewStanding<'a> {
    /// The subagent.
    pub id: &'a SubagentId,
    /// `stopping`, `finished`, `failed` or `stopped`.
    pub status: &'a str,
    /// Why, JSON.
    pub failure: Option<&'a str>,
    /// A model that answered and does not count as the one that was asked for.
    pub other_model: Option<&'a str>,
    /// The turn whose reply is the result.
    pub result_turn: Option<&'a TurnId>,
    /// When it was over.
    pub ended_at: Option<Timestamp>,
}

/// Notes where a subagent stands.
///
/// # Errors
/// When the ledger cannot be written.
pub fn stands(tx: &Connection, standing: &NewStanding<'_>) -> Result<(), LedgerError> {
    static WRITE: Statement = SUBAGENT.update(
        &[
            ("status", "?2"),
            ("failure", "?3"),
            ("result_turn", "?4"),
            ("ended_at", "?5"),
            ("model", "coalesce(?6, model)"),
            ("model_verified", "CASE WHEN ?6 IS NULL THEN model_verified ELSE 0 END"),
        ],
        "id = ?1",
    );
    WRITE.run(
        tx,
        params![
            standing.id.as_str(),
            standing.status,
            standing.failure,
            standing.result_turn.map(TurnId::as_str),
            standing.ended_at.map(Timestamp::millis),
            standing.other_model,
        ],
    )?;
    Ok(())
}

/// A subagent as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubagentRow {
    /// Its id.
    pub id: String,
    /// Its session.
    pub session_id: String,
    /// The action that started it.
    pub started_by: String,
    /// What was asked for.
    pub grade: String,
    /// `started`, `running`, `stopping`, `finished`, `failed` or `stopped`.
    pub status: String,
    /// When it was started.
    pub started_at: Timestamp,
    /// When it was over.
    pub ended_at: Option<Timestamp>,
    /// Requests that were begun.
    pub requests: u32,
    /// Tokens that were sent.
    pub input_tokens: u64,
    /// Tokens that were answered.
    pub output_tokens: u64,
    /// The model that answered.
    pub model: Option<String>,
    /// Whether that counts as the grade's.
    pub model_verified: Option<bool>,
    /// The text of its result.
    pub result: Option<String>,
    /// Why it failed or was stopped, JSON.
    pub failure: Option<String>,
}

const COLUMNS: &str = "subagent.id, session_id, started_by, grade, status, started_at, ended_at, requests, input_tokens, output_tokens, model, model_verified, reply.text, failure";
const FROM: &str = "FROM subagent LEFT JOIN reply ON reply.turn_id = subagent.result_turn";

fn select(which: &str) -> String {
    let reply = REPLY.whole();
    format!("SELECT {COLUMNS}, {}, (reply.turn_id IS NULL OR {reply}) {FROM} {which}", SUBAGENT.whole())
}

fn row(row: &Row<'_>) -> rusqlite::Result<SubagentRow> {
    SUBAGENT.check(row, 14)?;
    REPLY.check(row, 15)?;
    Ok(SubagentRow {
        id: row.get(0)?,
        session_id: row.get(1)?,
        started_by: row.get(2)?,
        grade: row.get(3)?,
        status: row.get(4)?,
        started_at: Timestamp::from_millis(row.get(5)?),
        ended_at: row.get::<_, Option<u64>>(6)?.map(Timestamp::from_millis),
        requests: row.get(7)?,
        input_tokens: row.get(8)?,
        output_tokens: row.get(9)?,
        model: row.get(10)?,
        model_verified: row.get(11)?,
        result: row.get(12)?,
        failure: row.get(13)?,
    })
}

/// Looks a subagent of a session up.
///
/// # Errors
/// When the ledger cannot be read.
pub fn load(
    connection: &Connection,
    session: &SessionId,
    id: &str,
) -> Result<Option<SubagentRow>, LedgerError> {
    Ok(connection
        .prepare_cached(&select("WHERE subagent.id = ?1 AND session_id = ?2"))?
        .query_row([id, session.as_str()], row)
        .optional()?)
}

/// The latest subagents of a session, oldest first.
///
/// # Errors
/// When the ledger cannot be read.
pub fn latest(
    connection: &Connection,
    session: &SessionId,
    limit: u32,
) -> Result<Vec<SubagentRow>, LedgerError> {
    let mut statement =
        connection.prepare_cached(&select("WHERE session_id = ?1 ORDER BY ordinal DESC LIMIT ?2"))?;
    let rows = statement.query_map(params![session.as_str(), limit], row)?;
    let mut rows = rows.collect::<Result<Vec<_>, _>>()?;
    rows.reverse();
    Ok(rows)
}

/// What a subagent was answered so far, in order: the turn, and the blocks as JSON.
///
/// # Errors
/// When the ledger cannot be read.
pub fn answers(connection: &Connection, id: &SubagentId) -> Result<Vec<(TurnId, String)>, LedgerError> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT turn_id, content, {} FROM subagent_answer WHERE subagent_id = ?1 ORDER BY ordinal",
        SUBAGENT_ANSWER.whole()
    ))?;
    let rows = statement.query_map([id.as_str()], |row| {
        SUBAGENT_ANSWER.check(row, 2)?;
        Ok((row.get::<_, String>(0)?, row.get(1)?))
    })?;
    rows.map(|row| {
        let (turn, content) = row?;
        Ok((
            TurnId::try_from(turn).map_err(|error| LedgerError::damaged("subagent_answer.turn_id", error))?,
            content,
        ))
    })
    .collect()
}

/// An action of a subagent, in short.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deed {
    /// The action.
    pub id: String,
    /// The tool.
    pub name: String,
    /// `authorised`, `prepared` or `done`.
    pub state: String,
    /// Whether it worked.
    pub ok: Option<bool>,
    /// Its action code, if it did not.
    pub code: Option<String>,
    /// The file that it was to change.
    pub path: Option<String>,
}

/// How many actions a subagent has taken, and the latest of them, oldest first.
///
/// # Errors
/// When the ledger cannot be read.
pub fn deeds(connection: &Connection, id: &str, limit: u32) -> Result<(u32, Vec<Deed>), LedgerError> {
    let of_subagent = "subagent_id = ?1";
    let count = connection
        .prepare_cached(&format!("SELECT count(*) FROM action WHERE {of_subagent}"))?
        .query_row([id], |row| row.get(0))?;
    let mut statement = connection.prepare_cached(&format!(
        "SELECT id, name, state, ok, code, json_extract(intent, '$.path'), {} FROM action
         WHERE {of_subagent} ORDER BY authorised_at DESC, position DESC LIMIT ?2",
        ACTION.whole()
    ))?;
    let rows = statement.query_map(params![id, limit], |row| {
        ACTION.check(row, 6)?;
        Ok(Deed {
            id: row.get(0)?,
            name: row.get(1)?,
            state: row.get(2)?,
            ok: row.get(3)?,
            code: row.get(4)?,
            path: row.get(5)?,
        })
    })?;
    let mut deeds = rows.collect::<Result<Vec<_>, _>>()?;
    deeds.reverse();
    Ok((count, deeds))
}
