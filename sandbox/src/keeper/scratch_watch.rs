//! Bounding a scratch that is a directory of the host.
//!
//! No file system lets an ordinary user put a bound on a directory. So the keeper looks, again and again, at how much is in
//! it, and ends everything when that is too much. One file cannot be larger than the bound anyway (a limit of the
//! process), so what gets past it is what many files take between two looks, and files that were deleted while open.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};

/// Between two looks, at least.
const SHORTEST: Duration = Duration::from_millis(200);
/// A look may take one part in so many of the time, so that a large scratch does not keep a processor busy.
const SHARE: u32 = 20;
/// Deeper is not looked into; `PATH_MAX` lets nobody name what is there in one go.
const DEEPEST: usize = 200;

/// A scratch that is watched.
#[derive(Debug)]
pub(crate) struct Watch {
    directory: OwnedFd,
    bytes: u64,
    next: Instant,
}

impl Watch {
    /// Opens the directory while the host's view is still there.
    ///
    /// # Errors
    /// When that fails.
    pub(crate) fn on(path: &Path, bytes: u64) -> rustix::io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::openat(CWD, path, flags, Mode::empty())?;
        Ok(Self { directory, bytes, next: Instant::now() + SHORTEST })
    }

    /// When the next look is due.
    pub(crate) const fn next(&self) -> Instant {
        self.next
    }

    /// Whether there is too much in it, when a look is due.
    pub(crate) fn is_over(&mut self) -> bool {
        let started = Instant::now();
        if started < self.next {
            return false;
        }
        let used = used(self.directory.as_fd(), self.bytes, 0);
        let ended = Instant::now();
        self.next = ended + SHORTEST.max((ended - started) * SHARE);
        used > self.bytes
    }
}

/// What the files below a directory take up, in bytes; no need to go on once it is more than `enough`. What cannot be
/// looked at counts as nothing: it is being deleted.
fn used(directory: BorrowedFd<'_>, enough: u64, depth: usize) -> u64 {
    let mut sum: u64 = 0;
    let Ok(entries) = Dir::read_from(directory) else { return 0 };
    for entry in entries.flatten() {
        let name = entry.file_name();
        if name == c"." || name == c".." || sum > enough {
            continue;
        }
        let Ok(found) = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        // An empty file takes something as well.
        sum = sum.saturating_add(u64::try_from(found.st_blocks).unwrap_or(0).saturating_mul(512).max(512));
        if FileType::from_raw_mode(found.st_mode).is_dir() && depth < DEEPEST {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            if let Ok(below) = rustix::fs::openat(directory, name, flags, Mode::empty()) {
                sum = sum.saturating_add(used(below.as_fd(), enough.saturating_sub(sum), depth + 1));
            }
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_a_directory_is_summed_up_without_following_links() {
        let top = tempfile::tempdir().unwrap();
        let directory = || std::fs::File::open(top.path()).unwrap();
        assert_eq!(used(directory().as_fd(), u64::MAX, 0), 0);
        std::fs::create_dir(top.path().join("a")).unwrap();
        std::fs::write(top.path().join("a/b"), vec![1; 100_000]).unwrap();
        std::os::unix::fs::symlink("/usr", top.path().join("link")).unwrap();
        std::os::unix::fs::symlink(".", top.path().join("loop")).unwrap();
        let sum = used(directory().as_fd(), u64::MAX, 0);
        assert!((100_000..200_000).contains(&sum), "{sum}");
    }

    #[test]
    fn a_look_says_whether_there_is_too_much() {
        let top = tempfile::tempdir().unwrap();
        std::fs::write(top.path().join("file"), vec![1; 100_000]).unwrap();
        for (bytes, over) in [(50_000, true), (500_000, false)] {
            let mut watch = Watch::on(top.path(), bytes).unwrap();
            assert!(!watch.is_over(), "not due yet");
            watch.next = Instant::now();
            assert_eq!(watch.is_over(), over);
        }
    }
}
