//! Whether the ledger is what was written: its structure, the chain of the journal, the seals of its rows.
//!
//! It works in steps, each on a view of its own, so that a ledger of any size is gone through without holding up
//! whoever writes. The journal only grows, so what was seen stays true.

use rusqlite::Connection;

use super::head::{self, Noted};
use super::journal::{self, Entry, Hash, chain};
use super::seal::{SEALED, Table};
use super::{LedgerError, Trouble, migrate, open};

/// How many entries are looked at in a step.
pub const ENTRIES_AT_A_TIME: u32 = 5000;
/// How many problems are told of each kind.
const TOLD: u32 = 20;

/// Where the chain breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Break {
    /// The place at which an entry was expected.
    pub seq: u64,
    /// The session that the entry is about, if there is one and it can be read.
    pub session: Option<String>,
    /// What was expected there, and what was found, in a sentence.
    pub why: String,
}

impl std::fmt::Display for Break {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "entry {}: {}", self.seq, self.why)?;
        match &self.session {
            Some(session) if !session.is_empty() => write!(f, " (session {session})"),
            _ => Ok(()),
        }
    }
}

/// A walk along the chain.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Walk {
    /// Entries that were found whole.
    pub entries: u64,
    previous: Hash,
}

/// How a step of a [`Walk`] ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// There is more.
    More,
    /// That was the last entry.
    End,
    /// The chain breaks.
    Broken(Break),
}

impl Walk {
    /// A walk that begins at the entry `from`, which is held against the one before; `None` if that one is missing.
    fn starting_at(connection: &Connection, from: u64) -> Result<Option<Self>, LedgerError> {
        let entries = from.saturating_sub(1);
        match journal::hash_at(connection, entries)? {
            None if entries > 0 => Ok(None),
            before => Ok(Some(Self { entries, previous: before.unwrap_or_default() })),
        }
    }

    /// Looks at the next entries, `limit` at most.
    ///
    /// # Errors
    /// When the ledger cannot be read for another cause than damage; damage is a break.
    pub fn step(&mut self, connection: &Connection, limit: u32) -> Result<Step, LedgerError> {
        match self.try_step(connection, limit) {
            Err(error) if error.trouble() == Trouble::Damaged => {
                let why = format!("it cannot be read ({error})");
                Ok(Step::Broken(Break { seq: self.entries + 1, session: None, why }))
            }
            other => other,
        }
    }

    fn try_step(&mut self, connection: &Connection, limit: u32) -> Result<Step, LedgerError> {
        let mut statement = connection.prepare_cached(
            "SELECT seq, at, session_id, kind, body, hash FROM journal WHERE seq > ?1 ORDER BY seq LIMIT ?2",
        )?;
        let mut rows = statement.query([self.entries, u64::from(limit)])?;
        let mut seen = 0;
        while let Some(row) = rows.next()? {
            seen += 1;
            if let Some(broken) = self.compare(&journal::entry(row)?, row.get(5)?) {
                return Ok(Step::Broken(broken));
            }
        }
        Ok(if seen < limit { Step::End } else { Step::More })
    }

    fn compare(&mut self, entry: &Entry, hash: Hash) -> Option<Break> {
        let expected = self.entries + 1;
        let session = Some(entry.session_id.clone());
        if entry.seq != expected {
            let why = format!("it is missing; the next one that is there is entry {}", entry.seq);
            return Some(Break { seq: expected, session, why });
        }
        let computed = chain(&self.previous, entry);
        if computed != hash {
            let why = format!(
                "`{}` is not what was written: with the entry before it hashes to {}…, and {}… stands there",
                entry.kind,
                hex::encode(&computed[..8]),
                hex::encode(&hash[..8])
            );
            return Some(Break { seq: expected, session, why });
        }
        self.entries = expected;
        self.previous = hash;
        None
    }
}

/// What [`walk`] found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The chain holds over that many entries.
    Whole(u64),
    /// The entry at this place is missing or is not what was written.
    Broken(u64),
}

/// Walks the whole chain, on one view of it.
///
/// # Errors
/// When the ledger cannot be read.
pub fn walk(connection: &Connection) -> Result<Verdict, LedgerError> {
    walk_from(connection, 1)
}

