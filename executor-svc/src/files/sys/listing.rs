//! Reading a directory through its descriptor.

use std::ffi::CString;
use std::os::fd::OwnedFd;

use rustix::fs::FileType;

/// One entry.
#[derive(Debug)]
pub(in crate::files) struct Listed {
    pub name: CString,
    /// `Unknown` where the file system does not say.
    pub kind: FileType,
}

/// Every entry but `.` and `..`, in the order of the file system.
#[cfg(target_os = "linux")]
pub(in crate::files) fn list(dir: &OwnedFd) -> rustix::io::Result<Vec<Listed>> {
    let mut buffer = Vec::with_capacity(32 * 1024);
    let mut entries = rustix::fs::RawDir::new(dir, buffer.spare_capacity_mut());
    let mut listed = Vec::new();
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name();
        if !matches!(name.to_bytes(), b"." | b"..") {
            listed.push(Listed { name: name.to_owned(), kind: entry.file_type() });
        }
    }
    Ok(listed)
}

/// Every entry but `.` and `..`, in the order of the file system.
#[cfg(not(target_os = "linux"))]
pub(in crate::files) fn list(dir: &OwnedFd) -> rustix::io::Result<Vec<Listed>> {
    let mut listed = Vec::new();
    for entry in rustix::fs::Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        if !matches!(name.to_bytes(), b"." | b"..") {
            listed.push(Listed { name: name.to_owned(), kind: entry.file_type() });
        }
    }
    Ok(listed)
}
