//! Step 3c: `/dev` of its own.
//!
//! A small file system in memory that holds clones of a handful of devices. A disk, the kernel's memory, a terminal or a
//! virtual machine monitor cannot be opened because its name is not there (and cannot be made: no capability).

use std::os::fd::BorrowedFd;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode};

use super::mounts::{self, FROZEN, NOEXEC, TAME, Tree};
use super::raw::Reach;
use super::{Step, failed};
use crate::launch::Layer;

/// The devices that every program may expect. `tty` opens a program's own controlling terminal and nothing else.
pub(super) const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// Names that point to the process's own descriptors.
const LINKS: [(&str, &str); 4] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
];

/// Where the sources of the masks are: an empty directory and an empty file that nobody may open.
pub(super) const MASK_DIRECTORY: &str = "/dev/.hidden/directory";
/// The file.
pub(super) const MASK_FILE: &str = "/dev/.hidden/file";

/// The most that it holds, in bytes and files: devices, and shared memory enough for multiprocessing.
const FULL: [(&str, &str); 3] = [("size", "64m"), ("nr_inodes", "4096"), ("mode", "755")];
/// Without shared memory.
const SMALL: [(&str, &str); 3] = [("size", "64k"), ("nr_inodes", "64"), ("mode", "755")];

/// How much there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// Devices, shared memory, pseudo-terminals of its own.
    Full,
    /// Devices only.
    Devices,
}

/// Clones of the host's devices, made while the host's `/dev` is visible.
#[derive(Debug)]
pub(super) struct Devices(Vec<(&'static str, Tree)>);

impl Devices {
    /// # Errors
    /// When one is missing.
    pub(super) fn of_the_host() -> Step<Self> {
        let clone = |name| Ok((name, Tree::clone_of(Layer::Dev, &Path::new("/dev").join(name))?));
        DEVICES.into_iter().map(clone).collect::<Step<_>>().map(Self)
    }

    /// Makes `/dev` and attaches it at `path` below `dir`.
    pub(super) fn put(&self, dir: BorrowedFd<'_>, path: &Path, extent: Extent) -> Step {
        let options = if extent == Extent::Full { FULL } else { SMALL };
        let tree = Tree::new(Layer::Dev, "tmpfs", &options, TAME)?;
        self.furnish(&tree, extent)?;
        tree.attach(dir, path)?;
        // By their names: nobody else has been in there yet.
        self.0.iter().try_for_each(|(name, device)| device.attach(tree.root(), Path::new(name)))?;
        if extent == Extent::Full {
            // The one directory that stays writable.
            Tree::clone_below(Layer::Dev, tree.root(), "shm")?.attach(tree.root(), Path::new("shm"))?;
            terminals()?.attach(tree.root(), Path::new("pts"))?;
        }
        mounts::set_attributes(Layer::Dev, tree.root(), c"", Reach::One, FROZEN | NOEXEC)
    }

    fn furnish(&self, tree: &Tree, extent: Extent) -> Step {
        let root = tree.root();
        let furnish = || -> rustix::io::Result<()> {
            for (name, target) in LINKS {
                rustix::fs::symlinkat(target, root, name)?;
            }
            self.0.iter().try_for_each(|(name, _)| file(root, name, 0o444))?;
            if extent == Extent::Full {
                rustix::fs::symlinkat("pts/ptmx", root, "ptmx")?;
                for name in ["shm", "pts", ".hidden"] {
                    rustix::fs::mkdirat(root, name, Mode::from_raw_mode(0o755))?;
                }
                rustix::fs::chmodat(root, "shm", Mode::from_raw_mode(0o1777), AtFlags::empty())?;
                rustix::fs::mkdirat(root, ".hidden/directory", Mode::empty())?;
                file(root, ".hidden/file", 0)?;
            }
            Ok(())
        };
        furnish().map_err(failed(Layer::Dev, "furnish /dev"))
    }
}

/// An empty file.
fn file(dir: BorrowedFd<'_>, path: &str, mode: u32) -> rustix::io::Result<()> {
    rustix::fs::mknodat(dir, path, FileType::RegularFile, Mode::from_raw_mode(mode), 0)
}

/// A set of pseudo-terminals of its own: the host's cannot be opened, and test suites that need one can have one.
fn terminals() -> Step<Tree> {
    let options = [("ptmxmode", "666"), ("mode", "600")];
    Tree::new(Layer::Dev, "devpts", &options, rustix::mount::MountAttrFlags::MOUNT_ATTR_NOSUID | NOEXEC)
}
