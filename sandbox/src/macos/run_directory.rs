//! A directory of the keeper's own, for as long as the program runs.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Where it lies: no policy lets a program read there.
const PLACE: &str = "/private/tmp";

/// The directory; removed when this is dropped.
#[derive(Debug)]
pub(super) struct RunDirectory(PathBuf);

impl RunDirectory {
    /// Makes it, with a file that anybody outside of the sandbox can read.
    pub(super) fn make() -> io::Result<Self> {
        let path = nix::unistd::mkdtemp(&Path::new(PLACE).join("gatehouse-XXXXXXXXXXXX"))?;
        let this = Self(path);
        fs::write(this.outside(), "outside")?;
        Ok(this)
    }

    /// The file that only a profile keeps a program from.
    pub(super) fn outside(&self) -> PathBuf {
        self.0.join("outside")
    }

    /// A scratch that goes with it.
    pub(super) fn scratch(&self) -> io::Result<PathBuf> {
        let path = self.0.join("scratch");
        directory(&path)?;
        Ok(path)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for RunDirectory {
    fn drop(&mut self) {
        remove(&self.0);
    }
}

/// Removes it with all that is in it. Links in it are removed and not followed. What a program has made unreadable for its
/// own user stays behind, in a directory that nobody else can enter.
pub(super) fn remove(path: &Path) {
    let _ = fs::remove_dir_all(path);
}

/// A directory for its owner alone; one that is there already will do.
pub(super) fn directory(path: &Path) -> io::Result<()> {
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let found = path.symlink_metadata()?;
            if found.is_dir() { Ok(()) } else { replace(path) }
        }
        done => done,
    }
}

/// A program of an earlier launch may have put something else there.
fn replace(path: &Path) -> io::Result<()> {
    fs::remove_file(path)?;
    fs::DirBuilder::new().mode(0o700).create(path)
}
