//! A POSIX record lock over a whole file. The kernel names the process that holds one, so nobody is found by a pid that
//! was written down and may be another's by now.

use std::fs::File;

use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use nix::unistd::Pid;

/// Takes the lock for this process, which gives it back when it ends or closes any of its descriptors of the file.
///
/// # Errors
/// `EAGAIN` or `EACCES` while another process has it; others where there are no such locks.
pub fn take(file: &File) -> nix::Result<()> {
    fcntl(file, FcntlArg::F_SETLK(&whole_file())).map(drop)
}

/// The process that has the lock. Never this one: a record lock does not stand in its holder's way. One of another pid
/// namespace has no number here.
///
/// # Errors
/// When the lock cannot be looked at.
pub fn holder(file: &File) -> nix::Result<Option<Pid>> {
    let mut found = whole_file();
    fcntl(file, FcntlArg::F_GETLK(&mut found))?;
    Ok((found.l_type == write_lock() && found.l_pid > 0).then(|| Pid::from_raw(found.l_pid)))
}

fn whole_file() -> libc::flock {
    // Only the fields named here have a meaning; start and length 0 are the whole file.
    libc::flock { l_type: write_lock(), l_whence: 0, l_start: 0, l_len: 0, l_pid: 0 }
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "the constant is 1 or 3; its type differs between systems"
)]
const fn write_lock() -> libc::c_short {
    libc::F_WRLCK as libc::c_short
}
