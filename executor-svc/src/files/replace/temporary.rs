//! The temporary file beside the one that is replaced.

use std::cell::Cell;
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags};

use super::Replacer;
use super::current::{Current, has_bytes};
use super::fault::ReplaceFault;
use super::metadata;
use super::place::Place;
use super::steps::Step;
use crate::files::sys::{self, Facts};

/// A file of ours under a temporary name. Unless it was given away, it is removed when this is dropped.
#[derive(Debug)]
pub(super) struct Temporary<'a> {
    directory: &'a OwnedFd,
    pub name: &'a CStr,
    pub file: File,
    pub identity: (u64, u64),
    /// As it was made.
    facts: Facts,
    given_away: Cell<bool>,
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
            Some(current) => metadata::copy(current, &made.facts, &made.file).map_err(|unkept| {
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
        made.for_reading(path)
    }

    /// Open for reading only from now on: a descriptor of ours for writing would look like somebody else's.
    fn for_reading(mut self, path: &Path) -> Result<Self, ReplaceFault> {
        let file =
            sys::open_child(self.directory, self.name).map_err(|errno| ReplaceFault::of(errno, path))?;
        let now = sys::stat(&file).map_err(|errno| ReplaceFault::of(errno, path))?;
        if now.identity() != self.identity {
            let what = "another process replaced its temporary file";
            return Err(ReplaceFault::Conflict { path: path.to_owned(), what });
        }
        self.file = file;
        Ok(self)
    }

    fn create(place: &'a Place, name: &'a CStr, is_new: bool) -> Result<Self, ReplaceFault> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // What replaces a file is private until it has that file's permissions.
        let mode = Mode::from_raw_mode(if is_new { 0o666 } else { 0o600 });
        let fault = |errno| ReplaceFault::of(errno, &place.path);
        let file = File::from(rustix::fs::openat(&place.directory, name, flags, mode).map_err(fault)?);
        let facts = sys::stat(&file).map_err(fault)?;
        let (identity, given_away) = (facts.identity(), Cell::new(false));
        Ok(Self { directory: &place.directory, name, file, identity, facts, given_away })
    }

    /// It has the name of the file now: dropping it removes nothing.
    pub(super) fn give_away(&self) {
        self.given_away.set(true);
    }

    /// Whether it still has these bytes.
    pub(super) fn has(&self, bytes: &[u8]) -> bool {
        has_bytes(&self.file, bytes)
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if !self.given_away.get() {
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
