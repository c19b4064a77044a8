//! What can be attempted on Linux only: system calls by number, foreign gates, abstract sockets, TCP's special doors.

use std::io;
use std::net::SocketAddr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixStream};
use std::os::unix::process::CommandExt;

use nix::libc;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

use super::outcome::{Arguments, Outcome};

mod raw;

pub fn attempt(arguments: &Arguments<'_>) -> Option<Outcome> {
    let done = |done: io::Result<()>| done.map(|()| String::new());
    let pid = i64::from(arguments.small(0));
    Some(match arguments.name {
        "call" => call(arguments),
        "x32" => x32(),
        "old-gate" => old_gate(),
        "unmount" => done(
            rustix::mount::unmount(arguments.path(0), rustix::mount::UnmountFlags::DETACH)
                .map_err(io::Error::from),
        ),
        "pidfd" => raw::call(libc::SYS_pidfd_open, [pid, 0, 0, 0, 0, 0]).map(|_| String::new()),
        // Seizing, not attaching: attaching to the first process would stop it, and with it the sandbox.
        "trace" => raw::call(libc::SYS_ptrace, [0x4206, pid, 0, 0, 0, 0]).map(|_| String::new()),
        "message-queue" => message_queue(arguments.small(0)),
        "connect-multipath" => connect_special(arguments, 262),
        "fast-open" => fast_open(arguments),
        "fast-open-option" => fast_open_option(arguments),
        "connect-abstract" => done(connect_abstract(arguments)),
        "connect-abstract-from-a-thread" => {
            std::thread::scope(|scope| scope.spawn(|| done(connect_abstract(arguments))).join())
                .unwrap_or_else(|_| Err(io::Error::other("the thread panicked")))
        }
        "without-landlock" => without_landlock(arguments),
        _ => return None,
    })
}

/// A call by number, with numbers as its arguments.
fn call(arguments: &Arguments<'_>) -> Outcome {
    let values = [1, 2, 3, 4, 5, 6].map(|at| arguments.number(at));
    raw::call(arguments.number(0), values).map(|value| value.to_string())
}

/// `socket` under its x32 number.
#[cfg(target_arch = "x86_64")]
fn x32() -> Outcome {
    let call = [libc::AF_UNIX.into(), libc::SOCK_STREAM.into(), 0, 0, 0, 0];
    raw::call(libc::SYS_socket | 0x4000_0000, call).map(|value| value.to_string())
}

#[cfg(not(target_arch = "x86_64"))]
fn x32() -> Outcome {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(target_arch = "x86_64")]
fn old_gate() -> Outcome {
    raw::old_gate().map(|value| value.to_string())
}

#[cfg(not(target_arch = "x86_64"))]
fn old_gate() -> Outcome {
    Err(io::ErrorKind::Unsupported.into())
}

/// Looks for a System V queue by its key.
fn message_queue(key: i32) -> Outcome {
    raw::call(libc::SYS_msgget, [key.into(), 0, 0, 0, 0, 0]).map(|value| value.to_string())
}

fn sockaddr(to: &str) -> io::Result<[u8; 16]> {
    let Ok(SocketAddr::V4(to)) = to.parse() else { return Err(io::ErrorKind::InvalidInput.into()) };
    let mut bytes = [0; 16];
    let family = u16::try_from(libc::AF_INET).unwrap_or(2).to_ne_bytes();
    let parts = family.into_iter().chain(to.port().to_be_bytes()).chain(to.ip().octets());
    bytes.iter_mut().zip(parts).for_each(|(to, from)| *to = from);
    Ok(bytes)
}

fn stream_socket(protocol: i64) -> io::Result<i64> {
    raw::call(libc::SYS_socket, [libc::AF_INET.into(), libc::SOCK_STREAM.into(), protocol, 0, 0, 0])
}

fn connect_special(arguments: &Arguments<'_>, protocol: i64) -> Outcome {
    let mut to = sockaddr(arguments.text(0).to_str().unwrap_or(""))?;
    let socket = stream_socket(protocol)?;
    raw::call_with(libc::SYS_connect, &[socket], &mut to, &[16]).map(|_| String::new())
}

/// Connects and sends in one call, which Landlock's rule for connecting does not see.
fn fast_open(arguments: &Arguments<'_>) -> Outcome {
    let mut to = sockaddr(arguments.text(0).to_str().unwrap_or(""))?;
    let socket = stream_socket(0)?;
    let flags = libc::MSG_FASTOPEN.into();
    raw::call_with(libc::SYS_sendto, &[socket, 0, 0, flags], &mut to, &[16]).map(|_| String::new())
}

fn fast_open_option(arguments: &Arguments<'_>) -> Outcome {
    let socket = stream_socket(0)?;
    let mut on = 1_i32.to_ne_bytes();
    let option = [socket, libc::IPPROTO_TCP.into(), libc::TCP_FASTOPEN_CONNECT.into()];
    raw::call_with(libc::SYS_setsockopt, &option, &mut on, &[4])?;
    let mut to = sockaddr(arguments.text(0).to_str().unwrap_or(""))?;
    raw::call_with(libc::SYS_connect, &[socket], &mut to, &[16]).map(|_| String::new())
}

fn connect_abstract(arguments: &Arguments<'_>) -> io::Result<()> {
    let name = arguments.text(0).to_str().unwrap_or("");
    UnixStream::connect_addr(&UnixAddress::from_abstract_name(name)?).map(drop)
}

/// Becomes another program, for which the kernel has no Landlock.
fn without_landlock(arguments: &Arguments<'_>) -> Outcome {
    let calls =
        [libc::SYS_landlock_create_ruleset, libc::SYS_landlock_add_rule, libc::SYS_landlock_restrict_self];
    let missing = SeccompAction::Errno(libc::ENOSYS.cast_unsigned());
    let architecture = std::env::consts::ARCH.try_into().map_err(io::Error::other)?;
    let rules = calls.map(|call| (call, Vec::new())).into();
    let filter =
        SeccompFilter::new(rules, SeccompAction::Allow, missing, architecture).map_err(io::Error::other)?;
    let program = BpfProgram::try_from(filter).map_err(io::Error::other)?;
    seccompiler::apply_filter(&program).map_err(io::Error::other)?;
    let mut next = std::process::Command::new(arguments.text(0));
    Err(next.args((1..arguments.count()).map(|at| arguments.text(at))).exec())
}
