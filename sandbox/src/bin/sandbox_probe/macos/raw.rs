//! Calls of macOS that no library makes safe.
#![allow(unsafe_code, reason = "the whole point of a probe is to make calls that nobody makes")]

use std::ffi::{CString, OsStr};
use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::libc;

use super::super::outcome::Outcome;
use super::super::raw::result;

fn text(text: &OsStr) -> io::Result<CString> {
    CString::new(text.as_bytes()).map_err(io::Error::other)
}

/// A copy that shares the blocks of the original.
pub fn clone_file(from: &Path, to: &Path) -> io::Result<()> {
    let (from, to) = (text(from.as_os_str())?, text(to.as_os_str())?);
    // SAFETY: both texts end with a zero and live through the call.
    result(unsafe { libc::clonefile(from.as_ptr(), to.as_ptr(), 0) }.into()).map(drop)
}

/// Arguments and environment of a process.
pub fn arguments_of(pid: i32) -> Outcome {
    let mut name = [libc::CTL_KERN, libc::KERN_PROCARGS2, pid];
    let mut buffer = vec![0_u8; 1024 * 1024];
    let mut size = buffer.len();
    // SAFETY: name and buffer are ours, with their true lengths; `size` comes back as what was written.
    let done = unsafe {
        libc::sysctl(name.as_mut_ptr(), 3, buffer.as_mut_ptr().cast(), &raw mut size, std::ptr::null_mut(), 0)
    };
    result(done.into())?;
    buffer.truncate(size);
    Ok(String::from_utf8_lossy(&buffer).replace(['\n', '\0'], " "))
}

/// What the system tells of a process.
pub fn information_of(pid: i32) -> io::Result<()> {
    let mut info = MaybeUninit::<libc::proc_bsdinfo>::zeroed();
    let size = i32::try_from(size_of::<libc::proc_bsdinfo>()).map_err(io::Error::other)?;
    // SAFETY: the buffer is ours and `size` bytes long; the call writes at most that much.
    let written =
        unsafe { libc::proc_pidinfo(pid, libc::PROC_PIDTBSDINFO, 0, info.as_mut_ptr().cast(), size) };
    if written == size { Ok(()) } else { Err(io::Error::last_os_error()) }
}

unsafe extern "C" {
    static mach_task_self_: u32;
    static bootstrap_port: u32;
    fn task_for_pid(target: u32, pid: i32, task: *mut u32) -> i32;
    fn bootstrap_look_up(bootstrap: u32, name: *const libc::c_char, service: *mut u32) -> i32;
}

/// The kernel's answer is no error number; any refusal counts as `EPERM`.
fn answered(kernel: i32) -> io::Result<()> {
    if kernel == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::EPERM)) }
}

/// Control over a process.
pub fn task_of(pid: i32) -> io::Result<()> {
    let mut task = 0;
    // SAFETY: the first is set before `main`; the last is ours and lives through the call.
    answered(unsafe { task_for_pid(mach_task_self_, pid, &raw mut task) })
}

/// A service of the system, by name.
pub fn look_up(name: &OsStr) -> io::Result<()> {
    let name = text(name)?;
    let mut service = 0;
    // SAFETY: the port is set before `main`; the text ends with a zero; the last is ours.
    answered(unsafe { bootstrap_look_up(bootstrap_port, name.as_ptr(), &raw mut service) })
}

/// Starts a program in a session of its own without calling `setsid`.
pub fn spawn_in_session(program: &Path, argument: &OsStr) -> io::Result<()> {
    const SETSID: libc::c_short = 0x0400;
    let (program, argument) = (text(program.as_os_str())?, text(argument)?);
    let argv = [program.as_ptr().cast_mut(), argument.as_ptr().cast_mut(), std::ptr::null_mut()];
    let environment = [std::ptr::null_mut()];
    let mut attributes: libc::posix_spawnattr_t = std::ptr::null_mut();
    let mut pid = 0;
    // SAFETY: the attributes are initialised before use; texts and arrays end as the calls want and live through them.
    let done = unsafe {
        libc::posix_spawnattr_init(&raw mut attributes);
        libc::posix_spawnattr_setflags(&raw mut attributes, SETSID);
        let done = libc::posix_spawn(
            &raw mut pid,
            program.as_ptr(),
            std::ptr::null(),
            &raw const attributes,
            argv.as_ptr(),
            environment.as_ptr(),
        );
        libc::posix_spawnattr_destroy(&raw mut attributes);
        done
    };
    if done == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(done)) }
}
