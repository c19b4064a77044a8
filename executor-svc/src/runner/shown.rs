//! Which file is known to be the right Claude Code: one that served a run whose init line told the right version.
//!
//! Asking `--version` before each launch costs some 20 ms. It names a wrong version before that gets options which it may
//! not know; a file that has been through this once need not be asked again. The init line of every run is compared all
//! the same, so a wrong guess here can only make a message less clear.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};

use gatehouse_proto::ids::RunId;

use super::Runners;

/// A file as it was. A change of its bytes changes the time of its inode, which no program can set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Program {
    device: u64,
    inode: u64,
    bytes: u64,
    changed: (i64, i64),
}

impl Program {
    fn at(path: &Path) -> Option<Self> {
        let meta = path.metadata().ok()?;
        Some(Self {
            device: meta.dev(),
            inode: meta.ino(),
            bytes: meta.size(),
            changed: (meta.ctime(), meta.ctime_nsec()),
        })
    }
}

/// The program of a run, once its plan is made.
pub(super) type Launched = OnceLock<Program>;

/// The last program that showed the right version.
#[derive(Debug, Default)]
pub(super) struct Shown(Mutex<Option<Program>>);

impl Shown {
    fn is(&self, program: &Program) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).as_ref() == Some(program)
    }

    fn set(&self, program: Program) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(program);
    }
}

impl Runners {
    /// Whether the program that this run is to start has shown its version before. Looks at the file.
    #[must_use]
    pub fn version_shown_before(&self, run: &RunId, program: &Path) -> bool {
        let (Some(held), Some(program)) = (self.held(run), Program::at(program)) else { return false };
        let before = self.shared.shown.is(&program);
        // A plan that is asked for again keeps the file of the first.
        let _ = held.program.set(program);
        before
    }

    /// A run has asked for its first turn: its init line was as asked for, the version too.
    pub fn version_shown(&self, run: &RunId) {
        if let Some(program) = self.held(run).and_then(|held| held.program.get().cloned()) {
            self.shared.shown.set(program);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_written_to_or_replaced_has_to_show_its_version_again() {
        let top = tempfile::tempdir().unwrap();
        let path = top.path().join("claude");
        std::fs::write(&path, "one").unwrap();
        let shown = Shown::default();
        let first = Program::at(&path).unwrap();
        assert!(!shown.is(&first));
        shown.set(first.clone());
        assert!(shown.is(&Program::at(&path).unwrap()));
        let times = path.metadata().unwrap().modified().unwrap();
        while Program::at(&path).unwrap() == first {
            std::fs::write(&path, "two").unwrap();
        }
        // Setting the old time of modification back does not help.
        std::fs::File::options().write(true).open(&path).unwrap().set_modified(times).unwrap();
        assert!(!shown.is(&Program::at(&path).unwrap()));
        let other = top.path().join("other");
        std::fs::write(&other, "one").unwrap();
        std::fs::rename(&other, &path).unwrap();
        assert!(!shown.is(&Program::at(&path).unwrap()));
        assert_eq!(Program::at(&top.path().join("missing")), None);
    }
}
