//! The append-only, hash-chained journal.
//!
//! `hash = SHA-256(previous hash ‖ seq ‖ at ‖ len(session) ‖ session ‖ len(kind) ‖ kind ‖ body)`, integers as 8 bytes
//! big-endian; the first entry follows 32 zero bytes. Whoever changes, drops or inserts an entry has to recompute every
//! later one, and a copy of any later hash gives that away.

use rusqlite::{Connection, OptionalExtension, Row, params};
use sha2::{Digest, Sha256};

use gatehouse_proto::ids::SessionId;

use super::LedgerError;
use crate::clock::Timestamp;

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its place, from 1, without gaps.
    pub seq: u64,
    /// When it was written.
    pub at: Timestamp,
    /// The session it is about; empty if it is about no single one.
    pub session_id: String,
    /// What happened, as `noun.verb`.
    pub kind: String,
    /// Further facts: one JSON object.
    pub body: String,
}

pub(super) type Hash = [u8; 32];

/// Appends an entry and returns its place.
///
/// # Errors
/// When the ledger cannot be written.
pub fn append(
    tx: &Connection,
    at: Timestamp,
    session: &SessionId,
    kind: &str,
    body: &serde_json::Value,
) -> Result<u64, LedgerError> {
    append_text(tx, at, session.as_str(), kind, body)
}

/// The same for what is about no single session; its `session_id` is empty.
///
/// # Errors
/// As [`append`].
pub fn append_for_all(
    tx: &Connection,
    at: Timestamp,
    kind: &str,
    body: &serde_json::Value,
) -> Result<u64, LedgerError> {
    append_text(tx, at, "", kind, body)
}

fn append_text(
    tx: &Connection,
    at: Timestamp,
    session: &str,
    kind: &str,
    body: &serde_json::Value,
) -> Result<u64, LedgerError> {
    let (last, previous) = head(tx)?;
    let entry = Entry {
        seq: last + 1,
        at,
        session_id: session.to_owned(),
        kind: kind.to_owned(),
        body: body.to_string(),
    };
    tx.prepare_cached(
        "INSERT INTO journal (seq, at, session_id, kind, body, hash) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?
    .execute(params![
        entry.seq,
        at.millis(),
        entry.session_id,
        kind,
        entry.body,
        chain(&previous, &entry)
    ])?;
    Ok(entry.seq)
}

/// The last entry's place and hash; 0 and zeros for an empty journal.
pub(super) fn head(connection: &Connection) -> Result<(u64, Hash), LedgerError> {
    let found = connection
        .prepare_cached("SELECT seq, hash FROM journal ORDER BY seq DESC LIMIT 1")?
        .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    Ok(found.unwrap_or_default())
}

/// The hash of the entry at this place, if there is one.
pub(super) fn hash_at(connection: &Connection, seq: u64) -> Result<Option<Hash>, LedgerError> {
    Ok(connection
        .prepare_cached("SELECT hash FROM journal WHERE seq = ?1")?
        .query_row([seq], |row| row.get(0))
        .optional()?)
}

/// Whether anything is told of this session.
pub(super) fn knows(connection: &Connection, session: &SessionId) -> Result<bool, LedgerError> {
    Ok(connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM journal WHERE session_id = ?1)")?
        .query_row([session.as_str()], |row| row.get(0))?)
}

/// The place of the last entry; 0 if there is none.
///
/// # Errors
/// When the ledger cannot be read.
pub fn last_seq(connection: &Connection) -> Result<u64, LedgerError> {
    Ok(head(connection)?.0)
}

/// The hash of the last entry, which vouches for all before it, in lower-case hexadecimal.
///
/// # Errors
/// When the ledger cannot be read.
pub fn last_hash(connection: &Connection) -> Result<String, LedgerError> {
    Ok(hex::encode(head(connection)?.1))
}

