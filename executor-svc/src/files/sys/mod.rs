//! The system calls of this room, in one small form for every system.
//!
//! A [`Handle`] stands for an object that was found without following any link and, on Linux, without opening it: a
//! FIFO, a device or a dead network file cannot block or be set off by it. It is looked at first and opened then.

#[cfg(target_os = "linux")]
mod linux;
mod listing;
#[cfg(target_os = "macos")]
mod macos;
#[cfg(target_os = "linux")]
mod mount_table;

use std::ffi::{CStr, CString, OsString};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;

use rustix::fs::{FileType, Mode, OFlags};

#[cfg(target_os = "linux")]
pub(super) use linux::{
    find, find_child, find_directory, find_directory_below, may_write, mount_of, open_directory_below,
    real_path, reopen, stat, stat_child, sync_directory,
};
pub(super) use listing::{Listed, list};
#[cfg(target_os = "macos")]
pub(super) use macos::{
    find, find_child, find_directory, find_directory_below, may_write, mount_of, mounts,
    mounts as mounts_by_present_name, open_directory_below, real_path, reopen, stat, stat_child,
    sync_directory,
};
#[cfg(target_os = "linux")]
pub(super) use mount_table::{mounts, mounts_by_present_name};

/// An object that was found and not opened yet.
#[derive(Debug)]
pub(super) struct Handle(pub(super) OwnedFd);

/// What is known of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Facts {
    pub kind: FileType,
    pub dev: u64,
    pub ino: u64,
    pub links: u64,
    pub bytes: u64,
    /// Modification, in nanoseconds since the epoch.
    pub modified: i128,
    /// Change of the inode, in nanoseconds since the epoch.
    pub changed: i128,
    /// Which mount it was reached through; 0 where the system does not say.
    pub mount: u64,
    /// Permission bits, with set-user-id, set-group-id and sticky.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    /// Marked as immutable or append-only, which holds for the superuser too.
    pub locked: bool,
}

impl Facts {
    /// Device and inode.
    pub(super) const fn identity(&self) -> (u64, u64) {
        (self.dev, self.ino)
    }

    pub(super) fn is_file(&self) -> bool {
        self.kind == FileType::RegularFile
    }

    pub(super) fn is_directory(&self) -> bool {
        self.kind == FileType::Directory
    }

    /// The kind, with its article.
    pub(super) const fn kind_name(&self) -> &'static str {
        match self.kind {
            FileType::RegularFile => "a file",
            FileType::Directory => "a directory",
            FileType::Symlink => "a symbolic link",
            FileType::Fifo => "a FIFO",
            FileType::Socket => "a socket",
            FileType::CharacterDevice => "a character device",
            FileType::BlockDevice => "a block device",
            FileType::Unknown => "of an unknown kind",
        }
    }
}

/// Flags for reading: nothing blocks, nothing becomes a controlling terminal, no last component is followed.
fn reading() -> OFlags {
    OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC | OFlags::NOFOLLOW
}

/// A name as the standard library has it.
pub(super) fn os_string(name: CString) -> OsString {
    OsString::from_vec(name.into_bytes())
}

/// Opens a regular file by its name in a directory that was opened before.
pub(super) fn open_child(dir: &OwnedFd, name: &CStr) -> rustix::io::Result<File> {
    rustix::fs::openat(dir, name, reading(), Mode::empty()).map(File::from)
}
