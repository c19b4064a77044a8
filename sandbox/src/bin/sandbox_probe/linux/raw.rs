//! System calls by number, and calls that no library makes.
#![allow(unsafe_code, reason = "the whole point of a probe is to make calls that nobody makes")]

use std::io;

use nix::libc;

use super::super::raw::result;

/// A system call by number; the arguments are numbers (a null pointer where a pointer is wanted).
pub fn call(number: i64, arguments: [i64; 6]) -> io::Result<i64> {
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: pointers are null or invalid, so the kernel touches none of our memory. A call that starts a process
    // returns 0 in the child, which ends at once below.
    let done = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    if done == 0 && [libc::SYS_clone, FORK].contains(&number) {
        // SAFETY: ends the child; nothing is touched.
        unsafe { libc::_exit(0) }
    }
    result(done)
}

#[cfg(target_arch = "x86_64")]
const FORK: i64 = libc::SYS_fork;
#[cfg(not(target_arch = "x86_64"))]
const FORK: i64 = -1;

/// A system call with one block of memory as one of its arguments.
pub fn call_with(number: i64, before: &[i64], block: &mut [u8], after: &[i64]) -> io::Result<i64> {
    let pointer = block.as_mut_ptr() as i64;
    let mut all = before.iter().copied().chain([pointer]).chain(after.iter().copied()).chain([0; 6]);
    let mut next = || all.next().unwrap_or(0);
    let (a, b, c, d, e, f) = (next(), next(), next(), next(), next(), next());
    // SAFETY: the block lives through the call, and whoever calls gives one that is as large as the call's structure.
    result(unsafe { libc::syscall(number, a, b, c, d, e, f) })
}

/// `socketcall(SYS_SOCKET, {AF_UNIX, SOCK_STREAM, 0})` through the 32-bit gate.
#[cfg(target_arch = "x86_64")]
pub fn old_gate() -> io::Result<i64> {
    const SOCKETCALL: u32 = 102;
    let done: i32;
    // SAFETY: the 32-bit gate cannot reach a 64-bit pointer: a null one is given, which the kernel refuses with EFAULT when
    // it gets that far. rbx is saved by hand, as the compiler keeps it for itself.
    unsafe {
        std::arch::asm!(
            "push rbx", "mov ebx, 1", "int 0x80", "pop rbx",
            inout("eax") SOCKETCALL => done,
            in("ecx") 0,
            out("r8") _, out("r9") _, out("r10") _, out("r11") _,
        );
    }
    if done < 0 { Err(io::Error::from_raw_os_error(-done)) } else { Ok(done.into()) }
}
