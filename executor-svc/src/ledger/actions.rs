//! The `action` table: what was authorised, and the receipts.

use std::sync::LazyLock;

use gatehouse_proto::ids::{RequestKey, RunId, SessionId, ToolCallId, TurnId};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::LedgerError;
use super::seal::{ACTION, Statement};
use crate::clock::Timestamp;

/// An action that is authorised.
#[derive(Debug)]
pub struct NewAction<'a> {
    /// Its id.
    pub id: &'a ToolCallId,
    /// Its session.
    pub session: &'a SessionId,
    /// Its run.
    pub run: &'a RunId,
    /// The turn whose reply authorised it.
    pub turn: &'a TurnId,
    /// Its place in that reply.
    pub position: usize,
    /// The tool.
    pub name: &'a str,
    /// The caller's own id.
    pub client_id: Option<&'a str>,
    /// The input, JSON.
    pub input: &'a str,
    /// Digest of the input.
    pub input_sha256: &'a str,
    /// What its receipt may take, in bytes.
    pub budget: u32,
    /// When.
    pub at: Timestamp,
}

/// Adds an authorised action.
///
/// # Errors
/// When the ledger cannot be written.
pub fn insert(tx: &Connection, action: &NewAction<'_>) -> Result<(), LedgerError> {
    static WRITE: Statement = ACTION.insert(&[
        ("id", "?1"),
        ("session_id", "?2"),
        ("run_id", "?3"),
        ("turn_id", "?4"),
        ("position", "?5"),
        ("name", "?6"),
        ("client_id", "?7"),
        ("input", "?8"),
        ("input_sha256", "?9"),
        ("budget", "?10"),
        ("state", "'authorised'"),
        ("authorised_at", "?11"),
        ("subagent_id", "(SELECT subagent_id FROM run WHERE id = ?3)"),
    ]);
    WRITE.run(
        tx,
        params![
            action.id.as_str(),
            action.session.as_str(),
            action.run.as_str(),
            action.turn.as_str(),
            action.position,
            action.name,
            action.client_id,
            action.input,
            action.input_sha256,
            action.budget,
            action.at.millis()
        ],
    )?;
    Ok(())
}

/// Makes an action's intent durable; a command has none beyond its input.
///
/// # Errors
/// When the ledger cannot be written.
pub fn prepare(tx: &Connection, id: &ToolCallId, intent: Option<&str>) -> Result<(), LedgerError> {
    static WRITE: Statement =
        ACTION.update(&[("state", "'prepared'"), ("intent", "?2")], "id = ?1 AND state = 'authorised'");
    WRITE.run(tx, params![id.as_str(), intent])?;
    Ok(())
}

/// What the operator does with an action, prepared: an action of its own, without a run.
#[derive(Debug)]
pub struct NewOperation<'a> {
    /// Its id.
    pub id: &'a ToolCallId,
    /// Its session.
    pub session: &'a SessionId,
    /// [`UNDO`] or [`RESOLVE`].
    pub name: &'static str,
    /// What the operator asked for: the action that it is about, and the `request_id`.
    pub input: &'a serde_json::Value,
    /// The action that an undo undoes.
    pub reverts: Option<&'a ToolCallId>,
    /// What is about to be done, JSON.
    pub intent: Option<&'a str>,
    /// What its receipt may take, in bytes.
    pub budget: u32,
    /// When.
    pub at: Timestamp,
}

/// The name under which an undo stands among the actions.
pub const UNDO: &str = "Undo";
/// The name under which a decision about an uncertain action does.
pub const RESOLVE: &str = "Resolve";

/// Adds what the operator does, prepared.
///
/// # Errors
/// When the ledger cannot be written.
pub fn insert_operation(tx: &Connection, new: &NewOperation<'_>) -> Result<(), LedgerError> {
    static WRITE: Statement = ACTION.insert(&[
        ("id", "?1"),
        ("session_id", "?2"),
        ("name", "?3"),
        ("input", "?4"),
        ("input_sha256", "?5"),
        ("budget", "?6"),
        ("state", "'prepared'"),
        ("authorised_at", "?7"),
        ("intent", "?8"),
        ("reverts", "?9"),
    ]);
    WRITE.run(
        tx,
        params![
            new.id.as_str(),
            new.session.as_str(),
            new.name,
            gatehouse_proto::digest::canonical_json(new.input),
            gatehouse_proto::digest::digest(new.input),
            new.budget,
            new.at.millis(),
            new.intent,
            new.reverts.map(ToolCallId::as_str),
        ],
    )?;
    Ok(())
}

