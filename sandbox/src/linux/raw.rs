//! The system calls that have no safe form in the libraries used here.
#![allow(unsafe_code, reason = "fork, clone, _exit, mount_setattr, an ioctl; each with its reason beside it")]

use std::ffi::CStr;
use std::os::fd::{AsRawFd, BorrowedFd};

use nix::errno::Errno;
use nix::libc;
use nix::sched::CloneFlags;
use nix::unistd::{ForkResult, Pid};

/// Which side of a fork this is.
pub(super) enum Fork {
    Child,
    Parent(Pid),
}

/// Forks. Only for processes with one thread, which `sandbox-launch` always has.
pub(super) fn fork() -> nix::Result<Fork> {
    // SAFETY: there is one thread (nothing here starts another), so the child has every lock in a sound state.
    match unsafe { nix::unistd::fork() }? {
        ForkResult::Child => Ok(Fork::Child),
        ForkResult::Parent { child } => Ok(Fork::Parent(child)),
    }
}

/// The stack of a process that shares our memory; what it does is not deep.
const STACK: usize = 256 * 1024;

/// Starts a process that shares our memory until it has become another program or has ended; until then we sleep. Spares
/// it a copy of our memory, and us the faults afterwards. `run` is what it does, and gives its exit code should it fail to
/// become another program. Only for processes with one thread.
pub(super) fn start(mut run: impl FnMut() -> u8) -> nix::Result<Pid> {
    let mut stack = vec![0; STACK];
    let run = Box::new(|| isize::from(run()));
    let flags = CloneFlags::CLONE_VM | CloneFlags::CLONE_VFORK;
    // SAFETY: we have one thread, and the kernel lets it go on only when the new process uses this memory no more, so that
    // at any moment one of the two runs, as if `run` were called by us. Stack and closure live that long. The new process
    // has descriptors, directory and signals of its own. A panic ends it: the callback is not one that unwinds.
    unsafe { nix::sched::clone(run, &mut stack, flags, Some(libc::SIGCHLD)) }
}

/// Ends a forked child without running what the parent's exit would run.
pub(super) fn leave(code: u8) -> ! {
    // SAFETY: ends the process at once; no memory is touched.
    unsafe { libc::_exit(code.into()) }
}

/// What is set and cleared on a mount.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct MountAttr {
    set: u64,
    clear: u64,
    propagation: u64,
    userns_fd: u64,
}

/// Which mounts an attribute is set on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    One,
    Tree,
}

/// `mount_setattr`: sets attributes (`MOUNT_ATTR_*`) on the mount that `dir` and `path` name.
pub(super) fn set_mount_attributes(
    dir: BorrowedFd<'_>,
    path: &CStr,
    reach: Reach,
    set: u64,
) -> nix::Result<()> {
    let attributes = MountAttr { set, ..MountAttr::default() };
    let flags = match reach {
        Reach::One => libc::AT_EMPTY_PATH,
        Reach::Tree => libc::AT_EMPTY_PATH | libc::AT_RECURSIVE,
    };
    // SAFETY: the descriptor and the text live through the call; the kernel reads exactly the size that is given from
    // the structure, which has the layout of `struct mount_attr`, and writes nothing.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            dir.as_raw_fd(),
            path.as_ptr(),
            flags,
            &raw const attributes,
            size_of::<MountAttr>(),
        )
    };
    Errno::result(done).map(drop)
}

/// Switches the loopback interface of our network namespace on. `socket` is any Internet socket in it.
pub(super) fn loopback_up(socket: BorrowedFd<'_>) -> nix::Result<()> {
    // SAFETY: plain old data; all zero is a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = libc::c_char::from_ne_bytes([*from]);
    }
    // SAFETY: both ioctls take this structure; the name in it ends with a zero; it lives through the calls.
    Errno::result(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFFLAGS as _, &raw mut request) })?;
    /// `IFF_UP`, as wide as the field.
    const UP: libc::c_short = 1;
    // SAFETY: SIOCGIFFLAGS has just made the flags the valid member of the union.
    unsafe { request.ifr_ifru.ifru_flags |= UP };
    // SAFETY: as above.
    Errno::result(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &raw mut request) })
        .map(drop)
}

/// Ends this process by a signal, with the signal's default action; returns if that does not end it. No core is
/// written: the limit on core files is 0 from the start.
pub(super) fn die_by(signal: i32) {
    // SAFETY: plain integers; the default action is no function of ours; the set is a local that both calls fill.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        let mut only: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut only);
        libc::sigaddset(&raw mut only, signal);
        libc::raise(signal);
        libc::sigprocmask(libc::SIG_UNBLOCK, &raw const only, std::ptr::null_mut());
    }
}
