//! Who supervises the gateway of a runtime directory: one process at a time, found without a pid file.
//!
//! The supervisor holds a POSIX record lock on a file in that directory for as long as it lives. The kernel names the
//! holder of such a lock, so whoever wants to end it never signals a recycled process id.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use gatehouse_proto::socket::make_private_dir;
use gatehouse_sandbox::process::record_lock;
use nix::unistd::Pid;

use crate::failure::Failure;

/// The lock of the supervisor; given back when it is dropped or its process ends.
#[derive(Debug)]
pub struct Hold {
    file: File,
}

fn lock_file(runtime_dir: &Path) -> PathBuf {
    runtime_dir.join("up.lock")
}

impl Hold {
    /// Becomes the supervisor of the gateway in `runtime_dir`, which is made if it is missing.
    ///
    /// # Errors
    /// When another supervisor is at work there.
    pub fn take(runtime_dir: &Path) -> Result<Self, Failure> {
        make_private_dir(runtime_dir)?;
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .read(true)
            .open(lock_file(runtime_dir))?;
        match record_lock::take(&file) {
            Ok(()) => Ok(Self { file }),
            Err(nix::errno::Errno::EAGAIN | nix::errno::Errno::EACCES) => {
                Err(Failure::failed("`gatehouse up` is at work there already")
                    .hint("End it with `gatehouse down`, or choose another --runtime-dir and --state-dir."))
            }
            Err(error) => Err(io::Error::from(error).into()),
        }
    }

    /// Notes where the front listens, for whoever looks from another process.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn note(&mut self, listen: &str) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.write_all(listen.as_bytes())
    }
}

/// Where the front of the gateway in `runtime_dir` listens, if its supervisor is at work and has noted it.
///
/// Not for the supervisor itself: closing the file here would give its own lock back.
#[must_use]
pub fn noted_listen(runtime_dir: &Path) -> Option<String> {
    holder(runtime_dir).ok()??;
    let noted = std::fs::read_to_string(lock_file(runtime_dir)).ok()?;
    (!noted.is_empty()).then_some(noted)
}

/// The process that supervises the gateway in `runtime_dir`, if one does.
///
/// # Errors
/// When the lock cannot be looked at.
pub fn holder(runtime_dir: &Path) -> io::Result<Option<Pid>> {
    let file = match File::options().read(true).open(lock_file(runtime_dir)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(record_lock::holder(&file)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_supervises_an_empty_directory_and_ones_own_lock_does_not_count() {
        let top = tempfile::tempdir().unwrap();
        assert_eq!(holder(top.path()).unwrap(), None);
        let _hold = Hold::take(top.path()).unwrap();
        // Record locks belong to the process: it never stands in its own way. The suites look from another process.
        assert_eq!(holder(top.path()).unwrap(), None);
    }
}
