//! The system calls that have no safe form in the libraries used here.
#![allow(unsafe_code, reason = "fork, _exit, pre_exec, libproc; each with its reason beside it")]

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::libc;
use nix::unistd::ForkResult;

use crate::launch::ProcessGroup;

/// Which side of a fork this is.
pub(super) enum Fork {
    Child,
    Parent,
}

/// Forks. Only for processes with one thread, which `sandbox-launch` always has.
pub(super) fn fork() -> nix::Result<Fork> {
    // SAFETY: there is one thread (nothing here starts another), so the child has every lock in a sound state.
    match unsafe { nix::unistd::fork() }? {
        ForkResult::Child => Ok(Fork::Child),
        ForkResult::Parent { .. } => Ok(Fork::Parent),
    }
}

/// Ends a forked child without running what the parent's exit would run.
pub(super) fn leave(code: u8) -> ! {
    // SAFETY: ends the process at once; no memory is touched.
    unsafe { libc::_exit(code.into()) }
}

/// Lets the child of this command inherit `fds` under their numbers, and lead a session where it should.
pub(super) fn prepare(command: &mut Command, group: ProcessGroup, fds: Vec<OwnedFd>) {
    let prepare = move || {
        if group == ProcessGroup::OwnSession {
            nix::unistd::setsid()?;
        }
        fds.iter().try_for_each(|fd| {
            fcntl(fd.as_fd(), FcntlArg::F_SETFD(FdFlag::empty())).map(drop).map_err(io::Error::from)
        })
    };
    // SAFETY: the closure only calls setsid and fcntl, which are async-signal-safe; it neither allocates nor takes a lock.
    unsafe { command.pre_exec(prepare) };
}

/// Closes every descriptor from 3 on but this one.
pub(super) fn close_all_but(kept: BorrowedFd<'_>) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    let open: Vec<RawFd> = std::fs::read_dir("/dev/fd")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|&number| number > 2 && number != kept.as_raw_fd())
        .collect();
    for number in open {
        // SAFETY: only for a forked process that ends by `leave`: no owner of these descriptors is dropped in it, so none
        // is closed twice. The listing's own is closed already, which is an error that changes nothing.
        unsafe { libc::close(number) };
    }
    Ok(())
}

/// Limits the number of the user's processes.
pub(crate) fn limit_processes(most: u64) -> nix::Result<()> {
    let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
    // SAFETY: the structure lives through the call, which only reads it.
    nix::errno::Errno::result(unsafe { libc::setrlimit(libc::RLIMIT_NPROC, &raw const limit) }).map(drop)
}

/// Numbers of processes, from a call that fills a buffer with them and gives how many.
fn numbers(call: impl Fn(*mut libc::c_void, libc::c_int) -> libc::c_int) -> Vec<i32> {
    // More are found by the next look: those that were found are stopped before that, and start no more.
    let mut buffer = vec![0_i32; 4096];
    let size = libc::c_int::try_from(buffer.len() * size_of::<i32>()).unwrap_or(libc::c_int::MAX);
    let count = usize::try_from(call(buffer.as_mut_ptr().cast(), size)).unwrap_or(0);
    buffer.truncate(count);
    buffer.retain(|&pid| pid > 0);
    buffer
}

/// The children of a process.
pub(super) fn children(pid: i32) -> Vec<i32> {
    // SAFETY: the buffer is ours and as large as is said; the call writes at most that much.
    numbers(|buffer, size| unsafe { libc::proc_listchildpids(pid, buffer, size) })
}

/// The processes of a group.
pub(super) fn members(group: i32) -> Vec<i32> {
    // SAFETY: the buffer is ours and as large as is said; the call writes at most that much.
    numbers(|buffer, size| unsafe { libc::proc_listpgrppids(group, buffer, size) })
}
