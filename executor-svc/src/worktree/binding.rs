//! Whether a worktree is still the one that was made: the same directory, registered in the same repository.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::fault::BindingFault;
use super::{Identity, Worktree};

/// The most that git's small files hold, in bytes: a path and a word.
const SMALL: u64 = 64 * 1024;

/// What a directory is. Links are not followed.
pub(super) fn identify(path: &Path) -> io::Result<Identity> {
    let found = path.symlink_metadata()?;
    if found.is_dir() {
        Ok(Identity { dev: found.dev(), ino: found.ino() })
    } else {
        Err(io::ErrorKind::NotADirectory.into())
    }
}

/// A small file's content. Anything but a regular file is refused, and nothing is waited for.
pub(super) fn read_small(path: &Path) -> io::Result<Vec<u8>> {
    let flags = nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK;
    let file = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut content = Vec::new();
    file.take(SMALL).read_to_end(&mut content)?;
    Ok(content)
}

/// The path that such a file holds; a relative one starts at `from`.
pub(super) fn path_in(content: &[u8], from: &Path) -> Option<PathBuf> {
    let end = content.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r'))?;
    Some(from.join(OsStr::from_bytes(&content[..=end])))
}

/// Where a `.git` file leads.
pub(super) fn link_target(content: &[u8], from: &Path) -> Option<PathBuf> {
    path_in(content.strip_prefix(b"gitdir: ")?, from)
}

impl Worktree {
    /// The directory that registers it.
    #[must_use]
    pub fn registration_dir(&self) -> PathBuf {
        self.common_dir.join("worktrees").join(&self.registration)
    }

    /// Whether this is still the worktree that was made. A few looks at the disk: it blocks, for well under a millisecond
    /// on an idle disk.
    ///
    /// # Errors
    /// What has become of it.
    pub fn verify(&self) -> Result<(), BindingFault> {
        self.same_directory()?;
        match identify(&self.common_dir) {
            Ok(found) if found == self.common => {}
            _ => return Err(BindingFault::RepositoryReplaced(self.common_dir.clone())),
        }
        self.leads_there()?;
        self.leads_back()
    }

    pub(super) fn same_directory(&self) -> Result<(), BindingFault> {
        let io = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => BindingFault::Missing(self.path.clone()),
            io::ErrorKind::NotADirectory => BindingFault::Replaced(self.path.clone()),
            _ => BindingFault::Io { path: self.path.clone(), source },
        };
        let same = identify(&self.path).map_err(io)? == self.identity;
        // A directory on the way may have become a link, which is another place with the same directory in it.
        let at_its_place = self.path.canonicalize().map_err(io)? == self.path;
        if same && at_its_place { Ok(()) } else { Err(BindingFault::Replaced(self.path.clone())) }
    }

    /// The `.git` file leads to the registration.
    fn leads_there(&self) -> Result<(), BindingFault> {
        let file = self.path.join(".git");
        let leads = read_small(&file).ok().and_then(|content| link_target(&content, &self.path));
        let leads = leads.and_then(|path| path.canonicalize().ok());
        if leads == Some(self.registration_dir()) { Ok(()) } else { Err(BindingFault::GitFile(file)) }
    }

    /// The registration leads back to the `.git` file, and to the common directory.
    pub(super) fn leads_back(&self) -> Result<(), BindingFault> {
        let registration = self.registration_dir();
        let held = |name: &str| {
            let content = read_small(&registration.join(name)).ok()?;
            path_in(&content, &registration)
        };
        let back = held("gitdir").is_some_and(|file| file == self.path.join(".git"));
        let common = held("commondir").and_then(|path| path.canonicalize().ok());
        let registered = identify(&registration).is_ok() && back && common.as_ref() == Some(&self.common_dir);
        if registered { Ok(()) } else { Err(BindingFault::NotRegistered(self.common_dir.clone())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read_as_git_writes_them() {
        let from = Path::new("/from");
        let target = |text: &str| link_target(text.as_bytes(), from);
        assert_eq!(target("gitdir: /a b/\nc/.git/worktrees/x\n"), Some("/a b/\nc/.git/worktrees/x".into()));
        assert_eq!(target("gitdir: ../x\r\n"), Some("/from/../x".into()));
        assert_eq!((target("gitdir: \n"), target("gitdir:/x\n"), target("")), (None, None, None));
    }

    #[test]
    fn a_fifo_is_refused_and_not_waited_for() {
        let top = tempfile::tempdir().unwrap();
        let fifo = top.path().join("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(read_small(&fifo).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        let link = top.path().join("link");
        std::os::unix::fs::symlink("/etc/passwd", &link).unwrap();
        assert_eq!(read_small(&link).unwrap_err().raw_os_error(), Some(nix::libc::ELOOP));
    }
}
