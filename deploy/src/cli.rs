//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use gatehouse_proto::skill::SkillId;

use crate::install::Manager;
use crate::settings::Place;
use crate::tunnel::TunnelId;

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
    /// Look at everything that has to be in its place, and tell what to do about what is not
    Doctor(Doctor),
    /// Make two services of the gateway, which start with your log-in (systemd user units, LaunchAgents)
    Install(Install),
    /// Take the services away again; state stays
    Uninstall(Uninstall),
    /// List sessions
    Sessions(Sessions),
    /// Show one session: state, pending turn, actions
    Show(Show),
    /// Follow what happens, as it happens
    Watch(Watch),
    /// Show what an action changed in its file
    Diff(Action),
    /// Undo what an action changed, if its file is still what the action left; an undo can be undone too
    Undo(Undo),
    /// Decide what an action comes to of which nobody can tell whether it was made
    Resolve(Resolve),
    /// Remove what was kept for showing and undoing the changes of sessions that ended long ago
    Prune(Prune),
    /// Check the ledger's chain from the first entry to the last, and everything that was kept of files
    Verify(Json),
    /// List the worktrees of sessions, or remove one
    #[command(subcommand)]
    Worktree(Worktree),
    /// Write one session as an HTML page that stands by itself
    Export(Export),
    /// Print the profile with which OpenAI's tunnel-client reaches this gateway
    TunnelProfile(TunnelProfile),
    /// What an allowlist of skills needs to know
    #[command(subcommand)]
    Skills(Skills),
    /// Run a whole session of the real Claude Code on a directory, with a scripted ChatGPT
    Demo(Demo),
    /// Print the completions of a shell
    Completions(Completions),
    /// Write the manual pages into a directory
    Man(Man),
}

/// `gatehouse doctor`.
#[derive(Debug, Args)]
pub struct Doctor {
    /// Where the front listens [default: where the gateway that runs says, else as configured]
    #[arg(long, value_name = "WHERE")]
    pub listen: Option<String>,
    /// Print a JSON object
    #[arg(long)]
    pub json: bool,
}

/// `gatehouse install`.
#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub struct Install {
    /// Only print what would be installed
    #[arg(long)]
    pub dry_run: bool,
    /// Write the files below this directory instead of /, and start nothing
    #[arg(long, visible_alias = "prefix", value_name = "DIR")]
    pub root: Option<PathBuf>,
    /// Write the files, and start nothing
    #[arg(long)]
    pub no_start: bool,
    /// Overwrite files that were changed since, or are somebody else's
    #[arg(long)]
    pub force: bool,
    /// Install for root, which lets ChatGPT work as root
    #[arg(long)]
    pub as_root: bool,
    /// Where the front listens: ADDRESS:PORT on loopback or unix:PATH [default: as configured]
    #[arg(long, value_name = "WHERE")]
    pub listen: Option<String>,
    /// For which service manager [default: this system's]
    #[arg(long, value_enum)]
    pub manager: Option<Manager>,
}

/// `gatehouse uninstall`.
#[derive(Debug, Args)]
pub struct Uninstall {
    /// Below this directory instead of /, as it was installed
    #[arg(long, visible_alias = "prefix", value_name = "DIR")]
    pub root: Option<PathBuf>,
}

/// `gatehouse completions`.
#[derive(Debug, Args)]
pub struct Completions {
    /// The shell
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

/// `gatehouse man`.
#[derive(Debug, Args)]
pub struct Man {
    /// The directory, for example ~/.local/share/man/man1
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
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

/// One action of a session.
#[derive(Debug, Args)]
pub struct Action {
    /// The session's id
    #[arg(value_name = "ID")]
    pub session: String,
    /// The action's id, as `gatehouse show` lists it
    #[arg(value_name = "ACTION")]
    pub action: String,
    /// Print a JSON object
    #[arg(long)]
    pub json: bool,
}

/// `gatehouse undo`.
#[derive(Debug, Args)]
pub struct Undo {
    /// Which action.
    #[command(flatten)]
    pub action: Action,
    /// An id of this request; asking again with it is the same request [default: a new one]
    #[arg(long, value_name = "KEY")]
    pub request_id: Option<String>,
}

/// `gatehouse resolve`.
#[derive(Debug, Args)]
pub struct Resolve {
    /// Which action.
    #[command(flatten)]
    pub action: Action,
    /// What was decided.
    #[command(flatten)]
    pub decision: Decision,
    /// An id of this request; asking again with it is the same request [default: a new one]
    #[arg(long, value_name = "KEY")]
    pub request_id: Option<String>,
}

/// What becomes of an uncertain change: exactly one of the three.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct Decision {
    /// Keep what is on the disk
    #[arg(long)]
    pub keep_disk: bool,
    /// Make the file what it was before the action
    #[arg(long)]
    pub restore_before: bool,
    /// Make the file what the action should have made of it
    #[arg(long)]
    pub restore_after: bool,
}

/// A length of time as people write it.
fn duration(text: &str) -> Result<std::time::Duration, String> {
    humantime::parse_duration(text)
        .map_err(|_| "write a number and a unit, for example 30d or 12h".to_owned())
}

/// `gatehouse prune`.
#[derive(Debug, Args)]
pub struct Prune {
    /// Only sessions that ended at least so long ago, for example 30d or 12h
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub older_than: Duration,
    /// Only tell what would be removed
    #[arg(long)]
    pub dry_run: bool,
    /// Print a JSON object
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

/// `gatehouse export`.
#[derive(Debug, Args)]
pub struct Export {
    /// The session's id
    #[arg(value_name = "ID")]
    pub session: String,
    /// Write to this new file [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// `gatehouse tunnel-profile`.
#[derive(Debug, Args)]
pub struct TunnelProfile {
    /// The tunnel's id, as the Tunnels page shows it
    #[arg(value_name = "TUNNEL_ID")]
    pub tunnel_id: TunnelId,
    /// The file that holds the runtime API key [default: the variable CONTROL_PLANE_API_KEY]
    #[arg(long, value_name = "FILE")]
    pub api_key_file: Option<PathBuf>,
    /// Let tunnel-client start the front itself, on standard input and output: one call at a time
    #[arg(long)]
    pub stdio: bool,
    /// Write to this new file [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Take the place of a file that is there
    #[arg(long, requires = "output")]
    pub force: bool,
}

/// `gatehouse skills`.
#[derive(Debug, Subcommand)]
pub enum Skills {
    /// Print the entry of the allowlist that pins a SKILL.md as it is now
    Hash(HashSkill),
}

/// `gatehouse skills hash`.
#[derive(Debug, Args)]
pub struct HashSkill {
    /// The SKILL.md; - reads standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The skill's id [default: by where the file lies, if that says it]
    #[arg(long, value_name = "PREFIX:NAME")]
    pub id: Option<SkillId>,
    /// Print the entry alone, as a JSON object
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

    #[test]
    fn a_decision_is_exactly_one_of_three_and_a_duration_has_a_unit() {
        let parses = |line: &str| Cli::try_parse_from(line.split(' ')).is_ok();
        for decision in ["--keep-disk", "--restore-before", "--restore-after"] {
            assert!(parses(&format!("gatehouse resolve ns_0 toolu_0 {decision}")));
        }
        assert!(!parses("gatehouse resolve ns_0 toolu_0"));
        assert!(!parses("gatehouse resolve ns_0 toolu_0 --keep-disk --restore-after"));
        assert!(parses("gatehouse prune --older-than 30d --dry-run"));
        assert!(!parses("gatehouse prune --older-than 30") && !parses("gatehouse prune"));
    }
}
