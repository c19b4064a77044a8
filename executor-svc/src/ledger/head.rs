//! What was acknowledged last, beside the ledger.
//!
//! SQLite's own log ends, for SQLite, at its first frame that is not whole: one that is cut, changed or gone would take
//! commits along without a word. So the journal's last place and hash, and the number of commits that have no entry there, are
//! noted in a file beside it after each commit, and a start holds the ledger against them. The note is never waited for: it may lag
//! behind, and is never ahead.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use gatehouse_proto::digest::sha256_hex;
use rusqlite::{Connection, OptionalExtension};

use super::{LedgerError, journal};

/// How far a ledger is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Head {
    /// The place of the journal's last entry; 0 if there is none.
    pub seq: u64,
    /// Its hash; zeros if there is none.
    pub hash: [u8; 32],
    /// How many commits have changed anything without an entry.
    pub commits: u64,
}

/// How far the ledger is with the commit that this transaction is. One that has no entry of the journal to show for it is counted.
pub(super) fn advance(tx: &Connection, before: &Head) -> Result<Head, LedgerError> {
    let head = of(tx)?;
    if head.seq != before.seq {
        return Ok(head);
    }
    tx.prepare_cached("UPDATE tally SET commits = commits + 1")?.execute([])?;
    Ok(Head { commits: head.commits + 1, ..head })
}

/// How far the ledger is.
pub(super) fn of(connection: &Connection) -> Result<Head, LedgerError> {
    let (seq, hash) = journal::head(connection)?;
    let commits = connection
        .prepare_cached("SELECT commits FROM tally")?
        .query_row([], |row| row.get(0))
        .optional()?
        .unwrap_or_default();
    Ok(Head { seq, hash, commits })
}

/// The file. One line, always of the same length, so that it is written in one piece.
#[derive(Debug)]
pub(super) struct HeadFile {
    file: File,
    noted: Head,
    /// How far the ledger is, whether or not that could be noted.
    reached: Head,
}

/// What the file says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Noted {
    /// There is none: no ledger has been here, or an older executor made it.
    Nothing,
    /// It is there and cannot be understood.
    Unclear,
    /// The ledger had this.
    Head(Head),
}

pub(super) fn path(state_dir: &Path) -> PathBuf {
    state_dir.join("ledger.head")
}

fn line(head: &Head) -> String {
    let facts =
        format!("gatehouse ledger head 1 {:020} {} {:020}", head.seq, hex::encode(head.hash), head.commits);
    format!("{facts} {}\n", &sha256_hex(facts.as_bytes())[..16])
}

fn parse(text: &str) -> Option<Head> {
    let mut words = text.strip_prefix("gatehouse ledger head 1 ")?.split(' ');
    let mut head = Head { seq: words.next()?.parse().ok()?, ..Head::default() };
    hex::decode_to_slice(words.next()?, &mut head.hash).ok()?;
    head.commits = words.next()?.parse().ok()?;
    (line(&head) == text).then_some(head)
}

pub(super) fn read(state_dir: &Path) -> Result<Noted, LedgerError> {
    let path = path(state_dir);
    match std::fs::read(&path) {
        Ok(bytes) => Ok(std::str::from_utf8(&bytes).ok().and_then(parse).map_or(Noted::Unclear, Noted::Head)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Noted::Nothing),
        Err(source) => Err(LedgerError::Io { path, source }),
    }
}

impl HeadFile {
    /// Opens the file, or makes it, and notes this. On the disk when it returns.
    pub(super) fn open(state_dir: &Path, head: Head) -> Result<Self, LedgerError> {
        let path = path(state_dir);
        let open = || -> std::io::Result<File> {
            let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path)?;
            let text = line(&head);
            file.write_all_at(text.as_bytes(), 0)?;
            file.set_len(text.len() as u64)?;
            file.sync_all()?;
            File::open(state_dir)?.sync_all()?;
            Ok(file)
        };
        let file = open().map_err(|source| LedgerError::Io { path: path.clone(), source })?;
        Ok(Self { file, noted: head, reached: head })
    }

    /// How far the ledger is with the last commit.
    pub(super) const fn reached(&self) -> Head {
        self.reached
    }

    /// Notes this, without waiting for the disk. A failure costs nothing but the check at the next start.
    pub(super) fn note(&mut self, head: Head) {
        self.reached = head;
        if head == self.noted {
            return;
        }
        match self.file.write_all_at(line(&head).as_bytes(), 0) {
            Ok(()) => self.noted = head,
            Err(error) => tracing::warn!(%error, "the ledger's head could not be noted"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_noted_is_read_back_and_a_changed_line_is_unclear() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read(dir.path()).unwrap(), Noted::Nothing);
        let mut file = HeadFile::open(dir.path(), Head::default()).unwrap();
        let head = Head { seq: 17, hash: [7; 32], commits: 20 };
        file.note(head);
        assert_eq!(read(dir.path()).unwrap(), Noted::Head(head));
        let whole = std::fs::read(path(dir.path())).unwrap();
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            std::fs::write(path(dir.path()), &changed).unwrap();
            assert_eq!(read(dir.path()).unwrap(), Noted::Unclear, "byte {at}");
            std::fs::write(path(dir.path()), &whole[..at]).unwrap();
            assert_eq!(read(dir.path()).unwrap(), Noted::Unclear, "cut at {at}");
        }
    }
}
