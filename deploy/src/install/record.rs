//! What `gatehouse install` made, written down beside the state, so that `uninstall` removes that and nothing else.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Manager;

/// The record's name in the state directory.
pub const RECORD: &str = "services.json";

/// The record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// For whom it was installed.
    pub manager: Manager,
    /// The version that installed it.
    pub version: String,
    /// The files.
    pub files: Vec<MadeFile>,
    /// Directories that were made for them, outermost first.
    pub directories: Vec<PathBuf>,
    /// Where the front listens.
    #[serde(default)]
    pub listen: Option<String>,
    /// The environment that the executor was given.
    pub environment: BTreeMap<String, String>,
}

/// A file that was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MadeFile {
    /// Where.
    pub path: PathBuf,
    /// SHA-256 of what was put into it. Two while it is being replaced: nobody can tell which of them a crash left.
    pub sha256: Vec<String>,
}
