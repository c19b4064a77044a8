//! Step 3, for programs that need little: a root that holds only what was named.
//!
//! What is not named is not there (`ENOENT`): no other file, socket or configuration can be reached by any path. The
//! host's tree is detached for good once the new root is in place.

use std::fs;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::mount::{MountAttrFlags, UnmountFlags};

use super::mounts::{self, FROZEN, Kind, NOEXEC, TAME, Tree};
use super::raw::Reach;
use super::{Step, dev, failed, proc, scratch};
use crate::launch::{Confinement, LaunchRequest, Layer, SCRATCH, Scratch};

/// A file or directory of the host, and under which path it shows.
struct Piece {
    path: PathBuf,
    tree: Tree,
}

impl Piece {
    /// Clones what `path` leads to. It shows under the very path that was named, links resolved only outside.
    fn of(path: &Path, attributes: MountAttrFlags) -> Step<Self> {
        let tree = Tree::clone_of(Layer::MinimalRoot, &mounts::real(Layer::MinimalRoot, path)?)?;
        tree.restrict(attributes)?;
        Ok(Self { path: path.to_owned(), tree })
    }

    fn put(&self, root: &Tree) -> Step {
        let below = relative(&self.path);
        let kind = if self.tree.is_directory()? { Kind::Directory } else { Kind::File };
        let target = mounts::make_target(Layer::MinimalRoot, root.root(), below, kind)?;
        self.tree.attach_on(&target, &self.path)
    }
}

fn relative(path: &Path) -> &Path {
    path.strip_prefix("/").unwrap_or(path)
}

/// The view of Claude Code.
///
/// # Errors
/// When any step fails.
pub(super) fn build(request: &LaunchRequest, confinement: &Confinement, layers: &mut Vec<Layer>) -> Step {
    mounts::make_private()?;
    let devices = dev::Devices::of_the_host()?;
    let mut pieces = Vec::new();
    for (paths, attributes) in [
        (&confinement.programs, FROZEN),
        (&confinement.readable, FROZEN | NOEXEC),
        (&confinement.writable, TAME | NOEXEC),
    ] {
        for path in paths {
            pieces.push(Piece::of(path, attributes)?);
        }
    }
    pieces.sort_by(|one, other| one.path.cmp(&other.path));
    let proc = proc::mount()?;
    let scratch = match &confinement.scratch {
        Scratch::None => None,
        wanted @ (Scratch::Directory { .. } | Scratch::Memory { .. }) => Some(scratch::make(wanted)?),
    };

    let root = new_root()?;
    if let Some(scratch) = &scratch {
        put(scratch, &root, Path::new(SCRATCH))?;
        layers.push(Layer::Scratch);
    }
    pieces.iter().try_for_each(|piece| piece.put(&root))?;
    mounts::make_target(Layer::Dev, root.root(), Path::new("dev"), Kind::Directory)?;
    devices.put(root.root(), Path::new("dev"), dev::Extent::Devices)?;
    layers.push(Layer::Dev);
    put(&proc, &root, Path::new("/proc"))?;
    layers.push(Layer::Proc);
    // The directory in which it starts must exist, even where nothing else of it is to be seen.
    mounts::make_target(Layer::MinimalRoot, root.root(), relative(Path::new(&request.cwd)), Kind::Directory)?;
    enter(&root)?;
    layers.push(Layer::MinimalRoot);
    Ok(())
}

/// The view of a process that confines itself: these directories, and nothing else.
///
/// # Errors
/// When any step fails.
pub(super) fn build_for_itself(reachable: &[PathBuf], layers: &mut Vec<Layer>) -> Step {
    mounts::make_private()?;
    let pieces = reachable.iter().map(|path| Piece::of(path, FROZEN | NOEXEC)).collect::<Step<Vec<_>>>()?;
    let root = new_root()?;
    pieces.iter().try_for_each(|piece| piece.put(&root))?;
    enter(&root)?;
    layers.push(Layer::MinimalRoot);
    Ok(())
}

fn put(tree: &Tree, root: &Tree, path: &Path) -> Step {
    let target = mounts::make_target(Layer::MinimalRoot, root.root(), relative(path), Kind::Directory)?;
    tree.attach_on(&target, path)
}

/// An empty root, attached where it is out of the way until it becomes the root.
fn new_root() -> Step<Tree> {
    let options = [("size", "256k"), ("nr_inodes", "2048"), ("mode", "755")];
    let root = Tree::new(Layer::MinimalRoot, "tmpfs", &options, TAME | NOEXEC)?;
    // Any directory will do, and every system has one of these.
    let place =
        ["/tmp", "/proc"].into_iter().find(|place| fs::metadata(place).is_ok_and(|found| found.is_dir()));
    root.attach(rustix::fs::CWD, Path::new(place.unwrap_or("/")))?;
    Ok(root)
}

/// Makes it the root and lets go of the old one.
fn enter(root: &Tree) -> Step {
    let fail = |call| failed::<rustix::io::Errno>(Layer::MinimalRoot, call);
    rustix::process::fchdir(root.root()).map_err(fail("fchdir"))?;
    // Both in one place: the old root comes to lie on top of the new one, from where it is taken off.
    rustix::process::pivot_root(".", ".").map_err(fail("pivot_root"))?;
    rustix::mount::unmount(".", UnmountFlags::DETACH).map_err(fail("umount the old root"))?;
    rustix::process::chdir("/").map_err(fail("chdir /"))?;
    mounts::set_attributes(Layer::MinimalRoot, rustix::fs::CWD.as_fd(), c"/", Reach::One, FROZEN | NOEXEC)
}
