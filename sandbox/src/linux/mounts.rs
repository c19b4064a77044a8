//! What the steps that build the view share: detached mounts, and attaching them.
//!
//! A mount is cloned or made detached, restricted, and only then attached: at no moment is anything writable where
//! it should not be. Targets are descriptors wherever a program may have prepared the way there.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags,
};

use super::raw::{self, Reach};
use super::{Step, failed};
use crate::launch::{Layer, LayerFailure};

/// No set-user-id, no devices.
pub(super) const TAME: MountAttrFlags =
    MountAttrFlags::MOUNT_ATTR_NOSUID.union(MountAttrFlags::MOUNT_ATTR_NODEV);
/// And read-only.
pub(super) const FROZEN: MountAttrFlags = TAME.union(MountAttrFlags::MOUNT_ATTR_RDONLY);
/// Nothing in it is a program.
pub(super) const NOEXEC: MountAttrFlags = MountAttrFlags::MOUNT_ATTR_NOEXEC;

/// A mount that is attached nowhere yet, or was attached by us.
#[derive(Debug)]
pub(super) struct Tree {
    fd: OwnedFd,
    layer: Layer,
}

impl Tree {
    /// A clone of what is at `path`, with all that is mounted below it.
    pub(super) fn clone_of(layer: Layer, path: &Path) -> Step<Self> {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE
            | OpenTreeFlags::OPEN_TREE_CLOEXEC
            | OpenTreeFlags::AT_RECURSIVE
            | OpenTreeFlags::AT_NO_AUTOMOUNT;
        let fd = rustix::mount::open_tree(CWD, path, flags)
            .map_err(failed(layer, format!("open_tree {}", path.display())))?;
        Ok(Self { fd, layer })
    }

    /// A clone of a directory of ours.
    pub(super) fn clone_below(layer: Layer, dir: BorrowedFd<'_>, name: &str) -> Step<Self> {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        let fd =
            rustix::mount::open_tree(dir, name, flags).map_err(failed(layer, format!("open_tree {name}")))?;
        Ok(Self { fd, layer })
    }

    /// A new file system in memory or of the kernel's, with these options.
    pub(super) fn new(
        layer: Layer,
        kind: &str,
        options: &[(&str, &str)],
        attributes: MountAttrFlags,
    ) -> Step<Self> {
        let make = || -> rustix::io::Result<OwnedFd> {
            let context = rustix::mount::fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
            for (key, value) in options {
                rustix::mount::fsconfig_set_string(&context, *key, *value)?;
            }
            rustix::mount::fsconfig_create(&context)?;
            rustix::mount::fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
        };
        let fd = make().map_err(failed(layer, format!("mount {kind}")))?;
        Ok(Self { fd, layer })
    }

    /// Adds attributes, to everything in it.
    pub(super) fn restrict(&self, attributes: MountAttrFlags) -> Step {
        set_attributes(self.layer, self.fd.as_fd(), c"", Reach::Tree, attributes)
    }

    /// Attaches it at `path`, below `dir` or absolute. The last component may not be a link.
    pub(super) fn attach(&self, dir: BorrowedFd<'_>, path: &Path) -> Step {
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        rustix::mount::move_mount(&self.fd, "", dir, path, flags)
            .map_err(failed(self.layer, format!("move_mount {}", path.display())))
    }

    /// Attaches it on what `target` has open.
    pub(super) fn attach_on(&self, target: &OwnedFd, what: &Path) -> Step {
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
        rustix::mount::move_mount(&self.fd, "", target, "", flags)
            .map_err(failed(self.layer, format!("move_mount {}", what.display())))
    }

    /// Its root directory or file.
    pub(super) fn root(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Which kind of object its root is.
    pub(super) fn is_directory(&self) -> Step<bool> {
        let found = rustix::fs::fstat(&self.fd).map_err(failed(self.layer, "fstat"))?;
        Ok(rustix::fs::FileType::from_raw_mode(found.st_mode).is_dir())
    }
}

/// Adds attributes to attached mounts.
pub(super) fn set_attributes(
    layer: Layer,
    dir: BorrowedFd<'_>,
    path: &CStr,
    reach: Reach,
    attributes: MountAttrFlags,
) -> Step {
    raw::set_mount_attributes(dir, path, reach, attributes.bits().into())
        .map_err(failed(layer, format!("mount_setattr {}", path.to_string_lossy())))
}

/// From here on nothing that is mounted here shows outside, and nothing that is mounted outside shows here.
pub(super) fn make_private() -> Step {
    rustix::mount::mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(failed(Layer::Mountns, "mount / private"))
}

/// Which object a mount is attached on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Directory,
    File,
}

