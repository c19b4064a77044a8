//! The settings of the gateway: flags beat environment beats file beats default.
//!
//! This is the only place that reads the configuration file. `gatehouse up` learns what it says by
//! `executor-svc --check-config`.

mod deepseek;
mod file;
mod keys;
mod paths;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

pub use deepseek::{DeepseekSettings, Route, RouteModel};
pub use file::{HardLinks, LogFormat, Mirror, NetworkFileSystems, Protocols, WithoutExchange};
pub use keys::{KEYS, Key};
pub use paths::Overrides;

/// The version of Claude Code that Gatehouse is verified with.
pub const VERIFIED_CLAUDE: &str = "2.1.247";

/// Why the settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The file is not TOML, or a value has the wrong type.
    #[error("{path}: {message}")]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The parser's words, with the line.
        message: String,
    },
    /// A key that does not exist.
    #[error("{path}: there is no key `{key}`{}", suggestion.as_ref().map(|s| format!("; did you mean `{s}`?")).unwrap_or_default())]
    UnknownKey {
        /// The file.
        path: PathBuf,
        /// The key.
        key: String,
        /// The nearest key that exists.
        suggestion: Option<String>,
    },
    /// A value out of its bounds, or a path that is not absolute.
    #[error("{name}: {why}")]
    Invalid {
        /// The key, flag or variable.
        name: String,
        /// What is wrong.
        why: String,
    },
}

/// Everything that can be set, resolved.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where the ledger and the sessions' private folders lie.
    pub state_dir: PathBuf,
    /// Where the sockets lie.
    pub runtime_dir: PathBuf,
    /// The configuration file, if one was read.
    pub config_file: Option<PathBuf>,
    /// How Claude Code is found and started.
    pub claude: ClaudeSettings,
    /// Leases, waits and numbers.
    pub limits: Limits,
    /// What may be read.
    pub files: FileSettings,
    /// What commands find and may take.
    pub commands: CommandSettings,
    /// How files are changed.
    pub writing: WritingSettings,
    /// Which skills a session may carry, and where they are looked up.
    pub skills: SkillSettings,
    /// What `gatehouse up` passes to the front.
    pub front: FrontSettings,
    /// The form of log lines.
    pub log_format: LogFormat,
    /// The DeepSeek subagent; `None`: switched off.
    pub deepseek: Option<DeepseekSettings>,
}

/// How Claude Code is found and started.
#[derive(Debug, Clone)]
pub struct ClaudeSettings {
    /// Where it may be, best first.
    pub candidates: Vec<PathBuf>,
    /// Whether a version other than the verified one may be started.
    pub any_version: bool,
    /// How long a launch may take until Claude Code asks for the first time.
    pub launch_timeout: Duration,
    /// How often a waiting answer is kept alive.
    pub ping_interval: Duration,
    /// After how long without an event Claude Code gives a stream up and asks again.
    pub stream_idle_timeout: Duration,
    /// The folder with `runner-shim` and `sandbox-launch`; beside the executor by default.
    pub helper_dir: Option<PathBuf>,
}

/// Leases, waits and numbers.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// How long a lease lasts after each valid call.
    pub lease: Duration,
    /// How many sessions may be live.
    pub live_sessions: u32,
    /// The longest wait of any call.
    pub max_wait: Duration,
    /// How long a reply waits for the next turn.
    pub reply_wait: Duration,
    /// How much of a receipt Claude Code is given, in bytes.
    pub short_result_bytes: usize,
}

/// What may be read.
#[derive(Debug, Clone)]
pub struct FileSettings {
    /// Where reading is allowed at all.
    pub read_roots: Vec<PathBuf>,
    /// Further protected paths.
    pub protected: Vec<String>,
    /// How strict hard links are taken.
    pub hard_links: HardLinks,
    /// Where network and FUSE file systems may be read.
    pub network_file_systems: NetworkFileSystems,
    /// Up to which size a whole file is hashed, in bytes.
    pub whole_hash_limit: u64,
}

