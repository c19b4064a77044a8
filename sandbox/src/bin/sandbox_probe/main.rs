//! `sandbox-probe ATTEMPT [ARGUMENT…]`: one real attempt, and what came of it.
//!
//! It is started inside a sandbox, where the attempt must fail for the right reason, and outside of it, where the same
//! attempt must succeed (else the probe would prove nothing). It prints one line: `ok` and what was got, or `errno` and
//! the name of the error. A process that is killed prints nothing.

mod files;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "macos")]
mod macos;
mod outcome;
mod processes;
mod raw;
mod sockets;
mod strays;
mod surroundings;

#[cfg(target_os = "linux")]
use linux as system;
#[cfg(target_os = "macos")]
use macos as system;

fn main() -> std::process::ExitCode {
    let arguments: Vec<std::ffi::OsString> = std::env::args_os().skip(1).collect();
    outcome::tell(attempt(&outcome::Arguments::of(&arguments)))
}

fn attempt(arguments: &outcome::Arguments<'_>) -> outcome::Outcome {
    let areas = [
        files::attempt,
        sockets::attempt,
        processes::attempt,
        strays::attempt,
        surroundings::attempt,
        system::attempt,
    ];
    areas
        .iter()
        .find_map(|area| area(arguments))
        .unwrap_or_else(|| Err(std::io::Error::other("no such attempt")))
}
