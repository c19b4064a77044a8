//! A seal on each row, so that a byte that changed on the disk is not told as if it had been written.
//!
//! SQLite finds damage in the structure of its pages, not in what stands in them. Each row of a sealed table therefore
//! carries the beginning of the SHA-256 over its columns. The statements that write rows are made here, with the seal in
//! them ([`Statement`]); a debug build refuses any other. Whoever reads a row for others has it
//! checked in the same statement ([`Table::whole`]). The journal needs none: its chain is one.

use std::sync::OnceLock;

use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Params, Row};
use sha2::{Digest, Sha256};

use super::LedgerError;

/// How much of the hash is kept, in bytes.
const LENGTH: usize = 16;

/// A table whose rows are sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Table {
    /// Its name.
    pub name: &'static str,
    /// The columns of its primary key.
    pub key: &'static [&'static str],
    /// All columns but the seal.
    pub columns: &'static [&'static str],
}

/// Sessions.
pub(super) const SESSION: Table = Table {
    name: "session",
    key: &["id"],
    columns: &["id", "status", "ended", "revision", "created_at", "state"],
};
/// Callers' keys.
pub(super) const ONCE: Table = Table {
    name: "once",
    key: &["scope", "key"],
    columns: &["scope", "key", "content_hash", "session_id", "lease_id"],
};
/// Runs.
pub(super) const RUN: Table = Table {
    name: "run",
    key: &["id"],
    columns: &[
        "id",
        "session_id",
        "ordinal",
        "epoch",
        "prompt",
        "started_at",
        "ended_at",
        "link_hash",
        "identity",
        "subagent_id",
    ],
};
/// Turns.
pub(super) const TURN: Table = Table {
    name: "turn",
    key: &["id"],
    columns: &[
        "id",
        "session_id",
        "run_id",
        "ordinal",
        "key",
        "kind",
        "request_hash",
        "opened_at",
        "state",
        "closed_why",
    ],
};
/// Replies.
pub(super) const REPLY: Table =
    Table { name: "reply", key: &["turn_id"], columns: &["turn_id", "reply_id", "text", "committed_at"] };
/// Actions.
pub(super) const ACTION: Table = Table {
    name: "action",
    key: &["id"],
    columns: &[
        "id",
        "session_id",
        "run_id",
        "turn_id",
        "position",
        "name",
        "client_id",
        "input",
        "input_sha256",
        "budget",
        "state",
        "authorised_at",
        "finished_at",
        "ok",
        "code",
        "receipt",
        "receipt_sha256",
        "intent",
        "reverts",
        "subagent_id",
    ],
};
/// Subagents.
pub(super) const SUBAGENT: Table = Table {
    name: "subagent",
    key: &["id"],
    columns: &[
        "id",
        "session_id",
        "started_by",
        "ordinal",
        "grade",
        "status",
        "started_at",
        "ended_at",
        "requests",
        "input_tokens",
        "output_tokens",
        "model",
        "model_verified",
        "result_turn",
        "failure",
    ],
};
/// What their models answered.
pub(super) const SUBAGENT_ANSWER: Table = Table {
    name: "subagent_answer",
    key: &["turn_id"],
    columns: &["turn_id", "subagent_id", "ordinal", "content"],
};

/// Skills.
pub(super) const SKILL: Table = Table {
    name: "skill",
    key: &["session_id", "position"],
    columns: &["session_id", "position", "skill_id", "content_sha256", "body"],
};

/// Every sealed table. A migration that changes the columns of one sets its seals to NULL, and they are made anew.
pub const SEALED: &[Table] = &[SESSION, ONCE, RUN, TURN, REPLY, ACTION, SKILL, SUBAGENT, SUBAGENT_ANSWER];

/// Tables without a seal, each for a reason.
pub const UNSEALED: &[(&str, &str)] = &[
    ("journal", "each entry carries the hash of the one before"),
    ("content", "each is held against the hash that names it"),
    ("tally", "it is held against the note beside the ledger"),
];

/// Columns, and what each gets: an expression.
type Values = &'static [(&'static str, &'static str)];

