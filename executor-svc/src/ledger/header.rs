//! The first hundred bytes of the file, before SQLite is let at it: what is no ledger of ours is left alone.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

use super::LedgerError;

/// How SQLite files of ours are marked: "GtHs".
pub const APPLICATION_ID: u32 = 0x4774_4873;
/// The first schema version whose files are marked; the one of `0007_robustness.sql`.
pub const FIRST_MARKED: u32 = 7;

const MAGIC: &[u8; 16] = b"SQLite format 3\0";
const LENGTH: usize = 100;

/// What the header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    /// Bytes in a page.
    pub page_size: u64,
    /// Pages in the file, if the writer of the header knew.
    pub pages: Option<u64>,
    /// The schema version.
    pub version: u32,
    /// Whose file it is.
    pub application: u32,
}

/// What lies there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// Nothing, or an empty file.
    Nothing,
    /// A database.
    Database(Header),
}

/// Reads the header of the file at `path`.
pub(super) fn read(path: &Path) -> Result<Found, LedgerError> {
    let io = |source| LedgerError::Io { path: path.to_owned(), source };
    let corrupt = |why: &str| LedgerError::Corrupt { path: path.to_owned(), why: why.to_owned() };
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(error) => return Err(io(error)),
    };
    let length = file.metadata().map_err(io)?.len();
    if length == 0 {
        return Ok(Found::Nothing);
    }
    let mut bytes = [0; LENGTH];
    match file.read_exact(&mut bytes) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
            return Err(corrupt("the file is shorter than its header"));
        }
        Err(error) => return Err(io(error)),
    }
    parse(&bytes).map(Found::Database).map_err(corrupt)
}

fn parse(bytes: &[u8; LENGTH]) -> Result<Header, &'static str> {
    let number = |at: usize| bytes[at..at + 4].iter().fold(0_u32, |sum, byte| sum << 8 | u32::from(*byte));
    if &bytes[..16] != MAGIC {
        return Err("the file does not begin as an SQLite database does");
    }
    let page_size = match u64::from(bytes[16]) << 8 | u64::from(bytes[17]) {
        1 => 65_536,
        size if size.is_power_of_two() && size >= 512 => size,
        _ => return Err("the header names a page size that does not exist"),
    };
    // UTF-8 since the first version.
    if number(56) != 1 && number(56) != 0 {
        return Err("the header names another text encoding");
    }
    if bytes[20] != 0 {
        return Err("the header reserves a part of each page");
    }
    let current = number(24) == number(92);
    Ok(Header {
        page_size,
        pages: (current && number(28) > 0).then(|| u64::from(number(28))),
        version: number(60),
        application: number(68),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_that_sqlite_writes_is_understood() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.db");
        assert_eq!(read(&path).unwrap(), Found::Nothing);
        let connection = rusqlite::Connection::open(&path).unwrap();
        connection
            .execute_batch("PRAGMA application_id = 7; PRAGMA user_version = 3; CREATE TABLE t (n)")
            .unwrap();
        drop(connection);
        let header = Header { page_size: 4096, pages: Some(2), version: 3, application: 7 };
        assert_eq!(read(&path).unwrap(), Found::Database(header));
        std::fs::write(&path, b"SQLite").unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("shorter"));
    }
}
