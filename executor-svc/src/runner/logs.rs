//! The shims' log file of a session: private, and bounded over any number of runs.

use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// How long a log may have grown before the next run begins a new one. The one before is kept, older ones are not.
const FULL: u64 = 1024 * 1024;

/// Opens the log for appending, 0600.
pub(super) fn open(path: &Path) -> io::Result<File> {
    if path.symlink_metadata().is_ok_and(|found| found.len() >= FULL) {
        std::fs::rename(path, path.with_extension("log.old"))?;
    }
    std::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_log_that_is_full_makes_room_and_the_one_before_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("shim.log");
        open(&path).unwrap().write_all(b"first").unwrap();
        open(&path).unwrap().set_len(FULL).unwrap();
        open(&path).unwrap().write_all(b"second").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"second");
        assert!(std::fs::read(dir.path().join("shim.log.old")).unwrap().starts_with(b"first"));
    }
}
