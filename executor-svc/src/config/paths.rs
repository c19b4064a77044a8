//! From the file, the environment and the flags to [`Settings`].

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::file::File;
use super::{ClaudeSettings, ConfigError, FileSettings, FrontSettings, Limits, Settings};

/// Flags and environment.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    /// `--config`
    pub config: Option<PathBuf>,
    /// `--state-dir`
    pub state_dir: Option<PathBuf>,
    /// `--runtime-dir`
    pub runtime_dir: Option<PathBuf>,
    /// The environment.
    pub environment: HashMap<OsString, OsString>,
}

/// The Claude Code version that Gatehouse is verified with.
const SET_UP_COPY: &str = "claude-code/node_modules/.bin/claude";

type Environment = HashMap<OsString, OsString>;

fn absolute(environment: &Environment, name: &str) -> Option<PathBuf> {
    environment.get(&OsString::from(name)).map(PathBuf::from).filter(|path| path.is_absolute())
}

fn home(environment: &Environment) -> Option<PathBuf> {
    absolute(environment, "HOME")
}

pub(super) fn default_config_file(environment: &Environment) -> Option<PathBuf> {
    let base = if cfg!(target_os = "macos") {
        home(environment)?.join("Library/Application Support")
    } else {
        absolute(environment, "XDG_CONFIG_HOME").or_else(|| Some(home(environment)?.join(".config")))?
    };
    Some(base.join("gatehouse/config.toml"))
}

fn default_state_dir(environment: &Environment) -> Option<PathBuf> {
    let base = if cfg!(target_os = "macos") {
        home(environment)?.join("Library/Application Support")
    } else {
        absolute(environment, "XDG_STATE_HOME").or_else(|| Some(home(environment)?.join(".local/state")))?
    };
    Some(base.join("gatehouse"))
}

pub(super) fn resolve(
    config_file: Option<PathBuf>,
    file: File,
    overrides: &Overrides,
) -> Result<Settings, ConfigError> {
    let environment = &overrides.environment;
    let state_dir = overrides
        .state_dir
        .clone()
        .or_else(|| environment.get(&OsString::from("CLAUDE_TOOLS_STATE_DIR")).map(PathBuf::from))
        .or(file.state_dir)
        .or_else(|| default_state_dir(environment))
        .ok_or_else(|| invalid("state_dir", "is not set, and there is no HOME to derive it from"))?;
    let state_dir = must_be_absolute("state_dir", state_dir)?;
    let runtime_dir = overrides.runtime_dir.clone().or(file.runtime_dir);
    let runtime_dir = must_be_absolute(
        "runtime_dir",
        runtime_dir.unwrap_or_else(gatehouse_proto::socket::default_runtime_dir),
    )?;
    let second = |name, value: Option<u64>, default, range| {
        bounded(name, value, default, range).map(Duration::from_secs)
    };
    let claude = ClaudeSettings {
        candidates: candidates(environment, file.claude.binary, &state_dir)?,
        any_version: file.claude.allow_unverified_version,
        launch_timeout: second(
            "claude.launch_timeout_seconds",
            file.claude.launch_timeout_seconds,
            60,
            5..=600,
        )?,
        ping_interval: second("claude.ping_seconds", file.claude.ping_seconds, 10, 1..=60)?,
        stream_idle_timeout: second(
            "claude.stream_idle_timeout_seconds",
            file.claude.stream_idle_timeout_seconds,
            86_400,
            1..=86_400,
        )?,
        helper_dir: file.claude.helper_dir,
    };
    let max_wait = second("limits.max_wait_seconds", file.limits.max_wait_seconds, 50, 0..=50)?;
    let limits = Limits {
        lease: second("limits.lease_seconds", file.limits.lease_seconds, 1800, 60..=86_400)?,
        live_sessions: narrow(bounded("limits.live_sessions", file.limits.live_sessions, 16, 1..=1000)?),
        max_wait,
        reply_wait: second("limits.reply_wait_seconds", file.limits.reply_wait_seconds, 25, 0..=50)?
            .min(max_wait),
        short_result_bytes: narrow(bounded(
            "limits.short_result_bytes",
            file.limits.short_result_bytes,
            4096,
            256..=49_152,
        )?) as usize,
    };
    let files = FileSettings {
        read_roots: each_absolute(
            "files.read_roots",
            file.files.read_roots.unwrap_or_else(|| vec![PathBuf::from("/")]),
        )?,
        protected: file.files.protected,
        hard_links: file.files.hard_links,
        network_file_systems: file.files.network_file_systems,
        whole_hash_limit: bounded(
            "files.whole_hash_limit_bytes",
            file.files.whole_hash_limit_bytes,
            256 << 20,
            0..=u64::MAX,
        )?,
    };
    let front = FrontSettings {
        listen: file.front.listen.unwrap_or_else(|| "127.0.0.1:8848".to_owned()),
        key_file: must_be_absolute(
            "front.key_file",
            file.front.key_file.unwrap_or_else(|| state_dir.join("front.key")),
        )?,
        protocol: file.front.protocol,
        max_waits: narrow(bounded("front.max_waits", file.front.max_waits, 64, 1..=10_000)?),
        text_mirror: file.front.text_mirror,
    };
    Ok(Settings { state_dir, runtime_dir, config_file, claude, limits, files, front })
}

/// Where Claude Code may be: the override alone, else the user's own, the set-up's copy, and what PATH has.
fn candidates(
    environment: &Environment,
    configured: Option<PathBuf>,
    state_dir: &Path,
) -> Result<Vec<PathBuf>, ConfigError> {
    if let Some(path) = environment.get(&OsString::from("CLAUDE_BIN")) {
        return Ok(vec![must_be_absolute("CLAUDE_BIN", PathBuf::from(path))?]);
    }
    if let Some(path) = configured {
        return Ok(vec![must_be_absolute("claude.binary", path)?]);
    }
    let mut places: Vec<PathBuf> =
        home(environment).map(|home| home.join(".npm-global/bin/claude")).into_iter().collect();
    places.push(state_dir.join(SET_UP_COPY));
    if let Some(path) = environment.get(&OsString::from("PATH")) {
        places.extend(
            std::env::split_paths(path).filter(|dir| dir.is_absolute()).map(|dir| dir.join("claude")),
        );
    }
    Ok(places)
}

fn invalid(name: &str, why: impl Into<String>) -> ConfigError {
    ConfigError::Invalid { name: name.to_owned(), why: why.into() }
}

fn must_be_absolute(name: &str, path: PathBuf) -> Result<PathBuf, ConfigError> {
    if path.is_absolute() {
        Ok(path)
    } else {
        Err(invalid(name, format!("`{}` must be an absolute path", path.display())))
    }
}

fn each_absolute(name: &str, paths: Vec<PathBuf>) -> Result<Vec<PathBuf>, ConfigError> {
    paths.into_iter().map(|path| must_be_absolute(name, path)).collect()
}

fn bounded(
    name: &str,
    value: Option<u64>,
    default: u64,
    range: std::ops::RangeInclusive<u64>,
) -> Result<u64, ConfigError> {
    let value = value.unwrap_or(default);
    if range.contains(&value) {
        Ok(value)
    } else {
        Err(invalid(name, format!("{value} is not between {} and {}", range.start(), range.end())))
    }
}

/// For values whose range was checked to be small.
fn narrow(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}