/// A receipt to be kept.
#[derive(Debug)]
pub struct NewReceipt<'a> {
    /// Whether it worked.
    pub ok: bool,
    /// The action code, if it did not.
    pub code: Option<&'a str>,
    /// The receipt, JSON.
    pub json: &'a str,
    /// When.
    pub at: Timestamp,
}

/// Settles an action. One that has its receipt keeps it.
///
/// # Errors
/// When the ledger cannot be written.
pub fn settle(tx: &Connection, id: &ToolCallId, receipt: &NewReceipt<'_>) -> Result<(), LedgerError> {
    static WRITE: Statement = ACTION.update(
        &[
            ("state", "'done'"),
            ("ok", "?2"),
            ("code", "?3"),
            ("receipt", "?4"),
            ("receipt_sha256", "?5"),
            ("finished_at", "?6"),
        ],
        "id = ?1 AND state <> 'done'",
    );
    WRITE.run(
        tx,
        params![
            id.as_str(),
            receipt.ok,
            receipt.code,
            receipt.json,
            gatehouse_proto::digest::sha256_hex(receipt.json.as_bytes()),
            receipt.at.millis()
        ],
    )?;
    Ok(())
}

/// An action as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActionRow {
    /// Its id.
    pub id: String,
    /// Its session.
    pub session_id: String,
    /// Its run.
    pub run_id: Option<String>,
    /// The turn whose reply authorised it; an undo has none.
    pub turn_id: Option<String>,
    /// The tool.
    pub name: String,
    /// The caller's own id.
    pub client_id: Option<String>,
    /// The input, JSON.
    pub input: String,
    /// What its receipt may take, in bytes.
    pub budget: u32,
    /// `authorised`, `prepared`, `performing` or `done`.
    pub state: String,
    /// When it was authorised.
    pub authorised_at: Timestamp,
    /// When it was settled.
    pub finished_at: Option<Timestamp>,
    /// Whether it worked.
    pub ok: Option<bool>,
    /// Its action code, if it did not.
    pub code: Option<String>,
    /// The receipt, JSON.
    pub receipt: Option<String>,
    /// SHA-256 of the receipt.
    pub receipt_sha256: Option<String>,
    /// What a write that was prepared is about, JSON.
    pub intent: Option<String>,
    /// The action that an undo undoes.
    pub reverts: Option<String>,
    /// The subagent whose it is.
    pub subagent_id: Option<String>,
}

const COLUMNS: &str = "id, session_id, run_id, turn_id, name, client_id, input, budget, state, authorised_at, finished_at, ok, code, receipt, receipt_sha256, intent, reverts, subagent_id";

fn select(which: &str) -> String {
    format!("SELECT {COLUMNS}, {} FROM action {which}", ACTION.whole())
}

fn row(row: &Row<'_>) -> rusqlite::Result<ActionRow> {
    ACTION.check(row, 18)?;
    Ok(ActionRow {
        id: row.get(0)?,
        session_id: row.get(1)?,
        run_id: row.get(2)?,
        turn_id: row.get(3)?,
        name: row.get(4)?,
        client_id: row.get(5)?,
        input: row.get(6)?,
        budget: row.get(7)?,
        state: row.get(8)?,
        authorised_at: Timestamp::from_millis(row.get(9)?),
        finished_at: row.get::<_, Option<u64>>(10)?.map(Timestamp::from_millis),
        ok: row.get(11)?,
        code: row.get(12)?,
        receipt: row.get(13)?,
        receipt_sha256: row.get(14)?,
        intent: row.get(15)?,
        reverts: row.get(16)?,
        subagent_id: row.get(17)?,
    })
}

/// Looks an action up.
///
/// # Errors
/// When the ledger cannot be read.
pub fn load(connection: &Connection, id: &ToolCallId) -> Result<Option<ActionRow>, LedgerError> {
    static SQL: LazyLock<String> = LazyLock::new(|| select("WHERE id = ?1"));
    Ok(connection.prepare_cached(&SQL)?.query_row([id.as_str()], row).optional()?)
}

