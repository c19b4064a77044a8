//! One file per command.

mod demo;
mod diff;
mod down;
mod prune;
mod resolve;
mod sessions;
mod show;
mod signals;
mod skills;
mod transcript;
mod undo;
mod up;
mod verify;
mod view;
mod watch;
mod worktree;

use std::path::PathBuf;

use crate::cli::{Cli, Command};
use crate::failure::Failure;
use crate::operator::{self, Operator};
use crate::screen::Screen;
use crate::settings::{Binaries, Place};

/// Runs a command to its end.
///
/// # Errors
/// With the exit code, what happened and what to do.
pub async fn run(cli: Cli, screen: &mut Screen) -> Result<(), Failure> {
    let place = cli.place;
    match cli.command {
        Command::Up(options) => up::run(place, options, screen).await,
        Command::Down => down::run(&runtime_dir(&place).await?, screen).await,
        Command::Sessions(options) => sessions::run(connect(&place).await?, &options, screen).await,
        Command::Show(options) => show::run(connect(&place).await?, options, screen).await,
        Command::Watch(options) => watch::run(connect(&place).await?, options, screen).await,
        Command::Diff(options) => diff::run(connect(&place).await?, options, screen).await,
        Command::Undo(options) => undo::run(connect(&place).await?, options, screen).await,
        Command::Resolve(options) => resolve::run(connect(&place).await?, options, screen).await,
        Command::Prune(options) => prune::run(connect(&place).await?, &options, screen).await,
        Command::Verify(options) => verify::run(connect(&place).await?, &options, screen).await,
        Command::Worktree(options) => worktree::run(connect(&place).await?, options, screen).await,
        Command::Skills(options) => skills::run(options, screen),
        Command::Demo(options) => demo::run(options, screen).await,
    }
}

async fn runtime_dir(place: &Place) -> Result<PathBuf, Failure> {
    Binaries::beside_this()?.runtime_dir(place).await
}

async fn connect(place: &Place) -> Result<Operator, Failure> {
    operator::client(&runtime_dir(place).await?)
}
