//! `sandbox-launch REQUEST_FD STATUS_FD PARENT_PID`: becomes the program that the request names, confined by its policy.
//!
//! Started by Gatehouse's own processes only; see `gatehouse_sandbox::launch`.

fn main() -> std::process::ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    std::process::ExitCode::from(gatehouse_sandbox::launch::steps::run(&arguments))
}