/// Looks up what the operator did under this id of a request.
///
/// # Errors
/// When the ledger cannot be read.
pub fn operation(
    connection: &Connection,
    session: &SessionId,
    name: &str,
    request: &RequestKey,
) -> Result<Option<ActionRow>, LedgerError> {
    Ok(connection
        .prepare_cached(&select(
            "WHERE session_id = ?1 AND name = ?2 AND run_id IS NULL AND json_extract(input, '$.request_id') = ?3",
        ))?
        .query_row([session.as_str(), name, request.as_str()], row)
        .optional()?)
}

/// What the operator did with a session, oldest first.
///
/// # Errors
/// When the ledger cannot be read.
pub fn operations(connection: &Connection, session: &SessionId) -> Result<Vec<ActionRow>, LedgerError> {
    let which = "WHERE session_id = ?1 AND run_id IS NULL ORDER BY authorised_at, id";
    collect(connection, &select(which), [session.as_str()])
}

/// When an action was authorised and settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// When it was authorised.
    pub authorised_at: Timestamp,
    /// When it was settled.
    pub finished_at: Option<Timestamp>,
}

/// The times of an action; the rest of a row may be large.
///
/// # Errors
/// When there is no such action, or the ledger cannot be read.
pub fn times(connection: &Connection, id: &ToolCallId) -> Result<Times, LedgerError> {
    Ok(connection.prepare_cached("SELECT authorised_at, finished_at FROM action WHERE id = ?1")?.query_row(
        [id.as_str()],
        |row| {
            Ok(Times {
                authorised_at: Timestamp::from_millis(row.get(0)?),
                finished_at: row.get::<_, Option<u64>>(1)?.map(Timestamp::from_millis),
            })
        },
    )?)
}

/// The calls that a reply authorised, in its order.
///
/// # Errors
/// When the ledger cannot be read.
pub fn of_turn(connection: &Connection, turn: &TurnId) -> Result<Vec<ActionRow>, LedgerError> {
    static SQL: LazyLock<String> = LazyLock::new(|| select("WHERE turn_id = ?1 ORDER BY position"));
    let mut statement = connection.prepare_cached(&SQL)?;
    let rows = statement.query_map([turn.as_str()], row)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The actions that were prepared and have no receipt.
///
/// # Errors
/// When the ledger cannot be read.
pub fn prepared(connection: &Connection) -> Result<Vec<ActionRow>, LedgerError> {
    let mut statement =
        connection.prepare_cached(&select("WHERE state = 'prepared' ORDER BY authorised_at"))?;
    let rows = statement.query_map([], row)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Actions of a session, the latest before `before` or of all, `limit` at most; oldest first.
///
/// # Errors
/// When the ledger cannot be read.
pub fn of_session(
    connection: &Connection,
    session: &SessionId,
    before: Option<&ToolCallId>,
    limit: u32,
) -> Result<Vec<ActionRow>, LedgerError> {
    const ORDER: &str = "ORDER BY authorised_at DESC, coalesce(turn_id, '') DESC, coalesce(position, 0) DESC, id DESC LIMIT ?2";
    let before = before.map(|id| load(connection, id)).transpose()?.flatten();
    let mut rows = match before {
        None => collect(
            connection,
            &select(&format!("WHERE session_id = ?1 {ORDER}")),
            params![session.as_str(), limit],
        )?,
        Some(before) => collect(
            connection,
            &select(&format!(
                "WHERE session_id = ?1 AND authorised_at <= ?3 AND (authorised_at, coalesce(turn_id, ''), coalesce(position, 0), id)
                 < (SELECT authorised_at, coalesce(turn_id, ''), coalesce(position, 0), id FROM action WHERE id = ?4) {ORDER}"
            )),
            params![session.as_str(), limit, before.authorised_at.millis(), before.id],
        )?,
    };
    rows.reverse();
    Ok(rows)
}

fn collect(
    connection: &Connection,
    sql: &str,
    params: impl rusqlite::Params,
) -> Result<Vec<ActionRow>, LedgerError> {
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map(params, row)?;
    Ok(rows.collect::<Result<_, _>>()?)
}
