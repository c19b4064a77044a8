//! The `gatehouse` executable: parse, run, exit code.

#![forbid(unsafe_code)]

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use gatehouse::cli::Cli;
use gatehouse::command;
use gatehouse::failure::Exit;
use gatehouse::screen::Screen;

#[tokio::main]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    match command::run(cli, &mut Screen::stdout()).await {
        Ok(()) => Exit::Done.into(),
        Err(failure) => {
            let mut stderr = std::io::stderr();
            // Nobody is left to tell when standard error is closed.
            let _ = writeln!(stderr, "gatehouse: {failure}");
            if let Some(hint) = &failure.what_to_do {
                let _ = writeln!(stderr, "  {hint}");
            }
            failure.exit.into()
        }
    }
}
