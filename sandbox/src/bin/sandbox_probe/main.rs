//! `sandbox-probe ATTEMPT [ARGUMENT…]`: one real attempt, and what came of it.
//!
//! It is started inside a sandbox, where the attempt must fail for the right reason, and outside of it, where the same
//! attempt must succeed (else the probe would prove nothing). It prints one line: `ok` and what was got, or `errno` and
//! the name of the error. A process that is killed prints nothing.

#[cfg(target_os = "linux")]
mod files;
#[cfg(target_os = "linux")]
mod kernel;
#[cfg(target_os = "linux")]
mod outcome;
#[cfg(target_os = "linux")]
mod processes;
#[cfg(target_os = "linux")]
mod raw;
#[cfg(target_os = "linux")]
mod sockets;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    let arguments: Vec<std::ffi::OsString> = std::env::args_os().skip(1).collect();
    outcome::tell(attempt(&outcome::Arguments::of(&arguments)))
}

#[cfg(target_os = "linux")]
fn attempt(arguments: &outcome::Arguments<'_>) -> outcome::Outcome {
    let areas = [files::attempt, sockets::attempt, processes::attempt, kernel::attempt];
    areas
        .iter()
        .find_map(|area| area(arguments))
        .unwrap_or_else(|| Err(std::io::Error::other("no such attempt")))
}

#[cfg(not(target_os = "linux"))]
fn main() {}
