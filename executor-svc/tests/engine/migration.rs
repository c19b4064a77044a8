//! Ledgers of every older version, with rows in them, are brought up to date; a copy of each is kept.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use executor_svc::ledger::{self, LedgerError, MIGRATIONS, MigrationStep, SCHEMA_VERSION, sessions, verify};
use rusqlite::{Connection, params};
use sha2::{Digest, Sha256};

use super::lived::Lived;

/// A ledger of an older version that holds what this one does.
fn older(lived: &Lived, version: u32) -> tempfile::TempDir {
    let (from, to) = (lived.place(), tempfile::tempdir().unwrap());
    let connection = Connection::open(to.path().join("ledger.db")).unwrap();
    connection.pragma_update(None, "journal_mode", "wal").unwrap();
    for migration in &MIGRATIONS[..version as usize] {
        connection.execute_batch(migration).unwrap();
    }
    connection.pragma_update(None, "user_version", version).unwrap();
    connection.execute("ATTACH ?1 AS lived", [from.path().join("ledger.db").to_str().unwrap()]).unwrap();
    // Files are marked as ours from version 7 on.
    let mark: i32 = connection.query_row("PRAGMA lived.application_id", [], |row| row.get(0)).unwrap();
    connection.pragma_update(None, "application_id", if version < 7 { 0 } else { mark }).unwrap();
    for table in ["session", "once", "run", "turn", "reply", "action", "journal"] {
        let columns: String = connection
            .query_row(
                "SELECT group_concat(name) FROM pragma_table_info(?1) WHERE name <> 'seal'",
                [table],
                |row| row.get(0),
            )
            .unwrap();
        connection
            .execute(&format!("INSERT INTO main.{table} ({columns}) SELECT {columns} FROM lived.{table}"), [])
            .unwrap();
    }
    let rows: u32 = connection.query_row("SELECT count(*) FROM action", [], |row| row.get(0)).unwrap();
    assert!(rows >= 3, "there is something in it");
    to
}

fn backups(state: &Path, version: u32) -> Vec<PathBuf> {
    let start = format!("ledger.v{version}.");
    let entries = std::fs::read_dir(state).unwrap().flatten().map(|entry| entry.path());
    entries.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with(&start)).collect()
}

