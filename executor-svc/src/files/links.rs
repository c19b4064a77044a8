//! Whether every name of a file with several lies inside the session's root.
//!
//! One bounded walk of the root finds the inodes with more than one name and counts the names. It is made when such
//! a file is first met, and again (not too often) when the index does not know a file.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use gatehouse_sandbox::policy::Position;
use rustix::fs::FileType;

use super::policy::{FilePolicy, is_git};
use super::sys::{self, Facts};

/// How many entries the walk looks at, and for how long.
const MOST_ENTRIES: usize = 2_000_000;
const LONGEST: Duration = Duration::from_secs(10);
/// How old an index must be before an unknown file makes it be built again.
const OLD_ENOUGH: Duration = Duration::from_secs(2);

/// How coarsely file systems stamp times, in nanoseconds.
const TICK: i128 = 20_000_000;

/// What is known of a session's multi-link files.
#[derive(Debug, Default)]
pub(super) struct LinkIndex(Mutex<Option<Built>>);

#[derive(Debug)]
struct Built {
    at: Instant,
    /// The same moment, in nanoseconds since the epoch.
    started: i128,
    took: Duration,
    complete: bool,
    seen: HashMap<(u64, u64), Names>,
}

/// The names of one inode that the walk came across.
#[derive(Debug, Clone, Copy, Default)]
struct Names {
    count: u64,
    /// One of them is protected or below `.git`.
    guarded: bool,
}

/// Where a file's names lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whereabouts {
    /// All inside the root, none of them guarded.
    Inside,
    /// All inside the root, one of them protected or below `.git`.
    Guarded,
    /// Some are elsewhere.
    Elsewhere,
    /// The root is too large to know.
    Unknown,
}

impl LinkIndex {
    pub(super) fn whereabouts(&self, root: &Path, facts: &Facts, policy: &FilePolicy) -> Whereabouts {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = kept.as_ref().map(|built| (built.whereabouts(facts), built.is_old_for(facts)));
        match known {
            Some((found @ (Whereabouts::Inside | Whereabouts::Guarded), _)) => found,
            Some((found, false)) => found,
            Some((_, true)) | None => kept.insert(Built::walk(root, policy)).whereabouts(facts),
        }
    }
}

impl Built {
    /// Whether walking again may tell more. A file that was linked since the walk is worth it at once.
    fn is_old_for(&self, facts: &Facts) -> bool {
        let age = self.at.elapsed();
        let linked_since = facts.changed >= self.started;
        (linked_since && age >= self.took * 2) || age > OLD_ENOUGH.max(self.took * 20)
    }

    fn whereabouts(&self, facts: &Facts) -> Whereabouts {
        match self.seen.get(&facts.identity()) {
            Some(names) if names.count >= facts.links && names.guarded => Whereabouts::Guarded,
            Some(names) if names.count >= facts.links => Whereabouts::Inside,
            _ if self.complete => Whereabouts::Elsewhere,
            _ => Whereabouts::Unknown,
        }
    }

    fn walk(root: &Path, policy: &FilePolicy) -> Self {
        let at = Instant::now();
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // A file system's clock ticks coarsely: what it stamped a little before may have happened after.
        let started = i128::try_from(since_epoch.as_nanos()).unwrap_or(i128::MAX) - TICK;
        let mut built = Self { at, started, took: Duration::ZERO, complete: true, seen: HashMap::new() };
        let top = sys::find(root).and_then(|handle| sys::reopen(&handle));
        match top {
            Ok(top) => built.walk_below(&top, policy.position(root), policy),
            Err(_) => built.complete = false,
        }
        built.took = at.elapsed();
        built
    }

    fn walk_below(&mut self, top: &OwnedFd, position: Option<Position>, policy: &FilePolicy) {
        let mut entries = 0_usize;
        // A directory without a position is guarded, and so is all below it; its names still count.
        let mut pending = vec![(PathBuf::from("."), position)];
        while let Some((dir, position)) = pending.pop() {
            let Ok(opened) = sys::open_directory_below(top, &dir) else { continue };
            for entry in sys::list(&opened).unwrap_or_default() {
                entries += 1;
                let kind = match entry.kind {
                    FileType::Unknown => {
                        sys::stat_child(&opened, &entry.name).map_or(FileType::Unknown, |f| f.kind)
                    }
                    known => known,
                };
                let name = sys::os_string(entry.name.clone());
                let below = position.as_ref().filter(|_| !is_git(&name));
                let below = below.and_then(|at| policy.protected().child(at, &name).ok());
                if kind == FileType::Directory {
                    pending.push((dir.join(&name), below));
                } else if kind == FileType::RegularFile {
                    self.count(&opened, &entry, below.is_none());
                }
            }
            if entries > MOST_ENTRIES || self.at.elapsed() > LONGEST {
                self.complete = false;
                return;
            }
        }
    }

    fn count(&mut self, dir: &OwnedFd, entry: &sys::Listed, guarded: bool) {
        let Ok(facts) = sys::stat_child(dir, &entry.name) else { return };
        if facts.links > 1 && facts.is_file() {
            let names = self.seen.entry(facts.identity()).or_default();
            names.count += 1;
            names.guarded |= guarded;
        }
    }
}
