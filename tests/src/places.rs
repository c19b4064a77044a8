//! Directories with known content for sessions to look at, and ports to listen on.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A port on loopback for a program that is started next. Below those that systems give to whoever wants any, and each once, so
/// that nobody else of this test has taken it by then.
///
/// # Panics
/// When none is free.
#[must_use]
pub fn free_port() -> u16 {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    const FIRST: u16 = 20_000;
    const COUNT: u32 = 12_000;
    let next = || {
        let place = std::process::id().wrapping_mul(31).wrapping_add(GIVEN.fetch_add(1, Ordering::Relaxed));
        FIRST + u16::try_from(place % COUNT).expect("a small number")
    };
    let free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    (0..COUNT).map(|_| next()).find(free).expect("a free port")
}

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
