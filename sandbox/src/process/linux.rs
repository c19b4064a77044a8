//! Linux: /proc for the identity, a pidfd for the grip.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::{Gone, ProcessIdentity, Signal, as_pid};

fn read(pid: u32, name: &str) -> Result<Vec<u8>, Gone> {
    std::fs::read(format!("/proc/{pid}/{name}")).map_err(gone_or_unreadable)
}

fn gone_or_unreadable(error: io::Error) -> Gone {
    let ended = error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(nix::libc::ESRCH);
    if ended { Gone::Ended } else { Gone::Unreadable(error) }
}

/// Clock ticks since boot. World-readable, also for a process that is not dumpable.
pub(super) fn start_time(pid: u32) -> Result<u64, Gone> {
    let stat = read(pid, "stat")?;
    let (state, start) = parse_stat(&stat).ok_or_else(|| {
        Gone::Unreadable(io::Error::new(io::ErrorKind::InvalidData, "/proc/PID/stat is malformed"))
    })?;
    if matches!(state, b'Z' | b'X') { Err(Gone::Ended) } else { Ok(start) }
}

/// State and start time. The name in parentheses may itself hold spaces and parentheses: count from the last one.
pub(super) fn parse_stat(stat: &[u8]) -> Option<(u8, u64)> {
    let after_name = stat.iter().rposition(|&byte| byte == b')')? + 1;
    let rest = std::str::from_utf8(stat.get(after_name..)?).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let state = *fields.next()?.as_bytes().first()?;
    // Field 22 of the line; the state is field 3.
    let start = fields.nth(18)?.parse().ok()?;
    Some((state, start))
}

/// The file it runs; permission denied when it is not dumpable and we are not root.
pub(super) fn executable(pid: u32) -> Result<PathBuf, Gone> {
    std::fs::read_link(format!("/proc/{pid}/exe")).map_err(gone_or_unreadable)
}

/// Its arguments. World-readable, also for a process that is not dumpable.
///
/// A spawn returns to the parent a moment before the kernel has put the arguments of the new program in place; until
/// then there are none, which is waited out.
pub(super) fn arguments(pid: u32) -> Result<Vec<Vec<u8>>, Gone> {
    const TRIES: u32 = 100;
    let mut joined = read(pid, "cmdline")?;
    for _ in 0..TRIES {
        if !joined.is_empty() {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
        joined = read(pid, "cmdline")?;
    }
    Ok(joined.split(|&byte| byte == 0).map(<[u8]>::to_vec).collect())
}

/// A pidfd: names one process for good, whatever becomes of its number.
#[derive(Debug)]
pub(super) struct Grip(OwnedFd);

impl Grip {
    pub(super) fn take(identity: &ProcessIdentity) -> Result<Self, Gone> {
        let pid = rustix::process::Pid::from_raw(as_pid(identity.pid)?.as_raw()).ok_or(Gone::Ended)?;
        pidfd_open(pid, PidfdFlags::empty()).map(Self).map_err(|errno| gone_or_unreadable(errno.into()))
    }

    pub(super) fn is_alive(&self) -> bool {
        // A pidfd becomes readable when its process ends. A poll that fails says nothing: taken for alive.
        let mut fds = [PollFd::new(&self.0, PollFlags::IN)];
        !matches!(rustix::event::poll(&mut fds, Some(&rustix::event::Timespec::default())), Ok(1..))
    }

    pub(super) fn signal(&self, signal: Signal) -> Result<(), Gone> {
        let named = rustix::process::Signal::from_named_raw(signal as i32)
            .ok_or_else(|| Gone::Unreadable(io::ErrorKind::InvalidInput.into()))?;
        pidfd_send_signal(&self.0, named).map_err(|errno| gone_or_unreadable(errno.into()))
    }

    pub(super) async fn wait_gone(&self) {
        let watched = self.0.try_clone().and_then(watch);
        if let Ok(watched) = watched
            && watched.readable().await.is_ok()
        {
            return;
        }
        // Out of descriptors or of the reactor: look again and again instead.
        while self.is_alive() {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}

/// Registers a descriptor with the reactor of the runtime that we run in.
#[allow(unsafe_code, reason = "tokio asks the caller to promise what OwnedFd guarantees")]
fn watch(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: the `OwnedFd` moves into the `AsyncFd`, so the descriptor stays open, and the same, until after the
    // registration is gone.
    unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) }.map_err(io::Error::from)
}
