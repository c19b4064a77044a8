//! The key that every TCP request must show: read once from a private file, compared in constant time.

use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use subtle::ConstantTimeEq;

/// The fewest characters a key may have.
pub const MIN_CHARACTERS: usize = 32;
const MAX_BYTES: u64 = 4096;

/// The key. Never shown, not even in debug output.
#[derive(Clone)]
pub struct Key(String);

/// Why a key file is not used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// It cannot be opened or read.
    #[error("the key file {path} cannot be read: {source}")]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Somebody else could read or replace it.
    #[error("the key file {path} must be a regular file of this user with mode 0600 (it has {found})")]
    NotPrivate {
        /// Which file.
        path: PathBuf,
        /// Kind, owner or mode, as found.
        found: String,
    },
    /// Too short, too long, or with characters that no header can carry.
    #[error("the key file {path} must hold one line of at least {MIN_CHARACTERS} printable ASCII characters")]
    Unusable {
        /// Which file.
        path: PathBuf,
    },
}

impl Key {
    /// Reads the key from a 0600 file that we own. A link is not followed.
    ///
    /// # Errors
    /// With the path and what is wrong with the file; never with its content.
    pub fn read(path: &Path) -> Result<Self, KeyError> {
        let unreadable = |source| KeyError::Unreadable { path: path.to_owned(), source };
        let flags = nix::fcntl::OFlag::O_NOFOLLOW | nix::fcntl::OFlag::O_NONBLOCK;
        let file = OpenOptions::new().read(true).custom_flags(flags.bits()).open(path).map_err(unreadable)?;
        check_private(path, &file.metadata().map_err(unreadable)?)?;
        let mut text = String::new();
        file.take(MAX_BYTES).read_to_string(&mut text).map_err(unreadable)?;
        Self::parse(&text).ok_or_else(|| KeyError::Unusable { path: path.to_owned() })
    }

    fn parse(text: &str) -> Option<Self> {
        let key = text.trim_end_matches(['\r', '\n']);
        let usable = key.len() >= MIN_CHARACTERS && key.bytes().all(|byte| byte.is_ascii_graphic());
        usable.then(|| Self(key.to_owned()))
    }

    /// Whether a caller showed this very key. Takes the same time whichever character differs.
    #[must_use]
    pub fn matches(&self, shown: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(shown).into()
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(…)")
    }
}

fn check_private(path: &Path, found: &std::fs::Metadata) -> Result<(), KeyError> {
    let refuse = |found: String| Err(KeyError::NotPrivate { path: path.to_owned(), found });
    if !found.is_file() {
        return refuse("another kind".to_owned());
    }
    if found.uid() != nix::unistd::geteuid().as_raw() {
        return refuse("another owner".to_owned());
    }
    match found.mode() & 0o7777 {
        mode if mode & 0o177 != 0 => refuse(format!("mode {mode:04o}")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const GOOD: &str = "0123456789abcdef0123456789abcdef";

    fn file(content: &str, mode: u32) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("front.key");
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        (dir, path)
    }

    #[test]
    fn a_private_key_file_is_read_and_only_its_own_key_matches() {
        let (_dir, path) = file(&format!("{GOOD}\n"), 0o600);
        let key = Key::read(&path).unwrap();
        assert!(key.matches(GOOD.as_bytes()));
        for other in ["", "0123456789abcdef0123456789abcdeF", "0123456789abcdef0123456789abcdef0"] {
            assert!(!key.matches(other.as_bytes()));
        }
        assert!(!format!("{key:?}").contains(GOOD));
    }

    #[test]
    fn a_file_that_others_could_read_is_refused_with_its_mode() {
        let (_dir, path) = file(GOOD, 0o640);
        let error = Key::read(&path).unwrap_err().to_string();
        assert!(error.contains("mode 0640") && !error.contains(GOOD), "{error}");
    }

    #[test]
    fn a_link_or_a_directory_in_its_place_is_refused() {
        let (dir, path) = file(GOOD, 0o600);
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(matches!(Key::read(&link), Err(KeyError::Unreadable { .. })));
        assert!(matches!(Key::read(dir.path()), Err(KeyError::NotPrivate { .. })));
    }

    #[test]
    fn short_blank_and_multi_line_keys_are_refused() {
        for content in
            ["", "short", &format!("{GOOD} x"), &format!("{GOOD}\nmore"), "ä0123456789abcdef0123456789abcdef"]
        {
            let (_dir, path) = file(content, 0o600);
            assert!(matches!(Key::read(&path), Err(KeyError::Unusable { .. })), "{content:?}");
        }
    }
}
