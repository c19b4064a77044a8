//! `sandbox-launch ORDER_FD STATUS_FD [CONTROL_FD]`: becomes the program that the order names, or keeps it in a sandbox.
//! `sandbox-launch --probe [--json]`: says which layers of the sandbox this host gives.
//!
//! Without `--probe` it is started by Gatehouse's own processes only; see `gatehouse_sandbox::launch`.

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    ExitCode::from(match arguments.split_first() {
        Some((first, rest)) if first == "--probe" => gatehouse_sandbox::probe::run(rest),
        _ => gatehouse_sandbox::launch::steps::run(&arguments),
    })
}
