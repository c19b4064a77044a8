//! Opening the ledger file: permissions, durability settings, schema version, migration with a backup.

use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;

use super::{LedgerError, Readers, Writer};

/// The numbered migrations; the schema version is how many have been applied.
const MIGRATIONS: &[&str] = &[
    include_str!("../../migrations/0001_walking_gateway.sql"),
    include_str!("../../migrations/0002_prepared_actions.sql"),
    include_str!("../../migrations/0003_writing.sql"),
    include_str!("../../migrations/0004_contents.sql"),
    include_str!("../../migrations/0005_skills.sql"),
    include_str!("../../migrations/0006_subagents.sql"),
];

/// The newest schema version.
pub const SCHEMA_VERSION: u32 = 6;
const _: () = assert!(MIGRATIONS.len() == SCHEMA_VERSION as usize);

/// An opened ledger: the way in and the way out.
#[derive(Debug, Clone)]
pub struct Opened {
    /// Hands changes to the writer thread.
    pub writer: Writer,
    /// Reads committed state.
    pub readers: Readers,
}

/// Opens the ledger below `state_dir`, or makes it, and brings it to [`SCHEMA_VERSION`].
///
/// # Errors
/// When the file is damaged, newer than this executor, or cannot be written. The file is then left as it was.
pub fn open(state_dir: &Path) -> Result<Opened, LedgerError> {
    let path = state_dir.join("ledger.db");
    create_private(&path)?;
    let mut connection = connect(&path)?;
    check(&connection, &path)?;
    migrate(&mut connection, &path)?;
    Ok(Opened { writer: Writer::start(connection)?, readers: Readers::new(path) })
}

/// After how many pages of the log they are brought into the database: rarely enough that what changes with every commit
/// is brought there once for many, at most 16 MiB of log.
const CHECKPOINT_PAGES: u32 = 4096;
/// What a connection remembers of the database, in KiB. It is taken as it is needed.
const CACHE_KIB: i32 = 8 * 1024;

/// A connection with the settings that durability rests on.
pub(super) fn connect(path: &Path) -> Result<Connection, LedgerError> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(Duration::from_secs(5))?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "foreign_keys", "on")?;
    connection.pragma_update(None, "trusted_schema", "off")?;
    connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}

fn create_private(path: &Path) -> Result<(), LedgerError> {
    let io = |source| LedgerError::Io { path: path.to_owned(), source };
    // SQLite gives its -wal and -shm files the mode of the database.
    let file = std::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(path).map_err(io)?;
    file.set_permissions(std::fs::Permissions::from_mode(0o600)).map_err(io)
}

/// A cheap look at the file's structure. The whole chain is verified on demand, not at every start.
fn check(connection: &Connection, path: &Path) -> Result<(), LedgerError> {
    let corrupt = |why: String| LedgerError::Corrupt { path: path.to_owned(), why };
    connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0))
        .map(drop)
        .map_err(|error| corrupt(error.to_string()))
}

fn version(connection: &Connection) -> Result<u32, LedgerError> {
    Ok(connection.query_row("PRAGMA user_version", [], |row| row.get(0))?)
}

fn migrate(connection: &mut Connection, path: &Path) -> Result<(), LedgerError> {
    let found = version(connection)?;
    if found > SCHEMA_VERSION {
        return Err(LedgerError::Newer { path: path.to_owned(), found, known: SCHEMA_VERSION });
    }
    if found > 0 && found < SCHEMA_VERSION {
        back_up(connection, path, found)?;
    }
    for (index, migration) in (1..).zip(MIGRATIONS).filter(|(index, _)| *index > found) {
        let transaction = connection.transaction()?;
        transaction.execute_batch(migration)?;
        transaction.pragma_update(None, "user_version", index)?;
        transaction.commit()?;
    }
    Ok(())
}

fn back_up(connection: &Connection, path: &Path, version: u32) -> Result<(), LedgerError> {
    let backup: PathBuf = path.with_extension(format!("v{version}.backup"));
    if backup.exists() {
        // A migration was tried before and did not finish: the first copy is the one to keep.
        return Ok(());
    }
    // Under another name until it is whole: a copy that a crash cut off must not pass for the backup.
    let unfinished = path.with_extension(format!("v{version}.unfinished"));
    let io = |source| LedgerError::Io { path: unfinished.clone(), source };
    match std::fs::remove_file(&unfinished) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(io(error)),
        _ => {}
    }
    connection.execute("VACUUM INTO ?1", [unfinished.to_string_lossy()])?;
    let whole = std::fs::File::open(&unfinished).map_err(io)?;
    whole.set_permissions(std::fs::Permissions::from_mode(0o600)).map_err(io)?;
    whole.sync_all().map_err(io)?;
    std::fs::rename(&unfinished, &backup).map_err(io)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fresh_ledger_is_private_durable_and_at_the_newest_version() {
        let dir = tempfile::tempdir().unwrap();
        drop(open(dir.path()).unwrap());
        let path = dir.path().join("ledger.db");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let connection = connect(&path).unwrap();
        assert_eq!(version(&connection).unwrap(), SCHEMA_VERSION);
        let synchronous: u32 = connection.query_row("PRAGMA synchronous", [], |row| row.get(0)).unwrap();
        let mode: String = connection.query_row("PRAGMA journal_mode", [], |row| row.get(0)).unwrap();
        assert_eq!((synchronous, mode.as_str()), (2, "wal"));
    }

    #[test]
    fn a_ledger_of_a_newer_version_is_refused_and_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        drop(open(dir.path()).unwrap());
        let path = dir.path().join("ledger.db");
        connect(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
        assert!(matches!(open(dir.path()), Err(LedgerError::Newer { found: 99, .. })));
        assert_eq!(version(&connect(&path).unwrap()).unwrap(), 99);
    }

    #[test]
    fn a_ledger_of_an_older_version_is_brought_up_to_date_and_kept_as_it_was_too() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ledger.db");
        let old = connect(&path).unwrap();
        old.execute_batch(MIGRATIONS[0]).unwrap();
        old.pragma_update(None, "user_version", 1).unwrap();
        drop(old);
        drop(open(dir.path()).unwrap());
        assert_eq!(version(&connect(&path).unwrap()).unwrap(), SCHEMA_VERSION);
        let backup = Connection::open(dir.path().join("ledger.v1.backup")).unwrap();
        assert_eq!(version(&backup).unwrap(), 1);
    }

    #[test]
    fn a_backup_that_a_crash_cut_off_does_not_pass_for_one() {
        let dir = tempfile::tempdir().unwrap();
        drop(open(dir.path()).unwrap());
        let path = dir.path().join("ledger.db");
        std::fs::write(dir.path().join("ledger.v1.unfinished"), b"half").unwrap();
        back_up(&connect(&path).unwrap(), &path, 1).unwrap();
        let copy = Connection::open(dir.path().join("ledger.v1.backup")).unwrap();
        assert_eq!(version(&copy).unwrap(), SCHEMA_VERSION);
        assert!(!dir.path().join("ledger.v1.unfinished").exists());
    }

    #[test]
    fn a_file_that_is_no_database_is_named_and_never_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ledger.db");
        std::fs::write(&path, b"not a database at all, but long enough to have a header of one hundred bytes, which SQLite reads first").unwrap();
        assert!(open(dir.path()).is_err());
        assert!(std::fs::read(&path).unwrap().starts_with(b"not a database"));
    }
}
