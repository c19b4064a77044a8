//! Step 3c: `/dev` of its own.
//!
//! A small file system in memory that holds clones of a handful of devices. A disk, the kernel's memory, a terminal or a
//! virtual machine monitor cannot be opened because its name is not there (and cannot be made: no capability).

use std::os::fd::BorrowedFd;
use std::path::Path;

use rustix::fs::Mode;

use super::mounts::{self, FROZEN, Kind, NOEXEC, TAME, Tree};
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

/// The most that shared memory holds: enough for multiprocessing, and bounded.
const SHARED_MEMORY: &str = "64m";

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
        let options = [("size", "64k"), ("nr_inodes", "64"), ("mode", "755")];
        let tree = Tree::new(Layer::Dev, "tmpfs", &options, TAME | NOEXEC)?;
        self.furnish(&tree, extent)?;
        tree.attach(dir, path)?;
        for (name, device) in &self.0 {
            let target = mounts::make_target(Layer::Dev, tree.root(), Path::new(name), Kind::File)?;
            device.attach_on(&target, Path::new(name))?;
        }
        if extent == Extent::Full {
            shared_memory()?.attach(tree.root(), Path::new("shm"))?;
            terminals()?.attach(tree.root(), Path::new("pts"))?;
        }
        mounts::set_attributes(Layer::Dev, tree.root(), c"", Reach::One, FROZEN)
    }

    fn furnish(&self, tree: &Tree, extent: Extent) -> Step {
        let root = tree.root();
        let furnish = || -> rustix::io::Result<()> {
            for (name, target) in LINKS {
                rustix::fs::symlinkat(target, root, name)?;
            }
            if extent == Extent::Full {
                rustix::fs::symlinkat("pts/ptmx", root, "ptmx")?;
                for name in ["shm", "pts", ".hidden"] {
                    rustix::fs::mkdirat(root, name, Mode::from_raw_mode(0o755))?;
                }
                rustix::fs::mkdirat(root, ".hidden/directory", Mode::empty())?;
                let flags =
                    rustix::fs::OFlags::CREATE | rustix::fs::OFlags::EXCL | rustix::fs::OFlags::CLOEXEC;
                rustix::fs::openat(root, ".hidden/file", flags, Mode::empty())?;
            }
            Ok(())
        };
        furnish().map_err(failed(Layer::Dev, "furnish /dev"))
    }
}

fn shared_memory() -> Step<Tree> {
    let options = [("size", SHARED_MEMORY), ("nr_inodes", "4096"), ("mode", "1777")];
    Tree::new(Layer::Dev, "tmpfs", &options, TAME)
}

/// A set of pseudo-terminals of its own: the host's cannot be opened, and test suites that need one can have one.
fn terminals() -> Step<Tree> {
    let options = [("ptmxmode", "666"), ("mode", "600")];
    Tree::new(Layer::Dev, "devpts", &options, rustix::mount::MountAttrFlags::MOUNT_ATTR_NOSUID | NOEXEC)
}
