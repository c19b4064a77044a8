//! One file per command.

mod demo;
mod diff;
mod doctor;
mod down;
mod export;
pub(crate) mod install;
mod manual;
mod progress;
mod prune;
mod resolve;
mod sessions;
mod show;
mod signals;
mod skills;
mod transcript;
mod tunnel_profile;
mod undo;
mod up;
mod verify;
pub(crate) mod view;
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
        Command::Down => down::run(&place, screen).await,
        Command::Doctor(options) => doctor::run(place, &options, screen).await,
        Command::Install(options) => install::install(place, options, screen).await,
        Command::Uninstall(options) => install::uninstall(place, options, screen).await,
        Command::Completions(options) => manual::completions(&options, screen),
        Command::Man(options) => manual::pages(&options, screen),
        Command::Sessions(options) => sessions::run(connect(&place).await?, &options, screen).await,
        Command::Show(options) => show::run(connect(&place).await?, options, screen).await,
        Command::Watch(options) => watch::run(connect(&place).await?, options, screen).await,
        Command::Diff(options) => diff::run(connect(&place).await?, options, screen).await,
        Command::Undo(options) => undo::run(connect(&place).await?, options, screen).await,
        Command::Resolve(options) => resolve::run(connect(&place).await?, options, screen).await,
        Command::Prune(options) => prune::run(connect(&place).await?, &options, screen).await,
        Command::Verify(options) => verify::run(connect(&place).await?, &place, &options, screen).await,
        Command::Export(options) => export::run(connect(&place).await?, options, screen).await,
        Command::Worktree(options) => worktree::run(connect(&place).await?, options, screen).await,
        Command::TunnelProfile(options) => tunnel_profile::run(&place, options, screen).await,
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