/// How files are changed.
#[derive(Debug, Clone)]
pub struct WritingSettings {
    /// The largest file that is changed, before or after, in bytes.
    pub max_file_bytes: u64,
    /// File systems that cannot swap two names.
    pub without_exchange: WithoutExchange,
    /// The most that is kept of what files were before and after, in bytes.
    pub content_bytes: u64,
    /// Where worktrees are made.
    pub worktree_dir: PathBuf,
}

/// What commands find and may take.
#[derive(Debug, Clone, Default)]
pub struct CommandSettings {
    /// Where programs are looked for, in order.
    pub path: Vec<PathBuf>,
    /// Where tool chains keep what they have installed, by the variable that tells them.
    pub tools: BTreeMap<String, PathBuf>,
    /// The user's own list of files that git ignores, if there is one.
    pub git_excludes: Option<PathBuf>,
    /// Whether commands have a loopback interface of their own.
    pub private_loopback: bool,
    /// The most that a session's scratch may hold, in bytes.
    pub scratch_bytes: u64,
    /// How many processes a command may have (the kernel does not hold root to it).
    pub processes: u64,
}

/// Which skills a session may carry, and where they are looked up.
#[derive(Debug, Clone, Default)]
pub struct SkillSettings {
    /// The allowlist as it was written.
    pub allow: AllowlistText,
    /// Where skills lie, by the prefix of their ids. Those of the project lie in each session's directory.
    pub folders: BTreeMap<String, PathBuf>,
}

/// The allowlist of skills as it was written; it is read where skills are judged.
#[derive(Debug, Clone, Default)]
pub enum AllowlistText {
    /// Nobody wrote one.
    #[default]
    Absent,
    /// The value of [`ALLOWLIST_VARIABLE`], which stands in for the file's.
    Variable(OsString),
    /// The value of `skills.allow`.
    File(toml::Value),
}

/// The environment variable that may hold the allowlist of skills, as JSON.
pub const ALLOWLIST_VARIABLE: &str = "CLAUDE_TOOLS_NATIVE_SKILL_ALLOWLIST_JSON";
/// The prefix of the skills in the user's own folder.
pub const PERSONAL: &str = "personal";
/// The prefix of the skills in a session's directory.
pub const PROJECT: &str = "project";

/// What `gatehouse up` passes to the front.
#[derive(Debug, Clone)]
pub struct FrontSettings {
    /// `HOST:PORT` or `unix:PATH`.
    pub listen: String,
    /// The key file; below the state directory by default.
    pub key_file: PathBuf,
    /// The protocol revisions it speaks.
    pub protocol: Protocols,
    /// How many calls may wait at the same time.
    pub max_waits: u32,
    /// What the text part of a result repeats.
    pub text_mirror: Mirror,
}

impl Settings {
    /// Reads the file and applies environment and flags.
    ///
    /// # Errors
    /// With the file, key, variable or flag at fault.
    pub fn load(overrides: &Overrides) -> Result<Self, ConfigError> {
        let (config_file, file) = file::read(overrides)?;
        paths::resolve(config_file, file, overrides)
    }

    /// A program of ours that is installed beside the running one, or where the settings say; `None` if it is not there.
    #[must_use]
    pub fn helper(&self, name: &str) -> Option<PathBuf> {
        let beside = || Some(std::env::current_exe().ok()?.parent()?.to_owned());
        let path = self.claude.helper_dir.clone().or_else(beside)?.join(name);
        path.is_file().then_some(path)
    }

    /// What `--check-config` prints: one JSON line.
    #[must_use]
    pub fn summary(&self) -> serde_json::Value {
        serde_json::json!({
            "state_dir": self.state_dir,
            "runtime_dir": self.runtime_dir,
            "config_file": self.config_file,
            "claude": {
                "candidates": self.claude.candidates,
                "allow_unverified_version": self.claude.any_version,
                "verified_version": VERIFIED_CLAUDE,
                "helper_dir": self.claude.helper_dir,
            },
            "content_bytes": self.writing.content_bytes,
            "worktree_dir": self.writing.worktree_dir,
            "log_format": self.log_format,
            "front": {
                "listen": self.front.listen,
                "key_file": self.front.key_file,
                "protocol": self.front.protocol,
                "max_waits": self.front.max_waits,
                "text_mirror": self.front.text_mirror,
            },
        })
    }
}

#[cfg(test)]
mod tests;
