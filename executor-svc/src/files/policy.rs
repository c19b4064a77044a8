//! The rules as configured, resolved for this machine.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use gatehouse_sandbox::policy::{ListError, Os, PatternError, Position, ProtectedList, ProtectedPaths, Rule};

use super::fault::FileFault;
use super::protected_inodes::ProtectedInodes;

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
    /// A configured protected path has none of the known forms.
    #[error("files.protected: {0}")]
    ExtraProtected(#[from] PatternError),
    /// The list that comes with Gatehouse is broken.
    #[error(transparent)]
    List(#[from] ListError),
}

/// The rules, ready to be asked. One for the whole executor.
#[derive(Debug)]
pub struct FilePolicy {
    config: FilePolicyConfig,
    protected: ProtectedPaths,
    /// Paths that were judged and may be read, for the same few are asked about again and again; the rules never change.
    /// At most [`MOST_ALLOWED`].
    allowed: Mutex<HashSet<PathBuf>>,
    inodes: Mutex<Arc<ProtectedInodes>>,
}

/// How many paths are remembered as allowed.
const MOST_ALLOWED: usize = 1024;

impl FilePolicy {
    /// Reads the lists and resolves them for this machine.
    ///
    /// # Errors
    /// When a configured path or pattern makes no sense.
    pub fn new(mut config: FilePolicyConfig) -> Result<Self, PolicyError> {
        let mut list = ProtectedList::built_in(Os::current())?;
        for text in &config.extra_protected {
            list.add(Rule::new(text, "protected by the configuration")?);
        }
        for dir in with_real_paths("own_dirs", &config.own_dirs)? {
            list.add(Rule::exact(&dir, "Gatehouse's own files"));
        }
        config.read_roots = with_real_paths("files.read_roots", &config.read_roots)?;
        // HOME can be set to anything; the account's own directory is private all the same.
        config.homes.extend(account_home());
        config.homes = with_real_paths("home", &config.homes)?;
        let protected = ProtectedPaths::new(list, &config.homes);
        Ok(Self { config, protected, allowed: Mutex::default(), inodes: Mutex::default() })
    }

    /// The configuration it was made of.
    #[must_use]
    pub const fn config(&self) -> &FilePolicyConfig {
        &self.config
    }

    /// The protected paths.
    #[must_use]
    pub const fn protected(&self) -> &ProtectedPaths {
        &self.protected
    }

    /// What a real path says by itself: protected, below `.git`, outside `read_roots`, a device tree.
    ///
    /// # Errors
    /// The refusal, in the words of `shown`, the path that the caller named.
    pub(super) fn judge_path(&self, real: &Path, shown: &Path) -> Result<(), FileFault> {
        if self.allowed.lock().unwrap_or_else(PoisonError::into_inner).contains(real) {
            return Ok(());
        }
        self.judge_unknown(real, shown)?;
        let mut allowed = self.allowed.lock().unwrap_or_else(PoisonError::into_inner);
        if allowed.len() >= MOST_ALLOWED {
            allowed.clear();
        }
        allowed.insert(real.to_owned());
        Ok(())
    }

    fn judge_unknown(&self, real: &Path, shown: &Path) -> Result<(), FileFault> {
        if let Some(rule) = self.protected.rule_for(real) {
            return Err(FileFault::Protected { path: shown.to_owned(), reason: rule.reason.clone() });
        }
        if real.components().any(|component| is_git(component.as_os_str())) {
            return Err(FileFault::Git { path: shown.to_owned() });
        }
        // By path as well as by type: tmpfs mounts below /dev and /sys hold no files for anyone to read.
        if let Some(tree) = ["/proc", "/sys", "/dev"].into_iter().find(|tree| real.starts_with(tree)) {
            return Err(FileFault::SpecialFileSystem { path: shown.to_owned(), fs: tree.to_owned() });
        }
        self.judge_read_roots(real, shown)
    }

    fn judge_read_roots(&self, real: &Path, shown: &Path) -> Result<(), FileFault> {
        if self.config.read_roots.iter().any(|root| real.starts_with(root)) {
            Ok(())
        } else {
            Err(FileFault::OutsideReadRoots { path: shown.to_owned() })
        }
    }

    /// Where in the list a directory stands that [`Self::judge_path`] let pass.
    pub(super) fn position(&self, real: &Path) -> Option<Position> {
        self.protected.position(real).ok()
    }

    /// The inodes of what is protected, up to date.
    pub(super) fn protected_inodes(&self) -> Arc<ProtectedInodes> {
        let mut kept = self.inodes.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let fresh = Arc::new(kept.refreshed(|| self.protected.existing()));
        *kept = Arc::clone(&fresh);
        fresh
    }
}

fn account_home() -> Option<PathBuf> {
    let account = nix::unistd::User::from_uid(nix::unistd::geteuid()).ok()??;
    account.dir.is_absolute().then_some(account.dir)
}

/// `.git` in any spelling that some file system takes for it.
pub(super) fn is_git(name: &OsStr) -> bool {
    let bytes = name.as_encoded_bytes();
    if bytes.is_ascii() {
        // FAT and NTFS drop dots and blanks at the end, and know the directory by a short name and by its stream too.
        let stem = bytes.split(|byte| *byte == b':').next().unwrap_or(bytes);
        let kept = stem.iter().rposition(|byte| !matches!(byte, b'.' | b' ')).map_or(0, |at| at + 1);
        return [&b".git"[..], b"git~1"].iter().any(|git| stem[..kept].eq_ignore_ascii_case(git));
    }
    gatehouse_sandbox::policy::same_name(&name.to_string_lossy(), ".git")
}

/// The configured paths, and where they really lie if that is elsewhere.
fn with_real_paths(name: &'static str, paths: &[PathBuf]) -> Result<Vec<PathBuf>, PolicyError> {
    let mut all = Vec::new();
    for path in paths {
        if !path.is_absolute() {
            return Err(PolicyError::NotAbsolute { name, path: path.clone() });
        }
        all.push(super::path::normalised(path));
        all.extend(path.canonicalize().ok());
    }
    all.dedup();
    Ok(all)
}
