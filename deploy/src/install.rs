//! Gatehouse as two services of the user's own: what is installed, decided without touching anything.
//!
//! A [`Plan`] is a list of files with their content, made from the templates in `deploy/templates/`. [`disk`] writes them and
//! keeps a record of what it made; [`manager`] has the running system take them up.

mod disk;
mod environment;
mod launchd;
mod manager;
mod record;
mod systemd;
mod variables;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::ValueEnum;

pub use disk::{Change, Disk};
pub use environment::{KEPT, kept};
pub use manager::{Running, lingers};
pub use record::{RECORD, Record};
pub use variables::set_for_services;

use crate::failure::Failure;

/// Who keeps services running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Manager {
    /// Linux: user units of systemd.
    Systemd,
    /// macOS: LaunchAgents.
    Launchd,
}

impl Manager {
    /// This system's.
    #[must_use]
    pub const fn of_this_system() -> Self {
        if cfg!(target_os = "macos") { Self::Launchd } else { Self::Systemd }
    }
}

/// One of the two services.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    /// `executor` or `front`.
    pub name: &'static str,
    /// The program, absolute.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Its environment, on top of what the manager gives every service.
    pub environment: BTreeMap<String, String>,
}

/// A file that is to be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedFile {
    /// Where, absolute.
    pub path: PathBuf,
    /// All of it.
    pub content: String,
}

/// What is to be installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// For whom.
    pub manager: Manager,
    /// The services' files.
    pub files: Vec<PlannedFile>,
    /// Directories that must be there besides those of the files, 0700.
    pub directories: Vec<PathBuf>,
    /// Where the front listens.
    pub listen: String,
    /// The environment that the executor is given.
    pub environment: BTreeMap<String, String>,
}

/// The user's own directories.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    /// HOME.
    pub home: PathBuf,
    /// `XDG_CONFIG_HOME`, or where it is when nobody says.
    pub config: PathBuf,
}

impl Home {
    /// By the environment.
    ///
    /// # Errors
    /// When there is no HOME.
    pub fn find(variable: impl Fn(&str) -> Option<String>) -> Result<Self, Failure> {
        let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let home = absolute("HOME").ok_or_else(|| Failure::failed("HOME is not set to an absolute path"))?;
        Ok(Self { config: absolute("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config")), home })
    }
}

/// What the two services become for a manager.
///
/// # Errors
/// When a path or a value cannot be written into its files.
pub fn plan(manager: Manager, home: &Home, services: &[Service], listen: &str) -> Result<Plan, Failure> {
    let environment = services.first().map(|first| first.environment.clone()).unwrap_or_default();
    let (files, directories) = match manager {
        Manager::Systemd => (systemd::files(home, services)?, Vec::new()),
        Manager::Launchd => (launchd::files(home, services)?, vec![launchd::log_directory(home)]),
    };
    Ok(Plan { manager, files, directories, listen: listen.to_owned(), environment })
}

/// A path as text, for files that are UTF-8.
///
/// # Errors
/// When it is not.
pub fn as_text(path: &Path) -> Result<String, Failure> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        Failure::failed(format!("{} is not UTF-8, and a service's file has to be", path.display()))
            .hint("Choose another place with --state-dir, --runtime-dir or --config, or move the binaries.")
    })
}
