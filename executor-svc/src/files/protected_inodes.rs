//! The inodes of everything that is protected by its place, so that a hard link to it is known under any name.
//!
//! Built by one bounded walk when a file with more than one name is first met, kept, and brought up to date before
//! each use: only directories that changed since are read again. Making a hard link changes neither the inode nor
//! the directory of the protected file, so links made later are recognised as well.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::sys::{self, Facts};

/// How many inodes are kept at most, and how long a walk takes at most. Beyond that the index is incomplete, and what
/// it does not know counts as unknown.
const MOST: usize = 500_000;
const LONGEST: Duration = Duration::from_secs(5);

/// The index. Immutable; [`ProtectedInodes::refreshed`] makes the next one.
#[derive(Debug, Clone, Default)]
pub(super) struct ProtectedInodes {
    tops: HashMap<PathBuf, Entry>,
    known: HashSet<(u64, u64)>,
    complete: bool,
}

#[derive(Debug, Clone)]
enum Entry {
    File((u64, u64)),
    Directory { stamp: Stamp, children: HashMap<PathBuf, Entry> },
}

/// What changes when a directory's entries do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    identity: (u64, u64),
    modified: i128,
    changed: i128,
}

/// Whether an inode is one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Protected,
    Free,
    /// There are too many protected files to know.
    Unknown,
}

impl ProtectedInodes {
    pub(super) fn verdict(&self, identity: (u64, u64)) -> Verdict {
        match (self.known.contains(&identity), self.complete) {
            (true, _) => Verdict::Protected,
            (false, true) => Verdict::Free,
            (false, false) => Verdict::Unknown,
        }
    }

    /// The index as of now, given what protected paths exist.
    pub(super) fn refreshed(&self, existing: impl FnOnce() -> Vec<PathBuf>) -> Self {
        let known = HashSet::with_capacity(self.known.len());
        let mut walk = Walk { known, until: Instant::now() + LONGEST, complete: true };
        let mut tops = HashMap::new();
        for path in existing() {
            if let Some(entry) = walk.visit(&path, self.tops.get(&path)) {
                tops.insert(path, entry);
            }
        }
        Self { tops, known: walk.known, complete: walk.complete }
    }
}

struct Walk {
    known: HashSet<(u64, u64)>,
    until: Instant,
    complete: bool,
}

impl Walk {
    fn visit(&mut self, path: &Path, before: Option<&Entry>) -> Option<Entry> {
        if self.known.len() >= MOST || Instant::now() >= self.until {
            self.complete = false;
            return None;
        }
        // A link itself is no secret, and what it leads to is protected by its own line or not at all.
        let handle = sys::find(path).ok()?;
        let facts = sys::stat(&handle.0).ok()?;
        self.known.insert(facts.identity());
        if !facts.is_directory() {
            return Some(Entry::File(facts.identity()));
        }
        let stamp = Stamp::of(&facts);
        let children = match before {
            Some(Entry::Directory { stamp: old, children }) if *old == stamp => self.revisit(path, children),
            Some(Entry::Directory { children, .. }) => self.read(path, &handle, Some(children)),
            Some(Entry::File(_)) | None => self.read(path, &handle, None),
        };
        Some(Entry::Directory { stamp, children })
    }

    /// An unchanged directory: its files are as they were, its directories may have changed inside.
    fn revisit(&mut self, path: &Path, children: &HashMap<PathBuf, Entry>) -> HashMap<PathBuf, Entry> {
        let mut now = HashMap::with_capacity(children.len());
        for (name, entry) in children {
            let kept = match entry {
                Entry::File(identity) => {
                    self.known.insert(*identity);
                    Some(entry.clone())
                }
                Entry::Directory { .. } => self.visit(&path.join(name), Some(entry)),
            };
            now.extend(kept.map(|entry| (name.clone(), entry)));
        }
        now
    }

    fn read(
        &mut self,
        path: &Path,
        handle: &sys::Handle,
        before: Option<&HashMap<PathBuf, Entry>>,
    ) -> HashMap<PathBuf, Entry> {
        let listed = sys::reopen(handle).and_then(|dir| sys::list(&dir)).unwrap_or_default();
        let mut now = HashMap::with_capacity(listed.len());
        for entry in listed {
            let name = PathBuf::from(sys::os_string(entry.name));
            let visited = self.visit(&path.join(&name), before.and_then(|children| children.get(&name)));
            now.extend(visited.map(|entry| (name, entry)));
        }
        now
    }
}

impl Stamp {
    const fn of(facts: &Facts) -> Self {
        Self { identity: facts.identity(), modified: facts.modified, changed: facts.changed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(path: &Path) -> (u64, u64) {
        sys::stat(&sys::find(path).unwrap().0).unwrap().identity()
    }

    #[test]
    fn files_are_known_by_inode_and_new_ones_after_a_refresh() {
        let top = tempfile::tempdir().unwrap();
        let top = top.path().canonicalize().unwrap();
        std::fs::create_dir_all(top.join("secret/deep")).unwrap();
        std::fs::write(top.join("secret/deep/key"), "k").unwrap();
        std::fs::write(top.join("free"), "f").unwrap();
        let tops = || vec![top.join("secret")];

        let index = ProtectedInodes::default().refreshed(tops);
        let key = identity(&top.join("secret/deep/key"));
        assert_eq!(index.verdict(key), Verdict::Protected);
        assert_eq!(index.verdict(identity(&top.join("free"))), Verdict::Free);

        std::fs::write(top.join("secret/deep/new"), "n").unwrap();
        std::fs::remove_file(top.join("secret/deep/key")).unwrap();
        let index = index.refreshed(tops);
        assert_eq!(index.verdict(identity(&top.join("secret/deep/new"))), Verdict::Protected);
        assert_eq!(index.verdict(key), Verdict::Free);
    }

    #[test]
    fn an_index_that_was_never_built_knows_nothing() {
        assert_eq!(ProtectedInodes::default().verdict((1, 1)), Verdict::Unknown);
    }
}
