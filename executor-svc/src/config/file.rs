//! The configuration file as it is written.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::keys::{KEYS, nearest};
use super::{ConfigError, Overrides, paths};

/// How strict hard links are taken when reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HardLinks {
    /// A file with a further name outside the root is refused.
    #[default]
    Strict,
    /// Only a file with a further name on a protected path is refused.
    ProtectedOnly,
}

/// Where network and FUSE file systems may be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NetworkFileSystems {
    /// Below the session's root only.
    #[default]
    RootOnly,
    /// Everywhere.
    Allowed,
}

/// The protocol revisions the front speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Protocols {
    /// 2025-06-18, 2025-11-25 and 2026-07-28.
    #[default]
    All,
    /// The first two only.
    Legacy,
}

/// What the text part of a result repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mirror {
    /// Ids, status, turn and what to do next.
    #[default]
    Summary,
    /// Everything.
    Full,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct File {
    pub state_dir: Option<PathBuf>,
    pub runtime_dir: Option<PathBuf>,
    pub claude: Claude,
    pub limits: Limits,
    pub files: Files,
    pub commands: Commands,
    pub writing: Writing,
    pub skills: Skills,
    pub front: Front,
    pub log: Log,
    pub deepseek: Deepseek,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Claude {
    pub binary: Option<PathBuf>,
    pub allow_unverified_version: bool,
    pub launch_timeout_seconds: Option<u64>,
    pub ping_seconds: Option<u64>,
    pub stream_idle_timeout_seconds: Option<u64>,
    pub helper_dir: Option<PathBuf>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Limits {
    pub lease_seconds: Option<u64>,
    pub live_sessions: Option<u64>,
    pub max_wait_seconds: Option<u64>,
    pub reply_wait_seconds: Option<u64>,
    pub short_result_bytes: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Files {
    pub read_roots: Option<Vec<PathBuf>>,
    pub protected: Vec<String>,
    pub hard_links: HardLinks,
    pub network_file_systems: NetworkFileSystems,
    pub whole_hash_limit_bytes: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Commands {
    pub path: Vec<PathBuf>,
    pub private_loopback: bool,
    pub scratch_bytes: Option<u64>,
    pub processes: Option<u64>,
}

/// What to do where a file system cannot swap two names in one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WithoutExchange {
    /// Check once more and rename over the old file; the receipt says so.
    #[default]
    Rename,
    /// Refuse to write.
    Refuse,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Writing {
    pub max_file_bytes: Option<u64>,
    pub without_exchange: WithoutExchange,
    pub content_bytes: Option<u64>,
    pub worktree_dir: Option<PathBuf>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Skills {
    /// As it stands there: what is wrong with it is told by entry, and does not keep the gateway from starting.
    pub allow: Option<toml::Value>,
    pub folders: BTreeMap<String, PathBuf>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Front {
    pub listen: Option<String>,
    pub key_file: Option<PathBuf>,
    pub protocol: Protocols,
    pub max_waits: Option<u64>,
    pub text_mirror: Mirror,
}

/// The form of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// Text on a terminal, JSON elsewhere.
    #[default]
    Auto,
    /// Text for people.
    Text,
    /// One JSON object a line.
    Json,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Log {
    pub format: LogFormat,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Deepseek {
    pub credential_file: Option<PathBuf>,
    pub endpoint: Option<String>,
    pub proxy: Option<String>,
    pub flash_model: Option<String>,
    pub flash_answers: Option<Vec<String>>,
    pub pro_model: Option<String>,
    pub pro_answers: Option<Vec<String>>,
    pub executable: Option<PathBuf>,
    pub seconds: Option<u64>,
    pub turns: Option<u64>,
    pub output_tokens: Option<u64>,
    pub answer_tokens: Option<u64>,
    pub answer_bytes: Option<u64>,
    pub request_bytes: Option<u64>,
    pub request_timeout_seconds: Option<u64>,
    pub stream: Option<bool>,
}

/// Reads the file that the flag names, or the one at the usual place if it is there.
pub(super) fn read(overrides: &Overrides) -> Result<(Option<PathBuf>, File), ConfigError> {
    let (path, asked_for) = match &overrides.config {
        Some(path) => (path.clone(), true),
        None => match paths::default_config_file(&overrides.environment) {
            Some(path) => (path, false),
            None => return Ok((None, File::default())),
        },
    };
    match std::fs::read_to_string(&path) {
        Ok(text) => parse(&path, &text).map(|file| (Some(path), file)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && !asked_for => {
            Ok((None, File::default()))
        }
        Err(source) => Err(ConfigError::Io { path, source }),
    }
}

pub(super) fn parse(path: &Path, text: &str) -> Result<File, ConfigError> {
    let syntax = |message: String| ConfigError::Syntax { path: path.to_owned(), message };
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| syntax(error.to_string()))?;
    if let Some(key) = unknown_key(&table) {
        let suggestion = nearest(&key);
        return Err(ConfigError::UnknownKey { path: path.to_owned(), key, suggestion });
    }
    toml::from_str(text).map_err(|error| syntax(error.to_string()))
}

fn unknown_key(table: &toml::Table) -> Option<String> {
    let is_known =
        |section: &str, name: &str| KEYS.iter().any(|key| key.section == section && key.name == name);
    for (name, value) in table {
        match value {
            toml::Value::Table(section) if KEYS.iter().any(|key| key.section == name) => {
                if let Some(unknown) = section.keys().find(|key| !is_known(name, key)) {
                    return Some(format!("{name}.{unknown}"));
                }
            }
            _ if !is_known("", name) => return Some(name.clone()),
            _ => {}
        }
    }
    None
}
