//! Directories with known content for sessions to look at.

use std::path::{Path, PathBuf};

/// A directory outside every protected place, gone with the value.
#[derive(Debug)]
pub struct Project {
    directory: tempfile::TempDir,
}

impl Project {
    /// A small project: a read-me, a source file, a word that stands in exactly one line.
    #[must_use]
    pub fn small() -> Self {
        let project = Self::empty();
        project.write("README.md", "# Lantern\n\nA small project that tests read.\n");
        project.write("src/main.txt", "first line\nthe word quicksilver stands here\nlast line\n");
        project
    }

    /// An empty directory.
    #[must_use]
    pub fn empty() -> Self {
        Self {
            directory: tempfile::Builder::new()
                .prefix("gh-project-")
                .tempdir()
                .expect("the temporary folder is writable"),
        }
    }

    /// Its real path.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.directory.path().canonicalize().expect("it exists")
    }

    /// Its real path as text.
    #[must_use]
    pub fn text(&self) -> String {
        self.path().into_os_string().into_string().expect("temporary paths are UTF-8")
    }

    /// Writes a file below it.
    pub fn write(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(path);
        std::fs::create_dir_all(path.parent().expect("below the project")).expect("writable");
        std::fs::write(&path, content).expect("writable");
        path
    }
}
