//! macOS: `O_NOFOLLOW_ANY`, and the path of the opened object from the kernel.

use std::ffi::{CStr, OsStr};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::{Facts, Handle, reading};
use crate::files::mounts::{Mount, Mounts};

/// Finds what an absolute path names. A symbolic link at any component gives `ELOOP`.
///
/// There is no `O_PATH` here: what is no file and no directory is told by `lstat` and never opened.
pub(in crate::files) fn find(path: &Path) -> rustix::io::Result<Handle> {
    open_without_links(CWD, path)
}

/// Finds what a name in a directory stands for. A symbolic link gives `ELOOP`.
pub(in crate::files) fn find_child(dir: &OwnedFd, name: &CStr) -> rustix::io::Result<Handle> {
    open_without_links(dir, Path::new(OsStr::from_bytes(name.to_bytes())))
}

/// Whether the system would let this process write to a name in a directory; `None` is the directory itself.
pub(in crate::files) fn may_write(dir: &OwnedFd, found: Option<(&CStr, &Handle)>) -> rustix::io::Result<()> {
    let (name, wanted) = match found {
        Some((name, _)) => (name, Access::WRITE_OK),
        None => (c".", Access::WRITE_OK | Access::EXEC_OK),
    };
    rustix::fs::accessat(dir, name, wanted, AtFlags::EACCESS)
}

fn open_without_links(dir: impl AsFd, path: &Path) -> rustix::io::Result<Handle> {
    let found = rustix::fs::statat(&dir, path, AtFlags::SYMLINK_NOFOLLOW)?;
    match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile | FileType::Directory => {}
        FileType::Symlink => return Err(Errno::LOOP),
        FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown => return Err(Errno::NOTSUP),
    }
    rustix::fs::openat(dir, path, reading() | OFlags::NOFOLLOW_ANY, Mode::empty()).map(Handle)
}

/// Finds a directory by its absolute path, to look at it or to go on from it.
pub(in crate::files) fn find_directory(path: &Path) -> rustix::io::Result<OwnedFd> {
    rustix::fs::openat(CWD, path, reading() | OFlags::NOFOLLOW_ANY | OFlags::DIRECTORY, Mode::empty())
}

/// The same below one that was found before.
pub(in crate::files) fn find_directory_below(dir: &OwnedFd, path: &Path) -> rustix::io::Result<OwnedFd> {
    open_directory_below(dir, path)
}

/// Writes the entries of a directory to the disk.
pub(in crate::files) fn sync_directory(dir: &OwnedFd) -> rustix::io::Result<()> {
    rustix::fs::fcntl_fullfsync(dir)
}

/// Opens a directory for listing, below one that was opened before.
pub(in crate::files) fn open_directory_below(dir: &OwnedFd, path: &Path) -> rustix::io::Result<OwnedFd> {
    rustix::fs::openat(dir, path, reading() | OFlags::NOFOLLOW_ANY | OFlags::DIRECTORY, Mode::empty())
}

/// The descriptor that [`find`] opened, once more.
pub(in crate::files) fn reopen(handle: &Handle) -> rustix::io::Result<OwnedFd> {
    rustix::io::fcntl_dupfd_cloexec(&handle.0, 0)
}

/// The path of an open object as the kernel knows it now, in the spelling of the disk.
pub(in crate::files) fn real_path(fd: &OwnedFd) -> rustix::io::Result<PathBuf> {
    let path = rustix::fs::getpath(fd)?;
    Ok(PathBuf::from(std::ffi::OsString::from_vec(path.into_bytes())))
}

/// What is known of an open object.
pub(in crate::files) fn stat(fd: impl AsFd) -> rustix::io::Result<Facts> {
    rustix::fs::fstat(fd).map(|found| facts(&found))
}

/// What is known of a name in a directory; a link counts as itself.
pub(in crate::files) fn stat_child(dir: &OwnedFd, name: &CStr) -> rustix::io::Result<Facts> {
    rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).map(|found| facts(&found))
}

/// `UF_IMMUTABLE`, `UF_APPEND`, `SF_IMMUTABLE` and `SF_APPEND` of `sys/stat.h`.
const LOCKED: u32 = 0x2 | 0x4 | 0x2_0000 | 0x4_0000;

fn facts(found: &Stat) -> Facts {
    let time = |seconds: i64, nanos: i64| i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
    Facts {
        kind: FileType::from_raw_mode(found.st_mode),
        dev: u64::from(found.st_dev.unsigned_abs()),
        ino: found.st_ino,
        links: found.st_nlink.into(),
        bytes: found.st_size.unsigned_abs(),
        modified: time(found.st_mtime, found.st_mtime_nsec),
        changed: time(found.st_ctime, found.st_ctime_nsec),
        mount: u64::from(found.st_dev.unsigned_abs()),
        mode: u32::from(found.st_mode) & 0o7777,
        uid: found.st_uid,
        gid: found.st_gid,
        locked: found.st_flags & LOCKED != 0,
    }
}

/// Nothing: macOS has no bind mounts to see through, and [`mount_of`] asks the object itself.
#[allow(clippy::unnecessary_wraps, reason = "the same form as on Linux, where it can fail")]
pub(in crate::files) fn mounts() -> io::Result<Mounts> {
    Ok(Mounts::default())
}

/// The mount that an open object lies on.
pub(in crate::files) fn mount_of(
    fd: &OwnedFd,
    facts: &Facts,
    _mounts: &Mounts,
    _real: &Path,
) -> Option<Mount> {
    let found = rustix::fs::fstatfs(fd).ok()?;
    let text = |chars: &[std::ffi::c_char]| -> Vec<u8> {
        chars.iter().map(|c| c.cast_unsigned()).take_while(|byte| *byte != 0).collect()
    };
    Some(Mount {
        id: facts.mount,
        device: facts.dev.to_string(),
        root: PathBuf::from("/"),
        point: PathBuf::from(std::ffi::OsString::from_vec(text(&found.f_mntonname))),
        kind: String::from_utf8_lossy(&text(&found.f_fstypename)).into_owned(),
    })
}