/// The one copy that there is, which is whole.
fn backup(state: &Path, version: u32) -> PathBuf {
    let found = backups(state, version);
    let [copy] = found.as_slice() else { panic!("{found:?}") };
    assert!(copy.extension().unwrap() == "backup", "{copy:?}");
    assert_eq!(copy.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let connection = Connection::open(copy).unwrap();
    let found: (u32, u32) = connection
        .query_row("SELECT (SELECT user_version FROM pragma_user_version), count(*) FROM action", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .unwrap();
    assert!(found.0 == version && found.1 >= 3, "{found:?}");
    copy.clone()
}

#[tokio::test]
async fn every_older_version_tells_the_same_after_its_migration_and_is_kept_as_it_was_too() {
    let lived = Lived::closed().await;
    let whole = lived.told(lived.place().path()).await.unwrap();
    for version in 1..SCHEMA_VERSION {
        let place = older(&lived, version);
        assert_eq!(lived.told(place.path()).await.unwrap(), whole, "version {version}");
        backup(place.path(), version);
        let report = verify::offline(place.path(), |_, _| {}).unwrap();
        assert!(report.is_whole(), "{report:?}");
        // The second start has nothing to do.
        assert_eq!(lived.told(place.path()).await.unwrap(), whole);
        backup(place.path(), version);
    }
}

#[tokio::test]
async fn a_migration_that_is_interrupted_at_any_step_begins_anew() {
    let lived = Lived::closed().await;
    let whole = lived.told(lived.place().path()).await.unwrap();
    for version in 1..SCHEMA_VERSION {
        for step in [
            MigrationStep::Begin,
            MigrationStep::Copied,
            MigrationStep::BackedUp,
            MigrationStep::Changed,
            MigrationStep::Committed,
        ] {
            let place = older(&lived, version);
            let mut seen = Vec::new();
            let cut = ledger::open_watched(place.path(), &mut |at| {
                seen.push(at);
                if at == step { Err(LedgerError::WriterStopped) } else { Ok(()) }
            });
            assert!(matches!(cut, Err(LedgerError::WriterStopped)), "{step:?}: {seen:?}");
            let committed = step == MigrationStep::Committed;
            let found: u32 = Connection::open(place.path().join("ledger.db"))
                .unwrap()
                .query_row("SELECT user_version FROM pragma_user_version", [], |row| row.get(0))
                .unwrap();
            assert_eq!(found, if committed { SCHEMA_VERSION } else { version }, "all or nothing: {step:?}");
            assert_eq!(lived.told(place.path()).await.unwrap(), whole, "{step:?}");
            backup(place.path(), version);
        }
    }
}

/// The seal that version 7 gave a session.
fn seal_of_version_7(connection: &Connection, id: &str) -> Vec<u8> {
    let columns = "SELECT status, state, revision, created_at FROM session WHERE id = ?1";
    let (status, state, revision, created_at): (String, String, i64, i64) = connection
        .query_row(columns, [id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))
        .unwrap();
    let text = |text: &str| [&[3], &(text.len() as u64).to_be_bytes()[..], text.as_bytes()].concat();
    let number = |number: i64| [&[1], &number.to_be_bytes()[..]].concat();
    let row = [text("session"), text(id), text(&status), number(revision), number(created_at), text(&state)];
    Sha256::digest(row.concat())[..16].to_vec()
}

#[tokio::test]
async fn a_row_that_another_hand_changed_is_told_after_the_migration_too() {
    let lived = Lived::closed().await;
    let place = older(&lived, 7);
    let connection = Connection::open(place.path().join("ledger.db")).unwrap();
    let ids: Vec<String> = {
        let mut statement = connection.prepare("SELECT id FROM session ORDER BY id").unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    for id in &ids {
        let seal = seal_of_version_7(&connection, id);
        connection.execute("UPDATE session SET seal = ?2 WHERE id = ?1", params![id, seal]).unwrap();
    }
    connection.execute("UPDATE session SET revision = revision + 1 WHERE id = ?1", [&ids[1]]).unwrap();
    connection.close().unwrap();
    drop(ledger::open(place.path()).unwrap());
    let found = sessions::list_readable(&ledger::look_at(place.path()).unwrap(), false, None, 100).unwrap();
    assert_eq!((found.damaged.as_slice(), found.texts.len()), (&ids[1..2], ids.len() - 1));
    let report = verify::offline(place.path(), |_, _| {}).unwrap();
    assert!(!report.is_whole(), "{report:?}");
}

#[tokio::test]
async fn a_copy_that_a_crash_cut_off_does_not_pass_for_one() {
    let lived = Lived::closed().await;
    let place = older(&lived, 1);
    std::fs::write(place.path().join("ledger.v1.unfinished"), b"half").unwrap();
    std::fs::write(place.path().join("ledger.v1.20200101T000000Z.backup"), b"half").unwrap();
    lived.told(place.path()).await.unwrap();
    let copies = backups(place.path(), 1);
    assert_eq!(copies.len(), 2, "the one that is no copy stays, and another is made: {copies:?}");
}

#[tokio::test]
async fn a_newer_version_is_refused_and_nothing_is_touched() {
    let lived = Lived::closed().await;
    let place = lived.place();
    let path = place.path().join("ledger.db");
    let connection = Connection::open(&path).unwrap();
    connection.pragma_update(None, "user_version", SCHEMA_VERSION + 5).unwrap();
    drop(connection);
    let names = || {
        let mut found: Vec<_> =
            std::fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        found.sort();
        found
    };
    let (before, listed) = (std::fs::read(&path).unwrap(), names());
    let error = ledger::open(place.path()).unwrap_err();
    assert!(matches!(error, LedgerError::Newer { found, .. } if found == SCHEMA_VERSION + 5));
    let text = error.to_string();
    assert!(
        text.contains(&format!("version {}", SCHEMA_VERSION + 5)) && text.contains("newer Gatehouse"),
        "{text}"
    );
    assert_eq!((std::fs::read(&path).unwrap(), names()), (before, listed));
}
