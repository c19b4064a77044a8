//! Opening the ledger file: what it is, permissions, durability settings, migration.
//!
//! First the file is looked at without a change: the header, then the database through a connection that can only read.
//! Whatever is refused is refused here, so it stays as it was.

use std::fs::OpenOptions;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::head::{self, Head, HeadFile, Noted};
use super::header::{self, APPLICATION_ID, FIRST_MARKED, Found, Header};
use super::migrate::{self, SCHEMA_VERSION, Watch};
use super::{LedgerError, Readers, Writer, journal, schema, seal};

/// How long a lock of another process is waited for.
const PATIENCE: Duration = Duration::from_secs(5);
/// What SQLite's log is cut back to when it has been copied into the database, in bytes.
pub const LOG_BYTES: u64 = 32 * 1024 * 1024;

/// An opened ledger: the way in and the way out.
#[derive(Debug, Clone)]
pub struct Opened {
    /// Hands changes to the writer thread.
    pub writer: Writer,
    /// Reads committed state.
    pub readers: Readers,
}

/// The ledger's file below the state directory.
#[must_use]
pub fn path(state_dir: &Path) -> PathBuf {
    state_dir.join("ledger.db")
}

/// Opens the ledger below `state_dir`, or makes it, and brings it to [`SCHEMA_VERSION`].
///
/// # Errors
/// When the file is damaged, another program's, newer than this executor, has lost what was acknowledged, or cannot be
/// written. The file is then left as it was.
pub fn open(state_dir: &Path) -> Result<Opened, LedgerError> {
    open_watched(state_dir, &mut |_| Ok(()))
}

/// The same, and tells `watch` of each step of a migration.
///
/// # Errors
/// As [`open`]; or what `watch` answers.
pub fn open_watched(state_dir: &Path, watch: Watch<'_>) -> Result<Opened, LedgerError> {
    let path = path(state_dir);
    look(state_dir)?;
    create_private(&path)?;
    let mut connection = connect(&path)?;
    migrate::migrate(&mut connection, &path, watch)?;
    seal::guard(&connection)?;
    let head = HeadFile::open(state_dir, head::of(&connection)?)?;
    Ok(Opened { writer: Writer::start(connection, Some(head))?, readers: Readers::start(path)? })
}

/// After how many pages of the log they are brought into the database: rarely enough that what changes with every commit
/// is brought there once for many, at most 16 MiB of log.
const CHECKPOINT_PAGES: u32 = 4096;
/// What a connection remembers of the database, in KiB. It is taken as it is needed.
const CACHE_KIB: i32 = 8 * 1024;

/// A connection with the settings that durability rests on.
pub(super) fn connect(path: &Path) -> Result<Connection, LedgerError> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(PATIENCE)?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", "full")?;
    // macOS's fsync does not reach the disk's platters otherwise; elsewhere this means nothing.
    connection.pragma_update(None, "fullfsync", "on")?;
    connection.pragma_update(None, "checkpoint_fullfsync", "on")?;
    connection.pragma_update(None, "foreign_keys", "on")?;
    connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    connection.pragma_update(None, "journal_size_limit", LOG_BYTES)?;
    connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
    // What a refused change undoes is remembered in memory, not in a file.
    connection.pragma_update(None, "temp_store", "memory")?;
    connection.set_prepared_statement_cache_capacity(64);
    equip(&connection)?;
    Ok(connection)
}

/// What every connection has, whether it writes or not.
fn equip(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "trusted_schema", "off")?;
    connection.pragma_update(None, "cell_size_check", "on")?;
    // Statements are planned by what they say alone. Where a plan takes a value into account, SQLite makes it anew whenever
    // the statement gets another, which for a few rows by their keys takes longer than finding them.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    seal::teach(connection)
}

/// A connection that changes nothing, for looking at a ledger that nobody serves.
///
/// # Errors
/// When there is none, or it cannot be opened.
pub fn look_at(state_dir: &Path) -> Result<Connection, LedgerError> {
    connect_to_look(&path(state_dir))
}

/// A connection that changes nothing, not even when it is closed.
pub(super) fn connect_to_look(path: &Path) -> Result<Connection, LedgerError> {
    let connection = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    connection.busy_timeout(PATIENCE)?;
    let seen = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, u64>(0));
    let log = format!("{}-wal", path.display());
    let unlogged = !Path::new(&log).metadata().is_ok_and(|log| log.len() > 0);
    let connection = match seen {
        // In a directory that cannot be written SQLite has no place for its index of the log; without a log it needs none.
        Err(error) if unlogged && super::Trouble::of(&error) == super::Trouble::ReadOnly => {
            let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
            Connection::open_with_flags(immutable(path), flags)?
        }
        _ => connection,
    };
    equip(&connection)?;
    Ok(connection)
}

/// The file as an address that says that nobody changes it.
fn immutable(path: &Path) -> String {
    let path = path.to_string_lossy().replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    format!("file:{path}?immutable=1")
}

fn create_private(path: &Path) -> Result<(), LedgerError> {
    let io = |source| LedgerError::Io { path: path.to_owned(), source };
    // SQLite gives its -wal and -shm files the mode of the database.
    let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path).map_err(io)?;
    if file.metadata().map_err(io)?.permissions().mode() & 0o777 != 0o600 {
        file.set_permissions(std::fs::Permissions::from_mode(0o600)).map_err(io)?;
    }
    Ok(())
}

