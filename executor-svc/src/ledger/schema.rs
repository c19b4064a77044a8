//! Whether the file's tables are those of its version.

use std::collections::BTreeMap;

use rusqlite::Connection;

use super::migrate::MIGRATIONS;
use super::seal;

/// Everything that a schema defines, by kind and name, with its text.
type Definitions = BTreeMap<(String, String), String>;

fn definitions(connection: &Connection) -> rusqlite::Result<Definitions> {
    let mut statement = connection.prepare(
        "SELECT type, name, coalesce(sql, '') FROM sqlite_schema WHERE name NOT LIKE 'sqlite_stat%'",
    )?;
    let rows = statement.query_map([], |row| {
        let text: String = row.get(2)?;
        // How a renamed table is quoted is SQLite's own affair.
        Ok(((row.get(0)?, row.get(1)?), text.replace('"', "")))
    })?;
    rows.collect()
}

/// The first difference to what the migrations up to `version` make, in words. What somebody added is none.
pub(super) fn difference(connection: &Connection, version: u32) -> rusqlite::Result<Option<String>> {
    let model = Connection::open_in_memory()?;
    seal::teach(&model)?;
    for migration in MIGRATIONS.iter().take(version as usize) {
        model.execute_batch(migration)?;
    }
    let found = definitions(connection)?;
    for ((kind, name), text) in definitions(&model)? {
        match found.get(&(kind.clone(), name.clone())) {
            None => return Ok(Some(format!("its {kind} `{name}` is missing"))),
            Some(other) if *other != text => {
                return Ok(Some(format!("its {kind} `{name}` is not the one of version {version}")));
            }
            Some(_) => {}
        }
    }
    Ok(None)
}