pub(super) fn chain(previous: &Hash, entry: &Entry) -> Hash {
    let mut hasher = Sha256::new();
    hasher.update(previous);
    hasher.update(entry.seq.to_be_bytes());
    hasher.update(entry.at.millis().to_be_bytes());
    for text in [&entry.session_id, &entry.kind] {
        hasher.update((text.len() as u64).to_be_bytes());
        hasher.update(text.as_bytes());
    }
    hasher.update(entry.body.as_bytes());
    hasher.finalize().into()
}

/// An entry from its columns: place, time, session, kind, body.
pub(super) fn entry(row: &Row<'_>) -> rusqlite::Result<Entry> {
    Ok(Entry {
        seq: row.get(0)?,
        at: Timestamp::from_millis(row.get(1)?),
        session_id: row.get(2)?,
        kind: row.get(3)?,
        body: row.get(4)?,
    })
}

/// Entries from `from` on, at most `limit`, of one session or of all, each held against the hash of the one before.
///
/// # Errors
/// When the ledger cannot be read, or an entry is not what was written.
pub fn entries(
    connection: &Connection,
    from: u64,
    session: Option<&str>,
    limit: u32,
) -> Result<Vec<Entry>, LedgerError> {
    let of = match session {
        Some(_) => "entry.session_id = ?3",
        None => "?3 IS NULL",
    };
    let mut statement = connection.prepare_cached(&format!(
        "SELECT entry.seq, entry.at, entry.session_id, entry.kind, entry.body, entry.hash, previous.hash
         FROM journal AS entry LEFT JOIN journal AS previous ON previous.seq = entry.seq - 1
         WHERE entry.seq >= ?1 AND {of} ORDER BY entry.seq LIMIT ?2"
    ))?;
    let mut rows = statement.query(params![from, limit, session])?;
    let mut entries = Vec::new();
    while let Some(row) = rows.next()? {
        let entry = entry(row)?;
        let (hash, before): (Hash, Option<Hash>) = (row.get(5)?, row.get(6)?);
        let before = before.or_else(|| (entry.seq == 1).then_some([0; 32]));
        if before.is_none_or(|before| chain(&before, &entry) != hash) {
            return Err(LedgerError::damaged(
                "journal",
                format!("entry {} is not what was written", entry.seq),
            ));
        }
        entries.push(entry);
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::verify::{Verdict, walk, walk_from};
    use super::*;

    fn filled(n: u64) -> (Connection, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        drop(super::super::open(dir.path()).unwrap());
        let connection = super::super::open::connect(&dir.path().join("ledger.db")).unwrap();
        let session = SessionId::mint();
        for i in 0..n {
            append(&connection, Timestamp::from_millis(i), &session, "test.entry", &json!({ "i": i }))
                .unwrap();
        }
        (connection, dir)
    }

    #[test]
    fn an_untouched_chain_is_whole_and_pages_without_gaps() {
        let (connection, _dir) = filled(5);
        assert_eq!(walk(&connection).unwrap(), Verdict::Whole(5));
        let seqs: Vec<_> = entries(&connection, 3, None, 2).unwrap().iter().map(|e| e.seq).collect();
        assert_eq!(seqs, [3, 4]);
        assert_eq!(walk_from(&connection, 4).unwrap(), Verdict::Whole(5));
    }

    #[test]
    fn a_changed_or_missing_entry_is_found_at_its_place() {
        for (sabotage, place) in [
            ("UPDATE journal SET body = '{}' WHERE seq = 3", 3),
            ("DELETE FROM journal WHERE seq = 2", 2),
            ("UPDATE journal SET hash = zeroblob(32) WHERE seq = 5", 5),
        ] {
            let (connection, _dir) = filled(5);
            assert!(connection.execute(sabotage, []).is_err(), "the triggers refuse it");
            connection
                .execute_batch(
                    "DROP TRIGGER journal_is_append_only_update; DROP TRIGGER journal_is_append_only_delete",
                )
                .unwrap();
            connection.execute(sabotage, []).unwrap();
            assert_eq!(walk(&connection).unwrap(), Verdict::Broken(place), "{sabotage}");
            assert_eq!(walk_from(&connection, 2).unwrap(), Verdict::Broken(place), "{sabotage}");
        }
    }
}
