//! The `mcp-front` program.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use mcp_front::cli::Arguments;
use mcp_front::service;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    service::log_to_stderr(arguments.common().log_format);
    match service::run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error}");
            ExitCode::FAILURE
        }
    }
}
