//! Attempts on the kernel: system calls by number, foreign gates, terminals.

use std::os::unix::fs::OpenOptionsExt;

use nix::libc;

use super::outcome::{Arguments, Outcome};
use super::raw;

pub fn attempt(arguments: &Arguments<'_>) -> Option<Outcome> {
    Some(match arguments.name {
        "call" => call(arguments),
        "x32" => x32(),
        "old-gate" => old_gate(),
        "terminal" => terminal(),
        "environment" => {
            Ok(std::env::vars().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" "))
        }
        "arguments" => Ok(echo(arguments)),
        "shared-memory" => shared_memory(arguments.small(0)),
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
    Err(std::io::ErrorKind::Unsupported.into())
}

#[cfg(target_arch = "x86_64")]
fn old_gate() -> Outcome {
    raw::old_gate().map(|value| value.to_string())
}

#[cfg(not(target_arch = "x86_64"))]
fn old_gate() -> Outcome {
    Err(std::io::ErrorKind::Unsupported.into())
}

/// A pseudo-terminal pair: written to on one side, read on the other.
fn terminal() -> Outcome {
    use std::io::{Read, Write};
    use std::os::fd::AsRawFd;
    let mut master = std::fs::OpenOptions::new().read(true).write(true).open("/dev/ptmx")?;
    let fd = i64::from(master.as_raw_fd());
    let mut number = [0; 4];
    raw::call_with(
        libc::SYS_ioctl,
        &[fd, i64::try_from(libc::TIOCSPTLCK).unwrap_or(0)],
        &mut number.clone(),
        &[],
    )?;
    raw::call_with(libc::SYS_ioctl, &[fd, i64::try_from(libc::TIOCGPTN).unwrap_or(0)], &mut number, &[])?;
    let path = format!("/dev/pts/{}", u32::from_ne_bytes(number));
    let mut slave =
        std::fs::OpenOptions::new().read(true).write(true).custom_flags(libc::O_NOCTTY).open(path)?;
    slave.write_all(b"hello\n")?;
    let mut text = [0; 5];
    master.read_exact(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn echo(arguments: &Arguments<'_>) -> String {
    use std::os::unix::ffi::OsStrExt;
    let hex = |at| arguments.text(at).as_bytes().iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    (0..arguments.count()).map(hex).collect::<Vec<_>>().join("/")
}

/// Looks for a System V segment by its key.
fn shared_memory(key: i32) -> Outcome {
    raw::call(libc::SYS_shmget, [key.into(), 1, 0, 0, 0, 0]).map(|value| value.to_string())
}
