//! What a program finds around itself: its environment and arguments, terminals, memory that others share.

use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{Mode, OFlags};
use rustix::pty::OpenptFlags;

use super::outcome::{Arguments, Outcome};
use super::raw::{self, SystemV};

pub fn attempt(arguments: &Arguments<'_>) -> Option<Outcome> {
    let found = |found: io::Result<i64>| found.map(|value| value.to_string());
    Some(match arguments.name {
        "terminal" => terminal(),
        "type-into" => {
            raw::inherited(arguments.small(0)).and_then(raw::type_into).map(|value| value.to_string())
        }
        "environment" => {
            Ok(std::env::vars().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" "))
        }
        "variable" => std::env::var(arguments.text(0)).map_err(|_| nix::errno::Errno::ENOENT.into()),
        "arguments" => Ok(echo(arguments)),
        "shared-memory" => found(raw::find(SystemV::Memory, arguments.small(0))),
        "semaphores" => found(raw::find(SystemV::Semaphores, arguments.small(0))),
        _ => return None,
    })
}

/// A pseudo-terminal pair: written to on one side, read on the other.
fn terminal() -> Outcome {
    let master = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
    rustix::pty::grantpt(&master)?;
    rustix::pty::unlockpt(&master)?;
    let path = rustix::pty::ptsname(&master, Vec::new())?;
    let slave = rustix::fs::open(path, OFlags::RDWR | OFlags::NOCTTY, Mode::empty())?;
    std::fs::File::from(slave).write_all(b"hello\n")?;
    let mut text = [0; 5];
    std::fs::File::from(master).read_exact(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn echo(arguments: &Arguments<'_>) -> String {
    let hex = |at| arguments.text(at).as_bytes().iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    (0..arguments.count()).map(hex).collect::<Vec<_>>().join("/")
}
