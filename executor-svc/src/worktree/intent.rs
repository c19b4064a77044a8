//! What is going to be made: fixed and written down before anything is, so that a half-made worktree can be known again.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Repository;

/// How much of the nonce stands in the name.
const NONCE_IN_NAME: usize = 12;
/// How much of the repository's name stands in the name, in characters.
const MOST_NAME: usize = 40;

/// A worktree that is going to be made. To be durable before [`super::Worktrees::create`] is called.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct WorktreeIntent {
    /// Of what.
    pub repository: Repository,
    /// Gatehouse's folder for worktrees, absolute.
    pub folder: PathBuf,
    /// The name: of the directory in that folder, and of the registration in the repository.
    pub name: String,
    /// What tells this attempt from every other.
    pub nonce: String,
}

/// A nonce that cannot be one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a worktree's nonce needs 12 to 64 letters and digits")]
pub struct NonceFault;

impl WorktreeIntent {
    /// Names a worktree after the repository and the nonce (12 to 64 ASCII letters, digits or `-`; unique for ever).
    ///
    /// # Errors
    /// When the nonce is not of that form.
    pub fn new(repository: Repository, folder: PathBuf, nonce: &str) -> Result<Self, NonceFault> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if !(NONCE_IN_NAME..=64).contains(&nonce.len()) || !nonce.bytes().all(fits) {
            return Err(NonceFault);
        }
        let name = name(&repository.top, nonce);
        Ok(Self { repository, folder, name, nonce: nonce.to_owned() })
    }

    /// Where it will be.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.folder.join(&self.name)
    }

    /// Where it will be registered.
    pub(super) fn registration(&self) -> PathBuf {
        self.repository.common_dir.join("worktrees").join(&self.name)
    }

    /// Why it is locked: what `git worktree list -v` shows, and what tells that it is ours.
    pub(super) fn lock_reason(&self) -> String {
        format!("belongs to a Gatehouse session; `gatehouse worktree remove` removes it [{}]", self.nonce)
    }
}

/// A name that git takes for a registration as it is, and that nobody else has.
fn name(top: &Path, nonce: &str) -> String {
    let own = top.file_name().unwrap_or_default().to_string_lossy();
    let kept: String = own
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' })
        .take(MOST_NAME)
        .collect();
    let kept = kept.trim_matches('-');
    let kept = if kept.is_empty() { "worktree" } else { kept };
    format!("{kept}-{}", &nonce[..NONCE_IN_NAME])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(top: &str) -> String {
        name(Path::new(top), "0123456789abcdef")
    }

    #[test]
    fn a_name_is_the_repositorys_as_far_as_git_takes_it() {
        assert_eq!(named("/x/gatehouse"), "gatehouse-0123456789ab");
        assert_eq!(named("/x/two words\nand a line"), "two-words-and-a-line-0123456789ab");
        assert_eq!(named("/x/.dot.lock"), "dot-lock-0123456789ab");
        assert_eq!(named("/x/\u{6587}\u{4ef6}"), "worktree-0123456789ab");
        assert_eq!(named("/"), "worktree-0123456789ab");
        assert!(named(&format!("/x/{}", "n".repeat(255))).len() < 64);
    }
}
