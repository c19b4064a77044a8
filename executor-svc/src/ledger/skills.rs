//! The `skill` table: the instructions that a session carries. Only the view for ChatGPT reads them.

use gatehouse_proto::ids::SessionId;
use rusqlite::{Connection, params};

use super::LedgerError;
use super::seal::{SKILL, Statement};

/// A skill as a session carries it.
#[derive(Clone, PartialEq, Eq)]
pub struct SkillRow {
    /// Its id.
    pub skill_id: String,
    /// SHA-256 of its whole normalised text.
    pub content_sha256: String,
    /// Its instructions.
    pub body: String,
}

impl std::fmt::Debug for SkillRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SkillRow({}, {} bytes)", self.skill_id, self.body.len())
    }
}

/// Freezes a skill at its place in the session's list.
///
/// # Errors
/// When there is one at that place, or the ledger cannot be written.
pub fn insert(
    tx: &Connection,
    session: &SessionId,
    position: usize,
    row: &SkillRow,
) -> Result<(), LedgerError> {
    static WRITE: Statement = SKILL.insert(&[
        ("session_id", "?1"),
        ("position", "?2"),
        ("skill_id", "?3"),
        ("content_sha256", "?4"),
        ("body", "?5"),
    ]);
    WRITE.run(tx, params![session.as_str(), position, row.skill_id, row.content_sha256, row.body])?;
    Ok(())
}

/// The skills of a session, in its order.
///
/// # Errors
/// When the ledger cannot be read.
pub fn of_session(connection: &Connection, session: &SessionId) -> Result<Vec<SkillRow>, LedgerError> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT skill_id, content_sha256, body, {} FROM skill WHERE session_id = ?1 ORDER BY position",
        SKILL.whole()
    ))?;
    let rows = statement.query_map([session.as_str()], |row| {
        SKILL.check(row, 3)?;
        Ok(SkillRow { skill_id: row.get(0)?, content_sha256: row.get(1)?, body: row.get(2)? })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}
