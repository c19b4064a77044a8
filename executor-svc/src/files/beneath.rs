//! Reading a small file of the executor's own accord: one that nobody but the executor names, whole or not at all.
//!
//! The rules of the file tools do not apply here, since no caller chooses the path, and a part of what is read this way is
//! protected from them. What does apply: below the folder no link is followed, the object is looked at before it is opened,
//! and only a regular file on an ordinary file system is.

use std::ffi::CString;
use std::io::Read;
use std::path::Path;

use rustix::io::Errno;

use super::mounts::{FsClass, class_of};
use super::sys::{self, Handle};

/// A file, whole.
#[derive(Debug)]
pub(crate) struct SmallFile {
    /// What it holds.
    pub(crate) bytes: Vec<u8>,
    /// How many names it has.
    pub(crate) links: u64,
}

/// Why there is nothing to read. No path stands in it: which one it was is the caller's affair.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BeneathFault {
    /// Folder or file are not there.
    #[error("there is no such file")]
    NotFound,
    /// A component below the folder is a symbolic link.
    #[error("`{0}` is a symbolic link, and none is followed there")]
    Symlink(String),
    /// Something else has the file's name.
    #[error("it is {0}, not a regular file")]
    WrongKind(&'static str),
    /// It holds more than it may.
    #[error("it has more than {0} bytes")]
    TooLarge(u64),
    /// On a file system that holds no ordinary files.
    #[error("it lies on a special file system ({0})")]
    SpecialFileSystem(String),
    /// The system refused.
    #[error("it cannot be read: {0}")]
    Io(String),
}

impl From<std::io::Error> for BeneathFault {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => Self::NotFound,
            _ => Self::Io(error.to_string()),
        }
    }
}

impl From<Errno> for BeneathFault {
    fn from(errno: Errno) -> Self {
        std::io::Error::from(errno).into()
    }
}

/// Reads a file by its components below a folder. How the folder itself is reached does not matter: it may be a link.
pub(crate) fn read_beneath(
    folder: &Path,
    components: &[&str],
    limit: u64,
) -> Result<SmallFile, BeneathFault> {
    let mut at = sys::find(&folder.canonicalize()?)?;
    for component in components {
        let name = CString::new(*component).map_err(|_| BeneathFault::NotFound)?;
        at = sys::find_child(&at.0, &name).map_err(|errno| match errno {
            Errno::LOOP => BeneathFault::Symlink((*component).to_owned()),
            // What macOS finds that is neither a file nor a directory.
            Errno::NOTSUP => BeneathFault::WrongKind("a FIFO, socket or device"),
            other => other.into(),
        })?;
    }
    read(&at, limit)
}

fn read(found: &Handle, limit: u64) -> Result<SmallFile, BeneathFault> {
    let facts = sys::stat(&found.0)?;
    if !facts.is_file() {
        return Err(BeneathFault::WrongKind(facts.kind_name()));
    }
    let mounts = sys::mounts()?;
    match sys::mount_of(&found.0, &facts, &mounts, &sys::real_path(&found.0)?) {
        Some(mount) if class_of(&mount.kind) != FsClass::Special => {}
        Some(mount) => return Err(BeneathFault::SpecialFileSystem(mount.kind)),
        None => return Err(BeneathFault::SpecialFileSystem("unknown mount".to_owned())),
    }
    if facts.bytes > limit {
        return Err(BeneathFault::TooLarge(limit));
    }
    let mut bytes = Vec::new();
    // It may grow while it is read.
    std::fs::File::from(sys::reopen(found)?).take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(BeneathFault::TooLarge(limit));
    }
    Ok(SmallFile { bytes, links: facts.links })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn fault(folder: &Path, components: &[&str]) -> BeneathFault {
        read_beneath(folder, components, 8).expect_err("a refusal")
    }

    #[test]
    fn a_regular_file_is_read_whole_also_in_a_folder_that_a_link_names() {
        let top = tempfile::tempdir().unwrap();
        std::fs::create_dir(top.path().join("a")).unwrap();
        std::fs::write(top.path().join("a/f"), "12345678").unwrap();
        symlink(top.path(), top.path().join("link")).unwrap();
        for folder in [top.path().to_owned(), top.path().join("link")] {
            let file = read_beneath(&folder, &["a", "f"], 8).unwrap();
            assert_eq!((file.bytes.as_slice(), file.links), (&b"12345678"[..], 1));
        }
        std::fs::hard_link(top.path().join("a/f"), top.path().join("g")).unwrap();
        assert_eq!(read_beneath(top.path(), &["g"], 8).unwrap().links, 2);
    }

    #[test]
    fn links_other_objects_and_too_much_are_refused_by_their_cause() {
        let top = tempfile::tempdir().unwrap();
        let at = |name: &str| top.path().join(name);
        std::fs::create_dir(at("a")).unwrap();
        std::fs::write(at("a/long"), "123456789").unwrap();
        symlink(at("a"), at("link")).unwrap();
        symlink("long", at("a/last")).unwrap();
        nix::unistd::mkfifo(&at("a/fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let found = |components: &[&str]| fault(top.path(), components);
        assert_eq!(found(&["link", "long"]), BeneathFault::Symlink("link".into()));
        assert_eq!(found(&["a", "last"]), BeneathFault::Symlink("last".into()));
        assert_eq!(found(&["a", "long"]), BeneathFault::TooLarge(8));
        assert_eq!(found(&["a"]), BeneathFault::WrongKind("a directory"));
        assert!(matches!(found(&["a", "fifo"]), BeneathFault::WrongKind(_)), "and nobody waits for a writer");
        assert_eq!(found(&["a", "none"]), BeneathFault::NotFound);
        assert_eq!(found(&["a", "long", "x"]), BeneathFault::NotFound);
        assert_eq!(fault(&at("none"), &["x"]), BeneathFault::NotFound);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_system_of_the_kernel_holds_nothing_to_read() {
        assert!(matches!(fault(Path::new("/proc"), &["version"]), BeneathFault::SpecialFileSystem(_)));
    }
}
