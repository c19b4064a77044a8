//! The temporary file beside the one that is replaced.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::Write as _;
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Mode, OFlags};

use super::Replacer;
use super::current::{Current, hash};
use super::fault::ReplaceFault;
use super::metadata;
use super::place::Place;
use super::steps::Step;
use crate::files::sys;

/// A file of ours under a temporary name. Unless it was given away, it is removed when this is dropped.
#[derive(Debug)]
pub(super) struct Temporary<'a> {
    directory: &'a OwnedFd,
    pub name: &'a CStr,
    pub file: File,
    pub identity: (u64, u64),
    given_away: bool,
}

impl<'a> Temporary<'a> {
    /// Makes it, with the bytes, and with the metadata of the file that it is to replace, and writes it to the disk.
    pub(super) fn make(
        replacer: &Replacer,
        place: &'a Place,
        name: &'a CStr,
        bytes: &[u8],
        current: Option<&Current>,
    ) -> Result<Self, ReplaceFault> {
        let path = &place.path;
        replacer.before(Step::MakeTemporary, path)?;
        let made = Self::create(place, name, current.is_none())?;
        if let Some(current) = current {
            metadata::copy_flags(&current.file, &made.file);
        }
        let (first, second) = bytes.split_at(bytes.len() / 2);
        for (step, half) in [(Step::WriteTemporary, first), (Step::WriteSecondHalf, second)] {
            replacer.before(step, path)?;
            (&made.file).write_all(half).map_err(|error| ReplaceFault::of_io(&error, path))?;
        }
        replacer.before(Step::SyncTemporary, path)?;
        match current {
            Some(current) => metadata::copy(&current.file, &current.facts, &made.file).map_err(|unkept| {
                match ReplaceFault::of(unkept.errno, path) {
                    full @ ReplaceFault::DiskFull { .. } => full,
                    _ => ReplaceFault::Unkept {
                        path: path.clone(),
                        what: unkept.what,
                        cause: unkept.errno.to_string(),
                    },
                }
            })?,
            None => metadata::as_if_made_by_the_user(&made.file, 0o666, replacer.options.umask)
                .map_err(|errno| ReplaceFault::of(errno, path))?,
        }
        made.file.sync_all().map_err(|error| ReplaceFault::of_io(&error, path))?;
        Ok(made)
    }

    fn create(place: &'a Place, name: &'a CStr, is_new: bool) -> Result<Self, ReplaceFault> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // What replaces a file is private until it has that file's permissions.
        let mode = Mode::from_raw_mode(if is_new { 0o666 } else { 0o600 });
        let fault = |errno| ReplaceFault::of(errno, &place.path);
        let file = File::from(rustix::fs::openat(&place.directory, name, flags, mode).map_err(fault)?);
        let identity = sys::stat(&file).map_err(fault)?.identity();
        Ok(Self { directory: &place.directory, name, file, identity, given_away: false })
    }

    /// It has the name of the file now: dropping it removes nothing.
    pub(super) fn give_away(&mut self) {
        self.given_away = true;
    }

    /// SHA-256 of what can be read from it.
    pub(super) fn read_back(&self) -> Option<String> {
        hash(&self.file).ok()
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if !self.given_away {
            remove_if(self.directory, self.name, self.identity);
        }
    }
}

/// Removes a name if it stands for this very object. What cannot be removed now, reconciling finds.
pub(super) fn remove_if(directory: &OwnedFd, name: &CStr, identity: (u64, u64)) {
    if sys::stat_child(directory, name).is_ok_and(|found| found.identity() == identity) {
        let _ = rustix::fs::unlinkat(directory, name, AtFlags::empty());
    }
}

/// The name of an intent, as the system takes it; names that leave the directory are none.
pub(super) fn as_name(temporary: &str) -> Option<CString> {
    let is_plain = super::intent::is_temporary_name(temporary) && !temporary.contains('/');
    CString::new(temporary).ok().filter(|_| is_plain)
}
