//! One action at a time on each path, also between sessions.

use std::collections::HashSet;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

/// A path by what it hangs on: the nearest directory that exists, and the rest in a form that every file system takes
/// for the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct PathKey {
    pub device: u64,
    pub inode: u64,
    pub rest: String,
}

/// The paths that are being worked on.
#[derive(Debug, Default)]
pub(super) struct PathLocks {
    held: Mutex<HashSet<PathKey>>,
    freed: Condvar,
}

/// Holds a path until it is dropped.
#[derive(Debug)]
pub(super) struct PathGuard {
    locks: Arc<PathLocks>,
    key: PathKey,
    /// Whether somebody else had it first, so that what was known of the path may be out of date.
    pub waited: bool,
}

impl PathLocks {
    /// Waits for the path; `None` if it is not free before `until`.
    pub(super) fn hold(self: &Arc<Self>, key: PathKey, until: Instant) -> Option<PathGuard> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let mut waited = false;
        while !held.insert(key.clone()) {
            waited = true;
            let left = until.checked_duration_since(Instant::now())?;
            held = self.freed.wait_timeout(held, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        Some(PathGuard { locks: Arc::clone(self), key, waited })
    }
}

impl Drop for PathGuard {
    fn drop(&mut self) {
        self.locks.held.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.key);
        self.locks.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn key(rest: &str) -> PathKey {
        PathKey { device: 1, inode: 2, rest: rest.to_owned() }
    }

    #[test]
    fn a_path_has_one_holder_and_the_next_one_waits() {
        let locks = Arc::new(PathLocks::default());
        let soon = || Instant::now() + Duration::from_secs(20);
        let first = locks.hold(key("a"), soon()).unwrap();
        let _other = locks.hold(key("b"), soon()).unwrap();
        assert!(locks.hold(key("a"), Instant::now()).is_none());
        let (again, until) = (Arc::clone(&locks), soon());
        let waiting = std::thread::spawn(move || again.hold(key("a"), until).is_some());
        drop(first);
        assert!(waiting.join().unwrap());
        assert!(locks.hold(key("a"), soon()).is_some());
    }
}
