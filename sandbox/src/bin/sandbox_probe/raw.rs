//! Calls that have no safe form.
#![allow(unsafe_code, reason = "a probe makes calls that nobody else makes")]

use std::io;
use std::os::fd::BorrowedFd;

use nix::libc;

pub fn result(done: libc::c_long) -> io::Result<i64> {
    if done == -1 { Err(io::Error::last_os_error()) } else { Ok(done) }
}

/// A descriptor that may have been inherited under this number.
pub fn inherited(number: i32) -> io::Result<BorrowedFd<'static>> {
    // SAFETY: asks about a number; touches nothing.
    result(unsafe { libc::fcntl(number, libc::F_GETFD) }.into())?;
    // SAFETY: it is open, and nothing in this process closes it: who uses it borrows it.
    Ok(unsafe { BorrowedFd::borrow_raw(number) })
}

/// Ends this process at once.
pub fn leave(code: i32) -> ! {
    // SAFETY: no memory is touched.
    unsafe { libc::_exit(code) }
}

/// Sends this process a signal, by number.
pub fn signal_itself(number: i32) -> io::Result<()> {
    // SAFETY: integers only.
    result(unsafe { libc::kill(libc::getpid(), number) }.into()).map(drop)
}

/// Ignores a signal from now on.
pub fn ignore(signal: nix::sys::signal::Signal) -> io::Result<()> {
    // SAFETY: the disposition is "ignore": no function is called.
    unsafe { nix::sys::signal::signal(signal, nix::sys::signal::SigHandler::SigIgn) }
        .map(drop)
        .map_err(io::Error::from)
}

/// What of System V's kind is looked for by its key.
#[derive(Clone, Copy)]
pub enum SystemV {
    Memory,
    Semaphores,
}

/// Looks for it; makes nothing.
pub fn find(what: SystemV, key: i32) -> io::Result<i64> {
    // SAFETY: integers only.
    let found = unsafe {
        match what {
            SystemV::Memory => libc::shmget(key, 1, 0),
            SystemV::Semaphores => libc::semget(key, 1, 0),
        }
    };
    result(found.into())
}

/// Types a character into a terminal, as if its user had.
pub fn type_into(terminal: BorrowedFd<'_>) -> io::Result<i64> {
    use std::os::fd::AsRawFd;
    // SAFETY: the kernel reads one byte, of a constant.
    result(unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSTI, c"x".as_ptr()) }.into())
}
