//! The rules as configured.

use std::path::PathBuf;

/// What to do with a regular file that has more than one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HardLinks {
    /// Refuse it unless every name lies inside the session's root (the default).
    #[default]
    Strict,
    /// Refuse it only if it shares its bytes with a protected file.
    ProtectedOnly,
}

/// What to do with network and FUSE file systems.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NetworkFs {
    /// Read them below the session's root only (the default).
    #[default]
    RootOnly,
    /// Read them anywhere.
    Allowed,
}

/// What [`FilePolicy::new`] needs to know.
#[derive(Debug, Clone)]
pub struct FilePolicyConfig {
    /// Home directories of the user that Gatehouse runs for. `/root`, `/home/*` and `/Users/*` are always known.
    pub homes: Vec<PathBuf>,
    /// Only what lies below one of these may be read.
    pub read_roots: Vec<PathBuf>,
    /// Further protected paths, in the syntax of the list (`/abs`, `~/rel`, `**/anywhere`).
    pub extra_protected: Vec<String>,
    /// Gatehouse's own state, config, runtime and key paths. Always protected.
    pub own_dirs: Vec<PathBuf>,
    /// Regular files with more than one name.
    pub hard_links: HardLinks,
    /// Network and FUSE file systems.
    pub network_fs: NetworkFs,
    /// The largest file whose whole content is hashed and counted, in bytes.
    pub whole_hash_limit: u64,
}

impl Default for FilePolicyConfig {
    fn default() -> Self {
        Self {
            homes: Vec::new(),
            read_roots: vec![PathBuf::from("/")],
            extra_protected: Vec::new(),
            own_dirs: Vec::new(),
            hard_links: HardLinks::default(),
            network_fs: NetworkFs::default(),
            whole_hash_limit: 256 * 1024 * 1024,
        }
    }
}

/// Why a policy cannot be made of the configuration.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// A path of the configuration is not absolute.
    #[error("{name}: {} is not an absolute path", .path.display())]
    NotAbsolute {
        /// The configuration key.
        name: &'static str,
        /// Its value.
        path: PathBuf,
    },
}

/// The rules, ready to be asked.
#[derive(Debug)]
pub struct FilePolicy {
    config: FilePolicyConfig,
}

impl FilePolicy {
    /// Reads the lists and resolves them for this machine.
    ///
    /// # Errors
    /// When a configured path or pattern makes no sense.
    pub fn new(config: FilePolicyConfig) -> Result<Self, PolicyError> {
        Ok(Self { config })
    }

    /// The configuration it was made of.
    #[must_use]
    pub const fn config(&self) -> &FilePolicyConfig {
        &self.config
    }
}
