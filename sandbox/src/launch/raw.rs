//! The few calls that have no safe form: inherited descriptors, and signal dispositions.
#![allow(
    unsafe_code,
    reason = "raw descriptors named by number, pre_exec, sigaction; each with its reason beside it"
)]

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal};

/// Lets the child of this one command inherit `fds`, under the numbers they have. Done between fork and exec, so no
/// other child that is started at the same time gets them.
pub(super) fn inherit(command: &mut tokio::process::Command, fds: Vec<OwnedFd>) {
    let clear = move || {
        fds.iter().try_for_each(|fd| set_close_on_exec(fd.as_fd(), FdFlag::empty()).map_err(io::Error::from))
    };
    // SAFETY: the closure only calls fcntl, which is async-signal-safe; it neither allocates nor takes a lock.
    unsafe { command.pre_exec(clear) };
}

fn set_close_on_exec(fd: BorrowedFd<'_>, flag: FdFlag) -> nix::Result<()> {
    fcntl(fd, FcntlArg::F_SETFD(flag)).map(drop)
}

/// Takes over a descriptor that the parent left open for us, and closes it on exec.
pub(crate) fn take_inherited(number: RawFd) -> nix::Result<File> {
    if number < 3 {
        return Err(Errno::EBADF);
    }
    // SAFETY: borrowed for this one call, which fails cleanly with EBADF when the number is not open.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    set_close_on_exec(borrowed, FdFlag::FD_CLOEXEC)?;
    // SAFETY: it is open (checked above), was opened for us by the parent under this number, and the launcher, which
    // has one thread and calls this once for each number, has no other owner of it.
    Ok(File::from(unsafe { OwnedFd::from_raw_fd(number) }))
}

/// Gives every signal its default again. What is ignored stays so across exec: SIGPIPE by Rust's start-up code, SIGHUP
/// where we were started by nohup, and whatever else our parent had ignored.
pub(super) fn default_signals() -> nix::Result<()> {
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    let settable = |signal: &Signal| !matches!(signal, Signal::SIGKILL | Signal::SIGSTOP);
    Signal::iterator().filter(settable).try_for_each(|signal| {
        // SAFETY: the default action is no function of ours, so nothing can run at a bad moment.
        unsafe { nix::sys::signal::sigaction(signal, &default) }.map(drop)
    })
}

/// Marks every descriptor from 3 on to be closed on exec.
#[cfg(target_os = "linux")]
pub(super) fn close_others_on_exec() -> nix::Result<()> {
    // SAFETY: takes three integers; only marks descriptors, so every owner keeps a valid one until exec.
    let done = unsafe {
        nix::libc::syscall(nix::libc::SYS_close_range, 3_u32, u32::MAX, nix::libc::CLOSE_RANGE_CLOEXEC)
    };
    Errno::result(done).map(drop)
}

/// Marks every descriptor from 3 on to be closed on exec.
#[cfg(not(target_os = "linux"))]
pub(super) fn close_others_on_exec() -> nix::Result<()> {
    let errno = |error: io::Error| error.raw_os_error().map_or(Errno::EIO, Errno::from_raw);
    let open: Vec<RawFd> = std::fs::read_dir("/dev/fd")
        .map_err(errno)?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|&number| number > 2)
        .collect();
    for number in open {
        // SAFETY: borrowed for this one call; EBADF (the listing's own descriptor, closed by now) is expected.
        match set_close_on_exec(unsafe { BorrowedFd::borrow_raw(number) }, FdFlag::FD_CLOEXEC) {
            Ok(()) | Err(Errno::EBADF) => {}
            Err(other) => return Err(other),
        }
    }
    Ok(())
}
