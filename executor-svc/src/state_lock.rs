//! One executor per state directory.
//!
//! The lock is the kernel's (`flock`): it is gone with the process that holds it, however that ends. A record lock on the
//! same file lets the kernel name that process, so nobody has to trust a number in a file.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use gatehouse_sandbox::process::record_lock;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::unistd::Pid;

/// Why this process may not work in a state directory.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another executor does.
    #[error(
        "another executor works in {path}{}; stop it first (gatehouse down), or choose another --state-dir",
        pid.map(|pid| format!(" (process {pid})")).unwrap_or_default()
    )]
    Taken {
        /// The state directory.
        path: PathBuf,
        /// Its process, if the kernel names it.
        pid: Option<i32>,
    },
    /// The lock file cannot be made or locked.
    #[error("{path}: {source}")]
    Io {
        /// The lock file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
}

/// The lock; given back when it is dropped or the process ends.
#[derive(Debug)]
pub struct StateLock {
    _file: Flock<File>,
}

impl StateLock {
    /// Takes the lock of a state directory, which must be there.
    ///
    /// # Errors
    /// [`LockError::Taken`] while another process has it, or that the lock file cannot be made.
    pub fn take(state_dir: &Path) -> Result<Self, LockError> {
        let path = state_dir.join("executor.lock");
        let io = |source| LockError::Io { path: path.clone(), source };
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(io)?;
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(file) => {
                // Only so that the kernel can name us. Where there are no record locks, nobody is named.
                let _ = record_lock::take(&file);
                Ok(Self { _file: file })
            }
            Err((file, Errno::EAGAIN)) => {
                let pid = record_lock::holder(&file).ok().flatten().map(Pid::as_raw);
                Err(LockError::Taken { path: state_dir.to_owned(), pid })
            }
            Err((_, errno)) => Err(io(errno.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_directory_is_taken_once_and_free_again_afterwards() {
        let dir = tempfile::tempdir().unwrap();
        let lock = StateLock::take(dir.path()).unwrap();
        // Its own process the kernel does not name: a record lock never stands in its holder's way.
        assert!(matches!(StateLock::take(dir.path()), Err(LockError::Taken { pid: None, .. })));
        drop(lock);
        StateLock::take(dir.path()).unwrap();
    }
}
