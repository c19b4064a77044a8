//! Why a command did not run.

use std::path::PathBuf;

use gatehouse_proto::codes::ActionCode;
use gatehouse_sandbox::launch::{LaunchError, Stage};
use gatehouse_sandbox::policy::RefusedCommand;

use crate::files::FileFault;

/// Why a command did not run. Nothing of it was started.
#[derive(Debug, thiserror::Error)]
pub enum CommandFault {
    /// Refused by name.
    #[error(transparent)]
    Refused(#[from] RefusedCommand),
    /// No such program.
    #[error("there is no program `{program}`{}", searched(.looked_in))]
    NoProgram {
        /// As it was asked for.
        program: String,
        /// Where it was looked for; empty when a path was given.
        looked_in: Vec<PathBuf>,
    },
    /// The working directory cannot be used.
    #[error(transparent)]
    Directory(#[from] FileFault),
    /// The working directory lies outside the session's root.
    #[error("{}: lies outside the session's root", .0.display())]
    OutsideRoot(PathBuf),
    /// The program could not be started.
    #[error("`{program}` could not be started: {}", std::io::Error::from_raw_os_error(*errno))]
    NotStarted {
        /// As it was asked for.
        program: String,
        /// The system's error number.
        errno: i32,
    },
    /// The sandbox is not to be had, so nothing is started.
    #[error("{0}")]
    Sandbox(String),
    /// The session stops.
    #[error("not started, because the session stops")]
    Cancelled,
}

fn searched(places: &[PathBuf]) -> String {
    if places.is_empty() {
        return String::new();
    }
    let places: Vec<_> = places.iter().map(|place| place.display().to_string()).collect();
    format!(" in {}", places.join(":"))
}

impl CommandFault {
    /// What a failed launch comes to. The scratch and its place outside have no part in the message.
    pub(super) fn of_launch(error: &LaunchError, program: &str) -> Self {
        match error {
            LaunchError::Step { stage: Stage::Exec, errno } => {
                Self::NotStarted { program: program.to_owned(), errno: *errno }
            }
            LaunchError::Launcher { source, .. } => {
                Self::Sandbox(format!("the sandbox launcher cannot be started: {source}"))
            }
            other => Self::Sandbox(other.to_string()),
        }
    }

    /// The code of the receipt.
    #[must_use]
    pub const fn code(&self) -> ActionCode {
        match self {
            Self::Refused(_) => ActionCode::CommandRefused,
            Self::NoProgram { .. } | Self::NotStarted { .. } => ActionCode::SpawnFailed,
            Self::Directory(fault) => fault.code(),
            Self::OutsideRoot(_) => ActionCode::OutsideRoot,
            Self::Sandbox(_) => ActionCode::SandboxUnavailable,
            Self::Cancelled => ActionCode::Cancelled,
        }
    }

    /// What the caller can do about it.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Refused(_) => "Commands are for looking and checking. Do without this program; if it is needed, ask the user to run it.".to_owned(),
            Self::NoProgram { .. } => "Name an installed program, or the absolute path of one. The user can add places to look in: config key commands.path.".to_owned(),
            Self::Directory(fault) => fault.hint(),
            Self::OutsideRoot(_) => "Leave cwd out, or name a directory below working_directory. Commands can read files elsewhere by absolute path.".to_owned(),
            Self::NotStarted { .. } => "Give a program file that can be executed; a script needs a first line with its interpreter.".to_owned(),
            Self::Sandbox(_) => "Nothing runs without its sandbox. Tell the user; `sandbox-launch --probe` says what this computer lacks.".to_owned(),
            Self::Cancelled => "Nothing was done.".to_owned(),
        }
    }
}
