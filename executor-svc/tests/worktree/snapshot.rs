//! Everything that can be known of a source: that it is left alone is that nothing of this differs.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::world::World;

#[derive(Debug, PartialEq, Eq)]
struct Entry {
    mode: u32,
    owner: (u32, u32),
    inode: u64,
    links: u64,
    /// In nanoseconds. The time of its entry's last change (ctime) too: nothing was even touched and set back.
    modified: (i64, i64),
    changed: (i64, i64),
    content: Vec<u8>,
}

/// A source and its repository.
#[derive(Debug, PartialEq, Eq)]
pub struct Snapshot {
    entries: BTreeMap<PathBuf, Entry>,
    status: String,
    refs: String,
    reflog: String,
}

impl Snapshot {
    /// Takes one of these directories. Of the common directory the list of worktrees is left out, and so are the times at which
    /// its own list of entries changed, which having that list changes.
    pub fn of(world: &World, source: &Path, others: &[&Path]) -> Self {
        let mut entries = BTreeMap::new();
        for top in std::iter::once(&source).chain(others) {
            add(top, &mut entries);
        }
        let quiet = |words: &[&str]| world.git(source, &[&["--no-optional-locks"], words].concat());
        Self {
            entries,
            status: quiet(&["status", "--porcelain=v2", "--branch", "--ignored"]),
            refs: quiet(&["for-each-ref"]),
            reflog: quiet(&["reflog", "show", "HEAD"]),
        }
    }

    /// What differs, for messages.
    pub fn assert_same(&self, now: &Self, when: &str) {
        for (path, entry) in &self.entries {
            assert_eq!(Some(entry), now.entries.get(path), "{when}: {}", path.display());
        }
        for path in now.entries.keys() {
            assert!(self.entries.contains_key(path), "{when}: {} is new", path.display());
        }
        let told = |snapshot: &Self| [&snapshot.status, &snapshot.refs, &snapshot.reflog].map(String::clone);
        assert_eq!(told(self), told(now), "{when}");
    }
}

fn add(path: &Path, entries: &mut BTreeMap<PathBuf, Entry>) {
    let found = path.symlink_metadata().unwrap();
    let holds_list = path.join("HEAD").is_file() && path.join("objects").is_dir();
    let time = |seconds, nanos| if holds_list { (0, 0) } else { (seconds, nanos) };
    let content = if found.is_file() {
        Sha256::digest(fs::read(path).unwrap()).to_vec()
    } else if found.is_symlink() {
        fs::read_link(path).unwrap().into_os_string().into_encoded_bytes()
    } else {
        Vec::new()
    };
    let entry = Entry {
        mode: found.mode(),
        owner: (found.uid(), found.gid()),
        inode: found.ino(),
        links: if holds_list { 0 } else { found.nlink() },
        modified: time(found.mtime(), found.mtime_nsec()),
        changed: time(found.ctime(), found.ctime_nsec()),
        content,
    };
    entries.insert(path.to_owned(), entry);
    if found.is_dir() {
        for entry in fs::read_dir(path).unwrap().map(Result::unwrap) {
            if !(holds_list && entry.file_name() == "worktrees") {
                add(&entry.path(), entries);
            }
        }
    }
}
