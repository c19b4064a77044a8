//! What belongs to a file besides its bytes, and goes over to the file that replaces it.
//!
//! Kept: permission bits, owner, group, extended attributes, access lists, and on Linux the attributes of `lsattr` that
//! a file may be given. Not kept: the times of modification and change, which are those of the write, the time of birth
//! and the inode's number.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::os::fd::AsFd;

use rustix::fs::{Mode, XattrFlags};
use rustix::io::Errno;

use super::current::Current;
use crate::files::sys::{self, Facts};

/// What could not be kept, and why.
#[derive(Debug)]
pub(super) struct Unkept {
    pub what: String,
    pub errno: Errno,
}

fn unkept(what: impl Into<String>) -> impl FnOnce(Errno) -> Unkept {
    let what = what.into();
    move |errno| Unkept { what, errno }
}

/// Gives `to`, which was made like this, all that belongs to the file that is there.
pub(super) fn copy(current: &Current, made: &Facts, to: &File) -> Result<(), Unkept> {
    let (from, facts, now) = (&current.file, &current.facts, made);
    if (now.uid, now.gid) != (facts.uid, facts.gid) {
        let owner = (now.uid != facts.uid).then(|| rustix::fs::Uid::from_raw(facts.uid));
        let group = (now.gid != facts.gid).then(|| rustix::fs::Gid::from_raw(facts.gid));
        rustix::fs::fchown(to, owner, group).map_err(unkept("its owner or group"))?;
    }
    copy_attributes(from, to)?;
    #[cfg(target_os = "macos")]
    gatehouse_sandbox::open_file::copy_access_list(from, to).map_err(|error| Unkept {
        what: "its access list".to_owned(),
        errno: Errno::from_io_error(&error).unwrap_or(Errno::IO),
    })?;
    // Last: a change of owner takes set-user-id away, and an access list brings permission bits of its own.
    rustix::fs::fchmod(to, mode(facts.mode)).map_err(unkept("its permissions"))
}

#[allow(clippy::cast_possible_truncation, reason = "permission bits fit into every system's type for them")]
const fn mode(bits: u32) -> Mode {
    Mode::from_raw_mode(bits as rustix::fs::RawMode)
}

/// What a file system works out by itself for every content.
const COMPUTED: [&CStr; 2] = [c"security.ima", c"security.evm"];
/// Where the directory may give a new file one that the old file does not have.
const ACCESS_LIST: &CStr = c"system.posix_acl_access";

fn copy_attributes(from: &File, to: &File) -> Result<(), Unkept> {
    let wanted = attributes(from).map_err(unkept("its extended attributes"))?;
    let present = attributes(to).map_err(unkept("its extended attributes"))?;
    for name in wanted.iter().filter(|name| !COMPUTED.contains(&name.as_c_str())) {
        let what = || format!("its extended attribute {}", name.to_string_lossy());
        let value = attribute(from, name).map_err(unkept(what()))?;
        if attribute(to, name).is_ok_and(|there| there == value) {
            continue;
        }
        match rustix::fs::fsetxattr(to, name, &value, XattrFlags::empty()) {
            Ok(()) => {}
            // macOS lets nobody but itself set where a file came from.
            Err(_) if name.to_bytes().starts_with(b"com.apple.provenance") => {}
            Err(errno) => return Err(unkept(what())(errno)),
        }
    }
    if present.iter().any(|name| name.as_c_str() == ACCESS_LIST)
        && !wanted.iter().any(|name| name.as_c_str() == ACCESS_LIST)
    {
        rustix::fs::fremovexattr(to, ACCESS_LIST).map_err(unkept("its access list"))?;
    }
    Ok(())
}

/// The names of a file's extended attributes; none where the file system has none.
fn attributes(file: impl AsFd) -> rustix::io::Result<Vec<CString>> {
    let mut buffer = Vec::new();
    loop {
        let size = match rustix::fs::flistxattr_query(&file) {
            Ok(0) | Err(Errno::NOTSUP | Errno::NOSYS) => return Ok(Vec::new()),
            size => size?,
        };
        buffer.resize(size, 0);
        match rustix::fs::flistxattr(&file, buffer.as_mut_slice()) {
            Ok(got) => {
                let names = buffer[..got].split(|byte| *byte == 0).filter(|name| !name.is_empty());
                return Ok(names.filter_map(|name| CString::new(name).ok()).collect());
            }
            // It grew between the two calls.
            Err(Errno::RANGE) => {}
            Err(errno) => return Err(errno),
        }
    }
}

fn attribute(file: impl AsFd, name: &CStr) -> rustix::io::Result<Vec<u8>> {
    loop {
        let size = rustix::fs::fgetxattr_query(&file, name)?;
        let mut value = vec![0; size];
        match rustix::fs::fgetxattr(&file, name, value.as_mut_slice()) {
            Ok(got) => {
                value.truncate(got);
                return Ok(value);
            }
            Err(Errno::RANGE) => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// The attributes of `lsattr` that a file may be given, as far as the file system takes them. Some of them count only
/// for a file that is still empty.
#[cfg(target_os = "linux")]
pub(super) fn copy_flags(from: &File, to: &File) {
    use rustix::fs::IFlags;
    let kept = IFlags::NODUMP | IFlags::NOATIME | IFlags::SYNC | IFlags::COMPRESSED | IFlags::NOCOW;
    let (Ok(wanted), Ok(now)) = (rustix::fs::ioctl_getflags(from), rustix::fs::ioctl_getflags(to)) else {
        return;
    };
    let new = now.difference(kept) | wanted.intersection(kept);
    if new != now {
        // They tune how the file is stored and say nothing about who may do what: not worth a refusal.
        let _ = rustix::fs::ioctl_setflags(to, new);
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) const fn copy_flags(_: &File, _: &File) {}

/// Gives something new the permissions that it would have if the user had made it: the daemon's own umask is stricter.
/// Where the directory has an access list for new files, that has been applied already, and the umask has no say.
pub(super) fn as_if_made_by_the_user(made: impl AsFd, wanted: u32, umask: u32) -> rustix::io::Result<()> {
    if attribute(&made, ACCESS_LIST).is_ok() {
        return Ok(());
    }
    // A directory may have got set-group-id from the one around it.
    let kept = sys::stat(&made)?.mode & 0o7000;
    rustix::fs::fchmod(&made, mode(kept | (wanted & !umask)))
}