/// Whether no ledger has ever been below `state_dir`.
///
/// # Errors
/// When the directory cannot be read.
pub fn is_absent(state_dir: &Path) -> Result<bool, LedgerError> {
    let found = header::read(&path(state_dir));
    Ok(matches!(found, Ok(Found::Nothing)) && head::read(state_dir)? == Noted::Nothing)
}

/// Looks at what lies there, and changes nothing. The whole chain is verified on demand, not at every start.
///
/// # Errors
/// When it is no ledger, damaged, newer than this executor, or has lost what was acknowledged.
pub fn look(state_dir: &Path) -> Result<(), LedgerError> {
    let path = path(state_dir);
    let noted = head::read(state_dir)?;
    let header = match (header::read(&path)?, &noted) {
        (Found::Nothing, Noted::Nothing) => return Ok(()),
        (Found::Nothing, _) => return Err(LedgerError::Missing { path }),
        (Found::Database(header), _) => header,
    };
    look_at_header(&path, &header)?;
    let log = |ending: &str| Path::new(&format!("{}-{ending}", path.display())).to_owned();
    // A first start that was cut off before the file was a ledger: SQLite takes that back when it opens it to write.
    if noted == Noted::Nothing && log("journal").exists() {
        return Ok(());
    }
    look_at_length(&path, &header, &log("wal"))?;
    let connection = connect_to_look(&path)?;
    let found = look_at_tables(&connection, &path)?;
    match noted {
        Noted::Head(head) if found < FIRST_MARKED => Err(lost(&path, head, Head::default())),
        Noted::Head(head) => look_at_head(&connection, &path, head),
        Noted::Unclear => {
            tracing::warn!(
                "what the ledger had last was noted beside it and cannot be read; it is noted anew"
            );
            Ok(())
        }
        Noted::Nothing => Ok(()),
    }
}

fn look_at_header(path: &Path, header: &Header) -> Result<(), LedgerError> {
    if header.application != 0 && header.application != APPLICATION_ID {
        return Err(LedgerError::Foreign { path: path.to_owned(), found: header.application });
    }
    newer(path, header.version)
}

fn newer(path: &Path, found: u32) -> Result<(), LedgerError> {
    if found > SCHEMA_VERSION {
        return Err(LedgerError::Newer { path: path.to_owned(), found, known: SCHEMA_VERSION });
    }
    Ok(())
}

/// A file that was cut short, or whose header says so: only where no log could hold the rest.
fn look_at_length(path: &Path, header: &Header, log: &Path) -> Result<(), LedgerError> {
    let length = path.metadata().map_err(|source| LedgerError::Io { path: path.to_owned(), source })?.len();
    let pending = log.metadata().is_ok_and(|log| log.len() > 0);
    let wanted = header.pages.map(|pages| pages * header.page_size);
    match wanted {
        Some(wanted) if !pending && wanted != length => Err(LedgerError::Corrupt {
            path: path.to_owned(),
            why: format!("the file has {length} bytes, and its header says {wanted}"),
        }),
        _ => Ok(()),
    }
}

/// Whether the tables are those of the version; gives the version.
fn look_at_tables(connection: &Connection, path: &Path) -> Result<u32, LedgerError> {
    let corrupt = |why: String| LedgerError::Corrupt { path: path.to_owned(), why };
    let damaged = |error: rusqlite::Error| match super::Trouble::of(&error) {
        super::Trouble::Damaged | super::Trouble::Other => corrupt(error.to_string()),
        _ => LedgerError::Sqlite(error),
    };
    let number = |name: &str| -> Result<u32, LedgerError> {
        connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get(0)).map_err(damaged)
    };
    let (found, application) = (number("user_version")?, number("application_id")?);
    newer(path, found)?;
    let wanted = if found < FIRST_MARKED { 0 } else { APPLICATION_ID };
    if application != wanted {
        return Err(LedgerError::Foreign { path: path.to_owned(), found: application });
    }
    if let Some(why) = schema::difference(connection, found).map_err(damaged)? {
        return Err(corrupt(why));
    }
    if found == 0 {
        let tables = "SELECT count(*) FROM sqlite_schema";
        let tables: u32 = connection.query_row(tables, [], |row| row.get(0)).map_err(damaged)?;
        if tables > 0 {
            return Err(LedgerError::Foreign { path: path.to_owned(), found: 0 });
        }
    }
    Ok(found)
}

/// Whether what was acknowledged last is there.
fn look_at_head(connection: &Connection, path: &Path, noted: Head) -> Result<(), LedgerError> {
    let found = head::of(connection)?;
    if found.seq < noted.seq || found.commits < noted.commits {
        return Err(lost(path, noted, found));
    }
    match journal::hash_at(connection, noted.seq)? {
        Some(hash) if hash == noted.hash => Ok(()),
        None if noted.seq == 0 => Ok(()),
        _ => Err(LedgerError::Corrupt {
            path: path.to_owned(),
            why: format!("entry {} of the journal is not the one that was written", noted.seq),
        }),
    }
}

fn lost(path: &Path, noted: Head, found: Head) -> LedgerError {
    LedgerError::Lost { path: path.to_owned(), acknowledged: noted, found }
}