/// Makes what is needed for a mount to be attached at `path` below `dir`, and opens it. Follows no link: what stands in
/// the way (a program may have put it there) is removed.
pub(super) fn make_target(layer: Layer, dir: BorrowedFd<'_>, path: &Path, kind: Kind) -> Step<OwnedFd> {
    let make = || -> rustix::io::Result<OwnedFd> {
        let mut here = rustix::fs::openat(dir, ".", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let mut names = path.components().filter_map(|part| match part {
            Component::Normal(name) => Some(name.as_bytes()),
            Component::RootDir | Component::CurDir | Component::ParentDir | Component::Prefix(_) => None,
        });
        let mut next = names.next();
        while let Some(name) = next {
            next = names.next();
            let kind = if next.is_some() { Kind::Directory } else { kind };
            here = open_or_make(here.as_fd(), name, kind)?;
        }
        Ok(here)
    };
    make().map_err(failed(layer, format!("make the place for {}", path.display())))
}

fn open_or_make(dir: BorrowedFd<'_>, name: &[u8], kind: Kind) -> rustix::io::Result<OwnedFd> {
    let open = || {
        let only = match kind {
            Kind::Directory => OFlags::DIRECTORY,
            Kind::File => OFlags::empty(),
        };
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC | only;
        rustix::fs::openat(dir, name, flags, Mode::empty())
    };
    match make(dir, name, kind) {
        Ok(()) => open(),
        Err(Errno::EXIST) => open().or_else(|errno| match errno {
            Errno::NOTDIR | Errno::LOOP => {
                rustix::fs::unlinkat(dir, name, AtFlags::empty())?;
                make(dir, name, kind)?;
                open()
            }
            other => Err(other),
        }),
        Err(other) => Err(other),
    }
}

fn make(dir: BorrowedFd<'_>, name: &[u8], kind: Kind) -> rustix::io::Result<()> {
    match kind {
        Kind::Directory => rustix::fs::mkdirat(dir, name, Mode::from_raw_mode(0o755)),
        Kind::File => {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
            rustix::fs::openat(dir, name, flags, Mode::from_raw_mode(0o444)).map(drop)
        }
    }
}

/// A place that must exist, with all links resolved.
pub(super) fn real(layer: Layer, path: &Path) -> Step<PathBuf> {
    if !path.is_absolute() {
        return Err(LayerFailure::new(layer, format!("{} is not absolute", path.display()), 22));
    }
    resolve(path).map_err(failed(layer, format!("realpath {}", path.display())))
}

/// An absolute path with all links resolved. Most have none, and the kernel can say so in one go.
pub(super) fn resolve(path: &Path) -> io::Result<PathBuf> {
    if is_plain(path) {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        match rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
            Ok(_) => return Ok(path.to_owned()),
            Err(errno @ (Errno::NOENT | Errno::NOTDIR | Errno::ACCESS)) => return Err(errno.into()),
            // There is a link on the way, or the kernel cannot say.
            Err(_) => {}
        }
    }
    path.canonicalize()
}

/// Whether the path is spelled the way a resolved one is.
fn is_plain(path: &Path) -> bool {
    let sound = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    // Put together again it has no doubled or trailing slash, and no single dot.
    sound && path.components().collect::<PathBuf>().as_os_str() == path.as_os_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resolved_path_is_what_the_c_library_says() {
        let top = tempfile::tempdir().unwrap();
        let top = top.path().canonicalize().unwrap();
        std::fs::create_dir_all(top.join("a/b")).unwrap();
        std::fs::write(top.join("a/file"), "").unwrap();
        std::os::unix::fs::symlink("a", top.join("link")).unwrap();
        std::os::unix::fs::symlink("nowhere", top.join("dangling")).unwrap();
        std::os::unix::fs::symlink("loop", top.join("loop")).unwrap();
        for below in [
            "a",
            "a/b",
            "a/b/",
            "a//b",
            "a/./b",
            "a/b/..",
            "a/file",
            "link",
            "link/b",
            "link/../a",
            "dangling",
            "loop",
            "loop/x",
            "nothing",
            "a/file/x",
            "a/nothing/x",
        ] {
            let path = PathBuf::from(format!("{}/{below}", top.display()));
            let (ours, theirs) = (resolve(&path), path.canonicalize());
            let errno = |error: &io::Error| error.raw_os_error();
            assert_eq!(ours.as_ref().ok(), theirs.as_ref().ok(), "{below}");
            assert_eq!(ours.as_ref().err().map(errno), theirs.as_ref().err().map(errno), "{below}");
        }
        assert_eq!(resolve(Path::new("/")).unwrap(), Path::new("/"));
    }
}
