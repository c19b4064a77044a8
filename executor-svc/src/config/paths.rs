//! From the file, the environment and the flags to [`Settings`].

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::deepseek;
use super::file::{self, File};
use super::{
    ALLOWLIST_VARIABLE, AllowlistText, ClaudeSettings, CommandSettings, ConfigError, FileSettings,
    FrontSettings, Limits, PERSONAL, PROJECT, Settings, SkillSettings, WritingSettings,
};

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
    Ok(Settings {
        claude: claude(file.claude, environment, &state_dir)?,
        limits: limits(&file.limits)?,
        files: files(file.files)?,
        commands: commands(file.commands, environment)?,
        writing: writing(file.writing, &state_dir)?,
        skills: skills(file.skills, environment)?,
        front: front(file.front, &state_dir)?,
        log_format: file.log.format,
        deepseek: deepseek::resolve(file.deepseek)?,
        state_dir,
        runtime_dir,
        config_file,
    })
}

fn claude(
    file: file::Claude,
    environment: &Environment,
    state_dir: &Path,
) -> Result<ClaudeSettings, ConfigError> {
    let launch = file.launch_timeout_seconds;
    let idle = file.stream_idle_timeout_seconds;
    Ok(ClaudeSettings {
        candidates: candidates(environment, file.binary, state_dir)?,
        any_version: file.allow_unverified_version,
        launch_timeout: seconds("claude.launch_timeout_seconds", launch, 60, 5..=600)?,
        ping_interval: seconds("claude.ping_seconds", file.ping_seconds, 10, 1..=60)?,
        stream_idle_timeout: seconds("claude.stream_idle_timeout_seconds", idle, 86_400, 1..=86_400)?,
        helper_dir: file.helper_dir.map(|path| must_be_absolute("claude.helper_dir", path)).transpose()?,
    })
}

fn limits(file: &file::Limits) -> Result<Limits, ConfigError> {
    let max_wait = seconds("limits.max_wait_seconds", file.max_wait_seconds, 50, 0..=50)?;
    let reply_wait = seconds("limits.reply_wait_seconds", file.reply_wait_seconds, 25, 0..=50)?;
    let short = bounded("limits.short_result_bytes", file.short_result_bytes, 4096, 256..=49_152)?;
    Ok(Limits {
        lease: seconds("limits.lease_seconds", file.lease_seconds, 1800, 60..=86_400)?,
        live_sessions: narrow(bounded("limits.live_sessions", file.live_sessions, 16, 1..=1000)?),
        max_wait,
        reply_wait: reply_wait.min(max_wait),
        short_result_bytes: narrow(short) as usize,
    })
}

fn files(file: file::Files) -> Result<FileSettings, ConfigError> {
    let read_roots = file.read_roots.unwrap_or_else(|| vec![PathBuf::from("/")]);
    let hashed = file.whole_hash_limit_bytes;
    Ok(FileSettings {
        read_roots: each_absolute("files.read_roots", read_roots)?,
        protected: file.protected,
        hard_links: file.hard_links,
        network_file_systems: file.network_file_systems,
        whole_hash_limit: bounded("files.whole_hash_limit_bytes", hashed, 256 << 20, 0..=u64::MAX)?,
    })
}

/// Where programs are when the executor's own PATH does not say.
const USUAL_PATH: [&str; 6] =
    ["/usr/local/bin", "/opt/homebrew/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"];

/// Tool chains that would look below HOME, which is another one inside: the variable, and the place below the real HOME.
/// What they hold is read there and never written.
const TOOL_PLACES: [(&str, &str); 5] = [
    ("CARGO_HOME", ".cargo"),
    ("RUSTUP_HOME", ".rustup"),
    ("GOMODCACHE", "go/pkg/mod"),
    ("PYENV_ROOT", ".pyenv"),
    ("NVM_DIR", ".nvm"),
];

fn commands(file: file::Commands, environment: &Environment) -> Result<CommandSettings, ConfigError> {
    let own = environment.get(&OsString::from("PATH")).cloned().unwrap_or_default();
    let mut path = each_absolute("commands.path", file.path)?;
    path.extend(std::env::split_paths(&own).filter(|dir| dir.is_absolute()));
    path.extend(USUAL_PATH.map(PathBuf::from));
    // A colon cannot be written into a PATH.
    path.retain(|dir| !dir.as_os_str().as_encoded_bytes().contains(&b':'));
    let mut seen = std::collections::HashSet::new();
    path.retain(|dir| seen.insert(dir.clone()));
    let place = |(name, below): (&str, &str)| {
        let named = absolute(environment, name);
        let found = named.or_else(|| Some(home(environment)?.join(below)))?;
        found.is_dir().then(|| (name.to_owned(), found))
    };
    let scratch = bounded("commands.scratch_bytes", file.scratch_bytes, 4 << 30, 1 << 20..=1 << 44)?;
    Ok(CommandSettings {
        path,
        tools: TOOL_PLACES.into_iter().filter_map(place).collect(),
        git_excludes: git_excludes(environment),
        private_loopback: file.private_loopback,
        scratch_bytes: scratch,
        processes: bounded("commands.processes", file.processes, 1024, 16..=1 << 20)?,
    })
}

