//! Where the other binaries are, and the settings that the executor resolves.
//!
//! The configuration is parsed in one place only, the executor; whoever else needs a setting asks it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde::Deserialize;
use tokio::process::Command;

use crate::failure::{Exit, Failure};

/// The flags that name a gateway; each is handed on to the executor as it is.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Place {
    /// Configuration file [default: gatehouse/config.toml in the user's configuration directory]
    #[arg(long, value_name = "FILE", global = true)]
    pub config: Option<PathBuf>,
    /// Directory of the ledger and of all private state
    #[arg(long, value_name = "DIR", global = true)]
    pub state_dir: Option<PathBuf>,
    /// Directory of the sockets
    #[arg(long, value_name = "DIR", global = true)]
    pub runtime_dir: Option<PathBuf>,
}

impl Place {
    /// The executor's arguments for this place.
    #[must_use]
    pub fn arguments(&self) -> Vec<OsString> {
        let flags = [
            ("--config", &self.config),
            ("--state-dir", &self.state_dir),
            ("--runtime-dir", &self.runtime_dir),
        ];
        let given = flags.into_iter().filter_map(|(flag, value)| Some((flag, value.as_ref()?)));
        given.flat_map(|(flag, value)| [OsString::from(flag), value.clone().into_os_string()]).collect()
    }
}

/// What the executor's `--check-config` says.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Settings {
    /// The ledger and all private state.
    pub state_dir: PathBuf,
    /// The sockets.
    pub runtime_dir: PathBuf,
    /// The configuration file, if there is one.
    pub config_file: Option<PathBuf>,
    /// Where Claude Code is looked for.
    pub claude: ClaudeSettings,
    /// The most that is kept of what files were before and after changes, in bytes.
    pub content_bytes: u64,
    /// `auto`, `text` or `json`.
    pub log_format: String,
    /// The front's part.
    pub front: FrontSettings,
}

/// How Claude Code is found.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ClaudeSettings {
    /// The native program that would be started.
    pub binary: Option<PathBuf>,
    /// Where it may be, best first.
    pub candidates: Vec<PathBuf>,
    /// Whether a version other than the verified one may be started.
    pub allow_unverified_version: bool,
    /// The version that Gatehouse is verified with.
    pub verified_version: String,
    /// The directory of `runner-shim` and `sandbox-launch`; beside the executor if nobody says.
    pub helper_dir: Option<PathBuf>,
}

/// The front's settings.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct FrontSettings {
    /// `ADDRESS:PORT` or `unix:PATH`.
    pub listen: String,
    /// The key that clients over TCP have to show.
    pub key_file: PathBuf,
    /// `all` or `legacy`.
    pub protocol: String,
    /// How many long polls may wait at a time.
    pub max_waits: u32,
    /// `summary` or `full`.
    pub text_mirror: String,
}

/// The directory that holds this executable and the other binaries.
#[derive(Debug, Clone)]
pub struct Binaries(PathBuf);

impl Binaries {
    /// Beside the running executable.
    ///
    /// # Errors
    /// When the system does not say where that is.
    pub fn beside_this() -> Result<Self, Failure> {
        let exe = std::env::current_exe()
            .and_then(std::fs::canonicalize)
            .map_err(|error| Failure::failed(format!("cannot tell where this executable is: {error}")))?;
        Ok(Self(exe.parent().unwrap_or_else(|| Path::new("/")).to_owned()))
    }

    /// In a directory that the caller knows.
    pub fn in_directory(directory: impl Into<PathBuf>) -> Self {
        Self(directory.into())
    }

    /// The path of one of them.
    ///
    /// # Errors
    /// When it is not there.
    pub fn path(&self, name: &str) -> Result<PathBuf, Failure> {
        let path = self.0.join(name);
        if path.is_file() {
            return Ok(path);
        }
        Err(Failure::failed(format!("{name} is not beside this executable"))
            .hint("Build everything with `cargo build`, or install the binaries into one directory."))
    }

    /// Asks the executor what the settings are.
    ///
    /// # Errors
    /// [`Exit::Usage`] with the executor's own words when the configuration is wrong.
    pub async fn settings(&self, place: &Place) -> Result<Settings, Failure> {
        let executor = self.path("executor-svc")?;
        let output = Command::new(&executor)
            .args(place.arguments())
            .arg("--check-config")
            .stdin(Stdio::null())
            .output()
            .await
            .map_err(|error| Failure::failed(format!("cannot start executor-svc: {error}")))?;
        if !output.status.success() {
            let words = String::from_utf8_lossy(&output.stderr);
            return Err(Failure { exit: Exit::Usage, message: words.trim().to_owned(), what_to_do: None });
        }
        serde_json::from_slice(&output.stdout).map_err(|error| {
            Failure::failed(format!("executor-svc and gatehouse do not fit together: {error}"))
        })
    }

    /// The runtime directory: as given, else as configured.
    ///
    /// # Errors
    /// As [`settings`](Self::settings).
    pub async fn runtime_dir(&self, place: &Place) -> Result<PathBuf, Failure> {
        match &place.runtime_dir {
            Some(given) => Ok(given.clone()),
            None => Ok(self.settings(place).await?.runtime_dir),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_given_is_handed_on() {
        let place = Place { state_dir: Some("/s".into()), ..Place::default() };
        assert_eq!(place.arguments(), ["--state-dir", "/s"]);
    }

    #[test]
    fn the_executors_line_is_understood() {
        let line = r#"{"state_dir":"/s","runtime_dir":"/r","config_file":null,"content_bytes":1,"log_format":"auto",
            "claude":{"binary":null,"candidates":["/c"],"allow_unverified_version":false,"verified_version":"1","helper_dir":null},"front":{"listen":"127.0.0.1:8848",
            "key_file":"/s/front.key","protocol":"all","max_waits":64,"text_mirror":"summary"}}"#;
        let settings: Settings = serde_json::from_str(line).unwrap();
        assert_eq!((settings.front.max_waits, settings.runtime_dir), (64, PathBuf::from("/r")));
    }

    #[test]
    fn a_missing_binary_is_named() {
        let top = tempfile::tempdir().unwrap();
        let failure = Binaries::in_directory(top.path()).path("mcp-front").unwrap_err();
        assert!(failure.message.contains("mcp-front"), "{}", failure.message);
    }
}
