//! Running a command that ChatGPT asked for: exactly its arguments, inside the sandbox, within bounds.
//!
//! [`Commands::plan`] looks at the command line and at the disk, and starts nothing: what is refused is refused here.
//! [`Commands::run`] starts it once, watches it, and comes back when every process of it is gone, however it was
//! detached. Whether and when it may run is not decided here.

mod environment;
mod fault;
mod hidden;
mod output;
mod plan;
mod program;
mod run;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use gatehouse_sandbox::launch::{Confinement, LaunchRequest, Launcher};
use gatehouse_sandbox::policy::{CommandRules, CommandRulesError};
use serde::{Deserialize, Serialize};

use crate::config::CommandSettings;
use crate::files::FilePolicy;

pub use environment::{SAFE_VARIABLES, Variable, is_safe as is_safe_variable};
pub use fault::CommandFault;
pub use hidden::HiddenCount;
pub use output::{Kept, KeptOutput};
pub use plan::Places;
pub use run::{Finished, Progress, StoppedBy};

/// The longest time that a command may be given, in seconds.
pub const MOST_SECONDS: u64 = 1800;
/// The time that it has if it asks for none, in seconds.
pub const USUAL_SECONDS: u64 = 120;

/// A command as it is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandCall {
    /// The program and its arguments; no shell reads them.
    pub argv: Vec<String>,
    /// Where it runs; the session's root without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// What it reads; nothing without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// How long it may run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u64>,
    /// Further variables of its environment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, String>>,
}

/// A command that may be started.
#[derive(Debug)]
pub struct Plan {
    request: LaunchRequest,
    confinement: Confinement,
    stdin: Option<String>,
    /// What of the session's root is hidden from it.
    pub hidden: HiddenCount,
}

/// The room. One for the whole executor.
#[derive(Debug)]
pub struct Commands {
    launcher: Result<Launcher, String>,
    rules: CommandRules,
    settings: CommandSettings,
    policy: Arc<FilePolicy>,
    surveys: hidden::Surveys,
}

impl Commands {
    /// Commands under these rules. Without a launcher (the helper program is not beside the executor) every command is
    /// refused, and told why.
    ///
    /// # Errors
    /// When the rules that come with Gatehouse are broken.
    pub fn new(
        settings: CommandSettings,
        policy: Arc<FilePolicy>,
        launcher: Option<PathBuf>,
    ) -> Result<Self, CommandRulesError> {
        Ok(Self {
            launcher: launcher
                .map(Launcher::at)
                .ok_or_else(|| "sandbox-launch is not installed beside executor-svc".to_owned()),
            rules: CommandRules::built_in()?,
            settings,
            policy,
            surveys: hidden::Surveys::default(),
        })
    }
}