/// Walks the chain from the entry at `from` on, which is held against the one before it.
///
/// # Errors
/// When the ledger cannot be read.
pub fn walk_from(connection: &Connection, from: u64) -> Result<Verdict, LedgerError> {
    let Some(mut walk) = Walk::starting_at(connection, from)? else {
        return Ok(Verdict::Broken(from - 1));
    };
    loop {
        match walk.try_step(connection, ENTRIES_AT_A_TIME)? {
            Step::More => {}
            Step::End => return Ok(Verdict::Whole(walk.entries)),
            Step::Broken(found) => return Ok(Verdict::Broken(found.seq)),
        }
    }
}

/// What SQLite finds wrong in the structure of the file, a sentence each.
///
/// # Errors
/// When the ledger cannot be read for another cause than damage.
pub fn structure(connection: &Connection) -> Result<Vec<String>, LedgerError> {
    let found = (|| -> rusqlite::Result<Vec<String>> {
        let mut statement = connection.prepare(&format!("PRAGMA integrity_check({TOLD})"))?;
        statement.query_map([], |row| row.get(0))?.collect()
    })();
    match found {
        Ok(lines) => Ok(lines.into_iter().filter(|line| line != "ok").collect()),
        Err(error) if Trouble::of(&error) == Trouble::Damaged => Ok(vec![error.to_string()]),
        Err(error) => Err(error.into()),
    }
}

/// The rows of a table that are not what was written, a sentence each; `None` where the table has no seals yet.
///
/// # Errors
/// When the ledger cannot be read for another cause than damage.
pub fn rows(connection: &Connection, table: &Table) -> Result<Vec<String>, LedgerError> {
    match table.changed_rows(connection, TOLD) {
        Ok(keys) => Ok(keys
            .into_iter()
            .map(|key| format!("`{}` {key} is not what was written", table.name))
            .collect()),
        Err(error) if error.trouble() == Trouble::Damaged => {
            Ok(vec![format!("`{}` cannot be read ({error})", table.name)])
        }
        Err(error) => Err(error),
    }
}

/// What was found in a ledger that nobody serves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// The schema version of the file; 0 if it cannot be told.
    pub version: u32,
    /// Entries of the journal that are whole, from the first.
    pub entries: u64,
    /// Where the chain breaks.
    pub broken: Option<Break>,
    /// Everything else, a sentence each.
    pub problems: Vec<String>,
}

impl Report {
    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.broken.is_none() && self.problems.is_empty()
    }
}

/// Verifies the ledger below `state_dir` without an executor and without a change, and tells `progress` how many of how
/// many entries are done.
///
/// # Errors
/// When there is no ledger, or it cannot be read for another cause than damage.
pub fn offline(
    state_dir: &std::path::Path,
    mut progress: impl FnMut(u64, u64),
) -> Result<Report, LedgerError> {
    let mut report = Report::default();
    if let Err(error) = open::look(state_dir) {
        if error.trouble() != Trouble::Damaged {
            return Err(error);
        }
        let is_gone = matches!(error, LedgerError::Missing { .. });
        report.problems.push(error.to_string());
        if is_gone {
            return Ok(report);
        }
    }
    let noted = head::read(state_dir)?;
    let connection = open::connect_to_look(&open::path(state_dir))?;
    report.version = migrate::version(&connection).unwrap_or_default();
    let total = journal::last_seq(&connection).unwrap_or_default();
    let mut walk = Walk::default();
    loop {
        match walk.step(&connection, ENTRIES_AT_A_TIME) {
            Ok(Step::More) => progress(walk.entries, total),
            Ok(Step::End) => break,
            Ok(Step::Broken(broken)) => {
                report.broken = Some(broken);
                break;
            }
            Err(error) => {
                report.problems.push(error.to_string());
                break;
            }
        }
    }
    report.entries = walk.entries;
    if let (Noted::Head(noted), None) = (noted, &report.broken) {
        report.broken = behind(noted, walk.entries);
    }
    report.problems.extend(structure(&connection)?);
    for table in SEALED.iter().filter(|table| is_sealed(&connection, table)) {
        report.problems.extend(rows(&connection, table)?);
    }
    Ok(report)
}

/// Whether the chain ends before what was acknowledged.
#[must_use]
pub fn behind(noted: super::Head, entries: u64) -> Option<Break> {
    (entries < noted.seq).then(|| Break {
        seq: entries + 1,
        session: None,
        why: format!("it is missing, and so is all that follows; entry {} was acknowledged", noted.seq),
    })
}

/// Versions before the seals have none.
fn is_sealed(connection: &Connection, table: &Table) -> bool {
    let sql = "SELECT count(*) FROM pragma_table_info(?1) WHERE name = 'seal'";
    connection.query_row(sql, [table.name], |row| row.get::<_, u32>(0)).is_ok_and(|found| found == 1)
}