/// A statement that writes rows and their seals. Its text is made when it is first run.
#[derive(Debug)]
pub(super) struct Statement {
    table: Table,
    values: Values,
    /// Which rows are changed; a new one, if there is nothing here.
    rows: Option<&'static str>,
    text: OnceLock<String>,
}

impl Statement {
    /// Runs it; gives the number of rows that it has written.
    pub(super) fn run(&self, tx: &Connection, parameters: impl Params) -> rusqlite::Result<usize> {
        tx.prepare_cached(self.text.get_or_init(|| self.text()))?.execute(parameters)
    }

    fn text(&self) -> String {
        let name = self.table.name;
        // What a row has in a column afterwards, which is what its seal is made of.
        let after = |column: &&'static str| match self.values.iter().find(|(named, _)| named == column) {
            Some((_, value)) => *value,
            None if self.rows.is_some() => *column,
            None => "NULL",
        };
        let row = self.table.columns.iter().map(after).collect::<Vec<_>>().join(", ");
        let Some(rows) = self.rows else {
            let columns = self.table.columns.join(", ");
            return format!("INSERT INTO {name} ({columns}, seal) VALUES ({row}, row_seal('{name}', {row}))");
        };
        let set: Vec<_> = self.values.iter().map(|(column, value)| format!("{column} = {value}")).collect();
        let set = set.join(", ");
        format!("UPDATE {name} SET {set}, seal = row_seal('{name}', {row}) WHERE {rows}")
    }
}

impl Table {
    /// What adds a row. Columns that are not named get nothing.
    pub(super) const fn insert(self, values: Values) -> Statement {
        Statement { table: self, values, rows: None, text: OnceLock::new() }
    }

    /// What changes these rows.
    pub(super) const fn update(self, values: Values, rows: &'static str) -> Statement {
        Statement { table: self, values, rows: Some(rows), text: OnceLock::new() }
    }

    fn list(&self, prefix: &str) -> String {
        let columns: Vec<_> = self.columns.iter().map(|column| format!("{prefix}{column}")).collect();
        format!("'{}', {}", self.name, columns.join(", "))
    }

    /// An expression: whether the row is what was written. The table has to be in scope under its own name.
    #[must_use]
    pub fn whole(&self) -> String {
        format!("({}.seal IS row_seal({}))", self.name, self.list(&format!("{}.", self.name)))
    }

    /// The row's error, unless it is whole; `column` has [`Self::whole`].
    pub(super) fn check(&self, row: &Row<'_>, column: usize) -> rusqlite::Result<()> {
        if row.get(column)? { Ok(()) } else { Err(changed(self.name)) }
    }

    /// The keys of rows that are not what was written, `limit` at most.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    pub fn changed_rows(&self, connection: &Connection, limit: u32) -> Result<Vec<String>, LedgerError> {
        let mut statement = connection.prepare(&format!(
            "SELECT {} FROM {} WHERE NOT {} LIMIT {limit}",
            self.key.join(" || ' ' || "),
            self.name,
            self.whole()
        ))?;
        let rows = statement.query_map([], |row| row.get(0))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}

/// What a read comes to that met a changed row.
fn changed(table: &'static str) -> rusqlite::Error {
    let why = format!("a row of the table `{table}` is not what was written");
    rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Blob, why.into())
}

/// Gives the connection the function that the expressions use.
pub(super) fn teach(connection: &Connection) -> rusqlite::Result<()> {
    let flags =
        FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC | FunctionFlags::SQLITE_INNOCUOUS;
    connection.create_scalar_function("row_seal", -1, flags, |row| seal(row))
}

fn seal(row: &Context<'_>) -> rusqlite::Result<Vec<u8>> {
    let mut hasher = Sha256::new();
    for column in 0..row.len() {
        let (tag, bytes): (u8, &[u8]) = match row.get_raw(column) {
            ValueRef::Null => (0, &[]),
            ValueRef::Integer(number) => {
                hasher.update([1]);
                hasher.update(number.to_be_bytes());
                continue;
            }
            ValueRef::Real(number) => {
                hasher.update([2]);
                hasher.update(number.to_be_bytes());
                continue;
            }
            ValueRef::Text(bytes) => (3, bytes),
            ValueRef::Blob(bytes) => (4, bytes),
        };
        hasher.update([tag]);
        hasher.update((bytes.len() as u64).to_be_bytes());
        hasher.update(bytes);
    }
    Ok(hasher.finalize()[..LENGTH].to_vec())
}

