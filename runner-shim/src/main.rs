//! `runner-shim --runner-socket PATH --run-nonce HEX`, with the link token on standard input; started by `executor-svc`.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    runner_shim::run(&runner_shim::Args::parse())
}
