//! Whether other live sessions leave room for one more, and none stands in the way of one that writes. Asked inside the
//! transaction that lets it live.

use std::path::PathBuf;

use gatehouse_proto::ids::SessionId;
use rusqlite::Connection;

use super::{Fault, parse};
use crate::ledger::{LedgerError, WriteError, sessions};
use crate::session::{NewSession, Profile, Session, Territory};

/// Where another live session stands in the way of this new one.
pub(super) fn taken(tx: &Connection, new: &NewSession) -> Result<Option<PathBuf>, LedgerError> {
    let own = Territory { profile: new.profile, root: &new.root.path, source: &new.source_directory };
    clash(tx, &new.id, own)
}

/// The same for a session that comes back to life after its lease ran out.
///
/// # Errors
/// When the ledger cannot be read.
pub fn taken_meanwhile(tx: &Connection, session: &Session) -> Result<Option<PathBuf>, LedgerError> {
    clash(tx, &session.id, Territory::of(session))
}

/// A session that comes back to life is one more that lives.
pub(super) fn expect_room(
    tx: &Connection,
    capacity: u32,
    before: &Session,
    next: &Session,
) -> Result<(), WriteError<Fault>> {
    if before.state.status().is_live() || !next.state.status().is_live() {
        return Ok(());
    }
    match sessions::count_live(tx)? {
        live if live >= capacity => Err(WriteError::Refused(Fault::Capacity { live, limit: capacity })),
        _ => Ok(()),
    }
}

fn clash(tx: &Connection, id: &SessionId, own: Territory<'_>) -> Result<Option<PathBuf>, LedgerError> {
    if own.profile == Profile::ReadOnly {
        return Ok(None);
    }
    for text in sessions::live(tx)? {
        let other = parse(&text)?;
        if let Some(path) = own.clash(&Territory::of(&other)).filter(|_| other.id != *id) {
            return Ok(Some(path));
        }
    }
    Ok(None)
}
