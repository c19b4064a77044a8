//! Linux: `openat2` where the kernel has it, a walk component by component where it does not.

use std::ffi::{CStr, OsStr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, StatxAttributes, StatxFlags};
use rustix::io::Errno;

use super::{Facts, Handle, reading};
use crate::files::mounts::{Mount, Mounts};

const NO_LINKS: ResolveFlags = ResolveFlags::NO_SYMLINKS.union(ResolveFlags::NO_MAGICLINKS);

fn finding() -> OFlags {
    OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW
}

/// Finds what an absolute path names. A symbolic link at any component gives `ELOOP`.
pub(in crate::files) fn find(path: &Path) -> rustix::io::Result<Handle> {
    open_without_links(CWD, path, finding(), NO_LINKS).map(Handle)
}

/// Finds what a name in a directory stands for. A symbolic link gives `ELOOP`.
pub(in crate::files) fn find_child(dir: &OwnedFd, name: &CStr) -> rustix::io::Result<Handle> {
    let name = Path::new(OsStr::from_bytes(name.to_bytes()));
    open_without_links(dir.as_fd(), name, finding(), NO_LINKS | ResolveFlags::BENEATH).map(Handle)
}

/// Whether the system would let this process write to a name in a directory, which is `found`; `None` is the
/// directory itself.
pub(in crate::files) fn may_write(dir: &OwnedFd, found: Option<(&CStr, &Handle)>) -> rustix::io::Result<()> {
    let (object, wanted) = match found {
        Some((_, handle)) => (&handle.0, Access::WRITE_OK),
        None => (dir, Access::WRITE_OK | Access::EXEC_OK),
    };
    rustix::fs::accessat(CWD, descriptor_link(object), wanted, AtFlags::EACCESS)
}

/// Finds a directory by its absolute path, to look at it or to go on from it.
pub(in crate::files) fn find_directory(path: &Path) -> rustix::io::Result<OwnedFd> {
    open_without_links(CWD, path, finding() | OFlags::DIRECTORY, NO_LINKS)
}

/// The same below one that was found before.
pub(in crate::files) fn find_directory_below(dir: &OwnedFd, path: &Path) -> rustix::io::Result<OwnedFd> {
    let beneath = NO_LINKS | ResolveFlags::BENEATH;
    open_without_links(dir.as_fd(), path, finding() | OFlags::DIRECTORY, beneath)
}

/// Writes the entries of a directory to the disk.
pub(in crate::files) fn sync_directory(dir: &OwnedFd) -> rustix::io::Result<()> {
    rustix::fs::fsync(dir)
}

/// Opens a directory for listing, below one that was opened before.
pub(in crate::files) fn open_directory_below(dir: &OwnedFd, path: &Path) -> rustix::io::Result<OwnedFd> {
    open_without_links(dir.as_fd(), path, reading() | OFlags::DIRECTORY, NO_LINKS | ResolveFlags::BENEATH)
}

fn open_without_links(
    dir: BorrowedFd<'_>,
    path: &Path,
    flags: OFlags,
    resolve: ResolveFlags,
) -> rustix::io::Result<OwnedFd> {
    match rustix::fs::openat2(dir, path, flags, Mode::empty(), resolve) {
        // Old kernels and some container filters; EAGAIN is a rename somewhere on the way, seen by BENEATH.
        Err(Errno::NOSYS | Errno::PERM | Errno::AGAIN) => walk(dir, path, flags),
        // O_PATH with O_NOFOLLOW finds a link as the last component instead of refusing it, unless it wants a directory.
        Ok(found) if flags.contains(OFlags::PATH) && !flags.contains(OFlags::DIRECTORY) => refuse_link(found),
        result => result,
    }
}

fn refuse_link(found: OwnedFd) -> rustix::io::Result<OwnedFd> {
    if FileType::from_raw_mode(rustix::fs::fstat(&found)?.st_mode) == FileType::Symlink {
        return Err(Errno::LOOP);
    }
    Ok(found)
}

/// The same without `openat2`: each component is found on its own and must not be a link.
pub(super) fn walk(dir: BorrowedFd<'_>, path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let start = if path.is_absolute() { Path::new("/") } else { Path::new(".") };
    let mut at = rustix::fs::openat(dir, start, finding() | OFlags::DIRECTORY, Mode::empty())?;
    for component in path.components() {
        match component {
            Component::RootDir | Component::CurDir => {}
            Component::Normal(name) => {
                at = refuse_link(rustix::fs::openat(&at, name, finding(), Mode::empty())?)?;
            }
            Component::ParentDir | Component::Prefix(_) => return Err(Errno::INVAL),
        }
    }
    if flags.contains(OFlags::PATH) { Ok(at) } else { reopen_with(&at, flags) }
}

