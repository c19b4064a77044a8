//! The one idempotency primitive: a key, once used, means the same thing for ever.

use std::sync::LazyLock;

use rusqlite::{Connection, OptionalExtension, params};

use gatehouse_proto::ids::{LeaseId, RequestKey, SessionId};

use super::LedgerError;
use super::seal::{ONCE, Statement};

/// What a key meant when it was first used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnceRow {
    /// The session it made or changed.
    pub session_id: SessionId,
    /// The lease that this very call minted.
    pub lease_id: Option<LeaseId>,
}

/// Whether a key is new.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// Never used in this scope.
    Fresh,
    /// Used with the same content.
    Replay(OnceRow),
    /// Used with other content. Says nothing about what that was.
    Conflict,
}

/// Looks a key up. [`record`] makes it used, in the same transaction as what it stands for.
///
/// # Errors
/// When the ledger cannot be read.
pub fn claim(
    tx: &Connection,
    scope: &str,
    key: &RequestKey,
    content_hash: &str,
) -> Result<Claim, LedgerError> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        let whole = ONCE.whole();
        format!("SELECT content_hash, session_id, lease_id, {whole} FROM once WHERE scope = ?1 AND key = ?2")
    });
    let found = tx
        .prepare_cached(&SQL)?
        .query_row(params![scope, key.as_str()], |row| {
            ONCE.check(row, 3)?;
            Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, Option<String>>(2)?))
        })
        .optional()?;
    match found {
        None => Ok(Claim::Fresh),
        Some((hash, ..)) if hash != content_hash => Ok(Claim::Conflict),
        Some((_, session, lease)) => Ok(Claim::Replay(OnceRow {
            session_id: SessionId::try_from(session)
                .map_err(|e| LedgerError::damaged("once.session_id", e))?,
            lease_id: lease
                .map(LeaseId::try_from)
                .transpose()
                .map_err(|e| LedgerError::damaged("once.lease_id", e))?,
        })),
    }
}

/// Uses the key up.
///
/// # Errors
/// When it is used already, or the ledger cannot be written.
pub fn record(
    tx: &Connection,
    scope: &str,
    key: &RequestKey,
    content_hash: &str,
    row: &OnceRow,
) -> Result<(), LedgerError> {
    static WRITE: Statement = ONCE.insert(&[
        ("scope", "?1"),
        ("key", "?2"),
        ("content_hash", "?3"),
        ("session_id", "?4"),
        ("lease_id", "?5"),
    ]);
    WRITE.run(
        tx,
        params![
            scope,
            key.as_str(),
            content_hash,
            row.session_id.as_str(),
            row.lease_id.as_ref().map(LeaseId::as_str)
        ],
    )?;
    Ok(())
}