/// Where git looks for it if its settings do not say; those are not read.
fn git_excludes(environment: &Environment) -> Option<PathBuf> {
    let base =
        absolute(environment, "XDG_CONFIG_HOME").or_else(|| Some(home(environment)?.join(".config")))?;
    Some(base.join("git/ignore")).filter(|file| file.is_file())
}

fn writing(file: file::Writing, state_dir: &Path) -> Result<WritingSettings, ConfigError> {
    // Beside the state directory, not inside: that is protected, and worktrees are for everybody to look at.
    let beside = || {
        let mut name = state_dir.as_os_str().to_owned();
        name.push("-worktrees");
        PathBuf::from(name)
    };
    Ok(WritingSettings {
        max_file_bytes: bounded("writing.max_file_bytes", file.max_file_bytes, 64 << 20, 1 << 10..=1 << 30)?,
        without_exchange: file.without_exchange,
        content_bytes: bounded("writing.content_bytes", file.content_bytes, 10 << 30, 1 << 20..=1 << 44)?,
        worktree_dir: must_be_absolute("writing.worktree_dir", file.worktree_dir.unwrap_or_else(beside))?,
    })
}

fn skills(file: file::Skills, environment: &Environment) -> Result<SkillSettings, ConfigError> {
    let mut folders = std::collections::BTreeMap::new();
    folders.extend(home(environment).map(|home| (PERSONAL.to_owned(), home.join(".claude/skills"))));
    for (prefix, folder) in file.folders {
        let name = format!("skills.folders.{prefix}");
        if [PERSONAL, PROJECT].contains(&prefix.as_str()) {
            return Err(invalid(&name, "these skills have their folder already; choose another prefix"));
        }
        if !gatehouse_proto::skill::is_prefix(&prefix) {
            return Err(invalid(
                &name,
                "a prefix has a-z, 0-9, - and _, begins with a letter, and is at most 32 long",
            ));
        }
        let folder = must_be_absolute(&name, folder)?;
        folders.insert(prefix, folder);
    }
    let allow = match environment.get(&OsString::from(ALLOWLIST_VARIABLE)) {
        Some(text) => AllowlistText::Variable(text.clone()),
        None => file.allow.map(AllowlistText::File).unwrap_or_default(),
    };
    Ok(SkillSettings { allow, folders })
}

fn front(file: file::Front, state_dir: &Path) -> Result<FrontSettings, ConfigError> {
    let key_file = file.key_file.unwrap_or_else(|| state_dir.join("front.key"));
    Ok(FrontSettings {
        listen: file.listen.unwrap_or_else(|| "127.0.0.1:8848".to_owned()),
        key_file: must_be_absolute("front.key_file", key_file)?,
        protocol: file.protocol,
        max_waits: narrow(bounded("front.max_waits", file.max_waits, 64, 1..=10_000)?),
        text_mirror: file.text_mirror,
    })
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

pub(super) fn invalid(name: &str, why: impl Into<String>) -> ConfigError {
    ConfigError::Invalid { name: name.to_owned(), why: why.into() }
}

pub(super) fn must_be_absolute(name: &str, path: PathBuf) -> Result<PathBuf, ConfigError> {
    if path.is_absolute() {
        Ok(path)
    } else {
        Err(invalid(name, format!("`{}` must be an absolute path", path.display())))
    }
}

fn each_absolute(name: &str, paths: Vec<PathBuf>) -> Result<Vec<PathBuf>, ConfigError> {
    paths.into_iter().map(|path| must_be_absolute(name, path)).collect()
}

pub(super) fn bounded(
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

pub(super) fn seconds(
    name: &str,
    value: Option<u64>,
    default: u64,
    range: std::ops::RangeInclusive<u64>,
) -> Result<Duration, ConfigError> {
    bounded(name, value, default, range).map(Duration::from_secs)
}

/// For values whose range was checked to be small.
pub(super) fn narrow(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}
