//! Bringing a ledger of an older version up to date, with a copy of what it was.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rusqlite::{Connection, OpenFlags};

use super::journal::Hash;
use super::{LedgerError, header, journal, seal};

/// The numbered migrations; the schema version is how many have been applied.
pub const MIGRATIONS: &[&str] = &[
    include_str!("../../migrations/0001_walking_gateway.sql"),
    include_str!("../../migrations/0002_prepared_actions.sql"),
    include_str!("../../migrations/0003_writing.sql"),
    include_str!("../../migrations/0004_contents.sql"),
    include_str!("../../migrations/0005_skills.sql"),
    include_str!("../../migrations/0006_subagents.sql"),
    include_str!("../../migrations/0007_robustness.sql"),
    include_str!("../../migrations/0008_fewer_pages.sql"),
];

/// The newest schema version.
pub const SCHEMA_VERSION: u32 = 8;
const _: () = assert!(MIGRATIONS.len() == SCHEMA_VERSION as usize);

/// Where a migration may be interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MigrationStep {
    /// Before anything is written.
    Begin,
    /// The copy is written, under a name that does not pass for a backup.
    Copied,
    /// The copy is checked and has its name.
    BackedUp,
    /// The tables are new, and not committed.
    Changed,
    /// All is committed.
    Committed,
}

/// Told of each step; an error ends the migration there.
pub(super) type Watch<'a> = &'a mut dyn FnMut(MigrationStep) -> Result<(), LedgerError>;

pub(super) fn version(connection: &Connection) -> Result<u32, LedgerError> {
    Ok(connection.query_row("PRAGMA user_version", [], |row| row.get(0))?)
}

/// Brings the ledger to [`SCHEMA_VERSION`], in one transaction; what was there is copied first.
pub(super) fn migrate(connection: &mut Connection, path: &Path, watch: Watch<'_>) -> Result<(), LedgerError> {
    let found = version(connection)?;
    if found == SCHEMA_VERSION {
        return Ok(());
    }
    watch(MigrationStep::Begin)?;
    if found > 0 {
        let backup = back_up(connection, path, found, watch)?;
        tracing::info!(from = found, to = SCHEMA_VERSION, backup = %backup.display(), "the ledger is migrated");
    }
    // Tables that others refer to are made anew, with the same rows.
    connection.pragma_update(None, "foreign_keys", "off")?;
    let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    for migration in MIGRATIONS.iter().skip(found as usize) {
        transaction.execute_batch(migration)?;
    }
    seal::seal_all(&transaction)?;
    transaction.pragma_update(None, "application_id", header::APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", SCHEMA_VERSION)?;
    watch(MigrationStep::Changed)?;
    transaction.commit()?;
    connection.pragma_update(None, "foreign_keys", "on")?;
    watch(MigrationStep::Committed)
}

/// A whole copy of the ledger as it is, 0600, named by its version and the time. One that an interrupted migration left
/// is used again if it is the same.
fn back_up(
    connection: &Connection,
    path: &Path,
    version: u32,
    watch: Watch<'_>,
) -> Result<PathBuf, LedgerError> {
    let now = journal::head(connection)?;
    for earlier in backups(path, version)? {
        if check_copy(&earlier, version, now).is_ok() {
            return Ok(earlier);
        }
    }
    // Under another name until it is whole: a copy that a crash cut off must not pass for the backup.
    let unfinished = path.with_extension(format!("v{version}.unfinished"));
    let io = |source| LedgerError::Io { path: unfinished.clone(), source };
    match std::fs::remove_file(&unfinished) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(io(error)),
        _ => {}
    }
    let copied = connection.execute("VACUUM INTO ?1", [unfinished.to_string_lossy()]);
    if let Err(error) = copied {
        let _ = std::fs::remove_file(&unfinished);
        return Err(LedgerError::NoBackup { path: unfinished, source: error });
    }
    let copy = File::open(&unfinished).map_err(io)?;
    copy.set_permissions(std::fs::Permissions::from_mode(0o600)).map_err(io)?;
    copy.sync_all().map_err(io)?;
    watch(MigrationStep::Copied)?;
    check_copy(&unfinished, version, now)?;
    let time = humantime::format_rfc3339_seconds(SystemTime::now()).to_string().replace(['-', ':'], "");
    let backup = path.with_extension(format!("v{version}.{time}.backup"));
    std::fs::rename(&unfinished, &backup).map_err(io)?;
    if let Some(directory) = path.parent() {
        File::open(directory).and_then(|directory| directory.sync_all()).map_err(io)?;
    }
    watch(MigrationStep::BackedUp)?;
    Ok(backup)
}

/// Copies of that version that were made before.
fn backups(path: &Path, version: u32) -> Result<Vec<PathBuf>, LedgerError> {
    let (Some(directory), Some(stem)) = (path.parent(), path.file_stem()) else { return Ok(Vec::new()) };
    let start = format!("{}.v{version}.", stem.to_string_lossy());
    let entries = std::fs::read_dir(directory)
        .map_err(|source| LedgerError::Io { path: directory.to_owned(), source })?;
    let is_backup = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.starts_with(&start) && name.ends_with(".backup")
    };
    Ok(entries.flatten().map(|entry| entry.path()).filter(is_backup).collect())
}

/// Whether a copy is whole, of that version, and ends where the ledger does.
fn check_copy(copy: &Path, version: u32, head: (u64, Hash)) -> Result<(), LedgerError> {
    let corrupt = |why: String| LedgerError::Corrupt { path: copy.to_owned(), why };
    let connection = Connection::open_with_flags(copy, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let found: String = connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    if found != "ok" {
        return Err(corrupt(found));
    }
    if self::version(&connection)? != version || journal::head(&connection)? != head {
        return Err(corrupt("the copy is not what was copied".to_owned()));
    }
    Ok(())
}
