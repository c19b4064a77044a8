//! What a write is about to do, in a form that outlives the process.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Everything that is needed to find out, after a crash, what became of a write. Made durable before anything on disk
/// changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    /// The file.
    pub path: PathBuf,
    /// What was there.
    pub before: Before,
    /// What shall be there.
    pub after: After,
    /// The name of the temporary file, beside the file.
    pub temporary: String,
    /// The directories that do not exist yet, outermost first.
    pub create_directories: Vec<PathBuf>,
}

/// What stood under a path before a write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Before {
    /// Nothing.
    Absent,
    /// A regular file.
    File {
        /// SHA-256 of its bytes, in lower-case hexadecimal.
        sha256: String,
        /// How many they were.
        bytes: u64,
        /// The device that it lay on.
        device: u64,
        /// Its inode.
        inode: u64,
    },
}

/// What shall stand there after it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum After {
    /// Nothing: a creation is undone.
    Absent,
    /// A regular file.
    File {
        /// SHA-256 of its bytes, in lower-case hexadecimal.
        sha256: String,
        /// How many they are.
        bytes: u64,
    },
}

impl Before {
    /// SHA-256 of the bytes; `None` if there was no file.
    #[must_use]
    pub fn sha256(&self) -> Option<&str> {
        match self {
            Self::Absent => None,
            Self::File { sha256, .. } => Some(sha256),
        }
    }

    pub(super) const fn identity(&self) -> Option<(u64, u64)> {
        match self {
            Self::Absent => None,
            Self::File { device, inode, .. } => Some((*device, *inode)),
        }
    }
}

impl After {
    /// SHA-256 of the bytes; `None` if there shall be no file.
    #[must_use]
    pub fn sha256(&self) -> Option<&str> {
        match self {
            Self::Absent => None,
            Self::File { sha256, .. } => Some(sha256),
        }
    }
}

const PREFIX: &str = ".gatehouse-";
const SUFFIX: &str = ".tmp";
/// The longest tag that goes into a name, in bytes: with prefix, nonce and suffix far below any system's limit.
const TAG: usize = 64;

/// A name for a temporary file: recognisable, with the action's tag, and not to be guessed.
pub(super) fn temporary_name(tag: &str) -> Result<String, getrandom::Error> {
    let mut nonce = [0; 8];
    getrandom::fill(&mut nonce)?;
    let tag: String =
        tag.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-')).take(TAG).collect();
    Ok(format!("{PREFIX}{tag}-{}{SUFFIX}", hex::encode(nonce)))
}

/// Whether a file of that name was left by a write that did not end.
#[must_use]
pub fn is_temporary_name(name: &str) -> bool {
    name.starts_with(PREFIX) && name.ends_with(SUFFIX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_temporary_name_holds_the_tag_and_nothing_that_leaves_the_directory() {
        let name = temporary_name("toolu_abc/../x").unwrap();
        assert!(name.starts_with(".gatehouse-toolu_abcx-") && is_temporary_name(&name), "{name}");
        assert!(!name.contains('/'));
        assert_ne!(name, temporary_name("toolu_abc/../x").unwrap());
        assert!(temporary_name(&"x".repeat(500)).unwrap().len() < 120);
    }

    #[test]
    fn an_intent_comes_back_from_the_ledger_as_it_was() {
        let before = Before::File { sha256: "ab".into(), bytes: 1, device: u64::MAX, inode: 3 };
        let intent = Intent {
            path: "/a/b".into(),
            before,
            after: After::Absent,
            temporary: temporary_name("x").unwrap(),
            create_directories: vec!["/a".into()],
        };
        let text = serde_json::to_string(&intent).unwrap();
        assert_eq!(serde_json::from_str::<Intent>(&text).unwrap(), intent);
    }
}