/// Opens for reading what was found: the same object, whatever the path names by now.
pub(in crate::files) fn reopen(handle: &Handle) -> rustix::io::Result<OwnedFd> {
    reopen_with(&handle.0, reading())
}

fn reopen_with(found: &OwnedFd, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let flags = flags.difference(OFlags::NOFOLLOW | OFlags::PATH);
    rustix::fs::openat(CWD, descriptor_link(found), flags, Mode::empty())
}

fn descriptor_link(fd: &impl AsRawFd) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

/// The path of an open object as the kernel knows it now.
pub(in crate::files) fn real_path(fd: &OwnedFd) -> rustix::io::Result<PathBuf> {
    let bytes = rustix::fs::readlinkat(CWD, descriptor_link(fd), Vec::new())?.into_bytes();
    Ok(PathBuf::from(std::ffi::OsString::from_vec(bytes)))
}

/// What is known of an open object.
pub(in crate::files) fn stat(fd: impl AsFd) -> rustix::io::Result<Facts> {
    stat_at(fd.as_fd(), c"", AtFlags::EMPTY_PATH)
}

/// What is known of a name in a directory; a link counts as itself.
pub(in crate::files) fn stat_child(dir: &OwnedFd, name: &CStr) -> rustix::io::Result<Facts> {
    stat_at(dir.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT)
}

fn stat_at(dir: BorrowedFd<'_>, name: &CStr, flags: AtFlags) -> rustix::io::Result<Facts> {
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::MNT_ID;
    let found = rustix::fs::statx(dir, name, flags, wanted)?;
    let has_mount = found.stx_mask & StatxFlags::MNT_ID.bits() != 0;
    let time = |t: rustix::fs::StatxTimestamp| i128::from(t.tv_sec) * 1_000_000_000 + i128::from(t.tv_nsec);
    Ok(Facts {
        kind: FileType::from_raw_mode(found.stx_mode.into()),
        dev: rustix::fs::makedev(found.stx_dev_major, found.stx_dev_minor),
        ino: found.stx_ino,
        links: found.stx_nlink.into(),
        bytes: found.stx_size,
        modified: time(found.stx_mtime),
        changed: time(found.stx_ctime),
        mount: if has_mount { found.stx_mnt_id } else { 0 },
        mode: u32::from(found.stx_mode) & 0o7777,
        uid: found.stx_uid,
        gid: found.stx_gid,
        locked: found.stx_attributes.intersects(StatxAttributes::IMMUTABLE | StatxAttributes::APPEND),
    })
}

/// The mount that an open object lies on.
pub(in crate::files) fn mount_of(
    _fd: &OwnedFd,
    facts: &Facts,
    mounts: &Mounts,
    real: &Path,
) -> Option<Mount> {
    // Kernels before 5.8 do not tell the mount; then the path has to do.
    if facts.mount == 0 { mounts.containing(real).cloned() } else { mounts.by_id(facts.mount).cloned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_walk_without_openat2_refuses_the_same_links() {
        let top = tempfile::tempdir().unwrap();
        let top = top.path().canonicalize().unwrap();
        std::fs::create_dir(top.join("dir")).unwrap();
        std::fs::write(top.join("dir/file"), "x").unwrap();
        std::os::unix::fs::symlink(top.join("dir"), top.join("link")).unwrap();
        std::os::unix::fs::symlink("file", top.join("dir/last")).unwrap();
        for (name, wanted) in [
            ("dir/file", None),
            ("dir", None),
            ("link/file", Some(Errno::LOOP)),
            ("link", Some(Errno::LOOP)),
            ("dir/last", Some(Errno::LOOP)),
            ("dir/none", Some(Errno::NOENT)),
            ("dir/file/x", Some(Errno::NOTDIR)),
        ] {
            assert_eq!(find(&top.join(name)).err(), wanted, "openat2 {name}");
            assert_eq!(walk(CWD, &top.join(name), finding()).err(), wanted, "walk {name}");
        }
        assert!(walk(CWD, &top.join("dir/file"), reading()).is_ok());
    }
}
