//! macOS: libproc and `KERN_PROCARGS2` for the identity; there is no handle on a process, so the identity is proven
//! anew before each signal, and watched by looking again.
#![allow(
    unsafe_code,
    reason = "libproc and sysctl have no safe wrapper; each call fills a buffer that we own"
)]

use std::ffi::{CStr, OsStr};
use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use nix::libc;

use super::{Gone, ProcessIdentity, Signal, as_pid};

fn last_error() -> Gone {
    let error = io::Error::last_os_error();
    if error.raw_os_error() == Some(libc::ESRCH) { Gone::Ended } else { Gone::Unreadable(error) }
}

fn malformed(what: &'static str) -> Gone {
    Gone::Unreadable(io::Error::new(io::ErrorKind::InvalidData, what))
}

/// Microseconds since 1970.
pub(super) fn start_time(pid: u32) -> Result<u64, Gone> {
    let raw = as_pid(pid)?.as_raw();
    let size =
        libc::c_int::try_from(size_of::<libc::proc_bsdinfo>()).map_err(|_| malformed("proc_bsdinfo"))?;
    let mut info = MaybeUninit::<libc::proc_bsdinfo>::zeroed();
    // SAFETY: the buffer is ours and `size` bytes long; the call writes at most that much.
    let written =
        unsafe { libc::proc_pidinfo(raw, libc::PROC_PIDTBSDINFO, 0, info.as_mut_ptr().cast(), size) };
    if written != size {
        return Err(last_error());
    }
    // SAFETY: plain integers, zeroed before and filled by the call; every bit pattern is a value.
    let info = unsafe { info.assume_init() };
    if info.pbi_status == libc::SZOMB {
        return Err(Gone::Ended);
    }
    Ok(info.pbi_start_tvsec.saturating_mul(1_000_000).saturating_add(info.pbi_start_tvusec))
}

/// The file it runs.
pub(super) fn executable(pid: u32) -> Result<PathBuf, Gone> {
    let raw = as_pid(pid)?.as_raw();
    let mut path = vec![0_u8; 4096];
    let size = u32::try_from(path.len()).map_err(|_| malformed("path"))?;
    // SAFETY: the buffer is ours and `size` bytes long; the call writes at most that much.
    let written = unsafe { libc::proc_pidpath(raw, path.as_mut_ptr().cast(), size) };
    let length = usize::try_from(written).ok().filter(|&length| length > 0).ok_or_else(last_error)?;
    path.truncate(length);
    Ok(PathBuf::from(OsStr::from_bytes(&path)))
}

/// Its arguments: `KERN_PROCARGS2` gives argc, the executable's path, padding, then the arguments, each ended by NUL.
pub(super) fn arguments(pid: u32) -> Result<Vec<Vec<u8>>, Gone> {
    let mut name = [libc::CTL_KERN, libc::KERN_PROCARGS2, as_pid(pid)?.as_raw()];
    let mut buffer = vec![0_u8; 1024 * 1024];
    let mut size = buffer.len();
    // SAFETY: name and buffer are ours, with their true lengths; `size` comes back as what was written.
    let done = unsafe {
        libc::sysctl(name.as_mut_ptr(), 3, buffer.as_mut_ptr().cast(), &mut size, std::ptr::null_mut(), 0)
    };
    if done != 0 {
        return Err(last_error());
    }
    buffer.truncate(size);
    parse_arguments(&buffer).ok_or_else(|| malformed("KERN_PROCARGS2"))
}

fn parse_arguments(buffer: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (count, rest) = buffer.split_first_chunk::<4>()?;
    let count = usize::try_from(i32::from_ne_bytes(*count)).ok()?;
    let path = CStr::from_bytes_until_nul(rest).ok()?.to_bytes().len();
    let first = path + rest.get(path..)?.iter().position(|&byte| byte != 0)?;
    Some(rest.get(first..)?.split(|&byte| byte == 0).take(count).map(<[u8]>::to_vec).collect())
}

/// There is nothing to hold; the identity is all.
#[derive(Debug)]
pub(super) struct Grip(ProcessIdentity);

impl Grip {
    pub(super) fn take(identity: &ProcessIdentity) -> Result<Self, Gone> {
        Ok(Self(identity.clone()))
    }

    pub(super) fn is_alive(&self) -> bool {
        !self.0.prove().is_err_and(|gone| gone.is_proven())
    }

    pub(super) fn signal(&self, signal: Signal) -> Result<(), Gone> {
        self.0.prove()?;
        nix::sys::signal::kill(as_pid(self.0.pid)?, signal).map_err(|errno| match errno {
            nix::errno::Errno::ESRCH => Gone::Ended,
            other => Gone::Unreadable(other.into()),
        })
    }

    pub(super) async fn wait_gone(&self) {
        while self.is_alive() {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}
