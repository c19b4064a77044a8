//! `sandbox-launch ORDER_FD STATUS_FD [CONTROL_FD]`: becomes the program that the order names, or keeps it in a sandbox.
//!
//! Started by Gatehouse's own processes only; see `gatehouse_sandbox::launch`.

fn main() -> std::process::ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    std::process::ExitCode::from(gatehouse_sandbox::launch::steps::run(&arguments))
}
