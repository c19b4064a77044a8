//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::settings::Place;

/// Gatehouse: ChatGPT as the only brain of a local Claude Code session.
#[derive(Debug, Parser)]
#[command(name = "gatehouse", version, disable_help_subcommand = true, arg_required_else_help = true)]
#[command(after_help = "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 no gateway answers.")]
pub struct Cli {
    /// Which gateway.
    #[command(flatten)]
    pub place: Place,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What can be done.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start the gateway in the foreground; Ctrl-C ends it and its sessions
    Up(Up),
    /// End the gateway and its sessions
    Down,
    /// List sessions
    Sessions(Sessions),
    /// Show one session: state, pending turn, actions
    Show(Show),
    /// Follow what happens, as it happens
    Watch(Watch),
    /// Check the ledger's chain from the first entry to the last
    Verify(Json),
    /// List the worktrees of sessions, or remove one
    #[command(subcommand)]
    Worktree(Worktree),
    /// Run a whole session of the real Claude Code on a directory, with a scripted ChatGPT
    Demo(Demo),
}

/// `gatehouse up`.
#[derive(Debug, Args)]
pub struct Up {
    /// Where the front listens: ADDRESS:PORT on loopback (port 0: any free one) or unix:PATH
    #[arg(long, value_name = "WHERE")]
    pub listen: Option<String>,
    /// Print one JSON line when ready
    #[arg(long)]
    pub json: bool,
}

/// `gatehouse sessions`.
#[derive(Debug, Args)]
pub struct Sessions {
    /// Also those that are stopped
    #[arg(long)]
    pub all: bool,
    /// Print a JSON array
    #[arg(long)]
    pub json: bool,
}

/// `gatehouse show`.
#[derive(Debug, Args)]
pub struct Show {
    /// The session's id
    #[arg(value_name = "ID")]
    pub session: String,
    /// Print a JSON object
    #[arg(long)]
    pub json: bool,
}

/// `gatehouse watch`.
#[derive(Debug, Args)]
pub struct Watch {
    /// Only this session
    #[arg(value_name = "ID")]
    pub session: Option<String>,
    /// Begin at this sequence number of the journal; 0 is its beginning [default: only what is new]
    #[arg(long, value_name = "SEQ")]
    pub from: Option<u64>,
    /// Print one JSON object per line
    #[arg(long)]
    pub json: bool,
}

/// A command whose only option is the form of its output.
#[derive(Debug, Args)]
pub struct Json {
    /// Print a JSON object
    #[arg(long)]
    pub json: bool,
}

/// `gatehouse worktree`.
#[derive(Debug, Subcommand)]
pub enum Worktree {
    /// List the worktrees that there are, with what has changed in each
    List(Json),
    /// Remove the worktree of a session that has ended
    Remove(RemoveWorktree),
}

/// `gatehouse worktree remove`.
#[derive(Debug, Args)]
pub struct RemoveWorktree {
    /// The session's id
    #[arg(value_name = "ID")]
    pub session: String,
    /// First save all changes in it to this new file, for `git apply`
    #[arg(long, value_name = "FILE")]
    pub save_patch: Option<PathBuf>,
    /// Print a JSON object
    #[arg(long)]
    pub json: bool,
}

/// `gatehouse demo`.
#[derive(Debug, Args)]
pub struct Demo {
    /// The directory to look at [default: the repository around the current directory]
    #[arg(value_name = "DIRECTORY")]
    pub directory: Option<PathBuf>,
    /// Claude Code's executable
    #[arg(long, value_name = "PATH", env = "CLAUDE_BIN")]
    pub claude: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