/// Has a debug build's connection refuse a row without its seal. The triggers are its own: the file knows nothing of them.
pub(super) fn guard(connection: &Connection) -> rusqlite::Result<()> {
    if !cfg!(debug_assertions) {
        return Ok(());
    }
    for table in SEALED {
        let name = table.name;
        for (when, of) in [("new", "INSERT"), ("changed", "UPDATE")] {
            connection.execute_batch(&format!(
                "CREATE TEMP TRIGGER seal_{name}_{when} AFTER {of} ON main.{name}
                 WHEN NEW.seal IS NOT row_seal({})
                 BEGIN SELECT RAISE(ABORT, 'a row of `{name}` without its seal'); END;",
                table.list("NEW."),
            ))?;
        }
    }
    Ok(())
}

/// Seals the rows of earlier versions, which had no seals.
pub(super) fn seal_all(connection: &Connection) -> rusqlite::Result<()> {
    for table in SEALED {
        connection.execute(
            &format!("UPDATE {} SET seal = row_seal({}) WHERE seal IS NULL", table.name, table.list("")),
            [],
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger() -> (Connection, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        drop(super::super::open(dir.path()).unwrap());
        let connection = super::super::open::connect(&dir.path().join("ledger.db")).unwrap();
        (connection, dir)
    }

    #[test]
    fn every_table_is_sealed_with_all_its_columns_or_says_why_not() {
        let (connection, _dir) = ledger();
        let names = |sql: &str| -> Vec<String> {
            let mut statement = connection.prepare(sql).unwrap();
            statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
        };
        let columns =
            |table: &str| names(&format!("SELECT name FROM pragma_table_info('{table}') ORDER BY cid"));
        for table in names("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
        {
            let Some(sealed) = SEALED.iter().find(|sealed| sealed.name == table) else {
                assert!(
                    UNSEALED.iter().any(|(name, _)| *name == table),
                    "{table} has neither seal nor reason"
                );
                continue;
            };
            let mut sealed: Vec<_> = sealed.columns.iter().map(|&column| column.to_owned()).collect();
            sealed.push("seal".to_owned());
            let mut found = columns(&table);
            sealed.sort();
            found.sort();
            assert_eq!(found, sealed, "the columns of {table}");
        }
    }

    #[test]
    fn a_row_that_another_hand_changed_is_named_and_one_that_the_writer_changed_is_whole() {
        let (connection, _dir) = ledger();
        let new = SESSION.insert(&[
            ("id", "?1"),
            ("status", "'idle'"),
            ("ended", "0"),
            ("revision", "1"),
            ("created_at", "5"),
            ("state", "'{}'"),
        ]);
        for id in ["ns_1", "ns_2"] {
            new.run(&connection, [id]).unwrap();
        }
        let stop = SESSION.update(&[("status", "?2")], "id = ?1");
        assert_eq!(stop.run(&connection, ["ns_1", "stopped"]).unwrap(), 1);
        assert_eq!(SESSION.changed_rows(&connection, 9).unwrap(), Vec::<String>::new());
        connection.execute("UPDATE session SET revision = 2 WHERE id = 'ns_2'", []).unwrap();
        assert_eq!(SESSION.changed_rows(&connection, 9).unwrap(), ["ns_2"]);
        connection.execute("UPDATE session SET seal = NULL WHERE id = 'ns_1'", []).unwrap();
        assert_eq!(
            SESSION.changed_rows(&connection, 9).unwrap().len(),
            2,
            "a seal that is gone is a change too"
        );
    }

    #[test]
    fn a_statement_that_forgets_the_seal_is_refused_where_the_tests_run() {
        let (connection, _dir) = ledger();
        guard(&connection).unwrap();
        let insert = "INSERT INTO session VALUES ('ns_1', 'idle', 0, 1, 5, '{}', NULL)";
        let refused = connection.execute(insert, []).unwrap_err();
        assert!(refused.to_string().contains("a row of `session` without its seal"), "{refused}");
    }
}
