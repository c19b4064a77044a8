//! `gatehouse completions` and `gatehouse man`: what clap knows of the command line, in other forms.

use clap::CommandFactory;

use crate::cli::{Cli, Completions, Man};
use crate::failure::Failure;
use crate::screen::Screen;

pub(super) fn completions(options: &Completions, screen: &mut Screen) -> Result<(), Failure> {
    let mut text = Vec::new();
    clap_complete::generate(options.shell, &mut Cli::command(), "gatehouse", &mut text);
    screen.line(String::from_utf8_lossy(&text).trim_end())?;
    Ok(())
}

/// One page for the whole, and one for each command.
pub(super) fn pages(options: &Man, screen: &mut Screen) -> Result<(), Failure> {
    let directory = &options.directory;
    let failed = |error: std::io::Error| Failure::failed(format!("{}: {error}", directory.display()));
    std::fs::create_dir_all(directory).map_err(failed)?;
    clap_mangen::generate_to(Cli::command().disable_help_subcommand(true), directory).map_err(failed)?;
    screen.line(format!("The manual pages are in {0}: `man {0}/gatehouse.1`.", directory.display()))?;
    Ok(())
}
